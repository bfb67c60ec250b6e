"""Certificates for a known law: exact, without sampling (A25-T14, X7)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.certification.answer import (
    Certification,
    accuracy_from_leak,
    security_from_leak,
)
from memberbound.discrete.worst_case import checked_law, leak_of_law, leak_of_uniform
from memberbound.errors import InputError, whole_number
from memberbound.games import IidGame
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from memberbound.numerics.rounding import FloatArray, up_array

__all__ = ["certify_law", "certify_uniform", "read_probabilities"]

#: Column names that are taken for the probabilities when a file has several columns.
_NAMES = ("probability", "probabilities", "p")


def read_probabilities(source: str | os.PathLike[str] | ArrayLike) -> FloatArray:
    """Return the atoms of a law from a file (one column, or one named p) or an array.

    What has probability 0 is no atom, and is left out.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _atoms(np.asarray(source, dtype=np.float64).ravel())
    from memberbound.tables.population import column_names, read_population

    path = Path(source)
    columns, _ = column_names(path)
    named = [c for c in columns if str(c).lower() in _NAMES]
    if len(columns) > 1 and len(named) != 1:
        raise InputError(
            f"{path} must hold one column of probabilities, or one named 'probability', got "
            f"the columns {', '.join(map(repr, columns))}."
        )
    column = named[0] if named else columns[0]
    return _atoms(read_population(path, [column], numeric=True).values[:, 0])


def _atoms(probabilities: FloatArray) -> FloatArray:
    law, _, _ = checked_law(probabilities)
    return law[law > 0]


def certify_law(law: FloatArray, n: int, game: IidGame) -> Certification:
    """Return the exact worst case of a law with these atoms, all positive, at training size n."""
    size = whole_number("n", n)
    leak = leak_of_law(law, size, game.nu, game.lam)
    record = np.minimum(up_array(half_deviation_upper(size, law) / law, 8), 1.0)
    c_k = float(np.sqrt(law * (1 - law)).sum())
    order = np.argsort(record)
    share = np.cumsum(law[order])
    median, p99 = (
        float(record[order][min(int(np.searchsorted(share, q)), law.size - 1)]) for q in (0.5, 0.99)
    )
    spread = {"median": median, "p99": p99, "max": float(record.max())}
    return _answer(leak, (size, int(law.size), c_k), spread, game)


def certify_uniform(atoms: int, n: int, game: IidGame) -> Certification:
    """Return the exact worst case of K equally likely atoms."""
    size, total = whole_number("n", n), whole_number("uniform", atoms)
    leak = leak_of_uniform(total, size, game.nu, game.lam)
    share = float(half_deviation_upper(size, Atoms.uniform(total))[0])
    record = min(1.0, share * total * (1 + 1e-14))
    c_k = float(np.sqrt(total - 1))
    spread = {"median": record, "p99": record, "max": record}
    return _answer(leak, (size, total, c_k), spread, game)


def _answer(
    leak: float, law: tuple[int, int, float], record: dict[str, float], game: IidGame
) -> Certification:
    n, atoms, c_k = law
    fields: dict[str, Any] = {
        "rows": None,
        "n": n,
        "atoms": atoms,
        "delta_upper": leak,
        "security_lower": security_from_leak(leak),
        "accuracy_upper": accuracy_from_leak(leak, game),
        "delta_plug_in_estimate": None,
        "c_k_plug_in_estimate": None,
        "c_k": c_k,
        "confidence": 1.0,
        "method": "exact worst case of the law",
        "record_leak": {**record, "exposed_rows": None, "exposed_above": None},
    }
    return Certification(
        fields,
        game,
        ("A25-T14", "X7"),
        ("The rows are independent draws from exactly the law given.",),
    )
