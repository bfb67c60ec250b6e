"""The verb ``serve``: the web calculator."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Annotated

from memberbound.declarations import Option, Several, Whole
from memberbound.errors import InputError, positive, whole_number

__all__ = ["serve"]

Gib = Annotated[float, Option("number", metavar="GIB")]


def serve(
    *,
    host: str = "127.0.0.1",
    port: Whole = 0,
    token: str | None = None,
    allow_host: Several = (),
    open_browser: Annotated[bool, Option("switch", flag="--open")] = True,
    max_rows: Whole = 50_000_000,
    max_upload: Gib = 2.0,
    max_unpacked: Gib = 8.0,
    job_memory: Gib = 4.0,
    job_minutes: float = 60.0,
    jobs: Whole = 2,
) -> None:
    """Open the web calculator: the same answers, with sliders and file upload.

    Nothing leaves this machine.

    Args:
        host: address to listen on; any but this machine's own needs a token.
        port: port to listen on; 0 chooses a free one.
        token: secret that every request must carry, at least 16 characters (default: the
            environment variable MEMBERBOUND_TOKEN).
        allow_host: another name under which the server may be reached; may be repeated.
        open_browser: open the page in a browser.
        max_rows: most rows of an uploaded table.
        max_upload: largest upload, in GiB.
        max_unpacked: largest table after unpacking, in GiB.
        job_memory: most memory for one job, in GiB.
        job_minutes: longest running time of one job, in minutes.
        jobs: how many jobs run at the same time.

    Command line:
        memberbound serve
        memberbound serve --port 8000 --no-open
        memberbound serve --host 0.0.0.0 --token "$(openssl rand -hex 16)"
    """
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"serve needs {' and '.join(missing)}: install the extra web, "
            "pip install 'memberbound[web]'."
        )
    from memberbound.faces.web.gate import GIB, Limits
    from memberbound.faces.web.server import Listening, has_display, listen

    limits = Limits(
        rows=whole_number("max_rows", max_rows),
        upload_bytes=int(positive("max_upload", max_upload) * GIB),
        unpacked_bytes=int(positive("max_unpacked", max_unpacked) * GIB),
        job_memory_bytes=int(positive("job_memory", job_memory) * GIB),
        job_seconds=60 * positive("job_minutes", job_minutes),
        running=whole_number("jobs", jobs),
    )
    # Taken out of the environment, which child processes inherit.
    inherited = os.environ.pop("MEMBERBOUND_TOKEN", None)
    secret = token or inherited
    listen(
        Listening(host, int(port), secret, tuple(allow_host)),
        limits,
        open_browser=open_browser and has_display(),
        tell=lambda address: print(f"memberbound serves {address} (Ctrl+C ends it)", flush=True),
    )
