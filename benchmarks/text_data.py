"""Texts for the benchmark of ``protect-text``, from installed packages; imported, not run.

The base model learns from paragraphs of docstrings.  It is fine-tuned on another domain: paragraphs
of C++ headers, or bodies of Python functions, which chose the settings.  A document is a paragraph
or the beginning of a body; repeated ones are left out.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: Packages that are read for each domain.
PACKAGES = {
    "docstrings": ("numpy", "scipy", "pandas", "sklearn", "torch", "transformers"),
    "code": ("sklearn", "scipy"),
    "headers": ("torch",),
}
#: Shortest document of code and longest, in characters.
_SHORT, _CHARACTERS = 60, 300
#: Shortest document, in words.
_WORDS = 8


def _files(names: tuple[str, ...], ending: str) -> Iterator[Path]:
    for name in names:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            yield from sorted(Path(found.submodule_search_locations[0]).rglob(f"*.{ending}"))


def _paragraphs(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")


def _bodies(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[ast.get_docstring(node) is not None :]
            if first:
                block = lines[first[0].lineno - 1 : first[-1].end_lineno]
                yield " ".join(" ".join(block).split())[:_CHARACTERS]


def _declarations(path: Path) -> Iterator[str]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for part in re.split(r"\n\s*\n", text):
        if not part.lstrip().startswith("#"):
            yield " ".join(part.split())[:_CHARACTERS]


def _prose(text: str) -> str | None:
    """Return a text on one line, or None for code, tables and the like."""
    line = " ".join(text.split())
    words = line.split(" ")
    letters = sum(character.isalpha() or character == " " for character in line)
    if len(words) < _WORDS or letters < 0.8 * len(line) or ">>>" in line or "opyright" in line:
        return None
    return line


def _code(text: str) -> str | None:
    return text if len(text) >= _SHORT else None


def documents(kind: str) -> list[str]:
    """Return distinct documents in a random order: ``docstrings``, ``code`` or ``headers``."""
    read, clean, ending = {
        "docstrings": (_paragraphs, _prose, "py"),
        "code": (_bodies, _code, "py"),
        "headers": (_declarations, _code, "h"),
    }[kind]
    found: dict[str, None] = {}
    for path in _files(PACKAGES[kind], ending):
        try:
            texts = list(read(path))
        except (SyntaxError, ValueError):
            continue
        found |= dict.fromkeys(line for text in texts if (line := clean(text)) is not None)
    listed = list(found)
    return [listed[k] for k in np.random.default_rng(0).permutation(len(listed))]
