"""What goes in and comes out, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memberbound.faces.web.options import (
    AuditOptions,
    CertifyOptions,
    FileId,
    HardenOptions,
    PlanOptions,
    PopulationOptions,
    ProtectOptions,
    StudyOptions,
)

__all__ = [
    "Accepted",
    "Equivalents",
    "Error",
    "Health",
    "JobList",
    "JobRequest",
    "JobStatus",
    "Roc",
    "UploadedFile",
    "View",
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: FileId | None = Field(default=None, description="The table; none for a known law.")


class AuditJob(_Asked):
    """Measure what attacks reach on a learner or in a table of scores."""

    verb: Literal["audit"]
    options: AuditOptions = AuditOptions()


class CertifyJob(_Asked):
    """Certify how much any model can leak about the rows of a table or a law."""

    verb: Literal["certify"]
    options: CertifyOptions = CertifyOptions()


class HardenJob(_Asked):
    """Coarsen a table until any model trained on it is certified to be safe."""

    verb: Literal["harden"]
    options: HardenOptions = HardenOptions()


class PlanJob(_Asked):
    """Say how many rows are enough."""

    verb: Literal["plan"]
    options: PlanOptions = PlanOptions()


class PopulationJob(_Asked):
    """Say what ε means for the records of a known population."""

    verb: Literal["population"]
    options: PopulationOptions = PopulationOptions()


class ProtectJob(_Asked):
    """Release a model or a statistic of a secret half with noise that is proved to be enough."""

    verb: Literal["protect"]
    options: ProtectOptions = ProtectOptions()


class StudyJob(_Asked):
    """Certify, audit and protect a learner on a table, and write the report."""

    verb: Literal["study"]
    options: StudyOptions = StudyOptions()


JobRequest = Annotated[
    AuditJob | CertifyJob | HardenJob | PlanJob | PopulationJob | ProtectJob | StudyJob,
    Field(discriminator="verb"),
]


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
