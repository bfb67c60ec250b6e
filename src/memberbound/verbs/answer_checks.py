"""Checks of answers: recompute a printed answer, or a report, from the records in it (X34).

``verify`` reads the output of ``--json``.  An answer of the i.i.d. game is recomputed from its
counts and compared key by key.  An answer of the subset game is checked as far as possible without
the table, and completely with it.  For the neighbour game, the checks of the certificate apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from memberbound.answers import Answer, Printed, plain
from memberbound.curve.families import GaussianCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.games import IidGame, SubsetGame
from memberbound.iid.count_record import CountRecord
from memberbound.iid.leak_bounds import LeakBounds, RecordLeak, accuracy_from_leak
from memberbound.numerics.rounding import down, sum_up
from memberbound.quantities import Side, allowed, numbers_in, percent, side_below
from memberbound.release.coarse_table import certify_released
from memberbound.release.derivation import SEAL, statement
from memberbound.release.verification import (
    Check,
    CheckFailed,
    recompute_fields,
    require,
    run_check,
)
from memberbound.subset.gaussian import dp_from_noise, noise_on_sum
from memberbound.subset.population_record import PopulationRecord
from memberbound.tables.counting import count_profile
from memberbound.tables.opening import use_table
from memberbound.verbs.answer_comparison import MACHINES, compare_answers, differences
from memberbound.verbs.certify import certify_law, certify_profile
from memberbound.verbs.plan import plan_for_counts, plan_for_law
from memberbound.verbs.population import population

if TYPE_CHECKING:
    from memberbound.iid.profiles import CountProfile

_SIDES: tuple[Side, ...] = ("upper", "lower", "estimate", "given")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?: %| points)?")
_PER_CENT = re.compile(r"[0-9.]+ %")
_OWNER = (
    "The bounds on single records follow from all distances between records: only a holder of "
    "the table can recompute them, with verify --table."
)
#: Facts that the record of a table or of a population cannot prove, by verb.
UNCHECKED: dict[str, tuple[str, ...]] = {
    "certify": ("The counts are those of the table; its owner can check that with --table.",),
    "plan": ("The counts are those of the table; its owner can check that with --table.",),
    "harden": (
        "The numbers about the input table, and the estimates of the information kept.",
        "The counts are those of the released rows; verify the released file for that.",
    ),
    "population": (_OWNER,),
}


def is_answer(content: object) -> bool:
    """Return whether a document is an answer with a record, or a report with such answers."""
    if not isinstance(content, Mapping):
        return False
    known = content.get("command") in _CHECKS and isinstance(content.get("derivation"), Mapping)
    return known or any(is_answer(step) for _, step in _steps(content))


def check_answer(printed: Printed, table: object = None) -> Iterator[Check]:
    """Yield the checks of an answer, or of every answer with a record in a report.

    Theorem: X34 (proofs/verification.md, section 9).
    """
    for name, step in _steps(printed):
        if is_answer(step):
            for check in _check_verb(step, None):
                yield replace(check, name=f"{name}: {check.name}")
    if printed.get("command") == "study":
        yield run_check("ceilings", partial(_ceilings, printed))
    else:
        yield from _check_verb(printed, table)


def _check_verb(printed: Printed, table: object) -> Iterator[Check]:
    """Yield the checks of an answer: of its game, and those specific to its verb."""
    verb = printed["command"]
    wanted = _GAMES.get(verb, ("neighbour", "every record"))

    def game() -> str:
        stated = printed["game"], printed["protects"]
        require(stated == wanted, f"{verb} is about the {wanted[0]} game and protects {wanted[1]}")
        return f"the {wanted[0]} game; protects {wanted[1]}"

    yield run_check("game", game)
    yield from _CHECKS[verb](printed, table)


def _steps(content: Printed) -> Iterator[tuple[str, Printed]]:
    """Yield the steps of a report by name, with the answers of their verbs."""
    steps = content.get("steps")
    if content.get("command") != "study" or not isinstance(steps, list):
        return
    for step in steps:
        if isinstance(step, Mapping) and isinstance(step.get("result"), Mapping):
            yield str(step.get("id")), step["result"]


#: Game and protected record of the answers, by verb.
_GAMES = {
    **dict.fromkeys(("certify", "plan", "harden"), ("iid", "average record")),
    "population": ("subset", "every record"),
}
#: The step that proves the ceiling, by subject or remedy of a report.
_PROVED_BY = {
    "noise-every": "protect-every",
    "noise-other": "protect-other",
    "table": "certify",
    "coarser-table": "coarser",
    "nothing": "certify",
}


def _ceilings(report: Printed) -> str:
    """Check that a report's summary promises no more than its steps certify."""
    proved = {name: _promises(step) for name, step in _steps(report)}
    whole = set().union(*proved.values(), {1.0, sum_up(0.5, report["question"]["eta"])})
    rows = [*report["sandwich"], *report["remedies"]]
    for row in rows:
        name = row.get("subject", row.get("id"))
        known = {1.0, *proved.get(_PROVED_BY.get(name, name), whole)} | (
            whole if name == "rows" else set()
        )
        stated = row["accuracy_upper"]
        require(stated is None or stated in known, f"{stated} of {name} is in no step")
    shown = {
        percent(value, side)
        for value in (*_doubles(rows), *_doubles(report["question"]), 0.5)
        if 0 <= value <= 1
        for side in _SIDES
    }
    blind = {row["blind"] for row in report["sandwich"]}
    shown |= {allowed(each, report["question"]["eta"]) for each in blind}
    for text in report["verdict"].values():
        wrong = [each for each in _PER_CENT.findall(text) if each not in shown]
        require(not wrong, f"the verdict prints {', '.join(wrong)}, which no row contains")
    return f"{len(rows)} rows of the summary and the verdict repeat what the steps certify"


def _promises(step: Printed) -> set[float]:
    """Return the success rates that follow from the upper bounds of an answer."""
    bounds = [
        value
        for path, value, _ in numbers_in(step, None)
        if path.endswith(("upper", "max")) and 0 <= value <= 1
    ]
    return {f(value) for value in bounds for f in (float, accuracy_from_leak, _after_gain)}


def _after_gain(eta: float) -> float:
    return min(1.0, sum_up(0.5, eta))


def _doubles(value: object) -> list[float]:
    return [number for _, number, _ in numbers_in({"": value}, None)]


# ── The i.i.d. game ───────────────────────────────────────────────────────────────────────────────


def _counted(printed: Printed) -> tuple[CountRecord, IidGame]:
    return CountRecord.of_dict(printed["derivation"]), IidGame(printed["nu"], printed["lam"])


def _certification(printed: Printed) -> Answer:
    record, game = _counted(printed)
    if record.profile is None:
        law = None if record.uniform is not None else record.law
        return certify_law(record, law, printed["n"], game)
    return certify_profile(
        record.profile,
        printed["n"],
        printed["confidence"],
        game=game,
        reference=record.joint,
        unit=printed["unit"],
    )


def _plan(printed: Printed) -> Answer:
    record, game = _counted(printed)
    wishes = printed["security"], printed["record_leak"]
    if record.profile is None:
        law = None if record.uniform is not None else record.law
        return plan_for_law(*wishes, game, law, record)
    return plan_for_counts(
        record.profile, *wishes, printed["confidence"], game=game, unit=printed["unit"]
    )


def _check_counts(
    recompute: Callable[[Printed], Answer], printed: Printed, table: object
) -> Iterator[Check]:
    yield from compare_answers(printed, partial(recompute, printed))
    if table is None:
        return

    def counts() -> str:
        record = CountRecord.of_dict(printed["derivation"])
        recorded, columns = record.profile, list(record.columns)
        if recorded is None:
            raise CheckFailed("the answer is about a law, not about a table")
        with use_table(table) as opened:
            counted = count_profile(opened, columns, printed["unit"])
        require(same_counts(counted, recorded), "the table has other counts")
        return f"the table has the {recorded.atoms} recorded cells"

    yield run_check("counts of the table", counts)


def same_counts(one: CountProfile, other: CountProfile) -> bool:
    """Return whether two tables have the same counts of counts."""
    return np.array_equal(one.count, other.count) and np.array_equal(one.cells, other.cells)


def _check_hardening(printed: Printed, _table: object) -> Iterator[Check]:
    def after() -> str:
        from memberbound.verbs.harden import Hardening

        profile = CountRecord.of_dict(printed["derivation"]).profile
        assert profile is not None
        wanted = plain(certify_released(profile, printed["after"]["confidence"]))
        sides = side_below(Hardening.SIDES, "after")
        problem = next(differences(printed["after"], wanted, sides, "after."), None)
        require(problem is None, str(problem))
        require(printed["rows_released"] == profile.rows, "another number of rows is printed")
        for key, least, most in (
            ("security", printed["security"], wanted["security_lower"]),
            ("record_leak", wanted["record_leak"]["max"], printed["record_leak"]),
        ):
            unasked = printed[key] is None
            require(unasked or least <= most * (1 + MACHINES), f"{key} is not reached")
        return f"{len(wanted)} bounds follow from the counts"

    def sentence() -> str:
        from memberbound.verbs.harden import hardening_sentence

        stated = stated_bounds(printed["after"])
        before, how = printed["before"]["security_lower"], printed["validity"]
        wanted = [hardening_sentence(before, stated, how, one, IidGame()) for one in (None, "")]
        require(printed["sentence"] in wanted, f"the sentence must read: {wanted[0]}")
        return "the sentence is the one of its numbers"

    yield run_check("numbers", after)
    yield run_check("sentence", sentence)


def stated_bounds(printed: Printed) -> LeakBounds:
    """Return the printed bounds that a sentence states."""
    names = ("rows", "n", "atoms", "delta_upper", "security_lower", "accuracy_upper", "confidence")
    stated = {name: printed[name] for name in names}
    return LeakBounds(**stated, method="", record_leak=RecordLeak(1.0, 1.0, 1.0))


# ── The subset game ───────────────────────────────────────────────────────────────────────────────


def _check_population(printed: Printed, table: object) -> Iterator[Check]:
    yield run_check("mechanism", partial(_mechanism, printed))
    if table is None:
        return
    found: list[Answer] = []

    def rows() -> str:
        record = PopulationRecord.of_dict(printed["derivation"])
        exponential = printed["mechanism"] == "exponential"
        if exponential:
            require(record.candidates is not None, "the record has no candidates: too many")
        amount = {record.asked: record.amount, "delta": printed["delta"], "clip": record.clip}
        own = {"candidates": record.candidates, "subsets": record.subsets, "seed": record.seed}
        again = population(
            table,
            mechanism=printed["mechanism"],
            sensitivity=record.sensitivity,
            size=printed["size"],
            columns=list(record.columns),
            unit=record.unit,
            **amount,
            **(own if exponential else {"query": printed["query"]}),
        )
        found.append(again)
        same = again.derivation.rows_sha256 == record.rows_sha256
        require(same, "the table's records have another SHA-256")
        return f"the {again.records} records have the recorded SHA-256"

    yield run_check("records of the table", rows)
    if found:
        yield from compare_answers(printed, lambda: found[0])


def _mechanism(printed: Printed) -> str:
    """Check the numbers that follow from the noise and the largest distances alone."""
    record, game = (
        PopulationRecord.of_dict(printed["derivation"]),
        SubsetGame(printed["records"], printed["size"]),
    )
    success, inside, worst = (
        printed[f"success_{name}upper"] for name in ("", "population_", "worst_case_")
    )
    require(game.blind <= success <= inside <= worst <= 1, "the success rates are not in order")
    limits = [printed["epsilon"], printed["epsilon_population"], printed["pmp_epsilon_upper"]]
    ends = [np.inf if value is None else value for value in limits]
    require(ends == sorted(ends, reverse=True), "the values of ε are not in order")
    gain = success - game.blind
    require(printed["eta_upper"] >= gain * (1 - MACHINES), "η is below the gain over guessing")
    most = max((each["success_upper"] for each in printed["most_exposed"]), default=0.0)
    require(most <= success, "a record is more exposed than the most exposed one")
    if printed["mechanism"] == "gaussian":
        _normal_noise(printed, record, game)
    else:
        for name, epsilon in (("worst_case", "epsilon"), ("population", "epsilon_population")):
            curve = guarantee_from_epsilon_delta([(printed[epsilon], 0.0)]).curve
            least = curve.accuracy(game.prior) * (1 - MACHINES)
            require(printed[f"success_{name}_upper"] >= least, f"success_{name}_upper is too small")
    if record.asked in ("epsilon", "sigma"):
        require(printed[record.asked] == record.amount, f"{record.asked} is not as requested")
    return "ε, the success rates of the stronger attackers and η fit the mechanism"


def _normal_noise(printed: Printed, record: PopulationRecord, game: SubsetGame) -> None:
    require(record.reach is not None and record.divisor is not None, "the record is incomplete")
    assert record.reach is not None
    assert record.divisor is not None
    require(record.diameter <= record.reach, "the records differ by more than the sensitivity")
    noise = noise_on_sum(printed["sigma"], record.divisor)
    for name, moved in (("", record.reach), ("_population", record.diameter)):
        stated = printed[f"epsilon{name}"]
        least = dp_from_noise(noise, printed["delta"], moved)
        require(stated is None or stated >= least * (1 - MACHINES), f"epsilon{name} is too small")
    for name, moved in (("worst_case", record.reach), ("population", record.diameter)):
        reached = game.blind
        if moved > 0:
            reached = GaussianCurve(down(moved / noise, 1)).accuracy(game.prior)
        stated = printed[f"success_{name}_upper"]
        require(stated >= reached * (1 - MACHINES), f"success_{name}_upper is too small")


# ── The neighbour game ────────────────────────────────────────────────────────────────────────────


def _check_all_rows(printed: Printed, _table: object) -> Iterator[Check]:
    """Check an answer about all rows like the certificate that it would have."""
    record = printed["derivation"]
    certificate = {
        "file": "",
        "sha256": "0" * 64,
        SEAL: "0" * 64,
        "kind": printed["command"],
        "record": "every",
        "secure_source": True,
        "rows_trained": printed.get("rows_trained", printed.get("records")),
        "unit": record.get("unit"),
    }
    names = ("version", "eta", "mu", "certificate", "curve", "groups", "derivation")
    certificate |= {name: printed.get(name) for name in names}
    try:
        accuracy = printed["curve"]["replace_one"]["accuracy_upper"]
        certificate["statement"] = statement(accuracy, record.get("unit"))
    except (LookupError, TypeError, ValueError, ArithmeticError):
        pass  # the schema check reports it
    yield from recompute_fields(certificate)

    def sentence() -> str:
        most = percent(printed["curve"]["replace_one"]["accuracy_upper"], "upper")
        more = percent(printed["certificate"]["upper"], "upper")
        known = {most, "50 %", f"{more.removesuffix(' %')} points", str(record["records"])}
        text = printed["sentence"].replace(printed.get("what", "\n"), "")
        if record["unit"] is not None:
            text = text.replace(repr(record["unit"]), "")
        found = _NUMBER.findall(text)
        require(set(found) <= known and most in found, f"the sentence must say {most}")
        return "the sentence states the bound"

    yield run_check("sentence", sentence)


_CHECKS: dict[str, Callable[[Printed, object], Iterator[Check]]] = {
    "certify": partial(_check_counts, _certification),
    "plan": partial(_check_counts, _plan),
    "harden": _check_hardening,
    "population": _check_population,
    **dict.fromkeys(("protect", "summarize", "synthesize"), _check_all_rows),
}


def has_owners_bounds(content: Printed) -> bool:
    """Return whether an answer or a report has bounds that only the table's owner can recompute."""
    answers = (content, *(step for _, step in _steps(content)))
    return any(answer.get("command") == "population" for answer in answers)


def unchecked(content: Printed) -> tuple[str, ...]:
    """Return the facts that an answer or a report alone cannot prove."""
    names = [content.get("command"), *(step.get("command") for _, step in _steps(content))]
    listed = chain.from_iterable(UNCHECKED.get(str(name), ()) for name in names)
    return tuple(dict.fromkeys(listed))
