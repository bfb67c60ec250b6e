"""Every verb reads its CSV files in the encoding that is declared."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import memberbound
from memberbound.errors import InputError
from memberbound.faces.command_line import VERBS

PUBLIC = {"größe": [-4, 4], "a": [-4, 4], "y": ["no", "yes"]}


def people(seed: int, rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, other = rng.normal(size=(2, rows)).round(2)
    ill = np.where(size + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame({"größe": size, "a": other, "y": ill})


MEMBERS, OTHERS = people(0), people(1)
NUMBERS = ["größe", "a"]
MODEL = LogisticRegression().fit(MEMBERS[NUMBERS], MEMBERS["y"])
FILES = {
    "members": MEMBERS,
    "others": OTHERS,
    "few": MEMBERS[:40],
    "coarse": MEMBERS[["y"]].assign(größe=MEMBERS["größe"].round(0)),
    "coarser": OTHERS[["y"]].assign(größe=OTHERS["größe"].round(0)),
    "law": pd.DataFrame({"größe": np.arange(4), "probability": np.full(4, 0.25)}),
    "points": pd.DataFrame({"größe": [0.0, 1.0], "b": [0.0, 1.0]}),
    "scores": pd.DataFrame({"score": MEMBERS["a"], "member": [1, 0] * 150, "ß": MEMBERS["y"]}),
    "answers": pd.DataFrame({"label": OTHERS["y"], "member": [1, 0] * 150}).assign(
        ß=OTHERS["y"], prediction=MODEL.predict(OTHERS[NUMBERS])
    ),
}
RELEASED = memberbound.protect(
    MEMBERS, target="y", bounds=PUBLIC, eta=0.4, insecure_seed=1, trial=False
).released
#: Verb, its files by their parameters, and other options.
CASES = [
    ("certify", {"table": "coarse", "reference": "coarser"}, {}),
    ("certify", {"probabilities": "law"}, {"n": 10}),
    ("plan", {"table": "coarse"}, {"security": 0.5}),
    ("plan", {"probabilities": "law"}, {"security": 0.5}),
    ("harden", {"table": "coarse", "reference": "coarser"}, {"security": 0.1}),
    ("bounds", {"table": "members"}, {}),
    (
        "population",
        {"table": "members", "candidates": "points"},
        {"mechanism": "exponential", "epsilon": 1.0, "clip": 2.0, "subsets": 20},
    ),
    (
        "protect",
        {"source": "members"},
        {"target": "y", "bounds": PUBLIC, "eta": 0.4, "insecure_seed": 1, "trial": False},
    ),
    ("synthesize", {"source": "members"}, {"bounds": PUBLIC, "eta": 0.4, "insecure_seed": 1}),
    (
        "summarize",
        {"source": "members"},
        {"statistic": "mean", "columns": ["größe"], "bounds": PUBLIC, "insecure_seed": 1},
    ),
    ("protect_half", {"source": "few"}, {"statistic": "mean", "insecure_seed": 1}),
    (
        "protect_half",
        {"source": "few", "query": "others"},
        {"target": "y", "eta": 0.4, "pairs": 40, "insecure_seed": 1, "workers": 1},
    ),
    ("predict", {"table": "others"}, {"model": RELEASED}),
    (
        "audit",
        {"members": "members", "nonmembers": "others"},
        {"model": MODEL, "target": "y", "quick": True},
    ),
    (
        "audit",
        {"members": "members", "nonmembers": "others"},
        {"model": RELEASED, "target": "y", "quick": True},
    ),
    ("audit", {"members": "scores"}, {"by": "ß"}),
    ("audit", {"predictions": "answers"}, {"by": "ß"}),
    ("audit", {"one_run": "scores"}, {}),
    (
        "audit_learner",
        {"table": "members"},
        {"target": "y", "learner": "tree", "shadows": 8, "workers": 1, "attacks": ["loss"]},
    ),
    ("audit_table", {"members": "members", "nonmembers": "others", "synthetic": "others"}, {}),
]


@pytest.mark.parametrize(
    ("verb", "files", "options"), CASES, ids=[f"{verb}-{'-'.join(f)}" for verb, f, _ in CASES]
)
def test_a_verb_reads_every_file_in_the_declared_encoding(verb, files, options, tmp_path) -> None:
    """UTF-16 without a mark cannot be detected: an answer needs the declared encoding."""
    for name in files.values():
        FILES[name].to_csv(tmp_path / f"{name}.csv", index=False, encoding="utf-16-le")
    given = {option: tmp_path / f"{name}.csv" for option, name in files.items()}
    getattr(memberbound, verb)(**given, **options, encoding="utf-16-le")
    with pytest.raises(InputError):
        getattr(memberbound, verb)(**given, **options)


def test_every_verb_with_an_encoding_is_tested() -> None:
    verbs = {verb.replace("-", "_") for verb in VERBS if verb != "serve"}
    declared = {
        verb
        for verb in verbs
        if "encoding" in inspect.signature(getattr(memberbound, verb)).parameters
    }
    assert declared == {verb for verb, _, _ in CASES} | {"study"}
