"""Typed keys of a certificate and of its derivation record, as in ``record.schema.json``."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class MeasurementRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.Measurement`."""

    name: str
    budget_share: float
    mu: float
    norm: str
    sensitivity: float | None
    vectors: int
    coordinates: int
    noise_scale: float | None
    grid_step: float | None


class SampledStepsRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.SampledSteps`."""

    name: str
    norm: str
    sensitivity: float
    sample_rate: float
    steps: int
    coordinates: int
    noise_scale: float
    grid_step: float
    noise_multiplier: float


class SlackRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.SlackPart`."""

    reason: str
    count: int
    each: float
    amount: float


class DerivationRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.Derivation`."""

    format: str
    game: str
    adjacency: str
    unit: str | None
    records: int
    public: list[str]
    mu: float | None
    slack: float
    slacks: list[SlackRecord]
    budget_mu: float
    measurements: list[MeasurementRecord]
    budget_spent: float
    sampled: list[SampledStepsRecord]
    theorems: list[str]


class LedgerPlaceRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.LedgerPlace`."""

    entry: str
    position: int
    link: str


class GroupRecord(TypedDict):
    """A :class:`~memberbound.release.derivation.GroupBound`."""

    records: int
    eta_upper: float
    accuracy_upper: float
    statement: str


class ReplaceOneRecord(TypedDict):
    """Bounds for one replaced record."""

    advantage_upper: float
    accuracy_upper: float
    tpr_upper: dict[str, float]
    epsilon_upper: float | None


class CurveRecord(TypedDict):
    """Bounds read from the curve of a release."""

    delta: float
    eta_upper: float
    security_lower: float
    replace_one: ReplaceOneRecord
    mu_upper: float
    mu_regret_upper: float


class BoundRecord(TypedDict):
    """A :class:`~memberbound.certificate.Certificate` of η."""

    kind: str
    quantity: str
    upper: float
    confidence: float
    game: str
    protects: str
    theorems: list[str]
    assumptions: list[str]


class CertificateRecord(TypedDict):
    """The content of ``<file>.certificate.json``, which is written next to a released file."""

    file: str
    sha256: str
    kind: str
    version: str
    record: str
    eta: float
    mu: float | None
    rows_trained: int
    secure_source: bool
    unit: str | None
    certificate: BoundRecord
    curve: CurveRecord
    statement: str
    groups: list[GroupRecord]
    derivation: DerivationRecord
    certificate_sha256: str
    ledger: NotRequired[LedgerPlaceRecord]
