"""Terminal output: text wrapped to the width, with a style for each kind of number.

An answer's ``summary()`` is plain text of any width.  This module wraps its sentences, aligns the
continuation of a long value, and turns a table that is too wide into one block per row.  Output to
a file or a pipe is unchanged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, TextIO

from memberbound.quantities import NO_GUARANTEE, NO_LEAK, Kind

if TYPE_CHECKING:
    from memberbound.tables.roles import Reading
    from memberbound.tables.table import EmbeddedTable

#: Style of each kind: the blue, green and orange of the report, never distinguished by colour
#: alone.
STYLES: dict[Kind, str] = {
    "certificate": "bold color(33)",
    "audit": "bold color(35)",
    "estimate": "italic color(172)",
    "unproved": "dim",
}
_NUMBER = r" ?-?(?:[\d.,]+(?:e-?\d+)?(?: %)?|∞)"
_GAP = re.compile(r"\s{2,}")
#: Keep a sign with its number, and a number with its unit.
_TOGETHER = re.compile(r"(?<=[≤≥≈=→]) (?=\S)|(?<=\d) (?=%)")
#: A line of code, or a command.
_PASTED = re.compile(r"\s*(>>>|\.\.\.|memberbound [a-z-]+ .*--)")
#: Minimum width of a value; a narrower one is printed below its name.
_NARROWEST = 24


def kinds_in(text: str, *, measures: bool) -> Iterator[tuple[int, int, Kind]]:
    """Yield the spans of certified, measured and estimated numbers in a text.

    ``≥`` marks a measured lower bound in the answer of a verb that ``measures``, and a certified
    one (of security) elsewhere.

    >>> list(kinds_in("success ≤ 55 %, seen ≈ 0.52", measures=True))
    [(8, 14, 'certificate'), (21, 27, 'estimate')]
    """
    signs: dict[str, Kind] = {
        "≤": "certificate",
        "≥": "audit" if measures else "certificate",
        "≈": "estimate",
    }
    unproved = rf"(?<!\bis ){NO_GUARANTEE}|{NO_LEAK}"
    for match in re.finditer(rf"[≤≥≈]{_NUMBER}|{unproved}", text):
        yield match.start(), match.end(), signs.get(match.group()[0], "unproved")


def wrap_text(text: str, width: int) -> str:
    r"""Wrap a text to lines of at most ``width`` characters, breaking at words only.

    >>> print(wrap_text("method  exact worst case of the law of these rows", 34))
    method  exact worst case of the
            law of these rows
    >>> print(wrap_text("attack    accuracy    advantage\nlira      0.71        0.42", 24))
    lira
      accuracy   0.71
      advantage  0.42
    """
    lines: list[str] = []
    for cells, group in groupby(text.split("\n"), key=lambda line: len(_cells(line))):
        block = list(group)
        if max(map(len, block)) <= width:
            lines += block
        elif cells > 2 and len(block) > 1 and not _ends_in_words(block, width):
            lines += _as_records([_cells(line) for line in block], width)
        else:
            for line in block:
                lines += _wrap_line(line, width)
    return "\n".join(lines)


def blocks(text: str, *, measures: bool) -> list[dict[str, object]]:
    r"""Split a summary into tables and paragraphs, for a page.

    A paragraph has one cell per row; a table of more than two columns begins with its heads.  A
    cell has the kind of its number, if it has one.

    >>> first, second = blocks("Sure.\n\nleak Δ  ≤ 0.04", measures=False)
    >>> first
    {'heads': [], 'rows': [[{'text': 'Sure.', 'kind': None}]]}
    >>> second["rows"][0][1]
    {'text': '≤ 0.04', 'kind': 'certificate'}
    """

    def cell(text: str) -> dict[str, str | None]:
        kinds = [kind for *_, kind in kinds_in(text, measures=measures)]
        return {"text": text, "kind": kinds[0] if kinds else None}

    made = []
    for count, group in groupby(text.split("\n"), key=lambda line: len(_cells(line))):
        lines = list(group)
        if count == 0:
            continue
        rows = [_cells(line) for line in lines]
        # An indented line belongs to the table above it, whose heads it has.
        headed = count > 2 and len(rows) > 1 and not lines[0].startswith(" ")
        heads = rows.pop(0) if headed else []
        made.append({"heads": heads, "rows": [[cell(item) for item in row] for row in rows]})
    return made


def _cells(line: str) -> list[str]:
    return _GAP.split(line.strip()) if line.strip() else []


def _ends_in_words(block: Sequence[str], width: int) -> bool:
    """Whether the last column of a table starts in one place, with room to wrap below it."""
    starts = {[gap.end() for gap in _GAP.finditer(line.rstrip())][-1] for line in block}
    return len(starts) == 1 and width - starts.pop() >= _NARROWEST


def _as_records(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Format a table as a block per row: its first cell, then every heading with its value."""
    _, *heads = rows[0]
    room = max(len(head) for head in heads)
    lines: list[str] = []
    for name, *values in rows[1:]:
        lines += _wrap_line(name, width)
        for head, value in zip(heads, values, strict=True):
            lines += _wrap_line(f"  {head:<{room}}  {value}", width)
    return lines


def _wrap_line(line: str, width: int) -> list[str]:
    """Wrap a line below the text that it continues; code and commands stay whole, to be pasted."""
    if len(line) <= width or _PASTED.match(line):
        return [line]
    start = len(line) - len(line.lstrip())
    gaps = [gap.end() for gap in _GAP.finditer(line, start)]
    below = start + (2 if re.match(r"\s*(- |note: |exposed: )", line) else 0)
    below = max((end for end in gaps if width - end >= _NARROWEST), default=below)
    wrapper = TextWrapper(
        width,
        subsequent_indent="# " if line.startswith("# ") else " " * below,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
    pieces = wrapper.wrap(_TOGETHER.sub("\u00a0", line))
    return [piece.replace("\u00a0", " ") for piece in pieces]


def print_text(text: str, *, measures: bool = False, stream: TextIO | None = None) -> None:
    """Print a text, wrapped and coloured on a terminal, unchanged elsewhere.

    The environment variable ``COLUMNS`` sets the width, and ``NO_COLOR`` disables colours.
    """
    from rich.console import Console
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        stream.write(f"{text}\n")
        return
    shown = Text(wrap_text(text, console.width))
    for start, end, kind in kinds_in(shown.plain, measures=measures):
        shown.stylize(STYLES[kind], start, end)
    console.print(shown, soft_wrap=True)


# ── A preview of how a file is read, for its owner, before long computations ──────────────────────

#: Maximum file size for a preview, in bytes, and maximum column names per kind.
_LARGEST, _NAMED = 2**26, 20
_HEADS = {
    "number": "numbers",
    "category": "categories",
    "date": "dates",
    "identifier": "identifiers, left out unless named",
    "text": "free text, left out unless named",
}


def preview_lines(
    path: Path, database_table: str | None = None, encoding: str | None = None
) -> list[str]:
    r"""Return a preview of how a file is read, a line per kind of column; empty if it is large.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "people.csv")
        >>> _ = file.write_text("#,age,town" + "".join(f"\n{k},{k % 9},Rome" for k in range(200)))
        >>> for line in preview_lines(file):
        ...     print(line)
        people.csv: 200 rows, 3 columns
          numbers: age
          categories: town
          identifiers, left out unless named: #
    """
    from memberbound.tables.opening import open_table

    if not path.is_file() or path.stat().st_size > _LARGEST:
        return []
    with open_table(path, database_table, encoding=encoding) as table:
        readings = table.readings()
        rows, blanks = _blanks(table.local)
        lines = [f"{path.name}: {rows} rows, {len(readings)} columns"]
        for role, head in _HEADS.items():
            named = [
                _describe_column(n, r, blanks[n], rows)
                for n, r in readings.items()
                if r.role == role
            ]
            if len(named) > _NAMED:  # columns with remarks first
                named.sort(key=lambda text: not text.endswith(")"))
                named = [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
            if named:
                lines.append(f"  {head}: {', '.join(named)}")
        return [*lines, *(f"  {note}" for note in table.header_notes)]


def _blanks(table: EmbeddedTable) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and of missing values by column."""
    from memberbound.tables.engine import identifier

    present = [f"count(nullif(trim({identifier(c)}::VARCHAR), ''))" for c in table.columns]
    query = f"SELECT count(*), {', '.join(present)} FROM {table.view}"
    row = table.run(lambda: table.engine.sql(query).fetchone())
    assert row is not None
    return row[0], {name: row[0] - n for name, n in zip(table.columns, row[1:], strict=True)}


def _describe_column(name: str, reading: Reading, blanks: int, rows: int) -> str:
    notes = []
    if reading.form in ("comma", "day-first"):
        notes.append("decimal comma" if reading.form == "comma" else "day first")
    if blanks:
        notes.append("empty" if blanks == rows else f"{blanks} blank{'' if blanks == 1 else 's'}")
    return f"{name} ({', '.join(notes)})" if notes else name
