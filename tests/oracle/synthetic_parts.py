"""Make small tables go through every measurement of a synthetic table."""

import math

import numpy as np

from memberbound.release.all_rows import measurements, synthetic_shares, tree


def keep_every_edge(scores, blocks, scale_of_one):
    """Return the scores that are kept, or, if noise leaves none, all of them."""
    kept = tree.keep_edges(scores, blocks, scale_of_one)
    return kept if (kept > 0).any() else np.triu(scores - scores.min() + 1.0, 1)


def measure_every_part(monkeypatch):
    """Measure pairs and further pairs in a table of any size."""
    monkeypatch.setattr(synthetic_shares, "_LARGEST_SCORE_NOISE", math.inf)
    monkeypatch.setattr(synthetic_shares, "_FURTHER_SIGNALS", (1e-9, 1e-8))
    monkeypatch.setattr(measurements, "_MOST_BINS", 6)
    monkeypatch.setattr(measurements, "keep_edges", keep_every_edge)
