"""Model files: the same answers as the model that was saved, no code without trust, no crash."""

import copy
import json
import pickle
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from memberbound.errors import InputError, import_optional
from memberbound.learners.model_files import load_model

LIGHT = "LightGBM is not installed (pip install memberbound[boosting])"
XGB = "XGBoost is not installed (pip install memberbound[boosting])"
ONNX = "onnxruntime and the converter skl2onnx are not installed"
TORCH = "torch is not installed (pip install memberbound[torch])"


@pytest.fixture(scope="module")
def iris() -> tuple[pd.DataFrame, np.ndarray]:
    x, y = load_iris(return_X_y=True)
    return pd.DataFrame(x, columns=["a", "b b", "c", "d"]), y


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.write_text, (self.path, "ran"))


#: Ending → the package that reads it, contents that it does not read, and the message.
UNREADABLE = [
    (".txt", "lightgbm", [b"", b"hello", b"tree\nversion=v4\n"], "LightGBM's text format"),
    (".txt", "lightgbm", [b"\xff\xfe tree"], "file that loads here"),
    (".json", "xgboost", [b"{}", b"[]", b'{"learner": 3}'], "XGBoost's JSON format"),
    (".json", "xgboost", [b'{"learner": {"att'], "file that loads here, got JSONDecodeError"),
    (".onnx", "onnxruntime", [b"", b"\x08", b"not a model at all" * 20], "model must"),
    (".joblib", "joblib", [b"not a model"], "file that loads here"),
    (".py", "joblib", [b"print()"], "must end in"),
]


@pytest.mark.parametrize(("ending", "package", "contents", "words"), UNREADABLE)
def test_unreadable_files_are_refused(ending, package, contents, words, tmp_path):
    pytest.importorskip(package)
    path = tmp_path / f"model{ending}"
    with pytest.raises(InputError, match="exists"):
        load_model(path)
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(InputError, match=words):
            load_model(path, trust=True)


# ── code ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ending", [".joblib", ".pkl"])
def test_a_pickle_runs_nothing_without_trust(ending, tmp_path):
    sign, path = tmp_path / "ran", tmp_path / f"model{ending}"
    path.write_bytes(pickle.dumps(Payload(sign)))
    with pytest.raises(InputError, match=r"runs no code when it is read.*--trust"):
        load_model(path)
    assert not sign.exists()
    with pytest.raises(InputError):  # a number is no model, but by then the code has run
        load_model(path, trust=True)
    assert sign.exists()


def test_a_trusted_pickle_predicts_with_a_note(tmp_path, people, pipeline):
    joblib.dump(pipeline, tmp_path / "model.joblib")
    found = load_model(tmp_path / "model.joblib", trust=True)
    assert np.array_equal(found.answers(people).table, pipeline.predict_proba(people))
    assert found.notes == ("model.joblib can hold code, which was run because --trust was given.",)


def test_hostile_torch_files_run_nothing_without_trust(tmp_path):
    torch = pytest.importorskip("torch", reason=TORCH)
    sign = tmp_path / "ran"
    files = {
        "whole.pt": Payload(sign),
        "weights.pth": {"weight": torch.zeros(1), "bias": Payload(sign)},
    }
    for name, content in files.items():
        path = tmp_path / name
        torch.save(content, path)
        with pytest.raises(InputError, match="factory must be given"):
            load_model(path, trust=True)
        with pytest.raises(InputError, match="file that loads here"):  # weights_only
            load_model(path, factory=lambda: torch.nn.Linear(4, 3))
        assert not sign.exists(), path


# ── skops ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def skops() -> Any:
    pytest.importorskip("skops", reason="skops is not installed")
    return import_optional("skops.io", "for tests", "skops")


def test_skops_trusts_every_estimator_without_importing_wrappers(skops):
    from sklearn.utils import all_estimators
    from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES

    named = {f"{kind.__module__}.{kind.__name__}" for _, kind in all_estimators()}
    assert {name for name in named if name.startswith("sklearn.")} == {
        *SKLEARN_ESTIMATOR_TYPE_NAMES
    }


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
        MLPClassifier((4,), max_iter=5, random_state=0),
    ],
    ids=lambda m: type(m).__name__,
)
def test_known_types_need_no_trust(skops, model, tmp_path, iris):
    x, y = iris
    with pytest.warns() if isinstance(model, MLPClassifier) else nullcontext():
        model.fit(x, y)
    skops.dump(model, tmp_path / "model.skops")
    assert skops.get_untrusted_types(file=tmp_path / "model.skops")  # skops itself would refuse
    found = load_model(tmp_path / "model.skops")
    assert np.array_equal(found.answers(x).table, model.predict_proba(x))
    assert found.notes == ()


class Foreign(LogisticRegression):  # type: ignore[misc]
    """A type on no list."""


def test_other_types_need_trust(skops, tmp_path, iris):
    x, y = iris
    skops.dump(Foreign(max_iter=500).fit(x, y), tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"known to be data, got .*Foreign.*--trust"):
        load_model(tmp_path / "model.skops")


@pytest.mark.parametrize("harm", ["out", "circle", "feature"])
def test_a_tampered_tree_is_refused(skops, harm, tmp_path, iris):
    """scikit-learn follows these indices without looking: it reads outside, or never ends."""
    x, y = iris
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x.to_numpy(), y)
    state = copy.deepcopy(tree.tree_.__getstate__())
    if harm == "out":
        state["nodes"]["left_child"][0] = 10**6
    elif harm == "circle":
        state["nodes"]["right_child"][0] = 0
    else:
        state["nodes"]["feature"][0] = 77
    tree.tree_.__setstate__(state)
    skops.dump(make_pipeline(StandardScaler().fit(x.to_numpy()), tree), tmp_path / "model.skops")
    with pytest.raises(InputError, match="damaged or tampered"):
        load_model(tmp_path / "model.skops")


def test_a_model_of_another_version_is_refused(skops, tmp_path, iris):
    x, y = iris
    path = tmp_path / "model.skops"
    skops.dump(LogisticRegression(max_iter=500).fit(x, y), path)
    import sklearn

    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    old = parts["schema.json"].replace(sklearn.__version__.encode(), b"0.24.1")
    assert old != parts["schema.json"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (parts | {"schema.json": old}).items():
            archive.writestr(name, data)
    with pytest.raises(InputError, match=r"of the installed version of scikit-learn.*0\.24\.1"):
        load_model(path)


# ── LightGBM ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def lightgbm() -> Any:
    return pytest.importorskip("lightgbm", reason=LIGHT)


def test_lightgbm_text_answers_as_the_model_did(lightgbm, tmp_path, iris):
    x, y = iris
    three = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x, y)
    two = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x.to_numpy(), y > 0)
    value = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(x, x["a"])
    for name, model in (("three.txt", three), ("two.lgb", two), ("value.txt", value)):
        model.booster_.save_model(tmp_path / name)
    found = load_model(tmp_path / "three.txt")
    further = x.assign(more="text")[["more", "d", "c", "b b", "a"]]  # any order, further columns
    np.testing.assert_allclose(found.answers(further).table, three.predict_proba(x))
    with pytest.raises(InputError, match="'b_b' is missing"):
        found.answers(x[["a", "c", "d"]])
    found = load_model(tmp_path / "two.lgb")
    assert (found.columns, found.inputs) == (None, 4)
    np.testing.assert_allclose(found.answers(x).table, two.predict_proba(x.to_numpy()))
    found = load_model(tmp_path / "value.txt")
    np.testing.assert_allclose(found.answers(x).table, value.predict(x))


def test_lightgbm_keeps_its_categories(lightgbm, tmp_path, people):
    x = people[["age", "town"]].astype({"town": "category"})
    y = (people["rich"] == "yes").astype(int)
    model = lightgbm.LGBMClassifier(
        n_estimators=8, min_child_samples=2, cat_smooth=1, min_data_per_group=1, verbose=-1
    )
    model.fit(x, y)
    text = model.booster_.model_to_string()
    assert "num_cat=1" in text
    path = tmp_path / "model.txt"
    path.write_text(text, encoding="utf-8")
    # The table comes from a file, where a town is text.
    np.testing.assert_allclose(load_model(path).answers(people).table, model.predict_proba(x))
    for old, new in (("cat_boundaries=0 1", "cat_boundaries=0 9"), ("cat_threshold=", "cat=")):
        assert old in text
        path.write_text(same_size(text, old, new), encoding="utf-8")
        with pytest.raises(InputError, match="damaged or tampered"):
            load_model(path)


def same_size(text: str, old: str, new: str) -> str:
    """Replace bytes in the first tree, and correct the size in the header."""
    sizes = next(line for line in text.splitlines() if line.startswith("tree_sizes="))
    first, *rest = sizes.removeprefix("tree_sizes=").split()
    whole = text.replace(old, new, 1)
    assert whole.index(new) < text.index("\nTree=1\n")
    corrected = [str(int(first) + len(new) - len(old)), *rest]
    return whole.replace(sizes, "tree_sizes=" + " ".join(corrected), 1)


def test_a_cut_or_tampered_lightgbm_file_is_refused(lightgbm, tmp_path, iris):
    """LightGBM ends the process on some of these, and reads outside its arrays on others."""
    x, y = iris
    text = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(x, y).booster_.model_to_string()
    tree = text[text.index("\nTree=0\n") :]
    left = next(line for line in tree.splitlines() if line.startswith("left_child="))
    split = next(line for line in tree.splitlines() if line.startswith("split_feature="))
    value = next(line for line in tree.splitlines() if line.startswith("leaf_value="))
    tail = left.partition("=")[2].split()[1:]
    harmed = [
        text[: len(text) // 2],
        text[: text.index("end of trees")],
        same_size(text, left, "left_child=" + " ".join(["99", *tail])),
        same_size(text, left, "left_child=" + " ".join(["0", *tail])),
        same_size(text, left, "left_child=" + " ".join(["-99", *tail])),
        same_size(text, left, "left_child=" + " ".join(tail)),
        same_size(text, left, "left_child=" + " ".join(["one", *tail])),
        same_size(text, split, "split_feature=" + " ".join(["44", *split.split()[1:]])),
        same_size(text, value, "leaf_value=1"),
    ]
    path = tmp_path / "model.txt"
    for harm in harmed:
        path.write_text(harm, encoding="utf-8")
        with pytest.raises(InputError, match="damaged or tampered"):
            load_model(path)
    path.write_text(text.replace("tree_sizes", "sizes"), encoding="utf-8")
    with pytest.raises(InputError, match="LightGBM's text format"):
        load_model(path)


# ── XGBoost ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def xgboost() -> Any:
    return pytest.importorskip("xgboost", reason=XGB)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def test_xgboost_json_answers_as_the_model_did(xgboost, tmp_path, iris):
    x, y = iris
    three = xgboost.XGBClassifier(n_estimators=4).fit(x, y)
    hard = xgboost.XGBClassifier(n_estimators=4, objective="multi:softmax").fit(x, y)
    two = xgboost.XGBClassifier(n_estimators=4, booster="dart").fit(x, y > 0)
    value = xgboost.XGBRegressor(n_estimators=4).fit(x, x["a"])
    path = tmp_path / "model.json"
    for model in (three, hard, two):
        model.save_model(path)
        said = load_model(path).answers(x)
        assert said.access == "logits"
        np.testing.assert_allclose(softmax(said.table), model.predict_proba(x), atol=1e-6)
    value.save_model(path)
    np.testing.assert_allclose(load_model(path).answers(x).table, value.predict(x))


def test_a_cut_or_tampered_xgboost_file_is_refused(xgboost, tmp_path, iris):
    """XGBoost follows the indices of a tree without looking, and the process ends."""
    x, y = iris
    path = tmp_path / "model.json"
    xgboost.XGBClassifier(n_estimators=2).fit(x, y).save_model(path)
    whole = json.loads(path.read_text())

    def tree(document: Any) -> Any:
        return document["learner"]["gradient_booster"]["model"]["trees"][0]

    for key, value in (
        ("left_children", [10**6]),
        ("left_children", [0]),
        ("split_indices", [10**6]),
        ("right_children", None),
    ):
        harmed = copy.deepcopy(whole)
        if value is None:
            del tree(harmed)[key]
        else:
            tree(harmed)[key][:1] = value
        path.write_text(json.dumps(harmed))
        with pytest.raises(InputError, match="damaged or tampered"):
            load_model(path)


# ── ONNX ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def to_onnx() -> Any:
    pytest.importorskip("onnxruntime", reason=ONNX)
    return pytest.importorskip("skl2onnx", reason=ONNX).to_onnx


@pytest.mark.parametrize("zipmap", [True, False])
def test_onnx_answers_as_the_model_did(to_onnx, zipmap, tmp_path, iris):
    x, codes = iris
    y = np.array(["setosa", "versicolor", "virginica"])[codes]
    model = RandomForestClassifier(10, random_state=0).fit(x.to_numpy(), y)
    path = tmp_path / "model.onnx"
    written = to_onnx(model, x.to_numpy(np.float32)[:1], options={"zipmap": zipmap})
    path.write_bytes(written.SerializeToString())
    found = load_model(path)
    said = found.answers(x)
    assert said.classes.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(said.table, model.predict_proba(x.to_numpy(np.float32)), atol=1e-6)
    assert "32-bit" in found.notes[0]


def test_onnx_pipelines_take_columns_by_name(to_onnx, tmp_path, people, pipeline):
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    types = [("age", Int64TensorType([None, 1])), ("town", StringTensorType([None, 1]))]
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(pipeline, initial_types=types).SerializeToString())
    found = load_model(path)
    assert set(found.columns) == {"age", "town"}
    said = found.answers(people.iloc[:, ::-1])
    np.testing.assert_allclose(said.table, pipeline.predict_proba(people), atol=1e-6)


def external(name="w"):
    """Return a tensor of the numbers in the file ``secret`` of the working directory."""
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4, 3])
    tensor.external_data.add(key="location", value="secret")
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def onnx_file(path, nodes, initializers=(), functions=()):
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 3])],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["initializer", "attribute", "subgraph", "function", "none"])
def test_an_onnx_file_must_not_name_further_files(to_onnx, tmp_path, monkeypatch, location):
    """For a tensor anywhere in the graph; a relative name was read from the working directory."""
    del to_onnx
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    held = helper.make_node("Constant", [], ["w"], value=external())
    path = tmp_path / "net.onnx"
    if location == "initializer":
        onnx_file(path, [product], [external()])
    elif location == "attribute":
        onnx_file(path, [held, product])
    elif location == "function":
        body = helper.make_function(
            "own", "Own", ["x"], ["y"], [held, product], [helper.make_opsetid("", 17)]
        )
        onnx_file(path, [helper.make_node("Own", ["x"], ["y"], domain="own")], (), [body])
    elif location == "subgraph":
        out = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3])
        branch = helper.make_graph([held], "branch", [], [out])
        truth = helper.make_node(
            "Constant", [], ["c"], value=numpy_helper.from_array(np.array(True), "c")
        )
        chosen = helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch)
        onnx_file(path, [truth, chosen, product])
    else:
        own = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
        said = load_model(onnx_file(path, [product], [own])).respond(np.ones((1, 4)))
        assert said.table.tolist() == [[4.0] * 3]
        return
    with pytest.raises(InputError, match="hold its own numbers"):
        load_model(path)


def test_damaged_onnx_files_are_read_or_refused_in_silence(to_onnx, tmp_path, iris, capfd):
    x, codes = iris
    values = x.to_numpy(np.float32)
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(values, codes)
    sound = to_onnx(model, values[:1], options={"zipmap": False}).SerializeToString()
    path = tmp_path / "model.onnx"
    rng = np.random.default_rng(0)
    refused = 0
    for cut in range(60):
        damaged = bytearray(sound if cut % 6 else sound[: rng.integers(len(sound))])
        for index in rng.integers(len(damaged), size=2):
            damaged[index] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            load_model(path).answers(x)
        except InputError:
            refused += 1
    assert refused > 30
    assert capfd.readouterr() == ("", "")


def test_hostile_onnx_files_are_refused(to_onnx, tmp_path, iris):
    from onnx import TensorProto, helper, numpy_helper

    x, _ = iris
    huge = numpy_helper.from_array(np.array([2**50, 2]), "shape")
    labels = {"classlabels_strings": [b"\xff", b"b"], "post_transform": "SOFTMAX"}
    numbers = {"coefficients": [0.1] * 8, "intercepts": [0.0, 0.0], "multi_class": 0}
    nodes = {
        "an operator of its own": helper.make_node("Evil", ["x"], ["p"], domain="evil"),
        "petabytes": helper.make_node("ConstantOfShape", ["shape"], ["p"]),
        "labels that are not text": helper.make_node(
            "LinearClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", **labels, **numbers
        ),
        "one answer to all rows": helper.make_node("ReduceSum", ["x"], ["p"]),
    }
    operators = [helper.make_opsetid(*of) for of in (("", 17), ("evil", 1), ("ai.onnx.ml", 3))]
    for why, node in nodes.items():
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
        made = helper.make_tensor_value_info("p", TensorProto.FLOAT, [None, 2])
        graph = helper.make_graph([node], why.replace(" ", "_"), [given], [made], [huge])
        path = tmp_path / "model.onnx"
        model = helper.make_model(graph, opset_imports=operators, ir_version=8)
        path.write_bytes(model.SerializeToString())
        with pytest.raises(InputError, match="model must"):
            load_model(path).answers(x)


# ── torch ─────────────────────────────────────────────────────────────────────────────────────────


def network() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_a_state_dict_needs_its_factory_and_no_trust(ending, tmp_path, iris):
    torch = pytest.importorskip("torch", reason=TORCH)
    x, _ = iris
    path, module = tmp_path / f"model{ending}", network()
    with torch.no_grad():
        module[0].bias += 1
    if ending == ".safetensors":
        pytest.importorskip("safetensors.torch").save_file(module.state_dict(), path)
    else:
        torch.save(module.state_dict(), path)
    with pytest.raises(InputError, match="factory"):
        load_model(path)
    found = load_model(path, factory=network)
    said = found.answers(x)
    module.eval()  # dropout is off during prediction
    expected = module(torch.as_tensor(x.to_numpy(np.float32))).detach().numpy()
    np.testing.assert_allclose(said.table, expected, rtol=1e-5, atol=1e-6)
    assert found.notes == ()
    with pytest.raises(InputError, match="must fit the module that factory makes"):
        load_model(path, factory=lambda: torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="must make a torch module, got int"):
        load_model(path, factory=lambda: 3)
    with pytest.raises(InputError, match="without arguments: TypeError"):
        load_model(path, factory=torch.nn.Linear)


def test_one_output_is_read_with_the_modules_classes(tmp_path, iris):
    torch = pytest.importorskip("torch", reason=TORCH)

    class Binary(torch.nn.Linear):  # type: ignore[misc,name-defined]
        classes_ = ("no", "yes")

        def __init__(self) -> None:
            super().__init__(4, 1)

    module = Binary()
    torch.save(module.state_dict(), tmp_path / "model.pt")
    said = load_model(tmp_path / "model.pt", factory=Binary).answers(iris[0])
    assert said.classes.tolist() == ["no", "yes"]
    margin = module(torch.as_tensor(iris[0].to_numpy(np.float32))).detach().numpy()[:, 0]
    np.testing.assert_allclose(said.table[:, 1] - said.table[:, 0], margin, atol=1e-6)
