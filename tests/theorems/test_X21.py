"""X21: the crowd hides the record, against enumeration, quadrature and exact mixtures."""

import math

import numpy as np
import pytest
from scipy import special

from memberbound.games import SubsetGame
from memberbound.subset import crowd as crowd_module
from memberbound.subset.crowd import Crowd, NormalError, _cumulated, _expansion
from memberbound.subset.mixtures import mixture_bounds
from oracle.normal_mixtures import lattice_laws, world_sums


def half_game(count):
    return SubsetGame(count, count // 2)


def density(points, sums, sigma):
    """Density of the normal mixture at every point (rows); equal sums are taken together."""
    d = points.shape[1]
    atoms, often = np.unique(sums, axis=0, return_counts=True)
    square = np.zeros((len(points), len(atoms)))
    for axis in range(d):
        square += np.square(points[:, axis, None] - atoms[:, axis])
    mean = np.exp(-0.5 / sigma**2 * square) @ (often / len(sums))
    return mean / (2 * math.pi * sigma**2) ** (d / 2)


def grid(sums, sigma, steps):
    """Midpoints and their volume over all sums and eight standard deviations."""
    low, high = sums.min(0) - 8 * sigma, sums.max(0) + 8 * sigma
    axes = [
        np.linspace(a, b, steps, endpoint=False) + (b - a) / (2 * steps)
        for a, b in zip(low, high, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    return points, float(np.prod((high - low) / steps))


@pytest.mark.parametrize(("count", "columns"), [(10, 1), (10, 2), (12, 3), (11, 2)])
def test_distances_are_those_of_the_enumerated_worlds(count, columns):
    values = np.random.default_rng(count).normal(size=(count, columns)) ** 3
    game, sigma = half_game(count), 2.0
    crowd = Crowd.of(values, game, sigma)
    for record in (0, count - 1):
        inside, outside = world_sums(values, game.size, record)
        gap = (inside.mean(0) - outside.mean(0)) / 2
        scatter = np.cov(outside.T, bias=True).reshape(columns, columns)
        truth = math.sqrt(gap @ np.linalg.solve(sigma**2 * np.eye(columns) + scatter, gap))
        assert crowd.distance[record] >= truth * (1 - 1e-12)
        if count % 2 == 0:  # both worlds have one covariance, and the distance is exact
            assert np.allclose(np.cov(inside.T, bias=True).reshape(scatter.shape), scatter)
            assert crowd.distance[record] <= truth * (1 + 1e-6)


@pytest.mark.parametrize(("count", "aside"), [(10, ()), (11, (10,))])
def test_the_others_keep_their_share_of_the_covariance(count, aside):
    """Step 3: V ⪰ (1 - κ)H, of an odd number also where the other one set aside is far out."""
    values = np.random.default_rng(count).normal(size=(count, 2))
    values[-1] *= 6
    crowd = Crowd.of(values, half_game(count), 3.0)
    factor = (crowd.crowd + 1) / crowd.crowd

    def covariance(rows):
        halves = (rows - rows.mean(0)) / 2
        return 9.0 * np.eye(2) + factor * halves.T @ halves

    root = np.linalg.inv(np.linalg.cholesky(covariance(values)))
    for record, lost in enumerate(crowd.lost_share(crowd.leverage)[:-1]):
        left = root @ covariance(np.delete(values, [record, *aside], axis=0)) @ root.T
        assert np.linalg.eigvalsh(left)[0] >= 1 - lost


def test_the_error_is_counted_in_both_worlds():
    """Step 5: e^ε times the error of the second world, besides what the shift costs."""
    error, far, eps = NormalError(np.array([0.0, 0, 0, 0.01]), 0.02), np.array([0.3]), 1.5
    normal = special.ndtr(0.3 - eps / 0.6) - math.exp(eps) * special.ndtr(-0.3 - eps / 0.6)
    paid = error.shift_cost(far)[0] + (math.exp(eps) - 1) / 2 * math.hypot(0.01, 0.02)
    assert 0 <= error.sticks(far, np.array([eps]))[0, 0] - (normal + paid) < 1e-6


def exact_error(values, record, sigma, degrees):
    """Norms of the true expansion of one world in Hermite polynomials, one column only."""
    inside, _ = world_sums(values, len(values) // 2, record)
    centred = inside[:, 0] - inside.mean()
    total = centred.var() + sigma**2
    share = sigma / math.sqrt(total)
    z = centred / math.sqrt(total)
    # E He_k(z + share·g) = (1 - share²)^{k/2} E He_k(z/√(1 - share²)).
    scale = math.sqrt(1 - share**2)
    norms = np.zeros(degrees)
    before, now = np.zeros_like(z), np.ones_like(z)
    for k in range(degrees):
        norms[k] = abs(now.mean()) * scale**k / math.sqrt(math.factorial(k))
        before, now = now, (z / scale) * now - k * before
    norms[:1] = 0.0
    return norms, z, share


def exact_distance(z, share):
    """χ² between that world, whitened, and the normal law."""
    x = np.linspace(-12, 12, 6001)
    p = density(x[:, None], z[:, None], share)
    return float(np.trapezoid(p**2 / (np.exp(-x * x / 2) / math.sqrt(2 * math.pi)), x)) - 1


def test_the_error_of_two_shifts_by_enumeration():
    """Step 5 with the true norms: N = 12 records, exact total variation; r alone is too small."""
    values = np.array([0.0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0.5])[:, None]
    sigma, game = 0.35, half_game(12)
    crowd, missed = Crowd.of(values, game, sigma), 0
    for record in (0, 6, 11):
        inside, outside = world_sums(values, 6, record)
        points, volume = grid(np.concatenate([inside, outside]), sigma, 4000)
        truth = (
            0.5
            * np.abs(density(points, inside, sigma) - density(points, outside, sigma)).sum()
            * volume
        )
        norms, *world = exact_error(values, record, sigma, 40)
        chi = exact_distance(*world)
        rest = math.sqrt(max(chi - np.square(norms).sum(), 0.0) + 1e-9)
        r = crowd.distance[[record]]
        normal = 2 * special.ndtr(r[0]) - 1
        assert truth <= normal + NormalError(norms, rest).shift_cost(r)[0] + 1e-6
        missed += truth > normal + 1e-3
    assert missed  # the broken twin: a normal law without its error


def test_two_columns_by_enumeration():
    """N = 10, d = 2: with the true L² error of both worlds, by quadrature."""
    values = np.random.default_rng(5).integers(0, 3, size=(10, 2)).astype(float)
    sigma, game = 1.5, half_game(10)
    crowd = Crowd.of(values, game, sigma)
    for record in (0, 9):
        inside, outside = world_sums(values, 5, record)
        points, volume = grid(np.concatenate([inside, outside]), sigma, 160)
        p, q = density(points, inside, sigma), density(points, outside, sigma)
        truth = 0.5 * np.abs(p - q).sum() * volume
        scatter = np.cov(outside.T, bias=True) + sigma**2 * np.eye(2)
        gap = points - outside.mean(0)
        g = np.exp(-0.5 * (gap @ np.linalg.inv(scatter) * gap).sum(1)) / (
            2 * math.pi * math.sqrt(np.linalg.det(scatter))
        )
        chi = float((q**2 / np.maximum(g, 1e-300)).sum() * volume) - 1
        error = NormalError(np.zeros(1), math.sqrt(chi))
        assert truth <= 2 * special.ndtr(crowd.distance[record]) - 1 + error.norm + 1e-6


def moments_of(values, record, sigma):
    """(n, second, fourth, longest) of the expansion for one column, in the record's own metric."""
    others = np.delete(values[:, 0], record)
    u = (others - others.mean()) / 2
    count = len(others)
    total = sigma**2 + (count + 1) / count * np.square(u).sum()
    u = u / math.sqrt(total)
    return count, len(values) // 2, 1.0, float(np.power(u, 4).sum()), float(np.square(u).max())


def test_norms_of_low_degree_are_bounded():
    values = np.random.default_rng(3).exponential(size=(14, 1))
    for record in (0, 5):
        norms, *_ = exact_error(values, record, 2.0, 14)
        count, half, second, fourth, longest = moments_of(values, record, 2.0)
        bound = _expansion(count, half, second, fourth, longest)[:14]
        finite = np.isfinite(bound)
        assert (norms[3:][finite[3:]] <= bound[3:][finite[3:]] + 1e-13).all()
        assert norms[1] < 1e-12
        assert norms[2] < 1e-12
        assert bound[4] <= 4 * norms[4]  # tight to a small factor where it matters
        # Broken twin: without the fourth moment the bound is below the truth.
        assert _expansion(count, half, second, 0.0, longest)[4] < norms[4]


@pytest.mark.parametrize(("count", "sigma"), [(120, 4.0), (120, 6.0)])
def test_the_whole_error_is_bounded(count, sigma):
    """The χ² distance from the normal law, exactly, below the certified one; and tails as well."""
    values = np.random.default_rng(count).integers(0, 4, count).astype(float)
    crowd = Crowd.of(values[:, None], half_game(count), sigma)
    _, (sums, mass) = lattice_laws(values, count // 2, 0)
    mean = sums @ mass
    total = (np.square(sums - mean) @ mass) + sigma**2
    z, share = (sums - mean) / math.sqrt(total), sigma / math.sqrt(total)
    x = np.linspace(-11, 11, 8001)
    p = (np.exp(-0.5 * np.square((x[:, None] - z) / share)) @ mass) / (
        share * math.sqrt(2 * math.pi)
    )
    chi = float(np.trapezoid(p**2 * np.exp(x * x / 2) * math.sqrt(2 * math.pi), x)) - 1
    ((mine, error), *_) = [(m, e) for m, e in crowd.errors if 0 in m]
    assert 0 in mine
    assert chi <= error.norm**2
    assert error.norm < 0.1
    rests = crowd.frequencies.rests(1.05)
    scale, before, now, left = math.sqrt(1 - share**2), np.zeros_like(z), np.ones_like(z), chi + 1
    for k in range(30):
        assert left <= math.exp(min(rests[k], 700.0)) + 1e-9
        left -= (now @ mass) ** 2 * scale ** (2 * k) / math.factorial(k)
        before, now = now, (z / scale) * now - k * before


@pytest.mark.parametrize(
    ("count", "sigma", "law"), [(500, 4.0, "normal"), (501, 5.0, "heavy"), (300, 3.0, "rare")]
)
def test_sound_and_tight_against_exact_mixtures(count, sigma, law):
    rng = np.random.default_rng(7)
    values = {
        "normal": rng.normal(size=count),
        "heavy": np.clip(rng.standard_t(2, size=count), -6, 6),
        "rare": (rng.random(count) < 0.1) * 1.0 + rng.integers(0, 3, count),
    }[law]
    game = half_game(count)
    crowd = Crowd.of(values[:, None], game, sigma)
    for delta in (1e-2, 1e-3, 1e-4) if law == "normal" else (1e-2,):
        exact = mixture_bounds(values, game, sigma=sigma, delta=delta)
        epsilon = crowd.pmp_epsilon(delta)
        assert (epsilon >= exact.pmp_epsilon * (1 - 1e-5) - 1e-6).all()
        if delta < 1e-2:
            assert epsilon.max() < 1.5 * exact.pmp_epsilon.max()
            # Broken twin: the normal law without its error.
            alone = crowd_module._epsilon_of_events(float(crowd.distance.max()), 0.0, delta)
            assert alone < epsilon.max()
    assert (crowd.success >= exact.success - 1e-7).all()
    assert (crowd.success - exact.success).max() < 0.02
    # Broken twin: whitened with twice the covariance, the normal law alone.
    assert (special.ndtr(crowd.distance / math.sqrt(2)) < exact.success - 1e-4).any()


def test_frequencies_that_are_forgotten_are_missed():
    """Whole numbers and little noise: the law has teeth that low degrees do not see."""
    count, sigma = 120, 0.25
    values = np.random.default_rng(2).integers(0, 2, count).astype(float)
    values[0] = 0.5  # between the teeth
    crowd = Crowd.of(values[:, None], half_game(count), sigma)
    exact = mixture_bounds(values, half_game(count), sigma=sigma, delta=1e-2).success
    assert (crowd.success >= exact - 1e-9).all()
    count_, half, second, fourth, longest = moments_of(values[:, None], 0, sigma)
    low = NormalError(_expansion(count_, half, second, fourth, longest)[:12], 0.0)  # no shells
    twin = special.ndtr(crowd.distance) + 0.5 * low.shift_cost(crowd.distance)
    assert (twin < exact - 1e-3).any()


def test_cosines():
    """cos x ≤ 1 - αx² + (α/β)x⁴: on a fine grid with the slope's bound, and beyond √β at once."""
    for alpha, beta in crowd_module._COSINES:
        x = np.linspace(0.05, math.sqrt(beta), 400_001)
        gap = 1 - alpha * x**2 + alpha / beta * x**4 - np.cos(x)
        if alpha < 0.5:
            # Below 0.05 by cos x ≤ 1 - x²/2 + x⁴/24; between two points the slope is bounded.
            slope = 2 * alpha * x + 4 * alpha / beta * x**3 + 1
            assert (gap > slope * (x[1] - x[0])).all()
        else:
            assert gap.min() >= -1e-12


def test_largest_quartic_and_fourth_moment():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4)) * [1, 2, 0.5, 1]
    ((_, scatter, mean, fourth, largest),) = _cumulated(rows, [200])
    assert np.allclose(scatter, rows.T @ rows)
    assert np.allclose(mean, rows.mean(0))
    gram = rows @ rows.T
    assert fourth >= math.sqrt((gram**4).sum())
    assert fourth <= math.sqrt((gram**4).sum()) * (1 + 1e-8)
    directions = rng.normal(size=(3000, 4)) + 1j * rng.normal(size=(3000, 4))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    result = (np.abs(directions @ rows.T) ** 4).sum(1).max()
    axis = (np.abs(np.eye(4) @ rows.T) ** 4).sum(1).max()
    assert max(result, axis) <= largest <= 3 * axis


def test_limits():
    rng = np.random.default_rng(4)
    rows, game = rng.normal(size=(400, 2)), SubsetGame(400, 200)
    assert (Crowd.of(rows, game, 1e-9).success == 1).all()  # no noise: nothing is proved
    assert Crowd.of(rows, game, 1e6).success.max() < 0.5001
    equal = Crowd.of(np.ones((400, 2)), game, 1.0).success
    assert equal.max() < 0.5001
    spiked = rows.copy()
    spiked[0] = 1e4  # outweighs all others: only itself is exposed, the others lose their crowd
    assert Crowd.of(spiked, game, 3.0).success[0] == 1
    usual = Crowd.of(rows, game, 4.0).success
    assert np.allclose(Crowd.of(rows * 1e200, game, 4e200).success, usual, rtol=1e-9)
    twins = np.repeat(rows[:200], 2, axis=0)
    assert Crowd.of(twins, game, 4.0).success.max() < 0.62
    other_sizes = Crowd.of(rows, SubsetGame(400, 190), 4.0)  # no half: nothing is proved
    assert (other_sizes.success == 1).all()
    assert (other_sizes.pmp_epsilon(1e-2) == math.inf).all()


def squared_transform(zeta, u, noise_share, half):
    """|φ_σ(ζ)|² by a sum over θ, for whitened halves u (rows) and points ζ (rows).

    e^-iθ Πcosh(s + iθ) is a trigonometric polynomial with the periods π/j, j ≤ half: more angles
    than that give its mean exactly.  cosh(s + iθ) = cosh s·(cos θ + i·sin θ·tanh s) keeps
    logarithms out of the loop.
    """
    theta = (np.arange(half + 1) + 0.5) * math.pi / (half + 1) - math.pi / 2
    s = zeta @ u.T
    grow = 0.5 * ((zeta @ (np.eye(u.shape[1]) - noise_share)) * zeta).sum(1)
    alike = np.exp(np.log(np.cosh(s)).sum(1) - grow)
    turned, total = 1j * np.tanh(s), np.zeros(len(zeta), dtype=complex)
    for angle in theta:
        parts = math.cos(angle) + math.sin(angle) * turned
        total += parts.prod(1) * np.exp(-1j * angle)
    return np.abs(alike * total / (np.cos(theta) ** (2 * half)).sum()) ** 2


def test_shells_by_simulation():
    """Steps 6 to 8 in two columns: each bound on a shell against drawn frequencies."""
    rng = np.random.default_rng(11)
    count, record, sigma = 80, 3, 1.5
    values = rng.exponential(size=(count, 2)) @ [[1.0, 0.3], [0.0, 0.7]]
    crowd = Crowd.of(values, half_game(count), sigma)
    widened = float(1 / (1 - crowd.lost_share(crowd.leverage)[record]))
    others = np.delete(values, record, axis=0)
    u = (others - others.mean(0)) / 2
    inverse = np.linalg.inv(sigma**2 * np.eye(2) + count / (count - 1) * u.T @ u)
    root = np.linalg.cholesky(inverse)
    zeta = (rng.normal(size=(1200, 2)) + 1j * rng.normal(size=(1200, 2))) * math.sqrt(0.5)
    there = squared_transform(zeta, u @ root, sigma**2 * root.T @ root, count // 2)
    halves = (values - values.mean(0)) / 2
    whole = sigma**2 * np.eye(2) + count / (count - 1) * halves.T @ halves
    raw = zeta @ root.T  # t with t·(raw record) = ζ·(whitened record)
    radius = np.real(((raw @ whole) * raw.conj()).sum(1))
    seen = 0
    for low, high in ((0.5, 1.0), (1.0, 2.5), (2.5, 5.0), (5.0, 15.0)):
        truth = np.where((radius > low) & (radius <= high), there, 0.0)
        lower = truth.mean() - 5 * truth.std() / math.sqrt(len(truth))
        ends = np.array([low]), np.array([high])
        near = crowd.frequencies._near(np.array([1.0]), ends[1], ends[0], widened)[0, 0]
        far = crowd.frequencies._far(*ends, widened)[0]
        for bound in (near, far, crowd.frequencies._noise_alone(ends[0], widened)[0]):
            assert lower <= math.exp(min(bound, 700.0))
        seen += int(math.isfinite(near)) + int(math.isfinite(far))
    assert seen >= 3
