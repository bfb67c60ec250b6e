"""Scores of a released model, of the same model without noise, and of a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from memberbound.answers import INTERNAL, EstimateOf
from memberbound.learners.holdout import find_shortcoming


@dataclass(frozen=True)
class ReleaseScore:
    """Held-out scores of the model without noise, the released model, and a constant.

    ``spread_estimate`` is the standard error of the released model's score over held-out rows, or
    its standard deviation over draws of noise.
    """

    name: str = field(metadata=INTERNAL)
    clean_estimate: EstimateOf | None
    released_estimate: EstimateOf
    constant_estimate: EstimateOf | None
    spread_estimate: EstimateOf | None = None

    @property
    def finite(self) -> bool:
        """Whether all three are finite or absent."""
        numbers = (self.clean_estimate, self.released_estimate, self.constant_estimate)
        return all(math.isfinite(number) for number in numbers if number is not None)


def usefulness_notes(scores: Sequence[ReleaseScore]) -> list[str]:
    """Return a note if a release is no better than a constant prediction."""
    beside = {s.name: s for s in scores if s.constant_estimate is not None}
    released = {name: s.released_estimate for name, s in beside.items()}
    constant = {name: s.constant_estimate or 0.0 for name, s in beside.items()}
    shortcoming = find_shortcoming(released, constant) if released else None
    if shortcoming is None:
        return []
    return [f"models like this one {shortcoming}: allow a larger eta, or find more rows"]
