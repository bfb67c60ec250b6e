"""The page that sums up, and the copy of it in the documentation."""

import re
from pathlib import Path

from memberbound.games import IidGame
from memberbound.reproduction.checks import Check
from memberbound.reproduction.experiment import Experiment, Findings
from memberbound.reproduction.overview import overview_page
from memberbound.reproduction.registry import EXPERIMENTS, experiment
from memberbound.reproduction.result import LeftOut, Reproduction
from reproduction.mismatches import NOT_MATCHED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduction-summary.md"


def _part(id: str, checks: tuple[Check, ...], seconds: float) -> Reproduction:
    one = Experiment(
        id,
        f"title of {id}",
        4,
        IidGame(),
        lambda *_: Findings([], [], ()),
        ("T",),
        ("A",),
        ("why",),
    )
    findings = Findings([], [], checks)
    return Reproduction.of(one, findings, trials=4, seed=3, figures=[], files=[], seconds=seconds)


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table that starts with a heading, without its head."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading}"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        found.append([cell.strip() for cell in cells])
    return found


def test_page():
    good = Check("is so", 1.0, 1.01, 0.02, True)
    bad = Check("max |x| is 2", None, 3.14159, float("nan"), False)
    parts = [_part("P-1", (good, bad), 90.0), _part("P-2", (good,), 6.0)]
    left = LeftOut("P-3", "title of P-3", "no data.")
    page = overview_page(Reproduction.together("all", parts, 3, [left]))
    assert "`memberbound reproduce all --seed 3`" in page
    assert "2 of 3 claims hold as stated." in page
    assert _rows(page, "id | what") == [
        ["P-1", "title of P-1", "4", "2", "1", "1.5"],
        ["P-2", "title of P-2", "4", "1", "1", "0.1"],
        ["P-3", "title of P-3", "", "left out", "", ""],
    ]
    assert _rows(page, "id | claim") == [["P-1", r"max \|x\| is 2", "", "3.142"]]
    assert "P-3 was left out: no data." in page
    assert page.count("- **P-1.** why") == 1


def test_page_of_the_documentation_lists_what_can_be_redone():
    page = PAGE.read_text()
    rows = {row[0]: row for row in _rows(page, "id | what")}
    assert list(rows) == list(EXPERIMENTS)
    failing = _rows(page, "id | claim")
    for id, (_, title, trials, claims, hold, minutes) in rows.items():
        known = experiment(id)
        assert title == known.title
        assert int(trials) == known.trials
        assert float(minutes) > 0
        texts = [text for one, text, *_ in failing if one == id]
        assert len(texts) == int(claims) - int(hold) == len(NOT_MATCHED[id])
        for claim in NOT_MATCHED[id]:
            assert any(text.replace(r"\|", "|").startswith(claim) for text in texts), claim
        for note in known.notes:
            assert f"- **{id}.** {note}" in page
