"""``certify``, ``plan`` and ``harden`` as installed commands, on files a user might have."""

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from commands import command

COMMAND = shutil.which("memberbound", path=sysconfig.get_path("scripts"))


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    assert COMMAND is not None, "memberbound is not installed beside this interpreter"
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=cwd, timeout=300
    )


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(5)
    rows = 4000
    sex, age = rng.integers(0, 2, rows), rng.integers(18, 80, rows)
    income = (age + 10 * sex + rng.normal(0, 8, rows) > 55).astype(int)
    path = tmp_path / "people.csv"
    lines = [
        f"{i},{'f' if s else 'm'},{a},{y}"
        for i, (s, a, y) in enumerate(zip(sex, age, income, strict=True))
    ]
    path.write_text("id,sex,age,income\n" + "\n".join(lines) + "\n")
    return path


def test_certify_plan_harden_from_csv_to_parquet(people, tmp_path):
    whole = run("certify", str(people), "--json")
    assert json.loads(whole.stdout)["delta_upper"] < 0.2
    assert "'id' looks like an identifier and is left out" in whole.stderr
    named = command("certify", str(people), "--roles", "id=category", "--json")
    assert json.loads(named.stdout)["delta_upper"] == 1.0
    part = json.loads(command("certify", str(people), "--columns", "sex,income", "--json").stdout)
    assert part["atoms"] == 4
    assert part["security_lower"] > 0.97
    planned = command(
        "plan", str(people), "--columns", "sex,income", "--security", "0.95", "--json"
    )
    assert 0 < json.loads(planned.stdout)["n_required"] <= 4000
    out, recipe, plot = (tmp_path / name for name in ("safe.parquet", "recipe.json", "f.svg"))
    done = command(
        "harden",
        str(people),
        *("--security", "0.9", "--target", "income", "--out", str(out)),
        *("--recipe", str(recipe), "--plot", str(plot), "--no-learners", "--json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["after"]["security_lower"] >= 0.9
    assert "drop id" in result["steps"]
    again = json.loads(command("certify", str(out), "--json").stdout)
    assert again["delta_upper"] == pytest.approx(result["after"]["delta_upper"], rel=1e-9)
    assert again["rows"] == result["rows_released"]
    assert json.loads(recipe.read_text())
    assert plot.read_text().count("<svg") == 1
    refused = command("harden", str(people), "--security", "0.9", "--out", str(out))
    assert refused.returncode == 2


def test_readable_output(people):
    done = command("certify", str(people), "--columns", "sex")
    assert done.returncode == 0
    assert "Whatever is trained on 4000 such rows" in done.stdout
    assert command("plan", "--uniform", "316", "--security", "0.9").stdout.startswith(
        "5005 training"
    )


BAD = [
    (["certify"], "exactly one"),
    (["certify", "missing.csv"], "missing.csv"),
    (["certify", "people.csv", "--columns", "nope"], "nope"),
    (["certify", "people.csv", "--columns", "sex,,age"], "columns"),
    (["certify", "people.csv", "--confidence", "2"], "confidence"),
    (["certify", "people.csv", "--n", "2.5"], "n must be"),
    (["certify", "--uniform", "10"], "n must be given"),
    (["certify", "people.csv", "--records", "people.csv"], "people.csv"),
    (["plan", "people.csv"], "target"),
    (["plan", "--uniform", "3", "--security", "1"], "security"),
    (["harden", "people.csv"], "security"),
    (["harden", "people.csv", "--security", "0.9", "--target", "nope"], "nope"),
    (["harden", "people.csv", "--security", "0.9", "--keep", "id"], ""),
    (["harden", "people.csv", "--security", "0.9", "--bins", "age"], "bins"),
    (["harden", "people.csv", "--security", "0.9", "--plot", "x.bmp"], "plot"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD, ids=[" ".join(b[0]) for b in BAD])
def test_bad_input_exits_2_and_writes_nothing(arguments, word, people):
    before = people.read_bytes()
    done = command(*arguments, cwd=people.parent)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [p.name for p in people.parent.iterdir()] == ["people.csv"]
    assert people.read_bytes() == before
