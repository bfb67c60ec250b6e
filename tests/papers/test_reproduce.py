"""``reproduce`` as a user meets it: every figure end to end with few trials."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import run_command
from memberbound import reproduce
from memberbound.papers import subset_figures
from memberbound.papers.reproduction import (
    Average,
    Experiment,
    Picture,
    Sweep,
    below,
    experiments,
    flat,
    near,
    trend,
)
from memberbound.verbs.reproduce import ClaimCheck, Reproduction
from tables.real_data import real_file

COMMON = {"command", "version", "game", "protects", "theorems", "assumptions"}
ENDINGS = (".png", ".svg", ".csv", "-trials.csv", ".json")
#: Without a data set that the package does not carry.
SELF_CONTAINED = [id for id, one in experiments().items() if not one.needs_data]
GAMES = {"A25": "iid", "I24": "subset", "L24": "subset"}
#: Two trials of these take a minute of computing; L24-F6 has the same code as the two of L24, the
#: others have small settings in test_iid_figures.py.
SLOW = ("A25-F1", "A25-F2", "L24-F4", "L24-F5")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduction-summary.md"


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=[pytest.mark.long] * (id in SLOW)) for id in SELF_CONTAINED]
)
def test_figure_end_to_end(id, tmp_path, monkeypatch):
    # Measured values are covered by other tests.
    monkeypatch.setattr(subset_figures, "_DIMENSIONS", (1, 5, 20))
    out = tmp_path / "new" / "folder"
    code, printed, errors = run_command("reproduce", id, "--out", out, "--trials", 2, "--json")
    assert code == 0, errors
    result = json.loads(printed)
    assert set(result) >= COMMON | {"id", "figures", "table", "checks", "notes"}
    assert result["command"] == "reproduce"
    assert (result["id"], result["game"], result["trials"]) == (id, GAMES[id[:3]], 2)
    assert sorted(p.name for p in out.iterdir()) == sorted(id + end for end in ENDINGS)
    assert result["figures"] == [str(out / f"{id}.png"), str(out / f"{id}.svg")]
    assert (out / f"{id}.png").read_bytes().startswith(b"\x89PNG")
    assert (out / f"{id}.svg").read_text().count("<svg") == 1
    assert json.loads((out / f"{id}.json").read_text()) == result
    for check in result["checks"]:
        assert set(check) >= {"claim", "paper", "measured", "holds"}
        assert isinstance(check["holds"], bool)
    _tables_agree(result, out, id)


def _tables_agree(result, out, id):
    """The CSV is the table of the answer, and its means are those of the single trials."""
    shown, single = pd.read_csv(out / f"{id}.csv"), pd.read_csv(out / f"{id}-trials.csv")
    for row, answer in zip(shown.to_dict("records"), result["table"], strict=True):
        for name, value in answer.items():
            assert math.isnan(row[name]) if value is None else row[name] == value
    parameter = shown.columns[0]
    assert len(single) == 2 * len(shown)
    quantities = [c for c in single.columns if c not in (parameter, "trial")]
    assert quantities
    for name in quantities:
        by_value = single.groupby(parameter)[name]
        np.testing.assert_allclose(shown[f"{name}_mean"], by_value.mean(), rtol=1e-12)
        np.testing.assert_allclose(shown[f"{name}_se"], by_value.sem(), rtol=1e-9, atol=1e-15)
        assert (shown[f"{name}_n"].to_numpy() == by_value.count().to_numpy()).all()


def test_same_seed_same_numbers_and_another_seed_others():
    first, again = (reproduce("L24-F2", trials=2, seed=3) for _ in range(2))
    assert first.to_dict() == again.to_dict()
    assert first.table != reproduce("L24-F2", trials=2, seed=4).table
    assert first.figures == first.files == ()


# ---- checks are computed -----------------------------------------------------------------------


def test_a_wrong_mechanism_makes_checks_fail(monkeypatch):
    """A mechanism with half the noise it should have: ε̃ too large, the claims on it fall."""
    right = reproduce("L24-F2", trials=6)
    build = subset_figures.ExponentialMechanism.calibrated_to_population
    monkeypatch.setattr(
        subset_figures.ExponentialMechanism,
        "calibrated_to_population",
        lambda losses, *, epsilon_population, **rest: build(
            losses, epsilon_population=2 * epsilon_population, **rest
        ),
    )
    wrong = reproduce("L24-F2", trials=6)
    at_50 = "C = 50: ε̃(X)/ε(X)"
    assert [c.holds for c in right.checks if c.claim.startswith(at_50)] == [True]
    assert [c.holds for c in wrong.checks if c.claim.startswith(at_50)] == [False]


def _sweep(rows):
    return Sweep("x", tuple(float(i) for i in range(len(rows))), {"q": np.array(rows, float)})


def test_checks_hold_and_fail_as_stated():
    two = Average(2.0, 0.1, 5)
    assert near("a", 2.2, two, share=0.1).holds
    assert not near("a", 2.3, two, share=0.1).holds
    assert below("a", None, two, limit=2.01).holds
    assert not below("a", None, two, limit=2.0).holds
    rising = _sweep([[1, 1.1], [2, 2.1], [3, 3.1]])
    assert trend("a", rising, "q", rising=True).holds
    assert not trend("a", rising, "q", rising=False).holds
    assert not trend("a", _sweep([[1, 1.1], [5, 5.1], [3, 3.1]]), "q", rising=True).holds
    assert not trend("a", _sweep([[1, 1], [1, 1]]), "q", rising=True).holds
    assert not trend("a", _sweep([[math.nan] * 2, [1, 1]]), "q", rising=True).holds
    assert flat("a", _sweep([[1, 1], [1.2, 1.2]]), "q", factor=1.25).holds
    assert not flat("a", _sweep([[1, 1], [1.3, 1.3]]), "q", factor=1.25).holds
    assert not near("a", 2.0, Average.of(np.array([math.nan])), share=0.1).holds


# ---- listing, several, bad input ---------------------------------------------------------------


def test_list_names_every_id_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run_command("reproduce", "--list", "--json")
    listed = json.loads(printed)
    assert code == 0
    assert [row["id"] for row in listed["table"]] == list(experiments())
    assert (listed["id"], listed["figures"], listed["checks"]) == (None, [], [])
    assert json.loads(run_command("reproduce", "--json")[1]) == listed
    assert "L24-F3" in run_command("reproduce")[1]
    assert not list(tmp_path.iterdir())


def test_several_at_once_and_progress(only, tmp_path, undrawn):
    only("L24-F2", "L24-F3")
    steps = []
    both = reproduce("all", trials=1, out=tmp_path, progress=lambda *step: steps.append(step))
    assert steps == [(1, 2), (2, 2)]
    answer = both.to_dict()
    assert [row["id"] for row in answer["table"]] == ["L24-F2", "L24-F3"]
    assert {check["id"] for check in answer["checks"]} == {"L24-F2", "L24-F3"}
    assert len(answer["figures"]) == 4
    assert reproduce("l24", trials=1).table == both.table


def test_interrupted_run_leaves_finished_figures_whole(only, monkeypatch, tmp_path, undrawn):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(subset_figures, "figure_3", stop)
    only("L24-F2", "L24-F3")
    with pytest.raises(KeyboardInterrupt):
        reproduce("all", trials=1, out=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted("L24-F2" + end for end in ENDINGS)


def test_settings_of_a_figure_reach_it_and_its_claims_are_not_checked(tmp_path, undrawn):
    small = reproduce("L24-F1", n=4, trials=2, settings={"clip": 20.0, "d": 2})
    assert small.settings == {"clip": 20.0, "d": 2, "n": 4}
    assert small.checks == ()
    assert "n = 4" in small.notes[0]
    assert small.table != reproduce("L24-F1", n=4, trials=2).table
    # The paper's own values are no settings of one's own.
    same = reproduce("L24-F3", n=6, trials=1)
    assert same.settings == {}
    assert same.checks
    arguments = ("--n", 7, "--trials", 1, "--set", "candidates=2", "--out", tmp_path, "--json")
    code, printed, errors = run_command("reproduce", "L24-F3", *arguments)
    assert code == 0, errors
    assert json.loads(printed)["settings"] == {"candidates": 2.0, "n": 7.0}


def test_n_changes_the_game_that_is_measured():
    """Truth: at n = 4, one value of σ, the mechanism written out on the same population."""
    row = subset_figures.choice([0, 1, 0], 1, 10, sigma=1.0, n=4, epsilon_population=5.0)
    exact = subset_figures.choice([0, 1, 0], 1, 10, sigma=1.0, n=4, epsilon_population=5.0)
    assert row == exact
    # Fewer records, each of more weight: ε for the same ε(X) depends on n through Δ/Δ(X) alone.
    other = subset_figures.choice([0, 1, 0], 1, 10, sigma=1.0, n=8, epsilon_population=5.0)
    assert other["pmp_epsilon"] < row["pmp_epsilon"]
    for size, found in ((4, row), (8, other)):
        assert found["epsilon_lipschitz"] / found["epsilon"] == pytest.approx(20 / 11), size


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch, undrawn):
    measured, whole = [], reproduce("L24-F2", trials=3).table
    choice = subset_figures.choice

    def count_calls(key, *rest, **settings):
        if len(measured) == 10:  # in the second of three trials of seven values
            measured.append(None)
            raise KeyboardInterrupt
        measured.append(key)
        return choice(key, *rest, **settings)

    monkeypatch.setattr(subset_figures, "choice", count_calls)
    with pytest.raises(KeyboardInterrupt):
        reproduce("L24-F2", trials=3, out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["L24-F2-unfinished.jsonl"]
    # A line that was cut off is measured again.
    kept = tmp_path / "L24-F2-unfinished.jsonl"
    kept.write_text(kept.read_text() + '[{"pmp_epsilon": 0.')
    steps = []
    done = reproduce("L24-F2", trials=3, out=tmp_path, progress=lambda *step: steps.append(step))
    assert done.table == whole
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert len(measured) == 11 + 14  # not the first trial again
    assert not kept.exists()
    # Another seed starts anew.
    del measured[:]
    monkeypatch.setattr(subset_figures, "choice", choice)
    kept.write_text('{"id": "L24-F2"}\n[]\n')
    assert reproduce("L24-F2", trials=3, out=tmp_path).table == whole


def test_a_curve_on_top_of_another_leaves_it_visible():
    """L24-F5 at a large C: both curves are equal, and the upper one is broken and hollow."""
    equal = Sweep("x", (1.0, 2.0), {"a": np.ones((2, 1)), "b": np.ones((2, 1))})
    curves = [("a", "below", "blue", "o"), ("b", "above", "green", "--D")]
    figure = Picture("t", "x", "y", {"": curves}).draw(equal)
    below, above = figure.axes[0].lines
    assert (below.get_linestyle(), above.get_linestyle()) == ("-", "--")
    assert above.get_markerfacecolor() == "none"
    assert above.get_markersize() > below.get_markersize()
    assert subset_figures._PROVED[3].startswith("--")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["L24-F9"], "L24-F1, L24-F2"),
        (["L24", "--n", "8"], "one figure"),
        (["L24-F1", "--n", "0"], "n must be"),
        (["L24-F1", "--set", "colour=3"], "clip = 10"),
        (["L24-F1", "--set", "clip=-1"], "clip"),
        (["L24-F1", "--set", "d=1.5"], "d must be"),
        (["I24-F1", "--n", "20"], "multiple of 8"),
        (["L24-F1", "--trials", "0"], "trials"),
        (["L24-F1", "--trials", "1.5"], "trials"),
        (["L24-F1", "--seed", "-1"], "seed"),
        (["L24-F1", "--out", "file"], "out must be a folder"),
        (["L24-F1", "--out", "file/below"], "out must be a folder"),
    ],
)
def test_bad_input_exits_2_and_writes_nothing(arguments, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    code, printed, errors = run_command("reproduce", *arguments)
    assert (code, printed) == (2, "")
    assert word in errors
    assert len(errors.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


# ---- the page that sums up, and the copy of it in the documentation ----------------------------


def _part(id: str, checks: tuple[ClaimCheck, ...]) -> Reproduction:
    one = Experiment(id, f"title of {id}", "none.none", 4, ("T",), ("A",), ("why",))
    return Reproduction(id, one.title, [], checks, (one,), 4, 3)


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table that starts with a heading, without its head."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading}"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        rows.append([cell.strip() for cell in cells])
    return rows


def test_page():
    good = ClaimCheck("is so", 1.0, 1.01, 0.02, True)
    bad = ClaimCheck("max |x| is 2", None, 3.14159, float("nan"), False)
    parts = [_part("P-1", (good, bad)), _part("P-2", (good,))]
    left = {"id": "P-3", "title": "title of P-3", "reason": "no data."}
    page = Reproduction.together("all", parts, 3, [left]).summary()
    assert "`memberbound reproduce all --seed 3`" in page
    assert "2 of 3 claims hold as stated." in page
    assert _rows(page, "id | what") == [
        ["P-1", "title of P-1", "4", "2", "1"],
        ["P-2", "title of P-2", "4", "1", "1"],
        ["P-3", "title of P-3", "", "left out", ""],
    ]
    assert _rows(page, "id | claim") == [["P-1", r"max \|x\| is 2", "", "3.142"]]
    assert "P-3 was left out: no data." in page
    assert page.count("- P-1: why") == 1


def test_page_of_the_documentation_lists_all_figures():
    page = PAGE.read_text()
    failing = [row[0] for row in _rows(page, "id | claim")]
    rows = _rows(page, "id | what")
    for one, row in zip(experiments().values(), rows, strict=True):
        id, title, trials, claims, hold = row
        assert (id, title, int(trials)) == (one.id, one.title, one.trials)
        assert failing.count(id) == int(claims) - int(hold)
        for note in one.notes:
            assert f"- {id}: {note}" in page


@pytest.mark.long
@pytest.mark.parametrize("id", experiments())
def test_default_run_gives_the_page_of_the_documentation(id):
    needs_data = experiments()[id].needs_data
    result = reproduce(id, data=real_file("mnist.npz").parent if needs_data else None)
    printed = [
        row[1].replace("\\|", "|") for row in _rows(PAGE.read_text(), "id | claim") if row[0] == id
    ]
    assert [check.claim for check in result.checks if not check.holds] == printed
