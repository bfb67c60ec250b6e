"""``population`` for Gaussian noise on a sum or a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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

#: Exact one-dimensional mixtures are computed up to this many records …
MOST_MIXED = 10_000
#: … and searched through, for an inverse question, up to this many.
MOST_SEARCHED = 1_000


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
        """Bounds by the exact mixture (X9), where the release is one number and N allows it."""
        if self.line is None or self.game.population > MOST_MIXED:
            return None
        return mixture_bounds(
            self.line, self.game, sigma=self.effective(sigma), delta=self.delta, progress=progress
        )

    def best(self, sigma: float) -> RecordBounds:
        """The better of the two, record by record."""
        coupled, exact = self.coupled(sigma), self.exact(sigma, self.progress)
        return coupled if exact is None else coupled.tightened(exact)

    def sigma_for(self, quantity: Quantity, target: float) -> float:
        """Smallest σ with ε̃ ≤ target or success ≤ target, on the safe side."""
        if quantity == "pmp":
            found = noise_for_pmp(self.profile, target, self.delta)
        else:
            found = noise_for_success(self.profile, self.game, target)
        sigma = self.released(found)
        if found == 0.0 or self.line is None or self.game.population > MOST_SEARCHED:
            return sigma

        def excess(shift: float) -> float:
            bounds = self.best(sigma * math.exp(-shift))
            reached = bounds.pmp_epsilon_upper if quantity == "pmp" else bounds.success_upper
            return reached - target

        # The exact mixture allows less noise: look for it below what the coupling asks for.
        low = 1.0
        while low < 64.0 and excess(low) <= 0:
            low *= 2
        try:
            shift = safe_crossing(excess, 0.0, low, relative=1e-3, evaluations=24)
        except SearchError:
            return sigma
        return sigma * math.exp(-shift)

    def comparison(self, epsilon: float) -> Comparison:
        """Success at ε for who knows all but one, who knows the population's worst, and who not."""
        sigma = self.sigma_from_epsilon(epsilon)
        coupled = gaussian_success(self.profile, self.game, self.effective(sigma))
        exact = self.exact(sigma)
        success = coupled if exact is None else np.minimum(coupled, exact.success)
        return self.compared(epsilon, sigma, float(success.max()))

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
