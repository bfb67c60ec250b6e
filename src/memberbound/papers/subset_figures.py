"""Figures of the subset game: L24-F1 to F6 and I24-F1.

L24-F1 to F3, twelve records, half of them chosen: candidates are m random directions, records are
N(w₁, σ²I) around the first one, clipped to norm C; the loss is the mean distance (geometric
median).  The paper fixes ε(X) and plots ε̃(X)/ε and ε̃(X)/ε(X) averaged over trials.  ε(X) is read
as a calibration of the mechanism to the loss's sensitivity Δ(X) inside X, so ε = ε(X)·Δ/Δ(X) with Δ
from the clip radius.

L24-F4 to F6, the mean of a random half of 200 records N(0, σ²I), clipped to norm C: noise is
calibrated to (ε, δ)-DP over the whole ball (L24-L10); ε(X) is the same noise read with the diameter
of X, ε̃(X) with L24-P12, and the smaller bound by X21.  The mean of n records with noise s
is the sum with noise n·s, so everything is computed for the sum.

I24-F1: the noise that DP, I24 and X1 need on the population of I24-P11 and the statistic 1/Σ of
a random half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from memberbound.declarations import Progress
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.izzo2024 import (
    noise_scales,
    sensitivity_of_inverse_sum,
    spread_of_inverse_sum,
)
from memberbound.papers.lowy2024 import exponential_pmp
from memberbound.papers.reproduction import (
    Average,
    Curve,
    Findings,
    Measured,
    Picture,
    Sweep,
    above,
    below,
    flat,
    near,
    run_sweep,
    trend,
)
from memberbound.release.noise import izzo_constant
from memberbound.report.drawing import BLUE, GREEN, GREY, ORANGE
from memberbound.subset.clipping import clipped
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.distances import BinnedDistances
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from memberbound.subset.gaussian import dp_from_noise, noise_from_dp
from memberbound.subset.profile import NeighbourProfile
from memberbound.verbs.reproduce import ClaimCheck

# ── L24: common to all figures ────────────────────────────────────────────────────────────────────

_RATIOS: tuple[Curve, ...] = (
    ("ratio_population", "ε̃/ε(X)   (practical attacker : worst case inside X)", ORANGE, "s"),
    ("ratio_worst_case", "ε̃/ε   (practical attacker : worst case)", BLUE, "o"),
)
#: Drawn last and dashed: if the crowd proves nothing more, the other curve shows through.
_PROVED: Curve = ("ratio_proved", "what can be proved: ε̃/ε with the crowd (X21)", GREEN, "--D")


def ratios(title: str, xlabel: str, *others: Curve, **marks: Any) -> Picture:
    """Return the picture of a figure of L24: ratios of privacy parameters along a sweep."""
    panels = {"": (*_RATIOS, *others)}
    return Picture(title, xlabel, "ratio of privacy parameters", panels, **marks)


def draw_records(
    rng: np.random.Generator,
    game: SubsetGame,
    centre: FloatArray,
    *,
    sigma: float,
    clip: float,
    outliers: float,
) -> FloatArray:
    """Return a population N(centre, σ²I), two records of it times a factor, clipped to a norm."""
    rows = centre + sigma * rng.standard_normal((game.population, len(centre)))
    rows[rng.choice(game.population, size=2, replace=False)] *= outliers
    return clipped(rows, clip).vectors


# ── L24-F1 to F3: the exponential mechanism ───────────────────────────────────────────────────────


def choice(
    key: Sequence[int],
    dimension: int,
    candidates: int,
    *,
    epsilon_population: float,
    n: int = 6,
    clip: float = 10.0,
    sigma: float = 1.0,
    outliers: float = 1.0,
) -> dict[str, float]:
    """Return the parameters of the exponential mechanism on one population, and their ratios.

    One key is one randomness, which serves a whole sweep.  Of the 2n records n are in the data set:
    924 subsets in the paper's figures; beyond n = 14 they are sampled.
    """
    game = SubsetGame(2 * n, n)
    rng = np.random.default_rng(key)
    directions = rng.standard_normal((candidates, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rows = draw_records(rng, game, directions[0], sigma=sigma, clip=clip, outliers=outliers)
    mechanism = ExponentialMechanism.calibrated_to_population(
        l2_losses(rows, directions),
        size=game.size,
        epsilon_population=epsilon_population,
        sensitivity=clip_sensitivity(directions, clip, game.size),
    )
    pmp = exponential_pmp(mechanism)
    # A cruder Δ: the distance is 1-Lipschitz in the record and two records are 2C apart.
    lipschitz = mechanism.epsilon * (2 * clip / game.size) / mechanism.sensitivity
    return {
        "pmp_epsilon": pmp,
        "epsilon": mechanism.epsilon,
        "epsilon_lipschitz": lipschitz,
        "ratio_worst_case": pmp / mechanism.epsilon,
        "ratio_population": pmp / epsilon_population,
        "ratio_lipschitz": pmp / lipschitz,
    }


_SPREADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)


def figure_1(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 6,
    d: int = 1,
    candidates: int = 10,
    clip: float = 10.0,
    epsilon: float = 5.0,
) -> Findings:
    """Run L24-F1: the spread of the data."""
    choose = partial(choice, n=n, clip=clip, epsilon_population=epsilon)

    def measure(trial: int) -> Measured:
        return [choose([seed, 1, trial], d, candidates, sigma=s) for s in _SPREADS]

    sweep = run_sweep("sigma", _SPREADS, trials, measure, progress)
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
        near(f"{ratio}, exact Δ", 0.075, sweep.at(worst, 1.0), share=0.15),
        near(f"{ratio}, cruder Δ", 0.075, sweep.at("ratio_lipschitz", 1.0), share=0.15),
        below(small, None, sweep.at(worst, 0.05), limit=0.01),
        trend(f"{rises}, for σ ≤ 1", sweep, worst, rising=True, values=narrow),
        trend(f"{rises}, up to σ = 5", sweep, worst, rising=True),
        flat(f"{steady}, for σ ≤ 1", sweep, inside, factor=1.25, values=narrow),
        flat(f"{steady}, up to σ = 5", sweep, inside, factor=1.25),
    )
    picture = ratios(
        f"L24-F1: exponential mechanism, ε(X) = {epsilon:g}, n = {n}, m = {candidates}, "
        f"C = {clip:g}, d = {d}",
        "standard deviation σ of the records",
        ("ratio_lipschitz", "ε̃/ε with the cruder Δ = 2C/n", GREY, "^"),
        quoted=(
            (1.0, 0.075, "paper (n = 6), ε̃/ε at σ = 1", BLUE),
            (1.0, 2.14 / 5, "paper (n = 6), ε̃/ε(X) at σ = 1", ORANGE),
        ),
        log="xy",
    )
    return Findings.of_sweep(sweep, checks, picture)


_CLIPS_OF_TWELVE = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def figure_2(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 6,
    d: int = 5,
    candidates: int = 32,
    sigma: float = 1.0,
    outliers: float = 100.0,
    epsilon: float = 10.0,
) -> Findings:
    """Run L24-F2: the clip threshold, with two outliers."""
    choose = partial(choice, n=n, sigma=sigma, outliers=outliers, epsilon_population=epsilon)

    def measure(trial: int) -> Measured:
        key = [seed, 2, trial]
        return [choose(key, d, candidates, clip=clip) for clip in _CLIPS_OF_TWELVE]

    sweep = run_sweep("clip", _CLIPS_OF_TWELVE, trials, measure, progress)
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
    picture = ratios(
        f"L24-F2: exponential mechanism, ε(X) = {epsilon:g}, n = {n}, m = {candidates}, d = {d}, "
        f"outliers × {outliers:g}",
        "clip threshold C",
        quoted=[(50.0, 0.0123, "paper (n = 6): both below 0.0123 at C = 50", BLUE)],
        log="xy",
    )
    return Findings.of_sweep(sweep, checks, picture)


_DIMENSIONS_OF_TWELVE = (1, 2, 3, 5, 10, 20, 50)


def figure_3(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 6,
    candidates: int = 10,
    sigma: float = 1.0,
    clip: float = 10.0,
    epsilon: float = 2.0,
) -> Findings:
    """Run L24-F3: the dimension."""
    choose = partial(choice, n=n, sigma=sigma, clip=clip, epsilon_population=epsilon)

    def measure(trial: int) -> Measured:
        dimensions = _DIMENSIONS_OF_TWELVE
        return [choose([seed, 3, trial, d], d, candidates) for d in dimensions]

    sweep = run_sweep("dimension", _DIMENSIONS_OF_TWELVE, trials, measure, progress)
    worst = "ratio_worst_case"
    halved = Average.of(sweep.trials_at(worst, 1) / sweep.trials_at(worst, 50))
    checks = (
        trend("ε̃(X)/ε falls as d grows", sweep, worst, rising=False),
        trend("ε̃(X)/ε(X) falls as d grows", sweep, "ratio_population", rising=False),
        above("ε̃(X)/ε at d = 1 over that at d = 50 is well above 1", None, halved, limit=2.0),
    )
    picture = ratios(
        f"L24-F3: exponential mechanism, ε(X) = {epsilon:g}, n = {n}, m = {candidates}, "
        f"σ = {sigma:g}, C = {clip:g}",
        "dimension d of the records",
        log="xy",
    )
    return Findings.of_sweep(sweep, checks, picture)


# ── L24-F4 to F6: the Gaussian mechanism ──────────────────────────────────────────────────────────

#: 2n = 200 records, n = 100 of them in the data set.
GAME = SubsetGame(200, 100)
DELTA = 1e-2


def people(
    key: Sequence[int],
    dimension: int,
    *,
    clip: float,
    n: int = GAME.size,
    sigma: float = 1.0,
    outliers: float = 1.0,
) -> tuple[NeighbourProfile, CrowdTable]:
    """Return the neighbour profile of one population, and its records as a crowd.

    Distances are in bins, rounded up: ε̃ is about 0.2 % above that of exact distances.
    """
    rng, centre, game = np.random.default_rng(key), np.zeros(dimension), SubsetGame(2 * n, n)
    rows = draw_records(rng, game, centre, sigma=sigma, clip=clip, outliers=outliers)
    return NeighbourProfile(BinnedDistances.of(rows)), CrowdTable.of(rows, game)


def pmp_epsilon(profile: NeighbourProfile, noise: float, delta: float = DELTA) -> float:
    """Return ε̃(X): the least ε at which L24-P12 is at most δ for every record, to 1e-5 above.

    All records share one search, since only the worst one is plotted.
    """

    def excess(epsilon: float) -> float:
        return float(profile.delta(epsilon, noise).max()) - delta

    if excess(0.0) <= 0:
        return 0.0
    # No pair is farther apart than the diameter; bins round distances up by less than 1 %.
    return safe_crossing(
        excess, dp_from_noise(noise, delta, 1.01 * profile.diameter), 0.0, relative=1e-5
    )


@lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the noise of a setting, which all trials share."""
    return noise_from_dp(epsilon, delta, sensitivity)


def measure_mechanism(
    population: tuple[NeighbourProfile, CrowdTable],
    epsilon: float,
    clip: float,
    delta: float = DELTA,
) -> dict[str, float]:
    """Return the parameters of the (ε, δ)-DP mechanism on one population, and their ratios."""
    profile, crowd = population
    noise = _noise(epsilon, delta, 2 * clip)
    pmp = pmp_epsilon(profile, noise, delta)
    epsilon_population = dp_from_noise(noise, delta, profile.diameter)
    # The smaller bound of every record counts, so this one of the worst records is not too small.
    hidden = Crowd(crowd, noise).pmp_epsilon(delta)
    coupled = profile.pmp_epsilon(delta, noise) if np.isinf(hidden).any() else np.inf
    proved = min(pmp, float(np.minimum(hidden, coupled).max()))
    return {
        "pmp_epsilon": pmp,
        "proved_epsilon": proved,
        "ratio_proved": proved / epsilon,
        "epsilon": epsilon,
        "epsilon_population": epsilon_population,
        "ratio_worst_case": pmp / epsilon,
        # Both are 0 where even the most distant pair is within δ.
        "ratio_population": pmp / epsilon_population if epsilon_population > 0 else math.nan,
    }


_EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


def _as_printed(
    profile: NeighbourProfile, epsilon: float, clip: float, delta: float
) -> dict[str, float]:
    """Return the same with ε(X), not ε, at the axis's value: the caption taken literally."""
    noise = noise_from_dp(epsilon, delta, profile.diameter)
    pmp = pmp_epsilon(profile, noise, delta)
    worst = dp_from_noise(noise, delta, 2 * clip)
    return {"printed_pmp_epsilon": pmp, "printed_ratio_worst_case": pmp / worst}


def figure_4(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 100,
    d: int = 20,
    clip: float = 50.0,
    sigma: float = 1.0,
    delta: float = DELTA,
) -> Findings:
    """Run L24-F4: the DP parameter."""

    def measure(trial: int) -> Measured:
        drawn = people([seed, 4, trial], d, clip=clip, n=n, sigma=sigma)
        return [
            measure_mechanism(drawn, e, clip, delta) | _as_printed(drawn[0], e, clip, delta)
            for e in _EPSILONS
        ]

    sweep = run_sweep("epsilon_axis", _EPSILONS, trials, measure, progress)
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
    other = ("printed_ratio_worst_case", "ε̃/ε if the axis is ε(X), as printed", GREY, "^")
    picture = ratios(
        f"L24-F4: Gaussian mechanism, n = {n}, d = {d}, C = {clip:g}, σ = {sigma:g}, δ = {delta:g}",
        "DP parameter ε (worst case over the ball)",
        other,
        _PROVED,
        quoted=[(10.0, 0.09, "paper (n = 100): ε̃ < 0.9 at 10, so ε̃/ε < 0.09", BLUE)],
        log="y",
    )
    return Findings.of_sweep(sweep, checks, picture)


_CLIPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)


def figure_5(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 100,
    d: int = 10,
    sigma: float = 5.0,
    outliers: float = 10.0,
    epsilon: float = 5.0,
    delta: float = DELTA,
) -> Findings:
    """Run L24-F5: the clip threshold, with two outliers."""
    draw = partial(people, n=n, sigma=sigma, outliers=outliers)

    def measure(trial: int) -> Measured:
        key = [seed, 5, trial]
        drawn = {clip: draw(key, d, clip=clip) for clip in _CLIPS}
        return [
            measure_mechanism(population, epsilon, clip, delta)
            for clip, population in drawn.items()
        ]

    sweep = run_sweep("clip", _CLIPS, trials, measure, progress)
    gap = Average.of(epsilon / sweep.trials_at("epsilon_population", 100.0))
    larger = "the gap between the curves is larger than in figure 2, where ε/ε(X) ≈ 1"
    checks = (
        near("C = 100: ε = 5 becomes ε̃(X) = 1", 1.0, sweep.at("pmp_epsilon", 100.0), share=0.15),
        trend("ε̃(X)/ε falls as C grows", sweep, "ratio_worst_case", rising=False),
        trend("ε̃(X)/ε(X) falls as C grows", sweep, "ratio_population", rising=False),
        above(f"{larger}; ε/ε(X) at C = 100", None, gap, limit=1.1),
    )
    picture = ratios(
        f"L24-F5: Gaussian mechanism, ε = {epsilon:g}, n = {n}, d = {d}, σ = {sigma:g}, "
        f"two outliers × {outliers:g}",
        "clip threshold C",
        _PROVED,
        quoted=[(100.0, 0.2, "paper (n = 100), ε̃/ε at C = 100", BLUE)],
        log="x",
    )
    return Findings.of_sweep(sweep, checks, picture)


_DIMENSIONS = (1, 2, 5, 10, 20, 50, 100)


def figure_6(
    trials: int,
    seed: int,
    progress: Progress | None,
    *,
    n: int = 100,
    sigma: float = 1.0,
    clip: float = 50.0,
    epsilon: float = 5.0,
    delta: float = DELTA,
) -> Findings:
    """Run L24-F6: the dimension."""
    draw = partial(people, clip=clip, n=n, sigma=sigma)

    def measure(trial: int) -> Measured:
        drawn = [draw([seed, 6, trial, d], d) for d in _DIMENSIONS]
        return [measure_mechanism(population, epsilon, clip, delta) for population in drawn]

    sweep = run_sweep("dimension", _DIMENSIONS, trials, measure, progress)
    checks = (
        trend("ε̃(X)/ε increases with d", sweep, "ratio_worst_case", rising=True),
        trend("ε̃(X)/ε(X) increases with d", sweep, "ratio_population", rising=True),
    )
    picture = ratios(
        f"L24-F6: Gaussian mechanism, ε = {epsilon:g}, n = {n}, C = {clip:g}, σ = {sigma:g}, "
        f"δ = {delta:g}",
        "dimension d of the records",
        _PROVED,
        log="xy",
    )
    return Findings.of_sweep(sweep, checks, picture)


# ── I24-F1: noise scales for a statistic with an exploding sensitivity ────────────────────────────

#: Sizes of the whole data set ("n" of the paper); a half of it trains.
SIZES = (12, 24, 36, 48)
ETAS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3),
    *(0.35, 0.4, 0.45, 0.48, 0.495, 0.499),
)


def scales(population: int, eta: float) -> dict[str, float]:
    """Return the noise scale that each method needs, named with the size."""
    return {f"{name}_{population}": value for name, value in noise_scales(population, eta).items()}


def share_where_mip_needs_less(population: int, points: int = 100_000) -> float:
    """Return the share of η in (0, ½) for which I24-C14 needs less noise than DP."""
    etas = (np.arange(points) + 0.5) / (2 * points)
    dp = sensitivity_of_inverse_sum(population)[0] / np.log((1 + 2 * etas) / (1 - 2 * etas))
    return float(((6.16 / etas) ** 2 * spread_of_inverse_sum(population)[0] < dp).mean())


def noise_figure(
    trials: int, _seed: int, progress: Progress | None, *, n: int = SIZES[-1]
) -> Findings:
    """Run I24-F1; it has no randomness, so every trial is the same.

    ``n`` is the largest size, a multiple of eight; a quarter, a half and three quarters go with it.
    """
    if n % 8 or not 16 <= n <= 1000:
        raise InputError(f"n must be a multiple of 8 from 16 to 1000, got {n!r}.")
    sizes = tuple(n // 4 * k for k in (1, 2, 3, 4))
    rows = [{k: v for size in sizes for k, v in scales(size, eta).items()} for eta in ETAS]
    sweep = run_sweep("eta", ETAS, trials, lambda _: rows, progress)
    curves: list[Curve] = []
    for size, marker in zip(sizes, "osD^", strict=True):
        curves += [(f"dp_{size}", f"DP, n = {size}", ORANGE, marker)]
        curves += [(f"x1_{size}", f"X1 (Gaussian), n = {size}", BLUE, marker)]
    curves += [(f"mip_{n}", "MIP, any n", "black", "")]
    curves += [(f"x14_{n // 4}", f"X14 (Laplace), n = {n // 4}", GREY, "o")]
    title = "I24-F1: noise for 1/Σ on the population of I24-P11"
    picture = Picture(title, "η", "noise scale", {"": curves}, log="y")
    checks = _scale_checks(sweep) if sizes == SIZES else []
    return Findings.of_sweep(sweep, checks, picture)


def _scale_checks(sweep: Sweep) -> list[ClaimCheck]:
    first, last, eta = SIZES[0], SIZES[-1], 0.1
    reach = {size: sensitivity_of_inverse_sum(size)[0] for size in SIZES}
    sigmas = [spread_of_inverse_sum(size)[0] for size in SIZES]
    stirling = 2 ** (last / 2) * (math.pi * last / 2) ** -0.25
    growth = min(reach[size] / 2 ** (size / 3) for size in SIZES)

    def ratio(name: str, size: int, other: str, other_size: int) -> Average:
        return Average(
            sweep.at(f"{name}_{size}", eta).mean / sweep.at(f"{other}_{other_size}", eta).mean
        )

    flat = "MIP's scale does not depend on n: largest over smallest"
    proof = f"the proof's Δ ~ 2^(n/2)·(πn/2)^(-1/4): their ratio at n = {last}"
    less = "MIP needs less noise than DP for almost all η; share of (0, ½)"
    much = f"n = 36, η = {eta}: DP asks for much more than MIP; times as much"
    smaller = (
        f"η = {eta}, n = {first}: X1's Gaussian scale is smaller than MIP's by more than the "
        "constants say, (6.16/η)²/(0.399/η)"
    )
    falls = f"X1's scale falls with n: n = {last} over n = {first}"
    # The ratio of the constants alone, for equal σ and σ₁.
    fold = izzo_constant(eta, 2) * eta * math.sqrt(2 * math.pi)
    shares = {size: Average(share_where_mip_needs_less(size)) for size in (36, 48)}
    return [
        below("σ² = O(1): the largest σ² for n = 12…48", 5.0, Average(max(sigmas) ** 2), limit=5.0),
        below(flat, 1.0, Average(max(sigmas) / min(sigmas)), limit=1.01),
        above("Δ = Ω(2^(n/3)): the smallest Δ/2^(n/3)", None, Average(growth), limit=1.0),
        near(proof, 1.0, Average(reach[last] / stirling), share=0.01),
        *(above(f"n = {n}: {less}", None, share, limit=0.99) for n, share in shares.items()),
        above(much, None, ratio("dp", 36, "mip", 36), limit=10.0),
        above(smaller, None, ratio("mip", first, "x1", first), limit=fold),
        below(falls, None, ratio("x1", last, "x1", first), limit=1e-4),
    ]
