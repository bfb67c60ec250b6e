"""A report as the section of a model card: Markdown with metadata that machines read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from memberbound.quantities import confident, marked, points, vacuous
from memberbound.report import prose
from memberbound.report.model import (
    Ceiling,
    Data,
    Floor,
    ModelScore,
    Report,
    SandwichRow,
    Seen,
    plain,
)

__all__ = [
    "bullets",
    "clean",
    "escaped",
    "front_matter",
    "model_card",
    "table",
]

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
    seen = (c for c in whole if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return " ".join("".join(seen).split())


def escaped(text: object) -> str:
    """Return a text that Markdown shows as it is, on one line.

    >>> escaped("a|b <c> `d`")
    'a&#124;b &#60;c&#62; &#96;d&#96;'
    >>> escaped("1. x"), escaped("- x")
    ('1&#46; x', '&#45; x')
    """
    # An empty text between two marks would be a mark itself.
    said = "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in clean(text)) or "–"
    said = _ADDRESS.sub(lambda found: f"&#{ord(found.group())};", said)
    first = _FIRST.match(said)
    if first is None:
        return said
    number = first.group(1) or ""
    mark = said[len(number)]
    return f"{number}&#{ord(mark)};{said[len(number) + 1 :]}"


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
# there are the doubles of the report.  In the text an upper bound is rounded up and a lower one
# down.
#
# A card is meant to be published, so it holds less than the report: no record's number, no seed
# (it could tell who was drawn) and no fingerprint of the data (whoever knows all rows but one could
# try them out against it).

#: Metadata, as YAML takes it.
Fields = dict[str, object]
#: Ids of the Hub's metrics for the scores that a study estimates.
_SCORES = {"accuracy": "accuracy", "R²": "r_squared"}
_KINDS = (
    "**≤ certified ceiling**: proved. No attack whatsoever is right more often, in the stated "
    "game, under the assumptions below, with the stated confidence.",
    "**≈ estimate**: neither proved nor bounded. The truth may lie on either side.",
    "**≥ measured floor**: what an attack that was tried reaches at least, with the stated "
    "confidence. Other attacks may reach more, so a low floor is no guarantee.",
)
_ITS_OWN_ROW = (
    "**A ceiling belongs to its own row.** What is proved about a model with noise says nothing "
    "about the model as it is; it holds for what `memberbound protect` releases, with fresh noise. "
    "The models of the study were made for trial and thrown away."
)


def model_card(report: Report) -> str:
    """Return the section: YAML between two lines of dashes, then Markdown."""
    import yaml

    head = yaml.safe_dump(front_matter(report), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{head}---\n\n" + "\n".join(_body(report)) + "\n"


def front_matter(report: Report) -> Fields:
    """Return the metadata as a dictionary: tags and a ``model-index``."""
    data = report.data
    results = []
    if report.scores:
        task = {
            "type": f"tabular-{clean(data.task)}",
            "name": f"Prediction of {clean(data.target)}",
        }
        metrics = [_score_metric(one) for one in report.scores]
        results.append({"task": task, "dataset": _dataset(data), "metrics": metrics})
    metrics = [_metric(row, number) for row in report.sandwich for number in row.numbers]
    if metrics:
        task = {"type": "membership-inference", "name": "Membership inference"}
        results.append({"task": task, "dataset": _dataset(data), "metrics": metrics})
    name = f"{clean(report.question.learner)} on {clean(data.name)}"
    return {
        "tags": ["memberbound", "membership-inference", "privacy"],
        "model-index": [{"name": name, "results": results}],
    }


def _dataset(data: Data) -> Fields:
    size = {"rows": data.rows, "columns": len(data.columns)}
    return {"type": "local-table", "name": clean(data.name), "args": size}


def _score_metric(one: ModelScore) -> Fields:
    return {
        "type": _SCORES.get(one.name, clean(one.name)),
        "value": one.estimate,
        "name": f"{clean(one.label)}: {clean(one.name)} on records not trained on (estimate)",
        "args": {"kind": "estimate", "subject": clean(one.subject)},
    }


def _metric(row: SandwichRow, number: Ceiling | Seen | Floor) -> Fields:
    args: Fields = {
        "kind": number.kind,
        "subject": clean(row.subject),
        "game": clean(row.game),
        "record": clean(row.record),
        "blind_guess": row.blind,
    }
    # What else is known of the number: its confidence, its theorems, its attack, how it was got.
    for name, said in plain(number).items():
        if name not in ("kind", number.side) and said != []:
            args[name] = clean(said) if isinstance(said, str) else said
    return {
        # One type per kind: no ranking can put a ceiling beside a floor by accident.
        "type": f"membership_inference_accuracy_{number.side}",
        "value": number.value,
        "name": f"{clean(row.label)} ({clean(row.record)} record): {number.called}",
        "args": args,
    }


def _body(report: Report) -> list[str]:
    lines = ["## Membership privacy", ""]
    lines += _missing(report)
    said = report.verdict
    lines += [f"**{escaped(said.sentence)}**", "", escaped(said.advice), ""]
    lines += _sandwich(report)
    lines += _remedies(report)
    lines += _translation(report)
    lines += _exposure(report)
    limits = [f"**{title}.** {sentence}" for title, sentence in prose.LIMITS]
    lines += ["### Limits", "", *bullets([_ITS_OWN_ROW, *limits]), ""]
    lines += _assumptions(report)
    return lines + _origin(report)


def _missing(report: Report) -> list[str]:
    if report.complete:
        return []
    lines = ["**This study is partial.** These steps have no answer, so their numbers are missing:"]
    lines += [""]
    lines += bullets(
        f"{escaped(step.title)}: {escaped(step.error)}"
        for step in report.steps_in("failed", "stopped")
    )
    return [*lines, ""]


def _sandwich(report: Report) -> list[str]:
    rows = report.sandwich
    if not rows:
        return ["Nothing was certified, measured or estimated about membership.", ""]
    head = ["what is seen", "record", "game", "blind guess"]
    head += ["≤ certified ceiling", "≈ estimate", "≥ measured floor"]
    cells = [
        [
            *(escaped(row.label), escaped(row.record), escaped(row.game)),
            str(prose.blind_guess(row.blind)),
            _ceiling(row),
            "–" if row.seen is None else f"{row.seen}, estimated",
            _floor(row),
        ]
        for row in rows
    ]
    games = dict.fromkeys(row.game for row in rows)
    return [
        "### How often can anybody be right about who was in the training set?",
        "",
        "Three kinds of numbers stand side by side and must not be mistaken for each other:",
        "",
        *bullets(_KINDS),
        "",
        *table(head, cells),
        "",
        "A dash: there is no such number. The games:",
        "",
        *bullets(f"{escaped(game)}: {prose.GAMES[game]}." for game in games),
        "",
    ]


def _ceiling(row: SandwichRow) -> str:
    if row.ceiling is None:
        return "–"
    if row.most.kind != "certificate":
        return str(row.most)
    names = ", ".join(escaped(id) for id in row.ceiling.theorems)
    text = f"**{row.most}**, certified, confidence {confident(row.ceiling.confidence)}"
    return f"{text}, by {names}" if names else text


def _floor(row: SandwichRow) -> str:
    if row.floor is None:
        return "–"
    text = f"*{row.least}*, measured" if row.beaten else f"{row.least}"
    sure = confident(row.floor.confidence)
    return f"{text}, confidence {sure}, attack {escaped(row.floor.attack)}"


def _remedies(report: Report) -> list[str]:
    listed = report.remedies
    if not listed:
        return []
    asked = report.question
    whom = "any record's" if asked.record == "every" else "the average record's"
    rows = []
    for remedy in listed:
        most = "–"
        if remedy.accuracy_upper is not None:
            most = str(marked(remedy.accuracy_upper, "certificate"))
            if not vacuous(remedy.accuracy_upper):
                whose = "" if remedy.protects is None else f", {escaped(remedy.protects)}"
                most = f"**{most}**, certified{whose}"
        price = remedy.price
        cost = "–" if price is None else f"{escaped(price.name)} {price}, estimated"
        name = escaped(remedy.label) + (" (recommended)" if remedy.recommended else "")
        rows.append([name, "yes" if remedy.enough else "no", most, cost])
    return [
        "### What each remedy promises and costs",
        "",
        f"Asked for: nobody is right about {whom} membership more often than a blind guess by more "
        f"than {points(asked.eta).replace('point', 'percentage point')}.",
        "",
        *table(["remedy", "enough", "≤ certified ceiling", "≈ score"], rows),
        "",
        *_impossible(report),
    ]


def _impossible(report: Report) -> list[str]:
    found = [
        f"Not possible here: {escaped(step.title)}. {escaped(step.error)}"
        for step in report.steps_in("impossible")
    ]
    return [*bullets(found), ""] if found else []


def _translation(report: Report) -> list[str]:
    said = report.translation
    if said is None:
        return []
    lines = ["### In terms of differential privacy", "", escaped(said.sentence)]
    if said.population is not None:
        lines += ["", escaped(said.population.sentence)]
    return [*lines, ""]


def _exposure(report: Report) -> list[str]:
    rows = []
    for entry in report.exposure:
        records = entry.records
        count = records.exposed_records
        all_rows = report.data.rows
        many = f"at least {count} of {all_rows} records are" if count else "no record is"
        rows.append(
            f"{escaped(entry.label)}: {many} provably guessed better than blindly by the "
            f"attacks tried (measured, confidence {confident(records.confidence)})."
        )
    return ["### Who is exposed", "", *bullets(rows), ""] if rows else []


def _assumptions(report: Report) -> list[str]:
    exact = [escaped(sentence) for sentence in report.assumptions]
    if not exact:
        return []
    said = prose.assumed(report)
    lines = ["### Assumptions", "", *bullets(said), ""] if said else ["### Assumptions", ""]
    return [*lines, "As the certificates and audits state them:", "", *bullets(exact), ""]


def _origin(report: Report) -> list[str]:
    data, asked = report.data, report.question
    used = ", ".join(escaped(id) for id in report.theorems) or "none"
    lines = [
        f"Learner {escaped(asked.learner)}, predicting {escaped(data.target)}, on "
        f"{escaped(data.name)}: {data.rows} rows, {len(data.columns)} columns.",
        f"Results that the certificates rest on (`memberbound theorems ID` states them): {used}.",
        f"Made by memberbound {escaped(report.version)} from a study of "
        f"{escaped(report.run.started)}, format {escaped(report.schema)}.",
    ]
    return ["### Where this comes from", "", *bullets(lines)]
