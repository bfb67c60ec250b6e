"""The verb ``verify``: recompute the certificate of a release, and check that it fits the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

from memberbound.answers import INTERNAL, Answer, Given, OmitEmpty, Upper, computed
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.declarations import InputFiles, Option
from memberbound.errors import InputError
from memberbound.files import file_digest, read_document
from memberbound.games import Game, IidGame, NeighbourGame, SubsetGame
from memberbound.numerics.rounding import root_up, sums_up
from memberbound.quantities import percent
from memberbound.release.half.sums import SUM_FORMAT
from memberbound.release.ledger_file import ledger_content
from memberbound.release.record import CertificateRecord
from memberbound.release.saving import certificate_path, read_certificate
from memberbound.release.verification import (
    Check,
    check_content,
    check_ledger,
    keeps_schema,
    recompute_certificate,
)
from memberbound.tables.records import read_secret_columns
from memberbound.verbs.answer_checks import (
    check_answer,
    has_owners_bounds,
    is_answer,
    unchecked,
)
from memberbound.verbs.certificate_checks import OTHER_FORMATS, check_certificate

#: Facts that no verifier can check from the files.
_UNCHECKED = (
    "The noise was drawn as recorded, from secret random words, and the file holds nothing else "
    "about the table.",
    "The recorded sensitivities are those of the code that ran.",
    "Nothing else about the records was published; a ledger shows what was entered in it.",
    "The lists of what is public and of assumptions are complete.",
)
_SEEDED = "Nobody who is interested in a record knows the seed that the noise comes from."
#: Larger JSON files are not models.
_LARGEST = 2**24
_ASKED = Annotated[object, Option("file", metavar="FILE")]


@dataclass(frozen=True)
class CheckedFile:
    """A release and whether its checks hold; μ and η are given only if they do."""

    file: str
    file_sha256: str
    holds: bool
    mu: Upper | None
    eta: Upper | None


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Answer):
    """The checks of releases; ``mu`` and ``eta`` are for all releases together."""

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
    game: Game = field(default_factory=NeighbourGame)
    #: Number of files with a bound that only the owner of the table can recompute.
    owners: int = field(default=0, metadata=INTERNAL)

    @computed
    def sentence(self) -> str:
        """A sentence on whether the checks hold, and on the guarantee if they do."""
        wrong = [check for check in self.checks if not check.holds]
        if wrong:
            first = wrong[0]
            return (
                f"The verification failed: {len(wrong)} of {len(self.checks)} checks do not hold, "
                f"first {first.name} ({first.detail.rstrip('.')})."
            )
        if self.owners:
            files = "this file" if not self.files else f"these {len(self.files)} files"
            return (
                f"Nothing contradicts {files}, but some bounds were not recomputed, which only the "
                "owner of the table can do: verify --table."
            )
        if self.statement is not None:
            return f"The certificate holds for this file. {self.statement}"
        if not self.files:
            return "The certificates in this file follow from the records in it."
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
        """Return the facts that cannot be checked."""
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
    than the recomputed one, never smaller.
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
    given = None if certificate is None else _path("certificate", certificate)
    examined = [_examine(path, given, book, table) for path in paths]
    holds, one = all(each.holds for each in examined), len(paths) == 1
    first = examined[0]
    mu, eta = (first.mu, first.eta) if one else _together(examined) if holds else (None, None)
    theorems = {name for each in examined if holds for name in each.stated_theorems}
    beyond = {"X34"} if one and book is None else {"X27", "X34"}
    return Verification(
        holds=holds,
        file_sha256=first.digest if one else None,
        mu=mu,
        eta=eta,
        checks=first.checks if one else tuple(chain.from_iterable(e.named for e in examined)),
        files=() if one else tuple(each.summary for each in examined),
        statement=first.statement if one and first.proved else None,
        theorems=tuple(sorted(theorems | beyond)),
        assumptions=tuple(dict.fromkeys(chain.from_iterable(e.unchecked for e in examined))),
        owners=sum(each.owners for each in examined),
        game=first.game if len({each.game.name for each in examined}) == 1 else NeighbourGame(),
    )


# ── One release ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Examined:
    """A release and its checks; ``stated_mu``, ``stated_eta`` and ``slack`` are printed values."""

    path: Path
    digest: str
    checks: tuple[Check, ...]
    stated_mu: float | None = None
    stated_eta: float | None = None
    slack: float | None = None
    statement: str | None = None
    stated_theorems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = _UNCHECKED
    game: Game = field(default_factory=NeighbourGame)
    #: Whether only the owner of the table, which was not given, can recompute the bound.
    owners: bool = False

    @property
    def proved(self) -> bool:
        return self.holds and not self.owners

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def mu(self) -> float | None:
        return self.stated_mu if self.proved else None

    @property
    def eta(self) -> float | None:
        return self.stated_eta if self.proved else None

    @property
    def named(self) -> tuple[Check, ...]:
        """The checks, with the file in their names."""
        return tuple(replace(c, name=f"{self.path.name}: {c.name}") for c in self.checks)

    @property
    def summary(self) -> CheckedFile:
        """The file among several."""
        return CheckedFile(str(self.path), self.digest, self.holds, self.mu, self.eta)


def _examine(
    path: Path, given: Path | None, book: Mapping[str, Any] | None, table: object
) -> _Examined:
    """Check one release: an answer or a report, or a file with its certificate."""
    digest = file_digest(path)
    answer = _answer(path) if given is None else _answer(given, "certificate")
    if answer is not None:
        # A file with a certificate is the hardened table itself.
        return _examine_answer(path, digest, answer, table if given is None else path)
    found = _certificate(path, given)
    if str(found["derivation"].get("format")) in OTHER_FORMATS:
        return _examine_other(path, digest, found, book, table)
    done = list(recompute_certificate(found, digest))
    if not keeps_schema(found):
        return _Examined(path=path, digest=digest, checks=tuple(done))
    if all(check.holds for check in done if check.name == "file"):
        done += _more_checks(path, found, book, table)
    return _Examined(
        path=path,
        digest=digest,
        checks=tuple(done),
        stated_mu=found["mu"],
        stated_eta=found["certificate"]["upper"],
        slack=found["derivation"]["slack"],
        statement=found["statement"],
        stated_theorems=tuple(found["certificate"]["theorems"]),
        unchecked=_with_seed(found, _UNCHECKED),
    )


def _with_seed(certificate: Mapping[str, object], unchecked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the facts that cannot be checked, with one more if the noise is not secret."""
    return (_SEEDED, *unchecked) if certificate.get("secure_source") is False else unchecked


def _answer(path: Path, name: str = "release") -> Mapping[str, Any] | None:
    """Return the answer or report in a file without a certificate, or None."""
    beside = certificate_path(path).exists()
    if path.suffix.lower() != ".json" or beside or path.stat().st_size > _LARGEST:
        return None
    content = read_document(path, name, "JSON")
    return content if is_answer(content) else None  # type: ignore[return-value]


def _examine_answer(path: Path, digest: str, answer: Mapping[str, Any], table: object) -> _Examined:
    done = tuple(check_answer(answer, table))
    sentence, bound = answer.get("sentence"), answer.get("certificate")
    upper = bound.get("upper") if isinstance(bound, Mapping) else answer.get("eta_upper")
    theorems = answer.get("theorems")
    return _Examined(
        path=path,
        digest=digest,
        checks=done,
        stated_mu=_number(answer.get("mu")),
        stated_eta=_number(upper),
        statement=sentence if isinstance(sentence, str) else None,
        stated_theorems=_texts(theorems),
        unchecked=unchecked(answer),
        game=_game(answer.get("game")),
        owners=table is None and has_owners_bounds(answer),
    )


def _examine_other(
    path: Path,
    digest: str,
    found: Mapping[str, Any],
    book: Mapping[str, Any] | None,
    table: object,
) -> _Examined:
    """Check a coarser table or a release of a secret half, which no ledger contains."""
    if book is not None:
        raise InputError("ledger applies only to releases of all rows, got another release.")
    bound = found.get("certificate")
    stated = bound if isinstance(bound, Mapping) else {}
    eta = stated.get("upper") if stated.get("quantity") == "eta" else None
    statement = found.get("statement")
    return _Examined(
        path=path,
        digest=digest,
        checks=tuple(check_certificate(path, found, digest, table)),
        stated_eta=_number(eta),
        statement=statement if isinstance(statement, str) else None,
        stated_theorems=_texts(stated.get("theorems")),
        unchecked=_with_seed(found, OTHER_FORMATS[found["derivation"]["format"]]),
        game=_game(stated.get("game")),
        owners=table is None and found["derivation"]["format"] == SUM_FORMAT,
    )


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _texts(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(text for text in listed if isinstance(text, str))


def _game(name: object) -> Game:
    """Return a game of this name, for the keys of the answer."""
    games: tuple[Game, ...] = (IidGame(), SubsetGame(2, 1), NeighbourGame())
    return next((game for game in games if game.name == name), NeighbourGame())


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


def _certificate(path: Path, given: Path | None) -> dict[str, Any]:
    """Return a certificate, or raise if it cannot be checked."""
    found = read_certificate(path, given)
    record = found.get("derivation")
    if not isinstance(record, dict):
        made = found.get("version")
        raise InputError(
            "certificate must have a derivation record, like those of protect, synthesize and "
            f"summarize, got one without (kind {found.get('kind')!r}, version {made!r})."
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


def _together(examined: Sequence[_Examined]) -> tuple[float | None, float | None]:
    """Return μ and η of several releases of all rows together; None if one has no μ."""
    pairs = [(e.mu, e.slack) for e in examined if e.mu is not None and e.slack is not None]
    if len(pairs) < len(examined):
        return None, None
    mu = root_up(sum((Fraction(each) ** 2 for each, _ in pairs), Fraction(0)))
    slack = sums_up(each for _, each in pairs)
    return mu, SlackCurve(GaussianCurve(mu), min(1.0, slack)).eta
