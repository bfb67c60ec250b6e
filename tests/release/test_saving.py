"""Saved releases: reading restores the release, and only with its own certificate."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest

from memberbound import files
from memberbound.errors import InputError, MemberboundError
from memberbound.games import SubsetGame
from memberbound.release import saving
from memberbound.release.calibration import VECTOR_ENDINGS
from memberbound.release.half import half_estimator
from memberbound.release.half.half_estimator import TableModel
from memberbound.release.half.secret_draw import release_statistic
from memberbound.release.half.sums import mean
from memberbound.release.saving import certificate_path, check_certificate, load, save
from memberbound.verbs.protect_half import protect_half

X = np.random.default_rng(0).normal(size=(80, 3))
TABLE = np.column_stack([X, X[:, 0] > 0.2])
QUICK = {"record": "average", "eta": 0.2, "pairs": 30, "insecure_seed": 3, "workers": 1}


@pytest.fixture(scope="module")
def model(few_fits):
    return protect_half(TABLE, target="x3", **QUICK).released


@pytest.fixture(scope="module")
def vector():
    pytest.importorskip("safetensors")
    return release_statistic(mean(X[:20]), SubsetGame(20, 10), eta=0.1, insecure_seed=1)


def test_estimators_come_back_without_pickle_seed_or_unknown_types(model, tmp_path, monkeypatch):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    assert save(model, path) == certificate_path(path)
    again = load(path)
    assert isinstance(again, TableModel)
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    assert again.certificate_ == model.certificate_
    assert again.calibration_.to_dict() == model.calibration_.to_dict()
    assert again.model.scores_ == model.model.scores_
    assert again.model.insecure_seed is None
    certificate = check_certificate(path)
    assert certificate["eta"] == 0.2
    assert certificate["certificate"]["upper"] == model.certificate_.value
    assert (certificate["population"], certificate["size"]) == (80, 40)
    assert certificate["secure_source"] is False
    with zipfile.ZipFile(path) as archive:
        assert not [n for n in archive.namelist() if n.endswith((".pkl", ".pickle"))]
        assert "pickle" not in archive.read("schema.json").decode().lower()
    without = tuple(n for n in half_estimator.TRUSTED if not n.endswith("Certificate"))
    monkeypatch.setattr(half_estimator, "TRUSTED", without)
    with pytest.raises(InputError, match=r"certificate\.Certificate"):
        load(path)


def test_prediction_tables_come_back(tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "answers.skops"
    model = protect_half(TABLE, target="x3", learner="knn", query=X[:4], out=path, **QUICK).released
    assert (load(path).predict(X[:4]) == model.predict(X[:4])).all()
    assert type(load(path).model.estimator).__name__ == "PredictionTable"


@pytest.mark.parametrize("ending", VECTOR_ENDINGS)
def test_vectors_come_back(vector, tmp_path, ending):
    path = tmp_path / f"mean{ending}"
    save(vector, path)
    again = load(path)
    assert (again.values == vector.values).all()
    assert again.certificate["kind"] == "vector"
    assert again.certificate["certificate"]["confidence"] == 1.0


def test_a_missing_or_foreign_certificate_is_refused(vector, tmp_path):
    path = tmp_path / "mean.safetensors"
    save(vector, path)
    beside = certificate_path(path)
    text = beside.read_text(encoding="utf-8")
    for wrong in ("no json", "[]", "{}"):
        beside.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError, match="certificate"):
            load(path)
    beside.unlink()
    with pytest.raises(InputError, match="missing"):
        load(path)
    beside.write_text(text, encoding="utf-8")
    load(path)
    with pytest.raises(InputError, match="not a file"):
        load(tmp_path / "nothing.safetensors")


def test_nothing_is_overwritten_or_half_written(vector, tmp_path, monkeypatch):
    path = tmp_path / "mean.safetensors"
    save(vector, path)
    with pytest.raises(InputError, match="must not exist"):
        save(vector, path)
    save(vector, path, force=True)
    other = tmp_path / "other.safetensors"

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(saving, "write_text", fail)
    before = path.read_bytes(), certificate_path(path).read_bytes()
    for target, force in ((other, False), (path, True)):
        with pytest.raises(MemberboundError, match="could not be written"):
            save(vector, target, force=force)
    assert (path.read_bytes(), certificate_path(path).read_bytes()) == before
    assert not other.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, certificate_path(path).name]


def test_a_release_that_is_replaced_stays_usable_until_the_new_one_is_there(
    vector, tmp_path, monkeypatch
):
    """Stopped before or after the second file gets its name; nothing of the old one remains."""
    path = tmp_path / "mean.safetensors"
    save(vector, path)
    old = check_certificate(path)
    other = dataclasses.replace(vector, values=vector.values + 1)

    class Killed(BaseException):
        """Nothing is tidied after it."""

    def stop_saving(at):
        """Save until the at-th file has its name, and return the message."""
        names = []

        def rename(draft, target, force):
            if len(names) == at:
                raise Killed
            plain(draft, target, force)
            names.append(target)

        plain = files._rename
        with monkeypatch.context() as patched:
            patched.setattr(files, "_rename", rename)
            with pytest.raises(Killed):
                save(other, path, force=True)
        return names

    assert stop_saving(1) == [certificate_path(path)]
    assert json.loads(certificate_path(path).read_text())["sha256"] != old["sha256"]
    assert check_certificate(path) == old
    assert (load(path).values == vector.values).all()

    assert stop_saving(2) == [certificate_path(path), path]
    assert "replaces" in json.loads(certificate_path(path).read_text())
    assert "replaces" not in check_certificate(path)
    assert (load(path).values == other.values).all()

    save(vector, path, force=True)
    assert json.loads(certificate_path(path).read_text()) == old
    # Negative control: neither of the two certificates is for another file.
    stop_saving(1)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="SHA-256"):
        load(path)


def test_bad_input(model, vector, tmp_path):
    with pytest.raises(InputError, match="end in"):
        save(model, tmp_path / "model.pkl")
    with pytest.raises(InputError, match="end in"):
        save(vector, tmp_path / "model.skops")
    with pytest.raises(InputError, match="released must be"):
        save(model.model, tmp_path / "x.skops")
