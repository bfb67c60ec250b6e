"""Audits and calibrations on a dask cluster: the same numbers after any failure."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import command
from faults.learners import SlowTree
from memberbound import audit_learner, protect, protect_half
from memberbound.errors import InputError
from memberbound.learners.refits import Cluster
from optional import Later

distributed = Later("distributed")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
TESTS = Path(__file__).resolve().parents[1]
HOW_TO = TESTS.parent / "docs" / "howto" / "more-than-one-machine.md"


class Processes:
    """A scheduler and workers as processes of their own, as on several machines."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": paths}
        call = [sys.executable, "-m", *arguments]
        return subprocess.Popen(call, env=environment, **quiet)

    def start_scheduler(self) -> None:
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler",
            *("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"),
        )

    def start_worker(self, threads: int = 1) -> None:
        self.workers.append(
            self._start(
                "distributed.cli.dask_worker",
                *(self.address, "--nthreads", str(threads), "--no-nanny", "--no-dashboard"),
                *("--death-timeout", "120"),
            )
        )

    def wait(self, workers: int) -> None:
        with distributed.Client(self.address, timeout=120) as client:
            client.wait_for_workers(workers, timeout=120)

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def started(*threads):
    """A scheduler, and a worker with each of these numbers of threads."""
    made = Processes()
    made.start_scheduler()
    for number in threads:
        made.start_worker(number)
    try:
        made.wait(len(threads))
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster():
    with started(1, 1) as made:
        yield made


@pytest.fixture
def worker():
    """One worker that does two things at a time: a second process would import everything again."""
    with started(2) as made:
        yield made


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(18)
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    frame["y"] = (frame.a + rng.normal(size=120) > 0).astype(int)
    return frame


def timeless(answer) -> dict:
    return {k: v for k, v in answer.to_dict().items() if "seconds" not in k}


@contextlib.contextmanager
def during(*acts, after: float = 1.0):
    """Run an action concurrently with the block."""

    def run() -> None:
        for act in acts:
            time.sleep(after)
            act()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()


@pytest.mark.long
def test_a_worker_that_is_killed(cluster, people):
    asked = {"target": "y", "learner": SlowTree(max_depth=3), "shadows": 24, "seed": 3}
    alone = timeless(audit_learner(people, **asked, workers=1))
    with during(lambda: cluster.workers[0].send_signal(signal.SIGKILL)):
        assert timeless(audit_learner(people, **asked, scheduler=cluster.address)) == alone
    assert cluster.workers[0].poll() is not None, "it was killed while the models were trained"


@pytest.mark.cluster
def test_audit_and_protect_by_address(worker, people, tmp_path):
    table = tmp_path / "people.csv"
    people.to_csv(table, index=False)
    asked = {"target": "y", "learner": "tree", "shadows": 8, "seed": 3}
    alone = timeless(audit_learner(people, **asked, workers=1))
    assert timeless(audit_learner(people, **asked, scheduler=worker.address)) == alone
    calibration = {"target": "y", "eta": 0.3, "pairs": 30, "insecure_seed": 1}
    here = protect_half(people, **calibration, workers=1).to_dict()
    with distributed.Client(worker.address) as client:
        assert protect_half(people, **calibration, client=client).to_dict() == here
    # Every line of the page about clusters, with the address of this one.
    many = pd.concat([people] * 60, ignore_index=True).rename(columns={"y": "ill"})
    many.to_parquet(tmp_path / "stays.parquet")
    whole = HOW_TO.read_text(encoding="utf-8").replace("tcp://127.0.0.1:8786", worker.address)
    page = whole.split("## Train models")[1]
    lines = [line for line in whole.splitlines() if line.startswith("memberbound ")]
    lines = [line for line in lines if "--scheduler" in line]
    assert len(lines) == 3
    for line in lines:
        ran = command(*line.split()[1:], cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with contextlib.chdir(tmp_path):
        exec(compile(code, "more-than-one-machine.md", "exec"), {})


def audit(people, **cluster):
    asked = {"target": "y", "learner": SlowTree(max_depth=3), "shadows": 64, "seed": 3}
    return timeless(audit_learner(people, **asked, **(cluster or {"workers": 1})))


@pytest.fixture
def reconnections(monkeypatch):
    """The connections that were lost during a request."""
    counted, honest = [], Cluster.reconnect
    monkeypatch.setattr(Cluster, "reconnect", lambda self: (counted.append(1), honest(self))[1])
    return counted


def boost(people, **where):
    many = pd.concat([people] * 60, ignore_index=True)
    asked = {"target": "y", "learner": "boosting", "eta": 0.3, "insecure_seed": 1}
    return protect(many, **asked, **where).released.to_dict()


@pytest.mark.long
@pytest.mark.parametrize("asked", [audit, boost])
def test_a_scheduler_that_is_killed_and_started_again(cluster, people, asked, reconnections):
    alone = asked(people)

    def kill():
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        for worker in cluster.workers:
            worker.kill()
            worker.wait()

    def again():
        cluster.start_scheduler()
        cluster.workers = []
        cluster.start_worker()

    with during(kill, again, after=2.0):
        assert asked(people, scheduler=cluster.address) == alone
    assert len(cluster.workers) == 1
    assert reconnections


def test_an_address_without_a_scheduler(people, monkeypatch):
    monkeypatch.setattr("memberbound.learners.refits._FIRST", 0.5)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1"):
        with pytest.raises(InputError, match="scheduler must be the address"):
            audit_learner(people, target="y", shadows=8, scheduler=address)
    with pytest.raises(InputError, match="client must be a distributed"):
        audit_learner(people, target="y", shadows=8, client="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="either scheduler or client"):
        protect_half(people, target="y", scheduler="tcp://127.0.0.1:1", client=object())
