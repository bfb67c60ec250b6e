"""Text that a spreadsheet would take for a formula is marked as text before it is exported."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["harmless", "without_formulas"]

# A cell that starts like this is computed when a spreadsheet opens the file; the last four are the
# full-width forms of the first four.  Quotes before it are counted, so that marking is one-to-one
# and no two cells become equal.
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def harmless(cell: Any) -> Any:
    """Return a text with a quote before it where a spreadsheet would compute it.

    Numbers stay numbers, and everything but text stays as it is.

    Examples:
        >>> harmless("=1+2"), harmless("-3.5"), harmless("a=b"), harmless(None)
        ("'=1+2", '-3.5', 'a=b', None)
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell


def without_formulas(frame: Any) -> Any:
    """Return a pandas table whose cells and column names are harmless in a spreadsheet."""
    import pandas as pd

    safe = frame.copy()
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            text = column.astype(object)
            safe.isetitem(position, text.map(harmless, na_action="ignore"))
    safe.columns = [harmless(str(name)) for name in safe.columns]
    return safe
