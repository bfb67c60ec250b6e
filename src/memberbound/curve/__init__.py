"""Trade-off curves: the best attacker's ROC as an immutable type, in three forms.

=====================  =====================================================================
form                   what it is
=====================  =====================================================================
:class:`PolygonCurve`  a finite pair exactly, or support lines (DP points, privacy-loss
                       distributions, Rényi bounds) from above
:class:`GaussianCurve` N(μ,1) against N(0,1), analytic
:class:`LaplaceCurve`  the Laplace mechanism, analytic
=====================  =====================================================================
"""

from memberbound.curve.base import PolygonCurve, Side, TradeoffCurve, polygon_from_lines
from memberbound.curve.families import GaussianCurve, LaplaceCurve
from memberbound.curve.mixtures import mixture

__all__ = [
    "GaussianCurve",
    "LaplaceCurve",
    "PolygonCurve",
    "Side",
    "TradeoffCurve",
    "mixture",
    "polygon_from_lines",
]
