"""Compute a statistic on many subsets, on all cores, and never lose one silently.

A fit that fails cannot be left out: the subsets on which it works are not uniform, and a
certificate from them would speak about another game.
"""

from __future__ import annotations

import math
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

__all__ = ["Fits", "fitted"]

#: Below this many expected seconds starting worker processes costs more than it saves.
_WORTH_WORKERS = 2.0
#: Groups are handed out in about this many portions per worker.
_PORTIONS = 8
#: Groups fitted before deciding on workers.
_LEAD = 3

Reduce = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Fits:
    """Reduced outputs, one row per group, with the number of fits and of unconverged ones."""

    rows: FloatArray
    count: int
    unconverged: int


@dataclass
class _Portion:
    """What came back from a few groups of subsets."""

    rows: list[FloatArray] = field(default_factory=list)
    fits: int = 0
    unconverged: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    warned: dict[str, type[Warning]] = field(default_factory=dict)


def _one(statistic: Statistic, rows: Rows) -> FloatArray:
    value = np.asarray(statistic(rows), dtype=np.float64)
    if value.shape != (statistic.dimension,):
        raise InputError(f"a vector of length {statistic.dimension} is due, got {value.shape!r}.")
    if not np.isfinite(value).all():
        raise InputError("its value is not finite.")
    return value


def _portion(
    statistic: Statistic, groups: Sequence[Sequence[Rows]], first: int, reduce: Reduce
) -> _Portion:
    """Fit a few groups; ``first`` is the place of the first of them in the stream."""
    done = _Portion()
    for place, group in enumerate(groups, start=first):
        outputs = []
        for rows in group:
            done.fits += 1
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                try:
                    outputs.append(_one(statistic, rows))
                # Whatever a learner raises becomes one sentence that says where.
                except Exception as error:
                    done.failures.append((place, f"{type(error).__name__}: {error}"))
            stuck = [w for w in seen if "Convergence" in w.category.__name__]
            done.unconverged += bool(stuck)
            done.warned |= {str(w.message): w.category for w in seen if w not in stuck}
        if len(outputs) == len(group):
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

    ``workers`` processes (``None``: all cores, unless the work takes a moment only); the result
    does not depend on their number.  A statistic that cannot be pickled, or that is seen to differ
    from fit to fit on the same subset, is fitted in this process.
    Warnings of unfinished convergence are counted, others passed on once.

    Edge cases: InputError naming the stream's seed and the place in it when a fit fails.
    """
    jobs = joblib.cpu_count() if workers is None else whole_number("workers", workers)
    total = len(groups)
    rows: list[FloatArray] = []
    fits = unconverged = 0
    warned: dict[str, type[Warning]] = {}
    for done in _portions(statistic, groups, reduce, jobs, automatic=workers is None):
        fits, unconverged = fits + done.fits, unconverged + done.unconverged
        warned |= done.warned
        if done.failures:
            place, reason = done.failures[0]
            raise InputError(
                f"statistic must be finite on every subset, got {len(done.failures)} failed of "
                f"{fits} fits, the first at subset {place} of the stream with seed {seed!r}: "
                f"{reason} Failed fits cannot be left out; make the learner robust "
                "(regularise, merge rare classes)."
            )
        rows.extend(done.rows)
        if progress is not None:
            progress(len(rows), total)
    for message, category in list(warned.items())[:3]:
        warnings.warn(message, category, stacklevel=3)
    return Fits(np.array(rows), fits, unconverged)


def _tosses_coins(statistic: Statistic, groups: Sequence[Sequence[Rows]]) -> bool:
    """Whether a second fit on some of these subsets differs from the first.

    A generator that such a statistic carries is copied, state and all, with every portion of the
    work: draws of different portions would then not be independent, as X4 needs.
    """
    probes = [rows for group in groups for rows in group[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(
            not np.array_equal(_one(statistic, rows), _one(statistic, rows)) for rows in probes
        )


def _portions(
    statistic: Statistic,
    groups: Sequence[Sequence[Rows]],
    reduce: Reduce,
    jobs: int,
    *,
    automatic: bool,
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
    if jobs > 1 and _tosses_coins(statistic, groups[:lead]):
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
