"""Accuracy of three everyday learners on a table, by cross-validation: estimates only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from memberbound.learners.encoding import column_encoder
from memberbound.tables.recipe import labels_of

__all__ = ["LEARNERS", "accuracy_estimates"]

LEARNERS = ("logistic", "tree", "knn")
#: Rows used at most: k nearest neighbours takes time that grows with the square of the rows.
_ROWS = 4_000
_FOLDS = 3


def accuracy_estimates(
    features: Any,
    target: Any,
    forms: Mapping[str, str],
    seed: int = 0,
    rows: int = _ROWS,
) -> Mapping[str, float] | None:
    """Return the cross-validated accuracy of each learner, or None where it means nothing.

    ``forms`` says which columns are numbers, and how they are written.
    Nothing can be validated when fewer than two values of the target have one row per fold.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    chosen = np.sort(np.random.default_rng(seed).permutation(len(features))[:rows])
    codes, _ = labels_of(target.iloc[chosen])
    common = np.bincount(codes)[codes] >= _FOLDS
    chosen, codes = chosen[common], codes[common]
    if np.unique(codes).size < 2 or features.shape[1] == 0:
        return None
    table = features.iloc[chosen].reset_index(drop=True)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    return {
        name: float(np.mean(cross_val_score(pipeline, table, codes, cv=folds)))
        for name, pipeline in (
            (name, make_pipeline(column_encoder(table, forms), _learner(name, seed)))
            for name in LEARNERS
        )
    }


def _learner(name: str, seed: int) -> Any:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if name == "tree":
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(min_samples_leaf=10, random_state=seed)
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_neighbors=15)
