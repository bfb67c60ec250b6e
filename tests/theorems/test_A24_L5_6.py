"""A24-L5.6: releasing the maximum of n Bernoulli(p) records leaks exactly 2 p (1-p)^n."""

from fractions import Fraction

from oracle import finite, iid, mechanisms

F = Fraction
CHANCES = [F(1, 100), F(1, 7), F(1, 3), F(1, 2), F(5, 6), F(99, 100)]


def leak(p, n):
    return 2 * p * (1 - p) ** n


def halved(p, n):
    return p * (1 - p) ** n


def one_power_short(p, n):
    return 2 * p * (1 - p) ** (n - 1)


def violations(formula):
    bad = []
    for p in CHANCES:
        for n in range(1, 9):
            pair = iid.joint_laws([1 - p, p], n, mechanisms.max_bernoulli(n))
            if finite.total_variation(*pair) != formula(p, n):
                bad.append((p, n))
    return bad


def test_exact_leak():
    assert violations(leak) == []


def test_broken_formulas_are_caught():
    assert violations(halved)
    assert violations(one_power_short)


def test_the_worst_learner_is_worse():
    for p in CHANCES:
        for n in (1, 2, 5):
            worst = iid.joint_laws([1 - p, p], n, iid.injective(n, 2))
            assert leak(p, n) <= iid.leakage(worst, F(1))
    # for a single record the maximum is the record: equality
    assert leak(F(1, 3), 1) == iid.leakage(
        iid.joint_laws([F(2, 3), F(1, 3)], 1, iid.injective(1, 2)), F(1)
    )
