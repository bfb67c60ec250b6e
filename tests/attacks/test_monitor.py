"""The training monitor: looks, stopping, scikit-learn and PyTorch."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier

from memberbound.attacks.overfitting import (
    OverfittingMonitor,
    TorchWatch,
    look_confidence,
    partial_fit_watched,
    record_losses,
)
from memberbound.errors import InputError
from memberbound.report.charts import save_history


def test_errors_of_all_looks_stay_within_the_budget():
    spent = sum(1 - Fraction(look_confidence(0.95, k)) for k in range(1, 500))
    assert Fraction(0.95) + spent <= 1
    assert spent > Fraction(49, 1000)


def stopped_too_early(confidence_of_look, monkeypatch):
    """Share of runs that stop although the true security of every model is 0.5.

    Half of the training losses are 0, the rest look like fresh ones, which are redrawn at every
    look: the worst case for looking often.
    """
    monkeypatch.setattr("memberbound.attacks.overfitting.look_confidence", confidence_of_look)
    rng = np.random.default_rng(8)
    train = np.repeat([0.0, 2.0], 5_000)  # so many that only fresh losses scatter
    wrong = 0
    for _ in range(60):
        monitor = OverfittingMonitor(security=0.6, confidence=0.8)
        for _ in range(25):
            # A fresh loss is at most 0 with probability 0.1: security 0.5 + 0.1.
            monitor.update(train, (rng.uniform(size=60) > 0.1).astype(float))
            if monitor.should_stop:
                wrong += 1
                break
    return wrong


def test_stopping_on_sight_keeps_the_confidence(monkeypatch):
    """Error of at most 10 % on this side; P(Bin(60, 0.1) > 14) < 1e-3."""
    assert stopped_too_early(look_confidence, monkeypatch) <= 14


def test_looking_often_without_paying_is_caught(monkeypatch):
    assert stopped_too_early(lambda c, k: 0.3, monkeypatch) > 20


def test_history_and_rules():
    fresh = np.linspace(0, 1, 500)
    monitor = OverfittingMonitor(security=0.3, overfit_at=(0.1, 0.5))
    assert not monitor.should_stop
    with pytest.raises(InputError, match="no looks"):
        _ = monitor.latest
    for scale in (1.0, 0.5, 0.05):
        monitor.update(scale * np.linspace(0, 1, 100), fresh, step=10 * scale)
    history = monitor.history
    assert history["step"].tolist() == [10.0, 5.0, 0.5]
    assert (history["ceiling_lower"] <= history["ceiling_estimate"]).all()
    assert (history["ceiling_estimate"] <= history["ceiling_upper"]).all()
    assert np.all(np.diff(history["ceiling_estimate"]) < 0)
    assert monitor.proved_insecure
    assert monitor.forced_overfit  # mean 0.025 ≤ 0.1·0.5
    assert monitor.latest.model.upper == history["ceiling_upper"][-1]


def test_overfit_rule_alone():
    monitor = OverfittingMonitor(overfit_at=(0.1, 0.5))
    monitor.update(np.full(30, 0.06), np.zeros(30))
    assert not monitor.should_stop
    monitor.update(np.full(30, 0.049), np.zeros(30))
    assert monitor.should_stop
    assert not monitor.proved_insecure


def blobs(rng, count, dimension=20):
    x = rng.standard_normal((count, dimension))
    return x, (x[:, 0] + rng.standard_normal(count) > 0).astype(int)


def test_partial_fit_stops_an_overfitting_network():
    rng = np.random.default_rng(1)
    train, fresh = blobs(rng, 60), blobs(rng, 1500)
    monitor = OverfittingMonitor(security=0.8)
    model = MLPClassifier((64,), learning_rate_init=0.02, random_state=0)
    partial_fit_watched(model, train, fresh, monitor, epochs=200, every=5, batch=30)
    assert monitor.proved_insecure
    assert 5 <= monitor.history["step"][-1] < 200
    assert monitor.history["ceiling_upper"][-1] < 0.8


def test_partial_fit_of_a_regressor_runs_to_the_end():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 3))
    y = x[:, 0] + rng.standard_normal(200)
    monitor, seen = OverfittingMonitor(security=0.3), []
    train, fresh = (x[:100], y[:100]), (x[100:], y[100:])
    partial_fit_watched(
        SGDRegressor(random_state=0),
        train,
        fresh,
        monitor,
        epochs=7,
        every=3,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert monitor.history["step"].tolist() == [3, 6, 7]
    assert seen[-1] == (7, 7)
    assert not monitor.should_stop


def test_losses_of_records():
    rng = np.random.default_rng(3)
    x, y = blobs(rng, 100)
    soft = SGDClassifier(loss="log_loss", random_state=0).fit(x, y)
    likely = soft.predict_proba(x)[np.arange(100), y]
    np.testing.assert_allclose(np.exp(-record_losses(soft, x, y)), likely)
    assert np.isinf(record_losses(soft, x, np.full(100, 7))).all()
    hard = SGDClassifier(random_state=0).fit(x, y)
    assert record_losses(hard, x, y).mean() == np.mean(hard.predict(x) != y)


def test_refusals():
    with pytest.raises(InputError, match="partial_fit"):
        partial_fit_watched(object(), ([0], [0]), ([0], [0]), OverfittingMonitor(), epochs=1)
    with pytest.raises(InputError, match="security"):
        OverfittingMonitor(security=1.5)
    with pytest.raises(InputError, match="share_above"):
        OverfittingMonitor(overfit_at=(0.1, 2.0))
    with pytest.raises(InputError, match="one number per record"):
        OverfittingMonitor().update(np.zeros((30, 2)), np.zeros(30))


def test_torch_watch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    x, y = torch.randn(1100, 10), torch.randn(1100, 1)
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Dropout(0.01), torch.nn.Linear(64, 1)
    )
    monitor = OverfittingMonitor(security=0.7)
    loss = torch.nn.MSELoss(reduction="none")
    watch = TorchWatch(model, (x[:100], y[:100]), (x[100:], y[100:]), loss, monitor, batch=333)
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(300):
        adam.zero_grad()
        loss(model(x[:100]), y[:100]).mean().backward()
        adam.step()
        if step % 20 == 19 and watch(step):
            break
    assert monitor.proved_insecure
    assert model.training  # the mode is given back
    model.eval()
    with torch.no_grad():
        last = loss(model(x[:100]), y[:100]).mean().item()
    assert monitor.history["train_loss_mean"][-1] == pytest.approx(last, rel=1e-5)
    single = TorchWatch(model, (x, y), (x, y), torch.nn.MSELoss(), monitor)
    with pytest.raises(InputError, match="reduction"):
        single()


def test_history_is_drawn(tmp_path):
    monitor = OverfittingMonitor(security=0.3)
    with pytest.raises(InputError, match="no looks"):
        save_history(monitor, tmp_path / "a.png")
    for scale in (1.0, 0.3, 0.0):
        monitor.update(scale * np.linspace(0, 1, 50), np.linspace(0, 1, 100))
    for name in ("a.png", "a.html"):
        assert save_history(monitor, tmp_path / name).stat().st_size > 1000
