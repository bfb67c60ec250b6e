"""Minimise a strongly convex objective until its gradient is certified to be small.

Only the gradient matters for what is proved: a point where the exact objective's gradient has norm
at most τ is within τ/λ of the minimiser.  How it was found does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg, optimize
from scipy.sparse.linalg import LinearOperator, cg

from memberbound.errors import SearchError
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import significant

__all__ = ["DENSE", "Fit", "Objective", "minimised"]

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
