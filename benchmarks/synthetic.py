"""What is a synthetic table that hides every record (X25) worth, and what do plain rivals reach?

    python benchmarks/synthetic.py [--dataset adult …] [--eta 0.05 …] [--method private …]
                                   [--runs 3] [--data DIR] [--json FILE]
    python benchmarks/synthetic.py --markdown FILE
    python benchmarks/synthetic.py --million

Per table, η and method: models are trained on synthetic rows and tested on real rows that had no
part; mean total variation of pairs of columns; processor seconds.  Methods: ``synthesize`` with
columns learnt from the rows (*private*) and with public bounds (*public*: the categories, and the
least and largest number, as an owner might know them); *independent*: the same noisy counts of
single columns with the target, no pairs and no label model, the whole budget for the counts.
*harden (average record)* promises less, to the average record only: the rows of a coarser table at
security 1 - 2η, and test rows made coarser by the same recipe; its pairs are not compared.
With mbi 2.0 installed (it brings jax): *mbi*, our measurements of columns and tree, the label
model's share spread over them, estimated by Private-PGM; *mst*, the recipe of MST with normal noise
(a third of μ² each for columns, noisy scores and the pairs of a spanning tree; the target is a
column like any other), on our cells, estimated likewise.
``real`` are models trained on the real rows.  ``--million`` measures a million rows × 30 columns.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import math
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from memberbound import harden, synthesize
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows import synthetic
from memberbound.release.all_rows.cells import Cells, ReleasedColumn
from memberbound.release.all_rows.marginals import LabelledRows
from memberbound.release.all_rows.tree import best_forest, pair_score, shrunk_counts
from memberbound.tables.records import read_records

ETAS = (0.01, 0.05, 0.1)
METHODS = ("private", "public", "independent", "harden", "mbi", "mst")
#: Methods that need mbi: measured where it is installed.
_WITH_MBI = ("mbi", "mst")
#: Steps of mbi's mirror descent.
_STEPS = 1000
#: Methods whose promise is another one say so in every line.
_LABELS = {"harden": "harden (average record)"}
#: Small tables are cut again in every run.
_TESTED = 0.25


def _adult(folder: Path, _: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    train, test = (
        pd.read_csv(folder / f"adult_{part}.csv.gz", keep_default_na=False)
        for part in ("train", "test")
    )
    for table in (train, test):
        table["income"] = table["income"].str.strip(" .")
    return train, test, "income"


def _acs(folder: Path, _: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    tables = []
    for year in (2019, 2018):
        table = pd.read_csv(folder / f"nist_acs_national{year}.csv.gz", keep_default_na=False)
        table = table[table["PINCP_DECILE"] != "N"].reset_index(drop=True)
        table["rich"] = np.where(table.pop("PINCP_DECILE").astype(int) >= 7, "yes", "no")
        tables.append(table.drop(columns=[c for c in ("PINCP", "PUMA") if c in table]))
    return tables[0], tables[1], "rich"


def _cut(table: pd.DataFrame, target: str, run: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    order = np.random.default_rng(run).permutation(len(table))
    cut = int(len(table) * _TESTED)
    test, train = (table.iloc[rows].reset_index(drop=True) for rows in np.split(order, [cut]))
    return train, test, target


def _diabetes(folder: Path, run: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    table = pd.read_csv(folder / "diabetes130.csv.xz", keep_default_na=False)
    table = table.drop_duplicates("patient_nbr").drop(columns=["encounter_id", "patient_nbr"])
    table["readmitted"] = np.where(table["readmitted"] == "NO", "no", "yes")
    return _cut(table.drop(columns=["diag_1", "diag_2", "diag_3"]), "readmitted", run)


def _heart(folder: Path, run: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    table = pd.read_csv(folder / "heart_disease.csv.gz")
    table["ill"] = np.where(table.pop("num") > 0, "yes", "no")
    return _cut(table, "ill", run)


def _german(folder: Path, run: int) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    table = pd.read_csv(folder / "german_credit.csv.gz")
    target = str(table.columns[-1])
    table[target] = table[target].astype(str)
    return _cut(table, target, run)


DATA = {
    "adult": _adult,
    "acs": _acs,
    "diabetes130": _diabetes,
    "heart": _heart,
    "german": _german,
}


def bounds_of(table: pd.DataFrame) -> dict[str, object]:
    """Return what an owner might know: categories, and ends of ranges."""
    bounds: dict[str, object] = {}
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
            bounds[name] = [float(column.min()), float(column.max())]
        else:
            labels = sorted(set(column.dropna().astype(str)))
            bounds[name] = {"categories": labels}
    return bounds


def scores(
    train: pd.DataFrame, test: pd.DataFrame, real: pd.DataFrame, target: str
) -> dict[str, float]:
    """Return accuracy and AUC on real rows of models trained on a table."""
    features = [c for c in real.columns if c != target and c in train.columns]
    numeric = [c for c in features if pd.api.types.is_numeric_dtype(real[c])]
    other = [c for c in features if c not in numeric]
    wanted = sorted(set(real[target].astype(str)))[-1]
    goal, truth = (t[target].astype(str).to_numpy() == wanted for t in (train, test))

    def plain(table: pd.DataFrame) -> pd.DataFrame:
        parts = {c: pd.to_numeric(table[c], errors="coerce").astype(float) for c in numeric}
        known = {c: sorted(set(real[c].astype(str)))[:250] for c in other}
        for c in other:
            codes = {label: k for k, label in enumerate(known[c])}
            parts[c] = table[c].astype(str).map(codes).fillna(-1).astype(float)
        return pd.DataFrame(parts)

    rows, tested = plain(train), plain(test)
    boosting = HistGradientBoostingClassifier(random_state=0)
    scaled = make_pipeline(FunctionTransformer(np.arcsinh), StandardScaler())
    linear = make_pipeline(
        make_column_transformer((scaled, numeric), (OneHotEncoder(handle_unknown="ignore"), other)),
        LogisticRegression(max_iter=500),
    )
    result = {}
    for name, model in (("boosting", boosting), ("logistic", linear)):
        filled = [table.fillna(0.0) for table in (rows, tested)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            likely = model.fit(filled[0], goal).predict_proba(filled[1])[:, 1]
        result[f"{name} accuracy"] = float(((likely > 0.5) == truth).mean())
        result[f"{name} AUC"] = float(roc_auc_score(truth, likely))
    return result


def two_way_distance(real: pd.DataFrame, new: pd.DataFrame) -> float:
    """Return the mean total variation of pairs of columns, numbers in 10 bins of the real rows."""
    names = [c for c in real.columns if c in new.columns]
    codes = []
    for name in names:
        if pd.api.types.is_numeric_dtype(real[name]):
            edges = np.unique(real[name].quantile(np.arange(1, 10) / 10).dropna())
            pair = []
            for table in (real, new):
                values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float)
                place = 1 + np.searchsorted(edges, values, side="right")
                pair.append(np.where(np.isnan(values), 0, place))
        else:
            labels = {x: k for k, x in enumerate(sorted(set(real[name].astype(str))))}
            pair = [
                table[name].astype(str).map(labels).fillna(len(labels)).to_numpy(dtype=int)
                for table in (real, new)
            ]
        codes.append(pair)
    distances = []
    for (a, x), (b, y) in itertools.combinations(codes, 2):
        width = int(max(b.max(), y.max())) + 1
        size = width * (int(max(a.max(), x.max())) + 1)
        laws = [np.bincount(u * width + v, minlength=size) / len(u) for u, v in ((a, b), (x, y))]
        distances.append(0.5 * np.abs(laws[0] - laws[1]).sum())
    return float(np.mean(distances))


def made(method: str, table: pd.DataFrame, target: str, eta: float) -> pd.DataFrame:
    """Return synthetic rows by a method."""
    if method in _WITH_MBI:
        return graphical(method, table, target, eta)
    bounds = None if method == "private" else bounds_of(table)
    if method != "independent":
        return synthesize(table, target=target, eta=eta, bounds=bounds).table
    with mock.patch.object(synthetic, "_LEAST_SIGNAL", math.inf):
        return synthesize(table, target=target, eta=eta, bounds=bounds).table


class _SpanningTree(synthetic._Counting):
    """Chooses a tree as MST does: the noisy scores as they are, and all columns in one tree."""

    def tree(self, columns: Sequence[ReleasedColumn]) -> list[tuple[int, int | None]]:
        pairs = list(itertools.combinations(range(len(columns)), 2))
        expected = [self.expected(columns[a], columns[b]) for a, b in pairs]
        counts = self.rows.sum(LabelledRows.counts, pairs, [e.shape for e in expected])
        exact = [*map(pair_score, counts, expected)]
        moved = 2.0 * math.sqrt(len(pairs))
        noisy = self.sums(synthetic._SCORES, sensitivity=moved).measure(exact)
        scores = np.zeros((len(columns), len(columns)))
        scores[tuple(zip(*pairs, strict=True))] = noisy - noisy.min() + 1.0
        return best_forest(scores)


def graphical(method: str, table: pd.DataFrame, target: str, eta: float) -> pd.DataFrame:
    """Return rows of a graphical model that mbi estimates from noisy counts.

    The counts are taken where ``fit_synthetic`` draws them, before it makes anything of them.
    """
    mbi = importlib.import_module("mbi")
    singles: list[tuple[ReleasedColumn, FloatArray, float]] = []
    pairs: list[tuple[FloatArray, float]] = []
    released, shrunk = synthetic.released_column, shrunk_counts

    def keep_single(
        cells: Cells, noisy: FloatArray, groups: FloatArray, scale: float, **size: Any
    ) -> ReleasedColumn:
        column = released(cells, noisy, groups, scale, **size)
        singles.append((column, noisy, scale))
        return column

    def keep_pair(noisy: FloatArray, expected: FloatArray, scale: float) -> FloatArray:
        pairs.append((noisy, scale))
        return shrunk(noisy, expected, scale)

    changed: dict[str, Any] = {"released_column": keep_single, "shrunk_counts": keep_pair}
    if method == "mst":
        thirds = dict.fromkeys(synthetic._WITHOUT_TARGET, 1 / 3)
        changed |= {"_WITHOUT_TARGET": thirds, "_LEAST_SIGNAL": 0.0, "_Counting": _SpanningTree}
    else:
        whole = 1 - synthetic._WITH_TARGET["labels"]
        shares = {k: v / whole for k, v in synthetic._WITH_TARGET.items() if k != "labels"}
        changed["_WITH_TARGET"] = shares
    with mock.patch.multiple(synthetic, **changed):
        model = synthetic.fit_synthetic(
            read_records(table),
            eta=eta,
            bounds=bounds_of(table),
            target=None if method == "mst" else target,
        )

    columns = {column.cells.name: column for column in model.columns}
    names = list(columns)
    given: tuple[str, ...] = ()
    if model.target is not None:
        given = (target,)
        columns[target] = model.target
    domain = mbi.Domain.fromdict({name: len(c.coarse) for name, c in columns.items()})
    found = []
    for single, noisy, scale in singles:
        name = single.cells.name
        blocks = columns[name].block_of_cell
        sums = np.zeros((len(columns[name].coarse), noisy.shape[1]))
        np.add.at(sums, blocks, noisy)
        # The noise of a block grows with the root of its cells.
        weights = 1 / np.sqrt(np.bincount(blocks))[:, None] * np.ones(noisy.shape[1])
        clique = (name,) if name == target else (name, *given)
        query = mbi.WeightedQuery(weights.ravel())
        found.append(mbi.LinearMeasurement((sums * weights).ravel(), clique, scale, query))
    edges = [(names[parent], names[child]) for child, parent, _ in model.tree if parent is not None]
    for edge, (noisy, scale) in zip(edges, pairs, strict=True):
        found.append(mbi.LinearMeasurement(noisy.ravel(), (*edge, *given), scale))
    descent = mbi.estimation.MirrorDescent()
    law = descent.estimate(domain, found, known_total=len(table), iters=_STEPS)
    drawn = law.synthetic_data(len(table)).to_dict()
    draws = np.random.default_rng()
    return pd.DataFrame(
        {
            name: columns[name].drawn(np.asarray(drawn[name]).astype(np.int64), draws)
            for name in table.columns
            if name in columns
        }
    )


def coarser(
    train: pd.DataFrame, test: pd.DataFrame, target: str, eta: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the released rows of a coarser table, and test rows by the same recipe."""
    answer = harden(train, security=1 - 2 * eta, target=target)
    return answer.table, answer.rules.apply(test)


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line per table, run, η and method."""
    for name, run in itertools.product(options.dataset, range(options.runs)):
        train, test, target = DATA[name](options.data, run)
        if run == 0 or name not in ("adult", "acs"):
            yield {"table": name, "rows": len(train), "method": "real", "run": run} | scores(
                train, test, train, target
            )
        for eta, method in itertools.product(options.eta, options.method):
            label = _LABELS.get(method, method)
            line: dict[str, Any] = {"table": name, "method": label, "eta": eta, "run": run}
            start = time.process_time()
            try:
                if method == "harden":
                    new, tested = coarser(train, test, target, eta)
                else:
                    new, tested = made(method, train, target, eta), test
            except InputError as problem:
                yield line | {"refused": str(problem)}
                continue
            line["seconds"] = time.process_time() - start
            if method == "harden":
                line |= {"rows": len(new), "columns": list(new.columns)}
                yield line | scores(new, tested, new, target)
            else:
                line["distance"] = two_way_distance(train, new)
                yield line | scores(new, tested, train, target)


def million() -> None:
    """Print seconds and peak memory of a million rows × 30 columns."""
    draws = np.random.default_rng(0)
    rows = 1_000_000
    columns: dict[str, Any] = {f"n{k}": draws.integers(0, 100, rows) for k in range(15)}
    columns |= {f"c{k}": draws.choice(list("abcdefgh"), rows) for k in range(14)}
    columns["y"] = np.where(columns["n0"] > draws.integers(0, 100, rows), "yes", "no")
    table = pd.DataFrame(columns)
    for part in (250_000, rows):
        start, cpu = time.perf_counter(), time.process_time()
        synthesize(table[:part], target="y", eta=0.05)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        seconds, used = time.perf_counter() - start, time.process_time() - cpu
        print(
            f"{part} rows × 30: {seconds:.1f} s ({used:.1f} of the processor), peak {peak:.2f} GiB"
        )


def markdown(lines: list[dict[str, Any]]) -> str:
    """Return a table of means ± standard errors."""
    shown = ("boosting AUC", "logistic AUC", "boosting accuracy", "distance", "seconds")
    text = ["| table | η | method | " + " | ".join(shown) + " |", "|---" * (3 + len(shown)) + "|"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["table"], line.get("eta", 0.0), line["method"]), []).append(line)
    for (table, eta, method), group in groups.items():
        cells = []
        for score in shown:
            values = [line[score] for line in group if score in line]
            if not values:
                cells.append("refused" if "refused" in group[0] else "–")
                continue
            spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            digits = 1 if score == "seconds" else 3
            error = "" if spread is None or score == "seconds" else f" ± {spread:.3f}"
            cells.append(f"{np.mean(values):.{digits}f}{error}")
        text.append(f"| {table} | {eta or '–'} | {method} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--eta", nargs="+", type=float, default=list(ETAS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    if options.million:
        million()
    elif options.markdown is not None:
        stored = options.markdown.read_text(encoding="utf-8").splitlines()
        print(markdown([json.loads(line) for line in stored]))
    else:
        wanted = [method for method in options.method if method in _WITH_MBI]
        if wanted and importlib.util.find_spec("mbi") is None:
            print(f"mbi is not installed: {' and '.join(wanted)} not measured.", file=sys.stderr)
            options.method = [method for method in options.method if method not in wanted]
        for line in measure(options):
            text = json.dumps(line)
            print(text, file=sys.stderr)
            if options.json is not None:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")


if __name__ == "__main__":
    main()
