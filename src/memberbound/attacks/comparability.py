"""Are members and non-members comparable: draws from one law, and no record on both sides?

An audit compares members with fresh records *of the same law*.  If last year's customers trained
the model and this year's are the non-members, every attack separates them by the year, whatever the
model gives away.  So a classifier that never sees the model tries the same with the columns alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import Given, Upper, computed
from memberbound.attacks.evidence import Evidence, framed
from memberbound.attacks.model_scores import balancing_weights
from memberbound.attacks.scores import (
    IntervalFields,
    Scores,
    audit_scores,
    content_generator,
    interval_fields,
    permutation_p_value,
)
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import AuditBound, decimals, significant

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Duplicates", "LawTest", "blind_scores", "find_duplicates", "law_test", "one_law_test"]

#: Below this p-value the two are said to differ.
LEVEL = 0.01


# ── Records on both sides ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Duplicates:
    """Rows that are alike in every column and the target.

    Attributes:
        members: how many members a non-member equals; ``member_rows`` are the first of them.
        non_members: how many non-members a member equals; ``non_member_rows`` likewise, from 1.
        repeated_members: members that another member equals.
    """

    members: int
    non_members: int
    member_rows: tuple[int, ...]
    non_member_rows: tuple[int, ...]
    repeated_members: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know."""
        notes = []
        if self.members:
            first = ", ".join(map(str, self.non_member_rows[:5]))
            more = self.non_members - 5
            notes.append(
                f"{self.non_members} non-members equal a member in every column and the "
                f"target (rows {first}{f' and {more} more' if more > 0 else ''}). No attack can "
                "tell such rows apart, so every number is drawn towards blind guessing: give "
                "non-members that the model was not trained on. They are not left out, because "
                "that would make two samples of one distribution differ"
            )
        if self.repeated_members:
            notes.append(
                f"{self.repeated_members} member rows equal another member; each counts as a "
                "record of its own, as it did in training"
            )
        return tuple(notes)


def find_duplicates(evidence: Evidence, identifiers: DataFrame | None = None) -> Duplicates:
    """Find rows on both sides, which no attack can tell apart, and members given twice.

    ``identifiers`` are further columns that name a record.

    Edge cases: refused if more than half of the non-members are members, if every member is there
    at least twice, and if two members agree in an identifier as well.
    """
    import pandas as pd

    member = evidence.member
    frame = framed(evidence.rows).assign(**{" target": np.asarray(evidence.truth)})
    codes = np.asarray(pd.util.hash_pandas_object(frame, index=False))
    inside, outside = codes[member], codes[~member]
    _, counts = np.unique(inside, return_counts=True)
    repeated = int(counts[counts > 1].sum())
    if member.any() and bool((counts > 1).all()):
        raise InputError(
            f"members must be given once, got every one of {len(inside)} rows at least "
            "twice. Drop the repeated rows."
        )
    if identifiers is not None and identifiers.shape[1] and repeated:
        twice = np.flatnonzero(identifiers.assign(**{" row": codes})[member].duplicated())
        if twice.size:
            raise InputError(
                f"members must be given once, got row {int(twice[0]) + 1} again, with the same "
                f"{', '.join(map(str, identifiers.columns[:3]))}. Drop the repeated rows."
            )
    shared = np.flatnonzero(np.isin(outside, inside))
    if 2 * shared.size > outside.size:
        raise InputError(
            f"non-members must not be members, got {shared.size} of {outside.size} that equal "
            "a member in every column and the target. Give records that the model was not trained "
            "on."
        )
    both = np.flatnonzero(np.isin(inside, outside))
    member_rows, non_member_rows = (tuple((rows[:20] + 1).tolist()) for rows in (both, shared))
    return Duplicates(both.size, shared.size, member_rows, non_member_rows, repeated)


# ── One law? ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LawTest:
    """What a classifier reaches that sees columns and target but not the model.

    ``p_value`` is below any α with probability at most α if members and non-members are draws from
    one law; ``auc`` is that of the classifier on records it was not trained on (of the half on
    which it did better, at an error shared between both).
    """

    p_value: Upper
    auc: IntervalFields
    level: Given = LEVEL

    @computed
    def differs(self) -> bool:
        """Whether the two provably differ."""
        return self.p_value <= self.level

    @computed
    def sentence(self) -> str:
        """What it means for the audit."""
        if self.differs:
            reached = decimals(self.auc["estimate"], "estimate", 3)
            return (
                "Members and non-members differ already in their columns: a classifier that never "
                f"saw the model tells them apart with AUC {reached} "
                f"(p ≤ {significant(self.p_value, 'upper', 2)}). The attacks below measure that "
                "difference too, so what they reach is not shown to be a leak of the model. Take "
                "non-members from the source of the training records."
            )
        return (
            "A classifier on the columns alone does not tell members from non-members "
            f"(p = {significant(self.p_value, 'upper', 2)}); a small difference may go unnoticed."
        )


def one_law_test(evidence: Evidence, *, confidence: float = 0.95, seed: int = 0) -> LawTest:
    """Test whether members and non-members look like draws from one law.

    A classifier is trained on a random half and scores the other, and once more with the halves
    exchanged.

    Guarantee: if the records are exchangeable, P(p_value ≤ α) ≤ α.
    Theorem: proofs/given-models.md claim 3: given one half the labels of the other are uniformly
    shuffled under the hypothesis; a permutation test per half, the smaller p-value doubled.
    Edge cases: columns that cannot be told apart give 1.
    """
    return law_test(
        _numeric(evidence), evidence.member, blind_scores, confidence=confidence, seed=seed
    )


def law_test(
    table: Any,
    member: BoolArray,
    classify: Callable[[Any, BoolArray, Any, np.random.Generator], FloatArray],
    *,
    content: NDArray[np.generic] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> LawTest:
    """Test one law with any features (a row per record) and any classifier of them.

    ``classify(rows, member, others, generator)`` returns scores of the others.  ``content`` seeds
    the halves where the features are no array.  Guarantee: as :func:`one_law_test`.
    """
    drawn_from = table if content is None else content
    rng = content_generator(seed, drawn_from, member, purpose="one law")
    half = np.zeros(len(member), dtype=np.bool_)
    for side in (member, ~member):
        places = rng.permutation(np.flatnonzero(side))
        half[places[: len(places) // 2]] = True
    p_values, bounds = [], []
    for train in (half, ~half):
        score = classify(table[train], member[train], table[~train], rng)
        truth = member[~train]
        p_values.append(permutation_p_value(score, truth, rng))
        audit = audit_scores(
            Scores.from_samples(score[truth], score[~truth]),
            confidence=shared_confidence(confidence, 2),
            fpr=(),
            attack="blind",
        )
        bounds.append(cast(AuditBound, audit.auc))
    best = max(bounds, key=lambda b: (b.lower, b.estimate))
    return LawTest(min(1.0, 2 * min(p_values)), interval_fields(best))


def _numeric(evidence: Evidence) -> FloatArray:
    """Return columns and target as numbers, categories by the order of their names."""
    import pandas as pd

    frame = framed(evidence.rows)
    columns = []
    for name in frame.columns:
        series = frame[name]
        if pd.api.types.is_datetime64_any_dtype(series):
            columns.append(series.astype("int64").to_numpy(dtype=np.float64))
        elif pd.api.types.is_numeric_dtype(series):
            columns.append(series.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns.append(pd.factorize(series.astype(str), sort=True)[0].astype(np.float64))
    columns.append(np.asarray(evidence.truth, dtype=np.float64))
    return np.column_stack(columns)


def blind_scores(
    rows: FloatArray, member: BoolArray, others: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return how a classifier of the columns scores others, higher for members."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    most = 20_000  # more rows change nothing here
    if len(rows) > most:
        kept = rng.permutation(len(rows))[:most]
        rows, member = rows[kept], member[kept]
    blind = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=20, random_state=0
    )
    with one_thread():
        blind.fit(rows, member, sample_weight=balancing_weights(member))
        score = blind.decision_function(others)
    return np.asarray(score, dtype=np.float64)
