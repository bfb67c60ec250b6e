"""Derivation records, from which a third party can recompute a certificate (X34).

Every release fills in the same record: the noise scale drawn for each measurement, its sensitivity,
the slacks, and the public facts.  ``proofs/verification.md`` derives μ, the curve, η and the bounds
for groups from the record; ``record.schema.json`` is its JSON Schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memberbound.answers import Given, Upper, plain
from memberbound.curve.base import TradeoffCurve
from memberbound.quantities import percent

FORMAT = "memberbound-derivation/1"
#: Type of the predicate of an in-toto statement that holds a certificate.
PREDICATE_TYPE = "urn:memberbound:certificate:1"
#: Sizes of the groups for which every certificate states a bound.
GROUPS = (2, 5, 10)
#: Keys left out of a certificate's own hash: the hash, and the certificate that it replaces.
SEAL, REPLACES = "certificate_sha256", "replaces"


@dataclass(frozen=True)
class Measurement:
    """Vectors of sums with normal noise, charged to one share of the budget.

    ``vectors`` is the number of vectors charged; ``coordinates`` counts the noisy numbers that were
    drawn and can have different distributions on neighbouring tables.  A share without noise has 0
    vectors and no scale.
    """

    name: str
    budget_share: Given
    mu: Given
    norm: str
    sensitivity: Given | None
    vectors: int
    coordinates: int
    noise_scale: Given | None
    grid_step: Given | None


@dataclass(frozen=True)
class SampledSteps:
    """Steps that sample each record with probability ``sample_rate``, as in DP-SGD.

    ``sensitivity`` bounds the change of a step's sum when a record is added; ``noise_multiplier``
    is at most the noise scale divided by it.
    """

    name: str
    norm: str
    sensitivity: Given
    sample_rate: Given
    steps: int
    coordinates: int
    noise_scale: Given
    grid_step: Given
    noise_multiplier: Given


@dataclass(frozen=True)
class SlackPart:
    """A part of the slack: ``count`` events with a total variation of at most ``each``."""

    reason: str
    count: int
    each: Given
    amount: Given


@dataclass(frozen=True)
class Derivation:
    """The derivation of μ, the curve and η of a release of all rows from its noise."""

    game: str
    adjacency: str
    unit: str | None
    records: int
    public: tuple[str, ...]
    #: None if steps sample records, because their curve is not Gaussian.
    mu: Given | None
    slack: Given
    slacks: tuple[SlackPart, ...]
    #: μ of the whole budget.
    budget_mu: Given
    measurements: tuple[Measurement, ...]
    #: The sum of the measurements' shares of μ².
    budget_spent: Given
    sampled: tuple[SampledSteps, ...]
    theorems: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, in a fixed order."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"format": FORMAT, **plain(fields)}


@dataclass(frozen=True)
class LedgerPosition:
    """The position of an entry in a ledger: its id, the number of entries before it, its link."""

    entry: str
    position: int
    link: str


@dataclass(frozen=True)
class GroupBound:
    """Bounds for several records together, such as a household."""

    records: int
    eta_upper: Upper
    accuracy_upper: Upper
    statement: str


def group_bounds(
    curve_of: Callable[[int], TradeoffCurve], unit: str | None, sizes: Iterable[int] = GROUPS
) -> tuple[GroupBound, ...]:
    """Return the bounds for several records that are replaced together (X33)."""
    bounds = []
    for size in sizes:
        group = curve_of(size)
        accuracy = group.accuracy()
        statement = group_statement(size, accuracy, unit)
        bounds.append(GroupBound(size, group.eta, accuracy, statement))
    return tuple(bounds)


def _noun(unit: str | None) -> str:
    return "record" if unit is None else "person"


def statement(accuracy: float, unit: str | None) -> str:
    """Return the guarantee of a certificate as a sentence."""
    who = _noun(unit)
    return (
        f"Nobody who knows every other {who}, and sees this release and whatever is made of it, is "
        f"right about any {who}'s membership more than {percent(accuracy, 'upper')} of the time "
        "(guessing blindly: 50 %)."
    )


def group_statement(size: int, accuracy: float, unit: str | None) -> str:
    """Return the guarantee for ``size`` records that are replaced together, as a sentence."""
    most = percent(accuracy, "upper")
    return f"For any {size} {_noun(unit)}s together: at most {most} of the time."


def canonical_json(value: object) -> bytes:
    """Return JSON with sorted keys, no spaces and shortest decimals, as ASCII.

    Examples:
        >>> canonical_json({"b": 0.1, "a": [1, None]})
        b'{"a":[1,null],"b":0.1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def seal(certificate: Mapping[str, object]) -> str:
    """Return the SHA-256 of a certificate's canonical JSON without ``SEAL`` and ``REPLACES``."""
    kept = {key: value for key, value in certificate.items() if key not in (SEAL, REPLACES)}
    return json_digest(kept)


def json_digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def public_numbers(unit: str | None) -> tuple[str, ...]:
    """Describe the public number of records, in words."""
    if unit is not None:
        return (f"number of persons (values of {unit!r})",)
    return "number of rows", "number of documents"


def describe_public(
    unit: str | None, bounds: Sequence[str], features: str | None = None
) -> tuple[str, ...]:
    """Describe, in words, the facts that a release of all rows assumes to be public."""
    number = public_numbers(unit)[0]
    listed = [f"bounds of {name!r}" for name in bounds]
    if features is not None:
        listed.append(f"the function {features}, which maps every record to features")
    return (number, "names and declared types of the columns", *listed)
