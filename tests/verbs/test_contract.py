"""The contract of design §2: the keys of every verb's result, its exit codes, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import memberbound
from commands import command
from memberbound.declarations import function_name
from memberbound.faces.command_line import VERBS
from verb_cases import CASES, write_files

COMMON = {
    "command": str,
    "version": str,
    "game": str,
    "protects": str,
    "theorems": list,
    "assumptions": list,
}
LIMITED = [verb for verb, case in CASES.items() if case.exceeded is not None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("contract")
    write_files(made)
    return made


def value_at(result: Any, path: str) -> Any:
    """Return the value of a dotted key; the rest of a path may itself be a key, as in 0.01."""
    if path in result:
        return result[path]
    key, _, rest = path.partition(".")
    return value_at(result[key], rest)


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_every_verb_has_a_case() -> None:
    # protect-text needs a language model: tests/verbs/test_protect_text.py.
    elsewhere = {"study", "reproduce", "serve", "protect-text"}
    assert set(VERBS) - set(CASES) == elsewhere


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_function_of_its_own_module(verb: str) -> None:
    name = function_name(verb)
    function = getattr(memberbound, name)
    assert function.__name__ == name
    assert f"{function.__module__}.".startswith(f"memberbound.verbs.{name}.")


@pytest.mark.parametrize("verb", CASES)
def test_keys_of_the_result(verb: str, folder: Path) -> None:
    case = CASES[verb]
    limit = () if case.kept is None else ("--fail-above", case.kept)
    done = command(*case.arguments.split(), *limit, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout, parse_constant=no_constant)
    for path, types in (COMMON | case.keys).items():
        value = value_at(result, path)
        assert isinstance(value, types), path
        assert types is bool or not isinstance(value, bool), path
    assert result["command"] == verb
    assert result["game"] in ("iid", "subset", "neighbour", "model")
    assert result["protects"] in ("average record", "every record")


@pytest.mark.parametrize("verb", CASES)
def test_bad_input_ends_with_2_one_sentence_and_no_file(verb: str, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = command(*CASES[verb].refused.split(), cwd=folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("memberbound: ")
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("verb", LIMITED)
def test_a_limit_that_is_exceeded_ends_with_3(verb: str, folder: Path) -> None:
    """A limit that is kept ends with 0: above, where the keys are looked at."""
    case = CASES[verb]
    done = command(*case.arguments.split(), "--fail-above", case.exceeded, "--json", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["command"] == verb
