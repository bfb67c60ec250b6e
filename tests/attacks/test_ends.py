"""Edges of audits: the fewest scores, ties with a limit, ends that are exactly reached."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from memberbound.attacks import intervals
from memberbound.attacks.intervals import (
    auc_upper,
    non_members_needed,
    rank_beyond,
    two_sample_deviation,
)
from memberbound.attacks.model_audit import audit_groups, recognise_members
from memberbound.attacks.one_run import Guesses, audit_one_run, least_fpr_of_dp, one_run_epsilon
from memberbound.attacks.scores import Scores, audit_scores, highest_floor
from memberbound.certificate import AuditBound
from memberbound.games import ModelGame

F = Fraction


def pair(members, others):
    return Scores.from_samples(members, others)


# ── Rates ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("fpr", "error"), [(0.1, 0.0125), (0.01, 0.0125), (0.3, 0.001)])
def test_a_rate_needs_as_many_others_as_can_all_score_lower(fpr, error):
    """(1 - α)^n ≤ error for the largest of n: by the definition, in rationals."""
    least = next(n for n in range(1, 10**4) if (1 - F(fpr)) ** n <= F(error))
    assert non_members_needed(fpr, error) == least


@pytest.mark.parametrize("fpr", [0.1, 0.05])
def test_a_rate_is_given_from_exactly_that_many_others_on(fpr):
    """A quarter of the remaining probability pays for the rank."""
    least = next(n for n in range(1, 10**4) if (1 - F(fpr)) ** n <= F(1, 80))
    for others in (least - 1, least):
        scores = pair(np.arange(60) + 0.5, np.arange(others))
        found = audit_scores(scores, fpr=[fpr]).tpr_at_fpr[repr(fpr)]
        assert (found is not None) == (others == least)


@pytest.mark.parametrize(("fpr", "others"), [(0.29, 100), (0.1, 50), (0.57, 100), (0.999, 5000)])
def test_the_estimate_allows_as_many_false_alarms_as_the_rate(fpr, others):
    """0.29·100 is 29 false alarms, though the doubles multiply to less."""
    members = np.arange(others) + 0.5  # one member above each of the others
    found = audit_scores(pair(members, np.arange(others)), fpr=[fpr]).tpr_at_fpr[repr(fpr)]
    allowed = int(F(str(fpr)) * others)
    assert found.estimate == (allowed + 1) / others


def test_the_lowest_of_the_others_can_be_a_threshold():
    """Members below every other: that many are missed, with Clopper and Pearson's end."""
    others, fpr, side = 30, 0.85, 0.025
    assert rank_beyond(others, fpr, side / 2) == others
    members = np.concatenate([np.full(40, -1.0), np.full(60, 99.0)])
    found = audit_scores(pair(members, np.arange(others)), fpr=[fpr]).tpr_at_fpr[repr(fpr)]
    exact = stats.beta.ppf(1 - side / 2, 61, 40)
    assert exact <= found.upper <= exact * (1 + 1e-9)
    assert exact < 1


# ── Advantages ────────────────────────────────────────────────────────────────────────────────────


def bound(lower, estimate):
    return AuditBound("advantage", estimate, lower, 1.0, 0.95, ModelGame(), "a")


def test_the_highest_floor_is_chosen_and_of_no_floor_the_highest_estimate():
    first, second = bound(0.2, 0.3), bound(0.1, 0.5)
    assert highest_floor([first, second]) is highest_floor([second, first]) is first
    below, none = bound(-0.1, 0.5), bound(0.0, 0.1)
    assert highest_floor([none, below]) is below


@pytest.mark.parametrize(("members", "others"), [(1, 40), (40, 1), (2, 40), (40, 2)])
def test_a_class_too_small_to_be_split_has_no_floor(members, others):
    found = audit_scores(pair(np.arange(members) + 99.0, np.arange(others)), fpr=[])
    assert (found.advantage.lower, found.advantage.estimate) == (0.0, 1.0)


def test_the_search_for_a_deviation_starts_where_the_bound_holds():
    """Massart's tail with 1 added to the deviation: below the error by e^-2."""
    for n1, n0, error in [(1, 1, 0.9), (20, 5, 0.5), (1000, 30, 1e-9)]:
        found = two_sample_deviation(n1, n0, error)
        top = math.sqrt(-math.log(error / 2000) / (2 * n1)) + math.sqrt(math.log(2) / (2 * n1))
        assert found < top + math.sqrt(-math.log(error) / (2 * n0)) + 1


def test_a_ceiling_of_the_area_is_one_minus_the_other_floor_from_above(monkeypatch):
    for low in (np.random.default_rng(0).random(300) * 0.37).tolist():
        monkeypatch.setattr(intervals, "auc_lower", lambda *_, low=low: low)
        exact = 1 - F(low)
        assert exact <= F(auc_upper(0.5, 30, 30, 0.01)) <= exact + F(1, 2**50)


# ── Groups and single members ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("members", "others"), [(10, 10), (9, 30), (30, 9), (10, 30)])
def test_groups_of_ten_of_each_are_measured(members, others):
    member = np.concatenate([np.ones(members, bool), np.zeros(others, bool)])
    scores = np.random.default_rng(0).random(members + others)
    (group,) = audit_groups(scores, member, ["x"] * len(member), column="c", attack="a").groups
    assert (group.advantage is not None) == (min(members, others) >= 10)


def test_a_discovery_at_the_very_level_is_left_out():
    """All members above all others: p = 1/(c + 1), p·m/k against the rate, by the definition."""
    member = np.concatenate([np.ones(30, bool), np.zeros(40, bool)])
    scores = np.where(member, 9.0, np.linspace(0, 1, 70))
    # Of 40 others 20 calibrate, and 50 records are tested: the procedure decides at j/21·50/k.

    def name_members(rate):
        return recognise_members(scores, member, range(30), attack="a", rate=rate).recognised

    levels = sorted({F(j, 21) * 50 / k for j in range(1, 22) for k in range(30, 51)})
    level = float(next(value for value in levels if name_members(float(value) * (1 + 1e-9))))
    assert [name_members(level * (1 + more)) for more in (1e-9, 1e-15, 0.0)] == [30, 0, 0]


# ── One run ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.03])
def test_the_least_rate_of_false_alarms_is_from_below(delta):
    """max(0, e^-ε(t - δ), 1 - δ - e^ε(1 - t)), also where two large terms nearly cancel."""
    rng = np.random.default_rng(1)
    for epsilon in (0.0, 0.01, 0.7, 3.0, 9.0):
        turn = 1 - (1 - delta) * math.exp(-epsilon)  # where the steep line reaches 0
        near = np.clip(turn + 10.0 ** rng.uniform(-9, -1, 60), 0, 1)
        tpr = np.concatenate([rng.random(60), near])
        got = least_fpr_of_dp(tpr, np.full(tpr.shape, epsilon), delta)
        with mp.workdps(40):
            for t, value in zip(tpr.tolist(), got.tolist(), strict=True):
                e = mp.mpf(epsilon)
                lines = (
                    mp.mpf(0),
                    mp.exp(-e) * (mp.mpf(t) - mp.mpf(delta)),
                    1 - mp.mpf(delta) - mp.exp(e) * (1 - mp.mpf(t)),
                )
                exact = max(lines)
                assert exact - mp.mpf("3e-14") * mp.exp(e) <= value
                assert value <= exact * (1 + mp.mpf("1e-12"))


@pytest.mark.parametrize(("canaries", "correct", "delta"), [(60, 57, 1e-3), (200, 170, 0.02)])
def test_a_floor_on_epsilon_by_the_definition(canaries, correct, delta):
    """The recursion of claim 7, written out, refuses the floor and not a little more."""

    def refute(epsilon):
        with mp.workdps(30):
            e, d = mp.mpf(epsilon), mp.mpf(delta)
            tail = total = mp.mpf("0.05")
            for k in range(correct, 0, -1):
                t = min(((k - 1) * tail + total) / canaries, mp.mpf(1))
                alarm = max(0, mp.exp(-e) * (t - d), 1 - d - mp.exp(e) * (1 - t))
                tail = max(tail, (total + canaries * alarm) / (canaries - k + 1))
                total += tail
            return tail > 1

    found = one_run_epsilon(Guesses(canaries, canaries, correct), delta=delta)
    assert found > 0.5
    assert refute(found)
    assert not refute(found * (1 + 1e-4))


def test_a_claim_that_is_just_reached_is_not_exceeded():
    scores = pair(np.arange(60) + 40.0, np.arange(60))
    found = audit_one_run(scores, delta=None, claimed_epsilon=1.0)
    at = replace(found, claimed_epsilon=found.epsilon_lower)
    assert not at.claim_exceeded
    assert replace(found, claimed_epsilon=math.nextafter(found.epsilon_lower, 0)).claim_exceeded
