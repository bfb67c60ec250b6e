"""Functions of A25 §2, §3 and App. H against the i.i.d. game enumerated in rationals."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from memberbound.papers import aubinais2024, aubinais2025
from oracle import finite, iid, mechanisms
from oracle.claims import assert_bound, assert_exact, assert_lower_bound
from oracle.real import digits

F = Fraction
PRICES = [(F(1, 2), F(1)), (F(1, 4), F(1)), (F(4, 5), F(1)), (F(1, 2), F(3))]


def pairs(seed=31, count=8):
    for game in mechanisms.random_iid_games(seed, count):
        yield iid.joint_laws(*game)
    yield iid.joint_laws([F(1, 3)] * 3, 1, iid.injective(1, 3))


def list_outcomes(pair):
    """Both laws over the same outcomes, zeros included."""
    keys = finite.outcomes(*pair)
    return tuple([law.get(a, F(0)) for a in keys] for law in pair)


def close(truth):
    """Excuse a double below a fraction that is no double."""
    return [(at, value * (1 - F(1, 10**13))) for at, value in truth]


def test_accuracy_of_an_attack_by_its_definition():
    rng, truth = Random(1), []
    for inside, outside in map(list_outcomes, pairs()):
        for nu, lam in PRICES:
            says = [rng.randint(0, 1) for _ in inside]
            right = nu * sum(m for m, s in zip(outside, says, strict=True) if not s)
            right += lam * (1 - nu) * sum(m for m, s in zip(inside, says, strict=True) if s)
            truth.append(((inside, outside, says, nu, lam), float(right)))

    def round_masses(inside, outside, says, nu, lam):
        masses = (np.array(law, dtype=float) for law in (inside, outside))
        return pytest.approx(
            aubinais2025.accuracy_of_attack(*masses, says, float(nu), float(lam)), rel=1e-12
        )

    broken = {"worlds exchanged": lambda i, o, *at: round_masses(o, i, *at)}
    assert_exact(round_masses, truth, broken)
    both = aubinais2025.accuracy_of_attack([0.75, 0.25], [0.5, 0.5], [[1, 0], [0, 1]])
    assert both.tolist() == [0.625, 0.375]


def test_leak_security_and_best_accuracy_of_a_pair():
    leaks, securities, accuracies, mixed, older = [], [], [], [], []
    for pair in pairs():
        masses = list_outcomes(pair)
        for nu, lam in PRICES:
            leak = iid.leakage(pair, iid.gamma(nu, lam))
            leaks.append(((*masses, float(nu), float(lam)), leak))
            securities.append(((*masses, float(nu), float(lam)), iid.security(pair, nu, lam)))
            top = iid.best_accuracy(pair, nu, lam)
            accuracies.append(((float(aubinais2025.leak_of_pair(*leaks[-1][0])), nu, lam), top))
            if lam == 1:
                older.append(((*masses, float(nu)), top))
                low, high = iid.accuracies_by_attacks(pair, nu, lam)
                tv = float(finite.total_variation(*pair) * (1 + F(1, 10**12)))
                mixed.append(((tv, float(nu)), (low, high)))
    assert_bound(
        lambda *at: F(aubinais2025.leak_of_pair(*at)),
        leaks,
        {"worlds exchanged": lambda i, o, *at: F(aubinais2025.leak_of_pair(o, i, *at))},
    )
    assert_lower_bound(
        lambda *at: F(aubinais2025.security_of_pair(*at)),
        securities,
        {"worlds exchanged": lambda i, o, *at: F(aubinais2025.security_of_pair(o, i, *at))},
    )

    def best(leak, nu, lam, pick=float):
        return F(aubinais2025.best_accuracy(leak, float(nu), pick(lam)))

    assert_bound(best, close(accuracies), {"unweighted": lambda d, v, w: best(d, v, 1)})
    assert_bound(
        lambda i, o, v: F(aubinais2024.best_accuracy_of_pair(i, o, v)),
        close(older),
        {"as printed": lambda i, o, v: F(aubinais2024.best_accuracy_of_pair(i, o, 1 - v))},
    )
    for (tv, nu), (low, high) in mixed:
        lower, upper = aubinais2024.accuracy_range(min(1.0, tv), nu)
        assert lower <= low
        assert high * (1 - F(1, 10**13)) <= upper
    assert any(
        aubinais2024.accuracy_range(tv / 2, nu).upper < high for (tv, nu), (_, high) in mixed
    )


def test_divergences_by_all_events():
    truth, scaled = [], []
    for pair in pairs(7, 6):
        inside, out = list_outcomes(pair)
        for alpha in (F(1, 3), F(1), F(5, 2)):
            value = iid.divergence(pair[1], pair[0], alpha, by_events=True)
            truth.append(((out, inside, float(alpha)), value))
            plain = value / max(F(1), alpha) + max(F(0), 1 - 1 / alpha)
            scaled.append(((out, inside, float(alpha)), plain))
    for form, cases in (
        (aubinais2025.divergence, truth),
        (aubinais2025.scaled_divergence, scaled),
    ):
        assert_bound(
            lambda *at, form=form: F(form(*at)),
            close(cases),
            {"laws exchanged": lambda p, q, a, form=form: F(form(q, p, a))},
            excess=F(1, 10**9),
        )


def test_leak_over_records_is_the_leak_of_the_joint_law():
    rng, truth = Random(7), []
    for _ in range(20):
        law = mechanisms.random_iid_law(rng, 3)
        channel = [list(finite.random_law(rng, list(range(3))).values()) for _ in law]
        release = {
            tuple(int(z == k) for k in range(3)): dict(enumerate(row))
            for z, row in enumerate(channel)
        }
        pair = iid.joint_laws(law, 1, release)
        for nu, lam in PRICES:
            at = ([float(p) for p in law], channel, float(nu), float(lam))
            truth.append((at, iid.leakage(pair, iid.gamma(nu, lam)) * (1 - F(1, 10**12))))
    assert_bound(
        lambda *at: F(aubinais2025.leak_over_records(*at)),
        truth,
        {"half": lambda *at: F(aubinais2025.leak_over_records(*at)) / 2},
        excess=F(1, 10**9),
    )


def information(pair):
    """I(release; record) in nats, from 30 digits."""
    import mpmath as mp

    with digits():
        return float(
            sum(mp.mpf(m.numerator) / m.denominator * mp.log(mp.mpf((m / pair[1][a]).numerator)
                / (m / pair[1][a]).denominator) for a, m in pair[0].items() if m)
        )  # fmt: skip


def test_bounds_through_other_notions_hold_at_every_price():
    by_tv, by_information = [], []
    for pair in pairs(88, 20):
        tv = float(finite.total_variation(*pair) * (1 + F(1, 10**12)))
        nats = information(pair) * (1 + 1e-12)
        for nu, lam in PRICES:
            leak = iid.leakage(pair, iid.gamma(nu, lam))
            by_tv.append(((min(1.0, tv), float(nu), float(lam)), leak))
            by_information.append(((nats, float(nu), float(lam)), leak))
    assert_bound(
        lambda *at: F(aubinais2025.leak_from_total_variation(*at)),
        by_tv,
        {"a third": lambda *at: F(aubinais2025.leak_from_total_variation(*at)) / 3},
    )
    assert_bound(
        lambda *at: 1 - F(aubinais2025.security_from_information(*at)),
        by_information,
        {"a third": lambda *at: (1 - F(aubinais2025.security_from_information(*at))) / 3},
    )
    # The paper's factor: at γ = 3 the bound is three times that at γ = 1.
    assert aubinais2025.leak_from_total_variation(0.1, 0.75) == pytest.approx(0.3)
    assert aubinais2025.security_from_information(0.0) == 1.0


def test_eq9_is_never_sharper_than_the_exact_supremum():
    """At every ε, δ, ν: 1 - eq. 9 ≥ X2; equality in the middle of the range at γ < 1."""
    rng = np.random.default_rng(9)
    epsilon, delta = rng.uniform(0, 3, 300), rng.choice([0.0, 1e-5, 0.1], 300)
    nu, lam = rng.uniform(0.05, 0.95, 300), rng.uniform(0.3, 3, 300)
    exact = aubinais2025.leak_from_dp(epsilon, delta, nu, lam)
    printed = 1 - aubinais2025.security_from_dp(epsilon, delta, nu, lam)
    assert (printed >= exact - 1e-12).all()
    assert (printed - exact < 1e-9).any()
    assert not (0.5 * printed >= exact).all()
    # By hand at γ = 1, δ = 0: tanh(ε/2) against e^ε - 1.
    assert aubinais2025.leak_from_dp(1.0) == pytest.approx(math.tanh(0.5), rel=1e-12)
    assert aubinais2025.security_from_dp(0.5) == pytest.approx(2 - math.exp(0.5), rel=1e-12)
    assert aubinais2025.security_from_dp([0.0, 60.0]).tolist() == [1.0, 0.0]


def test_least_delta_of_random_mechanisms():
    """Replace-one over all data sets of two bits, by all events."""
    rng, truth = Random(32), []
    sets = [(a, b) for a in (0, 1) for b in (0, 1)]
    for _ in range(20):
        table = {d: finite.random_law(rng, ["x", "y", "z"]) for d in sets}
        for g in (F(1), F(3, 2), F(4)):
            worst = max(
                finite.hockey_stick_by_events(table[a], table[b], g)
                for a in sets
                for b in sets
                if sum(p != q for p, q in zip(a, b, strict=True)) == 1
            )
            truth.append(((table, g), worst))

    def form(table, g):
        return aubinais2025.least_dp_delta(table.__getitem__, (0, 1), 2, g)

    assert_exact(form, truth, {"at ε = 0": lambda table, g: form(table, F(1))})


def test_gaussian_delta_tends_to_one_and_is_exact():
    from statistics import NormalDist

    phi = NormalDist().cdf
    far = np.array([0.5, 1.0, 2.0, 5.0])
    value = aubinais2025.gaussian_dp_delta(far, 1.0, 1.0)
    exact = [phi(x / 2 - 1 / x) - math.e * phi(-x / 2 - 1 / x) for x in far]
    assert value == pytest.approx(exact, rel=1e-9)
    assert aubinais2025.gaussian_dp_delta(1e6, 1.0, 10.0) == 1.0
