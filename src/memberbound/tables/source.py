"""Where tables come from: files, databases and objects in memory become rows on an engine.

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

Two rows are the same cell when every column agrees, and two values agree only if no learner could
tell them apart (how: :mod:`memberbound.tables.exact`):

- null is a value of its own: null equals null and nothing else, the empty string included;
- floats are compared by their bits: 0.0 differs from -0.0, NaN from null, and a NaN from a NaN with
  another payload (in pandas, where NaN says that a value is missing, all are null);
- text is compared by its bytes, without the collation of its column: case, accents' encoding,
  trailing blanks and zero characters count;
- times are compared to the last digit stored, nanoseconds included;
- the values of one column of decimals or whole numbers are compared as numbers.

Durations are read as whole numbers of nanoseconds, timestamps in nanoseconds with a zone in UTC,
half floats as single ones, decimals of more than 38 digits as text.  Lists, records, intervals and
other types that are not compared in this way are refused.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from memberbound.errors import InputError
from memberbound.files import FULL, csv_codec, csv_encoding
from memberbound.tables.csv_records import has_other_line_ends, quote_line_ends, sections
from memberbound.tables.engine import (
    BATCH_ROWS,
    ENCODING_REMEDY,
    Engine,
    identifier,
    literal,
    one_sentence,
)
from memberbound.tables.exact import exact_schema, from_pandas, moved_columns
from memberbound.tables.foreign_files import (
    FOREIGN_ENDINGS,
    foreign_rows,
    picked_table,
    sqlite_rows,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import numpy as np
    import pyarrow as pa
    import pyarrow.dataset as pads
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

_DELIMITED = {".csv": None, ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc", ".arrows")
#: Files of which a range of rows can be read.
COLUMN_FILES = (*_PARQUET, *_ARROW)
_DATABASE = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
_SQLITE = b"SQLite format 3"
_KNOWN = (
    ".csv, .tsv (also .gz, .zst, .xz, .bz2), .parquet, .arrow, .feather, .npy, .duckdb, .sqlite, "
    ".xlsx, .dta, .sav, .sas7bdat"
)
_LINES = " In Python: pandas.read_json(file, lines=True).to_parquet('table.parquet')."
#: What makes a table of another format one that is read.
CONVERSIONS = {
    ".xls": " Save it as .xlsx in Excel or LibreOffice.",
    ".ods": " Save it as .xlsx in LibreOffice.",
    ".json": " In Python: pandas.read_json(file).to_parquet('table.parquet').",
    ".jsonl": _LINES,
    ".ndjson": _LINES,
    ".rds": " In R: arrow::write_parquet(readRDS(file), 'table.parquet').",
    ".rdata": " In R: arrow::write_parquet(table, 'table.parquet').",
}
#: Values per batch when an array is copied.
_VALUES = 2**21


def check_file(source: str | os.PathLike[str], *, folders: bool = False) -> None:
    """Refuse a name that is no file's, before anything else is looked at.

    With ``folders`` it may be that of a folder of Parquet files.
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
    if not path.is_file():  # it might never end
        raise InputError(f"{path} is a pipe or a device; write it to a file first ({_KNOWN}).")


def _magic(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(16)


def _plain(engine: Engine, path: Path) -> Path:
    """Return a path to the same file that the engine cannot take for a pattern of names."""
    if not any(character in str(path) for character in "*?[{\\"):
        return path
    link = engine.folder / f"{engine.fresh('file')}{path.suffix}"
    link.symlink_to(path.absolute())
    return link


def same_for_secret_rows(path: Path) -> bool:
    """Tell whether a file is read alike where its rows are secret: a DuckDB file declares types."""
    database = path.suffix.lower() in _DATABASE and path.is_file()
    return database and not _magic(path).startswith(_SQLITE)


def file_view(engine: Engine, path: Path, table: str | None, *, secret: bool = False) -> str:
    """Return a view of a file; with ``secret`` no row decides how another is read.

    ``table`` names the table of a database file; it may be left out when there is only one.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return _parquet_folder(engine, path, secret=secret)
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise InputError(f"{path} must have a name that is text. Rename it.")
    if suffix in _DATABASE:
        if not _magic(path).startswith(_SQLITE):
            return _duckdb(engine, path, table)
        return engine.copied(*sqlite_rows(path, table, secret=secret), secret=secret)
    if suffix in FOREIGN_ENDINGS:
        return engine.copied(*foreign_rows(path, table, secret=secret), secret=secret)
    if table is not None:
        raise InputError(f"table must be left out for {path}: only a database holds several.")
    inner = Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix
    if inner in _DELIMITED:
        plain = _plain(engine, path)
        return _delimited(engine, plain, str(path), _DELIMITED[inner], secret=secret)
    if suffix in _PARQUET:
        return _parquet(engine, [path], secret=secret)
    if suffix in _ARROW:
        return _arrow_file(engine, path, secret=secret)
    if suffix == ".npy":
        return _array(engine, stored_array(path), str(path), secret=secret)
    raise InputError(f"{path} must end in one of {_KNOWN}.{CONVERSIONS.get(suffix, '')}")


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names; none that are hidden."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in _PARQUET)
    hidden = ("_", ".")
    return sorted(
        path
        for path in files
        if path.is_file() and not any(p.startswith(hidden) for p in path.relative_to(folder).parts)
    )


def _parquet_folder(engine: Engine, folder: Path, *, secret: bool) -> str:
    """Return a view of all Parquet files in a folder, with a column of text per ``name=value``.

    Which types values of such a name could have is not asked: one record could decide it.
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
    """Let the engine read files of one schema unless it would cut what pyarrow reads whole."""
    import pyarrow.parquet as pq

    schema, old = _parquet_schema(paths[0])
    if exact_schema(schema, secret=secret).types == schema.types and not old:
        plain = [_plain(engine, path) for path in paths]
        return engine.parquet(plain, partitioned=partitioned)
    if partitioned:
        raise InputError(
            f"{paths[0].parent.parent} must hold plain types where folders name values. Write it "
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
        return engine.copied(file.schema_arrow, batches(), secret=secret)


def _without_nanoseconds(
    coarse: pq.ParquetFile, fine: pq.ParquetFile, old: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with 96-bit timestamps in microseconds; refuse those that this would cut.

    No 64-bit unit has their range and their digits.  The product below wraps around where the
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
        return engine.copied(stream.schema, _sound(stream), secret=secret)


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches whose offsets and lengths fit: damaged ones would be followed into nowhere.

    Dates with a time of day are odd, but every program reads them as they are.
    """
    import pyarrow as pa

    for batch in batches:
        batch.validate()
        for column in batch.columns:
            if not pa.types.is_date64(column.type):
                column.validate(full=True)
        yield batch


def stored_array(path: Path) -> NDArray[np.generic]:
    """Return the array of a ``.npy`` file, not yet read into memory."""
    import numpy as np

    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # a header is Python text, and a damaged one says anything
        raise InputError(f"{path} could not be read: {one_sentence(error)}.") from error


def _array(engine: Engine, array: NDArray[np.generic], name: str, *, secret: bool = False) -> str:
    """Copy an array in blocks; DuckDB cannot scan it as it lies on disk.

    Halves of surrogate pairs, which no file of texts can hold, are question marks in secret rows.
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
    return engine.copied(schema, blocks(), secret=secret)


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
        return engine.copied(dataset.schema, _sound(batches), secret=secret)
    if isinstance(source, duckdb.DuckDBPyRelation):
        types = dict(zip(source.columns, source.types, strict=True))
        source = source.project(moved_columns(types, "the relation")).to_arrow_reader(BATCH_ROWS)
    if isinstance(source, pa.RecordBatchReader):
        return engine.copied(source.schema, source, secret=secret)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas, not imported for this
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
    """Return a view of a stored table; a view of the file could read any other file."""
    catalog = engine.fresh("database")
    engine.sql(f"ATTACH {literal(path)} AS {identifier(catalog)} (READ_ONLY, TYPE duckdb)")
    tables = engine.sql(
        "SELECT table_schema, table_name, table_type = 'BASE TABLE' FROM information_schema.tables "
        f"WHERE table_catalog = {literal(catalog)} ORDER BY ALL"
    ).fetchall()
    places = {n if s == "main" else f"{s}.{n}": ((s, n), stored) for s, n, stored in tables}
    schema, name = picked_table(path, table, places)
    return engine.view(f"SELECT * FROM {'.'.join(map(identifier, (catalog, schema, name)))}")


def refuse_cut(source: ir.Table, *, secret: bool = False) -> None:
    """Refuse tables of ibis whose engine would be handed, or would compare, less than they hold.

    With ``secret`` also types of which the engine does not take every value.
    """
    import ibis.expr.operations as ops

    if source.get_backend().name == "sqlite":  # its columns have no types, only affinities
        raise InputError("a table of SQLite must be given as its file, not by way of ibis.")

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


# ── CSV files read as they are written: every field is text, nothing is guessed but the delimiter
#
# Guessing types would merge what is different in the file (``1.5`` and ``1.50``, ``True`` and
# ``true``, two long decimals that round to one double, two times a nanosecond apart, ``'x'`` and
# ``x``), and cells that are merged without need make a certificate too small.  Text equality is the
# finest reading, so it errs on the safe side; :mod:`memberbound.tables.roles` parses where
# arithmetic is wanted.
#
# The dialect is RFC 4180: the first line names the columns, ``"`` quotes and ``""`` is a quote
# inside quotes, UTF-8 with or without a byte-order mark; how the first line ends, every record
# does (:mod:`memberbound.tables.csv_records`).  The delimiter is the one among comma,
# semicolon, tab and bar that stands most often in the first line, a comma in doubt.  An empty
# field, quoted or not, is null; no other spelling (``NA``, ``N``, ``?``) is.

DELIMITERS = (",", ";", "\t", "|")
#: What the engine reads itself, and what is unpacked into the private folder first.
_STREAMED = {".gz": "gzip", ".zst": "zstd"}
_UNPACKED: dict[str, type[lzma.LZMAFile] | type[bz2.BZ2File]] = {
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
}
COMPRESSIONS = (*_STREAMED, *_UNPACKED)
#: A row that repeats so many names, or all of fewer, repeats the header.
_HEADER_COLUMNS = 16
#: A first line longer than this is not a list of column names.
_LONGEST_HEADER = 2**22
#: What stands before the first end of a line that is not inside quotes.
_FIRST_LINE = re.compile(r'(?:[^"\r\n]++|"[^"]*+")*+')
_CHUNK = 2**20
#: Bytes of secret rows that are read as one block; of more, sections are.
_LARGEST_BLOCK = 2**27


def _delimited(
    engine: Engine,
    path: Path,
    name: str,
    delimiter: str | None,
    *,
    secret: bool,
    whole: bool = True,
) -> str:
    """Return a view of a CSV file; ``path`` must hold no glob characters.

    A ``secret`` file is read as one block: where blocks meet, the engine looks for the end of a
    line, which it takes for one inside quotes too, and it refuses long lines.  A large one is
    copied in sections, each of them one block, unless it is such a section (``whole`` false).
    """
    encoded = csv_codec() != "utf-8"
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    if compression in _UNPACKED or (secret and compression) or encoded:
        path, compression = _unpacked(engine, path, name), ""
    unpacked = partial(path.open, "rb") if encoded else partial(_open, path)
    opened = cast("Callable[[], IO[bytes]]", unpacked)
    with opened() as stream:
        delimiter, columns, end = _header(stream, name, delimiter)
    with opened() as stream:
        other = whole and has_other_line_ends(stream, end)
    if other:
        with opened() as stream:
            quoted = quote_line_ends(stream, delimiter.encode(), end)
            path, compression = _plain_copy(engine, quoted), ""
    if secret and whole and path.stat().st_size > _LARGEST_BLOCK:
        with path.open("rb") as stream:
            line = stream.readline()
            # Else a name goes on in the next line, or lines end with a carriage return alone.
            if line.count(b'"') % 2 == 0 and b"\r" not in line.rstrip(b"\r\n"):
                return _copied_sections(engine, stream, line, name, delimiter)
    size = max(path.stat().st_size, _CHUNK)
    block = f"max_line_size = {size}, buffer_size = {size}, " if secret else ""
    packing = literal(_STREAMED.get(compression, "none"))
    numbered = [f"c{i}" for i in range(len(columns))]
    typed = ", ".join(f"{key}: 'VARCHAR'" for key in numbered)
    pairs = list(zip(numbered, columns, strict=True))
    # Files put together with their headers: a row that repeats the names is one of missing values.
    names = [f"{key} = {literal(column)}" for key, column in pairs[:_HEADER_COLUMNS]]
    header = " AND ".join(names) if len(names) > 1 else "false"
    named = ", ".join(
        f"CASE WHEN NOT header THEN {key} END AS {identifier(column)}" for key, column in pairs
    )
    return engine.view(
        f"SELECT {named} FROM (SELECT *, coalesce({header}, false) AS header FROM "
        f"read_csv({literal(path)}, auto_detect = false, header = true, "
        f"columns = {{{typed}}}, delim = {literal(delimiter)}, quote = '\"', escape = '\"', "
        f"skip = 0, comment = '', nullstr = '', compression = {packing}, "
        f"{block}hive_partitioning = false))"
    )


def _plain_copy(engine: Engine, parts: Iterable[bytes]) -> Path:
    """Write the parts of a CSV file to the engine's private folder."""
    plain = engine.folder / f"{engine.fresh('csv')}.csv"
    with plain.open("wb") as out:
        out.writelines(parts)
    return plain


def _unpacked(engine: Engine, path: Path, name: str) -> Path:
    """Return a copy of a CSV file without compression, in UTF-8."""
    try:
        with _open(path) as packed:
            return _plain_copy(engine, iter(partial(packed.read, _CHUNK), b""))
    except UnicodeError:
        raise InputError(
            f"{name} must be encoded as {csv_codec()}, and is not. Give another encoding."
        ) from None
    except (lzma.LZMAError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise  # not the file's fault
        raise InputError(f"{name} could not be unpacked: {one_sentence(error)}.") from error


def _copied_sections(
    engine: Engine, stream: IO[bytes], header: bytes, name: str, delimiter: str
) -> str:
    """Copy the rows after the header in sections that end where a record ends."""
    part = engine.folder / f"{engine.fresh('section')}.csv"

    def batches() -> Iterator[pa.RecordBatch]:
        for section in sections(stream, delimiter.encode()):
            part.write_bytes(header + section)
            view = _delimited(engine, part, name, delimiter, secret=True, whole=False)
            yield from engine.connection.sql(f"SELECT * FROM {view}").to_arrow_reader(BATCH_ROWS)
            engine.sql(f"DROP VIEW {view}")

    rows = batches()
    try:
        first = next(rows)
        return engine.copied(first.schema, itertools.chain([first], rows))
    finally:
        part.unlink(missing_ok=True)


def separator_of(path: Path | None) -> str | None:
    """Return the separator of a CSV file, by its name or first line; None where there is none."""
    endings = [] if path is None else [ending.lower() for ending in path.suffixes]
    if path is None or not set(_DELIMITED) & set(endings) or path.is_dir():
        return None
    if ".tsv" in endings:
        return "\t"
    with _open(path) as stream:
        return _header(stream, str(path), None)[0]


def header_notes(source: object) -> tuple[str, ...]:
    """Return a note if lines of a CSV file repeat its first one; for the owner of the file only.

    Such rows are read as missing values.  ``source`` is a file, or a table that was opened from it.
    """
    place = getattr(source, "path", source)
    path = Path(place) if isinstance(place, (str, os.PathLike)) else None
    if path is None or not path.is_file() or separator_of(path) is None:
        return ()
    with csv_encoding(getattr(source, "encoding", None)), _open(path) as stream:
        lines = (line.rstrip(b"\r\n") for line in stream)
        first = next(lines, b"").removeprefix(codecs.BOM_UTF8)
        if not any(mark.encode() in first for mark in DELIMITERS):
            return ()  # one column, whose name may be a value
        numbers = [number for number, line in enumerate(lines, 2) if line == first]
    if not numbers:
        return ()
    more = f" and {len(numbers) - 5} more" if numbers[5:] else ""
    shown = ", ".join(map(str, numbers[:5])) + more
    verb = "line {} of {} repeats" if len(numbers) == 1 else "lines {} of {} repeat"
    return (f"{verb.format(shown, path.name)} the header: read as missing values",)


def _open(path: Path) -> io.BufferedIOBase:
    """Return the bytes of a CSV file, unpacked and as UTF-8."""
    compression = path.suffix.lower()
    if compression == ".gz":
        stored: io.BufferedIOBase = gzip.GzipFile(path, "rb")
    elif compression in _UNPACKED:
        stored = _UNPACKED[compression](path, "rb")
    elif compression == ".zst":
        import pyarrow as pa

        stored = pa.input_stream(str(path), compression="zstd")
    else:
        stored = path.open("rb")
    if csv_codec() == "utf-8":
        return stored
    return cast("io.BufferedIOBase", codecs.EncodedFile(stored, "utf-8", csv_codec()))


def csv_columns(path: Path) -> list[str]:
    """Return the column names of a CSV file without starting an engine."""
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix
    with _open(path) as stream:
        return _header(stream, str(path), _DELIMITED[inner])[1]


def _header(
    stream: IO[bytes] | io.BufferedIOBase, name: str, delimiter: str | None
) -> tuple[str, list[str], bytes]:
    """Return the delimiter and the column names from the first line, and how it ends."""
    # Only the first line must be UTF-8 here, and the last character may be cut.
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    head = decoder.decode(stream.read(_LONGEST_HEADER))
    first = _FIRST_LINE.match(head)[0]  # type: ignore[index]  # it fits everything
    if first == head and stream.read(1):
        raise InputError(
            f"{name} must name its columns in the first line, got one of more than "
            f"{_LONGEST_HEADER} bytes."
        )
    if head[len(first) :].startswith('"'):
        raise InputError(f"{name} must close every quote of its first line.")
    if re.search("[\udc80-\udcff]", first):
        raise InputError(
            f"{name} must be encoded as UTF-8, and its first line is not. {ENCODING_REMEDY}"
        )
    if not first.strip():
        raise InputError(f"{name} must name its columns in the first line.")
    outside = "".join(first.split('"')[::2])
    chosen = delimiter or max(DELIMITERS, key=outside.count)
    try:
        names = next(csv.reader(io.StringIO(first, newline=""), delimiter=chosen))
    except csv.Error as error:
        raise InputError(f"{name} must name its columns in the first line: {error}.") from None
    columns = [column or f"column{i}" for i, column in enumerate(names)]
    seen: dict[str, str] = {}
    for column in columns:
        if column.casefold() in seen:
            raise InputError(
                f"{name} must give its columns different names (upper and lower case count as "
                f"the same), got {seen[column.casefold()]!r} and {column!r}."
            )
        seen[column.casefold()] = column
    end = re.match("\r?\n?", head[len(first) :])[0]  # type: ignore[index]  # it fits everything
    return chosen, columns, end.encode() or b"\n"
