"""Private folders and large arrays on disk, deleted even after a crash.

They contain personal data.  A folder is locked while its run is alive.  The operating system
releases the lock however the run ends, so the next run can recognise and delete leftovers of killed
runs.
"""

from __future__ import annotations

import contextlib
import functools
import math
import mmap
import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memberbound.errors import unwritable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = TypeVar("Kind", bound="np.generic")
#: Age in seconds after which an unlocked draft or folder counts as left by a killed run.
_FORGOTTEN = 60.0
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
        try_lock(lock)

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
        remove_leftover(folder, stat.S_ISDIR, folder / _LOCK)


def remove_leftover(path: Path, kind: Callable[[int], bool], lock: Path) -> None:
    """Delete a leftover of a killed run of this user."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        user = getattr(os, "getuid", lambda: status.st_uid)  # not available on every system
        own = kind(status.st_mode) and status.st_uid == user()
        if own and time.time() - status.st_mtime >= _FORGOTTEN:
            made = os.O_CREAT if lock is not path else 0
            handle = os.open(lock, os.O_RDWR | made | os.O_NOFOLLOW, 0o600)
            try:
                if try_lock(handle):
                    path.unlink() if lock is path else shutil.rmtree(path)
            finally:
                os.close(handle)


def try_lock(handle: int) -> bool:
    """Return whether the file could be locked; False if the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
