"""A two-layer ReLU network and Adam in numpy, as A25-F1 needs them.

The arithmetic and the start are those that PyTorch would use, so that no extra is needed;
``tests/reproduction/test_aubinais_overfitting.py`` holds steps against PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adam", "Network", "Single"]

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
