"""What ``export`` writes about a release: a card, two pages to sign, an annex, and evidence.

Everything here is a fact of the certificate or of the study, or says that somebody has to fill it
in.  Formats of others are those of the Hugging Face Hub (``model-index``), of the OpenDP registry
of deployments, of CycloneDX 1.6 and of ACRO, whose files the SACRO viewer shows to output checkers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any

from memberbound.errors import InputError
from memberbound.games import ATTACKERS
from memberbound.quantities import (
    NO_LEAK,
    SIGNS,
    allowed,
    confident,
    marked,
    of_hundred,
    percent,
    points,
    significant,
)
from memberbound.report import prose
from memberbound.report.model import access_floors
from memberbound.report.page import decision_page
from memberbound.report.publication import About, Case, Promise, Publication, ReleasedFile

#: What is not said and nobody can derive.
_FILL = "[to fill in]"

# ── Markdown from texts that may hold anything: names of columns, labels, messages ────────────────
#
# Characters that Markdown, its tables, HTML or mathematics give a meaning to become numeric
# character references, which every renderer shows as the character itself and none reads as markup.

_MARKUP = frozenset("\\`*_{}[]<>|~$&#@")
#: Without these a text at the start of a line would become a list, a heading or a rule.
_FIRST = re.compile(r"^(?:[-+=]|(\d+)[.)](?=\s|$))")
#: Addresses that some renderers turn into links by themselves.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
#: Categories of characters that cannot be seen or turn the direction of what follows.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def clean(text: object) -> str:
    r"""Return a text on one line, without characters that cannot be seen or stored.

    >>> clean("two\nlines, a\u202e turn and half a pair \ud800")
    'two lines, a turn and half a pair �'
    """
    whole = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in str(text))
    visible = (c for c in whole if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return " ".join("".join(visible).split())


def escaped(text: object) -> str:
    """Return a text that Markdown shows as it is, on one line.

    >>> escaped("a|b <c> `d`")
    'a&#124;b &#60;c&#62; &#96;d&#96;'
    >>> escaped("1. x"), escaped("- x")
    ('1&#46; x', '&#45; x')
    """
    # An empty text between two marks would be a mark itself.
    safe = "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in clean(text)) or "–"
    safe = _ADDRESS.sub(lambda mark: f"&#{ord(mark.group())};", safe)
    first = _FIRST.match(safe)
    if first is None:
        return safe
    number = first.group(1) or ""
    return f"{number}&#{ord(safe[len(number)])};{safe[len(number) + 1 :]}"


def bullets(items: Iterable[str]) -> list[str]:
    """Return the lines of a list; the items are Markdown already."""
    return [f"- {item}" for item in items]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


# ── A model card's section on membership: ``model-index`` front matter and Markdown ───────────────
#
# The front matter follows the metadata of the Hugging Face Hub (``model-index``: name, results; a
# result has a task, a dataset and metrics; a metric has a type, a value, a name and args).  Numbers
# there are doubles.  In the text an upper bound is rounded up.

#: Metadata, as YAML takes it.
Fields = dict[str, object]
_OF_RELEASE = (
    "It holds for the file named below, whose certificate lies beside it, and for one release from "
    "these records."
)
_OF_SETTINGS = (
    "It holds against the attacker that the certificate beside the model's file names, and for one "
    "release "
    "from these records. It says nothing about a model that is trained in another way."
)
_NOT_HERE = (
    "**Nothing else is said about the records.** Scores, attacks that were tried and bounds of the "
    "table are computed from the records and paid for by no budget. They are in the report, which "
    "is for the owner of the records."
)


def model_card(published: Publication, stated: Mapping[str, str] | None = None) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    import yaml

    head = yaml.safe_dump(front_matter(published), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{head}---\n\n" + "\n".join(_body(published, stated or {})) + "\n"


def front_matter(published: Publication) -> Fields:
    """Return the metadata as a dictionary: tags and a ``model-index``."""
    size = {published.counted: published.rows, "columns": published.columns}
    args = {name: value for name, value in size.items() if value is not None}
    result = {
        "task": {"type": "membership-inference", "name": "Membership inference"},
        "dataset": {"type": "local-table", "name": clean(published.name), "args": args},
        "metrics": [_metric(published.promise)],
    }
    learner = "" if published.learner is None else f"{clean(published.learner)}, "
    return {
        "tags": ["memberbound", "membership-inference", "privacy"],
        "model-index": [{"name": f"{learner}{clean(published.name)}", "results": [result]}],
    }


def _metric(promise: Promise) -> Fields:
    args: Fields = {
        "kind": "certificate",
        "game": promise.game,
        "protects": promise.protects,
        "blind_guess": promise.blind,
        "confidence": promise.confidence,
    }
    if promise.theorems:
        args["theorems"] = [clean(name) for name in promise.theorems]
    return {
        "type": "membership_inference_accuracy_upper",
        "value": promise.accuracy_upper,
        "name": f"{promise.protects}, {promise.game} game: certified ceiling",
        "args": args,
    }


def _body(published: Publication, stated: Mapping[str, str]) -> list[str]:
    promise = published.promise
    whom = "any record's" if promise.protects == "every record" else "the average record's"
    subject = "This release"
    if published.file is None:
        subject = "A model that `memberbound protect` releases with these settings"
    more = points(published.eta).replace("point", "percentage point")
    attacker = ATTACKERS[promise.game]
    cells = [
        escaped(attacker),
        escaped(promise.protects),
        str(prose.blind_guess(promise.blind)),
        _ceiling(promise),
    ]
    curve = [
        f"At {marked(float(rate), 'given')} false alarms an attack identifies "
        f"{marked(most, 'certificate', 'tpr')} of the members (against {attacker})."
        for rate, most in promise.tpr_upper.items()
    ]
    limits = [f"**{title}.** {sentence}" for title, sentence in prose.RELEASE_LIMITS]
    return [
        "## Membership privacy",
        "",
        f"**{subject} lets nobody be right about {whom} membership in the training set more often "
        f"than a blind guess, by more than {more}.**",
        "",
        _OF_SETTINGS if published.file is None else _OF_RELEASE,
        "",
        *table(["who attacks", "protects", "blind guess", "≤ certified ceiling"], [cells]),
        "",
        *bullets([f"{promise.game}: {prose.GAMES[promise.game]}.", *curve]),
        "",
        "### Limits",
        "",
        *bullets([_NOT_HERE, *limits]),
        "",
        "### Assumptions",
        "",
        *bullets(escaped(text) for text in published.assumptions),
        "",
        *_origin(published, stated),
    ]


def _ceiling(promise: Promise) -> str:
    most = marked(promise.accuracy_upper, "certificate")
    if most.kind != "certificate":
        return str(most)
    text = f"**{most}**, certified, confidence {confident(promise.confidence)}"
    names = ", ".join(escaped(id) for id in promise.theorems)
    return f"{text}, by {names}" if names else text


def _origin(published: Publication, stated: Mapping[str, str]) -> list[str]:
    facts = [
        ("Table" if published.file is None else "Released file", published.name),
        ("Learner", published.learner),
        ("Target", published.target),
        (published.counted.capitalize(), published.rows),
        ("Columns beside the target", published.columns),
        ("memberbound", published.version),
        *((name.replace("_", " "), text) for name, text in stated.items()),
    ]
    lines = [f"{name}: {escaped(value)}" for name, value in facts if value is not None]
    return ["### Where this comes from", "", *bullets(lines)]


# ── In plain words ────────────────────────────────────────────────────────────────────────────────

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
    if file is not None and case.release is None:
        terms.append(f"The file {file.name} is the one that the study speaks of.")
    return terms


def costs(case: Case) -> list[str]:
    """Return what the protection costs, as far as somebody has measured it."""
    if case.about.cost is not None:
        return [case.about.cost]
    remedy = case.remedy
    if remedy is None or remedy.change is None:
        return []
    before = percent(remedy.score_before_estimate, "estimate")
    after = percent(remedy.score_after_estimate, "estimate")
    what = "gives the right answer in about {} of cases"
    if remedy.score_name != "accuracy":
        what = "explains about {} of the differences between people"
    return [
        f"In a rehearsal, such a file {what.format(after)}; without protection, {before}.",
        "Both were measured on rows of the table, so they are for its owner only.",
    ]


def limit(case: Case) -> str:
    """Return the limit, and whether anybody chose it."""
    source = case.source
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
            right = of_hundred(row.beaten, "lower")
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
        if (
            case.release.promise.game == "neighbour"
            and same
            and made is not None
            and made != studied
        ):
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
        return f"**[to fill in: {hint}]**" if value is None else escaped(value)

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
    warned = "\n".join(f"**{escaped(text)}**\n" for text in warnings(case))
    leak = exposed(case)
    cost = " ".join(map(escaped, costs(case))) or asked(None, "what it costs")
    shown = [] if leak is None else [leak]

    def listed(*texts: str, mark: str = "-") -> str:
        return "\n".join(f"{mark} {escaped(text)}" for text in texts)

    return f"""\
# Annex to the data protection impact assessment: {escaped(case.subject)}

This annex covers one risk: that somebody who has the released file finds out whether a person was
in the data it was made from. The assessment itself, other risks, and whether the processing is
lawful, are for the controller. Its parts follow Article 35(7) GDPR.

{warned}
## (a) The processing

{chr(10).join(table(["", ""], described))}

## (b) Necessity and proportion

- Legal basis: {asked(about.legal_basis, "of making and of giving away the file")}
- Why it is needed: {asked(about.necessity, "why less would not do")}
- Cost: {cost}
{listed(*shown)}

## (c) The risk to people

{listed(*promised(case), *rates)}
- How bad it would be for a person to be found: **{_FILL}**
- Not measured here: reconstruction of whole rows, inference of one property of a person, theft of
  the table, misuse of the file.

Not promised:

{listed(*NOT_PROMISED)}

## (d) Measures

{listed(measure(case), limit(case))}
- Chosen by: {asked(about.limit_chosen_by, "name and role")}
- Reason: {asked(about.limit_reason, "why this limit is right for these people")}

What has to be true:

{listed(*must_be_true(case), mark="- [ ]")}

When to look again:

{listed(*LOOK_AGAIN)}
- At the latest: {asked(about.review_on, "a date")}

## What is left

- Residual risk: {asked(about.residual_risk, "small, medium or high, and why")}
- Views of data subjects or their representatives: **{_FILL}**
- Advice of the data protection officer: **{_FILL}**

Made by memberbound {case.source.version}.
"""


# ── Evidence in formats of others ─────────────────────────────────────────────────────────────────

#: Kind of a released file → product of the registry; what is not here is a model.
_PRODUCTS = {"vector": "Summary statistics", "synthetic table": "Synthetic data"}
_UNPROTECTED = (
    "The number of rows (or of persons), the names and types of the columns, and the bounds and "
    "categories that were declared: they are taken as public and are not protected."
)
_FLOATING_POINT = (
    "Noise is drawn from the operating system's source and added on a grid of powers of two whose "
    "step depends on the scale only; what rounding can tell is bounded in total variation and part "
    "of the guarantee."
)
_COMPOSITION = (
    "All noisy sums of the release are Gaussian measurements of one budget: their squared shifts "
    "add up, exactly, to that of the whole (Gaussian differential privacy)."
)


def _file_of(published: Publication, format: str) -> ReleasedFile:
    if published.file is None:
        raise InputError(
            f"report must be the certificate of a release with format {format!r}, or come with "
            "--release; got a study alone, of which nothing is released."
        )
    return published.file


def _unit(file: ReleasedFile) -> str:
    return "one row" if file.unit is None else f"one value of the column {file.unit!r}"


def parameters(published: Publication) -> str:
    """Return what experts ask for: ε, δ and μ with what the single number hides."""
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
    return f"{'; '.join(stated)}; one record replaced."


# ── The registry of deployments ───────────────────────────────────────────────────────────────────


def registry_entry(published: Publication, about: About) -> str:
    """Return an entry of the OpenDP registry of deployments, as YAML; a draft of tier 3.

    Edge cases: a promise about a secret half is no differential privacy, and refused.
    """
    import yaml

    file, promise = _file_of(published, "dp-registry"), published.promise
    if promise.game != "neighbour":
        raise InputError(
            "report must be the certificate of a release of all rows with format 'dp-registry', "
            f"got one of the {promise.game} game, which is no differential privacy."
        )
    size = {"n": published.rows, "unit": published.counted}
    entry: Fields = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", file.name.lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": clean(file.name),
                "data_curators": [about.controller or _FILL],
                "intended_use": about.purpose or _FILL,
                "data_product_type": _PRODUCTS.get(file.kind, "Machine learning model"),
                "data_product_region": about.region or _FILL,
                "description": f"{KINDS.get(file.kind, file.kind)} ({file.kind}), made from a "
                f"table of {size['n']} {size['unit']}; SHA-256 {file.sha256}",
                "publication_date": about.publication_date or _FILL,
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Tables with exactly {size['n']} {size['unit']} and the declared "
                "columns.",
                "unprotected_quantities": _UNPROTECTED,
            },
            "privacy_loss": {
                "privacy_unit": _unit(file),
                "privacy_unit_details": f"Adjacent tables differ in {_unit(file)}, which is "
                "replaced by another; their size is the same.",
                "privacy_parameters": {"epsilon": file.epsilon_upper, "delta": file.delta},
                "privacy_parameters_details": f"{parameters(published)} The whole trade-off curve "
                f"is proved; nobody's guess about membership is right more than "
                f"{percent(promise.accuracy_upper, 'upper')} of the time.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The curator sees the table. Whoever sees the file may know every other "
                "record and work together with others.",
                "release_type": "One release",
                "release_type_details": "Further releases of the same rows add up; a ledger keeps "
                "their sum.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Whatever is computed from the noisy sums; it costs nothing.",
                "composition": _COMPOSITION,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Everything that was learnt from the "
                "rows, for encoding and tuning as well, was paid for from the same budget.",
                "mechanisms": f"Gaussian noise ({file.method}) by memberbound {published.version}."
                f" {_FLOATING_POINT}"
                + ("" if file.secure else " The noise of this file comes from a seed: a test."),
                "justification": about.limit_reason or _FILL,
            },
            "administrative": {
                "notes": "Assumptions: " + " ".join(published.assumptions),
                "registry_authors": list(about.authors) or [_FILL],
            },
        },
    }
    text: str = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=2**20)
    return text


# ── A bill of materials with a model card ─────────────────────────────────────────────────────────


def cyclonedx(published: Publication) -> str:
    """Return a CycloneDX 1.6 document: the released file, with metrics, slices and intervals."""
    file, promise = _file_of(published, "cyclonedx"), published.promise
    metrics = _metrics(promise)
    component: Fields = {
        "type": "data" if file.kind in _PRODUCTS else "machine-learning-model",
        "name": clean(file.name),
        "hashes": [{"alg": "SHA-256", "content": file.sha256}],
    }
    expert = {
        "game": promise.game,
        "protects": promise.protects,
        "theorems": ", ".join(promise.theorems),
        "confidence": confident(promise.confidence),
        "parameters": parameters(published),
    }
    properties = [{"name": f"memberbound:{k}", "value": clean(v)} for k, v in expert.items()]
    if file.kind in _PRODUCTS:
        component["data"] = [{"type": "dataset", "name": clean(file.name)}]
        properties += [
            {"name": f"memberbound:{m['type']} ({m['slice']})", "value": m["value"]}
            for m in metrics
        ]
    else:
        component["modelCard"] = {
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": {
                "technicalLimitations": [clean(text) for text in published.assumptions],
                "ethicalConsiderations": [
                    {
                        "name": "Somebody finds out who was in the training data",
                        "mitigationStrategy": f"Noise in training. {parameters(published)}",
                    }
                ],
            },
        }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "memberbound", "version": published.version}
                ]
            }
        },
        "components": [component | {"properties": properties}],
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _metrics(promise: Promise) -> list[dict[str, Any]]:
    """Return the certified numbers: each value is an upper bound, its interval starts at chance."""
    whom = f"{promise.protects}, {promise.game} game"
    bounds = [("accuracy", whom, promise.blind, promise.accuracy_upper)]
    for fpr, most in promise.tpr_upper.items():
        bounds.append(
            ("true positive rate", f"{whom}, false positive rate {fpr}", float(fpr), most)
        )
    return [
        {
            "type": f"membership inference {name}, certified upper bound",
            "value": repr(most),
            "slice": part,
            "confidenceInterval": {"lowerBound": repr(least), "upperBound": repr(most)},
        }
        for name, part, least, most in bounds
    ]


# ── What an output checker sees ───────────────────────────────────────────────────────────────────

#: The version of ACRO whose files these are.
_ACRO = "1.0.1"


def sacro_record(case: Case) -> str:
    """Return ``results.json`` as ACRO writes it, for the folder of the released file.

    The status is ``review``, because a checker decides; it is ``fail`` where an attack on a given
    model succeeded or a structural rule is broken.
    """
    given = None if case.report is None else case.report.answer("given")
    if case.file is None and given is None:
        raise InputError(
            "report must be the certificate of a release with format 'sacro', or a study with "
            "--release or of a given model; got a study of which nothing is released."
        )
    outcome: dict[str, object] = {}
    failed = case.file is not None and not case.file.secure
    comments: list[str] = []
    if case.file is not None:
        comments += promised(case)
        name = case.file.name
        facts: dict[str, object] = {"kind": case.file.kind, "sha256": case.file.sha256}
        if case.release is not None:
            promise = case.release.promise
            facts |= {
                "accuracy_upper": promise.accuracy_upper,
                "confidence": promise.confidence,
                "protects": promise.protects,
                "parameters": parameters(case.release),
            }
    else:
        assert given is not None
        name, facts = case.studied.question.model or "model", {"kind": "given model"}
    if given is not None and case.file is None:
        for access, _, _, floor in access_floors(given):
            beaten = floor is not None and floor > 0.5
            failed = failed or beaten
            least = SIGNS["lower"] + percent(floor or 0.5, "lower") if beaten else NO_LEAK
            outcome[f"attack seeing {access}"] = least
        for fact in given["facts"]:
            failed = failed or not fact["passes"]
            state = "passed" if fact["passes"] else "failed"
            outcome[fact["name"]] = f"{state}: {fact['value']} ({fact['rule']})"
        comments += given["warnings"]
    record = {
        "uid": "output_0",
        "status": "fail" if failed else "review",
        "type": "custom",
        "properties": {"method": "memberbound"} | facts,
        "files": [{"name": clean(name), "sdc": {}}],
        "outcome": outcome,
        "command": "memberbound export --format sacro",
        "summary": "; ".join(f"{k}: {v}" for k, v in outcome.items()) or f"review; {comments[0]}",
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "comments": [clean(text) for text in comments],
        "exception": "",
        "fair": {},
    }
    document = {"version": _ACRO, "results": {"output_0": record}}
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


# ── Which line answers which question ─────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def _questions() -> list[dict[str, Any]]:
    import yaml

    text = files("memberbound.report").joinpath("templates", "checklist.yaml").read_text("utf-8")
    questions: list[dict[str, Any]] = yaml.safe_load(text)
    return questions


def checklist(case: Case) -> str:
    """Return which line of ours answers which question of four standards, and which it does not."""
    promise, file = case.promise, case.file
    if promise is None:
        raise InputError(
            "report must recommend a release with format 'checklist', got a study in which nothing "
            "keeps the limit."
        )
    private = promise.game == "neighbour" and case.release is not None
    published = case.published
    given = "No parameters of differential privacy are certified."
    facts = {
        "success": percent(promise.accuracy_upper, "upper"),
        "blind": percent(promise.blind, "upper"),
        "whom": "every record (maximum)" if promise.protects == "every record" else "the average",
        "attacker": f"{ATTACKERS[promise.game].capitalize()}.",
        "rows": case.size or "– rows",
        "unit": "what is protected is " + ("one row." if file is None else f"{_unit(file)}."),
        "private": "answered" if private else "not answered",
        "parameters": parameters(published) if private else given,
        "theorems": ", ".join(promise.theorems) or "as the report lists them",
        "change": measure(case),
        "cost": " ".join(costs(case)) or "not measured.",
        "digest": "no file yet" if file is None else f"SHA-256 {file.sha256}",
        "attacks": "The study attacked models of this kind; its report has the attack success.",
    }
    lines = [
        f"# Checklist: {escaped(case.subject)}",
        "",
        "Which line of ours answers which question, and which it does not. The questions are "
        "paraphrased; the texts themselves count. “Answered” means that there is a number or a "
        "fact, not that anybody has approved it.",
    ]
    for standard in _questions():
        rows = []
        for row in standard["rows"]:
            studied = case.report is not None
            answer = row.get("study", row["answer"]) if studied else row["answer"]
            line = row.get("with_study", row["line"]) if studied else row["line"]
            cells = (row["ref"], row["asks"], answer.format(**facts), line.format(**facts))
            rows.append([escaped(cell) for cell in cells])
        lines += ["", f"## {standard['title']}", "", f"{standard['source']}", ""]
        lines += table(["", "question", "answer", "line"], rows)
    return "\n".join([*lines, "", f"Made by memberbound {case.source.version}."]) + "\n"
