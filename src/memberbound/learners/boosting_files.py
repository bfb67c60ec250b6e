"""Models of LightGBM and XGBoost, in the formats of these libraries."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.trained import Answers, TrainedModel, as_floats
from memberbound.learners.untrusted_file import ModelFile

if TYPE_CHECKING:
    from pandas import DataFrame

    from memberbound.learners.learner import Labels
    from memberbound.numerics.rounding import FloatArray


def check_tree(
    file: ModelFile,
    left: NDArray[np.generic],
    right: NDArray[np.generic],
    split: NDArray[np.generic],
    *,
    leaf: NDArray[np.bool_],
    features: float = np.inf,
) -> None:
    """Traverse a tree from its root and check that indices are in range and nodes unique.

    The arrays hold, per node, the left child, the right child and the split feature.
    """
    left, right, split = (np.asarray(part, dtype=np.int64) for part in (left, right, split))
    total = left.size
    if not (right.size == split.size == leaf.size == total > 0):
        raise file.unsound("a tree whose arrays differ in length")
    level, visited = np.zeros(1, dtype=np.int64), np.zeros(total, dtype=bool)
    while level.size:
        if level.min() < 0 or level.max() >= total:
            raise file.unsound("a tree whose branches lead out of it")
        if visited[level].any() or np.unique(level).size != level.size:
            raise file.unsound("a tree with a cycle")
        visited[level] = True
        inner = level[~leaf[level]]
        if not ((split[inner] >= 0) & (split[inner] < features)).all():
            raise file.unsound("a tree with a column out of range")
        level = np.concatenate([left[inner], right[inner]])


def load_lightgbm(file: ModelFile) -> TrainedModel:
    """Load a model in LightGBM's text format."""
    lightgbm = file.package("lightgbm", "boosting")
    quiet = logging.getLogger("memberbound.lightgbm")  # it prints to standard output by default
    quiet.setLevel(logging.CRITICAL)
    lightgbm.register_logger(quiet)
    text = file.read(lambda: file.path.read_text(encoding="utf-8"))
    head, trees = _lightgbm_parts(text, file)
    for tree in trees:
        _check_lightgbm_tree(tree, int(head["max_feature_idx"]) + 1, file)
    booster = file.read(lambda: lightgbm.Booster(model_str=text))
    names = tuple(map(str, booster.feature_name()))
    unnamed = all(name == f"Column_{index}" for index, name in enumerate(names))
    objective, columns = head.get("objective", "").split(" ")[0], int(head["num_class"])

    def respond(rows: DataFrame | Labels) -> Answers:
        inputs = rows if isinstance(rows, np.ndarray) else _as_lightgbm_read(rows, names)
        outputs = np.asarray(booster.predict(inputs, validate_features=False))
        if objective == "binary":
            table = as_floats(np.column_stack([1 - outputs, outputs]))
            return Answers("probabilities", table, np.arange(2))
        return Answers.of(outputs, np.arange(columns) if columns > 1 else None)

    # ``respond`` matches columns by LightGBM's spelling of their names.
    width = len(names) if unnamed else None
    return TrainedModel(respond, None, width, booster, "the LightGBM model")


def _as_lightgbm_read(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Select the model's columns; LightGBM stores names with blanks replaced.

    Categorical columns are recognised by dtype; the file stores the categories.
    """
    spelt = {"_".join(str(c).split(" ")): c for c in rows.columns}
    missing = [name for name in names if name not in spelt]
    if missing:
        raise InputError(
            f"rows must have every column that the model was trained on; {missing[0]!r} is missing."
        )
    frame = rows[[spelt[name] for name in names]]
    texts = [c for c in frame.columns if frame[c].dtype.kind not in "biuf"]
    return frame.astype(dict.fromkeys(texts, "category"))


def _lightgbm_parts(text: str, file: ModelFile) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Parse the header and the trees of a LightGBM file, and check their declared sizes.

    LightGBM aborts the process on a truncated tree, so check first.
    """
    start = text.find("\nTree=0\n") + 1
    head = _equations(text[:start])
    try:
        sizes = [int(size) for size in head["tree_sizes"].split()]
        int(head["max_feature_idx"]), int(head["num_class"])
    except (KeyError, ValueError):
        sizes = []
    if not (text.startswith("tree\n") and start and sizes):
        raise InputError(
            f"model must be LightGBM's text format, got {file.name!r} without its header. Write "
            "it with booster.save_model."
        )
    body, trees = text[start:].encode(), []
    for index, size in enumerate(sizes):
        part, body = body[:size], body[size:]
        if len(part) < size or not part.startswith(f"Tree={index}\n".encode()):
            raise file.unsound("a truncated tree")
        trees.append(_equations(part.decode()))
    if not body.startswith(b"end of trees"):
        raise file.unsound("a missing end")
    return head, trees


def _equations(text: str) -> dict[str, str]:
    return {
        key: value for key, sign, value in (x.partition("=") for x in text.splitlines()) if sign
    }


def _check_lightgbm_tree(tree: dict[str, str], features: int, file: ModelFile) -> None:
    """Check the array lengths and the structure of a tree."""
    try:
        leaves, categories = int(tree["num_leaves"]), int(tree["num_cat"])
        arrays = {
            key: np.array(tree.get(key, "").split(), dtype=np.float64)
            for key in ("left_child", "right_child", "split_feature", "threshold", "decision_type")
        }
        values = np.array(tree["leaf_value"].split(), dtype=np.float64)
    except (KeyError, ValueError):
        raise file.unsound("a tree without its numbers") from None
    inner = leaves - 1
    if leaves < 1 or values.size != leaves or any(a.size != inner for a in arrays.values()):
        raise file.unsound("a tree whose arrays differ in length")
    if categories:
        _check_categories(tree, arrays, categories, file)
    if inner == 0:
        return
    # Leaves are numbered -1, -2, …; renumber them after the inner nodes.
    left, right = (
        np.where(child < 0, inner - 1 - child, child).astype(np.int64)
        for child in (arrays["left_child"], arrays["right_child"])
    )
    none = np.zeros(leaves, dtype=np.int64)
    split = arrays["split_feature"].astype(np.int64)
    left, right, split = (np.concatenate([part, none]) for part in (left, right, split))
    leaf = np.arange(inner + leaves) >= inner
    check_tree(file, left, right, split, leaf=leaf, features=features)


def _check_categories(
    tree: dict[str, str], arrays: dict[str, FloatArray], categories: int, file: ModelFile
) -> None:
    """Check the bit sets of categorical splits: thresholds index their boundaries."""
    try:
        edges = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
        bits = tree["cat_threshold"].split()
    except (KeyError, ValueError):
        raise file.unsound("a tree without its categories") from None
    indices = arrays["threshold"][arrays["decision_type"].astype(np.int64) % 2 == 1]
    rising = edges.size == categories + 1 and edges[0] == 0 and bool((np.diff(edges) > 0).all())
    inside = (
        rising and edges[-1] == len(bits) and bool(((indices >= 0) & (indices < categories)).all())
    )
    if not inside:
        raise file.unsound("categories out of range")


def load_xgboost(file: ModelFile) -> TrainedModel:
    """Load a model in XGBoost's JSON format."""
    xgboost = file.package("xgboost", "boosting")

    def read() -> dict[str, Any]:
        document = json.loads(file.path.read_bytes())
        if not (isinstance(document, dict) and {"learner", "version"} <= set(document)):
            raise InputError(
                f"model must be XGBoost's JSON format, got {file.name!r}. Write it with "
                "booster.save_model; a model that protect released comes with its certificate "
                "beside it."
            )
        return document

    document = file.read(read)
    try:
        learner = document["learner"]
        name = str(learner["objective"]["name"])
        features = int(learner["learner_model_param"]["num_feature"])
        booster_part = learner["gradient_booster"]
        inner = booster_part.get("gbtree", booster_part)  # dart nests its trees one level deeper
        for tree in inner.get("model", {}).get("trees", []):
            left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
            split = np.array(tree["split_indices"])
            check_tree(file, left, right, split, leaf=left == -1, features=features)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise file.unsound("parts missing") from None
    booster = xgboost.Booster()
    file.read(lambda: booster.load_model(bytearray(file.path.read_bytes())))
    names = booster.feature_names

    def respond(rows: DataFrame | Labels) -> Answers:
        matrix = xgboost.DMatrix(rows, enable_categorical=True)
        margins = np.asarray(booster.predict(matrix, output_margin=True, validate_features=False))
        if name in ("binary:logistic", "binary:logitraw"):
            return Answers.of_margins(margins, np.arange(2))
        if name.startswith("multi:"):
            return Answers("logits", as_floats(margins), np.arange(margins.shape[1]))
        return Answers("values", as_floats(np.asarray(booster.predict(matrix)).reshape(-1)))

    columns = None if not names else tuple(map(str, names))
    return TrainedModel(respond, columns, features, booster, "the XGBoost model")
