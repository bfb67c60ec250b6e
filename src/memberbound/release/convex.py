"""Least Gaussian noise for a regularised convex learner, every record from one fit each (X3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from joblib import cpu_count
from scipy import linalg

from memberbound.errors import InputError, SearchError, fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared
from memberbound.numerics.roots import least_scale, least_whole
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up, up_array
from memberbound.numerics.threads import one_thread
from memberbound.quantities import Certificate, significant
from memberbound.release.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Record,
    Rows,
    ScaleFamily,
    checked_eta,
    distance_target,
    eta_from_distance,
    mean_bounds,
)
from memberbound.release.erm import DENSE, SMALL, Fit, Gradients, RegularisedRisk
from memberbound.release.noise import ShapedGaussianNoise
from memberbound.release.refitting import subset_assumptions

__all__ = [
    "Metric",
    "SwapLengths",
    "calibrate_convex",
    "pilot_scale",
]

# ── How far a fit can move when one record is replaced, from that fit alone (X3) ──────────────────
#
# With θ the fit on D, θ' the one on D' = D - x + x', and F' the objective on D',
#
#     H̄·(θ - θ') = u,   u = (∇ℓ(θ;x') - ∇ℓ(θ;x))/n + e,   ‖e‖ ≤ τ_D + τ,
#
# where H̄ is F's Hessian averaged over the segment.  *Worst curvature*: H̄ ≥ λ gives ‖u‖/λ.  *Local
# curvature*: for losses whose curvature cannot change fast (logistic, softmax, squares) H̄ lies
# between multiples of the Hessian seen at θ, which is much larger than λ in most directions, and
# the bound can be taken in the metric of shaped noise.  Proofs: proofs/convex-learners.md.

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


# ── Least Gaussian noise for a regularised convex learner, every record from one fit per subset (X3
#
# For a fresh subset D one fit bounds how far θ moves in *every* swap of an insider for an outsider.
# The mean over a record's opposite side of the distance that noise leaves is a number T_D(x) whose
# mean over D bounds TV(P_in,x, P_out,x): records inside look at swaps that take them out, records
# outside at swaps that bring them in, and either coupling is one of X1's.

#: Bins of swap lengths, and the ratio of the largest to the smallest: 0.6 % steps, upward.
_BINS, _RANGE = 1536, 1e4
#: Scales tested, at most, from a little below the pilot's choice upward.
_STEP, _LOWEST, _HIGHEST = 1.02, 0.98, 4.0
#: Bytes for the table of distances (subsets × records × scales).
_MEMORY = 2**28
#: A record meets all partners on the other side up to this many, beyond a uniform sample of them.
_PARTNERS = 2048
_BLOCK = 2**21
#: Populations beyond this get the coarser worst case.
_PAIRS = 4096
_SUBSETS = {"average": 256, "every": 512}
#: Subsets of a pilot.
_PILOT = 8


def calibrate_convex(
    risk: RegularisedRisk,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "average",
    confidence: float = 0.95,
    subsets: int | None = None,
    shape: FloatArray | None = None,
    local: bool = True,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least certified scale of Gaussian noise on θ(D), round or shaped.

    Guarantee: with probability at least ``confidence`` over the fresh subsets, no attack on the
    released θ gains more than ``eta`` over the blind guess: for the average record, or for every
    one of them at once (union over records).
    Theorem: X3 with X1; proofs/convex-learners.md.
    Assumes: the released θ comes from the same ``risk`` on a uniform subset that calibration has
    not seen; the minimiser meets its tolerance on every subset (zeros are released otherwise).
    Numerics: lengths, bins, distances and means err upward; scales are about 2 % apart.
    Edge cases: few enough subsets are enumerated and the confidence is 1.  If no sampled scale
    beats the worst case over all D (record by record, without sampling), that is returned, with
    confidence 1.  An η that the prior alone keeps (few or nearly all records drawn) needs no noise.

    Args:
        risk: the learner with its population.
        fresh: where calibration draws its subsets.
        eta: the promise, in (0, ½).
        record: ``average`` or ``every``.
        confidence: of the sampled certificate.
        subsets: how many fits; more give less noise (the price of sampling is about ln(N)/subsets).
        shape: a lower triangular factor A for noise s·A·z, chosen without the secret
            (:func:`~memberbound.release.methods.risk_shape`).
        local: also use the curvature seen at the fit (claim 3), not only λ.
        workers: threads; all cores unless given.  The answer does not depend on them.
        progress: called with (fits done, fits).

    Examples:
        >>> points = np.linspace(-1.0, 1.0, 8)[:, None]
        >>> risk = RegularisedRisk(points, points[:, 0], "ridge", 0.5)
        >>> found = calibrate_convex(risk, FreshSubsets(SubsetGame(8, 4)), eta=0.1, record="every")
        >>> found.certificate.confidence, found.certificate.value <= 0.1
        (1.0, True)
    """
    promise, who = checked_eta(eta), one_of("record", record, ("average", "every"))
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    game = fresh.game
    if game.population != risk.records:
        raise InputError(
            f"fresh must draw from the risk's {risk.records} records, got {game.population}."
        )
    count = whole_number("subsets", _SUBSETS[who] if subsets is None else subsets, at_least=2)
    search = _Search.of(risk, game, shape, every=who == "every", local=local)
    family = search.family
    slack = family.slack()
    target = distance_target(game, promise, slack)
    worst = search.worst()
    # Where the prior alone keeps the promise (η ≥ min(π, 1-π)) nothing needs hiding.
    plain = 0.0 if target >= 1 else worst.scale_for(target)
    # Only where every record meets all its partners: a sample of them proves nothing for certain.
    complete = max(game.size, game.population - game.size) <= _PARTNERS
    enumerated = complete and math.comb(game.population, game.size) <= count
    if plain == 0:
        sampled, bound, fits = math.inf, target, 0
    elif enumerated:
        total = math.comb(game.population, game.size)
        everything = combinations(range(game.population), game.size)
        law = search.law(
            (np.array(rows, dtype=np.int64) for rows in everything), total, worst.edges, progress
        )
        sampled, bound, fits = law.scale_for(target), target, total
        level = 1.0
    else:
        sampled, bound, fits = search.sampled(
            fresh,
            worst,
            count=count,
            target=target,
            confidence=level,
            plain=plain,
            workers=None if workers is None else whole_number("workers", workers),
            progress=progress,
        )
    chosen, route = (sampled, "fits") if sampled < plain else (plain, "worst case")
    if route == "worst case":
        level, bound = 1.0, target
    tolerance = risk.gradient_tolerance
    certificate = Certificate(
        quantity="eta",
        value=eta_from_distance(game, bound, slack),
        direction="upper",
        game=SubsetGame(game.population, game.size, record),
        theorems=("X1", "X3"),
        assumptions=(
            *subset_assumptions(
                game,
                noisy=chosen > 0,
                sampled=level < 1,
                coins="The minimiser is a function of the training set alone.",
            ),
            f"The minimiser reaches a gradient norm of {significant(tolerance, 'upper', 3)} on "
            "every subset that may be drawn; should it not, zeros are released with the same "
            "noise, and that is not covered.",
        ),
        confidence=level,
    )
    details: dict[str, object] = {
        "scale": chosen,
        "route": route,
        "worst_case_scale": plain,
        "regularisation": risk.regularisation,
        "clip": risk.clip,
        "enumerated": enumerated,
    }
    return Calibration(family.law(chosen), certificate, promise, "convex", fits, details)


def pilot_scale(
    risk: RegularisedRisk, fresh: FreshSubsets, *, eta: float, confidence: float = 0.95
) -> float:
    """Return about the scale that :func:`calibrate_convex` will find, from a few subsets.

    The sample's own mean is not enough: where the worst case is far above what is seen, a sample
    proves little, and noise for the worst case is what the certificate will ask for.
    """
    game = fresh.game
    every = game.record == "every"
    search = _Search.of(risk, game, None, every=every, local=True)
    target = distance_target(game, eta, search.family.slack())
    if target >= 1:
        return 0.0
    worst = search.worst()
    plain = worst.scale_for(target)
    law = search.law(fresh.subsets(_PILOT), _PILOT, worst.edges)
    start = law.scale_for(target)
    share = search.partners / (game.population - 1)
    # What a sample of zeros leaves open, as a share of the range.
    error = log_error_shared(confidence, game.population if every else 1)
    open_share = -math.expm1(-error / _SUBSETS[game.record])

    def excess(scale: float) -> float:
        most = worst.top(scale, share)
        return (
            law.largest(scale) + open_share * float(most.max() if every else most.mean()) - target
        )

    try:
        return min(plain, least_scale(excess, start, ceiling=start * _HIGHEST, relative=1e-3))
    except SearchError:
        return plain


@dataclass(frozen=True, eq=False)
class _Law:
    """Per record, weights of swap lengths at shared upper edges; they add up to 1 in every row."""

    edges: FloatArray
    weights: FloatArray
    family: ScaleFamily
    every: bool

    def means(self, scale: float) -> FloatArray:
        """Mean distances per record, from above."""
        values = self.family.distances(self.edges, scale)
        return np.asarray(np.minimum(self.weights @ values * (1 + 4 * sum_slack(_BINS)), 1.0))

    def largest(self, scale: float) -> float:
        """The number that must be within the target."""
        means = self.means(scale)
        return float(means.max() if self.every else means.mean() * (1 + sum_slack(means.size)))

    def scale_for(self, target: float) -> float:
        """Return the least scale at which :meth:`largest` is within the target."""
        return least_scale(lambda s: self.largest(s) - target, float(self.edges[-1]))

    def top(self, scale: float, share: float) -> FloatArray:
        """Per record, the mean over the longest ``share`` of the swaps, from above."""
        above = np.cumsum(self.weights[:, ::-1], axis=1)[:, ::-1] - self.weights
        kept = np.clip(share * (1 + 1e-9) - above, 0.0, self.weights)
        values = self.family.distances(self.edges, scale)
        return np.asarray(np.minimum(kept @ values / share * (1 + 1e-9), 1.0))


@dataclass(frozen=True, eq=False)
class _Search:
    """The pieces of one calibration."""

    risk: RegularisedRisk
    game: SubsetGame
    family: ScaleFamily
    metric: Metric
    every: bool
    local: bool

    @classmethod
    def of(
        cls,
        risk: RegularisedRisk,
        game: SubsetGame,
        shape: FloatArray | None,
        *,
        every: bool,
        local: bool,
    ) -> _Search:
        family = ScaleFamily.gaussian(risk.dimension, shape)
        unit = family.unit
        metric = Metric(unit.factor if isinstance(unit, ShapedGaussianNoise) else None)
        return cls(risk, game, family, metric, every, local)

    @property
    def partners(self) -> int:
        """How many partners every record meets at least."""
        smaller = min(self.game.size, self.game.population - self.game.size)
        return min(smaller, _PARTNERS)

    def worst(self) -> _Law:
        """Swap lengths that no subset exceeds; the newcomer is uniform among the others (X1)."""
        risk, total = self.risk, self.risk.records
        everyone = np.arange(total)
        reach = up_array(risk.residual_bounds * risk.norms)
        top = self._worst_length(np.array([2 * reach.max()]))[0]
        edges = _edges(float(top))
        if total > _PAIRS:
            bins = _binned(self._worst_length(reach + reach.max()), edges)
            weights = np.zeros((total, edges.size))
            weights[everyone, bins] = 1.0
            return _Law(edges, weights, self.family, self.every)
        counts = np.zeros((total, edges.size))
        for rows in _blocks(everyone, total):
            bins = _binned(self._worst_length(risk.worst_distances(rows, everyone)), edges)
            counts[rows] = _counted(bins, edges.size)
            counts[rows, bins[np.arange(rows.size), rows]] -= 1  # not with itself
        return _Law(edges, counts / (total - 1), self.family, self.every)

    def _worst_length(self, distances: FloatArray) -> FloatArray:
        risk = self.risk
        push = distances / self.game.size + 2 * risk.gradient_tolerance
        return up_array(push / risk.regularisation * self.metric.stretch, 32)

    def weights(self, rows: Rows, edges: FloatArray, draws: np.random.Generator) -> FloatArray:
        """Fit on ``rows`` and bin, per record, the lengths of swaps with its opposite side."""
        swaps = SwapLengths.of(self.risk, rows, self.metric, local=self.local)
        outside = np.setdiff1d(np.arange(self.risk.records), rows)
        met_out, met_in = (_sample(side, draws) for side in (outside, rows))
        counts = np.zeros((self.risk.records, edges.size))
        for block in _blocks(rows, met_out.size):
            bins = _binned(swaps.lengths(block, met_out), edges)
            counts[block] = _counted(bins, edges.size) / met_out.size
            if met_out is outside and met_in is rows:
                counts[outside] += _counted(bins.T, edges.size) / rows.size
        if met_out is not outside or met_in is not rows:
            for block in _blocks(outside, met_in.size):
                bins = _binned(swaps.lengths(met_in, block).T, edges)
                counts[block] = _counted(bins, edges.size) / met_in.size
        return counts

    def law(
        self, subsets: Iterable[Rows], total: int, edges: FloatArray, progress: Progress = None
    ) -> _Law:
        """Average the weights over all these subsets."""
        weights = np.zeros((self.risk.records, edges.size))
        draws = np.random.default_rng(0)
        for done, rows in enumerate(subsets, start=1):
            weights += self.weights(rows, edges, draws) / total
            if progress is not None:
                progress(done, total)
        return _Law(edges, weights, self.family, self.every)

    def sampled(
        self,
        fresh: FreshSubsets,
        worst: _Law,
        *,
        count: int,
        target: float,
        confidence: float,
        plain: float,
        workers: int | None,
        progress: Progress,
    ) -> tuple[float, float, int]:
        """Certify on one stream a scale whose neighbourhood another chose; ∞ if none passes."""
        pilots = max(4, min(32, count // 16))
        total = pilots + count
        law = self.law(
            fresh.spawned(1).subsets(pilots), pilots, worst.edges, _within(progress, total)
        )
        start = law.scale_for(target)
        if start * _LOWEST >= plain:
            return math.inf, target, pilots
        scales = self._scales(start, plain, count)
        # T_D at any scale from the first on is at most this, whatever D: the range of the bets.
        share = self.partners / (self.risk.records - 1)
        most = np.maximum(worst.top(scales[0], share), 1e-12)
        if not self.every:
            most = np.array([up(float(most.mean()), most.size)])
        values = np.stack([self.family.distances(worst.edges, s) for s in scales], axis=1)
        table = np.empty((count, most.size, scales.size), dtype=np.float32)

        def fill(job: tuple[int, Rows]) -> None:
            # Its own partners' draws, so that the order of the threads does not matter.
            place, rows = job
            draws = np.random.default_rng((*np.atleast_1d(fresh.seed), 3, place))
            means = self.weights(rows, worst.edges, draws) @ values * (1 + 4 * sum_slack(_BINS))
            if not self.every:
                means = means.mean(axis=0, keepdims=True) * (1 + sum_slack(len(means)))
            # Above the rounding to single precision.
            table[place] = np.minimum(means / most[:, None] * (1 + 1e-6) + 1e-30, 1.0)

        # Threads: nearly all the time is spent inside numpy and LAPACK, which let others run.
        with one_thread("blas"), ThreadPoolExecutor(workers or cpu_count()) as pool:
            jobs = enumerate(fresh.spawned(2).subsets(count))
            for done, _ in enumerate(pool.map(fill, jobs), start=1):
                if progress is not None:
                    progress(pilots + done, total)

        def passes(place: int) -> bool:
            ranges = table[:, :, place].astype(np.float64)
            return bool((up_array(mean_bounds(ranges, confidence) * most) <= target).all())

        # The values fall with the scale on every path, so looking at several scales is free.
        place = least_whole(passes, below=-1, most=scales.size - 1)
        return (math.inf if place is None else float(scales[place])), target, total

    def _scales(self, start: float, plain: float, count: int) -> FloatArray:
        """Scales from a little below the pilot's, closer together where memory allows."""
        top = min(plain, start * _HIGHEST) / (start * _LOWEST)
        columns = self.risk.records if self.every else 1
        room = max(8, _MEMORY // (4 * count * columns))
        steps = min(room, max(2, math.ceil(math.log(top) / math.log(_STEP))))
        return np.asarray(start * _LOWEST * np.geomspace(1.0, top, steps))


def _edges(largest: float) -> FloatArray:
    return np.geomspace(largest / _RANGE, largest * (1 + 1e-9), _BINS)


def _binned(lengths: FloatArray, edges: FloatArray) -> Rows:
    """The first edge at or above every length (the lowest one for all below it)."""
    step = math.log(edges[-1] / edges[0]) / (edges.size - 1)
    with np.errstate(divide="ignore"):
        place = np.floor(np.log(lengths / edges[0]) / step)
    bins = np.clip(place, 0, edges.size - 1).astype(np.int64)
    for _ in range(2):  # the logarithm may be off by one
        bins = bins + ((edges[bins] < lengths) & (bins < edges.size - 1))
    if (lengths > edges[-1]).any():
        raise InputError("a swap moves the fit further than the worst case: please report this.")
    return np.asarray(bins, dtype=np.int64)


def _counted(bins: Rows, size: int) -> FloatArray:
    """Histogram of every row."""
    shifted = bins + (np.arange(len(bins)) * size)[:, None]
    counts = np.bincount(shifted.ravel(), minlength=len(bins) * size)
    return counts.reshape(-1, size).astype(np.float64)


def _blocks(rows: Rows, width: int) -> Iterable[Rows]:
    step = max(1, _BLOCK // max(width, 1))
    return (rows[first : first + step] for first in range(0, rows.size, step))


def _sample(side: Rows, draws: np.random.Generator) -> Rows:
    """All of a side, or a uniform sample of it without repetition."""
    return side if side.size <= _PARTNERS else np.sort(draws.permutation(side)[:_PARTNERS])


def _within(progress: Progress, total: int) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, _: progress(done, total)
