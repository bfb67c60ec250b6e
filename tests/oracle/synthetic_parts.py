"""Make small tables go through every measurement of a synthetic table."""

import math

from memberbound.release.all_rows import measurements


def measure_every_part(monkeypatch):
    """Measure pairs and further pairs however small the table is."""
    monkeypatch.setattr(measurements, "_LARGEST_SCORE_NOISE", math.inf)
    monkeypatch.setattr(measurements, "_FURTHER_SIGNALS", (1e-9, 1e-8))
    monkeypatch.setattr(measurements, "_MOST_BINS", 6)
