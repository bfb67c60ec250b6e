"""Rivals of ``synthesize`` at the same μ, on the codes of public bins (benchmarks/synthetic.py).

*independent*: columns independent given the class, the whole budget on (column, class) counts.
*tree*: the prototype of theory X25: target, column × target, one tree of (parent, child, target).
*MST* (McKenna, Miklau and Sheldon 2021): one-way counts, a spanning tree of pairs selected from
noisy scores, their counts, a third of μ² each; rare values merged; the law estimated by mbi 2.0,
which must be installed.  The target is a column like any other.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray, draw, project
from memberbound.release.all_rows.tree import select_forest


def contingency(codes: list[IntArray], sizes: list[int]) -> FloatArray:
    indices = np.ravel_multi_index(codes, sizes)
    return np.bincount(indices, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.float64)


def _columns_given_class(
    codes: list[IntArray], sizes: list[int], goal: IntArray, scale: float, draws: Any
) -> list[FloatArray]:
    tables = []
    for column, size in zip(codes, sizes, strict=True):
        noisy = contingency([column, goal], [size, 2])
        tables.append(project(noisy + draws.normal(0, scale, noisy.shape), float(len(goal))))
    groups = np.mean([table.sum(axis=0) for table in tables], axis=0)
    return [table * (groups / np.maximum(table.sum(axis=0), 1e-9)) for table in tables]


def independent(
    codes: list[IntArray], sizes: list[int], goal: IntArray, mu: float, draws: np.random.Generator
) -> tuple[list[IntArray], IntArray]:
    """Return columns that are independent given the class."""
    scale = np.sqrt(2 * len(codes)) / mu
    tables = _columns_given_class(codes, sizes, goal, scale, draws)
    groups = draw(tables[0].sum(axis=0)[None], np.zeros(len(goal), dtype=np.int64), draws)
    return [draw(table.T + 1e-9, groups, draws) for table in tables], groups


def tree(
    codes: list[IntArray], sizes: list[int], goal: IntArray, mu: float, draws: np.random.Generator
) -> tuple[list[IntArray], IntArray]:
    """Return rows of a tree of (parent, child, class) triples: shares 0.45, 0.1, 0.45 of μ²."""
    count, rows = len(codes), len(goal)
    first = np.sqrt(2 * count / 0.45) / mu
    tables = _columns_given_class(codes, sizes, goal, first, draws)
    groups = tables[0].sum(axis=0)
    pairs = list(itertools.combinations(range(count), 2))
    scores = np.zeros((count, count))
    for a, b in pairs:
        expected = tables[a][:, None] * tables[b][None] / groups
        exact = contingency([codes[a], codes[b], goal], [sizes[a], sizes[b], 2])
        scores[a, b] = np.abs(exact - expected).sum()
    noisy = scores + draws.normal(0, 2 * np.sqrt(len(pairs) / 0.1) / mu, scores.shape)
    upper = np.triu_indices(count, 1)
    scores[upper] = noisy[upper] - noisy[upper].min() + 1.0
    scale = np.sqrt(2 * (count - 1) / 0.45) / mu
    labels = draw(groups[None], np.zeros(rows, dtype=np.int64), draws)
    drawn: dict[int, IntArray] = {}
    for child, parent in select_forest(scores):
        given = tables[child].T / np.maximum(tables[child].sum(axis=0), 1e-9)[:, None]
        if parent is None:
            drawn[child] = draw(given + 1e-9, labels, draws)
            continue
        shape = [sizes[parent], sizes[child], 2]
        exact = contingency([codes[parent], codes[child], goal], shape)
        joint = project(exact + draws.normal(0, scale, shape), float(rows))
        laws = np.moveaxis(joint, 2, 1) + scale * np.sqrt(sizes[child]) * given[None]
        which = drawn[parent] * 2 + labels
        drawn[child] = draw(laws.reshape(-1, sizes[child]) + 1e-9, which, draws)
    return [drawn[column] for column in range(count)], labels


#: Values of noisy counts below this many scales are merged (MST).
_RARE_SCALES = 3.0


def mst(
    codes: list[IntArray], sizes: list[int], goal: IntArray, mu: float, draws: np.random.Generator
) -> tuple[list[IntArray], IntArray]:
    """Return rows of a maximum spanning tree, estimated by mirror descent."""
    import mbi
    from mbi.estimation import MirrorDescent

    columns, rows = [*codes, goal], len(goal)
    lengths = [*sizes, 2]
    count = len(columns)
    third = mu / np.sqrt(3)
    scale = np.sqrt(2 * count) / third
    maps, ones, law = [], [], []
    for column, length in zip(columns, lengths, strict=True):
        noisy = contingency([column], [length]) + draws.normal(0, scale, length)
        large = noisy >= _RARE_SCALES * scale
        small = int((~large).sum())
        codes_of = np.where(large, np.cumsum(large) - 1, large.sum())
        merged = np.bincount(codes_of, noisy)
        # Merged counts have more noise; as in MST they are weighted by it.
        spread = np.where(np.arange(len(merged)) < large.sum(), 1.0, 1 / np.sqrt(max(small, 1)))
        maps.append(codes_of)
        ones.append((merged, spread))
        law.append(project(noisy, float(rows)))
    coded = [mapped[column] for mapped, column in zip(maps, columns, strict=True)]
    sized = [len(merged) for merged, _ in ones]
    pairs = list(itertools.combinations(range(count), 2))
    scores = np.zeros((count, count))
    noise = 2 * np.sqrt(len(pairs)) / third
    for a, b in pairs:
        exact = contingency([coded[a], coded[b]], [sized[a], sized[b]])
        one = [np.maximum(np.bincount(maps[c], law[c], sized[c]), 0) for c in (a, b)]
        scores[a, b] = np.abs(exact - np.outer(*one) / rows).sum() + draws.normal(0, noise)
    upper = np.triu_indices(count, 1)
    scores[upper] += 1.0 - scores[upper].min()
    scale_two = np.sqrt(2 * (count - 1)) / third
    names = [f"c{k}" for k in range(count)]
    measurements = []
    for name, (merged, spread) in zip(names, ones, strict=True):
        query = mbi.marginal_loss.WeightedQuery(spread)
        measurements.append(mbi.LinearMeasurement(merged * spread, (name,), scale, query))
    for child, parent in select_forest(scores):
        if parent is not None:
            exact = contingency([coded[parent], coded[child]], [sized[parent], sized[child]])
            noisy = exact + draws.normal(0, scale_two, exact.shape)
            clique = (names[parent], names[child])
            measurements.append(mbi.LinearMeasurement(noisy.ravel(), clique, scale_two))
    model = MirrorDescent().estimate(
        mbi.Domain(names, sized), measurements, known_total=float(rows), iters=1000
    )
    table = model.synthetic_data(rows).to_dict()
    new = []
    for name, mapped, weights in zip(names, maps, law, strict=True):
        # A merged value is drawn from the noisy counts that it stands for.
        laws = np.zeros((int(mapped.max()) + 1, len(mapped)))
        laws[mapped, np.arange(len(mapped))] = weights + 1e-9
        new.append(draw(laws, np.asarray(table[name], dtype=np.int64), draws))
    return new[:-1], new[-1]


RIVALS = {"independent": independent, "tree": tree, "MST": mst}
