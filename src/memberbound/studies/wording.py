"""Words of a study: lower bounds rounded down, and commands to repeat a step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from memberbound.explanation.wording import percent_down

__all__ = ["command_of", "percent_down"]


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
