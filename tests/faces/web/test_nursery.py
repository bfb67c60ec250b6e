"""The process that forks children: one thread, coins of their own, and nobody is left behind."""

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

from memberbound.faces.web import nursery as module
from memberbound.faces.web.nursery import Forked, Nursery, killed
from web.conftest import in_a_loop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")
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
    return json.loads(ran.stdout.strip().splitlines()[-1])


DRAWN = """
import json, os, random, secrets, socket, sys, types
from memberbound.faces.web.nursery import _Parent, _QUIET, loaded, _as_many_threads_as_otherwise
os.environ["JE_ARROW_MALLOC_CONF"] = "narenas:1"
before = [os.environ.get(name) for name in _QUIET]
generators = loaded()
threads = len(os.listdir("/proc/self/task"))
import numpy as np
from memberbound.release.randomness import SecureSource
from sklearn.ensemble._hist_gradient_boosting.grower import TreeGrower

def drawn():
    made = next(x for x in TreeGrower.__init__.__defaults__ if hasattr(x, "bit_generator"))
    found = [SecureSource().words(2).tolist(), secrets.randbits(60), random.random(),
             np.random.random(), float(made.random()), float(np.random.default_rng().random())]
    os.write(1, json.dumps(found).encode())
    os._exit(0)

# A child as the nursery makes it, whose work is to draw; and one that is forked by hand.
sys.modules["memberbound.faces.web.drawing"] = types.SimpleNamespace(main=drawn)
control, other_end = socket.socketpair()
parent = _Parent(control, generators)

def forked(nursed):
    ours, theirs = socket.socketpair()
    if nursed:
        parent._fork(1, "drawing", [], theirs.detach())
    elif os.fork() == 0:
        os.dup2(theirs.fileno(), 1)
        drawn()
    os.wait()
    return json.loads(ours.recv(10000))

def computes():
    read, write = os.pipe()
    if os.fork() == 0:
        _as_many_threads_as_otherwise()
        from threadpoolctl import threadpool_info
        import pyarrow as pa, pyarrow.compute as pc, duckdb
        from sklearn.ensemble import HistGradientBoostingClassifier
        x = np.arange(250000.0).reshape(500, 500) % 7
        blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
        product = float((x @ x).sum()) == float((x.sum(0) * x.sum(1)).sum())
        y = x[:, 0] > 3
        fitted = HistGradientBoostingClassifier(max_iter=2).fit(x, y).score(x, y)
        summed = pc.sum(pa.chunked_array([pa.array(range(1000))] * 50)).as_py()
        select = "SELECT count(DISTINCT i % 1000) FROM range(1000000) t(i)"
        ((counted,),) = duckdb.sql(select).fetchall()
        os.write(write, json.dumps([blas, product, fitted, summed, counted]).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read, 10000))

found = {"threads": threads, "same": before == [os.environ.get(name) for name in _QUIET],
         "apart": [forked(True), forked(True)],
         "alike": [forked(False), forked(False)], "computes": computes(),
         "still": len(os.listdir("/proc/self/task"))}
print(json.dumps(found))
"""


def test_one_thread_is_forked_and_its_children_draw_apart_and_compute():
    found = last_line(DRAWN)
    assert found["threads"] == found["still"] == 1
    assert found["same"], "what was set for loading is not left to the children"
    for first, second in zip(*found["apart"], strict=True):
        assert first != second
    # The control: what a library drew a seed for while loading is shared without renewing it.
    shared = [first == second for first, second in zip(*found["alike"], strict=True)]
    assert shared == [False, False, False, True, True, False]
    blas, product, fitted, summed, counted = found["computes"]
    assert blas
    assert set(blas) == {len(os.sched_getaffinity(0))}
    assert (product, summed, counted) == (True, 50 * 499500, 1000)
    assert fitted > 0.9


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


async def asked(process, options):
    assert json.loads(await process.stdout.readline()) == {"ready": True}
    process.stdin.write(json.dumps({"verb": "explain", "options": options}).encode() + b"\n")
    return json.loads(await process.stdout.readline())["answer"]


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_the_life_of_children(monkeypatch):
    """Born, limited, alone with their own descriptors, killed, and mourned with a code."""
    monkeypatch.setenv("MEMBERBOUND_TOKEN", "t" * 20)

    async def live():
        nursery = Nursery()
        first, second = [await nursery.process("answering", MEMORY) for _ in range(2)]
        assert isinstance(first, Forked)
        parent = parent_of(first.pid)
        idle = descriptors(parent)
        assert (await asked(first, {"epsilon": 1.0}))["epsilon"] == 1.0
        assert (await asked(second, {"epsilon": 2.0}))["epsilon"] == 2.0
        for pid in (first.pid, second.pid):
            assert os.getpgid(pid) == os.getsid(pid) == pid
            limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
            (data,) = [line for line in limits if line.startswith("Max data size")]
            assert data.split()[3:5] == [str(MEMORY)] * 2
            assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
            assert b"MEMBERBOUND_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()
        kept = [set(descriptors(pid).values()) for pid in (first.pid, second.pid)]
        shared = {name for name in kept[0] & kept[1] if name.startswith(("socket", "pipe"))}
        outside = set(descriptors(os.getpid()).values())
        assert not {name for name in shared if name not in outside}, "only what all had before"
        (data,) = [
            line
            for line in Path(f"/proc/{parent}/limits").read_text().splitlines()
            if line.startswith("Max data size")
        ]
        assert data.split()[3] == "unlimited"
        os.kill(second.pid, signal.SIGSEGV)
        assert await second.wait() == second.returncode == -signal.SIGSEGV
        await killed(second)  # once more does no harm
        first.stdin.close()
        assert await first.wait() == 0
        # Given up while it is being born: it ends by itself.
        given_up = asyncio.create_task(nursery.process("answering", MEMORY))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        third = await nursery.process("work", MEMORY, MEMORY, 1)
        await killed(third)
        assert third.returncode == -signal.SIGKILL
        end = time.monotonic() + 20
        while Path(f"/proc/{parent}/task/{parent}/children").read_text():
            assert time.monotonic() < end, "children or zombies are left"
            await asyncio.sleep(0.02)
        assert descriptors(parent) == idle
        # A nursery that is killed takes its children along and is replaced.
        fourth = await nursery.process("work", MEMORY, MEMORY, 1)
        os.kill(parent, signal.SIGKILL)
        assert await fourth.wait() == -signal.SIGKILL
        assert gone(fourth.pid)
        fifth = await nursery.process("answering", MEMORY)
        assert isinstance(fifth, Forked)
        assert (await asked(fifth, {"epsilon": 3.0}))["epsilon"] == 3.0
        # One that hangs is given up with its children; the next has no time to load here either.
        hung = parent_of(fifth.pid)
        os.kill(hung, signal.SIGSTOP)
        monkeypatch.setattr(module, "_LOADING", 0.3)
        sixth = await nursery.process("answering", MEMORY)
        assert isinstance(sixth, asyncio.subprocess.Process)
        assert await fifth.wait() == -signal.SIGKILL
        assert gone(fifth.pid)
        assert gone(hung)
        assert (await asked(sixth, {"epsilon": 4.0}))["epsilon"] == 4.0
        await nursery.close()
        await killed(sixth)

    in_a_loop(live())


@pytest.mark.parametrize("why", ["system", "broken", "threads"])
def test_without_a_nursery_processes_are_fresh(why, monkeypatch, tmp_path):
    if why == "threads":  # a second one, from the start
        code = "import threading, time\n"
        code += "threading.Thread(target=time.sleep, args=(1e5,), daemon=True).start()\n"
        (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
        before = os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")
    if why == "broken":  # it ends before it can have a child
        spawned = module._spawned

        def broken(name, *arguments, **streams):
            return spawned("nothing" if name == "nursery" else name, *arguments, **streams)

        monkeypatch.setattr(module, "_spawned", broken)

    async def live():
        nursery = Nursery(forks=why != "system")
        for epsilon in (1.0, 2.0):
            process = await nursery.process("answering", MEMORY)
            assert isinstance(process, asyncio.subprocess.Process)
            assert (await asked(process, {"epsilon": epsilon}))["epsilon"] == epsilon
            await killed(process)
            assert process.returncode == -signal.SIGKILL
        await nursery.close()

    in_a_loop(live())


SERVER = """
import asyncio, os, signal
from memberbound.faces.web.nursery import Nursery

async def live():
    nursery = Nursery()
    worker = await nursery.process("work", 2**31, 2**31, 1)
    answerer = await nursery.process("answering", 2**31)
    print([worker.pid, answerer.pid], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(live())
"""


def test_a_killed_server_takes_nursery_and_children_along():
    ran = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == -signal.SIGKILL
    pids = json.loads(ran.stdout)
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
