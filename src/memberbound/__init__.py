"""memberbound: how often can anybody be right about who was in the training set?

The public surface is small; everything is imported when first used.  ``__init__.pyi`` names every
export, once, with the module that defines it.

>>> import memberbound
>>> memberbound.explain(epsilon=8, delta=1e-5).to_dict()["accuracy_upper"] > 0.999
True
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from memberbound._version import __version__ as __version__

_EXPORT = re.compile(r"^from (memberbound\S*) import (\w+) as \2$", re.MULTILINE)
#: Public name → module that defines it.
PUBLIC = {
    name: module
    for module, name in _EXPORT.findall(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
}
__all__ = sorted(PUBLIC)  # noqa: PLE0605  # names from the stub


def __getattr__(name: str) -> object:
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'memberbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
