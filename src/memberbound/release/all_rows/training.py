"""Train a model on all rows of a secret table, in the neighbour game.

The budget is planned before the table is read: slack and μ follow from η and public numbers,
preprocessing takes shares of μ², and gradient descent or boosting takes the rest.  After training,
every record is counted once more to calibrate probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import special

from memberbound.errors import InputError, TooFewRowsError, one_of
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.boosting import (
    BoostedModel,
)
from memberbound.release.all_rows.bounds import Bounds, Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.encoder import Encoder, TargetCode
from memberbound.release.all_rows.encoder_fit import (
    choose_bounds,
    fit_encoder,
    fit_target,
    most_classes,
    widest,
)
from memberbound.release.all_rows.feature_maps import FeatureMap, map_features
from memberbound.release.all_rows.gradient import (
    GradientModel,
    Start,
    TrainingRows,
)
from memberbound.release.all_rows.histograms import (
    MOST_CLASSES,
    count_cells,
    noisy_identifiers,
)
from memberbound.release.all_rows.learner_forms import PRIVATE_LEARNERS, Settings
from memberbound.release.all_rows.losses import Loss
from memberbound.release.all_rows.models import TRIALS, PrivateModel
from memberbound.release.all_rows.private_columns import (
    PrivateColumn,
    learn_columns,
    look_coordinates,
    refuse_small,
    take_looks,
)
from memberbound.release.all_rows.probabilities import (
    probability_line,
    probability_sums,
)
from memberbound.release.all_rows.trainers import Trainer, trainer_of
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, BudgetShare, Slack
from memberbound.release.noise import check_eta_range
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.scratch import large_copy
from memberbound.tables.records import Records, read_records
from memberbound.tables.shards import Shards

#: Multiples of the default rate that tuning tries.
_RATE_FACTORS = (1 / 3, 1.0, 3.0)
#: Share of the remaining budget for trying rates or settings.
TUNE_SHARE = 0.35
#: Share of μ² for the class frequencies of balanced weights.
_FREQUENCY_SHARE = 0.01
#: Scores are summed in units of 1/this.
_SCORE_UNITS = 2.0**30


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
    candidates: Sequence[Settings] = (),
    weight: str | None = None,
    features: FeatureMap | None = None,
    source: RandomSource = SECURE,
    reserve: Callable[[Budget], None] | None = None,
) -> PrivateModel:
    """Train a model on all rows of a raw table such that η holds for every record.

    ``table`` is any input of :func:`memberbound.tables.records.read_records`.

    ``learner`` is one of :data:`PRIVATE_LEARNERS`; boosting predicts numbers if the bounds give the
    target a range, classes otherwise.

    Guarantee: an attacker who knows all other rows and sees everything stored in the result gains
    at most ``eta`` over guessing which of two records was in the table, with certainty for every
    record of any table, under replace-one.
    Theorem: X22 (proofs/gradient-descent.md, proofs/boosting.md), for persons X26
    (proofs/persons.md).
    Assumes: the number of rows (of persons, with a unit), the columns' names and types and the
    given bounds are public.
    Numerics: as :func:`memberbound.release.all_rows.gradient.descend` and
    :func:`memberbound.release.all_rows.boosting.boost`; μ and the slack are fixed before
    the table is read.
    ``tune`` tries three learning rates on the same rows, scores them with noise and takes the best;
    this costs 35 % of the budget that preprocessing leaves.  ``candidates`` are tried in the same
    way and at the same cost; they share the class weights and the intercept of ``settings``.
    ``settings`` are public.  ``weight`` names the column of sample weights, which are clipped to
    [0, 1].  ``features`` is a public map of single rows, whose features replace its columns.
    ``reserve`` is called with the budget before any noise is drawn (a ledger).
    Edge cases: records of a class that is neither given nor frequent enough to be released have no
    influence.  A table with too few rows for its private columns is rejected; this decision uses
    public numbers only.
    """
    one_of("learner", learner, PRIVATE_LEARNERS)
    public: Bounds = read_bounds(bounds)
    settings = Settings() if settings is None else settings
    trainer = trainer_of(learner, settings)
    trials = [(trainer_of(learner, candidate), 1.0) for candidate in candidates]
    if tune:
        trials = [(trainer, factor) for factor in _RATE_FACTORS]
    classifier = trainer.is_classifier(public.get(target))

    def most_draws(width: int, columns: int, outputs: int) -> int:
        possible = [trainer, *(tried for tried, _ in trials)]
        drawn = max(1 + each.most_draws(width, columns, outputs) for each in possible)
        starts = classifier and trainer.starts_at_share(trainer.loss(2))
        counts = probability_sums(outputs) + width * starts
        counts += outputs * (starts or settings.class_weight == "balanced")
        return (1 + len(trials)) * drawn + counts

    records, public = map_features(read_records(table, forms_of(public)), public, features)
    encoder, code, budget = prepare(
        records,
        target,
        public,
        eta=eta,
        classifier=classifier,
        source=source,
        draws=most_draws,
        weight=weight,
        features=features,
        reserve=reserve,
    )
    loss, count = trainer.loss(len(code.classes)), len(records)
    frequencies, by_class = None, None
    if trainer.starts_at_share(loss) or (classifier and settings.class_weight == "balanced"):
        frequencies = _class_frequencies(code, records, budget)
    if classifier and settings.class_weight is not None:
        by_class = _class_weights(settings.class_weight, code, frequencies)
    run = _Training(trainer, encoder, code, loss, count, by_class, weight)
    rows = records.shards.map(run.encode)
    # Free the raw rows: training needs the encoded ones only.
    del table, records
    counts = None
    if loss.probable:
        counts = budget.take("calibrated probabilities", trainer.probability_share(loss))
    start, share = None, 0.5
    if trainer.starts_at_share(loss):
        assert frequencies is not None
        weighted = frequencies if by_class is None else frequencies * by_class
        share = float(weighted[1] / weighted.sum())
        start = trainer.start(rows, budget, records=count, share=share)
    trainer, rate_factor = run.choose(trials or [(trainer, 1.0)], rows, budget, start)
    run = replace(run, trainer=trainer)
    spent = budget.take(trainer.SHARE)
    model = run.fit(rows, spent, start, rate_factor)
    if counts is not None:
        signal = None
        if start is not None:
            signal = spent.mu * count * min(share, 1.0 - share) * rate_factor
            typical = start.score
            if isinstance(model, GradientModel):
                typical = start.mean_score(model)
            model = model.rescale(1.0, np.array([-typical]))
        line = probability_line(
            model,
            rows,
            counts,
            slope=trainer.typical_slope(loss, signal),
            records=count,
            outputs=loss.outputs,
            offsets=settings.intercept,
            base=None if start is None else float(special.logit(share)),
        )
        model = model.rescale(*line)
    return PrivateModel(
        encoder,
        code,
        model,
        budget,
        count,
        source.secure,
        check_eta_range(eta),
        learner,
        trainer.settings,
        features,
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
    features: FeatureMap | None = None,
    reserve: Callable[[Budget], None] | None = None,
) -> tuple[Encoder, TargetCode, Budget]:
    """Fit the encoder of raw rows with part of the budget, leaving the rest for training.

    ``draws(width, columns, outputs)`` bounds the noise draws of training, at the largest width and
    number of outputs.  The column ``weight`` is not a feature.
    """
    names = list(records.columns)
    if target not in names:
        raise InputError(f"target must be a column of the table, got {target!r}.")
    unknown = [name for name in public if name not in names]
    if unknown:
        raise InputError(f"bounds must name columns of the table, got {unknown[0]!r}.")
    rows = len(records)
    seen = [name for name in names if name not in (target, weight)]
    if not seen or rows < 2:
        raise InputError(
            "the table must have at least two rows (or persons) and a column besides the target."
        )
    open_target = target not in public
    target_bound = public.get(target)
    # The slack is not known yet, but it hardly changes μ.
    mu = 2.0 * float(special.ndtri(0.5 + check_eta_range(eta)))
    settled = choose_bounds(public, seen, rows, mu, classes=open_target)
    slack = _slack(seen, settled, target_bound, classifier=classifier, draws=draws)
    budget = Budget.for_eta(
        eta,
        slack=slack,
        unit=records.unit,
        source=source,
        reserve=reserve,
        bounds=tuple(n for n in public if features is None or n not in features.bounds),
        features=None if features is None else features.name,
    )
    private_columns = sum(n not in public for n in seen) + int(open_target)
    refuse_small(records, private_columns, budget.mu, open_target=open_target)
    most = most_classes(rows, budget.mu)
    if isinstance(target_bound, Categories) and len(target_bound.labels) > most:
        raise TooFewRowsError(
            f"target {target!r} must have at most {most} classes for {rows} rows at this eta, got "
            f"{len(target_bound.labels)}: more are drowned by the noise. Merge classes, or allow "
            "a larger eta."
        )

    unbounded = [name for name in seen if name not in public]
    identifiers = noisy_identifiers(records, unbounded, budget)
    private = [name for name in seen if name not in settled and name not in identifiers]
    learnt: dict[str, PrivateColumn] = {}
    if open_target and not classifier:
        private.append(target)
    if private:
        ranges = {n: b for n in private if isinstance(b := public.get(n), Range)}
        looks = take_looks(budget, len(private), rows)
        learnt = learn_columns(records, private, *looks, named=False, bounds=ranges)
    goal = learnt.pop(target, None)
    code = fit_target(records, target, public, classifier=classifier, budget=budget, learnt=goal)
    encoder = fit_encoder(records.select(seen), public, settled, learnt, budget)
    return encoder, code, budget


def _class_frequencies(code: TargetCode, records: Records, budget: Budget) -> FloatArray:
    """Return noisy class counts, clipped at 0 and raised by one noise scale to be positive."""
    counts = records.select([code.name]).shards.sum(_class_counts, code)
    noise = budget.take("class frequencies", _FREQUENCY_SHARE).sums(sensitivity=HISTOGRAM_MOVES)
    return np.asarray(np.maximum(noise.measure(counts), 0.0) + noise.scale)


def _class_weights(
    stated: Mapping[str, float] | str, code: TargetCode, frequencies: FloatArray | None
) -> FloatArray:
    """Return class weights, scaled to a maximum of 1."""
    if isinstance(stated, str):
        assert frequencies is not None
        weights = 1.0 / frequencies
    else:
        unknown = [name for name in stated if name not in code.classes]
        if unknown:
            raise InputError(
                f"class_weight must name the target's classes {list(code.classes)!r}, got "
                f"{unknown[0]!r}."
            )
        weights = np.array([stated.get(name, 1.0) for name in code.classes])
    return np.asarray(weights / weights.max())


def _class_counts(shard: Records, code: TargetCode) -> FloatArray:
    indices = shard.columns[code.name].positions(code.classes)
    # The first cell is for rows of other classes.
    return count_cells(indices + 1, len(code.classes) + 1, shard.persons)[1:]


@dataclass(frozen=True, eq=False)
class _Training:
    """A training run: a trainer with the encoding of features and target."""

    trainer: Trainer
    encoder: Encoder
    code: TargetCode
    loss: Loss
    records: int
    #: Weights from 0 to 1 by class, and the column of record weights.
    class_weights: FloatArray | None
    weight: str | None

    def encode(self, shard: Records) -> TrainingRows:
        """Encode a shard of the rows, with their target."""
        codes, known = self.code.read(shard.columns[self.code.name])
        weights = known.astype(np.float64)
        if self.class_weights is not None:
            weights *= self.class_weights[codes]
        if self.weight is not None:
            # Clip to [0, 1] per record; treat NaN as 0.
            weights *= np.clip(np.nan_to_num(shard.columns[self.weight].numbers), 0.0, 1.0)
        return TrainingRows(
            self.trainer.encode(self.encoder, shard.columns, shard.memory),
            large_copy(codes, shard.memory),
            None if (weights == 1).all() else large_copy(weights, shard.memory),
            shard.persons,
            shard.memory,
        )

    def fit(
        self,
        rows: Shards[TrainingRows],
        share: BudgetShare,
        start: Start | None,
        rate_factor: float = 1.0,
    ) -> GradientModel | BoostedModel:
        """Fit a model at a multiple of the default rate."""
        return self.trainer.fit(
            rows,
            share,
            self.encoder,
            self.loss,
            records=self.records,
            rate_factor=rate_factor,
            start=start,
        )

    def choose(
        self,
        trials: Sequence[tuple[Trainer, float]],
        rows: Shards[TrainingRows],
        budget: Budget,
        start: Start | None,
    ) -> tuple[Trainer, float]:
        """Fit a model per trainer and rate factor; return the pair with the best noisy score.

        A single candidate is returned without fitting it.
        """
        if len(trials) == 1:
            return trials[0]
        fraction = TUNE_SHARE * budget.left / (len(trials) + 1)
        models = [
            replace(self, trainer=trainer).fit(rows, budget.take("a trial", fraction), start, rate)
            for trainer, rate in trials
        ]
        totals = [rows.sum(score_units, model, self.loss) / _SCORE_UNITS for model in models]
        # Replacing a record moves each of these sums by at most 1.
        share = budget.take(TRIALS, fraction)
        noise = share.sums(sensitivity=math.sqrt(len(trials)) * (1 + 2.0**-20))
        return trials[int(np.argmax(noise.measure(totals)))]


def score_units(rows: TrainingRows, model: GradientModel | BoostedModel, loss: Loss) -> int:
    """Return the total score of a model in units of 2^-30, from 0 to 1 per record, exactly.

    A record scores 1 if its class is predicted (else 0), or 1 minus the squared error.
    """
    blocks = []
    for cut in rows.cuts():
        scores, codes = model.scores(rows.features[cut]), rows.codes[cut]
        if loss.classes:
            points = (loss.predict_classes(scores) == codes).astype(np.float64)
        else:
            errors = np.clip(scores[:, 0], -1.0, 1.0) - codes.astype(np.float64)
            points = 1.0 - np.minimum(np.square(errors), 1.0)
        weights = rows.weight(cut)
        blocks.append(np.rint((points if weights is None else points * weights) * _SCORE_UNITS))
    units = np.concatenate(blocks).astype(np.int64)
    units = units if rows.persons is None else rows.persons.average(units)
    return int(units.sum())


def _slack(
    features: list[str],
    bounds: Bounds,
    target_bound: object,
    *,
    classifier: bool,
    draws: Callable[[int, int, int], int],
) -> Slack:
    """Return the slack from public numbers alone."""
    outputs = 1
    if classifier:
        outputs = MOST_CLASSES if target_bound is None else len(getattr(target_bound, "labels", ()))
    private = sum(name not in bounds for name in features)
    coordinates = (
        look_coordinates(private + int(target_bound is None))
        + sum(isinstance(bounds.get(name), Range) for name in features)
        + draws(widest(features, bounds), len(features), max(1, outputs))
    )
    return Slack(coordinates, int(target_bound is None and classifier))
