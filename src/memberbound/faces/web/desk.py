"""What one running server holds: its private folder, its limits, uploads, jobs and views."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memberbound.faces.web.child import Calculations
from memberbound.faces.web.gate import Limits, RefusedError
from memberbound.faces.web.jobs import Jobs
from memberbound.faces.web.uploads import Uploads

__all__ = [
    "Desk",
    "PrivateFolder",
    "Views",
    "remove_leftovers",
]

# ── The private folder of a server, and those that killed servers could not delete ────────────────

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


# ── What one running server holds: its limits, its private folder, uploads, jobs and views ────────


@dataclass
class Views:
    """Reports that were opened from a file, as pages, oldest first."""

    kept: int
    _pages: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, page: str, scripts: str) -> str:
        """Keep a page with the sources of its scripts, and return its id."""
        id = secrets.token_urlsafe(16)
        self._pages[id] = (page, scripts)
        while len(self._pages) > self.kept:
            del self._pages[next(iter(self._pages))]
        return id

    def __getitem__(self, id: str) -> tuple[str, str]:
        if id not in self._pages:
            raise RefusedError(404, "view must be one that is still kept, got another.")
        return self._pages[id]


class Desk:
    """The state of a server; everything it writes lies in one private folder."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        remove_leftovers()
        self._private = PrivateFolder()
        self.folder = self._private.path
        self.calculations = Calculations(limits)
        self.uploads = Uploads(self.folder / "files", limits)
        self.jobs = Jobs(self.folder / "jobs", limits)
        self.views = Views(limits.kept_views)

    def warm_up(self) -> None:
        """Start processes before they are needed."""
        self.calculations.warm_up()
        self.jobs.warm_up()

    async def close(self) -> None:
        """Stop all jobs and delete everything."""
        try:
            await self.jobs.close()
            await self.calculations.close()
        finally:
            await asyncio.to_thread(self._private.remove)
