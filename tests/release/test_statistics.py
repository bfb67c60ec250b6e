"""Sums are calibrated exactly: against the best attacker, who knows the sums of all subsets."""

import math

import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release.half.secret_draw import release_once, secret_subset
from memberbound.release.half.statistics import callable_statistic, quantiles
from memberbound.release.half.sums import (
    SumStatistic,
    calibrate_sum,
    covariance,
    histogram,
    mean,
    total,
)
from memberbound.release.randomness import InsecureSource
from memberbound.verbs.population import population
from memberbound.verbs.protect_half import protect_half
from oracle.released_statistic import gains, outputs_of

DATA = np.array([0.0, 0.3, 0.5, 1.0, 1.1, 4.0])


def least_noise(vectors, game, eta=0.1):
    return calibrate_sum(SumStatistic(np.asarray(vectors)), game, eta=eta)


def best_gain(record, size, sigma):
    """Gain of the best attacker on the average or the worst record, from below."""
    each = gains(outputs_of(total(DATA), 6, size), 6, size, sigma)
    return each.mean() if record == "average" else each.max()


def naive_bound(values, sigma):
    """X1 for a sum, one pair at a time (k = N/2)."""
    out = []
    for i, v in enumerate(values):
        others = [w for j, w in enumerate(values) if j != i]
        out.append(np.mean([stats.norm.cdf(abs(v - w) / (2 * sigma)) - 0.5 for w in others]))
    return np.array(out)


@pytest.mark.parametrize("size", [3, 2])
@pytest.mark.parametrize("record", ["average", "every"])
@pytest.mark.parametrize("eta", [0.02, 0.1])
def test_the_certificate_covers_the_best_attacker(size, record, eta):
    result = least_noise(DATA, SubsetGame(6, size, record), eta)
    assert best_gain(record, size, result.noise.scale) <= result.certificate.value <= eta
    assert best_gain(record, size, result.noise.scale / 10) > eta  # negative control
    assert result.certificate.confidence == 1.0
    assert result.record == record


@pytest.mark.parametrize("record", ["average", "every"])
def test_the_scale_is_the_least_that_the_profile_certifies(record):
    # As far apart as DATA, but not one number, which has a bound of its own (X9).
    twice = np.column_stack([DATA, DATA]) / math.sqrt(2)
    result = least_noise(twice, SubsetGame(6, 3, record))
    pick = np.mean if record == "average" else np.max
    assert pick(naive_bound(DATA, result.noise.scale)) <= result.certificate.value
    assert pick(naive_bound(DATA, result.noise.scale * 0.999)) > 0.1


def test_constant_vectors_need_no_noise_and_say_so():
    result = least_noise(np.ones((10, 3)), SubsetGame(10, 5))
    assert result.noise.rms == 0.0
    assert result.certificate.value == 0.0
    assert "same on all subsets" in result.details["note"]


def test_one_odd_record_in_a_thousand_needs_noise_for_every_record_only():
    data = np.zeros(1000)
    data[0] = 1.0
    silent = least_noise(data, SubsetGame(1000, 500, "average"), 0.05)
    assert silent.noise.rms == 0.0
    # Without noise the sum reveals record 0 for certain, and little about any other.
    assert 0.5 / 1000 <= silent.certificate.value <= 0.05
    assert least_noise(data, SubsetGame(1000, 500), 0.05).noise.rms > 0
    # One record differs from three: the bare sum names it.
    assert least_noise([0.0, 0.0, 0.0, 1.0], SubsetGame(4, 2), 0.4).noise.rms > 0


def test_the_noise_covers_the_rounding_of_large_offsets():
    # Sums near 1e15 are rounded to eighths: the certificate must count that.
    rough = least_noise(DATA + 1e14, SubsetGame(6, 3, "average"))
    plain = least_noise(DATA, SubsetGame(6, 3, "average"))
    assert rough.noise.scale > plain.noise.scale * 1.02
    assert rough.certificate.value <= 0.1


def test_statistics_equal_numpy():
    awkward = np.array([[1e16], [1.0], [-1e16], [1.0]])
    assert SumStatistic(awkward)(np.arange(4)).tolist() == [2.0]  # sums are exact
    rng = np.random.default_rng(1)
    data, rows = rng.normal(size=(12, 3)), np.arange(1, 12, 2)
    assert total(data)(rows) == pytest.approx(data[rows].sum(axis=0))
    assert mean(data)(rows) == pytest.approx(data[rows].mean(axis=0))
    counts = histogram(data[:, 0], bins=[-1, 0, 1])(rows)
    assert counts.tolist() == np.histogram(data[rows, 0], [-1, 0, 1])[0].tolist()
    upper = np.triu_indices(3)
    moved = data[rows] - data.mean(axis=0)
    assert covariance(data)(rows) == pytest.approx((moved.T @ moved / len(rows))[upper])
    assert quantiles(data, [0.25, 0.5])(rows) == pytest.approx(
        np.quantile(data[rows], [0.25, 0.5], axis=0).ravel()
    )
    assert callable_statistic(data, lambda part: part.max(axis=0))(rows) == pytest.approx(
        data[rows].max(axis=0)
    )


def test_histogram_names_and_edges():
    result = histogram([0.0, 1.0, 2.0, 5.0], bins=[0, 1, 2])
    assert result(np.arange(4)).tolist() == [1.0, 2.0]
    assert result.names == ("[0, 1)", "[1, 2]")
    assert histogram(list("abca"), categories=["a", "z"])(np.arange(4)).tolist() == [2.0, 0.0]


def test_release_is_the_sum_of_the_given_rows_plus_noise_of_the_stated_size():
    data = np.random.default_rng(2).normal(size=(40, 2))
    rows = np.arange(20)
    calibration = calibrate_sum(mean(data), SubsetGame(40, 20), eta=0.1)
    outs = [release_once(mean(data), calibration, rows, InsecureSource(s)) for s in range(20)]
    scale = calibration.noise.scale
    noise = np.array([o.values for o in outs]) - data[rows].mean(axis=0)
    # 40 normal draws: the sum of squares is chi-square; false-alarm rate 1e-6.
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 40)
    assert low <= np.square(noise / scale).sum() <= high
    assert not low <= np.square(noise / (4 * scale)).sum() <= high  # negative control
    assert not outs[0].secure


def test_the_secret_is_a_uniform_half():
    # Each of 8 records is in with probability one half: 600 draws, 8 binomials, alarm 1e-6 each.
    source = InsecureSource(5)
    counts = np.zeros(8)
    for _ in range(600):
        rows = secret_subset(SubsetGame(8, 4), source)
        assert len(set(rows.tolist())) == 4
        counts[rows] += 1
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], 600, 0.5)
    assert ((counts >= low) & (counts <= high)).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: least_noise(DATA, SubsetGame(6, 3), 0.0), "eta"),
        (lambda: least_noise(DATA, SubsetGame(8, 4)), "one row for each"),
        (lambda: least_noise([1.0, 2.0, 3.0], SubsetGame(3, 1)), "4 records"),
        (lambda: mean([1.0, math.nan, 2.0, 3.0]), "finite"),
        (lambda: mean(["a", "b", "c", "d"]), "numbers"),
        (lambda: callable_statistic(DATA, 3), "callable"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(InputError, match=said):
        call()


# ---- one search for the least noise ------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "width", "size", "query"),
    [(12, 1, 4, "mean"), (12, 1, 6, "sum"), (60, 2, 24, "sum"), (100, 2, 50, "mean")],
)
def test_protect_and_population_name_the_same_noise(records, width, size, query):
    """The question is the same, so the noise is; population rounds σ up to six digits."""
    table = np.random.default_rng(records).normal(size=(records, width))
    asked = max(size, records - size) / records + 0.05
    theirs = population(table, query=query, size=size, target_success=asked, clip=100.0)
    ours = protect_half(
        table, statistic=query, size=size, eta=0.05, record="every", insecure_seed=1
    )
    result = ours.calibration
    assert result.noise.scale * (1 - 1e-8) <= theirs.sigma <= result.noise.scale * (1 + 2e-5)
    assert result.certificate.value <= 0.05
    # With many records both use the crowd, and it reduces the noise.
    alone = calibrate_sum(
        {"mean": mean, "sum": total}[query](table),
        SubsetGame(records, size),
        eta=0.05,
    )
    assert ("X21" in result.certificate.theorems) == ("X21" in theirs.theorems)
    assert (result.noise.scale < 0.99 * alone.noise.scale) == (records == 100)
