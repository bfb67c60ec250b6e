"""What may be published: a release's certificate, or what a study's settings alone promise.

A study is computed from rows that nobody has paid for: its scores, floors, ceilings of the table
and its choices are for the owner of the rows (:class:`~memberbound.report.model.Report`).  What is
published is another type, :class:`Publication`.  Whatever is rendered for everybody takes that type
and no other, and it has no field for anything computed from rows but their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from memberbound.errors import InputError
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.report import prose
from memberbound.report.model import (
    Confidence,
    Name,
    Protected,
    Report,
    Right,
    Rule,
    Share,
    ShareName,
    typed_as,
)

__all__ = ["Promise", "Publication", "ReleasedFile"]


@dataclass(frozen=True)
class Promise:
    """How often anybody is right about a record at most, in one game, by a certificate."""

    game: Literal["neighbour", "subset", "iid"]
    protects: Protected
    blind: Right
    accuracy_upper: Right
    confidence: Confidence
    theorems: tuple[str, ...] = ()
    #: Members found at most, by the share of false alarms, where the certificate has a curve.
    tpr_upper: Mapping[ShareName, Share] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReleasedFile:
    """The file that is released, as the certificate beside it describes it."""

    name: Name
    sha256: Annotated[str, Rule(pattern="^[0-9a-f]{64}$")]
    kind: Name
    method: Name
    noise: Mapping[str, float | str]
    #: The column whose values are persons, None where every row is one.
    unit: str | None
    #: Whether nobody knows the noise; a seed makes it known.
    secure: bool
    delta: Share | None
    epsilon_upper: float | None
    mu_upper: float | None
    mu_regret_upper: float | None


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What everybody may see, ``of_study`` or ``of_release``.

    ``name`` is that of the table or of the released file; what was not declared is None.
    """

    name: str
    version: str
    rows: int | None
    columns: int | None
    target: str | None
    learner: str | None
    eta: float
    promises: tuple[Promise, ...]
    assumptions: tuple[str, ...]
    file: ReleasedFile | None = None

    @property
    def released(self) -> bool:
        """Whether this is about a file, and not about the settings of a study."""
        return self.file is not None

    @property
    def counted(self) -> Literal["rows", "persons"]:
        """What ``rows`` is the number of; of persons the number of rows is not known."""
        return "rows" if self.file is None or self.file.unit is None else "persons"

    @property
    def game(self) -> str:
        """The game of the first promise."""
        return self.promises[0].game

    @property
    def played(self) -> NeighbourGame | SubsetGame:
        """The game of the first promise, with whom it protects."""
        if self.game == "neighbour":
            return NeighbourGame()
        rows = max(2, self.rows or 2)
        every = self.protects == "every record"
        return SubsetGame(rows, rows // 2, "every" if every else "average")

    @property
    def protects(self) -> str:
        """Whom the first promise protects."""
        return self.promises[0].protects

    @property
    def theorems(self) -> tuple[str, ...]:
        """What the promises rest on, where a certificate says so."""
        return tuple(dict.fromkeys(name for each in self.promises for name in each.theorems))

    @classmethod
    def of_study(cls, report: Report) -> Publication:
        """Return what a study's settings and the table's shape say, whatever its rows hold.

        Guarantee: two reports of the same question about tables with as many rows that have a
        target, a number that is taken for public, and the same columns give equal publications;
        the study's numbers, steps, verdict and choices are not looked at.
        """
        asked, data = report.question, report.data
        # Which columns look like identifiers depends on the rows; how many there are does not.
        columns = {*data.columns, *data.left_out} - {data.target}
        promises = []
        if asked.record == "every":
            whole = min(1.0, sum_up(0.5, asked.eta))
            promises.append(Promise("neighbour", "every record", 0.5, whole, 1.0))
        blind = report.subset_game.blind
        half = min(1.0, sum_up(blind, asked.eta))
        promises.append(Promise("subset", asked.protects, blind, half, asked.confidence))
        assumed = dict.fromkeys(
            text for promise in promises for text in prose.assumed_of_release(promise.game)
        )
        return cls(
            name=data.name,
            version=report.version,
            rows=data.rows,
            columns=len(columns),
            target=asked.target,
            learner=None if report.defaulted("learner") else asked.learner,
            eta=asked.eta,
            promises=tuple(promises),
            assumptions=tuple(assumed),
        )

    @classmethod
    def of_release(cls, certificate: Mapping[str, object]) -> Publication:
        """Return what the certificate beside a released file says about attacks.

        Edge cases: what is no certificate of a release is refused.
        """
        try:
            bound, curve = certificate["certificate"], certificate.get("curve", {})
            if not isinstance(bound, Mapping) or not isinstance(curve, Mapping):
                raise TypeError("its certificate must be an object")
            blind = 0.5
            if bound["game"] == "subset":
                sizes = [certificate[name] for name in ("population", "size")]
                blind = SubsetGame(*sizes).blind  # type: ignore[arg-type]  # checked there
            promise = {
                "game": bound["game"],
                "protects": bound["protects"],
                "blind": blind,
                "accuracy_upper": min(1.0, sum_up(blind, float(bound["upper"]))),
                "confidence": bound["confidence"],
                "theorems": bound["theorems"],
                "tpr_upper": curve.get("replace_one", {}).get("tpr_upper", {}),
            }
            file = {
                "name": certificate["file"],
                "sha256": certificate["sha256"],
                "kind": certificate["kind"],
                "method": certificate["method"],
                "noise": {
                    name: value
                    for name, value in certificate["noise"].items()  # type: ignore[attr-defined]
                    if isinstance(value, (str, float, int))
                },
                "unit": certificate.get("unit"),
                "secure": certificate["secure_source"],
                "delta": curve.get("delta"),
                "epsilon_upper": curve.get("replace_one", {}).get("epsilon_upper"),
                "mu_upper": curve.get("mu_upper"),
                "mu_regret_upper": curve.get("mu_regret_upper"),
            }
            fields = {
                "name": certificate["file"],
                "version": certificate["version"],
                "rows": certificate.get("rows_trained", certificate.get("size")),
                "columns": None,
                "target": None,
                "learner": certificate.get("learner", certificate.get("estimator")),
                "eta": certificate["eta"],
                "promises": [promise],
                "assumptions": bound["assumptions"],
                "file": file,
            }
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"certificate must be one that protect wrote, got another: {problem}."
            ) from None
        return typed_as(cls, fields, "certificate")
