"""Model files of scikit-learn, ONNX, LightGBM, XGBoost and torch; no code runs unless trusted.

A file is either data, which is validated before native code traverses it, or code (pickle, joblib),
which is not opened without ``trust``.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, import_optional
from memberbound.learners.learner import attribute_named
from memberbound.learners.trained import Answers, TrainedModel, as_floats
from memberbound.threads import ONE_AT_A_TIME

if TYPE_CHECKING:
    from pandas import DataFrame

    from memberbound.learners.learner import Labels
    from memberbound.numerics.rounding import FloatArray

_Loaded = TypeVar("_Loaded")
#: Data types of scikit-learn that skops does not trust by default; trees are validated after
#: loading.  Type names never come from the file: a file must not decide what to trust.
_SKOPS_TYPES = frozenset(
    {
        "numpy.dtype",
        "sklearn._loss.loss.HalfTweedieLossIdentity",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.feature_selection._univariate_selection.f_regression",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "sklearn.gaussian_process.kernels.ConstantKernel",
        "sklearn.gaussian_process.kernels.DotProduct",
        "sklearn.gaussian_process.kernels.Matern",
        "sklearn.gaussian_process.kernels.Product",
        "sklearn.gaussian_process.kernels.RBF",
        "sklearn.gaussian_process.kernels.Sum",
        "sklearn.gaussian_process.kernels.WhiteKernel",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
    }
)
Factory = Callable[..., object]


@dataclass(frozen=True)
class _File:
    """A model file with the permissions for reading it."""

    path: Path
    trust: bool
    factory: Factory | str | None

    @property
    def name(self) -> str:
        """The name without its folder."""
        return self.path.name

    @property
    def ran_code(self) -> tuple[str, ...]:
        """Notes for readers about a trusted file."""
        return (f"{self.name} can hold code, which was run because --trust was given.",)

    def unsound(self, what: str) -> InputError:
        """Return the error for a file with indices that native code would follow unchecked."""
        return InputError(
            f"model must be an intact file, got {self.name!r} with {what}. It was damaged "
            "or tampered with: save it again."
        )


def load_model(
    path: str | os.PathLike[str], *, trust: bool = False, factory: Factory | str | None = None
) -> TrainedModel:
    """Read a model file.

    =====================================  ========================================================
    ending                                 what it is
    =====================================  ========================================================
    ``.skops``                             scikit-learn; known types only, others need ``trust``
    ``.onnx``                              any origin, by onnxruntime (extra ``onnx``)
    ``.txt``, ``.lgb``                     LightGBM's text format
    ``.json``                              XGBoost's JSON format
    ``.pt``, ``.pth``, ``.safetensors``    a torch ``state_dict``; ``factory`` makes the module
    ``.joblib``, ``.pkl``, ``.pickle``     code, needs ``trust``
    =====================================  ========================================================

    Guarantee: without ``trust`` nothing in the file is run.
    Edge cases: a missing file, an unknown ending, a file that does not load, a damaged file and one
    of another version raise an error of one sentence.
    """
    file = _File(Path(path), trust, factory)
    if not file.path.is_file():
        raise InputError(f"model must be a file that exists, got {str(path)!r}.")
    loader = _LOADERS.get(file.path.suffix.lower())
    if loader is None:
        raise InputError(f"model must end in {', '.join(_LOADERS)}, got {str(path)!r}.")
    if factory is not None and loader is not _torch:
        raise InputError(
            f"factory must be left out for {file.name!r}: it makes the module of a torch "
            "state_dict."
        )
    return loader(file)


def _read(file: _File, read: Callable[[], _Loaded]) -> _Loaded:
    """Load an object, together with warnings about its version."""
    import warnings

    with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            loaded = read()
        except InputError:
            raise
        except Exception as problem:
            first = f"{type(problem).__name__}: {problem}".splitlines()[0].removesuffix(": ")
            raise InputError(
                f"model must be a file that loads here, got {first} from {file.name}. Load it "
                "with the versions of the packages that wrote it."
            ) from None
    other = [w for w in caught if "InconsistentVersion" in w.category.__name__]
    if other:
        raise InputError(
            "model must be of the version of scikit-learn that is installed, got "
            f"{str(other[0].message).partition('. ')[0]}. Its answers could differ: install that "
            "version, or save the model again."
        )
    return loaded


def _package(name: str, extra: str, file: _File) -> ModuleType:
    return import_optional(name, f"to read {file.name}", extra)


# ── scikit-learn ──────────────────────────────────────────────────────────────────────────────────


def _skops(file: _File) -> TrainedModel:
    reader = _package("skops.io", "skops", file)

    def read() -> object:
        foreign = sorted(set(reader.get_untrusted_types(file=file.path)) - _SKOPS_TYPES)
        if foreign and not file.trust:
            raise InputError(
                f"model must hold types that are known to be data, got {', '.join(foreign[:5])}. "
                "If you trust whoever wrote the file, pass --trust."
            )
        return reader.load(file.path, trusted=sorted({*foreign, *_SKOPS_TYPES}))

    model = _read(file, read)
    if isinstance(model, str):  # the format of models released by protect
        raise InputError(
            f"model must be a fitted model, got {file.name!r}, which holds a text. A model that "
            "protect released must have its certificate beside it."
        )
    _check_trees(model, file)
    return TrainedModel.of(model, notes=file.ran_code if file.trust else ())


def _pickle(file: _File) -> TrainedModel:
    if not file.trust:
        raise InputError(
            f"model must be a file that runs no code when it is read, got {file.name!r}, a pickle. "
            "If you trust whoever wrote it, pass --trust; a skops file needs no trust."
        )

    def read() -> object:
        if file.path.suffix.lower() == ".joblib":
            return importlib.import_module("joblib").load(file.path)
        with file.path.open("rb") as opened:
            return importlib.import_module("pickle").load(opened)

    return TrainedModel.of(_read(file, read), notes=file.ran_code)


def _check_trees(root: object, file: _File) -> None:
    """Refuse decision trees with out-of-range indices or cycles."""
    seen: set[int] = set()
    waiting: list[Any] = [root]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (str, bytes, int, float, np.generic)):
            continue
        seen.add(id(part))
        kind = type(part).__name__
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple, set)):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif kind == "Tree" and hasattr(part, "children_left"):
            left, right = np.asarray(part.children_left), np.asarray(part.children_right)
            _check_tree(file, left, right, part.feature, leaf=left == -1, features=part.n_features)
        elif kind == "TreePredictor":
            nodes = np.asarray(part.nodes)
            walk = (nodes["left"], nodes["right"], nodes["feature_idx"])
            _check_tree(file, *walk, leaf=nodes["is_leaf"] != 0)
        else:
            waiting += list(getattr(part, "__dict__", {}).values())


def _check_tree(
    file: _File,
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
            raise file.unsound("a tree that asks for a column that is not there")
        level = np.concatenate([left[inner], right[inner]])


# ── boosting, in the formats of its libraries ─────────────────────────────────────────────────────


def _lightgbm(file: _File) -> TrainedModel:
    lightgbm = _package("lightgbm", "boosting", file)
    quiet = logging.getLogger("memberbound.lightgbm")  # it prints to standard output by default
    quiet.setLevel(logging.CRITICAL)
    lightgbm.register_logger(quiet)
    text = _read(file, lambda: file.path.read_text(encoding="utf-8"))
    head, trees = _lightgbm_parts(text, file)
    for tree in trees:
        _check_lightgbm_tree(tree, int(head["max_feature_idx"]) + 1, file)
    booster = _read(file, lambda: lightgbm.Booster(model_str=text))
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

    # ``respond`` matches named columns, using LightGBM's spelling.
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


def _lightgbm_parts(text: str, file: _File) -> tuple[dict[str, str], list[dict[str, str]]]:
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
            raise file.unsound("a tree that is cut off")
        trees.append(_equations(part.decode()))
    if not body.startswith(b"end of trees"):
        raise file.unsound("an end that is missing")
    return head, trees


def _equations(text: str) -> dict[str, str]:
    return {
        key: value for key, sign, value in (x.partition("=") for x in text.splitlines()) if sign
    }


def _check_lightgbm_tree(tree: dict[str, str], features: int, file: _File) -> None:
    """Check the array lengths of a tree, and that it is a tree."""
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
    _check_tree(file, left, right, split, leaf=leaf, features=features)


def _check_categories(
    tree: dict[str, str], arrays: dict[str, FloatArray], categories: int, file: _File
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


def _xgboost(file: _File) -> TrainedModel:
    xgboost = _package("xgboost", "boosting", file)

    def read() -> dict[str, Any]:
        document = json.loads(file.path.read_bytes())
        if not (isinstance(document, dict) and {"learner", "version"} <= set(document)):
            raise InputError(
                f"model must be XGBoost's JSON format, got {file.name!r}. Write it with "
                "booster.save_model; a model that protect released comes with its certificate "
                "beside it."
            )
        return document

    document = _read(file, read)
    try:
        learner = document["learner"]
        name = str(learner["objective"]["name"])
        features = int(learner["learner_model_param"]["num_feature"])
        booster_part = learner["gradient_booster"]
        inner = booster_part.get("gbtree", booster_part)  # dart nests its trees one level deeper
        for tree in inner.get("model", {}).get("trees", []):
            left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
            split = np.array(tree["split_indices"])
            _check_tree(file, left, right, split, leaf=left == -1, features=features)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise file.unsound("parts missing") from None
    booster = xgboost.Booster()
    _read(file, lambda: booster.load_model(bytearray(file.path.read_bytes())))
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


# ── ONNX ──────────────────────────────────────────────────────────────────────────────────────────

_ONNX_TYPES: dict[str, type] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


def _onnx(file: _File) -> TrainedModel:
    runtime = _package("onnxruntime", "onnx", file)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    onnx = _package("onnx", "onnx", file)
    model = _read(file, lambda: onnx.load_model_from_string(file.path.read_bytes()))
    if any(tensor.external_data or tensor.data_location for tensor in _tensors(model, onnx)):
        raise InputError(
            f"model must hold its own numbers, got {file.name!r}, which names another file to read "
            "them from. Save it in one file (onnx.save(model, path), no external data)."
        )
    packed = model.SerializeToString()  # run exactly the bytes that were checked
    session = _read(
        file,
        # Disable the fallback, which prints to standard output.
        lambda: runtime.InferenceSession(
            packed, options, providers=["CPUExecutionProvider"], enable_fallback=0
        ),
    )
    inputs = session.get_inputs()
    strange = [i for i in inputs if i.type not in _ONNX_TYPES]
    if not inputs or strange:
        kind = strange[0].type if strange else "none"
        raise InputError(f"model must take tensors of numbers or texts, got {kind} ({file.name}).")
    classes = _read(file, lambda: _onnx_classes(model.graph))
    notes: tuple[str, ...] = ()
    if any(i.type == "tensor(float)" for i in inputs):
        notes = (
            f"{file.name} takes 32-bit numbers: whole numbers beyond 16777216 (time stamps, "
            "identifiers) are rounded before it sees them.",
        )
    # A single numeric input, or one tensor per column, as exported from data-frame pipelines.
    one = inputs[0] if len(inputs) == 1 else None
    shape = [] if one is None else list(one.shape or [])[1:]
    fixed = bool(shape) and all(isinstance(size, int) for size in shape)

    def feed(rows: DataFrame | Labels) -> dict[str, NDArray[np.generic]]:
        if one is not None:
            table = np.asarray(rows)
            if fixed and table.ndim == 2 and table.shape[1] == int(np.prod(shape)):
                table = table.reshape(len(table), *shape)
            return {one.name: table.astype(_ONNX_TYPES[one.type])}
        return {
            i.name: rows[i.name]
            .to_numpy(dtype=_ONNX_TYPES[i.type])
            .reshape(-1, *([1] * (len(i.shape or []) - 1)))
            for i in inputs
        }

    def respond(rows: DataFrame | Labels) -> Answers:
        return _onnx_answers(session.get_outputs(), session.run(None, feed(rows)), classes)

    columns = None if one is not None else tuple(str(i.name) for i in inputs)
    width = int(np.prod(shape)) if fixed else None
    return TrainedModel(respond, columns, width, session, "the ONNX model", notes)


def _tensors(message: Any, onnx: ModuleType) -> Iterator[Any]:
    """Yield every tensor in a message, including subgraphs, attributes and functions."""
    waiting = [message]
    while waiting:
        inside = waiting.pop()
        if isinstance(inside, onnx.TensorProto):
            yield inside
        for field, value in inside.ListFields():
            if field.message_type is not None:
                repeated = not hasattr(value, "ListFields")
                waiting += list(value) if repeated else [value]


def _onnx_classes(graph: Any) -> Labels | None:
    """Return the classes of an ai.onnx.ml classifier, in its order."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("classlabels_int64s", "classlabels_ints"):
                return np.array(list(attribute.ints))
            if attribute.name in ("classlabels_strings", "classlabels_string"):
                return np.array([text.decode("utf-8") for text in attribute.strings])
    return None


def _onnx_answers(outputs: Sequence[Any], values: Sequence[Any], classes: Labels | None) -> Answers:
    """Return the richest output of a model: a table of probabilities, else labels or numbers."""
    for out, value in zip(outputs, values, strict=True):
        if out.type.startswith("seq(map("):  # a dictionary per row, from class to probability
            names = list(value[0]) if value else []
            table = np.array([[row[name] for name in names] for row in value], dtype=np.float64)
            return Answers("probabilities", table, np.array(names))
        is_table = out.type in ("tensor(float)", "tensor(double)") and np.ndim(value) == 2
        if is_table and value.shape[1] > 1:
            fits = classes is not None and len(classes) == value.shape[1]
            return Answers.of(value, classes if fits else None)
    first = np.asarray(values[0])
    return Answers.of(first, classes)


# ── torch ─────────────────────────────────────────────────────────────────────────────────────────


def _torch(file: _File) -> TrainedModel:
    """Load a file's weights into a module from the user's factory."""
    if file.factory is None:
        raise InputError(
            f"factory must be given to read {file.name!r}: of torch files the numbers of a "
            "state_dict are read, not code. In Python a module itself can be given as the model."
        )
    torch = _package("torch", "torch", file)
    if file.path.suffix.lower() == ".safetensors":
        reader = _package("safetensors.torch", "torch", file)
        state = _read(file, lambda: reader.load_file(file.path))
    else:
        state = _read(file, lambda: torch.load(file.path, map_location="cpu", weights_only=True))
    factory = attribute_named(file.factory) if isinstance(file.factory, str) else file.factory
    try:
        module = (
            factory() if callable(factory) and not isinstance(factory, torch.nn.Module) else factory
        )
    except Exception as problem:
        first = f"{type(problem).__name__}: {problem}".splitlines()[0]
        raise InputError(f"factory must make a torch module without arguments: {first}.") from None
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"factory must make a torch module, got {type(module).__name__}.")
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise InputError(
            f"model must hold a state_dict, names and tensors, got another object in {file.name!r}."
        )
    try:
        module.load_state_dict(state)
    except RuntimeError as problem:
        lines = [line.strip() for line in str(problem).splitlines()]
        raise InputError(
            f"model must fit the module that factory makes, got {' '.join(lines[:2])}"
        ) from None
    return TrainedModel.of(module, name="the torch model")


_LOADERS: dict[str, Callable[[_File], TrainedModel]] = {
    ".skops": _skops,
    ".onnx": _onnx,
    ".txt": _lightgbm,
    ".lgb": _lightgbm,
    ".json": _xgboost,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _torch,
    ".joblib": _pickle,
    ".pkl": _pickle,
    ".pickle": _pickle,
}
