"""Splits of sorted files: the same table and seed split alike, other tables elsewhere."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from memberbound.attacks import checks, evidence, model_audit, shadows
from memberbound.attacks.checks import one_law_test
from memberbound.attacks.evidence import Evidence
from memberbound.attacks.model_audit import audit_records, recognise_members
from memberbound.attacks.scores import permutation_p_value
from memberbound.attacks.shadows import draw_half, select_known_records, train_references
from memberbound.learners.trained import Answers, TrainedModel

#: Members and as many others; tables that are drawn.
SIZE, TABLES = 20, 200
MEMBER = np.arange(2 * SIZE) < SIZE


def table(rng: np.random.Generator) -> Evidence:
    """Draw a null table with both sides sorted by the model's output."""
    x = np.concatenate([np.sort(rng.normal(size=SIZE)), np.sort(rng.normal(size=SIZE))])
    chance = 1 / (1 + np.exp(-x))
    model = TrainedModel.of(lambda r: np.zeros((len(r), 2)), classes=[0, 1])
    answers = Answers("probabilities", np.column_stack([1 - chance, chance]), np.arange(2))
    truth = np.zeros(2 * SIZE, dtype=int)
    return Evidence(answers, truth, MEMBER, ("0", "1"), x[:, None], model)


def split_known_half(case: Evidence, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    return select_known_records(case, 0, references=False)


def split_one_law(case: Evidence, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    trained = []

    def score(rows, member, others, rng):
        trained.append(rows[:, 0])
        return others[:, 0]

    monkeypatch.setattr(checks, "blind_scores", score)
    monkeypatch.setattr(checks, "permutation_p_value", lambda *_: 1.0)
    one_law_test(case)
    return np.isin(np.asarray(case.rows)[:, 0], trained[0])


def split_recognised(case: Evidence, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return whether each non-member calibrates: a member just below it then counts it."""
    scores = np.asarray(case.rows)[:, 0].copy()
    outside = np.sort(scores[SIZE:])
    scores[:SIZE] = outside - 1e-12
    found = recognise_members(scores, MEMBER, range(SIZE), attack="x")
    steps = np.diff(np.append(found.p_values, 1 / (1 + SIZE // 2))) < -1e-9
    return np.tile(steps, 2)


def split_references(case: Evidence, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    halves = []

    def trained(examples, estimator, *, seed, **_):
        halves.append(draw_half(2 * SIZE, seed, 0)[0])
        raise _StopError

    monkeypatch.setattr(shadows, "train_shadows", trained)
    monkeypatch.setattr(shadows, "FEWEST_RECORDS", SIZE)
    with pytest.raises(_StopError):
        train_references(case, _Anything())
    return halves[0]


def split_known_part(case: Evidence, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    return select_known_records(case, 0, references=True)


class _Anything:
    def fit(self, X, y): ...


class _StopError(Exception): ...


SPLITS = [
    split_known_half,
    split_one_law,
    split_recognised,
    split_references,
    split_known_part,
]
Split = Callable[[Evidence, pytest.MonkeyPatch], np.ndarray]


def unevenness(choose: Split, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the largest distance from ½ of how often a rank is chosen among many tables."""
    rng = np.random.default_rng(0)
    chosen = [choose(table(rng), monkeypatch) for _ in range(TABLES)]
    return float(np.abs(np.mean(chosen, axis=0) - 0.5).max())


@pytest.mark.parametrize("choose", SPLITS)
def test_no_rank_of_a_sorted_file_is_always_on_one_side(choose: Split, monkeypatch) -> None:
    """Each of 40 ranks is off ½ by more than 0.16 of 200 tables with probability 6e-6."""
    assert unevenness(choose, monkeypatch) < 0.16
    rng = np.random.default_rng(3)
    once = table(rng)
    assert (choose(once, monkeypatch) == choose(once, monkeypatch)).all()


@pytest.mark.parametrize("choose", SPLITS)
def test_a_seed_alone_is_caught(choose: Split, monkeypatch) -> None:
    """Negative control: coins from the seed alone choose the same ranks in every table."""

    def seeded(seed, *content, purpose=""):
        return np.random.default_rng([seed, *purpose.encode()])

    for module in (evidence, checks, model_audit):
        monkeypatch.setattr(module, "content_generator", seeded)
    assert unevenness(choose, monkeypatch) == 0.5


def share_wrong(seed: int, lists: int = 200) -> float:
    """Mean share of wrong names on sorted lists of 20 members and 20 others; 20 calibrate."""
    shares = []
    for draw in range(lists):
        rng = np.random.default_rng([draw, 99])
        inside, outside = np.sort(rng.normal(size=20) + 6), np.sort(rng.normal(size=40))
        scores = np.concatenate([inside[::-1], outside[::-1]])
        found = recognise_members(
            scores, np.arange(60) < 20, range(20), attack="x", rate=0.1, seed=seed
        )
        shares.append(found.others_named / max(1, found.others_named + found.recognised))
    return float(np.mean(shares))


def test_false_discoveries_in_sorted_files_are_controlled(monkeypatch) -> None:
    """At most 5 % on average; the mean of 200 shares has a standard error below 0.008.

    Negative control: coins from the seed alone are wrong about 1 name in 6, at every draw.
    """
    assert max(share_wrong(seed) for seed in range(4)) <= 0.05 + 4 * 0.008
    seeded = lambda seed, scores, member, purpose: np.random.default_rng([seed, len(scores), 2])  # noqa: E731
    monkeypatch.setattr(model_audit, "content_generator", seeded)
    assert max(share_wrong(seed, 20) for seed in range(4)) > 0.15


def share_rejected(seed: int, runs: int, level: float) -> float:
    """Share of null tables, one side sorted upwards and the other downwards, that are rejected."""
    count = 0
    for draw in range(runs):
        rng = np.random.default_rng([draw, 5])
        x = np.concatenate([np.sort(rng.normal(size=60)), np.sort(rng.normal(size=60))[::-1]])
        answers = Answers("probabilities", np.column_stack([1 - x, x]), np.arange(2))
        truth, member = np.zeros(120, dtype=int), np.arange(120) < 60
        case = Evidence(answers, truth, member, ("0", "1"), x[:, None])
        count += one_law_test(case, seed=seed).p_value <= level
    return count / runs


@pytest.mark.long
def test_the_level_of_one_law_is_kept_for_sorted_files_long(monkeypatch) -> None:
    """1500 tables: more than 0.1 + 4 standard errors has probability 3e-5.  Negative control."""
    short = partial(permutation_p_value, shuffles=199)
    monkeypatch.setattr(checks, "permutation_p_value", short)
    limit = 0.1 + 4 * np.sqrt(0.09 / 1500)
    assert share_rejected(2, 1500, 0.1) <= limit
    seeded = lambda seed, *_, purpose: np.random.default_rng([seed, 17])  # noqa: E731
    monkeypatch.setattr(checks, "content_generator", seeded)
    assert share_rejected(2, 1500, 0.1) > limit


@pytest.mark.parametrize("order", ["score", "class", "member"])
def test_learning_attacks_find_no_leak_in_sorted_null_files(order: str) -> None:
    """A model that ignores its data; one side of a 50 % interval fails in 25 % of 40 runs.

    More than 21 of 40 have probability 4e-5.
    """
    accused = 0
    for draw in range(40):
        rng = np.random.default_rng([draw, 7])
        chance, truth = rng.random(160), rng.integers(2, size=160)
        member = rng.permutation(160) < 80
        keys = {"score": (chance,), "class": (chance, truth), "member": (chance, truth, member)}
        rows = np.lexsort(keys[order])
        chance, truth, member = chance[rows], truth[rows], member[rows]
        answers = Answers("probabilities", np.column_stack([1 - chance, chance]), np.arange(2))
        case = Evidence(answers, truth, member, ("0", "1"))
        found = audit_records(case, attacks=["combined"], fpr=(), confidence=0.5)
        accused += found.attacks["combined"].auc.lower > 0.5
    assert accused <= 21
