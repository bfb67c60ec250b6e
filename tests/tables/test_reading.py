"""Every format gives the same profile, and CSV values are read literally."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from memberbound.tables.counting import count_profile
from memberbound.tables.opening import open_table
from oracle.files import stored

RNG = np.random.default_rng(5)
WORDS = ["x", "y y", "é,", 'quo"te', "new\nline", "'s", None]
TABLE = pa.table(
    {
        "age": pa.array(RNG.integers(0, 9, 500)),
        "word": pa.array([WORDS[i] for i in RNG.integers(0, len(WORDS), 500)]),
        'x"; DROP': pa.array(RNG.integers(0, 3, 500)),
        "select": pa.array(RNG.choice([0.5, 1.5, 2.25], 500)),
    }
)


def expand(source, *args, **kwargs) -> list[int]:
    return count_profile(source, *args, **kwargs).expanded().tolist()


@cache
def in_memory(columns: tuple[str, ...] | None = None) -> list[int]:
    """The expected profile for every other source of the table."""
    return expand(TABLE, columns)


FILES = [
    *("a.csv", "a.csv.gz", "a.csv.xz", "a.csv.bz2", "a.csv.zst", "a.parquet", "a.feather"),
    *("a.arrow", "a.arrows", "a.duckdb", "a.sqlite"),
    # Names that an SQL string or a pattern of names would trip over.
    *("a'; DROP TABLE x; --.parquet", "*.csv", "[a]?.csv.gz", "[a]?.parquet", "a'b #%20?.sqlite"),
]


@pytest.mark.parametrize("file", FILES)
def test_every_format_gives_the_same_profile(tmp_path, file):
    folder = tmp_path / "year=2019"  # must not become a column
    folder.mkdir()
    (folder / "decoy.csv").write_text("age\n1\n")
    stored(TABLE, folder / file, 'peo"ple')
    table = 'peo"ple' if file.endswith(("db", "sqlite")) else None
    with open_table(folder / file, table) as opened:
        assert opened.columns == tuple(TABLE.column_names)
        assert expand(opened) == in_memory()
        odd = ('x"; DROP', "select")
        assert expand(opened, odd) == in_memory(odd)


def test_objects_in_memory_give_the_same_profile():
    expected = in_memory()
    sources = [
        TABLE.to_pandas(),
        TABLE.to_pandas().astype({"word": "category"}).set_index(np.arange(500) % 7),
        pl.from_arrow(TABLE),
        TABLE.combine_chunks().to_batches()[0],
        TABLE.to_reader(max_chunksize=17),
    ]
    for source in sources:
        assert expand(source) == expected


@pytest.mark.parametrize("kind", ["uint8", "int64", "float16", "float64", "bool", "<U3"])
def test_arrays(tmp_path, kind):
    array = RNG.integers(0, 3, (300, 4)).astype(kind)
    expected = sorted(np.unique(array, axis=0, return_counts=True)[1].tolist())
    np.save(tmp_path / "a.npy", array)
    np.save(tmp_path / "f.npy", np.asfortranarray(array))
    for source in (array, tmp_path / "a.npy", tmp_path / "f.npy"):
        assert expand(source) == expected
    assert open_table(array).columns == ("x0", "x1", "x2", "x3")
    assert expand(array[:, 0]) == sorted(np.unique(array[:, 0], return_counts=True)[1].tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n1\n1.0\n01\n+1\n1 \n", [1, 1, 1, 1, 1]),  # text, as written
        ("a\n12345678901234567890\n12345678901234567891\n", [1, 1]),  # one double, two numbers
        ("a\n'x'\nx\n", [1, 1]),  # only the double quote quotes
        ('a\n"x"\nx\n', [2]),
        ("a\nTrue\ntrue\nT\n", [1, 1, 1]),
        ("a\n2020-01-01\n2020-1-1\n", [1, 1]),
        ('a,b\n,1\n"",1\n', [2]),  # an empty field is null, quoted or not
        ("a\nNA\nnan\nN\n?\nNULL\n", [1] * 5),  # nothing else is
        ("a;b\n1,5;2\n1,5;2\n", [2]),
        ('a;"b, c"\n1;2\n1;2\n', [2]),  # what is inside quotes separates nothing
        ("a\tb\n1\t2\n1\t3\n", [1, 1]),
        ("a|b\n1|2\n", [1]),
        ("a\nx;y\nx;z\n", [1, 1]),  # one column, whatever its values hold
        ("# not a comment,b\n#1,2\n#1,2\n", [2]),
        ("\ufeffa,b\n1,2\n", [1]),
        ("a,b\r\n1,2\r\n1,2\r\n", [2]),
        ("a,b\n1,2\n1,2", [2]),
        ('"a\nb",c\n1,2\n', [1]),
        ("a,,\n1,2,3\n", [1]),
        ("a\n\n\nx\n", [1, 2]),  # an empty line is the value null of the only column
    ],
)
def test_csv_values_are_read_literally(tmp_path, text, expected):
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert expand(tmp_path / "a.csv") == expected


def test_the_private_folder_is_deleted(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    with open_table(tmp_path / "a.npy") as table:
        assert table.view
        folder = table.engine.folder
        assert list(folder.glob("*.parquet"))
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    table.close()
    dropped = open_table(tmp_path / "a.npy")
    folder = dropped.engine.folder
    del dropped
    assert not folder.exists()
