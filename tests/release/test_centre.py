"""The centre form: its price, and I24's scale."""

import math
from dataclasses import replace

import numpy as np

from memberbound.games import SubsetGame
from memberbound.release.half import refitting
from memberbound.release.half.fitting import FreshSubsets
from memberbound.release.half.least_noise import certify_scale
from memberbound.release.half.refitting import calibrate
from memberbound.release.noise import NormExponentialNoise, izzo_constant
from oracle.released_statistic import Column

HALVES = FreshSubsets(SubsetGame(60, 30), 1)


class Means:
    """Means of several columns of very different widths."""

    def __init__(self, widths, size=60):
        self.records = np.random.default_rng(5).normal(size=(size, len(widths))) * widths
        self.dimension = len(widths)

    def __call__(self, rows):
        return self.records[rows].mean(axis=0)


def test_sampled_noise_is_close_to_the_price_of_the_spread():
    statistic = Column(np.random.default_rng(0).normal(size=60), np.mean)
    result = calibrate(statistic, HALVES, eta=0.05, method="moment")
    outputs = np.array([statistic(rows)[0] for rows in FreshSubsets(HALVES.game, 99).subsets(4000)])
    spread = np.abs(outputs - np.median(outputs)).mean()
    least = spread / 0.05 / math.sqrt(2 * math.pi)
    # TOLERANCE: 800 certifying subsets cost less than a third.
    assert least * 0.95 < result.noise.scale < least * 1.33
    assert result.record == "every"
    assert result.fits == 1000
    assert result.certificate.theorems == ("X19", "X4")
    halves = replace(HALVES, game=replace(HALVES.game, record="average"))
    average = calibrate(statistic, halves, eta=0.05, method="moment")
    assert average.record == "average"
    assert average.noise == result.noise


def test_izzo_uses_its_own_scale_and_the_certificate_is_the_centre_forms():
    statistic = Means(np.array([1.0, 1e-3, 50.0, 0.0]))
    result = calibrate(statistic, HALVES, eta=0.1, method="izzo")
    assert isinstance(result.noise, NormExponentialNoise)
    assert result.details["scale"] == izzo_constant(0.1)
    sizes = result.noise.coordinate_rms
    assert 300 < sizes[0] / sizes[1] < 3000
    assert 15 < sizes[2] / sizes[0] < 150
    # A constant coordinate gets a small scale.
    assert 0 < sizes[3] < 1e-5 * sizes[2]
    # Nearly all of the certified eta is what 800 draws cannot exclude.
    assert 0.003 < result.certificate.value < 0.02
    ours = calibrate(statistic, HALVES, eta=0.1, method="moment")
    assert result.noise_scale > 100 * ours.noise_scale


def test_izzo_raises_a_scale_that_its_pilot_got_wrong():
    """A statistic that hardly moves on the pilot but moves on the rest: the floor does not pass."""

    class Late:
        dimension = 1
        calls = 0

        def __call__(self, rows):
            Late.calls += 1
            # Sixteen fits look for coins, then 200 are the pilot's.
            size = 1e-9 if Late.calls <= 216 else 1.0
            return np.array([size * rows.mean()])

    result = calibrate(Late(), HALVES, eta=0.1, method="izzo", workers=1)
    assert result.details["scale"] > izzo_constant(0.1)
    assert result.certificate.value <= 0.1
    assert result.noise_scale > 10


def test_the_pilot_is_independent_of_the_certifying_sample(monkeypatch):
    """The pilot's subsets differ from those of the certificate, and do not count for it."""
    counted, spawned = [], []

    def remember(values, **how):
        counted.append(len(values(1.0)))
        return certify_scale(values, **how)

    def note(self, stream):
        spawned.append(stream)
        return original(self, stream)

    original = FreshSubsets.spawn
    monkeypatch.setattr(refitting, "certify_scale", remember)
    monkeypatch.setattr(FreshSubsets, "spawn", note)
    statistic = Column(np.random.default_rng(0).normal(size=60), np.mean)
    calibrate(statistic, HALVES, eta=0.2, method="moment", pairs=400)
    assert counted == [320]
    average = FreshSubsets(SubsetGame(60, 30, "average"), 1)
    calibrate(statistic, average, eta=0.2, method="neighbour", pairs=200, partners=3)
    assert len(spawned) == 6
    assert len(set(spawned[:2])) == 2  # the pilot, the certificate
    pilot, _, certificate, _ = spawned[2:]  # each with noise of its own
    assert pilot != certificate
