"""The documentation opened in a browser from files: accessible, with a working search.

Four pages are built here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from documentation.pages import page
from web.pages_checks import until, violations

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pages of the documentation, built as it is but for the API and the gallery."""
    pytest.importorskip("material", reason="needs the documentation's tools")
    import yaml
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    root = tmp_path_factory.mktemp("site") / "docs"
    root.mkdir()
    for name in ("index.md", "tutorial.md", "theory.md", "glossary.md"):
        (root / name).write_text(page(name), "utf-8")
    for name in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copy(ROOT / "docs" / name, root)
    shutil.copytree(ROOT / "docs/pictures", root / "pictures")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    settings["plugins"] = [name for name in settings["plugins"] if isinstance(name, str)]
    settings["nav"] = [{"Home": "index.md"}, {"First": "tutorial.md"}, {"Tour": "theory.md"}]
    settings["nav"] += [{"Glossary": "glossary.md"}]
    # The links of four pages lead to the others, which are not there.
    settings["validation"] = {"links": {"not_found": "ignore", "anchors": "ignore"}}
    settings |= {"docs_dir": str(root), "site_dir": str(root.parent / "site")}
    (root.parent / "mkdocs.yml").write_text(yaml.safe_dump(settings), "utf-8")
    build(load_config(str(root.parent / "mkdocs.yml"), strict=True))
    return root.parent / "site"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_four_pages(
    site: Path, open_page: Callable[..., Any], scheme: str
) -> None:
    assert faults(site, sorted(site.glob("[gti]*.html")), open_page, scheme) == {}


def test_axe_detects_planted_problems(site: Path, open_page: Callable[..., Any]) -> None:
    """The negative control: faint text and a picture without words are found."""
    source = (site / "index.html").read_text("utf-8")
    faint = '<p style="color: #ddd; background: #fff">faint</p></article>'
    worse = source.replace("</article>", faint)
    (site / "worse.html").write_text(worse.replace(" alt=", " data-alt="), "utf-8")
    found = faults(site, [site / "worse.html"], open_page, "light")["worse.html"]
    assert {text.split(":")[0] for text in found} >= {"color-contrast", "image-alt"}


def test_the_home_page_and_its_formulas(site: Path) -> None:
    source = (site / "index.html").read_text("utf-8")
    home = re.sub("<[^>]*>", "", source)
    for path in ("I train models", "I own a table", "I must choose ε"):
        assert path in home
    assert "pip install" in home
    assert "make study" in home
    assert "pictures/report.png" in source
    tour = (site / "theory.html").read_text("utf-8")
    assert "e<sup>ε</sup>" in tour
    assert "e^" not in tour


def test_nothing_is_fetched_from_a_network(site: Path) -> None:
    """The offline plugin would take a script from a network, and Material its fonts."""
    for path in site.rglob("*.html"):
        scripts = re.findall(
            r"<(?:script|link)\b[^>]*(?:src|href)=\"(https?:[^\"]*)", path.read_text()
        )
        assert not scripts, path.name


def test_the_search_works_without_a_server(site: Path, open_page: Callable[..., Any]) -> None:
    page = open_page((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("advantage")
    until(page, "document.querySelectorAll('.md-search-result__item').length > 0")
    page.complaints.clear()


def faults(
    site: Path, pages: list[Path], open_page: Callable[..., Any], scheme: str
) -> dict[str, list[str]]:
    """Return what axe finds wrong, by page; one browser tab visits them all.

    The pages of the two colour schemes differ in nothing but their colours.
    """
    assert pages
    rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}
    tab = open_page(pages[0].as_uri(), scheme=scheme)
    found = {}
    for path in pages:
        tab.goto(path.as_uri())
        if wrong := violations(tab, **rules):
            found[str(path.relative_to(site))] = wrong
    tab.complaints.clear()
    return found
