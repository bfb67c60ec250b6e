"""The ledger of releases: what all of them together, one after the other, promise (X27).

A ledger is a JSON file about one set of people.  Its limit is fixed when it is made.  Every release
reserves its μ and slack before any noise is drawn and is confirmed after its file is written, so
that a run that is killed in between can waste budget but never lose a release.  Entries are never
deleted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

from memberbound.answers import Given
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.errors import InputError, MemberboundError
from memberbound.files import (
    check_input,
    check_output,
    read_document,
    remove_drafts,
    unwritable,
    write_text,
)
from memberbound.numerics.rounding import double_above
from memberbound.release.budget import Budget
from memberbound.release.noise import checked_eta

_FORMAT = "memberbound-ledger/1"
#: What is set aside for the slack of all releases: at most this, and this share of the limit's η.
#: One release of a million rows and 30 columns without bounds takes 1e-6.
_SLACK, _SLACK_SHARE = 1e-4, 0.01
State = Literal["reserved", "released"]


@dataclass(frozen=True)
class Entry:
    """One release; one that is only ``reserved`` (its run was killed or failed) counts too."""

    id: str
    state: State
    time: str
    command: str
    what: str
    eta: Given
    mu: Given
    slack: Given
    unit: str | None
    out: str | None = None


@dataclass(frozen=True)
class Ledger:
    """The limit of a ledger file, and its releases when it was read.

    ``path`` is the file itself, also where a link to it was given.

    Guarantee: whatever is released with this ledger, each release chosen by looking at those before
    it, is together within ``limit_slack`` of a ``limit_mu``-GDP pair, hence keeps ``limit_eta`` for
    every record.
    Theorem: X27 (proofs/ledger.md).
    Assumes: every release in which these people take part is entered here.
    Numerics: the squares of μ and the slacks are added in exact rationals.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.create(folder.name + "/ledger.json", limit_eta=0.1)
        >>> budget = Budget.for_eta(0.05, slack=1e-9)
        >>> with entered(ledger, "protect", "logistic model", 0.05) as reserve:
        ...     reserve(budget)
        >>> ledger = Ledger.read(ledger.path)
        >>> [entry.state for entry in ledger.releases], round(ledger.left_eta, 3)
        (['released'], 0.087)
    """

    path: Path
    limit_eta: float
    limit_mu: float
    limit_slack: float
    releases: tuple[Entry, ...] = ()

    @classmethod
    def create(cls, path: str | os.PathLike[str], limit_eta: float) -> Ledger:
        """Make a new ledger; its limit holds for ever."""
        place = _place(check_output(Path(path), name="ledger", formats=(".json",)))
        eta = checked_eta(limit_eta)
        slack = min(_SLACK, eta * _SLACK_SHARE)
        budget = Budget.for_eta(eta, slack=slack)
        ledger = cls(place, eta, budget.mu, slack)
        with _locked(place):
            if place.exists():
                raise InputError(f"ledger must not exist yet, got {str(path)!r}.")
            ledger._write(force=False)
        return ledger

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Ledger:
        """Read a ledger and check it; a file that is damaged or of another version is refused."""
        check_input(Path(path), "ledger")
        place = _place(path)
        content = read_document(place, "ledger", "JSON")
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise InputError(f"ledger must be a {_FORMAT} file, got {str(path)!r}.")
        try:
            limit = content["limit"]
            entries = tuple(_checked_entry(entry) for entry in content["releases"])
            eta, mu, slack = (_number(limit[name]) for name in ("eta", "mu", "slack"))
            ledger = cls(place, eta, mu, slack, entries)
            if len({entry.id for entry in entries}) < len(entries):
                raise ValueError("an id stands twice")
            if Budget(ledger.limit_mu, ledger.limit_slack).curve().eta > ledger.limit_eta:
                raise ValueError("the limit's mu and eta contradict each other")
            if not ledger._fits(ledger.releases):
                raise ValueError("the releases exceed the limit")
        except (KeyError, TypeError, ValueError, MemberboundError) as error:
            raise InputError(
                f"ledger {str(path)!r} is damaged: {error}. Restore it from a copy."
            ) from None
        return ledger

    @property
    def mu(self) -> float:
        """√Σμ² of what is spent, rounded up."""
        return _root_up(_squares(self.releases))

    @property
    def slack(self) -> float:
        """The sum of the slacks, rounded up."""
        return double_above(_slacks(self.releases))

    @property
    def eta(self) -> float:
        """The η of what is spent, if no size was chosen by looking at an earlier release."""
        if not self.releases:
            return 0.0
        return SlackCurve(GaussianCurve(self.mu), self.slack).eta

    @property
    def left_eta(self) -> float:
        """The largest η of a single release that still fits, to five decimals, rounded down."""
        left = max(Fraction(0), Fraction(self.limit_mu) ** 2 - _squares(self.releases))
        mu = math.sqrt(float(left)) * (1 - 1e-9)
        return 0.0 if mu == 0 else max(0.0, math.floor((GaussianCurve(mu).eta - 1e-9) * 1e5) / 1e5)

    @property
    def unit(self) -> str | None:
        """The column of persons if all releases protect the same persons, else None: rows."""
        units = {entry.unit for entry in self.releases}
        return units.pop() if len(units) == 1 else None

    def curve(self) -> SlackCurve:
        """Return the attacker's curve of everything that is ever released with this ledger."""
        return SlackCurve(GaussianCurve(self.limit_mu), self.limit_slack)

    def _fits(self, releases: tuple[Entry, ...]) -> bool:
        return _squares(releases) <= Fraction(self.limit_mu) ** 2 and _slacks(releases) <= Fraction(
            self.limit_slack
        )

    def _write(self, *, force: bool = True) -> None:
        content = {
            "format": _FORMAT,
            "limit": {"eta": self.limit_eta, "mu": self.limit_mu, "slack": self.limit_slack},
            "releases": [asdict(entry) for entry in self.releases],
        }
        write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", self.path, force=force)


@contextlib.contextmanager
def entered(
    ledger: object, command: str, what: str, eta: float, out: str | os.PathLike[str] | None = None
) -> Iterator[Callable[[Budget], None]]:
    """Enter a release into a ledger, its file, or None: what is done inside is the release.

    Yields what writes a budget into the file, or refuses the release that would exceed the limit.
    After that noise is drawn, and even a refusal may tell something about it: the entry stays and
    counts, whatever comes.  Who refuses before has reserved nothing.  ``out`` is where the release
    is written inside: never over the ledger.
    """
    place = None if ledger is None else opened_ledger(ledger).path
    written = () if out is None else (_place(out), _place(f"{os.fspath(out)}.certificate.json"))
    if place is not None and place in written:
        raise InputError(f"out must not overwrite the ledger, got {str(out)!r}.")
    asked = checked_eta(eta)
    reserved: list[str] = []

    def reserve(budget: Budget) -> None:
        if place is None:
            return
        if not budget.source.secure:
            raise InputError("ledger takes releases with secret noise, not with an insecure seed.")
        if budget.normal_mu is None:
            raise InputError(
                "ledger takes releases with normal noise on all rows; a network trained on "
                "samples of rows cannot be entered."
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        spent = (asked, budget.mu, budget.slack, budget.unit)
        entry = Entry(secrets.token_hex(8), "reserved", now, command, what, *spent)
        with _locked(place):
            book = Ledger.read(place)
            _refuse_unsafe(place)
            releases = (*book.releases, entry)
            if not book._fits(releases):
                raise InputError(
                    f"eta must be at most {book.left_eta!r}, which is what the ledger "
                    f"{place.name!r} has left of its limit {book.limit_eta!r}, got {asked!r}."
                )
            replace(book, releases=releases)._write()
        reserved.append(entry.id)

    yield reserve
    if place is not None and reserved:
        with _locked(place):
            book = Ledger.read(place)
            file = None if out is None else str(out)
            releases = tuple(
                replace(entry, state="released", out=file) if entry.id in reserved else entry
                for entry in book.releases
            )
            replace(book, releases=releases)._write()


def opened_ledger(ledger: object) -> Ledger:
    """Return a ledger, read from its file where that is given."""
    if isinstance(ledger, Ledger):
        return ledger
    if not isinstance(ledger, (str, os.PathLike)):
        raise InputError(f"ledger must be a file or a Ledger, got {type(ledger).__name__}.")
    if not Path(ledger).exists():
        raise InputError(
            f"ledger must be an existing file, got {str(ledger)!r}. "
            "Make one: memberbound ledger FILE --limit-eta 0.1"
        )
    return Ledger.read(ledger)


def _place(path: str | os.PathLike[str]) -> Path:
    """Return the one name of a file: a writing would replace a link to it, and lose the release."""
    return Path(path).resolve()


def _refuse_unsafe(path: Path) -> None:
    """Refuse a ledger with two hard links, of which a writing changes one, or that is read-only.

    Replacing a file needs no right on the file itself.
    """
    remove_drafts(path.parent)  # of a run that was killed while it made the ledger
    if path.stat().st_nlink > 1:
        raise InputError(
            f"ledger must be one file, got {str(path)!r}, which has a second name (a hard link) "
            "that would not be told of its releases. Remove one of the two."
        )
    if not path.stat().st_mode & 0o222:
        raise InputError(f"ledger must be writable, got {str(path)!r}, which is read-only.")


def _checked_entry(content: Any) -> Entry:
    entry = Entry(**{field.name: content[field.name] for field in fields(Entry)})
    if entry.state not in get_args(State):
        raise ValueError(f"unknown state {entry.state!r}")
    Budget(_number(entry.mu), _number(entry.slack))
    checked_eta(_number(entry.eta))
    texts = (entry.id, entry.time, entry.command, entry.what)
    optional = tuple(text for text in (entry.unit, entry.out) if text is not None)
    if not all(isinstance(text, str) for text in (*texts, *optional)):
        raise TypeError("an entry has a number where a text belongs")
    return entry


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} stands where a number belongs")
    return float(value)


def _squares(releases: tuple[Entry, ...]) -> Fraction:
    return sum((Fraction(entry.mu) ** 2 for entry in releases), Fraction(0))


def _slacks(releases: tuple[Entry, ...]) -> Fraction:
    return sum((Fraction(entry.slack) for entry in releases), Fraction(0))


def _root_up(value: Fraction) -> float:
    root = math.sqrt(float(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a ledger, so that no two processes read and write it at once.

    The lock is a file of its own: the ledger itself is replaced by every writing.
    """
    beside = path.with_name(path.name + ".lock")
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise unwritable(f"ledger {str(path)!r}", error) from error
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)  # which unlocks it


def _lock(handle: int) -> None:
    """Wait for the lock; whoever has it only reads and writes a small file."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        while True:
            try:
                # Gives up after ten seconds.
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            except OSError:
                continue
            return
    fcntl.flock(handle, fcntl.LOCK_EX)
