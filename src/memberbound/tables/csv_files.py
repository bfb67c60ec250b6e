"""Read CSV files without type inference: every field is text; only the delimiter is inferred.

Inferring types would merge values that differ in the file (``1.5`` and ``1.50``, ``True`` and
``true``, two long decimals that round to one double, two times a nanosecond apart, ``'x'`` and
``x``), and merged cells make a certificate too small.  Text equality is the finest reading, so it
errs on the safe side; :mod:`memberbound.tables.roles` parses values for arithmetic.

The dialect is RFC 4180: the first line names the columns, ``"`` quotes and ``""`` is a quote inside
quotes; the end of the first line is the end of every record
(:mod:`memberbound.tables.csv_records`).  The delimiter is the most frequent of comma,
semicolon, tab and bar in the first line, a comma in a tie.  An empty field, quoted or not, is null;
no other spelling (``NA``, ``N``, ``?``) is.

The encoding is the declared one.  Otherwise a byte-order mark decides between UTF-16 and UTF-8, and
bytes that are not UTF-8 are read as Windows-1252.  In secret tables each such byte is decoded on
its own, so that no row affects how another is read; other files are decoded as a whole, so that
different bytes remain different texts.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from memberbound.errors import FULL, InputError
from memberbound.tables.csv_records import quote_line_ends, scan_lines, sections
from memberbound.tables.engine import (
    BATCH_ROWS,
    ENCODING_REMEDY,
    Engine,
    identifier,
    literal,
    one_sentence,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: The delimiter of a file by its name; None: inferred from the first line.
_DELIMITER_OF = {".csv": None, ".tsv": "\t"}
_DELIMITERS = (",", ";", "\t", "|")
#: Compressions that the engine reads, and those to unpack into its private folder first.
_STREAMED = {".gz": "gzip", ".zst": "zstd"}
_UNPACKED: dict[str, type[lzma.LZMAFile] | type[bz2.BZ2File]] = {
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
}
_COMPRESSIONS = (*_STREAMED, *_UNPACKED)
#: A row that repeats this many column names (or all, if there are fewer) repeats the header.
_HEADER_COLUMNS = 16
#: Maximum length of the first line; a longer one is not a list of column names.
_LONGEST_HEADER = 2**22
#: With more columns DuckDB plans a query for minutes, during which it cannot be interrupted.
_MOST_COLUMNS = 10_000
#: Byte-order marks of UTF-16.
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: The error handler that decodes single bytes as Windows-1252.
WINDOWS_BYTES = "memberbound-windows"
_WINDOWS = [bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256)]
#: The text before the first line end outside quotes.
_FIRST_LINE = re.compile(r'(?:[^"\r\n]++|"[^"]*+")*+')
_CHUNK = 2**20
#: Largest secret file, in bytes, that is read as one block; a larger one is cut into sections.
_LARGEST_BLOCK = 2**27
#: Largest file, in bytes and columns, that the engine copies before it scans it several times.
_SMALL_FILE, _SMALL_WIDTH = 2**25, 500


@dataclass(frozen=True)
class CsvFormat:
    """The separator of a CSV file, and notes about it for the owner of the rows only."""

    separator: str
    notes: tuple[str, ...] = ()
    #: Whether the engine copies the rows before it scans them several times.
    small: bool = False


@dataclass(frozen=True)
class _Header:
    """The first line of a CSV file."""

    line: bytes
    delimiter: str
    columns: list[str]
    end: bytes


def _ending(path: Path) -> str:
    """Return the ending of a file name, without that of a compression."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _COMPRESSIONS else suffix


def is_csv(path: Path) -> bool:
    """Return whether a file is CSV by its name, compressed or not."""
    return _ending(path) in _DELIMITER_OF


def _decode_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode each undecodable byte on its own as Windows-1252, or Latin-1 if undefined there."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(_WINDOWS[b] for b in error.object[error.start : error.end]), error.end


codecs.register_error(WINDOWS_BYTES, _decode_windows)


def csv_view(
    engine: Engine, path: Path, codec: str | None = None, *, secret: bool = False
) -> tuple[str, CsvFormat]:
    """Return a view of a CSV file, and its format; ``codec`` None detects the encoding.

    Python reads the file once, for its first line, its line ends and repeated headers.  A file that
    the engine cannot read directly is copied to the engine's private folder.
    """
    name, stored = str(path), engine.plain_path(path)
    notes: tuple[str, ...] = ()
    if (codec or "utf-8") != "utf-8" or _must_unpack(path, secret=secret):
        stored = _unpack(engine, path, name, codec)
    with _unpacking(name):
        try:
            header, other_ends, repeats = _scan(stored, name, strict=codec is None)
        except UnicodeDecodeError:
            codec, note = _other_codec(stored, secret=secret)
            notes = (f"{path.name} {note}",)
            stored = _unpack(engine, stored, name, codec, detected=True)
            header, other_ends, repeats = _scan(stored, name, strict=False)
    # In a file with one column, a value may equal the column's name.
    notes += _header_notes(path.name, repeats) if len(header.columns) > 1 else ()
    plain = stored.suffix.lower() not in _COMPRESSIONS
    small = plain and stored.stat().st_size <= _SMALL_FILE and len(header.columns) <= _SMALL_WIDTH
    found = CsvFormat(header.delimiter, notes, small)
    if other_ends:
        with _open(stored) as stream:
            quoted = quote_line_ends(
                cast("IO[bytes]", stream), header.delimiter.encode(), header.end
            )
            stored = _write_copy(engine, quoted)
    if secret and stored.stat().st_size > _LARGEST_BLOCK:
        with stored.open("rb") as stream:
            line = stream.readline()
            # Otherwise a name continues on the next line, or lines end with a lone carriage return.
            if line.count(b'"') % 2 == 0 and b"\r" not in line.rstrip(b"\r\n"):
                return _copy_sections(engine, stream, line, header), found
    return _engine_view(engine, stored, header, secret=secret), found


def _must_unpack(path: Path, *, secret: bool) -> bool:
    compression = path.suffix.lower()
    return compression in _UNPACKED or (secret and compression in _COMPRESSIONS)


def _engine_view(engine: Engine, path: Path, header: _Header, *, secret: bool) -> str:
    """Return a view of a CSV file that the engine reads; ``path`` must hold no glob characters.

    A ``secret`` file is read as one block.  Between blocks, the engine searches for the end of a
    line, may find one inside quotes, and rejects long lines.
    """
    size = max(path.stat().st_size, _CHUNK)
    block = f"max_line_size = {size}, buffer_size = {size}, " if secret else ""
    packing = literal(_STREAMED.get(path.suffix.lower(), "none"))
    numbered = [f"c{i}" for i in range(len(header.columns))]
    typed = ", ".join(f"{key}: 'VARCHAR'" for key in numbered)
    pairs = list(zip(numbered, header.columns, strict=True))
    # In concatenated files, read a row that repeats the names as missing values.
    names = [f"{key} = {literal(column)}" for key, column in pairs[:_HEADER_COLUMNS]]
    repeated = " AND ".join(names) if len(names) > 1 else "false"
    named = ", ".join(
        f"CASE WHEN NOT header THEN {key} END AS {identifier(column)}" for key, column in pairs
    )
    return engine.view(
        f"SELECT {named} FROM (SELECT *, coalesce({repeated}, false) AS header FROM "
        f"read_csv({literal(path)}, auto_detect = false, header = true, "
        f"columns = {{{typed}}}, delim = {literal(header.delimiter)}, quote = '\"', escape = '\"', "
        f"skip = 0, comment = '', nullstr = '', compression = {packing}, "
        f"{block}hive_partitioning = false))"
    )


def _write_copy(engine: Engine, parts: Iterable[bytes]) -> Path:
    """Write the parts of a CSV file to the engine's private folder."""
    plain = engine.folder / f"{engine.fresh('csv')}.csv"
    with plain.open("wb") as out:
        out.writelines(parts)
    return plain


def _scan(path: Path, name: str, *, strict: bool) -> tuple[_Header, bool, list[int]]:
    """Scan a file for its header, for unusual line ends, and for lines that repeat the header.

    Raises:
        UnicodeDecodeError: ``strict``, and the file is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()

    def check(chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if strict:
                decoder.decode(chunk)
            yield chunk
        if strict:
            decoder.decode(b"", final=True)

    with _open(path) as stream:
        head = stream.read(_LONGEST_HEADER + 1)
        chunks = check(itertools.chain([head], iter(partial(stream.read, _CHUNK), b"")))
        first = next(chunks)
        header = _read_header(first, name, _DELIMITER_OF[_ending(Path(name))])
        return header, *scan_lines(itertools.chain([first], chunks), header.line, header.end)


def _other_codec(path: Path, *, secret: bool) -> tuple[str, str]:
    """Return the codec of a file that is not UTF-8, and a note about it."""
    with _open(path) as stream:
        if stream.read(2) in _UTF_16:
            return "utf-16", "was read as UTF-16"
    other = "has bytes that are not UTF-8, read" if secret else "is not UTF-8 and was read"
    note = f"{other} as Windows-1252; if that is wrong, name its encoding"
    return "utf-8" if secret else "cp1252", note


def detect_codec(path: Path) -> str:
    """Return a codec that decodes the whole CSV file, with :data:`WINDOWS_BYTES` for errors."""
    try:
        _scan(path, str(path), strict=True)
    except UnicodeDecodeError:
        return _other_codec(path, secret=False)[0]
    return "utf-8"


def _unpack(
    engine: Engine, path: Path, name: str, codec: str | None, *, detected: bool = False
) -> Path:
    """Return an uncompressed copy of a CSV file in UTF-8; ``codec`` None copies bytes."""
    lenient = detected and codec != "utf-16"
    with _unpacking(name), _open(path) as packed:
        chunks = iter(partial(packed.read, _CHUNK), b"")
        if codec is None:
            return _write_copy(engine, chunks)
        decoder = codecs.getincrementaldecoder(codec)(WINDOWS_BYTES if lenient else "strict")
        last = (decoder.decode(b"", final=True) for _ in range(1))
        try:
            texts = itertools.chain(map(decoder.decode, chunks), last)
            return _write_copy(engine, (text.encode() for text in texts))
        except UnicodeError:
            raise _wrong_codec(name, codec) from None


@contextmanager
def _unpacking(name: str) -> Iterator[None]:
    """Report a damaged compressed file in one sentence."""
    try:
        yield
    except (UnicodeError, InputError):
        raise
    except (lzma.LZMAError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise  # not an error of the file
        raise InputError(f"{name} could not be unpacked: {one_sentence(error)}.") from error


def _copy_sections(engine: Engine, stream: IO[bytes], line: bytes, header: _Header) -> str:
    """Copy the rows after the header in sections of whole records."""
    part = engine.folder / f"{engine.fresh('section')}.csv"

    def batches() -> Iterator[pa.RecordBatch]:
        for section in sections(stream, header.delimiter.encode()):
            part.write_bytes(line + section)
            view = _engine_view(engine, part, header, secret=True)
            yield from engine.connection.sql(f"SELECT * FROM {view}").to_arrow_reader(BATCH_ROWS)
            engine.sql(f"DROP VIEW {view}")

    rows = batches()
    try:
        first = next(rows)
        return engine.write_batches(first.schema, itertools.chain([first], rows))
    finally:
        part.unlink(missing_ok=True)


def _header_notes(name: str, lines: list[int]) -> tuple[str, ...]:
    """Return a note if lines of a file repeat its header."""
    if not lines:
        return ()
    more = f" and {len(lines) - 5} more" if lines[5:] else ""
    shown = ", ".join(map(str, lines[:5])) + more
    verb = "line {} of {} repeats" if len(lines) == 1 else "lines {} of {} repeat"
    return (f"{verb.format(shown, name)} the header: read as missing values",)


def _open(path: Path) -> io.BufferedIOBase:
    """Open a CSV file for its decompressed bytes."""
    compression = path.suffix.lower()
    if compression == ".gz":
        return gzip.GzipFile(path, "rb")
    if compression in _UNPACKED:
        return _UNPACKED[compression](path, "rb")
    if compression == ".zst":
        import pyarrow as pa

        return cast("io.BufferedIOBase", pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def separator_of(path: Path, codec: str | None = None) -> str:
    """Return the separator of a CSV file by its name or its first line."""
    return _DELIMITER_OF[_ending(path)] or _header_of(path, codec).delimiter


def csv_columns(path: Path, codec: str | None = None) -> list[str]:
    """Return the column names of a CSV file without starting an engine."""
    return _header_of(path, codec).columns


def _header_of(path: Path, codec: str | None) -> _Header:
    """Read the first line of a CSV file; ``codec`` None detects the encoding from it."""
    with _open(path) as stream:
        head = stream.read(_LONGEST_HEADER + 1)
    errors = "strict" if codec else WINDOWS_BYTES
    codec = codec or ("utf-16" if head.startswith(_UTF_16) else "utf-8")
    try:
        text = codecs.getincrementaldecoder(codec)(errors).decode(head)
    except UnicodeError:
        raise _wrong_codec(str(path), codec) from None
    return _read_header(text.encode(), str(path), _DELIMITER_OF[_ending(path)])


def _wrong_codec(name: str, codec: str) -> InputError:
    return InputError(f"{name} must be encoded as {codec}, and is not. Give another encoding.")


def _read_header(head: bytes, name: str, delimiter: str | None) -> _Header:
    """Parse the first line of a CSV file from its leading bytes."""
    # Only the first line must be UTF-8 here; the last character of ``head`` may be incomplete.
    text = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode(head)
    first = cast("re.Match[str]", _FIRST_LINE.match(text))[0]  # matches every text
    if first == text and len(head) > _LONGEST_HEADER:
        raise InputError(
            f"{name} must name its columns in the first line, got one of more than "
            f"{_LONGEST_HEADER} bytes."
        )
    if text[len(first) :].startswith('"'):
        raise InputError(f"{name} must close every quote of its first line.")
    if re.search("[\udc80-\udcff]", first):
        raise InputError(
            f"{name} must be encoded as UTF-8, and its first line is not. {ENCODING_REMEDY}"
        )
    if not first.strip():
        raise InputError(f"{name} must name its columns in the first line.")
    outside = "".join(first.split('"')[::2])
    chosen = delimiter or max(_DELIMITERS, key=outside.count)
    try:
        names = next(csv.reader(io.StringIO(first, newline=""), delimiter=chosen))
    except csv.Error as error:
        raise InputError(f"{name} must name its columns in the first line: {error}.") from None
    if len(names) > _MOST_COLUMNS:
        raise InputError(
            f"{name} must have at most {_MOST_COLUMNS} columns, got {len(names)}. Write those that "
            "you need to another file."
        )
    columns = [column or f"column{i}" for i, column in enumerate(names)]
    seen: dict[str, str] = {}
    for column in columns:
        if column.casefold() in seen:
            raise InputError(
                f"{name} must give its columns distinct names (upper and lower case count as "
                f"the same), got {seen[column.casefold()]!r} and {column!r}."
            )
        seen[column.casefold()] = column
    end = cast("re.Match[str]", re.match("\r?\n?", text[len(first) :]))[0]
    return _Header(first.encode(), chosen, columns, end.encode() or b"\n")
