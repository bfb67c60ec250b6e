"""Tables and models that people send: kept while the server lives, looked at in a child process."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from memberbound.errors import InputError
from memberbound.faces.web.child import Child, prepared
from memberbound.faces.web.gate import Limits, RefusedError, sized
from memberbound.faces.web.processes import Processes
from memberbound.faces.web.work import INPUTS, OUTPUTS, Request

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "ENDINGS",
    "Upload",
    "Uploads",
    "ending_of",
    "harmless",
    "inspected",
    "shown_name",
    "without_formulas",
]

# ── An uploaded file: is it what its name says, how large is it inside, which columns has it? ─────
#
# Runs in a child process with limits.  Nothing is unpacked to disk; sizes are counted while
# decompressing, or read from the metadata before any page is.

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
    found = [ending for ending in (*ENDINGS, *MODELS) if name.lower().endswith(ending)]
    if not found:
        raise InputError(
            f"the file's name must end in {', '.join(ENDINGS)} (a table) or {', '.join(MODELS)} "
            f"(a model), got {name[-80:]!r}."
        )
    return max(found, key=len)


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
    from memberbound.tables.roles import read_roles
    from memberbound.tables.source import open_table

    with open_table(path) as table:
        _at_most("columns", len(table.columns), columns)
        count = int(table.run("counting rows", lambda: table.expr.count().to_pyarrow()).as_py())
        _at_most("rows", count, rows)
        readings = read_roles(table)
        distinct: dict[str, int | None] = dict.fromkeys(table.columns)
        if count * len(table.columns) <= _COUNTED_CELLS:
            # Counted as they are compared: the text of a CSV file, not the number it stands for.
            keys = numbered(table, table.columns)
            sums = {f"d{i}": keys[f"k{i}"].nunique() for i in range(len(table.columns))}
            (found,) = table.fetch(keys.aggregate(**sums), "counting values").to_pylist()
            distinct = {c: int(found[f"d{i}"]) for i, c in enumerate(table.columns)}
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


def _at_most(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise InputError(
            f"the file must have at most {limit} {what}, got {found}. The command line has no such "
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
    total, head, inside = 0, bytearray(), False
    unpacker = zlib.decompressobj(wbits=31)
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                while block:
                    piece = unpacker.decompress(block, _BLOCK)
                    head += piece[: _BLOCK - len(head)]
                    total += len(piece)
                    if total > unpacked:
                        raise _too_large(unpacked)
                    block, inside = unpacker.unconsumed_tail, not unpacker.eof
                    if unpacker.eof:  # a file may hold several parts
                        block, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
    except zlib.error as problem:
        raise InputError("the file must be a gzip archive, got something else.") from problem
    if inside:
        raise InputError("the file must be a whole gzip archive, got one that ends early.")
    _plain_text(bytes(head), columns)


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


# ── Text that a spreadsheet would take for a formula is marked as text before it is exported ──────

# A cell that starts like this is computed when a spreadsheet opens the file; the last four are the
# full-width forms of the first four.  Quotes before it are counted, so that marking is one-to-one
# and no two cells become equal.
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def harmless(cell: object) -> object:
    """Return a text with a quote before it where a spreadsheet would compute it.

    Numbers stay numbers, and everything but text stays as it is.

    Examples:
        >>> harmless("=1+2"), harmless("-3.5"), harmless("a=b"), harmless(None)
        ("'=1+2", '-3.5', 'a=b', None)
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell


def without_formulas(frame: DataFrame) -> DataFrame:
    """Return a pandas table whose cells and column names are harmless in a spreadsheet."""
    import pandas as pd

    safe = frame.copy()
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            text = column.astype(object)
            safe.isetitem(position, text.map(harmless, na_action="ignore"))
    safe.columns = [harmless(str(name)) for name in safe.columns]
    return safe


# ── Uploaded tables: streamed to private files under names of our own, counted, and forgotten ─────

#: Uploads that are received at the same time; the others wait.
_RECEIVED_AT_ONCE = 4


@dataclass(frozen=True)
class Upload:
    """One table or model: ``name`` is what its owner calls it, ``path`` where it lies."""

    id: str
    name: str
    path: Path
    bytes: int
    rows: int | None
    columns: list[dict[str, object]]

    @property
    def plain_name(self) -> str:
        """The given name as far as it is letters, digits and dashes, for reports that quote it."""
        ending = ending_of(self.path.name)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name[: -len(ending)]).strip("-")[:60]
        return f"{stem or 'table'}{ending}"

    def to_dict(self) -> dict[str, object]:
        """Return what the owner is told."""
        return {
            "file": self.id,
            "name": self.name,
            "bytes": self.bytes,
            "rows": self.rows,
            "columns": self.columns,
        }


class Uploads:
    """The uploads of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits, processes: Processes) -> None:
        self._folder = folder
        self._limits = limits
        self._processes = processes
        self._found: dict[str, Upload] = {}
        self._receiving = asyncio.Semaphore(_RECEIVED_AT_ONCE)
        self._looking = asyncio.Semaphore(limits.calculations)
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Upload:
        try:
            return self._found[id]
        except KeyError:
            raise RefusedError(
                404, "file must be the id of an upload that is still kept, got another."
            ) from None

    def delete(self, id: str) -> None:
        """Forget an upload; jobs that started with it keep their own link to it."""
        upload = self[id]
        del self._found[id]
        shutil.rmtree(upload.path.parents[1], ignore_errors=True)

    async def add(self, name: str, stream: AsyncIterator[bytes]) -> Upload:
        """Store a stream of bytes as a table or a model, or refuse it and keep nothing."""
        shown = shown_name(name)
        ending = ending_of(shown)
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        try:
            path = prepared(folder) / f"table{ending}"
            async with self._receiving:
                size = await self._stored(stream, path)
            async with self._looking:
                found = await self._inspected(folder, path, shown)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        upload = Upload(id, shown, path, size, found["rows"], found["columns"])
        self._found[id] = upload
        while len(self._found) > self._limits.kept_files:
            self.delete(next(iter(self._found)))
        return upload

    async def _stored(self, stream: AsyncIterator[bytes], path: Path) -> int:
        size = 0
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            while True:
                try:
                    async with asyncio.timeout(self._limits.silence_seconds):
                        block = await anext(stream, None)
                except TimeoutError:
                    raise RefusedError(408, "the upload stopped; try it again.") from None
                if block is None:
                    break
                size += len(block)
                if size > self._limits.upload_bytes:
                    raise RefusedError(
                        413,
                        f"the file must be at most {sized(self._limits.upload_bytes)}, got more. "
                        "The command line has no such limit.",
                    )
                await asyncio.to_thread(file.write, block)
        if size == 0:
            raise InputError("the file must hold a table, got an empty file.")
        return size

    async def _inspected(self, folder: Path, path: Path, shown: str) -> Inspection:
        ours = f"../{INPUTS}/{path.name}"
        request: Request = {
            "verb": "inspect",
            "folder": str(folder),
            "table": ours,
            "options": {
                "rows": self._limits.rows,
                "columns": self._limits.columns,
                "unpacked": self._limits.unpacked_bytes,
            },
            "names": {ours: shown},
        }
        child = await Child.start(self._processes, self._limits)
        answer = await child.perform(request, self._limits.inspection_seconds, lambda _: None)
        shutil.rmtree(folder / OUTPUTS, ignore_errors=True)
        return Inspection(rows=answer["result"]["rows"], columns=answer["result"]["columns"])


def shown_name(name: str) -> str:
    """Return the last part of a name, without anything a terminal or a path would act on."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[-200:].lstrip()
