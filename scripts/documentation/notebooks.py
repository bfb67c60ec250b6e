"""Run the notebooks of docs/notebooks and turn them into pages, without Jupyter.

Cells run in order in one namespace; a cell shows what it prints and the value of its last
expression: a matplotlib figure as SVG, a data frame as a table, anything else as text.
"""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"


def cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook."""
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def run(path: Path) -> Iterator[tuple[dict[str, Any], str, object]]:
    """Yield every cell with what it printed and the value of its last expression."""
    import matplotlib as mpl

    mpl.use("Agg")
    namespace: dict[str, object] = {"__name__": path.stem}
    for cell in cells(path):
        if cell["cell_type"] != "code":
            yield cell, "", None
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(path), "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), str(path), "eval"), namespace)
        yield cell, printed.getvalue(), value


def page(path: Path, pictures: Path) -> str:
    """Return a notebook as a page; figures are written beside it."""
    from matplotlib.figure import Figure
    from pandas import DataFrame

    parts = []
    for number, (cell, output, value) in enumerate(run(path)):
        source, printed = "".join(cell["source"]), output
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        if isinstance(value, Figure):
            pictures.mkdir(parents=True, exist_ok=True)
            name = f"{path.stem}-{number}.svg"
            value.savefig(pictures / name, bbox_inches="tight")
            parts.append(f"![The plot of the cell above]({name})")
        elif isinstance(value, DataFrame):
            parts.append(value.to_html(index=False, border=0, na_rep=""))
        elif value is not None:
            printed += f"{value!r}\n"
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    here = f"[Download the notebook]({path.name})."
    return "\n\n".join([*parts, here]) + "\n"


def pages(folder: Path) -> dict[str, str]:
    """Return the pages by their place among the sources; figures go to ``folder``."""
    found = sorted(NOTEBOOKS.glob("*.ipynb"))
    return {f"notebooks/{p.stem}.md": page(p, folder / "notebooks") for p in found}
