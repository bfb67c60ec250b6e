"""The ledger says what is so: ids, code paths, tests and errata are all checked against the tree.

Each check is a function that returns its complaints, so that it can also be fed a bad entry.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from memberbound.errors import InputError
from memberbound.ledger import PAPERS, Entry, entries, theorems
from memberbound.ledger.errata import ERRATA, Counterexample, Erratum

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("memberbound")

#: Fewer entries than these mean that something was lost.
AT_LEAST = {"A25": 60, "A24": 32, "A23": 25, "I24": 19, "L24": 32, "X": 14}

ID = re.compile(r"(?:(?:A25|A24|A23|I24|L24)-[A-Za-z][\w.]*|X\d+)")


# The checks: each returns a list of complaints


def id_problems(found: tuple[Entry, ...]) -> list[str]:
    """Ids are well formed and differ even when case is ignored, as ``theorems`` ignores it."""
    counts = Counter(entry.id.upper() for entry in found)
    problems = [f"{key} occurs {n} times" for key, n in counts.items() if n > 1]
    problems += [f"{e.id!r} is not an id" for e in found if not ID.fullmatch(e.id)]
    return problems


def count_problems(found: tuple[Entry, ...]) -> list[str]:
    counts = Counter(entry.id.split("-")[0] if "-" in entry.id else "X" for entry in found)
    return [f"{k} has {counts[k]} entries" for k, least in AT_LEAST.items() if counts[k] < least]


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
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


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


def status_problems(entry: Entry, errata: dict[str, Erratum]) -> list[str]:
    problems = []
    if entry.status == "implemented":
        problems += [f"{entry.id}: no {f}" for f in ("code", "tests") if not getattr(entry, f)]
    if entry.status in ("planned", "not computable") and not entry.reason:
        problems.append(f"{entry.id}: no reason")
    if entry.status == "planned" and entry.code:
        problems.append(f"{entry.id}: planned, yet code is named")
    if (entry.status == "erratum") != (entry.id in errata):
        problems.append(f"{entry.id}: status {entry.status!r} and the errata disagree")
    if entry.status == "erratum" and not entry.tests:
        problems.append(f"{entry.id}: no test of what holds")
    return problems


def orphan_problems(found: tuple[Entry, ...], errata: dict[str, Erratum]) -> list[str]:
    known = {entry.id for entry in found}
    return [f"{key} is an erratum of nothing in the ledger" for key in errata if key not in known]


def demonstration_problems(erratum: Erratum) -> list[str]:
    shown = erratum.demonstrate()
    problems = [] if shown.violated is True else [f"{erratum.id}: the printed claim survives"]
    try:
        text = json.dumps(shown.to_dict(), allow_nan=False)
    except (TypeError, ValueError) as trouble:
        problems.append(f"{erratum.id}: {trouble}")
    else:
        if json.loads(text)["printed_value"] == json.loads(text)["true_value"]:
            problems.append(f"{erratum.id}: both values are the same")
    return problems


def reference_problems(entry: Entry, known: set[str]) -> list[str]:
    """Ids named in a statement or a reason are ids of the ledger."""
    named = ID.findall(f"{entry.statement} {entry.reason or ''}")
    return [f"{entry.id}: {key} is unknown" for key in named if key.rstrip(".") not in known]


# The ledger as it is

FOUND = entries()
ALL = dict(ERRATA)


def test_ids_and_counts():
    assert not id_problems(FOUND)
    assert not count_problems(FOUND)
    assert set(AT_LEAST) == set(PAPERS)


@pytest.mark.parametrize("key", PAPERS)
def test_every_entry(key):
    known = {entry.id for entry in FOUND}
    problems = []
    for entry in theorems(key).results:
        problems += text_problems(entry) + code_problems(entry) + test_path_problems(entry)
        problems += status_problems(entry, ALL) + reference_problems(entry, known)
    assert not problems, "\n".join(problems)


def test_every_erratum_belongs_to_an_entry():
    assert not orphan_problems(FOUND, ALL)


@pytest.mark.parametrize("key", sorted(ERRATA))
def test_every_demonstration_contradicts_the_print(key):
    assert not demonstration_problems(ERRATA[key])


def test_results_beyond_the_papers_name_their_proof():
    for entry in theorems("X").results:
        for path in re.findall(r"proofs/[\w-]+\.md", entry.statement):
            assert (ROOT / path).is_file(), f"{entry.id}: {path}"


# Broken variants

GOOD = Entry(
    id="A25-T6",
    title="a title",
    statement="A statement.",
    status="implemented",
    code=("memberbound.curve.TradeoffCurve.security",),
    tests=("tests/theorems/test_A25_T6.py::test_limits",),
)


def changed(**fields: object) -> Entry:
    return dataclasses.replace(GOOD, **fields)


def test_the_good_entry_passes_every_check():
    for check in (text_problems, code_problems, test_path_problems):
        assert not check(GOOD)
    assert not status_problems(GOOD, ALL)
    assert not reference_problems(GOOD, {"A25-T6"})
    assert not id_problems((GOOD,))


@pytest.mark.parametrize(
    "found",
    [
        (GOOD, GOOD),
        (GOOD, changed(id="a25-t6")),
        (changed(id="A25 T6"),),
        (changed(id="B25-T6"),),
        (changed(id=""),),
    ],
)
def test_bad_ids_are_caught(found):
    assert id_problems(found)


def test_a_lost_paper_is_caught():
    assert not count_problems(FOUND)
    for key in PAPERS:
        rest = tuple(e for e in FOUND if e not in theorems(key).results)
        assert count_problems(rest) == [f"{key} has 0 entries"]


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
        "tests/theorems/test_A25_T6.py::test_missing",
        "tests/theorems",
        "tests/oracle/finite.py",  # exists, but holds no test
        "src/memberbound/games.py",
    ],
)
def test_a_test_that_does_not_exist_is_caught(path):
    assert test_path_problems(changed(tests=(path,)))


@pytest.mark.parametrize(
    "entry",
    [
        changed(code=()),
        changed(tests=()),
        changed(status="planned", code=(), reason=None),
        changed(status="planned", reason="a later stage"),  # with code
        changed(status="not computable", reason=""),
        changed(status="erratum"),  # A25-T6 is none
        changed(id="I24-T8"),  # I24-T8 is one
        changed(id="I24-T8", status="erratum", tests=()),
    ],
)
def test_a_status_that_contradicts_the_entry_is_caught(entry):
    assert status_problems(entry, ALL)


def test_texts_and_references_that_are_missing_are_caught():
    assert text_problems(changed(statement=""))
    assert text_problems(changed(title=""))
    assert text_problems(changed(statement="cut off in the"))
    assert reference_problems(changed(statement="As in A25-T99."), {"A25-T6"})
    assert reference_problems(changed(reason="waits for X99"), {"A25-T6"})


def test_an_orphaned_erratum_is_caught():
    rest = tuple(entry for entry in FOUND if entry.id != "I24-T8")
    assert orphan_problems(rest, ALL) == ["I24-T8 is an erratum of nothing in the ledger"]


@pytest.mark.parametrize(
    "shown",
    [
        Counterexample("s", 1.0, 0.5, False, {}),
        Counterexample("s", 1.0, 1.0, True, {}),
        Counterexample("s", 1.0, 0.5, True, {"law": {1, 2}}),  # type: ignore[dict-item]
    ],
)
def test_a_demonstration_that_shows_nothing_is_caught(shown):
    assert demonstration_problems(Erratum("A25-T6", "p", "h", lambda: shown))


# The command as it is installed


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "theorems", *arguments],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_command_lists_everything_as_json():
    done = run("--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["command"] == "theorems"
    assert [row["id"] for row in told["results"]] == [entry.id for entry in FOUND]
    for row in told["results"]:
        assert set(row) == {
            "id", "title", "statement", "status", "reason", "code", "tests", "erratum"
        }  # fmt: skip
        assert (row["erratum"] is not None) == (row["status"] == "erratum")
        # A list computes nothing.
        assert row["erratum"] is None or "counterexample" not in row["erratum"]


def test_command_computes_the_counterexample_of_one_erratum():
    done = run("a24-EQ15")
    assert done.returncode == 0, done.stderr
    shown = ERRATA["A24-eq15"].demonstrate()
    assert shown.setting in done.stdout
    assert f"printed_value: {shown.printed_value}" in done.stdout
    assert f"true_value: {shown.true_value}" in done.stdout
    assert "violated: True" in done.stdout
    told = json.loads(run("A24-eq15", "--json").stdout)["results"]
    assert told[0]["erratum"]["counterexample"] == shown.to_dict()


def test_command_shows_code_and_tests_of_an_implemented_result():
    done = run("X2")
    assert done.returncode == 0, done.stderr
    entry = theorems("X2").results[0]
    assert "[implemented]" in done.stdout
    assert all(path in done.stdout for path in (*entry.code, *entry.tests))
    assert "Counterexample" not in done.stdout


@pytest.mark.parametrize("wrong", ["A25-T99", "B25", "T14", ""])
def test_an_unknown_id_is_bad_input(wrong):
    done = run(wrong)
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.count("\n") == 1
    assert repr(wrong) in done.stderr
    with pytest.raises(InputError):
        theorems(wrong)
