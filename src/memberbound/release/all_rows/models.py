"""Models of all rows of a secret table, in the neighbour game: bounds, histograms, training.

The order is fixed before the table is looked at: slack and μ from η and public numbers, the shares
of μ² for preprocessing, then all that is left for gradient descent or boosting.  After training
every record is counted once more, for probabilities that mean something.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import InputError, TooFewRowsError, one_of
from memberbound.files import large_copy
from memberbound.learners.examples import Labels, raw_records
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray, up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.boosting import (
    BoostedModel,
    Boosting,
    bins_of,
    boost,
    most_boosting_draws,
)
from memberbound.release.all_rows.bounds import Bounds, Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.encoder import Encoder, TargetCode
from memberbound.release.all_rows.encoder_fit import (
    FIRST_SHARE,
    fit_encoder,
    fit_target,
    histogram_coordinates,
    most_classes,
    rows_needed,
    settled_bounds,
    widest,
)
from memberbound.release.all_rows.gradient import (
    Descent,
    GradientModel,
    TrainingRows,
    descend,
    most_draws,
)
from memberbound.release.all_rows.histograms import (
    CLASS_SLACK,
    HISTOGRAM_SHARE,
    MOST_CLASSES,
    counted,
)
from memberbound.release.all_rows.learner_forms import LEARNERS, Settings
from memberbound.release.all_rows.losses import Loss
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, Part, release_slack
from memberbound.release.noise import Calibration, GaussianNoise, checked_eta
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.tables.records import Records, read_records
from memberbound.tables.shards import Parts

#: Encoded rows: a block, or the bins of boosting.
Features = Any
#: Tuning tries these multiples of the default rate, and takes this share of what is left for it.
_PACES = (1 / 3, 1.0, 3.0)
TUNE_SHARE = 0.35
#: Share of μ² for the class frequencies of balanced weights.
_FREQUENCY_SHARE = 0.01
_ONE = (
    "It covers this one model, not how its learner, columns and settings were chosen: a choice by "
    "scores on these rows, as study and audit make, publishes a little more. A search over "
    "settings makes a model per candidate and fold: enter each into a ledger, or search on a "
    "synthetic table (memberbound synthesize)."
)
#: Sums of scores are added in whole multiples of this part.
_SCORE_UNITS = 2.0**30


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A released model with its encoder, target and budget: all that may be stored."""

    encoder: Encoder
    target: TargetCode
    model: GradientModel | BoostedModel
    budget: Budget
    rows: int
    secure: bool
    eta: float
    learner: str
    settings: Settings = field(default_factory=Settings)

    @property
    def loss(self) -> Loss:
        """What was minimised."""
        return Loss(self.model.loss, len(self.target.classes))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it takes, in any order."""
        return tuple(code.name for code in self.encoder.used)

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
    def certificate_(self) -> Certificate:
        """What is promised."""
        certificate = self.budget.certificate(secure=self.secure)
        return replace(certificate, assumptions=(*certificate.assumptions, _ONE))

    @property
    def calibration_(self) -> Calibration:
        """The noise of every step and the certificate of all of them together."""
        noise = GaussianNoise(self.model.scale, self.model.released_size)
        method = "boosting" if self.learner == "boosting" else "gradient"
        return Calibration(noise, self.certificate_, self.eta, method, 1, self._details)

    @property
    def _details(self) -> dict[str, object]:
        return {
            "learner": self.learner,
            "mu": self.budget.normal_mu,
            "rows_trained": self.rows,
            "curve": self.budget.readings(),
        }

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
        if isinstance(self.model, BoostedModel):
            return bins_of(self.encoder, records.columns), notices
        return self.encoder.rows(records.columns)[:], notices

    def answered(self, rows: Features) -> Labels:
        """Return classes by name, or numbers in the target's units, for encoded rows."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return self.target.numbers(scores[:, 0])
        names = np.array(self.target.classes, dtype=object)
        return np.asarray(names[self.loss.predicted(scores)])

    def ranking(self, rows: Features) -> FloatArray:
        """Return a score per class of encoded rows, larger for likelier; none for numbers."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return np.zeros((len(scores), 0))
        return np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores

    def probabilities(self, rows: Features) -> FloatArray | None:
        """Return class probabilities of encoded rows, for the losses that have them."""
        loss = self.loss
        return loss.probabilities(self.model.scores(rows)) if loss.probable else None

    def predict(self, table: object) -> Labels:
        """Return classes by name, or numbers in the target's units, for raw rows."""
        return self.answered(self.encoded(table)[0])

    @available_if(lambda self: self.loss.probable)
    def predict_proba(self, table: object) -> FloatArray:
        """Return class probabilities of raw rows, for logistic regression and boosting."""
        return self.loss.probabilities(self.model.scores(self.encoded(table)[0]))

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
            "target": asdict(self.target),
            "rows": self.rows,
            "secure_source": self.secure,
            "settings": asdict(self.settings),
            **self.budget.to_dict(),
            **self.model.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PrivateModel:
        """Return the model that :meth:`to_dict` described; refuse what is no such description."""

        def parts(encoder: Encoder, _target: TargetCode) -> tuple[Any, Budget]:
            learner = one_of("learner", fields["learner"], LEARNERS)
            kind = BoostedModel if learner == "boosting" else GradientModel
            return kind.from_dict(fields, encoder), Budget.from_dict(fields)

        return cls._restored(fields, parts)

    @classmethod
    def _restored(
        cls, fields: Mapping[str, Any], parts: Callable[[Encoder, TargetCode], tuple[Any, Any]]
    ) -> Self:
        try:
            encoder = Encoder.from_dict(fields["encoder"])
            target = TargetCode.from_dict(fields["target"])
            return cls(
                encoder,
                target,
                *parts(encoder, target),
                int(fields["rows"]),
                bool(fields["secure_source"]),
                float(fields["eta"]),
                str(fields["learner"]),
                Settings(**fields["settings"]),
            )
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as problem:
            what = f"no {problem}" if isinstance(problem, KeyError) else problem
            raise InputError(
                "the file must describe a model that this version of protect released, made by the "
                f"same factory if it is a network, got another ({what})."
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
    settings: Settings | None = None,
    weight: str | None = None,
    source: RandomSource = SECURE,
    reserve: Callable[[Budget], None] | None = None,
) -> PrivateModel:
    """Train a model on all rows of a raw table such that η holds for every record.

    ``table`` is whatever :func:`memberbound.tables.records.read_records` takes.

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
    that costs is a part of the budget like any other (35 % of what preprocessing leaves).
    ``settings`` are public.  ``weight`` is the column of the records' own weights, which are cut
    off at 0 and 1.  ``reserve`` is called with the budget before any noise is drawn (a ledger).
    Edge cases: records whose class is not among the classes (given, or frequent enough to be named)
    have no influence; a table with fewer rows than private columns need is refused, for public
    reasons only.
    """
    one_of("learner", learner, LEARNERS)
    boosted = learner == "boosting"
    public = read_bounds(bounds)
    classifier = learner in ("logistic", "svm")
    if boosted:
        classifier = not isinstance(public.get(target), Range)
    how = Settings() if settings is None else settings

    def draws(width: int, columns: int, outputs: int) -> int:
        most = most_draws(width, outputs)
        if boosted:
            most = most_boosting_draws(width, columns, outputs, how)
        counts = probability_sums(outputs) + outputs * (how.class_weight == "balanced")
        return (1 + (len(_PACES) if tune else 0)) * (1 + most) + counts

    records = read_records(table, forms_of(public))
    encoder, code, budget = prepare(
        records,
        target,
        public,
        eta=eta,
        classifier=classifier,
        source=source,
        draws=draws,
        weight=weight,
        reserve=reserve,
    )
    if learner in ("logistic", "boosting"):
        name = "ridge" if not classifier else "logistic" if len(code.classes) == 2 else "softmax"
    else:
        name = "hinge" if learner == "svm" else learner
    loss, count = Loss(name, len(code.classes)), len(records)
    by_class = None
    if classifier and how.class_weight is not None:
        by_class = _class_weights(how.class_weight, code, records, budget)
    work = _Training(encoder, code, loss, how, boosted, count, by_class, weight)
    rows = records.mapped(work.encoded)
    # Free the raw rows: training needs the encoded ones only.
    del table, records
    counts = budget.take("calibrated probabilities", PROBABILITY_SHARE) if loss.probable else None
    pace = work.pace(rows, budget) if tune else 1.0
    model = work.trained(rows, budget.take("boosting" if boosted else "gradient descent"), pace)
    if counts is not None:
        line = probability_line(
            model,
            rows,
            counts,
            kind="boosting" if boosted else name,
            records=count,
            outputs=loss.outputs,
            offsets=how.intercept,
        )
        model = model.moved(*line)
    return PrivateModel(
        encoder, code, model, budget, count, source.secure, checked_eta(eta), learner, how
    )


def prepare(
    records: Records,
    target: str,
    public: Bounds,
    *,
    eta: float,
    classifier: bool,
    source: RandomSource,
    draws: Callable[[int, int, int], int],
    weight: str | None = None,
    reserve: Callable[[Budget], None] | None = None,
) -> tuple[Encoder, TargetCode, Budget]:
    """Learn to encode raw rows out of a budget for η, and leave the rest of it for training.

    ``draws(width, columns, outputs)`` is the most numbers that training draws, at the largest width
    and number of outputs.  The column ``weight`` is no feature.
    """
    names = list(records.columns)
    if target not in names:
        raise InputError(f"target must be a column of the table, got {target!r}.")
    unknown = [name for name in public if name not in names]
    if unknown:
        raise InputError(f"bounds must be of columns of the table, got {unknown[0]!r}.")
    rows = len(records)
    features = [name for name in names if name not in (target, weight)]
    if not features or rows < 2:
        raise InputError(
            "the table must have at least two rows (or persons) and a column besides the target."
        )
    open_target = target not in public
    target_bound = public.get(target)
    # The slack is not known yet; it hardly changes μ.
    mu = 2.0 * float(special.ndtri(0.5 + checked_eta(eta)))
    settled = settled_bounds(public, features, rows, mu, classes=open_target)
    slack = _slack(rows, features, settled, target_bound, classifier=classifier, draws=draws)
    budget = Budget.for_eta(eta, slack=slack, unit=records.unit, source=source, reserve=reserve)
    _refuse_small(records, sum(n not in public for n in features), budget.mu, open_target)
    most = most_classes(rows, budget.mu)
    if isinstance(target_bound, Categories) and len(target_bound.labels) > most:
        raise TooFewRowsError(
            f"target {target!r} must have at most {most} classes for {rows} rows at this eta, got "
            f"{len(target_bound.labels)}: more are drowned by the noise. Merge classes, or allow "
            "a larger eta."
        )

    histograms, fine = None, None
    private = [name for name in features if name not in settled]
    if private or open_target:
        share = HISTOGRAM_SHARE * (FIRST_SHARE if private else 1.0)
        first = budget.take("histograms of values", share)
        histograms = first.sums(sensitivity=HISTOGRAM_MOVES, times=len(private) + int(open_target))
        if private:
            fine = budget.take("histograms within ranges", HISTOGRAM_SHARE - share)
    code = fit_target(records, target, public, classifier=classifier, histograms=histograms)
    encoder = fit_encoder(
        records.chosen(features), public, settled, budget, histograms=histograms, fine=fine
    )
    return encoder, code, budget


def _class_weights(
    stated: Mapping[str, float] | str, code: TargetCode, records: Records, budget: Budget
) -> FloatArray:
    """Return a weight for every class, the largest being 1.

    Guarantee: balanced weights are computed from noisy counts that the budget pays for.
    """
    if isinstance(stated, str):
        counts = records.chosen([code.name]).total(_class_counts, code)
        noise = budget.take("class frequencies", _FREQUENCY_SHARE).sums(sensitivity=HISTOGRAM_MOVES)
        weights = 1.0 / np.maximum(noise.measure(counts), noise.scale)
    else:
        unknown = [name for name in stated if name not in code.classes]
        if unknown:
            raise InputError(
                f"class_weight must be of the target's classes {list(code.classes)!r}, got "
                f"{unknown[0]!r}."
            )
        weights = np.array([stated.get(name, 1.0) for name in code.classes])
    return np.asarray(weights / weights.max())


def _class_counts(part: Records, code: TargetCode) -> FloatArray:
    places = part.columns[code.name].positions(code.classes)
    # The first cell is for rows of other classes.
    return counted(places + 1, len(code.classes) + 1, part.persons)[1:]


@dataclass(frozen=True, eq=False)
class _Training:
    """How rows become numbers with a target, and what is trained on them."""

    encoder: Encoder
    code: TargetCode
    loss: Loss
    settings: Settings
    boosted: bool
    records: int
    #: From 0 to 1: by class, and the column of the records' own weights.
    class_weights: FloatArray | None
    weight: str | None

    def encoded(self, part: Records) -> TrainingRows:
        """Return a part of the rows as numbers, with their target."""
        codes, known = self.code.read(part.columns[self.code.name])
        weights = known.astype(np.float64)
        if self.class_weights is not None:
            weights *= self.class_weights[codes]
        if self.weight is not None:
            # A function of the record itself, from 0 to 1; what is no number is 0.
            weights *= np.clip(np.nan_to_num(part.columns[self.weight].numbers), 0.0, 1.0)
        features: Any
        if self.boosted:
            features = bins_of(self.encoder, part.columns, part.memory)
        else:
            features = self.encoder.rows(part.columns, part.memory)
        return TrainingRows(
            features,
            large_copy(codes, part.memory),
            None if (weights == 1).all() else large_copy(weights, part.memory),
            part.persons,
            part.memory,
        )

    def trained(self, rows: Parts, part: Part, pace: float = 1.0) -> GradientModel | BoostedModel:
        """Return the model of the default settings for μ, or of a multiple of their rate."""
        encoder, loss, records = self.encoder, self.loss, self.records
        if self.boosted:
            rounds = Boosting.default(encoder, loss, self.settings, records=records, mu=part.mu)
            rounds = replace(rounds, rate=rounds.rate * pace)
            return boost(rows, loss, rounds, part, records=records, encoder=encoder)
        how = Descent.default(
            rows=records,
            width=encoder.width,
            outputs=loss.outputs,
            mu=part.mu,
            regression=not loss.classes,
        )
        # An encoded number is half a standardised one, over the nominal length of a row; clips make
        # gradients of about unit length this much shorter, and so the penalty's.
        decay = how.clip * self.settings.penalty / (4.0 * encoder.length**2 * records)
        intercept = how.intercept if self.settings.intercept else 0.0
        how = replace(how, rate=how.rate * pace, decay=decay, intercept=intercept)
        return descend(rows, loss, how, part, records=records, width=encoder.width)

    def pace(self, rows: Parts, budget: Budget) -> float:
        """Try several paces and return the one with the best noisy score, out of the budget."""
        share = TUNE_SHARE * budget.left / (len(_PACES) + 1)
        trials = [self.trained(rows, budget.take("a trial", share), p) for p in _PACES]
        marks = [rows.total(_mark, trial, self.loss) / _SCORE_UNITS for trial in trials]
        # A record that is replaced moves each of these sums by at most 1.
        scores = budget.take("the trials' scores", share)
        noise = scores.sums(sensitivity=math.sqrt(len(_PACES)) * (1 + 2.0**-20))
        return _PACES[int(np.argmax(noise.measure(marks)))]


def _mark(rows: TrainingRows, model: GradientModel | BoostedModel, loss: Loss) -> int:
    """Return how well a trial does, in units: one number in [0, 1] per record, added exactly."""
    parts = []
    for cut in rows.cuts():
        scores, codes = model.scores(rows.features[cut]), rows.codes[cut]
        if loss.classes:
            marks = (loss.predicted(scores) == codes).astype(np.float64)
        else:
            marks = 1.0 - np.minimum(np.square(np.clip(scores[:, 0], -1.0, 1.0) - codes), 1.0)
        weights = rows.weight(cut)
        parts.append(np.rint((marks if weights is None else marks * weights) * _SCORE_UNITS))
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
    """Return the slack from public numbers alone."""
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


def _refuse_small(records: Records, private: int, mu: float, open_target: bool) -> None:
    needed = rows_needed(private, mu, classes=open_target)
    if len(records) < needed:
        what = "rows" if records.unit is None else f"different values of {records.unit!r}"
        raise TooFewRowsError(
            f"the table must have at least about {needed} {what} at this eta, with {private} "
            f"feature{'' if private == 1 else 's'} without bounds and a target "
            f"{'without' if open_target else 'with'} them, got {len(records)}: fewer are drowned "
            "by the noise. Give bounds (ranges and categories that are public knowledge), leave "
            "columns out, find more rows, or allow a larger eta."
        )


# ── Probabilities that mean something: a line through noisy counts of scores and classes (X30) ────
#
# Clipped gradients and noise give scores the right order and the wrong size.  Every record is
# counted once more, by its score and its class; the counts get normal noise from the same budget,
# and a slope and an offset per score are fitted to them.  Both become part of the model.  A score
# between two knots counts for both, in proportion, so that the counts keep its mean.  With several
# classes each has counts of its own: its log-odds against the rest, in or not.

#: Share of μ² for the counts.
PROBABILITY_SHARE = 0.04
#: Knots in units of log-odds.
_KNOTS = np.arange(-4.0, 5.0)
#: Slopes that are usual, by kind of model; measured on Adult, ACS and heart (docs/gradient.md).
TYPICAL_SLOPES = {"logistic": 0.45, "softmax": 0.6, "boosting": 0.8, "network": 0.5}
#: How far slope (in units of the usual one) and offsets are expected to lie from 1 and 0.
_SLOPE_SPREAD, _OFFSET_SPREAD = 0.4, 0.5
#: With fewer records than this many noise scales the counts are believed less: offsets that are
#: noise cost accuracy.
_LOUD = 40.0
#: With fewer than this a flatter slope is expected, down to this one: such models are hardly better
#: than a constant.
_CLEAR, _FLATTEST = 6.0, 0.3
#: The slope never turns the order of the scores round.
_SLOPES, _OFFSETS = (0.02, 4.0), (-6.0, 6.0)
#: A record's counts are whole numbers of 2^-30 or coarser, so that sums are exact.
_UNITS = 30
_BLOCK = 65_536
#: Vectorised functions take at most so many numbers at a time.
_LANES = 64


class _Scored(Protocol):
    def scores(self, features: Features) -> FloatArray:
        """Return the scores of encoded records."""


def probability_sums(outputs: int) -> int:
    """Return how many noisy counts a model of so many scores takes."""
    return 2 * _KNOTS.size * outputs


def log_odds(scores: FloatArray) -> FloatArray:
    """Return the log-odds of every class against the rest; of two classes those of the second.

    Two classes have one score, which is the log-odds, or two, of which it is the difference.

    Numerics: a row's numbers do not depend on its place, to the last bit (:func:`_elementwise`).
    """
    if scores.shape[1] <= 2:
        return scores[:, -1:] - scores[:, :-1] if scores.shape[1] == 2 else scores
    shifted = scores - scores.max(axis=1, keepdims=True)
    shares = _elementwise(np.exp, shifted)
    rest = np.zeros_like(shares)
    for k in range(shares.shape[1]):
        for other in range(shares.shape[1]):
            rest[:, k] += shares[:, other] * (other != k)
    # Where the rest underflows the odds are beyond the last knot.
    return np.asarray(shifted - _elementwise(np.log, np.maximum(rest, sys.float_info.min)))


def _elementwise(function: Callable[[FloatArray], FloatArray], values: FloatArray) -> FloatArray:
    """Return a function of every value, the same wherever the value stands.

    A short end of an array may be computed by another routine, so there is none.
    """
    filled = np.pad(values.ravel(), (0, -values.size % _LANES), constant_values=1.0)
    return function(filled)[: values.size].reshape(values.shape)


def score_counts(
    odds: FloatArray, codes: NDArray[np.generic], weights: ArrayLike, units: int
) -> FloatArray:
    """Return weights of records per output, knot and membership of the class, times 2^units.

    Guarantee: a record of weight w ≤ 1 adds nonnegative whole numbers to every output's part, whose
    sum is at most w·2^units (proofs/probabilities.md, claim 1).
    """
    outputs, knots = odds.shape[1], _KNOTS.size
    # A network may answer with what is no number: it counts in the middle.
    place = np.clip(np.nan_to_num(odds, nan=0.0) - _KNOTS[0], 0.0, knots - 1.0)
    low = np.minimum(place.astype(np.int64), knots - 2)
    whole = np.ldexp(np.asarray(weights, dtype=np.float64), units)[:, None]
    upper = np.trunc(whole * (place - low))
    lower = np.trunc(whole) - upper
    # Of two classes the single score is that of the second.
    classes = np.arange(outputs) if outputs > 1 else np.array([1])
    inside = np.asarray(codes)[:, None] == classes
    cells = (np.arange(outputs) * knots + low) * 2 + inside
    size = 2 * outputs * knots
    sums = np.bincount(cells.ravel(), lower.ravel(), size)
    sums += np.bincount(cells.ravel() + 2, upper.ravel(), size)
    return np.asarray(sums.reshape(outputs, knots, 2), dtype=np.float64)


def _counted_scores(rows: TrainingRows, model: _Scored, usual: float, units: int) -> FloatArray:
    """Return the part's counts of scores and classes."""
    counts: list[FloatArray] = []
    for cut in rows.cuts(_BLOCK):
        odds = log_odds(usual * model.scores(rows.features[cut]))
        weights = rows.weight(cut)
        if weights is None:
            weights = np.ones(len(odds))
        if rows.persons is not None:
            weights = weights * rows.persons.weights[cut]
        counts.append(score_counts(odds, rows.codes[cut], weights, units))
    return np.asarray(sum(counts))


def probability_line(
    model: _Scored,
    rows: Parts,
    part: Part,
    *,
    kind: str,
    records: int,
    outputs: int,
    offsets: bool = True,
) -> tuple[float, FloatArray]:
    """Return slope and offsets that turn a released model's scores into log-odds.

    ``records`` is the number of all rows, or of persons, whose rows count in parts of one.

    Guarantee: the noisy counts are within the slack of their draws of a ``part.mu``-GDP pair under
    replace-one; slope and offsets are computed from them.
    Theorem: X30 (proofs/probabilities.md): L2 sensitivity √(2·outputs).
    Assumes: a row's scores are computed from that row and from released numbers; weights are
    between 0 and 1.
    Numerics: sums of whole numbers, exact.  Edge cases: where the noise covers the counts, slope
    and offsets stay near the usual ones; the slope is positive, so that one score keeps its order.
    """
    units = min(_UNITS, 52 - records.bit_length())
    usual = TYPICAL_SLOPES[kind]
    total = rows.total(_counted_scores, model, usual, units)
    sensitivity = up(HISTOGRAM_MOVES * math.sqrt(len(total)), 2)
    noise = part.sums(sensitivity=math.ldexp(sensitivity, units))
    # From here on nothing but the noisy counts is used: post-processing.
    noisy = np.ldexp(noise.measure(total), -units)
    scale = math.ldexp(noise.scale, -units)
    slope, moved = _fitted(noisy, scale, records / scale, offsets=offsets)
    if outputs == 2:
        moved = np.array([-0.5, 0.5]) * moved
    return usual * slope, moved


def _against_the_rest(slope: float, offsets: FloatArray) -> FloatArray:
    """Return what slope and offsets of all scores add to slope·(log-odds of each against the rest).

    Exact for equal scores, and where nothing is changed: the rest is taken to be equally likely.
    """
    others = offsets.size - 1
    if others == 0:
        return offsets
    means = [special.logsumexp(np.delete(offsets, k)) for k in range(offsets.size)]
    return np.asarray(offsets - means + slope * math.log(others))


def _fitted(
    noisy: FloatArray, scale: float, signal: float, *, offsets: bool
) -> tuple[float, FloatArray]:
    """Return the likeliest slope and offsets, given noisy counts and what is to be expected.

    ``signal`` is the number of records in noise scales, a public number.
    """
    expected = min(1.0, max(_FLATTEST, signal / _CLEAR))
    slopes, shifts = (s * min(1.0, signal / _LOUD) for s in (_SLOPE_SPREAD, _OFFSET_SPREAD))
    outside, inside = noisy[..., 0], noisy[..., 1]
    rows = outside + inside
    noise = math.sqrt(2.0) * scale
    # How much of a knot's count is records, and not noise.
    trust = np.sqrt(np.clip(1.0 - np.square(noise / np.maximum(rows, noise)), 0.0, 1.0))
    held = np.maximum(rows, 0.0)

    def misfits(line: FloatArray) -> FloatArray:
        moved = line[1:] if offsets else np.zeros(len(noisy))
        p = special.expit(line[0] * _KNOTS + _against_the_rest(line[0], moved)[:, None])
        variance = scale**2 * (p**2 + (1 - p) ** 2) + held * p * (1 - p)
        missed = trust * ((1 - p) * inside - p * outside) / np.sqrt(variance)
        return np.concatenate([missed.ravel(), [(line[0] - expected) / slopes], line[1:] / shifts])

    free = len(noisy) if offsets else 0
    ends = ([_SLOPES[0], *[_OFFSETS[0]] * free], [_SLOPES[1], *[_OFFSETS[1]] * free])
    from scipy import optimize  # as heavy as pandas, and only training needs it

    line = optimize.least_squares(misfits, np.array([expected, *[0.0] * free]), bounds=ends).x
    return float(line[0]), np.asarray(line[1:] if offsets else np.zeros(len(noisy)))
