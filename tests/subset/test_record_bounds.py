"""RecordBounds: the result of every mechanism of the subset game."""

import math
from fractions import Fraction

import numpy as np
import pytest

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.subset.record_bounds import (
    RecordBounds,
    average_success,
    eta_from_success,
    short_decimal,
)
from oracle.claims import assert_bound

F = Fraction
SIZES = [(size, k) for size in range(2, 26) for k in range(1, size)]


def blind(size, k):
    return max(F(k, size), 1 - F(k, size))


def bounds(success, epsilon=None, *, size=4, k=2, delta=0.0, confidence=1.0, name="m"):
    epsilons = [1.0] * size if epsilon is None else epsilon
    return RecordBounds(
        SubsetGame(size, k), delta, np.array(epsilons), np.array(success), name,
        (f"T-{name}", "both"), (f"A-{name}",), confidence,
    )  # fmt: skip


def test_eta_is_never_below_the_exact_difference():
    def gain(size, k, success):
        return F(eta_from_success(np.array([success]), SubsetGame(size, k))[0])

    def nearest(size, k, success):
        prior = SubsetGame(size, k).prior
        return F(success - max(prior, 1 - prior))

    assert_bound(
        gain,
        (
            ((size, k, success), F(success) - blind(size, k))
            for size, k in SIZES
            for success in (float(blind(size, k)), 0.98, 0.987654321, 1.0)
            if success >= blind(size, k)
        ),
        broken={"blind guess rounded to the nearest double": nearest},
    )


def test_eta_is_tight_and_exact_at_one_half():
    for size, k in SIZES:
        answer = eta_from_success(np.array([0.99]), SubsetGame(size, k))[0]
        assert abs(F(answer) - max(F(0.99) - blind(size, k), F(0))) <= F(1, 2**52)
        if 2 * k == size:
            assert F(answer) == F(0.99) - F(1, 2)


def test_success_is_at_least_the_blind_guess_and_at_most_one():
    """A success that lost its last digit, or all of them, is raised to what everybody reaches."""
    lost = 0
    for size, k in SIZES:
        prior = SubsetGame(size, k).prior
        rounded = max(prior, 1 - prior)
        lost += F(rounded) < blind(size, k)
        for arguments in (rounded, 0.0):
            answer = set(bounds([arguments] * size, size=size, k=k).success.tolist())
            assert all(F(v) >= blind(size, k) for v in answer)
            assert all(F(v) <= blind(size, k) + F(1, 2**52) for v in answer)
    assert lost  # so the rounded number would have been too small
    assert bounds([2.0, math.inf, 1.0, 0.5]).success.tolist() == [1.0, 1.0, 1.0, 0.5]


def test_worst_case_read_offs():
    answer = bounds([0.6, 0.9, 0.9, 0.5], [3.0, 1.0, 2.0, 0.0])
    assert answer.worst_record == 2
    assert answer.pmp_epsilon_upper == 3.0
    assert answer.success_upper == 0.9
    assert answer.eta_upper == 0.9 - 0.5
    assert answer.eta.tolist() == [0.6 - 0.5, 0.9 - 0.5, 0.9 - 0.5, 0.0]


def test_the_arrays_are_copies_that_cannot_be_changed():
    arguments = np.array([0.6, 0.7, 0.8, 0.9])
    answer = RecordBounds(SubsetGame(4, 2), 0.0, arguments, arguments, "m", ())
    arguments[:] = 0.0
    assert answer.success.tolist() == answer.pmp_epsilon.tolist() == [0.6, 0.7, 0.8, 0.9]
    for values in (answer.success, answer.pmp_epsilon):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.0


def test_the_smaller_of_two_bounds():
    one = bounds([0.6, 0.9, 0.7, 0.7], [1, 2, 3, 4], name="a")
    two = bounds([0.7, 0.8, 0.7, 0.9], [4, 3, 2, 1], name="b")
    both = one.tightened(two)
    assert both.success.tolist() == [0.6, 0.8, 0.7, 0.7]
    assert both.pmp_epsilon.tolist() == [1, 2, 2, 1]
    assert both.theorems == ("T-a", "both", "T-b")
    assert both.assumptions == ("A-a", "A-b")
    assert both.tightened(two) is both  # nowhere smaller


def test_bounds_of_different_games_do_not_mix():
    for other in (bounds([0.6] * 4, k=1), bounds([0.6] * 4, delta=0.1), bounds([0.6] * 6, size=6)):
        with pytest.raises(InputError, match="same game"):
            bounds([0.6] * 4).tightened(other)
    with pytest.raises(InputError, match="without sampling"):
        bounds([0.6] * 4).tightened(bounds([0.5] * 4, confidence=0.9))


@pytest.mark.parametrize(
    "fields",
    [
        {"success": [0.5] * 3},
        {"success": [[0.5] * 4]},
        {"success": [math.nan, 0.5, 0.5, 0.5]},
        {"success": [-0.1, 0.5, 0.5, 0.5]},
        {"success": [0.5] * 4, "epsilon": [math.nan] * 4},
        {"success": [0.5] * 4, "epsilon": [-1.0] * 4},
        {"success": [0.5] * 4, "delta": -0.1},
        {"success": [0.5] * 4, "delta": 1.1},
        {"success": [0.5] * 4, "confidence": 0.0},
        {"success": [0.5] * 4, "confidence": 1.1},
    ],
)
def test_nonsense_is_refused(fields):
    with pytest.raises(InputError):
        bounds(**fields)


def test_the_mean_of_all_records_is_never_below_the_exact_one():
    rng = np.random.default_rng(4)
    for size in (2, 3, 10, 1000):
        for _ in range(20):
            success = rng.uniform(0.5, 1, size)
            truth = sum(map(F, success.tolist())) / size
            assert truth <= F(average_success(success)) <= truth + F(1, 2**50)
    assert average_success(np.ones(3)) == 1.0
    assert average_success(np.full(7, 0.6)) < 0.6 + 1e-15


def test_a_short_decimal_lies_on_its_side_and_holds():
    for value in (0.123456789, 3.0, 7.7e-5, 123456.789):
        assert value <= short_decimal(value, "upper", lambda x: True) <= value * (1 + 1e-5)
        assert value * (1 - 1e-5) <= short_decimal(value, "lower", lambda x: True) <= value
    assert short_decimal(2.0, "upper", lambda x: x > 2.0001) > 2.0001
    with pytest.raises(SearchError):
        short_decimal(2.0, "lower", lambda x: False)
