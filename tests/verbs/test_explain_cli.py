"""The command line as a user meets it: the installed command, real files, exit codes."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import memberbound
from commands import command
from memberbound.report.drawing import FORMATS

COMMAND = shutil.which("memberbound", path=sysconfig.get_path("scripts"))


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    assert COMMAND is not None, "memberbound is not installed beside this interpreter"
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=cwd, timeout=120
    )


def test_json_is_the_dictionary_of_the_function():
    done = run("explain", "--epsilon", "8", "--delta", "1e-5", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout) == memberbound.explain(epsilon=8, delta=1e-5).to_dict()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gdp", "1"],
        ["--gdp", "1", "--delta", "1e-6", "--adjacency", "add-remove"],
        ["--noise-multiplier", "2", "--sample-rate", "0.05", "--steps", "20"],
        ["--noise-multiplier", "2", "--sample-rate", "1", "--steps", "20", "--delta", "1e-6"],
        ["--epsilon", "1", "--nu", "0.3", "--lam", "2", "--prior", "0.2"],
        ["--epsilon", "1", "--fpr", "0.01", "--fpr", "0.0001"],
        ["--target-advantage", "0.1"],
        ["--target-advantage", "0.1", "--delta", "1e-6"],
        ["--target-tpr", "0.05", "--fpr", "0.01"],
        ["--target-tpr", "0.05", "--fpr", "0.01", "--sample-rate", "0.05", "--steps", "20"],
        ["--target-eta", "0.05"],
        ["--target-security", "0.9"],
    ],
    ids=" ".join,
)
def test_every_form_of_the_contract(arguments):
    done = command("explain", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["command"] == "explain"
    assert 0 <= result["advantage_upper"] <= 1
    assert "NaN" not in done.stdout
    if "--target-tpr" in arguments:
        assert result["tpr_upper"]["0.01"] <= 0.05
        found = "noise_multiplier" if "--steps" in arguments else "epsilon"
        assert result[found] > 0
    readable = command("explain", *arguments)
    assert readable.returncode == 0
    assert "attacker" in readable.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["explain", "--epsilon", "-1"], "epsilon"),
        (["explain", "--epsilon", "nan"], "epsilon"),
        (["explain", "--epsilon", "inf"], "epsilon"),
        (["explain", "--epsilon", "abc"], "--epsilon"),
        (["explain", "--epsilon", "1", "--delta", "2"], "delta"),
        (["explain"], "guarantee"),
        (["explain", "--epsilon", "1", "--gdp", "1"], "together"),
        (
            ["explain", "--noise-multiplier", "1", "--sample-rate", "0", "--steps", "1"],
            "sample_rate",
        ),
        (["explain", "--noise-multiplier", "0", "--sample-rate", "1", "--steps", "1"], "noise"),
        (["explain", "--noise-multiplier", "1", "--sample-rate", "1", "--steps", "0"], "steps"),
        (["explain", "--nonsense"], "--nonsense"),
        (["theorems", "A25-T999"], "A25-T999"),
        (["nonsense"], "nonsense"),
    ],
    ids=str,
)
def test_bad_input_exits_2_with_one_sentence(arguments, word, tmp_path):
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_plot_formats(suffix, tmp_path):
    target = tmp_path / f"roc{suffix}"
    done = command("explain", "--gdp", "1", "--plot", target, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert str(target) in done.stderr
    head = target.read_bytes()[:400]
    signature = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF", ".html": b"<!doctype html>"}
    assert signature[suffix] in head or suffix == ".svg"
    if suffix in (".svg", ".html"):
        text = target.read_text(encoding="utf-8")
        assert text.count("<svg") == 1
        assert "http-equiv" not in text
        assert "<script" not in text
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("name", ["roc.bmp", "missing/roc.png", "."])
def test_bad_plot_writes_nothing(name, tmp_path):
    done = command("explain", "--epsilon", "1", "--plot", name, cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_bad_parameters_leave_an_existing_plot_alone(tmp_path):
    target = tmp_path / "roc.png"
    target.write_bytes(b"old")
    assert command("explain", "--epsilon", "-1", "--plot", target).returncode == 2
    assert target.read_bytes() == b"old"


def test_help_shows_an_example():
    for verb in ("explain", "theorems"):
        done = command(verb, "--help")
        assert done.returncode == 0
        assert f"memberbound {verb}" in done.stdout
    assert command().returncode == 0
    assert run("--version").stdout.strip() == f"memberbound {memberbound.__version__}"


def test_python_m_memberbound():
    done = subprocess.run(
        [sys.executable, "-m", "memberbound", "explain", "--epsilon", "1", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout)["epsilon"] == 1


def test_import_is_light():
    code = "import sys, memberbound; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("'matplotlib'", "'typer'", "'dp_accounting'", "'scipy.stats'", "'scipy.signal'"):
        assert heavy not in done.stdout
