"""Noisy gradient descent on all rows: every record of any table, in the neighbour game (X22).

A record with features x and scores S = Θᵀx has the gradient x ⊗ r with the residual r = ∂ℓ/∂S, and
this has length ‖x‖·‖r‖.  So a record is clipped by one factor from two norms, and no gradient of a
single record is ever built: a step is two products with the table, block by block, and one noisy
sum.  Steps, rate and clip never look at the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from memberbound.errors import (
    InputError,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.release.all_rows.losses import LOSSES, Loss
from memberbound.release.budget import Part
from memberbound.tables.in_memory import Persons

__all__ = [
    "GRID",
    "LARGEST_FEATURE",
    "MOST_DRAWS",
    "Descent",
    "GradientModel",
    "clipped_residuals",
    "clipped_sum",
    "descend",
    "most_draws",
    "on_grid",
    "path_sensitivity",
    "row_cuts",
    "row_lengths",
    "summand_step",
]

#: What a table of features may be.
Features = Any
IntArray = NDArray[np.int64]

#: Rows whose products are added up by the BLAS at once.
_BLOCK = 8192
#: Encoded features are whole multiples of 1/2^13, of size at most 4, and summands of a sum of
#: gradients whole multiples of a step, so that scores and sums are exact in whatever order they are
#: added (proofs/persons.md).
GRID = 2.0**13
LARGEST_FEATURE = 4.0
#: A person's share of the clip is counted in units of 1/2^16.
_SHARES = 2.0**16
#: No row is taken to be shorter: below this, squares underflow.
_SHORTEST = 1e-150
#: Entries beyond this are refused, and clips outside its range: nothing below overflows then.
_LARGEST = 1e100

#: Chosen once on breast cancer, digits, Adult, ACS and MNIST; docs/gradient.md has why.
_STEPS = 80
_MOMENTUM = 0.8
#: What is predicted: T·rate·clip over μ·rows, the clip, the share of the steps that is averaged.
_PACES = {
    "one score": (2.0, 0.1, 0.1),
    "several scores": (1.0, 0.1, 0.1),
    "numbers": (0.25, 0.25, 0.5),
}
#: The largest rate·clip: how far one step may go.
_FASTEST = 400.0
#: No default path draws more numbers than this, unless a single step does.
MOST_DRAWS = 500_000
#: Length of the intercept's constant feature, in units of a typical row.
_INTERCEPT = 0.2


@dataclass(frozen=True)
class Descent:
    """How to descend: public numbers, chosen without the data.

    ``rate`` multiplies the mean gradient, ``momentum`` β the velocity (of which 1 - β is new),
    ``averaged`` is the share of the steps, at the end, whose iterates are averaged, ``decay`` the λ
    of λ/2·‖θ‖² beside the mean loss, the intercept left out.

    Examples:
        >>> Descent.default(rows=898, width=64, outputs=10, mu=0.2513).steps
        80
    """

    steps: int
    rate: float
    clip: float = 0.1
    momentum: float = _MOMENTUM
    averaged: float = 0.1
    intercept: float = _INTERCEPT
    decay: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        object.__setattr__(self, "rate", positive("rate", self.rate))
        clip = positive("clip", self.clip)
        if not 1 / _LARGEST <= clip <= _LARGEST:
            raise InputError(f"clip must be between 1e-100 and 1e100, got {self.clip!r}.")
        object.__setattr__(self, "clip", clip)
        fraction("momentum", self.momentum, open_right=True)
        fraction("averaged", self.averaged, open_left=True)
        nonnegative("intercept", self.intercept)
        nonnegative("decay", self.decay)

    @classmethod
    def default(
        cls, *, rows: int, width: int, outputs: int, mu: float, regression: bool = False
    ) -> Descent:
        """Return the rule of docs/gradient.md: a function of public numbers only.

        Noise in a score after T steps of rate r is about 2·clip·T·r/(μ·rows), whatever T is: so T
        is fixed (fewer for very wide models) and T·r is chosen such that this noise is of order
        one, as long as that does not make single steps too long.
        """
        n, budget = whole_number("rows", rows), positive("mu", mu)
        parameters = whole_number("outputs", outputs) * (whole_number("width", width) + 1)
        steps = max(1, min(_STEPS, MOST_DRAWS // parameters))
        kind = "numbers" if regression else "one score" if outputs == 1 else "several scores"
        reach, clip, averaged = _PACES[kind]
        pace = min(reach * budget * n / steps, _FASTEST)
        return cls(steps, pace / clip, clip, averaged=averaged)


def on_grid(features: FloatArray) -> FloatArray:
    """Return encoded numbers as whole multiples of 1/2^13.

    Examples:
        >>> on_grid(np.array([0.1, 9.0])) * 2**13
        array([  819., 32768.])
    """
    cut = np.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE)
    return np.asarray(np.rint(cut * GRID) / GRID)


def summand_step(clip: float, records: int) -> float:
    """Return the power of two to whose multiples summands are cut off.

    Guarantee: sums of features on the grid times such summands are exact: their lengths add up to
    at most ``records``·``clip``, which is below 2^52 units.
    """
    return 2.0 ** (math.frexp(clip * records)[1] - 39)


def _score_grid(theta: FloatArray) -> FloatArray:
    """Return parameters with so few digits that scores of features on the grid are exact."""
    bits = 36 - len(theta).bit_length()
    step = 2.0 ** (math.frexp(float(np.abs(theta).max()))[1] - bits)
    return np.asarray(np.rint(theta / step) * step)


def row_lengths(features: Features, intercept: float) -> FloatArray:
    """Return √(‖x‖² + b²) of every row, from above: a few roundings, whatever the order of adding.

    Guarantee: at least the exact length (proofs/gradient-descent.md, claim 2).
    """
    if hasattr(features, "squares"):
        squares = features.squares()
    elif sparse.issparse(features):
        squares = np.asarray(features.multiply(features).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", features, features)
    terms = int(features.shape[1]) + 1
    lengths = np.sqrt(squares + intercept * intercept) * (1 + 2 * sum_slack(terms))
    return np.asarray(np.maximum(lengths, _SHORTEST))


def clipped_residuals(
    residuals: FloatArray, lengths: FloatArray, clip: float, starts: IntArray | None = None
) -> FloatArray:
    """Return v = w·r with ‖x‖·‖v‖ ≤ clip for every record, exactly (claim 2).

    ``lengths`` are those of :func:`row_lengths`.  A record whose gradient is shorter keeps it.
    Where ``starts`` says which rows are whose, Σ‖x‖·‖v‖ ≤ clip holds for every person: each row is
    cut off at the clip, and the rows of a person are then shortened by one factor.
    """
    squares = np.zeros(len(residuals))
    for column in residuals.T:  # not by einsum, whose last digit may depend on the place of a row
        squares += column * column
    sizes = np.sqrt(squares) * (1 + 2 * sum_slack(residuals.shape[1]))
    sizes = np.maximum(sizes, _SHORTEST)
    factors = np.minimum(clip * (1 - 16 * UNIT) / (lengths * sizes), 1.0)
    if starts is not None:
        # Whole numbers from above: their sum is the same in whatever order rows stand.
        units = np.ceil(lengths * sizes * factors / clip * (_SHARES * (1 + 2.0**-30)))
        counts = np.diff(starts, append=len(residuals))
        shares = _SHARES / np.maximum(np.add.reduceat(units, starts), _SHARES) * (1 - 16 * UNIT)
        factors = factors * np.repeat(np.where(counts == 1, 1.0, shares), counts)
    return np.asarray(residuals * factors[:, None])


def clipped_sum(
    blocks: Iterable[Features],
    residuals: Callable[[int, FloatArray], FloatArray],
    lengths: Sequence[FloatArray] | None,
    theta: FloatArray,
    *,
    clip: float,
    intercept: float,
    starts: Sequence[IntArray] | None = None,
    weights: Sequence[FloatArray] | None = None,
    step: float = 0.0,
) -> FloatArray:
    """Return Σ over records of the clipped gradient, the intercept's row last.

    ``residuals(number, scores)`` gives r for a block's scores, ``starts`` whose rows a block has;
    ``lengths`` are computed where they are None.  ``weights`` from 0 to 1 multiply what was
    clipped.  Summands are cut off at multiples of ``step``.  What the sum loses to rounding
    otherwise is counted by :func:`path_sensitivity`.
    """
    total = np.zeros_like(theta)
    for number, block in enumerate(blocks):
        scores = np.asarray(block @ theta[:-1]) + intercept * theta[-1]
        whose = None if starts is None else starts[number]
        long = row_lengths(block, intercept) if lengths is None else lengths[number]
        moved = clipped_residuals(residuals(number, scores), long, clip, whose)
        if weights is not None:
            moved *= weights[number][:, None]
        if step:
            moved = np.trunc(moved / step) * step
        total[:-1] += _turned(block, moved)
        total[-1] += moved.sum(axis=0)
    total[-1] *= intercept
    return total


def path_sensitivity(clip: float, rows: int, block: int = _BLOCK) -> float:
    """Return how far one replaced record can move a computed sum of clipped gradients, from above.

    Guarantee: 2·clip, and what rounding adds: each of the two sums is off by at most
    rows·clip·(γ_block + γ_blocks), in whatever order it was added (claim 2).

    Examples:
        >>> 2.0 < path_sensitivity(1.0, 32561) < 2.0 + 1e-6
        True
    """
    blocks = -(-rows // block)
    off = rows * (sum_slack(block) + sum_slack(blocks))
    return up(2.0 * clip * (1.0 + off), 8)


@dataclass(frozen=True, eq=False)
class GradientModel:
    """A linear model, as released: nothing here was computed from the secret without noise."""

    coefficients: FloatArray
    intercepts: FloatArray
    loss: str
    descent: Descent
    scale: float
    mu: float

    @property
    def outputs(self) -> int:
        """Number of scores."""
        return int(self.intercepts.size)

    @property
    def released_size(self) -> int:
        """Number of noisy sums of one step."""
        return int(self.coefficients.size + self.intercepts.size)

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the noise that is added to every sum of gradients."""
        return self.scale * math.sqrt(self.released_size)

    @staticmethod
    def features(encoder: Any, read: Any) -> Features:
        """Return the features of columns that were read."""
        return encoder.encoded(read)

    def scores(self, features: Features) -> FloatArray:
        """Return the scores of encoded records."""
        if hasattr(features, "block"):
            cuts = row_cuts(features.shape[0], None)
            return np.concatenate([self.scores(features[cut]) for cut in cuts])
        return np.asarray(features @ self.coefficients) + self.intercepts

    def moved(self, slope: float, offsets: FloatArray) -> GradientModel:
        """Return the model whose scores are slope·score + offset."""
        intercepts = slope * self.intercepts + offsets
        return replace(self, coefficients=slope * self.coefficients, intercepts=intercepts)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "loss": self.loss,
            "coefficients": self.coefficients.tolist(),
            "intercepts": self.intercepts.tolist(),
            "descent": asdict(self.descent),
            "noise_scale": self.noise_scale,
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], encoder: Any, mu: float) -> GradientModel:
        """Return the model that :meth:`to_dict` described."""
        model = cls(
            np.array(fields["coefficients"], dtype=np.float64),
            np.array(fields["intercepts"], dtype=np.float64),
            one_of("loss", fields["loss"], LOSSES),
            Descent(**fields["descent"]),
            float(fields["scale"]),
            mu,
        )
        if model.coefficients.shape != (encoder.width, model.outputs):
            raise ValueError("coefficients do not fit the columns")
        return model


def row_cuts(rows: int, persons: Persons | None, block: int | None = None) -> list[slice]:
    """Return blocks of about equal length, in which no person's rows are cut apart."""
    size = block or _BLOCK
    ends = np.arange(0, rows + size, size).clip(max=rows)
    if persons is not None:
        borders = np.append(persons.starts, rows)
        ends = np.unique(borders[np.searchsorted(borders, ends)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends.tolist()) if a < b]


def _block(features: Features, rows: slice) -> Features:
    """Return a block of the table that shares its memory."""
    if hasattr(features, "block"):
        return features.block(rows)
    if not sparse.issparse(features):
        return features[rows]
    ends = features.indptr[rows.start : rows.stop + 1]
    inside = slice(int(ends[0]), int(ends[-1]))
    block = sparse.csr_array((len(ends) - 1, features.shape[1]))
    # The constructor would copy the parts of a long array; attributes do not.
    block.data, block.indices = features.data[inside], features.indices[inside]
    block.indptr = ends - ends[0]
    return block


def _turned(block: Features, moved: FloatArray) -> FloatArray:
    """Return the transpose of a block, in the block's own memory, times a column per output."""
    if hasattr(block, "turned"):
        return np.asarray(block.turned(moved))
    if not sparse.issparse(block):
        return np.asarray(block.T @ moved)
    turned = sparse.csc_array(block.shape[::-1])
    turned.data, turned.indices, turned.indptr = block.data, block.indices, block.indptr
    return np.asarray(turned @ moved)


def _checked(features: Features, records: int) -> Features:
    table = features
    if hasattr(table, "block"):  # as an encoder made them
        return table
    if sparse.issparse(table):
        table = sparse.csr_array(table, dtype=np.float64)
        if not table.has_canonical_format:
            # Duplicate entries add up, but their squares would be summed one by one.
            table = table.copy()
            table.sum_duplicates()
        values = table.data
    else:
        table = np.asarray(table, dtype=np.float64)
        values = table
    if len(table.shape) != 2 or min(table.shape) == 0 or table.shape[0] != records:
        raise InputError(
            f"features must be a table with one row for each of {records} records, "
            f"got shape {tuple(table.shape)!r}."
        )
    # NaN compares false; extreme values would overflow.
    if values.size and not (float(values.min()) >= -_LARGEST and float(values.max()) <= _LARGEST):
        raise InputError("features must be finite numbers up to 1e100 in size, got others.")
    return table


def descend(
    features: Features,
    target: FloatArray,
    loss: Loss,
    descent: Descent,
    part: Part,
    *,
    weights: ArrayLike | None = None,
    persons: Persons | None = None,
) -> GradientModel:
    """Descend on all rows with noise paid for by ``part``; return the mean of the last iterates.

    With ``persons`` a record is a person with all rows.

    Guarantee: the noisy sums of all steps, and so whatever is computed from them, are within
    ``release_slack(steps·parameters)`` of a ``part.mu``-GDP pair under replace-one: for every
    record of any table, whatever the others are.
    Theorem: X22 (proofs/gradient-descent.md, claims 1 to 3), of persons X26 (proofs/persons.md).
    Assumes: features and target of a record are functions of that record and of public numbers (or
    of releases that the same budget paid for); the number of records is public; a row's scores are
    computed from that row.  Of persons features are on the grid (:func:`on_grid`).
    Numerics: a record's clipped gradient is at most the clip in exact arithmetic; rounding of the
    sum is part of the sensitivity; the noisy sum is put on a grid.
    Edge cases: ``weights`` are between 0 and 1, those of 0 leave records out without a trace
    (unknown classes).

    Examples:
        >>> from memberbound.release.randomness import InsecureSource
        >>> X = np.repeat([[1.0], [-1.0]], 500, axis=0)
        >>> from memberbound.release.all_rows.losses import loss_named
        >>> loss, y = loss_named("logistic", np.repeat([1, 0], 500))
        >>> how = Descent.default(rows=1000, width=1, outputs=1, mu=0.25)
        >>> model = descend(X, y, loss, how, Part("descent", 0.25, InsecureSource(0)))
        >>> bool(model.coefficients[0, 0] > 0)
        True
    """
    reads = np.asarray(target)
    table = _checked(features, len(reads))
    ends = np.array([reads.min(initial=0), reads.max(initial=0)], dtype=np.float64)
    if reads.ndim != 2 or reads.shape[1] != loss.outputs or not (np.abs(ends) <= _LARGEST).all():
        raise InputError("target must hold numbers up to 1e100, as loss_named returns them.")
    weight = np.ones(len(reads)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (len(reads),) or not ((weight >= 0) & (weight <= 1)).all():
        raise InputError("weights must be numbers from 0 to 1, one per record.")
    rows, width = int(table.shape[0]), int(table.shape[1])
    records = rows if persons is None else persons.count
    sensitivity = path_sensitivity(descent.clip, records)
    gradients = part.sums(sensitivity=sensitivity, times=descent.steps)

    cuts = row_cuts(rows, persons)
    blocks, lengths = None, None
    if getattr(table, "fits", True):
        blocks = [_block(table, cut) for cut in cuts]
        lengths = [row_lengths(block, descent.intercept) for block in blocks]
    starts = None if persons is None else [persons.within(cut) for cut in cuts]

    def residuals(number: int, scores: FloatArray) -> FloatArray:
        place = cuts[number]
        # A row without weight takes nothing of its person's clip.
        return np.asarray(loss.residuals(scores, reads[place]) * (weight[place, None] > 0))

    theta = np.zeros((width + 1, loss.outputs))
    velocity, mean = np.zeros_like(theta), np.zeros_like(theta)
    first = descent.steps - max(1, math.ceil(descent.steps * descent.averaged))
    for number in range(descent.steps):
        exact = clipped_sum(
            blocks or (_block(table, cut) for cut in cuts),
            residuals,
            lengths,
            _score_grid(theta),
            clip=descent.clip,
            intercept=descent.intercept,
            starts=starts,
            weights=[weight[cut] for cut in cuts],
            step=summand_step(descent.clip, records),
        )
        # From here on nothing but the noisy sum is used: post-processing.
        slope = gradients.measure(exact) / records
        velocity = descent.momentum * velocity + (1 - descent.momentum) * slope
        theta = theta - descent.rate * velocity
        theta[:-1] /= 1 + descent.rate * descent.decay
        if number >= first:
            mean += (theta - mean) / (number - first + 1)
    mean = _score_grid(mean)
    intercepts = descent.intercept * mean[-1]
    return GradientModel(mean[:-1], intercepts, loss.name, descent, gradients.scale, part.mu)


def most_draws(width: int, outputs: int) -> int:
    """Return how many numbers a default path of at most this width and outputs draws, at most."""
    parameters = whole_number("outputs", outputs) * (whole_number("width", width) + 1)
    return max(parameters, min(_STEPS * parameters, MOST_DRAWS))
