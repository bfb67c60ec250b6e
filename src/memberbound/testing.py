"""A check for test suites: attacks on a model must not tell members from non-members too often."""

from __future__ import annotations

from typing import Any

from memberbound.limits import Limit, Part
from memberbound.verbs.audit import Audit, audit


def assert_private(
    model: object,
    members: object,
    nonmembers: object,
    above: float = 0.6,
    *,
    on: Part = "estimate",
    **options: Any,
) -> Audit:
    """Fail a test if an attack on the model is right more often than ``above``; return the audit.

    ``members`` and ``nonmembers`` are pairs (X, y), tables or files; tables need ``target``.
    Further options are those of :func:`memberbound.audit`; reference models are trained only if
    ``quick`` is False.  ``on`` selects the number to compare: the best attack's estimate, or its
    lower bound (``floor``).

    Guarantee: none for attacks that were not tried.
    Edge cases: members and non-members that differ in distribution, and an audit that measures
    nothing, fail the test too.

    Examples:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> draws = np.random.default_rng(0)
        >>> X, y = draws.normal(size=(400, 4)), draws.integers(0, 2, 400)
        >>> members, others = (X[:200], y[:200]), (X[200:], y[200:])
        >>> _ = assert_private(DecisionTreeClassifier(max_depth=1).fit(*members), members, others)
        >>> assert_private(DecisionTreeClassifier().fit(*members), members, others)
        Traceback (most recent call last):
        AssertionError: ... above the limit of 60 %.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    limit = Limit(above, on)
    answer = audit(members, nonmembers=nonmembers, model=model, **({"quick": True} | options))
    held = answer.held_to(limit)
    if held.outcome != "passed":
        raise AssertionError(held.sentence)
    return answer
