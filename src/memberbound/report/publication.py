"""Public statements about a release, and the case file for decision makers.

Study results are computed from the raw rows, outside any privacy budget, so scores, floors,
ceilings of the table and recommendations are for the owner
(:class:`~memberbound.report.model.Report`).  Public documents are rendered from a
:class:`Publication` only; its only field computed from the rows is their number.  Decision makers
see a :class:`Case`, which may hold both.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from memberbound.errors import InputError
from memberbound.files import check_input, read_document
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.quantities import significant
from memberbound.release.record import DerivationRecord
from memberbound.report import words
from memberbound.report.fields import (
    Confidence,
    Constraint,
    Name,
    Protected,
    Right,
    Share,
    ShareName,
)
from memberbound.report.model import Remedy, Report, parse_report, read
from memberbound.report.parsing import parse_as

_CERTIFICATE = ".certificate.json"

# ── Public facts ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Promise:
    """A certified bound on attack success on a record, in one game."""

    game: Literal["neighbour", "subset", "iid"]
    protects: Protected
    blind: Right
    accuracy_upper: Right
    confidence: Confidence
    theorems: tuple[str, ...] = ()
    #: Bounds on the true positive rate by false positive rate, if the certificate has a curve.
    tpr_upper: Mapping[ShareName, Share] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReleasedFile:
    """A released file, as described by its certificate."""

    name: Name
    sha256: Annotated[str, Constraint(pattern="^[0-9a-f]{64}$")]
    kind: Name
    method: Name
    noisy: bool = False
    #: The column that identifies persons, or None if every row is a record.
    unit: str | None = None
    #: False if the noise comes from a seed.
    secure: bool
    delta: Share | None = None
    epsilon_upper: float | None = None
    mu_upper: float | None = None
    mu_regret_upper: float | None = None
    #: Attack success on a household of four, replaced together.
    household_upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The public facts, ``of_study`` or ``of_release``.

    ``name`` is that of the table or of the released file; undeclared facts are None.
    """

    name: str
    version: str
    rows: int | None
    columns: int | None
    target: str | None
    learner: str | None
    eta: float
    promise: Promise
    assumptions: tuple[str, ...]
    file: ReleasedFile | None = None
    #: The column that identifies persons, if no file names it.
    unit: str | None = None

    @property
    def counted(self) -> Literal["rows", "persons"]:
        """The unit that ``rows`` counts; the number of rows of persons is not public."""
        unit = self.unit if self.file is None else self.file.unit
        return "rows" if unit is None else "persons"

    @property
    def game(self) -> NeighbourGame | SubsetGame:
        """The game of the promise, with whom it protects."""
        if self.promise.game == "neighbour":
            return NeighbourGame()
        rows = max(2, self.rows or 2)
        every = self.promise.protects == "every record"
        return SubsetGame(rows, rows // 2, "every" if every else "average")

    @classmethod
    def of_study(cls, report: Report) -> Publication:
        """Return the promise of a study's settings, from the table's shape alone.

        Guarantee: two reports of the same question about tables with equally many records (rows,
        or persons), with or without a target, and the same columns give equal publications; the
        study's numbers, steps, verdict and choices are not used.
        Edge cases: reports of earlier versions lack that number, and it is left out.
        """
        asked, data = report.question, report.data
        # The number of columns is public; whether they look like identifiers is not.
        columns = {*data.columns, *data.left_out} - {data.target}
        return cls(
            name=data.name,
            version=report.version,
            rows=data.records,
            columns=len(columns),
            target=asked.target,
            learner=None if report.is_default("learner") else asked.learner,
            eta=asked.eta,
            promise=Promise(
                "neighbour", "every record", 0.5, min(1.0, sum_up(0.5, asked.eta)), 1.0
            ),
            assumptions=_release_assumptions(asked.unit),
            unit=asked.unit,
        )

    @classmethod
    def of_release(cls, certificate: Mapping[str, Any]) -> Publication:
        """Return the public facts in the certificate of a released file.

        Edge cases: any other document is refused.
        """
        try:
            bound, curve = certificate["certificate"], certificate.get("curve", {})
            one_replaced = curve.get("replace_one", {})
            blind = 0.5
            if bound["game"] == "subset":
                blind = SubsetGame(certificate["population"], certificate["size"]).blind
            promise = _select(bound, "game", "protects", "confidence", "theorems") | {
                "blind": blind,
                "accuracy_upper": min(1.0, sum_up(blind, float(bound["upper"]))),
                "tpr_upper": one_replaced.get("tpr_upper", {}),
            }
            file = _select(certificate, "sha256", "kind", "method", "unit") | {
                "name": certificate["file"],
                "secure": certificate["secure_source"],
                "noisy": bool(certificate["noise"]),
                **_select(curve, "delta", "mu_upper", "mu_regret_upper"),
                **_select(one_replaced, "epsilon_upper"),
                "household_upper": _household(certificate if bound["game"] == "neighbour" else {}),
            }
            fields = _select(certificate, "version", "eta") | {
                "name": certificate["file"],
                "rows": certificate.get("rows_trained", certificate.get("size")),
                "columns": None,
                "target": None,
                "learner": certificate.get("learner", certificate.get("estimator")),
                "promise": promise,
                "assumptions": bound["assumptions"],
                "file": file,
            }
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"certificate must be one that protect wrote, got another: {problem}."
            ) from None
        return parse_as(cls, fields, "certificate")


def _household(certificate: Mapping[str, Any]) -> float | None:
    from memberbound.release.budget import household_accuracy

    record: DerivationRecord | None = certificate.get("derivation")
    return None if record is None else household_accuracy(record)


def _select(source: Mapping[str, object], *keys: str) -> dict[str, object]:
    return {key: source.get(key) for key in keys}


def kind_in_words(file: ReleasedFile) -> str:
    """Describe the kind of a released file."""
    kind: str = words()["kinds"].get(file.kind, file.kind)
    return kind


def unit_in_words(file: ReleasedFile) -> str:
    """Describe the unit of privacy."""
    return "one row" if file.unit is None else f"one value of the column {file.unit!r}"


def parameters(published: Publication) -> str:
    """Return ε, δ and μ of a release, with the regret of summarising the curve by μ."""
    file = published.file
    if file is None or published.promise.game != "neighbour":
        return "No parameters of differential privacy: the promise is about a secret random half."
    stated = [f"η ≤ {significant(published.eta, 'upper')}"]
    if file.epsilon_upper is not None and file.delta is not None:
        epsilon = significant(file.epsilon_upper, "upper", 4)
        stated.append(f"ε ≤ {epsilon} at δ = {significant(file.delta, 'given')}")
    if file.mu_upper is not None and file.mu_regret_upper is not None:
        mu = significant(file.mu_upper, "upper", 5)
        regret = significant(file.mu_regret_upper, "upper", 2)
        stated.append(f"μ ≤ {mu} (Gaussian differential privacy, regret ≤ {regret})")
    who = "record" if published.counted == "rows" else "person"
    return f"{'; '.join(stated)}; one {who} replaced."


# ── Facts that people add ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class About:
    """Statements of the decision makers, from a YAML file; blanks are left to fill in by hand."""

    purpose: str | None = None
    predicts: str | None = None
    controller: str | None = None
    data_subjects: str | None = None
    recipients: str | None = None
    legal_basis: str | None = None
    necessity: str | None = None
    residual_risk: str | None = None
    limit_chosen_by: str | None = None
    limit_reason: str | None = None
    cost: str | None = None
    review_on: str | None = None
    region: str | None = None
    publication_date: str | None = None
    authors: tuple[str, ...] = ()
    paper: Literal["A4", "Letter"] = "A4"

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None) -> About:
        """Read the statements from a file; refuse unknown keys."""
        if path is None:
            return cls()
        stated = read_document(path, "about", words=True)
        names = [field.name for field in fields(cls)]
        if not isinstance(stated, Mapping):
            raise InputError(f"about must hold lines such as 'purpose: …', got {path!s}.")
        for name in stated:
            if name not in names:
                raise InputError(f"about must hold only {', '.join(names)}, got {name!r}.")
        return parse_as(cls, {k: v for k, v in stated.items() if v is not None}, "about")

    @property
    def longest(self) -> tuple[str, str]:
        """The field with the longest text, and that text."""
        texts = {field.name: str(getattr(self, field.name) or "") for field in fields(self)}
        return max(texts.items(), key=lambda item: len(item[1]))


# ── The case to decide
# ───────────────────────────────────────────────────────────────────────────────

#: Kind of file that each remedy produces, for files without a certificate.  More rows produce no
#: file: a model trained on them needs its own study.
_UNCERTIFIED = {"nothing": "model", "coarser": "coarser table"}
#: Keys of :class:`About` that public documents may show.
_PUBLIC = ("purpose", "controller", "region", "publication_date")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The case to decide: a release, a study or both, with the statements of people."""

    release: Publication | None = None
    report: Report | None = None
    about: About = field(default_factory=About)
    file: ReleasedFile | None = None
    #: The certificate of the release.
    certificate: Mapping[str, object] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, report: object, release: object = None, about: object = None) -> Case:
        """Build a case from a certificate, from a study, or from a study and a released file.

        A certificate lies beside its file unless ``release`` names the file.  It is rejected if
        the file was changed or exchanged.
        """
        stated = About.read(about)  # type: ignore[arg-type]  # a path
        if isinstance(report, (str, os.PathLike)):
            if isinstance(release, (str, os.PathLike)) and _is_certificate(report):
                return cls._from_certificate(Path(release), stated, certificate=Path(report))
            if release is None and str(report).endswith(_CERTIFICATE):
                return cls._from_certificate(Path(str(report).removesuffix(_CERTIFICATE)), stated)
            if release is None and _is_certificate(report):
                raise InputError(
                    f"release must be given with a certificate called {Path(report).name!r}: the "
                    "file that was released."
                )
        if release is None and isinstance(report, (str, os.PathLike)):
            released = Path(report)
            if Path(f"{released}{_CERTIFICATE}").is_file():
                return cls._from_certificate(released, stated)
        study = load_report(report)
        if release is None:
            return cls(report=study, about=stated)
        if not isinstance(release, (str, os.PathLike)):
            raise InputError(f"release must be a file, got {type(release).__name__}.")
        path = Path(release)
        if Path(f"{path}{_CERTIFICATE}").is_file():
            return cls._from_certificate(path, stated, study)
        best = study.recommended
        if best is None or best.id not in _UNCERTIFIED:
            raise InputError(f"release must come with its certificate, got {str(path)!r} without.")
        file = _uncertified_release(path, _UNCERTIFIED[best.id])
        return cls(report=study, about=stated, file=file)

    @classmethod
    def _from_certificate(
        cls,
        path: Path,
        about: About,
        report: Report | None = None,
        *,
        certificate: Path | None = None,
    ) -> Case:
        from memberbound.release.saving import check_certificate

        stated = check_certificate(path, certificate)
        release = Publication.of_release(stated)
        return cls(
            release=release,
            report=report,
            about=about,
            file=release.file,
            certificate=stated,
        )

    @property
    def promise(self) -> Promise | None:
        """The guarantee of the certificate, or else of the recommended remedy."""
        if self.release is not None:
            return self.release.promise
        best = None if self.report is None else self.report.recommended
        if self.report is None or best is None or best.accuracy_upper is None:
            return None
        return Promise(
            best.game or "neighbour",
            best.protects or "every record",
            self.report.blind_in(best.game),
            best.accuracy_upper,
            best.confidence or 1.0,
        )

    @property
    def published(self) -> Publication:
        """The public facts of the certificate, or else of the study's settings."""
        return self.release or Publication.of_study(self.studied)

    @property
    def studied(self) -> Report:
        """The study; a release alone has none."""
        if self.report is None:
            raise InputError(
                "report must be that of a study with this format, got the certificate of a release."
            )
        return self.report

    def source_for(self, audience: str) -> Report | Publication:
        """Return the source of an export for these readers."""
        public = audience == "public" or (audience == "source" and self.report is None)
        return self.published if public else self.studied

    def statements(self, *, public: bool = False) -> dict[str, str]:
        """Return the file's digest and the decision makers' statements, for lists of settings.

        The public list leaves out the reasons of the decision, and costs measured on the rows.
        """
        names = _PUBLIC if public else [field.name for field in fields(About)]
        added = {name: getattr(self.about, name) for name in names} | {"paper": None}
        added["authors"] = ", ".join(self.about.authors) or None
        # The public promise of a study's settings does not cover a file without a certificate.
        if self.file is not None and not (public and self.release is None):
            added["sha256"] = self.file.sha256
        return {name: value for name, value in added.items() if value is not None}

    @property
    def source(self) -> Report | Publication:
        """The certificate, or else the study."""
        return self.release or self.studied

    @property
    def size(self) -> str | None:
        """The number of rows, or of persons, behind the file."""
        published = self.published if self.release is None else self.release
        return None if published.rows is None else f"{published.rows} {published.counted}"

    @property
    def subject(self) -> str:
        """The name of the file."""
        return "the file" if self.file is None else self.file.name

    @property
    def remedy(self) -> Remedy | None:
        """The remedy of the study that the file implements."""
        report, release = self.report, self.release
        if report is None or release is None or release.file is None:
            return None if report is None else report.recommended
        names: tuple[str, ...] = ("noise-every",)
        if release.file.kind in ("vector", "synthetic table"):
            names = ("synthetic",) if release.file.kind == "synthetic table" else ()
        elif release.promise.game == "neighbour" and release.learner != report.question.learner:
            names = ("noise-other",)
        alike = (
            remedy
            for remedy in report.remedies
            if remedy.id in names and remedy.protects == release.promise.protects
        )
        return next(alike, None)


def _release_assumptions(unit: str | None) -> tuple[str, ...]:
    """Return the assumptions of a release of all rows, for rows or persons."""
    record, *others = words()["assumed"]["protect-every"]
    if unit is not None:
        record = words()["release-of-persons"].format(unit=unit)
    return (record, *others)


def _uncertified_release(path: Path, kind: str) -> ReleasedFile:
    check_input(path, "release")
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return ReleasedFile(name=path.name, sha256=digest, kind=kind, method="as studied", secure=True)


def _is_certificate(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a certificate by its content, whatever its name."""
    try:
        content = read_document(Path(path), "report", "JSON")
    except InputError:
        return False
    return isinstance(content, dict) and {"sha256", "certificate"} <= content.keys()


def load_report(report: object) -> Report:
    """Return a checked report, from a file, a dictionary or a study."""
    if isinstance(report, (str, os.PathLike)):
        return read(report)
    # A study has its report; its class belongs to a stage above this one.
    content = getattr(report, "report", report)
    if isinstance(content, Report):
        return content
    if isinstance(content, Mapping):
        return parse_report(content)
    raise InputError(
        "report must be a file, its dictionary, or the result of study, got "
        f"{type(report).__name__}."
    )
