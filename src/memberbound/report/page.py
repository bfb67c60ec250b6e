"""``report.html``: the content of ``report.json`` as one page that needs nothing else.

A pure function: the same report gives the same page, without a clock and without a network.  Data
reach the page as escaped text, or as JSON that the page's own script reads; never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, MemberboundError
from memberbound.files import PrivateFolder
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
    Report,
    Result,
    access_floors,
    allowed_over,
    blind_guess,
    score_mark,
)

if TYPE_CHECKING:
    from jinja2 import Environment


def render(
    report: Report, nonce: str | None = None, *, stated: Mapping[str, str] | None = None
) -> str:
    """Return the page of a report.

    The page has one script and one style, both inline, and a Content-Security-Policy of its own
    that allows exactly these two, by their hashes; ``nonce`` is put on both, for a server that
    sends a policy as well.  Without scripts everything is there.

    Args:
        report: the content of ``report.json``.
        nonce: a random word of the server's policy.
        stated: further settings to list: the released file, and what people said about it.
    """
    given = report.answer("given")
    return filled_page(
        "report.html.j2",
        template_text("report.css"),
        template_text("report.js"),
        report=report,
        nonce=nonce,
        charts=charts.charts_of_report(report),
        assumed=_assumed(report),
        given=given,
        **_given_rows(given),
        explained=report.answer("explain"),
        population=report.answer("population"),
        sentences={step.id: step.sentence for step in report.steps},
        headline=_headline(report),
        people=_people(report),
        unfinished=report.steps_in("failed", "stopped"),
        impossible=report.steps_in("impossible"),
        settings=[*_settings(report), *(stated or {}).items()],
        recipe=_recipe(report),
        exposed=_exposed(report),
        promise=_promise(report.blind_in("subset"), report.question.eta),
    )


def filled_page(template: str, style: str, script: str = "", **content: Any) -> str:
    """Return an HTML template with its content, and a policy that allows these two texts only."""
    policy = _policy(style, script)
    filled = environment().get_template(template)
    page = filled.render(style=style, script=script, policy=policy, words=words(), **content)
    # A lone surrogate (from a damaged file) cannot be written; it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def _assumed(report: Report) -> list[str]:
    """Return the assumptions in plain words, of the steps that gave an answer."""
    steps = [step.id for step in report.steps_in("done")]
    return list(dict.fromkeys(text for step in steps for text in words()["assumed"][step]))


def _promise(blind: float, eta: float) -> str:
    """Return where the allowed share comes from.

    >>> _promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"


def _people(report: Report) -> list[tuple[str, int, int, Kind, str]]:
    """Return how many of 100 guesses are right: about the model as it is, and with the remedy.

    Title, right ones, those that a blind guess gets right, kind and words: a picture for whoever
    does not think in per cent.
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
    """Return the numbers below the verdict: what it is, the number, and a few words.

    What is allowed, what is proved, what it costs; then what attacks reached, every record first.
    """
    best, eta = report.recommended, report.question.eta
    blind = report.blind_in(report.game if best is None else best.game)
    default, whom = report.defaulted("eta"), words()["whom"]
    whose = "memberbound's default, which nobody chose" if default else "chosen by you"
    text = f"for {whom}: {_promise(blind, eta)}; {whose}"
    shown: list[tuple[str, Mark | None, str]] = [
        ("Limit of this study", allowed_over(blind, eta), text)
    ]
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
        if not row.beaten and row.observed is not None and row.observed > row.blind + eta:
            text += f"; the best attack reached {row.seen}, more models (--shadows) may show it"
        name = f"{row.label}, {RECORDS[row.record]}"
        shown.append((name, row.least if row.beaten else None, text))
    return shown


def _given_rows(answer: Result | None) -> dict[str, Sequence[tuple[str | Mark, ...]]]:
    """Return the tables about a given model: floors by access, and facts for output checking."""
    if answer is None:
        return {}
    access = [
        (
            words()["access"].get(level, level),
            attack,
            marked(estimate, "estimate"),
            "no floor: not comparable" if floor is None else marked(floor, "audit", blind=0.5),
        )
        for level, attack, estimate, floor in access_floors(answer)
    ]
    keys = ("name", "value", "rule", "passes", "reason")
    facts = [tuple(_text(fact[key]) for key in keys) for fact in answer["facts"]]
    return {"access": access, "facts": facts}


def _exposed(report: Report) -> dict[str, Any] | None:
    """Return how many records are above the limit, by chance alone, and shown to be exposed."""
    answer = report.answer("audit")
    if report.exposure is None or answer is None:
        return None
    records: Result = answer["records"]
    allowed = records["blind_accuracy"] + report.question.eta
    edge, above, by_chance = charts.count_above(report.exposure, records, allowed)
    proved = [record for record in records["most_exposed"] if record["proved"]]
    counted = {"edge": edge, "above": above, "by_chance": by_chance}
    return {**records, **counted, "proved": proved}


def _settings(report: Report) -> list[tuple[str, str]]:
    parts: dict[str, Any] = {"": report.question, "data.": report.data, "run.": report.run}
    settings = [
        (f"{prefix}{field.name}", _text(getattr(part, field.name)))
        for prefix, part in parts.items()
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
    """Return the configuration that asks the same question again."""
    import yaml

    options = {name: value for name, value in asdict(report.question).items() if value is not None}
    if not report.data.embedded:
        options = {"source": report.data.name, **options}
    text: str = yaml.safe_dump(options, sort_keys=False, allow_unicode=True)
    return text


def _policy(style: str, script: str) -> str:
    """Return a policy under which nothing runs, and nothing is loaded, but these two texts."""

    def hashed(text: str) -> str:
        digest = hashlib.sha256(f"\n{text}\n".encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; "
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


# ── PDF, through the print of a browser that is there already ─────────────────────────────────────
#
# The page is rendered into a private folder and printed by a headless Chromium, Chrome or Edge with
# a profile of its own, which is thrown away, and without a network.

#: Commands of Debian, Fedora, the makers' packages and Windows.
_COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
)
#: Where macOS and Windows keep browsers that are on no search path.
_PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe",
)
_QUIET = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # containers give it little room
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pdf-header-footer",
    # The report needs no network; nothing that it holds is to reach one.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
#: Milliseconds of the page's own clock for its figures; it runs as fast as the work allows.
_DRAWING = 30_000
_SECONDS = 180.0
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def find_browser(path: str | os.PathLike[str] | None = None) -> str:
    """Return the browser to print with: the one named, there or in CHROME_BIN, or the first."""
    path = path or os.environ.get("CHROME_BIN")
    if path is not None:
        program = shutil.which(str(path))
        if program is None:
            raise InputError(f"CHROME_BIN must be a program that can be run, got {str(path)!r}.")
        return program
    places = (os.path.expandvars(place) for place in _PLACES)
    for candidate in (*_COMMANDS, *places):
        program = shutil.which(candidate)
        if program is not None:
            return program
    raise InputError(
        "a PDF needs Chromium, Chrome or Edge, and none was found. Install one (on Debian: apt-get "
        "install chromium), name it in the variable CHROME_BIN, or print the page from any browser."
    )


def print_pdf(
    page: str,
    *,
    browser: str | os.PathLike[str] | None = None,
    least: int = 1,
    seconds: float = _SECONDS,
) -> bytes:
    """Return a page as PDF; fewer sheets than it must have are taken for a failure.

    Args:
        page: the HTML, which needs nothing else.
        browser: the program; searched for unless given.
        least: number of sheets at least.
        seconds: time limit.
    """
    program = find_browser(browser)
    with PrivateFolder() as folder:
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        _run([program, *_flags(folder, target), source.as_uri()], folder, seconds)
        printed = target.read_bytes() if target.is_file() else b""
    if not printed.startswith(b"%PDF-") or b"%%EOF" not in printed[-1024:]:
        raise MemberboundError(
            f"{program} printed no PDF. Where its sandbox is not allowed, as in some containers, "
            "print report.html from another browser."
        )
    if page_count(printed) < least:
        raise MemberboundError(f"{program} printed {page_count(printed)} pages, too few.")
    return printed


def page_count(printed: bytes) -> int:
    """Return the number of pages of a PDF as browsers write it, with plain page objects."""
    return len(_PAGE.findall(printed))


def _flags(folder: Path, target: Path) -> list[str]:
    flags = [
        *_QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--virtual-time-budget={_DRAWING}",
        f"--print-to-pdf={target}",
    ]
    # Chromium refuses to run as root with its sandbox, and only then it may be left out.
    if sys.platform != "win32" and os.geteuid() == 0:
        flags.append("--no-sandbox")
    return flags


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run the browser to its end or to the time limit, with all the processes that it starts."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            code = process.wait(timeout=seconds)
        except BaseException as problem:
            _end(process)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise MemberboundError(
                    f"{command[0]} did not print within {seconds:g} seconds."
                ) from None
            raise
    if code != 0:
        raise MemberboundError(f"{command[0]} ended with code {code} and printed nothing.")


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # The session is the browser's own, so this ends its helpers and nobody else.
        os.killpg(process.pid, signal.SIGKILL)
