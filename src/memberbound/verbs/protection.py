"""Answers of the releasing verbs: a noisy model or statistics, with a certificate."""

from __future__ import annotations

import math
import shlex
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from memberbound.answers import (
    INTERNAL,
    CertifiedAnswer,
    EstimateOf,
    Given,
    OmitEmpty,
    Upper,
    computed,
)
from memberbound.certificate import Certificate
from memberbound.games import GUESSES_STAND_ALONE, SubsetGame, member_name
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import (
    NO_GUARANTEE,
    at_confidence,
    decimals,
    interval,
    marked,
    mu_row,
    percent,
    significant,
)
from memberbound.release.budget import Budget, CurveReadings
from memberbound.release.calibration import Calibration, Release
from memberbound.release.derivation import Derivation, GroupBound
from memberbound.release.model_quality import ReleaseScore
from memberbound.release.precision import NumberInterval

if TYPE_CHECKING:
    from memberbound.release.all_rows.models import PrivateModel
    from memberbound.release.half.half_estimator import TableModel
    from memberbound.tables.records import Records

#: Number of values of a released vector that the table shows.
_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReleaseAnswer(CertifiedAnswer):
    """Fields shared by all releases: the noise, the certificate and the scores."""

    calibration: Calibration = field(metadata=INTERNAL)
    released: TableModel | PrivateModel | Release = field(metadata=INTERNAL)
    model_scores: tuple[ReleaseScore, ...] = field(default=(), metadata=INTERNAL)
    what: str
    out: str | None = None
    warnings: tuple[str, ...] = ()

    @computed
    def certificate(self) -> Certificate:
        """The certificate."""
        return self.calibration.certificate

    @computed
    def eta(self) -> Given:
        """The requested η."""
        return self.calibration.eta

    @computed
    def record(self) -> str:
        """Whether the certificate protects the average record or every record."""
        return self.calibration.record

    @computed
    def method(self) -> str:
        """The method by which the noise was calibrated."""
        return self.calibration.method

    @computed
    def noise_scale(self) -> Given:
        """Root-mean-square length of the added noise vector."""
        return self.calibration.noise_scale

    @computed
    def rows_trained(self) -> int:
        """Number of rows used for the release."""
        raise NotImplementedError

    @computed
    def score(self) -> str | None:
        """The name of the first score: accuracy, or R²."""
        return self.model_scores[0].name if self.model_scores else None

    @computed
    def score_clean(self) -> EstimateOf | None:
        """The first score, without noise."""
        return self.model_scores[0].clean_estimate if self.model_scores else None

    @computed
    def score_released(self) -> EstimateOf | None:
        """The first score of the released model."""
        return self.model_scores[0].released_estimate if self.model_scores else None

    @computed
    def score_baseline(self) -> EstimateOf | None:
        """The first score of a constant prediction."""
        return self.model_scores[0].constant_estimate if self.model_scores else None

    @computed
    def scores(self) -> dict[str, ReleaseScore]:
        """All scores by name."""
        return {score.name: score for score in self.model_scores}

    @computed
    def owner_only(self) -> tuple[str, ...]:
        """The keys that must not be published; none if the population is public."""
        return ()

    @property
    def blind(self) -> float:
        """Success rate of always giving the likelier answer."""
        return self.game.blind if isinstance(self.game, SubsetGame) else 0.5

    @property
    def success_upper(self) -> float:
        """Upper bound on the success rate of any attack, rounded up."""
        return sum_up(self.blind, self.certificate.value)

    @property
    @abstractmethod
    def protected(self) -> Literal["record", "person"]:
        """The unit of protection: "person" if a column identifies persons."""

    def _sentence(self, knows: str, odds: str = "") -> str:
        """State the bound for an attacker with this knowledge."""
        bound = self.certificate
        whom = f"{'any' if self.record == 'every' else 'the average'} {self.protected}'s"
        return (
            f"Nobody who knows {knows}, and sees the released {self.what}, is right about {whom} "
            f"membership more than {percent(self.success_upper, 'upper')} of the "
            f"time{at_confidence(bound.confidence)}: guessing blindly is right "
            f"{percent(self.blind, 'upper')} of the time{odds}, and the release adds at most "
            f"{percent(bound.value, 'upper').removesuffix(' %')} points."
        )

    @abstractmethod
    def curve_rows(self) -> list[tuple[str, object]]:
        """Return table rows about the curve, or about the calibration."""

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the table rows of the release, its scores and its values."""
        eta = marked(self.certificate.value, "certificate", "eta", 6, largest_gain=1 - self.blind)
        rows: list[tuple[str, object]] = [
            ("released", self.what),
            ("protects", f"{self.record} {self.protected}"),
            ("η certified", eta),
            ("method", self.method),
            ("noise size", significant(self.noise_scale, "upper")),
            *self.curve_rows(),
        ]
        private = " (owner only)" if self.owner_only else ""
        for score in self.model_scores:
            rows += [
                (
                    f"{score.name} {what}",
                    f"≈ {decimals(value, 'estimate', 4)}"
                    + (f" ± {decimals(spread, 'estimate', 3)}" if spread else "")
                    + private,
                )
                for what, value, spread in (
                    ("without noise", score.clean_estimate, None),
                    ("released", score.released_estimate, score.spread_estimate),
                    ("of a constant", score.constant_estimate, None),
                )
                if value is not None
            ]
        if isinstance(self.released, Release):
            values = self.released.values.tolist()
            names = self.released.names or tuple(f"value {i}" for i in range(len(values)))
            pairs = list(zip(names, values, strict=True))
            bars = self.released.intervals or (None,) * len(pairs)
            rows += [
                (name, significant(value, "given") if bar is None else value_row(value, bar))
                for (name, value), bar in zip(pairs[:_SHOWN], bars[:_SHOWN], strict=True)
            ]
            if len(pairs) > _SHOWN:
                rows.append(("…", f"{len(pairs) - _SHOWN} more"))
        if self.out is not None:
            rows.append(("written", self.out))
        return rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AllRows(CertifiedAnswer):
    """The part of an all-rows answer that is derived from its privacy budget.

    ``warnings`` and the other keys in ``owner_only`` are computed from the secret rows outside any
    privacy budget: they are for the owner of the rows.  Everything else may be published.
    """

    bounds: tuple[str, ...]
    columns: tuple[str, ...]
    out: str | None = None
    warnings: tuple[str, ...] = ()
    #: Chances of guessing a fact about a record without the release.
    baseline: tuple[float, ...] = field(default=(), metadata=INTERNAL)

    if TYPE_CHECKING:

        @property
        def spent(self) -> Budget: ...  # noqa: D102

        @property
        def members(self) -> int: ...  # noqa: D102

    def summary_notes(self) -> list[str]:
        """Return the notes, which are for the owner."""
        return [f"note (owner only): {warning}." for warning in self.warnings]

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """The theorems behind the certificate, and behind the bounds on other guesses if any."""
        return (*super().theorems, *(("X23",) if self.baseline else ()))

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the certificate, and of the bounds on other guesses if any."""
        beyond = (GUESSES_STAND_ALONE,) if self.baseline else ()
        return (*super().assumptions, *beyond)

    @computed
    def mu(self) -> Given | None:
        """The μ of the Gaussian trade-off that bounds the release, or None."""
        return self.spent.normal_mu

    @computed
    def curve(self) -> CurveReadings:
        """Bounds read from the trade-off curve, for replacing a record."""
        return self.spent.readings()

    @computed
    def groups(self) -> tuple[GroupBound, ...]:
        """Bounds for several records together, such as a household."""
        return self.spent.groups()

    @computed
    def derivation(self) -> Derivation:
        """The record from which ``verify`` recomputes the bounds."""
        return self.spent.derivation(self.members, self.certificate.theorems)

    @computed
    def budget(self) -> dict[str, Given]:
        """Shares of μ² by kind of noisy sum."""
        return self.spent.fractions()

    @computed
    def guess_upper(self) -> OmitEmpty[dict[str, Upper]]:
        """Best chance of guessing a fact about a record, by the chance without the release."""
        curve = self.spent.curve()
        return {repr(before): curve.tpr(before) for before in self.baseline}

    def curve_rows(self) -> list[tuple[str, object]]:
        """Return table rows of bounds from the curve and of budget shares."""
        readings, replaced = self.curve, self.curve.replace_one
        who = member_name(self.spent.unit)
        rows: list[tuple[str, object]] = [
            ("TPR - FPR", f"{marked(replaced.advantage_upper, 'certificate')} ({who} replaced)")
        ]
        for rate, tpr in replaced.tpr_upper.items():
            at = f"TPR at FPR {percent(float(rate), 'given')}"
            rows.append((at, f"{marked(tpr, 'certificate')} ({who} replaced)"))
        proved = NO_GUARANTEE
        if replaced.epsilon_upper < np.inf:
            proved = f"≤ {significant(replaced.epsilon_upper, 'upper', 4)}"
        at = f"ε at δ = {significant(readings.delta, 'given')}"
        rows.append((at, f"{proved} ({who} replaced)"))
        sizes = ", ".join(str(group.records) for group in self.groups)
        together = ", ".join(str(marked(g.accuracy_upper, "certificate")) for g in self.groups)
        rows.append((f"{sizes} {who}s together", together))
        rows.append(mu_row(readings.mu_upper, readings.mu_regret_upper, who))
        rows.append(("MIS", marked(readings.security_lower, "certificate", "security", 4)))
        spent = [f"{name} {percent(share, 'estimate')}" for name, share in self.budget.items()]
        if len(spent) > 1:
            rows.append(("privacy budget spent on", ", ".join(spent)))
        for before, after in self.guess_upper.items():
            at = f"a guess right {percent(float(before), 'given')} of the time before"
            rows.append((at, marked(after, "certificate")))
        return rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Protection(AllRows, ReleaseAnswer):
    """A model of all rows, in the neighbour game."""

    VERB: ClassVar = "protect"

    @property
    def spent(self) -> Budget:
        """The privacy budget of the release."""
        budget: Budget = getattr(self.released, "budget")  # noqa: B009 (a union of releases)
        return budget

    @property
    def protected(self) -> Literal["record", "person"]:
        """The unit of protection: "person" if a column identifies persons."""
        return member_name(self.spent.unit)

    @property
    def members(self) -> int:
        """Number of records."""
        return self.rows_trained

    @computed
    def rows_trained(self) -> int:
        """Number of records used for the release: rows, or persons with all their rows."""
        return int(getattr(self.released, "rows"))  # noqa: B009 (a union of releases)

    @computed
    def persons(self) -> int | None:
        """Number of persons, or None if every row is a record."""
        return None if self.spent.unit is None else self.rows_trained

    @computed
    def owner_only(self) -> tuple[str, ...]:
        """The keys that must not be published."""
        return ("score", "score_baseline", "score_clean", "score_released", "scores", "warnings")

    @property
    def success_upper(self) -> float:
        """Upper bound on the success rate of any attack, rounded up."""
        return self.spent.success_upper(self.certificate.value)

    @computed
    def sentence(self) -> str:
        """A sentence to pass on with the release: the bound, the attacker and the public facts."""
        public = " and the columns' names"
        if self.bounds:
            public = ", the columns' names and the bounds given"
        verb = "computed from" if isinstance(self.released, Release) else "trained on"
        rows, number = f"all {self.rows_trained} rows", "its number of rows"
        if (unit := self.spent.unit) is not None:
            rows = f"all rows of {self.rows_trained} persons (values of {unit!r})"
            number = "the number of persons"
        return (
            f"{self._sentence(f'every other {self.protected}')} It was {verb} {rows}; no part of "
            f"the table is public except {number}{public}."
        )


def value_row(value: float, bar: NumberInterval) -> str:
    """Format a value with its standard error and intervals, to their significant digits."""
    low, high = bar.table_lower, bar.table_upper
    if low is None or high is None or not high > low:
        return significant(value, "given")
    places = max(0, 2 - math.floor(math.log10(high - low)))
    text = decimals(value, "estimate", places)
    if bar.standard_error is not None:
        text += f" ± {decimals(bar.standard_error, 'upper', places)}"
    text += f"; 95 %: {interval(low, high, places)} for this table"
    if bar.population_lower is not None and bar.population_upper is not None:
        wide = interval(bar.population_lower, bar.population_upper, places)
        text += f", {wide} for the population"
    return text


def unit_and_seed_notes(
    unit: str | None, seed: int | None, *, persons: int, table: Records
) -> tuple[str, ...]:
    """Return notes on the unit of protection, on repeated identifiers and on an insecure seed.

    They are for the owner of the rows only: repeated identifiers are detected from the rows, and
    the number of rows is secret if a record is a person.
    """
    notes = [
        f"values of {name!r} repeat: if one person has several rows, use --unit "
        f"{shlex.quote(name)}; without it one row is protected, not all rows of a person"
        for name in table.repeated
    ]
    if unit is not None and persons == table.rows:
        notes.append(f"every value of {unit!r} has one row: the release is the same without unit")
    elif unit is not None:
        notes.append(
            f"one person is one value of {unit!r}, with all of its rows: {persons} persons have "
            f"{table.rows} rows"
        )
    if seed is not None:
        notes.append("noise comes from a seed: anyone who knows it knows the members")
    return tuple(notes)
