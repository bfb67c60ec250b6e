"""The fitting rows as numbers: what a coarsening would keep, and what it would certify later.

The prediction here decides which recipe is tried, nothing else.  The certificate is computed
afterwards from rows that took no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.discrete.counts import CountProfile
from memberbound.hardening.information import (
    entropy_estimate,
    left_out_prediction,
    target_shares,
)
from memberbound.hardening.ladder import Ladder
from memberbound.tables.coarsening import frequent_groups

__all__ = ["Bench", "Codes", "Score", "State", "Vector"]

Codes = NDArray[np.int64]
Vector = NDArray[np.float64]

#: Position on every ladder, then on the list of pooling thresholds.
State = tuple[int, ...]

#: h(c) = (1-κ)·1{c ≥ 1} + κ√c, the closed form of X5(c).
_KAPPA = 1 / math.sqrt(2 * math.pi)
#: How many standard deviations a prediction is moved to the safe side.
_CAUTION = 1.0


@dataclass(frozen=True)
class Score:
    """Estimates for one coarsening: information in nats, the leak expected to be certified."""

    information: float
    leak: float
    smallest: int

    @property
    def security(self) -> float:
        """The MIS expected to be certified."""
        return 1 - self.leak


class Bench:
    """Evaluate coarsenings of the fitting rows.

    Args:
        ladders: one per column that may be coarsened.
        fixed: numbers of every row's combination of columns that stay as they are, target included.
        keep: the same without the target: what a learner sees besides the coarsened columns.
        target: numbers of the target, or None.
        pools: pooling thresholds in fitting rows, 0 for none.
        every: pool by the rarest combination with ``fixed``, see ``Coarsener``.
        rows: how many rows will be certified.
        confidence: at which confidence.
        subsample: part of the fitting rows, from which growth with the number of rows is read off.
    """

    def __init__(
        self,
        ladders: Sequence[Ladder],
        *,
        fixed: Codes,
        keep: Codes,
        target: Codes | None,
        pools: Sequence[int],
        every: bool,
        rows: int,
        confidence: float,
        subsample: NDArray[np.bool_],
    ) -> None:
        self.ladders = tuple(ladders)
        self.fixed, self.keep = fixed, keep
        self.pools, self.every = tuple(pools), every
        self.rows, self.confidence = rows, confidence
        self.subsample = subsample
        self.size = int(fixed.size)
        self._aim(target)

    def _aim(self, target: Codes | None) -> None:
        self.target = target
        self.shares: Vector = np.ones(self.size) if target is None else target_shares(target)
        #: What the columns that stay predict by themselves.
        self.prior = self.shares
        if target is not None:
            self.prior = left_out_prediction(self.keep, target, self.shares)

    def shuffled(self, order: Codes) -> Bench:
        """Return the same bench with the target's values in another order: they say nothing."""
        twin = copy(self)
        twin._aim(None if self.target is None else self.target[order])
        return twin

    @property
    def start(self) -> State:
        """Every column dropped, the first pooling threshold."""
        return (0,) * (len(self.ladders) + 1)

    @property
    def finest(self) -> State:
        """Every column as fine as its ladder goes, nothing pooled."""
        return (*(len(ladder) - 1 for ladder in self.ladders), self.pools.index(0))

    def groups(self, state: State) -> Codes:
        """Number the combinations of the coarsened columns, before pooling."""
        key = np.zeros(self.size, dtype=np.int64)
        for ladder, level in zip(self.ladders, state, strict=False):
            if level:
                key = _joined(key, ladder.codes[level])
        return key

    def refined(self, groups: Codes, index: int, level: int) -> Codes:
        """Return the groups after one column was refined; a finer plan only splits groups."""
        return _joined(groups, self.ladders[index].codes[level])

    def score(
        self, state: State, groups: Codes, prior: Vector | None = None
    ) -> tuple[Score, Vector | None]:
        """Return the estimates for one coarsening, and what it predicts row by row.

        ``prior`` is the prediction of a coarser state (``shares`` to begin with).
        """
        pooled = self._pooled(state, groups)
        cell = _joined(pooled, self.fixed)
        prediction = None
        if self.target is None:
            information = entropy_estimate(cell)
        else:
            told = self.prior if prior is None else prior
            if pooled is not groups:
                # A pooled row is left with the columns that stay.
                told = np.where(pooled == pooled.max(), self.prior, told)
            prediction = left_out_prediction(_joined(pooled, self.keep), self.target, told)
            information = self.information(prediction)
        counts = np.bincount(cell)
        leak = self._predicted(counts, np.bincount(cell[self.subsample]))
        # Without a pool, combinations that the fitting rows lack would form cells of their own.
        certain = not self.every or self.pools[state[-1]] > 0
        return Score(information, leak, int(counts.min()) if certain else 0), prediction

    def information(self, prediction: Vector) -> float:
        """Return by how many nats a prediction is better than the shares of the target."""
        return float(np.mean(np.log(prediction / self.shares)))

    def profile(self, state: State) -> CountProfile:
        """Return the counts of counts of the fitting rows under one coarsening."""
        cell = _joined(self._pooled(state, self.groups(state)), self.fixed)
        return CountProfile.from_counts(np.bincount(cell))

    def closed_form(self, counts: Codes) -> float:
        """The closed form of X5(c) on the fitting rows, to compare other methods with."""
        return _certified(_count_sum(counts), self.size, self.confidence)

    def _pooled(self, state: State, group: Codes) -> Codes:
        below = self.pools[state[-1]]
        if not below:
            return group
        mask = frequent_groups(group, self.fixed, below, every=self.every)
        return np.where(mask[group], group, mask.size) if not mask.all() else group

    def _predicted(self, counts: Codes, part: Codes) -> float:
        """Leak that the closed form is expected to certify on ``rows`` rows.

        The sum Σh(c) grows with the number of rows like a power that falls from 1 (new cells) to
        ½ (full cells), so extending the power seen between part and whole errs upward.
        """
        total, less = _count_sum(counts), _count_sum(part)
        share = int(part.sum()) / self.size
        power = math.log(max(total / less, 1.0)) / -math.log(share) if 0 < share < 1 else 1.0
        grown = total * (self.rows / self.size) ** min(max(power, 0.5), 1.0)
        grown += _CAUTION * grown * math.sqrt(1 / total + 1 / grown)
        return _certified(grown, self.rows, self.confidence)


def _count_sum(counts: Codes) -> float:
    seen = counts[counts > 0]
    return float((1 - _KAPPA) * seen.size + _KAPPA * np.sqrt(seen).sum())


def _certified(total: float, rows: int, confidence: float) -> float:
    half = -math.log(1 - confidence) / 2
    return min(1.0, (math.sqrt(total + half) + math.sqrt(half)) ** 2 / rows)


def _joined(first: Codes, second: Codes) -> Codes:
    """Number the pairs of two codings from 0, without gaps."""
    import pandas as pd

    key = first * (int(second.max(initial=0)) + 1) + second
    codes: Codes = pd.factorize(key)[0]
    return codes.astype(np.int64)
