"""What is signed before a release: two pages in plain words, and the annex of an impact assessment.

Both are about the file that is released.  What is known comes from its certificate, from a study or
from both; what only people know (purpose, who chose the limit, …) from :class:`About`, and where it
is missing there is a place to write.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from memberbound._version import __version__
from memberbound.errors import InputError
from memberbound.files import check_input, read_document
from memberbound.quantities import allowed, confident, of_hundred, percent, points
from memberbound.report.model import Remedy, Report, typed_as
from memberbound.report.page import decision_page
from memberbound.report.publication import (
    Promise,
    Publication,
    ReleasedFile,
    bullets,
    escaped,
    table,
)

# ── What only people know ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class About:
    """What the people who decide add, from a YAML file; whatever is missing is left to write in."""

    purpose: str | None = None
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
        """Return what a file says; an unknown key is refused."""
        if path is None:
            return cls()
        stated = read_document(path, "about", words=True)
        names = [field.name for field in fields(cls)]
        if not isinstance(stated, Mapping):
            raise InputError(f"about must hold lines such as 'purpose: …', got {path!s}.")
        for name in stated:
            if name not in names:
                raise InputError(f"about must hold only {', '.join(names)}, got {name!r}.")
        return typed_as(cls, {k: v for k, v in stated.items() if v is not None}, "about")

    @property
    def longest(self) -> tuple[str, str]:
        """The field with the longest text, and that text."""
        texts = {field.name: str(getattr(self, field.name) or "") for field in fields(self)}
        return max(texts.items(), key=lambda item: len(item[1]))


# ── What is decided ───────────────────────────────────────────────────────────────────────────────

#: Kind of a released file → what it is, for everybody.
KINDS = {
    "linear model": "a model that predicts",
    "boosted model": "a model that predicts",
    "network of all rows": "a model that predicts",
    "estimator": "a model that predicts",
    "vector": "a list of numbers about the table as a whole",
    "synthetic table": "a table of new rows that belong to nobody",
    "coarser table": "the table itself, with less detail",
    "model": "a model that predicts",
}
#: Remedy → kind of the file that it makes, where no certificate lies beside that file.  More rows
#: make none: what is trained on them needs a study of them.
_UNCERTIFIED = {"nothing": "model", "coarser": "coarser table"}
#: Keys of :class:`About` that may stand in what everybody sees.
_PUBLIC = ("purpose", "controller", "region", "publication_date")
_MISSING = "to fill in"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is decided: a release, a study or both, with what people add."""

    release: Publication | None
    report: Report | None
    about: About
    file: ReleasedFile | None = None

    @classmethod
    def of(
        cls,
        *,
        release: Publication | None = None,
        report: Report | None = None,
        about: About | None = None,
        uncertified: str | os.PathLike[str] | None = None,
    ) -> Case:
        """Return the case; ``uncertified`` is a file that a remedy without a certificate made."""
        file = None if release is None else release.file
        if uncertified is not None:
            best = None if report is None else report.recommended
            if best is None or best.id not in _UNCERTIFIED:
                raise InputError(
                    f"release must come with its certificate, got {str(uncertified)!r} without."
                )
            file = _uncertified_file(uncertified, _UNCERTIFIED[best.id])
        return cls(release=release, report=report, about=about or About(), file=file)

    @property
    def promise(self) -> Promise | None:
        """What is promised: by the certificate, else by the remedy that a study recommends."""
        if self.release is not None:
            return self.release.promises[0]
        best = None if self.report is None else self.report.recommended
        if self.report is None or best is None or best.accuracy_upper is None:
            return None
        return Promise(
            best.game or "subset",
            best.protects or "every record",
            self.report.blind_in(best.game),
            best.accuracy_upper,
            best.confidence or 1.0,
        )

    @property
    def published(self) -> Publication:
        """What everybody may see: what the certificate says, else what the settings promise."""
        return self.release or Publication.of_study(self.studied)

    @property
    def studied(self) -> Report:
        """The study; a release alone has none."""
        if self.report is None:
            raise InputError(
                "report must be that of a study with this format, got the certificate of a release."
            )
        return self.report

    def exported(self, audience: str) -> Report | Publication:
        """Return what an export with this audience is about."""
        public = audience == "public" or (audience == "source" and self.report is None)
        return self.published if public else self.studied

    def stated(self, *, public: bool = False) -> dict[str, str]:
        """Return the file's digest and what people added, for lists of settings.

        In public there is no place for what was weighed, nor for a cost measured on the rows.
        """
        names = _PUBLIC if public else [field.name for field in fields(About)]
        added = {name: getattr(self.about, name) for name in names} | {"paper": None}
        added["authors"] = ", ".join(self.about.authors) or None
        # What the settings of a study promise in public is not about a file without a certificate.
        if self.file is not None and not (public and self.release is None):
            added["sha256"] = self.file.sha256
        return {name: value for name, value in added.items() if value is not None}

    @property
    def version(self) -> str:
        """The version that made what is decided on."""
        source = self.release or self.report
        return __version__ if source is None else source.version

    @property
    def rows(self) -> int | None:
        """How many rows the file was made from."""
        if self.release is not None:
            return self.release.rows
        return None if self.report is None else self.report.data.rows

    @property
    def size(self) -> str | None:
        """How many rows, or persons with any number of rows, the file was made from."""
        counted = "rows" if self.release is None else self.release.counted
        return None if self.rows is None else f"{self.rows} {counted}"

    @property
    def subject(self) -> str:
        """The file, by its name."""
        return "the file" if self.file is None else self.file.name

    @property
    def remedy(self) -> Remedy | None:
        """The remedy of the study that the file carries out."""
        report, release = self.report, self.release
        if report is None or release is None or release.file is None:
            return None if report is None else report.recommended
        names: tuple[str, ...] = ("noise-every",)
        if release.file.kind in ("vector", "synthetic table"):
            names = ("synthetic",) if release.file.kind == "synthetic table" else ()
        elif release.game == "neighbour" and release.learner != report.question.learner:
            names = ("noise-other",)
        alike = (
            remedy
            for remedy in report.remedies
            if remedy.id in names and remedy.protects == release.protects
        )
        return next(alike, None)


def _uncertified_file(path: str | os.PathLike[str], kind: str) -> ReleasedFile:
    place = Path(path)
    check_input(place, "release")
    with place.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return ReleasedFile(name=place.name, sha256=digest, kind=kind, method="as studied", secure=True)


# ── In plain words ────────────────────────────────────────────────────────────────────────────────

_KNOWING = {
    "neighbour": "This holds even for somebody who knows all the other rows of the table.",
    "subset": (
        "The file was made from one half of the table, drawn by chance. This holds even for "
        "somebody who knows the whole table, but not which half was drawn."
    ),
    "iid": (
        "This holds for somebody who knows what such people are like in general, but has not "
        "seen the table."
    ),
}
_KNOWING_PERSONS = "This holds even for somebody who knows all rows of all other people."
_OF_ONE = "It says nothing about one given person: an unusual one may be much easier to find."

NOT_PROMISED = (
    "That the file is right, or good enough for its use.",
    "That nothing can be learnt about people in general. If the table shows that smoking harms, "
    "the file may show it too, and for smokers who were never in the table.",
    "That a second file is safe as well, or that the choice of this one tells nothing, if results "
    "on these rows led to it. Each adds to the risk.",
    "That the table is safe from theft, from copies and logs, or from people who may read it.",
    "That the law is met. This is one fact for that judgement, and no more.",
)
LOOK_AGAIN = (
    "Somebody wants to make another file from the same people, or this one again.",
    "The file is to be used for something else, or given to somebody else.",
    "People turn out to be in the table twice, or the rows to be less well kept than was thought.",
    "A fault in the method or in the software becomes known.",
)
_SEEDED = "This file was made with a test seed, so that its noise can be worked out. Do not sign."


def what_it_is(case: Case, file: ReleasedFile) -> str:
    """Return what a file is, for everybody."""
    kind = KINDS.get(file.kind, file.kind)
    predicts = kind.endswith("predicts") and case.report is not None
    return f"{kind} “{case.studied.data.target}”" if predicts else kind


def promised(case: Case) -> tuple[str, ...]:
    """Return the promise: one sentence, then whom it holds against."""
    promise = case.promise
    if promise is None:
        return ("Nothing is promised: nothing that was tried keeps within the limit.",)
    right = of_hundred(promise.accuracy_upper, "upper")
    blind = of_hundred(promise.blind, "lower")
    every = promise.protects == "every record"
    whom = "any one person was" if every else "a person picked by chance was"
    sentence = (
        f"Nobody who has {case.subject} can say whether {whom} in the data it was made from, and "
        f"be right more than {right} times in 100. A pure guess is right {blind} times in 100."
    )
    persons = case.release is not None and case.release.counted == "persons"
    more = [_KNOWING_PERSONS if persons else _KNOWING[promise.game]]
    if not every:
        more.append(_OF_ONE)
    if promise.confidence < 1:
        sure = confident(promise.confidence)
        more.append(
            f"The limit was worked out from trials. It is right in at least {sure} of such cases."
        )
    return (sentence, *more)


def must_be_true(case: Case) -> list[str]:
    """Return what the signer states about the data, in plain words."""
    promise, file = case.promise, case.file
    game = "neighbour" if promise is None else promise.game
    unit = None if file is None else file.unit
    one = "Each person is in the table once: one row is one person."
    if unit is not None:
        one = f"Each person has one value in the column “{unit}”. All rows with it are that person."
    terms = [one, "No row was written because of somebody else’s row, as with twins or families."]
    if game == "neighbour":
        terms += [
            "The limits stated for the columns (such as “age from 18 to 90”) are common knowledge. "
            "They were not read off this table.",
            f"All may know how many {'rows' if unit is None else 'people'} there are and what the "
            "columns are called.",
        ]
    elif game == "subset":
        terms.append("The half was drawn by chance, and nobody outside knows which half it was.")
    else:
        terms.append(
            "The people are like draws from one large group, and the model sees no other columns."
        )
    terms += [
        "Nothing else made from these rows was given away, or it was counted in.",
        "The file was made on a machine that nobody has tampered with.",
    ]
    remedy = case.remedy
    if case.release is None and remedy is not None and remedy.extra_rows:
        terms.append(f"The table has {remedy.extra_rows} more rows of the same kind by then.")
    if file is not None and case.release is None:
        terms.append(f"The file {file.name} is the one that the study speaks of.")
    return terms


def costs(case: Case) -> list[str]:
    """Return what the protection costs, as far as somebody has measured it."""
    if case.about.cost is not None:
        return [case.about.cost]
    remedy = case.remedy
    price = None if remedy is None else remedy.price
    if remedy is None or price is None:
        if remedy is not None and remedy.extra_rows:
            return [f"It takes {remedy.extra_rows} more rows of the same kind."]
        return []
    before, after = percent(price.before, "estimate"), percent(price.after, "estimate")
    what = "gives the right answer in about {} of cases"
    if price.name != "accuracy":
        what = "explains about {} of the differences between people"
    return [
        f"In a rehearsal, such a file {what.format(after)}; without protection, {before}.",
        "Both were measured on rows of the table, so they are for its owner only.",
    ]


def limit(case: Case) -> str:
    """Return the limit, and whether anybody chose it."""
    source = case.release or case.studied
    eta = source.eta if isinstance(source, Publication) else source.question.eta
    blind = 0.5 if case.promise is None else case.promise.blind
    text = (
        f"At most {allowed(blind, eta)} of guesses may be right: {points(eta)} above a pure guess."
    )
    report = case.report
    default = report is not None and report.defaulted("eta") and eta == report.question.eta
    if default and case.about.limit_chosen_by is None:
        text += " This is the default of the software. Nobody has chosen it for these people yet."
    return text


def measure(case: Case) -> str:
    """Return what was done to protect people."""
    if case.file is not None and case.file.noise:
        drawn = "drawn fresh and is kept nowhere" if case.file.secure else "drawn from a test seed"
        return f"Noise was added when the file was made. It was {drawn}."
    remedy = case.remedy
    return "Nothing." if remedy is None else f"As the study recommends: {remedy.label.lower()}."


def exposed(case: Case) -> str | None:
    """Return what attacks showed about the model without protection, where they showed anything."""
    if case.report is None:
        return None
    for subject, record, whom in (
        ("given", "average", "people"),
        ("model", "worst", "the person who is easiest to find"),
    ):
        row = case.report.row_of(subject, record)
        if row is not None and row.beaten is not None:
            right = of_hundred(row.beaten.lower, "lower")
            return (
                f"Without protection, a tested attack was right about {whom} at least {right} "
                "times in 100."
            )
    return None


def warnings(case: Case) -> list[str]:
    """Return what keeps anybody from signing."""
    texts = []
    if case.file is not None and not case.file.secure:
        texts.append(_SEEDED)
    if case.promise is None:
        texts.append("No release is recommended. There is nothing to sign.")
    elif case.file is None:
        texts.append(
            "Draft: the file is not made yet. Make it, then print this page again with "
            "--release FILE, so that the page names it."
        )
    if case.report is not None and not case.report.complete:
        texts.append("The study did not finish. It rests on the steps that did.")
    if case.report is not None and case.release is not None:
        studied, made = case.report.data.rows, case.release.rows
        same = case.release.counted == "rows"
        if case.release.game == "neighbour" and same and made is not None and made != studied:
            texts.append(
                f"The file was made from {made} rows, and the study is about {studied} rows."
            )
    return texts


#: Points of the type, the largest first; with smaller type more fits onto two sheets.
SIZES = (10.5, 9.4, 8.4)


def render_decision(case: Case, size: float = SIZES[0]) -> str:
    """Return the two sheets to sign, about the file that is released."""
    promise = case.promise
    facts: list[tuple[str, str | None]] = [
        ("File", None if case.file is None else case.file.name),
        ("SHA-256", None if case.file is None else case.file.sha256),
        ("What it is", None if case.file is None else what_it_is(case, case.file)),
        ("Made from", None if case.size is None else f"a table of {case.size}"),
        ("For", case.about.purpose),
        ("Goes to", case.about.recipients),
    ]
    remedy = case.remedy
    return decision_page(
        case=case,
        size=size,
        facts=facts,
        promised=promised(case),
        right=None if promise is None else of_hundred(promise.accuracy_upper, "upper"),
        blind=None if promise is None else of_hundred(promise.blind, "lower"),
        not_promised=NOT_PROMISED,
        costs=costs(case),
        exposed=exposed(case),
        limit=limit(case),
        must_be_true=must_be_true(case),
        look_again=LOOK_AGAIN,
        warnings=warnings(case),
        command=None if remedy is None or case.file is not None else remedy.command,
    )


# ── The annex of a data protection impact assessment ──────────────────────────────────────────────


def dpia_annex(case: Case) -> str:
    """Return the annex, as Markdown in the order of Article 35(7) GDPR; people fill in the rest."""
    about, file, promise = case.about, case.file, case.promise

    def asked(value: str | None, hint: str) -> str:
        return f"**[{_MISSING}: {hint}]**" if value is None else escaped(value)

    columns = "the columns and what they hold"
    if case.report is not None:
        columns = ", ".join((*case.report.data.columns, case.report.data.target))
    described = [
        ["Purpose", asked(about.purpose, "what the file is for")],
        ["Controller", asked(about.controller, "name and contact; the data protection officer")],
        ["Data subjects", asked(about.data_subjects, "whose data these are")],
        ["Size", case.size or "–"],
        ["Data", asked(columns if case.report is not None else None, columns)],
        ["What is released", asked(None if file is None else f"{file.name}, "
                                   f"{what_it_is(case, file)}", "the file")],
        ["SHA-256 of the file", asked(None if file is None else file.sha256, "of the file")],
        ["Recipients", asked(about.recipients, "who gets the file, and whether anybody may")],
    ]  # fmt: skip
    rates = []
    if promise is not None:
        rates = [
            f"With false alarms about at most {percent(float(fpr), 'given')} of the people who "
            f"were not in the data, nobody identifies more than {percent(most, 'upper')} of those "
            "who were."
            for fpr, most in promise.tpr_upper.items()
        ]
    leak = exposed(case)
    measures = [
        escaped(measure(case)),
        escaped(limit(case)),
        f"Chosen by: {asked(about.limit_chosen_by, 'name and role')}",
        f"Reason: {asked(about.limit_reason, 'why this limit is right for these people')}",
    ]
    others = (
        "reconstruction of whole rows, inference of one property of a person, theft of the table, "
        "misuse of the file"
    )
    lines = [
        f"# Annex to the data protection impact assessment: {escaped(case.subject)}",
        "",
        "This annex covers one risk: that somebody who has the released file finds out whether a "
        "person was in the data it was made from. The assessment itself, other risks, and whether "
        "the processing is lawful, are for the controller. Its parts follow Article 35(7) GDPR.",
        "",
        *(f"**{escaped(text)}**\n" for text in warnings(case)),
        "## (a) The processing",
        "",
        *table(["", ""], described),
        "",
        "## (b) Necessity and proportion",
        "",
        *bullets(
            [
                f"Legal basis: {asked(about.legal_basis, 'of making and of giving away the file')}",
                f"Why it is needed: {asked(about.necessity, 'why less would not do')}",
                f"Cost: {' '.join(map(escaped, costs(case))) or asked(None, 'what it costs')}",
                *([] if leak is None else [escaped(leak)]),
            ]
        ),
        "",
        "## (c) The risk to people",
        "",
        *bullets([escaped(text) for text in (*promised(case), *rates)]),
        *bullets(
            [
                f"How bad it would be for a person to be found: **[{_MISSING}]**",
                f"Not measured here: {others}.",
            ]
        ),
        "",
        "Not promised:",
        "",
        *bullets(map(escaped, NOT_PROMISED)),
        "",
        "## (d) Measures",
        "",
        *bullets(measures),
        "",
        "What has to be true:",
        "",
        *(f"- [ ] {escaped(text)}" for text in must_be_true(case)),
        "",
        "When to look again:",
        "",
        *bullets([*LOOK_AGAIN, f"At the latest: {asked(about.review_on, 'a date')}"]),
        "",
        "## What is left",
        "",
        *bullets(
            [
                f"Residual risk: {asked(about.residual_risk, 'small, medium or high, and why')}",
                f"Views of data subjects or their representatives: **[{_MISSING}]**",
                f"Advice of the data protection officer: **[{_MISSING}]**",
            ]
        ),
        "",
        f"Made by memberbound {case.version}.",
    ]
    return "\n".join(lines) + "\n"
