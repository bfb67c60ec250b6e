"""Attacks against naive second implementations, their sign, what they need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from attacks.conftest import rows
from memberbound.attacks.attacks import (
    ATTACKS,
    DEFAULT_ATTACKS,
    Targets,
    lira,
    rmia,
)
from memberbound.attacks.learner_audit import audit_shadows
from memberbound.attacks.shadows import train_shadows
from memberbound.attacks.signals import Signals
from memberbound.learners.examples import Examples
from oracle.shadow_runs import shifted_run


def _naive(run, target, shadows):
    """LiRA and RMIA of one target by loops over records, with explicit shadow sets."""
    value, rows = run.signals.logit, run.membership.shape[1]
    laws = {}
    for side, mask in (("in", run.membership), ("out", ~run.membership)):
        groups = [value[[s for s in shadows if mask[s, x]], x] for x in range(rows)]
        squares = [((g - g.mean()) ** 2).sum() for g in groups]
        pooled = sum(squares) / sum(len(g) - 1 for g in groups)
        spreads = [(q + 4 * pooled) / (len(g) + 3) for g, q in zip(groups, squares, strict=True)]
        laws[side] = [(g.mean(), v) for g, v in zip(groups, spreads, strict=True)]
    ratios, relative = [], []
    p = 1 / (1 + np.exp(-value))
    for x in range(rows):
        (a, va), (b, vb) = laws["in"][x], laws["out"][x]
        inside = -((value[target, x] - a) ** 2) / (2 * va) - np.log(va) / 2
        ratios.append(inside + (value[target, x] - b) ** 2 / (2 * vb) + np.log(vb) / 2)
        sides = [[s for s in shadows if run.membership[s, x] == side] for side in (True, False)]
        relative.append(np.log(p[target, x] / np.mean([p[side, x].mean() for side in sides])))
    return np.array(ratios), np.array(relative)


def test_lira_and_rmia_leave_the_target_out():
    run = shifted_run(24, 21, 1.0, 3)
    targets = Targets.each_by_the_others(run.signals, run.membership)
    for target in (0, 7, 23):
        ratios, relative = _naive(run, target, [s for s in range(24) if s != target])
        assert np.allclose(lira(targets)[target], ratios)
        assert np.allclose(rmia(targets)[target], relative)
    # Broken variant: keeping the target among its shadows is another attack.
    kept = Targets(run.signals, run.signals, run.membership)
    assert not np.allclose(lira(kept), lira(targets))
    # Targets that are not shadows.
    later = Targets(run.signals[20:], run.signals[:20], run.membership[:20])
    ratios, relative = _naive(run, 22, list(range(20)))
    assert np.allclose(lira(later)[2], ratios)
    assert np.allclose(rmia(later)[2], relative)


def test_no_attack_looks_at_the_targets_half():
    run = shifted_run(12, 40, 1.0, 6)
    everyone = Targets.each_by_the_others(run.signals, run.membership)
    flipped = run.membership.copy()
    flipped[3] = ~flipped[3]
    other = Targets.each_by_the_others(run.signals, flipped)
    for name in ("loss", "label-only", "calibrated-loss", "lira", "rmia"):
        score = ATTACKS[name].score
        # Only the target's own half is another one: its own scores stay (pooled variances too).
        assert np.allclose(score(everyone)[3], score(other)[3])


@pytest.fixture(scope="module")
def population():
    x, y = rows(120)
    return Examples(x, y, "classification", tuple("abcde"), ("0", "1"))


@pytest.fixture(scope="module")
def overfit(population):
    tree = DecisionTreeClassifier(max_features=2)
    return train_shadows(population, tree, models=16, n_jobs=1)


@pytest.mark.parametrize("name", ATTACKS)
def test_higher_scores_mean_member(overfit, name):
    audit = audit_shadows(overfit, attacks=[name])
    # Wrong signs are below ½; a tree's members all have loss 0.
    assert audit.attacks[name].auc.estimate > 0.55
    assert audit.attacks[name].advantage.estimate > 0.05


def test_regression_targets_are_attacked_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    data = Examples(x, x[:, 0] + rng.normal(size=80), "regression", ("a", "b", "c"))
    run = train_shadows(data, RandomForestRegressor(5), models=12, n_jobs=1)
    audit = audit_shadows(run, attacks=ATTACKS)
    assert "label-only" not in audit.attacks
    assert any("label-only" in w for w in audit.warnings)
    for result in audit.attacks.values():
        assert result.auc.estimate > 0.6


def test_reports_rates_with_too_few_non_members(overfit):
    audit = audit_shadows(overfit, attacks=["lira"])
    # 60 non-members allow an FPR of 10 % but not of 1 %.
    assert audit.attacks["lira"].tpr_at_fpr["0.01"] is None
    assert audit.attacks["lira"].tpr_at_fpr["0.1"].estimate > 0.1
    assert any("60 non-members" in warning for warning in audit.warnings)


def test_combined_sees_what_a_threshold_on_the_loss_cannot():
    """Members have losses near ln 2, others far from it on both sides; noise shows nothing."""
    rng = np.random.default_rng(4)
    run = shifted_run(40, 30, 0.0, 4)
    sign = rng.choice([-1.0, 1.0], size=run.membership.shape)
    logit = np.where(run.membership, 0.0, 2.0 * sign) + 0.3 * run.signals.logit
    planted = replace(run, signals=Signals(logit, logit > 0, "probabilities"))
    audit = audit_shadows(planted, attacks=["loss", "combined"])
    assert audit.attacks["combined"].advantage.lower > 0.6 > audit.attacks["loss"].advantage.upper
    null = audit_shadows(run, attacks=["combined"])
    assert null.attacks["combined"].advantage.lower <= 0


def test_labels_alone_are_enough():
    run = shifted_run(12, 60, 2.0, 0)
    right = run.signals.logit > 0
    labels = Signals(np.where(right, 1.0, -1.0), right, "labels")
    audit = audit_shadows(replace(run, signals=labels), attacks=(*DEFAULT_ATTACKS, "label-only"))
    assert "combined" not in audit.attacks
    for name in ("label-only", "calibrated-loss", "lira", "rmia"):
        assert audit.attacks[name].auc.estimate > 0.65


def test_a_constant_learner_leaks_nothing(population):
    run = train_shadows(population, DummyClassifier(strategy="uniform"), models=12, n_jobs=1)
    audit = audit_shadows(run, attacks=ATTACKS)
    for result in audit.attacks.values():
        assert 0.4 < result.auc.estimate < 0.6
        assert result.advantage.lower <= 0


def test_a_record_that_no_shadow_has_in_gets_a_score():
    run = shifted_run(8, 40, 1.0, 0)
    run.membership[:, 0] = False
    run.membership[:, 1] = True
    run.membership[0, 2:] = False
    targets = Targets.each_by_the_others(run.signals, run.membership)
    for attack in ATTACKS.values():
        assert np.isfinite(attack.score(targets)).all()
