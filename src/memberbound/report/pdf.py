"""The report as PDF, through the print of a browser that is there already.

The page is rendered into a private folder and printed by a headless Chromium, Chrome or Edge with a
profile of its own, which is thrown away, and without a network.
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
from memberbound.files import PrivateFolder

__all__ = ["find_browser", "page_count", "print_pdf"]

#: Commands of Debian, Fedora, the makers' packages and Windows.
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
#: Where macOS and Windows keep browsers that are on no search path.
_PLACES = (
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
    # The report needs no network; nothing that it holds is to reach one.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
#: Milliseconds of the page's own clock for its figures; it runs as fast as the work allows.
_DRAWING = 30_000
_SECONDS = 180.0
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def find_browser(path: str | os.PathLike[str] | None = None) -> str:
    """Return the browser to print with: the one named, there or in CHROME_BIN, or the first."""
    path = path or os.environ.get("CHROME_BIN")
    if path is not None:
        program = shutil.which(str(path))
        if program is None:
            raise InputError(f"CHROME_BIN must be a program that can be run, got {str(path)!r}.")
        return program
    places = (os.path.expandvars(place) for place in _PLACES)
    for candidate in (*_COMMANDS, *places):
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
    """Return a page as PDF; fewer sheets than it must have are taken for a failure.

    Args:
        page: the HTML, which needs nothing else.
        browser: the program; searched for unless given.
        least: number of sheets at least.
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
            f"{program} printed no PDF. Where its sandbox is not allowed, as in some containers, "
            "print report.html from another browser."
        )
    if page_count(printed) < least:
        raise MemberboundError(f"{program} printed {page_count(printed)} pages, too few.")
    return printed


def page_count(printed: bytes) -> int:
    """Return the number of pages of a PDF as browsers write it, with plain page objects."""
    return len(_PAGE.findall(printed))


def _flags(folder: Path, target: Path) -> list[str]:
    flags = [
        *_QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--virtual-time-budget={_DRAWING}",
        f"--print-to-pdf={target}",
    ]
    # Chromium refuses to run as root with its sandbox, and only then it may be left out.
    if sys.platform != "win32" and os.geteuid() == 0:
        flags.append("--no-sandbox")
    return flags


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run the browser to its end or to the time limit, with all the processes that it starts."""
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
        # The session is the browser's own, so this ends its helpers and nobody else.
        os.killpg(process.pid, signal.SIGKILL)
