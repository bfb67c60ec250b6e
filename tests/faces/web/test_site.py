"""The documentation as a browser opens it from files: for everybody, and with a search that finds.

Needs ``make docs`` first; ``make test-long`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from web.pages_checks import until, violations

SITE = Path(__file__).parents[3] / "site"
# The page for wrong addresses is only served, and its address is the server's.
PAGES = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(not PAGES, reason="the documentation is not built: make docs"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(open_page: Callable[..., Any], scheme: str) -> None:
    page = open_page(PAGES[0].as_uri(), scheme=scheme)
    found = {}
    for path in PAGES:
        page.goto(path.as_uri())
        found[str(path.relative_to(SITE))] = violations(page)
    page.complaints.clear()
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_the_search_works_without_a_server(open_page: Callable[..., Any]) -> None:
    page = open_page((SITE / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("advantage")
    until(page, "document.querySelectorAll('.md-search-result__item').length > 0")
    page.complaints.clear()
