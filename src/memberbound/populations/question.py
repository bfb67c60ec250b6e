"""The question of ``population``: which records, how many are drawn, how much noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, up
from memberbound.populations.setting import Quantity
from memberbound.quantities import significant
from memberbound.subset.gaussian import clipped
from memberbound.tables.population import Population, read_population
from memberbound.tables.roles import Roles

__all__ = ["Amount", "Question"]

#: Below this nothing is left to hide among.
FEWEST = 4


@dataclass(frozen=True)
class Amount:
    """How much noise: by ε, by σ, or by what may be reached."""

    epsilon: float | None = None
    sigma: float | None = None
    target_pmp: float | None = None
    target_success: float | None = None

    def __post_init__(self) -> None:
        asked = [name for name, value in vars(self).items() if value is not None]
        if len(asked) != 1:
            raise InputError(
                "population needs exactly one of epsilon, sigma, target_pmp and target_success, "
                f"got {' and '.join(asked) or 'none of them'}."
            )
        name = asked[0]
        value = getattr(self, name)
        if name == "target_success":
            number = fraction(name, value, open_left=True, open_right=True)
        else:
            number = nonnegative(name, value) if name == "epsilon" else positive(name, value)
        object.__setattr__(self, name, number)

    @property
    def target(self) -> tuple[Quantity, float] | None:
        """What an inverse question limits."""
        if self.target_pmp is not None:
            return "pmp", self.target_pmp
        return None if self.target_success is None else ("success", self.target_success)


@dataclass(frozen=True, eq=False)
class Question:
    """The records of the population and what is asked about them."""

    table: Population
    game: SubsetGame
    amount: Amount
    delta: float
    clip: float | None
    sensitivity: float | None
    notes: tuple[str, ...]

    @classmethod
    def about(
        cls,
        records: Any,
        amount: Amount,
        *,
        columns: Any,
        roles: Roles = None,
        database_table: str | None,
        size: int | None,
        delta: float,
        clip: float | None,
        sensitivity: float | None,
    ) -> Question:
        """Read the records; say what is unusual about them."""
        chance = fraction("delta", delta, open_right=True)
        radius = None if clip is None else positive("clip", clip)
        shift = None if sensitivity is None else positive("sensitivity", sensitivity)
        table = read_population(
            records, columns, roles=roles, numeric=True, database_table=database_table
        )
        total = table.values.shape[0]
        if total < FEWEST:
            raise InputError(f"{table.name} must hold at least {FEWEST} records, got {total}.")
        drawn = total // 2 if size is None else whole_number("size", size)
        notes = _remarks(table)
        if size is None and total % 2:
            notes.append(f"{total} records cannot be halved; {drawn} are drawn")
        game = SubsetGame(total, drawn)
        return cls(table, game, amount, chance, radius, shift, tuple(notes))

    def inside_ball(self) -> tuple[FloatArray, float, int | None, tuple[str, ...]]:
        """Return the records inside the ball, its radius, how many were moved, and a note."""
        values = self.table.values
        if self.clip is not None:
            inside, moved = clipped(values, self.clip)
            return inside, self.clip, moved, ()
        # Scaled by the largest entry, so that squares neither overflow nor vanish.
        scale = float(np.abs(values).max()) or 1.0
        length = float(np.sqrt(np.square(values / scale).sum(axis=1).max()))
        radius = up(up(length, values.shape[1] + 8) * scale)
        note = (
            "no clip given: the worst case is over records of norm at most "
            f"{significant(radius, 'upper')}, the largest of these; DP asks for a bound that was "
            "fixed beforehand"
        )
        return values, radius, None, (note,)


def _remarks(table: Population) -> list[str]:
    notes = list(table.selection.notes)
    total = table.values.shape[0]
    distinct = np.unique(table.values, axis=0).shape[0]
    if distinct < total:
        notes.append(
            f"{total - distinct} records repeat another one; rows are told apart by their place, "
            "so somebody with two rows is protected as two records"
        )
    spread = table.values.std(axis=0)
    if spread.max() > 0 and (spread < spread.max() / 100).any():
        loud = table.columns[int(spread.argmax())]
        notes.append(
            f"column {loud!r} varies over 100 times more than another; distances are mostly its "
            "own, so consider scaling the columns"
        )
    return notes
