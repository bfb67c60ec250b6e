"""Studies for tests: what they find, not how little noise they find it with."""

import pytest

from memberbound.attacks import noisy_releases
from memberbound.release.half import methods, refitting
from memberbound.studies import rehearsal, steps, studying
from memberbound.verbs import audit_learner


@pytest.fixture(autouse=True, scope="module")
def little_calibration():
    """Calibrate on few pairs and settings (as valid, with more noise), and draw few points.

    A study of 80 rows spends nine tenths of its time in fits that lower the noise by some per cent;
    ``release/`` tests what they are for.
    """
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(refitting, "_PAIRS", 20)
        changed.setattr(refitting, "_PARTNERS", (1,))
        changed.setattr(refitting, "_SUBSETS", 100)
        changed.setattr(methods, "_STRENGTHS", (1.0, 0.01))
        changed.setattr(methods, "_CLIPS", ())
        changed.setattr(methods, "_PAIRS", 8)
        changed.setattr(noisy_releases, "_SHIFT_FITS", 50)
        changed.setattr(audit_learner, "_TARGETS", 4)
        changed.setattr(rehearsal, "_TRIALS", {0: (2, 1)})
        changed.setattr(steps, "_SWEPT", 2)
        yield


@pytest.fixture
def only_steps(monkeypatch):
    """Let a study run some of its steps, by their names."""

    def choose(*ids: str) -> None:
        chosen = tuple(step for step in steps.STEPS if step.id in ids)
        monkeypatch.setattr(studying, "STEPS", chosen)

    return choose
