"""Calibrators that refit: by neighbours (how far one record moves the fit) and by a centre."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.roots import least_scale
from memberbound.numerics.rounding import FloatArray, down, sum_slack, up
from memberbound.quantities import Certificate
from memberbound.release.calibration import Calibration, Record
from memberbound.release.half.fitting import (
    COINS_AFRESH,
    COINS_PUBLIC,
    COINS_SECRET,
    Fits,
    NeighbourLengths,
    all_subsets,
    evaluated,
    fitted,
    worth_enumerating,
)
from memberbound.release.half.least_noise import (
    CertifiedScale,
    FreshSubsets,
    Progress,
    Rows,
    Statistic,
    certified_in_order,
    certified_scale,
    distance_target,
    eta_from_distance,
    least_draws,
    promised_eta,
    without_slack,
)
from memberbound.release.noise import (
    SAMPLER_ASSUMPTION,
    GaussianNoise,
    NormExponentialNoise,
    ScaledNorm,
    floating_point_slack,
    gaussian_distance,
    izzo_constant,
    scaled,
)

#: Streams of fresh subsets: for a pilot, for the certificate, for the choice of partners and for
#: the noise at which mixtures are compared.
_PILOT, _CERTIFY, _CHOOSE, _NOISE = 1, 2, 5, 6


@dataclass(frozen=True, eq=False)
class Refits:
    """What every calibrator that refits is asked.

    ``exact`` fits all subsets instead of a sample: by default when they are no more than the fits
    of the sample and the learner has no coins but public ones.
    """

    statistic: Statistic
    fresh: FreshSubsets
    eta: float
    record: Record = "average"
    confidence: float = 0.95
    exact: bool | None = None
    workers: int | None = None
    progress: Progress = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", promised_eta(self.eta, self.fresh.game))
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        one_of("record", self.record, ("average", "every"))

    @property
    def game(self) -> SubsetGame:
        """The game of the record that is to be protected."""
        return replace(self.fresh.game, record=self.record)

    @property
    def unit(self) -> GaussianNoise:
        """Normal noise of scale 1."""
        return GaussianNoise(1.0, self.statistic.dimension)

    def fits(
        self,
        groups: Sequence[Sequence[Rows]],
        reduce: Callable[[FloatArray], FloatArray] | None = None,
        *,
        seed: object,
    ) -> Fits:
        """Fit these groups of subsets."""
        return fitted(
            self.statistic,
            groups,
            reduce,
            seed=seed,
            workers=self.workers,
            progress=self.progress,
        )

    def calibration(
        self,
        least: CertifiedScale,
        unit: GaussianNoise | NormExponentialNoise,
        fits: Fits,
        details: dict[str, object],
        *,
        method: str,
        theorems: tuple[str, ...],
        exact: bool,
    ) -> Calibration:
        """Turn a certified scale into a calibration.

        For neighbours the mean bounds the distance of the two worlds, and the attacker's gain is a
        min(π, 1-π)-th of it; about a centre (X19) it bounds the gain itself, and only there may
        coins that cannot be seeded be known (proofs/coupling.md, claim 10).
        """
        game = self.game
        paired = method == "neighbour"
        slack = floating_point_slack(unit) if least.scale > 0 else 0.0

        def gain(mean: float, slack: float) -> float:
            if paired:
                return eta_from_distance(game, mean, slack)
            return min(up(mean + slack, 8), eta_from_distance(game, 1.0))

        unseeded = COINS_SECRET if paired else COINS_AFRESH
        certificate = Certificate(
            "eta",
            # The target was rounded down so far that eta itself is a bound wherever it passed.
            min(gain(least.bound, slack), self.eta),
            "upper",
            game,
            theorems if exact else (*theorems, "X4"),
            subset_assumptions(
                game,
                noisy=least.scale > 0,
                sampled=not exact,
                coins=unseeded if fits.own_coins else COINS_PUBLIC,
            ),
            1.0 if exact else self.confidence,
        )
        common: dict[str, object] = {
            "scale": least.scale,
            "eta_plug_in_estimate": gain(least.plug_in, 0.0),
            "scales_tested": least.tested,
            "exact": exact,
            "fits_unconverged": fits.unconverged,
            "fits_failed": fits.failed,
            "own_coins": fits.own_coins,
        }
        if least.scale == 0:
            common["note"] = _why_no_noise(least, game, proved=exact)
        law = scaled(unit, least.scale)
        return Calibration(law, certificate, self.eta, method, fits.count, common | details)


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


def _why_no_noise(least: CertifiedScale, game: SubsetGame, *, proved: bool) -> str:
    """Say in words what a release without noise rests on."""
    if least.plug_in == 0:
        where = "all subsets" if proved else "all subsets that were tried"
        return f"No noise is needed: the statistic is the same on {where}."
    if game.record == "average":
        return (
            "No noise is needed for the average record: few records move the statistic, but "
            "those that do are exposed. Ask for every record to protect them."
        )
    return "No noise is needed: no attacker gains more than eta even from the bare statistic."


# ── The neighbour form: how far does the statistic move when one record is replaced? ──────────────
#
# The mean distance between the releases on neighbouring training sets bounds the attacker's
# advantage (X1), and a sample of refitted pairs bounds that mean for any learner (X4).

#: Pairs for the average record: two fits each.
_PAIRS = 500
#: Fits beyond which refitting for every record is refused unless asked for.
_LARGEST_FITS = 100_000


def calibrate_neighbour(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    pairs: int | None = None,
    partners: int | None = 1,
    **how: Any,
) -> Calibration:
    """Return the least Gaussian noise that the neighbour form certifies.

    ``pairs`` independent pairs (D, D') are refitted (default 500, two fits each); for
    ``record="every"`` a draw is a subset with one neighbour for every record, max(k, N-k) + 1 fits.
    ``partners`` above 1 compares a fit with the mixture of so many neighbours at once, which takes
    less noise and a fit more per partner and draw; for every record all N + 2 fits of a draw are
    each other's partners.  None chooses them on a pilot, within 4000 fits.  ``how`` is the rest of
    :class:`Refits`.

    Guarantee: with probability at least ``confidence`` over the draws (1 when exact) no attack
    gains more than ``eta`` on the average record, or on every record; nor does one that knows the
    learner's seeds, which are the same in every fit.
    Theorem: X1, X4 (proofs/coupling.md, proofs/retraining.md); X20 (proofs/several-partners.md).
    Assumes: the released training set is drawn apart from ``fresh``; coins that cannot be seeded
    stay secret (the certificate says so where repeated fits differ).
    Numerics: the target was seen to hold at the returned scale; what floating-point draws add is
    taken off ``eta`` first.
    Edge cases: no noise when the statistic never (or provably hardly ever) moves; SearchError when
    there are too few pairs for any noise; a fit that fails counts as zeros; InputError when more
    than one in a hundred does, or when refitting for every record takes more than 100 000 fits and
    ``pairs`` was not given.

    Examples:
        >>> from memberbound.release.half.statistics import computed
        >>> mean = computed(np.arange(8.0), np.mean)
        >>> noise = calibrate_neighbour(mean, FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> noise.certificate.confidence, round(noise.noise_scale, 2), noise.fits
        (1.0, 1.46, 70)
    """
    work = Refits(statistic, fresh, eta, **how)
    game, unit = work.game, work.unit
    target = distance_target(game, work.eta, floating_point_slack(unit))
    draws = _draws(pairs, game, target, work.confidence)
    planned = draws * _fits_per_draw(game)
    exact = worth_enumerating(statistic, game, planned, work.exact)
    details: dict[str, object]
    theorems: tuple[str, ...] = ("X1",)
    if exact:
        everything = all_subsets(game)
        fits = work.fits([[rows] for rows in everything], seed="all subsets")
        lengths = NeighbourLengths(fits.rows[:, 0], game, unit)
        least = certified_scale(
            lengths.average if game.record == "average" else lengths.means,
            start=lengths.longest or 1.0,
            target=target,
            confidence=None,
        )
        details = {"subsets": len(everything)}
    else:
        if pairs is None and planned > _LARGEST_FITS:
            raise InputError(
                f"record must be 'average' for a population of {game.population} by refitting, "
                f"got 'every': that takes {planned} fits. Use the moment form, or pass "
                f"pairs={draws}."
            )
        details = {"pairs": draws}
        pilot = _chosen_partners(work, partners=partners, draws=draws, target=target)
        if pilot is None:
            least, fits = _by_pairs(work, draws, target)
        else:
            least, fits = _by_mixtures(work, draws, target, pilot)
            theorems = ("X20",)
            details |= {"partners": pilot.partners, "pilot_fits": pilot.fits}
    return work.calibration(
        least, unit, fits, details, method="neighbour", theorems=theorems, exact=exact
    )


def _by_pairs(work: Refits, draws: int, target: float) -> tuple[CertifiedScale, Fits]:
    """X1 and X4: one neighbour per record."""
    stream, unit = work.fresh.spawned(_CERTIFY), work.unit
    places = None
    if work.record == "average":
        groups = [[d, e] for d, e, _, _ in stream.neighbours(draws)]
    else:
        groups, places = matched_neighbours(stream, draws)
    fits = work.fits(groups, partial(_moved, unit), seed=stream.seed)
    lengths = fits.rows[:, 0] if places is None else np.take_along_axis(fits.rows, places, 1)
    least = certified_scale(
        lambda scale: scaled(unit, scale).distance(lengths),
        start=_first_scale(lengths, target),
        target=target,
        confidence=work.confidence,
        unit="pairs",
    )
    return least, fits


def _moved(unit: GaussianNoise, outputs: FloatArray) -> FloatArray:
    """Return how far the others of a group lie from its first."""
    return unit.length(outputs[1:] - outputs[0])


def matched_neighbours(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64]]:
    """Return groups [D, D'_1, D'_2, …] and, per group, which neighbour speaks for every record.

    Insiders and outsiders are matched at random; the swap of a matched pair serves both its records
    (proofs/retraining.md, claim 2).  Where one side is larger its surplus is matched once more.
    """
    game = stream.game
    groups, places = [], []
    for order in stream.orders(count):
        inside, outside = order[: game.size], order[game.size :]
        place = np.empty(game.population, dtype=np.int64)
        group = [np.sort(inside)]
        for swap in range(max(inside.size, outside.size)):
            gone, new = inside[swap % inside.size], outside[swap % outside.size]
            group.append(np.sort(np.append(inside[inside != gone], new)))
        # A record of the smaller side is represented by its first swap.
        place[inside] = np.arange(inside.size)
        place[outside] = np.arange(outside.size)
        groups.append(group)
        places.append(place)
    return groups, np.array(places)


def _fits_per_draw(game: SubsetGame) -> int:
    return 2 if game.record == "average" else max(game.size, game.population - game.size) + 1


def _draws(pairs: int | None, game: SubsetGame, target: float, confidence: float) -> int:
    if pairs is not None:
        return whole_number("pairs", pairs)
    average = game.record == "average"
    # Four times the least number that can certify anything: more lowers the noise little.
    wanted = 4 * least_draws(target, confidence, 1 if average else game.population)
    return max(wanted, _PAIRS) if average else wanted


def refits(game: SubsetGame, *, eta: float, confidence: float) -> int:
    """Return about how many fits :func:`calibrate_neighbour` takes."""
    target = distance_target(game, promised_eta(eta, game), 0.0)
    fraction("confidence", confidence, open_left=True, open_right=True)
    return _draws(None, game, target, confidence) * _fits_per_draw(game)


def _first_scale(lengths: FloatArray, target: float) -> float:
    """Return a scale to start from: where T ≈ length/(s·√(2π)) has the target for its mean."""
    scale = float(lengths.mean()) / (2.5 * target)
    return scale if scale > 0 and np.isfinite(scale) else 1.0


# ── Several partners: a fit against the mixture of its neighbours (X20) ───────────────────────────
#
# X1 compares M(D₀ ∪ x) with M(D₀ ∪ x') for one outsider x'.  The attacker sees the mixture over x',
# so several outsiders may be mixed before the distance is taken, which only lowers it
# (proofs/several-partners.md).  In a group of training sets of which any two differ in one record
# every record takes its turn as x, with the others for partners; the fits serve all of them.

#: Partners that are tried on a pilot, and how many groups it has for the average and every record.
_PARTNERS, _PILOT_GROUPS, _PILOT_FULL = (1, 3, 7), 12, 3
#: Fits that partners may cost where their number is left open.
_MOST_FITS = 4000
#: Fewer partners are kept if the noise is at most this much more.
_NEARLY = 1.04
#: For every record groups take twice the fits of pairs: they have to save at least this share.
_WORTH = 0.9
#: Steps between the scales that are tested, for the average and for every record.
_STEP = {"average": 0.01, "every": 0.02}
#: Draws of noise per group, and as many opposites, at which the distance is averaged.
_NOISE_DRAWS = 8
#: Partners of one record at most: beyond that the mixture changes little, the work does.
_MOST_PARTNERS = 64
#: Exponents that are computed at once.
_AT_ONCE = 2**19


@dataclass(frozen=True)
class _PartnerChoice:
    """How many partners a record gets, about the scale that is enough, and what the pilot cost."""

    partners: int
    scale: float
    fits: int


def _chosen_partners(
    work: Refits, *, partners: int | None, draws: int, target: float
) -> _PartnerChoice | None:
    """Choose the partners on a pilot stream; None where one neighbour is as good.

    Whatever is chosen here the certificate holds (proofs/retraining.md, claim 6).
    """
    game, stream = work.game, work.fresh.spawned(_CHOOSE)
    if partners is not None:
        whole_number("partners", partners)
    most = game.population - game.size
    if game.record == "every":
        affordable = partners is not None or draws * (game.population + 2) <= _LARGEST_FITS
        # D₁ has k + 1 records.
        if partners == 1 or not affordable or most < 2 or game.size < 2:
            return None
        groups, places, border = groups_of_every_record(stream, _PILOT_FULL)
        outputs = _pilot_fits(work.statistic, groups)
        halves = _mixtures(outputs, stream, border)

        def worst(scale: float, paired: bool) -> float:
            tables = [half.pairwise(scale) if paired else half.each(scale) for half in halves]
            table = np.take_along_axis(np.concatenate(tables, axis=1), places, 1)
            return float(table.mean(axis=0).max())

        mixed, single = (
            _pilot_scale(partial(worst, paired=paired), outputs, target) for paired in (False, True)
        )
        # Where mixing saves little (an outlier decides), pairs take half the fits.
        if mixed is None or (partners is None and (single is None or mixed > _WORTH * single)):
            return None
        return _PartnerChoice(min(most, game.size, _MOST_PARTNERS), mixed, _count(outputs))
    tried = sorted({min(m, most) for m in _PARTNERS if (m + 1) * draws <= _MOST_FITS})
    if partners is not None:
        tried = [min(partners, most)]
    if not tried or max(tried) < 2:
        return None
    outputs = _pilot_fits(work.statistic, neighbour_groups(stream, _PILOT_GROUPS, max(tried) + 1))
    (whole,) = _mixtures(outputs, stream, None)
    enough: dict[int, float] = {}
    for count in tried:
        smaller = whole.split(count + 1)
        scale = _pilot_scale(partial(_mean_distance, smaller), outputs, target)
        if scale is None:
            return None
        enough[count] = scale
    chosen = next(m for m in tried if enough[m] <= _NEARLY * min(enough.values()))
    if chosen == 1:
        return None
    return _PartnerChoice(chosen, enough[chosen], _count(outputs))


def _mean_distance(groups: Sequence[MixtureDistances], scale: float) -> float:
    return float(np.mean([group.average(scale).mean() for group in groups]))


def _count(outputs: FloatArray) -> int:
    return int(outputs.shape[0] * outputs.shape[1])


def _pilot_fits(statistic: Statistic, groups: list[list[Rows]]) -> FloatArray:
    """Fit a pilot's groups; what it warns of the sample will warn of again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([[evaluated(statistic, rows)[0] for rows in group] for group in groups])


def _pilot_scale(
    mean: Callable[[float], float], outputs: FloatArray, target: float
) -> float | None:
    """Return about the least scale at which a mean meets the target; None where nothing moves."""
    spread = float(np.abs(outputs - outputs[:, :1]).max())
    if not spread > 0 or mean(spread * 1e-9) <= target:
        return None
    return least_scale(lambda s: mean(s) - target, spread, floor=spread * 1e-9, relative=1e-2)


def _mixtures(
    outputs: FloatArray, stream: FreshSubsets, border: int | None
) -> tuple[MixtureDistances, ...]:
    """Return the groups of these outputs: one per draw, or two that meet at the border."""
    parts = [outputs] if border is None else [outputs[:, :border], outputs[:, border:]]
    noise = stream.spawned(_NOISE)
    return tuple(
        MixtureDistances.of(part, noise.spawned(turn).seed) for turn, part in enumerate(parts)
    )


def _by_mixtures(
    work: Refits, draws: int, target: float, pilot: _PartnerChoice
) -> tuple[CertifiedScale, Fits]:
    """X20 and X4: every fit of a group against the mixture of the others."""
    stream = work.fresh.spawned(_CERTIFY)
    places, border = None, None
    if work.record == "average":
        groups = neighbour_groups(stream, draws, pilot.partners + 1)
    else:
        groups, places, border = groups_of_every_record(stream, draws)
    fits = work.fits(groups, seed=stream.seed)
    parts = _mixtures(fits.rows, stream, border)

    def values(scale: float) -> FloatArray:
        if places is None:
            return parts[0].average(scale)
        table = np.concatenate([part.each(scale) for part in parts], axis=1)
        return np.asarray(np.take_along_axis(table, places, 1))

    last = certified_in_order(
        values,
        scales_around(pilot.scale, _STEP[work.record]),
        target=target,
        confidence=work.confidence,
        unit="pairs",
    )
    return last, replace(fits, count=fits.count + pilot.fits)


def neighbour_groups(stream: FreshSubsets, count: int, width: int) -> list[list[Rows]]:
    """Return ``count`` independent groups D₀ ∪ x₁ … D₀ ∪ x_g: D₀ and the x_i uniform.

    Edge cases: g = ``width`` is at most N - k + 1, the number of records outside D₀.
    """
    size = stream.game.size
    return [
        [np.sort(np.append(order[: size - 1], x)) for x in order[size - 1 :][:width]]
        for order in stream.orders(count)
    ]


def groups_of_every_record(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64], int]:
    """Return two groups per draw that speak for every record, the records' places, and the border.

    D₀ ⊂ D₁ are uniform of k-1 and k+1 records.  The first N-k+1 sets are D₀ ∪ x for the records
    outside D₀, the others D₁ ∖ x for those of D₁: there x is *out* and its partners have it
    (claim 3).  ``places[b, x]`` is the place of the set that speaks for x.
    """
    game = stream.game
    draws = np.random.default_rng(stream.seed)
    border = game.population - game.size + 1
    groups, places = [], []
    for _ in range(count):
        order = draws.permutation(game.population)
        base, outside = order[: game.size - 1], order[game.size - 1 :]
        above = np.concatenate([outside[:2], base])
        # D₁ ∖ x, the records of D₀ in random order: neighbours in a group are random partners.
        inner = draws.permutation(above)
        place = np.empty(game.population, dtype=np.int64)
        place[inner] = border + np.arange(inner.size)
        place[outside] = np.arange(outside.size)
        groups.append(
            [np.sort(np.append(base, x)) for x in outside]
            + [np.sort(above[above != x]) for x in inner]
        )
        places.append(place)
    return groups, np.array(places), border


@dataclass(frozen=True, eq=False)
class MixtureDistances:
    """The distances of X20 on sampled groups, at any scale: unbiased, in [0, 1], rounded up.

    ``points`` (draws, sets, d) are the outputs relative to the first set of their group, ``noise``
    (draws, n, d) standard normal vectors, the same at every scale and for every set.

    Numerics: points are off by at most ``room`` relative; exponents are lowered by what that and
    the rounding of their sums can amount to, so likelihood ratios come out too small and distances
    too large.  An exponential that overflows makes a distance of 0, as it should.
    """

    points: FloatArray
    noise: FloatArray
    room: float

    @classmethod
    def of(cls, outputs: FloatArray, seed: int | tuple[int, ...]) -> MixtureDistances:
        """Draw the noise for the outputs (draws, sets, d) of groups."""
        moved = outputs - outputs[:, :1]
        draws, _, dimension = moved.shape
        source = np.random.default_rng(seed)
        noise = source.standard_normal((draws, _NOISE_DRAWS, dimension))
        # Antithetic draws lower the variance of the mean.
        noise = np.concatenate([noise, -noise], axis=1)
        # One rounding of the difference, and inner products.
        return cls(moved, noise, 32 * sum_slack(dimension + 8))

    def split(self, width: int) -> list[MixtureDistances]:
        """Return smaller groups of the same sets, for a pilot: their rounding is not counted."""
        sets = self.points.shape[1]
        return [
            replace(self, points=self.points[:, at : at + width])
            for at in range(0, sets - width + 1, width)
        ]

    def pairwise(self, scale: float) -> FloatArray:
        """Return, per draw and set, X1's mean distance to the other sets; an estimate, rounded."""
        sets = self.points.shape[1]
        total = np.zeros(self.points.shape[:2])
        for turn in range(1, sets):
            moved = self.points - np.roll(self.points, turn, axis=1)
            total += gaussian_distance(np.linalg.norm(moved, axis=2) / scale)
        return np.asarray(total / max(sets - 1, 1))

    def average(self, scale: float) -> FloatArray:
        """Return, per draw, the mean over sets of the distance to their partners' mixture."""
        table = self.each(scale)
        return np.asarray(np.minimum(table.mean(axis=1) * (1 + 2 * sum_slack(table.shape[1])), 1.0))

    def each(self, scale: float) -> FloatArray:
        """Return, per draw and set, an unbiased value of its distance to its partners' mixture."""
        draws, sets, _ = self.points.shape
        # Small groups together, large ones one by one: exponents are (draws, n, sets, partners).
        portion = max(1, _AT_ONCE // (self.noise.shape[1] * sets * min(sets - 1, _MOST_PARTNERS)))
        return np.concatenate(
            [self._some(slice(at, at + portion), scale) for at in range(0, draws, portion)]
        )

    def _some(self, which: slice, scale: float) -> FloatArray:
        points, noise = self.points[which], self.noise[which]
        sets = points.shape[1]
        partners = min(sets - 1, _MOST_PARTNERS)
        # Partners of place i are the next places of the group, whose order is random.
        places = (np.arange(sets)[:, None] + np.arange(1, partners + 1)) % sets
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            lengths = np.square(points).sum(axis=2)
            reach = 2 * np.sqrt(lengths.max(axis=1)) / scale
            squares = lengths[:, :, None] + lengths[:, None, :]
            squares = squares - 2 * points @ points.transpose(0, 2, 1)
            squares = np.maximum(squares, 0.0) / scale / scale
            along = noise @ points.transpose(0, 2, 1) / scale
            sizes = np.linalg.norm(noise, axis=2)
            lost = self.room * reach[:, None] * (sizes + reach[:, None])
            moved = squares[:, np.arange(sets)[:, None], places] / 2
            exponents = along[:, :, places] - along[..., None]
            exponents -= moved[:, None] + lost[:, :, None, None]
            ratio = np.exp(exponents).sum(axis=3) / partners
            value = np.clip(1 - ratio * (1 - 2 * sum_slack(partners + 16)), 0.0, 1.0)
        # Beyond the range of doubles nothing is known.
        value = np.where((reach < 1e100)[:, None, None], value, 1.0)
        mean = value.mean(axis=1) * (1 + 2 * sum_slack(noise.shape[1]))
        return np.asarray(np.minimum(mean, 1.0))


def scales_around(scale: float, step: float) -> list[float]:
    """Return scales from large to small, to be tested in that order, close together near a guess.

    Far above the guess they are few: there little is gained.  The last is a quarter of it.
    """
    coarse = [scale * 4.0**power for power in range(12, 0, -1)] + [2 * scale]
    fine = math.ceil(math.log(6) / math.log1p(step))
    return coarse + [1.5 * scale / (1 + step) ** turn for turn in range(fine + 1)]


# ── The centre form: how far from a fixed point does the statistic lie? ───────────────────────────
#
# Every record, any learner: the releases with and without a record are both compared with noise
# around one centre, and together they are all releases (X19).  It needs no neighbours and no bound
# on the statistic, and pays for the whole spread of q(D) instead of the movement of one record.

#: Fits by default: a fifth of them is the pilot's.
_SUBSETS = 1000
#: Steps of Weiszfeld's iteration; the centre need not be exact to be valid.
_STEPS = 30
#: A coordinate that did not move on the pilot gets this share of the widest one's scale.
_STILL = 1e-6


@dataclass(frozen=True, eq=False)
class _Sample:
    """Outputs to choose a centre and scales on, and outputs to certify on."""

    pilot: FloatArray
    certify: FloatArray
    exact: bool
    fits: Fits


def _sample(work: Refits, subsets: int | None) -> _Sample:
    """Fit all subsets, or a pilot stream and a certifying stream."""
    fresh = work.fresh
    total = (
        max(_SUBSETS, 5 * least_draws(work.eta, work.confidence))
        if subsets is None
        else whole_number("subsets", subsets, at_least=2)
    )
    if worth_enumerating(work.statistic, fresh.game, total, work.exact):
        fits = work.fits([[rows] for rows in all_subsets(fresh.game)], seed="all subsets")
        return _Sample(fits.rows[:, 0], fits.rows[:, 0], True, fits)
    pilot = max(1, total // 5)
    certify = fresh.spawned(_CERTIFY).subsets(total - pilot)
    drawn = fresh.spawned(_PILOT).subsets(pilot) + certify
    fits = work.fits([[rows] for rows in drawn], seed=(fresh.seed, "pilot first", pilot))
    return _Sample(fits.rows[:pilot, 0], fits.rows[pilot:, 0], False, fits)


def spatial_median(outputs: FloatArray, unit: GaussianNoise | NormExponentialNoise) -> FloatArray:
    """Return nearly the point with the least mean length of displacement, by Weiszfeld's steps.

    An estimate: X19 holds for any centre that does not depend on the certifying sample.
    """
    best = centre = outputs.mean(axis=0)
    least = float(unit.length(outputs - centre).mean())
    for _ in range(_STEPS if least > 0 else 0):
        lengths = unit.length(outputs - centre)
        weights = 1.0 / np.maximum(lengths, 1e-9 * least)
        centre = (outputs * weights[:, None]).sum(axis=0) / weights.sum()
        value = float(unit.length(outputs - centre).mean())
        if value < least:
            best = centre
        if not 0 < value < least:
            break
        least = value
    # The middle of many equal outputs is one of them: exactly, so that they count as not moved.
    values, counts = np.unique(outputs, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()] if 2 * counts.max() > len(outputs) else best)


def _centred(
    work: Refits,
    sample: _Sample,
    unit: GaussianNoise | NormExponentialNoise,
    details: dict[str, object],
    *,
    method: str,
    theorems: tuple[str, ...],
    floor: float = 0.0,
) -> Calibration:
    """Certify E T(q(D) - m) ≤ η at the least scale from ``floor`` on (X19)."""
    # X19 bounds the gain itself.
    target = down(without_slack(work.eta, floating_point_slack(unit)), 32)
    centre = spatial_median(sample.pilot, unit)
    lengths = unit.length(sample.certify - centre)
    spread = float(lengths.mean())
    # The floor may be dropped only where nothing moved on the pilot, not on the certifying sample.
    lowest = floor if (sample.pilot != sample.pilot[0]).any() else 0.0
    least = certified_scale(
        lambda scale: scaled(unit, scale).distance(lengths),
        start=max(lowest, spread / (2.5 * target)) or 1.0,
        target=target,
        confidence=None if sample.exact else work.confidence,
        floor=lowest,
        unit="certifying subsets",
    )
    details = {
        "subsets": sample.fits.count,
        "pilot_subsets": 0 if sample.exact else len(sample.pilot),
        "spread_estimate": spread,
    } | details
    return work.calibration(
        least, unit, sample.fits, details, method=method, theorems=theorems, exact=sample.exact
    )


def calibrate_moment(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    subsets: int | None = None,
    **how: Any,
) -> Calibration:
    """Return the least Gaussian noise that the centre form certifies, for every record.

    ``subsets`` fresh subsets are fitted (default 1000): a fifth chooses the centre, the rest
    certifies.  ``how`` is the rest of :class:`Refits`.

    Guarantee: with probability at least ``confidence`` over the subsets (1 when exact) no attack
    gains more than ``eta`` on any record; so not on the average record either, which is all that
    the certificate says when ``record="average"``.
    Theorem: X19 (proofs/centre-form.md), X4.
    Assumes: the released training set is drawn apart from ``fresh``.
    Numerics: as in :func:`calibrate_neighbour`.
    Edge cases: no noise when the statistic never (or provably hardly ever) leaves the centre;
    SearchError when there are too few subsets for any noise; a fit that fails counts as zeros,
    InputError when more than one in a hundred does.

    Examples:
        >>> from memberbound.release.half.statistics import computed
        >>> mean = computed(np.arange(8.0), np.mean)
        >>> noise = calibrate_moment(mean, FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> noise.record, round(noise.noise_scale, 2), noise.fits
        ('every', 2.77, 70)
    """
    work = Refits(statistic, fresh, eta, record, **how)
    sample = _sample(work, subsets)
    return _centred(work, sample, work.unit, {}, method="moment", theorems=("X19",))


def calibrate_izzo(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    moment: float = 2.0,
    subsets: int | None = None,
    **how: Any,
) -> Calibration:
    """Return I24's norm-exponential noise at I24's own scale, with the radius that is right.

    The noise is exp(-‖x‖/(c·σ)), c = (6.16/η)^(1+2/M) for a moment M ≥ 2, with the norm of I24-C10
    and every coordinate's M-th moment σ_i.  It is far more than is needed
    (:func:`calibrate_moment`), and here to compare with.

    Guarantee: as :func:`calibrate_moment`.  An estimated moment proves nothing, so the certificate
    is that of the centre form for this law; should it fail, the scale is raised until it passes.
    Theorem: X19, X14; I24-C10 and I24-C14 choose the scale.
    Assumes: the released training set is drawn apart from ``fresh``.
    Numerics: as in :func:`calibrate_moment`.
    Edge cases: a coordinate that does not move on the pilot gets a millionth of the widest scale.

    Examples:
        >>> from memberbound.release.half.statistics import computed
        >>> mean = computed(np.arange(8.0), np.mean)
        >>> noise = calibrate_izzo(mean, FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> round(noise.noise_scale), noise.certificate.value < 0.001
        (4647, True)
    """
    work = Refits(statistic, fresh, eta, record, **how)
    constant = izzo_constant(work.eta, moment)
    sample = _sample(work, subsets)
    offsets = np.abs(sample.pilot - sample.pilot.mean(axis=0))
    return _centred(
        work,
        sample,
        NormExponentialNoise(ScaledNorm(_moment_scales(offsets, moment), moment), 1.0),
        {"constant": constant, "moment": moment},
        method="izzo",
        theorems=("X19", "X14"),
        floor=constant,
    )


def _moment_scales(offsets: FloatArray, moment: float) -> FloatArray:
    """Return (mean of offset^M)^{1/M} of every column, a small number in the place of 0."""
    top = np.where(offsets.max(axis=0) > 0, offsets.max(axis=0), 1.0)
    # Divided by the largest first, so that nothing overflows.
    scales = np.asarray(top * ((offsets / top) ** moment).mean(axis=0) ** (1.0 / moment))
    widest = float(scales.max())
    return np.maximum(scales, _STILL * widest) if widest > 0 else np.ones_like(scales)
