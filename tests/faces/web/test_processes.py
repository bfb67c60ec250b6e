"""Child processes: one thread is forked, generators are independent, no process is left behind."""

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from commands import python
from memberbound.errors import InputError
from memberbound.faces.web import child, processes
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.processes import EndedError, perform
from web import questions
from web.conftest import in_a_loop

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only"),
]
LIMITS = Limits(job_memory_bytes=2**31)


@pytest.fixture(autouse=True)
def further_questions(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    monkeypatch.setattr(child, "main", questions.main)


async def ask(verb, options=None, *, limits=LIMITS, seconds=60.0):
    return await perform({"verb": verb, "options": options or {}}, limits, seconds)


def gone(pid, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False


def test_one_thread_is_forked_and_its_children_draw_apart_and_compute():
    async def live():
        about = await ask("about")
        assert about["forked"]
        assert about["threads_of_parent"] == 1
        assert about["quiet"] is None, "settings for loading are not left to children"
        assert about["group"] == about["pid"]
        assert about["memory"] == 2**31
        assert about["niceness"] == os.getpriority(os.PRIO_PROCESS, 0) + 5
        first, second = [(await ask("draw"))["drawn"] for _ in range(2)]
        assert all(a != b for a, b in zip(first, second, strict=True))
        work = await ask("compute")
        assert work["threads"]
        assert (work["product"], work["sum"], work["counted"]) == (True, 50 * 499500, 1000)
        assert work["score"] > 0.9

    in_a_loop(live())


def test_a_child_that_dies_or_prints_too_much_is_replaced():
    async def live():
        with pytest.raises(EndedError, match="without an answer"):
            await ask("crash")
        with pytest.raises(EndedError, match="too large"):
            await ask("large", {"bytes": 10_000}, limits=replace(LIMITS, answer_bytes=1000))
        with pytest.raises(InputError, match="epsilon must be at least 0"):
            await ask("explain", {"epsilon": -1})
        # A fork server that is killed is replaced.
        parent = (await ask("about"))["parent"]
        os.kill(parent, signal.SIGKILL)
        assert gone(parent)
        assert (await ask("explain", {"epsilon": 3.0}))["epsilon"] == 3.0

    in_a_loop(live())


@pytest.mark.parametrize("how", ["timeout", "cancel", "cancel at once"])
def test_descendants_of_a_child_end_with_it(how, tmp_path):
    file = tmp_path / "pids"

    async def live():
        seconds = 3.0 if how == "timeout" else 60.0
        work = asyncio.create_task(ask("start_another", {"file": str(file)}, seconds=seconds))
        if how == "cancel at once":
            await asyncio.sleep(0)
        else:
            while not (file.exists() and file.read_text().endswith("\n")):
                assert not work.done()
                await asyncio.sleep(0.02)
        if how == "timeout":
            with pytest.raises(EndedError, match="stopped after 3 seconds"):
                await work
        else:
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        if how != "cancel at once":
            assert all(gone(int(pid)) for pid in file.read_text().split())
        assert not multiprocessing.active_children()

    in_a_loop(live())


def test_where_the_system_cannot_fork_processes_are_fresh(monkeypatch):
    spawning = multiprocessing.get_context("spawn")
    monkeypatch.setattr(processes, "_context", lambda: spawning)
    about = in_a_loop(ask("about"))
    assert not about["forked"]
    assert about["group"] == about["pid"]


SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from memberbound.faces.web import child
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.processes import perform
from web import questions

async def live(file):
    child.main = questions.main
    about = await perform({"verb": "about", "options": {}}, Limits(), 60)
    print(about["parent"], flush=True)
    asyncio.create_task(
        perform({"verb": "start_another", "options": {"file": file}}, Limits(), 60)
    )
    while not (Path(file).exists() and Path(file).read_text().endswith("\\n")):
        await asyncio.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(live(sys.argv[1]))
"""


def test_a_killed_server_takes_the_fork_server_and_children_along(tmp_path):
    tests = str(Path(__file__).parents[1])
    paths = {"PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
    ran = python("-c", SERVER, tmp_path / "pids", env=paths, code=-signal.SIGKILL)
    pids = [json.loads(ran.stdout), *map(int, (tmp_path / "pids").read_text().split())]
    assert len(set(pids)) == 3
    assert all(gone(pid) for pid in pids)
