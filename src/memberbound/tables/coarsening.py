"""Search for the certified coarsening of a table that keeps the most information.

The search starts from the table with every column dropped, which is safe, and refines column by
column.  It uses the fitting rows only; the certificate is computed afterwards from other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import EstimateOf
from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import cell_probability_lower, record_leak_upper
from memberbound.numerics.roots import least_whole
from memberbound.tables.kept_information import entropy_estimate, prediction_information
from memberbound.tables.ladders import (
    Ancestors,
    Codes,
    Ladder,
    ancestor_level,
    column_ladder,
    edge_bins,
    frequent_categories,
    frequent_groups,
    pair_codes,
    quantile_bins,
    rule_codes,
)
from memberbound.tables.recipe import Drop, Keep, Merge, Pool, Recipe, Rule, exact_codes, labels_of
from memberbound.tables.selection import Selection

if TYPE_CHECKING:
    from pandas import DataFrame, Series

#: Index of the level on every ladder, then on the list of pooling thresholds.
Levels = tuple[int, ...]

# ── Cells of a table in memory ────────────────────────────────────────────────────────────────────


def _row_cells(columns: Iterable[Codes], rows: int) -> Codes:
    """Number the combinations of several codings row by row."""
    cells = np.zeros(rows, dtype=np.int64)
    for codes in columns:
        cells = pair_codes(cells, codes)
    return cells


def cell_profile(frame: DataFrame) -> CountProfile:
    """Return the counts of counts of a table in memory; a cell is the tuple of all its values.

    Examples:
        >>> import pandas as pd
        >>> profile = cell_profile(pd.DataFrame({"a": [1, 1, None, None], "b": list("xyzz")}))
        >>> profile.count.tolist(), profile.cells.tolist()
        ([1, 2], [2, 1])
    """
    if len(frame) == 0:
        raise InputError("the table must have at least one row.")
    codes = (exact_codes(frame[name]) for name in frame.columns)
    return CountProfile.from_counts(np.bincount(_row_cells(codes, len(frame))))


# ── The search: refine the column with the most information per leak ──────────────────────────────

#: h(c) = (1-κ)·1{c ≥ 1} + κ√c, the closed form of X5(c).
_KAPPA = 1 / math.sqrt(2 * math.pi)
#: Number of standard deviations by which a prediction is moved to the safe side.
_CAUTION = 1.0
#: A refinement must add this many nats to count as an improvement.
_STEP = 1e-4
#: Number of shuffled targets for estimating the cost of a prediction.
_SHUFFLES = 4
#: Rounds without improvement before the search ends.
_PATIENCE = 2
#: Size of the beam: half of it are the most informative states, half those with the most gain per
#: leak.  A single state, chosen by gain per leak, keeps up to a quarter less information at the
#: same limit (Adult, ACS).
_WIDTH = 4


@dataclass(frozen=True)
class CoarseningScore:
    """Estimates for a coarsening: its information in nats, and the leak to be certified."""

    information: float
    leak: float
    smallest: int


@dataclass(frozen=True)
class FrontierPoint:
    """A coarsening on the frontier; both numbers are estimates."""

    information: EstimateOf
    security: EstimateOf


@dataclass(frozen=True, eq=False)
class Search:
    """A search over coarsenings of the fitting rows, with estimates of information and leak.

    Attributes:
        frame: the fitting rows.
        ladders: one per column that may be coarsened.
        fixed: rules of the columns that the search does not change, including the target.
        fixed_codes: code of every row's combination of these columns.
        kept_codes: the same without the target: the learner's input besides the coarsened columns.
        target: codes of the target, or None.
        pools: pooling thresholds in fitting rows, 0 for none.
        every: whether to pool by the rarest combination with fixed columns
            (:func:`frequent_groups`).
        rows: number of rows to certify.
        confidence: confidence of the certificate.
        subsample: part of the fitting rows, for estimating the growth with the number of rows.
        scores: the score of every coarsening evaluated so far.
    """

    frame: DataFrame
    ladders: Sequence[Ladder]
    fixed: Mapping[str, Rule]
    fixed_codes: Codes
    kept_codes: Codes
    target: Codes | None
    pools: Sequence[int]
    every: bool
    rows: int
    confidence: float
    subsample: NDArray[np.bool_]
    scores: dict[Levels, CoarseningScore] = field(default_factory=dict)

    @property
    def start(self) -> Levels:
        """The state with every column dropped, at the first pooling threshold."""
        return (0,) * (len(self.ladders) + 1)

    @property
    def finest(self) -> Levels:
        """The state with every column at its finest rule and no pooling."""
        return (*(len(ladder.rules) - 1 for ladder in self.ladders), self.pools.index(0))

    def groups(self, state: Levels) -> Codes:
        """Return the code of every row's combination of the coarsened columns, before pooling."""
        pairs = zip(self.ladders, state, strict=False)
        return _row_cells((ladder.codes[level] for ladder, level in pairs if level), self._size)

    def score(self, state: Levels, groups: Codes | None = None) -> CoarseningScore:
        """Return the cached estimates for a coarsening."""
        if state not in self.scores:
            pooled = self._pool(state, self.groups(state) if groups is None else groups)
            cell = pair_codes(pooled, self.fixed_codes)
            if self.target is None:
                information = entropy_estimate(cell)
            else:
                information = prediction_information(pooled, self.kept_codes, self.target)
            counts = np.bincount(cell)
            leak = self._expected_leak(counts, np.bincount(cell[self.subsample]))
            # Without a pool, combinations absent from the fitting rows would be cells of their own.
            certain = not self.every or self.pools[state[-1]] > 0
            self.scores[state] = CoarseningScore(
                information, leak, int(counts.min()) if certain else 0
            )
        return self.scores[state]

    def explore(
        self, start: Levels, accept: Callable[[CoarseningScore], bool], width: int = _WIDTH
    ) -> None:
        """Explore acceptable refinements of a state by beam search.

        Half of the beam are the most informative states, half those with the most information per
        leak, so that neither cheap nor informative columns are lost early.
        """
        beam, idle = [start], 0
        best = self.score(start).information
        while beam and idle < _PATIENCE:
            gains: dict[Levels, float] = {}
            for parent in beam:
                before = self.score(parent)
                for child, after in self._children(parent):
                    if accept(after):
                        price = max(after.leak - before.leak, 1e-6)
                        gain = (after.information - before.information) / price
                        gains[child] = max(gain, gains.get(child, gain))
            telling = sorted(gains, key=lambda s: (-self.scores[s].information, s))
            cheap = sorted(gains, key=lambda s: (-gains[s], s))
            half = width // 2
            beam = list(dict.fromkeys([*telling[:half], *cheap[: width - half]]))
            top = max((self.scores[s].information for s in beam), default=best)
            idle = 0 if top > best + _STEP else idle + 1
            best = max(best, top)

    def _children(self, parent: Levels) -> Iterator[tuple[Levels, CoarseningScore]]:
        """Yield every state that refines one column or changes the pooling, with its score."""
        groups = self.groups(parent)
        for index, ladder in enumerate(self.ladders):
            for level in range(parent[index] + 1, len(ladder.rules)):
                child = (*parent[:index], level, *parent[index + 1 :])
                # A finer rule can only split groups.
                finer = None if child in self.scores else pair_codes(groups, ladder.codes[level])
                yield child, self.score(child, finer)
        for pool in range(len(self.pools)):
            if pool != parent[-1] and any(parent[:-1]):
                child = (*parent[:-1], pool)
                yield child, self.score(child, groups)

    def rank(self, accept: Callable[[CoarseningScore], bool]) -> list[Levels]:
        """Return the acceptable states, most informative first, ties by order."""
        good = [
            (-score.information, state) for state, score in self.scores.items() if accept(score)
        ]
        return [state for _, state in sorted(good)]

    def front(self) -> list[Levels]:
        """Return the states that are Pareto optimal in information and security."""
        best: list[Levels] = []
        order = sorted(self.scores.items(), key=lambda item: (item[1].leak, -item[1].information))
        for state, score in order:
            if not best or score.information > self.scores[best[-1]].information:
                best.append(state)
        return best

    def information(self, states: Iterable[Levels], seed: int) -> dict[Levels, float]:
        """Return the information of some states in nats, corrected for the cost of prediction.

        That cost is the loss of the same predictions on shuffled targets.
        """
        scores = {state: self.scores[state].information for state in states}
        if self.target is None:
            return scores
        rng = np.random.default_rng(seed)
        shuffled = [rng.permutation(self.target) for _ in range(_SHUFFLES)]
        information = {}
        for state, score in scores.items():
            pooled = self._pool(state, self.groups(state))
            lost = [prediction_information(pooled, self.kept_codes, each) for each in shuffled]
            information[state] = max(0.0, score - min(0.0, float(np.mean(lost))))
        return information

    def frontier(self, information: Mapping[Levels, float]) -> tuple[FrontierPoint, ...]:
        """Return the Pareto-optimal coarsenings, from the safest to the most informative."""
        points: list[FrontierPoint] = []
        for state in self.front():
            point = FrontierPoint(information[state], max(0.0, 1 - self.scores[state].leak))
            if not points or point.information > points[-1].information:
                points.append(point)
        return tuple(points)

    def choose(self, ranked: Sequence[Levels], limit: float) -> Levels | None:
        """Return the most informative candidate that is expected to pass.

        The search uses a closed form; here the certificate itself, computed on the fitting rows,
        corrects the estimate of its tightness.
        """
        for state in ranked[:_FINALISTS]:
            expected = self.scores[state].leak
            if expected > limit:
                cell = pair_codes(self._pool(state, self.groups(state)), self.fixed_codes)
                counts = np.bincount(cell)
                profile = CountProfile.from_counts(counts)
                tight = certify_counts(profile, confidence=self.confidence).delta_upper
                expected *= tight / _closed_form(_count_sum(counts), self._size, self.confidence)
            if expected <= limit:
                return state
        return next((state for state in ranked if self.scores[state].leak <= limit), None)

    def recipe(self, state: Levels) -> Recipe:
        """Return the recipe of a state; columns without a rule are dropped."""
        pairs = zip(self.ladders, state, strict=False)
        chosen = {ladder.column: ladder.rules[level] for ladder, level in pairs}
        every = {**chosen, **self.fixed}
        rules = tuple((c, every.get(c, Drop())) for c in self.frame.columns)
        recipe = Recipe(rules, optional=tuple(self.fixed))
        below = self.pools[state[-1]]
        columns = tuple(c for c, rule in rules if c in chosen and not isinstance(rule, Drop))
        if not below or not columns:
            return recipe
        groups = self.groups(state)
        frequent = frequent_groups(groups, self.fixed_codes, below, every=self.every)
        _, first = np.unique(groups, return_index=True)
        coarse = recipe.apply(self.frame.iloc[first[frequent]])
        texts = [labels_of(coarse[c]) for c in columns]
        cells = zip(*([names[code] for code in codes] for codes, names in texts), strict=True)
        return Recipe(rules, Pool(columns, tuple(sorted(cells))), recipe.optional)

    @property
    def _size(self) -> int:
        """The number of fitting rows."""
        return int(self.fixed_codes.size)

    def _pool(self, state: Levels, group: Codes) -> Codes:
        below = self.pools[state[-1]]
        if not below:
            return group
        mask = frequent_groups(group, self.fixed_codes, below, every=self.every)
        return np.where(mask[group], group, mask.size)

    def _expected_leak(self, counts: Codes, part: Codes) -> float:
        """Return the leak that the closed form is expected to certify on ``rows`` rows.

        The sum Σh(c) grows with the number of rows like a power that falls from 1 (new cells) to ½
        (full cells), so extrapolating with the power between part and whole errs upwards.
        """
        total, less = _count_sum(counts), _count_sum(part)
        share = int(part.sum()) / self._size
        power = math.log(max(total / less, 1.0)) / -math.log(share) if 0 < share < 1 else 1.0
        grown = total * (self.rows / self._size) ** min(max(power, 0.5), 1.0)
        grown += _CAUTION * grown * math.sqrt(1 / total + 1 / grown)
        return _closed_form(grown, self.rows, self.confidence)


def _count_sum(counts: Codes) -> float:
    seen = counts[counts > 0]
    return float((1 - _KAPPA) * seen.size + _KAPPA * np.sqrt(seen).sum())


def _closed_form(total: float, rows: int, confidence: float) -> float:
    half = -math.log(1 - confidence) / 2
    return min(1.0, (math.sqrt(total + half) + math.sqrt(half)) ** 2 / rows)


# ── Choose a coarsening on the fitting rows ───────────────────────────────────────────────────────

#: Pooling thresholds in fitting rows to try if the limit is about the average record.
_POOLS = (0, 3, 10, 30, 100)
#: A target with more values than this is coarsened first: bins, or the most frequent categories.
_TARGET_VALUES, _TARGET_BINS = 20, 8
#: Number of standard deviations by which a cell's count must exceed the smallest safe count.
_DEVIATIONS = 2.0
#: The closed form used in the search is at most about this much above the best certificate.
_LOOSENESS = 1.6
#: Number of candidates to certify on the fitting rows.
_FINALISTS = 60


@dataclass(frozen=True)
class Wish:
    """A request for a coarsening: limits, columns to keep, and declarations about columns."""

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
        """The largest Δ that meets the request."""
        return 1.0 if self.security is None else 1 - self.security


def choose(
    frame: DataFrame, rows: int, wish: Wish, selection: Selection
) -> tuple[Search, Levels | None]:
    """Search on ``frame`` for the coarsening to certify on ``rows`` rows.

    Columns outside ``selection`` are dropped.  The levels are None if none are expected to pass.
    """
    forms = {c: r.form if r.numeric else "text" for c, r in selection.readings.items()}
    fixed: dict[str, Rule] = {c: Keep() for c in frame.columns if c in wish.keep}
    if wish.target is not None and wish.target not in fixed:
        fixed[wish.target] = _target_rule(frame[wish.target], forms[wish.target], wish)
    free = [c for c in frame.columns if c not in (*fixed, *selection.left_out)]
    codes = {c: rule_codes(frame[c], rule) for c, rule in fixed.items()}
    pools, every, needed = _pools(len(frame), rows, wish)
    search = Search(
        frame,
        [
            column_ladder(frame[c], forms[c], wish.edges.get(c), wish.hierarchies.get(c))
            for c in free
        ],
        fixed,
        _row_cells(codes.values(), len(frame)),
        _row_cells((codes[c] for c in codes if c != wish.target), len(frame)),
        None if wish.target is None else codes[wish.target],
        pools,
        every,
        rows,
        wish.confidence,
        np.random.default_rng(wish.seed).random(len(frame)) < 1 / 3,
    )

    def near(score: CoarseningScore) -> bool:
        return score.leak <= _LOOSENESS * wish.leak and score.smallest >= needed

    search.explore(search.start, near)
    chosen = search.choose(search.rank(near), wish.leak)
    # Go beyond the limit, to plot the rest of the frontier.
    search.score(search.finest)
    search.explore(search.start if chosen is None else chosen, lambda _: True, width=1)
    return search, chosen


def _target_rule(column: Series, form: str, wish: Wish) -> Rule:
    """Return the rule of the target, which the search does not change."""
    name = str(column.name)
    if name in wish.edges:
        return edge_bins(wish.edges[name], form)
    if name in wish.hierarchies:
        return ancestor_level(wish.hierarchies[name], 1)
    if column.nunique() <= _TARGET_VALUES:
        return Keep()
    if form != "text":
        return quantile_bins(column, form, _TARGET_BINS)
    return Merge(tuple(frequent_categories(column)[:_TARGET_VALUES]))


def _pools(fitted: int, rows: int, wish: Wish) -> tuple[tuple[int, ...], bool, int]:
    """Return pooling thresholds, whether to count rarest combinations, and the smallest cell."""
    if wish.record_leak is None:
        return tuple(p for p in _POOLS if p * 4 <= fitted), False, 0
    count = smallest_safe_count(rows, wish.record_leak, wish.confidence)
    if count is None:
        raise InputError(
            f"record_leak must be large enough for {rows} rows to certify a single cell, got "
            f"{wish.record_leak!r}. More rows certify a smaller leak."
        )
    # A cell with k fitting rows expects kr of the released ones, r = rows/fitted, give or take
    # √(kr + kr²): its own fluctuation and that of k.  So x - d√x = count is solved for x.
    ratio = rows / fitted
    deviations = _DEVIATIONS * math.sqrt(1 + ratio)
    lifted = ((deviations + math.sqrt(deviations**2 + 4 * count)) / 2) ** 2
    threshold = math.ceil(lifted / ratio)
    return (threshold, 0), True, threshold


def smallest_safe_count(rows: int, leak: float, confidence: float) -> int | None:
    """Return the smallest count of a cell that is certified to leak at most ``leak`` per record."""

    def safe(count: int) -> bool:
        lower = cell_probability_lower(rows, count, confidence)
        return float(record_leak_upper(rows * lower * (1 - 1e-12))) <= leak

    return least_whole(safe, below=1, most=rows) if rows > 1 else None
