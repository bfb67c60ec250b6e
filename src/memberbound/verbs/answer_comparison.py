"""Compare a printed answer with one recomputed from its record, key by key (X34)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from memberbound.answers import Answer, Printed, plain
from memberbound.quantities import Side, Sides, side_below
from memberbound.release.verification import Check, require, run_check

#: Relative difference of recomputed doubles between machines, at most.
MACHINES = 1e-9
#: Keys that a record does not determine: descriptions of the file and its columns, and notes.
_NO_PROMISES = {"version", "warnings", "roles", "records", "records_out", "derivation", "sentence"}


def differences(
    printed: object, expected: object, sides: Side | Sides | None, path: str = ""
) -> Iterator[str]:
    """Yield every printed value that promises more than the recomputed one, or differs from it.

    A printed upper bound may be larger and a lower bound smaller; every other value must agree.

    Examples:
        >>> list(differences({"a": 0.25, "b": 1}, {"a": 0.5, "b": 1}, {"a": "upper"}))
        ['a is printed as 0.25, recomputed 0.5']
    """
    if isinstance(printed, Mapping) and isinstance(expected, Mapping):
        for key in sorted(set(printed) ^ set(expected)):
            yield f"{path}{key} is {'unknown' if key in printed else 'missing'}"
        for key in expected:
            if key in printed:
                below = side_below(sides, key)
                yield from differences(printed[key], expected[key], below, f"{path}{key}.")
    elif isinstance(printed, list) and isinstance(expected, list) and len(printed) == len(expected):
        for one, other in zip(printed, expected, strict=True):
            yield from differences(one, other, sides, path)
    elif not _agree(printed, expected, sides):
        yield f"{path.rstrip('.')} is printed as {str(printed)[:60]}, recomputed {expected}"


def _agree(printed: object, expected: object, side: Side | Sides | None) -> bool:
    if printed is None and side == "upper":
        return True  # not a bound
    if type(expected) is not float or type(printed) not in (int, float):
        return type(printed) is type(expected) and printed == expected
    assert isinstance(printed, (int, float))
    room = MACHINES * max(abs(expected), abs(printed))
    if side == "upper":
        return printed >= expected - room
    return printed <= expected + room and (side == "lower" or printed >= expected - room)


def compare_answers(
    printed: Printed, answer: Callable[[], Answer], apart: Sequence[str] = ()
) -> Iterator[Check]:
    """Yield the checks that compare a printed answer with the one computed from its record."""
    left_out = _NO_PROMISES | {"assumptions", *apart}
    found: list[Answer] = []

    def numbers() -> str:
        found.append(answer())
        expected = plain(found[0].to_dict())
        kept, wanted = (
            {key: value for key, value in each.items() if key not in left_out}
            for each in (printed, expected)
        )
        problem = next(differences(kept, wanted, found[0].SIDES), None)
        require(problem is None, str(problem))
        missing = set(expected["assumptions"]) - set(printed["assumptions"])
        require(not missing, f"an assumption is missing: {min(missing, default='')}")
        return f"{len(wanted)} keys follow from the record"

    def sentence() -> str:
        names = {f.name for f in fields(found[0])} & set(printed)  # type: ignore[arg-type]
        stated = {n: printed[n] for n in names if type(printed[n]) in (int, float)}
        wanted = replace(found[0], **stated).sentence  # type: ignore[type-var, attr-defined]
        require(printed["sentence"] == wanted, f"the sentence must read: {wanted}")
        return "the sentence is the one of its numbers"

    yield run_check("numbers", numbers)
    if found and "sentence" not in apart:
        yield run_check("sentence", sentence)
