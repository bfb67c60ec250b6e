"""``serve``: the web calculator."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from memberbound.cli.face import app
from memberbound.errors import InputError, positive, whole_number

__all__ = ["serve"]


@app.command()
def serve(  # noqa: PLR0917  # Typer reads options from positional parameters
    host: Annotated[
        str, typer.Option(help="Address to listen on; another than this machine needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MEMBERBOUND_TOKEN",
            help="Secret that every request must carry (at least 16 characters).",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Further name under which the server is addressed."),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the address in the browser.")
    ] = True,
    max_rows: Annotated[float, typer.Option(help="Rows that an uploaded table may have.")] = 5e7,
    max_upload: Annotated[float, typer.Option(metavar="GIB", help="Largest upload, in GiB.")] = 2,
    max_unpacked: Annotated[
        float, typer.Option(metavar="GIB", help="Largest table after unpacking, in GiB.")
    ] = 8,
    job_memory: Annotated[
        float, typer.Option(metavar="GIB", help="Memory of one job, in GiB.")
    ] = 4,
    job_minutes: Annotated[float, typer.Option(help="Longest time of one job.")] = 60,
    jobs: Annotated[int, typer.Option(help="Jobs that run at the same time.")] = 2,
) -> None:
    """Open the calculator in the browser: the same answers, with sliders and file upload.

    Nothing leaves this machine.

    \b
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
    from memberbound.web.limits import GIB, Limits
    from memberbound.web.server import Listening, has_display
    from memberbound.web.server import serve as serve_

    limits = Limits(
        rows=whole_number("max_rows", max_rows),
        upload_bytes=int(positive("max_upload", max_upload) * GIB),
        unpacked_bytes=int(positive("max_unpacked", max_unpacked) * GIB),
        job_memory_bytes=int(positive("job_memory", job_memory) * GIB),
        job_seconds=60 * positive("job_minutes", job_minutes),
        running=whole_number("jobs", jobs),
    )
    serve_(
        Listening(host, port, token, tuple(allow_host or ())),
        limits,
        open_browser=open_ and has_display(),
        tell=lambda address: typer.echo(f"memberbound serves {address} (Ctrl+C ends it)"),
    )
