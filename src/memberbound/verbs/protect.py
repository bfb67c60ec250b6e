"""The verb ``protect``: a model of all rows that hides every record.

Nothing about the rows is public here, so nothing about them decides what is done: not what a column
is, not which learner fits the target.  Scores are computed from the secret rows all the same, on a
model of four fifths of them that is thrown away.  They are for whoever owns the table; they are
neither stored nor covered by the certificate.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.declarations import (
    Column,
    DatabaseTable,
    Force,
    LedgerFile,
    Names,
    Option,
    OutputFile,
    Rates,
    Table,
)
from memberbound.errors import InputError, fractions, whole_number
from memberbound.files import check_output
from memberbound.learners import network_factory
from memberbound.release.all_rows.encoding import Bounds, Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.gradient import Features
from memberbound.release.all_rows.models import (
    LEARNERS,
    PrivateModel,
    checked_form,
    fit_private,
    private_form,
    replaces_preprocessing,
)
from memberbound.release.all_rows.networks import NetworkModel, fit_network
from memberbound.release.budget import Budget
from memberbound.release.half.parameters import Labels
from memberbound.release.ledger_file import entered
from memberbound.release.noise import checked_eta
from memberbound.release.randomness import source_from_seed
from memberbound.release.saving import LINEAR_ENDINGS, NETWORK_ENDINGS, save
from memberbound.release.scores import Score, answers_of, scores_of, usefulness_notes
from memberbound.tables.columns import Values
from memberbound.tables.in_memory import Records, read_secret_columns
from memberbound.tables.source import header_notes
from memberbound.verbs.protection import (
    Protection,
    unit_and_seed_notes,
)

__all__ = ["Protection", "protect"]

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


def protect(
    source: Table,
    *,
    target: Column,
    learner: Annotated[Any, Option("learner", metavar="NAME", choices=LEARNERS)] | None = None,
    eta: Annotated[float, Option("number", metavar="H")] = 0.05,
    bounds: Annotated[Any, Option("document", metavar="FILE")] | None = None,
    tune: bool = False,
    baseline: Rates | None = None,
    columns: Names | None = None,
    unit: Column | None = None,
    ledger: LedgerFile | None = None,
    database_table: DatabaseTable | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    insecure_seed: Annotated[int, Option("whole", web=False)] | None = None,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training on all rows")]
    | None = None,
) -> Protection:
    """Train a model on all rows so that nobody can tell whose record was among them.

    Guarantee: nobody who knows all other records and sees the model is right about any record's
    membership more than ``eta`` above blind guessing: for every record of any table, without a
    confidence level.  The model takes raw rows (``predict``).
    Theorem: X22 (proofs/gradient-descent.md, boosting.md, networks.md).
    Assumes: one release; the number of rows, the columns' names and declared types and the bounds
    are public.
    Published are the file, its certificate, and whatever else ``--json`` says; but the scores and
    notes (the keys in ``owner_only``, marked in the table) are computed from the secret rows and
    not covered: they are for the owner of the rows only.

    Args:
        source: a file or a table, one record per row.
        target: column to predict.
        learner: ``logistic``, ``svm``, ``ridge``, ``huber``, ``boosting``, or the
            ``package.module:factory`` of a PyTorch module (default: logistic; ridge where the
            bounds give the target a range).
        eta: how far above blind guessing anybody may get, in (0, ½).
        bounds: YAML or JSON file (or a mapping) with what is public about the columns:
            ``age: [0, 120]``, ``sex: [F, M]``; see ``memberbound bounds``.
        tune: try several learning rates, paid for out of the budget.
        baseline: chance of guessing something else about a record (an attribute, the record itself)
            without the release; the answer bounds it with the release. May be repeated.
        columns: columns to use (default: all; those in which nothing rises above the noise are left
            out).
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        ledger: ledger of releases about the same people, which this one is entered into and must
            not exceed; see ``memberbound ledger``.
        database_table: the table inside a DuckDB or SQLite file.
        out: file for the model; its certificate is written beside it. Both may be published; the
            scores and notes printed with them are for the owner of the rows.
        force: overwrite ``out``.
        insecure_seed: for tests only: draw the noise from a seed, which protects nobody.
        progress: called with (done, total).

    Command line:
        memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
        memberbound protect patients.csv --target ill --bounds bounds.yaml --learner boosting
        memberbound protect patients.csv --target ill --learner nets:two_layers

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": [k % 80 for k in range(900)]})
        >>> people["old"] = people["age"] > 40
        >>> public = {"age": [0, 80], "old": [False, True]}
        >>> result = protect(people, target="old", bounds=public, insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    checked_eta(eta)
    seed = insecure_seed
    if seed is not None:
        seed = whole_number("insecure_seed", seed, at_least=0)
    guesses = fractions("baseline", baseline)
    public = read_bounds(bounds)
    default = "ridge" if isinstance(public.get(target), Range) else "logistic"
    form = default if learner is None else checked_form(learner)
    if out is not None:
        own = Path(source) if isinstance(source, (str, os.PathLike)) else None
        endings = NETWORK_ENDINGS if form == "network" else LINEAR_ENDINGS
        check_output(Path(out), formats=endings, source=own, force=force)
    table = read_secret_columns(
        source,
        forms_of(public),
        target=target,
        columns=columns,
        unit=unit,
        database_table=database_table,
    )
    public = {name: bound for name, bound in public.items() if name in table.columns}
    advance = progress or (lambda _done, _total: None)
    advance(0, 2)
    trained = learner if form == "network" else form
    if ledger is not None and form == "network":
        raise InputError("ledger takes models with normal noise on all rows, not a network.")
    with entered(ledger, "protect", f"{form} model", eta) as entry:
        released = _trained(
            table,
            target,
            trained,
            eta=eta,
            bounds=public,
            tune=tune,
            seed=seed,
            reserve=entry.reserve,
        )
        if out is not None:
            save(released, Path(out), force=force)
            entry.out = str(out)
    advance(1, 2)
    scores, notes = _rehearsed(table, target, released, public, None if seed is None else seed + 1)
    advance(2, 2)
    if replaces_preprocessing(learner):
        notes = ["the pipeline's own preprocessing is replaced by a private one", *notes]
    if learner is not None and not isinstance(learner, str) and form != "network":
        notes = ["the learner's own settings are not used: the private form has its own", *notes]
    return Protection(
        calibration=released.calibration_,
        released=released,
        what=f"{form} model",
        model_scores=scores,
        warnings=(
            *header_notes(source),
            *notes,
            *_misfits(table, target, released, public),
            _OWN_EYES,
            *unit_and_seed_notes(unit, seed),
        ),
        bounds=tuple(sorted(public)),
        columns=released.columns,
        baseline=guesses,
        out=None if out is None else str(out),
    )


def _trained(
    table: Records,
    target: str,
    learner: object,
    *,
    eta: float,
    bounds: Bounds,
    tune: bool,
    seed: int | None,
    reserve: Callable[[Budget], None] | None = None,
) -> PrivateModel:
    """Train a learner that has a private form."""
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
            source=source,
            reserve=reserve,
        )
    if tune:
        raise InputError("tune must be left out for a network: its settings are not tried out.")
    name = learner if isinstance(learner, str) else getattr(factory, "__name__", "network")
    return fit_network(table, target, factory, eta=eta, bounds=bounds, source=source, name=name)


def _rehearsed(
    table: Records,
    target: str,
    released: PrivateModel,
    bounds: Bounds,
    seed: int | None,
) -> tuple[tuple[Score, ...], list[str]]:
    """Return the scores of a trial, and notes; no failure of it may stop the release.

    Nor may what a trial says by failing: a score that is not finite is left out.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores, notes = _trial_scores(table, target, released, bounds, seed)
    except Exception:  # the rows decide what libraries do with them
        return (), ["the trial failed: there are no scores"]
    return tuple(score for score in scores if score.finite), notes


def _trial_scores(
    table: Records,
    target: str,
    released: PrivateModel,
    bounds: Bounds,
    seed: int | None,
) -> tuple[Sequence[Score], list[str]]:
    order = np.random.default_rng(seed).permutation(len(table))[:_MOST_REHEARSED]
    cut = int(len(order) * _TRAINED)
    train, test = table.taken(order[:cut]), table.taken(order[cut:])
    try:
        trial = _trained(
            train,
            target,
            getattr(released.model, "factory", released.learner),
            eta=released.eta,
            bounds=bounds,
            tune=released.tuned,
            seed=seed,
        )
    except InputError:
        return (), ["four fifths of the rows are too few for a trial: there are no scores"]
    truth, known = _truth(trial, test.columns[target])
    seen, usable = _truth(trial, train.columns[target])
    if not known.any() or not usable.any():
        return (), ["no row of the trial has a target that can be scored"]
    rows = trial.encoded(test)[0][np.flatnonzero(known)]
    truth = truth[known]
    constant: Any = seen[usable].mean() if not trial.class_names else _commonest(seen[usable])
    clean = _clean(trial, trial.encoded(train)[0], seen, usable)
    names = trial.class_names
    released_scores = scores_of(truth, trial.answered(rows), trial.ranking(rows), names)
    constant_scores = scores_of(
        truth, np.full(len(truth), constant), np.zeros((len(truth), len(names))), names
    )
    clean_scores = {} if clean is None else scores_of(truth, *answers_of(clean, rows, names), names)
    scores = [
        Score(name, clean_scores.get(name), value, constant_scores[name])
        for name, value in released_scores.items()
        if name in constant_scores
    ]
    notes = usefulness_notes(scores)
    if len(order) < len(table):
        notes.append(f"the trial took {len(order)} of {len(table)} rows")
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

    if isinstance(trial.model, NetworkModel):
        return None

    # Encoded numbers are half a standardised one, over the nominal length of a row.
    strength = 4.0 * trial.encoder.length**2
    makers = {
        "logistic": lambda: linear_model.LogisticRegression(C=strength, max_iter=300),
        "svm": lambda: svm.LinearSVC(C=strength),
        "ridge": lambda: linear_model.Ridge(alpha=1 / strength),
        "huber": linear_model.HuberRegressor,
        "boosting": ensemble.HistGradientBoostingClassifier
        if trial.class_names
        else ensemble.HistGradientBoostingRegressor,
    }
    wanted = seen[usable] if not trial.class_names else seen[usable].astype(str)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return makers[trial.learner]().fit(train[np.flatnonzero(usable)], wanted)
    except ValueError:  # one class only, or no convergence
        return None


def _misfits(table: Records, target: str, released: PrivateModel, bounds: Bounds) -> Sequence[str]:
    """Say what was left out, where bounds contradict the table, whom the model does not know."""
    left = [repr(c) for c in table.columns if c not in (*released.columns, target)]
    found = []
    if left:
        found.append(
            f"left out: {', '.join(left)} (identifiers, free text, or nothing above the noise). "
            "A column with bounds is kept"
        )
    for name, bound in bounds.items():
        values = table.columns[name]
        if isinstance(bound, Categories):
            kept = float(np.mean(values.positions(bound.labels) >= 0))
            what = "are in its list of categories"
        else:
            kept = float(np.mean((values.numbers >= bound.low) & (values.numbers <= bound.high)))
            what = "are numbers between its bounds"
        if kept < _FITTING and (name != target or isinstance(bound, Range)):
            found.append(
                f"fewer than half of the values of {name!r} {what}: look at the bounds, and say "
                "how the values are written if that is the reason (decimal, format)"
            )
    if released.class_names:
        unknown = int(np.sum(table.columns[target].positions(released.class_names) < 0))
        if unknown:
            found.append(
                f"{unknown} of {len(table)} rows have no class that the model knows "
                f"({', '.join(released.class_names)}): they have no influence on it, and it never "
                "answers with theirs"
            )
    return found
