"""All attacks that ran stand on one list, and the best of them is paid for."""

from dataclasses import replace

import numpy as np

from memberbound.attacks.learner_audit import audit_shadows
from memberbound.attacks.shadows import FailedFit
from memberbound.numerics.means import mean_lower
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
