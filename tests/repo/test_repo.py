"""Checks that hold of the repository as a whole."""

import contextlib
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import LONGEST
from memberbound._version import __version__
from memberbound.faces.command_line import VERBS
from memberbound.faces.web.child import JOBS

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Assembled from words, so that this file does not contain what it forbids.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/-])/(?:" + "|".join(["home", "Users", "root", "work", "opt", "mnt"]) + r")/\w"
)


def repository_files() -> list[Path]:
    """Return the files that git tracks, or would track."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    names = {name.decode() for name in listed.split(b"\0") if name}
    return sorted(path for name in names if (path := ROOT / name).is_file())


def test_machine_path_pattern_recognises_one() -> None:
    assert MACHINE_PATH.search("see " + "/".join(["", "home", "someone", "notes"]))
    assert not MACHINE_PATH.search("https://example.org/home/page and docs/work/flow")


def test_no_file_names_a_machine_path() -> None:
    files = repository_files()
    assert ROOT / "pyproject.toml" in files
    found = []
    for path in files:
        with contextlib.suppress(UnicodeDecodeError):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if MACHINE_PATH.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def missing_modules(page: str) -> list[str]:
    """Return the names in backticks, and of the drawing, that are neither a module nor a file."""
    package = ROOT / "src" / "memberbound"
    known = {path.stem for path in package.rglob("*")} | {"serve", "make"}
    drawing, text = page.split("```")[1], "".join(page.split("```")[::2])
    named = re.findall(r"[a-z_]+(?:/[a-z_]+)+|[a-z]+_[a-z_]+", drawing)
    named += re.findall(r"`([A-Za-z_0-9./]+)`", text)
    roots = (package, ROOT)
    return [
        name
        for name in named
        if name not in known
        and not any((root / f"{name}{end}").exists() for root in roots for end in ("", ".py"))
    ]


def test_the_map_of_the_package_names_modules_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert missing_modules(page) == []
    assert page.count("\n") <= 80  # two screens
    # The broken twins.
    assert missing_modules(page.replace("tables/cells", "tables/bins")) == ["tables/bins"]
    assert missing_modules(page.replace("label_model", "label_law")) == ["label_law"]


def test_a_guard_of_the_map_imports_its_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:how|which|what) .*", page, re.MULTILINE)
    assert len(rows) >= 8
    for row in rows:
        _, _, modules, guards, _ = row.split("|")
        room, _, name = re.findall(r"`([a-z_/]+)`", modules)[0].rpartition("/")
        dotted = ".".join(["memberbound", *filter(None, room.split("/"))])
        imports = re.compile(rf"from {dotted}(\.{name} import| import [^)]*?\b{name}\b)")
        tests = [ROOT / name for name in re.findall(r"`(tests/[a-z_/0-9A-Z]+\.py)`", guards)]
        assert any(imports.search(test.read_text(encoding="utf-8")) for test in tests), row


def test_the_longest_test_files_are_there() -> None:
    """A file that is moved would silently lose its place in the order of the tests."""
    assert not [name for name in LONGEST if not (ROOT / "tests" / name).is_file()]


def test_changelog_has_a_soundness_heading() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^### Soundness$", changelog, flags=re.MULTILINE)


def test_the_map_names_every_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("## Where things go")[1].split("### To add an option")[0]
    assert len(section.splitlines()) <= 32
    package = ROOT / "src" / "memberbound"
    rooms = {path.stem for path in package.iterdir() if not path.name.startswith(("_", "py."))}
    assert {"verbs", "games"} <= rooms
    assert not [room for room in rooms if f"`{room}`" not in section]


def test_citation_has_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [__version__]


def declared_dependencies() -> set[str]:
    project = PYPROJECT["project"]
    lists = [
        PYPROJECT["build-system"]["requires"],
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    return {
        canonicalize_name(Requirement(entry).name)
        for entries in lists
        for entry in entries
        if isinstance(entry, str)  # the others include a group
    }


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = {canonicalize_name(name) for name in re.findall(r"`([\w.-]+)`", page)}
    declared = declared_dependencies()
    assert {"numpy", "pytest", "hatchling"} <= declared
    assert not declared - explained


def test_ci_is_executable_and_run_by_the_workflow() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_pre_commit_runs_ruff_only() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repo in settings["repos"] for hook in repo["hooks"]]
    assert [shlex.split(entry)[:2] for entry in entries] == [
        [".venv/bin/ruff", "check"],
        [".venv/bin/ruff", "format"],
    ]


def test_property_tests_draw_the_same_examples_every_time():
    from hypothesis import settings

    exploring = os.environ.get("MEMBERBOUND_EXAMPLES") == "explore"
    assert settings().derandomize is not exploring
    assert settings().deadline is None
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    quick, long = (
        makefile.split(f"\n{name}: ")[1].split("\n\n")[0] for name in ("test", "test-long")
    )
    assert "MEMBERBOUND_EXAMPLES" not in quick
    assert "MEMBERBOUND_EXAMPLES=explore" in long
    assert "hypothesis" in long


def test_the_api_page_is_the_public_surface() -> None:
    import memberbound

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: memberbound\.(\S+)$", page, flags=re.MULTILINE)
    assert sorted(name.rpartition(".")[2] for name in listed) == sorted(
        set(memberbound.__all__) - {"__version__"}
    )
    for name in listed:
        public = getattr(memberbound, name.rpartition(".")[2])
        assert f"{public.__module__}.{public.__name__}" == f"memberbound.{name}"


def test_the_paper_cites_exactly_its_bibliography() -> None:
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    entries = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    cited = set(re.findall(r"@(\w+)", text.split("---", 2)[2]))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", entries, flags=re.MULTILINE))
    for heading in ("Summary", "Statement of need", "State of the field", "References"):
        assert f"\n# {heading}\n" in text


def test_the_readme_names_the_verbs_without_a_page() -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    (named,) = re.findall(r"All except (.*?) are also pages of the web interface", text)
    assert set(re.findall("`(.*?)`", named)) == {*VERBS} - {*JOBS, "explain", "serve"}


def test_rows_of_tables_have_the_cells_of_their_head() -> None:
    """A page that is wrapped again must not join the rows of a table."""
    tables = [
        (page, table.splitlines())
        for page in (path for path in repository_files() if path.suffix == ".md")
        for table in re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), flags=re.MULTILINE)
        if re.search(r"^\|[ :|-]+\|$", table, flags=re.MULTILINE)
    ]
    assert len(tables) > 40, "the pattern finds no tables"
    uneven = [
        f"{page.name}: {row}"
        for page, rows in tables
        for row in rows
        if _bars(row) != _bars(rows[0])
    ]
    assert not uneven, "\n".join(uneven)


def _bars(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", re.sub("`[^`]*`", "", row)))


def test_links_between_pages_work_in_a_clone() -> None:
    pages = [path for path in repository_files() if path.suffix == ".md"]
    links = [
        (page.relative_to(ROOT), target)
        for page in pages
        for target in re.findall(r"\]\(([^)\s#]+)", page.read_text("utf-8"))
        if not re.match(r"[a-z]+:", target)
    ]
    assert len(links) > 300, "the pattern finds no links"
    dead = [
        f"{page}: {target}" for page, target in links if not (ROOT / page.parent / target).exists()
    ]
    assert not dead, "\n".join(dead)


def test_thinned_tests_exist() -> None:
    thinned = tomllib.loads((ROOT / "tests" / "thinned.toml").read_text("utf-8"))
    wrong = [
        f"{file}::{name}"
        for file, rules in thinned.items()
        for name, rule in rules.items()
        if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")
        or not 0 <= rule["first"] < rule["every"]
    ]
    assert thinned
    assert not wrong, wrong
