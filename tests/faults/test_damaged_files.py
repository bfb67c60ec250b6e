"""Damaged files: read or refused in one sentence, never a traceback, a hang or a wrong value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import command
from faults import damaged
from faults.damaged import GOOD, case, outcome, special

#: Seconds after which a run counts as a hang; a busy machine is no hang.
PATIENCE = 900.0
ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and pipes of Unix")


def watch(wanted: list[str]) -> tuple[int, list[str]]:
    """Read cases in a child process; return how many ended well, and what went wrong."""
    well, wrong = 0, []
    while wanted:
        call = [sys.executable, "-m", "faults.damaged", *wanted]
        try:
            ran = subprocess.run(call, capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False)
            lines = ran.stdout.splitlines()
        except subprocess.TimeoutExpired as hung:
            lines = (hung.stdout or b"").splitlines()
        said = [json.loads(line) for line in lines if line.endswith(b"]")]
        ends = [rest for word, *rest in said if word == "end"]
        well += sum(problem is None for *_, problem in ends)
        wrong += [f"{kind} {index}: {problem}" for kind, index, problem in ends if problem]
        if not said or said[-1][0] == "end":
            return well, wrong
        _, kind, index = said[-1]
        wrong.append(f"{kind} {index}: the process hung or died")
        position = next(i for i, w in enumerate(wanted) if w.rsplit(":", 2)[0] == kind)
        last = wanted[position].rsplit(":", 1)[1]
        wanted = [f"{kind}:{index + 1}:{last}", *wanted[position + 1 :]]
    return well, wrong


#: Cases of each kind: those made by hand come first, the others are drawn.
QUICK = {kind: max(9, len(special(kind)) + 3) for kind in GOOD}
ALL = 550


def test_damaged_files_of_every_kind():
    """In one process: to import everything takes seconds."""
    well, wrong = watch([f"{kind}:0:{count}" for kind, count in QUICK.items()])
    assert not wrong, "\n".join(wrong[:5])
    assert well == sum(QUICK.values()) >= 200


@pytest.mark.parametrize(
    ("kind", "index"), [("parquet", 79), ("feather", 127), ("arrow stream", 177)]
)
def test_regressions_of_the_long_run(kind, index, tmp_path):
    """Unknown Arrow types raise an error that is also a RuntimeError."""
    assert outcome(kind, index, tmp_path) is None


@pytest.mark.long
@pytest.mark.parametrize("kind", GOOD)
def test_ten_thousand_damaged_files(kind):
    well, wrong = watch([f"{kind}:{QUICK[kind]}:{ALL}"])
    assert not wrong, "\n".join(wrong[:5])
    assert well == ALL - QUICK[kind]


def test_cases_are_the_same_every_time():
    for kind in ("csv", "parquet", "npy"):
        first = len(special(kind))
        assert case(kind, first + 3) == case(kind, first + 3) != case(kind, first + 4)


def test_a_reader_without_a_guard_is_noticed(tmp_path, monkeypatch):
    """Negative control: the same cases through readers that refuse nothing."""

    def careless(kind, path, index):
        import numpy as np
        import yaml

        return np.load(path) if kind == "npy" else yaml.safe_load(path.read_text())

    monkeypatch.setattr(damaged, "_read", careless)
    found = [outcome(kind, i, tmp_path) for kind in ("npy", "config") for i in range(20)]
    assert sum(told is not None for told in found) > 10


def refusal_of(*arguments: object) -> str:
    ran = command(*arguments)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("memberbound: ")
    assert len(line) < 620
    return line


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.usefixtures("plain")
def test_pipes_devices_folders_and_odd_names(tmp_path):
    pipe, link = tmp_path / "pipe.csv", tmp_path / "zero.csv"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    (tmp_path / "folder.csv").mkdir()
    assert "pipe or a device" in refusal_of("certify", str(pipe))
    assert "pipe or a device" in refusal_of("certify", str(link))
    assert "directory" in refusal_of("certify", str(tmp_path / "folder.csv"))
    for option, verb in (("--bounds", "protect"), ("--config", "study"), ("--history", "explain")):
        source = [] if verb != "protect" else [str(tmp_path / "people.csv"), "--target", "y"]
        (tmp_path / "people.csv").write_bytes(damaged.csv_bytes())
        assert "pipe" in refusal_of(verb, *source, option, str(pipe))
    assert "must be an existing file" in refusal_of(
        "explain", "--history", str(tmp_path / "no.json")
    )
    refusal_of("certify", str(tmp_path / ("x" * 300 + ".csv")))
    refusal_of("certify", "a\0b.csv")


@pytest.mark.usefixtures("plain")
def test_a_name_with_undecodable_bytes(tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/p\xff\xfeople.csv")
    Path(odd).write_bytes(damaged.csv_bytes())
    assert r"p\udcff\udcfeople.csv must have a name that is text" in refusal_of("certify", odd)
    assert r"p\udcff\udcfension.csv does not exist" in refusal_of(
        "certify", odd.replace("ople", "nsion")
    )


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("workers", ["nan", "0", "-7", "1.5", "inf", "many"])
def test_workers_that_are_no_number_of_processes(workers, tmp_path):
    table = tmp_path / "people.csv"
    table.write_bytes(damaged.csv_bytes())
    told = refusal_of(
        "audit-learner", str(table), "--target", "y", "--shadows", "8", "--workers", workers
    )
    assert "workers must be" in told


@pytest.mark.parametrize("columns", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_columns(columns, tmp_path):
    from memberbound.tables.counting import count_profile

    names = [f"column{i}" for i in range(columns)]
    lines = [names, *([str(i * j % 3) for i in range(columns)] for j in (1, 2, 3))]
    wide = tmp_path / "wide.csv"
    wide.write_text("".join(",".join(line) + "\n" for line in lines))
    assert count_profile(wide).expanded().tolist() == [1, 1, 1]
