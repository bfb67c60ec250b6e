"""What is certified about a table of cells, as the dictionary that ``certify`` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.certification.answer import certified_fields
from memberbound.discrete.certificates import certify_counts
from memberbound.discrete.counts import CountProfile
from memberbound.discrete.records import cell_probability_lower, record_leak_upper, record_leaks
from memberbound.errors import InputError
from memberbound.games import IidGame
from memberbound.numerics.rounding import shared_confidence

__all__ = ["cell_profile", "evidence", "paid_confidence", "row_cells", "smallest_safe_count"]


def row_cells(frame: Any) -> NDArray[np.int64]:
    """Number the cells of a table row by row; a cell is the tuple of all its values."""
    import pandas as pd

    key = np.zeros(len(frame), dtype=np.int64)
    for name in frame.columns:
        codes = _raw_codes(frame[name])
        key = pd.factorize(key * (int(codes.max(initial=0)) + 1) + codes)[0].astype(np.int64)
    return key


def _raw_codes(series: Any) -> NDArray[np.int64]:
    import pandas as pd

    if series.dtype.kind == "O":
        # 1, 1.0 and True are equal to Python but differ in a written file: tell them apart.
        spelled = [f"{type(v).__name__}\0{v if isinstance(v, str) else repr(v)}" for v in series]
        series = pd.Series(spelled, dtype=object).where(pd.notna(series).to_numpy(), None)
    elif isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        # By their bits, so that -0.0 is not 0.0; NaN says that a value is missing.
        values = series.to_numpy(dtype=np.float64)
        series = pd.Series(np.where(np.isnan(values), np.nan, values).view(np.int64))
    codes: NDArray[np.int64] = pd.factorize(series, use_na_sentinel=False)[0]
    return codes.astype(np.int64)


def cell_profile(frame: Any) -> CountProfile:
    """Return the counts of counts of a table in memory.

    Examples:
        >>> import pandas as pd
        >>> profile = cell_profile(pd.DataFrame({"a": [1, 1, None, None], "b": list("xyzz")}))
        >>> profile.count.tolist(), profile.cells.tolist()
        ([1, 2], [2, 1])
    """
    if len(frame) == 0:
        raise InputError("the table must have at least one row.")
    return CountProfile.from_counts(np.bincount(row_cells(frame)))


def paid_confidence(confidence: float, shared_by: int) -> float:
    """Return the confidence at which each of several candidates has to be certified."""
    level = shared_confidence(confidence, shared_by)
    if level >= 1.0:
        raise InputError(
            f"confidence must leave something for each of {shared_by} candidates, got "
            f"{confidence!r}. Give fewer choices, or use validity='split'."
        )
    return level


def evidence(profile: CountProfile, confidence: float, shared_by: int = 1) -> dict[str, object]:
    """Return the certificate of a table, with the estimates labelled as such.

    Guarantee: ``delta_upper`` and ``record_leak`` each hold with probability ≥ ``confidence``, even
    for the most favourable of ``shared_by`` candidates that were fixed before the rows were seen
    (union bound).
    """
    level = paid_confidence(confidence, shared_by)
    certificate = certify_counts(profile, confidence=level)
    leaks = record_leaks(profile, confidence=level)
    return certified_fields(certificate, leaks, IidGame()) | {"confidence": confidence}


def smallest_safe_count(rows: int, leak: float, confidence: float) -> int | None:
    """Return the smallest count whose cell is certified to leak at most ``leak`` per record."""

    def safe(count: int) -> bool:
        lower = cell_probability_lower(rows, count, confidence)
        return float(record_leak_upper(rows * lower * (1 - 1e-12))) <= leak

    if rows < 2 or not safe(rows):
        return None
    low, high = 1, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if safe(middle) else (middle, high)
    return high
