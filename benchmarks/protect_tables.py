"""Lines and tables of the benchmark of ``protect``; imported, not run."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

#: Column, and what it is called in the table.
METHODS = {
    "ours": "memberbound",
    "ours-tuned": "memberbound, tuned",
    "ours-crowd": "memberbound, crowd",
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


def _cell(row: Row | None, what: str) -> str:
    if row is None:
        return "n/a"
    if what == "accuracy":
        return f"{row['released']:.3f} ± {row['released_se']:.3f}"
    if what == "error":
        return f"{row['error']:.3g}"
    clip = "" if row["clip"] is None else f", {row['clip']:.3g}"
    noise = f"{row['noise_scale']:.3g}" if "noise_scale" in row else "–"
    return f"{noise} ({row['C']:g}{clip})"


def table(rows: list[Row], what: str) -> str:
    """One line for every data set, record and eta: ``accuracy``, ``noise`` or ``error``.

    The noise is followed by C and the clip radius.
    """
    section = "sums" if what == "error" else "logistic"
    mine = [row for row in rows if row["section"] == section]
    best = best_of(mine, "error", -1) if section == "sums" else best_of(mine, "released", 1)
    used = [m for m in METHODS if any(row["method"] == m for row in mine)]
    heads = ["data", "record", "η"] + (["chance", "clean"] if what == "accuracy" else [])
    lines = [
        "| " + " | ".join(heads + [METHODS[m] for m in used]) + " |",
        "|" + "---|" * (len(heads) + len(used)),
    ]
    for where in sorted(dict.fromkeys(one[:3] for one in best), key=_place):
        here = [row for row in mine if row["dataset"] == where[0]]
        first = here[0]
        cells = [where[0], where[1], f"{where[2]:g}"]
        if what != "noise":
            cells[0] += f" (N={first['records']}, d={first['dimension']})"
        if what == "accuracy":
            clean = max(row.get("clean", 0.0) for row in here)
            cells += [f"{first['chance']:.3f}", f"{clean:.3f}"]
        cells += [_cell(best.get((*where, method)), what) for method in used]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _place(where: tuple[Any, ...]) -> tuple[int, Any]:
    """Data sets in the order of READERS, sums after them."""
    order = ["breast-cancer", "heart", "adult", "acs", "digits", "mnist"]
    known = order.index(where[0]) if where[0] in order else len(order)
    return known, where


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
