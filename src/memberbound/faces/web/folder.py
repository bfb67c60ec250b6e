"""The private folder of a server, and those that killed servers could not delete."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PrivateFolder", "remove_leftovers"]

_PREFIX = "memberbound-serve-"
#: Locked as long as its server lives; the system unlocks it however that ends.
_LOCK = "lock"


class PrivateFolder:
    """A temporary folder that only this user can read, known to be in use while it is."""

    def __init__(self) -> None:
        # mkdtemp makes it readable for this user only.
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Named when it is locked: a lock that nobody holds is one whose server is gone.
        fresh = self.path / f"{_LOCK}.new"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if _locked(self._lock):
            fresh.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def remove_leftovers() -> list[Path]:
    """Delete the folders of this user's servers that were killed, and return them.

    Uploads are people's data; a server that was killed could not delete them itself.
    """
    return [folder for folder in _abandoned() if not _removed(folder).exists()]


def _abandoned() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _locked(handle):
                    yield folder
            finally:
                os.close(handle)


def _removed(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _locked(handle: int) -> bool:
    """Whether the file could be locked; never where the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
