"""Calibrations for tests that do not ask how little noise they find."""

from collections.abc import Iterator

import pytest

from memberbound.release.half import half_estimator, methods, refitting


def _few(changed: pytest.MonkeyPatch) -> None:
    # One neighbour instead of the best of several partners: a fifth of the fits, valid as well.
    changed.setattr(refitting, "_PARTNERS", (1,))
    # Fewer trials and scored releases, fewer settings.
    changed.setattr(half_estimator, "_SCORED", 2)
    changed.setattr(methods, "_PAIRS", 8)
    changed.setattr(methods, "_SUBSETS", 3)
    changed.setattr(methods, "_STRENGTHS", (1.0, 0.1))


@pytest.fixture
def few_fits() -> Iterator[None]:
    """Calibrate, tune and score on few fits, for one test."""
    with pytest.MonkeyPatch.context() as changed:
        _few(changed)
        yield


@pytest.fixture(scope="module")
def few_fits_everywhere() -> Iterator[None]:
    """The same for a file, and for what its tests share."""
    with pytest.MonkeyPatch.context() as changed:
        _few(changed)
        yield
