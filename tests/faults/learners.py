"""Slow learners, and learners that kill their process in the k-th fit of the workers.

``DYING`` names a file with one byte per fit, ``DYING_AT`` is k, and ``DYING_PARENT`` started
the process that starts the workers, which does not die.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from sklearn.tree import DecisionTreeClassifier


class SlowTree(DecisionTreeClassifier):
    """A decision tree that waits a moment before it grows, so that a fault can be injected."""

    def fit(self, X, y):
        """Wait, then fit."""
        time.sleep(0.15)
        return super().fit(X, y)


def _fitting() -> None:
    if os.getppid() == int(os.environ["DYING_PARENT"]):
        return
    with Path(os.environ["DYING"]).open("ab", buffering=0) as fits:
        fits.write(b".")
        number = fits.tell()  # the end of this process's output, also if another one writes next
    if number == int(os.environ["DYING_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


def _count(fit: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(fit)
    def fitting(*given: object, **named: object) -> object:
        _fitting()
        return fit(*given, **named)

    return fitting


def everywhere() -> None:
    """Let trees, and the fits of a calibration, die; called where a process begins."""
    from memberbound.release.half import fitting

    DecisionTreeClassifier.fit = _count(DecisionTreeClassifier.fit)
    fitting.evaluate = _count(fitting.evaluate)
