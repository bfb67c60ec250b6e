"""The answer of ``harden``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memberbound.games import IidGame
from memberbound.hardening.frontier import FrontierPoint
from memberbound.quantities import common_fields, json_number
from memberbound.tables.coarsening import Coarsener

__all__ = ["Hardening"]


@dataclass(frozen=True, eq=False)
class Hardening:
    """A coarsened table with its certificate.

    ``table`` holds the released rows, ``coarsener`` the recipe that made them.  ``before`` and
    ``after`` are dictionaries as ``certify`` gives them, of the table read and the rows released.
    """

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
        }

    @property
    def _unless(self) -> str:
        """What else may be seen, and would say more than the released rows do."""
        return {
            "split": " who was not told which rows were picked for release",
            "union": " who learns nothing from the choice of this recipe",
        }.get(self.validity, "")

    def summary(self) -> str:
        """Return the answer as a short text."""
        after, before = self.after, self.before
        lines = [
            f"Certified on {len(self.table)} released rows with confidence "
            f"{after['confidence']:g}: whatever is trained on them, nobody{self._unless} is right "
            "about the membership of the average record more than "
            f"{_percent(after['accuracy_upper'])} of the time (MIS ≥ "
            f"{_down(after['security_lower'])}; before: {_down(before['security_lower'])}).",
            "",
            _row("cells", before["atoms"], after["atoms"]),
            _row("Δ at most", _up(before["delta_upper"]), _up(after["delta_upper"])),
            _row("largest record leak at most", _leak(before), _leak(after)),
            _row("rows that may leak more than 0.5", _exposed(before), _exposed(after)),
        ]
        for name in (self.accuracy or {}).get("after") or {}:
            both = [(self.accuracy or {}).get(when) or {} for when in ("before", "after")]
            lines.append(
                _row(f"accuracy, {name} (estimate)", *(f"{v.get(name, 0):.3f}" for v in both))
            )
        if self.information_kept_estimate is not None:
            lines.append(
                f"{self.measure} kept: about {self.information_kept_estimate:.0%} of the most that "
                "any coarsening tried on the fitting rows showed (estimate)"
            )
        lines += ["", *(f"- {step}" for step in self.steps)]
        lines += [f"note: {note}." for note in self.warnings]
        if self.out is not None:
            lines += ["", f"wrote {self.out}"]
        return "\n".join(lines)


def _row(name: str, before: object, after: object) -> str:
    return f"{name:<34}{before!s:>8} → {after}"


def _number(value: float | None) -> float | None:
    return None if value is None else json_number(value)


def _up(value: Any) -> str:
    """Four decimals, rounded away from the optimistic side."""
    from decimal import ROUND_CEILING, Decimal

    return str(Decimal(float(value)).quantize(Decimal("0.0001"), rounding=ROUND_CEILING))


def _percent(value: Any) -> str:
    """Percent with two decimals, rounded up."""
    from decimal import ROUND_CEILING, Decimal

    share = 100 * Decimal(float(value))
    return f"{share.quantize(Decimal('0.01'), rounding=ROUND_CEILING)} %"


def _down(value: Any) -> str:
    from decimal import ROUND_FLOOR, Decimal

    return str(Decimal(float(value)).quantize(Decimal("0.0001"), rounding=ROUND_FLOOR))


def _exposed(certified: Mapping[str, Any]) -> int:
    return int(certified["record_leak"]["exposed_rows"])


def _leak(certified: Mapping[str, Any]) -> str:
    return _up(certified["record_leak"]["max"])
