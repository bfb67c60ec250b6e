"""The report of a study as dataclasses, and the reader of ``report.json``.

The dataclasses *are* the format: the JSON Schema is generated from them, files are validated
against them, and all renderers take them.  A field's annotation (:mod:`memberbound.report.fields`)
limits its values; constraints between fields are checked on construction.

pydantic is imported only to read a report or to generate the schema.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import Annotated, Final, Literal

from memberbound.errors import InputError
from memberbound.files import read_document
from memberbound.games import SubsetGame
from memberbound.quantities import Mark, allowed, decimals, marked, percent, significant
from memberbound.report.fields import (
    Confidence,
    Constraint,
    Count,
    Eta,
    Level,
    LogLoss,
    Name,
    Positive,
    Protected,
    RemedyId,
    Result,
    Right,
    Role,
    Score,
    Seconds,
    Share,
    Shares,
    StepId,
    StepState,
    Subject,
    Theorem,
)
from memberbound.report.parsing import adapter, parse_as, shorten
from memberbound.report.views import (
    VIEWS,
    AuditView,
    ExplainView,
    GivenView,
    PopulationView,
    V,
)

#: Name and version of the format, stored under ``schema``.
SCHEMA_ID: Final = "memberbound-report/4"
#: Readable names of a row's record.
RECORDS = {"worst": "most exposed record", "average": "average record"}

#: Labels of the subjects, in the order of the report.
LABELS: dict[Subject, str] = {
    "given": "The given model",
    "model": "Model trained as usual",
    "noise-every": "Model with noise that protects every record",
    "noise-other": "Another learner with noise that protects every record",
    "table": "Any model trained on the table",
    "coarser-table": "Any model trained on the coarser table",
}


@dataclass(frozen=True)
class Verdict:
    """The study in one sentence, with a recommendation."""

    level: Level
    sentence: Name
    advice: Name


@dataclass(frozen=True)
class Question:
    """All inputs of a study besides the data; ``study`` describes the options."""

    target: Name
    learner: Name = "logistic"
    eta: Eta = 0.05
    epsilon: Positive = 8.0
    confidence: Annotated[float, Constraint(gt=0, lt=1)] = 0.95
    shadows: Annotated[int, Constraint(ge=8, le=10**9)] = 64
    columns: tuple[str, ...] | None = None
    roles: Mapping[str, Role] | None = None
    database_table: str | None = None
    unit: str | None = None
    #: Names of files: the public bounds, the given model and its non-members.
    bounds: str | None = None
    model: str | None = None
    nonmembers: str | None = None
    quick: bool = False
    seed: Annotated[int, Constraint(ge=0)] = 0


@dataclass(frozen=True, kw_only=True)
class Data:
    """A description of the studied table, without values of any row."""

    name: str
    embedded: bool
    #: Number of records studied: rows with a target, or persons.
    rows: Annotated[int, Constraint(ge=1, le=2**53 - 1)]
    columns: tuple[str, ...]
    roles: Mapping[str, Role]
    left_out: tuple[str, ...]
    encoded_features: Count
    target: str
    task: Literal["classification", "regression"]
    classes: tuple[str, ...]
    sha256: Annotated[str, Constraint(pattern="^[0-9a-f]{64}$")]
    #: Records of the table, with or without a target: the number that a release publishes.  None
    #: in reports of earlier versions.
    records: Annotated[int, Constraint(ge=1, le=2**53 - 1)] | None = None


@dataclass(frozen=True)
class SandwichRow:
    """Attack success on a record of a subject, in one game.

    ``accuracy_upper`` is certified, ``accuracy_lower`` is a lower bound on an attack that was
    tried, and ``accuracy_estimate`` is neither.
    """

    subject: Subject
    label: Name
    record: Literal["average", "worst"]
    game: Literal["iid", "subset", "neighbour", "model"]
    blind: Right
    accuracy_upper: Right | None = None
    accuracy_estimate: Share | None = None
    accuracy_lower: Right | None = None
    confidence: Confidence | None = None

    @property
    def most(self) -> Mark:
        """The ceiling for display, or a mark that nothing is proved."""
        return marked(self.accuracy_upper, "certificate")

    @property
    def observed(self) -> float | None:
        """The estimate, if it is informative.

        For the most exposed record, few models give a high estimate by chance, so it is shown only
        if a floor proves a leak.
        """
        return self.accuracy_estimate if self.record == "average" or self.beaten else None

    @property
    def seen(self) -> Mark | None:
        """The estimate for display, if it is informative."""
        return None if self.observed is None else marked(self.observed, "estimate")

    @property
    def least(self) -> Mark | None:
        """The floor for display, if there is one."""
        lower = self.accuracy_lower
        return None if lower is None else marked(lower, "audit", blind=self.blind)

    @property
    def beaten(self) -> float | None:
        """The floor, if it proves that an attack does better than blind guessing."""
        shown = self.least is not None and self.least.kind == "audit"
        return self.accuracy_lower if shown else None


@dataclass(frozen=True)
class RocCurve:
    """Members found (tpr) over false alarms (fpr), measured or certified."""

    subject: Subject
    kind: Literal["estimate", "certificate"]
    label: Name
    fpr: Shares
    tpr: Shares

    def __post_init__(self) -> None:
        if len(self.fpr) != len(self.tpr):
            raise InputError(
                f"tpr must be as long as fpr ({len(self.fpr)}), got {len(self.tpr)} numbers."
            )


@dataclass(frozen=True)
class ExposureHistogram:
    """Histogram of attack success over records, for the learner as it is."""

    edges: Shares
    counts: Annotated[tuple[Count, ...], Constraint(min_length=1)]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise InputError(
                f"edges must be one more than counts ({len(self.counts)}), got {len(self.edges)}."
            )


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A remedy, with its certified bounds and its costs."""

    id: RemedyId
    label: Name
    protects: Protected | None = None
    game: Literal["iid", "neighbour"] | None = None
    enough: bool = False
    accuracy_upper: Right | None = None
    confidence: Confidence | None = None
    score_name: Literal["accuracy", "R²"] | None = None
    score_before_estimate: Score | None = None
    score_after_estimate: Score | None = None
    #: Standard deviation between splits of the score with the remedy.
    score_spread_estimate: Annotated[float, Constraint(ge=0)] | None = None
    loss_estimate: float | None = None
    above_chance: bool | None = None
    #: The sense in which models are worse than a constant, as a clause.
    shortcoming: str | None = None
    auc_estimate: Share | None = None
    log_loss_estimate: LogLoss | None = None
    log_loss_constant_estimate: LogLoss | None = None
    extra_rows: Count | None = None
    information_kept_estimate: Annotated[float, Constraint(ge=0)] | None = None
    steps: tuple[str, ...] = ()
    #: The learner, if a model is released.
    learner: str | None = None
    sentence: str = ""
    command: str | None = None
    recommended: bool = False

    @property
    def before(self) -> Mark | None:
        """The estimated score of the unchanged model, if known."""
        value = self.score_before_estimate
        return None if value is None else score_mark(value)

    @property
    def after(self) -> Mark | None:
        """The estimated score with the remedy, if known."""
        value, spread = self.score_after_estimate, self.score_spread_estimate
        if value is None or spread is None:
            return None if value is None else score_mark(value)
        return Mark("estimate", f"{score_mark(value)} ± {decimals(spread, 'estimate', 3)}")

    @property
    def change(self) -> Mark | None:
        """The estimated change of the model's score, if known."""
        before, after = self.score_before_estimate, self.score_after_estimate
        if before is None or after is None:
            return None
        change = score_mark(after - before).text.removeprefix("≈ ")
        return Mark("estimate", f"≈ {'' if change.startswith('-') else '+'}{change}")


def score_mark(value: float) -> Mark:
    """Format a model's score, an estimate."""
    small = abs(value) < 10
    shown = decimals(value, "estimate", 3) if small else significant(value, "estimate", 4)
    return Mark("estimate", f"≈ {shown}")


def blind_guess(value: float) -> Mark:
    """Format the success rate of blind guessing, rounded like the bounds next to it."""
    return Mark("given", percent(value, "upper"))


def allowed_success(blind: float, eta: float) -> Mark:
    """Format the success rate that a study allows."""
    return Mark("given", allowed(blind, eta))


@dataclass(frozen=True)
class StepRecord:
    """A step of the study: its state, and its verb's answer."""

    id: StepId
    title: Name
    state: StepState
    seconds: Seconds
    error: str | None
    sentence: str | None
    result: Result | None


@dataclass(frozen=True)
class UsedTheorem:
    """A theorem that a step used; ``memberbound theorems`` shows details."""

    id: Theorem
    title: Name
    statement: Name
    status: Name


@dataclass(frozen=True)
class Run:
    """The time and duration of the study, and the chosen options."""

    started: Annotated[
        str, Constraint(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[+-][0-9]{2}:[0-9]{2}$")
    ]
    seconds: Seconds
    python: Name
    chosen: tuple[str, ...]


# ── The report ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Report:
    """The findings of a study, each number with its kind, game and record.

    ``report.html`` shows nothing else.
    """

    command: Literal["study"]
    version: Name
    game: Literal["subset"]
    protects: Literal["every record"]
    theorems: tuple[Theorem, ...]
    assumptions: tuple[Name, ...]
    schema: Literal["memberbound-report/4"]
    status: Literal["complete", "partial"]
    verdict: Verdict
    question: Question
    data: Data
    sandwich: tuple[SandwichRow, ...]
    roc: tuple[RocCurve, ...]
    exposure: ExposureHistogram | None
    remedies: tuple[Remedy, ...]
    steps: Annotated[tuple[StepRecord, ...], Constraint(min_length=1)]
    ledger: tuple[UsedTheorem, ...]
    run: Run
    #: Study results are computed from the raw rows, outside any privacy budget.
    audience: Literal["owner"] = "owner"

    def _view(self, step: StepId, kind: type[V]) -> V | None:
        """Return a step's answer as a typed view, or None if it has none."""
        result = next((each.result for each in self.steps if each.id == step), None)
        return None if result is None else parse_as(kind, result, step)

    @cached_property
    def given(self) -> GivenView | None:
        """The audit of the given model."""
        return self._view("given", GivenView)

    @cached_property
    def audit(self) -> AuditView | None:
        """The audit of the learner as it is."""
        return self._view("audit", AuditView)

    @cached_property
    def explained(self) -> ExplainView | None:
        """The promise of the user's ε."""
        return self._view("explain", ExplainView)

    @cached_property
    def population(self) -> PopulationView | None:
        """The meaning of the user's ε for the records of the table."""
        return self._view("population", PopulationView)

    @property
    def subset_game(self) -> SubsetGame:
        """The game of the audits: a random half of the rows."""
        rows = max(2, self.data.rows)
        return SubsetGame(rows, rows // 2, "every")

    @property
    def complete(self) -> bool:
        """Whether every step ended with an answer."""
        return self.status == "complete"

    @property
    def recommended(self) -> Remedy | None:
        """The remedy that the study recommends."""
        return next((remedy for remedy in self.remedies if remedy.recommended), None)

    def is_default(self, option: str) -> bool:
        """Return whether an option has its default value, which is only an example."""
        return option not in self.run.chosen

    def row_of(self, subject: str, record: str) -> SandwichRow | None:
        """Return the bound on attack success for a record of a subject."""
        rows = (r for r in self.sandwich if r.subject == subject and r.record == record)
        return next(rows, None)

    @property
    def usual(self) -> str:
        """The baseline of the remedies, for use within a sentence."""
        return "trained as usual" if self.question.model is None else "the given model"

    def steps_in(self, *states: StepState) -> list[StepRecord]:
        """Return the steps that ended in one of these states."""
        return [step for step in self.steps if step.state in states]

    def blind_in(self, game: str | None) -> float:
        """Return the success rate of blind guessing in a game of the report."""
        return max((row.blind for row in self.sandwich if row.game == game), default=0.5)

    @property
    def limit(self) -> tuple[float, Mark]:
        """The allowed success rate, in the remedy's game; the same on all pages."""
        best, eta = self.recommended, self.question.eta
        blind = self.blind_in(self.game if best is None else best.game)
        return blind + eta, allowed_success(blind, eta)

    def to_dict(self) -> dict[str, object]:
        """Return the content of ``report.json``."""
        content: dict[str, object] = json.loads(self.to_json())
        return content

    def to_json(self) -> str:
        """Return the text of ``report.json``."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


# Forbid unknown keys and infinite numbers.  Set it on every class: pydantic 2.13 does not pass the
# configuration on to the classes of fields.
for _kind in list(vars().values()):
    if is_dataclass(_kind) and _kind.__module__ == __name__:
        setattr(  # noqa: B010  # not declared by a standard dataclass
            _kind,
            "__pydantic_config__",
            {"extra": "forbid", "strict": True, "allow_inf_nan": False},
        )


def document() -> dict[str, object]:
    """Return the JSON Schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:memberbound:report:4",
    } | adapter(Report).json_schema()


def parse_report(report: object) -> Report:
    """Parse the dictionary of a ``report.json``; reject anything else.

    Raises:
        InputError: states the first problem and its path.
    """
    if not isinstance(report, Mapping):
        raise InputError(f"report must be a JSON object, got {shorten(report)}.")
    if report.get("schema") != SCHEMA_ID:
        schema = report.get("schema")
        if not str(schema).startswith("memberbound-report/"):
            raise InputError(
                "report must be the report.json of a study (memberbound study), got another JSON "
                "object."
            )
        raise InputError(f"report must have schema {SCHEMA_ID!r}, got {schema}.")
    typed = parse_as(Report, report, "report")
    for step, kind in VIEWS.items():
        typed._view(step, kind)
    return typed


def read(path: str | os.PathLike[str]) -> Report:
    """Read and check the report in a file.

    Raises:
        InputError: there is no such file, it is not JSON, or not a report of this format.
    """
    return parse_report(read_document(path, "report", "JSON"))
