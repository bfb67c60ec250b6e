"""Floors for releases with known normal noise: the likelihood ratio in what is released (X24)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from memberbound.attacks.learner_audit import mean_interval
from memberbound.attacks.scores import interval_fields
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray
from memberbound.quantities import INTERVAL, NO_LEAK, AuditBound, Sides, significant
from memberbound.release.half.fitting import fitted
from memberbound.release.half.least_noise import FreshSubsets, Progress, Rows, Statistic
from memberbound.release.half.statistics import SumStatistic
from memberbound.release.noise import GaussianNoise, NoiseLaw

# ── The attack: a linear score of the released vector per record, and what it reaches ─────────────
#
# The released vector is q(D) + noise.  With x in D its mean is higher by Δ_x, and it varies like
# the noise and like q over training sets; so the score w_x·release with w_x = (noise + Σ)⁻¹Δ_x is
# the likelihood ratio if q is about normal.  Given q(D) the chance of each verdict is a value of Φ,
# so no noise is drawn.  Every target model is D to its members and D' to the others, and a pair of
# them that differs in the chosen record cancels what else varies.  What is random is the choice of
# the targets' training sets, and that alone is paid for (proofs/noisy-release-floors.md).

ATTACK = "likelihood ratio of the released vector"
#: Streams: groups for the shifts, models for the spread, targets, and pairs for one record.
_SHIFTS, _SPREAD, _TARGETS, _SWAPS = 31, 32, 33, 34
#: Groups are averaged until about so many sets were fitted; a population may be this large.
_SHIFT_FITS, MOST_RECORDS = 1000, 6000
#: Share of the mean variance that is added to a spread estimated from few models.
_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Draws:
    """Differences of two verdicts in [-1, 1], one per draw, each off by at most ``slack``."""

    values: FloatArray
    slack: float
    game: SubsetGame

    def bounded(self, confidence: float) -> AuditBound:
        """Bound their mean."""
        low, top = mean_interval(np.clip(self.values, -1.0, 1.0), confidence, -1.0)
        seen, room = float(np.clip(self.values.mean(), -1.0, 1.0)), 256 * UNIT + 2 * self.slack
        ends = max(min(low - room, seen), -1.0), min(max(top + room, seen), 1.0)
        return AuditBound("advantage", seen, *ends, confidence, self.game, ATTACK)


@dataclass(frozen=True, eq=False)
class ReleaseFloor:
    """What the attack reaches on the average record and on the one chosen before the targets.

    Both lower ends hold together at the confidence of each.
    """

    SIDES: ClassVar[Sides] = {
        "average_advantage": INTERVAL,
        "record_advantage": INTERVAL,
        "confidence": "lower",
    }

    on_average: Draws
    on_record: Draws
    confidence: float
    record: int
    targets: int
    fits: int

    @cached_property
    def average(self) -> AuditBound:
        """The advantage on the average record."""
        return self.on_average.bounded(self.confidence)

    @cached_property
    def worst(self) -> AuditBound:
        """The advantage on the chosen record."""
        return self.on_record.bounded(self.confidence)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "attack": ATTACK,
            "average_advantage": interval_fields(self.average),
            "record_advantage": interval_fields(self.worst),
            "record": self.record,
            "targets": self.targets,
            "fits": self.fits,
            "confidence": self.confidence,
        }

    def summary(self) -> str:
        """Return one readable line per floor."""
        return "\n".join(
            f"{ATTACK}, {whom}: advantage {significant(bound.estimate, 'estimate', 3)}, "
            + (f"at least {significant(bound.lower, 'lower', 3)}" if bound.lower > 0 else NO_LEAK)
            for whom, bound in (
                ("average record", self.average),
                (f"record {self.record}", self.worst),
            )
        )


def audit_release(
    statistic: Statistic,
    noise: NoiseLaw,
    game: SubsetGame,
    *,
    targets: int = 512,
    training: int = 128,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = None,
) -> ReleaseFloor:
    """Measure how well q(D) + noise gives members away, integrated over the noise.

    The attack is made from ``training`` models and from sets that differ in one record (about 1000
    of them, or N + 2; sums need none).  It is measured on ``targets`` further models, and on as
    many again that are pairs with and without the record which the attack chose.

    Guarantee: with probability at least ``confidence`` over the models, both lower ends are at most
    what the best attack reaches: on a uniform record, and on the record that the attack chose.
    Theorem: X24 (proofs/noisy-release-floors.md).
    Assumes: the game's training sets are uniform; the noise has the stated law (a release puts it
    on a grid, which is post-processing and can only lower what an attack reaches).
    Numerics: rounded outward by more than the error of Φ and of what it is taken at.
    Edge cases: noise that is not normal is refused; a fit that fails counts as zeros, as in the
    release.

    Examples:
        >>> from memberbound.release.half.statistics import mean
        >>> rows = np.append(np.zeros(39), 10.0)
        >>> floor = audit_release(mean(rows), GaussianNoise(0.1, 1), SubsetGame(40, 20), seed=1)
        >>> floor.record, floor.worst.lower > 0.6, floor.average.lower < 0.1
        (39, True, True)
    """
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    count = whole_number("targets", targets, at_least=8)
    if not isinstance(noise, GaussianNoise):
        raise InputError("noise must be normal to be integrated over, got another distribution.")
    cover = noise.scale**2 * np.eye(noise.dimension)
    fresh = FreshSubsets(game, seed)
    trained = _Trained.on(statistic, fresh, whole_number("training", training, at_least=2), workers)
    direction = _directions(trained, cover)
    drawn = fresh.spawned(_TARGETS).subsets(count)
    outputs = fitted(
        statistic,
        [[rows] for rows in drawn],
        workers=workers,
        progress=progress,
    )
    guess, slack = _verdicts(outputs.rows[:, 0], trained.middle, direction, noise.scale)
    member = np.zeros(guess.shape, dtype=np.bool_)
    for row, rows in enumerate(drawn):
        member[row, rows] = True
    # The record is the attack's choice: made on the training models, before any target was seen.
    record = int(np.argmax(_expected(direction, trained, cover)))
    away = game.population - game.size
    inside = np.where(member, guess, 0.0).sum(axis=1) / game.size
    values = inside - np.where(member, 0.0, guess).sum(axis=1) / away
    average = Draws(values, slack, replace(game, record="average"))
    swaps = _swaps(fresh.spawned(_SWAPS), record, count // 2)
    pairs = fitted(statistic, swaps, workers=workers)
    ends = pairs.rows.reshape(2 * len(swaps), -1)
    verdicts, slack = _verdicts(ends, trained.middle, direction[:, [record]], noise.scale)
    with_record, without = verdicts.reshape(-1, 2).T
    worst = Draws(with_record - without, slack, replace(game, record="every"))
    return ReleaseFloor(
        average,
        worst,
        sure,
        record,
        count,
        trained.fits + outputs.count + pairs.count,
    )


def _swaps(stream: FreshSubsets, record: int, count: int) -> list[list[Rows]]:
    """Return pairs (D, D'): D uniform with the record, D' with another in its place."""
    game = stream.game
    draws = np.random.default_rng(stream.seed)
    others = np.delete(np.arange(game.population), record)
    pairs = []
    for _ in range(count):
        order = draws.permutation(others)
        base, other = order[: game.size - 1], order[game.size - 1]
        pairs.append([np.sort(np.append(base, record)), np.sort(np.append(base, other))])
    return pairs


@dataclass(frozen=True, eq=False)
class _Trained:
    """What the attacker learnt: centre and spread of q(D), and how far each record moves it."""

    middle: FloatArray
    spread: FloatArray
    shifts: FloatArray
    fits: int

    @classmethod
    def on(
        cls, statistic: Statistic, fresh: FreshSubsets, training: int, workers: int | None
    ) -> _Trained:
        if isinstance(statistic, SumStatistic):
            table, game = statistic.vectors / statistic.size, fresh.game
            spread = np.atleast_2d(np.cov(table, rowvar=False))
            spread = game.size * (1 - game.size / game.population) * spread
            centre = table.mean(axis=0)
            return cls(centre * game.size, spread, table - centre, 0)
        stream = fresh.spawned(_SPREAD)
        fits = fitted(
            statistic,
            [[rows] for rows in stream.subsets(training)],
            workers=workers,
        )
        outputs = fits.rows[:, 0]
        shifts, more = _shifts(statistic, fresh, workers)
        middle = outputs.mean(axis=0)
        spread = np.atleast_2d(np.cov(outputs, rowvar=False))
        return cls(middle, spread, shifts, fits.count + more)


def groups_of_every_record(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64], int]:
    """Return two groups per draw that speak for every record, the records' places, and the border.

    D₀ ⊂ D₁ are uniform of k-1 and k+1 records.  The first N-k+1 sets are D₀ ∪ x for the records
    outside D₀, the others D₁ ∖ x for those of D₁: there x is *out* and its partners have it.
    ``places[b, x]`` is the place of the set that speaks for x.
    """
    game = stream.game
    border = game.population - game.size + 1
    groups, places = [], []
    for order in stream.orders(count):
        base, outside = order[: game.size - 1], order[game.size - 1 :]
        above = np.concatenate([outside[:2], base])
        place = np.empty(game.population, dtype=np.int64)
        place[above] = border + np.arange(above.size)
        place[outside] = np.arange(outside.size)
        groups.append(
            [np.sort(np.append(base, x)) for x in outside]
            + [np.sort(above[above != x]) for x in above]
        )
        places.append(place)
    return groups, np.array(places), border


def _shifts(
    statistic: Statistic, fresh: FreshSubsets, workers: int | None
) -> tuple[FloatArray, int]:
    """Estimate how far each record moves the mean of q(D): sets that differ in it alone.

    A set of an outer group has its record, one of an inner group lacks it.
    """
    game = fresh.game
    if game.population > MOST_RECORDS:
        raise InputError(
            f"population must hold at most {MOST_RECORDS} records for an attack on the "
            f"released vector that refits, got {game.population}. Audit a sample of the records."
        )
    stream = fresh.spawned(_SHIFTS)
    rounds = max(1, math.ceil(_SHIFT_FITS / (game.population + 2)))
    groups, places, border = groups_of_every_record(stream, rounds)
    singles: list[list[Rows]] = [[rows] for group in groups for rows in group]
    fits = fitted(statistic, singles, workers=workers)
    sets = fits.rows.reshape(rounds, len(groups[0]), statistic.dimension)
    total = np.zeros((game.population, statistic.dimension))
    for outputs, place in zip(sets, places, strict=True):
        outer, inner = outputs[:border], outputs[border:]
        # Against the mean of the other sets of its group; without x the sign turns.
        outside = (outer - outer.mean(axis=0)) * (border / max(border - 1, 1))
        within = (inner.mean(axis=0) - inner) * (len(inner) / max(len(inner) - 1, 1))
        total += np.concatenate([outside, within])[place]
    return total / rounds, fits.count


def _directions(trained: _Trained, cover: FloatArray) -> FloatArray:
    """Return w_x = (noise + Σ)⁻¹Δ_x as columns."""
    total = cover + trained.spread
    total = total + _RIDGE * float(np.trace(total)) / len(total) * np.eye(len(total))
    return np.asarray(linalg.solve(total, trained.shifts.T, assume_a="pos"))


def _verdicts(
    outputs: FloatArray, middle: FloatArray, direction: FloatArray, scale: float
) -> tuple[FloatArray, float]:
    """Return the chance over the noise that each record is called a member, and its error.

    The chances are (models, records): Φ(w·(q - m)/σ‖w‖).  Sums of d products are off by at most
    (d + 4) units of Σ|terms|, in the score and in the square of the width; Φ has slope below 0.4,
    and t·Φ'(t) is below 0.25, which is what a relative error of the width moves.
    """
    width = scale * np.linalg.norm(direction, axis=0)
    safe = np.where(width > 0, width, 1.0)
    moved = outputs - middle
    unit = 4 * (len(direction) + 8) * UNIT
    score_off = unit * (np.abs(outputs) + np.abs(middle)) @ np.abs(direction) / safe
    slack = 0.5 * float(score_off.max(initial=0.0)) + 0.5 * unit
    return np.asarray(special.ndtr(moved @ direction / safe)), min(slack, 1.0)


def _expected(direction: FloatArray, trained: _Trained, cover: FloatArray) -> FloatArray:
    """Return what the attacker expects of each record: that of two normal laws, by the shifts."""
    total = np.einsum("dn,de,en->n", direction, cover + trained.spread, direction, optimize=True)
    gap = np.einsum("dn,nd->n", direction, trained.shifts)
    return np.asarray(2 * special.ndtr(gap / (2 * np.sqrt(np.where(total > 0, total, 1.0)))) - 1)
