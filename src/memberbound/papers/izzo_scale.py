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
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.papers.errata_izzo import attack_on_norm_noise
from memberbound.papers.experiments import (
    Average,
    Check,
    Experiment,
    Findings,
    Look,
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
from memberbound.subset.laws import Law

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE_1", "ReciprocalSum", "Spread", "dp_scale", "gaussian_scale", "spread"]

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
_TRAINING_SETS = tuple(combinations(range(4), 2))


@dataclass(frozen=True)
class ReciprocalSum:
    """1/Σ of the members, on a population where its sensitivity explodes (I24-P11).

    The population is 2^0, …, 2^(N-2) and, as the last record, √p - Σ_{i<N/2-1} 2^i with
    p = 1/C(N, N/2): one half D* of it sums to √p, so the statistic is 1/√p there, and at most 1
    elsewhere.  A sum is an integer plus √p or nothing, and is kept like that: nothing cancels.

    Examples:
        >>> statistic = ReciprocalSum(12)
        >>> round(statistic.sensitivity_lower, 3), statistic.variance_upper
        (30.396, 2.0)
    """

    population: int

    def __post_init__(self) -> None:
        if whole_number("population", self.population, at_least=2) % 2 or self.population > 1000:
            raise InputError(
                f"population must be even and at most 1000, got {self.population!r}. "
                "The statistic takes halves, and 2^1000 is near the largest double."
            )

    @property
    def worst_set(self) -> frozenset[int]:
        """D*: the smallest N/2-1 powers of two and the last record."""
        return frozenset(range(self.population // 2 - 1)) | {self.population - 1}

    @property
    def inverse_probability(self) -> int:
        """1/p = C(N, N/2)."""
        return math.comb(self.population, self.population // 2)

    def total(self, members: frozenset[int]) -> tuple[int, bool]:
        """Σ of the members as (integer part, whether √p is added), exactly."""
        last = self.population - 1
        whole = sum(1 << x for x in members if x != last)
        return (whole - (1 << last // 2) + 1, True) if last in members else (whole, False)

    def value(self, members: frozenset[int]) -> float:
        """1/Σ, to a few roundings; ∞ for a sum of 0, which no half of the population has."""
        whole, rooted = self.total(members)
        amount = whole + (math.sqrt(1 / self.inverse_probability) if rooted else 0.0)
        return 1 / amount if amount else math.inf

    @property
    def sensitivity_upper(self) -> float:
        """Largest change by one replacement, √C(N, N/2) - 1/(2^(N-2) + 2^(N/2-1) - 1), from above.

        Reached at D* when the largest power of two replaces its last record: no value exceeds
        that of D*, and no neighbour of D* has a larger sum.
        """
        return up(self._sensitivity(), 8)

    @property
    def sensitivity_lower(self) -> float:
        """The same from below."""
        return down(self._sensitivity(), 8)

    def _sensitivity(self) -> float:
        far = (1 << self.population - 2) + (1 << self.population // 2 - 1) - 1
        return math.sqrt(self.inverse_probability) - 1 / far

    @property
    def variance_upper(self) -> float:
        """2: E A² ≤ p·(1/p) + (1-p)·1."""
        return 2.0

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {self.total(members): Fraction(1)}


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
    found = []
    for top in range(ones - 1, places):
        told = min(depth, top)
        free = top - told
        bits = np.arange(1 << told, dtype=np.int64)
        rest = ones - 1 - np.bitwise_count(bits).astype(np.int64)
        kept = (rest >= 0) & (rest <= free)
        bits, rest = bits[kept], rest[kept]
        base = (1 << top) + (bits << free)
        ways = np.array([math.comb(free, r) for r in range(free + 1)], dtype=np.int64)
        lowest, highest = (1 << rest) - 1, (1 << free) - (1 << (free - rest))
        found.append((base + lowest, base + highest, ways[rest]))
    least, largest, count = zip(*found, strict=True)
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
    if whole_number("population", population, at_least=4) % 2 or population > 56:
        raise InputError(
            f"population must be even and at most 56, got {population!r}. "
            "Beyond it the numbers of halves are no longer exact doubles."
        )
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


def dp_scale(sensitivity: float, eta: float) -> float:
    """Return the Laplace scale Δ/ε of the pure DP that I24-T4 equates with η."""
    return sensitivity / math.log((1 + 2 * eta) / (1 - 2 * eta))


def gaussian_scale(sigma_one: float, eta: float) -> float:
    """Return X1's Gaussian scale (moment form) σ₁/(η√(2π))."""
    return sigma_one / (eta * math.sqrt(2 * math.pi))


def scales(population: int, eta: float) -> dict[str, float]:
    """Return the scale that each method asks for, named with the size."""
    known, statistic = spread(population), ReciprocalSum(population)
    return {
        f"dp_{population}": dp_scale(statistic.sensitivity_upper, eta),
        f"mip_{population}": izzo_constant(eta, 2) * known.sigma[1],
        f"x14_{population}": norm_exponential_constant(eta) * known.sigma_one[1],
        f"x1_{population}": gaussian_scale(known.sigma_one[1], eta),
    }


def share_where_mip_needs_less(population: int, points: int = 100_000) -> float:
    """Return the share of η in (0, ½) at which I24-C14 asks for less than DP does."""
    etas = (np.arange(points) + 0.5) / (2 * points)
    dp = ReciprocalSum(population).sensitivity_lower / np.log((1 + 2 * etas) / (1 - 2 * etas))
    return float(((6.16 / etas) ** 2 * spread(population).sigma[1] < dp).mean())


# ---- does the promise hold? --------------------------------------------------------------------


def attack_on_gaussian_noise(eta: float, draws: int, seed: int) -> float:
    """Share of right guesses of the best attacker on X1's noise, in the world of the erratum.

    Six training sets with outputs √(6/5)·e_j for orthonormal e_j, so that σ₁ = 1 and only the six
    coordinates along the e_j carry information, whatever the dimension.
    """
    rng = np.random.default_rng(seed)
    count, noise = len(_TRAINING_SETS), gaussian_scale(1.0, eta)
    member = np.array([0 in chosen for chosen in _TRAINING_SETS])
    secret = rng.integers(count, size=draws)
    length = math.sqrt(6 / 5)
    seen = length * np.eye(count)[secret] + noise * rng.standard_normal((draws, count))
    # The outputs are equally long: log-likelihoods are inner products, up to a shared term.
    fit = seen * (length / noise**2)
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


def _figure_1(trials: int, seed: int, progress: Progress | None) -> Findings:
    fixed = []
    for eta in ETAS:
        row: dict[str, float] = {}
        for size in SIZES:
            row |= scales(size, eta)
        fixed.append(row)

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        seeds = np.random.default_rng([seed, 1, trial]).integers(2**62, size=len(ETAS))
        return [
            known | _attacked(eta, int(own))
            for known, eta, own in zip(fixed, ETAS, seeds, strict=True)
        ]

    sweep = swept("eta", ETAS, trials, measure, progress)
    checks = (*_scale_checks(sweep), *_promise_checks(sweep))
    return Findings.of_sweep(sweep, checks, lambda: _drawn(sweep))


def _sure(value: float) -> Average:
    return Average(value, 0.0, 1)


def _scale_checks(sweep: Sweep) -> list[Check]:
    first, last, eta = SIZES[0], SIZES[-1], 0.1
    reach = {size: ReciprocalSum(size).sensitivity_lower for size in SIZES}
    sigmas = [spread(size).sigma[1] for size in SIZES]
    stirling = 2 ** (last / 2) * (math.pi * last / 2) ** -0.25

    def at(name: str, size: int) -> float:
        return sweep.at(f"{name}_{size}", eta).mean

    # What the constants alone say, for equal σ and σ₁.
    fold = izzo_constant(eta, 2) * eta * math.sqrt(2 * math.pi)
    return [
        below("σ² = O(1): the largest σ² for n = 12…48", 5.0, _sure(max(sigmas) ** 2), limit=5.0),
        below(
            "MIP's scale does not depend on n: largest over smallest",
            1.0,
            _sure(max(sigmas) / min(sigmas)),
            limit=1.01,
        ),
        above(
            "Δ = Ω(2^(n/3)): the smallest Δ/2^(n/3)",
            None,
            _sure(min(reach[size] / 2 ** (size / 3) for size in SIZES)),
            limit=1.0,
        ),
        near(
            f"the proof's Δ ~ 2^(n/2)·(πn/2)^(-1/4): their ratio at n = {last}",
            1.0,
            _sure(reach[last] / stirling),
            share=0.01,
        ),
        *(
            above(
                f"n = {size}: MIP needs less noise than DP for almost all η; share of (0, ½)",
                None,
                _sure(share_where_mip_needs_less(size)),
                limit=0.99,
            )
            for size in (36, 48)
        ),
        above(
            f"n = 36, η = {eta}: DP asks for much more than MIP; times as much",
            None,
            _sure(at("dp", 36) / at("mip", 36)),
            limit=10.0,
        ),
        above(
            f"η = {eta}, n = {first}: X1's Gaussian scale is smaller than MIP's by more than the "
            "constants say, (6.16/η)²/(0.399/η)",
            None,
            _sure(at("mip", first) / at("x1", first)),
            limit=fold,
        ),
        below(
            f"X1's scale falls with n: n = {last} over n = {first}",
            None,
            _sure(at("x1", last) / at("x1", first)),
            limit=1e-4,
        ),
    ]


def _promise_checks(sweep: Sweep) -> list[Check]:
    eta = 0.25
    promised = 0.5 + eta
    where = f"d = {DIMENSION}, η = {eta}: best attacker's accuracy at most {promised}"
    names = {
        "accuracy_published": "I24-Alg1 as printed (Laplace radius)",
        "accuracy_gamma_radius": "I24-C10 corrected (Gamma radius)",
        "accuracy_gaussian": "X1 (Gaussian)",
    }
    return [
        below(f"{label}, {where}", promised, sweep.at(name, eta), limit=promised)
        for name, label in names.items()
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

    def show(name: str, label: str, colour: str, at: float = 0.22, **look: Unpack[Look]) -> None:
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
    shown = (
        ("accuracy_published", ORANGE, "s", "I24-Alg1 as printed (Laplace radius)"),
        ("accuracy_gaussian", BLUE, "o", "X1 (Gaussian)"),
        ("accuracy_gamma_radius", GREY, "^", "I24-C10 corrected (Gamma radius)"),
    )
    for name, colour, marker, label in shown:
        draw_mean(axes, sweep, name, colour=colour, marker=marker, ms=4.5, label=label)
    axes.set(xlabel="η", ylabel="accuracy of the best attacker", xlim=(0, 0.5), ylim=(0.48, 1.17))
    axes.set_yticks(np.arange(0.5, 1.01, 0.1))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=9, loc="upper left")
    axes.set_title(f"Is the promise kept at d = {DIMENSION:,}?".replace(",", " "), fontsize=12)


FIGURE_1 = Experiment(
    "I24-F1",
    "Noise scale for DP, MIP and X1 against η, and whether the promise is kept",
    trials=20,
    game=SubsetGame(SIZES[-1], SIZES[-1] // 2),
    run=_figure_1,
    theorems=("I24-P11", "I24-T4", "I24-C14", "I24-C10", "X1", "X14"),
    assumptions=(
        "The data set is a uniform half of the n records, and the attacker knows all n.",
        "The statistic is released once, with fresh noise of the scale shown.",
        "The accuracies are averages over simulated releases: estimates.",
    ),
    notes=(
        "n is the number of all records, 12 to 48; a half of them is used. The main text leaves "
        "out the record that makes the sensitivity large; the appendix's data set is taken.",
        "σ and σ₁ are enclosed to 0.1 % or better by grouping sums by their leading bits, and the "
        "upper ends shown; no half is sampled. The paper does not say which bound it plotted.",
        "A Gaussian scale is the noise's standard deviation; a Laplace scale b has standard "
        "deviation √2·b.",
        "Only one half has a large value, so the mean deviation σ₁ vanishes like 2^(-n/2) while σ "
        "stays near 1: with X1 the noise needed falls as fast as DP's grows.",
        "The second panel is no part of the paper's figure: six training sets in a high "
        "dimension, exact moments, the attacker of erratum I24-C10.",
    ),
)
