"""The search on laws with a known best coarsening, and its estimates."""

import itertools

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.tables.coarsening import Search, smallest_safe_count
from memberbound.tables.kept_information import entropy_estimate, prediction_information
from memberbound.tables.ladders import column_ladder
from memberbound.tables.recipe import Bins, Drop, Keep
from memberbound.verbs.harden import harden


def exact_information(joint: np.ndarray) -> float:
    outer = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    inside = joint > 0
    return float((joint[inside] * np.log(joint[inside] / outer[inside])).sum())


def information_estimate(cell: np.ndarray, target: np.ndarray) -> float:
    """The search's estimate for two columns: prediction from the other rows of a cell, in nats."""
    return prediction_information(cell, np.zeros(cell.size, dtype=np.int64), target)


def telling(rows: int, seed: int = 0) -> pd.DataFrame:
    """The target is decided by ``age`` above 40; all other columns are noise."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 61, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "age": age,
            "noise": rng.choice(list("abcdefgh"), rows),
            "constant": "same",
            "y": np.where((age > 40) ^ (rng.random(rows) < 0.05), "yes", "no"),
        }
    )


def test_information_estimate_approaches_the_exact_value() -> None:
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(24)).reshape(8, 3)
    draws = rng.choice(24, 40_000, p=joint.ravel())
    cell, target = draws // 3, draws % 3
    assert information_estimate(cell, target) == pytest.approx(exact_information(joint), abs=0.01)


def test_information_is_not_fooled_by_sparse_cells_where_the_plug_in_value_is() -> None:
    rng = np.random.default_rng(2)
    target = rng.integers(0, 2, 2000)
    for cells in (1500, 10**9):
        cell = pd.factorize(rng.integers(0, cells, 2000))[0]
        table = np.zeros((cell.max() + 1, 2))
        np.add.at(table, (cell, target), 1 / 2000)
        assert exact_information(table) > 0.3  # the plug-in value is far too large
        assert information_estimate(cell, target) < 0.005


def test_entropy_estimate_against_the_exact_value() -> None:
    rng = np.random.default_rng(3)
    law = rng.dirichlet(np.ones(50))
    cell = rng.choice(50, 20_000, p=law)
    assert entropy_estimate(cell) == pytest.approx(-law @ np.log(law), abs=0.02)


@pytest.mark.parametrize(("rows", "leak"), [(1000, 0.2), (25_000, 0.05), (25_000, 0.3)])
def test_smallest_safe_count_is_the_threshold(rows: int, leak: float) -> None:
    from memberbound.iid.profiles import CountProfile
    from memberbound.iid.record_leak import record_leaks

    count = smallest_safe_count(rows, leak, 0.95)
    assert count is not None
    for tried, safe in ((count, True), (count - 1, False)):
        profile = CountProfile.from_counts([tried, rows - tried])
        assert (record_leaks(profile, confidence=0.95).max <= leak) is safe
    assert smallest_safe_count(10, 0.01, 0.95) is None


def test_ladders_are_nested_from_dropped_to_unchanged() -> None:
    frame = telling(2000)
    ancestors = {c: ("vowel" if c in "ae" else "consonant",) for c in "abcdefgh"}
    for ladder in (
        column_ladder(frame["age"], "number"),
        column_ladder(frame["noise"], "text"),
        column_ladder(frame["age"], "number", edges=[25, 30, 40, 50]),
        column_ladder(frame["noise"], "text", ancestors=ancestors),
    ):
        assert ladder.rules[0] == Drop()
        for coarse, fine in itertools.pairwise(ladder.codes):
            pairs = set(zip(coarse, fine, strict=True))
            assert len(pairs) == np.unique(fine).size > np.unique(coarse).size
    named = pd.Series("n" + frame["id"].astype(str), name="id")
    assert column_ladder(named, "text").rules == (Drop(), Keep())
    thinned = column_ladder(frame["age"], "number", edges=[25, 40, 50])
    assert thinned.rules == (Drop(), Bins((40,)), Bins((25, 40, 50)))


def test_the_beam_finds_the_best_of_all_coarsenings() -> None:
    """Exhaustive comparison on three columns: no state within the limit is much better."""
    frame = telling(3000)
    forms = {"age": "number", "noise": "text", "constant": "text"}
    ladders = [column_ladder(frame[column], form) for column, form in forms.items()]
    target = pd.factorize(frame["y"])[0]
    search = Search(
        frame,
        ladders,
        {"y": Keep()},
        fixed_codes=target,
        kept_codes=np.zeros(3000, dtype=np.int64),
        target=target,
        pools=(0,),
        every=False,
        rows=9000,
        confidence=0.95,
        subsample=np.arange(3000) % 3 == 0,
    )
    search.explore(search.start, lambda score: score.leak <= 0.05)
    best = search.scores[search.rank(lambda score: score.leak <= 0.05)[0]]
    for levels in itertools.product(*(range(len(ladder.rules)) for ladder in ladders)):
        score = search.score((*levels, 0))
        assert score.leak > 0.05 or score.information <= best.information + 0.01


def test_known_answer_with_a_target() -> None:
    result = harden(telling(6000), security=0.95, target="y")
    assert result.after.delta_upper <= 0.05
    assert result.before.atoms == telling(6000).drop(columns="id").drop_duplicates().shape[0]
    assert set(result.table.columns) == {"age", "y"}
    assert result.steps[0] == "drop id, noise, constant"
    assert result.information_kept_estimate > 0.9
    assert len(result.table) == 4500
    assert result.rows_fitted == 1500
    points = [(p.information, p.security) for p in result.frontier_estimate]
    assert len(points) > 2
    assert all(a[0] < b[0] and a[1] >= b[1] for a, b in itertools.pairwise(points))


def weak(columns: int, values: int, nats: float) -> np.ndarray:
    """A joint law of a uniform column and a target with this mutual information."""
    skewed = np.random.default_rng(0).dirichlet(np.ones(values), columns)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        joint = ((1 - middle) / values + middle * skewed) / columns
        low, high = (middle, high) if exact_information(joint) < nats else (low, middle)
    return joint


@pytest.mark.parametrize(("columns", "values", "rows"), [(8, 8, 2000), (40, 5, 8000)])
@pytest.mark.parametrize("nats", [0.0, 0.03])
def test_a_kept_column_with_little_information_is_reported(
    columns: int, values: int, rows: int, nats: float
) -> None:
    """Estimating shares from few rows loses a column's information; the report must not."""
    joint = (
        weak(columns, values, nats) if nats else np.full((columns, values), 1 / columns / values)
    )
    found = []
    for seed in range(4):
        draws = np.random.default_rng(seed).choice(joint.size, rows, p=joint.ravel())
        frame = pd.DataFrame({"x": draws // values, "y": draws % values}).astype(str).radd("v")
        noise = np.random.default_rng(seed + 9).integers(0, 3, rows)
        result = harden(frame.assign(noise=noise), security=0.3, target="y", keep=["x"])
        found.append(result.information_estimate)
        if nats:
            assert result.information_kept_estimate is not None
            assert result.information_kept_estimate > 0.5
    assert np.mean(found) == pytest.approx(nats, abs=0.012)
    if nats:
        # The broken twin, which the search steers by: on the fitting rows it sees next to nothing.
        fitting = draws[: rows // 4]
        assert information_estimate(fitting // values, fitting % values) < 0.02


def test_record_leak_holds_for_every_released_row() -> None:
    result = harden(telling(8000), record_leak=0.15, target="y")
    assert result.after.record_leak.max <= 0.15
    assert result.after.record_leak.exposed_rows == 0
    counts = result.table.value_counts(dropna=False)
    assert counts.min() >= smallest_safe_count(len(result.table), 0.15, 0.95)
    assert len(result.table) == 6000  # no row was dropped


def test_kept_columns_stay_and_given_bins_are_the_finest() -> None:
    frame = telling(6000)
    bins = {"age": [30, 40, 50]}
    result = harden(frame, security=0.9, target="y", keep=["noise"], bins=bins)
    assert set(result.table["noise"]) == set(frame["noise"])
    assert set(result.table["age"]) <= {"<=30", "(30, 40]", "(40, 50]", ">50", "<=40", ">40"}


def test_hierarchy_is_climbed() -> None:
    rng = np.random.default_rng(5)
    town = rng.integers(0, 600, 8000)
    frame = pd.DataFrame({"town": [f"t{t}" for t in town], "y": (town % 2).astype(str)})
    tree = {f"parity {r}": [f"t{t}" for t in range(600) if t % 2 == r] for r in (0, 1)}
    result = harden(frame, security=0.9, target="y", hierarchies={"town": tree})
    assert set(result.table["town"]) == {"parity 0", "parity 1"}
    assert result.information_kept_estimate == pytest.approx(1.0, abs=0.02)


def test_deterministic_given_the_seed() -> None:
    one, two = (harden(telling(3000), security=0.9, target="y", seed=4) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    pd.testing.assert_frame_equal(one.table, two.table)
    other = harden(telling(3000), security=0.9, target="y", seed=5)
    assert len(other.table) == len(one.table)
    assert not other.table.equals(one.table)


def test_a_target_of_many_numbers_is_binned_and_one_of_many_categories_merged() -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"x": rng.integers(0, 4, 6000)})
    frame["wage"] = frame["x"] * 100 + rng.normal(0, 10, 6000)
    frame["job"] = [f"j{j}" for j in rng.geometric(0.1, 6000)]
    binned = harden(frame, security=0.9, target="wage")
    assert binned.table["wage"].nunique() == 8
    merged = harden(frame, security=0.9, target="job")
    assert merged.table["job"].nunique() == 21


def test_reference_as_text_beside_a_typed_table(tmp_path) -> None:
    telling(4000, seed=9).to_csv(tmp_path / "last.csv", index=False)
    telling(5000).to_parquet(tmp_path / "this.parquet", index=False)
    paths = {"table": tmp_path / "this.parquet", "reference": tmp_path / "last.csv"}
    mixed = harden(**paths, security=0.9, target="y")
    typed = harden(telling(5000), reference=telling(4000, seed=9), security=0.9, target="y")
    assert mixed.rules == typed.rules
    assert (len(typed.table), typed.validity) == (5000, "reference")


def test_an_unreachable_target_reports_the_best_value() -> None:
    with pytest.raises(InputError, match=r"security 0\.999 .*best expected was security ≈ 0\.9"):
        harden(telling(2000), security=0.999, target="y")
    with pytest.raises(InputError, match="record_leak"):
        harden(telling(100), record_leak=0.001, target="y")
    with pytest.raises(InputError, match="within reach"):
        harden(telling(2000), security=0.9, keep=["id"], target="y")
