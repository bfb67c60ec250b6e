"""Figures 1 and 2 of A25: losses of learners that overfit.

A25-F1 and F2: a learner that brings nearly all training losses below an ε that nearly no fresh loss
reaches has almost no security (A25-T11).  F1 follows a wide two-layer ReLU network through
training; F2 looks at interpolating linear regression and the nearest neighbour in growing
dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.declarations import Progress
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.overfitting import overfitting_ceiling, stopping_loss
from memberbound.papers.reproduction import (
    Average,
    Findings,
    Measured,
    Picture,
    Sweep,
    above,
    below,
    near,
    run_sweep,
)
from memberbound.report.drawing import BLUE, GREY, ORANGE
from memberbound.threads import one_thread
from memberbound.verbs.reproduce import ClaimCheck

Single = NDArray[np.float32]
Whole = NDArray[np.int64]


# ── A25-F1: the network ───────────────────────────────────────────────────────────────────────────

#: Thresholds of the figures; the text mentions only the smallest.
THRESHOLDS = (1e-2, 1e-4, 1e-6)
SMALLEST = THRESHOLDS[-1]
#: The 0.01 of N(0, 0.01) is read as a variance.
NOISE = 0.1
DIMENSIONS = (10, 20, 50, 100, 200, 500, 1000, 1200, 1500, 2000)


class Network:
    """f(x) = Σ_j v_j·max(0, w_jᵀ(x, 1)) + c, in single precision, trained with Adam.

    ``inner`` is (d + 1, width), its last row the biases; ``outer`` is (width + 1,), its last entry
    the bias.  Both start at U(±1/√inputs), and the steps are those of PyTorch, so that no extra is
    needed.  Blocks of rows keep the activations in the cache.
    """

    def __init__(self, rng: np.random.Generator, dimension: int, width: int, rate: float) -> None:
        a, b = 1 / math.sqrt(dimension), 1 / math.sqrt(width)
        self.inner = rng.uniform(-a, a, (dimension + 1, width)).astype(np.float32)
        self.outer = rng.uniform(-b, b, width + 1).astype(np.float32)
        self.rate, self.steps, self.block = rate, 0, 125
        self._moments = [np.zeros((2, *w.shape), np.float32) for w in (self.inner, self.outer)]

    def outputs(self, x: Single) -> Single:
        """Return f at the rows of x, which end in a 1."""
        parts = [hidden @ self.outer[:-1] for _, hidden in self._hidden(x)]
        return np.asarray(np.concatenate(parts) + self.outer[-1])

    def gradients(self, x: Single, y: Single) -> tuple[Single, Single]:
        """Return the gradients of the mean squared error."""
        inner, outer = np.zeros_like(self.inner), np.zeros_like(self.outer)
        for rows, hidden in self._hidden(x):
            error = hidden @ self.outer[:-1] + self.outer[-1] - y[rows]
            error *= np.float32(2 / len(y))
            outer[:-1] += error @ hidden
            outer[-1] += error.sum()
            # The slope of the j-th unit is v_j where it is active.
            active = (hidden > 0).astype(np.float32)
            inner += (x[rows] * error[:, None]).T @ active
        inner *= self.outer[:-1]
        return inner, outer

    def step(self, x: Single, y: Single) -> None:
        """Move every weight once, by Adam (Kingma and Ba) with the usual constants."""
        self.steps += 1
        scale = np.float32(self.rate / (1 - 0.9**self.steps))
        root = np.float32(math.sqrt(1 - 0.999**self.steps))
        weights = (self.inner, self.outer)
        for w, g, moments in zip(weights, self.gradients(x, y), self._moments, strict=True):
            first, second = moments
            first += np.float32(0.1) * (g - first)
            second += np.float32(0.001) * (g * g - second)
            np.subtract(w, scale * first / (np.sqrt(second) / root + np.float32(1e-8)), out=w)

    def _hidden(self, x: Single) -> Iterator[tuple[slice, Single]]:
        room = np.empty((min(self.block, len(x)), self.inner.shape[1]), np.float32)
        for start in range(0, len(x), self.block):
            rows = slice(start, min(start + self.block, len(x)))
            hidden = np.matmul(x[rows], self.inner, out=room[: rows.stop - start])
            yield rows, np.maximum(hidden, 0, out=hidden)


def with_one(x: FloatArray) -> Single:
    """Return rows that end in a 1, in single precision."""
    return np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float32)


def sine(first: FloatArray) -> FloatArray:
    """Return the truth that the network and the nearest neighbour learn."""
    return np.sin(np.pi * first)


def draw_records(
    rng: np.random.Generator,
    count: int,
    dimension: int = 10,
    truth: Callable[[FloatArray], FloatArray] = sine,
) -> tuple[FloatArray, FloatArray]:
    """Return x uniform on the unit sphere and y = Ψ(x₁) + N(0, 0.1²)."""
    x = rng.standard_normal((count, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, truth(x[:, 0]) + NOISE * rng.standard_normal(count)


@dataclass(frozen=True)
class NetworkSetting:
    """The setting of figure 1; tests use a smaller one."""

    records: int = 1000
    fresh: int = 10_000
    width: int = 4096
    iterations: int = 2500
    every: int = 25
    rate: float = 0.1
    dimension: int = 10

    @property
    def looks(self) -> tuple[float, ...]:
        """Iterations at which losses are recorded, including the start and the end."""
        return (*map(float, range(0, self.iterations, self.every)), float(self.iterations))

    def losses(self, rng: np.random.Generator) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Train, and yield training and fresh losses at every recorded iteration."""
        (x, y), (x0, y0) = (
            draw_records(rng, count, self.dimension) for count in (self.records, self.fresh)
        )
        network = Network(rng, x.shape[1], self.width, self.rate)
        x1, x01, y1 = with_one(x), with_one(x0), y.astype(np.float32)
        for look in self.looks:
            # The products are small: more threads than one cost more than they save.
            with one_thread:
                while network.steps < look:
                    network.step(x1, y1)
                losses = (network.outputs(x1) - y) ** 2, (network.outputs(x01) - y0) ** 2
            yield losses


def small_losses(train: FloatArray, fresh: FloatArray) -> dict[str, float]:
    """Return the shares of losses at most ε at every threshold, and the ceiling of A25-T11."""
    shares: dict[str, float] = {}
    for epsilon in THRESHOLDS:
        shares[f"train_{epsilon:g}"] = float(np.mean(train <= epsilon))
        shares[f"fresh_{epsilon:g}"] = float(np.mean(fresh <= epsilon))
    shares["train_loss"], shares["fresh_loss"] = float(train.mean()), float(fresh.mean())
    above_it = float(np.mean(train > SMALLEST))
    shares["ceiling_estimate"] = float(overfitting_ceiling(above_it, shares[f"fresh_{SMALLEST:g}"]))
    return shares


def _first(sweep: Sweep, reached: NDArray[np.bool_]) -> FloatArray:
    """Return the first recorded iteration of every trial with a true value; nan without one."""
    values = np.array(sweep.values)
    return np.asarray(np.where(reached.any(axis=0), values[reached.argmax(axis=0)], np.nan))


def training_checks(sweep: Sweep) -> tuple[ClaimCheck, ...]:
    """Return the claims of the text about figure 1."""
    end = sweep.values[-1]
    share, loss = sweep.quantities[f"train_{SMALLEST:g}"], sweep.quantities["train_loss"]
    most = share >= 0.99
    # The first iteration from which it holds to the end; the end itself if it never holds.
    stays = np.flip(np.logical_and.accumulate(np.flip(most, 0)), 0)
    settled = np.asarray(np.where(most[-1], _first(sweep, stays), end))
    # A25-P10 with α = 1 %: stop at the first mean loss of at most ε·α.
    stopped = loss <= stopping_loss(SMALLEST, 0.01)
    ceilings = sweep.quantities["ceiling_estimate"][
        stopped.argmax(axis=0), np.arange(loss.shape[1])
    ]
    ever_most = Average.of(np.asarray(most.any(axis=0), dtype=np.float64))
    every = "ε = 1e-6: all training records are below it"
    fresh = "ε = 1e-6: the share of fresh records below it stabilises near 0; at the end"
    late = (
        "the attack with ε = 1e-6 is nearly perfect only after at least 2000 iterations; first "
        "look at which 99 % of training records are below it"
    )
    stay = "the same; look from which on 99 % stay below it (the last one if none)"
    rule = (
        "stopped as soon as the mean loss is at most 1e-8 (A25-P10 with α = 1 %), A25-T11 caps "
        "the security; the ceiling at ε = 1e-6"
    )
    return (
        above(f"{every} at some look; share of runs in which 99 % are", 1.0, ever_most, limit=0.99),
        above(
            f"{every} after the last iteration; their share",
            1.0,
            sweep.at(f"train_{SMALLEST:g}", end),
            limit=0.99,
        ),
        below(fresh, 0.0, sweep.at(f"fresh_{SMALLEST:g}", end), limit=0.01),
        above(late, 2000.0, Average.of(_first(sweep, most)), limit=2000.0),
        near(stay, 2000.0, Average.of(settled), share=0.25),
        below(rule, None, Average.of(np.where(stopped.any(axis=0), ceilings, 1.0)), limit=0.02),
    )


def figure_1(
    trials: int,
    seed: int,
    progress: Progress | None = None,
    *,
    n: int = 1000,
    d: int = 10,
    width: int = 4096,
    iterations: int = 2500,
    every: int = 25,
    fresh: int = 10_000,
    rate: float = 0.1,
) -> Findings:
    """Run A25-F1, in the paper's setting or another."""
    setting = NetworkSetting(n, fresh, width, iterations, every, rate, d)

    def measure(trial: int) -> Measured:
        rng = np.random.default_rng([seed, 25, 1, trial])
        return [small_losses(*losses) for losses in setting.losses(rng)]

    sweep = run_sweep("iteration", setting.looks, trials, measure, progress)
    title = (
        "A25-F1: two-layer ReLU network during training, n = "
        f"{setting.records}, d = {d}, width {setting.width}"
    )
    panels = {"train": "training records", "fresh": "fresh records"}
    picture = small_losses_picture(title, "iteration of Adam", panels)
    return Findings.of_sweep(sweep, training_checks(sweep), picture)


def small_losses_picture(
    title: str, xlabel: str, panels: Mapping[str, str], log: str = ""
) -> Picture:
    """Return the picture of shares of small losses, with a panel per prefix of quantities."""
    looks = tuple(zip(THRESHOLDS, (GREY, ORANGE, BLUE), strict=True))
    curves = {
        heading: [(f"{name}_{e:g}", f"ε = {e:g}", colour, "") for e, colour in looks]
        for name, heading in panels.items()
    }
    return Picture(title, xlabel, "share of records with loss at most ε", curves, log=log)


# ── A25-F2: dimension ─────────────────────────────────────────────────────────────────────────────

Losses = tuple[FloatArray, FloatArray]


def linear_losses(rng: np.random.Generator, dimension: int, records: int, fresh: int) -> Losses:
    """Return training and fresh losses of least squares of minimal norm, y = x₁ + noise."""
    (x, y), (x0, y0) = (draw_records(rng, n, dimension, np.copy) for n in (records, fresh))
    if dimension > records:
        # Minimal norm, by the smaller of the two Gram matrices.
        beta = x.T @ np.linalg.solve(x @ x.T, y)
        beta += x.T @ np.linalg.solve(x @ x.T, y - x @ beta)
    else:
        beta = np.linalg.lstsq(x, y, rcond=None)[0]
    return (x @ beta - y) ** 2, (x0 @ beta - y0) ** 2


def neighbour_losses(rng: np.random.Generator, dimension: int, records: int, fresh: int) -> Losses:
    """Return training and fresh losses of the nearest neighbour, on the data of figure 1."""
    (x, y), (x0, y0) = (draw_records(rng, n, dimension) for n in (records, fresh))
    # On the sphere the nearest record is the one with the largest inner product.
    nearest, own = (x0 @ x.T).argmax(axis=1), (x @ x.T).argmax(axis=1)
    return (y[own] - y) ** 2, (y[nearest] - y0) ** 2


def figure_2(
    trials: int,
    seed: int,
    progress: Progress | None = None,
    *,
    n: int = 1000,
    fresh: int = 10_000,
) -> Findings:
    """Run A25-F2."""
    records, dimensions = n, DIMENSIONS

    def measure_at(trial: int, d: int) -> dict[str, float]:
        rng = np.random.default_rng([seed, 25, 2, trial, d])
        row: dict[str, float] = {}
        for name, losses in (("linear", linear_losses), ("nearest", neighbour_losses)):
            shares = small_losses(*losses(rng, d, records, fresh))
            row |= {f"{name}_{key}": value for key, value in shares.items()}
        return row

    def measure(trial: int) -> Measured:
        return [measure_at(trial, d) for d in dimensions]

    sweep = run_sweep("dimension", tuple(map(float, dimensions)), trials, measure, progress)
    smallest = f"{SMALLEST:g}"

    def largest(name: str) -> Average:
        return max(sweep.averages(f"{name}_fresh_{smallest}"), key=lambda a: a.mean)

    def least(name: str, above: float) -> Average:
        shares = (sweep.at(f"{name}_train_{smallest}", d) for d in sweep.values if d > above)
        return min(shares, key=lambda a: a.mean)

    near_0 = (
        "the share of fresh records with loss at most 1e-6 is near 0 at every dimension; "
        "the largest"
    )
    share = "share at most 1e-6, the smallest"
    linear = f"d > n: the linear fit reaches training loss 0; {share}"
    nearest = f"the nearest neighbour has training loss 0; {share}"
    checks = (
        below(f"linear: {near_0}", 0.0, largest("linear"), limit=0.02),
        below(f"nearest: {near_0}", 0.0, largest("nearest"), limit=0.02),
        above(linear, 1.0, least("linear", records), limit=0.999),
        above(nearest, 1.0, least("nearest", 0), limit=0.999),
    )
    title = f"A25-F2: share of fresh records with a loss of at most ε, n = {records}"
    panels = {"linear_fresh": "linear regression", "nearest_fresh": "nearest neighbour"}
    picture = small_losses_picture(title, "dimension d", panels, log="x")
    return Findings.of_sweep(sweep, checks, picture)
