"""A sample of the records is attacked, models are trained on halves of all (claim 7)."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from memberbound.attacks.learner_audit import (
    audit_shadows,
    record_exposure,
    release_statistics,
)
from memberbound.attacks.shadows import attacked_records, draw_half, train_shadows
from memberbound.learners.examples import Examples

ROWS, SOME = 160, 60


@pytest.fixture(scope="module")
def examples() -> Examples:
    """Coin tosses: a tree learns every one of them by heart."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 3)), rng.integers(2, size=ROWS)
    return Examples(x, y, "classification", ("a", "b", "c"), ("0", "1"))


@pytest.fixture(scope="module")
def runs(examples, tmp_path_factory):
    options = {"models": 24, "n_jobs": 1, "cache": tmp_path_factory.mktemp("fits")}
    tree = DecisionTreeClassifier(random_state=0)
    return [train_shadows(examples, tree, **options, records=r) for r in (None, SOME, SOME)]


def test_the_sample_says_what_the_whole_says_about_its_records(examples, runs) -> None:
    whole, part, again = runs
    assert (part.reused, again.reused) == (0, 24), "other records are other fits, the same are not"
    np.testing.assert_array_equal(part.sample, attacked_records(ROWS, SOME, seed=0))
    assert len(set(part.sample.tolist())) == SOME
    np.testing.assert_array_equal(part.membership, whole.membership[:, part.sample])
    np.testing.assert_array_equal(part.signals.logit, whole.signals.logit[:, part.sample])
    np.testing.assert_array_equal(again.signals.logit, part.signals.logit)
    assert part.examples.rows == SOME
    assert part.game == whole.game
    assert part.game.population == ROWS
    assert any(f"{SOME} of the {ROWS}" in said for said in part.warnings)
    assert all(draw_half(ROWS, 0, m)[0].sum() == ROWS // 2 for m in range(3))


def test_an_audit_of_a_sample_names_rows_of_the_table_and_whom_it_is_about(runs) -> None:
    found = audit_shadows(runs[1], attacks=["lira"])
    assert found.attacks["lira"].accuracy.lower > 0.6
    assert any(f"{SOME} of the {ROWS}" in said for said in found.assumptions)
    shown = record_exposure(found)
    listed = [item.record for item in shown.most_exposed]
    assert set(listed) <= set(runs[1].sample.tolist())
    assert max(listed) >= SOME, "places in the sample would all be below this"


def test_the_advantage_of_a_sample_is_linear_in_its_records() -> None:
    """A quotient by |D ∩ R| has a mean that no certificate bounds."""
    rng = np.random.default_rng(3)
    member = rng.random((50, 12)) < 0.5
    member[:, 0], member[:, 1] = True, False
    scores = rng.normal(size=member.shape) + member
    found = release_statistics(scores, member, 0.5, (0.1,), sampled=True)
    right = (scores >= 0.5) == member
    np.testing.assert_allclose(found["advantage"], 2 * right.mean(axis=1) - 1, atol=1e-15)
    whole = release_statistics(scores, member, 0.5, (0.1,))
    assert np.abs(whole["advantage"] - found["advantage"]).max() > 0.01
