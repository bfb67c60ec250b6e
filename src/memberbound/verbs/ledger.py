"""The verb ``ledger``: the joint guarantee of all releases about the same people."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from memberbound.answers import Answer, Given, Upper, computed
from memberbound.declarations import Option
from memberbound.errors import InputError
from memberbound.files import remove_drafts
from memberbound.games import NeighbourGame, member_name
from memberbound.quantities import allowed, marked, percent, significant
from memberbound.release.ledger_file import Ledger, LedgerEntry, ledger_assumptions, open_ledger


@dataclass(frozen=True, repr=False)
class LedgerState(Answer):
    """A ledger's releases, their total, and the budget left.

    ``limit_eta`` holds for adaptively chosen releases.  ``eta`` and ``mu`` cover the releases so
    far, and hold only if no release's budget was chosen after seeing an earlier release.
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
        """The assumptions behind the numbers."""
        return ledger_assumptions(self.releases)

    @computed
    def sentence(self) -> str:
        """The joint guarantee of all releases, and the budget left."""
        made = sum(entry.state == "released" for entry in self.releases)
        who = member_name(self.unit)
        open_ = sum(entry.state == "reserved" for entry in self.releases)
        unfinished = f" and {open_} unfinished" if open_ else ""
        most = allowed(0.5, self.limit_eta)
        left = "Nothing is left."
        if self.left > 0:
            left = f"The next release may use at most η = {significant(self.left, 'given')}."
        return (
            f"Nobody who sees every release that this ledger allows is right about any {who}'s "
            f"membership more than {most} of the time. So far: {made} "
            f"release{'' if made == 1 else 's'}{unfinished}, together at "
            f"most {percent(0.5 + self.eta, 'upper')}. {left}"
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the limit, the budget spent, and one row per release."""
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
    file: Annotated[Ledger | str | os.PathLike[str], Option("file", metavar="FILE")],
    *,
    limit_eta: Annotated[float, Option("number", metavar="H", web=False)] | None = None,
) -> LedgerState:
    """Show the joint guarantee of all releases about the same people, and the budget left.

    Pass ``limit_eta`` to create a new ledger.  ``protect``, ``summarize`` and ``synthesize`` record
    their releases with ``--ledger``, and fail if a release would exceed the limit.

    Guarantee: no attacker who knows all other records and sees everything ever released with the
    ledger is right about any record's membership more than ``limit_eta`` above blind guessing,
    even if later releases were chosen after seeing earlier ones.
    Theorem: X27 (proofs/ledger.md).
    Assumes: every release that involves these people is recorded.
    Edge cases: the limit is fixed, because changing it could depend on what was released; a run
    that was killed leaves its reservation, which still counts.

    Args:
        file: the ledger, a JSON file.
        limit_eta: create a ledger with this limit on the η of all releases together, in (0, ½).

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
        remove_drafts(Path(file).parent)  # left by a run that was killed while creating the ledger
        if not Path(file).exists():
            Ledger.create(file, limit_eta)
    book = open_ledger(file)
    if limit_eta is not None and book.limit_eta != limit_eta:
        raise InputError(
            f"limit_eta must be the {book.limit_eta!r} that was fixed when the ledger was created, "
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
