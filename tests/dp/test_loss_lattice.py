"""Composition on the lattice, against exact convolution.

Masses are doubles, hence dyadic rationals: the T-fold convolution is exact in whole numbers, and
only the factors 1 - e^{-k·step} need 60-digit arithmetic.
"""

import math
from fractions import Fraction
from functools import lru_cache
from random import Random

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from memberbound.dp import loss_lattice as module
from memberbound.dp.loss_lattice import Composition, ForwardProfile, LossLattice
from memberbound.numerics.rounding import UNIT

#: Relative excess over the exact hockey-stick, at half of the lines down to FLOOR.
TIGHT = 1e-9
#: The same at every line of one lattice, and how it grows with the number of releases.
TIGHT_TAIL = 1e-6
TIGHT_PER_RELEASE = 5e-10
FLOOR = mpf("1e-30")


def whole_number_power(values, times):
    """Coefficients of (Σ values_k x^k)^times, by one power of a long whole number (Kronecker)."""
    size = (len(values) - 1) * times + 1
    # Digits wide enough never to carry: a coefficient is at most (Σ values)^times.
    width = (sum(values).bit_length() * times + 8) // 8 + 1
    digits = b"".join(v.to_bytes(width, "little") for v in values)
    number = int.from_bytes(digits, "little") ** times
    digits = number.to_bytes(width * size, "little")
    return [int.from_bytes(digits[width * k : width * (k + 1)], "little") for k in range(size)]


@lru_cache
def composed(masses, times):
    """Exact T-fold convolution: whole numbers, and the denominator they share."""
    shares = [Fraction(m) for m in masses]
    unit = math.lcm(*(s.denominator for s in shares))
    return whole_number_power([int(s * unit) for s in shares], times), unit**times


def exact_sticks(parts, indices):
    """Σ_{j > i} mass_j·(1 - e^{-(j-i)·step}) at each i, from the top down, and the mass at +∞.

    ``parts`` are lattices of one step, each with its number of releases.
    """
    with mp.workdps(80):
        total, unit, first, kept = [1], 1, 0, mpf(1)
        for lattice, times in parts:
            masses, denominator = composed(tuple(lattice.mass.tolist()), times)
            longer = [0] * (len(total) + len(masses) - 1)
            for i, a in enumerate(total):
                for j, b in enumerate(masses):
                    longer[i + j] += a * b
            total, unit = longer, unit * denominator
            first += times * lattice.start
            kept *= (1 - mpf(lattice.infinite)) ** times
        fall = mp.exp(-mpf(parts[0][0].step))
        sticks, above, stick = {}, mpf(0), mpf(0)
        for j in range(first + len(total) - 1, -1, -1):
            sticks[j] = stick = fall * stick + (1 - fall) * above
            if j >= first:
                above += mpf(total[j - first]) / unit
        return [min(mpf(1), sticks.get(int(i), mpf(0)) + (1 - kept)) for i in indices]


def shortfalls(lattice, times, indices=None):
    """Lines below the truth, with no tolerance; and the excesses of the rest."""
    if indices is None:
        top = max(1, times * (lattice.start + lattice.mass.size - 1))
        indices = np.unique(np.linspace(0, top, 60).astype(int))
    profile = lattice.composed_profile(times, np.asarray(indices, dtype=np.float64))
    bad, excess = [], []
    for eps, delta, truth in zip(
        profile.epsilon, profile.delta, exact_sticks([(lattice, times)], indices), strict=True
    ):
        if mpf(float(delta)) < truth:
            bad.append((times, float(eps), float(delta), mp.nstr(truth, 17)))
        elif truth > FLOOR:
            excess.append(float(mpf(float(delta)) / truth - 1))
    return bad, excess


def lattices():
    rng = Random(68)
    for atoms in (2, 3, 5, 12):
        for times in (1, 2, 3, 8, 25):
            mass = np.array([rng.random() ** rng.choice([1, 4, 12]) for _ in range(atoms)])
            infinite = rng.choice([0.0, 1e-30, 0.01, 0.7])
            mass *= (1 - infinite) / mass.sum()
            step = rng.choice([1e-4, 0.01, 0.3, 2.0, 30.0])
            yield LossLattice(rng.randint(-atoms, 0), step, mass, infinite, 0.0), times


def test_no_line_is_below_the_exact_convolution_and_all_are_close():
    excess = []
    for lattice, times in lattices():
        bad, more = shortfalls(lattice, times)
        assert bad == []
        excess += more
    assert np.median(excess) < TIGHT


#: A privacy loss like that of one DP-SGD step: mostly about nothing, sometimes much.
RARE = LossLattice(-2, 0.05, np.array([0.05, 0.4, 0.3, 0.15, 0.07, 0.02, 0.008, 0.002]), 0.0, 0.0)


@pytest.mark.parametrize("times", [40, 120])
def test_tails_of_1e_12_and_1e_25_are_sharp(times):
    """Without a tilt the Fourier error would be as large as these tails."""
    top = times * 5
    indices = np.unique(np.linspace(0, top, 40).astype(int))
    truths = exact_sticks([(RARE, times)], indices)
    profile = RARE.composed_profile(times, indices.astype(np.float64))
    reached = []
    for delta, truth in zip(profile.delta, truths, strict=True):
        assert mpf(float(delta)) >= truth
        if truth > mpf("1e-28"):
            reached.append(truth)
            assert delta <= float(truth) * (1 + TIGHT_TAIL)
    assert min(reached) < mpf("1e-25")
    assert any(mpf("1e-14") < t < mpf("1e-10") for t in reached)


def different_kinds():
    rng = Random(15)
    for kinds in ((1, 1), (3, 1), (7, 20), (1, 5, 9)):
        step = rng.choice([1e-3, 0.05, 0.7])
        parts = []
        for times in kinds:
            mass = np.array([rng.random() ** rng.choice([1, 4, 12]) for _ in range(6)])
            infinite = rng.choice([0.0, 1e-20, 0.02])
            mass *= (1 - infinite) / mass.sum()
            parts.append((LossLattice(rng.randint(-4, 0), step, mass, infinite, 0.0), times))
        yield tuple(parts)


def lines_below(parts, profile, indices):
    truths = exact_sticks(parts, indices)
    pairs = list(zip(profile.delta.tolist(), truths, strict=True))
    return sum(mpf(d) < t for d, t in pairs), [float(mpf(d) / t) for d, t in pairs if t > FLOOR]


def test_no_line_of_different_releases_is_below_their_exact_convolution():
    for parts in different_kinds():
        top = sum(times * (each.start + 5) for each, times in parts)
        indices = np.unique(np.linspace(0, max(top, 1), 30).astype(int))
        result = Composition(parts).profile(indices.astype(float))
        below, ratios = lines_below(parts, result, indices)
        assert below == 0
        assert max(ratios) <= 1 + TIGHT_TAIL


def test_the_check_of_different_releases_sees_a_forgotten_one():
    parts = ((RARE, 7), (RARE, 20), (LossLattice(-1, 0.05, np.array([0.5, 0.2, 0.3]), 0.0, 0.0), 1))
    indices = np.arange(0, 60, 4)
    fewer = Composition(parts[:2]).profile(indices.astype(float))
    assert lines_below(parts, fewer, indices)[0]


def without_tilts(monkeypatch):
    monkeypatch.setattr(Composition, "_tilts", lambda self: [])


def test_the_check_sees_a_dropped_fourier_error(monkeypatch):
    convolved = module._convolved
    monkeypatch.setattr(module, "_convolved", lambda *a: (convolved(*a)[0], 0.0, 0.0))
    without_tilts(monkeypatch)
    bad, _ = shortfalls(RARE, 120, np.arange(0, 600))
    assert bad


def test_the_check_sees_a_dropped_tail(monkeypatch):
    """A window that is too short, with nothing added for the losses above it."""
    window = Composition._window

    def short(self, tilt):
        low, high = window(self, tilt)
        return low, (2 * low + high) // 3

    monkeypatch.setattr(Composition, "_window", short)
    without_tilts(monkeypatch)
    bad, _ = shortfalls(RARE, 120)
    assert bad


def test_infinite_mass_is_never_understated():
    for infinite in (1e-40, 1e-12, 0.3, 0.7, 0.999, 1.0):
        lattice = LossLattice(0, 1.0, np.array([1 - infinite, 0.0]), infinite, 0.0)
        for times in (1, 2, 1000):
            truth = 1 - (1 - mpf(infinite)) ** times
            assert lattice.composed_profile(times).delta.min() >= truth


@pytest.mark.parametrize(("times", "probability"), [(10**4, 0.01), (10**6, 1e-4), (10**6, 0.3)])
def test_many_releases_against_the_binomial_law(times, probability):
    """Two atoms: the composed loss is binomial, with known tails for any T."""
    step = 0.3 / math.sqrt(times * probability)
    lattice = LossLattice(0, step, np.array([1 - probability, probability]), 0.0, 0.0)
    mean, spread = times * probability, math.sqrt(times * probability * (1 - probability))
    indices = np.array([round(mean + z * spread) for z in (-1, 0, 1, 3, 6, 9)])
    profile = lattice.composed_profile(times, indices.astype(np.float64))
    with mp.workdps(40):
        law = [mpf(float(m)) for m in lattice.mass]
        for index, delta in zip(indices, profile.delta, strict=True):
            truth = binomial_stick(times, law, int(index), mpf(step), 16 * spread + 40)
            assert mpf(float(delta)) >= truth
            assert delta <= float(truth) * (1 + TIGHT_TAIL + TIGHT_PER_RELEASE * times)


def binomial_stick(times, law, index, step, reach):
    """Σ_{j > i} C(T, j) p^j rest^{T-j} (1 - e^{-(j-i)·step}), term by term."""
    rest, p = law
    j = index + 1
    log_term = (
        mp.loggamma(times + 1)
        - mp.loggamma(j + 1)
        - mp.loggamma(times - j + 1)
        + j * mp.log(p)
        + (times - j) * mp.log(rest)
    )
    term, fall, shrink = mp.exp(log_term), mpf(1), mp.exp(-step)
    stick = mpf(0)
    while j <= min(times, index + reach):
        fall *= shrink
        stick += term * (1 - fall)
        term *= p / rest * (times - j) / (j + 1)
        j += 1
    return stick


@pytest.mark.parametrize("times", [2, 7, 99, 101, 12345, 10**6, 10**7])
def test_powers_stay_within_their_bound(times):
    rng = np.random.default_rng(5)
    base = np.exp(2j * np.pi * rng.random(50) - rng.random(50) * 3 / times)
    with mp.workdps(50):
        for value, result in zip(base, module._power(base, times), strict=True):
            truth = mp.mpc(value.real.item(), value.imag.item()) ** times
            error = abs(mp.mpc(result.real.item(), result.imag.item()) - truth) / abs(truth)
            assert float(error) <= (times - 1) * 3 * UNIT


@pytest.mark.parametrize("size", [64, 90, 150, 1000])
def test_convolution_error_stays_within_its_bounds(size):
    """Circular convolution in whole numbers; both norms of the error are far below the bound."""
    rng = np.random.default_rng(size)
    length = module._smooth_length(size)
    mass = rng.random(size) ** 6
    mass /= mass.sum()
    for times in (2, 3, 5):
        result, sup_error, norm_error = module._convolved([mass], [times], length)
        exact = circular_power(mass, times, length)
        error = np.abs(result - exact)
        assert error.max() <= sup_error
        assert math.sqrt(float(np.square(error).sum())) <= norm_error


def test_convolution_error_covers_what_folding_loses():
    """Many rows, each of half a unit in the last place: all but one are lost."""
    length, rows = 64, 4096
    mass = np.zeros(rows * length)
    mass[::length] = UNIT
    mass[0] = 1.0
    result, sup_error, norm_error = module._convolved([mass], [2], length)
    truth = float((1 + (rows - 1) * Fraction(UNIT)) ** 2 - Fraction(float(result[0])))
    assert 4000 * UNIT < truth <= min(sup_error, norm_error)


def test_convolution_error_has_no_gap_where_a_coefficient_vanishes():
    """Of two equal masses every second coefficient may be 0, and its error is not."""
    for times in (2, 3, 9):
        result, sup_error, norm_error = module._convolved([np.array([0.5, 0.5])], [times], 64)
        exact = np.array([math.comb(times, k) / 2**times for k in range(64)])
        error = np.abs(result - exact)
        assert error.max() <= sup_error < 1e-13
        assert math.sqrt(float(np.square(error).sum())) <= norm_error < 1e-13


@pytest.mark.parametrize("times", [2, 10**6, 10**13, 3 * 10**13])
def test_convolution_error_covers_the_largest_error_of_every_coefficient(times):
    """Coefficients of 1 that all are 1 + e: the powers differ by (1 + e)^T - 1, in phase."""
    _, sup_error, norm_error = module._convolved([np.array([1.0])], [times], 64)
    with mp.workdps(40):
        off = mpf(module._STAGE) * 6 * mpf(UNIT)  # log₂ 64 stages
        largest = mp.expm1(times * mp.log1p(off))
        assert largest <= mpf(sup_error)
        assert largest <= mpf(norm_error)


def test_masses_that_fall_short_are_made_up_for():
    """If a lattice is below its law by its relative error, each of its lines is above the law's."""
    for times in (1, 2, 9):
        for error in (1e-9, 1e-3, 0.49 / times):
            short = LossLattice(RARE.start, RARE.step, RARE.mass * (1 - error), 0.0, error)
            indices = np.arange(0.0, 4.0 * times, times)
            truths = exact_sticks([(RARE, times)], indices)
            for delta, truth in zip(
                short.composed_profile(times, indices).delta, truths, strict=True
            ):
                assert mpf(float(delta)) >= truth


@pytest.mark.parametrize("times", [1, 2, 5])
def test_masses_that_underflow_still_count(times):
    for mass in (5e-324, 3e-320, 1e-200):
        lattice = LossLattice(0, 0.01, np.array([1.0, mass]), 0.0, 0.0)
        indices = np.arange(times)
        profile = lattice.composed_profile(times, indices.astype(float))
        truths = exact_sticks([(lattice, times)], indices)
        assert all(0 < t <= mpf(float(d)) for d, t in zip(profile.delta, truths, strict=True))


def test_the_tail_beyond_a_window_grows_by_the_error_of_its_tilt():
    """At most e^-46 of the tilted mass is there, and e^{scale - θℓ + error} times that mass."""
    composition = Composition(((RARE, 50),))
    for theta, scale, error in ((0.0, 0.0, 0.25), (3.0, 2.0, 0.2), (3.0, 2.0, 1e-9)):
        tilt = module._Tilted(theta, (RARE.mass,), scale, error)
        (found,) = composition._sticks(tilt, (-100, 20), np.array([200.0]))
        end = -100 + module._smooth_length(121)
        with mp.workdps(40):
            exact = mp.exp(mpf(scale) - mpf(theta) * end * mpf(RARE.step) - 46 + mpf(error))
            growth = mp.exp(mpf(error) / 50 + 2 * mpf(error) ** 2 + mpf("1e-9"))
            assert exact <= mpf(float(found)) <= exact * growth


def circular_power(mass, times, length):
    """Exact for these masses (multiples of 2^-70, or nearly), up to one rounding to double."""
    wrapped = [0] * length
    for k, value in enumerate(whole_number_power([int(m * 2.0**70) for m in mass], times)):
        wrapped[k % length] += value
    return np.array([w / 2 ** (70 * times) for w in wrapped])


def test_profile_reads_lines_from_the_left_and_chords():
    one = ForwardProfile(np.array([0.0, 1.0]), np.array([0.5, 0.2]))
    both = one.meet(ForwardProfile(np.array([0.5]), np.array([0.1])))
    assert both.epsilon.tolist() == [0.0, 0.5, 1.0]
    assert [both.stick(e) for e in (0.0, 0.5, 1.0, 9.0)] == [0.5, 0.1, 0.1, 0.1]
    # Between two lines the chord in e^ε: 0.5 and 0.1 mixed by the share of e^0.4 - 1 in e^0.5 - 1.
    with mpmath.workdps(40):
        share = mpmath.expm1(mpmath.mpf(0.4)) / mpmath.expm1(mpmath.mpf(0.5))
        chord = (1 - share) * mpmath.mpf(0.5) + share * mpmath.mpf(0.1)
    assert chord <= both.stick(0.4) <= chord * (1 + mpmath.mpf(10) ** -13)
    assert both.advantage == 0.5
    assert ForwardProfile(np.array([1.0]), np.array([0.2])).stick(0.5) == 1.0
