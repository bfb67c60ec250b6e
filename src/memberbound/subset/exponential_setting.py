"""The exponential mechanism at any ε, and the ε for a target."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memberbound.declarations import Progress
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError
from memberbound.numerics.roots import fixed_order, least_scale
from memberbound.numerics.rounding import down, shared_confidence
from memberbound.quantities import significant
from memberbound.subset.enumeration import exact_bounds, is_enumerable
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.record_bounds import (
    Comparison,
    RecordBounds,
    Solution,
    Target,
    short_decimal,
)
from memberbound.subset.sampling import sampled_bounds


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7).

    If there are too many subsets to enumerate, ``subsets`` of them are drawn from ``seed``, and the
    bounds hold with ``confidence``.
    """

    mechanism: ExponentialMechanism
    delta: float
    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0
    progress: Progress | None = None

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """The exact bounds if all subsets can be enumerated, or else sampled ones."""
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

    def epsilon_for(self, quantity: Target, target: float) -> float:
        """Return the largest ε found that meets the target, as a short decimal.

        The first candidate is the ε at which the population's own worst case meets the target.
        Exact bounds are bisected; sampled ones are tested in a fixed order of growing ε until the
        first failure, which needs no correction for the number of tests.
        """
        # The population's worst case is linear in ε, so evaluate it at ε = 1.
        unit = replace(self.mechanism, epsilon=1.0).epsilon_population

        def reached(epsilon: float) -> float:
            return self.at(epsilon).best().reached(quantity)

        if unit == 0.0:
            raise InputError(
                "the losses must differ between records; here the choice never depends on who was "
                "drawn, and every ε meets the target."
            )
        allowed = target
        if quantity == "target_success":
            blind = self.mechanism.game.blind
            if not target > blind:
                raise InputError(
                    f"target_success must be above the blind guess of {blind!r}, got {target!r}."
                )
            # The success on an ε-indistinguishable pair is at most 1/(1 + e^-ε), or that of the
            # blind guess.
            allowed = down(math.log1p((2 * target - 1) / (1 - target)), 8)
        start = float(significant(down(allowed / unit, 8), "lower"))
        if start <= 0:
            return 0.0
        if not is_enumerable(self.mechanism.game):
            trials = (float(significant(start * 1.25**step, "lower")) for step in range(1, 25))
            return fixed_order(lambda e: reached(e) <= target, trials) or start
        # Search over the inverse of ε, the noise, up to 2⁴⁰ times the first one.
        scale = least_scale(lambda s: reached(1 / s) - target, 1 / start, floor=2.0**-40 / start)
        return short_decimal(1 / scale, "lower", lambda e: reached(e) <= target)

    def for_target(
        self, quantity: Target, target: float
    ) -> tuple[ExponentialSetting, RecordBounds]:
        """Return the setting at the ε found, with bounds that account for the choice of ε.

        The subsets that chose ε prove only that the target is met.  Half of the error probability
        covers this statement and the other half bounds from fresh subsets, so both hold together.
        """
        if is_enumerable(self.mechanism.game):
            exact = self.at(self.epsilon_for(quantity, target))
            return exact, exact.best()
        half = replace(self, confidence=shared_confidence(self.confidence, 2))
        setting = replace(half.at(half.epsilon_for(quantity, target)), seed=self.seed + 1)
        fresh = setting.best()
        name = "pmp_epsilon" if quantity == "target_pmp" else "success"
        met = {name: np.minimum(getattr(fresh, name), target)}
        return setting, replace(fresh, confidence=self.confidence, **met)

    def solve(
        self, asked: Literal["epsilon"] | Target, amount: float
    ) -> tuple[ExponentialSetting, Solution]:
        """Return the setting at this ε, or at one that meets the target, with its bounds."""
        if asked == "epsilon":
            setting = self.at(amount)
            bounds = setting.best()
        else:
            setting, bounds = self.for_target(asked, amount)

        def success(worst: float) -> float:
            return guarantee_from_epsilon_delta([(worst, 0.0)]).curve.accuracy(bounds.game.prior)

        epsilon = setting.mechanism.epsilon
        inside = min(epsilon, setting.mechanism.epsilon_population)
        practical = min(success(inside), bounds.success_upper)
        compared = Comparison(epsilon, success(epsilon), success(inside), practical)
        return setting, Solution(epsilon, inside, bounds, compared)

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        return self.solve("epsilon", epsilon)[1].compared
