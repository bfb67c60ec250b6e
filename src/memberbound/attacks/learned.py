"""The learned attacker of A25 §7: a classifier that is shown releases and records.

Target models are split: on some the attacker learns to tell members from others, on the rest it is
scored.  Whatever it reaches there, the best attack reaches more, so its advantage bounds Δ from
below.  Arrays go in; where they come from (shadow models, repeated releases) does not matter.

Two numbers come out.  ``estimate`` uses every target as a test once (cross-fitting); as the folds
share their training targets it has no honest interval.  ``advantage`` scores each block of targets
with an attacker that has seen only *earlier* blocks; then the scores form a sequence whose
conditional means never exceed Δ, and a betting bound holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.splits import content_generator
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame, SubsetGame
from memberbound.numerics.means import betting_lower, hoeffding_upper, log_error_shared
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.numerics.threads import one_thread
from memberbound.quantities import AuditBound, Estimate

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = [
    "LearnedAttack",
    "Targets",
    "learned_attack",
]

ATTACK = "learned attacker"
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Targets:
    """Releases with what went into them.

    Attributes:
        membership: (T, N), whether record j was in the training set of target t.
        parameters: (T, p), the release θ of every target; or ``None``.
        signals: (T, N, s), what target t shows about record j (loss, margin …); or ``None``.
        features: (N, q), the records, in the subset game; (T, N, q) where every target has its own
            records, members and fresh ones, in the i.i.d. game; or ``None``.
    """

    membership: Mask
    parameters: FloatArray | None = None
    signals: FloatArray | None = None
    features: FloatArray | None = None

    def __post_init__(self) -> None:
        member = np.asarray(self.membership)
        if member.ndim != 2 or not np.isin(member, (0, 1)).all():
            raise InputError(
                f"membership must be a table of 0 and 1, targets by records, got {member.shape}."
            )
        targets, records = member.shape
        object.__setattr__(self, "membership", member.astype(np.bool_))
        inside = self.membership.sum(axis=1)
        if targets < 4 or (inside == 0).any() or (inside == records).any():
            raise InputError(
                "membership must have at least 4 targets, each with members and others, got "
                f"{targets} targets with {inside.min()} to {inside.max()} of {records} records in."
            )
        if len(np.unique(inside)) > 1:
            raise InputError(
                "membership must have as many members in every target, got from "
                f"{inside.min()} to {inside.max()}. The game fixes the size of the training set."
            )
        shapes: dict[str, tuple[tuple[int | None, ...], ...]] = {
            "parameters": ((targets, None),),
            "signals": ((targets, records, None),),
            "features": ((records, None), (targets, records, None)),
        }
        for name, allowed in shapes.items():
            value = getattr(self, name)
            if value is None:
                continue
            table = np.asarray(value, dtype=np.float64)
            if not any(_fits(table.shape, shape) for shape in allowed):
                raise InputError(f"{name} must have shape {allowed}, got {table.shape}.")
            if not np.isfinite(table).all():
                raise InputError(f"{name} must be finite numbers, got nan or infinity.")
            object.__setattr__(self, name, table)
        if self.parameters is None and self.signals is None:
            raise InputError("parameters or signals must be given, got neither.")

    @property
    def count(self) -> int:
        """Number of targets."""
        return len(self.membership)

    @property
    def own_records(self) -> bool:
        """Whether every target has its own records (the i.i.d. game)."""
        return self.features is not None and self.features.ndim == 3

    @property
    def game(self) -> IidGame | SubsetGame:
        """The game that the targets play; either way for the average record."""
        if self.own_records:
            return IidGame()
        records = self.membership.shape[1]
        return SubsetGame(records, int(self.membership[0].sum()), record="average")


@dataclass(frozen=True, eq=False)
class LearnedAttack:
    """What the learned attacker reached on targets it had not seen.

    Attributes:
        estimate: TPR - FPR of the average record by cross-fitting, without an interval.
        by_target: the same on every target.
        scores: (T, N), the attacker's probability of "in" by cross-fitting.
        sequence: TPR - FPR on the targets of later blocks, in the order in which they were met.
        confidence: of ``advantage``.
    """

    estimate: Estimate
    by_target: FloatArray
    scores: FloatArray
    sequence: FloatArray
    confidence: float
    game: IidGame | SubsetGame

    @cached_property
    def advantage(self) -> AuditBound:
        """TPR - FPR of the average record; its ``lower`` bounds Δ at γ = 1 from below."""
        return self.bounded(self.confidence)

    def bounded(self, confidence: float) -> AuditBound:
        """Return the advantage with an interval of another confidence."""
        return _bounded(self.sequence, confidence, self.game)

    @property
    def security_upper(self) -> float:
        """1 - lower end of the advantage: MIS at γ = 1 is at most that, at the confidence."""
        return min(1.0, up(1.0 - self.advantage.lower))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "advantage": self.advantage.to_dict(),
            "cross_fitted": self.estimate.to_dict(),
            "security_upper": self.security_upper,
        }

    def summary(self) -> str:
        """Return readable lines."""
        return f"{self.advantage.summary()}\n{self.estimate.summary()}"


def learned_attack(
    targets: Targets,
    *,
    classifier: BaseEstimator | None = None,
    folds: int = 5,
    confidence: float = 0.95,
    seed: int = 0,
    rows: int = 50_000,
    progress: Callable[[int, int], None] | None = None,
) -> LearnedAttack:
    """Train an attacker on some targets, score it on others, and bound Δ from below.

    Args:
        targets: releases, membership and records.
        classifier: a scikit-learn classifier with ``predict_proba``, cloned for every fit; by
            default gradient boosting.
        folds: blocks of targets.
        confidence: of the interval, both sides together.
        seed: of the order of targets, the rows used and the classifier.
        rows: most (target, record) pairs per fit.
        progress: called with (done, total) fits.

    Guarantee: with probability 1 - (1 - ``confidence``)/2 the best attack's advantage for the
    average record (Δ at γ = 1 in the i.i.d. game) is at least ``advantage.lower``.  ``upper``
    bounds what these attackers reach on average, not Δ: a better attacker may exist.
    Theorem: proofs/learned-attacker.md claims 2 and 3.
    Assumes: targets are independent and alike, given the records in the subset game; their order
    in the list does not matter.
    Numerics: lower end rounded down.
    Edge cases: few targets give a lower end of 0, whatever was reached: each target counts as one
    draw, as its records share a release.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> member = rng.permuted(np.tile([True, False], (100, 5)), axis=1)
        >>> signal = member[:, :, None] + 0.3 * rng.standard_normal((100, 10, 1))
        >>> found = learned_attack(Targets(member, signals=signal), folds=2)
        >>> found.advantage.lower > 0.6
        True
    """
    blocks = whole_number("folds", folds, at_least=2)
    if targets.count < 2 * blocks:
        raise InputError(f"folds must be at most half of the {targets.count} targets, got {folds}.")
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    most = whole_number("rows", rows, at_least=100)
    # A stream of its own: the order of targets is neither that of a list that was sorted nor drawn
    # from the stream of any half.
    shown = (targets.membership, targets.parameters, targets.signals, targets.features)
    start = whole_number("seed", seed, at_least=0)
    rng = content_generator(start, *(a for a in shown if a is not None), purpose="learned")
    parts = np.array_split(rng.permutation(targets.count), blocks)
    model = _default(seed) if classifier is None else classifier
    if not hasattr(model, "predict_proba"):
        raise InputError(f"classifier must have predict_proba, got {type(model).__name__}.")
    scores = np.full(targets.membership.shape, np.nan)
    earlier: list[FloatArray] = []
    total = 2 * blocks - 1
    for place, held in enumerate(parts):
        others = np.concatenate([p for k, p in enumerate(parts) if k != place])
        scores[held] = _scored(targets, model, others, held, rng=rng, most=most)
        _tell(progress, place + 1, total)
    by_target = _advantages(scores, targets.membership)
    for place in range(1, blocks):
        seen = np.concatenate(parts[:place])
        later = _scored(targets, model, seen, parts[place], rng=rng, most=most)
        earlier.append(_advantages(later, targets.membership[parts[place]]))
        _tell(progress, blocks + place, total)
    return LearnedAttack(
        Estimate(
            "advantage",
            float(by_target.mean()),
            f"{ATTACK}, {blocks}-fold cross-fitting over {targets.count} targets",
        ),
        by_target,
        scores,
        np.concatenate(earlier),
        level,
        targets.game,
    )


def _bounded(values: FloatArray, confidence: float, game: IidGame | SubsetGame) -> AuditBound:
    """Bound the advantage from the scores of targets in the order in which they were met."""
    log_error = log_error_shared(confidence, 2)
    mean = float(values.mean())
    # From [-1, 1] to [0, 1]; one rounding down each, so that nothing is overstated.
    unit = np.clip(np.nextafter((values + 1) / 2, 0.0), 0.0, 1.0)
    low = down(2 * float(betting_lower(unit[:, None], log_error)[0])) - 1
    high = float(hoeffding_upper([mean], len(values), log_error, width=2.0)[0])
    # No attack is worth less than guessing, so Δ ≥ 0 whatever was measured.
    lower = max(0.0, down(low) if low > 0 else low)
    estimate = max(0.0, mean)
    return AuditBound(
        "advantage", estimate, min(lower, estimate), max(min(high, 1.0), estimate), confidence,
        game, ATTACK,
    )  # fmt: skip


def _advantages(scores: FloatArray, membership: Mask) -> FloatArray:
    """Return TPR - FPR of "in if the score is above ½" on every target."""
    claims = scores > 0.5
    inside = membership.sum(axis=1)
    true = (claims & membership).sum(axis=1) / inside
    false = (claims & ~membership).sum(axis=1) / (membership.shape[1] - inside)
    return np.asarray(true - false)


# ---- what the attacker sees --------------------------------------------------------------------


def _scored(
    targets: Targets,
    classifier: BaseEstimator,
    known: NDArray[np.intp],
    held: NDArray[np.intp],
    *,
    rng: np.random.Generator,
    most: int,
) -> FloatArray:
    """Train on the known targets and return the scores of the held-out ones."""
    from sklearn.base import clone

    # What a record does to θ must be learned on other targets than those it is shown with.
    half = rng.permutation(known)
    first, second = half[: len(half) // 2], half[len(half) // 2 :]
    shown = [_view(targets, second, first), _view(targets, first, second)]
    table = np.concatenate([v.reshape(-1, v.shape[-1]) for v in shown])
    member = np.concatenate([targets.membership[first], targets.membership[second]]).reshape(-1)
    if len(table) > most:
        picked = rng.choice(len(table), size=most, replace=False)
        table, member = table[picked], member[picked]
    share = float(member.mean())
    # Members and others weigh the same, as they do in the advantage.
    weight = np.where(member, 0.5 / share, 0.5 / (1 - share))
    asked = _view(targets, known, held)
    # Small fits: waiting for more threads than one costs more than they save.
    with one_thread():
        fitted = _fit(clone(classifier), table, member, weight)
        found = fitted.predict_proba(asked.reshape(-1, asked.shape[-1]))[:, 1]
    return np.asarray(found, dtype=np.float64).reshape(asked.shape[:2])


def _fit(
    classifier: BaseEstimator, table: FloatArray, member: Mask, weight: FloatArray
) -> BaseEstimator:
    from sklearn.utils.validation import has_fit_parameter

    # Where all weigh the same none is said: quantiles of weighted columns are slow to find.
    if has_fit_parameter(classifier, "sample_weight") and np.ptp(weight) > 0:
        return classifier.fit(table, member, sample_weight=weight)
    return classifier.fit(table, member)


def _view(targets: Targets, known: NDArray[np.intp], asked: NDArray[np.intp]) -> FloatArray:
    """Return what the attacker is shown about the asked targets, having studied the known ones."""
    records = targets.membership.shape[1]
    columns: list[FloatArray] = []
    if targets.parameters is not None:
        columns += _parameter_columns(targets, known, asked)
    if targets.signals is not None:
        columns.append(targets.signals[asked])
        if not targets.own_records:
            columns.append(_calibrated(targets.signals, targets.membership, known, asked))
    if targets.features is not None:
        z = targets.features
        own = z[asked] if z.ndim == 3 else np.broadcast_to(z, (len(asked), *z.shape))
        columns.append(own)
        if targets.parameters is not None and own.shape[-1] == targets.parameters.shape[1]:
            # A linear model's answer θᵀz, when record and parameter have the same length.
            columns.append(np.einsum("tnq,tq->tn", own, targets.parameters[asked])[:, :, None])
    assert all(c.shape[:2] == (len(asked), records) for c in columns)
    return np.concatenate(columns, axis=2)


def _parameter_columns(
    targets: Targets, known: NDArray[np.intp], asked: NDArray[np.intp]
) -> list[FloatArray]:
    """Return the leading directions of θ, and how far θ leans towards "this record was in"."""
    assert targets.parameters is not None
    theta = targets.parameters
    centre = theta[known].mean(axis=0)
    scale = theta[known].std(axis=0)
    scale[scale == 0] = 1.0
    seen, new = (theta[known] - centre) / scale, (theta[asked] - centre) / scale
    _, spread, axes = np.linalg.svd(seen, full_matrices=False)
    kept = int(min(8, (spread > 1e-9 * max(spread[0], 1e-300)).sum()))
    records = targets.membership.shape[1]
    leading = new @ axes[:kept].T
    columns = [np.broadcast_to(leading[:, None, :], (len(asked), records, kept))]
    if targets.own_records:
        return columns
    # Whitened with a ridge: directions that the known targets hardly show are not trusted.
    ridge = spread**2 / len(known) + 0.1
    white_seen = seen @ axes.T / np.sqrt(ridge)
    white_new = new @ axes.T / np.sqrt(ridge)
    inside = targets.membership[known].astype(np.float64)
    n_in = np.maximum(inside.sum(axis=0), 1.0)[:, None]
    n_out = np.maximum((1 - inside).sum(axis=0), 1.0)[:, None]
    mean_in, mean_out = inside.T @ white_seen / n_in, (1 - inside).T @ white_seen / n_out
    direction, middle = mean_in - mean_out, (mean_in + mean_out) / 2
    lean = white_new @ direction.T - (direction * middle).sum(axis=1)
    length = np.linalg.norm(direction, axis=1)
    columns.append(lean[:, :, None])
    columns.append(np.broadcast_to(length[:, None], (len(asked), records, 1)))
    return columns


def _calibrated(
    signals: FloatArray, membership: Mask, known: NDArray[np.intp], asked: NDArray[np.intp]
) -> FloatArray:
    """Return signals minus the record's mean signal under known targets without it."""
    out = ~membership[known][:, :, None]
    count = np.maximum(out.sum(axis=0), 1)
    return np.asarray(signals[asked] - (signals[known] * out).sum(axis=0) / count)


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        w is None or s == w for s, w in zip(shape, wanted, strict=True)
    )


def _default(seed: int) -> BaseEstimator:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed)


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
