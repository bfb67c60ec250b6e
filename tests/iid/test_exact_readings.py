"""Read-offs of tables and laws against loops, rationals and 40-digit arithmetic."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import IidGame
from memberbound.iid import certificates
from memberbound.iid.count_functions import (
    _probability_lower,
    closed_count_function,
    heavy_discount_lower,
    tabulated_count_functions,
    totals_upper,
    walk_function,
)
from memberbound.iid.count_record import COUNTS_FORMAT, CountRecord
from memberbound.iid.gaussian_mean import leak_of_gaussian_mean_bound
from memberbound.iid.leak_bounds import (
    accuracy_from_leak,
    security_from_leak,
    weighted_accuracy_from_leak,
)
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import record_leak_upper, record_leaks
from memberbound.iid.worst_case import checked_law

F = Fraction


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


def test_quantiles_of_leaks_are_those_of_the_sorted_rows():
    rng = np.random.default_rng(3)
    for _ in range(20):
        counts = rng.integers(1, 60, rng.integers(3, 40)).tolist()
        leaks = record_leaks(CountProfile.from_counts(counts))
        each = dict(zip(leaks.profile.count.tolist(), leaks.leak.tolist(), strict=True))
        rows = sorted(each[c] for c in counts for _ in range(c))
        total = len(rows)
        assert leaks.median == rows[math.ceil(total / 2) - 1]
        assert leaks.p99 == rows[math.ceil(F(99, 100) * total) - 1]
        assert leaks.max == rows[-1]
        assert leaks.exposed_rows(0.5) == sum(leak > 0.5 for leak in rows)


def test_leaks_are_read_at_a_mean_that_is_not_rounded_up():
    """n·p in exact arithmetic: a smaller mean has the larger leak."""
    leaks = record_leaks(CountProfile.from_counts([7, 23, 91, 350, 1234]), n=977)
    for p, leak in zip(leaks.probability_lower.tolist(), leaks.leak.tolist(), strict=True):
        exact = F(977) * F(p)
        below = float(exact)
        below = below if F(below) <= exact else math.nextafter(below, 0.0)
        assert leak >= float(record_leak_upper(np.array([below]))[0])


@pytest.mark.parametrize(("rows", "count"), [(10, 3), (50, 50), (400, 17), (1000, 600)])
def test_probabilities_of_heavy_cells_satisfy_their_inequality(rows, count):
    for alpha in (0.3, 0.01, 1e-6):
        p = mp.mpf(_probability_lower(rows, count, alpha))

        def tail(at):
            terms = (mp.binomial(rows, k) * at**k * (1 - at) ** (rows - k) for k in range(count))
            return 1 - mp.fsum(terms)

        assert 0 < tail(p) <= mp.mpf(alpha)
        assert tail(p * (1 + mp.mpf("1e-8"))) > mp.mpf(alpha)


def test_security_and_accuracy_are_rounded_outwards():
    rng = np.random.default_rng(5)
    for leak, nu, lam in rng.uniform(0, 1, (300, 3)).tolist():
        assert F(security_from_leak(leak)) <= 1 - F(leak)
        assert security_from_leak(leak) >= 1 - leak - 1e-14
        exact = max(F(nu), 1 - F(nu)) + min(F(nu), 1 - F(nu)) * F(leak)
        assert exact <= F(accuracy_from_leak(leak, nu)) <= exact * (1 + F(1, 2**51))
        game = IidGame(nu, 3 * lam)
        alarm, missed = F(game.nu), F(game.lam) * (1 - F(game.nu))
        exact = max(alarm, missed) + min(alarm, missed) * F(leak)
        assert exact <= F(weighted_accuracy_from_leak(leak, game)) <= exact * (1 + F(1, 2**51))
    for exponent in rng.uniform(-18, -1, 100).tolist():
        leak = 10**exponent  # 1 - leak is no double
        assert F(security_from_leak(leak)) <= 1 - F(leak)
    assert security_from_leak(0.0) == 1.0
    assert security_from_leak(1.0) == 0.0


def test_the_closed_bound_of_a_normal_mean_is_from_above():
    for n in (2, 3, 50, 10**6):
        for d in (1, 2, 7, 1000):
            length = mp.sqrt(2) * mp.gamma(mp.mpf(d + 1) / 2) / mp.gamma(mp.mpf(d) / 2)
            exact = min(mp.mpf(1), mp.sqrt(d) / (2 * n) + length / (2 * mp.sqrt(n)))
            value = mp.mpf(leak_of_gaussian_mean_bound(n, d))
            assert exact <= value <= exact * (1 + mp.mpf("1e-10"))
    assert leak_of_gaussian_mean_bound(1, 3) == 1.0


@pytest.mark.parametrize(
    ("law", "multiplicity"),
    [
        ([0.5, 0.5], [1.0, 1.5]),
        ([0.5, 0.5], [2.0, -1.0]),
        ([0.5, 0.5], [1.0]),
        ([0.5, -0.5, 1.0], None),
        ([1.5, -0.5], None),
        ([0.5, 0.5 + 1e-8], None),
        ([], None),
        ([[0.5, 0.5]], None),
    ],
)
def test_invalid_laws_are_refused(law, multiplicity):
    with pytest.raises(InputError):
        checked_law(law, multiplicity)


def test_laws_may_miss_one_by_rounding_and_repeat():
    _, weights, miss = checked_law([0.25, 0.1], [2, 5])
    assert weights is not None
    assert miss < 1e-15
    assert checked_law([0.5, 0.5 + 5e-10])[2] == pytest.approx(5e-10, rel=1e-5)


@pytest.mark.parametrize("n", [None, 300])
def test_every_candidate_of_a_certificate_is_its_formula_at_its_share(n):
    """Totals, discounts and shares put together by hand; all shares together are at most one."""
    profile = CountProfile.from_counts([400, 250, 90, 40, 12, 5, 3])
    size, rows, beta = n or profile.rows, profile.rows, 0.05
    shares = certificates._SHARES_ALL_ROWS if n is None else certificates._SHARES_WITH_REST
    assert sum(F(share) for share in shares.values()) <= 1 + F(1, 10**15)
    functions = tabulated_count_functions()
    plain, closed, walk, *others = totals_upper(
        [functions[0], closed_count_function(), walk_function(), *functions[1:]], profile, size
    )
    less = heavy_discount_lower(profile, size, beta * shares[certificates._HEAVY])
    assert less > 0
    found = certificates._candidates(profile, size, beta, None)
    assert set(found) <= set(shares)
    level = {name: -math.log(beta * shares[name]) for name in found}
    for name, total, discount in (
        ("count function", plain, less),
        ("closed count function", closed, less),
        ("rademacher", walk, 0.0),
    ):
        kind = f"{name}, bounded differences"
        width = size * math.sqrt(level[kind] / (2 * rows))
        expected = max(total + width - discount, 0.0) / size
        assert found[kind] == pytest.approx(min(1.0, expected), rel=1e-9)
        kind = f"{name}, self-bounding"
        half = level[kind] * size / rows / 2
        expected = (math.sqrt(total + half) + math.sqrt(half)) ** 2 - discount
        assert found[kind] == pytest.approx(min(1.0, max(expected, 0.0) / size), rel=1e-9)
    kind = certificates.EXPONENTIAL
    groups = rows // size
    x = found[kind] * size + less
    terms = [
        w * math.exp(groups * f.exponent * (x - total))
        for f, total, w in zip(functions[1:], others, certificates._WEIGHTS, strict=True)
    ]
    assert math.fsum(terms) == pytest.approx(1 / (beta * shares[kind]), rel=1e-6)


def test_records_of_counts_have_lists_of_one_length():
    read = CountRecord.of_dict({"format": COUNTS_FORMAT, "count": [1, 3], "cells": [5, 2]})
    assert read.profile.rows == 1 * 5 + 3 * 2
    with pytest.raises(InputError, match="same length"):
        CountRecord.of_dict({"format": COUNTS_FORMAT, "count": [1, 3], "cells": [5]})
