"""A score for scikit-learn's searches: how little an attack finds out about who trained a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.evidence import Evidence
from memberbound.attacks.given_model import audit_model
from memberbound.errors import InputError
from memberbound.learners.examples import Labels
from memberbound.learners.trained import TrainedModel

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["PrivacyScore"]

Rows = TypeVar("Rows", "DataFrame", Labels)


@dataclass(frozen=True, eq=False)
class PrivacyScore:
    """A scorer for ``GridSearchCV``: minus how often an attack on the model is right.

    scikit-learn shows a scorer the fitted model and the rows held out, but not the rows that it was
    fitted on.  This one is given the rows and the splits of the search, and finds the split by the
    rows held out: the rows of its other part are the members, the rows held out are not.  Higher is
    better; -0.5 is an attack that guesses blindly, where half of the candidates are members.

    Guarantee: none, the score is an estimate.  It is good enough to choose by, and the best of
    several must not be quoted: it was chosen because it came out well.  What holds for the chosen
    model is what :func:`memberbound.audit` measures with rows that had no part in the search as
    non-members (then the choice is a part of the model); or, without such rows, the intervals of
    all M candidates at confidence 1 - α/M, with the models as they were fitted on their split.
    Theorem: proofs/given-models.md, claim 5.

    Args:
        X: the rows of the search, as ``fit`` gets them.
        y: their target.
        splits: what ``cv`` gets: pairs of numbers of rows, trained on and held out.
        attack: one that needs no reference models.

    Examples:
        >>> from sklearn.model_selection import GridSearchCV, KFold
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(200, 4)), rng.integers(2, size=200)
        >>> splits = list(KFold(4).split(X))
        >>> search = GridSearchCV(
        ...     DecisionTreeClassifier(random_state=0),
        ...     {"max_depth": [1, 12]},
        ...     scoring=PrivacyScore(X, y, splits),
        ...     cv=splits,
        ... )
        >>> search.fit(X, y).best_params_
        {'max_depth': 1}
    """

    X: DataFrame | Labels
    y: Series | Labels
    splits: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
    attack: str = "loss"

    def __post_init__(self) -> None:
        # A generator would be used up by the first model.
        object.__setattr__(self, "splits", list(self.splits))
        if not hasattr(self.X, "iloc"):
            object.__setattr__(self, "X", np.asarray(self.X))
        if np.ndim(self.X) != 2 or len(self.X) != len(self.y):
            raise InputError("X must be a table or an array with a row per value of y.")

    def __call__(self, model: object, X: DataFrame | Labels, y: Labels) -> float:
        """Return the score of a model whose held-out rows are these."""
        truth = np.asarray(self.y)
        fitting = [
            (inside, outside)
            for inside, outside in self.splits
            if np.array_equal(truth[outside], y) and _same(_taken(self.X, outside), X)
        ]
        if not fitting:
            raise InputError(
                "X must be the rows that one of the splits holds out, got others. Give cv= the "
                "same list of splits, fit= the same rows, and no return_train_score=True."
            )
        inside, outside = fitting[0]
        if any(set(other) != set(inside) for other, _ in fitting[1:]):
            raise InputError(
                "splits must hold out different rows, got the same ones with other training rows: "
                "which rows a model was trained on cannot be told."
            )
        rows = np.concatenate([inside, outside])
        member = np.arange(len(rows)) < len(inside)
        evidence = Evidence.of(TrainedModel.of(model), _taken(self.X, rows), truth[rows], member)
        found = audit_model(evidence, attacks=[self.attack], fpr=())
        return -(1 + found.best_advantage.estimate) / 2


def _taken(table: Rows, rows: NDArray[np.intp]) -> Rows:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _same(one: object, other: object) -> bool:
    """Tell whether two tables hold the same rows, missing values included."""
    import pandas as pd

    return bool(pd.DataFrame(one).equals(pd.DataFrame(other)))
