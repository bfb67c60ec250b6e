"""Numbers for people, rounded so that what is printed is still a bound.

Decimal arithmetic is exact on doubles, so the direction of the last digit is never in doubt.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "percent",
    "percent_down",
    "percent_up",
    "significant_down",
    "significant_up",
    "six_down",
    "six_up",
]

_SIX = Decimal("0.000001")


def percent(value: float) -> str:
    """A given share, not a bound: as short as it is exact."""
    return f"{value * 100:.10g} %"


def six_up(value: float) -> str:
    """Six decimals, rounded up."""
    return str(Decimal(value).quantize(_SIX, rounding=ROUND_CEILING))


def six_down(value: float) -> str:
    """Six decimals, rounded down."""
    return str(Decimal(value).quantize(_SIX, rounding=ROUND_FLOOR))


def percent_up(value: float) -> str:
    """Percent with two decimals, rounded up; more decimals where two would say 100 %."""
    exact = Decimal(value) * 100
    for digits in (2, 4, 6, 9, 12, 15):
        rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
        if rounded < 100 or exact == 100:
            text = f"{rounded:f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"
    return "100 %"


def percent_down(value: float) -> str:
    """Percent with two decimals, rounded down.

    >>> percent_down(0.81239)
    '81.23 %'
    """
    rounded = (Decimal(value) * 100).quantize(Decimal("0.01"), rounding=ROUND_FLOOR)
    text = f"{rounded:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"


def significant_up(value: float, digits: int = 3) -> str:
    """A few significant digits, rounded up."""
    return _significant(value, digits, ROUND_CEILING)


def significant_down(value: float, digits: int = 3) -> str:
    """A few significant digits, rounded down."""
    return _significant(value, digits, ROUND_FLOOR)


def _significant(value: float, digits: int, rounding: str) -> str:
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    # Format the decimal itself: a subnormal double would lose the digit that was rounded up.
    if value < 1e-4:
        return f"{rounded:e}"
    text = f"{rounded:f}"
    # Only decimals may lose their zeros: 10 must not become 1.
    return text.rstrip("0").rstrip(".") if "." in text else text
