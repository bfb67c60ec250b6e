"""The handwritten digits of MNIST, from files that the user has; nothing is downloaded.

Two forms are read: ``mnist.npz`` with ``x_train``, ``y_train``, ``x_test`` and ``y_test``, and the
four IDX files of the original site, gzipped or not, in the folder itself or in ``MNIST/raw``.
"""

from __future__ import annotations

import gzip
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.reproduction.experiment import MissingDataError

__all__ = ["FOLDER_VARIABLE", "Digits", "data_folder"]

#: Environment variable that names the folder with data sets.
FOLDER_VARIABLE = "MEMBERBOUND_DATA"
PACKED = "mnist.npz"
#: Name in the packed file → name of the original file.
ORIGINAL = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
CLASSES = 10
_HELP = "Where to get it: the how-to page 'Reproduce the papers' figures'."

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder that is named, or else the one of the environment, or else nothing."""
    named = data if data is not None else os.environ.get(FOLDER_VARIABLE) or None
    if named is None:
        return None
    folder = Path(named)
    if not folder.is_dir():
        name = "data" if data is not None else FOLDER_VARIABLE
        raise InputError(f"{name} must be a folder, got {str(named)!r}.")
    return folder


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as rows of numbers in [0, 1] with their labels 0 … 9, as the data set splits them."""

    train: Images
    train_labels: Labels
    test: Images
    test_labels: Labels

    @classmethod
    def read(cls, folder: Path | None) -> Digits:
        """Read the data set; refuse a folder without it and files that are something else."""
        if folder is None:
            raise MissingDataError(
                f"{FOLDER_VARIABLE} must name a folder with {PACKED}, got nothing. {_HELP}"
            )
        packed = folder / PACKED
        arrays = _unpacked(packed) if packed.is_file() else _original(folder)
        train, test = (_images(name, arrays[name]) for name in ("x_train", "x_test"))
        if train.shape[1] != test.shape[1]:
            raise InputError("images of MNIST must have one size, got two.")
        return cls(
            train,
            _labels("y_train", arrays["y_train"], len(train)),
            test,
            _labels("y_test", arrays["y_test"], len(test)),
        )


def _unpacked(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in ORIGINAL}
    except KeyError as missing:
        raise InputError(
            f"{path} must hold the arrays {', '.join(ORIGINAL)}, got {missing.args[0]}"
        ) from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{path} must be a file that numpy can load.") from None


def _original(folder: Path) -> dict[str, Any]:
    found = {}
    for name, file in ORIGINAL.items():
        places = [
            below / (file + end)
            for below in (folder, folder / "MNIST" / "raw")
            for end in ("", ".gz")
        ]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise MissingDataError(
                f"the data folder must hold {PACKED} (or {', '.join(ORIGINAL.values())}), "
                f"got {str(folder)!r} without {file}. {_HELP}"
            )
        found[name] = _idx(path)
    return found


def _idx(path: Path) -> Any:
    """Read an IDX file: two zero bytes, the type (8: bytes), the rank, the sizes, the values."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        content = b""
    if content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise InputError(f"{path} must be an IDX file of bytes.")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], ">u4").astype(int)
    values = np.frombuffer(content, np.uint8, offset=start)
    if values.size != int(np.prod(shape)):
        raise InputError(f"{path} must hold {int(np.prod(shape))} values, got {values.size}.")
    return values.reshape(shape)


def _images(name: str, given: Any) -> Images:
    images = np.asarray(given)
    if images.dtype != np.uint8 or images.ndim != 3 or len(images) == 0:
        raise InputError(
            f"{name} must be images of whole numbers from 0 to 255 (uint8, 3 axes), "
            f"got {images.dtype} of shape {images.shape}."
        )
    return (images.reshape(len(images), -1) / np.float32(255)).astype(np.float32)


def _labels(name: str, given: Any, count: int) -> Labels:
    labels = np.asarray(given)
    whole = np.issubdtype(labels.dtype, np.integer) and labels.shape == (count,)
    if not whole or labels.min() < 0 or labels.max() >= CLASSES:
        raise InputError(f"{name} must be one label from 0 to 9 for each of {count} images.")
    return labels.astype(np.int64)
