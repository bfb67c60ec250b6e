"""The report's words: those that code needs, and the texts of ``templates/words.yaml``."""

from __future__ import annotations

from functools import cache
from typing import Any

from memberbound.quantities import Mark, allowed, percent, points
from memberbound.report import template_text
from memberbound.report.model import Report

#: Word for the verdict's level.
LEVELS = {
    "safe": "Passed",
    "exposed": "Exposed",
    "unproved": "No guarantee",
    "partial": "Incomplete",
}
STATES = {
    "done": "done",
    "impossible": "not possible here",
    "failed": "failed",
    "stopped": "stopped",
}
GAMES = {
    "neighbour": "the attacker knows every other record; one record is in, or another in its place",
    "subset": "a random half of these records is the training set; the attacker knows all of them",
    "iid": "all records are fresh draws from one source; the attacker knows that source",
    "model": "one given model; a candidate is one of its training records or a fresh one",
}
#: What an attacker sees of a model, in words.
ACCESS = {
    "labels": "labels only",
    "values": "predictions",
    "probabilities": "probabilities",
    "parameters": "the model itself",
}
#: Stands on everything that was computed from the rows and that no budget paid for.
OWNER_ONLY = (
    "For the owner of the table only: these numbers were computed from its rows, and no "
    "certificate covers them. Publish the released file with its certificate, "
    "and the model card."
)
#: Whom a study is to protect.
WHOM = "every single record"


@cache
def words() -> dict[str, Any]:
    """Return the texts of ``words.yaml`` by their names: glossary, limits and others."""
    import yaml

    texts: dict[str, Any] = yaml.safe_load(template_text("words.yaml"))
    return texts


def release_assumptions() -> tuple[str, ...]:
    """Return what has to be true of a release of all rows."""
    return tuple(words()["assumed"]["protect-every"])


def assumed(report: Report) -> list[str]:
    """Return the assumptions in plain words, of the steps that gave an answer."""
    steps = [step.id for step in report.steps_in("done")]
    return list(dict.fromkeys(text for step in steps for text in words()["assumed"][step]))


def who_chose(report: Report) -> str:
    """Return whose limit the study holds the model to."""
    default = report.defaulted("eta")
    return "memberbound's default, which nobody chose" if default else "chosen by you"


def blind_guess(value: float) -> Mark:
    """Return how often a blind guess is right: known exactly, and rounded as bounds beside it."""
    return Mark("given", percent(value, "upper"))


def allowed_over(blind: float, eta: float) -> Mark:
    """Return what a study allows somebody who could as well guess blindly."""
    return Mark("given", allowed(blind, eta))


def promise(blind: float, eta: float) -> str:
    """Return where the allowed share comes from.

    >>> promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"
