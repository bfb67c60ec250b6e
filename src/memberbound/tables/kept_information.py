"""Information kept by a coarsened table: estimates, never certificates.

With a target the measure is the mutual information between the coarsened row and the target, by
leave-one-out prediction: each row's target is predicted from the other rows of its cell.  For
all-distinct rows, the plug-in value would be the full entropy of the target.  Cells with few rows
shrink to the prediction from the unchanged columns.

Estimating the shares of a cell from its rows costs about (cells - 1)(values - 1)/2N nats.  The
search includes this cost, since a learner would bear it; as an estimate of the information it is
a bias.  So report the gain over the same prediction for shuffled targets, which carry no
information at the same cost.

Without a target the measure is the entropy of the coarsened row, with the Miller–Madow correction.
"""

from __future__ import annotations

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.tables.ladders import Codes, pair_codes

#: Weight of the prior prediction, in rows per value of the target, when a cell predicts.
_PRIOR_ROWS = 1.0


def prediction_information(cell: Codes, kept: Codes, target: Codes) -> float:
    """Return the gain in nats of predicting a target from its cell's other rows over its shares.

    ``kept`` codes the unchanged columns; the prediction from them is the prior.
    """
    shares = np.bincount(target)[target] / target.size
    prior = _left_out_prediction(kept, target, shares)
    prediction = _left_out_prediction(pair_codes(cell, kept), target, prior)
    return float(np.mean(np.log(prediction / shares)))


def _left_out_prediction(cell: Codes, target: Codes, prior: FloatArray) -> FloatArray:
    """Return the leave-one-out probability of every row's target, given its cell.

    ``prior`` is that probability from a coarser table, also without the row itself.
    """
    width = int(target.max()) + 1
    others = np.bincount(cell)[cell] - 1.0
    same_target = pair_codes(cell, target)
    same = np.bincount(same_target)[same_target] - 1.0
    weight = _PRIOR_ROWS * width
    return (same + weight * prior) / (others + weight)


def entropy_estimate(cell: Codes) -> float:
    """Return an estimate of the entropy of the cell in nats.

    Examples:
        >>> round(entropy_estimate(np.tile(np.arange(4), 250)), 2)  # ln 4 = 1.386
        1.39
    """
    counts = np.bincount(cell)
    counts = counts[counts > 0]
    shares = counts / cell.size
    return float(-shares @ np.log(shares) + (counts.size - 1) / (2 * cell.size))
