"""How noise is calibrated for a statistic of a secret half, and how settings are chosen for it.

Statistic → Calibration → Release: :func:`calibrate` runs the method of a name,
:func:`released_statistic` draws the secret afterwards, computes the statistic once and adds the
noise.  For learners :func:`tuned` chooses clip radius and regularisation for the released score.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError, SearchError, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.roots import least_scale
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import Calibration, Release
from memberbound.release.half.fitting import evaluated, fit_once, public_coins
from memberbound.release.half.least_noise import (
    FreshSubsets,
    Progress,
    Rows,
    Statistic,
    distance_target,
)
from memberbound.release.half.parameters import (
    Adapter,
    FittedParameters,
    FittedPredictions,
    Learnable,
    PairAdapter,
    Population,
    clipped_rows,
)
from memberbound.release.half.refitting import (
    calibrate_izzo,
    calibrate_moment,
    calibrate_neighbour,
    matched_neighbours,
    refits,
)
from memberbound.release.half.statistics import CallableStatistic, SumStatistic, calibrate_sum
from memberbound.release.model_quality import ModelScores, answers_of, scores_of
from memberbound.release.noise import (
    GaussianNoise,
    NoiseLaw,
    floating_point_slack,
    release,
    scaled,
)
from memberbound.release.randomness import InsecureSource, RandomSource, source_from_seed

METHODS = ("auto", "crowd", "neighbour", "moment", "izzo")
#: Methods of fitted models: a fit is no sum over records.
MODEL_METHODS = ("auto", "neighbour", "moment", "izzo")

#: ``auto`` refits for every record up to this many fits.
_MOST_REFITS = 5000


def chosen_method(
    method: str,
    game: SubsetGame,
    *,
    eta: float,
    confidence: float = 0.95,
    pairs: int | None = None,
    additive: bool = False,
) -> str:
    """Return the method itself, or what ``auto`` stands for.

    Sums over records (``additive``) have the crowd, which never needs more noise than the coupling.
    For the average record nothing needs less than refitted neighbours: by the triangle inequality
    E T(q(D) - q(D')) ≤ 2·E T(q(D) - m), the mean that the centre form ("moment") certifies.  For
    every record neighbours take a fit per record and draw; beyond 5000 fits, or where ``pairs``
    limits them, the centre form takes one per draw.

    Examples:
        >>> chosen_method("auto", SubsetGame(500, 250), eta=0.05)
        'moment'
        >>> chosen_method("auto", SubsetGame(500, 250, "average"), eta=0.05)
        'neighbour'
    """
    one_of("method", method, METHODS)
    if method != "auto":
        return method
    if additive:
        return "crowd"
    if game.record == "average":
        return "neighbour"
    few = pairs is None and refits(game, eta=eta, confidence=confidence) <= _MOST_REFITS
    return "neighbour" if few else "moment"


def calibrate(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    method: str = "auto",
    confidence: float = 0.95,
    pairs: int | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least noise that a method certifies for the record that the game names.

    ``pairs`` counts pairs, or subsets where a method has no pairs.  Sums over records are
    calibrated exactly, without draws, by the crowd and by neighbours.  Other statistics that are
    quick to compute (parameters of scikit-learn's learners, functions of the rows) are compared
    with several neighbours at once where a pilot says that it saves noise (X20).

    Guarantee: that of the method: with probability at least ``confidence`` over the fresh subsets
    no attack gains more than ``eta``.
    Theorem: X1 and L24-P12 (neighbours of sums), X21 beside them (crowd), X1 or X20 and X4
    (neighbour), X19 (moment, izzo).
    Assumes: the released training set is drawn apart from ``fresh``.

    Examples:
        >>> from memberbound.release.half.statistics import quantiles
        >>> ages = quantiles(np.arange(12.0), 0.5)
        >>> noise = calibrate(ages, FreshSubsets(SubsetGame(12, 6)), eta=0.1)
        >>> noise.method, noise.certificate.value <= 0.1
        ('neighbour', True)
    """
    game, additive = fresh.game, isinstance(statistic, SumStatistic)
    name = chosen_method(
        method, game, eta=eta, confidence=confidence, pairs=pairs, additive=additive
    )
    if isinstance(statistic, SumStatistic) and name in ("crowd", "neighbour"):
        return calibrate_sum(statistic, game, eta=eta, record=game.record, crowd=name == "crowd")
    how: dict[str, Any] = {
        "eta": eta,
        "record": game.record,
        "confidence": confidence,
        "workers": workers,
        "progress": progress,
    }
    if name == "crowd":
        raise InputError(
            "method must be 'neighbour', 'moment' or 'izzo' for what is no sum over records, "
            "got 'crowd'."
        )
    if name == "neighbour":
        partners = None if quick_to_fit(statistic) else 1
        return calibrate_neighbour(statistic, fresh, pairs=pairs, partners=partners, **how)
    by_centre = calibrate_moment if name == "moment" else calibrate_izzo
    return by_centre(statistic, fresh, subsets=pairs, **how)


def quick_to_fit(statistic: Statistic) -> bool:
    """Whether a fit more per partner is cheap: not for predictions, nor for learners unknown."""
    if isinstance(statistic, FittedParameters):
        return not isinstance(statistic.adapter, PairAdapter)
    return isinstance(statistic, (CallableStatistic, SumStatistic))


# ── Draw the secret, compute the statistic once, add noise: in this order, after the calibration ──


def calibration_seed_from(source: RandomSource, seed: int | None) -> int:
    """Return the seed of the calibration's subsets: public, and unrelated to the secret."""
    if seed is None:
        return int(source.words(1)[0] >> np.uint64(1))
    return whole_number("calibration_seed", seed, at_least=0)


def secret_subset(game: SubsetGame, source: RandomSource) -> Rows:
    """Return a uniform subset of the game's size, sorted.

    Guarantee: uniform if the source's words are: the order of distinct words is a uniform
    permutation, and ties are drawn again.
    """
    while True:
        words = source.words(game.population)
        if len(np.unique(words)) == game.population:
            return np.sort(np.argsort(words)[: game.size]).astype(np.int64)


def checked_train(train: ArrayLike, records: int) -> Rows:
    """Return sorted row numbers from a mask or from row numbers."""
    chosen = np.asarray(train)
    if chosen.dtype == bool:
        if chosen.shape != (records,):
            raise InputError(
                f"train must be a mask of {records} entries or row numbers, got {chosen.shape!r}."
            )
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError("train must be a mask or whole row numbers, got something else.")
    rows = np.sort(chosen.astype(np.int64))
    if rows.size and (rows[0] < 0 or rows[-1] >= records or (np.diff(rows) == 0).any()):
        raise InputError(f"train must hold different row numbers from 0 to {records - 1}.")
    if not 0 < rows.size < records:
        raise InputError(
            f"train must be some of the {records} records and not all, got {rows.size}. "
            "The population must be larger than the training set."
        )
    return rows


def released(
    statistic: Statistic, calibration: Calibration, secret: Rows, source: RandomSource
) -> Release:
    """Return the statistic of the secret subset plus noise, once.

    A fit that fails releases zeros with the same noise, as in the calibration: an error would be
    seen.  For the same reason whatever a learner says while fitting the secret (warnings, the text
    of an error, what Python code prints) is not passed on: it would be a second release without
    noise.
    """
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        value, _ = evaluated(statistic, secret)
    values = release(value, calibration.noise, source)
    names = tuple(getattr(statistic, "names", ()))
    return Release(values, calibration, names, source.secure)


def released_statistic(
    statistic: Statistic,
    game: SubsetGame,
    *,
    eta: float,
    method: str = "auto",
    insecure_seed: int | None = None,
    calibration_seed: int | None = None,
    **options: Any,
) -> Release:
    """Calibrate on fresh subsets, then draw the secret one, and release.

    ``options`` are those of :func:`calibrate`, whose guarantee this is.

    Examples:
        >>> from memberbound.release.half.statistics import mean
        >>> out = released_statistic(mean(np.arange(12.0)), SubsetGame(12, 6), eta=0.1)
        >>> out.values.shape, out.calibration.certificate.value <= 0.1
        ((1,), True)
    """
    source = source_from_seed(insecure_seed)
    exact = isinstance(statistic, SumStatistic) and method in ("auto", "crowd", "neighbour")
    seed = 0 if exact else calibration_seed_from(source, calibration_seed)
    calibration = calibrate(statistic, FreshSubsets(game, seed), eta=eta, method=method, **options)
    return released(statistic, calibration, secret_subset(game, source), source)


def learnable(
    estimator: BaseEstimator,
    population: Population,
    *,
    clip: float | None = None,
    adapter: Adapter | None = None,
    query: FloatArray | None = None,
) -> Learnable:
    """Return what is released: parameters, or predictions on ``query``, of clipped rows."""
    people = Population(
        clipped_rows(population.features, clip), population.target, population.classes
    )
    if query is not None:
        return FittedPredictions.of(estimator, people, clipped_rows(query, clip), query)
    return FittedParameters.of(estimator, people, adapter)


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
#: Draws of a pilot that refits for every record, and their stream.
_MATCHED, _MATCHED_STREAM = 4, 4
#: What a setting raises that cannot be fitted or certified.
_CANNOT = (InputError, SearchError, ValueError)


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
        clip: dict[str, object] = {"clip": self.clip}
        return clip if self.name is None else clip | {self.name: self.value}


@dataclass(frozen=True)
class Trial:
    """A configuration with the released score of its pilot; None where there is none."""

    configuration: Configuration
    score_estimate: float | None = None
    noise_scale_estimate: float = math.inf

    @property
    def rank(self) -> tuple[float, float]:
        """What the best trial has most of: the released score, then the least noise."""
        score = -math.inf if self.score_estimate is None else self.score_estimate
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
        quantiles = {float(np.quantile(norms, q)) for q in _CLIPS}
        radii += sorted((radius for radius in quantiles if radius > 0), reverse=True)
    settings = estimator.get_params(deep=False)
    pairs: list[tuple[str | None, float | None]] = [(None, None)]
    if isinstance(settings.get("C"), (int, float)):
        pairs = [("C", float(settings["C"]) * s) for s in _STRENGTHS]
    elif isinstance(settings.get("alpha"), (int, float)) and settings["alpha"] > 0:
        pairs = [("alpha", float(settings["alpha"]) / s) for s in _STRENGTHS]
    return [Configuration(radius, *pair) for radius in radii for pair in pairs]


def _fits(statistic: Statistic, subsets: Sequence[Rows]) -> FloatArray:
    with warnings.catch_warnings(), public_coins():
        warnings.simplefilter("ignore")
        return np.array([fit_once(statistic, rows) for rows in subsets])


def _pilot_noise(
    statistic: Statistic,
    fresh: FreshSubsets,
    pair: tuple[FloatArray, FloatArray],
    *,
    eta: float,
    method: str,
) -> NoiseLaw:
    """Return about the noise that the certificate will ask for."""
    unit, (first, second) = GaussianNoise(1.0, statistic.dimension), pair
    target = distance_target(fresh.game, eta, floating_point_slack(unit))
    if method == "moment":
        target = eta
        lengths = unit.length(first - first.mean(axis=0))[:, None]
    elif fresh.game.record == "average":
        lengths = unit.length(first - second)[:, None]
    else:
        # A few swaps of every record: a column per record.
        groups, places = matched_neighbours(fresh.spawned(_MATCHED_STREAM), _MATCHED)
        outputs = [_fits(statistic, group) for group in groups]
        moved = [unit.length(output[1:] - output[0]) for output in outputs]
        lengths = np.array([row[place] for row, place in zip(moved, places, strict=True)])

    def excess(scale: float) -> float:
        return float(scaled(unit, scale).distance(lengths).mean(axis=0).max()) - target

    if not lengths.any() or excess(0.0) <= 0:
        return scaled(unit, 0.0)
    return scaled(unit, _CERTIFIED * least_scale(excess, float(lengths.mean()), relative=1e-4))


def scored(
    statistic: Learnable,
    subsets: Sequence[Rows],
    values: FloatArray,
    noise: NoiseLaw,
    population: Population,
    *,
    clip: float | None,
    seed: int,
    ranked: bool = False,
) -> tuple[ModelScores, ModelScores] | None:
    """Return mean scores of clean and of noisy models on the records outside each subset.

    The noise is from a seeded source: these releases are thrown away.  None where nothing can be
    scored: predictions, whose query set has no known target.  ``ranked`` adds the AUC of classes.
    """
    source = InsecureSource(seed)
    features = clipped_rows(population.features, clip)
    classes = [] if population.classes is None else list(map(str, population.classes))
    clean: list[ModelScores] = []
    noisy: list[ModelScores] = []
    for rows, value in zip(subsets, values, strict=True):
        outside = np.setdiff1d(np.arange(population.records), rows)
        for draw in range(_DRAWS + 1):
            model = statistic.model(value if draw == 0 else value + noise.draw(source))
            if not hasattr(model, "score"):
                return None
            if population.target is None:
                scores = {"score": float(model.score(features[outside]))}
            else:
                answers = answers_of(model, features[outside], classes if ranked else [])
                scores = scores_of(population.target[outside], *answers, classes)
            (noisy if draw else clean).append(scores)
    return _means(clean), _means(noisy)


def _means(scores: Sequence[ModelScores]) -> ModelScores:
    """Return the mean of every score over the models that have it."""
    names = dict.fromkeys(name for each in scores for name in each)
    return {name: float(np.mean([s[name] for s in scores if name in s])) for name in names}


def tuned(
    estimator: BaseEstimator,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    method: str,
    options: Sequence[Configuration],
    adapter: Adapter | None = None,
) -> tuple[Configuration, tuple[Trial, ...]]:
    """Return the configuration with the best released score of its pilot, and all trials.

    All are tried on the same subsets; where there is no score the least noise decides.  ``fresh``
    must not be the stream that certifies: given this stream the certificate of what is chosen holds
    at its confidence, because its subsets are independent of it (proofs/retraining.md, claim 6).
    """
    if len(options) == 1:
        return options[0], ()

    def tried(option: Configuration) -> Trial:
        model = option.applied(estimator)
        statistic = learnable(model, population, clip=option.clip, adapter=adapter)
        pairs = fresh.neighbours(_PAIRS)
        first = _fits(statistic, [inside for inside, _, _, _ in pairs])
        second = _fits(statistic, [swapped for _, swapped, _, _ in pairs])
        noise = _pilot_noise(statistic, fresh, (first, second), eta=eta, method=method)
        subsets = [inside for inside, _, _, _ in pairs[:_SUBSETS]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = scored(
                statistic, subsets, first[:_SUBSETS], noise, population, clip=option.clip, seed=1
            )
        score = None if scores is None else next(iter(scores[1].values()))
        return Trial(option, score, noise.rms)

    trials = []
    for option in options:
        try:
            trials.append(tried(option))
        except _CANNOT:
            # A setting that cannot be fitted or certified on some subset is not a candidate.
            trials.append(Trial(option))
    # The first of equals: the user's own settings.
    return max(trials, key=lambda trial: trial.rank).configuration, tuple(trials)
