"""Searches that return the safe end of the bracket (theory §6, trap 5); use only these.

A returned number satisfies its inequality *when evaluated again*: these functions return only the
given safe end, or arguments at which the predicate was verified.

* :func:`last_true`: to the last double, for cheap predicates; :func:`guessed_zero`
  provides its initial guess;
* :func:`least_scale`: the least sufficient noise, from any starting point;
* :func:`safe_crossing`: the same inside a known bracket; :func:`confirmed` to verify a result;
* :func:`least_whole`: the smallest whole number;
* :func:`fixed_order`: for tests that may err.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

from memberbound.errors import SearchError
from memberbound.numerics.rounding import UNIT

_Trial = TypeVar("_Trial")
_SIGN = 1 << 63
#: Relative tolerance of :func:`least_scale`: the result exceeds the least scale by at most this.
NARROW = 1e-6
#: First factor of the bracket search, squared at every further step.
_FIRST_FACTOR, _LARGEST_FACTOR = 1.5, 1e9
#: Values below this count as 0 in a search.
_TINY = 1e-290


def _rank(number: float) -> int:
    """Return the rank of a double among all doubles, 0 for zero."""
    bits = int.from_bytes(struct.pack(">d", number), "big")
    return bits if bits < _SIGN else _SIGN - bits


def _double(rank: int) -> float:
    """Return the double with this rank."""
    bits = rank if rank >= 0 else _SIGN - rank
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def last_true(
    holds: Callable[[float], bool], inside: float, outside: float, near: float | None = None
) -> float:
    """Bisect between ``inside`` (where ``holds``) and ``outside`` (where it does not).

    Guarantee: the result is ``inside``, which must satisfy ``holds``, or was verified to satisfy
    it. For a predicate that switches once, it is the last double before the switch. Works in either
    direction and stops at adjacent doubles.  ``near``, a guess of the switch, saves evaluations
    without changing the result.
    """
    good, bad = _rank(inside), _rank(outside)
    first, last = (good, bad) if near is None else _around(holds, good, bad, near)
    towards = 1 if bad > good else -1
    # Bisecting ranks instead of numbers takes at most 64 steps at any magnitude.
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        # The same ranks for any guess; points decided by the guess are not evaluated again.
        if (middle - first) * towards <= 0:
            good = middle
        elif (middle - last) * towards >= 0:
            bad = middle
        elif holds(_double(middle)):
            good = middle
        else:
            bad = middle
    return _double(good)


def _around(holds: Callable[[float], bool], good: int, bad: int, near: float) -> tuple[int, int]:
    """Return the ranks of two doubles around the switch, verified or given."""
    towards = 1 if bad > good else -1
    rank = _rank(near) if math.isfinite(near) else good
    if not min(good, bad) < rank < max(good, bad):
        return good, bad
    # With growing steps, a guess that is a few roundings off costs a few evaluations.
    step = 16
    if holds(_double(rank)):
        while (ahead := rank + towards * step) * towards < bad * towards:
            if not holds(_double(ahead)):
                return rank, ahead
            rank, step = ahead, 16 * step
        return rank, bad
    while (back := rank - towards * step) * towards > good * towards:
        if holds(_double(back)):
            return back, rank
        rank, step = back, 16 * step
    return good, rank


def guessed_zero(
    excess: Callable[[float], float], inside: float, outside: float, evaluations: int = 24
) -> float:
    """Return a number near which ``excess`` changes its sign, for the guess of :func:`last_true`.

    Uses inverse quadratic interpolation where it is safe, and bisection elsewhere (Chandrupatla
    1997).
    """
    first, second = outside, inside
    f_first, f_second = excess(first), excess(second)
    share = 0.5
    for _ in range(evaluations):
        point = first + share * (second - first)
        value = excess(point)
        if (value > 0) == (f_first > 0):
            third, f_third = first, f_first
        else:
            third, f_third = second, f_second
            second, f_second = first, f_first
        first, f_first = point, value
        best = first if abs(f_first) < abs(f_second) else second
        if abs(second - first) <= 8 * UNIT * abs(best) or value == 0:
            return best
        share = 0.5
        if len({f_first, f_second, f_third}) == 3 and math.isfinite(f_second + f_third + f_first):
            xi = (first - second) / (third - second)
            phi = (f_first - f_second) / (f_third - f_second)
            if phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi:
                share = f_first / (f_second - f_first) * (f_third / (f_second - f_third))
                share += (
                    (third - first)
                    / (second - first)
                    * (f_first / (f_third - f_first) * (f_second / (f_third - f_second)))
                )
        least = 2 * UNIT * abs(best) / abs(second - first)
        share = min(max(share, least), 1 - least)
    return first if abs(f_first) < abs(f_second) else second


def safe_crossing(
    excess: Callable[[float], float],
    safe: float,
    unsafe: float,
    *,
    relative: float = 1e-4,
    evaluations: int = 60,
    logarithmic: bool = False,
) -> float:
    """Find where ``excess`` changes sign, for functions that are expensive to evaluate.

    ``excess(safe) ≤ 0 < excess(unsafe)``.  Regula falsi with the Illinois weight, falling back to
    bisection; every point with ``excess ≤ 0`` moves the safe end, so the result was verified.
    ``logarithmic`` interpolates on ln x, for positive ends.

    Numerics: stops when the bracket is narrower than ``relative`` of its size.
    """
    f_safe, f_unsafe = excess(safe), excess(unsafe)
    if not f_safe <= 0:  # also true for NaN
        raise SearchError(f"the search started at {safe!r}, which does not satisfy the target.")
    if f_unsafe <= 0:
        return unsafe
    w_safe, w_unsafe = f_safe, f_unsafe
    last_side = 0
    width = abs(unsafe - safe)
    for step in range(evaluations):
        if abs(unsafe - safe) <= relative * max(abs(safe), abs(unsafe)):
            return safe
        share = 0.5
        if step % 4 != 3 and math.isfinite(w_safe) and math.isfinite(w_unsafe):
            # Stay slightly inside, so that the bracket shrinks from both ends.
            share = min(max(w_safe / (w_safe - w_unsafe), 1e-3), 1 - 1e-3)
        middle = safe + (unsafe - safe) * share
        if logarithmic:
            middle = safe * (unsafe / safe) ** share
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


def least_scale(
    excess: Callable[[float], float],
    start: float,
    *,
    floor: float = 0.0,
    ceiling: float = math.inf,
    relative: float = NARROW,
    evaluations: int = 60,
) -> float:
    """Return the least x in [floor, ceiling] with ``excess(x) ≤ 0``, for an excess that falls.

    From ``start`` > 0, ideally near the answer, a bracket is sought upwards or downwards in growing
    steps and then narrowed on ln x.  All searches for the least noise use this function.

    Guarantee: ``excess ≤ 0`` was seen at the result, which is at most ``relative`` above the least.
    Edge cases: ``floor`` (or 1e-290) itself if it passes; SearchError when nothing up to
    ``ceiling`` does.

    Examples:
        >>> found = least_scale(lambda x: 3.0 - x, 1.0)
        >>> 3.0 <= found <= 3.0 * (1 + 1e-6)
        True
    """
    values: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in values:
            values[x] = excess(x)
        return values[x]

    lowest = max(floor, _TINY)
    good = bad = max(start, lowest)
    factor = _FIRST_FACTOR
    while not at(good) <= 0:
        if good >= ceiling or not math.isfinite(good * factor):
            raise SearchError(f"nothing up to {good!r} meets the target.")
        good, bad = min(good * factor, ceiling), good
        factor = min(factor * factor, _LARGEST_FACTOR)
    while at(bad) <= 0:
        if bad <= lowest:
            return bad
        good, bad = bad, max(bad / factor, lowest)
        factor = min(factor * factor, _LARGEST_FACTOR)
    return safe_crossing(
        at, good, bad, relative=relative, evaluations=evaluations, logarithmic=True
    )


def confirmed(
    value: Callable[[float], float], target: float, x: float, step: float = 1e-12
) -> float:
    """Return x, or a slightly larger one, at which ``value ≤ target`` is seen to hold.

    For an x that was found with something close to ``value``, cheaper or without its rounding.
    """
    for _ in range(40):
        result = value(x)
        if result <= target:
            return x
        # A value too large by some share needs x larger by about that share, rarely by more.
        share = result / target - 1 if target > 0 else 0.0
        x *= 1 + max(step, min(share, 0.01))
        step *= 2
    raise SearchError(f"what was found, {x!r}, did not meet the target again.")


def least_whole(holds: Callable[[int], bool], below: int = 0, most: int = 2**62) -> int | None:
    """Return the least whole number above ``below`` that ``holds``, as do all after it.

    Guarantee: the result was seen to satisfy ``holds``; None if even ``most`` does not.

    Examples:
        >>> least_whole(lambda n: n * n > 50), least_whole(lambda n: n > 9, most=9)
        (8, None)
    """
    low, high = below, min(below + 1, most)
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(below + 2 * (high - below), most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def fixed_order(holds: Callable[[_Trial], bool], trials: Iterable[_Trial]) -> _Trial | None:
    """Return the last trial before the first failure, or None; skip all trials after it.

    Guarantee: where ``holds`` errs on each false claim with probability at most β, so does the
    result, without monotony and without a correction for the number of tests.
    Theorem: proofs/retraining.md, claim 4: an error implies that the first false claim passed.
    Assumes: trials and their order do not depend on what the tests look at.

    Examples:
        >>> fixed_order(lambda n: n > 4, (9, 7, 5, 3, 8))
        5
    """
    passed = None
    for trial in trials:
        if not holds(trial):
            break
        passed = trial
    return passed
