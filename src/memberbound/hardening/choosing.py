"""Choose a coarsening on the fitting rows: ladders, limits, search, and the plan that came out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memberbound.discrete.certificates import certify_counts
from memberbound.errors import InputError
from memberbound.hardening.bench import Bench, Score, State
from memberbound.hardening.evidence import paid_confidence, row_cells, smallest_safe_count
from memberbound.hardening.ladder import (
    MIN_COUNT,
    Ladder,
    column_ladder,
    given_ladder,
    plan_codes,
)
from memberbound.hardening.search import Archive, explore, extend
from memberbound.tables.coarsening import Coarsener, Plan, frequent_categories
from memberbound.tables.hierarchy import Ancestors
from memberbound.tables.roles import Selection

__all__ = ["Choice", "Wish", "choose"]

#: Pooling thresholds in fitting rows that the search may try when the average record counts.
_POOLS = (0, 3, 10, 30, 100)
#: A target with more values than this is coarsened first: bins, or the most frequent categories.
_TARGET_VALUES, _TARGET_BINS = 20, 8
#: Standard deviations that a cell's count is kept above the smallest safe one.
_DEVIATIONS = 2.0
#: The closed form used in the search is at most about this much above the best certificate.
_LOOSENESS = 1.6
#: Certificates computed on the fitting rows to settle which candidate is expected to pass.
_FINALISTS = 60


@dataclass(frozen=True)
class Wish:
    """What is asked for: limits, columns that stay, and what the user says about columns."""

    security: float | None
    record_leak: float | None
    target: str | None
    keep: tuple[str, ...]
    edges: Mapping[str, Sequence[float]]
    hierarchies: Mapping[str, Ancestors]
    confidence: float
    seed: int

    @property
    def leak(self) -> float:
        """Largest Δ that meets the wish."""
        return 1.0 if self.security is None else 1 - self.security


@dataclass(frozen=True, eq=False)
class Choice:
    """Candidates in order of preference, with what the search saw."""

    archive: Archive
    ranked: tuple[State, ...]
    fixed_plans: Mapping[str, Plan]
    wish: Wish
    best_leak: float
    candidates: int
    left_out: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)

    def coarsener(self, state: State) -> Coarsener:
        """Return the (unfitted) transformer of a state."""
        bench = self.archive.bench
        plans = {
            ladder.column: ladder.plans[level]
            for ladder, level in zip(bench.ladders, state, strict=False)
        }
        return Coarsener(
            columns={**dict.fromkeys(self.left_out, "drop"), **self.fixed_plans, **plans},
            hierarchies={c: dict(a) for c, a in self.wish.hierarchies.items()} or None,
            min_count=MIN_COUNT,
            pool_below=bench.pools[state[-1]],
            pool_except=tuple(self.fixed_plans),
            pool_every=bench.every,
            forms=dict(self.forms) or None,
        )


def choose(
    frame: Any, rows: int, wish: Wish, selection: Selection, *, data_free: bool, width: int
) -> Choice:
    """Search on ``frame`` for the coarsening to be certified on ``rows`` rows.

    What ``selection`` leaves out is dropped.  With ``data_free`` only plans that no row influences
    are candidates; their number is what the union bound has to pay for, and it includes keeping
    what was left out after a look at the rows.
    """
    readings = selection.readings
    forms = {c: r.form if r.numeric else "text" for c, r in readings.items()}
    written = {} if data_free else {c: f for c, f in forms.items() if f not in ("number", "text")}
    fixed_plans = _fixed_plans(frame, wish, data_free, forms)
    ladders = _ladders(frame, wish, data_free, forms, selection.left_out)
    candidates = math.prod(len(given_ladder(*_given(wish, ladder.column))) for ladder in ladders)
    confidence = paid_confidence(wish.confidence, candidates if data_free else 1)
    coarse = {
        c: plan_codes(frame, c, plan, wish.hierarchies.get(c), written.get(c))
        for c, plan in fixed_plans.items()
    }
    together = frame.assign(**coarse)[list(coarse)]
    pools, every, needed = _pools(len(frame), rows, wish, confidence, data_free)
    target = None if wish.target is None else coarse[wish.target]
    bench = Bench(
        ladders,
        fixed=row_cells(together),
        keep=row_cells(together[[c for c in coarse if c != wish.target]]),
        target=target,
        pools=pools,
        every=every,
        rows=rows,
        confidence=confidence,
        subsample=np.random.default_rng(wish.seed).random(len(frame)) < 1 / 3,
    )
    archive = Archive(bench)
    if ladders:
        explore(archive, lambda s: s.leak <= _LOOSENESS * wish.leak and s.smallest >= needed, width)
    ranked = _settled(archive, wish, needed)
    if ladders:
        best_state = ranked[0] if ranked else bench.start
        archive.visit(bench.finest, best_state)
        extend(archive, best_state)
    best = min(score.leak for score in archive.scores.values())
    dropped = () if data_free else selection.left_out
    return Choice(archive, ranked, fixed_plans, wish, best, candidates, dropped, written)


def _given(wish: Wish, column: str) -> tuple[Sequence[float] | None, Ancestors | None]:
    return wish.edges.get(column), wish.hierarchies.get(column)


def _fixed_plans(
    frame: Any, wish: Wish, data_free: bool, forms: Mapping[str, str]
) -> dict[str, Plan]:
    """Plans of the columns that the search leaves alone."""
    plans: dict[str, Plan] = {c: "keep" for c in frame.columns if c in wish.keep}
    if wish.target is not None and wish.target not in plans:
        column = frame[wish.target]
        edges = wish.edges.get(wish.target)
        if edges is not None:
            plans[wish.target] = {"edges": list(edges)}
        elif wish.target in wish.hierarchies:
            plans[wish.target] = {"level": 1}
        elif data_free or column.nunique() <= _TARGET_VALUES:
            plans[wish.target] = "keep"
        elif forms[wish.target] != "text":
            plans[wish.target] = {"bins": _TARGET_BINS}
        else:
            frequent = len(frequent_categories(column, MIN_COUNT))
            plans[wish.target] = {"top": max(1, min(_TARGET_VALUES, frequent))}
    return plans


def _ladders(
    frame: Any,
    wish: Wish,
    data_free: bool,
    forms: Mapping[str, str],
    left_out: Sequence[str],
) -> list[Ladder]:
    free = [c for c in frame.columns if c not in wish.keep and c != wish.target]
    if not data_free:
        used = [c for c in free if c not in left_out]
        return [column_ladder(frame, c, *_given(wish, c), forms[c]) for c in used]
    made = []
    for column in free:
        plans = given_ladder(*_given(wish, column))
        if column in left_out:
            plans = plans[:1]
        ancestors = wish.hierarchies.get(column)
        codes = tuple(plan_codes(frame, column, plan, ancestors) for plan in plans)
        made.append(Ladder(column, tuple(plans), codes))
    return made


def _pools(
    fitted: int, rows: int, wish: Wish, confidence: float, data_free: bool
) -> tuple[tuple[int, ...], bool, int]:
    """Return pooling thresholds, how to count, and the smallest cell allowed among fitting rows."""
    if wish.record_leak is None:
        pools = (0,) if data_free else tuple(p for p in _POOLS if p * 4 <= fitted)
        return pools, False, 0
    count = smallest_safe_count(rows, wish.record_leak, confidence)
    if count is None:
        raise InputError(
            f"record_leak must be at least what {rows} rows can certify for a single cell, got "
            f"{wish.record_leak!r}. More rows certify less."
        )
    if data_free:
        return (0,), False, math.ceil(count * fitted / rows)
    # A cell with k fitting rows expects kr of the released ones, r = rows/fitted, give or take
    # √(kr + kr²): its own fluctuation and that of k.
    ratio = rows / fitted
    threshold = math.ceil(_lifted(count, _DEVIATIONS * math.sqrt(1 + ratio)) / ratio)
    return (threshold, 0), True, threshold


def _lifted(value: float, deviations: float) -> float:
    """Solve x - d√x = value."""
    return ((deviations + math.sqrt(deviations**2 + 4 * value)) / 2) ** 2


def _settled(archive: Archive, wish: Wish, needed: int) -> tuple[State, ...]:
    """Return the candidates expected to pass, most informative first.

    The search used a closed form; here the certificate itself, computed on the fitting rows,
    corrects how tight it is expected to be.
    """
    bench = archive.bench

    def near(score: Score) -> bool:
        return score.leak <= _LOOSENESS * wish.leak and score.smallest >= needed

    found: list[State] = []
    for state in archive.ranked(near)[:_FINALISTS]:
        expected = archive.scores[state].leak
        if expected > wish.leak:
            profile = bench.profile(state)
            tight = certify_counts(profile, confidence=bench.confidence).delta_upper
            expected *= tight / bench.closed_form(profile.expanded())
        if expected <= wish.leak:
            found.append(state)
    if not found:
        safe = [s for s in archive.ranked(near) if archive.scores[s].leak <= wish.leak]
        found = safe[:1]
    return tuple(found)
