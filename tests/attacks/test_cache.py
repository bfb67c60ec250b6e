"""Cached fits: a hit only if nothing that matters has changed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

import memberbound
from memberbound.attacks.shadows import _Training, train_shadows
from memberbound.attacks.signals import Signals
from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.learners.refits import FitStore, cache_folder


def examples(seed=0):
    rng = np.random.default_rng(seed)
    return Examples(
        rng.normal(size=(40, 2)), np.arange(40) % 2, "classification", ("a", "b"), ("0", "1")
    )


def key(data=None, learner=None, seed=0):
    if learner is None:  # An unfitted ensemble has no truth value.
        learner = DecisionTreeClassifier()
    data = data or examples()
    return _Training(data, learner, seed, data).fingerprint()


def test_the_key_notices_every_change(monkeypatch):
    base = examples()
    moved = base.features.copy()
    moved[17, 1] = np.nextafter(moved[17, 1], 9.0)
    flipped = base.target.copy()
    flipped[3] = 1 - flipped[3]
    swapped = base.features[::-1].copy()
    keys = [
        key(),
        key(dataclasses.replace(base, features=moved)),
        key(dataclasses.replace(base, target=flipped)),
        key(dataclasses.replace(base, features=swapped)),
        key(dataclasses.replace(base, task="regression")),
        key(learner=DecisionTreeClassifier(max_depth=3)),
        key(learner=BaggingClassifier(DecisionTreeClassifier())),
        key(learner=BaggingClassifier(DecisionTreeClassifier(max_depth=3))),
        key(seed=1),
    ]
    monkeypatch.setattr(memberbound, "__version__", "0.0.0")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    assert keys[-1] == key()


def test_the_source_of_a_learner_is_part_of_its_description(tmp_path, monkeypatch):
    import importlib

    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "own_learner.py"
    file.write_text("class Own:\n    def fit(self, x, y):\n        return self\n")
    module = importlib.import_module("own_learner")
    before = key(learner=module.Own())
    assert before == key(learner=module.Own())
    file.write_text("class Own:\n    def fit(self, x, y):\n        return 1\n")
    assert key(learner=module.Own()) != before


def test_a_learner_defined_in_a_session_is_refused(monkeypatch):
    import __main__

    class Own:
        pass

    # As in a notebook: the class belongs to __main__, which has no file.
    Own.__module__, Own.__qualname__ = "__main__", "Own"
    monkeypatch.setattr(__main__, "Own", Own, raising=False)
    monkeypatch.delattr(__main__, "__file__", raising=False)
    with pytest.raises(InputError, match="defined in a file"):
        key(learner=Own())


def test_stored_fits_are_used_and_damaged_ones_are_not(tmp_path):
    def train(data=None, models=4):
        return train_shadows(
            data or examples(), DecisionTreeClassifier(), models=models, n_jobs=1, cache=tmp_path
        )

    first = train()
    assert first.reused == 0
    again = train(models=6)
    assert again.reused == 4
    assert np.array_equal(again.signals.logit[:4], first.signals.logit)
    files = sorted(Path(tmp_path).glob("fits/*/fit-*.npz"))
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].write_bytes(b"")
    files[2].write_bytes(files[3].read_bytes())  # another half's fit under this name
    healed = train()
    assert healed.reused == 1
    assert np.array_equal(healed.signals.logit, first.signals.logit)
    changed = examples()
    changed.features[0, 0] += 1.0
    assert train(changed).reused == 0
    assert not list(Path(tmp_path).rglob("*.part"))


def test_the_default_folder_and_one_that_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMBERBOUND_CACHE", str(tmp_path / "here"))
    assert cache_folder(True) == tmp_path / "here"
    monkeypatch.delenv("MEMBERBOUND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(True).name == "memberbound"
    assert (cache_folder(False), cache_folder("there")) == (None, "there")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cache must be a folder"):
        FitStore.at(tmp_path / "file", "a" * 64, Signals)
