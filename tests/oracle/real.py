"""Irrational truths to 60 digits, as fractions that bracket them.

A bound is sound if it is at least the *low* end of the bracket: no tolerance enters, and the
bracket is 40 digits narrower than a double.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations

import mpmath as mp

WIDTH = Fraction(1, 10**50)


def digits(count: int = 60):
    """Context of the given precision."""
    return mp.workdps(count)


def exactly(value: mp.mpf) -> Fraction:
    """The rational number that an mpf is."""
    sign, man, exp, _ = value._mpf_
    return (-1) ** sign * Fraction(int(man)) * Fraction(2) ** exp


def bracket(value: mp.mpf) -> tuple[Fraction, Fraction]:
    """(low, high) around a value computed to more than 50 digits."""
    middle = exactly(value)
    return middle - abs(middle) * WIDTH, middle + abs(middle) * WIDTH


def round_up(value: Fraction) -> float:
    """The smallest double at or above a rational number."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@cache
def exp_bracket(exponent: float | Fraction) -> tuple[Fraction, Fraction]:
    """(low, high) around e^exponent, relative to e^exponent - 1 where that is small."""
    x = Fraction(exponent)
    with digits():
        number = mp.mpf(x.numerator) / x.denominator
        if abs(x) < 1:
            low, high = bracket(mp.expm1(number))
            return 1 + low, 1 + high
        return bracket(mp.exp(number))


def above_log(ratio: Fraction) -> float:
    """The smallest double at or above ln(ratio), for a ratio of at least 1."""
    eps = math.log(ratio)
    while eps > 0 and exp_bracket(math.nextafter(eps, 0.0))[0] >= ratio:
        eps = math.nextafter(eps, 0.0)
    while exp_bracket(eps)[0] < ratio:
        eps = math.nextafter(eps, math.inf)
    return eps


def _tail(x: mp.mpf) -> mp.mpf:
    """Phi(x), relative precision in the lower tail."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


@cache
def gaussian_hockey_stick(mu: float | mp.mpf, epsilon: float) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu); digits to spare for small mu.

    Zero stands for values below e^-5000.
    """
    spare = 80 + 2 * max(0, -int(mp.log10(mu)))
    with digits(spare):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        if e / m - m / 2 > 100:
            return mp.mpf(0)
        return _tail(m / 2 - e / m) - mp.exp(e) * _tail(-m / 2 - e / m)


@cache
def gaussian_tpr(mu: float, fpr: float) -> mp.mpf:
    """Phi(Phi^-1(fpr) + mu), the inverse by Newton's method from the series of the tail."""
    with digits(80):
        alpha = mp.mpf(fpr)
        lower = alpha if alpha <= 0.5 else 1 - alpha
        z = -mp.sqrt(max(mp.mpf(0), -2 * mp.log(2 * lower)))
        for _ in range(300):  # concave in the logarithm: the steps never overshoot upwards
            step = mp.log(_tail(z) / lower) * _tail(z) / mp.npdf(z)
            z -= step
            if abs(step) < mp.mpf(10) ** -75 * (1 + abs(z)):
                break
        else:
            raise ArithmeticError("no quantile found")
        return _tail((z if alpha <= 0.5 else -z) + mp.mpf(mu))


@cache
def laplace_tpr(reach: float, fpr: float) -> mp.mpf:
    """Threshold tests of Laplace(reach) against Laplace(0), from the two distribution functions."""
    with digits(80 + int(min(reach, 2000))):
        alpha, r = mp.mpf(fpr), mp.mpf(reach)
        cut = -mp.log(2 * alpha) if alpha <= 0.5 else mp.log(2 * (1 - alpha))
        beyond = cut - r
        return mp.exp(-beyond) / 2 if beyond >= 0 else 1 - mp.exp(beyond) / 2


@cache
def laplace_hockey_stick(reach: float, epsilon: float) -> mp.mpf:
    """TPR - e^eps FPR of the test "loss above eps": the loss exceeds eps beyond (reach + eps)/2."""
    with digits(80 + int(min(reach, 2000))):
        r, e = mp.mpf(reach), mp.mpf(epsilon)
        if e >= r:
            return mp.mpf(0)
        cut = (r + e) / 2
        return (1 - mp.exp(cut - r) / 2) - mp.exp(e) * mp.exp(-cut) / 2


def reciprocal_population(size: int) -> list[mp.mpf]:
    """The records of I24-P11's appendix: powers of two and one that makes a sum tiny."""
    powers = [mp.mpf(2) ** i for i in range(size - 1)]
    root = mp.sqrt(mp.mpf(1) / mp.binomial(size, size // 2))
    return [*powers, root - mp.fsum(powers[: size // 2 - 1])]


def reciprocal_sums(population: list[mp.mpf]) -> dict[frozenset[int], mp.mpf]:
    """1/sum over every half of a population."""
    halves = combinations(range(len(population)), len(population) // 2)
    return {frozenset(d): 1 / mp.fsum(population[i] for i in d) for d in halves}
