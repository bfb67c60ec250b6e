"""Laws that are only near to a pair: the curve is held against every perturbed finite pair."""

import numpy as np
import pytest

from memberbound.curve import GaussianCurve, PolygonCurve
from memberbound.curve.families import SlackCurve
from memberbound.errors import InputError

GRID = np.linspace(0.0, 1.0, 41)


def perturb(law, slack, draws):
    """Move at most ``slack`` of a law's mass, some of it to outcomes it did not have."""
    taken = law * draws.dirichlet(np.ones(law.size)) * slack
    return law - taken + draws.dirichlet(np.full(law.size, 0.3)) * taken.sum()


def pairs(count, seed=5):
    draws = np.random.default_rng(seed)
    for _ in range(count):
        size = int(draws.integers(2, 7))
        exact = [draws.dirichlet(np.full(size, 0.5)) for _ in range(2)]
        # An outcome of its own for each world, impossible in the other and at first in both.
        exact = [np.append(law, [0.0, 0.0]) for law in exact]
        slack = float(10.0 ** draws.uniform(-4, -1))
        near = [perturb(law, slack, draws) for law in exact]
        share = draws.uniform(0, 1)
        near = [law * (1 - slack * share) for law in near]
        near[0][-1] += slack * share
        near[1][-2] += slack * share
        worst = max(np.abs(a / a.sum() - b).sum() / 2 for a, b in zip(near, exact, strict=True))
        yield exact, [law / law.sum() for law in near], worst


def test_no_perturbed_pair_is_above_the_curve():
    for exact, near, slack in pairs(200):
        curve = SlackCurve(PolygonCurve.from_masses(*exact), slack * (1 + 1e-9))
        truth = PolygonCurve.from_masses(*near)
        assert truth.advantage <= curve.advantage + 1e-12
        assert (truth.roc(GRID) <= curve.roc(GRID) + 1e-12).all()
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            for side in ("forward", "backward"):
                assert truth.delta(epsilon, side) <= curve.delta(epsilon, side) + 1e-12


def test_a_curve_that_forgets_the_false_positives_is_caught():
    caught = 0
    for exact, near, slack in pairs(200):
        base, truth = PolygonCurve.from_masses(*exact), PolygonCurve.from_masses(*near)
        caught += bool((truth.roc(GRID) > np.minimum(base.roc(GRID) + slack, 1) + 1e-9).any())
    assert caught > 5


def test_read_offs_agree_with_one_another():
    curve = SlackCurve(GaussianCurve(0.3), 1e-4)
    polygon = curve.to_polygon()
    assert polygon.advantage >= GaussianCurve(0.3).advantage + 2e-4 - 1e-12
    assert curve.eta == pytest.approx(GaussianCurve(0.3).eta + 1e-4, abs=1e-12)
    assert curve.tpr(0.0) == pytest.approx(GaussianCurve(0.3).tpr(1e-4) + 1e-4)
    assert curve.epsilon(1e-5) == np.inf
    assert curve.epsilon(1e-3) < np.inf
    # Nor does the profile rise again: a larger ε is never a worse promise.
    small = SlackCurve(GaussianCurve(0.5), 3e-7)
    profile = [small.delta(epsilon) for epsilon in np.linspace(0, 30, 200)]
    assert (np.diff(profile) <= 0).all()
    assert GaussianCurve(0.5).epsilon(1e-5) < small.epsilon(1e-5) < 2.2
    assert curve.reversed() == curve
    assert SlackCurve(GaussianCurve(0.3), 0.0).eta == GaussianCurve(0.3).eta


def test_slack_is_a_probability():
    with pytest.raises(InputError, match="slack"):
        SlackCurve(GaussianCurve(1.0), -0.1)
