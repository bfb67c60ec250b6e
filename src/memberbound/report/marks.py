"""How a number looks: proved, measured and estimated ones never look alike.

A mark is a text and its kind.  A proved ceiling reads ``≤`` and is rounded up, a measured floor
``≥`` and is rounded down, an estimate ``≈``; what is not proved says so in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Literal

from memberbound.explanation.wording import percent, percent_down, percent_up

__all__ = [
    "Mark",
    "ceiling_of",
    "certified",
    "estimated",
    "floor_of",
    "given",
    "measured",
    "nothing_proved",
    "score",
    "significant",
    "vacuous",
]

Kind = Literal["certificate", "audit", "estimate", "given", "unproved"]


@dataclass(frozen=True)
class Mark:
    """A number for the page: its kind decides the look, its text the rounding."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


def vacuous(upper: float | None) -> bool:
    """Tell whether a ceiling says nothing: there is none, or it allows every answer."""
    return upper is None or upper >= 1


def nothing_proved() -> Mark:
    """Return the mark of a missing or vacuous ceiling."""
    return Mark("unproved", "nothing is proved")


def certified(upper: float | None) -> Mark:
    """Return a proved ceiling, rounded up; one of 100 % is not shown as a proof.

    >>> certified(0.550878), certified(1.0).text
    (Mark(kind='certificate', text='≤ 55.09 %'), 'nothing is proved')
    """
    if upper is None or vacuous(upper):
        return nothing_proved()
    return Mark("certificate", f"≤ {percent_up(upper)}")


def measured(lower: float) -> Mark:
    """Return a floor that attacks have shown, rounded down."""
    return Mark("audit", f"≥ {percent_down(lower)}")


def estimated(value: float) -> Mark:
    """Return a share that is neither proved nor a bound."""
    return Mark("estimate", f"≈ {100 * value:.1f} %")


def score(value: float) -> Mark:
    """Return a model's score, an estimate."""
    return Mark("estimate", f"≈ {value:.3f}" if abs(value) < 10 else f"≈ {value:.4g}")


def given(value: float) -> Mark:
    """Return a share that somebody chose or that is known exactly."""
    exact = percent(value)
    return Mark("given", exact if len(exact) <= len("55.55 %") else f"{100 * value:.2f} %")


def ceiling_of(row: dict[str, Any]) -> Mark:
    """Return the ceiling of a row of the sandwich."""
    return certified(None if row["ceiling"] is None else row["ceiling"]["upper"])


def floor_of(row: dict[str, Any]) -> Mark | None:
    """Return the floor of a row of the sandwich, if it was attacked."""
    return None if row["floor"] is None else measured(row["floor"]["lower"])


def significant(value: float, direction: Literal["up", "down", "nearest"] = "nearest") -> str:
    """Return six significant digits, rounded so that a bound stays one.

    >>> significant(0.12345678, "up"), significant(0.12345678, "down"), significant(3.0)
    ('0.123457', '0.123456', '3')
    """
    if direction == "nearest":
        return f"{value:.6g}"
    rounding = ROUND_CEILING if direction == "up" else ROUND_FLOOR
    rounded = Context(prec=6, rounding=rounding).create_decimal(Decimal(value))
    if rounded != 0 and not -5 <= rounded.adjusted() <= 12:
        return f"{rounded.normalize():e}"
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
