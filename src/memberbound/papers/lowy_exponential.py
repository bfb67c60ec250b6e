"""L24-F1, F2 and F3: the exponential mechanism on twelve records, half of them chosen.

Candidates are m random directions, records are N(w₁, σ²I) around the first one, clipped to norm C;
the loss is the mean distance (geometric median).  The paper fixes ε(X) and plots ε̃(X)/ε and
ε̃(X)/ε(X) averaged over trials.  How ε(X) is read: the mechanism is calibrated to the loss's
sensitivity Δ(X) inside X, so ε = ε(X)·Δ/Δ(X) with Δ from the clip radius.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.experiments import (
    Average,
    Experiment,
    Findings,
    Progress,
    Quoted,
    above,
    below,
    between,
    flat,
    near,
    ratios_figure,
    swept,
    trend,
)
from memberbound.report.drawing import BLUE, ORANGE
from memberbound.subset.enumeration import exact_bounds
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from memberbound.subset.gaussian import clipped

__all__ = ["FIGURE_1", "FIGURE_2", "FIGURE_3", "GAME"]

#: 2n = 12 records, n = 6 of them in the data set: 924 subsets.
GAME = SubsetGame(12, 6)

ASSUMPTIONS = (
    "The data set is a uniform half of the twelve records, and the attacker knows all twelve.",
    "Only the chosen candidate is released, once.",
    "The numbers are averages over random populations: estimates, each from exact ε̃ values.",
)
THEOREMS = ("L24-P9", "L24-D7", "L24-L8", "L24-L6")


@dataclass(frozen=True)
class Setting:
    """One point of a figure."""

    sigma: float
    clip: float
    epsilon_population: float
    outliers: float = 1.0


@dataclass(frozen=True)
class Draw:
    """What is random in a trial: the candidates, standard normal noise, who is an outlier."""

    candidates: FloatArray
    noise: FloatArray
    outliers: NDArray[np.intp]

    @classmethod
    def of(cls, rng: np.random.Generator, dimension: int, candidates: int) -> Draw:
        directions = rng.standard_normal((candidates, dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        noise = rng.standard_normal((GAME.population, dimension))
        return cls(directions, noise, rng.choice(GAME.population, size=2, replace=False))

    def records(self, setting: Setting) -> FloatArray:
        """Return the population of a setting: the same randomness serves a whole sweep."""
        rows = self.candidates[0] + setting.sigma * self.noise
        rows[self.outliers] *= setting.outliers
        return clipped(rows, setting.clip).vectors


def measured(draw: Draw, setting: Setting) -> dict[str, float]:
    """Return the parameters of one population, and their ratios."""
    losses = l2_losses(draw.records(setting), draw.candidates)
    mechanism = ExponentialMechanism.calibrated_to_population(
        losses,
        size=GAME.size,
        epsilon_population=setting.epsilon_population,
        sensitivity=clip_sensitivity(draw.candidates, setting.clip, GAME.size),
    )
    pmp = exact_bounds(mechanism).pmp_epsilon_upper
    # A cruder Δ: the distance is 1-Lipschitz in the record and two records are 2C apart.
    lipschitz = mechanism.epsilon * (2 * setting.clip / GAME.size) / mechanism.sensitivity
    exact = _exact_population_epsilon(mechanism)
    return {
        "pmp_epsilon": pmp,
        "epsilon": mechanism.epsilon,
        "epsilon_lipschitz": lipschitz,
        "epsilon_population_exact": exact,
        "ratio_worst_case": pmp / mechanism.epsilon,
        "ratio_population": pmp / setting.epsilon_population,
        "ratio_lipschitz": pmp / lipschitz,
        "ratio_population_exact": pmp / exact if exact > 0 else math.nan,
    }


@lru_cache(maxsize=1)
def _neighbours() -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return all data sets and the pairs of them that differ in one record."""
    sets = np.array(list(combinations(range(GAME.population), GAME.size)), dtype=np.intp)
    indicator = np.zeros((len(sets), GAME.population), dtype=np.intp)
    np.put_along_axis(indicator, sets, 1, axis=1)
    left, right = np.nonzero(np.triu(indicator @ indicator.T == GAME.size - 1))
    return sets, left, right


def _exact_population_epsilon(mechanism: ExponentialMechanism) -> float:
    """Return the least ε(X) of L24-D1 restricted to data sets inside X, to rounding."""
    sets, left, right = _neighbours()
    logs = mechanism.log_probabilities(sets)
    return float(np.abs(logs[left] - logs[right]).max())


# ---- figure 1: spread of the data --------------------------------------------------------------

_SPREADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
_NARROW = tuple(s for s in _SPREADS if s <= 1)


def _figure_1(trials: int, seed: int, progress: Progress | None) -> Findings:
    base = Setting(sigma=1.0, clip=10.0, epsilon_population=5.0)

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draw = Draw.of(np.random.default_rng([seed, 1, trial]), dimension=1, candidates=10)
        return [measured(draw, replace(base, sigma=sigma)) for sigma in _SPREADS]

    sweep = swept("sigma", _SPREADS, trials, measure, progress)
    tight, crude = sweep.at("epsilon", 1.0), sweep.at("epsilon_lipschitz", 1.0)
    checks = (
        near("σ = 1: ε̃(X) ≈ 2.14", 2.14, sweep.at("pmp_epsilon", 1.0), share=0.15),
        near("σ = 1: ε ≈ 28.5, with the exact Δ = (1+C)/n", 28.5, tight, share=0.15),
        near("σ = 1: ε ≈ 28.5, with the cruder Δ = 2C/n", 28.5, crude, share=0.15),
        between("σ = 1: ε ≈ 28.5, between the exact and the cruder Δ", 28.5, tight, crude),
        near(
            "σ = 1: ε̃(X)/ε ≈ 0.075, exact Δ", 0.075, sweep.at("ratio_worst_case", 1.0), share=0.15
        ),
        near(
            "σ = 1: ε̃(X)/ε ≈ 0.075, cruder Δ", 0.075, sweep.at("ratio_lipschitz", 1.0), share=0.15
        ),
        below(
            "σ < 0.1: ε̃(X) for a fixed ε approaches zero; ε̃(X)/ε at σ = 0.05",
            None,
            sweep.at("ratio_worst_case", 0.05),
            limit=0.01,
        ),
        trend(
            "ε̃(X)/ε increases with σ, for σ ≤ 1",
            sweep,
            "ratio_worst_case",
            rising=True,
            values=_NARROW,
        ),
        trend("ε̃(X)/ε increases with σ, up to σ = 5", sweep, "ratio_worst_case", rising=True),
        flat(
            "ε̃(X)/ε(X) does not depend much on σ, for σ ≤ 1",
            sweep,
            "ratio_population",
            factor=1.25,
            values=_NARROW,
        ),
        flat(
            "ε̃(X)/ε(X) does not depend much on σ, up to σ = 5",
            sweep,
            "ratio_population",
            factor=1.25,
        ),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            other_reading=("ratio_lipschitz", "ε̃/ε with the cruder Δ = 2C/n"),
            title="L24-F1: exponential mechanism, ε(X) = 5, n = 6, m = 10, C = 10, d = 1",
            xlabel="standard deviation σ of the records",
            quoted=(
                Quoted(1.0, 0.075, "paper, ε̃/ε at σ = 1", BLUE),
                Quoted(1.0, 2.14 / 5, "paper, ε̃/ε(X) at σ = 1", ORANGE),
            ),
            log_x=True,
            log_y=True,
        ),
    )


FIGURE_1 = Experiment(
    "L24-F1",
    "Exponential mechanism: ratios against the spread σ of the data",
    trials=200,
    game=GAME,
    run=_figure_1,
    theorems=THEOREMS,
    assumptions=ASSUMPTIONS,
    notes=(
        "In one dimension the ten random unit vectors are only +1 and -1.",
        "The paper does not print which bound for Δ it used; its ε ≈ 28.5 at σ = 1 lies between "
        "the ε of the exact Δ = (1+C)/n and that of the cruder Δ = 2C/n. Neither matches ε or ε̃/ε "
        "within 15 %; no reading that was tried does.",
        "Above σ ≈ 1.5 both ratios fall here. The text's 'increases with σ' and 'does not "
        "significantly depend on σ' hold up to σ = 1; that restriction is ours, made after seeing "
        "the curves.",
        "ε(X) = 5 taken literally, as the least ε between data sets inside X, gave ε̃ ≈ 3.9 and "
        "ε ≈ 38 at σ = 1 in a side run of 100 trials, farther from the quoted 2.14 and 28.5. The "
        "column epsilon_population_exact has that least ε for the mechanism used.",
    ),
)


# ---- figure 2: clip threshold, two outliers ----------------------------------------------------

_CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def _figure_2(trials: int, seed: int, progress: Progress | None) -> Findings:
    base = Setting(sigma=1.0, clip=50.0, epsilon_population=10.0, outliers=100.0)

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        draw = Draw.of(np.random.default_rng([seed, 2, trial]), dimension=5, candidates=32)
        return [measured(draw, replace(base, clip=clip)) for clip in _CLIPS]

    sweep = swept("clip", _CLIPS, trials, measure, progress)
    at_50 = sweep.trials_at("pmp_epsilon", 50.0)
    success = Average.of(1 / (1 + np.exp(-at_50)))
    excess = Average.of(sweep.trials_at("epsilon", 50.0) / base.epsilon_population)
    checks = (
        below("C = 50: ε̃(X)/ε", 0.0123, sweep.at("ratio_worst_case", 50.0), limit=0.0123),
        below("C = 50: ε̃(X)/ε(X)", 0.0123, sweep.at("ratio_population", 50.0), limit=0.0123),
        below("C = 50: 10-DP gives 0.123-PMP", 0.123, Average.of(at_50), limit=0.123),
        near("C = 50: no practical attack is right more than 0.53", 0.53, success, share=0.01),
        near("C = 50: ε ≈ ε(X); their ratio", 1.0, excess, share=0.05),
        trend("ε̃(X)/ε falls as C grows", sweep, "ratio_worst_case", rising=False),
        trend("ε̃(X)/ε(X) falls as C grows", sweep, "ratio_population", rising=False),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            title="L24-F2: exponential mechanism, ε(X) = 10, n = 6, m = 32, d = 5, outliers × 100",
            xlabel="clip threshold C",
            quoted=(Quoted(50.0, 0.0123, "paper: both below 0.0123 at C = 50", limit=True),),
            log_x=True,
            log_y=True,
        ),
    )


FIGURE_2 = Experiment(
    "L24-F2",
    "Exponential mechanism: ratios against the clip threshold C, with two outliers",
    trials=150,
    game=GAME,
    run=_figure_2,
    theorems=THEOREMS,
    assumptions=ASSUMPTIONS,
    notes=(
        "The text prints 1/(1+e^(-123)) ≈ 0.53; e^(-0.123) is meant, and the check uses it.",
        "The cruder Δ = 2C/n would nearly double ε at large C; 'ε ≈ ε(X)' holds with the exact "
        "Δ = (1+C)/n only.",
    ),
)


# ---- figure 3: dimension -----------------------------------------------------------------------

_DIMENSIONS = (1, 2, 3, 5, 10, 20, 50)


def _figure_3(trials: int, seed: int, progress: Progress | None) -> Findings:
    setting = Setting(sigma=1.0, clip=10.0, epsilon_population=2.0)

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        return [
            measured(Draw.of(np.random.default_rng([seed, 3, trial, d]), d, 10), setting)
            for d in _DIMENSIONS
        ]

    sweep = swept("dimension", _DIMENSIONS, trials, measure, progress)
    halved = Average.of(
        sweep.trials_at("ratio_worst_case", 1) / sweep.trials_at("ratio_worst_case", 50)
    )
    checks = (
        trend("ε̃(X)/ε falls as d grows", sweep, "ratio_worst_case", rising=False),
        trend("ε̃(X)/ε(X) falls as d grows", sweep, "ratio_population", rising=False),
        above("ε̃(X)/ε at d = 1 over that at d = 50 is well above 1", None, halved, limit=2.0),
    )
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: ratios_figure(
            sweep,
            title="L24-F3: exponential mechanism, ε(X) = 2, n = 6, m = 10, σ = 1, C = 10",
            xlabel="dimension d of the records",
            log_x=True,
            log_y=True,
        ),
    )


FIGURE_3 = Experiment(
    "L24-F3",
    "Exponential mechanism: ratios against the dimension d",
    trials=200,
    game=GAME,
    run=_figure_3,
    theorems=THEOREMS,
    assumptions=ASSUMPTIONS,
    notes=(
        "The paper quotes no number for this figure and does not print C; C = 10 is assumed, as in "
        "its figure 1. It clips no record of the default run, up to d = 50.",
    ),
)
