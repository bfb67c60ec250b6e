"""The normal distribution in decimal arithmetic to 40 digits, for checking certificates.

It is independent of :mod:`.normal`, which computes the certificates, and gives the same digits on
every machine.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

#: Accuracy of results in decimal places, and the margin for errors in comparisons.
DIGITS = 40
MARGIN = Decimal(10) ** -30
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620900")
#: 1 - Φ is below 10^-400 beyond this.
_FARTHEST = Decimal(43)


def decimal(value: float | Fraction) -> Decimal:
    """Return a number as a decimal: doubles exactly, fractions to 80 digits."""
    if isinstance(value, Fraction):
        with localcontext(Context(prec=80)):
            return Decimal(value.numerator) / Decimal(value.denominator)
    return Decimal(value)


def normal_cdf(x: Decimal) -> Decimal:
    """Return Φ(x) with an error below 10^-40, which is relative for x < 0.

    Φ(x) = ½ + φ(x)·(x + x³/3 + x⁵/(3·5) + …), a series with terms of one sign.

    Examples:
        >>> round(normal_cdf(Decimal("-1.5")), 12)
        Decimal('0.066807201269')
    """
    size = x.copy_abs()
    if size > _FARTHEST:
        return Decimal(x > 0)
    # 1 - Φ loses about x²/2·log10(e) digits.
    with localcontext(Context(prec=DIGITS + 20 + int(x * x / 4))) as context:
        square, term = x * x, size
        total, odd = term, 1
        least = Decimal(10) ** -(context.prec + 5)
        while term > least * total:
            odd += 2
            term *= square / odd
            total += term
        # π to 80 digits suffices for every x: it is a factor of φ, and 10^-80 is far below 10^-40
        # of Φ unless x > 8, where _tail is used.
        half = total * (-square / 2).exp() / (2 * _PI).sqrt()
        if x >= 0 or size < 8:
            return (Decimal(1) / 2 + half) if x >= 0 else (Decimal(1) / 2 - half)
    return _tail(size)


def _tail(x: Decimal) -> Decimal:
    """Return 1 - Φ(x) for x ≥ 8, as φ(x) over a continued fraction."""
    with localcontext(Context(prec=DIGITS + 20)):
        fraction = x
        for k in range(400, 0, -1):
            fraction = x + k / fraction
        return (-x * x / 2).exp() / (2 * _PI).sqrt() / fraction


def normal_quantile_upper(p: Decimal) -> Decimal:
    """Return an x with Φ(x) ≥ p that is at most about 10^-30 above the least one, for p in (0, 1).

    Examples:
        >>> x = normal_quantile_upper(Decimal("0.55"))
        >>> round(x, 12), normal_cdf(x) >= Decimal("0.55")
        (Decimal('0.125661346855'), True)
    """
    with localcontext(Context(prec=DIGITS + 20)):
        x = Decimal(NormalDist().inv_cdf(min(max(float(p), 1e-300), 1 - 2.0**-53)))
        for _ in range(4):
            density = (-x * x / 2).exp() / (2 * _PI).sqrt()
            x -= (normal_cdf(x) - p) / density
        step = MARGIN * (1 + abs(x))
        while normal_cdf(x) < p:
            x += step
            step *= 2
        return x


def above(value: Decimal, digits: int = 6) -> str:
    """Format a number for a text, rounded up to a few significant digits."""
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value):g}"
