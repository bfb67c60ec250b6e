"""The decision page and the impact assessment's annex: a release in plain words, to be signed."""

from __future__ import annotations

import shlex
from typing import Any

from memberbound.quantities import allowed, confident, of_hundred, percent, points
from memberbound.report import template_text, words
from memberbound.report.markdown import fill_markdown
from memberbound.report.page import fill_page
from memberbound.report.publication import Case, Publication, ReleasedFile, kind_in_words

_OF_ONE = "It does not hold for any given person: an unusual one may be much easier to find."

_SEEDED = "This file was made with a test seed, so its noise can be reconstructed. Do not sign."


def what_it_is(case: Case, file: ReleasedFile) -> str:
    """Describe the released file for a lay reader."""
    kind = kind_in_words(file)
    if not kind.endswith("predicts"):
        return kind
    # A certificate does not name the target: leave a blank unless somebody states it.
    stated = case.about.predicts
    target = case.studied.data.target if case.report is not None else stated
    return f"{kind} ________________" if target is None else f"{kind} “{target}”"


def _what_it_would_be(case: Case) -> str | None:
    """Describe the file that a recommended remedy would produce."""
    kind = {
        "noise-every": "linear model",
        "noise-other": "linear model",
        "synthetic": "synthetic table",
        "coarser": "coarser table",
    }.get("" if case.remedy is None else case.remedy.id)
    if kind is None or case.report is None:
        return None
    told: str = words()["kinds"][kind]
    return f"{told} “{case.report.data.target}”" if told.endswith("predicts") else told


def describe_promise(case: Case) -> tuple[str, ...]:
    """Return the guarantee in one sentence, then the attacker."""
    promise = case.promise
    if promise is None:
        return ("Nothing is promised: no remedy that was tried keeps within the limit.",)
    right = of_hundred(promise.accuracy_upper, "upper")
    blind = of_hundred(promise.blind, "lower")
    every = promise.protects == "every record"
    whom = "any one person was" if every else "a person picked by chance was"
    sentence = (
        f"Nobody who has {case.subject} can say whether {whom} in the data it was made from, and "
        f"be right more than {right} times in 100. A pure guess is right {blind} times in 100."
    )
    persons = case.release is not None and case.release.counted == "persons"
    more = [words()["knowing"]["persons" if persons else promise.game]]
    if not every:
        more.append(_OF_ONE)
    if case.file is not None and case.file.household_upper is not None:
        together = of_hundred(case.file.household_upper, "upper")
        more.append(
            f"About a household of four together, nobody is right more than {together} times in "
            "100."
        )
    if promise.confidence < 1:
        sure = confident(promise.confidence)
        more.append(
            f"The limit was computed from trials. It is right in at least {sure} of such cases."
        )
    return (sentence, *more)


def must_be_true(case: Case) -> list[str]:
    """Return the statements about the data that the signer confirms."""
    file, game = case.file, "neighbour" if case.promise is None else case.promise.game
    unit = None if file is None else file.unit
    parts = ["row" if unit is None else "persons", "apart", game, "always"]
    if file is not None and case.release is None:
        parts.append("studied")
    facts = {
        "unit": unit,
        "counted": "rows" if unit is None else "people",
        "name": None if file is None else file.name,
    }
    texts = words()["must_be_true"]
    return [text.format_map(facts) for part in parts for text in texts[part]]


def costs(case: Case) -> list[str]:
    """Return the measured cost of the protection, if any."""
    if case.about.cost is not None:
        return [case.about.cost]
    remedy = case.remedy
    if remedy is None or remedy.change is None:
        return []
    before = percent(remedy.score_before_estimate, "estimate")
    after = percent(remedy.score_after_estimate, "estimate")
    target = "the target" if case.report is None else f"“{case.report.data.target}”"
    subject = "such a file"
    if remedy.id in ("synthetic", "coarser"):
        subject = "a model trained on such a file"
    what = f"predicts {target} rightly in about {{}} of cases"
    if remedy.score_name != "accuracy":
        what = f"explains about {{}} of the differences in {target} between people"
    return [
        f"In a rehearsal, {subject} {what.format(after)}; without protection, {before}.",
        "Both were measured on rows of the table, so they are for its owner only.",
    ]


def limit(case: Case) -> str:
    """Return the limit, and note if it is only the default."""
    source = case.source
    eta = source.eta if isinstance(source, Publication) else source.question.eta
    blind = 0.5 if case.promise is None else case.promise.blind
    text = (
        f"At most {allowed(blind, eta)} of guesses may be right: {points(eta)} above a pure guess."
    )
    report = case.report
    default = report is not None and report.is_default("eta") and eta == report.question.eta
    if default and case.about.limit_chosen_by is None:
        text += " This is the default of the software. Nobody has chosen it for these people yet."
    return text


def measure(case: Case) -> str:
    """Describe the protection that was applied."""
    if case.file is not None and case.file.noisy:
        drawn = "drawn fresh and is kept nowhere" if case.file.secure else "drawn from a test seed"
        return f"Noise was added when the file was made. It was {drawn}."
    remedy = case.remedy
    return "Nothing." if remedy is None else f"As the study recommends: {remedy.label.lower()}."


def proved_success(case: Case) -> str | None:
    """Return the attack success proved against the unprotected model, if any."""
    if case.report is None:
        return None
    for subject, record, whom in (
        ("given", "average", "people"),
        ("model", "worst", "the person who is easiest to find"),
    ):
        row = case.report.row_of(subject, record)
        if row is not None and row.beaten is not None:
            right = of_hundred(row.beaten, "lower")
            return (
                f"Without protection, a tested attack was right about {whom} at least {right} "
                "times in 100."
            )
    return None


def warnings(case: Case) -> list[str]:
    """Return the reasons not to sign."""
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
    report, release = case.report, case.release
    if report is not None and not report.complete:
        texts.append("The study did not finish. It rests on the steps that did.")
    if report is not None and release is not None and release.promise.game == "neighbour":
        studied, made = report.data.records or report.data.rows, release.rows
        if release.counted == "rows" and made not in (None, studied):
            texts.append(
                f"The file was made from {made} rows, and the study is about {studied} rows."
            )
    return texts


def _plain_words(case: Case) -> dict[str, Any]:
    """Return the plain-language facts of a case, by their names in the templates."""
    return {
        "case": case,
        "what": _what_it_would_be(case) if case.file is None else what_it_is(case, case.file),
        "promised": describe_promise(case),
        "costs": costs(case),
        "exposed": proved_success(case),
        "limit": limit(case),
        "measure": measure(case),
        "must_be_true": must_be_true(case),
        "warnings": warnings(case),
    }


#: Font sizes in points to try, largest first, until the text fits on two pages.
SIZES = (10.5, 9.4, 8.4)


def render_decision(case: Case, size: float = SIZES[0]) -> str:
    """Render the two pages to sign about a released file."""
    promise, remedy = case.promise, case.remedy
    style = template_text("decision.css").replace("PAPER", case.about.paper)
    return fill_page(
        "decision.html.j2",
        style.replace("SIZE", f"{size}pt"),
        right=None if promise is None else of_hundred(promise.accuracy_upper, "upper"),
        blind=None if promise is None else of_hundred(promise.blind, "lower"),
        command=None if remedy is None or case.file is not None else remedy.command,
        check=shlex.join(["sha256sum", "FILE" if case.file is None else case.file.name]),
        **_plain_words(case),
    )


def dpia_annex(case: Case) -> str:
    """Render the annex of an impact assessment, in the order of Article 35(7) GDPR."""
    columns = None
    if case.report is not None:
        columns = ", ".join((*case.report.data.columns, case.report.data.target))
    return fill_markdown("dpia.md.j2", columns=columns, **_plain_words(case))
