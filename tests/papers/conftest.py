"""Figures that are files but not drawn, and some of the figures alone."""

from pathlib import Path

import pytest

from memberbound.papers.reproduction import experiments


@pytest.fixture
def undrawn(monkeypatch):
    """Write a figure's file without drawing it, where only the file counts.

    test_figure_end_to_end and test_command_with_the_data draw.
    """
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "draw_without_rendering", lambda self: None)
    monkeypatch.setattr(
        Figure, "savefig", lambda self, path, **options: Path(path).write_bytes(b"picture")
    )
    monkeypatch.setattr("memberbound.report.drawing._svg", lambda *arguments, **options: "picture")


@pytest.fixture
def only(monkeypatch):
    """Leave only some of the figures to be redone."""
    listed = experiments()

    def keep(*ids: str) -> None:
        monkeypatch.setattr(
            "memberbound.papers.reproduction.experiments", lambda: {id: listed[id] for id in ids}
        )

    return keep
