"""Properties of every page, checked in the browser itself."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

#: Defects that axe does not detect: values not meant for people, and content that is too wide.
_CHECKS = """() => {
  const raw = document.body.innerText.match(/\\b(undefined|NaN|null|Infinity)\\b|\\[object/g) ?? [];
  const { scrollWidth, clientWidth } = document.documentElement;
  const wide = scrollWidth > clientWidth ? [`${scrollWidth} px in ${clientWidth} px`] : [];
  return { raw, wide };
}"""


def shortcomings(page: Any) -> list[str]:
    """Return content that readers must not see; :func:`violations` covers accessibility."""
    found: dict[str, list[str]] = page.evaluate(_CHECKS)
    return [f"{name}: {text}" for name, texts in found.items() for text in texts]


def violations(page: Any, **options: object) -> list[str]:
    """Return axe's violations on a page: the rule's id and its first location."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
        for rule in Axe()
        .run(page, options={"resultTypes": ["violations"], **options})
        .response["violations"]
    ]


def until(page: Any, expression: str, seconds: float = 120) -> None:
    """Wait until an expression holds; Playwright's own way needs eval, which the policy refuses."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def download(page: Any, button: str, folder: Path) -> Path:
    """Press a button (or link) and return the file that the browser saved."""
    with page.expect_download() as waiting:
        page.locator("button, a.button").filter(has_text=button).locator(
            "visible=true"
        ).last.click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def cli(command: str, folder: Path) -> dict[str, Any]:
    """Run a command line that the page shows, as a user would paste it, with ``--json``."""
    from typer.testing import CliRunner

    from memberbound.faces.command_line import application

    name, *words = shlex.split(command, comments=True)
    assert name == "memberbound"
    with chdir(folder):
        done = CliRunner().invoke(application(), [*words, "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
