"""The whole audit of a given model: from two tables, its answers or an attack's scores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memberbound.attacks.attacks import attacks_on_models
from memberbound.attacks.evidence import Evidence, train_references
from memberbound.attacks.given_model import (
    ModelAudit,
    audit_model,
    audit_score_table,
)
from memberbound.attacks.intervals import non_members_needed
from memberbound.attacks.one_law import Duplicates, LawTest, find_duplicates, one_law_test
from memberbound.attacks.overfitting import OverfittingCeiling, overfitting_ceiling
from memberbound.attacks.recognised import Groups, Recognised, audit_groups, recognised_members
from memberbound.attacks.scores import without_ends
from memberbound.attacks.shadows import Progress
from memberbound.attacks.signals import BoolArray
from memberbound.attacks.structure import Fact, structural_facts
from memberbound.errors import InputError
from memberbound.learners.augmented import Shape, asked_with_copies
from memberbound.learners.examples import Labels, Learner, network_factory
from memberbound.learners.model_files import load_model
from memberbound.learners.trained import Answers, TrainedModel, rows_as_trained
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import (
    CERTIFICATE,
    INTERVAL,
    ONLY_BLIND,
    Sides,
    confident,
    decimals,
    interval,
    significant,
)
from memberbound.release.saving import answering, certificate_path, load
from memberbound.tables.in_memory import read_population
from memberbound.tables.table import opened_table

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "GivenModel",
    "Records",
    "ScoreTable",
    "Training",
    "audit_given",
    "audit_scored",
    "check_answers",
    "check_rates",
    "given_model",
    "read_answers",
    "read_records",
    "read_scores",
]

#: Largest difference of a model's answers from those that were given.
_AGREE = 1e-4
#: Prefixes of the columns of a table of answers.
_PREFIXES = {"probabilities": "probability_", "logits": "logit_"}
_NO_COLUMNS = (
    "Whether members and non-members come from one law cannot be tested without their columns"
)
#: What an API hands out, in words.
_ACCESS = {
    "labels": "an API that returns labels only",
    "values": "an API that returns predictions",
    "probabilities": "an API that returns probabilities",
    "parameters": "the model itself",
}


# ── Reading: members and non-members, or a table of answers ───────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Records:
    """Evidence with what stands beside it in the tables.

    ``numbers`` is the place of each record in its own table; ``values`` those of the column that
    divides the records into groups; ``identifiers`` columns that name a record.
    """

    evidence: Evidence
    numbers: Labels
    values: Sequence[object] | None = None
    identifiers: DataFrame | None = None


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """An attack's scores of members and others, and the values that divide them into groups."""

    score: FloatArray
    member: BoolArray
    values: Sequence[object] | None = None


def given_model(model: object, *, trust: bool = False, factory: object = None) -> TrainedModel:
    """Return a model that exists: a fitted object, a model file, or what ``protect`` released."""
    if not isinstance(model, (str, os.PathLike)):
        return TrainedModel.of(model)
    if not certificate_path(Path(model)).is_file():
        return load_model(model, trust=trust, factory=factory)  # type: ignore[arg-type]
    made = None if factory is None else network_factory(factory)
    taker = answering(load(Path(model), factory=made))
    if taker is None:
        raise InputError(f"model must be a model, got the statistic {str(model)!r}.")

    def respond(rows: DataFrame | Labels) -> Answers:
        encoded, _ = taker.encoded(rows)
        chances = taker.probabilities(encoded)
        if chances is not None:
            return Answers(probabilities=chances, classes=np.array(taker.class_names))
        said = taker.answered(encoded)
        return Answers(values=said) if said.dtype.kind == "f" else Answers(labels=said)

    return TrainedModel(respond, model=taker, name="the released model")


def read_records(
    model: object,
    members: object,
    nonmembers: object,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    by: str | None = None,
    trust: bool = False,
    factory: object = None,
    images: Shape | None = None,
    database_table: str | None = None,
) -> Records:
    """Read two tables (or pairs of rows and targets) and ask the model about them.

    Edge cases: see :meth:`Evidence.of`; two tables with different columns are refused.
    """
    import pandas as pd

    trained = given_model(model, trust=trust, factory=factory)
    if images is not None:
        trained = asked_with_copies(trained, images)
    sides = [
        _side(given, name, target, database_table)
        for given, name in ((members, "members"), (nonmembers, "nonmembers"))
    ]
    (x, y), (x0, y0) = sides
    truth = np.concatenate([np.asarray(y), np.asarray(y0)])
    member = np.arange(len(truth)) < len(y)
    numbers = np.concatenate([np.arange(len(y)), np.arange(len(y0))])
    tables = [side for side in (x, x0) if isinstance(side, pd.DataFrame)]
    if len(tables) == 1:
        raise InputError("members and nonmembers must be two tables or two arrays, got one each.")
    values, names = None, None
    if tables:
        first, second = (
            table.set_axis([str(c) for c in table.columns], axis=1) for table in tables
        )
        other = sorted(set(first.columns) ^ set(second.columns))
        wanted = columns if columns is not None else trained.columns
        if other and (wanted is None or set(other) & set(wanted)):
            raise InputError(
                "members and nonmembers must have the same columns; "
                f"{', '.join(other[:5])} {'is' if len(other) == 1 else 'are'} in one of them only."
            )
        shared = [c for c in first.columns if c in second.columns]
        whole = pd.concat([first[shared], second[shared]], ignore_index=True)
        if by is not None:
            values = _by(whole, by, target, truth)
        rows, names = _chosen(whole, columns, trained)
    else:
        if by is not None:
            raise InputError("by must name a column of two tables, got arrays.")
        rows = np.concatenate([np.asarray(x), np.asarray(x0)])
    label = "the target" if target is None else repr(target)
    evidence = Evidence.of(trained, rows, truth, member, name=label)
    return Records(evidence, numbers, values, names)


def _side(
    given: object, name: str, target: str | None, database_table: str | None
) -> tuple[DataFrame | Labels, Labels]:
    """Return rows and targets of one side."""
    import pandas as pd

    if isinstance(given, tuple) and len(given) == 2:
        rows, truth = given
        truth = np.asarray(truth)
        rows = rows if hasattr(rows, "columns") else np.asarray(rows)
        if len(rows) != len(truth) or truth.ndim != 1:
            raise InputError(
                f"{name} must be rows and as many targets, got {len(rows)} and {truth.shape}."
            )
    elif given is None:
        raise InputError(f"{name} must be given with a model: a table, or a pair (X, y).")
    else:
        frame, said = rows_as_trained(given, database_table)
        if target is None:
            raise InputError("target must name the column that the model predicts, got None.")
        if target not in frame.columns:
            more = " …" if len(frame.columns) > 8 else ""
            shown = ", ".join(map(str, frame.columns[:8])) + more
            raise InputError(f"{said} must have the target {target!r}; it has {shown}.")
        rows, truth = frame.drop(columns=[target]), frame[target].to_numpy()
    missing = np.flatnonzero(pd.isna(truth))
    if missing.size:
        raise InputError(
            f"the target must be given in every row of {name}, got nothing in row "
            f"{int(missing[0]) + 1}. Drop such rows first."
        )
    if len(truth) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    return rows, truth


def check_answers(records: Records, given: Records) -> Records:
    """Refuse a model that does not answer as it did elsewhere; add a note if it does.

    ``given`` are answers from where the model is used, members and others each in the order of
    their table.  Labels must be the same, and probabilities to four digits: formats with 32-bit
    numbers differ in the seventh, and in labels where a number is too long for them.
    """
    note = _agreement(records.evidence, given.evidence)
    notes = (*records.evidence.notes, note)
    return replace(records, evidence=replace(records.evidence, notes=notes))


def _agreement(ours: Evidence, theirs: Evidence) -> str:
    """Return what to say about answers that agree."""
    order = np.concatenate([np.flatnonzero(theirs.member), np.flatnonzero(~theirs.member)])
    sides = [(int(e.member.sum()), int((~e.member).sum())) for e in (ours, theirs)]
    if sides[0] != sides[1]:
        raise InputError(
            "predictions must be of the same records as the tables: {} members and {} others, got "
            "{} and {}.".format(*sides[0], *sides[1])
        )
    theirs = theirs[order]
    same = [
        [str(e.classes[int(k)]) for k in e.truth] if e.classes else e.truth.tolist()
        for e in (ours, theirs)
    ]
    moved = next(
        (place for place, pair in enumerate(zip(*same, strict=True)) if len({*pair}) > 1), None
    )
    if moved is not None:
        raise InputError(
            "predictions must be in the order of the tables, members before or after the others; "
            f"the label of record {moved + 1} is another one."
        )
    if ours.classes and set(ours.classes) == set(theirs.classes):
        columns = [theirs.classes.index(name) for name in ours.classes]
        tables = [_chances(ours.answers), _chances(theirs.answers)]
        if tables[0] is not None and tables[1] is not None:
            return _compared(tables[0], tables[1][:, columns])
    said = [_labels(e) for e in (ours, theirs)]
    wrong = sum(a != b for a, b in zip(*said, strict=True))
    if ours.classes and not wrong:
        return "The model answers these records as the given predictions say (labels)"
    values = [e.answers.values for e in (ours, theirs)]
    if values[0] is not None and values[1] is not None:
        return _compared(values[0][:, None], values[1][:, None])
    raise InputError(
        f"the model must answer as the given predictions say, got another label for {wrong} of "
        f"{len(order)} records. Is it the same model, asked with the same columns?"
    )


def _compared(ours: FloatArray, theirs: FloatArray) -> str:
    scale = max(1.0, float(np.abs(theirs).max()))
    gap = float(np.abs(ours - theirs).max()) / scale
    flips = int((ours.argmax(axis=1) != theirs.argmax(axis=1)).sum()) if ours.shape[1] > 1 else 0
    shown = significant(gap, "estimate", 2)
    if gap > _AGREE:
        raise InputError(
            "the model must answer as the given predictions say, got answers that differ by up to "
            f"{shown} and {flips} other labels of {len(ours)}. Is it the same model, asked with "
            "the same columns? A format of 32-bit numbers rounds long ones: use the library's own."
        )
    return f"The model answers as the given predictions say (largest difference ≈ {shown})"


def _chances(answers: Answers) -> FloatArray | None:
    if answers.logits is None:
        return answers.probabilities
    weights = np.exp(answers.logits - answers.logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _labels(evidence: Evidence) -> list[str]:
    """Return the label that is given to each record; none for numbers."""
    found = evidence.answers
    if not evidence.classes:
        return []
    table = found.probabilities if found.logits is None else found.logits
    codes = np.asarray(found.labels if table is None else table.argmax(axis=1))
    return [evidence.classes[int(code)] if code >= 0 else "" for code in codes]


def _by(whole: DataFrame, by: str, target: str | None, truth: Labels) -> list[object]:
    if by == target:
        return list(truth.tolist())
    if by not in whole.columns:
        shown = ", ".join(map(str, whole.columns[:8]))
        raise InputError(f"by must be a column of the records ({shown}), got {by!r}.")
    return list(whole[by].tolist())


def _chosen(
    whole: DataFrame, columns: Sequence[str] | None, model: TrainedModel
) -> tuple[DataFrame, DataFrame]:
    """Return the columns that the model gets, and those that name a record."""
    wanted = list(columns) if columns is not None else list(model.columns or ())
    missing = [c for c in wanted if c not in whole.columns]
    if columns is not None and missing:
        raise InputError(f"columns must be columns of both tables, got {missing[0]!r}.")
    if missing:
        model.matched(whole)  # says which are missing
    rest = [c for c in whole.columns if wanted and c not in wanted]
    named: list[str] = []
    if rest:
        with opened_table(whole[rest]) as others:
            named = [c for c, found in others.readings().items() if found.role == "identifier"]
    return whole[wanted] if wanted else whole, whole[named]


def read_scores(
    source: object, *, by: str | None = None, database_table: str | None = None
) -> ScoreTable:
    """Read a table with the columns ``score`` (higher: rather a member) and ``member`` (1 or 0)."""
    table = read_population(
        source, ("score", "member"), numeric=True, target=by, database_table=database_table
    )
    values = None if by is None else list(table.frame[by].tolist())
    member = table.numbers("member")
    strange = member[(member != 0) & (member != 1)]
    if strange.size:
        raise InputError(
            f"member must be 1 (member) or 0 (not a member), got {float(strange[0])!r}."
        )
    return ScoreTable(table.numbers("score"), member == 1, values)


def read_answers(
    source: object, *, by: str | None = None, database_table: str | None = None
) -> Records:
    """Read a table of a model's answers: ``label``, ``member`` and what the model said.

    That is ``probability_<class>`` or ``logit_<class>`` per class, or ``prediction``: labels, or
    the numbers of a regression.
    """
    import pandas as pd

    frame, name = rows_as_trained(source, database_table)
    columns = list(frame.columns)
    for needed in ("label", "member"):
        if needed not in columns:
            raise InputError(
                f"{name} must have the columns label and member beside the predictions, "
                f"{needed!r} is missing."
            )
    flags = frame["member"].map({1: True, 0: False, "1": True, "0": False})
    if flags.isna().any():
        strange = frame["member"][flags.isna()].iloc[0]
        raise InputError(f"member must be 1 (member) or 0 (not a member), got {strange!r}.")
    member = flags.to_numpy(dtype=np.bool_)
    answers = None
    for kind, prefix in _PREFIXES.items():
        named = [c for c in columns if c.startswith(prefix)]
        if named and answers is None:
            table = frame[named].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
            classes = np.array([c.removeprefix(prefix) for c in named], dtype=object)
            answers = Answers(**{kind: table}, classes=classes)
    if answers is None:
        if "prediction" not in columns:
            raise InputError(
                f"{name} must have columns probability_<class>, logit_<class> or prediction, got "
                f"{', '.join(columns[:8])}."
            )
        said = frame["prediction"]
        numbers = pd.api.types.is_float_dtype(said) and not _whole(said.to_numpy(dtype=np.float64))
        answers = (
            Answers(values=said.to_numpy(dtype=np.float64))
            if numbers
            else Answers(labels=said.to_numpy())
        )
    numbers_of = np.empty(len(member), dtype=np.int64)
    for side in (member, ~member):
        numbers_of[side] = np.flatnonzero(side)
    truth = frame["label"].to_numpy()
    evidence = Evidence.from_answers(answers, truth, member, name="label")
    return Records(evidence, numbers_of, None if by is None else _by(frame, by, None, truth))


def _whole(values: FloatArray) -> bool:
    return bool(np.all(values == np.round(values)))


# ── The findings ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Training:
    """How reference models are trained."""

    learner: str | Learner
    models: int = 64
    workers: int = -1
    cache: str | os.PathLike[str] | None = None
    progress: Progress | None = None
    images: Shape | None = None


@dataclass(frozen=True, eq=False)
class GivenModel:
    """What is found about one given model.

    ``law`` and ``duplicates`` are None where only answers are known, ``overfitting`` where only
    scores are, ``groups`` where none were asked for.
    """

    SIDES: ClassVar[Sides] = {
        **ModelAudit.SIDES,
        "facts": Fact.SIDES,
        "groups": Groups.SIDES,
        "one_law": LawTest.SIDES,
        "overfitting": {
            "fresh_share_estimate": "estimate",
            "model": {**INTERVAL, "confidence": "lower"},
            "security": {**INTERVAL, **CERTIFICATE},
            "share_above_estimate": "estimate",
            "threshold": "given",
        },
        "records": Recognised.SIDES,
    }

    audit: ModelAudit
    recognised: Recognised
    overfitting: OverfittingCeiling | None = None
    facts: tuple[Fact, ...] = ()
    duplicates: Duplicates | None = None
    law: LawTest | None = None
    groups: Groups | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def comparable(self) -> bool:
        """Whether members and non-members are not known to differ in law.

        Where they are, attacks measure that difference, and nothing is a floor for the model.
        """
        return self.law is None or not self.law.differs

    @property
    def leak_shown(self) -> bool:
        """Whether an attack provably beats blind guessing and the two sides are not known apart."""
        return self.comparable and self.audit.best_advantage.lower > 0

    def attack_fields(self) -> dict[str, dict[str, Any]]:
        """Return the contract's fields per attack; estimates alone where nothing is comparable."""
        fields = self.audit.attack_fields()
        return fields if self.comparable else without_ends(fields)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        groups = None if self.groups is None else self.groups.to_dict()
        ceiling = self.overfitting if self.comparable else None
        measured = self.audit.to_dict() | {"groups": groups}
        if not self.comparable:
            measured = without_ends(measured)
            if groups is not None:
                measured["groups"] = groups | {"groups": list(map(without_ends, groups["groups"]))}
        return measured | {
            "records": self.recognised.to_dict(),
            "one_law": None if self.law is None else self.law.to_dict(),
            "duplicates": None if self.duplicates is None else self.duplicates.to_dict(),
            "comparable": self.comparable,
            "leak_shown": self.leak_shown,
            "overfitting": None if ceiling is None else ceiling.to_dict(),
            "facts": [f.to_dict() for f in self.facts],
        }

    def summary(self) -> str:
        """Return readable lines below the table of attacks."""
        lines = [""]
        if not self.comparable:
            lines.append("members and non-members are not comparable: there is no floor")
        elif self.audit.by_access:
            lines.append(
                "what is given away at least (all lines hold together, confidence "
                f"{confident(self.audit.confidence)}):"
            )
            for level, bound in self.audit.by_access.items():
                shown = ONLY_BLIND
                if bound.lower > 0:
                    shown = f"advantage ≥ {decimals(bound.lower, 'lower', 3)} ({bound.attack})"
                lines.append(f"  {_ACCESS[level]}: {shown}")
        for name, point in self.audit.estimates.items():
            gap = decimals(point.found.advantage.estimate, "estimate", 3)
            lines.append(
                f"  {name} (models with and without the record): advantage ≈ {gap}, no interval; "
                f"no leak: p = {significant(point.p_value, 'upper', 2)}"
            )
        if self.comparable:
            lines += ["", self.recognised.summary()]
        if self.comparable and self.groups is not None:
            lines += ["", *_grouped(self.groups)]
        lines += ["", *(("facts for output checking:",) if self.facts else ())]
        lines += [f"  {fact.summary()}" for fact in self.facts]
        model = None if self.overfitting is None else self.overfitting.model
        if self.comparable and model is not None:
            lines.append(
                "overfitting: security of this model against the loss threshold "
                f"≤ {significant(model.upper, 'upper', 3)} at confidence "
                f"{confident(model.confidence)} (1: nothing shown)"
            )
        if self.law is not None and not self.law.differs:
            lines.append(self.law.sentence)
        return "\n".join(lines)


def _grouped(groups: Groups) -> list[str]:
    lines = [
        f"groups by {groups.column} ({groups.attack}; ends hold for all groups at once, confidence "
        f"{confident(groups.confidence)}):"
    ]
    for group in groups.groups:
        shown = f"too few records ({group.members} members, {group.non_members} others)"
        if group.found is not None:
            shown = ", ".join(
                f"{name} {decimals(bound.estimate, 'estimate', 3)} "
                f"{interval(bound.lower, bound.upper, 3)}"
                for name, bound in (("advantage", group.found.advantage), ("AUC", group.found.auc))
            )
        lines.append(f"  {group.value}: {shown}")
    return lines


def audit_given(
    records: Records,
    *,
    attacks: Iterable[str] | None = None,
    training: Training | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    by: str | None = None,
    seed: int = 0,
) -> GivenModel:
    """Audit a given model: attacks, records, groups, overfitting, structure, and the two sides.

    Guarantee: as :func:`audit_model`, :func:`recognised_members`, :func:`audit_groups`,
    :func:`one_law_test` and :func:`overfitting_ceiling`, each on its own.
    """
    evidence, duplicates, law = records.evidence, None, None
    if evidence.rows is not None:
        duplicates = find_duplicates(evidence, records.identifiers)
    references = None
    attacks = None if attacks is None else tuple(attacks)
    if training is not None:
        cache = None if training.cache is None else str(training.cache)
        wanted = [a for n, a in attacks_on_models().items() if attacks is None or n in attacks]
        references = train_references(
            evidence,
            training.learner,
            apart=any(attack.learns for attack in wanted),
            pool=any(not attack.proved for attack in wanted),
            models=training.models,
            seed=seed,
            n_jobs=training.workers,
            cache=cache,
            images=training.images,
            progress=training.progress,
        )
    found = audit_model(
        evidence,
        attacks=attacks,
        references=references,
        confidence=confidence,
        fpr=fpr,
        seed=seed,
    )
    if evidence.rows is not None:
        law = one_law_test(evidence, confidence=confidence, seed=seed)
    losses, member = evidence.signals.loss[0], evidence.member
    return GivenModel(
        found,
        _recognised(found, records.numbers, seed),
        overfitting_ceiling(losses[member], losses[~member], confidence=confidence),
        structural_facts(evidence),
        duplicates,
        law,
        _groups(found, records.values, by, seed),
        (
            *found.warnings,
            *(() if duplicates is None else duplicates.notes),
            *((_NO_COLUMNS,) if law is None else ()),
        ),
    )


def audit_scored(
    table: ScoreTable,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    by: str | None = None,
    seed: int = 0,
) -> GivenModel:
    """Audit a given model of which one attack's scores are known; see :func:`audit_given`."""
    found = audit_score_table(table.score, table.member, confidence=confidence, fpr=fpr, seed=seed)
    return GivenModel(
        found,
        _recognised(found, np.arange(len(table.score)), seed),
        groups=_groups(found, table.values, by, seed),
        notes=(*found.warnings, _NO_COLUMNS),
    )


def _recognised(found: ModelAudit, numbers: Labels, seed: int) -> Recognised:
    scores, where = found.scores[found.for_records]
    rows = numbers[where & found.member].tolist()
    attack = found.for_records
    return recognised_members(scores[where], found.member[where], rows, attack=attack, seed=seed)


def _groups(
    found: ModelAudit, values: Sequence[object] | None, by: str | None, seed: int
) -> Groups | None:
    if values is None or by is None:
        return None
    scores, where = found.scores[found.for_records]
    return audit_groups(
        scores[where],
        found.member[where],
        [value for value, used in zip(values, where, strict=True) if used],
        column=by,
        attack=found.for_records,
        confidence=found.confidence,
        seed=seed,
    )


def check_rates(rates: Iterable[float], non_members: int, confidence: float) -> None:
    """Refuse false-positive rates for which there are too few non-members."""
    for rate in rates:
        needed = non_members_needed(rate, (1 - confidence) / 4)
        if non_members < needed:
            raise InputError(
                f"fpr must be a rate that the non-members allow, got {rate!r} with {non_members} "
                f"of them. At confidence {confident(confidence)} it needs at least {needed}."
            )
