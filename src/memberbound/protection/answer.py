"""The answer of ``protect``: a release and the certificate that its noise is enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memberbound.games import SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.protection.budget import CURVE_SIDES, READ_DELTA, READ_FPR
from memberbound.protection.calibration import Calibration
from memberbound.protection.neighbour import PrivateLinear
from memberbound.protection.releasing import Release
from memberbound.protection.table_model import TableModel
from memberbound.quantities import (
    CERTIFICATE,
    Sides,
    at_confidence,
    common_fields,
    decimals,
    marked,
    percent,
    significant,
)

__all__ = ["Protection", "fit_notes", "useless"]


@dataclass(frozen=True, eq=False)
class Protection:
    """A protected release: the noisy model or statistic, and the certificate that it is enough."""

    SIDES: ClassVar[Sides] = {
        "certificate": CERTIFICATE,
        "configuration": "given",
        "curve": CURVE_SIDES,
        "eta": "given",
        "mu": "given",
        "noise": "given",
        "noise_scale": "given",
        "score_baseline": "estimate",
        "score_clean": "estimate",
        "score_released": "estimate",
        "values": "given",
    }

    calibration: Calibration
    released: TableModel | PrivateLinear | Release
    what: str
    score: str | None
    score_clean: float | None
    score_released: float | None
    out: str | None = None
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    score_baseline: float | None = None

    @property
    def eta(self) -> float:
        """The η that was asked for."""
        return self.calibration.eta

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the added noise vector."""
        return self.calibration.noise_scale

    @property
    def _linear(self) -> PrivateLinear | None:
        return self.released if isinstance(self.released, PrivateLinear) else None

    @property
    def rows_trained(self) -> int | None:
        """Number of rows that the release was made from."""
        game = self.calibration.certificate.game
        if self._linear is not None:
            return self._linear.rows
        return game.size if isinstance(game, SubsetGame) else None

    @property
    def mu(self) -> float | None:
        """The shift of the normal pair that the release stays below, in the neighbour game."""
        return None if self._linear is None else self._linear.budget.mu

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        certificate = self.calibration.certificate
        result = common_fields(
            "protect", certificate.game, certificate.theorems, certificate.assumptions
        )
        return (
            result
            | {
                "what": self.what,
                "eta": self.eta,
                "mu": self.mu,
                "rows_trained": self.rows_trained,
                "record": self.calibration.record,
                "method": self.calibration.method,
                "noise_scale": self.noise_scale,
                "noise": _plain_law(self.calibration),
                "score": self.score,
                "score_clean": self.score_clean,
                "score_released": self.score_released,
                "score_baseline": self.score_baseline,
                "certificate": certificate.to_dict(),
                "fits": self.calibration.fits,
                "out": self.out,
                "warnings": list(self.warnings),
                "roles": dict(self.roles),
            }
            | self.details
            | ({} if self._linear is None else {"curve": self._linear.budget.described()})
        )

    @property
    def sentence(self) -> str:
        """A sentence to pass on with the release: who is held to what, and knowing what."""
        bound = self.calibration.certificate
        whom = "any record's" if self.calibration.record == "every" else "the average record's"
        game, blind, odds = bound.game, 0.5, ""
        knows, made = "every other record", ""
        if self._linear is not None:
            given = ", the columns' names and the bounds given"
            public = given if self.details.get("bounds") else " and the columns' names"
            made = (
                f" It was trained on all {self._linear.rows} rows; no part of the table is public "
                f"except its number of rows{public}."
            )
        if isinstance(game, SubsetGame):
            knows = f"all {game.population} records but not which {game.size} of them were drawn"
            blind = max(game.prior, 1 - game.prior)
            if 2 * game.size != game.population:
                outside = game.population - game.size
                odds = f" ({max(game.size, outside)} of {game.population})"
        return (
            f"Nobody who knows {knows}, and sees the released {self.what}, is right about {whom} "
            f"membership more than {percent(min(1.0, sum_up(blind, bound.value)), 'upper')} of the "
            f"time{at_confidence(bound.confidence)}: guessing blindly is right "
            f"{percent(blind, 'upper')} of the time{odds}, and the release adds at most "
            f"{percent(bound.value, 'upper').removesuffix(' %')} points."
            f"{made}"
        )

    def _read_off(self) -> list[tuple[str, object]]:
        """Return what the curve of all rows says, replaced beside added or removed."""
        if self._linear is None:
            return []
        budget = self._linear.budget
        both = (budget.curve(), budget.curve("add-remove"))

        def side_by_side(*texts: str) -> str:
            replaced, added = texts
            return f"≤ {replaced} (record replaced), ≤ {added} (added or removed)"

        found: list[tuple[str, object]] = [
            ("TPR - FPR", side_by_side(*(percent(curve.advantage, "upper") for curve in both)))
        ]
        for rate in READ_FPR:
            at = f"TPR at FPR {percent(rate, 'given')}"
            found.append((at, side_by_side(*(percent(curve.tpr(rate), "upper") for curve in both))))
        at = f"ε at δ = {significant(READ_DELTA, 'given')}"
        epsilons = (significant(curve.epsilon(READ_DELTA), "upper", 4) for curve in both)
        found.append((at, side_by_side(*epsilons)))
        found.append(("MIS", marked(both[0].security(), "certificate", "security", 4)))
        return found

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rows: list[tuple[str, object]] = [
            ("released", self.what),
            ("protects", f"{self.calibration.record} record"),
            ("η certified", marked(self.calibration.certificate.value, "certificate", "eta", 6)),
            ("method", self.calibration.method),
            ("noise, rms length", significant(self.noise_scale, "upper")),
        ]
        rows += self._read_off() or [("fits for calibration", f"{self.calibration.fits}")]
        for what, score in (
            ("without noise", self.score_clean),
            ("released", self.score_released),
            ("of a constant", self.score_baseline),
        ):
            if score is not None:
                rows.append((f"{self.score} {what}", f"≈ {decimals(score, 'estimate', 4)}"))
        if isinstance(self.released, Release):
            names = self.released.names or tuple(
                f"value {i}" for i in range(self.released.values.size)
            )
            shown = list(zip(names, self.released.values.tolist(), strict=True))
            rows += [(name, significant(value, "given")) for name, value in shown[:20]]
            if len(shown) > 20:
                rows.append(("…", f"{len(shown) - 20} more"))
        if self.out is not None:
            rows.append(("written", self.out))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}{notes}"


def useless(released: float | None, constant: float | None) -> list[str]:
    """Say so where a release does no better than always giving the same answer."""
    if released is None or constant is None or released > constant:
        return []
    return [
        "this release is useless: always giving the same answer scores as well. Allow a larger "
        "eta, or find more rows"
    ]


def fit_notes(calibration: Calibration) -> tuple[str, ...]:
    """Return what whoever releases has to know about the fits."""
    known, said = calibration.details, []
    if known.get("own_coins"):
        said.append(
            "the learner draws random numbers that cannot be seeded; see the assumptions, and "
            "prefer one with a random_state"
        )
    if failed := known.get("fits_failed"):
        said.append(
            f"{failed} of {calibration.fits} fits failed on fresh subsets; where a fit fails, "
            "zeros are released with the same noise"
        )
    return tuple(said)


def _plain_law(calibration: Calibration) -> dict[str, Any]:
    """The noise law without its matrices: they are in the saved certificate."""
    return {
        name: value
        for name, value in calibration.noise.describe().items()
        if not isinstance(value, (list, tuple, np.ndarray))
    }
