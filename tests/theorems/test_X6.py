"""X6: eps-PMP gives eta <= tanh(eps/2)/2, the best possible and below L24-L13's (1-e^-eps)/2."""

from fractions import Fraction

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import mechanisms, subset
from oracle.claims import assert_bound
from oracle.real import above_log

F = Fraction


def games():
    return mechanisms.pmp_games(60)


def eta_bound(g):
    """tanh(eps/2)/2 with g = e^eps."""
    return (g - 1) / (g + 1) / 2


def printed_l13(g):
    return (1 - 1 / g) / 2


def test_eta_bound_and_L24_L13_which_is_looser():
    truth = []
    for kernel, size in games():
        g = subset.pmp_ratio(kernel, size, size // 2)
        truth += [
            ((g,), subset.best_accuracy_by_rules(kernel, size, size // 2, x) - F(1, 2))
            for x in range(size)
        ]
    # About tanh(eps/4)/2: e^(eps/2) lies below (1+g)/2.
    broken = {"tanh of a quarter": lambda g: eta_bound((1 + g) / 2)}
    assert_bound(eta_bound, truth, broken)
    assert_bound(printed_l13, truth, broken)
    for g in (F(11, 10), F(2), F(50)):
        assert eta_bound(g) < printed_l13(g)
    assert eta_bound(F(1)) == printed_l13(F(1)) == 0


def test_reached_by_randomised_response():
    for truth in (F(2, 3), F(99, 100)):
        rr = mechanisms.randomised_response(truth)
        assert subset.eta(rr, 2, 1) == eta_bound(subset.pmp_ratio(rr, 2, 1)) == truth - F(1, 2)


def test_it_is_the_success_bound_of_L24_L6_minus_one_half():
    for g in (F(1), F(3, 2), F(9)):
        assert eta_bound(g) == g / (1 + g) - F(1, 2)


def test_library_value_is_this_bound_from_above():
    for kernel, size in games():
        g = subset.pmp_ratio(kernel, size, size // 2)
        value = F(guarantee_from_epsilon_delta([(above_log(g), 0.0)]).curve.eta)
        assert eta_bound(g) <= value <= eta_bound(g) * (1 + F(1, 10**13)) + F(1, 10**15)
        assert subset.eta(kernel, size, size // 2) <= value
