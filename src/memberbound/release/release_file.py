"""The protocol of a release that can be saved, and shared file formats.

Nothing is ever pickled.  A release supplies the fields of its certificate and writes its own file;
:func:`memberbound.release.saving.save` stores the two side by side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

from memberbound.answers import plain
from memberbound.errors import import_optional

#: Writes a release to a path.
Writer = Callable[[Path], object]


@runtime_checkable
class StorableRelease(Protocol):
    """A release that can be saved with its certificate."""

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate, except the file's name and hash."""

    def file_writer(self, path: Path) -> Writer:
        """Return a function that writes the release in the format of the path's ending."""


def json_page(fields: Mapping[str, object]) -> str:
    """Format fields as indented JSON."""
    return json.dumps(plain(fields), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def skops() -> ModuleType:
    """Import skops, or raise an error that explains how to install it."""
    return import_optional("skops.io", "for this file", "skops")


def safetensors(name: str = "safetensors.numpy") -> ModuleType:
    """Import a module of safetensors, or raise an error that explains how to install it."""
    return import_optional(name, "for this file", "skops")


def tensor_writer(tensors: Mapping[str, object], metadata: dict[str, str] | None = None) -> Writer:
    """Return a function that writes named arrays as safetensors."""
    packed = safetensors().save(tensors, metadata=metadata)
    return lambda path: path.write_bytes(packed)
