"""Detect rows that two samples have in common beyond chance.

Two independent samples of a coarse table share most of their values, so equal values alone prove
nothing.  But given the pooled counts, every division of the N rows into n table rows and m
reference rows is equally likely.  Common rows make the two samples more similar than a random
division: the statistic Y = Σ_k (a_k - qt_k)²/t_k (a_k of the t_k rows of cell k lie in the table, q
= n/N) falls below its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.iid.profiles import JointProfile
from memberbound.numerics.rounding import FloatArray

#: Identical samples are rejected if a random division gives them with at most this probability.
_CHANCE = 1e-3
#: Thresholds to warn and to reject: standard deviations below the mean, and excess shared rows.
_WARN = (3.0, 3.0)
_REFUSE = (6.0, 10.0)


@dataclass(frozen=True)
class Overlap:
    """The agreement of two samples.

    ``shared`` reference rows equal a row of the table, ``expected`` of them for independent samples
    with the same pooled counts.  ``likeness`` is the number of standard deviations by which Y is
    below its mean, ``identical`` the probability of equal samples by chance (``None`` unless they
    are equal), and ``repeats`` whether some row occurs twice in one sample.
    """

    rows: int
    reference_rows: int
    shared: int
    expected: float
    shared_of_table: int
    expected_of_table: float
    likeness: float
    identical: float | None
    repeats: bool

    @classmethod
    def of(cls, joint: JointProfile) -> Overlap:
        """Compare two samples by their joint counts.

        Examples:
            >>> apart = Overlap.of(JointProfile.from_counts([1, 2, 1, 0, 0], [0, 0, 0, 1, 1]))
            >>> apart.shared, apart.identical, apart.noted
            (0, None, False)
            >>> Overlap.of(JointProfile.from_counts([1] * 50, [1] * 50)).refused
            True
            >>> Overlap.of(JointProfile.from_counts([7, 9], [7, 9])).refused  # chance deals that
            False
        """
        a, b, cells = joint.train, joint.reference, joint.cells
        n, m = joint.rows, joint.reference_rows
        total, pooled = n + m, (a + b).astype(np.float64)
        q = n / total
        product = q * (1 - q)
        atoms = float(cells.sum())
        found = float(((a - q * pooled) ** 2 / pooled) @ cells)
        mean = product * total * (atoms - 1) / (total - 1)
        # Binomial counts, given their sum: subtract the part of Y that the sum explains.
        spread = product * (1 + (3 * (pooled - 2) - pooled) * product) / pooled
        variance = float(spread @ cells) - atoms**2 * product * (1 - 2 * q) ** 2 / total
        likeness = 0.0
        if variance > 1e-9 * atoms * product:
            likeness = (mean - found) / math.sqrt(variance)
        identical = None
        if np.array_equal(a, b):
            logs = special.gammaln(2.0 * a + 1) - 2 * special.gammaln(a + 1.0)
            whole = special.gammaln(2.0 * n + 1) - 2 * special.gammaln(n + 1.0)
            identical = math.exp(min(0.0, float(logs @ cells) - float(whole)))
        return cls(
            n,
            m,
            int(b[a > 0] @ cells[a > 0]),
            _expected_matches(pooled, cells, m, total),
            int(a[b > 0] @ cells[b > 0]),
            _expected_matches(pooled, cells, n, total),
            likeness,
            identical,
            bool((a > 1).any() or (b > 1).any()),
        )

    @property
    def refused(self) -> bool:
        """Whether the samples are (mostly) the same rows."""
        if self.identical is not None and self.identical <= _CHANCE:
            return True
        return self._beyond(*_REFUSE) and any(
            shared - expected > (size - expected) / 2
            for shared, expected, size in (
                (self.shared, self.expected, self.reference_rows),
                (self.shared_of_table, self.expected_of_table, self.rows),
            )
        )

    @property
    def noted(self) -> bool:
        """Whether to warn about the shared rows."""
        distinct = self.shared > 0 and not self.repeats
        return distinct or self.identical is not None or self._beyond(*_WARN)

    def _beyond(self, deviations: float, rows: float) -> bool:
        return self.likeness >= deviations and self.shared - self.expected >= rows


def _expected_matches(pooled: FloatArray, cells: NDArray[np.int64], size: int, total: int) -> float:
    """Return the expected number of rows of a sample that have an equal row in the other one."""
    # P(all t rows of a cell fall into this sample, so that none is in the other one).
    alone = special.gammaln(size + 1.0) - special.gammaln(np.maximum(size - pooled, 0) + 1.0)
    alone -= special.gammaln(total + 1.0) - special.gammaln(total - pooled + 1.0)
    alone = np.where(pooled > size, 0.0, np.exp(np.minimum(alone, 0.0)))
    return float((pooled * (size / total - alone)) @ cells)
