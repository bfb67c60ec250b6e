"""Trainers fit linear models and boosting to encoded rows, for :mod:`.training`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from memberbound.release.all_rows.boosting import (
    LEAF_CLIP,
    BoostedModel,
    Boosting,
    bins_of,
    boost,
    most_boosting_draws,
)
from memberbound.release.all_rows.bounds import Categories, Range
from memberbound.release.all_rows.encoder import Encoder
from memberbound.release.all_rows.gradient import (
    CLASS_CLIP,
    Descent,
    Features,
    GradientModel,
    Start,
    TrainingRows,
    descend,
    measure_centre,
    most_draws,
    starting_score,
)
from memberbound.release.all_rows.learner_forms import Settings
from memberbound.release.all_rows.losses import Loss
from memberbound.release.all_rows.probabilities import PROBABILITY_SHARE, TYPICAL_SLOPES
from memberbound.release.budget import Budget, BudgetShare
from memberbound.tables.shards import Shards
from memberbound.tables.values import Values

#: Shares of μ² for the mean of the encoded rows, and for the calibration of a centred model.
#: Chosen by benchmarks/protect_choices.py.
CENTRE_SHARE, _CENTRED_PROBABILITY_SHARE = 0.1, 0.08
#: Typical slope of a centred linear model: this divided by the square root of its signal, clipped.
_SLOPE, _FLATTEST, _STEEPEST = 10.0, 0.45, 2.0


class Trainer(Protocol):
    """Trains one kind of model, with noise charged to a budget share."""

    #: Name of the budget share for training.
    SHARE: ClassVar[str]

    @property
    def settings(self) -> Settings:
        """Public settings."""

    def is_classifier(self, target: Range | Categories | None) -> bool:
        """Return whether the target, with these public bounds, has classes."""

    def loss(self, classes: int) -> Loss:
        """Return the loss for this many classes (0 for a numeric target)."""

    def typical_slope(self, loss: Loss, signal: float | None) -> float:
        """Return the factor that typically turns scores into log-odds.

        If training starts at the rarer class's share, ``signal`` is μ times the number of its
        records times the rate factor.
        """

    def probability_share(self, loss: Loss) -> float:
        """Return the share of μ² for calibrated probabilities."""

    def most_draws(self, width: int, columns: int, outputs: int) -> int:
        """Return an upper bound on the noise draws, for an encoder of at most this width."""

    def encode(
        self, encoder: Encoder, columns: Mapping[str, Values], memory: int | None
    ) -> Features:
        """Return the features of raw columns, on disk if they are larger than ``memory``."""

    def starts_at_share(self, loss: Loss) -> bool:
        """Return whether training starts at the share of the second of two classes."""

    def start(
        self, rows: Shards[TrainingRows], budget: Budget, *, records: int, share: float
    ) -> Start:
        """Return the starting point, given the noisy share of the second of two classes."""

    def fit(
        self,
        rows: Shards[TrainingRows],
        share: BudgetShare,
        encoder: Encoder,
        loss: Loss,
        *,
        records: int,
        rate_factor: float = 1.0,
        start: Start | None = None,
    ) -> GradientModel | BoostedModel:
        """Fit a model with the default settings for μ, at a multiple of their rate."""


@dataclass(frozen=True)
class LinearTrainer:
    """Fits a linear model by noisy gradient descent."""

    learner: str
    settings: Settings

    SHARE: ClassVar[str] = "gradient descent"

    def is_classifier(self, target: Range | Categories | None) -> bool:  # noqa: ARG002
        """Return whether the learner predicts classes."""
        return self.learner in ("logistic", "svm")

    def loss(self, classes: int) -> Loss:
        """Return the learner's loss."""
        if self.learner == "logistic":
            return Loss("logistic" if classes == 2 else "softmax", classes)
        return Loss("hinge" if self.learner == "svm" else self.learner, classes)

    def typical_slope(self, loss: Loss, signal: float | None) -> float:
        """Return the typical slope of the loss, which is smaller for a stronger signal."""
        if signal is None:
            return TYPICAL_SLOPES[loss.name]
        return min(max(_SLOPE / math.sqrt(signal), _FLATTEST), _STEEPEST)

    def probability_share(self, loss: Loss) -> float:
        """Return the share of μ²; a centred model needs more, because no step fits its offset."""
        return _CENTRED_PROBABILITY_SHARE if self.starts_at_share(loss) else PROBABILITY_SHARE

    def most_draws(self, width: int, columns: int, outputs: int) -> int:  # noqa: ARG002
        """Return an upper bound on the numbers drawn."""
        return most_draws(width, outputs)

    def encode(
        self, encoder: Encoder, columns: Mapping[str, Values], memory: int | None
    ) -> Features:
        """Return rows of bounded numbers and indicators."""
        return encoder.rows(columns, memory)

    def starts_at_share(self, loss: Loss) -> bool:
        """Return whether training starts at the share of the second of two classes."""
        return loss.name == "logistic" and self.settings.intercept

    def start(
        self, rows: Shards[TrainingRows], budget: Budget, *, records: int, share: float
    ) -> Start:
        """Measure the mean of the encoded rows; start at the score that balances the classes."""
        centre = measure_centre(
            rows, budget.take("means of features", CENTRE_SHARE), records=records
        )
        return Start(starting_score(share, CLASS_CLIP), centre)

    def fit(
        self,
        rows: Shards[TrainingRows],
        share: BudgetShare,
        encoder: Encoder,
        loss: Loss,
        *,
        records: int,
        rate_factor: float = 1.0,
        start: Start | None = None,
    ) -> GradientModel:
        """Descend with the default settings for μ, at a multiple of their rate."""
        descent = Descent.default(
            rows=records,
            width=encoder.width,
            outputs=loss.outputs,
            mu=share.mu,
            regression=not loss.classes,
            centred=start is not None,
        )
        # An encoded number is half a standardised one, divided by the nominal length of a row.
        # Clipping scales gradients of about unit norm by the clip, so scale the penalty as well.
        decay = descent.clip * self.settings.penalty / (4.0 * encoder.length**2 * records)
        intercept = descent.intercept if self.settings.intercept else 0.0
        rate = descent.rate * rate_factor
        descent = replace(descent, rate=rate, decay=decay, intercept=intercept)
        if start is not None:
            descent = descent.rescale(start.length)
        width = encoder.width
        return descend(rows, loss, descent, share, records=records, width=width, start=start)


@dataclass(frozen=True)
class BoostingTrainer:
    """Fits an additive model of binned columns by noisy boosting."""

    settings: Settings

    SHARE: ClassVar[str] = "boosting"

    def is_classifier(self, target: Range | Categories | None) -> bool:
        """Return whether the target has classes, that is, unless its bounds are a range."""
        return not isinstance(target, Range)

    def loss(self, classes: int) -> Loss:
        """Return the squared loss for numbers, the log-likelihood for classes."""
        return Loss("ridge" if not classes else "logistic" if classes == 2 else "softmax", classes)

    def typical_slope(self, loss: Loss, signal: float | None) -> float:  # noqa: ARG002
        """Return the typical slope: the same for all losses."""
        return TYPICAL_SLOPES["boosting"]

    def probability_share(self, loss: Loss) -> float:  # noqa: ARG002
        """Return the share of μ², the same for all losses."""
        return PROBABILITY_SHARE

    def most_draws(self, width: int, columns: int, outputs: int) -> int:
        """Return an upper bound on the numbers drawn."""
        return most_boosting_draws(width, columns, outputs, self.settings)

    def encode(
        self, encoder: Encoder, columns: Mapping[str, Values], memory: int | None
    ) -> Features:
        """Return the bins of raw columns."""
        return bins_of(encoder, columns, memory)

    def starts_at_share(self, loss: Loss) -> bool:
        """Return whether training starts at the share of the second of two classes."""
        return loss.name == "logistic"

    def start(
        self,
        rows: Shards[TrainingRows],  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        *,
        records: int,  # noqa: ARG002
        share: float,
    ) -> Start:
        """Start at the score that balances the classes."""
        return Start(starting_score(share, LEAF_CLIP))

    def fit(
        self,
        rows: Shards[TrainingRows],
        share: BudgetShare,
        encoder: Encoder,
        loss: Loss,
        *,
        records: int,
        rate_factor: float = 1.0,
        start: Start | None = None,
    ) -> BoostedModel:
        """Boost with the default settings for μ, at a multiple of their rate."""
        boosting = Boosting.default(encoder, loss, self.settings, records=records, mu=share.mu)
        boosting = replace(boosting, rate=boosting.rate * rate_factor)
        score = 0.0 if start is None else start.score
        return boost(rows, loss, boosting, share, records=records, encoder=encoder, score=score)


def trainer_of(learner: str, settings: Settings) -> Trainer:
    """Return the trainer for a learner's name."""
    return BoostingTrainer(settings) if learner == "boosting" else LinearTrainer(learner, settings)
