"""Lines and tables of the benchmark of ``protect``; imported, not run."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

#: Column, and what it is called in the table.
METHODS = {
    "ours": "memberbound",
    "ours-tuned": "memberbound, tuned",
    "ours-shaped": "memberbound, shaped",
    "izzo": "I24 corrected",
    "pac": "PAC",
    "pac-shared": "PAC, shared",
    "dp-tv": "sensitivity",
    "dp-gaussian": "DP output, δ=1e-5",
    "dp-pure": "DP output, δ=0",
    "dp-objective": "DP objective",
}


def _setting(row: Row) -> str:
    parts = [f"C={row['C']:g}"] if "C" in row else []
    parts += [] if row["clip"] is None else [f"clip {row['clip']:.3g}"]
    return ", ".join(parts)


def best_of(rows: list[Row], key: str, sign: int) -> dict[tuple[Any, ...], Row]:
    """The best setting of every method for every data set, record and eta."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row.get(key) is None:
            continue
        where = (row["dataset"], row["record"], row["eta"], row["method"])
        if where not in best or sign * row[key] > sign * best[where][key]:
            best[where] = row
    return best


def table(rows: list[Row], section: str) -> str:
    """One line for every data set, record and eta."""
    mine = [row for row in rows if row["section"] == section]
    key, sign = ("released", 1) if section == "logistic" else ("error", -1)
    best = best_of(mine, key, sign)
    used = [m for m in METHODS if any(row["method"] == m for row in mine)]
    heads = ["data", "record", "η"] + (["chance", "clean"] if sign > 0 else [])
    lines = [
        "| " + " | ".join(heads + [METHODS[m] for m in used]) + " |",
        "|" + "---|" * (len(heads) + len(used)),
    ]
    for where in dict.fromkeys(one[:3] for one in best):
        here = [row for row in mine if row["dataset"] == where[0]]
        first = here[0]
        cells = [f"{where[0]} (N={first['records']}, d={first['dimension']})"]
        cells += [where[1], f"{where[2]:g}"]
        if sign > 0:
            clean = max(row.get("clean", 0.0) for row in here)
            cells += [f"{first['chance']:.3f}", f"{clean:.3f}"]
        for method in used:
            found = best.get((*where, method))
            if found is None:
                cells.append("n/a")
            elif sign > 0:
                cells.append(f"{found['released']:.3f} ± {found['released_se']:.3f}")
            else:
                cells.append(f"{found['error']:.3g}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def details(rows: list[Row]) -> str:
    """Noise and setting behind the accuracies."""
    best = best_of([row for row in rows if row["section"] == "logistic"], "released", 1)
    lines = ["| data | record | η | method | setting | clean | released | noise |"]
    lines.append("|" + "---|" * 8)
    for (name, record, eta, method), row in best.items():
        noise = f"{row['noise_scale']:.3g}" if "noise_scale" in row else "in the objective"
        lines.append(
            f"| {name} | {record} | {eta:g} | {METHODS[method]} | {_setting(row)} "
            f"| {row['clean']:.3f} | {row['released']:.3f} | {noise} |"
        )
    return "\n".join(lines)


def shown(row: Row) -> str:
    head = f"{row['dataset']:<20}{_setting(row):<18}{row['record']:<8}{row['eta']:<5g}"
    head += f"{row['method']:<13}"
    if "problem" in row:
        return head + row["problem"]
    noise = f"  noise {row['noise_scale']:.3g}" if "noise_scale" in row else ""
    if row["section"] == "sums":
        return f"{head}error {row['error']:.3g}{noise}"
    scores = f"clean {row['clean']:.3f}  released {row['released']:.3f} ± {row['released_se']:.3f}"
    return f"{head}{scores}{noise}  {row['seconds']:.0f} s"
