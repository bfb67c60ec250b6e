"""Typed views of the parts of answers that a report shows.

A step stores its verb's dictionary, as in ``report.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from memberbound.numerics.rounding import down
from memberbound.report.fields import StepId


class StepView:
    """A typed view of an answer, which ignores the answer's other keys."""

    __pydantic_config__ = {"extra": "ignore", "strict": True, "allow_inf_nan": False}  # noqa: RUF012


@dataclass(frozen=True)
class AnswerGrounds(StepView):
    """The theorems and the assumptions behind any answer."""

    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Reached(StepView):
    """The measured advantage of an attack."""

    estimate: float
    lower: float | None


@dataclass(frozen=True)
class BestAttack(StepView):
    """The best attack with one kind of access to the model."""

    attack: str
    advantage: Reached


@dataclass(frozen=True)
class OutputFact(StepView):
    """A fact about a model for an output checker."""

    name: str
    value: object
    rule: object
    passes: object
    reason: object


@dataclass(frozen=True)
class SameLaw(StepView):
    """The test of members and non-members for one distribution, as a sentence."""

    sentence: str


@dataclass(frozen=True)
class AccessFloor:
    """Success of the best attack with one kind of access: an estimate, and a floor if any."""

    access: str
    attack: str
    estimate: float
    lower: float | None


@dataclass(frozen=True)
class GivenView(StepView):
    """The audit of a given model."""

    members: int
    non_members: int
    score_members_estimate: float
    score_nonmembers_estimate: float
    by_access: Mapping[str, BestAttack]
    records: Mapping[str, object]
    facts: tuple[OutputFact, ...]
    warnings: tuple[str, ...]
    comparable: bool
    one_law: SameLaw | None = None

    def access_floors(self) -> list[AccessFloor]:
        """Return the success of the best attack for each kind of access.

        All floors hold together; there are none if members and non-members are not comparable.
        """
        floors = []
        for access, best in self.by_access.items():
            lower = best.advantage.lower if self.comparable else None
            floor = None if lower is None else max(0.5, down((1 + lower) / 2))
            estimate = max(0.0, min(1.0, (1 + best.advantage.estimate) / 2))
            floors.append(AccessFloor(access, best.attack, estimate, floor))
        return floors


@dataclass(frozen=True)
class AttackedRecord(StepView):
    """A record with high attack success; ``proved`` if its floor exceeds blind guessing."""

    record: object
    estimate: float
    lower: float
    proved: bool


@dataclass(frozen=True)
class RecordsView(StepView):
    """Attack success record by record."""

    targets: int
    exposed_records: int
    blind_accuracy: float
    exposed_above: float
    confidence: float
    most_exposed: tuple[AttackedRecord, ...]
    ends_hold: str = ""


@dataclass(frozen=True)
class AuditView(StepView):
    """The audit of the learner as it is."""

    records: RecordsView


@dataclass(frozen=True)
class ExplainView(StepView):
    """The promise of the user's ε."""

    accuracy_upper: float
    epsilon: float
    epsilon_as_strict: float
    epsilon_as_strict_with_delta: float | None = None
    delta: float | None = None


@dataclass(frozen=True)
class PopulationView(StepView):
    """The meaning of the user's ε for the records of the table."""

    success_blind: float
    success_upper: float
    success_worst_case_upper: float | None = None
    success_population_upper: float | None = None


VIEWS: dict[StepId, type[StepView]] = {
    "given": GivenView,
    "audit": AuditView,
    "explain": ExplainView,
    "population": PopulationView,
}


V = TypeVar("V", bound=StepView)
