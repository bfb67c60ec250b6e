"""The verb ``verify``: recompute the certificate of a release, and check that it fits the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar

from memberbound.answers import Answer, Given, OmitEmpty, Upper, computed
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.declarations import InputFiles, Option
from memberbound.errors import InputError
from memberbound.files import file_digest, read_document
from memberbound.games import NeighbourGame
from memberbound.numerics.rounding import root_up, sums_up
from memberbound.quantities import percent
from memberbound.release.ledger_file import ledger_content
from memberbound.release.record import CertificateRecord
from memberbound.release.saving import read_certificate
from memberbound.release.verification import (
    Check,
    check_content,
    check_ledger,
    keeps_schema,
    recompute_certificate,
)
from memberbound.tables.records import read_secret_columns

#: Facts that the files cannot show to any verifier.
_UNCHECKED = (
    "The noise was drawn as recorded, from secret random words, and the file holds nothing else "
    "about the table.",
    "The recorded sensitivities are those of the code that ran.",
    "Nothing else about the records was published; a ledger shows what was entered in it.",
)
#: Larger JSON files are not models.
_LARGEST = 2**24
_ASKED = Annotated[object, Option("file", metavar="FILE")]


@dataclass(frozen=True)
class CheckedFile:
    """A release, and whether its checks hold; μ and η only if they do."""

    file: str
    file_sha256: str
    holds: bool
    mu: Upper | None
    eta: Upper | None


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Answer):
    """The checks of releases.  ``mu`` and ``eta`` are of all of them together."""

    VERB: ClassVar = "verify"

    holds: bool
    file_sha256: str | None
    mu: Given | None
    eta: Upper | None
    checks: tuple[Check, ...]
    #: The files, if there are several.
    files: OmitEmpty[tuple[CheckedFile, ...]]
    statement: str | None
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...] = _UNCHECKED
    game: NeighbourGame = field(default_factory=NeighbourGame)

    @computed
    def sentence(self) -> str:
        """Whether the checks hold, and what then is proved."""
        wrong = [check for check in self.checks if not check.holds]
        if wrong:
            first = wrong[0]
            return (
                f"The verification failed: {len(wrong)} of {len(self.checks)} checks do not hold, "
                f"first {first.name} ({first.detail.rstrip('.')})."
            )
        if self.statement is not None:
            return f"The certificate holds for this file. {self.statement}"
        together = ""
        if self.eta is not None:
            together = (
                ", and who sees all of them is right about any record at most "
                f"{percent(0.5 + self.eta, 'upper')} of the time, if no η was chosen by looking at "
                "another release"
            )
        return f"The certificates of these {len(self.files)} files hold{together}."

    @property
    def refuted_claim(self) -> str | None:
        """The first check that does not hold; the command exits with code 3."""
        wrong = [check for check in self.checks if not check.holds]
        return f"{wrong[0].name}: {wrong[0].detail}" if wrong else None

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return one row per check."""
        return [
            (check.name, f"{'holds' if check.holds else 'FAILS'}: {check.detail}")
            for check in self.checks
        ]

    def summary_notes(self) -> list[str]:
        """Return what cannot be checked."""
        return ["", *(f"not checked: {text}" for text in self.assumptions)]


def verify(
    release: InputFiles,
    *,
    certificate: _ASKED | None = None,
    ledger: _ASKED | None = None,
    table: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
) -> Verification:
    """Recompute the certificate of a release, and check that it belongs to the file.

    Guarantee: if all checks hold, every printed bound follows from the recorded noise and
    sensitivities, and the file is the one that the certificate was written for.
    Theorem: X34 (proofs/verification.md), X27 for a ledger, X33 for groups.
    Assumes: the record is true; ``assumptions`` lists the facts that no third party can check.
    Numerics: squares in rationals, the normal law in decimals; a printed upper bound may be larger
    than what is recomputed, never smaller.
    Edge cases: steps that sample records (networks) are recomputed with the producer's lattice.

    Args:
        release: the released file, or several.
        certificate: its certificate, or an in-toto statement with it (default:
            ``<release>.certificate.json``).
        ledger: ledger of the release, to check that no entry was removed, moved or changed.
        table: the table, for the owner of the rows, to compare the number of records.

    Command line:
        memberbound verify model.skops
        memberbound verify model.skops --certificate received.json --ledger patients.ledger.json

    Examples:
        >>> import pandas, tempfile
        >>> from memberbound import summarize
        >>> people, out = pandas.DataFrame({"age": [k % 80 for k in range(900)]}), "/age.json"
        >>> folder = tempfile.TemporaryDirectory()
        >>> public = {"age": [0, 80]}
        >>> made = summarize(
        ...     people, statistic="mean", bounds=public, out=folder.name + out, insecure_seed=1
        ... )
        >>> result = verify(folder.name + out)
        >>> result.holds, result.eta <= 0.05
        (True, True)
    """
    paths = _paths(release)
    if certificate is not None and len(paths) > 1:
        raise InputError("certificate must be that of a single release, got several releases.")
    book = None if ledger is None else ledger_content(_path("ledger", ledger))
    checks: list[Check] = []
    files: list[CheckedFile] = []
    stated: list[CertificateRecord] = []
    for path in paths:
        digest = file_digest(path)
        found = _certificate(path, certificate)
        done = list(recompute_certificate(found, digest))
        holds, mu, eta = False, None, None
        if keeps_schema(found):
            if all(check.holds for check in done if check.name == "file"):
                done += _more_checks(path, found, book, table)
            holds = all(check.holds for check in done)
            stated.append(found)
            mu, eta = (found["mu"], found["certificate"]["upper"]) if holds else (None, None)
        files.append(CheckedFile(str(path), digest, holds, mu, eta))
        if len(paths) > 1:
            done = [Check(f"{path.name}: {c.name}", c.holds, c.detail) for c in done]
        checks += done
    holds, one = all(each.holds for each in files), len(paths) == 1
    mu, eta = (files[0].mu, files[0].eta) if one else _together(stated) if holds else (None, None)
    theorems = {name for found in stated if holds for name in found["certificate"]["theorems"]}
    beyond = {"X34"} if one and book is None else {"X27", "X34"}
    return Verification(
        holds=holds,
        file_sha256=files[0].file_sha256 if one else None,
        mu=mu,
        eta=eta,
        checks=tuple(checks),
        files=() if one else tuple(files),
        statement=stated[0]["statement"] if one and holds else None,
        theorems=tuple(sorted(theorems | beyond)),
    )


def _paths(release: object) -> list[Path]:
    """Return the files to check."""
    listed = [release] if isinstance(release, (str, os.PathLike)) else release
    if not isinstance(listed, Sequence) or not listed:
        raise InputError(f"release must be a file or several, got {type(release).__name__}.")
    return [_path("release", path) for path in listed]


def _path(name: str, path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"{name} must be a file, got {type(path).__name__}.")
    if not Path(path).is_file():
        raise InputError(f"{name} must be an existing file, got {str(path)!r}.")
    return Path(path)


def _certificate(path: Path, certificate: object) -> Mapping[str, object]:
    """Return a certificate that can be checked, or refuse it."""
    given = None if certificate is None else _path("certificate", certificate)
    found = read_certificate(path, given)
    record = found.get("derivation")
    if not isinstance(record, dict):
        made = found.get("version")
        raise InputError(
            "certificate must have a derivation record, as those of protect, synthesize and "
            f"summarize have, got one without (kind {found.get('kind')!r}, version {made!r})."
        )
    return found


def _more_checks(
    path: Path, certificate: CertificateRecord, book: Mapping[str, Any] | None, table: object
) -> Iterator[Check]:
    """Yield checks against the file's content, a ledger and the owner's table."""
    if path.suffix.lower() == ".json" and path.stat().st_size <= _LARGEST:
        content = read_document(path, "release", "JSON")
        if isinstance(content, dict) and "measurements" in content:
            yield check_content(content, certificate)
    if book is not None:
        yield from check_ledger(book, certificate)
    if table is not None:
        unit, wanted = certificate["unit"], certificate["derivation"]["records"]
        records = len(read_secret_columns(table, {}, unit=unit))
        detail = f"the table has {records}, the certificate {wanted}"
        yield Check("number of records", records == wanted, detail)


def _together(stated: Sequence[CertificateRecord]) -> tuple[float | None, float | None]:
    """Return μ and η of several releases together; None if one has no μ."""
    listed = [found["mu"] for found in stated if found["mu"] is not None]
    if len(listed) < len(stated):
        return None, None
    mu = root_up(sum((Fraction(each) ** 2 for each in listed), Fraction(0)))
    slack = sums_up(found["derivation"]["slack"] for found in stated)
    return mu, SlackCurve(GaussianCurve(mu), min(1.0, slack)).eta
