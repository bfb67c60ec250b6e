"""Claims of theorems, checked case by case against the truth, with broken variants.

``truth`` lists pairs (arguments, true value); a claim is a function of the arguments.  ``broken``
names variants of the claim that are wrong: each of them must fail in at least one of these cases,
which shows that the cases can tell a wrong claim from a right one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Claim = Callable[..., Any]
Truth = Iterable[tuple[tuple[Any, ...], Any]]
Variants = Mapping[str, Claim]


def assert_bound(bound: Claim, truth: Truth, broken: Variants, *, excess: Any = None) -> None:
    """``bound`` is at least the truth everywhere, each broken variant is below it somewhere.

    Both are plain inequalities.  With ``excess``, ``bound`` is also tight: at most (1 + excess)
    times the truth.
    """
    cases = list(truth)
    _assert_claim(bound, cases, broken, operator.ge)
    if excess is not None:
        loose = [a for a, value in cases if bound(*a) > value * (1 + excess)]
        assert not loose, f"the bound exceeds the truth by more than {excess} at {loose[:3]}"


def assert_lower_bound(bound: Claim, truth: Truth, broken: Variants) -> None:
    """``bound`` is at most the truth everywhere, each broken variant is above it somewhere."""
    _assert_claim(bound, list(truth), broken, operator.le)


def assert_exact(form: Claim, truth: Truth, broken: Variants) -> None:
    """``form`` is the truth everywhere, each broken variant is something else somewhere."""
    _assert_claim(form, list(truth), broken, operator.eq)


def assert_holds(claim: Claim, cases: Iterable[tuple[Any, ...]], broken: Variants) -> None:
    """``claim`` is true of every case, each broken variant is false of at least one."""
    _assert_claim(claim, [(case, True) for case in cases], broken, lambda value, _: bool(value))


def _assert_claim(
    claim: Claim,
    cases: list[tuple[tuple[Any, ...], Any]],
    broken: Variants,
    holds: Callable[[Any, Any], bool],
) -> None:
    assert cases, "no cases"
    assert broken, "no broken variants"
    wrong = [(a, value) for a, value in cases if not holds(claim(*a), value)]
    assert not wrong, (
        f"fails in {len(wrong)} of {len(cases)} cases, first (case, truth): {wrong[0]}"
    )
    for name, variant in broken.items():
        caught = any(not holds(variant(*a), value) for a, value in cases)
        assert caught, f"the broken variant {name!r} is not caught"
