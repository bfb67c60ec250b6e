"""The exact laws "in" and "out" of a one-dimensional noisy sum, instead of their coupling (X9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import InputError, fraction, positive
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray, up_array
from memberbound.subset.densities import DensityPair, affordable, enumerated_pair, fourier_sums
from memberbound.subset.distances import Progress
from memberbound.subset.record_bounds import RecordBounds

__all__ = [
    "mixture_bounds",
]

#: Up to so many different values every one is worked out.
MOST_EXACT = 3_000
#: Of more, so many in the first round.
_FIRST = 400
#: Of any number, so many in the first round where only the worst is wanted.
_FEW = 64
#: Part of the worst gain that may be lost to not working out every value.
_LOSS = 1e-4
#: Part of δ that pays the way to a neighbour.
_SHARE = 0.05


def _checked(values: ArrayLike, game: SubsetGame) -> FloatArray:
    """Return the values as a 1-D array of the game's length."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("values must be numbers, one per record.") from None
    if numbers.ndim != 1:
        raise InputError(
            f"values must be one number per record, got shape {numbers.shape!r}. "
            "Exact mixtures need a one-dimensional release; use the neighbour profile otherwise."
        )
    if len(numbers) != game.population:
        raise InputError(
            f"values must be {game.population} numbers, one per record, got {len(numbers)!r}."
        )
    if not np.isfinite(numbers).all():
        where = int(np.nonzero(~np.isfinite(numbers))[0][0])
        raise InputError(f"values must be finite, got {numbers[where]!r} at record {where}.")
    return numbers


#: Pairs of densities of the records asked for, a few at a time.
_Route = Callable[[NDArray[np.intp]], Iterator[tuple[NDArray[np.intp], DensityPair]]]


def _route(values: FloatArray, game: SubsetGame, sigma: float, records: int) -> _Route | None:
    """The cheaper way to the densities; nothing where neither is affordable."""
    if affordable(game.population, game.size):
        pair = enumerated_pair(values, game.size, sigma)
        if pair is not None:
            return lambda wanted: iter([(np.arange(game.population), pair)])  # noqa: ARG005
    with np.errstate(over="ignore"):
        scaled = values / sigma
    if np.abs(scaled).max() < 1e6:
        plan = fourier_sums(scaled, game.size, records)
        if plan is not None:
            return plan.pairs
    return None


def mixture_bounds(
    values: ArrayLike,
    game: SubsetGame,
    *,
    sigma: float,
    delta: float,
    every: bool = True,
    progress: Progress | None = None,
) -> RecordBounds:
    """Bound PMP's ε and the attack's success for every record, from the exact mixtures.

    The release is Σ_{i∈D} values[i] + N(0, σ²), D a uniform k-subset; for a mean give f/k.
    ``every=False`` is for searches: only the worst record's numbers are tight.

    Guarantee: both hockey-sticks of P_in,x and P_out,x at e^``pmp_epsilon[x]`` are at most δ, and
        no attack on x is right more often than ``success[x]`` at the prior k/N.
    Theorem: X9 (proofs/exact-mixtures.md); I24-P2 for the success.
    Assumes: the attacker knows the population and sees the release only.
    Numerics: from above.  Success exceeds the truth by about 1e-8, ε by about 1e-6·(1 + ε) and
        what an error of 1e-9 in both hockey-sticks makes of it.  With over 60 000 subsets this is
        felt where δ·e^-ε is below about 1e-9, and there the coupling bound may be smaller.
        Combine the two with :meth:`RecordBounds.tightened`.
        Of more than :data:`MOST_EXACT` different values so many are worked out, among them those
        that leak most; the others are bounded through a neighbour (step 5 of the proof), so that
        ``pmp_epsilon_upper`` and ``success_upper`` lose 1e-4 of the gain or less.  Where k ≠ N/2
        and hardly anything leaks, success keeps the way between two values that were worked out.
    Edge cases: equal values leak nothing (ε = 0) and twins are separate records.  δ = 0, ε above
        80, or a population whose sums spread over more than some 10⁵ σ give ε = ∞; the last
        also success = 1.

    Examples:
        >>> bounds = mixture_bounds([0.0, 1.0, 2.0, 4.0], SubsetGame(4, 2), sigma=2.0, delta=1e-3)
        >>> bounds.worst_record, round(bounds.pmp_epsilon_upper, 3), round(bounds.success_upper, 4)
        (3, 4.924, 0.7555)
    """
    checked = _checked(values, game)
    scale, target = positive("sigma", sigma), fraction("delta", delta)
    count, size = game.population, game.size
    epsilon, success = np.full(count, math.inf), np.ones(count)
    if (checked == checked[0]).all():
        blind = up_array(np.array([max(size, count - size) / count]))[0]
        epsilon = np.zeros(count)
        success = np.full(count, 0.5 if 2 * size == count else blind)
    else:
        # A shift changes nothing; by a value of the table, whole numbers stay whole.
        with np.errstate(over="ignore"):
            centred = checked - np.sort(checked)[count // 2]
        distinct, first, twins = np.unique(centred, return_index=True, return_inverse=True)
        route = _route(centred, game, scale, min(len(first), MOST_EXACT))
        if route is not None:
            line = _Line(distinct, first, game, scale, target)
            line.work(route, progress, every=every)
            # Equal values have equal laws.
            epsilon, success = line.epsilon[twins], line.success[twins]
    return RecordBounds(
        game, target, epsilon, success, "exact mixtures", ("X9", "I24-P2", "L24-D2"),
        ("The release is one number, the sum (or mean) over a uniform subset plus normal noise.",),
    )  # fmt: skip


class _Line:
    """Bounds along the different values in ascending order: worked out, or through a neighbour.

    Exchanging records x and r in D moves the sum by |w_x - w_r| = τ at most, so P_in,x is within
    the hockey-sticks of N(τ, 1) against N(0, 1) of P_in,r, and P_out,x of P_out,r (step 5 of
    proofs/exact-mixtures.md).
    """

    def __init__(
        self,
        values: FloatArray,
        first: NDArray[np.intp],
        game: SubsetGame,
        sigma: float,
        delta: float,
    ) -> None:
        self.values, self.first, self.game = values, first, game
        self.sigma, self.delta = sigma, delta
        count = len(values)
        self.exact = np.zeros(count, dtype=bool)
        self.epsilon, self.success = np.full(count, math.inf), np.ones(count)
        #: ε at a smaller δ, which leaves something to pay the way to a neighbour with.
        self.spare = np.full(count, math.inf)

    def work(self, route: _Route, progress: Progress | None, *, every: bool) -> None:
        """Work out every value, or of many so many that the others cannot be the worst."""
        count = len(self.values)
        if count <= (MOST_EXACT if every else _FEW):
            self._work_out(np.arange(count), route, progress, count)
            return
        # Evenly by value, both ends included; then wherever the worst may still be.
        grid = np.linspace(self.values[0], self.values[-1], _FIRST if every else _FEW)
        wanted = np.unique(np.minimum(np.searchsorted(self.values, grid), count - 1))
        while len(wanted):
            self._work_out(wanted, route, progress, MOST_EXACT)
            self._bound_the_rest()
            left = MOST_EXACT - int(self.exact.sum())
            wanted = self._suspects()[:left]
        if progress is not None:
            progress(MOST_EXACT, MOST_EXACT)

    def _work_out(
        self, wanted: NDArray[np.intp], route: _Route, progress: Progress | None, total: int
    ) -> None:
        """Work out these values."""
        place = np.full(self.game.population, -1)
        place[self.first[wanted]] = wanted
        for records, pair in route(self.first[wanted]):
            where = place[records]
            mine = where >= 0
            self.success[where[mine]] = _success(pair, self.game)[mine]
            if self.delta > 0:
                back = pair.swapped()
                forth = pair.epsilon(self.delta)
                both = np.maximum(forth, back.epsilon(self.delta, forth))
                self.epsilon[where[mine]] = both[mine]
                if len(wanted) < len(self.values):
                    less = self.delta * (1 - 2 * _SHARE)
                    both = np.maximum(pair.epsilon(less, both), back.epsilon(less, both))
                    self.spare[where[mine]] = both[mine]
            self.exact[where[mine]] = True
            if progress is not None:
                progress(int(self.exact.sum()), total)

    def _bound_the_rest(self) -> None:
        """Bound the values that were not worked out through the nearest ones that were."""
        done, rest = np.flatnonzero(self.exact), np.flatnonzero(~self.exact)
        right = np.searchsorted(done, rest)  # both ends are exact
        self.success[rest], self.epsilon[rest] = 1.0, math.inf
        # Differences of values rounded by w's own roundings, in units of σ.
        slack = 16 * UNIT * float(np.abs(self.values).max()) / self.sigma
        for near in (done[right - 1], done[right]):
            way = np.abs(self.values[near] - self.values[rest]) / self.sigma * (1 + 1e-12) + slack
            # TV of N(τ, 1) and N(0, 1) is 2Φ(τ/2) - 1 ≤ τ/√(2π).
            through = self.success[near] + way * (1 + 1e-12) / math.sqrt(2 * math.pi)
            self.success[rest] = np.minimum(self.success[rest], up_array(through))
            if self.delta > 0:
                through = self.spare[near] + 2 * _cost_of_moving(way, self.spare[near], self.delta)
                self.epsilon[rest] = np.minimum(self.epsilon[rest], up_array(through))

    def _suspects(self) -> NDArray[np.intp]:
        """Between two exact values, the middle one of those that may be worse than all exact.

        Success first, up to half of what may be worked out where ε is wanted as well.
        """
        worst = float(self.success[self.exact].max())
        blind = max(self.game.prior, 1 - self.game.prior)
        over = self.success > worst + _LOSS * (worst - blind) + 1e-9
        if self.delta > 0 and (not over.any() or 2 * self.exact.sum() > MOST_EXACT):
            worst = float(self.epsilon[self.exact].max())
            over = self.epsilon > worst * (1 + _LOSS) + 1e-9
        suspects = np.flatnonzero(over & ~self.exact)
        gap = np.searchsorted(np.flatnonzero(self.exact), suspects)
        _, start, size = np.unique(gap, return_index=True, return_counts=True)
        middle = suspects[start + size // 2]
        return np.asarray(middle[np.argsort(-self.success[middle], kind="stable")])


def _cost_of_moving(way: FloatArray, epsilon: FloatArray, delta: float) -> FloatArray:
    """Return a with e^a·((1 - 2s)δ + e^ε·g(a)) + g(a) ≤ δ, or ∞ where that is too much.

    g(a) is the hockey-stick of N(τ, 1) against N(0, 1) at e^a, and s is :data:`_SHARE`.
    e^a ≤ 1 + s leaves s(1 + 2s)δ for (1 + e^{a+ε})·g(a), and g(a) ≤ Φ(τ/2 - a/τ).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        allowed = _SHARE * delta / (1 + (1 + _SHARE) * np.exp(epsilon))
        reach = -special.ndtri(allowed) * (1 + 1e-9) + 1e-9
        toll = way * (reach + way / 2) * (1 + 1e-9)
    affordable = np.isfinite(toll) & (toll <= math.log1p(_SHARE) * (1 - 1e-9))
    return np.where(affordable, toll, math.inf)


def _success(pair: DensityPair, game: SubsetGame) -> FloatArray:
    """max_α π·TPR + (1-π)(1-α) = (1-π) + π·H_{(1-π)/π}(in‖out), and the same with "out" first."""
    rest = game.population - game.size
    odds = np.full(pair.records, rest / game.size)
    # A factor just below the odds has the larger hockey-stick.
    factor = odds if rest == game.size else np.nextafter(odds, 0.0)
    forth = (rest + game.size * pair.hockey_sticks(factor)[0]) / game.population
    factor = 1 / odds if rest == game.size else np.nextafter(np.nextafter(1 / odds, 0.0), 0.0)
    back = (game.size + rest * pair.swapped().hockey_sticks(factor)[0]) / game.population
    return up_array(np.minimum(forth, back))
