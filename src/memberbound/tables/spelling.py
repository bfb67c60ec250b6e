"""Parse texts as numbers, dates or truth values, and label them.

A column's *form* names the spellings of its values.  For public rows (``certify``, ``harden``,
``population``, ``audit``) it is inferred (:mod:`memberbound.tables.roles`).  For secret rows it is
declared, or ``any``, a fixed rule that accepts every spelling with a single meaning.

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
``unit``         nothing: it identifies a person, and two texts are two persons; the words for a
                 missing value are values, because they may be names
``%d.%m.%Y`` …   a date in this format of ``datetime.strptime``
``words:…``      as the form at its end, but the words in it are values (:func:`with_words`)
===============  =================================================================================

Null, NaN, blanks and the words by which programs write a missing value (``nan``, ``NaT``, ``None``,
``null``, ``<NA>``) are missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

from memberbound.errors import InputError

#: The form of a column's values: one of :data:`FORMS`, or a format of ``strptime``.
Form = str
FORMS = ("any", "number", "comma", "date", "day-first", "truth", "text")

#: Characters to strip from both ends of a value.
BLANKS = " \t\n\r\x0b\x0c\xa0"
#: Spellings of a missing value, in lower case.
GAPS = ("nan", "nat", "none", "null", "<na>")

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
#: Spellings; a value has the first one that matches.  The engine (RE2) and Python interpret these
#: patterns alike.
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
#: Possible first characters of a number or a date.
_PROMISING = re.compile(r"[+-]?[.,]?[0-9]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_POINT = re.compile(
    r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
    r"|[+-]?[0-9]{1,3}(,[0-9]{3})+([.][0-9]*)?",
    re.ASCII,
)
_COMMA = re.compile(
    r"[+-]?(([0-9]+|[0-9]{1,3}([.][0-9]{3})+)(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII
)

#: Units of time in a day.
PER_DAY = {
    "D": 1,
    "h": 24,
    "m": 1440,
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


def check_format(text: str) -> Form:
    """Return a format of ``strptime`` unchanged; raise unless it gives a whole date.

    Examples:
        >>> check_format("%d.%m.%Y")
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


def _parse_number(text: str, form: Form) -> float:
    """Parse a stripped text as a number; NaN for dates and other texts."""
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


def _parse_days(text: str, form: Form) -> float:
    """Parse a date or time stamp as days since 1970-01-01 in UTC; NaN for other texts."""
    if "%" in form:
        try:
            return days_of(datetime.strptime(text, form))
        except (ValueError, OverflowError):
            return math.nan
    if form in ("date", "day-first") or (form == "any" and _PROMISING.match(text)):
        return _parse_date(text, form)
    return math.nan


def _parse_date(text: str, form: Form) -> float:
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
        return length_in_days(midnight - EPOCH + since)
    except (ValueError, OverflowError):
        return math.nan


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "UTC"):
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > 3 else 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def days_of(moment: datetime) -> float:
    """Convert a moment to days since 1970-01-01 in UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return length_in_days(aware - EPOCH)


def length_in_days(since: timedelta) -> float:
    """Convert a duration to days; whole days and the rest are rounded separately, as in columns."""
    return since.days + (since.seconds * 1_000_000 + since.microseconds) / PER_DAY["us"]


#: Whole numbers below this are written without an exponent.
_WRITTEN_OUT = 1e22
#: Python parses whole numbers of up to 4300 digits.
_LONGEST = 4000


def number_label(number: float) -> str:
    """Return the label of a number: ``39`` for 39.0, the empty text for NaN.

    Examples:
        >>> number_label(39.0), number_label(0.5), number_label(-0.0)
        ('39', '0.5', '0')
    """
    number = float(number)
    if math.isnan(number):
        return ""
    return str(int(number)) if abs(number) < _WRITTEN_OUT and number.is_integer() else repr(number)


def iso_date(days: float) -> str:
    """Format days since 1970-01-01 as an ISO 8601 date, with the time unless it is midnight.

    Examples:
        >>> iso_date(0.0), iso_date(0.5)
        ('1970-01-01', '1970-01-01 12:00:00')
    """
    if math.isnan(days):
        return ""
    try:
        moment = EPOCH + timedelta(days=days)
    except OverflowError:
        return f"day {number_label(days)}"
    return moment.date().isoformat() if days == math.floor(days) else moment.isoformat(" ")[:-6]


#: Prefix of a form that lists words to treat as values instead of as missing.
_WORDS = "words:"


def with_words(form: Form, words: Iterable[str]) -> Form:
    """Return a form in which some words for missing values are values (declared categories).

    Examples:
        >>> form = with_words("any", ["none", "school"])
        >>> form, read_text("none", form), read_text("null", form)
        ('words:none:any', (nan, 'none'), (nan, ''))
    """
    listed = dict.fromkeys(word.strip(BLANKS) for word in words if is_gap(word))
    return form if not listed or form.startswith(_WORDS) else f"{_WORDS}{'|'.join(listed)}:{form}"


def is_gap(text: str) -> bool:
    """Return whether a text denotes a missing value."""
    return text.strip(BLANKS).lower() in GAPS


def read_text(text: str, form: Form) -> tuple[float, str]:
    """Return a text as a number (NaN for a non-number) and its label ('' if missing)."""
    if form == "unit":
        # Values of other types start with a zero byte.
        label = f"\0str\0{text}" if text.startswith("\0") else text
        return math.nan, label if text.strip(BLANKS) else ""
    text = text.strip(BLANKS)
    if form.startswith(_WORDS):
        _, words, form = form.split(":", 2)
        if text in words.split("|"):
            return math.nan, text
    if form == "text" or not text:
        return math.nan, text
    if text.lower() in GAPS:
        return math.nan, ""
    number = _parse_number(text, form)
    if not math.isnan(number) and form != "truth":
        exact = _COMPILED["long"].fullmatch(text) and len(text) < _LONGEST
        # Do not use int, because Python limits the number of digits by a setting.
        return number, text.removeprefix("+") if exact else number_label(number)
    days = _parse_days(text, form)
    if not math.isnan(days):
        return days, iso_date(days)
    return number, text.capitalize() if _COMPILED["truth"].fullmatch(text) else text
