"""Mixtures: the curve of an attacker who also sees which of several curves applies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memberbound.curve.base import PolygonCurve, TradeoffCurve
from memberbound.errors import InputError
from memberbound.numerics.rounding import SMALLEST, FloatArray, up_array


def mixture(curves: Sequence[TradeoffCurve], weights: Sequence[float]) -> PolygonCurve:
    """Return the curve of an attacker who also sees *which* record, drawn with ``weights``.

    Theorem: hockey-sticks of a joint law with a public label are the weighted means, so this is
    the "average record" of the i.i.d. game (A25-P5).
    """
    share = np.asarray(weights, dtype=np.float64)
    if len(curves) == 0 or share.shape != (len(curves),):
        raise InputError(
            f"weights must be one number per curve, got {share.size} for {len(curves)}."
        )
    total = math.fsum(share)
    if np.any(~(share >= 0)) or abs(total - 1) > 1e-9:
        raise InputError(f"weights must be probabilities that add up to 1, got a sum of {total!r}.")
    polygons = [curve.to_polygon() for curve in curves]
    loss = np.concatenate([p.loss for p in polygons])
    heavy = np.concatenate([_scaled(p.heavy, w) for p, w in zip(polygons, share, strict=True)])
    heavy = up_array(heavy * (1 + abs(total - 1)))
    return PolygonCurve(loss[heavy > 0], heavy[heavy > 0])


def _scaled(masses: FloatArray, weight: float) -> FloatArray:
    """Multiply masses by a weight; a positive product stays positive."""
    if weight == 0.0:
        return np.zeros_like(masses)
    with np.errstate(under="ignore"):
        return np.where(masses > 0, np.maximum(masses * weight, SMALLEST), 0.0)
