"""Networks: trained on all rows by DP-SGD, and modules as statistics of a secret half."""

import math
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from memberbound import predict, protect
from memberbound.dp import AdvantageTarget, DpSgd, EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.learners import network_factory
from memberbound.release import networks as module
from memberbound.release.budget import NeighbourBudget, Part
from memberbound.release.calibration import FreshSubsets
from memberbound.release.networks import (
    NetworkBudget,
    PublicArray,
    TrainedModule,
    TrainedOutputs,
    Training,
    fit_network,
    fit_network_on_arrays,
    module_parameters,
    set_module_parameters,
    step_reach,
    train_network,
)
from memberbound.release.randomness import InsecureSource
from memberbound.release.refitting import calibrate_neighbour
from memberbound.release.releasing import released
from memberbound.release.saving import load, save

if find_spec("torch") is None or find_spec("opacus") is None:
    pytest.skip("networks need the extra torch", allow_module_level=True)


class _Later:
    """PyTorch when a test needs it: every test process collects this file, and few run it."""

    def __getattr__(self, name):
        return getattr(import_module("torch"), name)


torch = _Later()

# ── The noise: against dp-accounting, replace-one ─────────────────────────────────────────────────

#: dp-accounting's lattice is a little above the truth, ours too.
CLOSE = 2e-3


def theirs(steps, mu=0.0, relation="REPLACE_ONE"):
    """Advantage over two of T steps, and of a Gaussian release beside them, by dp-accounting."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    how = getattr(pld.NeighborRel if hasattr(pld, "NeighborRel") else neighbours(), relation)

    def law(sigma, rate):
        return pld.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=2e-4, neighboring_relation=how
        )

    found = law(steps.noise_multiplier, steps.sample_rate).self_compose(steps.steps)
    if mu:
        found = found.compose(law((2.0 if relation == "REPLACE_ONE" else 1.0) / mu, 1.0))
    return found.get_delta_for_epsilon(0.0) / 2


def neighbours():
    return pytest.importorskip("dp_accounting").NeighboringRelation


def paid(eta, mu):
    parts = [Part("histograms", mu)] if mu else []
    return NeighbourBudget(1.0, 1e-9, parts, 0.5)


@pytest.mark.parametrize(
    ("eta", "rate", "steps", "mu"),
    [(0.05, 0.05, 60, 0.0), (0.05, 0.1, 40, 0.1), (0.2, 0.5, 9, 0.3)],
)
def test_the_noise_is_enough_and_hardly_more_by_dp_accounting(eta, rate, steps, mu):
    budget = NetworkBudget.trained(eta, paid(eta, mu), rate, steps)
    assert budget.curve().eta <= eta
    assert theirs(budget.training, mu) <= eta * (1 + CLOSE)
    less = DpSgd(budget.training.noise_multiplier * (1 - 4 * CLOSE), rate, steps)
    assert theirs(less, mu) > eta * (1 - 2 * CLOSE)


def test_add_remove_noise_passed_off_as_replace_one_is_caught():
    """The noise that keeps an advantage of 2η when a record is removed breaks η when replaced."""
    sigma = calibrated_noise_multiplier(AdvantageTarget(0.1), 0.05, 60, "add-remove")
    wrong = NetworkBudget(1.0, 0.0, [], 1.0, DpSgd(sigma, 0.05, 60))
    assert theirs(wrong.training, relation="ADD_OR_REMOVE_ONE") <= 0.05 * (1 + CLOSE)
    assert wrong.curve().eta > 0.08
    assert theirs(wrong.training) > 0.08


def test_preprocessing_that_is_left_out_of_the_account_is_caught():
    alone = calibrated_noise_multiplier(EtaTarget(0.05), 0.05, 60, "replace-one")
    beside = NetworkBudget(1.0, 0.0, [Part("histograms", 0.1)], 1.0, DpSgd(alone, 0.05, 60))
    assert beside.curve().eta > 0.052
    assert theirs(beside.training, 0.1) > 0.052


# ── The sums: clips, samples, neighbours ──────────────────────────────────────────────────────────


def two_layers(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 4), torch.nn.ReLU(), torch.nn.Linear(4, outputs)
    )


def sums_of(rows, wanted, monkeypatch, *, rate=0.5, steps=1, clip=0.7):
    """Exact sums of clipped gradients, as they meet the noise."""
    met = []
    keep = module.noisy_release

    def noted(values, scale, source):
        met.append(np.array(values).ravel())
        return keep(values, scale, source)

    monkeypatch.setattr(module, "noisy_release", noted)
    train_network(
        module._module(two_layers, (3,), 2),
        rows,
        wanted,
        np.ones(len(rows)),
        Training(steps, rate, 0.1, clip),
        shape=(3,),
        classes=True,
        scale=1.0,
        source=InsecureSource(4),
    )
    monkeypatch.undo()
    return np.concatenate(met)


def table(seed=0, rows=600):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 3))
    return features, (features[:, 0] > 0).astype(int)


@pytest.mark.parametrize("value", [1e3, -1e18, np.nan, np.inf, 0.0])
def test_a_replaced_record_moves_a_sum_by_at_most_two_clips(monkeypatch, value):
    """Neighbours with the same coins, for every record of a sample that crosses blocks."""
    rows, wanted = table()
    before = sums_of(rows, wanted, monkeypatch)
    assert np.isfinite(before).all()
    moved = []
    for record in (0, 255, 256, 599):
        other, goal = rows.copy(), wanted.copy()
        other[record], goal[record] = value, 1 - goal[record]
        moved.append(np.linalg.norm(sums_of(other, goal, monkeypatch) - before))
    assert max(moved) <= 2 * step_reach(0.7, 600)
    assert max(moved) > 0


def test_a_single_record_adds_at_most_the_clip_and_the_check_sees_a_missing_one(monkeypatch):
    rows, wanted = np.full((2, 3), 50.0), np.array([0, 1])
    worst = sums_of(rows[:1], wanted[:1], monkeypatch, rate=1.0)
    assert 0.69 < np.linalg.norm(worst) <= 0.7
    wide = sums_of(rows[:1], wanted[:1], monkeypatch, rate=1.0, clip=1e6)
    assert np.linalg.norm(wide) > 0.7


def test_a_sample_takes_each_row_with_at_most_its_rate():
    class Words:
        def words(self, count):
            edge = 2**62
            return np.array([0, edge - 1, edge, 2**64 - 1], dtype=np.uint64)[:count]

    assert module._sample(4, 0.25, Words()).tolist() == [0, 1]
    assert module._sample(4, 1.0, Words()).tolist() == [0, 1, 2, 3]
    assert module._sample(4, math.nextafter(0.25, 0), Words()).tolist() == [0]


def test_an_empty_sample_is_a_step_of_pure_noise(monkeypatch):
    rows, wanted = table(rows=5)
    assert not sums_of(rows, wanted, monkeypatch, rate=1e-12).any()


# ── Releases: tables and arrays, saved and read again ─────────────────────────────────────────────

QUICK = Training(12, 0.3, 0.5)


def people(rows=900):
    rng = np.random.default_rng(3)
    age, sex = rng.integers(20, 80, rows), rng.choice(["F", "M"], rows)
    return pd.DataFrame({"age": age, "sex": sex, "ill": np.where(age > 50, "yes", "no")})


BOUNDS = {"age": [0, 100], "sex": ["F", "M"], "ill": ["no", "yes"]}


def test_a_network_of_a_raw_table_and_its_file(tmp_path):
    how = Training(60, 0.5, 1.0)
    made = fit_network(
        people(), "ill", two_layers, eta=0.2, bounds=BOUNDS, training=how, source=InsecureSource(1)
    )
    assert made.columns == ("age", "sex")
    assert made.certificate_.value <= 0.2
    assert set(made.certificate_.theorems) == {"X12", "X22"}
    assert any("seed" in said for said in made.certificate_.assumptions)
    new = pd.DataFrame({"sex": ["F", "M"], "age": [25, 75]})
    assert made.predict(new).tolist() == ["no", "yes"]
    file = tmp_path / "net.safetensors"
    save(made, file)
    again = load(file, factory=two_layers)
    assert (again.predict_proba(new) == made.predict_proba(new)).all()
    assert again.to_dict() == made.to_dict()
    assert again.budget.curve().eta == made.budget.curve().eta
    with pytest.raises(InputError, match="learner"):
        load(file)
    with pytest.raises(InputError, match="factory"):
        load(file, factory=torch.nn.Linear)


def test_nothing_but_noisy_numbers_differs_between_neighbours():
    first, second = people(), people()
    second.loc[7] = [99, "F", "no"]
    made = [
        fit_network(t, "ill", two_layers, eta=0.1, bounds=BOUNDS, training=QUICK)
        for t in (first, second)
    ]
    said = [m.to_dict() for m in made]
    for each in said:  # the noisy mean of a column with a public range
        each["encoder"]["columns"][0]["scaling"].pop("centre")
    assert said[0] == said[1]
    tensors = made[0].tensors()
    assert all(t.shape == made[1].tensors()[k].shape for k, t in tensors.items())


def test_a_target_of_numbers():
    numbers = people().assign(ill=lambda t: t["age"] * 2.0)
    made = fit_network(
        numbers,
        "ill",
        two_layers,
        eta=0.2,
        bounds=BOUNDS | {"ill": [0, 200]},
        training=Training(60, 0.5, 0.3),
        source=InsecureSource(1),
    )
    low, high = made.predict(pd.DataFrame({"age": [25, 75], "sex": ["F", "F"]}))
    assert low < high
    assert made.probabilities(np.zeros((1, 4))) is None


def test_arrays_of_a_public_range():
    rng = np.random.default_rng(0)
    images = rng.random((400, 1, 6, 6)) / 2
    digits = np.repeat([3, 8], 200)
    images[digits == 8] += 0.5

    def small():
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(32, 2)
        )

    made = fit_network_on_arrays(
        images,
        digits,
        small,
        eta=0.2,
        classes=[3, 8],
        training=Training(40, 0.5, 0.5),
        source=InsecureSource(2),
    )
    assert (made.predict(images) == digits.astype(str)).mean() > 0.9
    assert np.allclose(made.predict_proba(images).sum(axis=1), 1)
    assert PublicArray((2,)).transform([[np.nan, 7.0]]).tolist() == [[0.0, 1.0]]
    with pytest.raises(InputError, match="shape"):
        made.predict(images[:, :, :5])


def test_networks_that_mix_rows_or_do_not_fit_are_refused():
    class Mixing(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.inner = torch.nn.Linear(inputs, outputs)

        def forward(self, rows):
            return self.inner(rows - rows.mean(dim=0))

    def normalised(inputs, outputs):
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, outputs)
        )

    for factory, said in (
        (Mixing, "other rows"),
        (normalised, "BatchNorm"),
        (lambda a, _b: torch.nn.Linear(a, 7), "2 numbers"),
        (lambda _a, b: torch.nn.Linear(2, b), "shape"),
        (lambda _a, _b: "no module", "torch module"),
        (lambda _a, _b: torch.nn.ReLU(), "parameters"),
    ):
        with pytest.raises(InputError, match=said):
            fit_network(people(), "ill", factory, eta=0.1, bounds=BOUNDS, training=QUICK)


def test_protect_and_predict_by_the_name_of_a_factory(tmp_path, monkeypatch):
    (tmp_path / "nets_of_a_test.py").write_text(
        "import torch\n\ndef make(inputs, outputs):\n    return torch.nn.Linear(inputs, outputs)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(Training, "default", classmethod(lambda cls, rows: QUICK))
    file = tmp_path / "net.safetensors"
    found = protect(
        people(),
        target="ill",
        learner="nets_of_a_test:make",
        record="every",
        bounds=BOUNDS,
        eta=0.2,
        out=file,
        insecure_seed=1,
    )
    said = found.to_dict()
    assert said["game"] == "neighbour"
    assert said["rows_trained"] == 900
    assert said["mu"] is None
    assert found.calibration.certificate.value <= 0.2
    assert "ε at δ" in found.summary()
    answers = predict(file, people().drop(columns="ill"), learner="nets_of_a_test:make")
    assert answers.rows == 900
    with pytest.raises(InputError, match="learner"):
        predict(file, people())
    with pytest.raises(InputError, match="PyTorch"):
        predict(file, people(), learner="logistic")


def test_what_is_a_factory_of_networks():
    assert network_factory(two_layers) is two_layers
    assert network_factory("logistic") is None
    assert network_factory(lambda: 3) is None
    assert network_factory(torch.nn.Linear(1, 1)) is None


# ── Modules as statistics of a secret half ────────────────────────────────────────────────────────


@cache
def points():
    rows = torch.linspace(-1, 1, 40).reshape(20, 2)
    return rows, (rows[:, 0] > 0).float()


def blank():
    return torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
    )


def train(rows):
    torch.manual_seed(0)
    module = blank().train()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    loss = torch.nn.BCEWithLogitsLoss()
    X, Y = points()
    for _ in range(3):
        optimiser.zero_grad()
        loss(module(X[rows])[:, 0], Y[rows]).backward()
        optimiser.step()
    return module


def test_round_trip_with_the_running_means():
    module = train(np.arange(10))
    vector = module_parameters(module)
    # 9 + 4 weights and biases, 6 of the normalisation, and its running means and variances.
    assert vector.shape == (2 * 3 + 3 + 3 + 1 + 6 + 6,)
    X, _ = points()
    again = set_module_parameters(blank(), vector).eval()
    with torch.no_grad():
        assert torch.equal(again(X), module.eval()(X))


def test_the_same_rows_give_the_same_vector():
    statistic = TrainedModule(train, blank)
    assert statistic.dimension == 25
    assert (statistic(np.arange(10)) == statistic(np.arange(10))).all()
    assert (statistic(np.arange(10)) != statistic(np.arange(1, 11))).any()


def test_calibrate_and_release():
    statistic = TrainedModule(train, blank)
    fresh = FreshSubsets(SubsetGame(20, 10), 1)
    found = calibrate_neighbour(statistic, fresh, eta=0.3, pairs=30, workers=1)
    assert found.certificate.value <= 0.3
    vector = released(statistic, found, np.arange(10), InsecureSource(1)).values
    clean = statistic(np.arange(10))
    assert (vector != clean).any()
    module = statistic.model(vector)
    assert module_parameters(module) == pytest.approx(vector, rel=1e-6)
    assert not module.training


def test_outputs_on_a_query():
    X, _ = points()
    statistic = TrainedOutputs(train, X[:4])
    assert statistic.dimension == 4
    direct = train(np.arange(10)).eval()(X[:4]).detach()
    assert statistic(np.arange(10)) == pytest.approx(direct.numpy().ravel())


def test_bad_input():
    with pytest.raises(InputError, match="length"):
        set_module_parameters(blank(), np.zeros(3))
    with pytest.raises(InputError, match="finite"):
        set_module_parameters(blank(), np.full(25, np.nan))
    with pytest.raises(InputError, match="parameters"):
        module_parameters(torch.nn.ReLU())
