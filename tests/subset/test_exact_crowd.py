"""The crowd's numbers against rationals and 40 digits: which are raised, and by how much."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from memberbound.games import SubsetGame
from memberbound.subset import crowd as crowd_module
from memberbound.subset.crowd import Crowd, NormalError, _cumulated, _epsilon_of_events, _expansion

F = Fraction
#: The factors that raise leverages and moments, and slightly smaller ones.
RAISED = F(9, 10**10)


def crowd_of(values, sigma, size=None):
    rows = np.asarray(values, dtype=float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    return Crowd.of(rows, SubsetGame(len(rows), size or len(rows) // 2), sigma)


def exact_halves(values):
    exact = [F(v) for v in np.asarray(values, dtype=float).tolist()]
    middle = sum(exact) / len(exact)
    return [(v - middle) / 2 for v in exact]


# ---- squares in the metric of the crowd ----------------------------------------------------------


@pytest.mark.parametrize("count", [40, 41])
@pytest.mark.parametrize("sigma", [0.5, 30.0, 1e6])
def test_leverages_are_raised_by_more_than_rounding(count, sigma):
    values = np.random.default_rng(count).normal(size=count)
    crowd, halves = crowd_of(values, sigma), exact_halves(values)
    scatter = sum(h * h for h in halves)
    whole = F(sigma) ** 2 + F(crowd.crowd + 1, crowd.crowd) * scatter
    for found, half in zip(crowd.leverage.tolist(), halves, strict=True):
        assert F(found) >= half**2 / whole * (1 + RAISED)
        assert F(found) <= half**2 / whole * (1 + F(1, 10**6)) + F(1, 10**9)
    # The others' share of the variance is what the noise leaves.
    others = crowd.frequencies.others[0]
    assert 1 - F(sigma) ** 2 / whole <= F(others) <= (1 - F(sigma) ** 2 / whole) + F(1, 10**6)


def test_the_centre_moves_by_no_more_than_two_records_together():
    """Of an odd number another one is set aside, which may be the farthest."""
    values = np.append(np.random.default_rng(1).normal(size=40), 9.0)
    crowd, halves = crowd_of(values, 3.0), exact_halves(values)
    whole = 9 + F(crowd.crowd + 1, crowd.crowd) * sum(h * h for h in halves)
    bound = crowd._centre_shift(crowd.leverage)
    for x, half in enumerate(halves):
        for other in halves[:x] + halves[x + 1 :]:
            assert (half + other) ** 2 / F(crowd.crowd) ** 2 <= F(bound[x]) ** 2 * whole


@pytest.mark.parametrize("count", [60, 61])
def test_what_part_of_the_records_keeps_is_lowered_by_more_than_rounding(count):
    """One column: without the farthest record a scatter loses its square times n/(n - 1)."""
    values = np.random.default_rng(2).normal(size=count)
    crowd, halves = crowd_of(values, 2.0), exact_halves(values)
    whole = 4 + F(crowd.crowd + 1, crowd.crowd) * sum(h * h for h in halves)
    nearest = sorted(halves, key=abs)
    for part in crowd.frequencies.parts:
        size = part.size + crowd.table.removed
        rows = nearest[:size]
        mean = sum(rows) / size
        scatter = sum((h - mean) ** 2 for h in rows)
        left = sorted(rows, key=lambda h: abs(h - mean))[: part.size]
        middle = sum(left) / part.size
        kept = sum((h - middle) ** 2 for h in left)
        lowered = F(float(part.scatter[0, 0])) * whole
        assert lowered <= kept - F(19, 10**10) * scatter
        assert part.fourth >= sum((h - middle) ** 4 for h in left) / whole**2 * (1 + RAISED)
        assert part.widest >= scatter / whole * (1 + RAISED)
    frequencies = crowd.frequencies
    fourth = sum(h**4 for h in halves) / whole**2
    assert F(frequencies.fourth) >= fourth * (1 + RAISED)
    assert F(frequencies.quartic) >= fourth * (1 + RAISED)


def test_rows_may_be_anywhere_within_their_offset():
    """In two columns, moved along the one in which the crowd hides least."""
    rows = np.random.default_rng(13).normal(size=(60, 2)) * [20.0, 0.1]
    crowd = Crowd.of(rows, SubsetGame(60, 30), 1.0)
    table = replace(crowd.table, offset=1e-3)
    least = int(np.argmin(crowd._covariance))
    moved = table.halves.copy()
    moved[:, least] += np.copysign(1e-3, moved[:, least])
    moved /= np.sqrt(crowd._covariance)
    truth = math.sqrt(((moved @ moved.T) ** 4).sum())
    allowed = crowd_module._Frequencies.of(replace(crowd, table=table)).fourth
    assert crowd.frequencies.fourth < truth <= allowed


def test_offsets_count_in_a_metric_that_is_off_itself(monkeypatch):
    """Rows of 0: only the offset is left, where the crowd hides less by the relative error."""
    crowd = crowd_of(np.random.default_rng(14).normal(size=60), 2.0)
    least, table = float(crowd._covariance.min()), crowd.table
    monkeypatch.setattr(Crowd, "_relative_error", 0.5)
    none = replace(table, halves=np.zeros_like(table.halves), offset=1e-3)
    found = crowd_module._Frequencies.of(replace(crowd, table=none)).fourth
    assert found >= len(table.halves) * (1e-3**2 * 1.5 / least) ** 2


def test_a_part_with_larger_fourth_moments_decays_less():
    frequencies = crowd_of(np.random.default_rng(15).normal(size=400), 2.0).frequencies
    parts = [replace(part, fourth=1.5 * part.fourth) for part in frequencies.parts]
    radii = np.geomspace(1.0, 40.0, 30)
    usual, less = (
        made._far(radii[:-1], radii[1:], 1.05)
        for made in (frequencies, replace(frequencies, parts=parts))
    )
    decaying = np.isfinite(usual)
    assert decaying.sum() > 5
    assert (less[decaying] > usual[decaying]).all()


def test_fourth_moments_are_never_below_the_exact_ones():
    rng = np.random.default_rng(3)
    for columns in (1, 2):
        for _ in range(30):
            rows = rng.normal(size=(9, columns))
            ((_, _, _, fourth, largest),) = _cumulated(rows, [9])
            exact = [[F(v) for v in row] for row in rows.tolist()]
            dots = [sum(a * b for a, b in zip(x, y, strict=True)) for x in exact for y in exact]
            assert F(fourth) ** 2 >= sum(d**4 for d in dots)
            if columns == 1:
                assert F(largest) >= sum(row[0] ** 4 for row in exact)


def test_the_largest_fourth_moment_is_the_smaller_of_two_bounds():
    """Of records in all directions alike that of the matrix of moments is nearly exact."""
    rows = np.random.default_rng(4).normal(size=(400, 3))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    ((*_, largest),) = _cumulated(rows, [400])
    directions = np.random.default_rng(5).normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    reached = ((directions @ rows.T) ** 4).sum(axis=1).max()
    assert reached <= largest <= 1.3 * reached
    assert largest < 0.8 * np.linalg.eigvalsh(rows.T @ rows)[-1]  # Σ|y|²|e·y|²


# ---- the expansion and hockey-sticks -------------------------------------------------------------


def exact_norms(half, second, fourth, longest, top=9):
    """The majorant's norms of degree < top, its polynomials multiplied out term by term."""
    second, fourth, longest = mp.mpf(second), mp.mpf(fourth), mp.mpf(longest)
    tangent = [[mp.mpf(0), mp.mpf(1)] + [mp.mpf(0)] * top]  # t' = 1 + t²
    for k in range(top):
        row = [mp.mpf(k == 0)] + [mp.mpf(0)] * (top + 1)
        for i in range(k + 1):
            for a, x in enumerate(tangent[i]):
                for b, y in enumerate(tangent[k - i][: top + 2 - a]):
                    row[a + b] += x * y
        tangent.append([v / (k + 1) for v in row])
    exponent = {2: [second / (2 * (2 * half - 1)), mp.mpf(0), second / 2]}
    for m in range(3, top):
        size = mp.sqrt(second * fourth) if m == 3 else fourth * mp.sqrt(longest) ** (m - 4)
        exponent[m] = [size / m * v for v in tangent[m - 1]]
    series = [[mp.mpf(1)]]
    for k in range(1, top):
        row = [mp.mpf(0)] * (top + 2)
        for m in range(2, k + 1):
            for a, x in enumerate(exponent[m]):
                for b, y in enumerate(series[k - m][: top + 2 - a]):
                    row[a + b] += m * x * y
        series.append([v / k for v in row])
    # E|y|^p for a density ∝ (1 + y²)^(-n-1); odd ones from E|y|'s bound.
    moments = [mp.mpf(1), mp.sqrt((half + mp.mpf(0.5)) / mp.pi) / half]
    moments += [0] * (top + 1)
    for p in range(top + 1):
        moments[p + 2] = moments[p] * (p + 1) / (2 * half - 1 - p)
    return [
        mp.sqrt(mp.factorial(k)) * mp.fsum(c * moments[p + k % 2] for p, c in enumerate(series[k]))
        for k in range(top)
    ]


def test_norms_are_never_below_the_majorant():
    rng = np.random.default_rng(6)
    with mp.workdps(40):
        for _ in range(6):
            half = int(rng.integers(20, 500))
            second, fourth, longest = rng.uniform(0.2, 1), 10 ** rng.uniform(-4, -1), 0.03
            found = _expansion(2 * half - 1, half, second, fourth, longest)
            exact = exact_norms(half, second, fourth, longest)
            for value, truth in zip(found[3:9].tolist(), exact[3:], strict=True):
                assert truth <= value <= truth * (1 + mp.mpf(1e-8))


def test_every_record_is_within_the_farthest_in_the_norms():
    """Parts of degree 5 and more grow with the longest record."""
    values = np.append(np.random.default_rng(7).integers(0, 4, 399), 12.0)
    crowd = crowd_of(values, 6.0)
    others = np.delete(values, 0)
    u = (others - others.mean()) / 2
    total = 36 + 400 / 399 * np.square(u).sum()
    u /= math.sqrt(total)
    least = _expansion(399, 200, 1 - 36 / total, float((u**4).sum()), float((u**2).max()))
    ((mine, error), *_) = [(m, e) for m, e in crowd.errors if 0 in m]
    assert mine.size > 100
    assert len(error.norms) > 6
    assert (error.norms[3:] >= least[3 : len(error.norms)] * (1 - 1e-9)).all()


def exact_stick(norms, rest, distance, epsilon):
    """The normal law's hockey-stick and what the error adds, in 40 digits."""
    r, rest = mp.mpf(distance), mp.mpf(rest)
    norm = mp.sqrt(sum(mp.mpf(n) ** 2 for n in norms) + rest**2)
    shift = rest
    for k, n in enumerate(norms):
        for j in range(64):
            if (j + k) % 2 and n:
                shift += (
                    mp.mpf(n)
                    * r**j
                    * mp.sqrt(mp.factorial(k + j) / mp.factorial(k))
                    / mp.factorial(j)
                )
    eps = mp.mpf(epsilon)
    normal = mp.ncdf(r - eps / (2 * r)) - mp.exp(eps) * mp.ncdf(-r - eps / (2 * r))
    cost = min(shift, norm) if r <= 1 else norm
    return normal + cost + (mp.exp(eps) - 1) / 2 * norm


@pytest.mark.parametrize("distance", [1e-12, 1e-3, 0.4, 1.0, 1.5])
def test_sticks_are_never_below_their_exact_value(distance):
    """Also where the error is all there is, and where series give way to the norm."""
    rng = np.random.default_rng(8)
    with mp.workdps(40):
        for _ in range(12):
            norms = np.append(np.zeros(3), rng.uniform(0, 1e-3, 4))
            norms[rng.integers(3, 7)] = 0.0
            rest = rng.uniform(0, 1e-6)
            error, eps = NormalError(norms, rest), rng.uniform(0, 3)
            found = error.sticks(np.array([distance]), np.array([eps]))[0, 0]
            truth = exact_stick(norms.tolist(), rest, distance, eps)
            assert truth <= found <= truth * (1 + mp.mpf(1e-8)) + mp.mpf(1e-12)


# ---- shells --------------------------------------------------------------------------------------


def test_rests_are_never_below_the_sum_over_shells(monkeypatch):
    """ln Σ over shells from each radius on, with the best radius and dilation, in 40 digits."""
    rng = np.random.default_rng(9)
    frequencies = crowd_of(rng.normal(size=40), 2.0).frequencies
    asked = {}

    def near(self, squared, high, low, widened):
        values = rng.uniform(-40, 30, (squared.size, high.size))
        if low is None:
            values[:, 3:-2] = np.inf  # most radii are not usable
            asked["dilation"] = squared
        asked["inside" if low is None else "near"] = values
        return values

    def kept(name, low, high):
        asked[name], asked[name + " at"] = rng.uniform(-70, high, low.size), low
        return asked[name]

    cls = crowd_module._Frequencies
    monkeypatch.setattr(cls, "_near", near)
    monkeypatch.setattr(cls, "_far", lambda self, low, *_: kept("far", low, 20))
    monkeypatch.setattr(
        cls,
        "_noise_alone",
        lambda self, low, _: kept("last" if low.size == 1 else "alone", low, 20),
    )
    found = frequencies.rests(1.05)
    shells = np.minimum(asked["near"][0], asked["alone"])
    far = dict(zip(asked["far at"].tolist(), asked["far"].tolist(), strict=True))
    assert {
        low for low, s in zip(asked["alone at"].tolist(), shells, strict=True) if s > -50
    } == set(far)
    shells = [
        min(s, far.get(low, s))
        for s, low in zip(shells.tolist(), asked["alone at"].tolist(), strict=True)
    ]
    with mp.workdps(40):
        sums = [mp.mpf(0)]
        for shell in [asked["last"][0], *shells[::-1]]:
            sums.append(sums[-1] + mp.exp(mp.mpf(float(shell))))
        beyond = sums[:0:-1]  # from each radius on
        rho = [mp.log(mp.mpf(d)) for d in asked["dilation"].tolist()]
        for k, value in enumerate(found.tolist()):
            best = mp.inf
            for radius in [0, 1, 2, -2, -1]:
                inside = min(
                    mp.mpf(v) - k * ln
                    for v, ln in zip(asked["inside"][:, radius].tolist(), rho, strict=True)
                )
                best = min(best, mp.log(mp.exp(inside) + beyond[radius]))
            assert best <= value <= best + mp.mpf(1e-8)


def shells_with(noise, half=50):
    """Frequencies for these shares of the noise, without records."""
    return crowd_module._Frequencies(half, np.array(noise), 0.0, 0.1, 0.1, [])


@pytest.mark.parametrize("squared", [1.0, 1.32, 2.0])
@pytest.mark.parametrize("noise", [(0.3, 0.9), (0.3, 0.5)])
def test_exponentials_over_a_ball_are_at_least_their_integral(squared, noise):
    """∫ exp(g₁s + g₂t) over s + t ≤ T², s and t ≥ 0, for negative and positive g."""
    widened = 1.1
    high = np.array([20.0, 60.0])
    found = shells_with(noise)._outer(squared, high, widened)
    g, h = (mp.mpf(squared) * (1 - mp.mpf(share)) - 1 / mp.mpf(widened) for share in noise)
    for value, top in zip(found.tolist(), high.tolist(), strict=True):

        def inner(s, top=top):
            return mp.exp(g * s) * mp.expm1(h * (top - s)) / h

        whole = mp.quad(inner, [0, top / 2, top])
        assert mp.log(whole) <= value
        if g < 0.05:
            assert value <= mp.log(whole) + mp.mpf(1)


def test_the_tail_beyond_a_shell_by_the_noise_alone():
    """The best tilt θ below the smallest share of the noise; a shell counts from its inner end."""
    noise, widened, half = [0.2, 0.9], 1.1, 50
    low = np.array([5.0, 80.0])
    found = shells_with(noise, half)._noise_alone(low, widened)
    count = 2 * half - 1
    with mp.workdps(30):
        for value, start in zip(found.tolist(), low.tolist(), strict=True):
            best = min(
                -t * start
                - mp.log(mp.fprod(mp.mpf(a) - t for a in noise)) / 2
                - mp.log(1 - mp.mpf(1) / count - t * mp.mpf(widened))
                for t in (mp.mpf(noise[0]) * k / 2000 for k in range(2000))
            )
            best += mp.log(mp.pi**2 / 4 * (count + 2) / count)
            assert best - mp.mpf(1e-12) <= value <= best + mp.mpf(0.05)


@pytest.mark.parametrize("tilted", [False, True])
def test_near_frequencies_are_never_below_the_two_arcs_of_the_proof(tilted):
    """Step 6 with two columns: every arc and weight of the quartic, and tilts towards a shell."""
    half, noise, quartic, widened = 200, (0.3, 0.8), 0.02, 1.1
    frequencies = replace(shells_with(noise, half), quartic=quartic)
    squared, high = np.array([1.0] if tilted else [1.0, 1.5]), np.geomspace(1.0, 80.0, 6)
    low = high / 1.1 if tilted else None
    found = frequencies._near(squared, high, low, widened)
    others, count, finite = [1 - mp.mpf(a) for a in noise], 2 * half - 1, 0

    def main(r, top, start, arc, weight):
        bent = (arc / mp.cos(arc) ** 2 - mp.tan(arc)) / (4 * arc**3)
        first = (mp.tan(arc) / arc - 1) / arc**2 + 4 * (1 + 1 / weight) * bent
        spare = half - 1 - first * r * top * max(others)
        bend = widened * (1 + weight) * bent * quartic * r**2 * top
        left = [1 - widened * r * a / count - bend for a in others]
        if spare <= 0 or min(left) <= 0:
            return
        for share in (0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95) if tilted else (0,):
            tilt = share * min(left)
            value = -tilt / widened * start - mp.log(mp.fprod(v - tilt for v in left))
            yield value + mp.log((half + mp.mpf(0.5)) / spare) / 2

    def proved(r, top, start, tail):
        for arc in map(mp.mpf, (0.35, 0.5, 0.78)):
            weights = map(mp.mpf, (0.1, 0.25, 0.5, 1.0))
            best = [v for weight in weights for v in main(r, top, start, arc, weight)]
            largest = r * top * max(others)
            if best and 2 * largest <= count:
                outer = mp.log(mp.pi * (half + mp.mpf(0.5))) + tail - count * mp.sin(arc) ** 2
                outer += mp.sqrt(quartic * largest) * r * top * 2 / 3
                yield mp.log(2 * (mp.exp(min(best)) + mp.exp(outer)))

    with mp.workdps(30):
        for i, r in enumerate(squared.tolist()):
            for j, top in enumerate(high.tolist()):
                start = low[j] if tilted else 0.0
                tail = float(frequencies._outer(r, high, widened)[j])
                best = min(proved(mp.mpf(r), mp.mpf(top), mp.mpf(start), tail), default=mp.inf)
                assert best - mp.mpf(1e-12) <= float(found[i, j]) <= best + mp.mpf(1e-9)
                finite += math.isfinite(found[i, j])
    assert finite >= 3


@pytest.mark.parametrize("size", [40, 400])
def test_the_decay_of_cosines_is_never_above_that_of_the_proof(size):
    """Step 7 with one column: every cosine, share of its decay and tilt, in 30 digits."""
    half, noise, widened, scatter, fourth = 200, 0.1, 1.05, 0.6, 1e-3
    part = crowd_module._Part(size, np.array([[scatter]]), scatter, fourth)
    frequencies = replace(shells_with([noise], half), parts=[part])
    radii = np.geomspace(1.0, 30.0, 12)
    found = frequencies._far(radii[:-1], radii[1:], widened)
    assert np.isfinite(found).sum() > 3

    def proved(low, high):
        for alpha, beta in crowd_module._COSINES:
            for kappa in map(mp.mpf, (0.3, 0.6, 0.85, 0.95)):
                weight = kappa * size
                left = 1 - 4 / weight * max(mp.log(weight / mp.pi), 0)
                kept = (1 - 12 * scatter * high / (beta * size)) * scatter
                form = noise + 2 * alpha * kappa * left * (kept - 4 * fourth * high / beta)
                for tilt in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95):
                    theta = tilt * min(form, (1 - kappa) / widened)
                    if theta > 0:
                        value = mp.log(form - theta) + mp.log(1 - kappa - theta * widened)
                        price = mp.log(mp.pi**2 * (half + mp.mpf(0.5)) / weight)
                        yield -theta * low - value / 2 + price

    with mp.workdps(30):
        for value, low, high in zip(found, radii[:-1], radii[1:], strict=True):
            if math.isfinite(value):
                best = min(proved(mp.mpf(float(low)), mp.mpf(float(high))))
                assert best - mp.mpf(1e-12) <= float(value) <= best + mp.mpf(0.5)


# ---- read-offs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_epsilon_of_events_is_never_below_that_of_any_event(seed):
    """Events of probability α cost α + ν√α - e^ε(β - ν√β)₊, β = Φ(Φ⁻¹(α) - 2r)."""
    rng = np.random.default_rng(seed)
    for _ in range(6):
        distance, delta = rng.uniform(0.02, 0.5), 10 ** rng.uniform(-4, -1)
        norm = rng.uniform(0, 0.02) * math.sqrt(delta)
        epsilon = _epsilon_of_events(distance, norm, delta)
        assert epsilon < 20
        costs, lower = [], []
        alphas = np.append(10 ** rng.uniform(-8, 0, 60), np.linspace(0.01, 0.999, 30))
        with mp.workdps(25):
            for alpha in map(mp.mpf, alphas.tolist()):
                z = mp.sqrt(2) * mp.erfinv(2 * alpha - 1)
                beta = mp.ncdf(z - 2 * mp.mpf(distance))
                most = alpha + norm * mp.sqrt(alpha)
                least = max(beta - norm * mp.sqrt(beta), 0)
                costs.append(most - mp.exp(mp.mpf(epsilon)) * least)
                lower.append(most - mp.exp(mp.mpf(epsilon) - 0.02) * least)
        assert max(costs) <= delta
        assert max(lower) > delta * 0.9 or epsilon == 0


def test_events_at_the_edge():
    assert _epsilon_of_events(0.3, 0.0, 1.0) == 0.0  # no event costs more than 1
    assert _epsilon_of_events(0.3, 0.5, 1e-4) == math.inf  # the error alone costs more than δ
    assert _epsilon_of_events(1.5, 0.02, 1e-3) == math.inf  # nothing is left in the other world


def test_success_is_never_below_the_blind_guess_and_the_stick():
    values = np.random.default_rng(10).normal(size=(101, 1))
    for size in (50, 51):
        crowd = Crowd.of(values, SubsetGame(101, size), 2.0)
        sticks = crowd.delta(math.log(51 / 50) * (1 - 1e-15))
        for found, stick in zip(crowd.success.tolist(), sticks.tolist(), strict=True):
            truth = (51 + 50 * F(stick)) / 101
            assert truth - F(1, 2**52) / 8 <= F(found) <= truth + F(1, 10**14)
    even = crowd_of(np.append(values, 0.3), 2.0)
    for found, stick in zip(even.success.tolist(), even.delta(0.0).tolist(), strict=True):
        assert F(found) >= (1 + F(stick)) / 2
    assert (crowd.delta(501.0) == 1.0).all()


def test_epsilon_is_never_below_each_records_own():
    """Records share the levels that their distances are rounded up to."""
    crowd = crowd_of(np.random.default_rng(11).normal(size=300), 4.0)
    delta, grid = 1e-2, np.append(0.0, np.geomspace(1e-4, 12.0, 600))
    result = crowd.pmp_epsilon(delta)
    for mine, error in crowd.errors:
        for x in mine[:: max(1, mine.size // 12)]:
            r = crowd.distance[x]
            enough = error.sticks(np.array([r]), grid)[0] <= delta
            own = grid[enough.argmax()] if enough.any() else math.inf
            assert result[x] >= min(own, _epsilon_of_events(float(r), error.norm, delta))
        assert mine.size < 100 or len(np.unique(result[mine])) > 8  # and not all at the largest


def test_noise_of_any_size():
    rows = np.random.default_rng(12).normal(size=(60, 2))
    game = SubsetGame(60, 30)
    assert Crowd.of(rows * 1e-250, game, 1e200).success.max() < 0.5 + 1e-6
    assert (Crowd.of(rows * 1e250, game, 1e-200).success == 1.0).all()
