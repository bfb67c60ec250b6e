"""The forms of calibration: one table, one way to calibrate and release, and how one is chosen.

Statistic → Calibration → Release: :func:`calibrate` runs the form of a name (``auto`` chooses on a
pilot), :func:`released_statistic` draws the secret afterwards.  For learners :func:`tuned` chooses
form, clip radius and regularisation together, for the released score.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError, MemberboundError, SearchError, one_of, positive
from memberbound.games import SubsetGame
from memberbound.numerics.roots import least_scale
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Rows,
    ScaleFamily,
    Statistic,
    distance_target,
    least_draws,
)
from memberbound.release.convex import calibrate_convex, pilot_scale
from memberbound.release.erm import DENSE, RegularisedRisk
from memberbound.release.fitting import fit_once, public_coins
from memberbound.release.noise import NoiseLaw
from memberbound.release.parameters import (
    Adapter,
    ConvexParameters,
    FittedParameters,
    FittedPredictions,
    Labels,
    Learnable,
    PairAdapter,
    Population,
    clipped_rows,
    convex_loss,
)
from memberbound.release.randomness import InsecureSource
from memberbound.release.refitting import (
    calibrate_izzo,
    calibrate_moment,
    calibrate_neighbour,
    matched_neighbours,
    refits,
)
from memberbound.release.releasing import (
    Release,
    calibration_seed_from,
    checked_train,
    released,
    secret_subset,
    source_from_seed,
)
from memberbound.release.statistics import (
    CallableStatistic,
    SumStatistic,
    calibrate_crowd,
    calibrate_sum,
)
from memberbound.release.sum_learners import SumParameters

__all__ = [
    "CLASS_SCORES",
    "FORMS",
    "METHODS",
    "NUMBER_SCORES",
    "Configuration",
    "Form",
    "Method",
    "Scores",
    "Trial",
    "answers_of",
    "calibrate",
    "configurations",
    "forms_for",
    "learnable",
    "noise_shape",
    "quick_to_fit",
    "released_statistic",
    "risk_shape",
    "scored",
    "tuned",
    "utility_shape",
]

# ── The table of forms ────────────────────────────────────────────────────────────────────────────

Method = Literal["auto", "crowd", "neighbour", "convex", "moment", "izzo"]
METHODS: tuple[Method, ...] = ("auto", "crowd", "neighbour", "convex", "moment", "izzo")


@dataclass(frozen=True)
class Form:
    """A way to certify noise: its calibrator, what that draws, and which statistics it takes.

    ``run(statistic, fresh, eta=, record=, confidence=, workers=, progress=)`` also takes the number
    of draws under the name ``draws``.  ``shaped``: noise of a chosen covariance pays.
    """

    run: Callable[..., Calibration]
    draws: str
    shaped: bool = False
    takes: type | None = None
    refusal: str = ""


def _run_sum(statistic: SumStatistic, fresh: FreshSubsets, **options: Any) -> Calibration:
    return calibrate_sum(statistic, fresh.game, eta=options["eta"], record=options["record"])


def _run_crowd(statistic: SumStatistic, fresh: FreshSubsets, **options: Any) -> Calibration:
    return calibrate_crowd(statistic, fresh.game, eta=options["eta"], record=options["record"])


def _run_convex(statistic: ConvexParameters, fresh: FreshSubsets, **options: Any) -> Calibration:
    return calibrate_convex(statistic.risk, fresh, **options)


#: What each name runs.  Sums have forms of their own, exact and without draws: "sum" stands in for
#: the neighbour form, and "crowd", which never needs more noise, is what ``auto`` takes.
FORMS: Mapping[str, Form] = {
    "sum": Form(_run_sum, "draws", takes=SumStatistic, refusal="a sum over records"),
    "crowd": Form(
        _run_crowd,
        "draws",
        takes=SumStatistic,
        refusal="sums over records and to learners that are functions of sums",
    ),
    "neighbour": Form(calibrate_neighbour, "pairs", shaped=True),
    # Shaped noise costs the convex form more than it wins (docs/protect-benchmark.md).
    "convex": Form(
        _run_convex,
        "subsets",
        takes=ConvexParameters,
        refusal="linear models; a statistic has no loss",
    ),
    "moment": Form(calibrate_moment, "subsets", shaped=True),
    "izzo": Form(calibrate_izzo, "subsets"),
}

#: The stream that chooses a form; calibrators certify on 1, 2 and 3.
_CHOOSE = 15
#: ``auto`` refits for every record up to this many fits.
_MOST_REFITS = 5000


def forms_for(
    method: str,
    game: SubsetGame,
    *,
    eta: float,
    confidence: float = 0.95,
    pairs: int | None = None,
    additive: bool = False,
    convex: bool = False,
) -> tuple[str, ...]:
    """Return the forms that a method stands for: one, or those ``auto`` has to choose from.

    For the average record none needs less than the neighbour form, whose distances are those of
    the fits themselves.  The convex form bounds them from above, and by the triangle inequality
    E T(q(D) - q(D')) ≤ 2·E T(q(D) - m), the mean that the centre form ("moment") certifies.  For
    every record refitting takes a fit per record and draw, and either of the others may win.

    Examples:
        >>> forms_for("auto", SubsetGame(500, 250), eta=0.05, convex=True)
        ('convex', 'moment')
    """
    one_of("method", method, METHODS)
    if additive and method in ("auto", "neighbour"):
        return ("crowd",) if method == "auto" else ("sum",)
    if method != "auto":
        return (method,)
    if game.record == "average":
        return ("neighbour",)
    found = ("convex",) if convex else ()
    # Too few subsets to certify anything are for the form that has a worst case to fall back on.
    if not convex or pairs is None or pairs >= 2 * least_draws(eta, confidence):
        found = (*found, "moment")
    cheap = pairs is None and refits(game, eta=eta, confidence=confidence) <= _MOST_REFITS
    return (*found, "neighbour") if cheap else found


def calibrate(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    method: str = "auto",
    confidence: float = 0.95,
    pairs: int | None = None,
    partners: int | None = None,
    shape: FloatArray | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least noise that a form certifies for the record that the game names.

    ``pairs`` counts pairs, or subsets where a form has no pairs; ``partners`` those that a fit of
    the neighbour form is compared with at once (X20).  Left open, they are chosen on a pilot for
    statistics that are quick to compute (parameters of scikit-learn's learners, functions of the
    rows), and one otherwise.  Where ``auto`` has a choice every
    form is tried on a pilot stream, and the one with the least noise there is certified.

    Guarantee: that of the form: with probability at least ``confidence`` over the fresh subsets no
    attack gains more than ``eta``.  The choice costs nothing: it depends on the pilot stream alone,
    and given that stream the certificate of the chosen form holds at its confidence, because the
    subsets it is computed from are independent of it (proofs/retraining.md, claim 6).
    Theorem: X1 and L24-P12 (sum), X21 beside them (crowd), X1 or X20 and X4 (neighbour), X3
    (convex), X19 (moment, izzo).
    Assumes: the released training set is drawn apart from ``fresh``.

    Examples:
        >>> from memberbound.release.statistics import quantiles
        >>> ages = quantiles(np.arange(12.0), 0.5)
        >>> found = calibrate(ages, FreshSubsets(SubsetGame(12, 6)), eta=0.1)
        >>> found.method, found.certificate.value <= 0.1
        ('neighbour', True)
    """
    forms = forms_for(
        method,
        fresh.game,
        eta=eta,
        confidence=confidence,
        pairs=pairs,
        additive=isinstance(statistic, SumStatistic),
        convex=isinstance(statistic, ConvexParameters),
    )
    name = forms[0]
    if len(forms) > 1:
        laws = {form: _pilot(statistic, fresh.spawned(_CHOOSE), form, eta) for form in forms}
        name = min(forms, key=lambda form: laws[form])
    form = FORMS[name]
    if form.takes is not None and not isinstance(statistic, form.takes):
        raise InputError(f"method {name!r} applies only to {form.refusal}.")
    options: dict[str, object] = {form.draws: pairs}
    if shape is not None:
        options["shape"] = shape
    if name == "neighbour":
        options["partners"] = 1 if partners is None and not quick_to_fit(statistic) else partners
    return form.run(
        statistic,
        fresh,
        eta=eta,
        record=fresh.game.record,
        confidence=confidence,
        workers=workers,
        progress=progress,
        **options,
    )


def quick_to_fit(statistic: Statistic) -> bool:
    """Whether a fit more per partner is cheap: not for predictions, nor for learners unknown."""
    if isinstance(statistic, FittedParameters):
        return not isinstance(statistic.adapter, PairAdapter)
    return isinstance(statistic, (ConvexParameters, CallableStatistic, SumStatistic))


def learnable(
    estimator: BaseEstimator,
    population: Population,
    *,
    method: str,
    size: int,
    clip: float | None = None,
    adapter: Adapter | None = None,
    query: FloatArray | None = None,
) -> Learnable:
    """Return what is released: parameters, or predictions on ``query``, of clipped rows."""
    people = Population(
        clipped_rows(population.features, clip), population.target, population.classes
    )
    if query is not None:
        if method in ("convex", "crowd"):
            raise InputError(
                f"method must be 'neighbour' or 'moment' for predictions, got {method!r}."
            )
        return FittedPredictions.of(estimator, people, clipped_rows(query, clip), query)
    if method in ("convex", "crowd"):
        if adapter is not None:
            raise InputError(f"adapter must be left out for method={method!r}.")
        kind = ConvexParameters if method == "convex" else SumParameters
        return kind.of(estimator, people, size)
    return FittedParameters.of(estimator, people, adapter)


def released_statistic(
    statistic: Statistic,
    game: SubsetGame,
    *,
    eta: float,
    method: str = "auto",
    train: ArrayLike | None = None,
    insecure_seed: int | None = None,
    calibration_seed: int | None = None,
    **options: Any,
) -> Release:
    """Calibrate on fresh subsets, then draw the secret one (or take ``train``), and release.

    ``options`` are those of :func:`calibrate`, whose guarantee this is.

    Assumes: ``train``, if given, was drawn uniformly from the population and apart from this.

    Examples:
        >>> from memberbound.release.statistics import mean
        >>> out = released_statistic(mean(np.arange(12.0)), SubsetGame(12, 6), eta=0.1)
        >>> out.values.shape, out.calibration.certificate.value <= 0.1
        ((1,), True)
    """
    source = source_from_seed(insecure_seed)
    exact = isinstance(statistic, SumStatistic) and method in ("auto", "crowd", "neighbour")
    seed = 0 if exact else calibration_seed_from(source, calibration_seed)
    calibration = calibrate(statistic, FreshSubsets(game, seed), eta=eta, method=method, **options)
    if train is None:
        secret = secret_subset(game, source)
    else:
        secret = checked_train(train, game.population)
        if secret.size != game.size:
            raise InputError(f"train must hold {game.size} records, got {secret.size}.")
    return released(statistic, calibration, secret, source)


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
#: Sums of more columns are ranked by their coupling alone; the certificate asks the crowd as well.
_CROWD_COLUMNS = 64
#: Certified noise is about this much above the plug-in noise of a pilot.
_CERTIFIED = 1.25
#: Draws of a pilot that refits for every record.
_MATCHED = 4
#: What a setting raises that cannot be fitted or certified.
_CANNOT = (InputError, SearchError, ValueError)
#: Shapes are found up to this many coordinates; the factor has this many squared entries.
_LARGEST_SHAPE = 1500


@dataclass(frozen=True)
class Configuration:
    """What is tried: a clip radius and the estimator's regularisation, if it has one."""

    clip: float | None
    name: str | None = None
    value: float | None = None

    def applied(self, estimator: BaseEstimator) -> BaseEstimator:
        """Return a clone with this regularisation."""
        model = clone(estimator)
        return model if self.name is None else model.set_params(**{self.name: self.value})

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        found: dict[str, object] = {"clip": self.clip}
        return found if self.name is None else found | {self.name: self.value}


@dataclass(frozen=True)
class Scores:
    """Mean scores over fresh subsets, on the records outside them: estimates."""

    clean_estimate: float
    released_estimate: float
    subsets: int
    #: Of classes, other scores by name: without noise, and released.
    further: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "score_clean_estimate": self.clean_estimate,
            "score_released_estimate": self.released_estimate,
            "score_subsets": self.subsets,
        }


@dataclass(frozen=True)
class Trial:
    """A form and a configuration with the scores of its pilot; None where there are none."""

    configuration: Configuration
    scores: Scores | None
    method: str = ""
    noise_scale_estimate: float = math.inf

    @property
    def rank(self) -> tuple[float, float]:
        """What the best trial has most of: the released score, then the least noise."""
        score = -math.inf if self.scores is None else self.scores.released_estimate
        return (score if math.isfinite(score) else -math.inf), -self.noise_scale_estimate


def configurations(
    estimator: BaseEstimator, population: Population, *, clip: float | None
) -> list[Configuration]:
    """Return what to try: the user's own settings first.

    Clip radii are quantiles of the population's row norms; a given ``clip`` is kept.  Estimators
    without ``C`` or ``alpha`` are tried as they are.  Clusterings are not clipped: their centres
    are meant in the data's own units.
    """
    radii: list[float | None] = [clip]
    if clip is None and population.target is not None:
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
    estimator: BaseEstimator,
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
        if isinstance(statistic, FittedParameters):
            people = statistic.population
            if convex_loss(estimator, people) is not None:
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
    statistic: Statistic, fresh: FreshSubsets, count: int
) -> tuple[list[Rows], FloatArray, FloatArray]:
    """Return subsets D, q(D) and q(D') of a few neighbouring pairs."""
    pairs = fresh.neighbours(count)
    return (
        [inside for inside, _, _, _ in pairs],
        _fits(statistic, [inside for inside, _, _, _ in pairs]),
        _fits(statistic, [swapped for _, swapped, _, _ in pairs]),
    )


def _fits(statistic: Statistic, subsets: Sequence[Rows]) -> FloatArray:
    with warnings.catch_warnings(), public_coins():
        warnings.simplefilter("ignore")
        return np.array([fit_once(statistic, rows) for rows in subsets])


def _plug_in(family: ScaleFamily, lengths: FloatArray, target: float) -> float:
    """Return about the scale at which the largest mean of a column meets the target."""

    def excess(scale: float) -> float:
        return float(family.distances(lengths, scale).mean(axis=0).max()) - target

    if not lengths.any() or excess(0.0) <= 0:
        return 0.0
    return least_scale(excess, float(lengths.mean()), relative=1e-4)


def _refitted_lengths(statistic: Statistic, fresh: FreshSubsets, family: ScaleFamily) -> FloatArray:
    """Return the lengths of a few swaps of every record: a column per record."""
    groups, places = matched_neighbours(fresh, _MATCHED)
    found = []
    for group, place in zip(groups, places, strict=True):
        outputs = _fits(statistic, group)
        found.append(family.lengths(outputs[1:] - outputs[0])[place])
    return np.array(found)


def _pilot_noise(
    statistic: Statistic,
    fresh: FreshSubsets,
    pair: tuple[FloatArray, FloatArray],
    *,
    eta: float,
    form: str,
    shape: FloatArray | None,
) -> NoiseLaw:
    """Return about the noise that the certificate will ask for."""
    if form == "crowd" and isinstance(statistic, SumStatistic):
        game = fresh.game
        # In many columns the crowd takes long to ask and hides little: the coupling ranks as well.
        search = calibrate_crowd if statistic.dimension <= _CROWD_COLUMNS else calibrate_sum
        return search(statistic, game, eta=eta, record=game.record).noise
    family = ScaleFamily.gaussian(statistic.dimension, shape)
    if form == "convex" and isinstance(statistic, ConvexParameters):
        return family.law(pilot_scale(statistic.risk, fresh.spawned(3), eta=eta))
    first, second = pair
    target = eta if form == "moment" else distance_target(fresh.game, eta, family.slack())
    if form == "moment":
        lengths = family.lengths(first - first.mean(axis=0))[:, None]
    elif fresh.game.record == "every":
        lengths = _refitted_lengths(statistic, fresh.spawned(4), family)
    else:
        lengths = family.lengths(first - second)[:, None]
    if fresh.game.record == "average":
        lengths = lengths.reshape(-1, 1)
    return family.law(_CERTIFIED * _plug_in(family, lengths, target))


def _pilot(statistic: Statistic, fresh: FreshSubsets, form: str, eta: float) -> float:
    """Return about the length of the noise that a form will ask for; ∞ where it cannot be run."""
    try:
        _, first, second = _outputs(statistic, fresh, _PAIRS)
        return _pilot_noise(statistic, fresh, (first, second), eta=eta, form=form, shape=None).rms
    except _CANNOT:
        return math.inf


def answers_of(
    fitted: BaseEstimator, rows: Any, classes: Sequence[str]
) -> tuple[Labels, FloatArray]:
    """Return a clean model's answers, and its ranking with a column for every class."""
    answers = np.asarray(fitted.predict(rows))
    ranks = getattr(fitted, "decision_function", getattr(fitted, "predict_proba", None))
    if not classes or ranks is None:
        return answers, np.zeros((len(answers), 0))
    scores = np.asarray(ranks(rows), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    ranking = np.full((len(answers), len(classes)), -np.inf)
    for place, name in enumerate(fitted.classes_):
        if str(name) in classes:
            ranking[:, classes.index(str(name))] = scores[:, place]
    return answers, ranking


def _accuracy(
    truth: Labels, answers: Labels, _ranking: FloatArray, _classes: Sequence[str]
) -> float:
    return float(np.mean(answers.astype(str) == truth.astype(str)))


def _balanced(
    truth: Labels, answers: Labels, _ranking: FloatArray, _classes: Sequence[str]
) -> float:
    """Mean over classes of the share of their rows that is recognised."""
    texts = truth.astype(str)
    right = answers.astype(str) == texts
    return float(np.mean([right[texts == name].mean() for name in np.unique(texts)]))


def _auc(
    truth: Labels, _answers: Labels, ranking: FloatArray, classes: Sequence[str]
) -> float | None:
    """Mean over classes, each against the rest, of the area under the ROC."""
    areas = []
    for place, name in enumerate(classes[: ranking.shape[1]]):
        of_it = truth.astype(str) == name
        if 0 < of_it.sum() < len(of_it):
            others = np.delete(ranking, place, axis=1).max(axis=1)
            own = np.nan_to_num(ranking[:, place] - others, neginf=-1e300, posinf=1e300)
            areas.append(_area(of_it, own))
    return float(np.mean(areas)) if areas else None


def _area(of_it: NDArray[np.bool_], ranking: FloatArray) -> float:
    """Share of the pairs of a row of the class and another in which it ranks above; ties half.

    Counted, so right to the last digit; scikit-learn's checks of its input take fifty times longer.
    """
    values, places = np.unique(ranking, return_inverse=True)
    inside = np.bincount(places[of_it], minlength=len(values))
    outside = np.bincount(places[~of_it], minlength=len(values))
    above = 2 * np.cumsum(outside) - outside
    return int(inside @ above) / (2 * int(inside.sum()) * int(outside.sum()))


def _r_squared(
    truth: Labels, answers: Labels, _ranking: FloatArray, _classes: Sequence[str]
) -> float:
    spread = float(np.square(truth - truth.mean()).sum())
    missed = float(np.square(answers - truth).sum())
    return 1.0 - missed / spread if spread > 0 else 0.0


#: Scores of classes and of numbers: of the truth, the answers, a ranking and the names of the
#: classes.
_Score = Callable[[Labels, Labels, FloatArray, Sequence[str]], float | None]
CLASS_SCORES: Mapping[str, _Score] = {
    "accuracy": _accuracy,
    "balanced accuracy": _balanced,
    "AUC": _auc,
}
NUMBER_SCORES: Mapping[str, _Score] = {"R²": _r_squared}


def scored(
    statistic: Learnable,
    subsets: Sequence[Rows],
    values: FloatArray,
    noise: NoiseLaw,
    population: Population,
    *,
    clip: float | None,
    seed: int,
    further: bool = False,
) -> Scores | None:
    """Score clean and noisy models on the records outside each subset.

    The noise is from a seeded source: these releases are thrown away.  None for predictions, whose
    query set has no known target.  ``further`` adds balanced accuracy and AUC for classes.
    """
    source = InsecureSource(seed)
    features = clipped_rows(population.features, clip)
    clean: list[float] = []
    noisy: list[float] = []
    classes = None if population.classes is None else list(map(str, population.classes))
    others: dict[str, tuple[list[float], list[float]]] = {}
    for rows, value in zip(subsets, values, strict=True):
        outside = np.setdiff1d(np.arange(population.records), rows)
        target = None if population.target is None else population.target[outside]
        for draw in range(_DRAWS + 1):
            model = statistic.model(value if draw == 0 else value + noise.draw(source))
            if not hasattr(model, "score"):
                return None
            score = float(model.score(features[outside], target))
            (noisy if draw else clean).append(score)
            if not further or classes is None or target is None:
                continue
            said = answers_of(model, features[outside], classes)
            for name in ("balanced accuracy", "AUC"):
                value_of = CLASS_SCORES[name](target, *said, classes)
                if value_of is not None:
                    others.setdefault(name, ([], []))[int(draw > 0)].append(value_of)
    means = {
        name: (float(np.mean(a)), float(np.mean(b))) for name, (a, b) in others.items() if a and b
    }
    return Scores(float(np.mean(clean)), float(np.mean(noisy)), len(subsets), means)


def tuned(
    estimator: BaseEstimator,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    forms: Sequence[str],
    options: Sequence[Configuration],
    shape: bool = True,
    adapter: Adapter | None = None,
    query: FloatArray | None = None,
) -> tuple[Trial, tuple[Trial, ...]]:
    """Return the trial with the best released score of its pilot, and all trials.

    Every form is tried with every configuration, all on the same subsets; where there is no score
    the least noise decides.  ``fresh`` must not be the stream that certifies: the certificate then
    holds whatever is chosen here (:func:`calibrate`).
    """
    plans = [(form, option) for form in forms for option in options]
    if len(plans) == 1:
        return Trial(options[0], None, forms[0]), ()
    trials = tuple(
        _tried(
            form, option, estimator, population, fresh,
            eta=eta, shape=shape, adapter=adapter, query=query,
        )
        for form, option in plans
    )  # fmt: skip
    # The first of equals: the user's own settings.
    return max(trials, key=lambda trial: trial.rank), trials


def _tried(
    form: str,
    option: Configuration,
    estimator: BaseEstimator,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    shape: bool,
    adapter: Adapter | None,
    query: FloatArray | None,
) -> Trial:
    try:
        model = option.applied(estimator)
        statistic = learnable(
            model, population, method=form, size=fresh.game.size, clip=option.clip,
            adapter=adapter, query=query,
        )  # fmt: skip
        count = _SUBSETS if form in ("convex", "crowd") else _PAIRS
        subsets, first, second = _outputs(statistic, fresh, count)
        shaped = shape and FORMS[form].shaped
        factor = noise_shape(statistic, model, first - second) if shaped else None
        noise = _pilot_noise(statistic, fresh, (first, second), eta=eta, form=form, shape=factor)
        scores = scored(
            statistic,
            subsets[:_SUBSETS],
            first[:_SUBSETS],
            noise,
            population,
            clip=option.clip,
            seed=1,
        )
    except _CANNOT:
        # A setting that cannot be fitted or certified on some subset is not a candidate.
        return Trial(option, None, form)
    return Trial(option, scores, form, noise.rms)
