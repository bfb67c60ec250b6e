"""Fresh subsets, a statistic's fits on them, and the least noise that they certify.

A calibrator sees the population and *fresh* subsets of it, never the subset whose release is to be
protected (theory §6, trap 6): it takes a :class:`FreshSubsets`, which draws its own.
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
from memberbound.release.noise import SAMPLER_ASSUMPTION, checked_eta
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Rows = NDArray[np.int64]


class Statistic(Protocol):
    """What is released about a training set: rows of the population in, a vector out."""

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        ...

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the statistic of the records with these row numbers."""
        ...


@dataclass(frozen=True)
class FreshSubsets:
    """Uniform subsets for calibration; a generator of their own keeps them apart from the secret.

    The same seed gives the same subsets, and ``spawned`` an independent stream, so that a scale
    chosen on one stream can be certified on another.
    """

    game: SubsetGame
    seed: int | tuple[int, ...] = 0

    def spawned(self, number: int) -> FreshSubsets:
        """Return an independent stream of subsets."""
        base = self.seed if isinstance(self.seed, tuple) else (self.seed,)
        return FreshSubsets(self.game, (*base, number))

    def orders(self, count: int) -> list[Rows]:
        """Return independent uniform orders of the population: the first ``size`` are a subset."""
        draws = np.random.default_rng(self.seed)
        return [draws.permutation(self.game.population) for _ in range(count)]

    def subsets(self, count: int) -> list[Rows]:
        """Return independent uniform subsets of the game's size, sorted."""
        return [np.sort(order[: self.game.size]) for order in self.orders(count)]


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


@contextmanager
def public_coins() -> Iterator[None]:
    """Seed the global generators for the block; another thread waits until it has ended."""
    torch = sys.modules.get("torch")
    with ONE_AT_A_TIME, ExitStack() as stack:
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
    """Outputs, one row per group, with the numbers of fits and of failed ones.

    ``own_coins``: repeated fits differed, so the learner has coins that cannot be seeded.
    """

    rows: FloatArray
    count: int
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
    with no_warnings:
        return any(
            not np.array_equal(evaluated(statistic, rows)[0], evaluated(statistic, rows)[0])
            for rows in subsets
        )


@dataclass(frozen=True, eq=False)
class _Refit:
    """Fits a group of subsets: outputs, reasons of failures, warnings.  Sent to the workers."""

    statistic: Statistic
    reduce: Reduce | None

    def __call__(self, group: Group) -> tuple[FloatArray, list[str], dict[str, type[Warning]]]:
        outputs, failures = [], []
        warned: dict[str, type[Warning]] = {}
        for subset in group:
            with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                value, reason = evaluated(self.statistic, subset)
            outputs.append(value)
            if reason is not None:
                failures.append(reason)
            warned |= {str(w.message): w.category for w in seen}
        row = np.array(outputs)
        return row if self.reduce is None else self.reduce(row), failures, warned


def fitted(
    statistic: Statistic,
    groups: Sequence[Group],
    reduce: Reduce | None = None,
    *,
    workers: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Fits:
    """Return the statistic's outputs, (group size, dimension), or ``reduce`` of them, by group.

    Coins are public and the same in every fit; a fit that fails gives zeros.  ``workers`` processes
    (``None``: all cores, unless the work takes a moment only), or a ``cluster``; the result does
    not depend on them.  A statistic that cannot be pickled, or that is seen to differ from fit to
    fit on the same subset, is fitted in this process.  Warnings are passed on once.

    Edge cases: InputError when more than one fit in a hundred fails.
    """
    if workers is not None:
        whole_number("workers", workers)
    total, planned = len(groups), sum(map(len, groups))
    probed = np.unique(np.linspace(0, total - 1, _COIN_PROBES).round().astype(np.int64))
    probes = [groups[index][turn % len(groups[index])] for turn, index in enumerate(probed)]
    own = is_nondeterministic(statistic, probes)
    if own:
        # A generator that such a statistic carries is copied, state and all, with every batch of
        # the work: draws of different batches would then not be independent, as X4 needs.
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


# ── The least noise that is enough ────────────────────────────────────────────────────────────────
#
# The laws s·X, s > 0, are searched for the smallest scale s at which a *confidence bound* on the
# mean distance E T(s) stays within the target.  Looking at many scales costs nothing
# (proofs/retraining.md): T falls as s grows, on every sample path, so the bound falls too and an
# error at any scale is an error at the boundary scale, one fixed event.  Where T need not fall,
# :func:`~memberbound.numerics.roots.fixed_order` tests what was fixed in advance.


@dataclass(frozen=True)
class CertifiedScale:
    """A scale and what is certified there about the largest mean distance.

    ``bound`` holds at the confidence asked for: the target itself where the rows chose the scale,
    the confidence bound at the floor where that passed.  ``plug_in`` is the sample's own largest
    mean, an estimate.  ``scale`` 0 means that no noise is needed.
    """

    scale: float
    bound: float
    plug_in: float


def eta_from_distance(game: SubsetGame, distance: float, slack: float = 0.0) -> float:
    """Return the bound η ≤ min(π, 1-π)·TV + slack, π = k/N, rounded up.

    η is the best attacker's accuracy less that of always giving the likelier answer, so at k = N/2
    it is ½·TV (proofs/retraining.md, claim 1).
    """
    prior = game.largest_gain
    return min(up(prior * distance + slack, 8), prior)


def promised_eta(eta: float, game: SubsetGame) -> float:
    """Return η if it promises anything in this game, else refuse it.

    An attacker who is always right gains min(k/N, 1 - k/N) over the likelier answer, so a promise
    of that much or more is kept by the bare statistic and says nothing.
    """
    value = checked_eta(eta)
    if value >= game.largest_gain:
        raise InputError(
            f"eta must be below {significant(game.largest_gain, 'lower')} where {game.size} of "
            f"{game.population} records are drawn, got {eta!r}: blind guessing is right "
            f"{percent(game.blind, 'lower')} of the time there, so whatever is released, nobody "
            "gains more. Ask for a smaller eta, or draw nearer to half of the records."
        )
    return value


def without_slack(eta: float, slack: float) -> float:
    """Return what of η is left for the noise itself, rounded down; refuse where nothing is."""
    if eta <= slack:
        raise InputError(
            f"eta must be greater than {significant(slack, 'upper', 3)}, what floating-point "
            f"noise of this dimension adds, got {eta!r}."
        )
    return down(eta - slack, 2)


def distance_target(game: SubsetGame, eta: float, slack: float) -> float:
    """Return the largest mean distance that :func:`eta_from_distance` keeps within η."""
    return min(down(without_slack(eta, slack) / game.largest_gain, 32), 1.0)


def least_draws(target: float, confidence: float, columns: int = 1) -> int:
    """Return about how many draws it takes to certify the target when all of them are 0.

    Examples:
        >>> least_draws(0.1, 0.95)
        42
    """
    level = log_error_shared(confidence, columns)
    draws = least_whole(lambda count: zeros_certify(count, target, level), most=2**26)
    if draws is None:
        raise SearchError(f"no sample of a practical size certifies a mean of {target!r}.")
    return draws


def certified_scale(
    values: Callable[[float], FloatArray],
    *,
    start: float,
    target: float,
    confidence: float,
    floor: float = 0.0,
) -> CertifiedScale:
    """Return the least scale at which every column's mean is certified to be within ``target``.

    ``values(s)`` is the table of distances at scale s ≥ 0: one row per independent draw, a column
    per record.  ``start`` is any scale above 0, best near the answer (mean length/(2.5·target) for
    normal noise); ``floor`` the least scale to return.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale, and at every larger one, are at most ``bound``.
    Theorem: proofs/retraining.md, claim 3.
    Assumes: the values are rounded up from numbers in [0, 1] that do not rise with s; they, and the
    floor, may depend on anything that is independent of the rows (a pilot's centre or shape).
    Numerics: ``target`` was seen to hold at the returned scale, which is at most 1e-6 too large.
    Edge cases: the floor (0: no noise) when its values pass; SearchError when no scale can pass.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise
        >>> lengths = np.ones(500)
        >>> least = certified_scale(
        ...     lambda s: GaussianNoise(s, 1).distance(lengths),
        ...     start=1.0,
        ...     target=0.1,
        ...     confidence=0.95,
        ... )
        >>> round(least.scale, 1), least.bound
        (4.4, 0.1)
    """

    def largest(table: FloatArray) -> float:
        return float(_mean_bounds(table, confidence).max())

    at_floor = values(floor)
    bound = largest(at_floor)
    if bound <= target:
        # Claim 3: also when the floor passes by mistake the bound there fails with the same event.
        return CertifiedScale(floor, bound, _plug_in(at_floor))
    if largest(np.zeros_like(at_floor)) > target:
        raise _too_few(at_floor, target, confidence)
    try:
        scale = least_scale(lambda s: largest(values(s)) - target, start, floor=floor)
    except SearchError:
        raise _too_few(at_floor, target, confidence) from None
    return CertifiedScale(scale, target, _plug_in(values(scale)))


def certified_in_order(
    values: Callable[[float], FloatArray],
    scales: Sequence[float],
    *,
    target: float,
    confidence: float,
) -> CertifiedScale:
    """Return the last of ``scales`` before the first that is not certified within ``target``.

    The search of :func:`certified_scale` for values that need not fall with the scale on every
    draw: what is tested, and in which order, was fixed before the draws were looked at.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale are at most ``target``.
    Theorem: proofs/retraining.md, claim 4.
    Assumes: ``scales`` are independent of the rows (a pilot may choose them).
    Edge cases: SearchError when the first scale does not pass.
    """

    def passes(scale: float) -> bool:
        return bool(_mean_bounds(values(scale), confidence).max() <= target)

    last = fixed_order(passes, scales)
    if last is None:
        raise _too_few(values(scales[0]), target, confidence)
    return CertifiedScale(last, target, _plug_in(values(last)))


def _mean_bounds(table: FloatArray, confidence: float) -> FloatArray:
    """Bound the means of the columns (of a vector: of it) from above, all at once."""
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
    """Return what every certificate of a released statistic rests on.

    ``coins`` says what is assumed about the learner's own.
    """
    assumptions = [
        f"The training set is a uniformly random {game.size} of the {game.population} records, "
        "drawn apart from the subsets used for calibration.",
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
