"""The privacy budget of a secret table, and the noisy sums charged to its shares.

Every release about the table is a vector of sums plus Gaussian noise.  Adaptively chosen releases
compose to exactly one Gaussian release with shift μ, where μ² is the sum of their μ²
(proofs/gradient-descent.md, claim 1).  So a budget is a number μ, computed once from η; a
:class:`BudgetShare` is a share of μ² that covers the noise of a stated number of vectors::

    budget = Budget.for_eta(0.05, slack=release_slack(coordinates))
    counts = budget.take("histograms", 0.2).sums(sensitivity=HISTOGRAM_MOVES, times=3)
    noisy = counts.measure(histogram)

Floating-point noise and released names add a total variation, the *slack*, also fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from memberbound.answers import Given, Lower, Upper, plain
from memberbound.certificate import Certificate
from memberbound.curve.families import GaussianCurve, SlackCurve, gaussian_summary
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import NeighbourGame
from memberbound.numerics.roots import last_true
from memberbound.numerics.rounding import FloatArray, sum_up, sums_up, up
from memberbound.release.derivation import (
    Derivation,
    GroupBound,
    LedgerPosition,
    Measurement,
    SlackPart,
    describe_public,
    group_bounds,
    statement,
)
from memberbound.release.noise import (
    COARSE,
    SAMPLER_ASSUMPTION,
    SIMPLE_ERROR,
    check_eta_range,
    snap_to_grid,
)
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.record import DerivationRecord, MeasurementRecord

#: Points at which answers report the curve.
_READ_FPR = (0.1, 0.01, 0.001)
_READ_DELTA = 1e-5

#: Upper bound on the probability of releasing a name that a single person has
#: (proofs/gradient-descent.md, claim 5).
CLASS_SLACK = 1e-9
DRAWS, NAMES, _STATED = "draws in floating point", "names that one record has", "set aside"

#: L2 sensitivity of a histogram under replace-one: one count falls by 1 and another rises by 1.
HISTOGRAM_MOVES = up(math.sqrt(2.0))

#: Factor applied to shares, which absorbs all rounding in sums of μ².
_MARGIN = 1.0 - 2.0**-40
#: Maximum μ, at which an attacker errs once in 10^280 times.
_LARGEST_MU = 70.0

_ROW = (
    "Neighbours differ in one record, which is replaced; the number of rows, the names of the "
    "columns and every bound that was given are public."
)
_PERSON = (
    "A person is one value of the column {unit!r} with all of its rows, which together have the "
    "influence of one; a row without a value there is a person of its own. Neighbours differ in "
    "one person, all of whose rows are replaced, whatever their number; the number of persons, the "
    "names of the columns and every bound that was given are public."
)
_ASSUMPTIONS = (
    "The types of the columns, where the table has any, are public too: they were declared, not "
    "inferred from these rows (as pandas.read_csv does; give the file itself instead).",
    "Other records do not depend on the record in question, and nothing else about the table is "
    "published.",
    "No column was computed from other rows, as a scaler, an encoder or an imputer fitted on them "
    "does.",
    "The table conforms to the specification of its format: a malformed file (a line with too few "
    "fields, text that is not in the declared encoding) is refused, and the certificate does not "
    "cover the refusal.",
    SAMPLER_ASSUMPTION,
)
_SEEDED = "The noise comes from a seed: there is no protection from anyone who may know it."


def household_accuracy(record: DerivationRecord, members: int = 4) -> float | None:
    """Return an upper bound on the accuracy of an attack on a household, from a derivation record.

    Edge cases: None if steps sample records.
    """
    if record["mu"] is None:
        return None
    slacks = tuple(SlackPart(**part) for part in record["slacks"])
    return Budget(record["mu"], record["slack"], slacks=slacks).group_curve(members).accuracy()


def noisy_release(values: ArrayLike, scale: float, source: RandomSource) -> FloatArray:
    """Add N(0, scale²·I) to ``values``, on a power-of-two grid that depends on the scale only.

    Guarantee: within :func:`release_slack` of the ideal sum, rounded to the grid.

    Examples:
        >>> from memberbound.release.randomness import InsecureSource
        >>> out = noisy_release([0.1, 7.0], 1.0, InsecureSource(0))
        >>> bool((4 * out == (4 * out).round()).all())
        True
    """
    value = np.asarray(values, dtype=np.float64)
    size = positive("scale", scale)
    noise = size * source.normal(value.size).reshape(value.shape)
    return snap_to_grid(value, noise, COARSE.steps(size))


def release_slack(coordinates: float) -> float:
    """Return the slack (in total variation) of this many floating-point noise draws.

    Theorem: proofs/gradient-descent.md, claim 3; ``coordinates`` is the total over all releases.
    """
    return COARSE.slack(nonnegative("coordinates", coordinates), SIMPLE_ERROR)


@dataclass(frozen=True)
class Slack:
    """The terms of a release's slack, fixed before the table is read.

    ``coordinates`` bounds the number of noisy numbers, ``names`` the number of chances to release a
    name that a single person has.
    """

    coordinates: int
    names: int = 0

    @property
    def parts(self) -> tuple[SlackPart, ...]:
        """The slack by reason."""
        draws = release_slack(self.coordinates)
        parts = [SlackPart(DRAWS, self.coordinates, COARSE.slack_of_one(SIMPLE_ERROR), draws)]
        if self.names:
            chance = up(self.names * CLASS_SLACK)
            parts.append(SlackPart(NAMES, self.names, CLASS_SLACK, chance))
        return tuple(parts)

    @property
    def total(self) -> float:
        """The sum of the parts, rounded up."""
        return sums_up(part.amount for part in self.parts)


@dataclass
class NoisySums:
    """Noise of one scale for at most ``times`` vectors of sums.

    ``coordinates`` counts the numbers drawn so far; ``grid_step`` is the step of their grid.
    """

    scale: float
    times: int
    source: RandomSource
    sensitivity: float = math.nan
    coordinates: int = 0

    def measure(self, sums: ArrayLike, differing: int | None = None) -> FloatArray:
        """Return the sums plus noise, on a grid; any use of the result is post-processing.

        If the length of the vector is secret, ``differing`` is the number of coordinates that can
        have different distributions on neighbouring tables.
        """
        if self.times < 1:
            raise RuntimeError("more vectors of sums were measured than the budget covers.")
        self.times -= 1
        noisy = noisy_release(sums, self.scale, self.source)
        self.coordinates += noisy.size if differing is None else differing
        return noisy

    @property
    def grid_step(self) -> float:
        """The step of the grid."""
        return float(COARSE.steps(self.scale))


@dataclass
class BudgetShare:
    """A share of the privacy budget: ``mu`` bounds the shift of its release under replace-one."""

    name: str
    mu: float
    source: RandomSource = field(default=SECURE, repr=False, compare=False)
    #: The noise of this share, and the number of vectors.
    noise: NoisySums | None = field(default=None, repr=False, compare=False)
    vectors: int = field(default=0, repr=False, compare=False)

    def sums(self, *, sensitivity: float, times: int = 1) -> NoisySums:
        """Return the noise for ``times`` vectors of L2 sensitivity ``sensitivity``.

        Guarantee: the vectors, chosen adaptively, are jointly within the slack of their draws of a
        μ-GDP pair, if replacing a record changes each of them by at most ``sensitivity`` in
        Euclidean norm.
        Theorem: X22, proofs/gradient-descent.md claim 1: the scale is √times·sensitivity/μ.
        Numerics: the scale is rounded up.  Edge cases: a share is spent once.
        """
        if self.noise is not None:
            raise RuntimeError(f"the share {self.name!r} of the budget is already spent.")
        moved = math.sqrt(whole_number("times", times)) * positive("sensitivity", sensitivity)
        self.noise = NoisySums(up(moved / self.mu, 8), times, self.source, sensitivity)
        self.vectors = times
        return self.noise

    def measurement(self, mu: float) -> Measurement:
        """Return the record of the noise drawn, as a part of a budget of ``mu``."""
        noise, part = self.noise, (self.mu / mu) ** 2
        if noise is None:
            return Measurement(self.name, part, self.mu, "l2", None, 0, 0, None, None)
        return Measurement(
            self.name,
            part,
            self.mu,
            "l2",
            noise.sensitivity,
            self.vectors,
            noise.coordinates,
            noise.scale,
            noise.grid_step,
        )

    @classmethod
    def from_measurement(cls, fields: MeasurementRecord) -> BudgetShare:
        """Restore a spent share from a stored measurement."""
        share = cls(fields["name"], positive("mu", fields["mu"]))
        if (scale := fields["noise_scale"]) is not None:
            sensitivity = positive("sensitivity", fields["sensitivity"])
            drawn = whole_number("coordinates", fields["coordinates"], at_least=0)
            share.noise = NoisySums(positive("scale", scale), 0, SECURE, sensitivity, drawn)
            share.vectors = whole_number("vectors", fields["vectors"])
        return share


@dataclass
class Budget:
    """A privacy budget: μ and slack, both fixed before the table is read, and the shares spent.

    Guarantee: all releases charged to shares of this budget are jointly within ``slack`` of a
    ``mu``-GDP pair under replace-one.
    Theorem: X22.  Numerics: shares are rounded down, so that their squares sum to at most μ².

    Examples:
        >>> budget = Budget.for_eta(0.05, slack=1e-9)
        >>> round(budget.mu, 4), budget.curve().eta <= 0.05
        (0.2513, True)
        >>> counts = budget.take("a histogram").sums(sensitivity=HISTOGRAM_MOVES)
        >>> round(counts.scale, 3), counts.measure([10, 20, 30]).shape
        (5.627, (3,))
    """

    mu: float
    slack: float
    _taken: list[BudgetShare] = field(default_factory=list)
    _spent: float = 0.0
    #: The column that identifies the records; None if every row is a record.
    unit: str | None = field(default=None, kw_only=True)
    source: RandomSource = field(default=SECURE, kw_only=True, repr=False)
    #: Called before the first share is taken, to record the budget in a ledger or reject it.
    reserve: Callable[[Budget], None] | None = field(default=None, kw_only=True, repr=False)
    #: The terms of the slack, and the columns with public bounds.
    slacks: tuple[SlackPart, ...] = field(default=(), kw_only=True)
    bounds: tuple[str, ...] = field(default=(), kw_only=True)
    #: The name of a public map of records to features.
    features: str | None = field(default=None, kw_only=True)
    #: The budget's entry in a ledger, once there is one.
    ledger: LedgerPosition | None = field(default=None, kw_only=True)
    _groups: tuple[GroupBound, ...] | None = field(
        default=None, kw_only=True, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        self.mu = positive("mu", self.mu)
        self.slack = fraction("slack", self.slack)
        if self.slack and not self.slacks:
            self.slacks = (SlackPart(_STATED, 1, self.slack, self.slack),)

    @classmethod
    def for_eta(
        cls,
        eta: float,
        *,
        slack: Slack | float,
        unit: str | None = None,
        source: RandomSource = SECURE,
        reserve: Callable[[Budget], None] | None = None,
        bounds: Sequence[str] = (),
        features: str | None = None,
    ) -> Budget:
        """Return the largest budget that achieves η, including its slack."""
        total, parts = (slack.total, slack.parts) if isinstance(slack, Slack) else (slack, ())
        goal = check_eta_range(eta)
        # Round so that ½ + goal is a double: a request for 60 % gives 60 %, not 60.00…01 %.
        goal = min(goal, (0.5 + goal) - 0.5)

        def keeps_eta(mu: float) -> bool:
            return cls(mu, total).curve().eta <= goal

        if not keeps_eta(1e-9):
            raise InputError(
                f"eta must exceed the slack of floating-point noise in this dimension, got {eta!r}."
            )
        mu = last_true(keeps_eta, 1e-9, _LARGEST_MU)
        return cls(
            mu,
            total,
            unit=unit,
            source=source,
            reserve=reserve,
            slacks=parts,
            bounds=tuple(sorted(bounds)),
            features=features,
        )

    @property
    def normal_mu(self) -> float | None:
        """The μ of the Gaussian trade-off that bounds all releases, or None if there is none."""
        return self.mu

    @property
    def shares(self) -> tuple[BudgetShare, ...]:
        """The shares taken so far, in order."""
        return tuple(self._taken)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, for storage with a release."""
        return {
            "mu": self.mu,
            "slack": self.slack,
            "slacks": plain(self.slacks),
            "measurements": plain([share.measurement(self.mu) for share in self._taken]),
            "bounds": list(self.bounds),
            "unit": self.unit,
            "ledger": plain(self.ledger),
            **({} if self.features is None else {"feature_function": self.features}),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **more: Any) -> Self:
        """Restore a spent budget from the fields of :meth:`to_dict`."""
        taken = [BudgetShare.from_measurement(share) for share in fields["measurements"]]
        slacks = tuple(SlackPart(**part) for part in fields["slacks"])
        entered = fields["ledger"]
        return cls(
            fields["mu"],
            fields["slack"],
            taken,
            1.0,
            unit=fields["unit"],
            slacks=slacks,
            bounds=tuple(fields["bounds"]),
            features=fields.get("feature_function"),
            ledger=None if entered is None else LedgerPosition(**entered),
            **more,
        )

    def derivation(self, records: int, theorems: tuple[str, ...]) -> Derivation:
        """Return the record from which a third party recomputes the certificate."""
        measurements = tuple(share.measurement(self.mu) for share in self._taken)
        return Derivation(
            game="neighbour",
            adjacency="replace-one",
            unit=self.unit,
            records=records,
            public=describe_public(self.unit, self.bounds, self.features),
            mu=self.normal_mu,
            slack=self.slack,
            slacks=self.slacks,
            budget_mu=self.mu,
            measurements=measurements,
            budget_spent=math.fsum(part.budget_share for part in measurements),
            sampled=(),
            theorems=theorems,
        )

    def evidence(self, records: int, certificate: Certificate) -> dict[str, object]:
        """Return the fields of a certificate besides its bounds: sentences and derivation."""
        curve = self.curve()
        return {
            "statement": statement(curve.accuracy(), self.unit),
            "groups": self.groups(),
            "derivation": self.derivation(records, certificate.theorems),
            **({} if self.ledger is None else {"ledger": self.ledger}),
        }

    def fractions(self) -> dict[str, float]:
        """Return the fraction of μ² spent on each kind of release, in order."""
        fractions: dict[str, float] = {}
        for share in self._taken:
            fractions[share.name] = fractions.get(share.name, 0.0) + (share.mu / self.mu) ** 2
        return fractions

    @property
    def left(self) -> float:
        """The unspent fraction of μ²."""
        return 1.0 - self._spent

    def take(self, name: str, share: float | None = None) -> BudgetShare:
        """Spend a share of the budget, as a fraction of μ² (None: everything left)."""
        wanted = self.left if share is None else fraction("share", share, open_left=True)
        if not 0 < wanted <= self.left + 2.0**-45:
            raise InputError(f"share must be at most the {self.left!r} left, got {share!r}.")
        if self.reserve is not None and not self._taken:
            self.reserve(self)
        self._spent = min(1.0, self._spent + wanted)
        taken = BudgetShare(name, self.mu * math.sqrt(wanted) * _MARGIN, self.source)
        self._taken.append(taken)
        return taken

    def curve(self) -> SlackCurve:
        """Return the trade-off curve of the whole budget under replace-one, spent or not.

        The curve covers replace-one only, because every release publishes the exact number of rows.
        """
        return SlackCurve(GaussianCurve(self.mu), self.slack)

    def group_curve(self, records: int) -> SlackCurve:
        """Return the curve of several records that are replaced together.

        Theorem: X33, proofs/chained-curves.md: the slack of draws grows with the number of records,
        the slack of names is chained.
        """
        pair = self.curve()
        names = min(1.0, sums_up(p.amount for p in self.slacks if p.reason != DRAWS))
        draws = sums_up(p.amount for p in self.slacks if p.reason == DRAWS)
        group = SlackCurve(pair.base, names).group(records)
        added = sum_up(group.slack, up(whole_number("records", records) * draws))
        return SlackCurve(group.base, min(1.0, added))

    def groups(self) -> tuple[GroupBound, ...]:
        """Return the bounds for groups of records that every certificate includes."""
        if self._groups is None:
            self._groups = group_bounds(self.group_curve, self.unit)
        return self._groups

    def success_upper(self, eta: float) -> float:
        """Return an upper bound on the success rate of any attack on a record's membership.

        ``eta`` is the gain over blind guessing that the certificate states.  The bound is rounded
        up.
        """
        return min(self.curve().accuracy(), sum_up(0.5, eta))

    def readings(self) -> CurveReadings:
        """Return bounds read off the curve, for replacing a record."""
        return _readings(self.curve())

    def certificate(self, *, secure: bool = True) -> Certificate:
        """Return the certificate of η for every record of any table."""
        record = _ROW if self.unit is None else _PERSON.format(unit=self.unit)
        assumed = (record, *_ASSUMPTIONS, *(() if secure else (_SEEDED,)))
        theorems = ("X22",) if self.unit is None else ("X22", "X26")
        return Certificate("eta", self.curve().eta, "upper", NeighbourGame(), theorems, assumed)


@dataclass(frozen=True)
class ReplaceOne:
    """Bounds for every attack under replace-one."""

    advantage_upper: Upper
    accuracy_upper: Upper
    tpr_upper: dict[str, Upper]
    epsilon_upper: Upper


@dataclass(frozen=True)
class CurveReadings:
    """Bounds read off the curve of a budget, for an answer.

    ``mu_upper`` summarizes the curve as μ-GDP, with regret ``mu_regret_upper``
    (:func:`~memberbound.curve.families.gaussian_summary`).
    """

    delta: Given
    eta_upper: Upper
    security_lower: Lower
    replace_one: ReplaceOne
    mu_upper: Upper
    mu_regret_upper: Upper


@lru_cache(maxsize=64)
def _readings(curve: SlackCurve) -> CurveReadings:
    # Cached, because a release, its file and its answer use the same curve, and ε needs a search.
    rates = {repr(fpr): curve.tpr(fpr) for fpr in _READ_FPR}
    epsilon = curve.epsilon(_READ_DELTA)
    replaced = ReplaceOne(curve.advantage, curve.accuracy(), rates, epsilon)
    summed_up = gaussian_summary(curve)
    return CurveReadings(_READ_DELTA, curve.eta, curve.security(), replaced, *summed_up)
