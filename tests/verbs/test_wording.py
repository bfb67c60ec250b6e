"""The printed text of every verb: the one place where tests assert wording.

After a change of words, write the files anew and read the difference::

    pytest tests/verbs/test_wording.py -n 0 --update-wording && git diff tests/verbs/golden
"""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import command
from memberbound.answers import Answer
from memberbound.faces import commands
from verb_cases import CASES, write_files

GOLDEN = Path(__file__).parent / "golden"
VERBS = [verb for verb, case in CASES.items() if case.golden]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wording")
    write_files(made)
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_the_verb_prints_its_golden_file(
    verb: str, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[verb]
    parts: list[str] = []
    answers: list[Answer] = []
    show = commands.show

    def keep(answer: Answer, as_json: bool, *, measures: bool = False) -> None:
        answers.append(answer)
        show(answer, as_json, measures=measures)

    monkeypatch.setattr(commands, "show", keep)
    for arguments in (case.arguments, *case.also, case.refused):
        done = command(*arguments.split(), cwd=folder)
        parts.append(f"$ memberbound {arguments}\n{done.stdout}{done.stderr}")
        if arguments != case.refused:
            assumptions = answers[-1].to_dict()["assumptions"]
            parts.append("".join(f"assumes: {text}\n" for text in assumptions))
    printed = "\n".join(parts)
    golden = GOLDEN / f"{verb}.txt"
    if request.config.getoption("--update-wording"):
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(printed, encoding="utf-8")
    assert printed == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(VERBS)
