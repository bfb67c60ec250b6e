"""Calibrate class probabilities: fit a line to noisy counts of scores and classes (X30).

Clipped gradients and noise give scores the right order but the wrong scale.  Every record is
counted once more, by its score and its class; the counts get Gaussian noise from the same budget,
and a slope and an offset per score are fitted to them.  Both become part of the model.  A score
between two knots is split between them in proportion, so that the counts preserve its mean.  With
several classes, each class has its own counts, by its log-odds against the rest and by membership.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.gradient import Features, TrainingRows
from memberbound.release.budget import HISTOGRAM_MOVES, BudgetShare
from memberbound.tables.shards import Shards

#: Share of μ² for the counts, by default.
PROBABILITY_SHARE = 0.04
#: Knots in units of log-odds.
_KNOTS = np.arange(-4.0, 5.0)
#: Typical slopes by kind of model, measured on Adult, ACS and heart (docs/gradient.md).
TYPICAL_SLOPES = {"logistic": 0.45, "softmax": 0.6, "boosting": 0.8, "network": 0.5}
#: Prior spreads of the slope (in units of the typical one) around 1, and of offsets around 0.
_SLOPE_SPREAD, _OFFSET_SPREAD = 0.4, 0.5
#: Prior spread of the offset around the log-odds of the noisy class share: the constant score of a
#: centred model inherits the error of its centre.  Chosen by benchmarks/protect_choices.py.
_SHARE_SPREAD = 1.0
#: With fewer records than this many noise scales the counts get less weight, because noisy offsets
#: cost accuracy.
_LOUD = 40.0
#: With fewer than this the prior slope is flatter, down to this value, because such models are
#: hardly better than a constant.
_CLEAR, _FLATTEST = 6.0, 0.3
#: Limits of slope (positive, so that scores keep their order) and offsets.
_SLOPES, _OFFSETS = (0.02, 4.0), (-6.0, 6.0)
#: A record's counts are multiples of 2^-30 or coarser, so that sums are exact.
_UNITS = 30
_BLOCK = 65_536
#: Number of values per call of a vectorised function.
_LANES = 64


class _Scored(Protocol):
    def scores(self, features: Features) -> FloatArray:
        """Return the scores of encoded records."""


def probability_sums(outputs: int) -> int:
    """Return the number of noisy counts for a model with this many scores."""
    return 2 * _KNOTS.size * outputs


def log_odds(scores: FloatArray) -> FloatArray:
    """Return the log-odds of every class against the rest, or of the second of two classes.

    Two classes have one score (the log-odds), or two scores with it as their difference.

    Numerics: a row's numbers do not depend on its position, to the last bit (:func:`_elementwise`).
    """
    if scores.shape[1] <= 2:
        return scores[:, -1:] - scores[:, :-1] if scores.shape[1] == 2 else scores
    shifted = scores - scores.max(axis=1, keepdims=True)
    shares = _elementwise(np.exp, shifted)
    rest = np.zeros_like(shares)
    for k in range(shares.shape[1]):
        for other in range(shares.shape[1]):
            rest[:, k] += shares[:, other] * (other != k)
    # If the probability of the rest underflows, the log-odds lie beyond the last knot.
    return np.asarray(shifted - _elementwise(np.log, np.maximum(rest, sys.float_info.min)))


def _elementwise(function: Callable[[FloatArray], FloatArray], values: FloatArray) -> FloatArray:
    """Apply a function to every value, with results independent of the position.

    Pad the array, because numpy may compute its tail with another routine.
    """
    filled = np.pad(values.ravel(), (0, -values.size % _LANES), constant_values=1.0)
    return function(filled)[: values.size].reshape(values.shape)


def score_counts(
    odds: FloatArray, codes: NDArray[np.generic], weights: ArrayLike, units: int
) -> FloatArray:
    """Sum the weights of records by output, knot and class membership, times 2^units.

    Guarantee: a record of weight w ≤ 1 adds nonnegative whole numbers to every output's part, with
    a sum of at most w·2^units (proofs/probabilities.md, claim 1).
    """
    outputs, knots = odds.shape[1], _KNOTS.size
    # Count a NaN, which a network may return, at the middle knot.
    position = np.clip(np.nan_to_num(odds, nan=0.0) - _KNOTS[0], 0.0, knots - 1.0)
    low = np.minimum(position.astype(np.int64), knots - 2)
    whole = np.ldexp(np.asarray(weights, dtype=np.float64), units)[:, None]
    upper = np.trunc(whole * (position - low))
    lower = np.trunc(whole) - upper
    # With two classes the single score is that of the second.
    classes = np.arange(outputs) if outputs > 1 else np.array([1])
    inside = np.asarray(codes)[:, None] == classes
    cells = (np.arange(outputs) * knots + low) * 2 + inside
    size = 2 * outputs * knots
    sums = np.bincount(cells.ravel(), lower.ravel(), size)
    sums += np.bincount(cells.ravel() + 2, upper.ravel(), size)
    return np.asarray(sums.reshape(outputs, knots, 2), dtype=np.float64)


def _count_scores(rows: TrainingRows, model: _Scored, usual: float, units: int) -> FloatArray:
    """Count the shard's scores and classes."""
    counts: list[FloatArray] = []
    for cut in rows.cuts(_BLOCK):
        odds = log_odds(usual * model.scores(rows.features[cut]))
        weights = rows.weight(cut)
        if weights is None:
            weights = np.ones(len(odds))
        if rows.persons is not None:
            weights = weights * rows.persons.weights[cut]
        counts.append(score_counts(odds, rows.codes[cut], weights, units))
    return np.asarray(sum(counts))


def probability_line(
    model: _Scored,
    rows: Shards[TrainingRows],
    share: BudgetShare,
    *,
    slope: float,
    records: int,
    outputs: int,
    offsets: bool = True,
    base: float | None = None,
) -> tuple[float, FloatArray]:
    """Fit the slope and offsets that turn a released model's scores into log-odds.

    ``records`` is the number of all rows, or of persons, each with total weight 1.
    ``slope`` and ``base`` define the prior, log-odds near slope·score + base.  ``base`` are the
    log-odds of a noisy class share, or None for log-odds near slope·score.

    Guarantee: the noisy counts are within the slack of their draws of a ``share.mu``-GDP pair under
    replace-one; slope and offsets are computed from them.
    Theorem: X30 (proofs/probabilities.md): L2 sensitivity √(2·outputs).
    Assumes: a row's scores are computed from that row and from released numbers; weights are
    between 0 and 1.
    Numerics: sums of whole numbers, exact.  Edge cases: if the noise exceeds the counts, slope and
    offsets stay near their prior; the slope is positive, so the order of a single score is kept.
    """
    units = min(_UNITS, 52 - records.bit_length())
    total = rows.sum(_count_scores, model, slope, units)
    # HISTOGRAM_MOVES exceeds √2 by 8 units, which covers the rounding of root and product.
    sensitivity = HISTOGRAM_MOVES * math.sqrt(len(total))
    noise = share.sums(sensitivity=math.ldexp(sensitivity, units))
    # The rest is post-processing of the noisy counts.
    noisy = np.ldexp(noise.measure(total), -units)
    scale = math.ldexp(noise.scale, -units)
    factor, shifts = _fit_line(noisy, scale, records / scale, offsets=offsets, base=base)
    if base is not None:
        shifts = shifts + base
    if outputs == 2:
        shifts = np.array([-0.5, 0.5]) * shifts
    return slope * factor, shifts


def _against_the_rest(slope: float, offsets: FloatArray) -> FloatArray:
    """Convert a slope and offsets of scores to offsets of log-odds against the rest.

    Assumes that the other classes are equally likely; exact for equal scores and for the identity.
    """
    others = offsets.size - 1
    if others == 0:
        return offsets
    means = [special.logsumexp(np.delete(offsets, k)) for k in range(offsets.size)]
    return np.asarray(offsets - means + slope * math.log(others))


def _fit_line(
    noisy: FloatArray, scale: float, signal: float, *, offsets: bool, base: float | None
) -> tuple[float, FloatArray]:
    """Return the most likely slope and offsets, given noisy counts and the prior.

    ``signal`` is the number of records in noise scales, a public number.
    """
    expected = min(1.0, max(_FLATTEST, signal / _CLEAR))
    offset_spread, centre = (_OFFSET_SPREAD, 0.0) if base is None else (_SHARE_SPREAD, base)
    slopes, shifts = (s * min(1.0, signal / _LOUD) for s in (_SLOPE_SPREAD, offset_spread))
    outside, inside = noisy[..., 0], noisy[..., 1]
    rows = outside + inside
    noise = math.sqrt(2.0) * scale
    # Weight of a knot: the share of its count that is not noise.
    trust = np.sqrt(np.clip(1.0 - np.square(noise / np.maximum(rows, noise)), 0.0, 1.0))
    held = np.maximum(rows, 0.0)

    def misfits(line: FloatArray) -> FloatArray:
        free_offsets = line[1:] if offsets else np.zeros(len(noisy))
        added = _against_the_rest(line[0], free_offsets)[:, None]
        p = special.expit(line[0] * _KNOTS + centre + added)
        variance = scale**2 * (p**2 + (1 - p) ** 2) + held * p * (1 - p)
        errors = trust * ((1 - p) * inside - p * outside) / np.sqrt(variance)
        return np.concatenate([errors.ravel(), [(line[0] - expected) / slopes], line[1:] / shifts])

    free = len(noisy) if offsets else 0
    ends = ([_SLOPES[0], *[_OFFSETS[0]] * free], [_SLOPES[1], *[_OFFSETS[1]] * free])
    from scipy import optimize  # as heavy as pandas, and only training needs it

    line = optimize.least_squares(misfits, np.array([expected, *[0.0] * free]), bounds=ends).x
    return float(line[0]), np.asarray(line[1:] if offsets else np.zeros(len(noisy)))
