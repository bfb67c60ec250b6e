"""Tables and models that people send: streamed to private files, inspected, kept, forgotten.

A file is inspected in a child process with limits: is it what its name says, how large is it, which
columns has it?  Nothing is unpacked to disk; sizes are counted while decompressing, or read from
the metadata before any page is.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from memberbound.errors import InputError
from memberbound.faces.web.child import INPUTS, OUTPUTS, SCRATCH, Request
from memberbound.faces.web.processes import Limits, Processes, RefusedError, perform, sized
from memberbound.files import codec_named
from memberbound.tables.foreign_files import FOREIGN_ENDINGS
from memberbound.tables.source import CONVERSIONS, DELIMITERS

_TEXTS = (".csv", ".tsv", ".csv.gz")
TABLES = (*_TEXTS, ".parquet", ".arrow", ".feather", *FOREIGN_ENDINGS)
#: Models that run nothing when they are read; the others are left to the command line.
MODELS = (".skops", ".onnx")
_ZIPPED = (".skops", ".xlsx", ".xlsm")
_BLOCK = 2**20
#: Beyond this many cells the distinct values are not counted.
_COUNTED_CELLS = 20_000_000
#: How files start that are certainly not text.
_NOT_TEXT = (b"PAR1", b"ARROW1", b"FEA1", b"\x1f\x8b", b"PK\x03\x04", b"%PDF", b"SQLite")
#: Uploads that are received at the same time; the others wait.
_RECEIVED_AT_ONCE = 4


@dataclass(frozen=True)
class Upload:
    """One table or model: its id, what its owner calls it, where it lies, what is in it."""

    file: str
    name: str
    path: Path
    bytes: int
    rows: int | None
    columns: list[dict[str, object]]
    encoding: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is a CSV file."""
        return ending_of(self.path.name) in _TEXTS

    @property
    def plain_name(self) -> str:
        """The given name as far as it is letters, digits and dashes, for reports that quote it."""
        ending = ending_of(self.path.name)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name[: -len(ending)]).strip("-")[:60]
        return f"{stem or 'table'}{ending}"


class Uploads:
    """The uploads of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits, processes: Processes) -> None:
        self._folder = folder
        self._limits = limits
        self._processes = processes
        self._uploads: dict[str, Upload] = {}
        self._receiving = asyncio.Semaphore(_RECEIVED_AT_ONCE)
        self._looking = asyncio.Semaphore(limits.calculations)
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Upload:
        try:
            return self._uploads[id]
        except KeyError:
            raise RefusedError(
                404, "file must be the id of an upload that is still kept, got another."
            ) from None

    def delete(self, id: str) -> None:
        """Forget an upload; jobs that started with it keep their own link to it."""
        upload = self[id]
        del self._uploads[id]
        shutil.rmtree(upload.path.parents[1], ignore_errors=True)

    async def add(self, name: str, stream: AsyncIterator[bytes], encoding: str = "utf-8") -> Upload:
        """Store a stream of bytes as a table or a model, or refuse it and keep nothing."""
        shown = shown_name(name)
        ending = ending_of(shown)
        declared = encoding if ending in _TEXTS and codec_named(encoding) != "utf-8" else None
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        try:
            path = make_folders(folder) / f"table{ending}"
            async with self._receiving:
                size = await self._stored(stream, path)
            async with self._looking:
                content = await self._inspected(folder, path, shown, declared)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        upload = Upload(id, shown, path, size, content["rows"], content["columns"], declared)
        self._uploads[id] = upload
        while len(self._uploads) > self._limits.kept_files:
            self.delete(next(iter(self._uploads)))
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

    async def _inspected(
        self, folder: Path, path: Path, shown: str, encoding: str | None
    ) -> Inspection:
        ours = f"../{INPUTS}/{path.name}"
        request: Request = {
            "verb": "inspect",
            "folder": str(folder),
            "table": ours,
            "options": {
                "rows": self._limits.rows,
                "columns": self._limits.columns,
                "unpacked": self._limits.unpacked_bytes,
                "encoding": encoding,
            },
            "names": {ours: shown},
        }
        seconds = self._limits.inspection_seconds
        content = await perform(self._processes, self._limits, {**request}, seconds)
        shutil.rmtree(folder / OUTPUTS, ignore_errors=True)
        return Inspection(rows=content["rows"], columns=content["columns"])


def make_folders(folder: Path) -> Path:
    """Make the private folders of a job and return the one of its inputs."""
    folder.mkdir(mode=0o700)
    for name in (INPUTS, OUTPUTS, SCRATCH):
        (folder / name).mkdir(mode=0o700)
    return folder / INPUTS


def shown_name(name: str) -> str:
    """Return the last part of a name, without anything a terminal or a path would act on."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[-200:].lstrip()


# ── Inspection, in a child process ────────────────────────────────────────────────────────────────


def ending_of(name: str) -> str:
    """Return the ending of a file name among those that are read, or refuse it."""
    endings = [ending for ending in (*TABLES, *MODELS) if name.lower().endswith(ending)]
    if not endings:
        conversion = CONVERSIONS.get(Path(name).suffix.lower(), "")
        raise InputError(
            f"the file's name must end in {', '.join(TABLES)} (a table) or {', '.join(MODELS)} "
            f"(a model), got {name[-80:]!r}.{conversion}"
        )
    return max(endings, key=len)


class Inspection(TypedDict):
    """How many rows a table has, and what its columns are; nothing for a model."""

    rows: int | None
    columns: list[dict[str, object]]


def inspected(
    path: Path, rows: int, columns: int, unpacked: int, encoding: str | None = None
) -> Inspection:
    """Return the rows and columns of a table, or refuse a file that is not one or too large."""
    ending = ending_of(path.name)
    if ending in _TEXTS:
        _check_text(path, columns, unpacked, encoding or "utf-8")
    elif ending == ".parquet":
        _check_parquet(path, rows, columns, unpacked)
    elif ending in (".arrow", ".feather"):
        _check_arrow(path, rows, columns, unpacked)
    else:
        _check_size(path, ending, unpacked)
    if ending in MODELS:  # read where it is used, in the job
        return {"rows": None, "columns": []}
    from memberbound.tables.counting import numbered
    from memberbound.tables.table import open_table

    with open_table(path, encoding=encoding) as table:
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


def _check_text(path: Path, columns: int, unpacked: int, encoding: str) -> None:
    packed = path.suffix.lower() == ".gz"
    size, head = path.stat().st_size, b""
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            head = block = stream.read(_BLOCK)
            size = len(head) if packed else size
            while packed and block and size <= unpacked:
                block = stream.read(_BLOCK)
                size += len(block)
    except EOFError:
        raise InputError(
            "the file must be a whole gzip archive, got one that ends early."
        ) from None
    except (zlib.error, gzip.BadGzipFile) as problem:
        raise InputError("the file must be a gzip archive, got something else.") from problem
    if size > unpacked:
        raise _too_large(unpacked)
    if not head:
        raise InputError("the file must hold a table, got an empty file.")
    if encoding != "utf-8" and not head.startswith(_NOT_TEXT):
        head = head.decode(encoding, "ignore").encode()
    if head.startswith(_NOT_TEXT) or b"\0" in head:
        raise InputError("the file must be a CSV text as its name says, got something else.")
    # The engine would take minutes over a first line of a million names before they are counted.
    outside = b"".join(head.split(b'"')[::2])
    line, *rest = re.split(rb"[\r\n]", outside, maxsplit=1)
    if not rest and len(head) >= _BLOCK:
        raise InputError(f"the file's first line must be shorter than {sized(_BLOCK)}, got more.")
    _at_most("columns", 1 + max(line.count(mark.encode()) for mark in DELIMITERS), columns)


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


def _check_size(path: Path, ending: str, unpacked: int) -> None:
    """Refuse what takes too much room when it is read; the parts of a zip archive are added up."""
    size = path.stat().st_size
    if ending in _ZIPPED:
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(part.file_size for part in archive.infolist())
        except (zipfile.BadZipFile, OSError) as problem:
            raise InputError(f"the file must be a {ending} file, got something else.") from problem
    if size > unpacked:
        raise _too_large(unpacked)
