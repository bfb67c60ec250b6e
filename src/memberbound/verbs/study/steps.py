"""The steps of a study: each calls one verb on the study's table and keeps its answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from memberbound.attacks.learner_audit import Exposure as RecordExposure
from memberbound.attacks.learner_audit import ShadowAudit, mean_roc
from memberbound.attacks.model_audit import ModelAudit
from memberbound.attacks.shadows import sample_attacked_records, train_shadows
from memberbound.curve import TradeoffCurve
from memberbound.declarations import command_text
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.iid.certificates import LeakBounds, accuracy_from_leak
from memberbound.learners.examples import Examples, encode_rows, read_examples
from memberbound.learners.holdout import (
    HoldoutScore,
    Predict,
    Predictions,
    RowIndices,
    Train,
    beside_constant,
    class_codes,
    holdout_score,
    predict_rows,
)
from memberbound.learners.learner import Labels
from memberbound.learners.names import learner_from_name
from memberbound.learners.refits import fingerprint as learner_fingerprint
from memberbound.numerics.rounding import FloatArray, double_above, down, sum_up
from memberbound.quantities import significant
from memberbound.release.all_rows.bounds import forms_of
from memberbound.release.all_rows.learner_forms import (
    other_learners,
    private_form,
    require_form,
)
from memberbound.release.all_rows.training import fit_private
from memberbound.release.randomness import InsecureSource
from memberbound.report.model import (
    LABELS,
    Exposure,
    Question,
    Remedy,
    RemedyId,
    Result,
    RocCurve,
    SandwichRow,
    StepId,
    Subject,
)
from memberbound.tables.columns import Values, label_of
from memberbound.tables.recipe import Keep
from memberbound.tables.records import read_records
from memberbound.tables.table import Table
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import audit_run
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import Hardening, harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect import protect
from memberbound.verbs.protection import Protection
from memberbound.verbs.study.question import StudyData, StudyModel
from memberbound.verbs.synthesize import Synthesis, synthesize

if TYPE_CHECKING:
    from pandas import DataFrame

# Nothing is released here: all models and noise are rehearsals from the study's seed.

#: Limits for large tables: attack a uniform sample of this many records; in a quick study, play the
#: subset game on ``_PLAYED`` rows and explain ε for ``_EXPLAINED``.
_ATTACKED, _ATTACKED_QUICKLY = 20_000, 4_000
_PLAYED, _EXPLAINED = 10_000, 2_000
_DELTA = 1e-5
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """The verb's own dictionary and its sentence, and what the step adds to the report."""

    result: Result
    sentence: str
    rows: tuple[SandwichRow, ...] = ()
    roc: RocCurve | None = None
    exposure: Exposure | None = None
    score: HoldoutScore | None = None
    #: The remedy that the step found, before its cost is known.
    remedy: Remedy | None = None
    #: Why no attack on a given model could be measured, if so.
    not_comparable: str | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the answer."""
        return tuple(self.result["assumptions"])

    @property
    def theorems(self) -> tuple[str, ...]:
        """Ids of the theorems behind the answer."""
        return tuple(self.result["theorems"])


@dataclass(frozen=True, eq=False)
class Context:
    """Input of the steps; ``model`` is the given model, if the study is about one."""

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
        """Say how many rows a finding is about, where it is not all of them."""
        all_rows = self.data.examples.rows
        if rows == all_rows:
            return finding
        note = f"A quick study: this is about a uniform sample of {rows} of the {all_rows} rows."
        result = {**finding.result, "assumptions": [*finding.assumptions, note]}
        return replace(finding, result=result, sentence=f"{finding.sentence} {note}")

    def fits_of(self, learner: BaseEstimator) -> str | None:
        """Return the folder for finished fits; a learner that cannot be described has none."""
        try:
            learner_fingerprint(learner)
        except InputError:
            return None
        return self.fits

    def command(self, verb: str, **options: object) -> str:
        """Return the command that carries a remedy out, with the options that all of them take."""
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
        # Columns left out of the rehearsal are left out of the release.
        chosen = asked.columns or data.examples.selection.left_out
        columns = tuple(data.examples.columns) if chosen else None
        # The embedded table comes with bounds; a command for a file like it has to name them.
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
    """Return how a learner is trained on some of the rows."""

    def train(rows: RowIndices, seed: int) -> Predict:
        model = clone(learner)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(examples.features[rows], examples.target[rows])
        return _predicting(model, examples)

    return train


def _predicting(model: Any, examples: Examples) -> Predict:
    """Return how a fitted scikit-learn model predicts rows of the examples."""
    classes = class_codes(examples)
    probable = bool(classes) and hasattr(model, "predict_proba")
    return lambda others: predict_rows(
        model, examples.features[others], classes, probabilities=probable
    )


def _private_training(context: Context, learner: str) -> Train:
    """Return how ``protect`` trains a learner on some of the records; the noise is from a seed.

    Train on all rows of persons, and predict the first row of held-out ones.
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
            # A class that no example has is a wrong answer; one that no model has is never given.
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


# ── What is known of a subject ────────────────────────────────────────────────────────────────────


def _table_rows(
    subject: Literal["table", "coarser-table"], bounds: LeakBounds
) -> tuple[SandwichRow, ...]:
    """Return the ceilings that a table's certificate gives for the average and the worst record."""
    worst = accuracy_from_leak(bounds.record_leak.max)
    return _certified_rows(subject, "iid", bounds.accuracy_upper, worst, bounds.confidence)


def _certified_rows(
    subject: Subject,
    game: Literal["iid", "neighbour"],
    average: float | None,
    worst: float | None,
    confidence: float | None,
) -> tuple[SandwichRow, ...]:
    """Return the ceilings of a subject: for the average record, and for the worst."""
    row = SandwichRow(subject, LABELS[subject], "average", game, 0.5, average)
    row = replace(row, confidence=confidence)
    return row, replace(row, record="worst", accuracy_upper=worst)


def _release_remedy(
    context: Context, id: RemedyId, label: str, answer: Protection | Synthesis, **more: Any
) -> Remedy:
    """Return what a model with noise, or a table of new rows, promises to every record."""
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


def _train_release(
    context: Context, subject: Literal["noise-every", "noise-other"], learner: str
) -> Finding:
    """Make a release of all rows for trial, as ``protect`` makes it, and score others like it."""
    question, data = context.question, context.data
    answer = protect(
        data.released,
        target=question.target,
        columns=list(data.examples.columns),
        unit=question.unit,
        learner=learner,
        eta=question.eta,
        bounds=data.bounds,
        # For trial: what the study makes is thrown away, the real release draws its own.
        insecure_seed=question.seed,
        trial=False,
    )
    label = "Noise that protects every record"
    if subject == "noise-other":
        label = f"Another learner with noise: {learner}"
    remedy = _release_remedy(
        context,
        subject,
        label,
        answer,
        learner=learner,
        sentence=answer.sentence,
        command=context.release_command("protect", learner=learner, out="model.skops"),
    )
    # A promise to every record is one to the average record.
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
    """Return whether a table's certificate is enough, and the accuracy that it allows."""
    most, worst_leak = bounds.accuracy_upper, bounds.record_leak.max
    enough = bool(max(bounds.delta_upper, worst_leak) <= 2 * eta)
    if enough:
        # The promise to every record is the bound of the worst one.
        most = max(most, accuracy_from_leak(worst_leak))
    return enough, most


def _table_remedy(
    context: Context, id: RemedyId, label: str, bounds: LeakBounds, **more: Any
) -> Remedy:
    """Return what the certificate of a table promises."""
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
    """Return the line that no attack can be above; points close enough for a logarithmic axis."""
    grid = np.unique(np.concatenate([np.linspace(0, 1, 41), np.geomspace(1e-4, 1, 41)]))
    tpr = np.minimum(curve.roc(grid), 1.0)
    label = f"{LABELS[subject]}: no attack can be above (every record)"
    return RocCurve(subject, "certificate", label, tuple(grid.tolist()), tuple(tpr.tolist()))


def average_row(audited: ShadowAudit) -> SandwichRow:
    """Return how often the best of all attacks that ran is right about a uniform record.

    The floor fails with half of the error, as that of the worst record does: the verdict may take
    either after looking at both (proofs/audit-subset-game.md claim 6).
    """
    game = audited.run.game
    reached = max(
        _accuracy(game, a.advantage.estimate) if a.accuracy is None else a.accuracy.estimate
        for a in audited.attacks.values()
    )
    # Blind guessing is always available.
    lower = max(game.blind, down(_accuracy(game, audited.best_advantage.lower), 4))
    return _attacked_row("model", "average", game.blind, (reached, lower), audited.confidence)


def worst_row(exposure: RecordExposure, confidence: float, average: SandwichRow) -> SandwichRow:
    """Return the success rate of an attack on its most exposed record, or on average."""
    lower = max(exposure.blind_accuracy, float(exposure.lower.max()), average.accuracy_lower or 0.5)
    reached = (exposure.worst_record_estimate, lower)
    return _attacked_row("model", "worst", exposure.blind_accuracy, reached, confidence)


def _attacked_row(
    subject: Literal["given", "model"],
    record: Literal["average", "worst"],
    blind: float,
    reached: tuple[float, float],
    confidence: float,
) -> SandwichRow:
    """Return a row of what attacks reached: an estimate, and a floor."""
    estimate, lower = reached
    return SandwichRow(
        subject,
        LABELS[subject],
        record,
        "model" if subject == "given" else "subset",
        blind,
        # An attacker who does worse than the floor can take the attack that proves it.
        accuracy_estimate=max(estimate, lower),
        accuracy_lower=lower,
        confidence=confidence,
    )


def _accuracy(game: SubsetGame, advantage: float) -> float:
    """π·TPR + (1-π)(1-FPR) ≥ π(1 + TPR - FPR) for π ≤ ½, since FPR ≤ 1; equal at π = ½."""
    return min(game.prior, 1 - game.prior) * (1 + advantage)


# ── The steps ─────────────────────────────────────────────────────────────────────────────────────


def certify_table(context: Context, progress: Progress) -> Finding:
    """Certify the table as it is, whatever is trained on it."""
    data = context.data
    answer = certify(
        data.table,
        columns=list(data.table.columns),
        roles=data.roles,
        confidence=context.question.confidence,
    )
    progress(1, 1)
    remedy = _table_remedy(context, "nothing", "Change nothing", answer)
    sentence = "It is not proved that the table or the model, as they are, stay within the limit."
    if remedy.enough:
        sentence = (
            "The table is coarse and large enough: whatever is trained on it stays within the "
            "limit."
        )
    return Finding(
        answer.to_dict(),
        answer.sentence,
        rows=_table_rows("table", answer),
        remedy=replace(remedy, sentence=sentence),
    )


def attack_given(context: Context, progress: Progress) -> Finding:
    """Attack the model that exists, as it is."""
    question, model = context.question, context.model
    assert model is not None
    answer = audit(
        context.data.source,
        nonmembers=model.nonmembers,
        model=model.trained,
        target=question.target,
        columns=None if question.columns is None else list(question.columns),
        quick=question.quick,
        confidence=question.confidence,
        encoding=context.encoding,
        seed=question.seed,
        workers=None if context.workers < 1 else context.workers,
    )
    progress(1, 1)
    detail, evidence = answer.detail, answer.detail.evidence
    assert evidence is not None
    rows: tuple[SandwichRow, ...] = ()
    reached, lower = answer.reached
    if lower is not None:
        # Half of the candidates are members: blind guessing is right half of the time.
        success = ((1 + reached) / 2, max(0.5, down((1 + lower) / 2)))
        rows = (_attacked_row("given", "average", 0.5, success, question.confidence),)
    on_members, on_others = (
        evidence.signals.score(0, evidence.truth, side) or 0.0
        for side in (evidence.member, ~evidence.member)
    )
    unlike = None if detail.comparable or answer.one_law is None else answer.one_law.sentence
    scores = {"score_members_estimate": on_members, "score_nonmembers_estimate": on_others}
    return Finding(
        answer.to_dict() | scores,
        answer.sentence,
        rows=rows,
        roc=_roc_of_given(detail) if detail.comparable else None,
        score=beside_constant(context.data.examples, on_others),
        not_comparable=unlike,
    )


def _roc_of_given(detail: ModelAudit) -> RocCurve:
    """Return the ROC curve of the best attack on records that it was not trained on."""
    score, where = detail.scores[detail.best]
    fpr, tpr = mean_roc(score[where][None, :], detail.member[where][None, :])
    name = f"{LABELS['given']}: best attack tried ({detail.best})"
    return RocCurve("given", "estimate", name, tuple(fpr.tolist()), tuple(tpr.tolist()))


def audit_model(context: Context, progress: Progress) -> Finding:
    """Attack the learner as it is, on random halves."""
    question, learner, examples = (
        context.question,
        context.learner(),
        context.sample_examples(_PLAYED),
    )
    run = train_shadows(
        examples,
        learner,
        models=question.shadows,
        seed=question.seed,
        n_jobs=context.workers,
        cache=context.fits_of(learner),
        records=_ATTACKED_QUICKLY if question.quick else _ATTACKED,
        progress=progress,
    )
    audited = audit_run(run, confidence=question.confidence)
    detail = audited.detail
    average = average_row(detail)
    fpr, tpr = detail.roc
    label = f"{LABELS['model']}: best attack tried ({detail.roc_attack})"
    counts, edges = np.histogram(audited.records.estimate, bins=np.linspace(0, 1, 21))
    failed = [w for w in detail.warnings if run.failures and w in run.warnings]
    finding = Finding(
        audited.to_dict(),
        " ".join([audited.sentence, *failed]),
        rows=(average, worst_row(audited.records, question.confidence, average)),
        roc=RocCurve("model", "estimate", label, tuple(fpr.tolist()), tuple(tpr.tolist())),
        exposure=Exposure(tuple(np.round(edges, 2).tolist()), tuple(counts.tolist())),
        score=context.score(context.data.examples),
    )
    return context.noting_sample(finding, examples.rows)


def protect_every_record(context: Context, progress: Progress) -> Finding:
    """Protect the study's learner with noise on all rows; a refusal is the step's answer."""
    name = context.question.learner
    learner = (
        name if private_form(name) else private_form(context.learner()) or require_form(name).name
    )
    finding = _train_release(context, "noise-every", learner)
    progress(1, 1)
    return finding


def protect_other_learner(context: Context, progress: Progress) -> Finding:
    """Train the learners that work well with noise on all rows, and keep the one that scores best.

    A learner without a private form (a forest) has no other remedy that is a model.
    """
    own = private_form(context.question.learner) or private_form(context.learner())
    names = [name for name in other_learners(context.data.examples.task) if name != own]
    findings: list[Finding] = []
    refusal = InputError("there must be another learner with a private form.")
    for index, name in enumerate(names):
        try:
            findings.append(_train_release(context, "noise-other", name))
        except InputError as problem:
            refusal = problem
        progress(index + 1, len(names))
    if not findings:
        raise refusal
    return max(findings, key=lambda f: -math.inf if f.score is None else f.score.estimate)


def explain_promise(context: Context, progress: Progress) -> Finding:
    """Translate the promise into DP terms and the user's ε into a promise."""
    question = context.question
    answer = explain(epsilon=question.epsilon, delta=_DELTA)
    same = {
        "epsilon_as_strict": explain(target_eta=question.eta).epsilon,
        "epsilon_as_strict_with_delta": explain(target_eta=question.eta, delta=_DELTA).epsilon,
    }
    progress(1, 1)
    return Finding(answer.to_dict() | same, answer.sentence)


def translate_population(context: Context, progress: Progress) -> Finding:
    """Explain the user's ε for these records."""
    question, examples = context.question, context.sample_examples(_EXPLAINED)
    answer = population(
        examples.features,
        epsilon=question.epsilon,
        delta=_DELTA,
        seed=question.seed,
        progress=progress,
    )
    return context.noting_sample(Finding(answer.to_dict(), answer.sentence), examples.rows)


def equivalent_security(eta: float) -> float:
    """Return the MIS equivalent to η in the i.i.d. game (Δ ≤ 2η), rounded up to a double."""
    return double_above(1 - 2 * Fraction(eta))


def plan_rows(context: Context, progress: Progress) -> Finding:
    """Find how many rows would be enough without any change."""
    question, data = context.question, context.data
    answer = plan(
        data.table,
        columns=list(data.table.columns),
        roles=data.roles,
        security=equivalent_security(question.eta),
        record_leak=2 * question.eta,
        confidence=question.confidence,
    )
    progress(1, 1)
    needed = answer.n_required
    remedy = Remedy(id="rows", label="More rows", game="iid", sentence=str(answer.reason))
    if needed is not None:
        extra = max(0, needed - (answer.rows or 0))
        remedy = replace(
            remedy,
            protects="average record",
            # Rows that are still to come: the plan promises 1 - 2η, not less.
            accuracy_upper=sum_up(0.5, question.eta),
            confidence=answer.confidence,
            extra_rows=extra,
            # Among the rows still to come may be values that the table does not hold.
            sentence=(
                f"{needed} rows of the same kind would be enough for the average record and for "
                f"records whose values already occur in the table, {extra} more than there are. "
                "There is no guarantee for records with other values, which the new rows may "
                "bring: this is not enough for every record."
            ),
        )
    return Finding(answer.to_dict(), answer.sentence, remedy=remedy)


def coarsen_columns(context: Context, progress: Progress) -> Finding:
    """Coarsen the table until the bound holds, and train the learner on what remains."""
    question = context.question

    def hardened(leak: float | None) -> Hardening:
        return harden(
            context.data.table,
            security=equivalent_security(question.eta),
            record_leak=leak,
            target=question.target,
            columns=list(context.data.examples.columns),
            roles=context.data.roles,
            confidence=question.confidence,
            seed=question.seed,
        )

    leak: float | None = 2 * question.eta
    try:
        answer = hardened(leak)
    except InputError:
        # Fall back to protecting the average record; the report marks it as not enough.
        leak = None
        answer = hardened(leak)
    progress(1, 2)
    after, score = answer.after, _score_on_coarser(context, answer)
    sentence = (
        f"{answer.rows_released} of {answer.rows_read} rows remain, in {after.atoms} "
        "different cells."
    )
    if score is None:
        sentence += (
            f" {question.target} itself is coarser: no score on it compares with the present one."
        )
    if leak is None:
        sentence += " It protects the average record only: nothing coarser protects every one."
    command = context.command(
        "harden",
        security=significant(equivalent_security(question.eta), "given"),
        record_leak=leak,
        confidence=question.confidence,
        seed=question.seed,
        out="safe.parquet",
    )
    remedy = _table_remedy(
        context,
        "coarser",
        "Coarser columns",
        after,
        information_kept_estimate=answer.information_kept_estimate,
        steps=answer.steps,
        sentence=sentence,
        # Of a whole file only: harden takes no choice of columns.
        command=command if question.columns is None else None,
    )
    rows = _table_rows("coarser-table", after)
    return Finding(answer.to_dict(), answer.sentence, rows=rows, score=score, remedy=remedy)


def _score_on_coarser(context: Context, answer: Hardening) -> HoldoutScore | None:
    """Return the learner's score on the coarser table; None where the target itself is coarser."""
    target, examples, table = context.question.target, context.data.examples, answer.table
    rule = dict(answer.rules.rules)[target]
    if not isinstance(rule, Keep):
        # Fewer classes are easier to tell apart: a score on them is not one on the target.
        return None
    if table.shape[1] == 1 or table[target].nunique() == 1:
        # Without a feature, or with one class left, a learner always gives the same answer.
        fixed = beside_constant(examples, 0.0)
        return replace(fixed, estimate=fixed.chance)
    coarser = read_examples(
        context.data.table.with_frame(table),
        target,
        columns=[c for c in table.columns if c != target],
        roles={target: examples.selection.roles[target]},
        task=examples.task,
    )
    return context.score(coarser)


def draw_new_rows(context: Context, progress: Progress) -> Finding:
    """Make a table of new rows that protects every record, and train the learner on such rows."""
    question, data = context.question, context.data

    def drawn(table: DataFrame | Table, seed: int) -> Synthesis:
        return synthesize(
            table,
            target=question.target,
            columns=list(data.examples.columns),
            unit=question.unit,
            eta=question.eta,
            bounds={**data.bounds, **data.rules},
            # For trial: what the study makes is thrown away, the real release draws its own.
            insecure_seed=seed,
        )

    def train(rows: RowIndices, seed: int) -> Predict:
        new = drawn(data.rows_of(rows), seed).table
        model = clone(context.learner()).fit(*_encode_new_rows(data.examples, new, question.target))
        return _predicting(model, data.examples)

    answer = drawn(data.released, question.seed)
    progress(1, 2)
    remedy = _release_remedy(
        context,
        "synthetic",
        "A table of new rows",
        answer,
        sentence=(
            "Whatever is trained on the new rows, by anybody and however often, is covered. "
            f"{answer.sentence}"
        ),
        command=context.release_command("synthesize", out="safe.parquet"),
    )
    score = context.score(data.examples, train)
    return Finding(answer.to_dict(), answer.sentence, score=score, remedy=remedy)


def _encode_new_rows(
    examples: Examples, table: DataFrame, target: str
) -> tuple[FloatArray, Labels]:
    """Return new rows as the learner takes them: encoded features, and their targets."""
    features, _ = encode_rows(examples.encoder, examples.columns, table)
    values = Values.of(table[target])
    if examples.class_values is None:
        wanted = values.numbers
    else:
        indices = values.positions([label_of(value) for value in examples.class_values])
        wanted = np.where(indices >= 0, indices, np.nan)
    usable = np.isfinite(wanted)
    return features[usable], wanted[usable].astype(examples.target.dtype)


@dataclass(frozen=True)
class Step:
    """A step: its name, what it does in plain words, and whether its refusal is an answer.

    ``optional`` steps look for a remedy; that there is none is a finding, not a failure.
    """

    id: StepId
    title: str
    optional: bool
    run: Callable[[Context, Progress], Finding]
    #: Relative duration, for the estimate of the time left.
    weight: int = 1


#: The first step of a study about a model that exists.
GIVEN = Step("given", "Attack the given model", False, attack_given, 5)
#: In the order in which they are run.
STEPS = (
    Step("certify", "Certify the table as it is", False, certify_table),
    Step("audit", "Attack the model as it is", False, audit_model, 20),
    Step("protect-every", "Protect every record", True, protect_every_record, 10),
    Step("protect-other", "Protect with another learner", True, protect_other_learner, 10),
    Step("explain", "Translate into differential privacy", False, explain_promise),
    Step("population", "What ε means for these records", True, translate_population, 5),
    Step("rows", "More rows", True, plan_rows),
    Step("coarser", "Coarser columns", True, coarsen_columns, 14),
    Step("synthetic", "A table of new rows", True, draw_new_rows, 5),
)
