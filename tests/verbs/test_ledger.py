"""The verb ``ledger``, and ``explain --ledger``: what all releases together promise."""

import pytest

from memberbound import InputError, Ledger, explain, ledger
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import entered


@pytest.fixture
def spent(tmp_path):
    book = Ledger.create(tmp_path / "ledger.json", 0.1)
    for eta in (0.05, 0.06):
        with entered(book, "protect", "logistic model", eta) as release:
            release.reserve(Budget.for_eta(eta, slack=1e-9, unit="patient"))
    return book.path


def test_a_new_ledger_then_its_state(tmp_path, spent):
    made = ledger(tmp_path / "new.json", limit_eta=0.2).to_dict()
    assert (made["limit_eta"], made["eta"], made["releases"]) == (0.2, 0.0, [])
    state = ledger(spent).to_dict()
    assert [entry["eta"] for entry in state["releases"]] == [0.05, 0.06]
    assert 0.06 < state["eta"] < 0.11
    assert state["eta"] <= state["limit_eta"]
    assert 0 < state["left"] < 0.1
    assert state["unit"] == "patient"


def test_the_limit_is_what_is_explained(spent):
    answer = explain(ledger=spent)
    state = ledger(spent)
    assert state.eta < answer.eta_upper <= 0.1
    assert answer.adjacency == "replace-one"
    assert answer.epsilon is not None
    assert "X27" in answer.theorems


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"limit_eta": 0.2}, "fixed"),
        ({"limit_eta": 0.5}, "fixed"),
    ],
)
def test_the_limit_stays(spent, asked, word):
    with pytest.raises(InputError, match=word):
        ledger(spent, **asked)


def test_bad_input(tmp_path, spent):
    with pytest.raises(InputError, match="existing"):
        ledger(tmp_path / "none.json")
    with pytest.raises(InputError, match="eta"):
        ledger(tmp_path / "none.json", limit_eta=0.5)
    with pytest.raises(InputError, match="json"):
        ledger(tmp_path / "none.txt", limit_eta=0.1)
    with pytest.raises(InputError, match="one way"):
        explain(ledger=spent, epsilon=1.0)
    with pytest.raises(InputError, match="replace-one"):
        explain(ledger=spent, adjacency="add-remove")
    with pytest.raises(InputError, match="left out"):
        explain(ledger=spent, target_eta=0.1)
    with pytest.raises(InputError, match="Ledger"):
        ledger(7)
    assert not list(tmp_path.glob("none*"))
