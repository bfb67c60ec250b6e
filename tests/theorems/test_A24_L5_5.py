"""A24-L5.5: leak of a finite-range deterministic learner from the partition it induces."""

from fractions import Fraction

from oracle import finite, iid, mechanisms
from oracle.claims import assert_exact

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


def instances():
    return mechanisms.random_merges(55, 25)


def test_partition_formula():
    assert_exact(
        leak,
        ((case, finite.total_variation(*iid.joint_laws(*case))) for case in instances()),
        broken={
            "absolute value inside": absolute_inside,
            "without ½": lambda p, n, release: 2 * leak(p, n, release),
        },
    )


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
