"""All attacks that ran stand on one list, and the best of them is paid for."""

from dataclasses import replace

import numpy as np

from memberbound.attacks.learner_audit import audit_shadows, mean_interval, release_statistics
from memberbound.attacks.model_audit import audit_score_table
from memberbound.attacks.scores import Scores, audit_scores
from memberbound.attacks.shadows import FailedFit
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import shared_confidence
from memberbound.verbs.audit_learner import audit_run
from oracle.shadow_runs import halves, run_of


def test_no_floor_follows_from_halves_on_which_fits_succeed() -> None:
    member = halves(16, 40, 0)
    leaking = run_of(member, np.where(member, 9.0, -9.0))
    assert audit_run(leaking, attacks=["loss"]).reached[1] > 0.3
    failed = replace(leaking, failures=(FailedFit(16, 0, "one class"),))
    found = audit_run(failed, attacks=["loss"])
    assert found.reached[1] <= 0
    assert not found.exceeds(0.6, "floor")
    assert found.records.exposed.size == found.records.lower.max() == 0


def test_the_best_of_many_null_attacks_is_paid_for() -> None:
    """At confidence 0.2 a floor is wrong in at most 40 % of 8 runs: all of them have 7e-4.

    Negative control: without sharing, some attack is called a leak nearly always.
    """
    rng = np.random.default_rng(1)
    nothing = rng.choice([-1.0, 1.0], size=(8, 60, 60))
    wrong = []
    for level in (shared_confidence(0.2, 60), 0.2):
        side = shared_confidence(level, 2)  # as in mean_interval
        accused = (
            any(mean_lower(draws, confidence=side, low=-1.0)[0] > 0 for draws in attacks)
            for attacks in nothing
        )
        wrong.append(sum(accused))
    shared, alone = wrong
    assert shared < min(8, alone)
    assert alone >= 6
    member = halves(16, 40, 0)
    audit = audit_shadows(run_of(member, 3.0 * member), attacks=["loss", "lira"])
    assert audit.best_advantage.lower < audit.attacks[audit.best].advantage.lower


def test_the_best_of_several_rules_against_a_given_model_is_paid_for() -> None:
    rng = np.random.default_rng(2)
    member = np.arange(400) < 200
    everywhere = np.ones(400, dtype=bool)
    scores = {name: (rng.normal(size=400) + member, everywhere) for name in ("a", "b", "c")}
    audit = audit_score_table(scores, member, confidence=0.9)
    pairs = {name: Scores.of(score, member) for name, (score, _) in scores.items()}
    shared, alone = (
        max(audit_scores(p, confidence=c, attack=n).advantage.lower for n, p in pairs.items())
        for c in (shared_confidence(0.9, 3), 0.9)
    )
    assert audit.best_advantage.lower == shared < alone


def test_both_ends_of_a_mean_share_its_error() -> None:
    values = np.random.default_rng(3).random(40)
    side = shared_confidence(0.9, 2)
    ends = mean_lower(values, confidence=side)[0], mean_upper(values, confidence=side)[0]
    assert mean_interval(values, 0.9) == ends


def test_equal_scores_identify_nobody() -> None:
    """A member that scores as high as the last allowed non-member is not above it."""
    member = np.tile(np.arange(40) < 20, (3, 1))
    reached = release_statistics(np.ones((3, 40)), member, 1.0, (0.1,))
    assert np.array_equal(reached[0.1], np.zeros(3))
    assert np.array_equal(reached["auc"], np.full(3, 0.5))
