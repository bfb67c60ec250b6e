"""Every result of the five papers, what became of it, and what is wrong with it.

Each paper has a TOML file beside this module; ``X.toml`` holds what goes beyond the papers.

Examples:
    >>> ERRATA["I24-T8"].demonstrate().violated
    True
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from memberbound.declarations import Option
from memberbound.errors import InputError
from memberbound.games import NeighbourGame
from memberbound.papers import errata_aubinais, errata_izzo, errata_lowy
from memberbound.papers.errata import Erratum
from memberbound.quantities import common_fields

__all__ = ["ERRATA", "PAPERS", "Entry", "Status", "Theorems", "entries", "theorems"]

Status = Literal["implemented", "erratum", "definition", "not computable", "proved, not used"]

#: Keys of the papers in order; X is ours.
PAPERS = {
    "A25": "Aubinais, Gassiat and Piantanida, JMLR 2025",
    "A24": "its preprint of February 2024",
    "A23": "its preprint of October 2023",
    "I24": "Izzo et al., TMLR 2024",
    "L24": "Lowy et al., AAAI 2024",
    "X": "beyond the papers",
}

#: Errata by result id.
ERRATA: Mapping[str, Erratum] = MappingProxyType(
    dict(sorted((errata_aubinais.ERRATA | errata_izzo.ERRATA | errata_lowy.ERRATA).items()))
)


@dataclass(frozen=True)
class Entry:
    """One numbered result, in our words.

    Attributes:
        id: Key of the paper and number of the result, such as ``"A25-T14"``.
        title: What it is about, in a few words.
        statement: What it says, in the notation of the docs; for an erratum, what holds.
        status: What became of it.
        code: Dotted paths of what computes it.
        tests: Test files, or single tests, that check it.
        reason: Why nothing is computed, or why what is proved is not used, where that is so.
        also: Numbered equations of the paper that are part of the result.
    """

    id: str
    title: str
    statement: str
    status: Status
    code: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str | None = None
    also: tuple[str, ...] = ()

    def to_dict(self, *, demonstrate: bool = False) -> dict[str, object]:
        """Return JSON-ready fields; an erratum's counterexample is computed only on request."""
        found = ERRATA.get(self.id)
        erratum: dict[str, object] | None = None
        if found is not None:
            erratum = {"printed": found.printed, "holds": found.holds}
            if demonstrate:
                erratum["counterexample"] = found.demonstrate().to_dict()
        return {
            "id": self.id,
            "also": list(self.also),
            "title": self.title,
            "statement": self.statement,
            "status": self.status,
            "reason": self.reason,
            "code": list(self.code),
            "tests": list(self.tests),
            "erratum": erratum,
        }


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """Return every result, paper by paper."""
    found: list[Entry] = []
    for key in PAPERS:
        text = resources.files(__package__).joinpath(f"{key}.toml").read_text(encoding="utf-8")
        for row in tomllib.loads(text)["result"]:
            if row["status"] not in get_args(Status):
                raise InputError(f"status of {row['id']} must be known, got {row['status']!r}.")
            found.append(
                Entry(
                    id=row["id"],
                    title=row["title"],
                    statement=row["statement"],
                    status=row["status"],
                    code=tuple(row.get("code", ())),
                    tests=tuple(row.get("tests", ())),
                    reason=row.get("reason"),
                    also=tuple(row.get("also", ())),
                )
            )
    return tuple(found)


@dataclass(frozen=True)
class Theorems:
    """The entries asked for; ``demonstrate`` computes the counterexamples of errata."""

    results: tuple[Entry, ...]
    demonstrate: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        ids = tuple(entry.id for entry in self.results)
        fields = common_fields(
            "theorems",
            NeighbourGame(),
            ids,
            ("These are statements; each names the game and the records it protects itself.",),
        )
        rows = [entry.to_dict(demonstrate=self.demonstrate) for entry in self.results]
        return fields | {"results": rows}

    def counts(self) -> dict[str, int]:
        """Return how many entries have each status."""
        return {s: sum(e.status == s for e in self.results) for s in get_args(Status)}

    def summary(self) -> str:
        """Return a readable list, or the whole story of a single entry."""
        if len(self.results) == 1:
            return _story(self.results[0], self.demonstrate)
        width = max(len(e.id) for e in self.results)
        lines = [f"{e.id:<{width}}  {e.status:<16}  {e.title}" for e in self.results]
        counts = ", ".join(f"{n} {s}" for s, n in self.counts().items() if n)
        return "\n".join([*lines, "", f"{len(lines)} results: {counts}"])


def _story(entry: Entry, demonstrate: bool) -> str:
    lines = [f"{entry.id}  {entry.title}  [{entry.status}]", entry.statement]
    if entry.also:
        lines.append(f"Also:  {', '.join(entry.also)}")
    if entry.reason:
        lines.append(f"Reason: {entry.reason}")
    lines += [f"Code:  {path}" for path in entry.code]
    lines += [f"Tests: {path}" for path in entry.tests]
    erratum = ERRATA.get(entry.id)
    if erratum is not None:
        lines += ["", f"Printed: {erratum.printed}", f"Holds:   {erratum.holds}"]
        if demonstrate:
            shown = erratum.demonstrate()
            lines.append(f"Counterexample, computed now: {shown.setting}")
            for name, value in shown.to_dict().items():
                if name in ("printed_value", "true_value", "violated") and value is not None:
                    lines.append(f"  {name}: {value}")
            lines += [f"  {name}: {value}" for name, value in shown.numbers.items()]
    return "\n".join(lines)


def theorems(id: Annotated[str, Option("text", metavar="ID")] | None = None) -> Theorems:
    """List the papers' results: what holds, what is wrong, which code and tests cover it.

    Asking for a single erratum computes its counterexample.

    Args:
        id: a result (A25-T14), a numbered equation (A25-eq17) or a paper (L24), in upper or lower
            case (default: all).

    Command line:
        memberbound theorems
        memberbound theorems L24
        memberbound theorems I24-T8

    Examples:
        >>> theorems("x2").results[0].status
        'implemented'
        >>> theorems("A25-eq17").results[0].id
        'A25-T14'
    """
    everything = entries()
    if id is None:
        return Theorems(everything)
    wanted = id.strip().upper()
    single = [e for e in everything if wanted in map(str.upper, (e.id, *e.also))]
    if single:
        return Theorems(tuple(single), demonstrate=True)
    paper = [e for e in everything if _paper_of(e.id).upper() == wanted]
    if paper:
        return Theorems(tuple(paper))
    raise InputError(
        f"id must be a result such as 'A25-T14' or a paper ({', '.join(PAPERS)}), got {id!r}."
    )


def _paper_of(identifier: str) -> str:
    return "X" if identifier.startswith("X") else identifier.split("-", 1)[0]
