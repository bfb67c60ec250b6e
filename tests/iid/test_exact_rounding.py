"""Every number of the i.i.d. stage that is rounded outwards, against 60 digits or fractions."""

import math
from fractions import Fraction
from importlib import resources
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import IidGame
from memberbound.iid import certificates
from memberbound.iid.certificates import (
    certify_counts,
    leak_beyond_the_table,
    smallest_certifiable_leak,
)
from memberbound.iid.count_functions import (
    closed_count_function,
    heavy_discount_lower,
    heavy_probability_lower,
    poisson_deviation_lower,
    tabulated_count_functions,
    totals_upper,
    walk_function,
    walk_length,
)
from memberbound.iid.gaussian_mean import leak_of_gaussian_mean_bound
from memberbound.iid.leak_bounds import certified_law, certified_uniform, certify_beyond_the_table
from memberbound.iid.profiles import (
    CountProfile,
    JointProfile,
    split_leak_upper,
    two_sample_leak_upper,
)
from memberbound.iid.record_leak import cell_probability_lower, record_leak_upper, record_leaks
from memberbound.iid.sample_sizes import smallest_n_for_records, smallest_n_for_table
from memberbound.iid.worst_case import (
    checked_law,
    diversity_given_largest_atom,
    leak_from_diversity,
    leak_of_law,
    leak_of_uniform,
)
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from oracle import iid

F = Fraction


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def real(value):
    return mp.mpf(F(value).numerator) / F(value).denominator


def above(value, truth, tight="1e-12"):
    """At or above the truth, and hardly above."""
    return truth <= mp.mpf(value) <= truth * (1 + mp.mpf(tight))


def below(value, truth, tight="1e-12"):
    return truth * (1 - mp.mpf(tight)) <= mp.mpf(value) <= truth


def profiles(seed, draws, cells=8, most=60):
    rng = Random(seed)
    for _ in range(draws):
        counts = [rng.randint(1, most) for _ in range(rng.randint(1, cells))]
        yield rng, CountProfile.from_counts(counts)


# ---- count functions ------------------------------------------------------------------------


def test_count_functions_are_from_above():
    counts = np.arange(0, 2400)
    kappa = 1 / mp.sqrt(2 * mp.pi)
    closed = closed_count_function().at(counts).tolist()
    assert closed[0] == 0.0
    for count in range(1, 2400, 7):
        assert above(closed[count], 1 - kappa + kappa * mp.sqrt(count))
    central, walks = mp.mpf(1), walk_length(np.arange(0, 2600)).tolist()
    for count in range(2600):
        m = count // 2
        if count and count % 2 == 0:
            central *= mp.mpf(2 * m - 1) / (2 * m)
        assert above(walks[count], count * central, "2e-8")
        if count <= 2001:
            assert above(walks[count], count * central, "2e-12")
    far = np.array([10**6, 10**6 + 1, 10**12])
    for count, walk in zip(far.tolist(), walk_length(far).tolist(), strict=True):
        m = mp.mpf(count // 2)
        # Two terms of the expansion of the central binomial share are on opposite sides of it.
        low = (1 - 1 / (8 * m)) / mp.sqrt(mp.pi * m)
        assert count * low <= walk <= count * (low + 1 / (100 * m * m)) * (1 + mp.mpf("1e-11"))
    for function in tabulated_count_functions():
        offset = mp.mpf("0.0203") * mp.mpf(function.exponent)
        heights = function.at(np.arange(300, 6000))
        for count in [*range(300, 400), *range(5000, 6000, 7)]:
            truth = kappa * mp.sqrt(count + mp.mpf(0.5)) + offset
            assert above(heights[count - 300], truth)


def test_tabulated_values_are_the_decimals_of_their_file_from_above():
    text = resources.files("memberbound.iid").joinpath("poisson_table.csv").read_text("utf-8")
    rows = [line.split(",") for line in text.splitlines() if line[0].isdigit()]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    for j, function in enumerate(tabulated_count_functions(), 1):
        for row, value in zip(rows, function.at(np.arange(1, len(rows) + 1)), strict=True):
            assert F(row[j]) <= F(float(value)) <= F(row[j]) * (1 + F(1, 2**48))
        assert function.at(np.zeros(1, dtype=np.int64)).tolist() == [0.0]


def test_poisson_deviations_are_from_below():
    rng = Random(1)
    means = [10 ** rng.uniform(-6, 3) for _ in range(200)]
    means += [10 ** rng.uniform(3, 9) for _ in range(200)]
    for mean in means:
        whole = mp.floor(mp.mpf(mean))
        log = (whole + 1) * mp.log(mp.mpf(mean)) - mp.mpf(mean) - mp.loggamma(whole + 1)
        assert below(poisson_deviation_lower(mean), mp.exp(log), "2e-10")


def test_thinned_totals_are_above_the_mean_over_all_choices():
    """Values of the function are taken as they are: what is left is masses and sums."""
    rng = Random(2)
    functions = [closed_count_function(), walk_function(), *tabulated_count_functions()[:2]]
    for _ in range(12):
        counts = [rng.randint(1, 12) for _ in range(rng.randint(1, 4))]
        profile = CountProfile.from_counts(counts)
        for n in range(1, profile.rows + 1):
            got = totals_upper(functions, profile, n)
            for function, value in zip(functions, got, strict=True):
                heights = [F(x) for x in function.at(np.arange(14)).tolist()]
                truth = sum(
                    heights[a]
                    * F(math.comb(c, a) * math.comb(profile.rows - c, n - a))
                    / math.comb(profile.rows, n)
                    for c in counts
                    for a in range(max(0, c + n - profile.rows), min(c, n) + 1)
                )
                assert truth <= F(value) <= truth * (1 + F(1, 10**9))
    profile = CountProfile.from_counts([5, 3])
    with pytest.raises(InputError):
        totals_upper(functions, profile, 9)


def test_means_beyond_the_window_use_the_concave_function_from_above():
    kappa = 1 / mp.sqrt(2 * mp.pi)
    profile = CountProfile.from_counts([20_000, 30_011])
    for h, shift, add in (
        (closed_count_function(), mp.mpf(0), 1 - kappa),
        (tabulated_count_functions()[0], mp.mpf(0.5), mp.mpf(0)),
    ):
        for n in range(20_001, 20_019):
            means = [mp.mpf(c) * n / profile.rows for c in (20_000, 30_011)]
            truth = sum(kappa * mp.sqrt(mean + shift) + add for mean in means)
            assert above(totals_upper([h], profile, n)[0], truth, "1e-9")


def binomial_tail(rows, count, p):
    """P(Bin ≥ c)."""
    terms = (mp.binomial(rows, k) * p**k * (1 - p) ** (rows - k) for k in range(count))
    return 1 - mp.fsum(terms)


def test_probabilities_of_cells_are_from_below():
    rng = Random(3)
    for _ in range(20):
        rows, beta = rng.randint(5, 120), 10 ** rng.uniform(-6, -0.3)
        counts = sorted({rng.randint(1, rows) for _ in range(3)})
        for count, value in zip(counts, heavy_probability_lower(rows, counts, beta), strict=True):
            if value > 0:
                share = mp.mpf(beta) / 64
                assert binomial_tail(rows, count, mp.mpf(value)) <= share
                more = mp.mpf(value) * (1 + mp.mpf("1e-8"))
                assert binomial_tail(rows, count, more) > share
                # The count may be used only if it is clearly above the threshold.
                assert count >= 1 + mp.mpf(rows - 1) / 64
                assert binomial_tail(rows, count, mp.mpf(1) / 64) <= share
    for _ in range(30):
        rows, level = rng.randint(5, 80), rng.uniform(0.1, 0.999)
        count = rng.randint(2, rows)
        ladder = [2]
        while ladder[-1] < rows:
            ladder.append(min(rows, max(ladder[-1] + 1, math.floor(ladder[-1] * 1.05))))
        step = max(s for s in ladder if s <= count)
        value = mp.mpf(cell_probability_lower(rows, count, level))
        share = (1 - mp.mpf(level)) / len(ladder)
        assert 0 < value <= mp.mpf(step - 1) / rows * (1 + mp.mpf("1e-15"))
        assert binomial_tail(rows, step, value) <= share * value
        if value < mp.mpf(step - 1) / rows * (1 - mp.mpf("1e-9")):
            more = value * (1 + mp.mpf("1e-7"))
            assert binomial_tail(rows, step, more) > share * more
    assert cell_probability_lower(50, 1) == cell_probability_lower(50, 0) == 0.0
    assert cell_probability_lower(50, 80) == cell_probability_lower(50, 50)


def test_the_discount_of_heavy_cells_is_from_below():
    """Σ g(np) - t(p) at the bounds of the probabilities, in 60 digits."""
    rng = Random(4)
    for _ in range(30):
        counts = [rng.randint(100, 3000) for _ in range(rng.randint(1, 5))]
        profile = CountProfile.from_counts(counts)
        n = rng.choice([profile.rows, rng.randint(1, profile.rows)])
        bounds = heavy_probability_lower(profile.rows, profile.count.tolist(), 0.05)
        truth = mp.mpf(0)
        for p, count, cells in zip(bounds, profile.count, profile.cells, strict=True):
            if p > 0 and count > profile.rows / 64:
                mean = n * mp.mpf(p)
                whole = mp.floor(mean)
                log = (whole + 1) * mp.log(mean) - mean - mp.loggamma(whole + 1)
                most = mp.floor(mean) if mp.floor(mean) < n else mp.mpf(n - 1)
                mass = mp.binomial(n - 1, most) * mp.mpf(p) ** most
                mass *= (1 - mp.mpf(p)) ** (n - 1 - most)
                deviation = n * mp.mpf(p) * (1 - mp.mpf(p)) * mass
                truth += int(cells) * (mp.exp(log) - deviation)
        value = heavy_discount_lower(profile, n, 0.05)
        assert truth * (1 - mp.mpf("1e-7")) <= value <= truth
    # A cell of exactly one in 64 rows is not heavy.
    light = CountProfile.from_counts([1000] * 64)
    assert heavy_discount_lower(light, light.rows, 0.05) == 0.0


# ---- one and two samples --------------------------------------------------------------------


def test_the_split_is_above_the_mean_over_all_choices():
    rng = Random(5)
    for _ in range(40):
        counts = [rng.randint(1, 30) for _ in range(rng.randint(1, 6))]
        profile = CountProfile.from_counts(counts)
        rows, beta = profile.rows, rng.choice([0.05, 0.999, 1 - 1e-9])
        if rows < 2:
            continue
        n = rng.randint(1, rows - 1)
        mean = sum(
            abs(F(a, n) - F(c - a, rows - n))
            * F(math.comb(c, a) * math.comb(rows - c, n - a), math.comb(rows, n))
            for c in counts
            for a in range(max(0, c + n - rows), min(c, n) + 1)
        )
        truth = real(mean / 2) + mp.sqrt(-2 * mp.log(mp.mpf(beta)) / rows)
        value = split_leak_upper(profile, n, beta)
        assert above(value, min(mp.mpf(1), truth), "1e-9")
    for n in (8, 9):
        with pytest.raises(InputError):
            split_leak_upper(CountProfile.from_counts([5, 3]), n, 0.05)
    # One cell that holds every row: the confidence term alone.
    for rows in range(40, 240):
        one = split_leak_upper(CountProfile.from_counts([rows]), rows // 2, 0.05)
        assert above(one, mp.sqrt(-2 * mp.log(mp.mpf(0.05)) / rows), "1e-13")


def test_the_distance_of_two_samples_is_from_above():
    rng = Random(6)
    for _ in range(200):
        size = rng.randint(1, 6)
        train = [rng.randint(0, 40) for _ in range(size)] + [1]
        reference = [rng.randint(0, 4000) for _ in range(size)] + [1]
        joint = JointProfile.from_counts(train, reference)
        n, m = sum(train), sum(reference)
        distance = sum(abs(F(a, n) - F(b, m)) for a, b in zip(train, reference, strict=True)) / 2
        beta = 1 - 10 ** rng.uniform(-12, -0.01)
        width = mp.sqrt(-mp.log(mp.mpf(beta)) / 2 * (mp.mpf(1) / n + mp.mpf(1) / m))
        assert above(two_sample_leak_upper(joint, beta), min(mp.mpf(1), real(distance) + width))


# ---- certificates ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_their_bounds_less_the_discount_from_above(seed):
    for rng, profile in profiles(seed, 25, most=500):
        rows = profile.rows
        n = rng.choice([rows, max(1, rows // 3)])
        shares = certificates._SHARES_ALL_ROWS if n == rows else certificates._SHARES_WITH_REST
        totals = totals_upper(
            [tabulated_count_functions()[0], closed_count_function(), walk_function()], profile, n
        )
        less = heavy_discount_lower(profile, n, 0.05 * shares["heavy cells"])
        found = certificates._candidates(profile, n, 0.05, None)
        assert (certificates.SPLIT in found) == (n < rows)
        names = ("count function", "closed count function", "rademacher")
        for name, total, discount in zip(names, totals, (less, less, 0.0), strict=True):
            kind = f"{name}, self-bounding"
            wanted = certificates.self_bounding_upper(total, 0.05 * shares[kind], n / rows)
            exact = min(F(1), max(F(0), F(wanted) - F(discount)) / n)
            assert exact <= F(found[kind]) <= exact * (1 + F(1, 10**13))
            kind = f"{name}, bounded differences"
            wanted = certificates.bounded_differences_upper(total, n, rows, 0.05 * shares[kind])
            exact = min(F(1), max(F(0), F(wanted) - F(discount)) / n)
            assert exact <= F(found[kind]) <= exact * (1 + F(1, 10**13))
        certificate = certify_counts(profile, n)
        assert certificate.delta_upper == min(certificate.candidates.values())
        assert certificate.candidates[certificate.method] == certificate.delta_upper


def test_leaks_beyond_the_table_are_from_above():
    for rng, profile in profiles(7, 200, cells=30):
        n = profile.rows + rng.choice([0, rng.randint(0, 10**6)])
        confidence = rng.choice([0.95, rng.random(), 1e-9 * rng.random()])
        half = -mp.log1p(-mp.mpf(confidence)) / 2
        share = mp.sqrt(mp.mpf(profile.rows) / n) / 2
        for value, total in (
            (
                leak_beyond_the_table(profile, n, confidence),
                mp.fsum(
                    int(cells) * (1 - share + share * mp.sqrt(int(count)))
                    for count, cells in zip(profile.count, profile.cells, strict=True)
                ),
            ),
            (smallest_certifiable_leak(profile, confidence), mp.mpf(profile.atoms)),
        ):
            truth = (mp.sqrt(total + half) + mp.sqrt(half)) ** 2 / profile.rows
            assert above(value, min(mp.mpf(1), truth))
    with pytest.raises(InputError):
        leak_beyond_the_table(CountProfile.from_counts([4, 4]), 7)


def test_a_certificate_beyond_the_table_shares_its_error_and_takes_the_smaller_bound():
    """Both bounds at half of the error each; the table's own leak bounds that of more rows."""
    seen = set()
    for counts, n in (([500] * 20, 10**6), ([500] * 20, 10_001), ([90, 3, 1], 95)):
        profile = CountProfile.from_counts(counts)
        certificate = certify_beyond_the_table(profile, n, 0.9)
        inside = certify_counts(profile, None, 0.95).delta_upper
        outside = leak_beyond_the_table(profile, n, 0.95)
        assert certificate.delta_upper == pytest.approx(min(inside, outside), rel=1e-12)
        assert certificate.delta_upper >= min(inside, outside)
        assert certificate.confidence == 0.9
        extrapolated = certificate.method == "extrapolated count function"
        assert extrapolated == (outside <= inside)
        seen.add(extrapolated)
    assert seen == {True, False}


def test_sizes_from_a_table_share_the_error_of_two_targets():
    profile = CountProfile.from_counts([400] * 30)
    both = smallest_n_for_table(profile, 0.95, 0.3, confidence=0.9)
    apart = (
        smallest_n_for_table(profile, 0.95, None, confidence=0.95),
        smallest_n_for_table(profile, None, 0.3, confidence=0.95),
    )
    assert None not in apart
    assert apart[0] != apart[1]
    assert both == max(apart)
    other = smallest_n_for_table(profile, 0.8, 0.05, confidence=0.9)
    assert other == smallest_n_for_table(profile, None, 0.05, confidence=0.95)
    # Beyond the table there are two looks, each at half of the error.
    allowed = 0.01
    size = smallest_n_for_table(profile, 1 - allowed, confidence=0.9)
    half = leak_beyond_the_table(profile, size, 0.95)
    assert half <= 1 - (1 - allowed)
    assert leak_beyond_the_table(profile, size - 1, 0.95) > 1 - (1 - allowed)


def test_sizes_for_records_are_large_enough_for_the_exact_mean():
    """The cap at n·p in fractions, where n·p in doubles may be larger."""
    rng = Random(8)
    for _ in range(60):
        p = rng.random() ** 3
        whole = rng.randint(1, 40)
        # A leak that is reached just where n·p passes a whole number.
        p = whole / rng.randint(whole + 1, 4000) if rng.random() < 0.7 else p
        leak = float(record_leak_upper(float(whole)))
        n = smallest_n_for_records(leak, p)
        mean = F(n) * F(p)
        near = float(mean)
        near = near if F(near) <= mean else math.nextafter(near, 0.0)
        assert float(record_leak_upper(near)) <= leak
        assert float(record_leak_upper((n - 1) * p * (1 - 3e-12))) > leak


# ---- records --------------------------------------------------------------------------------


def test_the_cap_of_a_record_is_from_above():
    rng = Random(9)
    means = np.array(
        [10 ** rng.uniform(-8, 2) for _ in range(150)]
        + [10 ** rng.uniform(2, 9) for _ in range(150)]
        + [0.0, 1.0, 127.0, 128.0, 128.5, 129.0, 129.999]
    )
    for mean, value in zip(means.tolist(), record_leak_upper(means).tolist(), strict=True):
        whole = mp.floor(mp.mpf(mean))
        log = whole * mp.log(mp.mpf(mean)) if whole else mp.mpf(0)
        truth = mp.exp(log - mp.mpf(mean) - mp.loggamma(whole + 1))
        assert above(value, min(mp.mpf(1), truth), "1e-4" if mean > 128 else "1e-11")


def test_leaks_of_records_are_read_at_the_bound_of_their_cell():
    """n·p in fractions, just below whole numbers, where a larger mean has a far smaller cap."""
    for _, profile in profiles(10, 40):
        leaks = record_leaks(profile, confidence=0.5)
        for count, lower, leak in zip(
            profile.count.tolist(), leaks.probability_lower, leaks.leak, strict=True
        ):
            assert lower == cell_probability_lower(profile.rows, count, 0.5)
            mean = F(profile.rows) * F(float(lower))
            near = float(mean)
            near = near if F(near) <= mean else math.nextafter(near, 0.0)
            assert leak >= float(record_leak_upper(near))
        for share in (0.0, 0.3, 0.5, 0.99, 1.0):
            each = np.repeat(leaks.leak, profile.count * profile.cells)
            place = max(0, math.ceil(F(share) * profile.rows) - 1)
            assert leaks.quantile(share) == sorted(each.tolist())[place]
        top = float(leaks.leak.max())
        assert leaks.exposed_rows(top) == 0
        assert leaks.exposed_rows(math.nextafter(top, 0.0)) > 0


# ---- laws -----------------------------------------------------------------------------------


def test_records_of_a_law_leak_their_share_over_its_probability_from_above():
    rng = Random(11)
    for _ in range(80):
        atoms, n = rng.randint(2, 400), rng.randint(1, 2000)
        whole = certified_uniform(atoms, n, IidGame(0.5))
        p, size = F(1, atoms), n
        most = min(math.floor(p * size), size - 1)
        with mp.workdps(60):
            mass = mp.binomial(size - 1, most) * real(p) ** most
            truth = real(1 - p) * mass * real(1 - p) ** (size - 1 - most)
        assert above(whole.record_leak.max, truth, "1e-11")
        law = np.full(2, 0.5)
        share = half_deviation_upper(n, law)[0]
        assert F(certified_law(law, n, IidGame(0.5)).record_leak.max) >= F(float(share)) / F(0.5)
        weight = rng.random()
        law = np.array([weight, 1 - weight])
        found = certified_law(law, n, IidGame(0.5)).record_leak.max
        shares = zip(half_deviation_upper(n, law).tolist(), law.tolist(), strict=True)
        exact = max(F(x) / F(y) for x, y in shares)
        assert min(F(1), exact) <= F(found) <= exact * (1 + F(1, 10**14))


def test_leaks_of_laws_are_above_enumeration_and_the_deviation_of_their_sum():
    rng = Random(12)
    for _ in range(60):
        parts = [rng.randint(1, 60) for _ in range(rng.randint(2, 5))]
        law = [F(float(F(x, sum(parts)))) for x in parts]
        n = rng.randint(1, 12)
        miss = abs(sum(law) - 1)
        shares = (iid.mean_deviation(n, p) / 2 for p in law)
        truth = sum(shares, F(0)) + miss
        value = leak_of_law([float(p) for p in law], n)
        assert truth <= F(value) <= truth * (1 + F(1, 10**12))
        assert F(checked_law([float(p) for p in law])[2]) >= miss
        assert F(leak_of_uniform(len(law), n)) >= len(law) * (
            iid.mean_deviation(n, F(1, len(law))) / 2
        )
        # The last step alone: shares and what is missing are added up from above.
        weights = [rng.randint(1, 10**6) for _ in law]
        atoms = np.array([float(p) / sum(weights) for p in law])
        atoms *= (1 - 1e-10 * rng.random()) / float(atoms @ np.array(weights))
        given = half_deviation_upper(n, atoms).tolist()
        added = sum(F(s) * w for s, w in zip(given, weights, strict=True))
        added += F(checked_law(atoms, weights)[2])
        assert F(leak_of_law(atoms, n, multiplicity=weights)) >= min(F(1), added)
        cells = rng.randint(2, 10**6)
        share = F(float(half_deviation_upper(n, Atoms.uniform(cells))[0]))
        assert F(leak_of_uniform(cells, n)) >= min(F(1), cells * share)
        found = certified_uniform(cells, n, IidGame(0.5)).record_leak.max
        assert F(found) >= min(F(1), cells * share)
    for _ in range(200):
        p = [rng.random() * 1e-3 for _ in range(3)]
        p.append(1 - sum(p) + rng.uniform(-9e-10, 9e-10))
        miss = abs(sum(map(F, p)) - 1)
        assert miss <= F(checked_law(p)[2]) <= miss * (1 + F(1, 10**13))
        p = [0.5, 0.5 - 1e-10 * rng.random(), 1e-25 * rng.random()]  # 1 - Σp is no double
        miss = abs(sum(map(F, p)) - 1)
        assert miss <= F(checked_law(p)[2]) <= miss * (1 + F(1, 10**13))


def test_a_multiplicity_of_zero_is_no_atom():
    assert leak_of_law([0.5, 0.25], 10, multiplicity=[2, 0]) == leak_of_law([0.5, 0.5], 10)


def test_diversities_are_rounded_outwards():
    rng = Random(13)
    for _ in range(300):
        k = rng.randint(2, 50)
        largest = min(1.0, 1 / k + rng.random() ** 4)
        delta = mp.mpf(largest)
        fit = int(1 / F(largest))
        rest = 1 - fit * delta
        top = mp.sqrt(delta * (1 - delta)) + mp.sqrt((1 - delta) * max(k - 2 + delta, mp.mpf(0)))
        low = fit * mp.sqrt(delta * (1 - delta)) + mp.sqrt(rest * (1 - rest))
        found = diversity_given_largest_atom(k, largest)
        if largest < 1:
            assert below(found.lower, low, "1e-13") or rest < mp.mpf("1e-12")
            assert found.lower <= low
            assert above(found.upper, top, "1e-13")
        c_k, n = 10 ** rng.uniform(-3, 3), rng.randint(1, 10**9)
        truth = mp.mpf(c_k) / (2 * mp.sqrt(n))
        assert above(leak_from_diversity(c_k, n), min(mp.mpf(1), truth), "1e-14")
    # One over K as a double may be below it, by a share of at most 2^-52.
    assert diversity_given_largest_atom(4, 0.25 * (1 - 2.0**-52)).upper > 1.7
    with pytest.raises(InputError):
        diversity_given_largest_atom(4, 0.25 * (1 - 3 * 2.0**-53))


# ---- the mean of normal records -------------------------------------------------------------


def test_the_closed_bound_of_normal_records_is_from_above():
    rng = Random(14)
    for _ in range(200):
        n, d = int(10 ** rng.uniform(0.4, 14)), rng.choice([1, 2, 3, int(10 ** rng.uniform(0, 6))])
        length = mp.sqrt(2) * mp.exp(mp.loggamma(mp.mpf(d + 1) / 2) - mp.loggamma(mp.mpf(d) / 2))
        truth = mp.sqrt(d) / (2 * mp.mpf(n)) + length / (2 * mp.sqrt(n))
        assert above(leak_of_gaussian_mean_bound(n, d), min(mp.mpf(1), truth), "1e-10")


# ---- profiles -------------------------------------------------------------------------------


def test_impossible_counts_are_refused():
    whole = np.array([1, 2])
    CountProfile(whole, np.array([1, 1]))
    for count, cells in (
        ([0, 1], [1, 1]),
        ([1, 1], [1, 1]),
        ([2, 1], [1, 1]),
        ([1, 2], [1, 0]),
        ([], []),
    ):
        with pytest.raises(InputError):
            CountProfile(np.array(count, dtype=np.int64), np.array(cells, dtype=np.int64))
    with pytest.raises(InputError):
        CountProfile.from_counts([3, -1])
    one = np.array([1])
    JointProfile(one, one, one)
    JointProfile(np.array([0, 1]), np.array([1, 0]), np.array([1, 1]))
    for train, reference, cells in (
        ([-1, 2], [1, 1], [1, 1]),
        ([1, 2], [-1, 3], [1, 1]),
        ([1, 2], [1, 1], [0, 1]),
        ([0], [1], [1]),
        ([1], [0], [1]),
    ):
        with pytest.raises(InputError):
            JointProfile(np.array(train), np.array(reference), np.array(cells))
