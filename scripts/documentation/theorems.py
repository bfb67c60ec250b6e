"""The pages that have no file in docs/, and one figure.

``theorems.md`` and ``errata.md`` come from ``memberbound.papers.results``, ``proofs/``
from the repository's ``proofs/`` and ``changelog.md`` from ``CHANGELOG.md``. The errata's
demonstrations run in the tests, not here.

Anchors: the id as written, ``theorems.html#A25-T14``; numbered equations that belong to a result
have theirs in its row (``theorems.html#A25-eq17``). Errata have the same on ``errata.html``.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import memberbound
from documentation.formulas import CODE
from memberbound.papers.results import Entry, Erratum, entries, errata, errata_by_kind
from memberbound.report.answer_charts import explanation_chart

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "proofs"

# The order in which a reader meets the lines of work; any other key goes last.
SOURCES = {
    "A25": "Membership Inference Security (Aubinais, Gassiat, Piantanida, JMLR 2025)",
    "A24": "Its preprint of February 2024",
    "A23": "Its preprint of October 2023",
    "I24": "Membership Inference Privacy (Izzo, Yoon, Arık, Zou, TMLR 2024)",
    "L24": "Practical Membership Privacy (Lowy, Li, Liu, Koike-Akino, Parsons, Wang, AAAI 2024)",
    "X": "Beyond the papers",
}

# The meaning of each status, in the order of the counts.
STATUSES = {
    "implemented": "computed by the function to call, and checked by the tests named",
    "erratum": "does not hold as printed; the statement is what holds, and a counterexample is"
    " computed on request",
    "definition": "names a notion",
    "reproduced": "a figure that is redone, and of which every claim comes out",
    "reproduced in part": "a figure that is redone, and of which some claims do not come out",
    "not computable": "states nothing that could be computed; the reason is given",
}

# Front matter that gives the tables the room of the table of contents.
WITHOUT_CONTENTS = ("---", "hide:", "  - toc", "---", "")

_NAMED = re.compile(r"\b(?:(?:A25|A24|A23|I24|L24)-[A-Za-z]\w*(?:\.\w+)*|X\d+)\b")
# Emphasis begins after a blank or a bracket; a star after a letter is a superscript.
_EMPHASIS = re.compile(r"(\*\*\S[^*]*\*\*|(?<![\w*)}])\*[^\s*][^*]*(?<!\s)\*(?![\w*]))")
_PROOF = re.compile(r"proofs/([\w-]+)\.md")

# Own classes: the theme leaves a table with a class alone. On a phone every row becomes a card.
STYLE = """<style>
.results { border-collapse: collapse; table-layout: fixed; width: 100%; }
.results { font-size: .68rem; line-height: 1.5; }
.results th { text-align: left; border-bottom: .1rem solid var(--md-default-fg-color--lighter); }
.results th, .results td { padding: .5rem .6rem; vertical-align: top; overflow-wrap: break-word; }
.results tr + tr td { border-top: .05rem solid var(--md-default-fg-color--lightest); }
.results [id] { scroll-margin-top: 4rem; }
.results tr:has(:target) { background: var(--md-code-bg-color); }
.md-typeset .results :is(h2, h3) { margin: 0 0 .15rem; font-size: .72rem; }
.md-typeset .results p { margin: 0 0 .3rem; }
.md-typeset .results ul { margin: 0 0 .3rem; list-style: none; }
.md-typeset .results ul li { margin: 0 0 .15rem; }
.md-typeset .results code { overflow-wrap: anywhere; font-size: .62rem; }
.results .aside { color: var(--md-default-fg-color--light); }
.results .id { white-space: nowrap; }
.results .status { font-weight: 700; }
.results th.narrow { width: 6.2rem; }
.results th.wide { width: 37%; }
.results-filter input {
  width: 100%; padding: .4rem .6rem; font: inherit; color: inherit; background: transparent;
  border: .05rem solid var(--md-default-fg-color--light); border-radius: .2rem;
}
@media screen and (max-width: 59.9375em) {
  .results thead { display: none; }
  .results tr, .results td, .results tbody { display: block; }
  .results td { padding: .15rem 0; }
  .results tr + tr td { border-top: 0; }
  .results tr { border-top: .05rem solid var(--md-default-fg-color--lighter); padding: .6rem 0; }
  .results tr[hidden] { display: none; }
  .results td[data-label]::before {
    content: attr(data-label); display: block; color: var(--md-default-fg-color--light);
  }
}
</style>"""

# The site search needs a server; this works on a file as well. Every word must be in the row.
FILTER = """<p class="results-filter"><label>Show only rows that hold these words:
<input type="search" autocomplete="off"></label> <span class="aside" aria-live="polite"></span></p>
<script>
(() => {
  const box = document.querySelector(".results-filter input");
  const told = document.querySelector(".results-filter span");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(" ").filter(Boolean);
    let shown = 0, all = 0;
    for (const row of document.querySelectorAll(".results tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
      all += 1;
    }
    told.textContent = words.length ? shown + " of " + all + " rows" : "";
  });
})();
</script>"""


class Links:
    """Return links to ids, proofs and other pages, relative to a top-level page."""

    def __init__(self, ids: Iterable[str], proofs: Iterable[str]) -> None:
        self.ids = frozenset(ids)
        self.proofs = frozenset(proofs)

    def page(self, name: str, anchor: str = "") -> str:
        """The address of a page; ``mkdocs.yml`` sets ``use_directory_urls: false``."""
        return f"{name}.html" + (anchor and f"#{anchor}")

    def text(self, plain: str, page: str = "") -> str:
        """Text as HTML, with ids and proofs that it names made links."""

        def link(match: re.Match[str]) -> str:
            key = match[0]
            if key not in self.ids:
                return key
            return f'<a href="{self.page(page, key) if page else "#" + key}">{key}</a>'

        def proof(match: re.Match[str]) -> str:
            if match[1] not in self.proofs:
                return match[0]
            return f'<a href="{self.page("proofs/" + match[1])}">proof: {match[1]}</a>'

        # The proofs first: their names hold no id.
        return _NAMED.sub(link, _PROOF.sub(proof, escape(" ".join(plain.split()))))


def _capital(title: str) -> str:
    """A title that starts a line; Greek letters and symbols stay as they are."""
    return title[0].upper() + title[1:] if title[0].isascii() else title


def _permalink(key: str) -> str:
    return f'<a class="headerlink" href="#{key}" title="Permanent link">¶</a>'


def _items(name: str, paths: Iterable[str], render: Callable[[str], str]) -> str:
    rows = "".join(f"<li>{render(path)}</li>" for path in paths)
    return f'<span class="aside">{name}</span><ul>{rows}</ul>' if rows else ""


def _breakable(name: str) -> str:
    """A long name that a narrow column may break after a dot, a stroke or a slash."""
    return re.sub(r"([._/])", r"\1<wbr>", escape(name))


def _code(path: str) -> str:
    """A dotted path, linked to the API page where that documents it."""
    short = _breakable(path.removeprefix("memberbound."))
    return f'<autoref identifier="{path}" optional><code>{short}</code></autoref>'


def _test(path: str) -> str:
    return f"<code>{_breakable(path.removeprefix('tests/').replace('::', ' › '))}</code>"


def _row(entry: Entry, links: Links) -> str:
    text = [f"<p>{links.text(entry.statement)}</p>"]
    if entry.reason:
        text.append(f'<p class="aside">Reason: {links.text(entry.reason)}.</p>')
    anchors = ""
    if entry.also:
        # Their own anchors, so that a link to an equation leads to its result.
        numbers = ", ".join(
            f'<span id="{name}">{name.split("-eq")[1]}</span>' for name in entry.also
        )
        word = "equations" if len(entry.also) > 1 else "equation"
        anchors = f'<p class="aside">With {word} {numbers}.</p>'
    status = escape(entry.status)
    if entry.status == "erratum":
        status = f'<a href="{links.page("errata", entry.id)}">erratum</a>'
    # Heading and statement in one cell: the site search then finds them as one section.
    title = f'<span class="id">{entry.id}</span> · {escape(_capital(entry.title))}'
    call = () if entry.call is None else (entry.call,)
    where = (
        _items("call", call, _code)
        + _items("code", entry.code, _code)
        + _items("tests", entry.tests, _test)
    )
    return (
        f'<tr><td><h3 id="{entry.id}">{title} {_permalink(entry.id)}</h3>{"".join(text)}{anchors}'
        f'</td><td class="status">{status}</td><td>{where or "–"}</td></tr>'
    )


def _table(columns: Mapping[str, str], rows: Iterable[str]) -> str:
    head = "".join(f'<th class="{width}">{name}</th>' for name, width in columns.items())
    # No blank line: it would end the raw block.
    body = "\n".join(rows)
    return f'<table class="results"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'


def _counts(by_source: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Return the number of results by source and status."""
    counts = {key: Counter[str](e.status for e in results) for key, results in by_source.items()}
    total = sum(counts.values(), Counter[str]())
    lines = [
        "| source | " + " | ".join(STATUSES) + " | all |",
        "|---|" + "--:|" * (len(STATUSES) + 1),
    ]
    for key, row in [*counts.items(), ("all", total)]:
        name = f"[{key}](#{key.lower()})" if key in counts else "all"
        cells = [name, *(str(row[s] or "–") for s in STATUSES), str(row.total())]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def theorems_page(by_source: Mapping[str, Sequence[Entry]], links: Links) -> str:
    """All results: the counts first, then one table per source."""
    statuses = "; ".join(f"*{name}*: {meaning}" for name, meaning in STATUSES.items())
    lines = [
        *WITHOUT_CONTENTS,
        STYLE,
        "",
        "# Theorems",
        "",
        "Every numbered result of the papers, and the results proved beyond them, in the words and"
        " the [notation](notation.md) of this project, with the code that computes it (paths below"
        " `memberbound`) and the tests that check it (paths below `tests/`). An id is the source's"
        " key and the result's number: T theorem, C corollary, L lemma, P proposition, D"
        " definition, R remark, E example, eq equation, F figure, Tab table, Alg algorithm. The"
        " site search finds ids and words; `memberbound theorems A25-T14` prints a result and a"
        " call with an example, and for an erratum computes the counterexample. The"
        " [functions](papers.md) are in one module per paper, such as"
        " `memberbound.papers.aubinais2025`.",
        "",
        *_counts(by_source),
        "",
        f"{statuses}. See also the [errata](errata.md) and the [proofs](proofs/index.md).",
        "",
        FILTER,
        "",
    ]
    for key, results in by_source.items():
        rows = [_row(entry, links) for entry in results]
        lines += [f"## {key}: {SOURCES.get(key, key)} {{ #{key.lower()} }}", ""]
        lines += [_table({"result": "", "status": "narrow", "where": "wide"}, rows), ""]
    return "\n".join(lines)


def errata_page(errata: Iterable[tuple[list[str], Erratum]], links: Links) -> str:
    """Return the printed statement beside the valid one."""
    kinds = errata_by_kind(entries())
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    rows = []
    for keys, erratum in errata:
        printed, holds = (links.text(t, "theorems") for t in (erratum.printed, erratum.holds))
        ids = "<br>".join(
            f'<a class="id" id="{other}" href="{links.page("theorems", other)}">{other}</a>'
            for other in keys[1:]
        )
        key = keys[0]
        first = f'<a class="id" href="{links.page("theorems", key)}">{key}</a>'
        rows.append(
            f'<tr><td class="status"><h2 id="{key}">{first} {_permalink(key)}</h2>{ids}</td>'
            f'<td data-label="kind">{erratum.kind}</td>'
            f'<td data-label="printed">{printed}</td><td data-label="holds">{holds}</td></tr>'
        )
    lines = [
        *WITHOUT_CONTENTS,
        STYLE,
        "",
        "# Errata",
        "",
        "Where a paper and a computation disagree, the code follows the computation. Each entry"
        " has a demonstration that anybody can run: `memberbound theorems ID` computes the"
        " counterexample and names the code and the tests. Several ids stand together where one"
        " statement is printed under several numbers; they are counted once.",
        "",
        f"{sum(kinds.values())} different errata: " + told + ". *False as stated*: a computation"
        " contradicts the claim. *False under one reading*: it does under one of the readings that"
        " the text allows, and another is true. *Misprint*: a slip of notation, or a lost factor;"
        " what is concluded from it stands.",
        "",
        FILTER,
        "",
        _table({"id": "narrow", "kind": "narrow", "what is printed": "", "what holds": ""}, rows),
        "",
    ]
    return "\n".join(lines)


def _by_source() -> dict[str, list[Entry]]:
    by_source: dict[str, list[Entry]] = {key: [] for key in SOURCES}
    for entry in entries():
        key = entry.id.split("-", 1)[0] if "-" in entry.id else "X"
        by_source.setdefault(key, []).append(entry)
    return {key: results for key, results in by_source.items() if results}


def _errata() -> list[tuple[list[str], Erratum]]:
    """The errata, each once with all the ids under which it is stated."""
    grouped: dict[Erratum, list[str]] = {}
    for key, erratum in errata().items():
        grouped.setdefault(erratum, []).append(key)
    return [(keys, erratum) for erratum, keys in grouped.items()]


def _proofs() -> dict[str, str]:
    """The proofs as pages of the site: the same files, links to the docs one folder nearer."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PROOFS.glob("*.md"))}
    texts["index"] = texts.pop("README")
    return {name: _for_site(text) for name, text in texts.items()}


def _for_site(proof: str) -> str:
    """Formulas as they are; the site would take some stars and strokes for emphasis or tags."""
    parts = CODE.split(proof.replace("](../docs/", "](../"))
    for number in range(0, len(parts), 2):
        marks = _EMPHASIS.split(parts[number])
        marks[::2] = (plain.replace("*", "\\*") for plain in marks[::2])
        parts[number] = "".join(marks).replace("_", "\\_").replace("<", "&lt;")
    return "".join(parts)


def draw_roc(position: Path) -> None:
    """Draw the figure of the how-to as the command draws it."""
    answer = memberbound.explain(noise_multiplier=1, sample_rate=0.01, steps=1000)
    explanation_chart(answer).save(position)


def pages() -> dict[str, str]:
    """The generated pages by their position among the sources."""
    by_source, proofs = _by_source(), _proofs()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not by_source:
        raise ValueError("there are no results")
    ids = [name for results in by_source.values() for e in results for name in (e.id, *e.also)]
    links = Links(ids, proofs)
    return {
        "theorems.md": theorems_page(by_source, links),
        "errata.md": errata_page(_errata(), links),
        "changelog.md": changelog.replace("](docs/", "]("),
        **{f"proofs/{name}.md": text for name, text in proofs.items()},
    }
