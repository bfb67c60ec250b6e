"""X1: a divergence of the worlds is at most its mean over swaps of the record.

Truth: enumeration of all subsets, or all data sets, in exact rationals.
"""

from fractions import Fraction
from itertools import product
from random import Random

from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_holds

F = Fraction


def chi_squared(p, q):
    """Infinite (None) where q vanishes and p does not."""
    total = F(0)
    for a in finite.outcomes(p, q):
        if not q.get(a, 0):
            return None
        total += (p.get(a, F(0)) - q[a]) ** 2 / q[a]
    return total


def triangular(p, q):
    """Σ (p-q)²/(p+q), a bounded f-divergence."""
    return sum(
        ((p.get(a, F(0)) - q.get(a, F(0))) ** 2 / (p.get(a, F(0)) + q.get(a, F(0))))
        for a in finite.outcomes(p, q)
    )


def stick(gamma):
    return lambda p, q: finite.hockey_stick(p, q, gamma)


def flipped(gamma):
    return lambda p, q: finite.hockey_stick(q, p, gamma)


DIVERGENCES = {
    "total variation": finite.total_variation,
    **{f"stick {g}": stick(g) for g in (F(1, 2), F(3, 2), F(4))},
    **{f"flipped {g}": flipped(g) for g in (F(3, 2), F(4))},
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
    values = [divergence(table[d], table[e]) for d, e, _ in subset.swaps(size, k, x)]
    return None if None in values else sum(values) / len(values)


def one_newcomer_only(table, size, k, x, divergence):
    """Broken: the first outsider instead of a uniform one, so that D' is not uniform."""
    values = [
        divergence(table[d], table[e])
        for d, e, y in subset.swaps(size, k, x)
        if y == min(set(range(size)) - d)
    ]
    return None if None in values else sum(values) / len(values)


def over_all_records(table, size, k, x, divergence):
    """Broken: x counted among its own newcomers, N in place of N - 1."""
    mean = mean_over_swaps(table, size, k, x, divergence)
    return None if mean is None else mean * F(size - 1, size)


def couples(bound):
    """Whether ``bound`` is at least the divergence of the worlds; None is infinite."""

    def holds(table, size, k, x, divergence):
        upper = bound(table, size, k, x, divergence)
        truth = divergence(*subset.world_laws(table, size, k, x))
        return upper is None or (truth is not None and truth <= upper)

    return holds


def test_divergence_is_at_most_its_mean_over_swaps():
    assert_holds(
        couples(mean_over_swaps),
        [
            (subset.tabulate(kernel, size, k), size, k, x, divergence)
            for kernel, size, k in games()
            for x in range(size)
            for divergence in DIVERGENCES.values()
        ],
        broken={
            "one newcomer only": couples(one_newcomer_only),
            "over all records": couples(over_all_records),
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
    moves = [abs(q[d] - q[e]) for d, e, _ in subset.swaps(size, k, x)]
    return sum(moves) / len(moves)


def first_moment(q):
    centre = sum(q.values()) / len(q)
    return sum(abs(value - centre) for value in q.values()) / len(q)


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


def placed(law, n, z):
    """(chance, data set with z at a uniform place, the data set before)."""
    for d in product(law, repeat=n):
        chance = F(1, n)
        for point in d:
            chance *= law[point]
        for j in range(n):
            yield chance, (*d[:j], z, *d[j + 1 :]), d


def iid_couplings():
    """((mean over moves,), divergence of the worlds) wherever the mean is finite."""
    for law, kernel, n in iid_games():
        for z in law:
            moves = list(placed(law, n, z))
            inside = mixed((c, kernel[d]) for c, d, _ in moves)
            outside = mixed((c, kernel[e]) for c, _, e in moves)
            for divergence in DIVERGENCES.values():
                values = [(c, divergence(kernel[d], kernel[e])) for c, d, e in moves]
                if all(v is not None for _, v in values):
                    yield (sum(c * v for c, v in values),), divergence(inside, outside)


def test_iid_coupling():
    """n = 1 with a fixed z is an average over z' only: nothing less holds everywhere."""
    assert_bound(
        lambda mean: mean,
        iid_couplings(),
        broken={"a tenth less": lambda mean: F(9, 10) * mean},
    )
