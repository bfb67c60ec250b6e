"""Shadow training: halves, signals, failures, processes, and resuming after a kill."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

import __main__
import memberbound
from memberbound.attacks import shadows
from memberbound.attacks.shadows import _Training, draw_half, train_shadows
from memberbound.attacks.signals import Signals, signals_of
from memberbound.errors import InputError
from memberbound.learners import refits
from memberbound.learners.examples import Examples
from memberbound.learners.refits import FitStore, cache_folder


def examples(rows=60, classes=2, seed=0, task="classification"):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    if task == "regression":
        return Examples(x, x[:, 0] + rng.normal(size=rows), task, ("a", "b", "c"))
    y = rng.integers(classes, size=rows)
    names = tuple(str(c) for c in range(classes))
    return Examples(x, y, task, ("a", "b", "c"), names)


class Failing(ClassifierMixin, BaseEstimator):
    """Fails when its half has all rows that begin with the numbers in ``poison``."""

    def __init__(self, poison=(99.0,)):
        self.poison = poison

    def fit(self, x, y):
        if np.isin(self.poison, x[:, 0]).all():
            raise ValueError("two records do not go together\nmore text")
        self.model_ = DecisionTreeClassifier(random_state=0).fit(x, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, x):
        return self.model_.predict(x)


class AlwaysFailing(Failing):
    def fit(self, x, y):
        raise ValueError("never")


class AnswersNan(Failing):
    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x):
        return np.full((len(x), len(self.classes_)), np.nan)


def test_halves_are_uniform_and_independent_of_the_number_of_models():
    small = train_shadows(examples(), DecisionTreeClassifier(), models=3, n_jobs=1)
    large = train_shadows(examples(), DecisionTreeClassifier(), models=5, n_jobs=1)
    assert np.array_equal(small.membership, large.membership[:3])
    assert np.array_equal(small.signals.logit, large.signals.logit[:3])
    assert (large.membership.sum(axis=1) == 30).all()
    halves = np.array([draw_half(21, 0, m)[0] for m in range(4000)])
    assert (halves.sum(axis=1) == 10).all()
    # Each record's count is Bin(4000, 10/21); 5 standard deviations for 21 records fail with 1e-5.
    assert np.abs(halves.sum(axis=0) - 4000 * 10 / 21).max() < 5 * np.sqrt(4000 / 4)
    # Pairs: P(both in) = 10·9/(21·20).
    pairs = (halves[:, 0] & halves[:, 1]).sum()
    assert abs(pairs - 4000 * 90 / 420) < 5 * np.sqrt(4000 * 0.25)


def test_a_run_is_deterministic_and_the_same_in_processes():
    one = train_shadows(examples(), DecisionTreeClassifier(max_features=1), models=3, n_jobs=1)
    two = train_shadows(examples(), DecisionTreeClassifier(max_features=1), models=3, n_jobs=2)
    assert np.array_equal(one.signals.logit, two.signals.logit)
    assert np.array_equal(one.membership, two.membership)
    other = train_shadows(examples(), DecisionTreeClassifier(), models=3, n_jobs=1, seed=1)
    assert not np.array_equal(one.membership, other.membership)


def test_a_tree_remembers_its_members():
    run = train_shadows(examples(), DecisionTreeClassifier(), models=4, n_jobs=1)
    assert run.signals.correct[run.membership].all()
    assert not run.signals.correct[~run.membership].all()
    assert run.game.prior == 0.5


def test_failing_fits_are_listed_and_left_out():
    data = examples()
    run = train_shadows(data, Failing(tuple(data.features[:2, 0])), models=20, n_jobs=1)
    poisoned = {m for m in range(20) if draw_half(60, 0, m)[0][:2].all()}
    assert {f.model for f in run.failures} == poisoned
    assert 0 < len(poisoned) < 11
    assert run.failures[0].message == "ValueError: two records do not go together"
    assert set(run.models) == set(range(20)) - poisoned
    assert not run.membership[:, :2].all(axis=1).any()
    assert any("failed" in w for w in run.warnings)


def test_a_lack_of_memory_is_not_a_failing_learner(monkeypatch, tmp_path):
    """Neither in a fit nor while a learner is described for the cache; other errors are."""
    for error, seen in ((MemoryError(), MemoryError), (ValueError("no"), InputError)):

        def fail(*given, error=error, **named):
            raise error

        for module, name, cache in (
            (shadows, "signals_of", None),
            (refits._Description, "reducer_override", tmp_path),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(module, name, fail)
                with pytest.raises(seen):
                    train_shadows(examples(), RidgeClassifier(), models=4, n_jobs=1, cache=cache)


@pytest.mark.parametrize("learner", [AlwaysFailing(), AnswersNan()])
def test_mostly_failing_fits_are_refused(learner):
    with pytest.raises(InputError, match="4 failures in 4 fits"):
        train_shadows(examples(), learner, models=4, n_jobs=1)


def test_learners_without_probabilities_fall_back_and_say_so():
    run = train_shadows(examples(classes=3), RidgeClassifier(), models=2, n_jobs=1)
    assert run.signals.kind == "decision values"
    assert any("predict_proba" in w for w in run.warnings)
    run = train_shadows(examples(), Failing(), models=2, n_jobs=1)
    assert run.signals.kind == "labels"
    assert any("labels only" in w for w in run.warnings)
    assert set(np.unique(run.signals.logit)) <= {-1.0, 1.0}


@pytest.mark.parametrize("classes", [2, 3])
def test_logits_are_those_of_the_true_class(classes):
    data = examples(classes=classes)
    model = LogisticRegression().fit(data.features, data.target)
    signals = signals_of(model, data)
    p = model.predict_proba(data.features)[np.arange(60), data.target]
    assert np.allclose(signals.loss[0], -np.log(p))
    assert np.array_equal(signals.correct[0], model.predict(data.features) == data.target)
    ridge = RidgeClassifier().fit(data.features, data.target)
    right = ridge.predict(data.features) == data.target
    assert np.array_equal(signals_of(ridge, data).correct[0], right)


def test_a_class_the_model_never_saw_has_probability_zero():
    data = examples(classes=3)
    seen = data.target != 1
    model = DecisionTreeClassifier().fit(data.features[seen], data.target[seen])
    signals = signals_of(model, data)
    assert (signals.logit[0][~seen] < -20).all()
    assert not signals.correct[0][~seen].any()
    assert signals.correct[0][seen].all()


class Noisy(ClassifierMixin, BaseEstimator):
    """Answers with noise from its own seed, as a private learner would."""

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.noise_ = np.random.default_rng(self.seed).uniform(0.1, 0.9)
        return self

    def predict_proba(self, x):
        return np.tile([1 - self.noise_, self.noise_], (len(x), 1))


def test_models_do_not_share_a_seed():
    run = train_shadows(examples(), Noisy(), models=8, n_jobs=1)
    assert len(np.unique(run.signals.logit[:, 0])) == 8


# ── Cached fits: a hit only if nothing that matters has changed ───────────────────────────────────


def key(data=None, learner=DecisionTreeClassifier(), seed=0):  # noqa: B008 - it is not fitted
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
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "own_learner.py"
    file.write_text("class Own:\n    def fit(self, x, y):\n        return self\n")
    module = importlib.import_module("own_learner")
    before = key(learner=module.Own())
    assert before == key(learner=module.Own())
    file.write_text("class Own:\n    def fit(self, x, y):\n        return 1\n")
    assert key(learner=module.Own()) != before


def test_a_learner_defined_in_a_session_is_refused(monkeypatch):
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
