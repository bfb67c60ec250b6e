"""Rows to train on: people, and plain arrays as a naive second form of encoded rows."""

import math
import mmap
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memberbound.release.all_rows.boosting import boost
from memberbound.release.all_rows.clipping import row_lengths
from memberbound.release.all_rows.gradient import Descent, TrainingRows, descend
from memberbound.release.all_rows.losses import Loss
from memberbound.release.all_rows.probabilities import probability_line
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import BudgetShare
from memberbound.release.randomness import InsecureSource
from memberbound.tables.shards import Shards

#: Public bounds of :func:`people`.
PUBLIC = {"age": [18, 90], "city": ["Rome", "Oslo", "Bern"], "ill": ["no", "yes"]}


def people(rows=1500, seed=0):
    """Old people, and those of Oslo, are ill more often."""
    draws = np.random.default_rng(seed)
    age = draws.integers(18, 90, rows)
    city = draws.choice(["Rome", "Oslo", "Bern"], rows)
    score = (age - 50) / 12 + 1.5 * (city == "Oslo")
    ill = np.where(score + draws.logistic(size=rows) > 0.5, "yes", "no")
    return pd.DataFrame({"age": age, "city": city, "ill": ill})


def fit_model(table, target="ill", *, seed=1, eta=0.05, **asked):
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

    def transpose_dot(self, moved):
        return self.numbers.T @ moved


def lengths_of(features, intercept):
    return row_lengths(NumberRows(features).squares(), features.shape[1], intercept)


def loss_and_target(name, target, classes=2):
    """Return a loss by name, and a target as it takes it."""
    loss = Loss(name, 0 if name in ("ridge", "huber") else classes)
    return loss, loss.target(np.asarray(target))


def codes_of(target):
    """The codes of classes, or the numbers, from which a loss made its target."""
    return target[:, 0] if target.shape[1] == 1 else target.argmax(axis=1)


def descended(features, target, loss, how, part, *, weights=None, persons=None):
    """Descend on one part."""
    rows = TrainingRows(NumberRows(features), codes_of(target), weights, persons)
    records = len(features) if persons is None else persons.count
    width = features.shape[1]
    return descend(Shards([rows]), loss, how, part, records=records, width=width)


#: Plain steps, the last iterate alone: then the model is a sufficient statistic of the whole path.
PLAIN = Descent(steps=4, rate=1.0, clip=0.5, momentum=0.0, averaged=1e-9, intercept=0.0)


def advantage(released, runs):
    """Return the advantage of the sign of the release as an attack, and its standard error."""
    inside, outside = ([released(world, run) for run in range(runs)] for world in (1, 0))
    reached = float(np.mean(np.array(inside) > 0) - np.mean(np.array(outside) > 0))
    return reached, math.sqrt((1 - min(reached, 0.999) ** 2) / (2 * runs))


def canary_advantage(mu, runs, *, how=PLAIN, features=(1.0,), persons=None):
    """Return the advantage of distinguishing rows with the worst gradients from their opposites.

    Their targets are out of reach, so their gradients are clipped in every step; in the other world
    the targets are the opposite.  The likelihood ratio is monotone in the sum of all steps, which
    determines the released parameters.  Two more rows have weight 0.
    """
    table = np.append(features, [0.0, 0.0])[:, None]
    weights = np.append(np.ones(len(features)), [0.0, 0.0])

    def released(world, run):
        loss, target = loss_and_target("ridge", 1e9 * (2 * world - 1) * weights)
        part = BudgetShare("descent", mu, InsecureSource(2 * run + world))
        model = descended(table, target, loss, how, part, weights=weights, persons=persons)
        return float(model.coefficients[0, 0] + model.intercepts[0])

    return advantage(released, runs)


def boosted(encoder, bins, target, loss, part, *, how):
    """Boost on one part."""
    rows = Shards([TrainingRows(bins, codes_of(target))])
    return boost(rows, loss, how, part, records=len(bins), encoder=encoder)


def line_of(scores, codes, weights, part, **how):
    """Return the probability line of scores that a model gives."""
    rows = TrainingRows(scores, codes, weights)
    outputs = {"records": len(codes), "outputs": scores.shape[1]}
    return probability_line(Given(), Shards([rows]), part, **outputs, **how)


class Given:
    """A model with given scores."""

    def scores(self, features):
        return features


def mapped_file(array):
    """The file that holds an array, or None."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if array is None or isinstance(array, mmap.mmap) else array.obj
