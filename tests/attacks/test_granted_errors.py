"""Bounds hold when special functions err by the full slack, to the unsafe side."""

import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from memberbound.attacks import intervals, one_run
from memberbound.attacks.intervals import (
    auc_lower,
    auc_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    rank_beyond,
    rank_within,
    two_sample_deviation,
)
from memberbound.attacks.one_run import Guesses, one_run_p_value

#: The errors that proofs/audit-intervals.md allows scipy, nearly used up.
OFF = 0.9e-11
CASES = [(2, 10, 0.05), (7, 10, 0.025), (3, 1000, 0.0125), (990, 1000, 0.01), (60, 120, 1e-4)]


def off(function, factor):
    return lambda *arguments: function(*arguments) * (1 + factor)


def tail(n, first, p):
    """P(Bin(n, p) ≥ first) to 50 digits."""
    with mp.workdps(50):
        return mp.betainc(first, n - first + 1, 0, mp.mpf(p), regularized=True)


@pytest.mark.parametrize(("hits", "trials", "error"), CASES)
def test_ends_of_clopper_and_pearson(monkeypatch, hits, trials, error):
    inverse = SimpleNamespace(
        betaincinv=off(special.betaincinv, OFF), betainccinv=off(special.betainccinv, -OFF)
    )
    monkeypatch.setattr(intervals, "special", inverse)
    low = float(clopper_pearson_lower(hits, trials, error))
    assert tail(trials, hits, low) <= error < tail(trials, hits, low * (1 + 1e-9))
    high = float(clopper_pearson_upper(hits, trials, error))
    with mp.workdps(50):
        assert 1 - tail(trials, hits + 1, high) <= error
        assert high == 1 or 1 - tail(trials, hits + 1, high * (1 - 1e-9)) > error


def test_one_hit_or_one_miss_in_a_finite_population():
    for n, error in [(7, 0.03), (1000, 0.0125), (333, 1e-3)]:
        assert mp.mpf(float(clopper_pearson_lower(1, n, error))) * n <= error
        assert float(clopper_pearson_lower(1, n, error)) == pytest.approx(error / n)
        high = float(clopper_pearson_upper(n - 1, n, error))
        assert (1 - mp.mpf(high)) * n <= error
        assert 1 - high == pytest.approx(error / n, abs=2e-11)


def divergence(p, q):
    p, q = mp.mpf(p), mp.mpf(q)
    if q in (0, 1):
        return mp.inf
    return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))


@pytest.mark.parametrize("pairs", [25, 1000, 10**7])
@pytest.mark.parametrize("auc", [0.3, 0.55, 0.9])
@pytest.mark.parametrize("wrong", ["logarithm", "divergence", "rounding", "everything"])
def test_floors_of_the_area(monkeypatch, pairs, auc, wrong):
    """The floor is refuted exactly: n·kl(auc, floor) ≥ ln(1/error), and hardly more."""
    error, every = 0.0125, float(wrong == "everything")
    spare = {"logarithm": every, "divergence": every, "rounding": every, wrong: 1.0}
    logarithm = SimpleNamespace(
        log=off(math.log, -OFF * spare["logarithm"]), nextafter=math.nextafter
    )

    def too_large(p, q):
        with mp.workdps(40):
            exact = divergence(p, q)
            off_by = spare["divergence"] * OFF * exact + spare["rounding"] * 15 * mp.mpf(2) ** -53
            return float(exact + off_by)

    monkeypatch.setattr(intervals, "_divergence", too_large)
    monkeypatch.setattr(intervals, "math", logarithm)
    with mp.workdps(40):
        level = -mp.log(mp.mpf(error))
        floor = auc_lower(auc, pairs, 2 * pairs, error)
        assert level <= pairs * divergence(auc, floor) <= level * (1 + mp.mpf("1e-6"))
        ceiling = auc_upper(auc, pairs, 2 * pairs, error)
        assert level <= pairs * divergence(auc, ceiling) <= level * (1 + mp.mpf("1e-6"))


def test_areas_at_the_ends():
    assert auc_lower(0.0, 30, 30, 0.01) == 0.0
    assert auc_upper(1.0, 30, 30, 0.01) == 1.0
    with mp.workdps(40):
        # kl(1, q) = -ln q.
        assert mp.mpf(auc_lower(1.0, 30, 40, 0.01)) <= mp.mpf(0.01) ** (mp.mpf(1) / 30)
    assert auc_lower(1.0, 30, 40, 0.01) == pytest.approx(0.01 ** (1 / 30), rel=1e-9)


def test_the_deviation_of_two_samples(monkeypatch):
    """The sum over cells, each at its upper end, in 40 digits, where every product errs."""
    n1, n0, error = 300, 200, 0.02
    monkeypatch.setattr(intervals, "_massart", off(intervals._massart, -0.9e-9))
    two_sample_deviation.cache_clear()
    s = two_sample_deviation(n1, n0, error)
    two_sample_deviation.cache_clear()
    with mp.workdps(40):
        floor = mp.sqrt(mp.log(2) / (2 * n1))
        top = mp.sqrt(-mp.log(mp.mpf(error) / 2000) / (2 * n1)) + floor
        ends = [floor + (top - floor) * k / 4095 for k in range(4096)]

        def other(deviation):
            value = mp.exp(-2 * n0 * max(deviation, 0) ** 2)
            return value if value <= 0.5 else mp.mpf(1)

        beyond = [min(2 * mp.exp(-2 * n1 * end**2), mp.mpf(1)) for end in ends]
        total, before = beyond[-1], mp.mpf(1)
        for end, rest in zip(ends, beyond, strict=True):
            total += (before - rest) * other(s - end)
            before = rest
        assert error * (1 - mp.mpf("1e-8")) <= total <= error
        # The last cell ends where a thousandth of the error is left.
        assert beyond[-1] <= error / 1000


@pytest.mark.parametrize(("n", "alpha", "k"), [(500, 0.1, 31), (2000, 0.05, 70), (60, 0.3, 9)])
def test_ranks_with_tails_just_too_large(monkeypatch, n, alpha, k):
    """The error is less than the exact tail by less than what scipy may be off by."""
    wrong = SimpleNamespace(bdtr=off(special.bdtr, -OFF), bdtrc=off(special.bdtrc, -OFF))
    monkeypatch.setattr(intervals, "special", wrong)
    with mp.workdps(50):
        below = 1 - tail(n, k, alpha)  # P(Bin ≤ k - 1)
        assert rank_within(n, alpha, float(below * (1 - mp.mpf("5e-12")))) == k - 1
        assert rank_within(n, alpha, float(below * (1 + mp.mpf("5e-11")))) == k
        k = int(n * alpha + 3 * math.sqrt(n * alpha))
        above = tail(n, k, alpha)
        assert rank_beyond(n, alpha, float(above * (1 - mp.mpf("5e-12")))) == k + 1
        assert rank_beyond(n, alpha, float(above * (1 + mp.mpf("5e-11")))) == k


def test_probabilities_of_one_run(monkeypatch):
    """Tails off by nine of ten slacks; with δ the cheapest exceptions are bought, to 50 digits."""
    monkeypatch.setattr(
        one_run,
        "special",
        SimpleNamespace(
            bdtrc=off(special.bdtrc, -0.9e-10),
            expit=special.expit,
            gammaln=special.gammaln,
            log_expit=special.log_expit,
        ),
    )
    for r, v, epsilon in [(50, 40, 0.5), (200, 150, 0.8), (30, 30, 1.0)]:
        with mp.workdps(50):
            p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
            assert tail(r, v, p) <= one_run_p_value(Guesses(400, r, v), epsilon=epsilon)


@pytest.mark.parametrize("delta", [1e-7, 1e-4, 1e-2])
@pytest.mark.parametrize(("r", "v", "epsilon"), [(50, 40, 0.5), (200, 150, 0.8), (30, 30, 1.0)])
def test_probabilities_of_one_run_with_exceptions(delta, r, v, epsilon):
    """P(count ≥ v) where count v - k costs k of a budget m·δ·(1 - p), by the definition."""
    m = 400
    got = one_run_p_value(Guesses(m, r, v), epsilon=epsilon, delta=delta)
    with mp.workdps(50):
        p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        budget, total = m * mp.mpf(delta) * (1 - p), tail(r, v, p)
        for k in range(1, v + 1):
            mass = mp.binomial(r, v - k) * p ** (v - k) * (1 - p) ** (r - v + k)
            bought = min(mass, budget / k)
            total, budget = total + bought, budget - k * bought
        exact = min(total, mp.mpf(1))
        assert exact <= got <= min(mp.mpf(1), exact * (1 + mp.mpf("1e-9")))


def test_masses_of_one_run_are_from_above():
    for r in (10, 1000, 10**5):
        k = np.array([0, 1, r // 2, r - 1, r])
        for mass, count in zip(one_run._log_masses(r, k, 0.7).tolist(), k.tolist(), strict=True):
            with mp.workdps(50):
                p = 1 / (1 + mp.exp(-mp.mpf(0.7)))
                choices = mp.loggamma(r + 1) - mp.loggamma(count + 1) - mp.loggamma(r - count + 1)
                exact = choices + count * mp.log(p) + (r - count) * mp.log(1 - p)
                assert exact <= mass <= exact + mp.mpf("1e-13") * (mp.loggamma(r + 1) + r)
