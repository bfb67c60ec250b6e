"""The scores of members and of non-members: checked, sorted, split.

Higher scores speak for membership.  Only their order counts; their values merely seed the split.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

__all__ = ["FEWEST_SCORES", "Scores"]

#: Fewer scores than this are refused: no interval would say anything.
FEWEST_SCORES = 20
#: One in so many scores of each class serve to choose a threshold, the others to evaluate it.
_CHOOSING = 3


class Scores(NamedTuple):
    """Scores of members and of non-members, each sorted upwards."""

    members: FloatArray
    non_members: FloatArray

    @classmethod
    def of(cls, scores: ArrayLike, member: ArrayLike) -> Scores:
        """Sort scores into the two classes by their 0/1 labels, or refuse them."""
        values = _score_array("scores", scores)
        labels = np.asarray(member)
        if labels.shape != values.shape:
            raise InputError(
                f"member must have one label per score ({values.size}), got shape {labels.shape}."
            )
        if labels.dtype != np.bool_:
            try:
                labels = labels.astype(np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    "member must be labels 0 (not a member) or 1 (member), got text. "
                    "Convert them to 0 and 1."
                ) from None
            strange = labels[(labels != 0) & (labels != 1)]
            if strange.size:
                raise InputError(
                    "member must be labels 0 (not a member) or 1 (member), got "
                    f"{float(strange[0])!r}."
                )
            labels = labels == 1
        return cls.from_samples(values[labels], values[~labels])

    @classmethod
    def from_samples(cls, members: ArrayLike, non_members: ArrayLike) -> Scores:
        """Return the two samples, sorted, or refuse them."""
        inside = _score_array("scores of members", members)
        outside = _score_array("scores of non-members", non_members)
        for name, sample in (("members", inside), ("non-members", outside)):
            if sample.size == 0:
                raise InputError(
                    f"scores must come from members and non-members, got no {name}. "
                    "An attack is measured by how well it tells the two apart."
                )
        if inside.size + outside.size < FEWEST_SCORES:
            raise InputError(
                f"scores must be at least {FEWEST_SCORES} in number, got "
                f"{inside.size + outside.size}. Fewer say nothing at any useful confidence."
            )
        return cls(np.sort(inside), np.sort(outside))

    def split(self, seed: int) -> tuple[Scores, Scores]:
        """Return a random third for choosing a threshold, and the rest for evaluating it.

        The split is drawn from a hash of the scores and the seed, so it does not depend on the
        order of the rows.  A seed alone would not do: it would pick the same ranks from any
        sorted scores, and then the rest is no fresh sample (proofs/audit-intervals.md claim 4).
        """
        digest = sha256(str(seed).encode())
        for sample in self:
            digest.update(sample.size.to_bytes(8, "big"))
            digest.update(np.ascontiguousarray(sample).data)
        source = np.random.default_rng(int.from_bytes(digest.digest(), "big"))
        parts = []
        for sample in self:
            chosen = np.zeros(sample.size, dtype=bool)
            size = max(1, sample.size // _CHOOSING) if sample.size > 1 else 0
            chosen[source.choice(sample.size, size, replace=False)] = True
            parts.append((sample[chosen], sample[~chosen]))
        (a, b), (c, d) = parts
        return Scores(a, c), Scores(b, d)

    def hits(self, threshold: float) -> tuple[int, int]:
        """Return how many members and how many non-members reach the threshold."""
        return (
            int(self.members.size - np.searchsorted(self.members, threshold, "left")),
            int(self.non_members.size - np.searchsorted(self.non_members, threshold, "left")),
        )

    def best_threshold(self, weights: tuple[float, float]) -> tuple[float, float]:
        """Return the threshold with the largest w₁·TPR - w₀·FPR and that value.

        The best threshold is a member's score (raising it to the next one loses no member) or +∞,
        nobody, with value 0.
        """
        x, y = self
        reached = (x.size - np.searchsorted(x, x, "left")) / max(x.size, 1)
        alarms = (y.size - np.searchsorted(y, x, "left")) / max(y.size, 1)
        gap = weights[0] * reached - weights[1] * alarms
        if gap.size == 0 or gap.max() <= 0:
            return np.inf, 0.0
        place = int(np.argmax(gap))
        return float(x[place]), float(gap[place])


def _score_array(name: str, scores: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {type(scores).__name__}.") from None
    if values.ndim != 1:
        raise InputError(f"{name} must be a list of numbers, got shape {values.shape}.")
    missing = int(np.isnan(values).sum())
    if missing:
        raise InputError(
            f"{name} must be numbers, got {missing} that are not (NaN). "
            "Leaving them out would change the attack: give them the score it falls back to."
        )
    return values
