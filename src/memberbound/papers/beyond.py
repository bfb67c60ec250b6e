"""Results beyond the papers as functions, X1 to X34; each has its proof in ``proofs/``.

Some results are verbs (``memberbound.protect`` for X22, ``memberbound.synthesize`` for X25, …);
this module has their formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from memberbound import dp
from memberbound.curve import GaussianCurve, TradeoffCurve
from memberbound.curve.families import SlackCurve
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import SubsetGame, gamma_from_priors
from memberbound.iid import certificates, record_leak, sample_sizes
from memberbound.iid.profiles import CountProfile
from memberbound.numerics.means import betting_lower, betting_upper, log_error_shared
from memberbound.numerics.rounding import FloatArray, down, half_up, sum_slack, sum_up, up
from memberbound.papers.means import leak_of_gaussian_mean, leak_of_means
from memberbound.papers.security import leak_from_dp
from memberbound.papers.vectors import Numbers, each
from memberbound.release.half.neighbours import MixtureDistances
from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from memberbound.release.precision import half_width
from memberbound.subset.crowd import Crowd
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.gaussian import noise_on_sum
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.sampling import sampled_bounds

__all__ = [
    "GaussianNoise",
    "NormExponentialNoise",
    "cell_probability_lower",
    "dp_sgd_curve",
    "eta_from_crowd",
    "eta_from_distances",
    "eta_from_pmp",
    "eta_from_releases",
    "eta_of_group",
    "floor_of_linear_attack",
    "guess_from_curve",
    "half_width_of_noise",
    "leak_beyond_the_table",
    "leak_from_dp",
    "leak_from_pure_dp",
    "leak_of_gaussian_mean",
    "leak_of_means",
    "leak_of_partners",
    "leak_of_refits",
    "leak_of_table",
    "length_in_norm_noise",
    "mu_of_ledger",
    "mu_of_marginals",
    "mu_of_measurements",
    "mu_of_steps",
    "noise_from_deviation",
    "parameter_shift",
    "pmp_of_sum",
    "price_of_leak",
    "record_leak_upper",
    "sampled_pmp",
    "size_for_security",
]

# ── The subset game: X1, X3, X4, X6, X9, X10, X14, X19, X20, X21, X24 ─────────────────────────────


def eta_from_distances(distances: ArrayLike, sigma: float) -> float:
    """X1: return η from distances ‖q(D) - q(D')‖ of *all* neighbours of a record, under N(0, σ²I).

    The mean of Φ(d/2σ) - ½ over D among the sets with the record and its uniform replacement.

    Guarantee: the record's η is at most the result (k = N/2); the mean over all records protects
    the average record.
    Theorem: X1.
    Assumes: the distances are all of them, each as likely, and not too small.
    Numerics: rounded up.

    Examples:
        >>> round(eta_from_distances([0.0, 1.0, 2.0], sigma=2.0), 6)
        0.096723
    """
    law = GaussianNoise(positive("sigma", sigma), 1)
    values = law.distance(np.abs(np.asarray(distances, dtype=np.float64).ravel()))
    return half_up(min(1.0, float(values.mean()) * (1 + 2 * sum_slack(values.size))))


def noise_from_deviation(mean_deviation: ArrayLike, eta: ArrayLike) -> Numbers:
    """X1, X19: return s = σ₁/(η√(2π)), normal noise that hides *every* record of any statistic.

    Guarantee: q(D) + N(0, s²I) is η-MIP if E‖q(D) - m‖ ≤ σ₁ for any point m, over uniform halves.
    Theorem: X1 (moment form), X19.
    Assumes: k = N/2; ``mean_deviation`` is not below σ₁.
    Numerics: rounded up.

    Examples:
        >>> round(noise_from_deviation(1.0, 0.1), 4)
        3.9894
    """

    def scale(spread: float, target: float) -> float:
        gain = fraction("eta", target, open_left=True)
        return up(nonnegative("mean_deviation", spread) / (gain * math.sqrt(2 * math.pi)), 8)

    return each(scale, mean_deviation, eta)


def parameter_shift(gradient_gap: ArrayLike, n: int, curvature: float) -> Numbers:
    """X3: return ‖∇ℓ(θ; x) - ∇ℓ(θ; x')‖/(nλ), how far replacing x by x' moves a convex learner.

    Guarantee: the minimiser of (1/n)Σℓ + (λ/2)‖θ‖² moves by at most the result.
    Theorem: X3 (proofs/convex-learners.md, claim 1), at an exact minimiser.
    Assumes: ℓ convex and differentiable, the whole of θ regularised; both gradients at the old θ.
    Numerics: rounded up.

    Examples:
        >>> round(parameter_shift(2.0, n=100, curvature=0.1), 12)
        0.2
    """
    size, strength = whole_number("n", n), positive("curvature", curvature)
    return each(
        lambda gap: up(nonnegative("gradient_gap", gap) / (size * strength), 8), gradient_gap
    )


def leak_of_refits(
    distances: ArrayLike, noise: GaussianNoise | NormExponentialNoise, confidence: float = 0.95
) -> float:
    """X4, X1: certify the average record's total variation from random refits, for any learner.

    ``distances`` are ``noise.length(q(D) - q(D'))`` of independent random pairs of neighbours.

    Guarantee: with probability at least ``confidence`` over the pairs the mean total variation is
    at most the result; half of it is η of the average record.
    Theorem: X4.
    Assumes: independent uniform pairs; the noise was fixed beforehand.
    Numerics: rounded up.

    Examples:
        >>> law = GaussianNoise(1.0, 2)
        >>> shifts = np.random.default_rng(0).normal(0, 0.05, (2000, 2))
        >>> leak_of_refits(law.length(shifts), law) < 0.04
        True
    """
    values = noise.distance(np.asarray(distances, dtype=np.float64).ravel())
    return float(betting_upper(values, log_error_shared(confidence, 1))[0])


def eta_from_pmp(epsilon: ArrayLike) -> Numbers:
    """X6: return ½tanh(ε/2), the η of ε-PMP.

    Guarantee: every ε-PMP mechanism is η-MIP.
    Theorem: X6, from L24-L6; never above L24-L13.
    Assumes: k = N/2.
    Numerics: rounded up.

    Examples:
        >>> eta_from_pmp([0.1, 1.0]).round(6).tolist()
        [0.024979, 0.231059]
    """
    return each(lambda e: dp.guarantee_from_epsilon_delta([(e, 0.0)]).curve.eta, epsilon)


def pmp_of_sum(values: ArrayLike, sigma: float, delta: float = 0.0) -> FloatArray:
    """X9: return ε̃ of every record for a sum of numbers over a random half, from exact mixtures.

    Guarantee: Σ_{i∈D} v_i + N(0, σ²) is (ε̃, δ)-PMP for the record.
    Theorem: X9.
    Assumes: D is a uniform half of the records.
    Numerics: rounded up; infinite at δ = 0.

    Examples:
        >>> pmp_of_sum([0.0, 1.0, 2.0, 4.0], sigma=2.0, delta=1e-3).round(2).tolist()
        [3.05, 1.19, 0.98, 4.92]
    """
    records = np.asarray(values, dtype=np.float64).ravel()
    game = SubsetGame(len(records), len(records) // 2)
    return mixture_bounds(records, game, sigma=sigma, delta=delta).pmp_epsilon


def sampled_pmp(
    mechanism: ExponentialMechanism, confidence: float = 0.95, subsets: int | None = None
) -> FloatArray:
    """X10: return ε̃ of every record of the exponential mechanism from random subsets.

    Guarantee: with probability at least ``confidence`` all hold together.
    Theorem: X10.
    Assumes: uniform subsets, their number fixed beforehand.
    Numerics: rounded up; never above ε(X).

    Examples:
        >>> losses = np.abs(np.linspace(-1, 1, 40)[:, None] - np.array([[-0.5, 0.0, 0.5]]))
        >>> mechanism = ExponentialMechanism(losses, size=20, epsilon=1.0, sensitivity=0.1)
        >>> bool(sampled_pmp(mechanism, subsets=5000).max() < mechanism.epsilon_population)
        True
    """
    return sampled_bounds(mechanism, confidence=confidence, subsets=subsets).pmp_epsilon


def length_in_norm_noise(displacements: ArrayLike, law: NormExponentialNoise) -> FloatArray:
    """X14: return the total variation that norm-exponential noise leaves of displacements.

    min(1 - e^(-t/2), κt) with t the length in the law's norm over its scale.

    Guarantee: at least TV(X, X + a) for every row a, in any dimension.
    Theorem: X14.
    Assumes: the law's density is ∝ exp(-‖x‖/scale).
    Numerics: rounded up.

    Examples:
        >>> law = NormExponentialNoise([1.0, 2.0], scale=4.0)
        >>> length_in_norm_noise([[1.0, 0.0], [0.0, 2.0]], law).round(6).tolist()
        [0.05627, 0.05627]
    """
    return law.distance(law.length(displacements))


def leak_of_partners(
    groups: ArrayLike, sigma: float, confidence: float = 0.95, seed: int = 0
) -> float:
    """X20: certify the average record's total variation from groups of refits.

    ``groups`` is (draws, m + 1, d): the outputs on D₀ ∪ x_i for m + 1 records outside one D₀; each
    is compared with the mixture of the others.

    Guarantee: with probability at least ``confidence`` the mean total variation under N(0, σ²I) is
    at most the result.
    Theorem: X20.
    Assumes: independent uniform groups; the noise was fixed beforehand.
    Numerics: rounded up.

    Examples:
        >>> groups = np.random.default_rng(0).normal(0, 0.05, (600, 4, 2))
        >>> leak_of_partners(groups, sigma=1.0) < 0.05
        True
    """
    outputs = np.asarray(groups, dtype=np.float64)
    if outputs.ndim != 3 or outputs.shape[1] < 2:
        raise InputError(f"groups must have the shape (draws, m + 1, d), got {outputs.shape}.")
    values = MixtureDistances.of(outputs, seed).average(positive("sigma", sigma))
    return float(betting_upper(values, log_error_shared(confidence, 1))[0])


def eta_from_crowd(records: ArrayLike, sigma: float) -> FloatArray:
    """X21: return η of every record for the mean of a random half plus N(0, σ²I), in any dimension.

    Guarantee: no attack on the record gains more over a blind guess.
    Theorem: X21; nothing is sampled.
    Assumes: D is a uniform half of the records.
    Numerics: rounded up; ½ where the crowd proves nothing.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(400, 2))
        >>> eta = eta_from_crowd(rows, sigma=0.05)
        >>> bool(eta.min() < 0.01), bool(eta.max() < 0.5)
        (True, True)
    """
    rows = np.asarray(records, dtype=np.float64)
    game = SubsetGame(len(rows), len(rows) // 2)
    crowd = Crowd.of(rows, game, noise_on_sum(positive("sigma", sigma), game.size))
    return np.asarray(np.maximum(crowd.success - 0.5, 0.0))


def floor_of_linear_attack(
    inside: ArrayLike,
    outside: ArrayLike,
    direction: ArrayLike,
    threshold: float,
    *,
    sigma: float,
    confidence: float = 0.95,
) -> float:
    """X24: return a floor on a record's total variation, with the known noise integrated.

    ``inside`` and ``outside`` are outputs q(D) and q(D') of independent pairs that differ in the
    record alone; the attack says "in" where direction · release exceeds the threshold.

    Guarantee: with probability at least ``confidence`` the record's total variation under N(0, σ²I)
    is at least the result.
    Theorem: X24, claims 1 and 2.
    Assumes: direction and threshold do not depend on these pairs.
    Numerics: rounded down.

    Examples:
        >>> draws = np.random.default_rng(0).normal(0, 0.1, (400, 2))
        >>> floor = floor_of_linear_attack(draws + [2.0, 0.0], draws, [1.0, 0.0], 1.0, sigma=1.0)
        >>> 0.6 < floor < 0.6827  # 2Φ(1) - 1 without the spread of the outputs
        True
    """
    from scipy import special

    weight = np.asarray(direction, dtype=np.float64)
    noise = positive("sigma", sigma) * float(np.linalg.norm(weight))
    if noise == 0:
        raise InputError("direction must not be zero.")
    scores = [(np.asarray(rows) @ weight - threshold) / noise for rows in (inside, outside)]
    gain = special.ndtr(scores[0]) - special.ndtr(scores[1])
    share = np.clip((1 + gain) / 2 - 1e-12, 0.0, 1.0)
    lower = float(betting_lower(share, log_error_shared(confidence, 1))[0])
    return max(0.0, down(2 * lower - 1.0))


# ── The i.i.d. game: X5, X7, X11, X13, X15, X16, X17 ──────────────────────────────────────────────


def leak_of_table(counts: ArrayLike, n: int | None = None, confidence: float = 0.95) -> float:
    """X5: certify the worst learner's leak from the counts of a table's cells.

    Guarantee: with probability at least ``confidence`` over the rows no learner on ``n`` rows
    (default: all) leaks more, at any ν and λ, whatever the law.
    Theorem: X5, X13.
    Assumes: the rows are independent draws from one law.
    Numerics: rounded up.

    Examples:
        >>> round(leak_of_table([50] * 400), 3), leak_of_table([1] * 1000)
        (0.057, 1.0)
    """
    profile = CountProfile.from_counts(counts)
    return certificates.certify_counts(profile, n, confidence).delta_upper


def record_leak_upper(expected: ArrayLike) -> Numbers:
    """X7: return the cap e^(-λ)λ^⌊λ⌋/⌊λ⌋! on a record's leak, if its cell expects λ members.

    Guarantee: no learner leaks the record more.
    Theorem: X7; 0.4/√k at an integer λ = k.
    Assumes: independent records.
    Numerics: rounded up.

    Examples:
        >>> record_leak_upper([1.0, 5.0, 16.0, 100.0]).round(3).tolist()
        [0.368, 0.175, 0.099, 0.04]
    """
    return each(lambda lam: float(record_leak.record_leak_upper(lam)), expected)


def leak_from_pure_dp(epsilon: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0) -> Numbers:
    """X11: return the largest leak of a pure ε-DP learner in the i.i.d. game, tanh(ε/4) at γ = 1.

    Guarantee: no replace-one (ε, 0)-DP learner leaks more, for every law and n.
    Theorem: X11.
    Assumes: replace-one adjacency.
    Numerics: rounded up.

    Examples:
        >>> leak_from_pure_dp([0.1, 1.0, 8.0]).round(6).tolist()
        [0.024995, 0.244919, 0.964028]
    """
    return each(dp.leak_from_pure_dp, epsilon, nu, lam)


def price_of_leak(leak_at_one: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0) -> Numbers:
    """X13: return an upper bound on Δ at any ν and λ from Δ at γ = 1: the same number.

    The factor max(1, γ) of A25-R7 is not needed, since Δ is the hockey-stick at max(γ, 1/γ) ≥ 1.

    Guarantee: Δ at ν and λ is at most the result, for every learner, law and n.
    Theorem: X13.
    Assumes: ``leak_at_one`` is not below Δ at γ = 1.
    Numerics: exact.

    Examples:
        >>> price_of_leak(0.1, nu=[0.1, 0.5, 0.9]).tolist()
        [0.1, 0.1, 0.1]
    """

    def bound(leak: float, v: float, w: float) -> float:
        gamma_from_priors(v, w)
        return fraction("leak_at_one", leak)

    return each(bound, leak_at_one, nu, lam)


def cell_probability_lower(rows: int, count: ArrayLike, confidence: float = 0.95) -> Numbers:
    """X15: return lower bounds for the probabilities of all cells at once, by their counts.

    Guarantee: with probability at least ``confidence`` every cell has at least the probability of
    its count, however many cells there are.
    Theorem: X15.
    Assumes: the rows are independent draws from one law.
    Numerics: rounded down.

    Examples:
        >>> cell_probability_lower(1000, [1, 20, 200]).round(4).tolist()
        [0.0, 0.0058, 0.1545]
    """
    return each(lambda c: record_leak.cell_probability_lower(rows, c, confidence), count)


def leak_beyond_the_table(counts: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Numbers:
    """X16: certify the worst leak on more rows than the table has.

    Guarantee: with probability at least ``confidence`` over the table each result holds.
    Theorem: X16.
    Assumes: the rows are independent draws from one law.
    Numerics: rounded up.

    Examples:
        >>> leak_beyond_the_table([500] * 20, [10_000, 10_000_000]).round(3).tolist()
        [0.027, 0.004]
    """
    profile = CountProfile.from_counts(counts)
    return each(lambda size: certificates.leak_beyond_the_table(profile, size, confidence), n)


def size_for_security(counts: ArrayLike, security: float, confidence: float = 0.95) -> int | None:
    """X17: return a number of rows that is certified for a security, chosen from the data.

    ``None`` if no number can be certified.

    Guarantee: with probability at least ``confidence`` training on this many rows of the table's
    law has this security, for every learner.
    Theorem: X17, with X5 and X16.
    Assumes: the rows are independent draws from one law.
    Numerics: within 3 % of the least size that the certificates allow.

    Examples:
        >>> size_for_security([500] * 20, security=0.9)
        355
    """
    profile = CountProfile.from_counts(counts)
    return sample_sizes.smallest_n_for_table(profile, security, confidence=confidence)


# ── The neighbour game: X12, X22, X23, X25, X27 ───────────────────────────────────────────────────


def dp_sgd_curve(
    noise_multiplier: float, sample_rate: float, steps: int, adjacency: str = "replace-one"
) -> TradeoffCurve:
    """X12, X31: return the trade-off curve of T steps of DP-SGD, replace-one unless told otherwise.

    Guarantee: no attack on any record exceeds the curve.
    Theorem: X12.
    Assumes: Poisson sampling, clipped gradients, normal noise.
    Numerics: never below the truth (proofs/loss-lattice.md).

    Examples:
        >>> round(dp_sgd_curve(2.0, 0.01, 100).eta, 3)
        0.02
    """
    guarantee = dp.guarantee_from_dp_sgd(
        dp.DpSgd(noise_multiplier, sample_rate, steps), "add-remove"
    )
    return guarantee.replaced().curve if adjacency == "replace-one" else guarantee.curve


def mu_of_steps(steps: ArrayLike, clip: ArrayLike, sigma: ArrayLike) -> Numbers:
    """X22: return μ = √T·2c/σ of T noisy full-batch gradient steps, replace-one.

    Guarantee: the whole path, and whatever is computed from it, is μ-GDP for every record.
    Theorem: X22.
    Assumes: gradients of single records clipped at c, N(0, σ²I) on each sum.
    Numerics: rounded up.

    Examples:
        >>> round(mu_of_steps(100, 1.0, 80.0), 12)
        0.25
    """

    def mu(times: int, length: float, scale: float) -> float:
        shift = 2 * math.sqrt(whole_number("steps", times)) * nonnegative("clip", length)
        return up(shift / positive("sigma", scale), 8)

    return each(mu, steps, clip, sigma)


def half_width_of_noise(scale: ArrayLike, confidence: ArrayLike = 0.95) -> Numbers:
    """X32: return the half-width of an interval for the exact value of a noisy number.

    Guarantee: the interval covers the exact value with at least this probability.
    Theorem: X32.
    Assumes: normal noise of this scale, put on the grid of releases of all rows.

    Examples:
        >>> half_width_of_noise([5.627, 64.0]).tolist()
        [11.5, 128.0]
    """
    return each(half_width, scale, confidence)


def eta_of_group(mu: ArrayLike, records: ArrayLike) -> Numbers:
    """X33: return η for a group of records at once, Φ(kμ/2) - ½ under μ-GDP.

    Guarantee: whether the group is in gains no attack more over a blind guess.
    Theorem: X33.
    Assumes: μ-GDP, replace-one.
    Numerics: rounded up.

    Examples:
        >>> eta_of_group(0.0502, [1, 5, 10]).round(4).tolist()
        [0.01, 0.0499, 0.0991]
    """
    return each(lambda m, k: GaussianCurve(m).group(k).eta, mu, records)


def mu_of_measurements(sensitivities: ArrayLike, scales: ArrayLike, times: ArrayLike = 1) -> float:
    """X34: return μ of the measurements that a certificate records, √ΣT_i(Δ_i/σ_i)².

    Guarantee: the measurements together are μ-GDP for every record.
    Theorem: X34, X22.
    Assumes: normal noise of the scales recorded on statistics of the sensitivities recorded.
    Numerics: rounded up.

    Examples:
        >>> round(mu_of_measurements([1.41421356, 2.0], [10.0, 40.0], [1, 4]), 6)
        0.173205
    """
    rows = np.broadcast_arrays(*(np.atleast_1d(x) for x in (sensitivities, scales, times)))
    spent = [
        whole_number("times", t) * (nonnegative("sensitivities", s) / positive("scales", w)) ** 2
        for s, w, t in zip(*(row.ravel().tolist() for row in rows), strict=True)
    ]
    return up(math.sqrt(math.fsum(spent)), 8 + len(spent))


def guess_from_curve(curve: TradeoffCurve, chance: ArrayLike) -> Numbers:
    """X23: return how often a guess about a record is right after a release, 1 - f(κ).

    An attribute, the record itself, or which of many people it is: ``chance`` is how often the
    guess is right without the release.

    Guarantee: no guess is right more often.
    Theorem: X23.
    Assumes: the record's law does not depend on the other records.
    Numerics: rounded up.

    Examples:
        >>> guess_from_curve(GaussianCurve(0.25), [0.001, 0.1, 0.5]).round(4).tolist()
        [0.0023, 0.1511, 0.5987]
    """
    return each(curve.tpr, chance)


def mu_of_marginals(
    marginals: int, sigma: float, scores: int = 0, score_sigma: float = math.inf
) -> float:
    """X25, X26, X30: return μ of noisy tables of counts and of scores that choose among them.

    √(2m/σ² + 4P/s²): replacing a record, or a person whose weights add up to at most one, moves a
    table by √2 and a score (an L1 distance of counts) by 2.

    Guarantee: whatever is made of the noisy tables, such as a synthetic table, is μ-GDP.
    Theorem: X25; X26 for persons.
    Assumes: normal noise of scale σ on counts and s on scores.
    Numerics: rounded up.

    Examples:
        >>> round(mu_of_marginals(18, sigma=24.0), 12)
        0.25
    """
    m, p = whole_number("marginals", marginals), whole_number("scores", scores, at_least=0)
    spent = 2 * m / positive("sigma", sigma) ** 2
    if p:
        spent += 4 * p / positive("score_sigma", score_sigma) ** 2
    return up(math.sqrt(spent), 16)


def mu_of_ledger(mus: Sequence[float], slacks: Sequence[float] = ()) -> tuple[float, float]:
    """X27: return μ and the total variation of releases together, √Σμ_i² and Σs_i.

    Guarantee: the releases are together within the slack of μ-GDP for every record, also if each
    was chosen by looking at the ones before, up to limits fixed in advance.
    Theorem: X27.
    Assumes: each release is μ_i-GDP up to s_i.
    Numerics: rounded up.

    Examples:
        >>> mu_of_ledger([0.3, 0.4])[0].__round__(12)
        0.5
    """
    squares = math.fsum(nonnegative("mus", mu) ** 2 for mu in mus)
    total = 0.0
    for slack in slacks:
        total = sum_up(total, fraction("slacks", slack))
    return up(math.sqrt(squares), 8 + len(mus)), total


def eta_from_releases(mus: Sequence[float], slacks: Sequence[float] = ()) -> float:
    """X27: return η of several releases together.

    Guarantee: no attack on any record gains more over a blind guess.
    Theorem: X27, X22.
    Assumes: as :func:`mu_of_ledger`.
    Numerics: rounded up.

    Examples:
        >>> round(eta_from_releases([0.2513]), 6), round(eta_from_releases([0.2513] * 4), 6)
        (0.049996, 0.0992...)
    """
    mu, slack = mu_of_ledger(mus, slacks)
    return SlackCurve(GaussianCurve(mu), slack).eta
