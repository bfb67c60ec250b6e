"""The verb ``population`` against naive second implementations of what it promises."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from commands import run_command
from memberbound.errors import InputError
from memberbound.tables.public_rows import read_population
from memberbound.verbs.explain import explain
from memberbound.verbs.population import population
from oracle.normal_mixtures import accuracy, subset_laws


def cloud(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimension))


@pytest.mark.parametrize("size", [4, 3])
@pytest.mark.parametrize("sigma", [0.1, 0.4])
def test_no_attack_beats_the_bound_and_the_exact_one_is_close(size: int, sigma: float) -> None:
    values = cloud(8, 1, seed=3)[:, 0]
    answer = population(values, sigma=sigma, delta=1e-3, clip=5, size=size)
    # The noise on a mean is size times that on the sum.
    laws = [subset_laws(values, size, x) for x in range(8)]
    truth = [float(accuracy(*pair, size * sigma, size / 8)) for pair in laws]
    assert np.all(answer.bounds.success >= truth)
    assert answer.success_upper <= max(truth) + 1e-5
    assert answer.worst_record == int(np.argmax(truth))
    # For one number per release, the bound is better than the coupling's.
    assert answer.coupled is not None
    assert answer.coupled.success_upper > answer.success_upper + 1e-3
    # A variant that forgets one of the two worlds' weights is caught.
    assert answer.success_upper > max(truth) * 0.999


def test_mean_and_sum_with_the_matching_noise_agree() -> None:
    rows = cloud(20, 3)
    mean = population(rows, sigma=0.2, clip=3, delta=1e-4)
    total = population(rows, sigma=0.2 * 10, clip=3, delta=1e-4, query="sum")
    assert mean.pmp_epsilon_upper == pytest.approx(total.pmp_epsilon_upper, rel=1e-9)
    assert mean.epsilon == pytest.approx(total.epsilon, rel=1e-9)


def test_the_worst_case_epsilon_is_that_of_the_gaussian_mechanism() -> None:
    rows, clip, delta = cloud(20, 3), 3.0, 1e-4
    answer = population(rows, epsilon=4.0, clip=clip, delta=delta)
    assert answer.sigma is not None
    shift = 2 * clip / 10 / answer.sigma
    reached = stats.norm.cdf(shift / 2 - 4 / shift) - math.exp(4) * stats.norm.cdf(
        -shift / 2 - 4 / shift
    )
    assert reached <= delta * (1 + 1e-9)
    assert reached >= delta * (1 - 1e-6)
    assert answer.pmp_epsilon_upper <= answer.epsilon_population <= answer.epsilon


def test_the_three_attackers_are_ordered() -> None:
    answer = population(cloud(60, 4), epsilon=3.0, clip=4)
    for point in answer.sweep([0.1, 1.0, 5.0, 20.0]):
        assert answer.success_blind <= point.practical <= point.population <= point.worst_case <= 1


@pytest.mark.parametrize(
    ("dimension", "target"),
    [
        (1, {"target_pmp": 0.7}),
        (1, {"target_success": 0.56}),
        (3, {"target_pmp": 0.7}),
        (3, {"target_success": 0.61}),
        pytest.param(1, {"target_pmp": 5.0}, marks=pytest.mark.long),
    ],
)
def test_the_printed_noise_and_epsilon_are_one_mechanism_that_barely_meets_the_target(
    target, dimension: int
) -> None:
    rows = cloud(24, dimension, seed=6)
    answer = population(rows, clip=4, delta=1e-4, **target)
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in answer.summary().split("\n")[2:7])
    sigma, epsilon = (float(lines[name]) for name in ("noise σ", "ε at δ = 0.0001, any data set"))
    assert (sigma, epsilon) == (answer.sigma, answer.epsilon)
    assert f"ε = {lines['ε at δ = 0.0001, any data set']} and" in answer.sentence
    ((name, limit),) = target.items()
    # The noise has the ε; either of the two, typed in again, stays within the target.
    by_noise, by_epsilon, less = (
        population(rows, clip=4, delta=1e-4, **how)
        for how in ({"sigma": sigma}, {"epsilon": epsilon}, {"sigma": 0.99 * sigma})
    )
    assert by_noise.epsilon <= epsilon < by_noise.epsilon * (1 + 1e-4)
    assert by_noise.bounds.reached(name) <= limit
    assert by_epsilon.bounds.reached(name) <= limit
    assert less.bounds.reached(name) > limit


def test_the_exponential_mechanism_exactly_and_its_inverse() -> None:
    rows, candidates = cloud(12, 2, seed=1), cloud(6, 2, seed=2)
    options = {"mechanism": "exponential", "candidates": candidates, "clip": 3}
    answer = population(rows, epsilon=4.0, **options)
    assert answer.bounds.confidence == 1.0
    assert answer.sigma is None
    assert answer.pmp_epsilon_upper <= answer.epsilon_population <= 4.0
    found = population(rows, target_pmp=0.5, **options)
    assert population(rows, epsilon=found.epsilon, **options).pmp_epsilon_upper <= 0.5
    assert population(rows, epsilon=found.epsilon * 1.01, **options).pmp_epsilon_upper > 0.5


def test_the_exponential_mechanism_sampled() -> None:
    rows, candidates = cloud(60, 2, seed=1), cloud(4, 2, seed=2)
    options = {"mechanism": "exponential", "candidates": candidates, "clip": 3, "delta": 1e-3}
    answer = population(rows, epsilon=2.0, subsets=400, confidence=0.9, **options)
    assert answer.bounds.confidence == 0.9
    assert 0.5 < answer.success_upper < answer.compared.worst_case
    # The inverse starts from the deterministic bound, so it always returns something valid.
    found = population(rows, target_success=0.6, subsets=200, **options)
    assert found.success_upper <= 0.6


def test_a_population_of_equal_records_is_safe_with_any_noise() -> None:
    answer = population(np.ones((10, 2)), sigma=0.1, clip=3)
    assert answer.success_upper == 0.5
    assert answer.pmp_epsilon_upper == 0.0
    assert any("repeat another one" in w for w in answer.warnings)


def test_odd_populations_and_left_out_columns_are_mentioned(tmp_path: Path) -> None:
    frame = pd.DataFrame(cloud(9, 2), columns=["a", "b"]).assign(name=list("abcdefghi"))
    frame.to_csv(tmp_path / "odd.csv", index=False)
    answer = population(tmp_path / "odd.csv", epsilon=1, clip=2)
    assert answer.game.size == 4
    assert any("cannot be halved" in w for w in answer.warnings)
    assert any("left out: name" in w for w in answer.warnings)
    assert answer.success_upper >= answer.success_blind > 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "exactly one of"),
        ({"epsilon": 1, "sigma": 1}, "epsilon and sigma"),
        ({"epsilon": -1}, "at least 0"),
        ({"sigma": 0}, "greater than 0"),
        ({"epsilon": 1, "delta": 0}, "no amount of Gaussian noise"),
        ({"epsilon": 1, "size": 20}, "smaller than the population"),
        ({"epsilon": 1, "clip": -1}, "clip"),
        ({"epsilon": 1, "clip": 1, "sensitivity": 1}, "not both"),
        ({"epsilon": 1, "sensitivity": 1e-3}, "which these records reach"),
        ({"target_success": 0.4}, "greater than 0.5"),
        ({"epsilon": 1, "query": "median"}, "one of"),
        ({"epsilon": 1, "candidates": [[1.0]]}, "cannot be used"),
        ({"epsilon": 1, "mechanism": "exponential"}, "needs candidates"),
        ({"epsilon": 1, "mechanism": "exponential", "candidates": [[0.0, 1.0]]}, "clip or"),
        (
            {"epsilon": 1, "mechanism": "exponential", "candidates": [[0.0]], "clip": 3},
            "dimension|coordinates|columns",
        ),
        (
            {"sigma": 1, "mechanism": "exponential", "candidates": [[0.0, 1.0]]},
            "sigma applies only",
        ),
        (
            {
                "target_success": 0.5,
                "mechanism": "exponential",
                "candidates": [[0.0, 1.0]],
                "clip": 1,
            },
            "above the blind guess",
        ),
        ({"epsilon": 1, "columns": ["x7"]}, "no column 'x7'"),
    ],
)
def test_bad_questions(change: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        population(cloud(20, 2), **change)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((3, 2)), "at least 4 records"),
        (np.full((5, 2), np.nan), "finite numbers"),
        (np.array([[1.0], [np.inf], [2.0], [3.0]]), "row 2"),
        (np.zeros((0, 2)), "at least one record"),
        ([["a"], ["b"]], "must hold numbers"),
        (np.zeros((4, 2, 2)), "shape"),
    ],
)
def test_bad_records(rows, words: str) -> None:
    with pytest.raises(InputError, match=words):
        population(rows, epsilon=1, clip=1)


def test_the_records_file(tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", cloud(30, 3))
    out = tmp_path / "records.csv"
    code, printed, err = run_command(
        "population", tmp_path / "points.npy", "--epsilon", 10, "--clip", 5, "--records", out,
        "--plot", tmp_path / "success.png", "--json",
    )  # fmt: skip
    assert code == 0, err
    answer, table = json.loads(printed), pd.read_csv(out)
    assert len(table) == 30
    assert table.record[0] == answer["worst_record"] + 1
    assert table.success_upper.max() == answer["success_upper"]
    assert (tmp_path / "success.png").read_bytes().startswith(b"\x89PNG")
    # Nothing is overwritten without force.
    with pytest.raises(InputError, match="must not exist"):
        population(cloud(30, 3), epsilon=1, records=out)


@pytest.mark.parametrize(
    "target",
    [{"target_success": 0.53}, pytest.param({"target_pmp": 0.5}, marks=pytest.mark.long)],
)
def test_inverse_uses_the_exact_mixture_above_a_thousand_rows(target) -> None:
    """The coupling needs more noise; the answer's own bound meets the target, and barely."""
    values = np.round(np.clip(cloud(1200, 1), -3, 3), 1)  # twins: quicker to compute
    answer = population(values, clip=3.0, delta=1e-4, **target)
    ((name, limit),) = target.items()
    blind = 0.0 if name == "target_pmp" else 0.5
    assert answer.bounds.reached(name) <= limit
    assert answer.setting.bounds(answer.sigma * 0.99)[0].reached(name) > limit
    # Control: the coupling's bound at this noise is far above, so it would add noise.
    assert answer.coupled.reached(name) - blind > 1.05 * (limit - blind)
    again = population(values, clip=3.0, delta=1e-4, sigma=answer.sigma)
    assert again.bounds.reached(name) <= limit


def test_the_crowd_is_used_in_every_dimension_and_named() -> None:
    rows = cloud(1000, 3, seed=5)
    answer = population(rows, epsilon=10, clip=4)
    shown = answer.to_dict()
    assert answer.coupled is not None
    assert "the crowd" in shown["method"]
    assert "X21" in shown["theorems"]
    assert shown["success_upper"] < shown["coupling"]["success_upper"] - 0.05
    assert np.all(answer.bounds.success <= answer.coupled.success)
    (point,) = answer.sweep([10.0])
    assert point.practical <= answer.success_upper + 1e-9
    assert point.coupled == answer.coupled.success_upper


def test_inverse_questions_use_the_crowd() -> None:
    rows = cloud(80, 2, seed=6)
    answer = population(rows, target_success=0.6, clip=4)
    assert answer.success_upper <= 0.6
    assert answer.coupled is not None
    assert answer.coupled.success_upper > 0.605  # coupling alone would need more noise


def test_the_coupling_is_used_alone_if_the_crowd_proves_nothing() -> None:
    rows = cloud(30, 4, seed=7)
    answer = population(rows, epsilon=2, clip=4)
    assert answer.coupled is None
    assert "the crowd" not in answer.bounds.method
    assert "coupling" not in answer.to_dict()


def test_an_array_is_neither_copied_nor_changed():
    rows = np.random.default_rng(8).normal(size=(400, 2))
    rows.setflags(write=False)
    before = rows.copy()
    population(rows, epsilon=5.0, clip=1.0).sweep([1.0])
    population(rows, epsilon=5.0).sweep([1.0])
    assert np.array_equal(rows, before)
    assert np.shares_memory(read_population(rows, numeric=True)[0].values, rows)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_explain_covers_every_mechanism_and_population_this_one(epsilon: float) -> None:
    """At the same (ε, δ) the worst mechanism is at least as bad as Gaussian noise on any data."""
    answer = population(cloud(20, 1), epsilon=epsilon, delta=1e-5, clip=5)
    any_mechanism = explain(epsilon=epsilon, delta=1e-5).accuracy_upper
    assert answer.success_upper <= answer.success_worst_case_upper < any_mechanism
    pure = population(
        cloud(20, 1), mechanism="exponential", epsilon=epsilon, clip=5, candidates=[[0.0], [1.0]]
    )
    assert pure.success_worst_case_upper == pytest.approx(explain(epsilon=epsilon).accuracy_upper)
