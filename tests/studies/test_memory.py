"""Memory of a study of many rows: no second table, no texts, no idle workers."""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from memberbound.attacks.shadows import train_shadows
from memberbound.learners import refits
from memberbound.learners.examples import Examples
from memberbound.report.model import Question
from memberbound.verbs.study.question import StudyData


def people(rows=400):
    rng = np.random.default_rng(5)
    town = rng.choice(["Ulm", "Bonn", "nan", "7"], rows).astype(object)
    town[::9] = None
    age = rng.integers(18, 90, rows)
    ill = np.where(age + rng.normal(0, 20, rows) > 60, "yes", "no")
    return pd.DataFrame({"age": age, "town": pd.Series(town, dtype="string"), "ill": ill})


def test_the_texts_of_a_file_are_let_go(tmp_path):
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    data = StudyData.read(path, Question("ill"))
    assert data.table.engines is data.source.engines
    assert "frame" not in vars(data.source)
    assert data.table.frame["age"].dtype.kind in "iuf"
    # Read again from what was parsed, every number is the same.
    assert data.table.numbers("age").tolist() == people()["age"].astype(float).tolist()


class Signed(LogisticRegression):
    """Writes its process id to a file."""

    def __init__(self, folder="", C=1.0):
        super().__init__(C=C)
        self.folder = folder

    def fit(self, X, y):
        Path(self.folder, str(os.getpid())).touch()
        return super().fit(X, y)


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(os.name == "nt", reason="asks the system for processes as POSIX does")
@pytest.mark.long
@pytest.mark.parametrize(("idle", "ends"), [(1, True), (600, False)])
def test_workers_without_work_end(tmp_path, monkeypatch, idle, ends):
    monkeypatch.setattr(refits, "_IDLE", idle)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    examples = Examples(x, (x[:, 0] > 0).astype(int), "classification", ("a", "b"), ("0", "1"))
    train_shadows(examples, Signed(str(tmp_path)), models=4, n_jobs=2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert workers
    assert os.getpid() not in workers
    last = time.monotonic() + (30 if ends else 3)
    while time.monotonic() < last and any(map(alive, workers)):
        time.sleep(0.1)
    assert not any(map(alive, workers)) if ends else all(map(alive, workers))
