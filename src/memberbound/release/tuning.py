"""Clip radius, regularisation and shape of noise, chosen together for the released score."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, MemberboundError, SearchError, positive
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import (
    FreshSubsets,
    Progress,
    Record,
    Rows,
    ScaleFamily,
    distance_target,
)
from memberbound.release.convex import Metric, SwapLengths
from memberbound.release.erm import DENSE, RegularisedRisk
from memberbound.release.fitting import fit_once, public_coins
from memberbound.release.learning import (
    ConvexParameters,
    Learnable,
    convex_loss,
    learnable,
)
from memberbound.release.noise import NoiseLaw, ShapedGaussianNoise
from memberbound.release.parameters import Adapter, Population, clipped_rows
from memberbound.release.randomness import InsecureSource

__all__ = [
    "Configuration",
    "Scores",
    "Trial",
    "configurations",
    "noise_shape",
    "risk_shape",
    "scored",
    "tuned",
    "utility_shape",
]

# ── The covariance of noise that costs the released model least (proofs/shaped-noise.md) ──────────
#
# Noise with covariance Σ costs ½tr(HΣ) of loss to second order, H the loss's Hessian, and hides a
# displacement Δ as well as its Mahalanobis length Δᵀ Σ⁻¹ Δ is short.  The Σ of least cost at a
# given mean square length is ∝ H^{-1/2}(H^{1/2} C H^{1/2})^{1/2} H^{-1/2}, C = E ΔΔᵀ.  The shape is
# a choice, never a proof: only the scale that multiplies it is certified.


def utility_shape(
    displacements: ArrayLike, hessian: ArrayLike | None = None, *, ridge: float = 1e-3
) -> FloatArray:
    """Return a lower triangular factor A of the covariance of least cost, ‖A‖² = d.

    Args:
        displacements: (B, d) moves of the statistic between neighbouring training sets, from a
            pilot stream or a pilot fit.
        hessian: (d, d) of the loss at a pilot fit; the identity when unknown.
        ridge: share of the mean eigenvalue added to both matrices, which keeps A well conditioned.

    Edge cases: beyond 1500 coordinates a diagonal shape is returned (of the diagonals of both);
    displacements that are all 0 give the identity.

    Examples:
        >>> utility_shape([[4.0, 0.0], [0.0, 1.0]], ridge=1e-9).round(3).tolist()
        [[1.265, 0.0], [0.0, 0.632]]
    """
    moves = np.asarray(displacements, dtype=np.float64)
    if moves.ndim != 2 or moves.size == 0 or not np.isfinite(moves).all():
        raise InputError(f"displacements must be a finite table, got shape {moves.shape!r}.")
    d = moves.shape[1]
    share = positive("ridge", ridge)
    if not moves.any():
        return np.eye(d)
    moves = moves / np.abs(moves).max()
    if d > DENSE:
        bend = np.ones(d) if hessian is None else np.diag(_square(hessian, d)).copy()
        spread = np.square(moves).mean(axis=0)
        spread, bend = spread + share * spread.mean(), bend + share * bend.mean()
        widths = (spread / bend) ** 0.25
        return np.diag(widths * math.sqrt(d) / np.linalg.norm(widths))
    spread = moves.T @ moves / len(moves)
    return _least_cost(spread, None if hessian is None else _square(hessian, d), share)


def risk_shape(risk: RegularisedRisk, *, ridge: float = 1e-2) -> FloatArray:
    """Return :func:`utility_shape` for a regularised risk, from its fit on the whole population.

    Displacements are those of one Newton step, H⁻¹(g_x - g_x'), over all pairs of records, so
    C ∝ H⁻¹·Cov(g)·H⁻¹ and no subset is fitted.  The cost is counted in the loss alone, without the
    regulariser, which only serves the fit.
    """
    theta = risk.population_fit.theta
    gradients = risk.gradients(theta).vectors()
    centred = gradients - gradients.mean(axis=0)
    if risk.dimension > DENSE:
        # The diagonal of the Hessian alone: mean of W_cc·x_j² plus λ.
        scores = risk.design @ theta.reshape(risk.rule.outputs, -1).T
        weights = np.einsum("nii->ni", risk.rule.curvatures(scores, risk.coded))
        bend = (weights.T @ np.square(risk.design) / risk.records).ravel() + risk.regularisation
        spread = np.square(centred).mean(axis=0) / np.square(bend)
        bend = bend - risk.regularisation
        bend = bend + ridge * bend.mean()
        spread = spread + ridge * spread.mean()
        widths = (spread / bend) ** 0.25
        return np.diag(widths * math.sqrt(risk.dimension) / np.linalg.norm(widths))
    hessian = risk.hessian(theta)
    moves = np.linalg.solve(hessian, centred.T)
    loss = hessian - risk.regularisation * np.eye(risk.dimension)
    return _least_cost(moves @ moves.T / risk.records, loss, positive("ridge", ridge))


def _square(hessian: ArrayLike, dimension: int) -> FloatArray:
    table = np.asarray(hessian, dtype=np.float64)
    if table.shape != (dimension, dimension) or not np.isfinite(table).all():
        raise InputError(
            f"hessian must be a finite {dimension} by {dimension} matrix, got {table.shape!r}."
        )
    return (table + table.T) / 2


def _root(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√M and M^{-1/2} of a positive definite matrix."""
    values, vectors = np.linalg.eigh(table)
    if values[0] <= 0:
        raise InputError("hessian must be positive definite after the ridge, got one that is not.")
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T


def _least_cost(spread: FloatArray, hessian: FloatArray | None, share: float) -> FloatArray:
    d = len(spread)
    eye = np.eye(d)
    spread = spread + share * float(np.trace(spread)) / d * eye
    bend = eye if hessian is None else hessian + share * float(np.trace(hessian)) / d * eye
    root, inverse = _root(bend)
    middle, _ = _root(root @ spread @ root)
    covariance = inverse @ middle @ inverse
    covariance = (covariance + covariance.T) / 2
    factor = np.asarray(np.linalg.cholesky(covariance * (d / float(np.trace(covariance)))))
    return np.tril(factor)


# ── Clip radius and regularisation, chosen together with the noise for the best released score ────
#
# Every configuration is tried on fresh subsets: a few pairs say about how much noise it will need,
# and releases with that noise are scored on the records outside.  Nothing here is certified, and
# nothing here sees the secret; the chosen configuration is certified afterwards on another stream.

#: Factors of the user's C (of 1/alpha) that are tried.
_STRENGTHS = (1.0, 0.1, 0.01, 0.001)
#: Quantiles of the rows' norms that are tried as clip radii, besides none.
_CLIPS = (0.25, 0.75)
#: Pairs refitted per configuration, and releases scored.
_PAIRS, _SUBSETS, _DRAWS = 16, 6, 4
#: Certified noise is about this much above the plug-in noise of a pilot.
_CERTIFIED = 1.25
#: A pilot of the convex form: subsets, partners of a record in each, and records at most.
_CONVEX, _PARTNERS, _RECORDS = 8, 32, 2000
#: Shapes are found up to this many coordinates; the factor has this many squared entries.
_LARGEST_SHAPE = 1500


@dataclass(frozen=True)
class Configuration:
    """What is tried: a clip radius and the estimator's regularisation, if it has one."""

    clip: float | None
    name: str | None = None
    value: float | None = None

    def applied(self, estimator: Any) -> Any:
        """Return a clone with this regularisation."""
        from sklearn.base import clone

        model = clone(estimator)
        return model if self.name is None else model.set_params(**{self.name: self.value})

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        found: dict[str, Any] = {"clip": self.clip}
        return found if self.name is None else found | {self.name: self.value}


@dataclass(frozen=True)
class Scores:
    """Mean scores over fresh subsets, on the records outside them: estimates."""

    clean_estimate: float
    released_estimate: float
    subsets: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        return {
            "score_clean_estimate": self.clean_estimate,
            "score_released_estimate": self.released_estimate,
            "score_subsets": self.subsets,
        }


@dataclass(frozen=True)
class Trial:
    """A configuration with the scores of its pilot; None where it could not be fitted."""

    configuration: Configuration
    scores: Scores | None


def configurations(
    estimator: Any, population: Population, *, clip: float | None, parameters: bool
) -> list[Configuration]:
    """Return what to try: the user's own settings first.

    Clip radii are quantiles of the population's row norms; a given ``clip`` is kept.  Estimators
    without ``C`` or ``alpha`` are tried as they are.  Clusterings are not clipped: their centres
    are meant in the data's own units.
    """
    radii: list[float | None] = [clip]
    if clip is None and parameters and population.target is not None:
        norms = np.linalg.norm(population.features, axis=1)
        radii += sorted({float(np.quantile(norms, q)) for q in _CLIPS if norms.any()}, reverse=True)
        radii = [r for r in radii if r is None or r > 0]
    known = estimator.get_params(deep=False)
    pairs: list[tuple[str | None, float | None]] = [(None, None)]
    if isinstance(known.get("C"), (int, float)):
        pairs = [("C", float(known["C"]) * s) for s in _STRENGTHS]
    elif isinstance(known.get("alpha"), (int, float)) and known["alpha"] > 0:
        pairs = [("alpha", float(known["alpha"]) / s) for s in _STRENGTHS]
    return [Configuration(radius, *pair) for radius in radii for pair in pairs]


def noise_shape(
    statistic: Learnable,
    estimator: Any,
    displacements: FloatArray | None,
) -> FloatArray | None:
    """Return the factor of the noise's covariance, or None for round noise.

    Linear models with a convex loss have a Hessian; others are shaped by the pilot's displacements.
    """
    if not 1 < statistic.dimension <= _LARGEST_SHAPE:
        return None
    try:
        if isinstance(statistic, ConvexParameters):
            return risk_shape(statistic.risk)
        people = getattr(statistic, "population", None)
        fitted = type(statistic).__name__ == "FittedParameters"
        if fitted and people is not None and convex_loss(estimator, people) is not None:
            like = ConvexParameters.of(estimator, people, max(people.records // 2, 1))
            if like.dimension == statistic.dimension:
                return risk_shape(like.risk)
        if displacements is not None and displacements.any():
            # Few displacements say little about most directions: a large ridge.
            return utility_shape(displacements, ridge=0.05)
    except (MemberboundError, np.linalg.LinAlgError):
        # A shape is a convenience; round noise is as valid.
        return None
    return None


def _outputs(
    statistic: Learnable, fresh: FreshSubsets, count: int
) -> tuple[list[Rows], FloatArray, FloatArray]:
    """Return subsets D, q(D) and q(D') of a few neighbouring pairs."""
    pairs = fresh.neighbours(count)
    with warnings.catch_warnings(), public_coins():
        warnings.simplefilter("ignore")
        first = np.array([fit_once(statistic, inside) for inside, _, _, _ in pairs])
        second = np.array([fit_once(statistic, swapped) for _, swapped, _, _ in pairs])
    return [inside for inside, _, _, _ in pairs], first, second


def _plug_in(family: ScaleFamily, lengths: FloatArray, target: float) -> float:
    """Return about the scale at which the largest mean of a column meets the target."""

    def fits(scale: float) -> bool:
        return float(family.distances(lengths, scale).mean(axis=0).max()) <= target

    if not lengths.any() or fits(0.0):
        return 0.0
    high = max(float(lengths.mean()), 1e-280)
    while not fits(high):
        high *= 2
    low = high / 2
    while fits(low) and low > 1e-280:
        high, low = low, low / 2
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _swap_lengths(
    statistic: ConvexParameters, fresh: FreshSubsets, family: ScaleFamily
) -> FloatArray:
    """Return X3's lengths of a few swaps of many records: a column per record."""
    unit = family.unit
    metric = Metric(unit.factor if isinstance(unit, ShapedGaussianNoise) else None)
    draws = np.random.default_rng(fresh.seed)
    records = draws.permutation(fresh.game.population)[:_RECORDS]
    columns = []
    for rows in fresh.subsets(_CONVEX):
        swaps = SwapLengths.of(statistic.risk, rows, metric, local=True)
        outside = np.setdiff1d(np.arange(fresh.game.population), rows)
        found = np.empty((_PARTNERS, records.size))
        inside = np.isin(records, rows)
        met_out, met_in = (draws.choice(side, _PARTNERS) for side in (outside, rows))
        found[:, inside] = swaps.lengths(records[inside], met_out).T
        found[:, ~inside] = swaps.lengths(met_in, records[~inside])
        columns.append(found)
    return np.vstack(columns)


def _pilot_noise(
    statistic: Learnable,
    fresh: FreshSubsets,
    pair: tuple[FloatArray, FloatArray],
    *,
    eta: float,
    record: Record,
    method: str,
    shape: FloatArray | None,
) -> NoiseLaw:
    """Return about the noise that the certificate will ask for."""
    family = ScaleFamily.gaussian(statistic.dimension, shape)
    first, second = pair
    if isinstance(statistic, ConvexParameters):
        lengths = _swap_lengths(statistic, fresh.spawned(3), family)
        target = distance_target(fresh.game, eta, family.slack())
        columns = lengths.reshape(-1, 1) if record == "average" else lengths
        return family.law(_CERTIFIED * _plug_in(family, columns, target))
    if method == "neighbour":
        lengths = family.lengths(first - second)[:, None]
        target = distance_target(fresh.game, eta, family.slack())
    else:
        lengths, target = family.lengths(first - first.mean(axis=0))[:, None], eta
    return family.law(_CERTIFIED * _plug_in(family, lengths, target))


def scored(
    statistic: Learnable,
    subsets: Sequence[Rows],
    values: FloatArray,
    noise: NoiseLaw,
    population: Population,
    *,
    clip: float | None,
    seed: int,
) -> Scores | None:
    """Score clean and noisy models on the records outside each subset.

    The noise is from a seeded source: these releases are thrown away.  None for predictions, whose
    query set has no known target.
    """
    source = InsecureSource(seed)
    features = clipped_rows(population.features, clip)
    clean: list[float] = []
    noisy: list[float] = []
    for rows, value in zip(subsets, values, strict=True):
        outside = np.setdiff1d(np.arange(population.records), rows)
        target = None if population.target is None else population.target[outside]
        for draw in range(_DRAWS + 1):
            model = statistic.model(value if draw == 0 else value + noise.draw(source))
            if not hasattr(model, "score"):
                return None
            score = float(model.score(features[outside], target))
            (noisy if draw else clean).append(score)
    return Scores(float(np.mean(clean)), float(np.mean(noisy)), len(subsets))


def tuned(
    estimator: Any,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record,
    method: str,
    clip: float | None = None,
    shape: bool = True,
    adapter: Adapter | None = None,
    progress: Progress = None,
) -> tuple[Configuration, tuple[Trial, ...]]:
    """Return the configuration with the best released score of its pilot, and all trials.

    ``fresh`` must not be the stream that certifies.  All configurations are tried on the same
    subsets.
    """
    options = configurations(estimator, population, clip=clip, parameters=True)
    if len(options) == 1:
        return options[0], ()
    trials = []
    for place, option in enumerate(options):
        scores = None
        try:
            scores = _tried(
                option,
                estimator,
                population,
                fresh,
                eta=eta,
                record=record,
                method=method,
                shape=shape,
                adapter=adapter,
            )
        except (InputError, SearchError, ValueError):
            # A setting that cannot be fitted or certified on some subset is not a candidate.
            scores = None
        trials.append(Trial(option, scores))
        if progress is not None:
            progress(place + 1, len(options))
    return _best(trials), tuple(trials)


def _best(trials: Sequence[Trial]) -> Configuration:
    ranked = list(_ranked(trials))
    return trials[0].configuration if not ranked else max(ranked, key=lambda t: t[0])[1]


def _ranked(trials: Sequence[Trial]) -> Iterator[tuple[float, Configuration]]:
    for trial in trials:
        if trial.scores is not None and math.isfinite(trial.scores.released_estimate):
            yield trial.scores.released_estimate, trial.configuration


def _tried(
    option: Configuration,
    estimator: Any,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record,
    method: str,
    shape: bool,
    adapter: Adapter | None,
) -> Scores | None:
    model = option.applied(estimator)
    statistic = learnable(
        model,
        population,
        method=method,
        size=fresh.game.size,
        clip=option.clip,
        adapter=adapter,
    )
    count = _PAIRS if method != "convex" else _SUBSETS
    subsets, first, second = _outputs(statistic, fresh, count)
    factor = noise_shape(statistic, model, first - second) if shape else None
    noise = _pilot_noise(
        statistic, fresh, (first, second), eta=eta, record=record, method=method, shape=factor
    )
    return scored(
        statistic,
        subsets[:_SUBSETS],
        first[:_SUBSETS],
        noise,
        population,
        clip=option.clip,
        seed=1,
    )
