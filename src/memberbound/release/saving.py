"""Save a release with its certificate, and load it again.

``model.skops`` (an estimator), ``model.json`` (a model of all rows: plain numbers),
``release.json`` (a vector) or ``network.safetensors`` (a network's tensors) comes with
``<file>.certificate.json``, which holds the SHA-256 of the file.  The hash ties the two together;
it is not a signature, because anyone who can write both files can forge both.

Two files cannot be replaced atomically.  During the replacement the certificate also holds the old
one, so that a killed run leaves a valid certificate for whichever release is on disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.answers import plain
from memberbound.errors import InputError, MemberboundError
from memberbound.files import check_output, file_digest, read_document, write_atomically, write_text
from memberbound.learners.adapters import WEIGHTS_FILE, is_adapter
from memberbound.release.calibration import SavedRelease, load_vector
from memberbound.release.derivation import PREDICATE_TYPE, REPLACES, SEAL, seal
from memberbound.release.release_file import StorableRelease, json_page

if TYPE_CHECKING:
    from memberbound.release.all_rows.models import PrivateModel
    from memberbound.release.half.half_estimator import TableModel

#: Function that loads a model, by the kind that its certificate states; imported on demand.
_LOADERS = {
    "linear model": "memberbound.release.all_rows.models:load_private_model",
    "boosted model": "memberbound.release.all_rows.models:load_private_model",
    "network of all rows": "memberbound.release.all_rows.networks:load_network",
    "text classifier of all documents": (
        "memberbound.release.all_rows.text_classes:load_released_classifier"
    ),
    "estimator": "memberbound.release.half.half_estimator:load_estimator",
}


def certificate_path(path: str | Path) -> Path:
    """Return the path of a file's certificate."""
    return Path(f"{path}.certificate.json")


def save(released: object, path: str | Path, *, force: bool = False) -> Path:
    """Write a release and its certificate; return the path of the certificate.

    Models are saved as ``*.skops`` (extra ``skops``); models of all rows also as ``*.json`` or, for
    other runtimes, ``*.onnx`` (extra ``onnx``); numbers (a
    :class:`~memberbound.release.calibration.Release`) as ``*.json``, ``*.safetensors``, ``*.csv``
    or ``*.xlsx``, networks as ``*.safetensors``, synthetic tables as table files.
    Each file is written atomically.  The certificate is written first, so that an interruption
    never leaves a release without its certificate, whether new or old.
    """
    release = _storable(released)
    if release is None:
        raise InputError(
            "released must be a release of protect, protect-half, summarize or synthesize, or a "
            f"fitted MembershipPrivate, got {type(released).__name__}."
        )
    target = check_output(path, formats=release.file_endings, force=force)
    beside = certificate_path(target)
    if beside.exists() and not force:
        raise InputError(f"out must not exist yet, got {str(beside)!r}. Overwrite it with --force.")
    fields, fill = release.certificate_fields(), release.file_writer(target)
    existed = beside.exists()
    old = None
    with contextlib.suppress(InputError):
        old = check_certificate(target)

    def write(draft: Path) -> None:
        fill(draft)
        text = plain({"file": target.name, "sha256": file_digest(draft)} | fields)
        text[SEAL] = seal(text)
        write_text(json_page(text | ({} if old is None else {REPLACES: old})), beside, force=force)

    try:
        write_atomically(target, write, force)
    finally:
        if old is not None:
            # A leftover entry of the old file is harmless, so ignore failures to remove it.
            with contextlib.suppress(MemberboundError, OSError):
                write_text(json_page(check_certificate(target)), beside, force=True)
        elif not (existed or target.exists()):
            beside.unlink(missing_ok=True)
    return beside


def _storable(released: object) -> StorableRelease | None:
    """Return the release, unwrapped from a fitted estimator; None if there is none."""
    for candidate in (getattr(released, "released_", None), released):
        if isinstance(candidate, StorableRelease):
            return candidate
    return None


def check_certificate(path: str | Path, certificate: str | Path | None = None) -> dict[str, object]:
    """Check that a file's certificate belongs to it, and return the certificate.

    Edge cases: a missing, unreadable or foreign certificate is rejected.
    """
    target = Path(path)
    if not target.is_file():
        raise InputError(f"path must be a saved release, got {str(path)!r}, which is not a file.")
    digest, stated = file_digest(target), read_certificate(target, certificate)
    if stated.get("sha256") == digest:
        return stated
    raise InputError(
        f"{target.name} must be the file that its certificate was written for: the SHA-256 "
        "differs. One of the two was changed or exchanged."
    )


def read_certificate(
    release: str | Path, certificate: str | Path | None = None
) -> dict[str, object]:
    """Read the certificate that belongs to a file; during a replacement there are two."""
    target = Path(release)
    beside = certificate_path(target) if certificate is None else Path(certificate)
    if not beside.is_file():
        raise InputError(
            f"{target.name} must come with its certificate {beside.name!r}, which is missing. "
            "Without it there is no guarantee: give a file that a verb of memberbound released."
        )
    stated = read_document(beside, "certificate", "JSON")
    if isinstance(stated, dict) and stated.get("predicateType") == PREDICATE_TYPE:
        stated = _predicate(stated, beside.name)
    if not isinstance(stated, dict) or stated.get("sha256") is None:
        raise InputError(f"{beside.name} must be a certificate of memberbound, got another text.")
    old = stated.pop(REPLACES, None)
    if isinstance(old, dict) and old.get("sha256") == file_digest(target):
        return old
    return stated


def _predicate(statement: dict[str, object], name: str) -> object:
    """Return the certificate in an in-toto statement, which must be about the certified file."""
    certificate, subject = statement.get("predicate"), statement.get("subject")
    listed = subject if isinstance(subject, list) else []
    digests = [each.get("digest") for each in listed if isinstance(each, dict)]
    sha256 = certificate.get("sha256") if isinstance(certificate, dict) else None
    if not digests or digests != [{"sha256": sha256}]:
        raise InputError(f"{name} must have the certified file as its subject, got another one.")
    further = sorted(set(statement) - {"_type", "subject", "predicateType", "predicate"})
    if further:
        raise InputError(f"{name} must be an in-toto statement, got another key {further[0]!r}.")
    return certificate


def answering(model: object) -> PrivateModel | TableModel | None:
    """Return the released model that predicts raw rows, or None for other releases."""
    release: Any = model if hasattr(model, "predict_encoded") else _storable(model)
    return release if hasattr(release, "predict") else None


def load(
    path: str | Path,
    *,
    factory: Callable[..., object] | None = None,
    features: str | Callable[..., object] | None = None,
    lm: str | os.PathLike[str] | None = None,
) -> TableModel | PrivateModel | SavedRelease:
    """Verify and read a release: the model, or the vector.

    A model takes raw rows: ``load("model.skops").predict(table)``.  ``factory`` creates the module
    of a network, as for ``protect``; so does ``features``, the function of single rows of a model
    that was trained with one: its code runs, so give it only if you trust it.  ``lm`` is the folder
    of a text classifier's base model, whose ``path`` is the folder that ``protect-text`` wrote.
    """
    target = Path(path)
    if is_adapter(target):
        target /= WEIGHTS_FILE
    certificate = check_certificate(target)
    loader = _LOADERS.get(str(certificate.get("kind")))
    try:
        if loader is None:
            return SavedRelease(load_vector(target), certificate)
        module, name = loader.split(":")
        base = factory if lm is None else lm
        loaded: TableModel | PrivateModel = getattr(import_module(module), name)(
            target, base, features
        )
        return loaded
    except (MemberboundError, MemoryError):
        raise
    except Exception as error:  # parsing a corrupted file may raise anything
        raise InputError(
            f"path must hold a released model, got {target.name!r}, whose content is damaged "
            f"({type(error).__name__})."
        ) from error
