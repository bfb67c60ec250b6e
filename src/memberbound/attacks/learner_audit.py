"""The audit of a learner: what attacks reach on models trained on random halves (subset game).

Estimates attack every model with all others.  Intervals come from a stricter game that has a
valid confidence: models are taken in order, and a target is attacked only with models *before*
its block, at a threshold chosen on these (proofs/audit-subset-game.md).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from memberbound.answers import EstimateOf, Lower, Upper, computed
from memberbound.attacks.attacks import DEFAULT_ATTACKS, Rule, runnable_on_learner
from memberbound.attacks.scores import AttackAudit, area_under_roc, interval_fields
from memberbound.attacks.shadow_scores import Targets
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, MemberboundError, fraction
from memberbound.files import read_document
from memberbound.games import SubsetGame
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray, shared_confidence, sum_up, up
from memberbound.quantities import (
    INTERVAL,
    AuditBound,
    Certificate,
    Sides,
    at_confidence,
    json_number,
    percent,
    significant,
)

if TYPE_CHECKING:
    from memberbound.attacks.records import Exposure

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


@dataclass(frozen=True, eq=False)
class ShadowAudit:
    """Result of :func:`audit_shadows`.

    ``best`` is the attack with the highest floor, then the largest estimate; ``best_advantage`` is
    its interval at an error shared among all attacks, so that choosing it is paid for.
    """

    SIDES: ClassVar[Sides] = {
        "best_advantage": INTERVAL,
        "training_seconds": "estimate",
        "attack_seconds": "estimate",
    }

    attacks: dict[str, AttackAudit]
    best_advantage: AuditBound
    blocks: tuple[Block, ...]
    run: ShadowRun
    confidence: float
    seconds: float
    warnings: tuple[str, ...]
    #: Per attack the FPR and the TPR of its ROC curve, averaged over releases (an estimate).
    curves: Mapping[str, tuple[FloatArray, FloatArray]] = field(repr=False)

    @property
    def best(self) -> str:
        """The attack that :attr:`best_advantage` is about."""
        return self.best_advantage.attack

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

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, beside those of the attacks."""
        return {
            "best_advantage": interval_fields(self.best_advantage),
            "population": self.game.population,
            "models": self.run.signals.models,
            "targets_of_intervals": sum(b.last - b.first for b in self.blocks),
            "failed_fits": [
                {"model": f.model, "seed": f.seed, "message": f.message} for f in self.run.failures
            ],
            "training_seconds": json_number(float(self.run.timings.sum())),
            "attack_seconds": json_number(self.seconds),
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
    others: Mapping[str, Callable[[float], AuditBound]] | None = None,
) -> ShadowAudit:
    """Measure attacks on a learner in the subset game, for a uniform record of the population.

    Quantities, each a mean over releases: AUC, accuracy and advantage TPR - FPR at a threshold that
    was fixed before, and the TPR where the release's own ROC curve has the stated FPR.

    ``others`` are attacks on the same learner that ran elsewhere: each maps a confidence to the
    interval of its advantage.  They are listed with the rest and share the error of the best.

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
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
        >>> noise = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(noise, learner_from_name("tree"), models=12, n_jobs=1)
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
    chosen, skipped = runnable_on_learner(attacks, run.signals)
    plan = blocks_of(total)
    blocks = [_attack_block(run, chosen, targets, rates) for targets in plan]
    estimates, curves = _estimates(run, chosen, rates)
    others = dict(others or {})
    each = shared_confidence(sure, len(chosen) + len(others))
    audits, paid = {}, {}
    truth = run.membership[plan[0][0] :]
    for name, rule in chosen.items():
        strict: dict[str | float, FloatArray | None] = {}
        for kind in estimates[name]:
            parts = [part for b in blocks if (part := b.statistics[name][kind]) is not None]
            strict[kind] = np.concatenate(parts) if len(parts) == len(blocks) else None
        about = (estimates[name], strict)
        bounds = {kind: _mean_bound(kind, about, sure, run.game, name) for kind in strict}
        p_value = no_leak_p_value(np.vstack([b.guesses[name] for b in blocks]), truth)
        paid[name] = cast(AuditBound, _mean_bound("advantage", about, each, run.game, name))
        audits[name] = AttackAudit(
            cast(AuditBound, bounds["advantage"]),
            bounds["auc"],
            bounds["accuracy"],
            {repr(float(rate)): bounds[rate] for rate in rates},
            {"no_leak_p_value": p_value, "settings": dict(rule.settings)},
        )
        if run.failures:
            # Halves on which a fit succeeds need not be uniform: no floor follows from them.
            paid[name] = replace(paid[name], lower=min(paid[name].lower, 0.0))
    for name, advantage in others.items():
        audits[name] = AttackAudit(advantage(sure), more={"no_leak_p_value": None, "settings": {}})
        paid[name] = advantage(each)
    best_name = max(paid, key=lambda name: (max(paid[name].lower, 0.0), paid[name].estimate))
    # All attacks' intervals hold together with this confidence, and one was picked among them.
    best_advantage = replace(paid[best_name], confidence=sure, attack=best_name)
    warnings = (*run.warnings, *skipped, *_rate_warnings(next(iter(estimates.values())), run))
    seconds = time.perf_counter() - start
    return ShadowAudit(audits, best_advantage, tuple(blocks), run, sure, seconds, warnings, curves)


def _attack_block(
    run: ShadowRun,
    chosen: Mapping[str, Rule],
    targets: tuple[int, int],
    rates: tuple[float, ...],
) -> Block:
    """Attack the models of one block with those before it."""
    first, last = targets
    shadows, known = run.signals[:first], run.membership[:first]
    among_shadows = Targets.each_by_the_others(shadows, known, run.examples)
    block = Targets(
        run.signals[first:last], shadows, known, run.examples, False, practice=among_shadows
    )
    guesses, trust, statistics = {}, {}, {}
    for name, attack in chosen.items():
        # The threshold is that of the same attack among the shadows, where all halves are known.
        practice = _scores(name, attack, among_shadows)
        threshold = best_threshold(practice, known)
        trust[name] = float(((practice >= threshold) == known).mean())
        scores = _scores(name, attack, block)
        guesses[name] = scores >= threshold
        statistics[name] = release_statistics(
            scores, run.membership[first:last], threshold, rates, sampled=run.sample is not None
        )
    return Block(first, last, guesses, trust, statistics)


def _estimates(
    run: ShadowRun, chosen: Mapping[str, Rule], rates: tuple[float, ...]
) -> tuple[dict[str, ReleaseStatistics], dict[str, tuple[FloatArray, FloatArray]]]:
    """Attack every model with all others: what is reached on average, and the mean ROC curve."""
    everyone = Targets.each_by_the_others(run.signals, run.membership, run.examples)
    odd = np.arange(run.signals.models) % 2 == 1
    estimates, curves = {}, {}
    for name, attack in chosen.items():
        scores = _scores(name, attack, everyone)
        thresholds = np.empty(len(scores))
        for half in (odd, ~odd):  # a target's threshold is chosen on the other half of the targets
            thresholds[half] = best_threshold(scores[~half], run.membership[~half])
        estimates[name] = release_statistics(
            scores, run.membership, thresholds, rates, sampled=run.sample is not None
        )
        curves[name] = mean_roc(scores, run.membership)
    return estimates, curves


def _scores(name: str, attack: Rule, targets: Targets) -> FloatArray:
    scores = attack.score(targets)
    if scores.shape != targets.signals.logit.shape or np.isnan(scores).any():
        raise InputError(f"scores of {name} must be numbers for every record, got NaN.")
    return scores


def _mean_bound(
    kind: str | float,
    statistics: tuple[ReleaseStatistics, ReleaseStatistics],
    confidence: float,
    game: SubsetGame,
    attack: str,
) -> AuditBound | None:
    """Bound a quantity's mean over releases; None where no release has it.

    ``statistics`` are those with all other models, for the estimate, and with earlier models alone.
    """
    estimates, strict = (values[kind] for values in statistics)
    if estimates is None or strict is None:
        return None
    lower, upper = mean_interval(strict, confidence, -1.0 if kind == "advantage" else 0.0)
    value = float(estimates.mean())
    quantity = "AUC" if kind == "auc" else str(kind)
    if isinstance(kind, float):
        quantity = f"TPR at FPR {significant(kind, 'given')} of a release"
    ends = min(lower, value), max(upper, value)
    return AuditBound(quantity, value, *ends, confidence, game, attack)


def _rate_warnings(statistics: ReleaseStatistics, run: ShadowRun) -> Iterator[str]:
    out = int((~run.membership).sum(axis=1).min())
    for rate, values in statistics.items():
        if values is None and isinstance(rate, float):
            yield (
                f"No TPR at FPR {significant(rate, 'given')}: {out} non-members per release are "
                f"too few, at least {int(np.ceil(1 / rate)) - 1} are needed."
            )


# ── A certificate and an audit of the same quantity in the same game, side by side ────────────────
#
# The certificate is a ceiling for every attack and the audit a floor reached by one.  If the floor
# is above the ceiling, one of the two is wrong, and an error says so.


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
    """Certified advantage above, audited advantage below; the gap is their ratio."""

    certified_advantage_upper: Upper
    certificate_confidence: Lower
    certificate_protects: str
    audited_advantage_lower: Lower

    @computed
    def sandwich_gap(self) -> EstimateOf | None:
        """Certified over audited, where the audit shows anything at all."""
        floor = self.audited_advantage_lower
        return self.certified_advantage_upper / floor if floor > 0 else None


def read_ceiling(
    certificate: Certificate | str | os.PathLike[str] | Mapping[str, object],
) -> Ceiling:
    """Return the ceiling that a certificate of η in the subset game puts on the advantage.

    Takes a :class:`Certificate`, the file that ``protect-half`` writes, or its content.
    At k = N/2 the advantage is 2η (I24-D1); a certificate for every record also covers the average.
    For odd N see :func:`_ceiling`.
    """
    if isinstance(certificate, Certificate):
        game = certificate.game
        upper = certificate.quantity == "eta" and certificate.direction == "upper"
        if not isinstance(game, SubsetGame) or not upper:
            raise InputError(
                "certificate must bound eta from above in the game “subset”, which this audit "
                f"measures, got {certificate.quantity} in the game “{game.name}”, "
                f"{certificate.direction}."
            )
        return _ceiling(
            certificate.value, certificate.confidence, game.record, game.population, game.size
        )
    written: Any = certificate
    if isinstance(certificate, (str, os.PathLike)):
        written = read_document(certificate, "certificate", "JSON")
    release = written if isinstance(written, Mapping) else {}
    inner = release.get("certificate", release)
    try:
        if inner["game"] != "subset" or inner["quantity"] != "eta":
            raise InputError("certificate must bound eta in the game “subset”.")
        # Without the sizes 2η could be the ceiling of another game than this audit's halves.
        if release.get("population") is None or release.get("size") is None:
            raise InputError(
                "certificate must say population and size, got none. Use the certificate file that "
                "protect-half writes beside a release."
            )
        return _ceiling(
            float(inner["upper"]),
            float(inner["confidence"]),
            "every" if inner["protects"] == "every record" else "average",
            int(release["population"]),
            int(release["size"]),
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
            "floor must be an advantage in the game “subset”, which the certificate bounds, "
            f"got {floor.quantity} in the game “{game.name}”."
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
    return Sandwich(
        ceiling.advantage,
        ceiling.confidence,
        f"{ceiling.record} record",
        max(0.0, floor.lower),
    )


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
