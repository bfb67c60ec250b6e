"""The command line, run in the process of the tests."""

import sys

import pytest

from memberbound.faces.command_line import main


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["memberbound", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run
