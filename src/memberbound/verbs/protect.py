"""The verb ``protect``: release a model or a statistic with a certified η."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.clusters import Scheduler, on_cluster
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    Hidden,
    InputFile,
    LearnerName,
    Names,
    Numbers,
    Option,
    OutputFile,
    Rates,
    Table,
    Workers,
)
from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.files import check_output
from memberbound.games import SubsetGame
from memberbound.learners import (
    Examples,
    encoded_rows,
    learner_from_name,
    network_factory,
    read_examples,
)
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import (
    CERTIFICATE,
    Readable,
    Sides,
    at_confidence,
    common_fields,
    decimals,
    marked,
    percent,
    significant,
)
from memberbound.release.budget import CURVE_SIDES, READ_DELTA, READ_FPR, NeighbourBudget
from memberbound.release.calibration import Calibration, Progress, Record, checked_eta
from memberbound.release.estimator import MembershipPrivate
from memberbound.release.gradient import Features
from memberbound.release.methods import (
    CLASS_SCORES,
    METHODS,
    NUMBER_SCORES,
    answers_of,
    released_statistic,
)
from memberbound.release.neighbour import (
    ALL_ROWS_METHODS,
    PrivateModel,
    check_neighbour,
    fit_private,
    plays_neighbour,
    private_form,
    replaces_preprocessing,
)
from memberbound.release.networks import NetworkModel, fit_network
from memberbound.release.parameters import Labels
from memberbound.release.preprocessing import Bounds, Categories, Range, forms_of, read_bounds
from memberbound.release.releasing import Release, source_from_seed
from memberbound.release.saving import LINEAR_ENDINGS, NETWORK_ENDINGS, TableModel, save
from memberbound.release.statistics import (
    SumStatistic,
    computed,
    covariance,
    histogram,
    mean,
    quantiles,
    total,
)
from memberbound.release.table_statistics import TABLE_STATISTICS, release_table_statistic
from memberbound.tables.columns import Values
from memberbound.tables.in_memory import (
    Population,
    Records,
    column_names,
    read_population,
    read_records,
)
from memberbound.tables.recipe import labels_of
from memberbound.tables.source import Columns, header_notes, open_table
from memberbound.verbs.explain import BEYOND_MEMBERSHIP, chances

__all__ = [
    "STATISTICS",
    "Protection",
    "fit_notes",
    "made_statistic",
    "plays_neighbour",
    "private_form",
    "protect",
    "release_all_rows",
    "release_statistic",
    "useless",
]

# ── The answer of ``protect``: a release and the certificate that its noise is enough ─────────────


@dataclass(frozen=True)
class TrialScores:
    """One score of a trial on rows it was not trained on: without noise, released, of a constant.

    All are estimates for the owner of the rows.
    """

    name: str
    clean: float | None
    released: float
    constant: float | None

    @property
    def finite(self) -> bool:
        """Whether all of it are numbers that can be shown."""
        return all(map(math.isfinite, (self.clean or 0.0, self.released, self.constant or 0.0)))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "clean_estimate": self.clean,
            "released_estimate": self.released,
            "constant_estimate": self.constant,
        }

    def described(self) -> tuple[tuple[str, float | None], ...]:
        """Return the three numbers with their names."""
        return (
            ("without noise", self.clean),
            ("released", self.released),
            ("of a constant", self.constant),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Protection(Readable):
    """A protected release: the noisy model or statistic, and the certificate that it is enough.

    In the neighbour game ``scores`` and ``warnings`` are computed from the secret rows and paid for
    by no budget: they are for the owner of the rows (``owner_fields``).  Everything else may be
    published (``published_fields``).
    """

    SIDES: ClassVar[Sides] = {
        "budget": "given",
        "certificate": CERTIFICATE,
        "configuration": "given",
        "curve": CURVE_SIDES,
        "eta": "given",
        "guess_upper": "upper",
        "mu": "given",
        "noise": "given",
        "noise_scale": "given",
        "score_baseline": "estimate",
        "score_clean": "estimate",
        "score_released": "estimate",
        "scores": "estimate",
        "values": "given",
    }

    calibration: Calibration
    released: TableModel | PrivateModel | Release
    what: str
    scores: tuple[TrialScores, ...] = ()
    out: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    #: Chances of guessing something about a record without the release.
    baseline: tuple[float, ...] = ()

    @property
    def eta(self) -> float:
        """The η that was asked for."""
        return self.calibration.eta

    @property
    def score(self) -> str | None:
        """The name of the first score: accuracy, or R²."""
        return self.scores[0].name if self.scores else None

    @property
    def score_clean(self) -> float | None:
        """That score without noise."""
        return self.scores[0].clean if self.scores else None

    @property
    def score_released(self) -> float | None:
        """That score with it."""
        return self.scores[0].released if self.scores else None

    @property
    def score_baseline(self) -> float | None:
        """That score of a constant."""
        return self.scores[0].constant if self.scores else None

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the added noise vector."""
        return self.calibration.noise_scale

    @property
    def _budget(self) -> NeighbourBudget | None:
        """What was spent on all rows, in the neighbour game."""
        return getattr(self.released, "budget", None)

    @property
    def blind(self) -> float:
        """How often somebody is right who always gives the likelier answer."""
        game = self.calibration.certificate.game
        return game.blind if isinstance(game, SubsetGame) else 0.5

    @property
    def success_upper(self) -> float:
        """How often anybody is right at most, rounded up."""
        read = 1.0 if self._budget is None else self._budget.curve().accuracy()
        return min(read, sum_up(self.blind, self.calibration.certificate.value))

    @property
    def rows_trained(self) -> int | None:
        """Number of rows that the release was made from."""
        game = self.calibration.certificate.game
        return game.size if isinstance(game, SubsetGame) else getattr(self.released, "rows", None)

    @property
    def mu(self) -> float | None:
        """The shift of the normal pair that the release stays below, in the neighbour game."""
        return None if self._budget is None else self._budget.normal_mu

    @property
    def guess_upper(self) -> dict[str, float]:
        """Best chance of guessing something about a record, by the chance before the release."""
        if self._budget is None:
            return {}
        curve = self._budget.curve()
        return {repr(before): curve.tpr(before) for before in self.baseline}

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract; ``owner_only`` names what is not to be published.

        In the subset game the population is public, and so is everything computed from it.
        """
        owner = self.owner_fields()
        private = [] if self._budget is None else sorted(owner)
        return self.published_fields() | owner | {"owner_only": private}

    def owner_fields(self) -> dict[str, object]:
        """Return what was computed from the rows beside the release."""
        return {
            "score": self.score,
            "score_clean": self.score_clean,
            "score_released": self.score_released,
            "score_baseline": self.score_baseline,
            "scores": {score.name: score.to_dict() for score in self.scores},
            "warnings": list(self.warnings),
        }

    def published_fields(self) -> dict[str, object]:
        """Return what was declared, is public, or was paid for."""
        certificate = self.calibration.certificate
        result = common_fields(
            "protect",
            certificate.game,
            (*certificate.theorems, "X23") if self.baseline else certificate.theorems,
            (*certificate.assumptions, BEYOND_MEMBERSHIP)
            if self.baseline
            else certificate.assumptions,
        )
        return (
            result
            | {
                "sentence": self.sentence,
                "what": self.what,
                "eta": self.eta,
                "mu": self.mu,
                "rows_trained": self.rows_trained,
                "record": self.calibration.record,
                "method": self.calibration.method,
                "noise_scale": self.noise_scale,
                "noise": _plain_law(self.calibration),
                "certificate": certificate.to_dict(),
                "fits": self.calibration.fits,
                "out": self.out,
                "roles": dict(self.roles),
            }
            | dict(self.details)
            | (
                {}
                if self._budget is None
                else {"curve": self._budget.described(), "budget": self._budget.shares()}
            )
            | ({"guess_upper": self.guess_upper} if self.baseline else {})
        )

    @property
    def sentence(self) -> str:
        """A sentence to pass on with the release: who is held to what, and knowing what."""
        bound = self.calibration.certificate
        whom = "any record's" if self.calibration.record == "every" else "the average record's"
        game, odds = bound.game, ""
        knows, made = "every other record", ""
        if self._budget is not None:
            given = ", the columns' names and the bounds given"
            public = given if self.details.get("bounds") else " and the columns' names"
            verb = "computed from" if isinstance(self.released, Release) else "trained on"
            made = (
                f" It was {verb} all {self.rows_trained} rows; no part of the table is public "
                f"except its number of rows{public}."
            )
        if isinstance(game, SubsetGame):
            knows = f"all {game.population} records but not which {game.size} of them were drawn"
            if 2 * game.size != game.population:
                outside = game.population - game.size
                odds = f" ({max(game.size, outside)} of {game.population})"
        return (
            f"Nobody who knows {knows}, and sees the released {self.what}, is right about {whom} "
            f"membership more than {percent(self.success_upper, 'upper')} of the "
            f"time{at_confidence(bound.confidence)}: guessing blindly is right "
            f"{percent(self.blind, 'upper')} of the time{odds}, and the release adds at most "
            f"{percent(bound.value, 'upper').removesuffix(' %')} points."
            f"{made}"
        )

    def _read_off(self) -> list[tuple[str, object]]:
        """Return what the curve of all rows says about a record that is replaced."""
        budget = self._budget
        if budget is None:
            return []
        curve = budget.curve()
        found: list[tuple[str, object]] = [
            ("TPR - FPR", f"{marked(curve.advantage, 'certificate')} (record replaced)")
        ]
        for rate in READ_FPR:
            at = f"TPR at FPR {percent(rate, 'given')}"
            found.append((at, f"{marked(curve.tpr(rate), 'certificate')} (record replaced)"))
        epsilon, proved = curve.epsilon(READ_DELTA), "nothing is proved"
        if epsilon < np.inf:
            proved = f"≤ {significant(epsilon, 'upper', 4)}"
        at = f"ε at δ = {significant(READ_DELTA, 'given')}"
        found.append((at, f"{proved} (record replaced)"))
        found.append(("MIS", marked(curve.security(), "certificate", "security", 4)))
        spent = [f"{name} {percent(x, 'estimate')}" for name, x in budget.shares().items()]
        if len(spent) > 1:
            found.append(("budget (μ²) went to", ", ".join(spent)))
        for before, after in self.guess_upper.items():
            at = f"a guess right {percent(float(before), 'given')} of the time before"
            found.append((at, marked(after, "certificate")))
        return found

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rows: list[tuple[str, object]] = [
            ("released", self.what),
            ("protects", f"{self.calibration.record} record"),
            (
                "η certified",
                marked(
                    self.calibration.certificate.value,
                    "certificate",
                    "eta",
                    6,
                    largest_gain=1 - self.blind,
                ),
            ),
            ("method", self.calibration.method),
            ("noise, rms length", significant(self.noise_scale, "upper")),
        ]
        rows += self._read_off() or [("fits for calibration", f"{self.calibration.fits}")]
        private = "" if self._budget is None else " (owner only)"
        for score in self.scores:
            rows += [
                (f"{score.name} {what}", f"≈ {decimals(value, 'estimate', 4)}{private}")
                for what, value in score.described()
                if value is not None
            ]
        if isinstance(self.released, Release):
            names = self.released.names or tuple(
                f"value {i}" for i in range(self.released.values.size)
            )
            shown = list(zip(names, self.released.values.tolist(), strict=True))
            rows += [(name, significant(value, "given")) for name, value in shown[:20]]
            if len(shown) > 20:
                rows.append(("…", f"{len(shown) - 20} more"))
        if self.out is not None:
            rows.append(("written", self.out))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        notes = "".join(f"\nnote{private}: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}{notes}"


def useless(scores: Sequence[TrialScores]) -> list[str]:
    """Say so where a release does no better than always giving the same answer."""
    if not scores or scores[0].constant is None or scores[0].released > scores[0].constant:
        return []
    better = [s for s in scores if s.constant is not None and s.released > s.constant + _NOTABLE]
    if better:
        named = " and ".join(f"{s.name} {decimals(s.released, 'estimate', 3)}" for s in better)
        return [
            f"always giving the same answer has as good an {scores[0].name}: the classes are "
            f"uneven, so look at {named} instead"
        ]
    return [
        "this release is useless: always giving the same answer scores as well. Allow a larger "
        "eta, or find more rows"
    ]


def fit_notes(calibration: Calibration) -> tuple[str, ...]:
    """Return what whoever releases has to know about the fits."""
    known, said = calibration.details, []
    if known.get("own_coins"):
        said.append(
            "the learner draws random numbers that cannot be seeded; see the assumptions, and "
            "prefer one with a random_state"
        )
    if failed := known.get("fits_failed"):
        said.append(
            f"{failed} of {calibration.fits} fits failed on fresh subsets; where a fit fails, "
            "zeros are released with the same noise"
        )
    return tuple(said)


def _plain_law(calibration: Calibration) -> dict[str, object]:
    """The noise law without its matrices: they are in the saved certificate."""
    return {
        name: value
        for name, value in calibration.noise.describe().items()
        if not isinstance(value, (list, tuple, np.ndarray))
    }


# ── ``protect`` in the neighbour game: a linear model of all rows, and a rehearsal for its owner
#
# Nothing about the rows is public here, so nothing about them decides what is done: not what a
# column is, not which learner fits the target.  Scores are computed from the secret rows all the
# same, on a model of four fifths of them that is thrown away.  They are for whoever owns the table;
# they are neither stored nor covered by the certificate.

#: Roles that leave a column out; every other one is said by a bound.
_LEFT_OUT = ("identifier", "text")
#: A rehearsal trains on this share, of at most so many rows.
_TRAINED = 0.8
_MOST_REHEARSED = 200_000
#: A score this far above a constant's says something.
_NOTABLE = 0.05
#: Bounds that fewer values than this keep are probably not those of the column.
_FITTING = 0.5
_OWN_EYES = (
    "scores and notes are computed from the secret rows, on a trial model of four fifths of them "
    "that is thrown away: they are for you alone, and the certificate does not cover them. Do not "
    "publish them with the model"
)


def _read_raw(
    source: object,
    target: str | None,
    bounds: Bounds,
    *,
    columns: Columns,
    roles: Mapping[str, str],
    database_table: str | None,
    unit: str | None,
) -> Records:
    """Return the columns that are used, read value by value: no row decides about another."""
    if isinstance(source, (str, os.PathLike)):
        source = open_table(source, database_table, secret=True)
    names, name = column_names(source)
    asked = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    aim = [] if target is None else [target]
    whose = [] if unit is None else [unit]
    for column in (*aim, *(asked or ()), *roles, *bounds, *whose):
        if column not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"{name} has no column {column!r}; it has {known}.")
    if unit is not None and unit in (*aim, *(asked or ()), *bounds):
        raise InputError(
            f"unit must be neither the target nor among the columns, got {unit!r}: it says whose "
            "row it is."
        )
    for column, role in roles.items():
        if role not in _LEFT_OUT or column == target:
            raise InputError(
                "roles must be identifier or text (to leave a column out) in the neighbour game, "
                f"got {role!r} for {column!r}. Say with bounds what the column holds."
            )
    kept = [c for c in dict.fromkeys(asked or names) if c not in (target, unit, *roles)]
    records = read_records(source, forms_of(bounds), columns=[*kept, *aim, *whose])
    return records if unit is None else records.first_of(unit)


def release_all_rows(
    source: object,
    target: str,
    learner: object,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    tune: bool = False,
    columns: Columns = None,
    roles: Mapping[str, str] | None = None,
    database_table: str | None = None,
    unit: str | None = None,
    insecure_seed: int | None = None,
    progress: Progress = None,
) -> Protection:
    """Train on all rows and rehearse; see :func:`memberbound.release.neighbour.fit_private`.

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
        unit=unit,
    )
    public = {name: bound for name, bound in public.items() if name in table.columns}
    told = progress or (lambda _done, _total: None)
    told(0, 2)
    released = _trained(
        table,
        target,
        form if form != "network" else learner,
        eta=eta,
        bounds=public,
        tune=tune,
        seed=insecure_seed,
    )
    told(1, 2)
    seed = None if insecure_seed is None else insecure_seed + 1
    scores, notes = _rehearsed(table, target, released, public, seed)
    told(2, 2)
    if replaces_preprocessing(learner):
        notes = ["the pipeline's own preprocessing is replaced by a private one", *notes]
    if learner is not None and not isinstance(learner, str) and form != "network":
        notes = ["the learner's own settings are not used: the private form has its own", *notes]
    return Protection(
        released.calibration_,
        released,
        f"{form} model",
        scores,
        warnings=(
            *header_notes(source),
            *notes,
            *_misfits(table, target, released, public),
            _OWN_EYES,
        ),
        details={"bounds": sorted(public), "columns": list(released.columns)},
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
) -> PrivateModel:
    """Train a learner that has a private form."""
    source = source_from_seed(seed)
    form = str(private_form(learner))
    factory = network_factory(learner)
    if form != "network" or factory is None:
        return fit_private(
            table, target, eta=eta, learner=form, bounds=bounds, tune=tune, source=source
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
) -> tuple[tuple[TrialScores, ...], list[str]]:
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
) -> tuple[Sequence[TrialScores], list[str]]:
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
    models = (
        None if clean is None else answers_of(clean, rows, trial.class_names),
        (trial.answered(rows), trial.ranking(rows)),
        (np.full(len(truth), constant), np.zeros((len(truth), len(trial.class_names)))),
    )
    found = []
    for name, score in (CLASS_SCORES if trial.class_names else NUMBER_SCORES).items():
        each = [None if m is None else score(truth, *m, trial.class_names) for m in models]
        if each[1] is not None and each[2] is not None:
            found.append(TrialScores(name, each[0], each[1], each[2]))
    notes = useless(found)
    if len(order) < len(table):
        notes.append(f"the trial took {len(order)} of {len(table)} rows")
    return found, notes


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


# ── Statistics of a table, released in the subset game: read, made, calibrated, drawn ─────────────

STATISTICS = TABLE_STATISTICS
_FEWEST = 4
#: A column with more values than this is not counted value by value.
_CATEGORIES = 50


def made_statistic(
    source: object,
    statistic: Any,
    *,
    size: int | None,
    clip: float | None,
    bins: ArrayLike | None,
    levels: ArrayLike | None,
    **read: Any,
) -> tuple[Population, tuple[Any, SubsetGame, str, tuple[str, ...]]]:
    """Read the table and return it with the statistic, its game, its name and notes."""
    if levels is not None and statistic != "quantiles":
        raise InputError("levels apply only to quantiles.")
    quarters = (0.25, 0.5, 0.75) if levels is None else levels
    columns = read.pop("columns")
    if statistic in ("histogram", "contingency"):
        if bins is not None and statistic == "contingency":
            raise InputError("bins apply only to a histogram.")
        table = read_population(source, columns, **read)
        counted = _crossed(table, size) if statistic == "contingency" else None
        return table, counted or _counted(table, size=size, bins=bins)
    if bins is not None:
        raise InputError("bins apply only to a histogram.")
    table = read_population(source, columns, numeric=True, **read)
    return table, _statistic(table, statistic, size=size, clip=clip, levels=quarters)


def _drawn(records: int, name: str, size: int | None) -> SubsetGame:
    if records < _FEWEST:
        raise InputError(f"{name} must hold at least {_FEWEST} records, got {records}.")
    return SubsetGame(records, records // 2 if size is None else whole_number("size", size))


def _statistic(
    table: Population,
    statistic: str | Callable[[Labels], ArrayLike],
    *,
    size: int | None,
    clip: float | None,
    levels: ArrayLike,
) -> tuple[Any, SubsetGame, str, tuple[str, ...]]:
    """Return the statistic, its game, its name and what has to be said about it."""
    game = _drawn(table.values.shape[0], table.name, size)
    notes = list(table.selection.notes)
    if clip is not None and statistic not in ("mean", "sum"):
        raise InputError("clip applies only to a learner, a mean or a sum.")
    if not isinstance(statistic, str):
        return computed(table.values, statistic, size=game.size), game, "statistic", tuple(notes)
    name = one_of("statistic", statistic, STATISTICS)
    made: Any
    if name == "mean":
        made = replace(mean(table.values, size=game.size, clip=clip), names=table.columns)
    elif name == "sum":
        made = replace(total(table.values, clip=clip), names=table.columns)
    elif name == "covariance":
        made = covariance(table.values, size=game.size)
        notes.append("the covariance is taken about the population's mean, which is public here")
    else:
        made = quantiles(table.values, levels)
    return made, game, name, tuple(notes)


def _counted(
    table: Population, *, size: int | None, bins: ArrayLike | None
) -> tuple[SumStatistic, SubsetGame, str, tuple[str, ...]]:
    """Return the histogram of one column: of numbers by bins, of everything else by value.

    Edges and categories come from the whole population, which is public in this game.
    """
    names, name, notes = table.columns, table.name, table.selection.notes
    if len(names) != 1:
        raise InputError(
            f"a histogram needs one column of {name}, got {', '.join(names)}. Name it with columns."
        )
    column = table.frame[names[0]]
    game = _drawn(len(column), name, size)
    number = table.readings[names[0]].numeric
    if bins is not None or (number and column.nunique() > _CATEGORIES):
        if not number:
            raise InputError(f"column {names[0]!r} of {name} must hold numbers to have bins.")
        values = table.values[:, 0]
        edges = np.linspace(values.min(), values.max(), 21) if bins is None else bins
        return histogram(values, bins=edges), game, "histogram", notes
    texts = _category_texts(table, names[0])
    return histogram(texts, categories=sorted(set(texts))), game, "histogram", notes


def _crossed(
    table: Population, size: int | None
) -> tuple[SumStatistic, SubsetGame, str, tuple[str, ...]]:
    """Return the counts of the combinations of values that occur in the population."""
    if len(table.columns) < 2:
        raise InputError(f"a contingency table needs two columns of {table.name}, got one.")
    columns = [_category_texts(table, name) for name in table.columns]
    texts = [", ".join(cell) for cell in zip(*columns, strict=True)]
    game = _drawn(len(texts), table.name, size)
    counted = histogram(texts, categories=sorted(set(texts)))
    return counted, game, "contingency", table.selection.notes


def _category_texts(table: Population, name: str) -> list[str]:
    codes, labels = labels_of(table.frame[name])
    found = np.unique(codes).size
    if found > _CATEGORIES:
        raise InputError(
            f"counts need at most {_CATEGORIES} categories of a column, got {found} in {name!r}. "
            "Merge some."
        )
    return [labels[code] for code in codes]


def release_statistic(
    statistic: Any,
    game: SubsetGame,
    name: str,
    notes: tuple[str, ...],
    *,
    eta: float,
    record: Record,
    method: str,
    confidence: float,
    pairs: int | None,
    workers: int | None,
    insecure_seed: int | None,
    calibration_seed: int | None,
    progress: Progress,
) -> Protection:
    """Calibrate the noise on fresh subsets, then draw the secret one and release."""
    release = released_statistic(
        statistic,
        replace(game, record=record),
        eta=eta,
        method=method,
        confidence=confidence,
        pairs=pairs,
        workers=workers,
        insecure_seed=insecure_seed,
        calibration_seed=calibration_seed,
        progress=progress,
    )
    details = {"values": release.values.tolist(), "names": list(release.names)}
    said = (*notes, *fit_notes(release.calibration))
    return Protection(release.calibration, release, name, (), None, said, details)


def _release_table_statistic(
    source: object,
    statistic: Any,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None,
    bins: ArrayLike | None,
    levels: ArrayLike | None,
    insecure_seed: int | None,
    columns: Columns,
    roles: Mapping[str, str] | None,
    database_table: str | None,
    unit: str | None,
) -> Protection:
    """Release a statistic of all rows, in the neighbour game."""
    if not isinstance(statistic, str):
        raise InputError(
            f"statistic must be one of {', '.join(TABLE_STATISTICS)} in the neighbour game, got a "
            "function: how far one record moves it is unknown."
        )
    if levels is not None and statistic != "quantiles":
        raise InputError("levels apply only to quantiles.")
    public = read_bounds(bounds)
    table = _read_raw(
        source,
        None,
        public,
        columns=columns,
        roles=roles or {},
        database_table=database_table,
        unit=unit,
    )
    released = release_table_statistic(
        table,
        statistic,
        eta=eta,
        bounds=public,
        bins=bins,
        levels=levels,
        source=source_from_seed(insecure_seed),
    )
    details = {
        "values": released.values.tolist(),
        "names": list(released.names),
        "bounds": sorted(name for name in public if name in table.columns),
        "columns": list(table.columns),
    }
    notes = header_notes(source)
    return Protection(released.calibration, released, statistic, warnings=notes, details=details)


# ── The verb ``protect``: release a model or a statistic with a certified η ───────────────────────


@on_cluster
def protect(
    source: Table,
    *,
    target: Column | None = None,
    learner: LearnerName | None = None,
    statistic: Annotated[Any, Option("choice", choices=STATISTICS)] | None = None,
    eta: Annotated[float, Option("number", metavar="H")] = 0.05,
    record: Literal["average", "every"] = "every",
    game: Literal["neighbour", "subset"] | None = None,
    method: Literal[
        "auto", "gradient", "boosting", "crowd", "neighbour", "moment", "izzo"
    ] = "auto",
    bounds: Annotated[Any, Option("document", metavar="FILE")] | None = None,
    baseline: Rates | None = None,
    confidence: float = 0.95,
    tune: bool | None = None,
    clip: Annotated[float, Option("number", metavar="R")] | None = None,
    pairs: Annotated[int, Option("whole", least=2, most=1000000)] | None = None,
    query: InputFile | None = None,
    bins: Numbers | None = None,
    levels: Annotated[Sequence[float], Option("numbers", metavar="p,q,…")] | None = None,
    size: Annotated[int, Option("whole", metavar="K")] | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    workers: Workers | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    insecure_seed: Annotated[int, Option("whole", web=False)] | None = None,
    calibration_seed: Hidden = None,
    progress: Annotated[Callable[..., None], Option("progress", metavar="calibrating the noise")]
    | None = None,
) -> Protection:
    """Release a model or a statistic so that membership stays hidden.

    In the *neighbour* game a model is trained on all rows, and nothing about them is public: the
    default for every record, where the learner has such a form.  In the *subset* game the rows of
    ``source`` are a public population, of which a random half becomes the training set, after the
    noise has been calibrated on other, fresh halves.

    Guarantee: nobody who knows all other records (neighbour), or the population but not which half
    of it was drawn (subset, at ``confidence``), and sees the release is right about every (or about
    the average) record's membership more than ``eta`` above blind guessing.  What is released of a
    learner takes raw rows (``predict``).
    Theorem: X22 (gradient); X1, X20 and X4 (neighbour), X19 (moment), X21 (crowd),
    I24-C10 with its radius corrected (izzo).
    Assumes: one release; in the subset game the training set is drawn here, or was drawn uniformly
    and apart.
    Published are the file, its certificate, and whatever else ``--json`` says; but in the neighbour
    game the scores and notes (the keys in ``owner_only``, marked in the table) are computed from
    the secret rows and not covered: they are for the owner of the rows only.
    Edge cases: a statistic that is proved constant is released without noise; scores are estimates,
    from fresh halves in the subset game.

    Args:
        source: a file or a table, one record per row.
        target: column to predict.
        learner: a short name, ``package.module:factory`` or an estimator (default: logistic).
        statistic: instead of a model, release a ``mean``, ``sum``, ``histogram``, ``contingency``
            table, ``covariance`` or ``quantiles``; in Python also a function of the drawn rows
            (subset game).
        eta: how far above blind guessing anybody may get, in (0, ½).
        record: who is protected.
        game: ``neighbour`` trains on all rows and no row is public; ``subset`` trains on a secret
            half of a public population (default: neighbour if every record is protected and the
            learner is logistic, svm, ridge, linear, huber, boosting or a factory of PyTorch
            modules, or a statistic has ``bounds``).
        method: ``gradient`` or ``boosting`` (neighbour game); ``crowd`` (means, counts,
            covariances), ``neighbour``, ``moment`` or ``izzo`` (subset game); ``auto`` chooses.
        bounds: YAML or JSON file (or a mapping) with what is public about the columns, for the
            neighbour game: ``age: [0, 120]``, ``sex: [F, M]``; see ``memberbound bounds``.
        baseline: chance of guessing something else about a record (an attribute, the record itself)
            without the release; the answer bounds it with the release (neighbour game). May be
            repeated.
        confidence: of the noise calibration (subset game).
        tune: subset game: choose clip radius and regularisation together with the noise (default:
            yes); neighbour game: try several learning rates, paid for out of the budget (default:
            no).
        clip: shrink longer rows to this norm.
        pairs: how many pairs (or subsets) to refit for the calibration.
        query: public rows whose predictions are released, for learners without parameters.
        bins: edges of a histogram.
        levels: of the quantiles (default: quartiles).
        size: for a statistic: number of records drawn (default: half of them).
        columns: columns to use (default: all but identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        database_table: the table inside a DuckDB or SQLite file.
        out: file for the release; its certificate is written beside it. Both may be published; the
            scores and notes printed with them are for the owner of the rows (neighbour game).
        force: overwrite ``out``.
        workers: processes (default: all cores).
        scheduler: address of a dask scheduler whose workers do the refitting (subset game).
        client: for Python: a ``distributed.Client`` instead.
        insecure_seed: for tests only: draw training set and noise from a seed, which protects
            nobody.
        calibration_seed: seed of the calibration's halves, which are public.
        progress: called with (done, total).

    Command line:
        memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
        memberbound protect patients.csv --target ill --bounds bounds.yaml
        memberbound protect patients.csv --target ill --learner nets:two_layers
        memberbound protect patients.csv --target ill --record average
        memberbound protect patients.csv --statistic mean --columns age,bmi --bounds bounds.yaml

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": range(20, 50), "weight": range(40, 70)})
        >>> result = protect(people, statistic="mean", eta=0.05, record="every", insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    checked_eta(eta)
    pairs, workers, insecure_seed, calibration_seed = (
        None if value is None else whole_number(name, value, at_least=least)
        for name, value, least in (
            ("pairs", pairs, 2),
            ("workers", workers, 1),
            ("insecure_seed", insecure_seed, 0),
            ("calibration_seed", calibration_seed, 0),
        )
    )
    one_of("record", record, ("average", "every"))
    one_of("game", "subset" if game is None else game, ("neighbour", "subset"))
    one_of("method", method, ("auto", *ALL_ROWS_METHODS, *METHODS[1:]))
    if method == "boosting" and learner is None and statistic is None:
        learner = "boosting"
    fraction("confidence", confidence, open_left=True, open_right=True)
    if (target is None) == (statistic is None):
        raise InputError("protect needs either a target for a learner, or a statistic.")
    only_subset = {
        "query": query,
        "clip": clip,
        "pairs": pairs,
        "calibration_seed": calibration_seed,
        # The default cannot be told from what was given; another one would be ignored there.
        "confidence": None if confidence == 0.95 else confidence,
        # Read by on_cluster; all rows are trained on at once, so nothing is sent to a cluster.
        "scheduler": scheduler,
        "client": client,
    }
    all_rows = _plays_all_rows(
        game, record, method, learner, statistic, bounds=bounds, only_subset=only_subset, size=size
    )
    guesses = _guesses(baseline, all_rows)
    if out is not None:
        own = Path(source) if isinstance(source, (str, os.PathLike)) else None
        formats = _endings(statistic, learner, all_rows)
        check_output(Path(out), formats=formats, source=own, force=force)
    if statistic is not None and (query is not None or learner is not None):
        raise InputError("learner and query apply to a model, not to a statistic; name its target.")
    if statistic is None and not (size is None and bins is None and levels is None):
        raise InputError("size, bins and levels apply to a statistic, not to a learner.")
    read: dict[str, Any] = {
        "columns": columns,
        "roles": roles,
        "database_table": database_table,
        "unit": unit,
    }
    if statistic is not None and all_rows:
        result = _release_table_statistic(
            source,
            statistic,
            eta=eta,
            bounds=bounds,
            bins=bins,
            levels=levels,
            insecure_seed=insecure_seed,
            **read,
        )
    elif statistic is not None:
        table, made = made_statistic(
            source, statistic, size=size, clip=clip, bins=bins, levels=levels, **read
        )
        result = release_statistic(
            *made,
            eta=eta,
            record=record,
            method=method,
            confidence=confidence,
            pairs=pairs,
            workers=workers,
            insecure_seed=insecure_seed,
            calibration_seed=calibration_seed,
            progress=progress,
        )
        result = replace(result, roles=table.selection.roles)
    elif all_rows:
        result = release_all_rows(
            source,
            str(target),
            learner,
            eta=eta,
            bounds=bounds,
            tune=bool(tune),
            insecure_seed=insecure_seed,
            progress=progress,
            **read,
        )
    else:
        examples = read_examples(source, str(target), **read)
        chosen = "logistic" if learner is None else learner
        named = isinstance(chosen, str)
        estimator = learner_from_name(chosen, examples.task) if named else chosen
        rows = None if query is None else encoded_rows(examples.encoder, examples.columns, query)[0]
        model = MembershipPrivate(
            estimator,
            eta=eta,
            record=record,
            game="subset",
            method=method,
            tune=tune is not False and rows is None,
            confidence=confidence,
            clip=clip,
            release="parameters" if rows is None else "predictions",
            query=rows,
            pairs=pairs,
            n_jobs=workers,
            insecure_seed=insecure_seed,
            calibration_seed=calibration_seed,
        )
        result = _release_model(model, examples, str(target), progress)
    result = replace(result, baseline=guesses)
    said = _whose_and_drawn(unit, insecure_seed, all_rows=all_rows)
    result = replace(result, warnings=(*result.warnings, *said))
    if out is None:
        return result
    save(result.released, Path(out), force=force)
    return replace(result, out=str(out))


def _guesses(baseline: float | Sequence[float] | None, all_rows: bool) -> tuple[float, ...]:
    """Return the chances of guesses before the release; only the neighbour game has the curve."""
    if baseline is not None and not all_rows:
        raise InputError(
            "baseline applies only to the neighbour game: give game='neighbour', or leave it out."
        )
    return chances("baseline", baseline)


def _whose_and_drawn(unit: str | None, seed: int | None, *, all_rows: bool) -> list[str]:
    """Say what a record is, where the reader of rows has not, and that a seed protects nobody."""
    said = []
    if unit is not None and all_rows:
        said.append(f"one record is one value of {unit!r}, by its first row")
    if seed is not None:
        drawn = "noise comes" if all_rows else "training set and noise come"
        said.append(f"{drawn} from a seed: whoever knows it knows the members")
    return said


def _endings(statistic: Any, learner: object, all_rows: bool) -> tuple[str, ...]:
    """Return the endings of the files that the release can go to."""
    if statistic is not None:
        return (".safetensors",)
    if not all_rows:
        return (".skops",)
    return NETWORK_ENDINGS if private_form(learner) == "network" else LINEAR_ENDINGS


def _plays_all_rows(
    game: str | None,
    record: str,
    method: str,
    learner: object,
    statistic: Any,
    *,
    bounds: object,
    only_subset: Mapping[str, object],
    size: int | None,
) -> bool:
    """Tell whether all rows are used, in the neighbour game; refuse what does not belong to it."""
    if statistic is None:
        return plays_neighbour(
            game, record, method, learner, bounds=bounds, only_subset=only_subset
        )
    if game == "neighbour" or (game is None and bounds is not None):
        check_neighbour(record, method, {**only_subset, "size": size})
        return True
    if bounds is not None or method in ALL_ROWS_METHODS:
        raise InputError("bounds and methods of all rows apply only to the neighbour game.")
    return False


def _release_model(
    model: MembershipPrivate, examples: Examples, target: str, progress: Progress
) -> Protection:
    model.fit(examples.features, examples.target, progress=progress)
    # It takes rows as they are; all that this needs is public in the game.
    released = TableModel(model, examples.encoder, examples.columns, target, examples.class_values)
    # The population is public in this game.
    shares = np.bincount(examples.target) / examples.rows if examples.classes else np.zeros(1)
    known = model.scores_
    scores: tuple[TrialScores, ...] = ()
    if known is not None:
        name = "accuracy" if examples.classes else "R²"
        estimates = (known.clean_estimate, known.released_estimate, float(shares.max()))
        # A constant finds one class of them all, and ranks nothing.
        blind = {"balanced accuracy": 1 / max(1, len(shares)), "AUC": 0.5}
        further = tuple(
            TrialScores(other, *both, blind[other]) for other, both in known.further.items()
        )
        scores = (TrialScores(name, *estimates), *further)
    details = {"configuration": model.configuration_.to_dict(), "release": model.release}
    return Protection(
        model.calibration_,
        released,
        f"{type(model.estimator).__name__} ({model.release})",
        scores,
        None,
        (*fit_notes(model.calibration_), *examples.notes, *useless(scores)),
        details,
        examples.roles,
    )
