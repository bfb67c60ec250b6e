"""The core works without its leaves: each can be deleted from the package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import memberbound
from commands import python
from memberbound.leaves import LEAVES

PACKAGE = Path(memberbound.__file__).parent
#: Files and folders of a leaf, relative to the package.
FILES = {
    "networks": tuple(
        f"release/all_rows/{name}.py"
        for name in ("networks", "network_modules", "network_training")
    ),
    "text": tuple(
        f"release/all_rows/{name}.py"
        for name in (
            "text",
            "text_adapters",
            "text_budget",
            "text_classes",
            "text_settings",
            "text_training",
        )
    ),
    "text plans": (
        "release/all_rows/text_plan.py",
        "release/text_estimator.py",
    ),
    "text files": ("release/text_files.py",),
    "workers": ("release/all_rows/on_workers.py",),
    "foreign files": ("tables/foreign_files.py",),
    "onnx": ("release/onnx_file.py",),
    "evidence": ("report/evidence.py",),
    "mlflow": ("report/mlflow_run.py",),
    "reproduction": tuple(
        f"papers/{name}.py"
        for name in ("reproduction", "iid_figures", "image_table", "subset_figures")
    ),
    "papers": ("papers",),
    "web": ("faces/web", "faces/serving.py"),
}
SMOKE = """
import sys, tempfile
from pathlib import Path
import pandas, memberbound
from memberbound.errors import InputError
from memberbound.faces.command_line import VERBS, application
from memberbound.leaves import load_leaf

age = [k % 80 for k in range(2000)]
people = pandas.DataFrame({"age": age, "old": ["yes" if a > 40 else "no" for a in age]})
public = {"age": [0, 80], "old": ["no", "yes"]}
assert memberbound.explain(epsilon=1.0).advantage_upper < 0.5
assert memberbound.certify(people).delta_upper < 1
with tempfile.TemporaryDirectory() as folder:
    model = Path(folder) / "model.json"
    released = memberbound.protect(people, target="old", bounds=public, insecure_seed=1, out=model)
    assert released.certificate.value <= 0.05
    assert memberbound.predict(model, people).rows == len(people)
    table = memberbound.synthesize(people, target="old", bounds=public, insecure_seed=1).table
    assert list(table.columns) == ["age", "old"]
    memberbound.export(f"{model}.certificate.json", format="dpia", out=Path(folder) / "annex.md")
mean = memberbound.summarize(people, statistic="mean", columns=["age"], bounds=public)
assert len(mean.values) == 1
application((), VERBS)
for name in sys.argv[1:]:
    try:
        load_leaf(name)
    except InputError as problem:
        assert "missing" in str(problem)
    else:
        raise AssertionError(name)
print("smoke")
"""


def test_every_leaf_is_listed() -> None:
    assert set(FILES) == set(LEAVES)


@pytest.mark.parametrize(
    "leaves",
    [tuple(FILES), *(pytest.param((name,), marks=pytest.mark.long) for name in FILES)],
    ids=lambda leaves: "all" if len(leaves) > 1 else leaves[0],
)
def test_the_core_works_without_leaves(leaves: tuple[str, ...], tmp_path: Path) -> None:
    copy = tmp_path / "src" / "memberbound"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (path for name in leaves for path in FILES[name]):
        target = copy / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    done = python("-c", SMOKE, *leaves, env={**os.environ, "PYTHONPATH": str(copy.parent)})
    assert done.stdout.strip() == "smoke", done.stderr
