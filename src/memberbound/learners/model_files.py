"""Load a model file by its ending, without running code unless it is trusted.

A file is either data, which is validated before native code traverses it, or code (pickle, joblib),
which is not opened without ``trust``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.learners.boosting_files import check_tree, load_lightgbm, load_xgboost
from memberbound.learners.learner import attribute_named
from memberbound.learners.onnx_models import load_onnx
from memberbound.learners.trained import TrainedModel
from memberbound.learners.untrusted_file import Factory, ModelFile

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


def load_model(
    path: str | os.PathLike[str], *, trust: bool = False, factory: Factory | str | None = None
) -> TrainedModel:
    """Read a model file.

    =====================================  ========================================================
    ending                                 format
    =====================================  ========================================================
    ``.skops``                             scikit-learn; known types only, others need ``trust``
    ``.onnx``                              any origin, by onnxruntime (extra ``onnx``)
    ``.txt``, ``.lgb``                     LightGBM's text format
    ``.json``                              XGBoost's JSON format
    ``.pt``, ``.pth``, ``.safetensors``    a torch ``state_dict``; ``factory`` makes the module
    ``.joblib``, ``.pkl``, ``.pickle``     code, needs ``trust``
    =====================================  ========================================================

    Guarantee: without ``trust`` nothing in the file is run.
    Edge cases: a missing, damaged or unloadable file, an unknown ending and another version raise
    an error of one sentence.
    """
    file = ModelFile(Path(path), trust, factory)
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


# ── scikit-learn ──────────────────────────────────────────────────────────────────────────────────


def _skops(file: ModelFile) -> TrainedModel:
    reader = file.package("skops.io", "skops")

    def read() -> object:
        foreign = sorted(set(reader.get_untrusted_types(file=file.path)) - _SKOPS_TYPES)
        if foreign and not file.trust:
            raise InputError(
                f"model must hold types that are known to be data, got {', '.join(foreign[:5])}. "
                "If you trust whoever wrote the file, pass --trust."
            )
        return reader.load(file.path, trusted=sorted({*foreign, *_SKOPS_TYPES}))

    model = file.read(read)
    if isinstance(model, str):  # the format of models released by protect
        raise InputError(
            f"model must be a fitted model, got {file.name!r}, which holds a text. A model that "
            "protect released must have its certificate beside it."
        )
    _check_trees(model, file)
    return TrainedModel.of(model, notes=file.ran_code if file.trust else ())


def _pickle(file: ModelFile) -> TrainedModel:
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

    return TrainedModel.of(file.read(read), notes=file.ran_code)


def _check_trees(root: object, file: ModelFile) -> None:
    """Reject decision trees with out-of-range indices or cycles."""
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
            check_tree(file, left, right, part.feature, leaf=left == -1, features=part.n_features)
        elif kind == "TreePredictor":
            nodes = np.asarray(part.nodes)
            walk = (nodes["left"], nodes["right"], nodes["feature_idx"])
            check_tree(file, *walk, leaf=nodes["is_leaf"] != 0)
        else:
            waiting += list(getattr(part, "__dict__", {}).values())


# ── torch ─────────────────────────────────────────────────────────────────────────────────────────


def _torch(file: ModelFile) -> TrainedModel:
    """Load a file's weights into a module from the user's factory."""
    if file.factory is None:
        raise InputError(
            f"factory must be given to read {file.name!r}: of torch files the numbers of a "
            "state_dict are read, not code. In Python a module itself can be given as the model."
        )
    torch = file.package("torch", "torch")
    if file.path.suffix.lower() == ".safetensors":
        reader = file.package("safetensors.torch", "torch")
        state = file.read(lambda: reader.load_file(file.path))
    else:
        state = file.read(lambda: torch.load(file.path, map_location="cpu", weights_only=True))
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


_LOADERS: dict[str, Callable[[ModelFile], TrainedModel]] = {
    ".skops": _skops,
    ".onnx": load_onnx,
    ".txt": load_lightgbm,
    ".lgb": load_lightgbm,
    ".json": load_xgboost,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _torch,
    ".joblib": _pickle,
    ".pkl": _pickle,
    ".pickle": _pickle,
}
