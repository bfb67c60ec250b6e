"""The question of ``explain``: one description of a guarantee, or a target to be met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memberbound.dp import (
    AdvantageTarget,
    DpGuarantee,
    DpSgd,
    EtaTarget,
    SecurityTarget,
    Target,
    TprTarget,
    calibrated_epsilon,
    calibrated_noise_multiplier,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gdp,
)
from memberbound.errors import InputError, fraction, nonnegative
from memberbound.explanation.answer import DEFAULT_FPR
from memberbound.games import Adjacency
from memberbound.quantities import significant

__all__ = ["Question", "rates", "target"]

#: The δ at which ε is quoted for notions that have no single one.
_DEFAULT_DELTA = 1e-5


def rates(fpr: Sequence[float] | float | None) -> tuple[float, ...]:
    """Return the false-positive rates asked for."""
    if fpr is None:
        return DEFAULT_FPR
    values = [fpr] if isinstance(fpr, (int, float)) else list(fpr)
    return tuple(fraction("fpr", value) for value in values)


def target(
    *,
    advantage: float | None,
    tpr: float | None,
    eta: float | None,
    security: float | None,
    fpr: tuple[float, ...],
    nu: float,
    lam: float,
) -> Target | None:
    """Return the one target given, or none."""
    given = [t for t in (advantage, tpr, eta, security) if t is not None]
    if not given:
        return None
    if len(given) > 1:
        raise InputError(
            "the target must be one of advantage, TPR, η and security, got several of them."
        )
    if advantage is not None:
        return AdvantageTarget(advantage)
    if eta is not None:
        return EtaTarget(eta)
    if security is not None:
        return SecurityTarget(security, nu, lam)
    assert tpr is not None
    if len(fpr) != 1:
        raise InputError(
            f"a target TPR must come with exactly one FPR, got {len(fpr)}. "
            "Add --fpr 0.01, for example."
        )
    return TprTarget(tpr, fpr[0])


@dataclass(frozen=True)
class Question:
    """The parameters as given: exactly one notion, or the frame of an inverse question."""

    epsilon: float | None
    delta: float | None
    gdp: float | None
    noise_multiplier: float | None
    sample_rate: float | None
    steps: int | None

    def _notion(self) -> str:
        sgd = [self.noise_multiplier, self.sample_rate, self.steps]
        given = {
            "epsilon": self.epsilon is not None,
            "gdp": self.gdp is not None,
            "DP-SGD parameters": any(v is not None for v in sgd),
        }
        chosen = [name for name, present in given.items() if present]
        if len(chosen) > 1:
            raise InputError(
                f"the guarantee must be given in one way, got {' and '.join(chosen)} together."
            )
        if not chosen:
            raise InputError(
                "the guarantee must be given: epsilon (with delta), gdp, or noise_multiplier with "
                "sample_rate and steps; got none of them."
            )
        return chosen[0]

    def guarantee(self, adjacency: Adjacency | None) -> DpGuarantee:
        """Return the guarantee the parameters describe."""
        notion = self._notion()
        if notion == "epsilon":
            points = [(nonnegative("epsilon", self.epsilon), self.delta or 0.0)]
            if self.delta is not None:
                fraction("delta", self.delta)
            return guarantee_from_epsilon_delta(points, adjacency or "replace-one")
        if notion == "gdp":
            return guarantee_from_gdp(nonnegative("gdp", self.gdp), adjacency or "replace-one")
        return guarantee_from_dp_sgd(self._dp_sgd(), adjacency or "add-remove")

    def _dp_sgd(self) -> DpSgd:
        pairs = {
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "steps": self.steps,
        }
        missing = [name for name, value in pairs.items() if value is None]
        if missing:
            raise InputError(
                "DP-SGD needs noise_multiplier, sample_rate and steps, got no "
                + " and no ".join(missing)
                + "."
            )
        assert self.noise_multiplier is not None
        assert self.sample_rate is not None
        assert self.steps is not None
        return DpSgd(self.noise_multiplier, self.sample_rate, self.steps)

    def solved(self, target: Target, adjacency: Adjacency | None) -> Question:
        """Return the options with the free parameter filled in."""
        for name, value in (
            ("epsilon", self.epsilon),
            ("gdp", self.gdp),
            ("noise_multiplier", self.noise_multiplier),
        ):
            if value is not None:
                raise InputError(
                    f"a target finds the parameter, so {name} must be left out, got {value!r}."
                )
        if self.sample_rate is None and self.steps is None:
            found = calibrated_epsilon(target, self.delta or 0.0, adjacency or "replace-one")
            return Question(found, self.delta, None, None, None, None)
        if self.sample_rate is None or self.steps is None:
            raise InputError("a noise multiplier needs both sample_rate and steps, got only one.")
        DpSgd(1.0, self.sample_rate, self.steps)
        sigma = calibrated_noise_multiplier(
            target, self.sample_rate, self.steps, adjacency or "add-remove"
        )
        return Question(None, self.delta, None, sigma, self.sample_rate, self.steps)

    def quoted(self, guarantee: DpGuarantee) -> tuple[float | None, float, tuple[str, ...]]:
        """Return ε, δ and what was assumed about δ."""
        if self.epsilon is not None:
            return float(self.epsilon), float(self.delta or 0.0), ()
        notes: tuple[str, ...] = ()
        delta = self.delta
        if delta is None:
            delta = _DEFAULT_DELTA
            notes = (f"No δ was given, so ε is quoted at δ = {significant(delta, 'given')}.",)
        eps = guarantee.curve.epsilon(fraction("delta", delta))
        return (eps if math.isfinite(eps) else None), float(delta), notes

    def parameters(self) -> dict[str, float]:
        """Return what was given (or found) besides ε and δ."""
        values = {
            "gdp": self.gdp,
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "steps": self.steps,
        }
        return {name: value for name, value in values.items() if value is not None}
