"""``protect`` and ``summarize``: all rows, every record, from the file to the prediction."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.oracle.training import PUBLIC as BOUNDS
from tests.oracle.training import fit_model, people

import memberbound
from memberbound import (
    HalfPrivate,
    InputError,
    MembershipPrivate,
    load,
    predict,
    protect,
    summarize,
)
from memberbound.curve import GaussianCurve
from memberbound.release import budget as budgets
from memberbound.release.all_rows import trials
from memberbound.release.all_rows.bounds import read_bounds
from memberbound.release.all_rows.learner_forms import PRIVATE_LEARNERS
from memberbound.release.saving import certificate_path, check_certificate, save

EVERY = {"target": "ill", "eta": 0.05, "insecure_seed": 2}


def release_from(table, **options):
    """A model where there is a target, else numbers."""
    return (protect if "target" in options else summarize)(table, **options)


@pytest.fixture(scope="module")
def released():
    return protect(people(), bounds=BOUNDS, **EVERY)


def test_the_curve_is_that_of_the_budget(released):
    """Against the exact normal curve of the same μ; only a tiny slack is added to it."""
    answer = released.to_dict()
    exact, curve = GaussianCurve(answer["mu"]), answer["curve"]
    replaced = curve["replace_one"]
    assert curve["eta_upper"] == released.calibration.certificate.value
    assert exact.advantage <= replaced["advantage_upper"] <= exact.advantage + 1e-6
    assert replaced["accuracy_upper"] == pytest.approx(0.5 + curve["eta_upper"])
    for rate, reached in replaced["tpr_upper"].items():
        assert exact.tpr(float(rate)) <= reached <= exact.tpr(float(rate)) + 1e-6
    assert exact.epsilon(1e-5) <= replaced["epsilon_upper"]
    assert curve["security_lower"] <= exact.security()


def bounds_below(value, path=""):
    """Every dictionary with a bound on an attack, by its path."""
    if isinstance(value, dict):
        if value.keys() & {"advantage_upper", "accuracy_upper", "tpr_upper", "epsilon_upper"}:
            yield path
        for key, item in value.items():
            yield from bounds_below(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from bounds_below(item, path)


def mask(value):
    """A document without its doubles: of what may be published these are noisy, or the budget's."""
    if isinstance(value, dict):
        return {key: mask(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    return None if isinstance(value, float) else value


@pytest.mark.parametrize(
    "options",
    [
        {"target": "ill", "learner": "boosting"},
        {"statistic": "contingency", "columns": ["city", "ill"]},
    ],
)
def test_neighbours_under_the_same_noise_are_published_alike(options, tmp_path):
    """Only noisy numbers and the keys in ``owner_only`` may differ."""
    first = people()
    other = first.copy()
    other.loc[11] = [17, "Paris", "maybe"]  # outside of every bound
    suffix = "model.json" if "target" in options else "values.safetensors"
    answers, files = [], []
    for name, table in (("one", first), ("two", other)):
        (tmp_path / name).mkdir()
        out = tmp_path / name / suffix
        made = release_from(table, bounds=BOUNDS, insecure_seed=1, out=out, **options)
        said = made.to_dict() | {"out": None}
        private = {key: said.pop(key) for key in said["owner_only"]}
        answers.append((said, private))
        hashes = {"sha256": None, "certificate_sha256": None}  # of the file, and of its hash
        files.append(json.loads(certificate_path(out).read_text()) | hashes)
    assert files[0] == files[1]
    # An attacker who sees the exact number of rows is always right about an added record.
    for text in (files[0], answers[0][0]):
        assert "1500" in json.dumps(text)
        paths = list(bounds_below(text))
        assert paths
        # Groups are records that are replaced too.
        assert all(path.endswith((".replace_one", ".groups")) for path in paths)
    assert "score_clean" in answers[0][1]
    published = [mask(said) for said, _ in answers]
    assert published[0] == published[1]
    assert not answers[0][0].keys() & {"score_clean", "score_released", "scores", "warnings"}
    if "target" in options:
        stored = [json.loads((tmp_path / name / suffix).read_text()) for name in ("one", "two")]
        assert mask(stored[0]) == mask(stored[1])
        # The owner gets a note on the record, marked as owner only.
        assert any("1 of 1500 rows" in note for note in answers[1][1]["warnings"])
        assert answers[0][1] != answers[1][1]


@pytest.mark.parametrize(("eta", "useless"), [(0.05, False), (0.4999999, True)])
def test_a_vacuous_bound_is_not_printed_as_a_bound(eta, useless):
    made = protect(people(), target="ill", bounds=BOUNDS, eta=eta, insecure_seed=1, baseline=0.5)
    told = [line for line in made.summary().splitlines() if line.startswith(("TPR", "a guess"))]
    assert len(told) == 5
    assert [("≤" in line) for line in told] == [not useless] * 5
    assert not any("≤ 100 %" in line for line in told)


def test_guesses_about_a_record_are_read_off_the_curve():
    """X23: the chance after the release is at most the curve at the chance before it."""
    found = protect(people(), bounds=BOUNDS, baseline=[0.1, 0.5], **EVERY)
    curve, answer = found.released.budget.curve(), found.to_dict()
    assert answer["guess_upper"] == {"0.1": curve.tpr(0.1), "0.5": curve.tpr(0.5)}
    assert 0.1 < answer["guess_upper"]["0.1"] < 0.16
    assert "X23" in answer["theorems"]
    assert any("guessed fact about a record" in text for text in answer["assumptions"])
    assert "a guess right 10 % of the time before" in found.summary()
    with pytest.raises(InputError, match="baseline must be in"):
        protect(people(), bounds=BOUNDS, baseline=1.5, **EVERY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learner": "tree"}, "got 'tree'"),
        ({"learner": DecisionTreeClassifier()}, "'DecisionTreeClassifier'"),
        ({"target": "none"}, "no column 'none'"),
        ({"columns": ["age", "none"]}, "no column 'none'"),
        ({"bounds": {"none": [0, 1]}}, "no column 'none'"),
        ({"eta": 0.5}, "in \\(0, 0.5\\)"),
        ({"eta": "5%"}, "got '5%'. Write it as 0.05"),
        ({"bounds": {"age": [18, 90]}, "eta": 0.02}, "at least about .* rows"),
        ({"bounds": BOUNDS | {"ill": ["yes"]}}, "at least two classes"),
        ({"bounds": BOUNDS | {"ill": list("abcdefghijklmn")}}, "at most 12 classes for 200 rows"),
        ({"bounds": BOUNDS, "learner": "ridge"}, "target of numbers"),
        ({"bounds": "nowhere.yaml"}, "existing file"),
        ({"out": "model.csv"}, "must end in .skops, .json"),
    ],
)
def test_bad_requests_give_one_sentence(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        protect(people(200), **(EVERY | options))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "learner"), [("skops", "logistic"), ("json", "logistic"), ("json", "boosting")]
)
def test_a_saved_model_is_the_model(ending, learner, tmp_path):
    if ending == "skops":
        pytest.importorskip("skops")
    path, model = tmp_path / f"model.{ending}", fit_model(people(), bounds=BOUNDS, learner=learner)
    save(model, path)
    again, fresh = load(path), people(300, 1)
    assert again.to_dict() == model.to_dict()
    assert (again.predict(fresh) == model.predict(fresh)).all()
    assert np.array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
    assert again.calibration_.noise_scale == model.calibration_.noise_scale
    answered = predict(path, fresh[["city", "age", "ill"]])
    assert answered.to_dict()["game"] == "neighbour"
    assert list(answered.frame) == ["prediction", "probability_no", "probability_yes"]
    assert np.mean(answered.values == fresh["ill"]) > 0.7
    assert check_certificate(path)["curve"]["eta_upper"] <= 0.05
    with pytest.raises(InputError, match="every column that the model takes"):
        predict(path, fresh[["age"]], strict=True)


def test_the_operating_systems_noise_is_the_default_and_never_the_same():
    options = {"target": "ill", "bounds": BOUNDS}
    first, second = (protect(people(), **options) for _ in range(2))
    assert first.released.secure
    assert not any("seed" in said for said in first.to_dict()["assumptions"])
    both = [found.released.model.coefficients for found in (first, second)]
    assert not np.array_equal(*both)


@pytest.mark.parametrize("options", [{"target": "ill"}, {"statistic": "mean", "columns": ["age"]}])
def test_any_seed_from_zero_on_repeats_a_release(options):
    def values(seed):
        made = release_from(people(), bounds=BOUNDS, insecure_seed=seed, **options).released
        return made.model.coefficients if "target" in options else made.values

    assert np.array_equal(values(0), values(0))
    assert not np.array_equal(values(0), values(1))
    with pytest.raises(InputError, match="insecure_seed"):
        values(-1)


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_a_file_of_something_else_is_refused(learner, tmp_path):
    path = tmp_path / "model.json"
    save(fit_model(people(), bounds=BOUNDS, learner=learner), path)
    whole = json.loads(path.read_text())
    short = {"coefficients": [[1.0]]} if learner == "logistic" else {"tables": whole["tables"][:1]}
    for broken in ([], {}, whole | short, whole | {"loss": "other"}):
        path.write_text(json.dumps(broken))
        said = json.loads(certificate_path(path).read_text())
        said["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        certificate_path(path).write_text(json.dumps(said))
        with pytest.raises(InputError):
            load(path)


def nothing_but_noise(values, scale, source):
    """With noise independent of the table, the stored release is independent of it, too."""
    size = int(np.prod(np.shape(values)))
    return scale * (8.0 * (np.arange(size) % 3 == 0) + source.normal(size)).reshape(
        np.shape(values)
    )


def files_of(table, folder, bounds, ending):
    table.to_csv(folder / "people.csv", index=False)
    out = folder / f"model.{ending}"
    found = protect(folder / "people.csv", bounds=bounds, out=out, force=True, **EVERY)
    return found, out.read_bytes(), certificate_path(out).read_bytes()


@pytest.mark.parametrize("ending", ["skops", "json"])
@pytest.mark.parametrize("bounds", [BOUNDS, {"ill": ["no", "yes"]}])
def test_files_of_different_tables_with_the_same_noisy_numbers_are_the_same(
    ending, bounds, tmp_path, monkeypatch
):
    if ending == "skops":
        pytest.importorskip("skops")
    monkeypatch.setattr(budgets, "noisy_release", nothing_but_noise)
    first = files_of(people(3000, 1), tmp_path, bounds, ending)
    second = files_of(people(3000, 2), tmp_path, bounds, ending)
    assert first[1:] == second[1:]
    # Negative control: the owner's scores do depend on the table.
    assert first[0].score_baseline != second[0].score_baseline


def test_a_file_that_held_an_exact_mean_would_be_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "noisy_release", nothing_but_noise)
    honest = trials.fit_private

    def leaky(table, *more, **asked):
        released = honest(table, *more, **asked)
        released.model.intercepts[0] += table.columns["age"].numbers.mean()
        return released

    monkeypatch.setattr(trials, "fit_private", leaky)
    first = files_of(people(3000, 1), tmp_path, BOUNDS, "json")
    second = files_of(people(3000, 2), tmp_path, BOUNDS, "json")
    assert first[1] != second[1]


def notes(table, **options):
    return " | ".join(protect(table, **(EVERY | {"bounds": BOUNDS} | options)).warnings)


def test_notes_for_the_owner_about_unusual_rows():
    table = people()
    table.loc[:4, "ill"] = "perhaps"
    note = notes(table, bounds=BOUNDS | {"city": ["Paris", "Lima"]})
    assert "5 of 1500 rows have no class" in note
    assert "values of 'city'" in note
    assert "values of 'age'" not in note
    note = notes(people().assign(ill="yes"))
    assert "every row has the class 'yes'" in note
    assert "larger eta" not in note
    # Three digits after the comma could be thousands as well, so they are not read as numbers.
    written = people().assign(paid=lambda t: [f"{age},250" for age in t["age"]])
    for mark, told in ((".", True), (",", False)):
        bounds = BOUNDS | {"paid": {"range": [0, 100], "decimal": mark}}
        assert ("values of 'paid' are within its bounds" in notes(written, bounds=bounds)) is told


def test_a_release_no_better_than_a_constant_is_noted():
    draws = np.random.default_rng(0)
    table = people(300).assign(ill=draws.choice(["no", "yes"], 300, p=[0.1, 0.9]))
    found = protect(table, bounds=BOUNDS, **(EVERY | {"eta": 0.02}))
    assert found.score_released <= found.score_baseline
    assert any("than a constant" in note for note in found.warnings)
    assert not any(
        "than a constant" in n for n in protect(people(), bounds=BOUNDS, **EVERY).warnings
    )


@pytest.mark.parametrize("learner", [None, "ridge", "linear", "huber"])
def test_a_target_of_numbers(learner):
    table = load_diabetes(as_frame=True).frame
    bounds = {name: [-0.2, 0.2] for name in table.columns} | {"target": [0, 350]}
    asked = {"target": "target", "learner": learner, "eta": 0.1, "insecure_seed": 1}
    found = protect(table, bounds=bounds, **asked)
    assert found.score == "R²"
    assert found.score_released > found.score_baseline + 0.1
    assert predict(found.released, table).probabilities is None


def test_a_raw_table_needs_no_bounds():
    fresh = people(8000, seed=1)
    model = fit_model(people(8000), seed=2)
    reached = float(np.mean(model.predict(fresh) == fresh["ill"]))
    constant = float(fresh["ill"].value_counts(normalize=True).max())
    assert reached > constant + 0.15
    chances = model.predict_proba(fresh)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert ((chances[:, 1] > 0.5) == (model.predict(fresh) == "yes")).all()
    # Rows unlike any training row are predicted, too.
    odd = pd.DataFrame({"age": [None, "old", 1e300], "city": [None, 7, "Ulm"]})
    assert set(model.predict(odd)) <= {"yes", "no"}


@pytest.mark.parametrize("learner", PRIVATE_LEARNERS)
def test_every_learner_takes_public_bounds_alone(learner):
    table = people(400)
    table["ill"] = np.arange(400) % 2
    target = [0, 1] if learner in ("ridge", "huber") else {"categories": [0, 1]}
    model = fit_model(table, bounds=BOUNDS | {"ill": target}, learner=learner)
    assert len(model.predict(table)) == 400
    assert hasattr(model, "predict_proba") == (learner in ("logistic", "boosting"))


def test_digits_of_half_the_table():
    images, digits = load_digits(return_X_y=True)
    table = pd.DataFrame(images).add_prefix("f").assign(y=digits)
    bounds = {f"f{k}": [0, 16] for k in range(64)} | {"y": {"categories": list(range(10))}}
    right = []
    for seed in range(3):
        train = table.sample(frac=0.5, random_state=seed)
        test, model = table.drop(train.index), fit_model(train, "y", seed=seed, bounds=bounds)
        right.append(np.mean(model.predict(test) == test["y"].astype(str)))
    assert np.mean(right) > 0.78  # the constant classifier has 0.1


def test_the_estimator_trains_on_all_rows_of_raw_tables(tmp_path):
    table, fresh = people(), people(300, 1)
    bounds = {"age": [18, 90], "city": ["Rome", "Oslo", "Bern"], "y": ["no", "yes"]}
    model = MembershipPrivate(LogisticRegression(C=np.inf), bounds=bounds, insecure_seed=1)
    model = clone(model).fit(table[["age", "city"]], table["ill"])
    assert model.certificate_.game.name == "neighbour"
    assert model.released_.rows == len(table)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(fresh[["age", "city"]], fresh["ill"]) > 0.7
    chances = model.predict_proba(fresh[["age", "city"]])
    assert ((chances[:, 1] > 0.5) == (model.predict(fresh[["age", "city"]]) == "yes")).all()
    assert ((model.decision_function(fresh[["age", "city"]]) > 0) == (chances[:, 1] > 0.5)).all()
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.predict(fresh) == model.predict(fresh[["age", "city"]])).all()
    assert (predict(model, fresh).values == again.predict(fresh)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(fresh[["city", "age"]])
    # The same model as the verb's, from the same noise.
    same = protect(table, bounds=BOUNDS, **(EVERY | {"insecure_seed": 1})).released
    assert np.array_equal(same.model.coefficients, model.released_.model.coefficients)


def test_a_pipelines_preprocessing_is_replaced_with_a_note():
    table, fresh = people(), people(300, 1)
    bounds = {"age": [18, 90], "city": ["Rome", "Oslo", "Bern"], "y": ["no", "yes"]}
    raw = table[["age", "city"]]
    chain = make_pipeline(OneHotEncoder(), StandardScaler(), LogisticRegression())
    asked = {"bounds": bounds, "insecure_seed": 1}
    with pytest.warns(UserWarning, match="replaced by a private one"):
        model = MembershipPrivate(chain, **asked).fit(raw, table["ill"])
    plain = MembershipPrivate(LogisticRegression(), **asked).fit(raw, table["ill"])
    assert np.array_equal(model.released_.model.coefficients, plain.released_.model.coefficients)
    assert not hasattr(chain[1], "mean_")  # nothing of it was fitted
    assert model.score(fresh[["age", "city"]], fresh["ill"]) > 0.7
    # For a secret half it would be fitted on secret rows, so it is refused.
    numbers = table[["age"]].to_numpy(dtype=float)
    with pytest.raises(InputError, match="Pipeline"):
        HalfPrivate(chain[1:], eta=0.2).fit(numbers, table["ill"])


def test_the_estimator_works_with_scorers_and_has_no_probabilities_it_cannot_give():
    table, fresh = people(), people(300, 1)
    bounds = {"age": [18, 90], "y": ["no", "yes"]}
    for base, chances in ((LogisticRegression(), True), (LinearSVC(), False)):
        model = MembershipPrivate(base, bounds=bounds, insecure_seed=1)
        model.fit(table[["age"]], table["ill"])
        assert hasattr(model, "predict_proba") == chances
        for scorer in ("roc_auc", "balanced_accuracy", "accuracy"):
            assert get_scorer(scorer)(model, fresh[["age"]], fresh["ill"]) > 0.6


def test_the_estimators_classes_are_of_the_targets_kind():
    table = people()
    raw, ill = table[["age"]].to_numpy(), (table["ill"] == "yes").to_numpy()
    for target, names in ((ill, [False, True]), (ill.astype(int), [0, 1]), (ill * 2.0, [0, 2])):
        bounds = {"x0": [18, 90], "y": {"categories": names}}
        model = MembershipPrivate(LogisticRegression(), bounds=bounds, insecure_seed=1).fit(
            raw, target
        )
        assert model.predict(raw).dtype == target.dtype
        assert model.score(raw, target) > 0.7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"estimator": DecisionTreeClassifier()}, "boosting is the private form of trees"),
        ({"estimator": "tree"}, "boosting is the private form of trees"),
        ({}, "Give bounds"),
        ({"bounds": {"x9": [0, 1]}}, "'x9'"),
        ({"eta": 0.5}, "in \\(0, 0.5\\)"),
    ],
)
def test_refusals_of_the_estimator(options, words):
    asked = {"estimator": LogisticRegression()}
    with pytest.raises(InputError, match=words):
        MembershipPrivate(**(asked | options)).fit(np.ones((50, 2)), np.arange(50) % 2)


def test_a_learner_by_name_is_an_estimator():
    model = MembershipPrivate("boosting", eta=0.2, bounds=BOUNDS, insecure_seed=1)
    assert is_classifier(model)
    assert is_regressor(MembershipPrivate("ridge"))
    X, y = people()[["age", "city"]], people()["ill"]
    assert clone(model).fit(X, y).score(X, y) > 0.7


def test_the_targets_bounds_go_by_its_name_or_y():
    X, y = people()[["age", "city"]], people()["ill"]
    as_y = {"y" if name == "ill" else name: bound for name, bound in BOUNDS.items()}
    by_name, by_y = (
        MembershipPrivate("logistic", bounds=bounds, insecure_seed=1) for bounds in (BOUNDS, as_y)
    )
    answers = [model.fit(X, y).predict_proba(X) for model in (by_name, by_y)]
    assert (answers[0] == answers[1]).all()
    with pytest.raises(InputError, match="target as 'y', got 'ill'"):
        by_name.fit(X, y.to_numpy())
    # A column of X of that name keeps its bounds.
    assert "ill" in by_name.fit(X.assign(ill=y), y).released_.columns


# ── Bounds ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "columns.json", "rows.json"])
def test_a_table_as_bounds_is_refused_unquoted(name, tmp_path):
    path = tmp_path / name
    secret = pd.DataFrame({"who": ["Ada Lovelace"] * 3, "ill": ["yes", "no", "yes"]})
    if name == "columns.json":
        path.write_text(json.dumps(secret.to_dict("list")))
    elif name == "rows.json":
        secret.to_json(path)
    else:
        secret.to_csv(path, index=False)
    with pytest.raises(InputError) as refusal:
        read_bounds(path)
    assert "Ada" not in str(refusal.value)
    assert "yes" not in str(refusal.value)


AWKWARD = ["plain", "height, cm", "no", "a: b", "#x", 'q"', "Größe", "12", "- z"]


@pytest.mark.parametrize("odd", [["word", "1", "no"], ["", "", ""], ["1", "2020-01-01", "yes"]])
def test_guesses_in_a_template_are_marked_for_the_owner(odd):
    rows = [[f"{k},5", f"{k % 28 + 1}/02/2021", "yes"] for k in range(60)]
    made = [
        memberbound.bounds(pd.DataFrame([*rows, last], columns=["a", "b", "c"]))
        for last in (["7,5", "13/02/2021", "no"], odd)
    ]
    shared = [
        [line.partition("# OWNER ONLY:")[0] for line in one.template.splitlines()] for one in made
    ]
    assert shared[0] == shared[1]
    for one in made:
        assert one.template.count("# OWNER ONLY:") == 1 + len(one.columns)
        public = {key: v for key, v in one.to_dict().items() if key not in one.owner_only}
        assert public == {k: v for k, v in made[0].to_dict().items() if k not in one.owner_only}
    assert (made[0].template != made[1].template) == (odd[0] == "word")  # the guesses do differ


def test_a_template_has_every_column_and_no_value(tmp_path):
    """Tables of the same types give the same file, for any rows."""
    draws = np.random.default_rng(0)
    made = [
        pd.DataFrame({name: draws.normal(size=60).round(6) for name in AWKWARD}).assign(
            city=draws.choice(words, 60)
        )
        for words in (["Rome", "Oslo"], ["Bern", "Ulm"])
    ]
    first, second = (memberbound.bounds(table) for table in made)
    assert first.template == second.template
    path = tmp_path / "bounds.yaml"
    memberbound.bounds(made[0], out=path)
    assert path.read_text(encoding="utf-8") == first.template
    assert list(yaml.safe_load(path.read_text(encoding="utf-8"))) == list(made[0].columns)
    assert read_bounds(path) == {}  # nothing is filled in, so nothing is given
    with pytest.raises(InputError, match="must not exist"):
        memberbound.bounds(made[0], out=path)
