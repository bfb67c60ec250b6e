"""Which members are recognised, with false discoveries controlled; and how subgroups fare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memberbound.attacks.scores import FEWEST_SCORES, ScoreAudit, Scores, audit_pair
from memberbound.attacks.signals import BoolArray
from memberbound.attacks.splits import content_generator
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import INTERVAL, Sides, percent

__all__ = ["Group", "Groups", "Recognised", "audit_groups", "recognised_members"]

#: Of the records that the rule names, at most this share is wrong, on average.
RATE = 0.1
#: Records listed in the answer; a file has all.
_LISTED = 20
#: More values than this are no subgroups.
_GROUPS = 50


@dataclass(frozen=True, eq=False)
class Recognised:
    """Members that a rule names which, on a list mixed with non-members, is seldom wrong.

    Attributes:
        rows: numbers of the members (from 0) that were tried, in the order of ``p_values``.
        p_values: share of calibrating non-members that score as high, per member.
        named: which of them the rule names.
        wrongly: how many of the ``others`` on the list it names.
        rate: the expected share of wrong names is at most this.
    """

    SIDES: ClassVar[Sides] = {
        "false_discovery_rate_upper": "upper",
        "named_share": "given",
        "most": {"p_value": "upper"},
    }

    attack: str
    rows: tuple[int, ...]
    p_values: FloatArray
    named: BoolArray
    wrongly: int
    others: int
    calibrating: int
    rate: float

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, with the members that stand out most."""
        order = np.argsort(self.p_values, kind="stable")[:_LISTED]
        return {
            "attack": self.attack,
            "tried": len(self.rows),
            "recognised": int(self.named.sum()),
            "named_share": float(self.named.mean()) if len(self.rows) else 0.0,
            "others_tried": self.others,
            "others_named": self.wrongly,
            "calibrating": self.calibrating,
            "false_discovery_rate_upper": self.rate,
            "most": [
                {
                    "record": self.rows[i],
                    "p_value": float(self.p_values[i]),
                    "recognised": bool(self.named[i]),
                }
                for i in order
            ],
        }

    def summary(self) -> str:
        """Return readable lines."""
        count = int(self.named.sum())
        if not count:
            return (
                f"records: on a list of {len(self.rows)} members and {self.others} others the "
                f"attack ({self.attack}) names no member\n  (by a rule that keeps wrong "
                f"names to at most {percent(self.rate, 'upper')} on average)"
            )
        text = (
            f"records: of {len(self.rows)} members and {self.others} others on one list, the "
            f"attack ({self.attack}) names {count} members and {self.wrongly} others;\n  on "
            f"average at most {percent(self.rate, 'upper')} of those it names are wrong"
        )
        order = np.argsort(self.p_values, kind="stable")
        first = [str(self.rows[i]) for i in order if self.named[i]][:8]
        more = count - len(first)
        text += f"\n  members (rows from 0): {', '.join(first)}"
        return text + (f" and {more} more" if more > 0 else "")


def recognised_members(
    scores: FloatArray,
    member: BoolArray,
    rows: Sequence[int],
    *,
    attack: str,
    rate: float = RATE,
    seed: int = 0,
) -> Recognised:
    """Name members by conformal p-values and Benjamini and Hochberg's rule.

    Half of the non-members calibrate: a record's p-value is the share of them that scores at least
    as high.  The other half is mixed with the members, and the rule sees one list.

    Guarantee: E[wrong names / max(1, names)] ≤ ``rate``·(others)/(members + others), for any scores
    of the members.  It is reported as the rate.
    Theorem: proofs/given-models.md claim 2 (after Bates, Candès, Lei, Romano and Sesia 2023; the
    p-values of fresh records are positively dependent, which Benjamini and Yekutieli's theorem
    allows).
    Assumes: given the model, non-members are exchangeable draws whose scores do not depend on each
    other, in whatever order they are listed; the attack was chosen without looking.
    Edge cases: ties are broken by coins; with fewer than 20 non-members nobody is named.
    """
    level = fraction("rate", rate, open_left=True, open_right=True)
    rng = content_generator(seed, scores, member, purpose="recognised")
    # Ties are broken by coins: then all orders of exchangeable scores are equally likely.
    order = np.lexsort((rng.random(len(scores)), scores))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[order] = np.arange(len(scores))
    outside = rng.permutation(np.flatnonzero(~member))
    calibrating, others = outside[: len(outside) // 2], outside[len(outside) // 2 :]
    tried = np.concatenate([np.flatnonzero(member), others])
    below = np.searchsorted(np.sort(rank[calibrating]), rank[tried], "left")
    p_values = (1 + len(calibrating) - below) / (1 + len(calibrating))
    named = _benjamini_hochberg(p_values, level)
    size = int(member.sum())
    if len(outside) < FEWEST_SCORES:
        named[:] = False
    return Recognised(
        attack,
        tuple(int(r) for r in rows),
        p_values[:size],
        named[:size],
        int(named[size:].sum()),
        len(others),
        len(calibrating),
        level * len(others) / max(len(tried), 1),
    )


def _benjamini_hochberg(p_values: FloatArray, rate: float) -> BoolArray:
    """Return which hypotheses are rejected.

    Examples:
        >>> _benjamini_hochberg(np.array([0.01, 0.9, 0.03]), 0.1).tolist()
        [True, False, True]
    """
    ordered = np.sort(p_values)
    # p ≤ k·q/m; where rounding leaves it open, the record is not named.
    steps = np.arange(1, len(ordered) + 1) * rate
    passed = np.flatnonzero(ordered * len(ordered) <= steps * (1 - 1e-12))
    limit = ordered[passed[-1]] if passed.size else -1.0
    return np.asarray(p_values <= limit)


# ── Subgroups ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Group:
    """What one attack reaches within a subgroup; ``found`` is None where there are too few."""

    value: str
    members: int
    non_members: int
    found: ScoreAudit | None

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        bounds = {} if self.found is None else self.found.to_dict()
        return {
            "value": self.value,
            "members": self.members,
            "non_members": self.non_members,
            "auc": bounds.get("auc"),
            "advantage": bounds.get("advantage"),
        }


@dataclass(frozen=True, eq=False)
class Groups:
    """Subgroups by one column, with intervals that hold for all groups at once."""

    SIDES: ClassVar[Sides] = {
        "confidence": "lower",
        "groups": {"auc": INTERVAL, "advantage": INTERVAL},
    }

    column: str
    attack: str
    confidence: float
    groups: tuple[Group, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        return {
            "column": self.column,
            "attack": self.attack,
            "confidence": self.confidence,
            "ends_hold": "for all groups at once, for each quantity",
            "groups": [g.to_dict() for g in self.groups],
        }


def audit_groups(
    scores: FloatArray,
    member: BoolArray,
    values: Sequence[object],
    *,
    column: str,
    attack: str,
    confidence: float = 0.95,
    seed: int = 0,
) -> Groups:
    """Measure one attack within each value of a column.

    Guarantee: with probability at least ``confidence`` the advantages of all groups lie in their
    intervals together, and so do the AUCs.
    Theorem: proofs/audit-intervals.md claims 1 and 4, the error shared among the groups.
    Assumes: as :func:`memberbound.attacks.given_model.audit_model`, within each group.
    Edge cases: more than 50 values are refused; a group with fewer than 10 members or others is
    counted but not measured, and pays for nothing.
    """
    import pandas as pd

    column_of = pd.Series(list(values), dtype=object)
    texts = column_of.astype(str).where(column_of.notna(), "(missing)").to_numpy(dtype=str)
    names = sorted(set(texts.tolist()))
    if len(names) > _GROUPS:
        raise InputError(
            f"by must be a column with at most {_GROUPS} values, got {column!r} with {len(names)}. "
            "Make classes of it first."
        )
    sizes = {
        n: (int((member & (texts == n)).sum()), int((~member & (texts == n)).sum())) for n in names
    }
    large = [n for n in names if min(sizes[n]) >= FEWEST_SCORES // 2]
    level = shared_confidence(confidence, max(len(large), 1))
    found = []
    for name in names:
        within = texts == name
        measured = None
        if name in large:
            measured = audit_pair(
                Scores.from_samples(scores[within & member], scores[within & ~member]),
                confidence=level,
                fpr=(),
                attack=attack,
                seed=seed,
            )
        found.append(Group(name, *sizes[name], measured))
    return Groups(column, attack, confidence, tuple(found))
