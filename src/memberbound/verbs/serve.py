"""The verb ``serve``: open the web calculator."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Annotated

from memberbound.declarations import Option, Several
from memberbound.errors import InputError
from memberbound.leaves import load_leaf

Gib = Annotated[float, Option("number", metavar="GIB")]


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allow_host: Several = (),
    open_browser: Annotated[bool, Option("switch", flag="--open")] = True,
    max_upload: Gib = 2.0,
    job_memory: Gib = 4.0,
    job_minutes: float = 60.0,
    jobs: int = 2,
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
        max_upload: largest upload, in GiB, packed and unpacked.
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
    web = load_leaf("web")
    limits = web.limits_from_options(max_upload, job_memory, job_minutes, jobs)
    # Remove it from the environment, which child processes inherit.
    inherited = os.environ.pop("MEMBERBOUND_TOKEN", None)
    where = web.Listening(host, int(port), token or inherited, tuple(allow_host))
    web.listen(where, limits, open_browser=open_browser and web.has_display())
