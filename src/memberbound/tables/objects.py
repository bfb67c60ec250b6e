"""Convert objects in memory to tables: pandas tables, arrays and lists of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.tables.columns import label_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import DataFrame


def is_pandas(source: object) -> bool:
    """Return whether an object is a pandas table, without importing pandas."""
    return hasattr(source, "iloc") and hasattr(source, "columns")


def memory_names(source: object) -> tuple[str, ...]:
    """Return the names of columns as text; those of an array are x0, x1, …."""
    if isinstance(source, np.ndarray):
        width = 1 if source.ndim < 2 else source.shape[1]
        return tuple(f"x{index}" for index in range(width))
    names = tuple(str(name) for name in cast("DataFrame", source).columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the table's columns must have distinct names, got {twice!r} twice.")
    return names


def array_of_rows(source: Sequence[object]) -> NDArray[np.object_]:
    """Convert a list of rows to an array of objects, so that values keep their types."""
    rows = [row if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in source]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise InputError("a list of rows must hold rows of equal length, and at least one.")
    array = np.empty((len(rows), widths.pop()), dtype=object)
    for index, row in enumerate(rows):
        for column, value in enumerate(row):
            array[index, column] = value
    return array


def memory_columns(source: object, names: Sequence[str]) -> dict[str, object]:
    """Return the columns of a pandas table or an array by name."""
    if not isinstance(source, np.ndarray):
        frame = cast("DataFrame", source)
        return {name: frame.iloc[:, index] for index, name in enumerate(names)}
    if source.ndim != 2 or isinstance(source, np.ma.MaskedArray):
        raise InputError(
            f"the array must hold rows of values and no mask, got {type(source).__name__} of "
            f"shape {source.shape}."
        )
    return {name: source[:, index] for index, name in enumerate(names)}


def array_frame(source: object, names: Sequence[str], name: str) -> DataFrame:
    """Convert an array to a pandas table of numbers."""
    import pandas as pd

    try:
        values = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers in rows of equal length.") from None
    if np.iscomplexobj(np.asarray(source)) or values.ndim not in (1, 2):
        raise InputError(f"{name} must be a real array of rows, got shape {values.shape}.")
    if 0 in values.shape:
        raise InputError(f"{name} must hold at least one record, got none.")
    return pd.DataFrame(values.reshape(len(values), -1), columns=list(names), copy=False)


def arrow_frame(arrow: pa.Table) -> DataFrame:
    """Convert an Arrow table to pandas; integers keep all digits even with missing values."""
    import pandas as pd
    import pyarrow as pa

    frame = arrow.to_pandas()
    for name, column in zip(arrow.column_names, arrow.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            kind = "UInt64" if pa.types.is_unsigned_integer(column.type) else "Int64"
            frame[name] = pd.Series(pd.array(column.to_pylist(), dtype=kind), index=frame.index)
    return frame


def label_mixed_columns(frame: DataFrame) -> pa.Table:
    """Convert a pandas table to Arrow; a column of mixed types becomes its labels."""
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        try:
            columns[name] = pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pairs = zip(frame[name], frame[name].isna(), strict=True)
            texts = [None if gap else label_of(value, "text") for value, gap in pairs]
            columns[name] = pa.array(texts, pa.string())
    return pa.table(columns)
