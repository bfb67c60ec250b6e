"""The learned attacker: what it claims is never above the truth, null included."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from memberbound.attacks import learned
from memberbound.attacks.learned import Targets, learned_attack
from memberbound.errors import InputError
from memberbound.games import IidGame, SubsetGame

FAST = LogisticRegression()


def halves(rng, targets, records):
    half = np.arange(records) < records // 2
    return rng.permuted(np.tile(half, (targets, 1)), axis=1)


def shifted(rng, targets, records, shift):
    """Signals N(±shift/2, 1) for members and others: Δ = 2Φ(shift/2) - 1."""
    member = halves(rng, targets, records)
    noise = rng.standard_normal((targets, records, 1))
    return Targets(member, signals=shift * (member[:, :, None] - 0.5) + noise)


@pytest.mark.parametrize("shift", [0.0, pytest.param(0.5, marks=pytest.mark.long), 1.5])
def test_lower_end_is_calibrated(shift):
    """Each lower end may exceed Δ with probability 2.5 %; P(Bin(30, 0.025) > 4) < 1e-3."""
    rng = np.random.default_rng(int(10 * shift))
    truth = 2 * norm.cdf(shift / 2) - 1
    wrong = 0
    for seed in range(30):
        found = learned_attack(shifted(rng, 24, 6, shift), classifier=FAST, folds=2, seed=seed)
        wrong += found.advantage.lower > truth
    assert wrong <= 4


def test_scoring_on_its_own_targets_is_caught(monkeypatch):
    """Negative control: an attacker that is scored where it learned claims a leak on noise."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(1)
    honest = learned_attack(shifted(rng, 60, 6, 0.0), classifier=DecisionTreeClassifier(), folds=2)
    assert honest.advantage.lower == 0.0
    plain = learned._scored

    def peeking(targets, classifier, known, held, **more):
        return plain(targets, classifier, np.concatenate([known, held]), held, **more)

    monkeypatch.setattr(learned, "_scored", peeking)
    # Without the calibrated signal the tree meets its training rows again.
    monkeypatch.setattr(learned, "_calibrated", lambda s, m, k, a: s[a])
    found = learned_attack(shifted(rng, 60, 6, 0.0), classifier=DecisionTreeClassifier(), folds=2)
    assert found.advantage.lower > 0.3


def test_finds_a_known_leak():
    rng = np.random.default_rng(2)
    found = learned_attack(shifted(rng, 300, 20, 2.0), classifier=FAST)
    truth = 2 * norm.cdf(1.0) - 1
    assert truth - 0.15 < found.advantage.lower <= truth
    assert found.estimate.value == pytest.approx(truth, abs=0.03)
    assert found.security_upper == pytest.approx(1 - found.advantage.lower)
    assert found.scores.shape == (300, 20)
    assert not np.isnan(found.scores).any()


def means(rng, targets, records, noise):
    """θ = mean of the members' vectors + noise, in the subset game."""
    z = rng.standard_normal((records, 5))
    member = halves(rng, targets, records)
    theta = member @ z / (records // 2) + noise * rng.standard_normal((targets, 5))
    return z, member, theta


def test_attacks_parameters():
    """θ alone, with the records it was computed from: far above guessing, and not on noise."""
    rng = np.random.default_rng(3)
    z, member, theta = means(rng, 400, 10, 0.05)
    found = learned_attack(Targets(member, parameters=theta, features=z), classifier=FAST)
    assert found.advantage.lower > 0.2
    assert found.advantage.game == SubsetGame(10, 5, record="average")
    noise = Targets(member, parameters=rng.standard_normal(theta.shape), features=z)
    assert learned_attack(noise, classifier=FAST).advantage.lower == 0.0


def test_default_attacker_learns_what_a_linear_one_cannot():
    """Members have signals near 0, others far from it on both sides."""
    rng = np.random.default_rng(4)
    member = halves(rng, 80, 10)
    sign = rng.choice([-1.0, 1.0], size=(80, 10))
    signal = np.where(member, 0.0, 2.0 * sign)[:, :, None] + 0.3 * rng.standard_normal((80, 10, 1))
    targets = Targets(member, signals=signal)
    assert learned_attack(targets, folds=2).advantage.lower > 0.4
    assert learned_attack(targets, classifier=FAST, folds=2).advantage.lower < 0.3


def test_own_records_play_the_iid_game():
    rng = np.random.default_rng(5)
    member = halves(rng, 60, 10)
    z = rng.standard_normal((60, 10, 3))
    theta = np.einsum("tn,tnq->tq", member, z) / 5
    found = learned_attack(Targets(member, parameters=theta, features=z), classifier=FAST)
    assert found.advantage.game == IidGame()
    # θᵀz is among what the attacker sees: a member's own share of it is ‖z‖²/5.
    assert found.estimate.value > 0.2


def test_deterministic_and_json_ready():
    rng = np.random.default_rng(6)
    targets, seen = shifted(rng, 40, 6, 1.0), []
    first = learned_attack(targets, classifier=FAST, seed=3)
    again = learned_attack(
        targets, classifier=FAST, seed=3, progress=lambda done, total: seen.append((done, total))
    )
    assert first.to_dict() == again.to_dict()
    assert seen == [(k, 9) for k in range(1, 10)]
    fields = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    assert fields["advantage"]["kind"] == "audit"
    assert fields["cross_fitted"]["kind"] == "estimate"
    assert "learned attacker" in first.summary()


def test_rows_are_capped():
    rng = np.random.default_rng(7)
    found = learned_attack(shifted(rng, 40, 20, 3.0), classifier=FAST, rows=100, folds=2)
    assert found.estimate.value > 0.7
    assert math.isfinite(found.advantage.upper)


MEMBER = np.tile([True, False], (8, 4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"membership": MEMBER}, "neither"),
        ({"membership": MEMBER[:3], "parameters": np.zeros((3, 1))}, "at least 4 targets"),
        ({"membership": MEMBER | True, "parameters": np.zeros((8, 1))}, "members and others"),
        ({"membership": MEMBER * 2, "parameters": np.zeros((8, 1))}, "0 and 1"),
        ({"membership": MEMBER, "parameters": np.zeros((7, 1))}, "parameters must have shape"),
        ({"membership": MEMBER, "signals": np.zeros((8, 7, 1))}, "signals must have shape"),
        ({"membership": MEMBER, "signals": np.full((8, 8, 1), np.nan)}, "finite"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InputError, match=words):
        Targets(**arguments)


def test_more_refusals():
    uneven = MEMBER.copy()
    uneven[0, 1] = True
    with pytest.raises(InputError, match="as many members"):
        Targets(uneven, parameters=np.zeros((8, 1)))
    with pytest.raises(InputError, match="folds"):
        learned_attack(Targets(MEMBER, parameters=np.zeros((8, 1))), folds=5)
    with pytest.raises(InputError, match="predict_proba"):
        learned_attack(Targets(MEMBER, parameters=np.zeros((8, 1))), classifier=object(), folds=2)


def test_the_order_of_targets_shares_no_stream_with_the_halves(monkeypatch):
    # default_rng(s) is default_rng([s, 0]), from which shadow model 0 draws its half.
    held = []

    def scored(targets, classifier, known, asked, **_):
        held.append(asked)
        return np.full((len(asked), targets.membership.shape[1]), 0.5)

    monkeypatch.setattr(learned, "_scored", scored)
    member = np.tile([True, False], (40, 5))
    learned.learned_attack(learned.Targets(member, signals=np.zeros((40, 10, 1))), folds=2, seed=7)
    order = np.concatenate(held[:2])
    assert sorted(order) == list(range(40))
    assert not np.array_equal(order, np.random.default_rng([7, 0]).permutation(40))
