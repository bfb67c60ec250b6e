"""The verb ``certify``: how much can *any* learner leak about the rows of this table?"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from typing import Annotated, Any

from memberbound.certification.answer import (
    Certification,
    certified_fields,
    independent_units,
    whose_rows,
)
from memberbound.certification.law import certify_law, certify_uniform, read_probabilities
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    InputFile,
    Law,
    Names,
    Option,
    RecordsFile,
    Table,
    Whole,
)
from memberbound.discrete.certificates import CountCertificate, certify_counts
from memberbound.discrete.counts import CountProfile
from memberbound.discrete.extrapolation import leak_beyond_the_table
from memberbound.discrete.records import RecordLeaks, record_leaks
from memberbound.discrete.two_sample import JointProfile
from memberbound.errors import InputError, fraction, nonnegative, whole_number
from memberbound.games import IidGame
from memberbound.numerics.rounding import shared_confidence

__all__ = ["Certification", "certify", "certify_profile"]


def certify(
    table: Table | None = None,
    *,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    n: Whole | None = None,
    confidence: float = 0.95,
    nu: float = 0.5,
    lam: float = 1.0,
    probabilities: Law | None = None,
    uniform: Annotated[int, Option("whole", metavar="K")] | None = None,
    reference: InputFile | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    exposed_above: float = 0.5,
    list_exposed: Annotated[int, Option("whole", metavar="K", most=1000)] = 0,
    records: RecordsFile | None = None,
    force: Force = False,
) -> Certification:
    """Certify how much any learner whatsoever can leak about its training rows.

    Give one of: a ``table`` (a file or an object that :func:`memberbound.tables.open_table` reads),
    the ``probabilities`` of a known law, or ``uniform`` = K equally likely atoms (the last two with
    ``n``).

    Guarantee: with probability ≥ ``confidence`` over the rows of the table, ``delta_upper`` bounds
    the leak Δ of every learner trained on ``n`` rows (average record), and ``record_leak`` the
    leak about each row; each of the two holds with that confidence by itself.
    Theorem: A25-T14 for a law; X5 (n ≤ N) or X16 (n > N), X7 and X15 for a table.
    Assumes: the rows (with ``unit``, the units) are independent draws from one law.
    Edge cases: rows that are all distinct give 1: nothing can be certified, and that is an answer.

    Args:
        table: the rows; nulls are a category of their own.
        columns: the columns a learner sees; all but identifiers unless named.
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, where the
            inferred role is not the right one; identifiers are left out.
        n: training rows (with ``unit``, training units); all of the table unless given.
        confidence: 1 - β.
        nu: probability of a fresh test point.
        lam: weight of a missed member.
        probabilities: a law, as an array or a file with one column.
        uniform: number of equally likely atoms.
        reference: further rows of the same law, independent of the table's, that are not trained
            on.
        unit: column that says whose row it is; a person with several rows is one record, and all
            numbers of rows are then numbers of persons.
        database_table: the table inside a DuckDB or SQLite file.
        exposed_above: rows whose certified leak is larger are counted as exposed.
        list_exposed: how many of the exposed cells to list with their values, rarest first.
        records: file for the rows with their certified leak (.csv, .csv.gz or .parquet).
        force: overwrite ``records``.

    Command line:
        memberbound certify people.csv --columns education,sex,income
        memberbound certify visits.parquet --unit patient --records leaks.parquet
        memberbound certify --uniform 316 --n 32561

    Examples:
        >>> certify(uniform=316, n=32561).security_lower > 0.96
        True
    """
    game = IidGame(float(nu), float(lam))
    given = [
        name
        for name, value in (
            ("a table", table),
            ("probabilities", probabilities),
            ("uniform", uniform),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise InputError(
            "certify needs exactly one of a table, probabilities and uniform, got "
            + (" and ".join(given) or "none of them")
            + "."
        )
    if table is None:
        listed = list_exposed or None
        options = (columns, roles, reference, unit, database_table, records, listed)
        return _of_law(game, n, probabilities, uniform, *options)
    fraction("confidence", confidence, open_left=True, open_right=True)
    above = nonnegative("exposed_above", exposed_above)
    shown = whole_number("list_exposed", list_exposed, at_least=0)
    if n is not None:
        whole_number("n", n)
    from memberbound.tables import count_pair_profile, count_profile, open_table, write_records
    from memberbound.tables.population import is_array
    from memberbound.tables.roles import chosen_columns

    with open_table(table, database_table) as opened:
        selection = chosen_columns(opened, columns, roles, unit, array=is_array(table))
        chosen = list(selection.columns)
        joint = None
        if reference is not None:
            if unit is not None:
                raise InputError("a reference must be counted by rows, so unit must be left out.")
            pair = count_pair_profile(opened, reference, chosen)
            joint = JointProfile(pair.train, pair.reference, pair.cells)
            profile = joint.training()
        else:
            profile = count_profile(opened, chosen, unit)
        result = certify_profile(
            profile, n, confidence, game=game, reference=joint, exposed_above=above, unit=unit
        )
        result = replace(
            result,
            assumptions=(*result.assumptions, *selection.assumption),
            warnings=(*result.warnings, *selection.notes),
            roles=selection.roles,
        )
        if unit is None:
            result = replace(result, assumptions=(*result.assumptions, whose_rows(unit)))
        leaks = result.leaks
        assert leaks is not None
        if shown:
            if unit is not None:
                raise InputError("exposed cells are listed by rows, so unit must be left out.")
            result = replace(result, exposed=_rarest(opened, chosen, leaks, above, shown))
        if records is None:
            return result
        by_count = {int(c): float(v) for c, v in zip(profile.count, leaks.leak, strict=True)}
        write_records(opened, chosen, by_count, records, unit=unit, overwrite=force)
    return replace(result, records_out=str(records))


def certify_profile(
    profile: CountProfile,
    n: int | None = None,
    confidence: float = 0.95,
    *,
    game: IidGame | None = None,
    reference: JointProfile | None = None,
    exposed_above: float = 0.5,
    unit: str | None = None,
) -> Certification:
    """Certify from the counts of counts alone; see :func:`certify`.

    With ``unit`` the profile counts different values of that column, each with all its rows.
    """
    rules = game or IidGame()
    size = profile.rows if n is None else whole_number("n", n)
    if size > profile.rows:
        found = _beyond(profile, size, confidence, reference)
        if rules.gamma != 1:
            found = replace(found, theorems=(*found.theorems, "X13"))
    else:
        found = certify_counts(
            profile, size, confidence, nu=rules.nu, lam=rules.lam, reference=reference
        )
    leaks = record_leaks(profile, size, confidence)
    assumptions = [_sentence(text) for text in found.assumptions]
    same = "rows that agree in them are the same to it."
    warnings = found.warnings
    if unit is not None:
        who = f"values of “{unit}”"
        assumptions[0] = independent_units(unit)
        same = f"{who} whose rows agree in them, in whatever order, are the same to it."
        warnings = tuple(
            w.replace(f"{profile.rows} rows", f"{profile.rows} {who}") for w in warnings
        )
    return Certification(
        certified_fields(found, leaks, rules, exposed_above),
        rules,
        (*found.theorems, "X7", "X15"),
        (
            *assumptions,
            f"A learner sees the chosen columns only, and {same}",
            "The leak of the table and the leaks of its records each hold with the stated "
            "confidence by themselves.",
        ),
        warnings,
        unit=unit,
        leaks=leaks,
    )


def _beyond(
    profile: CountProfile, n: int, confidence: float, reference: JointProfile | None
) -> CountCertificate:
    """More training rows than the table has (X16), or the table's own leak, which never rises."""
    half = shared_confidence(confidence, 2)
    inside = certify_counts(profile, None, half, reference=reference)
    outside = leak_beyond_the_table(profile, n, half)
    best = min(inside.delta_upper, outside)
    method = "extrapolated count function" if outside <= inside.delta_upper else inside.method
    return replace(
        inside,
        delta_upper=best,
        method=method,
        confidence=confidence,
        n=n,
        theorems=("A25-T14", "X5", "X16"),
        candidates={**inside.candidates, "extrapolated count function": outside},
    )


def _rarest(
    table: Any, columns: Any, leaks: RecordLeaks, above: float, shown: int
) -> tuple[dict[str, Any], ...]:
    """Return the rarest exposed cells, their values and what is certified about them."""
    from memberbound.tables import cell_counts

    by_count = {int(c): float(v) for c, v in zip(leaks.profile.count, leaks.leak, strict=True)}
    limit = max((c for c, v in by_count.items() if v > above), default=0)
    if limit == 0:
        return ()
    name = "rows"
    while name in table.columns:
        name += "_"
    found: list[tuple[int, dict[str, Any]]] = []
    for batch in cell_counts(table, columns, at_most=limit, count_name=name):
        found += [(row.pop(name), row) for row in batch.to_pylist()]
        # Never more than a batch and the list itself in memory.
        found = heapq.nsmallest(shown, found, key=lambda item: (item[0], str(item[1])))
    return tuple(
        {"rows": count, "leak_upper": by_count[count], "values": _plain(values)}
        for count, values in found
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON can hold them."""
    return {
        str(name): value
        if value is None or isinstance(value, (str, int, bool))
        else (value if isinstance(value, float) and math.isfinite(value) else str(value))
        for name, value in values.items()
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _of_law(
    game: IidGame,
    n: int | None,
    probabilities: Any,
    uniform: int | None,
    *table_options: object,
) -> Certification:
    if n is None:
        raise InputError("n must be given with a law: the number of rows trained on.")
    if any(option is not None for option in table_options):
        raise InputError(
            "columns, roles, reference, unit, database_table, records and list_exposed belong to a "
            "table, not to a law."
        )
    if uniform is not None:
        return certify_uniform(uniform, n, game)
    return certify_law(read_probabilities(probabilities), n, game)
