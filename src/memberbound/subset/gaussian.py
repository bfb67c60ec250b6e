"""Gaussian noise on a sum or mean over a random subset of a known population (L24).

Three sensitivities, three answers to "what does this σ mean?":

* ``epsilon``: any records in the clipped ball, :func:`.profile.worst_case_sensitivity`;
* ``epsilon_population``: neighbours inside this population, ``profile.diameter``;
* ``pmp_epsilon_upper``: a *random* subset of this population, :func:`gaussian_bounds`.

:func:`dp_from_noise` turns the first two into an ε; the third never exceeds the second.  A mean of
k records with noise σ is the sum with noise kσ, divided by k afterwards, and dividing hides nothing
(L24-L14).  So one profile of the records as they are serves both, and no record is rounded by a
division: :func:`.profile.noise_on_sum` says which σ to ask it about.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from memberbound.curve import GaussianCurve
from memberbound.dp.guarantees import guarantee_from_gaussian_mechanism
from memberbound.errors import (
    InputError,
    SearchError,
    finite_number,
    fraction,
    nonnegative,
    positive,
)
from memberbound.games import SubsetGame
from memberbound.numerics.roots import confirmed, last_true, least_scale
from memberbound.numerics.rounding import FloatArray, sum_slack, up, up_array
from memberbound.subset.crowd import ASSUMPTIONS, Crowd, CrowdTable
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.record_bounds import RecordBounds

if TYPE_CHECKING:
    from memberbound.subset.profile import NeighbourProfile

#: Sensitivity over σ at which two neighbours are told apart whatever ε and δ.
_LARGEST_SHIFT = 1e300
_NEVER_PURE = "Gaussian noise is not (ε, 0)-DP for any finite ε; 1e-5 is a common choice."
#: A search for the least σ stops here, as a share of the diameter: the data need hardly any noise.
_LEAST_SHARE = 2.0**-60
#: Exact mixtures cost seconds: with them σ is found to this much, in so many evaluations,
#: and not below this share of what the coupling asks for.
_EXACT_RELATIVE, _EXACT_EVALUATIONS, _EXACT_SHARE = 1e-3, 24, math.exp(-4.0)
#: The crowd alone costs less than a second, and may do with next to no noise.
_CROWD_RELATIVE, _CROWD_SHARE = 1e-4, 1e-4

THEOREMS = ("X1", "L24-P12", "L24-L10", "I24-P2")


def _small_delta(delta: float) -> float:
    return fraction("delta", delta, open_left=True, open_right=True, remedy=_NEVER_PURE)


# ---- (ε, δ)-DP and σ ------------------------------------------------------------------------


def dp_from_noise(sigma: float, delta: float, sensitivity: float) -> float:
    """Return the ε of N(0, σ²I) noise on a statistic of this ℓ₂-sensitivity.

    Guarantee: the mechanism is (ε, δ)-DP, replace-one if the sensitivity is.
    Theorem: L24-L10, which is exact.
    Numerics: the returned ε was evaluated again and satisfies the inequality.
    Edge cases: sensitivity 0 gives 0, whatever σ; a ratio that overflows gives ∞.

    Examples:
        >>> round(dp_from_noise(3.730632, 1e-5, 1.0), 4)
        1.0
    """
    dlt = _small_delta(delta)
    shift = nonnegative("sensitivity", sensitivity)
    if shift == 0.0:
        nonnegative("sigma", sigma)
        return 0.0
    scale = positive("sigma", sigma, "Without noise the release is exact.")
    if not shift / scale < _LARGEST_SHIFT:
        return math.inf
    return guarantee_from_gaussian_mechanism(scale, shift).curve.epsilon(dlt)


def noise_from_dp(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest σ for which N(0, σ²I) noise is (ε, δ)-DP at this ℓ₂-sensitivity.

    Guarantee: noise of this σ is (ε, δ)-DP.
    Theorem: L24-L10 (analytic Gaussian mechanism).
    Numerics: the returned σ was evaluated again; for ε ≤ 700 and δ ≤ ½ it is less than 1e-9 above
    the least one.
    Edge cases: sensitivity 0 needs no noise and gives 0; δ = 0 is refused.

    Examples:
        >>> round(noise_from_dp(1.0, 1e-5, 1.0), 6)
        3.730632
    """
    eps = nonnegative("epsilon", epsilon)
    dlt = _small_delta(delta)
    shift = nonnegative("sensitivity", sensitivity)
    if shift == 0.0:
        return 0.0
    mu = last_true(lambda m: GaussianCurve(m).delta(eps) <= dlt, 0.0, _LARGEST_SHIFT)
    sigma = shift / mu if mu > 0 else math.inf

    def enough(scale: float) -> bool:
        return guarantee_from_gaussian_mechanism(scale, shift).curve.delta(eps) <= dlt

    # Dividing, and the outward rounding of the quotient, cost a few units in the last place.
    safe = sigma * (1 + 1e-12)
    if not (0 < safe < math.inf and enough(safe)):
        raise SearchError(
            f"no σ in double precision gives ({eps!r}, {dlt!r})-DP at sensitivity {shift!r}."
        )
    return last_true(enough, safe, sigma * (1 - 1e-12))


# ---- the subset game ------------------------------------------------------------------------


def gaussian_bounds(
    profile: NeighbourProfile, game: SubsetGame, *, sigma: float, delta: float
) -> RecordBounds:
    """Bound what noise N(0, σ²I) on the sum over a random subset lets an attacker learn.

    ``sigma`` is in the unit of the profile: that of the vectors it was made from.  For a mean see
    :func:`.profile.noise_on_sum`.

    Guarantee: for every record x both hockey-sticks between P_in,x and P_out,x at e^ε are at most
    δ, ε = ``pmp_epsilon[x]``, and no attack on x is right more often than ``success[x]``.
    Theorem: X1 and L24-P12: replacing x by a uniform other record couples the two worlds, at any
    subset size; the divergences of a pair are L24-L10; accuracy from them is I24-P2.
    Assumes: see ``assumptions`` of the result; in particular one release only.
    Numerics: every number is rounded outwards; k/N, which need not be a double, is allowed for.
    Edge cases: equal records are told apart by their row; if all are equal, ε̃ and η are 0.

    Examples:
        >>> import numpy as np
        >>> from memberbound.subset.profile import NeighbourProfile
        >>> profile = NeighbourProfile.from_vectors(np.array([[0.0], [1.0], [2.0], [9.0]]))
        >>> bounds = gaussian_bounds(profile, SubsetGame(4, 2), sigma=4.0, delta=1e-2)
        >>> bounds.worst_record
        3
    """
    _same_population(profile, game)
    scale = positive("sigma", sigma, "Without noise this bound says nothing.")
    dlt = _small_delta(delta)
    return RecordBounds(
        game,
        dlt,
        profile.pmp_epsilon(dlt, scale),
        gaussian_success(profile, game, scale),
        "Gaussian noise, coupled neighbours",
        THEOREMS,
        ASSUMPTIONS,
    )


def _same_population(profile: NeighbourProfile, game: SubsetGame) -> None:
    if profile.records != game.population:
        raise InputError(
            f"the population of the game must be the {profile.records} records of the profile, "
            f"got {game.population!r}."
        )


def gaussian_success(profile: NeighbourProfile, game: SubsetGame, sigma: float) -> FloatArray:
    """Return the accuracy of any attack at the prior k/N, per record, from above (X1, I24-P2).

    Numerics: it moves by at most as much as the prior is rounded.
    """
    success = profile.accuracy(game.prior, sigma)
    # Rounding k/N moves it by 2^-54 at most; one half is exact.
    exact = 2 * game.size == game.population
    return success if exact else np.minimum(up_array(success, 1), 1.0)


def worst_success(
    profile: NeighbourProfile,
    game: SubsetGame,
    sigma: float,
    line: FloatArray | None = None,
    *,
    crowd: CrowdTable | None = None,
) -> float:
    """Return how often any attack on the record that the game names is right, from above.

    ``line`` holds the records' values where the sum is one number: then the exact mixtures (X9) and
    the coupling (X1) are both asked, and the smaller bound of every record counts.  ``crowd`` holds
    the records for X21, in any dimension, which is asked as well.  For searches: of exact mixtures
    only the worst record's are tight.
    """
    success = gaussian_success(profile, game, sigma)
    if line is not None:
        exact = mixture_bounds(line, game, sigma=sigma, delta=0.0, every=False)
        success = np.minimum(success, exact.success)
    if crowd is not None:
        success = np.minimum(success, Crowd(crowd, sigma).success)
    return _success_of_record(success, game)


def worst_pmp_epsilon(
    profile: NeighbourProfile,
    game: SubsetGame,
    sigma: float,
    delta: float,
    line: FloatArray | None = None,
    *,
    crowd: CrowdTable | None = None,
) -> float:
    """Return the largest ε̃ of any record, from above, for searches; the others as above."""
    if line is not None:
        exact = mixture_bounds(line, game, sigma=sigma, delta=delta, every=False)
        if math.isfinite(exact.pmp_epsilon_upper):
            return exact.pmp_epsilon_upper
    epsilon = profile.pmp_epsilon(delta, sigma)
    if crowd is not None:
        epsilon = np.minimum(epsilon, Crowd(crowd, sigma).pmp_epsilon(delta))
    return float(epsilon.max())


# ---- the least noise ------------------------------------------------------------------------
#
# Whoever asks for the least noise on a sum asks here: `population` for its inverse questions,
# `protect_half` for the statistics that are sums.  So the same question has the same answer.


def noise_for_pmp(
    profile: NeighbourProfile,
    target: float,
    delta: float,
    game: SubsetGame | None = None,
    line: FloatArray | None = None,
    *,
    crowd: CrowdTable | None = None,
) -> float:
    """Return the smallest σ at which every record has ε̃ ≤ ``target`` at this δ.

    ``game`` and ``line`` (the values of a sum that is one number) allow the exact mixtures, and
    ``crowd`` (the records themselves) X21.

    Guarantee: ``gaussian_bounds(profile, …, sigma=σ, delta=δ).pmp_epsilon_upper ≤ target``, or that
    of :func:`worst_pmp_epsilon` with a line.
    Theorem: L24-P12; the bound falls as σ grows, since every Gaussian divergence does.  X9.
    Numerics: evaluated again at the returned σ, which is less than 1e-6 above the least one, or
    as much as ``profile.pmp_epsilon`` is above the least ε (1e-3); with a line less than 1e-3.
    Edge cases: a population of equal records needs no noise and gives 0.  Where so many records
    are equal that next to no noise is enough, a σ far below the diameter is returned.

    The DP parameter of that noise is ``dp_from_noise(σ, δ, worst_case_sensitivity(…))``: release
    with σ itself, not with a σ computed back from that ε, which may differ in its last digits.
    """
    eps = nonnegative("target", target)
    dlt = _small_delta(delta)
    if profile.diameter == 0.0:
        return 0.0
    limit = math.log(dlt)

    def excess(sigma: float) -> float:
        # One hockey-stick at the target ε instead of a search for ε: the same inequality.
        worst = float(profile.delta(eps, sigma).max())
        return math.log(worst) - limit if worst > 0 else -math.inf

    sigma = _least_noise(excess, noise_from_dp(eps, dlt, profile.diameter), profile.diameter)
    sigma = confirmed(lambda s: float(profile.pmp_epsilon(dlt, s).max()), eps, sigma)
    if game is None or (line is None and crowd is None):
        return sigma

    def over(trial: float) -> float:
        return worst_pmp_epsilon(profile, game, trial, dlt, line, crowd=crowd) - eps

    return _reduced_noise(over, sigma, eps, exact=line is not None)


def noise_for_success(
    profile: NeighbourProfile,
    game: SubsetGame,
    target: float,
    line: FloatArray | None = None,
    *,
    crowd: CrowdTable | None = None,
) -> float:
    """Return the smallest σ at which no attack is right more often than ``target``.

    On any record, or on the average record if the game says so.  ``line`` holds the records'
    values where the sum is one number, and allows the exact mixtures; ``crowd`` allows X21.

    Guarantee: the mean (the largest) of ``gaussian_bounds(profile, game, sigma=σ, …).success``, or
    :func:`worst_success` with a line, is at most the target.
    Theorem: X1, I24-P2, X9, X21.
    Numerics: evaluated again at the returned σ, less than 1e-6 above the least one; with a line
    less than 1e-3, with a crowd alone 1e-4.  With a line not below e^-4 of the coupling's σ, where
    mixtures of whole numbers would take minutes.
    Edge cases: as :func:`noise_for_pmp`.  The target must exceed the blind guess
    max(k/N, 1 - k/N), which no noise can undercut.
    """
    _same_population(profile, game)
    limit = finite_number("target", target)
    common = max(game.size, game.population - game.size)
    blind = common / game.population
    if not blind < limit < 1:
        raise InputError(
            f"target must be greater than {blind!r} and less than 1, got {target!r}. "
            f"Always giving the likelier answer is right for {common} of {game.population} records."
        )
    if profile.diameter == 0.0:
        return 0.0
    # One pair at the diameter is worse than any record: its noise is enough.
    alone = last_true(
        lambda m: up(GaussianCurve(m).accuracy(game.prior)) <= limit, 0.0, _LARGEST_SHIFT
    )
    start = profile.diameter / alone if alone > 0 else math.inf
    if not start < math.inf:
        raise InputError(
            f"target must exceed the blind guess {blind!r} by more than rounding, got {target!r}."
        )

    def excess(sigma: float) -> float:
        return worst_success(profile, game, sigma) - limit

    sigma = confirmed(excess, 0.0, _least_noise(excess, start, profile.diameter))
    if line is None and crowd is None:
        return sigma

    def over(trial: float) -> float:
        return worst_success(profile, game, trial, line, crowd=crowd) - limit

    return _reduced_noise(over, sigma, limit - blind, exact=line is not None)


def _success_of_record(success: FloatArray, game: SubsetGame) -> float:
    """The largest of the bounds, or their mean where the average record is to be protected."""
    if game.record == "every":
        return float(success.max())
    return up(float(success.mean()) * (1 + 2 * sum_slack(success.size)))


def _least_noise(excess: Callable[[float], float], start: float, diameter: float) -> float:
    """One pair at the diameter, or a little more for a coarsely binned profile, is enough."""
    return least_scale(excess, start, floor=_LEAST_SHARE * diameter, ceiling=1e6 * start)


def _reduced_noise(
    excess: Callable[[float], float], sigma: float, far: float, *, exact: bool
) -> float:
    """Return a smaller σ than the coupling's if exact mixtures or the crowd allow one."""
    relative, share = (_EXACT_RELATIVE, _EXACT_SHARE) if exact else (_CROWD_RELATIVE, _CROWD_SHARE)

    def near(trial: float) -> float:
        over = excess(trial)
        # Far off, or out of the mixture's reach: only the sign counts.
        return over if over <= far else math.inf

    with suppress(SearchError):
        if excess(sigma * (1 - relative)) <= 0:
            return least_scale(
                near,
                sigma,
                floor=share * sigma,
                ceiling=sigma,
                relative=relative,
                evaluations=_EXACT_EVALUATIONS,
            )
    return sigma
