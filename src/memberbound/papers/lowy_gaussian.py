"""L24-F4, F5 and F6: the Gaussian mechanism on the mean of a random half of 200 records.

Records are N(0, σ²I), clipped to norm C.  Noise is calibrated to (ε, δ)-DP over the whole ball
(L24-L10); ε(X) is the same noise read with the diameter of X, ε̃(X) with L24-P12, and what can be
proved beyond with X21.  The mean of n records with noise s is the sum with noise n·s, so
everything is computed for the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.experiments import (
    Average,
    Findings,
    Progress,
    Quoted,
    above,
    below,
    near,
    ratios_figure,
    swept,
    trend,
)
from memberbound.report.drawing import BLUE
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.distances import clipped, worst_case_sensitivity
from memberbound.subset.gaussian import dp_from_noise, noise_from_dp
from memberbound.subset.profile import NeighbourProfile

__all__ = ["figure_4", "figure_5", "figure_6"]

#: 2n = 200 records, n = 100 of them in the data set.
GAME = SubsetGame(200, 100)
DELTA = 1e-2
#: Distances in so many bins, rounded up: ε̃ is about 0.2 % above that of exact distances.
_BINS = 4096


@dataclass(frozen=True)
class Draw:
    """What is random in a trial: standard normal records, and who is an outlier."""

    noise: FloatArray
    outliers: NDArray[np.intp]

    @classmethod
    def of(cls, rng: np.random.Generator, dimension: int) -> Draw:
        noise = rng.standard_normal((GAME.population, dimension))
        return cls(noise, rng.choice(GAME.population, size=2, replace=False))

    def measured(
        self, *, sigma: float, clip: float, outliers: float = 1.0
    ) -> tuple[NeighbourProfile, CrowdTable]:
        """Return the neighbour profile of the clipped records, and the records as a crowd."""
        rows = sigma * self.noise
        rows[self.outliers] *= outliers
        inside = clipped(rows, clip).vectors
        return NeighbourProfile.from_vectors(inside, bins=_BINS), CrowdTable.of(inside, GAME)


def pmp_epsilon(profile: NeighbourProfile, noise: float) -> float:
    """Return ε̃(X): the least ε at which L24-P12 is at most δ for every record, to 1e-5 above.

    All records share one search, since only the worst one is plotted.
    """

    def excess(epsilon: float) -> float:
        return float(profile.delta(epsilon, noise).max()) - DELTA

    if excess(0.0) <= 0:
        return 0.0
    # No pair is farther apart than the diameter; bins round distances up by less than 1 %.
    return safe_crossing(
        excess, dp_from_noise(noise, DELTA, 1.01 * profile.diameter), 0.0, relative=1e-5
    )


@lru_cache(maxsize=64)
def _noise(epsilon: float, sensitivity: float) -> float:
    """Return the noise of a setting, which all trials share."""
    return noise_from_dp(epsilon, DELTA, sensitivity)


def measured(
    people: tuple[NeighbourProfile, CrowdTable], epsilon: float, clip: float
) -> dict[str, float]:
    """Return the parameters of the (ε, δ)-DP mechanism on one population, and their ratios."""
    profile, crowd = people
    reach = worst_case_sensitivity("sum", clip, GAME.size)
    noise = _noise(epsilon, reach)
    pmp = pmp_epsilon(profile, noise)
    population = dp_from_noise(noise, DELTA, profile.diameter)
    # The smaller one of every record counts, so of the worst records this one is not too small.
    hidden = Crowd(crowd, noise).pmp_epsilon(DELTA)
    coupled = profile.pmp_epsilon(DELTA, noise) if np.isinf(hidden).any() else np.inf
    proved = float(np.minimum(hidden, coupled).max())
    return {
        "pmp_epsilon": pmp,
        "proved_epsilon": min(pmp, proved),
        "ratio_proved": min(pmp, proved) / epsilon,
        "epsilon": epsilon,
        "epsilon_population": population,
        "ratio_worst_case": pmp / epsilon,
        # Both are 0 where even the most distant pair is within δ.
        "ratio_population": pmp / population if population > 0 else math.nan,
    }


# ---- figure 4: the DP parameter ----------------------------------------------------------------

_EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


def _as_printed(profile: NeighbourProfile, epsilon: float, clip: float) -> dict[str, float]:
    """Return the same with ε(X), not ε, at the axis's value: the caption taken literally."""
    noise = noise_from_dp(epsilon, DELTA, profile.diameter)
    pmp = pmp_epsilon(profile, noise)
    worst = dp_from_noise(noise, DELTA, worst_case_sensitivity("sum", clip, GAME.size))
    return {"printed_pmp_epsilon": pmp, "printed_ratio_worst_case": pmp / worst}


def figure_4(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F4."""
    clip = 50.0

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        people = Draw.of(np.random.default_rng([seed, 4, trial]), 20).measured(sigma=1.0, clip=clip)
        return [measured(people, e, clip) | _as_printed(people[0], e, clip) for e in _EPSILONS]

    sweep = swept("epsilon_axis", _EPSILONS, trials, measure, progress)
    gap = Average.of(sweep.trials_at("epsilon", 10.0) / sweep.trials_at("epsilon_population", 10.0))
    at_10 = "at 10 on the axis ε̃(X) < 0.9; axis read as"
    as_printed = "ε̃(X)/ε increases with ε(X), axis as printed"
    checks = (
        below(f"{at_10} the worst-case ε", 0.9, sweep.at("pmp_epsilon", 10.0), limit=0.9),
        below(f"{at_10} ε(X), as printed", 0.9, sweep.at("printed_pmp_epsilon", 10.0), limit=0.9),
        trend("ε̃(X)/ε increases with ε", sweep, "ratio_worst_case", rising=True),
        trend("ε̃(X)/ε(X) increases with ε", sweep, "ratio_population", rising=True),
        trend(as_printed, sweep, "printed_ratio_worst_case", rising=True),
        above("ε is significantly bigger than ε(X); their ratio at ε = 10", None, gap, limit=2.0),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            other_reading=("printed_ratio_worst_case", "ε̃/ε if the axis is ε(X), as printed"),
            title="L24-F4: Gaussian mechanism, n = 100, d = 20, C = 50, σ = 1, δ = 0.01",
            xlabel="DP parameter ε (worst case over the ball)",
            proved=True,
            quoted=(Quoted(10.0, 0.09, "paper: ε̃ < 0.9 at 10, so ε̃/ε < 0.09", BLUE, limit=True),),
            log_y=True,
        ),
    )


# ---- figure 5: clip threshold, two outliers ----------------------------------------------------

_CLIPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)


def figure_5(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F5."""
    epsilon = 5.0

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draw = Draw.of(np.random.default_rng([seed, 5, trial]), 10)
        return [
            measured(draw.measured(sigma=5.0, clip=clip, outliers=10.0), epsilon, clip)
            for clip in _CLIPS
        ]

    sweep = swept("clip", _CLIPS, trials, measure, progress)
    gap = Average.of(epsilon / sweep.trials_at("epsilon_population", 100.0))
    larger = "the gap between the curves is larger than in figure 2, where ε/ε(X) ≈ 1"
    checks = (
        near("C = 100: ε = 5 becomes ε̃(X) = 1", 1.0, sweep.at("pmp_epsilon", 100.0), share=0.15),
        trend("ε̃(X)/ε falls as C grows", sweep, "ratio_worst_case", rising=False),
        trend("ε̃(X)/ε(X) falls as C grows", sweep, "ratio_population", rising=False),
        above(f"{larger}; ε/ε(X) at C = 100", None, gap, limit=1.1),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            title="L24-F5: Gaussian mechanism, ε = 5, n = 100, d = 10, σ = 5, two outliers × 10",
            xlabel="clip threshold C",
            proved=True,
            quoted=(Quoted(100.0, 0.2, "paper, ε̃/ε at C = 100", BLUE),),
            log_x=True,
        ),
    )


# ---- figure 6: dimension -----------------------------------------------------------------------

_DIMENSIONS = (1, 2, 5, 10, 20, 50, 100)


def figure_6(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F6."""
    clip, epsilon = 50.0, 5.0

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draws = [Draw.of(np.random.default_rng([seed, 6, trial, d]), d) for d in _DIMENSIONS]
        return [measured(d.measured(sigma=1.0, clip=clip), epsilon, clip) for d in draws]

    sweep = swept("dimension", _DIMENSIONS, trials, measure, progress)
    checks = (
        trend("ε̃(X)/ε increases with d", sweep, "ratio_worst_case", rising=True),
        trend("ε̃(X)/ε(X) increases with d", sweep, "ratio_population", rising=True),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            title="L24-F6: Gaussian mechanism, ε = 5, n = 100, C = 50, σ = 1, δ = 0.01",
            xlabel="dimension d of the records",
            proved=True,
            log_x=True,
            log_y=True,
        ),
    )
