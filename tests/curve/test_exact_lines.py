"""The pieces of polygons one by one, in rationals or 50 digits: rounded outward, and by little."""

import math
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.curve import PolygonCurve, base, lines, mixture, segments
from memberbound.curve.families import GaussianCurve, LaplaceCurve, gaussian_summary

F = Fraction
LEAST = 5e-324


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def between(exact, value, units=64, smallest=8):
    """Return whether a number is not below the exact one, and above it by rounding only."""
    exact, value = mp.mpf(exact), mp.mpf(float(value))
    return exact <= value <= exact * (1 + mp.mpf(units * 2.0**-53)) + mp.mpf(smallest * LEAST)


def exact_stick(loss, heavy, epsilon):
    """Σ m(1 - e^{ε - ℓ})₊ over segments, exactly."""
    return mp.fsum(
        mp.mpf(m) * (1 - (0 if x == math.inf else mp.exp(mp.mpf(epsilon) - mp.mpf(x))))
        for x, m in zip(loss, heavy, strict=True)
        if x > epsilon
    )


def random_curve(rng, size):
    loss = np.array([rng.gauss(0, 1) * 3.0 ** rng.uniform(-3, 0.5) for _ in range(size)])
    return PolygonCurve(loss, np.array([rng.random() / size for _ in range(size)]))


# ── Masses from lines ─────────────────────────────────────────────────────────────────────────────


def profiles(rng):
    """Lines of convex profiles, steepest first: two far apart, and many with little between."""
    for _ in range(60):
        epsilon = sorted((rng.uniform(0, 4) for _ in range(rng.choice([1, 2, 4]))), reverse=True)
        yield [*epsilon, 0.0], [(rng.uniform(0, 5), rng.random()) for _ in range(4)]
    for spacing, count in ((1e-9, 30), (1e-4, 50), (0.01, 50)):
        epsilon = [spacing * k for k in reversed(range(count))]
        yield epsilon, [(rng.uniform(0, spacing * count), rng.random()) for _ in range(20)]
    for k in range(11586, 11590):  # many equal steps, rounded alike, and then a large one
        step = k * 2.0**-40
        if math.exp(-step) - mp.exp(-mp.mpf(step)) > 0.45 * 2.0**-53:
            epsilon = [1 + step * j for j in reversed(range(201))]
            yield [*epsilon, 0.0], [(1.5, 0.3), (1.0, 0.01)]
    for _ in range(30):  # among the smallest doubles
        epsilon = sorted((rng.uniform(0, 4) for _ in range(3)), reverse=True)
        yield [*epsilon, 0.0], [(rng.uniform(0, 5), rng.randint(1, 30) * LEAST) for _ in range(4)]


def test_masses_reach_every_line_they_are_made_from():
    rng = Random(1)
    for epsilons, parts in profiles(rng):
        certain = rng.choice([0.0, parts[0][1] / 3])
        loss, heavy = zip(*parts, (math.inf, certain), strict=True)
        scale = max(1.0, 2 * math.fsum(heavy))
        points = [(e, float(exact_stick(loss, heavy, e) / scale)) for e in epsilons]
        points = [(e, max(d, certain / scale)) for e, d in points]
        found = lines._half(points)
        units = 64 * len(points)
        for e, d in points:
            reached = exact_stick(*found, e)
            assert mp.mpf(d) <= reached
            assert reached <= mp.mpf(d) * (1 + mp.mpf(units * 2.0**-53)) + 40 * mp.mpf(LEAST)


def test_chords_are_from_above():
    rng = Random(2)
    rows = []
    for _ in range(300):
        rows.append([rng.uniform(0, 3), rng.random(), rng.uniform(0, 3), rng.random()])
        rows.append([10 ** rng.uniform(-320, 2), 10 ** rng.uniform(-320, -1)] * 2)
        rows.append([rng.randint(1, 30) * LEAST for _ in range(4)])
        rows.append([rng.uniform(0, 3), rng.randint(0, 9) * LEAST, rng.randint(1, 9) * LEAST, 0.0])
        rows.append([k * LEAST for k in (1, rng.randint(0, 2), rng.randint(1, 2), 0)])
    one, two = np.array(rows)[:, :2], np.array(rows)[:, 2:]
    with np.errstate(under="ignore"):
        found = lines._chords(one, two)
    for row, value in zip(rows, found.tolist(), strict=True):
        a, d, b, s = map(mp.mpf, row)
        weight = mp.expm1(-a) / mp.expm1(-a - b)
        exact = (1 - weight) * d + weight * (-mp.expm1(-b) + mp.exp(-b) * s)
        assert between(exact, value)


# ── Masses of laws, and their mixtures ────────────────────────────────────────────────────────────


def test_masses_of_doubles_are_shares_of_their_sums_from_above():
    rng = np.random.default_rng(3)
    for size in (2, 3, 40):
        for _ in range(20):
            p, q = rng.dirichlet(np.full(size, 0.3)), rng.dirichlet(np.full(size, 0.3))
            q[0], p[1] = max(q[0], 1e-320), max(p[1], LEAST)
            sums = sum(map(F, p.tolist())), sum(map(F, q.tolist()))
            loss, heavy = segments.float_segments(p, q)
            if loss.size > size:
                continue  # a segment of doubtful sign counts twice
            for a, b, x, m in zip(p.tolist(), q.tolist(), loss, heavy, strict=True):
                shares = F(a) / sums[0], F(b) / sums[1]
                assert max(shares) <= F(float(m)) <= max(shares) * (1 + F(1, 2**48)) + F(3e-323)
                if a and b:
                    exact = mp.log(mp.mpf(a) / mp.mpf(b)) + mp.log(
                        mp.mpf(sums[1].numerator) / sums[1].denominator
                    )
                    exact -= mp.log(mp.mpf(sums[0].numerator) / sums[0].denominator)
                    assert abs(exact) <= abs(float(x))
                    assert float(x) * exact > 0


def test_logarithms_of_rational_ratios_are_rounded_away_from_zero():
    rng = Random(4)
    pairs = [(F(rng.randint(1, 10**6), 10**6), F(rng.randint(1, 10**6), 10**6)) for _ in range(200)]
    pairs += [(F(1, 3) + F(1, 10 ** rng.randint(1, 400)), F(1, 3)) for _ in range(100)]
    pairs += [(F(1), F(1, rng.randint(2, 10**9) ** rng.randint(1, 60))) for _ in range(100)]
    for a, b in pairs:
        if a != b:
            with mp.workdps(500):
                ratio = max(a, b) / min(a, b)
                exact = +mp.log(mp.mpf(ratio.numerator) / ratio.denominator)
            value = segments._log_ratio(a, b)
            assert between(exact, abs(value))
            assert (value > 0) == (a > b)


def test_certain_masses_add_up_to_the_double_above():
    rng = Random(5)
    for size in (1, 2, 3, 30):
        for _ in range(30):
            heavy = [rng.random() / size for _ in range(size)]
            found = PolygonCurve(np.full(size, math.inf), np.array(heavy)).certain_mass()
            exact = sum(map(F, heavy))
            assert F(math.nextafter(found, 0.0)) < exact <= F(found)


def test_masses_of_a_mixture_are_weighted_from_above():
    rng = Random(6)
    for trial in range(60):
        size = rng.choice([1, 2, 5])
        weights = [rng.random() for _ in range(size)]
        weights = [w / math.fsum(weights) * rng.choice([1, 1 - 9e-10, 1 + 9e-10]) for w in weights]
        if trial % 3 == 0:
            weights.append(rng.randint(1, 9) * LEAST)
        total = math.fsum(weights)
        if abs(total - 1) > 1e-9:
            continue
        curves = [
            PolygonCurve(np.array([0.5 + k]), np.array([rng.random()])) for k in range(len(weights))
        ]
        found = mixture(curves, weights)
        masses = dict(zip(found.loss.tolist(), found.heavy.tolist(), strict=True))
        for k, (curve, weight) in enumerate(zip(curves, weights, strict=True)):
            exact = F(weight) / sum(map(F, weights)) * F(float(curve.heavy[0]))
            assert exact <= F(masses[0.5 + k]) <= exact * (1 + F(3, 10**9)) + F(1e-323)


# ── Chains ────────────────────────────────────────────────────────────────────────────────────────


def test_parameters_of_a_chain_are_added_from_above():
    rng = Random(7)
    for _ in range(100):
        a, b = rng.random(), 10 ** rng.uniform(-17, 1)
        for kind, value in (
            (GaussianCurve, GaussianCurve(a).then(GaussianCurve(b)).mu),
            (LaplaceCurve, LaplaceCurve(a).then(LaplaceCurve(b)).reach),
        ):
            assert F(a) + F(b) <= F(value) <= (F(a) + F(b)) * (1 + F(1, 2**52)), kind


def test_heights_of_lines_are_from_above():
    """Also those of slopes below 1, from the mirrored profile: 1 - e^ℓ + e^ℓ·δ."""
    rng = Random(15)
    for _ in range(100):
        curve = random_curve(rng, rng.choice([1, 3, 8]))
        for slope in (*curve.loss.tolist(), -(10 ** rng.uniform(-16, 1))):
            behind = curve._profile(np.array([max(-slope, 0.0)]), forward=False)[0]
            exact = 1 - mp.exp(mp.mpf(slope)) * (1 - mp.mpf(behind))
            if slope < 0:
                assert between(exact, base._full_stick(curve, np.array([slope]))[0])


def test_a_chain_of_two_one_sided_curves_is_from_above():
    """All in-mass left of the first corner costs 1 - e^{-ε}, and no steeper line is closer."""
    rng = Random(16)
    for _ in range(50):
        epsilon, more = rng.uniform(0.01, 3), rng.uniform(0, 2)
        reach = epsilon + more
        one = base.polygon_from_lines([reach], [0.0], [reach], [0.0])
        two = base.polygon_from_lines([], [], [epsilon], [0.0])
        truth = 1 - mp.exp(-mp.mpf(epsilon))
        assert between(truth, one.then(two).delta(reach - epsilon, "forward"), 128)


def test_lines_of_a_chain_are_from_above():
    """(ε₁ + ε₂, δ₂ + e^{ε₂}δ₁) for every pair that touches, and for the diagonal."""
    rng = Random(8)
    curves = [random_curve(rng, size) for size in (1, 3, 8, 20, 20)]
    curves += [PolygonCurve(c.loss, c.heavy * 1e-308) for c in curves]
    far = PolygonCurve(np.array([-740.0, 2.0]), np.array([0.5, 0.5]))
    for one, two in [(a, b) for a in curves for b in (*curves, far)]:
        pairs = base._touching(one, two)
        pairs += [(x, -x) for x in sorted(set(one.loss.tolist()), reverse=True)]
        pairs = [(x, y) for x, y in pairs if x + y >= 0]
        epsilon, delta = base._chain_lines(one, two)
        first = base._full_stick(one, np.array([x for x, _ in pairs]))
        second = base._full_stick(two, np.array([y for _, y in pairs]))
        for (x, y), e, d, s, t in zip(pairs, epsilon, delta, first, second, strict=True):
            assert F(x) + F(y) <= F(float(e)) <= F(math.nextafter(x + y, math.inf))
            if F(x) + F(y) == F(x + y):
                assert e == x + y
            exact = mp.mpf(float(t)) + mp.exp(mp.mpf(y)) * mp.mpf(float(s))
            assert d == 1.0 or between(exact, d)
            assert min(exact, 1) <= d


# ── Read-offs ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 3, 400])
def test_profiles_of_the_smallest_masses_are_from_above(size):
    """Every product may lose half of the smallest double; many are added up in one sweep."""
    rng = Random(11)
    loss = np.array(sorted((rng.uniform(0.01, 2) for _ in range(size)), reverse=True))
    heavy = np.array([rng.randint(1, 9) * LEAST for _ in range(size)])
    grid = np.array([0.0, *(loss[:: max(1, size // 50)] * rng.uniform(0.5, 1))])
    one = segments.OneSided.of(loss, heavy)
    for epsilon in (grid, grid[-1:]):
        for e, value in zip(epsilon.tolist(), one.profile(epsilon).tolist(), strict=True):
            assert exact_stick(loss.tolist(), heavy.tolist(), e) <= mp.mpf(value)


def test_lines_bound_the_rate_among_the_smallest_doubles():
    rng = Random(9)
    for units in range(1, 30):
        slope, stick = rng.uniform(0, 3), rng.choice([0.0, 3 * LEAST])
        # One segment beside the diagonal: above it the best line is that of the segment.
        curve = PolygonCurve(np.array([slope]), np.array([0.5]))
        rate = units * LEAST
        exact = mp.exp(mp.mpf(slope)) * mp.mpf(rate)
        assert between(exact, curve.tpr(rate))
        certain = PolygonCurve(np.array([math.inf, slope]), np.array([stick, 0.5]))
        assert between(exact + mp.mpf(stick), certain.tpr(rate), smallest=12)


def test_delta_is_the_larger_of_both_directions():
    curve = PolygonCurve.from_masses([0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.6, 0.1])
    seen = set()
    for epsilon in (0.5, 1.0, 1.5, 3.0):
        sides = [curve.delta(epsilon, side) for side in ("forward", "backward")]
        assert curve.delta(epsilon) == max(sides)
        seen.add(sides[0] > sides[1])
    assert seen == {True, False}


def test_symmetrised_has_the_corner_where_the_directions_cross():
    curve = PolygonCurve.from_masses([0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.6, 0.1])
    both = curve.symmetrised()
    for epsilon in np.linspace(0, 3, 400).tolist():
        larger = curve.delta(epsilon)
        for side in ("forward", "backward"):
            assert larger <= both.delta(epsilon, side) <= larger + 1e-13


def test_symmetrised_is_no_larger_than_its_lines():
    """Near slope 1 a gap between lines of the size of rounding would leave room for any rate."""
    rng = np.random.default_rng(13)
    for size in (2, 3, 5, 30):
        laws = [rng.dirichlet(np.ones(size)).tolist() for _ in range(2)]
        curve = PolygonCurve.from_masses(*laws)
        both, grid = curve.symmetrised(), np.linspace(0, 4, 50)
        larger = np.array([curve.delta(epsilon) for epsilon in grid.tolist()])
        for rate in (0.01, 0.3, 0.5, 0.9):
            heights = [larger + np.exp(grid) * rate, 1 - (1 - rate - larger) * np.exp(-grid)]
            assert both.tpr(rate) <= np.min(heights) + 1e-12


def test_a_curve_dominates_itself_without_tolerance():
    for curve in (GaussianCurve(0.7), PolygonCurve.from_masses([0.75, 0.25], [0.25, 0.75])):
        assert curve.dominates(curve, tolerance=0.0)
        # A difference at ε = 0 alone.
        raised = PolygonCurve(np.array([1e-9, -1e-9]), np.array([1.0, 1.0]))
        assert not PolygonCurve(np.zeros(1), np.ones(1)).dominates(raised, tolerance=1e-12)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def quantile(p):
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def gaussian_stick(mu, epsilon):
    if mu == 0:
        return mp.mpf(0)
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    below = normal(-mu / 2 - epsilon / mu)
    return normal(mu / 2 - epsilon / mu) - mp.exp(epsilon) * below


def test_the_summary_holds_exactly_at_corners_and_lines():
    """TPR ≤ G(· + r) + r at every corner, and G ≤ TPR(· + r) + r by every line."""
    rng = np.random.default_rng(10)
    laws = [rng.dirichlet(np.ones(k)).tolist() for k in (2, 3, 3, 5) for _ in range(8)]
    curves = [PolygonCurve.from_masses(*pair) for pair in zip(laws[::2], laws[1::2], strict=True)]
    curves += [LaplaceCurve(0.7).to_polygon(), GaussianCurve(0.6).to_polygon()]
    for curve in curves:
        mu, regret = gaussian_summary(curve)
        room = mp.mpf(regret)
        loss, heavy = curve.loss.tolist(), curve.heavy.tolist()
        fpr = tpr = mp.mpf(0)
        every = max(1, len(loss) // 25)
        for k, (x, m) in enumerate(zip(loss, heavy, strict=True)):
            fpr += mp.mpf(m) * mp.exp(min(mp.mpf(-x), 0))
            tpr += mp.mpf(m) * mp.exp(min(mp.mpf(x), 0))
            if k % every == 0 and fpr + room < 1:
                assert tpr - room <= normal(quantile(fpr + room) + mp.mpf(mu))
        for sign in (1, -1):
            side = [sign * x for x in loss]
            for epsilon in [0.0, *(x for x in side[::every] if 0 < x < math.inf)]:
                gap = gaussian_stick(mu, epsilon) - exact_stick(side, heavy, epsilon)
                assert gap <= room * (1 + mp.exp(mp.mpf(epsilon)))


def test_the_summary_of_two_outcomes_pays_for_its_quantiles():
    """So near to blind guessing that the regret is the 1e-5 that a corner needs, and rounding."""
    rng = Random(12)
    seen = 0
    for _ in range(200):
        slope = rng.uniform(4.5e-5, 8e-5)
        curve = PolygonCurve(np.array([slope, -slope]), np.full(2, 1 / (1 + math.exp(-slope))))
        mu, regret = gaussian_summary(curve)
        if curve.vertices[0][-1] == curve.vertices[1][-1] == 1.0 and mu > 0 and regret < 1.0001e-5:
            room, tpr = mp.mpf(regret), mp.mpf(float(curve.heavy[0]))
            fpr = tpr * mp.exp(-mp.mpf(slope))
            assert tpr - room <= normal(quantile(fpr + room) + mp.mpf(mu))
            seen += 1
    assert seen > 50
