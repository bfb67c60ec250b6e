"""The columns that a verb uses, chosen by their roles, with notes on those left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memberbound.errors import InputError
from memberbound.tables.roles import Reading


@dataclass(frozen=True)
class Selection:
    """The columns that a verb uses, those it leaves out by role, and notes about them."""

    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    readings: dict[str, Reading] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def roles(self) -> dict[str, str]:
        """The role of every column considered."""
        return {name: reading.role for name, reading in self.readings.items()}

    @property
    def assumption(self) -> tuple[str, ...]:
        """The assumption about left-out columns in a bound over these columns."""
        if not self.left_out:
            return ()
        names = ", ".join(map(repr, self.left_out))
        return (f"Models trained on the table do not use the columns left out: {names}.",)


def select_by_role(
    readings: dict[str, Reading],
    columns: str | Sequence[str] | None,
    *,
    apart: Sequence[str] = (),
    named: Sequence[str] = (),
    texts: bool = False,
) -> Selection:
    """Choose columns: the named ones, or all but identifiers and free text.

    ``apart`` are columns that are not features (a target, a unit), ``named`` those that the user
    mentioned elsewhere.  With ``texts``, free text is kept, with a note.  If only inferred
    identifiers remain, they are used.
    """
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        chosen = [c for c in chosen if c not in apart]
        left: list[str] = []
    else:
        free = [c for c in readings if c not in apart]
        unwanted = ("identifier",) if texts else ("identifier", "text")
        left = [c for c in free if readings[c].role in unwanted and c not in named]
        chosen = [c for c in free if c not in left]
        if not chosen and left:
            kept = [c for c in left if not readings[c].given]
            if not kept:
                raise InputError(
                    "roles must leave at least one column to look at, got "
                    f"{', '.join(map(repr, left))} as identifiers or free text."
                )
            chosen, left = kept, [c for c in left if c not in kept]
    notes = [_omission_note(c, readings[c]) for c in left]
    words = {"identifier": "looks like an identifier"} | ({"text": "is free text"} if texts else {})
    notes += [
        f"column {name!r} {words[readings[name].role]}; with it hardly any two rows are equal"
        for name in chosen
        if readings[name].role in words
    ]
    return Selection(tuple(chosen), tuple(left), readings, tuple(notes))


def _omission_note(name: str, reading: Reading) -> str:
    what = "an identifier" if reading.role == "identifier" else "free text"
    if reading.given:
        return f"column {name!r} is left out as {what}"
    return (
        f"column {name!r} looks like {what} and is left out; name it in columns, or give it "
        "another role, to use it"
    )
