"""Records of CSV files: output of other programs is read back, with any line ends."""

import csv
import gzip
import io

import duckdb
import numpy as np
import pandas as pd
import pytest

from memberbound import certify, open_table, protect
from memberbound.errors import InputError
from memberbound.tables import csv_files, csv_records
from memberbound.tables.records import read_records

ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}


def texts(seed, rows=120):
    """Rows of three texts made of all characters with a special meaning in CSV."""
    draws = np.random.default_rng(seed)
    letters = ["a", "b", " ", ",", '"', "\r", "\n", "\r\n", "é", "0"]
    # A record that is empty in all columns but one, or looks like the header, is not of interest.
    return [
        ["x", *("".join(draws.choice(letters, draws.integers(0, 5))) for _ in range(2)), "y"]
        for _ in range(rows)
    ]


def write(rows, end, path):
    """The file as Python's csv module, and pandas with it, writes it: few values have quotes."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows([["a", "b", "c", "d"], *rows])
    content = out.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read_back(path, *, secret):
    with open_table(path, secret=secret) as table:
        columns = table.rows().to_pydict().values()
    return [["" if v is None else v for v in row] for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_written_records_are_read_back(monkeypatch, tmp_path, name, end, secret):
    monkeypatch.setattr(csv_records, "SECTION", 64)
    rows = texts(len(end))
    assert read_back(write(rows, ENDS[end], tmp_path / name), secret=secret) == rows


def test_without_quotes_around_line_ends_the_file_is_refused(monkeypatch, tmp_path):
    """Broken twin: the engine alone does not read what pandas writes."""
    monkeypatch.setattr(csv_files, "scan_lines", lambda *_: (False, []))
    with pytest.raises(InputError, match="could not be read"):
        read_back(write(texts(1), "\n", tmp_path / "t.csv"), secret=True)


def cut(content, size):
    return [content[start : start + size] for start in range(0, len(content), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("end", ENDS)
def test_other_line_ends_are_noticed_wherever_the_file_is_cut(end, size):
    own = ENDS[end].encode()
    plain = own.join([b"a,b", b"1,2", b"3,4", b""])
    assert csv_records.scan_lines(cut(plain, size), b"a,b", own) == (False, [])
    for other in {b"\r", b"\n", b"\r\n"} - {own}:
        mixed = cut(plain + b"5" + other + own, size)
        assert csv_records.scan_lines(mixed, b"a,b", own)[0]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 100])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("last", ["", "a,b", "1,2"])
def test_repeated_headers_are_numbered_wherever_the_file_is_cut(end, size, last):
    lines = ["a,b", "1,2", "a,b", "a,b", "a,bb", "aa,b", "", "a,b", "3,4", last]
    content = ENDS[end].join(lines).encode()
    expected = [number for number, line in enumerate(lines, 1) if line == lines[0]][1:]
    found = csv_records.scan_lines(cut(content, size), b"a,b", ENDS[end].encode())
    assert found == (False, expected)


def test_any_single_text_can_be_released(tmp_path):
    path = tmp_path / "t.csv"
    for word in ("plain", "a\rb", "\r", 'say "\r"', "a\r\nb"):
        frame = pd.DataFrame({"note": ["red", "blue"] * 60, "ill": ["no", "yes"] * 60})
        frame.loc[3, "note"] = word
        frame.to_csv(path, index=False)
        assert read_records(path).rows == 120
        bounds = {"note": ["red", "blue"], "ill": ["no", "yes"]}
        protect(path, target="ill", bounds=bounds, eta=0.4, insecure_seed=1, trial=False)
        assert certify(path, columns=["note"]).rows == 120


SECRET = "Se-86421-cret"
BROKEN = {
    "too many fields": f"1,2\n1,2,{SECRET}\n",
    "too few fields": f"1,2\n{SECRET}\n",
    "unterminated quote": f'1,"2\n{SECRET},{SECRET}\n{SECRET}\n',
    "stray quote": f'1,"2"{SECRET}\n',
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_without_its_values(tmp_path, case):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + BROKEN[case])
    with pytest.raises(InputError, match=r"CSV Error on Line: [23], [EV]") as refusal:
        read_records(path)
    assert SECRET not in str(refusal.value)


CASTS = [
    "a::INTEGER",
    "a::DATE",
    "a::TIMESTAMP",
    "a::DECIMAL(9, 2)",
    "strptime(a, '%Y')",
    "a::TIME",
]
CASTS += ["strptime(a, '%Y')", "(CASE a WHEN '1' THEN 1 ELSE 86421 END)::TINYINT"]


@pytest.mark.parametrize("cast", CASTS)
def test_values_that_an_engine_cannot_convert_are_not_quoted(cast):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES ('1'), ('{SECRET}')) AS v(a)")
    with pytest.raises(InputError, match="could not be read") as refusal:
        read_records(connection.sql(f"SELECT {cast} AS a FROM t"))
    assert "86421" not in str(refusal.value)
    assert "cret" not in str(refusal.value)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_file_with_too_many_columns_is_refused_before_the_engine_plans(tmp_path, separator):
    path = tmp_path / "wide.csv"
    for count in (10_000, 10_001):
        path.write_text(separator.join(f"c{i}" for i in range(count)) + "\n", encoding="utf-8")
        if count == 10_000:
            assert len(csv_files.csv_columns(path)) == count
            continue
        for read in (certify, read_records):
            with pytest.raises(InputError, match=r"^\S*wide.csv must have at most 10000 columns"):
                read(path)
