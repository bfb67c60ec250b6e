"""Rows to train on, as plain arrays: a naive second form of encoded ones."""

import mmap
from dataclasses import dataclass

import numpy as np

from memberbound.release.all_rows.boosting import boost
from memberbound.release.all_rows.gradient import SlicedRows, TrainingRows, descend, row_lengths
from memberbound.release.all_rows.probabilities import probability_line
from memberbound.tables.parts import PartsHere


@dataclass
class NumberRows:
    """Rows of numbers of any size."""

    numbers: np.ndarray

    @property
    def shape(self):
        return self.numbers.shape

    def block(self, rows):
        return NumberRows(self.numbers[rows])

    def squares(self):
        return np.einsum("ij,ij->i", self.numbers, self.numbers)

    def __matmul__(self, theta):
        return self.numbers @ theta

    def turned(self, moved):
        return self.numbers.T @ moved


def lengths_of(features, intercept):
    return row_lengths(NumberRows(features).squares(), features.shape[1], intercept)


def descended(features, target, loss, how, part, *, weights=None, persons=None):
    """Descend on one part."""
    rows = TrainingRows(NumberRows(features), target[:, 0], target, weights, persons)
    records = len(features) if persons is None else persons.count
    width = features.shape[1]
    return descend(PartsHere([rows]), loss, how, part, records=records, width=width)


def boosted(encoder, bins, target, loss, part, *, weights=None, **how):
    """Boost on one part."""
    weight = None if weights is None else np.asarray(weights, dtype=float)
    rows = TrainingRows(SlicedRows(bins), target[:, 0], target, weight)
    return boost(encoder, PartsHere([rows]), loss, part, records=len(bins), **how)


def line_of(scores, codes, weights, part, **how):
    """Return the probability line of scores that a model gives."""
    rows = TrainingRows(SlicedRows(scores), codes, codes[:, None], weights)
    outputs = {"records": len(codes), "outputs": scores.shape[1]}
    return probability_line(Given(), PartsHere([rows]), part, **outputs, **how)


class Given:
    """A model whose scores are given."""

    def scores(self, features):
        return features


def mapped_file(array):
    """The file that holds an array, or None."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if array is None or isinstance(array, mmap.mmap) else array.obj
