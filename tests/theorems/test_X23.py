"""X23: any guess about a record after the release, from the curve of the neighbour game.

Truth: every answer of small random mechanisms, in rationals; randomised response in closed form.
"""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from memberbound import GaussianCurve, explain
from memberbound.dp import guarantee_from_epsilon_delta
from oracle import finite
from oracle.pairs import law

RNG = np.random.default_rng(23)


def channel(values, outputs):
    """One law of the release per value of the record, in rationals."""
    weights = RNG.integers(1, 12, size=(values, outputs)) ** 2
    return [[Fraction(int(w), int(row.sum())) for w in row] for row in weights]


def corners(first, second):
    return finite.roc_vertices(law(first), law(second))


def hull(points):
    """Upper concave hull of points on [0, 1]."""
    result = []
    for point in sorted(set(points), key=lambda p: (p[0], -p[1])):
        if result and point[0] == result[-1][0]:
            continue
        while len(result) > 1 and (result[-1][1] - result[-2][1]) * (point[0] - result[-1][0]) <= (
            point[1] - result[-1][1]
        ) * (result[-1][0] - result[-2][0]):
            result.pop()
        result.append(point)
    return result


def best_after(laws, prior, right):
    """The largest chance that the answer to what was seen is right about the record."""
    total = Fraction(0)
    for outcome in range(len(laws[0])):
        total += max(
            sum(prior[x] * laws[x][outcome] for x in range(len(laws)) if right[x][c])
            for c in range(len(right[0]))
        )
    return total


CASES = [(values, outputs) for values in (2, 3, 5) for outputs in (2, 4) for _ in range(8)]


@pytest.mark.parametrize(("values", "outputs"), CASES)
def test_no_answer_of_a_small_mechanism_is_right_more_often(values, outputs):
    laws = channel(values, outputs)
    pairs = permutations(range(values), 2)
    curve = hull([p for x, y in pairs for p in corners(laws[x], laws[y])])
    weights = RNG.integers(1, 9, values)
    prior = [Fraction(int(w), int(weights.sum())) for w in weights]
    exactly = [[x == c for c in range(values)] for x in range(values)]
    attribute = [[x % 2 == c for c in range(2)] for x in range(values)]
    for right in (exactly, attribute):
        answers = range(len(right[0]))
        before = max(sum(prior[x] for x in range(values) if right[x][c]) for c in answers)
        assert best_after(laws, prior, right) <= finite.height(curve, before)


def test_adding_eta_to_any_chance_is_wrong():
    """A twin: half of the advantage is the gain for a fair coin, not for rarer things."""
    # Sixty outcomes that each name one value: the pair's advantage counts two of them only.
    laws = [[Fraction(1 + 9 * (x == o), 69) for o in range(60)] for x in range(60)]
    prior = [Fraction(1, 60)] * 60
    exactly = [[x == c for c in range(60)] for x in range(60)]
    after = best_after(laws, prior, exactly)
    half_advantage = Fraction(9, 69) / 2
    assert after > Fraction(1, 60) + half_advantage
    assert after <= finite.height(hull(corners(laws[0], laws[1])), Fraction(1, 60))


@pytest.mark.parametrize("values", [2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomised_response(values, epsilon):
    after = math.exp(epsilon) / (math.exp(epsilon) + values - 1)
    assert after <= guarantee_from_epsilon_delta([(epsilon, 0.0)]).curve.tpr(1 / values)


def test_explain_reads_it_off():
    answer = explain(gdp=1.0, baseline=[0.1, 0.5])
    assert answer.to_dict()["guess_upper"] == {
        repr(k): GaussianCurve(1.0).tpr(k) for k in (0.1, 0.5)
    }
    assert "X23" in answer.to_dict()["theorems"]
