"""``certify --reference`` and ``harden(reference=)``: other rows, or a refusal with its reason."""

import shutil

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.verbs.certify import certify
from memberbound.verbs.harden import harden


def distinct(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(size=rows), "b": rng.integers(0, 3, rows)})


def coarse(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"sex": rng.choice(["f", "m"], rows), "ill": rng.integers(0, 2, rows)})


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    return path


def certify_table(table, reference):
    return certify(table, columns=["a", "b"], reference=reference)


def harden_table(table, reference):
    return harden(table, security=0.3, reference=reference, bins={"a": [-1, 0, 1]})


@pytest.mark.parametrize("verb", [certify_table, harden_table])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_table_itself_is_refused(tmp_path, verb, suffix):
    table = write(distinct(300), tmp_path / "table.csv")
    copied = shutil.copy(table, tmp_path / "copy.csv")
    (tmp_path / "link.csv").symlink_to(table)
    shuffled = write(distinct(300).sample(frac=1, random_state=1), tmp_path / f"other{suffix}")
    for same in (table, copied, tmp_path / "link.csv"):
        with pytest.raises(InputError, match="same file"):
            verb(table, same)
    # ``certify`` reads CSV values as texts, so it refuses a reference of numbers for its types.
    reason = "one type" if suffix == ".parquet" and verb is certify_table else "same 300 rows"
    with pytest.raises(InputError, match=reason):
        verb(table, shuffled)
    frame = distinct(300)
    with pytest.raises(InputError, match="reference must hold other rows"):
        verb(frame, frame)
    with pytest.raises(InputError, match="reference must hold other rows"):
        verb(frame, pd.concat([frame[:280], distinct(20, seed=3)]))


@pytest.mark.parametrize("verb", [certify_table, harden_table])
def test_shared_rows_are_counted_in_a_warning(verb):
    table, others = distinct(300), distinct(300, seed=1)
    mixed = pd.concat([table[:40], others[:260]])
    notes = [note for note in verb(table, mixed).warnings if "reference rows equal" in note]
    assert len(notes) == 1
    assert notes[0].startswith("40 of 300 reference rows")
    assert not any("reference rows" in note for note in verb(table, others).warnings)


def test_coarse_columns_are_compared_with_all_that_both_tables_have(tmp_path):
    """Two cells alone prove nothing; the names beside them do, in another file format as well."""
    table = coarse(30).assign(name=[f"n{i}" for i in range(30)])
    reference = write(table.sample(frac=1, random_state=0), tmp_path / "r.parquet")
    path = write(table, tmp_path / "t.csv")
    with pytest.raises(InputError, match="same 30 rows"):
        certify(path, columns=["sex"], reference=reference)
    renamed = table.assign(name=[f"m{i}" for i in range(30)])
    assert certify(path, columns=["sex"], reference=renamed).rows == 30
    # A column of another type is left out of the comparison; the others still reveal the overlap.
    retyped = table.assign(extra=1.5).sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="same 30 rows"):
        certify(table.assign(extra="x"), columns=["sex"], reference=retyped)


def test_renumbered_rows_are_refused():
    table = distinct(300).assign(id=[f"x{i}" for i in range(300)])
    with pytest.raises(InputError, match="same 300 rows"):
        certify(table, reference=table.assign(id=[f"y{i}" for i in range(300)]))


@pytest.mark.parametrize("seed", range(1, 6))
def test_independent_coarse_tables_are_accepted(seed):
    table, reference = coarse(400), coarse(400, seed)
    answer = certify(table, reference=reference)
    assert not any("reference rows" in note for note in answer.warnings)
    assert harden(table, security=0.5, reference=reference).rows_released == 400


def test_distinct_rows_beside_themselves_had_a_certificate():
    """The fault: 2000 distinct rows, alone without a guarantee, had 52.74 % beside themselves."""
    rows = distinct(2000)[["a"]]
    assert certify(rows).accuracy_upper == 1.0
    with pytest.raises(InputError, match="same 2000 rows"):
        certify(rows, reference=rows.copy())
