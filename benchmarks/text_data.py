"""Texts for the benchmark of ``protect-text``: what installed packages say; imported, not run.

The base model learns from paragraphs of docstrings.  It is fine-tuned on another domain: blocks of
comments in the code.  A document is a paragraph or a block; repeated ones are left out.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

#: Packages that are read, where they are installed.
PACKAGES = (
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "torch",
    "transformers",
    "sympy",
    "networkx",
    "matplotlib",
    "joblib",
    "pyarrow",
)
#: Shortest document, in words.
_WORDS = 8


def _files() -> Iterator[Path]:
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            yield from sorted(Path(found.submodule_search_locations[0]).rglob("*.py"))


def _paragraphs(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")


def _comments(path: Path) -> Iterator[str]:
    block: list[str] = []
    last = -1
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                if token.start[0] != last + 1:
                    yield " ".join(block)
                    block = []
                block.append(token.string.lstrip("#: !"))
                last = token.start[0]
    yield " ".join(block)


def _prose(text: str) -> str | None:
    """Return a text on one line, or None for code, tables and the like."""
    line = " ".join(text.split())
    words = line.split(" ")
    letters = sum(character.isalpha() or character == " " for character in line)
    if len(words) < _WORDS or letters < 0.8 * len(line) or ">>>" in line or "opyright" in line:
        return None
    return line


def documents(kind: str) -> list[str]:
    """Return distinct documents: ``docstrings`` or ``comments``."""
    read = {"docstrings": _paragraphs, "comments": _comments}[kind]
    found: dict[str, None] = {}
    for path in _files():
        try:
            texts = list(read(path))
        except (SyntaxError, ValueError, tokenize.TokenError):
            continue
        found |= dict.fromkeys(line for text in texts if (line := _prose(text)) is not None)
    return list(found)
