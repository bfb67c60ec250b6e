"""Processes that are forked: one thread, generators of their own, and nobody is left behind."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memberbound.faces.web.processes import Processes
from web.conftest import in_a_loop

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only"),
]
MEMORY = 2**31


def last_line(code: str, **environment: str) -> object:
    """What a program prints last, as JSON, without limits on threads but those given."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ran.stderr == "", "the fork server ends in silence"
    return json.loads(ran.stdout.strip().splitlines()[-1])


FORKED = """
import asyncio, json, os
from memberbound.faces.web.processes import Processes
from web import drawing

async def live():
    processes = Processes()
    async def answer(computes):
        worker = await processes.start(computes, module="web.drawing")
        answer, quiet, parent = json.loads(await worker.reader.readline())
        threads = len(os.listdir(f"/proc/{parent}/task"))
        await worker.kill()
        return answer, quiet, threads
    return [await answer(0), await answer(0), await answer(1)]

print(json.dumps(asyncio.run(live())))
"""
BY_HAND = """
import json, os
from memberbound.faces.web import preload
from web.drawing import drawn

def forked():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(drawn()).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read, 10000))

print(json.dumps([forked(), forked()]), flush=True)
"""


def test_one_thread_is_forked_and_its_children_draw_apart_and_compute(monkeypatch):
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
    first, second, third = last_line(FORKED, JE_ARROW_MALLOC_CONF="narenas:1")
    for _, quiet, threads in (first, second, third):
        assert threads == 1
        assert quiet == [None, "narenas:1", None], "settings for loading are not left to children"
    assert all(a != b for a, b in zip(first[0], second[0], strict=True))
    blas, product, fitted, summed, counted = third[0]
    assert blas
    assert set(blas) == {len(os.sched_getaffinity(0))}
    assert (product, summed, counted) == (True, 50 * 499500, 1000)
    assert fitted > 0.9
    # The control: what a library drew a seed for while loading is shared without renewing it.
    alike = last_line(BY_HAND)
    shared = [a == b for a, b in zip(*alike, strict=True)]
    assert shared == [False, False, False, True, True, False]


def descriptors(pid):
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # the one of this look itself
            found[entry.name] = str(entry.readlink())
    return found


def gone(pid, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False


async def asked(worker, options):
    return await worker.ask({"verb": "explain", "options": options})


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def forked(worker):
    return "forkserver" in Path(f"/proc/{parent_of(worker.pid)}/cmdline").read_text()


def children(pid):
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def data_limit(pid):
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (data,) = [line for line in limits if line.startswith("Max data size")]
    return data.split()[3:5]


def test_the_life_of_children():
    """Started, limited, alone with their own descriptors, killed, and ended with a code."""

    async def live():
        processes = Processes()
        first, second = [await processes.start(MEMORY, 0, 1) for _ in range(2)]
        assert forked(first)
        parent = parent_of(first.pid)
        assert (await asked(first, {"epsilon": 1.0}))["epsilon"] == 1.0
        assert (await asked(second, {"epsilon": 2.0}))["epsilon"] == 2.0
        for pid in (first.pid, second.pid):
            assert os.getpgid(pid) == os.getsid(pid) == pid
            assert data_limit(pid) == [str(MEMORY)] * 2
            assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
        kept = [set(descriptors(pid).values()) for pid in (first.pid, second.pid)]
        shared = {name for name in kept[0] & kept[1] if name.startswith("socket")}
        outside = set(descriptors(os.getpid()).values())
        assert not {name for name in shared if name not in outside}, "only what all had before"
        assert data_limit(parent)[0] == "unlimited"
        os.kill(second.pid, signal.SIGSEGV)
        assert await second.wait() == second.returncode == -signal.SIGSEGV
        await second.kill()  # once more does no harm
        first.writer.close()
        assert await first.wait() == 0
        idle, before = descriptors(parent), children(parent)
        # Given up while it is being started: it ends by itself.
        given_up = asyncio.create_task(processes.start(MEMORY, 0, 1))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        third = await processes.start(MEMORY, MEMORY, 1)
        await third.kill()
        assert third.returncode == -signal.SIGKILL
        end = time.monotonic() + 20
        while children(parent) - before or len(descriptors(parent)) > len(idle):
            assert time.monotonic() < end, "children, zombies or descriptors are left"
            await asyncio.sleep(0.02)
        # A fork server that is killed takes its children along and is replaced.
        fourth = await processes.start(MEMORY, MEMORY, 1)
        os.kill(parent, signal.SIGKILL)
        await fourth.wait()
        assert gone(fourth.pid)
        # Its sockets close before it can be waited for; until then a child is spawned instead.
        assert gone(parent)
        fifth = await processes.start(MEMORY, 0, 1)
        assert forked(fifth)
        assert (await asked(fifth, {"epsilon": 3.0}))["epsilon"] == 3.0
        await fifth.kill()

    in_a_loop(live())


def test_what_a_child_has_started_ends_with_it(tmp_path, monkeypatch):
    """A job that is killed from outside leaves no process of its own behind."""
    code = "import subprocess, sys, os\n"
    code += "def main(stream):\n"
    code += "    other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1e5)'])\n"
    code += "    stream.sendall(f'{other.pid}\\n'.encode())\n"
    code += "    stream.recv(1)\n"
    (tmp_path / "starts_another.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    async def live():
        worker = await Processes().start(module="starts_another")
        other = int(await worker.reader.readline())
        assert os.getpgid(other) == worker.pid
        os.kill(worker.pid, signal.SIGKILL)
        assert await worker.wait() == -signal.SIGKILL
        assert gone(other)

    in_a_loop(live())


ALONE = """
import asyncio, json, sys
from memberbound.faces.web.processes import Processes
from web.test_processes import asked, forked

async def live():
    processes = Processes(forks=sys.argv[1] != "system")
    found = []
    for epsilon in (1.0, 2.0):
        worker = await processes.start(2**31, 0, 1)
        found.append([(await asked(worker, {"epsilon": epsilon}))["epsilon"], forked(worker)])
        await worker.kill()
        found[-1].append(worker.returncode)
    return found

if __name__ == "__main__":
    print(json.dumps(asyncio.run(live())))
"""


@pytest.mark.parametrize("why", ["system", "threads"])
def test_without_a_fork_server_processes_are_fresh(why, tmp_path):
    """Where the system has none, and where a library has started a thread."""
    if why == "threads":
        code = "import sys, threading, time\n"
        code += "if any('forkserver' in word for word in sys.orig_argv):\n"
        code += "    threading.Thread(target=time.sleep, args=(1e5,), daemon=True).start()\n"
        (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    (tmp_path / "alone.py").write_text(ALONE, encoding="utf-8")
    places = [str(tmp_path), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "alone.py"), why],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [[1.0, False, -9], [2.0, False, -9]]


SERVER = """
import asyncio, os, signal
from memberbound.faces.web.processes import Processes

async def live():
    processes = Processes()
    worker = await processes.start(2**31, 2**31, 1)
    answerer = await processes.start(2**31, 0, 1)
    parent = int(open(f"/proc/{worker.pid}/stat").read().rsplit(")", 1)[1].split()[1])
    print([worker.pid, answerer.pid, parent], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(live())
"""


def test_a_killed_server_takes_the_fork_server_and_children_along():
    ran = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == -signal.SIGKILL
    pids = json.loads(ran.stdout)
    assert len(set(pids)) == 3
    assert all(gone(pid) for pid in pids)
