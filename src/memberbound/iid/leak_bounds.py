"""Certified bounds of a table or a law, for ``certify`` and ``harden``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from memberbound.answers import EstimateOf, Given, Lower, OmitEmpty, Upper
from memberbound.errors import whole_number
from memberbound.games import IidGame
from memberbound.iid.certificates import CountCertificate, certify_counts, leak_beyond_the_table
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.record_leak import RecordLeaks
from memberbound.iid.worst_case import leak_of_law, leak_of_uniform
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from memberbound.numerics.rounding import (
    FloatArray,
    double_above,
    down,
    shared_confidence,
    up_array,
)

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
