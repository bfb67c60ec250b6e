"""Work for the engine of fits.  Worker processes import this module, so it imports little."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path


class Square:
    """Squares; the pieces in ``deadly`` kill their process, each ``deaths`` times."""

    def __init__(self, folder, deadly=(), deaths=1, parent=None):
        self.folder, self.deadly, self.deaths = Path(folder), set(deadly), deaths
        self.parent = os.getpid() if parent is None else parent

    def __call__(self, piece):
        died = list(self.folder.glob(f"{piece}-*"))
        if piece in self.deadly and os.getpid() != self.parent and len(died) < self.deaths:
            (self.folder / f"{piece}-{len(died)}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return piece * piece


class Stays(Square):
    def __reduce__(self):
        raise pickle.PicklingError("this stays here")


class Raises(Square):
    def __call__(self, piece):
        raise OSError(f"piece {piece}")
