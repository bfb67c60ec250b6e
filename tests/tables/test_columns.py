"""One reader: a value alone against columns of many, every container, a naive second reader."""

import datetime as dt
import gzip
import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memberbound import certify
from memberbound.errors import InputError
from memberbound.release.all_rows.bounds import Categories, Range, read_bounds
from memberbound.release.all_rows.histograms import FIXED_CELLS
from memberbound.tables.columns import read_column, read_value
from memberbound.tables.opening import open_table
from memberbound.tables.records import read_records
from memberbound.tables.spelling import FORMS

TEXTS = [
    *("1", "1.0", "01", "1.50", " 1 ", "+1", "-0", "1e3", "1E-3", "1e400", ".5", "5.", ",5", "1,"),
    *("1,5", "1,234", "12,345", "1234,567", "0,123", "1.234", "1.234,5", "1,234.5", "1.234.567"),
    *("1,234,567", "1,23,4", "1..2", "1_000", "0x10", "inf", "-Infinity", "nan", "NaT", "None"),
    *("null", "<NA>", "NA", "n/a", "?", "", " ", "\t", "\xa0", "true", "TRUE", "False", "yes"),
    *("2020-01-31", "2020/1/31", "2020-02-30", "31.01.2020", "31-01-2020", "31/01/2020"),
    *("01/31/2020", "01/02/2020", "02/02/2020", "1 Jan 2020", "Jan 1, 2020", "1-Jan-2020"),
    *("2020-01-31T10:00", "2020-01-31 10:00:00.5Z", "31.01.2020 10:00 +02:00", "2020-01-31 25:00"),
    *("12345678901234567890", "9" * 400, "9" * 5000, "a", "word and word", "é", "\x00", "１２"),
]
OBJECTS = [
    *(None, float("nan"), pd.NA, pd.NaT, True, False, 0, 1, -1, 2**53 + 1, 2**64, 10**400),
    *(0.5, -0.0, 1e308, float("inf"), np.float32(0.1), np.float64(0.1), np.int8(3), np.bool_(True)),
    *(Decimal("0.10"), Decimal("sNaN"), dt.date(9999, 12, 31), dt.datetime(1, 1, 1)),
    *(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pd.Timestamp("2262-01-01"), dt.timedelta(hours=3)),
    *(pd.Period("2020-01"), dt.time(6), np.datetime64("2020-01-01T12"), b"a", [1, 2], "1", "x"),
]


def pairs_of(values):
    """Number and label of every row."""
    return list(
        zip(values.numbers.tolist(), [values.label(k) for k in range(len(values))], strict=True)
    )


def same(one, other):
    return one[1] == other[1] and (
        one[0] == other[0] or (math.isnan(one[0]) and math.isnan(other[0]))
    )


def containers(texts):
    """The same texts in everything that holds texts."""
    yield list(texts)
    yield pd.Series(texts, dtype=object)
    yield pd.Series(texts, dtype="string")
    yield pd.Series(texts, dtype="category")
    yield pd.Series(texts, dtype=pd.ArrowDtype(pa.large_string()))
    yield np.array(texts, dtype=object)
    yield pa.array(texts)
    yield pa.chunked_array([pa.array(part, pa.string()) for part in (texts[:1], texts[1:])])
    yield pa.array(texts).dictionary_encode()
    yield pa.array(texts, pa.string_view())


@pytest.mark.parametrize("form", [*FORMS, "%d.%m.%Y", "%m/%d/%Y"])
def test_a_text_is_parsed_independently_of_others(form):
    draw = random.Random(form)
    alone = {text: read_value(text, form) for text in TEXTS}
    for _ in range(30):
        texts = draw.choices([t for t in TEXTS if t != "\x00"], k=draw.randint(1, 6))
        for container in containers(texts):
            for text, pair in zip(texts, pairs_of(read_column(container, form)), strict=True):
                assert same(pair, alone[text]), (text, texts, type(container))


def test_an_object_is_parsed_independently_of_others():
    draw = random.Random(1)
    for _ in range(300):
        values = draw.choices(OBJECTS + TEXTS, k=draw.randint(1, 6))
        found = read_column(values)
        for value, pair in zip(values, pairs_of(found), strict=True):
            assert same(pair, read_value(value)), (value, values)
        series = pd.Series([None, *values], dtype=object)[1:]
        assert all(map(same, pairs_of(read_column(series)), pairs_of(found)))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(TEXTS) | st.text(max_size=8) | st.floats().map(str), min_size=2),
    st.integers(0, 99),
    st.sampled_from(TEXTS) | st.text(max_size=8),
)
def test_replacing_a_text_changes_its_own_row_only(texts, index, other):
    index %= len(texts)
    changed = [*texts[:index], other, *texts[index + 1 :]]
    first, second = read_column(texts), read_column(changed)
    rest = np.arange(len(texts)) != index
    assert (FIXED_CELLS.cell_of(first)[rest] == FIXED_CELLS.cell_of(second)[rest]).all()
    wanted = ["", "1", "True", "x", "0.5"]
    assert (first.positions(wanted)[rest] == second.positions(wanted)[rest]).all()
    assert abs(first.distinct - second.distinct) <= 1


# ── A naive second reader of the form "any" ───────────────────────────────────────────────────────


def group_digits(digits, mark):
    """Whole numbers written with a mark between thousands."""
    first, *rest = digits.split(mark)
    fits = first.isdigit() and first[0] != "0" and len(first) <= 3
    return bool(rest) and fits and all(len(part) == 3 and part.isdigit() for part in rest)


def plain_whole(digits):
    return digits.isdigit() and (digits == "0" or digits[0] != "0")


def number_with(text, decimal, thousands):
    """Return the number that a text denotes with this decimal mark, or None."""
    body, _, exponent = text.replace("E", "e").partition("e")
    if exponent and not exponent.lstrip("+-").isdigit():
        return None
    sign = -1 if body.startswith("-") else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    whole, mark, part = body.partition(decimal)
    if (part and not part.isdigit()) or (not whole and not part):
        return None
    if group_digits(whole, thousands):
        whole = whole.replace(thousands, "")
    elif whole and not plain_whole(whole):
        return None
    return (
        sign * float(f"{whole or '0'}.{part or '0'}e{exponent or '0'}") if whole or mark else None
    )


def naive_dates(text):
    found = set()
    for form in ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%d/%m/%Y", "%m/%d/%Y"):
        try:
            day = dt.datetime.strptime(text, form).date()
        except ValueError:
            continue
        found.add(float((day - dt.date(1970, 1, 1)).days))
    return found


def naive(text):
    """The one meaning of a text; a point alone is a decimal mark."""
    text = text.strip()
    point, comma = number_with(text, ".", ","), number_with(text, ",", ".")
    if point is not None and "," not in text and text.count(".") <= 1:
        return point
    meanings = {m for m in (point, comma) if m is not None} | naive_dates(text)
    return meanings.pop() if len(meanings) == 1 else math.nan


def random_text(draw):
    kind = draw.random()
    digits = lambda most: "".join(draw.choices("0123456789", k=draw.randint(1, most)))  # noqa: E731
    if kind < 0.4:
        marks = [draw.choice(".,") for _ in range(draw.randint(0, 3))]
        text = draw.choice(["", "-", "+"]) + digits(4)
        for mark in marks:
            text += mark + draw.choice([digits(4), digits(3).zfill(3)])
        return text + (draw.choice(["", "", "e2"]) if len(marks) < 2 else "")
    if kind < 0.7:
        mark = draw.choice("./-")
        parts = [str(draw.randint(1, 31)), str(draw.randint(1, 13)), str(draw.randint(1900, 2100))]
        draw.shuffle(parts)
        return mark.join(parts)
    return "".join(draw.choices("0123456789.,-/ ax", k=draw.randint(1, 7)))


def test_the_fixed_rule_is_that_of_the_one_meaning():
    draw = random.Random(3)
    meant = 0
    for _ in range(20_000):
        text = random_text(draw)
        number, expected = read_value(text)[0], naive(text)
        if math.isnan(expected):
            # The naive reader supports neither times nor month names; the texts have none.
            assert math.isnan(number), text
        else:
            meant += 1
            assert number == pytest.approx(expected, rel=1e-15), text
    assert meant > 5000
    # Negative control: a rule that takes 1,234 for a number is caught.
    assert any(math.isnan(naive(t)) and t.replace(",", "").isdigit() for t in ("1,234", "12,345"))


# ── Forms that are declared or inferred ───────────────────────────────────────────────────────────


def test_declared_forms():
    bounds = read_bounds(
        {
            "w": {"range": [0, 100], "decimal": ","},
            "v": {"range": [1e-3, 100], "decimal": "."},
            "d": {"range": ["2020-01-01", "31.12.2025"], "format": "%d.%m.%Y"},
            "m": {"categories": ["01/02/2020"], "format": "%d/%m/%Y"},
        }
    )
    assert bounds["w"] == Range(0, 100, "comma")
    assert bounds["v"].form == "number"
    assert bounds["d"] == Range(18262, 20453, "%d.%m.%Y")
    assert bounds["m"] == Categories(("2020-02-01",), "%d/%m/%Y")
    assert read_value("1,234", "comma")[0] == 1.234
    assert read_value("1,234", "number")[0] == 1234.0
    assert read_value("03/02/2021", "%d/%m/%Y") == (18661.0, "2021-02-03")


@pytest.mark.parametrize(
    "bound",
    [
        {"range": [0, 1], "decimal": ";"},
        {"range": [0, 1], "format": "%d"},
        {"range": [0, 1], "decimal": ",", "format": "%d.%m.%Y"},
        {"range": ["a", "b"]},
        {"range": ["01/02/2020", "01/03/2020"]},
        {"range": [0, 1], "categories": [1]},
        {"range": [0, 1], "unit": "kg"},
    ],
)
def test_invalid_forms_are_refused(bound):
    with pytest.raises(InputError):
        read_bounds({"x": bound})


def test_numbers_of_a_yaml_file_are_numbers(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("a: [1e-3, 1]\nb: [1E3, 2.5e+3]\nc: [e1, e2]\n")
    bounds = read_bounds(path)
    assert bounds["a"] == Range(0.001, 1)
    assert bounds["b"] == Range(1000, 2500)
    assert bounds["c"] == Categories(("e1", "e2"))


def test_a_table_given_as_bounds_is_not_quoted(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("name,age\nAda Lovelace,36\n")
    with pytest.raises(InputError) as caught:
        read_bounds(path)
    assert "Ada" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "role", "numbers"),
    [
        (["18,5", "20,25", " "] * 10, "number", [18.5, 20.25, math.nan]),
        (["29.85", " ", "1889.5"] * 10, "number", [29.85, math.nan, 1889.5]),
        (["03.02.2021", "", "04.02.2021"] * 10, "date", [18661.0, math.nan, 18662.0]),
        (["1,234.5", "7", "2,000"] * 10, "number", [1234.5, 7.0, 2000.0]),
        (["1", "nan", "3"] * 10, "number", [1.0, math.nan, 3.0]),
    ],
)
def test_public_and_secret_tables_are_read_alike(values, role, numbers):
    """The form inferred from a public column agrees with the fixed rule, where there is one."""
    with open_table(pa.table({"x": values})) as opened:
        reading = opened.readings()["x"]
    assert reading.role == role
    inferred = read_column(pd.Series(values), reading.form).numbers
    np.testing.assert_array_equal(inferred[:3], numbers)
    fixed = read_column(values).numbers[:3]
    alike = [a == b or math.isnan(b) for a, b in zip(inferred[:3], fixed, strict=True)]
    assert all(alike)  # "2,000" has two meanings by itself


# ── Secret tables ─────────────────────────────────────────────────────────────────────────────────


def test_records_of_everything():
    rows = [[1, "a", None], [2, "b", 0.5]]
    frame = pd.DataFrame(rows, columns=["x0", "x1", "x2"])
    tables = [rows, frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)]
    for table in tables:
        records = read_records(table)
        assert list(records.columns) == ["x0", "x1", "x2"]
        assert records.columns["x0"].numbers.tolist() == [1.0, 2.0]
        assert [records.columns["x1"].label(k) for k in (0, 1)] == ["a", "b"]
        assert [records.columns["x2"].label(k) for k in (0, 1)] == ["", "0.5"]
    assert read_records(np.eye(2)).columns["x1"].numbers.tolist() == [0.0, 1.0]


def test_unreadable_types_are_refused():
    for table in (pa.table({"a": [[1], [2]]}), pa.table({"a": [{"b": 1}, {"b": 2}]})):
        with pytest.raises(InputError, match="column 'a'"):
            read_records(table)
    with pytest.raises(InputError, match="equal length"):
        read_records([[1, 2], [3]])
    with pytest.raises(InputError, match="has no column"):
        read_records(pd.DataFrame({"a": [1]}), columns=["b"])
    with pytest.raises(InputError, match="no mask"):
        read_records(np.ma.masked_array(np.eye(2), mask=np.eye(2)))
    with pytest.raises(InputError):
        read_column(np.array([1j]))


def test_the_rows_of_a_person(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("who,age\na,30\nb,40\na,31\n,50\n,51\n1,60\n1.0,61\n")
    kept = read_records(path).group_by_person("who")
    # A row without a name is a person of its own; 1 and 1.0 are one.
    assert kept.columns["age"].numbers.tolist() == [60, 61, 30, 31, 40, 50, 51]
    assert kept.persons.sizes.tolist() == [2, 2, 1, 1, 1]
    assert kept.take(np.array([1, 3])).columns["age"].numbers.tolist() == [30, 31, 50]


def test_a_repeated_header_is_a_row_of_missing_values(tmp_path):
    body = "".join(f"{k % 7},{k % 3}\n" for k in range(50))
    text = f"age,ward\n{body}age,ward\n{body}"
    path = tmp_path / "t.csv"
    path.write_text(text)
    records = read_records(path)
    assert records.rows == 101
    assert np.isnan(records.columns["age"].numbers).sum() == 1
    assert records.columns["ward"].label(50) == ""
    note = "line 52 of t.csv repeats the header: read as missing values"
    with open_table(path) as opened:
        assert {r.role for r in opened.readings().values()} == {"number"}
        assert opened.header_notes == (note,)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    with open_table(packed) as opened:
        assert opened.header_notes == (note.replace("t.csv", "t.csv.gz"),)
    assert note in certify(path).warnings
    # A column named like one of its values is not a repeated header.
    single = tmp_path / "one.csv"
    single.write_text("yes\nno\nyes\n")
    with open_table(single) as opened:
        assert opened.header_notes == ()
    assert [read_records(single).columns["yes"].label(k) for k in (0, 1)] == ["no", "yes"]


class Mute:
    def __str__(self):
        raise ValueError("no text")


class Unhashable(str):
    __hash__ = None


def nest(depth):
    cell = []
    for _ in range(depth):
        cell = [cell]
    return cell


HOSTILE = {
    "no text": (Mute(), "Mute"),
    "unhashable": (Unhashable("1"), "1"),
    "a long number in a list": ([10**5000], "list"),
    "a long fraction": (Fraction(10**5000, 3), "Fraction"),
    "deep lists": (nest(100_000), "list"),
    "a time after 9999": (pd.Timestamp(np.datetime64("20000-01-01", "s")), "day 6585322"),
    "a time before 1": (pd.Timestamp(np.datetime64("-0500-01-01", "s")), "day -902149"),
    "a period after all": (pd.Period(ordinal=2**40, freq="D"), "3010362559-12-15"),
    "a long double": (np.longdouble("1e4000"), "inf"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("form", [*FORMS, "%d.%m.%Y"])
def test_every_object_is_read(case, form):
    value, label = HOSTILE[case]
    column = read_column(["1", value, 2], form)
    assert column.label(1) == label
    assert same(pairs_of(column)[1], read_value(value, form))


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16()])
def test_a_gap_beside_a_full_dictionary_is_missing(index):
    """A dictionary may fill the type of its indices, which then has no number for a gap."""
    size = {pa.int8(): 128, pa.uint8(): 256, pa.int16(): 2**15}[index]
    words = pa.array([f"v{k}" for k in range(size)])
    column = pa.DictionaryArray.from_arrays(pa.array([0, size - 1, None], index), words)
    assert [read_column(column).label(k) for k in range(3)] == ["v0", f"v{size - 1}", ""]


def test_rows_without_a_target_are_left_out_of_a_public_table():
    from memberbound.learners.examples import read_examples

    frame = pd.DataFrame({"x": range(40), "y": ["a", "b", None, " "] * 10})
    examples = read_examples(frame, "y")
    assert (examples.rows, examples.classes) == (20, ("a", "b"))
    assert any("20 rows without a value in 'y'" in note for note in examples.selection.notes)
    with pytest.raises(InputError, match="value in every row"):
        read_examples(frame.assign(y=None), "y", roles={"y": "category"})
