"""The folder that a site generator reads: docs/ completed, and the pages that have no file there.

``cli.md``, ``glossary.md`` and ``gallery.md`` are completed from the code and from ``examples/``;
``theorems.md``, ``errata.md``, ``changelog.md``, ``proofs/``, ``notebooks/`` (run here) and
``howto/roc.svg`` are generated.
So each agrees with its source.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from documentation import gallery, notebooks, reference, theorems
from documentation.formulas import set_formulas

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_COMPLETIONS: dict[str, Callable[[str], str]] = {
    "cli.md": reference.with_options,
    "glossary.md": reference.with_glossary,
    "gallery.md": gallery.with_examples,
}


def page(name: str) -> str:
    """Return a page of docs/ by its path there, complete and with its formulas set."""
    up = "../" * name.count("/")
    text = (DOCS / name).read_text(encoding="utf-8")
    # The site keeps proofs/ inside the folder of the pages, the repository beside it.
    text = text.replace(f"](../{up}proofs/", f"]({up}proofs/")
    complete = _COMPLETIONS.get(name)
    return set_formulas(complete(text) if complete else text)


def write(folder: Path) -> None:
    """Write every page and whatever the pages show; the folder is replaced.

    An example that fails, or a missing source, ends this with an error before mkdocs starts.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    print("── examples of the gallery (minutes)", file=sys.stderr, flush=True)
    texts = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}
    written = {name: page(name) for name in texts}
    written |= {name: set_formulas(text) for name, text in theorems.pages().items()}
    print("── notebooks", file=sys.stderr, flush=True)
    written |= notebooks.pages(folder)
    for name, text in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    theorems.draw_roc(folder / "howto" / "roc.svg")
