"""Reports to test with: a real study of the embedded table, shortened, and faulty variants."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from memberbound.report.model import Report, parse_report

#: Closes a script, opens a tag, leaves an attribute, ends a comment, names placeholders.
EVIL = (
    "</script><script>window.stolen=1</script><img src=x onerror='window.stolen=1'>"
    "\"'`&amp;<!--${window.stolen=1}{{7*7}}%{x}\u2028@ink"
)


@lru_cache(maxsize=1)
def _text() -> str:
    return Path(__file__).with_name("sample.json").read_text(encoding="utf-8")


def sample() -> dict[str, Any]:
    """Return a complete report of a classification."""
    found: dict[str, Any] = json.loads(_text())
    return found


def typed(report: dict[str, Any]) -> Report:
    """Return a report as objects."""
    return parse_report(report)


def answer(report: dict[str, Any], step: str) -> dict[str, Any]:
    """Return the answer of a step's verb."""
    found: dict[str, Any] = next(each["result"] for each in report["steps"] if each["id"] == step)
    return found


def given(word: str = "theirs", *, passes: bool = True, lower: float = 0.0) -> dict[str, Any]:
    """Return a report about a given model, with ``word`` in place of every text from outside."""
    report = sample()
    report["question"]["model"] = word
    common = ("command", "version", "game", "protects", "theorems", "assumptions")
    result = {key: answer(report, "audit")[key] for key in common} | {
        "command": "audit", "game": "model", "members": 10, "non_members": 10,
        "score_members_estimate": 1.0, "score_nonmembers_estimate": 0.5,
        "by_access": {"labels": {"attack": word, "advantage": {"estimate": 0.2, "lower": lower}}},
        "records": {"tried": 10, "recognised": 1, "others_tried": 5, "others_named": 0,
                    "false_discovery_rate_upper": 0.1},
        "one_law": {"sentence": word}, "comparable": True, "warnings": [word],
        "facts": [{"name": word, "value": 1, "rule": word, "passes": passes, "reason": word}],
    }  # fmt: skip
    step = report["steps"][0] | {"id": "given", "title": "Attack the given model"}
    report["steps"].insert(0, step | {"result": result})
    return report


def _without_steps(report: dict[str, Any], states: dict[str, tuple[str, str]]) -> None:
    """Make steps end otherwise than with an answer."""
    for step in report["steps"]:
        if step["id"] in states:
            state, error = states[step["id"]]
            step.update(state=state, error=error, sentence=None, result=None)


def partial() -> dict[str, Any]:
    """Return the report of a study with a failed audit and an impossible noise target."""
    report = sample()
    broken = {
        "audit": ("failed", "RuntimeError: the learner did not converge"),
        "protect-every": ("impossible", "learner must have a numeric release, got a forest."),
        "population": ("failed", "MemoryError: "),
    }
    _without_steps(report, broken)
    tables = ("table", "coarser-table")
    report["status"] = "partial"
    report["verdict"] |= {
        "level": "partial",
        "sentence": "As it is, no bound is proved. This study is incomplete: two steps failed.",
    }
    report["sandwich"] = [row for row in report["sandwich"] if row["subject"] in tables]
    report["roc"], report["exposure"] = [], None
    report["remedies"] = [r for r in report["remedies"] if r["id"] in ("nothing", "rows")]
    for remedy in report["remedies"]:
        remedy.update(score_name=None, score_before_estimate=None)
        remedy.update(score_after_estimate=None, loss_estimate=None)
    return report


def stopped() -> dict[str, Any]:
    """Return the report of a study that was stopped before any step ended."""
    report = sample()
    _without_steps(
        report, {step["id"]: ("stopped", "stopped by the user") for step in report["steps"]}
    )
    report |= {"status": "partial", "theorems": [], "assumptions": [], "ledger": []}
    report |= {"sandwich": [], "roc": [], "exposure": None, "remedies": []}
    report["verdict"]["level"] = "partial"
    return report


def regression() -> dict[str, Any]:
    """Return a report of a regression, where noise destroys R²."""
    report = sample()
    report["data"] |= {"task": "regression", "classes": []}
    scores = (0.41, None, 0.2, 0.3, -1234.5, 0.4)
    for remedy, after in zip(report["remedies"], scores, strict=True):
        if after is not None:
            remedy |= {
                "score_name": "R²",
                "score_before_estimate": 0.41,
                "score_after_estimate": after,
                "loss_estimate": 0.41 - after,
            }
    return report


def hostile() -> dict[str, Any]:
    """Return a report with an attack or a far too long text in place of every text from outside."""
    report = sample()
    report["data"] |= {
        "name": f"{EVIL}.csv",
        "columns": [f"{EVIL} {i} " + "x" * 200 for i in range(300)],
        "classes": [EVIL, "Ünïcödé 数据 \u202eright to left", ""],
        "target": "t" * 300,
    }
    report["question"] |= {"target": EVIL, "learner": f"package:{EVIL}", "columns": [EVIL] * 3}
    report["verdict"]["sentence"] = EVIL
    for row in report["sandwich"]:
        row["label"] = f"{EVIL}: {row['label']}"
    for curve in report["roc"]:
        curve["label"] = EVIL
    for remedy in report["remedies"]:
        remedy |= {"label": EVIL, "sentence": EVIL, "command": EVIL, "steps": [EVIL]}
    for step in report["steps"]:
        step["title"] = EVIL
        if step["result"] is not None:
            step["result"][EVIL] = {EVIL: [EVIL, {EVIL: [1, [2, [3, {"deep": [[EVIL]]}]]]}]}
    for entry in report["ledger"]:
        entry |= {"title": EVIL, "statement": EVIL}
    report["assumptions"] = [EVIL]
    return report


def extreme() -> dict[str, Any]:
    """Return an extreme report: everything leaks as it is, nothing leaks with noise."""
    report = copy.deepcopy(sample())
    for row in report["sandwich"]:
        row["blind"] = 0.5
        given_away = row["subject"] == "model"
        if row["accuracy_lower"] is not None:
            row["accuracy_lower"] = row["accuracy_estimate"] = 1.0 if given_away else 0.5
        if row["accuracy_upper"] is not None and row["subject"] != "table":
            row["accuracy_upper"] = 0.5
    for curve in report["roc"]:
        if curve["kind"] == "estimate":
            curve |= {"fpr": [0.0, 1.0], "tpr": [1.0, 1.0]}
    counts = [0] * len(report["exposure"]["counts"])
    report["exposure"]["counts"] = [*counts[:-1], 569]
    nobody = {"exposed_records": 0, "exposed_share": 0.0, "most_exposed": []}
    answer(report, "audit")["records"] |= nobody
    for remedy in report["remedies"]:
        remedy |= {"recommended": False, "enough": False, "accuracy_upper": 1.0}
    return report


REPORTS = (sample, partial, stopped, regression, hostile, extreme)
