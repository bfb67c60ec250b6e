"""A limit stops a build exactly if a number is above it, and names that number."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import joblib
import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.tree import DecisionTreeClassifier

import memberbound
from commands import command as command_line
from memberbound.declarations import read_verb
from memberbound.errors import InputError
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.limits import Limit, LimitCheck, Limited, Success, write_junit
from memberbound.testing import assert_private
from memberbound.verbs.study import Study
from report import sample as reports

ROOT = Path(__file__).resolve().parents[1]
CI = ROOT / "examples" / "ci"


class Answered(Limited):
    VERB = "ask"
    FAILS_ON = ("estimate", "floor")
    COMPARED = "anything"

    def __init__(self, *found: Success) -> None:
        self.found = found

    def successes(self, on: str) -> tuple[Success, ...]:
        return self.found


# ── the rule ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "most", "exceeded"),
    [
        (0.55, 0.55, False),  # a limit that is reached is kept
        (float(np.nextafter(0.55, 1)), 0.55, True),  # and one ulp above it is not
        (1.0, float(np.nextafter(1.0, 0)), True),  # nothing proved exceeds every limit below 1
        (1.0, 1.0, False),
    ],
)
def test_above_means_above(value: float, most: float, exceeded: bool) -> None:
    assert LimitCheck("x", "ceiling", value, most, 0.5).exceeded is exceeded


def test_a_number_that_is_missing_is_above_every_limit() -> None:
    """A step that failed must not turn a build green; no ceiling is the ceiling 1."""
    assert LimitCheck("x", "estimate", None, 1.0, 0.5).exceeded
    assert LimitCheck("x", "floor", None, 1.0, 0.5).exceeded
    assert LimitCheck("x", "ceiling", None, 0.99, 0.5).exceeded
    assert not LimitCheck("x", "ceiling", None, 1.0, 0.5).exceeded
    assert "there is no floor" in LimitCheck("x", "floor", None, 1.0, 0.5).sentence


@pytest.mark.parametrize("most", [55, 0.49, 0.0, -1, float("nan"), float("inf"), "much", None])
def test_a_limit_is_a_success_rate(most: object) -> None:
    with pytest.raises(InputError, match="fail_above must be"):
        Limit(most)  # type: ignore[arg-type]


def test_the_requested_part_is_checked() -> None:
    answer = Answered(Success("it", estimate=0.7, floor=0.6))
    assert answer.exceeds(0.65)
    assert not answer.exceeds(0.65, "floor")
    assert answer.exceeds(0.55, "floor")
    with pytest.raises(InputError, match=r"'estimate' or 'floor' for ask, got 'ceiling'"):
        answer.exceeds(0.65, "ceiling")
    with pytest.raises(InputError, match="fail_on must be one of"):
        answer.exceeds(0.65, "sideways")  # type: ignore[arg-type]


def test_the_sentence_names_the_numbers_above_the_limit_only() -> None:
    held = Answered(
        Success("the average", estimate=0.61, floor=0.58),
        Success("the worst", estimate=0.9, floor=0.49),
    ).held_to(0.7)
    assert held.sentence == "the worst: estimate ≈ 90 %, above the limit of 70 %."
    kept = Answered(Success("the worst", estimate=0.9, floor=0.49)).held_to(0.7, "floor")
    assert not kept.exceeded
    assert "no leak shown, within the limit of 70 %" in kept.sentence


def test_junit_has_a_case_per_number(tmp_path: Path) -> None:
    held = Answered(
        Success("a <b> & c", estimate=0.61),
        Success("the worst", estimate=0.9),
        Success("nobody knows", measured=False),
    ).held_to(0.7)
    for _ in range(2):  # a build writes it anew
        write_junit(held, tmp_path / "out.xml")
    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert root.tag == "testsuites"
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert suite.get("skipped") == "1"
    assert [case.get("name") for case in suite] == ["a <b> & c", "the worst", "nobody knows"]
    assert [case.find("failure") is not None for case in suite] == [False, True, False]
    assert [case.find("skipped") is not None for case in suite] == [False, False, True]
    assert suite[1][0].get("message") == held.checks[1].sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.xml"]


# ── what each verb compares ───────────────────────────────────────────────────────────────────────


def test_verbs_with_a_limit_describe_the_compared_number() -> None:
    gated = [name for name in VERBS if verb_named(name).limit_parameters]
    audits = {"audit", "audit-learner", "audit-table", "audit-text"}
    assert set(gated) == audits | {"certify", "explain", "population", "study"}
    for name in gated:
        verb = verb_named(name)
        above, part, _ = verb.limit_parameters
        assert verb.compared in above.help
        assert part.option.choices == verb.fails_on
        assert not any(p.option.web for p in verb.limit_parameters)
    assert read_verb(memberbound.plan).limit_parameters == ()


def test_certified_answers_are_checked_on_the_ceiling() -> None:
    explained = memberbound.explain(epsilon=1.0)
    certified = memberbound.certify(uniform=10, n=100)
    people = memberbound.population([i / 20 for i in range(-20, 20)], epsilon=10, clip=5)
    for answer, value in (
        (explained, explained.accuracy_upper),
        (certified, certified.accuracy_upper),
        (people, people.success_upper),
    ):
        assert 0.5 < value < 1
        assert not answer.exceeds(value)
        assert answer.exceeds(float(np.nextafter(value, 0)))
        with pytest.raises(InputError, match="fail_on must be 'ceiling'"):
            answer.exceeds(0.6, "floor")


@pytest.mark.parametrize(("nu", "lam"), [(0.5, 1.0), (0.3, 1.0), (0.5, 3.0), (0.2, 0.1)])
def test_the_limit_does_not_depend_on_the_weight_of_a_missed_member(nu: float, lam: float) -> None:
    found = memberbound.certify(uniform=10, n=100, nu=nu, lam=lam)
    (success,) = found.successes("ceiling")
    assert success.blind == max(nu, 1 - nu)
    assert success.blind < found.accuracy_upper < 1
    assert success.ceiling == found.accuracy_upper
    assert success.ceiling == memberbound.certify(uniform=10, n=100, nu=nu).accuracy_upper


def scores(shift: float, *, members: int = 300, others: int = 900) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    score = np.concatenate([rng.normal(shift, 1, members), rng.normal(0, 1, others)])
    return pd.DataFrame({"score": score, "member": [1] * members + [0] * others})


def test_an_audit_checks_balanced_success_for_any_share_of_members() -> None:
    found = memberbound.audit(scores(1.5))
    advantage = found.attacks["scores"]["advantage"]
    (success,) = found.successes("estimate")
    assert success.estimate == pytest.approx((1 + advantage["estimate"]) / 2)
    assert success.floor is not None
    assert (1 + advantage["lower"]) / 2 - 1e-12 < success.floor <= (1 + advantage["lower"]) / 2
    between = (success.floor + success.estimate) / 2
    assert found.exceeds(between)
    assert not found.exceeds(between, "floor")


def test_the_lower_bound_of_a_learner_accounts_for_choosing_the_attack() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    frame["y"] = np.where(rng.integers(2, size=80) == 1, "yes", "no")
    asked = {"target": "y", "learner": "tree", "shadows": 12, "workers": 1}
    found = memberbound.audit_learner(frame, **asked)
    (success,) = found.successes("floor")
    own = found.attacks[found.best]["advantage"]["lower"]
    assert success.floor is not None
    assert success.floor <= (1 + found.detail.best_advantage.lower) / 2 <= (1 + own) / 2


def study_of(report: dict[str, Any]) -> Study:
    return Study(reports.typed(report))


def test_a_study_is_about_the_model_as_it_is() -> None:
    report = reports.sample()
    rows = {(r["subject"], r["record"]): r for r in report["sandwich"]}
    average, worst = rows["model", "average"], rows["model", "worst"]
    found = study_of(report)
    held = found.held_to(0.5)
    assert [(c.on, c.value) for c in held.checks] == [
        ("floor", average["accuracy_lower"]),
        ("floor", worst["accuracy_lower"]),
    ]
    seen = [c.value for c in found.held_to(0.5, "estimate").checks]
    assert seen == [average["accuracy_estimate"], worst["accuracy_estimate"]]
    proved = [c.value for c in found.held_to(0.5, "ceiling").checks]
    assert proved == [rows["table", r]["accuracy_upper"] for r in ("average", "worst")]


# ── the command line, and the files that are there to be copied ───────────────────────────────────


def commands() -> Iterator[tuple[str, str]]:
    """Return every command of the examples, verbatim."""
    flow = yaml.safe_load((CI / "membership.yml").read_text(encoding="utf-8"))
    for step in flow["jobs"]["membership"]["steps"]:
        if step.get("run", "").startswith("memberbound"):
            yield "membership.yml", step["run"]
    hooks = yaml.safe_load((CI / "pre-commit-config.yaml").read_text(encoding="utf-8"))
    for hook in hooks["repos"][0]["hooks"]:
        yield "pre-commit-config.yaml", hook["entry"]


def prepare(folder: Path, *, leaky: bool) -> None:
    rng = np.random.default_rng(2)
    rows, groups = (3000, 3) if not leaky else (60, 40)
    people = {name: rng.integers(groups, size=rows) for name in ("age_group", "region")}
    pd.DataFrame(people).to_csv(folder / "people.csv", index=False)
    scores(2.0 if leaky else 0.0).to_csv(folder / "scores.csv", index=False)
    ages = rng.normal(size=(600, 4))
    rich = np.where(ages[:, 0] + rng.normal(size=600) > 0, "yes", "no")
    adults = pd.DataFrame(ages, columns=list("abcd")).assign(income=rich)
    learner = DecisionTreeClassifier(max_depth=None if leaky else 1, random_state=0)
    joblib.dump(learner.fit(ages[:300], rich[:300]), folder / "model.joblib")
    adults[:300].to_csv(folder / "train.csv", index=False)
    adults[300:].to_csv(folder / "test.csv", index=False)
    noise = 0.5 if leaky else 4.0
    (folder / "history.json").write_text(json.dumps([[noise, 0.01, 500]]), encoding="utf-8")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    assert program == "memberbound"
    return command_line(*arguments, cwd=folder)


@pytest.mark.parametrize(("file", "command"), list(commands()))
def test_a_build_is_green_or_red(file: str, command: str, tmp_path: Path) -> None:
    for leaky, code, word in ((False, 0, "passed"), (True, 3, "limit exceeded")):
        folder = tmp_path / word.replace(" ", "-")
        folder.mkdir()
        prepare(folder, leaky=leaky)
        done = run(command, folder)
        assert done.returncode == code, done.stderr
        assert done.stdout
        told = [
            line for line in done.stderr.splitlines() if line.startswith(("passed: ", "limit "))
        ]
        assert len(told) == 1
        assert told[0].startswith(f"{word}: ")
        named = re.search(r"--junit (\S+)", command)
        if named is not None:
            suite = ElementTree.parse(folder / named.group(1)).getroot()[0]
            assert suite.get("failures") == ("1" if leaky else "0")


def test_a_test_suite_fails_where_the_build_does(tmp_path: Path) -> None:
    for leaky in (False, True):
        prepare(tmp_path, leaky=leaky)
        model = joblib.load(tmp_path / "model.joblib")
        train, test = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("train", "test"))
        asked = {"target": "income", "above": 0.6}
        if not leaky:
            assert assert_private(model, train, test, **asked).best is not None
            continue
        with pytest.raises(AssertionError, match="above the limit of 60 %"):
            assert_private(model, train, test, **asked)
        # Members from another source: nothing is measured, at any limit.
        shifted = test.assign(a=test["a"] + 3)
        with pytest.raises(AssertionError):
            assert_private(model, train, shifted, target="income", above=0.99)
        with pytest.raises(InputError, match="fail_above"):
            assert_private(model, train, test, target="income", above=60)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--fail-above 55", "fail_above must be in [0.5, 1], got 55.0."),
        ("--fail-above 0.6 --fail-on floor", "fail_on must be 'ceiling' for explain"),
        ("--fail-on ceiling", "fail_on must come with fail_above"),
        ("--junit out.xml", "junit must come with fail_above"),
        ("--fail-above 0.6 --junit out.txt", "junit must end in .xml"),
        ("--fail-above 0.6 --junit none/out.xml", "junit must be in an existing folder"),
    ],
)
def test_a_limit_that_cannot_be_used_is_refused(
    arguments: str, sentence: str, tmp_path: Path
) -> None:
    done = run(f"memberbound explain --epsilon 1 {arguments}", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not list(tmp_path.iterdir())
