"""What is certified of a table or a law: the numbers that ``certify`` and ``harden`` share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memberbound.answers import EstimateOf, Given, Lower, OmitEmpty, Upper
from memberbound.errors import whole_number
from memberbound.games import IidGame
from memberbound.iid.certificates import CountCertificate, certify_counts
from memberbound.iid.planning import leak_beyond_the_table
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.record_leak import RecordLeaks
from memberbound.iid.worst_case import leak_of_law, leak_of_uniform
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from memberbound.numerics.rounding import FloatArray, down, shared_confidence, up, up_array

__all__ = [
    "Certified",
    "RecordLeak",
    "accuracy_from_leak",
    "certified_law",
    "certified_table",
    "certified_uniform",
    "certify_beyond_the_table",
    "security_from_leak",
]


@dataclass(frozen=True)
class RecordLeak:
    """How much may leak about single rows; rows of a law are not counted."""

    median: Upper
    p99: Upper
    max: Upper
    exposed_rows: int | None = None
    exposed_above: Given | None = None


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What is certified, and beside it what is only estimated; ``c_k`` is that of a law."""

    rows: int | None
    n: int
    atoms: int
    delta_upper: Upper
    security_lower: Lower
    accuracy_upper: Upper
    delta_plug_in_estimate: EstimateOf | None = None
    c_k_plug_in_estimate: EstimateOf | None = None
    c_k: OmitEmpty[EstimateOf | None] = None
    confidence: Lower
    method: str
    record_leak: RecordLeak


def security_from_leak(leak: float) -> float:
    """Return MIS = 1 - Δ from below (A25-T6)."""
    return 1.0 if leak == 0.0 else max(0.0, down(1.0 - leak))


def accuracy_from_leak(leak: float, game: IidGame) -> float:
    """Return the best (weighted) accuracy max(ν, λ(1-ν)) + min(1, 1/γ)·ν·Δ from above (A25-T6)."""
    missed, alarm = game.lam * (1 - game.nu), game.nu
    base, gain = max(alarm, missed), min(alarm, missed) * leak
    # Being right every time is the most there is.
    return base if gain == 0.0 else min(up(base + gain, 8), alarm + missed)


def certified_table(
    certificate: CountCertificate, leaks: RecordLeaks, game: IidGame, exposed_above: float = 0.5
) -> Certified:
    """Return what is certified from the counts of a table."""
    return Certified(
        rows=certificate.rows,
        n=certificate.n,
        atoms=certificate.atoms,
        delta_upper=certificate.delta_upper,
        security_lower=security_from_leak(certificate.delta_upper),
        accuracy_upper=accuracy_from_leak(certificate.delta_upper, game),
        delta_plug_in_estimate=certificate.delta_plug_in_estimate,
        c_k_plug_in_estimate=certificate.c_k_plug_in_estimate,
        confidence=certificate.confidence,
        method=certificate.method,
        record_leak=RecordLeak(
            leaks.median, leaks.p99, leaks.max, leaks.exposed_rows(exposed_above), exposed_above
        ),
    )


def certify_beyond_the_table(
    profile: CountProfile, n: int, confidence: float, reference: JointProfile | None = None
) -> CountCertificate:
    """Certify more training rows than the table has (X16).

    The table's own leak bounds that of more rows as well, since the leak never rises with n.
    """
    half = shared_confidence(confidence, 2)
    inside = certify_counts(profile, None, half, reference=reference)
    outside = leak_beyond_the_table(profile, n, half)
    extrapolated = "extrapolated count function"
    return replace(
        inside,
        delta_upper=min(inside.delta_upper, outside),
        method=extrapolated if outside <= inside.delta_upper else inside.method,
        confidence=confidence,
        n=n,
        theorems=("A25-T14", "X5", "X16"),
        candidates={**inside.candidates, extrapolated: outside},
    )


def certified_law(law: FloatArray, n: int, game: IidGame) -> Certified:
    """Return the exact worst case of a law with these atoms, all positive (A25-T14, X7)."""
    size = whole_number("n", n)
    leak = leak_of_law(law, size, game.nu, game.lam)
    record = np.minimum(up_array(half_deviation_upper(size, law) / law, 8), 1.0)
    order = np.argsort(record)
    share = np.cumsum(law[order])
    median, p99 = (
        float(record[order][min(int(np.searchsorted(share, q)), law.size - 1)]) for q in (0.5, 0.99)
    )
    c_k = float(np.sqrt(law * (1 - law)).sum())
    leaks = RecordLeak(median, p99, float(record.max()))
    return _exact(leak, size, int(law.size), c_k=c_k, record_leak=leaks, game=game)


def certified_uniform(atoms: int, n: int, game: IidGame) -> Certified:
    """Return the exact worst case of K equally likely atoms (A25-T14, X7)."""
    size, total = whole_number("n", n), whole_number("uniform", atoms)
    leak = leak_of_uniform(total, size, game.nu, game.lam)
    share = float(half_deviation_upper(size, Atoms.uniform(total))[0])
    record = min(1.0, share * total * (1 + 1e-14))
    c_k = float(np.sqrt(total - 1))
    leaks = RecordLeak(record, record, record)
    return _exact(leak, size, total, c_k=c_k, record_leak=leaks, game=game)


def _exact(
    leak: float, n: int, atoms: int, *, c_k: float, record_leak: RecordLeak, game: IidGame
) -> Certified:
    return Certified(
        rows=None,
        n=n,
        atoms=atoms,
        delta_upper=leak,
        security_lower=security_from_leak(leak),
        accuracy_upper=accuracy_from_leak(leak, game),
        c_k=c_k,
        confidence=1.0,
        method="exact worst case of the law",
        record_leak=record_leak,
    )
