"""The normal law in decimals, as the verifier uses it, against mpmath at 60 digits."""

from decimal import Decimal, localcontext

import mpmath
import pytest

from memberbound.numerics.decimal_normal import (
    MARGIN,
    above,
    decimal,
    normal_cdf,
    normal_quantile_upper,
)


@pytest.mark.parametrize(
    "x", ["0", "1e-12", "-1e-12", "0.1256", "-0.5", "3", "-3", "-7.99", "8", "-8", "-12", "-35"]
)
def test_the_distribution_function_has_forty_digits(x):
    with mpmath.workdps(70), localcontext() as context:
        context.prec = 60
        exact = mpmath.ncdf(mpmath.mpf(x))
        found = mpmath.mpf(str(normal_cdf(Decimal(x))))
        assert abs(found - exact) <= mpmath.mpf(10) ** -40 * exact


@pytest.mark.parametrize("p", ["1e-290", "1e-20", "0.001", "0.1000003", "0.5", "0.9", "0.99999999"])
def test_a_quantile_is_from_above_and_near(p):
    with mpmath.workdps(70), localcontext() as context:
        context.prec = 60
        x = normal_quantile_upper(Decimal(p))
        assert normal_cdf(x) >= Decimal(p)
        below = x - 2 * MARGIN * (1 + abs(x))
        assert mpmath.ncdf(mpmath.mpf(str(below))) < mpmath.mpf(p)


def test_doubles_are_exact_and_texts_are_from_above():
    assert decimal(0.1) == Decimal.from_float(0.1) != Decimal("0.1")
    assert above(Decimal("0.05000001")) == "0.0500001"
    assert normal_cdf(Decimal(100)) == 1
    assert normal_cdf(Decimal(-100)) == 0
