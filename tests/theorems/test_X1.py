"""X1: a divergence of the worlds is at most its mean over swaps of the record.

Truth: enumeration of all subsets, or all data sets, in exact rationals.
"""

import math
from fractions import Fraction
from functools import partial
from itertools import product
from random import Random

import numpy as np

from memberbound.release.noise import GaussianNoise
from memberbound.subset.profile import NeighbourProfile
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound

F = Fraction


def mean(values):
    return sum(values) / len(values)


def chi_squared(p, q):
    """Infinite where q vanishes and p does not."""
    gaps = [(p.get(a, F(0)) - q.get(a, F(0)), q.get(a, F(0))) for a in finite.outcomes(p, q)]
    return sum((gap**2 / mass if mass else math.inf) for gap, mass in gaps)


def triangular(p, q):
    """Σ (p-q)²/(p+q), a bounded f-divergence."""
    return sum(
        ((p.get(a, F(0)) - q.get(a, F(0))) ** 2 / (p.get(a, F(0)) + q.get(a, F(0))))
        for a in finite.outcomes(p, q)
    )


DIVERGENCES = {
    "total variation": finite.total_variation,
    **{f"stick {g}": partial(finite.hockey_stick, gamma=g) for g in (F(1, 2), F(3, 2), F(4))},
    "flipped": lambda p, q: finite.hockey_stick(q, p, F(3, 2)),
    "chi squared": chi_squared,
    "triangular": triangular,
}


def games():
    rng = Random(11)
    for i in range(12):
        size = rng.randint(2, 5)
        k = rng.randint(1, size - 1)
        kernel = mechanisms.random_mechanism(rng, size, k, rng.randint(2, 4), zeros=bool(i % 2))
        yield kernel, size, k
    yield mechanisms.sum_mod(4), 4, 2
    yield mechanisms.release_one_record(F(1, 3)), 5, 2


def mean_over_swaps(table, size, k, x, divergence):
    return mean([divergence(table[d], table[e]) for d, e, _ in subset.swaps(size, k, x)])


def one_newcomer_only(table, size, k, x, divergence):
    """Broken: the first outsider instead of a uniform one, so that D' is not uniform."""
    moves = subset.swaps(size, k, x)
    first = [(d, e) for d, e, y in moves if y == min(set(range(size)) - d)]
    return mean([divergence(table[d], table[e]) for d, e in first])


def test_divergence_is_at_most_its_mean_over_swaps():
    assert_bound(
        mean_over_swaps,
        (
            ((table, size, k, x, divergence), divergence(*subset.world_laws(table, size, k, x)))
            for kernel, size, k in games()
            for table in [subset.tabulate(kernel, size, k)]
            for x in range(size)
            for divergence in DIVERGENCES.values()
        ),
        broken={
            "one newcomer only": one_newcomer_only,
            "x among its own newcomers": lambda table, size, *rest: (
                mean_over_swaps(table, size, *rest) * F(size - 1, size)
            ),
        },
    )


def test_equality_when_the_release_is_one_of_two_records():
    """N = 2: there is one swap, and nothing to mix."""
    kernel = mechanisms.randomised_response(F(4, 5))
    table = subset.tabulate(kernel, 2, 1)
    worlds = subset.world_laws(kernel, 2, 1, 0)
    for divergence in DIVERGENCES.values():
        assert mean_over_swaps(table, 2, 1, 0, divergence) == divergence(*worlds)


# ---- moments -----------------------------------------------------------------------------------


def statistics():
    rng = Random(12)
    for _ in range(25):
        size = rng.randint(2, 6)
        k = rng.randint(1, size - 1)
        yield (
            {d: F(rng.randint(-9, 9), rng.randint(1, 3)) for d in subset.subsets(size, k)},
            size,
            k,
        )
    for _ in range(10):  # one set sticks out
        size = rng.choice([2, 4, 6])
        q = {d: F(0) for d in subset.subsets(size, size // 2)}
        q[rng.choice(list(q))] = F(1)
        yield q, size, size // 2


def mean_move(q, size, k, x):
    return mean([abs(q[d] - q[e]) for d, e, _ in subset.swaps(size, k, x)])


def first_moment(q):
    centre = mean(q.values())
    return mean([abs(value - centre) for value in q.values()])


def moment_form(sigma, size, k):
    return sigma / min(F(k, size), 1 - F(k, size))


def test_moment_form_holds_for_every_record_and_k():
    assert_bound(
        moment_form,
        (
            ((first_moment(q), size, k), mean_move(q, size, k, x))
            for q, size, k in statistics()
            for x in range(size)
        ),
        broken={
            "the moment": lambda sigma, size, k: sigma,
            "less than twice the moment": lambda sigma, size, k: F(19, 10) * sigma,
        },
    )


def test_twice_the_moment_is_reached():
    q = {frozenset({0}): F(1), frozenset({1}): F(-1)}
    assert mean_move(q, 2, 1, 0) == 2 * first_moment(q) == moment_form(first_moment(q), 2, 1)


# ---- the i.i.d. game ---------------------------------------------------------------------------


def iid_games():
    rng = Random(13)
    for _ in range(8):
        atoms, n = rng.randint(2, 3), rng.randint(1, 3)
        law = finite.random_law(rng, list(range(atoms)))
        kernel = {
            d: finite.random_law(rng, [0, 1, 2], zeros=True)
            for d in product(range(atoms), repeat=n)
        }
        yield law, kernel, n


def mixed(parts):
    total = {}
    for weight, law in parts:
        for a, mass in law.items():
            total[a] = total.get(a, F(0)) + weight * mass
    return total


def place_record(law, n, z):
    """(chance, data set with z at a uniform place, the data set before)."""
    for d in product(law, repeat=n):
        chance = F(1, n)
        for point in d:
            chance *= law[point]
        for j in range(n):
            yield chance, (*d[:j], z, *d[j + 1 :]), d


def iid_couplings():
    """((mean over moves,), divergence of the worlds)."""
    for law, kernel, n in iid_games():
        for z in law:
            moves = list(place_record(law, n, z))
            inside = mixed((c, kernel[d]) for c, d, _ in moves)
            outside = mixed((c, kernel[e]) for c, _, e in moves)
            for divergence in DIVERGENCES.values():
                total = sum(c * divergence(kernel[d], kernel[e]) for c, d, e in moves)
                yield (total,), divergence(inside, outside)


def test_iid_coupling():
    """n = 1 with a fixed z is an average over z' only: nothing less holds everywhere."""
    assert_bound(
        lambda mean: mean,
        iid_couplings(),
        broken={"a tenth less": lambda mean: F(9, 10) * mean},
    )


# ---- the code: Gaussian noise on a sum ----------------------------------------------------------


def noisy_sums():
    """((values, record, k, sigma), mean over swaps of the distance of the noisy sums)."""
    rng = Random(14)
    for _ in range(8):
        size = rng.randint(2, 6)
        k = rng.randint(1, size - 1)
        values = [rng.randint(-16, 16) / 8 for _ in range(size)]
        for sigma in (0.5, 2.0):
            for x in range(size):
                moves = [
                    abs(sum(values[i] for i in d) - sum(values[i] for i in e))
                    for d, e, _ in subset.swaps(size, k, x)
                ]
                distances = [math.erf(move / (2 * math.sqrt(2) * sigma)) for move in moves]
                yield (values, x, k, sigma), math.fsum(distances) / len(distances)


def test_the_neighbour_profile_is_the_mean_over_swaps():
    """``NeighbourProfile.advantage``, whatever k: the swap moves a sum by x - x'."""

    def profile(values, x, k, sigma):
        return NeighbourProfile.from_vectors([[v] for v in values]).advantage(sigma)[x]

    assert_bound(
        lambda *at: profile(*at) * (1 + 1e-14),
        noisy_sums(),
        broken={
            "halved": lambda *at: profile(*at) / 2,
            "twice the noise": lambda values, x, k, sigma: profile(values, x, k, 2 * sigma),
        },
    )
    assert all(profile(*at) <= mean * (1 + 1e-9) + 1e-12 for at, mean in noisy_sums())


def test_the_noise_of_a_release_has_the_distance_of_two_normal_laws():
    """``GaussianNoise.distance`` of a move: 2Φ(move/2s) - 1."""
    cases = [(move, scale) for move in (0.0, 0.1, 1.0, 3.0) for scale in (0.5, 2.0)]

    def distance(move, scale):
        return float(GaussianNoise(scale, 1).distance(np.array([move]))[0])

    assert_bound(
        distance,
        ((at, math.erf(at[0] / (2 * math.sqrt(2) * at[1])) * (1 - 1e-14)) for at in cases),
        broken={"half the move": lambda move, scale: distance(move / 2, scale)},
        excess=1e-9,
    )
