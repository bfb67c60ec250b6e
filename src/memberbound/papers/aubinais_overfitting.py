"""A25-F1 and F2: how many training and fresh records have a loss below ε.

A learner that brings nearly all training losses below an ε that nearly no fresh loss reaches has
almost no security (A25-T11).  F1 follows a wide two-layer ReLU network through training; F2 looks
at interpolating linear regression and the nearest neighbour in growing dimension.

The network and Adam are written in numpy, with the arithmetic and the start that PyTorch would use,
so that no extra is needed; ``tests/papers/test_aubinais_overfitting.py`` holds steps against
PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.overfitting import ceiling_from_overfitting, stopping_loss
from memberbound.games import IidGame
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.reproduction import (
    Average,
    Check,
    Findings,
    Progress,
    Sweep,
    above,
    below,
    draw_mean,
    near,
    swept,
)
from memberbound.report.drawing import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAME = IidGame()
#: Thresholds of the figures; the text speaks of the smallest one only.
THRESHOLDS = (1e-2, 1e-4, 1e-6)
SMALLEST = THRESHOLDS[-1]
#: N(0, 0.01) is read as a variance.
NOISE = 0.1
DIMENSIONS = (10, 20, 50, 100, 200, 500, 1000, 1200, 1500, 2000)


# ---- the network -------------------------------------------------------------------------------


Single = NDArray[np.float32]


@dataclass(eq=False)
class Network:
    """f(x) = Σ_j v_j·max(0, w_jᵀ(x, 1)) + c, in single precision, trained with Adam.

    ``inner`` is (d + 1, width), its last row the biases; ``outer`` is (width + 1,), its last entry
    the bias.  Rows are worked off in blocks whose activations stay in the cache.
    """

    inner: Single
    outer: Single
    block: int = 125

    @classmethod
    def start(cls, rng: np.random.Generator, dimension: int, width: int) -> Network:
        """Draw weights and biases from U(±1/√inputs), PyTorch's default."""
        a, b = 1 / math.sqrt(dimension), 1 / math.sqrt(width)
        inner = rng.uniform(-a, a, (dimension + 1, width)).astype(np.float32)
        return cls(inner, rng.uniform(-b, b, width + 1).astype(np.float32))

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

    def _hidden(self, x: Single) -> Iterator[tuple[slice, Single]]:
        room = np.empty((min(self.block, len(x)), self.inner.shape[1]), np.float32)
        for start in range(0, len(x), self.block):
            rows = slice(start, min(start + self.block, len(x)))
            hidden = np.matmul(x[rows], self.inner, out=room[: rows.stop - start])
            yield rows, np.maximum(hidden, 0, out=hidden)


class Adam:
    """Adam (Kingma and Ba) with the usual constants, on arrays in place."""

    def __init__(self, weights: Sequence[Single], rate: float) -> None:
        self.weights, self.rate, self.steps = list(weights), rate, 0
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]

    def step(self, gradients: Sequence[Single]) -> None:
        """Move every weight once."""
        self.steps += 1
        scale = np.float32(self.rate / (1 - 0.9**self.steps))
        root = np.float32(math.sqrt(1 - 0.999**self.steps))
        for place, g in enumerate(gradients):
            m, v = self.first[place], self.second[place]
            m += np.float32(0.1) * (g - m)
            v += np.float32(0.001) * (g * g - v)
            self.weights[place] -= scale * m / (np.sqrt(v) / root + np.float32(1e-8))


# ---- data and training -------------------------------------------------------------------------


@dataclass(frozen=True)
class Regression:
    """x uniform on the unit sphere, y = Ψ(x₁) + N(0, 0.1²); β is the first axis."""

    dimension: int = 10
    truth: Callable[[FloatArray], FloatArray] = lambda first: np.sin(np.pi * first)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[FloatArray, FloatArray]:
        """Return ``count`` independent records."""
        x = rng.standard_normal((count, self.dimension))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return x, self.truth(x[:, 0]) + NOISE * rng.standard_normal(count)


@dataclass(frozen=True)
class Training:
    """The setting of figure 1; tests use a smaller one."""

    records: int = 1000
    fresh: int = 10_000
    width: int = 4096
    iterations: int = 2500
    every: int = 25
    rate: float = 0.1

    @property
    def looks(self) -> tuple[float, ...]:
        """Iterations at which losses are looked at, the start and the end among them."""
        return (*map(float, range(0, self.iterations, self.every)), float(self.iterations))

    def losses(
        self, rng: np.random.Generator, progress: Progress | None = None
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Train, and yield training and fresh losses at every look."""
        source = Regression()
        (x, y), (x0, y0) = source.draw(rng, self.records), source.draw(rng, self.fresh)
        network = Network.start(rng, source.dimension, self.width)
        adam = Adam((network.inner, network.outer), self.rate)
        x1, x01 = _with_one(x), _with_one(x0)
        y1 = y.astype(np.float32)
        for place, look in enumerate(self.looks):
            # The products are small: more threads than one cost more than they save.
            with one_thread():
                for _ in range(int(look) - adam.steps):
                    adam.step(network.gradients(x1, y1))
                losses = (network.outputs(x1) - y) ** 2, (network.outputs(x01) - y0) ** 2
            yield losses
            if progress is not None:
                progress(place + 1, len(self.looks))


def _with_one(x: FloatArray) -> Single:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float32)


def small_losses(train: FloatArray, fresh: FloatArray) -> dict[str, float]:
    """Return the shares of losses at most ε at every threshold, and the ceiling of A25-T11."""
    shares: dict[str, float] = {}
    for epsilon in THRESHOLDS:
        shares[f"train_{epsilon:g}"] = float(np.mean(train <= epsilon))
        shares[f"fresh_{epsilon:g}"] = float(np.mean(fresh <= epsilon))
    shares["train_loss"], shares["fresh_loss"] = float(train.mean()), float(fresh.mean())
    above_it = float(np.mean(train > SMALLEST))
    shares["ceiling_estimate"] = ceiling_from_overfitting(
        above_it, shares[f"fresh_{SMALLEST:g}"], GAME.gamma
    )
    return shares


# ---- figure 1: training ------------------------------------------------------------------------


def _first(sweep: Sweep, reached: NDArray[np.bool_]) -> FloatArray:
    """Return the first look of every trial at which something is so; nan if never."""
    values = np.array(sweep.values)
    return np.asarray(np.where(reached.any(axis=0), values[reached.argmax(axis=0)], np.nan))


def training_checks(sweep: Sweep) -> tuple[Check, ...]:
    """Return the claims of the text about figure 1."""
    end = sweep.values[-1]
    share, loss = sweep.quantities[f"train_{SMALLEST:g}"], sweep.quantities["train_loss"]
    most = share >= 0.99
    # From which look on it is so to the end: the end itself counts where it is not so at all.
    stays = np.flip(np.logical_and.accumulate(np.flip(most, 0)), 0)
    settled = np.asarray(np.where(most[-1], _first(sweep, stays), end))
    # A25-P10 with α = 1 %: stop at the first mean loss of at most ε·α.
    level = stopping_loss(SMALLEST, 0.01)
    stop = (loss <= level).argmax(axis=0)
    ever = (loss <= level).any(axis=0)
    ceilings = sweep.quantities["ceiling_estimate"][stop, np.arange(len(stop))]
    train_share = sweep.at(f"train_{SMALLEST:g}", end)
    ever_most = Average.of(np.asarray(most.any(axis=0), dtype=np.float64))
    stopped = Average.of(np.asarray(np.where(ever, ceilings, 1.0)))
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
        above(f"{every} after the last iteration; their share", 1.0, train_share, limit=0.99),
        below(fresh, 0.0, sweep.at(f"fresh_{SMALLEST:g}", end), limit=0.01),
        above(late, 2000.0, Average.of(_first(sweep, most)), limit=2000.0),
        near(stay, 2000.0, Average.of(settled), share=0.25),
        below(rule, None, stopped, limit=0.02),
    )


def figure_1(
    trials: int, seed: int, progress: Progress | None = None, *, setting: Training | None = None
) -> Findings:
    """Run A25-F1, in the paper's setting or another."""
    setting = setting or Training()

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        def step(done: int, total: int) -> None:
            if progress is not None:
                progress(trial * total + done, trials * total)

        rng = np.random.default_rng([seed, 25, 1, trial])
        return [small_losses(*losses) for losses in setting.losses(rng, step)]

    sweep = swept("iteration", setting.looks, trials, measure, None)
    return Findings.of_sweep(
        sweep,
        training_checks(sweep),
        lambda: _figure(
            sweep,
            (("train", "training records"), ("fresh", "fresh records")),
            "A25-F1: two-layer ReLU network during training, n = "
            f"{setting.records}, d = 10, width {setting.width}",
            "iteration of Adam",
        ),
    )


# ---- figure 2: dimension -----------------------------------------------------------------------


def linear_losses(
    rng: np.random.Generator, dimension: int, records: int, fresh: int
) -> tuple[FloatArray, FloatArray]:
    """Return training and fresh losses of least squares of minimal norm, y = x₁ + noise."""
    source = Regression(dimension, lambda first: first)
    (x, y), (x0, y0) = source.draw(rng, records), source.draw(rng, fresh)
    if dimension > records:
        # Minimal norm, by the smaller of the two Gram matrices.
        beta = x.T @ np.linalg.solve(x @ x.T, y)
        beta += x.T @ np.linalg.solve(x @ x.T, y - x @ beta)
    else:
        beta = np.linalg.lstsq(x, y, rcond=None)[0]
    return (x @ beta - y) ** 2, (x0 @ beta - y0) ** 2


def neighbour_losses(
    rng: np.random.Generator, dimension: int, records: int, fresh: int
) -> tuple[FloatArray, FloatArray]:
    """Return training and fresh losses of the nearest neighbour, on the data of figure 1."""
    source = Regression(dimension)
    (x, y), (x0, y0) = source.draw(rng, records), source.draw(rng, fresh)
    # On the sphere the nearest record is the one with the largest inner product.
    nearest, own = (x0 @ x.T).argmax(axis=1), (x @ x.T).argmax(axis=1)
    return (y[own] - y) ** 2, (y[nearest] - y0) ** 2


def figure_2(
    trials: int,
    seed: int,
    progress: Progress | None = None,
    *,
    dimensions: Sequence[int] = DIMENSIONS,
    records: int = 1000,
    fresh: int = 10_000,
) -> Findings:
    """Run A25-F2."""

    def measure(trial: int) -> Sequence[Mapping[str, float]]:
        rows = []
        for place, d in enumerate(dimensions):
            rng = np.random.default_rng([seed, 25, 2, trial, d])
            row: dict[str, float] = {}
            for name, losses in (("linear", linear_losses), ("nearest", neighbour_losses)):
                shares = small_losses(*losses(rng, d, records, fresh))
                row |= {f"{name}_{key}": value for key, value in shares.items()}
            rows.append(row)
            if progress is not None:
                progress(trial * len(dimensions) + place + 1, trials * len(dimensions))
        return rows

    sweep = swept("dimension", tuple(map(float, dimensions)), trials, measure, None)
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
    return Findings.of_sweep(
        sweep,
        checks,
        lambda: _figure(
            sweep,
            (("linear_fresh", "linear regression"), ("nearest_fresh", "nearest neighbour")),
            f"A25-F2: share of fresh records with a loss of at most ε, n = {records}",
            "dimension d",
            log_x=True,
        ),
    )


# ---- drawing -----------------------------------------------------------------------------------


def _figure(
    sweep: Sweep,
    panels: Sequence[tuple[str, str]],
    title: str,
    xlabel: str,
    *,
    log_x: bool = False,
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    rows = figure.subplots(1, len(panels), sharey=True)
    for axes, (name, heading) in zip(rows, panels, strict=True):
        for epsilon, colour in zip(THRESHOLDS, (GREY, ORANGE, BLUE), strict=True):
            draw_mean(
                axes,
                sweep,
                f"{name}_{epsilon:g}",
                colour=colour,
                limits=(0, 1),
                lw=1.8,
                marker="o" if log_x else None,
                ms=4,
                label=f"ε = {epsilon:g}",
            )
        axes.set(xlabel=xlabel, title=heading, ylim=(-0.02, 1.02))
        if log_x:
            axes.set_xscale("log")
        axes.grid(visible=True, alpha=0.25)
    rows[0].set_ylabel("share of records with loss at most ε")
    rows[0].legend(frameon=True, fontsize=9)
    figure.suptitle(title, fontsize=12)
    return figure
