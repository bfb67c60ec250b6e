"""The pages that scripts/documentation writes: every id has its anchor, every link a target.

Each check returns its complaints, so that it can also be fed a broken page.  The strict build
(``make docs``) checks that mkdocs accepts the pages.
"""

from __future__ import annotations

import doctest
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from documentation import formulas, theorems
from memberbound.papers.results import entries, errata

ROOT = Path(__file__).resolve().parents[2]
VOID = {"br", "wbr", "input", "meta", "img", "hr"}


PAGES: dict[str, str] = theorems.pages()


class Reader(HTMLParser):
    """Anchors, links and rows of the raw HTML in a page; complains about tags left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.rows: list[str] = []
        self.open: list[str] = []
        self.problems: list[str] = []
        self.feed(text)
        self.problems += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("id"):
            self.anchors.append(str(attributes["id"]))
        if attributes.get("href"):
            self.links.append(str(attributes["href"]))
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += data


@cache
def anchors(page: str) -> frozenset[str]:
    """Anchors of raw HTML and of Markdown headings."""
    text = PAGES[f"{page}.md"]
    return frozenset([*Reader(text).anchors, *re.findall(r"\{ #([\w.-]+) \}", text)])


def anchor_problems(text: str, wanted: set[str]) -> list[str]:
    counts = Counter(Reader(text).anchors)
    problems = [f"{key} has {n} anchors" for key, n in counts.items() if n > 1]
    return problems + [f"{key} has no anchor" for key in sorted(wanted - set(counts))]


def link_problems(page: str, text: str) -> list[str]:
    """Links of the raw HTML lead to an anchor of a generated page."""
    problems = []
    for link in Reader(text).links:
        path, _, anchor = link.partition("#")
        target = path.removesuffix(".html") or page
        if f"{target}.md" not in PAGES:
            problems.append(f"{link}: no such page")
        elif anchor and anchor not in anchors(target):
            problems.append(f"{link}: no such anchor")
    return problems


IDS = {name for entry in entries() for name in (entry.id, *entry.also)}


def test_every_id_and_every_equation_has_one_anchor():
    assert anchor_problems(PAGES["theorems.md"], IDS) == []
    assert anchor_problems(PAGES["errata.md"], set(errata())) == []


@pytest.mark.parametrize("page", ["theorems", "errata"])
def test_links_lead_somewhere_and_tags_are_closed(page):
    text = PAGES[f"{page}.md"]
    assert Reader(text).problems == []
    assert link_problems(page, text) == []
    assert len(Reader(text).links) > 50


def test_a_row_shows_its_whole_entry():
    rows = {row.split(" ·")[0]: row for row in Reader(PAGES["theorems.md"]).rows}
    for entry in entries():
        row = rows[entry.id]
        assert entry.status in row
        plain = " ".join(entry.statement.split())
        assert re.sub(r"proofs/([\w-]+)\.md", r"proof: \1", plain) in row, entry.id
        assert all(path.removeprefix("memberbound.") in row for path in entry.code)
        assert all(path.removeprefix("tests/").split("::")[-1] in row for path in entry.tests)
        assert (entry.reason or "") in row
        if entry.status == "erratum":
            assert f'href="errata.html#{entry.id}"' in PAGES["theorems.md"]


@pytest.mark.parametrize(
    ("written", "emphasised"),
    [
        ("*Proof.* Let TPR*(α) ≤ t* and K* be.", ["Proof."]),
        ("P̂_n is the mean, U_{n_i} a bound, S_{<i} has and S_{>i} too", []),
        ("**Claim (a).** m* ≤ x·y* holds; *see* `a_b*c*` and [x_1](two-sample.md)", ["see"]),
        ("so (*) is x_1", []),
    ],
)
def test_formulas_survive_the_sites_markdown(written, emphasised):
    markdown = pytest.importorskip("markdown", reason="comes with mkdocs")
    html = markdown.markdown(theorems._for_site(written))
    seen = Reader(f"<table><tr>{html}</tr></table>")
    assert re.findall(r"<em>(.*?)</em>", html) == emphasised
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", written).replace("`", "").replace("**", "")
    for word in emphasised:
        plain = plain.replace(f"*{word}*", word)
    assert seen.rows[-1] == plain


# Formulas


@pytest.mark.parametrize(
    "verbatim",
    [
        "`e^ε` stays",
        "```\ne^ε\n```",
        "    e^ε",
        "[text](x_1.md#y_2)",
        '<a id="x_1"></a>',
        "<style>.x_1 { a^2 }</style>",
        "---\nx_1: 2^3\n---",
        "## A { #x_1 }",
        "names_with_underscores, MODEL",
    ],
)
def test_code_and_formulas_stay(verbatim):
    assert formulas.set_formulas(verbatim) == verbatim
    assert formulas.set_formulas(f"{verbatim}\n\nand x_1") == f"{verbatim}\n\nand x<sub>1</sub>"


def test_the_examples_of_formulas_hold():
    assert doctest.testmod(formulas) == (0, 2)


# Broken variants


def test_missing_anchors_and_dead_links_are_caught():
    text = PAGES["theorems.md"]
    assert anchor_problems(text.replace('id="A25-T14"', 'id="A25-T15"'), IDS)
    assert anchor_problems(text + '<p id="A25-T14"></p>', IDS)
    assert link_problems("theorems", '<a href="errata.html#A25-T14">no erratum</a>')
    assert link_problems("theorems", '<a href="nothing.html">no page</a>')
    assert Reader("<table><tr></table>").problems


# In a browser, as a file


@pytest.mark.browser
def test_the_filter_hides_other_rows(open_page, tmp_path):
    file = tmp_path / "results.html"
    body = PAGES["theorems.md"].split("## A25", 1)
    table = body[1].split("\n", 1)[1]
    file.write_text(
        f"<!doctype html><meta charset=utf-8>{theorems.STYLE}{theorems.FILTER}{table}",
        encoding="utf-8",
    )
    page = open_page(file.as_uri(), width=390)
    rows = page.locator(".results tbody tr")
    everything = len(entries())
    assert rows.count() == everything
    box = page.locator(".results-filter input")
    box.fill("a25-t14 worst")
    visible = page.locator(".results tbody tr:visible")
    named = [e for e in entries() if "A25-T14" in f"{e.id} {e.statement}"]
    assert 1 <= visible.count() <= len(named)
    assert page.locator("#A25-T14").is_visible()
    assert not page.locator("#I24-T8").is_visible()
    assert page.locator(".results-filter span").inner_text().endswith(f"of {everything} rows")
    box.fill("no row says this")
    assert visible.count() == 0
    box.fill("")
    assert visible.count() == everything
