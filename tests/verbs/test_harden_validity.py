"""The certificate after hardening holds at its confidence, on laws with a known truth (X18)."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.record_leak import record_leak_upper
from memberbound.iid.worst_case import leak_of_law
from memberbound.tables.coarsening import cell_profile
from memberbound.verbs.harden import Hardening, harden

#: Probability of a false alarm of each coverage test below.
FALSE_ALARM = 1e-4
#: A low confidence gives the tests power: failures would show in a few dozen runs.
BETA = 0.2


def law(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Every possible row of a table with a number, a category and a label, with its probability."""
    rng = np.random.default_rng(seed)
    rows = pd.MultiIndex.from_product(
        [np.arange(40), list("abcdefghijkl"), ["no", "yes"]], names=["x", "kind", "y"]
    ).to_frame(index=False)
    weight = rng.gamma(0.4, size=len(rows)) * np.where(rows["y"] == "yes", 0.3, 1.0)
    weight *= np.where((rows["x"] > 25) == (rows["y"] == "yes"), 3.0, 1.0)
    return rows, weight / weight.sum()


def coarse_law(result: Hardening, atoms: pd.DataFrame, p: np.ndarray) -> pd.Series:
    """The law of a released row: the recipe applied to every possible row."""
    coarse = result.rules.apply(atoms)
    return pd.Series(p).groupby([coarse[c].astype(str) for c in coarse.columns]).sum()


def allowed_failures(runs: int, beta: float) -> int:
    return int(stats.binom.ppf(1 - FALSE_ALARM, runs, beta))


@functools.cache
def runs_of(runs: int, rows: int, **wish: object) -> list[tuple[Hardening, float, float]]:
    """Certified and true leak of hardened draws; refused draws count as no failure."""
    atoms, p = law(0)
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(1000 + seed)
        frame = atoms.iloc[rng.choice(len(p), rows, p=p)].reset_index(drop=True)
        try:
            result = harden(frame, target="y", seed=seed, **wish)
        except InputError:
            continue
        truth = coarse_law(result, atoms, p)
        cells = [result.table[c].astype(str) for c in result.table.columns]
        present = truth.loc[result.table.groupby(cells).size().index]
        worst = float(np.max(stats_leak(present.to_numpy(), len(result.table))))
        leak = leak_of_law(truth.to_numpy(), len(result.table))
        found.append((result, leak, worst))
    return found


def stats_leak(p: np.ndarray, n: int) -> np.ndarray:
    """(1-p)·P(Bin(n-1, p) = ⌊np⌋), the exact leak of a record (X7)."""
    return (1 - p) * stats.binom.pmf(np.floor(n * p), n - 1, p)


def coverage(runs: int, rows: int) -> None:
    by_leak = runs_of(runs, rows, security=0.85, confidence=1 - BETA)
    by_record = runs_of(runs, rows, record_leak=0.25, confidence=1 - BETA)
    assert allowed_failures(runs, BETA) < 0.75 * runs  # the test can fail
    assert len(by_leak) >= 0.7 * runs
    assert len(by_record) >= 0.7 * runs
    failed = [r for r, leak, _ in by_leak if r.after.delta_upper < leak]
    assert len(failed) <= allowed_failures(runs, BETA)
    exposed = [r for r, _, worst in by_record if r.after.record_leak.max < worst]
    assert len(exposed) <= allowed_failures(runs, BETA)
    # Not vacuous: what is certified is within twice of the truth.
    assert np.median([r.after.delta_upper / leak for r, leak, _ in by_leak]) < 2


def test_certificates_after_hardening_hold() -> None:
    coverage(runs=12, rows=3000)


@pytest.mark.long
def test_certificates_after_hardening_hold_many_times() -> None:
    coverage(runs=150, rows=6000)


def merged_if_seen(rows: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """A recipe that merges the values of its fitting rows and leaves other values unchanged."""
    return np.where(np.isin(rows, fitted), -1, rows)


def certify(cells: np.ndarray) -> float:
    return certify_counts(cell_profile(pd.DataFrame({"cell": cells}))).delta_upper


def test_choosing_and_certifying_on_the_same_rows_fails_and_a_split_does_not() -> None:
    """Negative control: same recipe, same law, and only the split saves the certificate."""
    values, n = 10**7, 1500
    failures_same = failures_split = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, values, 2 * n)
        fitted, others = rows[:n], rows[n:]
        merged = np.unique(fitted).size / values
        truth = leak_of_law(
            [merged, 1 / values], n, multiplicity=[1, values - round(merged * values)]
        )
        assert truth > 0.99
        failures_same += certify(merged_if_seen(fitted, fitted)) < truth
        failures_split += certify(merged_if_seen(others, fitted)) < truth
    assert failures_same == 20
    assert failures_split <= allowed_failures(20, 0.05)


def test_the_coverage_check_notices_a_certificate_that_is_too_small() -> None:
    """The same comparison fails for the plug-in estimate, which is not a certificate."""
    runs = runs_of(12, 3000, security=0.85, confidence=1 - BETA)
    beaten = [r for r, leak, _ in runs if r.after.delta_plug_in_estimate < leak]
    assert len(beaten) > allowed_failures(12, BETA)


def test_record_leak_of_the_test_is_below_the_cap_of_the_package() -> None:
    p = np.geomspace(1e-5, 0.5, 50)
    assert np.all(stats_leak(p, 3000) <= record_leak_upper(3000 * p))
