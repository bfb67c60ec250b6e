"""Performance of an attack (AUC, advantage, accuracy, TPR), computed from its scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.answers import EstimateOf, Lower, Upper
from memberbound.attacks.intervals import (
    auc_lower,
    auc_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    non_members_needed,
    rank_beyond,
    rank_within,
    two_sample_deviation,
)
from memberbound.attacks.signals import BoolArray
from memberbound.certificate import AuditBound, json_number
from memberbound.errors import InputError
from memberbound.games import ModelGame
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import confident, decimals, interval, significant


def content_generator(
    seed: int, *content: NDArray[np.generic], purpose: str = ""
) -> np.random.Generator:
    """Return a generator seeded by a SHA-256 of the seed, the purpose and the content.

    A seed alone would split every table at the same indices.  In a file sorted by a score, these
    would be the same *ranks* in every sample, and one part would not be a fresh sample for the
    other.  Hashing the records makes the split differ between tables; claims that rely on it treat
    the hash as random (proofs/audit-intervals.md claim 4, proofs/given-models.md).

    Examples:
        >>> content_generator(0, np.arange(3)).random() == content_generator(0, np.ones(3)).random()
        False
    """
    digest = sha256(f"{seed}{purpose}".encode())
    for part in content:
        digest.update(part.size.to_bytes(8, "big"))
        kept = _leading_bits(part.astype(np.float64)) if part.dtype.kind == "f" else part
        digest.update(np.ascontiguousarray(kept).data)
    return np.random.default_rng(int.from_bytes(digest.digest(), "big"))


def _leading_bits(numbers: FloatArray) -> FloatArray:
    """Return the distances from the median to twelve bits.

    The last bits of a score differ between processors, so hashing them would split the same records
    differently on every machine.

    Examples:
        >>> _leading_bits(np.array([1, 2, 4 + 1e-12])).tolist()
        [-1.0, 0.0, 2.0]
    """
    finite = np.sort(numbers[np.isfinite(numbers)])
    middle = finite[(len(finite) - 1) // 2] if len(finite) else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        away = numbers - middle
        away[np.abs(away) <= 1e-9 * abs(middle)] = 0.0
        fraction, exponent = np.frexp(away)
        return np.asarray(np.ldexp(np.rint(4096 * fraction), exponent - 12) + 0.0)


_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def membership(values: Iterable[object]) -> BoolArray:
    """Parse membership: 1 or 0, also as text, booleans, or yes and no.

    Examples:
        >>> membership([1, "0", True, 0.0, "Yes"]).tolist()
        [True, False, True, False, True]
    """
    listed = list(values)
    flags: dict[object, bool] = {}
    for value in dict.fromkeys(listed):
        flag = _FLAGS.get(str(value).strip().lower().removesuffix(".0"))
        if flag is None:
            raise InputError(f"member must be 1 (member) or 0 (not a member), got {value!r}.")
        flags[value] = flag
    return np.array([flags[value] for value in listed], dtype=np.bool_)


# ── The scores of members and of non-members: checked, sorted, split ──────────────────────────────

#: Minimum number of scores of each class; below this, every interval is vacuous.
FEWEST_SCORES = 20


class Scores(NamedTuple):
    """Ascending scores of members and of non-members; higher scores indicate membership."""

    members: FloatArray
    non_members: FloatArray

    @classmethod
    def of(cls, scores: ArrayLike, member: ArrayLike) -> Scores:
        """Divide checked scores into the two classes."""
        values, inside = np.asarray(scores, dtype=np.float64), np.asarray(member, dtype=np.bool_)
        return cls.from_samples(values[inside], values[~inside])

    @classmethod
    def from_samples(cls, members: ArrayLike, non_members: ArrayLike) -> Scores:
        """Check and sort the two samples."""
        pair = cls(*(np.sort(np.asarray(s, dtype=np.float64)) for s in (members, non_members)))
        for name, sample in (("members", pair.members), ("non-members", pair.non_members)):
            if sample.size == 0:
                raise InputError(
                    f"scores must come from members and non-members, got no {name}. "
                    "An attack is measured by how well it tells the two apart."
                )
        total = pair.members.size + pair.non_members.size
        if total < FEWEST_SCORES:
            raise InputError(
                f"scores must be at least {FEWEST_SCORES} in number, got {total}. "
                "Fewer give no useful interval."
            )
        missing = int(sum(np.isnan(sample).sum() for sample in pair))
        if missing:
            raise InputError(
                f"scores must be numbers, got {missing} that are not (NaN). "
                "Leaving them out would change the attack: give them its fallback score."
            )
        return pair

    def split(self, seed: int) -> tuple[Scores, Scores]:
        """Return a random third for choosing a threshold, and the rest for evaluation.

        The split is drawn from a hash of the sorted scores and the seed, so it does not depend on
        the order of the rows (proofs/audit-intervals.md claim 4).
        """
        source = content_generator(seed, *self)
        parts = []
        for sample in self:
            chosen = np.zeros(sample.size, dtype=bool)
            size = max(1, sample.size // 3) if sample.size > 1 else 0
            chosen[source.choice(sample.size, size, replace=False)] = True
            parts.append((sample[chosen], sample[~chosen]))
        (a, b), (c, d) = parts
        return Scores(a, c), Scores(b, d)

    def hits(self, threshold: float) -> tuple[int, int]:
        """Return the numbers of members and of non-members at or above the threshold."""
        return (
            int(self.members.size - np.searchsorted(self.members, threshold, "left")),
            int(self.non_members.size - np.searchsorted(self.non_members, threshold, "left")),
        )

    def best_threshold(self) -> tuple[float, float]:
        """Return the threshold (a member's score, or +∞) and the value of the largest TPR - FPR."""
        x, y = self
        reached = (x.size - np.searchsorted(x, x, "left")) / max(x.size, 1)
        alarms = (y.size - np.searchsorted(y, x, "left")) / max(y.size, 1)
        gap = reached - alarms
        if gap.size == 0 or gap.max() <= 0:
            return np.inf, 0.0
        index = int(np.argmax(gap))
        return float(x[index]), float(gap[index])


# ── Results ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class AttackAudit:
    """Results of one attack; each bound holds individually at the audit's confidence.

    ``shared_advantage`` holds simultaneously for all attacks that ran, so the best one may be
    selected afterwards.  ``access`` names the outputs of a given model that the attack saw;
    ``notes`` explain missing quantities.
    """

    advantage: AuditBound
    shared_advantage: AuditBound
    auc: AuditBound
    accuracy: AuditBound | None = None
    tpr_at_fpr: Mapping[str, AuditBound | None] = field(default_factory=dict)
    members: int | None = None
    non_members: int | None = None
    access: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self, *, proved: bool = True) -> AttackFields:
        """Return the contract's fields, without interval ends if nothing is proved."""

        def fields(bound: AuditBound | None) -> IntervalFields | None:
            return None if bound is None else interval_fields(bound, proved=proved)

        result: AttackFields = {
            "auc": fields(self.auc),
            "advantage": interval_fields(self.advantage, proved=proved),
            "accuracy": fields(self.accuracy),
            "tpr_at_fpr": {rate: fields(bound) for rate, bound in self.tpr_at_fpr.items()},
        }
        if self.members is not None:
            result["members"] = self.members
        if self.non_members is not None:
            result["non_members"] = self.non_members
        if self.access is not None:
            result["access"] = self.access
        return result


class AttackFields(TypedDict, total=False):
    """Results of one attack; the keys present depend on the target of the audit."""

    auc: IntervalFields | None
    advantage: IntervalFields
    accuracy: IntervalFields | None
    tpr_at_fpr: dict[str, IntervalFields | None]
    members: int
    non_members: int
    access: str


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredAttacks:
    """Results of all attacks that ran in one audit."""

    attacks: dict[str, AttackAudit]
    confidence: float
    warnings: tuple[str, ...] = ()

    @property
    def best_advantage(self) -> AuditBound:
        """The advantage of the attack with the highest lower bound, corrected for the selection."""
        return highest_floor(attack.shared_advantage for attack in self.attacks.values())

    @property
    def best(self) -> str:
        """The name of the attack behind :attr:`best_advantage`."""
        return self.best_advantage.attack


def highest_floor(bounds: Iterable[AuditBound]) -> AuditBound:
    """Return the interval with the highest lower bound."""
    return max(bounds, key=lambda b: (max(b.lower, 0.0), b.estimate))


class IntervalFields(TypedDict):
    """A measured bound in the contract, without ends if nothing is proved."""

    estimate: EstimateOf | None
    lower: Lower | None
    upper: Upper | None


def interval_fields(bound: AuditBound, *, proved: bool = True) -> IntervalFields:
    """Return the contract's fields of a measured bound."""
    ends = (bound.lower, bound.upper) if proved else (None, None)
    estimate, lower, upper = map(json_number, (bound.estimate, *ends))
    return {"estimate": estimate, "lower": lower, "upper": upper}


def interval_text(bound: IntervalFields) -> str:
    """Format the estimate, with the ends if present."""
    estimate = decimals(bound["estimate"], "estimate", 3)
    if bound["lower"] is None or bound["upper"] is None:
        return estimate
    return f"{estimate} {interval(bound['lower'], bound['upper'], 3)}"


# ── One model: its members against fresh records ──────────────────────────────────────────────────
#
# The attack predicts "member" if its score reaches a threshold.  Every interval accounts for
# choosing the threshold on the same scores (proofs/audit-intervals.md).

#: Assumptions under which intervals of scores hold.
ASSUMPTIONS = (
    "All scores are about one model. The numbers are about it and its own members, not about "
    "other models of the same learner.",
    "The members are the model's whole training set, or records drawn from it uniformly.",
    "The non-members are independent draws from the source of the training records and had no "
    "part in the model or the attack.",
    "Higher scores indicate membership; the scoring rule was fixed without knowing which of these "
    "records are members.",
    "Each interval holds with the stated confidence on its own, not all of them at once.",
)


def audit_scores(
    scores: Scores,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    attack: str = "scores",
    among: int = 1,
    seed: int = 0,
) -> AttackAudit:
    """Measure an attack on one model from its scores of members and non-members.

    Quantities, for the attack "score at least t", a uniform member of this model with score X and
    a fresh record with score Y: AUC = P(X > Y) + ½P(X = Y); advantage = max over t of TPR - FPR;
    accuracy = max over t of ½·TPR + ½·(1 - FPR); TPR at FPR α = the largest TPR of any threshold
    with a true FPR of at most α.

    Guarantee: given the model and its training set, each ``[lower, upper]`` contains its quantity
    with probability at least ``confidence``, over the draw of the scored records and the random
    split, and each end fails with at most half the remaining probability.
    Theorem: proofs/audit-intervals.md claims 1 to 4.
    Assumes: the members are the training set or a uniform part of it, the non-members independent
    fresh records.
    Numerics: thresholds and counts are exact, bounds are rounded outwards.
    Edge cases: constant scores give AUC ½ and advantage 0; infinite scores are ranked like any
    other; if there are too few non-members for an FPR, its entry is ``None`` and a note explains
    why.  ``shared_advantage`` holds simultaneously for all ``among`` attacks compared.

    Examples:
        >>> pair = Scores.of([0.0] * 30 + [1.0] * 30, [0] * 30 + [1] * 30)
        >>> audit = audit_scores(pair, fpr=[0.2])
        >>> audit.auc.estimate, round(audit.auc.lower, 3), audit.auc.upper
        (1.0, 0.884, 1.0)
        >>> audit.to_dict()["tpr_at_fpr"]["0.2"]["estimate"]
        1.0
    """
    side = (1 - confidence) / 2
    split = scores.split(seed)

    def bound(quantity: str, low: float, estimate: float, high: float) -> AuditBound:
        # A lower bound from part of the scores may by chance exceed the estimate from all of them.
        low, high = min(max(low, 0.0), estimate), max(min(high, 1.0), estimate)
        return AuditBound(quantity, estimate, low, high, confidence, ModelGame(), attack)

    n1, n0 = scores.members.size, scores.non_members.size
    area, gap = area_under_roc(*scores), _gap(scores, split, side)
    shared = (
        gap if among == 1 else _gap(scores, split, (1 - shared_confidence(confidence, among)) / 2)
    )
    curve: dict[str, AuditBound | None] = {}
    notes = []
    rates = tuple(fpr)
    for alpha in rates:
        needed = non_members_needed(alpha, side / 2)
        if n0 < needed:
            curve[repr(alpha)] = None
            notes.append(
                f"No TPR at FPR {significant(alpha, 'given')}: {n0} non-members are too few, at "
                f"least {needed} are needed at confidence {confident(confidence)}."
            )
        else:
            name = f"TPR at FPR {significant(alpha, 'given')}"
            curve[repr(alpha)] = bound(name, *_tpr(scores, alpha, side))
    lost = [alpha for alpha in rates if (rate := curve[repr(alpha)]) and rate.estimate == 0]
    tied = [alpha for alpha in lost if _ties(scores, alpha)]
    if tied:
        listed = " and ".join(significant(alpha, "given") for alpha in tied)
        # The best member has this score, at each of these rates.
        others = _ties(scores, tied[0])
        notes.append(
            f"TPR at FPR {listed} of {attack}: {others} of {n0} non-members have one score, and a "
            "threshold takes all of them or none; an attack that breaks ties at random finds more."
        )
    return AttackAudit(
        bound("advantage", *gap),
        bound("advantage", *shared),
        bound("AUC", auc_lower(area, n1, n0, side), area, auc_upper(area, n1, n0, side)),
        # The accuracy is ½ + ½·max(TPR - FPR).
        bound("accuracy at prior 0.5", *((1 + value) / 2 for value in gap)),
        curve,
        n1,
        n0,
        notes=tuple(notes),
    )


def area_under_roc(members: FloatArray, non_members: FloatArray) -> float:
    """Return the share of pairs in which the member scores higher; ties count half.

    Inputs are sorted.

    Examples:
        >>> area_under_roc(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
        0.625
    """
    ranks = (np.searchsorted(non_members, members, side) for side in ("left", "right"))
    # Integer sums are exact.
    return sum(int(rank.sum()) for rank in ranks) / (2 * members.size * non_members.size)


def _gap(pair: Scores, split: tuple[Scores, Scores], side: float) -> tuple[float, float, float]:
    """Bound max over t of TPR - FPR from both sides (proofs/audit-intervals.md claim 4)."""
    n1, n0 = pair.members.size, pair.non_members.size
    _, estimate = pair.best_threshold()
    upper = estimate + two_sample_deviation(n1, n0, side)
    # Two lower bounds share the error.  One holds for all thresholds at once and is better for weak
    # attacks; the other is for a threshold chosen on separate scores and is better for strong ones.
    lower = max(estimate - two_sample_deviation(n1, n0, side / 2), 0.0)
    choose, evaluate = split
    threshold, _ = choose.best_threshold()
    if min(sample.size for sample in (*choose, *evaluate)) > 0:
        hits, alarms = evaluate.hits(threshold)
        falsely = clopper_pearson_upper(alarms, evaluate.non_members.size, side / 4)
        others = float(clopper_pearson_lower(hits, evaluate.members.size, side / 4))
        # The bound covers the members outside the third used for choosing.  That third has between
        # none and n₁/3 of the members above the threshold, so the TPR of all lies between these
        # two.
        share = choose.members.size / n1
        among = choose.hits(threshold)[0] / choose.members.size
        reached = min(others, share * among + (1 - share) * others)
        # Both terms keep 1e-11 of their size, far more than these operations round.
        lower = max(lower, float(reached - falsely))
    return lower, estimate, upper


def _tpr(pair: Scores, alpha: float, side: float) -> tuple[float, float, float]:
    """Bound the TPR at FPR ≤ α from both sides (proofs/audit-intervals.md claim 3)."""
    x, y = pair
    n1, n0 = x.size, y.size

    def above(rank: int) -> int:
        """Count the members above the rank-th largest non-member."""
        return int(n1 - np.searchsorted(x, y[n0 - rank], "right"))

    low = clopper_pearson_lower(above(rank_within(n0, alpha, side / 2)), n1, side / 2)
    estimate = above(_alarms(n0, alpha) + 1) / n1
    rank = rank_beyond(n0, alpha, side / 2)
    high = 1.0
    if rank <= n0:
        at_least = int(n1 - np.searchsorted(x, y[n0 - rank], "left"))
        high = float(clopper_pearson_upper(at_least, n1, side / 2))
    return float(low), estimate, high


def _alarms(n0: int, alpha: float) -> int:
    """Return how many of n0 non-members may be called members at FPR α."""
    return min(int(alpha * n0 * (1 + 1e-12)), n0 - 1)


def _ties(pair: Scores, alpha: float) -> int:
    """Return how many non-members tie with a member at FPR α; 0 if a threshold may take them."""
    x, y = pair
    allowed = _alarms(y.size, alpha)
    score = y[y.size - allowed - 1]
    tied = int((y == score).sum())
    return tied if tied > max(allowed, 1) and score in x else 0


def permutation_p_value(
    score: FloatArray, member: BoolArray, rng: np.random.Generator, shuffles: int = 1999
) -> float:
    """Return the permutation p-value of the members' rank sum.

    Guarantee: at most α with probability at most α if membership is exchangeable given the scores.
    Theorem: proofs/given-models.md claims 3 and 4.
    """
    from scipy.stats import rankdata

    ranks = np.rint(2 * rankdata(score)).astype(np.int64)  # ties have half ranks; sums stay exact
    size, observed = int(member.sum()), int(ranks[member].sum())
    as_high = sum(
        int(ranks[rng.permutation(len(ranks))[:size]].sum()) >= observed for _ in range(shuffles)
    )
    return (1 + as_high) / (1 + shuffles)
