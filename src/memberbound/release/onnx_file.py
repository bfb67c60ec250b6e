"""Export models of all rows to ONNX, for runtimes without this package.

A numeric column (or days since 1970-01-01) is an input of doubles, with NaN for missing values; a
categorical column is an input of strings, spelled as in the bounds, with ``""`` for missing values.
Each column contributes to the scores: a number through its coefficient, and every value through a
row of a lookup table, indexed by category, bin or octave.  All computations use doubles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, MemberboundError, import_optional
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.boosting import BinnedColumn, BoostedModel, column_bins
from memberbound.release.all_rows.clipping import GRID, LARGEST_FEATURE, on_grid
from memberbound.release.all_rows.encoder import ColumnCode
from memberbound.release.all_rows.histograms import FIXED_CELLS, MISSING, NUMBER_CELLS, octave_ends
from memberbound.release.all_rows.models import PrivateModel
from memberbound.tables.columns import read_column
from memberbound.tables.values import Values

#: Versions supported by every recent onnxruntime.
_OPSET, _ML_OPSET, _IR = 17, 3, 8
#: Metadata key of the model's description in the file.
_ABOUT = "memberbound"
#: Number of rows for the comparison with the model, and tolerance of the scores.
_COMPARED, _CLOSE = 512, 1e-9


def _package(name: str) -> ModuleType:
    return import_optional(name, "for ONNX files", "onnx")


def check_onnx(without_bounds: Mapping[str, object]) -> None:
    """Reject, before training, a model that could not be exported to ONNX.

    ``without_bounds`` holds the declared types of the columns without bounds.  Text in such a
    column is stored as a hash, which an ONNX graph cannot compute.
    """
    for name in ("onnx", "onnxruntime"):
        _package(name)
    texts = [name for name, kind in without_bounds.items() if not _is_number(kind)]
    if texts:
        raise _missing_bounds(texts[0])


def _missing_bounds(column: str) -> InputError:
    return InputError(
        f"bounds must say what every column holds for an ONNX file, got none for {column!r}: "
        "names of categories are stored only with bounds. Give bounds, or write .json."
    )


def _is_number(kind: object) -> bool:
    """Return whether a declared type of pandas, numpy or Arrow holds numbers or dates."""
    numeric = ("int", "uint", "float", "double", "halffloat", "decimal", "date", "time", "duration")
    return str(kind).lower().startswith(numeric)


def onnx_bytes(model: PrivateModel) -> bytes:
    """Convert the model to an ONNX file, and check that both agree on a range of test rows.

    Guarantee: the file is a function of the released model (post-processing).
    Edge cases: a text column without bounds is rejected, because its names are stored as hashes.
    """
    onnx = _package("onnx")
    helper = onnx.helper
    graph = _Graph(helper)
    columns = _columns(model)
    start = getattr(model.model, "intercepts", np.zeros(model.loss.outputs))
    scores = _Value(graph, graph.name_of(np.reshape(start, (1, -1))))
    for column in columns:
        scores = scores + column.score(graph)
    outputs = _outputs(model, scores, {column.name for column in columns})

    def declare(name: str, kind: np.dtype[np.generic], shape: list[int | None]) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)

    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "memberbound",
            [declare(column.name, column.kind, [None, 1]) for column in columns],
            [declare(name, *what) for name, what in outputs.items()],
            graph.stored,
        ),
        producer_name="memberbound",
        ir_version=_IR,
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
    )
    about = {
        _ABOUT: model.to_json(),
        "classes": json.dumps(list(model.class_names), ensure_ascii=False),
    }
    helper.set_model_props(made, about)
    onnx.checker.check_model(made)
    packed: bytes = made.SerializeToString(deterministic=True)
    _compare(model, packed, columns)
    return packed


def read_model_text(packed: bytes) -> str:
    """Return the model description stored in an ONNX file, or '' if there is none."""
    made = _package("onnx").load_model_from_string(packed)
    return next((str(p.value) for p in made.metadata_props if p.key == _ABOUT), "")


@dataclass
class _Graph:
    """The nodes and constants of an ONNX graph, named by index."""

    helper: Any
    nodes: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)

    def name_of(self, value: _Operand) -> str:
        """Return the name of a value, adding a constant to the graph if necessary."""
        if isinstance(value, _Value):
            return value.name
        from onnx import numpy_helper

        name = f"memberbound/constant{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: _Operand, named: str = "", **attributes: object) -> _Value:
        """Add a node and return its output."""
        name = named or f"memberbound/{kind}{len(self.nodes)}"
        names = [self.name_of(value) for value in inputs]
        self.nodes.append(self.helper.make_node(kind, names, [name], **attributes))
        return _Value(self, name)

    def row(self, table: FloatArray, index: _Value) -> _Value:
        """Look up the rows of a table by an index of shape (rows, 1)."""
        return self.node("Gather", table, self.node("Reshape", index, [-1]), axis=0)

    def count_at_most(self, value: _Value, ends: FloatArray) -> _Value:
        """Return the number of ends that are at most the value."""
        reached = self.node("GreaterOrEqual", value, ends[None, :])
        whole = self.node("Cast", reached, to=self.helper.np_dtype_to_tensor_dtype(np.dtype("i8")))
        return self.node("ReduceSum", whole, [1], keepdims=1)


@dataclass(frozen=True)
class _Value:
    """The output of a node, or an input, with arithmetic that adds nodes."""

    graph: _Graph
    name: str

    def __add__(self, other: _Operand) -> _Value:
        return self.graph.node("Add", self, other)

    def __sub__(self, other: _Operand) -> _Value:
        return self.graph.node("Sub", self, other)

    def __mul__(self, other: _Operand) -> _Value:
        return self.graph.node("Mul", self, other)

    def __truediv__(self, other: _Operand) -> _Value:
        return self.graph.node("Div", self, other)

    def of(self, kind: str) -> _Value:
        """Apply a unary operator."""
        return self.graph.node(kind, self)

    def clip(self, low: float, high: float) -> _Value:
        """Clip the value to [low, high]."""
        return self.graph.node("Clip", self, low, high)

    def where(self, condition: _Value, other: _Operand) -> _Value:
        """Replace the value by another one wherever the condition holds."""
        return self.graph.node("Where", condition, other, self)


#: An input of a node: the output of another one, or a constant.
_Operand = _Value | ArrayLike


@dataclass(frozen=True)
class _Numbers:
    """A numeric column: coefficients of the encoded number, and a lookup table by bin."""

    code: ColumnCode
    #: Coefficients of the encoded number; None if the scores depend on the bin only.
    coefficients: FloatArray | None
    #: A row per bin; the last one is for missing values.
    table: FloatArray
    #: Edges of the bins of the transformed number; None for bins by sign and octave.
    edges: FloatArray | None
    #: Divisor of encoded rows.
    length: float = 1.0

    kind = np.dtype(np.float64)

    @property
    def name(self) -> str:
        return self.code.name

    def score(self, graph: _Graph) -> _Value:
        """Return the column's contribution to the scores."""
        value = _Value(graph, self.name)
        missing = value.of("IsNaN")
        number = value.where(missing, 0.0)
        transformed = self._transform(number)
        index = (
            _octave(number) if self.edges is None else graph.count_at_most(transformed, self.edges)
        )
        score = graph.row(self.table, index.where(missing, np.array(len(self.table) - 1)))
        if self.coefficients is None:
            return score
        scaling = self.code.scaling
        assert scaling is not None
        scaled = (transformed - scaling.centre) / (2 * scaling.spread)
        encoded = scaled.clip(-scaling.limit, scaling.limit).where(missing, 0.0)
        # Use the same operations in the same order as on_grid, because they round.
        bounded = (encoded / self.length).clip(-LARGEST_FEATURE, LARGEST_FEATURE)
        encoded = (bounded * GRID).of("Round") / GRID
        return score + graph.node("MatMul", encoded, self.coefficients[None, :])

    def _transform(self, number: _Value) -> _Value:
        scaling = self.code.scaling
        if scaling is None:
            return number
        if scaling.unit > 0:
            # arsinh, which onnxruntime does not implement for doubles.
            size = number.of("Abs") / scaling.unit
            grown = (size + (size * size + 1.0).of("Sqrt")).of("Log")
            number = number.of("Sign") * grown
        return number.clip(scaling.low, scaling.high)

    def examples(self, draws: np.random.Generator) -> Sequence[object]:
        """Return test values inside and outside the range, of all magnitudes, and missing ones."""
        scaling = self.code.scaling
        low, high = (-1e3, 1e3) if scaling is None else (scaling.low, scaling.high)
        inside = draws.uniform(low, high, _COMPARED // 2)
        if scaling is not None and scaling.unit > 0:
            inside = np.sinh(inside) * scaling.unit
        signs = draws.choice([-1, 1], _COMPARED // 4)
        sizes = signs * 2.0 ** draws.uniform(-30, 60, _COMPARED // 4)
        odd = [math.nan, 0.0, math.inf, -math.inf, float(np.max(inside)) * 2, -1.0, 1.0]
        return [*inside.tolist(), *sizes.tolist(), *odd]


def _octave(number: _Value) -> _Value:
    """Return the cell of a number: its sign and octave."""
    graph, middle = number.graph, NUMBER_CELLS // 2
    ends = np.array([octave_ends(cell)[0] for cell in range(middle + 1, NUMBER_CELLS)])
    count = graph.count_at_most(number.of("Abs"), ends)
    return count.where(graph.node("Less", number, 0.0), count.of("Neg")) + np.array(middle)


@dataclass(frozen=True)
class _Texts:
    """A categorical column: a table row per category, the last one for all others."""

    name: str
    labels: tuple[str, ...]
    table: FloatArray

    kind = np.dtype(object)

    def score(self, graph: _Graph) -> _Value:
        """Return the column's contribution to the scores."""
        index = graph.node(
            "LabelEncoder",
            _Value(graph, self.name),
            domain="ai.onnx.ml",
            keys_strings=list(self.labels),
            values_int64s=list(range(len(self.labels))),
            default_int64=len(self.labels),
        )
        return graph.row(self.table, index)

    def examples(self, draws: np.random.Generator) -> Sequence[object]:
        """Return all categories, a missing value and an unknown category."""
        del draws
        return [*self.labels, "", "no such category of any column"]


_Column = _Numbers | _Texts


def _columns(model: PrivateModel) -> list[_Column]:
    """Return the graph's columns, which compute each column's contribution to the scores."""
    if isinstance(model.model, BoostedModel):
        parts = zip(column_bins(model.encoder), model.model.tables, strict=True)
        return [_boosted_column(bins, table) for bins, table in parts]
    ends = np.cumsum([code.width for code in model.encoder.used])[:-1]
    weights = np.split(model.model.coefficients, ends)
    used = zip(model.encoder.used, weights, strict=True)
    return [_linear_column(code, own, model.encoder.length) for code, own in used]


def _linear_column(code: ColumnCode, weights: FloatArray, length: float) -> _Column:
    scaled = code.scaling is not None
    # After the rows of the indicators, a zero row for values without an indicator.
    indicator = float(on_grid(np.array(1 / length)))
    rows = np.vstack([weights[int(scaled) :] * indicator, np.zeros((1, weights.shape[1]))])

    def look_up(values: Values) -> FloatArray:
        return np.asarray(rows[code.indicator_cells.cell_of(values)])

    if not _takes_numbers(code):
        return _text_column(code, look_up)
    table = np.zeros((NUMBER_CELLS + 1, weights.shape[1]))
    if code.indicators:
        table = look_up(_one_of_each_cell())
    return _Numbers(code, weights[0] if scaled else None, table, None, length)


def _boosted_column(bins: BinnedColumn, table: FloatArray) -> _Column:
    code = bins.code

    def look_up(values: Values) -> FloatArray:
        return np.asarray(table[bins.cells.cell_of(values)])

    if not _takes_numbers(code):
        return _text_column(code, look_up)
    if code.scaling is None:
        return _Numbers(code, None, look_up(_one_of_each_cell()), None)
    missing = look_up(read_column(np.array([np.nan])))
    return _Numbers(code, None, np.vstack([table[: bins.ordered], missing]), bins.cuts)


def _one_of_each_cell() -> Values:
    """Return one number per cell (octave and sign), in order, and a missing value."""
    ends = [octave_ends(cell) for cell in range(NUMBER_CELLS)]
    middles = np.append(np.mean(ends, axis=1), math.nan)
    values = read_column(middles)
    assert FIXED_CELLS.cell_of(values).tolist() == [*range(NUMBER_CELLS), MISSING]
    return values


def _takes_numbers(code: ColumnCode) -> bool:
    """Return whether a column takes numeric input: scaled, or binned by magnitude alone."""
    return code.scaling is not None or (not code.labels and max(code.cells, default=0) <= MISSING)


def _text_column(code: ColumnCode, look_up: Callable[[Values], FloatArray]) -> _Texts:
    if not code.labels:
        raise _missing_bounds(code.name)
    labels = tuple(dict.fromkeys((*code.labels, "")))
    unknown = "\0"  # a label that cannot occur in a table
    return _Texts(code.name, labels, look_up(read_column([*labels, unknown], code.form)))


def _outputs(
    model: PrivateModel, scores: _Value, taken: set[str]
) -> dict[str, tuple[np.dtype[np.generic], list[int | None]]]:
    """Add the outputs: ``prediction`` and, for classes, ``probabilities`` or ``scores``.

    Return the type and the shape of each output.
    """
    graph, single = scores.graph, model.loss.outputs == 1
    texts, doubles = np.dtype(object), np.dtype(np.float64)

    def unused_name(name: str) -> str:
        while name in taken:
            name += "_"
        return name

    answer = unused_name("prediction")
    if not model.class_names:
        half = (model.target.high - model.target.low) / 2
        scaled = scores.clip(-1.0, 1.0) * half
        graph.node("Add", scaled, model.target.low + half, named=answer)
        return {answer: (doubles, [None, 1])}
    if single:
        above = graph.node("Greater", scores, 0.0)
        index = graph.node("Cast", graph.node("Reshape", above, [-1]), to=7)
    else:
        index = graph.node("ArgMax", scores, axis=1, keepdims=0)
    graph.node("Gather", np.array(model.class_names, dtype=object), index, named=answer)
    beside = unused_name("probabilities" if model.loss.probable else "scores")
    if not model.loss.probable:
        graph.node("Identity", scores, named=beside)
    elif single:
        both = scores.of("Neg").of("Sigmoid"), scores.of("Sigmoid")
        graph.node("Concat", *both, axis=1, named=beside)
    else:
        graph.node("Softmax", scores, axis=1, named=beside)
    columns = len(model.class_names) if model.loss.probable else model.loss.outputs
    return {answer: (texts, [None]), beside: (doubles, [None, columns])}


def _compare(model: PrivateModel, packed: bytes, columns: Sequence[_Column]) -> None:
    """Check that the file and the model agree on a range of test rows, or raise."""
    draws = np.random.default_rng(0)
    rows: dict[str, list[object]] = {}
    for column in columns:
        values = column.examples(draws)
        picked = [*range(len(values)), *draws.integers(0, len(values), _COMPARED).tolist()]
        rows[column.name] = [values[index] for index in draws.permutation(picked)[:_COMPARED]]
    session = _package("onnxruntime").InferenceSession(packed, providers=["CPUExecutionProvider"])
    feeds = {c.name: np.array(rows[c.name], dtype=c.kind).reshape(-1, 1) for c in columns}
    answers = session.run(None, feeds)
    encoded, _ = model.encode(rows)
    scores = model.model.scores(encoded)
    if not model.class_names:
        pairs = [(answers[0][:, 0], model.predict_encoded(encoded))]
        sure = np.zeros(0, dtype=bool)
    else:
        probabilities = model.probabilities(encoded)
        pairs = [(answers[1], scores if probabilities is None else probabilities)]
        ranked = np.sort(model.ranking(encoded), axis=1)
        sure = ranked[:, -1] - ranked[:, -2] > _CLOSE * (1 + np.abs(ranked).max(axis=1))
    same = all(np.allclose(ours, theirs, rtol=_CLOSE, atol=_CLOSE) for ours, theirs in pairs)
    if same and sure.any():
        same = bool((answers[0][sure] == model.predict_encoded(encoded)[sure]).all())
    if not same:
        raise MemberboundError("the ONNX file does not answer as the model does; nothing written.")
