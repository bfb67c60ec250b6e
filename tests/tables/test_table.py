"""A table is opened once: engine, roles, rows and examples are made once and kept."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import memberbound
from commands import python
from memberbound.errors import InputError
from memberbound.learners.examples import read_examples
from memberbound.tables import opening
from memberbound.tables import table as tables
from memberbound.tables.engine import Engine
from memberbound.tables.opening import open_table
from memberbound.tables.public_rows import read_population
from memberbound.tables.records import read_records
from oracle.files import in_sqlite

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "id": range(400),
        "age": RNG.integers(20, 60, 400),
        "sex": RNG.choice(["f", "m"], 400),
        "ill": RNG.choice(["no", "yes"], 400),
    }
)
BOUNDS = {"age": [0, 100], "sex": ["f", "m"], "ill": ["no", "yes"]}
FEATURES = ["age", "sex"]
HALF = {"eta": 0.2, "record": "average", "insecure_seed": 1, "pairs": 8}
AUDIT = {"learner": "naive-bayes", "shadows": 8, "workers": 1, "cache": False}
VERBS = {
    "certify": memberbound.certify,
    "plan": lambda t: memberbound.plan(t, security=0.5),
    "harden": lambda t: memberbound.harden(t, security=0.3, target="ill"),
    "population": lambda t: memberbound.population(t, columns="age", epsilon=1.0),
    "bounds": memberbound.bounds,
    "audit_learner": lambda t: memberbound.audit_learner(t, target="ill", **AUDIT),
    "protect_half": lambda t: memberbound.protect_half(t, target="ill", **HALF),
    "protect": lambda t: memberbound.protect(
        t, target="ill", columns=FEATURES, bounds=BOUNDS, eta=0.2, insecure_seed=1
    ),
    "summarize": lambda t: memberbound.summarize(
        t, statistic="mean", columns="age", bounds={"age": [0, 100]}, eta=0.2, insecure_seed=1
    ),
}


@pytest.fixture
def path(tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.fixture
def calls(monkeypatch):
    """Count engine starts, opened tables and inferred roles."""
    counts = {"engines": 0, "opened": 0, "inferred": 0}

    def count_calls(name, function):
        def call(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(Engine, "__init__", count_calls("engines", Engine.__init__))
    monkeypatch.setattr(opening, "_open", count_calls("opened", opening._open))
    monkeypatch.setattr(tables, "infer_roles", count_calls("inferred", tables.infer_roles))
    return counts


def without_coins(answer):
    fields = answer.to_dict()
    return {k: fields.get(k) for k in ("rows", "columns", "roles", "delta_upper", "eta", "persons")}


def test_every_verb_takes_an_open_table_and_opens_nothing(path, calls):
    expected = {verb: without_coins(ask(path)) for verb, ask in VERBS.items()}
    assert calls["engines"] == calls["opened"] == len(VERBS)  # each by itself
    calls.update(engines=0, opened=0, inferred=0)
    with open_table(path) as table:
        for verb, ask in VERBS.items():
            assert without_coins(ask(table)) == expected[verb], verb
    # Roles once for all, and once for the fitting rows of harden (X18).  A file that was opened as
    # a public one is opened again for secret reading, on the same engine.
    assert calls == {"engines": 1, "opened": 2, "inferred": 2}


def test_a_parsed_table_shares_the_engine_and_roles(path, calls):
    with open_table(path) as table:
        parsed = read_population(table, target="ill")[0].parse()
        examples = read_examples(parsed, "ill", columns=["age", "sex"])
        assert read_examples(parsed, "ill", columns=["age", "sex"]) is examples
        assert read_examples(parsed, "ill", columns=["age"]) is not examples
        atoms = memberbound.certify(parsed, columns=FEATURES).atoms
        sample = parsed.with_frame(parsed.frame.head(50), parsed.readings())
        assert len(read_population(sample, target="ill")[0].frame) == 50
    assert calls == {"engines": 1, "opened": 1, "inferred": 1}
    assert atoms == len(PEOPLE[FEATURES].drop_duplicates())


def test_rows_of_a_public_table_are_read_again_where_they_are_secret(tmp_path):
    """A single text makes a whole SQLite column text, in a public table only."""
    path = in_sqlite([("1",), (2,), ("'x",)], tmp_path / "t.sqlite", {"x": ""})
    direct = read_records(path).columns["x"]
    with open_table(path) as table:
        table.readings()
        assert not table.reads_row_by_row
        again = read_records(table).columns["x"]
    for row in range(3):
        assert direct.label(row) == again.label(row)
    with open_table(pa.table({"x": [1, 2]})) as table, pytest.raises(InputError, match="secret"):
        read_records(table)
    with open_table(pa.table({"x": [1, 2]}), secret=True) as table:
        assert read_records(table).rows == 2


def test_cells_are_not_counted_where_values_were_rounded():
    """Durations of secret rows are doubles: two that differ may be one cell."""
    close = pa.table({"x": pa.array([2**62, 2**62 + 1], pa.duration("ns"))})
    with open_table(close) as table:
        assert memberbound.certify(table).atoms == 2
    with open_table(close, secret=True) as table:
        assert len(set(table.rows().column("x").to_pylist())) == 1  # the values to be counted
        for ask in (memberbound.certify, VERBS["harden"]):
            with pytest.raises(InputError, match="secret=True"):
                ask(table)


# ── Start-up: modules are counted, not seconds ────────────────────────────────────────────────────


def load_modules(folder, *arguments) -> set[str]:
    """Return the modules that a command imports."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('modules', *sys.modules, file=sys.stderr))\n"
        "from memberbound.faces.command_line import main\n"
        f"sys.argv = ['memberbound', *{arguments!r}]\n"
        "main()\n"
    )
    done = python("-c", code, cwd=folder, env={"OMP_NUM_THREADS": "1"})
    return set(done.stderr.rpartition("modules")[2].split())


HEAVY = {"ibis", "sklearn", "joblib", "torch", "matplotlib", "fastapi", "scipy.optimize"}


def test_quick_commands_load_little(path):
    options = {"columns": FEATURES, "bounds": BOUNDS, "eta": 0.2}
    memberbound.protect(path, target="ill", **options, out=path.parent / "model.json")
    assert not load_modules(path.parent, "predict", "model.json", path.name) & HEAVY
    assert not load_modules(path.parent, "certify", path.name) & HEAVY
    explained = load_modules(path.parent, "explain", "--epsilon", "8", "--json")
    assert not explained & (HEAVY | {"pandas", "duckdb", "pyarrow"})


@pytest.mark.parametrize("first", ["roles", "rows", "counts"])
def test_the_engine_reads_a_small_csv_file_once(tmp_path, first):
    file = tmp_path / "people.csv"
    PEOPLE.to_csv(file, index=False)
    needs = {
        "roles": lambda t: {name: reading.role for name, reading in t.readings().items()},
        "rows": lambda t: t.frame.astype(str).to_numpy().tolist(),
        "counts": lambda t: memberbound.certify(t, columns=FEATURES).atoms,
    }
    with open_table(file) as table:
        expected = {name: need(table) for name, need in needs.items()}
    with open_table(file, secret=True) as secret:
        secret.rows()
        assert secret.stored_copy is None, "secret rows are read once"
    with open_table(file) as table:
        needs[first](table)
        file.unlink()
        assert {name: need(table) for name, need in needs.items()} == expected
