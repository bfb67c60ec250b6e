"""The ledger of releases: the joint guarantee of all releases about the same people (X27).

A ledger is a JSON file about one set of people.  Its limit is fixed when it is created.  Every
release reserves its μ and slack on disk before any noise is drawn and is confirmed after its file
is written, so that a killed run can waste budget but never lose a release.  Entries are never
deleted.  All releases of a ledger have the same unit: rows, or the values of one column.
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
    sync_folder,
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
EntryState = Literal["reserved", "released"]


@dataclass(frozen=True)
class LedgerEntry:
    """One release; one that is only ``reserved`` (its run was killed or failed) counts too.

    ``unit`` is the column whose values are the records, None where every row is one.  ``table`` is
    the name of the file that was read, None for a table in memory.
    """

    id: str
    state: EntryState
    time: str
    command: str
    what: str
    eta: Given
    mu: Given
    slack: Given
    unit: str | None
    out: str | None = None
    table: str | None = None


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
    releases: tuple[LedgerEntry, ...] = ()

    @classmethod
    def create(cls, path: str | os.PathLike[str], limit_eta: float) -> Ledger:
        """Make a new ledger; its limit holds for ever."""
        place = _place(check_output(Path(path), name="ledger", formats=(".json",)))
        eta = checked_eta(limit_eta)
        slack = min(_SLACK, eta * _SLACK_SHARE)
        budget = Budget.for_eta(eta, slack=slack)
        ledger = cls(place, eta, budget.mu, slack)
        ledger._write(force=False)  # which refuses a file that has appeared meanwhile
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
        return _common_unit(self.releases)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions under which the guarantee holds."""
        return ledger_assumptions(self.releases)

    def curve(self) -> SlackCurve:
        """Return the attacker's curve of everything that is ever released with this ledger."""
        return SlackCurve(GaussianCurve(self.limit_mu), self.limit_slack)

    def _fits(self, releases: tuple[LedgerEntry, ...]) -> bool:
        return _squares(releases) <= Fraction(self.limit_mu) ** 2 and _slacks(releases) <= Fraction(
            self.limit_slack
        )

    def _write(self, *, force: bool = True) -> None:
        content = {
            "format": _FORMAT,
            "limit": {"eta": self.limit_eta, "mu": self.limit_mu, "slack": self.limit_slack},
            "releases": [asdict(entry) for entry in self.releases],
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_text(text, self.path, force=force)
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise unwritable(f"ledger {str(self.path)!r}", error) from error


def _common_unit(releases: tuple[LedgerEntry, ...]) -> str | None:
    units = {entry.unit for entry in releases}
    return units.pop() if len(units) == 1 else None


def ledger_assumptions(releases: tuple[LedgerEntry, ...]) -> tuple[str, ...]:
    """Return the conditions under which a ledger with these releases keeps its limit."""
    unit = _common_unit(releases)
    units = sorted({entry.unit for entry in releases if entry.unit is not None})
    if unit is not None:
        tables = sorted({entry.table for entry in releases if entry.table is not None})
        where = f" ({', '.join(tables)})" if tables else ""
        who = (
            f"A record is a person: all rows with one value of {unit!r}. That the column "
            f"identifies the same persons in every table{where} is the owner's declaration: "
            "only its name is compared."
        )
    elif units:  # a ledger of an earlier version
        named = " and ".join(map(repr, units))
        who = f"A record is what a row holds besides {named}: whose row it is is public."
    elif not releases:
        who = "The first release decides what a record is: a row, or a person with a unit."
    else:
        who = "A record is a row; nothing is promised about a person with several rows."
    return (
        "Every release in which these people take part is entered in this ledger.",
        "mu and eta, of the releases so far, hold if no eta was chosen by looking at an "
        "earlier release; limit_eta holds in any case.",
        f"{who} Neighbours differ in one record, which is replaced in every table it is in.",
        "Each release keeps the assumptions of its own certificate.",
        "What is released, and which releases are shown, is decided by looking at releases, "
        "not at the rows or at what is for their owner only (fidelity, scores, notes).",
    )


@contextlib.contextmanager
def entered(
    ledger: object,
    command: str,
    what: str,
    eta: float,
    out: str | os.PathLike[str] | None = None,
    *,
    table: object = None,
) -> Iterator[Callable[[Budget], None]]:
    """Enter the release that is made inside into a ledger, its file, or None.

    Yields a function that writes a budget into the file, or refuses the release that would exceed
    the limit or that has another unit.  Noise is drawn after it, and even a later refusal may tell
    something about that noise: the entry stays and counts.  What is refused before reserves
    nothing.  ``out`` is where the release is written inside: never over the ledger.  ``table`` is
    what was read; the name of a file is noted.
    """
    place = None if ledger is None else opened_ledger(ledger).path
    written = () if out is None else (_place(out), _place(f"{os.fspath(out)}.certificate.json"))
    if place is not None and place in written:
        raise InputError(f"out must not overwrite the ledger, got {str(out)!r}.")
    asked = checked_eta(eta)
    name = Path(table).name if isinstance(table, (str, os.PathLike)) else None
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
        entry = LedgerEntry(
            secrets.token_hex(8), "reserved", now, command, what, *spent, table=name
        )

        def add(book: Ledger) -> tuple[LedgerEntry, ...]:
            _refuse_other_unit(book, entry.unit)
            releases = (*book.releases, entry)
            if not book._fits(releases):
                raise InputError(
                    f"eta must be at most {book.left_eta!r}, which is what the ledger "
                    f"{book.path.name!r} has left of its limit {book.limit_eta!r}, got {asked!r}."
                )
            return releases

        _update(place, add)
        reserved.append(entry.id)

    yield reserve
    if place is not None and reserved:
        file = None if out is None else str(out)
        _update(
            place,
            lambda book: tuple(
                replace(entry, state="released", out=file) if entry.id in reserved else entry
                for entry in book.releases
            ),
        )


def _update(path: Path, change: Callable[[Ledger], tuple[LedgerEntry, ...]]) -> None:
    """Replace the releases of a ledger; they are on the disk when this returns."""
    with _locked(path) as check_unreplaced:
        book = Ledger.read(path)
        _refuse_unsafe(path)
        changed = replace(book, releases=change(book))
        check_unreplaced()
        changed._write()


def _refuse_other_unit(book: Ledger, unit: str | None) -> None:
    """Refuse a release about other records than the earlier ones.

    Together they would protect neither: a row given to another person changes two persons.
    """
    units = {entry.unit for entry in book.releases}
    if not units or unit in units:
        return
    known = " or ".join(sorted("rows (no unit)" if u is None else repr(u) for u in units))
    raise InputError(
        f"unit must be that of the ledger {book.path.name!r}, {known}, got {unit!r}. A ledger "
        "keeps one unit; rename the column if it identifies the same persons."
    )


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


def _checked_entry(content: Any) -> LedgerEntry:
    # Ledgers of earlier versions do not name the table.
    known = {"table": None} | content
    entry = LedgerEntry(**{field.name: known[field.name] for field in fields(LedgerEntry)})
    if entry.state not in get_args(EntryState):
        raise ValueError(f"unknown state {entry.state!r}")
    Budget(_number(entry.mu), _number(entry.slack))
    checked_eta(_number(entry.eta))
    texts = (entry.id, entry.time, entry.command, entry.what)
    optional = tuple(text for text in (entry.unit, entry.out, entry.table) if text is not None)
    if not all(isinstance(text, str) for text in (*texts, *optional)):
        raise TypeError("an entry has a number where a text belongs")
    return entry


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} stands where a number belongs")
    return float(value)


def _squares(releases: tuple[LedgerEntry, ...]) -> Fraction:
    return sum((Fraction(entry.mu) ** 2 for entry in releases), Fraction(0))


def _slacks(releases: tuple[LedgerEntry, ...]) -> Fraction:
    return sum((Fraction(entry.slack) for entry in releases), Fraction(0))


def _root_up(value: Fraction) -> float:
    root = math.sqrt(float(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of a ledger, so that no two processes read and write it at once.

    The lock is on the ledger itself, so no other file has to be left alone.  Every writing replaces
    the ledger: a process that waited for the lock of a replaced file takes that of the new one.
    Yields a check that the ledger is still the locked file.
    """
    if os.name == "nt":
        with _locked_beside(path):
            yield lambda: None
        return
    import fcntl

    while True:
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError as error:
            raise unwritable(f"ledger {str(path)!r}", error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_file(path, handle):
                break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)

    def check_unreplaced() -> None:
        if not _is_file(path, handle):
            raise InputError(
                f"ledger must stay the same file while it is written, got {str(path)!r}, which "
                "another program has replaced or removed."
            )

    try:
        yield check_unreplaced
    finally:
        os.close(handle)  # which unlocks it


def _is_file(path: Path, handle: int) -> bool:
    """Tell whether a name still belongs to the opened file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked_beside(path: Path) -> Iterator[None]:
    """Hold a lock beside a ledger, on Windows: no open file can be replaced or removed there."""
    import msvcrt

    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unwritable(f"ledger {str(path)!r}", error) from error
    try:
        while True:
            try:
                # Gives up after ten seconds.
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            except OSError:
                continue
            break
        yield
    finally:
        os.close(handle)  # which unlocks it
