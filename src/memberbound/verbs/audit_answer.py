"""What the verbs that attack models answer: a table of attacks, a sentence, a floor for limits."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.files import written_whole
from memberbound.games import Game
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import down
from memberbound.quantities import (
    INTERVAL,
    ONLY_BLIND,
    Readable,
    Sides,
    common_fields,
    confident,
    decimals,
    interval,
)

__all__ = ["ATTACK_SIDES", "NOT_COMPARABLE", "RATES", "AuditAnswer", "write_columns"]

#: Rates for which a TPR is given where the non-members allow it.
RATES = (0.1, 0.01, 0.001)
#: Why there is no number to hold to a limit, after who is right about whom.
NOT_COMPARABLE = ", on members and non-members that differ already in their columns"
#: On which side the numbers of every audit are.
ATTACK_SIDES: Sides = {
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
    "training_seconds": "estimate",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AuditAnswer(Readable, Limited):
    """What attacks reached, with intervals; never a guarantee.

    ``attacks`` has the contract's fields per attack, ``best`` the one with the highest floor.
    """

    FAILS_ON: ClassVar = ("estimate", "floor")
    COMPARED: ClassVar = "how often the best attack tried is right (one candidate in two is in)"
    #: Words of the sentence: what was attacked, about whom, and what the numbers do not mean.
    ATTACKED: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    CAUTION: ClassVar[str] = "This is no guarantee: other attacks may achieve more."

    game: Game
    attacks: dict[str, dict[str, Any]]
    best: str
    confidence: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    records_out: str | None = None

    @property
    def floor(self) -> float | None:
        """The proved advantage of the best attack, which pays for choosing it; None: no floor."""
        raise NotImplementedError

    @property
    def reached(self) -> tuple[float, float | None]:
        """Advantage of the best attack: the estimate, and the floor."""
        return float(self.attacks[self.best]["advantage"]["estimate"]), self.floor

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        return common_fields(self.VERB, self.game, (), self.assumptions) | {
            "protects": "average record",
            "sentence": self.sentence,
            "attacks": self.attacks,
            "best": self.best,
            "confidence": self.confidence,
            "records_out": self.records_out,
            "warnings": list(self.warnings),
        }

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the best attack's success where half of all are members.

        That is ½ + ½·advantage, whatever the shares of members and others in the sample.
        """
        estimate, lower = self.reached
        best = self.best
        if on == "estimate":
            # Attacks without an interval count here too.
            gaps = {name: float(a["advantage"]["estimate"]) for name, a in self.attacks.items()}
            best = max(gaps, key=gaps.__getitem__)
            estimate = gaps[best]
        what = f"best attack tried ({best}), average record"
        if lower is None:
            # Not called a leak; but nothing speaks for the model either, so the limit stands.
            return (Success(f"{what}{NOT_COMPARABLE}"),)
        half = (1 + estimate) / 2, down((1 + lower) / 2)
        return (Success(what, estimate=half[0], floor=half[1]),)

    @property
    def sentence(self) -> str:
        """What was reached, and what that does not mean."""
        estimate, lower = self.reached
        reached = decimals(estimate, "estimate", 3)
        sure = f"confidence {confident(self.confidence)}"
        least = f"; at {sure} {ONLY_BLIND}"
        if lower is None:
            least = ", which is no floor"
        elif lower > 0:
            least = f", at least {decimals(lower, 'lower', 3)} with {sure}"
        return (
            f"The best attack tried{self.ATTACKED} ({self.best}) reached an advantage (TPR - FPR) "
            f"of {reached}{self.ABOUT}{least}. {self.caution}"
        )

    @property
    def caution(self) -> str:
        """What the numbers do not mean."""
        return self.CAUTION

    def details(self) -> str:
        """Return readable lines below the table of attacks."""
        return ""

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
        text = f"{self.sentence}\n\n" + "\n".join(lines) + self.details()
        return text + "".join(f"\nnote: {w.rstrip('.')}." for w in self.warnings)


def _cell(bound: dict[str, float | None] | None) -> str:
    if bound is None:
        return "–"
    estimate = decimals(bound["estimate"], "estimate", 3)
    if bound["lower"] is None or bound["upper"] is None:
        return estimate
    return f"{estimate} {interval(bound['lower'], bound['upper'], 3)}"


def write_columns(columns: Mapping[str, NDArray[np.generic]], path: Path, *, force: bool) -> None:
    """Write a CSV file with a line per record."""

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            lines.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))

    written_whole(path, write, force)
