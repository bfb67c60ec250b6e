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


def _codes(items: Iterable[str]) -> str:
    return "<br>".join(f"`{item}`" for item in items) or "–"


def _ledger() -> dict[str, list[dict[str, Any]]]:
    results = {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8")).get("result", [])
        for path in sorted(LEDGER.glob("*.toml"))
    }
    known = [key for key in SOURCES if key in results]
    return {key: results[key] for key in [*known, *(k for k in results if k not in SOURCES)]}


def theorems_page(ledger: Mapping[str, list[dict[str, Any]]]) -> str:
    """The whole ledger: what is counted first, then one table per source."""
    counts = Counter(result["status"] for results in ledger.values() for result in results)
    lines = [
        "# Theorem ledger",
        "",
        "Every numbered result of the papers, and the results proved beyond them, with the code"
        " that computes it and the tests that check it. An id is the source's key and the"
        " result's number: T theorem, C corollary, L lemma, P proposition, D definition,"
        " R remark, E example, eq equation, F figure, Tab table, Alg algorithm.",
        "",
        f"{sum(counts.values())} results: "
        + ", ".join(f"{number} {status}" for status, number in counts.most_common())
        + ".",
        "",
        "*implemented*: computed by the code named. *erratum*: what is printed does not hold;"
        " see [errata](errata.md). *definition*: names a notion. *planned*: the stage that will"
        " compute it has not landed. *not computable*: the reason is given.",
        "",
    ]
    for key, results in ledger.items():
        lines += [f"## {key}: {SOURCES.get(key, key)}", ""]
        lines += ["| id | statement | status | code | tests |", "|---|---|---|---|---|"]
        for result in results:
            status = _cell(result["status"])
            if result.get("reason"):
                status += f": {_cell(result['reason'])}"
            lines.append(
                f"| **{_cell(result['id'])}** | *{_cell(result['title'])}.*"
                f" {_cell(result['statement'])} | {status}"
                f" | {_codes(result.get('code', []))} | {_codes(result.get('tests', []))} |"
            )
        lines.append("")
    return "\n".join(lines)


def _field(erratum: object, name: str) -> str:
    value = erratum[name] if isinstance(erratum, Mapping) else getattr(erratum, name)
    return _cell(value)


def _errata() -> list[tuple[str, object]]:
    """The errata with their ids, whether they are kept in a mapping or in a sequence."""
    errata = importlib.import_module("memberbound.ledger.errata").ERRATA
    if isinstance(errata, Mapping):
        return list(errata.items())
    return [(_field(erratum, "id"), erratum) for erratum in errata]


def errata_page(errata: Iterable[tuple[str, object]]) -> str:
    """What is printed beside what holds."""
    lines = [
        "# Errata",
        "",
        "Where a paper and a computation disagree, the code follows the computation. Each entry"
        " has a demonstration that anybody can run: `memberbound theorems ID` names the code and"
        " the tests.",
        "",
        "| id | what is printed | what holds |",
        "|---|---|---|",
    ]
    for key, erratum in errata:
        printed, holds = _field(erratum, "printed"), _field(erratum, "holds")
        lines.append(f"| **{_cell(key)}** | {printed} | {holds} |")
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
