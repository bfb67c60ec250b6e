"""What is a synthetic table that hides every record (X25) worth, and what do rivals reach?

    python benchmarks/synthetic.py [--dataset adult …] [--eta 0.05 …] [--method bounds …]
                                   [--runs 5] [--rows N] [--data DIR] [--json FILE]
    python benchmarks/synthetic.py --markdown FILE
    python benchmarks/synthetic.py --million

Eight tables are split 80/20.  Per table, η and method, gradient boosting is trained on the new rows
and tested on the real rows that had no part: AUC, and log loss less that of a constant.  Also the
error of the class share, the mean and the largest total variation of two columns (numbers in ten
bins), contradictions between columns of which one decides the other, and processor seconds.

Methods: ``synthesize`` with nothing public but names (*no bounds*), and with categories and ranges
(*bounds*).  Rivals at the same μ: *independent* columns given the class, the whole budget on (bin,
class) counts; *tree*, the prototype of theory X25 (target, target × column, a tree of triples).
Rivals get ten public bins per number, cut at quantiles of the real rows, which nothing pays for:
they are better informed than *bounds*.  *real* is trained on the real rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from memberbound import synthesize
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray, draw, project
from memberbound.release.all_rows.tree import select_forest
from memberbound.release.budget import Budget

ETAS = (0.01, 0.05, 0.1)
#: Share of the rows that models are tested on.
_TESTED = 0.2
_MISSING = "(missing)"

# ── Eight tables ──────────────────────────────────────────────────────────────────────────────────


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _adult(folder: Path) -> tuple[pd.DataFrame, str]:
    table = pd.concat([_read(folder / f"adult_{part}.csv.gz") for part in ("train", "test")])
    return table.assign(income=table["income"].str.strip(" .")), "income"


def _acs(folder: Path) -> tuple[pd.DataFrame, str]:
    table = _read(folder / "nist_acs_national2019.csv.gz")
    table = table[table["PINCP_DECILE"] != "N"]
    rich = np.where(table["PINCP_DECILE"].astype(int) >= 7, "yes", "no")
    return table.drop(columns=["PINCP_DECILE", "PINCP", "PUMA"]).assign(rich=rich), "rich"


def _diabetes(folder: Path) -> tuple[pd.DataFrame, str]:
    table = _read(folder / "diabetes130.csv.xz").drop_duplicates("patient_nbr")
    table = table.drop(columns=["encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"])
    return table.assign(readmitted=np.where(table["readmitted"] == "NO", "no", "yes")), "readmitted"


def _heart(folder: Path) -> tuple[pd.DataFrame, str]:
    table = _read(folder / "heart_disease.csv.gz")
    return table.assign(ill=np.where(table.pop("num") > 0, "yes", "no")), "ill"


def _plain(name: str, target: str, *dropped: str) -> Callable[[Path], tuple[pd.DataFrame, str]]:
    def load(folder: Path) -> tuple[pd.DataFrame, str]:
        table = _read(folder / f"{name}.csv.gz").drop(columns=list(dropped))
        return table.astype({target: str}), target

    return load


DATA: dict[str, Callable[[Path], tuple[pd.DataFrame, str]]] = {
    "adult": _adult,
    "acs": _acs,
    "diabetes130": _diabetes,
    "german": _plain("german_credit", "class"),
    "heart": _heart,
    "compas": _plain("compas", "two_year_recid", "id"),
    "hotel": _plain("hotel", "is_canceled"),
    "health_insurance": _plain("health_insurance", "insurance", "rownames"),
}
#: Columns of which the first decides the second.
FUNCTIONS = {
    "adult": [("education", "education_num")],
    "compas": [("age", "age_cat"), ("decile_score", "score_text")],
}


def split(table: pd.DataFrame, run: int, rows: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows to train on, and rows to test on."""
    order = np.random.default_rng(run).permutation(len(table))[:rows]
    test, train = np.split(order, [int(len(order) * _TESTED)])
    return table.iloc[train].reset_index(drop=True), table.iloc[test].reset_index(drop=True)


# ── Codes: numbers and labels as a public scheme sees them ────────────────────────────────────────


def _numbers(column: pd.Series[Any]) -> FloatArray:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _labels(column: pd.Series[Any]) -> pd.Series[Any]:
    text = column.astype(object).where(column.notna(), _MISSING).astype(str)
    absent = ("NULL", "NA", "?", "None", "none", "nan", "<NA>")
    return text.where(~text.isin(absent), _MISSING)


class Coding:
    """Ten bins of a column of numbers, or the labels of any other, from the real rows."""

    def __init__(self, column: pd.Series[Any]) -> None:
        numbers = _numbers(column)
        there = ~np.isnan(numbers)
        self.edges = None
        self.is_number = bool(there.mean() > 0.3 and len(np.unique(numbers[there])) > 12)
        if self.is_number:
            self.edges = np.unique(np.quantile(numbers[there], np.arange(1, 10) / 10))
        self.labels = sorted(set(_labels(column)) if self.edges is None else ())
        self.count = len(self.labels) + 1 if self.edges is None else len(self.edges) + 2

    def codes(self, column: pd.Series[Any]) -> IntArray:
        """Return the bin or label of every value; the last code is for anything else."""
        if self.edges is None:
            known = {label: k for k, label in enumerate(self.labels)}
            return _labels(column).map(known).fillna(len(known)).to_numpy(dtype=np.int64)
        numbers = _numbers(column)
        places = np.searchsorted(self.edges, numbers, side="right")
        return np.where(np.isnan(numbers), self.count - 1, places)


def bounds_of(table: pd.DataFrame) -> dict[str, object]:
    """Return what an owner might know: categories, and ends of ranges."""
    bounds: dict[str, object] = {}
    for name in table.columns:
        column = table[name]
        numbers = _numbers(column)
        there = numbers[~np.isnan(numbers)]
        if len(there) > 0.3 * len(column) and len(np.unique(there)) > 2:
            bounds[name] = [float(there.min()), float(there.max())]
        elif column.nunique() <= 400 and not str(column.iloc[0]).startswith("20"):
            bounds[name] = {"categories": sorted(set(column.dropna().astype(str)))}
    return bounds


# ── Rivals, on public bins ────────────────────────────────────────────────────────────────────────


def _counts(codes: list[IntArray], sizes: list[int]) -> FloatArray:
    places = np.ravel_multi_index(codes, sizes)
    return np.bincount(places, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.float64)


def _columns_given_class(
    codes: list[IntArray], sizes: list[int], goal: IntArray, scale: float, draws: Any
) -> list[FloatArray]:
    tables = []
    for column, size in zip(codes, sizes, strict=True):
        noisy = _counts([column, goal], [size, 2])
        tables.append(project(noisy + draws.normal(0, scale, noisy.shape), float(len(goal))))
    groups = np.mean([table.sum(axis=0) for table in tables], axis=0)
    return [table * (groups / np.maximum(table.sum(axis=0), 1e-9)) for table in tables]


def independent(
    codes: list[IntArray], sizes: list[int], goal: IntArray, mu: float, draws: np.random.Generator
) -> tuple[list[IntArray], IntArray]:
    """Return columns that are independent given the class."""
    scale = np.sqrt(2 * len(codes)) / mu
    tables = _columns_given_class(codes, sizes, goal, scale, draws)
    groups = draw(tables[0].sum(axis=0)[None], np.zeros(len(goal), dtype=np.int64), draws)
    return [draw(table.T + 1e-9, groups, draws) for table in tables], groups


def tree(
    codes: list[IntArray], sizes: list[int], goal: IntArray, mu: float, draws: np.random.Generator
) -> tuple[list[IntArray], IntArray]:
    """Return rows of a tree of (parent, child, class) triples: shares 0.45, 0.1, 0.45 of μ²."""
    count, rows = len(codes), len(goal)
    first = np.sqrt(2 * count / 0.45) / mu
    tables = _columns_given_class(codes, sizes, goal, first, draws)
    groups = tables[0].sum(axis=0)
    pairs = list(itertools.combinations(range(count), 2))
    scores = np.zeros((count, count))
    for a, b in pairs:
        expected = tables[a][:, None] * tables[b][None] / groups
        exact = _counts([codes[a], codes[b], goal], [sizes[a], sizes[b], 2])
        scores[a, b] = np.abs(exact - expected).sum()
    noisy = scores + draws.normal(0, 2 * np.sqrt(len(pairs) / 0.1) / mu, scores.shape)
    upper = np.triu_indices(count, 1)
    scores[upper] = noisy[upper] - noisy[upper].min() + 1.0
    scale = np.sqrt(2 * (count - 1) / 0.45) / mu
    labels = draw(groups[None], np.zeros(rows, dtype=np.int64), draws)
    drawn: dict[int, IntArray] = {}
    for child, parent in select_forest(scores):
        given = tables[child].T / np.maximum(tables[child].sum(axis=0), 1e-9)[:, None]
        if parent is None:
            drawn[child] = draw(given + 1e-9, labels, draws)
            continue
        shape = [sizes[parent], sizes[child], 2]
        exact = _counts([codes[parent], codes[child], goal], shape)
        joint = project(exact + draws.normal(0, scale, shape), float(rows))
        laws = np.moveaxis(joint, 2, 1) + scale * np.sqrt(sizes[child]) * given[None]
        which = drawn[parent] * 2 + labels
        drawn[child] = draw(laws.reshape(-1, sizes[child]) + 1e-9, which, draws)
    return [drawn[column] for column in range(count)], labels


RIVALS = {"independent": independent, "tree": tree}
METHODS = ("real", "no bounds", "bounds", *RIVALS)


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────


def _features(table: pd.DataFrame, codings: dict[str, Coding], *, binned: bool) -> FloatArray:
    columns = []
    for name, coding in codings.items():
        plain = coding.is_number and not binned
        columns.append(_numbers(table[name]) if plain else coding.codes(table[name]))
    return np.column_stack(columns).astype(np.float64)


def model_scores(
    features: FloatArray, goal: IntArray, test: FloatArray, truth: IntArray, share: float
) -> dict[str, float]:
    """Return AUC, and log loss less that of a constant, of boosting in one thread."""
    constant = log_loss(truth, np.full(len(truth), share))
    if len(np.unique(goal)) < 2:
        return {"AUC": 0.5, "log loss": 0.0}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HistGradientBoostingClassifier(random_state=0).fit(features, goal)
        likely = model.predict_proba(test)[:, 1]
    return {
        "AUC": float(roc_auc_score(truth, likely)),
        "log loss": float(log_loss(truth, likely) - constant),
    }


def distances(real: list[IntArray], new: list[IntArray], sizes: list[int]) -> tuple[float, float]:
    """Return the mean and the largest total variation of two columns."""
    found = []
    for a, b in itertools.combinations(range(len(real)), 2):
        tables = [_counts([t[a], t[b]], [sizes[a], sizes[b]]) / len(t[a]) for t in (real, new)]
        found.append(0.5 * float(np.abs(tables[0] - tables[1]).sum()))
    return float(np.mean(found)), max(found)


def contradictions(name: str, real: pd.DataFrame, new: pd.DataFrame) -> float | None:
    """Return the share of new rows with a pair of values that a real function excludes."""
    wrong = []
    for a, b in FUNCTIONS.get(name, ()):
        known = set(zip(_labels(real[a]), _labels(real[b]), strict=True))
        drawn = zip(_labels(new[a]), _labels(new[b]), strict=True)
        wrong.append(np.mean([pair not in known for pair in drawn]))
    return max(wrong, default=None)


@dataclass(frozen=True)
class Task:
    """A table, split."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    target: str


def measure_one(task: Task, method: str, eta: float, run: int) -> dict[str, Any]:
    """Return the scores of one method on one split."""
    train, test, target = task.train, task.test, task.target
    last = sorted(set(train[target]))[-1]
    codings = {c: Coding(train[c]) for c in train.columns if c != target}
    goal, truth = ((t[target] == last).to_numpy(dtype=np.int64) for t in (train, test))
    share = float(goal.mean())
    codes = [coding.codes(train[c]) for c, coding in codings.items()]
    sizes = [coding.count for coding in codings.values()]
    start = time.process_time()
    extra: dict[str, Any] = {}
    if method in RIVALS:
        mu = Budget.for_eta(eta, slack=0.0).mu
        draws = np.random.default_rng(run)
        new_codes, new_goal = RIVALS[method](codes, sizes, goal, mu, draws)
        seconds = time.process_time() - start
        features = np.column_stack(new_codes).astype(np.float64)
        tested = _features(test, codings, binned=True)
    else:
        new = train
        if method != "real":
            bounds = bounds_of(train) if method == "bounds" else None
            new = synthesize(train, target=target, eta=eta, bounds=bounds).table
            wrong = contradictions(task.name, train, new)
            extra = {} if wrong is None else {"contradictions": wrong}
        seconds = time.process_time() - start
        new = new.reindex(columns=train.columns)
        new_goal = (new[target].astype(str) == last).to_numpy(dtype=np.int64)
        new_codes = [coding.codes(new[c]) for c, coding in codings.items()]
        features = _features(new, codings, binned=False)
        tested = _features(test, codings, binned=False)
    scores = model_scores(features, new_goal, tested, truth, share)
    mean, worst = distances([*codes, goal], [*new_codes, new_goal], [*sizes, 2])
    return scores | {
        "class share": float(new_goal.mean() - share),
        "mean TV": mean,
        "worst TV": worst,
        "seconds": seconds,
        **extra,
    }


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line per table, run, η and method."""
    for name in options.dataset:
        table, target = DATA[name](options.data)
        for run, eta, method in itertools.product(range(options.runs), options.eta, options.method):
            if method == "real" and eta != options.eta[0]:
                continue
            task = Task(name, *split(table, run, options.rows), target)
            line: dict[str, Any] = {
                "table": name,
                "rows": len(task.train),
                "method": method,
                "run": run,
            }
            line |= {} if method == "real" else {"eta": eta}
            try:
                yield line | measure_one(task, method, eta, run)
            except InputError as problem:
                yield line | {"refused": str(problem)}


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
    shown = ("AUC", "log loss", "class share", "mean TV", "worst TV", "contradictions", "seconds")
    text = ["| table | η | method | " + " | ".join(shown) + " |", "|---" * (3 + len(shown)) + "|"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["table"], line.get("eta", 0.0), line["method"]), []).append(line)
    for (table, eta, method), group in groups.items():
        cells = []
        for score in shown:
            values = [line[score] for line in group if line.get(score) is not None]
            if not values:
                cells.append("refused" if "refused" in group[0] else "–")
                continue
            digits = 1 if score == "seconds" else 3
            error = ""
            if score == "AUC" and len(values) > 1:
                error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"
            mean = np.mean(np.abs(values)) if score == "class share" else np.mean(values)
            cells.append(f"{mean:.{digits}f}{error}")
        text.append(f"| {table} | {eta or '–'} | {method} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--eta", nargs="+", type=float, default=list(ETAS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, help="rows of every table at most")
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
        for line in measure(options):
            text = json.dumps(line)
            print(text)
            if options.json is not None:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")


if __name__ == "__main__":
    main()
