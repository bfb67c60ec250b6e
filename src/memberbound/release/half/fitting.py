"""A statistic on many subsets: on all cores, with public coins."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError, whole_number
from memberbound.learners.refits import current_cluster, refits
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.least_noise import Progress, Rows, Statistic

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# ── A learner's own coins, fixed and public: the same in every fit and in the release ─────────────
#
# A certificate that compares fits with independent coins says nothing about an attacker who knows
# the coins.  With the coins shared, what is certified holds given them, so they may be published
# (proofs/coupling.md, claim 10).  Here they are seeds: every ``random_state`` that was left open,
# however deep inside an estimator, and the global generators of numpy, Python and PyTorch.  What a
# learner draws from elsewhere cannot be fixed; :func:`fitted` looks
# for it by fitting twice, and the certificate then says what has to be assumed.

#: Any number that does not depend on the training set will do.
PUBLIC_SEED = 0

COINS_PUBLIC = (
    "The release is a function of the training set and of the noise: the learner's random numbers "
    "come from a public seed, the same in every fit (random_state and the global generators of "
    "numpy, Python and PyTorch), and repeated fits agreed."
)
COINS_SECRET = (
    "The learner draws random numbers that cannot be seeded from outside (repeated fits on the "
    "same subset differed): they are drawn afresh at every fit, and nobody may know or guess those "
    "of the release."
)


def with_public_coins(estimator: BaseEstimator) -> BaseEstimator:
    """Fix every seed that was left open in an estimator and in what it is made of.

    Silent, too: what a learner prints while it is fitted on the secret tells about it.

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


#: The generators are the program's, and a worker of a cluster may have several threads.
_ONE_THREAD = threading.RLock()


@contextmanager
def public_coins() -> Iterator[None]:
    """Seed the global generators for the block; another thread waits until it has ended."""
    torch = sys.modules.get("torch")
    with _ONE_THREAD, ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        random.seed(PUBLIC_SEED)
        # Learners without a random_state of their own draw from this one.
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        np.random.seed(PUBLIC_SEED)  # noqa: NPY002
        if torch is not None:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(PUBLIC_SEED)
        yield


# ── Compute a statistic on many subsets, on all cores, and never lose one silently ────────────────
#
# A fit that fails cannot be left out: the subsets on which it works are not uniform, and a
# certificate from them would speak about another game.  Nor may it be seen in the release that the
# fit on the secret failed.  So a failed fit has a value like any other: zeros, in the calibration
# as in the release.

#: Batches of groups for each worker.
_BATCHES = 8
#: Groups of which a subset is fitted twice, to find coins that cannot be seeded.
_COIN_PROBES = 8
#: More than one failure in this many fits is refused: zeros would be released as often.
_FAILURES = 100

Group = Sequence[Rows]
Reduce = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Fits:
    """Outputs, one row per group, with the numbers of fits, unconverged and failed ones.

    ``own_coins``: repeated fits differed, so the learner has coins that cannot be seeded.
    """

    rows: FloatArray
    count: int
    unconverged: int
    failed: int
    own_coins: bool


def fit_once(statistic: Statistic, rows: Rows) -> FloatArray:
    """Return the statistic of these records with public coins; whatever it raises is passed on."""
    imported = "torch" in sys.modules
    with public_coins():
        value = statistic(rows)
    if not imported and "torch" in sys.modules:
        # This fit imported torch, so torch was not seeded before it.
        with public_coins():
            value = statistic(rows)
    vector = np.asarray(value, dtype=np.float64)
    if vector.shape != (statistic.dimension,):
        raise InputError(f"a vector of length {statistic.dimension} is due, got {vector.shape!r}.")
    if not np.isfinite(vector).all():
        raise InputError("its value is not finite.")
    return vector


def evaluated(statistic: Statistic, rows: Rows) -> tuple[FloatArray, str | None]:
    """Return the statistic of these records, or zeros and the reason why it has none.

    Guarantee: never fails, so what is released is a function of the records on every subset, and
    the certificates that refit count a failure as the movement it is (proofs/retraining.md).
    """
    try:
        return fit_once(statistic, rows), None
    # Whatever a learner raises, or ends the program with, becomes one sentence.
    except (Exception, SystemExit) as error:
        return np.zeros(statistic.dimension), f"{type(error).__name__}: {error}"


def is_nondeterministic(statistic: Statistic, subsets: Sequence[Rows]) -> bool:
    """Whether a second fit on some of these subsets differs from the first, coins being public."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(
            not np.array_equal(evaluated(statistic, rows)[0], evaluated(statistic, rows)[0])
            for rows in subsets
        )


@dataclass(frozen=True, eq=False)
class _GroupFit:
    """What came back from a group of subsets."""

    row: FloatArray
    unconverged: int
    failures: list[str]
    warned: dict[str, type[Warning]]


@dataclass(frozen=True, eq=False)
class _Refit:
    """Fits a group of subsets; sent to the workers."""

    statistic: Statistic
    reduce: Reduce | None

    def __call__(self, group: Group) -> _GroupFit:
        unconverged, outputs, failures = 0, [], []
        warned: dict[str, type[Warning]] = {}
        for subset in group:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                value, reason = evaluated(self.statistic, subset)
            outputs.append(value)
            if reason is not None:
                failures.append(reason)
            stuck = [w for w in seen if "Convergence" in w.category.__name__]
            unconverged += bool(stuck)
            warned |= {str(w.message): w.category for w in seen if w not in stuck}
        row = np.array(outputs)
        row = row if self.reduce is None else self.reduce(row)
        return _GroupFit(row, unconverged, failures, warned)


def fitted(
    statistic: Statistic,
    groups: Sequence[Group],
    reduce: Reduce | None = None,
    *,
    workers: int | None = None,
    progress: Progress = None,
) -> Fits:
    """Return the statistic's outputs, (group size, dimension), or ``reduce`` of them, by group.

    Coins are public and the same in every fit; a fit that fails gives zeros.  ``workers`` processes
    (``None``: all cores, unless the work takes a moment only); the result does not depend on their
    number.  A statistic that cannot be pickled, or that is seen to differ from fit to fit on the
    same subset, is fitted in this process.
    Warnings of unfinished convergence are counted, others passed on once.

    Edge cases: InputError when more than one fit in a hundred fails.
    """
    if workers is not None:
        whole_number("workers", workers)
    total, planned = len(groups), sum(map(len, groups))
    probed = np.unique(np.linspace(0, total - 1, _COIN_PROBES).round().astype(np.int64))
    probes = [groups[place][turn % len(groups[place])] for turn, place in enumerate(probed)]
    own = is_nondeterministic(statistic, probes)
    if own:
        # A generator that such a statistic carries is copied, state and all, with every batch of
        # the work: draws of different batches would then not be independent, as X4 needs.
        workers = 1
    cluster = None if workers == 1 else current_cluster()
    fits: dict[int, _GroupFit] = {}
    failures: list[str] = []
    for place, fit in refits(
        _Refit(statistic, reduce),
        dict(enumerate(groups)),
        workers=workers,
        cluster=cluster,
        batches=_BATCHES,
    ):
        fits[place] = fit
        failures += fit.failures
        if len(failures) * _FAILURES > planned:
            raise InputError(
                f"statistic must be finite on nearly every subset, got {len(failures)} failed fits "
                f"of {planned}: {failures[0]} Failed fits cannot be left out; make the learner "
                "robust (regularise, merge rare classes)."
            )
        if progress is not None:
            progress(len(fits), total)
    ordered = [fits[place] for place in range(total)]
    warned = {message: kind for fit in ordered for message, kind in fit.warned.items()}
    if failures:
        warned[
            f"{len(failures)} failed of {planned} fits: {failures[0]} A fit that fails releases "
            "zeros, and the noise hides it."
        ] = UserWarning
    for message, category in list(warned.items())[-3:]:
        warnings.warn(message, category, stacklevel=3)
    unconverged = sum(fit.unconverged for fit in ordered)
    return Fits(np.array([fit.row for fit in ordered]), planned, unconverged, len(failures), own)
