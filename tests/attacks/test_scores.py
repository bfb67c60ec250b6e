"""The score audit: a naive second implementation, coverage (null and not), refusals.

Coverage: 400 audits per law, each end allowed to fail with probability 0.025.  If it failed exactly
that often, more than 31 misses would happen with probability below 1e-7 (binomial), the false-alarm
rate per law, quantity and end.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from memberbound.attacks.intervals import clopper_pearson_lower, two_sample_deviation
from memberbound.attacks.scores import Scores, audit_scores, permutation_p_value
from memberbound.errors import InputError
from memberbound.games import ModelGame
from memberbound.verbs.audit_answer import AuditAnswer

AUDITS, MISSES = 400, 31
PHI, PPF = stats.norm.cdf, stats.norm.ppf


def gaussian(shift):
    def draw(rng, n1, n0):
        return rng.normal(shift, 1, n1), rng.normal(0, 1, n0)

    return draw, {
        "auc": PHI(shift / math.sqrt(2)),
        "advantage": 2 * PHI(shift / 2) - 1,
        "0.1": PHI(shift + PPF(0.1)),
        "0.01": PHI(shift + PPF(0.01)),
    }


def finite(law1, law0):
    """Scores 0, 1, 2, … with ties."""
    p, q = np.array(law1), np.array(law0)

    def draw(rng, n1, n0):
        return rng.choice(p.size, n1, p=p), rng.choice(q.size, n0, p=q)

    tpr = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    fpr = np.append(np.cumsum(q[::-1])[::-1], 0.0)
    above = np.cumsum(q) - q
    return draw, {
        "auc": float(p @ (above + q / 2)),
        "advantage": float((tpr - fpr).max()),
        "0.1": float(tpr[fpr <= 0.1 + 1e-12].max()),
        "0.01": float(tpr[fpr <= 0.01 + 1e-12].max()),
    }


LAWS = {
    "null": gaussian(0.0),
    "weak": gaussian(0.3),
    "strong": gaussian(3.0),
    "null with ties": finite([0.25] * 4, [0.25] * 4),
    "jump at the rate": finite([0.2, 0.3, 0.3, 0.2], [0.5, 0.4, 0.09, 0.01]),
    "worse than chance": finite([0.6, 0.4], [0.4, 0.6]),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sizes", [(150, 450)])
def test_coverage(law, sizes):
    draw, truth = LAWS[law]
    rng = np.random.default_rng(20)
    below = dict.fromkeys(truth, 0)
    above = dict.fromkeys(truth, 0)
    for _ in range(AUDITS):
        audit = audit_scores(Scores.from_samples(*draw(rng, *sizes)), fpr=(0.1, 0.01))
        bounds = {"auc": audit.auc, "advantage": audit.advantage, **audit.tpr_at_fpr}
        for name, bound in bounds.items():
            if bound is not None:
                below[name] += bound.lower > truth[name] + 1e-12
                above[name] += bound.upper < truth[name] - 1e-12
    assert max(below.values()) <= MISSES, below
    assert max(above.values()) <= MISSES, above


def own_truth(members, law=PHI, quantile=PPF):
    """Quantities of one model: these members, each as likely, against fresh normal scores."""
    x = np.sort(members)
    tpr = np.arange(x.size, 0, -1) / x.size
    fpr = 1 - law(x)
    return {
        "auc": float(law(x).mean()),
        "advantage": max(0.0, float((tpr - fpr).max())),
        "0.1": float((x > quantile(0.9)).mean()),
    }


@pytest.mark.parametrize(("trained", "listed"), [(120, 120), (300, 120), (300, 300)])
def test_one_model_of_a_learner_that_memorises_in_half_of_its_runs(trained, listed):
    """The attacked model's own quantities are covered; the learner's mean over runs is not.

    Some or all of the members are listed.  False-alarm rate: as in the header, for each count.
    """
    rng = np.random.default_rng(25)
    runs = 200
    misses = dict.fromkeys(["auc", "advantage", "0.1"], 0)
    above_mean = 0
    learner = (0.5 + PHI(3 / math.sqrt(2))) / 2
    for _ in range(runs):
        memorises = rng.random() < 0.5
        members = rng.normal(3.0 if memorises else 0.0, 1.0, trained)
        truth = own_truth(members)
        shown = rng.choice(members, listed, replace=False)
        audit = audit_scores(Scores.from_samples(shown, rng.normal(size=400)), fpr=(0.1,))
        assert audit.auc.game == ModelGame()
        for name, value in truth.items():
            bound = {"auc": audit.auc, "advantage": audit.advantage} | audit.tpr_at_fpr
            misses[name] += not bound[name].lower - 1e-12 <= value <= bound[name].upper + 1e-12
        above_mean += audit.auc.lower > learner
    # Bin(200, 0.05): more than 24 have probability 5e-5.
    assert max(misses.values()) <= 24, misses
    # Negative control: read as a statement about the learner, every second audit is wrong.
    assert above_mean > 0.3 * runs


def test_a_threshold_chosen_and_evaluated_on_the_same_scores_would_be_caught():
    """Null scores have advantage 0; the invalid lower bound is above 0 far too often."""
    rng = np.random.default_rng(21)
    wrong = 0
    for _ in range(AUDITS):
        pair = Scores.from_samples(rng.normal(size=300), rng.normal(size=300))
        threshold, _ = pair.best_threshold()
        hits, alarms = pair.hits(threshold)
        # The difference of proportions at its two-sided 95 % normal interval, as often printed.
        p, q = hits / 300, alarms / 300
        wrong += p - q - 1.96 * math.sqrt((p * (1 - p) + q * (1 - q)) / 300) > 0
    assert wrong > 2 * MISSES


def test_the_empirical_quantile_as_threshold_would_be_caught():
    """TPR above the empirical (1-α)-quantile of non-members, without paying for the quantile."""
    rng = np.random.default_rng(22)
    truth = PHI(1 + PPF(0.1))
    wrong = 0
    for _ in range(AUDITS):
        x, y = rng.normal(1, 1, 2000), rng.normal(0, 1, 100)
        hits = int((x > np.sort(y)[-11]).sum())
        wrong += float(clopper_pearson_lower(hits, 2000, 0.025)) > truth
    assert wrong > 2 * MISSES


def naive(x, y, rates):
    """Quantities by loops over all thresholds."""
    auc = sum((a > b) + 0.5 * (a == b) for a in x for b in y) / (len(x) * len(y))
    roc = [(0.0, 0.0)]
    for t in set(x) | set(y):
        roc.append((np.mean([b >= t for b in y]), np.mean([a >= t for a in x])))
    tpr = {r: max(t for f, t in roc if f <= r + 1e-12) for r in rates}
    return auc, max(t - f for f, t in roc), tpr


@given(
    st.lists(st.integers(0, 8), min_size=10, max_size=60),
    st.lists(st.integers(0, 8), min_size=50, max_size=80),
)
def test_estimates_agree_with_loops(x, y):
    audit = audit_scores(Scores.from_samples(x, y), fpr=(0.1, 0.25))
    auc, advantage, tpr = naive(x, y, (0.1, 0.25))
    assert audit.auc.estimate == pytest.approx(auc, abs=1e-12)
    assert audit.advantage.estimate == pytest.approx(advantage, abs=1e-12)
    assert audit.accuracy.estimate == pytest.approx((1 + advantage) / 2, abs=1e-12)
    for rate, value in tpr.items():
        assert audit.tpr_at_fpr[f"{rate:g}"].estimate == pytest.approx(value, abs=1e-12)


def test_lower_bounds_of_a_strong_attack_are_close():
    rng = np.random.default_rng(3)
    audit = audit_scores(Scores.from_samples(rng.normal(4, 1, 20_000), rng.normal(0, 1, 20_000)))
    truth = 2 * PHI(2) - 1
    assert truth - 0.01 < audit.advantage.lower < truth
    assert 0.8 * PHI(4 + PPF(0.001)) < audit.tpr_at_fpr["0.001"].lower


def test_order_and_monotone_transforms_do_not_matter():
    rng = np.random.default_rng(4)
    x, y = rng.normal(0.5, 1, 300), rng.normal(0, 1, 300)
    scores, member = np.concatenate((x, y)), np.repeat([1, 0], 300)
    shuffled = rng.permutation(600)
    first = audit_scores(Scores.of(scores, member)).to_dict()
    assert audit_scores(Scores.of(scores[shuffled], member[shuffled])).to_dict() == first
    assert audit_scores(Scores.from_samples(x, y)).to_dict() == first
    raised = audit_scores(Scores.of(np.exp(scores), member == 1)).to_dict()
    assert raised["auc"] == first["auc"]
    assert raised["tpr_at_fpr"] == first["tpr_at_fpr"]
    assert raised["advantage"]["estimate"] == first["advantage"]["estimate"]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_split_is_a_fresh_sample_though_the_seed_is_fixed(seed):
    """The largest member's score falls to the choosing third in a third of the data sets.

    False-alarm rate: 1200 fair draws leave the range below with probability 1e-9.
    """
    rng = np.random.default_rng(24)
    largest = 0
    for _ in range(1200):
        choose, evaluate = Scores.from_samples(*rng.normal(size=(2, 30))).split(seed)
        largest += choose.members[-1] > evaluate.members[-1]
        assert choose.members.size == 10
        assert evaluate.non_members.size == 20
    assert 300 < largest < 500


GOOD = np.arange(30.0)


@pytest.mark.parametrize(
    ("scores", "member", "message"),
    [
        (GOOD, np.ones(30), "got no non-members"),
        (GOOD, np.zeros(30), "got no members"),
        (GOOD[:19], np.arange(19) % 2, "at least 20 in number, got 19"),
        ([np.nan, *GOOD[1:]], np.arange(30) % 2, "got 1 that are not"),
    ],
)
def test_unusable_scores_are_refused(scores, member, message):
    with pytest.raises(InputError, match=message):
        Scores.of(scores, member)


def exact_lower(hits, trials, error):
    """Clopper and Pearson by scipy's beta quantiles; one hit as without replacement."""
    if hits <= 1:
        return hits * error / trials
    return float(stats.beta.ppf(error, hits, trials - hits + 1))


@pytest.mark.parametrize("shift", [0.5, 2.0, 3.0])
def test_floors_of_the_advantage_follow_from_the_split_by_hand(shift):
    """The better of two floors, each with half of the error of its side, from the definition."""
    better = {"members": 0, "third": 0}
    for seed in range(40):
        rng = np.random.default_rng([seed, int(10 * shift)])
        pair = Scores.from_samples(rng.normal(shift, 1, 90), rng.normal(0, 1, 75))
        side = 0.025
        choose, evaluate = pair.split(0)
        threshold, _ = choose.best_threshold()
        hits, alarms = (int((part >= threshold).sum()) for part in evaluate)
        n1, n0 = (part.size for part in evaluate)
        others = exact_lower(hits, n1, side / 4)
        falsely = 1 - exact_lower(n0 - alarms, n0, side / 4)
        third = (choose.members >= threshold).mean()
        # Of all 90 members 30 chose the threshold: their own share counts where it is smaller.
        reached = min(others, (30 * third + 60 * others) / 90)
        better["members" if reached == others else "third"] += 1
        estimate = pair.best_threshold()[1]
        weak = estimate - two_sample_deviation(90, 75, side / 2)
        audit = audit_scores(pair, fpr=[0.2])
        assert audit.advantage.lower == pytest.approx(
            min(max(weak, reached - falsely, 0.0), estimate), abs=1e-9
        )
        assert audit.advantage.upper == pytest.approx(
            min(1.0, estimate + two_sample_deviation(90, 75, side)), abs=1e-9
        )
        assert audit.accuracy.lower == pytest.approx((1 + audit.advantage.lower) / 2, rel=1e-12)
        assert audit.accuracy.upper == pytest.approx((1 + audit.advantage.upper) / 2, rel=1e-12)
    assert shift != 2.0 or min(better.values()) > 0


def test_rates_follow_from_their_ranks_by_hand():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        members, others = np.sort(rng.normal(1, 1, 120)), np.sort(rng.normal(0, 1, 200))
        bound = audit_scores(Scores.from_samples(members, others), fpr=[0.1]).tpr_at_fpr["0.1"]
        error = 0.0125  # a half of one side: for the rank, and for the hits
        inside = max(k for k in range(201) if stats.binom.cdf(k - 1, 200, 0.1) <= error)
        beyond = min(k for k in range(1, 201) if stats.binom.sf(k - 1, 200, 0.1) <= error)
        above = int((members > others[200 - inside]).sum())
        at_least = int((members >= others[200 - beyond]).sum())
        allowed = int((members > others[200 - 21]).sum())  # twenty false alarms are allowed
        assert bound.estimate == allowed / 120
        assert bound.lower == pytest.approx(exact_lower(above, 120, error), rel=1e-9)
        assert bound.upper == pytest.approx(1 - exact_lower(120 - at_least, 120, error), rel=1e-9)


def test_permutations_that_tie_count_against_membership():
    """All scores equal: every rearrangement is as high as what was seen."""
    rng = np.random.default_rng(1)
    member = np.arange(30) < 12
    assert permutation_p_value(np.zeros(30), member, rng, 99) == 1.0
    first = permutation_p_value(np.where(member, 1.0, 0.0), member, rng, 199)
    assert first == 1 / 200  # none of C(30, 12) others is drawn
    p = permutation_p_value(np.arange(30.0), member, rng, 199)
    assert p > 0.95


def test_a_rate_lost_in_ties_is_named():
    """A threshold takes all records of one score or none, so TPR 0 is possible with a large AUC."""
    tied = Scores.of([1.0] * 80 + [0.0] * 20 + [1.0] * 30 + [0.0] * 70, [1] * 100 + [0] * 100)
    audit = audit_scores(tied, fpr=(0.1, 0.5), attack="loss")
    assert audit.auc.estimate == pytest.approx(0.75)
    assert audit.tpr_at_fpr["0.1"].estimate == 0
    (note,) = audit.notes
    assert "0.1 of loss: 30 of 100" in note
    assert "0.5" not in note
    apart = Scores.of(np.arange(200.0), np.arange(200) % 2)
    assert audit_scores(apart, fpr=(0.1,)).notes == ()


def test_headline_and_limit_name_one_attack():
    """A limit compares the estimate of the sentence; the floor may come from another attack."""
    ends = {"loss": (0.125, 0.16, 0.2), "combined": (0.05, 0.19, 0.3)}
    attacks = {
        name: {"advantage": dict(zip(("lower", "estimate", "upper"), three, strict=True))}
        for name, three in ends.items()
    }
    best = attacks["loss"]["advantage"]
    answer = AuditAnswer(
        game=ModelGame(),
        attacks=attacks,
        best="loss",
        best_advantage=best,
        confidence=0.95,
        assumptions=(),
    )
    (compared,) = answer.successes("estimate")
    assert "(combined)" in compared.what
    assert compared.estimate == pytest.approx(0.595)
    assert "(combined) is right about 59.5 %" in answer.sentence
    assert "another (loss) at least 56.2" in answer.sentence
    (floor,) = answer.successes("floor")
    assert "(loss)" in floor.what


def test_the_split_does_not_depend_on_the_last_bits_of_scores():
    rng = np.random.default_rng(5)
    members, others = 1e3 + rng.normal(size=(2, 200))
    nudged = members * (1 + 1e-14 * rng.normal(size=200))
    first, second = (Scores.from_samples(m, others).split(0)[0] for m in (members, nudged))
    assert np.allclose(first.members, second.members, rtol=1e-12)
    assert (first.non_members == second.non_members).all()
    # Scores that differ by more are split anew.
    moved = Scores.from_samples(members + 1e-2 * rng.normal(size=200), others).split(0)[0]
    assert (moved.non_members != first.non_members).any()
