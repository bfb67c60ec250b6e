"""The command line as a user meets it: the installed command, real files, exit codes."""

import json
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import memberbound
from commands import command, python
from memberbound.report.drawing import PLOT_FORMATS
from verb_cases import write_files

COMMAND = shutil.which("memberbound", path=sysconfig.get_path("scripts"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert COMMAND is not None, "memberbound is not installed beside this interpreter"
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands")
    write_files(made)
    return made


def test_json_is_the_dictionary_of_the_function():
    done = run("explain", "--epsilon", "8", "--delta", "1e-5", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == memberbound.explain(epsilon=8, delta=1e-5).to_dict()
    asked = ("explain", "--epsilon", "8", "--delta", "1e-5", "--json")
    again = python("-m", "memberbound", *asked)
    assert again.stdout == done.stdout
    assert run("--version").stdout.strip() == f"memberbound {memberbound.__version__}"


BAD = {
    "nonsense": "nonsense",
    "explain --nonsense": "--nonsense",
    "explain --epsilon abc": "epsilon",
    "explain --epsilon 5%": "Write it as 0.05",
    "explain": "guarantee",
    "explain --epsilon 1 --plot roc.bmp": "plot",
    "certify": "exactly one",
    "certify people.csv --columns sex,,age": "columns",
    "certify people.csv --records people.csv": "people.csv",
    "harden people.csv --security 0.9 --bins age": "bins",
    "population missing.csv --epsilon 1": "missing.csv",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_exits_2_with_one_sentence_and_writes_nothing(arguments, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = command(*arguments.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert BAD[arguments] in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("suffix", PLOT_FORMATS)
def test_plot_formats(suffix, tmp_path):
    target = tmp_path / f"roc{suffix}"
    done = command("explain", "--gdp", "1", "--plot", target, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert str(target) in done.stderr
    signature = {".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert target.read_bytes().startswith(signature.get(suffix, b"<?xml"))
    if suffix == ".svg":
        text = target.read_text(encoding="utf-8")
        assert text.count("<svg") == 1
        assert "http-equiv" not in text
        assert "<script" not in text
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_import_is_light():
    code = "import sys, memberbound; print(sorted(sys.modules))"
    done = python("-c", code)
    for heavy in ("'matplotlib'", "'typer'", "'dp_accounting'", "'scipy.stats'", "'scipy.signal'"):
        assert heavy not in done.stdout


def test_the_command_that_bounds_advises_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{20 + k % 50},{'AB'[k % 2]}\n" for k in range(300))
    (tmp_path / "some people.csv").write_text(f"age,ward\n{rows}")
    told = memberbound.bounds("some people.csv", out="b.yaml").summary()
    (tmp_path / "b.yaml").write_text("age: [0, 100]\nward: [A, B]\n")
    advised = next(line for line in told.split("\n") if line.startswith("memberbound synthesize"))
    assert run(*shlex.split(advised)[1:], "--no-fidelity").returncode == 0
    assert (tmp_path / "new-rows.csv").is_file()
