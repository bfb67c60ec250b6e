"""Coverage of the intervals of ``summarize`` and ``synthesize``, beside the usual ones.

Every run samples a table from a known law, releases a statistic with fresh noise, and checks that
the intervals contain the table's own value and the population's.  The usual interval takes the
released number for the exact one: it knows the sampling error only.

    python benchmarks/intervals.py [--runs 1000] [--rows 4000 40000] > build/intervals.md
"""

from __future__ import annotations

import argparse
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from memberbound.errors import InputError
from memberbound.release.all_rows.bounds import forms_of, read_bounds
from memberbound.release.all_rows.noisy_marginals import estimate_statistic
from memberbound.release.all_rows.summaries import release_table_statistic
from memberbound.release.all_rows.synthetic import fit_synthetic
from memberbound.release.randomness import InsecureSource
from memberbound.tables.records import read_records, read_secret_columns

ETA = 0.05
Array = NDArray[np.float64]
AGE = stats.gamma(9, scale=5)
SHARES = {"common": 0.6, "usual": 0.3, "seldom": 0.09, "rare": 0.009, "rarest": 0.001}
BOUNDS = {"age": [0, 120], "gaps": [0, 120], "rare": [0, 1], "kind": list(SHARES)}
LEVELS = (0.1, 0.5, 0.9)


def draw_table(rows: int, draws: np.random.Generator) -> pd.DataFrame:
    """Return rows of a law with known population values."""
    age = AGE.rvs(rows, random_state=draws)
    gaps = np.where(draws.random(rows) < 0.2, np.nan, age)
    kinds = draws.choice(list(SHARES), rows, p=list(SHARES.values()))
    return pd.DataFrame(
        {"age": age, "gaps": gaps, "rare": (kinds == "rare").astype(float), "kind": kinds}
    )


def draw_visits(persons: int, draws: np.random.Generator) -> pd.DataFrame:
    """Return one to four visits of each person, with similar ages at all visits."""
    visits = 1 + np.arange(persons) % 4
    whose = np.repeat(np.arange(persons), visits)
    table = draw_table(persons, draws).iloc[whose].reset_index(drop=True)
    return table.assign(age=table["age"] + draws.normal(0, 1, len(whose)), person=whose)


@dataclass(frozen=True)
class Case:
    """A statistic of a column: its value in a table, and in the population per record."""

    name: str
    statistic: str
    column: str
    truth: Callable[[pd.DataFrame], Array]
    population: Callable[[int], Array]
    labels: tuple[str, ...]
    #: The sampling variance that the usual interval uses, from a table.
    sampling: Callable[[pd.DataFrame, Array], Array]
    unit: str | None = None
    bounds: bool = True
    rows: int = 0


def mean_of(column: str) -> Callable[[pd.DataFrame], Array]:
    return lambda table: np.array([float(np.nanmean(table[column].clip(0, 120)))])


def clipped_mean(low: float, high: float) -> float:
    """Return the population's mean age, clipped."""
    inside = float(AGE.expect(lambda age: age, lb=low, ub=high))
    return inside + low * float(AGE.cdf(low)) + high * float(AGE.sf(high))


def cells(table: pd.DataFrame) -> Array:
    weights = 1.0
    if "person" in table:
        weights = 1.0 / table.groupby("person")["person"].transform("size")
    counted = pd.Series(np.broadcast_to(weights, len(table))).groupby(table["kind"]).sum()
    return counted.reindex(list(SHARES), fill_value=0.0).to_numpy(float)


def quantiles(table: pd.DataFrame) -> Array:
    return np.quantile(table["age"], LEVELS, method="inverted_cdf")


def by_person(table: pd.DataFrame) -> Array:
    return np.array([table["age"].clip(0, 120).groupby(table["person"]).mean().mean()])


def mean_variance(column: str) -> Callable[[pd.DataFrame, Array], Array]:
    return lambda table, _: np.array([table[column].var() / table[column].count()])


def cell_variance(table: pd.DataFrame, counts: Array) -> Array:
    persons = table["person"].nunique() if "person" in table else len(table)
    shares = np.clip(counts / persons, 0, 1)
    return persons * shares * (1 - shares)


def quantile_variance(table: pd.DataFrame, _: Array) -> Array:
    density = AGE.pdf(AGE.ppf(LEVELS))
    levels = np.array(LEVELS)
    return np.asarray(levels * (1 - levels) / (len(table) * density**2))


def cases() -> list[Case]:
    """Return what is simulated."""
    age = lambda rows: np.array([AGE.mean()])  # noqa: E731, ARG005
    rare = lambda rows: np.array([SHARES["rare"]])  # noqa: E731, ARG005
    shares = np.array([*SHARES.values()])
    counted = tuple(f"cell of {share:.1%}" for share in SHARES.values())
    at = tuple(f"quantile at {level}" for level in LEVELS)
    common: dict[str, Any] = {"truth": mean_of("age"), "sampling": mean_variance("age")}
    counts: dict[str, Any] = {
        "truth": cells,
        "population": lambda rows: rows * shares,
        "sampling": cell_variance,
    }
    return [
        Case("mean", "mean", "age", population=age, labels=("mean",), **common),
        Case("mean, private bounds", "mean", "age", population=age, labels=("mean",),
             bounds=False, **common),
        Case("mean, a fifth missing", "mean", "gaps", mean_of("gaps"), age, ("mean",),
             mean_variance("gaps")),
        Case("mean of a rare mark", "mean", "rare", mean_of("rare"), rare, ("mean",),
             mean_variance("rare")),
        Case("mean, persons", "mean", "age", by_person, age, ("mean",),
             lambda t, _: np.array([t.groupby("person")["age"].mean().var()
                                    / t["person"].nunique()]), unit="person"),
        Case("sum", "sum", "age", lambda t: len(t) * mean_of("age")(t),
             lambda rows: rows * age(rows), ("sum",),
             lambda t, _: np.array([len(t) * t["age"].var()])),
        Case("histogram", "histogram", "kind", labels=counted, **counts),
        Case("histogram, persons", "histogram", "kind", labels=counted, unit="person", **counts),
        Case("quantiles", "quantiles", "age", quantiles, lambda rows: AGE.ppf(LEVELS), at,  # noqa: ARG005
             quantile_variance),
        Case("quantiles, private bounds", "quantiles", "age", quantiles,
             lambda rows: AGE.ppf(LEVELS), at, quantile_variance, bounds=False),  # noqa: ARG005
        Case("covariance", "covariance", "age", lambda t: np.array([t["age"].var(ddof=0)]),
             lambda rows: np.array([math.nan]), ("variance",),  # noqa: ARG005
             lambda t, _: np.array([math.nan])),  # noqa: ARG005
    ]  # fmt: skip


def simulate(case: Case, rows: int, runs: int, seed: int = 1) -> dict[str, Array]:
    """Return the share of runs in which each interval covers, and their mean half-widths."""
    hits: dict[str, list[Array]] = {"table": [], "population": [], "usual": [], "width": []}
    for run in range(runs):
        draws = np.random.default_rng([seed, run, rows])
        table = draw_table(rows, draws) if case.unit is None else draw_visits(rows, draws)
        bounds = {case.column: BOUNDS[case.column]} if case.bounds else {}
        kept = [case.column, *([] if case.unit is None else [case.unit])]
        found = release_table_statistic(
            _records(table[kept], bounds, case.unit),
            case.statistic,
            eta=ETA,
            bounds=bounds,
            levels=LEVELS if case.statistic == "quantiles" else None,
            source=InsecureSource(seed * 10**6 + run),
        )
        bars = found.intervals[: len(case.labels)]
        values = found.values[: len(case.labels)]
        own, whole = case.truth(table), case.population(rows)
        if not case.bounds:
            # The intervals are for numbers that are clipped to the learnt range.
            low, high = found.ranges[case.column]
            own = case.truth(table.assign(**{case.column: table[case.column].clip(low, high)}))
            if case.statistic == "mean":
                whole = np.array([clipped_mean(low, high)])
        ends = np.array([[b.table_lower, b.table_upper] for b in bars], dtype=float)
        wide = np.array([[b.population_lower, b.population_upper] for b in bars], dtype=float)
        # The counted value of a rounding at the last bit is not a miss.
        room = 1e-9 * np.maximum(np.abs(own), 1.0)
        hits["table"].append((ends[:, 0] <= own + room) & (own <= ends[:, 1] + room))
        hits["population"].append((wide[:, 0] <= whole) & (whole <= wide[:, 1]))
        usual = 1.96 * np.sqrt(case.sampling(table, values))
        hits["usual"].append(np.abs(values - whole) <= usual)
        hits["width"].append((ends[:, 1] - ends[:, 0]) / 2)
    shares = {name: np.mean(found, axis=0) for name, found in hits.items()}
    if np.isnan(case.population(rows)).any():
        shares |= {"population": np.array([math.nan]), "usual": np.array([math.nan])}
    return shares


# ── Numbers of a synthetic table ──────────────────────────────────────────────────────────────────


def draw_people(rows: int, draws: np.random.Generator) -> pd.DataFrame:
    """Return rows with whole ages, a category and a mark that depends on the age."""
    table = draw_table(rows, draws)
    age = np.clip(np.rint(table["age"]), 0, 119).astype(int)
    ill = np.where(draws.random(rows) < 0.1 + 0.4 * (age >= 50), "yes", "no")
    return pd.DataFrame({"age": age, "kind": table["kind"], "ill": ill})


OLD = float(AGE.sf(49.5))
MADE_BOUNDS = {"age": [0, 119], "kind": list(SHARES), "ill": ["no", "yes"]}
#: A function of columns, and its mean in the population.
FUNCTIONS: dict[str, tuple[Callable[..., float], float]] = {
    "share of a common kind": (lambda kind: kind == "common", SHARES["common"]),
    "share of a rare kind": (lambda kind: kind == "rare", SHARES["rare"]),
    "share of the rarest kind": (lambda kind: kind == "rarest", SHARES["rarest"]),
    "ill": (lambda ill: ill == "yes", 0.1 + 0.4 * OLD),
    "ill and of a usual kind": (
        lambda ill, kind: ill == "yes" and kind == "usual",
        SHARES["usual"] * (0.1 + 0.4 * OLD),
    ),
    "aged 50 or more": (lambda age: age >= 50, OLD),
    "mean age": (lambda age: 0 if math.isnan(age) else age, float(AGE.mean())),
}
OF_PERSONS = ("share of a common kind", "share of a rare kind", "share of the rarest kind")


def simulate_synthetic(
    rows: int, runs: int, *, bounds: bool, unit: bool = False, seed: int = 1
) -> Iterator[tuple[str, list[float]]]:
    """Yield a function's name and the shares: for the table, the population, usual, answered.

    The usual interval is computed from the new rows themselves.
    """
    names = OF_PERSONS if unit else tuple(FUNCTIONS)
    hits: dict[str, list[list[bool]]] = {name: [] for name in names}
    for run in range(runs):
        draws = np.random.default_rng([seed, run, rows])
        table = draw_people(rows, draws)
        if unit:
            whose = np.repeat(np.arange(rows), 1 + np.arange(rows) % 4)
            table = table.iloc[whose].reset_index(drop=True).assign(person=whose)
        public = MADE_BOUNDS if bounds else {}
        source = InsecureSource(seed * 10**6 + run)
        model = fit_synthetic(
            read_records(table, forms_of(read_bounds(public))),
            eta=ETA,
            bounds=read_bounds(public),
            target="ill",
            unit="person" if unit else None,
            source=source,
        )
        new = model.sample(rows, source)
        weights = 1.0 / table.groupby("person")["person"].transform("size") if unit else None
        for name in names:
            function, whole = FUNCTIONS[name]
            try:
                found = estimate_statistic(model.marginals, function, rows).intervals
            except InputError:
                continue  # refused: a kind is not listed, or a cell has several values
            own = float(np.average(_values(function, table), weights=weights))
            usual = _values(function, new)
            reach = 1.96 * usual.std() / math.sqrt(rows)
            ends = (
                (found.table_lower, found.table_upper),
                (found.population_lower, found.population_upper),
            )
            inside = [
                a <= b + 1e-9 and b <= c + 1e-9
                for (a, c), b in zip(ends, (own, whole), strict=True)
            ]
            hits[name].append([*inside, bool(abs(usual.mean() - whole) <= reach)])
    for name, found in hits.items():
        shares = np.mean(found, axis=0).tolist() if found else [math.nan] * 3
        yield name, [*shares, len(found) / runs]


def _values(function: Callable[..., float], table: pd.DataFrame) -> Array:
    columns = [table[name].tolist() for name in inspect.signature(function).parameters]
    return np.array([function(*values) for values in zip(*columns, strict=True)], dtype=float)


def synthetic_lines(rows: list[int], runs: int) -> Iterator[str]:
    """Yield the table's lines for numbers of synthetic tables."""
    yield "| number | rows | answered | for the table | for the population | usual |"
    yield "|---|---|---|---|---|---|"
    for bounds, unit, what in (
        (True, False, ""),
        (False, False, ", private bounds"),
        (True, True, ", persons"),
    ):
        for count in rows:
            seed = 2 if unit else 1
            found = simulate_synthetic(count, runs, bounds=bounds, unit=unit, seed=seed)
            for name, shares in found:
                texts = ["–" if math.isnan(s) else f"{100 * s:.1f} %" for s in shares[:3]]
                answered = f"{100 * shares[3]:.0f} %"
                yield f"| {name}{what} | {count} | {answered} | {' | '.join(texts)} |"


def _records(table: pd.DataFrame, bounds: Mapping[str, object], unit: str | None) -> object:
    return read_secret_columns(table, forms_of(read_bounds(bounds)), unit=unit)


def lines(rows: Mapping[str, int] | list[int], runs: int) -> Iterator[str]:
    """Yield the table's lines."""
    yield "| number | rows | for the table | for the population | usual |"
    yield "|---|---|---|---|---|"
    for case in cases():
        for count in rows:
            # Persons get draws of their own: with the same ones their counts would be the rows'.
            found = simulate(case, count, runs, seed=1 if case.unit is None else 2)
            for index, label in enumerate(case.labels):
                name = case.name if len(case.labels) == 1 else f"{case.name}: {label}"
                shown = [found[key][index] for key in ("table", "population", "usual")]
                texts = ["–" if math.isnan(share) else f"{100 * share:.1f} %" for share in shown]
                yield f"| {name} | {count} | {' | '.join(texts)} |"


def main() -> None:
    """Print the coverage of every interval."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=1000)
    asked.add_argument("--rows", type=int, nargs="+", default=[4000, 40_000])
    asked.add_argument("--synthetic-runs", type=int, default=300)
    chosen = asked.parse_args()
    for line in lines(chosen.rows, chosen.runs):
        print(line, flush=True)
    print()
    for line in synthetic_lines(chosen.rows, chosen.synthetic_runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
