"""Import skops without everything that scikit-learn has wrappers for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

__all__ = ["skops_io"]

#: Wrappers of other libraries' arrays: they hold no estimator.
_WRAPPERS = tuple(f"sklearn.externals.array_api_compat.{of}" for of in ("cupy", "dask", "torch"))


def skops_io() -> ModuleType:
    """Return ``skops.io``.

    skops asks scikit-learn for all estimators, which looks into each of its packages and skips
    those that cannot be imported.  With the wrappers it would import all of PyTorch and dask where
    they are installed: seconds and hundreds of mebibytes for nothing.

    Edge cases: ImportError where skops is not installed.
    """
    hidden = [name for name in _WRAPPERS if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # so Python marks what is not there
    try:
        return importlib.import_module("skops.io")
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
