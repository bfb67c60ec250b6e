"""Output files: refused before any work is done, or written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memberbound.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["FORMATS", "check_output", "write_table", "write_text", "written_whole"]

FORMATS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")


def check_output(
    path: str | Path,
    *,
    name: str = "out",
    formats: tuple[str, ...] = FORMATS,
    source: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Return a path that can be written, or refuse it before any work is done."""
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


def write_table(frame: DataFrame, path: Path, *, force: bool = False) -> None:
    """Write a pandas table as CSV, Parquet or Arrow, by the ending of the name."""
    ending = path.name.lower()

    def write(draft: Path) -> None:
        if ending.endswith((".csv", ".csv.gz")):
            # No time stamp in the archive: the same table gives the same bytes.
            packed = {"method": "gzip", "mtime": 0} if ending.endswith(".gz") else None
            frame.to_csv(draft, index=False, compression=packed)
        elif ending.endswith(".parquet"):
            frame.to_parquet(draft, index=False)
        else:
            frame.reset_index(drop=True).to_feather(draft)

    written_whole(path, write, force)


def write_text(text: str, path: Path, *, force: bool = False) -> None:
    """Write a text."""
    written_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"), force)


def written_whole(path: Path, write: Callable[[Path], object], force: bool) -> None:
    """Let ``write`` fill a draft beside ``path`` and rename it; nothing remains of a failure."""
    handle, name = tempfile.mkstemp(prefix=".memberbound-", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        try:
            write(draft)
        except (ArithmeticError, TypeError, ValueError) as error:  # Arrow refuses mixed columns
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} cannot hold this table: {first}.") from error
        # mkstemp makes private files; an output is meant to be like any other file of its folder.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        if force:
            draft.replace(path)
        else:
            try:
                os.link(draft, path)  # fails where a file has appeared meanwhile
            except FileExistsError:
                raise InputError(f"out must not exist yet, got {str(path)!r}.") from None
            except OSError:  # a file system without links
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
