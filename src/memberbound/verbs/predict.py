"""The verb ``predict``: apply a released model to raw rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from numpy.typing import NDArray

from memberbound.answers import INTERNAL, CertifiedAnswer, computed
from memberbound.certificate import Certificate
from memberbound.declarations import (
    DatabaseTable,
    Encoding,
    ExcelSafe,
    FeatureFunctionName,
    Force,
    Option,
    OutputFile,
    TableLike,
)
from memberbound.errors import InputError
from memberbound.files import check_output
from memberbound.learners.learner import network_factory
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import significant
from memberbound.release.saving import answering, load
from memberbound.tables.frame_files import check_excel_safe, excel_safe_table, write_table
from memberbound.tables.opening import path_of

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame

#: Rows of the readable table.
_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(CertifiedAnswer):
    """Predictions for raw rows, in order, with the certificate of the model.

    ``probabilities`` has one column per class; it is None for regressions and for classifiers
    without probabilities.
    """

    VERB: ClassVar = "predict"

    values: NDArray[np.generic] = field(metadata=INTERNAL)
    probabilities: FloatArray | None = field(metadata=INTERNAL)
    classes: tuple[str, ...] = field(metadata=INTERNAL)
    certificate: Certificate = field(metadata=INTERNAL)
    out: str | None = None
    warnings: tuple[str, ...] = ()

    @computed
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def frame(self) -> DataFrame:
        """A pandas table: ``prediction`` and, for classifiers, ``probability_<class>``."""
        import pandas as pd

        columns: dict[str, NDArray[np.generic]] = {"prediction": self.values}
        if self.probabilities is not None:
            for name, column in zip(self.classes, self.probabilities.T, strict=True):
                columns[f"probability_{name}"] = column
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract, including predictions not written to a file."""
        result = super().to_dict()
        if self.out is None:
            result["predictions"] = self.frame.to_dict("records")
        return result

    def summary(self) -> str:
        """Return the first predictions, or the file that holds them."""
        lines = [f"{self.rows} row{'' if self.rows == 1 else 's'} predicted."]
        if self.out is not None:
            lines.append(f"written  {self.out}")
        else:
            shown = self.frame.head(_SHOWN)
            text = shown.to_string(
                index=False, float_format=lambda v: significant(v, "estimate", 4)
            )
            lines += ["", *text.splitlines()]
            if self.rows > _SHOWN:
                lines.append(f"… {self.rows - _SHOWN} more: write them with --out")
        return "\n".join(lines + [f"note: {w}." for w in self.warnings])


def predict(
    model: Annotated[object, Option("file", metavar="MODEL")],
    table: TableLike,
    *,
    learner: Annotated[object, Option("learner", metavar="NAME", web=False)] | None = None,
    features: FeatureFunctionName | None = None,
    lm: Annotated[str | os.PathLike[str], Option("text", metavar="DIR", web=False)] | None = None,
    strict: bool = False,
    out: OutputFile | None = None,
    force: Force = False,
    excel_safe: ExcelSafe = False,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
) -> Prediction:
    """Apply a model released by ``protect`` or ``protect-half`` to raw rows.

    Columns are matched by name in any order; extra columns are ignored with a notice.  An unknown
    category is treated as a rare one; text in a numeric column, or an absent column, is treated as
    missing values.  Notices give the counts.  Applying the model any number of times is free of
    privacy cost.  A text classifier of ``protect-text`` takes documents.

    Edge cases: a table without rows, or without any of the model's columns, is rejected; a model
    from ``protect-half`` also rejects text in numeric columns and absent columns.

    Args:
        model: a file that ``protect`` or ``protect-half`` wrote, a folder of ``protect-text`` with
            labels, or the model itself.
        learner: for a network: the ``package.module:factory`` it was trained with.
        features: the ``package.module:function`` a model was trained with, unless it is one of
            this package; its code runs, so give it only if you trust it.
        lm: for a text classifier: the folder of its base model.
        table: the rows, or documents: a file, a pandas, polars or pyarrow table, an array, or a
            dictionary of one row.
        strict: reject unknown categories, text in numeric columns and absent columns.
        out: file for the predictions (CSV, Parquet or Arrow): ``prediction`` and, for classifiers
            that give probabilities, ``probability_<class>``.

    Command line:
        memberbound predict model.skops new.csv --out answers.csv
        memberbound predict model.skops new.csv --strict --json
        memberbound predict network.safetensors new.csv --learner nets:two_layers
        memberbound predict safe letters.jsonl --lm base --out answers.csv

    Examples:
        >>> import pandas
        >>> from memberbound import protect_half
        >>> people = pandas.DataFrame({"age": range(100), "old": [a > 49 for a in range(100)]})
        >>> options = {"pairs": 40, "insecure_seed": 1}
        >>> model = protect_half(people, target="old", eta=0.2, **options).released
        >>> predict(model, pandas.DataFrame({"age": [5, 95]})).values.tolist()
        [False, True]
    """
    path = Path(model) if isinstance(model, (str, os.PathLike)) else None
    check_excel_safe(out, excel_safe=excel_safe)
    if out is not None:
        check_output(Path(out), source=path_of(table), force=force)
    if features is not None and path is None:
        raise InputError("features must be left out for a model in memory, which has its own.")
    factory = None if learner is None else network_factory(learner)
    if learner is not None and factory is None:
        raise InputError(f"learner must make a PyTorch module, got {learner!r}.")
    loaded = model
    if path is not None:
        loaded = load(path, factory=factory, features=features, lm=lm)
    taker = answering(loaded)
    if taker is None:
        raise InputError(
            "model must be a model that protect released, or its file, got "
            + ("a saved statistic or network." if path else f"{type(model).__name__}.")
        )
    rows, notices = taker.encode(table, database_table, encoding=encoding, strict=strict)
    probabilities = taker.probabilities(rows)
    result = Prediction(
        taker.predict_encoded(rows),
        probabilities,
        () if probabilities is None else taker.class_names,
        taker.certificate_,
        None if out is None else str(out),
        notices,
    )
    if out is not None:
        frame = excel_safe_table(result.frame) if excel_safe else result.frame
        write_table(frame, Path(out), force=force, private=True)
    return result
