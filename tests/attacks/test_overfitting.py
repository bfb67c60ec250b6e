"""The overfitting ceiling from losses: coverage in both directions, types, refusals."""

import json
import math

import numpy as np
import pytest

from memberbound.answers import plain
from memberbound.attacks import overfitting
from memberbound.attacks.overfitting import overfitting_ceiling
from memberbound.errors import InputError
from memberbound.quantities import AuditBound, Estimate


def truth(train, cdf, gamma):
    """min over ε of max(1,1/γ)(a + γq): only training losses can be best."""
    at = np.sort(train)
    above = 1 - np.searchsorted(at, at, side="right") / len(at)
    return min(1.0, float(np.min(max(1, 1 / gamma) * (above + gamma * cdf(at)))))


#: Laws of fresh losses by their distribution function; ties in the last.
WORLDS = {
    "uniform": (lambda rng, m: rng.uniform(0, 1, m), lambda t: np.clip(t, 0, 1)),
    "far": (lambda rng, m: rng.uniform(0, 1, m) ** 0.1, lambda t: np.clip(t, 0, 1) ** 10),
    "two values": (
        lambda rng, m: (rng.uniform(0, 1, m) > 0.1).astype(float),
        lambda t: np.where(t >= 1, 1.0, np.where(t >= 0, 0.1, 0.0)),
    ),
}


def misses(world, *, nu=0.5, runs=300, fresh=200):
    """Count intervals that miss from above and from below; each side may fail in 2.5 %."""
    draw, cdf = WORLDS[world]
    rng = np.random.default_rng(11)
    gamma = nu / (1 - nu)
    above = below = 0
    for _ in range(runs):
        train = np.round(rng.uniform(0, 1, 50) ** rng.choice([1, 3, 9]), 3)
        found = overfitting_ceiling(train, draw(rng, fresh), nu).model
        exact = truth(train, cdf, gamma)
        above += found.upper < exact
        below += found.lower > exact + 1e-12
    return above, below


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("nu", [0.25, 0.5, 0.75])
def test_one_run_covers(world, nu):
    """P(Bin(300, 0.025) > 18) < 1e-3."""
    assert max(misses(world, nu=nu)) <= 18


def test_one_run_without_the_price_of_choosing_is_caught(monkeypatch):
    """Negative control: shares without a band miss from above about half of the time."""
    monkeypatch.setattr(
        overfitting,
        "_band",
        lambda sample, at, *_: 2 * (np.searchsorted(np.sort(sample), at, "right") / len(sample),),
    )
    assert misses("uniform")[0] > 60


def accusations(losses, sizes=(100, 2000), runs=200, nu=0.5):
    """Count how often a model that ignores its data is said to leak: fresh and training alike."""
    rng = np.random.default_rng(4)
    drawn = ([losses(rng.exponential(size=n)) for n in sizes] for _ in range(runs))
    return sum(overfitting_ceiling(*pair, nu).model.upper < 1 for pair in drawn)


@pytest.mark.parametrize("nu", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("digits", [8, 1, 0])
def test_a_model_that_ignores_its_data_is_seldom_accused(digits, nu):
    """At most 5 % of 200 runs: more than 20 have probability 6e-4."""
    assert accusations(lambda values: np.round(values, digits), nu=nu) <= 20


def test_training_shares_taken_for_probabilities_are_caught(monkeypatch):
    """Negative control: with fresh losses alone charged it is accused nearly always."""
    charged = overfitting._band

    def band(sample, at, error, few):
        if few is not None:
            return charged(sample, at, error, few)
        return 2 * (np.searchsorted(np.sort(sample), at, "right") / len(sample),)

    monkeypatch.setattr(overfitting, "_band", band)
    assert accusations(np.copy) > 150


def test_a_band_at_its_own_losses_covers():
    """Both sides at all thresholds, near the ends too; each fails in at most 5 % of 400 samples.

    More than 36 have probability 1e-4.  Losses a tenth lower are caught.
    """
    rng = np.random.default_rng(6)
    at = np.append(np.linspace(0, 1, 2001), [1e-4, 1 - 1e-4])
    above = below = shifted = 0
    for _ in range(400):
        sample = rng.uniform(0, 1, 150)
        high, low = overfitting._band(sample, at, 0.05, None)
        above, below = above + (high < at - 1e-12).any(), below + (low > at + 1e-12).any()
        shifted += (overfitting._band(sample * 0.9, at, 0.05, None)[1] > at).any()
    assert max(above, below) <= 36
    assert shifted > 36


def test_one_run_is_close_when_records_are_many():
    rng = np.random.default_rng(0)
    train = rng.uniform(0, 1, 50_000) ** 4
    found = overfitting_ceiling(train, rng.uniform(0, 1, 100_000)).model
    exact = truth(train, lambda t: t, 1.0)
    assert exact - 0.02 < found.lower <= exact <= found.upper < exact + 0.02


def test_one_run_is_an_estimate_for_mis_and_says_so():
    rng = np.random.default_rng(0)
    found = overfitting_ceiling(rng.uniform(0, 1, 30), rng.uniform(0, 1, 10_000))
    assert isinstance(found.security, Estimate)
    assert isinstance(found.model, AuditBound)
    assert "one training run" in found.security.warnings[0]
    # A model that saw nothing has MIS = 1; the estimate at the fitted threshold is below it.
    assert 0.05 < 1 - found.security.value < 2 / math.sqrt(30)


# ---- several runs ------------------------------------------------------------------------------


def memorising_runs(rng, runs, n, m, kept):
    """A learner that keeps each record with probability ``kept``: loss 0 if kept, else U(0,1).

    Fresh losses are U(0,1), so at ε = 0 the ceiling is 1 - kept, and MIS is at most that.
    """
    train = np.where(rng.uniform(size=(runs, n)) < kept, 0.0, rng.uniform(size=(runs, n)))
    return train, rng.uniform(size=(runs, m))


def all_or_nothing(rng, runs, n, m, kept):
    """The same on average, but a run keeps all of its records or none."""
    keeps = rng.uniform(size=(runs, 1)) < kept
    train = np.where(keeps, 0.0, rng.uniform(size=(runs, n)))
    return train, rng.uniform(size=(runs, m))


@pytest.mark.parametrize("world", [memorising_runs, all_or_nothing])
def test_several_runs_cover(world):
    """Ceiling 0.4 at ε = 0 in both worlds; P(Bin(60, 0.025) > 7) < 1e-3."""
    rng = np.random.default_rng(3)
    above = below = 0
    for _ in range(60):
        found = overfitting_ceiling(*world(rng, 40, 25, 25, 0.6), thresholds=[0.0])
        assert isinstance(found.security, AuditBound)
        above += found.security.upper < 0.4
        below += found.security.lower > 0.4
    assert max(above, below) <= 7


def test_one_run_taken_for_mis_is_caught():
    """Negative control: in the all-or-nothing world a single run's bound is no bound on MIS."""
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(100):
        train, fresh = all_or_nothing(rng, 1, 25, 400, 0.6)
        wrong += overfitting_ceiling(train[0], fresh[0]).model.upper < 0.4
    assert wrong > 30


def test_several_runs_with_chosen_thresholds():
    rng = np.random.default_rng(5)
    found = overfitting_ceiling(*memorising_runs(rng, 201, 25, 100, 0.8))
    assert found.runs == 200
    assert 0.15 < found.security.lower <= found.security.estimate <= found.security.upper < 0.35
    assert found.model is None


def test_result_is_json_ready():
    rng = np.random.default_rng(6)
    one = overfitting_ceiling(np.append(np.zeros(30), np.inf), rng.uniform(0, 1, 300))
    many = overfitting_ceiling(*memorising_runs(rng, 10, 25, 25, 0.5), thresholds=[0.0])
    for found, kind in ((one, "estimate"), (many, "audit")):
        fields = json.loads(json.dumps(plain(found), allow_nan=False))
        assert (fields["game"], fields["protects"]) == ("iid", "average record")
        assert fields["security"]["kind"] == kind


GOOD = np.linspace(0, 1, 30)


@pytest.mark.parametrize(
    ("train", "fresh", "words"),
    [
        (GOOD[:5], GOOD, "train_losses must be at least 20"),
        (GOOD, GOOD[:19], "fresh_losses must be at least 20"),
        (GOOD, [], "fresh_losses must have at least 20"),
        (np.append(GOOD, np.nan), GOOD, "nan at place 30"),
        (["a"] * 30, GOOD, "train_losses must be numbers"),
        ([GOOD, GOOD], [GOOD], "one array per run"),
        ([GOOD, GOOD[:25], GOOD], [GOOD] * 3, "as many records in every run"),
        ([GOOD, GOOD], [GOOD, GOOD], "at least 3 runs"),
    ],
)
def test_refusals(train, fresh, words):
    with pytest.raises(InputError, match=words):
        overfitting_ceiling(train, fresh)


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="nu"):
        overfitting_ceiling(GOOD, GOOD, nu=1.0)
    with pytest.raises(InputError, match="confidence"):
        overfitting_ceiling(GOOD, GOOD, confidence=1.0)
