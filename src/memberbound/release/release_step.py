"""The step that writes a release of all rows: charge its budget, draw it, save it, confirm it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memberbound.errors import whole_number
from memberbound.files import check_output
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import ledger_entry
from memberbound.release.noise import check_eta_range
from memberbound.release.saving import save
from memberbound.tables.frame_files import check_sheet
from memberbound.tables.opening import path_of

#: Charge a budget, before any noise is drawn.
Reserve = Callable[[Budget], None]
Released = TypeVar("Released")


@dataclass(frozen=True)
class ReleaseStep:
    """Options that releases of all rows share, checked before the rows are read.

    ``formats`` are the endings that ``out`` may have; with none its caller has checked it.

    Examples:
        >>> step = ReleaseStep("summarize", "people.csv", eta=0.05)
        >>> step.run("mean", lambda reserve: reserve(Budget.for_eta(step.eta, slack=1e-9)))
    """

    command: str
    source: object
    eta: float
    out: str | os.PathLike[str] | None = None
    ledger: object = None
    seed: int | None = None
    formats: tuple[str, ...] = ()
    force: bool = False

    def __post_init__(self) -> None:
        check_eta_range(self.eta)
        if self.seed is not None:
            whole_number("insecure_seed", self.seed, at_least=0)
        if self.out is not None and self.formats:
            source = path_of(self.source)
            check_output(self.out, formats=self.formats, source=source, force=self.force)
            check_sheet(self.out, rows=0)

    def run(
        self,
        what: str,
        draw: Callable[[Reserve], Released],
        write: Callable[[Released, Path], object] | None = None,
        *,
        entry_id: str | None = None,
    ) -> Released:
        """Return what ``draw`` returns, written to ``out`` and entered in the ledger.

        ``draw`` charges its budget by its argument before it draws noise.  The ledger's entry is
        confirmed once the file is written (by :func:`~memberbound.release.saving.save`, or
        ``write``).  A stopped run that continues has an ``entry_id``, and is charged once.
        """
        with ledger_entry(
            self.ledger,
            self.command,
            what,
            self.eta,
            self.out,
            table=self.source,
            entry_id=entry_id,
        ) as reserve:
            released = draw(reserve)
            if self.out is not None and write is not None:
                write(released, Path(self.out))
            elif self.out is not None:
                save(released, Path(self.out), force=self.force)
        return released
