"""Choose the tuned constants of ``synthesize`` by leaving one table out.

    python benchmarks/synthetic_choice.py [--data DIR] [--rows 12000] [--runs 2] [--json FILE]

Only the rows that benchmarks/synthetic.py trains on are read, and split again: its test rows have
no part.  A constant is changed at a time.  A setting is worth AUC less log loss (of boosting) less
the mean total variation of pairs, with bounds at η = 0.05; for every table the best setting is that
with the largest mean over the *other* tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import DATA, Task, measure_one, split

from memberbound.release.all_rows import (
    balanced_labels,
    label_model,
    measurements,
    synthetic_columns,
    synthetic_shares,
)

#: Constants that matter: their module, their name, and other values than the one in use.
GRID: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "columns' shares": (synthetic_shares, "_COLUMN_SHARES", ((0.7, 0.4), (0.95, 0.65))),
    "error of a pair": (measurements, "_PAIR_ERROR", (0.08, 0.3)),
    "cells per scale": (synthetic_columns, "_CELL_SHARE", (0.25, 4.0)),
    "ridge of classes": (label_model, "_CLASS_PRIOR", ((0.15, 0.2), (0.6, 0.8))),
    "pull of labels": (balanced_labels, "_PULL", (4.0, 100.0)),
}


def settings() -> Iterator[tuple[str, Any, str, Any]]:
    """Yield a name, a module, a constant and its value; the constants in use first."""
    module, constant, _ = next(iter(GRID.values()))
    yield "in use", module, constant, getattr(module, constant)
    for name, (module, constant, values) in GRID.items():
        for value in values:
            yield f"{name} {value}", module, constant, value


def worth(line: dict[str, Any]) -> float:
    """Return what a setting is worth on a table."""
    return float(line["AUC"] - line["log loss"] - line["mean TV"])


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line per setting, table and run."""
    tasks = {}
    for name in options.dataset:
        table, target = DATA[name](options.data)
        for run in range(options.runs):
            train, _ = split(table, run, options.rows)
            tasks[name, run] = Task(name, *split(train, 1000 + run, None), target)
    for label, module, constant, value in settings():
        if options.only and not any(label.startswith(start) for start in options.only):
            continue
        used = getattr(module, constant)
        setattr(module, constant, value)
        for (name, run), task in tasks.items():
            scores = measure_one(task, "bounds", 0.05, run, seed=run)
            yield {"setting": label, "table": name, "run": run} | scores
        setattr(module, constant, used)


def report(lines: list[dict[str, Any]]) -> str:
    """Return what every setting is worth, and the best one for every table left out."""
    labels = list(dict.fromkeys(line["setting"] for line in lines))
    tables = list(dict.fromkeys(line["table"] for line in lines))
    values = np.array(
        [
            [
                np.mean([worth(x) for x in lines if (x["setting"], x["table"]) == (label, table)])
                for table in tables
            ]
            for label in labels
        ]
    )
    gains = values - values[labels.index("in use")]
    head = ["setting", *tables, "mean"]
    text = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for label, row in zip(labels, gains, strict=True):
        shown = [f"{gain:+.3f}" for gain in (*row, row.mean())]
        text.append("| " + " | ".join([label, *shown]) + " |")
    for index, table in enumerate(tables):
        others = np.delete(gains, index, axis=1)
        best = labels[int(others.mean(axis=1).argmax())]
        text.append(f"without {table}: {best}")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", nargs="+", help="settings whose names begin like this")
    parser.add_argument("--json", type=Path, help="lines to add to, and to report on")
    options = parser.parse_args()
    lines = []
    if options.json is not None and options.json.exists():
        stored = options.json.read_text(encoding="utf-8").splitlines()
        lines = [json.loads(line) for line in stored]
    for line in measure(options):
        lines.append(line)
        if options.json is not None:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    print(report(lines))


if __name__ == "__main__":
    main()
