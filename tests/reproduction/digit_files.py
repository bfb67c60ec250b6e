"""Small images that look like nothing, in the files that MNIST comes in; imported, not run."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

TRAIN, TEST, SIDE = 420, 200, 6


def drawn(seed: int = 0) -> dict[str, np.ndarray]:
    """Ten patterns with noise; every image is distinct."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 200, (10, SIDE, SIDE))
    found = {}
    for part, count in (("train", TRAIN), ("test", TEST)):
        labels = rng.permutation(np.arange(count) % 10)
        noise = rng.integers(0, 56, (count, SIDE, SIDE))
        found[f"x_{part}"] = (patterns[labels] + noise).astype(np.uint8)
        found[f"y_{part}"] = labels.astype(np.uint8)
    return found


def write_packed(folder: Path, **changed: object) -> Path:
    """Write mnist.npz, with some arrays changed or (None) left out."""
    arrays = {k: v for k, v in (drawn() | changed).items() if v is not None}
    path = folder / "mnist.npz"
    np.savez(path, **arrays)
    return path


def write_original(folder: Path, *, packed: bool) -> list[Path]:
    """Write the four IDX files, gzipped or plain."""
    names = {
        "x_train": "train-images-idx3-ubyte",
        "y_train": "train-labels-idx1-ubyte",
        "x_test": "t10k-images-idx3-ubyte",
        "y_test": "t10k-labels-idx1-ubyte",
    }
    paths = []
    for key, array in drawn().items():
        head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        content = head + array.astype(np.uint8).tobytes()
        path = folder / (names[key] + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(content) if packed else content)
        paths.append(path)
    return paths
