"""Facts about a fitted model that an output checker asks for before any attack is run.

None of them is a probability: each says what the model keeps or could show of single training rows,
whether it passes a rule of thumb, and why that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memberbound.attacks.evidence import Evidence

__all__ = ["Fact", "structural_facts"]


@dataclass(frozen=True)
class Fact:
    """One fact: what was counted, the rule of thumb, whether it passes, and the reason."""

    name: str
    value: int
    rule: str
    passes: bool
    reason: str

    def summary(self) -> str:
        """Return one readable line."""
        return f"{'ok   ' if self.passes else 'CHECK'} {self.name}: {self.value} ({self.rule})"


def structural_facts(evidence: Evidence, *, small: int = 10) -> tuple[Fact, ...]:
    """Return what the fitted model and its answers to the members show of single rows.

    The ideas are those of SACRO-ML's pre-checks: residual degrees of freedom, small leaves, small
    cells of answers, small classes, stored rows.  Counts below ``small`` are small, as in the
    threshold rule of most statistical offices.

    Edge cases: a model that is no scikit-learn object yields only what its answers show.
    """
    rows = int(evidence.member.sum())
    parts = _parts(None if evidence.model is None else evidence.model.model)
    stored = max((_stored(part) for part in parts), default=0)
    reason = "No training record is kept as such in the parts that are known here."
    if stored:
        reason = "The file itself holds training records; whoever has it can read them, without "
        reason += "any attack."
    facts = [Fact("stored training rows", stored, "none", stored == 0, reason)]

    def at_least(name: str, value: int, unit: str, reason: str) -> None:
        facts.append(Fact(name, value, f"at least {small}{unit}", value >= small, reason))

    numbers = sum(_parameters(part) for part in parts)
    if numbers:
        at_least(
            "residual degrees of freedom",
            rows - numbers,
            "",
            f"{numbers} numbers were fitted to {rows} members; with as many numbers as rows a "
            "model can reproduce its training data.",
        )
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    if leaves:
        at_least(
            "smallest leaf",
            min(leaves),
            " rows",
            "A leaf with few rows reveals their targets: its answer is their mean or count.",
        )
    member = evidence.member
    if evidence.classes:
        counts = np.bincount(np.asarray(evidence.truth)[member], minlength=len(evidence.classes))
        rare = evidence.classes[int(counts.argmin())]
        at_least(
            "smallest class",
            int(counts.min()),
            " members",
            f"Class {rare} has {counts.min()} members: a class that the model knows and few "
            "members have says something about these few.",
        )
    answers = np.asarray(evidence.answers.table)[member].reshape(rows, -1)
    _, sizes = np.unique(answers, axis=0, return_counts=True)
    at_least(
        "smallest cell of answers",
        int(sizes.min()),
        " members",
        f"{int((sizes < small).sum())} different answers are given to fewer than {small} members "
        "each: an answer that is nearly a record's own identifies it when the answers are "
        "published.",
    )
    return tuple(facts)


def _parts(model: object) -> list[object]:
    """Return the fitted object and the fitted parts that it is made of."""
    parts: list[object] = []
    queue = [model]
    while queue and len(parts) < 10_000:
        part = queue.pop()
        if part is None or isinstance(part, str):
            continue
        parts.append(part)
        steps = getattr(part, "steps", None)
        if isinstance(steps, list):
            queue += [step[1] for step in steps]
        for name in ("estimators_", "calibrated_classifiers_"):
            inner = getattr(part, name, None)
            if isinstance(inner, (list, np.ndarray)):
                queue += [
                    p for p in np.ravel(np.asarray(inner, dtype=object)).tolist() if p != "drop"
                ]
        for name in ("best_estimator_", "estimator_", "final_estimator_", "model"):
            inner = getattr(part, name, None)
            if inner is not None and hasattr(inner, "predict"):
                queue.append(inner)
    return parts


def _stored(part: object) -> int:
    """Return how many training rows a part keeps as they are."""
    for name in ("_fit_X", "X_train_", "support_vectors_", "X_fit_"):
        rows = getattr(part, name, None)
        if rows is not None and len(getattr(rows, "shape", ())) == 2:
            return int(rows.shape[0])
    return 0


def _parameters(part: object) -> int:
    """Return how many numbers were fitted: coefficients, intercepts, weights of a perceptron."""
    total = 0
    for name in ("coef_", "intercept_"):
        numbers = getattr(part, name, None)
        if isinstance(numbers, (np.ndarray, float)):
            total += int(np.size(numbers))
    for name in ("coefs_", "intercepts_"):
        layers = getattr(part, name, None)
        if isinstance(layers, list):
            total += sum(int(np.size(layer)) for layer in layers)
    if not total and callable(getattr(part, "parameters", None)):
        try:
            total = sum(p.numel() for p in part.parameters())  # type: ignore[attr-defined]
        except (AttributeError, TypeError):
            total = 0
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
