"""Existing models as maps from raw rows to answers; ``model_files`` reads their files.

Nothing is trained here.  A model is queried like its users query it: a pipeline with preprocessing
gets raw rows, and a model fitted on named columns gets columns by name.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.files import codec_named
from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.csv_files import WINDOWS_BYTES, detect_codec, is_csv, separator_of
from memberbound.tables.opening import use_table

if TYPE_CHECKING:
    from pandas import DataFrame

Method = TypeVar("Method", bound=Callable[..., object])


def available_if(check: Callable[[Any], object]) -> Callable[[Method], Method]:
    """Return a decorator for methods that exist only if ``check`` returns true.

    Like scikit-learn's ``available_if``, which a released model does not import, except that errors
    in the check propagate: otherwise a MemoryError would silently remove the probabilities from an
    answer.
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def bound(model: object) -> Callable[..., object]:
            if not check(model):
                kind = type(model).__name__
                raise AttributeError(f"This {kind!r} has no attribute {method.__name__!r}")
            return MethodType(method, model)

        return cast("Method", property(bound))

    return decorate


#: Kinds of model output, from most to least informative.
Access = Literal["probabilities", "logits", "labels", "values"]


@dataclass(frozen=True, eq=False)
class Answers:
    """A model's outputs for n rows, in a ``table`` with one row each.

    Probabilities and logits are (n, K) tables in the order of ``classes``, labels are n classes,
    and values are the n numbers of a regression.
    """

    access: Access
    table: Labels
    classes: Labels | None = None

    def __post_init__(self) -> None:
        if self.access in ("probabilities", "logits"):
            width = None if self.classes is None else len(self.classes)
            if self.table.ndim != 2 or self.table.shape[1] != width:
                raise InputError(
                    f"answers must have a column per class ({width}), got shape {self.table.shape}."
                )

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Answers:
        """Return the answers to some of the rows."""
        return replace(self, table=self.table[rows])

    @classmethod
    def of(cls, outputs: object, classes: Labels | None = None) -> Answers:
        """Interpret the output of a callable: probabilities, logits, labels or numbers.

        A table of numbers holds probabilities if its rows are non-negative and sum to 1, and logits
        otherwise.  A list of fractions holds the probabilities of the second of two ``classes``;
        any other list holds labels, or values if it has fractions and there are no classes.
        """
        array = np.asarray(outputs)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == 2:
            numbers = as_floats(array)
            names = np.arange(array.shape[1]) if classes is None else np.asarray(classes)
            close = np.abs(numbers.sum(axis=1) - 1) <= 1e-3 if numbers.size else np.zeros(0)
            if numbers.size and bool((numbers >= 0).all()) and bool(close.all()):
                return cls("probabilities", numbers, names)
            return cls("logits", numbers, names)
        if array.ndim != 1:
            raise InputError(f"answers must be one row per record, got shape {array.shape}.")
        if array.dtype.kind == "f":
            if classes is None:
                return cls("values", as_floats(array))
            inside = bool(((array >= 0) & (array <= 1)).all())
            if len(classes) == 2 and inside and not np.isin(array, np.asarray(classes)).all():
                table = np.column_stack([1 - array, array])
                return cls("probabilities", as_floats(table), np.asarray(classes))
        return cls("labels", array, None if classes is None else np.asarray(classes))

    @classmethod
    def of_margins(cls, margins: Labels, classes: Labels) -> Answers:
        """Interpret margins of the second of two classes over the first."""
        half = as_floats(margins) / 2
        return cls("logits", as_floats(np.column_stack([-half, half])), classes)


#: Rows per batch in queries of a network.
_BATCH = 1024


def as_floats(array: Labels) -> FloatArray:
    """Convert an array to floats, or raise."""
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"answers must be numbers, got {array.dtype}.") from None


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A fitted model that can be queried with raw rows.

    Attributes:
        respond: function from rows (a pandas table or an array) to answers.
        columns: names of its input columns; None if it was fitted without names.
        inputs: number of input columns; None if unknown.
        model: the fitted object, for structural facts; None if there is no Python object.
        name: its name in messages.
        notes: notes on how it was loaded.
    """

    respond: Callable[[DataFrame | Labels], Answers]
    columns: tuple[str, ...] | None = None
    inputs: int | None = None
    model: object = None
    name: str = "the model"
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        model: object,
        *,
        classes: Sequence[object] | Labels | None = None,
        name: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> TrainedModel:
        """Wrap a fitted object with ``predict_proba`` or ``predict``, or a callable of rows.

        Examples:
            >>> import numpy as np
            >>> model = TrainedModel.of(
            ...     lambda rows: np.full((len(rows), 2), 0.5), classes=["a", "b"]
            ... )
            >>> model.answers(np.zeros((3, 1))).access
            'probabilities'
        """
        if isinstance(model, TrainedModel):
            return model
        named = getattr(model, "feature_names_in_", None)
        width = getattr(model, "n_features_in_", None)
        names = getattr(model, "classes_", None) if classes is None else classes
        names = None if names is None else np.asarray(names)
        return cls(
            _responder(model, names),
            None if named is None else tuple(map(str, named)),
            width if isinstance(width, int) else None,
            model,
            name or type(model).__name__,
            notes,
        )

    def answers(self, rows: DataFrame | Labels) -> Answers:
        """Return the model's answers to rows, ignoring extra columns.

        Edge cases: mismatched columns, and any exception of the model, raise InputError.
        """
        own = self.match_columns(rows)
        try:
            answers = self.respond(own)
        except InputError:
            raise
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}".splitlines()[0]
            raise InputError(
                f"{self.name} must be able to answer these rows as they are, got {reason}. Give it "
                "the columns and values that it was trained on."
            ) from None
        if len(answers.table) != len(own):
            raise InputError(
                f"{self.name} must give one answer per row ({len(own)}), got {len(answers.table)}."
            )
        return answers

    def match_columns(self, rows: DataFrame | Labels) -> DataFrame | Labels:
        """Select the model's columns in its order; raise if rows lack some."""
        if isinstance(rows, np.ndarray):
            wide = rows.shape[1] if rows.ndim > 1 else 1
            if self.inputs is not None and rows.ndim == 2 and wide != self.inputs:
                raise InputError(
                    f"rows must have {self.inputs} columns for {self.name}, got {wide}."
                )
            return rows
        names = [str(c) for c in rows.columns]
        if self.columns is not None:
            missing = [c for c in self.columns if c not in names]
            if missing:
                raise InputError(
                    f"rows must have every column that {self.name} was trained on; "
                    f"{', '.join(missing[:5])} {'is' if len(missing) == 1 else 'are'} missing. "
                    f"They have {', '.join(names[:5])}{' …' if len(names) > 5 else ''}."
                )
            return rows.set_axis(names, axis=1)[list(self.columns)]
        if self.inputs is None:
            return rows
        if len(names) != self.inputs:
            raise InputError(
                f"rows must have the {self.inputs} columns that {self.name} was trained on, got "
                f"{len(names)}. It was fitted without names: name the columns in its order."
            )
        try:
            return rows.to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"rows must hold numbers: {self.name} was fitted on an array without names. "
                "Encode text as in training, or save the pipeline that does."
            ) from None


def _responder(model: object, classes: Labels | None) -> Callable[[DataFrame | Labels], Answers]:
    """Return the function that queries a fitted object for its richest output."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return lambda rows: _of_network(model, rows, classes)
    predict_proba = getattr(model, "predict_proba", None)
    if callable(predict_proba) and classes is not None:
        return lambda rows: Answers(
            "probabilities", as_floats(np.asarray(predict_proba(rows))), classes
        )
    if callable(predict_proba):
        return lambda rows: Answers.of(predict_proba(rows), classes)
    predict = getattr(model, "predict", None)
    scores = getattr(model, "decision_function", None)
    if callable(scores) and callable(predict) and classes is not None:
        return lambda rows: _answer_decisions(np.asarray(scores(rows)), predict, rows, classes)
    if callable(predict):
        if classes is None and not _classifies(model):
            return lambda rows: Answers.of(as_floats(np.asarray(predict(rows)).reshape(-1)))
        return lambda rows: Answers("labels", np.asarray(predict(rows)).reshape(-1), classes)
    if callable(model):
        return lambda rows: Answers.of(model(rows), classes)
    raise InputError(
        "model must have predict_proba or predict, or be a callable of rows, got "
        f"{type(model).__name__}."
    )


def _of_network(module: Callable[..., object], rows: object, classes: Labels | None) -> Answers:
    """Compute a torch module's logits in batches, without gradients and dropout.

    A single output is the margin of the second of two ``classes``, or a number without classes.
    """
    torch = sys.modules["torch"]
    table = np.array(rows, dtype=np.float32)
    inputs = torch.as_tensor(table)
    training = getattr(module, "training", False)
    try:
        if training:
            module.eval()  # type: ignore[attr-defined]
    except NotImplementedError:  # an exported program cannot change its mode
        training = False
    try:
        with torch.no_grad():
            parts = [module(inputs[i : i + _BATCH]) for i in range(0, len(inputs), _BATCH)]
    finally:
        if training:
            module.train()  # type: ignore[attr-defined]
    outputs = torch.cat(parts).double().numpy()
    if classes is not None and len(classes) == 2 and outputs.size == len(table):
        return Answers.of_margins(outputs.reshape(-1), classes)
    return Answers.of(outputs, classes)


def _answer_decisions(
    scores: Labels, predict: Callable[[object], object], rows: object, classes: Labels
) -> Answers:
    """Return decision values as logits if there is one per class, or else labels."""
    if scores.ndim == 1 and len(classes) == 2:
        return Answers.of_margins(scores, classes)
    if scores.ndim == 2 and scores.shape[1] == len(classes):
        return Answers("logits", as_floats(scores), classes)
    return Answers("labels", np.asarray(predict(rows)).reshape(-1), classes)


def _classifies(model: object) -> bool:
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(model))
    except (AttributeError, TypeError):
        return False


# ── Rows as read by the model's own training code ─────────────────────────────────────────────────


def rows_as_trained(source: object, encoding: str | None = None) -> tuple[DataFrame, str]:
    """Read a table as a model's training script would; return it and its name.

    All other readers in this package read a CSV file as text, which keeps the most detail.  A
    pipeline is usually fitted on the output of ``pandas.read_csv``, so it is queried with that.
    """
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source.set_axis([str(c) for c in source.columns], axis=1), "the table"
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if is_csv(path):
            if not path.is_file():
                raise InputError(f"{path} does not exist.")
            try:
                codec = codec_named(encoding)
                frame = pd.read_csv(
                    path,
                    sep=separator_of(path, codec),
                    encoding=codec or detect_codec(path),
                    encoding_errors="strict" if codec else WINDOWS_BYTES,
                )
                return frame, str(path)
            except (ValueError, OSError) as problem:
                first = str(problem).splitlines()[0]
                raise InputError(f"{path} must be a readable table, got {first}.") from None
    with use_table(source, encoding=encoding) as table:
        return table.frame, table.name
