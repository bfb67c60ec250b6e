"""``population`` for Gaussian noise on a sum or a mean."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from memberbound.curve import GaussianCurve
from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import FloatArray, up
from memberbound.populations.answer import PopulationAnswer
from memberbound.populations.question import Question
from memberbound.populations.setting import Comparison, Progress, Quantity
from memberbound.quantities import significant
from memberbound.subset.bounds import RecordBounds
from memberbound.subset.clipping import Query
from memberbound.subset.gaussian import (
    dp_from_noise,
    gaussian_bounds,
    gaussian_success,
    noise_for_pmp,
    noise_for_success,
    noise_from_dp,
    noise_on_query,
    noise_on_sum,
    worst_case_sensitivity,
)
from memberbound.subset.joint import repeated_noise
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile

__all__ = ["GaussianSetting", "answer_gaussian"]

#: Less noise than e^-this of what the coupling asks for is not looked for.
LEAST_SHARE = 4.0


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

    def coupled(self, sigma: float) -> RecordBounds:
        """Bounds by coupling (X1, L24-P12)."""
        return gaussian_bounds(
            self.profile, self.game, sigma=self.effective(sigma), delta=self.delta
        )

    def exact(self, sigma: float, progress: Progress = None) -> RecordBounds | None:
        """Bounds by the exact mixture (X9), where the release is one number."""
        if self.line is None:
            return None
        return mixture_bounds(
            self.line, self.game, sigma=self.effective(sigma), delta=self.delta, progress=progress
        )

    def best(self, sigma: float) -> RecordBounds:
        """The better of the two, record by record."""
        coupled, exact = self.coupled(sigma), self.exact(sigma, self.progress)
        return coupled if exact is None else coupled.tightened(exact)

    def worst(self, quantity: Quantity, sigma: float) -> float:
        """ε̃ or success of the worst record: at least that of :meth:`best`, sooner; for searches."""
        noise = self.effective(sigma)
        if quantity == "pmp":
            if self.line is not None:
                exact = mixture_bounds(
                    self.line, self.game, sigma=noise, delta=self.delta, every=False
                )
                if math.isfinite(exact.pmp_epsilon_upper):
                    return exact.pmp_epsilon_upper
            return float(self.profile.pmp_epsilon(self.delta, noise).max())
        found = gaussian_success(self.profile, self.game, noise)
        if self.line is not None:
            exact = mixture_bounds(self.line, self.game, sigma=noise, delta=0.0, every=False)
            found = np.minimum(found, exact.success)
        return float(found.max())

    def sigma_for(self, quantity: Quantity, target: float) -> float:
        """Smallest σ with ε̃ ≤ target or success ≤ target, on the safe side."""
        if quantity == "pmp":
            found = noise_for_pmp(self.profile, target, self.delta)
        else:
            found = noise_for_success(self.profile, self.game, target)
        sigma = self.released(found)
        if found == 0.0 or self.line is None:
            return sigma

        allowed = (
            target if quantity == "pmp" else target - max(self.game.prior, 1 - self.game.prior)
        )

        @cache
        def excess(shift: float) -> float:
            over = self.worst(quantity, sigma * math.exp(-shift)) - target
            # Far off, or out of the mixture's reach: only the sign counts.
            return over if over <= allowed else math.inf

        # The exact mixture allows less noise: look for it below what the coupling asks for.
        safe, unsafe = 0.0, 0.5
        while unsafe <= LEAST_SHARE and excess(unsafe) <= 0:
            safe, unsafe = unsafe, 2 * unsafe
        shift = safe
        if unsafe <= LEAST_SHARE:
            with suppress(SearchError):
                shift = safe_crossing(excess, safe, unsafe, relative=1e-3, evaluations=24)
        # With ε as well, other values are worked out: the answer itself must meet the target.
        for factor in (1.0, 1.001, 1.01, 1.1, 1.5, 3.0, 10.0):
            less = min(sigma, sigma * math.exp(-shift) * factor)
            bounds = self.best(less)
            reached = bounds.pmp_epsilon_upper if quantity == "pmp" else bounds.success_upper
            if reached <= target:
                return less
        return sigma

    def comparison(self, epsilon: float) -> Comparison:
        """Success at ε for who knows all but one, who knows the population's worst, and who not."""
        sigma = self.sigma_from_epsilon(epsilon)
        return self.compared(epsilon, sigma, self.worst("success", sigma))

    def compared(self, epsilon: float, sigma: float, practical: float) -> Comparison:
        """Return the comparison for a success bound that is already there."""
        noise, prior = self.effective(sigma), self.game.prior

        def success(shift: float) -> float:
            if shift == 0.0:
                return max(prior, 1 - prior)
            # Rounding k/N moves the accuracy by 2^-54 at most; one up covers it.
            return min(1.0, up(GaussianCurve(up(shift / noise)).accuracy(prior), 1))

        population = max(success(self.profile.diameter), practical)
        worst_case = max(success(self.sensitivity), population)
        return Comparison(epsilon, worst_case, population, practical)


def answer_gaussian(
    question: Question, *, query: Query, releases: int, progress: Progress
) -> PopulationAnswer:
    """Answer for Gaussian noise on the query of a uniform subset."""
    if question.delta == 0.0:
        raise InputError(
            "delta must be greater than 0 for the Gaussian mechanism, got 0: no amount of Gaussian "
            "noise gives a finite ε at δ = 0. Try 1e-5."
        )
    share = question.game.size if query == "mean" else 1
    if question.sensitivity is None:
        values, radius, moved, notes = question.inside_ball()
        worst = worst_case_sensitivity("sum", radius, question.game.size) if radius > 0 else 0.0
    elif question.clip is None:
        values, moved, notes = question.table.values, None, ()
        worst = up(question.sensitivity * share)
    else:
        raise InputError("give clip or sensitivity, not both.")
    profile = NeighbourProfile.from_vectors(values, progress=progress)
    if profile.diameter > worst * (1 + 1e-9):
        raise InputError(
            f"sensitivity must be at least {significant(profile.diameter / share, 'upper')}, which "
            f"these records reach by themselves, got {question.sensitivity!r}."
        )
    setting = GaussianSetting(
        profile,
        question.game,
        question.delta,
        query,
        max(worst, profile.diameter),
        releases,
        values[:, 0].copy() if values.shape[1] == 1 else None,
        progress,
    )
    amount = question.amount
    if amount.epsilon is not None:
        noise = setting.sigma_from_epsilon(amount.epsilon)
    elif amount.sigma is not None:
        noise = amount.sigma
    else:
        noise = setting.sigma_for(*amount.target)  # type: ignore[misc]  # the only case left
    if noise == 0.0:
        raise InputError("the records must differ from one another; equal ones need no noise.")
    coupled = setting.coupled(noise)
    exact = setting.exact(noise, progress)
    bounds = coupled if exact is None else coupled.tightened(exact)
    epsilon = amount.epsilon
    if epsilon is None:
        epsilon = setting.epsilon_from_sigma(noise)
    return PopulationAnswer(
        "gaussian",
        query if releases == 1 else f"{query}, {releases} answers",
        bounds,
        None if exact is None else coupled,
        epsilon,
        setting.epsilon_population(noise),
        noise,
        setting.compared(epsilon, noise, bounds.success_upper),
        profile.mean_distance,
        profile.max_distance,
        "mean distance to the others",
        moved,
        amount,
        question.notes + notes,
        setting=replace(setting, progress=None),
    )
