"""Noisy gradient descent on all rows in the neighbour game (X22).

A record with features x and scores S = Θᵀx has the gradient x ⊗ r with the residual r = ∂ℓ/∂S, and
its norm is ‖x‖·‖r‖.  So a record is clipped by one factor from two norms, and no gradient of a
single record is ever computed: a step is two products with the table, block by block, and one noisy
sum.  Steps, rate and clip do not depend on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import one_of
from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.clipping import (
    BLOCK_ROWS,
    clip_residuals,
    on_grid,
    path_sensitivity,
    row_lengths,
    summand_step,
)
from memberbound.release.all_rows.encoder import EncodedBlock, Encoder
from memberbound.release.all_rows.losses import LOSSES, Loss
from memberbound.release.budget import BudgetShare
from memberbound.tables.persons import Persons, row_cuts
from memberbound.tables.shards import Shards
from memberbound.tables.values import Values

#: Encoded rows: a block, or the bins of boosting.
Features = Any

#: Tuned once on breast cancer, digits, Adult, ACS and MNIST; see docs/gradient.md.
_STEPS = 80
_MOMENTUM = 0.8
#: By kind of target: T·rate·clip over μ·rows, the clip, and the share of steps that is averaged.
CLASS_CLIP = 0.1
_PATHS = {
    "centred": (0.25, CLASS_CLIP, 0.1),
    "one score": (2.0, CLASS_CLIP, 0.1),
    "several scores": (1.0, CLASS_CLIP, 0.1),
    "numbers": (0.25, 0.25, 0.5),
}
#: Centred descents take a longer path if μ·rows exceeds the first number, by up to this factor.
#: Both were chosen by benchmarks/protect_choices.py over eight tables, as was the first path.
_CLEAR_SIGNAL, _FARTHER = 1000.0, 4.0
#: The largest rate·clip, which limits single steps.
_FASTEST = 400.0
#: Maximum number of draws of a default descent, unless a single step needs more.
MOST_DRAWS = 500_000
#: Length of the intercept's constant feature, in units of a typical row.
_INTERCEPT = 0.2
#: Rows are clipped to this norm before they are averaged; a typical row has norm 1.
_MEAN_RADIUS = 1.1
#: Minimum squared norm of a typical centred row.
_LEAST_SQUARE = 0.05
#: Training starts at the balanced score if the shares of the classes differ by more than 1/this;
#: chosen by benchmarks/protect_choices.py.
_PULL = 2.0


@dataclass(frozen=True)
class Descent:
    """Settings of the descent: public numbers, chosen without the data.

    ``rate`` multiplies the mean gradient, ``momentum`` β the velocity (of which 1 - β is new),
    ``averaged`` is the final share of steps over which iterates are averaged, ``decay`` the λ
    of λ/2·‖θ‖² added to the mean loss, without the intercept.
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
        cls,
        *,
        rows: int,
        width: int,
        outputs: int,
        mu: float,
        regression: bool = False,
        centred: bool = False,
    ) -> Descent:
        """Return the default settings (docs/gradient.md), from public numbers only.

        ``centred`` applies to a single score for two classes with a :class:`Start`.

        After T steps of rate r, noise in a score is about 2·clip·T·r/(μ·rows).  It depends on the
        product T·r alone, so T is fixed (smaller for very wide models) and r keeps this noise of
        order one, as long as single steps do not become too long.
        """
        steps = max(1, min(_STEPS, MOST_DRAWS // (outputs * (width + 1))))
        kind = "numbers" if regression else "one score" if outputs == 1 else "several scores"
        reach, clip, averaged = _PATHS["centred" if centred else kind]
        if centred:
            reach *= min(max(mu * rows / _CLEAR_SIGNAL, 1.0), _FARTHER)
        step_rate = min(reach * mu * rows / steps, _FASTEST)
        return cls(steps, step_rate / clip, clip, averaged=averaged)

    def rescale(self, length: float) -> Descent:
        """Return the equivalent settings for rows of another typical length."""
        return replace(
            self,
            rate=self.rate / length**2,
            clip=self.clip * length,
            intercept=self.intercept * length,
        )


@dataclass(frozen=True, eq=False)
class Start:
    """The released starting point of a descent.

    All records start with the constant ``score``.  Rows of a linear model are relative to
    ``centre``, a point on the feature grid.
    """

    score: float
    centre: FloatArray = field(default_factory=lambda: np.zeros(0))

    def mean_score(self, model: GradientModel) -> float:
        """Return the score of the mean row under a linear model with one score."""
        return float(self.centre @ model.coefficients[:, 0] + model.intercepts[0])

    @property
    def length(self) -> float:
        """Typical norm of a centred row; an uncentred one has 1."""
        return math.sqrt(max(_LEAST_SQUARE, 1.0 - float(self.centre @ self.centre)))


def starting_score(share: float, clip: float) -> float:
    """Return the constant starting log-odds of two classes, given the share of the second.

    At the *balanced* score, the clipped residuals of a rare class and of the others add up to 0.
    From any other start, all records first push towards it, along the error of the centre.  The
    push is weaker the more alike the classes are, so training then starts closer to the log-odds of
    the share.
    """
    rare = min(share, 1.0 - share)
    residual = min(clip, 1.0 - rare) * rare / (1.0 - rare)
    balanced, own = float(special.logit(residual)), float(special.logit(rare))
    pull = min(1.0, _PULL * (1.0 - 2.0 * rare))
    return math.copysign(pull * balanced + (1.0 - pull) * own, share - 0.5)


def _score_grid(theta: FloatArray) -> FloatArray:
    """Round parameters so that scores of features on the grid are exact."""
    bits = 36 - len(theta).bit_length()
    step = 2.0 ** (math.frexp(float(np.abs(theta).max()))[1] - bits)
    return np.asarray(np.rint(theta / step) * step)


def clip_and_sum(
    block: EncodedBlock,
    residuals: FloatArray,
    lengths: FloatArray,
    *,
    clip: float,
    starts: IntArray | None = None,
    weights: FloatArray | None = None,
    step: float = 0.0,
) -> FloatArray:
    """Sum the clipped gradients of a block's records; the last row is that of the constant 1.

    ``starts`` are the first rows of persons.  ``weights`` from 0 to 1 multiply clipped residuals,
    which never increases a norm.  Summands are truncated to multiples of ``step``;
    :func:`path_sensitivity` covers all other rounding errors.
    """
    clipped = clip_residuals(residuals, lengths, clip, starts)
    if weights is not None:
        clipped *= weights[:, None]
    if step:
        clipped = np.trunc(clipped / step) * step
    return np.vstack([block.transpose_dot(clipped), clipped.sum(axis=0)])


# ── The model, and the descent that fits it ───────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class GradientModel:
    """A released linear model: every field is public or computed from noisy sums."""

    kind: ClassVar[str] = "linear model"
    method: ClassVar[str] = "gradient"

    coefficients: FloatArray
    intercepts: FloatArray
    loss: str
    descent: Descent
    scale: float

    @property
    def released_size(self) -> int:
        """Number of noisy sums of one step."""
        return int(self.coefficients.size + self.intercepts.size)

    @staticmethod
    def encode(encoder: Encoder, columns: Mapping[str, Values]) -> EncodedBlock:
        """Return the features of raw columns."""
        return encoder.rows(columns)[:]

    def scores(self, block: EncodedBlock) -> FloatArray:
        """Return the scores of encoded records."""
        return block @ self.coefficients + self.intercepts

    def rescale(self, slope: float, offsets: FloatArray) -> GradientModel:
        """Return the model with scores slope·score + offset."""
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
        """Restore the model from the fields of :meth:`to_dict`."""
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


@dataclass(eq=False, repr=False)
class TrainingRows:
    """A shard of encoded rows with their target.

    Slices of ``features`` are blocks.  ``codes`` are the target as it was read.  ``weights`` are
    from 0 to 1, or None for all 1.  A row of weight 0, such as one of an unlisted class, has no
    influence.
    """

    features: Features
    codes: NDArray[np.generic]
    weights: FloatArray | None = None
    persons: Persons | None = None
    #: Arrays of more bytes are kept on disk.
    memory: int | None = None
    #: Derived from the fields above and public numbers; never sent or stored.
    cache: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "cache": {}}

    def cuts(self, size: int | None = None) -> list[slice]:
        """Return blocks of rows that never split a person."""
        return row_cuts(len(self.codes), self.persons, size or BLOCK_ROWS)

    def starts(self, rows: slice) -> IntArray | None:
        """Return the first rows of persons within a block."""
        return None if self.persons is None else self.persons.starts_within(rows)

    def weight(self, rows: slice) -> FloatArray | None:
        """Return the weights of a block."""
        return None if self.weights is None else self.weights[rows]

    def residuals(self, loss: Loss, scores: FloatArray, rows: slice) -> FloatArray:
        """Return the residuals of a block; 0 for rows of weight 0.

        Rows of weight 0 also leave the clip of their person unused.
        """
        residuals = loss.residuals(scores, loss.target(self.codes[rows]))
        return residuals if self.weights is None else residuals * (self.weights[rows, None] > 0)


def _sum_clipped_rows(rows: TrainingRows, radius: float, step: float) -> FloatArray:
    """Sum the shard's rows, each clipped to the radius."""
    total = 0.0
    for cut in rows.cuts():
        block, persons = rows.features[cut], rows.persons
        weights = np.ones(block.shape[0]) if persons is None else persons.weights[cut]
        lengths = row_lengths(block.squares(), block.shape[1], 0.0)
        clipped = clip_residuals(weights[:, None], lengths, radius, rows.starts(cut))
        total = total + block.transpose_dot(np.trunc(clipped / step) * step)[:, 0]
    return np.asarray(total)


def measure_centre(rows: Shards[TrainingRows], share: BudgetShare, *, records: int) -> FloatArray:
    """Measure the noisy mean of all encoded rows, on the feature grid.

    Means that are small against their noise are shrunk towards 0.

    Guarantee: a ``share.mu``-GDP release under replace-one, within the slack of its draws: a record
    adds a vector of length at most the radius.
    Theorem: X22 (proofs/gradient-descent.md, claims 1 to 3), for persons X26 (proofs/persons.md).
    """
    sums = share.sums(sensitivity=path_sensitivity(_MEAN_RADIUS, records))
    step = summand_step(_MEAN_RADIUS, records)
    noisy = sums.measure(rows.sum(_sum_clipped_rows, _MEAN_RADIUS, step))
    # From here on nothing but the noisy sum is used: post-processing.
    signal = np.square(noisy / sums.scale)
    return on_grid(noisy / records * signal / (1.0 + signal))


@dataclass(frozen=True, eq=False)
class _Iterate:
    """Parameters on the score grid, the centre of rows, and the step of summands."""

    theta: FloatArray
    centre: FloatArray | None
    step: float


def _gradient(rows: TrainingRows, loss: Loss, descent: Descent, iterate: _Iterate) -> FloatArray:
    """Sum the shard's clipped gradients; the last row is that of the constant 1.

    With a centre c, residuals are computed and clipped for the centred rows x - c, but the sum is
    over x itself.
    """
    theta, centre = iterate.theta, iterate.centre
    total = np.zeros_like(theta)
    offset = descent.intercept * theta[-1]
    if centre is not None:
        offset = offset - centre @ theta[:-1]
    for cut in rows.cuts():
        block, starts = rows.features[cut], rows.starts(cut)
        squares = block.squares()
        if centre is not None:
            # ‖x - c‖², exact on the grid.
            squares = squares - 2.0 * (block @ centre[:, None])[:, 0] + centre @ centre
        lengths = row_lengths(squares, block.shape[1], descent.intercept)
        scores = block @ theta[:-1] + offset
        residuals = rows.residuals(loss, scores, cut)
        total += clip_and_sum(
            block,
            residuals,
            lengths,
            clip=descent.clip,
            starts=starts,
            weights=rows.weight(cut),
            step=iterate.step,
        )
    return total


def descend(
    rows: Shards[TrainingRows],
    loss: Loss,
    descent: Descent,
    share: BudgetShare,
    *,
    records: int,
    width: int,
    start: Start | None = None,
) -> GradientModel:
    """Descend on all rows with noise charged to ``share``; return the mean of the last iterates.

    ``rows`` are shards of :class:`TrainingRows` with ``width`` features; ``records`` is the
    number of all rows, or of persons with all their rows.  ``start`` needs an intercept and
    features on the grid.

    Guarantee: the noisy sums of all steps, and so anything computed from them, are within
    ``release_slack(steps·parameters)`` of a ``share.mu``-GDP pair under replace-one, for every
    record of any table.
    Theorem: X22 (proofs/gradient-descent.md, claims 1 to 3); for persons, X26 (proofs/persons.md).
    Assumes: features and target of a record are functions of that record and of public numbers (or
    of releases from the same budget); the number of records is public; a row's scores are
    computed from that row.  With persons, features are on the grid (:func:`on_grid`).
    Numerics: a record's clipped gradient is at most the clip in exact arithmetic; rounding of the
    sum is part of the sensitivity; the noisy sum is put on a grid.
    Edge cases: records of weight 0 have no effect.
    """
    sensitivity = path_sensitivity(descent.clip, records)
    gradients = share.sums(sensitivity=sensitivity, times=descent.steps)

    centre = None if start is None else start.centre
    reach = descent.clip
    theta = np.zeros((width + 1, loss.outputs))
    if start is not None:
        # Residuals are at most clip/intercept, so that ‖x‖·‖v‖ is at most this.
        reach *= 1.0 + math.sqrt(start.centre @ start.centre) / descent.intercept
        theta[-1] = start.score / descent.intercept
    step = summand_step(reach, records)
    velocity, mean = np.zeros_like(theta), np.zeros_like(theta)
    first = descent.steps - max(1, math.ceil(descent.steps * descent.averaged))
    for number in range(descent.steps):
        exact = rows.sum(_gradient, loss, descent, _Iterate(_score_grid(theta), centre, step))
        if centre is not None:
            exact[:-1] -= np.outer(centre, exact[-1])
        exact[-1] *= descent.intercept  # the constant feature is `intercept`, not 1
        # From here on nothing but the noisy sum is used: post-processing.
        slope = gradients.measure(exact) / records
        velocity = descent.momentum * velocity + (1 - descent.momentum) * slope
        theta = theta - descent.rate * velocity
        theta[:-1] /= 1 + descent.rate * descent.decay
        if number >= first:
            mean += (theta - mean) / (number - first + 1)
    mean = _score_grid(mean)
    intercepts = descent.intercept * mean[-1]
    if centre is not None:
        intercepts = intercepts - centre @ mean[:-1]
    return GradientModel(mean[:-1], intercepts, loss.name, descent, gradients.scale)


def most_draws(width: int, outputs: int) -> int:
    """Return an upper bound on the noise draws of a default descent."""
    parameters = outputs * (width + 1)
    return max(parameters, min(_STEPS * parameters, MOST_DRAWS))
