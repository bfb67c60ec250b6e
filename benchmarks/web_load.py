"""Load test of the web server: 200 parallel requests, alone and during a large certificate.

A real server is started on this machine.  Three measurements: sequential requests (the time of
one); 200 in parallel; and sequential requests again while a job certifies a generated Parquet file.
Every answer is compared with the closed form of pure DP, TPR - FPR = tanh(ε/2).  The claims are
about ratios within this run and are printed as PASS or FAIL; the exit code does not depend on them,
but a wrong answer ends the run.

    python benchmarks/web_load.py [--rows 20000000] [--requests 200] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx

#: Requests that do not come back in this time are lost, and the run ends.
PATIENCE = 300
SINGLE = 30
#: 200 at once, each on a connection of its own, may take this many times 200 in a row on one.
CROWDED = 2.0
#: Beside a certificate a question shares the cores with the engine and waits for its turn.
BESIDE = 20.0
TABLE = "i % 7 AS a, (i * 7919) % 11 AS b, 'v' || ((i * 31) % 13) AS c, hash(i) % 5000 AS d"


def check(answer: httpx.Response, epsilon: float) -> None:
    """End the run where an answer is missing or wrong."""
    assert answer.status_code == 200, answer.text
    found = answer.json()["advantage_upper"]
    assert math.isclose(found, math.tanh(epsilon / 2), rel_tol=1e-9), (epsilon, found)


def one_by_one(
    client: httpx.Client, epsilons: Callable[[int], float], more: Callable[[int], bool]
) -> list[float]:
    """Return the seconds of sequential requests."""
    taken: list[float] = []
    while more(len(taken)):
        epsilon = epsilons(len(taken))
        start = time.perf_counter()
        answer = client.post("/api/explain", json={"epsilon": epsilon})
        taken.append(time.perf_counter() - start)
        check(answer, epsilon)
    return taken


async def all_at_once(address: str, count: int) -> tuple[float, list[float]]:
    """Return the seconds of all questions together, and of each on a connection of its own.

    Written on plain streams: a client library's pool of 200 connections would be what is measured.
    """
    host, port = address.removeprefix("http://").split(":")

    async def ask(epsilon: float) -> float:
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"epsilon": epsilon})
        lines = (
            "POST /api/explain HTTP/1.1",
            f"Host: {host}:{port}",
            "Content-Type: application/json",
            "Connection: close",
            f"Content-Length: {len(body)}",
            "",
            body,
        )
        writer.write("\r\n".join(lines).encode())
        head, _, answer = (await asyncio.wait_for(reader.read(), PATIENCE)).partition(b"\r\n\r\n")
        writer.close()
        check(httpx.Response(int(head.split()[1]), content=answer), epsilon)
        return time.perf_counter() - start

    start = time.perf_counter()
    each = await asyncio.gather(*(ask(0.003 * (i + 1)) for i in range(count)))
    return time.perf_counter() - start, list(each)


def beside_a_certificate(client: httpx.Client, path: Path, rows: int) -> dict[str, Any]:
    """Send questions while a job certifies the table."""
    start = time.perf_counter()
    uploaded = client.post(
        "/api/files", params={"name": path.name}, content=path.read_bytes(), timeout=PATIENCE
    )
    assert uploaded.status_code == 200, uploaded.text
    upload = time.perf_counter() - start
    body = {"verb": "certify", "file": uploaded.json()["file"], "options": {}}
    job = client.post("/api/jobs", json=body).json()["job"]

    def running(_: int) -> bool:
        return client.get(f"/api/jobs/{job}").json()["state"] in ("queued", "running")

    taken = one_by_one(client, lambda i: 1.0 + 1e-4 * i, running)
    state = client.get(f"/api/jobs/{job}").json()
    assert state["state"] == "done", state["error"]
    assert state["result"]["rows"] == rows
    return {"upload": upload, "seconds": state["seconds"], "taken": taken}


def measure(rows: int, requests: int) -> dict[str, Any]:
    """Start the server, measure, and stop it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "memberbound", "serve", "--no-open"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        address = found.group().rstrip("/")
        with (
            tempfile.TemporaryDirectory() as folder,
            httpx.Client(base_url=address, timeout=PATIENCE) as client,
        ):
            asyncio.run(all_at_once(address, 20))  # processes start
            single = one_by_one(client, lambda i: 0.5 + 1e-3 * i, lambda done: done < SINGLE)
            together, each = asyncio.run(all_at_once(address, requests))
            path = Path(folder) / "table.parquet"
            duckdb.sql(f"COPY (SELECT {TABLE} FROM range({rows}) t(i)) TO '{path}'")
            beside = beside_a_certificate(client, path, rows)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    alone = statistics.median(single)
    return {
        "rows": rows,
        "requests": requests,
        "cores": len(os.sched_getaffinity(0)),
        "one_seconds": alone,
        "together_seconds": together,
        "together_slowest_seconds": max(each),
        "together_over_alone": together / (requests * alone),
        "upload_seconds": beside["upload"],
        "certify_seconds": beside["seconds"],
        "beside_answered": len(beside["taken"]),
        "beside_median_seconds": statistics.median(beside["taken"]),
        "beside_slowest_seconds": max(beside["taken"]),
        "beside_over_alone": statistics.median(beside["taken"]) / alone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = measure(asked.rows, asked.requests)
    print(f"Python {platform.python_version()}, {found['cores']} cores\n")
    print(f"one question alone                     {1e3 * found['one_seconds']:10.1f} ms")
    print(
        f"{found['requests']} at once, all answered             "
        f"{found['together_seconds']:10.2f} s, slowest {found['together_slowest_seconds']:.2f} s"
    )
    print(
        f"certify {found['rows']:.0e} rows as a job        {found['certify_seconds']:10.1f} s "
        f"(upload and inspection {found['upload_seconds']:.1f} s)"
    )
    print(
        f"one question beside it                 {1e3 * found['beside_median_seconds']:10.1f} ms, "
        f"slowest {1e3 * found['beside_slowest_seconds']:.0f} ms, "
        f"{found['beside_answered']} answered\n"
    )
    for name, ratio, limit in (
        ("200 at once over 200 alone", found["together_over_alone"], CROWDED),
        ("beside a certificate over alone", found["beside_over_alone"], BESIDE),
    ):
        verdict = "PASS" if ratio <= limit else "FAIL"
        print(f"{verdict}  {name}: {ratio:.2f} (at most {limit:g})")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
