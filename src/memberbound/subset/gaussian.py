"""Gaussian noise on a sum or mean over a random subset of a known population (L24).

Three sensitivities give three answers to "what does this σ mean?":

* ``epsilon``: any records in a ball of radius C, so that a sum moves by at most 2C;
* ``epsilon_population``: neighbours inside this population, ``profile.diameter``;
* ``pmp_epsilon_upper``: a *random* subset of this population, :class:`NoisySum`.

A mean of k records with noise σ is the sum with noise kσ, divided by k, and the division hides
nothing (L24-L14), so one profile of the records serves both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from memberbound.curve import GaussianCurve
from memberbound.declarations import Progress
from memberbound.dp.guarantees import guarantee_from_gaussian_mechanism
from memberbound.errors import (
    InputError,
    SearchError,
    finite_number,
    fraction,
    nonnegative,
    positive,
    whole_number,
)
from memberbound.games import SubsetGame
from memberbound.numerics.roots import confirmed, last_true, least_scale
from memberbound.numerics.rounding import SMALLEST, FloatArray, down, up
from memberbound.quantities import significant
from memberbound.subset.crowd import ASSUMPTIONS, Crowd, CrowdTable
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile, shifts
from memberbound.subset.record_bounds import (
    Asked,
    Comparison,
    RecordBounds,
    Solution,
    Target,
    average_success,
    short_decimal,
)

#: Ratio of sensitivity to σ at which two neighbours are distinguishable for every ε and δ.
_LARGEST_SHIFT = 1e300
_NEVER_PURE = "Gaussian noise is not (ε, 0)-DP for any finite ε; 1e-5 is a common choice."


def noise_on_sum(sigma: float, divisor: int) -> float:
    """Return the σ on a sum that corresponds to ``sigma`` on sum/``divisor``, rounded down."""
    records, scale = whole_number("divisor", divisor), positive("sigma", sigma)
    return scale if records == 1 else down(records * scale, 1)


def noise_on_query(sigma: float, divisor: int) -> float:
    """Return a σ that corresponds to at least ``sigma`` on the sum, the inverse of noise_on_sum."""
    records, scale = whole_number("divisor", divisor), nonnegative("sigma", sigma)
    return scale if records == 1 or scale == 0.0 else up(max(scale / records, SMALLEST), 8)


def _small_delta(delta: float) -> float:
    return fraction("delta", delta, open_left=True, open_right=True, remedy=_NEVER_PURE)


def dp_from_noise(sigma: float, delta: float, sensitivity: float) -> float:
    """Return the ε of N(0, σ²I) noise on a statistic of this ℓ₂-sensitivity.

    Guarantee: the mechanism is (ε, δ)-DP, replace-one if the sensitivity is.
    Theorem: L24-L10, which is exact.
    Numerics: the returned ε was evaluated again and satisfies the inequality.
    Edge cases: sensitivity 0 gives 0 for any σ; a ratio that overflows gives ∞.

    Examples:
        >>> round(dp_from_noise(3.730632, 1e-5, 1.0), 4)
        1.0
    """
    dlt = _small_delta(delta)
    shift = nonnegative("sensitivity", sensitivity)
    if shift == 0.0:
        nonnegative("sigma", sigma)
        return 0.0
    scale = positive("sigma", sigma, "Without noise the release is exact.")
    if not shift / scale < _LARGEST_SHIFT:
        return math.inf
    return guarantee_from_gaussian_mechanism(scale, shift).curve.epsilon(dlt)


def noise_from_dp(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest σ for which N(0, σ²I) noise is (ε, δ)-DP at this ℓ₂-sensitivity.

    Guarantee: noise of this σ is (ε, δ)-DP.
    Theorem: L24-L10 (analytic Gaussian mechanism).
    Numerics: the returned σ was evaluated again; for ε ≤ 700 and δ ≤ ½ it is less than 1e-9 above
    the least one.
    Edge cases: sensitivity 0 needs no noise and gives 0; δ = 0 is rejected.

    Examples:
        >>> round(noise_from_dp(1.0, 1e-5, 1.0), 6)
        3.730632
    """
    eps = nonnegative("epsilon", epsilon)
    dlt = _small_delta(delta)
    shift = nonnegative("sensitivity", sensitivity)
    if shift == 0.0:
        return 0.0
    mu = last_true(lambda m: GaussianCurve(m).delta(eps) <= dlt, 0.0, _LARGEST_SHIFT)
    sigma = shift / max(mu, SMALLEST)  # no positive μ at ε = 0 and the smallest δ

    def enough(scale: float) -> bool:
        return guarantee_from_gaussian_mechanism(scale, shift).curve.delta(eps) <= dlt

    # Division and outward rounding of the quotient cost a few units in the last place.
    safe = sigma * (1 + 1e-12)
    if not (0 < safe < math.inf and enough(safe)):
        raise SearchError(
            f"no σ in double precision gives ({eps!r}, {dlt!r})-DP at sensitivity {shift!r}."
        )
    return last_true(enough, safe, sigma * (1 - 1e-12))


# ---- the subset game ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NoisySum:
    """The release Σ_{x∈D} v_x + N(0, σ²I) for a uniform subset D, with bounds and the least σ.

    Replacing x by a uniform other record couples the worlds with and without x, at any subset size
    (``profile``; X1, L24-P12).  If the sum is one number, ``line`` holds the records' values for
    the exact mixtures (X9).  ``crowd`` holds the records for X21, in any dimension.  If these are
    given, the smallest bound is used for every record.  ``sigma`` is in the unit of the records;
    for a mean see :func:`noise_on_sum`.

    Examples:
        >>> noisy = NoisySum.of(np.array([[0.0], [1.0], [2.0], [9.0]]), SubsetGame(4, 2))
        >>> bounds = noisy.coupled(sigma=4.0, delta=1e-2)
        >>> bounds.worst_record
        3
    """

    profile: NeighbourProfile
    game: SubsetGame
    line: FloatArray | None = None
    crowd: CrowdTable | None = None

    def __post_init__(self) -> None:
        if self.profile.records != self.game.population:
            raise InputError(
                f"the population of the game must be the {self.profile.records} records of the "
                f"profile, got {self.game.population!r}."
            )

    @classmethod
    def of(
        cls,
        vectors: FloatArray,
        game: SubsetGame,
        *,
        crowd: bool = True,
        progress: Progress | None = None,
    ) -> NoisySum:
        """Measure the distances of records, one per row; ``crowd`` adds the bound X21."""
        profile = NeighbourProfile.from_vectors(vectors, progress=progress)
        line = vectors[:, 0].copy() if vectors.shape[1] == 1 else None
        return cls(profile, game, line, CrowdTable.of(vectors, game) if crowd else None)

    @property
    def coupling(self) -> NoisySum:
        """The same release, bounded by the coupling alone."""
        return replace(self, line=None, crowd=None)

    def coupled(self, sigma: float, delta: float) -> RecordBounds:
        """Return bounds for every record from the coupling alone.

        Guarantee: that of :class:`RecordBounds`.
        Theorem: X1 and L24-P12; the divergences of a pair are L24-L10; accuracy is I24-P2.
        Assumes: see ``assumptions`` of the result; in particular one release only.
        Numerics: every number is rounded outwards; the rounding of k/N is covered.
        Edge cases: equal records are distinguished by their row; if all are equal, ε̃ and η are 0.
        """
        scale = positive("sigma", sigma, "Without noise this bound is vacuous.")
        dlt = _small_delta(delta)
        return RecordBounds(
            self.game,
            dlt,
            self.profile.pmp_epsilon(dlt, scale),
            self.profile.accuracy(self.game.prior, scale),
            "Gaussian noise, coupled neighbours",
            ("X1", "L24-P12", "L24-L10", "I24-P2"),
            ASSUMPTIONS,
        )

    def bounds(
        self, sigma: float, delta: float, progress: Progress | None = None
    ) -> tuple[RecordBounds, RecordBounds]:
        """Return the best bounds of every record, and those by the coupling alone."""
        best = coupled = self.coupled(sigma, delta)
        if self.line is not None:
            best = best.tightened(
                mixture_bounds(self.line, self.game, sigma=sigma, delta=delta, progress=progress)
            )
        if self.crowd is not None:
            best = best.tightened(Crowd(self.crowd, sigma).bounds(delta))
        return best, coupled

    def worst_success(self, sigma: float) -> float:
        """Return an upper bound on the success of any attack on the game's protected record."""
        success = self.profile.accuracy(self.game.prior, sigma)
        if self.line is not None:
            exact = mixture_bounds(self.line, self.game, sigma=sigma, delta=0.0)
            success = np.minimum(success, exact.success)
        if self.crowd is not None:
            success = np.minimum(success, Crowd(self.crowd, sigma).success)
        return float(success.max()) if self.game.record == "every" else average_success(success)

    def worst_pmp_epsilon(self, sigma: float, delta: float) -> float:
        """Return an upper bound on the largest ε̃ of any record, for searches."""
        if self.line is not None:
            exact = mixture_bounds(self.line, self.game, sigma=sigma, delta=delta)
            if math.isfinite(exact.pmp_epsilon_upper):
                return exact.pmp_epsilon_upper
        epsilon = self.profile.pmp_epsilon(delta, sigma)
        if self.crowd is not None:
            epsilon = np.minimum(epsilon, Crowd(self.crowd, sigma).pmp_epsilon(delta))
        return float(epsilon.max())

    def noise_for_pmp(self, target: float, delta: float) -> float:
        """Return the smallest σ at which every record has ε̃ ≤ ``target`` at this δ.

        Guarantee: ``worst_pmp_epsilon(σ, δ) ≤ target``.
        Theorem: L24-P12 (decreasing in σ, as is every Gaussian divergence), X9, X21.
        Numerics: evaluated again at the returned σ, which exceeds the least one by less than 1e-6,
        or by the excess of ``profile.pmp_epsilon`` (1e-3); with a line by less than 1e-3.
        Edge cases: equal records need no noise and give 0.  If nearly all records are equal, σ may
        be far below the diameter.
        """
        eps, dlt = nonnegative("target", target), _small_delta(delta)
        if self.profile.diameter == 0.0:
            return 0.0

        def excess(sigma: float) -> float:
            # Evaluate one hockey-stick at the target ε instead of searching for ε; this is
            # equivalent.
            worst = float(self.profile.delta(eps, sigma).max())
            return math.log(worst) - math.log(dlt)

        start = noise_from_dp(eps, dlt, self.profile.diameter)
        sigma = self._least_noise(excess, start)
        sigma = confirmed(lambda s: self.coupling.worst_pmp_epsilon(s, dlt), eps, sigma)
        return self._reduced_noise(lambda s: self.worst_pmp_epsilon(s, dlt) - eps, sigma, eps)

    def noise_for_success(self, target: float) -> float:
        """Return the smallest σ at which no attack is right more often than ``target``.

        The attack is on any record or on the average record, depending on the game.

        Guarantee: ``worst_success(σ)`` is at most the target.
        Theorem: X1, I24-P2, X9, X21.
        Numerics: evaluated again at the returned σ, which exceeds the least one by less than 1e-6,
        with a line by less than 1e-3, and with a crowd alone by 1e-4.  With a line, σ is at least
        e^-4 of the coupling's, below which mixtures of whole numbers would take minutes.
        Edge cases: as :meth:`noise_for_pmp`.  The target must exceed the blind guess
        max(k/N, 1 - k/N), because no noise goes below that.
        """
        game, diameter = self.game, self.profile.diameter
        limit = finite_number("target", target)
        common = max(game.size, game.population - game.size)
        blind = common / game.population
        if not blind < limit < 1:
            raise InputError(
                f"target must be greater than {blind!r} and less than 1, got {target!r}. Always "
                f"giving the likelier answer is right for {common} of {game.population} records."
            )
        if diameter == 0.0:
            return 0.0
        # The noise for a pair at the diameter suffices for every record.
        alone = last_true(
            lambda m: up(GaussianCurve(m).accuracy(game.prior)) <= limit, 0.0, _LARGEST_SHIFT
        )
        start = diameter / alone if alone > 0 else math.inf
        if not start < math.inf:
            raise InputError(
                f"target must exceed the blind guess {blind!r} by more than rounding, "
                f"got {target!r}."
            )

        def excess(sigma: float) -> float:
            return self.coupling.worst_success(sigma) - limit

        sigma = confirmed(excess, 0.0, self._least_noise(excess, start))
        return self._reduced_noise(lambda s: self.worst_success(s) - limit, sigma, limit - blind)

    def _least_noise(self, excess: Callable[[float], float], start: float) -> float:
        """Search for the least σ; that of a pair at the diameter, or slightly more, suffices."""
        floor = 2.0**-60 * self.profile.diameter  # for data that need almost no noise
        return least_scale(excess, start, floor=floor, ceiling=1e6 * start)

    def _reduced_noise(self, excess: Callable[[float], float], sigma: float, far: float) -> float:
        """Return a smaller σ than the coupling's if exact mixtures or the crowd allow one."""
        if self.line is None and self.crowd is None:
            return sigma
        # Exact mixtures take seconds, and minutes far below the coupling's σ; the crowd alone takes
        # less than a second, and may need almost no noise.
        relative, share = (1e-4, 1e-4) if self.line is None else (1e-3, math.exp(-4.0))

        def near(trial: float) -> float:
            over = excess(trial)
            # Far from the target, or beyond the mixture's range, only the sign matters.
            return over if over <= far else math.inf

        with suppress(SearchError):
            if excess(sigma * (1 - relative)) <= 0:
                return least_scale(
                    near,
                    sigma,
                    floor=share * sigma,
                    ceiling=sigma,
                    relative=relative,
                    evaluations=24,
                )
        return sigma


# ---- a query of the population ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GaussianSetting:
    """Gaussian noise on the sum over a uniform subset, divided by ``divisor`` (k for a mean).

    ``sensitivity`` is that of the sum over all data sets.
    """

    noisy: NoisySum
    delta: float
    divisor: int
    sensitivity: float
    progress: Progress | None = None

    def sigma_from_epsilon(self, epsilon: float) -> float:
        """Return the smallest σ with (ε, δ)-DP over all data sets (L24-L10)."""
        return noise_on_query(noise_from_dp(epsilon, self.delta, self.sensitivity), self.divisor)

    def epsilon_from_sigma(self, sigma: float) -> float:
        """Return ε of the worst case over all data sets."""
        return dp_from_noise(noise_on_sum(sigma, self.divisor), self.delta, self.sensitivity)

    def solve(self, asked: Asked, amount: float) -> tuple[GaussianSetting, Solution]:
        """Return the mechanism at this ε or σ, or one that meets the target, with its bounds."""
        if asked == "epsilon":
            sigma, epsilon = self.sigma_from_epsilon(amount), amount
        elif asked == "sigma":
            sigma, epsilon = amount, self.epsilon_from_sigma(amount)
        else:
            sigma, epsilon = self.mechanism_for(asked, amount)
        if sigma == 0.0:
            raise InputError("the records must differ from one another; equal ones need no noise.")
        bounds, coupled = self.bounds(sigma)
        alone = None if bounds is coupled else coupled
        noise = noise_on_sum(sigma, self.divisor)
        inside = dp_from_noise(noise, self.delta, self.noisy.profile.diameter)
        success = None if alone is None else alone.success_upper
        compared = self._compared(epsilon, noise, bounds.success_upper, success)
        return self, Solution(epsilon, inside, bounds, compared, sigma, alone)

    def bounds(self, sigma: float) -> tuple[RecordBounds, RecordBounds]:
        """Return the best bounds of every record, and those by the coupling alone."""
        return self.noisy.bounds(noise_on_sum(sigma, self.divisor), self.delta, self.progress)

    def mechanism_for(self, quantity: Target, target: float) -> tuple[float, float]:
        """Return σ and ε of one mechanism that meets the target with little noise.

        Guarantee: both are short decimals, so the printed mechanism is the certified one.  It has
        (ε, δ)-DP over all data sets and meets the target; so does the least noise for ε.
        """

        def shortened(noisy: NoisySum) -> tuple[float, float]:
            if quantity == "target_pmp":
                least = noisy.noise_for_pmp(target, self.delta)
            else:
                least = noisy.noise_for_success(target)
            sigma = noise_on_query(least, self.divisor)
            if sigma == 0.0:
                return 0.0, 0.0
            # ε rounded down needs slightly more noise than the search found.
            epsilon = float(significant(self.epsilon_from_sigma(sigma), "lower"))
            if math.isfinite(epsilon):
                sigma = max(sigma, self.sigma_from_epsilon(epsilon))

            # Given ε too, other values are computed, so check that the answer itself meets the
            # target.
            def enough(noise: float) -> bool:
                reached = self.bounds(noise)[0].reached(quantity)
                return self.epsilon_from_sigma(noise) <= epsilon and reached <= target

            return short_decimal(sigma, "upper", enough), epsilon

        with suppress(SearchError):
            return shortened(self.noisy)
        return shortened(self.noisy.coupling)

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        noise, coupled = noise_on_sum(self.sigma_from_epsilon(epsilon), self.divisor), None
        if self.noisy.line is not None or self.noisy.crowd is not None:
            coupled = self.noisy.coupling.worst_success(noise)
        return self._compared(epsilon, noise, self.noisy.worst_success(noise), coupled)

    def _compared(
        self, epsilon: float, noise: float, practical: float, coupled: float | None
    ) -> Comparison:
        """Return the comparison, given success bounds."""

        def success(shift: float) -> float:
            mu = float(shifts(np.array([shift]), noise)[0])
            return GaussianCurve(mu).accuracy(self.noisy.game.prior)

        population = max(success(self.noisy.profile.diameter), practical)
        worst_case = max(success(self.sensitivity), population)
        return Comparison(epsilon, worst_case, population, practical, coupled)
