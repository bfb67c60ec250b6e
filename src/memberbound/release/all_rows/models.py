"""Models of all rows of a secret table, in the neighbour game: bounds, histograms, training.

The order is fixed before the table is looked at: slack and μ from η and public numbers, the shares
of μ² for preprocessing, then all that is left for gradient descent or boosting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import InputError, TooFewRowsError, one_of
from memberbound.files import large_copy
from memberbound.learners import network_factory, raw_records
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray, up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.boosting import BoostedModel, boost, most_boosting_draws
from memberbound.release.all_rows.encoding import (
    CLASS_SLACK,
    FIRST_SHARE,
    HISTOGRAM_SHARE,
    MOST_CLASSES,
    Bounds,
    Categories,
    Encoder,
    Range,
    TargetCode,
    fit_encoder,
    fit_target,
    forms_of,
    histogram_coordinates,
    most_classes,
    read_bounds,
    rows_needed,
    settled_bounds,
    widest,
)
from memberbound.release.all_rows.gradient import (
    Descent,
    Features,
    GradientModel,
    SlicedRows,
    TrainingRows,
    descend,
    most_draws,
)
from memberbound.release.all_rows.learner_settings import Settings
from memberbound.release.all_rows.losses import Loss, loss_named, named_loss
from memberbound.release.all_rows.probabilities import (
    PROBABILITY_SHARE,
    probability_line,
    probability_sums,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, Part, release_slack
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise, checked_eta
from memberbound.release.randomness import RandomSource, SecureSource
from memberbound.tables.in_memory import Records, read_records
from memberbound.tables.parts import Parts

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline
    from typing_extensions import TypeIs

#: A target as it was read: codes of classes, or numbers.
Labels = NDArray[Any]
#: What can be trained, and its loss: logistic becomes softmax where there are more classes.
LEARNERS = ("logistic", "svm", "ridge", "huber", "boosting")
_CLASSIFIERS = ("logistic", "svm")
#: Learners of scikit-learn, and other names, by their form here.
_FORMS = {
    "GradientBoostingClassifier": "boosting",
    "HistGradientBoostingClassifier": "boosting",
    "LinearRegression": "ridge",
    "LinearSVC": "svm",
    "LogisticRegression": "logistic",
    "HuberRegressor": "huber",
    "Ridge": "ridge",
    "linear": "ridge",
} | {name: name for name in LEARNERS}
#: Tuning tries these multiples of the default rate, and takes this share of what is left for it.
_PACES = (1 / 3, 1.0, 3.0)
TUNE_SHARE = 0.35
_ONE = (
    "It covers this one model, not how its learner, columns and settings were chosen: a choice by "
    "scores on these rows, as study and audit make, publishes a little more. A search over "
    "settings makes a model per candidate and fold: give their number as releases, or search on a "
    "synthetic table (memberbound synthesize)."
)
_TOGETHER = (
    "No more than {models} models are made from these rows, each asked for this eta with this "
    "number of releases; the bound is for all of them together, whichever is chosen."
)
#: Sums of scores are added in whole multiples of this part.
_UNITS = 2.0**30


def private_form(learner: object) -> str | None:
    """Return the form in which a learner can be trained on all rows, None if there is none.

    Of a pipeline it is that of its last step: the others are replaced by private preprocessing.

    >>> private_form("linear"), private_form("tree")
    ('ridge', None)
    """
    inner = learner.steps[-1][1] if replaces_preprocessing(learner) else learner
    form = _FORMS.get(inner if isinstance(inner, str) else type(inner).__name__)
    return "network" if form is None and network_factory(learner) is not None else form


def replaces_preprocessing(learner: object) -> TypeIs[Pipeline]:
    """Tell whether a learner is a pipeline, whose own preprocessing would look at secret rows."""
    return type(learner).__name__ == "Pipeline" and hasattr(learner, "steps")


def _instead(learner: str) -> str:
    """Name the private form of trees where a learner is made of them."""
    name = learner.lower().replace("-", "")
    if "boost" not in name and "tree" not in name and "forest" not in name:
        return f" Take one of {', '.join(LEARNERS)} or a factory of PyTorch modules."
    numbers = ", with a range for the target in the bounds" if "regressor" in name else ""
    return f" Take 'boosting', the private form of trees{numbers}."


def checked_form(learner: object) -> str:
    """Return the private form of a learner, or refuse one that has none."""
    form = private_form(learner)
    if form is None:
        shown = learner if isinstance(learner, str) else type(learner).__name__
        raise InputError(
            "learner must be one that can be trained on all rows with a guarantee for every "
            f"record, got {shown!r}.{_instead(shown)}"
        )
    return form


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A released model with its encoder, target and budget: all that may be stored.

    What is promised holds for ``releases`` such models of the same rows together.
    """

    encoder: Encoder
    target: TargetCode
    model: GradientModel | BoostedModel
    budget: Budget
    rows: int
    secure: bool
    eta: float
    learner: str
    releases: int = 1
    settings: Settings = field(default_factory=Settings)

    @property
    def _loss(self) -> Loss:
        return named_loss(self.model.loss, len(self.target.classes))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it takes, in any order."""
        return tuple(code.name for code in self.encoder.columns if code.width)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of the probabilities; none for a target of numbers."""
        return self.target.classes

    @property
    def classes_(self) -> Labels:
        """The names of the classes as an array, in the order of the probabilities."""
        if not self.target.classes:
            raise AttributeError("a regression has no classes.")
        return np.array(self.target.classes, dtype=object)

    def __repr__(self) -> str:
        what = f"{len(self.target.classes)} classes" if self.target.classes else "a number"
        return (
            f"{type(self).__name__}({self.learner!r}, target={self.target.name!r} ({what}), "
            f"columns={len(self.columns)}, rows={self.rows}, eta={self.eta!r})"
        )

    @property
    def tuned(self) -> bool:
        """Whether a part of the budget went to trials."""
        return any(part.name == "a trial" for part in self.budget.parts)

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        certificate = self._together.certificate(secure=self.secure)
        how_many = _ONE if self.releases == 1 else _TOGETHER.format(models=self.releases)
        return replace(certificate, assumptions=(*certificate.assumptions, how_many))

    @property
    def _together(self) -> Budget:
        return self.budget.repeated(self.releases)

    @property
    def calibration_(self) -> Calibration:
        """The noise of every step and the certificate of all of them together."""
        noise = GaussianNoise(self.model.scale, self.model.released_size)
        details = {
            "learner": self.learner,
            "mu": self._together.mu,
            "rows_trained": self.rows,
            "curve": self._together.readings(),
        }
        method = "boosting" if self.learner == "boosting" else "gradient"
        return Calibration(noise, self.certificate_, self.eta, method, 1, details)

    def encoded(
        self, table: object, database_table: str | None = None, *, strict: bool | None = None
    ) -> tuple[Features, tuple[str, ...]]:
        """Return the features of raw rows, and what has to be said about them.

        With ``strict`` True what the model has never seen is refused, with False it is said, with
        None it is not looked for.
        """
        records, notices = raw_records(
            table,
            self.columns,
            self.encoder.forms,
            ignore=self.target.name,
            database_table=database_table,
            strict=bool(strict),
        )
        if strict is not None:
            notes = [n for c in self.encoder.columns for n in c.unseen(records.columns)]
            if strict and notes:
                raise InputError(f"{notes[0]}. Without strict such values count as missing.")
            notices = (*notices, *notes)
        return self.model.features(self.encoder, records.columns), notices

    def answered(self, rows: Features) -> Labels:
        """Return classes by name, or numbers in the target's units, for encoded rows."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return self.target.numbers(scores[:, 0])
        names = np.array(self.target.classes, dtype=object)
        return np.asarray(names[self._loss.predicted(scores)])

    def ranking(self, rows: Features) -> FloatArray:
        """Return a score per class of encoded rows, larger for likelier; none for numbers."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return np.zeros((len(scores), 0))
        return np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores

    def probabilities(self, rows: Features) -> FloatArray | None:
        """Return class probabilities of encoded rows, for the losses that have them."""
        if self.model.loss not in ("logistic", "softmax"):
            return None
        return self._loss.probabilities(self.model.scores(rows))

    def predict(self, table: object) -> Labels:
        """Return classes by name, or numbers in the target's units, for raw rows."""
        return self.answered(self.encoded(table)[0])

    @available_if(lambda self: self.model.loss in ("logistic", "softmax"))
    def predict_proba(self, table: object) -> FloatArray:
        """Return class probabilities of raw rows, for logistic regression and boosting."""
        return self._loss.probabilities(self.model.scores(self.encoded(table)[0]))

    @available_if(lambda self: bool(self.target.classes))
    def decision_function(self, table: object) -> FloatArray:
        """Return the scores of raw rows' classes, of two classes the second one's."""
        scores = self.model.scores(self.encoded(table)[0])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def to_dict(self) -> dict[str, object]:
        """Return all that may be stored, ready for JSON: public or noisy, nothing else."""
        return {
            "learner": self.learner,
            "eta": self.eta,
            "encoder": self.encoder.to_dict(),
            "target": self.target.to_dict(),
            "rows": self.rows,
            "secure_source": self.secure,
            "releases": self.releases,
            "settings": self.settings.to_dict(),
            **self.budget.to_dict(),
            **self.model.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PrivateModel:
        """Return the model that :meth:`to_dict` described.

        Edge cases: what is no such description is refused.
        """
        try:
            encoder = Encoder.from_dict(fields["encoder"])
            budget = Budget.from_dict(fields)
            learner = one_of("learner", fields["learner"], LEARNERS)
            kind = BoostedModel if learner == "boosting" else GradientModel
            return cls(
                encoder,
                TargetCode.from_dict(fields["target"]),
                kind.from_dict(fields, encoder, budget.parts[-1].mu),
                budget,
                int(fields["rows"]),
                bool(fields["secure_source"]),
                float(fields["eta"]),
                learner,
                int(fields["releases"]),
                Settings(**fields["settings"]),
            )
        except (KeyError, IndexError, TypeError, ValueError) as problem:
            what = f"no {problem}" if isinstance(problem, KeyError) else problem
            raise InputError(
                "the file must describe a model that this version of protect released, got another "
                f"({what})."
            ) from None


@np.errstate(all="ignore")  # a warning would depend on a record
def fit_private(
    table: object,
    target: str,
    *,
    eta: float,
    learner: str = "logistic",
    bounds: Mapping[str, object] | str | Path | None = None,
    tune: bool = False,
    releases: int = 1,
    settings: Settings | None = None,
    sample_weight: FloatArray | None = None,
    source: RandomSource | None = None,
    reserve: Callable[[Budget], None] | None = None,
) -> PrivateModel:
    """Train a model on all rows of a raw table such that η holds for every record.

    ``table`` is whatever :func:`memberbound.tables.in_memory.read_records` takes.

    ``learner`` is one of :data:`LEARNERS`; boosting predicts numbers where the bounds give the
    target a range, classes otherwise.

    Guarantee: whoever knows all other rows and sees everything stored in the result gains at most
    ``eta`` over guessing which of two records was in the table: for every record of any table,
    replace-one, without any confidence level.
    Theorem: X22 (proofs/gradient-descent.md, proofs/boosting.md), of persons X26
    (proofs/persons.md).
    Assumes: the number of rows (of persons, where a unit says whose rows they are), the columns'
    names and types and the given bounds are public.
    Numerics: as :func:`memberbound.release.all_rows.gradient.descend` and
    :func:`memberbound.release.all_rows.boosting.boost`; μ and the slack are fixed before
    the table is looked at.
    ``tune`` tries three paces on the same rows, scores them with noise and takes the best: what
    that costs is a part of the budget like any other (35 % of what preprocessing leaves).  With
    ``releases`` η, and the certificate, hold for so many such models of the same rows together.
    ``settings`` are public; ``sample_weight`` belongs to the records, one number each, and is cut
    off at 0 and 1; what is no number counts as 0.
    ``reserve`` is called with the budget before any noise is drawn (a ledger).
    Edge cases: records whose class is not among the classes (given, or frequent enough to be named)
    have no influence; a table with fewer rows than private columns need is refused, for public
    reasons only.

    Examples:
        >>> import pandas as pd
        >>> from memberbound.release.randomness import InsecureSource
        >>> people = pd.DataFrame({"age": np.arange(4000) % 80, "ill": np.arange(4000) % 80 > 40})
        >>> public = {"age": [0, 80], "ill": [False, True]}
        >>> found = fit_private(people, "ill", eta=0.05, bounds=public, source=InsecureSource(1))
        >>> found.predict(pd.DataFrame({"age": [5, 75]})).tolist()
        ['False', 'True']
        >>> found.certificate_.value <= 0.05
        True
    """
    one_of("learner", learner, LEARNERS)
    boosted = learner == "boosting"
    public = read_bounds(bounds)
    classifier = learner in _CLASSIFIERS or (boosted and not isinstance(public.get(target), Range))
    drawn = SecureSource() if source is None else source
    how = Settings() if settings is None else settings

    def draws(width: int, columns: int, outputs: int) -> int:
        most = most_draws(width, outputs)
        if boosted:
            most = most_boosting_draws(width, columns, outputs, how)
        return (1 + (len(_PACES) if tune else 0)) * (1 + most) + probability_sums(outputs) + outputs

    made = prepare(
        table,
        target,
        eta=eta,
        classifier=classifier,
        bounds=public,
        source=drawn,
        draws=draws,
        releases=releases,
        reserve=reserve,
    )
    encoder, code, budget, table = made.encoder, made.target, made.budget, made.records
    count = len(code.classes)
    if learner in ("logistic", "boosting"):
        name = "ridge" if not classifier else "logistic" if count == 2 else "softmax"
    else:
        name = {"svm": "hinge"}.get(learner, learner)
    by_class = how.weights(code, table, budget) if classifier else None
    ready = encoder.fits(table.rows, table.memory)
    rows = table.mapped(
        _RowEncoder(encoder, code, name, boosted, ready, by_class, sample_weight).encoded
    )
    records = len(table)
    # Free the raw table: training needs the encoded rows only.
    del made, table
    work = _Training(rows, records, named_loss(name, count), classifier, how, encoder, boosted)
    probable = name in ("logistic", "softmax")
    counts = budget.take("calibrated probabilities", PROBABILITY_SHARE) if probable else None
    pace = work.pace(budget) if tune else 1.0
    model = work.trained(budget.take("boosting" if boosted else "gradient descent"), pace)
    if counts is not None:
        line = probability_line(
            model,
            rows,
            counts,
            kind="boosting" if boosted else name,
            records=records,
            outputs=model.outputs,
            offsets=how.intercept,
        )
        model = model.moved(*line)
    return PrivateModel(
        encoder,
        code,
        model,
        budget,
        records,
        drawn.secure,
        checked_eta(eta),
        learner,
        releases,
        how,
    )


@dataclass(frozen=True, eq=False)
class _RowEncoder:
    """How rows become numbers with a target; class and sample weights are from 0 to 1."""

    encoder: Encoder
    code: TargetCode
    loss: str
    boosted: bool
    ready: bool
    by_class: FloatArray | None
    sample_weight: FloatArray | None

    def encoded(self, part: Records) -> TrainingRows:
        """Return a part of the rows, encoded."""
        codes, weights = self.code.read(part.columns[self.code.name])
        if self.sample_weight is not None:
            weights = weights * np.clip(np.nan_to_num(self.sample_weight, nan=0.0), 0.0, 1.0)
        if self.by_class is not None:
            weights = weights * self.by_class[codes]
        features: Any
        if self.boosted:
            features = SlicedRows(BoostedModel.features(self.encoder, part.columns, part.memory))
        else:
            features = self.encoder.rows(part.columns, part.memory)
        target = loss_named(self.loss, codes, len(self.code.classes) or None)[1]
        return TrainingRows(
            features,
            large_copy(codes, part.memory),
            large_copy(target, part.memory),
            None if (weights == 1).all() else large_copy(weights, part.memory),
            part.persons,
            self.ready,
            part.memory,
        )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table's encoder and target, and the budget that is left."""

    encoder: Encoder
    target: TargetCode
    budget: Budget
    records: Records


def prepare(
    table: object,
    target: str,
    *,
    eta: float,
    classifier: bool,
    bounds: Mapping[str, object] | str | Path | None,
    source: RandomSource,
    draws: Callable[[int, int, int], int],
    releases: int = 1,
    reserve: Callable[[Budget], None] | None = None,
) -> Prepared:
    """Learn to encode a raw table out of a budget for η, and leave the rest of it for training.

    ``draws(width, columns, outputs)`` is the most numbers that training draws, at the largest width
    and number of outputs.  η is of ``releases`` such models together.
    """
    public = read_bounds(bounds)
    records = read_records(table, forms_of(public))
    names = list(records.columns)
    if target not in names:
        raise InputError(f"target must be a column of the table, got {target!r}.")
    unknown = [name for name in public if name not in names]
    if unknown:
        raise InputError(f"bounds must be of columns of the table, got {unknown[0]!r}.")
    rows = len(records)
    features = [name for name in names if name != target]
    if not features or rows < 2:
        raise InputError(
            "the table must have at least two rows (or persons) and a column besides the target."
        )
    open_target = target not in public
    target_bound = public.get(target)
    # The slack is not known yet; it hardly changes μ.
    mu = 2.0 * float(special.ndtri(0.5 + checked_eta(eta))) / math.sqrt(releases)
    settled = settled_bounds(public, features, rows, mu, classes=open_target)
    slack = _slack(rows, features, settled, target_bound, classifier=classifier, draws=draws)
    budget = Budget.for_eta(
        eta, slack=slack, releases=releases, unit=records.unit, source=source, reserve=reserve
    )
    _refuse_small(rows, sum(n not in public for n in features), budget.mu, open_target)
    if isinstance(target_bound, Categories):
        _refuse_many(target, len(target_bound.labels), rows, budget.mu)

    histograms, fine = None, None
    private = [name for name in features if name not in settled]
    if private or open_target:
        share = HISTOGRAM_SHARE * (FIRST_SHARE if private else 1.0)
        first = budget.take("histograms of values", share)
        histograms = first.sums(sensitivity=HISTOGRAM_MOVES, times=len(private) + int(open_target))
        if private:
            fine = budget.take("histograms within ranges", HISTOGRAM_SHARE - share)
    kind: Literal["classes", "numbers"] = "classes" if classifier else "numbers"
    code = fit_target(records, target, public, kind=kind, histograms=histograms)
    encoder = fit_encoder(
        records.chosen(features), public, settled, budget, histograms=histograms, fine=fine
    )
    return Prepared(encoder, code, budget, records)


@dataclass(frozen=True, eq=False)
class _Training:
    """Encoded rows with their targets, and what is trained on them."""

    rows: Parts
    records: int
    loss: Loss
    classifier: bool
    settings: Settings
    encoder: Encoder
    boosted: bool

    def trained(self, part: Part, pace: float = 1.0) -> GradientModel | BoostedModel:
        """Return the model of the default settings for μ, or of a multiple of their rate."""
        if self.boosted:
            return boost(
                self.encoder,
                self.rows,
                self.loss,
                part,
                records=self.records,
                settings=self.settings,
                pace=pace,
            )
        records, width = self.records, self.encoder.width
        how = Descent.default(
            rows=records,
            width=width,
            outputs=self.loss.outputs,
            mu=part.mu,
            regression=not self.classifier,
        )
        # An encoded number is half a standardised one, over the nominal length of a row; clips make
        # gradients of about unit length this much shorter, and so the penalty's.
        decay = how.clip * self.settings.penalty / (4.0 * self.encoder.length**2 * records)
        how = replace(how, rate=how.rate * pace, decay=decay)
        if not self.settings.intercept:
            how = replace(how, intercept=0.0)
        return descend(self.rows, self.loss, how, part, records=records, width=width)

    def pace(self, budget: Budget) -> float:
        """Try several paces and return the one with the best noisy score, out of the budget."""
        share = TUNE_SHARE * budget.left / (len(_PACES) + 1)
        trials = [self.trained(budget.take("a trial", share), p) for p in _PACES]
        marks = [self.rows.total(_mark, t, self.loss, self.classifier) / _UNITS for t in trials]
        # A record that is replaced moves each of these sums by at most 1.
        scores = budget.take("the trials' scores", share)
        noise = scores.sums(sensitivity=math.sqrt(len(_PACES)) * (1 + 2.0**-20))
        return _PACES[int(np.argmax(noise.measure(marks)))]


def _mark(
    rows: TrainingRows, model: GradientModel | BoostedModel, loss: Loss, classifier: bool
) -> int:
    """Return how well a trial does, in units: one number in [0, 1] per record, added exactly."""
    parts = []
    for cut in rows.cuts():
        scores, codes = model.scores(rows.features.block(cut)), rows.codes[cut]
        if classifier:
            marks = (loss.predicted(scores) == codes).astype(np.float64)
        else:
            marks = 1.0 - np.minimum(np.square(np.clip(scores[:, 0], -1.0, 1.0) - codes), 1.0)
        weights = rows.weight(cut)
        parts.append(np.rint((marks if weights is None else marks * weights) * _UNITS))
    units = np.concatenate(parts).astype(np.int64)
    units = units if rows.persons is None else rows.persons.averaged(units)
    return int(units.sum())


def _slack(
    rows: int,
    features: list[str],
    bounds: Bounds,
    target_bound: object,
    *,
    classifier: bool,
    draws: Callable[[int, int, int], int],
) -> float:
    """Return the slack from public numbers alone; ``known`` is the target's bound."""
    outputs = 1
    if classifier:
        outputs = MOST_CLASSES if target_bound is None else len(getattr(target_bound, "labels", ()))
    private = sum(name not in bounds for name in features)
    coordinates = (
        histogram_coordinates(private)
        + sum(isinstance(bounds.get(name), Range) for name in features)
        + (max(rows, histogram_coordinates(1)) if target_bound is None else 0)
        + draws(widest(features, bounds), len(features), max(1, outputs))
    )
    slack = release_slack(coordinates)
    return up(slack + CLASS_SLACK) if target_bound is None and classifier else slack


def _refuse_many(target: str, classes: int, rows: int, mu: float) -> None:
    most = most_classes(rows, mu)
    if classes > most:
        raise TooFewRowsError(
            f"target {target!r} must have at most {most} classes for {rows} rows at this eta, got "
            f"{classes}: more are drowned by the noise. Merge classes, or allow a larger eta."
        )


def _refuse_small(rows: int, private: int, mu: float, open_target: bool) -> None:
    needed = rows_needed(private, mu, classes=open_target)
    if rows < needed and not private and not open_target:
        raise TooFewRowsError(
            f"the table must have at least about {needed} rows at this eta, got {rows}: fewer are "
            "drowned by the noise. Find more rows, or allow a larger eta."
        )
    if rows < needed:
        what = f"{private} columns without bounds" if private else "a target without bounds"
        raise TooFewRowsError(
            f"the table must have at least about {needed} rows for {what} at this eta, "
            f"got {rows}. Give bounds (ranges and categories that are public knowledge) for the "
            "columns and the target, leave columns out, or allow a larger eta."
        )
