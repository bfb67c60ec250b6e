"""``protect`` in the neighbour game: a linear model of all rows, and a rehearsal for its owner.

Nothing about the rows is public here, so nothing about them decides what is done: not what a column
is, not which learner fits the target.  Scores are computed from the secret rows all the same, on a
model of four fifths of them that is thrown away.  They are for whoever owns the table; they
are neither stored nor covered by the certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.answer import Protection, useless
from memberbound.protection.bounds import Bounds, Categories, Range, Values, read_bounds
from memberbound.protection.calibration import Progress
from memberbound.protection.neighbour import LEARNERS, PrivateLinear, fit_private
from memberbound.protection.releasing import source_from_seed
from memberbound.tables.population import read_frame
from memberbound.tables.source import Columns

__all__ = ["plays_neighbour", "private_form", "release_all_rows"]

#: Learners of scikit-learn, and other names, by their form here.
_FORMS = {
    "LinearRegression": "ridge",
    "LinearSVC": "svm",
    "LogisticRegression": "logistic",
    "HuberRegressor": "huber",
    "Ridge": "ridge",
    "linear": "ridge",
} | {name: name for name in LEARNERS}
#: What there is, for sentences.
_NAMED = "logistic, svm, ridge, linear and huber"
#: Roles that leave a column out; every other one is said by a bound.
_LEFT_OUT = ("identifier", "text")
#: A rehearsal trains on this share, of at most so many rows.
_TRAINED = 0.8
_MOST_REHEARSED = 200_000
#: Bounds that fewer values than this keep are probably not those of the column.
_FITTING = 0.5
_OWN_EYES = (
    "scores and notes are computed from the secret rows, on a trial model of four fifths of them "
    "that is thrown away: they are for you alone, and the certificate does not cover them. Do not "
    "publish them with the model"
)


def private_form(learner: Any) -> str | None:
    """Return the form in which a learner can be trained on all rows, None if there is none.

    >>> private_form("linear"), private_form("tree")
    ('ridge', None)
    """
    return _FORMS.get(learner if isinstance(learner, str) else type(learner).__name__)


def plays_neighbour(
    game: str | None,
    record: str,
    method: str,
    learner: Any,
    *,
    bounds: Any,
    only_subset: Mapping[str, Any],
) -> bool:
    """Tell whether a learner is trained on all rows; refuse what belongs to the other game.

    ``only_subset`` are arguments of the subset game by name, None where they are not given.
    """
    form = "logistic" if learner is None else private_form(learner)
    if game is None:
        free = record == "every" and method == "auto" and only_subset["query"] is None
        game = "neighbour" if method == "gradient" or (free and form) else "subset"
    if game == "neighbour":
        _check_neighbour(record, method, learner, only_subset)
        return True
    if method == "gradient":
        raise InputError("method 'gradient' belongs to the neighbour game, got game='subset'.")
    if bounds is not None:
        raise InputError(
            "bounds belong to the neighbour game: give record='every', a learner out of "
            f"{_NAMED}, and no other method than 'gradient'."
        )
    return False


def _check_neighbour(
    record: str, method: str, learner: Any, only_subset: Mapping[str, Any]
) -> None:
    if record != "every":
        raise InputError("the neighbour game protects every record: give record='every'.")
    if method not in ("auto", "gradient"):
        raise InputError(
            f"method must be 'gradient' (or 'auto') in the neighbour game, got {method!r}, which "
            "belongs to game='subset'."
        )
    if learner is not None and private_form(learner) is None:
        shown = learner if isinstance(learner, str) else type(learner).__name__
        raise InputError(
            f"learner must be one of {_NAMED} in the neighbour game, got {shown!r}, "
            "which has no private form. Other learners are released with game='subset'."
        )
    for name, value in only_subset.items():
        if value is not None:
            raise InputError(
                f"{name} belongs to the subset game: leave it out, or give game='subset'."
            )


def _read_raw(
    source: Any,
    target: str,
    bounds: Bounds,
    *,
    columns: Columns,
    roles: Mapping[str, str],
    database_table: str | None,
) -> Any:
    """Return the table as it is written: what its columns hold is not looked at."""
    given = np.asarray(source) if isinstance(source, (list, tuple)) else source
    frame, name = read_frame(given, database_table)
    names = list(frame.columns)
    asked = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    for column in (target, *(asked or ()), *roles, *bounds):
        if column not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"{name} has no column {column!r}; it has {known}.")
    for column, role in roles.items():
        if role not in _LEFT_OUT or column == target:
            raise InputError(
                "roles must be identifier or text (to leave a column out) in the neighbour game, "
                f"got {role!r} for {column!r}. Say with bounds what the column holds."
            )
    kept = [c for c in dict.fromkeys(asked or names) if c != target and c not in roles]
    return frame[[*kept, target]]


def release_all_rows(
    source: Any,
    target: str,
    learner: Any,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    columns: Columns = None,
    roles: Mapping[str, str] | None = None,
    database_table: str | None = None,
    insecure_seed: int | None = None,
    progress: Progress = None,
) -> Protection:
    """Train on all rows and rehearse; see :func:`memberbound.protection.neighbour.fit_private`.

    ``learner`` None is logistic, or ridge where the bounds give the target a range.

    Edge cases: only roles that leave a column out can be given, the rest is for ``bounds``; bounds
    of columns that are left out are not used.
    """
    public = read_bounds(bounds)
    default = "ridge" if isinstance(public.get(target), Range) else "logistic"
    form = default if learner is None else private_form(learner)
    assert form is not None
    table = _read_raw(
        source,
        target,
        public,
        columns=columns,
        roles=roles or {},
        database_table=database_table,
    )
    public = {name: bound for name, bound in public.items() if name in table.columns}
    told = progress or (lambda _done, _total: None)
    told(0, 2)
    released = fit_private(
        table, target, eta=eta, learner=form, bounds=public, source=source_from_seed(insecure_seed)
    )
    told(1, 2)
    seed = None if insecure_seed is None else insecure_seed + 1
    scores, notes = _rehearsed(table, target, released, public, seed)
    told(2, 2)
    if learner is not None and not isinstance(learner, str):
        notes = ["the learner's own settings are not used: the descent has its own", *notes]
    return Protection(
        released.calibration_,
        released,
        f"{form} model",
        "accuracy" if released.class_names else "R²",
        scores.clean,
        scores.released,
        warnings=(*notes, *_misfits(table, target, released, public), _OWN_EYES),
        details={"bounds": sorted(public), "columns": list(released.columns)},
        score_baseline=scores.constant,
    )


@dataclass(frozen=True)
class _Scores:
    clean: float | None = None
    released: float | None = None
    constant: float | None = None


def _rehearsed(
    table: Any, target: str, released: PrivateLinear, bounds: Bounds, seed: int | None
) -> tuple[_Scores, list[str]]:
    """Return the scores of a trial, and notes; no failure of it may stop the release."""
    order = np.random.default_rng(seed).permutation(len(table))[:_MOST_REHEARSED]
    cut = int(len(order) * _TRAINED)
    train, test = table.iloc[order[:cut]], table.iloc[order[cut:]]
    try:
        trial = fit_private(
            train,
            target,
            eta=released.eta,
            learner=released.learner,
            bounds=bounds,
            source=source_from_seed(seed),
        )
    except InputError:
        return _Scores(), ["four fifths of the rows are too few for a trial: there are no scores"]
    truth, known = _truth(trial, test[target])
    seen, usable = _truth(trial, train[target])
    if not known.any() or not usable.any():
        return _Scores(), ["no row of the trial has a target that can be scored"]
    rows = trial.encoded(test)[0]
    constant: Any = seen[usable].mean() if not trial.class_names else _commonest(seen[usable])

    def score(answers: NDArray[Any]) -> float:
        return _score(answers[known], truth[known], classes=bool(trial.class_names))

    clean = _clean(trial, trial.encoded(train)[0], seen, usable, rows)
    found = _Scores(
        None if clean is None else score(clean),
        score(trial.answered(rows)),
        score(np.full(len(test), constant)),
    )
    notes = useless(found.released, found.constant)
    if len(order) < len(table):
        notes.append(f"the trial took {len(order)} of {len(table)} rows")
    return found, notes


def _truth(trial: PrivateLinear, column: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the target as the trial answers it, and where there is one."""
    values = Values.of(column)
    if not trial.class_names:
        return values.numbers, np.isfinite(values.numbers)
    places, names = values.named()
    texts = np.array([*names, ""], dtype=object)[places]
    return texts, places >= 0


def _commonest(labels: NDArray[Any]) -> Any:
    names, counts = np.unique(labels.astype(str), return_counts=True)
    return names[int(np.argmax(counts))]


def _score(answers: NDArray[Any], truth: NDArray[Any], *, classes: bool) -> float:
    if classes:
        return float(np.mean(answers.astype(str) == truth.astype(str)))
    spread = float(np.square(truth - truth.mean()).sum())
    missed = float(np.square(answers - truth).sum())
    return 1.0 - missed / spread if spread > 0 else 0.0


def _clean(
    trial: PrivateLinear, train: Any, seen: NDArray[Any], usable: NDArray[np.bool_], rows: Any
) -> FloatArray | None:
    """Return the answers of scikit-learn's model of the same columns, without noise."""
    from sklearn import linear_model, svm
    from sklearn.exceptions import ConvergenceWarning

    # Encoded numbers are half a standardised one, over the nominal length of a row.
    strength = 4.0 * trial.encoder.length**2
    makers = {
        "logistic": lambda: linear_model.LogisticRegression(C=strength, max_iter=300),
        "svm": lambda: svm.LinearSVC(C=strength),
        "ridge": lambda: linear_model.Ridge(alpha=1 / strength),
        "huber": linear_model.HuberRegressor,
    }
    wanted = seen[usable] if not trial.class_names else seen[usable].astype(str)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = makers[trial.learner]().fit(train[np.flatnonzero(usable)], wanted)
        return np.asarray(fitted.predict(rows))
    except ValueError:  # one class only, or no convergence
        return None


def _misfits(table: Any, target: str, released: PrivateLinear, bounds: Bounds) -> Sequence[str]:
    """Say where the bounds contradict the table, and whom the model does not know."""
    found = []
    for name, bound in bounds.items():
        values = Values.of(table[name])
        if isinstance(bound, Categories):
            kept = float(np.mean(values.positions(bound.labels) >= 0))
            what = "are in its list of categories"
        else:
            kept = float(np.mean((values.numbers >= bound.low) & (values.numbers <= bound.high)))
            what = "are numbers between its bounds"
        if kept < _FITTING and name != target:
            found.append(f"fewer than half of the values of {name!r} {what}: look at the bounds")
    if released.class_names:
        unknown = int(np.sum(Values.of(table[target]).positions(released.class_names) < 0))
        if unknown:
            found.append(
                f"{unknown} of {len(table)} rows have no class that the model knows "
                f"({', '.join(released.class_names)}): they have no influence on it, and it never "
                "answers with theirs"
            )
    return found
