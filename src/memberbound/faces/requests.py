"""What may be asked of a verb over the web, made from its declaration.

Arguments that name files take the id of an upload; outputs are named by the server; learners go by
short name only, because ``package.module:factory`` would run code.  Ranges are checked by the verbs
themselves, with their own sentences; here stands what keeps a request small.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from memberbound.declarations import Kind, Parameter, Verb
from memberbound.faces.command_line import joined
from memberbound.learners import LEARNERS

__all__ = ["Equivalent", "FileId", "Options", "described", "equivalent", "options_model"]

#: A request may list this many numbers; a longer law or table is uploaded.
MOST_NUMBERS = 10_000
_MOST_WHOLE = 10**15

Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
Names = Annotated[list[Name], Field(max_length=2000)]
Numbers = Annotated[list[Number], Field(max_length=MOST_NUMBERS)]
Rates = Annotated[list[Number], Field(max_length=50)]
FileId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$", description="The id of an upload.")]


def _known_learner(name: str) -> str:
    if name not in LEARNERS:
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {name!r}")
    return name


Learner = Annotated[
    str, AfterValidator(_known_learner), Field(json_schema_extra={"enum": list(LEARNERS)})
]

#: Kind of an argument → what a request may hold for it.
_TYPES: dict[Kind, Any] = {
    "column": Name,
    "file": FileId,
    "law": Numbers,
    "learner": Learner,
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

    #: Arguments whose value is the id of an upload.
    files: ClassVar[tuple[str, ...]] = ()

    def given(self) -> dict[str, Any]:
        """Return the arguments that were given, ``None`` left out."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


def asked_over_the_web(verb: Verb) -> tuple[Parameter, ...]:
    """Return the parameters of a verb that a request may set."""
    kinds = ("progress", "hidden", "out", "folder", "cache", "table")
    return tuple(p for p in verb.parameters if p.option.web and p.kind not in kinds)


def options_model(verb: Verb, *names: str) -> type[Options]:
    """Return the request model of a verb, or of some of its arguments."""
    chosen = [p for p in asked_over_the_web(verb) if not names or p.name in names]
    fields: dict[str, Any] = {
        p.name: (_type(p) | None, Field(default=None, description=p.help)) for p in chosen
    }
    name = f"{verb.name.title()}Options" if not names else f"{verb.name.title()}LawOptions"
    model: type[Options] = create_model(
        name,
        __base__=Options,
        __doc__=f"Keyword arguments of ``memberbound.{verb.name}``.",
        **fields,
    )
    model.files = tuple(p.name for p in chosen if p.kind in ("file", "points"))
    return model


def _type(parameter: Parameter) -> Any:
    option = parameter.option
    if parameter.kind == "choice":
        return Literal[option.choices]
    if parameter.kind == "whole":
        least = 0 if option.least is None else int(option.least)
        most = _MOST_WHOLE if option.most is None else int(option.most)
        return Annotated[int, Field(ge=least, le=most)]
    return _TYPES[parameter.kind]


def described(verb: Verb) -> list[dict[str, Any]]:
    """Return the arguments that a request may set, for a form: name, kind, help, limits."""
    return [
        {
            "name": p.name,
            "kind": p.kind,
            "help": p.help,
            "default": p.default if isinstance(p.default, (int, float, str, bool)) else None,
            "choices": list(LEARNERS) if p.kind == "learner" else list(p.option.choices),
            "least": p.option.least,
            "most": p.option.most,
        }
        for p in asked_over_the_web(verb)
    ]


# ── the same question elsewhere ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Equivalent:
    """A command line and a piece of Python that do what a request does."""

    command: str
    python: str


#: What stands in a file that the page sends as numbers.
_INLINE: dict[Kind, str] = {
    "law": "{0}.csv: one column named probability, one value per line",
    "points": "{0}.csv: a line of column names, then one per line",
}


def equivalent(
    verb: Verb, table: str | None, options: dict[str, Any], outputs: dict[str, str] | None = None
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
    return Equivalent(notes + shlex.join([*words, "--json"]), _python(verb.name, arguments))


def _typed(parameter: Parameter, value: Any) -> list[str]:
    """Return an argument as it is typed: the way back of what the command line reads."""
    flag = parameter.flag
    if parameter.kind == "switch":
        return [flag if value else flag.replace("--", "--no-", 1)]
    if parameter.kind == "roles":
        return [flag, joined(f"{column}={role}" for column, role in value.items())]
    if isinstance(value, dict):
        pairs = ((c, v if isinstance(v, str) else joined(v)) for c, v in value.items())
        return [word for column, text in pairs for word in (flag, f"{column}={text}")]
    if parameter.kind == "rates":
        values = value if isinstance(value, list) else [value]
        return [word for item in values for word in (flag, repr(item))]
    if isinstance(value, list):
        return [flag, joined(value)]
    return [flag, value if isinstance(value, str) else repr(value)]


def _python(verb: str, arguments: list[str]) -> str:
    call = f"result = memberbound.{verb}({', '.join(arguments)})"
    if len(call) > 88:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        call = f"result = memberbound.{verb}(\n{lines})"
    return f"import memberbound\n\n{call}\nprint(result.summary())\n"
