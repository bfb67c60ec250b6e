"""What does η for every record cost when all rows are used (X22)?

    python benchmarks/gradient.py [--dataset digits adult …] [--runs 3] [--data DIR]

One linear model per data set, split and η, with default settings: accuracy, balanced accuracy and
AUC on other records, and seconds, beside the constant classifier and the same learner without
protection.  ``bounds`` says whether the ranges were given or paid for.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline

from memberbound.errors import InputError
from memberbound.learners.examples import column_encoder
from memberbound.release.neighbour import fit_private
from memberbound.release.randomness import InsecureSource

Split = tuple[pd.DataFrame, pd.DataFrame]
Case = tuple[str, Callable[[int], Split], dict[str, Any] | None]
ETAS = (0.01, 0.05, 0.1)
TEN = {"y": {"categories": list(range(10))}}
HEART: dict[str, Any] = {
    "age": [20, 90],
    "trestbps": [80, 220],
    "chol": [0, 600],
    "thalach": [60, 220],
    "oldpeak": [-3, 7],
    "ca": [0, 3],
    "sex": {"categories": [0, 1]},
    "cp": {"categories": [1, 2, 3, 4]},
    "fbs": {"categories": [0, 1]},
    "restecg": {"categories": [0, 1, 2]},
    "exang": {"categories": [0, 1]},
    "slope": {"categories": [1, 2, 3]},
    "thal": {"categories": [3, 6, 7]},
    "y": {"categories": [0, 1]},
}


def _frame(table: np.ndarray, target: np.ndarray) -> pd.DataFrame:
    found = pd.DataFrame(table, columns=[f"f{k}" for k in range(table.shape[1])])
    return found.assign(y=target)


def _part(table: pd.DataFrame, share: float, run: int) -> Split:
    order = np.random.default_rng(run).permutation(len(table))
    cut = int(share * len(table))
    first, rest = table.iloc[order[:cut]], table.iloc[order[cut:]]
    return first.reset_index(drop=True), rest.reset_index(drop=True)


def _digits(_: Path) -> Case:
    from sklearn.datasets import load_digits

    table = _frame(*load_digits(return_X_y=True))
    return "y", lambda run: _part(table, 0.5, run), {f"f{k}": [0, 16] for k in range(64)} | TEN


def _breast_cancer(_: Path) -> Case:
    from sklearn.datasets import load_breast_cancer

    features, target = load_breast_cancer(return_X_y=True)
    # Its published description lists smallest and largest values.
    ends = zip(features.min(axis=0), features.max(axis=0), strict=True)
    bounds: dict[str, Any] = {f"f{k}": list(map(float, pair)) for k, pair in enumerate(ends)}
    table = _frame(features, target)
    return "y", lambda run: _part(table, 0.5, run), bounds | {"y": {"categories": [0, 1]}}


def _heart(folder: Path) -> Case:
    table = pd.read_csv(folder / "heart_disease.csv.gz")
    table = table.assign(y=(table["num"] > 0).astype(int))[list(HEART)]
    return "y", lambda run: _part(table, 0.8, run), HEART


def _adult(folder: Path) -> Case:
    names = (folder / "adult_train.csv.gz", folder / "adult_test.csv.gz")
    first, rest = (pd.read_csv(name, keep_default_na=False) for name in names)
    for table in (first, rest):
        table["income"] = table["income"].str.strip().str.rstrip(".")
    return "income", lambda _run: (first, rest), None


def _mnist(folder: Path) -> Case:
    with np.load(folder / "mnist.npz") as stored:
        images = [
            stored[name].reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
            for name in ("x_train", "x_test")
        ]
        tables = tuple(
            _frame(table, stored[name])
            for table, name in zip(images, ("y_train", "y_test"), strict=True)
        )
    return "y", lambda _run: (tables[0], tables[1]), {f"f{k}": [0, 255] for k in range(49)} | TEN


def _acs(folder: Path) -> Case:
    tables = []
    for year in ("2019", "2018"):
        table = pd.read_csv(folder / f"nist_acs_national{year}.csv.gz")
        rich = (pd.to_numeric(table["PINCP"], errors="coerce") > 50_000).astype(int)
        hidden = [n for n in ("PINCP", "PINCP_DECILE", "PWGTP", "WGTP") if n in table]
        tables.append(table.drop(columns=hidden).assign(rich=rich))
    return "rich", lambda _run: (tables[0], tables[1]), None


def _diabetes130(folder: Path) -> Case:
    table = pd.read_csv(folder / "diabetes130.csv.xz", keep_default_na=False)
    table = table.drop(columns=["encounter_id", "patient_nbr"])
    table["readmitted"] = np.where(table["readmitted"] == "NO", "no", "yes")
    return "readmitted", lambda run: _part(table, 0.8, run), None


READERS: dict[str, Callable[[Path], Case]] = {
    "digits": _digits,
    "breast-cancer": _breast_cancer,
    "heart": _heart,
    "adult": _adult,
    "mnist-49": _mnist,
    "acs": _acs,
    "diabetes130": _diabetes130,
}


def _scores(truth: np.ndarray, guess: np.ndarray, chances: np.ndarray, names: Any) -> list[float]:
    auc = roc_auc_score(truth == names[1], chances[:, 1]) if len(names) == 2 else np.nan
    return [float(np.mean(guess == truth)), balanced_accuracy_score(truth, guess), float(auc)]


def _line(name: str, method: str, found: list[list[float]]) -> str:
    mean = np.mean(found, axis=0)
    shown = ["–" if np.isnan(x) else f"{x:.3f}" for x in mean[:3]]
    return f"| {name} | {method} | {' | '.join(shown)} | {mean[3]:.1f} |"


def rows(name: str, folder: Path, runs: int) -> None:
    target, split, bounds = READERS[name](folder)
    about = f"{name}, {len(split(0)[0])} rows, bounds {'given' if bounds else 'paid for'}"
    constant, plain = [], []
    for run in range(runs):
        train, test = split(run)
        truth = test[target].astype(str).to_numpy()
        common = train[target].astype(str).mode()[0]
        share = float(np.mean(truth == common))
        constant.append([share, 1 / len(set(truth)), 0.5, 0.0])
        began = time.perf_counter()
        model = make_pipeline(column_encoder(train.drop(columns=target)), LogisticRegression())
        model.fit(train.drop(columns=target), train[target].astype(str))
        rest = test.drop(columns=target)
        found = _scores(truth, model.predict(rest), model.predict_proba(rest), model.classes_)
        plain.append([*found, time.perf_counter() - began])
    print(_line(about, "constant", constant))
    print(_line(about, "unprotected", plain), flush=True)
    for eta in ETAS:
        ours = []
        for run in range(runs):
            train, test = split(run)
            truth = test[target].astype(str).to_numpy()
            began = time.perf_counter()
            try:
                model = fit_private(
                    train, target, eta=eta, bounds=bounds, source=InsecureSource(run)
                )
            except InputError as error:
                print(f"| {about} | η = {eta} | {error} |")
                break
            seconds = time.perf_counter() - began
            chances = model.predict_proba(test)
            found = _scores(truth, model.predict(test), chances, model.target.classes)
            ours.append([*found, seconds])
        if ours:
            print(_line(about, f"η = {eta}", ours), flush=True)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dataset", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | method | accuracy | balanced | AUC | seconds |\n|---|---|---|---|---|---|")
    for name in asked.dataset:
        rows(name, asked.data, asked.runs)


if __name__ == "__main__":
    main()
