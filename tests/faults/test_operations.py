"""Any failure at any time leaves whole outputs or none, no leftovers, and one sentence."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from commands import python
from faults.operations import FAULTS, SCENARIOS, Ran, _timeless, problems
from memberbound.faces.command_line import VERBS
from verb_cases import write_tables

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks and limits of Linux")


def examine(*asked):
    """Return the injected faults and the defects, for each "scenario,fault,…"."""
    ran = python("-W", "ignore", "-m", "faults.operations", *asked, cwd=HERE.parent)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(asked)
    return lines


def held(said):
    """Nothing is wrong; return how often each fault was tried."""
    wrong = [text for texts in said["wrong"].values() for text in texts]
    assert not wrong, "\n".join(wrong[:5])
    return said["tried"]


def test_a_small_command_and_a_writer_that_does_not_write_beside():
    """The second is the negative control: half a file under its own name."""
    good, broken = examine("bounds,full,broken,killed", "export+in_place,full")
    assert min(held(good).values()) >= 5
    assert any("neither the old nor the new" in text for text in broken["wrong"]["full"])


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_command(scenario):
    (said,) = examine(",".join((scenario, *FAULTS)))
    print(said["scenario"], held(said))


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("bounds+forgotten,SIGTERM,killed", ("in the temporary folder", "still there")),
        ("bounds+unguarded,forbidden", ("exit code",)),
        # Between the two names the old file has no certificate.
        ("protect-half again+unpaired,killed", ("without its certificate",)),
    ],
)
def test_planted_defects_are_caught(asked, words):
    (said,) = examine(asked)
    found = [text for texts in said["wrong"].values() for text in texts]
    for word in words:
        assert any(word in text for text in found), word


def test_every_verb_is_tried():
    # protect-text needs PyTorch; tests/verbs/test_protect_text.py stops and continues it.
    # verify writes nothing; tests/verbs/test_verify.py gives it damaged files.
    elsewhere = {"serve", "protect-text", "verify"}
    assert {*(name.split()[0] for name in SCENARIOS)} | elsewhere == set(VERBS)


# ── workers that are killed ───────────────────────────────────────────────────────────────────────

WORKERS = {
    "audit-learner": "audit-learner numbers.csv --learner tree --shadows 8 --records out.csv "
    "--no-cache",
    "protect-half": "protect-half numbers.csv --learner ridge --eta 0.4 --method neighbour "
    "--pairs 7 --insecure-seed 1 --out out.skops",
}


def _with_workers(verb, folder, k):
    """Run a command, kill its worker in the k-th fit; return its answer and the fits."""
    folder.mkdir()
    write_tables(folder)
    (folder / "fits").touch()
    (folder / "sitecustomize.py").write_text(
        "from faults.learners import everywhere\neverywhere()\n"
    )
    paths = [str(folder), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    more = {"PYTHONPATH": os.pathsep.join(paths), "DYING": str(folder / "fits")}
    more |= {"DYING_AT": str(k), "DYING_PARENT": str(os.getpid())}
    words = [*WORKERS[verb].split(), "--target", "y", "--workers", "2", "--json"]
    ran = python("-m", "memberbound", *words, cwd=folder, env=more)
    written = (folder / "out.csv").read_text() if verb == "audit-learner" else ""
    told = _timeless(json.loads(ran.stdout))
    return (told, written), (folder / "fits").stat().st_size


@pytest.mark.long
@pytest.mark.parametrize("verb", WORKERS)
def test_a_worker_killed_in_any_fit_changes_no_answer(tmp_path, verb):
    good, fits = _with_workers(verb, tmp_path / "good", 0)
    assert fits >= 4
    # Every fit of an audit; of a calibration nine, spread evenly.
    for k in range(1, fits + 1, max(1, fits // 8)):
        answer, done = _with_workers(verb, tmp_path / str(k), k)
        assert answer == good, k
        assert done >= k  # it was killed there
    print(verb, fits)


def test_leftover_files_are_checked():
    """Negative control: half a file, a draft, a row in the temporary folder, a traceback."""
    good = Ran(0, "", {"out/r.csv": b"a,b\n1,2\n", "out/fits/fit-000000.npz": b"x" * 9})
    said = "memberbound: r.csv could not be written: full.\n"
    assert problems(Ran(1, said), good, "full", {}) == []
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
    assert all(len(problems(ran, good, "full", {})) == 1 for ran in bad)
    assert len(problems(Ran(1, said), good, "full", {"out/r.csv": b"old"})) == 1
    alone = Ran(-9, "", {"out/m.skops": b"x"})
    assert any("certificate" in text for text in problems(alone, alone, "killed", {}))
