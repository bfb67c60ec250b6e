"""Mean squares in place of pairs: every average from above, and close to it (claim 11)."""

import numpy as np
import pytest

from memberbound.subset import profile as distances
from memberbound.subset.profile import MeanSquares, NeighbourProfile

TABLES = {
    "normal": np.random.default_rng(0).normal(size=(300, 4)),
    "clusters": np.repeat([[0.0, 0], [9, 0], [0, 5]], 40, axis=0)
    + 0.1 * np.random.default_rng(1).normal(size=(120, 2)),
    "heavy": np.random.default_rng(2).standard_cauchy(size=(150, 2)),
    "twins": np.repeat(np.arange(6.0), 20)[:, None],
    "far from 0": 1e6 + np.random.default_rng(3).normal(size=(80, 3)),
    "one alone": np.append(np.zeros(30), 1e4)[:, None],
    "tiny": 1e-200 * np.random.default_rng(4).normal(size=(40, 2)),
}


def pairs(table: np.ndarray) -> np.ndarray:
    """Every distance by its definition, in long doubles."""
    wide = table.astype(np.longdouble)
    gaps = np.array([np.abs(wide - row).max() for row in wide]).max()
    return np.array(
        [np.sqrt((((wide - row) / gaps) ** 2).sum(axis=1)) * gaps for row in wide], np.longdouble
    )


def functions(unit: float):
    """Increasing, 0 at 0: convex, concave, steps, and both in turn."""
    return [
        lambda d: d / unit,
        lambda d: np.minimum(1.0, (d / unit) ** 6),
        lambda d: (d > 0.3 * unit) * 1.0,
        lambda d: -np.expm1(-((2 * d / unit) ** 2)),
        lambda d: np.minimum(1.0, np.maximum(0.0, 4 * d / unit - 1)),
    ]


def true_averages(table: np.ndarray, unit: float) -> np.ndarray:
    every = pairs(table)
    own = [f(every).sum(axis=1) / (len(table) - 1) for f in functions(unit)]
    return np.array(own, dtype=np.longdouble).T


@pytest.mark.parametrize("name", TABLES)
def test_averages_are_never_below_the_truth(name: str) -> None:
    table = TABLES[name]
    result = MeanSquares.of(table)
    unit = float(pairs(table).max())
    least = true_averages(table, unit)
    shown = result.averages(lambda d: np.stack([f(d) for f in functions(unit)], axis=1))
    assert (shown >= least).all()
    some = np.array([3, 0, 7])
    again = result.averages(lambda d: np.stack([f(d) for f in functions(unit)], axis=1), some)
    assert np.array_equal(again, shown[some])
    assert (result.largest >= pairs(table).max(axis=1)).all()
    assert result.largest.max() <= pairs(table).max() * 2.01


def test_the_mean_distance_alone_would_be_caught(monkeypatch) -> None:
    """Without the concave function what grows like a hockey-stick falls below the truth."""
    table = TABLES["clusters"]
    unit = float(pairs(table).max())
    monkeypatch.setattr(distances, "_concave", lambda squares, values: values)
    shown = MeanSquares.of(table).averages(
        lambda d: np.stack([f(d) for f in functions(unit)], axis=1)
    )
    assert (shown < true_averages(table, unit)).any(axis=0)[1]


@pytest.mark.parametrize(("name", "loss"), [("normal", 1.05), ("clusters", 1.35), ("heavy", 1.05)])
def test_the_worst_record_is_close_to_that_of_pairs(name: str, loss: float) -> None:
    """Tight: within 5 % of its gain over a coin, where records are not in a few heaps."""
    table = TABLES[name]
    coarse = NeighbourProfile(MeanSquares.of(table))
    exact = NeighbourProfile.from_vectors(table)
    for share in (0.3, 3.0):
        sigma = exact.diameter / share
        gain, least = coarse.accuracy(0.5, sigma) - 0.5, exact.accuracy(0.5, sigma) - 0.5
        assert (gain >= least * (1 - 1e-9)).all()
        assert gain.max() <= loss * least.max()
        assert (coarse.pmp_epsilon(1e-3, sigma) >= exact.pmp_epsilon(1e-3, sigma) * 0.999).all()


def test_equal_records_and_large_populations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MeanSquares.of(np.ones((50, 2))).averages(lambda d: d[:, None]).max() == 0.0
    monkeypatch.setattr(distances, "MOST_PAIRED_RECORDS", 260)
    many = np.random.default_rng(5).normal(size=(261, 1))
    assert isinstance(NeighbourProfile.from_vectors(many).distances, MeanSquares)
