"""Claims of a paper beside what was measured; whether they hold is always computed.

Every maker of a :class:`Check` writes the tolerance into the claim, so that a reader knows what
"holds" was asked to mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memberbound.quantities import json_number
from memberbound.reproduction.sweep import Average, Sweep

__all__ = ["Check", "above", "below", "between", "flat", "near", "trend"]


@dataclass(frozen=True)
class Check:
    """One claim: the paper's number (``None`` for words only), ours, and whether it holds."""

    claim: str
    paper: float | None
    measured: float
    standard_error: float
    holds: bool

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "claim": self.claim,
            "paper": self.paper,
            "measured": json_number(self.measured),
            "standard_error": json_number(self.standard_error),
            "holds": self.holds,
        }

    def ours(self) -> str:
        """Return what was measured as a text, with its standard error where there is one."""
        if math.isnan(self.standard_error):
            return f"{self.measured:.4g}"
        return f"{self.measured:.4g} ± {self.standard_error:.2g}"


def near(claim: str, paper: float, average: Average, *, share: float) -> Check:
    """Check that the average is within a share of the paper's number."""
    holds = abs(average.mean - paper) <= share * abs(paper)
    text = f"{claim} (within {share:.0%})"
    return Check(text, paper, average.mean, average.standard_error, bool(holds))


def below(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is below a limit, which stands in the claim."""
    text = f"{claim} (mean below {limit:g})"
    return Check(text, paper, average.mean, average.standard_error, bool(average.mean < limit))


def above(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is above a limit, which stands in the claim."""
    text = f"{claim} (mean above {limit:g})"
    return Check(text, paper, average.mean, average.standard_error, bool(average.mean > limit))


def between(claim: str, paper: float, low: Average, high: Average) -> Check:
    """Check that the paper's number lies between two averages; ours is the lower one."""
    text = f"{claim} (between our two means {low.mean:.3g} and {high.mean:.3g})"
    holds = low.mean <= paper <= high.mean
    return Check(text, paper, low.mean, low.standard_error, bool(holds))


def trend(
    claim: str, sweep: Sweep, quantity: str, *, rising: bool, values: Sequence[float] | None = None
) -> Check:
    """Check that a quantity rises (or falls) along the sweep, or along some of its values.

    Steps are compared trial by trial: a step may go the wrong way by two standard errors, and
    the whole way must go the right way by more than that.  ``measured`` is end over start.
    """
    places = [sweep.place(v) for v in values] if values is not None else range(len(sweep.values))
    sign = 1.0 if rising else -1.0
    rows = [sweep.quantities[quantity][place] for place in places]
    steps = [Average.of(sign * (b - a)) for a, b in pairwise(rows)]
    whole = Average.of(sign * (rows[-1] - rows[0]))
    holds = all(s.mean >= -2 * s.standard_error for s in steps if not math.isnan(s.mean))
    holds = holds and whole.mean > 2 * whole.standard_error
    start, end = Average.of(rows[0]), Average.of(rows[-1])
    measured = end.mean / start.mean if start.mean else math.nan
    text = f"{claim} (every step, to 2 standard errors; measured: end over start)"
    return Check(text, None, measured, math.nan, bool(holds))


def flat(
    claim: str, sweep: Sweep, quantity: str, *, factor: float, values: Sequence[float] | None = None
) -> Check:
    """Check that the means along the sweep differ by at most a factor."""
    chosen = sweep.values if values is None else tuple(values)
    means = [sweep.at(quantity, value).mean for value in chosen]
    measured = max(means) / min(means) if min(means) > 0 else math.nan
    text = f"{claim} (largest mean at most {factor:g} × the smallest)"
    return Check(text, None, measured, math.nan, bool(measured <= factor))
