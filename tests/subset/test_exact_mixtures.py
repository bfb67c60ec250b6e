"""Every step of the exact mixtures, at given doubles: never below the step's exact value."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from memberbound.games import SubsetGame
from memberbound.subset import densities, fourier, mixtures
from memberbound.subset.densities import DensityPair
from memberbound.subset.fourier import FourierSums, fourier_sums

F = Fraction
UNIT = 2.0**-53


# ---- cubics on cells -----------------------------------------------------------------------------


def mean_of_positive_part(coefficients):
    """∫₀¹(cubic)₊ for Bernstein coefficients, between its roots."""
    a, b, c, d = map(mp.mpf, coefficients)
    powers = [d - 3 * c + 3 * b - a, 3 * (c - 2 * b + a), 3 * (b - a), a]
    leading = next((k for k, p in enumerate(powers) if p), 3)
    roots = mp.polyroots(powers[leading:], maxsteps=200, extraprec=200) if leading < 3 else []
    inside = sorted(r.real for r in map(mp.mpc, roots) if abs(r.imag) < 1e-20 and 0 < r.real < 1)
    whole = [p / (4 - k) for k, p in enumerate(powers)]
    total = mp.mpf(0)
    for low, high in zip([mp.mpf(0), *inside], [*inside, mp.mpf(1)], strict=True):
        if mp.polyval(powers, (low + high) / 2) > 0:
            total += mp.polyval([*whole, 0], high) - mp.polyval([*whole, 0], low)
    return total


def test_positive_parts_of_cubics_are_never_below_the_integral():
    """Curved at one end alone, and of changing sign; to the rounding of values that is stated."""
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(4, 60))
    columns[:, :20] += rng.normal(size=20)
    columns[:, 20] = [1.0, 1.0, 1.0, -5.0]
    columns[:, 21] = [-5.0, 1.0, 1.0, 1.0]
    columns[:, 22] = [-1e-9, 1.0, 2.0, 3.0]
    found = densities._positive_parts(columns)
    with mp.workdps(30):
        for value, column in zip(found.tolist(), columns.T.tolist(), strict=True):
            truth = mean_of_positive_part(column)
            largest = max(map(abs, column))
            assert truth - 80 * UNIT * largest <= value <= truth + mp.mpf(0.15) * largest
    flat = densities._positive_parts(np.array([[1.0], [1.0], [1.0], [-5.0]]))[0]
    assert flat > float(mean_of_positive_part([1, 1, 1, -5]))


def plain_pair(rng, records, cells, *, beyond=(0.0, 0.0)):
    """Positive densities "in", none "out", and no errors: nothing is lost but by adding up."""
    inside = rng.uniform(0.1, 1, (4, records, cells))
    none = np.zeros((records, 1))
    return DensityPair(1 / 3, inside, 0 * inside, none, none, beyond)


@pytest.mark.parametrize("cells", [1, 7, 200])
@pytest.mark.parametrize("beyond", [(0.0, 0.0), (3.7, 0.3)])
def test_sticks_are_never_below_the_sum_over_cells(cells, beyond):
    rng = np.random.default_rng(cells)
    pair = plain_pair(rng, 40, cells, beyond=beyond)
    found, _ = pair.hockey_sticks(np.full(40, 0.7))
    for record, value in enumerate(found.tolist()):
        exact = sum(map(F, pair.inside[:, record].ravel().tolist())) / 4 * F(pair.width)
        exact += F(beyond[0]) + F(0.7) * F(beyond[1])
        assert exact <= F(value) <= exact * (1 + F(1, 10**12))


@pytest.mark.parametrize(("records", "size"), [(10, 3), (7, 3), (9, 8), (8, 4)])
def test_success_is_never_below_what_sticks_prove(records, size):
    pair = plain_pair(np.random.default_rng(size), 60, 1)
    pair = DensityPair(0.01, pair.inside, pair.inside[:, ::-1], pair.error_in, pair.error_out)
    rest = records - size
    found = mixtures._success(pair, SubsetGame(records, size))
    forth = pair.hockey_sticks(np.full(60, rest / size))[0].tolist()
    back = pair.swapped().hockey_sticks(1 / np.full(60, rest / size))[0].tolist()
    for value, one, two in zip(found.tolist(), forth, back, strict=True):
        truth = min(rest + size * F(one), size + rest * F(two)) / records
        assert truth <= F(value) <= truth * (1 + F(1, 10**14))


# ---- the inversion -------------------------------------------------------------------------------


def test_errors_hold_the_roundings_that_sticks_rely_on(monkeypatch):
    """On many more cells than needed, where next to nothing is lost between the nodes."""
    whole = FourierSums._densities
    monkeypatch.setattr(FourierSums, "_densities", lambda self, i, o, _: whole(self, i, o, 1 << 16))
    plan = fourier_sums(np.random.default_rng(2).normal(size=12) / 0.5, 6)
    plan = replace(plan, error=(0.0, 0.0))  # none of it is for coefficients that were left out
    for _, pair in plan.pairs(np.arange(12)):
        for error, cubics in ((pair.error_in, pair.inside), (pair.error_out, pair.outside)):
            largest = np.abs(cubics).max(axis=(0, 2))
            assert (error[:, 0] >= 32 * UNIT * largest).all()
            assert (error[:, 0] <= 1e-11).all()


def test_a_product_of_factors_without_two_is_at_most_its_bound():
    rng = np.random.default_rng(3)
    for p in (0.5, 0.2, 0.01):
        for spread in (0.0, 1e-3, 0.3, 2.0):
            phases = rng.uniform(-spread, spread, 40)
            sizes = np.sort(np.abs(1 - p + p * np.exp(1j * phases)))
            bound = fourier._product_bound(p * (1 - p), 40, np.cos(phases).sum())
            assert sizes[2:].prod() <= bound  # the two smallest factors are left out
            assert bound <= 1.0011 * math.exp(p * (1 - p) * min(0, 4 + np.cos(phases).sum() - 40))


# ---- values that are bounded through a neighbour -------------------------------------------------


@pytest.mark.parametrize("sigma", [1e-6, 2e3])
def test_neighbours_are_never_below_what_the_way_costs(sigma, monkeypatch):
    """success + |w - w'|/√(2π) for the roundings w of values in units of σ, and ε + 2a."""
    rng, toll = np.random.default_rng(4), 0.1234567
    monkeypatch.setattr(mixtures, "MOST_EXACT", 12)
    monkeypatch.setattr(mixtures, "_cost_of_moving", lambda way, *_: np.full_like(way, toll))
    # Close to one another far from 0, and a single value at 0.
    values = np.append(0.0, np.sort(1 + rng.uniform(0, 1e-8, 200)))
    known = rng.uniform(0.5, 0.9, 201), rng.uniform(0, 3, 201)
    seen = []

    def pairs(records):
        seen.extend(records.tolist())
        chosen = SimpleNamespace(records=records, epsilon=lambda *_: known[1][records])
        chosen.swapped = lambda: chosen
        yield records, chosen

    monkeypatch.setattr(mixtures, "_success", lambda pair, _: known[0][pair.records])
    epsilon, success = mixtures._along_the_line(
        SimpleNamespace(pairs=pairs), values, np.arange(201), game=SubsetGame(201, 100),
        sigma=sigma, delta=0.1, progress=None,
    )  # fmt: skip
    done, w = sorted(seen), (values / sigma).tolist()
    assert len(done) <= 12
    with mp.workdps(40):
        for x in sorted({*range(201)} - {*done}):
            near = max(d for d in done if d < x), min(d for d in done if d > x)
            ways = [
                known[0][d] + abs(mp.mpf(w[d]) - mp.mpf(w[x])) / mp.sqrt(2 * mp.pi) for d in near
            ]
            assert min([1.0, *ways]) <= success[x] <= min([1.0, *ways]) + mp.mpf(1e-7)
            assert F(epsilon[x]) >= min(F(known[1][d]) for d in near) + 2 * F(toll)
            assert epsilon[x] <= min(known[1][d] for d in near) + 2 * toll + 1e-12


def test_values_worked_out_are_not_moved(monkeypatch):
    monkeypatch.setattr(mixtures, "MOST_EXACT", 12)
    values = np.random.default_rng(5).normal(size=60)
    bounds = mixtures.mixture_bounds(values, SubsetGame(60, 30), sigma=3.0, delta=0.0)
    assert np.isinf(bounds.pmp_epsilon).all()
    assert (bounds.success < 1).all()
