"""Words of a study: commands to repeat a step."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["command_of", "names_of"]


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
