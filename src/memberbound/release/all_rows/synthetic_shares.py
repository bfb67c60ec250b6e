"""Share the budget of a synthetic table among its measurements, by public numbers alone."""

from __future__ import annotations

import math

#: Kinds of measurements, as the shares of the budget are named.
TARGET, CELLS, COLUMNS, CALIBRATION = "target", "cells", "columns", "calibration"
SCORES, PAIRS = "scores of pairs", "pairs"
FURTHER_SCORES, FURTHER = "scores of further pairs", "further pairs"
#: Shares of μ² that do not depend on the table.
_FIXED = {TARGET: 0.02, CELLS: 0.12, CALIBRATION: 0.05, SCORES: 0.05, FURTHER_SCORES: 0.04}
#: Signals μ·records/√columns between which budget shifts from columns to pairs, and to further
#: pairs.
_PAIR_SIGNALS, _FURTHER_SIGNALS = (200.0, 2000.0), (450.0, 1500.0)
#: Shares at both ends: of columns in the rest, then of further pairs in the remainder.
_COLUMN_SHARES, _FURTHER_SHARES = (0.85, 0.5), (0.0, 0.6)
#: Pairs are measured only if the noise of a score is below this share of the records.
_LARGEST_SCORE_NOISE = 0.25


def budget_shares(
    records: int, mu: float, columns: int, large: int, *, target: bool
) -> dict[str, float]:
    """Return the shares of μ² of all measurements, from public numbers alone.

    ``columns`` does not count the target; ``large`` columns have too many cells to be counted with
    the target cell by cell.

    Examples:
        >>> shares = budget_shares(40_000, 0.25, 14, 5, target=True)
        >>> {name: round(shares[name], 2) for name in ("columns", "pairs", "further pairs")}
        {'columns': 0.36, 'pairs': 0.14, 'further pairs': 0.22}
    """
    signal = mu * records / math.sqrt(columns)
    count = columns * (columns - 1) // 2
    noise = 2.0 * math.sqrt(count / _FIXED[SCORES]) / mu
    parts = [TARGET, CALIBRATION] if target else []
    parts += [CELLS] if large else []
    pairs = columns > 1 and noise < _LARGEST_SCORE_NOISE * records
    further = pairs and columns > 2 and signal > _FURTHER_SIGNALS[0]
    parts += [SCORES] if pairs else []
    parts += [FURTHER_SCORES] if further else []
    shares = {name: share for name, share in _FIXED.items() if name in parts}
    rest = 1.0 - sum(shares.values())
    if not pairs:
        return {**shares, COLUMNS: rest}
    shares[COLUMNS] = rest * _between(signal, _PAIR_SIGNALS, _COLUMN_SHARES)
    rest -= shares[COLUMNS]
    if further:
        part = rest * _between(signal, _FURTHER_SIGNALS, _FURTHER_SHARES)
        return {**shares, PAIRS: rest - part, FURTHER: part}
    return {**shares, PAIRS: rest}


def _between(signal: float, signals: tuple[float, float], values: tuple[float, float]) -> float:
    """Interpolate between two values, linearly in the logarithm of the signal."""
    share = math.log(signal / signals[0]) / math.log(signals[1] / signals[0])
    return values[0] + min(max(share, 0.0), 1.0) * (values[1] - values[0])
