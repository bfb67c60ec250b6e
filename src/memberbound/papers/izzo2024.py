"""Membership inference privacy, result by result (Izzo, Yoon, Arık, Zou, TMLR 2024).

The game: a population of N records is known to the attacker, a uniform subset of k = N/2 of them
trains unless a size is given, and *every* record has to be protected.  A mechanism is a function
from a set of records 0, …, N-1 to a law of outcomes, in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from memberbound.curve import PolygonCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction, nonnegative, one_of, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, double_above, down, half_up, up
from memberbound.papers.vectors import Numbers, each
from memberbound.release import noise
from memberbound.subset.finite import Law, Mechanism, finite_worlds

__all__ = [
    "NoisyOutput",
    "advantage_from_eta",
    "algorithm_1",
    "algorithm_1_as_printed",
    "best_accuracy",
    "draw_norm_noise",
    "eta_from_dp",
    "eta_of_mechanism",
    "eta_of_norm_noise",
    "exploding_population",
    "indicator_of_one_set",
    "match_sets",
    "noise_constant",
    "noise_scales",
    "post_processed",
    "posterior_from_dp",
    "sensitivity_of_inverse_sum",
    "spread_of_inverse_sum",
    "tail_bound",
    "tpr_from_eta",
]

# ── What MIP is ───────────────────────────────────────────────────────────────────────────────────


def best_accuracy(
    inside: Sequence[float | Fraction], outside: Sequence[float | Fraction], prior: float = 0.5
) -> float:
    """I24-P2, I24-eq1: return the accuracy of the optimal attacker, Σ max(π·in, (1-π)·out).

    Guarantee: no attacker is right more often.
    Theorem: I24-P2.
    Assumes: the masses are those of the release with and without the record.
    Numerics: rounded up.

    Examples:
        >>> round(best_accuracy([0.75, 0.25], [0.25, 0.75]), 12)
        0.75
    """
    return PolygonCurve.from_masses(inside, outside).accuracy(prior)


def eta_of_mechanism(mechanism: Mechanism, population: int, size: int | None = None) -> Fraction:
    """I24-D1, I24-pop: return the least η of a mechanism, the worst record's, exactly.

    ``size`` is the number of records that train (default: half).

    Guarantee: exact, by listing all subsets.
    Theorem: I24-D1, I24-P2.
    Assumes: the laws are the mechanism's.

    Examples:
        >>> eta_of_mechanism(lambda train: {0 in train: 1}, 4)  # reveals whether record 0 trains
        Fraction(1, 2)
    """
    game = SubsetGame(population, population // 2 if size is None else size)
    worlds = finite_worlds(mechanism, game)
    return max(worlds.eta(record) for record in range(population))


def post_processed(
    mechanism: Mechanism, kernel: Callable[[Hashable], Law]
) -> Callable[[frozenset[int]], dict[Hashable, Fraction]]:
    """I24-T3, L24-L14: return the mechanism that turns every outcome a into a draw of kernel(a).

    Its η, and its ε and δ of PMP, are never larger than the mechanism's.

    Examples:
        >>> tell = lambda train: {0 in train: Fraction(1)}
        >>> garbled = post_processed(tell, lambda a: {a: Fraction(3, 4), not a: Fraction(1, 4)})
        >>> eta_of_mechanism(garbled, 4)
        Fraction(1, 4)
    """

    def after(train: frozenset[int]) -> dict[Hashable, Fraction]:
        law: dict[Hashable, Fraction] = {}
        for outcome, mass in mechanism(train).items():
            for released, chance in kernel(outcome).items():
                law[released] = law.get(released, Fraction(0)) + Fraction(mass) * chance
        return law

    return after


# ── Against differential privacy ──────────────────────────────────────────────────────────────────


def eta_from_dp(epsilon: ArrayLike, delta: ArrayLike = 0.0) -> Numbers:
    """I24-T4: return η = δ + (1-δ)/(1 + e^(-ε)) - ½ of (ε, δ)-DP, the best constant.

    Guarantee: every replace-one (ε, δ)-DP mechanism is η-MIP at k = N/2; some needs this η.
    Theorem: I24-T4.
    Assumes: replace-one adjacency.
    Numerics: rounded up.

    Examples:
        >>> eta_from_dp([0.1, 1.0, 8.0], 1e-5).round(6).tolist()
        [0.024984, 0.231061, 0.499665]
    """
    return each(lambda e, d: guarantee_from_epsilon_delta([(e, d)]).curve.eta, epsilon, delta)


def indicator_of_one_set(population: int) -> Mechanism:
    """I24-T5, I24-T7: return the release of 1{D = D*}, D* the first half of the population.

    It has η = 1/C(N, N/2), and no finite ε at any δ < 1: D* and its neighbours are told apart.

    Examples:
        >>> eta_of_mechanism(indicator_of_one_set(6), 6)
        Fraction(1, 20)
    """
    special = frozenset(range(whole_number("population", population, at_least=2) // 2))
    return lambda train: {train == special: 1}


def posterior_from_dp(prior: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """I24-P6: return the largest posterior probability of membership under ε-DP.

    The posterior odds are at most e^ε times the prior odds k/(N-k).

    Guarantee: no release makes membership likelier than this.
    Theorem: I24-P6.
    Assumes: replace-one (ε, 0)-DP.
    Numerics: rounded up.

    Examples:
        >>> posterior_from_dp(0.5, [0.0, 1.0, 8.0]).round(6).tolist()
        [0.5, 0.731059, 0.999665]
    """
    return each(
        lambda p, e: guarantee_from_epsilon_delta([(e, 0.0)]).curve.precision(p), prior, epsilon
    )


def tpr_from_eta(fpr: ArrayLike, eta: ArrayLike) -> Numbers:
    """I24-T8: return the largest true-positive rate of η-MIP, FPR + 2η (printed: FPR + η).

    Guarantee: no attack on any record has a larger TPR at this FPR (k = N/2).
    Theorem: I24-T8, corrected.
    Assumes: η-MIP at k = N/2.
    Numerics: rounded up; at most 1.

    Examples:
        >>> tpr_from_eta(0.01, [0.05, 0.25]).round(12).tolist()
        [0.11, 0.51]
    """

    def bound(alarm: float, gain: float) -> float:
        exact = Fraction(fraction("fpr", alarm)) + 2 * Fraction(nonnegative("eta", gain))
        return min(1.0, double_above(exact))

    return each(bound, fpr, eta)


def advantage_from_eta(eta: ArrayLike, size: int, population: int) -> Numbers:
    """I24-genk: return the largest TPR - FPR of η-MIP at any k, (2π - 1 + η)/π.

    π is the larger of k/N and 1 - k/N.  No bound of the form c·η holds for k ≠ N/2.

    Guarantee: no attack on any record has a larger TPR - FPR.
    Theorem: the corrected form of I24-genk.
    Assumes: η-MIP at this k.
    Numerics: rounded up; at most 1.

    Examples:
        >>> advantage_from_eta([0.0, 0.05], size=3, population=4).round(6).tolist()
        [0.666667, 0.733333]
    """
    game = SubsetGame(population, size)
    k = max(game.size, game.population - game.size)
    prior = Fraction(k, game.population)

    def bound(gain: float) -> float:
        return min(1.0, double_above((2 * prior - 1 + Fraction(nonnegative("eta", gain))) / prior))

    return each(bound, eta)


# ── Noise ─────────────────────────────────────────────────────────────────────────────────────────


def noise_constant(eta: ArrayLike, moment: ArrayLike = 2.0) -> Numbers:
    """I24-T9, I24-C14: return c = (7.5/η)^(1+2/M), or (6.16/η)^(1+2/M) for M ≥ 2.

    Guarantee: noise of density ∝ exp(-‖x‖/(cσ)) is η-MIP if E‖θ - Eθ‖^M ≤ σ^M, for any norm.
    Theorem: I24-T9, I24-C14; their proof is right in one dimension, X14 shows both in all.
    Assumes: k = N/2; the moment is over uniform halves of the population and the learner.
    Numerics: rounded up.

    Examples:
        >>> noise_constant(0.1, [1, 2, 4, 100]).round().tolist()
        [421875.0, 3795.0, 483.0, 67.0]
    """
    return each(noise.izzo_constant, eta, moment)


def eta_of_norm_noise(mean_deviation: ArrayLike, scale: ArrayLike) -> Numbers:
    """I24-T9, X14: return the η of noise of density ∝ exp(-‖x‖/scale), for any norm.

    ½(1 - e^(-σ₁/scale)) with σ₁ = E‖θ - Eθ‖, or E‖θ - m‖ for any point m.

    Guarantee: the release θ + noise is η-MIP, every record, for any norm and dimension.
    Theorem: X14 with X19: the two worlds are noise around points at a mean distance of at most
    2σ₁, and 1 - e^(-t/2) is concave.
    Assumes: k = N/2.
    Numerics: rounded up.

    Examples:
        >>> eta_of_norm_noise(1.0, [1.0, 4.481, 3795.0]).round(6).tolist()
        [0.31606, 0.100008, 0.000132]
    """

    def bound(spread: float, size: float) -> float:
        ratio = up(nonnegative("mean_deviation", spread) / positive("scale", size), 4)
        return half_up(up(-math.expm1(-ratio), 8))

    return each(bound, mean_deviation, scale)


def draw_norm_noise(
    sigmas: ArrayLike,
    scale: float,
    moment: float = 2.0,
    *,
    count: int = 1,
    radius: Literal["gamma", "laplace"] = "gamma",
    seed: int | np.random.Generator = 0,
) -> FloatArray:
    """I24-C10: draw noise of density ∝ exp(-‖x‖/scale), ‖x‖^M = (1/d)Σ|x_i/σ_i|^M, a row per draw.

    The direction is that of generalised normal Y_i of scale σ_i and exponent M, the radius
    Gamma(shape d).  ``radius="laplace"`` is the law as printed, which is right at d = 1 only.

    For experiments: a protected release draws from the operating system and on a grid
    (``protect_half``).

    Examples:
        >>> rows = draw_norm_noise([1.0, 2.0], scale=1.0, moment=4.0, count=20_000)
        >>> norms = ((np.abs(rows / [1.0, 2.0]) ** 4).mean(axis=1)) ** 0.25
        >>> bool(abs(norms.mean() - 2.0) < 0.05)  # the mean of Gamma(2)
        True
    """
    spread = np.asarray(sigmas, dtype=np.float64).ravel()
    if not spread.size or not (np.isfinite(spread) & (spread > 0)).all():
        raise InputError("sigmas must be a list of finite numbers greater than 0.")
    order, size = positive("moment", moment), nonnegative("scale", scale)
    one_of("radius", radius, ("gamma", "laplace"))
    draws, d = whole_number("count", count), spread.size
    rng = np.random.default_rng(seed)
    # |Y|^M/σ^M is Gamma(1/M): the density of Y is ∝ exp(-|y/σ|^M).
    powers = rng.gamma(1 / order, size=(draws, d))
    signs = rng.choice([-1.0, 1.0], size=(draws, d))
    y = signs * powers ** (1 / order)
    direction = y / np.mean(powers, axis=1, keepdims=True) ** (1 / order)
    r = rng.gamma(d, size, draws) if radius == "gamma" else rng.laplace(0.0, size or 1e-300, draws)
    return np.asarray(r[:, None] * direction * spread)


@dataclass(frozen=True, eq=False)
class NoisyOutput:
    """The output of Algorithm 1: the release, the moments and the scale of the noise."""

    released: FloatArray
    sigmas: FloatArray
    scale: float


Learner = Callable[[FloatArray], ArrayLike]


def algorithm_1_as_printed(
    learner: Learner,
    data: ArrayLike,
    eta: float,
    *,
    moment: float = 2.0,
    budget: int = 50,
    seed: int = 0,
) -> NoisyOutput:
    """I24-Alg1: run the paper's wrapper as printed, which does not keep its promise.

    σ_j comes from random halves of the *training half*, and the radius from a Laplace law: see the
    errata I24-Alg1 and I24-C10.  Here beside :func:`algorithm_1` so that both can be compared.

    Examples:
        >>> rows = np.arange(20.0)[:, None]
        >>> out = algorithm_1_as_printed(lambda x: x.mean(axis=0), rows, eta=0.1)
        >>> out.sigmas.shape, round(out.scale)
        ((1,), 3795)
    """
    rows, rng = np.asarray(data), np.random.default_rng(seed)
    train = rows[np.sort(rng.permutation(len(rows))[: len(rows) // 2])]
    halves = [rng.permutation(len(train))[: len(train) // 2] for _ in range(budget)]
    sigmas = _moments(np.array([_output(learner, train[np.sort(h)]) for h in halves]), moment)
    c = noise.izzo_constant(eta, moment)
    added = draw_norm_noise(np.maximum(sigmas, 1e-300), c, moment, radius="laplace", seed=rng)[0]
    return NoisyOutput(_output(learner, train) + added, sigmas, c)


def algorithm_1(
    learner: Learner,
    data: ArrayLike,
    eta: float,
    *,
    moment: float = 2.0,
    seed: int = 0,
) -> NoisyOutput:
    """I24-Alg1, I24-C10: run the corrected wrapper, with exact moments and a Gamma radius.

    Moments are over *all* halves of the whole population, so nothing depends on the half that
    trains, and the promise holds.  Populations beyond 200 000 halves are refused: for those
    ``protect_half(method="izzo")`` calibrates on fresh halves with confidence.

    Guarantee: the release is η-MIP with respect to ``data``, up to floating point.
    Theorem: I24-C10 with a Gamma radius; X14.
    Assumes: k = N/2, a deterministic learner.

    Examples:
        >>> rows = np.arange(8.0)[:, None]
        >>> out = algorithm_1(lambda x: x.mean(axis=0), rows, eta=0.1)
        >>> out.sigmas.round(4).tolist()
        [0.866]
    """
    rows, rng = np.asarray(data), np.random.default_rng(seed)
    half = len(rows) // 2
    if len(rows) % 2 or math.comb(len(rows), half) > 200_000:
        raise InputError(
            f"data must be an even number of at most 20 records, got {len(rows)}. "
            "Use protect_half with method izzo for more."
        )
    outputs = np.array(
        [_output(learner, rows[list(h)]) for h in combinations(range(len(rows)), half)]
    )
    sigmas = _moments(outputs, moment)
    if not (sigmas > 0).all():
        raise InputError("learner must vary in every coordinate, got one that is constant.")
    c = noise.izzo_constant(eta, moment)
    train = rows[np.sort(rng.permutation(len(rows))[:half])]
    return NoisyOutput(
        _output(learner, train) + draw_norm_noise(sigmas, c, moment, seed=rng)[0], sigmas, c
    )


def _output(learner: Learner, rows: FloatArray) -> FloatArray:
    return np.atleast_1d(np.asarray(learner(rows), dtype=np.float64)).ravel()


def _moments(outputs: FloatArray, moment: float) -> FloatArray:
    """Return (E|θ_j - Eθ_j|^M)^(1/M) of the rows, raised by its rounding."""
    centred = np.abs(outputs - outputs.mean(axis=0))
    return np.asarray(np.mean(centred**moment, axis=0) ** (1 / moment) * (1 + 1e-12))


def tail_bound(moment: ArrayLike, t: ArrayLike) -> Numbers:
    """I24-L13: return t^(-M), which P(‖X - EX‖ > tσ) is at most if E‖X - EX‖^M ≤ σ^M.

    Guarantee: the tail is at most the result, for any norm.
    Theorem: I24-L13 (Markov's inequality for the M-th power).
    Assumes: the M-th moment, not the second as the text at hand has it.
    Numerics: rounded up; at most 1.

    Examples:
        >>> tail_bound([2, 4], 3.0).round(6).tolist()
        [0.111111, 0.012346]
    """

    def bound(order: float, far: float) -> float:
        return min(1.0, up(math.pow(positive("t", far), -positive("moment", order)), 16))

    return each(bound, moment, t)


# ── A statistic with unbounded sensitivity ────────────────────────────────────────────────────────


def exploding_population(population: int) -> FloatArray:
    """I24-P11: return the records 2^0, …, 2^(N-2) and √p - Σ_{i<N/2-1} 2^i, p = 1/C(N, N/2).

    Over uniform halves 1/Σx has variance O(1) and a sensitivity of order 2^(N/2).  The main text
    leaves out the last record.

    Examples:
        >>> exploding_population(6).round(6).tolist()
        [1.0, 2.0, 4.0, 8.0, 16.0, -2.776393]
    """
    size = whole_number("population", population, at_least=4)
    if size % 2:
        raise InputError(f"population must be even, got {population!r}.")
    last = 1 / math.sqrt(math.comb(size, size // 2)) - float((1 << size // 2 - 1) - 1)
    return np.array([*(float(1 << i) for i in range(size - 1)), last])


def sensitivity_of_inverse_sum(population: int) -> tuple[float, float]:
    """I24-P11: enclose the largest change of 1/Σ by one replacement, on that population.

    One half D* sums to √p, so the statistic is 1/√p there, and at most 1 elsewhere.  The largest
    change √C(N, N/2) - 1/(2^(N-2) + 2^(N/2-1) - 1) is reached at D* when the largest power of two
    replaces its last record: no neighbour of D* has a larger sum.

    Numerics: outward.

    Examples:
        >>> [round(bound, 3) for bound in sensitivity_of_inverse_sum(12)]
        [30.396, 30.396]
    """
    far = (1 << population - 2) + (1 << population // 2 - 1) - 1
    change = math.sqrt(math.comb(population, population // 2)) - 1 / far
    return down(change, 8), up(change, 8)


def spread_of_inverse_sum(population: int) -> tuple[float, float]:
    """I24-P11: return upper bounds on σ = √Var A and σ₁ = E|A - EA| of A = 1/Σ there.

    A = 1/√p at D*, which has probability p.  A half without the last record sums to at least
    2^(N/2) - 1, any other to at least √p + 2^(N/2-2): elsewhere A is in (0, r], r = 4·2^(-N/2).
    So σ² ≤ EA² ≤ 1 + r².  And σ₁ = 2·E(A - EA)₊, to which D* adds at most 2√p.  With m the mean of
    A elsewhere, EA ≥ (1-p)m, so by convexity the rest adds at most 2(1-p)m(1 - (1-p)m/r) ≤ r/2.

    Numerics: rounded up.

    Examples:
        >>> [round(bound, 4) for bound in spread_of_inverse_sum(12)]
        [1.002, 0.097]
    """
    p, r = 1 / math.comb(population, population // 2), 4 * 2 ** (-population / 2)
    return up(math.sqrt(1 + r**2), 8), up(2 * math.sqrt(p) + r / 2, 8)


def noise_scales(population: int, eta: float) -> dict[str, float]:
    """I24-F1: return the noise scale that each method needs for η on that population.

    ``dp``: the Laplace scale of the pure DP that I24-T4 equates with η; ``mip``: I24-C14; ``x14``:
    norm-exponential noise by X14; ``x1``: normal noise by X1.

    Guarantee: each scale is enough for η-MIP.
    Theorem: I24-T4, I24-C14, X14, X1.
    Assumes: k = N/2.
    Numerics: rounded up, through bounds on the sensitivity and the spread.

    Examples:
        >>> {name: round(value, 2) for name, value in noise_scales(36, 0.1).items()}
        {'dp': 234948.71, 'mip': 3794.56, 'x14': 0.0, 'x1': 0.0}
    """
    sigma, sigma_one = spread_of_inverse_sum(population)
    epsilon = math.log((1 + 2 * eta) / (1 - 2 * eta))
    return {
        "dp": up(sensitivity_of_inverse_sum(population)[1] / epsilon, 64),
        "mip": up(noise.izzo_constant(eta, 2) * sigma),
        "x14": up(noise.norm_exponential_constant(eta) * sigma_one),
        "x1": up(sigma_one / (eta * math.sqrt(2 * math.pi)), 8),
    }


def match_sets(
    population: int, size: int, record: int = 0
) -> Mapping[frozenset[int], frozenset[int]]:
    """I24-L12: return an injective map from the k-sets without a record to those with it.

    Every pair differs in one replaced record; at k = N/2 the map is a bijection (Hall's theorem).

    Examples:
        >>> pairs = match_sets(4, 2)
        >>> len(pairs), all(len(a - b) == 1 for a, b in pairs.items())
        (3, True)
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    game = SubsetGame(population, size)
    if 2 * game.size < game.population:
        raise InputError(f"size must be at least half of {population}, got {size!r}.")
    others = [x for x in range(population) if x != record]
    without = [frozenset(s) for s in combinations(others, size)]
    index = {frozenset({record, *s}): i for i, s in enumerate(combinations(others, size - 1))}
    edges = [
        (row, index[chosen - {leaving} | {record}])
        for row, chosen in enumerate(without)
        for leaving in chosen
    ]
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    graph = csr_matrix((np.ones(len(edges)), (rows, columns)), shape=(len(without), len(index)))
    found = maximum_bipartite_matching(graph, perm_type="column")
    names = list(index)
    return {without[row]: names[column] for row, column in enumerate(found.tolist())}
