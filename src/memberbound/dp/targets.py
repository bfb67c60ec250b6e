"""From a target back to a parameter: how much ε, or how much noise, a promise allows.

Every result was evaluated again and meets its target (theory §6, trap 5), as it was written: 0.05
is the decimal number, not the double a little above it.  Where the target fixes the accuracy at
even odds as well, that is kept too, so that "η ≤ 0.05" is never printed beside "55.01 %".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from memberbound.curve.base import price_exponent
from memberbound.dp.conversions import (
    DpGuarantee,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gdp,
)
from memberbound.dp.dpsgd import DpSgd, DpSgdHistory
from memberbound.errors import InputError, SearchError, fraction
from memberbound.games import Adjacency, gamma_from_priors
from memberbound.numerics.roots import confirmed, guessed_zero, last_true, least_scale

__all__ = [
    "AdvantageTarget",
    "EtaTarget",
    "SecurityTarget",
    "Target",
    "TprTarget",
    "calibrated_epsilon",
    "calibrated_gdp",
    "calibrated_noise_multiplier",
]

#: Beyond this ε every curve is vacuous in double precision.
_LARGEST_EPSILON = 800.0
_LARGEST_NOISE = 1e9
#: Below this so few records are ever sampled that the promise holds almost without noise.
_LEAST_NOISE = 1e-3
#: A profile costs seconds: the noise multiplier is found to this much.
_RELATIVE = 1e-4
#: Up to this FPR the forward lines alone decide the TPR.
_SMALL_FPR = 0.05


class Target(Protocol):
    """Something a guarantee meets or exceeds."""

    def excess(self, guarantee: DpGuarantee) -> float:
        """Return attained minus allowed: at most 0 when the target is met."""
        ...

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Return the same for DP-SGD, from the one direction that decides it (faster)."""
        ...

    def limit(self) -> str:
        """Say what is asked, for messages."""
        ...


def _attacker(parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
    """Advantage of DP-SGD's attacker; both directions agree at slope one."""
    if parameters.gaussian:
        return parameters.curve(adjacency).advantage
    return parameters.profile("remove" if adjacency == "add-remove" else "replace").advantage


def _written(value: float) -> Fraction:
    """Return what somebody wrote: the shortest decimal that reads back as this double."""
    return Fraction(repr(float(value)))


def _at_most(limit: Fraction) -> float:
    """Return the largest double that is not above ``limit``."""
    near = float(limit)
    return near if Fraction(near) <= limit else math.nextafter(near, -math.inf)


def _excess(guarantee: DpGuarantee, attained: float, advantage: Fraction, scale: int = 1) -> float:
    """Attained minus allowed, for a target that is an advantage over ``scale``; accuracy as well.

    With even odds an advantage of A is an accuracy of (1 + A)/2.
    """
    over = attained - _at_most(advantage / scale)
    return max(over, guarantee.curve.accuracy() - _at_most((1 + advantage) / 2))


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
        """Say what is asked."""
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
                "Guessing at random already reaches TPR = FPR."
            )

    def excess(self, guarantee: DpGuarantee) -> float:
        """Attained minus allowed TPR."""
        return guarantee.curve.tpr(self.fpr) - _at_most(_written(self.tpr))

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Attained minus allowed TPR, the worse of both orders for add-remove."""
        if parameters.gaussian:
            return parameters.curve(adjacency).tpr(self.fpr) - self.tpr
        if self.fpr > _SMALL_FPR:
            # Past the centre of the ROC the lines of the other direction are the ones that bind.
            return self.excess(guarantee_from_dp_sgd(parameters, adjacency))
        if adjacency == "replace-one":
            return parameters.profile("replace").tpr(self.fpr) - self.tpr
        both = (parameters.profile(d).tpr(self.fpr) for d in ("remove", "add"))
        return max(both) - self.tpr

    def limit(self) -> str:
        """Say what is asked."""
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
        """Attained minus allowed η; the adjacency asked for does not matter."""
        del adjacency
        return _attacker(parameters, "replace-one") / 2 - self.eta

    def limit(self) -> str:
        """Say what is asked."""
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
        """Demanded minus attained security."""
        replaced, leak = guarantee.replaced(), 1 - _written(self.security)
        short = -_at_most(leak - 1) - replaced.curve.security(self.nu, self.lam)
        if price_exponent(self.nu, self.lam)[0] > 0.0:
            return short
        return max(short, _excess(replaced, replaced.curve.advantage, leak))

    def excess_of_noise(self, parameters: DpSgd | DpSgdHistory, adjacency: Adjacency) -> float:
        """Demanded minus attained security; the adjacency asked for does not matter."""
        del adjacency
        log_gamma, _ = price_exponent(self.nu, self.lam)
        if parameters.gaussian:
            return self.security - parameters.curve("replace-one").security(self.nu, self.lam)
        return self.security - 1 + parameters.profile("replace").stick(log_gamma)

    def limit(self) -> str:
        """Say what is asked."""
        return f"MIS ≥ {self.security!r}"


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


def calibrated_gdp(target: Target, adjacency: Adjacency = "replace-one") -> float:
    """Return the largest μ at which μ-GDP meets ``target``."""

    def met(mu: float) -> bool:
        return target.excess(guarantee_from_gdp(mu, adjacency)) <= 0

    if not met(0.0):
        raise SearchError(f"no μ meets {target.limit()}.")
    return last_true(met, 0.0, 100.0)


def calibrated_noise_multiplier(
    target: Target,
    sample_rate: float,
    steps: int,
    adjacency: Adjacency = "add-remove",
    *,
    beside: tuple[DpSgd, ...] = (),
) -> float:
    """Return a noise multiplier at which DP-SGD meets ``target``, about 1e-4 above the smallest.

    ``beside`` are releases with noise of their own that the target has to hold together with.

    Numerics: errs towards more noise; the full curve was evaluated at the returned value.
    Edge cases: where even almost no noise is enough, because so few records are ever sampled, the
    smallest value that was tried is returned.
    """

    def steps_at(sigma: float) -> DpSgd | DpSgdHistory:
        wanted = DpSgd(sigma, sample_rate, steps)
        return DpSgdHistory((*beside, wanted)) if beside else wanted

    def excess(sigma: float) -> float:
        # A hair of margin for the rounding between one profile and the full curve.
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
