"""Inspection of an uploaded file: is it what its name says, how large, which columns has it?

Runs in a child process with limits.  Nothing is unpacked to disk; sizes are counted while
decompressing, or read from the metadata before any page is.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from pathlib import Path
from typing import TypedDict

from memberbound.errors import InputError
from memberbound.faces.web.server_limits import sized

__all__ = ["ENDINGS", "Inspection", "ending_of", "inspected"]

ENDINGS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")
#: Models that run nothing when they are read; the others are left to the command line.
MODELS = (".skops", ".onnx")
_BLOCK = 2**20
#: Beyond this many cells the distinct values are not counted.
_COUNTED_CELLS = 20_000_000
#: How files start that are certainly not text.
_NOT_TEXT = (b"PAR1", b"ARROW1", b"FEA1", b"\x1f\x8b", b"PK\x03\x04", b"%PDF", b"SQLite")


def ending_of(name: str) -> str:
    """Return the ending of a file name among those that are read, or refuse it."""
    endings = [ending for ending in (*ENDINGS, *MODELS) if name.lower().endswith(ending)]
    if not endings:
        raise InputError(
            f"the file's name must end in {', '.join(ENDINGS)} (a table) or {', '.join(MODELS)} "
            f"(a model), got {name[-80:]!r}."
        )
    return max(endings, key=len)


class Inspection(TypedDict):
    """How many rows a table has, and what its columns are; nothing for a model."""

    rows: int | None
    columns: list[dict[str, object]]


def inspected(path: Path, rows: int, columns: int, unpacked: int) -> Inspection:
    """Return the rows and columns of a table, or refuse a file that is not one or too large."""
    ending = ending_of(path.name)
    if ending in MODELS:
        _check_model(path, unpacked)
        return {"rows": None, "columns": []}
    checks = {".csv": _check_text, ".csv.gz": _check_gzip, ".parquet": _check_parquet}
    checks.get(ending, _check_arrow)(path, rows, columns, unpacked)
    from memberbound.tables.counting import numbered
    from memberbound.tables.table import open_table

    with open_table(path) as table:
        _at_most("columns", len(table.columns), columns)
        count = int(table.run("counting rows", lambda: table.expr.count().to_pyarrow()).as_py())
        _at_most("rows", count, rows)
        readings = table.readings()
        distinct: dict[str, int | None] = dict.fromkeys(table.columns)
        if count * len(table.columns) <= _COUNTED_CELLS:
            # Counted as they are compared: the text of a CSV file, not the number it stands for.
            keys = numbered(table, table.columns)
            sums = {f"d{i}": keys[f"k{i}"].nunique() for i in range(len(table.columns))}
            (counts,) = table.fetch(keys.aggregate(**sums), "counting values").to_pylist()
            distinct = {c: int(counts[f"d{i}"]) for i, c in enumerate(table.columns)}
        return {
            "rows": count,
            "columns": [
                {
                    "name": name,
                    # Types that the engine has and ibis has not are told apart by nothing.
                    "type": "other" if kind.is_unknown() else str(kind),
                    "role": readings[name].role,
                    "numeric": readings[name].numeric or readings[name].form == "truth",
                    "distinct": distinct[name],
                }
                for name, kind in table.expr.schema().items()
            ],
        }


def _at_most(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise InputError(
            f"the file must have at most {limit} {what}, got {count}. The command line has no such "
            "limit."
        )


def _too_large(limit: int) -> InputError:
    return InputError(f"the file must unpack to at most {sized(limit)}, got more.")


def _check_text(path: Path, rows: int, columns: int, unpacked: int) -> None:
    del rows
    if path.stat().st_size > unpacked:
        raise _too_large(unpacked)
    with path.open("rb") as stream:
        _plain_text(stream.read(_BLOCK), columns)


def _plain_text(head: bytes, columns: int) -> None:
    from memberbound.tables.source import DELIMITERS

    if not head:
        raise InputError("the file must hold a table, got an empty file.")
    if head.startswith(_NOT_TEXT) or b"\0" in head:
        raise InputError("the file must be a CSV text as its name says, got something else.")
    # The engine would take minutes over a first line of a million names before they are counted.
    outside = b"".join(head.split(b'"')[::2])
    line, *rest = re.split(rb"[\r\n]", outside, maxsplit=1)
    if not rest and len(head) >= _BLOCK:
        raise InputError(f"the file's first line must be shorter than {sized(_BLOCK)}, got more.")
    _at_most("columns", 1 + max(line.count(mark.encode()) for mark in DELIMITERS), columns)


def _check_gzip(path: Path, rows: int, columns: int, unpacked: int) -> None:
    del rows
    total, head = 0, b""
    try:
        with gzip.open(path) as stream:
            while block := stream.read(_BLOCK):
                head = head or block
                total += len(block)
                if total > unpacked:
                    raise _too_large(unpacked)
    except EOFError:
        raise InputError(
            "the file must be a whole gzip archive, got one that ends early."
        ) from None
    except (zlib.error, gzip.BadGzipFile) as problem:
        raise InputError("the file must be a gzip archive, got something else.") from problem
    _plain_text(head, columns)


def _check_parquet(path: Path, rows: int, columns: int, unpacked: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as problem:
        raise InputError("the file must be a Parquet file, got something else.") from problem
    _at_most("rows", about.num_rows, rows)
    _at_most("columns", about.num_columns, columns)
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    if sum(max(group.total_byte_size, 0) for group in groups) > unpacked:
        raise _too_large(unpacked)


def _check_arrow(path: Path, rows: int, columns: int, unpacked: int) -> None:
    import pyarrow as pa

    try:
        with path.open("rb") as stream:
            packed = stream.read(6) == b"ARROW1"
        with pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file) if packed else pa.ipc.open_stream(file)
            _at_most("columns", len(reader.schema), columns)
            count = size = 0
            parts = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if packed
                else iter(reader)
            )
            for batch in parts:
                count, size = count + batch.num_rows, size + batch.nbytes
                _at_most("rows", count, rows)
                if size > unpacked:
                    raise _too_large(unpacked)
    except MemoryError as problem:
        raise _too_large(unpacked) from problem
    except (pa.ArrowException, OSError) as problem:
        raise InputError("the file must be an Arrow file, got something else.") from problem


def _check_model(path: Path, unpacked: int) -> None:
    """Refuse what is no model by its form; it is read where it is used, in the job."""
    if path.suffix.lower() == ".onnx":
        if path.stat().st_size > unpacked:
            raise _too_large(unpacked)
        return
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except (zipfile.BadZipFile, OSError) as problem:
        raise InputError("the file must be a skops file, got something else.") from problem
    if size > unpacked:
        raise _too_large(unpacked)
