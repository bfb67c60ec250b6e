"""What does η for every record cost a small network, beside the linear model (X12, X22)?

    python benchmarks/networks.py [--eta 0.05 0.1] [--data DIR]

A two-layer perceptron on Adult's raw file, with privately learnt ranges and categories and default
settings, and logistic regression by gradient descent on the same rows.  One draw of the noise each;
accuracy and AUC on the test files, and seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gradient import READERS
from sklearn.metrics import roc_auc_score
from torch import nn

from memberbound.release.all_rows.models import PrivateModel
from memberbound.release.all_rows.networks import fit_network
from memberbound.release.all_rows.training import fit_private
from memberbound.release.randomness import InsecureSource


def perceptron(inputs: int, outputs: int) -> Any:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def report(name: str, eta: float, make: Callable[[], PrivateModel], rows: Any, truth: Any) -> None:
    start = time.perf_counter()
    cpu = time.process_time()
    made = make()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert made.certificate_.value <= eta
    accuracy = np.mean(made.predict(rows) == truth)
    names, auc = made.class_names, "–"
    if len(names) == 2:
        auc = f"{roc_auc_score(truth == names[1], made.predict_proba(rows)[:, 1]):.3f}"
    print(f"| {name} | η = {eta} | {accuracy:.3f} | {auc} | {wall:.0f} ({cpu:.0f}) |", flush=True)


def adult(folder: Path, eta: float) -> None:
    target, split, _ = READERS["adult"](folder)
    train, test = split(0)
    truth = test[target].to_numpy(dtype=object)
    noise = InsecureSource(0)
    for name, make in (
        (
            "Adult, perceptron",
            lambda: fit_network(train, target, perceptron, eta=eta, source=noise),
        ),
        ("Adult, logistic", lambda: fit_private(train, target, eta=eta, source=noise)),
    ):
        report(name, eta, make, test, truth)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--eta", nargs="+", type=float, default=[0.05, 0.1])
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    asked = parser.parse_args()
    if not (asked.data / "adult_train.csv.gz").is_file():
        print(f"no data in {asked.data}: give --data")
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| data and model | promise | accuracy | AUC | seconds (of a processor) |")
    print("|---|---|---|---|---|", flush=True)
    for eta in asked.eta:
        adult(asked.data, eta)


if __name__ == "__main__":
    main()
