"""Budget for training a language model with sampled noisy steps, under replace-one (X31)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memberbound.certificate import Certificate
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.errors import InputError
from memberbound.games import NeighbourGame
from memberbound.numerics.rounding import up
from memberbound.release.all_rows.networks import NetworkBudget
from memberbound.release.all_rows.private_columns import take_classes
from memberbound.release.all_rows.text_training import TextTraining, record_reach
from memberbound.release.budget import Budget, Slack
from memberbound.release.derivation import Derivation, Measurement, SampledSteps
from memberbound.release.noise import COARSE, SAMPLER_ASSUMPTION, check_eta_range
from memberbound.release.randomness import SECURE, RandomSource

_DOCUMENT = (
    "A record is a document. Neighbours differ in one document, which is replaced; the number of "
    "documents is public. Equal or similar documents are different records."
)
_PERSON = (
    "A person is one value of {unit!r} with all of their documents, which together have the "
    "influence of one; a document without a value there is a person of its own. Neighbours differ "
    "in one person, all of whose documents are replaced, whatever their number; the number of "
    "persons is public."
)
_ASSUMPTIONS = (
    "The base model, its tokenizer and all settings are public: they were made and chosen without "
    "the documents. A document that the base model was trained on is outside the promise.",
    "Other records do not depend on the record in question, and nothing else about the documents "
    "is published: neither losses nor texts that were generated and selected by looking at them.",
    "The model computes a document's gradient from that document and the weights alone, also in "
    "its rounding: nothing in it mixes the documents of a batch.",
    "The documents sampled in each step stay secret.",
    "The file conforms to the specification of its format: one that is malformed is refused, and "
    "the certificate does not cover the refusal.",
    SAMPLER_ASSUMPTION,
)
_LABELS = (
    "A document comes with its label: what is hidden is the document together with its label. A "
    "document without a listed label counts and has no influence."
)
_CLASSES = "The classes of {name!r} are public: they were listed without looking at the labels."
_SEEDED = "The noise comes from a seed: there is no protection from anyone who may know it."


@dataclass
class TextBudget(NetworkBudget):
    """The budget of ``steps`` noisy steps on samples of documents or of persons.

    Guarantee, theorem: as :class:`~memberbound.release.all_rows.networks.NetworkBudget`.
    """

    @classmethod
    def for_training(
        cls,
        eta: float,
        training: TextTraining,
        weights: int,
        unit: str | None = None,
        *,
        bounds: Sequence[str] = (),
        records_with_labels: int | None = None,
        source: RandomSource = SECURE,
    ) -> TextBudget:
        """Return the budget with the least noise that achieves η over all steps.

        ``weights`` is the maximum number of trained weights.  ``bounds`` names a column of labels
        whose classes are public; with ``records_with_labels``, their number, a share is left to
        name classes.
        """
        named = records_with_labels is not None
        slack = Slack(weights * training.steps + 2 * named, int(named))
        if slack.total >= check_eta_range(eta):
            raise InputError(
                f"eta must be above what floating-point noise of {weights} weights adds, "
                f"got {eta!r}: take a smaller rank."
            )
        paid = Budget(1.0, slack.total, unit=unit, slacks=slack.parts, bounds=tuple(bounds))
        if records_with_labels is not None:
            paid = Budget.for_eta(eta, slack=slack, unit=unit, source=source)
            take_classes(paid, records_with_labels, alone=True)
        made = cls.calibrate(eta, paid, training.sample_rate, training.steps)
        assert isinstance(made, TextBudget)
        mu = made.normal_mu
        return made if mu is None else replace(made, mu=mu)

    @property
    def normal_mu(self) -> float | None:  # type: ignore[override]
        """The μ of all releases if every step takes all records; None for steps on samples."""
        if self.training.sample_rate < 1.0:
            return None
        paid = [share.mu for share in self.shares]
        return up(math.hypot(self._steps_mu, *paid), 8) if paid else self._steps_mu

    @property
    def _steps_mu(self) -> float:
        mu: float = self.training.curve("replace-one").mu  # type: ignore[attr-defined]
        return mu

    def curve(self) -> SlackCurve:
        """Return the trade-off curve of all releases, replace-one."""
        mu = self.normal_mu
        return super().curve() if mu is None else SlackCurve(GaussianCurve(mu), self.slack)

    def noise_scale(self, training: TextTraining, records: int) -> float:
        """Return the standard deviation of the noise per coordinate of a step's sum."""
        return self.scale_for(record_reach(training.clip, records))

    def describe_steps(self, training: TextTraining, records: int, weights: int) -> TextBudget:
        """Return the budget with the noise of all steps, for the derivation record."""
        drawn = SampledSteps(
            "steps on samples of the records",
            "l2",
            record_reach(training.clip, records),
            training.sample_rate,
            training.steps,
            training.steps * weights,
            scale := self.noise_scale(training, records),
            float(COARSE.steps(scale)),
            self.training.noise_multiplier,
        )
        return replace(self, drawn=drawn)

    def derivation(self, records: int, theorems: tuple[str, ...]) -> Derivation:
        """Return the record from which a third party recomputes the certificate."""
        who = "documents" if self.unit is None else f"persons (values of {self.unit!r})"
        listed = [f"classes of {name!r}" for name in self.bounds]
        public = (f"number of {who}", "base model, tokenizer and settings", *listed)
        found = replace(super().derivation(records, theorems), public=public)
        steps, mu = self.drawn, self.normal_mu
        if steps is None or mu is None:
            return found
        # Steps on all records are vectors of sums, which a replaced record moves by 2ρ.
        every = Measurement(
            "steps on all records",
            (self._steps_mu / mu) ** 2,
            self._steps_mu,
            steps.norm,
            2.0 * steps.sensitivity,
            steps.steps,
            steps.coordinates,
            steps.noise_scale,
            steps.grid_step,
        )
        parts = (*found.measurements, every)
        spent = math.fsum(part.budget_share for part in parts)
        return replace(found, measurements=parts, budget_spent=spent, sampled=())

    def certificate(self, *, secure: bool = True) -> Certificate:
        """Return the certificate of η for every document, or every person."""
        record = _DOCUMENT if self.unit is None else _PERSON.format(unit=self.unit)
        labels: tuple[str, ...] = ()
        if self.bounds or self.shares:
            labels = (_LABELS, *(_CLASSES.format(name=name) for name in self.bounds))
        assumed = (record, *_ASSUMPTIONS, *labels, *(() if secure else (_SEEDED,)))
        theorems = ("X12", "X22", "X31") if self.unit is None else ("X12", "X22", "X26", "X31")
        return Certificate("eta", self.curve().eta, "upper", NeighbourGame(), theorems, assumed)
