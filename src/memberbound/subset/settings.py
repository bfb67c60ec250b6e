"""A mechanism on a population at any amount of noise: what attackers reach who know ever less.

A setting holds what does not depend on the amount of noise (the neighbour profile, the losses).  It
bounds the worst case over all data sets, the worst case over neighbours inside the population, and
the attacker who does not know who was drawn, and it finds the noise for a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memberbound.curve import GaussianCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, SearchError
from memberbound.numerics.roots import fixed_order, least_scale
from memberbound.numerics.rounding import down, shared_confidence, up
from memberbound.quantities import Side, significant
from memberbound.subset.exponential import ExponentialMechanism, exact_bounds, is_enumerable
from memberbound.subset.gaussian import NoisySum, dp_from_noise, noise_from_dp
from memberbound.subset.profile import Query, noise_on_query, noise_on_sum
from memberbound.subset.record_bounds import RecordBounds
from memberbound.subset.sampled import sampled_bounds

Progress = Callable[[int, int], None] | None
#: What an inverse question limits: ε̃, or the success of any attack.
Quantity = Literal["pmp", "success"]


@dataclass(frozen=True)
class Comparison:
    """Success bounds of three attackers at one ε: they know ever less.

    ``coupled`` is what coupling alone proves about the last one (L24-P12), where more is known.
    """

    epsilon: float
    worst_case: float
    population: float
    practical: float
    coupled: float | None = None


# ── Gaussian noise on a sum or a mean ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class GaussianSetting:
    """Gaussian noise on the sum or the mean of a uniform subset.

    A mean over k records with noise σ is the sum with noise k·σ, so one :class:`.NoisySum` serves
    both queries.  ``sensitivity`` is that of the sum over all data sets.
    """

    noisy: NoisySum
    delta: float
    query: Query
    sensitivity: float
    progress: Progress = None

    @property
    def coupling(self) -> GaussianSetting:
        """The same, bounded by the coupling alone."""
        return replace(self, noisy=self.noisy.coupling)

    def on_sum(self, sigma: float) -> float:
        """Noise on the sum that is worth noise σ on the query, from below."""
        return noise_on_sum(self.query, sigma, self.noisy.game.size)

    def on_query(self, sigma: float) -> float:
        """Noise on the query that is worth at least noise σ on the sum."""
        return noise_on_query(self.query, sigma, self.noisy.game.size)

    def sigma_from_epsilon(self, epsilon: float) -> float:
        """Smallest σ with (ε, δ)-DP over all data sets (L24-L10)."""
        return self.on_query(noise_from_dp(epsilon, self.delta, self.sensitivity))

    def epsilon_from_sigma(self, sigma: float) -> float:
        """ε of the worst case over all data sets."""
        return dp_from_noise(self.on_sum(sigma), self.delta, self.sensitivity)

    def epsilon_population(self, sigma: float) -> float:
        """ε of the worst case over neighbours inside the population."""
        return dp_from_noise(self.on_sum(sigma), self.delta, self.noisy.profile.diameter)

    def bounds(self, sigma: float) -> tuple[RecordBounds, RecordBounds]:
        """Return the best bounds of every record, and those by the coupling alone."""
        return self.noisy.bounds(self.on_sum(sigma), self.delta, self.progress)

    def mechanism_for(self, quantity: Quantity, target: float) -> tuple[float, float]:
        """Return σ and ε of one mechanism with ε̃ ≤ target or success ≤ target, with little noise.

        Guarantee: both are short decimals, so what is printed is the mechanism that is certified.
        It has (ε, δ)-DP over all data sets, and meets the target; so does the least noise for ε.
        """
        pmp = quantity == "pmp"

        def shortened(noisy: NoisySum) -> tuple[float, float]:
            least = (
                noisy.noise_for_pmp(target, self.delta) if pmp else noisy.noise_for_success(target)
            )
            sigma = self.on_query(least)
            if sigma == 0.0:
                return 0.0, 0.0
            # ε rounded down asks for a little more noise than was found.
            epsilon = float(significant(self.epsilon_from_sigma(sigma), "lower"))
            if math.isfinite(epsilon):
                sigma = max(sigma, self.sigma_from_epsilon(epsilon))

            # With ε as well, other values are worked out: the answer itself must meet the target.
            def enough(noise: float) -> bool:
                best, _ = self.bounds(noise)
                reached = best.pmp_epsilon_upper if pmp else best.success_upper
                return self.epsilon_from_sigma(noise) <= epsilon and reached <= target

            return _short_decimal(sigma, "upper", enough), epsilon

        with suppress(SearchError):
            return shortened(self.noisy)
        return shortened(self.noisy.coupling)

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        sigma = self.sigma_from_epsilon(epsilon)
        noise, coupled = self.on_sum(sigma), None
        if self.noisy.line is not None or self.noisy.crowd is not None:
            coupled = self.noisy.coupling.worst_success(noise)
        return self.compared(epsilon, sigma, self.noisy.worst_success(noise), coupled)

    def compared(
        self, epsilon: float, sigma: float, practical: float, coupled: float | None
    ) -> Comparison:
        """Return the comparison for success bounds that are already there."""
        noise, prior = self.on_sum(sigma), self.noisy.game.prior

        def success(shift: float) -> float:
            if shift == 0.0:
                return max(prior, 1 - prior)
            # Rounding k/N moves the accuracy by 2^-54 at most; one up covers it.
            return min(1.0, up(GaussianCurve(up(shift / noise)).accuracy(prior), 1))

        population = max(success(self.noisy.profile.diameter), practical)
        worst_case = max(success(self.sensitivity), population)
        return Comparison(epsilon, worst_case, population, practical, coupled)


def _short_decimal(value: float, side: Side, holds: Callable[[float], bool]) -> float:
    """Return a decimal of a few digits, at or beyond ``value`` on a side, where ``holds`` is seen.

    >>> _short_decimal(0.12345678, "upper", lambda x: True)
    0.123457
    """
    share = 1e-6 if side == "upper" else -1e-6
    for _ in range(40):
        short = float(significant(value, side))
        if holds(short):
            return short
        value = short * (1 + share)
        share *= 1.5
    raise SearchError(f"what was found, {value!r}, did not meet the target again.")


# ── The exponential mechanism ─────────────────────────────────────────────────────────────────────

#: More than 1/this times the ε of the population's own worst case is not looked for.
_LEAST_EXPONENTIAL = 2.0**-40


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7).

    Where there are too many subsets to enumerate, ``subsets`` of them are drawn from ``seed``, and
    the bounds hold with ``confidence``.
    """

    mechanism: ExponentialMechanism
    delta: float
    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0
    progress: Progress = None

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """Exact bounds where all subsets can be enumerated, else sampled ones."""
        if is_enumerable(self.mechanism.game):
            return exact_bounds(self.mechanism, delta=self.delta, progress=self.progress)
        return sampled_bounds(
            self.mechanism,
            delta=self.delta,
            confidence=self.confidence,
            subsets=self.subsets,
            seed=self.seed,
            progress=self.progress,
        )

    def epsilon_for(self, quantity: Quantity, target: float) -> float:
        """Largest ε found with ε̃ ≤ target or success ≤ target, a short decimal.

        The first candidate is the ε at which the population's own worst case meets the target,
        which needs no enumeration.  Exact bounds are bisected.  Sampled bounds are tested at ε
        growing by fixed factors until the first failure: a fixed order needs no correction for the
        number of tests, since a wrong answer implies that the first false claim passed its test.
        """
        # The population's worst case is linear in ε; a unit of it is what ε = 1 gives.
        unit = replace(self.mechanism, epsilon=1.0).epsilon_population

        def reached(epsilon: float) -> float:
            bounds = self.at(epsilon).best()
            return bounds.pmp_epsilon_upper if quantity == "pmp" else bounds.success_upper

        if unit == 0.0:
            raise InputError(
                "the losses must differ between records; here the choice never depends on who was "
                "drawn, and every ε meets the target."
            )
        allowed = target
        if quantity == "success":
            blind = self.mechanism.game.blind
            if not target > blind:
                raise InputError(
                    f"target_success must be above the blind guess of {blind!r}, got {target!r}."
                )
            # An ε-indistinguishable pair is guessed right 1/(1 + e^-ε) of the time, or blindly.
            allowed = down(math.log1p((2 * target - 1) / (1 - target)), 8)
        start = float(significant(down(allowed / unit, 8), "lower"))
        if start <= 0:
            return 0.0
        if not is_enumerable(self.mechanism.game):
            trials = (float(significant(start * 1.25**step, "lower")) for step in range(1, 25))
            return fixed_order(lambda e: reached(e) <= target, trials) or start
        # ε falls as its inverse, the noise, grows.
        scale = least_scale(
            lambda s: reached(1 / s) - target, 1 / start, floor=_LEAST_EXPONENTIAL / start
        )
        return _short_decimal(1 / scale, "lower", lambda e: reached(e) <= target)

    def for_target(
        self, quantity: Quantity, target: float
    ) -> tuple[ExponentialSetting, RecordBounds]:
        """Return the setting at the ε found, and bounds there that hold although ε was chosen.

        Sampled subsets that chose ε say no more than "the target is met"; half of the error
        probability goes to that claim and half to bounds from fresh subsets, so both hold together.
        """
        if is_enumerable(self.mechanism.game):
            exact = self.at(self.epsilon_for(quantity, target))
            return exact, exact.best()
        half = replace(self, confidence=shared_confidence(self.confidence, 2))
        setting = replace(half.at(half.epsilon_for(quantity, target)), seed=self.seed + 1)
        fresh = setting.best()
        pmp = quantity == "pmp"
        bounds = replace(
            fresh,
            pmp_epsilon=np.minimum(fresh.pmp_epsilon, target) if pmp else fresh.pmp_epsilon,
            success=fresh.success if pmp else np.minimum(fresh.success, target),
            confidence=self.confidence,
        )
        return setting, bounds

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        there = self.at(epsilon)
        return there.compared(epsilon, there.best())

    def compared(self, epsilon: float, bounds: RecordBounds) -> Comparison:
        """Return the comparison for bounds that are already there."""
        prior = self.mechanism.game.prior
        inside = min(epsilon, replace(self.mechanism, epsilon=epsilon).epsilon_population)
        population = guarantee_from_epsilon_delta([(inside, 0.0)]).curve.accuracy(prior)
        return Comparison(
            epsilon,
            guarantee_from_epsilon_delta([(epsilon, 0.0)]).curve.accuracy(prior),
            population,
            min(population, bounds.success_upper),
        )


#: A mechanism on a population, at any ε.
Setting = GaussianSetting | ExponentialSetting
