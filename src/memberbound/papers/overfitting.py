"""Overfitting as a ceiling on security, proved by losses alone (A25 §4 and App. B).

If nearly all training losses are at most ε and nearly all fresh losses are above, the learner has
almost no security: the attack "the loss is at most ε" finds its members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    nonnegative,
    positive,
    whole_number,
)
from memberbound.numerics.means import betting_upper, log_error_shared
from memberbound.numerics.rounding import (
    UNIT,
    FloatArray,
    down,
    shared_confidence,
    up,
    up_array,
)
from memberbound.papers.vectors import Numbers, each

# ── A25-T11 and P10: from shares of small losses ──────────────────────────────────────────────────


def overfitting_ceiling(
    share_above: ArrayLike, fresh_share: ArrayLike, gamma: ArrayLike = 1.0
) -> Numbers:
    """A25-T11, A25-R12, A25-E2: return max(1, 1/γ)·(α + γ·q), a ceiling on security.

    Guarantee: MIS is at most the result if a training record has loss above ε with probability at
    most ``share_above`` and a fresh one at most ε with probability at most ``fresh_share``.
    Theorem: A25-T11, first part; at γ = 1 and ε = 0 it is A24-T4.2.
    Assumes: both probabilities hold over training set, learner and record, for one ε.
    Numerics: rounded up.
    Edge cases: at most 1, which is vacuous; α = q = 0 gives 0.

    Examples:
        >>> round(overfitting_ceiling(0.01, 0.02), 6)
        0.03
        >>> overfitting_ceiling(0.01, 0.02, gamma=[0.5, 1.0, 2.0]).round(6).tolist()
        [0.04, 0.03, 0.05]
    """

    def bound(above: float, fresh: float, price: float) -> float:
        a, q = fraction("share_above", above), fraction("fresh_share", fresh)
        g = positive("gamma", price)
        return min(1.0, up(max(1.0, 1 / g) * (a + g * q), 8))

    return each(bound, share_above, fresh_share, gamma)


def leak_from_overfitting(share_above: ArrayLike, fresh_share: ArrayLike = 0.0) -> Numbers:
    """A24-T4.2, A24-C4.2.1: return 1 - α - q, which the leak at γ = 1 is at least.

    Guarantee: Δ is at least the result if a training record has loss 0 with probability at least
    1 - ``share_above``, and a fresh one with probability at most ``fresh_share``.
    Theorem: A24-T4.2; for a label without atoms ``fresh_share`` is 0 (A24-C4.2.1).
    Assumes: both probabilities hold over training set, learner and record.
    Numerics: rounded down; at least 0.

    Examples:
        >>> round(leak_from_overfitting(0.25), 6)
        0.75
    """
    return each(
        lambda a, q: max(0.0, down(1.0 - float(overfitting_ceiling(a, q)), 2)),
        share_above,
        fresh_share,
    )


def share_above(losses: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """A25-D9: return the share of losses above ε, the α of (ε, 1-α)-overfitting in one run.

    Examples:
        >>> share_above([0.0, 0.0, 0.5, 2.0], [0.0, 1.0]).tolist()
        [0.5, 0.25]
    """
    values = np.asarray(losses, dtype=np.float64).ravel()
    return each(lambda limit: float(np.mean(values > limit)), epsilon)


def stopping_loss(epsilon: ArrayLike, share_above: ArrayLike) -> Numbers:
    """A25-P10: return ε·α, the mean loss at which stopping makes a learner (ε, 1-α)-overfitting.

    Guarantee: in *every* run the share of training losses above ε is at most α, so no sampling
    error enters the training side of A25-T11.
    Theorem: A25-P10 (Markov's inequality for the losses of one run).
    Assumes: the loss is at least 0, and the learner never stops before.
    Numerics: rounded down.

    Examples:
        >>> round(stopping_loss(1e-6, 0.05), 12)
        5e-08
    """

    def rule(limit: float, above: float) -> float:
        return max(0.0, down(nonnegative("epsilon", limit) * fraction("share_above", above)))

    return each(rule, epsilon, share_above)


def ceiling_from_stopping(
    mean_loss: ArrayLike, density: ArrayLike, gamma: ArrayLike = 1.0
) -> Numbers:
    """A25-eq13, A25-E1: return a ceiling on security for squared loss, stopped at a mean loss η.

    max(1, 1/γ)·3·(γB√η)^(2/3), the least of max(1, 1/γ)·(α + 2γB√(η/α)) over α, where the label has
    a density of at most B given x, so that a fresh loss is at most r with probability at most 2B√r.

    Guarantee: MIS is at most the result.
    Theorem: A25-P10, A25-T11; A25-eq13 with the condition that it lacks.
    Assumes: squared loss, a learner that stops only at a mean training loss of at most η.
    Numerics: rounded up; at most 1.

    Examples:
        >>> ceiling_from_stopping([1e-4, 1e-8], density=0.4).round(4).tolist()
        [0.0756, 0.0035]
    """

    def bound(loss: float, most: float, price: float) -> float:
        g = positive("gamma", price)
        eta, height = nonnegative("mean_loss", loss), nonnegative("density", most)
        value = 3 * math.pow(g * height * math.sqrt(eta), 2 / 3)
        return min(1.0, up(max(1.0, 1 / g) * value, 32))

    return each(bound, mean_loss, density, gamma)


# ── From the losses of one run, and of several ────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ceiling:
    """A ceiling on the security of one trained model, at the threshold that makes it lowest.

    ``estimate`` is the ceiling from the observed shares, which is 1 - O(1/√n) for a model
    independent of its data; ``upper`` charges both shares for sampling and for the choice of the
    threshold.
    """

    epsilon: float
    share_above: float
    fresh_share: float
    estimate: float
    upper: float
    confidence: float


def ceiling_of_losses(
    training: ArrayLike, fresh: ArrayLike, gamma: float = 1.0, confidence: float = 0.95
) -> Ceiling:
    """A25-T11, A25-P10: return the ceiling that the losses of one trained model prove, at any γ.

    Guarantee: with probability at least ``confidence`` the security of this model against this
    training set is at most ``upper``; for a model that does not depend on its training records
    ``upper`` is 1.  It is not the learner's MIS, which averages over training sets:
    :func:`ceiling_of_runs`.
    Theorem: proofs/overfitting-ceiling.md, claim 1.
    Assumes: fresh records are independent draws that training did not use.
    Numerics: rounded up.
    Edge cases: ties among losses only help; ``upper`` is at most 1.

    Examples:
        >>> draws = np.random.default_rng(0)
        >>> found = ceiling_of_losses(draws.exponential(0.01, 500), draws.exponential(1.0, 2000))
        >>> found.upper < 0.25, found.estimate < found.upper
        (True, True)
        >>> ceiling_of_losses(draws.exponential(1.0, 500), draws.exponential(1.0, 2000)).upper
        1.0
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    price = positive("gamma", gamma)
    own, other = (_losses(name, x) for name, x in (("training", training), ("fresh", fresh)))
    n, m = len(own), len(other)
    error = (1 - level) / 4
    # Thresholds are the training losses; α and q of each, observed and charged.
    alpha = 1 - np.searchsorted(own, own, side="right") / n
    hits = np.searchsorted(other, own, side="right")
    q = hits / m
    alpha_upper = np.minimum(1.0, alpha + _massart(n, error))
    q_upper = np.minimum(1.0, q + _massart(m, error))
    ranks = _ranks(n)
    charge = error / len(ranks)
    at = ranks - 1
    first = 1 - clopper_pearson_lower(ranks, n, charge)
    second = clopper_pearson_upper(hits[at], m, charge)
    alpha_upper[at] = np.minimum(alpha_upper[at], first + UNIT)
    q_upper[at] = np.minimum(q_upper[at], second)
    factor = max(1.0, 1 / price)
    raised = up_array(factor * (alpha_upper + price * q_upper), 8)
    best = int(np.argmin(raised))
    plain = np.minimum(1.0, factor * (alpha + price * q))
    return Ceiling(
        float(own[best]),
        float(alpha[best]),
        float(q[best]),
        float(plain.min()),
        min(1.0, float(raised[best])),
        level,
    )


def _losses(name: str, values: ArrayLike) -> FloatArray:
    losses = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not len(losses) or not np.isfinite(losses).all():
        raise InputError(f"{name} must be at least one finite loss, got {len(losses)} values.")
    return losses


def _massart(draws: int, error: float) -> float:
    """Return s with P(sup(F - F̂) > s) ≤ error for any law: √(ln(1/error)/2n)."""
    return up(math.sqrt(-math.log(min(error, 0.5)) / (2 * draws)), 8)


def _ranks(n: int) -> np.typing.NDArray[np.int64]:
    """Return ranks, fixed by n alone; each threshold there gets its own bounds."""
    spared = {0, *(int(n * 2.0**-i) for i in range(1, 12))}
    return np.array(sorted({n - k for k in spared if k < n}), dtype=np.int64)


def ceiling_of_runs(
    runs: Sequence[tuple[ArrayLike, ArrayLike]],
    epsilon: float,
    gamma: float = 1.0,
    confidence: float = 0.95,
) -> float:
    """A25-T11: return a ceiling on the learner's MIS from several runs, at one threshold.

    ``runs`` are pairs (training losses, fresh losses) of models trained on independent data sets.

    Guarantee: with probability at least ``confidence`` the learner's MIS is at most the result.
    Theorem: proofs/overfitting-ceiling.md, claim 2; a betting bound for the mean over runs.
    Assumes: independent runs with fresh records of their own; ε was fixed before looking at them.
    Numerics: rounded up.
    Edge cases: few runs prove little: R runs that memorise everything give about ln(1/β)/R.

    Examples:
        >>> draws = np.random.default_rng(0)
        >>> runs = [(np.zeros(50), draws.exponential(1.0, 200)) for _ in range(60)]
        >>> round(ceiling_of_runs(runs, epsilon=1e-6), 2)
        0.13
    """
    price, limit = positive("gamma", gamma), finite_number("epsilon", epsilon)
    top = max(1.0, 1 / price) * (1 + price)
    values = [
        max(1.0, 1 / price)
        * (np.mean(_losses("training", own) > limit) + price * np.mean(np.asarray(other) <= limit))
        for own, other in runs
    ]
    share = np.minimum(1.0, up_array(np.array(values) / top, 8))
    bound = betting_upper(share, log_error_shared(confidence, 1))
    return min(1.0, up(float(bound[0]) * top, 8))


@dataclass
class OverfittingMonitor:
    """A25-P10, A25-T11: watch a training loop, and stop it before the model's ceiling gets low.

    ``stop_at`` is the lowest ceiling on security that is accepted.  The k-th look has the error
    β/(k(k+1)), so all looks are right together with probability 1-β.

    Guarantee: with probability at least ``confidence`` every ceiling in ``looks`` holds.
    Theorem: proofs/overfitting-ceiling.md, claim 3.
    Assumes: as :func:`ceiling_of_losses`; fresh records decide nothing but when training stops.
    Numerics: rounded up.
    Edge cases: a high ceiling proves nothing; another attack may do better.

    Examples:
        >>> monitor = OverfittingMonitor(stop_at=0.5)
        >>> fresh = np.linspace(0.5, 2.0, 1000)
        >>> for epoch in range(1, 20):
        ...     if monitor.look(np.linspace(0.5, 2.0, 400) * 0.7**epoch, fresh):
        ...         break
        >>> epoch, monitor.ceiling.upper <= 0.5
        (2, True)
    """

    stop_at: float
    gamma: float = 1.0
    confidence: float = 0.95
    looks: list[Ceiling] = field(default_factory=list)

    def __post_init__(self) -> None:
        fraction("stop_at", self.stop_at)
        fraction("confidence", self.confidence, open_left=True, open_right=True)

    @property
    def ceiling(self) -> Ceiling:
        """The ceiling of the last look."""
        if not self.looks:
            raise InputError("look must be called before there is a ceiling, got no look.")
        return self.looks[-1]

    def look(self, training: ArrayLike, fresh: ArrayLike) -> bool:
        """Return whether to stop: the ceiling of these losses is at most ``stop_at``."""
        k = len(self.looks) + 1
        level = shared_confidence(self.confidence, k * (k + 1))
        self.looks.append(ceiling_of_losses(training, fresh, self.gamma, level))
        return self.ceiling.upper <= self.stop_at


# ── A25-P19: a classifier that is hopeless by theorem ─────────────────────────────────────────────


def sphere_ceiling(dimension: ArrayLike, n: ArrayLike, gamma: ArrayLike = 1.0) -> Numbers:
    """A25-P19, A24-C.1: return a ceiling on security for a two-layer ReLU classifier.

    Inputs are uniform on the sphere of radius √s in R^s, the width is at least n, and gradient flow
    starts as in the paper.  The result is max(1, 1/γ)·C(n, 2)·P(|cos| > t) with
    t = ((s+1)/(3n) - 1)/s, where cos² of two independent directions is Beta(½, (s-1)/2).

    Guarantee: MIS is at most the result.
    Theorem: A25-P19, first part, with the exact law of the angle and a union bound over pairs.
    Assumes: labels ±1, and the proposition's start of gradient flow.
    Numerics: rounded up, by 1e-9 for the incomplete beta function; at most 1.
    Edge cases: n = 1 gives 0; vacuous where (s+1)/(3n) ≤ 1.

    Examples:
        >>> round(sphere_ceiling(10_000, 8), 6)
        0.000897
    """

    def bound(s: int, rows: int, price: float) -> float:
        dim, size = whole_number("dimension", s, at_least=2), whole_number("n", rows)
        g = positive("gamma", price)
        pairs = math.comb(size, 2)
        cosine = down(((dim + 1) / (3 * size) - 1) / dim, 16)
        if cosine <= 0:
            return 0.0 if pairs == 0 else 1.0
        tail = float(special.betaincc(0.5, (dim - 1) / 2, min(1.0, cosine**2)))
        return min(1.0, up(max(1.0, 1 / g) * pairs * tail * (1 + 1e-9), 16))

    return each(bound, dimension, n, gamma)


def sphere_ceiling_as_printed(dimension: ArrayLike, gamma: ArrayLike = 1.0) -> Numbers:
    """A25-P19: return the paper's closed form max(1, 1/γ)·s^(3 - ln(s)/4) for the same ceiling.

    Guarantee: MIS is at most the result for n ≤ (s+1)/(3(√s·ln s + 1)).
    Theorem: A25-P19, second part.
    Assumes: as :func:`sphere_ceiling`.
    Numerics: rounded up; at most 1, which it is up to s = 162 754.

    Examples:
        >>> sphere_ceiling_as_printed([10_000, 200_000, 10**6]).round(4).tolist()
        [1.0, 0.5332, 0.0019]
    """

    def bound(s: int, price: float) -> float:
        dim, g = whole_number("dimension", s, at_least=2), positive("gamma", price)
        exponent = (3 - math.log(dim) / 4) * math.log(dim)
        if exponent > 1:
            return 1.0
        return min(1.0, up(max(1.0, 1 / g) * math.exp(exponent), 64 + 16 * int(abs(exponent))))

    return each(bound, dimension, gamma)
