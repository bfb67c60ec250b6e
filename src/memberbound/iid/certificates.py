"""Certified bounds on the leak of any learner, from the counts of a table (X5).

The worst learner's leak Δ_n = E TV(P̂_n, P) (A25-T14 at γ = 1) is bounded for an unknown law P from
N i.i.d. rows.  Several bounds are computed, each at its own share of the error probability β; the
shares are fixed in advance and add up to β, so the smallest bound may be reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from memberbound.answers import EstimateOf, Given, Lower, OmitEmpty, Upper
from memberbound.certificate import Certificate, Estimate
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame, gamma_from_priors
from memberbound.iid.count_functions import (
    closed_count_function,
    heavy_discount_lower,
    tabulated_count_functions,
    totals_upper,
    walk_function,
)
from memberbound.iid.profiles import (
    CountProfile,
    JointProfile,
    split_leak_upper,
    two_sample_leak_upper,
)
from memberbound.iid.record_leak import RecordLeaks, cell_probability_lower, record_leak_upper
from memberbound.iid.worst_case import checked_law, leak_of_law, leak_of_uniform
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from memberbound.numerics.means import bounded_differences_upper, mixture_upper, self_bounding_upper
from memberbound.numerics.roots import least_whole
from memberbound.numerics.rounding import (
    FloatArray,
    double_above,
    down,
    shared_confidence,
    up,
    up_array,
)
from memberbound.quantities import significant

EXPONENTIAL = "count function, exponential moments"
SPLIT = "two samples, all splits"
GIVEN = "two samples, as given"
_HEAVY = "heavy cells"

#: Shares of β, fixed before any data are seen; which row applies depends on n and N only.
_SMALL = {
    "count function, self-bounding": 0.02,
    "count function, bounded differences": 0.03,
    "closed count function, self-bounding": 0.01,
    "closed count function, bounded differences": 0.01,
    "rademacher, self-bounding": 0.02,
    "rademacher, bounded differences": 0.01,
}
_SHARES_ALL_ROWS = {_HEAVY: 0.15, EXPONENTIAL: 0.75, **_SMALL}
_SHARES_WITH_REST = {_HEAVY: 0.10, EXPONENTIAL: 0.40, SPLIT: 0.35, GIVEN: 0.05, **_SMALL}

#: Weights of the exponents s = 0.8 … 0.03 in the mixture.  Tables with few cells need a large s,
#: and there a factor in the weight costs most.
_WEIGHTS = (0.35, 0.2, 0.15, 0.12, 0.1, 0.08)

#: The plug-in figure is misleading if it is this far below the certificate, or if this share of the
#: rows is alone in its cell (so that much of the distribution was probably never seen).
_MISLEADING_RATIO, _MISLEADING_SINGLES = 1.5, 0.02


@dataclass(frozen=True)
class CountCertificate:
    """A certified leak of every learner trained on ``n`` rows of the table's law.

    ``candidates`` holds every bound computed, each valid at its share of 1 - confidence so that
    all hold together; ``method`` names the smallest.  The plug-in figures are estimates, and
    ``warnings`` says if they are misleading.
    """

    leak: Certificate
    method: str
    rows: int
    n: int
    atoms: int
    candidates: Mapping[str, float]
    delta_plug_in: Estimate
    c_k_plug_in: Estimate
    warnings: tuple[str, ...] = field(default=())

    @property
    def delta_upper(self) -> float:
        """The certified leak Δ."""
        return self.leak.value

    @property
    def confidence(self) -> float:
        """Confidence of the certificate."""
        return self.leak.confidence

    @property
    def theorems(self) -> tuple[str, ...]:
        """Theorems behind the certificate."""
        return self.leak.theorems

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the certificate."""
        return self.leak.assumptions


def leak_certificate(
    leak: float,
    game: IidGame,
    theorems: tuple[str, ...],
    assumptions: tuple[str, ...] = (),
    confidence: float = 1.0,
) -> Certificate:
    """Return the certificate of a leak Δ in the i.i.d. game."""
    return Certificate("delta", leak, "upper", game, theorems, assumptions, confidence)


def certify_counts(
    profile: CountProfile,
    n: int | None = None,
    confidence: float = 0.95,
    *,
    nu: float = 0.5,
    lam: float = 1.0,
    reference: JointProfile | None = None,
) -> CountCertificate:
    """Certify the leak Δ of every learner trained on ``n`` rows, from the counts alone.

    Guarantee: with probability ≥ ``confidence`` over the rows, ``delta_upper`` ≥ Δ_{ν,λ,n}(P, A)
    for every learner A and every law P of the rows.  The average record is protected.
    Theorem: X5 for Δ at γ = 1 (A25-T14), X13 for Δ_γ ≤ Δ_1 at any ν and λ.
    Assumes: the rows are i.i.d.; with ``reference``, training and reference rows alike.
    Numerics: rounded up.
    Edge cases: n = ``None`` means all rows of ``profile``; n > N is rejected, because counts of N
    rows do not determine the repetitions among n > N rows; rows that are all distinct give 1.

    Args:
        profile: counts of the rows that training draws from.
        n: number of training rows, at most N.
        confidence: 1 - β.
        nu: probability of a fresh test point.
        lam: weight of a missed member.
        reference: joint counts of the same training rows and of further rows of the same law; the
            training rows must be those of ``profile``, and n must be N.

    Examples:
        >>> certificate = certify_counts(CountProfile.from_counts([50] * 400))
        >>> round(certificate.delta_upper, 3), round(certificate.delta_plug_in.value, 3)
        (0.057, 0.056)
        >>> certify_counts(CountProfile.from_counts([1] * 1000)).delta_upper
        1.0
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    gamma_from_priors(nu, lam)
    size = profile.rows if n is None else whole_number("n", n)
    if size > profile.rows:
        raise InputError(
            f"n must be at most the table's {profile.rows} rows, got {n!r}. "
            "More training rows than data need the distribution itself."
        )
    assumptions = ["the rows are independent draws from one distribution"]
    source = profile
    if reference is not None:
        _same_training_rows(profile, reference, size)
        source = reference.pooled()
        assumptions.append("the reference rows are independent draws from the same distribution")
    candidates = _candidates(source, size, 1 - level, reference)
    method = min(candidates, key=lambda name: candidates[name])
    estimate = delta_plug_in_estimate(source, size)
    theorems = ("A25-T14", "X5") + (("X13",) if gamma_from_priors(nu, lam) != 1 else ())
    misleading = _warnings(source, estimate, candidates[method])
    return CountCertificate(
        leak=leak_certificate(
            candidates[method], IidGame(nu, lam), theorems, tuple(assumptions), level
        ),
        method=method,
        rows=profile.rows,
        n=size,
        atoms=profile.atoms,
        candidates=MappingProxyType(candidates),
        delta_plug_in=Estimate("delta", estimate, "plug-in", misleading),
        c_k_plug_in=Estimate("c_k", c_k_plug_in_estimate(source), "plug-in"),
        warnings=misleading,
    )


def _same_training_rows(profile: CountProfile, reference: JointProfile, n: int) -> None:
    training = reference.training()
    same = np.array_equal(training.count, profile.count)
    if not (same and np.array_equal(training.cells, profile.cells)):
        raise InputError("the training counts of the reference must be those of the profile.")
    if n != profile.rows:
        raise InputError(f"n must be all {profile.rows} training rows with a reference, got {n!r}.")


def _candidates(
    source: CountProfile, n: int, beta: float, reference: JointProfile | None
) -> dict[str, float]:
    """Return every bound on Δ_n, each at its share of β."""
    rows = source.rows
    shares = _SHARES_ALL_ROWS if n == rows else _SHARES_WITH_REST
    bounds: dict[str, float] = {}
    plain, *exponential = tabulated_count_functions()
    closed, walk = closed_count_function(), walk_function()
    plain_total, closed_total, walk_total, *totals = totals_upper(
        [plain, closed, walk, *exponential], source, n
    )
    # One event for heavy cells applies to all bounds on Σ g(np_k); the walk bounds Δ directly.
    discount = heavy_discount_lower(source, n, beta * shares[_HEAVY])
    groups = rows // n  # disjoint training sets, averaged over all choices (proofs/thinning.md)
    mixture = mixture_upper(
        totals, [groups * f.exponent for f in exponential], _WEIGHTS, beta * shares[EXPONENTIAL]
    )
    bounds[EXPONENTIAL] = mixture - discount
    for name, total, less in (
        ("count function", plain_total, discount),
        ("closed count function", closed_total, discount),
        ("rademacher", walk_total, 0.0),
    ):
        kind = f"{name}, self-bounding"
        bounds[kind] = self_bounding_upper(total, beta * shares[kind], n / rows) - less
        kind = f"{name}, bounded differences"
        bounds[kind] = bounded_differences_upper(total, n, rows, beta * shares[kind]) - less
    result = {name: min(1.0, up(max(value, 0.0) / n, 16)) for name, value in bounds.items()}
    if n < rows:
        result[SPLIT] = split_leak_upper(source, n, beta * shares[SPLIT])
    if reference is not None:
        result[GIVEN] = two_sample_leak_upper(reference, beta * shares[GIVEN])
    return result


def delta_plug_in_estimate(profile: CountProfile, n: int | None = None) -> float:
    """Return Δ_n of the observed frequencies: an estimate, never a certificate.

    On all-distinct rows it is about 0.37 while the truth may be 1 (X5).

    Examples:
        >>> round(delta_plug_in_estimate(CountProfile.from_counts([1] * 1000)), 3)
        0.368
    """
    size = profile.rows if n is None else whole_number("n", n)
    return float(half_deviation_upper(size, profile.count / profile.rows) @ profile.cells)


def c_k_plug_in_estimate(profile: CountProfile) -> float:
    """Return Σ_k √(p(1-p)) of the observed frequencies: an estimate of C_K(P).

    Examples:
        >>> round(c_k_plug_in_estimate(CountProfile.from_counts([5, 5])), 6)
        1.0
    """
    p = profile.count / profile.rows
    return float(np.sqrt(p * (1 - p)) @ profile.cells)


def _warnings(profile: CountProfile, estimate: float, bound: float) -> tuple[str, ...]:
    singles = int(profile.cells[0]) if profile.count[0] == 1 else 0
    warnings = []
    if singles > _MISLEADING_SINGLES * profile.rows:
        warnings.append(
            f"{singles} of {profile.rows} rows are unique, so much of the distribution was "
            "never seen and the plug-in estimate is too low"
        )
    if estimate * _MISLEADING_RATIO < bound and math.isfinite(bound):
        warnings.append(
            f"the plug-in estimate {significant(estimate, 'estimate', 3)} is far below the "
            "certificate; rely on the certificate"
        )
    return tuple(warnings)


# ── The smallest certified number of rows for a target ────────────────────────────────────────────
#
# The worst leak Δ_n and every record's leak fall with n (the empirical law is a reverse martingale
# and both are means of convex functions of it), so bisection on whole numbers finds the smallest n,
# and the returned n is evaluated and meets the target.

#: Maximum number of rows of a plan; beyond it a target is reported as not reachable.
MAX_PLAN = 10**12
#: Ratio of the sizes tested below the table's own.
_LADDER = 0.97


def _allowed_leak(security: float) -> float:
    return 1.0 - fraction("security", security, open_left=True, open_right=True)


def smallest_n_for_law(
    security: float, probabilities: ArrayLike, nu: float = 0.5, lam: float = 1.0
) -> int | None:
    """Return the smallest n with MIS ≥ ``security`` for every learner on a known law (A25-T14).

    Examples:
        >>> smallest_n_for_law(0.95, [0.5, 0.5])
        64
    """
    allowed = _allowed_leak(security)
    law, weights, _ = checked_law(probabilities, None)
    values, index = np.unique(law, return_inverse=True)
    counted = np.bincount(index, weights=weights if weights is not None else None)
    return least_whole(lambda n: leak_of_law(values, n, nu, lam, counted) <= allowed, most=MAX_PLAN)


def smallest_n_for_uniform(
    security: float, atoms: int, nu: float = 0.5, lam: float = 1.0
) -> int | None:
    """Return the smallest n with MIS ≥ ``security`` on K equally likely atoms.

    Examples:
        >>> smallest_n_for_uniform(0.9, 316)
        5005
    """
    allowed = _allowed_leak(security)
    return least_whole(lambda n: leak_of_uniform(atoms, n, nu, lam) <= allowed, most=MAX_PLAN)


def smallest_n_for_records(leak: float, smallest_probability: float) -> int | None:
    """Return an n at which every record of a cell at least this likely leaks at most ``leak``.

    Theorem: X7.  Sufficient for every learner; not always the very smallest such n, because the
    cap e^{-λ}λ^{⌊λ⌋}/⌊λ⌋! replaces the exact binomial term.
    """
    allowed = fraction("record leak", leak, open_left=True, open_right=True)
    p = fraction("smallest_probability", smallest_probability)
    if p == 0.0:
        return None
    return least_whole(
        lambda n: float(record_leak_upper(n * p * (1 - 1e-12))) <= allowed, most=MAX_PLAN
    )


def smallest_n_for_table(
    profile: CountProfile,
    security: float | None = None,
    record_leak: float | None = None,
    confidence: float = 0.95,
) -> int | None:
    """Return an n certified from a table with unknown law, or ``None`` if there is none.

    Guarantee: with probability ≥ ``confidence`` over the table, training on n rows of its law
    meets the target(s) for every learner; two targets share the error probability.  The record
    leak covers every record *with a value that occurs in the table*, but not records with new
    values.
    Theorem: X5 for n ≤ N, X16 beyond, X7 with X15 for records.  The n is chosen from the data and
    is still valid: sizes are tested in a fixed order, from large to small, until the first failure,
    and Δ_n does not increase with n, so an error can occur at a single size that the law
    determines.
    Numerics: within 3 % of the smallest n that the certificates allow.
    Edge cases: cells seen once rule out any record-leak target; no more than about K/N of leak can
    be certified away, whatever n.
    """
    both = security is not None and record_leak is not None
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    level = shared_confidence(level, 1 + both)
    answers: list[int | None] = []
    if security is not None:
        answers.append(_certified_size(profile, _allowed_leak(security), level))
    if record_leak is not None:
        rarest = cell_probability_lower(profile.rows, int(profile.count[0]), level)
        answers.append(smallest_n_for_records(record_leak, rarest))
    if not answers or any(n is None for n in answers):
        return None
    return max(n for n in answers if n is not None)


def _certified_size(profile: CountProfile, allowed: float, confidence: float) -> int | None:
    """Test sizes from large to small; return the last one before the first failure."""
    rows = profile.rows
    # A size beyond N passes by X16 or because Δ_n ≤ Δ_N: two tests, with half of β each.
    half = shared_confidence(confidence, 2)
    if certify_counts(profile, rows, half).delta_upper > allowed:
        return least_whole(
            lambda n: n > rows and leak_beyond_the_table(profile, n, half) <= allowed, most=MAX_PLAN
        )
    size = rows
    while size > 1:
        smaller = min(size - 1, math.floor(size * _LADDER))
        if certify_counts(profile, smaller, confidence).delta_upper > allowed:
            break
        size = smaller
    return size


# ── More training rows than the table has: a certificate for Δ_n with n ≥ N (X16) ─────────────────
#
# With a = ½√(N/n) the function h(c) = (1-a)·1{c ≥ 1} + a·√c is concave with h(0) = 0 and h(1) = 1,
# and Σ_k h(c_k) has mean at least N·Δ_n for *every* law (``proofs/extrapolation.md``).  It is
# self-bounding, so the usual concentration applies.  As n grows it tends to the number of distinct
# cells K, so no number of rows is certified to reduce Δ_n below about K/N.


def leak_beyond_the_table(profile: CountProfile, n: int, confidence: float = 0.95) -> float:
    """Return an upper bound on Δ_n for training on n ≥ N rows of the table's law.

    Guarantee: holds with probability ≥ ``confidence`` over the N i.i.d. rows, for every law.
    Theorem: X16; self-bounding concentration as in X5(c).
    Numerics: rounded up.

    Examples:
        >>> profile = CountProfile.from_counts([500] * 20)
        >>> round(leak_beyond_the_table(profile, 10_000), 3)
        0.027
        >>> round(leak_beyond_the_table(profile, 10_000_000), 3)
        0.004
    """
    size = whole_number("n", n)
    if size < profile.rows:
        raise InputError(f"n must be at least the table's {profile.rows} rows, got {n!r}.")
    share = 0.5 * math.sqrt(profile.rows / size)
    terms = (1 - share) + share * np.sqrt(profile.count.astype(np.float64))
    total = float(terms @ profile.cells.astype(np.float64))
    return _concentrated(total, profile.rows, confidence, terms.size)


def smallest_certifiable_leak(profile: CountProfile, confidence: float = 0.95) -> float:
    """Return the limit of :func:`leak_beyond_the_table` for n → ∞."""
    return _concentrated(float(profile.atoms), profile.rows, confidence)


def _concentrated(total: float, rows: int, confidence: float, terms: int = 1) -> float:
    """Return (√(F + L/2) + √(L/2))²/N with L = ln(1/β), at most 1; F has ``terms`` terms."""
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    half = -math.log1p(-level) / 2
    return min(1.0, up((math.sqrt(total + half) + math.sqrt(half)) ** 2 / rows, 64 + terms))


# ── Certified bounds of a table or a law, for ``certify`` and ``harden`` ──────────────────────────


#: A row with a larger certified leak counts as exposed.
_EXPOSED_ABOVE = 0.5


@dataclass(frozen=True)
class RecordLeak:
    """Bounds on the leak about single rows; without counts for a law."""

    median: Upper
    p99: Upper
    max: Upper
    exposed_rows: int | None = None
    exposed_above: Given | None = None


@dataclass(frozen=True, kw_only=True)
class LeakBounds:
    """Bounds that a certified leak implies, with plug-in estimates; ``c_k`` is for a law only.

    ``accuracy_upper`` is the probability of being right, between max(ν, 1-ν) and 1.
    ``accuracy_weighted_upper`` is A25-D2's accuracy, in which an identified member has weight λ.
    It is at most ν + λ(1-ν), so not a probability, and omitted at λ = 1, where the two agree.
    """

    rows: int | None
    n: int
    atoms: int
    delta_upper: Upper
    security_lower: Lower
    accuracy_upper: Upper
    accuracy_weighted_upper: OmitEmpty[Upper | None] = None
    delta_plug_in_estimate: EstimateOf | None = None
    c_k_plug_in_estimate: EstimateOf | None = None
    c_k: OmitEmpty[EstimateOf | None] = None
    confidence: Lower
    method: str
    record_leak: RecordLeak


def security_from_leak(leak: float) -> float:
    """Return MIS = 1 - Δ from below (A25-T6)."""
    return 1.0 if leak == 0.0 else max(0.0, down(1.0 - leak))


def accuracy_from_leak(leak: float, nu: float = 0.5) -> float:
    """Return the best probability of being right, max(ν, 1-ν) + min(ν, 1-ν)·Δ, from above.

    Theorem: A25-T6 at λ = 1; ``leak`` is Δ_{ν,1}, or Δ at γ = 1, which is at least as large (X13).
    Numerics: the smallest double at or above the exact value; never below max(ν, 1-ν) or above 1.

    Examples:
        >>> accuracy_from_leak(0.25), accuracy_from_leak(0.0, nu=0.75), accuracy_from_leak(1.0, 0.1)
        (0.625, 0.75, 1.0)
    """
    return weighted_accuracy_from_leak(leak, IidGame(nu))


def weighted_accuracy_from_leak(leak: float, game: IidGame) -> float:
    """Return A25's best accuracy max(ν, λ(1-ν)) + min(ν, λ(1-ν))·Δ_{ν,λ}, from above (A25-T6).

    An identified member has weight λ, so this is a probability of being right only at λ = 1.

    Examples:
        >>> weighted_accuracy_from_leak(0.5, IidGame(0.5, 4.0))
        2.25
    """
    alarm = Fraction(game.nu)
    missed = Fraction(game.lam) * (1 - alarm)
    return double_above(max(alarm, missed) + min(alarm, missed) * Fraction(leak))


def _weighted(leak: float, game: IidGame) -> float | None:
    return None if game.lam == 1 else weighted_accuracy_from_leak(leak, game)


def certified_table(certificate: CountCertificate, leaks: RecordLeaks, game: IidGame) -> LeakBounds:
    """Return the bounds that the counts of a table certify."""
    return LeakBounds(
        rows=certificate.rows,
        n=certificate.n,
        atoms=certificate.atoms,
        delta_upper=certificate.delta_upper,
        security_lower=security_from_leak(certificate.delta_upper),
        accuracy_upper=accuracy_from_leak(certificate.delta_upper, game.nu),
        accuracy_weighted_upper=_weighted(certificate.delta_upper, game),
        delta_plug_in_estimate=certificate.delta_plug_in.value,
        c_k_plug_in_estimate=certificate.c_k_plug_in.value,
        confidence=certificate.confidence,
        method=certificate.method,
        record_leak=RecordLeak(
            leaks.median, leaks.p99, leaks.max, leaks.exposed_rows(_EXPOSED_ABOVE), _EXPOSED_ABOVE
        ),
    )


def certify_beyond_the_table(
    profile: CountProfile, n: int, confidence: float, reference: JointProfile | None = None
) -> CountCertificate:
    """Certify more training rows than the table has (X16).

    The table's own leak also bounds that of more rows, because the leak never increases with n.
    """
    half = shared_confidence(confidence, 2)
    inside = certify_counts(profile, None, half, reference=reference)
    outside = leak_beyond_the_table(profile, n, half)
    extrapolated = "extrapolated count function"
    return replace(
        inside,
        leak=replace(
            inside.leak,
            value=min(inside.delta_upper, outside),
            theorems=("A25-T14", "X5", "X16"),
            confidence=confidence,
        ),
        method=extrapolated if outside <= inside.delta_upper else inside.method,
        n=n,
        candidates={**inside.candidates, extrapolated: outside},
    )


def certified_law(law: FloatArray, n: int, game: IidGame) -> LeakBounds:
    """Return the exact worst case of a law with these atoms, all positive (A25-T14, X7)."""
    size = whole_number("n", n)
    leak = leak_of_law(law, size, game.nu, game.lam)
    even = leak if game.lam == 1 else leak_of_law(law, size, game.nu)
    record = np.minimum(up_array(half_deviation_upper(size, law) / law, 8), 1.0)
    order = np.argsort(record)
    share = np.cumsum(law[order])
    median, p99 = (
        float(record[order][min(int(np.searchsorted(share, q)), law.size - 1)]) for q in (0.5, 0.99)
    )
    c_k = float(np.sqrt(law * (1 - law)).sum())
    leaks = RecordLeak(median, p99, float(record.max()))
    return _exact(leak, even, size, int(law.size), c_k=c_k, record_leak=leaks, game=game)


def certified_uniform(atoms: int, n: int, game: IidGame) -> LeakBounds:
    """Return the exact worst case of K equally likely atoms (A25-T14, X7)."""
    size, total = whole_number("n", n), whole_number("uniform", atoms)
    leak = leak_of_uniform(total, size, game.nu, game.lam)
    even = leak if game.lam == 1 else leak_of_uniform(total, size, game.nu)
    share = float(half_deviation_upper(size, Atoms.uniform(total))[0])
    record = min(1.0, share * total * (1 + 1e-14))
    c_k = float(np.sqrt(total - 1))
    leaks = RecordLeak(record, record, record)
    return _exact(leak, even, size, total, c_k=c_k, record_leak=leaks, game=game)


def _exact(
    leak: float,
    even: float,
    n: int,
    atoms: int,
    *,
    c_k: float,
    record_leak: RecordLeak,
    game: IidGame,
) -> LeakBounds:
    """Return the bounds that the exact leak Δ of a law implies; ``even`` is Δ at λ = 1."""
    return LeakBounds(
        rows=None,
        n=n,
        atoms=atoms,
        delta_upper=leak,
        security_lower=security_from_leak(leak),
        accuracy_upper=accuracy_from_leak(even, game.nu),
        accuracy_weighted_upper=_weighted(leak, game),
        c_k=c_k,
        confidence=1.0,
        method="exact worst case of the distribution",
        record_leak=record_leak,
    )
