"""One parameter varied, several trials at every value, several quantities per trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import json_number

__all__ = ["Average", "Progress", "Row", "Sweep", "swept"]

Progress = Callable[[int, int], None]
#: A line of a table: every cell is a number, a text, or missing.
Row = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Average:
    """A mean over trials with its standard error (0 for a single trial)."""

    mean: float
    standard_error: float
    trials: int

    @classmethod
    def of(cls, values: FloatArray) -> Average:
        """Average the values that are numbers: a ratio 0/0 is no measurement."""
        kept = values[np.isfinite(values)]
        if kept.size == 0:
            return cls(math.nan, math.nan, 0)
        spread = float(kept.std(ddof=1)) if kept.size > 1 else 0.0
        return cls(float(kept.mean()), spread / math.sqrt(kept.size), int(kept.size))


@dataclass(frozen=True, eq=False)
class Sweep:
    """``quantities[name]`` is an array with one row per value and one column per trial."""

    parameter: str
    values: tuple[float, ...]
    quantities: Mapping[str, FloatArray]

    def place(self, value: float) -> int:
        """Return the row of a value."""
        return self.values.index(value)

    def at(self, quantity: str, value: float) -> Average:
        """Average a quantity over the trials at one value."""
        return Average.of(self.quantities[quantity][self.place(value)])

    def averages(self, quantity: str) -> list[Average]:
        """Average a quantity at every value."""
        return [Average.of(row) for row in self.quantities[quantity]]

    def rows(self) -> list[Row]:
        """Return mean, standard error and number of trials of every quantity, one row per value."""
        found: list[Row] = []
        for place, value in enumerate(self.values):
            row: Row = {self.parameter: value}
            for name, table in self.quantities.items():
                average = Average.of(table[place])
                row[f"{name}_mean"] = json_number(average.mean)
                row[f"{name}_se"] = json_number(average.standard_error)
                row[f"{name}_n"] = average.trials
            found.append(row)
        return found

    def trial_rows(self) -> Iterator[Row]:
        """Return every trial, one row each."""
        trials = next(iter(self.quantities.values())).shape[1]
        for place, value in enumerate(self.values):
            for trial in range(trials):
                row: Row = {self.parameter: value, "trial": trial}
                for name, table in self.quantities.items():
                    row[name] = json_number(float(table[place, trial]))
                yield row


def swept(
    parameter: str,
    values: Sequence[float],
    trials: int,
    measure: Callable[[int], Sequence[Mapping[str, float]]],
    progress: Progress | None,
) -> Sweep:
    """Run ``measure(trial)``, which returns the quantities at every value, for all trials."""
    columns = []
    for trial in range(trials):
        columns.append(measure(trial))
        if progress is not None:
            progress(trial + 1, trials)
    quantities = {
        name: np.array([[at[place][name] for at in columns] for place in range(len(values))])
        for name in columns[0][0]
    }
    return Sweep(parameter, tuple(values), quantities)
