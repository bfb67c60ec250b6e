"""Audit of an existing model: success of attacks, refusals, and coverage of intervals."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import memberbound
from attacks.conftest import rows
from commands import run_command
from memberbound.attacks import shadows
from memberbound.attacks.evidence import Evidence
from memberbound.attacks.intervals import auc_lower, auc_upper
from memberbound.attacks.model_audit import attack_scores, audit_score_table
from memberbound.attacks.scores import Scores, audit_scores
from memberbound.attacks.shadows import train_references
from memberbound.errors import InputError
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import shared_confidence
from memberbound.quantities import numbers_in
from oracle.shadow_runs import run_of


def run_audit(model: object, members: object, nonmembers: object, **options: object):
    return memberbound.audit(model=model, members=members, nonmembers=nonmembers, **options)


def evidence_of(table: np.ndarray, truth: np.ndarray, member: np.ndarray) -> Evidence:
    """Return the signals of a model with these probabilities, without rows."""
    classes = np.arange(table.shape[1])
    answers = Answers("probabilities", table, classes)
    return Evidence(answers, truth, member, tuple(map(str, classes)))


def test_a_tree_gives_its_members_away(tree) -> None:
    model, _, others = tree
    answer = run_audit(*tree, quick=True)
    fields = answer.to_dict()
    assert fields["game"] == "model"
    # By hand: a tree grown to purity is right about every member.
    right = (model.predict(others[0]) == others[1]).mean()
    assert fields["attacks"]["label-only"]["advantage"]["estimate"] == pytest.approx(1 - right)
    assert fields["attacks"]["label-only"]["access"] == "labels"
    assert fields["best_advantage"]["lower"] > 0.1
    assert fields["leak_shown"] is True
    assert fields["by_access"]["labels"]["advantage"]["lower"] > 0
    assert {f["name"]: f["passes"] for f in fields["facts"]}["smallest leaf"] is False
    assert "labels only" in answer.summary()
    for path, _, side in numbers_in(fields, answer.SIDES):
        assert side is not None, path
    # The same of a model of other records shows nothing.
    other = DecisionTreeClassifier(random_state=0).fit(*rows(300, 3))
    answer = run_audit(other, *tree[1:], quick=True)
    assert answer.to_dict()["best_advantage"]["lower"] == 0
    assert answer.leak_shown is False
    assert "no leak shown" in answer.sentence


def test_regressions_decision_values_and_labels() -> None:
    (x, y), (x0, y0) = rows(200, 1), rows(200, 2)
    sums = y + x[:, 1]
    near = KNeighborsRegressor(1).fit(x, sums)
    fields = run_audit(near, (x, sums), (x0, y0 + x0[:, 1]), quick=True).to_dict()
    assert fields["attacks"]["loss"]["auc"]["lower"] > 0.8
    assert fields["attacks"]["loss"]["access"] == "values"
    assert {f["name"]: f["value"] for f in fields["facts"]}["stored training rows"] == 200
    line = run_audit(RidgeClassifier().fit(x, y), (x, y), (x0, y0), quick=True)
    assert set(line.attacks) == {"loss", "label-only", "combined"}
    labels = run_audit(lambda r: (r[:, 0] > 0).astype(int), (x, y), (x0, y0))
    assert set(labels.attacks) == {"label-only"}


def test_a_model_that_clones_is_attacked_with_models_of_its_own_kind() -> None:
    members, others = rows(300, 1), rows(300, 2)
    model = RandomForestClassifier(10, random_state=0).fit(*members)
    few = {"shadows": 8, "workers": 1}
    answer = run_audit(model, members, others, **few)
    assert answer.reference_models == 8
    for name in ("calibrated-loss", "lira", "rmia", "combined"):
        attack = answer.attacks[name]
        assert attack["auc"]["lower"] > 0.6, name
        # Half of either, because they are few: the records unknown to the rule.
        assert (attack["members"], attack["non_members"]) == (150, 150)
    plain = run_audit(model, members, others, quick=True)
    assert "lira" not in plain.attacks
    assert any("left out" in note for note in plain.warnings)
    with_models, without = (a.attacks["combined"]["auc"]["estimate"] for a in (answer, plain))
    assert with_models > without
    alone = run_audit(model, members, others, attacks=["rmia"], **few)
    assert alone.attacks["rmia"] == answer.attacks["rmia"]


def test_models_that_cannot_be_retrained_explain_what_is_missing(tree) -> None:
    model, members, others = tree
    asked = run_audit(model.predict_proba, members, others)
    assert any("stronger attacks need --learner" in n.lower() for n in asked.warnings)
    few = {"shadows": 4, "workers": 1}
    named = run_audit(model.predict_proba, members, others, learner="tree", **few)
    assert "lira" in named.attacks
    assert not any("--learner" in note for note in named.warnings)
    small = [(x[:60], y[:60]) for x, y in (members, others)]
    assert any("at least 80 each" in note for note in run_audit(model, *small).warnings)
    late = run_audit(*tree, seconds=1e-9, workers=1)
    assert any("seconds must be enough for 4 models" in note for note in late.warnings)
    expect_refusal("at least 80 each", model, *small, learner="same")
    expect_refusal("quick must be left out", *tree, quick=True, learner="same")


def test_the_cost_of_the_first_models_decides_how_many_are_trained(monkeypatch) -> None:
    clock = iter([0, 9, 9, 10, 10, 11, 11, 13])  # four fits of 9 (imports), 1, 1 and 2 seconds
    ticking = SimpleNamespace(process_time=lambda: next(clock))
    monkeypatch.setattr(shadows, "time", ticking)
    x, y = rows(200, 1)
    model = TrainedModel.of(DecisionTreeClassifier().fit(x[:100], y[:100]))
    evidence = Evidence.of(model, x, y, np.arange(200) < 100)
    refs = train_references(evidence, seconds=15.5, workers=1)
    assert refs.models == tuple(range(8))  # 16 models take 16 seconds
    again = train_references(evidence, models=8, workers=1)
    assert np.array_equal(again.membership, refs.membership)
    assert np.array_equal(again.signals.logit, refs.signals.logit)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_named_learner_trains_on_known_records_only(task: str, monkeypatch) -> None:
    x, y = rows(200, 1)
    y = y if task == "classification" else x[:, 0] + y
    member = np.arange(200) < 100
    model = LogisticRegression() if task == "classification" else KNeighborsRegressor(3)
    evidence = Evidence.of(TrainedModel.of(model.fit(x, y)), x, y, member)
    refs = train_references(evidence, "tree", models=4, workers=1)
    known = refs.known
    assert (known[member].sum(), known[~member].sum()) == (50, 50)
    trained = refs.membership
    assert not trained[:, ~known].any()
    assert trained[:, known & member].all()
    assert (trained.sum(axis=1) == 75).all()
    # With the same coins, what is unknown to the attacker moves no score of others (claim 1).
    drawn = Evidence.generator
    monkeypatch.setattr(Evidence, "generator", lambda _, *coins: drawn(evidence, *coins))
    changed = np.flatnonzero(~known)[0]
    x2 = x.copy()
    x2[changed] += 3.0
    other = Evidence.of(evidence.model, x2, y, member)
    again = train_references(other, "tree", models=4, workers=1)
    before = attack_scores(evidence, references=refs)
    after = attack_scores(other, references=again)
    assert {"lira", "rmia", "combined"} <= set(before)
    rest = np.arange(200) != changed
    for name in before:
        assert np.array_equal(before[name][0][rest], after[name][0][rest]), name


# ── Tables in place of a model ────────────────────────────────────────────────────────────────────


def score_table(shift: float, count: int = 600) -> pd.DataFrame:
    member = np.arange(count) % 2
    draws = np.random.default_rng(0).normal(size=count)
    return pd.DataFrame({"score": draws + shift * member, "member": member})


def test_a_table_of_scores(tmp_path: Path) -> None:
    path, listed = tmp_path / "scores.csv", tmp_path / "records.csv"
    score_table(1.0).to_csv(path, index=False)
    fields = memberbound.audit(path).to_dict()
    reached = fields["attacks"]["scores"]
    assert reached["auc"]["lower"] < 0.76 < reached["auc"]["upper"]  # Φ(1/√2) = 0.7602
    assert reached["tpr_at_fpr"]["0.001"] is None
    assert fields["best"] == "scores"
    assert (fields["members"], fields["non_members"]) == (300, 300)
    table = score_table(4.0).assign(sex=np.repeat(["f", "m"], 300))
    fields = memberbound.audit(table, by="sex", records=listed).to_dict()
    assert [group["value"] for group in fields["groups"]["groups"]] == ["f", "m"]
    assert all(group["advantage"]["lower"] > 0.5 for group in fields["groups"]["groups"])
    written = pd.read_csv(listed)
    assert list(written.record) == list(range(2, 601, 2))  # the members' rows, from 1
    assert written.recognised.sum() == fields["records"]["recognised"] > 200
    # Negative control: scores without information list almost no record.
    assert memberbound.audit(score_table(0.0)).to_dict()["records"]["recognised"] == 0


def test_a_table_of_answers(tmp_path: Path, tree) -> None:
    model, members, others = tree
    both = np.vstack([members[0], others[0]])
    known = {
        "label": np.concatenate([members[1], others[1]]),
        "member": (np.arange(600) < 300).astype(int),
    }
    chances = model.predict_proba(both)
    path = tmp_path / "answers.csv"
    chance = {"probability_0": chances[:, 0], "probability_1": chances[:, 1]}
    pd.DataFrame(chance | known).to_csv(path, index=False)
    attacks = memberbound.audit(predictions=path).attacks
    assert attacks["loss"] == run_audit(*tree, quick=True).attacks["loss"]
    assert memberbound.audit(path).attacks == attacks  # recognised by its columns
    only = pd.DataFrame({"prediction": model.predict(both)} | known)
    assert set(memberbound.audit(predictions=only).attacks) == {"label-only"}
    with pytest.raises(InputError, match="'member' is missing"):
        memberbound.audit(predictions=only.drop(columns="member"))
    with pytest.raises(InputError, match="1 \\(member\\) or 0"):
        memberbound.audit(predictions=only.assign(member=2))


def test_the_command_line_from_files(tmp_path: Path, tree) -> None:
    train, test = (table.assign(sex=np.arange(300) % 2) for table in _tables(*tree[1:]))
    model = DecisionTreeClassifier(random_state=0).fit(train[["c0", "c1", "c2"]], train["y"])
    joblib.dump(model, tmp_path / "model.joblib")
    train.to_csv(tmp_path / "train.csv", index=False)
    test.to_csv(tmp_path / "test.csv", index=False)
    line = ["audit", tmp_path / "train.csv", "--nonmembers", tmp_path / "test.csv"]
    line += ["--model", tmp_path / "model.joblib", "--target", "y"]
    code, _, error = run_command(*line)
    assert code == 2
    assert "--trust" in error
    records = tmp_path / "records.csv"
    more = ["--trust", "--quick", "--by", "sex", "--records", records, "--json"]
    fields = json.loads(run_command(*line, *more)[1])
    assert fields["best_advantage"]["lower"] > 0
    assert [g["value"] for g in fields["groups"]["groups"]] == ["0", "1"]
    assert fields["records_out"] == str(records)
    assert len(pd.read_csv(records)) == fields["records"]["tried"]


# ── Bad input: one sentence each ──────────────────────────────────────────────────────────────────


def expect_refusal(match: str, *sides: object, **more: object) -> None:
    with pytest.raises(InputError, match=match):
        run_audit(*sides, **more)


def _tables(*sides: tuple) -> list[pd.DataFrame]:
    return [pd.DataFrame(x, columns=[f"c{i}" for i in range(5)]).assign(y=y) for x, y in sides]


def test_bad_input(tree) -> None:
    model, (x, y), (x0, y0) = tree
    expect_refusal("classes that the model knows", model, (x, y), (x0, np.where(y0 == 1, 7, 0)))
    expect_refusal("same answer", DummyClassifier().fit(x, y), (x, y), (x0, y0))
    expect_refusal("finite numbers", lambda r: np.full((len(r), 2), np.nan), (x, y), (x0, y0))
    expect_refusal("given once", model, (np.vstack([x, x]), np.tile(y, 2)), (x0, y0))
    expect_refusal("must not be members", model, (x, y), (x, y))
    expect_refusal("5 columns", model, (x[:, :4], y), (x0[:, :4], y0))
    expect_refusal("at least 20", model, (x, y), (x0[:5], y0[:5]))
    expect_refusal("nonmembers must be given", model, (x, y), None)
    expect_refusal("as many targets", model, (x, y[:5]), (x0, y0))
    expect_refusal("must be among", *tree, attacks=["magic"])
    numbers = KNeighborsRegressor(1).fit(x, x[:, 0]), (x, x[:, 0]), (x0, x0[:, 0])
    expect_refusal("a regression has no labels", *numbers, attacks=["label-only"])
    expect_refusal("no reference models", *tree, attacks=["rmia"], quick=True)
    expect_refusal("at most 50 values", model, *_tables((x, y), (x0, y0)), target="y", by="c1")
    expect_refusal("seconds must be", *tree, seconds=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            (option, "model must be given with")
            for option in (
                {"nonmembers": "b.csv"},
                {"target": "y"},
                {"columns": "a"},
                {"learner": "tree"},
                {"quick": True},
                {"seconds": 9.0},
                {"trust": True},
            )
        ),
        ({"predictions": score_table(0.0)}, r"give one table.* Got members and predictions"),
        ({"members": None}, r"give one table.* Got none"),
        ({"by": "age"}, "no column 'age'"),
        ({"attacks": ["loss"]}, "attacks must be 'scores'"),
        ({"fpr": 1.0}, "fpr must be"),
    ],
)
def test_bad_questions_about_a_table_of_scores(options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        memberbound.audit(**{"members": score_table(0.0)} | options)


def test_notes_for_the_reader(tree) -> None:
    model, (x, y), (x0, y0) = tree
    rng = np.random.default_rng(0)

    def noisy(r: np.ndarray) -> np.ndarray:
        p = np.clip(model.predict_proba(r) + rng.normal(0, 0.01, (len(r), 2)), 0.01, None)
        return p / p.sum(axis=1, keepdims=True)

    answer = run_audit(noisy, (x, y), (x0, y0))
    assert any("not deterministic" in note for note in answer.warnings)
    mixed = np.vstack([x[:10], x0]), np.concatenate([y[:10], y0])
    answer = run_audit(model, (x, y), mixed, quick=True)
    assert any("10 non-members equal a member" in note for note in answer.warnings)
    assert (answer.members, answer.non_members) == (len(x), len(x0) + 10)


# ── Intervals ─────────────────────────────────────────────────────────────────────────────────────


def test_the_bound_accounts_for_selecting_among_rules() -> None:
    rng = np.random.default_rng(2)
    member, everywhere = np.arange(400) < 200, np.ones(400, dtype=bool)
    scores = {name: (rng.normal(size=400) + member, everywhere) for name in ("a", "b", "c")}
    audit = audit_score_table(scores, member, confidence=0.9)
    pairs = [Scores.of(score, member) for score, _ in scores.values()]
    shared, alone = (
        max(audit_scores(pair, confidence=level).advantage.lower for pair in pairs)
        for level in (shared_confidence(0.9, 3), 0.9)
    )
    assert audit.best_advantage.lower == shared < alone


def test_an_attack_measured_on_its_own_training_records_is_caught() -> None:
    """Negative control of claim 1: the same classifier on its own half "finds" members of noise."""
    rng = np.random.default_rng(7)
    member = np.arange(400) < 200
    told = honest = 0
    for _ in range(10):
        evidence = evidence_of(rng.dirichlet(np.ones(10), 400), rng.integers(10, size=400), member)
        score, where = attack_scores(evidence, attacks=["combined"])["combined"]
        told += audit_scores(Scores.of(score[~where], member[~where]), fpr=()).advantage.lower > 0
        honest += audit_scores(Scores.of(score[where], member[where]), fpr=()).advantage.lower > 0
    assert honest == 0
    assert told >= 6


def misses_of_references(leak: float, runs: int, *, broken: bool = False) -> np.ndarray:
    """Return in how many runs the interval of the AUC missed that of fresh records.

    Per attack and side.  Models are surer of some records than of others, and gain where they are
    trained on one.  In the broken twin reference models have measured members too, untold.
    """
    rng = np.random.default_rng([13, int(10 * leak), broken])
    n1, n0, many, models = 320, 240, 1000, 6
    member = np.concatenate([np.ones(n1), np.zeros(n0), np.ones(many), np.zeros(many)]) > 0
    sample = np.arange(len(member)) < n1 + n0
    names = ("calibrated-loss", "lira", "rmia", "combined")
    missed = np.zeros((len(names), 2))
    for _ in range(runs):
        usual, own = rng.normal(size=len(member)), rng.gamma(2.0, 0.5, size=len(member))
        told = sample & (rng.random(len(member)) < np.where(member, 0.75, 0.5))
        inside = (told & member) | ((told & ~member) & (rng.random((models, len(member))) < 0.5))
        gains = 4 * own * (inside | (broken & sample & member))
        logit = usual + own * rng.normal(size=inside.shape) + gains
        target = usual + own * rng.normal(size=len(member)) + leak * own * member
        chance = 1 / (1 + np.exp(-target))
        both = np.column_stack([1 - chance, chance])
        evidence = evidence_of(both, np.ones(len(member), int), member)
        refs = replace(run_of(inside, logit), known=told)
        scores = attack_scores(evidence, attacks=names, references=refs)
        here = sample & ~told
        sizes = int((here & member).sum()), int((here & ~member).sum())
        for row, name in enumerate(names):
            score = scores[name][0]
            seen, exact = (roc_auc_score(member[p], score[p]) for p in (here, ~sample))
            # The oracle of 1000 records a side is itself off by at most 0.04 (3 deviations).
            missed[row] += (
                auc_lower(seen, *sizes, 0.025) > exact + 0.04,
                auc_upper(seen, *sizes, 0.025) < exact - 0.04,
            )
    return missed


@pytest.mark.parametrize(
    ("leak", "runs", "most"),
    [
        (0.0, 5, 2),
        (1.0, 5, 2),
        *(pytest.param(leak, 200, 15, marks=pytest.mark.long) for leak in (0.0, 0.3, 1.0)),
    ],
)
def test_attacks_with_references_are_covered(leak: float, runs: int, most: int) -> None:
    """Each side may miss in 2.5 % of the runs: more than ``most`` have probability 1.5e-4."""
    assert misses_of_references(leak, runs).max() <= most


def test_references_of_measured_members_are_caught() -> None:
    missed = misses_of_references(0.0, 5, broken=True)[:, 1]
    assert missed[[0, 1, 3]].min() >= 3  # rmia saturates: models are sure of all of them
