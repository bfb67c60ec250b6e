"""Findings of the steps of a study, and the context that all steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from memberbound.attacks.learner_audit import Exposure, ShadowAudit
from memberbound.attacks.shadows import sample_attacked_records
from memberbound.curve import TradeoffCurve
from memberbound.declarations import command_text
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.iid.leak_bounds import LeakBounds, accuracy_from_leak
from memberbound.learners.examples import Examples
from memberbound.learners.holdout import (
    HoldoutScore,
    Predict,
    Predictions,
    RowIndices,
    Train,
    class_codes,
    holdout_score,
    predict_rows,
)
from memberbound.learners.names import learner_from_name
from memberbound.learners.refits import fingerprint as learner_fingerprint
from memberbound.numerics.rounding import down, sum_up
from memberbound.release.all_rows.bounds import forms_of
from memberbound.release.all_rows.learner_forms import (
    private_form,
)
from memberbound.release.all_rows.training import fit_private
from memberbound.release.randomness import InsecureSource
from memberbound.report.fields import RemedyId, Result, Subject
from memberbound.report.model import (
    LABELS,
    ExposureHistogram,
    Question,
    Remedy,
    RocCurve,
    SandwichRow,
)
from memberbound.report.parsing import parse_as
from memberbound.report.views import AnswerGrounds
from memberbound.tables.columns import label_of
from memberbound.tables.records import read_records
from memberbound.verbs.protect import protect
from memberbound.verbs.protection import Protection
from memberbound.verbs.study.question import StudyData, StudyModel
from memberbound.verbs.synthesize import Synthesis

#: Called with the numbers of finished and of all parts of a step.
StepProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """The result of a step: the verb's dictionary and sentence, and additions to the report."""

    result: Result
    sentence: str
    rows: tuple[SandwichRow, ...] = ()
    roc: RocCurve | None = None
    exposure: ExposureHistogram | None = None
    score: HoldoutScore | None = None
    #: The remedy that the step found, before its cost is known.
    remedy: Remedy | None = None
    #: The reason why no attack on a given model could be measured, if any.
    not_comparable: str | None = None

    @property
    def grounds(self) -> AnswerGrounds:
        """The theorems and the assumptions behind the answer."""
        return parse_as(AnswerGrounds, self.result, "result")


@dataclass(frozen=True, eq=False)
class Context:
    """The inputs of all steps; ``model`` is the given model, if the study is about one."""

    question: Question
    data: StudyData
    #: The table's name in printed commands.
    source: str = "TABLE"
    workers: int = 1
    #: Folder for the fits of a step that is under way.
    fits: str | None = None
    model: StudyModel | None = None
    #: The declared encoding of the table's CSV file.
    encoding: str | None = None

    def sample_examples(self, most: int) -> Examples:
        """Return the examples; for a quick study, a uniform sample of at most ``most``."""
        examples, question = self.data.examples, self.question
        rows = (
            sample_attacked_records(examples.rows, most, question.seed) if question.quick else None
        )
        return examples if rows is None else examples.take(rows)

    def noting_sample(self, finding: Finding, rows: int) -> Finding:
        """Add a note on the number of rows to a finding, unless it is about all rows."""
        all_rows = self.data.examples.rows
        if rows == all_rows:
            return finding
        note = f"A quick study: this step uses a uniform sample of {rows} of the {all_rows} rows."
        result = {**finding.result, "assumptions": [*finding.grounds.assumptions, note]}
        return replace(finding, result=result, sentence=f"{finding.sentence} {note}")

    def fits_of(self, learner: BaseEstimator) -> str | None:
        """Return the folder for finished fits, or None for a learner that cannot be described."""
        try:
            learner_fingerprint(learner)
        except InputError:
            return None
        return self.fits

    def command(self, verb: str, **options: object) -> str:
        """Return the command that applies a remedy, with the options common to all remedies."""
        asked = self.question
        shared = {
            "target": asked.target,
            "table": asked.database_table,
            "unit": asked.unit,
            "encoding": self.encoding,
        }
        written = {f"--{name.replace('_', '-')}": v for name, v in (shared | options).items()}
        return command_text(verb, self.source, written)

    def release_command(self, verb: str, **options: object) -> str:
        """Return the command of a release of all rows."""
        asked, data = self.question, self.data
        # The release leaves out the same columns as the trial.
        chosen = asked.columns or data.examples.selection.left_out
        columns = tuple(data.examples.columns) if chosen else None
        # The embedded table has its own bounds; a command for a file must name them.
        bounds = asked.bounds or ("bounds.yaml" if data.bounds else None)
        return self.command(verb, eta=asked.eta, bounds=bounds, columns=columns, **options)

    def learner(self) -> BaseEstimator:
        """Return the study's learner, unfitted."""
        return learner_from_name(self.question.learner, self.data.examples.task)

    def score(self, examples: Examples, train: Train | None = None) -> HoldoutScore | None:
        """Return the held-out score of ``train`` (default: the study's learner)."""
        train = train or _training_of(self.learner(), examples)
        return holdout_score(examples, train, self.question.seed, quick=self.question.quick)


def _training_of(learner: BaseEstimator, examples: Examples) -> Train:
    """Return a function that trains a learner on some of the rows."""

    def train(rows: RowIndices, seed: int) -> Predict:
        model = clone(learner)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(examples.features[rows], examples.target[rows])
        return predict_with(model, examples)

    return train


def predict_with(model: Any, examples: Examples) -> Predict:
    """Return a function that predicts rows of the examples with a fitted scikit-learn model."""
    classes = class_codes(examples)
    probable = bool(classes) and hasattr(model, "predict_proba")
    return lambda others: predict_rows(
        model, examples.features[others], classes, probabilities=probable
    )


def _private_training(context: Context, learner: str) -> Train:
    """Return a function that trains a learner like ``protect``, with seeded noise.

    It trains on all rows of persons and predicts the first row of held-out persons.
    """
    data, examples, target = context.data, context.data.examples, context.question.target
    names, forms = [*examples.columns, target], forms_of(data.bounds)
    asked = records = read_records(data.table, forms, columns=names)
    if data.persons is not None:
        records = read_records(data.released, forms, columns=names)
        records = replace(records, unit=context.question.unit, persons=data.persons)
    values = () if examples.class_values is None else examples.class_values
    indices = {label_of(value): code for code, value in enumerate(values)}

    def train(rows: RowIndices, seed: int) -> Predict:
        released = fit_private(
            records.take(rows),
            target,
            eta=context.question.eta,
            learner=str(private_form(learner)),
            bounds=data.bounds,
            source=InsecureSource(seed),
        )

        def predict(others: RowIndices) -> Predictions:
            encoded, _ = released.encode(asked.take(others))
            answers = released.predict_encoded(encoded)
            if not released.class_names:
                return Predictions(answers, np.zeros((len(answers), 0)))
            # Count a class that no example has as wrong; a class unknown to the model is never
            # predicted.
            known = [
                released.class_names.index(n) if n in released.class_names else -1 for n in indices
            ]
            found = np.array([indices.get(name, -1) for name in answers])
            ranking, chances = released.ranking(encoded), released.probabilities(encoded)
            ranking = np.column_stack([ranking, np.full(len(found), -np.inf)])[:, known]
            if chances is not None:
                chances = np.column_stack([chances, np.zeros(len(found))])[:, known]
            return Predictions(found, ranking, chances)

        return predict

    return train


# ── Bounds for a subject of the report
# ────────────────────────────────────────────────────────────────────


def table_rows(
    subject: Literal["table", "coarser-table"], bounds: LeakBounds
) -> tuple[SandwichRow, ...]:
    """Return a table's certified ceilings for the average and for the worst record."""
    worst = accuracy_from_leak(bounds.record_leak.max)
    return _certified_rows(subject, "iid", bounds.accuracy_upper, worst, bounds.confidence)


def _certified_rows(
    subject: Subject,
    game: Literal["iid", "neighbour"],
    average: float | None,
    worst: float | None,
    confidence: float | None,
) -> tuple[SandwichRow, ...]:
    """Return the ceilings of a subject for the average and for the worst record."""
    row = SandwichRow(subject, LABELS[subject], "average", game, 0.5, average)
    row = replace(row, confidence=confidence)
    return row, replace(row, record="worst", accuracy_upper=worst)


def release_remedy(
    context: Context, id: RemedyId, label: str, answer: Protection | Synthesis, **more: Any
) -> Remedy:
    """Return the remedy of a noisy model or a table of new rows, which protects every record."""
    certificate, eta = answer.certificate, context.question.eta
    return Remedy(
        id=id,
        label=label,
        protects="every record",
        game="neighbour",
        enough=certificate.value <= eta,
        accuracy_upper=min(1.0, sum_up(0.5, certificate.value)),
        confidence=certificate.confidence,
        **more,
    )


def train_release(
    context: Context, subject: Literal["noise-every", "noise-other"], learner: str
) -> Finding:
    """Make a trial release of all rows like ``protect``, and score similar releases."""
    question, data = context.question, context.data
    answer = protect(
        data.released,
        target=question.target,
        columns=list(data.examples.columns),
        unit=question.unit,
        learner=learner,
        eta=question.eta,
        bounds=data.bounds,
        # A trial: the study discards this release, and a real one draws fresh noise.
        insecure_seed=question.seed,
        trial=False,
    )
    label = "Noise that protects every record"
    if subject == "noise-other":
        label = f"Another learner with noise: {learner}"
    remedy = release_remedy(
        context,
        subject,
        label,
        answer,
        learner=learner,
        sentence=answer.sentence,
        command=context.release_command("protect", learner=learner, out="model.skops"),
    )
    # A bound for every record also holds for the average record.
    most = remedy.accuracy_upper
    rows = _certified_rows(subject, "neighbour", most, most, remedy.confidence)
    budget = getattr(answer.released, "budget", None)
    roc = None
    if subject == "noise-every" and budget is not None:  # a network has none
        roc = certified_roc(subject, budget.curve())
    return Finding(
        answer.to_dict(),
        answer.sentence,
        rows=rows,
        roc=roc,
        score=context.score(data.examples, _private_training(context, learner)),
        remedy=remedy,
    )


def table_promise(bounds: LeakBounds, eta: float) -> tuple[bool, float]:
    """Return whether a table's certificate meets η, and its bound on accuracy."""
    most, worst_leak = bounds.accuracy_upper, bounds.record_leak.max
    enough = bool(max(bounds.delta_upper, worst_leak) <= 2 * eta)
    if enough:
        # The bound for every record is that of the worst record.
        most = max(most, accuracy_from_leak(worst_leak))
    return enough, most


def table_remedy(
    context: Context, id: RemedyId, label: str, bounds: LeakBounds, **more: Any
) -> Remedy:
    """Return the remedy of a certified table."""
    enough, most = table_promise(bounds, context.question.eta)
    return Remedy(
        id=id,
        label=label,
        protects="every record" if enough else "average record",
        game="iid",
        enough=enough,
        accuracy_upper=most,
        confidence=bounds.confidence,
        **more,
    )


def certified_roc(subject: Subject, curve: TradeoffCurve) -> RocCurve:
    """Return the ROC curve that bounds all attacks, dense enough for a logarithmic axis."""
    grid = np.unique(np.concatenate([np.linspace(0, 1, 41), np.geomspace(1e-4, 1, 41)]))
    tpr = np.minimum(curve.roc(grid), 1.0)
    label = f"{LABELS[subject]}: upper bound on all attacks (every record)"
    return RocCurve(subject, "certificate", label, tuple(grid.tolist()), tuple(tpr.tolist()))


def average_row(audited: ShadowAudit) -> SandwichRow:
    """Return the success rate of the best attack on a uniformly random record.

    The floor uses half of the error level, as does that of the worst record, because the verdict
    may choose between them after seeing both (proofs/audit-subset-game.md claim 6).
    """
    game = audited.run.game
    reached = max(
        _accuracy(game, a.advantage.estimate) if a.accuracy is None else a.accuracy.estimate
        for a in audited.attacks.values()
    )
    # Blind guessing is always available.
    lower = max(game.blind, down(_accuracy(game, audited.best_advantage.lower), 4))
    return attacked_row("model", "average", game.blind, (reached, lower), audited.confidence)


def worst_row(exposure: Exposure, confidence: float, average: SandwichRow) -> SandwichRow:
    """Return the row of the most exposed record; its floor is at least the average record's."""
    lower = max(exposure.blind_accuracy, float(exposure.lower.max()), average.accuracy_lower or 0.5)
    reached = (exposure.worst_record_estimate, lower)
    return attacked_row("model", "worst", exposure.blind_accuracy, reached, confidence)


def attacked_row(
    subject: Literal["given", "model"],
    record: Literal["average", "worst"],
    blind: float,
    reached: tuple[float, float],
    confidence: float,
) -> SandwichRow:
    """Return a row of measured attack success: an estimate and a floor."""
    estimate, lower = reached
    return SandwichRow(
        subject,
        LABELS[subject],
        record,
        "model" if subject == "given" else "subset",
        blind,
        # The floor is also a lower bound for the estimate: some attack achieves it.
        accuracy_estimate=max(estimate, lower),
        accuracy_lower=lower,
        confidence=confidence,
    )


def _accuracy(game: SubsetGame, advantage: float) -> float:
    """Return π(1 + TPR - FPR) ≤ π·TPR + (1-π)(1-FPR), a lower bound on accuracy for π ≤ ½."""
    return min(game.prior, 1 - game.prior) * (1 + advantage)
