"""Which figures and tables can be redone: a new one is a module and a line here."""

from __future__ import annotations

from importlib import import_module

from memberbound.errors import InputError
from memberbound.reproduction.experiment import Experiment

__all__ = ["EXPERIMENTS", "chosen", "experiment", "known_id"]

#: Id → module of this package and name of the :class:`Experiment` in it.
EXPERIMENTS = {
    "L24-F1": ("lowy_exponential", "FIGURE_1"),
    "L24-F2": ("lowy_exponential", "FIGURE_2"),
    "L24-F3": ("lowy_exponential", "FIGURE_3"),
    "L24-F4": ("lowy_gaussian", "FIGURE_4"),
    "L24-F5": ("lowy_gaussian", "FIGURE_5"),
    "L24-F6": ("lowy_gaussian", "FIGURE_6"),
    "I24-F1": ("izzo_scale", "FIGURE_1"),
    "A25-F1": ("aubinais_overfitting", "FIGURE_1"),
    "A25-F2": ("aubinais_overfitting", "FIGURE_2"),
    "A25-Tab1": ("aubinais_mnist", "TABLE_1"),
}


def experiment(id: str) -> Experiment:
    """Return the experiment of an id in :data:`EXPERIMENTS`."""
    module, name = EXPERIMENTS[id]
    found = getattr(import_module(f"memberbound.reproduction.{module}"), name)
    assert isinstance(found, Experiment)
    return found


def known_id(id: str) -> str | None:
    """Return the id as it is listed, any case; nothing if it is not that of one experiment."""
    wanted = str(id).strip().upper()
    return next((known for known in EXPERIMENTS if known.upper() == wanted), None)


def chosen(id: str) -> list[Experiment]:
    """Return the experiments that are meant: one id, a paper (L24), or all; any case."""
    one = known_id(id)
    if one is not None:
        return [experiment(one)]
    wanted = str(id).strip().upper()
    ids = [known for known in EXPERIMENTS if wanted in ("ALL", known.split("-")[0])]
    if not ids:
        raise InputError(
            f"id must be one of {', '.join(EXPERIMENTS)}, a paper (L24) or all, got {id!r}."
        )
    return [experiment(known) for known in ids]
