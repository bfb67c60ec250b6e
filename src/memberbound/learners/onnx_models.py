"""Models in ONNX files, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.learners.untrusted_file import ModelFile

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto
    from pandas import DataFrame

    from memberbound.learners.learner import Labels

_ONNX_TYPES: dict[str, type] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


def load_onnx(file: ModelFile) -> TrainedModel:
    """Load a model with all of its numbers in one file."""
    runtime = file.package("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    onnx = file.package("onnx", "onnx")
    model = file.read(lambda: onnx.load_model_from_string(file.path.read_bytes()))
    if any(tensor.external_data or tensor.data_location for tensor in _tensors(model, onnx)):
        raise InputError(
            f"model must hold its own numbers, got {file.name!r}, which names another file to read "
            "them from. Save it in one file (onnx.save(model, path), no external data)."
        )
    packed = model.SerializeToString()  # run exactly the bytes that were checked
    session = file.read(
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
    classes = file.read(lambda: _onnx_classes(model.graph))
    notes: tuple[str, ...] = ()
    if any(i.type == "tensor(float)" for i in inputs):
        notes = (
            f"{file.name} takes 32-bit numbers: whole numbers beyond 16777216 (time stamps, "
            "identifiers) are rounded on input.",
        )
    # The input is one numeric tensor, or, for an exported data-frame pipeline, one per column.
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


def _tensors(message: Any, onnx: ModuleType) -> Iterator[TensorProto]:
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


def _onnx_classes(graph: GraphProto) -> Labels | None:
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
