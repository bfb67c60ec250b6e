"""DP guarantees as trade-off curves: (ε, δ), GDP, DP-SGD; the leak under pure DP (X11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from memberbound.curve import GaussianCurve, TradeoffCurve, polygon_from_lines
from memberbound.curve.base import price_exponent
from memberbound.dp.dpsgd import DpSgd, DpSgdHistory
from memberbound.errors import (
    InputError,
    SearchError,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.games import ADJACENCIES, Adjacency, gamma_from_priors
from memberbound.numerics.roots import confirmed, guessed_zero, last_true, least_scale
from memberbound.numerics.rounding import SMALLEST, double_above, double_below, up

if TYPE_CHECKING:
    from memberbound.dp.dpsgd import DpSgd, DpSgdHistory

# ── DP guarantees as trade-off curves with their adjacency ────────────────────────────────────────
#
# A guarantee bounds how well "this record was used" can be distinguished from "it was not" with
# everything else fixed: the neighbour game.  Under *add-remove* the other world lacks the record;
# under *replace-one* it holds another record instead.  The games of training-set membership compare
# data sets of equal size, so they need replace-one (theory §6.7); :meth:`DpGuarantee.replaced`
# converts soundly.


@dataclass(frozen=True)
class DpGuarantee:
    """A trade-off curve in the neighbour game, with its adjacency.

    ``sharper`` is a replace-one curve that holds in addition to the converted one.
    """

    curve: TradeoffCurve
    adjacency: Adjacency
    notion: str
    sharper: TradeoffCurve | None = None

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)

    def group(self, records: int) -> DpGuarantee:
        """Return the guarantee for a group of records that are replaced, or added, together.

        Theorem: X33, trade-off curves chain (proofs/chained-curves.md).
        """
        sharper = None if self.sharper is None else self.sharper.group(records)
        return DpGuarantee(self.curve.group(records), self.adjacency, self.notion, sharper)

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

    Guarantee: the best curve that these statements allow; for one point it is attained (I24-T4).

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
    """Return the curve of μ-GDP; add-remove converts to 2μ under replace-one."""
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
    """Return a quotient, rounded up by three roundings; positive if the shift is."""
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
    small ε, because the out-world averages over the same records that the in-world may hold.

    Examples:
        >>> round(leak_from_pure_dp(1.0), 6)
        0.244919
    """
    eps = nonnegative("epsilon", epsilon)
    log_g, _ = price_exponent(nu, lam)  # rounded down, because a smaller g can only raise the bound
    if eps <= log_g:
        return 0.0
    if log_g == 0.0:
        return min(1.0, up(max(SMALLEST, math.tanh(eps / 4)), 8))
    # Divided by e^ε throughout: (1 - √g·e^{-ε/2})²/(1 - e^{-ε}).
    root = -math.expm1(0.5 * (log_g - eps))
    return min(1.0, up(max(SMALLEST, root * (root / -math.expm1(-eps))), 64))


# ── Calibration of ε or noise to a target ─────────────────────────────────────────────────────────
# Every result is evaluated again and meets its target (theory §6, trap 5) as written: 0.05 is the
# decimal number, not the slightly larger double.  If the target also determines the accuracy at
# even odds, the result meets that too, so that "η ≤ 0.05" is never printed next to "55.01 %".

#: Beyond this ε every curve is vacuous in double precision.
_LARGEST_EPSILON = 800.0
_LARGEST_NOISE = 1e9
#: Below this sampling rate the target is met almost without noise.
_LEAST_NOISE = 1e-3
#: Relative tolerance of the noise multiplier; evaluating a profile takes seconds.
_RELATIVE = 1e-4
#: Up to this FPR the forward lines alone determine the TPR.
_SMALL_FPR = 0.05


class Target(Protocol):
    """A target that a guarantee meets or exceeds."""

    def excess(self, guarantee: DpGuarantee) -> float:
        """Return attained minus allowed value; at most 0 if the target is met."""
        ...

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Return the same for DP-SGD, from the direction that determines it (faster)."""
        ...

    def limit(self) -> str:
        """Describe the target, for messages."""
        ...


def _attacker(parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
    """Return the advantage under DP-SGD; both directions agree at slope one."""
    if parameters.gaussian:
        return parameters.curve(adjacency).advantage
    return parameters.profile("remove" if adjacency == "add-remove" else "replace").advantage


def _written(value: float) -> Fraction:
    """Return the number as written: the shortest decimal that parses to this double."""
    return Fraction(repr(float(value)))


def _excess(guarantee: DpGuarantee, attained: float, advantage: Fraction, scale: int = 1) -> float:
    """Return attained minus allowed advantage over ``scale``, or the same for accuracy if larger.

    At even odds, an advantage of A is an accuracy of (1 + A)/2.
    """
    over = attained - double_below(advantage / scale)
    return max(over, guarantee.curve.accuracy() - double_below((1 + advantage) / 2))


def _open_fraction(name: str, value: float) -> float:
    return fraction(name, value, open_left=True, open_right=True)


@dataclass(frozen=True)
class AdvantageTarget:
    """TPR - FPR ≤ ``advantage`` in the neighbour game at the guarantee's adjacency."""

    advantage: float

    def __post_init__(self) -> None:
        _open_fraction("target advantage", self.advantage)

    def excess(self, guarantee: DpGuarantee) -> float:
        """Attained minus allowed advantage."""
        return _excess(guarantee, guarantee.curve.advantage, _written(self.advantage))

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Attained minus allowed advantage."""
        return _attacker(parameters, adjacency) - self.advantage

    def limit(self) -> str:
        """Describe the target, for messages."""
        return f"advantage ≤ {self.advantage!r}"


@dataclass(frozen=True)
class TprTarget:
    """TPR ≤ ``tpr`` at false-positive rate ``fpr``, at the guarantee's adjacency."""

    tpr: float
    fpr: float

    def __post_init__(self) -> None:
        _open_fraction("target TPR", self.tpr)
        _open_fraction("FPR", self.fpr)
        if self.tpr <= self.fpr:
            raise InputError(
                f"target TPR must be greater than the FPR of {self.fpr!r}, got {self.tpr!r}. "
                "Random guessing already reaches TPR = FPR."
            )

    def excess(self, guarantee: DpGuarantee) -> float:
        """Attained minus allowed TPR."""
        return guarantee.curve.tpr(self.fpr) - double_below(_written(self.tpr))

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Attained minus allowed TPR, the worse of both orders for add-remove."""
        if parameters.gaussian:
            return parameters.curve(adjacency).tpr(self.fpr) - self.tpr
        if self.fpr > _SMALL_FPR:
            # Beyond the centre of the ROC, the lines of the other direction are active.
            return self.excess(guarantee_from_dp_sgd(parameters, adjacency))
        if adjacency == "replace-one":
            return parameters.profile("replace").tpr(self.fpr) - self.tpr
        both = (parameters.profile(d).tpr(self.fpr) for d in ("remove", "add"))
        return max(both) - self.tpr

    def limit(self) -> str:
        """Describe the target, for messages."""
        return f"TPR ≤ {self.tpr!r} at FPR {self.fpr!r}"


@dataclass(frozen=True)
class EtaTarget:
    """η-MIP, after conversion to replace-one."""

    eta: float

    def __post_init__(self) -> None:
        if not 0 < fraction("target eta", self.eta) < 0.5:
            raise InputError(f"target eta must be in (0, 0.5), got {self.eta!r}.")

    def excess(self, guarantee: DpGuarantee) -> float:
        """Attained minus allowed η."""
        replaced = guarantee.replaced()
        return _excess(replaced, replaced.curve.eta, 2 * _written(self.eta), 2)

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Attained minus allowed η; independent of the adjacency."""
        del adjacency
        return _attacker(parameters, "replace-one") / 2 - self.eta

    def limit(self) -> str:
        """Describe the target, for messages."""
        return f"η ≤ {self.eta!r}"


@dataclass(frozen=True)
class SecurityTarget:
    """MIS ≥ ``security`` at (ν, λ), after conversion to replace-one."""

    security: float
    nu: float = 0.5
    lam: float = 1.0

    def __post_init__(self) -> None:
        _open_fraction("target security", self.security)
        gamma_from_priors(self.nu, self.lam)

    def excess(self, guarantee: DpGuarantee) -> float:
        """Return required minus attained security."""
        replaced, leak = guarantee.replaced(), 1 - _written(self.security)
        short = double_above(1 - leak) - replaced.curve.security(self.nu, self.lam)
        if price_exponent(self.nu, self.lam)[0] > 0.0:
            return short
        return max(short, _excess(replaced, replaced.curve.advantage, leak))

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Return required minus attained security; independent of the adjacency."""
        del adjacency
        log_gamma, _ = price_exponent(self.nu, self.lam)
        if parameters.gaussian:
            return self.security - parameters.curve("replace-one").security(self.nu, self.lam)
        return self.security - 1 + parameters.profile("replace").stick(log_gamma)

    def limit(self) -> str:
        """Describe the target, for messages."""
        return f"MIS ≥ {self.security!r} (ν = {self.nu!r}, λ = {self.lam!r})"


def calibrated_epsilon(
    target: Target, delta: float = 0.0, adjacency: Adjacency = "replace-one"
) -> float:
    """Return the largest ε at which every (ε, δ)-DP mechanism meets ``target``.

    Numerics: the target holds at the returned ε when evaluated again.
    """
    dlt = fraction("delta", delta)

    def excess(epsilon: float) -> float:
        return target.excess(guarantee_from_epsilon_delta([(epsilon, dlt)], adjacency))

    def met(epsilon: float) -> bool:
        return excess(epsilon) <= 0

    if not met(0.0):
        raise InputError(
            f"delta must be smaller for {target.limit()}, got {delta!r}. "
            "Even ε = 0 exceeds the target at this δ."
        )
    if met(_LARGEST_EPSILON):
        return _LARGEST_EPSILON
    near = guessed_zero(excess, 0.0, _LARGEST_EPSILON)
    return last_true(met, 0.0, _LARGEST_EPSILON, near)


def calibrated_noise_multiplier(
    target: Target,
    sample_rate: float,
    steps: int,
    adjacency: Adjacency = "add-remove",
    *,
    beside: tuple[DpSgd, ...] = (),
) -> float:
    """Return a noise multiplier at which DP-SGD meets ``target``, about 1e-4 above the smallest.

    ``beside`` are other noisy releases; the target must hold for all of them together.

    Numerics: errs towards more noise; the full curve is evaluated at the returned value.
    Edge cases: if almost no noise suffices, because few records are ever sampled, the smallest
    value tried is returned.
    """

    def steps_at(sigma: float) -> DpSgd | DpSgdHistory:
        wanted = DpSgd(sigma, sample_rate, steps)
        return DpSgdHistory((*beside, wanted)) if beside else wanted

    def excess(sigma: float) -> float:
        # A small margin for the rounding between one profile and the full curve.
        return target.excess_of_noise(steps_at(sigma), adjacency) + 1e-12

    def full(sigma: float) -> float:
        return target.excess(guarantee_from_dp_sgd(steps_at(sigma), adjacency))

    try:
        sigma = least_scale(
            excess, 1.0, floor=_LEAST_NOISE, ceiling=_LARGEST_NOISE, relative=_RELATIVE
        )
        return confirmed(full, 0.0, sigma, step=1e-6)
    except SearchError as error:
        raise SearchError(f"no noise multiplier meets {target.limit()}: {error}") from None
