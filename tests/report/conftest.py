"""Releases to export from, made once."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memberbound.verbs.protect import protect
from memberbound.verbs.protect_half import protect_half
from memberbound.verbs.summarize import summarize
from memberbound.verbs.synthesize import synthesize

BOUNDS = {"age": [18, 90], "ill": ["no", "yes"]}


@pytest.fixture(scope="session")
def released(tmp_path_factory: Any) -> Path:
    """A folder of released files with their certificates; only model.json has secret noise.

    one/ and two/ hold models of neighbouring tables under the same noise.
    """
    folder: Path = tmp_path_factory.mktemp("released")
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"age": draws.integers(18, 90, 800)})
    rows["ill"] = np.where(rows["age"] + draws.normal(0, 20, 800) > 50, "yes", "no")
    people = rows.assign(who=[f"p{index // 2}" for index in range(800)])
    other = rows.copy()
    other.loc[7] = [89, "no"]
    known: dict[str, Any] = {"bounds": BOUNDS, "insecure_seed": 3}
    protect(rows, target="ill", bounds=BOUNDS, out=folder / "model.json")
    protect(people, target="ill", **known, unit="who", out=folder / "persons.json")
    for name, table in (("one", rows), ("two", other)):
        (folder / name).mkdir()
        protect(table, target="ill", **known, out=folder / name / "model.json")
    synthesize(rows, **known, out=folder / "new.csv")
    mean: dict[str, Any] = {"statistic": "mean", "columns": ["age"]}
    summarize(rows, **mean, **known, out=folder / "mean.safetensors")
    protect_half(rows, **mean, insecure_seed=3, out=folder / "half.safetensors")
    return folder
