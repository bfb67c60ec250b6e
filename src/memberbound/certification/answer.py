"""The answer of ``certify``: how much any learner can leak about the rows of a table or a law."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from memberbound.discrete.certificates import CountCertificate
from memberbound.discrete.records import RecordLeaks
from memberbound.games import IidGame
from memberbound.numerics.rounding import down, up
from memberbound.quantities import (
    Certificate,
    Sides,
    at_confidence,
    common_fields,
    json_number,
    marked,
    percent,
    significant,
)

__all__ = [
    "CERTIFIED",
    "Certification",
    "accuracy_from_leak",
    "certified_fields",
    "independent_units",
    "of_unit",
    "rows_in_words",
    "security_from_leak",
    "whose_rows",
]

#: Sides of what :func:`certified_fields` returns.
CERTIFIED: Sides = {
    "accuracy_upper": "upper",
    "c_k_plug_in_estimate": "estimate",
    "confidence": "lower",
    "delta_plug_in_estimate": "estimate",
    "delta_upper": "upper",
    "record_leak": {"exposed_above": "given", "max": "upper", "median": "upper", "p99": "upper"},
    "security_lower": "lower",
}


def of_unit(unit: str) -> str:
    """Return what a record is when it is all rows of one person."""
    return f"value of “{unit}”"


def independent_units(unit: str, when: str = "") -> str:
    """Return what is assumed in place of independent rows."""
    return (
        f"One record is one value of “{unit}” with all its rows; these records are independent "
        f"draws from one law{when}."
    )


def rows_in_words(count: int, unit: str | None, kind: str = "") -> str:
    """Return how many records, and what a record is.

    >>> rows_in_words(17, None, "training "), rows_in_words(17, "patient", "training ")
    ('17 training rows', '17 different values of “patient” (each with all its rows)')
    """
    if unit is None:
        return f"{count} {kind}rows"
    return f"{count} different values of “{unit}” (each with all its rows)"


def security_from_leak(leak: float) -> float:
    """Return MIS = 1 - Δ from below (A25-T6)."""
    return 1.0 if leak == 0.0 else max(0.0, down(1.0 - leak))


def accuracy_from_leak(leak: float, game: IidGame) -> float:
    """Return the best (weighted) accuracy max(ν, λ(1-ν)) + min(1, 1/γ)·ν·Δ from above (A25-T6)."""
    missed, alarm = game.lam * (1 - game.nu), game.nu
    base, gain = max(alarm, missed), min(alarm, missed) * leak
    # Being right every time is the most there is.
    return base if gain == 0.0 else min(up(base + gain, 8), alarm + missed)


def whose_rows(unit: str | None) -> str:
    """Return the assumption about persons and rows.

    >>> whose_rows("patient")
    "One record is all rows that share one value of 'patient'."
    """
    if unit is not None:
        return f"One record is all rows that share one value of {unit!r}."
    return (
        "One person is one row; where somebody may have several, name the column that says whose "
        "they are (unit)."
    )


def certified_fields(
    certificate: CountCertificate,
    leaks: RecordLeaks,
    game: IidGame,
    exposed_above: float = 0.5,
) -> dict[str, object]:
    """Return the keys that ``certify`` and ``harden`` share."""
    return {
        "rows": certificate.rows,
        "n": certificate.n,
        "atoms": certificate.atoms,
        "delta_upper": certificate.delta_upper,
        "security_lower": security_from_leak(certificate.delta_upper),
        "accuracy_upper": accuracy_from_leak(certificate.delta_upper, game),
        "delta_plug_in_estimate": json_number(certificate.delta_plug_in_estimate),
        "c_k_plug_in_estimate": json_number(certificate.c_k_plug_in_estimate),
        "confidence": certificate.confidence,
        "method": certificate.method,
        "record_leak": leaks.to_dict(exposed_above),
    }


@dataclass(frozen=True, eq=False)
class Certification:
    """A certificate for a table or a law; ``fields`` are the keys of the contract.

    With a ``unit`` every number of rows, trained on or exposed, is one of different values of that
    column, each with all its rows.
    """

    SIDES: ClassVar[Sides] = {
        **CERTIFIED,
        "c_k": "estimate",
        "exposed_cells": {"leak_upper": "upper", "values": "given"},
        "lam": "given",
        "nu": "given",
    }

    fields: dict[str, Any]
    game: IidGame
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    exposed: tuple[dict[str, Any], ...] = ()
    unit: str | None = None
    leaks: RecordLeaks | None = field(default=None, repr=False)
    roles: dict[str, str] = field(default_factory=dict)

    @property
    def delta_upper(self) -> float:
        """Largest leak Δ of any learner, average record."""
        return float(self.fields["delta_upper"])

    @property
    def security_lower(self) -> float:
        """MIS of every learner."""
        return float(self.fields["security_lower"])

    def certificate(self) -> Certificate:
        """Return the main number as a certificate."""
        return Certificate(
            "security",
            self.security_lower,
            "lower",
            self.game,
            self.theorems,
            self.assumptions,
            float(self.fields["confidence"]),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields("certify", self.game, self.theorems, self.assumptions)
        result |= self.fields
        return result | {
            "nu": self.game.nu,
            "lam": self.game.lam,
            "warnings": list(self.warnings),
            "unit": self.unit,
            "records": self.records_out,
            "exposed_cells": list(self.exposed),
            "roles": dict(self.roles),
            "sentence": self.sentence,
        }

    @property
    def sentence(self) -> str:
        """A sentence a data steward can pass on."""
        f = self.fields
        sure = at_confidence(f["confidence"])
        one = "row" if self.unit is None else of_unit(self.unit)
        if f["delta_upper"] >= 1:
            return (
                f"Nothing can be certified{sure}: with {rows_in_words(f['n'], self.unit)} in "
                f"{f['atoms']} different cells some learner could give away the average {one} "
                "completely; coarser or fewer columns would help."
            )
        right = percent(min(1.0, f["accuracy_upper"]), "upper")
        if self.unit is None:
            return (
                f"Whatever is trained on {f['n']} such rows, nobody is right about the average "
                f"row's membership more than {right} of the time{sure}."
            )
        return (
            f"Whatever is trained on {rows_in_words(f['n'], self.unit)}, nobody is right about the "
            f"membership of the average {one} more than {right} of the time{sure}."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        f = self.fields
        leak = f["record_leak"]
        one, many = "row", "rows"
        if self.unit is not None:
            one, many = "value", f"values of “{self.unit}”"
        rows: list[tuple[str, object]] = [
            (many, "–" if f["rows"] is None else f"{f['rows']}"),
            (f"training {one}s n", f"{f['n']}"),
            ("cells", f"{f['atoms']}"),
            ("leak Δ, any learner", marked(f["delta_upper"], "certificate", "delta", 6)),
            ("security MIS", marked(f["security_lower"], "certificate", "security", 6)),
            ("method", f"{f['method']}"),
        ]
        if f["delta_plug_in_estimate"] is not None:
            seen = significant(f["delta_plug_in_estimate"], "estimate", 4)
            rows.append(("plug-in Δ (estimate only)", f"≈ {seen}"))
        rows += [
            (f"record leak, {name}", marked(leak[key], "certificate", "leak", 6))
            for name, key in (
                (f"median {one}", "median"),
                (f"99 % of {one}s", "p99"),
                (f"worst {one}", "max"),
            )
        ]
        if leak["exposed_rows"] is not None:
            limit = significant(leak["exposed_above"], "given")
            rows.append((f"{one}s that may leak > {limit}", leak["exposed_rows"]))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        shown = "".join(
            f"\nexposed: {cell['rows']} row(s), leak "
            f"{marked(cell['leak_upper'], 'certificate', 'leak', 6)}: "
            + ", ".join(f"{name}={value}" for name, value in cell["values"].items())
            for cell in self.exposed
        )
        return f"{self.sentence}\n\n{table}{notes}{shown}"
