"""All attacks that ran stand on one list, and the best of them is paid for."""

from dataclasses import replace

import numpy as np

from memberbound.attacks.learner_audit import audit_shadows, mean_bound
from memberbound.attacks.scores import highest_floor
from memberbound.attacks.shadows import FailedFit
from memberbound.games import SubsetGame
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
    """At confidence 0.2 a floor is wrong in at most 40 % of 20 runs: more than 16 have 3e-4.

    Negative control: without sharing, some attack is called a leak nearly always.
    """
    rng = np.random.default_rng(1)
    told = {"game": SubsetGame(40, 20, "average"), "attack": "null"}
    each = shared_confidence(0.2, 60)
    shared = alone = 0
    for _ in range(20):
        nothing = rng.choice([-1.0, 1.0], size=(60, 24))
        paid = [mean_bound("advantage", draws, confidence=each, **told) for draws in nothing]
        shared += highest_floor(paid, 0.2).lower > 0
        bounds = (mean_bound("advantage", draws, confidence=0.2, **told) for draws in nothing)
        alone += any(bound.lower > 0 for bound in bounds)
    assert shared <= 16 < alone
    member = halves(16, 40, 0)
    audit = audit_shadows(run_of(member, 3.0 * member), attacks=["loss", "lira"])
    assert audit.best_advantage.lower < audit.attacks[audit.best].advantage.lower
