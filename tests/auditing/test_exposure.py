"""Exposure per record: intervals one at a time, and a list that holds as a whole."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from memberbound.auditing.exposure import holm, record_exposure
from memberbound.auditing.learner_audit import audit_shadows
from memberbound.auditing.shadows import ShadowRun, draw_half
from memberbound.auditing.signals import Signals
from memberbound.errors import InputError
from memberbound.learners import Examples

LEAKY = 5


def synthetic(models, rows, seed, shift=6.0):
    """Only the first LEAKY records move the model's answer."""
    rng = np.random.default_rng(seed)
    member = np.array([draw_half(rows, seed, m)[0] for m in range(models)])
    logit = rng.normal(size=member.shape)
    logit[:, :LEAKY] += shift * (member[:, :LEAKY] - 0.5)
    data = Examples(np.zeros((rows, 1)), np.zeros(rows, int), "classification", ("a",), ("0", "1"))
    signals = Signals(logit, logit > 0, "probabilities")
    return ShadowRun(member, signals, tuple(range(models)), (), np.ones(models), data)


def exposed(seed, models=40, rows=60, **options):
    audit = audit_shadows(synthetic(models, rows, seed), attacks=["lira", "loss"], fpr=[0.1])
    return record_exposure(audit, **options)


def test_leaky_records_are_listed_and_others_are_not():
    false = naive = 0
    for seed in range(20):
        found = exposed(seed)
        assert set(range(LEAKY)) <= set(found.exposed.tolist())
        false += bool(set(found.exposed.tolist()) - set(range(LEAKY)))
        # Negative control: every record with an own lower bound above blind guessing.
        naive += bool((found.lower[LEAKY:] > found.blind).any())
    # At most Bin(20, 0.05): 5 or more have probability 3e-3.
    assert false < 5
    # 55 records at 2.5 % each: most runs have one.
    assert naive > 5


def test_intervals_hold_for_each_record():
    inside = total = 0
    for seed in range(20):
        found = exposed(seed)
        # No attack knows anything about the other records: accuracy is ½ for each.
        ok = (found.lower[LEAKY:] <= 0.5) & (found.upper[LEAKY:] >= 0.5)
        inside += int(ok.sum())
        total += ok.size
    # Records of one release depend weakly on each other; 3 % beyond the nominal level is ample.
    assert inside / total >= 0.92
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert (found.family_lower <= found.lower).all()
    assert (found.eta_lower >= 0).all()
    assert found.eta_lower[0] > 0.1


def test_the_tail_is_that_of_a_binomial_law():
    found = exposed(0, confidence=0.9)
    hits = np.rint(found.estimate * found.targets).astype(int)
    tails = [
        float(
            sum(
                Fraction(comb(found.targets, j), 2**found.targets)
                for j in range(h, found.targets + 1)
            )
        )
        for h in hits
    ]
    listed = holm(np.array(tails), 0.1)
    assert set(np.flatnonzero(listed).tolist()) == set(found.exposed.tolist())


def test_a_higher_bar_lists_fewer_records():
    low, high = exposed(1), exposed(1, above=0.8)
    assert set(high.exposed.tolist()) <= set(low.exposed.tolist())
    with pytest.raises(InputError, match="blind guessing"):
        exposed(1, above=0.4)
    with pytest.raises(InputError, match="attack must be one of"):
        exposed(1, attack="rmia")
    assert exposed(1, attack="loss").attacks == ("loss",) * 3


def test_too_few_targets_list_nothing():
    audit = audit_shadows(synthetic(8, 60, 0), attacks=["lira"], fpr=[0.1])
    found = record_exposure(audit)
    assert found.exposed.size == 0
    assert found.targets == 4


def test_fields_are_json():
    fields = exposed(2).to_dict(most=3)
    assert json.loads(json.dumps(fields)) == fields
    assert [r["record"] < LEAKY for r in fields["most_exposed"]] == [True] * 3
    assert fields["most_exposed"][0]["proved"]


def test_holm_against_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(6) ** 4
        kept = set(range(6))
        # Step down: the smallest p-value is compared with the error shared among those left.
        while kept:
            best = min(kept, key=lambda i: p[i])
            if p[best] > 0.1 / len(kept):
                break
            kept.remove(best)
        assert set(np.flatnonzero(~holm(p, 0.1)).tolist()) == kept


def test_odd_populations_have_another_blind_accuracy():
    found = exposed(0, rows=61)
    assert found.blind == pytest.approx(31 / 61)
    assert all(a != b for a, b in itertools.pairwise(found.exposed.tolist()))
