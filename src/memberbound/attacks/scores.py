"""What a table of attack scores shows about one model: ROC, advantage, accuracy, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from memberbound.attacks.splits import content_generator
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame, ModelGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import AuditBound, Estimate, confident, json_number, significant

__all__ = [
    "FEWEST_SCORES",
    "ScoreAudit",
    "Scores",
    "area_under_roc",
    "audit_pair",
    "audit_samples",
    "audit_scores",
    "interval_fields",
    "without_ends",
]

# ── The scores of members and of non-members: checked, sorted, split ──────────────────────────────
#
# Higher scores speak for membership.  Only their order counts; their values merely seed the split.

#: Fewer scores than this are refused: no interval would say anything.
FEWEST_SCORES = 20
#: One in so many scores of each class serve to choose a threshold, the others to evaluate it.
_CHOOSING = 3


class Scores(NamedTuple):
    """Scores of members and of non-members, each sorted upwards."""

    members: FloatArray
    non_members: FloatArray

    @classmethod
    def of(cls, scores: ArrayLike, member: ArrayLike) -> Scores:
        """Sort scores into the two classes by their 0/1 labels, or refuse them."""
        values = _score_array("scores", scores)
        labels = np.asarray(member)
        if labels.shape != values.shape:
            raise InputError(
                f"member must have one label per score ({values.size}), got shape {labels.shape}."
            )
        if labels.dtype != np.bool_:
            try:
                labels = labels.astype(np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    "member must be labels 0 (not a member) or 1 (member), got text. "
                    "Convert them to 0 and 1."
                ) from None
            strange = labels[(labels != 0) & (labels != 1)]
            if strange.size:
                raise InputError(
                    "member must be labels 0 (not a member) or 1 (member), got "
                    f"{float(strange[0])!r}."
                )
            labels = labels == 1
        return cls.from_samples(values[labels], values[~labels])

    @classmethod
    def from_samples(cls, members: ArrayLike, non_members: ArrayLike) -> Scores:
        """Return the two samples, sorted, or refuse them."""
        inside = _score_array("scores of members", members)
        outside = _score_array("scores of non-members", non_members)
        for name, sample in (("members", inside), ("non-members", outside)):
            if sample.size == 0:
                raise InputError(
                    f"scores must come from members and non-members, got no {name}. "
                    "An attack is measured by how well it tells the two apart."
                )
        if inside.size + outside.size < FEWEST_SCORES:
            raise InputError(
                f"scores must be at least {FEWEST_SCORES} in number, got "
                f"{inside.size + outside.size}. Fewer say nothing at any useful confidence."
            )
        return cls(np.sort(inside), np.sort(outside))

    def split(self, seed: int) -> tuple[Scores, Scores]:
        """Return a random third for choosing a threshold, and the rest for evaluating it.

        The split is drawn from a hash of the sorted scores and the seed, so it does not depend on
        the order of the rows (proofs/audit-intervals.md claim 4).
        """
        source = content_generator(seed, *self)
        parts = []
        for sample in self:
            chosen = np.zeros(sample.size, dtype=bool)
            size = max(1, sample.size // _CHOOSING) if sample.size > 1 else 0
            chosen[source.choice(sample.size, size, replace=False)] = True
            parts.append((sample[chosen], sample[~chosen]))
        (a, b), (c, d) = parts
        return Scores(a, c), Scores(b, d)

    def hits(self, threshold: float) -> tuple[int, int]:
        """Return how many members and how many non-members reach the threshold."""
        return (
            int(self.members.size - np.searchsorted(self.members, threshold, "left")),
            int(self.non_members.size - np.searchsorted(self.non_members, threshold, "left")),
        )

    def best_threshold(self, weights: tuple[float, float]) -> tuple[float, float]:
        """Return the threshold with the largest w₁·TPR - w₀·FPR and that value.

        The best threshold is a member's score (raising it to the next one loses no member) or +∞,
        nobody, with value 0.
        """
        x, y = self
        reached = (x.size - np.searchsorted(x, x, "left")) / max(x.size, 1)
        alarms = (y.size - np.searchsorted(y, x, "left")) / max(y.size, 1)
        gap = weights[0] * reached - weights[1] * alarms
        if gap.size == 0 or gap.max() <= 0:
            return np.inf, 0.0
        place = int(np.argmax(gap))
        return float(x[place]), float(gap[place])


def _score_array(name: str, scores: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {type(scores).__name__}.") from None
    if values.ndim != 1:
        raise InputError(f"{name} must be a list of numbers, got shape {values.shape}.")
    missing = int(np.isnan(values).sum())
    if missing:
        raise InputError(
            f"{name} must be numbers, got {missing} that are not (NaN). "
            "Leaving them out would change the attack: give them the score it falls back to."
        )
    return values


# ── Audit of attack scores: AUC, advantage, accuracy and TPR at low FPR, with intervals that hold
#
# The attack calls "member" when its score reaches a threshold.  The price of choosing the threshold
# on the same scores is paid in every interval (proofs/audit-intervals.md).
#
# The scores are those of *one* model, its members against fresh records: the model game.  Nothing
# follows for other models of the same learner, which may behave differently in other runs.

_RULE = (
    "Higher scores speak for membership; how a record is scored was settled without looking at "
    "which of these records are members.",
    "Each interval holds with the stated confidence on its own, not all of them at once.",
)
_ASSUMPTIONS: dict[str, tuple[str, ...]] = {
    "model": (
        "All scores are about one model. The numbers are about it and its own members; nothing is "
        "said about other models of the same learner.",
        "The members are the model's whole training set, or records drawn from it uniformly.",
        "The non-members are independent draws from the source of the training records and had no "
        "part in the model or the attack.",
        *_RULE,
    ),
    "iid": (
        "Every score comes from a training run of its own, on its own independent draws: the "
        "scores of members are independent and alike, and so are those of non-members.",
        *_RULE,
    ),
}


@dataclass(frozen=True)
class ScoreAudit:
    """What one attack's scores show; see :func:`audit_scores`."""

    auc: AuditBound
    advantage: AuditBound
    accuracy: AuditBound
    prior: float
    accuracy_sample_prior: AuditBound
    tpr_at_fpr: dict[str, AuditBound | None]
    auc_standard_error: Estimate
    members: int
    non_members: int
    notes: tuple[str, ...] = ()

    @property
    def game(self) -> ModelGame | IidGame:
        """One model and its members, unless every score had a run of its own."""
        game = self.auc.game
        assert isinstance(game, (ModelGame, IidGame))
        return game

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for the intervals to hold."""
        return _ASSUMPTIONS[self.game.name]

    def to_dict(self) -> dict[str, object]:
        """Return the contract's fields: each quantity as ``{estimate, lower, upper}``."""
        return {
            "auc": interval_fields(self.auc),
            "advantage": interval_fields(self.advantage),
            "accuracy": interval_fields(self.accuracy),
            "prior": self.prior,
            "accuracy_sample_prior": interval_fields(self.accuracy_sample_prior),
            "tpr_at_fpr": {key: interval_fields(bound) for key, bound in self.tpr_at_fpr.items()},
            "auc_standard_error_estimate": json_number(self.auc_standard_error.value),
            "members": self.members,
            "non_members": self.non_members,
            "confidence": self.auc.confidence,
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return readable lines."""
        bounds = [self.auc, self.advantage, self.accuracy]
        bounds += [bound for bound in self.tpr_at_fpr.values() if bound is not None]
        return "\n".join([bound.summary() for bound in bounds] + list(self.notes))


def audit_scores(
    scores: ArrayLike,
    member: ArrayLike,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    prior: float = 0.5,
    game: ModelGame | IidGame | None = None,
    attack: str = "scores",
    seed: int = 0,
) -> ScoreAudit:
    """Measure an attack on one model from its scores and the truth (1: member, 0: not).

    Quantities, for the attack "score at least t", a uniform member of this model with score X and
    a fresh record with score Y: AUC = P(X > Y) + ½P(X = Y); advantage = max over t of TPR - FPR;
    accuracy = max over t of prior·TPR + (1 - prior)·(1 - FPR), balanced unless ``prior`` says
    otherwise, and once more at the share of members among the scores; TPR at FPR α = the largest
    TPR of a threshold whose true FPR is at most α.

    Guarantee: given the model and its training set, each ``[lower, upper]`` contains its quantity
    with probability at least ``confidence``, over the draw of the scored records and the random
    split, and each end fails with at most half the remaining probability.
    Theorem: proofs/audit-intervals.md claims 1 to 4.
    Assumes: the members are the training set or a uniform part of it, the non-members independent
    fresh records; with ``game=IidGame()`` that every score has a training run of its own, and then
    the quantities are the learner's.
    Numerics: thresholds and counts are exact, bounds are rounded outwards.
    Edge cases: constant scores give AUC ½ and advantage 0; infinite scores are ranked like others;
    where the non-members are too few for an FPR its entry is ``None`` and a note says why.  Running
    several attacks and reporting the best needs ``confidence`` shared among them.

    Examples:
        >>> audit = audit_scores([0.0] * 30 + [1.0] * 30, [0] * 30 + [1] * 30, fpr=[0.2])
        >>> audit.auc.estimate, round(audit.auc.lower, 3), audit.auc.upper
        (1.0, 0.884, 1.0)
        >>> audit.to_dict()["tpr_at_fpr"]["0.2"]["estimate"]
        1.0
    """
    return audit_pair(
        Scores.of(scores, member),
        confidence=confidence,
        fpr=fpr,
        prior=prior,
        game=game,
        attack=attack,
        seed=seed,
    )


def audit_samples(
    members: ArrayLike,
    non_members: ArrayLike,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    prior: float = 0.5,
    game: ModelGame | IidGame | None = None,
    attack: str = "scores",
    seed: int = 0,
) -> ScoreAudit:
    """Measure an attack from the scores of members and those of non-members.

    Guarantee, Theorem, Assumes, Numerics, Edge cases: as :func:`audit_scores`.

    Examples:
        >>> audit_samples(range(100), range(100)).auc.estimate
        0.5
    """
    return audit_pair(
        Scores.from_samples(members, non_members),
        confidence=confidence,
        fpr=fpr,
        prior=prior,
        game=game,
        attack=attack,
        seed=seed,
    )


def audit_pair(
    pair: Scores,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    prior: float = 0.5,
    game: ModelGame | IidGame | None = None,
    attack: str = "scores",
    seed: int = 0,
) -> ScoreAudit:
    """Measure an attack from scores that are checked and sorted; see :func:`audit_scores`."""
    played = ModelGame() if game is None else game
    if not isinstance(played, (ModelGame, IidGame)):
        raise InputError(
            f"game must be ModelGame or IidGame, got {game!r}. Records of a known population "
            "depend on each other through the model: audit the learner."
        )
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    odds = fraction("prior", prior, open_left=True, open_right=True)
    side = (1 - sure) / 2
    split = pair.split(whole_number("seed", seed, at_least=0))

    def bound(quantity: str, low: float, estimate: float, high: float) -> AuditBound:
        # A lower bound from a part of the scores may by chance pass the estimate from all of them.
        return AuditBound(
            quantity,
            estimate,
            min(max(low, 0.0), estimate),
            max(min(high, 1.0), estimate),
            sure,
            played,
            attack,
        )

    n1, n0 = pair.members.size, pair.non_members.size
    area, error = _mann_whitney(pair)
    low, gap, high = _gap(pair, split, (1.0, 1.0), side)
    advantage = bound("advantage", low, gap, high)

    def accuracy(share: float) -> AuditBound:
        # Right with probability 1 - π + max(π·TPR - (1-π)·FPR); the gap is doubled.
        ends = _gap(pair, split, (2 * share, 2 * (1 - share)), side)
        values = ((1 - share) + value / 2 for value in ends)
        return bound(f"accuracy at prior {significant(share, 'given')}", *values)

    curve: dict[str, AuditBound | None] = {}
    notes = []
    for rate in fpr:
        alpha = fraction("fpr", rate, open_left=True, open_right=True)
        needed = non_members_needed(alpha, side / 2)
        if n0 < needed:
            curve[repr(alpha)] = None
            notes.append(
                f"No TPR at FPR {significant(alpha, 'given')}: {n0} non-members are too few, at "
                f"least {needed} are needed at confidence {confident(sure)}."
            )
        else:
            name = f"TPR at FPR {significant(alpha, 'given')}"
            curve[repr(alpha)] = bound(name, *_tpr(pair, alpha, side))
    return ScoreAudit(
        auc=bound("AUC", auc_lower(area, n1, n0, side), area, auc_upper(area, n1, n0, side)),
        advantage=advantage,
        accuracy=accuracy(odds),
        prior=odds,
        accuracy_sample_prior=accuracy(n1 / (n1 + n0)),
        tpr_at_fpr=curve,
        auc_standard_error=Estimate("standard error of the AUC", error, "DeLong"),
        members=n1,
        non_members=n0,
        notes=tuple(notes),
    )


def area_under_roc(members: FloatArray, non_members: FloatArray) -> float:
    """Return the share of pairs in which the member scores higher, ties half; both are sorted.

    Examples:
        >>> area_under_roc(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
        0.625
    """
    # Whole numbers, added exactly.
    return int(_twice_below(members, non_members).sum()) / (2 * members.size * non_members.size)


def _twice_below(x: FloatArray, y: FloatArray) -> NDArray[np.intp]:
    """Return twice the number of y below each x, ties half; both are sorted."""
    return np.searchsorted(y, x, "left") + np.searchsorted(y, x, "right")


def _mann_whitney(pair: Scores) -> tuple[float, float]:
    """Return the AUC's estimate and DeLong's standard error of it."""
    x, y = pair
    below, above = _twice_below(x, y), 2 * x.size - _twice_below(y, x)
    area = area_under_roc(x, y)
    shares = (below / (2 * y.size), above / (2 * x.size))
    variance = sum(float(s.var(ddof=1)) / s.size if s.size > 1 else np.nan for s in shares)
    return area, float(np.sqrt(variance))


def _gap(
    pair: Scores, split: tuple[Scores, Scores], weights: tuple[float, float], side: float
) -> tuple[float, float, float]:
    """Bound max over t of w₁·TPR - w₀·FPR from both sides (proofs/audit-intervals.md claim 4)."""
    n1, n0 = pair.members.size, pair.non_members.size
    _, estimate = pair.best_threshold(weights)
    upper = estimate + two_sample_deviation(n1, n0, side, weights)
    # From below two bounds share the error: all thresholds at once, which is better for weak
    # attacks, and one threshold chosen on other scores, which is better for strong ones.
    lower = estimate - two_sample_deviation(n1, n0, side / 2, weights)
    lower = max(lower, 0.0, weights[0] - weights[1])  # calling nobody or everybody a member
    choose, evaluate = split
    threshold, _ = choose.best_threshold(weights)
    if min(sample.size for sample in (*choose, *evaluate)) > 0 and threshold < np.inf:
        hits, alarms = evaluate.hits(threshold)
        falsely = clopper_pearson_upper(alarms, evaluate.non_members.size, side / 4)
        others = float(clopper_pearson_lower(hits, evaluate.members.size, side / 4))
        # The bound is about the members outside the choosing third.  That third is from none to
        # n₁/3 of all members, so the TPR of all is between these two.
        share = choose.members.size / n1
        among = choose.hits(threshold)[0] / choose.members.size
        reached = min(others, share * among + (1 - share) * others)
        lower = max(lower, float(weights[0] * reached - weights[1] * falsely) - 1e-15)
    return lower, estimate, upper


def _tpr(pair: Scores, alpha: float, side: float) -> tuple[float, float, float]:
    """Bound the TPR at FPR ≤ α from both sides (proofs/audit-intervals.md claim 3)."""
    x, y = pair
    n1, n0 = x.size, y.size

    def above(rank: int) -> int:
        """Members above the rank-th largest non-member."""
        return int(n1 - np.searchsorted(x, y[n0 - rank], "right"))

    low = clopper_pearson_lower(above(rank_within(n0, alpha, side / 2)), n1, side / 2)
    allowed = min(int(alpha * n0 * (1 + 1e-12)), n0 - 1)
    estimate = above(allowed + 1) / n1
    rank = rank_beyond(n0, alpha, side / 2)
    high = 1.0
    if rank <= n0:
        at_least = int(n1 - np.searchsorted(x, y[n0 - rank], "left"))
        high = float(clopper_pearson_upper(at_least, n1, side / 2))
    return float(low), estimate, high


def without_ends(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same fields with every interval's ends missing: estimates that prove nothing.

    Examples:
        >>> without_ends({"auc": {"estimate": 0.7, "lower": 0.6, "upper": 0.8}})
        {'auc': {'estimate': 0.7, 'lower': None, 'upper': None}}
    """
    cut: dict[str, Any] = {
        name: without_ends(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
    }
    return cut | ({"lower": None, "upper": None} if {"lower", "upper"} <= cut.keys() else {})


def interval_fields(bound: AuditBound | None) -> dict[str, float | None] | None:
    """Return what a measured bound is in the contract; nothing where nothing was measured."""
    if bound is None:
        return None
    return {
        "estimate": json_number(bound.estimate),
        "lower": json_number(bound.lower),
        "upper": json_number(bound.upper),
    }
