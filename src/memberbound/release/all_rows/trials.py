"""Train a private model of all rows, and estimate its scores with a trial model.

A trial model is trained on four fifths of the records, scored on the rest and discarded.  Its
scores are computed from the secret rows without noise, so they are for the owner of the rows only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.learners.holdout import (
    Predictions,
    most_common,
    predict_rows,
    quiet_training,
    read_target,
    score_beside_constant,
    standard_error,
)
from memberbound.learners.learner import Labels
from memberbound.leaves import load_leaf
from memberbound.release.all_rows.bounds import Bounds
from memberbound.release.all_rows.feature_maps import FeatureMap
from memberbound.release.all_rows.gradient import Features
from memberbound.release.all_rows.learner_forms import LearnerForm
from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import Budget
from memberbound.release.model_quality import ReleaseScore, usefulness_notes
from memberbound.release.randomness import source_from_seed
from memberbound.tables.records import Records

#: Share of the records to train a trial model on, and its maximum number of rows.
_TRAINED, _MOST_ROWS = 0.8, 200_000


@dataclass(frozen=True)
class PrivateTraining:
    """Settings of a private model: a linear model, boosting, or a network."""

    target: str
    form: LearnerForm
    eta: float
    bounds: Bounds
    tune: bool = False
    features: FeatureMap | None = None

    def fit(
        self,
        table: Records,
        seed: int | None = None,
        reserve: Callable[[Budget], None] | None = None,
    ) -> PrivateModel:
        """Train on all records of a table; ``reserve`` reserves the budget before it is spent."""
        source, form = source_from_seed(seed), self.form
        if form.factory is None:
            return fit_private(
                table,
                self.target,
                eta=self.eta,
                learner=form.name,
                bounds=self.bounds,
                tune=self.tune,
                settings=form.settings,
                features=self.features,
                source=source,
                reserve=reserve,
            )
        if self.tune:
            raise InputError("tune must be left out for a network: its settings are not tried out.")
        network: PrivateModel = load_leaf("networks").fit_network(
            table,
            self.target,
            form.factory,
            eta=self.eta,
            bounds=self.bounds,
            source=source,
            name=form.title,
        )
        return network

    def score_trial(
        self, table: Records, seed: int | None
    ) -> tuple[tuple[ReleaseScore, ...], list[str]]:
        """Train a trial model and return its finite scores, and notes.

        If the trial fails, return no scores and a note, because a failure must not stop the
        release.
        """
        try:
            with quiet_training():
                scores, notes = self._score(table, seed)
        except Exception:  # libraries may raise anything on unusual rows, or on too few
            return (), ["the trial failed, perhaps because of too few rows: there are no scores"]
        return tuple(score for score in scores if score.finite), notes

    def _score(self, table: Records, seed: int | None) -> tuple[list[ReleaseScore], list[str]]:
        """Score three models trained on the same rows: with noise, without noise, a constant."""
        records = len(table)
        most = min(records, max(2, _MOST_ROWS * records // table.rows))
        order = np.random.default_rng(seed).choice(records, most, replace=False)
        cut = int(most * _TRAINED)
        training, test = table.take(order[:cut]), table.take(order[cut:])
        trial = self.fit(training, seed)
        names = trial.class_names
        target_rows, scorable = read_target(test.columns[self.target], numbers=not names)
        seen, usable = read_target(training.columns[self.target], numbers=not names)
        truth, seen = target_rows[scorable], seen[usable]
        if not len(truth) or not len(seen):
            return [], ["no row of the trial has a target that can be scored"]
        rows = trial.encode(test)[0]
        chances = trial.probabilities(rows)
        noisy = Predictions(
            trial.predict_encoded(rows)[scorable],
            trial.ranking(rows)[scorable],
            None if chances is None else chances[scorable],
        )
        clean = None
        model = _noiseless_model(trial, _matrix(trial.encode(training)[0])[usable], seen)
        if model is not None:
            features = _matrix(rows)[scorable]
            clean = predict_rows(model, features, names, probabilities=chances is not None)
        fixed, released, noiseless = score_beside_constant(truth, seen, names, noisy, clean)
        error = standard_error(truth, noisy.values, numbers=not names)
        scores = [
            ReleaseScore(
                name,
                noiseless.get(name),
                score,
                fixed[name],
                error if name in ("accuracy", "R²") else None,
            )
            for name, score in released.items()
            if name in fixed
        ]
        notes = usefulness_notes(scores)
        if names and (seen == most_common(seen)).all():
            notes = [f"every row has the class {str(seen[0])!r}: there is nothing to learn"]
        if most < records:
            notes.append(f"the trial took {most} of {records} records")
        return scores, notes


def _matrix(rows: Features) -> Any:
    """Convert encoded rows to a matrix for scikit-learn."""
    return rows if isinstance(rows, np.ndarray) else rows.matrix()


def _noiseless_model(trial: PrivateModel, features: Any, truth: Labels) -> Any:
    """Fit scikit-learn's counterpart without noise, on the same columns; None if that fails."""
    from sklearn import ensemble, linear_model, svm

    if trial.model.kind == "network of all rows":
        return None
    # An encoded number is half a standardised one, divided by the nominal length of a row.
    strength = 4.0 * trial.encoder.length**2 / (trial.settings.penalty or 1.0)
    weights = trial.settings.class_weight
    boosting = ensemble.HistGradientBoostingRegressor(random_state=0)
    if trial.class_names:
        boosting = ensemble.HistGradientBoostingClassifier(class_weight=weights, random_state=0)
    learners = {
        "logistic": linear_model.LogisticRegression(C=strength, class_weight=weights, max_iter=300),
        "svm": svm.LinearSVC(C=strength, class_weight=weights),
        "ridge": linear_model.Ridge(1 / strength),
        "huber": linear_model.HuberRegressor(),
        "boosting": boosting,
    }
    try:
        return learners[trial.learner].fit(features, truth)
    except ValueError:  # one class only, or no convergence
        return None
