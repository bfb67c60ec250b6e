"""CSV files read as they are written: every field is text, nothing is guessed but the delimiter.

Guessing types would merge what is different in the file (``1.5`` and ``1.50``, ``True`` and
``true``, two long decimals that round to one double, two times a nanosecond apart, ``'x'`` and
``x``), and cells that are merged without need make a certificate too small.  Text equality is the
finest reading, so it errs on the safe side; :mod:`memberbound.tables.roles` parses where arithmetic
is wanted.

The dialect is RFC 4180: the first line names the columns, ``"`` quotes and ``""`` is a quote
inside quotes, UTF-8 with or without a byte-order mark.  The delimiter is the one among comma,
semicolon, tab and bar that stands most often in the first line, a comma in doubt.  An empty field,
quoted or not, is null; no other spelling (``NA``, ``N``, ``?``) is.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError
from memberbound.tables.engine import Engine, identifier, literal

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["COMPRESSIONS", "DELIMITERS", "delimited_table", "delimiter_of"]

DELIMITERS = (",", ";", "\t", "|")
#: What the engine reads itself, and what is unpacked into the private folder first.
_STREAMED = {"": "none", ".gz": "gzip", ".zst": "zstd"}
_UNPACKED: dict[str, type[lzma.LZMAFile] | type[bz2.BZ2File]] = {
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
}
COMPRESSIONS = (*_STREAMED, *_UNPACKED)
#: A first line longer than this is not a list of column names.
_LONGEST_HEADER = 2**24
_CHUNK = 2**20
_BLOCK = 2**16
#: Up to the first end of a line that is not inside quotes.
_FIRST_LINE = re.compile(rb'(?:[^"\r\n]|"[^"]*")*')


def delimited_table(
    engine: Engine, path: Path, name: str, compression: str = "", delimiter: str | None = None
) -> ir.Table:
    """Return the expression of a CSV file; ``path`` must hold no glob characters."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be one character, got {delimiter!r}.")
    if compression in _UNPACKED:
        plain = engine.folder / f"{engine.fresh('csv')}.csv"
        try:
            with _UNPACKED[compression](path, "rb") as packed, plain.open("wb") as out:
                shutil.copyfileobj(packed, out, _CHUNK)
        except (lzma.LZMAError, EOFError, OSError) as error:
            raise InputError(f"{name} could not be unpacked: {error}.") from error
        path, compression = plain, ""
    with _open(path, compression) as stream:
        delimiter, columns = _header(stream, name, delimiter)
    numbered = [f"c{i}" for i in range(len(columns))]
    typed = ", ".join(f"{key}: 'VARCHAR'" for key in numbered)
    named = ", ".join(
        f"{key} AS {identifier(column)}" for key, column in zip(numbered, columns, strict=True)
    )
    return engine.view(
        f"SELECT {named} FROM read_csv({literal(path)}, auto_detect = false, header = true, "
        f"columns = {{{typed}}}, delim = {literal(delimiter)}, quote = '\"', escape = '\"', "
        f"skip = 0, comment = '', nullstr = '', compression = {literal(_STREAMED[compression])}, "
        "hive_partitioning = false)"
    )


def delimiter_of(path: Path) -> str:
    """Return the delimiter that a CSV file uses, by its first line."""
    ending = path.suffix.lower()
    with _open(path, ending if ending in COMPRESSIONS else "") as stream:
        return _header(stream, str(path), None)[0]


def _open(path: Path, compression: str) -> Any:
    if compression == ".gz":
        return gzip.GzipFile(path, "rb")
    if compression in _UNPACKED:
        return _UNPACKED[compression](path, "rb")
    if compression == ".zst":
        import pyarrow as pa

        return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


def _header(stream: Any, name: str, delimiter: str | None) -> tuple[str, list[str]]:
    """Return the delimiter and the column names from the first line."""
    head = b""
    while block := stream.read(_BLOCK):
        head += block
        line = _FIRST_LINE.match(head)
        if (line and line.end() < len(head)) or len(head) >= _LONGEST_HEADER:
            break
    line = _FIRST_LINE.match(head)
    try:
        first = line.group().decode("utf-8-sig") if line else ""
    except UnicodeDecodeError as error:
        raise InputError(f"{name} must be encoded as UTF-8, and its first line is not.") from error
    if not first.strip() or len(head) >= _LONGEST_HEADER:
        raise InputError(f"{name} must name its columns in the first line.")
    if delimiter is None:
        outside = "".join(first.split('"')[::2])
        delimiter = max(DELIMITERS, key=outside.count)
    fields = next(csv.reader(io.StringIO(first, newline=""), delimiter=delimiter))
    columns = [field or f"column{i}" for i, field in enumerate(fields)]
    seen: dict[str, str] = {}
    for column in columns:
        if column.casefold() in seen:
            raise InputError(
                f"{name} must give its columns different names (upper and lower case count as "
                f"the same), got {seen[column.casefold()]!r} and {column!r}."
            )
        seen[column.casefold()] = column
    return delimiter, columns
