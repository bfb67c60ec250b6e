"""Models that are attacked in several files."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

Side = tuple[np.ndarray, np.ndarray]


def rows(n: int, seed: int = 0) -> Side:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    return x, (x[:, 0] + rng.normal(size=n) > 0).astype(int)


@pytest.fixture(scope="session")
def tree() -> tuple[DecisionTreeClassifier, Side, Side]:
    """A tree grown to purity, its members and fresh records."""
    members, others = rows(300, 1), rows(300, 2)
    return DecisionTreeClassifier(random_state=0).fit(*members), members, others
