"""The learner's own randomness: fixed, public, and the same in every fit and in the release.

A certificate that compares fits with independent coins does not cover an attacker who knows the
coins.  With shared coins, the certificate holds conditionally on them, so they may be published
(proofs/coupling.md, claim 10).  Here they are seeds: every unset ``random_state``, at any depth
of an estimator, and the global generators of numpy, Python and PyTorch.  Other sources of
randomness cannot be fixed; :func:`~memberbound.release.half.fitting.fit_groups` detects them by
fitting twice, and the certificate then states the assumption.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from memberbound.threads import ONE_AT_A_TIME

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Any number that does not depend on the training set.
PUBLIC_SEED = 0
COINS_PUBLIC = (
    "The release is a function of the training set and of the noise: the learner's random numbers "
    "come from a public seed, the same in every fit (random_state and the global generators of "
    "numpy, Python and PyTorch), and repeated fits agreed."
)
COINS_SECRET = (
    "The learner draws random numbers that cannot be seeded from outside (repeated fits on the "
    "same subset differed): they are drawn afresh at every fit, and those of the release must stay "
    "secret."
)


def with_public_coins(estimator: BaseEstimator) -> BaseEstimator:
    """Set every unset seed of an estimator, including nested estimators.

    Also silence it: output printed while fitting the secret would leak.

    Examples:
        >>> from sklearn.ensemble import BaggingClassifier
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> forest = with_public_coins(BaggingClassifier(DecisionTreeClassifier()))
        >>> forest.random_state, forest.estimator.random_state
        (0, 0)
    """
    changes: dict[str, object] = {}
    for name, value in estimator.get_params(deep=True).items():
        own = name.rpartition("__")[2]
        if own == "random_state" and value is None:
            changes[name] = PUBLIC_SEED
        elif own == "verbose" and value:
            changes[name] = 0
    return estimator.set_params(**changes) if changes else estimator


@contextmanager
def public_coins() -> Iterator[None]:
    """Seed the global generators within the block; other threads wait until it ends."""
    torch = sys.modules.get("torch")
    with ONE_AT_A_TIME, ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        random.seed(PUBLIC_SEED)
        # Learners without a random_state use this generator.
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        np.random.seed(PUBLIC_SEED)  # noqa: NPY002
        if torch is not None:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(PUBLIC_SEED)
        yield
