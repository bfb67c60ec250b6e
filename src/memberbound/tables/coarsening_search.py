"""The search of ``harden``: which coarsening of a table keeps most and is still certified.

It starts from the table with every column dropped, which is safe, and refines column by column.
It looks only at the fitting rows; the certificate is computed afterwards from rows that took no
part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import EstimateOf
from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import cell_probability_lower, record_leak_upper
from memberbound.numerics.roots import least_whole
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.coarsening import (
    Ancestors,
    Coarsener,
    Plan,
    frequent_categories,
    frequent_groups,
)
from memberbound.tables.recipe import Drop, exact_codes, labels_of
from memberbound.tables.roles import Selection

if TYPE_CHECKING:
    from pandas import DataFrame

Codes = NDArray[np.int64]
#: Position on every ladder, then on the list of pooling thresholds.
State = tuple[int, ...]

# ── How much a coarsened table still says: estimates, never certificates ──────────────────────────
#
# With a target the measure is the mutual information between the coarsened row and the target, by
# leave-one-out prediction: each row's target is predicted from the other rows of its cell.  The
# plug-in value would claim to know the target of all-distinct rows completely.  Cells with few rows
# lean on the prediction of the coarser cell around them.
#
# A prediction has a price: the shares in a cell are estimated from its rows, which costs about
# (cells - 1)(values - 1)/2N nats.  The search pays it, since a learner would; as an estimate of the
# information it is a bias.  Reported is therefore the gain over the same prediction for shuffled
# targets, which say nothing and cost the same.
#
# Without a target the measure is the entropy of the coarsened row, with the Miller–Madow
# correction.

#: Weight of the coarser cell's prediction, in rows per value of the target, when a cell predicts.
_PRIOR_ROWS = 1.0


def _target_shares(target: Codes) -> FloatArray:
    """Return for every row the share of its target value among all rows."""
    return np.bincount(target)[target] / target.size


def _left_out_prediction(cell: Codes, target: Codes, prior: FloatArray) -> FloatArray:
    """Return for every row the probability its own target gets from the other rows of its cell.

    ``prior`` is that probability from a coarser table, made without the row as well.
    """
    width = int(target.max()) + 1
    others = np.bincount(cell)[cell] - 1.0
    same = _counts_at(cell * width + target) - 1.0
    weight = _PRIOR_ROWS * width
    return (same + weight * prior) / (others + weight)


def entropy_estimate(cell: Codes) -> float:
    """Return an estimate of the entropy of the cell in nats.

    Examples:
        >>> round(entropy_estimate(np.tile(np.arange(4), 250)), 2)  # ln 4 = 1.386
        1.39
    """
    counts = np.bincount(cell)
    counts = counts[counts > 0]
    shares = counts / cell.size
    return float(-shares @ np.log(shares) + (counts.size - 1) / (2 * cell.size))


def _counts_at(keys: Codes) -> Codes:
    """Return for every row how many rows have its key; keys may be large."""
    if int(keys.max()) < 8 * keys.size:
        return np.bincount(keys)[keys]
    import pandas as pd

    codes: Codes = pd.factorize(keys)[0]
    return np.bincount(codes)[codes]


# ── Cells of a table in memory, and what can be certified from them ───────────────────────────────


def _row_cells(frame: DataFrame) -> Codes:
    """Number the cells of a table row by row; a cell is the tuple of all its values."""
    cells = np.zeros(len(frame), dtype=np.int64)
    for name in frame.columns:
        cells = _joined(cells, exact_codes(frame[name]))
    return cells


def _joined(first: Codes, second: Codes) -> Codes:
    """Number the pairs of two codings from 0, without gaps."""
    import pandas as pd

    key = first * (int(second.max(initial=0)) + 1) + second
    codes: Codes = pd.factorize(key)[0]
    return codes.astype(np.int64)


def cell_profile(frame: DataFrame) -> CountProfile:
    """Return the counts of counts of a table in memory.

    Examples:
        >>> import pandas as pd
        >>> profile = cell_profile(pd.DataFrame({"a": [1, 1, None, None], "b": list("xyzz")}))
        >>> profile.count.tolist(), profile.cells.tolist()
        ([1, 2], [2, 1])
    """
    if len(frame) == 0:
        raise InputError("the table must have at least one row.")
    return CountProfile.from_counts(np.bincount(_row_cells(frame)))


def smallest_safe_count(rows: int, leak: float, confidence: float) -> int | None:
    """Return the smallest count whose cell is certified to leak at most ``leak`` per record."""

    def safe(count: int) -> bool:
        lower = cell_probability_lower(rows, count, confidence)
        return float(record_leak_upper(rows * lower * (1 - 1e-12))) <= leak

    return least_whole(safe, below=1, most=rows) if rows > 1 else None


# ── The ladder of a column: from dropped, over ever finer plans, to the column as it is ───────────
#
# Each plan is a coarsening of the next one on the fitting rows, so refining a column splits cells
# and never moves rows between them.

#: A category must occur this often among the fitting rows to be named in a recipe.
_MIN_COUNT = 5
_SIZES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class Ladder:
    """Plans of one column from coarse to fine, with the fitting rows' codes under each."""

    column: str
    plans: tuple[Plan, ...]
    codes: tuple[Codes, ...]

    def __len__(self) -> int:
        return len(self.plans)


def column_ladder(
    frame: DataFrame,
    column: str,
    form: str,
    edges: Sequence[float] | None = None,
    ancestors: Ancestors | None = None,
) -> Ladder:
    """Return the ladder of a column, without plans that split no cell of the plan before them.

    Given edges or a hierarchy replace quantiles and counts.  ``form`` is how numbers or dates are
    written, ``text`` for a column that holds neither.
    """
    finest: Plan = "keep"
    steps: list[Plan]
    if edges is not None:
        finest, steps = {"edges": list(edges)}, []
        while len(edges) > 1:
            edges = edges[1::2]
            steps.insert(0, {"edges": list(edges)})
    elif ancestors is not None:
        depth = len(next(iter(ancestors.values())))
        steps = [{"level": level} for level in range(depth, 0, -1)]
    elif form != "text":
        steps = [{"bins": size} for size in _SIZES]
    else:
        most = len(frequent_categories(frame[column], _MIN_COUNT))
        sizes = sorted({size for size in (1, *_SIZES, most) if 1 <= size <= min(most, _SIZES[-1])})
        steps = [{"top": size} for size in sizes]
    kept: list[Plan] = []
    codes: list[Codes] = []
    cells = 0
    for plan in ("drop", *steps, finest):
        plan_codes = _plan_codes(frame, column, plan, ancestors, form)
        size = np.unique(plan_codes).size
        if size > cells:
            kept.append(plan)
            codes.append(plan_codes)
            cells = size
        elif "top" in plan and "top" in kept[-1]:
            kept[-1] = plan  # the same cells, but the last category goes by its own name
    return Ladder(column, tuple(kept), tuple(codes))


def _plan_codes(
    frame: DataFrame,
    column: str,
    plan: Plan,
    ancestors: Ancestors | None = None,
    form: str | None = None,
) -> Codes:
    """Return the number of every row's coarsened value."""
    maker = Coarsener(
        {column: plan},
        hierarchies=None if ancestors is None else {column: ancestors},
        min_count=_MIN_COUNT,
        forms=None if form is None else {column: form},
    )
    ((_, rule),) = maker.fit(frame[[column]]).recipe_.rules
    if isinstance(rule, Drop):
        return np.zeros(len(frame), dtype=np.int64)
    return labels_of(rule.apply(frame[column]))[0]


# ── The fitting rows as numbers: what a coarsening would keep, and what it would certify later ────

#: h(c) = (1-κ)·1{c ≥ 1} + κ√c, the closed form of X5(c).
_KAPPA = 1 / math.sqrt(2 * math.pi)
#: How many standard deviations a prediction is moved to the safe side.
_CAUTION = 1.0


@dataclass(frozen=True)
class Score:
    """Estimates for one coarsening: information in nats, the leak expected to be certified."""

    information: float
    leak: float
    smallest: int

    @property
    def security(self) -> float:
        """The MIS expected to be certified."""
        return 1 - self.leak


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluate coarsenings of the fitting rows.

    Attributes:
        ladders: one per column that may be coarsened.
        fixed: numbers of every row's combination of columns that stay as they are, target included.
        keep: the same without the target: what a learner sees besides the coarsened columns.
        target: numbers of the target, or None.
        pools: pooling thresholds in fitting rows, 0 for none.
        every: pool by the rarest combination with ``fixed``, see ``Coarsener``.
        rows: how many rows will be certified.
        confidence: at which confidence.
        subsample: part of the fitting rows, from which growth with the number of rows is read off.
    """

    ladders: Sequence[Ladder]
    fixed: Codes
    keep: Codes
    target: Codes | None
    pools: Sequence[int]
    every: bool
    rows: int
    confidence: float
    subsample: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """The number of fitting rows."""
        return int(self.fixed.size)

    @cached_property
    def _shares(self) -> FloatArray:
        return np.ones(self.size) if self.target is None else _target_shares(self.target)

    @cached_property
    def _prior(self) -> FloatArray:
        """What the columns that stay predict by themselves."""
        if self.target is None:
            return self._shares
        return _left_out_prediction(self.keep, self.target, self._shares)

    def shuffled(self, order: Codes) -> Evaluator:
        """Return the same evaluator with the target's values in another order: they say nothing."""
        return replace(self, target=None if self.target is None else self.target[order])

    @property
    def start(self) -> State:
        """Every column dropped, the first pooling threshold."""
        return (0,) * (len(self.ladders) + 1)

    @property
    def finest(self) -> State:
        """Every column as fine as its ladder goes, nothing pooled."""
        return (*(len(ladder) - 1 for ladder in self.ladders), self.pools.index(0))

    def groups(self, state: State) -> Codes:
        """Number the combinations of the coarsened columns, before pooling."""
        key = np.zeros(self.size, dtype=np.int64)
        for ladder, level in zip(self.ladders, state, strict=False):
            if level:
                key = _joined(key, ladder.codes[level])
        return key

    def score(
        self, state: State, groups: Codes, prior: FloatArray | None = None
    ) -> tuple[Score, FloatArray | None]:
        """Return the estimates for one coarsening, and what it predicts row by row.

        ``prior`` is the prediction of a coarser state, at first that of the columns that stay.
        """
        pooled = self._pooled(state, groups)
        cell = _joined(pooled, self.fixed)
        prediction = None
        if self.target is None:
            information = entropy_estimate(cell)
        else:
            coarser = self._prior if prior is None else prior
            if pooled is not groups:
                # A pooled row is left with the columns that stay.
                coarser = np.where(pooled == pooled.max(), self._prior, coarser)
            prediction = _left_out_prediction(_joined(pooled, self.keep), self.target, coarser)
            information = self.information(prediction)
        counts = np.bincount(cell)
        leak = self._predicted(counts, np.bincount(cell[self.subsample]))
        # Without a pool, combinations that the fitting rows lack would form cells of their own.
        certain = not self.every or self.pools[state[-1]] > 0
        return Score(information, leak, int(counts.min()) if certain else 0), prediction

    def information(self, prediction: FloatArray) -> float:
        """Return by how many nats a prediction is better than the shares of the target."""
        return float(np.mean(np.log(prediction / self._shares)))

    def profile(self, state: State) -> CountProfile:
        """Return the counts of counts of the fitting rows under one coarsening."""
        cell = _joined(self._pooled(state, self.groups(state)), self.fixed)
        return CountProfile.from_counts(np.bincount(cell))

    def closed_form(self, counts: Codes) -> float:
        """The closed form of X5(c) on the fitting rows, to compare other methods with."""
        return _certified(_count_sum(counts), self.size, self.confidence)

    def _pooled(self, state: State, group: Codes) -> Codes:
        below = self.pools[state[-1]]
        if not below:
            return group
        mask = frequent_groups(group, self.fixed, below, every=self.every)
        return np.where(mask[group], group, mask.size) if not mask.all() else group

    def _predicted(self, counts: Codes, part: Codes) -> float:
        """Leak that the closed form is expected to certify on ``rows`` rows.

        The sum Σh(c) grows with the number of rows like a power that falls from 1 (new cells) to
        ½ (full cells), so extending the power seen between part and whole errs upward.
        """
        total, less = _count_sum(counts), _count_sum(part)
        share = int(part.sum()) / self.size
        power = math.log(max(total / less, 1.0)) / -math.log(share) if 0 < share < 1 else 1.0
        grown = total * (self.rows / self.size) ** min(max(power, 0.5), 1.0)
        grown += _CAUTION * grown * math.sqrt(1 / total + 1 / grown)
        return _certified(grown, self.rows, self.confidence)


def _count_sum(counts: Codes) -> float:
    seen = counts[counts > 0]
    return float((1 - _KAPPA) * seen.size + _KAPPA * np.sqrt(seen).sum())


def _certified(total: float, rows: int, confidence: float) -> float:
    half = -math.log(1 - confidence) / 2
    return min(1.0, (math.sqrt(total + half) + math.sqrt(half)) ** 2 / rows)


# ── Search over coarsenings: refine, column by column, what tells most for its price ──────────────

#: A refinement must add this many nats to count as an improvement.
_STEP = 1e-4
#: Shuffled targets from which the cost of a prediction is read off.
_SHUFFLES = 4
#: Rounds without improvement before the search ends.
_PATIENCE = 2
#: Half are the most informative states, half the cheapest.  One state, chosen by gain per leak,
#: keeps up to a quarter less information at the same limit (Adult, ACS).
_WIDTH = 4


@dataclass
class Visited:
    """Every coarsening that was looked at, with its estimates and the one it was refined from."""

    evaluator: Evaluator
    scores: dict[State, Score] = field(default_factory=dict)
    _parents: dict[State, State] = field(default_factory=dict)
    _predictions: dict[State, FloatArray | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start = self.evaluator.start
        self.scores[start], _ = self.evaluator.score(start, self.evaluator.groups(start))

    def visit(self, child: State, parent: State, groups: Codes | None = None) -> Score:
        """Return the estimates of a state, computing them once, by way of ``parent``."""
        if child not in self.scores:
            if groups is None:
                groups = self.evaluator.groups(child)
            score, _ = self.evaluator.score(child, groups, self.prediction(parent))
            self.scores[child], self._parents[child] = score, parent
        return self.scores[child]

    def prediction(self, state: State) -> FloatArray | None:
        """Return the row-by-row prediction of a visited state, made again along its way."""
        if state not in self._predictions:
            above = self._parents.get(state)
            prior = None if above is None else self.prediction(above)
            groups = self.evaluator.groups(state)
            self._predictions[state] = self.evaluator.score(state, groups, prior)[1]
        return self._predictions[state]

    def forget(self, but: Iterable[State]) -> None:
        """Drop the predictions of all states but these: only the beam needs them."""
        kept = set(but)
        self._predictions = {s: p for s, p in self._predictions.items() if s in kept}

    def ranked(self, accept: Callable[[Score], bool]) -> list[State]:
        """Return the acceptable states, most informative first, ties by order."""
        good = [
            (-score.information, state) for state, score in self.scores.items() if accept(score)
        ]
        return [state for _, state in sorted(good)]

    def front(self) -> list[State]:
        """Return the states that no other one beats in both information and security."""
        best: list[State] = []
        order = sorted(self.scores.items(), key=lambda item: (item[1].leak, -item[1].information))
        for state, score in order:
            if not best or score.information > self.scores[best[-1]].information:
                best.append(state)
        return best

    def information(self, states: Iterable[State], seed: int = 0) -> dict[State, float]:
        """Return the information of some states in nats, without what guessing shares costs.

        That cost is what the same predictions lose for shuffled targets.
        """
        wanted = list(states)
        if self.evaluator.target is None:
            return {state: self.scores[state].information for state in wanted}
        rng = np.random.default_rng(seed)
        lost = np.zeros((_SHUFFLES, len(wanted)))
        for row in lost:
            twin = Visited(self.evaluator.shuffled(rng.permutation(self.evaluator.size)))
            twin._parents = self._parents
            for place, state in enumerate(wanted):
                prediction = twin.prediction(state)
                assert prediction is not None
                row[place] = twin.evaluator.information(prediction)
        costs = np.minimum(lost.mean(axis=0), 0.0)
        return {
            state: max(0.0, self.scores[state].information - float(cost))
            for state, cost in zip(wanted, costs, strict=True)
        }


def explore(visited: Visited, accept: Callable[[Score], bool]) -> None:
    """Beam search from the coarsest state through acceptable states.

    Half of the beam are the most informative states, half those that gain most information per
    leak, so that neither a cheap column nor a telling one is lost early.
    """
    beam = [visited.evaluator.start]
    best = visited.scores[beam[0]].information
    idle = 0
    while beam and idle < _PATIENCE:
        gains: dict[State, float] = {}
        for parent in beam:
            before = visited.scores[parent]
            for child, after in _children(visited, parent):
                if accept(after):
                    price = max(after.leak - before.leak, 1e-6)
                    gain = (after.information - before.information) / price
                    gains[child] = max(gain, gains.get(child, gain))
        telling = sorted(gains, key=lambda s: (-visited.scores[s].information, s))
        cheap = sorted(gains, key=lambda s: (-gains[s], s))
        visited.forget(beam)
        beam = list(dict.fromkeys([*telling[: _WIDTH // 2], *cheap[: _WIDTH // 2]]))
        top = max((visited.scores[s].information for s in beam), default=best)
        idle = 0 if top > best + _STEP else idle + 1
        best = max(best, top)


def extend(visited: Visited, state: State) -> None:
    """Follow the best gain beyond the limit, to draw the rest of the frontier."""
    here = visited.scores[state]
    while here.leak < 1:
        options = []
        for child, after in _children(visited, state):
            if after.information > here.information + _STEP:
                price = max(after.leak - here.leak, 1e-6)
                options.append(((here.information - after.information) / price, child))
        if not options:
            return
        visited.forget([state])
        state = min(options)[1]
        here = visited.scores[state]


def _children(visited: Visited, parent: State) -> Iterator[tuple[State, Score]]:
    """Yield every state that refines one column or changes the pooling, with its score."""
    evaluator = visited.evaluator
    groups = evaluator.groups(parent)
    for index, ladder in enumerate(evaluator.ladders):
        for level in range(parent[index] + 1, len(ladder)):
            child = (*parent[:index], level, *parent[index + 1 :])
            if child not in visited.scores:
                # A finer plan only splits groups.
                visited.visit(child, parent, _joined(groups, ladder.codes[level]))
            yield child, visited.scores[child]
    for pool in range(len(evaluator.pools)):
        if pool != parent[-1] and any(parent[:-1]):
            child = (*parent[:-1], pool)
            yield child, visited.visit(child, parent, groups)


@dataclass(frozen=True)
class FrontierPoint:
    """One coarsening on the frontier: both numbers are estimates."""

    information: EstimateOf
    security: EstimateOf


def frontier(visited: Visited, information: Mapping[State, float]) -> tuple[FrontierPoint, ...]:
    """Return the coarsenings that none beats in both, from the safest to the most telling."""
    points: list[FrontierPoint] = []
    for state in visited.front():
        point = FrontierPoint(information[state], max(0.0, visited.scores[state].security))
        if not points or point.information > points[-1].information:
            points.append(point)
    return tuple(points)


# ── Choose a coarsening on the fitting rows: ladders, limits, search, and the plan that came out

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
    """The coarsening expected to pass, if any, with what the search saw."""

    visited: Visited
    state: State | None
    fixed_plans: Mapping[str, Plan]
    wish: Wish
    left_out: tuple[str, ...]
    forms: Mapping[str, str]

    @property
    def best_leak(self) -> float:
        """The smallest leak that was expected of any coarsening."""
        return min(score.leak for score in self.visited.scores.values())

    def coarsener(self, state: State) -> Coarsener:
        """Return the (unfitted) transformer of a state."""
        evaluator = self.visited.evaluator
        plans = {
            ladder.column: ladder.plans[level]
            for ladder, level in zip(evaluator.ladders, state, strict=False)
        }
        return Coarsener(
            columns={**dict.fromkeys(self.left_out, "drop"), **self.fixed_plans, **plans},
            hierarchies={c: dict(a) for c, a in self.wish.hierarchies.items()} or None,
            min_count=_MIN_COUNT,
            pool_below=evaluator.pools[state[-1]],
            pool_except=tuple(self.fixed_plans),
            pool_every=evaluator.every,
            forms=dict(self.forms) or None,
        )


def choose(frame: DataFrame, rows: int, wish: Wish, selection: Selection) -> Choice:
    """Search on ``frame`` for the coarsening to be certified on ``rows`` rows.

    What ``selection`` leaves out is dropped.
    """
    forms = {c: r.form if r.numeric else "text" for c, r in selection.readings.items()}
    written = {c: form for c, form in forms.items() if form not in ("number", "text")}
    fixed_plans = _fixed_plans(frame, wish, forms)
    free = [c for c in frame.columns if c not in (*fixed_plans, *selection.left_out)]
    ladders = [
        column_ladder(frame, c, forms[c], wish.edges.get(c), wish.hierarchies.get(c)) for c in free
    ]
    coarse = {
        c: _plan_codes(frame, c, plan, wish.hierarchies.get(c), written.get(c))
        for c, plan in fixed_plans.items()
    }
    together = frame.assign(**coarse)[list(coarse)]
    pools, every, needed = _pools(len(frame), rows, wish)
    evaluator = Evaluator(
        ladders,
        fixed=_row_cells(together),
        keep=_row_cells(together[[c for c in coarse if c != wish.target]]),
        target=None if wish.target is None else coarse[wish.target],
        pools=pools,
        every=every,
        rows=rows,
        confidence=wish.confidence,
        subsample=np.random.default_rng(wish.seed).random(len(frame)) < 1 / 3,
    )

    def near(score: Score) -> bool:
        return score.leak <= _LOOSENESS * wish.leak and score.smallest >= needed

    visited = Visited(evaluator)
    if ladders:
        explore(visited, near)
    chosen = _settled(visited, visited.ranked(near), wish.leak)
    if ladders:
        best = evaluator.start if chosen is None else chosen
        visited.visit(evaluator.finest, best)
        extend(visited, best)
    return Choice(visited, chosen, fixed_plans, wish, selection.left_out, written)


def _fixed_plans(frame: DataFrame, wish: Wish, forms: Mapping[str, str]) -> dict[str, Plan]:
    """Plans of the columns that the search leaves alone."""
    plans: dict[str, Plan] = {c: "keep" for c in frame.columns if c in wish.keep}
    if wish.target is not None and wish.target not in plans:
        column = frame[wish.target]
        edges = wish.edges.get(wish.target)
        if edges is not None:
            plans[wish.target] = {"edges": list(edges)}
        elif wish.target in wish.hierarchies:
            plans[wish.target] = {"level": 1}
        elif column.nunique() <= _TARGET_VALUES:
            plans[wish.target] = "keep"
        elif forms[wish.target] != "text":
            plans[wish.target] = {"bins": _TARGET_BINS}
        else:
            frequent = len(frequent_categories(column, _MIN_COUNT))
            plans[wish.target] = {"top": max(1, min(_TARGET_VALUES, frequent))}
    return plans


def _pools(fitted: int, rows: int, wish: Wish) -> tuple[tuple[int, ...], bool, int]:
    """Return pooling thresholds, how to count, and the smallest cell allowed among fitting rows."""
    if wish.record_leak is None:
        return tuple(p for p in _POOLS if p * 4 <= fitted), False, 0
    count = smallest_safe_count(rows, wish.record_leak, wish.confidence)
    if count is None:
        raise InputError(
            f"record_leak must be at least what {rows} rows can certify for a single cell, got "
            f"{wish.record_leak!r}. More rows certify less."
        )
    # A cell with k fitting rows expects kr of the released ones, r = rows/fitted, give or take
    # √(kr + kr²): its own fluctuation and that of k.
    ratio = rows / fitted
    threshold = math.ceil(_lifted(count, _DEVIATIONS * math.sqrt(1 + ratio)) / ratio)
    return (threshold, 0), True, threshold


def _lifted(value: float, deviations: float) -> float:
    """Solve x - d√x = value."""
    return ((deviations + math.sqrt(deviations**2 + 4 * value)) / 2) ** 2


def _settled(visited: Visited, ranked: Sequence[State], limit: float) -> State | None:
    """Return the most informative candidate that is expected to pass.

    The search used a closed form; here the certificate itself, computed on the fitting rows,
    corrects how tight it is expected to be.
    """
    evaluator = visited.evaluator
    for state in ranked[:_FINALISTS]:
        expected = visited.scores[state].leak
        if expected > limit:
            profile = evaluator.profile(state)
            tight = certify_counts(profile, confidence=evaluator.confidence).delta_upper
            expected *= tight / evaluator.closed_form(profile.expanded())
        if expected <= limit:
            return state
    return next((state for state in ranked if visited.scores[state].leak <= limit), None)
