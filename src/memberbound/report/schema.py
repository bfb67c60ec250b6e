"""The format of ``report.json``: its name, its JSON Schema, and reading one that is to be trusted.

The schema is in the package (``schemas/report-1.json``); a few rules that JSON Schema cannot say
(lengths that agree, numbers in order) are checked here.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from memberbound.errors import InputError

__all__ = ["SCHEMA_ID", "document", "read", "validate"]

#: Name and version of the format; a report says it under ``schema``.
SCHEMA_ID = "memberbound-report/1"
_LONGEST = 80


@lru_cache(maxsize=1)
def _text() -> str:
    return files("memberbound.report").joinpath("schemas", "report-1.json").read_text("utf-8")


def document() -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12."""
    found: dict[str, Any] = json.loads(_text())
    return found


@lru_cache(maxsize=1)
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(document())


def validate(report: object) -> None:
    """Refuse anything that is not a report of this format, with one sentence: where, and what.

    Raises:
        InputError: the first thing that is wrong.
    """
    if not isinstance(report, dict):
        raise InputError(f"report must be a JSON object, got {_shown(report)}.")
    if report.get("schema") != SCHEMA_ID:
        found = _shown(report.get("schema"))
        raise InputError(f"report must have schema {SCHEMA_ID!r}, got {found}.")
    _plain_json(report)
    from jsonschema.exceptions import best_match

    problem = best_match(_validator().iter_errors(report))
    if problem is not None:
        place = _place(problem.absolute_path)
        raise InputError(f"{place} must be {_rule(problem)}, got {_shown(problem.instance)}.")
    _agreement(report)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the report in a file, validated.

    Raises:
        InputError: there is no such file, it is not JSON, or not a report of this format.
    """
    place = Path(path)
    if not place.is_file():
        raise InputError(f"report must be an existing file, got {str(path)!r}.")

    def refuse(word: str) -> None:
        raise InputError(f"report {place.name} must hold finite numbers, got {word}.")

    try:
        report = json.loads(place.read_text(encoding="utf-8-sig"), parse_constant=refuse)
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"report {place.name} must not be nested without end.") from None
    except (ValueError, OSError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise InputError(f"report {place.name} must be JSON: {first}.") from None
    validate(report)
    found: dict[str, Any] = report
    return found


def _plain_json(report: dict[str, Any]) -> None:
    """Refuse what JSON or a UTF-8 file cannot hold: NaN, endless nesting, half characters."""
    try:
        json.dumps(report, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("report must be text in UTF-8, got half of a surrogate pair.") from None
    except RecursionError:
        raise InputError("report must not be nested without end.") from None
    except (TypeError, ValueError) as problem:
        raise InputError(f"report must be plain JSON: {problem}.") from None


def _agreement(report: dict[str, Any]) -> None:
    """Check what depends on two places at once."""
    for number, curve in enumerate(report["roc"]):
        place = f"report.roc[{number}]"
        if len(curve["fpr"]) != len(curve["tpr"]):
            raise InputError(
                f"{place}.tpr must be as long as fpr ({len(curve['fpr'])}), "
                f"got {len(curve['tpr'])} numbers."
            )
        _rising(f"{place}.fpr", curve["fpr"])
    for number, item in enumerate(report["exposure"]):
        edges, counts = item["histogram"]["edges"], item["histogram"]["counts"]
        place = f"report.exposure[{number}].histogram"
        if len(edges) != len(counts) + 1:
            raise InputError(
                f"{place}.edges must be one more than counts ({len(counts)}), got {len(edges)}."
            )
        if edges != report["exposure"][0]["histogram"]["edges"]:
            raise InputError(f"{place}.edges must be those of exposure[0], got others.")
        _rising(f"{place}.edges", edges, strictly=True)
    said = report["translation"]
    if said is not None and said["population"] is not None:
        sweep = [point["epsilon"] for point in said["population"]["sweep"]]
        _rising("report.translation.population.sweep", sweep, strictly=True)
    chosen = [remedy["id"] for remedy in report["remedies"] if remedy["recommended"]]
    if len(chosen) > 1:
        raise InputError(f"report.remedies must be recommended once, got {chosen!r}.")
    for name, ids in (
        ("steps", [step["id"] for step in report["steps"]]),
        ("remedies", [remedy["id"] for remedy in report["remedies"]]),
        ("ledger", [entry["id"] for entry in report["ledger"]]),
        ("sandwich", [(row["subject"], row["record"]) for row in report["sandwich"]]),
        ("roc", [(curve["subject"], curve["kind"]) for curve in report["roc"]]),
        ("exposure", [item["subject"] for item in report["exposure"]]),
    ):
        twice = next((one for place, one in enumerate(ids) if one in ids[:place]), None)
        if twice is not None:
            raise InputError(f"report.{name} must be distinct, got {twice!r} twice.")


def _rising(place: str, values: list[float], *, strictly: bool = False) -> None:
    for before, after in pairwise(values):
        if after < before or (strictly and after == before):
            raise InputError(f"{place} must be in rising order, got {after} after {before}.")


def _place(path: Any) -> str:
    """Return where in the report, as one would write it: report.roc[2].kind."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "report" + "".join(parts)


_TYPES = {"object": "an object", "array": "a list", "string": "a text", "number": "a number"}
_TYPES |= {"integer": "a whole number", "boolean": "true or false", "null": "null"}
_RULES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}",
    "minItems": "a list of at least {}",
    "minLength": "a text of at least {} characters",
    "maxLength": "a text of at most {} characters",
    "pattern": "a text of the form {}",
    "const": "{!r}",
}


def _rule(problem: Any) -> str:
    """Return what would be right, in words."""
    rule, value = problem.validator, problem.validator_value
    if rule in _RULES:
        return _RULES[rule].format(value)
    if rule == "type":
        names = [value] if isinstance(value, str) else value
        return " or ".join(_TYPES[name] for name in names)
    if rule == "enum":
        return f"one of {', '.join(repr(item) for item in value)}"
    if rule == "required":
        missing = next(name for name in value if name not in problem.instance)
        return f"an object with {missing!r}"
    if rule == "additionalProperties":
        known = problem.schema["properties"]
        other = next(name for name in problem.instance if name not in known)
        return f"an object without {other!r}"
    if rule == "oneOf":
        return " or ".join(_TYPES[_resolved(option)["type"]] for option in value)
    return "different"


def _resolved(option: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference to the schema's own definitions stands for."""
    if "$ref" not in option:
        return option
    found: dict[str, Any] = document()["$defs"][option["$ref"].rpartition("/")[2]]
    return found


def _shown(value: object) -> str:
    """Return a value as it may stand in a sentence, shortened."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
