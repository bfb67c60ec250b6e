"""Fit a statistic on fresh subsets.

A calibrator sees the population and *fresh* subsets of it, never the secret subset of the release
(theory §6, trap 6): it gets a :class:`FreshSubsets`, which samples its own subsets.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.declarations import Progress
from memberbound.errors import InputError, whole_number
from memberbound.games import SubsetGame
from memberbound.learners.refits import Cluster, refits
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.public_coins import public_coins
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    pass

Rows = NDArray[np.int64]


class Statistic(Protocol):
    """A released statistic: a map from rows of the population to a vector."""

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        ...

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the statistic of the records with these row numbers."""
        ...


@dataclass(frozen=True)
class FreshSubsets:
    """Uniform subsets for calibration, from a generator independent of the secret.

    The same seed gives the same subsets; ``spawn`` returns an independent stream, so that a scale
    chosen on one stream can be certified on another.
    """

    game: SubsetGame
    seed: int | tuple[int, ...] = 0

    def spawn(self, number: int) -> FreshSubsets:
        """Return an independent stream of subsets."""
        base = self.seed if isinstance(self.seed, tuple) else (self.seed,)
        return FreshSubsets(self.game, (*base, number))

    def orders(self, count: int) -> list[Rows]:
        """Return uniform permutations of the population; the first ``size`` form a subset."""
        draws = np.random.default_rng(self.seed)
        return [draws.permutation(self.game.population) for _ in range(count)]

    def subsets(self, count: int) -> list[Rows]:
        """Return independent uniform subsets of the game's size, sorted."""
        return [np.sort(order[: self.game.size]) for order in self.orders(count)]


# ── Fits of a statistic on many subsets, on all cores, without losing one silently ────────────────
#
# A failed fit cannot be omitted: the subsets on which fits succeed are not uniform, so a
# certificate from them would concern another game.  Nor may the release reveal that the fit on the
# secret failed.  A failed fit therefore returns zeros, both in the calibration and in the release.

#: Batches of groups for each worker.
_BATCHES = 8
#: Number of groups with a subset fitted twice, to detect unseeded randomness.
_COIN_PROBES = 8
#: Reject more than one failure in this many fits, because zeros would be released as often.
_FAILURES = 100

SubsetGroup = Sequence[Rows]
Reduce = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Fits:
    """Outputs, one row per group, with the numbers of fits and of failures.

    ``own_coins`` is set if repeated fits differed, so that the learner has unseeded randomness.
    """

    rows: FloatArray
    count: int
    failed: int
    own_coins: bool


def fit_once(statistic: Statistic, rows: Rows) -> FloatArray:
    """Compute the statistic of these records with public coins; exceptions propagate."""
    imported = "torch" in sys.modules
    with public_coins():
        value = statistic(rows)
    if not imported and "torch" in sys.modules:
        # This fit imported torch, so torch was not seeded before it.
        with public_coins():
            value = statistic(rows)
    vector = np.asarray(value, dtype=np.float64)
    if vector.shape != (statistic.dimension,):
        raise InputError(
            f"its value must be a vector of length {statistic.dimension}, got {vector.shape!r}."
        )
    if not np.isfinite(vector).all():
        raise InputError("its value is not finite.")
    return vector


def evaluate(statistic: Statistic, rows: Rows) -> tuple[FloatArray, str | None]:
    """Compute the statistic of these records; on failure return zeros and the reason.

    Guarantee: never raises, so the release is a function of the records on every subset, and
    certificates by refitting count a failure as a change of the output (proofs/retraining.md).
    """
    try:
        return fit_once(statistic, rows), None
    # Turn any exception, or an attempt to exit, into one sentence.
    except (Exception, SystemExit) as error:
        return np.zeros(statistic.dimension), f"{type(error).__name__}: {error}"


def is_nondeterministic(statistic: Statistic, subsets: Sequence[Rows]) -> bool:
    """Return whether repeated fits on some of these subsets differ, with public coins."""
    with no_warnings:
        return any(
            not np.array_equal(evaluate(statistic, rows)[0], evaluate(statistic, rows)[0])
            for rows in subsets
        )


@dataclass(frozen=True, eq=False)
class _Refit:
    """A task for a worker: fit a group of subsets; return outputs, failures and warnings."""

    statistic: Statistic
    reduce: Reduce | None

    def __call__(
        self, group: SubsetGroup
    ) -> tuple[FloatArray, list[str], dict[str, type[Warning]]]:
        outputs, failures = [], []
        warned: dict[str, type[Warning]] = {}
        for subset in group:
            with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                value, reason = evaluate(self.statistic, subset)
            outputs.append(value)
            if reason is not None:
                failures.append(reason)
            warned |= {str(w.message): w.category for w in seen}
        row = np.array(outputs)
        return row if self.reduce is None else self.reduce(row), failures, warned


def fit_groups(
    statistic: Statistic,
    groups: Sequence[SubsetGroup],
    reduce: Reduce | None = None,
    *,
    workers: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Fits:
    """Fit the statistic on groups of subsets; return outputs per group, or ``reduce`` of them.

    Coins are public and the same in every fit; a failed fit gives zeros.  Fits run in ``workers``
    processes (``None``: one per core, unless the work is short) or on a ``cluster``; the result is
    the same.  A statistic that cannot be pickled, or that varies between fits on the same subset,
    is fitted in this process.  Each distinct warning is issued once.

    Edge cases: InputError when more than one fit in a hundred fails.
    """
    if workers is not None:
        whole_number("workers", workers)
    total, planned = len(groups), sum(map(len, groups))
    probed = np.unique(np.linspace(0, total - 1, _COIN_PROBES).round().astype(np.int64))
    probes = [groups[index][turn % len(groups[index])] for turn, index in enumerate(probed)]
    own = is_nondeterministic(statistic, probes)
    if own:
        # Every batch would copy the state of the statistic's generator, so draws of different
        # batches would not be independent, as X4 requires.
        workers = 1
    rows: dict[int, FloatArray] = {}
    failures: list[str] = []
    warned: dict[str, type[Warning]] = {}
    for index, (row, failed, texts) in refits(
        _Refit(statistic, reduce),
        groups,
        workers=workers,
        cluster=cluster,
        batches=_BATCHES,
        progress=progress,
    ):
        rows[index] = row
        failures += failed
        warned |= texts
        if len(failures) * _FAILURES > planned:
            raise InputError(
                f"statistic must be finite on nearly every subset, got {len(failures)} failed fits "
                f"of {planned}: {failures[0]} Failed fits cannot be left out; make the learner "
                "robust (regularise, merge rare classes)."
            )
    if failures:
        warnings.warn(
            f"{len(failures)} failed of {planned} fits: {failures[0]} A fit that fails releases "
            "zeros, and the noise hides it.",
            stacklevel=3,
        )
    for message in sorted(warned)[:3]:
        warnings.warn(message, warned[message], stacklevel=3)
    return Fits(np.array([rows[index] for index in range(total)]), planned, len(failures), own)


# ── The least sufficient noise ────────────────────────────────────────────────────────────────────
#
# Among the noise laws s·X, s > 0, find the smallest scale s at which a *confidence bound* on the
# mean distance E T(s) meets the target.  Testing many scales costs nothing (proofs/retraining.md):
# T decreases in s on every sample path, so the bound decreases too, and an error at any scale is an
# error at the boundary scale, one fixed event.  If T need not decrease,
# :func:`~memberbound.numerics.roots.fixed_order` tests scales fixed in advance.
