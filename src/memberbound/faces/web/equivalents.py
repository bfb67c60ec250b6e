"""The same question on the command line and in Python, to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Equivalent", "equivalent"]

#: Outputs that a job writes, by verb: what turns them on, flag and argument, file name.
_ALWAYS = {
    "harden": [("--out", "out", "hardened.parquet"), ("--recipe", "recipe_out", "recipe.json")],
    "study": [("--out", "out", "study")],
}
_ASKED = {
    "audit": ("--records", "records_out", "records.csv"),
    "certify": ("--records", "records", "records.parquet"),
    "population": ("--records", "records_out", "records.csv"),
}
#: Lists that are one flag per entry; all other lists are joined by commas.
_REPEATED = ("fpr",)
_SWITCHES = ("learners", "tune")


@dataclass(frozen=True)
class Equivalent:
    """A command line and a piece of Python that do what a request does."""

    command: str
    python: str


def equivalent(verb: str, table: str | None, options: dict[str, Any]) -> Equivalent:
    """Return how to ask the same without the web page.

    ``options`` are keyword arguments, with the names of files where uploads are meant.

    Examples:
        >>> equivalent("certify", "people.csv", {"columns": ["age", "sex"]}).command
        'memberbound certify people.csv --columns age,sex --json'
    """
    rest = dict(options)
    written = list(_ALWAYS.get(verb, []))
    if verb == "protect":
        ending = "skops" if rest.get("statistic") is None else "safetensors"
        written.append(("--out", "out", f"release.{ending}"))
    if verb in _ASKED and rest.pop("records", False):
        written.append(_ASKED[verb])
    words = ["memberbound", verb]
    if table is not None:
        words.append(f"./{table}" if table.startswith("-") else table)
    inline = ""
    for name, value in rest.items():
        if name in ("probabilities", "candidates") and not isinstance(value, str):
            inline = _INLINE[name]
            words += [f"--{name}", f"{name}.csv"]
        else:
            words += _flags(name, value)
    words += [word for flag, _, file in written for word in (flag, file)]
    command = shlex.join([*words, "--json"])
    if inline:
        command = f"# {inline}\n{command}"
    arguments = ([] if table is None else [repr(table)]) + [
        f"{name}={value!r}" for name, value in rest.items()
    ]
    arguments += [f"{name}={file!r}" for _, name, file in written]
    return Equivalent(command, _python(verb, arguments))


_INLINE = {
    "probabilities": "probabilities.csv: one column named probability, one value per line",
    "candidates": "candidates.csv: a line of column names, then one candidate per line",
}


def _python(verb: str, arguments: list[str]) -> str:
    call = f"result = memberbound.{verb}({', '.join(arguments)})"
    if len(call) > 88:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        call = f"result = memberbound.{verb}(\n{lines})"
    return f"import memberbound\n\n{call}\nprint(result.summary())\n"


def _flags(name: str, value: Any) -> Iterator[str] | list[str]:
    flag = "--" + name.replace("_", "-")
    if name in _SWITCHES:
        return [flag if value else flag.replace("--", "--no-", 1)]
    if name == "roles":
        return [flag, _joined([f"{column}={role}" for column, role in value.items()])]
    if isinstance(value, dict):  # bins of several columns
        return [w for c, edges in value.items() for w in (flag, f"{c}={_joined(edges)}")]
    if name in _REPEATED:
        values = value if isinstance(value, list) else [value]
        return [word for item in values for word in (flag, repr(item))]
    if isinstance(value, list):
        return [flag, _joined(value)]
    return [flag, value if isinstance(value, str) else repr(value)]


def _joined(values: list[Any]) -> str:
    """Join by commas, quoting as CSV does where a name would not be read back as it is."""
    return ",".join(_quoted(str(value)) for value in values)


def _quoted(text: str) -> str:
    plain = text == text.strip() and not any(mark in text for mark in ',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'
