"""Everything that a page shows as code runs as printed, and prints what is shown below it."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import commands
import memberbound
from documentation import shown
from memberbound import testing
from memberbound.papers import (
    aubinais2023,
    aubinais2024,
    aubinais2025,
    beyond,
    izzo2024,
    lowy2024,
)

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["README.md", "docs/tutorial.md", "docs/index.md", "docs/gradient.md"]
NAMES += sorted(f"docs/howto/{path.name}" for path in (ROOT / "docs" / "howto").glob("*.md"))
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
#: Run with a database and a cluster of their own by tests/faults.
ELSEWHERE = "docs/howto/more-than-one-machine.md"
#: Pages that `make test` runs as a whole; of the README it runs what takes no second.
SHORT = ("docs/howto/explain.md", "docs/howto/several-releases.md", "docs/howto/floating-point.md")
QUICK = re.compile(r"memberbound (explain|certify|plan|population .*--epsilon|theorems)\b")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    script = ROOT / "scripts" / "example_data.py"
    subprocess.run([sys.executable, script, folder], check=True)
    return folder


def run(arguments: list[str], folder: Path) -> str:
    """Run a command in this process; exit code 3 is an answer above a limit."""
    done = commands.command(*arguments, cwd=folder, env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout.strip()
    return done.stdout


def test_the_readme_shows_the_output_of_its_quick_commands(data: Path) -> None:
    page = PAGES["README.md"]
    chosen = [c for b in shown.blocks(page) for c, _ in shown.commands(b) if QUICK.match(c)]
    assert len(chosen) >= 8
    assert shown.refresh(page, data, run, lambda text: bool(QUICK.match(text))) == page


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long])
        for name in PAGES
        if name != ELSEWHERE
    ],
)
def test_a_page_runs_as_printed_and_shows_its_output(
    name: str, data: Path, tmp_path: Path, monkeypatch
) -> None:
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert shown.refresh(PAGES[name], tmp_path, run) == PAGES[name]


@pytest.mark.long
def test_the_service_of_the_readme_answers(data: Path, tmp_path: Path, monkeypatch) -> None:
    """The request that curl posts in the README, without a port, with the rows of the file."""
    page = PAGES["README.md"]
    name = "memberbound protect patients.csv"
    (text,) = [c for b in shown.blocks(page) for c, _ in shown.commands(b) if c.startswith(name)]
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    run(shlex.split(text)[1:], tmp_path)
    (service,) = [b.text for b in shown.blocks(page) if b.text.startswith("# service.py")]
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "service"}
    exec(compile(service, "service.py", "exec"), namespace)
    rows = (data / "new-patients.csv").read_bytes()
    testclient = pytest.importorskip("starlette.testclient")
    answer = testclient.TestClient(namespace["app"]).post("/predict", content=rows)
    assert answer.status_code == 200
    assert set(answer.json()) <= {"benign", "malignant"}
    assert len(answer.json()) == rows.count(b"\n") - 1


def test_an_output_that_is_not_current_is_noticed(tmp_path: Path) -> None:
    page = "```console\n$ memberbound plan --security 0.9 --uniform 316\n5004 rows\n```\n"
    assert "\n5005 training rows" in shown.refresh(page, tmp_path, run)
    page = "```python\nprint(1)\nprint(2)\nprint(3)\n```\n\n```text\n1\n…\n4\n```\n"
    assert shown.refresh(page, tmp_path, run).endswith("\n1\n…\n3\n```\n")


def test_a_command_that_is_not_run_has_a_reason(tmp_path: Path) -> None:
    page = "```console\n$ rm things\n```\n"
    with pytest.raises(ValueError, match="without saying why"):
        shown.refresh(page, tmp_path, run)
    assert shown.refresh(f"<!-- not run: no -->\n{page}", tmp_path, run).endswith(page)


#: Allowed imports: the package, and the other names in docs/api.md.
PUBLIC_MODULES = (
    memberbound,
    testing,
    aubinais2025,
    aubinais2024,
    aubinais2023,
    izzo2024,
    lowy2024,
    beyond,
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_imports_from_the_public_surface_alone(name: str) -> None:
    codes = [block.text for block in shown.blocks(PAGES[name]) if block.language == "python"]
    for node in (node for code in codes for node in ast.walk(ast.parse(code))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("memberbound"):
            module = importlib.import_module(str(node.module))
            assert module in PUBLIC_MODULES
            public = set(getattr(module, "__all__", ["assert_private"]))
            assert {alias.name for alias in node.names} <= public
        if isinstance(node, ast.Import):
            assert not [a for a in node.names if a.name.startswith("memberbound.")]
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "memberbound":
            assert node.attr in memberbound.__all__
