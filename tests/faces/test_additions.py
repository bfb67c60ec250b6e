"""Adding an option, a verb, an attack, a learner or a statistic works as in CONTRIBUTING.md.

A test edits a copy of the package as the page describes, and a process that imports the copy looks
for the addition in every face.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import memberbound
from commands import python

pytest.importorskip("pydantic")
ROOT = Path(__file__).parents[2]
#: File of the package → (text, text in its place): one option, attack, learner and statistic.
EDITS = {
    "verbs/certify.py": [
        ("    force: Force = False,", "    grain: float = 1.0,\n    force: Force = False,"),
        ("        force: ", "        grain: how coarse the sand is.\n        force: "),
    ],
    "attacks/attacks.py": [
        (
            "    for attack in (\n",
            "    for attack in (\n"
            '        Attack("high-loss", lambda targets: targets.signals.loss, learns=False),\n',
        )
    ],
    "learners/names.py": [
        (
            '    "tree": ("tree.DecisionTreeClassifier", {}),\n',
            '    "stump": ("tree.DecisionTreeClassifier", {"max_depth": 1}),\n'
            '    "tree": ("tree.DecisionTreeClassifier", {}),\n',
        )
    ],
    "release/all_rows/summaries.py": [
        (
            "_STATISTICS = {\n",
            '_STATISTICS = {\n    "double": _Statistic(\n'
            "        lambda work: (sums := work.means(total=True))\n"
            "        and _Numbers(2 * sums.values, sums.names, sums.scale, sums.intervals),\n"
            "        lambda columns: 3 * columns,\n    ),\n",
        )
    ],
    "faces/command_line.py": [
        ('    "Tables": {\n', '    "Tables": {\n        "weigh": "Weigh a table.",\n')
    ],
    "__init__.py": [("PUBLIC = {\n", 'PUBLIC = {\n    "weigh": "memberbound.verbs.weigh",\n')],
    "__init__.pyi": [
        ("\nPUBLIC: ", "from memberbound.verbs.weigh import weigh as weigh\n\nPUBLIC: "),
    ],
}
VERB = '''
"""The verb ``weigh``."""

from dataclasses import dataclass, field

import pandas as pd

from memberbound.answers import Answer, Upper, computed
from memberbound.declarations import OutputFile, Progress, TableLike
from memberbound.games import IidGame


@dataclass(frozen=True, repr=False)
class Weight(Answer):
    """How heavy a table is."""

    VERB = "weigh"
    weight_upper: Upper
    game: IidGame = field(default_factory=IidGame)
    theorems: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @computed
    def sentence(self) -> str:
        """The answer in a sentence."""
        return f"It weighs at most {self.weight_upper}."


def weigh(
    people: TableLike,
    *,
    factor: int = 2,
    out: OutputFile | None = None,
    progress: Progress | None = None,
) -> Weight:
    """Weigh a table.

    Args:
        people: the table.
        factor: how often it is weighed.
        out: where it goes.

    Command line:
        memberbound weigh people.csv
    """
    frame = pd.read_csv(people)
    if progress is not None:
        progress("weighing", 1, 2)
    if out is not None:
        frame.to_csv(out)
    return Weight(float(len(frame) * factor))
'''
PROGRAM = """
import contextlib, io, json, os, sys
import memberbound
from documentation.reference import section
from memberbound.faces import command_line
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.faces.web.schemas import equivalent, options_model, verb_form
from memberbound.faces.web.child import JOBS, run_verb

def typed(*words):
    sys.argv = ["memberbound", *words]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        command_line.main()
    return printed.getvalue()

def done(verb, **options):
    return run_verb(verb, "people.csv", options, lambda *event: None)

def form(verb):
    return {a["name"]: a["choices"] for a in verb_form(verb_named(verb))["arguments"]}

def schema(verb):
    return options_model(verb_named(verb)).model_json_schema()

os.environ["COLUMNS"] = "200"
learner = {"target": "y", "learner": "stump", "shadows": 8, "attacks": ["high-loss"]}
summary = ["summarize", "people.csv", "--statistic", "double", "--columns", "age"]
summary += ["--bounds", "bounds.json", "--eta", "0.4"]
snippet = equivalent(verb_named("weigh"), "p.csv", {"factor": 3})["command"]
weighed = done("weigh", factor=3)
print(json.dumps({
    "package": memberbound.__file__,
    "option": {
        "command": "--grain" in typed("certify", "--help"),
        "web": "grain" in schema("certify")["properties"] and "grain" in form("certify"),
        "reference": "--grain" in section(verb_named("certify")),
    },
    "verb": {
        "python": memberbound.weigh("people.csv").weight_upper == 240,
        "command": json.loads(typed("weigh", "people.csv", "--json"))["weight_upper"] == 240,
        "help": "Weigh a table." in typed("--help"),
        "web": weighed["result"]["weight_upper"] == 360,
        "form": "weigh" in JOBS and "factor" in form("weigh"),
        "files": "weigh.csv" in os.listdir(),
        "snippet": "memberbound weigh p.csv --factor 3 --json" == snippet,
        "reference": "memberbound weigh people.csv" in section(verb_named("weigh")),
    },
    "attack": {
        "learner": "high-loss" in typed("audit-learner", "--help"),
        "model": "high-loss" in typed("audit", "--help"),
        "web": list(done("audit-learner", **learner)["result"]["attacks"]) == ["high-loss"],
    },
    "learner": {
        "command": "stump" in typed("audit-learner", "--help"),
        "form": "stump" in form("audit-learner")["learner"],
        "web": '"stump"' in json.dumps(schema("study")),
    },
    "statistic": {
        "command": len(json.loads(typed(*summary, "--json"))["values"]) == 1,
        "web": "double" in form("summarize")["statistic"],
    },
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The output of every face for an edited copy of the package."""
    folder = tmp_path_factory.mktemp("edited")
    package = folder / "memberbound"
    shutil.copytree(
        Path(memberbound.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "verbs" / "weigh.py").write_text(VERB, encoding="utf-8")
    for name, edits in EDITS.items():
        text = (package / name).read_text(encoding="utf-8")
        for before, after in edits:
            assert before in text, (name, before)
            text = text.replace(before, after, 1)
        (package / name).write_text(text, encoding="utf-8")
    work = folder / "run"
    work.mkdir()
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 80, 120), "x": rng.normal(size=120)})
    people["y"] = (people.x > 0).astype(int)
    people.to_csv(work / "people.csv", index=False)
    (work / "bounds.json").write_text('{"age": [0, 120]}', encoding="utf-8")
    paths = [str(folder), str(ROOT / "scripts")]
    path = {"PYTHONPATH": os.pathsep.join(paths)}
    ran = python("-W", "ignore", "-c", PROGRAM, cwd=work, env=path)
    found: dict[str, dict[str, object]] = json.loads(ran.stdout.splitlines()[-1])
    assert Path(str(found.pop("package"))).parent == package
    return found


@pytest.mark.parametrize("what", ["option", "verb", "attack", "learner", "statistic"])
def test_an_addition_appears_on_every_face(
    answers: dict[str, dict[str, object]], what: str
) -> None:
    assert answers[what] == dict.fromkeys(answers[what], True)
