"""X32: intervals for released numbers, from the published noise alone.

Truth: the exact law of a noisy number on its grid, summed over the grid's points.  Broken: an
interval from half of the noise's variance, and one that takes the noise to be continuous.
"""

import numpy as np
import pytest
from scipy.stats import norm

from memberbound import InputError, explain
from memberbound.release.noise import COARSE
from memberbound.release.precision import half_width, interval_width, target_interval

SCALES = [*np.geomspace(4.0, 8.0, 23)[:-1].tolist(), 5.6272, 1e-9, 3e7]


def coverage(scale: float, half: float, offset: float) -> float:
    """The probability that a number is released within ``half`` of itself; on the grid at 0."""
    step = float(COARSE.steps(scale))
    value = offset * step
    points = step * np.arange(-100, 101)
    near = points[np.abs(points - value) <= half]
    ends = (near[:, None] + [-step / 2, step / 2] - value) / scale
    return float((norm.cdf(ends[:, 1]) - norm.cdf(ends[:, 0])).sum())


@pytest.mark.parametrize("scale", SCALES)
def test_an_interval_covers_wherever_the_number_is_on_the_grid(scale):
    offsets = np.linspace(0.0, 0.5, 51)
    half, step = half_width(scale), float(COARSE.steps(scale))
    covered = [coverage(scale, half, offset) for offset in offsets]
    assert 0.95 <= min(covered) <= max(covered) <= 0.975
    # Half a step less does not do.
    assert min(coverage(scale, half - step / 2 - 1e-9 * step, o) for o in offsets) < 0.95
    # Nor does half of the variance.
    assert min(coverage(scale, half_width(scale / 2**0.5), o) for o in offsets) < 0.9


def test_a_continuous_interval_would_miss_too_often():
    offsets = np.linspace(0.0, 0.5, 51)
    scale = 4.0 * 1.01
    assert min(coverage(scale, 1.959964 * scale, offset) for offset in offsets) < 0.95


def test_a_target_needs_the_least_eta():
    found = target_interval(0.02, 10_000)
    for mu, key in ((found.noise.mu, "noise_upper"), (found.population.mu, "population_upper")):
        assert getattr(interval_width(mu, 10_000), key) <= 0.02
        # The answer stays one millionth inside, see precision._precise.
        assert getattr(interval_width(mu * (1 - 1.1e-6), 10_000), key) > 0.02
    # Of 9 600 rows, sampling alone gives 2·1.96·½/√9600 = 0.020004.
    assert target_interval(0.02, 9600).population is None
    assert target_interval(0.02, 9800).population is not None
    answer = explain(target_interval=0.02, n=9600).to_dict()
    assert answer["eta_upper"] == pytest.approx(answer["interval"]["noise"]["eta"], abs=1e-6)
    assert answer["interval"]["population"] is None
    assert [width["rows"] for width in answer["interval_widths"]] == [1000, 10_000, 100_000]


@pytest.mark.parametrize(
    "asked",
    [
        {"target_interval": 0.1},
        {"n": 10},
        {"target_interval": 0.1, "n": 100, "epsilon": 1},
        {"target_interval": 0.1, "n": 100, "target_eta": 0.1},
        {"target_interval": 0.1, "n": 100, "adjacency": "add-remove"},
        {"target_interval": 0.1, "n": 100, "records": 2},
        {"target_interval": 1e-9, "n": 100},
        {"target_interval": 1, "n": 100},
        {"target_interval": float("inf"), "n": 100},
        {"target_interval": 0.1, "n": 0},
    ],
)
def test_bad_input_is_one_sentence(asked):
    with pytest.raises(InputError):
        explain(**asked)
