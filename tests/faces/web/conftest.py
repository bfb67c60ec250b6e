"""A server in the test's own process, and a real one as a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from memberbound.faces.web.limits import Limits

T = TypeVar("T")

COMMAND = shutil.which("memberbound", path=sysconfig.get_path("scripts"))
SMALL = Limits(
    upload_bytes=300_000,
    body_bytes=200_000,
    queued=3,
    kept_jobs=20,
    kept_files=6,
    kept_views=2,
)


def open_client(limits: Limits = SMALL, policy: Any = None) -> Any:
    """A client of an application of its own; a context manager."""
    with warnings.catch_warnings():
        # It recommends a newer client library, which these tests do not need.
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    from memberbound.faces.web.application import application

    return TestClient(application(limits, policy), base_url="http://127.0.0.1:8000")


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of one application with small limits, for all tests of a worker."""
    with open_client() as found:
        yield found


@pytest.fixture
def restricted(client: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give the shared application other limits for a test; one of its own would load everything."""

    def restrict(**changes: float) -> None:
        state = client.app.state.server
        limits = replace(SMALL, **changes)
        monkeypatch.setattr(state, "limits", limits)
        for part in (state.jobs, state.uploads):
            monkeypatch.setattr(part, "_limits", limits)

    return restrict


@pytest.fixture(scope="session")
def people() -> bytes:
    """A small table: two coarse columns, a fine one, an identifier and a text."""
    rng = np.random.default_rng(5)
    rows = 2000
    sex, age = rng.integers(0, 2, rows), rng.integers(18, 80, rows)
    income = (age + 10 * sex + rng.normal(0, 8, rows) > 55).astype(int)
    lines = [
        f"{i},{'f' if s else 'm'},{a},{y}"
        for i, (s, a, y) in enumerate(zip(sex, age, income, strict=True))
    ]
    return ("id,sex,age,income\n" + "\n".join(lines) + "\n").encode()


def upload(client: Any, content: bytes, name: str = "people.csv") -> dict[str, Any]:
    """Upload a table that is expected to be accepted."""
    answer = client.post("/api/files", params={"name": name}, content=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wait_until_done(client: Any, job: str, seconds: float = 120) -> dict[str, Any]:
    """Wait for the end of a job."""
    end = time.monotonic() + seconds
    pause = 0.05
    while time.monotonic() < end:
        state = client.get(f"/api/jobs/{job}").json()
        if state["state"] not in ("queued", "running"):
            return state
        time.sleep(pause)
        pause = min(1.5 * pause, 0.4)  # a request costs the client as much as the server
    raise AssertionError(f"the job has not ended: {state}")


def run_verb(client: Any, verb: str, file: str | None, **options: Any) -> dict[str, Any]:
    """Run a job to its end."""
    answer = client.post("/api/jobs", json={"verb": verb, "file": file, "options": options})
    assert answer.status_code == 202, answer.text
    return wait_until_done(client, answer.json()["job"])


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread: a browser of another test keeps a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextlib.contextmanager
def serving(
    *arguments: str, folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start ``memberbound serve`` and yield the process and its address; it is stopped after."""
    assert COMMAND is not None, "memberbound is not installed beside this interpreter"
    environment = dict(os.environ) | ({} if folder is None else {"TMPDIR": str(folder)})
    process = subprocess.Popen(
        [COMMAND, "serve", "--no-open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield process, found.group().rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The address of a real server."""
    with serving() as (_, address):
        yield address
