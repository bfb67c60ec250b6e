"""A calibration that is stopped goes on where it stopped, with the same numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from memberbound.games import SubsetGame
from memberbound.release.half import refitting
from memberbound.release.half.fitting import fitted, kept_fits
from memberbound.release.half.least_noise import FreshSubsets
from memberbound.release.half.refitting import calibrate_neighbour
from memberbound.release.noise import GaussianNoise

GAME = SubsetGame(30, 15)


class Mean:
    """The mean of some rows; how often it was fitted, and when somebody pulls the plug."""

    count = 0
    stop: int | None = None
    dimension = 2

    def __init__(self, table):
        self.table = table

    def __call__(self, rows):
        Mean.count += 1
        if Mean.stop is not None and Mean.count > Mean.stop:
            raise KeyboardInterrupt
        return self.table[rows].mean(axis=0)


class Coins(Mean):
    """Nothing that can be seeded from outside."""

    drawn = np.random.default_rng(3)

    def __call__(self, rows):
        return super().__call__(rows) + Coins.drawn.normal(size=2)


@pytest.fixture(autouse=True)
def fresh():
    Mean.count, Mean.stop = 0, None


def table(seed=0):
    return np.random.default_rng(seed).normal(size=(GAME.population, 2))


def groups(count=40):
    draws = np.random.default_rng(1)
    return [[np.sort(draws.permutation(30)[:15]) for _ in range(2)] for _ in range(count)]


def lengths(statistic, seed=7):
    reduce = partial(refitting._moved, GaussianNoise(1.0, 2))
    return fitted(statistic, groups(), reduce, seed=seed, workers=1)


def fits(call):
    before = Mean.count
    result = call()
    return result, Mean.count - before


def test_stopped_in_the_middle(tmp_path):
    whole, all_of_them = fits(lambda: lengths(Mean(table())))
    probes = all_of_them - whole.count
    Mean.count, Mean.stop = 0, probes + 50
    with pytest.raises(KeyboardInterrupt), kept_fits(tmp_path):
        lengths(Mean(table()))
    Mean.stop = None
    with kept_fits(tmp_path):
        again, redone = fits(lambda: lengths(Mean(table())))
        third, nothing = fits(lambda: lengths(Mean(table())))
    for result in (again, third):
        np.testing.assert_array_equal(result.rows, whole.rows)
        assert (result.count, result.unconverged) == (whole.count, whole.unconverged)
    # None of the 50 fits that were finished is lost.
    assert redone == probes + 30
    assert nothing == probes
    # Negative controls: another table, another stream, another reduction, no folder.
    with kept_fits(tmp_path):
        assert fits(lambda: lengths(Mean(table(1))))[1] == all_of_them
        assert fits(lambda: lengths(Mean(table()), seed=8))[1] == all_of_them
        other = fits(lambda: fitted(Mean(table()), groups(), np.ravel, seed=7, workers=1))
        assert other[1] == all_of_them
    assert fits(lambda: lengths(Mean(table())))[1] == all_of_them


def test_damaged_missing_and_repeated_batches_are_fitted_again(tmp_path):
    with kept_fits(tmp_path):
        whole, all_of_them = fits(lambda: lengths(Mean(table())))
        probes = all_of_them - whole.count
        files = sorted(tmp_path.rglob("*.npz"))
        sizes = [len(np.load(file).files) // 2 for file in files]
        assert sum(sizes) == len(whole.rows)
        files[1].write_bytes(files[1].read_bytes()[:60])
        files[4].unlink()
        files[6].write_bytes(files[5].read_bytes())  # another batch under this name
        again, redone = fits(lambda: lengths(Mean(table())))
    np.testing.assert_array_equal(again.rows, whole.rows)
    assert (again.count, again.unconverged) == (whole.count, whole.unconverged)
    assert redone == probes + 2 * (sizes[1] + sizes[4] + sizes[6])


def test_coins_of_its_own_are_never_taken_from_a_folder(tmp_path):
    with kept_fits(tmp_path):
        first = lengths(Coins(table()))
        second = lengths(Coins(table()))
    assert first.own_coins
    assert second.own_coins
    assert not list(tmp_path.rglob("*.npz"))
    assert (first.rows != second.rows).any()


def test_a_certificate_is_the_same(tmp_path):
    def asked():
        stream = FreshSubsets(GAME, seed=5)
        return calibrate_neighbour(Mean(table()), stream, eta=0.2, confidence=0.9, workers=1)

    plain, all_of_them = fits(asked)
    with kept_fits(tmp_path):
        fits(asked)
        again, redone = fits(asked)
    assert again.certificate == plain.certificate
    assert again.noise_scale == plain.noise_scale
    assert redone < all_of_them / 4
