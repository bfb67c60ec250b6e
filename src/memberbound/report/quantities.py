"""The numbers of a report as a flat list, each with its kind; for exporters.

A report holds ceilings (certificates), floors (audits) and estimates side by side.  Here each one
becomes a :class:`Quantity` that carries what keeps it from being mistaken for another: its kind,
its game, its record, its confidence and its theorems.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SIDES", "Quantity", "Score", "quantities", "scores"]

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
