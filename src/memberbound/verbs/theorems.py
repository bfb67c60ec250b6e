"""The verb ``theorems``: the status of every result of the papers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from memberbound.certificate import common_fields
from memberbound.declarations import Option
from memberbound.games import NeighbourGame
from memberbound.leaves import load_leaf

if TYPE_CHECKING:
    from pandas import DataFrame

    from memberbound.papers.results import Entry


@dataclass(frozen=True, repr=False)
class Theorems:
    """The requested results; ``demonstrate`` computes the counterexamples of errata.

    Examples:
        >>> theorems("X2")
        <Theorems: X2 differential privacy at any γ>
        >>> theorems("L24").to_frame().columns.tolist()
        ['id', 'title', 'status', 'kind', 'call', 'statement']
    """

    results: tuple[Entry, ...]
    demonstrate: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        ids = tuple(entry.id for entry in self.results)
        fields = common_fields(
            "theorems",
            NeighbourGame(),
            ids,
            ("These are statements; each one names its game and the records that it protects.",),
        )
        rows = [entry.to_dict(demonstrate=self.demonstrate) for entry in self.results]
        return fields | {"results": rows}

    def to_frame(self) -> DataFrame:
        """Return a data frame with a row per result."""
        import pandas as pd

        names = ("id", "title", "status", "kind", "call", "statement")
        rows = [
            vars(entry) | {"kind": entry.erratum.kind if entry.erratum else None}
            for entry in self.results
        ]
        return pd.DataFrame([[row[name] for name in names] for row in rows], columns=names)

    def __repr__(self) -> str:
        first = self.results[0]
        alone = len(self.results) == 1
        told = f"{first.id} {first.title}" if alone else f"{len(self.results)} results"
        return f"<Theorems: {told}>"

    def summary(self) -> str:
        """Return a readable list, or all fields of a single result."""
        if len(self.results) == 1:
            return self.results[0].summary(demonstrate=self.demonstrate)
        papers = load_leaf("papers")
        width = max(len(e.id) for e in self.results)
        names = [(e.call or "").rpartition(".")[2] for e in self.results]
        wide = max(map(len, names))
        lines = [
            f"{e.id:<{width}}  {name:<{wide}}  {e.title}"
            + (f" [{e.status}]" if e.status != "implemented" else "")
            for e, name in zip(self.results, names, strict=True)
        ]
        counts = Counter(e.status for e in self.results)
        listed = ", ".join(f"{counts[s]} {s}" for s in papers.STATUSES if counts[s])
        told = [f"{len(lines)} results: {listed}"]
        example = next((e for e in self.results if e.call), self.results[0])
        ask = f"memberbound theorems {example.id}"
        told.append(f"Second column: the function to call; {ask} prints the call with an example.")
        kinds = papers.errata_by_kind(self.results)
        if kinds:
            wrong = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            told.append(f"{sum(kinds.values())} different errata: {wrong}")
        return "\n".join([*lines, "", *told])


def theorems(id: Annotated[str, Option("text", metavar="ID")] | None = None) -> Theorems:
    """List the papers' results with status, errata, and the function to call.

    The list marks results that are not plainly implemented.  A single result is shown with its call
    and an example; for an erratum the counterexample is computed.

    Args:
        id: a result (A25-T14), a numbered equation (A25-eq17) or a paper (L24), in upper or lower
            case (default: all).

    Command line:
        memberbound theorems
        memberbound theorems L24
        memberbound theorems A25-T14
        memberbound theorems I24-T8

    Examples:
        >>> theorems("x2").results[0].status
        'implemented'
        >>> theorems("A25-eq17").results[0].id
        'A25-T14'
    """
    papers = load_leaf("papers")
    if id is None:
        return Theorems(papers.entries())
    return Theorems(papers.find_results(id), demonstrate=id.strip().upper() not in papers.PAPERS)
