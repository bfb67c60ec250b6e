"""Results of A25 and its preprints that no other file checks: definitions, steps of proofs, asides.

Truth: enumeration of the i.i.d. game in rationals, unless a test states otherwise.
"""

import math
from fractions import Fraction
from itertools import pairwise, permutations, product
from random import Random

import mpmath
import numpy as np
import pytest
from scipy import special

from memberbound.iid.worst_case import diversity, leak_of_law
from oracle import finite, iid, mechanisms
from oracle.claims import assert_bound, assert_exact, assert_holds, assert_lower_bound
from oracle.readoffs import price

F = Fraction
GAMMAS = [F(1, 4), F(2, 3), F(1), F(5, 4), F(3)]


def games(seed, count=12):
    """(law, n, release) of random small games, and the record itself released."""
    yield from mechanisms.random_iid_games(seed, count)
    yield [F(1, 2), F(1, 2)], 1, iid.injective(1, 2)


def laws(seed, count=12):
    rng = Random(seed)
    for _ in range(count):
        yield mechanisms.random_iid_law(rng, rng.randint(2, 3)), rng.randint(1, 4)


# ── What Δ and MIS are ────────────────────────────────────────────────────────────────────────────


def test_P5_eq7_eq26_the_divergence_by_its_generator():
    """D_γ(out, in) = ½max(1,γ)·[Σ|out − in/γ| − |1 − 1/γ|], summed over pairs (release, record).

    Truth: the supremum over all events.  Given the record the sums are those of eq. 7.
    """

    def form(pair, gamma, offset=1):
        law_in, law_out = pair
        scale = max(F(1), gamma) / 2
        total = sum(abs(law_out[a] - law_in.get(a, 0) / gamma) for a in law_out)
        return scale * (total - offset * abs(1 - 1 / gamma))

    truth = [
        ((pair, gamma), iid.divergence(*pair[::-1], gamma, by_events=True))
        for pair in (iid.joint_laws(*game) for game in games(505))
        for gamma in GAMMAS
    ]
    assert_exact(
        form,
        truth,
        broken={
            "worlds exchanged": lambda pair, g: form(pair[::-1], g),
            "without offset": lambda pair, g: form(pair, g, offset=0),
        },
    )
    assert all(0 <= value <= 1 for _, value in truth)


def test_T6_T3_2_best_accuracy_security_and_the_older_bounds():
    """Acc* = max(ν, λ(1−ν)) + min(1, 1/γ)νΔ, MIS = 1 − Δ; at λ = 1 within ν_*(1 ∓ …) of TV."""
    settings = [(F(1, 2), F(1)), (F(1, 5), F(1)), (F(4, 5), F(1)), (F(1, 3), F(5, 2))]
    settings += [(F(2, 3), F(1, 3)), (F(3, 4), F(3))]

    def best(nu, lam, delta, factor=min):
        gamma = nu / (lam * (1 - nu))
        return max(nu, lam * (1 - nu)) + factor(F(1), 1 / gamma) * nu * delta

    exact, lower, upper = [], [], []
    for pair in (iid.joint_laws(*game) for game in games(606)):
        for nu, lam in settings:
            low, high = iid.accuracies_by_attacks(pair, nu, lam)
            leak = iid.leakage(pair, iid.gamma(nu, lam))
            exact.append(((nu, lam, leak), high))
            assert iid.security(pair, nu, lam, by_attacks=True) == 1 - leak
            if lam == 1:
                tv = finite.total_variation(*pair)
                lower.append(((min(nu, 1 - nu), tv), low))
                upper.append(((min(nu, 1 - nu), tv), high))
    assert_exact(best, exact, broken={"maximum": lambda *at: best(*at, factor=max)})
    assert_lower_bound(
        lambda nu, tv: nu - nu * tv, lower, broken={"higher": lambda nu, tv: nu - nu * tv / 2}
    )
    assert_bound(
        lambda nu, tv: 1 - nu + nu * tv,
        upper,
        broken={"lower": lambda nu, tv: 1 - nu + nu * tv / 2},
    )


def test_R8_eq9_dp_bounds_the_leak():
    """(ε, δ)-DP learners with a leak of δ beside a private channel; g stands for e^ε."""
    rng, private = Random(88), []
    for _ in range(12):
        g, delta = 1 + F(rng.randint(0, 16), 40), F(rng.randint(0, 4), 20)
        atoms, n = rng.choice([(2, 1), (3, 1), (2, 2)])
        hists = list(iid.histograms(n, atoms))
        channel = mechanisms.random_dp_laws(rng, g, 3, len(hists))
        release = {
            h: {a: (1 - delta) * m for a, m in law.items()} | {("leak", h): delta}
            for h, law in zip(hists, channel, strict=True)
        }
        private.append(
            (iid.joint_laws(mechanisms.random_iid_law(rng, atoms), n, release), g, delta)
        )
    naming = iid.map_release(1, 16, lambda h: {h: F(1, 10), "none": F(9, 10)})
    private.append((iid.joint_laws([F(1, 16)] * 16, 1, naming), F(1), F(1, 10)))

    def eq9(g, delta, nu):
        gamma = price(nu, 1.0)
        bracket = max(F(0), g - 1 / gamma) - max(F(0), 1 - 1 / gamma) + delta
        return min(F(1), max(F(1), gamma) * bracket)

    truth = [
        ((g, delta, nu), iid.leakage(pair, price(nu, 1.0)))
        for pair, g, delta in private
        for nu in (0.5, 0.8, 0.25)
    ]
    assert_bound(eq9, truth, {"delta forgotten": lambda g, delta, nu: eq9(g, F(0), nu)})


# ── Steps of T14 ──────────────────────────────────────────────────────────────────────────────────


def test_eq39_eq24_knowing_one_record_multiplies_a_histogram_s_probability():
    """By k_j/(n·p_j); truth: all ordered data sets, conditioned on their first record."""

    def given_first(p, n, j, histogram):
        total = F(0)
        for rest in product(range(len(p)), repeat=n - 1):
            if tuple((j, *rest).count(z) for z in range(len(p))) == histogram:
                total += math.prod((p[z] for z in rest), start=F(1))
        return total

    assert_exact(
        lambda h, j, n, p: F(h[j], n) / p[j],
        (
            ((h, j, n, p), given_first(p, n, j, h) / mass)
            for p, n in laws(24, 8)
            for h, mass in iid.multinomial(p, n).items()
            for j in range(len(p))
        ),
        broken={
            "without the mean": lambda h, j, n, p: F(h[j], n),
            "of the other records": lambda h, j, n, p: F(h[j] - 1, max(n - 1, 1)) / p[j],
        },
    )


def partitions(items):
    """All set partitions, as lists of blocks."""
    if not items:
        yield []
        return
    head, *tail = items
    for blocks in partitions(tail):
        yield [[head], *blocks]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], [head, *block], *blocks[i + 1 :]]


def test_L26_L5_5_deterministic_learners_by_their_partition_of_the_histograms():
    """Δ at γ = 1 from the partition (A24-L5.5), and T14 is the maximum over all of them."""

    def from_partition(p, n, release, outside=abs, inside=lambda x: x):
        law = iid.multinomial(p, n)
        cells = {}
        for h, label in release.items():
            cells.setdefault(label, []).append(h)
        return (
            sum(
                outside(sum(law[h] * inside(p[j] - F(h[j], n)) for h in cell))
                for j in range(len(p))
                for cell in cells.values()
            )
            / 2
        )

    exact, largest = [], []
    for p, n in (([F(1, 5), F(4, 5)], 3), ([F(1, 6), F(1, 3), F(1, 2)], 2)):
        pairs = []
        for blocks in partitions(list(iid.histograms(n, len(p)))):
            release = {h: label for label, block in enumerate(blocks) for h in block}
            pairs.append(iid.joint_laws(p, n, release))
            exact.append(((p, n, release), finite.total_variation(*pairs[-1])))
        largest += [((p, n, g), max(iid.leakage(pair, g) for pair in pairs)) for g in GAMMAS]
    assert_exact(
        from_partition, exact, broken={"inside": lambda *at: from_partition(*at, inside=abs)}
    )
    assert_exact(
        iid.worst_leak, largest, broken={"halved": lambda p, n, g: iid.worst_leak(p, n, g) / 2}
    )


def test_L27_L28_the_worst_leak_rises_to_gamma_one_and_falls_from_there():
    """x ↦ ΣE|xB/n − p| − (x−1) on [1, ∞), and x ↦ |xt − p|/x − p(1/x − 1) on (0, 1]."""

    def falls(p, n, low, high, offset=1):
        first, second = (
            x * sum(iid.mean_deviation(n, q, 1 / x) for q in p) - offset * (x - 1)
            for x in (low, high)
        )
        return first >= second

    steps = list(pairwise([1 + F(i, 6) for i in range(19)] + [F(10), F(100)]))
    assert_holds(
        falls,
        [(p, n, *step) for p, n in laws(27, 8) for step in steps],
        broken={"half of the offset": lambda *at: falls(*at, offset=F(1, 2))},
    )

    def rises(t, p, low, high, offset=1):
        first, second = (abs(x * t - p) / x - offset * p * (1 / x - 1) for x in (low, high))
        return first <= second

    values = [F(0), F(1, 9), F(1, 2), F(5, 7), F(1), F(3)]
    steps = list(pairwise([F(1, 1000), *(F(i, 24) for i in range(1, 25))]))
    assert_holds(
        rises,
        [(t, p, *step) for t, p, step in product(values, values, steps)],
        broken={"without offset": lambda *at: rises(*at, offset=0)},
    )


def test_L31_eq29_de_moivre():
    """Partial sums of the binomial's deviation; at ⌊np⌋, summed over atoms, the leak at γ = 1."""
    sums = []
    for p, n in product([F(1, 50), F(1, 3), F(1, 2), F(7, 8)], range(1, 10)):
        terms = [m * (n * p - k) for k, m in enumerate(iid.binomial(n, p))]
        sums += [((n, m, p), sum(terms[: m + 1])) for m in range(n + 1)]
    one_off = {"index": lambda n, m, p: m * math.comb(n, m) * p**m * (1 - p) ** (n - m + 1)}
    assert_exact(iid.de_moivre, sums, broken=one_off)

    def closed_form(p, n, whole=math.floor):
        return sum(iid.de_moivre(n, min(whole(n * x), n), x) for x in p) / n

    leaks = [
        ((p, n), iid.leakage(iid.joint_laws(p, n, iid.injective(n, len(p))), F(1)))
        for p, n in [*laws(29, 8), ([F(1, 4)] * 4, 3)]
    ]
    assert_exact(closed_form, leaks, broken={"nearest": lambda p, n: closed_form(p, n, round)})


# ── Asides ────────────────────────────────────────────────────────────────────────────────────────


def test_L23_the_diversity_is_largest_at_the_uniform_law():
    rng, truth = np.random.default_rng(23), []
    for cells in (2, 3, 10, 100):
        drawn = [rng.dirichlet(np.full(cells, a)) for a in (0.1, 1.0, 50.0) for _ in range(20)]
        truth += [((cells,), diversity(p).c_k) for p in [*drawn, np.full(cells, 1 / cells)]]
    smaller = {"smaller": lambda cells: math.sqrt(cells - 1) * 0.9999}
    assert_bound(lambda cells: math.sqrt(cells - 1) * (1 + 1e-14), truth, broken=smaller)


def test_L20_any_schedule_of_leaks_can_be_kept():
    """Mass ε_i − ε_{i+1} on enough atoms that n_i records rarely repeat one.

    A block of mass w on K > n atoms leaks w(1 − w/K)ⁿ ≥ w(1 − n/K).  Blocks i, i+1, … have mass
    s_i > ε_i together, so K_j ≥ n_i·s_i/(s_i − ε_i) for all j ≥ i keeps ε_i (twice that is used).
    """
    schedule = [(10, 0.9), (10**3, 0.8), (10**6, 0.7), (10**9, 0.6), (10**12, 0.5)]
    aims = [1.0, *((a + b) / 2 for (_, a), (_, b) in pairwise(schedule))]
    masses = np.array([a - b for a, b in zip(aims, [*aims[1:], 0.0], strict=True)])
    cells, needed = [], 1.0
    for (n, leak), aim in zip(schedule, aims, strict=True):
        needed = max(needed, 2.0 * n * aim / (aim - leak))
        cells.append(math.ceil(needed))

    def keeps(cells):
        return lambda n, leak: leak_of_law(masses / cells, n, multiplicity=cells) >= leak

    cells = np.array(cells, dtype=float)
    fewer = np.maximum(np.floor(cells / 1000), 1)
    assert_holds(keeps(cells), schedule, broken={"too few atoms": keeps(fewer)})


def test_P18_symmetric_and_redundancy_invariant_means_a_function_of_frequencies():
    data = [d for k in range(1, 7) for d in product("ab", repeat=k)]

    def frequency(d):
        return F(d.count("a"), len(d))

    def is_symmetric(learner):
        ordered = [d for d in data if list(d) == sorted(d)]
        return all(learner(other) == learner(d) for d in ordered for other in permutations(d))

    def is_invariant(learner):
        return all(learner(d * r) == learner(d) for d in data for r in range(1, 6 // len(d) + 1))

    def is_function(learner):
        values = {}
        for d in data:
            values.setdefault(frequency(d), set()).add(learner(d))
        return all(len(seen) == 1 for seen in values.values())

    base = {d: frequency(d) > F(1, 3) for d in data}
    tables = [base] + [base | {changed: not base[changed]} for changed in data[::6]]
    learners = [len, lambda d: d[0], lambda d: d.count("a"), *(t.__getitem__ for t in tables)]
    assert_exact(
        lambda learner: is_symmetric(learner) and is_invariant(learner),
        [((learner,), is_function(learner)) for learner in learners],
        broken={"symmetric alone": is_symmetric, "invariant alone": is_invariant},
    )


@pytest.mark.parametrize(("s", "n"), [(100, 2), (1000, 3), (10**4, 10), (10**5, 20)])
def test_P19_two_layer_classifier_on_the_sphere(s, n):
    """P(max|x_iᵀx_j| > (s+1)/(3n) − 1) ≤ C(n,2)·P(Beta(½, (s−1)/2) > cos²) ≤ s^{3 − ln(s)/4}.

    Truth: the density of a cosine integrated to 30 digits.
    """
    cosine = ((s + 1) / (3 * n) - 1) / s
    ceiling = math.comb(n, 2) * float(special.betaincc(0.5, (s - 1) / 2, cosine**2))
    with mpmath.workdps(30):
        half = mpmath.mpf(s) / 2
        weight = mpmath.gamma(half) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(half - 0.5))
        steps = [min(1, cosine + k * 0.75 / mpmath.sqrt(s)) for k in range(41)]
        tail = 2 * weight * mpmath.quad(lambda c: (1 - c * c) ** (half - 1.5), steps)
        assert ceiling == pytest.approx(float(math.comb(n, 2) * tail), rel=1e-7)
    printed = s ** (3 - math.log(s) / 4)
    assert ceiling <= printed
    assert (printed < 1) == (s > math.exp(12))
