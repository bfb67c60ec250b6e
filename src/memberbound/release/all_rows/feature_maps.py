"""Public feature maps: functions of single records, applied before anything is clipped.

A map must treat every row by itself, or a record would act through the features of others.  A
trial on public rows (:func:`try_map`) refuses maps that mix or remember rows; that the map does
so on no other rows is an assumption of the certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from memberbound.errors import InputError
from memberbound.learners.learner import attribute_named
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, Range
from memberbound.release.all_rows.learner_forms import LearnerForm
from memberbound.scratch import large_array
from memberbound.tables.records import Records, StoredRecords
from memberbound.tables.values import NumberValues, Values

#: Rows per call.  The last block is padded with zeros, so that all blocks have the same shape.
_BLOCK_ROWS = 256
#: Maximum number of features.
_WIDEST = 4096
#: Features are numbers in [-1, 1]; the edges are those of the bins of boosting.
_FEATURE_RANGE = Range(-1.0, 1.0, edges=tuple(np.linspace(-1.0, 1.0, 33).tolist()))
#: Tolerance of the trial: rounding may depend on the number of rows.
_TOLERANCE = 1e-6
#: Maps that a saved model may name without being told to trust them.
_OWN = "memberbound.features:"

#: Takes rows of numbers, and returns as many rows of features in [-1, 1].
FeatureFunction = Callable[[FloatArray], object]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A public function of single rows, with its name and the columns that it takes."""

    name: str
    function: FeatureFunction
    inputs: tuple[str, ...]
    width: int

    @property
    def bounds(self) -> dict[str, Range]:
        """The public range of every feature, by name."""
        return {f"feature {number}": _FEATURE_RANGE for number in range(self.width)}

    @property
    def assumption(self) -> str:
        """The assumption of the certificate."""
        return (
            f"the function {self.name} is public and maps every record by itself (tried on made-up "
            "records, not proved)."
        )

    def apply(self, records: Records) -> Records:
        """Replace the columns that the map takes by its features; the others stay.

        Numbers beyond [-1, 1] count as its ends.  A row on which the function fails has missing
        features: no row decides about others, or about the success of a release.
        """
        if isinstance(records, StoredRecords):
            raise InputError(
                "features takes rows that fit into memory: allow more memory, or leave it out."
            )
        twice = next((n for n in self.bounds if n in records.columns), None)
        if twice is not None:
            raise InputError(f"the table must not have a column named {twice!r}, as features are.")
        rows = records.rows
        found = large_array((self.width, rows), np.dtype(np.float32), records.memory)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for start in range(0, rows, _BLOCK_ROWS):
                cut = slice(start, min(start + _BLOCK_ROWS, rows))
                block = np.zeros((_BLOCK_ROWS, len(self.inputs)))
                for index, name in enumerate(self.inputs):
                    block[: cut.stop - start, index] = records.columns[name].numbers_at(cut)
                found[:, cut] = self._features(block).T[:, : cut.stop - start]
        others = {n: v for n, v in records.columns.items() if n not in self.inputs}
        features: dict[str, Values] = {
            name: NumberValues(values) for name, values in zip(self.bounds, found, strict=True)
        }
        return replace(records, columns={**features, **others}, types={})

    def _features(self, block: FloatArray) -> FloatArray:
        """Return the features of a block; NaN for rows on which the function fails."""
        try:
            return call_map(self.function, block, self.width)
        except Exception:  # it may be any function
            pass
        result = np.full((len(block), self.width), np.nan)
        for row in range(len(block)):
            alone = np.zeros_like(block)
            alone[row] = block[row]
            try:
                result[row] = call_map(self.function, alone, self.width)[row]
            except Exception:
                continue
        return result

    def to_dict(self) -> dict[str, object]:
        """Return what a model stores: the map's name, never its code."""
        return {"name": self.name, "inputs": list(self.inputs)}


def map_features(
    records: Records, public: Bounds, features: FeatureMap | None
) -> tuple[Records, Bounds]:
    """Return the records with their features, if there is a map, and the bounds of both."""
    if features is None:
        return records, public
    return features.apply(records), {**public, **features.bounds}


def call_map(function: FeatureFunction, rows: FloatArray, width: int | None = None) -> FloatArray:
    """Return the features of rows; refuse anything that is no table of numbers."""
    found = np.asarray(function(rows.copy()), dtype=np.float64)
    if found.ndim != 2 or len(found) != len(rows) or found.shape[1] != (width or found.shape[1]):
        raise ValueError(f"it must return a row of features for each of {len(rows)} rows")
    return found


def check_features(features: object, form: LearnerForm, scheduler: object) -> None:
    """Refuse a feature map where none can be used."""
    if features is not None and form.factory is not None:
        raise InputError("features takes linear models and boosting, not a network.")
    if features is not None and scheduler is not None:
        raise InputError("features must be left out with a scheduler: its workers lack the code.")


def map_of_table(
    features: object, columns: Iterable[str], target: str, public: Bounds
) -> FeatureMap | None:
    """Return the map of all columns but the target, which alone may have bounds."""
    if features is None:
        return None
    bounded = [name for name in public if name != target]
    if bounded:
        raise InputError(
            "bounds must be of the target only, with features, which are from -1 to 1; got bounds "
            f"of {bounded[0]!r}."
        )
    return feature_map(features, (name for name in columns if name != target))


def feature_map(
    features: object, columns: Iterable[str], *, named: str | None = None
) -> FeatureMap:
    """Return the map of a name ``package.module:function``, or of a function, after a trial.

    ``named`` is the name in a saved model, which another name must not replace.
    """
    inputs = tuple(columns)
    if isinstance(features, str):
        if ":" not in features:
            raise InputError(f"features must be package.module:function, got {features!r}.")
        if named not in (None, features):
            raise InputError(f"features must be {named!r}, as in training, got {features!r}.")
        name, function = features, attribute_named(features, "features")
    else:
        function = features
        name = named or f"{getattr(features, '__module__', '')}:{_qualified_name(features)}"
    if not callable(function):
        raise InputError(f"features must be a function, got {name!r}.")
    if not inputs:
        raise InputError("features needs a column besides the target, got none.")
    return FeatureMap(name, function, inputs, try_map(function, len(inputs)))


def saved_map(fields: Mapping[str, object], trusted: object) -> FeatureMap:
    """Return the map that a saved model names.

    Code outside this package runs only if the caller gives it, as ``trusted``.
    """
    name, inputs = str(fields["name"]), fields["inputs"]
    assert isinstance(inputs, list)
    if trusted is None and not name.startswith(_OWN):
        raise InputError(
            f"features must be given to load this model: it was trained with {name!r}, and the "
            f"file holds its name, not its code. If you trust that code, add --features {name}."
        )
    return feature_map(name if trusted is None else trusted, map(str, inputs), named=name)


def _qualified_name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _made_up_rows(inputs: int) -> FloatArray:
    """Return public rows: zeros, and numbers of several kinds and sizes."""
    draws = np.random.default_rng(0)
    return np.stack(
        [
            np.zeros(inputs),
            draws.random(inputs),
            draws.integers(0, 256, inputs).astype(np.float64),
            draws.normal(size=inputs),
            1e3 * draws.normal(size=inputs),
            (draws.random(inputs) < 0.1).astype(np.float64),
        ]
    )


def try_map(function: FeatureFunction, inputs: int) -> int:
    """Return the number of features, after a trial on public rows.

    Each row is mapped alone, first, in the middle and last in blocks of rows of other kinds, and
    once more alone: all results must agree.
    """
    rows = _made_up_rows(inputs)
    failed: Exception | None = None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            alone = np.vstack([call_map(function, row[None]) for row in rows])
            blocks = []
            for number, row in enumerate(rows):
                for shift, index in enumerate((0, _BLOCK_ROWS // 2, _BLOCK_ROWS - 1)):
                    others = rows[(number + shift + 1) % len(rows)]
                    block = np.tile(others, (_BLOCK_ROWS, 1))
                    block[::2] = rows[(number + 3 * shift) % len(rows)]
                    block[index] = row
                    blocks.append((number, call_map(function, block, alone.shape[1])[index]))
            again = np.vstack([call_map(function, row[None]) for row in rows])
        except Exception as problem:  # it may be any function
            failed = problem
    if failed is not None:
        raise InputError(
            f"features must map any number of rows of {inputs} numbers to as many rows of "
            f"features: {failed}."
        )
    if not 1 <= alone.shape[1] <= _WIDEST:
        raise InputError(
            f"features must return 1 to {_WIDEST} features for each row, got {alone.shape[1]}."
        )
    mixed = any(not _agree(alone[number], found) for number, found in blocks)
    if mixed or not all(_agree(*pair) for pair in zip(alone, again, strict=True)):
        raise InputError(
            "features must map every row by itself, got a function whose result for a row depends "
            "on the other rows, on the row's position, on earlier calls or on random numbers. "
            "Standardise with public numbers, not with means of the rows."
        )
    return int(alone.shape[1])


def _agree(expected: FloatArray, found: FloatArray) -> bool:
    first, second = np.clip(expected, -1.0, 1.0), np.clip(found, -1.0, 1.0)
    return bool(np.allclose(first, second, rtol=0.0, atol=_TOLERANCE, equal_nan=True))
