"""Targets against shadows: the sums over shadow models that every attack is made of.

Either the targets are models of their own (``own`` is false), or target i *is* shadow i and is left
out of what the attacker knows about it.  Leaving one out is a subtraction from a sum, so attacking
all S models with the other S-1 costs O(S·N), not O(S²·N).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memberbound.auditing.signals import BoolArray, Signals
from memberbound.errors import InputError
from memberbound.learners import Examples
from memberbound.numerics.rounding import FloatArray

__all__ = ["Duel", "Moments"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred sum of squares of a statistic over some shadow models, per record.

    Arrays are (T, N), or (1, N) when all targets face the same shadows.
    """

    count: FloatArray
    mean: FloatArray
    squares: FloatArray

    def variance(self, kind: str, *, prior: float = 4.0) -> FloatArray:
        """Return the variance per record, ``pooled`` over all records, or ``shrunk`` between.

        ``shrunk`` adds the pooled variance with the weight of ``prior`` models.
        """
        freedom = np.maximum(self.count - 1, 0.0)
        total = freedom.sum(axis=1, keepdims=True)
        pooled = self.squares.sum(axis=1, keepdims=True) / np.maximum(total, 1.0)
        pooled = np.maximum(pooled, 1e-12)
        if kind == "pooled":
            return np.asarray(np.broadcast_to(pooled, self.squares.shape))
        if kind == "shrunk":
            return np.asarray((self.squares + prior * pooled) / (freedom + prior))
        # One model has no spread: the pooled one stands in.
        own = self.squares / np.maximum(freedom, 1.0)
        return np.asarray(np.where(freedom > 0, np.maximum(own, 1e-6 * pooled), pooled))


@dataclass(frozen=True, eq=False)
class Duel:
    """Target models attacked with shadow models whose halves are known."""

    target: Signals
    shadow: Signals
    membership: BoolArray
    examples: Examples
    own: bool
    #: The shadows against each other, where the attacker can learn; made when left out.
    practice: Duel | None = None
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    def remembered(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a table that several attacks share, computed once."""
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]

    def learning(self) -> Duel:
        """Return the duel of every shadow with the others, in which all halves are known."""
        if self.own:
            return self
        if self.practice is not None:
            return self.practice
        return Duel.leave_one_out(self.shadow, self.membership, self.examples)

    def __post_init__(self) -> None:
        if self.membership.shape != self.shadow.logit.shape:
            raise InputError(
                f"membership must be of the shape of the signals {self.shadow.logit.shape!r}, got "
                f"{self.membership.shape!r}."
            )
        least = 3 if self.own else 2
        if self.shadow.models < least:
            raise InputError(f"shadow models must be at least {least}, got {self.shadow.models!r}.")

    @classmethod
    def leave_one_out(cls, signals: Signals, membership: BoolArray, examples: Examples) -> Duel:
        """Attack every model with all the others."""
        return cls(signals, signals, membership, examples, True)

    def moments(self, statistic: FloatArray) -> tuple[Moments, Moments]:
        """Return what a statistic of the shadows is when the record is in, and when it is out.

        ``statistic`` is (S, N).  A record that no shadow has in (or out) gets the mean of the other
        side, moved by the average gap.
        """
        centre = statistic.mean(axis=0, keepdims=True)
        # Centred, so that sums of squares keep their digits.
        value = statistic - centre
        sides = [self._side(mask, value) for mask in (self.membership, ~self.membership)]
        ins, outs = sides
        both = (ins.count > 0) & (outs.count > 0)
        gap = np.where(both, ins.mean - outs.mean, 0.0).sum(axis=1, keepdims=True)
        gap = gap / np.maximum(both.sum(axis=1, keepdims=True), 1)
        mean_in = np.where(ins.count > 0, ins.mean, outs.mean + gap)
        mean_out = np.where(outs.count > 0, outs.mean, ins.mean - gap)
        return (
            Moments(ins.count, mean_in + centre, ins.squares),
            Moments(outs.count, mean_out + centre, outs.squares),
        )

    def _side(self, mask: BoolArray, value: FloatArray) -> Moments:
        weight = mask.astype(np.float64)
        first = weight * value
        second = first * value
        count = weight.sum(axis=0, keepdims=True)
        total = first.sum(axis=0, keepdims=True)
        square = second.sum(axis=0, keepdims=True)
        if self.own:
            count, total, square = count - weight, total - first, square - second
        many = np.maximum(count, 1.0)
        mean = total / many
        return Moments(count, mean, np.maximum(square - total * mean, 0.0))
