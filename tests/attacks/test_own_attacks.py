"""A user's own attack: its view, its measurement, and refusals."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from memberbound import InputError, audit

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(800, 5)), RNG.integers(2, size=800)
TREE = DecisionTreeClassifier(random_state=0).fit(X[:400], Y[:400])


def run(*attacks, model=TREE, **options):
    return audit(
        model=model,
        members=(X[:400], Y[:400]),
        nonmembers=(X[400:], Y[400:]),
        attacks=attacks,
        quick=True,
        **options,
    )


def own_loss(view):
    return -view.loss


def test_an_own_attack_is_measured_like_a_built_in_one():
    answer = run("loss", own_loss)
    own, loss = (answer.attacks[name]["auc"] for name in ("own_loss", "loss"))
    # A tree that grew to the end knows its members; the own one is measured on fewer records.
    assert loss["estimate"] == pytest.approx(own["estimate"], abs=0.05)
    assert loss["lower"] > own["lower"] > 0.5
    assert own["upper"] - own["lower"] > loss["upper"] - loss["lower"]
    scores, where = answer.detail.scores["own_loss"]
    assert 0 < where.sum() < len(where)
    member = answer.detail.member[where]
    pairs = scores[where][member][:, None] - scores[where][~member][None, :]
    by_hand = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert own["estimate"] == pytest.approx(by_hand, rel=1e-12)


def test_every_attack_pays_for_the_choice_of_the_best():
    def other(view):
        return -view.loss + 0.0

    def third(view):
        return -view.loss - 0.0

    alone, three = run(own_loss), run(own_loss, other, third)
    assert three.best_advantage["lower"] < alone.best_advantage["lower"]


def test_membership_of_measured_records_is_not_in_the_view():
    """An attack that knows membership is always right; the view has it for known records only."""
    seen = []

    def cheat(view):
        seen.append(view)
        return view.known_member.astype(float)

    answer = run(cheat)
    assert answer.attacks["cheat"]["auc"]["estimate"] == 0.5
    view = seen[0]
    assert not (view.known_member & ~view.known).any()
    assert view.known_member.any()
    assert view.rows.shape == X.shape
    assert view.model is not None
    assert set(vars(view)) == {
        "outputs", "truth", "signals", "known", "known_member", "classes", "rows", "model"
    }  # fmt: skip


def test_an_attack_may_learn_from_the_known_records():
    def learnt(view):
        table = np.column_stack([view.loss, view.outputs.max(axis=1)])
        model = LogisticRegression().fit(table[view.known], view.known_member[view.known])
        return model.decision_function(table)

    assert run(learnt).attacks["learnt"]["auc"]["lower"] > 0.6


@pytest.mark.parametrize(
    ("attack", "word"),
    [
        (lambda view: np.argsort(np.argsort(view.loss)), "by itself"),  # ranks
        (lambda view: np.arange(len(view.loss)), "by itself"),  # the order of the records
        (lambda view: view.loss - view.loss.mean(), "by itself"),
        (lambda view: np.random.default_rng().normal(size=len(view.loss)), "by itself"),
        (lambda view: view.loss[:-1], "one number for each"),
        (lambda view: np.full(len(view.loss), np.nan), "NaN"),
    ],
)
def test_scores_that_break_the_intervals_are_refused(attack, word):
    model = LogisticRegression().fit(X[:400], Y[:400])
    with pytest.raises(InputError, match=word):
        run(attack, model=model)


def test_names_are_kept_apart():
    def loss(view):
        return -view.loss

    answer = run("loss", loss, lambda view: -view.loss)
    assert set(answer.attacks) == {"loss", "loss-own", "lambda"}
    with pytest.raises(InputError, match="attacks must be among"):
        run("los", own_loss)
