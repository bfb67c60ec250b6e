"""``memberbound serve`` as a command: its address, its refusals, its load, and what it leaves."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import httpx
import pytest

from web.conftest import COMMAND, finished, in_a_loop, serving, uploaded

#: Requests that do not come back within this time count as lost.
PATIENCE = 120


def refused(*arguments, env=None):
    ran = subprocess.run(
        [COMMAND, "serve", "--no-open", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | (env or {}),
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    (line,) = ran.stderr.strip().splitlines()
    return line


def test_another_host_needs_a_token():
    assert "--token" in refused("--host", "0.0.0.0")


@pytest.mark.server
def test_a_port_that_is_taken_is_named(served):
    port = served.rsplit(":", 1)[1]
    assert f"127.0.0.1:{port}" in refused("--port", port)


def test_without_the_extra_it_says_which_to_install():
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['memberbound', 'serve'];"
        "from memberbound.faces.command_line import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 2
    assert "memberbound[web]" in ran.stderr
    assert "fastapi" in ran.stderr


def test_importing_the_package_needs_no_web():
    code = (
        "import sys; sys.modules['fastapi'] = sys.modules['uvicorn'] = None;"
        "import memberbound, memberbound.faces.command_line\n"
        "print(memberbound.explain(epsilon=1).eta_upper)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(ran.stdout) == pytest.approx(math.tanh(0.5) / 2)


def children(process):
    """Processes that the server has started, and those that these have."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == process and fields[0] != "Z":
                    found += [int(entry.name), *children(int(entry.name))]
        except OSError:
            continue
    return found


def ended(process, pids, number):
    """Send a signal to the server and wait until it and all that it started are gone."""
    process.send_signal(number)
    assert process.wait(30) != 0
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
        assert time.monotonic() < end, "a process has survived its server"
        time.sleep(0.1)


@pytest.mark.server
def test_a_token_is_asked_for_and_sigterm_leaves_nothing_behind(tmp_path):
    token = "t" * 20
    with serving("--token", token, folder=tmp_path) as (process, address):
        base, query = address.split("/?")
        assert query == f"token={token}"
        assert httpx.get(f"{base}/api/health").status_code == 401
        with httpx.Client(base_url=base, follow_redirects=True, timeout=PATIENCE) as client:
            assert client.get(f"/?{query}").status_code == 200
            assert client.get("/api/health").status_code == 200
            law = {"verb": "certify", "options": {"uniform": 3, "n": 9}}
            assert client.post("/api/jobs", json=law).status_code == 202
        (folder,) = tmp_path.glob("memberbound-serve-*")
        assert folder.stat().st_mode & 0o077 == 0
        assert len(list((folder / "jobs").iterdir())) == 1
        before = children(process.pid)
        assert before
        ended(process, before, signal.SIGTERM)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_token_of_the_environment_is_asked_for_and_reaches_no_child(tmp_path, monkeypatch):
    token = "e" * 20
    monkeypatch.setenv("MEMBERBOUND_TOKEN", token)
    with serving(folder=tmp_path) as (process, address):
        base = address.split("/?")[0]
        assert httpx.get(f"{base}/api/health").status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        asked = {"epsilon": 1.0}
        answer = httpx.post(f"{base}/api/explain", json=asked, headers=bearer, timeout=PATIENCE)
        assert answer.status_code == 200
        # The control: the server itself was given it.
        assert token.encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        started = children(process.pid)
        assert len(started) >= 2
        for pid in started:
            assert token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_work_under_way_ends_with_the_server(number, tmp_path, people):
    """Processes are gone even after SIGKILL, which leaves only files behind."""
    with serving(folder=tmp_path) as (process, address):
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            file = uploaded(client, people)["file"]
            asked = {"target": "income", "learner": "random-forest", "shadows": 5000}
            body = {"verb": "audit-learner", "file": file, "options": asked}
            job = client.post("/api/jobs", json=body).json()["job"]
            end = time.monotonic() + PATIENCE
            while not client.get(f"/api/jobs/{job}").json()["progress"]:
                assert time.monotonic() < end
                time.sleep(0.1)
        before = children(process.pid)
        assert len(before) >= 3
        ended(process, before, number)
        assert number == signal.SIGKILL or list(tmp_path.iterdir()) == []


@pytest.mark.server
def test_two_hundred_questions_at_once(served):
    """Every one of 200 parallel requests is answered, each with its own right number."""
    epsilons = [0.01 * (i + 1) for i in range(200)]

    async def crowd():
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=served, limits=limits, timeout=PATIENCE) as client:
            asked = [client.post("/api/explain", json={"epsilon": e}) for e in epsilons]
            return await asyncio.gather(*asked)

    answers = in_a_loop(crowd())
    assert [a.status_code for a in answers] == [200] * 200
    for epsilon, answer in zip(epsilons, answers, strict=True):
        found = answer.json()
        assert found["epsilon"] == epsilon
        # Closed form of pure DP: TPR - FPR = tanh(ε/2).
        assert found["advantage_upper"] == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)


@pytest.mark.server
@pytest.mark.parametrize(
    "rows", [1_000_000, pytest.param(20_000_000, marks=pytest.mark.long)], ids="{:.0e}".format
)
def test_the_server_answers_while_it_certifies_a_large_table(served, tmp_path, rows):
    path = tmp_path / "large.parquet"
    select = "i % 7 AS a, (i * 7919) % 11 AS b, 'v' || ((i * 31) % 13) AS c, hash(i) % 5000 AS d"
    duckdb.sql(f"COPY (SELECT {select} FROM range({rows}) t(i)) TO '{path}'")
    with httpx.Client(base_url=served, timeout=PATIENCE) as client:
        file = uploaded(client, path.read_bytes(), path.name)
        assert file["rows"] == rows
        body = {"verb": "certify", "file": file["file"], "options": {}}
        job = client.post("/api/jobs", json=body).json()["job"]
        answered = 0
        while client.get(f"/api/jobs/{job}").json()["state"] == "running":
            asked = {"epsilon": 1.0 + answered, "delta": 1e-6}
            assert client.post("/api/explain", json=asked, timeout=20).status_code == 200
            answered += 1
        assert answered >= 2
        state = finished(client, job)
        assert state["state"] == "done", state["error"]
        assert state["result"]["rows"] == rows
        # An oracle of its own: the number of different rows.
        ((atoms,),) = duckdb.sql(
            f"SELECT count(*) FROM (SELECT DISTINCT * FROM '{path}')"
        ).fetchall()
        assert state["result"]["atoms"] == atoms
        client.delete(f"/api/files/{file['file']}")
