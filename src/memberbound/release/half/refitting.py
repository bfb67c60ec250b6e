"""Calibrate noise for a statistic of a secret half.

Statistic → Calibration → Release: :func:`calibrate` runs a named method on fresh subsets; then
:func:`~memberbound.release.half.secret_draw.release_statistic` draws the secret, computes the
statistic once and adds the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from memberbound.answers import plain
from memberbound.certificate import Certificate
from memberbound.declarations import Progress
from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.learners.refits import Cluster
from memberbound.numerics.roots import least_scale
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.release.calibration import Calibration
from memberbound.release.half.calibration_record import CalibrationRecord
from memberbound.release.half.fitting import (
    Fits,
    FreshSubsets,
    Rows,
    Statistic,
    evaluate,
    fit_groups,
)
from memberbound.release.half.least_noise import (
    CertifiedScale,
    certify_in_order,
    certify_scale,
    check_eta,
    distance_target,
    eta_from_distance,
    least_draws,
    subset_assumptions,
    without_slack,
)
from memberbound.release.half.neighbours import (
    MixtureDistances,
    match_neighbours,
    neighbour_groups,
    scales_around,
)
from memberbound.release.half.prediction_table import FittedPredictions
from memberbound.release.half.public_coins import COINS_PUBLIC, COINS_SECRET
from memberbound.release.half.sums import SumStatistic, calibrate_sum
from memberbound.release.noise import (
    GaussianNoise,
    NoiseLaw,
    NormExponentialNoise,
    floating_point_slack,
    izzo_constant,
)
from memberbound.threads import no_warnings

METHODS = ("auto", "crowd", "neighbour", "moment", "izzo")
#: Maximum number of fits for every record with ``auto``, and on request.
_MOST_REFITS, _LARGEST_FITS = 5000, 100_000
#: Streams of fresh subsets: the pilot, the certificate, partners, and the noise in mixtures.
_PILOT, _CERTIFY, _PARTNERS, _NOISE = 1, 2, 5, 6


def resolve_method(
    method: str,
    game: SubsetGame,
    *,
    eta: float,
    confidence: float = 0.95,
    pairs: int | None = None,
    additive: bool = False,
) -> str:
    """Return the calibration method, with ``auto`` resolved.

    Sums over records (``additive``) use the crowd, which never needs more noise than the coupling.
    For the average record, refitted neighbours need the least noise: by the triangle inequality, E
    T(q(D) - q(D')) ≤ 2·E T(q(D) - m), the mean that the centre form ("moment") certifies.  For
    every record, neighbours take one fit per record and draw.  Beyond 5000 fits, or if ``pairs``
    limits them, ``auto`` chooses the centre form, with one fit per draw.

    Examples:
        >>> resolve_method("auto", SubsetGame(500, 250), eta=0.05)
        'moment'
        >>> resolve_method("auto", SubsetGame(500, 250, "average"), eta=0.05)
        'neighbour'
    """
    one_of("method", method, METHODS)
    if method == "crowd" and not additive:
        raise InputError(
            "method must be 'neighbour', 'moment' or 'izzo' for a statistic that is not a sum over "
            "records, got 'crowd'."
        )
    if method != "auto":
        return method
    if additive:
        return "crowd"
    if game.record == "average":
        return "neighbour"
    target = distance_target(game, check_eta(eta, game), 0.0)
    planned = _draws(None, game, target, confidence) * _fits_per_draw(game)
    return "neighbour" if pairs is None and planned <= _MOST_REFITS else "moment"


def calibrate(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    method: str = "auto",
    confidence: float = 0.95,
    pairs: int | None = None,
    partners: int | None = None,
    workers: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Find the least noise that a method certifies for the game's record.

    ``crowd`` and, for sums over records, ``neighbour`` are exact and sample nothing
    (:func:`~memberbound.release.half.sums.calibrate_sum`).  Otherwise:

    * ``neighbour``: fit ``pairs`` independent pairs of neighbouring subsets (at least 500); for
      every record, draws of max(k, N-k) + 1 subsets.  For the average record, compare a fit with
      the mixture of several ``partners`` at once, up to seven within 4000 fits, which needs less
      noise (X20); predictions, slow to fit, have one.
    * ``moment``: fit ``pairs`` subsets (at least 1000): a fifth chooses a centre, the rest certify
      the distance of the statistic from it.
    * ``izzo``: I24's norm-exponential noise with its own scale (6.16/η)² times the coordinates'
      standard deviations, with the corrected radius; the certificate is that of the centre form for
      this noise.  It adds far more noise than needed and exists for comparison only.

    Guarantee: with probability at least ``confidence`` over the fresh subsets, no attack gains more
    than ``eta`` on the game's record, even if it knows the learner's seeds, which are the same in
    every fit.
    Theorem: X1 and X4 (neighbour; proofs/coupling.md, proofs/retraining.md), X20
    (proofs/several-partners.md), X19 (moment, izzo; proofs/centre-form.md), X14, I24-C10 and
    I24-C14 (izzo), X21 (crowd).
    Assumes: the released training set is drawn independently of ``fresh``; unseeded randomness
    stays secret (stated in the certificate if repeated fits differ).
    Numerics: the target was verified at the returned scale; the slack of floating-point draws is
    subtracted from ``eta`` first.
    Edge cases: no noise if the statistic never (or provably hardly ever) changes; SearchError if
    there are too few draws for any noise; a failed fit counts as zeros; InputError if more than one
    in a hundred fails, or if neighbours of every record take more than 100 000 fits and ``pairs``
    was not given.

    Examples:
        >>> from memberbound.release.half.statistics import quantiles
        >>> ages = quantiles(np.arange(40.0), 0.5)
        >>> fresh = FreshSubsets(SubsetGame(40, 20, "average"))
        >>> noise = calibrate(ages, fresh, eta=0.2, pairs=100)
        >>> noise.method, noise.certificate.value <= 0.2
        ('neighbour', True)
    """
    game = fresh.game
    fraction("confidence", confidence, open_left=True, open_right=True)
    additive = isinstance(statistic, SumStatistic)
    name = resolve_method(
        method, game, eta=eta, confidence=confidence, pairs=pairs, additive=additive
    )
    if isinstance(statistic, SumStatistic) and name in ("crowd", "neighbour"):
        return calibrate_sum(statistic, game, eta=eta, crowd=name == "crowd")
    goal = check_eta(eta, game)
    work = _Work(statistic, fresh, goal, confidence, pairs, partners, workers, cluster, progress)
    return work.by_neighbours() if name == "neighbour" else work.by_centre(name)


def _fits_per_draw(game: SubsetGame) -> int:
    return 2 if game.record == "average" else max(game.size, game.population - game.size) + 1


def _draws(pairs: int | None, game: SubsetGame, target: float, confidence: float) -> int:
    if pairs is not None:
        return whole_number("pairs", pairs)
    average = game.record == "average"
    # Four times the smallest number that can certify anything; more would hardly reduce the noise.
    wanted = 4 * least_draws(target, confidence, 1 if average else game.population)
    return max(wanted, _PAIRS) if average else wanted


#: Number of pairs for the average record, with two fits each.
_PAIRS = 500
#: Default number of subsets in the centre form; a fifth of them form the pilot.
_SUBSETS = 1000
#: Scale of a coordinate that is constant on the pilot, relative to the widest one.
_STILL = 1e-6
#: Maximum partners of a fit, maximum fits in total, and pilot groups for the initial scale.
_MOST_PARTNERS, _PARTNER_FITS, _PILOT_GROUPS = 7, 4000, 12


_NO_NOISE = "No noise is needed: the bare statistic leaks at most eta"
_EXPOSED = " on average, but the records that move it are exposed."


@dataclass(frozen=True, eq=False)
class _Work:
    """The inputs of a calibrator that refits; see :func:`calibrate`."""

    statistic: Statistic
    fresh: FreshSubsets
    eta: float
    confidence: float
    pairs: int | None
    partners: int | None
    workers: int | None
    cluster: Cluster | None
    progress: Progress | None

    @property
    def unit(self) -> GaussianNoise:
        """Normal noise of scale 1."""
        return GaussianNoise(1.0, self.statistic.dimension)

    def fits(
        self,
        groups: Sequence[Sequence[Rows]],
        reduce: Callable[[FloatArray], FloatArray] | None = None,
    ) -> Fits:
        return fit_groups(
            self.statistic,
            groups,
            reduce,
            workers=self.workers,
            cluster=self.cluster,
            progress=self.progress,
        )

    def record(self, lengths: FloatArray, law: NoiseLaw, floor: float = 0.0) -> CalibrationRecord:
        """Return the draws that certify a noise law."""
        return CalibrationRecord.of_lengths(lengths, law, self.confidence, floor)

    def calibration(
        self,
        least: CertifiedScale,
        unit: NoiseLaw,
        fits: Fits,
        record: CalibrationRecord,
        details: dict[str, object],
        *,
        method: str,
        theorems: tuple[str, ...],
    ) -> Calibration:
        """Convert a certified scale into a calibration.

        For neighbours, the mean bounds the distance between the two worlds, and the attacker's gain
        is min(π, 1-π) times that; for a centre (X19) it bounds the gain itself.
        """
        game, noisy = self.fresh.game, least.scale > 0

        def gain(mean: float, slack: float) -> float:
            if method == "neighbour":
                return eta_from_distance(game, mean, slack)
            return min(up(mean + slack, 8), eta_from_distance(game, 1.0))

        certificate = Certificate(
            "eta",
            # The target was rounded down far enough that eta itself is a bound if it passed.
            min(gain(least.bound, floating_point_slack(unit) if noisy else 0.0), self.eta),
            "upper",
            game,
            (*theorems, "X4"),
            subset_assumptions(
                game,
                noisy=noisy,
                sampled=True,
                coins=COINS_SECRET if fits.own_coins else COINS_PUBLIC,
            ),
            self.confidence,
        )
        common: dict[str, object] = {
            "scale": least.scale,
            "eta_plug_in_estimate": gain(least.plug_in, 0.0),
            "fits_failed": fits.failed,
            "own_coins": fits.own_coins,
            "derivation": plain(record),
        }
        if not noisy:
            exposed = least.plug_in > 0 and game.record == "average"
            common["note"] = _NO_NOISE + (_EXPOSED if exposed else ".")
        law = replace(unit, scale=least.scale)
        return Calibration(law, certificate, self.eta, method, fits.count, common | details)

    # ── The neighbour form: the change of the statistic when one record is replaced ───────────────
    #
    # The mean distance between the releases on neighbouring training sets bounds the attacker's
    # advantage (X1), and a sample of refitted pairs bounds that mean for any learner (X4).

    def by_neighbours(self) -> Calibration:
        """Certify the change of the statistic when one record is replaced."""
        game = self.fresh.game
        target = distance_target(game, self.eta, floating_point_slack(self.unit))
        draws = _draws(self.pairs, game, target, self.confidence)
        planned = draws * _fits_per_draw(game)
        if self.pairs is None and planned > _LARGEST_FITS:
            raise InputError(
                f"record must be 'average' for a population of {game.population} by refitting, "
                f"got 'every': that takes {planned} fits. Use the moment form, or pass "
                f"pairs={draws}."
            )
        partners = self._partners(draws)
        scale = self._pilot_scale(partners, target) if partners > 1 else None
        details: dict[str, object] = {"pairs": draws}
        theorem = "X1"
        if scale is None:
            least, fits, record = self._by_pairs(draws, target)
        else:
            least, fits, record = self._by_mixtures(draws, target, partners, scale)
            theorem, details["partners"] = "X20", partners
        return self.calibration(
            least, self.unit, fits, record, details, method="neighbour", theorems=(theorem,)
        )

    def _by_pairs(
        self, draws: int, target: float
    ) -> tuple[CertifiedScale, Fits, CalibrationRecord]:
        """Certify by X1 and X4: one neighbour per record."""
        stream = self.fresh.spawn(_CERTIFY)
        indices = None
        if stream.game.record == "average":
            groups = neighbour_groups(stream, draws, 2)
        else:
            groups, indices = match_neighbours(stream, draws)
        fits = self.fits(groups, partial(_distances_from_first, self.unit))
        lengths = fits.rows[:, 0] if indices is None else np.take_along_axis(fits.rows, indices, 1)
        least = certify_scale(
            lambda scale: replace(self.unit, scale=scale).distance(lengths),
            start=_first_scale(lengths, target),
            target=target,
            confidence=self.confidence,
        )
        return least, fits, self.record(lengths, replace(self.unit, scale=least.scale))

    # ── Several partners: a fit against the mixture of its neighbours (X20) ───────────────────────
    #
    # X1 compares M(D₀ ∪ x) with M(D₀ ∪ x') for one outsider x'.  The attacker sees the mixture over
    # x', so several outsiders may be mixed before the distance is taken, which only lowers it
    # (proofs/several-partners.md).  In a group of training sets that pairwise differ in one record,
    # each record in turn is x, with the others as partners.

    def _partners(self, draws: int) -> int:
        """Return the number of neighbours that a fit is compared with at once."""
        game = self.fresh.game
        if game.record == "every":
            return 1
        outside = game.population - game.size
        if self.partners is not None:
            return min(whole_number("partners", self.partners), outside)
        if isinstance(self.statistic, FittedPredictions):
            return 1
        return min(_MOST_PARTNERS, outside, _PARTNER_FITS // draws - 1)

    def _pilot_scale(self, partners: int, target: float) -> float | None:
        """Estimate the sufficient scale from a pilot; None if almost nothing changes.

        The certificate holds for any choice made here (proofs/retraining.md, claim 6).
        """
        stream = self.fresh.spawn(_PARTNERS)
        with no_warnings:  # the sample will warn again
            outputs = np.array(
                [
                    [evaluate(self.statistic, rows)[0] for rows in group]
                    for group in neighbour_groups(stream, _PILOT_GROUPS, partners + 1)
                ]
            )
        distances = MixtureDistances.of(outputs, stream.spawn(_NOISE).seed)

        def excess(scale: float) -> float:
            return float(distances.average(scale).mean()) - target

        spread = float(np.abs(distances.points).max())
        if not spread > 0 or excess(spread * 1e-9) <= 0:
            return None
        return least_scale(excess, spread, floor=spread * 1e-9, relative=1e-2)

    def _by_mixtures(
        self, draws: int, target: float, partners: int, scale: float
    ) -> tuple[CertifiedScale, Fits, CalibrationRecord]:
        """Certify by X20 and X4: every fit of a group against the mixture of the others."""
        stream = self.fresh.spawn(_CERTIFY)
        fits = self.fits(neighbour_groups(stream, draws, partners + 1))
        distances = MixtureDistances.of(fits.rows, stream.spawn(_NOISE).seed).average
        last = certify_in_order(
            distances,
            scales_around(scale),
            target=target,
            confidence=self.confidence,
        )
        record = CalibrationRecord.of_distances(distances(last.scale))
        return last, replace(fits, count=fits.count + _PILOT_GROUPS * (partners + 1)), record

    # ── The centre form: the distance of the statistic from a fixed point ─────────────────────────
    #
    # Every record, any learner: the releases with and without a record are both compared with noise
    # around one centre, and together they are all releases (X19).  It needs no neighbours and no
    # bound on the statistic, but its noise covers the whole spread of q(D), not only the effect of
    # one record.  Any centre independent of the certifying sample is valid.

    def by_centre(self, method: str) -> Calibration:
        """Certify the distance of the statistic from a centre, for normal noise or for I24's."""
        total = max(_SUBSETS, 5 * least_draws(self.eta, self.confidence))
        if self.pairs is not None:
            total = whole_number("pairs", self.pairs, at_least=2)
        count = max(1, total // 5)
        subsets = self.fresh.spawn(_PILOT).subsets(count)
        subsets += self.fresh.spawn(_CERTIFY).subsets(total - count)
        fits = self.fits([[rows] for rows in subsets])
        pilot, certifying = fits.rows[:count, 0], fits.rows[count:, 0]
        unit: NoiseLaw = self.unit
        details: dict[str, object] = {"subsets": total}
        theorems: tuple[str, ...] = ("X19",)
        floor = 0.0
        if method == "izzo":
            theorems = ("X19", "X14")
            details["constant"] = izzo_constant(self.eta)
            unit = NormExponentialNoise(_deviations(pilot), 1.0)
            # Omit the noise only if nothing changed on the pilot, not on the certifying sample.
            floor = izzo_constant(self.eta) if (pilot != pilot[0]).any() else 0.0
        # X19 bounds the gain itself.
        target = down(without_slack(self.eta, floating_point_slack(unit)), 32)
        lengths = unit.length(certifying - np.median(pilot, axis=0))
        least = certify_scale(
            lambda scale: replace(unit, scale=scale).distance(lengths),
            start=max(floor, _first_scale(lengths, target)),
            target=target,
            confidence=self.confidence,
            floor=floor,
        )
        record = self.record(lengths, replace(unit, scale=least.scale), floor)
        return self.calibration(
            least, unit, fits, record, details, method=method, theorems=theorems
        )


def _deviations(outputs: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, with 0 replaced by a small number."""
    offsets = np.abs(outputs - outputs.mean(axis=0))
    top = np.where(offsets.max(axis=0) > 0, offsets.max(axis=0), 1.0)
    # Divide by the largest first, to avoid overflow.
    scales = np.asarray(top * np.sqrt(((offsets / top) ** 2).mean(axis=0)))
    widest = float(scales.max())
    return np.maximum(scales, _STILL * widest) if widest > 0 else np.ones_like(scales)


def _distances_from_first(unit: GaussianNoise, outputs: FloatArray) -> FloatArray:
    """Return the distances from the first output of a group to the others."""
    return unit.length(outputs[1:] - outputs[0])


def _first_scale(lengths: FloatArray, target: float) -> float:
    """Return an initial scale s, at which the mean of T ≈ length/(s·√(2π)) is the target."""
    scale = float(lengths.mean()) / (2.5 * target)
    return scale if scale > 0 and np.isfinite(scale) else 1.0


# ── The release: draw the secret, compute the statistic once, add noise, after the calibration ────
