"""A learner's own coins, fixed and public: the same in every fit and in the release.

A certificate that compares fits with independent coins says nothing about an attacker who knows the
coins.  With the coins shared, what is certified holds given them, so they may be published
(proofs/coupling.md, claim 10).  Here they are seeds: every ``random_state`` that was left open,
however deep inside an estimator, and the global generators of numpy, Python and PyTorch.  What a
learner draws from elsewhere cannot be fixed; :func:`~memberbound.protection.fitting.fitted` looks
for it by fitting twice, and the certificate then says what has to be assumed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

__all__ = [
    "COINS_AFRESH",
    "COINS_PUBLIC",
    "COINS_SECRET",
    "PUBLIC_SEED",
    "public_coins",
    "with_public_coins",
]

#: Any number that does not depend on the training set will do.
PUBLIC_SEED = 0

COINS_PUBLIC = (
    "The release is a function of the training set and of the noise: the learner's random numbers "
    "come from a public seed, the same in every fit (random_state and the global generators of "
    "numpy, Python and PyTorch), and repeated fits agreed."
)
_UNSEEDED = (
    "The learner draws random numbers that cannot be seeded from outside (repeated fits on the "
    "same subset differed): "
)
COINS_SECRET = _UNSEEDED + (
    "they are drawn afresh at every fit, and nobody may know or guess those of the release."
)
COINS_AFRESH = _UNSEEDED + "they are drawn afresh at every fit."


def with_public_coins(estimator: Any) -> Any:
    """Fix every seed that was left open in an estimator and in what it is made of.

    Silent, too: what a learner prints while it is fitted on the secret tells about it.

    Examples:
        >>> from sklearn.ensemble import BaggingClassifier
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> forest = with_public_coins(BaggingClassifier(DecisionTreeClassifier()))
        >>> forest.random_state, forest.estimator.random_state
        (0, 0)
    """
    changes: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=True).items():
        own = name.rpartition("__")[2]
        if own == "random_state" and value is None:
            changes[name] = PUBLIC_SEED
        elif own == "verbose" and value:
            changes[name] = 0
    return estimator.set_params(**changes) if changes else estimator


#: Blocks entered: only the outermost keeps and restores the generators, which takes its time.
_inside = 0


@contextmanager
def public_coins() -> Iterator[None]:
    """Seed the global generators at the start of the block; the outermost block restores them.

    Not for threads: the generators are the program's.
    """
    global _inside  # noqa: PLW0603
    torch = sys.modules.get("torch")
    with ExitStack() as stack:
        if _inside == 0:
            stack.callback(random.setstate, random.getstate())
            stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
            if torch is not None:
                stack.enter_context(torch.random.fork_rng(devices=[]))
        random.seed(PUBLIC_SEED)
        # Learners without a random_state of their own draw from this one.
        np.random.seed(PUBLIC_SEED)  # noqa: NPY002
        if torch is not None:
            _seed_torch(torch, thoroughly=_inside == 0)
        _inside += 1
        try:
            yield
        finally:
            _inside -= 1


def _seed_torch(torch: Any, *, thoroughly: bool) -> None:
    """Seed PyTorch; all of its devices where there may be any, which takes a millisecond."""
    if thoroughly or torch.cuda.is_initialized() or torch.backends.mps.is_built():
        torch.manual_seed(PUBLIC_SEED)
    else:
        torch.default_generator.manual_seed(PUBLIC_SEED)
