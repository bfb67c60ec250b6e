"""A24-L5.5: leak of a finite-range deterministic learner from the partition it induces."""

from fractions import Fraction
from random import Random

from oracle import finite, iid, mechanisms

F = Fraction


def cells(release):
    parts = {}
    for h, label in release.items():
        parts.setdefault(label, []).append(h)
    return parts.values()


def leak(p, n, release):
    law = iid.multinomial(p, n)
    return (
        sum(
            abs(sum(law[h] * (p[j] - F(h[j], n)) for h in cell))
            for j in range(len(p))
            for cell in cells(release)
        )
        / 2
    )


def absolute_inside(p, n, release):
    """The absolute value taken before the expectation: the worst learner's leak instead."""
    law = iid.multinomial(p, n)
    return sum(m * abs(p[j] - F(h[j], n)) for h, m in law.items() for j in range(len(p))) / 2


def without_half(p, n, release):
    return 2 * leak(p, n, release)


def instances():
    rng = Random(55)
    for _ in range(25):
        atoms = rng.randint(2, 4)
        n = rng.randint(1, 5 if atoms < 4 else 3)
        p = mechanisms.random_iid_law(rng, atoms)
        yield p, n, mechanisms.random_merge(rng, n, atoms, rng.randint(1, 5))


def violations(formula):
    bad = []
    for p, n, release in instances():
        truth = finite.total_variation(*iid.joint_laws(p, n, release))
        if formula(p, n, release) != truth:
            bad.append((p, n, release))
    return bad


def test_partition_formula():
    assert violations(leak) == []


def test_broken_formulas_are_caught():
    assert violations(absolute_inside)
    assert violations(without_half)


def test_never_above_the_worst_learner():
    for p, n, release in instances():
        assert leak(p, n, release) <= absolute_inside(p, n, release)


def test_tight_for_the_finest_partition_and_zero_for_the_coarsest():
    for p, n, _ in instances():
        assert leak(p, n, iid.injective(n, len(p))) == absolute_inside(p, n, None)
        assert leak(p, n, mechanisms.constant_release(n, len(p))) == 0


def test_merging_labels_never_leaks_more():
    for p, n, release in instances():
        merged = {h: label // 2 for h, label in release.items()}
        assert leak(p, n, merged) <= leak(p, n, release)
