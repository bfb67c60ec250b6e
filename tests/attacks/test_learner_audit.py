"""The audit of a learner: statistics of a release, intervals, the best attack, single records.

Readers of an audit look at the most successful attack and the most exposed records, so the error of
5 % must cover all of them.  Intervals that hold only individually serve as the broken twin.
"""

import itertools
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

from memberbound.answers import plain
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.attacks.learner_audit import (
    audit_shadows,
    best_threshold,
    blocks_of,
    max_false_positives,
    mean_bound,
    release_statistics,
)
from memberbound.attacks.shadows import FailedFit, draw_half, sample_attacked_records, train_shadows
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.learners.examples import Examples
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.verbs.audit_learner import audit_learner, audit_run
from memberbound.verbs.study import steps
from oracle.shadow_runs import halves, run_of, shifted_run

LEAKY = 5


def bound_values(values, confidence, quantity="AUC", among=1):
    game = SubsetGame(100, 50, "average")
    return mean_bound(quantity, values, confidence=confidence, game=game, attack="a", among=among)


# ── One release ───────────────────────────────────────────────────────────────────────────────────


def test_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.integers(6, size=12) / 2.0
        member = rng.random(12) < 0.5
        candidates = [-np.inf, np.inf, *np.arange(-0.25, 3.0, 0.25)]
        reached = [((scores >= t) == member).mean() for t in candidates]
        assert ((scores >= best_threshold(scores, member)) == member).mean() == max(reached)


def test_statistics_of_a_release_by_counting():
    rng = np.random.default_rng(1)
    scores = rng.integers(12, size=(3, 40)) / 4.0
    member = halves(3, 40, 0)
    reached = release_statistics(scores, member, 1.5, (0.1, 0.3))
    for row in range(3):
        ins, outs = scores[row][member[row]], scores[row][~member[row]]
        wins = [(a > b) + (a == b) / 2 for a, b in itertools.product(ins, outs)]
        assert np.isclose(reached["auc"][row], np.mean(wins))
        gap = (ins >= 1.5).mean() - (outs >= 1.5).mean()
        assert np.isclose(reached["advantage"][row], gap)
        assert np.isclose(reached["accuracy"][row], (1 + gap) / 2)
        for rate, allowed in ((0.1, 1), (0.3, 5)):
            # The lowest threshold that at most ``allowed`` non-members exceed.
            bar = min(t for t in outs if (outs > t).sum() <= allowed)
            assert np.isclose(reached[rate][row], (ins > bar).mean())
    # A member that scores as high as the last allowed non-member is not above it.
    assert not release_statistics(np.ones((3, 40)), member, 1.0, (0.1,))[0.1].any()


def test_scores_without_information_reach_at_most_the_fpr_on_average():
    rng = np.random.default_rng(2)
    values = release_statistics(rng.random((4000, 60)), halves(4000, 60, 0), 0.5, (0.1,))[0.1]
    # Exactly ⌊0.1·31⌋/31 on average; 4 standard errors fail with probability 6e-5.
    assert abs(values.mean() - 3 / 31) < 4 * values.std() / np.sqrt(4000)
    assert [int(max_false_positives(rate, 30)) for rate in (0.1, 1 / 31, 0.03)] == [2, 0, -1]


def test_no_tpr_where_a_release_has_too_few_non_members():
    """Counting such a release as 0 would lower the ceiling of an attack that knows every member."""
    member = np.arange(20) < np.where(np.arange(24) % 2, 8, 14)[:, None]
    audit = audit_shadows(run_of(member, 9.0 * member), attacks=["loss"], fpr=(0.1, 0.2))
    reached = audit.attacks["loss"].tpr_at_fpr
    assert (reached["0.1"], reached["0.2"].estimate) == (None, 1.0)
    assert any("6 non-members per release are too few" in text for text in audit.warnings)


def test_the_advantage_of_a_sample_is_linear_in_its_records():
    """A quotient by |D ∩ R| has a mean that no certificate bounds (claim 7)."""
    rng = np.random.default_rng(3)
    member = rng.random((50, 12)) < 0.5
    member[:, 0], member[:, 1] = True, False
    scores = rng.normal(size=member.shape) + member
    part, whole = (
        release_statistics(scores, member, 0.5, (), sampled=sampled)["advantage"]
        for sampled in (True, False)
    )
    right = (scores >= 0.5) == member
    np.testing.assert_allclose(part, 2 * right.mean(axis=1) - 1, atol=1e-15)
    assert np.abs(whole - part).max() > 0.01


# ── Means over releases ───────────────────────────────────────────────────────────────────────────


def test_blocks_follow_each_other():
    for models in range(8, 100):
        blocks = blocks_of(models)
        assert blocks[0][0] >= 4
        assert blocks[-1][1] == models
        assert all(a[1] == b[0] for a, b in itertools.pairwise(blocks))
        assert all(first < last for first, last in blocks)


def test_intervals_cover_means_that_depend_on_the_past():
    """Claim 2: each draw's mean is chosen by an opponent who sees the earlier draws."""
    rng = np.random.default_rng(3)
    misses = naive = 0
    for _ in range(300):
        values, means = [], []
        for _ in range(48):
            # Push on after good luck, but never beyond 0.62.
            mean = 0.62 if sum(values) > 0.6 * len(values) else 0.6
            means.append(mean)
            values.append(float(rng.random() < mean))
        bound = bound_values(np.array(values), 0.9)
        misses += not (bound.lower <= max(means) and bound.upper >= min(means))
        spread = 0.5 * np.std(values) / np.sqrt(48)
        naive += not np.mean(values) - spread <= np.mean(means) <= np.mean(values) + spread
    # At most Bin(300, 0.1): 48 or more have probability 1e-3.
    assert misses < 48
    # Negative control: an interval of half a standard error misses more than half of the time.
    assert naive > 100
    # Both ends share the error.
    ends = mean_lower(values, confidence=0.95)[0], mean_upper(values, confidence=0.95)[0]
    assert (bound.lower, bound.upper) == ends


def test_null_audits_claim_nothing_and_leaks_are_found():
    """Null: lower bounds above blind guessing fail at most 2.5 % of the time."""
    false = {"auc": 0, "advantage": 0, "accuracy": 0}
    for seed in range(13):
        audit = audit_shadows(shifted_run(16, 40, 0.0, seed), attacks=["loss", "rmia"], fpr=[0.1])
        for result in audit.attacks.values():
            false["auc"] += result.auc.lower > 0.5
            false["advantage"] += result.advantage.lower > 0
            false["accuracy"] += result.accuracy.lower > 0.5
    # Bin(26, 0.025) exceeds 4 with probability 5e-4.
    assert max(false.values()) <= 4
    audit = audit_shadows(shifted_run(64, 100, 3.0, 0), attacks=["lira"])
    assert audit.attacks["lira"].auc.lower > 0.8
    assert audit.best_advantage.lower > 0.4


def test_intervals_hold_when_releases_differ():
    """A tenth of the releases leaks nothing: pooling records as if independent is wrong."""
    truth = 0.9 * 0.983 + 0.1 * 0.5  # Φ(3/√2) = 0.98305
    covered = pooled = 0
    for seed in range(40):
        leak = np.random.default_rng([seed, 9]).random(24) >= 0.1
        run = shifted_run(24, 60, 3.0, seed, leak)
        bound = audit_shadows(run, attacks=["loss"], fpr=[0.1]).attacks["loss"].auc
        covered += bound.lower <= truth <= bound.upper
        # Hoeffding's interval over all (target, record) pairs, which are not independent.
        width = np.sqrt(np.log(40) / (2 * 24 * 30))
        pooled += abs(bound.estimate - truth) <= width
    # Bin(40, 0.05) exceeds 8 with probability 2e-4.
    assert covered >= 32
    assert pooled < 38


# ── Selection after looking ──────────────────────────────────────────────────────────────────


def test_the_bound_accounts_for_selecting_among_null_attacks():
    """At confidence 0.2 a floor is wrong in at most 40 % of 8 runs: all of them have 7e-4.

    Negative control: without sharing, some attack is called a leak nearly always.
    """
    nothing = np.random.default_rng(1).choice([-1.0, 1.0], size=(8, 30, 60))
    shared, alone = (
        sum(
            any(bound_values(draws, 0.2, "advantage", among).lower > 0 for draws in attacks)
            for attacks in nothing
        )
        for among in (30, 1)
    )
    assert shared < min(8, alone)
    assert alone >= 6
    audit = audit_shadows(shifted_run(16, 40, 3.0, 0), attacks=["loss", "lira"])
    best = audit.attacks[audit.best]
    assert best.shared_advantage == audit.best_advantage
    assert audit.best_advantage.lower < best.advantage.lower


def test_claim_5_holds_for_every_order_of_guesses_and_catches_a_choice_after_looking():
    """Exactly: the largest P(S ≥ s) of an opponent who chooses each |G| by what came before.

    The broken twin guesses G or its complement, whichever is better, once the half is known.
    """
    records, size = 6, 3

    def overlaps(guessed):
        """The law of |G ∩ D| - |G|k/N for a uniform half D."""
        ways = math.comb(records, size)
        for inside in range(max(0, guessed + size - records), min(guessed, size) + 1):
            chance = math.comb(guessed, inside) * math.comb(records - guessed, size - inside)
            yield inside - Fraction(guessed * size, records), Fraction(chance, ways)

    @cache
    def largest_tail(targets, excess, *, looking=False):
        if targets == 0:
            return Fraction(excess <= 0)
        return max(
            sum(
                chance
                * largest_tail(targets - 1, excess - (abs(x) if looking else x), looking=looking)
                for x, chance in overlaps(guessed)
            )
            for guessed in range(records + 1)
        )

    caught = 0
    for targets, excess in itertools.product((1, 2, 4, 12), (1, 2, 3, 6)):
        limit = math.exp(-2 * excess**2 / (targets * size))
        assert largest_tail(targets, Fraction(excess)) <= limit
        caught += largest_tail(targets, Fraction(excess), looking=True) > limit
    assert caught >= 4


def test_no_floor_follows_from_halves_on_which_fits_succeed():
    member = halves(16, 40, 0)
    leaking = run_of(member, np.where(member, 9.0, -9.0))
    assert audit_run(leaking, attacks=["loss"]).reached[1] > 0.3
    failed = replace(leaking, failures=(FailedFit(16, 0, "one class"),))
    answer = audit_run(failed, attacks=["loss"])
    assert answer.reached[1] <= 0
    assert not answer.exceeds(0.6, "floor")
    assert answer.records.exposed.size == answer.records.lower.max() == 0


# ── Records ───────────────────────────────────────────────────────────────────────────────────────


def exposing_run(models, rows, seed, shift=6.0):
    """Only the first LEAKY records move the model's answer."""
    member = halves(models, rows, seed)
    logit = np.random.default_rng(seed).normal(size=member.shape)
    logit[:, :LEAKY] += shift * (member[:, :LEAKY] - 0.5)
    return run_of(member, logit)


def exposure(seed, **options):
    run = exposing_run(40, 60, seed)
    return audit_shadows(run, attacks=["lira", "loss"], fpr=[0.1], **options).records


def single(records, error=0.05):
    """The ends of each record on its own."""
    hits = np.rint(records.estimate * records.targets)
    return (
        clopper_pearson_lower(hits, records.targets, error / 2),
        clopper_pearson_upper(hits, records.targets, error / 2),
    )


def test_leaky_records_are_listed_and_others_are_not():
    false = naive = 0
    for seed in range(12):
        records = exposure(seed)
        assert set(range(LEAKY)) <= set(records.exposed.tolist())
        false += bool(set(records.exposed.tolist()) - set(range(LEAKY)))
        # Negative control: every record with an own lower bound above blind guessing.
        naive += bool((single(records)[0][LEAKY:] > records.blind_accuracy).any())
    # At most Bin(12, 0.05): 4 or more have probability 3e-3.
    assert false < 4
    # 55 records at 2.5 % each: most runs have one.
    assert naive > 3


@pytest.mark.parametrize(
    ("runs", "most"), [(16, 4), pytest.param(1000, 76, marks=pytest.mark.long)]
)
def test_no_leak_is_shown_for_a_learner_that_ignores_its_data(runs, most):
    """Bin(runs, 0.05) exceeds ``most`` with probability 9e-4, of 1000 runs with 1e-4."""
    wrong = alone = proved = 0
    for seed in range(runs):
        run = exposing_run(32, 80, 1000 + seed, shift=0.0)
        audit = audit_shadows(run, attacks=["loss", "lira"], fpr=[0.1])
        records = audit.records
        # Every attack on every record is right half of the time.
        wrong += bool((records.lower > 0.5).any() or (records.upper < 0.5).any())
        low, high = single(records)
        alone += bool((low > 0.5).any() or (high < 0.5).any())
        # The verdict takes the first of these two floors that is above what is allowed.
        average = steps.average_row(audit)
        worst = steps.worst_row(records, 0.95, average)
        assert worst.accuracy_lower >= average.accuracy_lower
        proved += bool(average.accuracy_lower > 0.5 or worst.accuracy_lower > 0.5)
        for side in (average, worst):
            assert side.accuracy_estimate >= side.accuracy_lower >= side.blind
    assert max(wrong, proved) <= most
    assert alone > runs / 2, "single ends must be caught"


def test_ends_share_the_error_among_the_records_and_are_stored():
    records = exposure(0, confidence=0.9)
    # Each of the 60 records has its share of half the error, on either side.
    low, high = single(records, 0.1 / 60)
    assert records.lower == pytest.approx(low, rel=1e-12)
    assert records.upper == pytest.approx(high, rel=1e-12)
    assert set(records.exposed.tolist()) == set(np.flatnonzero(records.lower > 0.5).tolist())
    assert records.lower[0] > 0.6
    assert records.worst_record_estimate >= records.lower.max()
    fields = plain(records)
    assert json.loads(json.dumps(fields)) == fields
    assert [r["record"] < LEAKY for r in fields["most_exposed"][:3]] == [True] * 3
    for item in fields["most_exposed"]:
        assert item["lower"] == records.lower[item["record"]]
        assert item["upper"] == records.upper[item["record"]]
        assert item["proved"] == (item["lower"] > fields["exposed_above"])


def test_auditing_a_sample_of_records_gives_the_same_results(tmp_path):
    """Models are trained on halves of all, some records are attacked (claim 7)."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(160, 3)), rng.integers(2, size=160)  # memorised
    examples = Examples(x, y, "classification", ("a", "b", "c"), ("0", "1"))
    options = {"models": 24, "n_jobs": 1, "cache": tmp_path}
    tree = DecisionTreeClassifier(random_state=0)
    whole, part, again = (
        train_shadows(examples, tree, **options, records=records) for records in (None, 60, 60)
    )
    assert (part.reused, again.reused) == (0, 24), "other records are other fits, the same are not"
    np.testing.assert_array_equal(part.sample, sample_attacked_records(160, 60, seed=0))
    np.testing.assert_array_equal(part.membership, whole.membership[:, part.sample])
    np.testing.assert_array_equal(part.signals.logit, whole.signals.logit[:, part.sample])
    np.testing.assert_array_equal(again.signals.logit, part.signals.logit)
    assert part.examples.rows == len(set(part.sample.tolist())) == 60
    assert part.game == whole.game
    assert any("60 of the 160" in warning for warning in part.warnings)
    assert all(draw_half(160, 0, model)[0].sum() == 80 for model in range(3))
    audit = audit_shadows(part, attacks=["lira"])
    assert audit.attacks["lira"].accuracy.lower > 0.6
    assert any("60 of the 160" in assumption for assumption in audit.assumptions)
    listed = [item.record for item in audit.records.most_exposed]
    assert set(listed) <= set(part.sample.tolist())
    assert max(listed) >= 60, "places in the sample would all be below this"


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def table():
    draws = np.random.default_rng(1)
    x = draws.normal(size=(80, 4))
    return pd.DataFrame(x, columns=list("abcd")).assign(y=draws.integers(0, 2, 80))


def learner_audited(table, **options):
    return audit_learner(table, **{"shadows": 24, "workers": 1, "target": "y"} | options)


def test_a_learner_that_memorises_and_its_records(table, tmp_path):
    answer = learner_audited(
        table, learner="tree", records=tmp_path / "r.csv", cache=tmp_path / "c"
    )
    # Labels are coin flips, so a full tree is right on members and half right on others.
    best = answer.attacks[answer.best]["advantage"]
    assert best["estimate"] > 0.3
    assert best["lower"] > 0.1
    written = pd.read_csv(tmp_path / "r.csv")
    assert len(written) == 80
    assert written.exposed.sum() == answer.records.exposed_records
    # The sentence accounts for selecting the best attack.
    assert f"{answer.floor:.3f}" != f"{best['lower']:.3f}"
    stated = float(re.search(r"at least (\S+) % with", answer.sentence)[1])
    assert 50 * (1 + answer.floor) - 0.01 < stated <= 50 * (1 + answer.floor), "rounded down"
    again = learner_audited(table, learner="tree", cache=tmp_path / "c")
    assert again.detail.run.reused == 24
    assert again.attacks == answer.attacks


class NoisyBit(ClassifierMixin, BaseEstimator):
    """Tell for every record whether it was in the training set, wrongly with probability ``flip``.

    The coins depend on the training half alone, so that a fit is reproducible.
    """

    def __init__(self, flip=0.0, rows=80):
        self.flip = flip
        self.rows = rows

    def _records(self, x):
        """Numbers from 0, as they were before they were scaled by all rows."""
        spread = math.sqrt((self.rows**2 - 1) / 12)
        return np.rint(x[:, 0] * spread + (self.rows - 1) / 2).astype(int)

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        inside = np.sort(self._records(x))
        lies = np.random.default_rng(inside).random(self.rows) < self.flip
        self.told_ = np.isin(np.arange(self.rows), inside) ^ lies
        return self

    def predict_proba(self, x):
        record = self._records(x)
        right = np.where(self.told_[record], 0.9, 0.6)
        first = np.where(record % 2 == 0, right, 1 - right)
        return np.column_stack([first, 1 - first])


@pytest.mark.parametrize("flip", [0.5, 0.25, 0.1])
def test_floors_stay_below_the_known_advantage_of_a_learner_and_are_useful(flip):
    """The best guess about a record is the bit: TPR - FPR = 1 - 2 flip, exactly.

    At confidence 0.9 an end misses with probability 0.05: 7 or more of 24 with 1e-4.
    """
    truth = 1 - 2 * flip
    frame = pd.DataFrame({"x": np.arange(80.0), "y": np.arange(80) % 2})
    options = {"columns": ["x"], "roles": {"x": "number"}, "attacks": ["loss", "lira"]}
    misses, caught, floors = np.zeros(4, dtype=int), np.zeros(2, dtype=int), []
    for seed in range(24):
        answer = learner_audited(
            frame, learner=NoisyBit(flip), seed=seed, confidence=0.9, fpr=[0.1], **options
        )
        bound = answer.attacks["loss"]["advantage"]
        records = answer.detail.records.lower.max()
        beyond = (answer.floor, bound["lower"], 2 * records - 1)
        misses += [*(np.array(beyond) > truth), bound["upper"] < truth]
        # The broken twin takes estimates for floors, of the attack and of the best record.
        record = answer.detail.records.estimate.max()
        caught += np.array([bound["estimate"], 2 * record - 1]) > truth
        floors.append(bound["lower"])
    assert max(misses) < 7 <= caught[1]
    if truth > 0:
        assert caught[0] >= 7
        assert np.median(floors) > 0.35 * truth, "a floor that says nothing"


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (80, {"target": "none"}, "no column"),
        (80, {"learner": "magic"}, "learner must be"),
        (80, {"attacks": ["magic"]}, "attacks must be among"),
        (80, {"shadows": 4}, "at least 8"),
        (80, {"confidence": 1.0}, "confidence"),
        (12, {}, "at least 20"),
    ],
)
def test_bad_questions(table, rows, options, words):
    with pytest.raises(InputError, match=words):
        learner_audited(table[:rows], **options)
