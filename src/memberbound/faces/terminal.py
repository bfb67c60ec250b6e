"""What a terminal shows: text that fits its width, broken at words, with a look for each kind.

An answer's ``summary()`` is plain text of any width.  Here its sentences are wrapped, a value that
is too long is continued below itself, and a table that is too wide becomes one small block per row.
Nothing of it changes what is written into a file or a pipe.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from itertools import groupby
from textwrap import TextWrapper, wrap
from typing import TYPE_CHECKING, TextIO

from memberbound.quantities import NO_GUARANTEE, NO_LEAK, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from memberbound.tables.roles import Reading
    from memberbound.tables.table import Table

#: How each kind looks: the blue, green and orange of the report, and never by colour alone.
STYLES: dict[Kind, str] = {
    "certificate": "bold color(33)",
    "audit": "bold color(35)",
    "estimate": "italic color(172)",
    "unproved": "dim",
}
_NUMBER = r" ?-?(?:[\d.,]+(?:e-?\d+)?(?: %)?|∞)"
_GAP = re.compile(r"\s{2,}")
#: A sign stays beside its number, and a number beside its unit.
_TOGETHER = re.compile(r"(?<=[≤≥≈=→]) (?=\S)|(?<=\d) (?=%)")
#: An estimate with its interval.
_INTERVAL = re.compile(r"(-?\d\.\d+) \[(-?\d\.\d+), (-?\d\.\d+)\]")
#: A head of a table is broken at words to this width.
_HEAD = 9
#: A value that has less room than this goes below its name.
_NARROWEST = 24


def kinds_in(text: str, *, measures: bool) -> Iterator[tuple[int, int, Kind]]:
    """Yield where a text has a number of some kind.

    ``≥`` stands before a measured floor in the answer of a verb that ``measures``, and before a
    certified one (of a security) elsewhere.

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


def fitted(text: str, width: int) -> str:
    r"""Return a text whose lines have at most ``width`` characters, broken at words only.

    >>> print(fitted("method  exact worst case of the law of these rows", 34))
    method  exact worst case of the
            law of these rows
    >>> print(fitted("attack    accuracy    advantage\nlira      0.71        0.42", 24))
    lira
      accuracy   0.71
      advantage  0.42
    """
    lines: list[str] = []
    for cells, group in groupby(text.split("\n"), key=lambda line: len(_cells(line))):
        block = list(group)
        if max(map(len, block)) <= width:
            lines += block
        elif cells > 2 and len(block) > 1:
            lines += _narrow_table([_cells(line) for line in block], width)
        else:
            for line in block:
                lines += _wrapped(line, width)
    return "\n".join(lines)


@dataclass(frozen=True)
class Cell:
    """A cell of a table, and the kind of its number if it has one."""

    text: str
    kind: Kind | None


@dataclass(frozen=True)
class Block:
    """A paragraph (one cell per row), or a table whose rows have equally many cells."""

    heads: list[str]
    rows: list[list[Cell]]


def blocks(text: str, *, measures: bool) -> list[Block]:
    r"""Return a summary as the tables and paragraphs that it is made of, for a page.

    A table of more than two columns begins with its heads.

    >>> first, second = blocks("Sure.\n\nleak Δ  ≤ 0.04\nrows    12", measures=False)
    >>> [cell.text for (cell,) in first.rows]
    ['Sure.']
    >>> [[(cell.text, cell.kind) for cell in row] for row in second.rows]
    [[('leak Δ', None), ('≤ 0.04', 'certificate')], [('rows', None), ('12', None)]]
    """

    def cell(text: str) -> Cell:
        return Cell(text, next((kind for *_, kind in kinds_in(text, measures=measures)), None))

    made: list[Block] = []
    for count, group in groupby(text.split("\n"), key=lambda line: len(_cells(line))):
        rows = [_cells(line) for line in group]
        if count == 0:
            continue
        heads = rows.pop(0) if count > 2 and len(rows) > 1 else []
        made.append(Block(heads, [[cell(item) for item in row] for row in rows]))
    return made


def _cells(line: str) -> list[str]:
    return _GAP.split(line.strip()) if line.strip() else []


def _narrow_table(rows: list[list[str]], width: int) -> list[str]:
    """Return a table with one line per row, its heads broken and its intervals shortened.

    Of ``0.651 [0.622, 0.681]`` as much is kept as there is room for: ``0.65 ≥ 0.62``, ``≥ 0.62``.
    Where that is not enough, every row becomes a block.
    """
    for form in ("", "{estimate} ≥ {floor}", "≥ {floor}"):
        body = [[row[0], *(_shortened(cell, form) for cell in row[1:])] for row in rows[1:]]
        widths = [max(map(len, column)) for column in zip(*body, strict=True)]
        heads = [
            [head] if len(head) <= w else wrap(head, _HEAD, break_long_words=False)
            for head, w in zip(rows[0], widths, strict=True)
        ]
        widths = [max(w, *map(len, head)) for w, head in zip(widths, heads, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            deep = max(map(len, heads))
            above = [[*[""] * (deep - len(head)), *head] for head in heads]
            lines = [*zip(*above, strict=True), *body]
            return [
                "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
                for line in lines
            ]
    return _as_records(rows, width)


def _shortened(cell: str, form: str) -> str:
    """Return an interval with two digits, its ends rounded outwards; anything else as it is."""
    match = _INTERVAL.fullmatch(cell)
    if match is None or not form:
        return cell
    estimate, low, _ = map(Decimal, match.groups())
    cent = Decimal("0.01")
    return form.format(estimate=estimate.quantize(cent), floor=low.quantize(cent, ROUND_FLOOR))


def _as_records(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a table as a block per row: its first cell, and below it every head with its value."""
    _, *heads = rows[0]
    room = max(len(head) for head in heads)
    lines: list[str] = []
    for name, *values in rows[1:]:
        lines += _wrapped(name, width)
        for head, value in zip(heads, values, strict=True):
            lines += _wrapped(f"  {head:<{room}}  {value}", width)
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line in pieces; those after the first stand below the text that they continue."""
    if len(line) <= width:
        return [line]
    start = len(line) - len(line.lstrip())
    gap = _GAP.search(line, start)
    below = start + (2 if re.match(r"\s*(- |note: |exposed: )", line) else 0)
    if gap is not None and width - gap.end() >= _NARROWEST:
        below = gap.end()
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


@dataclass
class Countdown:
    """The time left of some work: estimated at each report of it, and passing in between.

    >>> left = Countdown()
    >>> [left.shown(*now) for now in [(0, 4, 5), (1, 4, 10), (1, 4, 25), (1, 4, 50), (4, 4, 60)]]
    ['0:05 so far', 'about 0:30 left', 'about 0:15 left', '0:50 so far', 'about 0:00 left']
    """

    done: float = 0.0
    #: When the work ends, if all of it takes as long as what was done.
    end: float | None = None

    def shown(self, done: float, total: float | None, elapsed: float) -> str:
        """Return the time left after so many seconds; how long it took where none can be said."""
        if total and done > self.done:
            self.done, self.end = done, elapsed * total / done
        if self.end is None or self.end < elapsed:
            return f"{_clock(elapsed)} so far"
        return f"about {_clock(self.end - elapsed)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def on_terminal(stream: TextIO) -> bool:
    """Tell whether somebody reads what is written here, and not a file or a pipe."""
    return stream.isatty()


def print_text(text: str, *, measures: bool = False, stream: TextIO | None = None) -> None:
    """Print a text: wrapped and with colours on a terminal, as it is elsewhere.

    ``COLUMNS`` in the environment is the terminal's width, and ``NO_COLOR`` asks for no colours.
    """
    from rich.console import Console
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        stream.write(f"{text}\n")
        return
    shown = Text(fitted(text, console.width))
    for start, end, kind in kinds_in(shown.plain, measures=measures):
        shown.stylize(STYLES[kind], start, end)
    console.print(shown, soft_wrap=True)


# ── A look at a table before anything long ────────────────────────────────────────────────────────
#
# It is computed from the rows, so it is for whoever owns them, and part of no answer.

#: Bytes of a file that is looked at: beyond, the look itself would take long.
_LARGEST = 2**26
#: Columns of one kind that are named.
_NAMED = 20
_HEADS = {
    "number": "numbers",
    "category": "categories",
    "date": "dates",
    "identifier": "identifiers, left out unless named",
    "text": "free text",
}


def preview_lines(path: Path, database_table: str | None = None) -> list[str]:
    r"""Return what a file is read as, a line per kind of column; none for what is no small file.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> file = Path(tempfile.mkdtemp(), "people.csv")
        >>> _ = file.write_text("#,age,town" + "".join(f"\n{k},{k % 9},Rome" for k in range(200)))
        >>> for line in preview_lines(file):
        ...     print(line)
        people.csv: 200 rows, 3 columns
          numbers: age
          categories: town
          identifiers, left out unless named: #
    """
    from memberbound.tables.roles import ROLES
    from memberbound.tables.table import open_table

    if not path.is_file() or path.stat().st_size > _LARGEST:
        return []
    with open_table(path, database_table) as table:
        readings = table.readings()
        rows, blanks = _blanks(table)
        lines = [f"{path.name}: {rows} rows, {len(readings)} columns"]
        for role in ROLES:
            named = [_shown(n, r, blanks[n], rows) for n, r in readings.items() if r.role == role]
            if len(named) > _NAMED:  # those with something to say first
                named.sort(key=lambda text: not text.endswith(")"))
                named = [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
            if named:
                lines.append(f"  {_HEADS[role]}: {', '.join(named)}")
        return lines


def _blanks(table: Table) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and of missing values by column."""
    from memberbound.tables.engine import identifier

    present = [f"count(nullif(trim({identifier(c)}::VARCHAR), ''))" for c in table.columns]
    query = f"SELECT count(*), {', '.join(present)} FROM {table.view}"
    row = table.run("looking at the table", lambda: table.engine.sql(query).fetchone())
    assert row is not None
    return row[0], {name: row[0] - n for name, n in zip(table.columns, row[1:], strict=True)}


def _shown(name: str, reading: Reading, blanks: int, rows: int) -> str:
    notes = []
    if reading.form in ("comma", "day-first"):
        notes.append("decimal comma" if reading.form == "comma" else "day first")
    if blanks:
        notes.append("empty" if blanks == rows else f"{blanks} blank{'' if blanks == 1 else 's'}")
    return f"{name} ({', '.join(notes)})" if notes else name
