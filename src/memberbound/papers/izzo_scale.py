"""I24-F1: the noise that DP, I24 and X1 ask for on a statistic with an exploding sensitivity.

The population is that of I24-P11, the statistic 1/Σ of a random half.  One half D* alone has a
large value; all others are below 4·2^(-n/2), so the sensitivity explodes while the variance stays
near 1 and the mean deviation vanishes.

A second panel asks whether the noise keeps its promise in high dimension: the published sampler of
I24-Alg1 (erratum I24-C10) against the corrected one and Gaussian noise, under the best attack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, whole_number
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.papers.errata import TRAINING_SETS, attack_on_norm_noise
from memberbound.papers.reproduction import (
    Average,
    Check,
    Findings,
    Progress,
    Sweep,
    above,
    below,
    draw_mean,
    near,
    swept,
)
from memberbound.release.noise import izzo_constant, norm_exponential_constant
from memberbound.report.drawing import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Sizes of the whole data set, of which a half is used: "n" of the paper.
SIZES = (12, 24, 36, 48)
ETAS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3),
    *(0.35, 0.4, 0.45, 0.48, 0.495, 0.499),
)
#: Bits below the leading one that are told apart; sums that share them differ by 2^-12.
_DEPTH = 12
#: A multiple of six near 10⁶, as the erratum's world needs.
DIMENSION = 999_996
_DRAWS = 20_000


def sensitivity(population: int) -> tuple[float, float]:
    """Enclose the largest change of 1/Σ by one replacement, on the population of I24-P11.

    The population is 2^0, …, 2^(N-2) and, as the last record, √p - Σ_{i<N/2-1} 2^i with
    p = 1/C(N, N/2): one half D* of it sums to √p, so the statistic is 1/√p there, and at most 1
    elsewhere.  The largest change √C(N, N/2) - 1/(2^(N-2) + 2^(N/2-1) - 1) is reached at D* when
    the largest power of two replaces its last record: no neighbour of D* has a larger sum.

    Examples:
        >>> [round(bound, 3) for bound in sensitivity(12)]
        [30.396, 30.396]
    """
    _check_population(population, least=2, most=1000)  # 2^1000 is near the largest double
    far = (1 << population - 2) + (1 << population // 2 - 1) - 1
    change = math.sqrt(math.comb(population, population // 2)) - 1 / far
    return down(change, 8), up(change, 8)


def _check_population(population: int, *, least: int, most: int) -> None:
    if whole_number("population", population, at_least=least) % 2 or population > most:
        raise InputError(f"population must be even and at most {most}, got {population!r}.")


# ---- moments of 1/Σ ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """Enclosures (from below, from above) of σ = √Var A and σ₁ = E|A - EA|, A = 1/Σ."""

    sigma: tuple[float, float]
    sigma_one: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Cells:
    """Values of A between ``low`` and ``high``, and how many halves have one."""

    low: FloatArray
    high: FloatArray
    count: FloatArray


def _sums(places: int, ones: int, depth: int) -> tuple[NDArray[np.int64], ...]:
    """Return least sum, largest sum and number of sets of ``ones`` of 2^0, …, 2^(places-1).

    Sets are grouped by their largest power and the ``depth`` powers below it.
    """
    groups = []
    for top in range(ones - 1, places):
        leading = min(depth, top)
        free = top - leading
        bits = np.arange(1 << leading, dtype=np.int64)
        rest = ones - 1 - np.bitwise_count(bits).astype(np.int64)
        possible = (rest >= 0) & (rest <= free)
        bits, rest = bits[possible], rest[possible]
        base = (1 << top) + (bits << free)
        ways = np.array([math.comb(free, r) for r in range(free + 1)], dtype=np.int64)
        lowest, highest = (1 << rest) - 1, (1 << free) - (1 << (free - rest))
        groups.append((base + lowest, base + highest, ways[rest]))
    least, largest, count = zip(*groups, strict=True)
    return np.concatenate(least), np.concatenate(largest), np.concatenate(count)


def _cells(population: int, depth: int) -> _Cells:
    half = population // 2
    root = math.sqrt(1 / math.comb(population, half))
    least, largest, count = _sums(population - 1, half, depth)
    # The last record is √p less the sum of the half-1 smallest powers: D* is left with √p alone,
    # and every other set with at least 2^(half-2), so nothing else cancels.
    gone = (1 << (half - 1)) - 1
    near_least, near_largest, near_count = _sums(population - 1, half - 1, depth)
    lows = np.concatenate([least.astype(np.float64), (near_least - gone) + root])
    highs = np.concatenate([largest.astype(np.float64), (near_largest - gone) + root])
    return _Cells(1 / highs, 1 / lows, np.concatenate([count, near_count]).astype(np.float64))


@lru_cache(maxsize=32)
def spread(population: int, *, depth: int = _DEPTH) -> Spread:
    """Enclose σ and σ₁ over all halves of I24-P11's population, without listing them.

    Sums are grouped by their leading bits, which is a listing of all halves up to ``depth`` + 2
    records and leaves a relative width of about 2^-depth beyond.

    Examples:
        >>> [round(bound, 4) for bound in spread(12).sigma]
        [0.9994, 0.9994]
    """
    _check_population(population, least=4, most=56)  # beyond, counts of halves are no exact doubles
    cells = _cells(population, depth)
    share = cells.count / math.comb(population, population // 2)
    # Each term is off by a few roundings; fsum adds them without further error.
    mean_low, mean_high = down(_total(share * cells.low), 16), up(_total(share * cells.high), 16)
    square_low = down(_total(share * cells.low**2), 16)
    square_high = up(_total(share * cells.high**2), 16)
    variance = down(square_low - mean_high**2, 16), up(square_high - mean_low**2, 16)
    nearest = np.maximum(0.0, np.maximum(cells.low - mean_high, mean_low - cells.high))
    farthest = np.maximum(cells.high - mean_low, mean_high - cells.low)
    return Spread(
        (down(math.sqrt(max(variance[0], 0.0))), up(math.sqrt(variance[1]))),
        (down(_total(share * nearest), 64), up(_total(share * farthest), 64)),
    )


def _total(terms: FloatArray) -> float:
    return math.fsum(terms.tolist())


# ---- scales ------------------------------------------------------------------------------------


def dp_scale(change: float, eta: float) -> float:
    """Return the Laplace scale Δ/ε of the pure DP that I24-T4 equates with η."""
    return change / math.log((1 + 2 * eta) / (1 - 2 * eta))


def gaussian_scale(sigma_one: float, eta: float) -> float:
    """Return X1's Gaussian scale (moment form) σ₁/(η√(2π))."""
    return sigma_one / (eta * math.sqrt(2 * math.pi))


def scales(population: int, eta: float) -> dict[str, float]:
    """Return the scale that each method asks for, named with the size."""
    sigma, sigma_one = spread(population).sigma[1], spread(population).sigma_one[1]
    return {
        f"dp_{population}": dp_scale(sensitivity(population)[1], eta),
        f"mip_{population}": izzo_constant(eta, 2) * sigma,
        f"x14_{population}": norm_exponential_constant(eta) * sigma_one,
        f"x1_{population}": gaussian_scale(sigma_one, eta),
    }


def share_where_mip_needs_less(population: int, points: int = 100_000) -> float:
    """Return the share of η in (0, ½) at which I24-C14 asks for less than DP does."""
    etas = (np.arange(points) + 0.5) / (2 * points)
    dp = sensitivity(population)[0] / np.log((1 + 2 * etas) / (1 - 2 * etas))
    return float(((6.16 / etas) ** 2 * spread(population).sigma[1] < dp).mean())


# ---- does the promise hold? --------------------------------------------------------------------


def attack_on_gaussian_noise(eta: float, draws: int, seed: int) -> float:
    """Share of right guesses of the best attacker on X1's noise, in the world of the erratum.

    Six training sets with outputs √(6/5)·e_j for orthonormal e_j, so that σ₁ = 1 and only the six
    coordinates along the e_j carry information, whatever the dimension.
    """
    rng = np.random.default_rng(seed)
    count, noise = len(TRAINING_SETS), gaussian_scale(1.0, eta)
    member = np.array([0 in chosen for chosen in TRAINING_SETS])
    secret = rng.integers(count, size=draws)
    length = math.sqrt(6 / 5)
    released = length * np.eye(count)[secret] + noise * rng.standard_normal((draws, count))
    # The outputs are equally long: log-likelihoods are inner products, up to a shared term.
    fit = released * (length / noise**2)
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    guess = weight[:, member].sum(axis=1) >= weight[:, ~member].sum(axis=1)
    return float((guess == member[secret]).mean())


def _attacked(eta: float, seed: int) -> dict[str, float]:
    return {
        "accuracy_published": attack_on_norm_noise(DIMENSION, eta, "laplace", _DRAWS, seed),
        "accuracy_gamma_radius": attack_on_norm_noise(DIMENSION, eta, "gamma", _DRAWS, seed),
        "accuracy_gaussian": attack_on_gaussian_noise(eta, _DRAWS, seed),
    }


# ---- the figure --------------------------------------------------------------------------------


def figure_1(trials: int, seed: int, progress: Progress | None) -> Findings:
    """Run I24-F1."""
    fixed = [{k: v for size in SIZES for k, v in scales(size, eta).items()} for eta in ETAS]

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        seeds = np.random.default_rng([seed, 1, trial]).integers(2**62, size=len(ETAS))
        return [
            row | _attacked(eta, int(own)) for row, eta, own in zip(fixed, ETAS, seeds, strict=True)
        ]

    sweep = swept("eta", ETAS, trials, measure, progress)
    checks = (*_scale_checks(sweep), *_promise_checks(sweep))
    return Findings.of_sweep(sweep, checks, lambda: _drawn(sweep))


def _scale_checks(sweep: Sweep) -> list[Check]:
    first, last, eta = SIZES[0], SIZES[-1], 0.1
    reach = {size: sensitivity(size)[0] for size in SIZES}
    sigmas = [spread(size).sigma[1] for size in SIZES]
    stirling = 2 ** (last / 2) * (math.pi * last / 2) ** -0.25
    growth = min(reach[size] / 2 ** (size / 3) for size in SIZES)

    def sure(value: float) -> Average:
        return Average(value, 0.0, 1)

    def scale(name: str, size: int) -> float:
        return sweep.at(f"{name}_{size}", eta).mean

    flat = "MIP's scale does not depend on n: largest over smallest"
    proof = f"the proof's Δ ~ 2^(n/2)·(πn/2)^(-1/4): their ratio at n = {last}"
    less = "MIP needs less noise than DP for almost all η; share of (0, ½)"
    much = f"n = 36, η = {eta}: DP asks for much more than MIP; times as much"
    smaller = (
        f"η = {eta}, n = {first}: X1's Gaussian scale is smaller than MIP's by more than the "
        "constants say, (6.16/η)²/(0.399/η)"
    )
    falls = f"X1's scale falls with n: n = {last} over n = {first}"
    # What the constants alone say, for equal σ and σ₁.
    fold = izzo_constant(eta, 2) * eta * math.sqrt(2 * math.pi)
    return [
        below("σ² = O(1): the largest σ² for n = 12…48", 5.0, sure(max(sigmas) ** 2), limit=5.0),
        below(flat, 1.0, sure(max(sigmas) / min(sigmas)), limit=1.01),
        above("Δ = Ω(2^(n/3)): the smallest Δ/2^(n/3)", None, sure(growth), limit=1.0),
        near(proof, 1.0, sure(reach[last] / stirling), share=0.01),
        *(
            above(f"n = {size}: {less}", None, sure(share_where_mip_needs_less(size)), limit=0.99)
            for size in (36, 48)
        ),
        above(much, None, sure(scale("dp", 36) / scale("mip", 36)), limit=10.0),
        above(smaller, None, sure(scale("mip", first) / scale("x1", first)), limit=fold),
        below(falls, None, sure(scale("x1", last) / scale("x1", first)), limit=1e-4),
    ]


#: Quantity, colour, marker and text of the second panel.
_PROMISES = (
    ("accuracy_published", ORANGE, "s", "I24-Alg1 as printed (Laplace radius)"),
    ("accuracy_gamma_radius", GREY, "^", "I24-C10 corrected (Gamma radius)"),
    ("accuracy_gaussian", BLUE, "o", "X1 (Gaussian)"),
)


def _promise_checks(sweep: Sweep) -> list[Check]:
    where = f"d = {DIMENSION}, η = 0.25: best attacker's accuracy at most 0.75"
    return [
        below(f"{label}, {where}", 0.75, sweep.at(name, 0.25), limit=0.75)
        for name, _, _, label in _PROMISES
    ]


def _drawn(sweep: Sweep) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    _scale_panel(left, sweep)
    _promise_panel(right, sweep)
    return figure


_STYLES: tuple[str | tuple[int, tuple[int, int]], ...] = (":", "-.", "--", (0, (8, 2)))


def _scale_panel(axes: Axes, sweep: Sweep) -> None:
    x = np.array(sweep.values)

    def show(name: str, label: str, colour: str, at: float = 0.22, **look: Any) -> None:
        """Draw a curve and write its name beside it: too many for a legend."""
        means = np.array([average.mean for average in sweep.averages(name)])
        axes.plot(x, means, color=colour, **look)
        # The thick line's name stands below it, clear of its neighbour.
        shift = (0, -13) if "lw" in look else (0, 3)
        height = float(np.interp(at, x, means))
        axes.annotate(label, (at, height), shift, textcoords="offset points", color=colour)

    for size, style in zip(SIZES, _STYLES, strict=True):
        at = 0.35 if size == 24 else 0.22
        show(f"dp_{size}", f"DP, n = {size}", ORANGE, at, ls=style)
        show(f"x1_{size}", f"X1 (Gaussian), n = {size}", BLUE, ls=style)
    show("mip_48", "MIP, any n", "black", 0.35, lw=2)
    show("x14_12", "X14 (Laplace), n = 12", GREY, 0.015, ls=":")
    axes.set_yscale("log")
    axes.set(xlabel="η", ylabel="noise scale", xlim=(0, 0.5))
    axes.grid(visible=True, alpha=0.25)
    axes.set_title("I24-F1: noise for 1/Σ on the population of I24-P11", fontsize=12)


def _promise_panel(axes: Axes, sweep: Sweep) -> None:
    x = np.array(sweep.values)
    axes.plot(x, 0.5 + x, "-", color="black", lw=2, label="promised: ½ + η")
    for name, colour, marker, label in _PROMISES:
        draw_mean(axes, sweep, name, colour=colour, marker=marker, ms=4.5, label=label)
    axes.set(xlabel="η", ylabel="accuracy of the best attacker", xlim=(0, 0.5), ylim=(0.48, 1.17))
    axes.set_yticks(np.arange(0.5, 1.01, 0.1))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=9, loc="upper left")
    axes.set_title(f"Does the promise hold at d = {DIMENSION:,}?".replace(",", " "), fontsize=12)
