"""Exact equality: two values share a cell only if no learner can distinguish them.

Engines treat some different values as equal: texts under a collation, 0.0 and -0.0, durations a
nanosecond apart.  Merged cells would make a certificate too small, so GROUP BY and joins never
compare a column itself.  They compare its *key*, an expression that is equal on two rows exactly if
the stored values are the same:

- text by its bytes, so that no collation applies;
- floats by their bits, so that the sign of a zero and the payload of a NaN count;
- intervals and times with a zone by their spelling;
- whole numbers, decimals, dates, times, timestamps, truth values, bytes and UUIDs as they are.

A type (lists, records) or an engine without a known key is rejected.  Arrow data are first cast to
types that the engine stores without loss (:func:`exact_type`); columns of pandas first get a type
(:func:`from_pandas`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.tables.columns import gaps_of, in_days
from memberbound.tables.spelling import PER_DAY

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType
    from pandas import DataFrame, Series

#: Types of DuckDB that compare by the stored value.
_SAME = {
    *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "bignum", "decimal"),
    *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "uuid", "blob"),
    *("date", "time", "time_ns", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
    *("timestamp with time zone", "timestamptz_ns", "null", '"null"', "sqlnull"),
}
_FLOATS = {"float": "INTEGER", "double": "BIGINT"}
_TEXTS = {"varchar", "enum"}
#: Types that compare differently from the stored value, but convert to text without loss.
_SPELLED = {"interval", "time with time zone", "bit"}
#: Types that change or overflow when copied between DuckDB engines through Arrow.
_UNMOVED = {"hugeint", "uhugeint", "bignum", *_SPELLED}
#: Types that Arrow lacks, or supports for some values or with a dictionary only.
_FETCHED_AS_TEXT = {"time_ns", "enum", *_UNMOVED}
#: Engines that cast text to its UTF-8 bytes, for any collation.
_BYTES = {"pyspark", "databricks"}
_PARQUET_FIRST = "Save the table as Parquet and give the file."


def exact_rows(rows: ir.Table, name: str) -> ir.Table:
    """Return the rows with every column replaced by its key."""
    backend = rows.get_backend()
    if backend.name != "duckdb":
        return rows.select(**{c: _key_elsewhere(rows, c, name) for c in rows.columns})
    import ibis
    import ibis.expr.datatypes as dt

    chosen, schema = [], {}
    compiled = compile_rows(rows)
    for column, key in exact_keys(query_types(backend.con, compiled), name).items():
        quoted = _quote(column)
        chosen.append(f"{key} AS {quoted}")
        schema[column] = rows[column].type() if key == quoted else dt.unknown
    query = f"SELECT {', '.join(chosen)} FROM ({compiled}) AS stored_rows"
    return backend.sql(query, schema=ibis.schema(schema))


def compile_rows(rows: ir.Table) -> str:
    """Compile an expression to SQL for DuckDB, and register its tables in memory."""
    backend = rows.get_backend()
    prepare = getattr(backend, "_run_pre_execute_hooks", None)
    if prepare is not None:
        prepare(rows)
    return str(backend.compile(rows))


def query_types(connection: DuckDBPyConnection, query: str) -> dict[str, DuckDBPyType]:
    """Return the DuckDB types of a query's columns; ibis has fewer."""
    relation = connection.sql(query)
    return dict(zip(relation.columns, relation.types, strict=True))


def exact_keys(types: Mapping[str, DuckDBPyType], name: str) -> dict[str, str]:
    """Return the SQL of each column's key, for a table on DuckDB."""
    keys = {}
    for column, kind in types.items():
        key = _key(_quote(column), kind)
        if key is None:
            raise InputError(
                f"the columns of {name} must have types that DuckDB can compare exactly, got "
                f"{kind}. Cast that column to text or to bytes, or leave it out."
            )
        keys[column] = key
    return keys


def fetch_expressions(types: Mapping[str, DuckDBPyType]) -> str:
    """Return expressions that fetch columns into memory, with types that Arrow lacks as text."""
    names = {_quote(column): kind.id in _FETCHED_AS_TEXT for column, kind in types.items()}
    return ", ".join(
        f"CAST({name} AS VARCHAR) AS {name}" if text else name for name, text in names.items()
    )


def lossless_expressions(types: Mapping[str, DuckDBPyType], name: str) -> str:
    """Return expressions that copy columns out of DuckDB through Arrow without loss."""
    chosen = []
    for column, kind in types.items():
        quoted = _quote(column)
        if kind.id in _UNMOVED:
            chosen.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")
        elif _key(quoted, kind) is None:
            raise InputError(
                f"column {column!r} of {name} must have a type that can be copied without loss, "
                f"got {kind}. {_PARQUET_FIRST}"
            )
        else:
            chosen.append(quoted)
    return ", ".join(chosen)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _key(value: str, kind: DuckDBPyType) -> str | None:
    """Return the SQL of a value's key, or None if its type has none."""
    if kind.id in _SAME:
        return value
    if kind.id in _FLOATS:
        return f"CAST(CAST({value} AS BIT) AS {_FLOATS[kind.id]})"
    if kind.id in _TEXTS | _SPELLED:
        text = value if str(kind) == "VARCHAR" else f"CAST({value} AS VARCHAR)"
        return f"encode({text})"
    return None


def _key_elsewhere(rows: ir.Table, column: str, name: str) -> ir.Value:
    """Return a column's key on another engine, if that engine is known to compare it exactly."""
    value, engine = rows[column], rows.get_backend().name
    kind = value.type()
    if kind.is_boolean() or kind.is_integer() or kind.is_date():
        return value
    if engine in _BYTES:
        if kind.is_string() or kind.is_binary():
            return value.cast("binary")
        if kind.is_decimal() or kind.is_timestamp():
            return value
    if engine == "postgres":
        if kind.is_string() or kind.is_float64():
            return _bytes_on_postgres(value)
        if kind.is_decimal() or kind.is_timestamp() or kind.is_binary() or kind.is_uuid():
            return value
    raise InputError(
        f"the columns of {name} must have types that {engine} is known to compare exactly, got "
        f"{kind}. {_PARQUET_FIRST}"
    )


def _bytes_on_postgres(value: ir.Value) -> ir.Value:
    """Return the bytes of a text or a double.

    A cast of text to bytes would interpret escapes; ``convert_to`` does not, and ignores
    collations.  ``float8send`` gives the bits, so that the sign of a zero and a NaN count.
    """
    import ibis

    def convert_to(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
        ...

    def float8send(number: float) -> bytes:  # type: ignore[empty-body]
        ...

    if value.type().is_string():
        return ibis.udf.scalar.builtin(convert_to)(value.cast("string"), "UTF8")
    return ibis.udf.scalar.builtin(float8send)(value)


# ---- Arrow ------------------------------------------------------------------------------------


def exact_type(kind: pa.DataType, *, secret: bool = False) -> pa.DataType:
    """Return a type that the embedded engine stores without loss; most types are unchanged.

    Durations and times of day in nanoseconds become whole numbers, timestamps in nanoseconds with a
    zone the same instant in UTC, half floats single ones, decimals of more than 38 digits text,
    views of text plain text, and extension types their storage type.  Lists and records are
    unchanged, and rejected when counted; intervals, which the engine truncates, are rejected.

    With ``secret`` the engine accepts every value of the type, so that no record decides whether a
    table can be read: durations become days, dates and times in seconds or milliseconds become
    microseconds, and times beyond their range (300 000 years) are clipped.

    Examples:
        >>> import pyarrow
        >>> print(exact_type(pyarrow.duration("us")), exact_type(pyarrow.int8()))
        int64 int8
        >>> print(exact_type(pyarrow.timestamp("ms", "UTC"), secret=True))
        timestamp[us, tz=UTC]
    """
    import pyarrow as pa
    from pyarrow import types

    if isinstance(kind, pa.BaseExtensionType):
        known = kind.extension_name == "arrow.uuid"
        return kind if known else exact_type(kind.storage_type, secret=secret)
    if secret and types.is_duration(kind):
        return pa.float64()
    if secret and (
        types.is_date64(kind) or (types.is_timestamp(kind) and kind.unit in ("s", "ms"))
    ):
        return pa.timestamp("us", None if types.is_date64(kind) else kind.tz)
    if types.is_timestamp(kind):
        return pa.timestamp("ns") if kind.unit == "ns" and kind.tz else kind
    if types.is_time64(kind):  # some files declare it in UTC, and then the engine truncates it
        return pa.int64() if kind.unit == "ns" else kind
    if types.is_decimal(kind) and kind.bit_width > 128:
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else pa.string()
    if types.is_dictionary(kind):
        if types.is_string_view(kind.value_type):  # not supported everywhere
            return pa.dictionary(kind.index_type, pa.string(), kind.ordered)
        words = types.is_string(kind.value_type) or types.is_large_string(kind.value_type)
        return kind if words else exact_type(kind.value_type, secret=secret)
    if types.is_run_end_encoded(kind):
        return exact_type(kind.value_type, secret=secret)
    if types.is_interval(kind):
        raise InputError("a table must not hold intervals of months, days and nanoseconds.")
    simple = {
        types.is_duration: pa.int64(),
        types.is_date64: pa.timestamp("ms"),
        types.is_float16: pa.float32(),
        # Some releases of the engine crash on a view.
        types.is_string_view: pa.large_string(),
        types.is_binary_view: pa.large_binary(),
    }
    return next((exact for test, exact in simple.items() if test(kind)), kind)


def exact_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array or a chunked array to its type from :func:`exact_type`."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    source = array.type
    if source == kind:
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([exact_array(chunk, kind) for chunk in array.chunks], kind)
    if isinstance(source, pa.BaseExtensionType):
        return exact_array(array.storage, kind)
    if types.is_dictionary(source) and types.is_dictionary(kind):
        words = array.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, words, ordered=kind.ordered)
    if types.is_dictionary(source):
        return exact_array(array.dictionary_decode(), kind)
    if types.is_run_end_encoded(source):
        return exact_array(pc.run_end_decode(array), kind)
    if types.is_duration(source) and types.is_float64(kind):
        return pa.array(in_days(_whole(array), source.unit), kind, mask=gaps_of(array))
    if types.is_duration(source):
        return array.cast(pa.duration("ns")).cast(kind)
    if types.is_timestamp(kind) and kind.unit == "us":
        return _microseconds(array, kind)
    return array.cast(kind)


def _whole(array: pa.Array) -> NDArray[np.int64]:
    """Return times as whole numbers of their unit, 0 for missing ones."""
    import pyarrow as pa

    return np.asarray(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _microseconds(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert dates or times to microseconds, clipped to their range."""
    import pyarrow as pa

    finer = PER_DAY["us"] // PER_DAY["ms" if pa.types.is_date64(array.type) else array.type.unit]
    farthest = np.iinfo(np.int64).max // finer
    micro = np.clip(_whole(array), -farthest, farthest) * finer
    return pa.array(micro, pa.int64(), mask=gaps_of(array)).cast(kind)


def exact_schema(schema: pa.Schema, *, secret: bool = False) -> pa.Schema:
    """Return a schema with every column in its exact type."""
    import pyarrow as pa

    return pa.schema([f.with_type(exact_type(f.type, secret=secret)) for f in schema])


def exact_batches(exact: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the types of an exact schema."""
    import pyarrow as pa

    for batch in batches:
        pairs = zip(batch.columns, exact.types, strict=True)
        yield pa.record_batch([exact_array(a, kind) for a, kind in pairs], schema=exact)


# ---- pandas -----------------------------------------------------------------------------------


def from_pandas(frame: DataFrame) -> pa.Table:
    """Convert a pandas table to Arrow without merging values in columns of objects.

    Whole numbers beyond 64 bits, decimals with different numbers of digits and signed decimal zeros
    become text.  Every missing value (None, NaN, NaT, NA) is null, as in pandas.
    Edge cases: a column that mixes types (``True`` and ``1``, text and bytes) or has objects of
    another type, such as lists, is rejected.
    """
    import pandas as pd
    import pyarrow as pa

    exact = frame.copy(deep=False)
    for index, name in enumerate(frame.columns):
        series = frame.iloc[:, index]
        if isinstance(series.dtype, pd.CategoricalDtype):
            named = series.dtype.categories
            if named.dtype == object and _one_type(named.to_series(), name).dtype != object:
                exact.isetitem(index, _one_type(series.astype(object), name))
        elif series.dtype == object:
            exact.isetitem(index, _one_type(series, name))
    try:
        return pa.Table.from_pandas(exact, preserve_index=False)
    except (OverflowError, UnicodeError, ValueError, TypeError) as error:
        if isinstance(error, pa.ArrowException):
            raise
        raise InputError(f"the DataFrame could not be read: {error}.") from error


def _one_type(series: Series, name: Hashable) -> Series:
    """Convert a column of objects so that Arrow merges no values."""
    present = series[series.notna().to_numpy()]
    kinds = {type(value) for value in present} or {str}
    if len(kinds) > 1:
        one, two, *_ = sorted(kind.__name__ for kind in kinds)
        raise InputError(
            f"column {name!r} must hold values of one type, got {one} and {two}. Convert it first, "
            "for example to text."
        )
    (kind,) = kinds
    if kind not in (str, bytes, bool, int, float, Decimal, date):
        raise InputError(
            f"column {name!r} must hold text, numbers or dates, got {kind.__name__}. Convert it "
            "first, for example to text, or with infer_objects or to_datetime of pandas."
        )
    if (kind is Decimal and len({_digits(v) for v in present}) > 1) or (
        kind is int and any(not -(2**63) <= v < 2**63 for v in present)
    ):
        return series.map(str, na_action="ignore").astype("string")
    return series


def _digits(value: Decimal) -> str:
    """Return the scale and zero sign of a decimal, which must agree within an Arrow column."""
    sign, digits, exponent = value.as_tuple()
    return f"{exponent}{' and a negative zero' if sign and not any(digits) else ''}"
