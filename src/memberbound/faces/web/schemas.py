"""Request schemas of the web face, generated from the declarations of the verbs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

from memberbound.declarations import Keywords, Kind, Parameter, Verb, function_name
from memberbound.faces.command_line import verb_named
from memberbound.faces.typed_text import join_names
from memberbound.faces.web.child import JOBS
from memberbound.faces.web.labels import label
from memberbound.learners.names import LEARNERS

# ── Request options of a verb, generated from its declaration ─────────────────────────────────────
#
# Arguments that name files take the id of an upload; outputs are named by the server; learners go
# by short name only, because ``package.module:factory`` would run code.  Ranges are checked by the
# verbs themselves, with their own sentences.

Number = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]
FileId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$", description="The id of an upload.")]

#: Kind of an argument → the type of its value in a request.
_TYPES: dict[Kind, object] = {
    "column": Name,
    "document": Name,
    "file": FileId,
    "files": FileId,
    "law": list[Number],
    "names": list[Name],
    "number": Number,
    "numbers": list[Number],
    "numbers by column": dict[Name, list[Number]],
    "points": FileId | list[list[Number]],
    "rates": Number | list[Number],
    "records": bool,
    "roles": dict[Name, Name],
    "switch": bool,
    "text": Name,
    "text by column": dict[Name, Name],
    "whole": int,
}


class Options(BaseModel):
    """Keyword arguments of a verb; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: Arguments that hold the id of an upload, and those that hold the text of a file.
    files: ClassVar[tuple[str, ...]] = ()
    documents: ClassVar[tuple[str, ...]] = ()

    def arguments(self) -> Keywords:
        """Return the given arguments, without ``None``."""
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
    model.files = tuple(p.name for p in chosen if p.kind in ("file", "files", "points"))
    model.documents = tuple(p.name for p in chosen if p.kind == "document")
    return model


def _class_name(command: str) -> str:
    return command.title().replace("-", "")


def _choices(parameter: Parameter) -> tuple[str, ...]:
    return parameter.option.web_choices or parameter.option.choices


def _type(parameter: Parameter) -> Any:
    if parameter.kind in ("choice", "learner"):
        return Literal[_choices(parameter) or LEARNERS]
    return _TYPES[parameter.kind]


def verb_form(verb: Verb) -> dict[str, object]:
    """Return the data for a form: the verb's summary, whether it takes a table, its arguments."""
    tables = ["required" if p.required else "optional" for p in verb.of_kind("table")]
    arguments = [
        {
            "name": p.name,
            "label": label(p.name),
            "kind": p.kind,
            "group": p.group,
            "required": p.required,
            "help": p.help,
            "default": p.default if isinstance(p.default, (int, float, str)) else None,
            "choices": _choices(p) or (LEARNERS if p.kind == "learner" else ()),
        }
        for p in web_parameters(verb)
    ]
    return {
        "summary": verb.summary,
        "table": tables[0] if tables else None,
        "measures": verb.measures,
        "arguments": arguments,
    }


# ── the same question elsewhere ───────────────────────────────────────────────────────────────────


#: Description of a file that the page sends as numbers.
_INLINE: dict[Kind, str] = {
    "law": "{0}.csv: one column named probability, one value per line",
    "points": "{0}.csv: a line of column names, then one per line",
}


def equivalent(verb: Verb, table: str | None, options: Keywords) -> dict[str, str]:
    """Return the equivalent command line and Python call.

    ``options`` are keyword arguments, with file names in place of uploads.
    """
    words = ["memberbound", verb.name]
    if table is not None:
        words.append(f"./{table}" if table.startswith("-") else table)
    notes, positional = "", list[str]()
    arguments = [] if table is None else [repr(table)]
    # Positional ones in the order of the declaration, the others as they were given.
    order = [p.name for p in verb.parameters if p.positional and p.name in options]
    for name in dict.fromkeys([*order, *options]):
        parameter, value = verb.by_name[name], options[name]
        if value is None:
            continue
        if parameter.positional:
            positional.append(str(value))
        elif parameter.kind in _INLINE and not isinstance(value, str):
            notes += f"# {_INLINE[parameter.kind].format(name)}\n"
            words += [parameter.flag, f"{name}.csv"]
        else:
            words += _format_argument(parameter, value)
        arguments.append(f"{name}={value!r}")
    call = f"memberbound.{function_name(verb.name)}({', '.join(arguments)})"
    python = f"import memberbound\n\nresult = {call}\nprint(result.summary())\n"
    command = [*words[:2], *positional, *words[2:], "--json"]
    return {"command": notes + shlex.join(command), "python": python}


def _format_argument(parameter: Parameter, value: object) -> list[str]:
    """Format an argument for the command line, as the inverse of its parser."""
    flag = parameter.flag
    if parameter.kind == "switch":
        off = [] if parameter.default is False else [flag.replace("--", "--no-", 1)]
        return [flag] if value else off
    if isinstance(value, dict):
        if parameter.kind == "roles":
            return [flag, join_names(f"{column}={role}" for column, role in value.items())]
        pairs = ((c, v if isinstance(v, str) else join_names(v)) for c, v in value.items())
        return [word for column, text in pairs for word in (flag, f"{column}={text}")]
    if parameter.kind == "rates":
        values = value if isinstance(value, list) else [value]
        return [word for item in values for word in (flag, repr(item))]
    if isinstance(value, list):
        return [flag, join_names(value)]
    return [flag, value if isinstance(value, str) else repr(value)]


# ── Requests ──────────────────────────────────────────────────────────────────────────────────────


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


if TYPE_CHECKING:  # a union generated from declarations cannot be checked
    JobRequest: TypeAlias = _Asked
    ExplainOptions: TypeAlias = Options
else:
    JobRequest = Annotated[Union[tuple(map(_job, JOBS))], Field(discriminator="verb")]  # noqa: UP007
    ExplainOptions = options_model(verb_named("explain"))
