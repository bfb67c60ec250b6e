"""What goes in and comes out over the web, made from the declarations of the verbs.

The OpenAPI document describes exactly this.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

from memberbound.declarations import Keywords, Kind, Parameter, Verb, function_name
from memberbound.faces.command_line import joined, verb_named
from memberbound.faces.terminal import Block
from memberbound.faces.web.child import JOBS
from memberbound.learners import LEARNERS

# ── What may be asked of a verb over the web, made from its declaration ───────────────────────────
#
# Arguments that name files take the id of an upload; outputs are named by the server; learners go
# by short name only, because ``package.module:factory`` would run code.  Ranges are checked by the
# verbs themselves, with their own sentences; here stands what keeps a request small.

#: A request may list this many numbers; a longer law or table is uploaded.
MOST_NUMBERS = 10_000
_MOST_WHOLE = 10**15

Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
Names = Annotated[list[Name], Field(max_length=2000)]
Numbers = Annotated[list[Number], Field(max_length=MOST_NUMBERS)]
Rates = Annotated[list[Number], Field(max_length=50)]
FileId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$", description="The id of an upload.")]


#: Kind of an argument → what a request may hold for it.
_TYPES: dict[Kind, object] = {
    "column": Name,
    "document": Annotated[str, Field(min_length=1, max_length=200_000)],
    "file": FileId,
    "law": Numbers,
    "names": Names,
    "number": Number,
    "numbers": Numbers,
    "numbers by column": Annotated[dict[Name, Numbers], Field(max_length=200)],
    "points": FileId | Annotated[list[Rates], Field(max_length=1000)],
    "rates": Number | Rates,
    "records": bool,
    "roles": Annotated[dict[Name, Name], Field(max_length=2000)],
    "switch": bool,
    "text": Name,
    "text by column": Annotated[dict[Name, Name], Field(max_length=2000)],
}


class Options(BaseModel):
    """Keyword arguments of a verb; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: Arguments whose value is the id of an upload, and those whose value is the text of a file.
    files: ClassVar[tuple[str, ...]] = ()
    documents: ClassVar[tuple[str, ...]] = ()

    def arguments(self) -> Keywords:
        """Return the arguments that were given, ``None`` left out."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


def web_parameters(verb: Verb) -> tuple[Parameter, ...]:
    """Return the parameters of a verb that a request may set."""
    kinds = ("progress", "hidden", "out", "folder", "cache", "table")
    return tuple(p for p in verb.parameters if p.option.web and p.kind not in kinds)


def options_model(verb: Verb) -> type[Options]:
    """Return the request model of a verb."""
    chosen = web_parameters(verb)
    fields: dict[str, Any] = {
        p.name: (_type(p), Field(description=p.help))
        if p.required
        else (_type(p) | None, Field(default=None, description=p.help))
        for p in chosen
    }
    model: type[Options] = create_model(
        f"{_class_name(verb.name)}Options",
        __base__=Options,
        __doc__=f"Keyword arguments of ``memberbound.{function_name(verb.name)}``.",
        **fields,
    )
    model.files = tuple(p.name for p in chosen if p.kind in ("file", "points"))
    model.documents = tuple(p.name for p in chosen if p.kind == "document")
    return model


def _class_name(command: str) -> str:
    return command.title().replace("-", "")


def _type(parameter: Parameter) -> Any:
    option = parameter.option
    if parameter.kind in ("choice", "learner"):
        return Literal[option.choices or LEARNERS]
    if parameter.kind == "whole":
        least = 0 if option.least is None else int(option.least)
        most = _MOST_WHOLE if option.most is None else int(option.most)
        return Annotated[int, Field(ge=least, le=most)]
    return _TYPES[parameter.kind]


class Argument(BaseModel):
    """An argument of a verb, as a form shows it."""

    name: str
    kind: str
    group: str
    required: bool
    help: str
    default: bool | int | float | str | None
    choices: list[str]
    least: float | None
    most: float | None


class VerbForm(BaseModel):
    """A verb as a form shows it; ``measures`` where “at least” is what attacks reached."""

    summary: str
    table: Literal["optional", "required"] | None
    measures: bool
    arguments: list[Argument]


def verb_form(verb: Verb) -> VerbForm:
    """Return what a form needs: the verb in a sentence, whether it takes a table, its arguments."""
    tables = ["required" if p.required else "optional" for p in verb.of_kind("table")]
    arguments = [
        Argument(
            name=p.name,
            kind=p.kind,
            group=p.group,
            required=p.required,
            help=p.help,
            default=p.default if isinstance(p.default, (int, float, str, bool)) else None,
            choices=list(p.option.choices or (LEARNERS if p.kind == "learner" else ())),
            least=p.option.least,
            most=p.option.most,
        )
        for p in web_parameters(verb)
    ]
    return VerbForm(
        summary=verb.summary,
        table=tables[0] if tables else None,  # type: ignore[arg-type]
        measures=verb.measures,
        arguments=arguments,
    )


# ── the same question elsewhere ───────────────────────────────────────────────────────────────────


class Equivalent(BaseModel):
    """The same question on the command line and in Python."""

    command: str
    python: str


#: What stands in a file that the page sends as numbers.
_INLINE: dict[Kind, str] = {
    "law": "{0}.csv: one column named probability, one value per line",
    "points": "{0}.csv: a line of column names, then one per line",
}


def equivalent(
    verb: Verb, table: str | None, options: Keywords, outputs: dict[str, str] | None = None
) -> Equivalent:
    """Return how to ask the same without the web page.

    ``options`` are keyword arguments, with the names of files where uploads are meant; ``outputs``
    are the files that the server wrote, by argument.
    """
    words = ["memberbound", verb.name]
    if table is not None:
        words.append(f"./{table}" if table.startswith("-") else table)
    notes = ""
    arguments = [] if table is None else [repr(table)]
    for name, value in (options | (outputs or {})).items():
        parameter = verb.by_name[name]
        if parameter.kind in _INLINE and not isinstance(value, str):
            notes += f"# {_INLINE[parameter.kind].format(name)}\n"
            words += [parameter.flag, f"{name}.csv"]
        else:
            words += _typed(parameter, value)
        arguments.append(f"{name}={value!r}")
    command = notes + shlex.join([*words, "--json"])
    return Equivalent(command=command, python=_python(verb.name, arguments))


def _typed(parameter: Parameter, value: object) -> list[str]:
    """Return an argument as it is typed: the way back of what the command line reads."""
    flag = parameter.flag
    if parameter.kind == "switch":
        return [flag if value else flag.replace("--", "--no-", 1)]
    if isinstance(value, dict):
        if parameter.kind == "roles":
            return [flag, joined(f"{column}={role}" for column, role in value.items())]
        pairs = ((c, v if isinstance(v, str) else joined(v)) for c, v in value.items())
        return [word for column, text in pairs for word in (flag, f"{column}={text}")]
    if parameter.kind == "rates":
        values = value if isinstance(value, list) else [value]
        return [word for item in values for word in (flag, repr(item))]
    if isinstance(value, list):
        return [flag, joined(value)]
    return [flag, value if isinstance(value, str) else repr(value)]


def _python(verb: str, arguments: list[str]) -> str:
    verb = function_name(verb)
    call = f"result = memberbound.{verb}({', '.join(arguments)})"
    if len(call) > 88:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        call = f"result = memberbound.{verb}(\n{lines})"
    return f"import memberbound\n\n{call}\nprint(result.summary())\n"


# ── What goes in and comes out, as the OpenAPI document describes it ──────────────────────────────


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: FileId | None = Field(
        default=None, description="The table; none for a known distribution."
    )
    verb: str
    options: Options


def _job(name: str) -> type[_Asked]:
    """Return the request that starts a job of a verb, from the verb's declaration."""
    verb = verb_named(name)
    options = options_model(verb)
    needed = any(p.required for p in web_parameters(verb))
    return create_model(
        f"{_class_name(name)}Job",
        __base__=_Asked,
        __doc__=verb.summary,
        verb=(Literal[name], ...),  # type: ignore[arg-type]  # a literal made at run time
        options=(options, ... if needed else options()),
    )


if TYPE_CHECKING:  # a union that is made from the declarations cannot be checked
    JobRequest: TypeAlias = _Asked
    ExplainOptions: TypeAlias = Options
else:
    JobRequest = Annotated[Union[tuple(map(_job, JOBS))], Field(discriminator="verb")]  # noqa: UP007
    ExplainOptions = options_model(verb_named("explain"))


class Error(BaseModel):
    """Why a request was refused, in one sentence."""

    error: str


class Health(BaseModel):
    """What is running here."""

    version: str
    limits: dict[str, int | float]
    verbs: list[str]


class Figure(BaseModel):
    """A number as text, with its sign; ``label`` where it is not that of the glossary."""

    name: str
    text: str
    label: str | None
    big: bool


class Figures(Equivalent):
    """The numbers of an explanation, what a table of other settings shows of it, and snippets."""

    figures: list[Figure]
    share: float
    blind: float
    way: str
    epsilon: str
    success: str
    rate: str | None
    identified: str


class Picture(BaseModel):
    """A chart: the content of an SVG file, what it shows in words, and its numbers as a table."""

    title: str
    alt: str
    svg: str
    columns: list[str]
    rows: list[list[str]]


class Column(BaseModel):
    """A column of an upload; ``distinct`` is left out of large files."""

    name: str
    type: str
    role: Literal["number", "category", "date", "identifier", "text"]
    numeric: bool
    distinct: int | None


class UploadedFile(BaseModel):
    """An upload that is kept: its id, and what is in it; a model has no rows and no columns."""

    file: str
    name: str
    bytes: int
    rows: int | None
    columns: list[Column]
    encoding: str | None


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
    data: str | None
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress | None
    seconds: float
    error: Failure | None
    files: list[Output]
    command: str
    python: str


class JobStatus(JobSummary):
    """A job: ``result`` is exactly the dictionary of the contract."""

    result: dict[str, object] | None
    charts: dict[str, Picture]
    summary: list[Block] = Field(description="What a person reads, in parts.")


class JobList(BaseModel):
    """All jobs that are kept, oldest first."""

    jobs: list[JobSummary]


class View(BaseModel):
    """A report that can be opened at ``/api/views/{view}``, and its first chart."""

    view: str
    chart: Picture | None
