"""Rows to train on: people, and plain arrays as a naive second form of encoded rows."""

import mmap
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memberbound.release.all_rows.boosting import boost
from memberbound.release.all_rows.gradient import Loss, TrainingRows, descend, row_lengths
from memberbound.release.all_rows.models import fit_private, probability_line
from memberbound.release.randomness import InsecureSource
from memberbound.tables.in_memory import PartsHere

#: What is public about :func:`people`.
PUBLIC = {"age": [18, 90], "city": ["Rome", "Oslo", "Bern"], "ill": ["no", "yes"]}


def people(rows=1500, seed=0):
    """Old people, and those of Oslo, are ill more often."""
    draws = np.random.default_rng(seed)
    age = draws.integers(18, 90, rows)
    city = draws.choice(["Rome", "Oslo", "Bern"], rows)
    score = (age - 50) / 12 + 1.5 * (city == "Oslo")
    ill = np.where(score + draws.logistic(size=rows) > 0.5, "yes", "no")
    return pd.DataFrame({"age": age, "city": city, "ill": ill})


def fitted(table, target="ill", *, seed=1, eta=0.05, **asked):
    """A private model with noise from a seed."""
    return fit_private(table, target, eta=eta, source=InsecureSource(seed), **asked)


@dataclass
class NumberRows:
    """Rows of numbers of any size."""

    numbers: np.ndarray

    @property
    def shape(self):
        return self.numbers.shape

    def __getitem__(self, rows):
        return NumberRows(self.numbers[rows])

    def squares(self):
        return np.einsum("ij,ij->i", self.numbers, self.numbers)

    def __matmul__(self, theta):
        return self.numbers @ theta

    def turned(self, moved):
        return self.numbers.T @ moved


def lengths_of(features, intercept):
    return row_lengths(NumberRows(features).squares(), features.shape[1], intercept)


def loss_and_target(name, target, classes=2):
    """Return a loss by name, and a target as it takes it."""
    loss = Loss(name, 0 if name in ("ridge", "huber") else classes)
    return loss, loss.target(np.asarray(target))


def descended(features, target, loss, how, part, *, weights=None, persons=None):
    """Descend on one part."""
    rows = TrainingRows(NumberRows(features), target[:, 0], target, weights, persons)
    records = len(features) if persons is None else persons.count
    width = features.shape[1]
    return descend(PartsHere([rows]), loss, how, part, records=records, width=width)


def boosted(encoder, bins, target, loss, part, *, how):
    """Boost on one part."""
    rows = PartsHere([TrainingRows(bins, target[:, 0], target)])
    return boost(rows, loss, how, part, records=len(bins), encoder=encoder)


def line_of(scores, codes, weights, part, **how):
    """Return the probability line of scores that a model gives."""
    rows = TrainingRows(scores, codes, codes[:, None], weights)
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
