"""Networks: trained on all rows by DP-SGD."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.oracle.replay import replayed

from memberbound import predict, protect
from memberbound.dp import AdvantageTarget, DpSgd, EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError
from memberbound.release import budget as budgets
from memberbound.release.all_rows import networks
from memberbound.release.all_rows.gradient import TrainingRows
from memberbound.release.all_rows.network_modules import check_module, make_module, probe_training
from memberbound.release.all_rows.network_training import (
    Training,
    sample_rows,
    step_reach,
    train_network,
)
from memberbound.release.all_rows.networks import NetworkBudget, fit_network
from memberbound.release.budget import Budget, BudgetShare, NoisySums
from memberbound.release.randomness import InsecureSource
from memberbound.release.saving import load, save
from memberbound.tables.persons import Persons
from memberbound.tables.records import read_records
from optional import Later

torch, _ = Later("torch"), Later("opacus")

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
    parts = [BudgetShare("histograms", mu)] if mu else []
    return Budget(1.0, 1e-9, parts, 0.5)


@pytest.mark.parametrize(
    ("eta", "rate", "steps", "mu"),
    [(0.05, 0.05, 60, 0.0), (0.05, 0.1, 40, 0.1), (0.2, 0.5, 9, 0.3)],
)
def test_the_noise_is_enough_and_hardly_more_by_dp_accounting(eta, rate, steps, mu):
    budget = NetworkBudget.calibrate(eta, paid(eta, mu), rate, steps)
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
    beside = NetworkBudget(1.0, 0.0, [BudgetShare("histograms", 0.1)], 1.0, DpSgd(alone, 0.05, 60))
    assert beside.curve().eta > 0.052
    assert theirs(beside.training, 0.1) > 0.052


# ── The sums: clips, samples, neighbours ──────────────────────────────────────────────────────────


def two_layers(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 4), torch.nn.ReLU(), torch.nn.Linear(4, outputs)
    )


def sums_of(rows, wanted, monkeypatch, *, rate=0.5, steps=1, clip=0.7, factory=two_layers):
    """Exact sums of clipped gradients, as they meet the noise."""
    met = []
    keep = budgets.noisy_release

    def note(values, scale, source):
        met.append(np.array(values).ravel())
        return keep(values, scale, source)

    monkeypatch.setattr(budgets, "noisy_release", note)
    train_network(
        make_module(factory, 3, 2),
        TrainingRows(rows, wanted),
        Training(steps, rate, 0.1, clip),
        classes=True,
        noise=NoisySums(1.0, 10**6, InsecureSource(4)),
    )
    monkeypatch.undo()
    return np.concatenate(met)


def table(seed=0, rows=600):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 3))
    return features, (features[:, 0] > 0).astype(int)


@pytest.mark.parametrize("value", [1e3, -1e18, np.nan, np.inf, 0.0])
def test_the_sensitivity_of_a_sum_is_at_most_two_clips(monkeypatch, value):
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


def made_of(forward, **layers):
    """A factory of a module with these layers, or parameters, that answers by ``forward``."""

    def factory(inputs, outputs):
        class Made(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for name, make in layers.items():
                    setattr(self, name, make(inputs, outputs))

            def forward(self, x):
                return forward(self, x)

        return Made()

    return factory


def repeat(net, x):
    hidden = net.first(x).tanh()
    return net.last(net.twice(net.twice(hidden).tanh()).tanh())


NETWORKS = {
    "a layer used twice": made_of(
        repeat,
        first=lambda i, _: torch.nn.Linear(i, 4),
        twice=lambda *_: torch.nn.Linear(4, 4),
        last=lambda _, o: torch.nn.Linear(4, o),
    ),
    "own parameters": made_of(
        lambda net, x: (x @ net.weight) * net.gain,
        weight=lambda i, o: torch.nn.Parameter(0.3 * torch.randn(i, o)),
        gain=lambda _, o: torch.nn.Parameter(torch.ones(o)),
    ),
    "convolution": made_of(
        lambda net, x: net.last(net.norm(net.first(x[:, None])).relu().flatten(1)),
        first=lambda *_: torch.nn.Conv1d(1, 4, 2),
        norm=lambda *_: torch.nn.GroupNorm(2, 4),
        last=lambda i, o: torch.nn.Linear(4 * (i - 1), o),
    ),
    "embedding": made_of(
        lambda net, x: net.last(net.first(x.nan_to_num().clamp(-2, 2).round().long() + 2).mean(1)),
        first=lambda *_: torch.nn.Embedding(5, 4),
        last=lambda _, o: torch.nn.Linear(4, o),
    ),
    "dropout": made_of(
        lambda net, x: net.last(net.coins(net.first(x).relu())),
        first=lambda i, _: torch.nn.Linear(i, 6),
        coins=lambda *_: torch.nn.Dropout(0.5),
        last=lambda _, o: torch.nn.Linear(6, o),
    ),
}


def gradient_sum(factory, rows, wanted, clip):
    """Σ of clipped gradients, row by row with autograd: what a first step must release."""
    network = make_module(factory, 3, 2)
    total = 0.0
    for row, goal in zip(
        torch.tensor(rows, dtype=torch.float32), torch.tensor(wanted), strict=True
    ):
        loss = torch.nn.functional.cross_entropy(network(row[None]), goal[None])
        parts = torch.autograd.grad(loss, list(network.parameters()))
        flat = torch.cat([part.reshape(-1) for part in parts]).double().numpy()
        total = total + flat * min(1.0, clip / np.linalg.norm(flat))
    return total


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_neighbours_differ_by_two_clips_for_any_layers(monkeypatch, name):
    """The same coins, and noise independent of the table: every step of training is compared."""
    factory, steps, clip = NETWORKS[name], 3, 0.7
    probe_training(make_module(factory, 3, 2), 3, 2)
    rows, wanted = table(rows=60)

    def steps_of(rows, wanted):
        _, met = replayed(
            monkeypatch,
            lambda: train_network(
                make_module(factory, 3, 2),
                TrainingRows(rows, wanted),
                Training(steps, 0.5, 0.1, clip),
                classes=True,
                noise=NoisySums(1.0, 10**6, InsecureSource(4)),
            ),
        )
        tensors = np.array([np.concatenate([v.ravel() for v, *_ in met])])
        return tensors.reshape(steps, -1)

    before, moved = steps_of(rows, wanted), []
    for value in (1e3, np.nan):
        for record in (0, 17, 59):
            other, goal = rows.copy(), wanted.copy()
            other[record], goal[record] = value, 1 - goal[record]
            moved += list(np.linalg.norm(steps_of(other, goal) - before, axis=1))
    assert max(moved) <= 2 * step_reach(clip, 60)
    assert max(moved) > 0.5 * clip
    if name != "dropout":  # with coins drawn by index
        source = InsecureSource(4)
        source.words(1)
        sample = sample_rows(60, 0.5, source)
        expected = gradient_sum(factory, rows[sample], wanted[sample], clip)
        np.testing.assert_allclose(before[0], expected, atol=1e-3)


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

    assert sample_rows(4, 0.25, Words()).tolist() == [0, 1]
    assert sample_rows(4, 1.0, Words()).tolist() == [0, 1, 2, 3]
    assert sample_rows(4, math.nextafter(0.25, 0), Words()).tolist() == [0]


def test_a_sample_takes_one_row_of_a_person_and_each_in_its_turn():
    persons, taken = Persons(np.array([0, 1, 51]), 53), []
    source = InsecureSource(4)
    for _ in range(400):
        sample = sample_rows(53, 0.9, source, persons)
        owners = np.searchsorted(persons.starts, sample, side="right")
        assert len(set(owners.tolist())) == len(sample) <= 3
        taken += sample.tolist()
    assert set(taken) == set(range(53))
    assert sum(row in range(1, 51) for row in taken) == pytest.approx(360, abs=4 * 6)


def test_outputs_for_persons_do_not_depend_on_row_order(monkeypatch):
    """One more row of a person shifts all others; in blocks their last digits change too."""
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"who": np.arange(90) // 2, "a": draws.uniform(-1, 1, 90)})
    rows["y"] = np.where(rows["a"] > 0, "yes", "no")
    public = {"a": [-1, 1], "y": ["no", "yes"]}
    records = read_records(rows).group_by_person("who")
    asked, honest = [], networks.to_tensor

    def note(block, unit):
        asked.append(len(block) if isinstance(block, np.ndarray) else 0)
        return honest(block, unit)

    monkeypatch.setattr(networks, "to_tensor", note)
    options = {"eta": 0.4, "bounds": public, "source": InsecureSource(1), "name": "small"}

    def factory(inputs, outputs):
        return torch.nn.Linear(inputs, outputs)

    made = fit_network(records, "y", factory, **options)
    assert asked[-90:] == [1] * 90
    new = made.encoder.rows(read_records(rows).columns)
    alone = replace(made.model, at_once=1)
    assert (alone.scores(new[:])[7:] == alone.scores(new[7:])).all()


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


def network(table, factory, *, eta=0.1, bounds=BOUNDS, training=QUICK):
    source = InsecureSource(1)
    options = {"eta": eta, "bounds": bounds, "training": training, "source": source}
    return fit_network(table, "ill", factory, **options)


def test_a_network_of_a_raw_table_and_its_file(tmp_path, monkeypatch):
    how, scales, keep = Training(60, 0.5, 1.0), Counter(), budgets.noisy_release

    def note(values, scale, source):
        scales[scale] += np.size(values)
        return keep(values, scale, source)

    monkeypatch.setattr(budgets, "noisy_release", note)
    made = network(people(), two_layers, eta=0.2, training=how)
    # The noise of the record is the noise that every step drew.
    drawn = made.budget.drawn
    assert scales[drawn.noise_scale] == drawn.coordinates >= 60
    assert made.calibration_.noise.scale == drawn.noise_scale
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


def test_neighbours_under_the_same_noise_are_stored_alike(monkeypatch):
    def store(rows):
        made = network(rows, two_layers)
        return made.to_dict(), {name: t.tolist() for name, t in made.tensors().items()}

    tables = people(), people()
    tables[1].loc[7] = [99, "F", "no"]
    (first, sums), (second, others) = (
        replayed(monkeypatch, lambda rows=rows: store(rows)) for rows in tables
    )
    assert first == second
    assert any((a != b).any() for (a, *_), (b, *_) in zip(sums, others, strict=True))


def test_a_target_of_numbers():
    numbers = people().assign(ill=lambda t: t["age"] * 2.0)
    asked = {"eta": 0.2, "bounds": BOUNDS | {"ill": [0, 200]}}
    made = network(numbers, two_layers, training=Training(60, 0.5, 0.3), **asked)
    low, high = made.predict(pd.DataFrame({"age": [25, 75], "sex": ["F", "F"]}))
    assert low < high
    assert not hasattr(made, "predict_proba")


def test_networks_that_mix_rows_or_do_not_fit_are_refused():
    class Mixing(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.inner = torch.nn.Linear(inputs, outputs)

        def forward(self, rows):
            return self.inner(rows - rows.mean(dim=0))

    def normalise(inputs, outputs):
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, outputs)
        )

    for factory, said in (
        (Mixing, "other rows"),
        (MIXING["mean of the inputs"], "gradient of a row"),
        (normalise, "BatchNorm"),
        (lambda a, _b: torch.nn.Linear(a, 7), "2 numbers"),
        (lambda _a, b: torch.nn.Linear(2, b), "rows of"),
        (lambda _a, _b: "no module", "torch module"),
        (
            made_of(lambda net, x: (net.only(x),), only=torch.nn.Linear),
            "tensor, got tuple",
        ),
        (lambda _a, _b: torch.nn.ReLU(), "parameters"),
    ):
        with pytest.raises(InputError, match=said):
            network(people(), factory)


# ── Rows that influence each other while the network trains ───────────────────────────────────────


def inner_and(forward, *, start=lambda network: None):
    """Return a factory: a linear layer, and an operation on its rows during training."""

    def network(inputs, outputs):
        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(inputs, outputs)
                start(self)

            def forward(self, rows):
                return forward(self, rows) if self.training else self.inner(rows)

        return Network()

    return network


def remember_mean(network, rows):
    network.mean = 0.9 * getattr(network, "mean", 0.0) + 0.1 * rows.detach().mean()
    return network.inner(rows - network.mean)


def count_rows(network, rows):
    network.seen += 1
    return network.inner(rows)


def with_buffer(network):
    network.register_buffer("seen", torch.zeros(1))


#: Modules that mix rows in train mode only, which the probe in eval mode cannot detect.
MIXING = {
    "mean of the inputs": inner_and(lambda n, rows: n.inner(rows - rows.mean(dim=0))),
    "mean of the answers": inner_and(lambda n, rows: n.inner(rows) - n.inner(rows).mean()),
    "constant shift": inner_and(lambda n, rows: n.inner(rows) + rows.detach().sum()),
    "largest value": inner_and(lambda n, rows: n.inner(rows / rows.abs().max().clamp(min=100.0))),
    "row before": inner_and(lambda n, rows: n.inner(rows + 0.1 * rows.roll(1, 0))),
    "sum in the backward pass": inner_and(
        lambda n, rows: n.inner(rows) * (1 + 1e-2 * n.inner(rows).sum())
    ),
    "number of zero rows": inner_and(lambda n, rows: n.inner(rows) * (rows == 0).sum()),
    "place": inner_and(lambda n, rows: n.inner(rows) * torch.arange(1.0, len(rows) + 1)[:, None]),
    "memory outside the tensors": inner_and(remember_mean),
    "a buffer": inner_and(count_rows, start=with_buffer),
    "coins of its own": inner_and(
        lambda n, rows: n.inner(torch.nn.functional.dropout(rows, 0.5, training=True))
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_a_network_that_mixes_rows_only_while_it_trains_is_refused(name):
    """Each passes the checks in eval mode (the negative control) and fails the probe."""
    made = make_module(MIXING[name], 3, 2)
    check_module(made, 3, 2)
    with pytest.raises(InputError, match="learner"):
        probe_training(made, 3, 2)


def test_a_module_that_mixes_rows_breaks_the_sensitivity(monkeypatch):
    """One record moves the sum by more than two clips, the assumption of the certificate."""
    mixing, (rows, wanted) = MIXING["mean of the inputs"], table()
    before = sums_of(rows, wanted, monkeypatch, rate=1.0, factory=mixing)
    rows[300] = 1e6
    after = sums_of(rows, wanted, monkeypatch, rate=1.0, factory=mixing)
    assert np.linalg.norm(after - before) > 10 * 2 * step_reach(0.7, 600)


def normal_layers(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8),
        torch.nn.LayerNorm(8),
        torch.nn.GELU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 8),
        torch.nn.GroupNorm(2, 8),
        torch.nn.AlphaDropout(0.2),
        torch.nn.Linear(8, outputs),
    )


class TiedAndFrozen:
    """A layer that is used twice beside one that is not trained."""

    def __new__(cls, inputs, outputs):
        shared = torch.nn.Linear(inputs, inputs)
        still = torch.nn.Linear(inputs, inputs).requires_grad_(False)
        return torch.nn.Sequential(
            shared, torch.nn.Tanh(), still, shared, torch.nn.Linear(inputs, outputs)
        )


@pytest.mark.parametrize("factory", [two_layers, normal_layers, TiedAndFrozen])
def test_a_network_that_treats_every_row_by_itself_passes(factory):
    made = make_module(factory, 5, 2)
    state = {name: t.clone() for name, t in made.state_dict().items()}
    coins = torch.random.get_rng_state()
    probe_training(made, 5, 2)
    assert made.training
    assert torch.equal(torch.random.get_rng_state(), coins)
    assert all(torch.equal(t, state[name]) for name, t in made.state_dict().items())


def test_protect_and_predict_by_the_name_of_a_factory(tmp_path, monkeypatch):
    (tmp_path / "nets_of_a_test.py").write_text(
        "import torch\n\ndef make(inputs, outputs):\n    return torch.nn.Linear(inputs, outputs)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(Training, "default", classmethod(lambda cls, rows: QUICK))
    file = tmp_path / "net.safetensors"
    asked = {"target": "ill", "learner": "nets_of_a_test:make", "eta": 0.2, "insecure_seed": 1}
    found = protect(people(), bounds=BOUNDS, out=file, **asked)
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
