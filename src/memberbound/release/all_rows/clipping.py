"""Clip the contribution of a record to a sum, exactly, and bound the sensitivity of that sum.

Features and summands are multiples of powers of two, so sums are exact in any order
(proofs/gradient-descent.md, claim 2; proofs/persons.md).
"""

from __future__ import annotations

import math

import numpy as np

from memberbound.numerics.rounding import UNIT, FloatArray, IntArray, sum_slack, up

#: Rows whose products are added up by the BLAS at once.
BLOCK_ROWS = 8192
#: Encoded features are whole multiples of 1/2^13, of size at most 4, and summands of a sum of
#: gradients whole multiples of a step, so that scores and sums are exact in whatever order they are
#: added (proofs/persons.md).
GRID = 2.0**13
LARGEST_FEATURE = 4.0
#: A person's share of the clip is counted in units of 1/2^16.
_SHARES = 2.0**16
#: No row is taken to be shorter: below this, squares underflow.
_SHORTEST = 1e-150


def on_grid(features: FloatArray) -> FloatArray:
    """Return encoded numbers as whole multiples of 1/2^13."""
    cut = np.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE)
    return np.asarray(np.rint(cut * GRID) / GRID)


def summand_step(clip: float, records: int) -> float:
    """Return the power of two to whose multiples summands are cut off.

    Guarantee: sums of features on the grid times such summands are exact: their lengths add up to
    at most ``records``·``clip``, which is below 2^52 units.
    """
    return 2.0 ** (math.frexp(clip * records)[1] - 39)


def row_lengths(squares: FloatArray, terms: int, intercept: float) -> FloatArray:
    """Return √(‖x‖² + b²) of every row, from above: a few roundings, whatever the order of adding.

    ``squares`` are ‖x‖² of rows with so many terms.

    Guarantee: at least the exact length (proofs/gradient-descent.md, claim 2).
    """
    lengths = np.sqrt(squares + intercept * intercept) * (1 + 2 * sum_slack(terms + 1))
    return np.asarray(np.maximum(lengths, _SHORTEST))


def clipped_residuals(
    residuals: FloatArray, lengths: FloatArray, clip: float, starts: IntArray | None = None
) -> FloatArray:
    """Return v = w·r with ‖x‖·‖v‖ ≤ clip for every record, exactly (claim 2).

    ``lengths`` are those of :func:`row_lengths`.  A record whose gradient is shorter keeps it.
    Where ``starts`` says which rows are whose, Σ‖x‖·‖v‖ ≤ clip holds for every person: each row is
    cut off at the clip, and the rows of a person are then shortened by one factor.
    """
    squares = np.zeros(len(residuals))
    for column in residuals.T:  # not by einsum, whose last digit may depend on the place of a row
        squares += column * column
    sizes = np.sqrt(squares) * (1 + 2 * sum_slack(residuals.shape[1]))
    sizes = np.maximum(sizes, _SHORTEST)
    factors = np.minimum(clip * (1 - 16 * UNIT) / (lengths * sizes), 1.0)
    if starts is not None:
        # Whole numbers from above: their sum is the same in whatever order rows stand.
        units = np.ceil(lengths * sizes * factors / clip * (_SHARES * (1 + 2.0**-30)))
        counts = np.diff(starts, append=len(residuals))
        shares = _SHARES / np.maximum(np.add.reduceat(units, starts), _SHARES) * (1 - 16 * UNIT)
        factors = factors * np.repeat(np.where(counts == 1, 1.0, shares), counts)
    return np.asarray(residuals * factors[:, None])


def path_sensitivity(clip: float, rows: int, block: int = BLOCK_ROWS) -> float:
    """Return how far one replaced record can move a computed sum of clipped gradients, from above.

    Guarantee: 2·clip, and what rounding adds: each of the two sums is off by at most
    rows·clip·(γ_block + γ_blocks), in whatever order it was added (claim 2).
    """
    blocks = -(-rows // block)
    off = rows * (sum_slack(block) + sum_slack(blocks))
    return up(2.0 * clip * (1.0 + off), 8)
