"""Files of other programs: Excel, SQLite, Stata, SPSS and SAS.

Each file gives columns, with or without declared types, and a stream of rows:

- *Stata, SPSS, SAS* declare types, formats and value labels.  Numbers are doubles, dates are
  recognised by their format, and a labelled code becomes its label if labels are distinct.
- *Excel* types cells, not columns; the first row of a sheet names the columns.  Cells with an error
  are missing.
- *SQLite* types values, too; column types are only affinities.

If cells are typed and the table is public, a column has the common type of its cells, or else is
text, in which ``1`` and ``"1"`` differ.  In a secret table no row may affect how others are read,
so every such column is text.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from memberbound.errors import InputError
from memberbound.tables.engine import identifier, literal, one_sentence
from memberbound.tables.source import pick_table
from memberbound.threads import no_warnings

if TYPE_CHECKING:
    import pyarrow as pa
    from openpyxl import Workbook
    from openpyxl.cell import Cell

Row = tuple[object, ...]
#: Returns an iterator over all rows, from the first one, on every call.
Rows = Callable[[], Iterator[Row]]

#: The pyreadstat function for each file ending.
_STATISTICS = {".dta": "dta", ".sav": "sav", ".zsav": "sav", ".por": "por"}
_STATISTICS |= {".sas7bdat": "sas7bdat", ".xpt": "xport"}
_STATA_SAS, _SPSS = dt.date(1960, 1, 1), dt.date(1582, 10, 14)
#: Unit in seconds and origin of dates, by the prefix of their format.
_STATA_DATES = {"%td": (86_400.0, _STATA_SAS), "%tc": (1e-3, _STATA_SAS)}
_SPSS_DATES = dict.fromkeys(("DATE", "ADATE", "EDATE", "SDATE", "JDATE"), (1.0, _SPSS))
_SAS_DATES = {"DATETIME": (1.0, _STATA_SAS)} | dict.fromkeys(
    ("DATE", "MMDDYY", "DDMMYY", "YYMMDD"), (86_400.0, _STATA_SAS)
)
_DATES = {".dta": _STATA_DATES, ".sas7bdat": _SAS_DATES, ".xpt": _SAS_DATES}
#: Texts that look like a value of another type.
_LIKE_A_VALUE = re.compile(r'\s*([-+.\d"\[{].*|true|false|nan|inf)?\s*', re.DOTALL | re.IGNORECASE)
_BATCH = 16_384
#: Whole numbers up to this are exact as doubles.
_EXACT = 2**53


def foreign_rows(
    path: Path, sheet: str | None, *, secret: bool
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the rows of a file.

    ``sheet`` names a sheet of a workbook; it may be left out if only one sheet has a first row.
    """
    ending = path.suffix.lower()
    if ending in _STATISTICS:
        return _statistics(path, ending)
    return _batches(*_sheet(path, sheet), secret=secret)


def _package(name: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"{path} needs {name}: pip install memberbound[files], or save it as CSV or Parquet."
        ) from None


# ── Typed cells ───────────────────────────────────────────────────────────────────────────────────


def _pick(book: Workbook, sheet: str | None, path: Path) -> str:
    """Return the name of the sheet to read: the given one, or the only one with a first row."""
    names = book.sheetnames
    if sheet is not None:
        if sheet not in names:
            listed = ", ".join(map(repr, names))
            raise InputError(f"table must be a sheet of {path}, got {sheet!r}; it has {listed}.")
        return sheet

    def has_first_row(name: str) -> bool:
        book[name].reset_dimensions()
        return any(next(book[name].iter_rows(max_row=1, values_only=True), ()))

    full = [name for name in names if has_first_row(name)] if names[1:] else names
    if len(full) > 1:
        listed = ", ".join(map(repr, full))
        raise InputError(
            f"table must name one sheet of {path}, which has {listed} (--table NAME; in Python "
            "database_table=NAME)."
        )
    return str((full or names)[0])


def _sheet(path: Path, sheet: str | None) -> tuple[list[str], Rows]:
    openpyxl = _package("openpyxl", path)

    def cells() -> Iterator[Row]:
        book = None
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            chosen = book[_pick(book, sheet, path)]
            chosen.reset_dimensions()  # the recorded size may be wrong
            rows = chosen.iter_rows()
            while (row := _next_row(rows, path)) is not None:
                yield row
        except InputError:
            raise
        except Exception as error:  # from a damaged archive or XML; its message may quote data
            damage = type(error).__name__
            raise InputError(f"{path} could not be read: it is damaged ({damage}).") from None
        finally:
            if book is not None:
                book.close()

    head = list(next(cells(), ()))
    while head and head[-1] is None:
        head.pop()
    if not head:
        raise InputError(f"{path} must name its columns in the first row of the sheet.")
    names = [str(name).strip() or f"column{k}" for k, name in enumerate(head)]

    def rows() -> Iterator[Row]:
        for row in islice(cells(), 1, None):
            yield (*row[: len(names)], *[None] * (len(names) - len(row)))

    return names, rows


def _next_row(rows: Iterator[tuple[Cell, ...]], path: Path) -> Row | None:
    """Return the cells of the next row; errors and invalid dates are missing."""
    with no_warnings:  # a warning would depend on a record
        try:
            row = next(rows, None)
        except ValueError:
            raise InputError(f"{path} must hold numbers in its numeric cells.") from None
    return None if row is None else tuple(None if c.data_type == "e" else c.value for c in row)


def _batches(
    names: list[str], rows: Rows, *, secret: bool
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    kinds: list[set[type]] = [set() for _ in names]
    if not secret:
        for row in rows():
            for kind, value in zip(kinds, row, strict=True):
                long = isinstance(value, int) and abs(value) > _EXACT
                kind.add(object if long else type(value))
    types = [_column_type(kind - {type(None)}) for kind in kinds]
    return _typed_batches(names, types, rows(), [partial(_text, secret=secret)] * len(names))


def _column_type(kinds: set[type]) -> pa.DataType | None:
    """Return the common type of a column's cells, or None."""
    import pyarrow as pa

    if kinds == {int, float}:
        return pa.float64()
    typed = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    typed[dt.datetime] = pa.timestamp("us")
    return typed.get(*kinds) if len(kinds) == 1 else None


def _typed_batches(
    names: Sequence[str],
    types: Sequence[pa.DataType | None],
    rows: Iterator[Row],
    texts: Sequence[Callable[[object], str | None]],
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows with columns of these types; a column without a type becomes text."""
    import pyarrow as pa

    schema = pa.schema([(n, kind or pa.string()) for n, kind in zip(names, types, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        while block := list(islice(rows, _BATCH)):
            columns = zip(zip(*block, strict=True), types, texts, strict=True)
            arrays = [
                pa.array(values if kind is not None else map(text, values), kind or pa.string())
                for values, kind, text in columns
            ]
            yield pa.record_batch(arrays, schema=schema)

    return schema, batches()


def _text(value: object, *, secret: bool) -> str | None:
    """Convert a value to text; in a public table, texts differ from values of other types."""
    if value is None:
        return None
    if isinstance(value, str):
        if secret:  # half of a surrogate pair must not reject the table
            return value.encode("utf-8", "replace").decode("utf-8")
        like_another = _LIKE_A_VALUE.fullmatch(value)
        return json.dumps(value, ensure_ascii=False) if like_another else value
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time()
        return value.date().isoformat() if midnight else value.isoformat(" ")
    if isinstance(value, bool | int | float | dt.date | dt.time | dt.timedelta):
        return str(value)
    return json.dumps(value, default=str)


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────

#: The storage classes in a column, as a bit mask.
_STORED_CASES = (
    "CASE typeof({}) WHEN 'integer' THEN 1 WHEN 'real' THEN 2 WHEN 'text' THEN 4 "
    "WHEN 'blob' THEN 8 END"
)
#: Texts that look like a literal, in a column that may hold numbers, and in one of text affinity,
#: where numbers are stored as text.
_LIKE_A_LITERAL = re.compile(
    r"'.*|x'.*|[+-]?([0-9]+[.]?[0-9]*(e[+-]?[0-9]+)?|inf|nan)", re.DOTALL | re.IGNORECASE
)
_LIKE_BYTES = re.compile(r"'.*|x'.*", re.DOTALL)


def sqlite_rows(
    path: Path, table: str | None, *, secret: bool
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the rows of an SQLite table, as stored."""
    import pyarrow as pa

    def select(query: str) -> Iterator[Row]:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = _decode if secret else str
            # Prevent definitions in the file from calling other functions.
            database.execute("PRAGMA trusted_schema = OFF")
            try:
                yield from database.execute(query)
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
                # Its message quotes the text, which is secret.
                raise InputError(
                    f"{path} must have texts in UTF-8, got one that is not. Save it again in "
                    "that encoding."
                ) from None

    # Only stored tables have a first page: neither views nor virtual tables do.
    tables = select(
        "SELECT name, rootpage > 0 FROM sqlite_master WHERE type IN ('table', 'view') AND "
        "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    found = {str(name): (str(name), bool(stored)) for name, stored in tables}
    name = identifier(pick_table(path, table, found))
    declared = {str(row[1]): str(row[2]) for row in select(f"PRAGMA table_xinfo({name})")}
    # A unary plus drops collation and declared type, which might trigger a conversion.
    expressions = [f"+{identifier(column)}" for column in declared]
    stored: Row = (None,) * len(expressions)
    if not secret:
        kinds = [f"sum(DISTINCT {_STORED_CASES.format(value)})" for value in expressions]
        (stored,) = select(f"SELECT {', '.join(kinds)} FROM {name}")
    plain: dict[object, pa.DataType] = {1: pa.int64(), 2: pa.float64()}
    plain |= {4: pa.string(), 8: pa.binary()}
    return _typed_batches(
        list(declared),
        [plain.get(kind) for kind in stored],
        select(f"SELECT {', '.join(expressions)} FROM {name}"),
        [partial(_literal, text=_stores_text(kind)) for kind in declared.values()],
    )


def _stores_text(declared: str) -> bool:
    """Return whether a column of this declared type has text affinity, so holds no numbers."""
    upper = declared.upper()
    return "INT" not in upper and any(word in upper for word in ("CHAR", "CLOB", "TEXT"))


def _decode(stored: bytes) -> str | bytes:
    """Decode an SQLite text; return invalid UTF-8 as bytes."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _literal(value: object, *, text: bool) -> str | None:
    """Convert a value to text so that 1, 1.0, '1' and x'31' differ.

    A column with text affinity has no numbers, so ``1`` is a text there.
    """
    if isinstance(value, str):
        quoted = (_LIKE_BYTES if text else _LIKE_A_LITERAL).fullmatch(value)
        return literal(value) if quoted else value
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return None if value is None else repr(value)


# ── Files that declare types ──────────────────────────────────────────────────────────────────────


def _statistics(path: Path, ending: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa

    reader = getattr(_package("pyreadstat", path), f"read_{_STATISTICS[ending]}")
    try:
        columns, about = reader(str(path), output_format="dict", disable_datetime_conversion=True)
    except Exception as error:  # raised by a C library
        raise InputError(f"{path} could not be read: {one_sentence(error)}.") from None
    if not columns:
        raise InputError(f"{path} has no columns.")
    made = {
        name: _apply_declaration(
            values,
            about.readstat_variable_types.get(name, ""),
            _date_format(str(about.original_variable_types.get(name, "")), ending),
            about.variable_value_labels.get(name, {}),
        )
        for name, values in columns.items()
    }
    table = pa.table(made)
    return table.schema, iter(table.to_batches(_BATCH))


#: Unit of a date in seconds, and its origin.
_DateFormat = tuple[float, dt.date]


def _date_format(form: str, ending: str) -> _DateFormat | None:
    formats = _DATES.get(ending, _SPSS_DATES)
    return next((date for start, date in formats.items() if form.startswith(start)), None)


def _apply_declaration(
    values: Sequence[float | str | None],
    kind: str,
    date: _DateFormat | None,
    labels: Mapping[float, str],
) -> pa.Array:
    """Convert a column according to the file's declarations: type, date format, value labels."""
    import pyarrow as pa

    if kind == "string":
        return pa.array(values, pa.string())
    numbers = pa.array([None if value is None else float(value) for value in values], pa.float64())
    words = {float(code): str(word) for code, word in labels.items()}
    distinct = len(set(words.values())) == len(words)
    if words and distinct and not any(map(_LIKE_A_VALUE.fullmatch, words.values())):
        texts = [None if v is None else words.get(v, repr(v)) for v in numbers.to_pylist()]
        return pa.array(texts, pa.string())
    if date is None:
        return numbers
    unit, first = date
    offset = (first - dt.date(1970, 1, 1)).days * 86_400
    micros = [
        None if v is None or abs(v) * unit > 1e12 else math.floor((v * unit + offset) * 1e6 + 0.5)
        for v in numbers.to_pylist()
    ]
    return pa.array(micros, pa.timestamp("us"))
