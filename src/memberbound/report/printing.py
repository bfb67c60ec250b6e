"""Print an HTML page as PDF with a headless browser that is already installed.

Chromium, Chrome or Edge renders the page from a private folder, with a throw-away profile and
without a network.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from memberbound.errors import InputError, MemberboundError
from memberbound.scratch import PrivateFolder

#: Command names used by Debian, Fedora, the vendors' packages and Windows.
_COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
)
#: Install paths of macOS and Windows, where browsers are not on the search path.
_INSTALL_PATHS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe",
)
_QUIET = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # containers give it little room
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pdf-header-footer",
    # The page needs no network, and its content must not reach one.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
#: Virtual time for the page's scripts, in milliseconds; it passes as fast as the work allows.
_DRAWING = 30_000
_SECONDS = 180.0
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def find_browser(path: str | os.PathLike[str] | None = None) -> str:
    """Return the browser: ``path``, else the variable CHROME_BIN, else the first one found."""
    path = path or os.environ.get("CHROME_BIN")
    if path is not None:
        program = shutil.which(str(path))
        if program is None:
            raise InputError(f"CHROME_BIN must be a program that can be run, got {str(path)!r}.")
        return program
    installed = (os.path.expandvars(path) for path in _INSTALL_PATHS)
    for candidate in (*_COMMANDS, *installed):
        program = shutil.which(candidate)
        if program is not None:
            return program
    raise InputError(
        "a PDF needs Chromium, Chrome or Edge, and none was found. Install one (on Debian: apt-get "
        "install chromium), name it in the variable CHROME_BIN, or print the page from any browser."
    )


def print_pdf(
    page: str,
    *,
    browser: str | os.PathLike[str] | None = None,
    least: int = 1,
    seconds: float = _SECONDS,
) -> bytes:
    """Print a page as PDF, and raise if it has fewer than ``least`` sheets.

    Args:
        page: self-contained HTML.
        browser: the program (default: see :func:`find_browser`).
        least: smallest number of sheets that is not a failure.
        seconds: time limit.
    """
    program = find_browser(browser)
    with PrivateFolder() as folder:
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        _run([program, *_flags(folder, target), source.as_uri()], folder, seconds)
        printed = target.read_bytes() if target.is_file() else b""
    if not printed.startswith(b"%PDF-") or b"%%EOF" not in printed[-1024:]:
        raise MemberboundError(
            f"{program} printed no PDF. If its sandbox is not allowed, as in some containers, "
            "print report.html from another browser."
        )
    if page_count(printed) < least:
        raise MemberboundError(f"{program} printed {page_count(printed)} pages, too few.")
    return printed


def page_count(printed: bytes) -> int:
    """Count the pages of a PDF printed by a browser (its page objects are not compressed)."""
    return len(_PAGE.findall(printed))


def _flags(folder: Path, target: Path) -> list[str]:
    flags = [
        *_QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--virtual-time-budget={_DRAWING}",
        f"--print-to-pdf={target}",
    ]
    # Chromium refuses to run as root inside its sandbox; only then run without it.
    if sys.platform != "win32" and os.geteuid() == 0:
        flags.append("--no-sandbox")
    return flags


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run the browser until it ends or the time limit passes, then end its whole session."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            code = process.wait(timeout=seconds)
        except BaseException as problem:
            _end(process)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise MemberboundError(
                    f"{command[0]} did not print within {seconds:g} seconds."
                ) from None
            raise
    if code != 0:
        raise MemberboundError(f"{command[0]} ended with code {code} and printed nothing.")


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # The browser leads its own session, so this ends its helpers and nothing else.
        os.killpg(process.pid, signal.SIGKILL)
