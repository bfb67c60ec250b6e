"""Calibrators that refit: by neighbours (how far one record moves the fit) and by a centre."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.roots import least_scale
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.quantities import Certificate
from memberbound.release.calibration import (
    Calibration,
    CertifiedScale,
    FreshSubsets,
    Progress,
    Record,
    Rows,
    ScaleFamily,
    Statistic,
    certified_rung,
    certified_scale,
    distance_target,
    eta_from_distance,
    least_draws,
    promised_eta,
    without_slack,
)
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
from memberbound.release.half.partners import (
    MOST_PARTNERS,
    CircleValues,
    circles,
    full_circles,
    rungs_around,
)
from memberbound.release.noise import (
    SAMPLER_ASSUMPTION,
    NormExponentialNoise,
    ScaledNorm,
    izzo_constant,
)

__all__ = [
    "calibrate_izzo",
    "calibrate_moment",
    "calibrate_neighbour",
    "calibration_from_scale",
    "matched_neighbours",
    "refits",
    "subset_assumptions",
]

# ── The neighbour form: how far does the statistic move when one record is replaced? ──────────────
#
# The mean distance between the releases on neighbouring training sets bounds the attacker's
# advantage (X1), and a sample of refitted pairs bounds that mean for any learner (X4).

#: Pairs for the average record: two fits each.
_PAIRS = 500
#: Fits beyond which refitting for every record is refused unless asked for.
_LARGEST_FITS = 100_000
#: The certifying stream; 1 is the pilot's, 5 chooses partners, 6 is the noise of circles.
_CERTIFY, _CHOOSE, _DRAWN = 2, 5, 6
#: Partners that are tried on a pilot, and how many circles or draws it has.
_PARTNERS, _PILOT_CIRCLES, _PILOT_FULL = (1, 3, 7), 12, 3
#: Fits that partners may cost where their number is left open.
_MOST_FITS = 4000
#: Fewer partners are kept if the noise is at most this much more.
_NEARLY = 1.04
#: For every record circles take twice the fits of pairs: they have to save at least this share.
_WORTH = 0.9
#: Steps between the scales that are tested, for the average and for every record.
_STEP = {"average": 0.01, "every": 0.02}


def subset_assumptions(
    game: SubsetGame, *, noisy: bool, sampled: bool, coins: str
) -> tuple[str, ...]:
    """Return what every certificate of a released statistic rests on.

    ``coins`` says what is assumed about the learner's own.
    """
    said = [
        f"The training set is a uniformly random {game.size} of the {game.population} records, "
        "drawn apart from the subsets used for calibration.",
        "The noise is drawn afresh for one release of the statistic.",
        coins,
        "Nothing but the release is seen: not how long the fit took, nor what native code printed.",
    ]
    if 2 * game.size != game.population:
        said.append("eta is the attacker's gain over always giving the likelier answer.")
    if sampled:
        said.append("The calibration's subsets are independent and uniform (seeded generator).")
    if noisy:
        said.append(SAMPLER_ASSUMPTION)
    return tuple(said)


def calibration_from_scale(
    found: CertifiedScale,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    eta: float,
    method: str,
    theorems: tuple[str, ...],
    confidence: float | None,
    halved: bool,
    fits: Fits,
    details: dict[str, object],
) -> Calibration:
    """Turn a certified scale into a calibration.

    ``halved`` says whether the mean bounds the distance of the two worlds (the attacker's gain is a
    min(π, 1-π)-th of it) or, as in X19, the gain itself; only in X19 may coins that cannot be
    seeded be known (proofs/coupling.md, claim 10).
    """
    law = family.law(found.scale)
    slack = family.slack() if found.scale > 0 else 0.0

    def gain(mean: float, slack: float) -> float:
        if halved:
            return eta_from_distance(game, mean, slack)
        return min(up(mean + slack, 8), eta_from_distance(game, 1.0))

    # The target was rounded down so far that eta itself is a bound wherever it passed.
    value = min(gain(found.bound, slack), eta)
    unseeded = COINS_SECRET if halved else COINS_AFRESH
    certificate = Certificate(
        "eta",
        value,
        "upper",
        game,
        theorems,
        subset_assumptions(
            game,
            noisy=found.scale > 0,
            sampled=confidence is not None,
            coins=unseeded if fits.own_coins else COINS_PUBLIC,
        ),
        1.0 if confidence is None else confidence,
    )
    known: dict[str, object] = {
        "scale": found.scale,
        "eta_plug_in_estimate": gain(found.plug_in, 0.0),
        "scales_tested": found.tested,
        "exact": confidence is None,
        "fits_unconverged": fits.unconverged,
        "fits_failed": fits.failed,
        "own_coins": fits.own_coins,
    }
    if found.scale == 0:
        known["note"] = _why_no_noise(found, game, proved=confidence is None)
    return Calibration(law, certificate, eta, method, fits.count, known | details)


def _why_no_noise(found: CertifiedScale, game: SubsetGame, *, proved: bool) -> str:
    """Say in words what a release without noise rests on."""
    if found.plug_in == 0:
        where = "all subsets" if proved else "all subsets that were tried"
        return f"No noise is needed: the statistic is the same on {where}."
    if game.record == "average":
        return (
            "No noise is needed for the average record: few records move the statistic, but "
            "those that do are exposed. Ask for every record to protect them."
        )
    return "No noise is needed: no attacker gains more than eta even from the bare statistic."


def calibrate_neighbour(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "average",
    confidence: float = 0.95,
    pairs: int | None = None,
    partners: int | None = 1,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least Gaussian noise that the neighbour form certifies.

    ``pairs`` independent pairs (D, D') are refitted (default 500, two fits each); for
    ``record="every"`` a draw is a subset with one neighbour for every record, max(k, N-k) + 1 fits.
    ``partners`` above 1 compares a fit with the mixture of so many neighbours at once, which takes
    less noise and a fit more per partner and draw; for every record all N + 2 fits of a draw are
    each other's partners.  None chooses them on a pilot, within 4000 fits.
    ``exact`` fits all subsets instead: by default when they are no more than the fits of the sample
    and the learner has no coins but public ones.

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
        >>> from memberbound.release.calibration import FreshSubsets
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_neighbour(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> found.certificate.confidence, round(found.noise_scale, 2), found.fits
        (1.0, 1.46, 70)
    """
    goal, sure = promised_eta(eta, fresh.game), _checked_confidence(confidence)
    one_of("record", record, ("average", "every"))
    game = replace(fresh.game, record=record)
    family = ScaleFamily.gaussian(statistic.dimension)
    target = distance_target(game, goal, family.slack())
    per_draw = _fits_per_draw(game)
    draws = _draws(pairs, game, target, sure)
    details: dict[str, object]
    theorems: tuple[str, ...]
    if worth_enumerating(statistic, game, draws * per_draw, exact):
        everything = all_subsets(game)
        fits = fitted(
            statistic,
            [[rows] for rows in everything],
            seed="all subsets",
            workers=workers,
            progress=progress,
        )
        known = NeighbourLengths(fits.rows[:, 0], game, family)
        found = certified_scale(
            known.average if record == "average" else known.means,
            start=known.longest or 1.0,
            target=target,
            confidence=None,
        )
        level, theorems = None, ("X1",)
        details = {"subsets": len(everything)}
    else:
        if pairs is None and draws * per_draw > _LARGEST_FITS:
            raise InputError(
                f"record must be 'average' for a population of {game.population} by refitting, "
                f"got 'every': that takes {draws * per_draw} fits. Use the moment form, or "
                f"pass pairs={draws}."
            )
        company = _company(
            statistic, fresh, family, game, partners=partners, draws=draws, target=target
        )
        if company is None:
            found, fits = _by_pairs(
                statistic,
                fresh,
                family,
                game,
                draws=draws,
                target=target,
                sure=sure,
                workers=workers,
                progress=progress,
            )
            level, theorems = sure, ("X1", "X4")
            details = {"pairs": draws}
        else:
            found, fits = _by_circles(
                statistic,
                fresh,
                family,
                game,
                draws=draws,
                company=company,
                target=target,
                sure=sure,
                workers=workers,
                progress=progress,
            )
            level, theorems = sure, ("X20", "X4")
            details = {"pairs": draws, "partners": company.partners, "pilot_fits": company.fits}
    return calibration_from_scale(
        found,
        family,
        game,
        eta=goal,
        method="neighbour",
        theorems=theorems,
        confidence=level,
        halved=True,
        fits=fits,
        details=details,
    )


def _by_pairs(
    statistic: Statistic,
    fresh: FreshSubsets,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    draws: int,
    target: float,
    sure: float,
    workers: int | None,
    progress: Progress,
) -> tuple[CertifiedScale, Fits]:
    """X1 and X4: one neighbour per record."""
    stream = fresh.spawned(_CERTIFY)
    if game.record == "average":
        groups = [[d, e] for d, e, _, _ in stream.neighbours(draws)]
        places = None
    else:
        groups, places = matched_neighbours(stream, draws)
    fits = fitted(
        statistic,
        groups,
        partial(_lengths, family),
        seed=stream.seed,
        workers=workers,
        progress=progress,
    )
    lengths = fits.rows[:, 0] if places is None else np.take_along_axis(fits.rows, places, 1)
    found = certified_scale(
        lambda scale: family.distances(lengths, scale),
        start=_guess(lengths, target),
        target=target,
        confidence=sure,
        unit="pairs",
    )
    return found, fits


def _lengths(family: ScaleFamily, outputs: FloatArray) -> FloatArray:
    """Return how far the others of a group lie from its first."""
    return family.lengths(outputs[1:] - outputs[0])


@dataclass(frozen=True)
class _Company:
    """How many partners a record gets, about the scale that is enough, and what the pilot cost."""

    partners: int
    guess: float
    fits: int


def _company(
    statistic: Statistic,
    fresh: FreshSubsets,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    partners: int | None,
    draws: int,
    target: float,
) -> _Company | None:
    """Choose the partners on a pilot stream; None where one neighbour is as good.

    Whatever is chosen here the certificate holds (proofs/retraining.md, claim 6).
    """
    if partners is not None:
        whole_number("partners", partners)
    most = game.population - game.size
    if game.record == "every":
        affordable = partners is not None or draws * (game.population + 2) <= _LARGEST_FITS
        # The inner circle D₁ has k + 1 records.
        if partners == 1 or not affordable or most < 2 or game.size < 2:
            return None
        groups, places, border = full_circles(fresh.spawned(_CHOOSE), _PILOT_FULL)
        outputs = _quietly(statistic, groups)
        parts = _values(outputs, family, fresh.spawned(_CHOOSE), border)
        mixed, paired = (
            _pilot_guess(partial(_worst_of, parts, places, paired), outputs, target)
            for paired in (False, True)
        )
        # An outlier has no crowd to hide in: then half the fits do as well.
        if mixed is None or (partners is None and (paired is None or mixed > _WORTH * paired)):
            return None
        fits = outputs.shape[0] * outputs.shape[1]
        return _Company(min(most, game.size, MOST_PARTNERS), mixed, fits)
    tried = sorted({min(m, most) for m in _PARTNERS if (m + 1) * draws <= _MOST_FITS})
    if partners is not None:
        tried = [min(partners, most)]
    if not tried or max(tried) < 2:
        return None
    outputs = _quietly(statistic, circles(fresh.spawned(_CHOOSE), _PILOT_CIRCLES, max(tried) + 1))
    (circle,) = _values(outputs, family, fresh.spawned(_CHOOSE), None)
    found: dict[int, float] = {}
    for count in tried:
        smaller = circle.split(count + 1)
        guess = _pilot_guess(partial(_mean_of, smaller), outputs, target)
        if guess is None:
            return None
        found[count] = guess
    chosen = next(m for m in tried if found[m] <= _NEARLY * min(found.values()))
    if chosen == 1:
        return None
    return _Company(chosen, found[chosen], outputs.shape[0] * outputs.shape[1])


def _worst_of(
    parts: Sequence[CircleValues], places: NDArray[np.int64], paired: bool, scale: float
) -> float:
    tables = [part.pairwise(scale) if paired else part.each(scale) for part in parts]
    table = np.take_along_axis(np.concatenate(tables, axis=1), places, 1)
    return float(table.mean(axis=0).max())


def _mean_of(parts: Sequence[CircleValues], scale: float) -> float:
    return float(np.mean([part.average(scale).mean() for part in parts]))


def _quietly(statistic: Statistic, groups: list[list[Rows]]) -> FloatArray:
    """Fit a pilot's groups; what it warns of the sample will warn of again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([[evaluated(statistic, rows)[0] for rows in group] for group in groups])


def _pilot_guess(
    mean: Callable[[float], float], outputs: FloatArray, target: float
) -> float | None:
    """Return about the least scale at which a mean meets the target; None where nothing moves."""
    spread = float(np.abs(outputs - outputs[:, :1]).max())
    if not spread > 0 or mean(spread * 1e-9) <= target:
        return None
    return least_scale(lambda s: mean(s) - target, spread, floor=spread * 1e-9, relative=1e-2)


def _values(
    outputs: FloatArray, family: ScaleFamily, stream: FreshSubsets, border: int | None
) -> tuple[CircleValues, ...]:
    """Return the circles of these outputs: one per draw, or two that meet at the border."""
    parts = [outputs] if border is None else [outputs[:, :border], outputs[:, border:]]
    noise = stream.spawned(_DRAWN)
    return tuple(
        CircleValues.of(part, family, noise.spawned(turn).seed) for turn, part in enumerate(parts)
    )


def _every(
    parts: tuple[CircleValues, ...], places: NDArray[np.int64]
) -> Callable[[float], FloatArray]:
    """Return the table of distances at a scale, a column per record."""

    def values(scale: float) -> FloatArray:
        table = np.concatenate([part.each(scale) for part in parts], axis=1)
        return np.asarray(np.take_along_axis(table, places, 1))

    return values


def _by_circles(
    statistic: Statistic,
    fresh: FreshSubsets,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    draws: int,
    company: _Company,
    target: float,
    sure: float,
    workers: int | None,
    progress: Progress,
) -> tuple[CertifiedScale, Fits]:
    """X20 and X4: every fit of a circle against the mixture of the others."""
    stream = fresh.spawned(_CERTIFY)
    places, border = None, None
    if game.record == "average":
        groups = circles(stream, draws, company.partners + 1)
    else:
        groups, places, border = full_circles(stream, draws)
    fits = fitted(statistic, groups, seed=stream.seed, workers=workers, progress=progress)
    parts = _values(fits.rows, family, stream, border)
    found = certified_rung(
        parts[0].average if places is None else _every(parts, places),
        rungs_around(company.guess, _STEP[game.record]),
        target=target,
        confidence=sure,
        unit="pairs",
    )
    return found, replace(fits, count=fits.count + company.fits)


def matched_neighbours(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64]]:
    """Return groups [D, D'_1, D'_2, …] and, per group, which neighbour speaks for every record.

    Insiders and outsiders are matched at random; the swap of a matched pair serves both its records
    (proofs/retraining.md, claim 2).  Where one side is larger its surplus is matched once more.
    """
    game = stream.game
    draws = np.random.default_rng(stream.seed)
    groups, places = [], []
    for _ in range(count):
        order = draws.permutation(game.population)
        inside, outside = order[: game.size], order[game.size :]
        width = max(inside.size, outside.size)
        place = np.empty(game.population, dtype=np.int64)
        group = [np.sort(inside)]
        for swap in range(width):
            gone, new = inside[swap % inside.size], outside[swap % outside.size]
            group.append(np.sort(np.append(inside[inside != gone], new)))
        # The smaller side's records are spoken for by their first swap.
        place[inside] = np.arange(inside.size)
        place[outside] = np.arange(outside.size)
        groups.append(group)
        places.append(place)
    return groups, np.array(places)


def _checked_confidence(confidence: float) -> float:
    return fraction("confidence", confidence, open_left=True, open_right=True)


def _fits_per_draw(game: SubsetGame) -> int:
    return 2 if game.record == "average" else max(game.size, game.population - game.size) + 1


def _draws(pairs: int | None, game: SubsetGame, target: float, sure: float) -> int:
    if pairs is not None:
        return whole_number("pairs", pairs)
    average = game.record == "average"
    # Below the least number nothing is certified; at four times it little noise is wasted.
    wanted = 4 * least_draws(target, sure, 1 if average else game.population)
    return max(wanted, _PAIRS) if average else wanted


def refits(game: SubsetGame, *, eta: float, confidence: float) -> int:
    """Return about how many fits :func:`calibrate_neighbour` takes."""
    target = distance_target(game, promised_eta(eta, game), 0.0)
    return _draws(None, game, target, _checked_confidence(confidence)) * _fits_per_draw(game)


def _guess(lengths: FloatArray, target: float) -> float:
    """Return a scale to start from: where T ≈ length/(s·√(2π)) has the target for its mean."""
    guess = float(lengths.mean()) / (2.5 * target)
    return guess if guess > 0 and np.isfinite(guess) else 1.0


# ── The centre form: how far from a fixed point does the statistic lie? ───────────────────────────
#
# Every record, any learner: the releases with and without a record are both compared with noise
# around one centre, and together they are all releases (X19).  It needs no neighbours and no bound
# on the statistic, and pays for the whole spread of q(D) instead of the movement of one record.

#: Fits by default: a fifth of them is the pilot's.
_SUBSETS = 1000
_PILOT = 1
#: Steps of Weiszfeld's iteration; the centre need not be exact to be valid.
_STEPS = 30
#: A coordinate that did not move on the pilot gets this share of the widest one's scale.
_STILL = 1e-6


@dataclass(frozen=True, eq=False)
class _Sample:
    """Outputs to choose a centre and scales on, and outputs to certify on."""

    pilot: FloatArray
    certify: FloatArray
    confidence: float | None
    fits: Fits


def _sample(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    confidence: float,
    subsets: int | None,
    exact: bool | None,
    workers: int | None,
    progress: Progress,
) -> _Sample:
    """Fit all subsets, or a pilot stream and a certifying stream."""
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    total = (
        max(_SUBSETS, 5 * least_draws(eta, sure))
        if subsets is None
        else whole_number("subsets", subsets, at_least=2)
    )
    enumerate_all = worth_enumerating(statistic, fresh.game, total, exact)
    if enumerate_all:
        drawn, pilot = all_subsets(fresh.game), 0
    else:
        pilot = max(1, total // 5)
        drawn = fresh.spawned(_PILOT).subsets(pilot) + fresh.spawned(_CERTIFY).subsets(
            total - pilot
        )
    fits = fitted(
        statistic,
        [[rows] for rows in drawn],
        seed="all subsets" if enumerate_all else (fresh.seed, "pilot first", pilot),
        workers=workers,
        progress=progress,
    )
    outputs = fits.rows[:, 0]
    chosen_on = outputs if enumerate_all else outputs[:pilot]
    level = None if enumerate_all else sure
    return _Sample(chosen_on, outputs[pilot:], level, fits)


def spatial_median(outputs: FloatArray, family: ScaleFamily) -> FloatArray:
    """Return nearly the point with the least mean length of displacement, by Weiszfeld's steps.

    An estimate: X19 holds for any centre that does not depend on the certifying sample.
    """
    best = centre = outputs.mean(axis=0)
    least = float(family.lengths(outputs - centre).mean())
    for _ in range(_STEPS if least > 0 else 0):
        lengths = family.lengths(outputs - centre)
        weights = 1.0 / np.maximum(lengths, 1e-9 * least)
        centre = (outputs * weights[:, None]).sum(axis=0) / weights.sum()
        value = float(family.lengths(outputs - centre).mean())
        if value < least:
            best = centre
        if not 0 < value < least:
            break
        least = value
    # The middle of many equal outputs is one of them: exactly, so that they count as not moved.
    values, counts = np.unique(outputs, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()] if 2 * counts.max() > len(outputs) else best)


def _centred(
    sample: _Sample,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    eta: float,
    method: str,
    theorems: tuple[str, ...],
    floor: float,
    details: dict[str, object],
) -> Calibration:
    """Certify E T(q(D) - m) ≤ η at the least scale from ``floor`` on (X19)."""
    # X19 bounds the gain itself.
    target = down(without_slack(eta, family.slack()), 32)
    centre = spatial_median(sample.pilot, family)
    lengths = family.lengths(sample.certify - centre)
    spread = float(lengths.mean())
    # Only the pilot may say that nothing moves and the paper's scale is pointless.
    least = floor if (sample.pilot != sample.pilot[0]).any() else 0.0
    found = certified_scale(
        lambda scale: family.distances(lengths, scale),
        start=max(least, spread / (2.5 * target)) or 1.0,
        target=target,
        confidence=sample.confidence,
        floor=least,
        unit="certifying subsets",
    )
    return calibration_from_scale(
        found,
        family,
        game,
        eta=eta,
        method=method,
        theorems=theorems if sample.confidence is None else (*theorems, "X4"),
        confidence=sample.confidence,
        halved=False,
        fits=sample.fits,
        details={
            "subsets": sample.fits.count,
            "pilot_subsets": 0 if sample.confidence is None else len(sample.pilot),
            "spread_estimate": spread,
        }
        | details,
    )


def calibrate_moment(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    confidence: float = 0.95,
    subsets: int | None = None,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least Gaussian noise that the centre form certifies, for every record.

    ``subsets`` fresh subsets are fitted (default 1000): a fifth chooses the centre, the rest
    certifies.  ``exact`` fits all subsets instead: by default when they are no more than that.

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
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_moment(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> found.record, round(found.noise_scale, 2), found.fits
        ('every', 2.77, 70)
    """
    goal = promised_eta(eta, fresh.game)
    one_of("record", record, ("average", "every"))
    family = ScaleFamily.gaussian(statistic.dimension)
    sample = _sample(
        statistic,
        fresh,
        eta=goal,
        confidence=confidence,
        subsets=subsets,
        exact=exact,
        workers=workers,
        progress=progress,
    )
    return _centred(
        sample,
        family,
        replace(fresh.game, record=record),
        eta=goal,
        method="moment",
        theorems=("X19",),
        floor=0.0,
        details={},
    )


def calibrate_izzo(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    confidence: float = 0.95,
    moment: float = 2.0,
    scaling: str = "coordinate",
    subsets: int | None = None,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return I24's norm-exponential noise at I24's own scale, with the radius that is right.

    The noise is exp(-‖x‖/(c·σ)), c = (6.16/η)^(1+2/M) for a moment M ≥ 2: with
    ``scaling="coordinate"`` the norm of I24-C10 with every coordinate's M-th moment σ_i, with
    ``"plain"`` the Euclidean norm and σ^M = E‖q - Eq‖^M.  It is far more than is needed
    (:func:`calibrate_moment`), and here to compare with.

    Guarantee: as :func:`calibrate_moment`.  An estimated moment proves nothing, so the certificate
    is that of the centre form for this law; should it fail, the scale is raised until it passes.
    Theorem: X19, X14; I24-C10 and I24-C14 choose the scale.
    Assumes: the released training set is drawn apart from ``fresh``.
    Numerics: as in :func:`calibrate_moment`.
    Edge cases: a coordinate that does not move on the pilot gets a millionth of the widest scale.

    Examples:
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_izzo(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> round(found.noise_scale), found.certificate.value < 0.001
        (4647, True)
    """
    goal = promised_eta(eta, fresh.game)
    one_of("record", record, ("average", "every"))
    one_of("scaling", scaling, ("coordinate", "plain"))
    constant = izzo_constant(goal, moment)
    sample = _sample(
        statistic,
        fresh,
        eta=goal,
        confidence=confidence,
        subsets=subsets,
        exact=exact,
        workers=workers,
        progress=progress,
    )
    offsets = np.abs(sample.pilot - sample.pilot.mean(axis=0))
    if scaling == "coordinate":
        norm = ScaledNorm(_filled(_moments(offsets, moment)), moment)
    else:
        lengths = np.linalg.norm(offsets, axis=1)[:, None]
        sigma = float(_filled(_moments(lengths, moment))[0])
        norm = ScaledNorm(ScaledNorm.plain(statistic.dimension).scales * sigma)
    return _centred(
        sample,
        ScaleFamily(NormExponentialNoise(norm, 1.0)),
        replace(fresh.game, record=record),
        eta=goal,
        method="izzo",
        theorems=("X19", "X14"),
        floor=constant,
        details={"constant": constant, "moment": moment, "scaling": scaling},
    )


def _moments(offsets: FloatArray, moment: float) -> FloatArray:
    """Return (mean of offset^M)^{1/M} of every column, without overflow on the way."""
    top = np.where(offsets.max(axis=0) > 0, offsets.max(axis=0), 1.0)
    return np.asarray(top * ((offsets / top) ** moment).mean(axis=0) ** (1.0 / moment))


def _filled(scales: FloatArray) -> FloatArray:
    """Return the scales with a small one in the place of 0; all ones when nothing moved."""
    widest = float(scales.max())
    return np.maximum(scales, _STILL * widest) if widest > 0 else np.ones_like(scales)
