"""Write tables from memory: CSV, Parquet, Arrow, and Excel without formulas."""

from __future__ import annotations

import datetime as dt
import gzip
import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memberbound.errors import InputError
from memberbound.files import TABLE_ENDINGS, write_atomically

if TYPE_CHECKING:
    from pandas import DataFrame

#: Supported file endings.
FRAME_ENDINGS = (*TABLE_ENDINGS, ".xlsx")
#: Maximum number of rows of a sheet, including the header.
_SHEET_ROWS = 2**20


def write_table(
    frame: DataFrame, path: Path, *, force: bool = False, private: bool = False
) -> None:
    """Write a pandas table as CSV, Parquet or Arrow, by the file ending."""
    write_atomically(path, table_writer(frame, path), force, private=private)


def table_writer(frame: DataFrame, path: Path) -> Callable[[Path], None]:
    """Return a function that writes a pandas table in the format of the file ending."""
    ending = path.name.lower()
    if ending.endswith(".xlsx"):
        return _sheet_writer(frame)

    def write(draft: Path) -> None:
        if ending.endswith(".csv.gz"):
            # Store neither time nor file name, so that equal tables give equal bytes.
            with draft.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                frame.to_csv(packed, index=False)
        elif ending.endswith(".csv"):
            frame.to_csv(draft, index=False)
        elif ending.endswith(".parquet"):
            frame.to_parquet(draft, index=False)
        else:
            frame.reset_index(drop=True).to_feather(draft)

    return write


def check_sheet(out: str | os.PathLike[str] | None, rows: int) -> None:
    """Raise, before any work is done, if an Excel sheet cannot be written."""
    if out is None or not os.fspath(out).lower().endswith(".xlsx"):
        return
    if rows >= _SHEET_ROWS:
        raise InputError(
            f"out must end in .csv or .parquet for {rows} rows: a sheet holds at most "
            f"{_SHEET_ROWS - 1}."
        )
    if importlib.util.find_spec("openpyxl") is None:
        raise InputError(
            "out needs openpyxl to end in .xlsx: pip install memberbound[files], or write .csv."
        )


def _sheet_writer(frame: DataFrame) -> Callable[[Path], None]:
    """Return a function that writes a sheet with texts that are never formulas."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    def write(draft: Path) -> None:
        book = Workbook(write_only=True)
        book.properties.created = book.properties.modified = dt.datetime(2000, 1, 1)
        sheet = book.create_sheet("rows")
        missing = frame.isna().to_numpy()
        rows = frame.itertuples(index=False, name=None)

        def cell(value: object) -> object:
            if not isinstance(value, str):
                item = getattr(value, "item", None)
                return value if item is None else item()
            made = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", value))
            made.data_type = "s"  # even if it starts with =
            return made

        sheet.append([cell(str(name)) for name in frame.columns])
        for row, absent in zip(rows, missing, strict=True):
            sheet.append([None if a else cell(v) for v, a in zip(row, absent, strict=True)])
        book.save(draft)

    return write


#: Leading characters that spreadsheets treat as a formula, full-width forms included.
FORMULA_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
#: A signed number, which is not a formula; also used as a DuckDB expression.
SIGNED_NUMBER = r"[-+]([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][-+]?[0-9]+)?"


def excel_safe_text(value: object) -> object:
    """Escape a text that a spreadsheet would run as a formula; return anything else unchanged.

    Examples:
        >>> [excel_safe_text(value) for value in ("=1+1", "-5", "-x", "a-b", -5)]
        ["'=1+1", '-5', "'-x", 'a-b', -5]
    """
    if not isinstance(value, str) or not value.startswith(tuple(FORMULA_STARTS)):
        return value
    return value if re.fullmatch(SIGNED_NUMBER, value) else f"'{value}"


def excel_safe_table(frame: DataFrame) -> DataFrame:
    """Escape the texts and column names of a table that a spreadsheet would run."""
    safe = frame.copy(deep=False)
    for index, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") == "O":
            column = frame.iloc[:, index].astype(object)
            safe.isetitem(index, column.map(excel_safe_text, na_action="ignore"))
    safe.columns = frame.columns.map(excel_safe_text)
    return safe


def check_excel_safe(
    out: str | os.PathLike[str] | None, *, excel_safe: bool, name: str = "out"
) -> None:
    """Reject the option unless a CSV file is written, because other formats have types."""
    if excel_safe and not str(out).lower().endswith((".csv", ".csv.gz")):
        given = None if out is None else str(out)
        raise InputError(f"{name} must end in .csv or .csv.gz with excel_safe, got {given!r}.")
