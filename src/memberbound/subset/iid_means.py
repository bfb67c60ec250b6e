"""Functions of noisy means of fresh rows: A25-T13 with a number (X21, proofs/crowd.md, step 10).

A table of 2n independent rows is a population of which the training set is a uniform half.  Whoever
knows that population besides the release knows more than the attacker of the i.i.d. game, so the
average record's leak in the subset game, averaged over tables, bounds the leak Δ_n.  Disjoint
tables of one long table are independent draws of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.games import IidGame, SubsetGame
from memberbound.numerics.means import mean_upper
from memberbound.numerics.rounding import FloatArray, sum_slack, up
from memberbound.quantities import Certificate
from memberbound.subset.crowd import Crowd
from memberbound.subset.distances import checked_vectors, noise_on_sum
from memberbound.subset.profile import NeighbourProfile

__all__ = ["leak_of_means", "table_leaks"]

#: A word in front of which no other stream of ours starts.
_ORDER = 0x7AB1E

ASSUMPTIONS = (
    "The rows, in whatever order, are independent draws from one distribution; the training set is "
    "n more draws from it.  n and σ were fixed without looking at them.",
    "Only a function of the mean of the training rows plus independent noise N(0, σ²) on every "
    "coordinate is released.",
)


def table_leaks(records: ArrayLike, n: int, *, sigma: float) -> FloatArray:
    """Return the average record's leak in each of the disjoint tables of 2n rows, from above.

    Per record the smaller of X21 and X1 counts; ``sigma`` is the noise on the mean of n rows.
    """
    rows = checked_vectors(records)
    size = whole_number("n", n, at_least=2)
    noise = noise_on_sum("mean", positive("sigma", sigma), size)
    count = rows.shape[0] // (2 * size)
    if count < 1:
        raise InputError(f"records must be at least 2n = {2 * size} rows, got {rows.shape[0]!r}.")
    game = SubsetGame(2 * size, size)
    leaks = []
    for table in rows[: count * 2 * size].reshape(count, 2 * size, -1):
        coupled = NeighbourProfile.from_vectors(table).advantage(noise)
        leak = np.minimum(coupled, Crowd.of(table, game, noise).delta(0.0))
        leaks.append(min(1.0, up(float(leak.mean()) * (1 + 2 * sum_slack(leak.size)))))
    return np.array(leaks)


def leak_of_means(
    records: ArrayLike,
    n: int,
    *,
    sigma: float,
    confidence: float = 0.95,
    tables: int | None = None,
    seed: int = 0,
) -> Certificate:
    """Bound Δ_n for every function of a noisy mean of n rows, from rows of an unknown law.

    The rows are put into a random order first, so that a sorted file is as good as any; ``tables``
    is how many tables of 2n rows are looked at, at most.

    Guarantee: with this confidence, no attack on a random record of the i.i.d. game (ν = ½, λ = 1)
    gains more than the value over guessing: MIS ≥ 1 - value.
    Theorem: X21 (A25-T13 with a number); X1; bounded means (proofs/bounded-means.md).
    Assumes: see ``assumptions``.  Nothing is asked of the law: no density, no moments.
    Numerics: from above.
    Edge cases: with R = rows/2n tables the confidence alone costs about ln(1/β)/R, so that one
    table of 2n rows proves nothing (1.0), and a hundred are needed for a cost of 0.03.  Without
    noise nothing is proved, where A25-P25 and X8 speak of normal rows.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(1200, 1))
        >>> leak_of_means(rows, 10, sigma=1.0).value < 0.15
        True
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    rows = checked_vectors(records)
    order = np.random.default_rng([whole_number("seed", seed, at_least=0), _ORDER])
    rows = rows[order.permutation(len(rows))]
    if tables is not None:
        rows = rows[: 2 * whole_number("n", n, at_least=2) * whole_number("tables", tables)]
    leaks = table_leaks(rows, n, sigma=sigma)
    value = float(mean_upper(leaks, confidence=level).max()) if leaks.size > 1 else 1.0
    return Certificate(
        "leak of the average record",
        min(1.0, value),
        "upper",
        IidGame(),
        ("X21", "X1", "A25-T13", "A25-P5"),
        ASSUMPTIONS,
        level,
    )
