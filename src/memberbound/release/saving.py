"""Released models and vectors: raw rows in, predictions out; on disk without pickle."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from memberbound._version import __version__
from memberbound.answers import plain
from memberbound.errors import InputError, MemberboundError, installed
from memberbound.files import (
    FORMATS,
    check_output,
    read_document,
    table_writer,
    write_text,
    written_whole,
)
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.all_rows.networks import PrivateNetwork
from memberbound.release.all_rows.synthetic import SyntheticRows
from memberbound.release.noise import Calibration, Release
from memberbound.release.onnx_file import onnx_bytes, stored_text

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from memberbound.release.half.half_estimator import TableModel

# ── Released models and vectors on disk, each with its certificate beside it; no pickle ───────────
#
# ``model.skops`` (an estimator), ``model.json`` (a model of all rows: plain numbers),
# ``release.json`` (a vector) or ``network.safetensors`` (a network's tensors) comes with
# ``<file>.certificate.json``, which holds the SHA-256 of the file.  The hash says that the two
# belong together; it is no signature, and whoever can write both can forge both.
#
# Two files cannot be replaced at once.  While they are, the certificate holds the old one as well:
# whichever of the two files a run that is killed leaves, its certificate is there.

_VECTOR = "values"
#: Where a certificate holds the one before it.
_REPLACES = "replaces"
#: Files that a model of all rows can go to.
LINEAR_ENDINGS = (".skops", ".json", ".onnx")
#: … a vector of numbers …
VECTOR_ENDINGS = (".json", ".safetensors")
#: … and a network: its numbers, never its code.
NETWORK_ENDINGS = (".safetensors",)
#: What a certificate calls a model of all rows, and where skops keeps a text.
_ALL_ROWS, _SCHEMA = ("linear model", "boosted model"), "schema.json"
#: … and a network of all rows, with the key of its description in the header.
_NETWORK, _ABOUT = "network of all rows", "memberbound"
#: A type of numpy's that encoders of columns hold, besides those of ours.
_TRUSTED_ELSEWHERE = ("numpy.dtype",)


@dataclass(frozen=True, eq=False)
class SavedRelease:
    """A loaded vector with what its certificate file says."""

    values: FloatArray
    certificate: dict[str, object]


#: Writes a release into a file.
Fill = Callable[[Path], object]


def certificate_path(path: str | Path) -> Path:
    """Return where the certificate of a file lies."""
    return Path(f"{path}.certificate.json")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save(
    released: TableModel | PrivateModel | Release | SyntheticRows | object,
    path: str | Path,
    *,
    force: bool = False,
) -> Path:
    """Write a release and its certificate; return the path of the certificate.

    A model goes to ``*.skops`` (extra ``skops``), one of all rows also to ``*.json`` or, for other
    runtimes, to ``*.onnx`` (extra ``onnx``); numbers (a :class:`Release`) to ``*.json`` or
    ``*.safetensors``, a network to ``*.safetensors``.
    Each file is written whole or not at all.
    The certificate gets its name first: wherever this is stopped, no release is without its own,
    neither the new one nor one that it replaces.
    """
    inner = getattr(released, "released_", None)
    released = inner if isinstance(inner, PrivateModel) else released
    target = check_output(path, formats=_endings(released), force=force)
    beside = certificate_path(target)
    if beside.exists() and not force:
        raise InputError(f"out must not exist yet, got {str(beside)!r}. Overwrite it with --force.")
    about, fill = _content(released, target)
    existed = beside.exists()
    old = None
    with contextlib.suppress(InputError):
        old = verified(target)

    def write(draft: Path) -> None:
        fill(draft)
        text = {"file": target.name, "sha256": _digest(draft)} | about
        write_text(_page(text | ({} if old is None else {_REPLACES: old})), beside, force=force)

    try:
        written_whole(target, write, force)
    finally:
        if old is not None:
            # The entry of the old file is harmless, so removing it may fail.
            with contextlib.suppress(MemberboundError, OSError):
                write_text(_page(verified(target)), beside, force=True)
        elif not (existed or target.exists()):
            beside.unlink(missing_ok=True)
    return beside


def _page(certificate: dict[str, object]) -> str:
    return json.dumps(plain(certificate), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _endings(released: object) -> tuple[str, ...]:
    """Return the endings of the files that a release can go to."""
    if isinstance(released, PrivateModel):
        return NETWORK_ENDINGS if isinstance(released, PrivateNetwork) else LINEAR_ENDINGS
    if isinstance(released, SyntheticRows):
        return FORMATS
    return VECTOR_ENDINGS if isinstance(released, Release) else (".skops",)


def _content(released: object, target: Path) -> tuple[dict[str, object], Fill]:
    """Return what the certificate of a release says, and what writes its file."""
    more: dict[str, object]
    if isinstance(released, PrivateModel):
        more = _drawn(released)
        if isinstance(released, PrivateNetwork):
            packed = _tensors(released.tensors(), {_ABOUT: _text(released)})
            return _described(_NETWORK, released.calibration_, more), packed
        kind = _ALL_ROWS[released.learner == "boosting"]
        return _described(kind, released.calibration_, more), _numbers(released, target.suffix)
    if isinstance(released, Release):
        more = {"names": list(released.names)} | _drawn(released)
        return _described("vector", released.calibration, more), _vector(released, target.suffix)
    if isinstance(released, SyntheticRows):
        model = released.model
        more = {
            "secure_source": model.budget.source.secure,
            "rows": len(released.frame),
            "unit": model.budget.unit,
            "left_out": model.left_out,
        }
        about = _described("synthetic table", model.calibration_, more)
        return about, table_writer(released.frame, target)
    if _is_table_model(released):
        return _estimator(released)
    raise InputError(
        "released must be what protect, protect-half, summarize or synthesize released, or a "
        f"fitted MembershipPrivate, got {type(released).__name__}."
    )


def _described(kind: str, calibration: Calibration, more: dict[str, object]) -> dict[str, object]:
    game = calibration.certificate.game
    sizes = (
        {"population": game.population, "size": game.size} if isinstance(game, SubsetGame) else {}
    )
    return {"kind": kind, "version": __version__} | sizes | calibration.to_dict() | more


def _drawn(released: PrivateModel | Release) -> dict[str, object]:
    """Return where the noise came from, and whose rows count as one record."""
    unit = None if released.budget is None else released.budget.unit
    return {"secure_source": released.secure, "unit": unit}


def _text(model: PrivateModel) -> str:
    return json.dumps(model.to_dict(), ensure_ascii=False, allow_nan=False)


def _skops() -> ModuleType:
    return installed("skops.io", "for this file", "skops")


def _safetensors(name: str = "safetensors.numpy") -> ModuleType:
    return installed(name, "for this file", "skops")


def _is_table_model(released: object) -> TypeIs[TableModel]:
    """Tell whether it is a model of a half; scikit-learn is imported only to find out."""
    if isinstance(released, (PrivateModel, Release, SyntheticRows)):
        return False
    from memberbound.release.half.half_estimator import TableModel

    return isinstance(released, TableModel)


def _estimator(released: TableModel) -> tuple[dict[str, object], Fill]:
    """Return what the certificate says about a model of a half, and what writes it."""
    from sklearn.base import clone

    model = released.model
    writer = _skops()
    # Without the seed, and with a table of answers in the place of its learner: no code of others.
    slim = clone(model).set_params(insecure_seed=None, query=None)
    slim.__dict__ |= {k: v for k, v in model.__dict__.items() if k.endswith("_")}
    if model.release == "predictions":
        slim.estimator = model.released_
    whole = type(released)(**(released.get_params(deep=False) | {"model": slim}))
    more = {
        "estimator": type(model.estimator).__name__,
        "release": model.release,
        "secure_source": model.secure_,
        "scores": {score.name: score for score in model.scores_},
    }
    about = _described("estimator", model.calibration_, more)
    return about, lambda draft: writer.dump(whole, draft)


def _numbers(released: PrivateModel, ending: str) -> Fill:
    """Return what writes a model of all rows as JSON, in a skops file as one text, or as ONNX.

    Always the same bytes.
    """
    if ending.lower() == ".onnx":
        exported = onnx_bytes(released)
        return lambda draft: draft.write_bytes(exported)
    text = _text(released)
    if ending.lower() == ".json":
        return lambda draft: draft.write_text(text + "\n", encoding="utf-8")
    packed = zipfile.ZipFile(io.BytesIO(_skops().dumps(text)))
    # skops stores a memory address, which would differ from run to run.
    schema = json.loads(packed.read(_SCHEMA)) | {"__id__": 0}

    def write(draft: Path) -> None:
        with zipfile.ZipFile(draft, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_SCHEMA), json.dumps(schema, indent=2))

    return write


def _loaded_numbers(target: Path) -> PrivateModel:
    if target.suffix.lower() == ".onnx":
        text = stored_text(target.read_bytes())
    elif zipfile.is_zipfile(target):
        # One text, read as skops stores it: skops itself would import scikit-learn for it.
        with zipfile.ZipFile(target) as archive:
            text = json.loads(json.loads(archive.read(_SCHEMA))["content"])
    else:
        text = target.read_text(encoding="utf-8")
    try:
        fields = json.loads(text)
    except (TypeError, ValueError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"path must hold a released model, got {target.name!r}.")
    return PrivateModel.from_dict(fields)


def _vector(released: Release, ending: str) -> Fill:
    values = np.ascontiguousarray(released.values, dtype=np.float64)
    if ending.lower() == ".json":
        text = _page({"names": list(released.names), _VECTOR: values.tolist()})
        return lambda draft: draft.write_text(text, encoding="utf-8")
    return _tensors({_VECTOR: values})


def _loaded_vector(target: Path) -> FloatArray:
    if target.suffix.lower() == ".json":
        return np.array(json.loads(target.read_text(encoding="utf-8"))[_VECTOR], dtype=np.float64)
    return np.asarray(_safetensors().load(target.read_bytes())[_VECTOR])


def _tensors(tensors: Mapping[str, object], about: dict[str, str] | None = None) -> Fill:
    packed = _safetensors().save(tensors, metadata=about)
    return lambda draft: draft.write_bytes(packed)


def _loaded_network(target: Path, factory: Callable[..., object] | None) -> PrivateNetwork:
    if factory is None:
        raise InputError(
            "learner (in Python: factory) must be given to load a network, got none: the file "
            "holds its numbers, not its code. Give the one it was trained with."
        )
    tensors = _safetensors().load(target.read_bytes())
    with _safetensors("safetensors").safe_open(str(target), framework="numpy") as file:
        text = (file.metadata() or {}).get(_ABOUT, "null")
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise InputError(f"path must hold a released model, got {target.name!r}.")
    return PrivateNetwork.from_tensors(fields, tensors, factory)


def verified(path: str | Path) -> dict[str, object]:
    """Return the certificate of a file after checking that it belongs to it.

    Edge cases: a missing, unreadable or foreign certificate is refused.
    """
    target, beside = Path(path), certificate_path(path)
    if not target.is_file():
        raise InputError(f"path must be a saved release, got {str(path)!r}, which is not a file.")
    if not beside.is_file():
        raise InputError(
            f"path must come with its certificate {beside.name!r}, which is missing. "
            "Without it nothing is known about the release."
        )
    stated = read_document(beside, "certificate", "JSON")
    if not isinstance(stated, dict) or stated.get("sha256") is None:
        raise InputError(f"{beside.name} must be a certificate of memberbound, got another text.")
    digest, old = _digest(target), stated.pop(_REPLACES, None)
    for certificate in (stated, old):
        if isinstance(certificate, dict) and certificate.get("sha256") == digest:
            return dict(certificate)
    raise InputError(
        f"{target.name} must be the file that its certificate was written for: the SHA-256 "
        "differs. One of the two was changed or exchanged."
    )


def answering(model: object) -> PrivateModel | TableModel | None:
    """Return a released model as one that takes raw rows; None where it is a statistic."""
    inner = getattr(model, "released_", None)
    model = inner if isinstance(inner, PrivateModel) else model
    return model if isinstance(model, PrivateModel) or _is_table_model(model) else None


def load(
    path: str | Path, *, factory: Callable[..., object] | None = None
) -> TableModel | PrivateModel | SavedRelease:
    """Verify and read a release: the model, or the vector.

    A model takes raw rows: ``load("model.skops").predict(table)``.  ``factory`` makes the module of
    a network, as it did for ``protect``.
    """
    certificate = verified(path)
    target = Path(path)
    kind = certificate.get("kind")
    try:
        if kind == _NETWORK:
            return _loaded_network(target, factory)
        if kind in _ALL_ROWS:
            return _loaded_numbers(target)
        if kind == "estimator":
            return _loaded_estimator(target)
        return SavedRelease(_loaded_vector(target), certificate)
    except (MemberboundError, MemoryError):
        raise
    except Exception as error:  # a parser of a file that somebody changed may raise anything
        raise InputError(
            f"path must hold a released model, got {target.name!r}, whose content is damaged "
            f"({type(error).__name__})."
        ) from error


def _loaded_estimator(target: Path) -> TableModel:
    from memberbound.release.half.half_estimator import TRUSTED

    reader, packed = _skops(), target.read_bytes()
    allowed = {*TRUSTED, *_TRUSTED_ELSEWHERE}
    foreign = sorted(set(reader.get_untrusted_types(data=packed)) - allowed)
    if foreign:
        raise InputError(f"path must hold known types only, got {', '.join(foreign)}.")
    model = reader.loads(packed, trusted=sorted(allowed))
    if not _is_table_model(model):
        raise InputError(f"path must hold a released model, got {type(model).__name__}.")
    return model
