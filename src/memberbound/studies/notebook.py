"""Finished steps on disk, so that a stopped study goes on where it stopped.

One JSON file per step.  Each carries a fingerprint of the question, the data and the version; a
file with another one is not used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memberbound._version import __version__
from memberbound.files import write_text

__all__ = ["Notebook", "fingerprint"]

_FOLDER = ".steps"


def fingerprint(question: dict[str, Any], sha256: str) -> str:
    """Return what a step's answer depends on, as one SHA-256.

    >>> fingerprint({"eta": 0.1}, "a") == fingerprint({"eta": 0.2}, "a")
    False
    """
    said = json.dumps([question, sha256, __version__], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True)
class Notebook:
    """The folder of finished steps of one study."""

    folder: Path
    key: str

    @classmethod
    def at(cls, out: Path, key: str) -> Notebook:
        """Return the notebook inside a study's output folder."""
        folder = out / _FOLDER
        folder.mkdir(exist_ok=True)
        return cls(folder, key)

    def load(self, step: str) -> dict[str, Any] | None:
        """Return a finished step of exactly this study, else nothing."""
        path = self.folder / f"{step}.json"
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return dict(said["step"]) if said["key"] == self.key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # a missing or damaged page is written again

    def keep(self, step: str, content: dict[str, Any]) -> None:
        """Write a finished step."""
        text = json.dumps({"key": self.key, "step": content}, ensure_ascii=False, allow_nan=False)
        write_text(text, self.folder / f"{step}.json", force=True)
