"""Rows on the workers of a dask cluster: the numbers of one machine, even if workers are killed.

The oracle is the same release on one machine with the same noise, which is compared bit by bit.
"""

import importlib
import itertools
import os
import pickle
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from tests.oracle.training import loss_and_target

import memberbound as mb
from memberbound.errors import InputError, MemberboundError
from memberbound.learners.refits import connect
from memberbound.release.all_rows import boosting, on_workers
from memberbound.release.all_rows.boosting import Boosting
from memberbound.release.all_rows.encoder import ColumnCode, Encoder, Scaling
from memberbound.release.all_rows.gradient import TrainingRows
from memberbound.release.all_rows.learner_forms import LearnerForm
from memberbound.release.all_rows.private_columns import FirstCells, count_column
from memberbound.release.budget import BudgetShare
from memberbound.release.randomness import InsecureSource
from memberbound.tables.records import read_secret_columns
from memberbound.tables.shards import Shards

protecting = importlib.import_module("memberbound.verbs.protect")
distributed = pytest.importorskip("distributed")
ROWS = 5003
PUBLIC = {"age": [0, 120], "sex": ["f", "m"], "ill": ["no", "yes"]}


def cell_counts(records, name):
    """Return the exact histogram of a column."""
    cells = FirstCells(None, named=False)
    return records.select([name]).shards.sum(count_column, name, cells, False)[0]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    draws = np.random.default_rng(0)
    age, score = draws.integers(18, 90, ROWS), draws.normal(size=ROWS)
    table = pd.DataFrame(
        {
            "age": age,
            "sex": draws.choice(["f", "m"], ROWS),
            "pay": np.round(np.exp(draws.normal(7, 1, ROWS)), 2),
            "job": draws.choice([f"job {k}" for k in range(6)], ROWS),
            "patient_id": [f"p{k}" for k in range(ROWS)],
            "class": np.select([score > 0.5, score < -0.5], ["high", "low"], "middle"),
            "ill": np.where(age / 90 + 0.5 * score > 0.7, "yes", "no"),
        }
    )
    table.loc[::50, "pay"] = None
    table.loc[::70, "job"] = None
    path = tmp_path_factory.mktemp("rows") / "people.parquet"
    table.to_parquet(path, row_group_size=700)
    return path


@pytest.fixture(scope="module")
def client():
    """Three threads: shares of 1667 or 1668 rows, which no row group and no block ends with."""
    options = {"processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=3, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as opened,
    ):
        yield opened


COLUMNS = ["age", "sex", "pay", "job"]
FEW_ROUNDS = HistGradientBoostingClassifier(max_iter=5)
RULES = {
    "derived": {"job": {"from": "age", "edges": [40], "labels": ["job 1", "job 2"]}},
    "implies": [{"if": {"sex": "f"}, "then": {"pay": None}}],
}
RELEASES = {
    "logistic": ("protect", {"target": "ill", "bounds": PUBLIC, "eta": 0.1}),
    "boosting": (
        "protect",
        {
            "target": "ill",
            "learner": FEW_ROUNDS,
            "eta": 0.4,
            "columns": ["age", "patient_id", "job"],
        },
    ),
    "mean": ("summarize", {"statistic": "mean", "columns": ["age", "pay"], "eta": 0.3}),
    "covariance": ("summarize", {"statistic": "covariance", "columns": ["age", "pay"], "eta": 0.3}),
    "quantiles": ("summarize", {"statistic": "quantiles", "columns": ["pay"], "eta": 0.3}),
    "contingency": ("summarize", {"statistic": "contingency", "columns": ["job", "sex"]}),
    "table of pairs": ("synthesize", {"bounds": PUBLIC, "eta": 0.45, "rows": 200}),
    "table with rules": ("synthesize", {"bounds": {**PUBLIC, "rules": RULES}, "eta": 0.45}),
}
SLOW_RELEASES = {
    "private columns": ("protect", {"target": "ill", "eta": 0.4}),
    "several classes": ("protect", {"target": "class", "eta": 0.4, "tune": True}),
    "full boosting": ("protect", {"target": "class", "learner": "boosting", "eta": 0.4}),
    "ridge": ("protect", {"target": "pay", "bounds": {"pay": [0, 9000]}, "eta": 0.4}),
    "table": ("synthesize", {"target": "ill", "eta": 0.4, "rows": 200}),
}


def released(name, source, **more):
    """Return all fields of a release, including its model or rows."""
    verb, asked = (RELEASES | SLOW_RELEASES)[name]
    options = {"columns": COLUMNS, "insecure_seed": 1, **asked, **more}
    if "bounds" in asked:
        used = (*options["columns"], options.get("target"))
        options["bounds"] = {k: v for k, v in asked["bounds"].items() if k in (*used, "rules")}
    answer = getattr(mb, verb)(source, **options)
    model = getattr(answer, "released", None)
    made = model.to_dict() if verb == "protect" else None
    rows = answer.table.to_csv() if verb == "synthesize" else None
    return answer.to_dict(), made, rows


@pytest.mark.parametrize(
    "name", [*RELEASES, *(pytest.param(name, marks=pytest.mark.long) for name in SLOW_RELEASES)]
)
def test_a_cluster_gives_the_numbers_of_one_machine(name, file, client):
    assert released(name, file, client=client) == released(name, file)


def test_rows_in_memory_are_sent_and_a_folder_is_one_table(file, client, tmp_path):
    here = released("mean", file)
    assert released("mean", pd.read_parquet(file), client=client)[0]["values"] == here[0]["values"]
    for number, part in enumerate(np.array_split(np.arange(ROWS), 3)):
        pd.read_parquet(file).iloc[part].to_parquet(tmp_path / f"{number}.parquet")
    assert released("mean", tmp_path, client=client)[0]["values"] == here[0]["values"]


def records_there(file, client):
    with connect(client=client) as cluster:
        return read_secret_columns(file, {}, columns=COLUMNS, spread=cluster.spread)


def test_every_row_is_counted_once_and_a_share_that_is_read_twice_is_seen(
    file, client, monkeypatch
):
    here = read_secret_columns(file, {}, columns=COLUMNS)
    there = records_there(file, client)
    for name in COLUMNS:
        assert (cell_counts(there, name) == cell_counts(here, name)).all()
    # Broken: shares overlap by a row.
    honest = on_workers._FileShard

    def overlapping(*fields):
        share = honest(*fields)
        return replace(share, first=max(share.first - 1, 0), rows=share.rows + min(share.first, 1))

    monkeypatch.setattr(on_workers, "_FileShard", overlapping)
    monkeypatch.setattr(overlapping, "read", honest.read, raising=False)
    assert cell_counts(records_there(file, client), "age").sum() == ROWS + 2


def test_a_file_that_changes_between_two_shares_is_refused(file, client, tmp_path):
    """A record that moved from a share that was read to one that was not would count twice."""
    for folder, path in ((False, tmp_path / "people.parquet"), (True, tmp_path / "all")):
        inside = path / "people.parquet" if folder else path
        inside.parent.mkdir(exist_ok=True)
        table = pd.read_parquet(file)
        table.to_parquet(inside)
        os.utime(inside, (1, 1))
        there = records_there(path, client)
        table.iloc[::-1].to_parquet(inside)
        with pytest.raises(InputError, match="must not be changed"):
            cell_counts(there, "age")


def test_rows_are_fetched_in_the_requested_order(file, client):
    indices = np.random.default_rng(1).permutation(ROWS)[:900]
    here, there = read_secret_columns(file, {}, columns=COLUMNS), records_there(file, client)
    for name, values in there.take(indices).columns.items():
        expected = here.columns[name].take(indices)
        assert [values.label(k) for k in range(900)] == [expected.label(k) for k in range(900)]


def _secret_failure(part):
    raise ValueError(f"the first one is {part.columns['job'].label(1)}")


def _refusal(part):
    raise InputError("no.")


def test_errors_on_workers_quote_no_row(file, client, caplog):
    there = records_there(file, client)
    with pytest.raises(MemberboundError, match=r"^a worker failed \(ValueError\)\.$"):
        there.shards.sum(_secret_failure)
    with pytest.raises(MemberboundError, match="ValueError"):
        there.shards.map(_secret_failure).sum(len)
    with pytest.raises(InputError, match=r"^no\.$"):
        there.shards.sum(_refusal)
    assert "job" not in caplog.text


def test_unsupported_requests_to_a_cluster_are_refused(file, client, tmp_path, monkeypatch):
    plain = tmp_path / "people.csv"
    pd.read_parquet(file).to_csv(plain, index=False)
    with pytest.raises(InputError, match="Parquet or Arrow file"):
        mb.summarize(plain, statistic="mean", columns=["age"], client=client)
    with pytest.raises(InputError, match="left out with unit"):
        mb.protect(file, target="ill", unit="patient_id", client=client)
    form = LearnerForm("network", factory=print)
    monkeypatch.setattr(protecting, "require_form", lambda _learner: form)
    with pytest.raises(InputError, match="not a network"):
        mb.protect(file, target="ill", learner="tests:network", client=client)
    monkeypatch.setattr(on_workers, "_version", lambda: "0.1")
    with pytest.raises(InputError, match=r"installed, got 0\.1"):
        mb.summarize(file, statistic="mean", columns=["age"], client=client)


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["logistic", "full boosting", "table of pairs"])
def test_a_killed_worker_changes_no_number(name, file, monkeypatch):
    """Processes under a nanny; one of them is killed while it works on the third sum."""
    honest, sums = on_workers.WorkerShards.gather, itertools.count(1)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        monkeypatch.context() as patch,
    ):
        victim = next(iter(client.run(os.getpid).values()))

        def kill_and_gather(*arguments):
            if next(sums) == 3:
                os.kill(victim, signal.SIGKILL)
            return honest(*arguments)

        patch.setattr(on_workers.WorkerShards, "gather", kill_and_gather)
        there = released(name, file, client=client)
        assert next(sums) > 3
        assert victim not in client.run(os.getpid).values()
    assert there == released(name, file)


class Forgetful(Shards):
    """Shards that are read again before every sum, as after a worker was killed."""

    def __iter__(self):
        return iter([pickle.loads(pickle.dumps(shard)) for shard in super().__iter__()])


def test_scores_of_boosting_are_the_same_kept_or_made_again(monkeypatch):
    draws = np.random.default_rng(0)
    bins = draws.integers(0, 32, (300, 3)).astype(np.uint8)
    loss, target = loss_and_target("logistic", draws.integers(0, 2, 300))
    codes = tuple(ColumnCode(f"x{k}", Scaling(0.0, 1.0, 0.5, 0.2)) for k in range(3))

    honest, seen = boosting._scores, []

    def watch(rows, move):
        made = honest(rows, move)
        seen.append(made.tobytes())
        return made

    monkeypatch.setattr(boosting, "_scores", watch)

    def scores(kind):
        seen.clear()
        rows = kind([TrainingRows(bins, target[:, 0])])
        part = BudgetShare("boosting", 0.5, InsecureSource(1))
        how = Boosting(rounds=20, rate=0.3)
        boosting.boost(rows, loss, how, part, records=300, encoder=Encoder(codes))
        return list(seen)

    assert scores(Forgetful) == scores(Shards)
    assert len(set(seen)) == 60
    # Broken: without the grid scores depend on the order in which they were added.
    monkeypatch.setattr(boosting, "_GRID", 2.0**80)
    assert scores(Forgetful) != scores(Shards)
