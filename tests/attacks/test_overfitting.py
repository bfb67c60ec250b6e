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
        found = overfitting_ceiling(train, draw(rng, fresh), gamma=gamma).model
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
    return sum(overfitting_ceiling(*pair, gamma=nu / (1 - nu)).model.upper < 1 for pair in drawn)


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


def test_one_run_taken_for_mis_is_caught():
    """Negative control: one run of a learner that keeps all records or none is no bound on MIS.

    It keeps all in 60 % of its runs: loss 0 if kept, else U(0,1) as fresh ones, so MIS ≤ 0.4.
    """
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(100):
        train = rng.uniform(size=25) * (rng.uniform() >= 0.6)
        wrong += overfitting_ceiling(train, rng.uniform(size=400)).model.upper < 0.4
    assert wrong > 30


def test_result_is_json_ready():
    rng = np.random.default_rng(6)
    found = overfitting_ceiling(np.append(np.zeros(30), np.inf), rng.uniform(0, 1, 300))
    fields = json.loads(json.dumps(plain(found), allow_nan=False))
    assert (fields["game"], fields["protects"]) == ("iid", "average record")
    assert fields["security"]["kind"] == "estimate"


GOOD = np.linspace(0, 1, 30)


@pytest.mark.parametrize(
    ("train", "fresh", "words"),
    [
        (GOOD[:5], GOOD, "train_losses must be at least 20"),
        (GOOD, GOOD[:19], "fresh_losses must be at least 20"),
        (GOOD, [], "fresh_losses must be at least 20"),
        (np.append(GOOD, np.nan), GOOD, "nan at place 30"),
        (["a"] * 30, GOOD, "train_losses must be numbers"),
        ([GOOD, GOOD], GOOD, "train_losses must be at least 20"),
    ],
)
def test_refusals(train, fresh, words):
    with pytest.raises(InputError, match=words):
        overfitting_ceiling(train, fresh)


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="gamma"):
        overfitting_ceiling(GOOD, GOOD, gamma=0.0)
    with pytest.raises(InputError, match="confidence"):
        overfitting_ceiling(GOOD, GOOD, confidence=1.0)
