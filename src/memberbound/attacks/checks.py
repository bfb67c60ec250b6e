"""Checks of the two samples' comparability, and of rows stored in the model.

An audit compares members with fresh records *from the same distribution*. If last year's customers
trained the model and this year's are the non-members, every attack separates them by year, whether
or not the model leaks.  A classifier that never sees the model therefore tries to separate them
from the columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import Given, Upper, computed
from memberbound.attacks.evidence import Evidence, to_frame
from memberbound.attacks.scores import (
    IntervalFields,
    Scores,
    audit_scores,
    content_generator,
    highest_floor,
    interval_fields,
    permutation_p_value,
)
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import decimals, significant
from memberbound.threads import one_thread

#: Report a difference in distribution below this p-value.
LEVEL = 0.01


# ── Records on both sides ─────────────────────────────────────────────────────────────────────────


def duplicate_notes(evidence: Evidence) -> tuple[str, ...]:
    """Return notes about rows in both samples and about duplicate members.

    Edge cases: refused if more than half of the non-members are members, or if every member occurs
    at least twice.
    """
    import pandas as pd

    member = evidence.member
    frame = to_frame(evidence.rows).assign(**{" target": np.asarray(evidence.truth)})
    codes = np.asarray(pd.util.hash_pandas_object(frame, index=False))
    inside, outside = codes[member], codes[~member]
    _, counts = np.unique(inside, return_counts=True)
    if member.any() and bool((counts > 1).all()):
        raise InputError(
            f"members must be given once, got every one of {len(inside)} rows at least "
            "twice. Drop the repeated rows."
        )
    shared = np.flatnonzero(np.isin(outside, inside)) + 1
    if 2 * shared.size > outside.size:
        raise InputError(
            f"non-members must not be members, got {shared.size} of {outside.size} that equal "
            "a member in every column and the target. Give records that the model was not trained "
            "on."
        )
    notes = []
    if shared.size:
        notes.append(
            f"{shared.size} non-members equal a member in every column and the target (first "
            "rows, counted from 1: "
            f"{', '.join(map(str, shared[:5]))}). No attack can tell such rows apart, so every "
            "number is biased towards blind guessing: give non-members that the model was not "
            "trained on. They are not left out, because that would make two samples of one "
            "distribution differ"
        )
    if (counts > 1).any():
        notes.append(
            f"{counts[counts > 1].sum()} member rows equal another member; each counts as a record "
            "of its own, as it did in training"
        )
    return tuple(notes)


# ── Test for one distribution
# ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LawTest:
    """Result of a classifier that sees columns and target but not the model.

    If members and non-members come from one distribution, P(``p_value`` ≤ α) ≤ α. ``auc`` is the
    classifier's AUC on held-out records, for the better of the two halves, which share the error
    level.
    """

    p_value: Upper
    auc: IntervalFields
    level: Given = LEVEL

    @computed
    def differs(self) -> bool:
        """Whether the two samples provably differ in distribution."""
        return self.p_value <= self.level

    @computed
    def sentence(self) -> str:
        """The consequence for the audit."""
        if self.differs:
            reached = decimals(self.auc["estimate"], "estimate", 3)
            return (
                "Members and non-members differ already in their columns: a classifier that never "
                f"saw the model tells them apart with AUC {reached} "
                f"(p ≤ {significant(self.p_value, 'upper', 2)}). The attacks below measure that "
                "difference too, so their results do not show a leak of the model. Take "
                "non-members from the source of the training records."
            )
        return (
            "A classifier on the columns alone does not tell members from non-members "
            f"(p = {significant(self.p_value, 'upper', 2)}); a small difference may go unnoticed."
        )


def one_law_test(evidence: Evidence, *, confidence: float = 0.95, seed: int = 0) -> LawTest:
    """Test whether members and non-members come from one distribution.

    Guarantee, Theorem: as :func:`law_test`.
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
    """Test for one distribution with arbitrary features (a row per record) and classifier.

    ``classify(rows, member, others, generator)`` trains on a random half and scores the other; then
    the halves swap roles.  ``content`` seeds the split when the features are not an array.

    Guarantee: if the records are exchangeable, P(p_value ≤ α) ≤ α.
    Theorem: proofs/given-models.md claim 3.  Given one half, the labels of the other are uniformly
    shuffled under the null hypothesis, so there is one permutation test per half; the smaller
    p-value is doubled.
    """
    drawn_from = table if content is None else content
    rng = content_generator(seed, drawn_from, member, purpose="one law")
    half = np.zeros(len(member), dtype=np.bool_)
    for side in (member, ~member):
        indices = rng.permutation(np.flatnonzero(side))
        half[indices[: len(indices) // 2]] = True
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
        bounds.append(audit.auc)
    return LawTest(min(1.0, 2 * min(p_values)), interval_fields(highest_floor(bounds)))


def _numeric(evidence: Evidence) -> FloatArray:
    """Return columns and target as numbers; categories are numbered in the order of their names."""
    import pandas as pd

    frame = to_frame(evidence.rows)
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
    """Train a classifier on the columns and score ``others``, higher for members."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    most = 20_000  # more rows do not help
    if len(rows) > most:
        sample = rng.permutation(len(rows))[:most]
        rows, member = rows[sample], member[sample]
    blind = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, class_weight="balanced", random_state=0
    )
    with one_thread:
        blind.fit(rows, member)
        score = blind.decision_function(others)
    return np.asarray(score, dtype=np.float64)


# ── Facts about the fitted model, for output checkers ─────────────────────────────────────────────
# The facts are counts, not probabilities.  Each reports what the model stores or could reveal about
# single training rows, whether it passes a rule of thumb, and why that matters.


@dataclass(frozen=True)
class Fact:
    """A fact: a count, the rule of thumb, whether it passes, and the reason for the rule."""

    name: str
    value: int
    rule: str
    passes: bool
    reason: str


def structural_facts(evidence: Evidence, *, small: int = 10) -> tuple[Fact, ...]:
    """Return facts about single rows that the fitted model or its answers reveal.

    The checks follow SACRO-ML's pre-checks: residual degrees of freedom, small leaves, small cells
    of answers, small classes, stored rows.  A count below ``small`` fails, as under the threshold
    rule of most statistical offices.

    Edge cases: a model that is not a scikit-learn object is checked by its answers only.
    """
    member, rows = evidence.member, int(evidence.member.sum())
    parts = _parts(None if evidence.model is None else evidence.model.model)
    counted = []
    numbers = sum(_parameters(part) for part in parts)
    if numbers:
        reason = f"{numbers} numbers were fitted to {rows} members; with as many numbers as rows a "
        reason += "model can reproduce its training data."
        counted.append(("residual degrees of freedom", rows - numbers, "", reason))
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    if leaves:
        reason = "A leaf with few rows reveals their targets: its answer is their mean or count."
        counted.append(("smallest leaf", min(leaves), " rows", reason))
    if evidence.classes:
        counts = np.bincount(np.asarray(evidence.truth)[member], minlength=len(evidence.classes))
        reason = f"Class {evidence.classes[int(counts.argmin())]} has {counts.min()} members: a "
        reason += "class that the model knows and few members have reveals something about them."
        counted.append(("smallest class", int(counts.min()), " members", reason))
    answers = np.asarray(evidence.answers.table)[member].reshape(rows, -1)
    _, sizes = np.unique(answers, axis=0, return_counts=True)
    reason = f"{(sizes < small).sum()} different answers are given to fewer than {small} members "
    reason += "each: an answer that is nearly a record's own identifies it when it is published."
    counted.append(("smallest cell of answers", int(sizes.min()), " members", reason))
    stored = max((_count_stored_rows(part) for part in parts), default=0)
    reason = "Training records in the model's file can be read without any attack."
    return (
        Fact("stored training rows", stored, "none", stored == 0, reason),
        *(
            Fact(name, value, f"at least {small}{unit}", value >= small, reason)
            for name, value, unit, reason in counted
        ),
    )


def _parts(model: object) -> list[object]:
    """Return the fitted object and its fitted components."""
    parts: list[object] = []
    queue = [model]
    while queue and len(parts) < 10_000:
        part = queue.pop()
        if part is None or isinstance(part, str):
            continue
        parts.append(part)
        queue += [step for _, step in getattr(part, "steps", None) or ()]
        for name in ("estimators_", "calibrated_classifiers_"):
            queue += np.ravel(np.asarray(getattr(part, name, ()), dtype=object)).tolist()
        for name in ("best_estimator_", "estimator_", "final_estimator_", "model"):
            inner = getattr(part, name, None)
            if hasattr(inner, "predict"):
                queue.append(inner)
    return parts


def _count_stored_rows(part: object) -> int:
    """Return the number of training rows that a component stores verbatim."""
    for name in ("_fit_X", "X_train_", "support_vectors_", "X_fit_"):
        rows = getattr(part, name, None)
        if rows is not None and len(getattr(rows, "shape", ())) == 2:
            return int(rows.shape[0])
    return 0


def _parameters(part: object) -> int:
    """Return the number of fitted parameters: coefficients, or weights of a network."""
    if callable(getattr(part, "state_dict", None)):
        return sum(p.numel() for p in part.parameters())  # type: ignore[attr-defined]
    total = 0
    for name in ("coef_", "intercept_", "coefs_", "intercepts_"):
        numbers = getattr(part, name, ())
        layers = numbers if isinstance(numbers, list) else [numbers]
        total += sum(np.size(x) for x in layers if isinstance(x, (np.ndarray, float)))
    return total


def _leaves(part: object) -> Iterator[int]:
    """Yield the number of training rows of each leaf of a tree."""
    tree = getattr(part, "tree_", None)
    if tree is not None and hasattr(tree, "n_node_samples"):
        ends = np.asarray(tree.children_left) < 0
        yield from np.asarray(tree.n_node_samples)[ends].tolist()
    for stage in getattr(part, "_predictors", None) or ():
        for one in stage:
            nodes = getattr(one, "nodes", None)
            if nodes is not None and "is_leaf" in (nodes.dtype.names or ()):
                yield from nodes["count"][nodes["is_leaf"].astype(bool)].astype(int).tolist()
