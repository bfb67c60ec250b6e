"""L24-F1 to F6: what the exponential and the Gaussian mechanism mean on random populations.

F1 to F3, twelve records, half of them chosen: candidates are m random directions, records are
N(w₁, σ²I) around the first one, clipped to norm C; the loss is the mean distance (geometric
median).  The paper fixes ε(X) and plots ε̃(X)/ε and ε̃(X)/ε(X) averaged over trials.  How ε(X) is
read: the mechanism is calibrated to the loss's sensitivity Δ(X) inside X, so ε = ε(X)·Δ/Δ(X) with Δ
from the clip radius.

F4 to F6, the mean of a random half of 200 records N(0, σ²I), clipped to norm C: noise is calibrated
to (ε, δ)-DP over the whole ball (L24-L10); ε(X) is the same noise read with the diameter of X, ε̃(X)
with L24-P12, and what can be proved beyond with X21.  The mean of n records with noise s is the sum
with noise n·s, so everything is computed for the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.reproduction import (
    Average,
    Findings,
    Progress,
    Quoted,
    above,
    below,
    between,
    flat,
    near,
    swept,
    trend,
)
from memberbound.report.drawing import BLUE, ORANGE
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.exponential import (
    ExponentialMechanism,
    clip_sensitivity,
    exact_bounds,
    l2_losses,
)
from memberbound.subset.gaussian import dp_from_noise, noise_from_dp
from memberbound.subset.profile import NeighbourProfile, clipped, worst_case_sensitivity

# ── The exponential mechanism ─────────────────────────────────────────────────────────────────────

#: 2n = 12 records, n = 6 of them in the data set: 924 subsets.
TWELVE = SubsetGame(12, 6)


@dataclass(frozen=True)
class CandidateDraw:
    """What is random in a trial: the candidates, standard normal noise, who is an outlier."""

    candidates: FloatArray
    noise: FloatArray
    outliers: NDArray[np.intp]

    @classmethod
    def of(cls, rng: np.random.Generator, dimension: int, candidates: int) -> CandidateDraw:
        """Return one draw of directions and records."""
        directions = rng.standard_normal((candidates, dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        noise = rng.standard_normal((TWELVE.population, dimension))
        return cls(directions, noise, rng.choice(TWELVE.population, size=2, replace=False))

    def measured(
        self, *, sigma: float, clip: float, epsilon_population: float, outliers: float = 1.0
    ) -> dict[str, float]:
        """Return the parameters of one population, and their ratios.

        The same randomness serves a whole sweep.
        """
        rows = self.candidates[0] + sigma * self.noise
        rows[self.outliers] *= outliers
        mechanism = ExponentialMechanism.calibrated_to_population(
            l2_losses(clipped(rows, clip).vectors, self.candidates),
            size=TWELVE.size,
            epsilon_population=epsilon_population,
            sensitivity=clip_sensitivity(self.candidates, clip, TWELVE.size),
        )
        pmp = exact_bounds(mechanism).pmp_epsilon_upper
        # A cruder Δ: the distance is 1-Lipschitz in the record and two records are 2C apart.
        lipschitz = mechanism.epsilon * (2 * clip / TWELVE.size) / mechanism.sensitivity
        exact = _exact_population_epsilon(mechanism)
        return {
            "pmp_epsilon": pmp,
            "epsilon": mechanism.epsilon,
            "epsilon_lipschitz": lipschitz,
            "epsilon_population_exact": exact,
            "ratio_worst_case": pmp / mechanism.epsilon,
            "ratio_population": pmp / epsilon_population,
            "ratio_lipschitz": pmp / lipschitz,
            "ratio_population_exact": pmp / exact if exact > 0 else math.nan,
        }


@lru_cache(maxsize=1)
def _neighbours() -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return all data sets and the pairs of them that differ in one record."""
    sets = np.array(list(combinations(range(TWELVE.population), TWELVE.size)), dtype=np.intp)
    indicator = np.zeros((len(sets), TWELVE.population), dtype=np.intp)
    np.put_along_axis(indicator, sets, 1, axis=1)
    left, right = np.nonzero(np.triu(indicator @ indicator.T == TWELVE.size - 1))
    return sets, left, right


def _exact_population_epsilon(mechanism: ExponentialMechanism) -> float:
    """Return the least ε(X) of L24-D1 restricted to data sets inside X, to rounding."""
    sets, left, right = _neighbours()
    logs = mechanism.log_probabilities(sets)
    return float(np.abs(logs[left] - logs[right]).max())


# ---- figure 1: spread of the data --------------------------------------------------------------

_SPREADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)


def figure_1(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F1."""

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draw = CandidateDraw.of(np.random.default_rng([seed, 1, trial]), dimension=1, candidates=10)
        return [draw.measured(sigma=s, clip=10.0, epsilon_population=5.0) for s in _SPREADS]

    sweep = swept("sigma", _SPREADS, trials, measure, progress)
    worst, inside, narrow = "ratio_worst_case", "ratio_population", _SPREADS[:7]  # σ ≤ 1
    tight, crude = sweep.at("epsilon", 1.0), sweep.at("epsilon_lipschitz", 1.0)
    small = "σ < 0.1: ε̃(X) for a fixed ε approaches zero; ε̃(X)/ε at σ = 0.05"
    rises = "ε̃(X)/ε increases with σ"
    steady = "ε̃(X)/ε(X) does not depend much on σ"
    ratio = "σ = 1: ε̃(X)/ε ≈ 0.075"
    checks = (
        near("σ = 1: ε̃(X) ≈ 2.14", 2.14, sweep.at("pmp_epsilon", 1.0), share=0.15),
        near("σ = 1: ε ≈ 28.5, with the exact Δ = (1+C)/n", 28.5, tight, share=0.15),
        near("σ = 1: ε ≈ 28.5, with the cruder Δ = 2C/n", 28.5, crude, share=0.15),
        between("σ = 1: ε ≈ 28.5, between the exact and the cruder Δ", 28.5, tight, crude),
        near(f"{ratio}, exact Δ", 0.075, sweep.at(worst, 1.0), share=0.15),
        near(f"{ratio}, cruder Δ", 0.075, sweep.at("ratio_lipschitz", 1.0), share=0.15),
        below(small, None, sweep.at(worst, 0.05), limit=0.01),
        trend(f"{rises}, for σ ≤ 1", sweep, worst, rising=True, values=narrow),
        trend(f"{rises}, up to σ = 5", sweep, worst, rising=True),
        flat(f"{steady}, for σ ≤ 1", sweep, inside, factor=1.25, values=narrow),
        flat(f"{steady}, up to σ = 5", sweep, inside, factor=1.25),
    )
    return Findings.of_ratios(
        sweep,
        checks,
        other_reading=("ratio_lipschitz", "ε̃/ε with the cruder Δ = 2C/n"),
        title="L24-F1: exponential mechanism, ε(X) = 5, n = 6, m = 10, C = 10, d = 1",
        xlabel="standard deviation σ of the records",
        quoted=(
            Quoted(1.0, 0.075, "paper, ε̃/ε at σ = 1", BLUE),
            Quoted(1.0, 2.14 / 5, "paper, ε̃/ε(X) at σ = 1", ORANGE),
        ),
        log_x=True,
        log_y=True,
    )


# ---- figure 2: clip threshold, two outliers ----------------------------------------------------

_CLIPS_OF_TWELVE = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def figure_2(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F2."""

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draw = CandidateDraw.of(np.random.default_rng([seed, 2, trial]), dimension=5, candidates=32)
        return [
            draw.measured(sigma=1.0, clip=clip, epsilon_population=10.0, outliers=100.0)
            for clip in _CLIPS_OF_TWELVE
        ]

    sweep = swept("clip", _CLIPS_OF_TWELVE, trials, measure, progress)
    at_50 = sweep.trials_at("pmp_epsilon", 50.0)
    success = Average.of(1 / (1 + np.exp(-at_50)))
    excess = Average.of(sweep.trials_at("epsilon", 50.0) / 10.0)
    checks = (
        below("C = 50: ε̃(X)/ε", 0.0123, sweep.at("ratio_worst_case", 50.0), limit=0.0123),
        below("C = 50: ε̃(X)/ε(X)", 0.0123, sweep.at("ratio_population", 50.0), limit=0.0123),
        below("C = 50: 10-DP gives 0.123-PMP", 0.123, Average.of(at_50), limit=0.123),
        near("C = 50: no practical attack is right more than 0.53", 0.53, success, share=0.01),
        near("C = 50: ε ≈ ε(X); their ratio", 1.0, excess, share=0.05),
        trend("ε̃(X)/ε falls as C grows", sweep, "ratio_worst_case", rising=False),
        trend("ε̃(X)/ε(X) falls as C grows", sweep, "ratio_population", rising=False),
    )
    return Findings.of_ratios(
        sweep,
        checks,
        title="L24-F2: exponential mechanism, ε(X) = 10, n = 6, m = 32, d = 5, outliers × 100",
        xlabel="clip threshold C",
        quoted=(Quoted(50.0, 0.0123, "paper: both below 0.0123 at C = 50", limit=True),),
        log_x=True,
        log_y=True,
    )


# ---- figure 3: dimension -----------------------------------------------------------------------

_DIMENSIONS_OF_TWELVE = (1, 2, 3, 5, 10, 20, 50)


def figure_3(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run L24-F3."""

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draws = [
            CandidateDraw.of(np.random.default_rng([seed, 3, trial, d]), d, 10)
            for d in _DIMENSIONS_OF_TWELVE
        ]
        return [draw.measured(sigma=1.0, clip=10.0, epsilon_population=2.0) for draw in draws]

    sweep = swept("dimension", _DIMENSIONS_OF_TWELVE, trials, measure, progress)
    worst = "ratio_worst_case"
    halved = Average.of(sweep.trials_at(worst, 1) / sweep.trials_at(worst, 50))
    checks = (
        trend("ε̃(X)/ε falls as d grows", sweep, worst, rising=False),
        trend("ε̃(X)/ε(X) falls as d grows", sweep, "ratio_population", rising=False),
        above("ε̃(X)/ε at d = 1 over that at d = 50 is well above 1", None, halved, limit=2.0),
    )
    return Findings.of_ratios(
        sweep,
        checks,
        title="L24-F3: exponential mechanism, ε(X) = 2, n = 6, m = 10, σ = 1, C = 10",
        xlabel="dimension d of the records",
        log_x=True,
        log_y=True,
    )


# ── The Gaussian mechanism ────────────────────────────────────────────────────────────────────────

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
        """Return one draw of noise and of two records."""
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
    return Findings.of_ratios(
        sweep,
        checks,
        other_reading=("printed_ratio_worst_case", "ε̃/ε if the axis is ε(X), as printed"),
        title="L24-F4: Gaussian mechanism, n = 100, d = 20, C = 50, σ = 1, δ = 0.01",
        xlabel="DP parameter ε (worst case over the ball)",
        proved=True,
        quoted=(Quoted(10.0, 0.09, "paper: ε̃ < 0.9 at 10, so ε̃/ε < 0.09", BLUE, limit=True),),
        log_y=True,
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
    return Findings.of_ratios(
        sweep,
        checks,
        title="L24-F5: Gaussian mechanism, ε = 5, n = 100, d = 10, σ = 5, two outliers × 10",
        xlabel="clip threshold C",
        proved=True,
        quoted=(Quoted(100.0, 0.2, "paper, ε̃/ε at C = 100", BLUE),),
        log_x=True,
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
    return Findings.of_ratios(
        sweep,
        checks,
        title="L24-F6: Gaussian mechanism, ε = 5, n = 100, C = 50, σ = 1, δ = 0.01",
        xlabel="dimension d of the records",
        proved=True,
        log_x=True,
        log_y=True,
    )
