"""Generate the pages that must not drift from their source.

``theorems.md`` comes from the ledger (``src/memberbound/ledger/*.toml``), ``errata.md`` from
``memberbound.ledger.errata.ERRATA`` and ``changelog.md`` from ``CHANGELOG.md``; the figure of the
how-to is drawn anew. The errata's demonstrations run in the tests, not here.
"""

import importlib
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "src" / "memberbound" / "ledger"

# The order in which a reader meets the lines of work; a key the ledger adds goes last.
SOURCES = {
    "A25": "Membership Inference Security (Aubinais, Gassiat, Piantanida, JMLR 2025)",
    "A24": "Its preprint of February 2024",
    "A23": "Its preprint of October 2023",
    "I24": "Membership Inference Privacy (Izzo, Yoon, Arık, Zou, TMLR 2024)",
    "L24": "Practical Membership Privacy (Lowy, Li, Liu, Koike-Akino, Parsons, Wang, AAAI 2024)",
    "X": "Beyond the papers",
}


def _cell(text: object) -> str:
    """One table cell: no line break, no bar that would end it."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _code(path: str) -> str:
    """A dotted path, linked to the API page where that documents it."""
    return f'<autoref identifier="{path}" optional><code>{path}</code></autoref>'


def _where(result: Mapping[str, Any]) -> str:
    """What computes a result and what checks it, one line each."""
    lines = [_code(path) for path in result.get("code", [])]
    lines += [f"`{path.removeprefix('tests/')}`" for path in result.get("tests", [])]
    return "<br>".join(lines) or "–"


def _ledger() -> dict[str, list[dict[str, Any]]]:
    results = {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8")).get("result", [])
        for path in sorted(LEDGER.glob("*.toml"))
    }
    known = [key for key in SOURCES if key in results]
    return {key: results[key] for key in [*known, *(k for k in results if k not in SOURCES)]}


def _counts(ledger: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """How many results of each source have which status."""
    counts = {key: Counter(r["status"] for r in results) for key, results in ledger.items()}
    total = sum(counts.values(), Counter())
    statuses = [status for status, _ in total.most_common()]
    head = ["| source |", *(f" {status} |" for status in statuses), " all |"]
    lines = ["".join(head), "|---|" + "--:|" * (len(statuses) + 1)]
    for key, row in [*counts.items(), ("all", total)]:
        name = f"[{key}: {SOURCES.get(key, key)}](#{key.lower()})" if key in counts else "all"
        cells = [f"| {name} |", *(f" {row[s] or '–'} |" for s in statuses), f" {row.total()} |"]
        lines.append("".join(cells))
    return lines


def theorems_page(ledger: Mapping[str, list[dict[str, Any]]]) -> str:
    """The whole ledger: what is counted first, then one table per source."""
    lines = [
        "# Theorem ledger",
        "",
        "Every numbered result of the papers, and the results proved beyond them, with the code"
        " that computes it and the tests that check it (paths below `tests/`). An id is the"
        " source's key and the result's number: T theorem, C corollary, L lemma, P proposition,"
        " D definition, R remark, E example, eq equation, F figure, Tab table, Alg algorithm.",
        "",
        *_counts(ledger),
        "",
        "*implemented*: computed by the code named. *erratum*: what is printed does not hold;"
        " see [errata](errata.md). *definition*: names a notion. *planned*: the stage that will"
        " compute it has not landed; tests named check the statement itself against exact"
        " enumeration. *not computable*: the reason is given.",
        "",
    ]
    for key, results in ledger.items():
        lines += [f"## {key}: {SOURCES.get(key, key)} {{ #{key.lower()} }}", ""]
        lines += ["| id | statement | code and tests |", "|---|---|---|"]
        for result in results:
            name, status = _cell(result["id"]), _cell(result["status"])
            if status == "erratum":
                status = f"[erratum](errata.md#{name})"
            statement = f"*{_cell(result['title'])}.* {_cell(result['statement'])}"
            if result.get("reason"):
                statement += f"<br>Reason: {_cell(result['reason'])}."
            lines.append(
                f"| **{name}**{{ #{name} }}<br>{status} | {statement} | {_where(result)} |"
            )
        lines.append("")
    return "\n".join(lines)


def _errata() -> list[tuple[list[str], Any]]:
    """The errata, each once with all the ids under which it is stated."""
    errata = importlib.import_module("memberbound.ledger.errata").ERRATA
    grouped: dict[object, tuple[list[str], Any]] = {}
    for key, erratum in errata.items():
        grouped.setdefault(erratum.demonstrate, ([], erratum))[0].append(key)
    return list(grouped.values())


def errata_page(errata: Iterable[tuple[list[str], Any]]) -> str:
    """What is printed beside what holds."""
    lines = [
        "# Errata",
        "",
        "Where a paper and a computation disagree, the code follows the computation. Each entry"
        " has a demonstration that anybody can run: `memberbound theorems ID` computes the"
        " counterexample and names the code and the tests.",
        "",
        "| id | what is printed | what holds |",
        "|---|---|---|",
    ]
    for keys, erratum in errata:
        names = "<br>".join(f"**{key}**{{ #{key} }}" for key in keys)
        lines.append(f"| {names} | {_cell(erratum.printed)} | {_cell(erratum.holds)} |")
    return "\n".join([*lines, ""])


def _roc() -> bytes:
    """The figure of the how-to, drawn as the command draws it."""
    explanation = importlib.import_module("memberbound").explain(
        noise_multiplier=1, sample_rate=0.01, steps=1000
    )
    draw = importlib.import_module("memberbound.report.roc").save_roc
    with tempfile.TemporaryDirectory() as folder:
        return draw(explanation, Path(folder) / "roc.svg").read_bytes()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; a missing source stops the build instead of an empty page."""
    ledger = _ledger()
    if not ledger:
        raise PluginError(f"no ledger file in {LEDGER.relative_to(ROOT)}")
    pages = {
        "theorems.md": theorems_page(ledger),
        "errata.md": errata_page(_errata()),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    files.append(File.generated(config, "howto/roc.svg", content=_roc()))
    return files
