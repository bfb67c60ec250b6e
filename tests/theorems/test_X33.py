"""X33: k records replaced together have f chained k times; for normal noise k·μ, exactly.

Truth: pairs with finitely many outcomes, with chains computed in rationals, and the ideal normal
law.  Broken: the union bound that forgets a record, and slack that is not added again.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from memberbound import GaussianCurve, explain, summarize
from memberbound.curve.families import SlackCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError
from memberbound.report.decision import describe_promise
from memberbound.report.publication import Case


@pytest.mark.parametrize("mu", [0.05, 0.2513, 1.0])
@pytest.mark.parametrize("records", [1, 2, 4, 10])
def test_a_group_of_normal_releases_is_the_sum_of_the_shifts(mu, records):
    group = GaussianCurve(mu).group(records)
    exact = 2 * norm.cdf(records * mu / 2) - 1
    assert exact <= group.advantage * (1 + 1e-15) <= exact * (1 + 1e-12)
    # One record fewer does not bound it.
    assert records == 1 or GaussianCurve(mu).group(records - 1).advantage < exact


def worst_chain(mu, slack, records, fpr):
    """The largest TPR that a chain of such pairs allows: the recursion itself, in doubles."""
    rate = fpr
    for _ in range(records):
        rate = min(1.0, float(norm.cdf(norm.ppf(min(rate + slack, 1.0)) + mu)) + slack)
    return rate


@pytest.mark.parametrize("slack", [0.0, 1e-9, 1e-6, 1e-3, 0.02])
@pytest.mark.parametrize("records", [1, 2, 5])
def test_slack_is_added_for_every_record(slack, records):
    mu = 0.3
    pair = SlackCurve(GaussianCurve(mu), slack)
    group = pair.group(records)
    for fpr in (1e-6, 1e-3, 0.01, 0.1, 0.4, 0.7):
        assert group.tpr(fpr) >= worst_chain(mu, slack, records, fpr) * (1 - 1e-12)
    if slack > 1e-6 and records > 1:
        # One slack for all records is too little.
        once = SlackCurve(GaussianCurve(records * mu), slack)
        assert once.tpr(1e-6) < worst_chain(mu, slack, records, 1e-6)


def distance(p, q):
    return sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def test_chains_of_finite_laws_stay_below_the_chained_curve():
    """Laws of tables in a row, each pair within a ratio e^ε: TV of the ends, in rationals."""
    draws, beyond = np.random.default_rng(0), 0
    for _ in range(60):
        weights, trend = draws.integers(20, 40, 4), draws.integers(-4, 5, 4)
        laws = [[Fraction(int(w), int(row.sum())) for w in row]
                for row in (weights, weights + trend, weights + 2 * trend)]  # fmt: skip
        pairs = itertools.pairwise(laws)
        ratio = max(max(a / b, b / a) for p, q in pairs for a, b in zip(p, q, strict=True))
        epsilon = math.log(ratio) * (1 + 1e-12)
        pair = guarantee_from_epsilon_delta([(epsilon, 0.0)]).curve
        ends = distance(laws[0], laws[2])
        assert ends <= Fraction(pair.group(2).advantage)
        beyond += ends > Fraction(pair.advantage)
    # The curve of one record does not bound two.
    assert beyond > 5


def test_explain_states_the_bound_for_a_household():
    answer = explain(gdp=0.2513, records=4)
    assert answer.accuracy_upper == pytest.approx(norm.cdf(2 * 0.2513), rel=1e-12)
    assert "X33" in answer.theorems
    assert answer.to_dict()["records"] == 4
    # Broken: the bound for one record in place of the group's.
    assert answer.accuracy_upper > explain(gdp=0.2513).accuracy_upper
    with pytest.raises(InputError, match="target"):
        explain(target_eta=0.1, records=2)
    for wrong in (0, -1, 1.5):
        with pytest.raises(InputError, match="records"):
            explain(gdp=1.0, records=wrong)


def test_groups_of_sampled_steps_are_below_those_that_every_record_enters():
    """Sampling helps a group too; more steps of a group of two than of one record."""
    sampled = explain(noise_multiplier=2.0, sample_rate=0.1, steps=50, records=2)
    whole = explain(noise_multiplier=2.0, sample_rate=1.0, steps=50, records=2)
    one = explain(noise_multiplier=2.0, sample_rate=0.1, steps=50)
    assert one.advantage_upper < sampled.advantage_upper < whole.advantage_upper
    assert sampled.advantage_upper <= 2 * one.advantage_upper * (1 + 1e-9)


def test_answers_and_decision_pages_state_groups(tmp_path):
    path = tmp_path / "age.json"
    people = {"age": [float(k % 80) for k in range(900)]}
    made = summarize(
        pd.DataFrame(people), statistic="mean", bounds={"age": [0, 80]}, out=path, insecure_seed=1
    )
    exact = [norm.cdf(k * made.mu / 2) for k in (2, 5, 10)]
    listed = [group["accuracy_upper"] for group in made.to_dict()["groups"]]
    assert listed == pytest.approx(exact, abs=1e-6)
    assert all(bound >= value for bound, value in zip(listed, exact, strict=True))
    promise = " ".join(describe_promise(Case.of(f"{path}.certificate.json")))
    # Φ(4·0.2513/2) is 69.24 %.
    assert "household of four together, nobody is right more than 70 times in 100" in promise
