"""Scores of models on held-out rows, next to those of a constant prediction.

They are accuracy, balanced accuracy, AUC and log loss for classes, and R² for numbers.  All are
estimates.  Each library uses one thread, because with other processes running, unrestricted OpenMP
threads take several times the CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import decimals
from memberbound.tables.values import Values
from memberbound.threads import load_openmp, no_warnings, one_thread

if TYPE_CHECKING:
    from memberbound.learners.examples import Examples

#: Scores of a model by name; the first is the main one.
ModelScores = dict[str, float]
#: Scores of probabilities; lower is better.
_LOG_LOSS, _CALIBRATION = "log loss", "calibration error"
#: Groups of equal size for the calibration error.
_GROUPS = 10
#: Maximum number of rows in a split, and the training fraction; the second fraction applies if
#: training on the first fails.
_MOST_ROWS = 200_000
_TRAINED = (4 / 5, 19 / 20)
#: Number of splits, and in a quick run, by the minimum number of rows; with more rows, scores vary
#: less.
SPLITS = {50_000: (1, 1), 20_000: (4, 1), 10_000: (4, 2), 0: (8, 4)}

RowIndices = NDArray[np.intp]
#: Predicts rows by their indices.
Predict = Callable[[RowIndices], "Predictions"]
#: Trains on rows by their indices, with a seed, and returns a function that predicts others.
Train = Callable[[RowIndices, int], Predict]


@contextmanager
def quiet_training() -> Iterator[None]:
    """Train and predict without warnings, in one thread per library."""
    load_openmp()
    with np.errstate(all="ignore"), no_warnings, one_thread:
        yield


@dataclass(frozen=True)
class HoldoutScore:
    """Mean score of models on held-out records, and that of a constant prediction.

    ``scores`` and ``constant`` have the means of all computed scores by name; ``spread`` is the
    main score's standard deviation between splits, if there are several.
    """

    name: Literal["accuracy", "R²"]
    estimate: float
    chance: float
    scores: ModelScores = field(default_factory=dict)
    constant: ModelScores = field(default_factory=dict)
    spread: float | None = None

    def shortcoming(self, usual: ModelScores | None) -> str | None:
        """Describe how the models are worse than a constant (:func:`find_shortcoming`).

        If there are no other scores, only the main one is compared.
        """
        if not self.scores:
            if self.estimate > self.chance:
                return None
            found = decimals(self.estimate, "estimate", 3)
            return f"predict no better than a constant ({self.name} {found})"
        return find_shortcoming(self.scores, self.constant, usual)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for rows: classes or numbers, a ranking score and a probability per class."""

    values: Labels
    ranking: FloatArray
    probabilities: FloatArray | None = None


def read_target(values: Values, *, numbers: bool) -> tuple[Labels, NDArray[np.bool_]]:
    """Return a target as numbers or texts, and a mask of the rows that have one."""
    if numbers:
        return values.numbers, np.isfinite(values.numbers)
    indices, names = values.factorize()
    return np.array([*names, ""], dtype=str)[indices], indices >= 0


class FittedModel(Protocol):
    """A fitted model of scikit-learn, with the attributes of a classifier if it is one."""

    classes_: Labels

    def predict(self, rows: object, /) -> Labels:
        """Return a class or a number per row."""

    def predict_proba(self, rows: object, /) -> FloatArray:
        """Return a probability per row and class."""


def predict_rows(
    model: FittedModel, rows: object, classes: Sequence[str], *, probabilities: bool = False
) -> Predictions:
    """Predict rows with a scikit-learn model, with a probability column for every class."""
    values = np.asarray(model.predict(rows))
    rank = getattr(model, "decision_function", getattr(model, "predict_proba", None))
    chances = None
    if probabilities:
        chances = _columns_by_class(model, model.predict_proba(rows), classes, 0.0)
    if not classes or rank is None:
        return Predictions(values, np.zeros((len(values), 0)), chances)
    scores = np.asarray(rank(rows), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    return Predictions(values, _columns_by_class(model, scores, classes, -np.inf), chances)


def _columns_by_class(
    model: FittedModel, values: FloatArray, classes: Sequence[str], absent: float
) -> FloatArray:
    """Order a model's columns by class; fill in missing classes."""
    ordered = np.full((len(values), len(classes)), absent)
    for index, name in enumerate(model.classes_):
        if str(name) in classes:
            ordered[:, classes.index(str(name))] = values[:, index]
    return ordered


def most_common(target: Labels) -> np.generic:
    """Return the best constant prediction: the mean, or the most common class."""
    if target.dtype.kind == "f":
        mean: np.generic = target.mean()
        return mean
    names, counts = np.unique(target, return_counts=True)
    name: np.generic = names[int(counts.argmax())]
    return name


def predict_constant(
    trained: Labels, rows: int, classes: Sequence[str], *, probabilities: bool = False
) -> Predictions:
    """Predict the best constant of the training target for all rows."""
    shares = np.array([np.mean(trained == name) for name in classes])
    chances = np.tile(shares / max(shares.sum(), 1e-300), (rows, 1))
    values = np.full(rows, most_common(trained))
    return Predictions(values, np.zeros_like(chances), chances if probabilities else None)


def score_predictions(
    target: Labels, predictions: Predictions, classes: Sequence[str]
) -> ModelScores:
    """Return the scores of predictions of classes, or of numbers if there are no classes.

    The AUC is the one-versus-rest mean over classes, omitting classes with all rows or none.
    """
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score

    if not classes:
        return {"R²": float(r2_score(target, predictions.values))}
    names, ranking = target.astype(str), predictions.ranking
    scores = {
        "accuracy": float(accuracy_score(names, predictions.values.astype(str))),
        "balanced accuracy": float(balanced_accuracy_score(names, predictions.values.astype(str))),
    }
    areas = []
    for index, name in enumerate(classes[: ranking.shape[1]]):
        members = names == name
        if 0 < members.sum() < len(members):
            others = np.delete(ranking, index, axis=1).max(axis=1)
            margin = np.nan_to_num(ranking[:, index] - others, neginf=-1e300, posinf=1e300)
            areas.append(roc_auc_score(members, margin))
    if areas:
        scores["AUC"] = float(np.mean(areas))
    if predictions.probabilities is not None:
        scores |= score_probabilities(target, predictions.probabilities, classes)
    return scores


def standard_error(target: Labels, values: Labels, *, numbers: bool) -> float | None:
    """Return the standard error of accuracy, or of R² by the delta method; None if undefined.

    Examples:
        >>> standard_error(np.array(["a"] * 50), np.array(["a", "b"] * 25), numbers=False)
        0.07071067811865475
    """
    if not numbers:
        right = float(np.mean(target.astype(str) == values.astype(str)))
        return math.sqrt(right * (1 - right) / len(target))
    truth, guess = (np.asarray(each, dtype=np.float64) for each in (target, values))
    missed, around = np.square(truth - guess), np.square(truth - truth.mean())
    if not around.any():
        return None
    parts = (missed - missed.sum() / around.sum() * around) / around.mean()
    error = float(parts.std()) / math.sqrt(len(target))
    return error if math.isfinite(error) else None


def score_beside_constant(
    target: Labels, trained: Labels, classes: Sequence[str], *candidates: Predictions | None
) -> tuple[ModelScores, ...]:
    """Score predictions of held-out rows next to the best constant of the training target.

    Return the constant's scores first, then those of every candidate (empty for None).
    """
    chances = any(c is not None and c.probabilities is not None for c in candidates)
    constant = predict_constant(trained, len(target), classes, probabilities=chances)
    return tuple(
        {} if predictions is None else score_predictions(target, predictions, classes)
        for predictions in (constant, *candidates)
    )


def score_probabilities(
    target: Labels, probabilities: FloatArray, classes: Sequence[str]
) -> ModelScores:
    """Return log loss and calibration error of class probabilities; lower is better.

    The calibration error is the mean distance between a class's probability and its frequency, over
    ten groups of rows by probability.  The class is the second of two classes, or else the
    likeliest one.  Rows of other classes are left out.

    Examples:
        >>> target = np.array(["no", "yes"] * 50)
        >>> scores = score_probabilities(target, np.full((100, 2), [0.4, 0.6]), ("no", "yes"))
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'log loss': 0.714, 'calibration error': 0.1}
    """
    indices = {name: index for index, name in enumerate(classes)}
    codes = np.array([indices.get(name, -1) for name in target.astype(str)])
    codes, probabilities = codes[codes >= 0], probabilities[codes >= 0]
    rows = np.arange(len(codes))
    loss = -float(np.mean(np.log(np.maximum(probabilities[rows, codes], 1e-15))))
    best = np.ones_like(codes) if len(classes) == 2 else probabilities.argmax(axis=1)
    stated, right = probabilities[rows, best], codes == best
    # Keep equal probabilities in one group.
    groups = np.searchsorted(np.quantile(stated, np.arange(1, _GROUPS) / _GROUPS), stated)
    off = np.bincount(groups, stated - right, _GROUPS)
    return {_LOG_LOSS: loss, _CALIBRATION: float(np.abs(off).sum()) / len(codes)}


def find_shortcoming(
    scores: ModelScores, constant: ModelScores, usual: ModelScores | None = None
) -> str | None:
    """Describe how a model is worse than a constant, as a clause; return None if it is not.

    A model must rank rows (AUC, or accuracy if there is no AUC) and predict them (log loss, R²).
    ``usual`` are the scores of the same learner on real rows without noise.  Log loss is compared
    only if theirs is below the constant's, or if ``usual`` is None.

    Examples:
        >>> fixed = {"accuracy": 0.8, "AUC": 0.5, "log loss": 0.5}
        >>> find_shortcoming({"accuracy": 0.8, "AUC": 0.7, "log loss": 0.6}, fixed)
        'predict worse than a constant (log loss 0.600 against 0.500)'
        >>> find_shortcoming({"accuracy": 0.8, "AUC": 0.7, "log loss": 0.45}, fixed) is None
        True
    """
    main = next(name for name in ("R²", "AUC", "accuracy") if name in scores)

    def both(name: str) -> str:
        own, other = (decimals(found[name], "estimate", 3) for found in (scores, constant))
        return f"({name} {own} against {other})"

    if scores[main] <= constant[main]:
        if main == "AUC":
            auc = decimals(scores[main], "estimate", 3)
            return f"rank people worse than a constant (AUC {auc})"
        return f"predict no better than a constant {both(main)}"
    worse = _LOG_LOSS in scores and scores[_LOG_LOSS] > constant[_LOG_LOSS]
    if worse and (usual is None or usual.get(_LOG_LOSS, math.inf) < constant[_LOG_LOSS]):
        return f"predict worse than a constant {both(_LOG_LOSS)}"
    return None


def score_constant(target: Labels, classes: Sequence[str]) -> ModelScores:
    """Return the scores of the best constant, fitted and scored on the same rows."""
    return score_predictions(target, predict_constant(target, len(target), classes), classes)


# ── Examples: the same splits for every model ─────────────────────────────────────────────────────


def beside_constant(examples: Examples, estimate: float) -> HoldoutScore:
    """Return a main score next to that of the best constant on these examples."""
    if examples.task == "regression":
        return HoldoutScore("R²", estimate, 0.0)
    chance = float(np.bincount(examples.target).max() / examples.rows)
    return HoldoutScore("accuracy", estimate, chance)


def holdout_score(
    examples: Examples, train: Train, seed: int, *, quick: bool = False
) -> HoldoutScore | None:
    """Return the mean scores over random splits, or None if every training fails.

    A split depends on the number of rows and the seed alone; splits with failed training are
    skipped.
    """
    splits = next(times for rows, times in SPLITS.items() if examples.rows >= rows)[quick]
    classes = class_codes(examples)
    main: Literal["accuracy", "R²"] = "accuracy" if classes else "R²"
    target = examples.target.astype(str) if classes else examples.target
    for fraction in _TRAINED:
        rng, found, fixed = np.random.default_rng(seed), [], []
        for split in range(splits):
            order = rng.permutation(examples.rows)[:_MOST_ROWS]
            inside, outside = np.split(order, [int(fraction * len(order))])
            try:
                with quiet_training():
                    predictions = train(inside, seed + split)(outside)
                    constant, scores = score_beside_constant(
                        target[outside], target[inside], classes, predictions
                    )
            except Exception:  # a learner may raise anything
                continue
            if math.isfinite(scores[main]):
                found.append(scores)
                fixed.append(constant)
        if found:
            scores, constant = _mean_scores(found), _mean_scores(fixed)
            score = beside_constant(examples, scores[main])
            values = [each[main] for each in found]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            return replace(score, scores=scores, constant=constant, spread=spread)
    return None


def class_codes(examples: Examples) -> tuple[str, ...]:
    """Return the class codes of examples as texts; empty for a regression."""
    if examples.task == "regression":
        return ()
    return tuple(map(str, range(int(examples.target.max()) + 1)))


def _mean_scores(found: Sequence[ModelScores]) -> ModelScores:
    """Average the scores that all splits have."""
    names = [name for name in found[0] if all(name in scores for scores in found)]
    return {name: float(np.mean([scores[name] for scores in found])) for name in names}
