"""Models of all rows as ONNX: for runtimes that know nothing of this package.

A column of numbers (or days since 1970-01-01) is an input of doubles, NaN where a value is missing;
a column of categories is an input of texts, spelled as in the bounds, ``""`` where one is missing.
Every column adds to the scores: a number by its coefficient, and a row of a table, which the
category, the bin or the octave of the number chooses.  All of it is computed in doubles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from memberbound.errors import InputError, MemberboundError, installed
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.boosting import BoostedModel, binned_columns
from memberbound.release.all_rows.encoding import ColumnCode
from memberbound.release.all_rows.gradient import GRID, LARGEST_FEATURE, on_grid
from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.all_rows.public_bounds import MISSING, NUMBER_CELLS, cells_of, octave_ends
from memberbound.tables.columns import Values

#: Understood by every onnxruntime of the last years.
_OPSET, _ML_OPSET, _IR = 17, 3, 8
#: Key of the model's own description in the file.
_ABOUT = "memberbound"
#: Rows on which both are compared, and how far scores may differ.
_COMPARED, _CLOSE = 512, 1e-9


def _package(name: str) -> ModuleType:
    return installed(name, "for ONNX files", "onnx")


def check_onnx(without_bounds: Mapping[str, object]) -> None:
    """Refuse, before anything is trained, a model that could not be written as ONNX.

    ``without_bounds`` has the declared types of the columns without bounds.  Of a text in such a
    column only a hash is stored, which no ONNX file can compute.
    """
    for name in ("onnx", "onnxruntime"):
        _package(name)
    texts = [name for name, kind in without_bounds.items() if not _is_number(kind)]
    if texts:
        raise _unlisted(texts[0])


def _unlisted(column: str) -> InputError:
    return InputError(
        f"bounds must say what every column holds for an ONNX file, got none for {column!r}: "
        "names of categories are not stored without. Give bounds, or write .json."
    )


def _is_number(kind: object) -> bool:
    """Tell whether a declared type of pandas, numpy or Arrow is one of numbers or dates."""
    numeric = ("int", "uint", "float", "double", "halffloat", "decimal", "date", "time", "duration")
    return str(kind).lower().startswith(numeric)


def onnx_bytes(model: PrivateModel) -> bytes:
    """Return the model as an ONNX file, after comparing both on rows of every kind.

    Guarantee: a function of the released model.
    Edge cases: a column of texts without bounds, of whose names only hashes are stored, is refused.
    """
    onnx = _package("onnx")
    graph = _Graph(onnx.helper)
    columns = _columns(model)
    taken = {column.name for column in columns}
    scores = graph.constant(_intercepts(model))
    for column in columns:
        scores = graph.node("Add", scores, column.add_to(graph))
    outputs = _outputs(model, graph, scores, taken)
    helper = onnx.helper
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "memberbound", [c.declared(onnx) for c in columns], outputs, graph.stored
        ),
        producer_name="memberbound",
        ir_version=_IR,
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
    )
    about = {
        _ABOUT: json.dumps(model.to_dict(), ensure_ascii=False, allow_nan=False),
        "classes": json.dumps(list(model.class_names), ensure_ascii=False),
    }
    helper.set_model_props(made, about)
    onnx.checker.check_model(made)
    packed: bytes = made.SerializeToString(deterministic=True)
    _compare(model, packed, columns)
    return packed


def stored_text(packed: bytes) -> str:
    """Return the description of the model that an ONNX file was made of, '' where it has none."""
    made = _package("onnx").load_model_from_string(packed)
    return next((str(p.value) for p in made.metadata_props if p.key == _ABOUT), "")


@dataclass
class _Graph:
    """Nodes and constants, named in their order."""

    helper: Any
    nodes: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)

    def constant(self, values: Any) -> str:
        """Return the name of a constant."""
        from onnx import numpy_helper

        name = f"memberbound/constant{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, named: str | None = None, **attributes: Any) -> str:
        """Return the name of what an operator gives."""
        name = named or f"memberbound/{kind}{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def clipped(self, value: str, low: float, high: float) -> str:
        """Return a value between two ends."""
        return self.node("Clip", value, self.constant(low), self.constant(high))

    def row(self, table: FloatArray, place: str) -> str:
        """Return the row of a table at a place of shape (rows, 1)."""
        flat = self.node("Reshape", place, self.constant([-1]))
        return self.node("Gather", self.constant(table), flat, axis=0)

    def counted(self, value: str, ends: FloatArray) -> str:
        """Return how many of these ends are at most the value."""
        reached = self.node("GreaterOrEqual", value, self.constant(ends[None, :]))
        whole = self.node("Cast", reached, to=self.helper.np_dtype_to_tensor_dtype(np.dtype("i8")))
        return self.node("ReduceSum", whole, self.constant([1]), keepdims=1)


@dataclass(frozen=True)
class _Numbers:
    """A column of numbers: coefficients of the encoded number, and rows of a table by its place."""

    code: ColumnCode
    #: Of the encoded number; None where only its place counts.
    coefficients: FloatArray | None
    #: A row per place, the last one for missing values.
    table: FloatArray
    #: Places are runs between these ends of the transformed number; None: octaves and signs.
    edges: FloatArray | None
    #: Encoded rows are divided by it.
    length: float = 1.0

    @property
    def name(self) -> str:
        return self.code.name

    def declared(self, onnx: Any) -> Any:
        return onnx.helper.make_tensor_value_info(self.name, onnx.TensorProto.DOUBLE, [None, 1])

    def add_to(self, graph: _Graph) -> str:
        gap = graph.node("IsNaN", self.name)
        number = graph.node("Where", gap, graph.constant(0.0), self.name)
        moved = self._moved(graph, number)
        if self.edges is None:
            place = self._octave(graph, number)
        else:
            place = graph.counted(moved, self.edges)
        last = graph.constant(np.array(len(self.table) - 1))
        added = graph.row(self.table, graph.node("Where", gap, last, place))
        if self.coefficients is None:
            return added
        scaling = self.code.scaling
        assert scaling is not None
        shifted = graph.node("Sub", moved, graph.constant(scaling.centre))
        scaled = graph.node("Div", shifted, graph.constant(2 * scaling.spread))
        cut = graph.clipped(scaled, -scaling.limit, scaling.limit)
        encoded = graph.node("Where", gap, graph.constant(0.0), cut)
        # As on_grid: the same operations in the same order, since it rounds.
        divided = graph.node("Div", encoded, graph.constant(self.length))
        bounded = graph.clipped(divided, -LARGEST_FEATURE, LARGEST_FEATURE)
        whole = graph.node("Round", graph.node("Mul", bounded, graph.constant(GRID)))
        encoded = graph.node("Div", whole, graph.constant(GRID))
        product = graph.node("MatMul", encoded, graph.constant(self.coefficients[None, :]))
        return graph.node("Add", added, product)

    def _moved(self, graph: _Graph, number: str) -> str:
        scaling = self.code.scaling
        if scaling is None:
            return number
        if scaling.unit > 0:
            # arsinh, of which onnxruntime has none for doubles.
            size = graph.node("Div", graph.node("Abs", number), graph.constant(scaling.unit))
            square = graph.node("Mul", size, size)
            root = graph.node("Sqrt", graph.node("Add", square, graph.constant(1.0)))
            grown = graph.node("Log", graph.node("Add", size, root))
            number = graph.node("Mul", graph.node("Sign", number), grown)
        return graph.clipped(number, scaling.low, scaling.high)

    @staticmethod
    def _octave(graph: _Graph, number: str) -> str:
        positive = range(NUMBER_CELLS // 2 + 1, NUMBER_CELLS)
        ends = np.array([octave_ends(cell)[0] for cell in positive])
        count = graph.counted(graph.node("Abs", number), ends)
        below = graph.node("Less", number, graph.constant(0.0))
        signed = graph.node("Where", below, graph.node("Neg", count), count)
        return graph.node("Add", signed, graph.constant(np.array(NUMBER_CELLS // 2)))

    def examples(self, draws: np.random.Generator) -> Sequence[object]:
        """Return values inside and outside the range, of every size, and missing ones."""
        scaling = self.code.scaling
        low, high = (-1e3, 1e3) if scaling is None else (scaling.low, scaling.high)
        inside = draws.uniform(low, high, _COMPARED // 2)
        if scaling is not None and scaling.unit > 0:
            inside = np.sinh(inside) * scaling.unit
        signs = draws.choice([-1, 1], _COMPARED // 4)
        sizes = signs * 2.0 ** draws.uniform(-30, 60, _COMPARED // 4)
        odd = [math.nan, 0.0, math.inf, -math.inf, float(np.max(inside)) * 2, -1.0, 1.0]
        return [*inside.tolist(), *sizes.tolist(), *odd]


@dataclass(frozen=True)
class _Texts:
    """A column of categories: a row of a table for each, the last one for all others."""

    name: str
    labels: tuple[str, ...]
    table: FloatArray

    def declared(self, onnx: Any) -> Any:
        return onnx.helper.make_tensor_value_info(self.name, onnx.TensorProto.STRING, [None, 1])

    def add_to(self, graph: _Graph) -> str:
        place = graph.node(
            "LabelEncoder",
            self.name,
            domain="ai.onnx.ml",
            keys_strings=list(self.labels),
            values_int64s=list(range(len(self.labels))),
            default_int64=len(self.labels),
        )
        return graph.row(self.table, place)

    def examples(self, draws: np.random.Generator) -> Sequence[object]:
        """Return all categories, and one that nobody has."""
        del draws
        return [*self.labels, "", "no such category of any column"]


_Column = _Numbers | _Texts


def _columns(model: PrivateModel) -> list[_Column]:
    """Return what each column adds to the scores."""
    if isinstance(model.model, BoostedModel):
        parts = zip(binned_columns(model.encoder), model.model.tables, strict=True)
        return [_boosted(bins, table) for bins, table in parts]
    weights, length = model.model.coefficients, model.encoder.length
    columns, start = [], 0
    for code in model.encoder.used:
        columns.append(_linear(code, weights[start : start + code.width], length))
        start += code.width
    return columns


def _linear(
    code: ColumnCode,
    weights: FloatArray,
    length: float,
) -> _Column:
    scaled = code.scaling is not None
    # Below the rows of the indicators, one for values that switch on none.
    indicator = float(on_grid(np.array(1 / length)))
    rows = np.vstack([weights[int(scaled) :] * indicator, np.zeros((1, weights.shape[1]))])

    def added(values: Values) -> FloatArray:
        return np.asarray(rows[code.places(values)])

    if not _takes_numbers(code):
        return _texts(code, added)
    table = np.zeros((NUMBER_CELLS + 1, weights.shape[1]))
    if code.indicators:
        table = added(_one_of_each_cell())
    return _Numbers(code, weights[0] if scaled else None, table, None, length)


def _boosted(bins: Any, table: FloatArray) -> _Column:
    code: ColumnCode = bins.code

    def added(values: Values) -> FloatArray:
        return np.asarray(table[bins.of(values)])

    if not _takes_numbers(code):
        return _texts(code, added)
    if code.scaling is None:
        return _Numbers(code, None, added(_one_of_each_cell()), None)
    missing = added(Values.of(np.array([np.nan])))
    return _Numbers(code, None, np.vstack([table[: bins.ordered], missing]), bins.edges())


def _one_of_each_cell() -> Values:
    """Return a number of every octave and sign, in the order of the cells, and a missing one."""
    ends = [octave_ends(cell) for cell in range(NUMBER_CELLS)]
    middles = np.append(np.mean(ends, axis=1), math.nan)
    values = Values.of(middles)
    assert cells_of(values).tolist() == [*range(NUMBER_CELLS), MISSING]
    return values


def _takes_numbers(code: ColumnCode) -> bool:
    """Tell whether a column is an input of numbers: scaled, or told apart by size alone."""
    return code.scaling is not None or (not code.labels and max(code.cells, default=0) <= MISSING)


def _texts(
    code: ColumnCode,
    added: Callable[[Values], FloatArray],
) -> _Texts:
    if not code.labels:
        raise _unlisted(code.name)
    labels = tuple(dict.fromkeys((*code.labels, "")))
    unknown = "\0"  # a label that no table has
    return _Texts(code.name, labels, added(Values.of([*labels, unknown], code.form)))


def _intercepts(model: PrivateModel) -> FloatArray:
    inner = model.model
    if isinstance(inner, BoostedModel):
        return np.zeros((1, inner.tables[0].shape[1]))
    return np.asarray(inner.intercepts, dtype=np.float64).reshape(1, -1)


def _outputs(model: PrivateModel, graph: _Graph, scores: str, taken: set[str]) -> list[Any]:
    """Add what is answered: ``prediction`` and, for classes, ``probabilities`` or ``scores``."""
    from onnx import TensorProto

    def named(name: str) -> str:
        while name in taken:
            name += "_"
        return name

    tensor = graph.helper.make_tensor_value_info
    answer = named("prediction")
    if not model.class_names:
        half = (model.target.high - model.target.low) / 2
        cut = graph.clipped(scores, -1.0, 1.0)
        scaled = graph.node("Mul", cut, graph.constant(half))
        graph.node("Add", scaled, graph.constant(model.target.low + half), named=answer)
        return [tensor(answer, TensorProto.DOUBLE, [None, 1])]
    single = model.loss.outputs == 1
    if single:
        above = graph.node("Greater", scores, graph.constant(0.0))
        place = graph.node("Cast", graph.node("Reshape", above, graph.constant([-1])), to=7)
    else:
        place = graph.node("ArgMax", scores, axis=1, keepdims=0)
    names = graph.constant(np.array(model.class_names, dtype=object))
    graph.node("Gather", names, place, named=answer)
    beside, columns = named("scores"), model.loss.outputs
    if model.model.loss in ("logistic", "softmax"):
        beside, columns = named("probabilities"), len(model.class_names)
    if model.model.loss == "softmax":
        graph.node("Softmax", scores, axis=1, named=beside)
    elif model.model.loss == "logistic":
        both = [graph.node("Sigmoid", graph.node("Neg", scores)), graph.node("Sigmoid", scores)]
        graph.node("Concat", *both, axis=1, named=beside)
    else:
        graph.node("Identity", scores, named=beside)
    return [
        tensor(answer, TensorProto.STRING, [None]),
        tensor(beside, TensorProto.DOUBLE, [None, columns]),
    ]


def _compare(model: PrivateModel, packed: bytes, columns: Sequence[_Column]) -> None:
    """Refuse a file whose answers differ from the model's, on rows of every kind."""
    draws = np.random.default_rng(0)
    rows: dict[str, list[object]] = {}
    for column in columns:
        values = column.examples(draws)
        picked = [*range(len(values)), *draws.integers(0, len(values), _COMPARED).tolist()]
        rows[column.name] = [values[place] for place in draws.permutation(picked)[:_COMPARED]]
    session = _package("onnxruntime").InferenceSession(packed, providers=["CPUExecutionProvider"])
    feeds = {
        column.name: np.array(
            rows[column.name], dtype=object if isinstance(column, _Texts) else np.float64
        ).reshape(-1, 1)
        for column in columns
    }
    answers = session.run(None, feeds)
    encoded, _ = model.encoded(rows)
    scores = model.model.scores(encoded)
    if not model.class_names:
        pairs = [(answers[0][:, 0], model.answered(encoded))]
        sure = np.zeros(0, dtype=bool)
    else:
        probabilities = model.probabilities(encoded)
        pairs = [(answers[1], scores if probabilities is None else probabilities)]
        ranked = np.sort(model.ranking(encoded), axis=1)
        sure = ranked[:, -1] - ranked[:, -2] > _CLOSE * (1 + np.abs(ranked).max(axis=1))
    same = all(np.allclose(ours, theirs, rtol=_CLOSE, atol=_CLOSE) for ours, theirs in pairs)
    if same and sure.any():
        same = bool((answers[0][sure] == model.answered(encoded)[sure]).all())
    if not same:
        raise MemberboundError("the ONNX file does not answer as the model does; nothing written.")
