"""The command line inside the process of the tests: nothing is started, nothing imported anew.

``memberbound`` as it is installed, in a process of its own, is what ``verbs/test_commands.py`` and
``release/test_predicting.py`` start; what a command answers does not depend on that.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from memberbound.faces.command_line import main


def command(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return what ``memberbound`` with these arguments prints, and its exit code."""
    asked = ["memberbound", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        mock.patch.object(sys, "argv", asked),
        mock.patch.object(sys, "path", list(sys.path)),
        mock.patch.dict(os.environ, env or {}),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8"))
    return subprocess.CompletedProcess(asked, code, *said)


def python(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, as ``python("-c", program)``; it must end so."""
    call = [sys.executable, *map(str, arguments)]
    environment = os.environ | (env or {})
    ran = subprocess.run(
        call, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert code is None or ran.returncode == code, ran.stderr[-3000:]
    return ran


def script(path: Path, cwd: Path, env: Mapping[str, str]) -> tuple[str, str]:
    """Return what a Python script prints to standard output and to standard error."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(path)]),
        mock.patch.object(tempfile, "tempdir", None),
        mock.patch.dict(os.environ, env),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        runpy.run_path(str(path), run_name="__main__")
    return out.getvalue(), err.getvalue()


def run_command(*arguments: object, cwd: Path | None = None) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error."""
    done = command(*arguments, cwd=cwd)
    return done.returncode, done.stdout, done.stderr
