"""Public feature maps for ``protect --features``, which map each row on its own."""

from __future__ import annotations

import math

import numpy as np

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

#: Number of cells along each side of an image, and of directions.
_CELLS, _DIRECTIONS = 7, 8
#: Share of the image's mean energy that is added to the energy around a cell.
_FLOOR = 0.1
#: Maximum share of a cell in the norm of its surroundings; results are divided by it.
_LARGEST = 0.35


def orientation_histograms(rows: FloatArray) -> FloatArray:
    """Return histograms of gradient directions, in 7 × 7 cells of square grey images.

    ``rows`` hold one image each, row by row; the scale of the grey levels does not matter.  The
    histogram of a cell has eight directions, each from 0 to 1, and is relative to the gradients in
    the cells around it (Dalal and Triggs 2005).

    Examples:
        >>> image = np.zeros((28, 28))
        >>> image[:, 14:] = 255  # dark on the left, bright on the right
        >>> found = orientation_histograms(image.reshape(1, -1)).reshape(7, 7, 8)
        >>> int(found[3, 3].argmax()), float(found[3, 0].max())
        (0, 0.0)
    """
    side = math.isqrt(rows.shape[1])
    if side * side != rows.shape[1] or side < _CELLS:
        raise InputError(
            f"orientation_histograms takes square images of at least {_CELLS} × {_CELLS} grey "
            f"levels, got {rows.shape[1]} numbers a row."
        )
    images = np.nan_to_num(rows).reshape(-1, side, side)
    down, right = np.gradient(images, axis=1), np.gradient(images, axis=2)
    size = np.hypot(down, right)
    turn = np.arctan2(down, right) * (_DIRECTIONS / (2 * math.pi)) % _DIRECTIONS
    # A gradient counts for the two nearest directions, and for the nearest cells.
    centres = (np.arange(_CELLS) + 0.5) * side / _CELLS - 0.5
    pool = np.maximum(0.0, 1.0 - np.abs(np.arange(side) - centres[:, None]) * _CELLS / side)
    cells = np.empty((len(images), _CELLS, _CELLS, _DIRECTIONS))
    for direction in range(_DIRECTIONS):
        off = np.abs(turn - direction)
        share = size * np.maximum(0.0, 1.0 - np.minimum(off, _DIRECTIONS - off))
        cells[..., direction] = pool @ share @ pool.T
    energy = np.square(cells).sum(axis=3)
    padded = np.pad(energy, ((0, 0), (1, 1), (1, 1)))
    around = np.zeros_like(energy)
    for i in range(3):
        for j in range(3):
            around += padded[:, i : i + _CELLS, j : j + _CELLS]
    around += _FLOOR * around.mean(axis=(1, 2), keepdims=True)
    lengths = np.sqrt(np.where(around > 0, around, 1.0))
    parts = np.minimum(cells / lengths[..., None] / _LARGEST, 1.0)
    return np.asarray(parts.reshape(len(images), -1))


def unit_vectors(rows: FloatArray) -> FloatArray:
    """Return rows of embeddings, each divided by its length, with entries of about ½ in size.

    Features beyond 1, twice the typical size, will be clipped.

    Examples:
        >>> unit_vectors(np.array([[3.0, 4.0], [0.0, 0.0]])).round(3).tolist()
        [[0.424, 0.566], [0.0, 0.0]]
    """
    filled = np.nan_to_num(rows)
    lengths = np.linalg.norm(filled, axis=1, keepdims=True)
    scale = math.sqrt(rows.shape[1]) / 2
    return np.asarray(scale * filled / np.where(lengths > 0, lengths, 1.0))
