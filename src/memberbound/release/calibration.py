"""What a calibrator gets and returns, and the one search for the least noise that is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared, mean_upper, zeros_certify
from memberbound.numerics.roots import fixed_order, least_scale, least_whole
from memberbound.numerics.rounding import FloatArray, down, sum_slack, up
from memberbound.quantities import Certificate, percent, significant
from memberbound.release.noise import (
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    NormExponentialNoise,
    checked_eta,
    exponential_distance,
    floating_point_slack,
    gaussian_distance,
    over_scale,
)

__all__ = [
    "Calibration",
    "CertifiedScale",
    "FreshSubsets",
    "Progress",
    "Record",
    "Rows",
    "ScaleFamily",
    "Statistic",
    "certified_rung",
    "certified_scale",
    "checked_eta",
    "distance_target",
    "eta_from_distance",
    "least_draws",
    "mean_bounds",
    "promised_eta",
    "without_slack",
]

# ── What a calibrator gets and what it returns ────────────────────────────────────────────────────
#
# A calibrator sees the population and *fresh* subsets of it, never the subset whose release is to
# be protected (theory §6, trap 6): it takes a :class:`FreshSubsets`, which draws its own.

Rows = NDArray[np.int64]
Record = Literal["average", "every"]
Progress = Callable[[int, int], None] | None


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

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def spawned(self, number: int) -> FreshSubsets:
        """Return an independent stream of subsets."""
        base = self.seed if isinstance(self.seed, tuple) else (self.seed,)
        return FreshSubsets(self.game, (*base, number))

    def subsets(self, count: int) -> list[Rows]:
        """Return independent uniform subsets of the game's size, sorted."""
        draws = self._generator()
        return [
            np.sort(draws.permutation(self.game.population)[: self.game.size]) for _ in range(count)
        ]

    def neighbours(self, count: int) -> list[tuple[Rows, Rows, int, int]]:
        """Return independent (D, D', x, x'): x uniform in D, x' uniform outside takes its place."""
        draws = self._generator()
        found = []
        for _ in range(count):
            order = draws.permutation(self.game.population)
            inside, x, other = order[: self.game.size], order[0], order[self.game.size]
            swapped = np.append(inside[1:], other)
            found.append((np.sort(inside), np.sort(swapped), int(x), int(other)))
        return found


@dataclass(frozen=True, eq=False)
class Calibration:
    """A noise law and the certificate that it is enough.

    ``certificate`` bounds η (quantity ``"eta"``) for the record that the game names; ``fits`` says
    how many times the statistic was computed.
    """

    noise: NoiseLaw
    certificate: Certificate
    eta: float
    method: str
    fits: int
    details: dict[str, object] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """Whom the certificate protects."""
        game = self.certificate.game
        return game.record if isinstance(game, SubsetGame) else "every"

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the noise vector."""
        return self.noise.rms

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "method": self.method,
            "record": self.record,
            "eta": self.eta,
            "noise": self.noise.describe(),
            "noise_scale": self.noise_scale,
            "fits": self.fits,
            "certificate": self.certificate.to_dict(),
        } | self.details


# ── The least noise whose certificate still passes ────────────────────────────────────────────────
#
# A family of laws s·X, s > 0, is searched for the smallest scale s at which a *confidence bound* on
# the mean distance E T(s) stays within the target.  Looking at many scales costs nothing
# (proofs/retraining.md): T falls as s grows, on every sample path, so the bound falls too and an
# error at any scale is an error at the boundary scale, one fixed event.  Where that monotony is not
# given, :func:`~memberbound.numerics.roots.fixed_order` tests what was fixed in advance.


@dataclass(frozen=True)
class CertifiedScale:
    """A scale and what is certified there about the largest mean distance.

    ``bound`` holds at the confidence asked for: the target itself where sampled rows chose the
    scale, the confidence bound at the floor where that passed.  ``plug_in`` is the sample's own
    largest mean, an estimate.  ``scale`` 0 means that no noise is needed.
    """

    scale: float
    bound: float
    plug_in: float
    tested: int


@dataclass(frozen=True, eq=False)
class ScaleFamily:
    """The laws s·X for s ≥ 0, with lengths measured once: T(a; s) depends on length(a)/s only.

    ``unit`` is the law at s = 1.

    Examples:
        >>> family = ScaleFamily.gaussian(2)
        >>> lengths = family.lengths([[3.0, 4.0]])
        >>> [round(float(family.distances(lengths, s)[0]), 4) for s in (0.0, 1.0, 5.0)]
        [1.0, 0.9876, 0.3829]
    """

    unit: GaussianNoise | NormExponentialNoise

    @classmethod
    def gaussian(cls, dimension: int) -> ScaleFamily:
        """Return s·N(0, I)."""
        return cls(GaussianNoise(1.0, dimension))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.unit.dimension

    def law(self, scale: float) -> NoiseLaw:
        """Return the law at that scale; 0 is no noise at all."""
        if scale == 0:
            return NoNoise(self.dimension)
        if isinstance(self.unit, GaussianNoise):
            return GaussianNoise(scale, self.dimension)
        return NormExponentialNoise(self.unit.norm, up(scale * self.unit.scale))

    def lengths(self, displacements: ArrayLike) -> FloatArray:
        """Return the displacements' lengths at s = 1, from above."""
        lengths = self.unit.length(displacements)
        if isinstance(self.unit, NormExponentialNoise):
            return over_scale(lengths, self.unit.scale)
        return lengths

    def distances(self, lengths: FloatArray, scale: float) -> FloatArray:
        """Return TV(s·X, s·X + a) from above for displacements of these lengths at s = 1."""
        if scale == 0:
            return np.where(lengths > 0, 1.0, 0.0)
        if isinstance(self.unit, NormExponentialNoise):
            return exponential_distance(over_scale(lengths, scale), self.unit.norm.slope_upper)
        return gaussian_distance(over_scale(lengths, scale))

    def slack(self) -> float:
        """Return what floating-point draws add to η, the same at every scale above 0."""
        return floating_point_slack(self.law(1.0))


def mean_bounds(table: FloatArray, confidence: float | None) -> FloatArray:
    """Bound the columns' means from above, all at once.

    With a confidence the rows are independent draws; with ``None`` they are *all* cases, equally
    likely, and the bound is the mean itself, rounded up.
    """
    rows = table if table.ndim == 2 else table[:, None]
    if confidence is not None:
        return mean_upper(rows, confidence=confidence)
    return np.asarray(np.minimum(rows.mean(axis=0) * (1 + 2 * sum_slack(len(rows))), 1.0))


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

    Examples:
        >>> promised_eta(0.03, SubsetGame(100, 4))
        0.03
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

    found = least_whole(lambda draws: zeros_certify(draws, target, level), most=2**26)
    if found is None:
        raise SearchError(f"no sample of a practical size certifies a mean of {target!r}.")
    return found


def certified_scale(
    values: Callable[[float], FloatArray],
    *,
    start: float,
    target: float,
    confidence: float | None,
    floor: float = 0.0,
    unit: str = "draws",
) -> CertifiedScale:
    """Return the least scale at which every column's mean is certified to be within ``target``.

    ``values(s)`` is the table of distances at scale s ≥ 0: one row per independent draw (for
    ``confidence=None``: per case), a column per record.  ``start`` is any scale above 0, best near
    the answer (mean length/(2.5·target) for normal noise); ``floor`` the least scale to return.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale, and at every larger one, are at most ``bound``; with ``None``, always.
    Theorem: proofs/retraining.md, claim 3.
    Assumes: the values are rounded up from numbers in [0, 1] that do not rise with s; they, and the
    floor, may depend on anything that is independent of the rows (a pilot's centre or shape).
    Numerics: ``target`` was seen to hold at the returned scale, which is at most 1e-6 too large.
    Edge cases: the floor (0: no noise) when its values pass; SearchError when no scale can pass.

    Examples:
        >>> family = ScaleFamily.gaussian(1)
        >>> lengths = np.ones(500)
        >>> found = certified_scale(
        ...     lambda s: family.distances(lengths, s), start=1.0, target=0.1, confidence=0.95
        ... )
        >>> round(found.scale, 1), found.bound
        (4.4, 0.1)
    """
    tested = 0

    def largest(scale: float) -> float:
        nonlocal tested
        tested += 1
        return float(mean_bounds(values(scale), confidence).max())

    at_floor = values(floor)
    bound = largest(floor)
    if bound <= target:
        # Claim 3: also when the floor passes by mistake the bound there fails with the same event.
        return CertifiedScale(floor, bound, _plug_in(at_floor), tested)
    idle = float(mean_bounds(np.zeros_like(at_floor), confidence).max())
    if idle > target and confidence is not None:
        columns = 1 if at_floor.ndim == 1 else at_floor.shape[1]
        raise _too_few(len(at_floor), least_draws(target, confidence, columns), unit)
    try:
        scale = least_scale(lambda s: largest(s) - target, start, floor=floor)
    except SearchError:
        raise _too_few(len(at_floor), 2 * len(at_floor), unit) from None
    exact = largest(scale) if confidence is None else target
    return CertifiedScale(scale, exact, _plug_in(values(scale)), tested)


def certified_rung(
    values: Callable[[float], FloatArray],
    rungs: Sequence[float],
    *,
    target: float,
    confidence: float,
    unit: str = "draws",
) -> CertifiedScale:
    """Return the last of ``rungs`` before the first that is not certified to be within ``target``.

    The search of :func:`certified_scale` for values that need not fall with the scale on every
    draw: what is tested, and in which order, was fixed before the draws were looked at.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale are at most ``target``.
    Theorem: proofs/retraining.md, claim 4.
    Assumes: ``rungs`` are independent of the rows (a pilot may choose them).
    Edge cases: SearchError when the first rung does not pass.

    Examples:
        >>> family = ScaleFamily.gaussian(1)
        >>> lengths = np.ones(500)
        >>> found = certified_rung(
        ...     lambda s: family.distances(lengths, s), (9.0, 6.0, 4.0), target=0.1, confidence=0.95
        ... )
        >>> found.scale, found.bound, found.tested
        (6.0, 0.1, 3)
    """
    tested = 0

    def passes(scale: float) -> bool:
        nonlocal tested
        tested += 1
        return bool(mean_bounds(values(scale), confidence).max() <= target)

    found = fixed_order(passes, rungs)
    if found is None:
        table = values(rungs[0])
        columns = 1 if table.ndim == 1 else table.shape[1]
        raise _too_few(len(table), least_draws(target, confidence, columns), unit)
    return CertifiedScale(found, target, _plug_in(values(found)), tested)


def _plug_in(table: FloatArray) -> float:
    return float(np.asarray(table.mean(axis=0)).max())


def _too_few(draws: int, needed: int, unit: str) -> SearchError:
    return SearchError(
        f"{draws} {unit} are too few to certify this eta with any noise: use at least {needed} "
        "(a few times that for little noise), a larger eta or a lower confidence."
    )
