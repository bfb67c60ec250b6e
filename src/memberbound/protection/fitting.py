"""Compute a statistic on many subsets, on all cores, and never lose one silently.

A fit that fails cannot be left out: the subsets on which it works are not uniform, and a
certificate from them would speak about another game.  Nor may it be seen in the release that the
fit on the secret failed.  So a failed fit has a value like any other: zeros, in the calibration as
in the release.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pickle import PicklingError

import joblib
import numpy as np

from memberbound.errors import InputError, whole_number
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.calibration import Progress, Rows, Statistic
from memberbound.protection.coins import public_coins

__all__ = ["Fits", "evaluated", "fit_once", "fitted", "tosses_coins"]

#: Below this many expected seconds starting worker processes costs more than it saves.
_WORTH_WORKERS = 2.0
#: Groups are handed out in about this many portions per worker.
_PORTIONS = 8
#: Groups fitted before deciding on workers.
_LEAD = 3
#: Groups of which a subset is fitted twice, to find coins that cannot be seeded.
_PROBES = 8
#: More than one failure in this many fits is refused: zeros would be released as often.
_FAILURES = 100

Reduce = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Fits:
    """Reduced outputs, one row per group, with the numbers of fits, unconverged and failed ones.

    ``own_coins``: repeated fits differed, so the learner has coins that cannot be seeded.
    """

    rows: FloatArray
    count: int
    unconverged: int
    failed: int
    own_coins: bool


@dataclass
class _Portion:
    """What came back from a few groups of subsets."""

    rows: list[FloatArray] = field(default_factory=list)
    fits: int = 0
    unconverged: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    warned: dict[str, type[Warning]] = field(default_factory=dict)


def fit_once(statistic: Statistic, rows: Rows) -> FloatArray:
    """Return the statistic of these records with public coins; whatever it raises is passed on."""
    known = "torch" in sys.modules
    with public_coins():
        value = statistic(rows)
    if not known and "torch" in sys.modules:
        # It came with this very fit, so its generator was not seeded for it.
        with public_coins():
            value = statistic(rows)
    found = np.asarray(value, dtype=np.float64)
    if found.shape != (statistic.dimension,):
        raise InputError(f"a vector of length {statistic.dimension} is due, got {found.shape!r}.")
    if not np.isfinite(found).all():
        raise InputError("its value is not finite.")
    return found


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


def tosses_coins(statistic: Statistic, subsets: Sequence[Rows]) -> bool:
    """Whether a second fit on some of these subsets differs from the first, coins being public."""
    with warnings.catch_warnings(), public_coins():
        warnings.simplefilter("ignore")
        return any(
            not np.array_equal(evaluated(statistic, rows)[0], evaluated(statistic, rows)[0])
            for rows in subsets
        )


def _portion(
    statistic: Statistic, groups: Sequence[Sequence[Rows]], first: int, reduce: Reduce
) -> _Portion:
    """Fit a few groups; ``first`` is the place of the first of them in the stream."""
    done = _Portion()
    with public_coins():
        for place, group in enumerate(groups, start=first):
            outputs = []
            for rows in group:
                done.fits += 1
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    value, reason = evaluated(statistic, rows)
                outputs.append(value)
                if reason is not None:
                    done.failures.append((place, reason))
                stuck = [w for w in seen if "Convergence" in w.category.__name__]
                done.unconverged += bool(stuck)
                done.warned |= {str(w.message): w.category for w in seen if w not in stuck}
            done.rows.append(np.atleast_1d(reduce(np.array(outputs))))
    return done


def fitted(
    statistic: Statistic,
    groups: Sequence[Sequence[Rows]],
    reduce: Reduce,
    *,
    seed: object,
    workers: int | None = None,
    progress: Progress = None,
) -> Fits:
    """Return ``reduce`` of the statistic's outputs, (group size, dimension), for every group.

    Coins are public and the same in every fit; a fit that fails gives zeros.  ``workers`` processes
    (``None``: all cores, unless the work takes a moment only); the result does not depend on their
    number.  A statistic that cannot be pickled, or that is seen to differ from fit to fit on the
    same subset, is fitted in this process.
    Warnings of unfinished convergence are counted, others passed on once.

    Edge cases: InputError naming the stream's seed and the place in it when more than one fit in
    a hundred fails.
    """
    jobs = joblib.cpu_count() if workers is None else whole_number("workers", workers)
    total, planned = len(groups), sum(map(len, groups))
    places = np.unique(np.linspace(0, total - 1, _PROBES).round().astype(np.int64))
    probes = [groups[place][turn % len(groups[place])] for turn, place in enumerate(places)]
    own = tosses_coins(statistic, probes)
    rows: list[FloatArray] = []
    fits = unconverged = 0
    warned: dict[str, type[Warning]] = {}
    failures: list[tuple[int, str]] = []
    for done in _portions(statistic, groups, reduce, jobs, automatic=workers is None, own=own):
        fits, unconverged = fits + done.fits, unconverged + done.unconverged
        warned |= done.warned
        failures += done.failures
        if len(failures) * _FAILURES > planned:
            place, reason = failures[0]
            raise InputError(
                f"statistic must be finite on nearly every subset, got {len(failures)} failed of "
                f"{fits} fits, the first at subset {place} of the stream with seed {seed!r}: "
                f"{reason} Failed fits cannot be left out; make the learner robust "
                "(regularise, merge rare classes)."
            )
        rows.extend(done.rows)
        if progress is not None:
            progress(len(rows), total)
    if failures:
        place, reason = failures[0]
        warned[
            f"{len(failures)} of {fits} fits failed, the first at subset {place} of the stream "
            f"with seed {seed!r}: {reason} A fit that fails releases zeros, and the noise hides it."
        ] = UserWarning
    for message, category in list(warned.items())[-3:]:
        warnings.warn(message, category, stacklevel=3)
    return Fits(np.array(rows), fits, unconverged, len(failures), own)


def _portions(
    statistic: Statistic,
    groups: Sequence[Sequence[Rows]],
    reduce: Reduce,
    jobs: int,
    *,
    automatic: bool,
    own: bool,
) -> Iterator[_Portion]:
    # The first groups say how long a fit takes, and fail before any process is started; the least
    # of three, because first calls load things.
    seconds = math.inf
    lead = min(_LEAD, len(groups))
    for place in range(lead):
        began = time.perf_counter()
        yield _portion(statistic, groups[place : place + 1], place, reduce)
        seconds = min(seconds, time.perf_counter() - began)
    left = len(groups) - lead
    if left < jobs or (automatic and seconds * left < _WORTH_WORKERS):
        jobs = 1
    if jobs > 1 and own:
        # A generator that such a statistic carries is copied, state and all, with every portion of
        # the work: draws of different portions would then not be independent, as X4 needs.
        warnings.warn(
            "The statistic differs from fit to fit on the same subset. Its copies in worker "
            "processes could toss the same coins, so this process goes on alone.",
            stacklevel=3,
        )
        jobs = 1
    size = max(1, left // (_PORTIONS * jobs))
    starts = range(lead, len(groups), size)
    finished = 0
    if jobs > 1:
        tasks = (
            joblib.delayed(_portion)(statistic, groups[start : start + size], start, reduce)
            for start in starts
        )
        running = joblib.Parallel(n_jobs=jobs, return_as="generator")(tasks)
        try:
            for done in running:
                finished += 1
                yield done
        except (BrokenProcessPool, PicklingError):
            warnings.warn(
                "The statistic cannot be sent to worker processes; this process goes on alone.",
                stacklevel=3,
            )
        finally:
            with warnings.catch_warnings():
                # joblib remarks that tasks were cancelled: that is meant, after a failed fit.
                warnings.simplefilter("ignore")
                running.close()
    for start in starts[finished:]:
        yield _portion(statistic, groups[start : start + size], start, reduce)
