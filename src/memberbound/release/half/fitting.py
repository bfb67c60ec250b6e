"""Fit a statistic on fresh subsets, and find the least noise that the fits certify.

A calibrator sees the population and *fresh* subsets of it, never the secret subset of the release
(theory §6, trap 6): it gets a :class:`FreshSubsets`, which samples its own subsets.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.declarations import Progress
from memberbound.errors import InputError, SearchError, whole_number
from memberbound.games import SubsetGame
from memberbound.learners.refits import Cluster, refits
from memberbound.numerics.means import log_error_shared, mean_upper, zeros_certify
from memberbound.numerics.roots import fixed_order, least_scale, least_whole
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.quantities import percent, significant
from memberbound.release.noise import SAMPLER_ASSUMPTION, check_eta_range
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

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


# ── The learner's own randomness: fixed, public, and the same in every fit and in the release ─────
#
# A certificate that compares fits with independent coins does not cover an attacker who knows the
# coins.  With shared coins, the certificate holds conditionally on them, so they may be published
# (proofs/coupling.md, claim 10).  Here they are seeds: every unset ``random_state``, at any depth
# of an estimator, and the global generators of numpy, Python and PyTorch.  Other sources of
# randomness cannot be fixed; :func:`fit_groups` detects them by fitting twice, and the certificate
# then states the assumption.

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

Group = Sequence[Rows]
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

    def __call__(self, group: Group) -> tuple[FloatArray, list[str], dict[str, type[Warning]]]:
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
    groups: Sequence[Group],
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


@dataclass(frozen=True)
class CertifiedScale:
    """A noise scale and the certified bound on the largest mean distance.

    ``bound`` holds at the requested confidence: it is the target itself if the rows chose the
    scale, or the confidence bound at the floor if the floor passed.  ``plug_in`` is an estimate,
    the sample's largest mean.  A ``scale`` of 0 means that no noise is needed.
    """

    scale: float
    bound: float
    plug_in: float


def eta_from_distance(game: SubsetGame, distance: float, slack: float = 0.0) -> float:
    """Return the bound η ≤ min(π, 1-π)·TV + slack, π = k/N, rounded up.

    η is the best attacker's accuracy minus that of always guessing the likelier answer, so at k =
    N/2 it is ½·TV (proofs/retraining.md, claim 1).
    """
    prior = game.largest_gain
    return min(up(prior * distance + slack, 8), prior)


def check_eta(eta: float, game: SubsetGame) -> float:
    """Return η, or raise if it is vacuous in this game.

    An attacker who is always right gains min(k/N, 1 - k/N) over the likelier answer, so a larger η
    holds even without noise.
    """
    value = check_eta_range(eta)
    if value >= game.largest_gain:
        raise InputError(
            f"eta must be below {significant(game.largest_gain, 'lower')} where {game.size} of "
            f"{game.population} records are drawn, got {eta!r}: blind guessing is right "
            f"{percent(game.blind, 'lower')} of the time there, so no attack on any release "
            "gains more. Take a smaller eta, or draw a number of records closer to half."
        )
    return value


def without_slack(eta: float, slack: float) -> float:
    """Return η minus the slack, rounded down; raise if nothing is left for the noise."""
    if eta <= slack:
        raise InputError(
            f"eta must be greater than {significant(slack, 'upper', 3)}, which floating-point "
            f"noise of this dimension adds, got {eta!r}."
        )
    return down(eta - slack, 2)


def distance_target(game: SubsetGame, eta: float, slack: float) -> float:
    """Return the largest mean distance for which :func:`eta_from_distance` is at most η."""
    return min(down(without_slack(eta, slack) / game.largest_gain, 32), 1.0)


def least_draws(target: float, confidence: float, columns: int = 1) -> int:
    """Return the approximate number of draws that certify the target if all of them are 0.

    Examples:
        >>> least_draws(0.1, 0.95)
        42
    """
    level = log_error_shared(confidence, columns)
    draws = least_whole(lambda count: zeros_certify(count, target, level), most=2**26)
    if draws is None:
        raise SearchError(f"no sample of a practical size certifies a mean of {target!r}.")
    return draws


def certify_scale(
    values: Callable[[float], FloatArray],
    *,
    start: float,
    target: float,
    confidence: float,
    floor: float = 0.0,
) -> CertifiedScale:
    """Find the least scale at which every column's mean is certified to be at most ``target``.

    ``values(s)`` is the table of distances at scale s ≥ 0: one row per independent draw, a column
    per record.  ``start`` is any positive scale, ideally near the answer (mean length/(2.5·target)
    for normal noise); ``floor`` is the smallest scale to return.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale, and at every larger one, are at most ``bound``.
    Theorem: proofs/retraining.md, claim 3.
    Assumes: the values are rounded up from numbers in [0, 1] that do not increase in s; they, and
    the floor, may depend on anything independent of the rows (a pilot's centre or shape).
    Numerics: ``target`` was verified at the returned scale, which is at most 1e-6 too large.
    Edge cases: the floor (0: no noise) if its values pass; SearchError if no scale can pass.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise
        >>> lengths = np.ones(500)
        >>> least = certify_scale(
        ...     lambda s: GaussianNoise(s, 1).distance(lengths),
        ...     start=1.0,
        ...     target=0.1,
        ...     confidence=0.95,
        ... )
        >>> round(least.scale, 1), least.bound
        (4.4, 0.1)
    """

    def largest(table: FloatArray) -> float:
        return float(mean_bounds(table, confidence).max())

    at_floor = values(floor)
    bound = largest(at_floor)
    if bound <= target:
        # Claim 3: if the floor passes wrongly, its bound fails in the same event.
        return CertifiedScale(floor, bound, _plug_in(at_floor))
    if largest(np.zeros_like(at_floor)) > target:
        raise _too_few(at_floor, target, confidence)
    try:
        scale = least_scale(lambda s: largest(values(s)) - target, start, floor=floor)
    except SearchError:
        raise _too_few(at_floor, target, confidence) from None
    return CertifiedScale(scale, target, _plug_in(values(scale)))


def certify_in_order(
    values: Callable[[float], FloatArray],
    scales: Sequence[float],
    *,
    target: float,
    confidence: float,
) -> CertifiedScale:
    """Return the last of ``scales`` before the first that is not certified to meet ``target``.

    Like :func:`certify_scale`, for values that need not decrease in the scale on every draw: the
    scales and their order were fixed before seeing the draws.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale are at most ``target``.
    Theorem: proofs/retraining.md, claim 4.
    Assumes: ``scales`` are independent of the rows (a pilot may choose them).
    Edge cases: SearchError if the first scale does not pass.
    """

    def passes(scale: float) -> bool:
        return bool(mean_bounds(values(scale), confidence).max() <= target)

    last = fixed_order(passes, scales)
    if last is None:
        raise _too_few(values(scales[0]), target, confidence)
    return CertifiedScale(last, target, _plug_in(values(last)))


def mean_bounds(table: FloatArray, confidence: float) -> FloatArray:
    """Return simultaneous upper confidence bounds on the means of all columns (or of a vector)."""
    return mean_upper(table if table.ndim == 2 else table[:, None], confidence=confidence)


def _plug_in(table: FloatArray) -> float:
    return float(np.asarray(table.mean(axis=0)).max())


def _too_few(table: FloatArray, target: float, confidence: float) -> SearchError:
    draws = len(table)
    needed = least_draws(target, confidence, 1 if table.ndim == 1 else table.shape[1])
    return SearchError(
        f"{draws} pairs or subsets are too few to certify this eta with any noise: use at least "
        f"{needed if needed > draws else 2 * draws} (a few times that for little noise), a larger "
        "eta or a lower confidence."
    )


def subset_assumptions(
    game: SubsetGame, *, noisy: bool, sampled: bool, coins: str
) -> tuple[str, ...]:
    """Return the assumptions of every certificate of a released statistic.

    ``coins`` is the assumption about the learner's own randomness.
    """
    assumptions = [
        f"The training set is a uniformly random {game.size} of the {game.population} records, "
        "drawn independently of the subsets used for calibration.",
        "The noise is drawn afresh for one release of the statistic.",
        coins,
        "Nothing but the release is seen: not how long the fit took, nor what native code printed.",
    ]
    if 2 * game.size != game.population:
        assumptions.append("eta is the attacker's gain over always giving the likelier answer.")
    if sampled:
        assumptions.append(
            "The calibration's subsets are independent and uniform (seeded generator)."
        )
    if noisy:
        assumptions.append(SAMPLER_ASSUMPTION)
    return tuple(assumptions)
