"""Phrases that users did not understand stay out of all visible texts."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Banned wording → its replacement.
RETIRED = {
    r"nothing (useful )?is proved": "no guarantee",
    r"nothing can be certified": "no guarantee",
    r"no more than blind guessing is shown": "no leak shown",
    r"how often anybody is right": "attack success",
    r"record leak, (median|worst)": "leak limit for half of the rows",
    r"that may leak (>|more than)": "without a useful guarantee",
    r"alone in (their|its) cell": "unique",
    r"names no member": "identifies nobody with confidence",
    r"wrong names|those it names": "false identifications",
    r"rms length": "noise size",
    r"budget \(μ²\) went to": "privacy budget spent on",
    r"limit kept|promise kept": "passed",
    r"\bas found\b": "detected",
    r"members found": "members identified",
    r"accus(e|es|ed|ing|ations?)\b": "identify, name, false alarm",
    r"\bNot done\.": "Could not finish:",
    r"pass a report on": "export a report",
    r"read a privacy setting": "interpret ε",
    r"(neighbour|subset|model|i\.i\.d\.) game": "who attacks",
}
#: Files that may use the theory's own words, or earlier words.
THEORY = (
    "docs/architecture.md",
    "docs/sharp-edges.md",
    "docs/theory.md",
    "docs/notation.md",
    "docs/crowd.md",
    "docs/limits.md",
    "docs/reproduction-summary.md",
)
SHOWN = [
    path
    for pattern in (
        "README.md",
        "docs/**/*.md",
        "src/**/*.js",
        "src/**/*.j2",
        "src/**/*.html",
        "src/**/templates/*.yaml",
    )
    for path in sorted(ROOT.glob(pattern))
]
SHOWN += sorted((ROOT / "src" / "memberbound").rglob("*.py"))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the visible texts of a file, with their lines; docstrings are not visible."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    tree = ast.parse(source)
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield node.lineno, node.value


def find_retired(path: Path) -> list[str]:
    """Return the retired phrases of a file, with what is written in their place."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    patterns = {p: w for p, w in RETIRED.items() if "game" not in p or name not in THEORY}
    return [
        f"{name}:{line}: {match.group()!r}, write {word!r}"
        for line, text in texts(path)
        for pattern, word in patterns.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def test_no_retired_phrase_is_shown() -> None:
    assert len(SHOWN) > 200
    found = [line for path in SHOWN for line in find_retired(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["page.md", "code.py"])
def test_a_retired_phrase_is_noticed(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(
        '"""Nothing is proved."""\n\nx = f"{1}: Nothing is proved."\n', encoding="utf-8"
    )
    assert [line.split(":")[1] for line in find_retired(path)] == ["1", "3"][name == "code.py" :]
