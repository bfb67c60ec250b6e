"""PyTorch modules as statistics."""

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release.calibration import FreshSubsets
from memberbound.release.networks import (
    TrainedModule,
    TrainedOutputs,
    module_parameters,
    set_module_parameters,
)
from memberbound.release.randomness import InsecureSource
from memberbound.release.refitting import calibrate_neighbour
from memberbound.release.releasing import released

torch = pytest.importorskip("torch")

X = torch.linspace(-1, 1, 40).reshape(20, 2)
Y = (X[:, 0] > 0).float()


def blank():
    return torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
    )


def train(rows):
    torch.manual_seed(0)
    module = blank().train()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    loss = torch.nn.BCEWithLogitsLoss()
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
