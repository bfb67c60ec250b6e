"""A25-eq26, eq27 and eq28: the integral form of the divergence, which the curve must agree with.

Truth: the supremum over all events, as A25-eq3 defines D̃.
"""

from fractions import Fraction
from random import Random

from memberbound.curve import PolygonCurve
from oracle import finite
from oracle.claims import assert_exact

F = Fraction
GAMMAS = [F(1, 4), F(2, 3), F(1), F(5, 4), F(3)]


def by_events(p, q, alpha):
    points = finite.outcomes(p, q)
    return max(finite.mass(p, s) - finite.mass(q, s) / alpha for s in finite.events(points))


def integral(p, q, alpha):
    total = sum(abs(alpha * p.get(a, 0) - q.get(a, 0)) for a in finite.outcomes(p, q))
    return total / (2 * alpha) + (1 - 1 / alpha) / 2


def pairs():
    rng = Random(26)
    for _ in range(30):
        yield finite.random_pair(rng, rng.randint(2, 5), zeros=True)


def test_integral_form_is_the_supremum_over_events():
    assert_exact(
        integral,
        (((p, q, alpha), by_events(p, q, alpha)) for p, q in pairs() for alpha in GAMMAS),
        broken={
            "without offset": lambda p, q, alpha: integral(p, q, alpha) - (1 - 1 / alpha) / 2,
            "laws exchanged": lambda p, q, alpha: integral(q, p, alpha),
        },
    )


def test_the_curve_reads_off_the_integral():
    """eq27 with P the out-world: Δ = max(1,γ)[D̃_γ - (1 - 1/γ)₊], from above and hardly so."""
    for out, inside in pairs():
        curve = PolygonCurve.from_masses(*finite.masses(inside, out))
        for gamma in GAMMAS:
            nu = float(gamma / (1 + gamma))
            used = F(nu) / (1 - F(nu))  # the γ that the double ν stands for
            truth = max(F(1), used) * (integral(out, inside, used) - max(F(0), 1 - 1 / used))
            leak = F(curve.leak(nu=nu))
            assert truth <= leak <= truth + F(1, 10**12)
