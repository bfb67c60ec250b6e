"""Small genuine releases of every kind, with their certificates, to test verifiers on."""

import numpy as np
import pandas as pd

from memberbound import protect, summarize, synthesize
from memberbound.verbs.ledger import ledger

ROWS = 4000
BOUNDS = {
    "age": [18, 90],
    "bmi": [10, 60],
    "smoker": ["no", "yes"],
    "ill": ["no", "yes"],
}


def people(persons=False):
    """Return a table of made-up people; with persons, everybody has one to three rows."""
    draws = np.random.default_rng(0)
    age = draws.integers(18, 90, ROWS)
    bmi = np.round(draws.normal(26, 4, ROWS), 1)
    smoker = draws.choice(["no", "yes"], ROWS, p=[0.7, 0.3])
    risk = age + 10 * (smoker == "yes") + draws.normal(0, 15, ROWS)
    frame = pd.DataFrame({"age": age, "bmi": bmi, "smoker": smoker})
    frame["ill"] = np.where(risk > 65, "yes", "no")
    if persons:
        frame["person"] = [f"p{k}" for k in np.sort(draws.integers(0, ROWS // 2, ROWS))]
    return frame


def make(name, folder, book=None):
    """Make the release of a name in a folder; return the path of its file."""
    path = folder / NAMES[name]
    _MAKERS[name](str(path), None if book is None else str(book))
    return path


def make_ledger(folder, limit_eta=0.3):
    """Make an empty ledger; return its path."""
    path = folder / "ledger.json"
    ledger(str(path), limit_eta=limit_eta)
    return path


def _seed(book):
    """A ledger takes secret noise only."""
    return None if book else 1


def _model(path, book, **more):
    settings = {"target": "ill", "eta": 0.05, "bounds": {"age": [18, 90]}} | more
    table = people(persons="unit" in more)
    protect(table, **settings, insecure_seed=_seed(book), ledger=book, out=path, trial=False)


def _table(path, book):
    synthesize(
        people(), target="ill", eta=0.05, bounds=BOUNDS, insecure_seed=_seed(book), ledger=book,
        out=path,
    )  # fmt: skip


def _numbers(path, book, **more):
    settings = {"statistic": "mean", "columns": ["age", "bmi"], "eta": 0.01, "bounds": BOUNDS}
    summarize(
        people(persons="unit" in more), **settings | more, insecure_seed=_seed(book), ledger=book,
        out=path,
    )  # fmt: skip


def network(inputs, outputs):
    """Return a small torch module."""
    import torch

    torch.manual_seed(1)
    hidden = torch.nn.Linear(inputs, 4)
    return torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(4, outputs))


def _network(path, book):
    import torch  # noqa: F401 (a factory is one only then)

    _model(path, book, learner=network, bounds=BOUNDS, eta=0.1)


_MAKERS = {
    "model": _model,
    "table": _table,
    "numbers": _numbers,
    "model of persons": lambda path, book: _model(path, book, unit="person"),
    "boosting": lambda path, book: _model(path, book, learner="boosting", bounds=BOUNDS),
    "counts": lambda path, book: _numbers(
        path, book, statistic="histogram", columns=["smoker"], bounds=None
    ),
    "numbers of persons": lambda path, book: _numbers(path, book, unit="person"),
    "network": _network,
}
#: Release → its file. A network needs torch.
NAMES = {
    "model": "model.json",
    "table": "table.csv",
    "numbers": "means.json",
    "model of persons": "persons.json",
    "boosting": "boosting.json",
    "counts": "counts.json",
    "numbers of persons": "means-of-persons.json",
    "network": "network.safetensors",
}
