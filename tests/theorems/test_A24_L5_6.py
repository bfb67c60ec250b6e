"""A24-L5.6: releasing the maximum of n Bernoulli(p) records leaks exactly 2 p (1-p)^n."""

from fractions import Fraction

from oracle import finite, iid, mechanisms
from oracle.claims import assert_exact

F = Fraction
CHANCES = [F(1, 100), F(1, 7), F(1, 3), F(1, 2), F(5, 6), F(99, 100)]


def leak(p, n):
    return 2 * p * (1 - p) ** n


def test_exact_leak():
    assert_exact(
        leak,
        (
            (
                (p, n),
                finite.total_variation(*iid.joint_laws([1 - p, p], n, mechanisms.max_bernoulli(n))),
            )
            for p in CHANCES
            for n in range(1, 9)
        ),
        broken={
            "halved": lambda p, n: p * (1 - p) ** n,
            "one power short": lambda p, n: 2 * p * (1 - p) ** (n - 1),
        },
    )


def test_the_worst_learner_is_worse():
    for p in CHANCES:
        for n in (1, 2, 5):
            worst = iid.joint_laws([1 - p, p], n, iid.injective(n, 2))
            assert leak(p, n) <= iid.leakage(worst, F(1))
    # for a single record the maximum is the record: equality
    assert leak(F(1, 3), 1) == iid.leakage(
        iid.joint_laws([F(2, 3), F(1, 3)], 1, iid.injective(1, 2)), F(1)
    )
