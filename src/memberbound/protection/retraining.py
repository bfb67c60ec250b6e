"""The neighbour form: how far does the statistic move when one record is replaced?

The mean distance between the releases on neighbouring training sets bounds the attacker's advantage
(X1), and a sample of refitted pairs bounds that mean for any learner (X4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, up
from memberbound.protection.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Record,
    Rows,
    Statistic,
    checked_eta,
)
from memberbound.protection.coins import COINS_AFRESH, COINS_PUBLIC, COINS_SECRET
from memberbound.protection.enumerated import NeighbourLengths, all_subsets, worth_enumerating
from memberbound.protection.fitting import Fits, fitted
from memberbound.protection.searching import (
    CertifiedScale,
    ScaleFamily,
    certified_scale,
    distance_target,
    eta_from_distance,
    least_draws,
)
from memberbound.protection.snapping import SAMPLER_ASSUMPTION
from memberbound.quantities import Certificate

__all__ = ["calibrate_neighbour", "calibration_from_scale", "subset_assumptions"]

#: Pairs for the average record: two fits each.
_PAIRS = 500
#: Fits beyond which refitting for every record is refused unless asked for.
_LARGEST_FITS = 100_000
#: The certifying stream; 1 is the pilot's.
_CERTIFY = 2


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
    details: dict[str, Any],
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
    known: dict[str, Any] = {
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
    shape: ArrayLike | None = None,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least Gaussian noise that the neighbour form certifies.

    ``pairs`` independent pairs (D, D') are refitted (default 500, two fits each); for
    ``record="every"`` a draw is a subset with one neighbour for every record, max(k, N-k) + 1 fits.
    ``shape`` is a matrix A for noise s·A·z, chosen without looking at these draws.  ``exact`` fits
    all subsets instead: by default when they are no more than the fits of the sample and the
    learner has no coins but public ones.

    Guarantee: with probability at least ``confidence`` over the draws (1 when exact) no attack
    gains more than ``eta`` on the average record, or on every record; nor does one that knows the
    learner's seeds, which are the same in every fit.
    Theorem: X1, X4 (proofs/coupling.md, proofs/retraining.md).
    Assumes: the released training set is drawn apart from ``fresh``; coins that cannot be seeded
    stay secret (the certificate says so where repeated fits differ).
    Numerics: the target was seen to hold at the returned scale; what floating-point draws add is
    taken off ``eta`` first.
    Edge cases: no noise when the statistic never (or provably hardly ever) moves; SearchError when
    there are too few pairs for any noise; a fit that fails counts as zeros; InputError when more
    than one in a hundred does, or when refitting for every record takes more than 100 000 fits and
    ``pairs`` was not given.

    Examples:
        >>> from memberbound.protection.calibration import FreshSubsets
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_neighbour(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> found.certificate.confidence, round(found.noise_scale, 2), found.fits
        (1.0, 1.46, 70)
    """
    goal, sure = checked_eta(eta), _checked_confidence(confidence)
    one_of("record", record, ("average", "every"))
    game = replace(fresh.game, record=record)
    family = ScaleFamily.gaussian(statistic.dimension, shape)
    target = distance_target(game, goal, family.slack())
    columns = 1 if record == "average" else game.population
    per_draw = 2 if record == "average" else max(game.size, game.population - game.size) + 1
    draws = _draws(pairs, record, target, sure, columns)
    details: dict[str, Any]
    theorems: tuple[str, ...]
    if worth_enumerating(statistic, game, draws * per_draw, exact):
        everything = all_subsets(game)
        fits = fitted(
            statistic,
            [[rows] for rows in everything],
            lambda outputs: outputs[0],
            seed="all subsets",
            workers=workers,
            progress=progress,
        )
        known = NeighbourLengths(fits.rows, game, family)
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
                f"got 'every': that takes {draws * per_draw} fits. Use the convex or the moment "
                f"form, or pass pairs={draws}."
            )
        stream = fresh.spawned(_CERTIFY)
        if record == "average":
            groups = [[d, e] for d, e, _, _ in stream.neighbours(draws)]
            places = None
        else:
            groups, places = matched_neighbours(stream, draws)
        fits = fitted(
            statistic,
            groups,
            lambda outputs: family.lengths(outputs[1:] - outputs[0]),
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
        level, theorems = sure, ("X1", "X4")
        details = {"pairs": draws}
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


def matched_neighbours(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], np.ndarray[Any, np.dtype[np.int64]]]:
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


def _draws(pairs: int | None, record: str, target: float, sure: float, columns: int) -> int:
    if pairs is not None:
        return whole_number("pairs", pairs)
    # Below the least number nothing is certified; at four times it little noise is wasted.
    wanted = 4 * least_draws(target, sure, columns)
    return max(wanted, _PAIRS) if record == "average" else wanted


def _guess(lengths: FloatArray, target: float) -> float:
    """Return a scale to start from: where T ≈ length/(s·√(2π)) has the target for its mean."""
    guess = float(lengths.mean()) / (2.5 * target)
    return guess if guess > 0 and np.isfinite(guess) else 1.0
