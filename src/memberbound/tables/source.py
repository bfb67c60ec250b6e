"""Sources of tables: read files, databases and objects in memory into an engine.

===================================  ============================================================
what                                 how its values are compared
===================================  ============================================================
``.csv`` ``.tsv`` (``.gz`` ``.zst``  as text, exactly as written
``.xz`` ``.bz2``)
``.parquet``                         as typed in the file
a folder of Parquet files            as typed in the files, all of which have the same columns;
                                     folders ``name=value`` inside it give columns of text
``pyarrow.dataset``                  as typed; copied in parts, never held whole
``.arrow`` ``.feather``              as typed in the file (file or stream format)
``.xlsx``                            as each cell is typed; a column that mixes types is text
``.dta`` ``.sav`` ``.sas7bdat``      as typed in the file, labelled codes by their labels
``.npy``                             2-D array: columns ``x0``, ``x1``, …; 1-D: one column
``.duckdb`` files                    the stored table named by ``table=`` (no view, which could
                                     read other files), opened read-only, as typed
SQLite files                         stored tables, whatever a column is declared: whole numbers,
                                     floats, text or bytes; a column that mixes them is text, a
                                     number as its literal (``1``, ``1.0``), bytes as ``x'31'``, a
                                     text as it is unless it could be taken for one of these
                                     (``'1'``); where the rows are secret, every column is
pandas                               as typed; a missing value of any kind (None, NaN, NaT, NA) is
                                     null, as pandas means it; a column of objects must hold one
                                     type
polars, pyarrow, numpy               as typed
ibis on DuckDB                       on its own engine, as typed
a relation of DuckDB                 as typed; streamed to the embedded engine, never held whole
ibis on Spark                        on its own engine: truth values, whole numbers, decimals,
                                     dates, timestamps, text and bytes; other types are refused
ibis on Postgres                     on its own engine: truth values, whole numbers, decimals,
                                     floats, dates, timestamps, text, bytes and UUIDs
ibis on another engine               on its own engine: truth values, whole numbers and dates
===================================  ============================================================

Two rows share a cell if every column agrees, and two values agree only if no learner can
distinguish them (:mod:`memberbound.tables.exact`):

- null is a value of its own: null equals null and nothing else, the empty string included;
- floats are compared by their bits: 0.0 differs from -0.0, NaN from null, and a NaN from a NaN with
  another payload (in pandas, where NaN is a missing value, all are null);
- text is compared by its bytes, without the collation of its column: case, accents' encoding,
  trailing blanks and zero characters count;
- times are compared to the last digit stored, nanoseconds included;
- the values of one column of decimals or whole numbers are compared as numbers.

Durations are read as whole numbers of nanoseconds, timestamps in nanoseconds with a zone in UTC,
half floats as single ones, decimals of more than 38 digits as text.  Lists, records, intervals and
other types that cannot be compared in this way are rejected.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from memberbound.errors import InputError
from memberbound.leaves import load_leaf
from memberbound.tables.csv_files import CsvFormat, csv_view, is_csv
from memberbound.tables.engine import (
    BATCH_ROWS,
    Engine,
    identifier,
    literal,
    one_sentence,
)
from memberbound.tables.exact import exact_schema, from_pandas, lossless_expressions

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import numpy as np
    import pyarrow as pa
    import pyarrow.dataset as pads
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

T = TypeVar("T")

_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc", ".arrows")
#: Files that can be read by ranges of rows.
COLUMN_FILES = (*_PARQUET, *_ARROW)
_DATABASE = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
_SQLITE = b"SQLite format 3"
#: Formats of other programs, which the leaf ``foreign_files`` reads.
FOREIGN_ENDINGS = (".xlsx", ".xlsm", ".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt")
_KNOWN = (
    ".csv, .tsv (also .gz, .zst, .xz, .bz2), .parquet, .arrow, .feather, .npy, .duckdb, .sqlite, "
    ".xlsx, .dta, .sav, .sas7bdat"
)
_LINES = " In Python: pandas.read_json(file, lines=True).to_parquet('table.parquet')."
#: Remedies for formats that must be converted first.
CONVERSIONS = {
    ".xls": " Save it as .xlsx in Excel or LibreOffice.",
    ".ods": " Save it as .xlsx in LibreOffice.",
    ".json": " In Python: pandas.read_json(file).to_parquet('table.parquet').",
    ".jsonl": _LINES,
    ".ndjson": _LINES,
    ".rds": " In R: arrow::write_parquet(readRDS(file), 'table.parquet').",
    ".rdata": " In R: arrow::write_parquet(table, 'table.parquet').",
}
#: Number of values per batch when copying an array.
_VALUES = 2**21


def check_file(source: str | os.PathLike[str], *, folders: bool = False) -> None:
    """Reject a path that is not a file, before any other check.

    With ``folders``, a folder of Parquet files is accepted too.
    """
    path = Path(source)
    if path.is_dir():
        if not folders:
            raise InputError(f"{path} is a directory; name one file ({_KNOWN}).")
        if not parquet_files(path):
            raise InputError(
                f"{path} is a directory without Parquet files; name one file ({_KNOWN})."
            )
        return
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if not path.is_file():  # reading it might never end
        raise InputError(f"{path} is a pipe or a device; write it to a file first ({_KNOWN}).")


def _magic(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(16)


def same_for_secret_rows(path: Path) -> bool:
    """Return whether secret and public rows of a file are read alike: a DuckDB file has types."""
    database = path.suffix.lower() in _DATABASE and path.is_file()
    return database and not _magic(path).startswith(_SQLITE)


def file_view(
    engine: Engine, path: Path, table: str | None, *, codec: str | None = None, secret: bool = False
) -> tuple[str, CsvFormat | None]:
    """Return a view of a file, and its format if it is a CSV file.

    ``table`` names the table of a database file; it may be left out if there is only one. ``codec``
    is the encoding of a CSV file; None detects it.  With ``secret``, no row affects how another is
    read.
    """
    if not path.is_dir() and any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise InputError(f"{path} must have a name that is text. Rename it.")
    if is_csv(path) and not path.is_dir():
        _refuse_inner_table(path, table)
        return csv_view(engine, path, codec, secret=secret)
    return _typed_view(engine, path, table, secret=secret), None


def pick_table(path: Path, table: str | None, tables: dict[str, tuple[T, bool]]) -> T:
    """Return the named table of a database, or its only one.

    Each entry states whether the table is stored.  Views and virtual tables are rejected, because
    they run queries from the file, which may be untrusted.
    """
    stored = {name: location for name, (location, is_stored) in tables.items() if is_stored}
    names = ", ".join(map(repr, stored)) or "no stored table at all"
    if table is not None:
        if table in tables and table not in stored:
            raise InputError(
                f"table must be a stored table of {path}, got the view {table!r}, which could read "
                "other files. Store its rows: CREATE TABLE new AS SELECT * FROM it."
            )
        if table not in stored:
            raise InputError(f"{path} has no table {table!r}; it has {names}.")
        return stored[table]
    if len(stored) != 1:
        raise InputError(f"table must name one table of {path}, which has {names}.")
    return next(iter(stored.values()))


def _typed_view(engine: Engine, path: Path, table: str | None, *, secret: bool) -> str:
    """Return a view of a file with typed values."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return _parquet_folder(engine, path, secret=secret)
    if suffix in _DATABASE:
        if not _magic(path).startswith(_SQLITE):
            return _duckdb(engine, path, table)
        return engine.write_batches(
            *load_leaf("foreign files").sqlite_rows(path, table, secret=secret), secret=secret
        )
    if suffix in FOREIGN_ENDINGS:
        return engine.write_batches(
            *load_leaf("foreign files").foreign_rows(path, table, secret=secret), secret=secret
        )
    _refuse_inner_table(path, table)
    if suffix in _PARQUET:
        return _parquet(engine, [path], secret=secret)
    if suffix in _ARROW:
        return _arrow_file(engine, path, secret=secret)
    if suffix == ".npy":
        return _array(engine, open_array(path), str(path), secret=secret)
    raise InputError(f"{path} must end in one of {_KNOWN}.{CONVERSIONS.get(suffix, '')}")


def _refuse_inner_table(path: Path, table: str | None) -> None:
    """Reject the name of a table inside a file that has only one."""
    if table is not None:
        raise InputError(f"table must be left out for {path}: only a database holds several.")


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, sorted by name, without hidden ones."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in _PARQUET)
    hidden = ("_", ".")
    return sorted(
        path
        for path in files
        if path.is_file() and not any(p.startswith(hidden) for p in path.relative_to(folder).parts)
    )


def _parquet_folder(engine: Engine, folder: Path, *, secret: bool) -> str:
    """Return a view of all Parquet files in a folder, with a column of text per ``name=value``.

    Types of these columns are not inferred, because one record could decide them.
    """
    files = parquet_files(folder)
    parts = [path.relative_to(folder).parts[:-1] for path in files]
    names = [[part.partition("=")[0] for part in inside if "=" in part] for inside in parts]
    schema = _parquet_schema(files[0])
    for path, named in zip(files, names, strict=True):
        if (
            _parquet_schema(path) != schema
            or named != names[0]
            or set(named) & set(schema[0].names)
        ):
            raise InputError(
                f"the files of {folder} must have the same columns with the same types, in the "
                f"same order, got others in {path.relative_to(folder)}."
            )
    return _parquet(engine, files, secret=secret, partitioned=bool(names[0]))


def _parquet_schema(path: Path) -> tuple[pa.Schema, list[str]]:
    """Return the types of a file, and its columns of 96-bit timestamps (not those in lists)."""
    import pyarrow.parquet as pq

    if _magic(path)[:4] != b"PAR1":
        raise InputError(f"{path} is not a Parquet file.")
    with pq.ParquetFile(path) as file:
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
        schema = file.schema_arrow.remove_metadata()
        old = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        return schema, [name for name in old if name in schema.names]


def _parquet(
    engine: Engine, paths: Sequence[Path], *, secret: bool, partitioned: bool = False
) -> str:
    """Read files of one schema with the engine, or with pyarrow if the engine would truncate."""
    import pyarrow.parquet as pq

    schema, old = _parquet_schema(paths[0])
    if exact_schema(schema, secret=secret).types == schema.types and not old:
        plain = [engine.plain_path(path) for path in paths]
        return engine.parquet(plain, partitioned=partitioned)
    if partitioned:
        raise InputError(
            f"{paths[0].parent.parent} must have plain types if its folders name values. Write it "
            "as one file."
        )

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with (
                pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as coarse,
                pq.ParquetFile(path, coerce_int96_timestamp_unit="ns") as fine,
            ):
                if secret or not old:
                    yield from coarse.iter_batches()
                else:
                    yield from _without_nanoseconds(coarse, fine, old)

    with pq.ParquetFile(paths[0], coerce_int96_timestamp_unit="us") as file:
        return engine.write_batches(file.schema_arrow, batches(), secret=secret)


def _without_nanoseconds(
    coarse: pq.ParquetFile, fine: pq.ParquetFile, old: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with 96-bit timestamps in microseconds; reject those with nanoseconds.

    No 64-bit unit has their range and precision.  The product below wraps around exactly as the
    nanoseconds of a file do.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch, finer in zip(coarse.iter_batches(), fine.iter_batches(columns=old), strict=True):
        for name in old:
            micro, nano = (part.column(name).view(pa.int64()) for part in (batch, finer))
            if pc.any(pc.not_equal(nano, pc.multiply(micro, 1000))).as_py():
                raise InputError(
                    f"column {name!r} must not hold 96-bit timestamps with nanoseconds. Save it "
                    "again with 64-bit timestamps."
                )
        yield batch


def _arrow_file(engine: Engine, path: Path, *, secret: bool) -> str:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    if _magic(path).startswith(b"ARROW1"):
        local = LocalFileSystem()
        stored = ds.dataset(str(path.absolute()), filesystem=local, format="ipc")
        for _ in _sound(stored.to_batches()):
            pass
        return engine.arrow(stored, secret=secret)
    if _magic(path).startswith(b"FEA1"):
        raise InputError(f"{path} is in the first Feather format; save it again as version 2.")
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return engine.write_batches(stream.schema, _sound(stream), secret=secret)


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield validated batches: invalid offsets and lengths would read outside the buffers.

    Dates with a time of day are odd, but every program reads them as they are.
    """
    import pyarrow as pa

    for batch in batches:
        batch.validate()
        for column in batch.columns:
            if not pa.types.is_date64(column.type):
                column.validate(full=True)
        yield batch


def open_array(path: Path) -> NDArray[np.generic]:
    """Open the array of a ``.npy`` file as a memory map."""
    import numpy as np

    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # the header is Python text, and a damaged one may raise anything
        raise InputError(f"{path} could not be read: {one_sentence(error)}.") from error


def _array(engine: Engine, array: NDArray[np.generic], name: str, *, secret: bool = False) -> str:
    """Copy an array in blocks, because DuckDB cannot scan it on disk.

    In secret rows, halves of surrogate pairs, which no text file can contain, become question
    marks.
    """
    import numpy as np
    import pyarrow as pa

    if array.ndim == 1:
        array = array[:, None]
    if 0 in array.shape[1:]:
        raise InputError(f"{name} has no columns.")
    if array.ndim != 2 or array.dtype.names or array.dtype.kind in "OcV":
        raise InputError(
            f"{name} must hold a 2-D array of plain values, got {array.ndim} dimensions of "
            f"{array.dtype}."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{name} must not be masked: fill the missing values first.")
    names = [f"x{i}" for i in range(array.shape[1])]
    step = max(1, _VALUES // max(1, array.shape[1]))

    def blocks() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(array), step):
            block = np.asarray(array[start : start + step])
            if secret and block.dtype.kind == "U":
                block = np.char.decode(np.char.encode(block, "utf-8", "replace"), "utf-8")
            yield pa.record_batch([np.ascontiguousarray(c) for c in block.T], names=names)

    kind = pa.array(np.asarray(array[:1]).ravel()).type
    schema = pa.schema([(column, kind) for column in names])
    return engine.write_batches(schema, blocks(), secret=secret)


def object_view(engine: Engine, source: object, *, secret: bool = False) -> str:
    """Return a view of an object in memory, or of a stream, which is copied."""
    import duckdb
    import numpy as np
    import pyarrow as pa

    if isinstance(source, np.ndarray):
        return _array(engine, source, "the array")
    if hasattr(source, "get_fragments"):
        dataset = cast("pads.Dataset", source)
        batches = dataset.to_batches(batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
        return engine.write_batches(dataset.schema, _sound(batches), secret=secret)
    if isinstance(source, duckdb.DuckDBPyRelation):
        types = dict(zip(source.columns, source.types, strict=True))
        source = source.project(lossless_expressions(types, "the relation")).to_arrow_reader(
            BATCH_ROWS
        )
    if isinstance(source, pa.RecordBatchReader):
        return engine.write_batches(source.schema, source, secret=secret)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas, without importing it
        source = from_pandas(source)
    elif type(source).__module__.startswith("polars") and hasattr(source, "__arrow_c_stream__"):
        if "Object" in map(str, getattr(source, "dtypes", ())):
            raise InputError("a polars table must not hold Python objects; convert them to text.")
        source = pa.table(source)
    if not isinstance(source, pa.Table):
        raise InputError(
            "a table must be a file name, a pandas, polars or pyarrow table, a data set of Arrow, "
            f"a numpy array, an ibis table or a relation of DuckDB, got {type(source).__name__}."
        )
    if not source.column_names:
        raise InputError("the table in memory has no columns.")
    return engine.arrow(source, secret=secret)


def _duckdb(engine: Engine, path: Path, table: str | None) -> str:
    """Return a view of a stored table; views in the file could read other files."""
    catalog = engine.fresh("database")
    engine.sql(f"ATTACH {literal(path)} AS {identifier(catalog)} (READ_ONLY, TYPE duckdb)")
    tables = engine.sql(
        "SELECT table_schema, table_name, table_type = 'BASE TABLE' FROM information_schema.tables "
        f"WHERE table_catalog = {literal(catalog)} ORDER BY ALL"
    ).fetchall()
    locations = {n if s == "main" else f"{s}.{n}": ((s, n), stored) for s, n, stored in tables}
    schema, name = pick_table(path, table, locations)
    return engine.view(f"SELECT * FROM {'.'.join(map(identifier, (catalog, schema, name)))}")


def refuse_cut(source: ir.Table, *, secret: bool = False) -> None:
    """Reject ibis tables with types that their engine would truncate.

    With ``secret``, also reject types that the engine does not accept for every value.
    """
    import ibis.expr.operations as ops

    if source.get_backend().name == "sqlite":  # columns have affinities instead of types
        raise InputError("a table of SQLite must be given as its file, not through ibis.")

    for memory in source.op().find(ops.InMemoryTable):
        for column, kind in memory.schema.items():
            zoned = kind.is_timestamp() and kind.timezone is not None
            cut = zoned and kind.scale in (None, 9)
            refused = secret and zoned and kind.scale != 6
            if kind.is_interval() or cut or refused:
                raise InputError(
                    f"column {column!r} of a table in memory must not be of type {kind} within "
                    "ibis, which does not take every value of it as it is. Give the table itself."
                )
