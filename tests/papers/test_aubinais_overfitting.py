"""A25-F1 and F2 in small settings, and the network against PyTorch."""

import numpy as np
import pytest

from memberbound.papers import aubinais_overfitting as figures
from memberbound.papers.aubinais_overfitting import (
    Adam,
    Network,
    Regression,
    Training,
    figure_1,
    figure_2,
    small_losses,
    training_checks,
)
from memberbound.papers.reproduction import Sweep

QUICK = Training(records=40, fresh=400, width=256, iterations=100, every=25)


def test_setting_is_that_of_the_paper():
    full = Training()
    assert (full.records, full.fresh, full.width) == (1000, 10_000, 4096)
    assert (full.iterations, full.rate) == (2500, 0.1)
    assert full.looks[0] == 0
    assert full.looks[-1] == 2500


def test_data():
    x, y = Regression().draw(np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0)
    assert np.std(y - np.sin(np.pi * x[:, 0])) == pytest.approx(0.1, rel=0.03)


def test_gradient_against_differences():
    rng = np.random.default_rng(1)
    network = Network.start(rng, 3, 8)
    network.inner, network.outer = network.inner.astype(float), network.outer.astype(float)
    network.block = 4
    x = np.concatenate([rng.standard_normal((10, 3)), np.ones((10, 1))], axis=1).astype(np.float32)
    y = rng.standard_normal(10).astype(np.float32)

    def loss():
        hidden = np.maximum(x.astype(float) @ network.inner, 0)
        return np.mean((hidden @ network.outer[:-1] + network.outer[-1] - y) ** 2)

    single = Network(network.inner.astype(np.float32), network.outer.astype(np.float32), 4)
    for weights, gradient in zip(
        (network.inner, network.outer), single.gradients(x, y), strict=True
    ):
        for place in np.ndindex(weights.shape):
            kept = weights[place]
            weights[place] = kept + 1e-6
            up = loss()
            weights[place] = kept - 1e-6
            slope = (up - loss()) / 2e-6
            weights[place] = kept
            assert gradient[place] == pytest.approx(slope, abs=2e-5)


def test_steps_of_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    x, y = Regression().draw(rng, 50)
    network = Network.start(rng, 10, 32)
    first, second = torch.nn.Linear(10, 32), torch.nn.Linear(32, 1)
    with torch.no_grad():
        first.weight[:] = torch.tensor(network.inner[:-1].T.copy())
        first.bias[:] = torch.tensor(network.inner[-1])
        second.weight[:] = torch.tensor(network.outer[None, :-1])
        second.bias[:] = torch.tensor(network.outer[-1:])
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    theirs = torch.optim.Adam(model.parameters(), lr=0.1)
    ours = Adam((network.inner, network.outer), 0.1)
    x1, y1 = figures._with_one(x), y.astype(np.float32)
    xt, yt = torch.tensor(x1[:, :-1]), torch.tensor(y1)
    for _ in range(10):
        loss = ((model(xt).squeeze(1) - yt) ** 2).mean()
        assert np.mean((network.outputs(x1) - y1) ** 2) == pytest.approx(loss.item(), rel=1e-3)
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        ours.step(network.gradients(x1, y1))


def test_figure_1_in_a_small_setting():
    seen = []
    findings = figure_1(2, 0, lambda done, total: seen.append((done, total)), setting=QUICK)
    again = figure_1(2, 0, setting=QUICK)
    assert findings.table == again.table
    assert [row["iteration"] for row in findings.table] == [0, 25, 50, 75, 100]
    assert len(findings.trials) == 10
    assert seen[-1] == (10, 10)
    assert findings.table[-1]["train_0.01_mean"] > findings.table[-1]["fresh_0.01_mean"] + 0.3
    assert len(findings.checks) == 6
    assert len(findings.draw().axes) == 2


def test_figure_2_in_a_small_setting():
    findings = figure_2(2, 0, dimensions=(5, 40, 80), records=30, fresh=500)
    assert [check.holds for check in findings.checks] == [True] * 4
    narrow, *wide = findings.table
    assert narrow["linear_train_1e-06_mean"] < 0.5
    for row in wide:
        assert row["linear_train_1e-06_mean"] == 1.0
        assert row["linear_ceiling_estimate_mean"] < 0.02
    assert len(findings.draw().axes) == 2


def test_checks_notice_a_learner_that_does_not_overfit():
    lazy = Training(records=40, fresh=400, width=256, iterations=2, every=1)
    holds = [check.holds for check in figure_1(1, 0, setting=lazy).checks]
    assert not any(holds[place] for place in (0, 1, 5))


def test_checks_on_runs_made_by_hand():
    """Three runs: settled at 20, thrown off at the end, never there."""
    share = np.array([[0, 0, 0], [1, 1, 0], [0.5, 1, 0], [1, 1, 0], [1, 0, 0]], dtype=float)
    loss = np.where(share == 1, 1e-9, 1.0)
    sweep = Sweep(
        "iteration",
        (0.0, 10.0, 20.0, 30.0, 40.0),
        {
            "train_1e-06": share,
            "fresh_1e-06": np.zeros((5, 3)),
            "train_loss": loss,
            "ceiling_estimate": 1 - share,
        },
    )
    measured = [check.measured for check in training_checks(sweep)]
    #: two of three ever; (1 + 0 + 0)/3 at the end; fresh 0; first at 10; (30 + 40 + 40)/3; 1/3
    assert measured == pytest.approx([2 / 3, 1 / 3, 0.0, 10.0, 110 / 3, 1 / 3])


def test_shares():
    shares = small_losses(np.array([0.0, 1e-7, 1e-5, 1.0]), np.array([1e-7, 0.5, 0.5, 0.5]))
    assert shares["train_1e-06"] == 0.5
    assert shares["fresh_1e-06"] == 0.25
    assert shares["ceiling_estimate"] == pytest.approx(0.75)
