"""A mechanism on a population at any amount of noise: what attackers reach who know ever less.

A setting holds what does not depend on the amount of noise (the neighbour profile, the losses).  It
bounds the worst case over all data sets, the worst case over neighbours inside the population, and
the attacker who does not know who was drawn, and it finds the noise for a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.curve import GaussianCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, SearchError, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.roots import fixed_order, last_true, least_scale
from memberbound.numerics.rounding import FloatArray, down, shared_confidence, two_product, up
from memberbound.quantities import Side, significant
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.exponential import MOST_SUBSETS, ExponentialMechanism, exact_bounds
from memberbound.subset.gaussian import (
    dp_from_noise,
    gaussian_bounds,
    noise_for_pmp,
    noise_for_success,
    noise_from_dp,
    worst_success,
)
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import (
    NeighbourProfile,
    Query,
    checked_table,
    noise_on_query,
    noise_on_sum,
)
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

#: Bounds by coupling, by the exact mixture and by the crowd.
_Parts = tuple[RecordBounds, RecordBounds | None, RecordBounds | None]


@dataclass(frozen=True, eq=False)
class GaussianSetting:
    """Gaussian noise on the sum or the mean of a uniform subset.

    The profile is that of the sum: a mean over k records with noise σ is the sum with noise k·σ,
    so one profile serves both queries and every size.  ``sensitivity`` is that of the sum over all
    data sets, ``releases`` the number of independent answers.
    """

    profile: NeighbourProfile
    game: SubsetGame
    delta: float
    query: Query
    sensitivity: float
    releases: int = 1
    line: FloatArray | None = None
    progress: Progress = None
    crowd: CrowdTable | None = None
    _last: dict[float, _Parts] = field(default_factory=dict, init=False, repr=False)

    def effective(self, sigma: float) -> float:
        """Noise on the sum that says as much as all releases together, from below."""
        return noise_on_sum(self.query, repeated_noise(sigma, self.releases), self.game.size)

    def released(self, effective: float) -> float:
        """Noise per released answer whose :meth:`effective` noise is at least the given one."""
        if effective == 0.0:
            return 0.0
        single = noise_on_query(self.query, effective, self.game.size)
        sigma = single if self.releases == 1 else up(single * math.sqrt(self.releases), 24)
        if self.effective(sigma) < effective:
            raise SearchError(f"no noise found for an effective σ of {effective!r}.")
        return sigma

    def sigma_from_epsilon(self, epsilon: float) -> float:
        """Smallest σ with (ε, δ)-DP over all data sets (L24-L10)."""
        return self.released(noise_from_dp(epsilon, self.delta, self.sensitivity))

    def epsilon_from_sigma(self, sigma: float) -> float:
        """ε of the worst case over all data sets."""
        return dp_from_noise(self.effective(sigma), self.delta, self.sensitivity)

    def epsilon_population(self, sigma: float) -> float:
        """ε of the worst case over neighbours inside the population."""
        return dp_from_noise(self.effective(sigma), self.delta, self.profile.diameter)

    def parts(self, sigma: float) -> _Parts:
        """Bounds by coupling (X1, L24-P12), of one number by the exact mixture (X9), else by X21.

        The last ones are kept, as a search ends with those that are answered.
        """
        if sigma not in self._last:
            self._last.clear()
            noise, exact, hidden = self.effective(sigma), None, None
            coupled = gaussian_bounds(self.profile, self.game, sigma=noise, delta=self.delta)
            if self.line is not None:
                exact = mixture_bounds(
                    self.line, self.game, sigma=noise, delta=self.delta, progress=self.progress
                )
            if self.crowd is not None:
                hidden = Crowd(self.crowd, noise).bounds(self.delta)
            self._last[sigma] = coupled, exact, hidden
        return self._last[sigma]

    def best(self, sigma: float) -> RecordBounds:
        """The best of all, record by record."""
        best, *others = self.parts(sigma)
        for other in others:
            best = best if other is None else _tightened(best, other)
        return best

    def mechanism_for(self, quantity: Quantity, target: float) -> tuple[float, float]:
        """Return σ and ε of one mechanism with ε̃ ≤ target or success ≤ target, with little noise.

        Guarantee: both are short decimals, so what is printed is the mechanism that is certified.
        It has (ε, δ)-DP over all data sets, and meets the target; so does the least noise for ε.
        """
        pmp = quantity == "pmp"

        def least_noise(line: FloatArray | None, crowd: CrowdTable | None) -> float:
            if pmp:
                return noise_for_pmp(self.profile, target, self.delta, self.game, line, crowd=crowd)
            return noise_for_success(self.profile, self.game, target, line, crowd=crowd)

        def reached(sigma: float) -> float:
            bounds = self.best(sigma)
            return bounds.pmp_epsilon_upper if pmp else bounds.success_upper

        def shortened(sigma: float) -> tuple[float, float]:
            # ε rounded down asks for a little more noise than was found.
            epsilon = float(significant(self.epsilon_from_sigma(sigma), "lower"))
            if math.isfinite(epsilon):
                sigma = max(sigma, self.sigma_from_epsilon(epsilon))

            # With ε as well, other values are worked out: the answer itself must meet the target.
            def enough(noise: float) -> bool:
                return self.epsilon_from_sigma(noise) <= epsilon and reached(noise) <= target

            return _short_decimal(sigma, "upper", enough), epsilon

        sigma = self.released(least_noise(self.line, self.crowd))
        if sigma == 0.0:
            return 0.0, 0.0
        with suppress(SearchError):
            return shortened(sigma)
        return shortened(self.released(least_noise(None, None)))

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        sigma = self.sigma_from_epsilon(epsilon)
        noise, coupled = self.effective(sigma), None
        if self.line is not None or self.crowd is not None:
            coupled = worst_success(self.profile, self.game, noise)
        best = worst_success(self.profile, self.game, noise, self.line, crowd=self.crowd)
        return self.compared(epsilon, sigma, best, coupled)

    def compared(
        self, epsilon: float, sigma: float, practical: float, coupled: float | None = None
    ) -> Comparison:
        """Return the comparison for success bounds that are already there."""
        noise, prior = self.effective(sigma), self.game.prior

        def success(shift: float) -> float:
            if shift == 0.0:
                return max(prior, 1 - prior)
            # Rounding k/N moves the accuracy by 2^-54 at most; one up covers it.
            return min(1.0, up(GaussianCurve(up(shift / noise)).accuracy(prior), 1))

        population = max(success(self.profile.diameter), practical)
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


def _tightened(first: RecordBounds, second: RecordBounds) -> RecordBounds:
    """The smaller of two bounds for every record; one that is nowhere smaller is not named."""
    smaller = (second.success < first.success) | (second.pmp_epsilon < first.pmp_epsilon)
    return first.tightened(second) if smaller.any() else first


# ── The exponential mechanism ─────────────────────────────────────────────────────────────────────

#: More than 1/this times the ε of the population's own worst case is not looked for.
_LEAST_EXPONENTIAL = 2.0**-40


@dataclass(frozen=True)
class Sampling:
    """How subsets are sampled where they are too many to enumerate."""

    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7)."""

    mechanism: ExponentialMechanism
    delta: float
    sampling: Sampling
    progress: Progress = None

    @property
    def game(self) -> SubsetGame:
        """The subset game of the mechanism."""
        return self.mechanism.game

    @property
    def enumerable(self) -> bool:
        """Whether all subsets can be enumerated."""
        return math.comb(self.game.population, self.game.size) <= MOST_SUBSETS

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """Exact bounds where all subsets can be enumerated, else sampled ones."""
        if self.enumerable:
            return exact_bounds(self.mechanism, delta=self.delta, progress=self.progress)
        return sampled_bounds(
            self.mechanism,
            delta=self.delta,
            confidence=self.sampling.confidence,
            subsets=self.sampling.subsets,
            seed=self.sampling.seed,
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
        prior = self.game.prior

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
            allowed = _pure_epsilon_for_success(target, prior)
        start = float(significant(down(allowed / unit, 8), "lower"))
        if start <= 0:
            return 0.0
        if not self.enumerable:
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
        if self.enumerable:
            exact = self.at(self.epsilon_for(quantity, target))
            return exact, exact.best()
        sampling = self.sampling
        half = replace(sampling, confidence=shared_confidence(sampling.confidence, 2))
        epsilon = replace(self, sampling=half).epsilon_for(quantity, target)
        setting = replace(self.at(epsilon), sampling=replace(half, seed=sampling.seed + 1))
        fresh = setting.best()
        pmp = quantity == "pmp"
        bounds = replace(
            fresh,
            pmp_epsilon=np.minimum(fresh.pmp_epsilon, target) if pmp else fresh.pmp_epsilon,
            success=fresh.success if pmp else np.minimum(fresh.success, target),
            confidence=sampling.confidence,
        )
        return setting, bounds

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        there = self.at(epsilon)
        return there.compared(epsilon, there.best())

    def compared(self, epsilon: float, bounds: RecordBounds) -> Comparison:
        """Return the comparison for bounds that are already there."""
        prior = self.game.prior
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


def _pure_epsilon_for_success(target: float, prior: float) -> float:
    """Return the largest ε found for which ε-indistinguishability keeps success at ``target``."""
    blind = max(prior, 1 - prior)
    if not target > blind:
        raise InputError(
            f"target_success must be above the blind guess of {blind!r}, got {target!r}."
        )
    return last_true(
        lambda e: guarantee_from_epsilon_delta([(e, 0.0)]).curve.accuracy(prior) <= target,
        0.0,
        float(np.log1p(2 * target / max(1e-12, 1 - target))) + 5.0,
    )


# ── Several releases about one subset: PMP does not compose, so treat them as one release ─────────
#
# Under DP the parameters of two releases add up because each bound holds whatever else is known.
# PMP bounds an attacker to whom the subset is still uniform, and after the first release it is not
# (L24-Dis1): the sum of three of the numbers 0…5 modulo 6, and the same sum with the labels 4 and 5
# exchanged, are each ln 2-PMP and together PMP for no finite ε.  So there is no function here that
# adds ε̃, only one that joins the *queries*: several Gaussian queries are one Gaussian query with
# more coordinates, and the bound for that one holds for all of them together.

#: Rounding errors of the coordinates enter as coordinates of their own, 2^20 times enlarged …
_ENLARGED = 2.0**20
#: … and the noise is lowered by this share of itself.
_SHARE = 2.0**-40
#: Products whose rounding errors are doubles again.
_SMALL, _LARGE = 2.0**-900, 2.0**900


class GaussianQuery(NamedTuple):
    """The sum of ``vectors[x]`` over the subset, with noise N(0, σ²I), released so many times.

    A mean of k records with noise σ is the sum with noise kσ (``noise_on_sum``), divided by k.
    """

    vectors: ArrayLike
    sigma: float
    repetitions: int = 1


@dataclass(frozen=True, eq=False)
class JointRelease:
    """One query worth all of them: ``vectors`` for a neighbour profile, ``sigma`` to ask it about.

    ``sigma`` is the first query's (of all its repetitions), in whose unit the vectors are.
    """

    vectors: FloatArray
    sigma: float


def repeated_noise(sigma: float, repetitions: int) -> float:
    """Return σ/√T from below: T releases with independent noise σ are worth one with that noise.

    Theorem: their mean is a sufficient statistic (equivalently, T equal blocks have √T times the
    distance).

    Examples:
        >>> round(repeated_noise(6.0, 4), 12)
        3.0
    """
    scale, times = positive("sigma", sigma), whole_number("repetitions", repetitions)
    return scale if times == 1 else down(scale / math.sqrt(times), 4)


def joint_release(
    queries: Sequence[GaussianQuery | tuple[ArrayLike, float] | tuple[ArrayLike, float, int]],
) -> JointRelease:
    """Join several Gaussian queries on one subset of one population into a single query.

    Guarantee: whatever holds for noise N(0, σ²I) on the sum of the joined vectors holds for all
    the given releases together: no joined distance over σ is below the true √Σ(d_i/σ_i)².
    Theorem: independent Gaussian noise on (q_1, q_2, …) is Gaussian noise on the concatenation,
    once every block is divided by its σ (L24-L14 both ways).
    Assumes: the noises are independent, and all queries were chosen before the first release.
    Numerics: dividing rounds every coordinate, which would change small distances by an unknown
    amount.  So the rounding errors, which are doubles, follow as coordinates of their own: with
    hi + lo exact, ‖Δhi + Δlo‖² ≤ (1+t)(‖Δhi‖² + ‖Δlo‖²/t), here t = 2^-40.
    Edge cases: one query comes back as it is; equal σ need no division.

    Examples:
        >>> import numpy as np
        >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> joined = joint_release([(x, 2.0), (x * x, 4.0)])
        >>> joined.vectors.tolist(), joined.sigma
        ([[0.0, 0.0], [1.0, 0.5], [2.0, 2.0], [3.0, 4.5]], 2.0)
    """
    if len(queries) == 0:
        raise InputError("queries must be at least one pair (vectors, sigma), got none.")
    parsed = [GaussianQuery(*query) for query in queries]
    tables = [checked_table("vectors", query.vectors) for query in parsed]
    records = {len(table) for table in tables}
    if len(records) > 1:
        raise InputError(
            f"queries must be on the same records, got tables of {sorted(records)} rows. "
            "Row x of every table is the contribution of record x."
        )
    noises = [repeated_noise(query.sigma, query.repetitions) for query in parsed]
    blocks, errors = [], []
    for table, noise in zip(tables, noises, strict=True):
        block, error = _in_unit(table, noises[0], noise)
        blocks.append(block)
        if error.any():
            errors.append(_ENLARGED * error)
    # (1 + t)^-½ > 1 - t/2, and the factor below is smaller.
    sigma = down(noises[0] * (1 - _SHARE), 1) if errors else noises[0]
    return JointRelease(np.hstack(blocks + errors), sigma)


def _in_unit(table: FloatArray, unit: float, noise: float) -> tuple[FloatArray, FloatArray]:
    """Rows times (at least) unit/noise, as an exact sum of two tables."""
    if noise == unit:
        return table, np.zeros_like(table)
    ratio = _quotient_up(unit, noise)
    # A column far from 0 is moved there, so that its rounding errors are those of differences.  No
    # distance changes: numbers within a factor of two are subtracted without error (Sterbenz).
    first = table[0]
    with np.errstate(over="ignore"):
        share = np.divide(table, first, out=np.zeros_like(table), where=first != 0)
    near = ((share >= 0.51) & (share <= 1.99)).all(axis=0)
    table = table - np.where(near, first, 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        high, low = two_product(np.float64(ratio), table)
        size = np.abs(np.concatenate([table[table != 0], high[table != 0]]))
    if not (_SMALL < ratio < _LARGE and np.all((size > _SMALL) & (size < _LARGE))):
        raise InputError(
            "vectors must lie between 1e-270 and 1e270, also over sigma. Change their unit."
        )
    return high, low


def _quotient_up(above: float, below: float) -> float:
    """Quotient from above; a power of two, and any other exact one, stays as it is."""
    ratio = above / below
    if not 0 < ratio < math.inf:
        raise InputError(f"sigma must not differ beyond all doubles, got {above!r}, {below!r}.")
    top, bottom = ratio.as_integer_ratio()
    up_top, up_bottom = above.as_integer_ratio()
    down_top, down_bottom = below.as_integer_ratio()
    exact = top * up_bottom * down_top == up_top * down_bottom * bottom
    return ratio if exact else up(ratio, 1)
