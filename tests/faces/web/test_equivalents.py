"""The command line and the Python code offered for copying give the page's answer."""

import contextlib
import io
import json
import shlex
import subprocess

import pytest

import memberbound
from memberbound.faces.command_line import verb_named
from memberbound.faces.typed_text import names as split_names
from memberbound.faces.web import schemas
from memberbound.faces.web.child import JOBS, outputs_of
from memberbound.faces.web.labels import LABELS
from web.conftest import COMMAND


def equivalent(verb, table, options):
    """The equivalent command shown for a request, with the server's own output files."""
    declaration = verb_named(verb)
    return schemas.equivalent(declaration, table, options | outputs_of(declaration, options))


#: The equivalent command of a request: verb and table → (options, rest of the command).
WORDS = {
    "explain": [
        ({"epsilon": 8.0, "fpr": 0.01}, "--epsilon 8.0 --fpr 0.01"),
        ({"gdp": 1.0, "fpr": [0.1, 0.01]}, "--gdp 1.0 --fpr 0.1 --fpr 0.01"),
    ],
    "plan p.csv": [
        (
            {"security": 0.9, "roles": {"a,b": "identifier", "c=d": "date"}},
            "--security 0.9 --roles '\"a,b=identifier\",c=d=date'",
        )
    ],
    "certify 'my people.csv'": [
        (
            {"columns": ["a,b", "c"], "records": True},
            "--columns '\"a,b\",c' --records records.csv",
        )
    ],
    "certify ./-x.csv": [({"records": False}, "")],
    "harden p.csv": [
        (
            {"security": 0.9, "bins": {"age": [-1.0, 2.5]}},
            "--security 0.9 --bins age=-1.0,2.5 --out harden.csv --recipe recipe.json",
        )
    ],
    "population p.csv": [
        (
            {"epsilon": 1.0, "candidates": "c.csv", "records": True},
            "--epsilon 1.0 --candidates c.csv --records records.csv",
        )
    ],
    "protect-half p.csv": [
        (
            {"statistic": "mean", "record": "average"},
            "--statistic mean --record average --out release.json",
        ),
        ({"target": "y"}, "--target y --out release.skops"),
    ],
    "protect p.csv": [({"target": "y", "tune": True}, "--target y --tune --out release.skops")],
    "audit-learner p.csv": [
        (
            {"target": "$(rm -r x)", "attacks": ["loss", "lira"]},
            "--target '$(rm -r x)' --attacks loss,lira",
        )
    ],
}


@pytest.mark.parametrize("asked", WORDS)
def test_commands(asked):
    verb, *table = shlex.split(asked)
    name = table[0].removeprefix("./") if table else None
    for options, typed in WORDS[asked]:
        command = " ".join(filter(None, ["memberbound", asked, typed, "--json"]))
        assert equivalent(verb, name, options)["command"] == command


def test_a_list_that_the_command_line_reads_from_a_file_is_marked():
    found = equivalent("certify", None, {"probabilities": [0.5, 0.5], "n": 3})
    first, second = found["command"].splitlines()
    assert first.startswith("# probabilities.csv: one column")
    assert second == "memberbound certify --probabilities probabilities.csv --n 3 --json"
    assert "probabilities=[0.5, 0.5]" in found["python"]


@pytest.mark.parametrize(
    "names", [["a", " b", "c "], ['"a"', "b"], ["a\nb", "c\r"], ["a,b", "'c'", "-d"], ["é", "=1"]]
)
def test_the_command_line_reads_the_names_that_were_meant(names):
    words = shlex.split(equivalent("certify", "p.csv", {"columns": names})["command"])
    assert split_names("columns", words[words.index("--columns") + 1]) == names


def test_every_option_is_one_of_the_command_line():
    """No option of the web is unknown to the command, whatever its value."""
    import typer

    from memberbound.faces.command_line import application

    commands = typer.main.get_command(application()).commands
    for verb in ("explain", *JOBS):
        options = schemas.options_model(verb_named(verb))
        known = {flag for p in commands[verb].params for flag in (*p.opts, *p.secondary_opts)}
        for name in options.model_fields:
            kind = verb_named(verb).by_name[name].kind
            value = True if kind in ("records", "switch") else "x"
            value = {"a": [1.0]} if kind == "numbers by column" else value
            value = {"a": "date"} if kind == "roles" else value
            words = shlex.split(equivalent(verb, "t.csv", {name: value})["command"])
            flags = [word for word in words[3:] if word.startswith("--")]
            assert set(flags) <= known, (verb, name)
            # Files come before the options.
            first = verb_named(verb).by_name[name].positional
            assert words[2] == "x" if first else len(flags) >= 2, (verb, name)


def test_the_command_and_the_python_give_the_same_answer(tmp_path, people, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my people.csv").write_bytes(people)
    found = equivalent("certify", "my people.csv", {"columns": ["sex", "age"], "confidence": 0.9})
    words = shlex.split(found["command"])
    ran = subprocess.run(
        [COMMAND, *words[1:]], capture_output=True, text=True, check=True, timeout=120
    )
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(found["python"], "snippet", "exec"), names)
    result = names["result"]
    assert isinstance(result, memberbound.Certification)
    assert json.loads(ran.stdout) == json.loads(json.dumps(result.to_dict()))
    assert "Whatever is trained on" in printed.getvalue()


def test_every_argument_has_a_label_for_people():
    names = {p.name for verb in JOBS for p in schemas.web_parameters(verb_named(verb))}
    assert names - set(LABELS) == set()
    assert set(LABELS) - names == set()
