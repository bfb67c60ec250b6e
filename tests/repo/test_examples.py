"""Each example runs as a user runs it, prints its message, and leaves no files behind."""

import ast
import getpass
import re
from pathlib import Path

import pytest

import memberbound
from commands import python, script
from documentation import gallery

ROOT = Path(__file__).resolve().parents[2]
_FILES = (ROOT / "examples").glob("*.py")
SCRIPTS = {path.stem: path for path in sorted(_FILES, key=lambda p: int(p.stem.split("_")[0]))}
#: The required output of each example.
SAYS = {
    "1_can_this_model_leak": "Replace it: a logistic model of all rows with noise, accuracy",
    "2_what_does_epsilon_mean": "more than 99.97 % of the time",
    "3_which_epsilon_do_we_need": "To keep η ≤ 0.05, use ε = 0.200652 and δ = 1e-5",
    "4_is_this_table_safe": "Whatever is trained on 20000 such rows, nobody is right",
    "5_how_coarse_must_it_be": "Whatever is trained on the 3000 released rows, nobody",
    "6_how_many_rows": "2997 training rows give MIS ≥ 0.95",
    "7_least_noise": "is right about any record's membership more than 55 % of the time",
    "8_are_the_theorems_right": "Counterexample, computed now",
    "9_what_does_a_network_give_away": "above the limit of 60 %",
    "10_what_does_a_text_classifier_give_away": "an API that returns labels only: advantage ≥",
    "11_what_does_a_boosted_model_give_away": "an API that returns probabilities: advantage ≥",
    "12_where_do_we_keep_the_verdict": "such as memberbound/certified/coarser-table/average-record",
    "14_which_private_model_is_best": "3 releases, together at most 54.9",
    "15_is_the_table_in_the_database_safe": "row's membership more than 50.35 % of the time",
    "16_can_a_regression_be_made_from_released_numbers": "Slopes of income, from the released",
    "17_can_we_hand_over_a_table": "Attacks on the new rows",
    "18_what_does_a_fine_tuned_language_model_give_away": "no leak shown, within the limit of 70 %",
    "19_how_do_we_fine_tune_a_language_model_safely": "document's membership more than 55 %",
}
#: Run in processes of their own (MLflow keeps its settings in one); what the others print does not
#: depend on that.
ALONE = ("2_what_does_epsilon_mean", "12_where_do_we_keep_the_verdict")
#: Requirements of a script besides the package itself.
NEEDS = {
    "9_what_does_a_network_give_away": ("torch",),
    "11_what_does_a_boosted_model_give_away": ("lightgbm", "onnxmltools", "onnxruntime"),
    "12_where_do_we_keep_the_verdict": ("mlflow",),
    "18_what_does_a_fine_tuned_language_model_give_away": ("torch", "transformers"),
    "19_how_do_we_fine_tune_a_language_model_safely": ("torch", "transformers"),
}
#: Train networks in processes of their own, load large libraries of others, or make several models,
#: which takes longest where others work as well.  `make docs` runs every example, and one that
#: fails stops it.
LONG = (
    "1_can_this_model_leak",
    "9_what_does_a_network_give_away",
    "10_what_does_a_text_classifier_give_away",
    "11_what_does_a_boosted_model_give_away",
    "12_where_do_we_keep_the_verdict",
    "17_can_we_hand_over_a_table",
    "18_what_does_a_fine_tuned_language_model_give_away",
    "19_how_do_we_fine_tune_a_language_model_safely",
)
#: Files that a script leaves in its working folder.
LEAVES = {"1_can_this_model_leak": ["here/reports"]}
#: Folders that libraries make once in a process: torch an empty one, Matplotlib at the first
#: picture its own, and all that is in them.
DRAWN = ("home/.config", "home/matplotlib", f"temporary/torchinductor_{getpass.getuser()}")
FONTS = r"home/matplotlib/fontlist-[\w.]+\.json|home/\.config/matplotlib"


def test_every_question_is_answered():
    assert list(SCRIPTS) == list(SAYS)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n in LONG else []) for n in SAYS]
)
def test_example_runs_and_prints_its_result(name: str, tmp_path: Path) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    folders = {part: tmp_path / part for part in ("here", "home", "temporary")}
    for folder in folders.values():
        folder.mkdir()
    home = {key: str(folders["home"]) for key in ("HOME", "USERPROFILE", "XDG_CACHE_HOME")}
    settings = {**home, "TMPDIR": str(folders["temporary"]), "PYTHONUTF8": "1"}
    if name in ALONE:
        ran = python("-B", SCRIPTS[name], cwd=folders["here"], env=settings)
        out, err = ran.stdout, ran.stderr
    else:
        out, err = script(SCRIPTS[name], folders["here"], settings)
    assert not err
    assert SAYS[name] in out
    left = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")]
    assert sorted(path for path in left if path not in DRAWN) == LEAVES.get(name, [])
    kept = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("home/*/*")]
    assert [path for path in kept if not re.fullmatch(FONTS, path)] == []


@pytest.mark.parametrize("name", SAYS)
def test_example_is_short_and_uses_the_public_surface_only(name: str) -> None:
    source = SCRIPTS[name].read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    module = ast.parse(source)
    question, blank, meaning, *_ = (ast.get_docstring(module) or "").split("\n")
    assert question.endswith("?")
    assert (blank, bool(meaning)) == ("", True)
    imported = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom | ast.Import)]
    assert [ast.unparse(node) for node in imported if "memberbound" in ast.unparse(node)] == [
        "import memberbound as mb"
    ]
    used = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mb"
    }
    assert used
    assert used <= set(memberbound.__all__)
    # Numbers become text in the library, where they are rounded to the safe side.
    assert not [n for n in ast.walk(module) if isinstance(n, ast.FormattedValue) and n.format_spec]


def test_gallery_shows_question_code_and_output(tmp_path: Path) -> None:
    script = tmp_path / "sum.py"
    script.write_text('"""How many?\n\nSo many.\n"""\n\nprint("≤", 20 + 3)\n', encoding="utf-8")
    shown = gallery.section(script)
    assert shown.startswith("## How many?\n\nSo many.\n")
    assert '\nprint("≤", 20 + 3)\n```\n' in shown
    assert "\n≤ 23\n```\n" in shown


def test_gallery_lists_examples_that_could_not_run(tmp_path: Path) -> None:
    script = tmp_path / "far.py"
    script.write_text('"""How?"""\n\nimport no_such_package.at_all\n', encoding="utf-8")
    assert "(not run here: no_such_package not installed)" in gallery.section(script)


def test_gallery_is_not_built_with_an_example_that_fails(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text('"""Why?"""\n\nprint(1 / 0)\n', encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"broken\.py failed:[\s\S]*ZeroDivision"):
        gallery.section(script)
