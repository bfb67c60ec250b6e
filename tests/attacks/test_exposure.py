"""Exposure per record: ends that hold for all records at once, and the list they give.

Whoever reads an audit looks at the records that were guessed best, so an error of 5 % is one for
the whole table.  The single ends of the same records stand beside as the broken twin.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from memberbound.answers import plain
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.learner_audit import audit_shadows, record_exposure
from memberbound.studies import steps
from oracle.shadow_runs import halves, run_of

LEAKY = 5


def synthetic(models, rows, seed, shift=6.0):
    """Only the first LEAKY records move the model's answer."""
    member = halves(models, rows, seed)
    logit = np.random.default_rng(seed).normal(size=member.shape)
    logit[:, :LEAKY] += shift * (member[:, :LEAKY] - 0.5)
    return run_of(member, logit)


def exposed(seed, models=40, rows=60, **options):
    run = synthetic(models, rows, seed)
    return record_exposure(audit_shadows(run, attacks=["lira", "loss"], fpr=[0.1], **options))


def single(found, error=0.05):
    """The ends of each record on its own, which the first audits printed."""
    hits = np.rint(found.estimate * found.targets)
    return (
        clopper_pearson_lower(hits, found.targets, error / 2),
        clopper_pearson_upper(hits, found.targets, error / 2),
    )


def test_leaky_records_are_listed_and_others_are_not():
    false = naive = 0
    for seed in range(12):
        found = exposed(seed)
        assert set(range(LEAKY)) <= set(found.exposed.tolist())
        false += bool(set(found.exposed.tolist()) - set(range(LEAKY)))
        # Negative control: every record with an own lower bound above blind guessing.
        naive += bool((single(found)[0][LEAKY:] > found.blind_accuracy).any())
    # At most Bin(12, 0.05): 4 or more have probability 3e-3.
    assert false < 4
    # 55 records at 2.5 % each: most runs have one.
    assert naive > 3


def null_runs(runs, models=32, rows=80):
    """Audits of a learner that ignores its data: (any end wrong, so of single ends, verdict)."""
    wrong = alone = proved = 0
    for seed in range(runs):
        audit = audit_shadows(
            synthetic(models, rows, 1000 + seed, shift=0.0), attacks=["loss", "lira"], fpr=[0.1]
        )
        found = record_exposure(audit)
        # Nobody can be right about any record more or less often than half of the time.
        wrong += bool((found.lower > 0.5).any() or (found.upper < 0.5).any())
        low, high = single(found)
        alone += bool((low > 0.5).any() or (high < 0.5).any())
        # The verdict takes the first of these two floors that is above what is allowed.
        average = steps.average_row(audit)
        worst = steps.worst_row(found, 0.95, average)
        assert worst.accuracy_lower >= average.accuracy_lower
        proved += bool(average.accuracy_lower > 0.5 or worst.accuracy_lower > 0.5)
        for side in (average, worst):
            assert side.accuracy_estimate >= side.accuracy_lower >= side.blind
    return wrong, alone, proved


def test_nothing_is_said_against_a_learner_that_ignores_its_data():
    runs = 16
    wrong, alone, proved = null_runs(runs)
    # Bin(16, 0.05): more than 4 have probability 9e-4.
    assert wrong <= 4
    assert proved <= 4
    assert alone > runs / 2, "single ends must be caught"


@pytest.mark.long
def test_the_family_wise_error_over_many_null_audits():
    runs = 1000
    wrong, alone, proved = null_runs(runs)
    # Bin(1000, 0.05): more than 76 have probability 1e-4.
    assert wrong <= 76
    assert proved <= 76
    assert alone > runs / 2


def test_ends_share_the_error_among_the_records():
    found = exposed(0, confidence=0.9)
    hits = np.rint(found.estimate * found.targets)
    # Half the error for either side, of which each of the 60 records has its share.
    low, high = single(found, 0.1 / len(hits))
    assert found.lower == pytest.approx(low, rel=1e-12)
    assert found.upper == pytest.approx(high, rel=1e-12)
    assert set(found.exposed.tolist()) == set(np.flatnonzero(found.lower > 0.5).tolist())
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert found.lower[0] > 0.6
    assert found.worst_record_estimate >= found.lower.max()


def test_what_is_stored_is_what_holds_for_all_records():
    found = exposed(3)
    fields = plain(found)
    assert json.loads(json.dumps(fields)) == fields
    assert [r["record"] < LEAKY for r in fields["most_exposed"][:3]] == [True] * 3
    for item in fields["most_exposed"]:
        assert item["lower"] == found.lower[item["record"]]
        assert item["upper"] == found.upper[item["record"]]
        assert item["proved"] == (item["lower"] > fields["exposed_above"])
