"""Rounding errors of the exponential mechanism at full size: nothing stated may be too small.

Sums in floating point rarely lose what they may lose.  Here they do: the intermediate arithmetic is
off by the full amount of Higham's bounds, or the inputs are exact.
"""

import math
from dataclasses import asdict
from fractions import Fraction
from itertools import combinations, pairwise

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.subset import enumeration, exponential
from memberbound.subset.enumeration import exact_bounds, subset_laws
from memberbound.subset.exponential import CentredScores, ExponentialMechanism
from memberbound.subset.exponential_setting import ExponentialSetting
from memberbound.subset.population_record import PopulationRecord

F = Fraction
UNIT = 2.0**-53


# ---- scores --------------------------------------------------------------------------------------


def test_scores_are_within_their_error_however_differences_are_split(monkeypatch):
    """Adding the tails of exact differences is rounded as well, and they may be large."""
    rng = np.random.default_rng(1)
    losses = np.ldexp(rng.integers(0, 2**40, (4, 3)).astype(float), -40)
    losses[0] = np.ldexp(rng.integers(0, 2**12, 3).astype(float), -12)
    shift, calls, missed = np.zeros((4, 3)), [], 0
    split = exponential._difference

    def moved(first, second):
        total, tail = split(first, second)
        calls.append(1)
        return (total + shift, tail - shift) if len(calls) == 1 else (total, tail)

    monkeypatch.setattr(exponential, "_difference", moved)
    for _ in range(40):
        calls.clear()
        shift[0] = [2.0**23 + (big := int(rng.integers(2**20))), -(2.0**23) - big, 0.0]
        scores = ExponentialMechanism(losses, 1, 2.0, 1.0).scores  # the rate is 1
        for first, second in pairwise(range(3)):
            # Differences of differences: free of what is taken out per record and candidate.
            (one, two), (three, four) = losses[:2, [first, second]].tolist()
            truth = F(two) - F(one) + F(three) - F(four)
            (one, two), (three, four) = scores.values[:2, [first, second]].tolist()
            found = F(one) - F(two) - F(three) + F(four)
            assert abs(truth - found) <= 2 * F(scores.error[first] + scores.error[second])
            missed += abs(truth - found) > 36 * UNIT * np.abs(scores.values).max()
    assert missed  # so it would be too small without the tails


# ---- every subset, from sums that are given ------------------------------------------------------

GAME = SubsetGame(6, 2)


def laws_of(monkeypatch, inside, outside, *, terms=1, error=0.0, base_error=0.0):
    """The laws that are made of these sums, from scores that are known to these errors."""
    mechanism = ExponentialMechanism(np.eye(6, inside.shape[1]), 2, 1.0, 1.0)
    zero = np.zeros(inside.shape[1])
    scores = CentredScores(np.zeros_like(inside), zero, 0.0, zero + error, zero + base_error)
    mechanism.__dict__["scores"] = scores
    monkeypatch.setattr(enumeration, "_sums", lambda *_: (inside.copy(), outside.copy(), terms))
    return subset_laws(mechanism)


def true_logs(inside, outside):
    """ln in, ln out and ln in/out of exact sums: 5 sets hold a record, 10 do not."""
    with mp.workdps(40):
        ins = [[mp.log(mp.mpf(v) / 5) for v in row] for row in inside.tolist()]
        outs = [[mp.log(mp.mpf(v) / 10) for v in row] for row in outside.tolist()]
        pairs = [zip(*rows, strict=True) for rows in zip(ins, outs, strict=True)]
        return ins, outs, [[a - b for a, b in pair] for pair in pairs]


def strays(laws, truths):
    """Return which stated errors are too small: of the logarithms, and of the ratios."""
    bad = [0, 0]
    with mp.workdps(40):
        for x, w in np.ndindex(laws.ratio.shape):
            for found, truth in ((laws.log_in, truths[0]), (laws.log_out, truths[1])):
                bad[0] += abs(found[x, w] - truth[x][w]) > laws.error[w]
            bad[1] += abs(laws.ratio[x, w] - truths[2][x][w]) > laws.ratio_error[x, w]
    return bad


def test_logarithms_of_any_size_are_within_their_errors(monkeypatch):
    """Sums from e^-700 to e^700, of one record near 1: the logarithms lose the most."""
    rng = np.random.default_rng(2)
    inside, outside = np.exp(rng.uniform(-700, 700, (2, 6, 40)))
    inside[0], outside[0] = 5.0, 10.0
    assert strays(laws_of(monkeypatch, inside, outside), true_logs(inside, outside)) == [0, 0]


@pytest.mark.parametrize(
    ("terms", "outcomes", "error"),
    [(10**7, 2, 0.0), (1, 30_000, 0.0), (1, 3, np.array([0.0, 1e-6, 3e-9]))],
)
def test_errors_hold_for_the_worst_sums(terms, outcomes, error, monkeypatch):
    """Sums over sets, over candidates, and of scores, each with the largest allowed error."""
    rng = np.random.default_rng(3)
    inside, outside = rng.uniform(1, 2, (2, 6, outcomes))
    some = slice(0, 6), slice(0, 3)
    truths = true_logs(inside[some], outside[some])
    # Scores of the set and the normalising sum, which has those of all candidates.
    off = np.max(error) + error + terms * UNIT + outcomes * UNIT
    for sign in (-1, 1):
        moved = inside * np.exp(sign * off), outside * np.exp(-sign * off)
        laws = laws_of(monkeypatch, *moved, terms=terms, error=error)
        assert laws.error.max() <= 4 * np.max(off) + 1e-12  # and no more than a few times that
        for x, w in np.ndindex(6, min(3, outcomes)):
            assert abs(laws.log_in[x, w] - truths[0][x][w]) <= laws.error[w]
            assert abs(laws.log_out[x, w] - truths[1][x][w]) <= laws.error[w]
            assert abs(laws.ratio[x, w] - truths[2][x][w]) <= laws.ratio_error[x, w]


def test_numbers_added_in_a_row_are_counted():
    mechanism = ExponentialMechanism(np.eye(9, 2), 4, 1.0, 0.25)
    blocks = [(math.comb(4, a), math.comb(5, 4 - a)) for a in range(5)]
    terms = enumeration._sums(mechanism.game, mechanism.scores, None)[2]
    assert max(a + b for a, b in blocks) <= terms <= sum(a + b for a, b in blocks)


def test_no_subset_has_a_larger_sum_than_its_largest_values():
    values = np.random.default_rng(21).integers(-9, 10, size=(7, 4)).astype(float)
    for size in range(1, 7):
        sums = [np.abs(values[list(rows)]).sum(axis=0) for rows in combinations(range(7), size)]
        assert exponential._largest_sum(values, size).tolist() == np.max(sums, axis=0).tolist()


def test_outcomes_below_all_doubles_are_not_forgotten():
    """Each of 400 masses is too small for a double, and their sum is above δ."""
    losses = np.zeros((6, 401))
    losses[:, 1:], losses[0, 1:] = 497.1, 1.0 + 497.1
    mechanism = ExponentialMechanism(losses, 3, 3.0, 1.0)  # P(w given D) = e^{-Σ loss/2} or so
    smallest = 5e-324
    with mp.workdps(30):
        outside, inside = (mp.exp(-(mp.mpf(497.1) * 3 + own) / 2) for own in (0, 1))
        assert outside < mp.mpf(smallest) / 2
        for delta in (20 * smallest, 50 * smallest):
            epsilon = mp.mpf(exact_bounds(mechanism, delta=delta).pmp_epsilon[0])
            assert 400 * (outside - mp.exp(epsilon) * inside) <= mp.mpf(delta)


# ---- the ε for a target --------------------------------------------------------------------------


def setting(records=6, outcomes=4, delta=0.0, **how):
    losses = np.random.default_rng(0).uniform(0, 1, (records, outcomes))
    size = records // 2
    return ExponentialSetting(ExponentialMechanism(losses, size, 1.0, 2 / size), delta, **how)


@pytest.mark.parametrize(("quantity", "target"), [("target_pmp", 0.3), ("target_success", 0.57)])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_epsilon_for_a_target_meets_it_and_is_the_largest(quantity, target, delta):
    chosen, bounds = setting(delta=delta).for_target(quantity, target)
    epsilon = chosen.mechanism.epsilon
    assert bounds.reached(quantity) <= target
    assert exact_bounds(chosen.mechanism, delta=delta).reached(quantity) <= target
    assert setting(delta=delta).at(epsilon * 1.0001).best().reached(quantity) > target
    # More than what the population's worst case allows.
    assert chosen.mechanism.epsilon_population > target * 1.01 or quantity == "target_success"


def test_epsilon_for_a_target_from_random_subsets():
    """Growing steps of a quarter until the first failure, and bounds from fresh subsets."""
    asked = setting(40, 3, subsets=2000)
    chosen, bounds = asked.for_target("target_pmp", 0.2)
    half = chosen.confidence
    epsilon = chosen.mechanism.epsilon
    tried = ExponentialSetting(chosen.mechanism, 0.0, half, 2000)
    assert float(f"{epsilon:.6g}") == epsilon
    assert tried.best().pmp_epsilon_upper <= 0.2
    assert tried.at(epsilon * 1.25).best().pmp_epsilon_upper > 0.2
    assert bounds.pmp_epsilon.min() < bounds.pmp_epsilon_upper <= 0.2
    first = 0.2 / chosen.at(1.0).mechanism.epsilon_population
    assert chosen.mechanism.epsilon > first  # which holds without sampling


def test_targets_at_the_edge():
    assert setting().epsilon_for("target_pmp", 0.0) == 0.0
    for target in (0.5, 0.4):
        with pytest.raises(InputError, match="above the blind guess"):
            setting().epsilon_for("target_success", target)
    equal = ExponentialMechanism(np.tile([0.0, 1.0], (6, 1)), 3, 1.0, 1.0)
    with pytest.raises(InputError, match="must differ between records"):
        ExponentialSetting(equal, 0.0).epsilon_for("target_pmp", 1.0)


def test_three_attackers_are_compared_soundly():
    """At 3 of 6 an ε-indistinguishable pair is guessed right 1/(1 + e^-ε) of the time."""
    _, solution = setting().solve("epsilon", 2.0)
    compared, inside = solution.compared, solution.epsilon_population
    with mp.workdps(30):
        for value, epsilon in ((compared.worst_case, 2.0), (compared.population, inside)):
            truth = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
            assert truth <= value <= truth + mp.mpf(1e-14)
    assert inside == setting().at(2.0).mechanism.epsilon_population < 2.0
    assert compared.practical == solution.bounds.success_upper < compared.population


def test_curves_allow_for_the_errors_of_both_laws():
    """Laws as far off as is granted: the heavier mass is raised by it, whatever the ratio."""
    error, half = 0.01, math.log(0.5)
    law_in, law_out = np.array([[half, half - 3.0]]), np.array([[half - 3.0, half]])
    game, exactly = SubsetGame(population=2, size=1), np.zeros((1, 2))
    made = enumeration.SubsetLaws(
        game, law_in, law_out, np.full(2, error), law_in - law_out, exactly, 40.0
    )
    for epsilon in (0.0, 1.0, 2.5):
        exact = 0.5 * math.exp(error) * -math.expm1(epsilon - 3.0)
        for side in ("forward", "backward"):
            assert exact <= made.curve(0).delta(epsilon, side) <= exact * (1 + 1e-12)
    # An outcome with a mass below the smallest double still reveals its ratio.
    law_in, law_out = np.array([[0.0, -900.0]]), np.array([[0.0, -903.0]])
    made = enumeration.SubsetLaws(
        game, law_in, law_out, np.full(2, error), law_in - law_out, exactly, 40.0
    )
    assert made.curve(0).delta(2.9) > 0.0
    assert made.curve(0).epsilon(0.0) >= 3.0
    # A sure outcome: no mass above 1, and total variation 0 but for the error of the ratio.
    none = np.zeros((1, 1))
    made = enumeration.SubsetLaws(game, none, none, none[0] + error, none, none, 9.0)
    assert 0.0 <= made.curve(0).delta(0.0) < 1e-12


def test_records_of_certificates_hold_numbers_that_can_be():
    plain = asdict(PopulationRecord(rows_sha256="", columns=(), asked="eta", amount=0.1, clip=None,
                                    sensitivity=None, unit=None))  # fmt: skip
    for name, least in [("amount", 0.0), ("clip", 0), ("divisor", 0), ("subsets", 0)]:
        for value in (least, least + 1):
            assert getattr(PopulationRecord.of_dict(plain | {name: value}), name) == value
        with pytest.raises(InputError, match=name):
            PopulationRecord.of_dict(plain | {name: -1})
