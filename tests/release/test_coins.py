"""A learner's own coins: an attacker who knows them gains no more than certified.

Oracle: the statistic flips a known bit of the training set by a coin, so given the coin the release
is N(0, s²) against N(1, s²), and the attacker's gain has a closed form.
"""

import contextlib
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from memberbound.games import SubsetGame
from memberbound.release.half import fitting
from memberbound.release.half.fitting import FreshSubsets, evaluate, fit_groups
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.public_coins import (
    COINS_PUBLIC,
    COINS_SECRET,
    public_coins,
    with_public_coins,
)
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.secret_draw import release_once
from memberbound.release.half.statistics import callable_statistic
from memberbound.release.randomness import InsecureSource
from memberbound.verbs.protect_half import protect_half


def from_numpy():
    return np.random.random() < 0.5  # noqa: NPY002


#: It cannot be seeded from outside; coins of the operating system would escape this test with
#: probability 1/256 (eight equal pairs of tosses).
_OWN = np.random.default_rng(3)


def from_own_generator():
    return _OWN.random() < 0.5


class Flipped:
    """Return whether record 0 is present, or the opposite, by a coin."""

    dimension = 1

    def __init__(self, coin):
        self.coin = coin

    def __call__(self, rows):
        return np.array([float((0 in rows) != self.coin())])


def gain_given_the_coin(scale):
    """Exact gain on record 0 at k = N/2: ½·TV(N(0, s²), N(1, s²))."""
    return norm.cdf(0.5 / scale) - 0.5 if scale > 0 else 0.5


#: N, record: of two records the average one is as exposed as record 0.
GAMES = [(2, "average"), (2, "every"), (40, "every")]


def options(size, **more):
    # Records are many for "every": few pairs suffice at this eta.
    pairs = 400 if size == 2 else 120
    return {"eta": 0.15, "workers": 1, "pairs": pairs, "method": "neighbour"} | more


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("size", "record"), GAMES)
def test_knowing_the_coins_gains_no_more_than_certified(monkeypatch, size, record, shared):
    """Broken twin: without shared coins, an attacker who knows them exceeds the certificate."""
    if not shared:
        monkeypatch.setattr(fitting, "public_coins", nullcontext)
    fresh = FreshSubsets(SubsetGame(size, size // 2, record), 3)
    with public_coins():  # the test itself repeats
        result = calibrate(Flipped(from_numpy), fresh, **options(size))
    gain = gain_given_the_coin(result.details["scale"])
    if shared:
        assert gain <= result.certificate.value <= 0.15
    else:
        assert gain > 1.2 * 0.15
    # Coins that are not shared are detected: the certificate requires that they stay secret.
    assert result.details["own_coins"] != shared
    assert (COINS_PUBLIC if shared else COINS_SECRET) in result.certificate.assumptions


@pytest.mark.parametrize("coin", [from_numpy, from_own_generator])
def test_the_centre_form_covers_known_coins_either_way(coin):
    fresh = FreshSubsets(SubsetGame(40, 20), 3)
    result = calibrate(Flipped(coin), fresh, **options(40, method="moment", pairs=600))
    seeded = coin is from_numpy
    assert (COINS_PUBLIC if seeded else COINS_SECRET) in result.certificate.assumptions
    assert gain_given_the_coin(result.details["scale"]) <= result.certificate.value


def test_the_release_tosses_the_public_coins_too():
    fresh = FreshSubsets(SubsetGame(40, 20), 3)
    statistic = Flipped(from_numpy)
    result = calibrate(statistic, fresh, **options(40))
    with public_coins():
        flipped = from_numpy()
    for seed in range(4):
        drawn = release_once(statistic, result, np.arange(20), InsecureSource(seed)).values
        plain = callable_statistic(np.zeros(40), lambda rows: float(not flipped))
        still = release_once(plain, result, np.arange(20), InsecureSource(seed)).values
        assert drawn == still


def test_the_programs_generators_are_left_as_they_were():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    with public_coins():
        with public_coins():
            inner = random.random(), np.random.random()  # noqa: NPY002
        with public_coins():
            assert (random.random(), np.random.random()) == inner  # noqa: NPY002
    assert random.random() == random.Random(5).random()
    assert np.random.random() == np.random.RandomState(5).random()  # noqa: NPY002


class Together:
    """Draw, wait until another thread has drawn, and draw again."""

    dimension = 2

    def __init__(self, patience=0.2):
        self.drawn = threading.Barrier(2)
        self.patience = patience

    def __call__(self, rows):
        drawn = []
        for _ in range(2):
            with contextlib.suppress(threading.BrokenBarrierError):
                self.drawn.wait(self.patience)
            drawn.append(np.random.random())  # noqa: NPY002
        return np.array(drawn)


@pytest.mark.parametrize("locked", [True, False])
def test_threads_of_a_worker_toss_the_same_coins(monkeypatch, locked):
    """Without the lock (the broken twin) two fits at a time draw from one another's stream."""
    if not locked:
        monkeypatch.setattr(
            "memberbound.release.half.public_coins.ONE_AT_A_TIME", contextlib.nullcontext()
        )
    alone = evaluate(Together(), np.arange(3))[0]
    # Two fits in turn never overlap; two at a time do, on any machine.
    statistic = Together(0.2 if locked else 60)
    with ThreadPoolExecutor(2) as threads:
        result = list(threads.map(lambda _: evaluate(statistic, np.arange(3))[0], range(2)))
    assert all((value == alone).all() for value in result) == locked


def test_torch_is_seeded_even_when_it_comes_with_the_fit(monkeypatch):
    torch = pytest.importorskip("torch")

    class Late:
        dimension = 1

        def __call__(self, rows):
            sys.modules["torch"] = torch
            return torch.rand(1).double().numpy()

    expected, _ = evaluate(Late(), np.arange(3))
    state = torch.manual_seed(99).get_state()
    assert evaluate(Late(), np.arange(3))[0] == expected
    assert (torch.get_rng_state() == state).all()
    monkeypatch.delitem(sys.modules, "torch")
    assert evaluate(Late(), np.arange(3))[0] == expected


class Careless(ClassifierMixin, BaseEstimator):
    """Draws from the global generators and has no random_state."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.weights_ = np.random.normal(size=X.shape[1]) + random.random()  # noqa: NPY002
        return self

    def predict(self, X):
        return self.classes_[(X @ self.weights_ > 0).astype(int)]


X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=60) > 0).astype(int)
NESTED = {
    "pipeline": make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=5)),
    "search": GridSearchCV(
        DecisionTreeClassifier(splitter="random"), {"max_depth": [1, 3]}, cv=KFold(2, shuffle=True)
    ),
    "generator inside": RandomForestClassifier(3, random_state=np.random.RandomState(4)),
    "global generators": Careless(),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("name", list(NESTED))
def test_nested_seeds_and_global_generators_are_shared(name):
    model = HalfPrivate(
        NESTED[name],
        eta=0.3,
        record="average",
        query=X[:2],
        pairs=10,
        insecure_seed=1,
        n_jobs=1,
    ).fit(X, Y)
    assert not model.calibration_.details["own_coins"]
    assert COINS_PUBLIC in model.certificate_.assumptions


class Coins:
    """Carries a generator: a copy of it in another process tosses the same coins again."""

    dimension = 1

    def __init__(self):
        self.coins = np.random.default_rng(0)

    def __call__(self, rows):
        return self.coins.normal(size=1)


def test_coins_are_not_copied_into_worker_processes():
    fits = fit_groups(Coins(), [[np.arange(3)]] * 60, lambda out: out[0], workers=2)
    assert fits.own_coins
    assert len(np.unique(fits.rows)) == 60


def test_every_open_seed_is_closed_and_a_given_one_kept():
    result = with_public_coins(
        make_pipeline(
            StandardScaler(),
            BaggingClassifier(DecisionTreeClassifier(random_state=7), verbose=2),
        )
    ).get_params(deep=True)
    assert result["baggingclassifier__random_state"] == 0
    assert result["baggingclassifier__estimator__random_state"] == 7
    assert result["baggingclassifier__verbose"] == 0


def test_protect_notes_coins_that_cannot_be_seeded():
    table = pd.DataFrame({"x": np.arange(60.0)})
    options = {"eta": 0.3, "record": "average", "pairs": 40, "insecure_seed": 1, "workers": 1}
    result = protect_half(
        table, statistic=lambda rows: rows.mean() + np.random.default_rng().random(), **options
    )
    assert any("cannot be seeded" in note for note in result.warnings)
    quiet = protect_half(table, statistic=lambda rows: rows.mean() + random.random(), **options)
    assert not any("cannot be seeded" in note for note in quiet.warnings)
