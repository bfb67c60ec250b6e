"""Ledger files: the joint guarantee of all releases about the same people (X27).

A ledger is a JSON file about one set of people.  Its limit is fixed when it is created.  Every
release reserves its μ and slack on disk before any noise is drawn and is confirmed after its file
is written, so that a killed run can waste budget but never lose a release.  Entries are never
deleted.  All releases of a ledger have the same unit: rows, or the values of one column.  Every
entry holds the hash of the previous one, so that any removal, move or change is detected.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from memberbound.answers import Given
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.errors import InputError, MemberboundError, unwritable
from memberbound.files import (
    check_input,
    check_output,
    file_digest,
    read_document,
    remove_drafts,
    sync_folder,
    write_text,
)
from memberbound.numerics.rounding import double_above, root_up
from memberbound.release.budget import Budget
from memberbound.release.derivation import LedgerPosition, json_digest
from memberbound.release.noise import check_eta_range

_FORMAT = "memberbound-ledger/1"
#: Slack reserved for all releases: at most this, and at most this share of the limit's η.
#: One release of a million rows and 30 columns without bounds takes 1e-6.
_SLACK, _SLACK_SHARE = 1e-4, 0.01
EntryState = Literal["reserved", "released"]
#: Fields of an entry that are set when its file is written; key of the hash of the whole ledger.
_FILLED_IN, _HEAD = ("state", "out", "release_sha256"), "head"


@dataclass(frozen=True)
class LedgerEntry:
    """An entry for one release; ``reserved`` releases (of killed or failed runs) count as well.

    ``unit`` is the column that identifies the records, None if every row is a record.  ``table`` is
    the name of the input file, None for a table in memory.
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
    #: The link of the previous entry; None in ledgers of earlier versions.
    previous: str | None = None
    release_sha256: str | None = None

    @property
    def fixed(self) -> dict[str, object]:
        """The fields that never change once the entry is written."""
        return {key: value for key, value in asdict(self).items() if key not in _FILLED_IN}

    @property
    def link(self) -> str:
        """The hash of this entry that the next one stores (proofs/verification.md)."""
        return json_digest(self.fixed)


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger file when it was read: its limit and its releases.

    ``path`` is resolved if a link was given.

    Guarantee: all releases recorded in this ledger, chosen adaptively, are jointly within
    ``limit_slack`` of a ``limit_mu``-GDP pair, and hence keep ``limit_eta`` for every record.
    Theorem: X27 (proofs/ledger.md).
    Assumes: every release that involves these people is recorded here.
    Numerics: the squares of μ and the slacks are added in exact rationals.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.create(folder.name + "/ledger.json", limit_eta=0.1)
        >>> budget = Budget.for_eta(0.05, slack=1e-9)
        >>> with ledger_entry(ledger, "protect", "logistic model", 0.05) as reserve:
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
        """Create a ledger with a permanent limit."""
        target = _resolve(check_output(Path(path), name="ledger", formats=(".json",)))
        eta = check_eta_range(limit_eta)
        slack = min(_SLACK, eta * _SLACK_SHARE)
        budget = Budget.for_eta(eta, slack=slack)
        ledger = cls(target, eta, budget.mu, slack)
        ledger._write(force=False)  # fails if the file has appeared meanwhile
        return ledger

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Ledger:
        """Read and check a ledger; reject damaged files and other versions."""
        content = ledger_content(path)
        target = _resolve(path)
        try:
            limit = content["limit"]
            entries = tuple(read_entry(entry) for entry in content["releases"])
            eta, mu, slack = (_number(limit[name]) for name in ("eta", "mu", "slack"))
            ledger = cls(target, eta, mu, slack, entries)
            if len({entry.id for entry in entries}) < len(entries):
                raise ValueError("an id occurs twice")
            if Budget(ledger.limit_mu, ledger.limit_slack).curve().eta > ledger.limit_eta:
                raise ValueError("the limit's mu and eta contradict each other")
            if not ledger._fits(ledger.releases):
                raise ValueError("the releases exceed the limit")
            if (problem := broken_chain(content)) is not None:
                raise ValueError(problem)
        except (KeyError, TypeError, ValueError, MemberboundError) as error:
            raise InputError(
                f"ledger {str(path)!r} is damaged: {error}. Restore it from a copy."
            ) from None
        return ledger

    @property
    def mu(self) -> float:
        """√Σμ² of the releases so far, rounded up."""
        return root_up(_squares(self.releases))

    @property
    def slack(self) -> float:
        """The sum of the slacks, rounded up."""
        return double_above(_slacks(self.releases))

    @property
    def eta(self) -> float:
        """The η spent so far; valid if no η was chosen after seeing an earlier release."""
        if not self.releases:
            return 0.0
        return SlackCurve(GaussianCurve(self.mu), self.slack).eta

    @property
    def left_eta(self) -> float:
        """The largest η that one more release may have, rounded down to five decimals."""
        left = max(Fraction(0), Fraction(self.limit_mu) ** 2 - _squares(self.releases))
        mu = math.sqrt(float(left)) * (1 - 1e-9)
        return 0.0 if mu == 0 else max(0.0, math.floor((GaussianCurve(mu).eta - 1e-9) * 1e5) / 1e5)

    @property
    def unit(self) -> str | None:
        """The column that identifies persons if all releases share it, or None for rows."""
        return _common_unit(self.releases)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantee holds."""
        return ledger_assumptions(self.releases)

    def curve(self) -> SlackCurve:
        """Return the trade-off curve of all releases that this ledger allows."""
        return SlackCurve(GaussianCurve(self.limit_mu), self.limit_slack)

    def _position_of(self, draft: LedgerEntry) -> LedgerPosition | None:
        """Return the position of a stopped run's reservation, or None if it has none yet."""
        for index, entry in enumerate(self.releases):
            if entry.id == draft.id:
                if replace(draft, time=entry.time, previous=entry.previous) != entry:
                    raise InputError(
                        "ledger must hold the reservation of the stopped run, got another entry "
                        f"under its name in {self.path.name!r}."
                    )
                return LedgerPosition(entry.id, index, entry.link)
        return None

    def _fits(self, releases: tuple[LedgerEntry, ...]) -> bool:
        return _squares(releases) <= Fraction(self.limit_mu) ** 2 and _slacks(releases) <= Fraction(
            self.limit_slack
        )

    @property
    def _limit(self) -> dict[str, float]:
        return {"eta": self.limit_eta, "mu": self.limit_mu, "slack": self.limit_slack}

    def _next_link(self) -> str:
        """Return the value of ``previous`` for the next entry."""
        if self.releases and self.releases[-1].previous is not None:
            return self.releases[-1].link
        return _first_link(self._limit, [entry.fixed for entry in self.releases])

    def _write(self, *, force: bool = True) -> None:
        content: dict[str, object] = {
            "format": _FORMAT,
            "limit": self._limit,
            "releases": [asdict(entry) for entry in self.releases],
        }
        content[_HEAD] = json_digest(content)
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_text(text, self.path, force=force)
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise unwritable(f"ledger {str(self.path)!r}", error) from error


def ledger_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ledger file without validating its entries."""
    check_input(Path(path), "ledger")
    content = read_document(_resolve(path), "ledger", "JSON")
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"ledger must be a {_FORMAT} file, got {str(path)!r}.")
    return content


def _first_link(limit: object, unlinked: list[dict[str, object]]) -> str:
    """Return the link stored in the first chained entry, of the limit and all earlier entries."""
    return json_digest({"limit": limit, "releases": unlinked})


def broken_chain(content: Mapping[str, Any]) -> str | None:
    """Describe a removal, move or change in the content of a ledger file, or return None.

    Theorem: proofs/verification.md, section 8.  Edge cases: a ledger of an earlier version has no
    links and no head; its first new entry starts the chain.
    """
    entries = [read_entry(entry) for entry in content["releases"]]
    links = [entry.link for entry in entries]
    first = next((k for k, entry in enumerate(entries) if entry.previous is not None), None)
    if first is not None:
        before = [entry.fixed for entry in entries[:first]]
        wanted = _first_link(content["limit"], before)
        for k, entry in enumerate(entries[first:], first):
            if entry.previous != wanted:
                if entry.previous in links:
                    return f"entry {k + 1} follows another one than it was written after"
                what = f"entry {k} was changed" if k > first else "the limit was changed"
                return f"{what}, or an entry before entry {k + 1} was removed or changed"
            wanted = links[k]
    head = content.get(_HEAD)
    if head is None and first is None:
        return None
    if head != json_digest({key: value for key, value in content.items() if key != _HEAD}):
        return "something was changed or removed after it was written: its head does not fit"
    return None


def _common_unit(releases: tuple[LedgerEntry, ...]) -> str | None:
    units = {entry.unit for entry in releases}
    return units.pop() if len(units) == 1 else None


def ledger_assumptions(releases: tuple[LedgerEntry, ...]) -> tuple[str, ...]:
    """Return the assumptions under which a ledger with these releases keeps its limit."""
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
        who = f"A record is the content of a row besides {named}; the person behind it is public."
    elif not releases:
        who = "The first release decides what a record is: a row, or a person with a unit."
    else:
        who = "A record is a row; there is no guarantee for a person with several rows."
    return (
        "Every release that involves these people is entered in this ledger.",
        "mu and eta, of the releases so far, hold if no eta was chosen by looking at an "
        "earlier release; limit_eta holds in any case.",
        f"{who} Neighbours differ in one record, which is replaced in every table it is in.",
        "The assumptions of each release's certificate hold.",
        "The choice of what to release, and of which releases to show, depends on releases, "
        "not on the rows or on output for their owner only (fidelity, scores, notes).",
    )


@contextlib.contextmanager
def ledger_entry(
    ledger: object,
    command: str,
    what: str,
    eta: float,
    out: str | os.PathLike[str] | None = None,
    *,
    table: object = None,
    entry_id: str | None = None,
) -> Iterator[Callable[[Budget], None]]:
    """Record the release made inside this context in a ledger (or its file); None records nothing.

    Yields a function that reserves a budget in the file, or raises if the release would exceed the
    limit or has another unit.  Noise is drawn after the reservation, and even an error may then
    reveal something about the rows, so the entry remains and counts.  An error before the
    reservation reserves nothing.  ``out`` is the output file, which must not be the ledger;
    ``table`` is the input, recorded by file name. A resumed run passes the ``entry_id`` of its
    reservation, which is not charged again.
    """
    file_path = None if ledger is None else open_ledger(ledger).path
    written = () if out is None else (_resolve(out), _resolve(f"{os.fspath(out)}.certificate.json"))
    if file_path is not None and file_path in written:
        raise InputError(f"out must not overwrite the ledger, got {str(out)!r}.")
    requested = check_eta_range(eta)
    name = Path(table).name if isinstance(table, (str, os.PathLike)) else None
    reserved: list[str] = []

    def reserve(budget: Budget) -> None:
        if file_path is None:
            return
        if not budget.source.secure:
            raise InputError("ledger takes releases with secret noise, not with an insecure seed.")
        if budget.normal_mu is None:
            raise InputError(
                "ledger takes releases with normal noise on all rows; a network trained on "
                "samples of rows cannot be entered."
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        spent = (requested, budget.mu, budget.slack, budget.unit)
        draft = LedgerEntry(
            entry_id or secrets.token_hex(8), "reserved", now, command, what, *spent, table=name
        )

        def add(book: Ledger) -> tuple[LedgerEntry, ...]:
            _refuse_other_unit(book, draft.unit)
            budget.ledger = book._position_of(draft)
            if budget.ledger is not None:
                return book.releases
            entry = replace(draft, previous=book._next_link())
            budget.ledger = LedgerPosition(entry.id, len(book.releases), entry.link)
            releases = (*book.releases, entry)
            if not book._fits(releases):
                raise InputError(
                    f"eta must be at most {book.left_eta!r}, which is what the ledger "
                    f"{book.path.name!r} has left of its limit {book.limit_eta!r}, got "
                    f"{requested!r}."
                )
            return releases

        _update(file_path, add)
        reserved.append(draft.id)

    yield reserve
    if file_path is not None and reserved:
        confirm = _confirmation(out)
        _update(
            file_path,
            lambda book: tuple(
                confirm(entry) if entry.id in reserved else entry for entry in book.releases
            ),
        )


def _confirmation(out: str | os.PathLike[str] | None) -> Callable[[LedgerEntry], LedgerEntry]:
    """Hash the written file; return a function that records it in an entry."""
    if out is None:
        return partial(replace, state="released", out=None)
    written = partial(replace, state="released", out=str(out))
    if not Path(out).is_file():
        return written
    return partial(written, release_sha256=file_digest(Path(out)))


def _update(path: Path, change: Callable[[Ledger], tuple[LedgerEntry, ...]]) -> None:
    """Replace the releases of a ledger, and return once they are on disk."""
    with _lock(path) as check_unreplaced:
        book = Ledger.read(path)
        _refuse_unsafe(path)
        changed = replace(book, releases=change(book))
        check_unreplaced()
        changed._write()


def _refuse_other_unit(book: Ledger, unit: str | None) -> None:
    """Reject a release with another unit than the earlier ones.

    Mixed units would protect neither rows nor persons: moving a row to another person changes two
    persons.
    """
    units = {entry.unit for entry in book.releases}
    if not units or unit in units:
        return
    known = " or ".join(sorted("rows (no unit)" if u is None else repr(u) for u in units))
    raise InputError(
        f"unit must be that of the ledger {book.path.name!r}, {known}, got {unit!r}. A ledger "
        "keeps one unit; rename the column if it identifies the same persons."
    )


def open_ledger(ledger: object) -> Ledger:
    """Return a ledger, reading it if given as a file."""
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


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Resolve links, because replacing a link to the ledger would lose the release."""
    return Path(path).resolve()


def _refuse_unsafe(path: Path) -> None:
    """Reject a ledger that is read-only or has two hard links.

    Writing would replace one of two hard links only.  Replacing a file needs no write permission on
    the file itself, hence the explicit check.
    """
    remove_drafts(path.parent)  # left by a run that was killed while creating the ledger
    if path.stat().st_nlink > 1:
        raise InputError(
            f"ledger must be one file, got {str(path)!r}, which has a second name (a hard link) "
            "that would miss new releases. Remove one of the two."
        )
    if not path.stat().st_mode & 0o222:
        raise InputError(f"ledger must be writable, got {str(path)!r}, which is read-only.")


def read_entry(content: Mapping[str, Any]) -> LedgerEntry:
    """Return an entry of a ledger file."""
    # Ledgers of earlier versions store neither the table nor the previous link.
    known = {"table": None, "previous": None, "release_sha256": None, **content}
    entry = LedgerEntry(**{field.name: known[field.name] for field in fields(LedgerEntry)})
    if entry.state not in get_args(EntryState):
        raise ValueError(f"unknown state {entry.state!r}")
    Budget(_number(entry.mu), _number(entry.slack))
    check_eta_range(_number(entry.eta))
    texts = (entry.id, entry.time, entry.command, entry.what)
    optional = (entry.unit, entry.out, entry.table, entry.previous, entry.release_sha256)
    given = (text for text in optional if text is not None)
    if not all(isinstance(text, str) for text in (*texts, *given)):
        raise TypeError("an entry has a number instead of a text")
    return entry


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {value!r}")
    return float(value)


def _squares(releases: tuple[LedgerEntry, ...]) -> Fraction:
    return sum((Fraction(entry.mu) ** 2 for entry in releases), Fraction(0))


def _slacks(releases: tuple[LedgerEntry, ...]) -> Fraction:
    return sum((Fraction(entry.slack) for entry in releases), Fraction(0))


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[Callable[[], None]]:
    """Lock a ledger, so that no two processes update it at the same time.

    The lock is on the ledger itself, so there is no separate lock file.  Every update replaces the
    ledger, so a process that waited for the lock of a replaced file retries with the new one.
    Yields a check that the ledger is still the locked file.
    """
    if os.name == "nt":
        with _lock_beside(path):
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
        os.close(handle)  # also releases the lock


def _is_file(path: Path, handle: int) -> bool:
    """Return whether a path still refers to the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _lock_beside(path: Path) -> Iterator[None]:
    """Hold a lock file next to a ledger, for Windows, where open files cannot be replaced."""
    import msvcrt

    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unwritable(f"ledger {str(path)!r}", error) from error
    try:
        while True:
            try:
                # Times out after ten seconds.
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            except OSError:
                continue
            break
        yield
    finally:
        os.close(handle)  # also releases the lock
