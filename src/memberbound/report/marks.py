"""The numbers of a report with their kinds: as marks for a reader, as a flat list for exporters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memberbound.quantities import Mark, allowed, decimals, marked, percent, points, significant

__all__ = [
    "SIDES",
    "Quantity",
    "Score",
    "allowed_over",
    "blind_guess",
    "blind_in",
    "ceiling_of",
    "estimate_of",
    "floor_of",
    "promise",
    "quantities",
    "score",
    "scores",
]

# ── Marks of the report's own rows: a score, the ends of a sandwich, and what a study allows ──────

#: A floor that nobody needs an attack for.


def score(value: float) -> Mark:
    """Return a model's score, an estimate."""
    small = abs(value) < 10
    shown = decimals(value, "estimate", 3) if small else significant(value, "estimate", 4)
    return Mark("estimate", f"≈ {shown}")


def ceiling_of(row: dict[str, Any]) -> Mark:
    """Return the ceiling of a row of the sandwich."""
    return marked(None if row["ceiling"] is None else row["ceiling"]["upper"], "certificate")


def estimate_of(row: dict[str, Any]) -> Mark | None:
    """Return the estimate of a row of the sandwich, if there is one."""
    return None if row["estimate"] is None else marked(row["estimate"]["estimate"], "estimate")


def floor_of(row: dict[str, Any]) -> Mark | None:
    """Return the floor of a row of the sandwich, if it was attacked."""
    if row["floor"] is None:
        return None
    return marked(row["floor"]["lower"], "audit", blind=row["blind"])


def blind_guess(value: float) -> Mark:
    """Return how often a blind guess is right: known exactly, and rounded as bounds beside it."""
    return Mark("given", percent(value, "upper"))


def blind_in(report: dict[str, Any], game: str) -> float:
    """Return how often a blind guess is right in a game of the report."""
    return max((float(r["blind"]) for r in report["sandwich"] if r["game"] == game), default=0.5)


def allowed_over(blind: float, eta: float) -> Mark:
    """Return what a study allows somebody who could as well guess blindly."""
    return Mark("given", allowed(blind, eta))


def promise(blind: float, eta: float) -> str:
    """Return where the allowed share comes from.

    >>> promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"


# ── The numbers of a report as a flat list, each with its kind; for exporters ─────────────────────
#
# A report holds ceilings (certificates), floors (audits) and estimates side by side.  Here each one
# becomes a :class:`Quantity` that carries what keeps it from being mistaken for another: its kind,
# its game, its record, its confidence and its theorems.

Report = Mapping[str, Any]
#: Part of a sandwich → kind of the number, key under which it stands, what people call it.
SIDES = {
    "ceiling": ("certificate", "upper", "certified ceiling"),
    "estimate": ("estimate", "estimate", "estimate"),
    "floor": ("audit", "lower", "measured floor"),
}
#: What a remedy without a change of the model is called among the scores.
_AS_IT_IS = ("model", "The model as it is")


@dataclass(frozen=True)
class Quantity:
    """How often somebody is right about a membership: a ceiling, an estimate or a floor."""

    kind: str
    #: ``upper``, ``estimate`` or ``lower``: which way the number may be read.
    side: str
    called: str
    subject: str
    label: str
    record: str
    game: str
    value: float
    blind: float
    confidence: float | None = None
    theorems: tuple[str, ...] = ()
    attack: str | None = None
    what: str | None = None


@dataclass(frozen=True)
class Score:
    """An estimate of how well a model predicts records that it was not trained on."""

    subject: str
    label: str
    #: ``accuracy`` or ``R²``.
    name: str
    estimate: float


def quantities(report: Report) -> list[Quantity]:
    """Return the numbers of the sandwich that exist and are finite, in its order."""
    found = []
    for row in report["sandwich"]:
        for part, (kind, side, called) in SIDES.items():
            number = row[part]
            if number is None or not _finite(number[side]):
                continue
            found.append(
                Quantity(
                    kind,
                    side,
                    called,
                    row["subject"],
                    row["label"],
                    row["record"],
                    row["game"],
                    number[side],
                    row["blind"],
                    number.get("confidence"),
                    tuple(number.get("theorems", ())),
                    number.get("attack"),
                    number.get("what"),
                )
            )
    return found


def scores(report: Report) -> list[Score]:
    """Return the score of the model as it is, then that of every remedy that changes it."""
    found = []
    priced = [r for r in report["remedies"] if _finite(r["score_before_estimate"])]
    if priced:
        first = priced[0]
        found.append(Score(*_AS_IT_IS, first["score_name"], first["score_before_estimate"]))
    found += [
        Score(r["id"], r["label"], r["score_name"], r["score_after_estimate"])
        for r in priced
        if r["id"] != "nothing" and _finite(r["score_after_estimate"])
    ]
    return found


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
