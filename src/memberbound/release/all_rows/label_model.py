"""Label model: an additive softmax for the target given the other columns.

The score of a group of the target is an intercept plus an effect per bin of every column.  Effects
are fitted once, by penalised Newton steps, so that drawn rows have the measured (bin, group)
counts.  One noisy histogram of scores and hits calibrates their size, and the intercepts are
tied to the measured group counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.balanced_labels import draw_balanced
from memberbound.release.all_rows.histograms import count_cells
from memberbound.release.all_rows.marginals import IntArray, LabelledRows, ReleasedColumn, project

#: Prior standard deviations of an effect, and of the difference of neighbouring bins' effects.
_CLASS_PRIOR = (0.3, 0.4)
#: The same for groups that are ranges of numbers, which other columns may determine.
_NUMBER_PRIOR = (2.0, 1.5)
#: Candidate factors of both deviations for a column, and their prior spread (natural log).
_PRIOR_SCALES = tuple(3.0 ** (k / 2) for k in range(-2, 5))
_PRIOR_SPREAD = 0.7
#: Maximum number of Newton steps, and of halvings of a step.
_STEPS, _HALVINGS = 20, 12
#: Scores are whole multiples of 1/64, so that their sums are exact.
GRID = 64.0
#: Score bins of the calibration histogram.
SCORE_BINS = 12
#: Candidate factors of the effects for calibration, and their prior spread (natural log).
_FACTORS = np.exp(np.linspace(-1.5, 1.2, 28))
_FACTOR_SPREAD = 0.5
#: Number of rows per softmax computation.
_ROWS = 2**17


def softmax(scores: FloatArray) -> FloatArray:
    """Return softmax probabilities, row by row."""
    sizes = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(sizes / sizes.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Scores of the target's groups: an intercept each, and an effect per bin of every column.

    ``factor`` multiplies the effects of drawn rows; the effects themselves lie on the grid.
    """

    intercepts: FloatArray
    effects: tuple[FloatArray, ...]
    factor: float = 1.0

    def additive(self, bins: Sequence[NDArray[np.integer[Any]]]) -> FloatArray:
        """Return the exact sum of effects for every row and group."""
        scores = np.zeros((len(bins[0]) if bins else 0, len(self.intercepts)))
        for effect, index in zip(self.effects, bins, strict=True):
            scores += effect[index]
        return scores

    def likely(self, additive: FloatArray) -> FloatArray:
        """Return the probability of every group, given sums of effects."""
        return softmax(self.intercepts + self.factor * additive)

    def tie_intercepts(self, additive: FloatArray, shares: FloatArray) -> LabelModel:
        """Adjust the intercepts such that drawn rows have these shares of groups."""
        intercepts = np.log(shares)
        for _ in range(60):
            reached = softmax(intercepts + self.factor * additive).mean(axis=0)
            step = np.log(shares / np.maximum(reached, 1e-300))
            intercepts = intercepts + step
            if np.abs(step).max() < 1e-7:
                break
        return replace(self, intercepts=intercepts - intercepts.max())

    def sample(
        self, bins: Sequence[IntArray], groups: FloatArray, draws: np.random.Generator
    ) -> IntArray:
        """Draw a group for every row, near the measured group totals."""
        rows = len(bins[0])
        additive = np.empty((rows, len(groups)))
        for start in range(0, rows, _ROWS):
            cut = slice(start, start + _ROWS)
            additive[cut] = self.additive([index[cut] for index in bins])
        likely = self.tie_intercepts(additive, groups / groups.sum()).likely(additive)
        return draw_balanced(likely, bins, draws)


def fit_label_model(
    columns: Sequence[ReleasedColumn],
    groups: FloatArray,
    bins: Sequence[IntArray],
    *,
    numbers: bool = False,
) -> LabelModel:
    """Fit the label model to noisy (bin, group) counts, on the bins of drawn rows.

    The objective is convex and is minimised by Newton steps with a line search.  Set ``numbers`` if
    groups are ranges of numbers.
    """
    prior = _NUMBER_PRIOR if numbers else _CLASS_PRIOR
    objective = _Objective.of(columns, groups, bins, prior)
    effects = np.zeros_like(objective.moments)
    scores = objective.scores(effects)
    value = objective.loss(effects, scores)
    for _ in range(_STEPS):
        step, slope = objective.newton_step(effects, scores)
        length = 1.0
        for _ in range(_HALVINGS):
            tried = effects - length * step
            scores = objective.scores(tried)
            after = objective.loss(tried, scores)
            if after <= value - 1e-4 * length * slope:
                break
            length /= 2
        done = value - after < 1e-5 * max(1.0, slope)
        effects, value = tried, after
        if done:
            break
    parts = np.split(np.rint(effects * GRID) / GRID, objective.offsets[1:-1])
    return LabelModel(objective.base, tuple(parts))


@dataclass(frozen=True, eq=False)
class _Objective:
    """The objective Σ log Σ exp(score) - Σ effect·moment + ½ Σ ridge·effect² over drawn rows.

    The moment of a bin and a group is the group's share of the drawn rows in the bin, plus the
    measured excess.  The ridge of a bin grows with the noise of its count.  With two groups only
    the difference of their effects matters, so they are ± half of it.
    """

    bins: Sequence[IntArray]
    offsets: IntArray
    base: FloatArray
    moments: FloatArray
    ridges: Sequence[FloatArray]

    @classmethod
    def of(
        cls,
        columns: Sequence[ReleasedColumn],
        groups: FloatArray,
        bins: Sequence[IntArray],
        prior: tuple[float, float],
    ) -> _Objective:
        """Build the objective from measured columns and drawn rows."""
        shares = groups / groups.sum()
        ratio = len(bins[0]) / groups.sum()
        size = len(groups)
        offsets = np.cumsum([0, *(len(column.bins) for column in columns)])
        moments = np.zeros((offsets[-1], size))
        ridges = [np.zeros((offsets[-1], offsets[-1])) for _ in groups]
        for index, (column, drawn) in enumerate(zip(columns, bins, strict=True)):
            own = slice(offsets[index], offsets[index + 1])
            number = np.bincount(drawn, minlength=len(column.bins))
            excess = column.noisy - column.noisy.sum(axis=1, keepdims=True) * shares
            moments[own] = number[:, None] * shares + ratio * excess
            # The moment's increase per unit of the effect, and the variance of the excess.
            gain = np.maximum(number, 1.0)[:, None] * shares * (1 - shares)
            spread = (1 - shares) ** 2 + (size - 1) * shares**2
            variance = gain + (ratio * column.scale) ** 2 * spread
            precision = _prior(column, ratio * excess, gain, variance, prior)
            for group, ridge in enumerate(ridges):
                # The posterior mode if this were the only column.
                weight = np.sqrt(variance[:, group] / gain[:, group])
                ridge[own, own] = precision * np.outer(weight, weight)
        return cls(bins, offsets, np.log(shares), moments, ridges)

    @property
    def fitted(self) -> tuple[int, ...]:
        """The groups with free effects."""
        return tuple(range(len(self.base))) if len(self.base) > 2 else (1,)

    def free(self, effects: FloatArray) -> FloatArray:
        """Return the free effects, a column per group."""
        return effects if len(self.base) > 2 else effects[:, 1:] - effects[:, :1]

    def scores(self, effects: FloatArray) -> FloatArray:
        """Return the scores of drawn rows."""
        total = np.tile(self.base, (len(self.bins[0]), 1))
        for index, offset in zip(self.bins, self.offsets, strict=False):
            total += effects[index + offset]
        return total

    def loss(self, effects: FloatArray, scores: FloatArray) -> float:
        """Return the objective."""
        top = scores.max(axis=1)
        value = np.log(np.exp(scores - top[:, None]).sum(axis=1)).sum() + top.sum()
        value -= (effects * self.moments).sum()
        for free, group in zip(self.free(effects).T, self.fitted, strict=True):
            value += 0.5 * free @ self.ridges[group] @ free
        return float(value)

    def newton_step(self, effects: FloatArray, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the Newton step of every group, and the objective's decrease along it."""
        likely = softmax(scores)
        step, slope = np.zeros_like(effects), 0.0
        sizes = np.diff(self.offsets)
        free = self.free(effects)
        for index, group in enumerate(self.fitted):
            p = likely[:, group]
            expected = np.concatenate(
                [np.bincount(b, p, n) for b, n in zip(self.bins, sizes, strict=True)]
            )
            gradient = expected - self.moments[:, group] + self.ridges[group] @ free[:, index]
            curvature = _curvature(self.bins, sizes, p * (1 - p)) + self.ridges[group]
            curvature[np.diag_indices_from(curvature)] += 1e-6
            change = np.linalg.solve(curvature, gradient)
            slope += float(gradient @ change)
            step[:, group] = change
        if len(self.base) == 2:
            step = np.column_stack([-step[:, 1] / 2, step[:, 1] / 2])
        return step, slope


def _prior(
    column: ReleasedColumn,
    excess: FloatArray,
    gain: FloatArray,
    variance: FloatArray,
    prior: tuple[float, float],
) -> FloatArray:
    """Return the prior precision of a column's effects, and of differences of neighbours.

    The scale is the one that best explains the measured excess (empirical Bayes), with a
    preference for the usual one.
    """
    size, ordered = len(excess), column.ordered_bins
    precision = np.eye(size) / prior[0] ** 2
    for k in range(ordered - 1):
        precision[k : k + 2, k : k + 2] += np.array([[1, -1], [-1, 1]]) / prior[1] ** 2
    law = np.linalg.inv(precision)
    groups = (1,) if excess.shape[1] == 2 else range(excess.shape[1])
    best, chosen = -np.inf, 1.0
    for scale in _PRIOR_SCALES:
        fit = -0.5 * len(groups) * (np.log(scale) / _PRIOR_SPREAD) ** 2
        for group in groups:
            moved = scale**2 * law * np.outer(gain[:, group], gain[:, group])
            moved[np.diag_indices(size)] += variance[:, group]
            root = np.linalg.cholesky(moved)
            fit -= np.log(np.diag(root)).sum()
            fit -= 0.5 * np.square(np.linalg.solve(root, excess[:, group])).sum()
        if fit > best:
            best, chosen = fit, scale
    return np.asarray(precision / chosen**2)


def _curvature(bins: Sequence[IntArray], sizes: IntArray, weights: FloatArray) -> FloatArray:
    """Return the total weight of rows in every pair of bins, of one column or of two."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    table = np.zeros((offsets[-1], offsets[-1]))
    for a, index in enumerate(bins):
        for b in range(a, len(bins)):
            cells = np.bincount(index * sizes[b] + bins[b], weights, sizes[a] * sizes[b])
            part = cells.reshape(sizes[a], sizes[b])
            table[offsets[a] : offsets[a + 1], offsets[b] : offsets[b + 1]] = part
            table[offsets[b] : offsets[b + 1], offsets[a] : offsets[a + 1]] = part.T
    return table


# ── Calibration: one histogram of (score bin, hit) of the secret rows ─────────────────────────────


def score_and_guess(additive: FloatArray, intercepts: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return an exact score and a guessed group for every row, in multiples of 1/64.

    With two groups the guess is always the second and the score is its margin over the first.
    Otherwise the guess is the group with the largest total, and the score is its margin over the
    next one.
    """
    total = additive + np.rint(intercepts * GRID) / GRID
    if total.shape[1] == 2:
        return total[:, 1] - total[:, 0], np.ones(len(total), dtype=np.int64)
    guess = total.argmax(axis=1)
    lead = np.sort(total, axis=1)
    return lead[:, -1] - lead[:, -2], guess


def hit_counts(
    rows: LabelledRows, model: LabelModel, maps: Sequence[IntArray], cuts: FloatArray
) -> FloatArray:
    """Count the records by score bin, and by whether the guess is their group.

    Guarantee: exact.  The bin of a row depends on this row and on public and released
    numbers only: effects are multiples of 1/64, so that sums do not round.  Replacing a record
    changes the counts by at most √2 in L2 norm.
    """
    indices = np.empty(len(rows.groups), dtype=np.int64)
    for start in range(0, len(indices), _ROWS):
        cut = slice(start, start + _ROWS)
        bins = [mapped[code[cut]] for mapped, code in zip(maps, rows.codes, strict=True)]
        score, guess = score_and_guess(model.additive(bins), model.intercepts)
        hit = guess == rows.groups[cut]
        indices[cut] = 2 * np.searchsorted(cuts, score, side="right") + hit
    return count_cells(indices, 2 * (len(cuts) + 1), rows.persons).reshape(-1, 2)


def score_cuts(model: LabelModel, additive: FloatArray) -> FloatArray:
    """Return score cuts that split drawn rows equally."""
    score, _ = score_and_guess(additive, model.intercepts)
    cuts = np.quantile(score, np.arange(1, SCORE_BINS) / SCORE_BINS)
    # Cut between multiples of 1/64, so that no score lies on a cut.
    return np.unique((np.floor(cuts * GRID) + 0.5) / GRID)


def calibrate(
    model: LabelModel,
    additive: FloatArray,
    groups: FloatArray,
    cuts: FloatArray,
    noisy: tuple[FloatArray, float],
) -> LabelModel:
    """Calibrate the factor of the effects to the noisy hits.

    ``noisy`` are (score bin, hit) counts and their noise scale; ``additive`` are the sums of
    effects of drawn rows.
    """
    counts, scale = noisy
    shares = groups / groups.sum()
    score, guess = score_and_guess(additive, model.intercepts)
    bins = np.searchsorted(cuts, score, side="right")
    size = len(cuts) + 1
    drawn = np.maximum(np.bincount(bins, minlength=size), 1)
    records = np.maximum(project(counts.sum(axis=1), float(groups.sum())), 1.0)
    average = float(counts[:, 1].sum() / max(counts.sum(), 1.0))
    average = min(max(average, 0.01), 0.99)
    excess = (1 - average) * counts[:, 1] - average * counts[:, 0]
    best, chosen = -np.inf, model
    for factor in _FACTORS:
        tried = replace(model, factor=float(factor)).tie_intercepts(additive, shares)
        likely = softmax(tried.intercepts + factor * additive)
        hits = likely[np.arange(len(guess)), guess]
        rate = np.bincount(bins, hits, minlength=size) / drawn
        spread = scale**2 * ((1 - average) ** 2 + average**2) + records * rate * (1 - rate)
        fit = -0.5 * ((excess - records * (rate - average)) ** 2 / spread + np.log(spread)).sum()
        fit -= 0.5 * (np.log(factor) / _FACTOR_SPREAD) ** 2
        if fit > best:
            best, chosen = fit, tried
    return chosen
