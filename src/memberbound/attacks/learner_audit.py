"""The audit of a learner: what attacks reach on models trained on random halves (subset game).

Estimates attack every model with all others.  Intervals come from a stricter game that has a
valid confidence: models are taken in order, and a target is attacked only with models *before*
its block, at a threshold chosen on these (proofs/audit-subset-game.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import INTERNAL, EstimateOf, Lower, Upper, computed
from memberbound.attacks.attacks import DEFAULT_ATTACKS, Attack, Targets, runnable, scored
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.scores import (
    AttackAudit,
    MeasuredAttacks,
    area_under_roc,
    highest_floor,
)
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import AuditBound, significant

# ── What an attack reaches against each release, and bounds for its mean over releases ────────────
#
# One number in [0, 1] per target model: records of one release depend on each other, releases do
# not.


#: One value per target model by quantity (``auc``, ``accuracy``, ``advantage``), and by the FPR at
#: which a TPR is measured; None where the non-members are too few for it.
ReleaseStatistics = Mapping[str | float, FloatArray | None]


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
    tpr: dict[str | float, FloatArray | None] = {}
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
    return {"auc": auc, "accuracy": accuracy, "advantage": advantage, **tpr}


def mean_roc(scores: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the ROC curve of an attack, averaged over releases at equal FPR; an estimate.

    Of records with one score a random share is called members, as any attacker can do.

    Examples:
        >>> scores = np.array([[0.9, 0.4, 0.6, 0.1]])
        >>> fpr, tpr = mean_roc(scores, np.array([[True, True, False, False]]))
        >>> tpr[fpr == 0.0].tolist(), tpr[fpr == 0.5].tolist(), tpr[-1]
        ([0.5], [1.0], np.float64(1.0))
    """
    from sklearn.metrics import roc_curve

    others = (~member).sum(axis=1)
    # Close together where α is small, for a logarithmic axis, and even on a linear one.
    fpr = np.unique(np.concatenate([np.geomspace(1 / others.max(), 1, 41), np.linspace(0, 1, 51)]))
    tpr = np.zeros(len(fpr))
    for value, inside in zip(scores, member, strict=True):
        alarms, identified, _ = roc_curve(inside, value)
        tpr += np.interp(fpr, alarms, identified)
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


def mean_bound(
    quantity: str,
    values: FloatArray,
    *,
    confidence: float,
    game: SubsetGame,
    attack: str,
    estimate: float | None = None,
) -> AuditBound:
    """Return :func:`mean_interval` around an estimate, by default the mean of the values."""
    low = -1.0 if quantity == "advantage" else 0.0
    lower, upper = mean_interval(values, confidence, low)
    mean = float(values.mean()) if estimate is None else estimate
    ends = min(lower, mean), max(upper, mean)
    return AuditBound(quantity, mean, *ends, confidence, game, attack)


# ── The audit ─────────────────────────────────────────────────────────────────────────────────────

#: The fewest models that leave shadows and targets apart.
FEWEST_MODELS = 8


@dataclass(frozen=True, eq=False)
class Block:
    """Targets ``first`` to ``last`` - 1, attacked with the models before ``first``.

    Attributes:
        guesses: per attack the (targets, records) verdicts at the threshold chosen on the shadows.
        trust: the accuracy each attack had on the shadows.
        statistics: per attack what it reached against each target.
    """

    first: int
    last: int
    guesses: dict[str, BoolArray]
    trust: dict[str, float]
    statistics: dict[str, ReleaseStatistics]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShadowAudit(MeasuredAttacks):
    """Result of :func:`audit_shadows`.

    ``curves`` are per attack the FPR and the TPR of its ROC curve, averaged over releases (an
    estimate).
    """

    blocks: tuple[Block, ...]
    run: ShadowRun
    curves: Mapping[str, tuple[FloatArray, FloatArray]] = field(repr=False)

    @property
    def best_curve(self) -> str:
        """The attack whose curve is shown: the largest estimate."""
        return max(self.curves, key=lambda name: self.attacks[name].advantage.estimate)

    @property
    def targets(self) -> int:
        """Number of models that intervals come from."""
        return sum(block.last - block.first for block in self.blocks)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the intervals rest on, and which records they are about."""
        sampled: tuple[str, ...] = ()
        if self.run.sample is not None:
            sampled = (
                f"The attacked records are {self.run.sample.size} of the {self.game.population}, "
                "drawn uniformly and apart from the halves; what is said of records is said of "
                "these.",
            )
        return (
            "Every model was trained on its own uniform half of the population, independently of "
            "others.",
            "The attacker knows the population, the learner and its own shadow models' halves.",
            "Each interval holds with the stated confidence on its own, not all of them at once.",
            *sampled,
        )

    @property
    def game(self) -> SubsetGame:
        """The game that was audited."""
        return self.run.game


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
) -> ShadowAudit:
    """Measure attacks on a learner in the subset game, for a uniform record of the population.

    Quantities, each a mean over releases: AUC, accuracy and advantage TPR - FPR at a threshold that
    was fixed before, and the TPR where the release's own ROC curve has the stated FPR.

    Guarantee: an attack is carried out once per block, with the models before the block.  With
    probability at least ``confidence`` the strongest of these reaches at least ``lower`` and the
    weakest at most ``upper``.  An estimate from all shadows
    that falls outside widens the interval.
    Theorem: proofs/audit-subset-game.md claims 1 and 2.
    Assumes: independent uniform halves; the models are attacked in the order of their numbers.
    Numerics: means are bounded with outward rounding; scores are plain floating point, which is
    part of the attack.
    Edge cases: fewer than 8 models are refused; where the non-members are too few for an FPR its
    entry is ``None``; attacks that cannot run on the learner are left out with a warning.

    Examples:
        >>> from memberbound.attacks.shadows import train_shadows
        >>> from memberbound.learners.examples import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
        >>> noise = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(noise, learner_from_name("tree"), models=12, n_jobs=1)
        >>> audit = audit_shadows(run, attacks=["rmia"])
        >>> bool(audit.attacks["rmia"].auc.estimate > 0.7)
        True
    """
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    rates = tuple(fraction("fpr", r, open_left=True, open_right=True) for r in fpr)
    total = run.signals.models
    if total < FEWEST_MODELS:
        raise InputError(f"models must be at least {FEWEST_MODELS}, got {total!r}. Train more.")
    everyone = Targets.each_by_the_others(run.signals, run.membership)
    chosen, skipped = runnable(everyone, attacks)
    blocks = tuple(_attack_block(run, chosen, targets, rates) for targets in blocks_of(total))
    estimates, curves = _estimates(everyone, chosen, rates, sampled=run.sample is not None)
    each = shared_confidence(sure, len(chosen))
    audits, paid = {}, []
    for name in chosen:
        bounds = _bounds(name, estimates[name], blocks, sure, run.game)
        alone: ReleaseStatistics = {"advantage": estimates[name]["advantage"]}
        advantage = cast(AuditBound, _bounds(name, alone, blocks, each, run.game)["advantage"])
        if run.failures:
            # Halves on which a fit succeeds need not be uniform: no floor follows from them.
            advantage = replace(advantage, lower=min(advantage.lower, 0.0))
        paid.append(advantage)
        audits[name] = AttackAudit(
            cast(AuditBound, bounds["advantage"]),
            cast(AuditBound, bounds["auc"]),
            bounds["accuracy"],
            {repr(float(rate)): bounds[rate] for rate in rates},
        )
    warnings = (*run.warnings, *skipped, *_rate_warnings(next(iter(estimates.values())), run))
    return ShadowAudit(
        attacks=audits,
        best_advantage=highest_floor(paid, sure),
        confidence=sure,
        warnings=warnings,
        blocks=blocks,
        run=run,
        curves=curves,
    )


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
    guesses, trust, statistics = {}, {}, {}
    for name, attack in chosen.items():
        # The threshold is that of the same attack among the shadows, where all halves are known.
        practice = scored(attack, block.practice)
        threshold = best_threshold(practice, known)
        trust[name] = float(((practice >= threshold) == known).mean())
        scores = scored(attack, block)
        guesses[name] = scores >= threshold
        statistics[name] = release_statistics(
            scores, truth, threshold, rates, sampled=run.sample is not None
        )
    return Block(first, last, guesses, trust, statistics)


def _estimates(
    everyone: Targets, chosen: Mapping[str, Attack], rates: tuple[float, ...], *, sampled: bool
) -> tuple[dict[str, ReleaseStatistics], dict[str, tuple[FloatArray, FloatArray]]]:
    """Attack every model with all others: what is reached on average, and the mean ROC curve."""
    _, member = everyone.trained
    odd = np.arange(len(member)) % 2 == 1
    estimates, curves = {}, {}
    for name, attack in chosen.items():
        scores = scored(attack, everyone)
        thresholds = np.empty(len(scores))
        for half in (odd, ~odd):  # a target's threshold is chosen on the other half of the targets
            thresholds[half] = best_threshold(scores[~half], member[~half])
        estimates[name] = release_statistics(scores, member, thresholds, rates, sampled=sampled)
        curves[name] = mean_roc(scores, member)
    return estimates, curves


def _bounds(
    attack: str,
    estimates: ReleaseStatistics,
    blocks: Iterable[Block],
    confidence: float,
    game: SubsetGame,
) -> dict[str | float, AuditBound | None]:
    """Bound means over releases; None where a release has too few non-members.

    ``estimates`` are values with all other models, the ends come from earlier models alone.
    """
    bounds: dict[str | float, AuditBound | None] = {}
    for kind, values in estimates.items():
        parts = [block.statistics[attack][kind] for block in blocks]
        strict = [part for part in parts if part is not None]
        bounds[kind] = None
        if values is not None and len(strict) == len(parts):
            quantity = "AUC" if kind == "auc" else str(kind)
            if isinstance(kind, float):
                quantity = f"TPR at FPR {significant(kind, 'given')} of a release"
            bounds[kind] = mean_bound(
                quantity,
                np.concatenate(strict),
                confidence=confidence,
                game=game,
                attack=attack,
                estimate=float(values.mean()),
            )
    return bounds


def _rate_warnings(statistics: ReleaseStatistics, run: ShadowRun) -> Iterator[str]:
    out = int((~run.membership).sum(axis=1).min())
    for rate, values in statistics.items():
        if values is None and isinstance(rate, float):
            yield (
                f"No TPR at FPR {significant(rate, 'given')}: {out} non-members per release are "
                f"too few, at least {int(np.ceil(1 / rate)) - 1} are needed."
            )


# ── Records that a learner exposes: the attacks' accuracy on each, and a list that is proved ──────
#
# Each target model gives one verdict about a record, "in" or "out", which is right or wrong.
# Whoever reads the result looks at the records that were guessed best, so every end holds for all
# records at once (the error is shared among them); records of one release may depend on each other.


@dataclass(frozen=True)
class ExposedRecord:
    """How often the attack is right about one record."""

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
        lower: the best of the attacks is right at least this often; for all records at once, with
            half of the error.
        upper: the weakest of the attacks is right at most this often; likewise.
        exposed: numbers of the records whose ``lower`` exceeds ``blind_accuracy``, the most exposed
            first.
        rows: the rows of the attacked records in the population.
        blind_accuracy: accuracy of an attacker who sees no model.
        attacks: the attack of each block of targets, chosen on the shadows before it.
        worst_record_estimate: accuracy on the record that is guessed best, chosen on half of the
            target models and measured on the other, so that choosing it does not flatter it; the
            largest ``lower`` where that is more.
    """

    estimate: FloatArray = field(metadata=INTERNAL)
    lower: FloatArray = field(metadata=INTERNAL)
    upper: FloatArray = field(metadata=INTERNAL)
    exposed: NDArray[np.int64] = field(metadata=INTERNAL)
    rows: NDArray[np.int64] = field(metadata=INTERNAL)
    game: SubsetGame = field(metadata=INTERNAL)
    targets: int
    attacks: tuple[str, ...]
    blind_accuracy: Upper
    worst_record_estimate: EstimateOf
    confidence: Lower
    ends_hold: str = "for all records at once"

    def unproved(self) -> Exposure:
        """Return the same without any floor, for halves that were not uniform."""
        nobody = np.zeros(0, dtype=np.int64)
        return replace(self, exposed=nobody, lower=np.zeros_like(self.lower))

    @computed
    def exposed_records(self) -> int:
        """How many records are listed."""
        return int(self.exposed.size)

    @computed
    def exposed_above(self) -> Lower:
        """What the accuracy on every listed record exceeds."""
        return self.blind_accuracy

    @computed
    def most_exposed(self) -> tuple[ExposedRecord, ...]:
        """The records that are guessed best."""
        return tuple(
            ExposedRecord(
                int(self.rows[place]),
                float(self.estimate[place]),
                float(self.lower[place]),
                float(self.upper[place]),
                bool(np.isin(place, self.exposed)),
            )
            for place in np.argsort(-self.estimate, kind="stable")[:20]
        )


def record_exposure(audit: ShadowAudit) -> Exposure:
    """Measure how often the attack is right about each record, and list the exposed ones.

    Each block of targets is attacked with the attack that was best on the shadows before it.  A
    record is listed if its accuracy provably exceeds blind guessing.

    Guarantee: with probability at least ``confidence`` every ``lower`` and every ``upper`` of all
    records hold together, so whichever records are looked at; ``lower`` alone fails with half the
    error.  About every listed record some attack is right more often than by blind guessing, so no
    certificate for every record may promise less.
    Theorem: proofs/audit-subset-game.md claim 3, the error shared among the records.
    Assumes: as the audit.
    Numerics: ends are rounded outward.
    Edge cases: with T targets and N records nothing can be listed unless 2^-T ≤ (1-confidence)/2N.

    Examples:
        >>> from memberbound.attacks.shadows import train_shadows
        >>> from memberbound.learners.examples import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        >>> x[0], y[0] = (0.0, 0.0), 1  # an outlier: the only one of its class far from the others
        >>> x[1:, 0] += 9 * y[1:]
        >>> rows = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(rows, learner_from_name("tree"), models=24, n_jobs=1)
        >>> record_exposure(audit_shadows(run, attacks=["lira"])).exposed.tolist()
        [0]
    """
    sure, membership = audit.confidence, audit.run.membership
    right, used = [], []
    for block in audit.blocks:
        name = max(block.trust, key=lambda n: block.trust[n])
        used.append(name)
        right.append(block.guesses[name] == membership[block.first : block.last])
    answers = np.vstack(right)
    trials = len(answers)
    hits = answers.sum(axis=0)
    prior = audit.game.prior
    blind = max(prior, 1 - prior)
    each = (1 - sure) / (2 * len(hits))
    lower = clopper_pearson_lower(hits, trials, each)
    listed = np.flatnonzero(lower > blind)
    listed = listed[np.argsort(-hits[listed], kind="stable")]
    return Exposure(
        hits / trials,
        lower,
        clopper_pearson_upper(hits, trials, each),
        listed,
        np.arange(len(hits)) if audit.run.sample is None else audit.run.sample,
        audit.game,
        trials,
        tuple(used),
        blind,
        max(_worst(answers), float(lower.max())),
        sure,
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
