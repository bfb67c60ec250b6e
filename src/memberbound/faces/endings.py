"""Turn errors and interrupts of a run into one sentence and an exit code.

An expected error explains itself.  An unexpected error is reduced to one sentence too, and its
traceback goes to a file that only this user can read: it may quote a line of the data, so it is
printed only with ``MEMBERBOUND_DEBUG=1``.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError, shorten
from memberbound.faces.terminal import print_text
from memberbound.quantities import decimals

_PREFIX = "memberbound-traceback-"
#: Maximum number of stored tracebacks; the oldest are deleted first.
_KEPT = 20
#: Exit codes of a run stopped by a signal, by the convention of shells.
INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class StoppedError(MemberboundError):
    """Ctrl-C or SIGTERM, wrapped so that Typer does not exit by itself."""


#: Set after SIGTERM, because an interrupted engine does not report the signal.
_sigterm_seen = threading.Event()


def debugging() -> bool:
    """Return whether tracebacks are shown."""
    return os.environ.get("MEMBERBOUND_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def handle_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C within the block, so that outputs are complete or absent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        del frame
        # A second signal must not interrupt the cleanup.
        signal.signal(number, signal.SIG_IGN)
        _sigterm_seen.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ending(problem: BaseException, tracebacks: Path | None = None) -> tuple[str, int]:
    """Return the sentence and the exit code for an exception of a command.

    ``tracebacks`` is the folder for the traceback of an unexpected error.
    """
    if _is_interrupt(problem):
        sentence = str(problem) if isinstance(problem, StoppedError) else ""
        return sentence or "stopped.", _TERMINATED if _sigterm_seen.is_set() else INTERRUPTED
    if isinstance(problem, MemberboundError):
        return str(problem), 2 if isinstance(problem, InputError) else 1
    # Typer vendors click, so recognise its errors by their methods.
    format_message = getattr(problem, "format_message", None)
    if format_message is not None:
        sentence = _suggest_eta(problem) or _show_usage(problem) or format_message()
        return sentence, getattr(problem, "exit_code", 2)
    if is_memory_error(problem):
        return "out of memory. Use fewer rows, columns or --workers, or a larger machine.", 1
    if isinstance(problem, BrokenPipeError):
        # The reader of the output is gone; flushing the rest must not raise again.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return "the answer could not be written: its reader has closed the pipe.", 1
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename is not None else ""
        return f"{where}{problem.strerror or str(problem) or type(problem).__name__}.", 1
    path = keep_traceback(problem, tracebacks)
    where = "could not be written to a file" if path is None else f"are in {path}"
    return f"unexpected error ({type(problem).__name__}). Details {where}.", 1


def _suggest_eta(problem: BaseException) -> str | None:
    """Return the η that replaces an ε in a call of a release: noise at this η meets the ε."""
    context = getattr(problem, "ctx", None)
    if getattr(problem, "option_name", None) != "--epsilon" or context is None:
        return None
    if not any("--eta" in parameter.opts for parameter in context.command.params):
        return None
    verb, told = context.info_name, "--epsilon"
    with contextlib.suppress(ValueError, IndexError):
        joined = " ".join(sys.argv).replace("--epsilon=", "--epsilon ").split()
        epsilon = float(joined[joined.index("--epsilon") + 1])
        if 0 < epsilon < 50:
            eta = decimals(_eta_of_normal_noise(epsilon, 1e-5), "lower", 4)
            told = f"--epsilon: --eta {eta} is ε = {epsilon} at δ = 1e-5, one record replaced"
    return f"{verb} takes --eta, not {told} (memberbound explain translates)."


def _show_usage(problem: BaseException) -> str | None:
    """Return the message about too few or too many arguments, with the verb's first example."""
    context, told = getattr(problem, "ctx", None), getattr(problem, "format_message", str)()
    if context is None or not told.startswith(("Missing argument", "Got unexpected extra")):
        return None
    help = str(context.command.help or "")
    start = f"memberbound {context.info_name} "
    lines = [line.strip() for line in help.splitlines()]
    example = next((line for line in lines if line.startswith(start)), None)
    return None if example is None else f"{told.rstrip('.')}. For example: {example}"


def _eta_of_normal_noise(epsilon: float, delta: float) -> float:
    """Return Φ(μ/2) - ½ for the largest μ at which normal noise is (ε, δ)-DP."""
    cdf = NormalDist().cdf

    def profile(mu: float) -> float:
        return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)

    low, high = 1e-6, 20.0
    for _ in range(60):
        mu = (low + high) / 2
        low, high = (mu, high) if profile(mu) <= delta else (low, mu)
    return cdf(low / 2) - 0.5


def is_memory_error(problem: BaseException) -> bool:
    """Return whether memory ran out, here or in Arrow."""
    return isinstance(problem, MemoryError) or type(problem).__name__ == "ArrowMemoryError"


def _is_interrupt(problem: BaseException) -> bool:
    """Return whether a signal caused the error; Typer and the engine have their own types."""
    return (
        isinstance(problem, (KeyboardInterrupt, StoppedError))
        or _sigterm_seen.is_set()
        or type(problem).__name__ in ("Abort", "InterruptException")
        or (isinstance(problem, RuntimeError) and str(problem) == "Query interrupted")
    )


def keep_traceback(problem: BaseException, folder: Path | None = None) -> Path | None:
    """Write a traceback to a private file and return its path; None if that fails."""
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
    except (OSError, KeyError, NotImplementedError):  # no space, or an unknown owner
        with contextlib.suppress(OSError):
            if path is not None and path.stat().st_size < len(head):
                path.unlink()
                path = None
    return path


def print_ending(problem: BaseException) -> int:
    """Print the error of a command on standard error, and return its exit code."""
    message, code = ending(problem)
    if debugging():
        traceback.print_exception(problem)
    with contextlib.suppress(OSError):
        print_text(f"memberbound: {shorten(message)}", stream=sys.stderr)
        sys.stderr.flush()
    return code
