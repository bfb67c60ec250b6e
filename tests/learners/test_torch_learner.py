"""Torch modules as learners: repeatable, on all cores, resumed."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from memberbound.attacks.signals import signals_of
from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.learners.names import learner_from_name
from memberbound.learners.torch_learner import TorchLearner
from optional import Later

torch = Later("torch")


def small(inputs: int, outputs: int) -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(8, outputs),
    )


def fixed() -> Any:
    return torch.nn.Linear(4, 3)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    return x, (x[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


def test_it_learns_and_repeats_itself(data):
    x, y = data
    before = torch.get_rng_state()
    learner = TorchLearner(small, epochs=40, learning_rate=0.02)
    first, second = learner.fit(x, y).predict_proba(x), clone(learner).fit(x, y).predict_proba(x)
    assert np.array_equal(first, second)
    other = clone(learner).set_params(random_state=1).fit(x, y).predict_proba(x)
    assert not np.array_equal(first, other)
    assert (learner.predict(x) == y).mean() > 0.85
    assert torch.equal(before, torch.get_rng_state())  # other random numbers are unaffected
    np.testing.assert_allclose(first.sum(axis=1), 1)
    assert learner.classes_.tolist() == [0, 1]


def test_texts_are_classes_and_numbers_a_regression(data):
    x, y = data
    named = TorchLearner(small, epochs=2).fit(x, np.array(["no", "yes"])[y])
    assert set(named.predict(x)) <= {"no", "yes"}
    value = TorchLearner(torch.nn.Linear, epochs=200, learning_rate=0.05).fit(x, x @ np.arange(4.0))
    assert not hasattr(value, "predict_proba")
    expected = LinearRegression().fit(x, x @ np.arange(4.0)).predict(x)
    np.testing.assert_allclose(value.predict(x), expected, atol=0.1)


def test_small_probabilities_do_not_vanish():
    """In single precision 1 - 1e-9 is 1, and every very sure answer would look the same."""
    sure = TorchLearner(torch.nn.Linear, epochs=0).fit(np.eye(2), np.array([0, 1]))
    with torch.no_grad():
        sure.module_.weight[:] = torch.tensor([[21.0, 0.0], [0.0, 22.0]])
        sure.module_.bias[:] = 0
    rows = Examples(np.eye(2), np.array([0, 1]), "classification", ("a", "b"), ("0", "1"))
    assert signals_of(sure, rows).logit[0] == pytest.approx([21.0, 22.0], rel=1e-6)


def test_a_factory_named_on_the_command_line_is_trained():
    for name in ("small", "fixed"):
        found = learner_from_name(f"{__name__}:{name}")
        assert isinstance(found, TorchLearner)
    with pytest.raises(InputError, match="factory must make a torch module, got int"):
        TorchLearner(lambda: 3).fit(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
