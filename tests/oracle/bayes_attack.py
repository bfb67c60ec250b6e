"""The best attacker against a noisy release: who was in, given everything but the secret.

Exact when the outputs of *all* subsets are listed (Bayes' rule); with outputs of some subsets only
("shadows") it is the likelihood-ratio attack, whose success on fresh subsets is a lower bound.
Densities are written out here and do not use the laws' own distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memberbound.numerics.means import betting_lower, betting_upper
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


def _attacked(values: np.ndarray, low: float, error: float) -> Attacked:
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
    return _attacked(np.maximum(inside, 1 - inside), 0.5, error)


def shadow_attack(
    law,
    shadows: tuple[np.ndarray, np.ndarray],
    targets: tuple[np.ndarray, np.ndarray],
    *,
    releases: int,
    seed: int,
    error: float = 1e-6,
) -> Attacked:
    """Accuracy of the likelihood-ratio attack with shadow models, on other subsets' releases.

    In and out are compared by the mean density over shadows with and without the record.  The most
    exposed record is picked on one half of the targets and measured on the other.
    """
    rng = np.random.default_rng(seed)
    outputs, members = targets
    values = np.zeros(members.shape)
    share = shadows[1].mean(axis=0)
    for turn in range(releases):
        seen = outputs + law.draw(InsecureSource(int(rng.integers(2**31)) + turn), len(outputs))
        inside = beliefs(law, seen, shadows[0], shadows[1].astype(float))
        guess = inside / share > (1 - inside) / (1 - share)
        values += (guess == members) / releases
    return _picked(values, error)


def linear_attack(
    law, shadows: tuple[np.ndarray, np.ndarray], targets: tuple[np.ndarray, np.ndarray],
    *, error: float = 1e-6,
) -> Attacked:  # fmt: skip
    """Accuracy of the linear likelihood-ratio attack on Gaussian noise, averaged over the noise."""
    outputs, members = shadows[0], shadows[1].astype(float)
    count_in = members.sum(axis=0)[:, None]
    mean_in = members.T @ outputs / count_in
    mean_out = (1 - members).T @ outputs / (len(outputs) - count_in)
    spread = np.cov(outputs.T).reshape(outputs.shape[1], -1)
    noise = law.scale**2 * np.eye(outputs.shape[1])
    direction = np.linalg.solve(spread + noise, (mean_in - mean_out).T).T
    middle = ((mean_in + mean_out) / 2 * direction).sum(axis=1)
    width = np.sqrt(np.einsum("ri,ij,rj->r", direction, noise, direction))
    score = (targets[0] @ direction.T - middle) / width
    says_in = np.vectorize(math.erfc)(-score / math.sqrt(2)) / 2
    return _picked(np.where(targets[1], says_in, 1 - says_in), error)


def _picked(values: np.ndarray, error: float) -> Attacked:
    half = len(values) // 2
    place = int(values[:half].mean(axis=0).argmax())
    average = _bets(values.mean(axis=1), error / 2)
    worst = _bets(values[half:, place], error / 2)
    return Attacked(average, worst, values.mean(axis=0))


def _bets(values: np.ndarray, error: float) -> Interval:
    """Betting interval: much narrower than Bernstein's for hundreds of targets."""
    level = math.log(2 / error)
    column = np.clip(values, 0.0, 1.0)[:, None]
    lower, upper = betting_lower(column, level)[0], betting_upper(column, level)[0]
    return Interval(float(values.mean()), float(lower), float(upper))
