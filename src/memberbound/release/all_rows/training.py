"""Train a learner on all rows, and score a trial of it for the owner of the rows.

Scores and notes are computed from the secret rows: they are neither stored nor covered by the
certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners import network_factory
from memberbound.release.all_rows.encoding import Bounds, Categories, Range
from memberbound.release.all_rows.gradient import Features
from memberbound.release.all_rows.learner_settings import Settings, settings_of
from memberbound.release.all_rows.models import Labels, PrivateModel, fit_private, private_form
from memberbound.release.all_rows.networks import PrivateNetwork, fit_network
from memberbound.release.budget import Budget
from memberbound.release.model_quality import (
    Score,
    answers_of,
    by_class,
    probability_scores,
    scores_of,
    usefulness_notes,
)
from memberbound.release.randomness import source_from_seed
from memberbound.tables.columns import Values, read_value
from memberbound.tables.in_memory import Records

#: A trial is trained on this share, of at most so many rows.
_TRAINED = 0.8
_MOST_ROWS = 200_000
_MOST_ORDERED = 2**22
#: Ways to write numbers and dates that need a word in the bounds, and that word.
_WRITINGS = {
    "comma": "a decimal comma: say decimal: ','",
    "number": "a decimal point and commas for thousands: say decimal: '.'",
    "day-first": "the day first: say format: '%d/%m/%Y'",
    "date": "the month first: say format: '%m/%d/%Y'",
}
#: Bounds that fewer values than this keep are probably not those of the column.
_FITTING = 0.5


def train(
    table: Records,
    target: str,
    learner: object,
    *,
    eta: float,
    bounds: Bounds,
    tune: bool,
    seed: int | None,
    settings: Settings | None = None,
    reserve: Callable[[Budget], None] | None = None,
) -> PrivateModel:
    """Train a learner that has a private form: a linear model, boosting, or a network.

    Its settings are those of the learner, or ``settings``.
    """
    source = source_from_seed(seed)
    form = str(private_form(learner))
    factory = network_factory(learner)
    if form != "network" or factory is None:
        return fit_private(
            table,
            target,
            eta=eta,
            learner=form,
            bounds=bounds,
            tune=tune,
            settings=settings_of(learner) if settings is None else settings,
            source=source,
            reserve=reserve,
        )
    if tune:
        raise InputError("tune must be left out for a network: its settings are not tried out.")
    name = learner if isinstance(learner, str) else getattr(factory, "__name__", "network")
    return fit_network(table, target, factory, eta=eta, bounds=bounds, source=source, name=name)


def trial_scores(
    table: Records,
    target: str,
    released: PrivateModel,
    bounds: Bounds,
    seed: int | None,
) -> tuple[tuple[Score, ...], list[str]]:
    """Return the scores of a trial, and notes, for the owner of the rows.

    The trial is trained on four fifths of the records, scored on the others and thrown away.  No
    failure of it may stop the release; a score that is not finite is left out.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores, notes = _scores(table, target, released, bounds, seed)
    except Exception:  # libraries may raise anything on unusual rows
        return (), ["the trial failed: there are no scores"]
    return tuple(score for score in scores if score.finite), notes


def _scores(
    table: Records,
    target: str,
    released: PrivateModel,
    bounds: Bounds,
    seed: int | None,
) -> tuple[Sequence[Score], list[str]]:
    draws, count = np.random.default_rng(seed), len(table)
    most = min(count, max(2, _MOST_ROWS * count // table.rows))
    # A permutation of all records of a large table takes memory.
    large = count > _MOST_ORDERED
    order = draws.choice(count, most, replace=False) if large else draws.permutation(count)[:most]
    cut = int(len(order) * _TRAINED)
    training, test = table.taken(order[:cut]), table.taken(order[cut:])
    try:
        trial = train(
            training,
            target,
            getattr(released.model, "factory", released.learner),
            eta=released.eta,
            bounds=bounds,
            tune=released.tuned,
            seed=seed,
            settings=released.settings,
        )
    except InputError:
        return (), ["four fifths of the rows are too few for a trial: there are no scores"]
    truth, scorable = _truth(trial, test.columns[target])
    seen, usable = _truth(trial, training.columns[target])
    if not scorable.any() or not usable.any():
        return (), ["no row of the trial has a target that can be scored"]
    rows = trial.encoded(test)[0][np.flatnonzero(scorable)]
    truth = truth[scorable]
    constant: Any = seen[usable].mean() if not trial.class_names else _commonest(seen[usable])
    clean = _clean(trial, trial.encoded(training)[0], seen, usable)
    names = trial.class_names
    released_scores = scores_of(truth, trial.answered(rows), trial.ranking(rows), names)
    constant_scores = scores_of(
        truth, np.full(len(truth), constant), np.zeros((len(truth), len(names))), names
    )
    clean_scores = {} if clean is None else scores_of(truth, *answers_of(clean, rows, names), names)
    probabilities = trial.probabilities(rows)
    if probabilities is not None:
        released_scores |= probability_scores(truth, probabilities, names)
        counts = np.array([np.sum(seen[usable] == name) for name in names])
        shares = np.tile(counts / counts.sum(), (len(truth), 1))
        constant_scores |= probability_scores(truth, shares, names)
        if hasattr(clean, "predict_proba"):
            usual = by_class(clean, clean.predict_proba(rows), names, 0.0)
            clean_scores |= probability_scores(truth, usual, names)
    scores = [
        Score(name, clean_scores.get(name), value, constant_scores[name])
        for name, value in released_scores.items()
        if name in constant_scores
    ]
    notes = usefulness_notes(scores)
    if names and len(set(seen[usable].astype(str))) == 1:
        notes = [f"every row has the class {str(constant)!r}: there is nothing to learn"]
    if len(order) < len(table):
        notes.append(f"the trial took {len(order)} of {len(table)} records")
    return scores, notes


def _truth(trial: PrivateModel, values: Values) -> tuple[Labels, NDArray[np.bool_]]:
    """Return the target as the trial answers it, and where there is one."""
    if not trial.class_names:
        return values.numbers, np.isfinite(values.numbers)
    places, names = values.named()
    texts = np.array([*names, ""], dtype=object)[places]
    return texts, places >= 0


def _commonest(labels: Labels) -> Any:
    names, counts = np.unique(labels.astype(str), return_counts=True)
    return names[int(np.argmax(counts))]


def _clean(trial: PrivateModel, train: Features, seen: Labels, usable: NDArray[np.bool_]) -> Any:
    """Return scikit-learn's model of the same columns, without noise; None if it cannot be."""
    from sklearn import ensemble, linear_model, svm
    from sklearn.exceptions import ConvergenceWarning

    if isinstance(trial, PrivateNetwork):
        return None

    # Encoded numbers are half a standardised one, over the nominal length of a row.
    strength = 4.0 * trial.encoder.length**2 / (trial.settings.penalty or 1.0)
    makers = {
        "logistic": lambda: linear_model.LogisticRegression(C=strength, max_iter=300),
        "svm": lambda: svm.LinearSVC(C=strength),
        "ridge": lambda: linear_model.Ridge(alpha=1 / strength),
        "huber": linear_model.HuberRegressor,
        "boosting": partial(
            ensemble.HistGradientBoostingClassifier
            if trial.class_names
            else ensemble.HistGradientBoostingRegressor,
            random_state=0,
        ),
    }
    wanted = seen[usable] if not trial.class_names else seen[usable].astype(str)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return makers[trial.learner]().fit(train[np.flatnonzero(usable)], wanted)
    except ValueError:  # one class only, or no convergence
        return None


def _column_facts(
    part: Records, bounds: Bounds, target: str, classes: tuple[str, ...]
) -> tuple[dict[str, int], dict[str, int], int]:
    """Count the columns that have a value, the values within bounds, and the unknown classes."""
    filled = {
        name: int(not np.isnan(values.numbers).all() or values.distinct > 0)
        for name, values in part.columns.items()
    }
    inside = {}
    for name, bound in bounds.items():
        values = part.columns[name]
        if isinstance(bound, Categories):
            fits = values.positions(bound.labels) >= 0
        else:
            fits = (values.numbers >= bound.low) & (values.numbers <= bound.high)
        inside[name] = int(fits.sum())
    unknown = part.columns[target].positions(classes) < 0 if classes else np.zeros(0)
    return filled, inside, int(unknown.sum())


def _written_counts(part: Records, name: str) -> NDArray[np.int64]:
    """Count the values of a column that are no numbers, and those that each writing reads."""
    values = part.columns[name]
    codes, labels = values.coded()
    counts = [int(np.isnan(values.numbers).sum())]
    for form in _WRITINGS:
        fits = np.array([not np.isnan(read_value(label, form)[0]) for label in labels])
        counts.append(int(fits[codes].sum()))
    return np.array(counts)


def _misfit_cause(table: Records, name: str, bound: Range | Categories) -> str:
    """Say why most values are outside their bounds."""
    if isinstance(bound, Categories):
        return "look at the list"
    unread, *readable = table.chosen([name]).total(_written_counts, name) / table.rows
    if not unread > _FITTING:
        return "look at the bounds"
    shares = dict(zip(_WRITINGS.values(), readable, strict=True))
    best = max(shares, key=lambda word: shares[word])
    if shares[best] > _FITTING:
        return f"they are written with {best} in the bounds"
    return "the others are missing or texts; dates need their format in the bounds (format: …)"


def misfit_notes(
    table: Records, target: str, released: PrivateModel, bounds: Bounds
) -> Sequence[str]:
    """Say what was left out, where bounds contradict the table, whom the model does not know.

    For the owner of the rows, as the scores are.
    """
    names = released.class_names
    filled, inside, unknown = table.total(_column_facts, bounds, target, names)
    empty = [name for name in table.columns if not filled[name]]
    notes = [f"without a value in any row: {', '.join(map(repr, empty))}"] if empty else []
    used = (*released.columns, target, *empty)
    left = [repr(name) for name in table.columns if name not in used]
    if left:
        notes.append(
            f"left out: {', '.join(left)} (identifiers, free text, or nothing above the noise). "
            "A column with bounds is kept"
        )
    for name, bound in bounds.items():
        listed = isinstance(bound, Categories)
        what = "are in its list of categories" if listed else "are numbers between its bounds"
        few = inside[name] < _FITTING * table.rows and name not in empty
        if few and (name != target or not listed):
            cause = _misfit_cause(table, name, bound)
            notes.append(f"fewer than half of the values of {name!r} {what}: {cause}")
    if unknown:
        notes.append(
            f"{unknown} of {table.rows} rows have no class that the model knows "
            f"({', '.join(names)}): they have no influence on it, and it never answers with theirs"
        )
    return notes
