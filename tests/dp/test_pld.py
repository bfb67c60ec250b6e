"""Curves from dp-accounting's privacy-loss distributions against exact compositions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as accounting

from memberbound.curve import GaussianCurve
from memberbound.dp import guarantee_from_pld
from memberbound.errors import InputError
from oracle.readoffs import QUICK, shortfalls

F = Fraction
PAIR = ([F(1, 2), F(1, 3), F(1, 6)], [F(1, 4), F(1, 4), F(1, 2)])
CERTAIN = ([F(1, 10), F(6, 10), F(3, 10), F(0)], [F(0), F(3, 10), F(6, 10), F(1, 10)])
STEP = 1e-3


def composed(pair, times):
    """The pair of ``times`` independent releases, outcomes with equal masses merged by count."""
    law = {(0,) * len(pair[0]): (F(1), F(1))}
    for _ in range(times):
        following: dict = {}
        for counts, (a, b) in law.items():
            for i, (x, y) in enumerate(zip(*pair, strict=True)):
                key = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
                p, q = following.get(key, (F(0), F(0)))
                following[key] = (p + a * x, q + b * y)
        law = following
    return [a for a, _ in law.values()], [b for _, b in law.values()]


def pld_of(pair, *, pessimistic=True, step=STEP):
    upper, lower = (
        {i: math.log(m) if m else -math.inf for i, m in enumerate(masses)} for masses in pair
    )
    return accounting.from_two_probability_mass_functions(
        lower, upper, pessimistic, step, symmetric=False
    )


@pytest.mark.parametrize("pair", [PAIR, CERTAIN], ids=["plain", "certain"])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_curve_is_above_the_exact_composition(pair, times):
    single = pld_of(pair)
    pld = single.self_compose(times) if times > 1 else single
    guarantee = guarantee_from_pld(pld, times, "replace-one")
    exact = composed(pair, times)
    assert shortfalls(guarantee.curve, exact, QUICK) == []
    variation = float(sum(max(F(0), a - b) for a, b in zip(*exact, strict=True)))
    assert guarantee.curve.advantage == pytest.approx(variation, rel=0.01)
    assert guarantee.adjacency == "replace-one"


def test_directions_are_not_exchanged():
    """PAIR is not symmetric: the reversed curve misses the exact pair."""
    curve = guarantee_from_pld(pld_of(PAIR).self_compose(3), 3).curve
    exact = composed(PAIR, 3)
    assert shortfalls(curve, exact, QUICK) == []
    assert shortfalls(curve.reversed(), exact, QUICK)


def test_optimistic_distributions_are_refused_and_would_be_caught():
    pld = pld_of(PAIR, pessimistic=False, step=0.05)
    with pytest.raises(InputError, match="pessimistic"):
        guarantee_from_pld(pld)
    for part in (pld._pmf_remove, pld._pmf_add):
        part._pessimistic_estimate = True
    assert shortfalls(guarantee_from_pld(pld).curve, PAIR, QUICK)


def test_gaussian_composition():
    pld = accounting.from_gaussian_mechanism(2.0, value_discretization_interval=STEP)
    curve = guarantee_from_pld(pld.self_compose(4), 4).curve
    truth = GaussianCurve(1.0)
    for eps in np.linspace(0, 6, 25):
        assert curve.delta(float(eps)) >= truth.delta(float(eps)) * (1 - 1e-11)
    for alpha in (1e-4, 0.01, 0.2, 0.7):
        assert truth.tpr(alpha) * (1 - 1e-11) <= curve.tpr(alpha) <= truth.tpr(alpha) * 1.001
    assert curve.advantage == pytest.approx(truth.advantage, rel=1e-5)


def test_numerical_error_grows_with_the_stated_number_of_releases():
    pld = pld_of(PAIR).self_compose(3)
    few, many = guarantee_from_pld(pld, 3).curve, guarantee_from_pld(pld, 10**6).curve
    assert many.dominates(few, tolerance=0.0)
    assert many.delta(2.0) > few.delta(2.0)


def test_add_remove_is_the_default_adjacency():
    guarantee = guarantee_from_pld(pld_of(PAIR))
    assert guarantee.adjacency == "add-remove"
    assert guarantee.replaced().curve.advantage > guarantee.curve.advantage


def test_unusable_distributions_are_refused():
    with pytest.raises(InputError, match="privacy-loss distribution"):
        guarantee_from_pld("pld")
    with pytest.raises(InputError, match="compositions"):
        guarantee_from_pld(pld_of(PAIR), 0)
    with pytest.raises(InputError, match="adjacency"):
        guarantee_from_pld(pld_of(PAIR), 1, "sideways")
