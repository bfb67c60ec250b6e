"""The audit of a learner: what attacks reach, which records are exposed, beside a certificate."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.attacks import DEFAULT_ATTACKS, OnLearner, chosen_attacks
from memberbound.attacks.duels import Duel
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.scores import area_under_roc, interval_fields
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, MemberboundError, fraction, whole_number
from memberbound.files import read_document
from memberbound.games import SubsetGame
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray, shared_confidence, sum_up, up
from memberbound.quantities import (
    AuditBound,
    Certificate,
    Sides,
    at_confidence,
    json_number,
    percent,
    significant,
)

__all__ = [
    "AttackAudit",
    "Block",
    "Ceiling",
    "ContradictionError",
    "Exposure",
    "ReleaseStatistics",
    "Sandwich",
    "ShadowAudit",
    "audit_shadows",
    "best_threshold",
    "blocks_of",
    "compare_exposure",
    "mean_interval",
    "mean_roc",
    "no_leak_p_value",
    "read_ceiling",
    "record_exposure",
    "release_statistics",
    "sandwiched",
]

# ── What an attack reaches against each release, and bounds for its mean over releases ────────────
#
# One number in [0, 1] per target model: records of one release depend on each other, releases do
# not.


@dataclass(frozen=True, eq=False)
class ReleaseStatistics:
    """One value per target model."""

    auc: FloatArray
    accuracy: FloatArray
    advantage: FloatArray
    tpr: dict[float, FloatArray | None]

    @classmethod
    def joined(cls, parts: list[ReleaseStatistics]) -> ReleaseStatistics:
        """Return the values of several groups of targets."""

        def tpr(rate: float) -> FloatArray | None:
            values = [t for p in parts if (t := p.tpr[rate]) is not None]
            return np.concatenate(values) if len(values) == len(parts) else None

        return cls(
            np.concatenate([p.auc for p in parts]),
            np.concatenate([p.accuracy for p in parts]),
            np.concatenate([p.advantage for p in parts]),
            {rate: tpr(rate) for rate in parts[0].tpr},
        )


def best_threshold(scores: FloatArray, member: BoolArray) -> float:
    """Return the threshold with the most right answers of "member if the score reaches it".

    Examples:
        >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
        0.5
    """
    value = scores.reshape(-1)
    truth = member.reshape(-1)
    order = np.argsort(value)
    value, truth = value[order], truth[order]
    # Calling all from place i upwards members is right on the members there and the others below.
    right = np.concatenate([[0], np.cumsum(~truth)]) + np.concatenate(
        [np.cumsum(truth[::-1])[::-1], [0]]
    )
    # Only places between different scores are thresholds.
    edges = np.concatenate([[True], value[1:] > value[:-1], [True]])
    place = int(np.argmax(np.where(edges, right, -1)))
    if place == 0:
        return float(-np.inf)
    if place == len(value):
        return float(np.inf)
    middle = value[place - 1] / 2 + value[place] / 2
    return float(middle) if middle > value[place - 1] else float(value[place])


def release_statistics(
    scores: FloatArray,
    member: BoolArray,
    threshold: FloatArray | float,
    rates: tuple[float, ...],
    *,
    sampled: bool = False,
) -> ReleaseStatistics:
    """Return AUC, accuracy, advantage and TPR of each target; scores and member are (T, N).

    ``threshold`` must not depend on the target's half.  The TPR at FPR α of a release counts the
    members above all but k of its n₀ non-members, k + 1 = ⌊α(n₀ + 1)⌋, so that scores without
    information reach α or less on average; ``None`` where n₀ is too small for that.

    Of a sample of the records a half holds a varying number.  Its advantage is then twice its
    accuracy less 1, whose mean over releases is linear in the records' (claim 7).
    """
    guess = scores >= np.asarray(threshold).reshape(-1, 1)
    n1, n0 = member.sum(axis=1), (~member).sum(axis=1)
    accuracy = (guess == member).mean(axis=1)
    if sampled:
        advantage = 2 * accuracy - 1
    else:
        advantage = (guess & member).sum(axis=1) / n1 - (guess & ~member).sum(axis=1) / n0
    auc = np.empty(len(scores))
    tpr: dict[float, FloatArray | None] = {}
    # A relative step upwards, so that α(n₀+1) = 2 is not lost to rounding.  Every release by its
    # own n₀: of a sample it varies, and a release must not depend on the others.
    allowed = {r: np.floor(r * (n0 + 1) * (1 + 1e-12)).astype(np.int64) - 1 for r in rates}
    for rate, few in allowed.items():
        tpr[rate] = np.zeros(len(scores)) if few.max(initial=-1) >= 0 else None
    for row, (value, inside) in enumerate(zip(scores, member, strict=True)):
        out, ins = np.sort(value[~inside]), np.sort(value[inside])
        auc[row] = area_under_roc(ins, out)
        for rate, few in allowed.items():
            share = tpr[rate]
            if share is not None and few[row] >= 0:
                above = len(ins) - np.searchsorted(ins, out[-(int(few[row]) + 1)], "right")
                share[row] = above / len(ins)
    return ReleaseStatistics(auc, accuracy, advantage, tpr)


def mean_roc(scores: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the ROC curve of an attack, averaged over releases at equal FPR; an estimate.

    At FPR α a release counts its members above all but ⌊αn₀⌋ of its n₀ non-members.

    Examples:
        >>> scores = np.array([[0.9, 0.4, 0.6, 0.1]])
        >>> fpr, tpr = mean_roc(scores, np.array([[True, True, False, False]]))
        >>> tpr[fpr == 0.0].tolist(), tpr[fpr == 0.5].tolist(), tpr[-1]
        ([0.5], [1.0], np.float64(1.0))
    """
    others = (~member).sum(axis=1)
    # Close together where α is small, for a logarithmic axis, and even on a linear one.
    fpr = np.unique(np.concatenate([np.geomspace(1 / others.max(), 1, 41), np.linspace(0, 1, 51)]))
    tpr = np.zeros(len(fpr))
    for value, inside in zip(scores, member, strict=True):
        out, ins = np.sort(value[~inside])[::-1], np.sort(value[inside])
        # A relative step upwards, so that α = 1/n₀ allows one false alarm.
        allowed = np.floor(fpr * len(out) * (1 + 1e-12)).astype(np.int64)
        fence = np.append(out, -np.inf)[np.minimum(allowed, len(out))]
        tpr += 1 - np.searchsorted(ins, fence, "right") / len(ins)
    # The last fence is below every score: there all are called members.
    tpr[-1] = len(scores)
    return fpr, tpr / len(scores)


def mean_interval(values: FloatArray, confidence: float, low: float = 0.0) -> tuple[float, float]:
    """Bound the mean over releases from both sides; each fails with half the error.

    Guarantee: values in [``low``, 1], one per release, are taken in order, each with a mean given
    the earlier ones.  With probability at least ``confidence`` the lower end is at most the largest
    and the upper end at least the smallest of these means.
    Theorem: proofs/audit-subset-game.md claim 2.
    Assumes: a release's mean is determined before it is seen; all means equal give the usual case.
    Numerics: rounded outwards.
    Edge cases: constant values v give about [v·(error/2)^{1/T}, …], never a point.

    Examples:
        >>> [round(end, 2) for end in mean_interval(np.full(48, 0.9), 0.95)]
        [0.81, 0.91]
    """
    side = shared_confidence(confidence, 2)
    lower = mean_lower(values, confidence=side, low=low, high=1.0)
    upper = mean_upper(values, confidence=side, low=low, high=1.0)
    return float(lower[0]), float(upper[0])


def no_leak_p_value(guesses: BoolArray, member: BoolArray) -> float:
    """Return a p-value of "the model does not depend on its half", from verdicts (T, N).

    Guarantee: if every model is independent of its half, P(result ≤ β) ≤ β for every β.
    Theorem: proofs/audit-subset-game.md claim 5, Hoeffding's inequality for draws without
    replacement.  It uses all records of a release, so it sees leaks far weaker than an interval for
    the mean over releases can.
    Assumes: uniform halves, seen on all records or on a sample that was drawn apart from them; the
    verdicts on a release use nothing of its half.
    Numerics: raised by more than the rounding errors of a count and an exponential.
    Edge cases: no more hits than expected give 1.

    Examples:
        >>> member = np.arange(1000)[None, :] % 2 == 0
        >>> no_leak_p_value(member, member) < 1e-100
        True
        >>> no_leak_p_value(~member, member)
        1.0
    """
    rows = member.shape[1]
    # Given how many of these records a half holds, which ones is uniform (claim 5).
    sizes = member.sum(axis=1).astype(np.int64)
    # Whole numbers until the last step: per release hits·N - guesses·k.
    hits, guessed = (guesses & member).sum(axis=1), guesses.sum(axis=1, dtype=np.int64)
    surplus = int((hits * rows - guessed * sizes).sum())
    if surplus <= 0:
        return 1.0
    variance = int(np.minimum(sizes, rows - sizes).sum())
    if variance == 0:  # nothing is left to guess
        return 1.0
    exponent = 2 * (surplus / rows) ** 2 / variance
    return min(1.0, math.exp(-exponent * (1 - 1e-12)) * (1 + 1e-12))


# ── Audit of a learner in the subset game: attacks on models trained on random halves ─────────────
#
# Estimates attack every model with all others.  Intervals come from a stricter game that has a
# valid confidence: models are taken in order, and a target is attacked only with models *before*
# its block, at a threshold chosen on these (proofs/audit-subset-game.md).

#: The fewest models that leave shadows and targets apart.
FEWEST_MODELS = 8
_ASSUMPTIONS = (
    "Every model was trained on its own uniform half of the population, independently of others.",
    "The attacker knows the population, the learner and its own shadow models' halves.",
    "Each interval holds with the stated confidence on its own, not all of them at once.",
)


@dataclass(frozen=True, eq=False)
class Block:
    """Targets ``first`` to ``last`` - 1, attacked with the models before ``first``.

    ``guesses`` has, per attack, the (targets, records) verdicts at the threshold chosen on the
    shadows; ``trust`` the accuracy each attack had on the shadows.
    """

    first: int
    last: int
    guesses: dict[str, BoolArray]
    trust: dict[str, float]


@dataclass(frozen=True)
class AttackAudit:
    """What one attack reached, per quantity; an attack without scores has an advantage alone."""

    name: str
    settings: Mapping[str, float | str]
    auc: AuditBound | None
    advantage: AuditBound
    accuracy: AuditBound | None
    tpr_at_fpr: dict[str, AuditBound | None]
    #: Of "the model does not depend on its half"; sees weaker leaks than the intervals do.
    no_leak_p_value: float | None

    def to_dict(self) -> dict[str, object]:
        """Return the contract's fields: each quantity as ``{estimate, lower, upper}``."""
        return {
            "auc": interval_fields(self.auc),
            "advantage": interval_fields(self.advantage),
            "accuracy": interval_fields(self.accuracy),
            "tpr_at_fpr": {rate: interval_fields(bound) for rate, bound in self.tpr_at_fpr.items()},
            "no_leak_p_value": json_number(self.no_leak_p_value),
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, eq=False)
class ShadowAudit:
    """Result of :func:`audit_shadows`.

    ``attacks`` are all that ran; ``best`` is the one with the highest floor, then the largest
    estimate; ``best_advantage`` is its interval at an error shared among all attacks, so that
    choosing it is paid for.  ``each_confidence`` is that of a single one of them then.
    """

    attacks: dict[str, AttackAudit]
    best: str
    best_advantage: AuditBound
    blocks: tuple[Block, ...]
    run: ShadowRun
    confidence: float
    seconds: float
    warnings: tuple[str, ...]
    #: Per attack the FPR and the TPR of its ROC curve, averaged over releases (an estimate).
    curves: Mapping[str, tuple[FloatArray, FloatArray]] = field(repr=False)

    @property
    def each_confidence(self) -> float:
        """The confidence of every attack's interval where all of them hold together."""
        return shared_confidence(self.confidence, len(self.attacks))

    @property
    def best_curve(self) -> str:
        """The attack whose curve is shown: the largest estimate among those with scores."""
        return max(self.curves, key=lambda name: self.attacks[name].advantage.estimate)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the intervals rest on, and which records they are about."""
        sample = self.run.sample
        if sample is None:
            return _ASSUMPTIONS
        return (
            *_ASSUMPTIONS,
            f"The attacked records are {sample.size} of the {self.game.population}, drawn "
            "uniformly and apart from the halves; what is said of records is said of these.",
        )

    @property
    def game(self) -> SubsetGame:
        """The game that was audited."""
        return self.run.game

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "attacks": {name: audit.to_dict() for name, audit in self.attacks.items()},
            "best": self.best,
            "best_advantage": interval_fields(self.best_advantage),
            "confidence": self.confidence,
            "models": self.run.signals.models,
            "targets_of_intervals": sum(b.last - b.first for b in self.blocks),
            "failed_fits": [
                {"model": f.model, "seed": f.seed, "message": f.message} for f in self.run.failures
            ],
            "training_seconds": json_number(float(self.run.timings.sum())),
            "attack_seconds": json_number(self.seconds),
            "warnings": list(self.warnings),
        }


def blocks_of(models: int, blocks: int = 3) -> list[tuple[int, int]]:
    """Return (first, last) of the targets of each block; as many models as in a block warm up.

    Examples:
        >>> blocks_of(64)
        [(16, 32), (32, 48), (48, 64)]
    """
    start = max(4, models // (blocks + 1))
    edges = np.unique(np.linspace(start, models, blocks + 1).astype(int)).tolist()
    return list(pairwise(edges))


def audit_shadows(
    run: ShadowRun,
    *,
    attacks: Iterable[str] = DEFAULT_ATTACKS,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    blocks: int = 3,
    others: Mapping[str, Callable[[float], AuditBound]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ShadowAudit:
    """Measure attacks on a learner in the subset game, for a uniform record of the population.

    Quantities, each a mean over releases: AUC, accuracy and advantage TPR - FPR at a threshold that
    was fixed before, and the TPR where the release's own ROC curve has the stated FPR.

    ``others`` are attacks on the same learner that ran elsewhere: each maps a confidence to the
    interval of its advantage.  They are listed with the rest and share the error of the best.

    Guarantee: an attack is carried out once per block, with the models before the block.  With
    probability at least ``confidence`` the strongest of these reaches at least ``lower`` and the
    weakest at most ``upper``; with ``blocks=1`` there is only one.  An estimate from all shadows
    that falls outside widens the interval.
    Theorem: proofs/audit-subset-game.md claims 1 and 2.
    Assumes: independent uniform halves; the models are attacked in the order of their numbers.
    Numerics: means are bounded with outward rounding; scores are plain floating point, which is
    part of the attack.
    Edge cases: fewer than 8 models are refused; where the non-members are too few for an FPR its
    entry is ``None``; attacks that cannot run on the learner are left out with a warning.

    Examples:
        >>> from memberbound.attacks.shadows import train_shadows
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
        >>> noise = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(noise, learner_from_name("tree"), models=12, backend="sequential")
        >>> audit = audit_shadows(run, attacks=["rmia"])
        >>> bool(audit.attacks["rmia"].auc.estimate > 0.7)
        True
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    rates = tuple(fraction("fpr", r, open_left=True, open_right=True) for r in fpr)
    total = run.signals.models
    if total < FEWEST_MODELS:
        raise InputError(f"models must be at least {FEWEST_MODELS}, got {total!r}. Train more.")
    chosen, skipped = chosen_attacks(attacks, run.signals)
    estimates: dict[str, ReleaseStatistics] = {}
    curves = {}
    parts: dict[str, list[ReleaseStatistics]] = {name: [] for name in chosen}
    plan = blocks_of(total, whole_number("blocks", blocks))
    fought = []
    steps = len(plan) + 1
    for done, targets in enumerate(plan):
        fought.append(_block(run, chosen, targets, rates, parts))
        if progress is not None:
            progress(done + 1, steps)
    everything = Duel.leave_one_out(run.signals, run.membership, run.examples)
    sampled = run.sample is not None
    for name, attack in chosen.items():
        scores = _checked(name, attack, everything)
        fence = _cross_thresholds(scores, run.membership)
        estimates[name] = release_statistics(scores, run.membership, fence, rates, sampled=sampled)
        curves[name] = mean_roc(scores, run.membership)
    if progress is not None:
        progress(steps, steps)
    held = {name: ReleaseStatistics.joined(values) for name, values in parts.items()}
    truth = run.membership[plan[0][0] :]
    audits = {}
    for name, attack in chosen.items():
        chance = no_leak_p_value(np.vstack([b.guesses[name] for b in fought]), truth)
        scene = _Scene(name, run.game, sure, chance)
        audits[name] = _audit_of(attack, estimates[name], held[name], scene)
    more = {} if others is None else dict(others)
    for name, measured in more.items():
        audits[name] = AttackAudit(name, {}, None, measured(sure), None, {}, None)
    each = shared_confidence(sure, len(audits))
    paid = {name: measured(each) for name, measured in more.items()}
    for name in chosen:
        scene = _Scene(name, run.game, each)
        bound = _bound("advantage", estimates[name].advantage, held[name].advantage, scene, -1.0)
        # Halves on which a fit succeeds need not be uniform, and then no floor follows from them.
        paid[name] = replace(bound, lower=min(bound.lower, 0.0)) if run.failures else bound
    best = max(paid, key=lambda name: (max(paid[name].lower, 0.0), paid[name].estimate))
    # All attacks' intervals hold together with this confidence, and one was picked among them.
    chosen_bound = replace(paid[best], confidence=sure, attack=best)
    warnings = (*run.warnings, *skipped, *_rate_warnings(next(iter(estimates.values())), run))
    spent = time.perf_counter() - start
    return ShadowAudit(
        audits, best, chosen_bound, tuple(fought), run, sure, spent, warnings, curves
    )


def _block(
    run: ShadowRun,
    chosen: Mapping[str, OnLearner],
    targets: tuple[int, int],
    rates: tuple[float, ...],
    parts: dict[str, list[ReleaseStatistics]],
) -> Block:
    """Attack the models of one block with those before it; the statistics go into ``parts``."""
    first, last = targets
    past, now = slice(0, first), slice(first, last)
    shadow, known = run.signals[past], run.membership[past]
    inner = Duel.leave_one_out(shadow, known, run.examples)
    outer = Duel(run.signals[now], shadow, known, run.examples, False, practice=inner)
    guesses, trust = {}, {}
    for name, attack in chosen.items():
        # The threshold is that of the same attack among the shadows, where all halves are known.
        practice = _checked(name, attack, inner)
        threshold = best_threshold(practice, known)
        trust[name] = float(((practice >= threshold) == known).mean())
        scores = _checked(name, attack, outer)
        guesses[name] = scores >= threshold
        sampled = run.sample is not None
        parts[name].append(
            release_statistics(scores, run.membership[now], threshold, rates, sampled=sampled)
        )
    return Block(first, last, guesses, trust)


def _checked(name: str, attack: OnLearner, duel: Duel) -> FloatArray:
    scores = attack.score(duel)
    if scores.shape != duel.target.logit.shape or np.isnan(scores).any():
        raise InputError(f"scores of {name} must be numbers for every record, got NaN.")
    return scores


def _cross_thresholds(scores: FloatArray, member: BoolArray) -> FloatArray:
    """Return a threshold per target, chosen on the other half of the targets."""
    fold = np.arange(len(scores)) % 2 == 1
    thresholds = np.empty(len(scores))
    for mine in (fold, ~fold):
        thresholds[mine] = best_threshold(scores[~mine], member[~mine])
    return thresholds


class _Scene(NamedTuple):
    """What all bounds of one attack have in common."""

    attack: str
    game: SubsetGame
    confidence: float
    p_value: float = 1.0


def _audit_of(
    attack: OnLearner, estimate: ReleaseStatistics, strict: ReleaseStatistics, scene: _Scene
) -> AttackAudit:
    rates: dict[str, AuditBound | None] = {}
    for rate, seen in estimate.tpr.items():
        held = strict.tpr[rate]
        quantity = f"TPR at FPR {significant(rate, 'given')} of a release"
        rates[repr(float(rate))] = (
            None if seen is None or held is None else _bound(quantity, seen, held, scene)
        )
    return AttackAudit(
        scene.attack,
        attack.settings,
        _bound("AUC", estimate.auc, strict.auc, scene),
        _bound("advantage", estimate.advantage, strict.advantage, scene, -1.0),
        _bound("accuracy", estimate.accuracy, strict.accuracy, scene),
        rates,
        scene.p_value,
    )


def _bound(
    quantity: str, seen: FloatArray, held: FloatArray, scene: _Scene, low: float = 0.0
) -> AuditBound:
    lower, upper = mean_interval(held, scene.confidence, low)
    value = float(seen.mean())
    return AuditBound(
        quantity,
        value,
        min(lower, value),
        max(upper, value),
        scene.confidence,
        scene.game,
        scene.attack,
    )


def _rate_warnings(statistics: ReleaseStatistics, run: ShadowRun) -> Iterator[str]:
    out = int((~run.membership).sum(axis=1).min())
    for rate, values in statistics.tpr.items():
        if values is None:
            yield (
                f"No TPR at FPR {significant(rate, 'given')}: {out} non-members per release are "
                f"too few, at least {int(np.ceil(1 / rate)) - 1} are needed."
            )


# ── Which records are exposed: the attacks' accuracy on each record, and a list that is proved ────
#
# A record is played once per target model: the attack says "in" or "out" and is right or wrong.
# Whoever reads the result looks at the records that were guessed best, so every end holds for all
# records at once (the error is shared among them); records of one release may depend on each other.


@dataclass(frozen=True, eq=False)
class Exposure:
    """Accuracy of the attack on every record, with intervals that hold for all records at once.

    Attributes:
        estimate: share of the target models on which the attack was right about the record.
        lower: the best of the attacks is right at least this often; for all records at once, with
            half of the error.
        upper: the weakest of the attacks is right at most this often; likewise.
        exposed: numbers of the records whose ``lower`` exceeds ``level``, the most exposed first.
        worst_estimate: accuracy on the record that is guessed best, chosen on half of the target
            models and measured on the other, so that choosing it does not flatter it; the largest
            ``lower`` where that is more.
        blind: accuracy of an attacker who sees no model.
        attacks: the attack of each block of targets, chosen on the shadows before it.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    exposed: NDArray[np.int64]
    level: float
    blind: float
    targets: int
    confidence: float
    attacks: tuple[str, ...]
    game: SubsetGame
    worst_estimate: float
    #: The rows of the attacked records in the population, where not all of them were attacked.
    rows: NDArray[np.int64] | None = None

    @property
    def eta_lower(self) -> FloatArray:
        """Accuracy beyond blind guessing that is proved, per record, for all records at once."""
        return np.maximum(np.nextafter(self.lower - self.blind, -1.0), 0.0)

    def unproved(self) -> Exposure:
        """Return the same without any floor, for halves that were not uniform."""
        nobody = np.zeros(0, dtype=np.int64)
        return replace(self, exposed=nobody, lower=np.zeros_like(self.lower))

    def to_dict(self, most: int = 20) -> dict[str, object]:
        """Return JSON-ready fields, with the records that are guessed best."""
        order = np.argsort(-self.estimate, kind="stable")[:most]
        return {
            "targets": self.targets,
            "attacks": list(self.attacks),
            "blind_accuracy": self.blind,
            "accuracy_estimate": {
                "mean": float(self.estimate.mean()),
                "median": float(np.median(self.estimate)),
                "p99": float(np.quantile(self.estimate, 0.99)),
                "max": float(self.estimate.max()),
            },
            "worst_record_estimate": self.worst_estimate,
            "exposed_records": int(self.exposed.size),
            "exposed_share": float(self.exposed.size / self.estimate.size),
            "exposed_above": self.level,
            "confidence": self.confidence,
            "ends_hold": "for all records at once",
            "most_exposed": [
                {
                    "record": int(r if self.rows is None else self.rows[r]),
                    "estimate": float(self.estimate[r]),
                    "lower": float(self.lower[r]),
                    "upper": float(self.upper[r]),
                    "proved": bool(np.isin(r, self.exposed)),
                }
                for r in order
            ],
        }


def record_exposure(
    audit: ShadowAudit,
    *,
    attack: str | None = None,
    above: float | None = None,
    confidence: float | None = None,
) -> Exposure:
    """Measure how often the attack is right about each record, and list the exposed ones.

    ``attack`` names one of the audited attacks; left out, each block of targets is attacked with
    the one that was best on the shadows before it.  A record is listed if its accuracy provably
    exceeds ``above``, which is blind guessing unless told otherwise.

    Guarantee: with probability at least ``confidence`` every ``lower`` and every ``upper`` of all
    records hold together, so whichever records are looked at; ``lower`` alone fails with half the
    error.  About every listed record some attack is right with probability above ``above``, so no
    certificate for every record may promise less.
    Theorem: proofs/audit-subset-game.md claim 3, the error shared among the records.
    Assumes: as the audit.
    Numerics: ends are rounded outward.
    Edge cases: with T targets and N records nothing can be listed unless 2^-T ≤ (1-confidence)/2N.

    Examples:
        >>> from memberbound.attacks.learner_audit import audit_shadows
        >>> from memberbound.attacks.shadows import train_shadows
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        >>> x[0], y[0] = (0.0, 0.0), 1  # an outlier: the only one of its class far from the others
        >>> x[1:, 0] += 9 * y[1:]
        >>> rows = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(rows, learner_from_name("tree"), models=24, backend="sequential")
        >>> record_exposure(audit_shadows(run, attacks=["lira"])).exposed.tolist()
        [0]
    """
    sure = audit.confidence if confidence is None else confidence
    error = 1 - fraction("confidence", sure, open_left=True, open_right=True)
    if attack is not None and attack not in audit.attacks:
        raise InputError(f"attack must be one of {', '.join(audit.attacks)}, got {attack!r}.")
    membership = audit.run.membership
    right, used = [], []
    for block in audit.blocks:
        name = attack or max(block.trust, key=lambda n: block.trust[n])
        used.append(name)
        right.append(block.guesses[name] == membership[block.first : block.last])
    answers = np.vstack(right)
    trials = len(answers)
    hits = answers.sum(axis=0)
    prior = audit.game.prior
    blind = max(prior, 1 - prior)
    level = blind if above is None else fraction("above", above)
    if level < blind:
        raise InputError(f"above must be at least blind guessing {blind!r}, got {above!r}.")
    each = error / (2 * len(hits))
    lower = clopper_pearson_lower(hits, trials, each)
    listed = np.flatnonzero(lower > level)
    listed = listed[np.argsort(-hits[listed], kind="stable")]
    return Exposure(
        hits / trials,
        lower,
        clopper_pearson_upper(hits, trials, each),
        listed,
        level,
        blind,
        trials,
        sure,
        tuple(used),
        audit.game,
        max(_worst(answers), float(lower.max())),
        audit.run.sample,
    )


def _worst(answers: NDArray[np.bool_]) -> float:
    """Return the accuracy on the record guessed best, chosen and measured on different targets."""
    odd = np.arange(len(answers)) % 2 == 1
    shares = []
    for choosing, measuring in ((answers[odd], answers[~odd]), (answers[~odd], answers[odd])):
        share = choosing.mean(axis=0)
        # Several may look equally bad: the mean over all of them.
        shares.append(float(measuring[:, share == share.max()].mean()))
    return sum(shares) / 2


# ── A certificate and an audit of the same quantity in the same game, side by side ────────────────
#
# The certificate is a ceiling for every attack and the audit a floor reached by one.  If the floor
# is above the ceiling, one of the two is wrong, and that is said loudly.


class ContradictionError(MemberboundError):
    """An audit above a certificate: one of them is a bug, or an assumption does not hold."""


@dataclass(frozen=True)
class Ceiling:
    """A certified advantage in the subset game at k = N/2, average or every record."""

    advantage: float
    confidence: float
    record: str
    population: int | None = None
    #: What was certified: how far above blind guessing anybody is right.
    eta: float | None = None


@dataclass(frozen=True)
class Sandwich:
    """Certified advantage above, audited advantage below; ``gap`` is their ratio."""

    SIDES: ClassVar[Sides] = {
        "audited_advantage_lower": "lower",
        "certificate_confidence": "lower",
        "certified_advantage_upper": "upper",
        "sandwich_gap": "estimate",
    }

    ceiling: Ceiling
    floor: float

    @property
    def gap(self) -> float | None:
        """Certified over audited, where the audit shows anything at all."""
        return self.ceiling.advantage / self.floor if self.floor > 0 else None

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "certified_advantage_upper": self.ceiling.advantage,
            "certificate_confidence": self.ceiling.confidence,
            "certificate_protects": f"{self.ceiling.record} record",
            "audited_advantage_lower": self.floor,
            "sandwich_gap": json_number(self.gap),
        }


def read_ceiling(given: Certificate | str | os.PathLike[str] | Mapping[str, object]) -> Ceiling:
    """Return the ceiling that a certificate of η in the subset game puts on the advantage.

    Takes a :class:`Certificate`, the file that ``protect-half`` writes, or its content.
    At k = N/2 the advantage is 2η (I24-D1); a certificate for every record also covers the average.
    For odd N see :func:`_ceiling`.
    """
    if isinstance(given, Certificate):
        game = given.game
        upper = given.quantity == "eta" and given.direction == "upper"
        if not isinstance(game, SubsetGame) or not upper:
            raise InputError(
                "certificate must bound eta in the subset game from above, which is what this "
                f"audit plays, got {given.quantity} in the {game.name} game, {given.direction}."
            )
        return _ceiling(given.value, given.confidence, game.record, game.population, game.size)
    if isinstance(given, (str, os.PathLike)):
        written = read_document(given, "certificate", "JSON")
    else:
        written = given
    said = written if isinstance(written, Mapping) else {}
    inner = said.get("certificate", said)
    try:
        if inner["game"] != "subset" or inner["quantity"] != "eta":
            raise InputError("certificate must bound eta in the subset game.")
        # Without the sizes 2η could be the ceiling of another game than this audit's halves.
        if said.get("population") is None or said.get("size") is None:
            raise InputError(
                "certificate must say population and size, got none. Use the certificate file that "
                "protect-half writes beside a release."
            )
        return _ceiling(
            float(inner["upper"]),
            float(inner["confidence"]),
            "every" if inner["protects"] == "every record" else "average",
            int(said["population"]),
            int(said["size"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError("certificate must be one that protect-half has written.") from None


def _ceiling(eta: float, confidence: float, record: str, population: int, size: int) -> Ceiling:
    if population - 2 * size not in (0, 1):
        raise InputError(
            f"certificate must be about halves, as this audit is, got {size} of {population}."
        )
    most = up(2 * eta)
    if population % 2:
        # η is measured from the likelier answer "out", so with π = k/N < ½ it bounds
        # π·TPR - (1-π)·FPR.  With FPR ≤ 1 - advantage: advantage ≤ (η + 1 - 2π)/(1 - π), which is
        # (2Nη + 2)/(N + 1) at k = (N-1)/2 and more than 2η.  Linear in η: so also on average.
        most = up(2 * (population * eta + 1) / (population + 1), 8)
    return Ceiling(min(1.0, most), confidence, record, population, eta)


def sandwiched(ceiling: Ceiling, floor: AuditBound) -> Sandwich:
    """Put an audited advantage below a certified one; raise when they contradict each other."""
    game = floor.game
    if not isinstance(game, SubsetGame) or floor.quantity != "advantage":
        raise InputError(
            "floor must be an advantage in the subset game, which is what the certificate bounds, "
            f"got {floor.quantity} in the {game.name} game."
        )
    if ceiling.population not in (None, game.population):
        raise InputError(
            f"certificate must be about the audited population of {game.population} records, got "
            f"{ceiling.population}."
        )
    if floor.lower > ceiling.advantage:
        raise ContradictionError(
            "the audit reached an advantage of at least "
            f"{significant(floor.lower, 'lower', 4)}{at_confidence(floor.confidence)}, above the "
            f"certified {significant(ceiling.advantage, 'upper', 4)}"
            f"{at_confidence(ceiling.confidence)}. One of the two is wrong, or the audited learner "
            "is not the certified one: please report it."
        )
    return Sandwich(ceiling, max(0.0, floor.lower))


def compare_exposure(ceiling: Ceiling, exposure: Exposure) -> None:
    """Raise where the floor about one record is above a ceiling certified for every record."""
    if ceiling.record != "every" or ceiling.eta is None:
        return
    floor, most = float(exposure.lower.max()), sum_up(exposure.blind, ceiling.eta)
    if floor > most:
        raise ContradictionError(
            f"the audit is right about record {int(np.argmax(exposure.lower))} at least "
            f"{percent(floor, 'lower')} of the time{at_confidence(exposure.confidence)}, above the "
            f"certified {percent(most, 'upper')}{at_confidence(ceiling.confidence)}. One of "
            "the two is wrong, or the audited learner is not the certified one: please report it."
        )
