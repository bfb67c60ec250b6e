"""Output files, written atomically, and private folders that are deleted even after a crash.

Both contain personal data.  Drafts, written before they are renamed, and temporary folders are
locked while a run is alive.  The operating system releases the lock however the run ends, so the
next run can recognise and delete the leftovers of a killed one.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime as dt
import errno
import functools
import gzip
import hashlib
import importlib.util
import json
import math
import mmap
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from memberbound.errors import InputError, MemberboundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pandas import DataFrame

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound="np.generic")

TABLE_ENDINGS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")
#: Endings of tables that are written from memory.
FRAME_ENDINGS = (*TABLE_ENDINGS, ".xlsx")
#: Rows of a sheet, one of them with the names.
_SHEET_ROWS = 2**20
#: Maximum bytes of a hand-written document.
_DOCUMENT = 2**24
#: YAML types that are read as plain text.
_WORDS = ("bool", "timestamp")
#: YAML types without a JSON equivalent, except dates.
_FOREIGN_TAGS = ("binary", "omap", "pairs", "set")
#: Numbers with an exponent, which YAML 1.1 reads as text without a point or a sign.
_FLOAT = re.compile(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)[eE][-+]?[0-9]+")
_DRAFT = ".memberbound-"
#: Age in seconds after which an unlocked draft or folder counts as left by a killed run.
_FORGOTTEN = 60.0
#: System errors when a file cannot grow: no space, a quota, a size limit.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_output(
    path: str | os.PathLike[str],
    *,
    name: str = "out",
    formats: tuple[str, ...] = TABLE_ENDINGS,
    source: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Return a writable path, or refuse it before any work is done."""
    target = Path(path)
    if not target.name.lower().endswith(formats):
        raise InputError(f"{name} must end in {', '.join(formats)}, got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"{name} must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"{name} must be a file, got the folder {str(path)!r}.")
    both = source is not None and target.exists() and Path(source).exists()
    if source is not None and both and target.samefile(source):
        raise InputError(f"{name} must differ from the table that is read, got {str(path)!r}.")
    if target.exists() and not force:
        raise InputError(
            f"{name} must not exist yet, got {str(path)!r}. Overwrite it with --force."
        )
    return target


def check_input(path: Path, name: str) -> None:
    """Refuse anything but a regular file: a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no such name"
        raise InputError(f"{name} must be an existing file, got {str(path)!r}: {why}.") from None
    if not stat.S_ISREG(mode):
        kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe"}
        kind = next((word for test, word in kinds.items() if test(mode)), "a device")
        raise InputError(f"{name} must be an existing file, got {str(path)!r}, which is {kind}.")


def read_document(
    path: str | os.PathLike[str], name: str, kind: str | None = None, *, words: bool = False
) -> object:
    """Read a small JSON or YAML file; YAML unless it ends in ``.json``.

    YAML aliases are refused, because a few lines can expand exponentially; the types are those of
    JSON and dates.  Duplicate keys are refused.  ``1e-3`` is a number, as in YAML 1.2 and JSON.
    With ``words``, ``no`` and ``2020-01-01`` are text.

    Edge cases: anything but a file, a file above 16 MB, not UTF-8, nested too deeply or malformed
    raises an InputError that calls it ``name``.
    """
    file = Path(path)
    kind = kind or ("JSON" if file.suffix.lower() == ".json" else "YAML")
    check_input(file, name)
    try:
        if file.stat().st_size > _DOCUMENT:
            raise InputError(f"{name} must be at most 16 MB, got {file.name!r}.")
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} must be {kind} (UTF-8), got {file.name!r}.") from None
    except OSError as error:
        raise InputError(
            f"{name} must be a readable file, got {str(file)!r}: {error.strerror}."
        ) from None

    def refuse(word: str) -> None:
        raise InputError(f"{name} must hold finite numbers, got {word}.")

    try:
        if kind == "JSON":
            return json.loads(text, parse_constant=refuse, object_pairs_hook=_without_repeats)
        return _yaml_value(text, words)
    except RecursionError:
        raise InputError(f"{name} must not be nested too deeply, got {file.name!r}.") from None
    except InputError:
        raise
    except ValueError as error:
        first = (str(error).splitlines() or ["unreadable"])[0].rstrip(".")
        raise InputError(f"{name} must be {kind}, got {file.name!r}: {first}.") from None


def _without_repeats(pairs: list[tuple[object, object]]) -> dict[object, object]:
    """Return the pairs as a mapping; refuse duplicate keys."""
    mapping: dict[object, object] = {}
    for name, value in pairs:
        if name in mapping:
            raise ValueError(f"{name!r} is given twice")
        mapping[name] = value
    return mapping


def _yaml_value(text: str, words: bool) -> object:
    import yaml

    left_out = _WORDS if words else ()

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [rule for rule in rules if rule[0].rsplit(":", 1)[-1] not in left_out]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: object, index: object) -> object:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[object, object]:
            mapping: dict[object, object] = super().construct_mapping(node, deep)
            _without_repeats([(self.construct_object(key, deep=True), 0) for key, _ in node.value])
            return mapping

        yaml_constructors = {  # noqa: RUF012
            tag: construct
            for tag, construct in yaml.SafeLoader.yaml_constructors.items()
            if tag is None or tag.rsplit(":", 1)[-1] not in _FOREIGN_TAGS
        }

    Plain.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("+-.0123456789"))
    try:
        return yaml.load(text, Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except (TypeError, LookupError, AttributeError) as error:  # for example, a list as a key
        raise ValueError(f"{type(error).__name__} at an odd value") from None


def write_table(
    frame: DataFrame, path: Path, *, force: bool = False, private: bool = False
) -> None:
    """Write a pandas table as CSV, Parquet or Arrow, by the file ending."""
    write_atomically(path, table_writer(frame, path), force, private=private)


def table_writer(frame: DataFrame, path: Path) -> Callable[[Path], None]:
    """Return a function that writes a pandas table in the format of the file ending."""
    ending = path.name.lower()
    if ending.endswith(".xlsx"):
        return _sheet_writer(frame)

    def write(draft: Path) -> None:
        if ending.endswith(".csv.gz"):
            # Store neither time nor name, so that equal tables give equal bytes.
            with draft.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                frame.to_csv(packed, index=False)
        elif ending.endswith(".csv"):
            frame.to_csv(draft, index=False)
        elif ending.endswith(".parquet"):
            frame.to_parquet(draft, index=False)
        else:
            frame.reset_index(drop=True).to_feather(draft)

    return write


def check_sheet(out: str | os.PathLike[str] | None, rows: int) -> None:
    """Refuse a sheet of Excel that could not be written, before any work is done."""
    if out is None or not os.fspath(out).lower().endswith(".xlsx"):
        return
    if rows >= _SHEET_ROWS:
        raise InputError(
            f"out must end in .csv or .parquet for {rows} rows: a sheet holds at most "
            f"{_SHEET_ROWS - 1}."
        )
    if importlib.util.find_spec("openpyxl") is None:
        raise InputError(
            "out needs openpyxl to end in .xlsx: pip install memberbound[files], or write .csv."
        )


def _sheet_writer(frame: DataFrame) -> Callable[[Path], None]:
    """Return a function that writes a sheet in which every text is a text, never a formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    def write(draft: Path) -> None:
        book = Workbook(write_only=True)
        book.properties.created = book.properties.modified = dt.datetime(2000, 1, 1)
        sheet = book.create_sheet("rows")
        missing = frame.isna().to_numpy()
        rows = frame.itertuples(index=False, name=None)

        def cell(value: object) -> object:
            if not isinstance(value, str):
                item = getattr(value, "item", None)
                return value if item is None else item()
            made = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", value))
            made.data_type = "s"  # even if it begins with =
            return made

        sheet.append([cell(str(name)) for name in frame.columns])
        for row, absent in zip(rows, missing, strict=True):
            sheet.append([None if a else cell(v) for v, a in zip(row, absent, strict=True)])
        book.save(draft)

    return write


#: Leading characters that spreadsheets treat as a formula, full-width forms included.
FORMULA_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
#: A signed number, which is not a formula; also used as a DuckDB expression.
SIGNED_NUMBER = r"[-+]([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][-+]?[0-9]+)?"


def excel_safe_text(value: object) -> object:
    """Escape a text that a spreadsheet would run as a formula; return anything else unchanged.

    Examples:
        >>> [excel_safe_text(value) for value in ("=1+1", "-5", "-x", "a-b", -5)]
        ["'=1+1", '-5', "'-x", 'a-b', -5]
    """
    if not isinstance(value, str) or not value.startswith(tuple(FORMULA_STARTS)):
        return value
    return value if re.fullmatch(SIGNED_NUMBER, value) else f"'{value}"


def excel_safe_table(frame: DataFrame) -> DataFrame:
    """Escape the texts and column names of a table that a spreadsheet would run."""
    safe = frame.copy(deep=False)
    for index, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") == "O":
            column = frame.iloc[:, index].astype(object)
            safe.isetitem(index, column.map(excel_safe_text, na_action="ignore"))
    safe.columns = frame.columns.map(excel_safe_text)
    return safe


def check_excel_safe(
    out: str | os.PathLike[str] | None, *, excel_safe: bool, name: str = "out"
) -> None:
    """Refuse the option unless a CSV file is written: other formats have types."""
    if excel_safe and not str(out).lower().endswith((".csv", ".csv.gz")):
        given = None if out is None else str(out)
        raise InputError(f"{name} must end in .csv or .csv.gz with excel_safe, got {given!r}.")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(text: str, path: Path, *, force: bool = False, private: bool = False) -> None:
    """Write a text file atomically."""

    def write(draft: Path) -> None:
        draft.write_text(text, encoding="utf-8")

    write_atomically(path, write, force, private=private)


def write_atomically(
    path: Path, write: Callable[[Path], object], force: bool, *, private: bool = False
) -> None:
    """Write a file atomically: ``write`` fills a draft next to ``path``, which is then renamed.

    A failure leaves nothing behind.  The draft is synced to disk before the rename, so a power cut
    leaves the old file or the new one.  Drafts left by killed runs in the same folder are deleted.
    With ``private``, for rows and predictions about them, only this user can read the file,
    whatever the umask.
    """
    remove_drafts(path.parent)
    draft = path.parent.absolute() / f"{_DRAFT}{secrets.token_hex(8)}"
    handle = -1
    try:
        # Private while it is being written.
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _try_lock(handle)
        try:
            write(draft)
        except (ArithmeticError, TypeError, ValueError) as error:  # Arrow refuses mixed columns
            if isinstance(error, MemberboundError):
                raise
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} cannot hold this table: {first}.") from error
        draft.chmod(0o600 if private else _usual_mode(draft))
        os.fsync(handle)
        _rename(draft, path, force)
    except OSError as error:
        raise unwritable(str(path), error) from error
    finally:
        if handle >= 0:
            os.close(handle)
        draft.unlink(missing_ok=True)


def _usual_mode(draft: Path) -> int:
    """Return the default permissions of a new file in this folder.

    Create an empty file, because reading the umask would change it briefly in all threads.
    """
    probe = draft.with_name(f"{draft.name}-mode")
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)
        probe.unlink()


def _rename(draft: Path, path: Path, force: bool) -> None:
    if force:
        draft.replace(path)
    else:
        try:
            os.link(draft, path)  # fails if the file has appeared meanwhile
        except FileExistsError:
            raise InputError(f"out must not exist yet, got {str(path)!r}.") from None
        except OSError:  # no hard links: reserve the name first, if it is free
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                raise InputError(f"out must not exist yet, got {str(path)!r}.") from None
            draft.replace(path)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for this user alone."""
    for above in reversed(folder.parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)  # an earlier version may have created it


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a power cut cannot undo a rename.

    Windows has no such call; its file systems journal names.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unwritable(name: str, error: OSError) -> MemberboundError:
    """Return the error for a file that could not be written, with the reason."""
    why = error.strerror or type(error).__name__
    remedy = " Free some space and run it again." if error.errno in FULL else ""
    return MemberboundError(f"{name} could not be written: {why}.{remedy}")


# ── Private folders, and leftovers of killed runs ─────────────────────────────────────────────────

#: Name of the lock file, locked while the owner is alive.
_LOCK = "lock"

#: Size of a file shared by several arrays, because each file takes a descriptor.
_SHARED = 2**26
#: The file being filled, while one of its arrays is in use, and its fill level; with a lock.
_shared: tuple[weakref.ref[mmap.mmap], int] | None = None
_sharing = threading.Lock()


def _share_nothing() -> None:
    """Make a forked process use its own files, because it maps the same pages as its parent."""
    global _shared, _sharing
    _shared, _sharing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_share_nothing)


def large_array(shape: tuple[int, ...], kind: np.dtype[Kind], memory: int | None) -> NDArray[Kind]:
    """Allocate an array in memory, or in a file if it is larger than ``memory`` bytes.

    The file is anonymous, so nothing is left of it however the process ends; its space is allocated
    at once, so that filling it cannot fail.  Small arrays share one file.
    """
    import numpy as np

    size = math.prod(shape) * kind.itemsize
    if memory is None or size <= memory:
        return np.empty(shape, kind)
    with _sharing:
        pages, start = _reserve_on_disk(size)
    return np.frombuffer(pages, kind, math.prod(shape), start).reshape(shape)


def _reserve_on_disk(size: int) -> tuple[mmap.mmap, int]:
    """Return a mapped file and the start of ``size`` free bytes in it; the lock must be held."""
    global _shared  # noqa: PLW0603
    current = None if _shared is None else _shared[0]()
    start = 0 if _shared is None else _shared[1]
    if current is None or start + size > len(current):
        try:
            with tempfile.TemporaryFile() as file:
                length = max(size, _SHARED)
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, length)
                else:
                    file.truncate(length)
                current, start = mmap.mmap(file.fileno(), length), 0
        except OSError as error:
            raise unwritable(f"the temporary folder {tempfile.gettempdir()}", error) from error
    # Align arrays for any type of number.
    _shared = weakref.ref(current), start + -(-size // 64) * 64
    return current, start


def large_copy(array: NDArray[Kind], memory: int | None) -> NDArray[Kind]:
    """Return the array, or a copy in a file if it is larger than ``memory`` bytes."""
    if memory is None or array.nbytes <= memory:
        return array
    copy = large_array(array.shape, array.dtype, memory)
    copy[:] = array
    return copy


class PrivateFolder:
    """A temporary folder that only this user can read, locked while it is in use.

    It is deleted by ``remove``, or when its creating process exits, but not by a fork.
    """

    def __init__(self, prefix: str = "memberbound-") -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=prefix)).absolute()
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if hasattr(self, "path"):
                self.path.rmdir()
            folder = tempfile.gettempdir()
            raise unwritable(f"the temporary folder {folder}", error) from error
        #: Safe to call twice.
        self.remove = weakref.finalize(self, _delete, self.path, lock, os.getpid())
        # If an interrupt stops that call, the folder is deleted with this object.
        weakref.finalize(self, _delete, self.path, None, os.getpid())
        _try_lock(lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *problem: object) -> None:
        self.remove()


def _delete(folder: Path, lock: int | None, owner: int) -> None:
    if owner == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@functools.cache
def remove_leftovers(directory: str) -> None:
    """Delete this user's private folders of killed runs in a directory, once per process.

    They contain personal data that a killed run could not delete.  A new folder has a minute to be
    locked.
    """
    for folder in Path(directory).glob("memberbound-*"):
        _remove(folder, stat.S_ISDIR, folder / _LOCK)


def _remove(path: Path, kind: Callable[[int], bool], lock: Path) -> None:
    """Delete a leftover of a killed run of this user."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        user = getattr(os, "getuid", lambda: status.st_uid)  # not available on every system
        own = kind(status.st_mode) and status.st_uid == user()
        if own and time.time() - status.st_mtime >= _FORGOTTEN:
            made = os.O_CREAT if lock is not path else 0
            handle = os.open(lock, os.O_RDWR | made | os.O_NOFOLLOW, 0o600)
            try:
                if _try_lock(handle):
                    path.unlink() if lock is path else shutil.rmtree(path)
            finally:
                os.close(handle)


def remove_drafts(folder: Path) -> None:
    """Delete drafts of killed runs in a folder."""
    for draft in folder.glob(f"{_DRAFT}*"):
        _remove(draft, stat.S_ISREG, draft)


def _try_lock(handle: int) -> bool:
    """Return whether the file could be locked; False if the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


# ── The encoding of CSV files ─────────────────────────────────────────────────────────────────────


def codec_named(encoding: str | None) -> str | None:
    """Return Python's name of an encoding, None for None; refuse an unknown one."""
    if encoding is None:
        return None
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # some codecs are not of texts
    except (LookupError, ValueError):
        raise InputError(
            f"encoding must be one that Python knows, such as latin-1, cp1252 or utf-16, got "
            f"{encoding!r}."
        ) from None
    return codec
