"""The steps of a study, each of which calls one verb on the study's table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from memberbound.attacks.learner_audit import mean_roc
from memberbound.attacks.model_audit import ModelAudit
from memberbound.attacks.shadows import train_shadows
from memberbound.errors import InputError
from memberbound.learners.examples import Examples, encode_rows, read_examples
from memberbound.learners.holdout import HoldoutScore, Predict, RowIndices, beside_constant
from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray, double_above, down, sum_up
from memberbound.quantities import significant
from memberbound.release.all_rows.learner_forms import other_learners, private_form, require_form
from memberbound.report.fields import StepId
from memberbound.report.model import LABELS, ExposureHistogram, Remedy, RocCurve, SandwichRow
from memberbound.tables.columns import label_of, read_column
from memberbound.tables.recipe import Keep
from memberbound.tables.table import Table
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import audit_run
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import Hardening, harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.study.findings import (
    Context,
    Finding,
    StepProgress,
    attacked_row,
    average_row,
    predict_with,
    release_remedy,
    table_remedy,
    table_rows,
    train_release,
    worst_row,
)
from memberbound.verbs.synthesize import Synthesis, synthesize

if TYPE_CHECKING:
    from pandas import DataFrame

# Nothing is released here: all models and noise are trials from the study's seed.

#: Limits for large tables: attack a uniform sample of this many records; in a quick study, play the
#: subset game on ``_PLAYED`` rows and explain ε for ``_EXPLAINED``.
_ATTACKED, _ATTACKED_QUICKLY = 20_000, 4_000
_PLAYED, _EXPLAINED = 10_000, 2_000
_DELTA = 1e-5

# ── The steps ─────────────────────────────────────────────────────────────────────────────────────


def certify_table(context: Context, progress: StepProgress) -> Finding:
    """Certify the unchanged table, for any learner trained on it."""
    data = context.data
    answer = certify(
        data.table,
        columns=list(data.table.columns),
        roles=data.roles,
        confidence=context.question.confidence,
    )
    progress(1, 1)
    remedy = table_remedy(context, "nothing", "Change nothing", answer)
    sentence = "It is not proved that the table or the model, as they are, stay within the limit."
    if remedy.enough:
        sentence = (
            "The table is coarse and large enough: whatever is trained on it stays within the "
            "limit."
        )
    return Finding(
        answer.to_dict(),
        answer.sentence,
        rows=table_rows("table", answer),
        remedy=replace(remedy, sentence=sentence),
    )


def attack_given(context: Context, progress: StepProgress) -> Finding:
    """Attack the given model."""
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
        rows = (attacked_row("given", "average", 0.5, success, question.confidence),)
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
        roc=_roc_of_given(detail, answer.strongest) if detail.comparable else None,
        score=beside_constant(context.data.examples, on_others),
        not_comparable=unlike,
    )


def _roc_of_given(detail: ModelAudit, strongest: str) -> RocCurve:
    """Return the ROC curve of the strongest attack on records that it was not trained on."""
    score, where = detail.scores[strongest]
    fpr, tpr = mean_roc(score[where][None, :], detail.member[where][None, :])
    name = f"{LABELS['given']}: best attack tried ({strongest})"
    return RocCurve("given", "estimate", name, tuple(fpr.tolist()), tuple(tpr.tolist()))


def audit_model(context: Context, progress: StepProgress) -> Finding:
    """Attack the unchanged learner, on random halves."""
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
        n_jobs=None if context.workers < 1 else context.workers,
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
        exposure=ExposureHistogram(tuple(np.round(edges, 2).tolist()), tuple(counts.tolist())),
        score=context.score(context.data.examples),
    )
    return context.noting_sample(finding, examples.rows)


def protect_every_record(context: Context, progress: StepProgress) -> Finding:
    """Protect the study's learner with noise on all rows; a refusal is the step's answer."""
    name = context.question.learner
    learner = (
        name if private_form(name) else private_form(context.learner()) or require_form(name).name
    )
    finding = train_release(context, "noise-every", learner)
    progress(1, 1)
    return finding


def protect_other_learner(context: Context, progress: StepProgress) -> Finding:
    """Train the learners that work well with noise on all rows, and keep the best-scoring one.

    For a learner without a private form (a forest), this is the only remedy that is a model.
    """
    own = private_form(context.question.learner) or private_form(context.learner())
    names = [name for name in other_learners(context.data.examples.task) if name != own]
    findings: list[Finding] = []
    refusal = InputError("there must be another learner with a private form.")
    for index, name in enumerate(names):
        try:
            findings.append(train_release(context, "noise-other", name))
        except InputError as problem:
            refusal = problem
        progress(index + 1, len(names))
    if not findings:
        raise refusal
    return max(findings, key=lambda f: -math.inf if f.score is None else f.score.estimate)


def explain_promise(context: Context, progress: StepProgress) -> Finding:
    """Translate the target η into DP terms, and the user's ε into attack success."""
    question = context.question
    answer = explain(epsilon=question.epsilon, delta=_DELTA)
    same = {
        "epsilon_as_strict": explain(target_eta=question.eta).epsilon,
        "epsilon_as_strict_with_delta": explain(target_eta=question.eta, delta=_DELTA).epsilon,
    }
    progress(1, 1)
    return Finding(answer.to_dict() | same, answer.sentence)


def translate_population(context: Context, progress: StepProgress) -> Finding:
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


def plan_rows(context: Context, progress: StepProgress) -> Finding:
    """Find the number of rows that would be enough without any change."""
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
            # Future rows: the plan promises at least 1 - 2η.
            accuracy_upper=sum_up(0.5, question.eta),
            confidence=answer.confidence,
            extra_rows=extra,
            # Future rows may contain values that the table does not.
            sentence=(
                f"{needed} rows of the same kind would be enough for the average record and for "
                f"records whose values already occur in the table, {extra} more than there are. "
                "There is no guarantee for records with other values, which the new rows may "
                "bring: this is not enough for every record."
            ),
        )
    return Finding(answer.to_dict(), answer.sentence, remedy=remedy)


def coarsen_columns(context: Context, progress: StepProgress) -> Finding:
    """Coarsen the table until the bound holds, and train the learner on the coarser table."""
    question = context.question

    def harden_to(leak: float | None) -> Hardening:
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
        answer = harden_to(leak)
    except InputError:
        # Fall back to protecting the average record; the report marks it as not enough.
        leak = None
        answer = harden_to(leak)
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
        sentence += " It protects the average record only: no coarsening protects every record."
    command = context.command(
        "harden",
        security=significant(equivalent_security(question.eta), "given"),
        record_leak=leak,
        confidence=question.confidence,
        seed=question.seed,
        out="safe.parquet",
    )
    remedy = table_remedy(
        context,
        "coarser",
        "Coarser columns",
        after,
        information_kept_estimate=answer.information_kept_estimate,
        steps=answer.steps,
        sentence=sentence,
        # Offer the command for a whole file only.
        command=command if question.columns is None else None,
    )
    rows = table_rows("coarser-table", after)
    return Finding(answer.to_dict(), answer.sentence, rows=rows, score=score, remedy=remedy)


def _score_on_coarser(context: Context, answer: Hardening) -> HoldoutScore | None:
    """Return the learner's score on the coarser table, or None if the target is coarsened."""
    target, examples, table = context.question.target, context.data.examples, answer.table
    rule = dict(answer.rules.rules)[target]
    if not isinstance(rule, Keep):
        # Fewer classes are easier to predict, so such a score would not be comparable.
        return None
    if table.shape[1] == 1 or table[target].nunique() == 1:
        # Without a feature, or with one class left, a learner predicts a constant.
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


def draw_new_rows(context: Context, progress: StepProgress) -> Finding:
    """Make a table of new rows that protects every record, and train the learner on such rows."""
    question, data = context.question, context.data

    def draw(table: DataFrame | Table, seed: int) -> Synthesis:
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
        new = draw(data.rows_of(rows), seed).table
        model = clone(context.learner()).fit(*_encode_new_rows(data.examples, new, question.target))
        return predict_with(model, data.examples)

    answer = draw(data.released, question.seed)
    progress(1, 2)
    remedy = release_remedy(
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
    """Encode new rows for the learner; return features and targets."""
    features, _ = encode_rows(examples.encoder, examples.columns, table)
    values = read_column(table[target])
    if examples.class_values is None:
        wanted = values.numbers
    else:
        indices = values.positions([label_of(value) for value in examples.class_values])
        wanted = np.where(indices >= 0, indices, np.nan)
    usable = np.isfinite(wanted)
    return features[usable], wanted[usable].astype(examples.target.dtype)


@dataclass(frozen=True)
class Step:
    """A step of a study: its id, its title, and whether it is optional.

    Optional steps look for a remedy; if there is none, that is a finding and not a failure.
    """

    id: StepId
    title: str
    optional: bool
    run: Callable[[Context, StepProgress], Finding]
    #: Relative duration, to estimate the remaining time.
    weight: int = 1


#: The first step of a study about an existing model.
GIVEN = Step("given", "Attack the given model", False, attack_given, 5)
#: The steps in the order of execution.
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
