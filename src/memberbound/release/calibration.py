"""Calibrated noise with its certificate, and vectors released with it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from memberbound._version import __version__
from memberbound.answers import plain
from memberbound.certificate import Certificate
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, sum_up
from memberbound.quantities import at_confidence, percent
from memberbound.release.noise import NoiseLaw
from memberbound.release.release_file import Writer, json_page, safetensors, tensor_writer
from memberbound.tables.frame_files import FRAME_ENDINGS, excel_safe_text, table_writer

if TYPE_CHECKING:
    from pandas import DataFrame

    from memberbound.release.budget import Budget
    from memberbound.release.precision import NumberInterval


#: Formats of a released vector, and the key of its numbers.
VECTOR_ENDINGS = (".json", ".safetensors", ".csv", ".xlsx")
_VALUES, _VALUE = "values", "value"

Record = Literal["average", "every"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated noise distribution, with its certificate.

    ``certificate`` bounds η (quantity ``"eta"``) for the records that the game protects; ``fits``
    is the number of times the statistic was computed.
    """

    noise: NoiseLaw
    certificate: Certificate
    eta: float
    method: str
    fits: int
    details: dict[str, object] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """Whether the certificate protects the average record or every record."""
        game = self.certificate.game
        return game.record if isinstance(game, SubsetGame) else "every"

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the noise vector."""
        return self.noise.rms

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        fields: dict[str, object] = plain(
            {
                "method": self.method,
                "record": self.record,
                "eta": self.eta,
                "noise": self.noise.describe(),
                "noise_scale": self.noise_scale,
                "fits": self.fits,
                "certificate": self.certificate,
            }
            | self.details
        )
        return fields

    def certificate_fields(self, kind: str, **more: object) -> dict[str, object]:
        """Return the fields of a release's certificate: its kind, this calibration, and more."""
        game = self.certificate.game
        sizes: dict[str, object] = {}
        if isinstance(game, SubsetGame):
            bound = self.certificate
            sizes = {
                "population": game.population,
                "size": game.size,
                "statement": half_statement(game, bound.value, bound.confidence),
            }
        return {"kind": kind, "version": __version__} | sizes | self.to_dict() | more


def half_statement(game: SubsetGame, eta: float, confidence: float) -> str:
    """Return the guarantee of a release of a secret half as a sentence."""
    whose = "any" if game.record == "every" else "the average"
    most = percent(min(1.0, sum_up(game.blind, eta)), "upper")
    return (
        f"Nobody who knows all {game.population} records, but not which {game.size} of them were "
        f"drawn, and sees this release, is right about {whose} record's membership more than "
        f"{most} of the time{at_confidence(confidence)} (guessing blindly: "
        f"{percent(game.blind, 'upper')})."
    )


@dataclass(frozen=True, eq=False)
class Release:
    """A released vector with its calibration; it holds nothing else about the secret rows.

    ``budget`` and ``rows`` are set for a release of all rows, in the neighbour game.
    """

    values: FloatArray
    calibration: Calibration
    names: tuple[str, ...] = ()
    secure: bool = True
    budget: Budget | None = None
    rows: int | None = None
    #: Intervals of the values, for a release of all rows.
    intervals: tuple[NumberInterval, ...] = ()
    #: The ranges to which numbers were clipped, public or learnt privately, by column.
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return VECTOR_ENDINGS

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate."""
        return self.calibration.certificate_fields(
            "vector",
            names=list(self.names),
            secure_source=self.secure,
            unit=None if self.budget is None else self.budget.unit,
            **self._evidence,
        )

    @property
    def _evidence(self) -> dict[str, object]:
        if self.budget is None or self.rows is None:
            return {}
        return self.budget.evidence(self.rows, self.calibration.certificate)

    def file_writer(self, path: Path) -> Writer:
        """Return a function that writes the numbers as JSON, safetensors, or a table."""
        values = np.ascontiguousarray(self.values, dtype=np.float64)
        if path.suffix.lower() in FRAME_ENDINGS:
            return table_writer(self._frame(), path)
        if path.suffix.lower() == ".json":
            page = {"names": list(self.names), _VALUES: values.tolist()}
            page |= {"intervals": plain(self.intervals)} if self.intervals else {}
            page |= {"ranges": plain(self.ranges)} if self.ranges else {}
            text = json_page(page)
            return lambda draft: draft.write_text(text, encoding="utf-8")
        return tensor_writer({_VALUES: values})

    def _frame(self) -> DataFrame:
        """Return a row per number: its name, its value and its intervals, if there are any."""
        import pandas as pd

        names = self.names or tuple(f"value {i}" for i in range(len(self.values)))
        safe = [excel_safe_text(name) for name in names]
        frame = pd.DataFrame({"name": safe, _VALUE: self.values})
        return frame.join(pd.DataFrame([vars(interval) for interval in self.intervals]))


@dataclass(frozen=True, eq=False)
class SavedRelease:
    """A loaded vector with the fields of its certificate."""

    values: FloatArray
    certificate: dict[str, object]


def load_vector(path: Path) -> FloatArray:
    """Read the numbers of a saved vector."""
    if path.suffix.lower() == ".json":
        return np.array(json.loads(path.read_text(encoding="utf-8"))[_VALUES], dtype=np.float64)
    if path.suffix.lower() == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return np.array([float(row[_VALUE]) for row in csv.DictReader(file)])
    if path.suffix.lower() == ".xlsx":
        import pandas as pd

        return np.array(pd.read_excel(path)[_VALUE], dtype=np.float64)
    return np.asarray(safetensors().load(path.read_bytes())[_VALUES])
