"""Every result of the five papers with its status, its function and its erratum.

Each paper has a TOML file beside this module; ``X.toml`` holds what goes beyond the papers.  The
counterexamples that errata name there are functions in ``iid_errata`` and ``subset_errata``, and
run on request.

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
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib import import_module, resources
from typing import Literal, get_args

from memberbound.answers import plain
from memberbound.errors import InputError
from memberbound.papers.calls import Call

Status = Literal[
    "implemented", "erratum", "definition", "reproduced", "reproduced in part", "not computable"
]
STATUSES: tuple[str, ...] = get_args(Status)
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
        kind: Its weight: the claim is contradicted as printed; contradicted under one of the
            possible readings; or a slip of notation that does not affect the conclusions.
        printed: The printed claim, paraphrased.
        holds: The claim that holds instead.
        counterexample: Module and name of the function that computes it.
        setting: The instance that it computes, in words.
    """

    kind: Kind
    printed: str
    holds: str
    counterexample: str
    setting: str

    def demonstrate(self) -> Counterexample:
        """Compute a counterexample to the printed claim; every call gives the same result."""
        module, _, name = self.counterexample.partition(".")
        outcome: Outcome = getattr(import_module(f"{__package__}.{module}"), name)()
        return Counterexample(self.setting, *outcome)


@dataclass(frozen=True)
class Entry:
    """One numbered result, in our words.

    Attributes:
        id: Key of the paper and number of the result, such as ``"A25-T14"``.
        title: Its subject, in a few words.
        statement: The claim, in the notation of the docs; for an erratum, the corrected claim.
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
    if fields["status"] not in STATUSES:
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


def find_results(id: str) -> tuple[Entry, ...]:
    """Return the result, or the results of the paper, with this id; upper or lower case."""
    wanted = id.strip().upper()
    single = [e for e in entries() if wanted in map(str.upper, (e.id, *e.also))]
    found = single or [e for e in entries() if _paper_of(e.id) == wanted]
    if not found:
        names = [name for entry in entries() for name in (entry.id, *entry.also)]
        same = [name for name in names if name.upper().endswith(f"-{wanted}")]
        near = same or get_close_matches(wanted, names, n=3, cutoff=0.75)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        papers = ", ".join(PAPERS)
        raise InputError(
            f"id must be a result such as 'A25-T14' or a paper ({papers}), got {id!r}{hint}"
        )
    return tuple(found)


def _paper_of(id: str) -> str:
    return "X" if id.startswith("X") else id.split("-", 1)[0]
