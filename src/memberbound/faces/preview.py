"""What a file is read as: printed at a terminal before anything long, for its owner's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memberbound.tables.roles import Reading
    from memberbound.tables.table import Table

#: Bytes of a file beyond which nothing is shown, and columns that are named of a kind.
_LARGEST, _NAMED = 2**26, 20
_HEADS = {
    "number": "numbers",
    "category": "categories",
    "date": "dates",
    "identifier": "identifiers, left out unless named",
    "text": "free text, left out unless named",
}


def preview_lines(path: Path, database_table: str | None = None) -> list[str]:
    r"""Return what a file is read as, a line per kind of column; none for what is no small file.

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
    from memberbound.tables.source import header_notes
    from memberbound.tables.table import open_table

    if not path.is_file() or path.stat().st_size > _LARGEST:
        return []
    with open_table(path, database_table) as table:
        readings = table.readings()
        rows, blanks = _blanks(table)
        lines = [f"{path.name}: {rows} rows, {len(readings)} columns"]
        for role, head in _HEADS.items():
            named = [_shown(n, r, blanks[n], rows) for n, r in readings.items() if r.role == role]
            if len(named) > _NAMED:  # those with something to say first
                named.sort(key=lambda text: not text.endswith(")"))
                named = [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
            if named:
                lines.append(f"  {head}: {', '.join(named)}")
        return [*lines, *(f"  {note}" for note in header_notes(table))]


def _blanks(table: Table) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and of missing values by column."""
    from memberbound.tables.engine import identifier

    present = [f"count(nullif(trim({identifier(c)}::VARCHAR), ''))" for c in table.columns]
    query = f"SELECT count(*), {', '.join(present)} FROM {table.view}"
    row = table.run(lambda: table.engine.sql(query).fetchone())
    assert row is not None
    return row[0], {name: row[0] - n for name, n in zip(table.columns, row[1:], strict=True)}


def _shown(name: str, reading: Reading, blanks: int, rows: int) -> str:
    notes = []
    if reading.form in ("comma", "day-first"):
        notes.append("decimal comma" if reading.form == "comma" else "day first")
    if blanks:
        notes.append("empty" if blanks == rows else f"{blanks} blank{'' if blanks == 1 else 's'}")
    return f"{name} ({', '.join(notes)})" if notes else name
