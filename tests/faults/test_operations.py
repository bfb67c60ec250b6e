"""Whatever fails, and whenever: whole outputs or none, nothing left behind, one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faults.operations import CHECKPOINTS, FILES, SCENARIOS, Ran, problems

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
    """Return how many operations or checkpoints there are, how many were tried, what was wrong."""
    words = [",".join(map(str, (scenario, fault, *numbers))) for scenario, fault, numbers in asked]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "faults.operations", *words],
        cwd=HERE.parent,
        env=os.environ | {"LD_PRELOAD": str(library), "FAULTS": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [json.loads(line) for line in ran.stdout.splitlines()[-len(asked) :]]


EVERY = (1, 1, 10**6)
#: One or two faults of each kind, spread over the commands that write.
QUICK = [
    ("certify", "full", (2, 4, 2)),
    ("bounds", "short", (3, 4, 2)),
    ("predict", "broken", (2, 5, 2)),
    ("export", "forbidden", (1, 2, 2)),
    ("certify", "SIGTERM", (1500, 1500, 2)),
    ("bounds", "SIGKILL", (300, 400, 1)),
    ("certify", "memory", (1000, 1300, 2)),
]


@pytest.fixture(scope="module")
def quick(library):
    """All of them in one process, which imports once what they need."""
    return found(library, *QUICK)


@pytest.mark.parametrize("place", range(len(QUICK)), ids=["-".join(asked[:2]) for asked in QUICK])
def test_some_faults(quick, place):
    """From the first number on, so many steps on each time, at most so often."""
    said = quick[place]
    assert said["tried"] > 0
    assert not said["wrong"], "\n".join(said["wrong"][:5])


@pytest.mark.long
@pytest.mark.parametrize("fault", FILES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_file_operation(library, scenario, fault):
    (said,) = found(library, (scenario, fault, EVERY))
    assert said["tried"] == said["total"]
    assert not said["wrong"], "\n".join(said["wrong"][:5])


@pytest.mark.long
@pytest.mark.parametrize("fault", CHECKPOINTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_checkpoints_all_along(library, scenario, fault):
    """Two hundred checkpoints, evenly spread; a command has thousands."""
    (none,) = found(library, (scenario, fault, (1, 1, 0)))
    total = none["total"]
    (said,) = found(library, (scenario, fault, (1, max(1, total // 200), 10**6)))
    assert said["tried"] >= min(total, 200)
    assert not said["wrong"], "\n".join(said["wrong"][:5])


def test_what_is_left_is_looked_at():
    """Negative control: half a file, a draft, a row in the temporary folder, a traceback."""
    good = Ran(0, "", "", 9, 9, {"out/r.csv": b"a,b\n1,2\n", "fits/fit-000000.npz": b"x" * 9})
    fine = Ran(1, "", "memberbound: r.csv could not be written: full.\n", 9, 9)
    assert problems(fine, good, "full", {}) == []
    bad = [
        Ran(1, "", fine.err, 9, 9, {"out/r.csv": b"a,b\n"}),
        Ran(1, "", fine.err, 9, 9, {"fits/fit-000000.npz": b"x"}),
        Ran(1, "", fine.err, 9, 9, {"out/.memberbound-x": b""}),
        Ran(1, "", fine.err, 9, 9, {}, ["memberbound-x"]),
        Ran(1, "", "Traceback (most recent call last)\n" + fine.err, 9, 9),
        Ran(1, "", "", 9, 9),
        Ran(2, "", fine.err, 9, 9),
    ]
    assert all(len(problems(ran, good, "full", {})) == 1 for ran in bad)
