"""A learner whose process is killed in the k-th fit that workers do.

``DYING`` names a folder in which fits are counted, ``DYING_AT`` is k.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier


def _fitting() -> None:
    if os.environ["DYING_MAIN"] == str(os.getpid()):
        return
    number = 1
    while True:
        try:
            (Path(os.environ["DYING"]) / str(number)).touch(exist_ok=False)
            break
        except FileExistsError:
            number += 1
    if number == int(os.environ["DYING_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


class DyingTree(DecisionTreeClassifier):
    """A decision tree."""

    def fit(self, X, y):
        """Count, and fit or die."""
        _fitting()
        return super().fit(X, y)


class DyingLine(LogisticRegression):
    """A logistic regression."""

    def fit(self, X, y):
        """Count, and fit or die."""
        _fitting()
        return super().fit(X, y)


def tree() -> DyingTree:
    """Return a tree; called in the process that starts the workers."""
    os.environ["DYING_MAIN"] = str(os.getpid())
    return DyingTree(max_depth=3)


def line() -> DyingLine:
    """Return a regression; called in the process that starts the workers."""
    os.environ["DYING_MAIN"] = str(os.getpid())
    return DyingLine()
