"""The verb ``harden``: coarsen a table until no learner can leak too much about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    InputFile,
    Names,
    NumbersByColumn,
    Option,
    OutputFile,
    Seed,
    Table,
)
from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.files import check_output, write_table, write_text
from memberbound.games import IidGame
from memberbound.hardening import (
    Choice,
    FrontierPoint,
    State,
    Wish,
    cell_profile,
    choose,
    evidence,
    frontier,
)
from memberbound.learners.examples import column_encoder
from memberbound.quantities import (
    Readable,
    Sides,
    at_confidence,
    common_fields,
    decimals,
    json_number,
    marked,
    percent,
    significant,
    vacuous,
)
from memberbound.tables.coarsening import Coarsener, checked_frame, read_hierarchy
from memberbound.tables.in_memory import (
    check_target_role,
    first_rows,
    read_frame,
    readings_of,
)
from memberbound.tables.recipe import Keep, labels_of
from memberbound.tables.roles import Reading, Selection, numbers_from, selected
from memberbound.tables.source import Columns, header_notes
from memberbound.verbs.certify import CERTIFIED, Certified

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from sklearn.base import BaseEstimator


__all__ = [
    "LEARNERS",
    "LEAST_ROWS",
    "VALIDITIES",
    "FrontierPoint",
    "Hardening",
    "Parts",
    "Release",
    "accuracy_estimates",
    "as_read",
    "check_columns",
    "harden",
    "read",
    "released",
    "split_rows",
    "wished",
]

# ── The question put to ``harden``: its limits and columns checked, its tables read ───────────────

#: Fewer rows certify nothing worth having.
LEAST_ROWS = 20


def wished(
    *,
    security: float | None,
    record_leak: float | None,
    target: str | None,
    keep: Sequence[str],
    bins: Mapping[str, Sequence[float]] | None,
    hierarchies: Mapping[str, str | Path | Mapping[str, object]] | None,
    confidence: float,
    seed: int,
) -> Wish:
    """Return the wish, or refuse what cannot be wished for."""
    if security is None and record_leak is None:
        raise InputError("security or record_leak must be given, got neither.")
    limits = {"security": security, "record_leak": record_leak}
    for name, value in limits.items():
        if value is not None:
            limits[name] = fraction(name, value, open_left=True, open_right=True)
    both = sorted(set(bins or {}) & set(hierarchies or {}))
    if both:
        raise InputError(f"a column must have bins or a hierarchy, got both for {both!r}.")
    return Wish(
        limits["security"],
        limits["record_leak"],
        target,
        (keep,) if isinstance(keep, str) else tuple(keep),
        {c: [float(e) for e in edges] for c, edges in (bins or {}).items()},
        {c: read_hierarchy(given) for c, given in (hierarchies or {}).items()},
        fraction("confidence", confidence, open_left=True, open_right=True),
        whole_number("seed", seed, at_least=0),
    )


def read(
    table: object,
    columns: Columns = None,
    target: str | None = None,
    *,
    database_table: str | None = None,
    unit: str | None = None,
) -> DataFrame:
    """Return a table in memory, its values as they are written; of named columns only those.

    With ``unit`` the first row of each of its values is kept.
    """
    frame, name = read_frame(table, database_table)
    if unit is not None:
        frame, _ = first_rows(frame, unit, name, used=() if target is None else (target,))
    frame = checked_frame(frame)
    if columns is None:
        return frame
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in frame.columns:
            known = ", ".join(frame.columns)
            raise InputError(f"columns must be columns of the table ({known}), got {name!r}.")
    return frame[[c for c in frame.columns if c in names or c == target]]


def as_read(frame: DataFrame, readings: Mapping[str, Reading]) -> DataFrame:
    """Return the table with written numbers as numbers; what is no number becomes missing.

    Dates stay as they are written: their rule reads them.
    """
    written = [
        c
        for c in frame.columns
        if readings[c].role == "number"
        and readings[c].form in ("number", "comma")
        and not is_numeric(frame[c])
    ]
    return frame.assign(**{c: numbers_from(frame[c], readings[c].form) for c in written})


def is_numeric(series: Series) -> bool:
    """Tell whether a column is typed as numbers."""
    from pandas.api import types

    return bool(types.is_numeric_dtype(series) or types.is_timedelta64_dtype(series))


def check_columns(frame: DataFrame, wish: Wish, reference: DataFrame | None) -> None:
    """Refuse columns that the tables do not have, and tables too short to say anything."""
    for name, columns in (
        ("target", () if wish.target is None else (wish.target,)),
        ("keep", wish.keep),
        ("bins", tuple(wish.edges)),
        ("hierarchies", tuple(wish.hierarchies)),
    ):
        for column in columns:
            if column not in frame.columns:
                known = ", ".join(map(str, frame.columns))
                raise InputError(f"{name} must be a column of the table ({known}), got {column!r}.")
    if len(frame) < LEAST_ROWS:
        raise InputError(f"the table must have at least {LEAST_ROWS} rows, got {len(frame)}.")
    if reference is not None:
        absent = [c for c in frame.columns if c not in reference.columns]
        if absent or len(reference) < LEAST_ROWS:
            raise InputError(
                f"reference must have the table's columns and at least {LEAST_ROWS} rows, "
                f"missing {absent!r} at {len(reference)} rows."
            )


# ── The answer of ``harden`` ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Hardening(Readable):
    """A coarsened table with its certificate.

    ``table`` holds the released rows, ``coarsener`` the recipe that made them.  ``before`` and
    ``after`` are dictionaries as ``certify`` gives them, of the table read and the rows released.
    """

    SIDES: ClassVar[Sides] = {
        "accuracy_estimate": "estimate",
        "after": CERTIFIED,
        "before": CERTIFIED,
        "frontier_estimate": "estimate",
        "information_estimate": "estimate",
        "information_kept_estimate": "estimate",
        "record_leak": "given",
        "security": "given",
    }

    table: DataFrame = field(repr=False)
    coarsener: Coarsener = field(repr=False)
    before: Certified
    after: Certified
    steps: tuple[str, ...]
    information_estimate: float
    information_kept_estimate: float | None
    measure: str
    frontier: tuple[FrontierPoint, ...] = field(repr=False)
    security: float | None
    record_leak: float | None
    target: str | None
    validity: str
    rows_read: int
    rows_fitted: int
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    accuracy: Mapping[str, Mapping[str, float] | None] | None = None
    out: str | None = None
    recipe_out: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        return common_fields("harden", IidGame(), self.theorems, self.assumptions) | {
            "before": dict(self.before),
            "after": dict(self.after),
            "steps": list(self.steps),
            "information_kept_estimate": _number(self.information_kept_estimate),
            "out": self.out,
            "security": self.security,
            "record_leak": self.record_leak,
            "target": self.target,
            "validity": self.validity,
            "rows_read": self.rows_read,
            "rows_fitted": self.rows_fitted,
            "rows_released": len(self.table),
            "information_estimate": _number(self.information_estimate),
            "information_measure": self.measure,
            "accuracy_estimate": None
            if self.accuracy is None
            else {when: None if v is None else dict(v) for when, v in self.accuracy.items()},
            "frontier_estimate": [
                {"information": p.information_estimate, "security": p.security_estimate}
                for p in self.frontier
            ],
            "recipe": self.recipe_out,
            "roles": dict(self.roles),
            "warnings": list(self.warnings),
            "sentence": self.sentence,
        }

    @property
    def _unless(self) -> str:
        """What else may be seen, and would say more than the released rows do."""
        return {
            "split": " who does not know which rows were picked for release",
            "union": " who learns nothing from the choice of this recipe",
        }.get(self.validity, "")

    @property
    def sentence(self) -> str:
        """What is certified about the released rows."""
        after = self.after
        sure = at_confidence(after["confidence"])
        if vacuous(after["delta_upper"], "delta"):
            return f"Nothing useful is proved about the {len(self.table)} released rows{sure}."
        was = marked(self.before["security_lower"], "certificate", "security", 6)
        return (
            f"Whatever is trained on the {len(self.table)} released rows, nobody{self._unless} is "
            "right about the membership of the average record more than "
            f"{percent(after['accuracy_upper'], 'upper')} of the time{sure}: MIS "
            f"{marked(after['security_lower'], 'certificate', 'security', 6)} (before: {was})."
        )

    def summary(self) -> str:
        """Return the answer as a short text."""
        lines = [
            self.sentence,
            "",
            f"{'':<34}{'before':>18}   after",
            self._row("cells", lambda side: side["atoms"]),
            self._row("leak Δ, any learner", lambda side: _leak(side["delta_upper"], "delta")),
            self._row("record leak, worst row", lambda side: _leak(side["record_leak"]["max"])),
            self._row(
                "rows that may leak more than 0.5", lambda side: side["record_leak"]["exposed_rows"]
            ),
        ]
        for name in (self.accuracy or {}).get("after") or {}:
            both = [(self.accuracy or {}).get(when) or {} for when in ("before", "after")]
            seen = [f"≈ {decimals(v.get(name, 0.0), 'estimate', 3)}" for v in both]
            lines.append(_line(f"accuracy, {name}", *seen))
        if self.information_kept_estimate is not None:
            lines.append(
                f"{self.measure} kept: {marked(self.information_kept_estimate, 'estimate')} of the "
                "most that any coarsening tried kept, on the fitting rows"
            )
        lines += ["", *(f"- {step}" for step in self.steps)]
        lines += [f"note: {note}." for note in self.warnings]
        return "\n".join(lines)

    def _row(self, name: str, pick: Callable[[Certified], object]) -> str:
        return _line(name, pick(self.before), pick(self.after))


def _line(name: str, before: object, after: object) -> str:
    return f"{name:<34}{before!s:>18} → {after}"


def _number(value: float | None) -> float | None:
    return None if value is None else json_number(value)


def _leak(value: float, quantity: str = "leak") -> str:
    return str(marked(value, "certificate", quantity, 6))


# ── Accuracy of three everyday learners on a table, by cross-validation: estimates only ───────────

LEARNERS = ("logistic", "tree", "knn")
#: Rows used at most: k nearest neighbours takes time that grows with the square of the rows.
_ROWS = 4_000
_FOLDS = 3


def accuracy_estimates(
    features: DataFrame,
    target: Series,
    forms: Mapping[str, str],
    seed: int = 0,
    rows: int = _ROWS,
) -> Mapping[str, float] | None:
    """Return the cross-validated accuracy of each learner, or None where it means nothing.

    ``forms`` says which columns are numbers, and how they are written.
    Nothing can be validated when fewer than two values of the target have one row per fold.
    """
    from sklearn.model_selection import StratifiedKFold

    chosen = np.sort(np.random.default_rng(seed).permutation(len(features))[:rows])
    codes, _ = labels_of(target.iloc[chosen])
    common = np.bincount(codes)[codes] >= _FOLDS
    chosen, codes = chosen[common], codes[common]
    if np.unique(codes).size < 2 or features.shape[1] == 0:
        return None
    table = features.iloc[chosen].reset_index(drop=True)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    scores: dict[str, list[float]] = {name: [] for name in LEARNERS}
    for inside, outside in folds.split(table, codes):
        # Encoded once for all learners, which takes longer than most of them.
        known = table.iloc[inside]
        encoder = column_encoder(known, forms, whole=True)
        fitted, asked = encoder.fit_transform(known), encoder.transform(table.iloc[outside])
        for name, found in scores.items():
            try:
                model = _learner(name, seed).fit(fitted, codes[inside])
                found.append(float(model.score(asked, codes[outside])))
            except ValueError:  # fewer rows than neighbours
                found.append(np.nan)
    return {name: float(np.mean(found)) for name, found in scores.items()}


def _learner(name: str, seed: int) -> BaseEstimator:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if name == "tree":
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(min_samples_leaf=10, random_state=seed)
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_neighbors=15)


# ── Rows to choose on, rows to release, and the one certificate that decides (X18) ────────────────

VALIDITIES = ("split", "union")
#: Rows a recipe is fitted on at most: it needs no more, and each one is a row not released.
_FIT_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows for choosing and rows to be certified and released."""

    fitting: DataFrame
    released: DataFrame
    validity: str

    def note(self, candidates: int) -> str:
        """Say why the certificate holds although the recipe was chosen on data."""
        if self.validity == "union":
            return (
                f"the recipe was chosen among {candidates} candidates fixed without looking at any "
                "row, and the certificate pays for all of them (union bound); which one was chosen "
                "is seen as well, and is not counted as a release"
            )
        if self.validity == "reference":
            return (
                f"the recipe was fitted and chosen on {len(self.fitting)} rows of a reference "
                "table that are independent of the released ones (no person is in both); what the "
                "recipe says about those rows is not certified"
            )
        return (
            f"the recipe was fitted and chosen on {len(self.fitting)} rows that are not released; "
            "what the recipe says about those rows is not certified; rows were picked for release "
            "by their place in the table and the seed, so whoever knows both knows who was picked"
        )


@dataclass(frozen=True, eq=False)
class Release:
    """The coarsened rows with their certificate, and how they were made."""

    state: State
    coarsener: Coarsener
    table: DataFrame
    after: Certified


def split_rows(
    frame: DataFrame, reference: DataFrame | None, validity: str, share: float, seed: int
) -> Parts:
    """Return the rows to choose on and the rows to release."""
    order = np.random.default_rng(seed)
    if reference is not None:
        # More rows than will be certified would make the search too optimistic about cell sizes.
        size = min(len(reference), len(frame), _FIT_ROWS)
        chosen = np.sort(order.permutation(len(reference))[:size])
        return Parts(reference.iloc[chosen][list(frame.columns)], frame, "reference")
    if validity == "union":
        chosen = np.sort(order.permutation(len(frame))[:_FIT_ROWS])
        return Parts(frame.iloc[chosen], frame, "union")
    size = min(max(1, int(share * len(frame) + 0.5)), _FIT_ROWS, len(frame) - 1)
    chosen = np.zeros(len(frame), dtype=bool)
    chosen[order.permutation(len(frame))[:size]] = True
    return Parts(frame[chosen], frame[~chosen], "split")


def released(choice: Choice, parts: Parts, wish: Wish) -> Release:
    """Certify the chosen recipe on the released rows, or refuse.

    With a split exactly one recipe is tried: refusing to release is a function of the coarsened
    rows, but trying a second recipe would be a choice made on rows that are released (X18).
    """
    union = parts.validity == "union"
    tries = choice.ranked if union else choice.ranked[:1]
    reached: list[Release] = []
    for state in tries:
        coarsener = choice.coarsener(state).fit(parts.fitting)
        table = coarsener.transform(parts.released).reset_index(drop=True)
        if table.shape[1] == 0:
            continue
        shared = choice.candidates if union else 1
        after = evidence(cell_profile(table), wish.confidence, shared)
        reached.append(Release(state, coarsener, table, after))
        if _meets(after, wish):
            return reached[-1]
    raise InputError(_refusal(choice, parts, wish, reached))


def _meets(after: Certified, wish: Wish) -> bool:
    return float(after["delta_upper"]) <= wish.leak and (
        wish.record_leak is None or float(after["record_leak"]["max"]) <= wish.record_leak
    )


def _refusal(choice: Choice, parts: Parts, wish: Wish, reached: Sequence[Release]) -> str:
    wanted = []
    if wish.security is not None:
        wanted.append(f"security {significant(wish.security, 'given')}")
    if wish.record_leak is not None:
        wanted.append(f"record leak {significant(wish.record_leak, 'given')}")
    if reached:
        best = min(reached, key=lambda f: float(f.after["delta_upper"])).after
        said = (
            "the chosen recipe certifies only security "
            f"{marked(best['security_lower'], 'certificate', 'security', 6)} and record leak "
            f"{marked(best['record_leak']['max'], 'certificate', 'leak', 6)}"
        )
    else:
        expected = decimals(max(0.0, 1 - choice.best_leak), "estimate", 6)
        said = f"the best expected was security ≈ {expected}"
    return (
        f"{' and '.join(wanted)} must be within reach of {len(parts.released)} released rows, but "
        f"{said}. Keep fewer columns, give a coarser target, or ask for less."
    )


# ── The verb ``harden``: coarsen a table until any model trained on it is certified to be safe ────

#: Learners are trained by default only where that takes seconds.
_LEARNER_ROWS = 50_000


def harden(
    table: Table,
    *,
    security: float | None = None,
    record_leak: float | None = None,
    target: Column | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    keep: Names = (),
    out: OutputFile | None = None,
    confidence: float = 0.95,
    seed: Seed = 0,
    force: Force = False,
    bins: NumbersByColumn | None = None,
    hierarchies: Annotated[
        Mapping[str, str | Path | Mapping[str, object]],
        Option("text by column", flag="--hierarchy", metavar="COL=FILE", web=False),
    ]
    | None = None,
    validity: Literal["split", "union"] = "split",
    fit_share: float = 0.25,
    reference: InputFile | None = None,
    recipe: OutputFile | None = None,
    learners: bool | None = None,
    width: Annotated[int, Option("whole", web=False)] = 4,
) -> Hardening:
    """Coarsen a table until no learner trained on it can leak too much, certified.

    Guarantee: with probability ≥ ``confidence`` over the rows, ``after["delta_upper"]`` ≥ Δ of
    *every* learner trained on the released rows (average record); likewise
    ``after["record_leak"]["max"]`` for every released row.  With ``validity="split"`` (or a
    ``reference``) the recipe was chosen without the released rows, so this covers everything that
    is made from them, the decision to release included, by whoever sees the recipe too.
    Theorem: A25-T14, X5, X7, X15, X18 (``proofs/hardening.md``).
    Assumes: i.i.d. rows, one row per person.  Rows that served to fit the recipe are not released,
    and what the recipe itself says about them is not certified.  A ``reference`` is independent of
    the rows of ``table``: it shares no person with it, and neither was chosen by looking at the
    other.  Rows are picked for release by their place and the seed; whoever knows both knows who
    was picked.
    Edge cases: a table that cannot be made safe enough is an :class:`InputError` that names the
    best value reached; nothing is written then.

    Args:
        table: a file or a table.
        security: MIS to certify, in (0, 1).
        record_leak: largest acceptable leak for any released row, in (0, 1).
        target: column to predict later; as much as possible of what the others say about it is kept
            (without it: of the whole row).
        columns: columns to release (default: all but identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the role inferred from the fitting rows.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        database_table: the table inside a DuckDB or SQLite file.
        keep: columns that must not be changed.
        out: file for the coarser table (.csv, .csv.gz, .parquet, .arrow, .feather).
        confidence: of each certificate.
        seed: makes the result repeatable.
        force: overwrite ``out`` and ``recipe``.
        bins: column → edges of its finest bins.
        hierarchies: column → hierarchy (a YAML or CSV file, or a mapping).
        validity: ``split`` chooses the recipe on some of the rows and releases the others;
            ``union`` releases all rows, but only tries steps that do not depend on them (given
            bins, hierarchies, keeping or dropping columns) and pays for each.
        fit_share: with ``split``: share of the rows (at most 50 000) used to choose the recipe.
        reference: another table with the same columns to choose the recipe on, so that all rows of
            ``table`` are released. It must hold other people, not the same ones a year earlier.
        recipe: write the recipe to this JSON file.
        learners: train three learners before and after (default: if there is a target and at most
            50 000 rows).
        width: width of the beam search.

    Command line:
        memberbound harden people.csv --security 0.95 --target income --out safe.parquet
        memberbound harden people.csv --record-leak 0.2 --keep sex --out safe.csv --plot cost.png

    Examples:
        >>> import numpy as np, pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "id": range(4000)})
        >>> frame["y"] = (frame["sex"] == "f") ^ (rng.random(4000) < 0.1)
        >>> result = harden(frame, security=0.9, target="y", learners=False)
        >>> result.steps[0], result.table.columns.tolist(), result.after["delta_upper"] <= 0.1
        ('drop id', ['sex', 'y'], True)
    """
    wish = wished(
        security=security,
        record_leak=record_leak,
        target=target,
        keep=keep,
        bins=bins,
        hierarchies=hierarchies,
        confidence=confidence,
        seed=seed,
    )
    one_of("validity", validity, VALIDITIES)
    share = fraction("fit_share", fit_share, open_left=True, open_right=True)
    source = table if isinstance(table, (str, Path)) else None
    wanted = None if out is None else check_output(Path(out), source=source, force=force)
    recipe_path = (
        None
        if recipe is None
        else check_output(Path(recipe), name="recipe", formats=(".json",), force=force)
    )
    frame = read(table, columns, target, database_table=database_table, unit=unit)
    other = None if reference is None else read(reference, unit=unit)
    check_columns(frame, wish, other)
    parts = split_rows(frame, other, validity, share, wish.seed)
    # Fitting rows decide what a column is: a released row must not change the recipe (X18).
    fitted = table if reference is None else reference
    readings = readings_of(parts.fitting, roles, fitted)
    if target is not None:
        check_target_role(target, readings[target])
    selection = selected(
        readings,
        columns,
        apart=() if target is None else (target,),
        named=(*wish.keep, *wish.edges, *wish.hierarchies),
    )
    if parts.validity != "union":
        parts = Parts(
            as_read(parts.fitting, readings), as_read(parts.released, readings), parts.validity
        )
    choice = choose(
        parts.fitting,
        len(parts.released),
        wish,
        selection,
        data_free=parts.validity == "union",
        width=whole_number("width", width),
    )
    found = released(choice, parts, wish)
    accuracy = _accuracy(found, parts.released, wish, learners, selection)
    counted = [c for c in frame.columns if c not in selection.left_out]
    archive = choice.archive
    told = archive.information([*archive.front(), found.state], wish.seed)
    most, information = max(told.values()), told[found.state]
    result = Hardening(
        table=found.table,
        coarsener=found.coarsener,
        before=evidence(cell_profile(frame[counted]), wish.confidence),
        after=found.after,
        steps=tuple(found.coarsener.recipe_.steps()),
        information_estimate=information,
        information_kept_estimate=information / most if most > 0 else None,
        measure="entropy of a row" if target is None else f"information about {target}",
        frontier=frontier(archive, told),
        security=wish.security,
        record_leak=wish.record_leak,
        target=target,
        validity=parts.validity,
        rows_read=len(frame),
        rows_fitted=0 if parts.validity == "union" else len(parts.fitting),
        theorems=("A25-T14", "X5", "X7", "X15", "X18"),
        assumptions=(_one_row(unit), *_ASSUMPTIONS, parts.note(choice.candidates)),
        accuracy=accuracy,
        roles=selection.roles,
        warnings=(*header_notes(table), *selection.notes, *_first_rows_said(unit)),
        counted=tuple(counted),
        out=None if wanted is None else str(wanted),
        recipe_out=None if recipe_path is None else str(recipe_path),
    )
    if recipe_path is not None:
        write_text(found.coarsener.to_json(), recipe_path, force=force)
    if wanted is not None:
        write_table(found.table, wanted, force=force)
    return result


def _first_rows_said(unit: str | None) -> tuple[str, ...]:
    return () if unit is None else (f"one record is one value of {unit!r}, by its first row",)


def _one_row(unit: str | None) -> str:
    whose = (
        "a person has one row"
        if unit is None
        else f"a person is one value of {unit!r}, of whom the first row is used"
    )
    return f"the rows are independent draws from one law, and {whose}"


_ASSUMPTIONS = (
    "certified is the hardened table as released; figures about the original table and the "
    "estimates of this report are not part of it",
    "the bounds on the average record and on single records hold with the stated confidence each",
    "the command was run once: choosing among several runs is a choice that nothing pays for",
)


def _accuracy(
    found: Release, released: DataFrame, wish: Wish, learners: bool | None, selection: Selection
) -> dict[str, Mapping[str, float] | None] | None:
    """Accuracy with the original and with the coarsened features, for the released target."""
    asked = len(released) <= _LEARNER_ROWS if learners is None else learners
    if not asked or wish.target is None:
        return None
    target = found.table[wish.target]
    forms = {c: r.form for c, r in selection.readings.items() if r.numeric}
    kept = {c for c, rule in found.coarsener.recipe_.rules if isinstance(rule, Keep)}
    if found.coarsener.recipe_.pool is not None:
        kept -= set(found.coarsener.recipe_.pool.columns)
    return {
        "before": accuracy_estimates(released[list(selection.columns)], target, forms, wish.seed),
        "after": accuracy_estimates(
            found.table.drop(columns=wish.target),
            target,
            {c: form for c, form in forms.items() if c in kept},
            wish.seed,
        ),
    }
