"""Released models of all rows of a secret table, and their files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from memberbound.certificate import Certificate
from memberbound.errors import InputError, one_of
from memberbound.learners.learner import Labels
from memberbound.learners.raw_rows import raw_records
from memberbound.learners.trained import available_if
from memberbound.leaves import load_leaf
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.boosting import BoostedModel
from memberbound.release.all_rows.encoder import Encoder, TargetCode
from memberbound.release.all_rows.feature_maps import FeatureMap, saved_map
from memberbound.release.all_rows.gradient import Features, GradientModel
from memberbound.release.all_rows.learner_forms import PRIVATE_LEARNERS, Settings
from memberbound.release.all_rows.losses import Loss
from memberbound.release.budget import Budget
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise
from memberbound.release.release_file import Writer, skops

#: File formats of a model, and the only member of a skops file.
MODEL_ENDINGS = (".skops", ".json", ".onnx")
#: Those of a model with a feature map; ONNX cannot hold its code.
MAPPED_ENDINGS = MODEL_ENDINGS[:2]
_SCHEMA = "schema.json"
_ONE = (
    "It covers this one model, not how its learner, columns and settings were chosen: a choice by "
    "scores on these rows, as study and audit make, publishes a little more. A search over "
    "settings makes a model per candidate and fold: enter each into a ledger, or search on a "
    "synthetic table (memberbound synthesize)."
)
#: The budget share of noisy scores among which settings were chosen, and what they cover.
TRIALS = "the trials' scores"
_TRIED = (
    "It covers this one model and the choice among the settings that were tried, not how its "
    "learner, its columns and these settings were chosen before."
)


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A released model with its encoder, target and budget."""

    encoder: Encoder
    target: TargetCode
    model: GradientModel | BoostedModel
    budget: Budget
    rows: int
    secure: bool
    eta: float
    learner: str
    settings: Settings = field(default_factory=Settings)
    #: The public map of raw columns to the encoder's columns, if there is one.
    features: FeatureMap | None = None

    @property
    def loss(self) -> Loss:
        """The loss that was minimised."""
        return Loss(self.model.loss, len(self.target.classes))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model uses; a table may have them in any order."""
        if self.features is not None:
            return self.features.inputs
        return tuple(code.name for code in self.encoder.used)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in the order of the probabilities; empty for a numeric target."""
        return self.target.classes

    @property
    def classes_(self) -> Labels:
        """The names of the classes as an array, in the order of the probabilities."""
        if not self.target.classes:
            raise AttributeError("a regression has no classes.")
        return np.array(self.target.classes, dtype=object)

    def __repr__(self) -> str:
        what = f"{len(self.target.classes)} classes" if self.target.classes else "a number"
        return (
            f"{type(self).__name__}({self.learner!r}, target={self.target.name!r} ({what}), "
            f"columns={len(self.columns)}, rows={self.rows}, eta={self.eta!r})"
        )

    @property
    def certificate_(self) -> Certificate:
        """The certificate of η for every record."""
        certificate = self.budget.certificate(secure=self.secure)
        mapped = () if self.features is None else (self.features.assumption,)
        about = _TRIED if any(share.name == TRIALS for share in self.budget.shares) else _ONE
        return replace(certificate, assumptions=(*certificate.assumptions, about, *mapped))

    @property
    def calibration_(self) -> Calibration:
        """The noise of every step, and the joint certificate."""
        noise = GaussianNoise(self.model.scale, self.model.released_size)
        return Calibration(noise, self.certificate_, self.eta, self.model.method, 1, self._details)

    @property
    def _details(self) -> dict[str, object]:
        return {
            "learner": self.learner,
            "mu": self.budget.normal_mu,
            "rows_trained": self.rows,
            "curve": self.budget.readings(),
        }

    def encode(
        self,
        table: object,
        database_table: str | None = None,
        *,
        encoding: str | None = None,
        strict: bool | None = None,
    ) -> tuple[Features, tuple[str, ...]]:
        """Encode raw rows; return their features and notices.

        Unknown values raise an error if ``strict`` is True, are noted if False and ignored if None.
        """
        records, notices = raw_records(
            table,
            self.columns,
            {} if self.features is not None else self.encoder.forms,
            ignore=self.target.name,
            database_table=database_table,
            encoding=encoding,
            strict=bool(strict),
        )
        if self.features is not None:
            records = self.features.apply(records)
        elif strict is not None:
            notes = [n for c in self.encoder.columns for n in c.unseen(records.columns)]
            if strict and notes:
                raise InputError(f"{notes[0]}. Without strict such values count as missing.")
            notices = (*notices, *notes)
        return self.model.encode(self.encoder, records.columns), notices

    def predict_encoded(self, rows: Features) -> Labels:
        """Predict class names, or numbers in the target's units, from encoded rows."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return self.target.numbers(scores[:, 0])
        names = np.array(self.target.classes, dtype=object)
        return np.asarray(names[self.loss.predict_classes(scores)])

    def ranking(self, rows: Features) -> FloatArray:
        """Return class scores of encoded rows, larger for likelier classes; empty for numbers."""
        scores = self.model.scores(rows)
        if not self.target.classes:
            return np.zeros((len(scores), 0))
        return np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores

    def probabilities(self, rows: Features) -> FloatArray | None:
        """Return class probabilities of encoded rows, or None if the loss has none."""
        loss = self.loss
        return loss.probabilities(self.model.scores(rows)) if loss.probable else None

    def predict(self, table: object) -> Labels:
        """Predict class names, or numbers in the target's units, from raw rows."""
        return self.predict_encoded(self.encode(table)[0])

    @available_if(lambda self: self.loss.probable)
    def predict_proba(self, table: object) -> FloatArray:
        """Return class probabilities of raw rows, for logistic regression and boosting."""
        return self.loss.probabilities(self.model.scores(self.encode(table)[0]))

    @available_if(lambda self: bool(self.target.classes))
    def decision_function(self, table: object) -> FloatArray:
        """Return class scores of raw rows; for two classes, those of the second."""
        scores = self.model.scores(self.encode(table)[0])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return MODEL_ENDINGS if self.features is None else MAPPED_ENDINGS

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate."""
        return self.calibration_.certificate_fields(
            self.model.kind,
            secure_source=self.secure,
            unit=self.budget.unit,
            **self.budget.evidence(self.rows, self.certificate_),
        )

    def file_writer(self, path: Path) -> Writer:
        """Return a function that writes the model as JSON, skops (a single text) or ONNX.

        Guarantee: every run writes the same bytes.
        """
        ending = path.suffix.lower()
        if ending == ".onnx":
            packed: bytes = load_leaf("onnx").onnx_bytes(self)
            return lambda draft: draft.write_bytes(packed)
        text = self.to_json()
        if ending == ".json":
            return lambda draft: draft.write_text(text + "\n", encoding="utf-8")
        return _skops_writer(text)

    def to_json(self) -> str:
        """Return :meth:`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_dict(self) -> dict[str, object]:
        """Return all fields of the model, JSON-ready: public or noisy numbers only."""
        return {
            "learner": self.learner,
            "eta": self.eta,
            "encoder": self.encoder.to_dict(),
            "target": asdict(self.target),
            "rows": self.rows,
            "secure_source": self.secure,
            "settings": asdict(self.settings),
            **({} if self.features is None else {"features": self.features.to_dict()}),
            **self.budget.to_dict(),
            **self.model.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], features: object = None) -> PrivateModel:
        """Restore the model from :meth:`to_dict`; reject any other description.

        ``features`` is the function of single rows with which it was trained, if there is one.
        """

        def restore(encoder: Encoder, _target: TargetCode) -> tuple[Any, Budget]:
            learner = one_of("learner", fields["learner"], PRIVATE_LEARNERS)
            kind = BoostedModel if learner == "boosting" else GradientModel
            return kind.from_dict(fields, encoder), Budget.from_dict(fields)

        restored = cls._restore(fields, restore)
        if features is None and "features" not in fields:
            return restored
        if "features" not in fields:
            raise InputError("features must be left out: the model was trained without.")
        return replace(restored, features=saved_map(fields["features"], features))

    @classmethod
    def _restore(
        cls, fields: Mapping[str, Any], restore: Callable[[Encoder, TargetCode], tuple[Any, Any]]
    ) -> Self:
        try:
            encoder = Encoder.from_dict(fields["encoder"])
            target = TargetCode.from_dict(fields["target"])
            return cls(
                encoder,
                target,
                *restore(encoder, target),
                int(fields["rows"]),
                bool(fields["secure_source"]),
                float(fields["eta"]),
                str(fields["learner"]),
                Settings(**fields["settings"]),
            )
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as problem:
            what = f"no {problem}" if isinstance(problem, KeyError) else problem
            raise InputError(
                "the file must describe a model that this version of protect released, made by the "
                f"same factory if it is a network, got another ({what})."
            ) from None


def _skops_writer(text: str) -> Writer:
    packed = zipfile.ZipFile(io.BytesIO(skops().dumps(text)))
    # skops stores a memory address, which would differ from run to run.
    schema = json.loads(packed.read(_SCHEMA)) | {"__id__": 0}

    def write(draft: Path) -> None:
        with zipfile.ZipFile(draft, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_SCHEMA), json.dumps(schema, indent=2))

    return write


def load_private_model(
    path: Path, _factory: object = None, features: object = None
) -> PrivateModel:
    """Read a saved model from JSON, skops or ONNX; ``features`` as for :meth:`from_dict`."""
    if path.suffix.lower() == ".onnx":
        text = load_leaf("onnx").read_model_text(path.read_bytes())
    elif zipfile.is_zipfile(path):
        # Read the single text directly: skops would import scikit-learn for it.
        with zipfile.ZipFile(path) as archive:
            text = json.loads(json.loads(archive.read(_SCHEMA))["content"])
    else:
        text = path.read_text(encoding="utf-8")
    return PrivateModel.from_dict(model_fields(text, path), features)


def model_fields(text: str, path: Path) -> dict[str, Any]:
    """Parse the description of a saved model."""
    try:
        fields = json.loads(text)
    except (TypeError, ValueError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"path must hold a released model, got {path.name!r}.")
    return fields
