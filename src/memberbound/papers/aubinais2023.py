"""The preprint of October 2023, result by result.

A24 restates all of it under other numbers, so the functions are the same, except for the withdrawn
corollary.
"""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from memberbound.errors import positive, whole_number
from memberbound.papers.aubinais2024 import (
    accuracy_of_attack,
    accuracy_range,
    best_accuracy,
    best_accuracy_of_pair,
    disagreement,
    diversity,
    gaussian_distance,
    histogram_ratio,
    leak_from_diversity,
    leak_lower_from_diversity,
    leak_of_law,
    leak_of_learner,
    leak_of_maximum,
    leak_of_means,
    leak_of_pair,
    leak_over_records,
    partial_deviation,
    security_of_mean,
    security_of_pair,
    shares_of_atoms,
)
from memberbound.papers.vectors import Numbers, each

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
    "leak_lower_from_diversity",
    "leak_of_law",
    "leak_of_learner",
    "leak_of_maximum",
    "leak_of_means",
    "leak_of_pair",
    "leak_over_records",
    "partial_deviation",
    "security_of_mean",
    "security_of_pair",
    "shares_of_atoms",
    "withdrawn_sample_size",
]


def withdrawn_sample_size(d: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """A23-C4.1.1: return √d/ε, the sufficient size claimed by a withdrawn corollary.  It does not.

    ``aubinais2025.required_sample_size`` is the size that holds; compare both.

    Examples:
        >>> from memberbound.papers.aubinais2025 import leak_of_gaussian_mean
        >>> n = round(withdrawn_sample_size(1, 1 / 50))
        >>> n, leak_of_gaussian_mean(n, 1) > 1 / 50
        (50, True)
    """

    def size(dimension: int, target: float) -> float:
        return math.sqrt(whole_number("d", dimension)) / positive("epsilon", target)

    return each(size, d, epsilon)
