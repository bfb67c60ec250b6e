"""What is a synthetic table that hides every record (X25) worth, and what do rivals reach?

    python benchmarks/synthetic.py [--dataset adult …] [--eta 0.05 …] [--method bounds …]
                                   [--runs 5] [--rows N] [--data DIR] [--json FILE]
    python benchmarks/synthetic.py --markdown FILE
    python benchmarks/synthetic.py --million

Eight tables are split 80/20.  Per table, η and method, gradient boosting is trained on the new rows
and tested on the real rows that had no part: AUC, and log loss less that of a constant.  Also the
error of the class share, the mean and the largest total variation of two columns (numbers in ten
bins), contradictions between columns if one determines the other, and processor seconds.

Methods: ``synthesize`` with nothing public but names (*no bounds*), and with categories and ranges
(*bounds*).  Rivals at the same μ: *independent* columns given the class, the whole budget on (bin,
class) counts; *tree*, the prototype of theory X25 (target, target × column, a tree of triples).
Rivals get ten public bins per number, cut at quantiles of the real rows, which nothing pays for:
they are better informed than *bounds*.  *real* is trained on the real rows.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from synthetic_rivals import RIVALS, contingency
from threadpoolctl import threadpool_limits

from memberbound import synthesize
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray
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
#: Pairs of columns; the first determines the second.
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

_ABSENT = ("NULL", "NA", "?", "None", "none", "nan", "<NA>", "NaT")
#: Bins of a number; labels of a column (the rarest count as one).
_BINS, _MOST_LABELS = 10, 64
#: Categories that an owner might list.
_MOST_LISTED = 400


def _numbers(column: pd.Series[Any]) -> FloatArray:
    """Return numbers, and days since 1970 where a column holds dates."""
    dates = pd.api.types.is_datetime64_any_dtype(column)
    numbers = pd.to_numeric(column.astype(str) if dates else column, errors="coerce")
    if numbers.isna().all() and column.notna().any():
        dates = pd.to_datetime(column.astype(str), errors="coerce", format="ISO8601")
        numbers = (dates - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _labels(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return texts; numbers are written alike, whatever their type."""
    text = column.astype(object).where(column.notna(), _MISSING).astype(str)
    numbers = pd.to_numeric(column, errors="coerce")
    written = numbers.map(lambda value: f"{value:g}", na_action="ignore")
    return text.where(numbers.isna(), written).where(~text.isin(_ABSENT), _MISSING)


class Coding:
    """Ten bins of a column of numbers or dates, or the labels of any other, from the real rows.

    A text in a column of numbers counts as missing.
    """

    def __init__(self, column: pd.Series[Any]) -> None:
        numbers = _numbers(column)
        there = ~np.isnan(numbers)
        self.of_numbers = bool(there.mean() > 0.3)
        self.is_number = self.of_numbers and len(np.unique(numbers[there])) > _BINS + 2
        if self.is_number:
            values = np.unique(numbers[there])
            cuts = np.quantile(numbers[there], np.arange(1, _BINS) / _BINS)
            # Midway between neighbouring values: a value near a frequent one has its bin.
            above = np.clip(np.searchsorted(values, cuts), 1, len(values) - 1)
            self.edges = np.unique((values[above - 1] + values[above]) / 2)
            self.count = len(self.edges) + 2
            return
        kept = self._kept(column).value_counts().index[: _MOST_LABELS - 1]
        self.labels = {label: k for k, label in enumerate(sorted(kept))}
        self.count = len(self.labels) + 1

    def _kept(self, column: pd.Series[Any]) -> pd.Series[Any]:
        labels = _labels(column)
        return labels.where(~np.isnan(_numbers(column)), _MISSING) if self.of_numbers else labels

    def codes(self, column: pd.Series[Any]) -> IntArray:
        """Return the bin or label of every value; the last code is for anything else."""
        last = self.count - 1
        if not self.is_number:
            return self._kept(column).map(self.labels).fillna(last).to_numpy(dtype=np.int64)
        numbers = _numbers(column)
        indices = np.searchsorted(self.edges, numbers, side="right")
        return np.where(np.isnan(numbers), last, indices)


def bounds_of(table: pd.DataFrame, *, edges: bool = False) -> dict[str, object]:
    """Return what an owner might know: categories, ends of ranges, and ``edges`` inside them."""
    bounds: dict[str, object] = {}
    for name in table.columns:
        column, coding = table[name], Coding(table[name])
        numbers = _numbers(column)
        there = numbers[~np.isnan(numbers)]
        if coding.of_numbers and len(np.unique(there)) > 2:
            ends = [float(there.min()), float(there.max())]
            if pd.to_numeric(column, errors="coerce").isna().all():
                days = [np.floor(ends[0]), np.ceil(ends[1])]
                bounds[name] = [str(np.datetime64(int(day), "D")) for day in days]
                continue
            inner = [] if not coding.is_number else coding.edges
            inner = sorted({*ends, *(float(edge) for edge in inner)})
            bounds[name] = {"edges": inner} if edges and coding.is_number else ends
        elif column.nunique() <= _MOST_LISTED:
            bounds[name] = {"categories": sorted(set(column.dropna().astype(str)))}
    return bounds


#: Ways of ours, and rivals.
METHODS = ("real", "no bounds", "bounds", "edges", "no target", *RIVALS)


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
    known = ~np.isnan(features).all(axis=0)  # new rows may lack a column
    features, test = features[:, known], test[:, known]
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
        tables = [contingency([t[a], t[b]], [sizes[a], sizes[b]]) / len(t[a]) for t in (real, new)]
        found.append(0.5 * float(np.abs(tables[0] - tables[1]).sum()))
    return float(np.mean(found)), max(found)


def contradictions(name: str, real: pd.DataFrame, new: pd.DataFrame) -> float | None:
    """Return the share of new rows with two real values that never occur together in real rows."""
    wrong = []
    for a, b in FUNCTIONS.get(name, ()):
        firsts, seconds = _labels(real[a]), _labels(real[b])
        known = set(zip(firsts, seconds, strict=True))
        both = set(itertools.product(set(firsts), set(seconds)))
        drawn = zip(_labels(new[a]), _labels(new[b]), strict=True)
        wrong.append(np.mean([pair in both and pair not in known for pair in drawn]))
    return max(wrong, default=None)


@dataclass(frozen=True)
class Task:
    """A table, split."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    target: str


def draw_rows(
    train: pd.DataFrame, target: str | None, eta: float, bounds: Any, seed: int | None
) -> pd.DataFrame:
    """Return new rows of ``synthesize``, without the comparison for their owner."""
    verb = importlib.import_module("memberbound.verbs.synthesize")
    with mock.patch.object(
        verb, "measure_fidelity", return_value=SimpleNamespace(shortcoming=None)
    ):
        made = synthesize(train, target=target, eta=eta, bounds=bounds, insecure_seed=seed)
    return made.table


def measure_one(
    task: Task, method: str, eta: float, run: int, seed: int | None = None
) -> dict[str, Any]:
    """Return the scores of one method on one split; ``seed`` makes the noise repeatable."""
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
            bounds = None if method == "no bounds" else bounds_of(train, edges=method == "edges")
            goal_name = None if method == "no target" else target
            new = draw_rows(train, goal_name, eta, bounds, seed)
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
