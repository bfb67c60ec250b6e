"""The answer of the verbs that release something: a noisy model or numbers, and a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memberbound.games import GUESSES_STAND_ALONE, SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import (
    CERTIFICATE,
    Readable,
    Sides,
    at_confidence,
    common_fields,
    decimals,
    marked,
    percent,
    significant,
)
from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.budget import CURVE_SIDES, READ_DELTA, READ_FPR, Budget
from memberbound.release.calibration import Calibration, Release
from memberbound.release.scores import Score

if TYPE_CHECKING:
    from memberbound.release.half.half_estimator import TableModel

__all__ = ["Protection", "unit_and_seed_notes"]


@dataclass(frozen=True, eq=False, repr=False)
class Protection(Readable):
    """A protected release: the noisy model or statistic, and the certificate that it is enough.

    In the neighbour game ``scores`` and ``warnings`` are computed from the secret rows and paid for
    by no budget: they are for the owner of the rows (``owner_fields``).  Everything else may be
    published (``published_fields``).
    """

    SIDES: ClassVar[Sides] = {
        "budget": "given",
        "certificate": CERTIFICATE,
        "configuration": "given",
        "curve": CURVE_SIDES,
        "eta": "given",
        "guess_upper": "upper",
        "mu": "given",
        "noise": "given",
        "noise_scale": "given",
        "score_baseline": "estimate",
        "score_clean": "estimate",
        "score_released": "estimate",
        "scores": "estimate",
        "values": "given",
    }

    command: str
    calibration: Calibration
    released: TableModel | PrivateModel | Release
    what: str
    scores: tuple[Score, ...] = ()
    out: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    #: Chances of guessing something about a record without the release.
    baseline: tuple[float, ...] = ()

    @property
    def eta(self) -> float:
        """The η that was asked for."""
        return self.calibration.eta

    @property
    def score(self) -> str | None:
        """The name of the first score: accuracy, or R²."""
        return self.scores[0].name if self.scores else None

    @property
    def score_clean(self) -> float | None:
        """That score without noise."""
        return self.scores[0].clean_estimate if self.scores else None

    @property
    def score_released(self) -> float | None:
        """That score with it."""
        return self.scores[0].released_estimate if self.scores else None

    @property
    def score_baseline(self) -> float | None:
        """That score of a constant."""
        return self.scores[0].constant_estimate if self.scores else None

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the added noise vector."""
        return self.calibration.noise_scale

    @property
    def budget(self) -> Budget | None:
        """What was spent on all rows, in the neighbour game."""
        return getattr(self.released, "budget", None)

    @property
    def blind(self) -> float:
        """How often somebody is right who always gives the likelier answer."""
        game = self.calibration.certificate.game
        return game.blind if isinstance(game, SubsetGame) else 0.5

    @property
    def success_upper(self) -> float:
        """How often anybody is right at most, rounded up."""
        read = 1.0 if self.budget is None else self.budget.curve().accuracy()
        return min(read, sum_up(self.blind, self.calibration.certificate.value))

    @property
    def rows_trained(self) -> int | None:
        """Number of rows that the release was made from."""
        game = self.calibration.certificate.game
        return game.size if isinstance(game, SubsetGame) else getattr(self.released, "rows", None)

    @property
    def mu(self) -> float | None:
        """The shift of the normal pair that the release stays below, in the neighbour game."""
        return None if self.budget is None else self.budget.normal_mu

    @property
    def guess_upper(self) -> dict[str, float]:
        """Best chance of guessing something about a record, by the chance before the release."""
        if self.budget is None:
            return {}
        curve = self.budget.curve()
        return {repr(before): curve.tpr(before) for before in self.baseline}

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract; ``owner_only`` names what is not to be published.

        In the subset game the population is public, and so is everything computed from it.
        """
        owner = self.owner_fields()
        private = [] if self.budget is None else sorted(owner)
        return self.published_fields() | owner | {"owner_only": private}

    def owner_fields(self) -> dict[str, object]:
        """Return what was computed from the rows beside the release."""
        return {
            "score": self.score,
            "score_clean": self.score_clean,
            "score_released": self.score_released,
            "score_baseline": self.score_baseline,
            "scores": {score.name: score.to_dict() for score in self.scores},
            "warnings": list(self.warnings),
        }

    def published_fields(self) -> dict[str, object]:
        """Return what was declared, is public, or was paid for."""
        certificate = self.calibration.certificate
        result = common_fields(
            self.command,
            certificate.game,
            (*certificate.theorems, "X23") if self.baseline else certificate.theorems,
            (*certificate.assumptions, GUESSES_STAND_ALONE)
            if self.baseline
            else certificate.assumptions,
        )
        return (
            result
            | {
                "sentence": self.sentence,
                "what": self.what,
                "eta": self.eta,
                "mu": self.mu,
                "rows_trained": self.rows_trained,
                "record": self.calibration.record,
                "method": self.calibration.method,
                "noise_scale": self.noise_scale,
                "noise": _plain_law(self.calibration),
                "certificate": certificate.to_dict(),
                "fits": self.calibration.fits,
                "out": self.out,
                "roles": dict(self.roles),
            }
            | dict(self.details)
            | (
                {}
                if self.budget is None
                else {"curve": self.budget.described(), "budget": self.budget.shares()}
            )
            | ({"guess_upper": self.guess_upper} if self.baseline else {})
        )

    @property
    def sentence(self) -> str:
        """A sentence to pass on with the release: who is held to what, and knowing what."""
        bound = self.calibration.certificate
        whom = "any record's" if self.calibration.record == "every" else "the average record's"
        game, odds = bound.game, ""
        knows, made = "every other record", ""
        if self.budget is not None:
            given = ", the columns' names and the bounds given"
            public = given if self.details.get("bounds") else " and the columns' names"
            verb = "computed from" if isinstance(self.released, Release) else "trained on"
            rows, number = f"all {self.rows_trained} rows", "its number of rows"
            if (unit := self.budget.unit) is not None:
                rows = f"the first rows of all {self.rows_trained} values of {unit!r}"
                number = "the number of these values"
            made = f" It was {verb} {rows}; no part of the table is public except {number}{public}."
        if isinstance(game, SubsetGame):
            knows = f"all {game.population} records but not which {game.size} of them were drawn"
            if 2 * game.size != game.population:
                outside = game.population - game.size
                odds = f" ({max(game.size, outside)} of {game.population})"
        return (
            f"Nobody who knows {knows}, and sees the released {self.what}, is right about {whom} "
            f"membership more than {percent(self.success_upper, 'upper')} of the "
            f"time{at_confidence(bound.confidence)}: guessing blindly is right "
            f"{percent(self.blind, 'upper')} of the time{odds}, and the release adds at most "
            f"{percent(bound.value, 'upper').removesuffix(' %')} points."
            f"{made}"
        )

    def _read_off(self) -> list[tuple[str, object]]:
        """Return what the curve of all rows says about a record that is replaced."""
        budget = self.budget
        if budget is None:
            return []
        curve = budget.curve()
        found: list[tuple[str, object]] = [
            ("TPR - FPR", f"{marked(curve.advantage, 'certificate')} (record replaced)")
        ]
        for rate in READ_FPR:
            at = f"TPR at FPR {percent(rate, 'given')}"
            found.append((at, f"{marked(curve.tpr(rate), 'certificate')} (record replaced)"))
        epsilon, proved = curve.epsilon(READ_DELTA), "nothing is proved"
        if epsilon < np.inf:
            proved = f"≤ {significant(epsilon, 'upper', 4)}"
        at = f"ε at δ = {significant(READ_DELTA, 'given')}"
        found.append((at, f"{proved} (record replaced)"))
        found.append(("MIS", marked(curve.security(), "certificate", "security", 4)))
        spent = [f"{name} {percent(x, 'estimate')}" for name, x in budget.shares().items()]
        if len(spent) > 1:
            found.append(("budget (μ²) went to", ", ".join(spent)))
        for before, after in self.guess_upper.items():
            at = f"a guess right {percent(float(before), 'given')} of the time before"
            found.append((at, marked(after, "certificate")))
        return found

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rows: list[tuple[str, object]] = [
            ("released", self.what),
            ("protects", f"{self.calibration.record} record"),
            (
                "η certified",
                marked(
                    self.calibration.certificate.value,
                    "certificate",
                    "eta",
                    6,
                    largest_gain=1 - self.blind,
                ),
            ),
            ("method", self.calibration.method),
            ("noise, rms length", significant(self.noise_scale, "upper")),
        ]
        rows += self._read_off() or [("fits for calibration", f"{self.calibration.fits}")]
        private = "" if self.budget is None else " (owner only)"
        for score in self.scores:
            rows += [
                (f"{score.name} {what}", f"≈ {decimals(value, 'estimate', 4)}{private}")
                for what, value in (
                    ("without noise", score.clean_estimate),
                    ("released", score.released_estimate),
                    ("of a constant", score.constant_estimate),
                )
                if value is not None
            ]
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
        notes = "".join(f"\nnote{private}: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}{notes}"


def _plain_law(calibration: Calibration) -> dict[str, object]:
    """The noise law without its matrices: they are in the saved certificate."""
    return {
        name: value
        for name, value in calibration.noise.describe().items()
        if not isinstance(value, (list, tuple, np.ndarray))
    }


def unit_and_seed_notes(unit: str | None, seed: int | None) -> tuple[str, ...]:
    """Say what a record of all rows is, and that noise from a seed protects nobody."""
    person = f"one record is one value of {unit!r}, by its first row"
    seeded = "noise comes from a seed: whoever knows it knows the members"
    return (person,) * (unit is not None) + (seeded,) * (seed is not None)
