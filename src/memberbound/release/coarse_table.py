"""A coarsened table with a certificate that bounds the leak of every learner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memberbound._version import __version__
from memberbound.certificate import Certificate
from memberbound.files import TABLE_ENDINGS
from memberbound.games import IidGame, member_name
from memberbound.iid.certificates import certify_counts
from memberbound.iid.count_record import CountRecord
from memberbound.iid.leak_bounds import LeakBounds, certified_table
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import record_leaks
from memberbound.quantities import at_confidence, percent, vacuous
from memberbound.tables.frame_files import table_writer

if TYPE_CHECKING:
    from pandas import DataFrame

#: ``kind`` of its certificate.
COARSE_TABLE = "coarser table"


@dataclass(frozen=True, eq=False)
class CoarseTable:
    """The rows that ``harden`` releases, and the fields of their certificate.

    ``derivation`` holds the counts of the released rows only; those of the input are secret.
    """

    frame: DataFrame
    bounds: LeakBounds
    certificate: Certificate
    derivation: CountRecord
    validity: str
    unit: str | None

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return TABLE_ENDINGS

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate, except the file's name and hash."""
        return {
            "kind": COARSE_TABLE,
            "version": __version__,
            "unit": self.unit,
            "validity": self.validity,
            "certificate": self.certificate,
            "bounds": self.bounds,
            "statement": coarse_statement(self.bounds, self.validity, self.unit),
            "derivation": self.derivation,
        }

    def file_writer(self, path: Path) -> Callable[[Path], None]:
        """Return a function that writes the rows as a table file."""
        return table_writer(self.frame, path)


def certify_released(profile: CountProfile, confidence: float) -> LeakBounds:
    """Certify a table; ``delta_upper`` and ``record_leak`` each hold at this confidence."""
    certificate = certify_counts(profile, confidence=confidence)
    return certified_table(certificate, record_leaks(profile, confidence=confidence), IidGame())


def coarse_statement(bounds: LeakBounds, validity: str, unit: str | None) -> str:
    """Return the guarantee to pass on with the released rows, as a sentence."""
    rows, sure = bounds.rows, at_confidence(bounds.confidence)
    if vacuous(bounds.delta_upper, "delta"):
        return f"There is no useful guarantee for the {rows} released rows{sure}."
    who = "nobody"
    if validity == "split":
        who = "nobody who does not know which rows were picked for release"
    return (
        f"Whatever is trained on the {rows} released rows, {who} is right about the membership of "
        f"the average {member_name(unit)} more than {percent(bounds.accuracy_upper, 'upper')} of "
        f"the time{sure}."
    )
