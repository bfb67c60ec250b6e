"""Pieces of a study against second implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.attacks.learner_audit import mean_roc, worst_accuracy
from memberbound.games import SubsetGame
from memberbound.verbs.study.findings import _accuracy

unit = st.floats(0, 1)


@given(unit, unit, st.integers(1, 500))
def test_accuracy_is_at_least_that_of_the_advantage(tpr, fpr, half) -> None:
    """The floor of a study: π(1 + TPR - FPR) ≤ accuracy, whatever the threshold, for π ≤ ½."""
    for rows in (2 * half, 2 * half + 1):
        prior = half / rows
        accuracy = prior * tpr + (1 - prior) * (1 - fpr)
        assert _accuracy(SubsetGame(rows, half), tpr - fpr) <= accuracy + 1e-12
    # With the other prior, calling every record a member would get a higher score.
    assert 1 - prior > prior


def test_the_worst_record_is_not_flattered_by_being_chosen() -> None:
    rng = np.random.default_rng(0)
    honest, largest = [], []
    for _ in range(200):
        answers = rng.random((48, 300)) < 0.5
        honest.append(worst_accuracy(answers))
        largest.append(answers.mean(axis=0).max())
    # Standard error of the mean of 200 is below 0.006; five of them.
    assert abs(np.mean(honest) - 0.5) < 0.03
    assert np.mean(largest) > 0.65, "the plain maximum is far above ½ on coin tosses"
    exposed = rng.random((48, 300)) < 0.5
    exposed[:, 7] = True
    assert worst_accuracy(exposed) == 1.0


def test_mean_roc_is_the_mean_of_naive_curves() -> None:
    rng = np.random.default_rng(1)
    member = np.array([rng.permutation(40) < 17 for _ in range(5)])
    scores = np.round(rng.normal(size=(5, 40)) + member, 1)  # with ties
    fpr, tpr = mean_roc(scores, member)

    def identify(alpha, row, inside):
        """Call members from the highest score on; of equal scores a share, at random."""
        alarms, members = alpha * (~inside).sum(), 0.0
        for score in sorted(set(row), reverse=True):
            others = np.sum(row[~inside] == score)
            share = 1.0 if others == 0 else min(1.0, alarms / others)
            members += share * np.sum(row[inside] == score)
            alarms -= share * others
            if share < 1:
                break
        return members / inside.sum()

    for alpha, share in zip(fpr, tpr, strict=True):
        curves = zip(scores, member, strict=True)
        expected = np.mean([identify(alpha, row, inside) for row, inside in curves])
        assert share == pytest.approx(expected, abs=1e-9)
    # Equal scores are uninformative: on the diagonal, not below it.
    fpr, tpr = mean_roc(np.zeros((2, 40)), member[:2])
    assert tpr == pytest.approx(fpr)
