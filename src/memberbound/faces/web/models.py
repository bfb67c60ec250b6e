"""What goes in and comes out, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

from memberbound.faces.command_line import verb_named
from memberbound.faces.requests import FileId, Options, options_model

__all__ = [
    "JOBS",
    "Accepted",
    "Argument",
    "Equivalents",
    "Error",
    "ExplainOptions",
    "Health",
    "JobList",
    "JobRequest",
    "JobStatus",
    "LawOptions",
    "Roc",
    "UploadedFile",
    "View",
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: FileId | None = Field(default=None, description="The table; none for a known law.")
    verb: str
    options: Options


#: Verbs that run as jobs, in processes of their own.
JOBS = ("audit", "certify", "harden", "plan", "population", "protect", "study")


def _job(name: str) -> type[_Asked]:
    """Return the request that starts a job of a verb, from the verb's declaration."""
    verb = verb_named(name)
    options = options_model(verb)
    return create_model(
        f"{name.title()}Job",
        __base__=_Asked,
        __doc__=verb.summary,
        verb=(Literal[name], ...),  # type: ignore[arg-type]  # a literal made at run time
        options=(options, options()),
    )


if TYPE_CHECKING:  # a union that is made from the declarations cannot be checked
    JobRequest: TypeAlias = _Asked
    ExplainOptions: TypeAlias = Options
    LawOptions: TypeAlias = Options
else:
    JobRequest = Annotated[Union[tuple(map(_job, JOBS))], Field(discriminator="verb")]  # noqa: UP007
    ExplainOptions = options_model(verb_named("explain"))
    LawOptions = options_model(
        verb_named("plan"), "security", "record_leak", "uniform", "probabilities", "nu", "lam"
    )


class Argument(BaseModel):
    """An argument of a verb, as a form shows it."""

    name: str
    kind: str
    help: str
    default: bool | int | float | str | None
    choices: list[str]
    least: float | None
    most: float | None


class Error(BaseModel):
    """Why a request was refused, in one sentence."""

    error: str


class Health(BaseModel):
    """What is running here."""

    version: str
    limits: dict[str, int | float]
    verbs: list[str]


class Roc(BaseModel):
    """The certified ceiling of every attack: the TPR is at or above the truth at each FPR."""

    fpr: list[float]
    tpr: list[float]
    adjacency: str
    tpr_replace_one: list[float] | None = Field(
        description="The ceiling at replace-one adjacency, where the one above is add-remove."
    )


class Equivalents(BaseModel):
    """The same question on the command line and in Python."""

    command: str
    python: str


class Column(BaseModel):
    """A column of an upload; ``distinct`` is left out of large files."""

    name: str
    type: str
    role: Literal["number", "category", "date", "identifier", "text"]
    numeric: bool
    distinct: int | None


class UploadedFile(BaseModel):
    """An upload that is kept: its id, and what is in it."""

    file: str
    name: str
    bytes: int
    rows: int
    columns: list[Column]


class Accepted(BaseModel):
    """A job that waits or runs."""

    job: str


class JobProgress(BaseModel):
    """How far a job is; ``total`` is null while that cannot be told."""

    done: float
    total: float | None
    label: str


class Failure(BaseModel):
    """Why a job failed."""

    message: str


class Output(BaseModel):
    """A file that can be downloaded."""

    name: str
    bytes: int


class JobSummary(BaseModel):
    """A job without its result."""

    job: str
    verb: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress | None
    seconds: float
    error: Failure | None
    files: list[Output]
    command: str
    python: str


class JobStatus(JobSummary):
    """A job: ``result`` is exactly the dictionary of the contract, ``plots`` data for charts."""

    result: dict[str, Any] | None
    plots: dict[str, Any]


class JobList(BaseModel):
    """All jobs that are kept, oldest first."""

    jobs: list[JobSummary]


class View(BaseModel):
    """A report that can be opened at ``/api/views/{view}``."""

    view: str
