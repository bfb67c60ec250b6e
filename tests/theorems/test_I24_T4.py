"""I24-T4: (eps, delta)-DP gives eta = delta + (1-delta)/(1+e^-eps) - 1/2, and not less.

g stands for e^eps.  Truth: random DP mechanisms on all k-subsets, best attack enumerated.
"""

import math
from fractions import Fraction
from random import Random

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import mechanisms, subset
from oracle.claims import assert_bound

F = Fraction
PARAMETERS = [(F(1), F(0)), (F(6, 5), F(0)), (F(2), F(1, 20)), (F(3), F(1, 4)), (F(20), F(1, 100))]


def eta_bound(g, delta):
    return delta + (1 - delta) * g / (1 + g) - F(1, 2)


def extremal_games():
    for g, delta in PARAMETERS:
        for size in (2, 4):
            yield mechanisms.leaking_response(g, delta), size, size // 2, g, delta


def games():
    rng = Random(44)
    for _ in range(12):
        g, delta = rng.choice(PARAMETERS)
        size = rng.choice([2, 4, 6])
        kernel = mechanisms.random_dp_kernel(rng, size, size // 2, g, rng.randint(2, 4))
        yield mechanisms.with_leak(kernel, delta), size, size // 2, g, delta
    for base, delta in ((F(3, 2), F(0)), (F(2), F(1, 10))):
        kernel = mechanisms.exponential_kernel(rng, 6, 3, base)
        yield mechanisms.with_leak(kernel, delta), 6, 3, base**2, delta
    yield from extremal_games()


def test_bound_holds():
    assert_bound(
        eta_bound,
        (((g, delta), subset.eta(kernel, size, k)) for kernel, size, k, g, delta in games()),
        broken={
            "delta forgotten": lambda g, delta: eta_bound(g, 0),
            "delta halved": lambda g, delta: eta_bound(g, delta / 2),
            "too small in epsilon": lambda g, delta: eta_bound((g + 1) / 2, delta),
        },
    )


def test_bound_is_reached_at_every_population_size():
    for kernel, size, k, g, delta in extremal_games():
        assert subset.eta(kernel, size, k) == eta_bound(g, delta)


def test_other_subset_sizes_gain_no_more():
    # "general k": the gain over the likelier constant guess stays below the half-split bound
    rng = Random(45)
    for size, k in ((3, 1), (4, 1), (4, 3), (5, 2)):
        for g, delta in PARAMETERS:
            kernel = mechanisms.random_dp_kernel(rng, size, k, g)
            leaky = mechanisms.with_leak(kernel, delta)
            extremal = mechanisms.leaking_response(g, delta)
            for mechanism in (leaky, extremal):
                assert subset.eta(mechanism, size, k) <= eta_bound(g, delta)


def epsilon_of(g):
    """Return a double with an exponential of at least g, and hardly more."""
    return math.log(g) * (1 + 1e-15) if g > 1 else 0.0


def test_the_code_is_the_bound_from_above():
    """``eta`` and ``accuracy`` of the curve of (eps, delta)-DP."""

    def curve(g, delta):
        return guarantee_from_epsilon_delta([(epsilon_of(g), float(delta))]).curve

    truth = [((g, delta), eta_bound(g, F(float(delta)))) for g, delta in PARAMETERS]
    broken = {
        "halved": lambda g, delta: F(curve(g, delta).eta) / 2,
        "delta forgotten": lambda g, delta: F(curve(g, 0).eta),
    }
    assert_bound(lambda g, delta: F(curve(g, delta).eta), truth, broken, excess=F(1, 10**12))
    assert_bound(
        lambda g, delta: F(curve(g, delta).accuracy()) - F(1, 2), truth, broken, excess=F(1, 10**12)
    )
    # No mechanism with these parameters exceeds it.
    for kernel, size, k, g, delta in games():
        assert subset.eta(kernel, size, k) <= F(curve(g, delta).eta)
