"""What an attack reaches against each release, and bounds for its mean over releases.

One number in [0, 1] per target model: records of one release depend on each other, releases do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memberbound.auditing.signals import BoolArray
from memberbound.numerics.betting import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray

__all__ = [
    "ReleaseStatistics",
    "best_threshold",
    "mean_interval",
    "mean_roc",
    "no_leak_p_value",
    "release_statistics",
]


@dataclass(frozen=True, eq=False)
class ReleaseStatistics:
    """One value per target model."""

    auc: FloatArray
    accuracy: FloatArray
    advantage: FloatArray
    tpr: dict[float, FloatArray | None]

    @classmethod
    def joined(cls, parts: list[ReleaseStatistics]) -> ReleaseStatistics:
        """Return the values of several groups of targets."""

        def tpr(rate: float) -> FloatArray | None:
            values = [t for p in parts if (t := p.tpr[rate]) is not None]
            return np.concatenate(values) if len(values) == len(parts) else None

        return cls(
            np.concatenate([p.auc for p in parts]),
            np.concatenate([p.accuracy for p in parts]),
            np.concatenate([p.advantage for p in parts]),
            {rate: tpr(rate) for rate in parts[0].tpr},
        )


def best_threshold(scores: FloatArray, member: BoolArray) -> float:
    """Return the threshold with the most right answers of "member if the score reaches it".

    Examples:
        >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
        0.5
    """
    value = scores.reshape(-1)
    truth = member.reshape(-1)
    order = np.argsort(value)
    value, truth = value[order], truth[order]
    # Calling all from place i upwards members is right on the members there and the others below.
    right = np.concatenate([[0], np.cumsum(~truth)]) + np.concatenate(
        [np.cumsum(truth[::-1])[::-1], [0]]
    )
    # Only places between different scores are thresholds.
    edges = np.concatenate([[True], value[1:] > value[:-1], [True]])
    place = int(np.argmax(np.where(edges, right, -1)))
    if place == 0:
        return float(-np.inf)
    if place == len(value):
        return float(np.inf)
    middle = value[place - 1] / 2 + value[place] / 2
    return float(middle) if middle > value[place - 1] else float(value[place])


def release_statistics(
    scores: FloatArray, member: BoolArray, threshold: FloatArray | float, rates: tuple[float, ...]
) -> ReleaseStatistics:
    """Return AUC, accuracy, advantage and TPR of each target; scores and member are (T, N).

    ``threshold`` must not depend on the target's half.  The TPR at FPR α of a release counts the
    members above all but k of its n₀ non-members, k + 1 = ⌊α(n₀ + 1)⌋, so that scores without
    information reach α or less on average; ``None`` where n₀ is too small for that.
    """
    guess = scores >= np.asarray(threshold).reshape(-1, 1)
    n1, n0 = member.sum(axis=1), (~member).sum(axis=1)
    accuracy = (guess == member).mean(axis=1)
    advantage = (guess & member).sum(axis=1) / n1 - (guess & ~member).sum(axis=1) / n0
    auc = np.empty(len(scores))
    tpr: dict[float, FloatArray | None] = {}
    # A relative step upwards, so that α(n₀+1) = 2 is not lost to rounding.
    allowed = {r: int(np.floor(r * (n0.min() + 1) * (1 + 1e-12))) - 1 for r in rates}
    for rate, few in allowed.items():
        tpr[rate] = np.empty(len(scores)) if few >= 0 else None
    for row, (value, inside) in enumerate(zip(scores, member, strict=True)):
        out, ins = np.sort(value[~inside]), np.sort(value[inside])
        below = np.searchsorted(out, ins, "left") + np.searchsorted(out, ins, "right")
        auc[row] = below.sum() / (2.0 * len(out) * len(ins))
        for rate, few in allowed.items():
            share = tpr[rate]
            if share is not None:
                above = len(ins) - np.searchsorted(ins, out[-(few + 1)], "right")
                share[row] = above / len(ins)
    return ReleaseStatistics(auc, accuracy, advantage, tpr)


def mean_roc(scores: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the ROC curve of an attack, averaged over releases at equal FPR; an estimate.

    At FPR α a release counts its members above all but ⌊αn₀⌋ of its n₀ non-members.

    Examples:
        >>> scores = np.array([[0.9, 0.4, 0.6, 0.1]])
        >>> fpr, tpr = mean_roc(scores, np.array([[True, True, False, False]]))
        >>> tpr[fpr == 0.0].tolist(), tpr[fpr == 0.5].tolist(), tpr[-1]
        ([0.5], [1.0], np.float64(1.0))
    """
    others = (~member).sum(axis=1)
    # Close together where α is small, for a logarithmic axis, and even on a linear one.
    fpr = np.unique(np.concatenate([np.geomspace(1 / others.max(), 1, 41), np.linspace(0, 1, 51)]))
    tpr = np.zeros(len(fpr))
    for value, inside in zip(scores, member, strict=True):
        out, ins = np.sort(value[~inside])[::-1], np.sort(value[inside])
        # A relative step upwards, so that α = 1/n₀ allows one false alarm.
        allowed = np.floor(fpr * len(out) * (1 + 1e-12)).astype(np.int64)
        fence = np.append(out, -np.inf)[np.minimum(allowed, len(out))]
        tpr += 1 - np.searchsorted(ins, fence, "right") / len(ins)
    # The last fence is below every score: there all are called members.
    tpr[-1] = len(scores)
    return fpr, tpr / len(scores)


def mean_interval(values: FloatArray, confidence: float, low: float = 0.0) -> tuple[float, float]:
    """Bound the mean over releases from both sides; each fails with half the error.

    Guarantee: values in [``low``, 1], one per release, are taken in order, each with a mean given
    the earlier ones.  With probability at least ``confidence`` the lower end is at most the largest
    and the upper end at least the smallest of these means.
    Theorem: proofs/audit-subset-game.md claim 2.
    Assumes: a release's mean is determined before it is seen; all means equal give the usual case.
    Numerics: rounded outwards.
    Edge cases: constant values v give about [v·(error/2)^{1/T}, …], never a point.

    Examples:
        >>> [round(end, 2) for end in mean_interval(np.full(48, 0.9), 0.95)]
        [0.81, 0.91]
    """
    side = 1 - (1 - confidence) / 2
    lower = mean_lower(values, confidence=side, low=low, high=1.0)
    upper = mean_upper(values, confidence=side, low=low, high=1.0)
    return float(lower[0]), float(upper[0])


def no_leak_p_value(guesses: BoolArray, member: BoolArray) -> float:
    """Return a p-value of "the model does not depend on its half", from verdicts (T, N).

    Guarantee: if every model is independent of its half, P(result ≤ β) ≤ β for every β.
    Theorem: proofs/audit-subset-game.md claim 5, Hoeffding's inequality for draws without
    replacement.  It uses all records of a release, so it sees leaks far weaker than an interval for
    the mean over releases can.
    Assumes: uniform halves of one size; the verdicts on a release use nothing of its half.
    Numerics: raised by more than the rounding errors of a count and an exponential.
    Edge cases: no more hits than expected give 1.

    Examples:
        >>> member = np.arange(1000)[None, :] % 2 == 0
        >>> no_leak_p_value(member, member) < 1e-100
        True
        >>> no_leak_p_value(~member, member)
        1.0
    """
    releases, rows = member.shape
    size = int(member[0].sum())
    # Whole numbers until the last step: hits·N - guesses·k.
    surplus = int((guesses & member).sum()) * rows - int(guesses.sum()) * size
    if surplus <= 0:
        return 1.0
    variance = releases * min(size, rows - size)
    exponent = 2 * (surplus / rows) ** 2 / variance
    return min(1.0, math.exp(-exponent * (1 - 1e-12)) * (1 + 1e-12))
