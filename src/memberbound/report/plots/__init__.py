"""The figures of the report as Plotly drawings, each with its alt text and its table."""

from memberbound.report.plots.bars import remedies_drawing, sandwich_drawing
from memberbound.report.plots.curves import roc_drawing, sweep_drawing
from memberbound.report.plots.drawing import Drawing, Legend
from memberbound.report.plots.exposure import exposure_drawing

__all__ = [
    "Drawing",
    "Legend",
    "exposure_drawing",
    "remedies_drawing",
    "roc_drawing",
    "sandwich_drawing",
    "sweep_drawing",
]
