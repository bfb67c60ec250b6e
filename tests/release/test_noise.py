"""Noise laws against numerical integration, closed forms and 50-digit arithmetic.

Statistical tests: fixed seeds, false-alarm level 1e-6 each, with a negative control that fails.
"""

import json
import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from memberbound.errors import InputError
from memberbound.release.noise import (
    FINE,
    GaussianNoise,
    NoiseLaw,
    NormExponentialNoise,
    floating_point_slack,
    release,
    snap_to_grid,
)
from memberbound.release.randomness import InsecureSource, SecureSource

ALARM = 1e-6


def laws():
    return [
        GaussianNoise(0.7, 3),
        NormExponentialNoise([0.5, 1.0, 4.0], 0.3),
        NormExponentialNoise([1.0], 2.0),
    ]


def euclidean(d, scale):
    """The law with Euclidean norm."""
    return NormExponentialNoise(np.full(d, d**-0.5), scale)


# ---- total variation ---------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.3, 2.0, 9.0, 60.0])
def test_gaussian_distance_is_exact_and_above(delta):
    mpmath.mp.dps = 40
    law = GaussianNoise(0.7, 2)
    a = np.array([0.6, 0.8]) * delta
    got = float(law.distance(law.length(a)))
    truth = mpmath.erf(mpmath.hypot(mpmath.mpf(a[0]), mpmath.mpf(a[1])) / mpmath.mpf(0.7)
                       / mpmath.sqrt(8))  # fmt: skip
    assert got >= truth
    assert got <= truth * (1 + mpmath.mpf(1e-13))
    assert math.erf(delta / 0.7 / 4) < got or delta > 30  # half the displacement is caught


@pytest.mark.parametrize("d", [1, 2, 3, 10, 1000, 10**6])
def test_euclidean_slope_against_the_density_at_zero(d):
    mpmath.mp.dps = 50
    half = mpmath.mpf(d) / 2
    truth = mpmath.gamma(half) / (2 * mpmath.sqrt(mpmath.pi) * mpmath.gamma(half + 0.5))
    got = euclidean(d, 1.0).slope_upper
    assert truth <= got <= truth * (1 + mpmath.mpf(1e-7))


@pytest.mark.parametrize("d", [2, 5, 40])
def test_euclidean_distance_against_the_marginal(d):
    """Claim 3: TV = P(|X_1| ≤ δ/2), integrated over the radius."""
    law = euclidean(d, 1.0)
    radii = stats.gamma(d).ppf((np.arange(20000) + 0.5) / 20000)
    for delta in (0.2, 1.0, 6.0):
        share = np.minimum(delta / 2 / radii, 1.0) ** 2
        truth = special.betainc(0.5, (d - 1) / 2, share).mean()
        got = float(law.distance(delta))
        assert truth <= got + 1e-6
        if delta == 0.2:
            assert got <= truth * 1.02


def test_distances_do_not_fall_or_bend_up():
    lengths = np.linspace(0, 30, 3001)
    for law in laws():
        values = law.distance(lengths)
        assert values[0] == 0.0
        assert (np.diff(values) >= 0).all()
        assert (np.diff(values, 2) <= 1e-13).all()
        assert values[-1] <= 1.0
        assert law.distance(5e-324) > 0


# ---- draws -------------------------------------------------------------------------------


@pytest.mark.parametrize("law", laws(), ids=lambda law: type(law).__name__)
def test_rms_and_draws(law):
    assert isinstance(law, NoiseLaw)
    assert json.loads(json.dumps(law.describe()))["rms"] == law.rms
    drawn = law.draw(InsecureSource(11), 40_000)
    assert drawn.shape == (40_000, law.dimension)
    assert law.draw(SecureSource(), 2).shape == (2, law.dimension)
    squares = drawn**2
    quantile = stats.norm.isf(ALARM / 2)
    error = quantile * squares.std(axis=0) / math.sqrt(len(drawn))
    assert (np.abs(squares.mean(axis=0) - law.coordinate_rms**2) <= error).all()
    assert law.rms == pytest.approx(np.linalg.norm(law.coordinate_rms))
    # Negative control: a scale 5 % off is seen.
    assert (np.abs(squares.mean(axis=0) - (1.05 * law.coordinate_rms) ** 2) > error).any()


def test_secure_and_insecure_sources():
    for source in (SecureSource(), InsecureSource(1)):
        for draw, law in (
            (source.normal, stats.norm()),
            (source.exponential, stats.expon()),
        ):
            assert stats.kstest(draw(20_000), law.cdf).pvalue > 1e-9
    assert (InsecureSource(4).normal(5) == InsecureSource(4).normal(5)).all()
    assert (SecureSource().normal(5) != SecureSource().normal(5)).any()
    assert SecureSource().secure
    assert not InsecureSource(0).secure
    for seed in (None, -1, 0.5, "x"):
        with pytest.raises(InputError):
            InsecureSource(seed)


class Words(InsecureSource):
    """A source that repeats one chosen word."""

    def __init__(self, word):
        super().__init__(0)
        object.__setattr__(self, "word", word)

    def words(self, count):
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("word", [0, 1, 2, 3, 2**64 - 1, 2**63])
def test_extreme_words_give_finite_draws(word):
    source = Words(word)
    for drawn in (source.normal(2), source.exponential(2)):
        assert np.isfinite(drawn).all()
    assert np.abs(source.normal(1)).max() < 14


def test_functions_keep_the_assumed_accuracy():
    """SAMPLER_ASSUMPTION against 50 digits: 2^-47."""
    mpmath.mp.dps = 50
    rng = np.random.default_rng(8)
    points = np.concatenate([rng.random(25) / 2, 2.0 ** -rng.uniform(1, 128, 25)])

    def relative(got, truth):
        return abs(mpmath.mpf(float(got)) / truth - 1)

    for u in points:
        exact = mpmath.mpf(float(u))
        z = mpmath.mpf(float(-special.ndtri(u / 2)))
        for _ in range(3):  # Newton on ln erfc
            inner = z / mpmath.sqrt(2)
            slope = -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(inner**2)) / mpmath.erfc(inner)
            z -= (mpmath.log(mpmath.erfc(inner)) - mpmath.log(exact)) / slope * mpmath.sqrt(2)
        assert relative(-special.ndtri(u / 2), z) < 2.0**-47
        assert relative(special.erfinv(u), mpmath.erfinv(exact)) < 2.0**-47
        assert relative(np.log(u), mpmath.log(exact)) < 2.0**-47
        assert relative(np.log1p(-u), mpmath.log1p(-exact)) < 2.0**-47


# ---- the grid ----------------------------------------------------------------------------


def test_release_is_on_a_grid_that_the_value_does_not_move():
    for law in laws():
        steps = FINE.steps(law.coordinate_rms)
        assert (np.frexp(steps)[0] == 0.5).all()
        ratio = steps / law.coordinate_rms
        assert ((ratio > 2.0**-7) & (ratio <= 2.0**-6)).all()
        for seed, value in enumerate([0.0, 0.1, -1 / 3, 1e9 + 0.1, 1e-300]):
            out = release(np.full(law.dimension, value), law, InsecureSource(seed))
            assert (out / steps == np.rint(out / steps)).all()
            assert not np.signbit(out[out == 0]).any()


def test_low_order_bits_carry_nothing():
    """Two different secrets reach the same outputs; a plain sum reaches different ones."""
    law = GaussianNoise(1.0, 1)
    noise = law.draw(InsecureSource(2), 20_000)[:, 0]
    step = FINE.steps(law.coordinate_rms)[0]
    first, second = (set(snap_to_grid(np.full(noise.shape, q), noise, step)) for q in (0.0, 0.1))
    near = {x for x in first | second if abs(x) < 1.5}
    assert near <= first
    assert near <= second
    plain_first, plain_second = set(0.0 + noise), set(0.1 + noise)
    assert not plain_first & plain_second


def test_snapping_is_exact_for_large_values():
    """The ideal sum in rationals; a sum of doubles first is caught."""
    from fractions import Fraction

    step, noise = 2.0**-6, 0.4999 * 2.0**-6
    for q in (0.1, 2.0**40 + 1 / 3, -(2.0**44) - 0.7, -1e-300, 2.0**60):
        exact = (Fraction(q) + Fraction(noise)) / Fraction(step)
        nearest = round(exact) * Fraction(step)
        got = float(snap_to_grid(q, noise, step))
        assert got == float(nearest)
        assert not (got == 0 and math.copysign(1, got) < 0)
    q, noise = 2.0**45 + 2.0**-6, 2.0**-7 * (1 - 2.0**-40)  # just below a border
    assert float(snap_to_grid(q, noise, step)) == q
    # Adding the doubles first rounds the sum up onto the border, and the tie goes elsewhere.
    assert np.rint((q + noise) / step) * step != q


def test_crossing_probability_is_below_the_slack():
    """Draws moved by an error e cross a cell boundary no more often than its slack allows."""
    e, count = 1e-4, 200_000
    for law in (GaussianNoise(1.0, 1), NormExponentialNoise([1.0], 1.0)):
        drawn = law.draw(InsecureSource(9), count)[:, 0]
        rms, step = law.coordinate_rms[0], FINE.steps(law.coordinate_rms)[0]
        for offset in (0.0, 0.37 * step):
            moved = drawn + e * (np.abs(drawn) + rms)
            crossed = (np.rint((drawn + offset) / step) != np.rint((moved + offset) / step)).mean()
            margin = 5 * math.sqrt(crossed / count)
            assert crossed - margin <= FINE.slack(1, e)
            assert crossed > 60 * e  # a slack ten times smaller would be caught


def test_slack_sizes():
    assert floating_point_slack(GaussianNoise(0.0, 3)) == 0.0
    assert 600 * 2.0**-46 * 10**6 < floating_point_slack(GaussianNoise(1.0, 10**6)) < 1e-5
    assert floating_point_slack(euclidean(10**6, 1.0)) < 1e-4


@pytest.mark.parametrize("law", [GaussianNoise(0.0, 2), NormExponentialNoise([1.0, 2.0], 0.0)])
def test_no_noise_tells_everything_apart(law):
    assert law.describe()["law"] == "none"
    assert (law.distance(law.length([[0.0, 0.0], [0.0, 1e-300]])) == [0.0, 1.0]).all()
    assert (release([1.5, -0.0], law) == [1.5, 0.0]).all()


def test_bad_input():
    for build in (
        lambda: GaussianNoise(-1.0, 2),
        lambda: GaussianNoise(math.nan, 2),
        lambda: GaussianNoise(1.0, 0),
        lambda: NormExponentialNoise([1.0, 0.0], 1.0),
        lambda: NormExponentialNoise([], 1.0),
        lambda: NormExponentialNoise([math.inf], 1.0),
        lambda: NormExponentialNoise([1.0], -1.0),
        lambda: GaussianNoise(1.0, 2).length([1.0]),
        lambda: GaussianNoise(1.0, 2).length([1.0, math.nan]),
        lambda: GaussianNoise(1.0, 2).distance(-1.0),
        lambda: release([math.inf], GaussianNoise(1.0, 1)),
        lambda: release([1.0, 2.0], GaussianNoise(1.0, 1)),
        lambda: release([1e308], GaussianNoise(1e-10, 1)),
        lambda: release([1.0], GaussianNoise(1e-300, 1)),
        lambda: snap_to_grid(1.0, 0.0, 0.3),
    ):
        with pytest.raises(InputError):
            build()
