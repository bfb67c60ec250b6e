"""Certified bounds on the leak of any learner, from the counts of a table (X5).

The worst learner's leak Δ_n = E TV(P̂_n, P) (A25-T14 at γ = 1) is bounded for an unknown law P from
N i.i.d. rows.  Several bounds are computed, each at its own share of the error probability β; the
shares are fixed in advance and add up to β, so the smallest bound may be reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

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
from memberbound.numerics.binomial import half_deviation_upper
from memberbound.numerics.means import bounded_differences_upper, mixture_upper, self_bounding_upper
from memberbound.numerics.rounding import up
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
