"""What one running server holds: its private folder, its limits, uploads, jobs and views."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from memberbound.faces.web.child import Calculations
from memberbound.faces.web.gate import Limits, RefusedError
from memberbound.faces.web.jobs import Jobs
from memberbound.faces.web.processes import Processes
from memberbound.faces.web.uploads import Uploads
from memberbound.files import PrivateFolder, remove_leftovers

__all__ = [
    "Desk",
    "Views",
]

#: Of the private folder of a server; those that killed servers could not delete begin alike.
_PREFIX = "memberbound-serve-"

# ── What one running server holds: its limits, its private folder, uploads, jobs and views ────────


@dataclass
class Views:
    """Reports that were opened from a file, as pages, oldest first."""

    kept: int
    _pages: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, page: str, scripts: str) -> str:
        """Keep a page with the sources of its scripts, and return its id."""
        id = secrets.token_urlsafe(16)
        self._pages[id] = (page, scripts)
        while len(self._pages) > self.kept:
            del self._pages[next(iter(self._pages))]
        return id

    def __getitem__(self, id: str) -> tuple[str, str]:
        if id not in self._pages:
            raise RefusedError(404, "view must be one that is still kept, got another.")
        return self._pages[id]


class Desk:
    """The state of a server; everything it writes lies in one private folder."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        remove_leftovers()
        self._private = PrivateFolder(_PREFIX)
        self.folder = self._private.path
        self.processes = Processes()
        self.calculations = Calculations(limits, self.processes)
        self.uploads = Uploads(self.folder / "files", limits, self.processes)
        self.jobs = Jobs(self.folder / "jobs", limits, self.processes)
        self.views = Views(limits.kept_views)

    def warm_up(self) -> None:
        """Start processes before they are needed."""
        self.processes.warm_up()
        self.calculations.warm_up()

    async def close(self) -> None:
        """Stop all jobs and delete everything."""
        try:
            await self.jobs.close()
            await self.calculations.close()
        finally:
            await asyncio.to_thread(self._private.remove)
