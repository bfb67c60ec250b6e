"""How noise is calibrated for a statistic of a secret half, and how settings are chosen for it.

Statistic → Calibration → Release: :func:`calibrate` runs the method of a name,
:func:`released_statistic` draws the secret afterwards.  For learners :func:`tuned` chooses clip
radius and regularisation for the released score.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError, SearchError, one_of
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
)
from memberbound.release.half.fitting import fit_once, public_coins
from memberbound.release.half.parameters import (
    Adapter,
    FittedParameters,
    FittedPredictions,
    Labels,
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
from memberbound.release.half.releasing import (
    Release,
    calibration_seed_from,
    checked_train,
    released,
    secret_subset,
    source_from_seed,
)
from memberbound.release.half.statistics import (
    CallableStatistic,
    SumStatistic,
    calibrate_crowd,
    calibrate_sum,
)
from memberbound.release.noise import NoiseLaw
from memberbound.release.randomness import InsecureSource

__all__ = [
    "CLASS_SCORES",
    "METHODS",
    "MODEL_METHODS",
    "NUMBER_SCORES",
    "Configuration",
    "Scores",
    "Trial",
    "answers_of",
    "calibrate",
    "chosen_method",
    "configurations",
    "learnable",
    "quick_to_fit",
    "released_statistic",
    "scored",
    "tuned",
]

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
    partners: int | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least noise that a method certifies for the record that the game names.

    ``pairs`` counts pairs, or subsets where a method has no pairs; ``partners`` those that a fit of
    the neighbour form is compared with at once (X20).  Left open, they are chosen on a pilot for
    statistics that are quick to compute (parameters of scikit-learn's learners, functions of the
    rows), and one otherwise.  Sums over records are calibrated exactly, without draws, by the crowd
    and by neighbours.

    Guarantee: that of the method: with probability at least ``confidence`` over the fresh subsets
    no attack gains more than ``eta``.
    Theorem: X1 and L24-P12 (neighbours of sums), X21 beside them (crowd), X1 or X20 and X4
    (neighbour), X19 (moment, izzo).
    Assumes: the released training set is drawn apart from ``fresh``.

    Examples:
        >>> from memberbound.release.half.statistics import quantiles
        >>> ages = quantiles(np.arange(12.0), 0.5)
        >>> found = calibrate(ages, FreshSubsets(SubsetGame(12, 6)), eta=0.1)
        >>> found.method, found.certificate.value <= 0.1
        ('neighbour', True)
    """
    game, additive = fresh.game, isinstance(statistic, SumStatistic)
    name = chosen_method(
        method, game, eta=eta, confidence=confidence, pairs=pairs, additive=additive
    )
    if isinstance(statistic, SumStatistic) and name in ("crowd", "neighbour"):
        exact = calibrate_crowd if name == "crowd" else calibrate_sum
        return exact(statistic, game, eta=eta, record=game.record)
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
        beside = 1 if partners is None and not quick_to_fit(statistic) else partners
        return calibrate_neighbour(statistic, fresh, pairs=pairs, partners=beside, **how)
    by_centre = calibrate_moment if name == "moment" else calibrate_izzo
    return by_centre(statistic, fresh, subsets=pairs, **how)


def quick_to_fit(statistic: Statistic) -> bool:
    """Whether a fit more per partner is cheap: not for predictions, nor for learners unknown."""
    if isinstance(statistic, FittedParameters):
        return not isinstance(statistic.adapter, PairAdapter)
    return isinstance(statistic, (CallableStatistic, SumStatistic))


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
        >>> from memberbound.release.half.statistics import mean
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
#: Draws of a pilot that refits for every record.
_MATCHED = 4
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
    """A configuration with the scores of its pilot; None where there are none."""

    configuration: Configuration
    scores: Scores | None
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
    method: str,
) -> NoiseLaw:
    """Return about the noise that the certificate will ask for."""
    family = ScaleFamily.gaussian(statistic.dimension)
    first, second = pair
    target = eta if method == "moment" else distance_target(fresh.game, eta, family.slack())
    if method == "moment":
        lengths = family.lengths(first - first.mean(axis=0))[:, None]
    elif fresh.game.record == "every":
        lengths = _refitted_lengths(statistic, fresh.spawned(4), family)
    else:
        lengths = family.lengths(first - second)[:, None]
    if fresh.game.record == "average":
        lengths = lengths.reshape(-1, 1)
    return family.law(_CERTIFIED * _plug_in(family, lengths, target))


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
    method: str,
    options: Sequence[Configuration],
    adapter: Adapter | None = None,
    query: FloatArray | None = None,
) -> tuple[Configuration, tuple[Trial, ...]]:
    """Return the configuration with the best released score of its pilot, and all trials.

    All are tried on the same subsets; where there is no score the least noise decides.  ``fresh``
    must not be the stream that certifies: given this stream the certificate of what is chosen holds
    at its confidence, because its subsets are independent of it (proofs/retraining.md, claim 6).
    """
    if len(options) == 1:
        return options[0], ()
    trials = tuple(
        _tried(
            option, estimator, population, fresh,
            eta=eta, method=method, adapter=adapter, query=query,
        )
        for option in options
    )  # fmt: skip
    # The first of equals: the user's own settings.
    return max(trials, key=lambda trial: trial.rank).configuration, trials


def _tried(
    option: Configuration,
    estimator: BaseEstimator,
    population: Population,
    fresh: FreshSubsets,
    *,
    eta: float,
    method: str,
    adapter: Adapter | None,
    query: FloatArray | None,
) -> Trial:
    try:
        model = option.applied(estimator)
        statistic = learnable(model, population, clip=option.clip, adapter=adapter, query=query)
        subsets, first, second = _outputs(statistic, fresh, _PAIRS)
        noise = _pilot_noise(statistic, fresh, (first, second), eta=eta, method=method)
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
        return Trial(option, None)
    return Trial(option, scores, noise.rms)
