"""Broadcast functions of numbers over arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from memberbound.numerics.rounding import FloatArray

#: A number for numbers, an array if any argument is an array.
Numbers = float | FloatArray


def each(function: Callable[..., float], *arguments: ArrayLike) -> Numbers:
    """Return ``function`` of every combination of the arguments after broadcasting.

    Examples:
        >>> each(max, 0.5, 2.0)
        2.0
        >>> each(max, [1.0, 3.0], 2.0).tolist()
        [2.0, 3.0]
    """
    if all(np.ndim(one) == 0 for one in arguments):
        return function(*arguments)
    # Whole numbers stay whole numbers: each argument keeps its own type.
    arrays = np.broadcast_arrays(*(np.asarray(one) for one in arguments))
    lists = (array.ravel().tolist() for array in arrays)
    values = [function(*at) for at in zip(*lists, strict=True)]
    return np.array(values).reshape(arrays[0].shape)
