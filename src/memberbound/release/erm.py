"""Regularised empirical risk with linear scores: θ(D) = argmin (1/n)Σ_{x∈D} ℓ(θ; x) + (λ/2)‖θ‖².

Minimised until the gradient is certified to be small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize
from scipy.sparse.linalg import LinearOperator, cg

from memberbound.errors import InputError, SearchError, nonnegative, one_of, positive, whole_number
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up, up_array
from memberbound.quantities import significant
from memberbound.release.calibration import Rows
from memberbound.release.losses import LOSSES, Loss, loss_named

__all__ = [
    "DENSE",
    "Fit",
    "Gradients",
    "Objective",
    "RegularisedRisk",
    "minimised",
    "regularisation_from_c",
]

# ── Minimise a strongly convex objective until its gradient is certified to be small ──────────────
#
# Only the gradient matters for what is proved: a point where the exact objective's gradient has
# norm at most τ is within τ/λ of the minimiser.  How it was found does not.

#: Up to this many coordinates the Hessian may be a dense matrix …
DENSE = 1500
#: … and up to this many it is factored at every step even where a near enough factor is known.
SMALL = 128
_STEPS = 200
_HALVINGS = 40


class Objective(Protocol):
    """A smooth strongly convex function of a vector."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient, to floating-point accuracy."""
        ...

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the dense (generalised) Hessian."""
        ...

    def curved(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return Hessian·direction."""
        ...

    def gradient_norm(self, theta: FloatArray) -> float:
        """Return the norm of the exact gradient, from above."""
        ...


@dataclass(frozen=True, eq=False)
class Fit:
    """A point and a proved bound on the norm of the exact objective's gradient there."""

    theta: FloatArray
    gradient_norm: float
    steps: int


def minimised(
    objective: Objective,
    start: FloatArray,
    tolerance: float,
    near: FloatArray | None = None,
) -> Fit:
    """Return a point whose certified gradient norm is at most ``tolerance``, or fail loudly.

    Newton's method with backtracking up to :data:`DENSE` coordinates; beyond, L-BFGS and then
    Newton steps by conjugate gradients.  ``near`` is a lower Cholesky factor of a Hessian near the
    objective's: with it a Newton step takes a few conjugate gradients.
    """
    theta = start.astype(np.float64).copy()
    if theta.size <= SMALL:
        near = None
    dense = theta.size <= DENSE and near is None
    if theta.size > DENSE:
        rough = optimize.minimize(
            objective.value_and_gradient,
            theta,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "gtol": tolerance / np.sqrt(theta.size), "ftol": 0.0},
        )
        theta = np.asarray(rough.x, dtype=np.float64)
    value, gradient = objective.value_and_gradient(theta)
    for step in range(_STEPS + 1):
        certified = objective.gradient_norm(theta)
        if certified <= tolerance:
            theta.setflags(write=False)
            return Fit(theta, certified, step)
        direction = _newton(objective, theta, gradient, near, dense=dense)
        found = _along(objective, theta, direction, value, gradient)
        if found is None:
            break
        theta, value, gradient = found
    raise SearchError(
        f"the minimiser must reach a gradient norm of {significant(tolerance, 'lower', 3)}, but "
        f"stopped at {significant(certified, 'upper', 3)}. Raise the tolerance or the "
        "regularisation, or rescale the features."
    )


def _newton(
    objective: Objective,
    theta: FloatArray,
    gradient: FloatArray,
    near: FloatArray | None,
    *,
    dense: bool,
) -> FloatArray:
    if dense:
        return -np.asarray(linalg.solve(objective.hessian(theta), gradient, assume_a="pos"))
    shape = (theta.size, theta.size)
    operator = LinearOperator(
        shape, matvec=lambda v: objective.curved(theta, np.ravel(v)), dtype=np.float64
    )
    known = (
        None
        if near is None
        else LinearOperator(
            shape, matvec=lambda v: linalg.cho_solve((near, True), np.ravel(v)), dtype=np.float64
        )
    )
    # Inexact steps: the better the point, the more a good direction is worth.
    aim = min(0.1, max(float(np.linalg.norm(gradient)), 1e-4))
    solved, _ = cg(operator, -gradient, rtol=aim, maxiter=500, M=known)
    return np.asarray(solved)


def _along(
    objective: Objective,
    theta: FloatArray,
    direction: FloatArray,
    value: float,
    gradient: FloatArray,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Backtrack until the value falls enough or, near the end, the gradient does."""
    fall = float(gradient @ direction)
    size = float(np.linalg.norm(gradient))
    length = 1.0
    for _ in range(_HALVINGS):
        moved = theta + length * direction
        new_value, new_gradient = objective.value_and_gradient(moved)
        falls = new_value <= value + 1e-4 * length * fall
        if np.isfinite(new_value) and (falls or float(np.linalg.norm(new_gradient)) < 0.9 * size):
            return moved, new_value, new_gradient
        length /= 2
    return None


# ── Regularised empirical risk: θ(D) = argmin (1/n)Σ_{x∈D} ℓ(θ; x) + (λ/2)‖θ‖², for linear scores
#
# Rows may be clipped to a norm; then a constant 1 is appended, so the intercept is one of the
# coordinates of θ and is *regularised like the others* (X3 needs strong convexity in all of θ).
# Centre the features, and a regression target, if that matters.

#: The default tolerance is this share of a record's largest effect on the mean gradient.
_SHARE = 1e-6


def regularisation_from_c(loss: str, c: float, size: int) -> float:
    """Return the λ at which scikit-learn's ``C`` and n rows give the same minimiser.

    C·Σℓ + ½‖θ‖² is 1/(C·n)-regularised mean loss; scikit-learn's squared hinge lacks the ½ of
    ours, and its Ridge takes α = 1/C for ‖y - Xθ‖² + α‖θ‖², which is α/n here.

    Examples:
        >>> regularisation_from_c("logistic", 0.01, 200)
        0.5
    """
    count = whole_number("size", size)
    halved = one_of("loss", loss, LOSSES) == "squared-hinge"
    return 1.0 / ((2.0 if halved else 1.0) * positive("c", c) * count)


def _norms(table: FloatArray) -> FloatArray:
    """Row norms from above."""
    squares = np.einsum("ij,ij->i", table, table)
    return up_array(np.sqrt(squares * (1 + 2 * sum_slack(table.shape[1])) + 1e-300), 4)


@dataclass(frozen=True, eq=False)
class Gradients:
    """The records' gradients r ⊗ x at one θ, kept as residuals and features.

    ``error`` bounds ‖r̂ - r‖ per record: what the residuals lost to rounding.
    """

    residuals: FloatArray
    design: FloatArray
    error: FloatArray
    _sizes: FloatArray = field(init=False, repr=False)
    _slips: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        size = np.einsum("ij,ij->i", self.residuals, self.residuals)
        size = size * np.einsum("ij,ij->i", self.design, self.design)
        object.__setattr__(self, "_sizes", size)
        object.__setattr__(self, "_slips", up_array(self.error * _norms(self.design)))

    def vectors(self) -> FloatArray:
        """Return all gradients as (N, outputs·features) rows."""
        table = self.residuals[:, :, None] * self.design[:, None, :]
        return table.reshape(len(self.design), -1)

    @property
    def slips(self) -> FloatArray:
        """Bound on the rounding error of each gradient's norm."""
        return self._slips

    def distances(self, first: Rows, second: Rows) -> FloatArray:
        """Return ‖g_x - g_x'‖ from above, a row per x in ``first``, a column per x' in ``second``.

        ‖r⊗x - r'⊗x'‖² = ‖r‖²‖x‖² + ‖r'‖²‖x'‖² - 2⟨r,r'⟩⟨x,x'⟩: two small matrix products.
        Numerics: with p and m coordinates the three terms are off by at most
        (2p + 2m + 8)·u·(‖g‖² + ‖g'‖²); four times that is added before the root, and the residuals'
        own error after it.
        """
        both = self._sizes[first][:, None] + self._sizes[second][None, :]
        inner = self.residuals[first] @ self.residuals[second].T
        inner *= self.design[first] @ self.design[second].T
        terms = self.design.shape[1] + self.residuals.shape[1]
        squared = np.maximum(both - 2 * inner, 0.0) + (8 * terms + 64) * UNIT * both + 1e-300
        slips = self._slips[first][:, None] + self._slips[second][None, :]
        return up_array(np.sqrt(squared) + slips, 4)


@dataclass(frozen=True, eq=False)
class RegularisedRisk:
    """A population, a loss and a regularisation: a statistic rows ↦ θ for the calibrators.

    Args:
        features: (N, p) numbers.
        target: class codes 0, 1, …, or numbers for ``ridge``.
        loss: ``logistic``, ``softmax``, ``ridge`` or ``squared-hinge`` (one against the rest).
        regularisation: λ > 0, see :func:`regularisation_from_c`.
        classes: number of classes, if some have no record.
        clip: rows longer than this are scaled down to it, before the constant is appended.
        intercept: append the constant.
        tolerance: largest gradient norm τ of the exact objective that a fit may stop at; by
            default a millionth of what one of N records adds to the gradient.

    Numerics: the statistic is the double vector returned; its certified gradient norm includes all
    rounding.  Rows are sorted first and the search starts at the population's own fit, so the
    result is a function of the set.
    Edge cases: a fit that misses the tolerance raises SearchError.

    Examples:
        >>> risk = RegularisedRisk([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], "logistic", 0.1)
        >>> theta = risk(np.arange(4))
        >>> theta.round(3).tolist(), risk.predict(theta, [[0.0], [3.0]]).tolist()
        ([0.987, -0.972], [0, 1])
    """

    features: FloatArray
    target: NDArray[np.generic]
    loss: str
    regularisation: float
    classes: int | None = None
    clip: float | None = None
    intercept: bool = True
    tolerance: float | None = None
    design: FloatArray = field(init=False, repr=False)
    rule: Loss = field(init=False, repr=False)
    coded: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        features = np.array(self.features, dtype=np.float64)
        if features.ndim != 2 or features.size == 0 or not np.isfinite(features).all():
            raise InputError(
                f"features must be a finite table of numbers, got shape {features.shape!r}."
            )
        object.__setattr__(self, "features", features)
        positive("regularisation", self.regularisation)
        if self.clip is not None:
            positive("clip", self.clip)
        rule, coded = loss_named(self.loss, self.target, self.classes)
        if len(coded) != len(features):
            raise InputError(f"target must have {len(features)} rows, got {len(coded)}.")
        design = self.design_of(features)
        for table in (features, design, coded):
            table.setflags(write=False)
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "coded", coded)
        object.__setattr__(self, "design", design)
        if self.tolerance is not None:
            nonnegative("tolerance", self.tolerance)

    # ---- sizes ----------------------------------------------------------------------------

    @property
    def records(self) -> int:
        """Number of records N."""
        return len(self.design)

    @property
    def dimension(self) -> int:
        """Number of coordinates of θ: outputs times features, the constant included."""
        return int(self.rule.outputs * self.design.shape[1])

    @cached_property
    def norms(self) -> FloatArray:
        """‖x‖ of every record, the constant included, from above."""
        return _norms(self.design)

    @cached_property
    def gradient_tolerance(self) -> float:
        """τ: every fit's gradient norm is certified to be at most this."""
        if self.tolerance is not None:
            return self.tolerance
        size = self.rule.residual_bound or 1.0 + float(np.abs(self.coded).max())
        unit = float(self.norms.max()) * size
        return unit * max(_SHARE / self.records, 16 * sum_slack(self.records + len(self.design.T)))

    @cached_property
    def residual_bounds(self) -> FloatArray:
        """‖r‖ of every record at the fit of *any* subset, from above.

        Without a bound of the loss itself: F(θ*) ≤ F(0), so ‖θ*‖ ≤ √(2·max ℓ(0)/λ), and a fit is
        within τ/λ of θ*; r has slope 1 in the scores.
        """
        if self.rule.residual_bound is not None:
            return np.full(self.records, self.rule.residual_bound)
        zero = np.zeros_like(self.coded)
        reach = math.sqrt(2 * float(self.rule.values(zero, self.coded).max()) / self.regularisation)
        reach += self.gradient_tolerance / self.regularisation
        start = _norms(self.rule.residuals(zero, self.coded))
        return up_array(start + self.norms * reach, 32 + self.coded.shape[1])

    def worst_distances(self, first: Rows, second: Rows) -> FloatArray:
        """Return a bound on ‖g_x - g_x'‖ at the fit of any subset.

        The residual of the logistic loss lies between 0 and ±1, and a convex function of two such
        numbers is largest at their ends; other losses get the sum of the two largest norms.
        """
        lengths = up_array(self.residual_bounds * self.norms)
        if self.rule.name != "logistic":
            return up_array(lengths[first][:, None] + lengths[second][None, :])
        ends = Gradients(1 - 2 * self.coded, self.design, np.zeros(self.records))
        apart = ends.distances(first, second)
        return np.maximum(apart, np.maximum(lengths[first][:, None], lengths[second][None, :]))

    # ---- fitting --------------------------------------------------------------------------

    @cached_property
    def population_fit(self) -> Fit:
        """The fit on all N records: where every search starts."""
        everyone = np.arange(self.records)
        return minimised(
            _Objective(self, everyone), np.zeros(self.dimension), self.gradient_tolerance
        )

    @cached_property
    def _population_factor(self) -> FloatArray | None:
        """Cholesky factor of the population's Hessian, where subsets' fits use it."""
        if not SMALL < self.dimension <= DENSE:
            return None
        return np.asarray(np.linalg.cholesky(self.hessian(self.population_fit.theta)))

    def fit(self, rows: Rows) -> Fit:
        """Return θ of these records with its certified gradient norm."""
        chosen = np.sort(np.asarray(rows, dtype=np.int64))
        if chosen.size == 0 or chosen[0] < 0 or chosen[-1] >= self.records:
            raise InputError(f"rows must be row numbers below {self.records}, and at least one.")
        start = self.population_fit.theta
        near = self._population_factor
        return minimised(_Objective(self, chosen), start, self.gradient_tolerance, near)

    def __call__(self, rows: Rows) -> FloatArray:
        """Return θ of these records."""
        return self.fit(rows).theta

    def gradients(self, theta: ArrayLike) -> Gradients:
        """Return the gradients ∇ℓ(θ; x) of all records."""
        matrix = self._matrix(theta)
        residuals = self.rule.residuals(self.design @ matrix.T, self.coded)
        return Gradients(residuals, self.design, self._residual_error(matrix, residuals))

    def hessian(self, theta: ArrayLike, rows: Rows | None = None) -> FloatArray:
        """Return the objective's Hessian on these records (all by default)."""
        chosen = np.arange(self.records) if rows is None else rows
        return _Objective(self, chosen).hessian(np.asarray(theta, dtype=np.float64))

    def _matrix(self, theta: ArrayLike) -> FloatArray:
        flat = np.asarray(theta, dtype=np.float64)
        if flat.shape != (self.dimension,) or not np.isfinite(flat).all():
            raise InputError(f"theta must be a finite vector of length {self.dimension}.")
        return flat.reshape(self.rule.outputs, -1)

    def _residual_error(
        self, matrix: FloatArray, residuals: FloatArray, rows: Rows | None = None
    ) -> FloatArray:
        """‖r̂ - r‖: scores are inner products of p terms, r has a slope and a few roundings."""
        chosen = slice(None) if rows is None else rows
        size = up(float(np.linalg.norm(matrix)), matrix.size)
        scores = self.rule.slope * 2 * sum_slack(matrix.shape[1]) * self.norms[chosen] * size
        last = 1.0 + _norms(residuals) + np.abs(self.coded[chosen]).sum(axis=1)
        return up_array(scores + (self.rule.outputs + 64) * UNIT * last)

    # ---- using θ --------------------------------------------------------------------------

    def design_of(self, features: ArrayLike) -> FloatArray:
        """Return features clipped and with the constant, as θ reads them."""
        table = np.array(features, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.features.shape[1]:
            raise InputError(
                f"features must have {self.features.shape[1]} columns, got shape {table.shape!r}."
            )
        if self.clip is not None:
            length = np.linalg.norm(table, axis=1, keepdims=True)
            table = table * np.minimum(1.0, self.clip / np.maximum(length, 1e-300))
        return np.hstack([table, np.ones((len(table), 1))]) if self.intercept else table

    def decision(self, theta: ArrayLike, features: ArrayLike) -> FloatArray:
        """Return the scores, one column per output."""
        return np.asarray(self.design_of(features) @ self._matrix(theta).T)

    def predict(self, theta: ArrayLike, features: ArrayLike) -> NDArray[np.generic]:
        """Return class codes, or numbers for ``ridge``."""
        return self.rule.predicted(self.decision(theta, features))

    def probabilities(self, theta: ArrayLike, features: ArrayLike) -> FloatArray:
        """Return class probabilities (``logistic``, ``softmax``)."""
        return self.rule.probabilities(self.decision(theta, features))

    def score(self, theta: ArrayLike, features: ArrayLike, target: ArrayLike) -> float:
        """Return the accuracy, or R² for ``ridge``."""
        said, truth = self.predict(theta, features), np.asarray(target)
        if self.rule.name != "ridge":
            return float(np.mean(said == truth))
        spread = float(np.square(truth - truth.mean(axis=0)).sum())
        return 1.0 - float(np.square(said - truth).sum()) / max(spread, 1e-300)


class _Objective:
    """The objective on some rows, for the minimiser."""

    def __init__(self, risk: RegularisedRisk, rows: Rows) -> None:
        self.risk, self.rows = risk, rows
        self.design, self.coded = risk.design[rows], risk.coded[rows]
        self.outputs = risk.rule.outputs

    def _scores(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self.design @ theta.reshape(self.outputs, -1).T)

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        rule, weight, n = self.risk.rule, self.risk.regularisation, len(self.rows)
        scores = self._scores(theta)
        value = float(rule.values(scores, self.coded).mean()) + weight / 2 * float(theta @ theta)
        slope = rule.residuals(scores, self.coded).T @ self.design / n
        return value, slope.ravel() + weight * theta

    def hessian(self, theta: FloatArray) -> FloatArray:
        weights = self.risk.rule.curvatures(self._scores(theta), self.coded) / len(self.rows)
        p = self.design.shape[1]
        table = np.empty((self.outputs, p, self.outputs, p))
        for i in range(self.outputs):
            for j in range(i + 1):
                block = self.design.T @ (weights[:, i, j, None] * self.design)
                table[i, :, j, :] = block
                table[j, :, i, :] = block.T
        flat = table.reshape(theta.size, theta.size)
        flat[np.diag_indices(theta.size)] += self.risk.regularisation
        return flat

    def curved(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        moved = self._scores(direction)
        slope = self.risk.rule.apply_curvature(self._scores(theta), self.coded, moved)
        along = (slope.T @ self.design).ravel() / len(self.rows)
        return np.asarray(along + self.risk.regularisation * direction)

    def gradient_norm(self, theta: FloatArray) -> float:
        """The computed gradient's norm plus what the residuals and the sum over rows can lose."""
        risk, n = self.risk, len(self.rows)
        residuals = risk.rule.residuals(self._scores(theta), self.coded)
        gradient = (residuals.T @ self.design / n).ravel() + risk.regularisation * theta
        norms = risk.norms[self.rows]
        error = risk._residual_error(theta.reshape(self.outputs, -1), residuals, self.rows)
        size = float((_norms(residuals) * norms).mean())
        lost = float((error * norms).mean()) + 2 * sum_slack(n) * size
        lost += 8 * UNIT * risk.regularisation * float(np.linalg.norm(theta))
        return up(float(np.linalg.norm(gradient)) + 2 * lost, 64 + theta.size)
