"""Terminal output: nothing truncated, nothing too wide, a style for each kind of number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import memberbound
from commands import command, python
from memberbound.faces.command_line import VERBS, application, verb_named
from memberbound.faces.terminal import blocks, kinds_in, wrap_text
from memberbound.report.model import read
from memberbound.verbs.study import Study

SAMPLE = Path(__file__).parents[1] / "report" / "sample.json"
WIDTHS = (80, 120)


@pytest.fixture(scope="module")
def summaries() -> dict[str, str]:
    """Output of the verbs, including wide tables and long sentences."""
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"score": rng.normal(size=400), "member": np.arange(400) % 2})
    people = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    coarse = pd.DataFrame({"sex": rng.integers(0, 2, 900), "age": rng.integers(0, 9, 900)})
    return {
        "audit": memberbound.audit(scores).summary(),
        "certify": memberbound.certify(coarse).summary(),
        "explain": memberbound.explain(epsilon=8, delta=1e-5, baseline=[0.1]).summary(),
        "plan": memberbound.plan(security=0.9, uniform=316).summary(),
        "population": memberbound.population(people, epsilon=8).summary(),
        "study": Study(read(SAMPLE), "study", ("study/report.html",)).summary(),
        "theorems": memberbound.theorems("A25").summary(),
    }


def faults(text: str, shown: str, width: int) -> list[str]:
    """Return the defects of a wrapped text; the first heading of a table may be dropped."""
    # A command stays in one line: broken, it could not be pasted.
    lines = [line for line in shown.split("\n") if not line.startswith("  memberbound ")]
    wide = [line for line in lines if len(line) > width and " " in line.strip()]
    words = set(text.split())
    broken = [word for word in shown.split() if word not in words]
    lost = [word for word in words - {"attack"} if word not in set(shown.split())]
    split = re.findall(r"[≤≥≈]\n|\d\n\s*%", shown)
    return [f"too wide: {line}" for line in wide] + [*broken, *lost, *split]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_answer_fits_and_keeps_its_words(summaries: dict[str, str], width: int) -> None:
    assert any(len(line) > 120 for text in summaries.values() for line in text.split("\n"))
    for verb, text in summaries.items():
        assert faults(text, wrap_text(text, width), width) == [], verb


def test_titles_wrap_below_themselves_and_code_stays_whole(summaries: dict[str, str]) -> None:
    listed = wrap_text(summaries["theorems"], 80).split("\n")
    results = memberbound.theorems("A25").results
    heads = [line for line in listed if line.startswith("A25-")]
    assert [line.split()[0] for line in heads] == [entry.id for entry in results]
    assert [line.split()[1] for line in heads if "eq11" not in line] == [
        entry.call.rpartition(".")[2] for entry in results if entry.call
    ]
    code = f"  >>> print({', '.join(['numbers'] * 12)})"
    assert wrap_text(f"Call:  f\n{code}", 80).endswith(code)
    command = summaries["study"].split("\n")[-1]
    assert command.startswith("  memberbound protect ")
    assert wrap_text(summaries["study"], 80).endswith(f"\n{command}")


def test_a_terminal_that_cuts_lines_is_caught(summaries: dict[str, str]) -> None:
    def cut(text: str, width: int) -> str:
        lines = text.split("\n")
        return "\n".join(line[i : i + width] for line in lines for i in range(0, len(line), width))

    text = summaries["explain"]
    assert faults(text, text, 80)
    assert faults(text, cut(text, 80), 80)
    assert faults(text, text.replace("≤ ", "≤\n"), 400)


@given(st.lists(st.text("abc ≤%0", min_size=1), min_size=1), st.integers(30, 90))
def test_no_word_is_lost_from_any_text(lines: list[str], width: int) -> None:
    text = " ".join(" ".join(lines).split())  # no table: one space between words
    shown = wrap_text(text, width)
    assert shown.split() == text.split()
    assert all(len(line) <= width or " " not in line.strip() for line in shown.split("\n"))


def test_an_indented_row_is_no_heading() -> None:
    text = "success  before  after\nModel\n  worst  ≤ 55 %  ≤ 51 %\n  average  ≤ 54 %  ≤ 51 %"
    *_, last = blocks(text, measures=False)
    assert (last["heads"], len(last["rows"])) == ([], 2)
    assert last["rows"][0][1] == {"text": "≤ 55 %", "kind": "certificate"}


def test_kinds_differ_in_their_signs(summaries: dict[str, str]) -> None:
    study = summaries["study"]
    found = {kind for _, _, kind in kinds_in(study, measures=True)}
    assert found == {"certificate", "audit", "estimate", "unproved"}
    for start, end, kind in kinds_in(study, measures=True):
        sign = {"certificate": "≤", "audit": "≥", "estimate": "≈"}.get(kind)
        assert sign is None or study[start:end].startswith(sign)
    # A certified floor of the security is no measurement.
    security = next(item for item in kinds_in("MIS ≥ 0.960785", measures=False))
    assert security == (4, 14, "certificate")
    assert list(kinds_in("blind guessing is right 50 %", measures=True)) == []


def run_in_terminal(*arguments: str, columns: int = 80, **extra: str) -> tuple[str, int]:
    """Run the command in a terminal of its own and return what it shows."""
    import pty

    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"COLUMNS": str(columns), "TERM": "xterm-256color"} | extra
    with subprocess.Popen(
        [sys.executable, "-m", "memberbound", *arguments],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not block:
                break
            shown += block
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    asked = ("explain", "--epsilon", "1", "--delta", "1e-5")
    shown, code = run_in_terminal(*asked)
    assert code == 0
    assert "\x1b[1;38;5;33m≤ " in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert all(len(line) <= 80 for line in plain.split("\n"))
    assert "\x1b[1;38" not in run_in_terminal(*asked, NO_COLOR="1")[0]
    piped = python("-m", "memberbound", *asked)
    assert "\x1b" not in piped.stdout
    # A sentence in a pipe is one line, as scripts read it.
    assert piped.stdout.split("\n")[0] == memberbound.explain(epsilon=1, delta=1e-5).sentence


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_help_is_in_groups() -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run_in_terminal("audit", "--help")[0])
    headings = re.findall(r"╭─ ([\w ]+) ─", shown)
    groups = ["Data", "Question", "Computation", "Limit", "Output"]
    assert headings == ["Arguments", "Options", *groups]
    joined = " ".join(shown.split())
    assert "Learners: boosting, knn, linear, logistic" in joined
    assert "Attacks: loss, " in joined
    assert ", calibrated-loss, lira" in joined
    whole = re.sub(r"\x1b\[[0-9;]*m", "", run_in_terminal("--help")[0])
    assert "Everything in one report" in whole
    assert all(len(line) <= 80 for line in (shown + whole).split("\n"))


def test_the_list_of_verbs_agrees_with_their_help_pages() -> None:
    """It is read from their sources, so that the help page imports none of them."""
    listed = typer.main.get_command(application([], VERBS))
    assert list(listed.commands) == list(VERBS)
    for name, entry in listed.commands.items():
        assert entry.help == verb_named(name).summary.split("\n\n")[0] != ""
    code = "import sys; sys.argv[1:] = ['--help']\n"
    code += "import atexit; atexit.register(lambda: print(sorted(sys.modules)))\n"
    code += "from memberbound.faces.command_line import main; main()"
    ran = python("-c", code)
    for heavy in ("'numpy'", "'pandas'", "'memberbound.verbs"):
        assert heavy not in ran.stdout
    assert "Everything in one report" in ran.stdout
    assert command("--", "theorems", "A25-T14").stdout == command("theorems", "A25-T14").stdout
    done = command("--", "--", "theorems")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "must be the first argument" in done.stderr
