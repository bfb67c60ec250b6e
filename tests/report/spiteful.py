"""Names that break what they are pasted into, wherever a report takes words from its user."""

from __future__ import annotations

from typing import Any

from report.sample import sample

__all__ = ["SPITEFUL", "spiteful_report"]

#: Names as spiteful tables have them: markup, tables, YAML, HTML, links, line ends, bidi, NUL.
SPITEFUL = (
    "a|b <script>alert(1)</script>",
    "`tick` *bold* [link](http://example.org) ![image](x.png)",
    "# head",
    "12. item",
    "---\nevil: true\n---",
    "key: 'single \"double &amp; \\|",
    "! !!python/object:os.system *anchor &alias",
    "bidi \u202e turned \u2028 nul \x00 lone \ud800 surrogate",
    "",
)


def spiteful_report(name: str, names: tuple[str, ...] = SPITEFUL) -> dict[str, Any]:
    """A report with a name wherever a table, a learner or an error puts words, others in lists."""
    report = sample()
    report["data"] |= {"name": name, "target": name, "columns": list(names), "classes": list(names)}
    report["question"] |= {"target": name, "learner": name}
    report["verdict"] |= {"sentence": name, "advice": name}
    report["assumptions"] = list(names)
    missing = {"sentence": None, "result": None}
    (rows,) = (step for step in report["steps"] if step["id"] == "rows")
    rows |= {"state": "impossible", "error": name} | missing
    for step in report["steps"]:
        step["sentence"] = name if step["state"] == "done" else None
    for row in report["sandwich"]:
        row["label"] = name
    for remedy in report["remedies"]:
        remedy["label"] = name
    return report
