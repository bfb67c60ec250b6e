"""Every result of the five papers with its status, its function and its erratum.

Each paper has a TOML file beside this module; ``X.toml`` holds what goes beyond the papers.  The
counterexamples that errata name there are functions in ``errata``, and run when they are asked for.

Examples:
    >>> errata()["I24-T8"].demonstrate().violated
    True
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from fractions import Fraction
from functools import cache
from importlib import import_module, resources
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from memberbound.answers import plain
from memberbound.declarations import Option
from memberbound.errors import InputError
from memberbound.games import NeighbourGame
from memberbound.papers.calls import Call
from memberbound.quantities import common_fields

if TYPE_CHECKING:
    from pandas import DataFrame

Status = Literal[
    "implemented", "erratum", "definition", "reproduced", "reproduced in part", "not computable"
]
#: The weight of an erratum.
Kind = Literal["false as stated", "false under one reading", "misprint"]

#: Keys of the papers in order; X is ours.
PAPERS = {
    "A25": "Aubinais, Gassiat and Piantanida, JMLR 2025",
    "A24": "its preprint of February 2024",
    "A23": "its preprint of October 2023",
    "I24": "Izzo et al., TMLR 2024",
    "L24": "Lowy et al., AAAI 2024",
    "X": "beyond the papers",
}


Number = float | int | Fraction
#: A counterexample: the printed value, the true one, whether the printed claim is violated, and
#: further numbers behind the comparison.
Outcome = tuple[Number, Number, bool, Mapping[str, Number]]


@dataclass(frozen=True)
class Counterexample:
    """The outcome of one computed check of a printed claim.

    Attributes:
        setting: The instance, in words; it satisfies the printed hypotheses.
        printed_value: The value of the printed claim in this setting.
        true_value: The computed value of the same quantity (a valid lower
            confidence bound where the computation is a simulation).
        violated: Whether the computed numbers contradict the printed claim.
        numbers: Further numbers behind the comparison, by name.
    """

    setting: str
    printed_value: Number
    true_value: Number
    violated: bool
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Erratum:
    """A claim of one of the papers that does not hold as printed.

    Attributes:
        kind: Its weight: the claim is contradicted as it stands; it is under one of the readings
            that the text allows; or a slip of notation, and what is concluded from it stands.
        printed: The printed claim, paraphrased.
        holds: The claim that holds instead.
        counterexample: Name of the function of ``errata`` that computes it.
        setting: The instance that it computes, in words.
    """

    kind: Kind
    printed: str
    holds: str
    counterexample: str
    setting: str

    def demonstrate(self) -> Counterexample:
        """Compute a counterexample to the printed claim; every call gives the same result."""
        outcome: Outcome = getattr(import_module(f"{__package__}.errata"), self.counterexample)()
        return Counterexample(self.setting, *outcome)


@dataclass(frozen=True)
class Entry:
    """One numbered result, in our words.

    Attributes:
        id: Key of the paper and number of the result, such as ``"A25-T14"``.
        title: What it is about, in a few words.
        statement: What it says, in the notation of the docs; for an erratum, what holds.
        status: Its status; a figure is reproduced if every claim about it comes out.
        call: Dotted path of the function that a reader calls.
        code: Dotted paths of other code that computes it.
        tests: Test files, or single tests, that check it.
        reason: Why nothing is computed, or which claims do not come out.
        also: Numbered equations of the paper that are part of the result.
        restates: The result that this one repeats under another number, erratum included.
        erratum: The error in the printed form, if there is one.
    """

    id: str
    title: str
    statement: str
    status: Status
    call: str | None = None
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str | None = None
    also: tuple[str, ...] = ()
    restates: str | None = None
    erratum: Erratum | None = None

    def to_dict(self, *, demonstrate: bool = False) -> dict[str, object]:
        """Return JSON-ready fields; counterexample and example are added only on request."""
        erratum: dict[str, object] | None = None
        if self.erratum is not None:
            erratum = {name: getattr(self.erratum, name) for name in ("kind", "printed", "holds")}
            if demonstrate:
                erratum["counterexample"] = plain(self.erratum.demonstrate())
        fields: dict[str, object] = plain(vars(self) | {"erratum": erratum})
        if demonstrate and self.call is not None:
            fields["example"] = Call(self.call).example
        return fields

    def summary(self, *, demonstrate: bool = False) -> str:
        """Return everything about the result as text."""
        lines = [f"{self.id}  {self.title}  [{self.status}]", self.statement]
        if self.also:
            lines.append(f"Also:  {', '.join(self.also)}")
        if self.reason:
            lines.append(f"Reason: {self.reason}")
        lines += [f"Code:  {path}" for path in self.code]
        lines += [f"Tests: {path}" for path in self.tests]
        if self.call is not None:
            call = Call(self.call)
            lines += ["", f"Call:  {call.module.__name__}.{call.signature}"]
            lines += [f"  {line}" for line in call.example.splitlines()]
        if self.erratum is not None:
            lines += ["", f"Erratum: {self.erratum.kind}"]
            lines += [f"Printed: {self.erratum.printed}", f"Holds:   {self.erratum.holds}"]
            if demonstrate:
                example = self.erratum.demonstrate()
                lines.append(f"Counterexample, computed now: {example.setting}")
                shown = plain(example)
                names = ("printed_value", "true_value", "violated")
                lines += [f"  {name}: {shown[name]}" for name in names]
                lines += [f"  {name}: {float(v)}" for name, v in example.numbers.items()]
        return "\n".join(lines)


@cache
def entries() -> tuple[Entry, ...]:
    """Return every result, paper by paper."""
    rows: list[dict[str, object]] = []
    for key in PAPERS:
        text = resources.files(__package__).joinpath(f"{key}.toml").read_text(encoding="utf-8")
        rows += tomllib.loads(text)["result"]
    texts = {row["id"]: row for row in rows}
    return tuple(_entry(row, texts) for row in rows)


def _entry(row: dict[str, object], rows: dict[object, dict[str, object]]) -> Entry:
    fields: dict[str, object] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    if fields["status"] not in get_args(Status):
        raise InputError(f"status of {row['id']} must be known, got {row['status']!r}.")
    # A restatement under another number has the erratum of its source.
    own = {part.name: fields.pop(part.name, None) for part in dataclass_fields(Erratum)}
    source = rows[fields["restates"]] if "restates" in fields else own
    if source.get("printed") is not None:
        fields["erratum"] = Erratum(*(str(source[name]) for name in own))  # type: ignore[arg-type]
    return Entry(**fields)  # type: ignore[arg-type]  # the tests check every entry


def errata() -> dict[str, Erratum]:
    """Return the errata by result id, sorted, restatements under other numbers included."""
    listed = {entry.id: entry.erratum for entry in entries() if entry.erratum is not None}
    return dict(sorted(listed.items()))


def errata_by_kind(listed: Iterable[Entry]) -> dict[str, int]:
    """Return how many different errata of each kind there are; restatements count once."""
    found = {entry.erratum for entry in listed if entry.erratum is not None}
    counts = Counter(erratum.kind for erratum in found)
    return {kind: counts[kind] for kind in get_args(Kind) if counts[kind]}


@dataclass(frozen=True, repr=False)
class Theorems:
    """The results asked for; ``demonstrate`` computes the counterexamples of errata.

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
            ("These are statements; each names the game and the records it protects itself.",),
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
        """Return a readable list, or everything about a single result."""
        if len(self.results) == 1:
            return self.results[0].summary(demonstrate=self.demonstrate)
        width = max(len(e.id) for e in self.results)
        wide = max(map(len, get_args(Status)))
        lines = [f"{e.id:<{width}}  {e.status:<{wide}}  {e.title}" for e in self.results]
        counts = Counter(e.status for e in self.results)
        listed = ", ".join(f"{counts[s]} {s}" for s in get_args(Status) if counts[s])
        told = [f"{len(lines)} results: {listed}"]
        kinds = errata_by_kind(self.results)
        if kinds:
            wrong = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            told.append(f"{sum(kinds.values())} different errata: {wrong}")
        return "\n".join([*lines, "", *told])


def theorems(id: Annotated[str, Option("text", metavar="ID")] | None = None) -> Theorems:
    """List the papers' results with status, errata, and the function to call.

    Asking for a single result shows the call with an example; of an erratum the counterexample is
    computed.

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
    everything = entries()
    if id is None:
        return Theorems(everything)
    wanted = id.strip().upper()
    single = [e for e in everything if wanted in map(str.upper, (e.id, *e.also))]
    if single:
        return Theorems(tuple(single), demonstrate=True)
    paper = [e for e in everything if _paper_of(e.id) == wanted]
    if paper:
        return Theorems(tuple(paper))
    raise InputError(
        f"id must be a result such as 'A25-T14' or a paper ({', '.join(PAPERS)}), got {id!r}."
    )


def _paper_of(id: str) -> str:
    return "X" if id.startswith("X") else id.split("-", 1)[0]
