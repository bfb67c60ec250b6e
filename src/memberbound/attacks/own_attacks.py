"""Custom attacks: functions of an attacker's view, measured like the built-in attacks.

The function gets a :class:`View` and returns one number per record, higher for members.  It may
learn from the known records, with their membership; it is measured on the others; the view does not
have their membership.  The intervals are valid if a score depends on the record, the model and the
known records, but not on other measured records.  To check this, the function is also run on half
of the measured records, and rejected if their scores change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.attacks.attacks import ATTACKS, Attack, Targets
from memberbound.attacks.signals import BoolArray, Signals
from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.learners.trained import TrainedModel
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class View:
    """The view of a given model that a custom attack gets.

    Attributes:
        outputs: the model's outputs, a row per record: probabilities, logits, labels or values.
        truth: index of the true class in ``classes``, or the target of a regression.
        signals: loss, logit and correctness per record, as arrays (1, N).
        known: mask of the records with known membership.
        known_member: mask of the known members; false for all records that are not known.
        classes: the classes; empty for a regression.
        rows: the input rows, or None if only answers are given.
        model: the model, for further queries, or None.
    """

    outputs: Labels
    truth: Labels
    signals: Signals
    known: BoolArray
    known_member: BoolArray
    classes: tuple[str, ...] = ()
    rows: DataFrame | Labels | None = None
    model: TrainedModel | None = None

    @property
    def loss(self) -> FloatArray:
        """The loss of each record."""
        return np.asarray(self.signals.loss[0])

    def of(self, records: BoolArray) -> View:
        """Return the view of some of the records."""
        rows: Any = self.rows
        if rows is not None:
            rows = rows.loc[records] if hasattr(rows, "loc") else rows[records]
        return View(
            self.outputs[records],
            self.truth[records],
            self.signals.of(np.flatnonzero(records)),
            self.known[records],
            self.known_member[records],
            self.classes,
            rows,
            self.model,
        )


#: Scores of all records of a view, higher for members.
OwnAttack = Callable[[View], object]


def as_attacks(chosen: Iterable[str | OwnAttack]) -> list[str | Attack]:
    """Return names unchanged, and functions as attacks named after them."""
    listed: list[str | Attack] = []
    names = set(ATTACKS)
    for one in chosen:
        if not callable(one):
            listed.append(one)
            continue
        name = getattr(one, "__name__", type(one).__name__).strip("<>")
        while name in names:
            name += "-own"
        names.add(name)
        listed.append(Attack(name, _as_score(one, name)))
    return listed


def _as_score(function: OwnAttack, name: str) -> Callable[[Targets], FloatArray]:
    def score(targets: Targets) -> FloatArray:
        evidence, known = targets.evidence, targets.known
        if evidence is None or known is None:
            raise InputError(f"{name} must be run on a given model; learners take named attacks.")
        view = View(
            np.asarray(evidence.answers.table),
            np.asarray(evidence.truth),
            targets.signals,
            known,
            known & evidence.member,
            evidence.classes,
            evidence.rows,
            evidence.model,
        )
        scores = _numbers(function(view), len(known), name)
        measured = np.flatnonzero(~known)
        some = known.copy()
        some[measured[::2]] = True
        again = _numbers(function(view.of(some)), int(some.sum()), name)
        if not np.allclose(again, scores[some], rtol=1e-6, atol=1e-12):
            raise InputError(
                f"{name} must score each record by itself, got other scores when measured records "
                "were left out. Use the known records for thresholds, means and ranks."
            )
        return scores[None, :]

    return score


def _numbers(values: object, count: int, name: str) -> FloatArray:
    scores = np.asarray(values, dtype=np.float64)
    if scores.shape != (count,) or np.isnan(scores).any():
        raise InputError(
            f"{name} must return one number for each of {count} records, got shape {scores.shape}"
            f"{' with NaN' if np.isnan(scores).any() else ''}."
        )
    return scores
