"""One declaration per verb: every face shows what the signature and the docstring declare."""

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from rich.markup import escape
from typer.testing import CliRunner

import memberbound
from memberbound.declarations import Names, Option, Rates, TableLike, read_verb
from memberbound.faces import command_line
from memberbound.faces.command_line import VERBS, application, verb_named
from memberbound.faces.commands import command


class Answer:
    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self.fields

    def summary(self) -> str:
        return repr(self.fields)


def weigh(
    table: TableLike,
    *,
    rows: int | None = None,
    columns: Names | None = None,
    fpr: Rates = (0.1,),
    side: Literal["left", "right"] = "left",
    twice: bool = False,
    whole: bool | None = None,
    share: Annotated[float, Option("number", metavar="S", flag="--part")] = 0.5,
) -> Answer:
    """Weigh a table
    on its side.

    Not part of the help.

    Args:
        table: what is weighed.
        rows: how many rows; all
            unless given.
        columns: which columns.
        fpr: rates.
        side: which side.
        twice: weigh it again.
        whole: all of it.
        share: ε of it.

    Command line:
        memberbound weigh a.csv --rows 3
    """
    given = dict(locals())
    return Answer(**(given | {"table": str(table)}))


def test_signature_and_docstring_are_the_declaration() -> None:
    verb = read_verb(weigh)
    assert verb.summary == "Weigh a table on its side."
    assert verb.examples == ("memberbound weigh a.csv --rows 3",)
    shown = {p.name: (p.flag, p.kind, p.default, p.help) for p in verb.parameters}
    assert shown["rows"] == ("--rows", "whole", None, "How many rows; all unless given.")
    assert shown["side"] == ("--side", "choice", "left", "Which side.")
    assert shown["share"] == ("--part", "number", 0.5, "ε of it.")  # a formula keeps its letter
    assert verb.by_name["side"].metavar == "left|right"
    assert [p.name for p in verb.parameters if p.positional] == ["table"]
    assert verb.by_name["table"].required


def test_an_argument_without_a_word_about_it_is_refused() -> None:
    def silent(*, n: int = 1) -> None:
        """Do nothing.

        Args:
            other: not n.
        """

    with pytest.raises(TypeError, match="'n' under Args"):
        read_verb(silent)


def test_a_type_that_no_face_can_type_is_refused() -> None:
    def odd(*, n: dict[str, complex] | None = None) -> None:
        """Take an argument that has no option.

        Args:
            n: numbers.
        """

    with pytest.raises(TypeError, match="alias"):
        read_verb(odd)


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("weigh")(command(read_verb(weigh)))
    done = CliRunner().invoke(app, ["weigh", *arguments])
    return done.exit_code, done.output if done.exception is None else str(done.exception)


def test_typed_options_reach_python() -> None:
    code, text = run(
        *("a.csv", "--rows", "1e3", "--columns", 'x,"y, z"', "--fpr", "0.5", "--fpr", "0.25"),
        *("--side", "right", "--twice", "--no-whole", "--part", "0.125"),
    )
    assert code == 0
    assert ast.literal_eval(text) == {
        "table": "a.csv",
        "rows": 1000,
        "columns": ["x", "y, z"],
        "fpr": [0.5, 0.25],
        "side": "right",
        "twice": True,
        "whole": False,
        "share": 0.125,
    }


def test_omitted_options_take_the_python_default() -> None:
    code, text = run("a.csv")
    assert code == 0
    given = ast.literal_eval(text)
    assert given == {
        p.name: "a.csv" if p.required else p.default for p in read_verb(weigh).parameters
    }


def test_words_are_refused_where_a_number_is_due() -> None:
    code, text = run("a.csv", "--rows", "many")
    assert code != 0
    assert "rows must be a finite number, got 'many'" in text


# ── every verb of the contract ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_declared_and_has_an_example(name: str) -> None:
    verb = verb_named(name)
    assert verb.summary.endswith(".")
    assert verb.examples
    for example in verb.examples:
        flags = re.findall(r"(?<=\s)--[a-z-]+", example)
        known = {p.flag for p in (*verb.parameters, *verb.limit_parameters)} | {
            "--json",
            "--plot",
            "--no-open",
        }
        assert set(flags) <= known, example


def test_the_help_of_an_option_is_that_of_the_declaration() -> None:
    group = typer.main.get_command(application())
    for name in VERBS:
        shown = {p.name: getattr(p, "help", None) for p in group.commands[name].params}  # type: ignore[attr-defined]
        for parameter in verb_named(name).parameters:
            if parameter.kind not in ("progress", "hidden"):
                assert shown[parameter.name] == escape(parameter.help)


def shown_flags() -> dict[str, set[str]]:
    commands = typer.main.get_command(application()).commands  # type: ignore[attr-defined]
    return {
        name: {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
        for name, command in commands.items()
    }


def test_flags_change_on_purpose_only() -> None:
    """Scripts outside call these: a flag that goes, or comes, is a change of this file too."""
    frozen = json.loads((Path(__file__).parent / "flags.json").read_text(encoding="utf-8"))
    assert {name: set(flags) for name, flags in frozen.items()} == shown_flags()


def test_no_option_is_declared_twice() -> None:
    """Only the generator makes options: an option exists once."""
    source = Path(inspect.getfile(command_line)).parents[1]
    found = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"typer\.(Option|Argument)\(", path.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == ["faces/command_line.py", "faces/commands.py"]  # --version; a verb's


def test_the_help_page_repeats_the_first_sentence_of_every_verb() -> None:
    """The page is printed without importing any verb, so it has a copy."""
    listed = {name: text for verbs in command_line._PANELS.values() for name, text in verbs.items()}
    for name, text in listed.items():
        assert text == verb_named(name).function.__doc__.partition("\n")[0].replace("``", "")


def test_the_stub_exports_the_names_of_the_package() -> None:
    stub = Path(memberbound.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    exported = re.findall(r"^from (memberbound\S*) import (\w+) as \2$", stub, re.MULTILINE)
    listed = {"__version__": "memberbound._version"} | memberbound.PUBLIC
    assert {name: module for module, name in exported} == listed
