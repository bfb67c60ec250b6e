"""A25-L33: a deterministic learner is private only if it is constant, and then perfectly."""

from itertools import product

from memberbound.papers.aubinais2025 import least_dp_delta


def test_private_exactly_when_constant():
    """On data sets of two bits, all learners with up to three values."""
    sets = list(product((0, 1), repeat=2))
    for outputs in product((0, 1, 2), repeat=len(sets)):
        table = dict(zip(sets, outputs, strict=True))
        # Two different certain outputs differ by the whole mass, at any e^ε.
        assert least_dp_delta(table.__getitem__, (0, 1), 2) == (0 if len(set(outputs)) == 1 else 1)
