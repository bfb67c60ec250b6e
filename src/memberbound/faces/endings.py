"""How a run ends without an answer: one sentence, an exit code, and nothing lost.

What a caller can mend is said by the error itself.  What nobody foresaw is said in one sentence
too, and its traceback goes to a file that only this user can read: it may quote a line of the data,
so it is not printed unless ``MEMBERBOUND_DEBUG=1`` asks for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError, shortened
from memberbound.faces.terminal import print_text

_PREFIX = "memberbound-traceback-"
#: Tracebacks that are kept; the oldest go first.
_KEPT = 20
#: Exit codes of a run that a signal stopped, as shells count them.
INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class StoppedError(MemberboundError):
    """Ctrl-C or SIGTERM, on its way through Typer, which would end the process in its own way."""


#: Set when SIGTERM has come: an engine that it stops forgets which signal it was.
_sigterm_seen = threading.Event()


def debugging() -> bool:
    """Whether tracebacks are to be shown."""
    return os.environ.get("MEMBERBOUND_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def stopped_in_order() -> Iterator[None]:
    """Let SIGTERM end the work under way as Ctrl-C does: outputs whole, private folders deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        del frame
        # A second one must not interrupt the tidying.
        signal.signal(number, signal.SIG_IGN)
        _sigterm_seen.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ending(problem: BaseException, tracebacks: Path | None = None) -> tuple[str, int]:
    """Return the sentence and the exit code for what a command raised.

    ``tracebacks`` is the folder for the traceback of what nobody foresaw.
    """
    if _interrupted(problem):
        sentence = str(problem) if isinstance(problem, StoppedError) else ""
        return sentence or "stopped.", _TERMINATED if _sigterm_seen.is_set() else INTERRUPTED
    if isinstance(problem, MemberboundError):
        return str(problem), 2 if isinstance(problem, InputError) else 1
    # Typer carries its own copy of click, so its errors are known by what they can say.
    format_message = getattr(problem, "format_message", None)
    if format_message is not None:
        return format_message(), getattr(problem, "exit_code", 2)
    if is_memory_error(problem):
        return "out of memory. Use fewer rows, columns or --workers, or a larger machine.", 1
    if isinstance(problem, BrokenPipeError):
        # Who reads the answer has gone; what Python still holds for them must not raise again.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return "the answer could not be written: its reader has closed the pipe.", 1
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename is not None else ""
        return f"{where}{problem.strerror or str(problem) or type(problem).__name__}.", 1
    path = keep_traceback(problem, tracebacks)
    where = "could not be written to a file" if path is None else f"are in {path}"
    return f"unexpected error ({type(problem).__name__}). Details {where}.", 1


def is_memory_error(problem: BaseException) -> bool:
    """Whether memory ran out, here or in Arrow."""
    return isinstance(problem, MemoryError) or type(problem).__name__ == "ArrowMemoryError"


def _interrupted(problem: BaseException) -> bool:
    """Whether a signal ended it; the command line and the engine have their own words for it."""
    return (
        isinstance(problem, (KeyboardInterrupt, StoppedError))
        or _sigterm_seen.is_set()
        or type(problem).__name__ in ("Abort", "InterruptException")
        or (isinstance(problem, RuntimeError) and str(problem) == "Query interrupted")
    )


def keep_traceback(problem: BaseException, folder: Path | None = None) -> Path | None:
    """Write a traceback to a private file and return its path; None where that is impossible."""
    text = "".join(traceback.format_exception(problem))
    head = f"memberbound {__version__}, Python {sys.version.split()[0]}, {sys.platform}\n\n"
    directory = Path(tempfile.gettempdir()) if folder is None else folder
    path = None
    try:
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=".txt", dir=directory)
        path = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(head + text)
        others = [
            other for other in directory.glob(f"{_PREFIX}*.txt") if other.owner() == path.owner()
        ]
        for old in sorted(others, key=lambda other: other.stat().st_mtime)[:-_KEPT]:
            old.unlink()
    except (OSError, KeyError, NotImplementedError):  # no space, or an owner without a name
        with contextlib.suppress(OSError):
            if path is not None and path.stat().st_size < len(head):
                path.unlink()
                path = None
    return path


def print_ending(problem: BaseException) -> int:
    """Print on standard error what ended a command, and return its exit code."""
    message, code = ending(problem)
    if debugging():
        traceback.print_exception(problem)
    with contextlib.suppress(OSError):
        print_text(f"memberbound: {shortened(message)}", stream=sys.stderr)
        sys.stderr.flush()
    return code
