"""``population`` for the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import FloatArray, down, shared_confidence
from memberbound.populations.answer import PopulationAnswer
from memberbound.populations.question import Question
from memberbound.populations.setting import Comparison, Progress, Quantity
from memberbound.subset.bounds import RecordBounds
from memberbound.subset.enumeration import MOST_SUBSETS, exact_bounds
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.gaussian import clipped
from memberbound.subset.sampled import sampled_bounds
from memberbound.tables.population import column_names, is_array, read_population

__all__ = ["ExponentialSetting", "Sampling", "answer_exponential"]


@dataclass(frozen=True)
class Sampling:
    """How subsets are sampled where they are too many to enumerate."""

    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7)."""

    mechanism: ExponentialMechanism
    delta: float
    sampling: Sampling
    progress: Progress = None

    @property
    def game(self) -> SubsetGame:
        """The subset game of the mechanism."""
        return self.mechanism.game

    @property
    def enumerable(self) -> bool:
        """Whether all subsets can be enumerated."""
        return math.comb(self.game.population, self.game.size) <= MOST_SUBSETS

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """Exact bounds where all subsets can be enumerated, else sampled ones."""
        if self.enumerable:
            return exact_bounds(self.mechanism, delta=self.delta, progress=self.progress)
        return sampled_bounds(
            self.mechanism,
            delta=self.delta,
            confidence=self.sampling.confidence,
            subsets=self.sampling.subsets,
            seed=self.sampling.seed,
            progress=self.progress,
        )

    def epsilon_for(self, quantity: Quantity, target: float) -> float:
        """Largest ε found with ε̃ ≤ target or success ≤ target.

        The first candidate is the ε at which the population's own worst case meets the target,
        which needs no enumeration.  Exact bounds are bisected.  Sampled bounds are tested at ε
        growing by fixed factors until the first failure: a fixed order needs no correction for the
        number of tests, since a wrong answer implies that the first false claim passed its test.
        """
        # The population's worst case is linear in ε; a unit of it is what ε = 1 gives.
        unit = replace(self.mechanism, epsilon=1.0).epsilon_population
        prior = self.game.prior

        def reached(epsilon: float) -> float:
            bounds = self.at(epsilon).best()
            return bounds.pmp_epsilon_upper if quantity == "pmp" else bounds.success_upper

        if unit == 0.0:
            raise InputError(
                "the losses must differ between records; here the choice never depends on who was "
                "drawn, and every ε meets the target."
            )
        allowed = target
        if quantity == "success":
            allowed = _pure_epsilon_for_success(target, prior)
        start = down(allowed / unit, 8)
        if not self.enumerable:
            best = start
            for step in range(1, 25):
                trial = start * 1.25**step
                if reached(trial) > target:
                    break
                best = trial
            return best
        top = start
        for _ in range(40):
            top *= 2
            if reached(top) > target:
                return safe_crossing(
                    lambda e: reached(e) - target, start, top, relative=1e-6, evaluations=60
                )
        return top

    def comparison(self, epsilon: float) -> Comparison:
        """Success at ε for the three attackers."""
        there = self.at(epsilon)
        return there.compared(epsilon, there.best())

    def compared(self, epsilon: float, bounds: RecordBounds) -> Comparison:
        """Return the comparison for bounds that are already there."""
        prior = self.game.prior
        inside = min(epsilon, replace(self.mechanism, epsilon=epsilon).epsilon_population)
        population = guarantee_from_epsilon_delta([(inside, 0.0)]).curve.accuracy(prior)
        return Comparison(
            epsilon,
            guarantee_from_epsilon_delta([(epsilon, 0.0)]).curve.accuracy(prior),
            population,
            min(population, bounds.success_upper),
        )


def _pure_epsilon_for_success(target: float, prior: float) -> float:
    """Return the largest ε found for which ε-indistinguishability keeps success at ``target``."""
    blind = max(prior, 1 - prior)
    if not target > blind:
        raise InputError(
            f"target_success must be above the blind guess of {blind!r}, got {target!r}."
        )
    return safe_crossing(
        lambda e: guarantee_from_epsilon_delta([(e, 0.0)]).curve.accuracy(prior) - target,
        0.0,
        float(np.log1p(2 * target / max(1e-12, 1 - target))) + 5.0,
        relative=1e-9,
        evaluations=200,
    )


def answer_exponential(
    question: Question, *, candidates: Any, losses: Any, sampling: Sampling, progress: Progress
) -> PopulationAnswer:
    """Answer for the exponential mechanism's choice on a uniform subset."""
    amount = question.amount
    if amount.sigma is not None:
        raise InputError("sigma belongs to the Gaussian mechanism; give epsilon instead.")
    mechanism, moved = _mechanism(question, candidates, losses)
    setting = ExponentialSetting(mechanism, question.delta, sampling, progress)
    if amount.target is None:
        bounds = setting.best()
    else:
        setting, bounds = _searched(setting, *amount.target)
    chosen = setting.mechanism.epsilon
    mean, largest = _loss_distances(mechanism.losses)
    return PopulationAnswer(
        "exponential",
        f"choice among {mechanism.losses.shape[1]} candidates",
        bounds,
        None,
        chosen,
        min(chosen, setting.mechanism.epsilon_population),
        None,
        setting.compared(chosen, bounds),
        mean,
        largest,
        "mean largest difference of losses to the others",
        moved,
        amount,
        question.notes,
        setting=replace(setting, progress=None),
    )


def _searched(
    setting: ExponentialSetting, quantity: Quantity, target: float
) -> tuple[ExponentialSetting, RecordBounds]:
    """Return the setting at the ε found, and bounds there that hold although ε was chosen.

    Sampled subsets that chose ε say no more than "the target is met"; half of the error probability
    goes to that claim and half to bounds from fresh subsets, so both hold together.
    """
    if setting.enumerable:
        found = setting.at(setting.epsilon_for(quantity, target))
        return found, found.best()
    given = setting.sampling
    half = replace(given, confidence=shared_confidence(given.confidence, 2))
    epsilon = replace(setting, sampling=half).epsilon_for(quantity, target)
    found = replace(setting.at(epsilon), sampling=replace(half, seed=given.seed + 1))
    fresh = found.best()
    pmp = quantity == "pmp"
    bounds = replace(
        fresh,
        pmp_epsilon=np.minimum(fresh.pmp_epsilon, target) if pmp else fresh.pmp_epsilon,
        success=fresh.success if pmp else np.minimum(fresh.success, target),
        confidence=given.confidence,
    )
    return found, bounds


def _mechanism(
    question: Question, candidates: Any, losses: Any
) -> tuple[ExponentialMechanism, int | None]:
    """Return the mechanism (at ε = 1 for an inverse question) and how many were clipped."""
    if (candidates is None) == (losses is None):
        raise InputError("the exponential mechanism needs candidates or losses (one of them).")
    if question.clip is None and question.sensitivity is None:
        raise InputError(
            "the exponential mechanism needs clip or sensitivity: by how much can one record move "
            "the mean loss?"
        )
    epsilon = 1.0 if question.amount.epsilon is None else question.amount.epsilon
    if losses is not None:
        if question.clip is not None or question.sensitivity is None:
            raise InputError("losses need sensitivity (clip belongs to candidates).")
        matrix = _matrix(losses)
        if matrix.shape[0] != question.game.population:
            raise InputError(
                f"losses must have one row per record ({question.game.population}), got "
                f"{matrix.shape[0]}."
            )
        return ExponentialMechanism(matrix, question.game.size, epsilon, question.sensitivity), None
    values, moved = question.table.values, None
    if question.clip is not None:
        values, moved = clipped(values, question.clip)
    mechanism = ExponentialMechanism.geometric_median(
        values,
        _matrix(candidates),
        size=question.game.size,
        epsilon=epsilon,
        clip=question.clip,
        sensitivity=question.sensitivity,
    )
    return mechanism, moved


def _matrix(source: Any) -> FloatArray:
    """Return a table of numbers as they are: no column of it is anything else."""
    columns = None if is_array(source) else column_names(source)[0]
    return read_population(source, columns, numeric=True).values


def _loss_distances(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and largest, over the other records, of max_w |ℓ(w,x) - ℓ(w,x')|, for the table."""
    total = losses.shape[0]
    mean, largest = np.empty(total), np.empty(total)
    for row in range(total):
        gaps = np.abs(losses - losses[row]).max(axis=1)
        mean[row] = gaps.sum() / (total - 1)
        largest[row] = gaps.max()
    return mean, largest
