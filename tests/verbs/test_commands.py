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
    module = [sys.executable, "-m", "memberbound", "explain", "--epsilon", "8", "--delta", "1e-5"]
    again = subprocess.run([*module, "--json"], capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout
    assert run("--version").stdout.strip() == f"memberbound {memberbound.__version__}"


@pytest.mark.parametrize(
    "arguments",
    [
        "--gdp 1 --delta 1e-6 --adjacency add-remove",
        "--noise-multiplier 2 --sample-rate 0.05 --steps 20",
        "--noise-multiplier 2 --sample-rate 1 --steps 20 --delta 1e-6",
        "--epsilon 1 --nu 0.3 --lam 2 --prior 0.2",
        "--epsilon 1 --fpr 0.01 --fpr 0.0001",
        "--target-advantage 0.1 --delta 1e-6",
        "--target-tpr 0.05 --fpr 0.01",
        "--target-tpr 0.05 --fpr 0.01 --sample-rate 0.05 --steps 20",
        "--target-eta 0.05",
        "--target-security 0.9",
    ],
)
def test_every_form_of_explain(arguments):
    done = command("explain", *arguments.split(), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 <= result["advantage_upper"] <= 1
    if "--target-tpr" in arguments:
        assert result["tpr_upper"]["0.01"] <= 0.05
        assert result["noise_multiplier" if "--steps" in arguments else "epsilon"] > 0
    assert command("explain", *arguments.split()).returncode == 0


def test_certify_plan_harden_from_csv_to_parquet(folder, tmp_path):
    people = folder / "people.csv"

    def answer(*arguments):
        done = command(*arguments, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert answer("certify", people, "--roles", "id=category")["delta_upper"] == 1.0
    part = answer("certify", people, "--columns", "sex,ill")
    assert part["atoms"] == 4
    needed = answer("plan", people, "--columns", "sex,ill", "--security", "0.95")["n_required"]
    assert 0 < needed <= 900
    result = answer(
        *("harden", people, "--security", "0.8", "--target", "ill", "--out", "safe.parquet"),
        *("--recipe", "recipe.json", "--plot", "f.svg"),
    )
    assert result["after"]["security_lower"] >= 0.8
    again = answer("certify", "safe.parquet")
    assert again["delta_upper"] == pytest.approx(result["after"]["delta_upper"], rel=1e-9)
    assert again["rows"] == result["rows_released"]
    assert json.loads((tmp_path / "recipe.json").read_text())
    assert (tmp_path / "f.svg").read_text().count("<svg") == 1
    existing = ("harden", people, "--security", "0.8", "--out", "safe.parquet")
    assert command(*existing, cwd=tmp_path).returncode == 2


BAD = {
    "nonsense": "nonsense",
    "explain --nonsense": "--nonsense",
    "explain --epsilon abc": "epsilon",
    "explain --epsilon 5%": "Write it as 0.05",
    "explain --epsilon inf": "epsilon",
    "explain": "guarantee",
    "explain --epsilon 1 --plot roc.bmp": "plot",
    "explain --epsilon 1 --plot missing/roc.png": "plot",
    "explain --epsilon 1 --plot .": "plot",
    "certify": "exactly one",
    "certify people.csv --columns sex,,age": "columns",
    "certify people.csv --n 2.5": "n must be",
    "certify people.csv --records people.csv": "people.csv",
    "plan --uniform 3 --security 1": "security",
    "harden people.csv": "security",
    "harden people.csv --security 0.9 --keep id": "",
    "harden people.csv --security 0.9 --bins age": "bins",
    "harden people.csv --security 0.9 --plot x.bmp": "plot",
    "population missing.csv --epsilon 1": "missing.csv",
    "population . --epsilon 1": "",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_exits_2_with_one_sentence_and_writes_nothing(arguments, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = command(*arguments.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert BAD[arguments] in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("suffix", FORMATS)
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


def test_import_is_light():
    code = "import sys, memberbound; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("'matplotlib'", "'typer'", "'dp_accounting'", "'scipy.stats'", "'scipy.signal'"):
        assert heavy not in done.stdout
