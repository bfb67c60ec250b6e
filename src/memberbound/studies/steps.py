"""The steps of a study: each asks a verb about the study's table and keeps the verb's answer."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from sklearn.base import BaseEstimator, clone

from memberbound._version import __version__
from memberbound.attacks.learner_audit import ShadowAudit, read_ceiling
from memberbound.attacks.model_audit import ModelAudit
from memberbound.attacks.noisy_releases import ReleaseFloor
from memberbound.attacks.records import Exposure as RecordExposure
from memberbound.attacks.shadows import ShadowRun, train_shadows
from memberbound.errors import InputError
from memberbound.files import write_text
from memberbound.games import IidGame, SubsetGame
from memberbound.iid.certificates import accuracy_from_leak
from memberbound.learners import Examples, encoded_rows, learner_from_name, read_examples
from memberbound.learners.examples import Labels
from memberbound.learners.refits import fingerprint as learner_fingerprint
from memberbound.numerics.rounding import FloatArray, down, sum_up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.bounds import forms_of
from memberbound.release.all_rows.learner_forms import checked_form, private_form
from memberbound.report.model import (
    LABELS,
    Ceiling,
    Exposure,
    Floor,
    Histogram,
    Learned,
    Question,
    Result,
    RocCurve,
    SandwichRow,
    Seen,
    State,
    StepId,
    StepRecord,
    Subject,
    plain,
    typed_as,
)
from memberbound.studies.question import StudyData, StudyModel, equivalent_security
from memberbound.studies.rehearsal import (
    Predict,
    PrivateRows,
    Rows,
    Score,
    Train,
    held_out_score,
    score_beside_chance,
    training_of,
)
from memberbound.subset.settings import GaussianSetting
from memberbound.tables.columns import Values, label_of
from memberbound.tables.in_memory import read_records
from memberbound.tables.recipe import Keep
from memberbound.tables.table import Table
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import LearnerAudit, audit_run, release_floor
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import Hardening, harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect import protect
from memberbound.verbs.protection import Protection
from memberbound.verbs.replacement import other_learners
from memberbound.verbs.synthesize import Synthesis, synthesize

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# Nothing is released here: models and noise come from the study's seed, for trial.

#: What a large table changes: of more records than ``_ATTACKED`` a uniform sample is attacked, and
#: a quick study plays the subset game on ``_PLAYED`` rows and says what ε means for ``_EXPLAINED``.
_ATTACKED, _ATTACKED_QUICKLY = 20_000, 4_000
_PLAYED, _EXPLAINED = 10_000, 2_000
#: Attackers of the curve over ε, and its points.  The curve only informs: it is by coupling alone,
#: since the crowd of other records takes as long at each point as at the ε that was asked about.
_ATTACKERS = ("worst_case", "population", "coupled")
_SWEPT = 17
_DELTA = 1e-5
_BY_COUPLING = (
    "At other ε the report shows what coupling alone proves; memberbound population counts the "
    "crowd of the other records there as well."
)
_NOT_ATTACKED = "It was not attacked: halves of the table are too few rows to train on."
Progress = Callable[[int, int], None]
#: What is known about the average record of a subject, and about its worst.
_Pair = tuple[SandwichRow, SandwichRow]


# ── What a step finds ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Finding:
    """The verb's own dictionary and its sentence, and what the step adds to the report."""

    result: Result
    sentence: str
    #: The audit of a protected model.
    audit: Result | None = None
    rows: tuple[SandwichRow, ...] = ()
    roc: tuple[RocCurve, ...] = ()
    exposure: Exposure | None = None
    score: Score | None = None
    #: What was trained, where it need not be the study's own learner.
    learner: str | None = None
    #: Whether coarser columns protect the average record only.
    average_only: bool = False

    @property
    def theorems(self) -> tuple[str, ...]:
        """What the answer rests on."""
        return tuple(self.result["theorems"])

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed by the answer, and by its audit."""
        audit = () if self.audit is None else self.audit["assumptions"]
        return (*self.result["assumptions"], *audit)


@dataclass(frozen=True, eq=False)
class Context:
    """What the steps work with; ``model`` is the one that exists, if a study is about one."""

    question: Question
    data: StudyData
    workers: int = 1
    #: Folder for the fits of a step that is under way.
    fits: str | None = None
    model: StudyModel | None = None

    @cached_property
    def sample(self) -> StudyData:
        """The population of the subset game: all rows, of a quick study a sample at most."""
        question = self.question
        return self.data.sampled(_PLAYED, question.seed) if question.quick else self.data

    @property
    def subset_game(self) -> SubsetGame:
        """The game of the audits: a random half of the sample."""
        rows = self.sample.examples.rows
        return SubsetGame(rows, rows // 2, "every")

    @property
    def attacked(self) -> int:
        """How many records an audit attacks at most."""
        return _ATTACKED_QUICKLY if self.question.quick else _ATTACKED

    def noting_sample(self, finding: Finding, rows: int, what: str = "This step") -> Finding:
        """Say how many rows a finding is about, where it is not all of them."""
        all_rows = self.data.examples.rows
        if rows == all_rows:
            return finding
        note = (
            f"{what} of a quick study is about a uniform sample of {rows} of the {all_rows} rows."
        )
        result = {**finding.result, "assumptions": [*finding.result["assumptions"], note]}
        return replace(finding, result=result, sentence=f"{finding.sentence} {note}")

    def fits_of(self, learner: BaseEstimator) -> str | None:
        """Return the folder for finished fits; a learner that cannot be described has none."""
        if self.fits is None:
            return None
        try:
            learner_fingerprint(learner)
        except InputError:
            return None
        return self.fits

    def learner(self) -> BaseEstimator:
        """Return the study's learner, unfitted."""
        return learner_from_name(self.question.learner, self.data.examples.task)

    def score(self, examples: Examples, train: Train | None = None) -> Score | None:
        """Return the score on rows that were not trained on, of the study's learner unless told."""
        train = train or training_of(self.learner(), examples)
        return held_out_score(examples, train, self.question.seed, quick=self.question.quick)


# ── Ceilings, floors and estimates of a subject ───────────────────────────────────────────────────


def _table_rows(
    subject: Literal["table", "coarser-table"], bounds: Result, theorems: tuple[str, ...]
) -> tuple[SandwichRow, ...]:
    """Return what is certified of a table: about the average record, and about the worst."""
    accuracies = {
        "average": bounds["accuracy_upper"],
        "worst": accuracy_from_leak(bounds["record_leak"]["max"], IidGame()),
    }
    return tuple(
        SandwichRow(
            subject,
            LABELS[subject],
            cast("Literal['average', 'worst']", record),
            "iid",
            0.5,
            Ceiling("certificate", min(1.0, accuracy), bounds["confidence"], theorems),
            None,
            None,
        )
        for record, accuracy in accuracies.items()
    )


def _attack_fields(
    subject: Learned, audited: LearnerAudit, confidence: float, certificate: Certificate | None
) -> dict[str, Any]:
    """Return rows, curves and exposure of a learner under attack, as fields of a finding."""
    detail, exposure, label = audited.detail, audited.records, LABELS[subject]
    average = average_row(subject, detail)
    worst = worst_row(subject, exposure, audited.release, confidence)
    rows = (average, at_least_average(worst, average))
    fpr, tpr = detail.curves[detail.best_curve]
    name = f"{label}: best attack tried ({detail.best_curve})"
    curves = [RocCurve(subject, "estimate", name, tuple(fpr.tolist()), tuple(tpr.tolist()))]
    if certificate is not None:
        rows = _covered(rows, certificate)
        curves.append(_certified_curve(subject, certificate))
    edges = np.linspace(0, 1, 21)
    counts, _ = np.histogram(exposure.estimate, bins=edges)
    histogram = Histogram(tuple(round(float(e), 2) for e in edges), tuple(counts.tolist()))
    shown = Exposure(subject, label, histogram)
    return {"rows": rows, "roc": tuple(curves), "exposure": shown}


def _covered(rows: _Pair, certificate: Certificate) -> _Pair:
    """Return the rows of the average and the worst record below a promise to every record."""
    average, worst = (
        replace(
            row,
            ceiling=Ceiling(
                "certificate",
                min(1.0, sum_up(row.blind, certificate.value)),
                certificate.confidence,
                tuple(certificate.theorems),
            ),
        )
        for row in rows
    )
    return average, worst


def _unattacked(subject: Subject, game: SubsetGame) -> _Pair:
    """Return the rows of a subject that nobody attacked."""
    blank = SandwichRow(subject, LABELS[subject], "average", "subset", game.blind, None, None, None)
    return blank, replace(blank, record="worst")


def _certified_curve(subject: Learned, certificate: Certificate) -> RocCurve:
    """Return the line that no attack can be above."""
    name = f"{LABELS[subject]}: no attack can be above (every record)"
    line = _advantage_line(read_ceiling(certificate).advantage)
    return RocCurve(subject, "certificate", name, *line)


def average_row(subject: Subject, audited: ShadowAudit) -> SandwichRow:
    """Return how often the best of all attacks that ran is right about a uniform record.

    The floor fails with half of the error, as that of the worst record does: the verdict may take
    either after looking at both (proofs/audit-subset-game.md claim 6).
    """
    game = audited.game
    reached = max(
        _accuracy(game, a.advantage.estimate) if a.accuracy is None else a.accuracy.estimate
        for a in audited.attacks.values()
    )
    # Guessing blindly is open to everybody.
    lower = max(game.blind, down(_accuracy(game, audited.best_advantage.lower), 4))
    floor = Floor("audit", lower, audited.confidence, audited.best)
    estimate = _estimate(reached, floor, "mean over records and models of the best attack")
    return SandwichRow(
        subject, LABELS[subject], "average", "subset", game.blind, None, estimate, floor
    )


def worst_row(
    subject: Subject, exposure: RecordExposure, release: ReleaseFloor | None, confidence: float
) -> SandwichRow:
    """Return how often an attack is right about the record it knows best; see above."""
    lower, reached = float(exposure.lower.max()), exposure.worst_estimate
    attacks = ", ".join(dict.fromkeys(exposure.attacks))
    if release is not None:
        about_one = down(_accuracy(exposure.game, release.worst.lower), 4)
        reached = max(reached, _accuracy(exposure.game, release.worst.estimate))
        if about_one > lower:
            lower, attacks = about_one, release.worst.attack
    floor = Floor("audit", max(exposure.blind, lower), confidence, attacks)
    what = "the record guessed best, chosen on half of the models, measured on the others"
    estimate = _estimate(reached, floor, what)
    return SandwichRow(
        subject, LABELS[subject], "worst", "subset", exposure.blind, None, estimate, floor
    )


def at_least_average(worst: SandwichRow, average: SandwichRow) -> SandwichRow:
    """Return the row of the worst record, which is guessed at least as often as the average one."""
    (floor, seen), least = (worst.floor, worst.estimate), average.floor
    if floor is None or seen is None or least is None or least.lower <= floor.lower:
        return worst
    estimate = Seen("estimate", max(seen.estimate, least.lower), seen.what)
    return replace(worst, floor=least, estimate=estimate)


def _estimate(estimate: float, floor: Floor, what: str) -> Seen:
    # An attacker who does worse than the floor can take the attack that proves it.
    return Seen("estimate", max(estimate, floor.lower), f"{what}; never below its floor")


def _accuracy(game: SubsetGame, advantage: float) -> float:
    """π·TPR + (1-π)(1-FPR) ≥ π(1 + TPR - FPR) for π ≤ ½, since FPR ≤ 1; equal at π = ½."""
    return min(game.prior, 1 - game.prior) * (1 + advantage)


def _advantage_line(gain: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return TPR ≤ FPR + gain as points, close together for a logarithmic axis.

    The corner, where the line meets 1, is one of them: a chord across it would lie below.
    """
    near = [10 ** (-4 + i / 10) for i in range(40)]
    grid = sorted({0.0, *near, max(0.0, 1 - gain), 1.0})
    return tuple(grid), tuple(min(1.0, sum_up(alpha, gain)) for alpha in grid)


# ── The steps ─────────────────────────────────────────────────────────────────────────────────────


def certify_table(context: Context, progress: Progress) -> Finding:
    """Certify the table as it is, whatever is trained on it."""
    data = context.data
    answer = certify(data.table, **data.counted, confidence=context.question.confidence)
    progress(1, 1)
    result = answer.to_dict()
    rows = _table_rows("table", result, tuple(answer.theorems))
    return Finding(result, answer.sentence, rows=rows)


def attack_given(context: Context, progress: Progress) -> Finding:
    """Attack the model that exists, as it is."""
    question, model = context.question, context.model
    assert model is not None
    answer = audit(
        context.data.opened,
        nonmembers=model.nonmembers,
        model=model.trained,
        target=question.target,
        columns=None if question.columns is None else list(question.columns),
        quick=question.quick,
        confidence=question.confidence,
        seed=question.seed,
        workers=None if context.workers < 1 else context.workers,
    )
    progress(1, 1)
    detail = answer.detail
    rows: tuple[SandwichRow, ...] = ()
    roc: tuple[RocCurve, ...] = ()
    reached, lower = answer.reached
    if lower is not None:
        # Half of the candidates are members: blind guessing is right half of the time.
        floor = Floor("audit", _even_floor(lower), question.confidence, detail.best)
        what = "the best attack tried on this model, one candidate in two being a member"
        estimate = _estimate((1 + reached) / 2, floor, what)
        label = LABELS["given"]
        rows = (SandwichRow("given", label, "average", "model", 0.5, None, estimate, floor),)
    if detail.comparable:
        roc = (_roc_of_given(detail),)
    evidence = detail.evidence
    assert evidence is not None
    on_members, on_others = (
        evidence.signals.score(0, evidence.truth, side) or 0.0
        for side in (evidence.member, ~evidence.member)
    )
    scores = {"score_members_estimate": on_members, "score_nonmembers_estimate": on_others}
    score = score_beside_chance(context.data.examples, on_others, 1)
    return Finding(answer.to_dict() | scores, answer.sentence, rows=rows, roc=roc, score=score)


def _even_floor(advantage: float) -> float:
    """Return the accuracy that an advantage proves where half of the candidates are members."""
    return max(0.5, down((1 + advantage) / 2))


def _roc_of_given(detail: ModelAudit) -> RocCurve:
    """Return the curve of the best attack, on the records that it was not told about."""
    best = detail.best
    score, where = detail.scores[best]
    inside = detail.member[where]
    sides = [np.sort(score[where][side]) for side in (inside, ~inside)]
    # At most as many points as a picture shows; each is a threshold.
    levels = np.unique(np.quantile(np.concatenate(sides), np.linspace(0, 1, 201)))[::-1]
    tpr, fpr = (
        [1 - float(np.searchsorted(side, level, "left")) / side.size for level in levels]
        for side in sides
    )
    name = f"{LABELS['given']}: best attack tried ({best})"
    return RocCurve("given", "estimate", name, (0.0, *fpr, 1.0), (0.0, *tpr, 1.0))


def _audit(
    context: Context,
    examples: Examples,
    learner: BaseEstimator,
    progress: Progress,
    certificate: Certificate | None = None,
) -> tuple[LearnerAudit, ShadowRun]:
    """Attack models of a learner; an attack above the certificate raises a ContradictionError."""
    question = context.question
    run = train_shadows(
        examples,
        learner,
        models=question.shadows,
        seed=question.seed,
        n_jobs=context.workers,
        cache=context.fits_of(learner),
        records=context.attacked,
        progress=progress,
    )
    release = None
    # What is certified already is attacked with less effort in a quick study.
    if certificate is None or not question.quick:
        release = release_floor(
            learner,
            run,
            confidence=question.confidence,
            seed=question.seed,
            workers=None if context.workers < 1 else context.workers,
        )
    ceiling = None if certificate is None else read_ceiling(certificate)
    audited = audit_run(run, confidence=question.confidence, ceiling=ceiling, release=release)
    return audited, run


def audit_model(context: Context, progress: Progress) -> Finding:
    """Attack the learner as it is."""
    audited, run = _audit(context, context.sample.examples, context.learner(), progress)
    failed = [w for w in audited.detail.warnings if run.failures and w in run.warnings]
    finding = Finding(
        audited.to_dict(),
        " ".join([audited.sentence, *failed]),
        score=context.score(context.data.examples),
        **_attack_fields("model", audited, context.question.confidence, None),
    )
    return context.noting_sample(finding, context.sample.examples.rows)


def _protected(
    context: Context,
    answer: Protection,
    certificate: Certificate,
    audited: LearnerAudit | None,
    **finding: Any,
) -> Finding:
    """Return a release with noise, for trial; ``audited`` is None where halves are too few rows.

    ``certificate`` is the answer's, about the halves that the audit draws.
    """
    game, note = certificate.game, ""
    if audited is not None:
        fields = _attack_fields("noise-every", audited, context.question.confidence, certificate)
        fields["audit"] = audited.to_dict()
    else:
        assert isinstance(game, SubsetGame)
        rows = _covered(_unattacked("noise-every", game), certificate)
        fields = {"rows": rows, "roc": (_certified_curve("noise-every", certificate),)}
        note = f" {_NOT_ATTACKED}"
    result = Finding(answer.to_dict(), answer.sentence + note, **finding, **fields)
    return context.noting_sample(result, context.sample.examples.rows, "The audit")


def _part(progress: Progress, first: int, last: int, parts: int) -> Progress:
    """Return the progress of a part of the work, from ``first`` to ``last`` of ``parts``."""

    def advance(done: int, total: int) -> None:
        total = max(total, 1)
        progress(first * total + (last - first) * done, parts * total)

    return advance


def _own_learner(context: Context) -> str:
    """Return what ``protect`` is told to train the study's learner on all rows, or refuse."""
    name = context.question.learner
    if private_form(name):
        return name
    return private_form(context.learner()) or checked_form(name)


def _release_of_all_rows(context: Context, learner: str) -> Protection:
    """Make the release of all rows, as ``protect`` makes it."""
    question, data = context.question, context.data
    return protect(
        data.released,
        target=question.target,
        unit=question.unit,
        columns=list(data.examples.columns),
        learner=learner,
        eta=question.eta,
        bounds=data.bounds,
        # For trial: what the study makes is thrown away, the real release draws its own.
        insecure_seed=question.seed,
        trial=False,
    )


def _private_rows(context: Context, data: StudyData, learner: str) -> PrivateRows:
    """Return the private learner of a table's rows."""
    examples, question = data.examples, context.question
    classes = () if examples.class_values is None else map(label_of, examples.class_values)
    records, questions = data.records(question.target), None
    if records.persons is not None:
        questions = read_records(data.table, forms_of(data.bounds))
    return PrivateRows(
        records,
        question.target,
        tuple(classes),
        questions=questions,
        learner=learner,
        eta=question.eta,
        bounds=data.bounds,
    )


def protect_every_record(context: Context, progress: Progress) -> Finding:
    """Train on all rows for every record, and audit the same training on halves.

    The certificate speaks of every table, so it holds for the halves that the audit draws as well.
    The audit informs: where halves are too few rows to train on, there is none.
    """
    learner = _own_learner(context)
    answer = _release_of_all_rows(context, learner)
    progress(1, 10)
    private = _private_rows(context, context.data, learner)
    score = context.score(context.data.examples, private.trained)
    progress(4, 10)
    certificate = replace(answer.calibration.certificate, game=context.subset_game)
    audited = None
    with suppress(InputError):
        private = _private_rows(context, context.sample, learner)
        # The learner gets rows by their numbers.
        numbers = np.arange(context.sample.examples.rows, dtype=np.float64)[:, None]
        numbered = replace(context.sample.examples, features=numbers)
        audited, _ = _audit(context, numbered, private, _part(progress, 4, 10, 10), certificate)
    return _protected(context, answer, certificate, audited, score=score, learner=learner)


def protect_other_learner(context: Context, progress: Progress) -> Finding:
    """Train the learners that work well with noise on all rows, and keep the one that scores best.

    A learner without a private form (a forest) has no other remedy that is a model.
    """
    own = private_form(context.question.learner) or private_form(context.learner())
    names = [name for name in other_learners(context.data.examples.task) if name != own]
    best: Finding | None = None
    refusal = InputError("there must be another learner with a private form.")
    for place, name in enumerate(names):
        try:
            answer = _release_of_all_rows(context, name)
        except InputError as problem:
            refusal = problem
            continue
        train = _private_rows(context, context.data, name).trained
        score = context.score(context.data.examples, train)
        if best is None or _estimate_of(score) > _estimate_of(best.score):
            blank = _unattacked("noise-other", context.subset_game)
            rows = _covered(blank, answer.calibration.certificate)
            best = Finding(answer.to_dict(), answer.sentence, rows=rows, score=score, learner=name)
        progress(place + 1, len(names))
    if best is None:
        raise refusal
    return best


def _estimate_of(score: Score | None) -> float:
    return -math.inf if score is None else score.estimate


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
    """Say what the user's ε means for these records."""
    question, data = context.question, context.data
    sample = data.sampled(_EXPLAINED, question.seed).examples if question.quick else data.examples
    answer = population(
        sample.features,
        epsilon=question.epsilon,
        delta=_DELTA,
        seed=question.seed,
        progress=progress,
    )
    assert isinstance(answer.setting, GaussianSetting)
    coupling = answer.setting.coupling
    sweep = []
    for epsilon in np.geomspace(question.epsilon / 30, question.epsilon * 10, _SWEPT).tolist():
        point = coupling.comparison(epsilon)
        successes = (point.worst_case, point.population, point.practical)
        named = zip((f"{who}_upper" for who in _ATTACKERS), successes, strict=True)
        sweep.append({"epsilon": epsilon, **dict(named)})
    finding = Finding(answer.to_dict() | {"sweep": sweep}, f"{answer.sentence} {_BY_COUPLING}")
    return context.noting_sample(finding, sample.rows)


def plan_rows(context: Context, progress: Progress) -> Finding:
    """Find how many rows would be enough without any change."""
    question = context.question
    answer = plan(
        context.data.table,
        **context.data.counted,
        security=equivalent_security(question.eta),
        record_leak=2 * question.eta,
        confidence=question.confidence,
    )
    progress(1, 1)
    return Finding(answer.to_dict(), answer.sentence)


def coarsen_columns(context: Context, progress: Progress) -> Finding:
    """Coarsen the table until the bound holds, and train the learner on what remains."""
    question = context.question

    def hardened(leak: float | None) -> Hardening:
        return harden(
            context.data.table,
            security=equivalent_security(question.eta),
            record_leak=leak,
            target=question.target,
            **context.data.features,
            confidence=question.confidence,
            seed=question.seed,
            learners=False,
        )

    average_only = False
    try:
        answer = hardened(2 * question.eta)
    except InputError:
        # The average record is the weaker wish; the report says that it is not what was asked.
        average_only = True
        answer = hardened(None)
    result: Result = answer.to_dict()
    return Finding(
        result,
        answer.sentence,
        rows=_table_rows("coarser-table", result["after"], tuple(answer.theorems)),
        score=_score_on_coarser(context, answer, progress),
        average_only=average_only,
    )


def _score_on_coarser(context: Context, answer: Hardening, progress: Progress) -> Score | None:
    """Return the learner's score on the coarser table; None where the target itself is coarser."""
    question, examples, table = context.question, context.data.examples, answer.table
    rule = dict(answer.rules.rules)[question.target]
    if not isinstance(rule, Keep):
        # Fewer classes are easier to tell apart: a score on them is not one on the target.
        return None
    if table.shape[1] == 1 or table[question.target].nunique() == 1:
        # Without a feature, or with one class left, a learner always gives the same answer.
        fixed = score_beside_chance(examples, 0.0, 0)
        return replace(fixed, estimate=fixed.chance)
    coarser = read_examples(
        context.data.table.with_frame(table),
        question.target,
        columns=[c for c in table.columns if c != question.target],
        roles={question.target: examples.roles[question.target]},
        task=examples.task,
    )
    progress(1, 2)
    return context.score(coarser)


def draw_new_rows(context: Context, progress: Progress) -> Finding:
    """Make a table of new rows that protects every record, and train the learner on such rows."""
    question, data = context.question, context.data

    def drawn(frame: DataFrame | Table, seed: int) -> Synthesis:
        return synthesize(
            frame,
            target=question.target,
            columns=list(data.examples.columns),
            unit=question.unit,
            eta=question.eta,
            bounds=data.bounds,
            # For trial: what the study makes is thrown away, the real release draws its own.
            insecure_seed=seed,
        )

    def train(rows: Rows, seed: int) -> Predict:
        new = drawn(data.rows_of(rows), seed).table
        features, labels = _labelled(data.examples, new, new[question.target])
        model = clone(context.learner()).fit(features, labels)
        return lambda others: model.predict(data.examples.features[others])

    answer = drawn(data.released, question.seed)
    progress(1, 2)
    score = context.score(data.examples, train)
    progress(2, 2)
    return Finding(answer.to_dict(), answer.sentence, score=score)


def _labelled(examples: Examples, table: DataFrame, column: Series) -> tuple[FloatArray, Labels]:
    """Return new rows as the learner takes them: encoded features, and their targets."""
    features, _ = encoded_rows(examples.encoder, examples.columns, table)
    target = Values.of(column)
    if examples.class_values is None:
        wanted = target.numbers
    else:
        places = target.positions([label_of(value) for value in examples.class_values])
        wanted = np.where(places >= 0, places, np.nan)
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
    #: About how long it takes beside the others, so that the time left can be told.
    weight: int = 1


#: The first step of a study about a model that exists.
GIVEN = Step("given", "Attack the given model", False, attack_given, 5)
#: In the order in which they are run.
STEPS = (
    Step("certify", "Certify the table as it is", False, certify_table),
    Step("audit", "Attack the model as it is", False, audit_model, 20),
    Step("protect-every", "Protect every record", True, protect_every_record, 25),
    Step("protect-other", "Protect with another learner", True, protect_other_learner, 10),
    Step("explain", "Translate into differential privacy", False, explain_promise),
    Step("population", "What ε means for these records", True, translate_population, 5),
    Step("rows", "More rows", True, plan_rows),
    Step("coarser", "Coarser columns", True, coarsen_columns, 14),
    Step("synthetic", "A table of new rows", True, draw_new_rows, 5),
)


# ── Finished steps on disk, so that a stopped study goes on where it stopped ──────────────────────


@dataclass(frozen=True)
class Finished:
    """A step that has ended, with a finding or without."""

    id: StepId
    title: str
    state: State
    seconds: float = 0.0
    error: str | None = None
    finding: Finding | None = None

    @property
    def record(self) -> StepRecord:
        """The step as the report lists it."""
        finding = self.finding
        return StepRecord(
            *(self.id, self.title, self.state, self.seconds, self.error),
            sentence=None if finding is None else finding.sentence,
            result=None if finding is None else finding.result,
            audit=None if finding is None else finding.audit,
        )


def fingerprint(question: Question, sha256: str) -> str:
    """Return what a step's answer depends on, as one SHA-256.

    >>> fingerprint(Question("y", eta=0.1), "a") == fingerprint(Question("y"), "a")
    False
    """
    text = json.dumps([plain(question), sha256, __version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StepFolder:
    """The folder of finished steps of one study: a JSON file per step.

    Each file has the fingerprint of question, data and version; one with another is not used.
    """

    folder: Path
    key: str

    @classmethod
    def inside(cls, out: Path, key: str) -> StepFolder:
        """Return the folder inside a study's output folder."""
        folder = out / ".steps"
        folder.mkdir(exist_ok=True)
        return cls(folder, key)

    @property
    def fits(self) -> Path:
        """Where the fits of a step that is under way are kept until the study is finished."""
        return self.folder / "fits"

    def load(self, step: Step) -> Finished | None:
        """Return a finished step of exactly this study, else nothing."""
        path = self.folder / f"{step.id}.json"
        try:
            page = json.loads(path.read_text(encoding="utf-8"))
            return typed_as(Finished, page["step"], step.id) if page["key"] == self.key else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None  # a missing or damaged page is written again

    def keep(self, step: Finished) -> None:
        """Write a finished step."""
        page = {"key": self.key, "step": plain(step)}
        text = json.dumps(page, ensure_ascii=False, allow_nan=False)
        write_text(text, self.folder / f"{step.id}.json", force=True)
