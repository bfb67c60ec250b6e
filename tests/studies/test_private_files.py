"""Files with rows, or with predictions about rows, are readable by their owner only."""

import os
import pathlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.files import write_text
from memberbound.learners.refits import FitStore
from memberbound.scratch import PrivateFolder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")


@pytest.fixture(params=[0o000, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def drafts(monkeypatch):
    """Record the permissions of every draft at the end of its writing."""
    found = []
    chmod = pathlib.Path.chmod

    def record(path, mode):
        if path.is_file():
            found.append(path.stat().st_mode & 0o777)
        chmod(path, mode)

    monkeypatch.setattr(pathlib.Path, "chmod", record)
    return found


def modes(folder):
    """Return the permissions of all files and of all folders inside one."""
    inside = list(folder.rglob("*"))
    files = {p.name: p.stat().st_mode & 0o777 for p in inside if p.is_file()}
    return files, {p.stat().st_mode & 0o777 for p in inside if p.is_dir()}


def people():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 80, 120)
    return pd.DataFrame({"age": age, "dose": rng.random(120).round(1), "old": age > 40})


def certify(out):
    memberbound.certify(people(), columns=["age"], records=out / "records.csv")
    memberbound.certify(people(), columns=["age"], records=out / "records.parquet")


def population(out):
    memberbound.population(
        people()[["dose"]], query="mean", epsilon=1.0, delta=1e-3, clip=1.0, records=out / "r.csv"
    )


def audit(out):
    scores = pd.DataFrame({"score": np.arange(80.0), "member": [1, 0] * 40})
    memberbound.audit(scores, records=out / "records.csv")


def predict(out):
    model = out.parent / "model.json"
    bounds = {"age": [0, 80], "dose": [0, 1], "old": [False, True]}
    many = pd.concat([people()] * 10)
    memberbound.protect(many, target="old", bounds=bounds, eta=0.2, trial=False, out=model)
    memberbound.predict(model, people(), out=out / "answers.csv")


@dataclass
class Fit:
    answers: np.ndarray


def keep_fits(out):
    FitStore.at(out / "cache", "0" * 64, Fit).save(0, Fit(np.zeros(3)))


def study(out):
    memberbound.study(people(), target="old", quick=True, out=out / "new" / "study")


WRITERS = (certify, population, audit, predict, keep_fits, study)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_only_the_owner_can_read_files_about_rows(tmp_path, umask, drafts, only_steps, write):
    del umask
    only_steps("certify")
    out = tmp_path / "out"
    out.mkdir()
    write(out)
    files, folders = modes(out)
    assert files
    assert set(files.values()) == {0o600}, files
    assert folders <= {0o700}
    assert set(drafts) == {0o600}


def test_folders_that_an_earlier_version_left_open_are_closed(tmp_path, umask, only_steps):
    del umask
    only_steps("certify")
    (tmp_path / "study" / ".steps").mkdir(parents=True)
    (tmp_path / "study" / ".steps").chmod(0o755)
    memberbound.study(people(), target="old", quick=True, out=tmp_path / "study")
    assert (tmp_path / "study" / ".steps").stat().st_mode & 0o777 == 0o700


def test_temporary_copies_are_in_a_private_folder(umask):
    del umask
    with PrivateFolder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_release_is_like_any_other_file(tmp_path, umask):
    """Negative control: public files follow the umask."""
    write_text("released", tmp_path / "release.json")
    assert (tmp_path / "release.json").stat().st_mode & 0o777 == 0o666 & ~umask
