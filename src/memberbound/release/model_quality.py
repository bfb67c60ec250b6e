"""Scores of a released model: with noise, without noise, and of a constant prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from memberbound.answers import INTERNAL, EstimateOf


@dataclass(frozen=True)
class ReleaseScore:
    """Held-out scores of the model without noise, the released model, and a constant."""

    name: str = field(metadata=INTERNAL)
    clean_estimate: EstimateOf | None
    released_estimate: EstimateOf
    constant_estimate: EstimateOf | None

    @property
    def finite(self) -> bool:
        """Whether all three are finite or absent."""
        numbers = (self.clean_estimate, self.released_estimate, self.constant_estimate)
        return all(math.isfinite(number) for number in numbers if number is not None)


def usefulness_notes(scores: Sequence[ReleaseScore]) -> list[str]:
    """Return a note if a release scores no better than a constant prediction."""
    constant = scores[0].constant_estimate if scores else None
    if constant is None or scores[0].released_estimate > constant:
        return []
    return [
        f"always giving the same answer has as good an {scores[0].name}: look at the other scores, "
        "allow a larger eta, or find more rows"
    ]
