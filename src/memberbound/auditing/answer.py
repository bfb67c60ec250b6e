"""The answer of ``audit``: what attacks reached, never a guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from memberbound.auditing.exposure import Exposure
from memberbound.auditing.learned import LearnedAttack
from memberbound.auditing.learner_audit import LearnerAudit
from memberbound.auditing.sandwich import Sandwich
from memberbound.auditing.scores import ScoreAudit
from memberbound.games import Game
from memberbound.quantities import (
    INTERVAL,
    ONLY_BLIND,
    Sides,
    common_fields,
    confident,
    decimals,
    interval,
    marked,
    significant,
)

__all__ = ["Audit"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What attacks reached on a learner or in a list of scores, with intervals.

    ``attacks`` has the contract's fields per attack; ``detail`` the full result.
    """

    SIDES: ClassVar[Sides] = {
        **Sandwich.SIDES,
        "attack_seconds": "estimate",
        "attacks": {
            "*": {
                "*": INTERVAL,
                "auc_standard_error_estimate": "estimate",
                "confidence": "lower",
                "no_leak_p_value": "upper",
                "prior": "given",
                "settings": "given",
                "tpr_at_fpr": {"*": INTERVAL},
            }
        },
        "best_advantage": INTERVAL,
        "confidence": "lower",
        "learned": {
            "advantage": {**INTERVAL, "confidence": "lower"},
            "cross_fitted": "estimate",
            "security_upper": "upper",
        },
        "records": {
            "accuracy_estimate": "estimate",
            "blind_accuracy": "upper",
            "confidence": "lower",
            "exposed_above": "lower",
            "exposed_share": "lower",
            "most_exposed": {**INTERVAL, "family_lower": "lower"},
            "worst_record_estimate": "estimate",
        },
        "training_seconds": "estimate",
    }

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
        who = "attack on this model"
        more = (
            "Other attacks may reach more, and nothing is said about other models of its "
            "learner: this is no guarantee."
        )
        if isinstance(self.detail, LearnerAudit):
            # The attack was picked after looking; its own interval does not pay for that.
            lower = self.detail.best_advantage.lower
            who = f"best attack tried ({self.best})"
            more = "Other attacks may reach more: this is no guarantee."
        reached = decimals(found["estimate"], "estimate", 3)
        sure = f"confidence {confident(self.confidence)}"
        least = f"; at {sure} {ONLY_BLIND}"
        if lower > 0:
            least = f", at least {decimals(lower, 'lower', 3)} with {sure}"
        return f"The {who} reached an advantage (TPR - FPR) of {reached}{least}. {more}"

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
                text += f"\n  {_record(item, self.exposure.blind)}"
            text += (
                f"\n  (floors hold for all {self.exposure.estimate.size} records at once, "
                f"confidence {confident(self.exposure.confidence)})"
            )
        if self.learned is not None:
            text += f"\n\n{self.learned.summary()}"
        if self.sandwich is not None:
            gap = self.sandwich.gap
            shown = f"audited ≥ {significant(self.sandwich.floor, 'lower', 4)}"
            text += (
                "\n\ncertified advantage "
                f"{marked(self.sandwich.ceiling.advantage, 'certificate', 'advantage', 4)}, "
                + (
                    ONLY_BLIND
                    if gap is None
                    else f"{shown}, ratio ≈ {significant(gap, 'estimate', 2)}"
                )
            )
        return text + "".join(f"\nnote: {w.rstrip('.')}." for w in self.warnings)


def _cell(found: dict[str, float] | None) -> str:
    if found is None:
        return "–"
    estimate = decimals(found["estimate"], "estimate", 3)
    return f"{estimate} {interval(found['lower'], found['upper'], 3)}"


def _record(item: dict[str, Any], blind: float) -> str:
    """Return what is known about one record; the floor holds for all records at once."""
    floor = marked(item["lower"], "audit", blind=blind)
    said = f"record {item['record']}: right {marked(item['estimate'], 'estimate')} of the time"
    return f"{said}, proved {floor}" if floor.kind == "audit" else f"{said}; {floor}"
