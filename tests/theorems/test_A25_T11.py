"""A25-T11, D9, E2 and A24-T4.2, C4.2.1, E4.3: overfitting caps security.

Oracle: worlds of a few records in which MIS is enumerated in rationals.
"""

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from memberbound.papers.iid_figures import ceiling_from_overfitting
from oracle.claims import assert_bound


class World:
    """Three records, two of them drawn, a learner by a table, losses by a table: all rational."""

    def __init__(self, seed):
        rng = Random(seed)
        weights = [rng.randint(1, 6) for _ in range(3)]
        self.p = [Fraction(w, sum(weights)) for w in weights]
        self.releases = rng.choice([1, 2, 3, 9])
        table = {d: rng.randrange(self.releases) for d in product(range(3), repeat=2)}
        if self.releases == 9:
            table = {d: 3 * d[0] + d[1] for d in table}
        self.table = table
        # A tendency to low losses on members makes the ceiling bite.
        self.loss = {
            (t, z): rng.choice([0, 0, 1, 2] if any(table[d] == t and z in d for d in table) else
                               [0, 1, 2, 2])
            for t in range(self.releases) for z in range(3)
        }  # fmt: skip

    def laws(self):
        """Laws of (θ, fresh record) and (θ, uniform member)."""
        out, member = {}, {}
        for data, t in self.table.items():
            mass = self.p[data[0]] * self.p[data[1]]
            for z in range(3):
                out[t, z] = out.get((t, z), 0) + mass * self.p[z]
            for z in data:
                member[t, z] = member.get((t, z), 0) + mass / 2
        return out, member

    def security(self, gamma):
        out, member = self.laws()
        gap = sum(max(0, member.get(key, 0) - gamma * mass) for key, mass in out.items())
        best = max(gap, Fraction(0), 1 - gamma)
        delta = max(1, gamma) * (best / gamma + 1 - 1 / gamma - max(0, 1 - 1 / gamma))
        return 1 - delta

    def level(self, epsilon):
        """α and q of (ε, 1-α)-overfitting, exactly."""
        out, member = self.laws()
        alpha = sum(m for key, m in member.items() if self.loss[key] > epsilon)
        return alpha, sum(m for key, m in out.items() if self.loss[key] <= epsilon)


def securities():
    """((α, q, γ), security) of all worlds."""
    for seed in range(150):
        world = World(seed)
        levels = [world.level(epsilon) for epsilon in (0, 1, 2)]
        for gamma in (Fraction(1, 3), Fraction(1), Fraction(5, 2)):
            truth = world.security(gamma)
            yield from (((float(a), float(q), float(gamma)), truth) for a, q in levels)


def test_ceiling_is_never_below_the_security():
    truth = list(securities())
    assert_bound(
        ceiling_from_overfitting,
        truth,
        broken={
            "without max(1, 1/γ)": lambda a, q, g: min(1.0, a + g * q),
            "half of q": lambda a, q, g: min(1.0, max(1.0, 1 / g) * (a + q / 2)),
            "without α": lambda a, q, g: min(1.0, max(1.0, 1 / g) * (g * q)),
        },
    )
    excesses = [Fraction(ceiling_from_overfitting(*at)) - value for at, value in truth]
    assert any(
        0 < x < Fraction(1, 50) and x + v < 1 for x, (_, v) in zip(excesses, truth, strict=True)
    )


@pytest.mark.parametrize("cells", [2, 10, 1000])
def test_tight_for_the_release_of_one_record(cells):
    """θ = z₁ with n = 1, zero loss exactly at z₁: MIS = 1/K, which is the ceiling at ε = 0."""
    assert ceiling_from_overfitting(0.0, 1 / cells) == pytest.approx(1 / cells, rel=1e-14)
    assert ceiling_from_overfitting(0.0, 1 / cells) >= 1 / cells


def test_limits():
    assert ceiling_from_overfitting(0.0, 0.0) == 0.0
    assert ceiling_from_overfitting(1.0, 0.0) == 1.0
    assert ceiling_from_overfitting(0.3, 1.0) == 1.0
