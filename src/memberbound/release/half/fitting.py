"""A statistic on many subsets, or on all of them: on all cores, with public coins."""

from __future__ import annotations

import math
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, combinations
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError, whole_number
from memberbound.games import SubsetGame
from memberbound.learners.refits import Arrays, FitStore, current_cluster, fingerprint, refits
from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.release.half.least_noise import Progress, Rows, Statistic
from memberbound.release.noise import GaussianNoise, scaled

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
_UNSEEDED = (
    "The learner draws random numbers that cannot be seeded from outside (repeated fits on the "
    "same subset differed): "
)
COINS_SECRET = _UNSEEDED + (
    "they are drawn afresh at every fit, and nobody may know or guess those of the release."
)
COINS_AFRESH = _UNSEEDED + "they are drawn afresh at every fit."


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


#: Blocks entered: only the outermost keeps and restores the generators, which takes its time.
_inside = 0
#: The generators are the program's, and a worker of a cluster may have several threads.
_ONE_THREAD = threading.RLock()


@contextmanager
def public_coins() -> Iterator[None]:
    """Seed the global generators at the start of the block; the outermost block restores them.

    Another thread waits until the block has ended.
    """
    global _inside  # noqa: PLW0603
    torch = sys.modules.get("torch")
    with _ONE_THREAD, ExitStack() as stack:
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


def _seed_torch(torch: ModuleType, *, thoroughly: bool) -> None:
    """Seed PyTorch; all of its devices where it is built for any, which takes a millisecond."""
    devices = getattr(torch, "accelerator", None)  # missing in older versions
    built = devices is None or devices.current_accelerator() is not None
    if built and (thoroughly or torch.cuda.is_initialized() or torch.backends.mps.is_built()):
        torch.manual_seed(PUBLIC_SEED)
    else:
        torch.default_generator.manual_seed(PUBLIC_SEED)


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
    with warnings.catch_warnings(), public_coins():
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
    failures: tuple[str, ...] = ()
    warned: dict[str, type[Warning]] = field(default_factory=dict)

    def arrays(self) -> Arrays | None:
        """Return what is stored; not what a later run must fail or warn about too."""
        if self.failures or self.warned:
            return None
        return {"row": self.row, "unconverged": self.unconverged}

    @classmethod
    def read(cls, arrays: Arrays) -> _GroupFit:
        """Return what was stored."""
        return cls(arrays["row"], int(arrays["unconverged"]))


@dataclass(frozen=True, eq=False)
class _Refit:
    """Fits a group of subsets; sent to the workers."""

    statistic: Statistic
    reduce: Reduce | None

    def __call__(self, group: Group) -> _GroupFit:
        unconverged, outputs, failures = 0, [], []
        warned: dict[str, type[Warning]] = {}
        with public_coins():
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
            row = row if self.reduce is None else np.atleast_1d(self.reduce(row))
        return _GroupFit(row, unconverged, tuple(failures), warned)


_FOLDER: ContextVar[str | os.PathLike[str] | None] = ContextVar("folder of fits", default=None)


@contextmanager
def kept_fits(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep the fits of this block in a folder, and take from it those that an earlier run did."""
    before = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(before)


def _store(*described: object) -> FitStore[_GroupFit] | None:
    """Return where fits are kept; None where none are, or where a change would go unnoticed."""
    folder = _FOLDER.get()
    if folder is None:
        return None
    try:
        key = fingerprint(*described)
    except InputError:
        return None
    return FitStore.at(folder, key, _GroupFit.arrays, _GroupFit.read)


def fitted(
    statistic: Statistic,
    groups: Sequence[Group],
    reduce: Reduce | None = None,
    *,
    seed: object,
    workers: int | None = None,
    progress: Progress = None,
) -> Fits:
    """Return the statistic's outputs, (group size, dimension), or ``reduce`` of them, by group.

    Coins are public and the same in every fit; a fit that fails gives zeros.  ``workers`` processes
    (``None``: all cores, unless the work takes a moment only); the result does not depend on their
    number.  A statistic that cannot be pickled, or that is seen to differ from fit to fit on the
    same subset, is fitted in this process.
    Warnings of unfinished convergence are counted, others passed on once.

    Edge cases: InputError naming the stream's seed and the place in it when more than one fit in
    a hundred fails.
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
        if workers is not None and workers > 1:
            warnings.warn(
                "The statistic differs from fit to fit on the same subset. Its copies in worker "
                "processes could draw the same random numbers, so this process goes on alone.",
                stacklevel=2,
            )
        workers = 1
    store = None if own else _store(statistic, groups, reduce, seed, _Refit)
    fits = {} if store is None else store.load()
    missing = {place: group for place, group in enumerate(groups) if place not in fits}
    cluster = None if workers == 1 else current_cluster()
    failures: list[tuple[int, str]] = []
    for place, fit in refits(
        _Refit(statistic, reduce),
        missing,
        workers=workers,
        cluster=cluster,
        store=store,
        batches=_BATCHES,
    ):
        fits[place] = fit
        failures += [(place, reason) for reason in fit.failures]
        if len(failures) * _FAILURES > planned:
            fitted_so_far = sum(len(groups[place]) for place in fits)
            raise InputError(
                "statistic must be finite on nearly every subset, got "
                f"{_described(failures, fitted_so_far, seed)} Failed fits cannot be left out; "
                "make the learner robust (regularise, merge rare classes)."
            )
        if progress is not None:
            progress(len(fits), total)
    warned = dict(chain.from_iterable(fits[place].warned.items() for place in range(total)))
    if failures:
        warned[
            f"{_described(failures, planned, seed)} A fit that fails releases zeros, and the noise "
            "hides it."
        ] = UserWarning
    for message, category in list(warned.items())[-3:]:
        warnings.warn(message, category, stacklevel=3)
    rows = np.array([fits[place].row for place in range(total)])
    unconverged = sum(fit.unconverged for fit in fits.values())
    return Fits(rows, planned, unconverged, len(failures), own)


def _described(failures: Sequence[tuple[int, str]], fits: int, seed: object) -> str:
    place, reason = min(failures)
    return (
        f"{len(failures)} failed of {fits} fits, the first at subset {place} of the stream with "
        f"seed {seed!r}: {reason}"
    )


# ── All subsets instead of a sample: certificates without a confidence level ──────────────────────
#
# With few records every training set can be fitted; the means of X1 and X19 are then sums, and what
# they certify holds always.

#: Pairs of neighbouring subsets beyond which their lengths would not fit into memory.
_LARGEST_PAIRS = 3 * 10**7
#: Subsets that are fitted twice to find out whether the statistic has coins of its own.
_EXACT_PROBES = 16


def worth_enumerating(
    statistic: Statistic, game: SubsetGame, fits: int, exact: bool | None
) -> bool:
    """Whether to fit all subsets: ``exact`` if given, else when that is no more than ``fits``.

    One fit per subset is exact only for a statistic without coins of its own: some subsets are
    fitted twice, and a statistic that differs on one of them is sampled instead.
    """
    pairs = math.comb(game.population, game.size) * game.size * (game.population - game.size) // 2
    # Subsets are written as bit masks; larger games are out of reach anyway.
    possible = game.population <= 62 and pairs <= _LARGEST_PAIRS
    if exact and not possible:
        raise InputError(
            f"exact must be False for {game.size} of {game.population} records, got True: "
            "there are too many subsets to fit."
        )
    wanted = possible and math.comb(game.population, game.size) <= fits if exact is None else exact
    if not wanted:
        return False
    # Several of them, from the first to the last: coins may matter for some records only.
    everything = all_subsets(game)
    places = np.unique(np.linspace(0, len(everything) - 1, _EXACT_PROBES).round().astype(np.int64))
    repeats = not is_nondeterministic(statistic, [everything[place] for place in places])
    if exact and not repeats:
        raise InputError(
            "exact must be False for a statistic that differs from fit to fit on the same subset, "
            "got True. Let the learner draw from a seeded generator, or the subsets be sampled."
        )
    return repeats


def all_subsets(game: SubsetGame) -> list[Rows]:
    """Return every subset of the game's size, in lexicographic order."""
    return [
        np.array(rows, dtype=np.int64) for rows in combinations(range(game.population), game.size)
    ]


class NeighbourLengths:
    """Lengths of all displacements q(D) - q(D') between subsets that differ in one record.

    ``outputs`` holds q of :func:`all_subsets`, in that order.
    """

    def __init__(self, outputs: FloatArray, game: SubsetGame, unit: GaussianNoise) -> None:
        """Measure every pair once: T is the same both ways."""
        subsets = all_subsets(game)
        masks = np.array([sum(1 << int(x) for x in rows) for rows in subsets], dtype=np.int64)
        order = np.argsort(masks)
        pieces, first, second = [], [], []
        for x, other in combinations(range(game.population), 2):
            inside = np.flatnonzero((masks >> x & 1 == 1) & (masks >> other & 1 == 0))
            swapped = masks[inside] ^ ((1 << x) | (1 << other))
            partner = order[np.searchsorted(masks, swapped, sorter=order)]
            pieces.append(unit.length(outputs[inside] - outputs[partner]))
            first.append(np.full(len(inside), x))
            second.append(np.full(len(inside), other))
        self._lengths = np.concatenate(pieces)
        self._first, self._second = np.concatenate(first), np.concatenate(second)
        self._game, self._unit = game, unit

    @property
    def longest(self) -> float:
        """The largest length."""
        return float(self._lengths.max())

    def means(self, scale: float) -> FloatArray:
        """Return X1's mean distance for every record, from above: one row."""
        game = self._game
        values = scaled(self._unit, scale).distance(self._lengths)
        sums = np.bincount(self._first, values, game.population) + np.bincount(
            self._second, values, game.population
        )
        terms = math.comb(game.population - 1, game.size - 1) * (game.population - game.size)
        return np.asarray(np.minimum(sums / terms * (1 + 2 * sum_slack(terms)), 1.0))[None, :]

    def average(self, scale: float) -> FloatArray:
        """Return the mean distance over all pairs, from above: one row of one column."""
        values = scaled(self._unit, scale).distance(self._lengths)
        return np.array([[min(float(values.mean()) * (1 + 2 * sum_slack(values.size)), 1.0)]])
