"""X17: a training size chosen from the data by testing in a fixed order needs no correction.

The certificates here are the worst that their guarantee allows: exact, except that each size is
certified away with probability β, independently of the others.  The procedure of the package is
run on them; false-alarm rate of each test below 1e-6, fixed seeds.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from memberbound.iid import sample_sizes as planning
from memberbound.iid.profiles import CountProfile
from memberbound.iid.worst_case import leak_of_uniform

ATOMS, ROWS, ALLOWED, RUNS = 30, 2000, 0.1, 2000
PROFILE = CountProfile.from_counts([ROWS // ATOMS] * (ATOMS - 1) + [ROWS - ROWS // ATOMS * 29])
LEAK = {n: leak_of_uniform(ATOMS, n) for n in range(1, ROWS + 1)}
ENOUGH = min(n for n in LEAK if LEAK[n] <= ALLOWED)


class Certificates:
    """Valid at each size with probability exactly 1-β, and useless when not."""

    def __init__(self, rng):
        self.rng = rng
        self.asked = []

    def __call__(self, profile, n, confidence):
        self.asked.append(n)
        wrong = self.rng.random() < 1 - confidence
        return SimpleNamespace(delta_upper=0.0 if wrong else LEAK[n])


def failures(monkeypatch, choose, beta=0.05, runs=RUNS):
    """Share of runs with a size too small for the target."""
    rng = np.random.default_rng(17)
    bad = 0
    for _ in range(runs):
        certificates = Certificates(rng)
        monkeypatch.setattr(planning, "certify_counts", certificates)
        bad += choose(certificates, 1 - beta) < ENOUGH
    return bad / runs


def in_order(certificates, confidence):
    return planning.smallest_n_for_table(PROFILE, security=1 - ALLOWED, confidence=confidence)


def smallest_that_passes(certificates, confidence):
    """The tempting variant: test every size of the same ladder, report the smallest that passes."""
    in_order(certificates, confidence)
    size, best = certificates.asked[-1], ROWS
    while size > 1:
        if certificates(PROFILE, size, confidence).delta_upper <= ALLOWED:
            best = size
        size = min(size - 1, math.floor(size * 0.97))
    return best


@pytest.mark.parametrize("beta", [0.05, 0.2])
def test_the_chosen_size_fails_as_rarely_as_one_certificate(monkeypatch, beta):
    share = failures(monkeypatch, in_order, beta)
    slack = 5.2 * math.sqrt(beta * (1 - beta) / RUNS)
    assert share <= beta + slack
    assert share >= beta - slack  # and no more can be promised: one size decides


def test_choosing_the_smallest_that_passes_fails_often(monkeypatch):
    assert failures(monkeypatch, smallest_that_passes, runs=300) > 0.5


def test_sizes_are_tested_from_large_to_small_up_to_the_first_failure(monkeypatch):
    certificates = Certificates(np.random.default_rng(0))
    monkeypatch.setattr(planning, "certify_counts", certificates)
    chosen = in_order(certificates, 1 - 1e-12)
    assert certificates.asked == sorted(certificates.asked, reverse=True)
    *passed, first_failure = certificates.asked
    assert chosen == passed[-1]
    assert LEAK[first_failure] > ALLOWED >= LEAK[chosen]
