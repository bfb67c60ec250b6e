"""Evidence about a given model: its answers to members and non-members, with true targets.

It is read from two tables and a model, from a table of predictions, or from a table of scores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memberbound.attacks.scores import content_generator, membership
from memberbound.attacks.signals import BoolArray, Signals, signals_from
from memberbound.errors import InputError, listed_names
from memberbound.learners.learner import Labels, Task, network_factory
from memberbound.learners.model_files import load_model
from memberbound.learners.trained import Access, Answers, TrainedModel, rows_as_trained
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.saving import answering, certificate_path, load
from memberbound.tables.columns import read_column
from memberbound.tables.opening import use_table
from memberbound.tables.public_rows import read_population
from memberbound.tables.records import column_names
from memberbound.tables.spelling import number_label

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers of one model to its members and to non-members, with the true targets.

    Attributes:
        answers: the model's outputs, a row per record.
        truth: index of the true class in ``classes``, or the target of a regression.
        member: mask of the members.
        classes: the classes; empty for a regression.
        rows: the model's input rows; None if only answers are known.
        model: the model; None if only answers are known.
        notes: notes for readers of the audit.
        numbers: the index of each record in its own table.
        groups: values of the column that divides the records into groups.
    """

    answers: Answers
    truth: Labels
    member: BoolArray
    classes: tuple[str, ...] = ()
    rows: DataFrame | Labels | None = None
    model: TrainedModel | None = None
    notes: tuple[str, ...] = ()
    numbers: Labels | None = None
    groups: Sequence[object] | None = None

    @property
    def task(self) -> Task:
        """The task of the model."""
        return "regression" if self.answers.access == "values" else "classification"

    @cached_property
    def signals(self) -> Signals:
        """The signals derived from the answers, (1, N)."""
        return signals_from(self.answers, self.truth)

    def generator(self, seed: int, purpose: str) -> np.random.Generator:
        """Return a generator seeded by the seed, the purpose and the content of the records.

        The seed includes the rows when they are known, because many tables share the same labels.
        """
        import pandas as pd

        content = [np.asarray(self.answers.table), np.asarray(self.truth), self.member]
        if self.rows is not None:
            hashes = pd.util.hash_pandas_object(to_frame(self.rows), index=False)
            content.append(np.asarray(hashes))
        return content_generator(seed, *content, purpose=purpose)

    @classmethod
    def of(
        cls,
        model: TrainedModel,
        rows: DataFrame | Labels,
        target: Sequence[object] | Labels,
        member: BoolArray,
        *,
        name: str = "the target",
    ) -> Evidence:
        """Query a model, with some rows twice to check that it is deterministic.

        Edge cases: NaN answers, identical answers to all records and classes unknown to the model
        are refused.
        """
        answers = model.answers(rows)
        evidence = cls.from_answers(answers, target, member, name=name)
        notes = (*model.notes, *evidence.notes)
        first = np.arange(len(member)) < 200
        again, before = model.answers(rows[first]).table, answers[first].table
        close = (
            np.isclose(again, before, rtol=1e-6) if before.dtype.kind == "f" else again == before
        )
        if not np.all(close):
            notes += (
                "The model is not deterministic: two queries with the same rows gave different "
                "answers. The numbers are about one answer per record; an attacker who queries it "
                "repeatedly may reach more",
            )
        return replace(evidence, rows=rows, model=model, notes=notes)

    @classmethod
    def from_answers(
        cls,
        answers: Answers,
        target: Sequence[object] | Labels,
        member: BoolArray,
        *,
        name: str = "the target",
    ) -> Evidence:
        """Check the answers and match each row's true class; see :meth:`of`."""
        table = answers.table
        bad: Labels = np.zeros(0)
        if table.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(axis=1))
        if bad.size:
            raise InputError(
                "the model's answers must be finite numbers, got NaN or infinity for "
                f"{bad.size} of {len(table)} records (the first in row {int(bad[0]) + 1})."
            )
        if answers.access == "probabilities" and bool((table < 0).any()):  # type: ignore[operator]
            raise InputError("probabilities must be at least 0, got a negative one.")
        if len(table) and bool((table == table[:1]).all()):
            raise InputError(
                "the model must distinguish records, got the same answer to all "
                f"{len(table)} records. Nothing about membership can be learnt from it."
            )
        if answers.access != "values":
            return cls._of_classes(answers, np.asarray(target), member, name)
        try:
            values = np.asarray(target, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.nan)
        if not np.isfinite(values).all():
            raise InputError(f"{name} must hold finite numbers, as the model predicts, got others.")
        return cls(answers, values, member)

    @classmethod
    def _of_classes(
        cls, answers: Answers, target: Labels, member: BoolArray, name: str
    ) -> Evidence:
        """Match the class of every row to the model's classes."""
        true = [_class_name(v) for v in target.tolist()]
        labels = answers.table.tolist() if answers.access == "labels" else []
        predicted = [_class_name(value) for value in labels]
        known = sorted({*true, *predicted}) if answers.classes is None else answers.classes
        classes = [_class_name(value) for value in np.asarray(known).tolist()]
        code_of = {key: code for code, key in enumerate(classes)}
        if predicted:
            codes = np.array([code_of.get(v, -1) for v in predicted], dtype=np.int64)
            answers = Answers("labels", codes, np.arange(len(classes)))
        notes: tuple[str, ...] = ()
        names = sorted(set(true))
        numbered = classes == [str(code) for code in range(len(classes))]
        if numbered and len(names) == len(classes) and not set(names) & set(classes):
            # LightGBM, XGBoost and torch store class numbers instead of names.
            code_of, classes = {key: code for code, key in enumerate(names)}, names
            shown = _list_names((f"{code} = {key}" for code, key in enumerate(names)), 5)
            notes = (
                f"The model numbers its classes; they were matched to {name} in alphabetical order "
                f"({shown})",
            )
        unknown = [v for v in true if v not in code_of]
        if unknown:
            raise InputError(
                f"{name} must hold classes that the model knows ({_list_names(classes, 5)}), got "
                f"{unknown[0]!r} in {unknown.count(unknown[0])} rows."
            )
        truth = np.array([code_of[v] for v in true], dtype=np.int64)
        return cls(answers, truth, member, tuple(classes), notes=notes)


def _class_name(value: object) -> str:
    """Return a class as text, so that 1, 1.0 and numpy's 1 coincide."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value.item() if isinstance(value, np.generic) else value)


def to_frame(rows: DataFrame | Labels | None) -> DataFrame:
    """Return records as a data frame; images are flattened."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows.reset_index(drop=True)
    values = np.asarray(rows)
    values = values.reshape(len(values), -1)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])


# ── Two tables and a model ────────────────────────────────────────────────────────────────────────


def load_given_model(model: object, *, trust: bool = False, factory: object = None) -> TrainedModel:
    """Load an existing model: a fitted object, a model file, or a release of ``protect``."""
    if not isinstance(model, (str, os.PathLike)):
        return TrainedModel.of(model)
    if not certificate_path(Path(model)).is_file():
        return load_model(model, trust=trust, factory=factory)  # type: ignore[arg-type]
    made_by = None if factory is None else network_factory(factory)
    released = answering(load(Path(model), factory=made_by))
    if released is None:
        raise InputError(f"model must be a model, got the statistic {str(model)!r}.")
    return TrainedModel.of(released, name="the released model")


def ask_model(
    trained: TrainedModel,
    members: object,
    nonmembers: object,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    by: str | None = None,
    encoding: str | None = None,
) -> Evidence:
    """Read two tables (or pairs of rows and targets) and query a model on them.

    Edge cases: see :meth:`Evidence.of`; two tables with different columns are refused.
    """
    import pandas as pd

    released = trained.model if isinstance(trained.model, PrivateModel) else None
    x, y = _rows_and_target(members, "members", target, released, encoding)
    x0, y0 = _rows_and_target(nonmembers, "nonmembers", target, released, encoding)
    truth = np.concatenate([y, y0])
    groups = None
    rows: DataFrame | Labels
    if isinstance(x, pd.DataFrame) and isinstance(x0, pd.DataFrame):
        both = _concat(x, x0, trained.columns if columns is None else columns)
        groups = None if by is None else _values_of(by, both, target, truth)
        rows = _model_columns(both, columns, trained)
    elif isinstance(x, pd.DataFrame) or isinstance(x0, pd.DataFrame):
        raise InputError("members and nonmembers must be two tables or two arrays, got one each.")
    elif by is not None:
        raise InputError("by must name a column of two tables, got arrays.")
    else:
        rows = np.concatenate([x, x0])
    label = "the target" if target is None else repr(target)
    evidence = Evidence.of(trained, rows, truth, np.arange(len(truth)) < len(y), name=label)
    numbers = np.concatenate([np.arange(len(y)), np.arange(len(y0))])
    return replace(evidence, numbers=numbers, groups=groups)


def _rows_as_released(
    source: object, model: PrivateModel, encoding: str | None
) -> tuple[DataFrame, str]:
    """Read a table as ``predict`` does, with ``NA`` and ``01`` as text; return it and its name.

    A column is converted to numbers only if that changes no label.
    """
    with use_table(source, encoding=encoding) as table:
        frame, name = table.frame.copy(), table.name
    forms = {**model.encoder.forms, model.target.name: model.target.form}
    for column in frame.columns:
        values = read_column(frame[column], forms.get(column, "any"))
        codes, labels = values.codes_and_labels()
        used, rows = np.unique(codes, return_index=True)
        numbers = values.numbers
        plain = ["" if np.isnan(n) else number_label(n) for n in numbers[rows].tolist()]
        if plain == [labels[code] for code in used]:
            frame[column] = numbers
        elif column == model.target.name:
            frame[column] = np.array([label or None for label in labels], dtype=object)[codes]
    return frame, name


def _rows_and_target(
    source: object,
    name: str,
    target: str | None,
    released: PrivateModel | None,
    encoding: str | None,
) -> tuple[DataFrame | Labels, Labels]:
    """Return the rows and targets of one sample."""
    import pandas as pd

    if isinstance(source, tuple) and len(source) == 2:
        rows, truth = source[0], np.asarray(source[1])
        rows = rows if hasattr(rows, "columns") else np.asarray(rows)
        if len(rows) != len(truth) or truth.ndim != 1:
            raise InputError(
                f"{name} must be rows and as many targets, got {len(rows)} and {truth.shape}."
            )
    elif source is None:
        raise InputError(f"{name} must be given with a model: a table, or a pair (X, y).")
    else:
        if released is None or isinstance(source, pd.DataFrame):
            frame, called = rows_as_trained(source, encoding)
        else:
            frame, called = _rows_as_released(source, released, encoding)
        if target is None:
            raise InputError("target must name the column that the model predicts, got None.")
        if target not in frame.columns:
            listed = listed_names(target, frame.columns)
            raise InputError(f"{called} has no column {target!r}; {listed}.")
        rows, truth = frame.drop(columns=[target]), frame[target].to_numpy()
    missing = np.flatnonzero(pd.isna(truth))
    if missing.size:
        raise InputError(
            f"the target must be given in every row of {name}, got none in row "
            f"{int(missing[0]) + 1}. Drop such rows first."
        )
    if len(truth) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    return rows, truth


def _list_names(names: Iterable[object], most: int = 8) -> str:
    first = [str(name) for name in names]
    return ", ".join(first[:most]) + (" …" if len(first) > most else "")


def _concat(members: DataFrame, others: DataFrame, needed: Sequence[str] | None) -> DataFrame:
    """Concatenate members and non-members, restricted to their common columns."""
    import pandas as pd

    sides = [table.set_axis(table.columns.map(str), axis=1) for table in (members, others)]
    single = sides[0].columns.symmetric_difference(sides[1].columns)
    if len(single) and (needed is None or set(single) & set(needed)):
        raise InputError(
            "members and nonmembers must have the same columns; "
            f"{', '.join(single[:5])} {'is' if len(single) == 1 else 'are'} in one of them only."
        )
    return pd.concat(sides, join="inner", ignore_index=True)


def _values_of(by: str, frame: DataFrame, target: str | None, truth: Labels) -> list[object]:
    if by == target:
        return list(truth.tolist())
    if by not in frame.columns:
        listed = listed_names(by, frame.columns)
        raise InputError(f"by must be a column of the records, got {by!r}; {listed}.")
    return list(frame[by].tolist())


def _model_columns(
    both: DataFrame, columns: Sequence[str] | None, model: TrainedModel
) -> DataFrame:
    """Return the model's input columns."""
    if columns is None:
        return both if model.columns is None else both[list(model.match_columns(both))]
    missing = [c for c in columns if c not in both.columns]
    if missing:
        raise InputError(f"columns must be columns of both tables, got {missing[0]!r}.")
    return both[list(columns)]


# ── A table of predictions or scores instead of a model ───────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """An attack's scores of members and non-members, with optional group values."""

    score: FloatArray
    member: BoolArray
    groups: Sequence[object] | None = None


def read_table(
    source: object, by: str | None = None, encoding: str | None = None
) -> Evidence | ScoreTable:
    """Read a table of predictions or of scores, depending on its columns."""
    columns, name = column_names(source, encoding=encoding)
    if "score" not in columns and {"label", "member"} <= {*columns}:
        return read_predictions(source, by, encoding)
    for column in ("score", "member"):
        if column not in columns:
            raise InputError(
                f"{name} must have the columns score and member, {column!r} is missing. A learner "
                "is audited on its table by audit-learner, a model with --model."
            )
    return read_scores(source, by, encoding)


def read_scores(source: object, by: str | None = None, encoding: str | None = None) -> ScoreTable:
    """Read a table with the columns ``score`` (higher for members) and ``member`` (1 or 0)."""
    names = ("score", "member")
    table, _ = read_population(source, names, numeric=True, target=by, encoding=encoding)
    groups = None if by is None else list(table.frame[by].tolist())
    member = membership(table.numbers("member").tolist())
    return ScoreTable(table.numbers("score"), member, groups)


def read_predictions(
    source: object, by: str | None = None, encoding: str | None = None
) -> Evidence:
    """Read a table of a model's predictions: ``label``, ``member`` and the model's outputs.

    The outputs are ``probability_<class>`` or ``logit_<class>`` per class, or ``prediction``:
    labels, or the values of a regression.
    """
    frame, name = rows_as_trained(source, encoding)
    for needed in ("label", "member"):
        if needed not in frame.columns:
            raise InputError(
                f"{name} must have the columns label and member beside the predictions, "
                f"{needed!r} is missing."
            )
    member = membership(frame["member"].tolist())
    numbers = np.empty(len(member), dtype=np.int64)
    for side in (member, ~member):
        numbers[side] = np.flatnonzero(side)
    truth = frame["label"].to_numpy()
    evidence = Evidence.from_answers(_answers_in(frame, name), truth, member, name="label")
    groups = None if by is None else _values_of(by, frame, None, truth)
    return replace(evidence, numbers=numbers, groups=groups)


def _answers_in(frame: DataFrame, name: str) -> Answers:
    import pandas as pd

    kinds: dict[Access, str] = {"probabilities": "probability_", "logits": "logit_"}
    for kind, prefix in kinds.items():
        columns = [c for c in frame.columns if c.startswith(prefix)]
        if columns:
            table = frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
            classes = np.array([c.removeprefix(prefix) for c in columns], dtype=object)
            return Answers(kind, table, classes)
    if "prediction" not in frame.columns:
        raise InputError(
            f"{name} must have columns probability_<class>, logit_<class> or prediction, got "
            f"{_list_names(frame.columns)}."
        )
    predicted = frame["prediction"]
    if pd.api.types.is_float_dtype(predicted):
        values = predicted.to_numpy(dtype=np.float64)
        if not np.all(values == np.round(values)):
            return Answers("values", values)
    return Answers("labels", predicted.to_numpy())
