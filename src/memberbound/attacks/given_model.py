"""Attacks on a model that exists: its members against fresh records (the model game).

Two kinds of attack.  Some read one answer of the model and no other record: loss, confidence,
entropy, modified entropy, and whether the label is right.  Others learn first: from the truth about
a random half of the records, or from reference models trained on that half.  Such an attack is
measured on the other half only, which its rule has never seen, so the intervals of
proofs/audit-intervals.md hold as they stand (claims 1 to 4 want the rule fixed before the records
are drawn; proofs/given-models.md claim 1).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from memberbound.attacks.attacks import AccessLevel, access_of, attacks_on_models, runnable_on
from memberbound.attacks.evidence import Evidence, References, known_half
from memberbound.attacks.scores import (
    ScoreAudit,
    Scores,
    audit_pair,
    interval_fields,
    without_ends,
)
from memberbound.attacks.signals import BoolArray
from memberbound.attacks.target import Target
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import INTERVAL, AuditBound, Sides, json_number

__all__ = [
    "SCORES",
    "ModelAudit",
    "PointAudit",
    "attack_scores",
    "audit_model",
    "audit_score_table",
    "shuffled_p_value",
]

#: How much of the model an attacker sees, in order.
_ORDER: dict[AccessLevel, int] = {"labels": 0, "values": 1, "probabilities": 1, "parameters": 2}
#: Fewer records of either kind are refused.
FEWEST = 20
#: Rearrangements behind a p-value.
SHUFFLES = 1999
#: The attack whose scores are given.
SCORES = "scores"
#: Attacks for the list of records, the strongest first: it is fixed before looking.
_FOR_RECORDS = ("combined", "loss", "label-only")


def attack_scores(
    evidence: Evidence,
    *,
    attacks: Iterable[str] | None = None,
    references: References | None = None,
    seed: int = 0,
) -> tuple[dict[str, tuple[FloatArray, BoolArray]], tuple[str, ...]]:
    """Return per attack the score of every record and the records it may be measured on.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    known = known_half(evidence, seed) if references is None else references.known
    target = Target(evidence, known, references)
    scores: dict[str, tuple[FloatArray, BoolArray]] = {}
    for name, attack in runnable_on(target, attacks).items():
        score = attack.score(target)
        if np.isnan(score).any():
            raise InputError(f"scores of {name} must be numbers for every record, got NaN.")
        scores[name] = score, ~known if attack.learns else np.ones(len(known), dtype=np.bool_)
    notes: tuple[str, ...] = ()
    if references is not None:
        notes = tuple(dict.fromkeys(w for run in references.runs for w in run.warnings))
    return scores, notes


# ── The audit ─────────────────────────────────────────────────────────────────────────────────────

_ASSUMPTIONS = (
    "The numbers are about this model and its own members; nothing is said about other models of "
    "the same learner.",
    "The members are the model's whole training set, or records drawn from it uniformly.",
    "The non-members are independent draws from the source of the training records and had no part "
    "in the model (not in tuning or early stopping either).",
    "Each interval of an attack holds with the stated confidence on its own; those of "
    "best_advantage and by_access hold for all attacks at once.",
    "Attacks that learn (combined) or use reference models are told who is a member in a random "
    "half of the records, and are measured on the other half.",
    "lira and rmia compare models with and without each record, trained on halves of all records; "
    "they are estimates without an interval, and their p-value is about no leak at all.",
)


@dataclass(frozen=True, eq=False)
class PointAudit:
    """What an attack reached that no interval of ours covers: estimates and a p-value.

    ``p_value`` is that of "the model is independent of who is a member", by shuffling membership.
    """

    found: ScoreAudit
    p_value: float

    def to_dict(self) -> dict[str, object]:
        """Return the contract's fields; without an interval its ends are missing."""
        fields = without_ends(self.found.to_dict())
        return fields | {"confidence": None, "no_leak_p_value": self.p_value}


def shuffled_p_value(score: FloatArray, member: BoolArray, rng: np.random.Generator) -> float:
    """Return the p-value of the members' rank sum among random rearrangements of membership.

    Guarantee: at most α with probability at most α if membership is exchangeable given the scores.
    Theorem: proofs/given-models.md claims 3 and 4.
    """
    from scipy.stats import rankdata

    ranks = np.rint(2 * rankdata(score)).astype(np.int64)  # ties have half ranks; sums stay exact
    size, seen = int(member.sum()), int(ranks[member].sum())
    reached = sum(
        int(ranks[rng.permutation(len(ranks))[:size]].sum()) >= seen for _ in range(SHUFFLES)
    )
    return (1 + reached) / (1 + SHUFFLES)


@dataclass(frozen=True, eq=False)
class ModelAudit:
    """What attacks reached on one given model; see :func:`audit_model`.

    ``best`` is the attack with the highest proved advantage; ``best_advantage`` is its interval at
    an error shared among all attacks, so that choosing it is paid for; ``by_access`` is the same
    for an attacker who sees labels only, probabilities, or the model.  ``evidence`` is None where
    only scores are known; then nobody knows what the attack had to see.
    """

    SIDES: ClassVar[Sides] = {
        "best_advantage": INTERVAL,
        "by_access": {"*": {"advantage": INTERVAL}},
        "training_seconds": "estimate",
        "attack_seconds": "estimate",
    }

    attacks: dict[str, ScoreAudit]
    best: str
    best_advantage: AuditBound
    by_access: dict[str, AuditBound]
    scores: dict[str, tuple[FloatArray, BoolArray]] = field(repr=False)
    member: BoolArray = field(repr=False)
    confidence: float
    seconds: float
    evidence: Evidence | None = field(default=None, repr=False)
    references: References | None = None
    warnings: tuple[str, ...] = ()
    #: Attacks without an interval.
    estimates: dict[str, PointAudit] = field(default_factory=dict)
    #: What has to be true for the intervals to hold.
    assumptions: tuple[str, ...] = _ASSUMPTIONS

    @property
    def for_records(self) -> str:
        """The attack behind the lists of records and groups, fixed before looking."""
        return next((n for n in _FOR_RECORDS if n in self.attacks), next(iter(self.attacks)))

    def attack_fields(self) -> dict[str, dict[str, object]]:
        """Return the contract's fields per attack, and what each has to see of the model."""
        everything: dict[str, ScoreAudit | PointAudit] = {**self.attacks, **self.estimates}
        fields = {name: found.to_dict() for name, found in everything.items()}
        if self.evidence is None:
            return fields
        task = self.evidence.task
        return {name: found | {"access": access_of(name, task)} for name, found in fields.items()}

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        refs = self.references
        return {
            "attacks": self.attack_fields(),
            "best": self.best,
            "best_advantage": interval_fields(self.best_advantage),
            "by_access": {
                level: {"attack": bound.attack, "advantage": interval_fields(bound)}
                for level, bound in self.by_access.items()
            },
            "members": int(self.member.sum()),
            "non_members": int((~self.member).sum()),
            "reference_models": 0 if refs is None else refs.models,
            "training_seconds": 0.0 if refs is None else json_number(refs.seconds),
            "attack_seconds": json_number(self.seconds),
        }


def audit_model(
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
    Assumes: :attr:`ModelAudit.assumptions`.
    Edge cases: fewer than 20 records of either kind are refused.
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    member, rates = evidence.member, tuple(fpr)
    for name, count in (("members", int(member.sum())), ("non-members", int((~member).sum()))):
        if count < FEWEST:
            raise InputError(f"{name} must be at least {FEWEST} records, got {count}.")
    scores, notes = attack_scores(evidence, attacks=attacks, references=references, seed=seed)
    listed = attacks_on_models()
    proved = {name: score for name, score in scores.items() if listed[name].proved}
    if not proved:
        raise InputError(
            "attacks must include one whose interval is proved, got "
            f"{', '.join(scores)} alone, which compare models with and without a record."
        )
    found, shared, too_few = _intervals(proved, member, sure, rates, seed)
    points = {}
    for name in scores.keys() - proved.keys():
        score, where = scores[name]
        pair = Scores.of(score[where], member[where])
        seen = audit_pair(pair, confidence=sure, fpr=rates, attack=name, seed=seed)
        rng = evidence.generator(seed, f"shuffles of {name}")
        points[name] = PointAudit(seen, shuffled_p_value(score, member, rng))
    levels: dict[str, AuditBound] = {}
    reach = {name: _ORDER[access_of(name, evidence.task)] for name in proved}
    for level in sorted({access_of(n, evidence.task) for n in proved}, key=_ORDER.__getitem__):
        within = [bound for n, bound in shared.items() if reach[n] <= _ORDER[level]]
        levels[level] = _highest(within, sure)
    paid = _highest(list(shared.values()), sure)
    return ModelAudit(
        found,
        paid.attack,
        paid,
        levels,
        scores,
        member,
        sure,
        time.perf_counter() - start,
        evidence,
        references,
        (*evidence.notes, *notes, *too_few),
        {name: points[name] for name in scores if name in points},
    )


def audit_score_table(
    score: FloatArray,
    member: BoolArray,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure one attack on one given model from its scores alone, higher for a member.

    Guarantee, Theorem, Assumes, Edge cases: as :func:`memberbound.attacks.scores.audit_scores`.
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    scores = {SCORES: (score, np.ones(len(score), dtype=np.bool_))}
    found, shared, too_few = _intervals(scores, member, sure, tuple(fpr), seed)
    return ModelAudit(
        found,
        SCORES,
        shared[SCORES],
        {},
        scores,
        np.asarray(member, dtype=np.bool_),
        sure,
        time.perf_counter() - start,
        warnings=too_few,
        assumptions=found[SCORES].assumptions,
    )


def _intervals(
    scores: Mapping[str, tuple[FloatArray, BoolArray]],
    member: BoolArray,
    confidence: float,
    rates: tuple[float, ...],
    seed: int,
) -> tuple[dict[str, ScoreAudit], dict[str, AuditBound], tuple[str, ...]]:
    """Return each attack's intervals, its advantage where all hold at once, and what is missing."""
    found, shared = {}, {}
    each = shared_confidence(confidence, len(scores))
    for name, (score, where) in scores.items():
        pair = Scores.of(score[where], member[where])
        found[name] = audit_pair(pair, confidence=confidence, fpr=rates, attack=name, seed=seed)
        together = audit_pair(pair, confidence=each, fpr=(), attack=name, seed=seed)
        shared[name] = together.advantage
    # One note a rate: attacks that learn are measured on fewer records, and would repeat it.
    too_few: dict[str, str] = {}
    for note in (note for audit in found.values() for note in audit.notes):
        too_few.setdefault(note.partition(":")[0], note)
    return found, shared, tuple(too_few.values())


def _highest(bounds: list[AuditBound], confidence: float) -> AuditBound:
    """Return the interval with the highest floor; they hold together with ``confidence``."""
    best = max(bounds, key=lambda b: (b.lower, b.estimate))
    return AuditBound(
        best.quantity,
        best.estimate,
        best.lower,
        best.upper,
        confidence,
        best.game,
        best.attack,
    )
