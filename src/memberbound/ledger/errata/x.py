"""Errata of our own earlier statements: one computed counterexample each."""

from __future__ import annotations

import math
from fractions import Fraction

from .types import Counterexample

__all__ = ["cell_leak", "cell_leak_upper", "square_root_form"]


def cell_leak(n: int, p: Fraction) -> Fraction:
    """Leak of the histogram on a record of a cell of probability p: E|B/n − p|/(2p), exactly."""
    return sum(
        (
            math.comb(n, k) * p**k * (1 - p) ** (n - k) * abs(Fraction(k, n) - p)
            for k in range(n + 1)
        ),
        Fraction(0),
    ) / (2 * p)


def cell_leak_upper(expected: float) -> float:
    """X7's bound e^(−λ)λ^⌊λ⌋/⌊λ⌋! at an expected cell size λ (not rounded to the safe side)."""
    whole = math.floor(expected)
    return math.exp(whole * math.log(expected) - expected - math.lgamma(whole + 1))


def square_root_form() -> Counterexample:
    """X7 was first stated with 1/√(2πλ); between integers that is too small."""
    n, p = 10, Fraction(1, 20)
    expected = float(n * p)
    leak = cell_leak(n, p)
    printed = 1 / math.sqrt(2 * math.pi * expected)
    return Counterexample(
        setting="ten records, a cell of probability 1/20: λ = 1/2 members expected",
        printed_value=printed,
        true_value=float(leak),
        violated=float(leak) > printed + 1e-9,
        numbers={
            "expected_members": expected,
            "corrected_bound": cell_leak_upper(expected),
            # Above one member too, so this is no matter of tiny cells only.
            "printed_at_one_and_a_half": 1 / math.sqrt(3 * math.pi),
            "leak_at_one_and_a_half": float(cell_leak(150, Fraction(1, 100))),
        },
    )
