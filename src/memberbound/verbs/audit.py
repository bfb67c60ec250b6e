"""The verb ``audit``: attack an existing model and report valid confidence intervals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypedDict, cast

from memberbound.answers import INTERNAL, EstimateOf, OmitEmpty, Upper, computed
from memberbound.attacks.attacks import ATTACKS
from memberbound.attacks.checks import Fact
from memberbound.attacks.evidence import (
    Evidence,
    ScoreTable,
    ask_model,
    load_given_model,
    read_predictions,
    read_scores,
    read_table,
)
from memberbound.attacks.model_audit import ModelAudit, audit_records
from memberbound.attacks.one_run import audit_one_run, check_claim
from memberbound.attacks.own_attacks import OwnAttack
from memberbound.attacks.scores import IntervalFields, Scores, interval_fields
from memberbound.attacks.shadows import (
    FEWEST_IN_TIME,
    MODELS,
    ShadowRun,
    clone_given_model,
    train_references,
)
from memberbound.declarations import (
    Column,
    Encoding,
    Force,
    Hidden,
    InputFile,
    LearnerName,
    Names,
    Option,
    Rates,
    RecordsFile,
    TableLike,
    command_text,
)
from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.learners.learner import Learner
from memberbound.quantities import NO_LEAK, confident, decimals, percent, significant
from memberbound.release.all_rows.learner_forms import other_learners, require_form
from memberbound.release.all_rows.trials import PrivateTraining
from memberbound.tables.frame_files import write_table
from memberbound.tables.records import read_secret_columns
from memberbound.tables.table import Table
from memberbound.verbs.audit_answer import (
    RATES,
    RecordsAnswer,
    check_rates,
    records_answer_fields,
    records_file,
)

#: Descriptions of an attacker's access, in increasing order.
_ACCESS = {
    "labels": "an API that returns labels only",
    "values": "an API that returns predictions",
    "probabilities": "an API that returns probabilities",
}

# ── The answer ────────────────────────────────────────────────────────────────────────────────────


class AccessFields(TypedDict):
    """The best attack at one level of access to the model."""

    attack: str
    advantage: IntervalFields


@dataclass(frozen=True)
class Replacement:
    """A protected model of the same rows, with its score, the audited model's, and its bound."""

    learner: str
    score: str
    score_released_estimate: EstimateOf
    score_yours_estimate: EstimateOf
    success_upper: Upper
    command: str

    @property
    def sentence(self) -> str:
        """The recommendation as a sentence."""
        after, before = (
            decimals(score, "estimate", 3)
            for score in (self.score_released_estimate, self.score_yours_estimate)
        )
        return (
            f"Replace it: a {self.learner} model of all rows with noise, {self.score} about "
            f"{after} against yours, about {before}. Then no attacker, even one who knows all "
            "other records, is right about any record's membership more than "
            f"{percent(self.success_upper, 'upper')} of the time. That bound does not cover the "
            "choice between learners, which used scores of the rows."
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Audit(RecordsAnswer):
    """Attack results on one model; ``detail`` has every measurement."""

    VERB: ClassVar = "audit"
    ATTACKED: ClassVar = " on this model"
    CAUTION: ClassVar = (
        "This is no guarantee: other attacks may achieve more, and other models of the same "
        "learner may leak more."
    )

    by_access: Mapping[str, AccessFields]
    reference_models: int
    facts: tuple[Fact, ...]
    replacement: OmitEmpty[Replacement | None] = None
    detail: ModelAudit = field(metadata=INTERNAL)

    @computed
    def leak_shown(self) -> bool:
        """Whether an attack provably beats blind guessing on comparable members and non-members."""
        return self.floor is not None and self.floor > 0

    def findings(self) -> Iterator[str]:
        """Yield lower bounds by access, facts, and whether the two sides are comparable."""
        if not self.comparable:
            yield "members and non-members are not comparable: there is no floor"
        elif self.by_access:
            sure = confident(self.confidence)
            yield f"leak at least (all lines hold together, confidence {sure}):"
            for level, best in self.by_access.items():
                lower = best["advantage"]["lower"]
                shown = NO_LEAK
                if lower is not None and lower > 0:
                    shown = f"advantage ≥ {decimals(lower, 'lower', 3)} ({best['attack']})"
                yield f"  {_ACCESS[level]}: {shown}"
        if self.facts:
            yield "facts for output checking:"
        for fact in self.facts:
            verdict = "ok   " if fact.passes else "CHECK"
            yield f"  {verdict} {fact.name}: {fact.value} ({fact.rule})"
        if self.one_law is not None and self.comparable:
            yield self.one_law.sentence

    def summary(self) -> str:
        """Return the table of attacks, followed by the recommended replacement."""
        text = super().summary()
        if self.replacement is None:
            return text
        return f"{text}\n\n{self.replacement.sentence}\n  {self.replacement.command}"


# ── The question ──────────────────────────────────────────────────────────────────────────────────


def audit(
    members: TableLike | None = None,
    *,
    nonmembers: InputFile | None = None,
    model: InputFile | None = None,
    predictions: InputFile | None = None,
    one_run: InputFile | None = None,
    claimed_epsilon: float | None = None,
    delta: float | None = None,
    target: Column | None = None,
    learner: LearnerName | None = None,
    trust: Annotated[bool, Option("switch", web=False)] = False,
    factory: Annotated[object, Option("text", metavar="NAME", web=False)] | None = None,
    by: Column | None = None,
    quick: bool = False,
    seconds: float | None = None,
    attacks: Annotated[Iterable[str | OwnAttack], Option("names", metavar="loss,lira,…")]
    | None = None,
    confidence: float = 0.95,
    fpr: Rates = RATES,
    columns: Names | None = None,
    encoding: Encoding | None = None,
    records: RecordsFile | None = None,
    force: Force = False,
    seed: int = 0,
    shadows: Hidden = MODELS,
    workers: Hidden | None = None,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training models")]
    | None = None,
) -> Audit:
    """Measure what membership inference attacks on a model achieve, with confidence intervals.

    Pass the model itself (``model``, with its members and with ``nonmembers``, fresh records of the
    same kind), a table of its ``predictions``, or a table of one attack's scores with the columns
    ``score`` (higher means more likely a member) and ``member`` (1 or 0).  The game is the model
    game: this model, its own members.  A score table of canaries that were included in one training
    run by fair coin flips (``one_run``) also gives lower bounds on the mechanism's ε and μ.

    Guarantee: each ``lower`` and ``upper`` holds with ``confidence`` for its own attack; a lower
    bound also applies to the best possible attack.  Nothing here bounds other attacks from above.
    The lower bounds of ``one_run`` hold with ``confidence`` for every mechanism with that ε at that
    δ.  Attacks that train reference models are measured on a quarter of the members (with fewer
    than 1000 members: on 250, or half) and half of the non-members; they train on the rest.
    Theorem: proofs/audit-intervals.md, proofs/given-models.md.
    Assumes: the answer's ``assumptions``.
    Edge cases: the TPR is ``None`` at an FPR for which there are too few non-members.

    Args:
        members: the model's training rows: a file or a table, in Python also a pair (X, y);
            or, without a model, a table of scores or predictions.
        nonmembers: rows from the same source that the model was not trained on.
        model: a trained model: its file, or in Python the fitted object or a callable of rows.
        predictions: instead of a model, a table of its predictions: ``label``, ``member`` and
            ``probability_<class>``, ``logit_<class>`` or ``prediction``.
        one_run: a table of scores of canaries; an independent fair coin decided whether each one
            was in the training set of this one model (``member``).
        claimed_epsilon: the ε that the training claims, compared with the lower bound from
            ``one_run``; the command exits with code 3 if the lower bound exceeds it.
        delta: the δ of that ε (default: 1e-5).
        target: column that the model predicts.
        learner: learner of the reference models, trained on these rows: a short name,
            ``package.module:factory`` or an estimator (default: ``same``, the model's own kind,
            for scikit-learn estimators and those of LightGBM and XGBoost).
        factory: for a PyTorch ``state_dict``: the ``package.module:factory`` for the module.
        by: a column of subgroups, to report separately.
        quick: leave out the attacks that train reference models, the strongest ones.
        seconds: CPU seconds for training reference models (default: 60): the cost of the first
            ones decides how many there are.
        attacks: attacks to run (default: all that can run here); in Python also functions of
            ``memberbound.attacks.own_attacks.View`` that return a number per record.
        confidence: of each interval.
        columns: columns passed to the model (default: those it was trained on).
        records: write which members are identified to this CSV file.
        force: overwrite ``records``.
        seed: for random parts of the records and the learners.
        shadows: maximum number of reference models.
        workers: processes that train them; -1 uses all cores (default, unless they are quick).

    Command line:
        memberbound audit train.csv --nonmembers test.csv --model model.skops --target income
        memberbound audit train.csv --nonmembers test.csv --model model.skops --target y --quick
        memberbound audit train.csv --nonmembers test.csv --model n.pt --factory nets:cnn --target y
        memberbound audit --predictions answers.csv --by sex
        memberbound audit scores.csv --fail-above 0.6
        memberbound audit --one-run canaries.csv --claimed-epsilon 8

    Examples:
        >>> scores = {"score": [*range(100), *range(60, 160)], "member": [0] * 100 + [1] * 100}
        >>> import pandas
        >>> audit(pandas.DataFrame(scores)).attacks["scores"]["auc"]["lower"] > 0.7
        True
    """
    import pandas as pd

    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    start = whole_number("seed", seed, at_least=0)
    out = records_file(records, members, force=force)
    rates = check_rates(fpr)
    names = [columns] if isinstance(columns, str) else columns
    check_claim("one_run", one_run, claimed_epsilon, delta)
    evidence: Evidence | ScoreTable
    references, floors = None, None
    notes: tuple[str, ...] = ()
    if model is not None:
        if predictions is not None or one_run is not None:
            raise InputError("predictions and one_run must be left out with a model.")
        trained = load_given_model(model, trust=trust, factory=factory)
        evidence = ask_model(
            trained, members, nonmembers, target, columns=names, by=by, encoding=encoding
        )
        references, notes = _train_references(
            evidence,
            learner,
            attacks,
            quick=quick,
            models=whole_number("shadows", cast(int, shadows), at_least=FEWEST_IN_TIME),
            seconds=60.0 if seconds is None else positive("seconds", seconds),
            workers=cast("int | None", workers),
            progress=progress,
            seed=start,
        )
    else:
        _refuse_options_of_a_model(
            nonmembers=nonmembers is not None,
            target=target is not None,
            columns=names is not None,
            learner=learner is not None,
            quick=quick,
            seconds=seconds is not None,
            trust=trust,
            factory=factory is not None,
        )
        evidence = _read_answers(members, predictions, one_run, by, encoding)
    if one_run is not None and isinstance(evidence, ScoreTable):
        floors = audit_one_run(
            Scores.of(evidence.score, evidence.member),
            delta=delta,
            confidence=sure,
            claimed_epsilon=claimed_epsilon,
        )
    detail = audit_records(
        evidence,
        attacks=attacks,
        references=references,
        confidence=sure,
        fpr=rates,
        by=by,
        seed=start,
    )
    detail = replace(detail, warnings=(*notes, *detail.warnings))
    by_access: dict[str, AccessFields] = {
        level: {
            "attack": bound.attack,
            "advantage": interval_fields(bound, proved=detail.comparable),
        }
        for level, bound in detail.by_access.items()
    }
    answer = Audit(
        **records_answer_fields(detail),
        assumptions=detail.assumptions,
        one_law=detail.law,
        one_run=floors,
        by_access=by_access,
        reference_models=0 if references is None else references.signals.models,
        facts=detail.facts,
        records_out=None if out is None else str(out),
        detail=detail,
    )
    # A study passes an open table and makes its own recommendation.
    if answer.leak_shown and target is not None and not isinstance(members, Table):
        kept = None if names is None else tuple(names)
        replacement = _rehearse_replacement(
            members, target, detail, columns=kept, encoding=encoding, seed=start
        )
        answer = replace(answer, replacement=replacement)
    if out is not None and detail.recognised is not None:
        recognised = detail.recognised
        listed = {
            # From 1, as in the printed list.
            "record": [row + 1 if isinstance(row, int) else row for row in recognised.rows],
            "p_value": recognised.p_values,
            "recognised": recognised.named.astype(int),
        }
        write_table(pd.DataFrame(listed), out, force=force, private=True)
    return answer


def _refuse_options_of_a_model(**given: bool) -> None:
    """Reject options that need a model when only its outputs are given."""
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise InputError(
            f"model must be given with {' and '.join(names)}, got none. A learner is audited "
            "on its table by audit-learner."
        )


def _read_answers(
    members: object, predictions: object, one_run: object, by: str | None, encoding: str | None
) -> Evidence | ScoreTable:
    """Read the table that is given instead of a model."""
    sources = {"members": members, "predictions": predictions, "one_run": one_run}
    given = [name for name, source in sources.items() if source is not None]
    if len(given) != 1:
        raise InputError(
            "model must be given with the rows that it was trained on (members, nonmembers, "
            "target); without a model, give one table: members with a score each, predictions, or "
            f"one_run. Got {' and '.join(given) or 'none of these'}."
        )
    if predictions is not None:
        return read_predictions(predictions, by, encoding)
    if one_run is not None:
        return read_scores(one_run, by, encoding)
    return read_table(members, by, encoding)


def _train_references(
    evidence: Evidence,
    learner: str | Learner | None,
    attacks: Iterable[str | OwnAttack] | None,
    *,
    quick: bool,
    **training: Any,
) -> tuple[ShadowRun | None, tuple[str, ...]]:
    """Train reference models; return them with notes.

    Failures are errors if a learner was named.  Otherwise a model that cannot be retrained (or not
    in time) gets no reference models, and a note explains how to obtain them.
    """
    if quick and learner is not None:
        raise InputError("quick must be left out with a learner: it trains nothing.")
    learning = [name for name, attack in ATTACKS.items() if attack.learns]
    if attacks is not None and not {*attacks} & {*learning}:
        return None, ()
    if quick:
        return None, (
            "Reference attacks, the strongest ones, were left out: nothing was trained to compare "
            "with",
        )
    try:
        if learner is None:
            clone_given_model(evidence)
    except InputError:
        return None, (
            "Stronger attacks need --learner: this model cannot be retrained from the input "
            "given, so there are no reference models",
        )
    try:
        run = train_references(evidence, learner, **training)
    except InputError as problem:
        if learner is not None:
            raise
        return None, (f"Reference attacks, the strongest ones, did not run: {problem}",)
    trained = run.signals.models
    if trained + len(run.failures) >= training["models"]:
        return run, ()
    return run, (
        f"{trained} of {training['models']} reference models were trained, as "
        f"{significant(training['seconds'], 'given')} CPU seconds allow; more seconds make the "
        "attacks stronger",
    )


# ── A protected model to replace one that leaks ───────────────────────────────────────────────────

_REPLACEMENT_ETA = 0.05


def _rehearse_replacement(
    members: object,
    target: str,
    detail: ModelAudit,
    *,
    columns: tuple[str, ...] | None,
    encoding: str | None,
    seed: int,
) -> Replacement | None:
    """Train protected models on an audited model's rows and return the best-scoring one.

    Scores are computed as in ``protect``, on rows held out from a trial model.  Return None if no
    learner can be trained on these rows, or none beats a constant.
    """
    evidence = detail.evidence
    yours = None
    if evidence is not None:
        yours = evidence.signals.score(0, evidence.truth, ~evidence.member)
    if evidence is None or yours is None:
        return None
    try:
        table = read_secret_columns(members, {}, target=target, columns=columns, encoding=encoding)
    except InputError:
        return None
    source = os.fspath(members) if isinstance(members, (str, os.PathLike)) else "TABLE"
    best: Replacement | None = None
    for learner in other_learners(evidence.task):
        training = PrivateTraining(target, require_form(learner), _REPLACEMENT_ETA, {})
        try:
            # This model is discarded; a real release draws fresh noise.
            model = training.fit(table, seed)
        except InputError:
            continue
        scores, _ = training.score_trial(table, seed + 1)
        if not scores:
            continue
        score, chance = scores[0].released_estimate, scores[0].constant_estimate
        if chance is not None and score <= chance:
            continue
        if best is None or score > best.score_released_estimate:
            options = {
                "--target": target,
                "--learner": learner,
                "--eta": _REPLACEMENT_ETA,
                "--columns": columns,
                "--encoding": encoding,
                "--out": "model.skops",
            }
            command = command_text("protect", source, options)
            name, most = scores[0].name, model.budget.success_upper(model.certificate_.value)
            best = Replacement(learner, name, score, yours, most, command)
    return best
