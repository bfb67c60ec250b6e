"""Quality of columns learnt without bounds, by shape and number of rows.

    python benchmarks/columns.py [--rows 500 2000 …] [--columns 20] [--eta 0.05] [--draws 6]
                                 [--shape years …] [--csv FILE …]

Every column is learnt by two noisy looks, counted once more with the noise of a synthetic table's
columns (37 % of the rest of μ²), and drawn again.  Per shape and number of rows: the mean total
variation between the column and what is drawn (atoms of one per cent, and 24 quantile bins), the
share of draws in which the column was lost, and the share of drawn numbers that cannot occur:
outside the column's range, or not whole where all are.  The thresholds of
``memberbound.release.all_rows.number_laws`` and ``private_columns`` were chosen on these shapes.
``--csv`` measures the columns of real tables; compas and Adult changed some rules, and so are not
out of sample.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.cells import Cells
from memberbound.release.all_rows.marginals import estimate_cells
from memberbound.release.all_rows.private_columns import learn_columns, take_looks
from memberbound.release.budget import Budget
from memberbound.release.randomness import InsecureSource
from memberbound.tables.columns import read_column
from memberbound.tables.records import Records, read_records
from memberbound.tables.values import Values

#: Share of what is left of μ² that counts the columns of a synthetic table.
_COUNTED = 0.37
_DRAWN = 20_000


def shapes(rows: int, draws: np.random.Generator) -> dict[str, Sequence[Any]]:
    """Return columns of many shapes."""
    harmonic = [1 / np.arange(1, k + 1) for k in (30, 400)]
    codes = draws.integers(10_000, 99_999, 300)
    seconds = draws.integers(0, 86_400 * 365, rows)
    stamps = pd.Timestamp("2019-01-01") + pd.to_timedelta(seconds, "s")
    days = pd.Timestamp("2015-07-01") + pd.to_timedelta(draws.integers(0, 790, rows), "D")

    def mostly(share: float, value: object, others: Sequence[Any]) -> list[object]:
        chosen = draws.random(rows) < share
        pairs = zip(chosen, np.asarray(others).tolist(), strict=True)
        return [value if first else other for first, other in pairs]

    return {
        "years": draws.choice([2015, 2016, 2017], rows, p=[0.25, 0.45, 0.3]),
        "birth years": np.clip(np.rint(draws.normal(1970, 18, rows)), 1920, 2008).astype(int),
        "money": np.round(np.exp(draws.normal(10, 1.2, rows)), 2),
        "income, 40 % zero": mostly(0.4, 0, np.rint(np.exp(draws.normal(8, 1.5, rows)))),
        "gains, 92 % zero": mostly(0.92, 0, draws.choice([3103, 5178, 7688, 15024, 99999], rows)),
        "0 or 1": (draws.random(rows) < 0.3).astype(int),
        "rarely 1": (draws.random(rows) < 0.05).astype(int),
        "-1 as a code": mostly(0.35, -1, draws.integers(1, 365, rows)),
        "ages": np.clip(np.rint(draws.gamma(6, 6.5, rows)), 17, 90).astype(int),
        "ages with a decimal": np.round(np.clip(draws.normal(45, 18, rows), 0.1, 95), 1),
        "glucose": np.round(np.exp(draws.normal(4.6, 0.3, rows)), 2),
        "zip codes": draws.choice(codes, rows, p=draws.dirichlet(np.full(300, 0.5))),
        "small counts": np.minimum(draws.poisson(1.3, rows), 9),
        "lead times": np.rint(draws.exponential(90, rows)).astype(int),
        "normal": draws.normal(0, 1, rows),
        "days": days.strftime("%Y-%m-%d"),
        "times": stamps.strftime("%Y-%m-%d %H:%M:%S"),
        "90 % missing": mostly(0.9, None, draws.integers(1, 9, rows)),
        "50 % missing": mostly(0.5, None, np.round(draws.normal(27, 4, rows), 1)),
        "constant": np.zeros(rows, dtype=int),
        "constant text": np.full(rows, "PUMS"),
        "3 categories": draws.choice(list("abc"), rows, p=[0.6, 0.3, 0.1]),
        "30 categories": np.char.add(
            "k", draws.choice(30, rows, p=harmonic[0] / harmonic[0].sum()).astype("U3")
        ),
        "400 categories": np.char.add(
            "v", draws.choice(400, rows, p=harmonic[1] / harmonic[1].sum()).astype("U3")
        ),
        "numbers and a word": mostly(0.15, "unknown", draws.integers(0, 40, rows)),
    }


def law(values: Values, true: Values) -> dict[str, float]:
    """Return the shares of the true column's atoms, quantile bins and texts."""
    numbers, real = values.numbers, true.numbers[~np.isnan(true.numbers)]
    known = ~np.isnan(numbers)
    single, counts = np.unique(real, return_counts=True)
    atoms = single if len(single) <= 60 else single[counts >= 0.01 * len(true)]
    spread = real[~np.isin(real, atoms)]
    bins = np.unique(np.quantile(spread, np.linspace(0, 1, 25))) if spread.size else np.zeros(1)
    codes, names = values.factorize()
    found = np.where(codes < 0, "missing", np.array([*names, ""], dtype=object)[codes])
    index = np.searchsorted(bins, numbers, side="right")
    index[numbers == bins[-1]] = len(bins) - 1
    cells = np.where(np.isin(numbers, atoms), numbers.astype("U32"), index.astype("U32"))
    keys = np.where(known, cells, np.char.add("text ", found.astype("U64")))
    kinds, shares = np.unique(keys, return_counts=True)
    return dict(zip(kinds.tolist(), (shares / len(values)).tolist(), strict=True))


def distance(values: Values, true: Values) -> float:
    """Return the total variation between two columns."""
    first, second = law(values, true), law(true, true)
    return sum(abs(first.get(k, 0) - second.get(k, 0)) for k in {**first, **second}) / 2


def impossible(values: Values, true: Values) -> float:
    """Return the share of numbers outside the column's range, or with decimals it does not have."""
    numbers, real = values.numbers, true.numbers
    if np.isnan(real).all():
        return 0.0
    wrong = (numbers < np.nanmin(real)) | (numbers > np.nanmax(real))
    if (real[~np.isnan(real)] % 1 == 0).all():
        wrong |= numbers % 1 > 0
    return float(wrong[~np.isnan(numbers)].mean()) if (~np.isnan(numbers)).any() else 0.0


def draw(cells: Cells, true: Values, scale: float, draws: np.random.Generator) -> Values:
    """Return values drawn from a column's noisy counts."""
    exact = np.bincount(cells.cell_of(true), minlength=cells.count).astype(float)
    noisy: FloatArray = exact + draws.normal(0, scale, cells.count)
    weights = estimate_cells(cells, noisy, scale, float(len(true)))
    drawn = draws.choice(len(weights), _DRAWN, p=weights / weights.sum())
    made = cells.draw(drawn, drawn, draws)
    texts = made.astype(object).where(made.notna(), None)
    return read_column([None if v is None else str(v) for v in texts])


def measure(values: Values, columns: int, eta: float, seed: int) -> tuple[float, float, float]:
    """Return distance, loss and impossible values of one draw."""
    source, rows = InsecureSource(seed), len(values)
    budget = Budget.for_eta(eta, slack=1e-7, source=source)
    # The noise of one column among this many.
    first, second = take_looks(budget, columns, rows)
    learnt = learn_columns(
        Records({"c": values}, rows), ["c"], first, _Among(second, columns), named=True
    )
    cells = learnt["c"].cells()
    if cells is None:
        return 1.0, 1.0, 0.0
    scale = math.sqrt(2 * columns / (_COUNTED * budget.left)) / budget.mu
    made = draw(cells, values, scale, np.random.default_rng(seed))
    return distance(made, values), 0.0, impossible(made, values)


class _Among:
    """A share of a budget for this number of columns, not for one."""

    def __init__(self, share: Any, columns: int) -> None:
        self.share, self.columns = share, columns

    def sums(self, *, sensitivity: float, times: int) -> Any:
        del times
        return self.share.sums(sensitivity=sensitivity, times=self.columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 10_000, 50_000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--eta", type=float, default=0.05)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--shape", nargs="+")
    parser.add_argument("--csv", nargs="+")
    asked = parser.parse_args()
    tables: list[tuple[str, dict[str, Values], int]] = []
    for path in asked.csv or []:
        records = read_records(pd.read_csv(path, dtype=str, keep_default_na=False))
        tables.append((path.rsplit("/", 1)[-1], dict(records.columns), len(records.columns)))
    if not asked.csv:
        for rows in asked.rows:
            made = shapes(rows, np.random.default_rng(0))
            read = {k: read_column(list(v)) for k, v in made.items()}
            tables.append((str(rows), read, asked.columns))
    print(
        "| rows | column | total variation | worst | lost | impossible |\n|---|---|---|---|---|---|"
    )
    for name, read, columns in tables:
        means = []
        for shape, values in read.items():
            if asked.shape and shape not in asked.shape:
                continue
            seeds = [zlib.crc32(f"{shape} {k}".encode()) for k in range(asked.draws)]
            with np.errstate(all="ignore"):
                found = np.array([measure(values, columns, asked.eta, seed) for seed in seeds])
            mean, worst = found.mean(axis=0), found.max(axis=0)
            means.append(mean[0])
            numbers = f"{mean[0]:.3f} | {worst[0]:.3f} | {mean[1]:.2f} | {mean[2]:.3f}"
            print(f"| {name} | {shape} | {numbers} |", flush=True)
        print(f"| {name} | **mean** | {np.mean(means):.3f} | | | |", flush=True)


if __name__ == "__main__":
    main()
