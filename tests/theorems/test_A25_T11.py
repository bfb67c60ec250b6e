"""A25-T11, D9, E2 and A24-T4.2, C4.2.1, E4.3: overfitting caps security.

Oracle: worlds of a few records in which MIS is enumerated in rationals.
"""

from fractions import Fraction
from random import Random

import pytest

from memberbound.papers.aubinais2025 import overfitting_ceiling
from oracle import iid, mechanisms
from oracle.claims import assert_bound


def securities():
    """((α, q, γ), security) of small games with random losses, lower for members."""
    rng = Random(11)
    games = [*mechanisms.random_iid_games(11, 150), ([Fraction(1, 3)] * 3, 2, iid.injective(2, 3))]
    for game in games:
        inside, out = iid.joint_laws(*game)
        drawn = {key: [0, 0, 1, 2] if inside.get(key) else [0, 1, 2, 2] for key in out}
        loss = {key: rng.choice(values) for key, values in drawn.items()}
        for gamma in (Fraction(1, 3), Fraction(1), Fraction(5, 2)):
            security = 1 - iid.leakage((inside, out), gamma)
            for epsilon in (0, 1, 2):
                alpha = sum(m for key, m in inside.items() if loss[key] > epsilon)
                fresh = sum(m for key, m in out.items() if loss[key] <= epsilon)
                yield (float(alpha), float(fresh), float(gamma)), security


def test_ceiling_is_never_below_the_security():
    truth = list(securities())
    assert_bound(
        overfitting_ceiling,
        truth,
        broken={
            "without max(1, 1/γ)": lambda a, q, g: min(1.0, a + g * q),
            "half of q": lambda a, q, g: min(1.0, max(1.0, 1 / g) * (a + q / 2)),
            "without α": lambda a, q, g: min(1.0, max(1.0, 1 / g) * (g * q)),
        },
    )
    excesses = [Fraction(overfitting_ceiling(*at)) - value for at, value in truth]
    assert any(
        0 < x < Fraction(1, 50) and x + v < 1 for x, (_, v) in zip(excesses, truth, strict=True)
    )


@pytest.mark.parametrize("cells", [2, 10, 1000])
def test_tight_for_the_release_of_one_record(cells):
    """θ = z₁ with n = 1, zero loss exactly at z₁: MIS = 1/K, which is the ceiling at ε = 0."""
    assert overfitting_ceiling(0.0, 1 / cells) == pytest.approx(1 / cells, rel=1e-14)
    assert overfitting_ceiling(0.0, 1 / cells) >= 1 / cells


def test_limits():
    assert overfitting_ceiling(0.0, 0.0) == 0.0
    assert overfitting_ceiling(1.0, 0.0) == 1.0
    assert overfitting_ceiling(0.3, 1.0) == 1.0
