"""The preprint of February 2024, result by result: λ = 1, total variation, finite learners.

Results that A25 restates are the same functions under the same names; ``accuracy_range`` is only in
the preprint.
"""

from __future__ import annotations

from fractions import Fraction

from memberbound.errors import fraction
from memberbound.iid.worst_case import Between
from memberbound.numerics.rounding import double_above, double_below
from memberbound.papers.discrete import (
    disagreement,
    diversity,
    histogram_ratio,
    leak_from_diversity,
    leak_lower_from_diversity,
    leak_of_law,
    leak_of_learner,
    leak_of_maximum,
    leak_of_uniform,
    partial_deviation,
    shares_of_atoms,
)
from memberbound.papers.means import (
    gaussian_distance,
    leak_of_means,
    required_sample_size,
    security_of_mean,
)
from memberbound.papers.overfitting import leak_from_overfitting, share_above, sphere_ceiling
from memberbound.papers.security import (
    accuracy_of_attack,
    best_accuracy,
    best_accuracy_of_pair,
    leak_of_pair,
    leak_over_records,
    security_of_pair,
)

__all__ = [
    "accuracy_of_attack",
    "accuracy_range",
    "best_accuracy",
    "best_accuracy_of_pair",
    "disagreement",
    "diversity",
    "gaussian_distance",
    "histogram_ratio",
    "leak_from_diversity",
    "leak_from_overfitting",
    "leak_lower_from_diversity",
    "leak_of_law",
    "leak_of_learner",
    "leak_of_maximum",
    "leak_of_means",
    "leak_of_pair",
    "leak_of_uniform",
    "leak_over_records",
    "partial_deviation",
    "required_sample_size",
    "security_of_mean",
    "security_of_pair",
    "share_above",
    "shares_of_atoms",
    "sphere_ceiling",
]


def accuracy_range(leak: float, nu: float = 0.5) -> Between:
    """A24-T3.2: return the range ν_* - ν_*Δ … 1 - ν_* + ν_*Δ of the accuracy of any attack.

    ν_* is the smaller of ν and 1-ν, Δ the leak at γ = 1.

    Guarantee: every attack's accuracy is in the range (λ = 1).
    Theorem: A24-T3.2.
    Assumes: ``leak`` is not below the total variation between the two worlds.
    Numerics: outward.

    Examples:
        >>> accuracy_range(0.1, nu=0.25)
        Between(lower=0.22499999999999998, upper=0.775)
    """
    share = Fraction(fraction("nu", nu, open_left=True, open_right=True))
    rare, delta = min(share, 1 - share), Fraction(fraction("leak", leak))
    return Between(double_below(rare - rare * delta), double_above(1 - rare + rare * delta))
