"""Calibration records of the papers' game, and the bounds that anyone can recompute from them.

A calibration by refitting uses independent draws of subsets.  For the record with the largest
bound, it stores the change of the statistic in every draw; the draws are fresh, so they reveal
nothing about the secret half.  A calibration of a sum uses all distances between records, so only a
holder of the table can recompute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from memberbound.answers import Given, OmitEmpty
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.means import betting_upper, log_error_shared
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.quantities import significant
from memberbound.release.half.least_noise import (
    distance_target,
    eta_from_distance,
    mean_bounds,
    without_slack,
)
from memberbound.release.noise import (
    GaussianNoise,
    NoiseLaw,
    NormExponentialNoise,
    floating_point_slack,
    izzo_constant,
)

CALIBRATION_FORMAT = "memberbound-calibration/1"


@dataclass(frozen=True, kw_only=True)
class CalibrationRecord:
    """The draws of a calibration by refitting.

    ``lengths`` are the changes of the statistic in the norm of the noise.  If mixtures were
    compared, ``distances`` holds total variations at the certified scale instead.  ``statements``
    is the number of records bounded simultaneously, which share the error level; ``floor`` is the
    smallest scale that could have been returned.
    """

    format: str = CALIBRATION_FORMAT
    statements: int
    floor: Given
    lengths: OmitEmpty[tuple[Given, ...]] = ()
    distances: OmitEmpty[tuple[Given, ...]] = ()

    @classmethod
    def of_lengths(
        cls, lengths: FloatArray, law: NoiseLaw, confidence: float, floor: float = 0.0
    ) -> CalibrationRecord:
        """Return the record of ``lengths``: one row per draw, with a column per record if any."""
        table = lengths if lengths.ndim == 2 else lengths[:, None]
        worst = int(np.argmax(mean_bounds(law.distance(table), confidence)))
        draws = tuple(table[:, worst].tolist())
        return cls(statements=table.shape[1], floor=floor, lengths=draws)

    @classmethod
    def of_distances(cls, distances: FloatArray) -> CalibrationRecord:
        """Return the record of distances between mixtures, one per draw."""
        return cls(statements=1, floor=0.0, distances=tuple(distances.ravel().tolist()))


def recomputed_gain(certificate: Mapping[str, Any]) -> tuple[float, str]:
    """Return the smallest η that a certificate's draws support, and the comparison in words.

    Theorem: proofs/retraining.md, claims 3 and 4; X19 for the centre form.
    Edge cases: InputError if the draws do not certify the noise scale.
    """
    stored, noise = certificate["derivation"], certificate["noise"]
    game = SubsetGame(certificate["population"], certificate["size"], certificate["record"])
    eta, method, scale = certificate["eta"], certificate["method"], certificate["scale"]
    confidence, dimension = certificate["certificate"]["confidence"], noise["dimension"]
    unit = _unit(method, dimension)
    slack = floating_point_slack(unit)
    paired = method == "neighbour"
    target = distance_target(game, eta, slack) if paired else down(without_slack(eta, slack), 32)
    floors = (0.0, izzo_constant(eta)) if method == "izzo" else (0.0,)
    floor = stored["floor"]
    if (
        floor not in floors
        or scale < floor
        or noise["scale" if scale else "dimension"] != (scale or dimension)
    ):
        raise InputError("the noise scale differs from the certified one.")
    distances = draws = _recorded_draws(certificate, paired)
    if "lengths" in stored:
        law = type(unit)(**{**vars(unit), "scale": scale})
        distances = law.distance(draws)
    level = log_error_shared(confidence, stored["statements"])
    if stored["statements"] != (game.population if paired and game.record == "every" else 1):
        raise InputError("the number of records bounded at once differs.")
    bound = float(betting_upper(distances[:, None], level)[0])
    shown = f"{significant(bound, 'upper')}, and {significant(target, 'lower')} is needed"
    if bound > target * (1 + 1e-9):
        raise InputError(f"the draws certify a mean of {shown}.")
    # A scale chosen from the draws certifies the target only (claim 3).
    mean = bound if scale == floor else max(bound, target)
    added = slack if scale else 0.0
    if paired:
        gain = eta_from_distance(game, mean, added)
    else:
        gain = min(up(mean + added, 8), eta_from_distance(game, 1.0))
    return min(gain, eta), f"{distances.size} draws certify a mean of {shown}"


def _recorded_draws(certificate: Mapping[str, Any], paired: bool) -> FloatArray:
    """Return the recorded draws; InputError unless all are there, and none is negative."""
    stored = certificate["derivation"]
    draws = stored["distances" if paired and "partners" in certificate else "lengths"]
    # The centre form takes a fifth of the subsets for the centre.
    planned = certificate["pairs" if paired else "subsets"]
    planned -= 0 if paired else max(1, planned // 5)
    known = len({"lengths", "distances"} & set(stored)) == 1
    if not known or len(draws) != planned:
        raise InputError(f"the record has another number of draws than {planned}.")
    if not all(type(draw) in (int, float) and draw >= 0 for draw in draws):
        raise InputError("a draw is negative, or no number.")
    return np.array(draws, dtype=np.float64)


def _unit(method: str, dimension: int) -> GaussianNoise | NormExponentialNoise:
    """Return the noise distribution of a method, at scale 1."""
    if method == "izzo":
        return NormExponentialNoise(np.ones(dimension), 1.0)
    return GaussianNoise(1.0, dimension)
