"""The answer of ``audit``: what attacks reached, never a guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from memberbound.auditing.exposure import Exposure
from memberbound.auditing.learned import LearnedAttack
from memberbound.auditing.learner_audit import LearnerAudit
from memberbound.auditing.sandwich import Sandwich
from memberbound.auditing.scores import ScoreAudit
from memberbound.games import Game
from memberbound.quantities import common_fields

__all__ = ["Audit"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What attacks reached on a learner or in a list of scores, with intervals.

    ``attacks`` has the contract's fields per attack; ``detail`` the full result.
    """

    game: Game
    attacks: dict[str, dict[str, Any]]
    best: str
    confidence: float
    assumptions: tuple[str, ...]
    detail: LearnerAudit | ScoreAudit
    exposure: Exposure | None = None
    sandwich: Sandwich | None = None
    learned: LearnedAttack | None = None
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    roles: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields("audit", self.game, (), self.assumptions)
        result |= {"protects": "average record"}
        result |= self.detail.to_dict() if isinstance(self.detail, LearnerAudit) else {}
        result |= {
            "attacks": self.attacks,
            "best": self.best,
            "confidence": self.confidence,
            "records": None if self.exposure is None else self.exposure.to_dict(),
            "learned": None if self.learned is None else self.learned.to_dict(),
            "records_out": self.records_out,
            "warnings": list(self.warnings),
            "roles": dict(self.roles),
        }
        return result | ({} if self.sandwich is None else self.sandwich.to_dict())

    @property
    def sentence(self) -> str:
        """What was reached, and what that does not mean."""
        found = self.attacks[self.best]["advantage"]
        lower = found["lower"]
        if isinstance(self.detail, LearnerAudit):
            # The attack was picked after looking; its own interval does not pay for that.
            lower = self.detail.best_advantage.lower
        return (
            f"The best attack tried ({self.best}) reached an advantage (TPR - FPR) of "
            f"{found['estimate']:.3f}, at least {_outward(lower, ROUND_FLOOR)} with confidence "
            f"{self.confidence:g}. Other attacks may reach more: this is no guarantee."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rates = sorted({r for a in self.attacks.values() for r in a["tpr_at_fpr"]}, reverse=True)
        head = ["attack", "AUC", "advantage", "accuracy", *(f"TPR at FPR {r}" for r in rates)]
        body = [
            [
                name,
                *(_cell(a[q]) for q in ("auc", "advantage", "accuracy")),
                *(_cell(a["tpr_at_fpr"].get(r)) for r in rates),
            ]
            for name, a in self.attacks.items()
        ]
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        lines = [
            "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in [head, *body]
        ]
        text = f"{self.sentence}\n\n" + "\n".join(lines)
        if self.exposure is not None:
            e = self.exposure.to_dict(5)
            text += (
                f"\n\nrecords provably guessed better than blindly: {e['exposed_records']} "
                f"({self.exposure.targets} target models)"
            )
            for item in e["most_exposed"]:  # type: ignore[attr-defined]
                text += (
                    f"\n  record {item['record']}: right {item['estimate']:.0%} of the time "
                    f"[{item['lower']:.0%}, {item['upper']:.0%}]"
                    + (", proved" if item["proved"] else "")
                )
        if self.learned is not None:
            text += f"\n\n{self.learned.summary()}"
        if self.sandwich is not None:
            gap = self.sandwich.gap
            text += (
                f"\n\ncertified advantage ≤ {self.sandwich.ceiling.advantage:.4g}, audited ≥ "
                f"{self.sandwich.floor:.4g}" + ("" if gap is None else f", ratio {gap:.1f}")
            )
        return text + "".join(f"\nnote: {w.rstrip('.')}." for w in self.warnings)


def _cell(interval: dict[str, float] | None) -> str:
    if interval is None:
        return "–"
    low = _outward(interval["lower"], ROUND_FLOOR)
    high = _outward(interval["upper"], ROUND_CEILING)
    return f"{interval['estimate']:.3f} [{low}, {high}]"


def _outward(value: float, rounding: str) -> str:
    """Three decimals: a floor that is printed must still be one, and a ceiling too."""
    return str(Decimal(value).quantize(Decimal("0.001"), rounding=rounding))
