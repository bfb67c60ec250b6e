"""Whatever fails, and whenever: whole outputs or none, nothing left behind, one sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults import operations
from faults.operations import DEEP, EDGES, FAULTS, NONE, SCENARIOS, Ran, _timeless, people, problems
from memberbound.faces.command_line import VERBS

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc are needed")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The library that lets file operations fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here; on Debian: apt-get install gcc")
    path = tmp_path_factory.mktemp("faults") / "operations.so"
    call = [compiler, "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "operations.c")]
    subprocess.run([*call, "-ldl"], check=True)
    return path


def found(library, *asked):
    """Return what was tried and what was wrong, for each (scenario, depth, *faults)."""
    ran = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "faults.operations"),
            *(",".join(map(str, words)) for words in asked),
        ],
        cwd=HERE.parent,
        env=os.environ | {"LD_PRELOAD": str(library), "FAULTS": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(asked)
    return lines


def wrong(said):
    return [text for kind in said["results"].values() for text in kind["wrong"]] + said["after"]


def held(said, *faults):
    """Nothing is wrong, and every operation and every call was tried; print how many."""
    tried = {fault: kind["tried"] for fault, kind in said["results"].items()}
    told = {key: said[key] for key in ("operations", "calls", "stacks", "remainders", "seconds")}
    print(said["scenario"], told, tried)
    # Threads of which nobody knows would do what is not tried.
    assert said["elsewhere"] == 0
    assert not wrong(said), "\n".join(wrong(said)[:5])
    assert set(tried) == set(faults)
    return tried


#: Every file operation of a command that writes, with every fault; the functions of another; and
#: a writer that is broken on purpose.
QUICK = {
    "operations": ("export", NONE, *FAULTS[:-1]),
    "calls": ("theorems", 1, "memory", "SIGTERM", "SIGINT"),
    "broken": ("export+in_place", NONE, "full", "killed", "SIGTERM"),
}


@pytest.fixture(scope="module")
def quick(library):
    """All of them in one process, which imports once what they need."""
    return dict(zip(QUICK, found(library, *QUICK.values()), strict=True))


def test_every_file_operation_of_a_small_command(quick):
    tried = held(quick["operations"], *FAULTS[:-1])
    assert tried.pop("short") == tried["killed"] - tried["SIGTERM"] > 0  # the writes
    assert min(tried.values()) >= 5
    assert quick["operations"]["remainders"] >= 3


def test_every_function_of_a_small_command(quick):
    tried = held(quick["calls"], "memory", "SIGTERM", "SIGINT")
    assert tried["SIGTERM"] == tried["SIGINT"] == quick["calls"]["stacks"] > 30


def test_a_writer_that_does_not_write_beside_is_caught(quick):
    """Negative control: half a file under its own name."""
    for fault, kind in quick["broken"]["results"].items():
        assert any("neither the old nor the new" in text for text in kind["wrong"]), fault


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_file_operation(library, scenario):
    """Each fails in every way, or is the last before a signal."""
    (said,) = found(library, (scenario, NONE, *FAULTS[:-1]))
    tried = held(said, *FAULTS[:-1])
    assert said["operations"] == tried["SIGTERM"] == tried["SIGINT"]
    # What is done by half: writes.
    assert tried["killed"] - said["operations"] == tried["short"]


@pytest.mark.long
@pytest.mark.parametrize("fault", ["memory", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_call(library, scenario, fault):
    """First and last call from every stack; of a study from every line."""
    (said,) = found(library, (scenario, EDGES if scenario == "study" else DEEP, fault))
    tried = held(said, fault)
    assert tried[fault] >= said["stacks"] > 0


@pytest.mark.long
@pytest.mark.parametrize("broken", ["forgotten", "unguarded"])
def test_what_is_broken_on_purpose_is_caught(library, broken):
    (said,) = found(library, (f"bounds+{broken}", NONE, "SIGTERM", "killed"))
    words = {"forgotten": ("in the temporary folder", "still there"), "unguarded": ("exit code",)}
    for word in words[broken]:
        assert any(word in text for text in wrong(said)), word


@pytest.mark.long
def test_a_release_whose_certificate_is_replaced_first_is_caught(library):
    """Negative control: between the two names the old file has no certificate."""
    (said,) = found(library, ("protect-half again+unpaired", NONE, "killed"))
    assert any("without its certificate" in text for text in wrong(said))


def test_a_run_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(operations, "_PATIENCE", 1)
    status, _ = operations._ended(os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ))
    assert os.waitstatus_to_exitcode(status) == -signal.SIGALRM


def test_every_verb_is_tried():
    assert {*(name.split()[0] for name in SCENARIOS), "serve"} == set(VERBS)


# ── workers that are killed ───────────────────────────────────────────────────────────────────────

WORKERS = {
    "audit-learner": "audit-learner people.csv --learner tree --shadows 8 --records out.csv "
    "--no-cache",
    "protect-half": "protect-half people.csv --learner naive-bayes --eta 0.4 --clip 9 "
    "--method neighbour --pairs 7 --insecure-seed 1 --out out.skops",
}


def _with_workers(verb, place, k):
    """Run a command whose worker is killed in the k-th fit; return its answer and the fits."""
    place.mkdir()
    people(place)
    (place / "fits").touch()
    (place / "sitecustomize.py").write_text(
        "from faults.dying_learner import everywhere\neverywhere()\n"
    )
    paths = [str(place), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    more = {"PYTHONPATH": os.pathsep.join(paths), "DYING": str(place / "fits")}
    more |= {"DYING_AT": str(k), "DYING_PARENT": str(os.getpid())}
    words = [*WORKERS[verb].split(), "--target", "y", "--workers", "2", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "memberbound", *words],
        cwd=place,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    written = (place / "out.csv").read_text() if verb == "audit-learner" else ""
    told = _timeless(json.loads(ran.stdout))
    return (told, written), (place / "fits").stat().st_size


@pytest.mark.long
@pytest.mark.parametrize("verb", WORKERS)
def test_a_worker_killed_in_any_fit_changes_no_answer(tmp_path, verb):
    good, fits = _with_workers(verb, tmp_path / "good", 0)
    assert fits >= 4
    # Every fit of an audit; of a calibration nine, spread evenly over the portions that workers are
    # given: this one has four, of 31 fits each.
    for k in range(1, fits + 1, max(1, fits // 8)):
        answer, done = _with_workers(verb, tmp_path / str(k), k)
        assert answer == good, k
        assert done >= k  # it was killed there
    print(verb, fits)


def test_what_is_left_is_looked_at():
    """Negative control: half a file, a draft, a row in the temporary folder, a traceback."""
    good = Ran(0, "", {"out/r.csv": b"a,b\n1,2\n", "out/fits/fit-000000.npz": b"x" * 9})
    said = "memberbound: r.csv could not be written: full.\n"
    assert problems(Ran(1, said), good, "full", {}, set()) == []
    bad = [
        Ran(1, said, {"out/r.csv": b"a,b\n"}),
        Ran(1, said, {"out/fits/fit-000000.npz": b"x"}),
        Ran(1, said, {"out/.memberbound-x": b""}),
        Ran(1, said, {"out/more.csv": b""}),
        Ran(1, said, {"out/r.csv": good.files["out/r.csv"]}, ["memberbound-x"]),
        Ran(1, "Traceback (most recent call last)\n" + said),
        Ran(1, ""),
        Ran(2, said),
        Ran(0, said, dict(good.files)),
    ]
    assert all(len(problems(ran, good, "full", {}, set())) == 1 for ran in bad)
    assert len(problems(Ran(1, said), good, "full", {}, {"out/r.csv"})) == 1
    alone = Ran(-9, "", {"out/m.skops": b"x"})
    assert any("certificate" in text for text in problems(alone, alone, "killed", {}, set()))
