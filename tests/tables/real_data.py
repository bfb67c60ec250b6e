"""The folder of real tables, for tests and documentation; absent on most machines.

The folder is ``../shared/data`` beside the repository, or MEMBERBOUND_DATA.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("MEMBERBOUND_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)


def real_file(name: str) -> Path:
    """Return the path, or skip the test that needs it."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return path
