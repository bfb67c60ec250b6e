"""What may be asked of each verb over the web: its keyword arguments, and nothing that is a path.

Every class mirrors the keyword arguments of one function of the package.  Arguments that name
files take the id of an upload; outputs are named by the server; learners go by short name only,
because ``package.module:factory`` would run code.  Ranges are checked by the verbs themselves,
with their own sentences; here stands what keeps a request small.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memberbound.learners import LEARNERS

__all__ = [
    "AuditOptions",
    "CertifyOptions",
    "ExplainOptions",
    "HardenOptions",
    "LawOptions",
    "Options",
    "PlanOptions",
    "PopulationOptions",
    "ProtectOptions",
    "StudyOptions",
]

#: A request may list this many numbers; a longer law or table is uploaded.
MOST_NUMBERS = 10_000
#: DP-SGD runs longer than this are a slip of the pen.
MOST_STEPS = 10**12


def _known_learner(name: str) -> str:
    if name not in LEARNERS:
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {name!r}")
    return name


Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=10**15)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
Names = Annotated[list[Name], Field(max_length=2000)]
Numbers = Annotated[list[Number], Field(max_length=MOST_NUMBERS)]
Rates = Annotated[list[Number], Field(max_length=50)]
FileId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$", description="The id of an upload.")]
Learner = Annotated[
    str, AfterValidator(_known_learner), Field(json_schema_extra={"enum": list(LEARNERS)})
]
Roles = Annotated[
    dict[Name, Literal["number", "category", "date", "identifier", "text"]],
    Field(max_length=2000, description="What columns are, where it is not what they look like."),
]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Options(BaseModel):
    """Keyword arguments of a verb; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: Arguments whose value is the id of an upload.
    files: ClassVar[tuple[str, ...]] = ()

    def given(self) -> dict[str, Any]:
        """Return the arguments that were given, ``None`` left out."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


class ExplainOptions(Options):
    """Keyword arguments of ``memberbound.explain``."""

    epsilon: Number | None = None
    delta: Number | None = None
    gdp: Number | None = None
    noise_multiplier: Number | None = None
    sample_rate: Number | None = None
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] | None = None
    nu: Number | None = None
    lam: Number | None = None
    prior: Number | None = None
    fpr: Number | Rates | None = None
    adjacency: Literal["replace-one", "add-remove"] | None = None
    target_advantage: Number | None = None
    target_tpr: Number | None = None
    target_eta: Number | None = None
    target_security: Number | None = None


class LawOptions(Options):
    """Keyword arguments of ``memberbound.plan`` for a known law."""

    security: Number | None = None
    record_leak: Number | None = None
    uniform: Whole | None = None
    probabilities: Numbers | None = None
    nu: Number | None = None
    lam: Number | None = None


class PlanOptions(LawOptions):
    """Keyword arguments of ``memberbound.plan``."""

    columns: Names | None = None
    roles: Roles | None = None
    confidence: Number | None = None
    unit: Name | None = None


class CertifyOptions(Options):
    """Keyword arguments of ``memberbound.certify``; ``records`` asks for a file of all rows."""

    files = ("reference",)

    columns: Names | None = None
    roles: Roles | None = None
    n: Whole | None = None
    confidence: Number | None = None
    nu: Number | None = None
    lam: Number | None = None
    probabilities: Numbers | None = None
    uniform: Whole | None = None
    reference: FileId | None = None
    unit: Name | None = None
    exposed_above: Number | None = None
    list_exposed: Annotated[int, Field(ge=0, le=1000)] | None = None
    records: bool | None = None


class HardenOptions(Options):
    """Keyword arguments of ``memberbound.harden``."""

    files = ("reference",)

    security: Number | None = None
    record_leak: Number | None = None
    target: Name | None = None
    columns: Names | None = None
    roles: Roles | None = None
    keep: Names | None = None
    confidence: Number | None = None
    seed: Seed | None = None
    bins: Annotated[dict[Name, Numbers], Field(max_length=200)] | None = None
    validity: Literal["split", "union"] | None = None
    fit_share: Number | None = None
    reference: FileId | None = None
    learners: bool | None = None


class PopulationOptions(Options):
    """Keyword arguments of ``memberbound.population``; ``records`` asks for a file of bounds."""

    files = ("candidates", "losses")

    mechanism: Literal["gaussian", "exponential"] | None = None
    query: Literal["mean", "sum"] | None = None
    epsilon: Number | None = None
    sigma: Number | None = None
    delta: Number | None = None
    clip: Number | None = None
    sensitivity: Number | None = None
    candidates: FileId | Annotated[list[Rates], Field(max_length=1000)] | None = None
    losses: FileId | None = None
    size: Whole | None = None
    target_pmp: Number | None = None
    target_success: Number | None = None
    releases: Annotated[int, Field(ge=1, le=10**9)] | None = None
    columns: Names | None = None
    roles: Roles | None = None
    confidence: Number | None = None
    subsets: Annotated[int, Field(ge=2, le=10**6)] | None = None
    seed: Seed | None = None
    records: bool | None = None


class AuditOptions(Options):
    """Keyword arguments of ``memberbound.audit``; ``records`` asks for a file of exposures."""

    target: Name | None = None
    learner: Learner | None = None
    shadows: Annotated[int, Field(ge=2, le=10_000)] | None = None
    attacks: Annotated[list[Name], Field(max_length=50)] | None = None
    confidence: Number | None = None
    fpr: Rates | None = None
    columns: Names | None = None
    roles: Roles | None = None
    seed: Seed | None = None
    records: bool | None = None


class ProtectOptions(Options):
    """Keyword arguments of ``memberbound.protect``; the release is always written to a file."""

    files = ("query",)

    target: Name | None = None
    learner: Learner | None = None
    statistic: Literal["mean", "sum", "histogram", "covariance", "quantiles"] | None = None
    eta: Number | None = None
    record: Literal["average", "every"] | None = None
    method: Literal["auto", "neighbour", "convex", "moment", "izzo"] | None = None
    confidence: Number | None = None
    tune: bool | None = None
    clip: Number | None = None
    pairs: Annotated[int, Field(ge=2, le=10**6)] | None = None
    query: FileId | None = None
    bins: Numbers | None = None
    levels: Rates | None = None
    size: Whole | None = None
    columns: Names | None = None
    roles: Roles | None = None


class StudyOptions(Options):
    """Keyword arguments of ``memberbound.study``; without a file the embedded table is studied."""

    target: Name | None = None
    learner: Learner | None = None
    eta: Number | None = None
    record: Literal["average", "every"] | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    confidence: Number | None = None
    shadows: Annotated[int, Field(ge=2, le=10_000)] | None = None
    extra_rows: Whole | None = None
    columns: Names | None = None
    roles: Roles | None = None
    seed: Seed | None = None
