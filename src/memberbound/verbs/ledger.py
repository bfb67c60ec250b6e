"""The verb ``ledger``: what all releases about the same people promise together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from memberbound.answers import Answer, Given, Upper, computed
from memberbound.declarations import Option
from memberbound.errors import InputError
from memberbound.files import remove_drafts
from memberbound.games import NeighbourGame, member_name
from memberbound.quantities import allowed, marked, percent, significant
from memberbound.release.ledger_file import Ledger, LedgerEntry, ledger_assumptions, opened_ledger


@dataclass(frozen=True, repr=False)
class LedgerState(Answer):
    """A ledger's releases, what they add up to, and what is left of its limit.

    ``limit_eta`` holds whatever is decided along the way.  ``eta`` and ``mu`` are of the releases
    so far, and hold if none of their sizes was chosen by looking at an earlier one.
    """

    VERB: ClassVar = "ledger"

    releases: tuple[LedgerEntry, ...]
    mu: Upper
    eta: Upper
    left: Given
    limit_mu: Upper
    limit_eta: Upper
    unit: str | None
    game: NeighbourGame = field(default_factory=NeighbourGame)
    theorems: tuple[str, ...] = ("X22", "X27")

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for the numbers to hold."""
        return ledger_assumptions(self.releases)

    @computed
    def sentence(self) -> str:
        """What everything together promises, and what is left."""
        made = sum(entry.state == "released" for entry in self.releases)
        who = member_name(self.unit)
        open_ = sum(entry.state == "reserved" for entry in self.releases)
        unfinished = f" and {open_} unfinished" if open_ else ""
        most = allowed(0.5, self.limit_eta)
        left = "Nothing is left."
        if self.left > 0:
            left = f"The next release may take η = {significant(self.left, 'given')} at most."
        return (
            f"Nobody who sees every release that this ledger allows is right about any {who}'s "
            f"membership more than {most} of the time. So far: {made} "
            f"release{'' if made == 1 else 's'}{unfinished}, together at "
            f"most {percent(0.5 + self.eta, 'upper')}. {left}"
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the limit, what is spent, and a line per release."""
        rows: list[tuple[str, object]] = [
            ("limit η", marked(self.limit_eta, "certificate", "eta", 6)),
            ("spent η", marked(self.eta, "certificate", "eta", 6)),
            ("left for one release", significant(self.left, "given")),
        ]
        for entry in self.releases:
            file = "" if entry.out is None else f", {entry.out}"
            rows.append(
                (
                    entry.time[:16].replace("T", " "),
                    f"{entry.command} ({entry.what}), η = {significant(entry.eta, 'given')}, "
                    f"{entry.state}{file}",
                )
            )
        return rows


def ledger(
    file: Annotated[Any, Option("file", metavar="FILE", web=False)],
    *,
    limit_eta: Annotated[float, Option("number", metavar="H")] | None = None,
) -> LedgerState:
    """Say what all releases about the same people promise together, and what is left.

    With ``limit_eta`` a new ledger is made.  ``protect``, ``summarize`` and ``synthesize`` enter
    their releases with ``--ledger`` and are refused where the limit would be exceeded.

    Guarantee: nobody who knows all other records and sees everything that is ever released with
    the ledger is right about any record's membership more than ``limit_eta`` above blind guessing,
    whatever was decided by looking at earlier releases.
    Theorem: X27 (proofs/ledger.md).
    Assumes: every release in which these people take part is entered.
    Edge cases: the limit cannot be changed, since that could be decided by looking; a run that was
    killed leaves its reservation, which counts.

    Args:
        file: the ledger, a JSON file.
        limit_eta: make a new ledger with this limit on η of all releases together, in (0, ½).

    Command line:
        memberbound ledger patients.ledger.json --limit-eta 0.1
        memberbound ledger patients.ledger.json

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> state = ledger(folder.name + "/ledger.json", limit_eta=0.1)
        >>> state.limit_eta, len(state.releases), round(state.left, 3)
        (0.1, 0, 0.1)
    """
    if limit_eta is not None and not isinstance(file, Ledger):
        remove_drafts(Path(file).parent)  # of a run that was killed while it made the ledger
        if not Path(file).exists():
            Ledger.create(file, limit_eta)
    book = opened_ledger(file)
    if limit_eta is not None and book.limit_eta != limit_eta:
        raise InputError(
            f"limit_eta must be the {book.limit_eta!r} that was fixed when the ledger was made, "
            f"got {limit_eta!r}."
        )
    return LedgerState(
        book.releases,
        book.mu,
        book.eta,
        book.left_eta,
        book.limit_mu,
        book.limit_eta,
        book.unit,
    )
