"""Distances, averages and read-offs of the neighbour profile against rationals, to the last digit.

Each step is given doubles and must not return less than the exact value for these doubles.
"""

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from memberbound.numerics.rounding import root_up
from memberbound.subset import distances, profile
from memberbound.subset.clipping import clipped
from memberbound.subset.distances import BinnedDistances, ExactDistances, MeanSquares
from memberbound.subset.profile import NeighbourProfile, shifts

F = Fraction
#: The smallest positive double.
TINY = 5e-324
KINDS = [ExactDistances, BinnedDistances, MeanSquares]


def square(row, other=None):
    """Exact squared length of a row of doubles, or of its difference from another."""
    others = np.zeros(len(row)) if other is None else other
    return sum((F(a) - F(b)) ** 2 for a, b in zip(row.tolist(), others.tolist(), strict=True))


def squares_to_others(table):
    return [[square(a, b) for j, b in enumerate(table) if j != i] for i, a in enumerate(table)]


# ---- clipping ------------------------------------------------------------------------------------


def test_the_surface_of_the_ball_is_found_to_the_last_digit():
    rng = np.random.default_rng(1)
    for columns in (2, 7, 40):
        for row in rng.normal(size=(150, columns)):
            radius = root_up(square(row))
            inside = clipped(row[None, :], radius)
            assert (inside.moved, inside.vectors[0].tolist()) == (0, row.tolist())
            less = math.nextafter(radius, 0.0)
            outside = clipped(row[None, :], less)
            assert outside.moved == 1
            assert square(outside.vectors[0]) <= F(less) ** 2


# ---- distances -----------------------------------------------------------------------------------


def tables():
    rng = np.random.default_rng(2)
    yield "plain", rng.normal(size=(24, 3))
    yield "one column", rng.normal(size=(30, 1))
    yield "subnormal", rng.integers(0, 12, (24, 2)) * TINY
    twins = np.repeat([[0.0], [3 * TINY], [7 * TINY]], [20, 2, 2], axis=0)
    yield "subnormal twins", twins
    yield "wide", rng.normal(size=(12, 90))
    yield "opposite", np.concatenate([(half := rng.normal(size=(12, 2))), -half])


@pytest.mark.parametrize(("name", "table"), list(tables()), ids=[name for name, _ in tables()])
@pytest.mark.parametrize("kind", KINDS)
def test_distances_and_their_mean_are_never_below_the_truth(kind, name, table, monkeypatch):
    monkeypatch.setattr(distances, "_BLOCK", 5 * len(table) + 1)  # blocks that do not fit
    held, truth = kind.of(table), squares_to_others(table)
    means = NeighbourProfile(held).mean_distance
    with mp.workdps(40):
        for x, squares in enumerate(truth):
            assert F(held.largest[x]) ** 2 >= max(squares)
            roots = [mp.sqrt(mp.mpf(s.numerator) / s.denominator) for s in squares]
            assert means[x] >= mp.fsum(roots) / len(roots)
    if kind is ExactDistances:
        for x, row in enumerate(held.matrix):
            for found, s in zip(np.delete(row, x).tolist(), truth[x], strict=True):
                assert s <= F(found) ** 2
                assert max(F(found) - 2 * F(TINY), 0) ** 2 <= s * (1 + F(1, 10**12))
    if kind is BinnedDistances:
        for x, row in enumerate(held.counts):
            law = np.repeat(held.edges, row).tolist()
            assert all(F(d) ** 2 >= s for d, s in zip(law, sorted(truth[x]), strict=True))
    if kind is MeanSquares:
        for x, squares in enumerate(truth):
            edge = F(held.edges[held.bins[x]])
            assert edge**2 * len(squares) >= sum(squares)


def test_the_mean_square_is_never_below_the_truth():
    rng = np.random.default_rng(3)
    for records, columns in ((3, 1), (20, 3), (40, 2), (7, 30)):
        for _ in range(8):
            table = rng.normal(size=(records, columns)) * rng.choice([1.0, 1e3], (records, 1))
            table /= np.abs(table).max()
            table -= np.median(table, axis=0)
            for found, squares in zip(
                distances._root_mean_squares(table), squares_to_others(table), strict=True
            ):
                truth = sum(squares) / len(squares)
                assert truth <= F(found) ** 2 <= truth * (1 + F(1, 10**12))


def test_the_reach_is_never_below_the_farthest_of_many():
    """Behind 128 outliers two opposite records: their distance is the sum of their lengths."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        record = rng.normal(size=2)
        outliers = np.tile(record * 1.25, (128, 1))
        table = np.concatenate([outliers, [record, -record], 0.1 * rng.normal(size=(8, 2))])
        assert F(distances._reach(table)[128]) >= 2 * F(root_up(square(record))) * (1 - F(1, 2**52))
        assert F(distances._reach(table)[128]) ** 2 >= 4 * square(record)


@pytest.mark.parametrize("records", [40, 200])
def test_the_reach_is_never_below_the_farthest(records):
    rng = np.random.default_rng(5)
    for columns in (1, 2, 5):
        table = rng.uniform(-1, 1, size=(records, columns))
        table[7] *= 20
        reach = distances._reach(table)
        for row in (0, 7, *range(13, records, 17)):
            farthest = max(square(table[row], other) for other in table)
            assert farthest <= F(reach[row]) ** 2 <= farthest * (1 + F(1, 10**12))


# ---- averages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1e-322])
@pytest.mark.parametrize("kind", [ExactDistances, BinnedDistances])
def test_averages_are_never_below_those_of_what_functions_return(kind, scale):
    rng = np.random.default_rng(6)
    held = kind.of(rng.normal(size=(60, 2)))
    values = {}

    def function(distance):
        shown = [values.setdefault(d, float(rng.uniform(0, scale))) if d else 0.0 for d in distance]
        return np.array(shown)[:, None]

    found = held.averages(function)[:, 0]
    for x in range(60):
        if kind is ExactDistances:
            total = sum(F(values[d]) for d in held.matrix[x].tolist() if d)
        else:
            pairs = zip(held.edges.tolist(), held.counts[x].tolist(), strict=True)
            total = sum(count * F(values[d]) for d, count in pairs if d)
        truth = total / 59
        assert truth <= F(found[x]) <= truth * (1 + F(1, 10**10)) + 2 * F(TINY)


def hull_at(squares, values):
    """The least concave function above the steps, at every edge, in rationals."""
    corners = []
    for x, y in zip([0.0, *squares[:-1]], np.maximum.accumulate(values).tolist(), strict=True):
        point = F(x), F(y)
        while corners and corners[-1][0] == point[0]:
            corners.pop()
        while len(corners) > 1 and (
            (corners[-1][1] - corners[-2][1]) * (point[0] - corners[-2][0])
            <= (point[1] - corners[-2][1]) * (corners[-1][0] - corners[-2][0])
        ):
            corners.pop()
        corners.append(point)
    for x in map(F, squares):
        right = next((k for k, corner in enumerate(corners) if corner[0] >= x), len(corners) - 1)
        if right == 0 or corners[right][0] <= x:
            yield corners[right][1]
            continue
        (a, low), (b, high) = corners[right - 1 : right + 1]
        yield low + (high - low) * (x - a) / (b - a)


@pytest.mark.parametrize("scale", [1.0, 1e-321])
def test_mean_squares_average_the_hull_of_the_steps(scale):
    """A concave function of the square, above a step function, where rounding is all there is."""
    rng = np.random.default_rng(7)
    for _ in range(6):
        inner = np.sort(rng.uniform(0, 1, 30))
        edges = np.concatenate([[0.0], inner, [1.0]])
        values = np.sort(np.append(0.0, rng.uniform(0, scale, 31)))
        held = MeanSquares(np.ones(32), 1, edges, np.arange(32))
        found = held.averages(lambda _, values=values: values[:, None])[:, 0]
        for value, truth in zip(found, hull_at(np.square(edges).tolist(), values), strict=True):
            assert truth <= F(value) <= truth * (1 + F(1, 10**8)) + 4 * F(TINY)
        if scale == 1.0:  # before the last rounding
            raised = distances._concave(np.square(edges), values[:, None])[:, 0]
            pairs = zip(raised, hull_at(np.square(edges).tolist(), values), strict=True)
            assert all(F(value) >= truth for value, truth in pairs)


# ---- read-offs -----------------------------------------------------------------------------------


def test_shifts_are_never_below_the_quotient():
    rng = np.random.default_rng(8)
    distance = rng.uniform(0, 3, 300)
    for sigma in (0.3, 7.0, 1e300):
        for d, mu in zip(distance.tolist(), shifts(distance, sigma).tolist(), strict=True):
            assert F(mu) >= F(d) / F(sigma)
    assert shifts(np.array([0.0, TINY, 1e300]), 1e300).tolist()[:2] == [0.0, TINY]
    assert shifts(np.array([1e300]), 1e-300).tolist() == [1e200]


def test_accuracy_is_never_below_the_blind_guess_and_the_stick():
    """(common + rare·δ_x)/N for the δ_x that the profile gives, at k/N exactly."""
    table = np.random.default_rng(9).normal(size=(21, 2))
    held = NeighbourProfile.from_vectors(table)
    for size in (1, 7, 10, 17):
        rare, common = sorted((size, 21 - size))
        for sigma in (0.3, 1.0, 9.0):
            stick = held.delta(math.log(common / rare), sigma) if common > rare else None
            for x, value in enumerate(held.accuracy(size / 21, sigma).tolist()):
                assert F(value) >= (common + rare * F(stick[x]) * (1 - F(1, 10**13))) / 21
                assert value <= (common + rare * stick[x]) / 21 + 1e-13


def test_a_crossing_is_never_below_where_the_chord_meets_the_goal():
    rng = np.random.default_rng(10)
    with mp.workdps(40):
        for low, high in ((1.0, 1.003), (0.3, 0.3005), (40.0, 40.01), (0.0, 0.01)):
            at_low, at_high = rng.uniform(0.5, 1, 100), rng.uniform(0.1, 0.5, 100)
            bracket = profile._Bracket(np.arange(100), low, high, at_low, at_high)
            found = bracket.crossing(0.5).tolist()
            ends = mp.exp(mp.mpf(low)), mp.exp(mp.mpf(high))
            for value, a, b in zip(found, at_low.tolist(), at_high.tolist(), strict=True):
                share = (mp.mpf(a) - 0.5) / (mp.mpf(a) - mp.mpf(b))
                truth = mp.log(ends[0] + share * (ends[1] - ends[0]))
                assert truth <= value <= truth + mp.mpf(high) * mp.mpf(1e-13)


def test_epsilon_is_confirmed_at_shifts_beyond_all_use():
    """A hockey-stick is evaluated less precisely at large shifts; its ε leaves room for that."""
    held = NeighbourProfile.from_vectors(np.random.default_rng(11).normal(size=(12, 2)))
    for sigma in (1e-5, 1e-6, 1e-7):
        for delta in (0.9, 0.3, 1e-3):
            for x, epsilon in enumerate(held.pmp_epsilon(delta, sigma).tolist()):
                assert held.delta(epsilon, sigma)[x] <= delta


# ---- products and squares at the ends of the doubles ---------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("records", [3, 150])
def test_distances_whose_squares_underflow_are_from_above(kind, records):
    """Beside a column of ones the others are so small that all squares are 0."""
    steps = np.arange(records) * 3e-200
    found = kind.of(np.stack([np.ones(records), steps], axis=1))
    mean = found.averages(lambda d: d[:, None])[:, 0].tolist()
    for row, here in [*enumerate(steps.tolist())][::31]:
        others = [abs(F(here) - F(there)) for there in steps.tolist()]
        assert max(others) <= F(float(found.largest[row]))
        assert sum(others) / (records - 1) <= F(mean[row])


def test_mean_distances_are_products_from_above():
    rng = np.random.default_rng(8)
    for share, unit in zip(rng.uniform(0, 1, 80).tolist(), rng.uniform(1, 9, 80).tolist(),
                           strict=True):  # fmt: skip
        mean = lambda _, share=share: np.array([[share]])  # noqa: E731
        stub = SimpleNamespace(averages=mean, largest=np.array([unit]))
        (found,) = NeighbourProfile(stub).mean_distance.tolist()
        assert F(share) * F(unit) <= F(found) <= F(share) * F(unit) * (1 + F(1, 2**48))


def test_returned_epsilons_meet_their_target_when_read_again():
    """Records at one distance from each other: ε is that of the largest distance itself."""
    made = NeighbourProfile.from_vectors(np.eye(5))
    for delta in np.geomspace(1e-9, 0.2, 60).tolist():
        assert (made.delta(made.pmp_epsilon(delta, 0.9).max(), 0.9) <= delta).all()
