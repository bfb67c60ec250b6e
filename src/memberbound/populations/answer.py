"""The answer of ``population``: what ε means for these records."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memberbound.files import written_whole
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.populations.question import Amount
from memberbound.populations.setting import Comparison, Setting
from memberbound.quantities import (
    Certificate,
    Side,
    Sides,
    at_confidence,
    common_fields,
    json_number,
    marked,
    percent,
    significant,
    vacuous,
)
from memberbound.subset.bounds import RecordBounds

__all__ = ["PopulationAnswer"]

_BOUNDS: Sides = {"eta_upper": "upper", "pmp_epsilon_upper": "upper", "success_upper": "upper"}


@dataclass(frozen=True, eq=False)
class PopulationAnswer:
    """Bounds for every record of a population under one mechanism, and what they compare with."""

    SIDES: ClassVar[Sides] = {
        **_BOUNDS,
        "confidence": "lower",
        "coupling": _BOUNDS,
        "delta": "given",
        "epsilon": "given",
        "epsilon_population": "upper",
        "most_exposed": {**_BOUNDS, "mean_distance": "estimate", "times_median": "estimate"},
        "sigma": "given",
        "success_blind": "upper",
        "success_population_upper": "upper",
        "success_worst_case_upper": "upper",
        "target_pmp": "given",
        "target_success": "given",
    }

    mechanism: str
    query: str
    bounds: RecordBounds
    coupled: RecordBounds | None
    epsilon: float
    epsilon_population: float
    sigma: float | None
    compared: Comparison
    mean_distance: FloatArray
    max_distance: FloatArray
    distance: str
    clipped: int | None
    amount: Amount
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    setting: Setting = field(repr=False, kw_only=True)

    @property
    def game(self) -> SubsetGame:
        """The subset game: N records, k of them drawn."""
        return self.bounds.game

    @property
    def delta(self) -> float:
        """The δ at which all three ε are read."""
        return self.bounds.delta

    @property
    def pmp_epsilon_upper(self) -> float:
        """ε̃ for this population; never above the worst case over it."""
        return min(self.bounds.pmp_epsilon_upper, self.epsilon_population, self.epsilon)

    @property
    def success_upper(self) -> float:
        """No practical attack on any record is right more often."""
        return self.compared.practical

    @property
    def eta_upper(self) -> float:
        """Gain of the best attack over the blind guess, worst record."""
        return self.bounds.eta_upper

    @property
    def worst_record(self) -> int:
        """Row of the most exposed record, counted from 0."""
        return self.bounds.worst_record

    def sweep(self, epsilons: Sequence[float]) -> list[Comparison]:
        """Return the success bounds of the three attackers at other ε."""
        return [self.setting.comparison(float(epsilon)) for epsilon in epsilons]

    def most_exposed(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the records with the largest success bounds and their distance from the rest."""
        order = np.lexsort((self.bounds.pmp_epsilon, self.bounds.success))[::-1][:count]
        typical = float(np.median(self.mean_distance))
        return [
            {
                "record": int(row),
                "pmp_epsilon_upper": json_number(float(self.bounds.pmp_epsilon[row])),
                "success_upper": float(self.bounds.success[row]),
                "mean_distance": float(self.mean_distance[row]),
                "times_median": json_number(
                    float(self.mean_distance[row]) / typical if typical > 0 else None
                ),
            }
            for row in order
        ]

    def certificate(self) -> Certificate:
        """Return the success bound as a certificate."""
        return Certificate(
            "accuracy of any attack on any record",
            self.success_upper,
            "upper",
            self.game,
            self.bounds.theorems,
            self.bounds.assumptions,
            self.bounds.confidence,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields(
            "population", self.game, self.bounds.theorems, self.bounds.assumptions
        )
        result |= {
            "mechanism": self.mechanism,
            "query": self.query,
            "records": self.game.population,
            "size": self.game.size,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "epsilon_population": json_number(self.epsilon_population),
            "pmp_epsilon_upper": json_number(self.pmp_epsilon_upper),
            "eta_upper": self.eta_upper,
            "success_upper": self.success_upper,
            "success_worst_case_upper": self.compared.worst_case,
            "success_population_upper": self.compared.population,
            "success_blind": self.blind,
            "sigma": self.sigma,
            "worst_record": self.worst_record,
            "most_exposed": self.most_exposed(),
            "method": self.bounds.method,
            "confidence": self.bounds.confidence,
            "clipped_records": self.clipped,
            "warnings": list(self.warnings),
            "records_out": self.records_out,
            "roles": dict(self.roles),
            "sentence": self.sentence,
        }
        if self.coupled is not None:
            result["coupling"] = {
                "pmp_epsilon_upper": json_number(self.coupled.pmp_epsilon_upper),
                "eta_upper": self.coupled.eta_upper,
                "success_upper": self.coupled.success_upper,
            }
        if self.amount.target is not None:
            quantity, limit = self.amount.target
            result[f"target_{quantity}"] = limit
        return result

    @property
    def blind(self) -> float:
        """Accuracy of always giving the likelier answer."""
        return max(self.game.prior, 1 - self.game.prior)

    @property
    def _epsilon(self) -> str:
        """ε: as given, the largest that may be used (down), or one that follows from σ (up)."""
        side: Side = "upper" if self.amount.sigma is not None else "given"
        return significant(self.epsilon, "lower" if self.amount.target is not None else side)

    @property
    def release(self) -> str:
        """What is released, with what noise: a bound holds for this and nothing else."""
        total, drawn = self.game.population, self.game.size
        whose = f"a random half of these {total} records"
        if 2 * drawn != total:
            whose = f"{drawn} of these {total} records, drawn at random"
        at = "" if self.delta == 0 else f" and δ = {significant(self.delta, 'given')}"
        name = "this σ" if self.epsilon == float("inf") else f"ε = {self._epsilon}{at}"
        if self.mechanism == "gaussian":
            what, _, answers = self.query.partition(", ")
            what += f" ({answers})" if answers else ""
            return f"the {what} of {whose}, released with Gaussian noise for {name}"
        return f"the exponential mechanism's {self.query} on {whose}, at {name}"

    @property
    def sentence(self) -> str:
        """A sentence a privacy officer can pass on."""
        sure = at_confidence(self.bounds.confidence)
        if vacuous(self.success_upper):
            return f"From {self.release}, nothing is proved about any record's membership{sure}."
        return (
            f"From {self.release}, an attacker who knows all of them, but not who was drawn, is "
            "right about any record's membership at most "
            f"{percent(self.success_upper, 'upper')} of the time{sure}; guessing blindly is right "
            f"{percent(self.blind, 'upper')}."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""

        def number(value: float) -> str:
            proved = value != float("inf")
            return f"≤ {significant(value, 'upper')}" if proved else "nothing is proved"

        at = "" if self.delta == 0 else f" at δ = {significant(self.delta, 'given')}"
        rows: list[tuple[str, object]] = [
            ("records, drawn", f"{self.game.population}, {self.game.size}"),
            ("release", f"{self.mechanism} mechanism, {self.query}"),
        ]
        if self.sigma is not None:
            # Less noise than was looked for would break the target.
            side: Side = "upper" if self.amount.sigma is None else "given"
            rows.append(("noise σ", significant(self.sigma, side)))
        rows += [
            (f"ε{at}, any data set", self._epsilon),
            (f"ε(X){at}, these records", number(self.epsilon_population)),
            (f"ε̃{at}, practical", number(self.pmp_epsilon_upper)),
            ("success, knows all but one", marked(self.compared.worst_case, "certificate")),
            ("success, … of these records", marked(self.compared.population, "certificate")),
            ("success, practical", marked(self.success_upper, "certificate")),
            ("η (MIP)", marked(self.eta_upper, "certificate", "eta", 6)),
            ("method", self.bounds.method),
        ]
        if self.coupled is not None:
            rows.append(("… ε̃ by coupling alone", number(self.coupled.pmp_epsilon_upper)))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        shown = "\n".join(f"  {self._exposed(item)}" for item in self.most_exposed())
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}\n\nmost exposed (rows counted from 0)\n{shown}{notes}"

    def _exposed(self, item: dict[str, Any]) -> str:
        times = item["times_median"]
        return (
            f"record {item['record']}: success {marked(item['success_upper'], 'certificate')}, "
            f"{self.distance} ≈ {significant(item['mean_distance'], 'estimate', 4)}"
            + ("" if times is None else f" (≈ {significant(times, 'estimate', 2)} × the median)")
        )


def write_records(answer: PopulationAnswer, target: Path, *, force: bool) -> str:
    """Write one line per record, most exposed first; the file appears whole or not at all."""
    order = np.lexsort((answer.bounds.pmp_epsilon, answer.bounds.success))[::-1]
    columns = {
        "record": order,
        "success_upper": answer.bounds.success[order],
        "eta_upper": answer.bounds.eta[order],
        "pmp_epsilon_upper": answer.bounds.pmp_epsilon[order],
        "mean_distance": answer.mean_distance[order],
        "max_distance": answer.max_distance[order],
    }

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            # repr keeps every digit: a bound must not shrink on its way into a file.
            lines.writerows(
                ["" if value == float("inf") else repr(value) for value in line]
                for line in zip(*(column.tolist() for column in columns.values()), strict=True)
            )

    written_whole(target, write, force)
    return str(target)
