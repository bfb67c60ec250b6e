"""The verb ``audit``: what attacks reach, with intervals that hold; never a guarantee."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.attacks import DEFAULT_ATTACKS
from memberbound.attacks.learned import LearnedAttack, Targets, learned_attack
from memberbound.attacks.learner_audit import (
    Ceiling,
    Exposure,
    LearnerAudit,
    Sandwich,
    audit_shadows,
    compare_exposure,
    read_ceiling,
    record_exposure,
    sandwiched,
)
from memberbound.attacks.model_report import (
    GivenModel,
    Training,
    audit_given,
    check_answers,
    read_answers,
    read_records,
)
from memberbound.attacks.noisy_releases import (
    MOST_RECORDS,
    ReleaseFloor,
    audit_release,
    has_normal_noise,
)
from memberbound.attacks.recognised import Recognised
from memberbound.attacks.scores import ScoreAudit, audit_scores
from memberbound.attacks.shadows import ShadowRun, train_shadows
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    Hidden,
    InputFile,
    LearnerName,
    Names,
    Option,
    Rates,
    RecordsFile,
    Seed,
    Table,
    Workers,
)
from memberbound.errors import InputError, whole_number
from memberbound.files import check_output, written_whole
from memberbound.games import Game
from memberbound.learners import learner_from_name, read_examples
from memberbound.learners.augmented import AugmentedQueries, Shape, picture_shape, pixels_of
from memberbound.learners.refits import Scheduler, default_cache, on_cluster
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import down, shared_confidence
from memberbound.quantities import (
    INTERVAL,
    ONLY_BLIND,
    AuditBound,
    Certificate,
    Readable,
    Sides,
    common_fields,
    confident,
    decimals,
    interval,
    marked,
    significant,
)
from memberbound.release.estimator import ReleasedLearner
from memberbound.release.methods import quick_to_fit
from memberbound.tables.in_memory import column_names, read_population

__all__ = [
    "Audit",
    "audit",
    "audit_run",
    "release_floor",
]

# ── The answer of ``audit``: what attacks reached, never a guarantee ──────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Readable, Limited):
    """What attacks reached on a learner or in a list of scores, with intervals.

    ``attacks`` has the contract's fields per attack; ``detail`` the full result.
    """

    SIDES: ClassVar[Sides] = {
        **Sandwich.SIDES,
        **GivenModel.SIDES,
        "attack_seconds": "estimate",
        "attacks": {
            "*": {
                "*": INTERVAL,
                "auc_standard_error_estimate": "estimate",
                "confidence": "lower",
                "no_leak_p_value": "upper",
                "prior": "given",
                "settings": "given",
                "tpr_at_fpr": {"*": INTERVAL},
            }
        },
        "best_advantage": INTERVAL,
        "confidence": "lower",
        "learned": {
            "advantage": {**INTERVAL, "confidence": "lower"},
            "cross_fitted": "estimate",
            "security_upper": "upper",
        },
        "records": {
            **Recognised.SIDES,
            "accuracy_estimate": "estimate",
            "blind_accuracy": "upper",
            "confidence": "lower",
            "exposed_above": "lower",
            "exposed_share": "lower",
            "most_exposed": {**INTERVAL, "family_lower": "lower"},
            "worst_record_estimate": "estimate",
        },
        "release": ReleaseFloor.SIDES,
        "training_seconds": "estimate",
    }

    VERB: ClassVar = "audit"
    FAILS_ON: ClassVar = ("estimate", "floor")
    COMPARED: ClassVar = "how often the best attack tried is right (one candidate in two is in)"

    game: Game
    attacks: dict[str, dict[str, Any]]
    best: str
    confidence: float
    assumptions: tuple[str, ...]
    detail: LearnerAudit | ScoreAudit | GivenModel
    exposure: Exposure | None = None
    sandwich: Sandwich | None = None
    release: ReleaseFloor | None = None
    learned: LearnedAttack | None = None
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    roles: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields("audit", self.game, (), self.assumptions)
        result |= {"protects": "average record"}
        result |= {} if isinstance(self.detail, ScoreAudit) else self.detail.to_dict()
        records = None if self.exposure is None else self.exposure.to_dict()
        if isinstance(self.detail, GivenModel):
            records = self.detail.recognised.to_dict()
        result |= {
            "sentence": self.sentence,
            "attacks": self.attacks,
            "best": self.best,
            "confidence": self.confidence,
            "records": records,
            "learned": None if self.learned is None else self.learned.to_dict(),
            "release": None if self.release is None else self.release.to_dict(),
            "records_out": self.records_out,
            "warnings": list(self.warnings),
            "roles": dict(self.roles),
        }
        return result | ({} if self.sandwich is None else self.sandwich.to_dict())

    @property
    def reached(self) -> tuple[float, float | None]:
        """Advantage of the best attack: the estimate, and the floor, which pays for the choice.

        There is no floor where members and non-members are not comparable.
        """
        found = self.attacks[self.best]["advantage"]
        lower = found["lower"]
        if isinstance(self.detail, LearnerAudit):
            # The attack was picked after looking; its own interval does not pay for that.
            lower = self.detail.best_advantage.lower
        if isinstance(self.detail, GivenModel):
            known = self.detail.comparable
            lower = self.detail.audit.best_advantage.lower if known else None
        return float(found["estimate"]), lower

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the best attack's success where half of all are members.

        That is ½ + ½·advantage, whatever the shares of members and others in the sample.
        """
        estimate, lower = self.reached
        best = self.best
        if on == "estimate":
            # Attacks without an interval count here too.
            gaps = {name: float(a["advantage"]["estimate"]) for name, a in self.attacks.items()}
            best = max(gaps, key=gaps.__getitem__)
            estimate = gaps[best]
        what = f"best attack tried ({best}), average record"
        if lower is None:
            # Not called a leak; but nothing speaks for the model either, so the limit stands.
            return (Success(f"{what}{NOT_COMPARABLE}"),)
        half = (1 + estimate) / 2, down((1 + lower) / 2)
        return (Success(what, estimate=half[0], floor=half[1]),)

    @property
    def sentence(self) -> str:
        """What was reached, and what that does not mean."""
        estimate, lower = self.reached
        who, whom = "attack on this model", ""
        more = (
            "This is no guarantee: other attacks may achieve more, and other models of the same "
            "learner may leak more."
        )
        if isinstance(self.detail, GivenModel):
            who = f"best attack tried on this model ({self.best})"
        if isinstance(self.detail, LearnerAudit):
            who, whom = f"best attack tried ({self.best})", " on the average record"
            more = "This is no guarantee: other attacks may achieve more."
        reached = decimals(estimate, "estimate", 3)
        sure = f"confidence {confident(self.confidence)}"
        least = f"; at {sure} {ONLY_BLIND}"
        if lower is None:
            assert isinstance(self.detail, GivenModel)
            assert self.detail.law is not None
            least, more = ", which is no floor", f"{self.detail.law.sentence} {more}"
        elif lower > 0:
            least = f", at least {decimals(lower, 'lower', 3)} with {sure}"
        return f"The {who} reached an advantage (TPR - FPR) of {reached}{whom}{least}. {more}"

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rates = sorted({r for a in self.attacks.values() for r in a["tpr_at_fpr"]}, reverse=True)
        head = ["attack", "AUC", "advantage", "accuracy", *(f"TPR at FPR {r}" for r in rates)]
        body = [
            [
                name,
                *(_cell(a[q]) for q in ("auc", "advantage", "accuracy")),
                *(_cell(a["tpr_at_fpr"].get(r)) for r in rates),
            ]
            for name, a in self.attacks.items()
        ]
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        lines = [
            "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in [head, *body]
        ]
        text = f"{self.sentence}\n\n" + "\n".join(lines)
        if isinstance(self.detail, GivenModel):
            text += f"\n{self.detail.summary()}"
        if self.exposure is not None:
            e = self.exposure.to_dict(5)
            text += (
                f"\n\nrecords provably guessed better than blindly: {e['exposed_records']} "
                f"({self.exposure.targets} target models)"
            )
            for item in e["most_exposed"]:  # type: ignore[attr-defined]
                text += f"\n  {_record(item, self.exposure.blind)}"
            text += (
                f"\n  (floors hold for all {self.exposure.estimate.size} records at once, "
                f"confidence {confident(self.exposure.confidence)})"
            )
        if self.learned is not None:
            text += f"\n\n{self.learned.summary()}"
        if self.release is not None:
            text += f"\n\n{self.release.summary()}"
        if self.sandwich is not None:
            gap = self.sandwich.gap
            shown = f"audited ≥ {significant(self.sandwich.floor, 'lower', 4)}"
            text += (
                "\n\ncertified advantage "
                f"{marked(self.sandwich.ceiling.advantage, 'certificate', 'advantage', 4)}, "
                + (
                    ONLY_BLIND
                    if gap is None
                    else f"{shown}, ratio ≈ {significant(gap, 'estimate', 2)}"
                )
            )
        return text + "".join(f"\nnote: {w.rstrip('.')}." for w in self.warnings)


def _cell(found: dict[str, float | None] | None) -> str:
    if found is None:
        return "–"
    estimate = decimals(found["estimate"], "estimate", 3)
    if found["lower"] is None or found["upper"] is None:
        return estimate
    return f"{estimate} {interval(found['lower'], found['upper'], 3)}"


def _record(item: dict[str, Any], blind: float) -> str:
    """Return what is known about one record; the floor holds for all records at once."""
    floor = marked(item["lower"], "audit", blind=blind)
    said = f"record {item['record']}: right {marked(item['estimate'], 'estimate')} of the time"
    return f"{said}, proved {floor}" if floor.kind == "audit" else f"{said}; {floor}"


# ── The verb ``audit``: what do real attacks reach? ───────────────────────────────────────────────

#: Why there is no number to hold to a limit, after who is right about whom.
NOT_COMPARABLE = ", on members and non-members that differ already in their columns"
#: Attacks without a score per record: one is trained on targets and bounds Δ by itself, the other
#: reads what is released (X24).
LEARNED, RELEASED = "learned", "released-vector"


#: Rates for which a TPR is given where the non-members allow it; others are asked for.
_RATES = (0.1, 0.01, 0.001)


@on_cluster
def audit(
    source: Table | None = None,
    *,
    nonmembers: InputFile | None = None,
    model: InputFile | None = None,
    members: Hidden | None = None,
    predictions: InputFile | None = None,
    target: Column | None = None,
    learner: LearnerName | None = None,
    trust: Annotated[bool, Option("switch", web=False)] = False,
    factory: Annotated[object, Option("text", metavar="NAME", web=False)] | None = None,
    by: Column | None = None,
    images: Annotated[str | Shape, Option("text", metavar="HxW", web=False)] | None = None,
    shadows: Annotated[int, Option("whole", metavar="S", least=8, most=10000)] = 64,
    attacks: Annotated[Iterable[str], Option("names", metavar="loss,lira,…")] | None = None,
    confidence: float = 0.95,
    fpr: Rates = _RATES,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    certificate: Annotated[
        Certificate | str | os.PathLike[str] | Mapping[str, object],
        Option("file", metavar="FILE", web=False),
    ]
    | None = None,
    records: RecordsFile | None = None,
    force: Force = False,
    cache: Annotated[
        str | os.PathLike[str] | bool, Option("cache", metavar="DIR", web=False, typed_default=True)
    ]
    | None = None,
    backend: Annotated[
        Literal["processes", "sequential", "dask"], Option("choice", web=False)
    ] = "processes",
    workers: Workers = -1,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    seed: Seed = 0,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training models")]
    | None = None,
) -> Audit:
    """Measure what membership inference attacks achieve, with confidence intervals.

    With ``model`` (or ``predictions``) one trained model is audited as it is: its members, the
    source, against ``nonmembers``, fresh records of the same kind: the model game.  Without
    ``target`` the source is a table of attack scores with the columns ``score`` (higher: rather a
    member) and ``member`` (1 or 0) about one model, the same game.  With ``target`` alone it is a
    population: ``shadows`` models are trained on random halves of it and attacked with one another,
    the subset game.

    Guarantee: each ``lower`` and ``upper`` holds with ``confidence`` for the attack it belongs to;
    a lower bound is a floor for the best attack.  Nothing here is a bound on other attacks.
    Theorem: proofs/audit-intervals.md (scores), proofs/given-models.md (models),
    proofs/audit-subset-game.md (learners); X24 where the learner is a release of ``protect`` with
    normal noise (``released_learner``).
    Assumes: the answer's ``assumptions``.
    Edge cases: too few non-members for an FPR give ``None``; failing fits are listed and left out.

    Args:
        source: a file or a table; with a model its training rows, in Python also a pair (X, y).
        nonmembers: rows from the same source that the model was not trained on.
        model: a trained model: its file, or in Python the fitted object or a callable of rows.
        members: with a model: another name for the source.
        predictions: instead of a model, a table of its predictions: ``label``, ``member`` and
            ``probability_<class>``, ``logit_<class>`` or ``prediction``; together with a model,
            predictions that it must reproduce here.
        target: column to predict.
        learner: a short name, ``package.module:factory`` or an estimator (default: logistic).
            With a model: what reference models are trained with (``same``: the model's own kind,
            for scikit-learn estimators); without it none are trained.
        trust: load model files that can run code (joblib, pickle); use it only if you trust whoever
            wrote the file.
        factory: for a PyTorch ``state_dict``: the ``package.module:factory`` for the module.
        by: with a model: a column whose values are subgroups to report separately.
        images: the columns are the pixels of images of this size (``28x28``, ``32x32x3`` with
            colours): every model is also queried with four copies shifted by a pixel, which can
            find more members.
        shadows: number of shadow models to train.
        attacks: attacks to run (default: the usual ones); ``learned`` adds the attack classifier of
            A25 §7, trained on some models and scored on others.
        confidence: of each interval.
        fpr: false-positive rate at which the TPR is measured; may be repeated.
        columns: columns to use (default: all but identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        database_table: the table inside a DuckDB or SQLite file.
        certificate: a certificate of η in the subset game to check the audit against: an audit
            above it raises :class:`memberbound.attacks.learner_audit.ContradictionError`. If fits
            failed the two are not compared, and a warning says so.
        records: write every record's exposure to this CSV file; its limits hold for all records
            simultaneously.
        force: overwrite ``records``.
        cache: folder that keeps finished fits, so that an interrupted run can continue (``True``,
            the command line's default: the user's cache folder).
        backend: where models are trained: ``processes``, ``sequential`` or ``dask``.
        workers: processes; -1 uses all cores.
        scheduler: address of a dask scheduler whose workers train the models.
        client: for Python: a ``distributed.Client`` instead.
        seed: for the random halves and the learners.
        progress: called with (done, total).

    Command line:
        memberbound audit train.csv --nonmembers test.csv --model model.skops --target income
        memberbound audit train.csv --nonmembers test.csv --model n.pt --factory nets:cnn --target y
        memberbound audit --predictions answers.csv
        memberbound audit scores.csv
        memberbound audit people.csv --target income --learner random-forest --cache fits
        memberbound audit people.csv --target income --attacks loss,lira,rmia --shadows 128

    Examples:
        >>> scores = {"score": [*range(100), *range(60, 160)], "member": [0] * 100 + [1] * 100}
        >>> import pandas
        >>> audit(pandas.DataFrame(scores)).attacks["scores"]["auc"]["lower"] > 0.7
        True
    """
    cluster = {"scheduler": scheduler, "client": client}  # connected by on_cluster
    source = _one_source(source, members)
    models = whole_number("shadows", shadows, at_least=2)
    rates = tuple(fpr) if isinstance(fpr, Iterable) else (fpr,)
    start = whole_number("seed", seed, at_least=0)
    out = None
    if records is not None:
        own = Path(source) if isinstance(source, (str, os.PathLike)) else None
        out = check_output(
            Path(records), name="records", formats=(".csv",), source=own, force=force
        )
    shape = None if images is None else picture_shape(images)
    stored = (default_cache() if cache else None) if isinstance(cache, bool) else cache
    if model is not None or predictions is not None:
        idle: dict[str, object] = {} if learner is not None else {**cluster}
        idle |= {"certificate": certificate, "roles": roles, "unit": unit}
        if model is None:
            idle |= {"nonmembers": nonmembers, "source": source, "by": by, "images": images}
            idle |= {"learner": learner, "target": target, "columns": columns}
        elif shape is not None:
            idle |= {"predictions": predictions}
        _refuse_idle(idle, "a model's predictions" if model is None else "a given model")
        given = (
            read_answers(predictions, database_table)
            if model is None
            else read_records(
                model,
                source,
                nonmembers,
                target=target,
                columns=[columns] if isinstance(columns, str) else columns,
                by=by,
                trust=trust,
                factory=factory,
                images=shape,
                database_table=database_table,
            )
        )
        if model is not None and predictions is not None:
            given = check_answers(given, read_answers(predictions, database_table))
        training = Training(learner or "same", models, workers, backend, stored, progress, shape)
        found = audit_given(
            given,
            attacks=attacks,
            training=None if learner is None else training,
            confidence=confidence,
            fpr=rates,
            required=() if rates == _RATES else rates,
            by=by,
            seed=start,
        )
        return _of_model(found, out, force=force)
    only = {"nonmembers": nonmembers, "by": by, "factory": factory, "trust": trust or None}
    _refuse_idle(only, "an audit without a model")
    if target is None:
        about = {
            "attacks": attacks,
            "columns": columns,
            "roles": roles,
            "unit": unit,
            "images": images,
            "certificate": certificate,
            "records": records,
            "cache": None if isinstance(cache, bool) else cache,
            **cluster,
        }
        _refuse_of_scores([name for name, value in about.items() if value is not None])
        return _of_scores(source, database_table, confidence, rates, start)
    ceiling = None if certificate is None else read_ceiling(certificate)
    examples = read_examples(
        source,
        target,
        columns=columns,
        roles=roles,
        database_table=database_table,
        unit=unit,
    )
    name = "logistic" if learner is None else learner
    estimator = learner_from_name(name, examples.task) if isinstance(name, str) else name
    if shape is not None:
        examples, estimator = pixels_of(examples), AugmentedQueries(estimator, shape)
    run = train_shadows(
        examples,
        estimator,
        models=models,
        seed=start,
        n_jobs=workers,
        backend=backend,
        cache=stored,
        progress=progress,
    )
    names = DEFAULT_ATTACKS if attacks is None else tuple(attacks)
    answer = audit_run(
        run,
        attacks=names,
        confidence=confidence,
        fpr=rates,
        ceiling=ceiling,
        learned=_learned(run, confidence, start) if LEARNED in names else None,
        release=release_floor(
            estimator,
            run,
            confidence=confidence,
            seed=start,
            workers=None if workers < 1 else workers,
        ),
    )
    exposure = answer.exposure
    assert exposure is not None
    notes = (*answer.warnings, *examples.notes)
    answer = replace(answer, warnings=notes, roles=examples.roles)
    if out is None:
        return answer
    _write_records(exposure, out, force=force)
    return replace(answer, records_out=str(out))


def _learned(run: ShadowRun, confidence: float, seed: int) -> LearnedAttack:
    """Attack the models with a classifier that is trained on some of them."""
    shown = np.stack([run.signals.logit, run.signals.loss], axis=2)
    targets = Targets(run.membership, signals=shown, features=run.examples.features)
    return learned_attack(targets, confidence=confidence, seed=seed)


def audit_run(
    run: ShadowRun,
    *,
    attacks: Iterable[str] = DEFAULT_ATTACKS,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    ceiling: Ceiling | None = None,
    learned: LearnedAttack | None = None,
    release: ReleaseFloor | None = None,
) -> Audit:
    """Audit models that are trained already; see :func:`audit`.

    With a ``ceiling`` an audit above it raises a ContradictionError.  ``learned`` is the attacker
    of A25 §7 on the same models, ``release`` that on what is released (X24).  They are attacks like
    the others: best attack, floor and the comparison with the ceiling read one list that shares the
    error.  So do the floors about one record, those of ``exposure`` and of ``release``
    (proofs/audit-subset-game.md claim 6).
    """
    plain = tuple(name for name in attacks if name != LEARNED) or DEFAULT_ATTACKS
    others: dict[str, Callable[[float], AuditBound]] = {}
    if learned is not None:
        others[LEARNED] = _floorless(learned.bounded) if run.failures else learned.bounded
    if release is not None:
        others[RELEASED] = release.on_average.bounded
    found = audit_shadows(run, attacks=plain, confidence=confidence, fpr=fpr, others=others)
    if learned is not None:
        learned = replace(learned, confidence=found.each_confidence)
    both = found.confidence
    if release is not None:
        release = replace(release, confidence=found.each_confidence)
        both = shared_confidence(both, 2)
    sandwich, warnings, exposure = None, found.warnings, record_exposure(found, confidence=both)
    if run.failures:
        # Halves on which a fit succeeds need not be uniform, and then it is another game: a record
        # without which the learner fails is in most of them, and saying "in" is right about it.
        exposure = exposure.unproved()
        warnings += ("No record is listed as exposed: that needs uniform halves, fits failed.",)
        if ceiling is not None:
            warnings += ("The certificate was not compared, for the same reason.",)
    elif ceiling is not None and run.sample is not None and ceiling.record == "average":
        warnings += (
            "The certificate was not compared: it speaks of the average over all records, the "
            "audit of a sample of them.",
        )
    elif ceiling is not None:
        sandwich = sandwiched(ceiling, found.best_advantage)
        compare_exposure(ceiling, exposure)
        if release is not None and ceiling.record == "every":
            about_one = sandwiched(ceiling, release.worst)
            sandwich = max(sandwich, about_one, key=lambda side: side.floor)
    return Audit(
        found.game,
        {name: a.to_dict() for name, a in found.attacks.items()},
        found.best,
        found.confidence,
        found.assumptions,
        found,
        exposure,
        sandwich,
        release,
        learned,
        warnings=warnings,
    )


def _floorless(bounded: Callable[[float], AuditBound]) -> Callable[[float], AuditBound]:
    """Return the same intervals without a floor, for halves that were not uniform."""

    def cut(confidence: float) -> AuditBound:
        bound = bounded(confidence)
        return replace(bound, lower=min(bound.lower, 0.0))

    return cut


#: Targets and training models of the attack on what is released, per shadow model.
_TARGETS, _TRAINING = 8, 2


def release_floor(
    learner: object, run: ShadowRun, *, confidence: float, seed: int, workers: int | None
) -> ReleaseFloor | None:
    """Return the floors of X24 for a learner with known normal noise that is quick to fit."""
    if not isinstance(learner, ReleasedLearner):
        return None
    plan = learner.rehearsal
    law, records = plan.calibration.noise, run.game.population
    if not (has_normal_noise(law) and quick_to_fit(plan.statistic) and records <= MOST_RECORDS):
        return None
    models = run.signals.models
    return audit_release(
        plan.statistic,
        law,
        run.game,
        targets=_TARGETS * models,
        training=_TRAINING * models,
        confidence=confidence,
        seed=seed,
        workers=workers,
    )


def _one_source(source: object, members: object) -> object:
    """Return the source, which has another name beside a model."""
    if source is not None and members is not None:
        raise InputError("members must be left out where the source is given: it is the members.")
    return members if source is None else source


def _refuse_idle(options: Mapping[str, object], whose: str) -> None:
    """Refuse what is given and would be ignored."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{' and '.join(given)} must be left out for {whose}.")


def _refuse_of_scores(given: list[str]) -> None:
    if given == ["certificate"]:
        raise InputError(
            "certificate must be left out for a table of scores: the scores are about one "
            "model, a certificate about what a learner does on average over training sets and "
            "coins, so neither bounds the other. To hold a learner against its certificate, "
            "name its target."
        )
    if given:
        raise InputError(
            f"{' and '.join(given)} apply only to the audit of a learner; name its target."
        )


def _of_model(found: GivenModel, out: Path | None = None, *, force: bool = False) -> Audit:
    if out is not None:
        seen = found.recognised
        columns = {
            "record": np.array(seen.rows),
            "p_value": seen.p_values,
            "recognised": seen.named.astype(int),
        }
        _write_columns(columns, out, force=force)
    return Audit(
        found.audit.best_advantage.game,
        found.attack_fields(),
        found.audit.best,
        found.audit.confidence,
        found.audit.assumptions,
        found,
        warnings=found.notes,
        records_out=None if out is None else str(out),
    )


def _of_scores(
    source: object,
    database_table: str | None,
    confidence: float,
    fpr: tuple[float, ...],
    seed: int,
) -> Audit:
    if source is None:
        raise InputError("source must be a file or a table, got None.")
    names, name = column_names(source, database_table)
    if "score" not in names and {"label", "member"} <= set(names):
        answers = read_answers(source, database_table)
        return _of_model(audit_given(answers, confidence=confidence, fpr=fpr, seed=seed))
    for column in ("score", "member"):
        if column not in names:
            raise InputError(
                f"{name} must have the columns score and member, {column!r} is missing. To audit a "
                "learner on this table, name its target."
            )
    table = read_population(
        source, ("score", "member"), numeric=True, database_table=database_table
    )
    found = audit_scores(
        table.numbers("score"),
        table.numbers("member"),
        confidence=confidence,
        fpr=fpr,
        seed=seed,
    )
    fields = found.to_dict()
    return Audit(
        found.game,
        {"scores": fields},
        "scores",
        confidence,
        found.assumptions,
        found,
        warnings=found.notes,
    )


def _write_records(exposure: Exposure, path: Path, *, force: bool) -> None:
    """Write the exposure of every record, in the order of the rows; all ends hold at once."""
    records = np.arange(exposure.estimate.size)
    columns = {
        "record": records if exposure.rows is None else exposure.rows,
        "accuracy_estimate": exposure.estimate,
        "accuracy_lower": exposure.lower,
        "accuracy_upper": exposure.upper,
        "exposed": np.isin(records, exposure.exposed).astype(int),
    }
    _write_columns(columns, path, force=force)


def _write_columns(columns: Mapping[str, NDArray[np.generic]], path: Path, *, force: bool) -> None:
    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            lines.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))

    written_whole(path, write, force)
