"""Searches that return the safe end of the bracket (theory §6, trap 5).

A returned number satisfies its inequality *when evaluated again*: the functions below only ever
return the safe end they were given or arguments at which the predicate was seen to hold.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from memberbound.errors import SearchError

__all__ = ["last_true", "safe_crossing"]

_SIGN = 1 << 63


def _rank(number: float) -> int:
    """Place of a double in the order of all doubles, 0 for zero."""
    bits = int.from_bytes(struct.pack(">d", number), "big")
    return bits if bits < _SIGN else _SIGN - bits


def _double(rank: int) -> float:
    """Return the double at that place."""
    bits = rank if rank >= 0 else _SIGN - rank
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def last_true(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisect between ``inside`` (where ``holds``) and ``outside`` (where it does not).

    Guarantee: the result is ``inside``, of which the caller knows that it satisfies ``holds``, or
    was seen to.  For a predicate that switches once it is the last double before the switch.
    Works in either direction and stops at adjacent doubles.
    """
    good, bad = _rank(inside), _rank(outside)
    # Halving the places instead of the numbers takes at most 64 steps at any magnitude.
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds(_double(middle)):
            good = middle
        else:
            bad = middle
    return _double(good)


def safe_crossing(
    excess: Callable[[float], float],
    safe: float,
    unsafe: float,
    *,
    relative: float = 1e-4,
    evaluations: int = 60,
) -> float:
    """Find where ``excess`` changes sign, for functions that cost a lot to evaluate.

    ``excess(safe) ≤ 0 < excess(unsafe)``.  Regula falsi with the Illinois weight, falling back to
    halving; every point where ``excess ≤ 0`` moves the safe end, so the result was seen to be safe.

    Numerics: stops when the bracket is narrower than ``relative`` of its size.
    """
    f_safe, f_unsafe = excess(safe), excess(unsafe)
    if not f_safe <= 0:  # also when it is not a number
        raise SearchError(f"the search started at {safe!r}, which does not satisfy the target.")
    if f_unsafe <= 0:
        return unsafe
    w_safe, w_unsafe = f_safe, f_unsafe
    last_side = 0
    width = abs(unsafe - safe)
    for step in range(evaluations):
        if abs(unsafe - safe) <= relative * max(abs(safe), abs(unsafe)):
            return safe
        middle = safe + (unsafe - safe) / 2
        if step % 4 != 3 and math.isfinite(w_safe) and math.isfinite(w_unsafe):
            share = w_safe / (w_safe - w_unsafe)
            # Stay a little inside, so that the bracket shrinks from both ends.
            middle = safe + (unsafe - safe) * min(max(share, 1e-3), 1 - 1e-3)
        value = excess(middle)
        if value <= 0:
            safe, w_safe = middle, value
            w_unsafe = w_unsafe / 2 if last_side < 0 else w_unsafe
            last_side = -1
        else:
            unsafe, w_unsafe = middle, value
            w_safe = w_safe / 2 if last_side > 0 else w_safe
            last_side = 1
    if abs(unsafe - safe) < 0.01 * width:
        return safe
    raise SearchError(f"no crossing found between {safe!r} and {unsafe!r}.")
