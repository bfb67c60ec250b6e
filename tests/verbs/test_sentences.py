"""The percentage in a sentence is at least how often the best attacker is right, at every ν and λ.

Truth: the two worlds of A25's game in rationals, for the learner that releases the histogram.
"""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from memberbound.games import IidGame
from memberbound.iid.leak_bounds import accuracy_from_leak, weighted_accuracy_from_leak
from memberbound.verbs.certify import certify
from memberbound.verbs.explain import explain
from memberbound.verbs.harden import harden
from memberbound.verbs.plan import plan
from oracle import finite, iid
from oracle.real import exp_bracket

F = Fraction
PRICES = [(0.5, 0.1), (0.2, 0.25), (0.5, 4.0), (0.9, 1.0), (0.03, 7.0), (0.7, 1.0), (0.5, 1.0)]


def written_percent(sentence, after="more than"):
    """Return the share that a sentence prints; one without a percentage promises nothing."""
    found = re.search(rf"{after} ([0-9.]+) %", sentence)
    return F(found.group(1)) / 100 if found else F(1)


def best_success(law, n, nu):
    """Return the success rate of the best attacker on the most revealing learner."""
    gamma = F(nu) / (1 - F(nu))
    return max(F(nu), 1 - F(nu)) + min(F(nu), 1 - F(nu)) * iid.worst_leak(law, n, gamma)


def random_laws():
    rng = np.random.default_rng(3)
    for _ in range(12):
        weights = rng.integers(1, 9, int(rng.integers(1, 5)))
        nu = round(float(rng.uniform(0.02, 0.98)), 2)
        lam = round(float(np.exp(rng.uniform(-3, 3))), 3)
        yield [F(int(w), int(weights.sum())) for w in weights], int(rng.integers(1, 7)), nu, lam
    for nu, lam in PRICES:
        yield [F(1, 20)] * 20, 5, nu, lam


def is_broken(value, law, n, nu):
    """Tell whether a number is no bound on being right: below the best attacker, or above 1."""
    blind = max(F(nu), 1 - F(nu))
    truth = best_success(law, n, nu)
    assert blind <= truth <= 1
    return not truth - F(1, 10**12) <= value <= 1


def test_the_oracle_is_the_best_of_all_attacks():
    for law, n, nu, _ in random_laws():
        if len(law) <= 4:
            pair = iid.joint_laws(law, n, iid.injective(n, len(law)))
            assert best_success(law, n, nu) == iid.best_accuracy(pair, F(nu), F(1))


def test_certify_of_a_law():
    for law, n, nu, lam in random_laws():
        answer = certify(probabilities=[float(p) for p in law], n=n, nu=nu, lam=lam)
        (success,) = answer.successes("ceiling")
        assert success.ceiling == answer.accuracy_upper
        assert not is_broken(F(answer.accuracy_upper), law, n, nu)
        assert answer.accuracy_upper >= success.blind
        printed = written_percent(answer.sentence)
        assert not is_broken(printed, law, n, nu)
        assert printed - F(answer.accuracy_upper) <= F(1, 10**4)
        if len(set(law)) == 1:
            assert certify(uniform=len(law), n=n, nu=nu, lam=lam).sentence == answer.sentence


def test_earlier_formulas_are_noticed():
    """A25's weighted accuracy, as it is or over its largest value, does not bound being right."""
    caught = {"weighted": 0, "scaled": 0}
    for law, n, nu, lam in random_laws():
        answer = certify(probabilities=[float(p) for p in law], n=n, nu=nu, lam=lam)
        weighted = F(answer.accuracy_weighted_upper or answer.accuracy_upper)
        caught["weighted"] += is_broken(weighted, law, n, nu)
        caught["scaled"] += is_broken(weighted / (F(nu) + F(lam) * (1 - F(nu))), law, n, nu)
    assert caught["weighted"] >= 10
    assert caught["scaled"] >= 2


@pytest.mark.parametrize(
    ("nu", "lam", "right"), [(0.5, 0.1, "88.69 %"), (0.2, 0.25, "95.48 %"), (0.5, 4.0, "88.69 %")]
)
def test_twenty_equal_values(nu, lam, right):
    answer = certify(uniform=20, n=5, nu=nu, lam=lam)
    assert f"more than {right}" in answer.sentence
    assert right in answer.held_to(0.5).sentence
    weighted = answer.accuracy_weighted_upper
    truth = iid.worst_leak([F(1, 20)] * 20, 5, F(nu) / (F(lam) * (1 - F(nu))))
    alarm, missed = F(nu), F(lam) * (1 - F(nu))
    exact = max(alarm, missed) + min(alarm, missed) * truth
    assert exact * (1 - F(1, 10**12)) <= F(weighted) <= exact * (1 + F(1, 10**9))
    text = answer.to_frame().set_index("key").loc["accuracy_weighted_upper", "text"]
    assert text.startswith("≤ ")  # even above 1, which is not vacuous for this quantity


@pytest.mark.parametrize(("nu", "lam"), PRICES)
@pytest.mark.parametrize("n", [None, 40, 300])
def test_certify_of_a_table(nu, lam, n):
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.choice(list("abcd"), 120)})
    answer = certify(rows, n=n, nu=nu, lam=lam)
    law = [F(1, 4)] * 4
    assert not is_broken(F(answer.accuracy_upper), law, answer.n, nu)
    assert not is_broken(written_percent(answer.sentence), law, answer.n, nu)
    assert answer.successes("ceiling")[0].ceiling == answer.accuracy_upper


def test_plan_names_its_game_and_keeps_it():
    for law, _, nu, lam in random_laws():
        answer = plan(security=0.8, probabilities=[float(p) for p in law], nu=nu, lam=lam)
        stated = re.search(
            r"MIS ≥ ([0-9.]+) \(average row, ν = (\S+), λ = (\S+)\)", answer.sentence
        )
        security, *prices = (float(text) for text in stated.groups())
        assert (security, *prices) == (0.8, nu, lam)
        gamma = F(nu) / (F(lam) * (1 - F(nu)))
        assert 1 - iid.worst_leak(law, answer.n_required, gamma) >= F(security) - F(1, 10**12)


def test_harden_names_its_game_and_keeps_it():
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"a": rng.choice(list("xy"), 400), "y": rng.choice(["p", "q"], 400)})
    answer = harden(rows, security=0.5, target="y", keep=["a"])
    assert answer.sentence.endswith("; ν = 0.5, λ = 1).")
    assert list(answer.table.columns) == ["a", "y"]
    law = [F(1, 4)] * 4
    assert not is_broken(written_percent(answer.sentence), law, answer.rows_released, 0.5)
    assert not is_broken(F(answer.after.accuracy_upper), law, answer.rows_released, 0.5)


def test_explain_at_every_prior():
    rng = np.random.default_rng(4)
    for _ in range(30):
        prior = round(float(rng.uniform(0.01, 0.99)), 2)
        epsilon, delta = round(float(rng.uniform(0, 3)), 2), float(rng.choice([0.0, 1e-5, 0.2]))
        nu, lam = PRICES[int(rng.integers(len(PRICES)))]
        answer = explain(epsilon=epsilon, delta=delta, prior=prior, nu=nu, lam=lam)
        ratio, rest = exp_bracket(epsilon)[0], 1 - F(delta)
        shares = (F(delta), rest * ratio / (1 + ratio), rest / (1 + ratio), F(0))
        pair = dict(enumerate(shares)), dict(enumerate(shares[::-1]))
        truth = finite.best_accuracy(*pair, F(prior))
        assert max(F(prior), 1 - F(prior)) <= truth <= F(answer.accuracy_upper) <= 1
        decimal = finite.best_accuracy(*pair, F(repr(prior)))  # 0.09 as it is written
        assert decimal <= written_percent(answer.sentence)
        assert answer.successes("ceiling")[0].ceiling == answer.accuracy_upper
        gamma = F(nu) / (F(lam) * (1 - F(nu)))
        sticks = finite.hockey_sticks(*pair, max(gamma, 1 / gamma))
        assert F(answer.security_lower) <= 1 - sticks[0] + F(1, 10**12)


def test_an_accuracy_is_never_below_the_exact_value_or_above_one():
    rng = np.random.default_rng(6)
    for leak, nu in rng.uniform(0, 1, (300, 2)).tolist():
        exact = max(F(nu), 1 - F(nu)) + min(F(nu), 1 - F(nu)) * F(leak)
        value = F(accuracy_from_leak(leak, nu))
        assert exact <= value <= min(F(1), exact * (1 + F(1, 2**51)))
        assert float(exact) < value or F(float(exact)) >= exact  # to nearest is not enough
    assert accuracy_from_leak(1.0, 0.3) == 1.0
    assert weighted_accuracy_from_leak(0.0, IidGame(0.5, 3.0)) == 1.5
