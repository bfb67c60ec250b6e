"""Noisy gradient descent on all rows: every record of any table, in the neighbour game (X22).

A record with features x and scores S = Θᵀx has the gradient x ⊗ r with the residual r = ∂ℓ/∂S, and
this has length ‖x‖·‖r‖.  So a record is clipped by one factor from two norms, and no gradient of a
single record is ever built: a step is two products with the table, block by block, and one noisy
sum.  Steps, rate and clip never look at the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import one_of
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.release.budget import Part
from memberbound.tables.persons import Persons
from memberbound.tables.shards import Parts

if TYPE_CHECKING:
    from memberbound.release.all_rows.encoding import EncodedBlock, Encoder

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
#: Target range [-1, 1]: where Huber's loss turns from square to straight.
_BEND = 0.2


@dataclass(frozen=True)
class Descent:
    """How to descend: public numbers, chosen without the data.

    ``rate`` multiplies the mean gradient, ``momentum`` β the velocity (of which 1 - β is new),
    ``averaged`` is the share of the steps, at the end, whose iterates are averaged, ``decay`` the λ
    of λ/2·‖θ‖² beside the mean loss, the intercept left out.
    """

    steps: int
    rate: float
    clip: float = 0.1
    momentum: float = _MOMENTUM
    averaged: float = 0.1
    intercept: float = _INTERCEPT
    decay: float = 0.0

    @classmethod
    def default(
        cls, *, rows: int, width: int, outputs: int, mu: float, regression: bool = False
    ) -> Descent:
        """Return the rule of docs/gradient.md: a function of public numbers only.

        Noise in a score after T steps of rate r is about 2·clip·T·r/(μ·rows), whatever T is: so T
        is fixed (fewer for very wide models) and T·r is chosen such that this noise is of order
        one, as long as that does not make single steps too long.
        """
        steps = max(1, min(_STEPS, MOST_DRAWS // (outputs * (width + 1))))
        kind = "numbers" if regression else "one score" if outputs == 1 else "several scores"
        reach, clip, averaged = _PACES[kind]
        pace = min(reach * mu * rows / steps, _FASTEST)
        return cls(steps, pace / clip, clip, averaged=averaged)


# ── Losses: r = ∂ℓ/∂S of a record with scores S ───────────────────────────────────────────────────


def _logistic(scores: FloatArray, target: NDArray[Any]) -> FloatArray:
    """ℓ = ln(1 + e^{-±S})."""
    sign = 1 - 2 * target
    return np.asarray(sign * special.expit(sign * scores))


def _softmax(scores: FloatArray, target: NDArray[Any]) -> FloatArray:
    """ℓ = ln Σe^{S_c} - S_y."""
    return np.asarray(special.softmax(scores, axis=1) - target)


def _ridge(scores: FloatArray, target: NDArray[Any]) -> FloatArray:
    """ℓ = ½‖S - y‖²."""
    return np.asarray(scores - target)


def _huber(scores: FloatArray, target: NDArray[Any]) -> FloatArray:
    """ℓ = ½e² of the error e = S - y up to a bend, straight beyond."""
    return np.asarray(np.clip(scores - target, -_BEND, _BEND))


def _hinge(scores: FloatArray, target: NDArray[Any]) -> FloatArray:
    """ℓ = max(0, 1 - m) of the margin m = y·S per output, rounded off on 0 ≤ m ≤ 1."""
    return np.asarray(-target * np.clip(1 - target * scores, 0.0, 1.0))


_RESIDUALS = {
    "logistic": _logistic,
    "softmax": _softmax,
    "ridge": _ridge,
    "hinge": _hinge,
    "huber": _huber,
}
LOSSES = tuple(_RESIDUALS)


@dataclass(frozen=True)
class Loss:
    """A loss by name, of so many classes (``logistic`` has two), of one number for none."""

    name: str
    classes: int = 0

    @property
    def outputs(self) -> int:
        """Number of scores: one of a number or of two classes, except for softmax."""
        return self.classes if self.classes > 2 or self.name == "softmax" else 1

    def target(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the target as the residuals take it, (records, outputs).

        ``codes`` are those of classes, or numbers scaled to [-1, 1].  A code of -1 stands for a
        class that is not among the public ones: such a record is left out.
        """
        if not self.classes:
            return np.asarray(codes, dtype=np.float64)[:, None]
        classes = np.maximum(codes, 0).astype(np.int64)
        if self.outputs == 1:
            hot = classes[:, None].astype(np.int8)
        else:
            hot = np.eye(self.classes, dtype=np.int8)[classes]
        return np.asarray(2 * hot - 1 if self.name == "hinge" else hot)

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        """Return r per record, one column per output."""
        return _RESIDUALS[self.name](scores, target)

    def predicted(self, scores: FloatArray) -> NDArray[np.int64]:
        """Return class codes."""
        if self.outputs == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    @property
    def probable(self) -> bool:
        """Whether its scores have class probabilities."""
        return self.name in ("logistic", "softmax")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return class probabilities of scores that have them."""
        if self.outputs == 1:
            return np.column_stack([special.expit(-scores[:, 0]), special.expit(scores[:, 0])])
        return np.asarray(special.softmax(scores, axis=1))


# ── What one record adds to a sum: at most the clip ───────────────────────────────────────────────


def on_grid(features: FloatArray) -> FloatArray:
    """Return encoded numbers as whole multiples of 1/2^13."""
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


def row_lengths(squares: FloatArray, terms: int, intercept: float) -> FloatArray:
    """Return √(‖x‖² + b²) of every row, from above: a few roundings, whatever the order of adding.

    ``squares`` are ‖x‖² of rows with so many terms.

    Guarantee: at least the exact length (proofs/gradient-descent.md, claim 2).
    """
    lengths = np.sqrt(squares + intercept * intercept) * (1 + 2 * sum_slack(terms + 1))
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
    block: EncodedBlock,
    residuals: FloatArray,
    lengths: FloatArray,
    *,
    clip: float,
    starts: IntArray | None = None,
    weights: FloatArray | None = None,
    step: float = 0.0,
) -> FloatArray:
    """Return Σ over a block's records of the clipped gradient, that of a constant 1 last.

    ``starts`` says whose rows the block has.  ``weights`` from 0 to 1 multiply what was clipped,
    which makes nothing longer.  Summands are cut off at multiples of ``step``.  What the sum loses
    to rounding otherwise is counted by :func:`path_sensitivity`.
    """
    clipped = clipped_residuals(residuals, lengths, clip, starts)
    if weights is not None:
        clipped *= weights[:, None]
    if step:
        clipped = np.trunc(clipped / step) * step
    return np.vstack([block.turned(clipped), clipped.sum(axis=0)])


def path_sensitivity(clip: float, rows: int, block: int = _BLOCK) -> float:
    """Return how far one replaced record can move a computed sum of clipped gradients, from above.

    Guarantee: 2·clip, and what rounding adds: each of the two sums is off by at most
    rows·clip·(γ_block + γ_blocks), in whatever order it was added (claim 2).
    """
    blocks = -(-rows // block)
    off = rows * (sum_slack(block) + sum_slack(blocks))
    return up(2.0 * clip * (1.0 + off), 8)


# ── The model, and the descent that makes it of all rows ──────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class GradientModel:
    """A linear model, as released: nothing here was computed from the secret without noise."""

    coefficients: FloatArray
    intercepts: FloatArray
    loss: str
    descent: Descent
    scale: float

    @property
    def released_size(self) -> int:
        """Number of noisy sums of one step."""
        return int(self.coefficients.size + self.intercepts.size)

    def scores(self, block: EncodedBlock) -> FloatArray:
        """Return the scores of encoded records."""
        return block @ self.coefficients + self.intercepts

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
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], encoder: Encoder) -> GradientModel:
        """Return the model that :meth:`to_dict` described."""
        model = cls(
            np.array(fields["coefficients"], dtype=np.float64),
            np.array(fields["intercepts"], dtype=np.float64),
            one_of("loss", fields["loss"], LOSSES),
            Descent(**fields["descent"]),
            float(fields["scale"]),
        )
        if model.coefficients.shape != (encoder.width, model.intercepts.size):
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


@dataclass(eq=False, repr=False)
class TrainingRows:
    """A part of the rows, encoded, with their target.

    Slices of ``features`` are blocks.  ``codes`` are the target as it was read.  ``weights`` are
    from 0 to 1, None: all are 1.  A row of weight 0, as one of a class that is not listed, has no
    influence.
    """

    features: Any
    codes: NDArray[Any]
    weights: FloatArray | None = None
    persons: Persons | None = None
    #: What is larger than so many bytes is kept on disk.
    memory: int | None = None
    #: Made of the fields above and of public numbers: never sent or stored.
    cache: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}

    def cuts(self, size: int | None = None) -> list[slice]:
        """Return blocks of rows in which no person's are cut apart."""
        return row_cuts(len(self.codes), self.persons, size)

    def starts(self, rows: slice) -> IntArray | None:
        """Return where persons start within a block."""
        return None if self.persons is None else self.persons.within(rows)

    def weight(self, rows: slice) -> FloatArray | None:
        """Return the weights of a block."""
        return None if self.weights is None else self.weights[rows]

    def residuals(self, loss: Loss, scores: FloatArray, rows: slice) -> FloatArray:
        """Return the residuals of a block; 0 for rows of weight 0.

        They take nothing of their person's clip either.
        """
        residuals = loss.residuals(scores, loss.target(self.codes[rows]))
        return residuals if self.weights is None else residuals * (self.weights[rows, None] > 0)


def _gradient(
    rows: TrainingRows, loss: Loss, descent: Descent, theta: FloatArray, step: float
) -> FloatArray:
    """Return the sum of the part's clipped gradients, that of a constant 1 last."""
    total = np.zeros_like(theta)
    for cut in rows.cuts():
        block, starts = rows.features[cut], rows.starts(cut)
        lengths = row_lengths(block.squares(), block.shape[1], descent.intercept)
        scores = block @ theta[:-1] + descent.intercept * theta[-1]
        residuals = rows.residuals(loss, scores, cut)
        total += clipped_sum(
            block,
            residuals,
            lengths,
            clip=descent.clip,
            starts=starts,
            weights=rows.weight(cut),
            step=step,
        )
    return total


def descend(
    rows: Parts, loss: Loss, descent: Descent, part: Part, *, records: int, width: int
) -> GradientModel:
    """Descend on all rows with noise paid for by ``part``; return the mean of the last iterates.

    ``rows`` are parts of ``width`` features, each of them :class:`TrainingRows`; ``records`` is the
    number of all rows, or of persons with all their rows.

    Guarantee: the noisy sums of all steps, and so whatever is computed from them, are within
    ``release_slack(steps·parameters)`` of a ``part.mu``-GDP pair under replace-one: for every
    record of any table, whatever the others are.
    Theorem: X22 (proofs/gradient-descent.md, claims 1 to 3), of persons X26 (proofs/persons.md).
    Assumes: features and target of a record are functions of that record and of public numbers (or
    of releases that the same budget paid for); the number of records is public; a row's scores are
    computed from that row.  Of persons features are on the grid (:func:`on_grid`).
    Numerics: a record's clipped gradient is at most the clip in exact arithmetic; rounding of the
    sum is part of the sensitivity; the noisy sum is put on a grid.
    Edge cases: records of weight 0 are left out without a trace.
    """
    sensitivity = path_sensitivity(descent.clip, records)
    gradients = part.sums(sensitivity=sensitivity, times=descent.steps)

    step = summand_step(descent.clip, records)
    theta = np.zeros((width + 1, loss.outputs))
    velocity, mean = np.zeros_like(theta), np.zeros_like(theta)
    first = descent.steps - max(1, math.ceil(descent.steps * descent.averaged))
    for number in range(descent.steps):
        exact = rows.total(_gradient, loss, descent, _score_grid(theta), step)
        exact[-1] *= descent.intercept  # the constant feature is this, not 1
        # From here on nothing but the noisy sum is used: post-processing.
        slope = gradients.measure(exact) / records
        velocity = descent.momentum * velocity + (1 - descent.momentum) * slope
        theta = theta - descent.rate * velocity
        theta[:-1] /= 1 + descent.rate * descent.decay
        if number >= first:
            mean += (theta - mean) / (number - first + 1)
    mean = _score_grid(mean)
    intercepts = descent.intercept * mean[-1]
    return GradientModel(mean[:-1], intercepts, loss.name, descent, gradients.scale)


def most_draws(width: int, outputs: int) -> int:
    """Return how many numbers a default path of at most this width and outputs draws, at most."""
    parameters = outputs * (width + 1)
    return max(parameters, min(_STEPS * parameters, MOST_DRAWS))
