"""Render ``report.html``, a self-contained page with the content of ``report.json``.

Rendering is a pure function: equal reports give equal pages, without a clock or network.  Data
enter the page as escaped text, or as JSON for the page's own script, and never as markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields
from functools import cache
from typing import TYPE_CHECKING

from memberbound.quantities import (
    NO_LEAK,
    Kind,
    Mark,
    at_confidence,
    confident,
    decimals,
    marked,
    of_hundred,
    percent,
    points,
    significant,
    vacuous,
)
from memberbound.report import charts, template_text, words
from memberbound.report.model import (
    RECORDS,
    Data,
    Question,
    Report,
    Run,
    blind_guess,
    score_mark,
)
from memberbound.report.views import GivenView

if TYPE_CHECKING:
    from jinja2 import Environment


def render(
    report: Report, nonce: str | None = None, *, stated: Mapping[str, str] | None = None
) -> str:
    """Render the page of a report.

    The page has one script and one style, both inline, and a Content-Security-Policy of its own
    that allows only these two, by their hashes; both carry ``nonce``, for a server that sends a
    policy as well.  Without scripts, the page still has all content.

    Args:
        report: the content of ``report.json``.
        nonce: a random word of the server's policy.
        stated: further settings to list: the released file, and statements of its owner.
    """
    return fill_page(
        "report.html.j2",
        template_text("report.css"),
        template_text("report.js"),
        report=report,
        nonce=nonce,
        charts=charts.charts_of_report(report),
        assumed=_assumptions(report),
        given=report.given,
        **_given_rows(report.given),
        explained=report.explained,
        population=report.population,
        sentences={step.id: step.sentence for step in report.steps},
        headline=_headline(report),
        people=_people(report),
        unfinished=report.steps_in("failed", "stopped"),
        impossible=report.steps_in("impossible"),
        settings=[*_settings(report), *(stated or {}).items()],
        recipe=_recipe(report),
        exposed=_count_exposed(report),
        limit=report.limit[1],
    )


def fill_page(template: str, style: str, script: str = "", **content: object) -> str:
    """Fill an HTML template, with a policy that allows only this style and script."""
    policy = _policy(style, script)
    filled = environment().get_template(template)
    page = filled.render(style=style, script=script, policy=policy, words=words(), **content)
    # A lone surrogate (from a damaged file) cannot be written, so it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def _assumptions(report: Report) -> list[str]:
    """Return the assumptions of all answered steps, in plain words."""
    steps = [step.id for step in report.steps_in("done")]
    return list(dict.fromkeys(text for step in steps for text in words()["assumed"][step]))


def _promise(blind: float, eta: float) -> str:
    """Explain the allowed share.

    >>> _promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"


def _people(report: Report) -> list[tuple[str, int, int, Kind, str]]:
    """Return the number of right guesses out of 100, without and with the remedy.

    Each entry is (title, right guesses, right blind guesses, kind, text), for a picture that needs
    no percentages.
    """
    people: list[tuple[str, int, int, Kind, str]] = []
    row = report.row_of("given", "average") or report.row_of("model", "worst")
    if row is not None and row.beaten is not None:
        right, blind = (of_hundred(value, "lower") for value in (row.beaten, row.blind))
        text = f"Of 100 guesses about the {RECORDS[row.record]}, at least {right} are right"
        people.append((row.label, right, blind, "audit", text))
    best = report.recommended
    if best is not None and best.accuracy_upper is not None and not vacuous(best.accuracy_upper):
        right = of_hundred(best.accuracy_upper, "upper")
        whom = "any record, the most exposed one included,"
        text = f"Of 100 guesses about {whom} at most {right} are right"
        title = "As it is" if best.id == "nothing" else f"With {best.label.lower()}"
        blind = min(right, of_hundred(report.blind_in(best.game), "lower"))
        people.append((title, right, blind, "certificate", text))
    return people


def _headline(report: Report) -> list[tuple[str, Mark | None, str]]:
    """Return the headline numbers as (name, number, comment).

    First the limit, the certified bound and its cost; then attack success, every record first.
    """
    best, eta = report.recommended, report.question.eta
    blind = report.blind_in(report.game if best is None else best.game)
    default, whom = report.is_default("eta"), words()["whom"]
    whose = "memberbound's default, not chosen by you" if default else "chosen by you"
    text = f"for {whom}: {_promise(blind, eta)}; {whose}"
    shown: list[tuple[str, Mark | None, str]] = [("Limit of this study", report.limit[1], text)]
    if best is None:
        text = "no remedy tried is enough and leaves a useful model"
        shown.append(("After a remedy", marked(None, "certificate"), text))
    else:
        name = "As it is" if best.id == "nothing" else "With the remedy"
        sure = "" if best.confidence is None else at_confidence(best.confidence)
        sure = sure or ", certain if the assumptions hold"
        text = f"for {whom}: {best.label.lower()}{sure}"
        shown.append((name, marked(best.accuracy_upper, "certificate"), text))
        if best.change is not None and best.id != "nothing":
            text = f"{best.score_name} {best.after}; {report.usual} {best.before}"
            name = "What it gains" if (best.loss_estimate or 0) < 0 else "What it costs"
            shown.append((name, best.change, text))
    given = report.row_of("given", "average")
    rows = [given] if given else [report.row_of("model", r) for r in ("worst", "average")]
    for row in rows:
        if row is None:
            continue
        text = "an attack is right" if row.beaten else NO_LEAK
        if not row.beaten and row.observed is not None and row.observed > report.limit[0]:
            text += f"; the best attack reached {row.seen}, more models (--shadows) may show it"
        name = f"{row.label}, {RECORDS[row.record]}"
        shown.append((name, row.least if row.beaten else None, text))
    return shown


def _given_rows(answer: GivenView | None) -> dict[str, Sequence[tuple[str | Mark, ...]]]:
    """Return the tables about a given model: floors by access, and facts for output checking."""
    if answer is None:
        return {}
    access = [
        (
            words()["access"].get(floor.access, floor.access),
            floor.attack,
            marked(floor.estimate, "estimate"),
            "no floor: not comparable"
            if floor.lower is None
            else marked(floor.lower, "audit", blind=0.5),
        )
        for floor in answer.access_floors()
    ]
    facts = [tuple(map(_text, astuple(fact))) for fact in answer.facts]
    return {"access": access, "facts": facts}


def _count_exposed(report: Report) -> dict[str, object] | None:
    """Return the numbers of records above the limit: observed, by chance, and proved exposed."""
    if report.exposure is None or report.audit is None:
        return None
    records = report.audit.records
    edge, above, by_chance = charts.count_above(report.exposure, records, report.limit[0])
    proved = [record for record in records.most_exposed if record.proved]
    worst = report.row_of("model", "worst")
    counted: dict[str, object] = {"edge": edge, "above": above, "by_chance": by_chance}
    counted["worst_record"] = None if worst is None else worst.accuracy_estimate
    return {**vars(records), **counted, "proved": proved}


def _settings(report: Report) -> list[tuple[str, str]]:
    parts: list[tuple[str, Question | Data | Run]] = [
        ("", report.question),
        ("data.", report.data),
        ("run.", report.run),
    ]
    settings = [
        (f"{prefix}{field.name}", _text(getattr(part, field.name)))
        for prefix, part in parts
        for field in fields(part)
    ]
    return [*settings, ("memberbound", report.version), ("format", report.schema)]


def _text(value: object) -> str:
    """Return a setting on one line."""
    if value is None or value in ((), {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value, "given")
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(item)}" for name, item in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, tuple) else str(value)


def _recipe(report: Report) -> str:
    """Return the YAML configuration that repeats the study."""
    import yaml

    options = {name: value for name, value in asdict(report.question).items() if value is not None}
    if not report.data.embedded:
        options = {"source": report.data.name, **options}
    text: str = yaml.safe_dump(options, sort_keys=False, allow_unicode=True)
    return text


def _policy(style: str, script: str) -> str:
    """Return a policy that allows this style and script only, and no loading."""

    def hash_source(text: str) -> str:
        digest = hashlib.sha256(f"\n{text}\n".encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; style-src {hash_source(style)}; script-src {hash_source(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def environment() -> Environment:
    """Return the environment of all templates; values in HTML are escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "certified": lambda value, what="accuracy": marked(value, "certificate", what),
        "measured": lambda value, blind: marked(value, "audit", blind=blind),
        "estimated": lambda value: marked(value, "estimate"),
        "given": lambda value: marked(value, "given"),
        "score": score_mark,
        "blind_guess": blind_guess,
        # A number and its percent sign stay on one line.
        "bound": lambda text: text.replace(" %", "\u00a0%").replace("≈ ", "≈\u00a0"),
        "confident": confident,
        "points": points,
        "short": lambda value: significant(value, "given"),
        "seconds": lambda value: decimals(value, "estimate", 1),
        "percent_down": lambda value: percent(value, "lower"),
        "percent_up": lambda value: percent(value, "upper"),
        "down": lambda value: significant(value, "lower"),
    }
    environment.tests["mark"] = lambda value: isinstance(value, Mark)
    return environment
