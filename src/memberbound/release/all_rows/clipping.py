"""Clip the contribution of a record to a sum, exactly, and bound the sensitivity of that sum.

Features and summands are multiples of powers of two, so sums are exact in any order
(proofs/gradient-descent.md, claim 2; proofs/persons.md).
"""

from __future__ import annotations

import math

import numpy as np

from memberbound.numerics.rounding import UNIT, FloatArray, IntArray, sum_slack, up

#: Rows per matrix product.
BLOCK_ROWS = 8192
#: Encoded features are integer multiples of 1/2^13 in [-4, 4], and summands of a gradient sum are
#: integer multiples of a step, so that scores and sums are exact in any order (proofs/persons.md).
GRID = 2.0**13
LARGEST_FEATURE = 4.0
#: Shares of a person's clip are integers in units of 1/2^16.
_SHARES = 2.0**16
#: Lower bound on the computed length of a row: below it, squares underflow.
_SHORTEST = 1e-150


def on_grid(features: FloatArray) -> FloatArray:
    """Round features to multiples of 1/2^13, clipped to ±4."""
    cut = np.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE)
    return np.asarray(np.rint(cut * GRID) / GRID)


def summand_step(clip: float, records: int) -> float:
    """Return the power-of-two step to which summands are truncated.

    Guarantee: sums of products of such summands with features on the grid are exact, because the
    lengths of the summands add up to at most ``records``·``clip``, below 2^52 units.
    """
    return 2.0 ** (math.frexp(clip * records)[1] - 39)


def row_lengths(squares: FloatArray, terms: int, intercept: float) -> FloatArray:
    """Return an upper bound on √(‖x‖² + b²) for every row, in any order of summation.

    ``squares`` are the ‖x‖² of rows with ``terms`` entries.

    Guarantee: at least the exact length (proofs/gradient-descent.md, claim 2).
    """
    lengths = np.sqrt(squares + intercept * intercept) * (1 + 2 * sum_slack(terms + 1))
    return np.asarray(np.maximum(lengths, _SHORTEST))


def clip_residuals(
    residuals: FloatArray, lengths: FloatArray, clip: float, starts: IntArray | None = None
) -> FloatArray:
    """Scale residuals to v = w·r with ‖x‖·‖v‖ ≤ clip for every record, exactly (claim 2).

    ``lengths`` come from :func:`row_lengths`.  Gradients shorter than the clip are unchanged.
    With ``starts``, the first rows of persons, Σ‖x‖·‖v‖ ≤ clip holds for every person: each row is
    clipped, and then all rows of a person are scaled by one factor.
    """
    squares = np.zeros(len(residuals))
    for column in residuals.T:  # einsum may round a row by its index
        squares += column * column
    sizes = np.sqrt(squares) * (1 + 2 * sum_slack(residuals.shape[1]))
    sizes = np.maximum(sizes, _SHORTEST)
    factors = np.minimum(clip * (1 - 16 * UNIT) / (lengths * sizes), 1.0)
    if starts is not None:
        # Integers, rounded up: their sum does not depend on the order of rows.  The factor
        # 1 + 2^-30 also covers every rounding of the shares.
        units = np.ceil(lengths * sizes * factors / clip * (_SHARES * (1 + 2.0**-30)))
        counts = np.diff(starts, append=len(residuals))
        shares = _SHARES / np.maximum(np.add.reduceat(units, starts), _SHARES)
        factors = factors * np.repeat(np.where(counts == 1, 1.0, shares), counts)
    return np.asarray(residuals * factors[:, None])


def path_sensitivity(clip: float, rows: int, block: int = BLOCK_ROWS) -> float:
    """Return an upper bound on the L2 sensitivity of a computed sum of clipped gradients.

    Guarantee: replace-one.  2·clip plus rounding: the error of each of the two sums is at most
    rows·clip·(γ_block + γ_blocks), in any order of summation (claim 2).
    """
    blocks = -(-rows // block)
    off = rows * (sum_slack(block) + sum_slack(blocks))
    return up(2.0 * clip * (1.0 + off), 8)
