"""Large modules of extras, imported when a test needs them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Later:
    """A module that is imported when it is first used.

    Every test process collects every file and runs a part of them.  If the module is not installed,
    skip the file that requires it.
    """

    def __init__(self, name: str) -> None:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
        self._name = name

    @staticmethod
    def missing(name: str) -> bool:
        """Return whether a module is not installed, for a test that needs it beside others."""
        return find_spec(name) is None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest inspects every global of a file
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
