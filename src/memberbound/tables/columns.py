"""Columns that are read value by value, by one rule for files, frames, arrays and lists.

The reading of a value depends on this value and on public facts alone: the column's declared type
and its *form* (:mod:`memberbound.tables.spelling`).  Typed numbers, dates, durations and truth
values keep their type's meaning, whatever the form.  A date counts days since 1970-01-01 in UTC; a
time without a zone is taken as UTC.

The *label* is the text by which a value is compared with a category: ``1``, ``1.0`` and ``"1"`` are
one category, and so are ``true`` and ``True``; a date is written in ISO 8601.  A missing value has
the empty label.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.spelling import (
    BLANKS,
    EPOCH,
    PER_DAY,
    Form,
    days_of,
    iso_date,
    length_in_days,
    number_label,
    read_text,
)
from memberbound.tables.values import CodedValues, NumberValues, Values

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import Series


#: Numbers that Arrow and Python read alike, with the same label.
_QUICK = r"^-?(0|[1-9][0-9]{0,14})([.][0-9]{1,300})?$"


def read_value(value: object, form: Form = "any") -> tuple[float, str]:
    """Return a value as a number (NaN for a non-number) and its label ('' if missing).

    Guarantee: a function of this value and the form.
    Edge cases: an object that cannot be converted to text has its type's name as label.

    Examples:
        >>> read_value("1,5"), read_value(1.5), read_value("31.01.1970")
        ((1.5, '1.5'), (1.5, '1.5'), (30.0, '1970-01-31'))
        >>> read_value("1,234"), read_value("1,234", "comma"), read_value("1,234", "number")
        ((nan, '1,234'), (1.234, '1.234'), (1234.0, '1234'))
    """
    if type(value) is str:
        return read_text(value, form)
    try:
        if form == "unit" and not isinstance(value, str):
            return math.nan, _identity(value)
        return _read_object(value, form)
    except Exception:  # an object's methods may raise anything, but no record may reject a table
        return math.nan, type(value).__name__


def _read_object(value: object, form: Form) -> tuple[float, str]:
    if isinstance(value, str):
        return read_text(str(value), form)
    if isinstance(value, np.generic):
        if value.dtype.kind in "fMm":
            one = read_column(np.array([value]), form)
            return float(one.numbers[0]), one.label(0)
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan, ""
    if isinstance(value, bool):
        return (float(value) if form == "truth" else math.nan), str(value)
    if isinstance(value, int | float | Decimal):
        try:
            number = float(value) + 0.0  # -0.0 is 0.0
        except ValueError:  # a signalling NaN
            number = math.nan
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        if not isinstance(value, int):
            return number, number_label(number)
        # Python writes whole numbers of up to 4300 digits.
        return number, str(value) if value.bit_length() < 2**13 else hex(value)
    if isinstance(value, bytes | bytearray):
        return math.nan, f"x'{bytes(value).hex()}'"
    return _read_time(value)


def _identity(value: object) -> str:
    """Return the identity of a person: the type and the text of a value, or '' if missing.

    It is not read as a number, so 7, 7.0 and "7" are three persons in a column without a type.
    """
    if isinstance(value, np.generic) and value.dtype.kind not in "Mm":
        value = value.item()
    text = str(value)
    if isinstance(value, bytes | bytearray):
        text = f"x'{value.hex()}'"
    elif isinstance(value, int):  # Python writes whole numbers of up to 4300 digits
        text = hex(value)
    elif isinstance(value, float | Decimal):
        text = "" if math.isnan(value) else text
    elif value is None or text in ("NaT", "<NA>"):
        text = ""
    return f"\0{type(value).__name__}\0{text}" if text else ""


def _read_time(value: object) -> tuple[float, str]:
    """Return a date, a time or a duration in days, or NaN and the text of anything else."""
    # A pandas time within Python's range; nanoseconds are truncated.
    with contextlib.suppress(AttributeError, ValueError, OverflowError):
        value = value.start_time  # type: ignore[attr-defined]  # a period
    if hasattr(value, "to_pydatetime"):
        try:
            value = value.to_pydatetime(warn=False)
        except (ValueError, OverflowError):
            return read_value(np.datetime64(value.asm8))  # type: ignore[attr-defined]
    if isinstance(value, datetime):
        days = days_of(value)
        return days, iso_date(days)
    if isinstance(value, date):
        days = float(value.toordinal() - EPOCH.toordinal())
        return days, iso_date(days)
    if isinstance(value, timedelta | time):
        if isinstance(value, time):
            value = datetime.combine(date.min, value.replace(tzinfo=None)) - datetime.min
        days = length_in_days(value)
        return days, number_label(days)
    return math.nan, str(value).strip(BLANKS)


def label_of(value: object, form: Form = "any") -> str:
    """Return the text by which a value is compared with a category.

    Examples:
        >>> label_of(1), label_of(1.0), label_of("1"), label_of(True), label_of("true")
        ('1', '1', '1', 'True', 'True')
    """
    return read_value(value, form)[1]


def read_column(column: Series | pa.ChunkedArray | Iterable[object], form: Form = "any") -> Values:
    """Read a column, by its type (pandas, Arrow, numpy) or value by value (lists).

    Edge cases: types of complex numbers, lists and records are rejected.
    """
    if isinstance(column, Values):
        return column
    if type(column).__module__.startswith("pyarrow"):
        return _of_arrow(column, form)
    if hasattr(column, "dtype") and hasattr(column, "iloc"):
        return _of_pandas(column, form)
    if isinstance(column, np.ndarray):
        return _of_array(column, form)
    return _of_objects(list(column), form)


def declared_type(column: object) -> object:
    """Return the declared type of a column, without properties that its rows determined.

    The width of numpy's texts and bytes is that of the longest value, and the codes of an Arrow
    dictionary are as wide as the number of its words requires; neither is declared.

    Examples:
        >>> declared_type(np.array([b"ab", b"abc"])), declared_type(np.array([1.5]))
        (None, dtype('float64'))
    """
    kind = getattr(column, "dtype", getattr(column, "type", None))
    if isinstance(kind, np.dtype):
        return None if kind.kind in "USV" else kind
    arrow: Any = getattr(kind, "pyarrow_dtype", kind)
    if not type(arrow).__module__.startswith("pyarrow"):
        return kind
    from pyarrow import types

    return arrow.value_type if types.is_dictionary(arrow) else kind


def _of_pandas(series: Series, form: Form) -> Values:
    import pandas as pd
    import pyarrow as pa

    kind = series.dtype
    if isinstance(kind, np.dtype):
        return _of_array(series.to_numpy(), form)
    if isinstance(kind, pd.SparseDtype):
        return _of_array(np.asarray(series), form)
    if isinstance(kind, pd.CategoricalDtype):
        listed = read_column(pd.Series(kind.categories), form)
        codes, labels = listed.codes_and_labels()
        numbers = np.append(listed.numbers, np.nan)
        texts = [labels[code] for code in codes] + [""]
        indices = np.asarray(series.cat.codes, dtype=np.int32)
        return CodedValues(np.where(indices < 0, len(codes), indices), numbers, texts)
    # Arrow types, texts, times with a zone, and pandas' own types with NA.
    typed = (pd.ArrowDtype, pd.StringDtype, pd.DatetimeTZDtype)
    if isinstance(kind, typed) or hasattr(kind, "numpy_dtype"):
        with contextlib.suppress(UnicodeError, pa.ArrowException):  # half of a surrogate pair
            return _of_arrow(pa.array(series), form)
    return _of_objects(series.to_numpy(dtype=object).tolist(), form)


def _of_array(array: NDArray[np.generic], form: Form) -> Values:
    kind = array.dtype.kind
    if array.ndim != 1:
        raise InputError(f"a column must have one value per row, got shape {array.shape}.")
    if kind in "iu" or array.dtype in (np.float32, np.float64):
        return NumberValues(array)
    if kind == "f":
        with np.errstate(all="ignore"):
            return NumberValues(
                array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
            )
    if kind in "Mm":
        unit, step = np.datetime_data(array.dtype)  # type: ignore[arg-type]  # by its kind
        if unit in ("Y", "M", "W", "generic"):
            array, unit, step = array.astype(f"{kind}8[D]"), "D", 1
        if unit not in PER_DAY:
            array, unit, step = array.astype(f"{kind}8[ns]"), "ns", 1
        whole = array.view(np.int64)
        if form == "unit":  # days would merge times a nanosecond apart
            return NumberValues(whole, np.isnat(array))
        return NumberValues(in_days(whole, unit, step), np.isnat(array), dated=kind == "M")
    if kind == "b":
        numbers = np.array([0.0, 1.0] if form == "truth" else [np.nan, np.nan])
        return CodedValues(array.astype(np.int32), numbers, ("False", "True"))
    if kind in "OUS":
        return _of_objects(array.tolist(), form)
    raise InputError(f"a column must hold numbers, texts or dates, got {array.dtype}.")


def in_days(whole: NDArray[np.int64], unit: str, step: int = 1) -> FloatArray:
    """Convert whole numbers of a unit to days; whole days and the rest are rounded separately."""
    per_day = PER_DAY[unit]
    if per_day % step:
        return np.asarray(whole.astype(np.float64) * (step / per_day))
    days, rest = np.divmod(whole, per_day // step)
    return np.asarray(days + rest / (per_day // step))


#: Below this many values a Python loop is faster than Arrow.
_FEW = 16
_COMPARED = (str, int, float, bool, np.str_, np.float64)


def _of_objects(values: list[object], form: Form) -> Values:
    """Read Python objects, each by its own type."""
    import pyarrow as pa

    try:
        # Only texts and None, for speed.  Not from pandas, because NaN must not become a text.
        if len(values) > _FEW and all(value is None or type(value) is str for value in values):
            return _of_arrow(pa.array(values, pa.large_string()), form)
    except (UnicodeError, pa.ArrowException):  # half of a surrogate pair
        pass
    codes = np.empty(len(values), dtype=np.int32)
    seen: dict[tuple[type, object], int] = {}
    numbers: list[float] = []
    texts: list[str | None] = []
    for row, value in enumerate(values):
        # True, 1 and 1.0 are equal to Python, and NaN is not equal to itself.
        # Only for these types does equality agree with reading; a subclass may define its own.
        key = (type(value), value if type(value) in _COMPARED else id(value))
        code = seen.get(key)
        if code is None:
            code = seen[key] = len(numbers)
            number, label = read_value(value, form)
            numbers.append(number)
            texts.append(label)
        codes[row] = code
    return CodedValues(codes, np.array(numbers, dtype=np.float64), texts)


def _of_arrow(column: pa.Array | pa.ChunkedArray, form: Form) -> Values:
    """Read an Arrow column by its type."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        if types.is_string(kind):  # one array of this type holds two gigabytes
            column = column.cast(pa.large_string())
        if types.is_dictionary(kind):  # the values of all chunks together may need longer codes
            column = column.cast(pa.dictionary(pa.int64(), kind.value_type, kind.ordered))
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(kind, pa.BaseExtensionType):
        known = kind.extension_name == "arrow.uuid"
        return read_column(column.to_pylist() if known else column.storage, form)
    if types.is_dictionary(kind):
        return _of_dictionary(column, form)
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        zeros = column.fill_null(0) if column.null_count else column
        return NumberValues(zeros.to_numpy(zero_copy_only=False), gaps_of(column))
    if types.is_float16(kind) or types.is_string_view(kind):
        plain = pa.float32() if types.is_float16(kind) else pa.large_string()
        return _of_arrow(column.cast(plain), form)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
        whole = column.cast(pa.int32()) if types.is_date32(kind) else column
        whole = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        days = whole if form == "unit" else in_days(whole, unit)
        dated = form != "unit" and not types.is_duration(kind)
        return NumberValues(days, gaps_of(column), dated=dated)
    if types.is_null(kind):
        return NumberValues(np.zeros(len(column)), np.ones(len(column), dtype=bool))
    if _is_listed(kind):
        return _of_dictionary(column.dictionary_encode(), form)
    raise InputError(
        f"a column must hold numbers, texts or dates, got {kind}. Leave it out, or split it into "
        "columns first."
    )


def _is_listed(kind: pa.DataType) -> bool:
    """Return whether values of a type are read once per distinct value (no numbers, no dates)."""
    from pyarrow import types

    texts = types.is_string(kind) or types.is_large_string(kind)
    plain = types.is_boolean(kind) or types.is_decimal(kind) or types.is_time(kind)
    bytes_ = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(texts or plain or bytes_ or types.is_fixed_size_binary(kind))


def gaps_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Return a mask of an Arrow column's missing values, or None if there are none."""
    if not column.null_count:
        return None
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _of_dictionary(column: pa.DictionaryArray, form: Form) -> Values:
    """Read every distinct value once; numbers and times are read like typed columns."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    words = column.dictionary
    if not _is_listed(words.type):
        return _of_arrow(column.dictionary_decode(), form)
    gap = len(words)
    codes = column.indices.cast(pa.int64())  # a shorter type may not hold the code for missing
    indices = codes.fill_null(gap).to_numpy(zero_copy_only=False).astype(np.int32)
    numbers = np.full(gap + 1, np.nan)
    texts: list[str | None] = [""] * (gap + 1)
    if types.is_string(words.type) or types.is_large_string(words.type):
        quick = np.zeros(gap, dtype=bool)
        if form in ("any", "number"):
            fits = pc.match_substring_regex(words, _QUICK).fill_null(False)
            quick = np.asarray(fits.to_numpy(zero_copy_only=False), dtype=bool)
            numbers[:gap][quick] = words.filter(fits).cast(pa.float64()).to_numpy()
        slow = np.flatnonzero(~quick)
        if not slow.size and not column.null_count:
            return NumberValues(numbers[indices])
        for index in np.flatnonzero(quick).tolist():
            texts[index] = None
        rest = words.take(pa.array(slow)).to_pylist()
    else:
        slow, rest = np.arange(gap), words.to_pylist()
    for index, word in zip(slow.tolist(), rest, strict=True):
        numbers[index], texts[index] = read_value(word, form)
    return CodedValues(indices, numbers, texts)
