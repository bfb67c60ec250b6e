"""The answer of ``population``: bounds for every record of a population under one mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from memberbound.answers import (
    INTERNAL,
    Answer,
    EstimateOf,
    Given,
    Lower,
    OmitEmpty,
    Upper,
    computed,
)
from memberbound.certificate import Certificate
from memberbound.games import SubsetGame, member_name
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import (
    NO_GUARANTEE,
    Side,
    at_confidence,
    marked,
    percent,
    significant,
    vacuous,
)
from memberbound.subset.exponential_setting import ExponentialSetting
from memberbound.subset.gaussian import GaussianSetting
from memberbound.subset.population_record import PopulationRecord
from memberbound.subset.record_bounds import Asked, Comparison, RecordBounds, average_success


@dataclass(frozen=True)
class MethodBounds:
    """Bounds for the worst record from one method alone."""

    pmp_epsilon_upper: Upper
    eta_upper: Upper
    success_upper: Upper

    @classmethod
    def of(cls, bounds: RecordBounds) -> MethodBounds:
        """Return the worst bounds over all records."""
        return cls(bounds.pmp_epsilon_upper, bounds.eta_upper, bounds.success_upper)


@dataclass(frozen=True)
class RecordAtRisk:
    """A record with a large success bound, and its distance from the others."""

    record: int
    pmp_epsilon_upper: Upper
    success_upper: Upper
    mean_distance: EstimateOf
    times_median: EstimateOf | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PopulationAnswer(Answer, Limited):
    """Bounds for every record of a population under one mechanism, with baselines.

    ``success_upper`` is for an attacker who knows all records but not which were drawn,
    ``success_population_upper`` for one who knows all drawn records but one, and
    ``success_worst_case_upper`` for the latter on any data set; ``success_blind`` is the success
    rate of always giving the likelier answer.  All are specific to this mechanism: ``explain`` at
    the same (ε, δ) covers the worst mechanism with that guarantee, and is larger.  ``bounds`` holds
    each record's bounds; if another method gives better ones, ``coupled`` holds those from coupling
    alone, and ``coupling`` the worst of these.
    """

    VERB: ClassVar = "population"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified success of any attack on any record"

    mechanism: str
    query: str
    records: int
    size: int
    epsilon: Given
    delta: Given
    epsilon_population: Upper
    pmp_epsilon_upper: Upper
    eta_upper: Upper
    success_upper: Upper
    success_worst_case_upper: Upper
    success_population_upper: Upper
    success_blind: Upper
    sigma: Given | None
    worst_record: int
    most_exposed: tuple[RecordAtRisk, ...]
    method: str
    confidence: Lower
    clipped_records: int | None
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    unit: str | None = field(default=None, metadata=INTERNAL)
    #: The record that ``verify`` needs in addition to the other keys.
    derivation: PopulationRecord
    coupling: OmitEmpty[MethodBounds | None] = None
    target_pmp: OmitEmpty[Given | None] = None
    target_success: OmitEmpty[Given | None] = None
    game: SubsetGame
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    asked: Asked = field(metadata=INTERNAL)
    setting: GaussianSetting | ExponentialSetting = field(metadata=INTERNAL)
    compared: Comparison = field(metadata=INTERNAL)
    bounds: RecordBounds = field(metadata=INTERNAL)
    coupled: RecordBounds | None = field(default=None, metadata=INTERNAL)
    mean_distance: FloatArray = field(metadata=INTERNAL)
    max_distance: FloatArray = field(metadata=INTERNAL)

    @property
    def certificate(self) -> Certificate:
        """The certified gain η over blind guessing for the most exposed record."""
        promise = (self.game, self.theorems, self.assumptions, self.confidence)
        return Certificate("eta", self.eta_upper, "upper", *promise)

    def sweep(self, epsilons: Sequence[float]) -> list[Comparison]:
        """Return the success bounds of the three attackers at other ε."""
        return [self.setting.comparison(float(epsilon)) for epsilon in epsilons]

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit: any attack on any record."""
        del on
        what = f"any attack on any {member_name(self.unit)} of the population"
        return (Success(what, self.success_blind, ceiling=self.success_upper),)

    @property
    def _epsilon(self) -> str:
        """Format ε: as given, as the short decimal found, or rounded up if derived from σ."""
        return significant(self.epsilon, "upper" if self.asked == "sigma" else "given")

    @property
    def release(self) -> str:
        """The release and its noise in words; the bound holds for this release only."""
        who = member_name(self.unit)
        sample = f"a random half of these {self.records} {who}s"
        if 2 * self.size != self.records:
            sample = f"{self.size} of these {self.records} {who}s, drawn at random"
        at = "" if self.delta == 0 else f" and δ = {significant(self.delta, 'given')}"
        name = "this σ" if self.epsilon == math.inf else f"ε = {self._epsilon}{at}"
        if self.mechanism == "gaussian":
            return f"the {self.query} of {sample}, released with Gaussian noise for {name}"
        return f"the exponential mechanism's {self.query} on {sample}, at {name}"

    @computed
    def sentence(self) -> str:
        """The bound as a sentence that a privacy officer can pass on."""
        sure, who = at_confidence(self.confidence), member_name(self.unit)
        if vacuous(self.success_upper):
            unproved = f"there is no useful guarantee for any {who}'s membership"
            return f"From {self.release}, {unproved}{sure}."
        return (
            f"From {self.release}, an attacker who knows all of them, but not who was drawn, is "
            f"right about any {who}'s membership at most "
            f"{percent(self.success_upper, 'upper')} of the time{sure} (blind guessing: "
            f"{percent(self.success_blind, 'upper')})."
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the rows of the command line's table."""

        def bound(value: float, quantity: str = "epsilon") -> str:
            if value == math.inf or vacuous(value, quantity):
                return NO_GUARANTEE
            return f"≤ {significant(value, 'upper')}"

        at = "" if self.delta == 0 else f" at δ = {significant(self.delta, 'given')}"
        name = self.mechanism.replace("gaussian", "Gaussian")
        who = member_name(self.unit)
        rows: list[tuple[str, object]] = [
            (f"{who}s (drawn)", f"{self.records} ({self.size})"),
            ("release", f"{self.mechanism} mechanism, {self.query}"),
        ]
        if self.sigma is not None:
            # Round up a σ derived from a given ε; a calibrated σ is already a short decimal.
            side: Side = "upper" if self.asked == "epsilon" else "given"
            rows.append(("noise σ", significant(self.sigma, side)))
        eta = marked(self.eta_upper, "certificate", "eta", 6, largest_gain=self.game.largest_gain)
        rows += [
            (f"ε{at}, any data set", self._epsilon),
            (f"ε(X){at}, these {who}s", bound(self.epsilon_population)),
            (f"ε̃{at}, practical", bound(self.pmp_epsilon_upper)),
            (
                f"attack success, this {name} mechanism, any data set",
                marked(self.success_worst_case_upper, "certificate"),
            ),
            (
                f"attack success, this {name} mechanism, these {who}s",
                marked(self.success_population_upper, "certificate"),
            ),
            (
                f"attack success, this {name} mechanism, practical",
                marked(self.success_upper, "certificate"),
            ),
            ("η (MIP)", eta),
            ("method", self.method),
        ]
        if "X21" in self.theorems:
            average = marked(average_success(self.bounds.success), "certificate")
            rows.append((f"attack success, average {who}", average))
        if self.coupling is not None:
            alone = marked(self.coupling.success_upper, "certificate")
            rows.append(("attack success, by coupling alone", alone))
            rows.append(("ε̃, by coupling alone", bound(self.coupling.pmp_epsilon_upper)))
        return rows

    def summary_notes(self) -> list[str]:
        """Return the most exposed records and the warnings."""
        counted = "rows" if self.unit is None else "persons"
        lines = ["", f"most exposed ({counted} counted from 1)"]
        for item in self.most_exposed:
            times = item.times_median
            ratio = (
                "" if times is None else f" (≈ {significant(times, 'estimate', 2)} × the median)"
            )
            lines.append(
                f"  {member_name(self.unit)} {item.record + 1}: attack success "
                f"{marked(item.success_upper, 'certificate')}, mean distance to the others "
                f"≈ {significant(item.mean_distance, 'estimate', 4)}{ratio}"
            )
        return [*lines, *super().summary_notes()]

    def records_table(self) -> pd.DataFrame:
        """Return one row per record, most exposed first; an infinite ε becomes missing.

        Rows, in ``record``, are counted from 1, as in the printed list.
        """
        columns = {
            "success_upper": self.bounds.success,
            "eta_upper": self.bounds.eta,
            "pmp_epsilon_upper": self.bounds.pmp_epsilon,
            "mean_distance": self.mean_distance,
            "max_distance": self.max_distance,
        }
        order = self.bounds.by_exposure
        listed = {name: values[order] for name, values in columns.items()}
        table = pd.DataFrame({"record": order + 1} | listed)
        return table.replace(math.inf, math.nan)
