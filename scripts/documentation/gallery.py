"""The examples in ``gallery.md``: each script's question, its code, and what it prints now."""

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Replacements in the plain file.
MARK = "*They appear here when `make docs` builds this page.*"
#: Small enough for a line of code, and for the tables of most answers.
STYLE = "<style>.highlight code { font-size: .6rem; } .printed code { font-size: .53rem; }</style>"
#: Characters that fit into a line of the page.
WIDTH = 100


def with_examples(page: str) -> str:
    """Return the page of the gallery with the examples in it; one that fails is an error."""
    if MARK not in page:
        raise ValueError(f"gallery.md must hold the line {MARK}, which the examples replace")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        scripts = sorted(EXAMPLES.glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))
        sections = list(pool.map(section, scripts))
    return page.replace(MARK, "\n".join([STYLE, "", f"{len(sections)} examples:", "", *sections]))


def section(script: Path) -> str:
    """Return a script's part of the gallery."""
    source = script.read_text(encoding="utf-8")
    module = ast.parse(source)
    question, _, meaning = (ast.get_docstring(module) or "").partition("\n")
    shown = printed(script)
    print(f"── examples/{script.name}", file=sys.stderr, flush=True)
    code = "\n".join(source.splitlines()[module.body[0].end_lineno or 0 :]).strip()
    lines = [f"## {question}", meaning, "", f'```python title="examples/{script.name}"', code]
    return "\n".join([*lines, "```", "", "``` { .text .printed }", shown, "```", ""])


def missing_packages(source: str) -> list[str]:
    """Return the packages that a script imports and that are not installed."""
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    return sorted(name for name in imported if importlib.util.find_spec(name) is None)


def printed(script: Path) -> str:
    """Run a script in a temporary folder and return its output.

    A script that needs a missing extra is not run; the output names the missing packages.
    """
    if missing := missing_packages(script.read_text(encoding="utf-8")):
        return f"(not run here: {', '.join(missing)} not installed)"
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, script],
            cwd=folder,
            env={**os.environ, "PYTHONUTF8": "1"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if ran.returncode:
        raise RuntimeError(f"examples/{script.name} failed:\n{ran.stderr}")
    # Sentences are wrapped as in a terminal; rows of tables, which have gaps, stay whole.
    lines = (
        line if "  " in line.strip() else textwrap.fill(line, WIDTH, break_long_words=False)
        for line in ran.stdout.splitlines()
    )
    return "\n".join(lines).rstrip()
