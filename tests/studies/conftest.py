"""Studies for tests of findings, with less precise calibrations."""

import pytest

from memberbound.learners import holdout
from memberbound.verbs.study import running, steps


@pytest.fixture(autouse=True, scope="module")
def little_work():
    """Score on few splits."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(holdout, "SPLITS", {0: (2, 1)})
        yield


@pytest.fixture
def only_steps(monkeypatch):
    """Let a study run some of its steps, by their names."""

    def choose(*ids: str) -> None:
        chosen = tuple(step for step in steps.STEPS if step.id in ids)
        monkeypatch.setattr(running, "STEPS", chosen)

    return choose
