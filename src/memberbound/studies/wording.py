"""Words of a study: commands to repeat a step."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

__all__ = ["command_of", "names_of", "number_up"]


def command_of(verb: str, source: str, options: Mapping[str, Any]) -> str:
    """Return a command line; options without a value are left out.

    >>> command_of("protect", "my table.csv", {"--eta": 0.05, "--record": None})
    "memberbound protect 'my table.csv' --eta 0.05"
    """
    parts = ["memberbound", verb, source]
    for name, value in options.items():
        if value is not None:
            parts += [name, str(value)]
    return shlex.join(parts)


def names_of(columns: Iterable[str] | None) -> str | None:
    """Return names as an option takes them: with commas between, and quoted where they have one.

    >>> names_of(["age", "height, cm"])
    'age,"height, cm"'
    """
    if columns is None:
        return None
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(columns)
    return text.getvalue()


def number_up(value: float) -> str:
    """Return a few digits, rounded up: a wish that is repeated must not become a weaker one.

    >>> number_up(0.9000000000000001), number_up(1 - 2 / 30)
    ('0.9', '0.933334')
    """
    # What a float's last digits say is rounding; twelve digits are meant.
    meant = Context(prec=12).create_decimal(Decimal(value))
    return f"{Context(prec=6, rounding=ROUND_CEILING).create_decimal(meant).normalize():f}"
