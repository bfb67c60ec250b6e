"""Audit of a learner in the subset game: attacks on models trained on random halves.

Estimates attack every model with all others.  Intervals come from a stricter game that has a valid
confidence: models are taken in order, and a target is attacked only with models *before* its block,
at a threshold chosen on these (proofs/audit-subset-game.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from memberbound.auditing.attacks import DEFAULT_ATTACKS, Attack, chosen_attacks
from memberbound.auditing.duel import Duel
from memberbound.auditing.releases import (
    ReleaseStatistics,
    best_threshold,
    mean_interval,
    mean_roc,
    no_leak_p_value,
    release_statistics,
)
from memberbound.auditing.shadows import ShadowRun
from memberbound.auditing.signals import BoolArray
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import AuditBound, json_number, significant

__all__ = ["AttackAudit", "Block", "LearnerAudit", "audit_shadows", "blocks_of"]

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
    """What one attack reached, per quantity."""

    name: str
    settings: Mapping[str, float | str]
    auc: AuditBound
    advantage: AuditBound
    accuracy: AuditBound
    tpr_at_fpr: dict[str, AuditBound | None]
    #: Of "the model does not depend on its half"; sees weaker leaks than the intervals do.
    no_leak_p_value: float

    def to_dict(self) -> dict[str, object]:
        """Return the contract's fields: each quantity as ``{estimate, lower, upper}``."""
        return {
            "auc": _fields(self.auc),
            "advantage": _fields(self.advantage),
            "accuracy": _fields(self.accuracy),
            "tpr_at_fpr": {rate: _fields(bound) for rate, bound in self.tpr_at_fpr.items()},
            "no_leak_p_value": json_number(self.no_leak_p_value),
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, eq=False)
class LearnerAudit:
    """Result of :func:`audit_shadows`.

    ``best`` is the attack with the largest estimated advantage; ``best_advantage`` is its interval
    at an error shared among all attacks, so that choosing it is paid for.
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
    assumptions: tuple[str, ...] = _ASSUMPTIONS

    @property
    def game(self) -> SubsetGame:
        """The game that was audited."""
        return self.run.game

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "attacks": {name: audit.to_dict() for name, audit in self.attacks.items()},
            "best": self.best,
            "best_advantage": _fields(self.best_advantage),
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
    progress: Callable[[int, int], None] | None = None,
) -> LearnerAudit:
    """Measure attacks on a learner in the subset game, for a uniform record of the population.

    Quantities, each a mean over releases: AUC, accuracy and advantage TPR - FPR at a threshold that
    was fixed before, and the TPR where the release's own ROC curve has the stated FPR.

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
        >>> from memberbound.auditing.shadows import train_shadows
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
    parts: dict[str, list[ReleaseStatistics]] = {a.name: [] for a in chosen}
    plan = blocks_of(total, whole_number("blocks", blocks))
    fought = []
    steps = len(plan) + 1
    for done, targets in enumerate(plan):
        fought.append(_block(run, chosen, targets, rates, parts))
        if progress is not None:
            progress(done + 1, steps)
    everything = Duel.leave_one_out(run.signals, run.membership, run.examples)
    for attack in chosen:
        scores = _checked(attack, everything)
        estimates[attack.name] = release_statistics(
            scores, run.membership, _cross_thresholds(scores, run.membership), rates
        )
        curves[attack.name] = mean_roc(scores, run.membership)
    if progress is not None:
        progress(steps, steps)
    held = {name: ReleaseStatistics.joined(values) for name, values in parts.items()}
    truth = run.membership[plan[0][0] :]
    audits = {}
    for attack in chosen:
        name = attack.name
        chance = no_leak_p_value(np.vstack([b.guesses[name] for b in fought]), truth)
        scene = _Scene(name, run.game, sure, chance)
        audits[name] = _audit_of(attack, estimates[name], held[name], scene)
    best = max(audits, key=lambda name: audits[name].advantage.estimate)
    shared = _Scene(best, run.game, 1 - (1 - sure) / len(chosen))
    paid = _bound("advantage", estimates[best].advantage, held[best].advantage, shared, -1.0)
    warnings = (*run.warnings, *skipped, *_rate_warnings(estimates[best], run))
    spent = time.perf_counter() - start
    return LearnerAudit(audits, best, paid, tuple(fought), run, sure, spent, warnings, curves)


def _block(
    run: ShadowRun,
    chosen: list[Attack],
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
    for attack in chosen:
        # The threshold is that of the same attack among the shadows, where all halves are known.
        practice = _checked(attack, inner)
        threshold = best_threshold(practice, known)
        trust[attack.name] = float(((practice >= threshold) == known).mean())
        scores = _checked(attack, outer)
        guesses[attack.name] = scores >= threshold
        parts[attack.name].append(release_statistics(scores, run.membership[now], threshold, rates))
    return Block(first, last, guesses, trust)


def _checked(attack: Attack, duel: Duel) -> FloatArray:
    scores = attack.score(duel)
    if scores.shape != duel.target.logit.shape or np.isnan(scores).any():
        raise InputError(f"scores of {attack.name} must be numbers for every record, got NaN.")
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
    attack: Attack, estimate: ReleaseStatistics, strict: ReleaseStatistics, scene: _Scene
) -> AttackAudit:
    rates: dict[str, AuditBound | None] = {}
    for rate, seen in estimate.tpr.items():
        held = strict.tpr[rate]
        quantity = f"TPR at FPR {significant(rate, 'given')} of a release"
        rates[repr(float(rate))] = (
            None if seen is None or held is None else _bound(quantity, seen, held, scene)
        )
    return AttackAudit(
        attack.name,
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


def _fields(bound: AuditBound | None) -> dict[str, float | None] | None:
    if bound is None:
        return None
    return {
        "estimate": json_number(bound.estimate),
        "lower": json_number(bound.lower),
        "upper": json_number(bound.upper),
    }
