"""The answer of ``harden``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from memberbound.certification.answer import CERTIFIED
from memberbound.games import IidGame
from memberbound.hardening.frontier import FrontierPoint
from memberbound.quantities import (
    Sides,
    at_confidence,
    common_fields,
    decimals,
    json_number,
    marked,
    percent,
    vacuous,
)
from memberbound.tables.coarsening import Coarsener

__all__ = ["Hardening"]


@dataclass(frozen=True, eq=False)
class Hardening:
    """A coarsened table with its certificate.

    ``table`` holds the released rows, ``coarsener`` the recipe that made them.  ``before`` and
    ``after`` are dictionaries as ``certify`` gives them, of the table read and the rows released.
    """

    SIDES: ClassVar[Sides] = {
        "accuracy_estimate": "estimate",
        "after": CERTIFIED,
        "before": CERTIFIED,
        "frontier_estimate": "estimate",
        "information_estimate": "estimate",
        "information_kept_estimate": "estimate",
        "record_leak": "given",
        "security": "given",
    }

    table: Any = field(repr=False)
    coarsener: Coarsener = field(repr=False)
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    steps: tuple[str, ...]
    information_estimate: float
    information_kept_estimate: float | None
    measure: str
    frontier: tuple[FrontierPoint, ...] = field(repr=False)
    security: float | None
    record_leak: float | None
    target: str | None
    validity: str
    rows_read: int
    rows_fitted: int
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    accuracy: Mapping[str, Mapping[str, float] | None] | None = None
    out: str | None = None
    recipe_out: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        return common_fields("harden", IidGame(), self.theorems, self.assumptions) | {
            "before": dict(self.before),
            "after": dict(self.after),
            "steps": list(self.steps),
            "information_kept_estimate": _number(self.information_kept_estimate),
            "out": self.out,
            "security": self.security,
            "record_leak": self.record_leak,
            "target": self.target,
            "validity": self.validity,
            "rows_read": self.rows_read,
            "rows_fitted": self.rows_fitted,
            "rows_released": len(self.table),
            "information_estimate": _number(self.information_estimate),
            "information_measure": self.measure,
            "accuracy_estimate": None
            if self.accuracy is None
            else {when: None if v is None else dict(v) for when, v in self.accuracy.items()},
            "frontier_estimate": [
                {"information": p.information_estimate, "security": p.security_estimate}
                for p in self.frontier
            ],
            "recipe": self.recipe_out,
            "roles": dict(self.roles),
            "warnings": list(self.warnings),
            "sentence": self.sentence,
        }

    @property
    def _unless(self) -> str:
        """What else may be seen, and would say more than the released rows do."""
        return {
            "split": " who was not told which rows were picked for release",
            "union": " who learns nothing from the choice of this recipe",
        }.get(self.validity, "")

    @property
    def sentence(self) -> str:
        """What is certified about the released rows."""
        after = self.after
        sure = at_confidence(after["confidence"])
        if vacuous(after["delta_upper"], "delta"):
            return f"Nothing is proved about the {len(self.table)} released rows{sure}."
        was = marked(self.before["security_lower"], "certificate", "security", 6)
        return (
            f"Whatever is trained on the {len(self.table)} released rows, nobody{self._unless} is "
            "right about the membership of the average record more than "
            f"{percent(after['accuracy_upper'], 'upper')} of the time{sure}: MIS "
            f"{marked(after['security_lower'], 'certificate', 'security', 6)} (before: {was})."
        )

    def summary(self) -> str:
        """Return the answer as a short text."""
        lines = [
            self.sentence,
            "",
            f"{'':<34}{'before':>18}   after",
            self._row("cells", lambda side: side["atoms"]),
            self._row("leak Δ, any learner", lambda side: _leak(side["delta_upper"], "delta")),
            self._row("record leak, worst row", lambda side: _leak(side["record_leak"]["max"])),
            self._row(
                "rows that may leak more than 0.5", lambda side: side["record_leak"]["exposed_rows"]
            ),
        ]
        for name in (self.accuracy or {}).get("after") or {}:
            both = [(self.accuracy or {}).get(when) or {} for when in ("before", "after")]
            seen = [f"≈ {decimals(v.get(name, 0.0), 'estimate', 3)}" for v in both]
            lines.append(_line(f"accuracy, {name}", *seen))
        if self.information_kept_estimate is not None:
            lines.append(
                f"{self.measure} kept: {marked(self.information_kept_estimate, 'estimate')} of the "
                "most that any coarsening tried on the fitting rows showed (estimate)"
            )
        lines += ["", *(f"- {step}" for step in self.steps)]
        lines += [f"note: {note}." for note in self.warnings]
        if self.out is not None:
            lines += ["", f"wrote {self.out}"]
        return "\n".join(lines)

    def _row(self, name: str, pick: Callable[[Mapping[str, Any]], object]) -> str:
        return _line(name, pick(self.before), pick(self.after))


def _line(name: str, before: object, after: object) -> str:
    return f"{name:<34}{before!s:>18} → {after}"


def _number(value: float | None) -> float | None:
    return None if value is None else json_number(value)


def _leak(value: float, quantity: str = "leak") -> str:
    return str(marked(value, "certificate", quantity, 6))
