"""Declarations of verbs, from their Python signatures and docstrings, for every face.

The command line, the web's request models and forms, the "same as this command" snippets and the
reference page are all generated from a :class:`Verb`, so an option is defined once:

* the *signature* gives name, type and default; parameters before ``*`` are positional;
* an alias of this module in the annotation gives the notation on the command line (``Names``:
  ``a,b,c``; ``Column``: a column of the table; ``OutputFile``: a file to write; …);
* the *docstring* gives the meaning: the line under ``Args:`` is the help of the option (options
  shared by many verbs need none), the first paragraph is the help of the command, and the lines
  under ``Command line:`` are its examples.
"""

from __future__ import annotations

import csv
import inspect
import io
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

#: Kinds of arguments: one value, several, a file, or nothing at all.
Kind = Literal[
    "cache",
    "choice",
    "column",
    "document",
    "file",
    "files",
    "folder",
    "hidden",
    "law",
    "learner",
    "names",
    "number",
    "numbers",
    "numbers by column",
    "out",
    "points",
    "progress",
    "rates",
    "records",
    "roles",
    "several",
    "switch",
    "table",
    "text",
    "text by column",
    "whole",
]


@dataclass(frozen=True)
class Option:
    """The notation of an argument; its meaning is in the verb's docstring.

    ``web=False`` restricts the argument to Python and the command line, ``web_choices`` the web to
    some of the choices; ``typed_default`` is the
    default of the command line if it differs from Python's, unless a configuration file sets it
    (``configured``).
    """

    kind: Kind
    metavar: str | None = None
    flag: str | None = None
    choices: tuple[str, ...] = ()
    web: bool = True
    web_choices: tuple[str, ...] = ()
    typed_default: bool | int | str | None = None
    configured: bool = False


class AnswerLike(Protocol):
    """The interface of an answer: the dictionary of the contract, and a text for people."""

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""

    def summary(self) -> str:
        """Return the text for people."""


Path = str | os.PathLike[str]
#: Keyword arguments of a verb, checked against its declaration.
Keywords = dict[str, Any]

Workers = Annotated[int, Option("whole", web=False)]
Column = Annotated[str, Option("column", metavar="COL")]
LearnerName = Annotated[Any, Option("learner", metavar="NAME")]
Names = Annotated[str | Sequence[str], Option("names", metavar="a,b,…")]
Numbers = Annotated[Sequence[float], Option("numbers", metavar="1,2,…")]
Rates = Annotated[float | Sequence[float], Option("rates")]
NumbersByColumn = Annotated[
    Mapping[str, Sequence[float]], Option("numbers by column", metavar="COL=1,2,…")
]
#: Roles of columns, to override wrongly inferred ones.
ColumnRoles = Annotated[Mapping[str, str], Option("roles", metavar="COL=ROLE,…")]
Several = Annotated[Sequence[str], Option("several", metavar="NAME")]
#: A file, or an object in memory.
TableLike = Annotated[object, Option("table", metavar="FILE")]
DatabaseTable = Annotated[str, Option("text", flag="--table", metavar="NAME", web=False)]
Encoding = Annotated[str, Option("text", metavar="NAME", web=False)]
#: A size such as 2GB.
Memory = Annotated[str, Option("text", metavar="SIZE", web=False)]
InputFile = Annotated[object, Option("file", metavar="FILE")]
#: Probabilities: a file, or numbers.
Law = Annotated[object, Option("law", metavar="FILE")]
#: Points: a file with one per row, or rows of numbers.
Points = Annotated[object, Option("points", metavar="FILE")]
#: An output file; on the web, the server names it.
OutputFile = Annotated[Path, Option("out", metavar="FILE", web=False)]
#: One file, or several; on the web one.
InputFiles = Annotated[object, Option("files", metavar="FILE…")]
#: A ledger of releases: a file, or a ``Ledger``.
LedgerFile = Annotated[object, Option("file", metavar="FILE", web=False)]
#: An output file with a line per record; on the web, a switch requests it.
RecordsFile = Annotated[Path, Option("records", metavar="FILE")]
Force = Annotated[bool, Option("switch", web=False)]
ExcelSafe = Annotated[bool, Option("switch", web=False)]
#: Callback with (done, total) or (stage, done, total) during the work.
Progress = Annotated[Callable[..., None], Option("progress")]
#: Options of releases of all rows: the promise, public bounds of columns, noise for tests.
Eta = Annotated[float, Option("number", metavar="H")]
PublicBounds = Annotated[
    Mapping[str, object] | str | os.PathLike[str], Option("document", metavar="FILE")
]
InsecureSeed = Annotated[int, Option("whole", web=False)]
#: A function of single rows, which runs code.
FeatureFunctionName = Annotated[
    Any, Option("text", flag="--features", metavar="MODULE:FUNCTION", web=False)
]
#: For Python only.
Hidden = Annotated[object, Option("hidden", web=False)]

#: Help of arguments shared by many verbs, unless a docstring overrides it.
_SHARED_HELP = {
    "baseline": "chance of guessing something else about a record (an attribute, the record "
    "itself) without the release; the answer bounds it with the release. May be repeated.",
    "bounds": "YAML or JSON file (or a mapping) with the public facts about the columns: "
    "``age: [0, 120]``, ``sex: [F, M]``; see ``memberbound bounds``.",
    "client": "for Python: a ``distributed.Client`` instead.",
    "database_table": "the table inside a DuckDB or SQLite file, or the sheet of an Excel file.",
    "encoding": "encoding of CSV files, such as cp1250; UTF-8, UTF-16 and cp1252 are detected.",
    "eta": "largest gain of any attack over blind guessing, in (0, ½).",
    "excel_safe": "put an apostrophe before texts that a spreadsheet would run as a formula (those "
    "that begin with = + - @ or a tab), in a CSV file; numbers stay numbers. Without it texts are "
    "written as they are.",
    "force": "overwrite ``out``.",
    "fpr": "false-positive rate at which the TPR is measured; may be repeated.",
    "insecure_seed": "for tests only: draw the noise from a seed, which provides no protection.",
    "lam": "weight of a missed member in Δ and MIS; success rates are not weighted.",
    "ledger": "ledger of releases about the same people, in which to record this one; its limit "
    "must not be exceeded; see ``memberbound ledger``.",
    "memory": "memory limit, such as ``2GB`` (default: half of the machine's). The rows of a "
    "larger file are read in parts, and intermediate results are kept on disk.",
    "nu": "probability that the tested record is not a member.",
    "probabilities": "instead of a table: the probability of each distinct record, as an array or "
    "a file with one column.",
    "roles": "column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct "
    "the inferred role.",
    "scheduler": "address of a dask scheduler whose workers read the rows (of a Parquet file that "
    "all of them can see), keep them and compute sums. The results are the same.",
    "target": "column to predict.",
    "trust": "load model files that can run code (joblib, pickle); use it only if you trust the "
    "author of the file.",
    "uniform": "instead of a table: number of equally likely records.",
}

#: Headings of arguments on a help page, by kind and by name.
_GROUP_OF_KIND = dict.fromkeys(("table", "column", "names", "roles", "law", "points"), "Data")
_GROUP_OF_KIND |= dict.fromkeys(("out", "records", "folder", "cache"), "Output")
_NAMES = {
    "Address": "host port token allow_host",
    "Data": "data database_table encoding model nonmembers predictions reference uniform unit",
    "Question": "attacks",
    "Computation": "confidence insecure_seed learners memory no_fidelity pairs scheduler seed "
    "shadows subsets tune width workers",
    "Limit": "fail_above fail_on junit",
    "Output": "browser excel_safe force json_ no_cache open_browser plot resume",
}
_GROUP_OF_NAME = {name: group for group, names in _NAMES.items() for name in names.split()}
#: Longer lists of choices appear in the help text only.
_WIDEST = 20

_PLAIN: dict[object, Kind] = {bool: "switch", int: "whole", float: "number", str: "text"}
_SECTION = re.compile(r"^(\w[\w ]*):\s*$")
#: A cross-reference; the terminal shows only its last name.
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_ARGUMENT = re.compile(r"^(\w+):\s*(.*)$")


@dataclass(frozen=True)
class Parameter:
    """An argument of a verb, with everything that a face needs."""

    name: str
    option: Option
    default: object
    help: str
    positional: bool = False
    required: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of argument."""
        return self.option.kind

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return self.option.flag or "--" + self.name.replace("_", "-")

    @property
    def metavar(self) -> str | None:
        """The placeholder of the value in a help text."""
        listed = "|".join(self.option.choices)
        if listed and (len(listed) <= _WIDEST or self.positional):
            return listed
        return self.option.metavar or ("NAME" if listed else None)

    @property
    def group(self) -> str:
        """The heading of the argument on a help page."""
        return _GROUP_OF_NAME.get(self.name) or _GROUP_OF_KIND.get(self.kind, "Question")


@dataclass(frozen=True)
class Verb:
    """A verb of the contract: its name, its help and its parameters.

    ``name`` is the command's; the function's has underscores instead of hyphens.
    """

    name: str
    function: Callable[..., AnswerLike | None]
    summary: str
    examples: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    #: Whether it returns an answer; ``serve`` does not.
    answers: bool = True
    #: The parts of its answer that can be checked against a limit, and their description.
    fails_on: tuple[str, ...] = ()
    compared: str = ""

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        """The parameters by their Python names."""
        return {parameter.name: parameter for parameter in self.parameters}

    def of_kind(self, *kinds: Kind) -> tuple[Parameter, ...]:
        """The parameters of some kinds, in order."""
        return tuple(p for p in self.parameters if p.kind in kinds)

    @property
    def measures(self) -> bool:
        """Whether lower bounds are measured by attacks instead of certified."""
        return self.name.startswith("audit") or self.name in ("compare", "study")

    @property
    def limit_parameters(self) -> tuple[Parameter, ...]:
        """The options of a limit, if the answer can be checked against one.

        They exist on the command line only: in Python, call ``exceeds`` on the answer.
        """
        if not self.fails_on:
            return ()
        above = f"Exit with code 3 if P (0.5 to 1) is exceeded by {self.compared}."
        part = f"Which number must not exceed P: {', '.join(self.fails_on)}"
        part += f" (default: {self.fails_on[0]})." if len(self.fails_on) > 1 else "."
        junit = "Write the result of --fail-above as JUnit XML."
        choices = Option("choice", choices=self.fails_on, web=False)
        return (
            Parameter("fail_above", Option("number", metavar="P", web=False), None, above),
            Parameter("fail_on", choices, None, part),
            Parameter("junit", Option("out", metavar="FILE", web=False), None, junit),
        )


def read_verb(function: Callable[..., AnswerLike | None]) -> Verb:
    """Read a verb's declaration from its signature and its docstring.

    A parameter without a line under ``Args:`` raises, because it would have no help.

    Examples:
        >>> def greet(name: str, *, times: int = 1) -> str:
        ...     '''Say hello.
        ...
        ...     Args:
        ...         name: whom to greet.
        ...         times: how often; once unless
        ...             given.
        ...     '''
        >>> verb = read_verb(greet)
        >>> [(p.flag, p.kind, p.positional, p.help) for p in verb.parameters]
        [('--name', 'text', True, 'Whom to greet.'),
         ('--times', 'whole', False, 'How often; once unless given.')]
    """
    paragraphs, arguments, examples = _sections(inspect.getdoc(function) or "")
    hints = get_type_hints(function, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        option = _option(hints.get(name, str))
        help_ = arguments.get(name, _SHARED_HELP.get(name, ""))
        if not help_ and option.kind not in ("progress", "hidden"):
            raise TypeError(f"{function.__name__} must describe {name!r} under Args.")
        required = parameter.default is inspect.Parameter.empty
        parameters.append(
            Parameter(
                name,
                option,
                None if required else parameter.default,
                _capitalise(help_),
                positional=parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
                required=required,
            )
        )
    summary = paragraphs.replace("``", "")
    answer = hints.get("return")
    limited = (getattr(answer, "FAILS_ON", ()), getattr(answer, "COMPARED", ""))
    answers = answer is not NoneType
    name = function.__name__.replace("_", "-")
    return Verb(name, function, summary, examples, tuple(parameters), answers, *limited)


def function_name(command: str) -> str:
    """Return the name of the function behind a command.

    >>> function_name("audit-learner")
    'audit_learner'
    """
    return command.replace("-", "_")


def _capitalise(text: str) -> str:
    """Capitalise a text, unless it starts with a formula or code: ε stays ε."""
    typed = text.startswith("``")
    text = " ".join(_ROLE.sub(r"\1", text).replace("``", "").split())
    return text[:1].upper() + text[1:] if text[:1].isascii() and not typed else text


def _option(hint: object) -> Option:
    """Return the option of an annotated type, ignoring ``None`` among its members."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        members = [part for part in get_args(hint) if part is not NoneType]
        return _option(members[0])
    if origin is Annotated:
        base, *notes = get_args(hint)
        # The outermost annotation comes last, and refines the alias.
        inner = next((note for note in reversed(notes) if isinstance(note, Option)), None)
        if inner is None:
            return _option(base)
        if inner.kind == "choice" and not inner.choices:
            return replace(inner, choices=_option(base).choices)
        return inner
    if origin is Literal:
        return Option("choice", choices=tuple(map(str, get_args(hint))))
    if hint in _PLAIN:
        return Option(_PLAIN[hint])
    raise TypeError(f"{hint!r} must be annotated with an alias of memberbound.declarations.")


def _sections(doc: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return the first paragraph, the lines about arguments and the examples of a docstring."""
    lines = doc.splitlines()
    first = " ".join(line.strip() for line in takewhile(bool, lines))
    arguments: dict[str, str] = {}
    examples: list[str] = []
    section, name = "", ""
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            section, name = heading.group(1), ""
        elif line and not line.startswith(" "):
            section = ""
        elif section == "Args" and line.strip():
            described = _ARGUMENT.match(line.strip())
            if described and len(line) - len(line.lstrip()) == 4:
                name = described.group(1)
                arguments[name] = described.group(2)
            elif name:
                arguments[name] += " " + line.strip()
        elif section == "Command line" and line.strip():
            examples.append(line.strip())
    return first, arguments, tuple(examples)


# ── Commands to paste ─────────────────────────────────────────────────────────────────────────────


def command_text(verb: str, source: str, options: Mapping[str, object]) -> str:
    r"""Format a command line, omitting options without a value; names are joined by commas.

    >>> command_text("protect", "my table.csv", {"--eta": 0.05, "--record": None})
    "memberbound protect 'my table.csv' --eta 0.05"
    >>> command_text("protect", "t.csv", {"--columns": ("age", "height, cm")})
    'memberbound protect t.csv --columns \'age,"height, cm"\''
    """
    parts = ["memberbound", verb, source]
    for name, value in options.items():
        if value is not None:
            parts += [name, _join_names(value) if isinstance(value, tuple) else str(value)]
    return shlex.join(parts)


def _join_names(names: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()
