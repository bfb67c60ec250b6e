"""Many read-offs at once: the sweep, the chord for ε, against 40 digits."""

import mpmath
import numpy as np
import pytest

from memberbound.curve import GaussianCurve, PolygonCurve
from memberbound.curve.segments import _DENSE, _swept


def random_polygon(seed: int, segments: int) -> PolygonCurve:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(segments, 0.3)), rng.dirichlet(np.full(segments, 0.3))
    return PolygonCurve.from_masses((p / p.sum()).tolist(), (q / q.sum()).tolist())


def exact_profile(curve: PolygonCurve, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        e = mpmath.mpf(epsilon)
        return mpmath.fsum(
            mpmath.mpf(m) * -mpmath.expm1(e - mpmath.mpf(x))
            for x, m in zip(curve.loss.tolist(), curve.heavy.tolist(), strict=True)
            if x > epsilon and np.isfinite(x)
        ) + mpmath.fsum(curve.heavy[np.isposinf(curve.loss)].tolist())


def shortfalls(values, truths) -> int:
    with mpmath.workdps(40):
        return sum(
            mpmath.mpf(float(v)) < min(truth, 1) for v, truth in zip(values, truths, strict=True)
        )


@pytest.mark.parametrize("seed", range(4))
def test_sweep_is_sound_and_tight(seed):
    curve = random_polygon(seed, 300)
    knots = np.abs(curve.loss[np.isfinite(curve.loss)])
    grid = np.unique(np.concatenate([[0.0, 1e-300, 800.0], knots[::3], knots[::7] * (1 + 1e-15)]))
    assert grid.size * np.count_nonzero(curve.loss > 0) > _DENSE
    values = curve._profile(grid, forward=True)
    truths = [exact_profile(curve, float(epsilon)) for epsilon in grid]
    assert shortfalls(values, truths) == 0
    for value, truth in zip(values, truths, strict=True):
        assert value <= float(truth) * (1 + 1e-11) + 1e-300


def test_sweep_without_its_slack_is_caught():
    curve = random_polygon(1, 300)
    active = (curve.loss > 0) & np.isfinite(curve.loss)
    grid = np.sort(curve.loss[active])[:-1]
    bare, slack = _swept(grid, curve.loss[active], curve.heavy[active])
    truths = [exact_profile(curve, float(epsilon)) for epsilon in grid]
    assert shortfalls(bare, truths) > 0
    assert shortfalls(bare * (1 + slack) + 1e-300, truths) == 0


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-6, 1e-12])
def test_epsilon_from_the_chord_satisfies_its_inequality(delta):
    curve = GaussianCurve(1.0).to_polygon().symmetrised()
    result = curve.epsilon(delta)
    assert curve.delta(result) <= delta < curve.delta(result * (1 - 1e-8))
