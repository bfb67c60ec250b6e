"""I24-T8 corrected: eta-MIP gives TPR <= FPR + 2 eta; the printed FPR + eta is false."""

from fractions import Fraction
from random import Random

from oracle import finite, mechanisms, subset

F = Fraction
RATES = [F(0), F(1, 100), F(1, 4), F(1, 2), F(9, 10)]


def corrected(fpr, eta):
    return fpr + 2 * eta


def printed(fpr, eta):
    return fpr + eta


def games():
    rng = Random(88)
    for _ in range(10):
        size = rng.choice([2, 4])
        yield mechanisms.random_mechanism(rng, size, size // 2, rng.randint(2, 4)), size
    for truth in (F(1, 2), F(3, 5), F(9, 10)):
        yield mechanisms.randomised_response(truth), 2


def violations(formula):
    bad = []
    for kernel, size in games():
        eta = subset.eta(kernel, size, size // 2)
        for x in range(size):
            pair = subset.world_laws(kernel, size, size // 2, x)
            for fpr in RATES:
                if finite.tpr_at_fpr(*pair, fpr) > formula(fpr, eta):
                    bad.append((size, x, fpr, eta))
    return bad


def test_corrected_bound():
    assert violations(corrected) == []


def test_printed_bound_is_caught():
    assert violations(printed)


def test_reached_by_randomised_response():
    for truth in (F(3, 5), F(9, 10)):
        rr = mechanisms.randomised_response(truth)
        fpr = 1 - truth
        pair = subset.world_laws(rr, 2, 1, 0)
        assert finite.tpr_at_fpr(*pair, fpr) == fpr + 2 * subset.eta(rr, 2, 1)
