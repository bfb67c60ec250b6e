"""``report.html``: the content of ``report.json`` as one page that needs nothing else.

A pure function: the same report gives the same page, without a clock and without a network.  Data
reach the page as escaped text, or as JSON that the page's own script reads; never as markup.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from memberbound.quantities import (
    ONLY_BLIND,
    Mark,
    confident,
    decimals,
    marked,
    percent,
    points,
    significant,
)
from memberbound.report import marks, plots, prose
from memberbound.report.appendix import Block, block_of, sides_of, text_of

__all__ = ["render"]

_TEMPLATES = "templates"


def render(report: dict[str, Any], nonce: str | None = None) -> str:
    """Return the page of a report that ``schema.validate`` accepts.

    The page has one script and one style, both inline; ``nonce`` is put on both, for a server that
    sends a Content-Security-Policy.

    Args:
        report: the content of ``report.json``.
        nonce: a random word of the server's policy.
    """
    drawings = _drawings(report)
    page: str = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            nonce=nonce,
            style=_file("report.css"),
            script=_library() + "\n" + _file("report.js"),
            specs=_json({name: drawing.spec() for name, drawing in drawings.items()}),
            drawings=drawings,
            prose=prose,
            headline=_headline(report),
            steps=_steps(report),
            unfinished=[s for s in report["steps"] if s["state"] in ("failed", "stopped")],
            impossible=[s for s in report["steps"] if s["state"] == "impossible"],
            known={entry["id"] for entry in report["ledger"]},
            settings=_settings(report),
            recipe=_recipe(report),
            surprising=_surprising(report),
            promise=marks.promise(marks.blind_in(report, "subset"), report["question"]["eta"]),
        )
    )
    # A lone surrogate (from a damaged file) cannot be written; it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def _drawings(report: dict[str, Any]) -> dict[str, plots.Drawing]:
    found = (
        plots.sandwich_drawing(report, "average"),
        plots.sandwich_drawing(report, "worst"),
        plots.roc_drawing(report),
        plots.exposure_drawing(report),
        plots.remedies_drawing(report),
        plots.sweep_drawing(report),
    )
    return {drawing.id: drawing for drawing in found if drawing is not None}


def _headline(report: dict[str, Any]) -> list[tuple[str, Mark | None, str]]:
    """Return the numbers below the verdict: what it is, the number, and a few words."""
    asked = report["question"]
    shown: list[tuple[str, Mark | None, str]] = []
    for record in ("average", "worst"):
        for row in report["sandwich"]:
            if row["subject"] == "model" and row["record"] == record:
                floor = marks.floor_of(row)
                beaten = floor is not None and floor.kind == "audit"
                said = "an attack is right" if beaten else ONLY_BLIND
                shown.append((f"As it is, {record} record", floor if beaten else None, said))
    best = next((r for r in report["remedies"] if r["recommended"]), None)
    blind = marks.blind_in(report, report["game"] if best is None else best["game"])
    allowed = marks.allowed_over(blind, asked["eta"])
    words = f"for {prose.whom(asked['record'])}: {marks.promise(blind, asked['eta'])}"
    shown.append(("Allowed in this study", allowed, words))
    if best is None:
        shown.append(("After a remedy", marked(None, "certificate"), "no remedy tried is enough"))
        return shown
    name = "As it is" if best["id"] == "nothing" else "With the remedy"
    upper = marked(best["accuracy_upper"], "certificate")
    shown.append((name, upper, f"for {prose.whom(asked['record'])}: {best['label'].lower()}"))
    if best["loss_estimate"] is not None and best["id"] != "nothing":
        before = marks.score(best["score_before_estimate"])
        after = marks.score(best["score_after_estimate"])
        shown.append(("What it costs", after, f"{best['score_name']}; as it is {before}"))
    elif best["extra_rows"] is not None:
        needed = Mark("given", f"{best['extra_rows']} rows")
        shown.append(("What it costs", needed, "more of the same kind"))
    return shown


def _steps(report: dict[str, Any]) -> list[tuple[dict[str, Any], list[Block]]]:
    found = []
    for step in report["steps"]:
        blocks = [
            block_of(title, step[key], sides_of(step[key].get("command")))
            for key, title in (("result", "Result"), ("audit", "Audit of the release"))
            if step[key] is not None
        ]
        found.append((step, blocks))
    return found


def _settings(report: dict[str, Any]) -> list[tuple[str, str]]:
    asked = [(name, text_of(value)) for name, value in report["question"].items()]
    table = [(f"data.{name}", text_of(value)) for name, value in report["data"].items()]
    run = [(f"run.{name}", text_of(value)) for name, value in report["run"].items()]
    return [*asked, *table, *run, ("memberbound", report["version"]), ("format", report["schema"])]


def _recipe(report: dict[str, Any]) -> str:
    """Return the configuration that asks the same question again."""
    import yaml

    asked = {name: value for name, value in report["question"].items() if value is not None}
    if not report["data"]["embedded"]:
        asked = {"source": report["data"]["name"], **asked}
    said: str = yaml.safe_dump(asked, sort_keys=False, allow_unicode=True)
    return said


def _surprising(report: dict[str, Any]) -> bool:
    """Tell whether an estimate lies above a certified ceiling, which needs a word."""
    return any(
        row["ceiling"] is not None
        and row["estimate"] is not None
        and row["estimate"]["estimate"] > row["ceiling"]["upper"]
        for row in report["sandwich"]
    )


def _json(value: Any) -> str:
    """Return JSON that can stand inside a script element: no character opens or closes a tag."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@lru_cache(maxsize=1)
def _library() -> str:
    """Return Plotly's script; refused if it could end the element that it stands in."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    lowered = text.lower()
    assert "</script" not in lowered
    assert "<!--" not in lowered
    return text


def _file(name: str) -> str:
    place = files("memberbound.report").joinpath(_TEMPLATES, name)
    return place.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["certified"] = lambda value: marked(value, "certificate")
    environment.filters["measured"] = lambda value, blind: marked(value, "audit", blind=blind)
    environment.filters["estimated"] = lambda value: marked(value, "estimate")
    environment.filters["given"] = lambda value: marked(value, "given")
    environment.filters["score"] = marks.score
    # A number and its percent sign stay on one line.
    environment.filters["bound"] = lambda text: text.replace(" %", "\u00a0%").replace(
        "≈ ", "≈\u00a0"
    )
    environment.filters["confident"] = confident
    environment.filters["points"] = points
    environment.filters["blind"] = marks.blind_guess
    environment.filters["short"] = lambda value: significant(value, "given")
    environment.filters["seconds"] = lambda value: decimals(value, "estimate", 1)
    environment.filters["percent_down"] = lambda value: percent(value, "lower")
    environment.filters["down"] = lambda value: significant(value, "lower")
    environment.filters["up"] = lambda value: significant(value, "upper")
    environment.tests["mark"] = lambda value: isinstance(value, Mark)
    return environment
