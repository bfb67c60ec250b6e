"""The list of results is true: ids, code paths, tests and errata are all checked against the tree.

``problems`` returns its complaints, so that it can also be fed a bad entry.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from commands import command
from memberbound import theorems
from memberbound.answers import plain
from memberbound.errors import InputError
from memberbound.papers.reproduction import experiments
from memberbound.papers.results import (
    PAPERS,
    Entry,
    Erratum,
    Kind,
    entries,
    errata,
    errata_by_kind,
)

#: The modules that redo figures and tables.
FIGURES = {one.code.split(".")[0] for one in experiments().values()}
ROOT = Path(__file__).resolve().parents[2]
#: The numbered statements of the papers, read from their texts: definitions, theorems,
#: propositions, lemmas, corollaries, remarks, examples, figures, tables, algorithms.
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
#: Number of the last equation of each paper; results beyond the papers are numbered without a gap.
EQUATIONS = {"A25": 54, "A24": 36, "A23": 30, "I24": 15, "L24": 15}
BEYOND = 30
ID = re.compile(r"(?:(?:A25|A24|A23|I24|L24)-[A-Za-z][\w.]*|X\d+)")
ENTRIES = entries()
KNOWN = {name for entry in ENTRIES for name in (entry.id, *entry.also)}


def resolves(path: str) -> bool:
    """Return whether a dotted path leads through importable modules and attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            value = getattr(value, name, None)
        return value is not None
    return False


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_is_there(path: str) -> bool:
    file, _, function = path.partition("::")
    if not file.startswith("tests/") or not (ROOT / file).is_file():
        return False
    return (
        re.search(rf"^ *def {function or 'test_'}", text_of(ROOT / file), re.MULTILINE) is not None
    )


test_is_there.__test__ = False  # type: ignore[attr-defined]  # a check, not a test


def code_is_used(entry: Entry) -> bool:
    """Some test that an entry names uses some code that it names; figures go by their id."""
    names = []
    for path in (*entry.code, *([entry.call] if entry.call else [])):
        *_, parent, name = path.split(".")
        # A method is called on something; a figure is drawn by the module that holds it.
        names.append(rf"\.{name}\b" if parent[0].isupper() else rf"\b(?:{name}|{entry.id})\b")
        if path.startswith(tuple(f"memberbound.papers.{module}" for module in FIGURES)):
            names.append(rf"\b{parent}\b")
    texts = [text_of(ROOT / path.partition("::")[0]) for path in entry.tests if test_is_there(path)]
    texts = [text for text in texts if "memberbound" in text]
    return any(re.search(n, text) for n in names for text in texts)


def problems(entry: Entry) -> list[str]:
    """Return the defects of one entry."""
    idle = entry.status == "not computable"
    figure = entry.status.startswith("reproduced")
    # A paper proves its own statements; ours have a proof here.
    ours = entry.id.startswith("X")
    proofs = re.findall(r"proofs/[\w-]+\.md", entry.statement)
    named = ID.findall(f"{entry.statement} {entry.reason or ''}")
    complaints = {
        "no title": not entry.title,
        "the statement does not end": not entry.statement.rstrip().endswith((".", ")")),
        "code that does not exist": not all(
            path.startswith("memberbound.") and resolves(path) for path in entry.code
        ),
        "a test that does not exist": not all(map(test_is_there, entry.tests)),
        "no test named uses any code named": bool((entry.code or entry.call) and entry.tests)
        and entry.status != "definition"
        and not code_is_used(entry),
        "no tests": (entry.status == "implemented" or figure) and not entry.tests,
        "neither code nor a call": entry.status == "implemented" and not (entry.code or entry.call),
        "a call that does not exist": entry.call is not None and not resolves(entry.call),
        "no reason": (idle or entry.status == "reproduced in part") and not entry.reason,
        "code, yet nothing is computed": idle and bool(entry.code or entry.call),
        "a figure with another status": figure != (entry.id in experiments())
        and entry.erratum is None,
        "an erratum of no kind": entry.erratum is not None
        and entry.erratum.kind not in get_args(Kind),
        "status and erratum disagree": (entry.status == "erratum") != (entry.erratum is not None),
        "no test of what holds": entry.status == "erratum" and not entry.tests,
        "no proof": ours and not proofs,
        "a proof that does not exist": not all((ROOT / path).is_file() for path in proofs),
        "an id that does not exist": any(key.rstrip(".") not in KNOWN for key in named),
        "an equation of another paper": any(
            not name.startswith(f"{entry.id.split('-')[0]}-eq") for name in entry.also
        ),
    }
    return [f"{entry.id}: {text}" for text, wrong in complaints.items() if wrong]


def missing(listed: tuple[Entry, ...]) -> list[str]:
    """Numbered results without an entry, and equations that no entry answers for."""
    own = {entry.id for entry in listed}
    answered = own | {name for entry in listed for name in entry.also}
    wanted = [f"{key}-{name}" for key, names in NUMBERED.items() for name in names.split()]
    wanted += [f"X{number}" for number in range(1, BEYOND + 1)]
    equations = [f"{key}-eq{n}" for key, last in EQUATIONS.items() for n in range(1, last + 1)]
    return [w for w in wanted if w not in own] + [e for e in equations if e not in answered]


def test_ids_are_well_formed_and_nothing_is_missing():
    names = [name for entry in ENTRIES for name in (entry.id, *entry.also)]
    # ``theorems`` ignores case.
    assert max(Counter(name.upper() for name in names).values()) == 1
    assert all(ID.fullmatch(name) for name in names)
    assert not missing(ENTRIES)
    assert missing(ENTRIES[1:]) == [ENTRIES[0].id]
    assert {*NUMBERED, "X"} == set(PAPERS)


@pytest.mark.parametrize("key", PAPERS)
def test_every_entry(key):
    found = [problem for entry in theorems(key).results for problem in problems(entry)]
    assert not found, "\n".join(found)


def test_few_results_are_not_computable():
    """A status that is easy to reach for: each new case has to be looked at here."""
    assert {e.id for e in ENTRIES if e.status == "not computable"} == {"A24-E4.4", "I24-Tab1"}


def test_a_figure_is_reproduced_if_every_claim_about_it_holds():
    """One rule for all: the recorded run on docs/reproduction-summary.md decides."""
    page = (ROOT / "docs" / "reproduction-summary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| .* \| \d+ \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    held = {id: claims == hold for id, claims, hold in rows}
    assert set(held) == set(experiments())
    for entry in ENTRIES:
        if entry.id in held and entry.erratum is None:
            assert (entry.status == "reproduced") == held[entry.id], entry.id


def test_errata_are_counted_by_kind_and_restatements_once():
    kinds = errata_by_kind(ENTRIES)
    assert set(kinds) == set(get_args(Kind))
    assert sum(kinds.values()) == len(set(errata().values())) < len(errata())
    assert kinds["misprint"] < kinds["false as stated"]
    shown = theorems().summary().splitlines()[-1]
    assert shown.startswith(f"{sum(kinds.values())} different errata")
    for entry in ENTRIES:
        if entry.restates:
            assert entry.erratum == errata()[entry.restates]


def test_a_result_is_short_on_a_screen_and_a_row_of_a_table():
    assert repr(theorems()) == f"<Theorems: {len(ENTRIES)} results>"
    assert "A25-T14" in repr(theorems("A25-T14"))
    frame = theorems().to_frame()
    assert frame.shape == (len(ENTRIES), 6)
    assert frame.set_index("id").loc["I24-T8", "kind"] == "false as stated"
    assert frame["kind"].notna().sum() == len(errata())


def test_theorem_tests_and_entries_name_each_other():
    """A file in tests/theorems that no entry names would be forgotten."""
    named = {path.partition("::")[0] for entry in ENTRIES for path in entry.tests}
    files = {f"tests/theorems/{path.name}" for path in (ROOT / "tests/theorems").glob("test_*.py")}
    assert files <= named, sorted(files - named)
    for entry in ENTRIES:
        for kind in ("test", "test_paper"):
            own = f"tests/theorems/{kind}_{re.sub('[-.]', '_', entry.id)}.py"
            assert own not in files or own in {p.partition("::")[0] for p in entry.tests}, entry.id


def imports_the_package(source: str) -> bool:
    """Tell whether a module imports something of the package."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return any((node.module or "").partition(".")[0] == "memberbound" for node in nodes)


def test_a_theorem_test_calls_the_code_or_is_named_after_the_paper():
    """A file that checks only the paper against the oracle is called ``test_paper_<ID>.py``."""
    assert imports_the_package("from memberbound.games import IidGame")
    assert not imports_the_package("from oracle import iid")
    paper, code = set(), set()
    for path in (ROOT / "tests/theorems").glob("test_*.py"):
        (code if imports_the_package(path.read_text(encoding="utf-8")) else paper).add(path.name)
    assert {name for name in paper if not name.startswith("test_paper_")} == set()
    assert {name for name in code if name.startswith("test_paper_")} == set()
    # An implemented result is tested by a file that calls it.
    for entry in ENTRIES:
        own = {path.partition("::")[0].removeprefix("tests/theorems/") for path in entry.tests}
        assert entry.status != "implemented" or not own <= paper, entry.id


GOOD = Entry(
    id="A25-T6",
    title="a title",
    statement="A statement.",
    status="implemented",
    code=("memberbound.curve.TradeoffCurve.security",),
    tests=("tests/theorems/test_paper_A25_L22.py", "tests/theorems/test_A25_D2.py"),
)
ERRATUM = Erratum("false as stated", "printed", "holds", "theorem_8", "two records")


@pytest.mark.parametrize(
    "changed",
    [
        {"title": ""},
        {"statement": "cut off in the"},
        {"statement": "As in A25-T99."},
        {"reason": "waits for X99"},
        {"also": ("A24-eq1",)},
        {"code": ()},
        {"code": ("memberbound.curve.TradeoffCurve.secrecy",)},
        {"code": ("memberbound.curved.TradeoffCurve",)},
        {"code": ("json.dumps",)},  # exists, but is not ours
        {"tests": ()},
        {"tests": GOOD.tests[:1]},  # an oracle alone
        {"tests": ("tests/theorems/test_A99_T1.py",)},
        {"tests": ("tests/theorems/test_A25_D2.py::test_missing",)},
        {"tests": ("tests/oracle/finite.py",)},  # exists, but holds no test
        {"tests": ("src/memberbound/games.py",)},
        {"status": "not computable", "reason": "no number"},  # with code
        {"status": "not computable", "code": (), "reason": ""},
        {"call": "memberbound.papers.aubinais2025.leak_of_nothing"},
        {"status": "reproduced"},  # no figure
        {"status": "not computable", "code": (), "reason": "r", "call": "memberbound.harden"},
        {"id": "A25-F2", "code": ("memberbound.papers.iid_figures.figure_2",)},  # a figure
        {"status": "erratum"},  # without one
        {"erratum": ERRATUM},  # with one
        {"status": "erratum", "erratum": ERRATUM, "tests": ()},
    ],
    ids=str,
)
def test_a_bad_entry_is_caught(changed):
    assert not problems(GOOD)
    assert problems(dataclasses.replace(GOOD, **changed))


# ── The command ───────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str):
    return command("theorems", *arguments, env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_equations_lead_to_their_result():
    assert [e.id for e in theorems("a25-EQ17").results] == ["A25-T14"]
    for entry in ENTRIES:
        assert all(theorems(name).results == (entry,) for name in entry.also)


def test_command_lists_everything_as_json():
    done = run("--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["command"] == "theorems"
    assert [row["id"] for row in answer["results"]] == [entry.id for entry in ENTRIES]
    for row in answer["results"]:
        assert set(row) == {
            "id", "also", "title", "statement", "status", "call", "reason", "code", "tests",
            "restates", "erratum",
        }  # fmt: skip
        # A list computes nothing.
        assert row["erratum"] is None or "counterexample" not in row["erratum"]


def test_command_computes_the_counterexample_of_one_erratum():
    shown = errata()["A24-eq15"].demonstrate()
    done = run("a24-EQ15")
    assert shown.setting in done.stdout
    assert f"true_value: {float(shown.true_value)}" in done.stdout
    answer = json.loads(run("A24-eq15", "--json").stdout)["results"]
    assert answer[0]["erratum"]["counterexample"] == plain(shown)


def test_an_unknown_id_is_bad_input():
    done = run("A25-T99")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    for wrong in ("B25", "T14", ""):
        with pytest.raises(InputError, match=repr(wrong)):
            theorems(wrong)
