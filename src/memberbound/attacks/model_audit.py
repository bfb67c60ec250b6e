"""The audit of a given model: its members against fresh records (the model game).

What happens to a record: the model is asked about it (``evidence``); a random part of the records
is known to the attacker, who trains reference models on it (``shadows``); every attack of the list
(``attacks``) gives the record a score from the model's answer and, if it learns, from the known
part (``model_scores``); the scores of members and others give intervals (``scores``,
``intervals``).  An attack that learns is measured on the other records only, which its rule has
never seen, so the intervals hold as they stand (proofs/audit-intervals.md claims 1 to 4 want the
rule fixed before the records are drawn; proofs/given-models.md claim 1).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import plain, sides_of_class
from memberbound.attacks.attacks import (
    AccessLevel,
    access_of,
    attacks_on_models,
    runnable_on_model,
)
from memberbound.attacks.checks import (
    Duplicates,
    Fact,
    LawTest,
    find_duplicates,
    one_law_test,
    structural_facts,
)
from memberbound.attacks.evidence import Evidence, Records, ScoreTable
from memberbound.attacks.model_scores import Target
from memberbound.attacks.overfitting import OverfittingCeiling, overfitting_ceiling
from memberbound.attacks.records import Groups, Recognised, audit_groups, recognised_members
from memberbound.attacks.scores import (
    ASSUMPTIONS,
    AttackAudit,
    Scores,
    audit_scores,
    interval_fields,
    interval_text,
    without_ends,
)
from memberbound.attacks.shadows import (
    References,
    Training,
    known_half,
)
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, fraction
from memberbound.learners.examples import Labels
from memberbound.learners.trained import TrainedModel
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import (
    INTERVAL,
    NO_LEAK,
    AuditBound,
    Sides,
    confident,
    decimals,
    json_number,
    significant,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

#: Fewer records of either kind are refused.
FEWEST = 20
#: The attack of a table of scores.
SCORES = "scores"
#: Why an audit is weaker than a real attacker's.
WITHOUT_REFERENCES = (
    "Reference attacks, the strongest ones, were left out: nothing was trained to compare with"
)
#: What an attacker sees, in order of access, in words.
_ACCESS: dict[AccessLevel, str] = {
    "labels": "an API that returns labels only",
    "values": "an API that returns predictions",
    "probabilities": "an API that returns probabilities",
    "parameters": "the model itself",
}
#: Scores of every record, and the records that an attack may be measured on.
AttackScores = Mapping[str, tuple[FloatArray, BoolArray]]


# ── What was measured ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ModelAudit:
    """What was measured of one given model; see :func:`audit_records`.

    Attributes:
        attacks: intervals per attack.
        best_advantage: the advantage of the attack with the highest floor, at an error shared among
            all attacks, so that choosing it is paid for.
        by_access: the same for an attacker who sees labels only, probabilities, or the model.
        evidence: None where only scores are known; then nobody knows what the attack had to see.
        duplicates: None, as ``law``, where the columns are not known.
        overfitting: None where only scores are known.
        groups: None where none were asked for.
    """

    SIDES: ClassVar[Sides] = {
        "best_advantage": INTERVAL,
        "by_access": {"*": {"advantage": INTERVAL}},
        "training_seconds": "estimate",
        "attack_seconds": "estimate",
        "groups": sides_of_class(Groups),
        "one_law": sides_of_class(LawTest),
        "overfitting": OverfittingCeiling.SIDES,
        "records": Recognised.SIDES,
    }
    ASSUMPTIONS: ClassVar = (
        "The numbers are about this model and its own members; nothing is said about other models "
        "of the same learner.",
        "The members are the model's whole training set, or records drawn from it uniformly.",
        "The non-members are independent draws from the source of the training records and had no "
        "part in the model (not in tuning or early stopping either).",
        "Each interval of an attack holds with the stated confidence on its own; those of "
        "best_advantage and by_access hold for all attacks at once.",
        "Attacks that learn (combined) or use reference models are told who is a member in a "
        "random part of the records, and are measured on the others.",
    )

    attacks: dict[str, AttackAudit]
    best_advantage: AuditBound
    scores: AttackScores = field(repr=False)
    member: BoolArray = field(repr=False)
    confidence: float
    seconds: float
    by_access: dict[AccessLevel, AuditBound] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False)
    references: References | None = None
    recognised: Recognised | None = None
    groups: Groups | None = None
    overfitting: OverfittingCeiling | None = None
    facts: tuple[Fact, ...] = ()
    duplicates: Duplicates | None = None
    law: LawTest | None = None
    warnings: tuple[str, ...] = ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for the intervals to hold."""
        return ASSUMPTIONS if self.evidence is None else self.ASSUMPTIONS

    @property
    def best(self) -> str:
        """The attack with the highest floor, then the largest estimate."""
        return self.best_advantage.attack

    @property
    def comparable(self) -> bool:
        """Whether members and non-members are not known to differ in distribution.

        Where they are, attacks measure that difference, and nothing is a floor for the model.
        """
        return self.law is None or not self.law.differs

    @property
    def leak_shown(self) -> bool:
        """Whether an attack provably beats blind guessing on sides that are comparable."""
        return self.comparable and self.best_advantage.lower > 0

    def attack_fields(self) -> dict[str, dict[str, Any]]:
        """Return the contract's fields per attack; estimates alone where nothing is comparable."""
        fields: dict[str, dict[str, Any]] = {n: a.to_dict() for n, a in self.attacks.items()}
        if self.evidence is not None:
            for name, values in fields.items():
                values["access"] = access_of(name, self.evidence.task)
        return fields if self.comparable else without_ends(fields)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, beside those of the attacks."""
        refs = self.references
        groups = plain(self.groups)
        measured = {
            "best_advantage": interval_fields(self.best_advantage),
            "by_access": {
                level: {"attack": bound.attack, "advantage": interval_fields(bound)}
                for level, bound in self.by_access.items()
            },
        }
        if not self.comparable:
            measured = without_ends(measured)
            if groups is not None:
                groups["groups"] = [without_ends(group) for group in groups["groups"]]
        return {
            **measured,
            "members": int(self.member.sum()),
            "non_members": int((~self.member).sum()),
            "reference_models": 0 if refs is None else refs.models,
            "training_seconds": 0.0 if refs is None else json_number(refs.seconds),
            "attack_seconds": json_number(self.seconds),
            "groups": groups,
            "records": plain(self.recognised),
            "one_law": plain(self.law),
            "duplicates": plain(self.duplicates),
            "comparable": self.comparable,
            "leak_shown": self.leak_shown,
            "overfitting": plain(self.overfitting) if self.comparable else None,
            "facts": plain(self.facts),
        }

    def summary(self) -> str:
        """Return readable lines below the table of attacks."""
        lines = [""]
        if not self.comparable:
            lines.append("members and non-members are not comparable: there is no floor")
        elif self.by_access:
            lines.append(
                f"leak at least (all lines hold together, confidence {confident(self.confidence)}):"
            )
            for level, bound in self.by_access.items():
                shown = NO_LEAK
                if bound.lower > 0:
                    shown = f"advantage ≥ {decimals(bound.lower, 'lower', 3)} ({bound.attack})"
                lines.append(f"  {_ACCESS[level]}: {shown}")
        if self.comparable and self.recognised is not None:
            lines += ["", self.recognised.summary()]
        if self.comparable and self.groups is not None:
            lines += ["", *group_lines(self.groups)]
        lines += ["", *(("facts for output checking:",) if self.facts else ())]
        lines += [f"  {fact.summary()}" for fact in self.facts]
        if self.comparable and self.overfitting is not None:
            model = self.overfitting.model
            lines.append(
                "overfitting: security of this model against the loss threshold "
                f"≤ {significant(model.upper, 'upper', 3)} at confidence "
                f"{confident(model.confidence)} (1: {NO_LEAK})"
            )
        if self.law is not None and not self.law.differs:
            lines.append(self.law.sentence)
        return "\n".join(lines)


def group_lines(groups: Groups) -> list[str]:
    """Return a readable line per group."""
    lines = [
        f"groups by {groups.column} ({groups.attack}; ends hold for all groups at once, confidence "
        f"{confident(groups.confidence)}):"
    ]
    for group in groups.groups:
        shown = f"too few records ({group.members} members, {group.non_members} others)"
        if group.advantage is not None and group.auc is not None:
            shown = f"advantage {interval_text(group.advantage)}, AUC {interval_text(group.auc)}"
        lines.append(f"  {group.value}: {shown}")
    return lines


# ── What happens to the records ───────────────────────────────────────────────────────────────────


def audit_records(
    records: Records | ScoreTable,
    *,
    attacks: Iterable[str] | None = None,
    training: Training | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    by: str | None = None,
    seed: int = 0,
) -> ModelAudit:
    """Audit a given model: attacks, records, groups, overfitting, structure, and the two sides.

    Guarantee: as :func:`audit_evidence` (of a table of scores :func:`audit_scores`),
    :func:`recognised_members`, :func:`audit_groups`, :func:`one_law_test` and
    :func:`overfitting_ceiling`, each on its own.
    """
    no_columns = (
        "Whether members and non-members come from one distribution cannot be tested without "
        "their columns",
    )
    attacks = None if attacks is None else tuple(attacks)
    if isinstance(records, ScoreTable):
        if attacks not in (None, (SCORES,)):
            raise InputError(f"attacks must be {SCORES!r} for a table of scores.")
        everywhere = np.ones(len(records.member), dtype=np.bool_)
        scores = {SCORES: (records.score, everywhere)}
        audit = audit_score_table(scores, records.member, confidence=confidence, fpr=fpr, seed=seed)
        audit = replace(audit, warnings=audit.warnings + no_columns)
        return with_records(audit, np.arange(len(records.score)), records.groups, by, seed=seed)
    evidence, duplicates, law = records.evidence, None, None
    if evidence.rows is not None:
        duplicates = find_duplicates(evidence, records.identifiers)
    references, note = None, WITHOUT_REFERENCES
    if training is not None and _compares(attacks):
        references, note = training.references_or_reason(evidence, seed)
    audit = audit_evidence(
        evidence, attacks=attacks, references=references, confidence=confidence, fpr=fpr, seed=seed
    )
    if note and attacks is None:
        audit = replace(audit, warnings=(note, *audit.warnings))
    if evidence.rows is not None:
        law = one_law_test(evidence, confidence=confidence, seed=seed)
    losses, member = evidence.signals.loss[0], evidence.member
    audit = replace(
        audit,
        overfitting=overfitting_ceiling(losses[member], losses[~member], confidence=confidence),
        facts=structural_facts(evidence),
        duplicates=duplicates,
        law=law,
        warnings=audit.warnings + (no_columns if duplicates is None else duplicates.notes),
    )
    return with_records(audit, records.numbers, records.groups, by, seed=seed)


def _compares(attacks: Iterable[str] | None) -> bool:
    """Tell whether any of these attacks may use reference models."""
    listed = attacks_on_models()
    return attacks is None or any(name in listed and listed[name].learns for name in attacks)


def with_records(
    audit: ModelAudit,
    names: Sequence[int | str] | Labels,
    groups: Sequence[object] | None,
    by: str | None,
    *,
    attacks: Sequence[str] = ("combined", "loss", "label-only"),
    seed: int = 0,
) -> ModelAudit:
    """Add what one attack says of single records, and of groups by the column ``by``.

    It is the first of ``attacks`` that ran, an order that is fixed before looking.
    """
    attack = next((n for n in attacks if n in audit.attacks), next(iter(audit.attacks)))
    scores, where = audit.scores[attack]
    scores, member = scores[where], audit.member[where]
    rows = np.asarray(names)[where & audit.member].tolist()
    recognised = recognised_members(scores, member, rows, attack=attack, seed=seed)
    if groups is None or by is None:
        return replace(audit, recognised=recognised)
    values = [value for value, used in zip(groups, where, strict=True) if used]
    measured = audit_groups(
        scores, member, values, column=by, attack=attack, confidence=audit.confidence, seed=seed
    )
    return replace(audit, recognised=recognised, groups=measured)


def audit_evidence(
    evidence: Evidence,
    *,
    attacks: Iterable[str] | None = None,
    references: References | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure attacks on one given model: its members against fresh records.

    Guarantee: each interval of an attack contains its quantity with probability at least
    ``confidence``, given the model; the intervals of ``best_advantage`` and ``by_access`` hold for
    all attacks together with that probability, whichever is looked at.
    Theorem: proofs/audit-intervals.md claims 1 to 4, proofs/given-models.md claim 1.
    Assumes: :attr:`ModelAudit.ASSUMPTIONS`.
    Edge cases: fewer than 20 records of either kind are refused.
    """
    start = time.perf_counter()
    member = evidence.member
    for kind, count in (("members", int(member.sum())), ("non-members", int((~member).sum()))):
        if count < FEWEST:
            raise InputError(f"{kind} must be at least {FEWEST} records, got {count}.")
    scores, notes = attack_scores(evidence, attacks=attacks, references=references, seed=seed)
    access = {name: access_of(name, evidence.task) for name in scores}
    audit = audit_score_table(
        scores, member, access=access, confidence=confidence, fpr=fpr, seed=seed
    )
    return replace(
        audit,
        seconds=time.perf_counter() - start,
        evidence=evidence,
        references=references,
        warnings=(*evidence.notes, *notes, *audit.warnings),
    )


def attack_scores(
    evidence: Evidence,
    *,
    attacks: Iterable[str] | None = None,
    references: References | None = None,
    seed: int = 0,
) -> tuple[AttackScores, tuple[str, ...]]:
    """Return per attack the score of every record and the records it may be measured on.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    known = known_half(evidence, seed) if references is None else references.known
    target = Target(evidence, known, references)
    scores: dict[str, tuple[FloatArray, BoolArray]] = {}
    for name, attack in runnable_on_model(target, attacks).items():
        score = np.asarray(attack.score(target))
        if np.isnan(score).any():
            raise InputError(f"scores of {name} must be numbers for every record, got NaN.")
        scores[name] = score, ~known if attack.learns else np.ones(len(known), dtype=np.bool_)
    return scores, () if references is None else references.run.warnings


def audit_score_table(
    scores: AttackScores,
    member: BoolArray,
    *,
    access: Mapping[str, AccessLevel] | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure attacks from their scores alone, higher for a member; ``access`` is what each sees.

    Guarantee, Theorem, Assumes, Edge cases: as :func:`memberbound.attacks.scores.audit_scores`; the
    intervals of ``best_advantage`` and ``by_access`` hold for all attacks at once.
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    each, rates = shared_confidence(sure, len(scores)), tuple(fpr)
    audits, shared = {}, {}
    for name, (score, where) in scores.items():
        pair = Scores.of(score[where], member[where])
        audits[name] = audit_scores(pair, confidence=sure, fpr=rates, attack=name, seed=seed)
        together = audit_scores(pair, confidence=each, fpr=(), attack=name, seed=seed)
        shared[name] = together.advantage
    by_access: dict[AccessLevel, AuditBound] = {}
    within: dict[str, AuditBound] = {}
    for level in _ACCESS:
        seen = {name: shared[name] for name, sees in (access or {}).items() if sees == level}
        within |= seen
        if seen:
            by_access[level] = highest_floor(within.values(), sure)
    # One note a rate: attacks that learn are measured on fewer records, and would repeat it.
    too_few: dict[str, str] = {}
    for note in (note for audit in audits.values() for note in audit.notes):
        too_few.setdefault(note.partition(":")[0], note)
    best, seconds = highest_floor(shared.values(), sure), time.perf_counter() - start
    notes = tuple(too_few.values())
    return ModelAudit(audits, best, scores, member, sure, seconds, by_access, warnings=notes)


def highest_floor(bounds: Iterable[AuditBound], confidence: float) -> AuditBound:
    """Return the interval with the highest floor; they hold together with ``confidence``."""
    best = max(bounds, key=lambda b: (b.lower, b.estimate))
    return replace(best, confidence=confidence)


# ── A score for scikit-learn's searches ───────────────────────────────────────────────────────────

Rows = TypeVar("Rows", "DataFrame", Labels)


@dataclass(frozen=True, eq=False)
class PrivacyScore:
    """A scorer for ``GridSearchCV``: minus how often an attack on the model is right.

    scikit-learn shows a scorer the fitted model and the rows held out, but not the rows that it was
    fitted on.  This one is given the rows and the splits of the search, and finds the split by the
    rows held out: the rows of its other part are the members, the rows held out are not.  Higher is
    better; -0.5 is an attack that guesses blindly, where half of the candidates are members.

    Guarantee: none, the score is an estimate.  It is good enough to choose by, and the best of
    several must not be quoted: it was chosen because it came out well.  What holds for the chosen
    model is what :func:`memberbound.audit` measures with rows that had no part in the search as
    non-members (then the choice is a part of the model); or, without such rows, the intervals of
    all M candidates at confidence 1 - α/M, with the models as they were fitted on their split.
    Theorem: proofs/given-models.md, claim 5.

    Args:
        X: the rows of the search, as ``fit`` gets them.
        y: their target.
        splits: what ``cv`` gets: pairs of numbers of rows, trained on and held out.
        attack: one that needs no reference models.

    Examples:
        >>> from sklearn.model_selection import GridSearchCV, KFold
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(200, 4)), rng.integers(2, size=200)
        >>> splits = list(KFold(4).split(X))
        >>> search = GridSearchCV(
        ...     DecisionTreeClassifier(random_state=0),
        ...     {"max_depth": [1, 12]},
        ...     scoring=PrivacyScore(X, y, splits),
        ...     cv=splits,
        ... )
        >>> search.fit(X, y).best_params_
        {'max_depth': 1}
    """

    X: DataFrame | Labels
    y: Series | Labels
    splits: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
    attack: str = "loss"

    def __post_init__(self) -> None:
        # A generator would be used up by the first model.
        object.__setattr__(self, "splits", list(self.splits))
        if not hasattr(self.X, "iloc"):
            object.__setattr__(self, "X", np.asarray(self.X))
        if np.ndim(self.X) != 2 or len(self.X) != len(self.y):
            raise InputError("X must be a table or an array with a row per value of y.")

    def __call__(self, model: object, X: DataFrame | Labels, y: Labels) -> float:
        """Return the score of a model whose held-out rows are these."""
        truth = np.asarray(self.y)
        fitting = [
            (inside, outside)
            for inside, outside in self.splits
            if np.array_equal(truth[outside], y) and _same(_taken(self.X, outside), X)
        ]
        if not fitting:
            raise InputError(
                "X must be the rows that one of the splits holds out, got others. Give cv= the "
                "same list of splits, fit= the same rows, and no return_train_score=True."
            )
        inside, outside = fitting[0]
        if any(set(other) != set(inside) for other, _ in fitting[1:]):
            raise InputError(
                "splits must hold out different rows, got the same ones with other training rows: "
                "which rows a model was trained on cannot be told."
            )
        rows = np.concatenate([inside, outside])
        member = np.arange(len(rows)) < len(inside)
        evidence = Evidence.of(TrainedModel.of(model), _taken(self.X, rows), truth[rows], member)
        audit = audit_evidence(evidence, attacks=[self.attack], fpr=())
        return -(1 + audit.best_advantage.estimate) / 2


def _taken(table: Rows, rows: NDArray[np.intp]) -> Rows:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _same(one: object, other: object) -> bool:
    """Tell whether two tables hold the same rows, missing values included."""
    import pandas as pd

    return bool(pd.DataFrame(one).equals(pd.DataFrame(other)))
