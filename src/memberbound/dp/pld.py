"""Curves from a privacy-loss distribution that dp-accounting has composed.

dp-accounting rounds losses pessimistically, but computes the masses as second differences of
hockey-sticks divided by the lattice spacing: each mass carries an absolute error of a few units
in the last place divided by the spacing, which grows with the number of compositions and can make
the masses add up to more than one (theory §6.8).  The bound on that error is added to every δ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memberbound.curve import TradeoffCurve, polygon_from_lines
from memberbound.dp.guarantees import DpGuarantee
from memberbound.errors import InputError, whole_number
from memberbound.games import Adjacency
from memberbound.numerics.rounding import UNIT

__all__ = ["guarantee_from_pld"]

#: Roundings in one mass of dp-accounting's lattice: two hockey-sticks near 1, their difference.
_ROUNDINGS = 16.0


def guarantee_from_pld(
    pld: Any, compositions: int = 1, adjacency: Adjacency = "add-remove"
) -> DpGuarantee:
    """Return a curve from a ``dp_accounting.pld`` privacy-loss distribution.

    Args:
        pld: a ``PrivacyLossDistribution`` made with ``pessimistic_estimate=True``.
        compositions: how many releases were composed into it; its numerical error grows with it.
        adjacency: the neighbouring relation the distribution was made for.

    Guarantee: at or above the distribution's curve plus its numerical error.
    Assumes: dp-accounting's own pessimism, that ``compositions`` is right, and a rounding of at
    most 16 units in the last place of 1 in each hockey-stick it differences (measured, not proved).
    Numerics: for DP-SGD use :func:`guarantee_from_dp_sgd`, whose error is smaller by far.
    """
    repeated = whole_number("compositions", compositions)
    try:
        parts = [pld._pmf_remove, pld._pmf_add]
        dense = [part.to_dense_pmf() for part in parts]
    except AttributeError:
        raise InputError(
            f"pld must be a dp_accounting privacy-loss distribution, got {type(pld).__name__}."
        ) from None
    if not all(part._pessimistic_estimate for part in dense):
        raise InputError("pld must be pessimistic; make it with pessimistic_estimate=True.")
    lines = []
    for part in dense:
        points = part._lower_loss + np.arange(part.size)
        error = repeated * part.size * _ROUNDINGS * UNIT / min(1.0, part._discretization)
        top = float(points[-1]) * part._discretization
        grid = np.linspace(0.0, max(top, part._discretization), 1500)
        delta = np.asarray(part.get_delta_for_epsilon(grid), dtype=np.float64) + error
        lines.append((grid, np.clip(delta, 0.0, 1.0)))
    (ahead_eps, ahead), (behind_eps, behind) = lines
    curve: TradeoffCurve = polygon_from_lines(ahead_eps, ahead, behind_eps, behind)
    if adjacency == "replace-one":
        curve = curve.symmetrised()  # either record may be the one that is replaced
    return DpGuarantee(curve, adjacency, "privacy-loss distribution")
