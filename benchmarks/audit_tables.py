"""The tables of docs/audit-benchmark.md from the rows of benchmarks/audit.py; imported, not run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from audit_peers import PACKAGES

Row = dict[str, Any]
FIGURES = ("auc", "tpr@0.01", "tpr@0.001")
SHOWN = ("memberbound lira", "memberbound rmia", "memberbound combined")
HEAD = "| {} | learner | method | AUC | TPR at 1 % | TPR at 0.1 % | training s | attack s |"


def average(rows: Iterable[Row]) -> Row:
    kept = list(rows)
    return {key: float(np.mean([row[key] for row in kept])) for key in kept[0]}


def cells(row: Row, *, times: bool = True) -> str:
    shown = [f"{row[key]:.3f}" for key in FIGURES]
    shown += [f"{row['training']:.1f}", f"{row['attack']:.2f}"] if times else ["", ""]
    return " | ".join(shown)


def best(rows: list[Row]) -> list[Row]:
    return [max(rows, key=lambda row: float(row["auc"]))] if rows else []


def cases_of(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["dataset"], row["learner"]), []).append(row)
    return found


def shared_models(rows: list[Row]) -> str:
    """Return memberbound beside the plain reference on the same models, means over seeds.

    Of the plain variants the one with the largest AUC is shown, chosen in hindsight.
    """
    lines = [HEAD.format("population (seeds)"), "|---" * 8 + "|"]
    for (dataset, learner), mine in cases_of([r for r in rows if "targets" in r]).items():
        means: list[Row] = []
        for method in dict.fromkeys(r["method"] for r in mine):
            same = [r for r in mine if r["method"] == method]
            means.append(
                {
                    "method": method,
                    "seeds": len(same),
                    **average({k: r[k] for k in (*FIGURES, "training", "attack")} for r in same),
                }
            )
        shown = [r for r in means if r["method"] in SHOWN]
        for kind in ("plain lira", "plain rmia"):
            shown += best([r for r in means if r["method"].startswith(kind)])
        for row in shown:
            label = f"{dataset} ({row['seeds']})"
            lines.append(f"| {label} | {learner} | {row['method']} | {cells(row)} |")
    return "\n".join(lines)


def same_target(rows: list[Row]) -> str:
    """Return each peer's best method by AUC, in hindsight, beside ours on the same targets."""
    lines = [HEAD.format("population"), "|---" * 8 + "|"]
    for (dataset, learner), mine in cases_of(rows).items():
        peers = [r for r in mine if "targets" not in r]
        for tool in PACKAGES:
            asked = [r for r in peers if r["method"].split(" ")[0] == tool]
            for row in best([r for r in asked if "auc" in r]):
                lines.append(f"| {dataset} | {learner} | {row['method']} | {cells(row)} |")
            for note in dict.fromkeys(r["note"] for r in asked if "note" in r):
                lines.append(f"| {dataset} | {learner} | {tool} | {note} | | | | |")
        pairs = {(r["seed"], r["target"]) for r in peers if "target" in r}
        for method in SHOWN:
            beside = [
                r["first"][target]
                for seed, target in pairs
                for r in mine
                if r["method"] == method and r["seed"] == seed
            ]
            if beside:
                shown = cells(average(beside), times=False)
                lines.append(f"| {dataset} | {learner} | {method} | {shown} |")
    return "\n".join(lines)


def shares(rows: list[Row]) -> str:
    """Return a table of the whole audit's time (attacks, intervals) over the training time."""
    lines = ["| population | learner | training s | audit s | share |", "|---|---|---|---|---|"]
    seen = [r for r in rows if r["method"] == "memberbound rmia"]
    for dataset, learner in dict.fromkeys((r["dataset"], r["learner"]) for r in seen):
        same = [r for r in seen if (r["dataset"], r["learner"]) == (dataset, learner)]
        mean = average({"training": r["training"], "audit": r["audit"]} for r in same)
        share = mean["audit"] / mean["training"]
        lines.append(
            f"| {dataset} | {learner} | {mean['training']:.1f} | {mean['audit']:.2f} "
            f"| {share:.1%} {'PASS' if share <= 0.1 else 'FAIL'} |"
        )
    return "\n".join(lines)
