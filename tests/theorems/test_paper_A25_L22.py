"""A25-L22 corrected: the maximum of n Bernoulli(p) records, at every gamma.

The paper states a leak of o((1-p)^n).  With q = 1-p the leak is, once n is large enough,
  gamma < 1:            p q^n
  gamma = 1:            2 p q^n for every n (A24-L5.6)
  gamma > 1:            (1 - gamma q)_+ q^n, which is zero from some n on when gamma q >= 1
so it is of exact order q^n unless gamma >= 1/q, where it vanishes.
"""

from fractions import Fraction

from oracle import iid, mechanisms
from oracle.claims import assert_exact

F = Fraction
CHANCES = [F(1, 10), F(1, 3), F(1, 2), F(4, 5)]
GAMMAS = [F(1, 4), F(4, 5), F(1), F(21, 20), F(5, 4), F(2), F(8)]


def truth(p, n, gamma):
    pair = iid.joint_laws([1 - p, p], n, mechanisms.max_bernoulli(n))
    return iid.leakage(pair, gamma)


def leak(p, n, gamma):
    """Valid for every n: the mean over the record of |gamma P(theta) - P(theta | record)|."""
    q = 1 - p
    heads = gamma * q**n + abs(gamma * (1 - q**n) - 1)
    tails = abs(gamma * q**n - q ** (n - 1)) + abs(gamma * (1 - q**n) - 1 + q ** (n - 1))
    mean = p * heads + q * tails
    return max(F(1), gamma) * (mean / (2 * gamma) - abs(1 - 1 / gamma) / 2)


def limit_leak(p, n, gamma):
    q = 1 - p
    if gamma == 1:
        return 2 * p * q**n
    return p * q**n if gamma < 1 else max(F(0), 1 - gamma * q) * q**n


def truths(sizes):
    return [((p, n, gamma), truth(p, n, gamma)) for p in CHANCES for n in sizes for gamma in GAMMAS]


def test_exact_leak_for_every_size_and_gamma():
    # The form for large sizes is not claimed for small ones.
    for sizes in ((1, 2), range(3, 9)):
        assert_exact(leak, truths(sizes), broken={"limit": limit_leak})


def test_exact_order_for_large_sizes():
    # To first order a remainder o((1-p)^n), as printed, would be 0.
    assert_exact(limit_leak, truths((40, 60)), broken={"negligible": lambda p, n, gamma: F(0)})
