"""Errors of the package, each a single sentence.

There are two families: the caller's input is unusable (:class:`InputError`, exit code 2), or a
search did not find an answer that should exist (:class:`SearchError`, exit code 1).  A vacuous
bound (1.0) is a result, not an error.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import math
import sys
from collections.abc import Iterable
from decimal import Decimal
from types import ModuleType

#: Maximum length of a message, because it may quote input of any length.
_LONGEST = 600
#: System errors when a file cannot grow: no space, a quota, a size limit.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def shorten(message: str, longest: int = _LONGEST) -> str:
    r"""Shorten a message to one line of at most ``longest`` characters, keeping both ends.

    Control characters are escaped.

    Examples:
        >>> shorten("one\n  line, " + "and on " * 200 + "to the end.", 40)
        'one line, and on and on … n to the end.'
    """
    # Cut a long text before processing it character by character.
    if len(message) > 16 * longest:
        message = f"{message[: 8 * longest]} {message[-8 * longest :]}"
    line = " ".join(message.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    if len(line) <= longest:
        return line
    tail = longest // 3
    return f"{line[: longest - tail - 3].rstrip()} … {line[-tail:].lstrip()}"


def listed_names(name: object, names: Iterable[object], most: int = 12) -> str:
    """Return a clause with the known names, closest first, for the message about a wrong one.

    Examples:
        >>> listed_names("agee", ["age", "sex"])
        "did you mean 'age'? It has 'age', 'sex'"
    """
    known = [str(each) for each in names]
    by_case = {each.casefold(): each for each in reversed(known)}
    close = difflib.get_close_matches(str(name).casefold(), by_case, n=1)
    listed = ", ".join(map(repr, known[:most]))
    more = f" and {len(known) - most} more" if len(known) > most else ""
    hint = f"did you mean {by_case[close[0]]!r}? It" if close else "it"
    return f"{hint} has {listed}{more}"


class MemberboundError(Exception):
    """Base class of the package's errors, with messages of one line and bounded length."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shorten(str(message)))


class InputError(MemberboundError, ValueError):
    """Unusable input; the message states the name, the condition and the value."""


class TooFewRowsError(InputError):
    """The table is too small for the request."""


class SearchError(MemberboundError, RuntimeError):
    """A search ended without an answer that satisfies its inequality."""


def unwritable(name: str, error: OSError) -> MemberboundError:
    """Return the error for a file that could not be written, with the reason."""
    why = error.strerror or type(error).__name__
    remedy = " Free some space and run it again." if error.errno in FULL else ""
    return MemberboundError(f"{name} could not be written: {why}.{remedy}")


#: Subpackages of scikit-learn that wrap other libraries' arrays, without estimators.
_WRAPPERS = tuple(f"sklearn.externals.array_api_compat.{of}" for of in ("cupy", "dask", "torch"))


def import_optional(name: str, purpose: str, extra: str) -> ModuleType:
    """Import a module of an optional package, or raise an error that names its purpose.

    skops lists all estimators of scikit-learn, which imports each of its subpackages: with the
    wrappers, it would import all of PyTorch and dask too.
    """
    hidden = [w for w in _WRAPPERS if w not in sys.modules] if name == "skops.io" else []
    for wrapper in hidden:
        sys.modules[wrapper] = None  # type: ignore[assignment]  # so Python marks what is absent
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InputError(
            f"{package} must be installed {purpose}: pip install memberbound[{extra}]."
        ) from None
    finally:
        for wrapper in hidden:
            sys.modules.pop(wrapper, None)


def _refuse(name: str, condition: str, value: object, remedy: str) -> InputError:
    tail = f" {remedy}" if remedy else ""
    return InputError(f"{name} must be {condition}, got {value!r}.{tail}")


def finite_number(name: str, value: object, remedy: str = "") -> float:
    """Return ``value`` as a float; raise unless it is a finite real number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _refuse(name, "a finite number", value, remedy or _as_fraction(value)) from None
    if not math.isfinite(number):
        raise _refuse(name, "a finite number", value, remedy)
    return number


def _as_fraction(value: object) -> str:
    """Return a hint that writes a percentage as a fraction, or '' for anything else."""
    number, sign, rest = str(value).partition("%")
    try:
        return f"Write it as {Decimal(number.strip()) / 100}." if sign and not rest else ""
    except ArithmeticError:
        return ""


def nonnegative(name: str, value: object, remedy: str = "") -> float:
    """Return a finite number ≥ 0."""
    number = finite_number(name, value, remedy)
    if number < 0:
        raise _refuse(name, "at least 0", value, remedy)
    return number


def positive(name: str, value: object, remedy: str = "") -> float:
    """Return a finite number > 0."""
    number = finite_number(name, value, remedy)
    if number <= 0:
        raise _refuse(name, "greater than 0", value, remedy)
    return number


def fraction(
    name: str, value: object, *, open_left: bool = False, open_right: bool = False, remedy: str = ""
) -> float:
    """Return a number in [0, 1], optionally excluding either end."""
    number = finite_number(name, value, remedy)
    low_ok = number > 0 if open_left else number >= 0
    high_ok = number < 1 if open_right else number <= 1
    if not (low_ok and high_ok):
        interval = f"{'(' if open_left else '['}0, 1{')' if open_right else ']'}"
        raise _refuse(name, f"in {interval}", value, remedy)
    return number


def fractions(name: str, values: float | Iterable[float] | None) -> tuple[float, ...]:
    """Return one or several numbers in [0, 1]; empty for ``None``."""
    listed = () if values is None else (values,) if isinstance(values, (int, float)) else values
    return tuple(fraction(name, value) for value in listed)


def whole_number(name: str, value: object, *, at_least: int = 1, remedy: str = "") -> int:
    """Return an integer ≥ ``at_least``; 3.0 is accepted, 3.5 is not."""
    number = finite_number(name, value, remedy)
    if number != math.floor(number) or number < at_least:
        raise _refuse(name, f"a whole number of at least {at_least}", value, remedy)
    return int(number)


def one_of(name: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value``; raise unless it is one of ``choices``."""
    options = list(choices)
    if value not in options:
        raise _refuse(name, "one of " + ", ".join(map(repr, options)), value, "")
    return value
