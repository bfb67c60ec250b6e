"""The oracle's independent methods agree, and it rejects masses that are not a law."""

from fractions import Fraction
from random import Random

import pytest

from oracle import finite, iid, mechanisms, subset
from oracle.claims import assert_bound, assert_exact, assert_holds, assert_lower_bound

F = Fraction
GAMMAS = [F(1, 3), F(1, 2), F(4, 5), F(1), F(6, 5), F(2), F(5)]
PRIORS = [F(1, 10), F(1, 3), F(1, 2), F(3, 4)]


def pairs(seed, count=25):
    rng = Random(seed)
    for _ in range(count):
        yield finite.random_pair(rng, rng.randint(2, 6), zeros=rng.random() < 0.5)


def games(seed, count=8, zeros=True):
    return mechanisms.random_games(seed, count, zeros=zeros)


# --- finite pairs ------------------------------------------------------------------------------


def test_check_law_accepts_laws_and_rejects_others():
    finite.check_law({"a": F(1, 3), "b": F(2, 3)})
    for bad in ({"a": F(1, 2)}, {"a": F(3, 2), "b": F(-1, 2)}, {"a": 0.5, "b": 0.5}):
        with pytest.raises(ValueError, match="must"):
            finite.check_law(bad)


def test_hockey_stick_agrees_with_all_events():
    for p, q in pairs(1):
        for g in GAMMAS:
            assert finite.hockey_stick(p, q, g) == finite.hockey_stick_by_events(p, q, g)


def test_roc_is_a_concave_polygon_whose_supporting_lines_are_the_hockey_sticks():
    for p, q in pairs(3):
        corners = finite.roc_vertices(p, q)
        assert corners[0] == (0, 0)
        assert corners[-1] == (1, 1)
        for (x0, y0), (x1, y1), (x2, y2) in zip(corners, corners[1:], corners[2:], strict=False):
            assert (y1 - y0) * (x2 - x1) >= (y2 - y1) * (x1 - x0)
        for g in GAMMAS:
            assert finite.hockey_stick_by_events(p, q, g) == max(y - g * x for x, y in corners)


def test_accuracy_agrees_with_all_rules_and_with_the_roc():
    for p, q in pairs(5):
        for prior in PRIORS:
            best = finite.best_accuracy(p, q, prior)
            low, high = finite.accuracies_by_rules(p, q, prior)
            corners = finite.roc_vertices(p, q)
            assert best == high == max(prior * y + (1 - prior) * (1 - x) for x, y in corners)
            assert low == 1 - high  # inverting the best rule is the worst rule


# --- i.i.d. game -------------------------------------------------------------------------------


def iid_games(seed, count=10, limit=3):
    rng = Random(seed)
    for _ in range(count):
        atoms, n = rng.randint(2, 3), rng.randint(1, limit)
        p = mechanisms.random_iid_law(rng, atoms)
        make = rng.choice([mechanisms.random_merge, mechanisms.random_release])
        yield p, n, make(rng, n, atoms, 2)


def nonzero(law):
    return {a: m for a, m in law.items() if m}


def test_histogram_enumeration_agrees_with_ordered_datasets():
    for p, n, release in iid_games(10, limit=4):
        pair = iid.joint_laws(p, n, release)
        naive = iid.joint_laws_by_sequences(p, n, release)
        for law, other in zip(pair, naive, strict=True):
            finite.check_law(law)
            assert nonzero(law) == nonzero(other)


def test_best_attack_agrees_with_all_attacks():
    for p, n, release in iid_games(11):
        pair = iid.joint_laws(p, n, release)
        for nu, lam in ((F(1, 2), F(1)), (F(1, 5), F(1)), (F(2, 3), F(3, 2)), (F(9, 10), F(1, 4))):
            best = iid.best_accuracy(pair, nu, lam)
            assert best == iid.accuracies_by_attacks(pair, nu, lam)[1]
            mis = iid.security(pair, nu, lam)
            assert mis == iid.security(pair, nu, lam, by_attacks=True)
            assert 0 <= mis <= 1


# --- subset game -------------------------------------------------------------------------------


def test_world_laws_are_laws_and_average_to_the_release():
    for kernel, size, k in games(14):
        release: dict = {}
        for law in kernel.values():
            for a, m in law.items():
                release[a] = release.get(a, 0) + m / len(kernel)
        for x in range(size):
            p_in, p_out = subset.world_laws(kernel, size, k, x)
            finite.check_law(p_in)
            finite.check_law(p_out)
            pi = subset.prior(size, k)
            for a, m in release.items():
                assert pi * p_in.get(a, 0) + (1 - pi) * p_out.get(a, 0) == m


# --- mechanisms --------------------------------------------------------------------------------


def test_random_dp_kernels_keep_their_promise_and_reach_it():
    rng = Random(18)
    reached = 0
    for _ in range(20):
        g, leak = (
            finite.random_fraction(rng, F(1), F(4)),
            finite.random_fraction(rng, F(0), F(1, 3)),
        )
        kernel = mechanisms.random_dp_kernel(rng, 4, 2, g)
        ratio = subset.dp_ratio(kernel, 4, 2)
        assert ratio is not None
        assert ratio <= g
        reached += ratio == g
        leaky = mechanisms.with_leak(kernel, leak)
        for law in leaky.values():
            finite.check_law(law)
        assert subset.dp_delta(leaky, 4, 2, g) == leak
        p_in, p_out = mechanisms.random_dp_pair(rng, g, leak)
        finite.check_law(p_in)
        finite.check_law(p_out)
        assert finite.delta(p_in, p_out, g) <= leak
    assert reached >= 5


# --- claims ------------------------------------------------------------------------------------

SQUARES = [((x,), x * x) for x in range(1, 5)]


@pytest.mark.parametrize(
    ("check", "claim", "broken", "cases"),
    [
        (assert_bound, lambda x: x * x - (x == 4), lambda x: 0, SQUARES),
        (assert_lower_bound, lambda x: x * x + (x == 4), lambda x: 99, SQUARES),
        (assert_exact, lambda x: x * x + (x == 4), lambda x: 0, SQUARES),
        (assert_holds, lambda x: x < 4, lambda x: False, [a for a, _ in SQUARES]),
    ],
)
def test_a_claim_that_fails_once_or_a_variant_that_never_does_is_caught(
    check, claim, broken, cases
):
    def right(x):
        return True if check is assert_holds else x * x

    check(right, cases, {"broken": broken})
    for bad in (
        lambda: check(claim, cases, {"broken": broken}),
        lambda: check(right, cases, {"broken": broken, "right": right}),
        lambda: check(right, cases, {}),
        lambda: check(right, [], {"broken": broken}),
    ):
        with pytest.raises(AssertionError):
            bad()


def test_a_loose_bound_fails_a_tightness_check():
    broken = {"zero": lambda x: 0}
    assert_bound(lambda x: x * x + F(1, 100), SQUARES, broken, excess=F(1, 100))
    with pytest.raises(AssertionError, match="exceeds"):
        assert_bound(lambda x: x * x + F(1, 50), SQUARES, broken, excess=F(1, 100))
