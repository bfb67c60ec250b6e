"""``python -m documentation.shown PAGE …`` updates the output shown in pages.

In a page,

- ``console`` blocks hold commands after ``$``, each followed by its output, or by nothing;
- a ``python`` block is run, and a ``text`` block directly below it holds its output;
- a ``yaml`` or ``python`` block that begins with ``# name.ext`` is the content of that file;
- ``<!-- not run: reason -->`` before a block skips it.

A line ``…`` replaces omitted lines, such as those that noise changes from run to run.  Everything
runs in one folder with the files of ``scripts/example_data.py``.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: Commands that prepare the ground.
PREPARING = ("cd", "make", "pip", "source")
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# (?P<name>[\w.-]+\.\w+)\b")

#: Runs the arguments of ``memberbound``, in a folder, and returns what goes to standard output.
Run = Callable[[list[str], Path], str]


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str
    start: int
    end: int
    #: The reason for not running it.
    reason: str | None


def blocks(page: str) -> list[Block]:
    """Return the blocks of code of a page."""
    return [
        Block(m["language"], m["text"], m.start("text"), m.end("text"), m["reason"])
        for m in _BLOCK.finditer(page)
    ]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block, and what is shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def elide(shown: str, printed: str) -> str:
    """Return the printed output, with the lines elide that ``…`` replaces in the shown output."""
    printed = printed.strip("\n") + "\n"
    head, gap, tail = shown.partition("…\n")
    if not gap:
        return printed
    lines, last = printed.splitlines(keepends=True), len(tail.splitlines())
    return "".join([*lines[: len(head.splitlines())], gap, *(lines[-last:] if last else [])])


def refresh(
    page: str, folder: Path, run: Run, chosen: Callable[[str], bool] = lambda _: True
) -> str:
    """Return the page with updated output; commands that are not ``chosen`` are unchanged."""
    namespace: dict[str, object] = {"__name__": "page"}
    pieces, position, printed = [], 0, None
    for block in blocks(page):
        text, above = block.text, page[position : block.start]
        if block.reason is None:
            name = _FILE.match(text)
            if block.language == "text" and printed and re.fullmatch(r"```\s*```text\n", above):
                text = elide(text, printed)
            printed = None
            if block.language in ("yaml", "python") and name:
                (folder / name["name"]).write_text(text, encoding="utf-8")
            elif block.language == "python" and chosen(text):
                printed = _python(text, folder, namespace)
            elif block.language == "console":
                text = "".join(_console(block, folder, run, chosen))
        pieces += [above, text]
        position = block.end
    return "".join([*pieces, page[position:]])


def _console(block: Block, folder: Path, run: Run, chosen: Callable[[str], bool]) -> Iterator[str]:
    for command, shown in commands(block):
        output = shown
        yield f"$ {command}\n"
        program, *arguments = shlex.split(command)
        if program == "memberbound" and chosen(command):
            printed = run(arguments, folder)
            output = elide(shown, printed) if shown.strip() else shown
        elif program not in ("memberbound", *PREPARING):
            raise ValueError(f"a page may not show {command!r} without saying why it is not run")
        yield output


def _python(code: str, folder: Path, namespace: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(folder):
        exec(compile(code, "page", "exec"), namespace)
    return printed.getvalue()


def run_program(arguments: list[str], folder: Path) -> str:
    """Run ``memberbound`` in a process of its own; exit code 3 is an answer above a limit."""
    done = subprocess.run(
        [sys.executable, "-m", "memberbound", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"memberbound {shlex.join(arguments)}: {done.stderr}")
    return done.stdout


def main(pages: list[str]) -> None:
    """Refresh pages in position."""
    for page in map(Path, pages):
        with tempfile.TemporaryDirectory() as folder:
            writer = [sys.executable, str(ROOT / "scripts" / "example_data.py"), folder]
            subprocess.run(writer, check=True)
            text = page.read_text(encoding="utf-8")
            page.write_text(refresh(text, Path(folder), run_program), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
