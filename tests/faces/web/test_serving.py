"""``memberbound serve`` as a command: its address, refusals, load and remains."""

import asyncio
import gzip
import math
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import httpx
import pytest

from commands import python
from web.conftest import COMMAND, in_a_loop, serving, upload, wait_until_done

#: Requests that do not come back within this time count as lost.
PATIENCE = 120


def expect_refusal(*arguments, env=None):
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
    assert "--token" in expect_refusal("--host", "0.0.0.0")


@pytest.mark.server
def test_a_port_that_is_taken_is_named(served):
    port = served.rsplit(":", 1)[1]
    assert f"127.0.0.1:{port}" in expect_refusal("--port", port)


def test_without_the_extra_the_error_names_it():
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['memberbound', 'serve'];"
        "from memberbound.faces.command_line import main; main()"
    )
    ran = python("-c", code, code=2)
    assert "memberbound[web]" in ran.stderr
    assert "fastapi" in ran.stderr


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


def end_server(process, pids, number):
    """Send a signal to the server and wait until it and all that it started are gone."""
    process.send_signal(number)
    assert process.wait(30) != 0
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
        assert time.monotonic() < end, "a process has survived its server"
        time.sleep(0.1)


@pytest.mark.server
def test_a_token_is_required_and_sigterm_leaves_no_files(tmp_path):
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
        end_server(process, before, signal.SIGTERM)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_token_from_the_environment_is_required_and_reaches_no_child(tmp_path, monkeypatch):
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
            file = upload(client, people)["file"]
            asked = {"target": "income", "learner": "random-forest", "shadows": 5000}
            body = {"verb": "audit-learner", "file": file, "options": asked}
            job = client.post("/api/jobs", json=body).json()["job"]
            end = time.monotonic() + PATIENCE
            while not client.get(f"/api/jobs/{job}").json()["progress"]:
                assert time.monotonic() < end
                time.sleep(0.1)
        before = children(process.pid)
        assert len(before) >= 3
        end_server(process, before, number)
        assert number == signal.SIGKILL or list(tmp_path.iterdir()) == []


@pytest.mark.server
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_abandoned_bombs_leave_the_server_free(tmp_path):
    """Gzip bombs (gigabytes unpacked) from clients that disconnect leave nothing behind.

    Their limit is raised here, so that only the disconnect ends them in time.
    """
    member = gzip.compress(b"1,2\n" * 2**24)
    bomb = gzip.compress(b"a,b\n") + member * 400
    with serving("--max-upload", "64", folder=tmp_path) as (process, address):
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            assert client.post("/api/explain", json={"epsilon": 1.0}).status_code == 200
            idle = len(children(process.pid))
            url = urlsplit(address)
            head = (
                f"POST /api/files?name=b.csv.gz HTTP/1.1\r\nHost: {url.netloc}\r\n"
                f"Content-Length: {len(bomb)}\r\n\r\n"
            )
            senders = [socket.create_connection((url.hostname, url.port)) for _ in range(3)]
            for sender in senders:
                sender.sendall(head.encode() + bomb)
            end = time.monotonic() + PATIENCE
            while len(children(process.pid)) < idle + 2:
                assert time.monotonic() < end, "no inspection has started"
                time.sleep(0.05)
            # Questions have slots of their own.
            assert client.post("/api/explain", json={"epsilon": 1.0}).status_code == 200
            for sender in senders:
                sender.close()
            assert upload(client, SMALL_TABLE)["rows"] == 300
            while len(children(process.pid)) > idle:
                assert time.monotonic() < end, "an inspection outlives its client"
                time.sleep(0.05)
        (folder,) = tmp_path.glob("memberbound-serve-*")
        assert len(list((folder / "files").iterdir())) == 1


@pytest.mark.server
def test_many_questions_at_once(served):
    """Every one of 40 parallel requests is answered, each with its own right number."""
    epsilons = [0.01 * (i + 1) for i in range(40)]

    async def crowd():
        async with httpx.AsyncClient(base_url=served, timeout=PATIENCE) as client:
            asked = [client.post("/api/explain", json={"epsilon": e}) for e in epsilons]
            return await asyncio.gather(*asked)

    for epsilon, answer in zip(epsilons, in_a_loop(crowd()), strict=True):
        # Closed form of pure DP: TPR - FPR = tanh(ε/2).
        expected = pytest.approx(math.tanh(epsilon / 2), rel=1e-9)
        assert answer.json()["advantage_upper"] == expected


# ---- load ---------------------------------------------------------------------------------

SMALL_TABLE = b"sex,age\n" + b"".join(b"%c,%d\n" % (b"fm"[i % 2], i % 7) for i in range(300))
PROC = Path("/proc/self/fd").is_dir()


def grows(values, slack):
    """Return whether the last third is above the first by more than the slack."""
    part = max(1, len(values) // 3)
    return median(values[-part:]) - median(values[:part]) > slack


def questions(address):
    """One user's requests: numbers, a certified table, a bad request, the page."""
    with httpx.Client(base_url=address, timeout=120) as client:
        for epsilon in (0.5, 2.0):
            asked = {"epsilon": epsilon, "delta": 1e-5}
            assert client.post("/api/explain", json=asked).status_code == 200
        assert client.post("/api/explain", json={"epsilon": -1}).status_code == 422
        file = upload(client, SMALL_TABLE)["file"]
        answer = client.post("/api/jobs", json={"verb": "certify", "file": file, "options": {}})
        if answer.status_code == 202:  # else too many requests wait, a valid answer as well
            job = answer.json()["job"]
            assert wait_until_done(client, job)["state"] == "done"
            assert client.delete(f"/api/jobs/{job}").status_code == 200
        else:
            assert answer.status_code == 429
        assert client.delete(f"/api/files/{file}").status_code == 204
        assert client.get("/").status_code == 200


def measure(pid, folder):
    """Memory in MiB, open descriptors and files of a server."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    files = [p for p in folder.rglob("*") if p.is_file()]
    return int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())), len(files)


def soak(folder, *, rounds, seconds=0.0, people=2):
    """Serve this many rounds of questions, and more until time is up, without any growth."""
    with serving(folder=folder) as (process, address), ThreadPoolExecutor(people) as crowd:
        end, seen = time.monotonic() + seconds, []
        while len(seen) < rounds or time.monotonic() < end:
            list(crowd.map(questions, [address] * people))
            time.sleep(seconds / 60)  # a bounded load
            seen.append(measure(process.pid, folder))
        print(f"{len(seen)} rounds; MiB, descriptors, files: {seen[1]} … {seen[-1]}")
        for name, values, slack in zip(
            ("memory", "descriptors", "files"),
            zip(*seen[1:], strict=True),  # the first round loads shared modules
            (24.0, 4.0, 2.0),
            strict=True,
        ):
            assert not grows(list(values), slack), f"{name}: {values[:5]} … {values[-5:]}"


@pytest.mark.server
@pytest.mark.skipif(not PROC, reason="needs /proc to look at a process")
def test_resources_stay_constant_over_a_few_rounds(tmp_path):
    soak(tmp_path, rounds=3, people=1)


@pytest.mark.long
@pytest.mark.skipif(not PROC, reason="needs /proc to look at a process")
def test_resources_stay_constant_for_a_quarter_of_an_hour(tmp_path):
    soak(tmp_path, rounds=20, seconds=900.0, people=3)
