"""DP statements as trade-off curves: (ε, δ), GDP, DP-SGD, and what pure DP leaks (X11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memberbound.curve import GaussianCurve, TradeoffCurve, polygon_from_lines
from memberbound.curve.base import price_exponent
from memberbound.errors import (
    InputError,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.games import ADJACENCIES, Adjacency
from memberbound.numerics.rounding import SMALLEST, up

if TYPE_CHECKING:
    from memberbound.dp.dpsgd import DpSgd, DpSgdHistory

__all__ = [
    "DpGuarantee",
    "guarantee_from_dp_sgd",
    "guarantee_from_epsilon_delta",
    "guarantee_from_gaussian_mechanism",
    "guarantee_from_gdp",
    "leak_from_pure_dp",
]

# ── DP statements as trade-off curves, each carrying its adjacency ────────────────────────────────
#
# A guarantee says how well "this record was used" can be told from "it was not" when everything
# else is fixed: the neighbour game.  Under *add-remove* the other world lacks the record, under
# *replace-one* it holds another record instead.  The games of training-set membership compare data
# sets of equal size, so their numbers need replace-one (theory §6.7); :meth:`DpGuarantee.replaced`
# converts soundly.


@dataclass(frozen=True)
class DpGuarantee:
    """A trade-off curve in the neighbour game, with the adjacency it speaks of.

    ``sharper`` is a replace-one curve known to hold besides the converted one.
    """

    curve: TradeoffCurve
    adjacency: Adjacency
    notion: str
    sharper: TradeoffCurve | None = None

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)

    def replaced(self) -> DpGuarantee:
        """Return the guarantee under replace-one adjacency.

        Guarantee: sound for every mechanism with this guarantee.
        Theorem: replacing is removing and then adding, and trade-off curves chain (group privacy,
        theory §6.7).  For (ε, δ) the chain gives advantage 1 - e^{-ε}(1-2δ), which is below the
        tanh(ε) that the point (2ε, (1+e^ε)δ) would give.
        """
        if self.adjacency == "replace-one":
            return self
        curve = self.sharper
        if curve is None:
            curve = self.curve.reversed().then(self.curve)
        return DpGuarantee(curve, "replace-one", self.notion)


def guarantee_from_epsilon_delta(
    points: Sequence[tuple[float, float]], adjacency: Adjacency = "replace-one"
) -> DpGuarantee:
    """Return the curve of a mechanism that is (ε, δ)-DP for every point given.

    Guarantee: the best curve those statements allow; for one point it is attained (I24-T4).

    Examples:
        >>> guarantee = guarantee_from_epsilon_delta([(8.0, 1e-5)])
        >>> round(guarantee.curve.accuracy(), 6)
        0.999665
    """
    if len(points) == 0:
        raise InputError("points must be at least one pair (epsilon, delta), got none.")
    pairs = [(nonnegative("epsilon", e), fraction("delta", d)) for e, d in points]
    eps, dlt = [p[0] for p in pairs], [p[1] for p in pairs]
    return DpGuarantee(polygon_from_lines(eps, dlt, eps, dlt), adjacency, "(ε, δ)-DP")


def guarantee_from_gdp(mu: float, adjacency: Adjacency = "replace-one") -> DpGuarantee:
    """Return the curve of μ-Gaussian differential privacy; replace-one of add-remove is 2μ."""
    return DpGuarantee(GaussianCurve(mu), adjacency, "μ-GDP")


def guarantee_from_gaussian_mechanism(
    sigma: float,
    sensitivity: float = 1.0,
    releases: int = 1,
    adjacency: Adjacency = "replace-one",
) -> DpGuarantee:
    """Return the exact curve of N(0, σ²I) noise on a statistic of ℓ₂-sensitivity ``sensitivity``.

    ``sensitivity`` is under ``adjacency``.  Several releases compose to μ = √releases·s/σ.
    """
    repeated = whole_number("releases", releases)
    shift = math.sqrt(repeated) * nonnegative("sensitivity", sensitivity)
    mu = _ratio_up(shift, positive("sigma", sigma))
    return DpGuarantee(GaussianCurve(mu), adjacency, "Gaussian mechanism")


def _ratio_up(shift: float, scale: float) -> float:
    """Quotient from above, three roundings in; positive whenever the shift is."""
    return up(max(shift / scale, SMALLEST), 4) if shift > 0 else 0.0


def guarantee_from_dp_sgd(
    parameters: DpSgd | DpSgdHistory, adjacency: Adjacency = "add-remove"
) -> DpGuarantee:
    """Return the curve of T steps of DP-SGD; see :class:`memberbound.dp.dpsgd.DpSgd`."""
    one_of("adjacency", adjacency, ADJACENCIES)
    replaced = parameters.curve("replace-one")
    if adjacency == "replace-one":
        return DpGuarantee(replaced, adjacency, "DP-SGD")
    # Either order of the two worlds counts as add/remove, so the curve is symmetrised.
    curve = parameters.symmetric_curve()
    return DpGuarantee(curve, adjacency, "DP-SGD", sharper=replaced)


def leak_from_pure_dp(epsilon: float, nu: float = 0.5, lam: float = 1.0) -> float:
    """Return the largest Δ_{ν,λ} of a pure ε-DP learner in the i.i.d. game (X11).

    Guarantee: MIS ≥ 1 - result for every replace-one (ε, 0)-DP learner, every law and n.
    Theorem: X11, ``proofs/pure-dp-iid.md``: with g = max(γ, 1/γ) the leak is at most
    (e^{ε/2} - √g)²/(e^ε - 1), which is tanh(ε/4) at γ = 1, and 0 once g ≥ e^ε.  Half of X2 for
    small ε, because the out-world averages over the very records the in-world may hold.

    Examples:
        >>> round(leak_from_pure_dp(1.0), 6)
        0.244919
    """
    eps = nonnegative("epsilon", epsilon)
    log_g, _ = price_exponent(nu, lam)  # from below: lowering g can only raise the bound
    if eps <= log_g:
        return 0.0
    if log_g == 0.0:
        return min(1.0, up(max(SMALLEST, math.tanh(eps / 4)), 8))
    # Divided by e^ε throughout: (1 - √g·e^{-ε/2})²/(1 - e^{-ε}).
    root = -math.expm1(0.5 * (log_g - eps))
    return min(1.0, up(max(SMALLEST, root * (root / -math.expm1(-eps))), 64))
