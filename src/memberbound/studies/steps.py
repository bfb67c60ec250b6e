"""The steps of a study, each a verb of this package on its table, kept on disk when finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from memberbound._version import __version__
from memberbound.attacks.evidence import Evidence
from memberbound.attacks.learner_audit import ShadowAudit
from memberbound.attacks.model_audit import ModelAudit as GivenAudit
from memberbound.attacks.noisy_releases import ReleaseFloor
from memberbound.attacks.records import Exposure
from memberbound.attacks.sandwich import read_ceiling
from memberbound.attacks.shadows import ShadowRun, train_shadows
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.files import write_text
from memberbound.games import SubsetGame
from memberbound.iid.certified import Certified as CertifiedTable
from memberbound.learners import Examples, learner_from_name, read_examples
from memberbound.learners.refits import fingerprint as described
from memberbound.numerics.rounding import down
from memberbound.quantities import Certificate, json_number
from memberbound.release.all_rows.models import private_form
from memberbound.release.half.fitting import kept_fits
from memberbound.release.half.half_estimator import TableModel, released_learner
from memberbound.report.model import (
    AccessFloor,
    Floor,
    GivenModel,
    Histogram,
    PopulationTranslation,
    Question,
    Records,
    Result,
    Seen,
    State,
    StepId,
    StructuralFact,
    SweepPoint,
    Translation,
    plain,
    typed_as,
)
from memberbound.studies.private_rows import PrivateRows
from memberbound.studies.question import StudyData, StudyModel, StudyQuestion
from memberbound.tables.columns import label_of
from memberbound.tables.in_memory import read_records
from memberbound.tables.recipe import Keep
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import audit_run, release_floor
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import Hardening, harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect import protect
from memberbound.verbs.protect_half import protect_half

if TYPE_CHECKING:
    pass

__all__ = [
    "GIVEN",
    "STEPS",
    "Attacked",
    "Audited",
    "Bench",
    "Certified",
    "Coarsened",
    "Explained",
    "Finished",
    "Gain",
    "MeanRoc",
    "Noised",
    "Notebook",
    "Planned",
    "Said",
    "Score",
    "Side",
    "Step",
    "TableBound",
    "Translated",
    "fingerprint",
]

# ── What the steps answer ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Said:
    """What every step answers: the verb's own dictionary, and its sentence."""

    result: Result
    sentence: str

    def texts(self, key: str) -> list[str]:
        """Return a list of texts of the verb's dictionary: ``theorems`` or ``assumptions``."""
        found = self.result[key]
        assert isinstance(found, list)
        return [str(text) for text in found]


@dataclass(frozen=True)
class TableBound:
    """What is certified of a table, whatever is trained on it."""

    accuracy_upper: float
    delta_upper: float
    worst_leak_upper: float
    confidence: float
    theorems: tuple[str, ...]

    @classmethod
    def of(cls, certified: CertifiedTable, theorems: tuple[str, ...]) -> TableBound:
        """Return the bounds of a certification."""
        return cls(
            certified.accuracy_upper,
            certified.delta_upper,
            certified.record_leak.max,
            certified.confidence,
            theorems,
        )


@dataclass(frozen=True)
class Certified(Said):
    """The table as it is."""

    bound: TableBound


@dataclass(frozen=True)
class Score:
    """Mean score of models on records they were not trained on, and that of one fixed answer."""

    name: Literal["accuracy", "R²"]
    estimate: float
    models: int
    chance: float


@dataclass(frozen=True)
class MeanRoc:
    """The mean curve of the best attack."""

    attack: str
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]


@dataclass(frozen=True)
class Side:
    """How often the best attack is right, about the average or the worst record."""

    blind: float
    floor: Floor
    estimate: Seen


@dataclass(frozen=True)
class Audited(Said):
    """A learner under attack."""

    score: Score
    roc: MeanRoc
    average: Side
    worst: Side
    histogram: Histogram
    records: Records


@dataclass(frozen=True)
class Attacked(Said):
    """A given model under attack, its members against fresh records."""

    score: Score
    roc: MeanRoc
    #: None where members and non-members are not comparable.
    average: Side | None
    given: GivenModel


@dataclass(frozen=True)
class Gain:
    """The gain over blind guessing that a release is certified to allow."""

    upper: float
    confidence: float
    theorems: tuple[str, ...]


@dataclass(frozen=True)
class Noised(Said):
    """A release with noise, for trial, and its audit."""

    gain: Gain
    advantage_upper: float
    audit: Audited
    game: Literal["subset", "neighbour"] = "subset"
    guess_upper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Explained(Said):
    """The promise in DP terms, of any data set."""

    translation: Translation


@dataclass(frozen=True)
class Translated(Said):
    """The user's ε, for these records."""

    population: PopulationTranslation


@dataclass(frozen=True)
class Planned(Said):
    """How many rows would be enough; ``None`` if no number is, for a ``reason``."""

    needed: int | None
    rows: int
    confidence: float
    reason: str | None


@dataclass(frozen=True)
class Coarsened(Said):
    """The coarser table; without a score where the target itself is coarser."""

    bound: TableBound
    atoms: int
    rows_read: int
    rows_released: int
    information_kept_estimate: float | None
    steps: tuple[str, ...]
    score: Score | None
    refusal_for_every_record: str | None


# ── The steps of a study, each a verb of this package on the study's table ────────────────────────
#
# Nothing here is released: models and noise come from the study's seed, for trial.

#: Trials for the score of a model of all rows.
_TRIALS = 8
#: Between the seed of the audits' halves and that of the calibration's.
_APART = 2**32
#: Models for a score alone.
_SCORED = 16
#: What a large table changes: of more records than ``_ATTACKED`` a uniform sample is attacked;
#: beyond ``_LARGE`` rows noise for the average record is calibrated as it is asked, on ``_PAIRS``
#: pairs, and a score takes ``_FEWER`` models; beyond ``_HUGE`` the average record gets the release
#: that protects every one.  A quick study plays the subset game on ``_PLAYED`` rows.
_ATTACKED, _ATTACKED_QUICKLY, _PLAYED = 20_000, 4_000, 20_000
_LARGE, _HUGE, _PAIRS, _FEWER = 10_000, 20_000, 64, 4
#: Points of the curve over ε.
_SWEPT, _SWEPT_QUICKLY = 17, 9
_ALL_ROWS = "all rows"
Progress = Callable[[int, int], None]
T = TypeVar("T", bound=Said)


@dataclass(frozen=True, eq=False)
class Bench:
    """What the steps work with; ``model`` is the one that exists, if a study is about one."""

    question: StudyQuestion
    data: StudyData
    workers: int
    cache: str | None
    #: Folder for the fits of a step that is under way.
    scratch: str | None = None
    #: The model that exists, if a study is about one.
    model: StudyModel | None = None
    #: What steps have found that others need as well.
    found: dict[str, Noised] = field(default_factory=dict)

    @cached_property
    def played(self) -> StudyData:
        """The population of the subset game: all rows, of a quick study a sample at most."""
        asked = self.question
        return self.data.sampled(_PLAYED, asked.seed) if asked.quick else self.data

    @property
    def huge(self) -> bool:
        """Whether refitting for the average record would take longer than the rest of a study."""
        return self.data.examples.rows > (_LARGE if self.question.quick else _HUGE)

    @property
    def large(self) -> bool:
        """Whether the subset game has more than a few thousand records."""
        return self.played.examples.rows > _LARGE

    def told(self, said: T) -> T:
        """Name the sample that an answer is about, where it is not all rows."""
        rows, all_rows = self.played.examples.rows, self.data.examples.rows
        if rows == all_rows:
            return said
        about = (
            f"This step of a quick study is about a uniform sample of {rows} of the {all_rows} "
            "rows."
        )
        result = {**said.result, "assumptions": [*said.texts("assumptions"), about]}
        return replace(said, result=result, sentence=f"{said.sentence} {about}")

    def fits(self, learner: BaseEstimator) -> str | None:
        """Return the folder for finished fits: the user's, or the study's own where it can."""
        if self.cache is not None or self.scratch is None:
            return self.cache
        try:
            described(learner)
        except InputError:
            return None
        return self.scratch

    def learner(self) -> BaseEstimator:
        """Return the study's learner, unfitted."""
        return learner_from_name(self.question.learner, self.data.examples.task)


@dataclass(frozen=True)
class Step:
    """A step: its name, what it does in plain words, and whether its refusal is an answer.

    ``optional`` steps look for a remedy; that there is none is a finding, not a failure.
    """

    id: StepId
    title: str
    optional: bool
    run: Callable[[Bench, Progress], Said]
    kind: type[Said] = Said
    #: About how long it takes beside the others, so that the time left can be told.
    weight: int = 1


@dataclass(frozen=True)
class Finished:
    """A step that has ended, with an answer or without."""

    id: StepId
    title: str
    state: State
    seconds: float
    error: str | None
    answer: Said | None


def certify_table(bench: Bench, progress: Progress) -> Certified:
    """Certify the table as it is, whatever is trained on it."""
    data = bench.data
    found = certify(data.frame, **data.counted, confidence=bench.question.confidence)
    progress(1, 1)
    bound = TableBound.of(found, found.theorems)
    return Certified(found.to_dict(), found.sentence, bound)


def _shadowed(bench: Bench, learner: BaseEstimator, progress: Progress, models: int) -> ShadowRun:
    return train_shadows(
        bench.played.examples,
        learner,
        models=models,
        seed=bench.question.seed,
        n_jobs=bench.workers,
        cache=bench.fits(learner),
        records=_ATTACKED_QUICKLY if bench.question.quick else _ATTACKED,
        progress=progress,
    )


def score_of(run: ShadowRun) -> Score:
    """Return the mean score of the models on records outside their halves; an estimate."""
    target = run.examples.target
    each = (run.signals.score(m, target, ~member) for m, member in enumerate(run.membership))
    scores = [score for score in each if score is not None]
    return _scored(run.examples, float(np.mean(scores)), len(scores))


def _scored(examples: Examples, estimate: float, models: int) -> Score:
    name: Literal["accuracy", "R²"] = "R²" if examples.task == "regression" else "accuracy"
    return Score(name, estimate, models, chance_of(examples))


def chance_of(examples: Examples) -> float:
    """Return the score of always giving the same answer: the commonest class, or the mean."""
    if examples.task == "regression":
        return 0.0
    return float(np.bincount(examples.target).max() / examples.rows)


def _audited(
    bench: Bench, learner: BaseEstimator, progress: Progress, certificate: Certificate | None = None
) -> Audited:
    run = _shadowed(bench, learner, progress, bench.question.shadows)
    # Raises where an attack passes the certificate: then the study has found a bug.
    ceiling = None if certificate is None else read_ceiling(certificate)
    sure = bench.question.confidence
    release = release_floor(
        learner,
        run,
        confidence=sure,
        seed=bench.question.seed,
        workers=None if bench.workers < 1 else bench.workers,
    )
    answer = audit_run(run, confidence=sure, ceiling=ceiling, release=release)
    found, exposure = answer.detail, answer.records
    fpr, tpr = found.curves[found.best_curve]
    failed = [w for w in found.warnings if run.failures and w in run.warnings]
    return Audited(
        result=answer.to_dict(),
        sentence=" ".join([answer.sentence, *failed]),
        score=score_of(run),
        roc=MeanRoc(found.best_curve, tuple(fpr.tolist()), tuple(tpr.tolist())),
        average=_average(found),
        worst=_worst(exposure, answer.release, sure),
        histogram=_histogram(exposure),
        records=typed_as(Records, exposure.to_dict(), "records"),
    )


def _average(found: ShadowAudit) -> Side:
    """Return how often the best of all attacks that ran is right about a uniform record.

    The floor fails with half of the error, as that of the worst record does: the verdict may take
    either after looking at both (proofs/audit-subset-game.md claim 6).
    """
    game = found.game
    blind = max(game.prior, 1 - game.prior)
    reached = max(
        _accuracy(game, a.advantage.estimate) if a.accuracy is None else a.accuracy.estimate
        for a in found.attacks.values()
    )
    # Guessing blindly is open to everybody.
    floor = max(blind, down(_accuracy(game, found.best_advantage.lower), 4))
    return _side(
        blind,
        Floor("audit", floor, found.confidence, found.best),
        reached,
        "mean over records and models of the best attack",
    )


def _accuracy(game: SubsetGame, advantage: float) -> float:
    """π·TPR + (1-π)(1-FPR) ≥ π(1 + TPR - FPR) for π ≤ ½, since FPR ≤ 1; equal at π = ½."""
    return min(game.prior, 1 - game.prior) * (1 + advantage)


def _worst(exposure: Exposure, release: ReleaseFloor | None, confidence: float) -> Side:
    """Return how often the attack is right about the record it knows best; see :func:`_average`."""
    floor, reached = float(exposure.lower.max()), exposure.worst_estimate
    attacks = ", ".join(dict.fromkeys(exposure.attacks))
    if release is not None:
        about_one = down(_accuracy(exposure.game, release.worst.lower), 4)
        reached = max(reached, _accuracy(exposure.game, release.worst.estimate))
        if about_one > floor:
            floor, attacks = about_one, release.worst.attack
    return _side(
        exposure.blind,
        Floor("audit", max(exposure.blind, floor), confidence, attacks),
        reached,
        "the record guessed best, chosen on half of the models, measured on the others",
    )


def _side(blind: float, floor: Floor, estimate: float, what: str) -> Side:
    # Whoever does worse than what is proved, or than a blind guess, can do that instead.
    seen = Seen("estimate", max(estimate, floor.lower), f"{what}; never below its floor")
    return Side(blind, floor, seen)


def _histogram(exposure: Exposure) -> Histogram:
    edges = np.linspace(0, 1, 21)
    counts, _ = np.histogram(exposure.estimate, bins=edges)
    return Histogram(tuple(round(float(e), 2) for e in edges), tuple(counts.tolist()))


def attack_given(bench: Bench, progress: Progress) -> Attacked:
    """Attack the model that exists, as it is."""
    asked, model = bench.question, bench.model
    assert model is not None
    answer = audit(
        model.members,
        nonmembers=model.nonmembers,
        model=model.trained,
        target=asked.target,
        columns=None if asked.columns is None else list(asked.columns),
        database_table=asked.database_table,
        confidence=asked.confidence,
        seed=asked.seed,
    )
    progress(1, 1)
    found = answer.detail
    evidence = found.evidence
    assert evidence is not None
    inside = evidence.member
    law, named = found.law, found.recognised
    assert named is not None
    described = GivenModel(
        name=model.name,
        members=int(inside.sum()),
        nonmembers=int((~inside).sum()),
        score_name="R²" if evidence.task == "regression" else "accuracy",
        score_members_estimate=_score_on(evidence, inside),
        score_nonmembers_estimate=_score_on(evidence, ~inside),
        access=tuple(
            AccessFloor(
                level,
                bound.attack,
                max(0.0, min(1.0, (1 + bound.estimate) / 2)),
                max(0.5, down((1 + bound.lower) / 2)) if found.comparable else None,
            )
            for level, bound in found.by_access.items()
        ),
        recognised=int(named.named.sum()),
        recognised_among=len(named.rows),
        recognised_wrong_upper=named.rate,
        comparable=found.comparable,
        sides="" if law is None else law.sentence,
        facts=tuple(typed_as(StructuralFact, vars(fact), "facts") for fact in found.facts),
        notes=answer.warnings,
    )
    reached, lower = answer.reached
    average = None
    if lower is not None:
        # Half of the candidates are members: blind guessing is right half of the time.
        floor = max(0.5, down((1 + lower) / 2))
        average = _side(
            0.5,
            Floor("audit", floor, asked.confidence, found.best),
            (1 + reached) / 2,
            "the best attack tried on this model, one candidate in two being a member",
        )
    return Attacked(
        result=answer.to_dict(),
        sentence=answer.sentence,
        score=Score(
            described.score_name,
            described.score_nonmembers_estimate,
            1,
            chance_of(bench.data.examples),
        ),
        roc=_given_roc(found),
        average=average,
        given=described,
    )


def _score_on(evidence: Evidence, where: BoolArray) -> float:
    """Return accuracy or R² on some of the records; an estimate."""
    return evidence.signals.score(0, evidence.truth, where) or 0.0


def _given_roc(found: GivenAudit) -> MeanRoc:
    """Return the curve of the best attack, on the records that it was not told about."""
    score, where = found.scores[found.best]
    inside = found.member[where]
    sides = [np.sort(score[where][side]) for side in (inside, ~inside)]
    # At most so many points as a picture shows; each is a threshold.
    levels = np.unique(np.quantile(np.concatenate(sides), np.linspace(0, 1, 201)))[::-1]
    tpr, fpr = (
        [1 - float(np.searchsorted(side, level, "left")) / side.size for level in levels]
        for side in sides
    )
    return MeanRoc(found.best, (0.0, *fpr, 1.0), (0.0, *tpr, 1.0))


def audit_model(bench: Bench, progress: Progress) -> Audited:
    """Attack the learner as it is."""
    return bench.told(_audited(bench, bench.learner(), progress))


def _on_all_rows(bench: Bench, progress: Progress) -> Noised:
    """Train on all rows for every record, and audit the same training on halves.

    The certificate speaks of every table, so it holds for the halves that the audit draws as well.
    """
    asked, examples = bench.question, bench.data.examples
    found = protect(
        bench.data.frame,
        target=asked.target,
        columns=list(examples.columns),
        learner=asked.learner,
        eta=asked.eta,
        bounds=bench.data.bounds,
        baseline=asked.baseline or None,
        # For trial: what the study makes is thrown away, the real release draws its own.
        insecure_seed=asked.seed,
    )
    progress(1, 10)
    named = () if examples.class_values is None else map(label_of, examples.class_values)
    learner = PrivateRows(
        read_records(bench.played.frame),
        asked.target,
        tuple(named),
        learner=asked.learner,
        eta=asked.eta,
        bounds=bench.data.bounds,
    )
    certificate = found.calibration.certificate
    played = bench.played.examples
    places = np.arange(played.rows, dtype=np.float64)[:, None]
    game = SubsetGame(played.rows, played.rows // 2, "every")
    of_halves = replace(certificate, game=game)

    def advance(done: int, total: int) -> None:
        progress(total + 9 * done, 10 * max(total, 1))

    rows = replace(bench.played, examples=replace(played, features=places))
    audited = _audited(replace(bench, data=rows), learner, advance, of_halves)
    audited = replace(audited, score=_score_of_most(played, learner, asked.seed))
    return Noised(
        found.to_dict(),
        found.sentence,
        Gain(certificate.value, certificate.confidence, certificate.theorems),
        read_ceiling(of_halves).advantage,
        audited,
        "neighbour",
        found.guess_upper,
    )


def _score_of_most(examples: Examples, learner: PrivateRows, seed: int) -> Score:
    """Return the mean score of trials on four fifths: the release has all rows, no half."""
    draws, scores = np.random.default_rng(seed), []
    trials = _FEWER if examples.rows > _LARGE else _TRIALS
    for trial in range(trials):
        order = draws.permutation(examples.rows)
        cut = 4 * examples.rows // 5
        inside, out = order[:cut], order[cut:]
        model = clone(learner).set_params(random_state=seed + trial)
        answers = model.fit(inside[:, None], examples.target[inside]).predict(out[:, None])
        truth = examples.target[out]
        if examples.task == "regression":
            spread = np.square(truth - truth.mean()).sum()
            scores.append(1 - np.square(answers - truth).sum() / spread if spread > 0 else 0.0)
        else:
            scores.append(np.mean(answers == truth))
    return _scored(examples, float(np.mean(scores)), trials)


def _protected(record: Literal["average", "every"]) -> Callable[[Bench, Progress], Noised]:
    def run(bench: Bench, progress: Progress) -> Noised:
        asked = bench.question
        played = bench.played
        examples = played.examples
        refusal = ""
        if (record == "every" or bench.huge or asked.quick) and private_form(asked.learner):
            try:
                if _ALL_ROWS not in bench.found:
                    bench.found[_ALL_ROWS] = bench.told(_on_all_rows(bench, progress))
                noised = bench.found[_ALL_ROWS]
                also = " The average record gets what protects every record."
                said = noised.sentence + also * (record == "average")
                return replace(noised, sentence=said)
            except InputError as problem:
                # Without bounds a small table cannot pay for its ranges.
                refusal = f" (Training on all rows, which makes no row public: {problem})"

        average = record == "average"
        # Many pairs and many settings only lessen the noise: not worth most of a study's time.
        short = bench.large or asked.quick
        pairs = _PAIRS if average and short else None

        def first_half(done: int, total: int) -> None:
            progress(done, 2 * max(total, 1))

        with kept_fits(bench.cache or bench.scratch):
            found = protect_half(
                played.frame,
                target=asked.target,
                **played.features,
                learner=asked.learner,
                eta=asked.eta,
                record=record,
                confidence=asked.confidence,
                pairs=pairs,
                # Some hundred more fits for less noise, of which many records need little.
                tune=not short,
                workers=None if bench.workers < 1 else bench.workers,
                # For trial: what the study makes is thrown away, the real release draws its own.
                insecure_seed=asked.seed,
                # Halves of its own, apart from those of the audits.
                calibration_seed=asked.seed + _APART,
                progress=first_half,
            )
        assert isinstance(found.released, TableModel)
        learner = released_learner(found.released.model, examples.features, examples.target)
        certificate = found.calibration.certificate

        def second_half(done: int, total: int) -> None:
            progress(total + done, 2 * max(total, 1))

        audited = _audited(bench, learner, second_half, certificate)
        return bench.told(
            Noised(
                found.to_dict(),
                found.sentence + refusal,
                Gain(certificate.value, certificate.confidence, certificate.theorems),
                read_ceiling(certificate).advantage,
                audited,
            )
        )

    return run


def explain_promise(bench: Bench, progress: Progress) -> Explained:
    """Translate the promise into DP terms and the user's ε into a promise."""
    asked = bench.question
    strict = explain(target_eta=asked.eta)
    approximate = explain(target_eta=asked.eta, delta=asked.delta) if asked.delta else strict
    given = explain(
        epsilon=asked.epsilon, delta=asked.delta or None, baseline=asked.baseline or None
    )
    progress(1, 1)
    said = Translation(
        eta=asked.eta,
        epsilon_as_strict=_found(strict.epsilon),
        epsilon_as_strict_with_delta=_found(approximate.epsilon),
        delta=asked.delta,
        epsilon=asked.epsilon,
        accuracy_upper=given.accuracy_upper,
        eta_upper=given.eta_upper,
        tpr_upper=given.tpr_upper,
        sentence=given.sentence,
        population=None,
        guess_upper=given.guess_upper,
    )
    return Explained(given.to_dict(), given.sentence, said)


def _found(epsilon: float | None) -> float:
    assert epsilon is not None, "a promise below certainty has an ε"
    return epsilon


def translate_population(bench: Bench, progress: Progress) -> Translated:
    """Say what the user's ε means for these records."""
    asked = bench.question
    features = bench.played.examples.features
    found = population(
        features, epsilon=asked.epsilon, delta=asked.delta, seed=asked.seed, progress=progress
    )
    points = _SWEPT_QUICKLY if asked.quick else _SWEPT
    epsilons = [float(e) for e in np.geomspace(asked.epsilon / 30, asked.epsilon * 10, points)]
    sweep = [
        SweepPoint(e, point.worst_case, point.population, point.practical)
        for e, point in zip(epsilons, found.sweep(epsilons), strict=True)
    ]
    said = PopulationTranslation(
        sentence=found.sentence,
        blind=found.success_blind,
        worst_case_upper=found.success_worst_case_upper,
        population_upper=found.success_population_upper,
        practical_upper=found.success_upper,
        pmp_epsilon_upper=json_number(found.pmp_epsilon_upper),
        sweep=tuple(sweep),
    )
    return bench.told(Translated(found.to_dict(), found.sentence, said))


def plan_rows(bench: Bench, progress: Progress) -> Planned:
    """Find how many rows would be enough without any change."""
    asked = bench.question
    leak = 2 * asked.eta if asked.record == "every" else None
    found = plan(
        bench.data.frame,
        **bench.data.counted,
        security=asked.security,
        record_leak=leak,
        confidence=asked.confidence,
    )
    progress(1, 1)
    assert found.rows is not None  # a table was given
    fields = (found.n_required, found.rows, found.confidence, found.reason)
    return Planned(found.to_dict(), found.sentence, *fields)


def coarsen_columns(bench: Bench, progress: Progress) -> Coarsened:
    """Coarsen the table until the bound holds, and train the learner on what remains."""
    asked = bench.question

    def hardened(leak: float | None) -> Hardening:
        return harden(
            bench.data.frame,
            security=asked.security,
            record_leak=leak,
            target=asked.target,
            **bench.data.features,
            confidence=asked.confidence,
            seed=asked.seed,
            learners=False,
        )

    refusal = None
    if asked.record == "every":
        try:
            found = hardened(2 * asked.eta)
        except InputError as problem:
            # The average record is the weaker wish; the report says that it is not what was asked.
            refusal = str(problem)
            found = hardened(None)
    else:
        found = hardened(None)
    # Without a feature, or with one class left, a learner can only always say the same.
    fixed = chance_of(bench.data.examples)
    score: Score | None = _scored(bench.data.examples, fixed, 0)
    rule = dict(found.coarsener.recipe_.rules)[asked.target]
    if not isinstance(rule, Keep):
        # Fewer classes are easier to tell apart: a score on them is not one on the target.
        score = None
    elif found.table.shape[1] > 1 and found.table[asked.target].nunique() > 1:
        kept = [c for c in found.table.columns if c != asked.target]
        examples = read_examples(
            found.table,
            asked.target,
            columns=kept,
            roles={asked.target: bench.data.examples.roles[asked.target]},
            task=bench.data.examples.task,
        )
        run = train_shadows(
            examples,
            bench.learner(),
            models=_SCORED if examples.rows <= _LARGE else _FEWER,
            seed=asked.seed,
            n_jobs=bench.workers,
            records=_ATTACKED,
            progress=progress,
        )
        score = score_of(run)
    return Coarsened(
        found.to_dict(),
        found.sentence,
        TableBound.of(found.after, found.theorems),
        atoms=found.after.atoms,
        rows_read=found.rows_read,
        rows_released=len(found.table),
        information_kept_estimate=json_number(found.information_kept_estimate),
        steps=found.steps,
        score=score,
        refusal_for_every_record=refusal,
    )


#: What comes first where a study is about a model that exists.
GIVEN = Step("given", "Attack the given model", False, attack_given, Attacked, 5)
#: In the order in which they are run.
STEPS = (
    Step("certify", "Certify the table as it is", False, certify_table, Certified),
    Step("audit", "Attack the model as it is", False, audit_model, Audited, 20),
    Step("protect-average", "Protect the average record", True, _protected("average"), Noised, 35),
    Step("protect-every", "Protect every record", True, _protected("every"), Noised, 25),
    Step("explain", "Translate into differential privacy", False, explain_promise, Explained),
    Step("population", "What ε means for these records", True, translate_population, Translated, 5),
    Step("rows", "More rows", True, plan_rows, Planned),
    Step("coarser", "Coarser columns", True, coarsen_columns, Coarsened, 14),
)


# ── Finished steps on disk, so that a stopped study goes on where it stopped ──────────────────────
#
# One JSON file per step.  Each carries a fingerprint of the question, the data and the version; a
# file with another one is not used.

_FOLDER = ".steps"


def fingerprint(question: Question, sha256: str) -> str:
    """Return what a step's answer depends on, as one SHA-256.

    >>> fingerprint(StudyQuestion("y", eta=0.1), "a") == fingerprint(StudyQuestion("y"), "a")
    False
    """
    said = json.dumps([plain(question), sha256, __version__], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True)
class Notebook:
    """The folder of finished steps of one study."""

    folder: Path
    key: str

    @property
    def fits(self) -> Path:
        """Where the fits of a step that is under way are kept until the study is finished."""
        return self.folder / "fits"

    @classmethod
    def at(cls, out: Path, key: str) -> Notebook:
        """Return the notebook inside a study's output folder."""
        folder = out / _FOLDER
        folder.mkdir(exist_ok=True)
        return cls(folder, key)

    def load(self, step: Step) -> Finished | None:
        """Return a finished step of exactly this study, else nothing."""
        path = self.folder / f"{step.id}.json"
        try:
            page = json.loads(path.read_text(encoding="utf-8"))
            if page["key"] != self.key:
                return None
            said = dict(page["step"])
            if said["answer"] is not None:
                said["answer"] = typed_as(step.kind, said["answer"], step.id)
            return Finished(**said)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None  # a missing or damaged page is written again

    def keep(self, step: Finished) -> None:
        """Write a finished step."""
        page = {"key": self.key, "step": plain(step)}
        text = json.dumps(page, ensure_ascii=False, allow_nan=False)
        write_text(text, self.folder / f"{step.id}.json", force=True)
