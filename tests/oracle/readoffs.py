"""Every read-off of a trade-off curve against the exact pair it should bound.

``shortfalls`` knows no tolerance: doubles are compared as the fractions they are.  ``excesses``
has one relative tolerance.  A curve is any object with the read-off methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from oracle import finite
from oracle.pairs import Pair, law
from oracle.real import exp_bracket

F = Fraction
#: Below this, relative tightness is not required.
GRAIN = F(1, 10**300)
READINGS = (
    "delta", "forward", "backward", "epsilon", "tpr", "advantage", "eta", "accuracy", "precision",
    "best_precision", "leak", "security",
)  # fmt: skip


@dataclass(frozen=True)
class Points:
    """Arguments at which a curve is read."""

    epsilon: tuple[float, ...] = (0.0, 1e-9, 0.3, 1.0, 5.0, 40.0, 700.0, 1e5)
    delta: tuple[float, ...] = (0.0, 1e-300, 1e-12, 1e-3, 0.2, 1.0)
    fpr: tuple[float, ...] = (0.0, 1e-310, 1e-20, 1e-3, 0.1, 0.5, 0.9, 1 - 2**-50, 1.0)
    prior: tuple[float, ...] = (0.1, 0.7, 1e-310, 0.5, 1e-12, 1 - 1e-12)
    nu: tuple[float, ...] = (0.5, 0.1, 0.9, 1e-9, 1 - 1e-9)
    lam: tuple[float, ...] = (1.0, 0.3)


DEFAULT = Points()
#: Fewer points, for operations on curves with read-offs that are already checked.
QUICK = Points(
    epsilon=(0.0, 1e-9, 0.3, 2.0, 700.0),
    delta=(0.0, 1e-3, 0.2),
    fpr=(0.0, 1e-310, 1e-3, 0.4, 0.9),
    prior=(0.1, 1e-12),
    nu=(0.5, 0.9),
    lam=(0.3,),
)

# name, argument, the curve's value, (low, high) of the truth, +1 for upper and -1 for lower
Reading = tuple[str, Any, Fraction, Fraction, Fraction, int]


def _sticks(pair: Pair, gamma: Fraction) -> tuple[Fraction, Fraction]:
    return finite.hockey_sticks(law(pair[0]), law(pair[1]), gamma)


def _sticks_at(pair: Pair, eps: float | Fraction, end: int) -> tuple[Fraction, Fraction]:
    """Both hockey-sticks at the low (0) or high (1) end of the bracket around e^eps."""
    if eps < 5000:
        return _sticks(pair, exp_bracket(eps)[end])
    # Beyond every ratio of positive masses only the impossible outcomes count.
    if min(m for masses in pair for m in masses if m) < F(1, 10**2100):
        raise ValueError("masses must be at least 1e-2100 for this epsilon.")
    return _sticks(pair, F(10**2101))


def price(nu: float, lam: float) -> Fraction:
    return F(nu) / (F(lam) * (1 - F(nu)))


def leak(pair: Pair, gamma: Fraction) -> Fraction:
    """Delta of A25-P5 as the hockey-stick in the direction that is priced at least 1."""
    return _sticks(pair, gamma)[0] if gamma >= 1 else _sticks(pair, 1 / gamma)[1]


def _readings(curve: Any, pair: Pair, at: Points) -> Iterator[Reading]:
    p, q = law(pair[0]), law(pair[1])
    for eps in at.epsilon:
        least = _sticks_at(pair, eps, 1)
        most = _sticks_at(pair, F(eps) * (1 - F(1, 10**13)), 0)
        yield "forward", eps, F(curve.delta(eps, "forward")), least[0], most[0], 1
        yield "backward", eps, F(curve.delta(eps, "backward")), least[1], most[1], 1
        yield "delta", eps, F(curve.delta(eps)), max(least), max(most), 1
    corners = finite.roc_vertices(p, q)
    for alpha in at.fpr:
        truth = finite.height(corners, F(alpha))
        yield "tpr", alpha, F(curve.tpr(alpha)), truth, truth, 1
        if alpha > 0:
            for prior in at.prior[:3]:
                hit = F(prior) * truth
                post = hit / (hit + (1 - F(prior)) * F(alpha))
                yield "precision", (prior, alpha), F(curve.precision(prior, alpha)), post, post, 1
    variation = finite.total_variation(p, q)
    yield "advantage", None, F(curve.advantage), variation, variation, 1
    yield "eta", None, F(curve.eta), variation / 2, variation / 2, 1
    for prior in at.prior:
        truth = finite.best_accuracy(p, q, F(prior))
        yield "accuracy", prior, F(curve.accuracy(prior)), truth, truth, 1
        truth = finite.best_precision(p, q, F(prior))
        yield "best_precision", prior, F(curve.precision(prior)), truth, truth, 1
    for nu in at.nu:
        for lam in at.lam:
            gamma = price(nu, lam)
            truth = leak(pair, gamma)
            nearer = 1 + (gamma - 1) * (1 - F(1, 10**12))
            most = leak(pair, nearer)
            yield "leak", (nu, lam), F(curve.leak(nu, lam)), truth, most, 1
            yield "security", (nu, lam), F(curve.security(nu, lam)), 1 - most, 1 - truth, -1


def _verdicts(
    curve: Any, pair: Pair, at: Points, slack: Fraction, broken: str = ""
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """``broken`` names a read-off that is moved to the unsafe side by a relative 1e-9."""
    unsound, loose = [], []
    for name, argument, given, low, high, sign in _readings(curve, pair, at):
        value = given * (1 - sign * F(1, 10**9)) if name == broken else given
        if value < low if sign > 0 else value > high:
            unsound.append((name, argument))
        if value > high * (1 + slack) + GRAIN if sign > 0 else value < low - slack:
            loose.append((name, argument))
    for delta in at.delta:
        for side in ("forward", "backward", "both"):
            eps = curve.epsilon(delta, side) * (1 - 1e-9 if broken == "epsilon" else 1)
            if eps < float("inf") and _side(_sticks_at(pair, eps, 0), side) > F(delta):
                unsound.append(("epsilon", (delta, side)))
            if eps > 0:  # a little below, the pair must miss the target
                before = 1e4 if eps == float("inf") else F(eps) * (1 - F(1, 10**9))
                missed = _side(_sticks_at(pair, before, 0), side)
                if missed < F(delta) * (1 - slack) - GRAIN:
                    loose.append(("epsilon", (delta, side)))
    return unsound, loose


def _side(sticks: tuple[Fraction, Fraction], side: str) -> Fraction:
    return {"forward": sticks[0], "backward": sticks[1], "both": max(sticks)}[side]


def shortfalls(
    curve: Any, pair: Pair, at: Points = DEFAULT, *, broken: str = ""
) -> list[tuple[str, Any]]:
    """Read-offs on the unsafe side of the truth, compared exactly."""
    return _verdicts(curve, pair, at, F(1), broken)[0]


def excesses(
    curve: Any, pair: Pair, tolerance: float = 1e-11, at: Points = DEFAULT
) -> list[tuple[str, Any]]:
    """Read-offs farther from the truth than a relative tolerance."""
    return _verdicts(curve, pair, at, F(tolerance))[1]


def faults(
    curve: Any, pair: Pair, tolerance: float = 1e-11, at: Points = DEFAULT
) -> list[tuple[str, Any]]:
    """Shortfalls and excesses together."""
    unsound, loose = _verdicts(curve, pair, at, F(tolerance))
    return unsound + loose
