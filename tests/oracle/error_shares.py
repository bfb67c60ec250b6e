"""Record every error level that is passed to an interval, and its caller.

A *primitive* is a function that turns an error level into an interval.  Within ``recording`` each
call of one is kept as a :class:`Use`: the error it spends (its level times the number of its
statements), and the calls of the package that led to it.  Tests add up the error of one promise.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from memberbound.iid.record_leak import _ladder

Arguments = dict[str, Any]


def _single(name: str) -> Callable[[Arguments, Any], float]:
    return lambda given, _: float(given[name])


def _per_entry(given: Arguments, result: Any) -> float:
    return math.exp(-given["log_error"]) * np.size(result)


def _rest(given: Arguments, _: Any) -> float:
    return 1 - given["confidence"]


#: Module and function → the error that one call spends.
PRIMITIVES: dict[tuple[str, str], Callable[[Arguments, Any], float]] = {
    ("attacks.intervals", "clopper_pearson_lower"): lambda a, r: a["error"] * np.size(r),
    ("attacks.intervals", "clopper_pearson_upper"): lambda a, r: a["error"] * np.size(r),
    ("attacks.intervals", "auc_lower"): _single("error"),
    ("attacks.intervals", "auc_upper"): _single("error"),
    ("attacks.intervals", "two_sample_deviation"): _single("error"),
    ("attacks.intervals", "rank_within"): _single("error"),
    ("attacks.intervals", "rank_beyond"): _single("error"),
    ("attacks.one_run", "one_run_epsilon"): _rest,
    ("attacks.one_run", "one_run_mu"): _rest,
    ("numerics.means", "betting_lower"): _per_entry,
    ("numerics.means", "betting_upper"): _per_entry,
    ("numerics.means", "moment_lower"): _per_entry,
    ("numerics.means", "moment_upper"): _per_entry,
    ("numerics.means", "self_bounding_upper"): _single("beta"),
    ("numerics.means", "bounded_differences_upper"): _single("beta"),
    ("numerics.means", "mixture_upper"): lambda a, _: a["beta"] * math.fsum(a["weights"]),
    ("iid.profiles", "two_sample_leak_upper"): _single("beta"),
    ("iid.profiles", "split_leak_upper"): _single("beta"),
    # One-sided bounds for the at most 64 cells that are heavier than 1/64.
    ("iid.count_functions", "_cut"): lambda a, _: 64 * a["alpha"],
    # For all cells and all counts of the ladder at once (X15).
    ("iid.record_leak", "_solved"): lambda a, _: a["beta"] * len(_ladder(a["rows"])),
    ("iid.certificates", "_concentrated"): _rest,
}
#: The same event whenever these arguments are the same.
_EVENTS = {"_solved": ("rows", "beta"), "_cut": ("rows", "alpha")}
#: These compute what a sample of some size could show; they are not statements about a sample.
_SILENT = (("attacks.intervals", "non_members_needed"), ("release.half.least_noise", "least_draws"))


@dataclass(frozen=True)
class Call:
    """One call of a function of the package: the function, and the number of the call."""

    name: str
    number: int
    among: int | None = None


@dataclass(frozen=True)
class Use:
    """An error level passed to a primitive."""

    primitive: str
    error: float
    path: tuple[Call, ...]
    event: Hashable
    statements: int

    def within(self, *names: str) -> tuple[Call, ...]:
        """Return the calls of these functions that led here, outermost first."""
        return tuple(call for call in self.path if call.name in names)


def total_error(uses: Iterable[Use]) -> float:
    """Add up the error; an event requested twice counts once."""
    return math.fsum({use.event: use.error for use in uses}.values())


def by_call(uses: Iterable[Use], *names: str) -> dict[tuple[Call, ...], list[Use]]:
    """Group the uses by the calls of these functions; those outside all of them are left out."""
    groups: dict[tuple[Call, ...], list[Use]] = {}
    for use in uses:
        key = use.within(*names)
        if {call.name for call in key} == set(names):
            groups.setdefault(key, []).append(use)
    return groups


@contextmanager
def recording() -> Iterator[list[Use]]:
    """Record the arguments of every primitive, in every module that imports it."""
    uses: list[Use] = []
    frames: dict[int, tuple[Any, int]] = {}
    inside = 0

    def path() -> tuple[Call, ...]:
        calls, frame = [], sys._getframe(2)
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("memberbound"):
                # Kept, so that no later call gets the same address.
                _, number = frames.setdefault(id(frame), (frame, len(frames)))
                among = frame.f_locals.get("among")
                kept = among if isinstance(among, int) else None
                calls.append(Call(frame.f_code.co_name, number, kept))
            frame = frame.f_back
        return tuple(reversed(calls))

    def record(name: str, function: Any, price: Any) -> Any:
        signature = inspect.signature(function)

        def call(*args: Any, **named: Any) -> Any:
            nonlocal inside
            inside += 1
            try:
                result = function(*args, **named)
            finally:
                inside -= 1
            if inside == 0 and price is not None:
                bound = signature.bind(*args, **named)
                bound.apply_defaults()
                given = bound.arguments
                same = tuple(given[key] for key in _EVENTS.get(name, ()))
                event = (name, *same) if same else (name, len(uses))
                uses.append(Use(name, price(given, result), path(), event, np.size(result)))
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for (room, name), price in [*PRIMITIVES.items(), *((key, None) for key in _SILENT)]:
            function = getattr(importlib.import_module(f"memberbound.{room}"), name)
            wrapper = record(name, function, price)
            for module in [m for n, m in sys.modules.items() if n.startswith("memberbound")]:
                if vars(module).get(name) is function:
                    patch.setattr(module, name, wrapper)
        yield uses
