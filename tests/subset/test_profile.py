"""The neighbour profile against a naive double loop in 80 digits, exact distances, edge cases."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.subset import distances, profile
from memberbound.subset.distances import BinnedDistances, ExactDistances, MeanSquares
from memberbound.subset.profile import NeighbourProfile
from oracle.real import bracket, digits, gaussian_hockey_stick

F = Fraction
#: Relative excess allowed to a binned profile, in ε, δ(0) and distances.
BINNED = 0.01


def squared(a, b):
    """Exact squared distance of two rows of doubles."""
    return sum((F(float(s)) - F(float(t))) ** 2 for s, t in zip(a, b, strict=True))


@cache
def tables():
    rng = np.random.default_rng(4)
    plain = rng.normal(size=(24, 3))
    clusters = np.repeat([[0.0, 0.0], [1.0, 1.0]], 15, axis=0) + 1e-7 * rng.normal(size=(30, 2))
    outlier = rng.normal(size=(20, 2))
    outlier[3] = [1e5, 0.0]
    return {
        "plain": plain,
        "clusters": clusters,
        "outlier": outlier,
        "offset": 1e8 + plain,
        "twins": np.repeat(rng.integers(0, 3, size=(12, 2)).astype(float), 2, axis=0),
        "huge": 1e150 * plain,
        "tiny": 1e-150 * plain,
        "wide": rng.normal(size=(16, 300)),
        "heavy tail": np.exp(4 * rng.normal(size=(30, 1))),
    }


NAMES = tuple(tables())


@cache
def exact_squares(name):
    table = tables()[name]
    return [[squared(a, b) for j, b in enumerate(table) if j != i] for i, a in enumerate(table)]


def distances_of(held, record):
    """Distances to the other records, as they are counted."""
    if isinstance(held, BinnedDistances):
        return np.repeat(held.edges, held.counts[record])
    return np.delete(held.matrix[record], record)


def laws_below_truth(held, name):
    """Return the records with a law of distances that does not dominate the exact one."""
    bad = []
    for x, truth in enumerate(exact_squares(name)):
        law = sorted(distances_of(held, x))
        if any(F(d) ** 2 < t for d, t in zip(law, sorted(truth), strict=True)):
            bad.append(x)
    return bad


@pytest.mark.parametrize("name", NAMES)
def test_measured_distances_are_never_below_the_truth(name):
    table = tables()[name]
    for held in (
        ExactDistances.of(table),
        BinnedDistances.of(table),
    ):
        assert laws_below_truth(held, name) == []
        for value, truth in zip(held.largest.tolist(), exact_squares(name), strict=True):
            assert F(value) ** 2 >= max(truth)


def test_binning_downward_is_caught():
    held = BinnedDistances.of(tables()["plain"])
    lowered = replace(held, edges=np.append(held.edges[0] / 2, held.edges[:-1]))
    assert laws_below_truth(lowered, "plain")


def test_missing_slack_is_caught(monkeypatch):
    monkeypatch.setattr(distances, "UNIT", 0.0)
    assert laws_below_truth(BinnedDistances.of(tables()["clusters"]), "clusters")


@pytest.mark.parametrize("name", NAMES)
def test_exact_distances_are_tight(name):
    held = ExactDistances.of(tables()[name])
    for x, truth in enumerate(exact_squares(name)):
        row = sorted(np.delete(held.matrix[x], x).tolist())
        assert all(
            F(d) ** 2 <= t * (1 + F(1, 10**12)) for d, t in zip(row, sorted(truth), strict=True)
        )


@pytest.mark.parametrize("size", [257, pytest.param(600, marks=pytest.mark.long)])
def test_binned_distances_are_tight(size):
    rng = np.random.default_rng(size)
    table = rng.normal(size=(size, 6)) * np.where(rng.random((size, 1)) < 0.02, 40.0, 1.0)
    held = NeighbourProfile.from_vectors(table)
    exact = NeighbourProfile(ExactDistances.of(table))
    assert isinstance(held.distances, BinnedDistances)
    for sigma in (0.5, 3.0):
        for one, two in (
            (exact.mean_distance, held.mean_distance),
            (exact.max_distance, held.max_distance),
            (exact.advantage(sigma), held.advantage(sigma)),
            (exact.pmp_epsilon(1e-3, sigma), held.pmp_epsilon(1e-3, sigma)),
        ):
            # The exact ε is itself up to 1e-4 above the least one.
            assert np.all(two >= one * (1 - 1e-4))
            assert np.all(two <= one * (1 + BINNED))
        for epsilon in (0.0, 1.0, 5.0):
            assert np.all(held.delta(epsilon, sigma) >= exact.delta(epsilon, sigma) * (1 - 1e-10))


# ---- mean squares in place of pairs (claim 11) ---------------------------------------------------


def functions(unit):
    """Increasing, 0 at 0: convex, concave, steps, and both in turn."""
    return lambda d: np.stack(
        [
            d / unit,
            np.minimum(1.0, (d / unit) ** 6),
            (d > 0.3 * unit) * 1.0,
            -np.expm1(-((2 * d / unit) ** 2)),
            np.minimum(1.0, np.maximum(0.0, 4 * d / unit - 1)),
        ],
        axis=-1,
    )


def low_averages(name):
    """Return the functions averaged below the truth, and the averages."""
    lengths = np.sqrt(np.array(exact_squares(name), dtype=np.longdouble))
    every = functions(float(lengths.max()))
    shown = MeanSquares.of(tables()[name]).averages(every)
    return (shown < every(lengths).mean(axis=1)).any(axis=0), shown


@pytest.mark.parametrize("name", NAMES)
def test_averages_by_mean_squares_are_never_below_the_truth(name):
    low, shown = low_averages(name)
    assert not low.any()
    held, lengths = MeanSquares.of(tables()[name]), np.sqrt(np.array(exact_squares(name), float))
    some = np.array([3, 0, 7])
    assert np.array_equal(held.averages(functions(float(lengths.max())), some), shown[some])
    assert held.largest.max() <= lengths.max() * 2.01
    assert all(F(d) ** 2 >= max(s) for d, s in zip(held.largest, exact_squares(name), strict=True))


def test_the_mean_distance_alone_is_caught(monkeypatch):
    """Without the concave function what grows like a hockey-stick falls below the truth."""
    monkeypatch.setattr(distances, "_concave", lambda squares, values: values)
    assert low_averages("clusters")[0][1]


HEAPS = np.repeat([[0.0, 0], [9, 0], [0, 5]], 40, axis=0)


@pytest.mark.parametrize(
    ("table", "loss"),
    [
        (np.random.default_rng(0).normal(size=(300, 4)), 1.04),
        (HEAPS + 0.1 * np.random.default_rng(1).normal(size=(120, 2)), 1.32),
        (np.random.default_rng(2).standard_cauchy(size=(150, 2)), 1.01),
    ],
)
def test_the_worst_record_is_close_to_that_of_pairs(table, loss):
    """Tight: within 4 % of its gain over a coin, where records are not in a few heaps."""
    coarse, exact = NeighbourProfile(MeanSquares.of(table)), NeighbourProfile.from_vectors(table)
    for share in (0.3, 3.0):
        sigma = exact.diameter / share
        gain, least = coarse.accuracy(0.5, sigma) - 0.5, exact.accuracy(0.5, sigma) - 0.5
        assert (gain >= least * (1 - 1e-9)).all()
        assert gain.max() <= loss * least.max()
        assert (coarse.pmp_epsilon(1e-3, sigma) >= exact.pmp_epsilon(1e-3, sigma) * 0.999).all()


def test_equal_records_and_large_populations(monkeypatch):
    assert MeanSquares.of(np.ones((50, 2))).averages(lambda d: d[:, None]).max() == 0.0
    monkeypatch.setattr(profile, "MOST_PAIRED_RECORDS", 260)
    many = np.random.default_rng(5).normal(size=(261, 1))
    assert isinstance(NeighbourProfile.from_vectors(many).distances, MeanSquares)


# ---- hockey-sticks ------------------------------------------------------------------------------

QUERIES = [(0.0, 1.0), (0.5, 0.2), (2.0, 1.0), (30.0, 0.3), (700.0, 0.05), (1e-6, 1e4)]


@cache
def naive(name, record, epsilon, sigma):
    """The mean hockey-stick over the other records, from below, by a loop in 80 digits."""
    total = F(0)
    for square in exact_squares(name)[record]:
        if square:
            with digits(200):
                mu = mp.sqrt(mp.mpf(square.numerator) / square.denominator) / mp.mpf(sigma)
            total += bracket(gaussian_hockey_stick(mu, epsilon))[0]
    return total / len(exact_squares(name)[record])


def low_deltas(read, names=("plain", "outlier", "twins", "heavy tail")):
    bad = []
    for name in names:
        for epsilon, sigma in QUERIES:
            value = read(tables()[name], epsilon, sigma)
            bad += [
                (name, epsilon, sigma, x)
                for x in range(0, value.size, 3)
                if F(float(value[x])) < naive(name, x, epsilon, sigma)
            ]
    return bad


def exact_delta(table, epsilon, sigma):
    return NeighbourProfile.from_vectors(table).delta(epsilon, sigma)


def binned_delta(table, epsilon, sigma):
    return NeighbourProfile(BinnedDistances.of(table)).delta(epsilon, sigma)


def test_delta_is_never_below_the_naive_loop():
    assert low_deltas(exact_delta) == []
    assert low_deltas(binned_delta) == []


def test_broken_averages_are_caught():
    def over_all(table, epsilon, sigma):
        return exact_delta(table, epsilon, sigma) * (len(table) - 1) / len(table)

    def without_rounding(table, epsilon, sigma):
        return exact_delta(table, epsilon, sigma) * (1 - 1e-11)

    assert low_deltas(over_all)
    assert low_deltas(without_rounding)


def test_delta_is_tight():
    for name in ("plain", "outlier", "twins"):
        for epsilon, sigma in QUERIES[:4]:
            value = exact_delta(tables()[name], epsilon, sigma)
            for x in range(0, value.size, 3):
                truth = naive(name, x, epsilon, sigma)
                assert F(float(value[x])) <= truth * (1 + F(1, 10**9)) + F(1, 10**250)


@pytest.mark.parametrize("kind", [ExactDistances, BinnedDistances])
@pytest.mark.parametrize("name", ["plain", "outlier", "twins", "heavy tail", "clusters"])
def test_pmp_epsilon_satisfies_its_inequality_again(name, kind):
    profile = NeighbourProfile(kind.of(tables()[name]))
    for delta in (0.3, 1e-2, 1e-6, 1e-30):
        for sigma in (0.01, 1.0, 100.0):
            value = profile.pmp_epsilon(delta, sigma)
            for x in range(0, profile.records, 8):
                assert profile.delta(value[x], sigma)[x] <= delta
                if value[x] > 1e-9:  # and a little less would not do
                    assert profile.delta(value[x] * (1 - 1e-3), sigma)[x] > delta


# ---- shifts of one ε against 80 digits ---------------------------------------------------------


def test_hockey_sticks_of_many_shifts():
    """ε up to 700 and μ from 1e-8 to 50 (issue 4), and the same numbers as the other function."""
    from memberbound.numerics.normal import gaussian_hockey_stick_upper

    mu = np.append(np.geomspace(1e-8, 50.0, 60), [0.0, 0.25, 0.2499999, 37.4])
    for epsilon in (0.0, 1e-9, 1e-3, 0.5, 5.0, 80.0, 700.0):
        bound = gaussian_hockey_stick_of_shifts_upper(mu, epsilon)
        for m, value in zip(mu.tolist(), bound.tolist(), strict=True):
            other = gaussian_hockey_stick_upper(m, np.array([epsilon]))[0]
            assert value == pytest.approx(other, rel=1e-14, abs=0)
            if m == 0.0:
                assert value == 0.0
                continue
            low, high = bracket(gaussian_hockey_stick(m, epsilon))
            assert F(value) >= low
            if high > F(1, 10**290):
                assert F(value) <= high * (1 + F(1, 10**11))


# ---- edge cases ---------------------------------------------------------------------------------


def test_twins_do_not_move_the_release():
    profile = NeighbourProfile.from_vectors([[1.0, 2.0], [1.0, 2.0]])
    assert profile.diameter == 0.0
    assert profile.advantage(1.0).tolist() == [0.0, 0.0]
    assert profile.pmp_epsilon(0.0, 1.0).tolist() == [0.0, 0.0]
    assert profile.accuracy(0.5, 1.0).tolist() == [0.5, 0.5]
    many = NeighbourProfile.from_vectors(np.ones((300, 2)))
    assert many.diameter == 0.0
    assert many.pmp_epsilon(0.0, 1.0).max() == 0.0


def test_differences_that_underflow_still_count():
    profile = NeighbourProfile.from_vectors([[0.0, 1.0], [1e-200, 1.0], [5e-324, 1.0]])
    assert np.all(profile.max_distance > 0)
    assert np.all(profile.advantage(1e-3) > 0)


@pytest.mark.parametrize("kind", [ExactDistances, BinnedDistances])
def test_scale_does_not_matter(kind):
    plain = NeighbourProfile(kind.of(tables()["plain"]))
    for name, unit in (("huge", 1e150), ("tiny", 1e-150)):
        other = NeighbourProfile(kind.of(tables()[name]))
        for one, two in (
            (plain.delta(1.0, 2.0), other.delta(1.0, 2.0 * unit)),
            (plain.mean_distance * unit, other.mean_distance),
            (plain.pmp_epsilon(1e-3, 2.0), other.pmp_epsilon(1e-3, 2.0 * unit)),
        ):
            assert np.allclose(one, two, rtol=5e-3, atol=0)


def test_extreme_noise():
    profile = NeighbourProfile.from_vectors(tables()["plain"])
    assert np.all(profile.advantage(1e-300) == 1.0)
    assert np.all(profile.advantage(1e300) < 1e-299)
    assert np.all(profile.pmp_epsilon(0.1, 1e300) == 0.0)
    assert np.all(np.isinf(profile.pmp_epsilon(0.0, 1.0)))


@pytest.mark.parametrize(
    "vectors",
    [
        [1.0, 2.0],
        [[1.0]],
        np.zeros((3, 0)),
        [[1.0], [math.nan]],
        [[1.0], ["a"]],
        [[1.0], [1e301]],
    ],
)
def test_bad_tables_are_refused(vectors):
    with pytest.raises(InputError, match="must be"):
        NeighbourProfile.from_vectors(vectors)


def test_bad_questions_are_refused():
    profile = NeighbourProfile.from_vectors([[0.0], [1.0]])
    for ask in (
        lambda: profile.delta(-1.0, 1.0),
        lambda: profile.delta(1.0, 0.0),
        lambda: profile.delta(1.0, math.nan),
        lambda: profile.pmp_epsilon(2.0, 1.0),
        lambda: profile.accuracy(0.0, 1.0),
    ):
        with pytest.raises(InputError, match="must be"):
            ask()


def test_progress_reaches_the_end():
    seen = []
    BinnedDistances.of(tables()["plain"], lambda *at: seen.append(at))
    assert seen[-1] == (24, 24)
