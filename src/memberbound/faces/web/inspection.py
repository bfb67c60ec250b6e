"""Inspect an uploaded table: its uncompressed size, its columns, its rows.

A small file can expand to gigabytes, or have enough columns to make query planning take minutes.
Both are refused before the reader opens the table.  The metadata of a file may be wrong; the limits
on the memory and the time of the process hold regardless.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path

from memberbound.errors import InputError
from memberbound.faces.web.limits import format_size
from memberbound.files import codec_named
from memberbound.tables.csv_files import csv_columns
from memberbound.tables.opening import open_table

_REMEDY = "The command line has no such limit."
_CHUNK = 2**20


def inspect(
    path: Path,
    *,
    encoding: str | None = None,
    sheet: str | None = None,
    most_bytes: int,
    most_columns: int,
) -> dict[str, object]:
    """Return the number of rows of a table, and the names and roles of its columns.

    Raises:
        InputError: it unpacks to more than ``most_bytes``, has more than ``most_columns`` columns,
            or cannot be read.
    """
    size, columns = _declared_size(path, encoding, most_bytes)
    if size > most_bytes:
        raise InputError(f"{path} must be at most {format_size(most_bytes)} unpacked. {_REMEDY}")
    _check_columns(path, columns, most_columns)
    with open_table(path, sheet, encoding=encoding) as table:
        _check_columns(path, len(table.columns), most_columns)
        count = table.run(lambda: table.expr.count().to_pyarrow()).as_py()
        found = [{"name": name, "role": r.role} for name, r in table.readings().items()]
        return {"rows": int(count), "columns": found}


def _check_columns(path: Path, count: int, most: int) -> None:
    if count > most:
        raise InputError(
            f"{path} must have at most {most} columns, got {count}. The command line reads more."
        )


def _declared_size(path: Path, encoding: str | None, most: int) -> tuple[int, int]:
    """Return the declared uncompressed size and columns of a file; 0 if only the reader can tell.

    A damaged file is reported with its size on disk; the reader then refuses it.
    """
    import pyarrow as pa

    size = path.stat().st_size
    try:
        match path.suffix:
            case ".csv" | ".tsv" | ".gz":
                if path.suffix == ".gz":
                    size = _unpacked_size(path, most)
                return size, 0 if size > most else len(csv_columns(path, codec_named(encoding)))
            case ".xlsx" | ".xlsm":
                # zipfile extracts no more of a member than its directory declares.
                with zipfile.ZipFile(path) as archive:
                    return sum(member.file_size for member in archive.infolist()), 0
            case ".parquet":
                from pyarrow import parquet

                about = parquet.read_metadata(path)
                groups = map(about.row_group, range(about.num_row_groups))
                return sum(int(group.total_byte_size) for group in groups), int(about.num_columns)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, pa.ArrowException):
        pass
    return size, 0


def _unpacked_size(path: Path, most: int) -> int:
    """Count the bytes in a gzip file, no further than just beyond ``most``."""
    size = 0
    with gzip.open(path) as stream:
        while size <= most and (block := stream.read(_CHUNK)):
            size += len(block)
    return size
