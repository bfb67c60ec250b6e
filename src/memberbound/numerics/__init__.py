"""Floating point that errs on the stated side (rounding, roots, the normal law), on one thread."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

__all__ = ["one_thread"]


def one_thread(kind: str | None = None) -> AbstractContextManager[Any]:
    """Hold the libraries of this process to one thread each, or those of a kind (``"blas"``)."""
    # Modules bring libraries: nothing is looked for again before another one is imported.
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(
        limits=1, user_api=kind
    )
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:  # noqa: ARG001
    # Which libraries are loaded takes ten milliseconds to find out, longer than many a fit.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
