"""Calibrations for tests that do not depend on how little noise is found."""

from collections.abc import Iterator

import pytest

from memberbound.release.half import half_estimator, refitting


@pytest.fixture(scope="module")
def few_fits() -> Iterator[None]:
    """One neighbour instead of several partners, and fewer scored releases, for a file."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(refitting, "_MOST_PARTNERS", 1)
        changed.setattr(half_estimator, "_SCORED", 2)
        yield
