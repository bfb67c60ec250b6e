"""The exponential mechanism of L24-D7, weights exp(-ε·(mean loss)/(2Δ)): in digits, and exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

from memberbound.subset.exponential import ExponentialMechanism
from oracle.finite import Law


def probabilities(mechanism: Any, chosen: Iterable[int], factor: float = 0.5) -> list[mp.mpf]:
    """Law of the release from one data set, in mpmath's working precision; L24-D7 has ½.

    ``mechanism`` is anything with losses (records by candidates), an epsilon and a sensitivity.
    """
    rows = mechanism.losses[list(chosen)].T.tolist()
    rate = factor * mp.mpf(mechanism.epsilon) / mp.mpf(mechanism.sensitivity)
    mean = [mp.fsum(map(mp.mpf, column)) / len(column) for column in rows]
    weights = [mp.exp(-rate * (loss - min(mean))) for loss in mean]
    return [w / mp.fsum(weights) for w in weights]


def halving(losses: Sequence[Sequence[int]]) -> Callable[[frozenset[int]], Law]:
    """P(w given D) ∝ 2^(-Σ loss) for whole losses: the rate is ln 2 and every law is rational."""

    def release(chosen: frozenset[int]) -> Law:
        totals = [sum(int(losses[x][w]) for x in chosen) for w in range(len(losses[0]))]
        weights = [Fraction(1, 2**total) for total in totals]
        return {w: weight / sum(weights) for w, weight in enumerate(weights)}

    return release


def halving_mechanism(losses: ArrayLike, size: int) -> ExponentialMechanism:
    """The library's mechanism with the law of :func:`halving`, up to a rounding of ln 2."""
    table = np.array(losses, dtype=float)
    spread = float(np.ptp(table, axis=0).max()) or 1.0
    # ε/(2Δk) = ln 2 with Δ = spread/k.
    return ExponentialMechanism(table, size, 2 * spread * math.log(2), spread / size)
