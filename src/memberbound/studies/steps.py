"""The steps of a study, each a verb of this package on its table, kept on disk when finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from memberbound._version import __version__
from memberbound.attacks.learner_audit import (
    ContradictionError,
    Exposure,
    LearnerAudit,
    read_ceiling,
)
from memberbound.attacks.shadows import ShadowRun, train_shadows
from memberbound.errors import InputError
from memberbound.files import write_text
from memberbound.games import SubsetGame
from memberbound.learners import Examples, learner_from_name, read_examples
from memberbound.numerics.rounding import down, sum_up
from memberbound.quantities import Certificate, at_confidence, percent
from memberbound.release.estimator import released_learner
from memberbound.release.learning import chosen_method
from memberbound.release.parameters import Population
from memberbound.release.saving import TableModel
from memberbound.studies.question import StudyData, StudyQuestion
from memberbound.tables.recipe import Keep
from memberbound.verbs.audit import audit_run
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import Hardening, harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect import protect

__all__ = [
    "STEPS",
    "Bench",
    "Notebook",
    "Step",
    "fingerprint",
]

# ── The steps of a study, each a verb of this package on the study's table ────────────────────────
#
# A step returns JSON-ready fields: ``result``, the verb's own dictionary, and beside it what the
# report draws.  Nothing here is released: models and noise come from the study's seed, for trial.

#: Pairwise distances of more records than this take longer than the rest of a study.
_MOST_RECORDS = 20_000
#: Populations beyond this size are protected with fewer calibration subsets than protect takes.
_SMALL, _SUBSETS, _FEWEST_SUBSETS = 2_000, 512, 64
#: Between the seed of the audits' halves and that of the calibration's.
_APART = 2**32
#: Models for a score alone.
_SCORED = 16
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Bench:
    """What the steps work with."""

    question: StudyQuestion
    data: StudyData
    workers: int
    cache: str | None

    def learner(self) -> Any:
        """Return the study's learner, unfitted."""
        return learner_from_name(self.question.learner, self.data.examples.task)


@dataclass(frozen=True)
class Step:
    """A step: its name, what it does in plain words, and whether its refusal is an answer.

    ``optional`` steps look for a remedy; that there is none is a finding, not a failure.
    """

    id: str
    title: str
    optional: bool
    run: Callable[[Bench, Progress], dict[str, Any]]


def certify_table(bench: Bench, progress: Progress) -> dict[str, Any]:
    """Certify the table as it is, whatever is trained on it."""
    data = bench.data
    found = certify(data.frame, **data.counted, confidence=bench.question.confidence)
    progress(1, 1)
    return {"result": found.to_dict(), "sentence": found.sentence}


def _shadowed(bench: Bench, learner: Any, progress: Progress, models: int) -> ShadowRun:
    return train_shadows(
        bench.data.examples,
        learner,
        models=models,
        seed=bench.question.seed,
        n_jobs=bench.workers,
        cache=bench.cache,
        progress=progress,
    )


def score_of(run: ShadowRun) -> dict[str, Any]:
    """Return the mean score of the models on records outside their halves; an estimate."""
    scores = []
    target = run.examples.target
    for logit, correct, member in zip(
        run.signals.logit, run.signals.correct, run.membership, strict=True
    ):
        out = ~member
        if run.signals.regression:
            spread = np.square(target[out] - target[out].mean()).sum()
            if spread > 0:  # R² of equal values does not exist
                scores.append(1 - np.square(logit[out]).sum() / spread)
        else:
            scores.append(correct[out].mean())
    return {
        "name": "R²" if run.signals.regression else "accuracy",
        "estimate": float(np.mean(scores)),
        "spread": float(np.std(scores)),
        "models": len(scores),
        "chance": chance_of(run.examples),
    }


def chance_of(examples: Examples) -> float:
    """Return the score of always giving the same answer: the commonest class, or the mean."""
    if examples.task == "regression":
        return 0.0
    return float(np.bincount(examples.target).max() / examples.rows)


def _audited(
    bench: Bench, learner: Any, progress: Progress, certificate: Certificate | None = None
) -> dict[str, Any]:
    run = _shadowed(bench, learner, progress, bench.question.shadows)
    # Raises where an attack passes the certificate: then the study has found a bug.
    ceiling = None if certificate is None else read_ceiling(certificate)
    answer = audit_run(run, confidence=bench.question.confidence, ceiling=ceiling)
    found, exposure = answer.detail, answer.exposure
    assert isinstance(found, LearnerAudit)
    assert exposure is not None
    if certificate is not None and not run.failures:
        _compare_worst(certificate, exposure)
    # Halves on which the learner succeeds are not uniform, so no floor follows from them.
    floor = 0.0 if run.failures else found.best_advantage.lower
    fpr, tpr = found.curves[found.best]
    failed = [w for w in found.warnings if run.failures and w in run.warnings]
    return {
        "result": answer.to_dict(),
        "sentence": " ".join([answer.sentence, *failed]),
        "score": score_of(run),
        "roc": {"attack": found.best, "fpr": fpr.tolist(), "tpr": tpr.tolist()},
        "average": _average(found, floor),
        "worst": _worst(exposure),
        "histogram": _histogram(exposure),
    }


def _compare_worst(certificate: Certificate, exposure: Exposure) -> None:
    """Refuse a floor about one record above a ceiling that was certified for every record."""
    game = certificate.game
    if not isinstance(game, SubsetGame) or game.record != "every":
        return
    floor, ceiling = float(exposure.lower.max()), sum_up(exposure.blind, certificate.value)
    if floor > ceiling:
        raise ContradictionError(
            f"the audit is right about record {int(np.argmax(exposure.lower))} at least "
            f"{percent(floor, 'lower')} of the time{at_confidence(exposure.confidence)}, above the "
            f"certified {percent(ceiling, 'upper')}{at_confidence(certificate.confidence)}. One of "
            "the two is wrong, or the audited learner is not the certified one: please report it."
        )


def _average(found: LearnerAudit, advantage: float) -> dict[str, Any]:
    """Return how often the best attack is right about a uniform record.

    The floor fails with half of the error, as that of the worst record does: the verdict may take
    either after looking at both (proofs/audit-subset-game.md claim 6).
    """
    game = found.game
    prior = min(game.prior, 1 - game.prior)
    # Accuracy = π·TPR + (1-π)(1-FPR) ≥ π(1 + TPR - FPR) for π ≤ ½, since FPR ≤ 1; equal at π = ½.
    floor = down(prior * (1 + advantage), 4)
    blind = max(game.prior, 1 - game.prior)
    floor = max(blind, floor)  # guessing blindly is open to everybody
    return {
        "blind": blind,
        "estimate": max(found.attacks[found.best].accuracy.estimate, floor),
        "lower": floor,
        "attack": found.best,
        "confidence": found.confidence,
    }


def _worst(exposure: Exposure) -> dict[str, Any]:
    """Return how often the attack is right about the record it knows best; see :func:`_average`."""
    most = int(np.argmax(exposure.lower))
    floor = max(exposure.blind, float(exposure.lower[most]))
    return {
        "blind": exposure.blind,
        "estimate": max(exposure.worst_estimate, floor),
        "lower": floor,
        "record": most,
        "attack": ", ".join(dict.fromkeys(exposure.attacks)),
        "confidence": exposure.confidence,
    }


def _histogram(exposure: Exposure) -> dict[str, Any]:
    edges = np.linspace(0, 1, 21)
    counts, _ = np.histogram(exposure.estimate, bins=edges)
    return {"edges": [round(float(e), 2) for e in edges], "counts": counts.tolist()}


def audit_model(bench: Bench, progress: Progress) -> dict[str, Any]:
    """Attack the learner as it is."""
    return _audited(bench, bench.learner(), progress)


def _subsets(bench: Bench) -> int | None:
    """Return how many calibration subsets the noise for every record takes; None is protect's own.

    The convex form looks at N²/4 pairs of records per subset; beyond _SMALL records their number in
    all is kept.  Fewer subsets cost noise, not validity.
    """
    rows = bench.data.examples.rows
    target = bench.data.examples.target
    classes = np.unique(target) if bench.data.examples.task == "classification" else None
    people = Population(bench.data.examples.features, target, classes)
    method = chosen_method("auto", "every", bench.learner(), people, parameters=True)
    if method != "convex" or rows <= _SMALL:
        return None
    return max(_FEWEST_SUBSETS, _SUBSETS * _SMALL**2 // rows**2)


def _protected(record: Literal["average", "every"]) -> Callable[[Bench, Progress], dict[str, Any]]:
    def run(bench: Bench, progress: Progress) -> dict[str, Any]:
        asked = bench.question
        examples = bench.data.examples

        def first_half(done: int, total: int) -> None:
            progress(done, 2 * max(total, 1))

        found = protect(
            bench.data.frame,
            target=asked.target,
            **bench.data.features,
            learner=asked.learner,
            eta=asked.eta,
            record=record,
            game="subset",
            confidence=asked.confidence,
            pairs=_subsets(bench) if record == "every" else None,
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
        game = certificate.game
        assert isinstance(game, SubsetGame)
        ceiling = read_ceiling(certificate)
        return {
            "result": found.to_dict(),
            "sentence": found.sentence,
            "ceiling_advantage": ceiling.advantage,
            "audit": audited,
        }

    return run


def explain_promise(bench: Bench, progress: Progress) -> dict[str, Any]:
    """Translate the promise into DP terms and the user's ε into a promise."""
    asked = bench.question
    strict = explain(target_eta=asked.eta)
    approximate = explain(target_eta=asked.eta, delta=asked.delta) if asked.delta else strict
    given = explain(epsilon=asked.epsilon, delta=asked.delta or None)
    progress(1, 1)
    return {
        "result": given.to_dict(),
        "sentence": given.sentence,
        "strict": strict.to_dict(),
        "strict_with_delta": approximate.to_dict(),
    }


def translate_population(bench: Bench, progress: Progress) -> dict[str, Any]:
    """Say what the user's ε means for these records."""
    asked = bench.question
    features = bench.data.examples.features
    if len(features) > _MOST_RECORDS:
        raise InputError(
            f"records must be at most {_MOST_RECORDS} for this step of a study, got "
            f"{len(features)}. Run memberbound population on the table."
        )
    found = population(
        features, epsilon=asked.epsilon, delta=asked.delta, seed=asked.seed, progress=progress
    )
    epsilons = [float(e) for e in np.geomspace(asked.epsilon / 30, asked.epsilon * 10, 17)]
    swept = found.sweep(epsilons)
    return {
        "result": found.to_dict(),
        "sentence": found.sentence,
        "sweep": [
            {
                "epsilon": e,
                "worst_case_upper": point.worst_case,
                "population_upper": point.population,
                "practical_upper": point.practical,
            }
            for e, point in zip(epsilons, swept, strict=True)
        ],
    }


def plan_rows(bench: Bench, progress: Progress) -> dict[str, Any]:
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
    return {"result": found.to_dict(), "sentence": found.sentence}


def coarsen_columns(bench: Bench, progress: Progress) -> dict[str, Any]:
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
    chance = chance_of(bench.data.examples)
    name = "R²" if bench.data.examples.task == "regression" else "accuracy"
    score: dict[str, Any] | None
    score = {"name": name, "estimate": chance, "spread": 0.0, "models": 0, "chance": chance}
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
            models=_SCORED,
            seed=asked.seed,
            n_jobs=bench.workers,
            progress=progress,
        )
        score = score_of(run)
    return {
        "result": found.to_dict(),
        "sentence": found.sentence,
        "score": score,
        "refusal_for_every_record": refusal,
    }


#: In the order in which they are run.
STEPS = (
    Step("certify", "Certify the table as it is", False, certify_table),
    Step("audit", "Attack the model as it is", False, audit_model),
    Step("protect-average", "Protect the average record", True, _protected("average")),
    Step("protect-every", "Protect every record", True, _protected("every")),
    Step("explain", "Translate into differential privacy", False, explain_promise),
    Step("population", "What ε means for these records", True, translate_population),
    Step("rows", "More rows", True, plan_rows),
    Step("coarser", "Coarser columns", True, coarsen_columns),
)


# ── Finished steps on disk, so that a stopped study goes on where it stopped ──────────────────────
#
# One JSON file per step.  Each carries a fingerprint of the question, the data and the version; a
# file with another one is not used.

_FOLDER = ".steps"


def fingerprint(question: dict[str, Any], sha256: str) -> str:
    """Return what a step's answer depends on, as one SHA-256.

    >>> fingerprint({"eta": 0.1}, "a") == fingerprint({"eta": 0.2}, "a")
    False
    """
    said = json.dumps([question, sha256, __version__], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True)
class Notebook:
    """The folder of finished steps of one study."""

    folder: Path
    key: str

    @classmethod
    def at(cls, out: Path, key: str) -> Notebook:
        """Return the notebook inside a study's output folder."""
        folder = out / _FOLDER
        folder.mkdir(exist_ok=True)
        return cls(folder, key)

    def load(self, step: str) -> dict[str, Any] | None:
        """Return a finished step of exactly this study, else nothing."""
        path = self.folder / f"{step}.json"
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return dict(said["step"]) if said["key"] == self.key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # a missing or damaged page is written again

    def keep(self, step: str, content: dict[str, Any]) -> None:
        """Write a finished step."""
        text = json.dumps({"key": self.key, "step": content}, ensure_ascii=False, allow_nan=False)
        write_text(text, self.folder / f"{step}.json", force=True)
