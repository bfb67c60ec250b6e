"""A learner that takes its time, so that something can happen while it trains."""

from __future__ import annotations

import time

from sklearn.tree import DecisionTreeClassifier


class SlowTree(DecisionTreeClassifier):
    """A decision tree that waits a moment before it grows."""

    def fit(self, X, y):
        """Wait, then fit."""
        time.sleep(0.15)
        return super().fit(X, y)


def slow() -> SlowTree:
    """Return one; what ``--learner faults.slow_learner:slow`` names."""
    return SlowTree(max_depth=3)
