"""The list of results is true: ids, code paths, tests and errata are all checked against the tree.

Each check is a function that returns its complaints, so that it can also be fed a bad entry.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from commands import command
from memberbound.errors import InputError
from memberbound.papers.reproduction import experiments
from memberbound.papers.results import PAPERS, Entry, Erratum, Status, entries, errata, theorems

#: The modules that redo figures and tables.
FIGURES = {one.code.split(".")[0] for one in experiments().values()}

ROOT = Path(__file__).resolve().parents[2]

#: What the papers number, read from their texts: definitions, theorems, propositions, lemmas,
#: corollaries, remarks, examples, figures, tables, algorithms.
NUMBERED = {
    "A25": "D1 D2 D3 R4 P5 T6 R7 R8 D9 P10 T11 R12 E1 E2 T13 R13 E3 E4 T14 C15 D16 D17 P18 P19 L20 "
    "L21 L22 L23 L24 P25 L26 L27 L28 L29 L30 L31 D32 L33 L34 F1 F2 Tab1",
    "A24": "D2.1 D2.2 D2.3 D2.4 D2.5 P3.1 T3.2 T3.3 D4.1 T4.2 C4.2.1 E4.3 E4.4 T5.1 R5.1 E5.2 E5.3 "
    "T5.4 C5.4.1 C5.4.2 L5.5 L5.6 PB.1 LB.2 C.1",
    "A23": "D2.1 D2.2 D2.3 D2.4 D2.5 P3.1 T3.2 T3.3 T4.1 C4.1.1 E4.2 E4.3 T5.1 C5.1.1 C5.1.2 L5.2 "
    "L5.3 PA.1 LB.1",
    "I24": "Tab1 D1 P2 T3 T4 T5 P6 T7 T8 T9 C10 Alg1 P11 F1 L12 L13 C14",
    "L24": "D1 D2 L3 C4 P5 L6 D7 L8 P9 L10 L11 P12 L13 L14 L15 C16 P17 L18 P19 P20 F1 F2 F3 "
    "F4 F5 F6",
}
#: Number of the last equation of each paper.
EQUATIONS = {"A25": 54, "A24": 36, "A23": 30, "I24": 15, "L24": 15}
#: Results beyond the papers are numbered without a gap, at least so far.
BEYOND = 30
#: Numbers that the theory has given to results that are not listed yet.
PENDING: set[int] = set()

ID = re.compile(r"(?:(?:A25|A24|A23|I24|L24)-[A-Za-z][\w.]*|X\d+)")


# The checks: each returns a list of complaints


def id_problems(listed: tuple[Entry, ...]) -> list[str]:
    """Ids are well formed and differ even when case is ignored, as ``theorems`` ignores it."""
    names = [key for entry in listed for key in (entry.id, *entry.also)]
    counts = Counter(name.upper() for name in names)
    problems = [f"{key} occurs {n} times" for key, n in counts.items() if n > 1]
    problems += [f"{name!r} is not an id" for name in names if not ID.fullmatch(name)]
    problems += [
        f"{name} is no equation of the paper of {entry.id}"
        for entry in listed
        for name in entry.also
        if not name.startswith(f"{entry.id.split('-')[0]}-eq")
    ]
    return problems


def missing(listed: tuple[Entry, ...]) -> list[str]:
    """Numbered results without an entry, and equations that no entry answers for."""
    own = {entry.id for entry in listed}
    answered = own | {name for entry in listed for name in entry.also}
    problems = [
        f"{key}-{name}"
        for key, names in NUMBERED.items()
        for name in names.split()
        if f"{key}-{name}" not in own
    ]
    problems += [
        f"{key}-eq{number}"
        for key, last in EQUATIONS.items()
        for number in range(1, last + 1)
        if f"{key}-eq{number}" not in answered
    ]
    beyond = sorted(int(name[1:]) for name in own if re.fullmatch(r"X\d+", name))
    expected = range(1, max([BEYOND, *beyond]) + 1)
    return problems + [f"X{number}" for number in expected if number not in {*beyond, *PENDING}]


def text_problems(entry: Entry) -> list[str]:
    problems = [f"{entry.id}: no {f}" for f in ("title", "statement") if not getattr(entry, f)]
    if entry.statement and not entry.statement.rstrip().endswith((".", ")")):
        problems.append(f"{entry.id}: the statement does not end")
    return problems


def resolves(path: str) -> bool:
    """Whether a dotted path leads through importable modules and attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(value, name):
                return False
            value = getattr(value, name)
        return True
    return False


def code_problems(entry: Entry) -> list[str]:
    return [
        f"{entry.id}: {path} does not exist"
        for path in entry.code
        if not path.startswith("memberbound.") or not resolves(path)
    ]


@cache
def functions_in(path: Path) -> frozenset[str]:
    # Not parsed: there are a hundred files, and all that counts is the name.
    return frozenset(re.findall(r"^ *def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_path_problems(entry: Entry) -> list[str]:
    problems = []
    for path in entry.tests:
        file, _, function = path.partition("::")
        place = ROOT / file
        if not file.startswith("tests/") or not place.is_file():
            problems.append(f"{entry.id}: {file} does not exist")
        elif not any(name.startswith("test_") for name in functions_in(place)):
            problems.append(f"{entry.id}: {file} holds no test")
        elif function and function not in functions_in(place):
            problems.append(f"{entry.id}: {file} has no {function}")
    return problems


test_path_problems.__test__ = False  # type: ignore[attr-defined]  # a check, not a test


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def use_problems(entry: Entry) -> list[str]:
    """Some test that an entry names uses some code that it names; reproductions go by their id."""
    names = []
    for path in entry.code:
        *_, parent, name = path.split(".")
        # A method is called on something; a figure is drawn by the module that holds it.
        names.append(rf"\.{name}\b" if parent[0].isupper() else rf"\b(?:{name}|{entry.id})\b")
        if path.startswith(tuple(f"memberbound.papers.{module}" for module in FIGURES)):
            names.append(rf"\b{parent}\b")
    texts = [text_of(ROOT / path.partition("::")[0]) for path in entry.tests]
    texts = [text for text in texts if "memberbound" in text]
    if names and entry.tests and not any(re.search(n, text) for n in names for text in texts):
        return [f"{entry.id}: no test named uses any code named"]
    return []


def status_problems(entry: Entry) -> list[str]:
    problems = []
    if entry.status == "implemented":
        problems += [f"{entry.id}: no {f}" for f in ("code", "tests") if not getattr(entry, f)]
    if entry.status not in get_args(Status):
        problems.append(f"{entry.id}: {entry.status!r} is no status")
    idle = entry.status in ("not computable", "proved, not used")
    if idle and not entry.reason:
        problems.append(f"{entry.id}: no reason")
    if idle and entry.code:
        problems.append(f"{entry.id}: {entry.status}, yet code is named")
    # What a paper states it proves itself; what we state has a proof here.
    own = entry.id.startswith("X") and entry.status == "proved, not used"
    if own and "proofs/" not in entry.statement:
        problems.append(f"{entry.id}: no proof")
    if (entry.status == "erratum") != (entry.erratum is not None):
        problems.append(f"{entry.id}: status {entry.status!r} and the erratum disagree")
    if entry.status == "erratum" and not entry.tests:
        problems.append(f"{entry.id}: no test of what holds")
    return problems


def reference_problems(entry: Entry, known: set[str]) -> list[str]:
    """Ids named in a statement or a reason are ids of results."""
    named = ID.findall(f"{entry.statement} {entry.reason or ''}")
    return [f"{entry.id}: {key} is unknown" for key in named if key.rstrip(".") not in known]


# The list as it is

ENTRIES = entries()


def test_ids_are_well_formed_and_nothing_is_missing():
    assert not id_problems(ENTRIES)
    assert not missing(ENTRIES)
    assert {*NUMBERED, "X"} == set(PAPERS)


def test_what_is_not_computable_stays_little():
    """A status that is easy to reach for: each new case has to be looked at here."""
    assert {e.id for e in ENTRIES if e.status == "not computable"} == {
        "A25-T13", "A25-E3", "A25-E4", "A24-E4.4", "A24-E5.2", "A24-E5.3", "A23-E4.2", "A23-E4.3",
        "I24-Tab1",
    }  # fmt: skip


def test_equations_lead_to_their_result():
    assert [e.id for e in theorems("a25-EQ17").results] == ["A25-T14"]
    assert [e.id for e in theorems("A25-eq47").results] == ["A25-eq47"]
    for entry in ENTRIES:
        for name in entry.also:
            assert theorems(name).results == (entry,)


@pytest.mark.parametrize("key", PAPERS)
def test_every_entry(key):
    expected = {name for entry in ENTRIES for name in (entry.id, *entry.also)}
    problems = []
    for entry in theorems(key).results:
        problems += text_problems(entry) + code_problems(entry) + test_path_problems(entry)
        problems += use_problems(entry)
        problems += status_problems(entry) + reference_problems(entry, expected)
    assert not problems, "\n".join(problems)


def test_results_beyond_the_papers_name_their_proof():
    for entry in theorems("X").results:
        named = re.findall(r"proofs/[\w-]+\.md", entry.statement)
        assert named, f"{entry.id} names no proof"
        for path in named:
            assert (ROOT / path).is_file(), f"{entry.id}: {path}"


def test_every_theorem_test_belongs_to_an_entry():
    """A file in tests/theorems that no entry names would be forgotten."""
    named = {path.partition("::")[0] for entry in ENTRIES for path in entry.tests}
    files = {f"tests/theorems/{path.name}" for path in (ROOT / "tests/theorems").glob("test_*.py")}
    assert files <= named, sorted(files - named)


def test_an_entry_names_its_own_test_file():
    for entry in ENTRIES:
        own = f"tests/theorems/test_{re.sub('[-.]', '_', entry.id)}.py"
        if (ROOT / own).is_file():
            assert own in {path.partition("::")[0] for path in entry.tests}, entry.id


# Broken variants

GOOD = Entry(
    id="A25-T6",
    title="a title",
    statement="A statement.",
    status="implemented",
    code=("memberbound.curve.TradeoffCurve.security",),
    tests=("tests/theorems/test_A25_T14.py::test_limits", "tests/theorems/test_A25_D2.py"),
)

ERRATUM = Erratum("printed", "holds", "theorem_8")


def changed(**fields: object) -> Entry:
    return dataclasses.replace(GOOD, **fields)


@pytest.mark.parametrize(
    "listed",
    [
        (GOOD, GOOD),
        (GOOD, changed(id="a25-t6")),
        (changed(id="A25 T6"),),
        (changed(id="B25-T6"),),
        (changed(id=""),),
    ],
)
def test_bad_ids_are_caught(listed):
    assert id_problems(listed)


def test_a_lost_entry_is_caught():
    for lost in ENTRIES:
        numbered = lost.also or lost.id.startswith("X") or lost.id.split("-")[1].startswith("eq")
        if numbered or lost.id.split("-")[1] in NUMBERED[lost.id.split("-")[0]].split():
            assert missing(tuple(e for e in ENTRIES if e is not lost)), lost.id


@pytest.mark.parametrize("also", [("A24-eq1",), ("A25-T14",), ("A25-eq 1",), ("A25-T6",)])
def test_a_wrong_equation_is_caught(also):
    assert id_problems((changed(also=also),))
    assert id_problems((GOOD, changed(id="A25-P5", also=("A25-T6",))))


@pytest.mark.parametrize(
    "path",
    [
        "memberbound.curve.TradeoffCurve.secrecy",
        "memberbound.curved.TradeoffCurve",
        "memberbound.nothing",
        "json.dumps",  # exists, but is not ours
    ],
)
def test_code_that_does_not_exist_is_caught(path):
    assert code_problems(changed(code=(GOOD.code[0], path)))


@pytest.mark.parametrize(
    "path",
    [
        "tests/theorems/test_A99_T1.py",
        "tests/theorems/test_A25_T14.py::test_missing",
        "tests/theorems",
        "tests/oracle/finite.py",  # exists, but holds no test
        "src/memberbound/games.py",
    ],
)
def test_a_test_that_does_not_exist_is_caught(path):
    assert test_path_problems(changed(tests=(path,)))


def test_a_test_that_does_not_use_the_code_is_caught():
    assert use_problems(changed(tests=GOOD.tests[:1]))  # an oracle alone
    assert use_problems(changed(code=("memberbound.iid.worst_case.slow_law",)))


@pytest.mark.parametrize(
    "entry",
    [
        changed(code=()),
        changed(tests=()),
        changed(status="planned", code=(), reason="a later stage"),
        changed(status="not computable", reason="no number"),  # with code
        changed(status="not computable", reason=""),
        changed(status="proved, not used", reason="a better one"),  # with code
        changed(status="proved, not used", code=(), tests=(), statement="See proofs/none.md."),
        changed(id="X3", status="proved, not used", code=(), reason="a better one"),  # no proof
        changed(status="erratum"),  # without one
        changed(erratum=ERRATUM),  # with one
        changed(status="erratum", erratum=ERRATUM, tests=()),
    ],
)
def test_a_status_that_contradicts_the_entry_is_caught(entry):
    assert status_problems(entry)


def test_texts_and_references_that_are_missing_are_caught():
    assert text_problems(changed(statement=""))
    assert text_problems(changed(title=""))
    assert text_problems(changed(statement="cut off in the"))
    assert reference_problems(changed(statement="As in A25-T99."), {"A25-T6"})
    assert reference_problems(changed(reason="waits for X99"), {"A25-T6"})


# The command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return command("theorems", *arguments, env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_command_lists_everything_as_json():
    done = run("--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["command"] == "theorems"
    assert [row["id"] for row in answer["results"]] == [entry.id for entry in ENTRIES]
    for row in answer["results"]:
        assert set(row) == {
            "id", "also", "title", "statement", "status", "reason", "code", "tests", "erratum"
        }  # fmt: skip
        assert (row["erratum"] is not None) == (row["status"] == "erratum")
        # A list computes nothing.
        assert row["erratum"] is None or "counterexample" not in row["erratum"]


def test_command_computes_the_counterexample_of_one_erratum():
    done = run("a24-EQ15")
    assert done.returncode == 0, done.stderr
    shown = errata()["A24-eq15"].demonstrate()
    assert shown.setting in done.stdout
    assert f"true_value: {float(shown.true_value)}" in done.stdout
    assert "violated: True" in done.stdout
    answer = json.loads(run("A24-eq15", "--json").stdout)["results"]
    assert answer[0]["erratum"]["counterexample"] == shown.to_dict()


@pytest.mark.parametrize("wrong", ["A25-T99", "B25", "T14", ""])
def test_an_unknown_id_is_bad_input(wrong):
    done = run(wrong)
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.count("\n") == 1
    assert repr(wrong) in done.stderr
    with pytest.raises(InputError):
        theorems(wrong)
