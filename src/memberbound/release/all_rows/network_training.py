"""DP-SGD: Poisson samples of rows, clipped gradients, and noise on a grid (proofs/networks.md)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.release.all_rows.clipping import path_sensitivity
from memberbound.release.all_rows.encoder import EncodedBlock
from memberbound.release.all_rows.gradient import TrainingRows
from memberbound.release.all_rows.network_modules import BLOCK_ROWS, torch_module
from memberbound.release.budget import NoisySums
from memberbound.release.randomness import RandomSource
from memberbound.tables.persons import Persons
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


#: Tuned once on Adult and MNIST: steps, expected batch size, learning rate and clip.
_STEPS, _BATCH, _RATE, _CLIP = 80, 2048, 1.0, 1.0
#: Tables with fewer rows use a smaller learning rate.
_MANY = 20_000
#: Ratio of single to double rounding units; upper bound on the loss of squares by underflow.
_SINGLE, _UNDERFLOW = 2.0**29, 1e-15
#: Maximum number of weights for which norms are computed in single precision.
_MOST_SINGLE = 2**22


@dataclass(frozen=True)
class Training:
    """Settings of DP-SGD: public numbers, chosen without the data.

    Every step samples each row with probability ``sample_rate``; ``rate`` multiplies the sum of
    clipped gradients divided by the *expected* batch size; ``averaged`` is the final share of steps
    over which weights are averaged.
    """

    steps: int
    sample_rate: float
    rate: float
    clip: float = 1.0
    momentum: float = 0.9
    averaged: float = 0.5

    @classmethod
    def default(cls, *, rows: int) -> Training:
        """Return the default settings (docs/gradient.md) for this number of rows."""
        # Noise in the averaged weights is proportional to rate/rows.
        return cls(_STEPS, min(1.0, _BATCH / rows), _RATE * min(1.0, rows / _MANY), _CLIP)


def step_reach(clip: float, rows: int) -> float:
    """Return an upper bound on the change of a computed batch sum by one record (claim 2)."""
    # Rounding raises twice the clip by 16 units in the last place; this subtraction uses one.
    return path_sensitivity(clip, rows, BLOCK_ROWS) - clip


def clip_factors(parts: Sequence[Tensor], kept: Tensor, clip: float) -> Tensor:
    """Return the factor of each row, in double precision, that clips its gradient.

    ``parts`` are the gradients by parameter, flattened: (rows, weights) each.

    Guarantee: factor times norm is at most ``clip``; norms are rounded up (claim 2).  The factor of
    a gradient that is not finite is 0.
    """
    torch = torch_module()
    terms = sum(g.shape[1] for g in parts)
    single = terms <= _MOST_SINGLE and all(g.dtype == torch.float32 for g in parts)
    kind = torch.float32 if single else torch.float64
    sizes = [torch.linalg.vector_norm(g, dim=1, dtype=kind) for g in parts]
    lengths = torch.linalg.vector_norm(torch.stack(sizes, dim=1), dim=1).double()
    # Allow for rounding in single precision, and for underflow: 9e-6 of the length or more, which
    # also covers the few roundings in double precision of factors and products.
    lengths = lengths * (1 + 2 * sum_slack(terms + 64) * _SINGLE) + _UNDERFLOW
    factors = (clip / lengths).clamp(max=1.0)
    return torch.where(torch.isfinite(lengths) & kept, factors, 0.0)


def sum_clipped(parts: Sequence[Tensor], kept: Tensor, clip: float) -> list[Tensor]:
    """Sum the clipped gradients of a block's ``kept`` rows, by parameter, in double precision.

    Guarantee: no row contributes more than ``clip`` in norm (:func:`clip_factors`).  Records with a
    gradient that is not finite are left out.
    """
    torch = torch_module()
    factors = clip_factors(parts, kept, clip)
    exact = (torch.where((factors > 0)[:, None], g.double(), 0.0) for g in parts)
    return [factors @ g for g in exact]


def sample_rows(
    rows: int, rate: float, source: RandomSource, persons: Persons | None = None
) -> NDArray[np.int64]:
    """Draw a Poisson sample: each record with probability at most ``rate``, to within 2^-64.

    A sampled person contributes one random row.
    """
    records = rows if persons is None else persons.count
    sample = np.arange(records)
    if rate < 1.0:
        sample = np.flatnonzero(source.words(records) < np.uint64(math.floor(rate * 2.0**64)))
    if persons is None:
        return sample
    coins = source.words(len(sample)) % persons.sizes[sample].astype(np.uint64)
    return np.asarray(persons.starts[sample] + coins.astype(np.int64))


def to_tensor(rows: EncodedBlock | FloatArray, unit: float) -> Tensor:
    """Convert rows to the network's input, numbers of about unit size."""
    dense = rows.matrix().toarray() if isinstance(rows, EncodedBlock) else rows
    made: Tensor = torch_module().from_numpy((dense * unit).astype(np.float32))
    return made


def train_network(
    module: Module,
    rows: TrainingRows,
    training: Training,
    *,
    classes: bool,
    noise: NoisySums,
    unit: float = 1.0,
) -> Any:
    """Train a copy of ``module`` with noisy steps and return another copy with averaged weights.

    Guarantee: ``rows`` enter the result only through sums, over Poisson samples, of gradients
    clipped at ``training.clip``, with ``noise`` of one scale on a grid, tensor by tensor: the
    tensors of a step are parts of one vector.
    Theorem: proofs/networks.md, claims 1 to 3.
    Edge cases: records of weight 0 have no effect.
    """
    torch = torch_module()
    wrapped = torch_module("opacus.grad_sample").GradSampleModule(
        copy.deepcopy(module).train(), loss_reduction="sum"
    )
    learnt = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learnt, lr=training.rate, momentum=training.momentum)
    count, persons, source = len(rows.codes), rows.persons, noise.source
    weighted = np.ones(count, dtype=bool) if rows.weights is None else rows.weights > 0
    expected = training.sample_rate * (count if persons is None else persons.count)
    goals = np.where(weighted, rows.codes, 0)
    mean = [np.zeros(tuple(p.shape)) for p in learnt]
    first = training.steps - max(1, math.ceil(training.steps * training.averaged))
    # Torch has one generator for all threads.
    with ONE_AT_A_TIME, no_warnings, torch.random.fork_rng(devices=[]):
        # The network's own random numbers (dropout) must be secret as well.
        torch.manual_seed(int(source.words(1)[0] >> np.uint64(1)))
        for step in range(training.steps):
            sample = sample_rows(count, training.sample_rate, source, persons)
            sums = [torch.zeros(p.shape, dtype=torch.float64) for p in learnt]
            for start in range(0, len(sample), BLOCK_ROWS):
                indices = sample[start : start + BLOCK_ROWS]
                missing = BLOCK_ROWS - len(indices)
                taken = to_tensor(rows.features[indices], unit)
                taken = torch.cat([taken, torch.zeros(missing, taken.shape[1])])
                goal = torch.from_numpy(np.pad(goals[indices], (0, missing)))
                wrapped.zero_grad()
                _loss(wrapped(taken), goal, classes).backward()
                kept = torch.from_numpy(np.pad(weighted[indices], (0, missing)))
                parts = [p.grad_sample.reshape(BLOCK_ROWS, -1) for p in learnt]
                added = sum_clipped(parts, kept, training.clip)
                sums = [
                    total + part.view_as(total) for total, part in zip(sums, added, strict=True)
                ]
            # The rest of the step is post-processing of the noisy sum.
            for p, total in zip(learnt, sums, strict=True):
                slope = noise.measure(total.numpy()) / expected
                p.grad = torch.from_numpy(slope).to(p.dtype)
            optimizer.step()
            if step >= first:
                for index, p in enumerate(learnt):
                    value = p.detach().double().numpy()
                    mean[index] += (value - mean[index]) / (step - first + 1)
    released = copy.deepcopy(module)
    with torch.no_grad():
        targets = [p for p in released.parameters() if p.requires_grad]
        for p, value in zip(targets, mean, strict=True):
            p.copy_(torch.from_numpy(value).to(p.dtype))
    if not all(bool(torch.isfinite(p).all()) for p in targets):
        raise InputError("training must stay finite: take a smaller rate.")
    return released.requires_grad_(False).eval()


def _loss(answers: Tensor, goal: Tensor, classes: bool) -> Tensor:
    if classes:
        return torch_module().nn.functional.cross_entropy(answers, goal.long(), reduction="sum")
    return (answers[:, 0] - goal.float()).square().sum() / 2
