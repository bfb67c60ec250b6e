"""L24-L6: eps-PMP keeps every attack's success at or below 1/(1 + e^-eps).

X6: hence eta <= tanh(eps/2)/2, which is below the (1 - e^-eps)/2 of L24-L13.
"""

from fractions import Fraction

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import mechanisms, subset
from oracle.claims import assert_bound
from oracle.real import above_log

F = Fraction


def games():
    return mechanisms.pmp_games(6)


def success_bound(g):
    return g / (1 + g)


def test_success_bound():
    assert_bound(
        success_bound,
        (
            (
                (subset.pmp_ratio(kernel, size, size // 2),),
                subset.best_accuracy_by_rules(kernel, size, size // 2, x),
            )
            for kernel, size in games()
            for x in range(size)
        ),
        broken={
            "too small": lambda g: success_bound((1 + g) / 2),
            "linear guess": lambda g: F(1, 2) + (g - 1) / (4 * g * g),
        },
    )


def test_reached_by_randomised_response():
    for truth in (F(1, 2), F(2, 3), F(99, 100)):
        rr = mechanisms.randomised_response(truth)
        assert subset.best_accuracy(rr, 2, 1, 0) == truth
        assert success_bound(subset.pmp_ratio(rr, 2, 1)) == truth


def test_eta_is_the_success_minus_one_half_and_below_L24_L13():
    for kernel, size in games():
        g = subset.pmp_ratio(kernel, size, size // 2)
        bound, printed = success_bound(g) - F(1, 2), (1 - 1 / g) / 2
        assert bound == (g - 1) / (g + 1) / 2
        assert bound < printed or g == 1
        assert subset.eta(kernel, size, size // 2) <= bound
        curve = guarantee_from_epsilon_delta([(above_log(g), 0.0)]).curve
        for value in (F(curve.eta), F(curve.accuracy()) - F(1, 2)):
            assert bound <= value <= bound * (1 + F(1, 10**13)) + F(1, 10**15)
