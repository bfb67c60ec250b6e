"""The best attacker against a noisy release: Bayes' rule on the outputs of all subsets.

Densities are written out here and do not use the laws' own distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from memberbound.release.randomness import InsecureSource

BLOCK = 2_000_000


@dataclass(frozen=True)
class Interval:
    """A measured mean and an interval for the true one."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Attacked:
    """Accuracy on the average record and on the most exposed one, and on each."""

    average: Interval
    worst: Interval
    records: np.ndarray


def interval(values: np.ndarray, low: float, high: float, error: float) -> Interval:
    """Empirical-Bernstein interval (Maurer and Pontil 2009) for means of values in [low, high]."""
    count = len(values)
    log = math.log(4 / error)
    margin = math.sqrt(2 * float(values.var(ddof=1)) * log / count)
    margin += 7 * (high - low) * log / (3 * (count - 1))
    mean = float(values.mean())
    return Interval(mean, max(low, mean - margin), min(high, mean + margin))


def log_density(law, offsets: np.ndarray) -> np.ndarray:
    """Logarithm of the noise's density up to a constant, along the last axis."""
    if law.scale == 0:
        return np.where((offsets == 0).all(axis=-1), 0.0, -np.inf)
    if isinstance(law, GaussianNoise):
        return -(offsets**2).sum(axis=-1) / (2 * law.scale**2)
    if isinstance(law, NormExponentialNoise):
        return -np.sqrt(((offsets / law.sigmas) ** 2).mean(axis=-1)) / law.scale
    raise TypeError(law)


def beliefs(law, seen: np.ndarray, outputs: np.ndarray, members: np.ndarray) -> np.ndarray:
    """P(record in | release) for every release and record; listed subsets are equally likely."""
    result = []
    step = max(1, BLOCK // outputs.size)
    for first in range(0, len(seen), step):
        logs = log_density(law, seen[first : first + step, None, :] - outputs[None, :, :])
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        result.append(weights @ members / weights.sum(axis=1, keepdims=True))
    return np.concatenate(result)


def _attack(values: np.ndarray, low: float, error: float) -> Attacked:
    """Summarise accuracies, one row per release and one column per record."""
    share = error / (values.shape[1] + 1)
    records = [interval(column, low, 1.0, share) for column in values.T]
    top = max(records, key=lambda one: one.estimate)
    # The largest of all lower ends, and of all upper ends, encloses the largest accuracy.
    worst = Interval(top.estimate, max(r.lower for r in records), max(r.upper for r in records))
    average = interval(values.mean(axis=1), low, 1.0, share)
    return Attacked(average, worst, np.array([r.estimate for r in records]))


def exact_attack(
    law, outputs: np.ndarray, members: np.ndarray, *, draws: int, seed: int, error: float = 1e-6
) -> Attacked:
    """Accuracy of Bayes' attacker when ``outputs`` are those of all subsets, by simulated releases.

    The mean of max(P, 1 - P) is the accuracy itself: no guess is drawn.
    """
    rng = np.random.default_rng(seed)
    secret = rng.integers(len(outputs), size=draws)
    seen = outputs[secret] + law.draw(InsecureSource(seed), draws)
    inside = beliefs(law, seen, outputs, members.astype(float))
    return _attack(np.maximum(inside, 1 - inside), 0.5, error)
