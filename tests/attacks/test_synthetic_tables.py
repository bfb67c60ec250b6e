"""Attacks on synthetic tables: copies, weak leaks, no leak at all, and coverage."""

import numpy as np
import pandas as pd
import pytest

from memberbound.attacks.synthetic_tables import audit_refits, audit_synthetic
from memberbound.errors import InputError
from memberbound.verbs.audit_table import audit_table


def people(rows, draws):
    age = draws.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.round(draws.lognormal(3, 0.6, rows), 2),
            "ward": draws.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]),
            "ill": np.where(draws.random(rows) < age / 120, "yes", "no"),
        }
    )


def null_table(members, draws):
    return people(len(members), draws)


def weak_table(members, draws):
    """A tenth of the rows are members with a little noise."""
    table = people(len(members), draws)
    near = members.iloc[draws.permutation(len(members))[: len(members) // 10]].copy()
    near["income"] += draws.normal(0, 0.05, len(near)).round(2)
    return pd.concat([table.iloc[len(near) :], near], ignore_index=True)


def copying_table(members, draws):
    return members.sample(frac=1, random_state=int(draws.integers(2**31))).reset_index(drop=True)


class Made:
    """A synthesizer around one of the functions above."""

    def __init__(self, make, seed):
        self.make, self.draws = make, np.random.default_rng(seed)

    def fit(self, table):
        self.table = table

    def sample(self, rows):
        return self.make(self.table, self.draws).iloc[:rows]


def factory(make):
    seeds = iter(range(10**6))
    return lambda: Made(make, next(seeds))


def copying():
    return factory(copying_table)()


def test_a_copy_is_found():
    draws = np.random.default_rng(0)
    members, fresh = people(400, draws), people(400, draws)
    audit, copies, _ = audit_synthetic(members, fresh, copying_table(members, draws))
    assert audit.best_advantage.lower > 0.7
    assert audit.recognised.recognised > 0.9 * audit.recognised.tried == 180
    assert copies.members == 400
    assert copies.non_members < 40
    assert audit.attacks["closest ratio"].auc.estimate > 0.95
    assert not audit.law.differs


@pytest.mark.long
def test_intervals_hold_on_tables_without_a_leak():
    """Null data: no floor above 0 in 95 % of 24 audits (P(4 or more | 5 %) < 4 %), AUC ½ inside."""
    wrong = dict.fromkeys(("floor", "auc"), 0)
    for seed in range(24):
        draws = np.random.default_rng(100 + seed)
        members, fresh = people(150, draws), people(150, draws)
        audit, *_ = audit_synthetic(members, fresh, null_table(members, draws), fpr=(), seed=seed)
        wrong["floor"] += audit.best_advantage.lower > 0
        area = audit.attacks["marginals"].auc
        wrong["auc"] += not area.lower <= 0.5 <= area.upper
    assert max(wrong.values()) <= 3


def test_a_weak_leak_is_between():
    draws = np.random.default_rng(5)
    members, fresh = people(1500, draws), people(1500, draws)
    table = weak_table(members, draws)
    weak, *_ = audit_synthetic(members, fresh, table, people(1500, draws))
    assert 0 < weak.best_advantage.lower < 0.15
    # The truth: about a tenth of the members is near a row of their own.
    bound = weak.attacks["closest ratio"].advantage
    assert bound.lower <= 0.1 <= bound.upper + 0.05


def test_members_of_another_law_give_no_floor():
    draws = np.random.default_rng(6)
    members, fresh = people(400, draws), people(400, draws)
    fresh["age"] += 40
    answer = audit_table(members, nonmembers=fresh, synthetic=people(400, draws))
    assert not answer.comparable
    assert answer.floor is None
    assert answer.attacks["distance"]["auc"]["lower"] is None
    assert answer.exceeds(0.9, "floor")


def test_scores_do_not_depend_on_other_records():
    """The rule is fixed by the synthetic and the reference table: claims 1 to 4 need that."""
    draws = np.random.default_rng(7)
    members, fresh = people(200, draws), people(200, draws)
    table, reference = people(200, draws), people(200, draws)
    first = audit_synthetic(members, fresh, table, reference)
    other = members.copy()
    other.loc[5:] = people(200, draws).loc[5:]
    second = audit_synthetic(other, fresh, table, reference)
    for name in ("distance", "density ratio", "closest ratio", "marginals"):
        scores = [audit.scores[name][0] for audit, *_ in (first, second)]
        kept = [*range(5), *range(200, 400)]
        assert np.array_equal(scores[0][kept], scores[1][kept])
        assert not np.array_equal(*scores)


def test_a_copying_synthesizer_is_found_by_refits():
    draws = np.random.default_rng(8)
    audit, _ = audit_refits(people(300, draws), factory(copying_table), refits=48)
    assert audit.best_advantage.lower > 0.3
    assert audit.attacks["distance"].auc.estimate > 0.9


def test_refits_of_a_null_synthesizer_show_no_leak():
    """Twelve audits of null synthesizers at 95 %: three or more floors above 0 happen in 2 %."""
    wrong = 0
    for seed in range(12):
        table = people(160, np.random.default_rng(200 + seed))
        audit, _ = audit_refits(table, factory(null_table), refits=9, seed=seed)
        wrong += audit.best_advantage.lower > 0
        assert audit.best_advantage.lower <= audit.best_advantage.estimate
    assert wrong <= 2


def test_the_answer():
    draws = np.random.default_rng(10)
    members, fresh = people(300, draws), people(300, draws)
    answer = audit_table(members, nonmembers=fresh, synthetic=copying_table(members, draws))
    content = answer.to_dict()
    assert content["game"] == "model"
    assert set(content["attacks"]) >= {"distance", "density ratio", "marginals", "combined"}
    assert content["best"] in content["attacks"]
    assert answer.exceeds(0.6)
    refitted = audit_table(members, synthesizer=copying, refits=9)
    assert refitted.to_dict()["game"] == "subset"
    assert refitted.refits == 9


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "nonmembers and synthetic"),
        ({"nonmembers": 1, "synthetic": 1, "confidence": 1}, "confidence must be in"),
        ({"nonmembers": 1, "synthesizer": copying}, "nonmembers must be left out"),
        ({"synthesizer": "nosuch.module:x"}, "cannot be imported"),
        ({"synthesizer": copying, "refits": 3}, "refits"),
    ],
)
def test_bad_input(options, problem):
    members = people(200, np.random.default_rng(11))
    with pytest.raises(InputError, match=problem):
        audit_table(members, **options)


def test_too_few_rows_are_refused():
    draws = np.random.default_rng(12)
    with pytest.raises(InputError, match="at least 60"):
        audit_synthetic(people(30, draws), people(300, draws), people(300, draws))


def test_members_given_twice_are_refused():
    """Rows on both sides, or in the reference, would look like a leak; coarse ones share many."""
    draws = np.random.default_rng(5)
    fine = pd.DataFrame(draws.normal(size=(600, 2)), columns=["a", "b"])
    coarse = pd.DataFrame({"a": draws.integers(0, 3, 600), "b": draws.integers(0, 2, 600)})
    one, two, three = (slice(0, 200), slice(200, 400), slice(400, 600))
    new = fine[three].sample(frac=1, random_state=0)
    for sides, names in (
        ((one, one, None), "members and non-members"),
        ((one, two, one), "members and the reference"),
        ((one, two, two), "non-members and the reference"),
    ):
        members, others, reference = (None if s is None else fine[s] for s in sides)
        with pytest.raises(InputError, match=f"{names} must be different records, got 200 of 200"):
            audit_table(members, nonmembers=others, synthetic=new, reference=reference)
    partly = pd.concat([fine[two][:195], fine[one][:5]])
    noted = audit_table(fine[one], nonmembers=partly, synthetic=new)
    assert "members and non-members have 5 of 200 rows in common" in noted.warnings[0]
    apart = audit_table(coarse[one], nonmembers=coarse[two], synthetic=coarse[three])
    assert not any("in common" in note for note in apart.warnings)
