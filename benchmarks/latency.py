"""Latency of predicting one row: a protected model, scikit-learn's own, and ONNX.

    python benchmarks/latency.py [--rows 20000] [--repeats 500]

The table has numbers and categories.  scikit-learn's model is a pipeline of scaling, one-hot
encoding and the learner, called with a data frame of one row.  Times are
processor seconds of one core, per row; the last column is the ratio to scikit-learn's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from memberbound import load, protect

NUMBERS = [f"number{index}" for index in range(10)]
WORDS = [f"word{index}" for index in range(4)]
LABELS = [f"label{index}" for index in range(8)]
BOUNDS = {name: [-4, 4] for name in NUMBERS} | dict.fromkeys(WORDS, LABELS) | {"ill": ["no", "yes"]}


def people(rows: int) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    table = pd.DataFrame(draws.normal(size=(rows, len(NUMBERS))), columns=NUMBERS)
    for name in WORDS:
        table[name] = draws.choice(LABELS, rows)
    score = table["number0"] + (table["word0"] == "label1") + draws.normal(size=rows)
    return table.assign(ill=np.where(score > 0, "yes", "no"))


def usual(learner: str) -> Pipeline:
    scaled = (StandardScaler(), NUMBERS)
    encoded = (OneHotEncoder(handle_unknown="ignore", sparse_output=False), WORDS)
    models = {
        "logistic": LogisticRegression(max_iter=500),
        "boosting": HistGradientBoostingClassifier(),
    }
    return make_pipeline(make_column_transformer(scaled, encoded), models[learner])


def seconds(ask: Callable[[], object], repeats: int) -> float:
    """Return the processor time of one call, the least of five runs."""
    ask()
    runs = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            ask()
        runs.append((time.process_time() - start) / repeats)
    return min(runs)


def measure(learner: str, table: pd.DataFrame, repeats: int) -> dict[str, float]:
    row = table.drop(columns="ill").iloc[:1]
    as_dictionary = row.to_dict("records")[0]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "model.onnx")
        protect(table, target="ill", learner=learner, bounds=BOUNDS, out=out)
        model = load(out)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(out), options)
    feeds = {
        name: row[name].to_numpy(dtype=object if name in WORDS else np.float64).reshape(1, 1)
        for name in row.columns
    }
    pipeline = usual(learner).fit(table.drop(columns="ill"), table["ill"])
    return {
        "scikit-learn, data frame": seconds(lambda: pipeline.predict_proba(row), repeats),
        "protected, data frame": seconds(lambda: model.predict_proba(row), repeats),
        "protected, dictionary": seconds(lambda: model.predict_proba(as_dictionary), repeats),
        "protected, ONNX": seconds(lambda: session.run(None, feeds), repeats),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=200)
    asked = parser.parse_args()
    table = people(asked.rows)
    print("| learner | asked | ms per row | of scikit-learn's |\n|---|---|---|---|")
    with threadpool_limits(1):
        for learner in ("logistic", "boosting"):
            times = measure(learner, table, asked.repeats)
            first = next(iter(times.values()))
            for name, taken in times.items():
                print(f"| {learner} | {name} | {1e3 * taken:.2f} | {taken / first:.2f} |")


if __name__ == "__main__":
    main()
