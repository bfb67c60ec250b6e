"""How a value is read: one parser and one label for every file, frame, array and list.

A value is read by a rule that looks at this value and at public things alone: the column's declared
type and its *form*, which says how values are written.  Where the rows are public (``certify``,
``harden``, ``population``, ``audit``) the form is inferred from them
(:mod:`memberbound.tables.roles`).  Where they are secret it is declared, or it is ``any``: a fixed
rule that takes whatever has one meaning by itself.

===============  =================================================================================
form             a text is a number if it is written as
===============  =================================================================================
``any``          ``1.5``, ``1,5``, ``1.234,5``, ``1,234.5``, ``1.234.567``, ``1e-3``; a date in one
                 of the orders below, as days; ``1,234`` and ``03/02/2021`` have two meanings and
                 stay text, as do codes with leading zeros
``number``       ``1.5`` or ``1,234.5``: the point is the decimal mark
``comma``        ``1,5`` or ``1.234,5``: the comma is the decimal mark
``date``         ``2020-01-31``, ``2020/01/31``, ``31.01.2020``, ``31-01-2020``, ``31 Jan 2020``,
                 ``Jan 31, 2020``, ``01/31/2020``; each also with a time and a zone
``day-first``    the same, and ``31/01/2020``
``truth``        ``true`` or ``false``
``text``         nothing
``unit``         as ``any``; but the words for a missing value are values: somebody may be called so
``%d.%m.%Y`` …   a date in this format of ``datetime.strptime``
===============  =================================================================================

Typed numbers, dates, durations and truth values are what they are, whatever the form says.  A date
counts days since 1970-01-01 in UTC; a time without a zone is taken as UTC.  Null, NaN, blanks and
the words by which programs write a missing value (``nan``, ``NaT``, ``None``, ``null``, ``<NA>``)
are missing.

The *label* is the text by which a value is compared with a category: ``1``, ``1.0`` and ``"1"`` are
one category, ``true`` and ``True`` are one, a date is written as ISO 8601 does.  A missing value
has the empty label.
"""

from __future__ import annotations

import contextlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import Series

FloatArray = NDArray[np.float64]
#: How the values of a column are written: one of :data:`FORMS`, or a format of ``strptime``.
Form = str
FORMS = ("any", "number", "comma", "date", "day-first", "truth", "text")

#: What may stand around a value without being part of it.
BLANKS = " \t\n\r\x0b\x0c\xa0"
#: How programs write a missing value, in lower case.
GAPS = ("nan", "nat", "none", "null", "<na>")

# ── Spellings ─────────────────────────────────────────────────────────────────────────────────────

_EXPONENT = r"([eE][+-]?(0?[0-9]{1,2}|[12][0-9]{2}|30[0-7]))?"
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
_TIME = rf"([T ]+{_CLOCK}( ?(Z|UTC|[+-][0-9]{{2}}(:?[0-9]{{2}})?))?)?"
_YEAR, _MONTH, _DAY = "[12][0-9]{3}", "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])"
_LATE = "(1[3-9]|2[0-9]|3[01])"
_NAMED = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DATE_SPELLINGS = {
    "year": rf"{_YEAR}-{_MONTH}-{_DAY}|{_YEAR}/{_MONTH}/{_DAY}",
    "day": rf"{_DAY}[.]{_MONTH}[.]{_YEAR}|{_DAY}-{_MONTH}-{_YEAR}"
    rf"|{_DAY}[ -]{_NAMED}[ -]{_YEAR}|{_NAMED} {_DAY},? {_YEAR}",
    "slash": rf"{_MONTH}/{_MONTH}/{_YEAR}",
    "slash-day": rf"{_LATE}/{_MONTH}/{_YEAR}",
    "slash-month": rf"{_MONTH}/{_LATE}/{_YEAR}",
}
DATE_TIME = _TIME
#: Spellings, tried in this order; a value has the first that fits it.  The engine (RE2) and Python
#: read these patterns alike.
SPELLINGS = {
    "whole": r"[+-]?(0|[1-9][0-9]{0,14})",
    "long": r"[+-]?[1-9][0-9]{15,}",
    "grouped": r"[+-]?[1-9][0-9]{0,2}[.][0-9]{3}",
    "point": rf"[+-]?((0|[1-9][0-9]*)([.][0-9]*)?|[.][0-9]+){_EXPONENT}",
    "groups": r"[+-]?[1-9][0-9]{0,2}([.][0-9]{3}){2,}",
    "thousand": r"[+-]?[1-9][0-9]{0,2},[0-9]{3}",
    "thousands": r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3}){2,}|[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+[.][0-9]*",
    "comma": r"[+-]?((0|[1-9][0-9]*|[1-9][0-9]{0,2}([.][0-9]{3})+)(,[0-9]*)|,[0-9]+)" + _EXPONENT,
    **{name: rf"({pattern}){_TIME}" for name, pattern in DATE_SPELLINGS.items()},
    "truth": "(?i:true|false)",
    "uuid": r"[{]?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}[}]?",
    "sentence": r"(?s:\S+(\s+\S+){3,})",
}
_COMPILED = {name: re.compile(pattern, re.ASCII) for name, pattern in SPELLINGS.items()}
_THOUSAND = re.compile(SPELLINGS["thousand"] + _EXPONENT, re.ASCII)
#: What a text must begin with to be a number or a date.
_PROMISING = re.compile(r"[+-]?[.,]?[0-9]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_POINT = re.compile(
    r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
    r"|[+-]?[0-9]{1,3}(,[0-9]{3})+([.][0-9]*)?",
    re.ASCII,
)
_COMMA = re.compile(
    r"[+-]?(([0-9]+|[0-9]{1,3}([.][0-9]{3})+)(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII
)
#: Numbers that Arrow reads as Python does, and whose label is that of the number.
_QUICK = r"^-?(0|[1-9][0-9]{0,14})([.][0-9]{1,300})?$"

#: Units of time in a day.
PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000}
PER_DAY |= {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCKED = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d+))?)?"
    r"(?: ?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?))?)?"
)
_DATES = tuple(
    re.compile(pattern + _CLOCKED, re.ASCII)
    for pattern in (
        r"(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<day>\d{1,2})(?P<mark>[.-])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4})",
        r"(?P<day>\d{1,2})[ -](?P<name>[A-Za-z]{3,9})[ -](?P<year>\d{4})",
        r"(?P<name>[A-Za-z]{3,9}) (?P<day>\d{1,2}),? (?P<year>\d{4})",
        r"(?P<first>\d{1,2})/(?P<last>\d{1,2})/(?P<year>\d{4})",
    )
)


def checked_format(text: str) -> Form:
    """Return a format of ``strptime`` that gives a whole date, or refuse it.

    Examples:
        >>> checked_format("%d.%m.%Y")
        '%d.%m.%Y'
    """
    moment = datetime(2001, 12, 31, tzinfo=UTC)
    try:
        again = datetime.strptime(moment.strftime(text), text)
    except (TypeError, ValueError, re.error):
        again = None
    if again is None or again.date() != moment.date():
        raise InputError(
            f"format must be that of a whole date, such as '%d.%m.%Y' or '%m/%d/%Y', got {text!r}."
        )
    return text


def _number(text: str, form: Form) -> float:
    """Return a text without blanks around it as a number, NaN where it is none or a date."""
    if form == "number" and _POINT.fullmatch(text):
        return float(text.replace(",", ""))
    if form == "comma" and _COMMA.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    if form == "truth":
        return {"true": 1.0, "false": 0.0}.get(text.lower(), math.nan)
    if form != "any" or not _PROMISING.match(text):
        return math.nan
    if _COMPILED["point"].fullmatch(text):
        return float(text)
    if _THOUSAND.fullmatch(text):  # thousands, or thousandths
        return math.nan
    if _COMPILED["comma"].fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    if _COMPILED["groups"].fullmatch(text):
        return float(text.replace(".", ""))
    return float(text.replace(",", "")) if _COMPILED["thousands"].fullmatch(text) else math.nan


def _days(text: str, form: Form) -> float:
    """Return the days since 1970-01-01 in UTC of a date or time stamp, NaN where it is none."""
    if "%" in form:
        try:
            return _days_of(datetime.strptime(text, form))
        except (ValueError, OverflowError):
            return math.nan
    if form in ("date", "day-first") or (form == "any" and _PROMISING.match(text)):
        return _parsed_date(text, form)
    return math.nan


def _parsed_date(text: str, form: Form) -> float:
    match = next((m for pattern in _DATES if (m := pattern.fullmatch(text))), None)
    if match is None:
        return math.nan
    parts = match.groupdict()
    if parts.get("name") is not None:
        name = parts["name"][:3].lower()
        month, day = _MONTHS.index(name) + 1 if name in _MONTHS else 0, int(parts["day"])
    elif parts.get("first") is not None:
        month, day = int(parts["first"]), int(parts["last"])
        if form == "day-first" or (form == "any" and month > 12):
            month, day = day, month
        elif form == "any" and day <= 12 and month != day:
            return math.nan
    else:
        month, day = int(parts["month"]), int(parts["day"])
    hours, minutes, seconds = (int(parts[part] or 0) for part in ("hour", "minute", "second"))
    if hours > 23 or minutes > 59 or seconds > 59:
        return math.nan
    micro = int(((parts["part"] or "") + "000000")[:6])
    since = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micro)
    try:
        midnight = datetime(int(parts["year"]), month, day, tzinfo=_zone(parts["zone"]))
        return _length(midnight - _EPOCH + since)
    except (ValueError, OverflowError):
        return math.nan


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "UTC"):
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > 3 else 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _days_of(moment: datetime) -> float:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return _length(aware - _EPOCH)


def _length(since: timedelta) -> float:
    """Return days: whole ones and the rest, each rounded by itself, as of whole columns."""
    return since.days + (since.seconds * 1_000_000 + since.microseconds) / PER_DAY["us"]


# ── One value ─────────────────────────────────────────────────────────────────────────────────────

#: Whole numbers below this are written without an exponent.
_WRITTEN_OUT = 1e22
#: Python reads whole numbers of up to 4300 digits.
_LONGEST = 4000


def number_label(number: float) -> str:
    """Return the label of a number: 39.0 is ``39``; '' where it is not a number.

    Examples:
        >>> number_label(39.0), number_label(0.5), number_label(-0.0)
        ('39', '0.5', '0')
    """
    number = float(number)
    if math.isnan(number):
        return ""
    return str(int(number)) if abs(number) < _WRITTEN_OUT and number.is_integer() else repr(number)


def iso_date(days: float) -> str:
    """Return days since 1970-01-01 as ISO 8601 writes a date; with the time if not midnight.

    Examples:
        >>> iso_date(0.0), iso_date(0.5)
        ('1970-01-01', '1970-01-01 12:00:00')
    """
    if math.isnan(days):
        return ""
    try:
        moment = _EPOCH + timedelta(days=days)
    except OverflowError:
        return f"day {number_label(days)}"
    return moment.date().isoformat() if days == math.floor(days) else moment.isoformat(" ")[:-6]


def _read_text(text: str, form: Form) -> tuple[float, str]:
    text = text.strip(BLANKS)
    if form == "text" or not text:
        return math.nan, text
    if form == "unit":
        number, label = _read_text(text, "any")
        return number, label or text
    if text.lower() in GAPS:
        return math.nan, ""
    number = _number(text, form)
    if not math.isnan(number) and form != "truth":
        exact = _COMPILED["long"].fullmatch(text) and len(text) < _LONGEST
        # Not by way of int: how many digits Python reads is a setting.
        return number, text.removeprefix("+") if exact else number_label(number)
    days = _days(text, form)
    if not math.isnan(days):
        return days, iso_date(days)
    return number, text.capitalize() if _COMPILED["truth"].fullmatch(text) else text


def read_value(value: object, form: Form = "any") -> tuple[float, str]:
    """Return a value as a number (NaN if it is none) and its label ('' if it is missing).

    Guarantee: a function of this value and the form.
    Edge cases: an object that cannot be written as text has its type's name as label.

    Examples:
        >>> read_value("1,5"), read_value(1.5), read_value("31.01.1970")
        ((1.5, '1.5'), (1.5, '1.5'), (30.0, '1970-01-31'))
        >>> read_value("1,234"), read_value("1,234", "comma"), read_value("1,234", "number")
        ((nan, '1,234'), (1.234, '1.234'), (1234.0, '1234'))
    """
    if type(value) is str:
        return _read_text(value, form)
    try:
        return _read_object(value, form)
    except Exception:  # whatever the object's own methods raise: a record cannot refuse a table
        return math.nan, type(value).__name__


def _read_object(value: object, form: Form) -> tuple[float, str]:
    if isinstance(value, str):
        return _read_text(str(value), form)
    if isinstance(value, np.generic):
        if value.dtype.kind in "fMm":
            one = Values.of(np.array([value]), form)
            return float(one.numbers[0]), one.label(0)
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan, ""
    if isinstance(value, bool):
        return (float(value) if form == "truth" else math.nan), str(value)
    if isinstance(value, int | float | Decimal):
        try:
            number = float(value) + 0.0  # -0.0 is 0.0
        except ValueError:  # a signalling NaN
            number = math.nan
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        if not isinstance(value, int):
            return number, number_label(number)
        # Python writes whole numbers of up to 4300 digits.
        return number, str(value) if value.bit_length() < 2**13 else hex(value)
    if isinstance(value, bytes | bytearray):
        return math.nan, f"x'{bytes(value).hex()}'"
    return _read_time(value)


def _read_time(value: object) -> tuple[float, str]:
    """Return a date, a time or a duration in days; anything else is its own text."""
    # Of pandas, where they are in Python's range; nanoseconds are cut off.
    with contextlib.suppress(AttributeError, ValueError, OverflowError):
        value = value.start_time  # type: ignore[attr-defined]  # a period
    if hasattr(value, "to_pydatetime"):
        try:
            value = value.to_pydatetime(warn=False)
        except (ValueError, OverflowError):
            return read_value(np.datetime64(value.asm8))  # type: ignore[attr-defined]
    if isinstance(value, datetime):
        days = _days_of(value)
        return days, iso_date(days)
    if isinstance(value, date):
        days = float(value.toordinal() - _EPOCH.toordinal())
        return days, iso_date(days)
    if isinstance(value, timedelta | time):
        if isinstance(value, time):
            value = datetime.combine(date.min, value.replace(tzinfo=None)) - datetime.min
        days = _length(value)
        return days, number_label(days)
    return math.nan, str(value).strip(BLANKS)


def label_of(value: object, form: Form = "any") -> str:
    """Return the text by which a value is compared with a category.

    Examples:
        >>> label_of(1), label_of(1.0), label_of("1"), label_of(True), label_of("true")
        ('1', '1', '1', 'True', 'True')
    """
    return read_value(value, form)[1]


# ── A column ──────────────────────────────────────────────────────────────────────────────────────


class Values(ABC):
    """A column, read value by value: typed numbers, or codes of distinct values.

    Guarantee: number and label of a row are a function of this row's value, the column's type and
    its form.
    """

    @staticmethod
    def of(column: Series | pa.ChunkedArray | Iterable[object], form: Form = "any") -> Values:
        """Read a column: by its type from pandas, Arrow or numpy, value by value from a list.

        Edge cases: complex numbers, lists and records are refused because of their type.
        """
        if isinstance(column, Values):
            return column
        if type(column).__module__.startswith("pyarrow"):
            return _of_arrow(column, form)
        if hasattr(column, "dtype") and hasattr(column, "iloc"):
            return _of_pandas(column, form)
        if isinstance(column, np.ndarray):
            return _of_array(column, form)
        return _of_objects(list(column), form)

    @staticmethod
    def concat(pieces: Sequence[Values]) -> Values:
        """Concatenate pieces of one column.

        Examples:
            >>> pieces = [Values.of(["a", "1"]), Values.of(["2", "a"])]
            >>> Values.concat(pieces).factorize()
            (array([2, 0, 1, 2]), ('1', '2', 'a'))
        """
        if len(pieces) == 1:
            return pieces[0]
        numbers = [piece for piece in pieces if isinstance(piece, NumberValues)]
        if len(numbers) == len(pieces):
            return _concat_numbers(numbers)
        return _concat_codes([piece.to_codes() for piece in pieces])

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp] | slice) -> Values:
        """Return some of the rows."""

    @abstractmethod
    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""

    @abstractmethod
    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for the others; nothing is cached."""

    @abstractmethod
    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function to every value, or once to every distinct value if these are coded.

        The function takes numbers, and the texts behind those that are NaN: None if all of these
        are missing values.
        """

    @property
    @abstractmethod
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing, so that its label is empty."""

    @property
    @abstractmethod
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date, so that its number is a day."""

    @abstractmethod
    def label(self, row: int) -> str:
        """Return the label of one row."""

    @abstractmethod
    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code; several codes may share a label."""

    @property
    def numbers(self) -> FloatArray:
        """Every value as a number, NaN if it is none."""
        return self.numbers_at(slice(None))

    @property
    def distinct(self) -> int:
        """Number of distinct values without missing ones; one record changes it by at most 1."""
        codes, labels = self.codes_and_labels()
        return len({labels[code] for code in np.unique(codes)} - {""})

    def positions(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the index of every value in a list of labels, -1 for those not in it."""
        indices = {label: index for index, label in enumerate(labels)}
        codes, names = self.codes_and_labels()
        return np.array([indices.get(name, -1) for name in names], dtype=np.int64)[codes]

    def factorize(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the index of every value among the sorted labels, -1 for missing; and these."""
        codes, labels = self.codes_and_labels()
        names = sorted({labels[code] for code in np.unique(codes)} - {""})
        return self.positions(names), tuple(names)


#: A function of numbers and of the texts behind NaN, see :meth:`Values.map`.
ValueFunction = Callable[[FloatArray, Sequence[str] | None], NDArray[np.generic]]
#: Rows that a function of numbers is applied to at once.
_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True, eq=False)
class NumberValues(Values):
    """Typed numbers, or days if ``dated``; ``missing`` marks rows without a value."""

    raw: NDArray[np.generic]
    missing: NDArray[np.bool_] | None = None
    dated: bool = False

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, rows: NDArray[np.intp] | slice) -> NumberValues:
        """Return some of the rows."""
        missing = None if self.missing is None else self.missing[rows]
        return NumberValues(self.raw[rows], missing, self.dated)

    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""
        # Only texts that are all numbers mix with coded pieces: 64-bit floats without gaps.
        used, codes = np.unique(self.numbers, return_inverse=True)
        return CodedValues(codes, used, [None] * len(used))

    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for missing ones; nothing is cached."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            numbers = np.asarray(self.raw[rows], np.float64)
        return numbers if self.missing is None else np.where(self.missing[rows], np.nan, numbers)

    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function to every value, some rows at a time."""
        starts = range(0, max(len(self), 1), _ROWS_AT_ONCE)
        blocks = (self.numbers_at(slice(start, start + _ROWS_AT_ONCE)) for start in starts)
        return np.concatenate([function(numbers, None) for numbers in blocks])

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing."""
        gaps = np.zeros(len(self), bool) if self.missing is None else self.missing
        return gaps | np.isnan(self.raw) if self.raw.dtype.kind == "f" else gaps

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date: all or none."""
        return np.full(len(self), self.dated)

    def label(self, row: int) -> str:
        """Return the label of one row."""
        missing = self.missing is not None and bool(self.missing[row])
        return "" if missing else self._labels(self.raw[row : row + 1])[0]

    def _labels(self, raw: NDArray[np.generic]) -> list[str]:
        """Return the labels of some numbers."""
        if self.dated:
            return [iso_date(days) for days in raw.tolist()]
        if raw.dtype.kind in "iu":
            return [str(number) for number in raw.tolist()]
        if raw.dtype != np.float64:
            return [number_label(float(str(number))) for number in raw]
        return [number_label(number) for number in raw.tolist()]

    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code, the last one for missing values."""
        absent = self.absent
        distinct, inverse = np.unique(self.raw[~absent], return_inverse=True)
        codes = np.full(len(self), len(distinct), dtype=np.int64)
        codes[~absent] = inverse
        return codes, [*self._labels(distinct), ""]


@dataclass(frozen=True, eq=False)
class CodedValues(Values):
    """Codes of distinct values: their numbers, and their texts (None: the number's own label)."""

    codes: NDArray[np.integer[Any]]
    parsed: FloatArray
    texts: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[np.intp] | slice) -> CodedValues:
        """Return some of the rows."""
        return CodedValues(self.codes[rows], self.parsed, self.texts)

    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return CodedValues(codes, self.parsed[used], [self.texts[code] for code in used])

    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for texts; nothing is cached."""
        return np.asarray(self.parsed[self.codes[rows]], np.float64)

    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function once to every distinct value."""
        return np.asarray(function(self.parsed, self.labels)[self.codes])

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing."""
        return np.asarray(np.array([text == "" for text in self.texts], dtype=bool)[self.codes])

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date: its text is that of a day."""
        dates = [
            text is not None and text != number_label(number) and text == iso_date(number)
            for number, text in zip(self.parsed.tolist(), self.texts, strict=True)
        ]
        return np.asarray(np.array(dates, dtype=bool)[self.codes])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of every code."""
        return tuple(
            number_label(number) if text is None else text
            for number, text in zip(self.parsed.tolist(), self.texts, strict=True)
        )

    def label(self, row: int) -> str:
        """Return the label of one row."""
        return self.labels[int(self.codes[row])]

    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code; several codes may share a label."""
        return self.codes.astype(np.int64, copy=False), list(self.labels)


def _concat_numbers(pieces: Sequence[NumberValues]) -> NumberValues:
    missing = None
    if any(piece.missing is not None for piece in pieces):
        missing = np.concatenate(
            [np.zeros(len(p), bool) if p.missing is None else p.missing for p in pieces]
        )
    return NumberValues(np.concatenate([p.raw for p in pieces]), missing, pieces[0].dated)


def _concat_codes(pieces: Sequence[CodedValues]) -> CodedValues:
    starts = np.cumsum([0, *(len(piece.texts) for piece in pieces)])
    codes = [piece.codes + start for piece, start in zip(pieces, starts, strict=False)]
    return CodedValues(
        np.concatenate(codes).astype(np.int32),
        np.concatenate([piece.parsed for piece in pieces]),
        [text for piece in pieces for text in piece.texts],
    )


def _of_pandas(series: Series, form: Form) -> Values:
    import pandas as pd
    import pyarrow as pa

    kind = series.dtype
    if isinstance(kind, np.dtype):
        return _of_array(series.to_numpy(), form)
    if isinstance(kind, pd.SparseDtype):
        return _of_array(np.asarray(series), form)
    if isinstance(kind, pd.CategoricalDtype):
        listed = Values.of(pd.Series(kind.categories), form)
        codes, labels = listed.codes_and_labels()
        numbers = np.append(listed.numbers, np.nan)
        texts = [labels[code] for code in codes] + [""]
        indices = np.asarray(series.cat.codes, dtype=np.int32)
        return CodedValues(np.where(indices < 0, len(codes), indices), numbers, texts)
    # Types of Arrow, texts, times with a zone, and pandas' own types with NA.
    typed = (pd.ArrowDtype, pd.StringDtype, pd.DatetimeTZDtype)
    if isinstance(kind, typed) or hasattr(kind, "numpy_dtype"):
        with contextlib.suppress(UnicodeError, pa.ArrowException):  # half of a surrogate pair
            return _of_arrow(pa.array(series), form)
    return _of_objects(series.to_numpy(dtype=object).tolist(), form)


def _of_array(array: NDArray[np.generic], form: Form) -> Values:
    kind = array.dtype.kind
    if array.ndim != 1:
        raise InputError(f"a column must have one value per row, got shape {array.shape}.")
    if kind in "iu" or array.dtype in (np.float32, np.float64):
        return NumberValues(array)
    if kind == "f":
        with np.errstate(all="ignore"):
            return NumberValues(
                array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
            )
    if kind in "Mm":
        unit, step = np.datetime_data(array.dtype)  # type: ignore[arg-type]  # by its kind
        if unit in ("Y", "M", "W", "generic"):
            array, unit, step = array.astype(f"{kind}8[D]"), "D", 1
        if unit not in PER_DAY:
            array, unit, step = array.astype(f"{kind}8[ns]"), "ns", 1
        whole = array.view(np.int64)
        return NumberValues(in_days(whole, unit, step), np.isnat(array), dated=kind == "M")
    if kind == "b":
        numbers = np.array([0.0, 1.0] if form == "truth" else [np.nan, np.nan])
        return CodedValues(array.astype(np.int32), numbers, ("False", "True"))
    if kind in "OUS":
        return _of_objects(array.tolist(), form)
    raise InputError(f"a column must hold numbers, texts or dates, got {array.dtype}.")


def in_days(whole: NDArray[np.int64], unit: str, step: int = 1) -> FloatArray:
    """Return days from whole numbers of a unit: whole days and the rest, each rounded by itself."""
    per_day = PER_DAY[unit]
    if per_day % step:
        return np.asarray(whole.astype(np.float64) * (step / per_day))
    days, rest = np.divmod(whole, per_day // step)
    return np.asarray(days + rest / (per_day // step))


#: Below this many values a Python loop is faster than Arrow.
_FEW = 16
_COMPARED = (str, int, float, bool, np.str_, np.float64)


def _of_objects(values: list[object], form: Form) -> Values:
    """Read Python objects, each by its own type."""
    import pyarrow as pa

    try:
        # Only texts and None: the same, and quicker.  Not from pandas: NaN is no text here.
        if len(values) > _FEW and all(value is None or type(value) is str for value in values):
            return _of_arrow(pa.array(values, pa.large_string()), form)
    except (UnicodeError, pa.ArrowException):  # half of a surrogate pair
        pass
    codes = np.empty(len(values), dtype=np.int32)
    seen: dict[tuple[type, object], int] = {}
    numbers: list[float] = []
    texts: list[str | None] = []
    for row, value in enumerate(values):
        # True, 1 and 1.0 are equal to Python, and NaN is not equal to itself.
        # Only these types compare as they are read: a subclass may compare as it likes.
        key = (type(value), value if type(value) in _COMPARED else id(value))
        code = seen.get(key)
        if code is None:
            code = seen[key] = len(numbers)
            number, label = read_value(value, form)
            numbers.append(number)
            texts.append(label)
        codes[row] = code
    return CodedValues(codes, np.array(numbers, dtype=np.float64), texts)


def _of_arrow(column: pa.Array | pa.ChunkedArray, form: Form) -> Values:
    """Read an Arrow column by its type."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        if types.is_string(kind):  # one array of this type holds two gigabytes
            column = column.cast(pa.large_string())
        if types.is_dictionary(kind):  # all chunks' values together may need longer codes
            column = column.cast(pa.dictionary(pa.int64(), kind.value_type, kind.ordered))
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(kind, pa.BaseExtensionType):
        known = kind.extension_name == "arrow.uuid"
        return Values.of(column.to_pylist() if known else column.storage, form)
    if types.is_dictionary(kind):
        return _of_dictionary(column, form)
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        zeros = column.fill_null(0) if column.null_count else column
        return NumberValues(zeros.to_numpy(zero_copy_only=False), gaps_of(column))
    if types.is_float16(kind) or types.is_string_view(kind):
        plain = pa.float32() if types.is_float16(kind) else pa.large_string()
        return _of_arrow(column.cast(plain), form)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
        whole = column.cast(pa.int32()) if types.is_date32(kind) else column
        whole = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return NumberValues(
            in_days(whole, unit), gaps_of(column), dated=not types.is_duration(kind)
        )
    if types.is_null(kind):
        return NumberValues(np.zeros(len(column)), np.ones(len(column), dtype=bool))
    if _is_listed(kind):
        return _of_dictionary(column.dictionary_encode(), form)
    raise InputError(
        f"a column must hold numbers, texts or dates, got {kind}. Leave it out, or make columns of "
        "it first."
    )


def _is_listed(kind: pa.DataType) -> bool:
    """Tell whether the different values of a type are read once each: no numbers, no dates."""
    from pyarrow import types

    texts = types.is_string(kind) or types.is_large_string(kind)
    plain = types.is_boolean(kind) or types.is_decimal(kind) or types.is_time(kind)
    bytes_ = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(texts or plain or bytes_ or types.is_fixed_size_binary(kind))


def gaps_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Return where an Arrow column has no value, None where it has all."""
    if not column.null_count:
        return None
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _of_dictionary(column: pa.DictionaryArray, form: Form) -> Values:
    """Read every different value once; numbers and times are read as a column of them is."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    words = column.dictionary
    if not _is_listed(words.type):
        return _of_arrow(column.dictionary_decode(), form)
    gap = len(words)
    codes = column.indices.cast(pa.int64())  # a shorter type may not hold the gap's code
    indices = codes.fill_null(gap).to_numpy(zero_copy_only=False).astype(np.int32)
    numbers = np.full(gap + 1, np.nan)
    texts: list[str | None] = [""] * (gap + 1)
    if types.is_string(words.type) or types.is_large_string(words.type):
        quick = np.zeros(gap, dtype=bool)
        if form in ("any", "number", "unit"):
            fits = pc.match_substring_regex(words, _QUICK).fill_null(False)
            quick = np.asarray(fits.to_numpy(zero_copy_only=False), dtype=bool)
            numbers[:gap][quick] = words.filter(fits).cast(pa.float64()).to_numpy()
        slow = np.flatnonzero(~quick)
        if not slow.size and not column.null_count:
            return NumberValues(numbers[indices])
        for index in np.flatnonzero(quick).tolist():
            texts[index] = None
        rest = words.take(pa.array(slow)).to_pylist()
    else:
        slow, rest = np.arange(gap), words.to_pylist()
    for index, word in zip(slow.tolist(), rest, strict=True):
        numbers[index], texts[index] = read_value(word, form)
    return CodedValues(indices, numbers, texts)
