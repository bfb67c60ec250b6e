"""Runs of shadow models without training: real halves, chosen logits."""

from __future__ import annotations

import numpy as np

from memberbound.attacks.shadows import ShadowRun, draw_half
from memberbound.attacks.signals import Signals
from memberbound.learners.examples import Examples


def halves(models: int, rows: int, seed: int) -> np.ndarray:
    """Return the members of the half of each model."""
    return np.array([draw_half(rows, seed, m)[0] for m in range(models)])


def run_of(member: np.ndarray, logit: np.ndarray) -> ShadowRun:
    """Return the run of models with these halves and logits."""
    models, rows = member.shape
    data = Examples(np.zeros((rows, 1)), np.zeros(rows, int), "classification", ("a",), ("0", "1"))
    signals = Signals(logit, logit > 0, "probabilities")
    return ShadowRun(member, signals, tuple(range(models)), (), data)


def shifted_run(
    models: int, rows: int, shift: float, seed: int, leak: np.ndarray | None = None
) -> ShadowRun:
    """Return a run with normal logits, moved by ``shift`` for members of models that ``leak``."""
    member = halves(models, rows, seed)
    moved = shift * member if leak is None else shift * member * leak[:, None]
    return run_of(member, np.random.default_rng(seed).normal(size=member.shape) + moved)
