"""The audit of a learner: attacks on models trained on random halves (subset game).

The steps, for one record:

1. *Split*: every model was trained on its own uniform half of the population, so the record is in
   about half of the training sets (``shadows``).
2. *Score*: each attack scores the record on a target model, using other models with known halves
   (``attacks``).  Point estimates attack every model with all others.  Intervals process the models
   in order and attack a target only with models *before* its block, at a threshold chosen on these.
3. *Interval*: records within one release are dependent, releases are not.  Each target therefore
   contributes one number per quantity, and the mean over targets is bounded.
4. *Choice*: the best attack is selected after seeing the results, so its lower bound uses an error
   shared among all attacks that ran.
5. *Record*: every target yields a correct or incorrect verdict on the record.  The share of correct
   verdicts is bounded for all records at once, because readers look at the most exposed ones.

The proofs are in proofs/audit-subset-game.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import INTERNAL, EstimateOf, Lower, Upper, computed
from memberbound.attacks.attacks import DEFAULT_ATTACKS, Attack, Targets, runnable, score_targets
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.scores import AttackAudit, MeasuredAttacks, area_under_roc
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray
from memberbound.certificate import AuditBound
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import significant

#: Minimum number of models that can be divided into shadows and targets.
FEWEST_MODELS = 8
#: One value per target model, keyed by quantity (``auc``, ``accuracy``, ``advantage``), or by the
#: FPR for a TPR.
ReleaseStatistics = Mapping[str | float, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShadowAudit(MeasuredAttacks):
    """Result of :func:`audit_shadows`.

    ``roc`` holds the FPR and TPR of ``roc_attack``, the attack with the largest estimated
    advantage, averaged over releases (an estimate).
    """

    run: ShadowRun
    records: Exposure
    roc_attack: str
    roc: tuple[FloatArray, FloatArray] = field(repr=False)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the intervals, and the records that they cover."""
        sampled: tuple[str, ...] = ()
        if self.run.sample is not None:
            sampled = (
                f"The attacked records are {self.run.sample.size} of the "
                f"{self.run.game.population}, "
                "drawn uniformly and independently of the halves; statements about records are "
                "about these.",
            )
        return (
            "Every model was trained on its own uniform half of the population, independently of "
            "others.",
            "The attacker knows the population, the learner and its own shadow models' halves.",
            "Each interval holds with the stated confidence on its own, not all of them at once.",
            *sampled,
        )


def audit_shadows(
    run: ShadowRun,
    *,
    attacks: Iterable[str] = DEFAULT_ATTACKS,
    confidence: float = 0.95,
    fpr: Sequence[float] = (0.1, 0.01, 0.001),
) -> ShadowAudit:
    """Measure attacks on a learner in the subset game, for a uniform record of the population.

    Guarantee: each attack runs once per block, with the models before the block.  With probability
    at least ``confidence`` the strongest of these reaches at least ``lower`` and the weakest at
    most ``upper``.  If an estimate from all shadows falls outside, the interval is widened.
    Theorem: proofs/audit-subset-game.md claims 1 and 2.
    Assumes: :attr:`ShadowAudit.assumptions`; the models are attacked in the order of their numbers.
    Numerics: means are bounded with outward rounding; rounding of scores is part of the attack.
    Edge cases: fewer than 8 models are refused; if any release has too few non-members for an FPR,
    its entry is ``None``; attacks that cannot run on the learner are omitted with a warning.
    """
    total = run.signals.models
    if total < FEWEST_MODELS:
        raise InputError(f"models must be at least {FEWEST_MODELS}, got {total!r}. Train more.")
    everyone = Targets.each_by_the_others(run.signals, run.membership)
    chosen, warnings = runnable(everyone, attacks)
    out = int((~run.membership).sum(axis=1).min())
    rates = tuple(rate for rate in fpr if max_false_positives(rate, out) >= 0)
    warnings += [
        f"No TPR at FPR {significant(rate, 'given')}: {out} non-members per release are too few, "
        f"at least {int(np.ceil(1 / rate)) - 1} are needed."
        for rate in fpr
        if rate not in rates
    ]
    if run.failures:
        warnings.append("No record is listed as exposed: that needs uniform halves, fits failed.")
    blocks = [_attack_block(run, chosen, targets, rates) for targets in blocks_of(total)]
    audits: dict[str, AttackAudit] = {}
    scores: dict[str, FloatArray] = {}
    for name, attack in chosen.items():
        scores[name] = score_targets(attack, everyone)
        estimates = _everyone_statistics(scores[name], run, rates)
        parts = [block.statistics[name] for block in blocks]
        drawn = {kind: np.concatenate([part[kind] for part in parts]) for kind in estimates}
        audits[name] = _attack_audit(
            run, name, estimates, drawn, fpr=fpr, among=len(chosen), confidence=confidence
        )
    shown = max(audits, key=lambda name: audits[name].advantage.estimate)
    return ShadowAudit(
        attacks=audits,
        confidence=confidence,
        warnings=(*run.warnings, *warnings),
        run=run,
        records=record_exposure(run, blocks, confidence),
        roc_attack=shown,
        roc=mean_roc(scores[shown], run.membership),
    )


# ── Attacks on the targets, with all other models or with those before their block ────────────────


@dataclass(frozen=True, eq=False)
class Block:
    """Results of one block of targets, attacked with the models before it; keyed by attack.

    Attributes:
        right: whether the verdict on each target (row) and record is correct, at the threshold
            chosen on the shadows.
        shadow_accuracy: the attack's accuracy on the shadows.
        statistics: the attack's results against each target.
    """

    right: dict[str, BoolArray]
    shadow_accuracy: dict[str, float]
    statistics: dict[str, ReleaseStatistics]


def blocks_of(models: int, blocks: int = 3) -> list[tuple[int, int]]:
    """Return the [first, last) range of targets of each block, after one block of warm-up models.

    Examples:
        >>> blocks_of(64)
        [(16, 32), (32, 48), (48, 64)]
    """
    start = max(4, models // (blocks + 1))
    edges = np.unique(np.linspace(start, models, blocks + 1).astype(int)).tolist()
    return list(pairwise(edges))


def _attack_block(
    run: ShadowRun,
    chosen: Mapping[str, Attack],
    targets: tuple[int, int],
    rates: tuple[float, ...],
) -> Block:
    """Attack the models of one block with those before it."""
    first, last = targets
    known, truth = run.membership[:first], run.membership[first:last]
    block = Targets(run.signals[first:last], run.signals[:first], known)
    right, accuracy, statistics = {}, {}, {}
    for name, attack in chosen.items():
        # Choose the threshold by running the same attack among the shadows, where all halves are
        # known.
        practice = score_targets(attack, block.practice)
        threshold = best_threshold(practice, known)
        accuracy[name] = float(((practice >= threshold) == known).mean())
        scores = score_targets(attack, block)
        right[name] = (scores >= threshold) == truth
        statistics[name] = release_statistics(
            scores, truth, threshold, rates, sampled=run.sample is not None
        )
    return Block(right, accuracy, statistics)


def _everyone_statistics(
    scores: FloatArray, run: ShadowRun, rates: tuple[float, ...]
) -> ReleaseStatistics:
    """Return the statistics of every model, attacked with all others."""
    member, odd = run.membership, np.arange(len(scores)) % 2 == 1
    thresholds = np.empty(len(scores))
    for half in (odd, ~odd):  # a target's threshold is chosen on the other half of the targets
        thresholds[half] = best_threshold(scores[~half], member[~half])
    return release_statistics(scores, member, thresholds, rates, sampled=run.sample is not None)


def best_threshold(scores: FloatArray, member: BoolArray) -> float:
    """Return the threshold t at which "member if score ≥ t" is correct most often.

    Examples:
        >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
        0.5
    """
    order = np.argsort(scores, axis=None)
    value, truth = scores.ravel()[order], member.ravel()[order]
    # Entry i: the number of correct calls if all indices from i upwards are called members.
    right = np.append(0, np.cumsum(~truth)) + np.append(np.cumsum(truth[::-1])[::-1], 0)
    # A threshold must lie between two distinct scores.
    edges = np.concatenate([[True], value[1:] > value[:-1], [True]])
    index = int(np.argmax(np.where(edges, right, -1)))
    if index in (0, len(value)):
        return -np.inf if index == 0 else np.inf
    middle = value[index - 1] / 2 + value[index] / 2
    return float(middle) if middle > value[index - 1] else float(value[index])


# ── Statistics of an attack against each release, and bounds on their mean over releases ──────────


def max_false_positives(rate: float, others: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many non-members of a release may exceed the threshold; -1 if there are too few.

    Uninformative scores then have a mean TPR of at most the rate (claim 4).
    """
    # Round up slightly, so that α(n₀+1) = 2 survives rounding.
    return np.floor(rate * (np.asarray(others) + 1) * (1 + 1e-12)).astype(np.int64) - 1


def release_statistics(
    scores: FloatArray,
    member: BoolArray,
    threshold: FloatArray | float,
    rates: tuple[float, ...],
    *,
    sampled: bool = False,
) -> ReleaseStatistics:
    """Return AUC, accuracy, advantage and TPR of each target; scores and member are (T, N).

    ``threshold`` must not depend on the target's half.  The TPR at an FPR counts the members above
    all but :func:`max_false_positives` of the release's own non-members; 0 if there are too few.

    If only a sample of the records is attacked, a half contains a random number of them.  The
    advantage is then twice the accuracy minus 1, because its mean over releases is linear in the
    records' (claim 7).
    """
    guess = scores >= np.asarray(threshold).reshape(-1, 1)
    n1, n0 = member.sum(axis=1), (~member).sum(axis=1)
    accuracy = (guess == member).mean(axis=1)
    if sampled:
        advantage = 2 * accuracy - 1
    else:
        advantage = (guess & member).sum(axis=1) / n1 - (guess & ~member).sum(axis=1) / n0
    auc = np.empty(len(scores))
    tpr: dict[str | float, FloatArray] = {rate: np.zeros(len(scores)) for rate in rates}
    allowed = {rate: max_false_positives(rate, n0) for rate in rates}
    for row, (value, inside) in enumerate(zip(scores, member, strict=True)):
        out, ins = np.sort(value[~inside]), np.sort(value[inside])
        auc[row] = area_under_roc(ins, out)
        for rate, few in allowed.items():
            if few[row] >= 0:
                above = len(ins) - np.searchsorted(ins, out[-(int(few[row]) + 1)], "right")
                tpr[rate][row] = above / len(ins)
    return {"auc": auc, "accuracy": accuracy, "advantage": advantage, **tpr}


def _attack_audit(
    run: ShadowRun,
    attack: str,
    estimates: ReleaseStatistics,
    drawn: ReleaseStatistics,
    *,
    fpr: Sequence[float],
    among: int,
    confidence: float,
) -> AttackAudit:
    """Bound the mean of each quantity from ``drawn``: targets attacked with earlier models."""
    measured = partial(mean_bound, confidence=confidence, game=run.game, attack=attack)

    def bound(kind: str | float, quantity: str, among: int = 1) -> AuditBound:
        mean = float(estimates[kind].mean())
        return measured(quantity, drawn[kind], estimate=mean, among=among)

    shared = bound("advantage", "advantage", among)
    if run.failures:
        # Halves on which fits succeed need not be uniform, so there is no lower bound.
        shared = replace(shared, lower=min(shared.lower, 0.0))
    tpr: dict[str, AuditBound | None] = {repr(float(rate)): None for rate in fpr}
    for rate in (rate for rate in fpr if rate in drawn):
        name = f"TPR at FPR {significant(rate, 'given')} of a release"
        tpr[repr(float(rate))] = bound(rate, name)
    return AttackAudit(
        bound("advantage", "advantage"),
        shared,
        bound("auc", "AUC"),
        bound("accuracy", "accuracy"),
        tpr,
    )


def mean_roc(scores: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the ROC curve of an attack, averaged over releases at equal FPR; an estimate.

    Ties are broken at random, as any attacker can do.
    """
    from sklearn.metrics import roc_curve

    others = (~member).sum(axis=1)
    # Dense for small α (for a logarithmic axis), and evenly spaced for a linear one.
    fpr = np.unique(np.concatenate([np.geomspace(1 / others.max(), 1, 41), np.linspace(0, 1, 51)]))
    tpr = np.zeros(len(fpr))
    for value, inside in zip(scores, member, strict=True):
        alarms, identified, _ = roc_curve(inside, value)
        tpr += np.interp(fpr, alarms, identified)
    return fpr, tpr / len(scores)


def mean_bound(
    quantity: str,
    values: FloatArray,
    *,
    confidence: float,
    game: SubsetGame,
    attack: str,
    among: int = 1,
    estimate: float | None = None,
) -> AuditBound:
    """Bound the mean over releases from both sides, around an estimate (default: their mean).

    Guarantee: values in [0, 1] (advantage: [-1, 1]), one per release, arrive in order, each with a
    conditional mean given the earlier ones.  With probability at least ``confidence`` the lower end
    is at most the largest and the upper end at least the smallest of these means, for ``among``
    such bounds together; each side fails with half the error.
    Theorem: proofs/audit-subset-game.md claim 2.
    Assumes: a release's mean is determined before it is seen; equal means are the usual case.
    Numerics: rounded outwards.
    Edge cases: constant values v give about [v·(error/2)^{1/T}, …], never a point.

    Examples:
        >>> game = SubsetGame(100, 50, "average")
        >>> bound = mean_bound("AUC", np.full(48, 0.9), confidence=0.95, game=game, attack="loss")
        >>> round(bound.lower, 2), round(bound.upper, 2)
        (0.81, 0.91)
    """
    side = shared_confidence(confidence, 2 * among)
    low = -1.0 if quantity == "advantage" else 0.0
    lower, upper = (
        float(end(values, confidence=side, low=low, high=1.0)[0])
        for end in (mean_lower, mean_upper)
    )
    mean = float(values.mean()) if estimate is None else estimate
    return AuditBound(quantity, mean, min(lower, mean), max(upper, mean), confidence, game, attack)


# ── Exposed records: the attacks' accuracy on each record, and a certified list ───────────────────


@dataclass(frozen=True)
class ExposedRecord:
    """The accuracy of the attack on one record."""

    record: int
    estimate: EstimateOf
    lower: Lower
    upper: Upper
    proved: bool


@dataclass(frozen=True, eq=False)
class Exposure:
    """Accuracy of the attack on every record, with intervals that hold for all records at once.

    Attributes:
        estimate: share of the target models on which the attack was right about the record.
        lower: lower bound on the accuracy of the best attack; for all records at once, with half of
            the error.
        upper: upper bound on the accuracy of the weakest attack; likewise.
        exposed: indices of the records with ``lower`` above ``blind_accuracy``, the most exposed
            first.
        rows: the rows of the attacked records in the population.
        blind_accuracy: accuracy of an attacker who sees no model.
        attacks: the attack of each block of targets, chosen on the shadows before it.
        worst_record_estimate: accuracy on the most exposed record, selected on half of the target
            models and measured on the other to avoid selection bias; at least the largest
            ``lower``.
    """

    estimate: FloatArray = field(metadata=INTERNAL)
    lower: FloatArray = field(metadata=INTERNAL)
    upper: FloatArray = field(metadata=INTERNAL)
    exposed: NDArray[np.int64] = field(metadata=INTERNAL)
    rows: NDArray[np.int64] = field(metadata=INTERNAL)
    targets: int
    attacks: tuple[str, ...]
    blind_accuracy: Upper
    worst_record_estimate: EstimateOf
    confidence: Lower
    ends_hold: str = "for all records at once"

    @computed
    def exposed_records(self) -> int:
        """The number of listed records."""
        return int(self.exposed.size)

    @computed
    def exposed_above(self) -> Lower:
        """The accuracy that the attack exceeds on every listed record."""
        return self.blind_accuracy

    @computed
    def most_exposed(self) -> tuple[ExposedRecord, ...]:
        """The records on which the attack is most accurate."""
        return tuple(
            ExposedRecord(
                int(self.rows[index]),
                float(self.estimate[index]),
                float(self.lower[index]),
                float(self.upper[index]),
                bool(np.isin(index, self.exposed)),
            )
            for index in np.argsort(-self.estimate, kind="stable")[:20]
        )


def record_exposure(run: ShadowRun, blocks: Sequence[Block], confidence: float) -> Exposure:
    """Measure the attack's accuracy on each record, and list the exposed ones.

    Each block of targets is attacked with the attack that was best on the shadows before it.  A
    record is listed if its accuracy provably exceeds blind guessing.

    Guarantee: with probability at least ``confidence`` every ``lower`` and every ``upper`` of all
    records hold together, so for any selection of records; ``lower`` alone fails with half the
    error.  On every listed record some attack beats blind guessing, so no certificate for every
    record may promise less.
    Theorem: proofs/audit-subset-game.md claim 3, the error shared among the records.
    Assumes: as the audit.  With failed fits there is no lower bound: if the learner fails without a
    certain record, most of the remaining halves contain it, and always guessing "in" is accurate.
    Numerics: ends are rounded outward.
    Edge cases: with T targets and N records nothing can be listed unless 2^-T ≤ (1-confidence)/2N.
    """
    used = [max(b.shadow_accuracy, key=b.shadow_accuracy.__getitem__) for b in blocks]
    answers = np.vstack([block.right[name] for block, name in zip(blocks, used, strict=True)])
    trials, hits = len(answers), answers.sum(axis=0)
    each = (1 - confidence) / (2 * len(hits))
    lower = clopper_pearson_lower(hits, trials, each)
    if run.failures:
        lower = np.zeros_like(lower)
    listed = np.flatnonzero(lower > run.game.blind)
    return Exposure(
        hits / trials,
        lower,
        clopper_pearson_upper(hits, trials, each),
        listed[np.argsort(-hits[listed], kind="stable")],
        np.arange(len(hits)) if run.sample is None else run.sample,
        trials,
        tuple(used),
        run.game.blind,
        max(worst_accuracy(answers), float(lower.max())),
        confidence,
    )


def worst_accuracy(answers: BoolArray) -> float:
    """Return the accuracy on the most exposed record, chosen and measured on separate targets."""
    odd = np.arange(len(answers)) % 2 == 1
    shares = []
    for choosing, measuring in ((answers[odd], answers[~odd]), (answers[~odd], answers[odd])):
        share = choosing.mean(axis=0)
        # Average over tied records.
        shares.append(float(measuring[:, share == share.max()].mean()))
    return sum(shares) / 2
