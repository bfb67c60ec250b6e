"""How far a fit can move when one record is replaced, from that fit alone (X3).

With θ the fit on D, θ' the one on D' = D - x + x', and F' the objective on D',

    H̄·(θ - θ') = u,   u = (∇ℓ(θ;x') - ∇ℓ(θ;x))/n + e,   ‖e‖ ≤ τ_D + τ,

where H̄ is F's Hessian averaged over the segment.  *Worst curvature*: H̄ ≥ λ gives ‖u‖/λ.  *Local
curvature*: for losses whose curvature cannot change fast (logistic, softmax, squares) H̄ lies
between multiples of the Hessian seen at θ, which is much larger than λ in most directions, and the
bound can be taken in the metric of shaped noise.  Proofs: proofs/convex-learners.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from memberbound.errors import InputError
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up, up_array
from memberbound.protection.calibration import Rows
from memberbound.protection.erm import Gradients, RegularisedRisk
from memberbound.protection.minimiser import DENSE, SMALL, Fit

__all__ = ["Metric", "SwapLengths"]

#: The Hessian's rounding relative to λ beyond which local curvature is not used.
_WORST_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Metric:
    """Lengths ‖A⁻¹a‖ for a lower triangular noise factor A; None is the Euclidean metric."""

    factor: FloatArray | None = None
    stretch: float = field(init=False)
    _loss: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.factor is None:
            object.__setattr__(self, "stretch", 1.0)
            object.__setattr__(self, "_loss", 0.0)
            return
        table = np.asarray(self.factor, dtype=np.float64)
        size = float(np.linalg.norm(table))
        # Singular values are computed to a small multiple of d·u·‖A‖.
        least = float(np.linalg.svd(table, compute_uv=False)[-1]) - 64 * len(table) * UNIT * size
        if least <= 1e-8 * size:
            raise InputError(
                "shape must be well conditioned (below 1e8). Add a multiple of the identity."
            )
        object.__setattr__(self, "stretch", up(1.0 / least, 4))
        object.__setattr__(self, "_loss", 2 * sum_slack(len(table)) * size / least)

    def applied(self, columns: FloatArray) -> FloatArray:
        """Return A⁻¹ times columns; each is off by at most ``loss`` of its own length."""
        if self.factor is None:
            return columns
        return np.asarray(linalg.solve_triangular(self.factor, columns, lower=True))

    @property
    def loss(self) -> float:
        """Relative error of :meth:`applied`."""
        return self._loss


@dataclass(frozen=True, eq=False)
class _Curvature:
    """The Hessian at the fit, factored, and every record in its metric."""

    close: float  # ω: |H - L·Lᵀ| ≤ ω·L·Lᵀ
    reach: float  # bound on ‖L⁻¹‖
    spread: float  # bound on ‖A⁻¹L⁻ᵀ‖
    weights: FloatArray  # κ_x: K_x/n ≤ κ_x·L·Lᵀ
    widest: float  # scores of any record spread by at most this times ‖Lᵀh‖
    whitened: _Points  # L⁻¹g_x
    moved: _Points  # A⁻¹L⁻ᵀL⁻¹g_x


@dataclass(frozen=True, eq=False)
class _Points:
    """Vectors as columns, each known up to ``error``."""

    columns: FloatArray
    error: FloatArray
    squares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "squares", np.einsum("ij,ij->j", self.columns, self.columns))

    def distances(self, first: Rows, second: Rows) -> FloatArray:
        both = self.squares[first][:, None] + self.squares[second][None, :]
        inner = self.columns[:, first].T @ self.columns[:, second]
        squared = np.maximum(both - 2 * inner, 0.0)
        squared += (8 * len(self.columns) + 64) * UNIT * both + 1e-300
        return up_array(np.sqrt(squared) + self.error[first][:, None] + self.error[second])


@dataclass(frozen=True, eq=False)
class SwapLengths:
    """Bounds on ‖A⁻¹(θ(D) - θ(D'))‖ for every swap of an insider for an outsider.

    Guarantee: for x ∈ D and x' ∉ D, and any points θ(D), θ(D') at which the exact objectives'
    gradients have norms at most ``fit.gradient_norm`` and the risk's tolerance.
    Theorem: X3, proofs/convex-learners.md claims 1 to 3.  Assumes: nothing beyond the convexity of
    the loss and λ > 0.
    Numerics: from above; distances, factors and solves carry their rounding.
    Edge cases: ``local`` has no effect for the squared hinge, beyond 1500 coordinates, and where λ
    is too small for the Hessian's rounding.
    """

    risk: RegularisedRisk
    rows: Rows
    fit: Fit
    metric: Metric
    gradients: Gradients = field(init=False, repr=False)
    curvature: _Curvature | None = field(init=False, repr=False)

    @classmethod
    def of(
        cls, risk: RegularisedRisk, rows: Rows, metric: Metric, *, local: bool = True
    ) -> SwapLengths:
        """Fit once, on ``rows``."""
        found = cls(risk, rows, risk.fit(rows), metric)
        if local:
            object.__setattr__(found, "curvature", found._curved())
        return found

    def __post_init__(self) -> None:
        object.__setattr__(self, "gradients", self.risk.gradients(self.fit.theta))
        object.__setattr__(self, "curvature", None)

    @property
    def _leftover(self) -> float:
        """‖e‖: what two inexact minimisers add to u."""
        return up(self.fit.gradient_norm + self.risk.gradient_tolerance)

    def lengths(self, inside: Rows, outside: Rows) -> FloatArray:
        """Return the bounds, a row per insider, a column per outsider."""
        n, weight = len(self.rows), self.risk.regularisation
        push = self.gradients.distances(inside, outside) / n + self._leftover
        plain = up_array(push / weight, 16)
        worst = up_array(plain * self.metric.stretch)
        if self.curvature is None:
            return worst
        return np.minimum(worst, self._local(self.curvature, inside, outside, plain))

    def _local(
        self, seen: _Curvature, inside: Rows, outside: Rows, plain: FloatArray
    ) -> FloatArray:
        """Claim 3, for every pair; ∞ where it says nothing."""
        n = len(self.rows)
        white = seen.whitened.distances(inside, outside) / n + seen.reach * self._leftover
        left = (1 - seen.close - seen.weights[inside])[:, None] * (1 - 1e-12)
        more = (1 + seen.close + seen.weights[outside])[None, :] * (1 + 1e-12)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.risk.rule.flatness == 0.0:
                low, high = left, more
            else:
                share = up_array(seen.widest * white / left, 16)
                turn = np.where(
                    (left > 0) & (share < 1), -np.log1p(-np.minimum(share, 1.0)), np.inf
                )
                root = 1.0 if self.risk.rule.outputs == 1 else math.sqrt(2.0)
                turn = np.minimum(turn, root * float(self.risk.norms.max()) * plain)
                turn = np.maximum(turn * (1 + 1e-12), 1e-12)
                low = left * (-np.expm1(-turn) / turn) * (1 - 1e-12)
                high = more * (np.expm1(np.minimum(turn, 700.0)) / turn) * (1 + 1e-12)
            first = seen.spread * white / low
            moved = seen.moved.distances(inside, outside) / n
            moved += seen.spread * seen.reach * self._leftover
            centre, rest = (1 / low + 1 / high) / 2, (1 / low - 1 / high) / 2
            second = centre * moved + rest * seen.spread * white
            found = np.minimum(first, second) * (1 + 1e-12)
        return np.where((left > 0) & np.isfinite(found), found, np.inf)

    def _curved(self) -> _Curvature | None:
        risk, theta = self.risk, self.fit.theta
        d, n, weight = risk.dimension, len(self.rows), risk.regularisation
        if risk.rule.flatness is None or d > DENSE:
            return None
        hessian = risk.hessian(theta, self.rows)
        trace = float(np.trace(hessian))
        # Rounding of the Hessian: of sums over rows of terms whose absolute values add up to at
        # most the mean of ‖x‖², of scores (felt through the flatness), and of the factor.
        norms = risk.norms
        mean = float(np.square(norms[self.rows]).mean())
        size = float(np.linalg.norm(theta)) * float(norms.max())
        terms = 2 * sum_slack(n + d + 64) + 2 * sum_slack(risk.design.shape[1]) * size
        close = 2 / weight * (terms * 2 * mean + 4 * sum_slack(d) * trace + 8 * UNIT * weight)
        if not close <= _WORST_ROUNDING:
            return None
        factor = np.linalg.cholesky(hessian)
        reach = math.sqrt((1 + _WORST_ROUNDING) / weight)  # L·Lᵀ ≥ λ less its rounding
        solve = 2 * sum_slack(d) * reach * float(np.linalg.norm(factor)) * 1.01
        vectors = self.gradients.vectors().T
        white = linalg.solve_triangular(factor, vectors, lower=True)
        lost = solve * np.linalg.norm(white, axis=0) + reach * (
            self.gradients.slips + 2 * UNIT * np.linalg.norm(vectors, axis=0)
        )
        back = linalg.solve_triangular(factor, white, lower=True, trans="T")
        moved = self.metric.applied(back)
        slip = self.metric.stretch * (solve * np.linalg.norm(back, axis=0) + reach * lost)
        slip = slip + self.metric.loss * np.linalg.norm(moved, axis=0)
        inverse = np.asarray(linalg.solve_triangular(factor, np.eye(d), lower=True))
        weights, widest = self._leverages(inverse, solve)
        spread = reach
        if self.metric.factor is not None or d <= SMALL:
            table = self.metric.applied(inverse.T)
            # All of them: LAPACK's search for one fails on multiples of the identity.
            top = linalg.eigvalsh(table @ table.T)[-1]
            exact = solve * float(np.linalg.norm(inverse)) * self.metric.stretch
            exact += self.metric.loss * float(np.linalg.norm(table))
            spread = math.sqrt(max(float(top), 0.0)) * (1 + 1e-9) + 2 * exact
            spread = min(spread, reach * self.metric.stretch)
        return _Curvature(
            close,
            reach,
            spread,
            weights,
            widest,
            _Points(white, up_array(2 * lost, 8)),
            _Points(moved, up_array(2 * slip, 8)),
        )

    def _leverages(self, inverse: FloatArray, solve: float) -> tuple[FloatArray, float]:
        """κ_x for every record, and how far the scores of any record can spread per unit of ‖Lᵀh‖.

        With V_x the vectors L⁻¹(e_c ⊗ x), c = 1 … m, and G = VᵀV: K_x/n ≤ λ_max(W^½GW^½)/n, at most
        the trace of W·G; scores c and c' of a record differ by at most ‖V_c - V_c'‖·‖Lᵀh‖.
        """
        risk = self.risk
        m, p, d = risk.rule.outputs, risk.design.shape[1], risk.dimension
        scores = risk.design @ self.fit.theta.reshape(m, -1).T
        weights = risk.rule.curvatures(scores, risk.coded)
        blocks = inverse.reshape(d, m, p)
        off = 2 * (solve + sum_slack(p)) * float(np.linalg.norm(inverse))
        # Curvatures feel the rounding of scores, relatively.
        size = float(np.linalg.norm(self.fit.theta)) * float(risk.norms.max())
        blur = 4 * sum_slack(p) * size
        kappa, widest = np.empty(risk.records), 0.0
        step = max(1, 2**22 // (d * m))
        for start in range(0, risk.records, step):
            part = slice(start, start + step)
            design = risk.design[part]
            vectors = np.stack([design @ blocks[:, c, :].T for c in range(m)], axis=1)
            gram = vectors @ vectors.transpose(0, 2, 1)
            own = np.einsum("nii->ni", gram)
            error = off * risk.norms[part]
            slack = 2 * error * np.sqrt(own.max(axis=1)) + error**2
            slack = slack + 2 * sum_slack(d) * own.max(axis=1)
            if risk.rule.name == "ridge":
                here = np.linalg.eigvalsh(gram)[:, -1] * (1 + 1e-12) + m * slack
            else:
                here = np.einsum("nij,nij->n", weights[part], gram)
                here = here + np.abs(weights[part]).sum(axis=(1, 2)) * (slack + 1e-12 * own.max())
            kappa[part] = here / len(self.rows) * (1 + 1e-9 + blur)
            if m == 1:
                wide = own[:, 0] + slack
            else:
                pairs = own[:, :, None] + own[:, None, :] - 2 * gram
                wide = pairs.max(axis=(1, 2)) + 4 * slack
            widest = max(widest, float(wide.max()))
        return kappa, up(math.sqrt(widest), 8)
