"""Functions of A25 §5.2, App. C and G, and of A24 §5, against enumeration in rationals."""

import math
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.papers import aubinais2024, aubinais2025
from oracle import iid, mechanisms
from oracle.claims import assert_bound, assert_exact, assert_lower_bound

F = Fraction
GAMMAS = [F(1, 4), F(2, 3), F(1), F(5, 4), F(3)]


def laws(seed, count=10):
    rng = Random(seed)
    for _ in range(count):
        yield mechanisms.random_iid_law(rng, rng.randint(2, 4)), rng.randint(1, 5)


def test_worst_leak_and_its_shares_at_every_price():
    truth = []
    for p, n in laws(14):
        for gamma in GAMMAS:
            at = ([float(x) for x in p], n, 0.5, float(1 / gamma))
            truth.append((at, iid.worst_leak(p, n, gamma) * (1 - F(1, 10**9))))
    for form in (
        lambda *at: F(aubinais2025.leak_of_law(*at)),
        lambda *at: sum(map(F, aubinais2025.shares_of_atoms(*at).tolist())),
    ):
        assert_bound(
            form,
            truth,
            {"inverse price": lambda p, n, v, w, form=form: form(p, n, v, 1 / w)},
        )
    grid = aubinais2025.leak_of_law([0.5, 0.5], [1, 2, 10], nu=[[0.5], [0.9]])
    assert grid.shape == (2, 3)
    assert aubinais2025.leak_of_uniform(2, 10) == pytest.approx(grid[0, 2], rel=1e-12)


def test_leak_of_every_partition_of_the_histograms():
    """Random learners of the histogram; truth: the two worlds from all histograms."""
    rng, truth = Random(55), []
    for p, n in laws(5, 14):
        listed = list(iid.histograms(n, len(p)))
        table = {h: rng.randint(0, 2) for h in listed}
        for gamma in GAMMAS:
            leak = iid.leak_of_learner(table.__getitem__, p, n, gamma)
            truth.append(((p, n, table.__getitem__, gamma), leak))
            # A24-L5.5 never exceeds A25-T14, which the histogram itself reaches.
            assert leak <= aubinais2025.leak_of_learner(p, n, tuple, gamma)
            assert aubinais2025.leak_of_learner(p, n, tuple, gamma) == iid.worst_leak(p, n, gamma)
    form = aubinais2024.leak_of_learner
    assert_exact(form, truth, {"at γ = 1": lambda p, n, f, g: form(p, n, f)})
    with pytest.raises(InputError, match="histograms"):
        form([F(1, 50)] * 50, 20, tuple)


def test_likelihood_ratio_of_a_histogram():
    """Truth: all ordered data sets, conditioned on their first record."""

    def given_first(p, n, j, histogram):
        chance = F(0)
        for rest in product(range(len(p)), repeat=n - 1):
            if tuple((j, *rest).count(z) for z in range(len(p))) == histogram:
                chance += math.prod((p[z] for z in rest), start=F(1))
        return chance

    truth = [
        ((h, p, j), given_first(p, n, j, h) / mass)
        for p, n in laws(24, 4)
        for h, mass in iid.multinomial(p, n).items()
        for j in range(len(p))
    ]

    def form(h, p, j):
        return pytest.approx(aubinais2024.histogram_ratio(h, [float(x) for x in p], j), rel=1e-12)

    broken = {"without the mean": lambda h, p, j: pytest.approx(h[j] / sum(h), rel=1e-12)}
    assert_exact(form, [(at, float(value)) for at, value in truth], broken)


def test_maximum_of_bernoulli_records_at_every_price():
    truth = [
        ((float(p), n, 0.5, float(1 / g)), iid.leakage(
            iid.joint_laws([1 - F(float(p)), F(float(p))], n, mechanisms.max_bernoulli(n)),
            1 / F(float(1 / g)),
        ))
        for p in (F(1, 10), F(1, 3), F(4, 5))
        for n in (1, 2, 7, 20)
        for g in GAMMAS
    ]  # fmt: skip

    def form(*at):
        return F(aubinais2025.leak_of_maximum(*at))

    broken = {
        "half": lambda *at: form(*at) / 2,
        "one record more": lambda p, n, v, w: form(p, n + 1, v, w),
    }
    assert_bound(form, truth, broken)
    for at, value in truth:
        assert form(*at) <= value * (1 + F(1, 10**9)) + F(1, 10**12)


def test_interval_of_the_diversity_covers_and_its_twin_does_not():
    """2000 tables from three laws; false alarm of the count below 1e-6."""
    rng, misses, naive = np.random.default_rng(18), 0, 0
    for p in ([0.25] * 4, [0.9, 0.05, 0.03, 0.02], list(rng.dirichlet(np.ones(30)))):
        c_k = aubinais2025.diversity(p).c_k
        for counts in rng.multinomial(500, p, size=200):
            low, high = aubinais2025.diversity_of_table(counts, cells=len(p))
            unknown = aubinais2025.diversity_of_table(counts)
            misses += not (low <= c_k <= high) or unknown.lower > c_k
            assert unknown.upper == math.inf
            # The broken twin ignores the sampling error.
            share = counts / 500
            naive += np.sqrt(share * (1 - share)).sum() < c_k
    assert misses <= 60
    assert naive > 300
    # Unseen cells count: two of four never occur.
    low, high = aubinais2025.diversity_of_table([600, 400], cells=4)
    assert high > aubinais2025.diversity_of_table([600, 400], cells=2).upper
    assert aubinais2025.diversity_of_table([10], cells=1) == (0.0, 0.0)


def test_bounds_through_the_diversity():
    upper, lower = [], []
    for p, n in [*laws(15, 12), ([F(1, 4)] * 4, 40), ([F(1, 7)] * 7, 70)]:
        numbers = [float(x) for x in p]
        c_k, leak = aubinais2025.diversity(numbers).c_k, iid.worst_leak(p, n)
        upper.append(((c_k * (1 + 1e-12), n), leak))
        low, high = aubinais2025.leak_range_from_diversity(numbers, n)
        assert low <= leak <= high
        if n >= 2 and n * min(p) >= 1:
            lower.append(((c_k * (1 - 1e-12), n, float(min(p))), leak))
    assert_bound(
        lambda *at: F(aubinais2025.leak_from_diversity(*at)),
        upper,
        {"a quarter": lambda *at: F(aubinais2025.leak_from_diversity(*at)) / 4},
    )
    assert_lower_bound(
        lambda *at: F(aubinais2024.leak_lower_from_diversity(*at)),
        lower,
        {"20 times": lambda *at: 20 * F(aubinais2024.leak_lower_from_diversity(*at))},
    )
    with pytest.raises(InputError, match="smallest"):
        aubinais2024.leak_lower_from_diversity(31.6, 2, 0.001)
    size = aubinais2025.size_from_diversity(4.3, 0.1)
    assert aubinais2025.leak_from_diversity(4.3, size) <= 0.1
    assert aubinais2025.leak_from_diversity(4.3, size - 2) > 0.1


def test_diversity_against_indices_and_its_largest_value():
    rng = np.random.default_rng(23)
    for cells in (2, 5, 40):
        top = aubinais2025.largest_diversity(cells)
        for p in [*rng.dirichlet(np.full(cells, 0.3), 40), np.full(cells, 1 / cells)]:
            found = aubinais2025.diversity(p)
            low, high = aubinais2025.diversity_from_indices(
                min(1.0, found.gini_simpson), found.shannon, cells
            )
            assert low * (1 - 1e-12) <= found.c_k <= high * (1 + 1e-12)
            assert found.c_k <= top * (1 + 1e-12)
            lower, upper = aubinais2025.diversity_given_largest_atom(cells, float(p.max()))
            assert lower * (1 - 1e-9) <= found.c_k <= upper * (1 + 1e-9)
    # In bits the entropy is not a lower bound (ten equal atoms): the twin must fail.
    assert math.log2(10) > 3 == pytest.approx(aubinais2025.diversity([0.1] * 10).c_k)


def test_a_law_keeps_any_schedule_of_leaks():
    schedule = [10, 10**3, 10**6, 10**9, 10**12], [0.9, 0.8, 0.7, 0.6, 0.5]
    masses, cells = aubinais2025.law_that_leaks(*schedule)
    assert (aubinais2025.leak_of_law(masses, schedule[0], multiplicity=cells) >= schedule[1]).all()
    fewer = np.maximum(np.floor(cells / 1000), 1)
    short = aubinais2025.leak_of_law(masses * cells / fewer, schedule[0], multiplicity=fewer)
    assert not (short >= schedule[1]).all()
    with pytest.raises(InputError, match="rise"):
        aubinais2025.law_that_leaks([10, 5], [0.9, 0.8])


def test_single_atoms():
    exact = []
    for p, n in product([F(1, 50), F(1, 3), F(1, 2), F(7, 8)], (5, 9, 40)):
        half = iid.mean_deviation(n, p) / 2
        share = float(aubinais2025.shares_of_atoms(float(p), n))
        assert share == pytest.approx(float(half), rel=1e-9)
        if 1 <= math.floor(n * p) <= n - 2:
            low, high = aubinais2025.deviation_range(float(p), n)
            assert low <= half <= high
        for m in range(n + 1):
            exact.append(((m, n, float(p)), float(iid.de_moivre(n, m, p))))

    def form(m, n, p):
        return pytest.approx(aubinais2025.partial_deviation(m, n, p), rel=1e-11, abs=1e-300)

    assert_exact(form, exact, {"index": lambda m, n, p: form(min(m + 1, n), n, p)})
    with pytest.raises(InputError, match="⌊np⌋"):
        aubinais2025.deviation_range(0.99, 10)


def test_disagreement_finds_learners_beyond_frequencies():
    data = [d for k in range(1, 5) for d in product("ab", repeat=k)]
    base = {d: F(d.count("a"), len(d)) > F(1, 3) for d in data}
    assert aubinais2025.disagreement(base.__getitem__, "ab", 4) is None
    for changed in data[::5]:
        if not 0 < changed.count("a") < len(changed):
            continue
        first, second = aubinais2025.disagreement(
            (base | {changed: not base[changed]}).__getitem__, "ab", 4
        )
        assert F(first.count("a"), len(first)) == F(second.count("a"), len(second))
