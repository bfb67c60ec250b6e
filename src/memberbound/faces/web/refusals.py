"""Answers that say no: a status and one sentence, as ``{"error": sentence}``."""

from __future__ import annotations

from typing import Any

from memberbound.errors import MemberboundError

__all__ = ["RefusedError", "first_sentence"]


class RefusedError(MemberboundError):
    """A request that is answered with a status of its own."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def first_sentence(problems: list[Any]) -> str:
    """Return the first of pydantic's complaints as a sentence, without quoting the input."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place[:200] or 'the request'}: {message}."
