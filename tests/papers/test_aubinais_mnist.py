"""A25-Tab1 on small made-up images, its claims on tables made by hand, and MNIST if it is there."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound import certify, reproduce
from memberbound.errors import InputError
from memberbound.iid.worst_case import leak_of_law
from memberbound.papers import aubinais_mnist
from memberbound.papers.aubinais_mnist import (
    ACCURACY,
    DIVERSITY,
    LEAK,
    RAW,
    Digits,
    Setting,
    best_accuracy,
    leaks,
    measured,
    scores,
    table_checks,
    tabulated,
    train_network,
)
from memberbound.papers.reproduction import MissingDataError, Sweep, data_folder
from tables.real_data import real_file

SMALL = Setting(sizes=(60, 200), clusters=(4, 12), set_aside=60, width=16, iterations=80, batch=25)
#: One cell with clusters beside the raw one.
QUICK = replace(SMALL, sizes=(60,), clusters=(4,), iterations=20)


# ---- small images that look like nothing, in the files that MNIST comes in ----------------------

TRAIN, TEST, SIDE = 420, 200, 6


def drawn(seed: int = 0) -> dict[str, np.ndarray]:
    """Ten patterns with noise; every image is distinct."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 200, (10, SIDE, SIDE))
    result = {}
    for part, count in (("train", TRAIN), ("test", TEST)):
        labels = rng.permutation(np.arange(count) % 10)
        noise = rng.integers(0, 56, (count, SIDE, SIDE))
        result[f"x_{part}"] = (patterns[labels] + noise).astype(np.uint8)
        result[f"y_{part}"] = labels.astype(np.uint8)
    return result


def write_packed(folder: Path, **changed: object) -> Path:
    """Write mnist.npz, with some arrays changed or (None) left out."""
    arrays = {k: v for k, v in (drawn() | changed).items() if v is not None}
    path = folder / "mnist.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    write_packed(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def digits(folder):
    return Digits.read(folder)


def test_setting_is_that_of_the_paper():
    full = Setting()
    assert full.sizes == (1000, 5000, 10_000)
    assert (full.clusters, full.set_aside) == ((20, 50, 100), 1000)
    assert (full.width, full.rate, full.iterations) == (256, 0.01, 500)
    assert set(ACCURACY) == set(itertools.product(full.sizes, full.columns))
    assert set(LEAK) == set(itertools.product(full.sizes, full.clusters))
    assert tuple(DIVERSITY) == full.clusters


# ---- reading -----------------------------------------------------------------------------------


def test_packed_file(tmp_path):
    write_packed(tmp_path)
    digits, arrays = Digits.read(tmp_path), drawn()
    assert digits.train.shape == (TRAIN, SIDE * SIDE)
    assert digits.test.shape == (TEST, SIDE * SIDE)
    assert digits.train.dtype == np.float32
    np.testing.assert_allclose(
        digits.train.reshape(-1, SIDE, SIDE), arrays["x_train"] / 255, rtol=1e-6
    )
    np.testing.assert_array_equal(digits.test_labels, arrays["y_test"])


def test_missing_files(tmp_path):
    with pytest.raises(MissingDataError, match="MEMBERBOUND_DATA must name a folder"):
        Digits.read(None)
    with pytest.raises(MissingDataError, match=r"mnist\.npz"):
        Digits.read(tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y_test": None}, "must hold the arrays"),
        ({"x_train": np.zeros((5, 3, 3))}, "x_train must be images"),
        ({"x_train": np.zeros((0, 3, 3), np.uint8)}, "x_train must be images"),
        ({"x_test": np.zeros((5, 9), np.uint8)}, "x_test must be images"),
        ({"x_test": np.zeros((TEST, 3, 3), np.uint8)}, "one size"),
        ({"y_train": np.zeros(TRAIN - 1, np.uint8)}, "y_train must be one label"),
        ({"y_train": np.full(TRAIN, 10, np.uint8)}, "y_train must be one label"),
        ({"y_test": np.full(TEST, 0.5)}, "y_test must be one label"),
        ({"y_test": np.array([object()] * TEST)}, "numpy can load"),
    ],
)
def test_something_else_in_the_packed_file(changed, words, tmp_path):
    write_packed(tmp_path, **changed)
    with pytest.raises(InputError, match=words) as refused:
        Digits.read(tmp_path)
    assert not isinstance(refused.value, MissingDataError)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_damaged_packed_file(content, tmp_path):
    (tmp_path / "mnist.npz").write_bytes(content)
    with pytest.raises(InputError, match="numpy can load"):
        Digits.read(tmp_path)


def test_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("MEMBERBOUND_DATA", raising=False)
    assert data_folder(None) is None
    monkeypatch.setenv("MEMBERBOUND_DATA", "")
    assert data_folder(None) is None
    monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    (tmp_path / "named").mkdir()
    assert data_folder(str(tmp_path / "named")) == tmp_path / "named"
    with pytest.raises(InputError, match="data must be a folder"):
        data_folder(tmp_path / "none")
    monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="MEMBERBOUND_DATA must be a folder"):
        data_folder(None)


# ---- learner and scores ------------------------------------------------------------------------


def test_network_takes_the_stated_number_of_steps(digits):
    for count in (10, 70):  # less than a batch, and no multiple of it
        rng = np.random.default_rng(0)
        network = train_network(digits.train[:count], digits.train_labels[:count], SMALL, rng)
        assert network._optimizer.t == SMALL.iterations
        assert [w.shape[1] for w in network.coefs_] == [16, 16, 10]
        assert (network.activation, network.alpha, network.loss) == ("relu", 0.0, "log_loss")


def test_passes_take_all_rows_and_end_with_the_iterations():
    setting = Setting(iterations=7, batch=25)
    rows = list(aubinais_mnist._passes(50, setting, np.random.default_rng(0)))
    assert [len(one) for one in rows] == [50, 50, 50, 25]
    for one in rows[:3]:
        assert sorted(one) == list(range(50))
    assert list(rows[0]) != list(rows[1])
    # A rest that does not fill a batch waits for another pass.
    rest = list(aubinais_mnist._passes(60, setting, np.random.default_rng(0)))
    assert [len(one) for one in rest] == [50, 50, 50, 25]


def test_a_pass_is_its_batches_one_by_one(digits, monkeypatch):
    x, y = digits.train[:60], digits.train_labels[:60]
    whole = train_network(x, y, SMALL, np.random.default_rng(1))
    passes = aubinais_mnist._passes

    def one_by_one(*arguments):
        for rows in passes(*arguments):
            yield from rows.reshape(-1, SMALL.batch)

    monkeypatch.setattr(aubinais_mnist, "_passes", one_by_one)
    single = train_network(x, y, SMALL, np.random.default_rng(1))
    assert single._optimizer.t == whole._optimizer.t == SMALL.iterations
    for a, b in zip(whole.coefs_, single.coefs_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_scores_on_hand_made_answers():
    labels = np.arange(10)
    sure = np.eye(10)
    assert scores(sure, labels) == {"accuracy": 1.0, "yes_no_accuracy": 1.0, "auc": 1.0}
    # Every answer is one digit too high: two of the ten yes-or-no answers are wrong each time.
    shifted = np.roll(np.eye(10), 1, axis=1)
    result = scores(shifted, labels)
    assert result["accuracy"] == 0.0
    assert result["yes_no_accuracy"] == pytest.approx(0.8)
    # The true digit ties with eight others below the one that is given a 1.
    assert result["auc"] == pytest.approx((8 / 9) / 2)


def test_best_accuracy_is_the_best_over_all_classifiers():
    rng = np.random.default_rng(5)
    cells, labels = rng.integers(0, 3, 40), rng.integers(0, 10, 40)
    best = max(
        np.mean(np.array(answer)[cells] == labels)
        for answer in itertools.product(range(10), repeat=3)
    )
    assert best_accuracy(cells, labels) == pytest.approx(best)


def test_distinct_images_have_distinct_numbers():
    images = np.array([[1, 2], [3, 4], [1, 2], [1, 3]], dtype=np.float32)
    numbers = aubinais_mnist._distinct(images)
    assert numbers[0] == numbers[2]
    assert len(set(numbers.tolist())) == 3


# ---- bounds ------------------------------------------------------------------------------------


def test_leaks_agree_with_the_public_functions():
    rng = np.random.default_rng(6)
    cells = rng.choice(7, 900, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])
    counts = np.bincount(cells, minlength=9)
    p = counts / 900
    result = leaks(counts, 300, "pairs")
    assert (
        result["delta_pairs_certified"] == certify(pd.DataFrame({"cell": cells}), n=300).delta_upper
    )
    assert result["delta_pairs_worst_estimate"] == pytest.approx(leak_of_law(p, 300))
    c_k = math.fsum(math.sqrt(q * (1 - q)) for q in p)
    assert result["c_k_pairs_estimate"] == pytest.approx(c_k)
    assert result["delta_pairs_formula_estimate"] == pytest.approx(c_k / (2 * math.sqrt(300)))
    assert result["delta_pairs_worst_estimate"] <= result["delta_pairs_certified"]


def test_pairs_are_labels_within_clusters(digits, monkeypatch):
    """The counts behind every cell of the table, counted once more by hand."""
    seen = []
    real = aubinais_mnist.leaks
    monkeypatch.setattr(
        aubinais_mnist, "leaks", lambda c, n, r: seen.append((r, c)) or real(c, n, r)
    )
    clusterings = []
    fit = aubinais_mnist.clustered

    def spied(digits, clusters, own, rng):
        clusterings.append((own, fit(digits, clusters, own, rng)))
        return clusterings[-1][1]

    trained = []
    learn = aubinais_mnist.train_network
    monkeypatch.setattr(aubinais_mnist, "clustered", spied)
    monkeypatch.setattr(
        aubinais_mnist,
        "train_network",
        lambda x, y, *rest: trained.append((x, y)) or learn(x, y, *rest),
    )
    measured(digits, SMALL, np.random.default_rng(0), lambda: None)

    aside = np.concatenate([own for own, _ in clusterings])
    assert len(set(aside.tolist())) == len(aside) == 120
    rest = np.setdiff1d(np.arange(len(digits.train)), aside)
    by_column = [seen[place : place + 4] for place in range(0, len(seen), 4)]
    assert len(by_column) == 3
    for (_, (_, cells, _)), column in zip(clusterings, by_column[1:], strict=True):
        pairs = pd.Series(list(zip(cells[rest], digits.train_labels[rest], strict=True)))
        for reading, counts in column:
            expected = pd.Series(cells[rest]) if reading == "clusters" else pairs
            assert sorted(counts[counts > 0]) == sorted(expected.value_counts())
    # Raw images are all distinct.
    assert all(counts.max() == 1 and counts.sum() == len(rest) for _, counts in by_column[0])

    # Training images come from the rest only, and discretised ones are centres.
    kept = {image.tobytes() for image in digits.train[rest]}
    for images, _ in trained[:2]:
        assert {image.tobytes() for image in images} <= kept
    for place, (_, (centres, _, _)) in enumerate(clusterings):
        of_centres = {centre.tobytes() for centre in centres}
        for images, _ in trained[2 + 2 * place : 4 + 2 * place]:
            assert {image.tobytes() for image in images} <= of_centres
    assert [len(y) for _, y in trained] == [60, 200] * 3


def test_small_table(digits):
    steps = []
    result = tabulated(digits, SMALL, 2, 0, lambda *step: steps.append(step))
    assert steps == [(done, 12) for done in range(1, 13)]
    assert [(r["records"], r["clusters"]) for r in result.table] == list(
        itertools.product(SMALL.sizes, SMALL.columns)
    )
    assert len(result.trials) == 12
    for row in result.trials:
        assert row["accuracy"] <= row["accuracy_ceiling"]
        for reading in ("clusters", "pairs"):
            worst = row[f"delta_{reading}_worst_estimate"]
            assert worst <= row[f"delta_{reading}_certified"]
            assert worst <= row[f"delta_{reading}_formula_estimate"]
        if row["clusters"] == RAW:
            assert row["accuracy"] > 0.9
            assert row["accuracy_on_raw_images"] == row["accuracy"]
            assert row["delta_clusters_certified"] == row["delta_pairs_certified"] == 1.0
        else:
            # Splitting atoms never lowers the worst case.
            assert row["delta_pairs_worst_estimate"] >= row["delta_clusters_worst_estimate"]
            assert row["c_k_clusters_estimate"] <= math.sqrt(row["clusters"] - 1)
    means = pd.DataFrame(result.trials).groupby(["records", "clusters"])["accuracy"].mean()
    for row in result.table:
        assert row["accuracy_mean"] == pytest.approx(means[row["records"], row["clusters"]])
    assert result.checks == ()  # the paper prints nothing about these sizes
    assert len(result.draw().axes) == 3


def test_same_seed_same_table_and_another_seed_another(digits):
    first, again, other = (tabulated(digits, QUICK, 1, seed).table for seed in (0, 0, 1))
    assert first == again != other


def test_too_few_images(digits):
    with pytest.raises(InputError, match=r"must be at least 13000, got 420\."):
        tabulated(digits, Setting(), 1, 0)


# ---- claims ------------------------------------------------------------------------------------


def _as_printed():
    """A table in which everything is as printed, and the pairs leak no more than the clusters."""
    sweeps = {}
    for n in (1000, 5000, 10_000):
        columns = (RAW, 20, 50, 100)
        accuracy = [ACCURACY[n, k] for k in columns]
        leak = [LEAK.get((n, k), 1.0) * 0.99 for k in columns]
        same = (
            "accuracy", "yes_no_accuracy", "auc", "accuracy_on_raw_images",
        )  # fmt: skip
        rows = dict.fromkeys(same, accuracy) | dict.fromkeys(
            ("delta_clusters_certified", "delta_pairs_certified", "delta_pairs_worst_estimate"),
            leak,
        )
        rows["accuracy_ceiling"] = [1.0] * 4
        rows["c_k_clusters_estimate"] = [250.0, *DIVERSITY.values()]
        sweeps[n] = Sweep(
            "clusters",
            tuple(map(float, columns)),
            {name: np.array(row)[:, None].repeat(2, axis=1) for name, row in rows.items()},
        )
    return sweeps


def _failing(sweeps):
    return [check.claim for check in table_checks(sweeps) if not check.holds]


def test_what_is_printed_fails_only_where_it_contradicts_itself():
    failing = _failing(_as_printed())
    assert [text[:40] for text in failing] == [
        "the printed bounds are C_K/(2√n) of the ",
        "n = 1000, K = 100: discretising costs 2 ",
    ]
    checks = {check.claim: check for check in table_checks(_as_printed())}
    # 0.02 is printed for 4.3/(2·100) = 0.0215, 0.03 for 6.74/(2·100) = 0.0337.
    assert checks[failing[0]].measured == pytest.approx(0.0037)
    assert checks[failing[1]].measured == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("quantity", "n", "k", "value", "claim"),
    [
        ("c_k_clusters_estimate", 1000, 50, 7.2, "K = 50: C_K(P), counted over clusters"),
        ("delta_clusters_certified", 5000, 20, 0.031, "n = 5000, K = 20: Δ ≤ 0.03; certified"),
        ("delta_pairs_certified", 1000, 100, 0.16, "n = 1000, K = 100: Δ ≤ 0.15; certified"),
        ("accuracy", 10_000, 20, 0.9, "n = 10000, K = 20: accuracy on test images, discretised"),
        ("accuracy", 5000, RAW, 0.95, "n = 5000, raw images: accuracy on test images"),
        ("auc", 1000, 20, 0.94, "the printed accuracies are the mean area"),
        ("yes_no_accuracy", 1000, 20, 0.98, "the printed accuracies are the share of right yes"),
        ("accuracy_on_raw_images", 1000, 20, 0.98, "the printed accuracies are the share of"),
        ("accuracy_ceiling", 1000, 100, 0.98, "K = 100: an accuracy of 0.986 is possible"),
        ("accuracy", 1000, 50, 0.93, "n = 1000, K = 50: discretising costs 2 %"),
        ("accuracy", 5000, 100, 0.96, "n = 5000: accuracy falls with fewer clusters"),
        ("delta_pairs_certified", 5000, 100, 0.02, "n = 5000: the bound on Δ, pairs as atoms"),
    ],
)  # fmt: skip
def test_a_wrong_number_makes_its_claim_fail(quantity, n, k, value, claim):
    sweeps = _as_printed()
    sweeps[n].quantities[quantity][sweeps[n].values.index(k)] = value
    new = set(_failing(sweeps)) - set(_failing(_as_printed()))
    assert any(text.startswith(claim) for text in new), new


def test_the_leak_of_pairs_is_held_against_every_printed_bound():
    sweeps = _as_printed()
    for sweep in sweeps.values():
        sweep.quantities["delta_pairs_worst_estimate"][:] *= 1.5
    text, *_ = [t for t in _failing(sweeps) if t.startswith("the printed bounds hold for a")]
    check = next(check for check in table_checks(sweeps) if check.claim == text)
    assert check.measured == pytest.approx(0.99 * 1.5)


# ---- as a user meets it ------------------------------------------------------------------------


def test_command_with_the_data(command, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(aubinais_mnist, "Setting", lambda: QUICK)
    monkeypatch.setenv("MEMBERBOUND_DATA", str(folder))
    out = tmp_path / "out"
    code, printed, errors = command("reproduce", "a25-tab1", "--out", out, "--trials", 1, "--json")
    assert code == 0, errors
    answer = json.loads(printed)
    assert (answer["id"], answer["game"], answer["trials"]) == ("A25-Tab1", "iid", 1)
    assert answer["left_out"] == []
    assert sorted(p.name for p in out.iterdir()) == sorted(
        f"A25-Tab1{end}" for end in (".png", ".svg", ".csv", "-trials.csv", ".json")
    )
    shown = pd.read_csv(out / "A25-Tab1.csv").to_dict("records")
    assert shown == answer["table"]
    assert len(shown) == 2
    # The named folder goes before the environment.
    monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path / "none"))
    assert reproduce("A25-Tab1", trials=1, data=folder).table == answer["table"]


def test_alone_without_the_data_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMBERBOUND_DATA", raising=False)
    code, printed, errors = command("reproduce", "A25-Tab1")
    assert (code, printed) == (2, "")
    assert "MEMBERBOUND_DATA must name a folder" in errors
    assert len(errors.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(MissingDataError, match=r"mnist\.npz"):
        reproduce("A25-Tab1", data=tmp_path)
    with pytest.raises(MissingDataError):
        reproduce("A25-Tab1")


@pytest.fixture
def two(monkeypatch, only, undrawn):
    """Two things to redo: one without data, one with."""
    only("L24-F2", "A25-Tab1")
    monkeypatch.setattr(aubinais_mnist, "Setting", lambda: QUICK)


@pytest.mark.parametrize("empty_folder", [True, False])
def test_all_without_the_data_leaves_it_out(empty_folder, two, command, tmp_path, monkeypatch):
    monkeypatch.delenv("MEMBERBOUND_DATA", raising=False)
    if empty_folder:
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path / "empty"))
    out = tmp_path / "out"
    arguments = ("reproduce", "all", "--out", out, "--trials", 1)
    code, printed, errors = command(*arguments, "--json")
    assert code == 0, errors
    answer = json.loads(printed)
    (left,) = answer["left_out"]
    assert left["id"] == "A25-Tab1"
    assert "mnist.npz" in left["reason"]
    rows = {row["id"]: row for row in answer["table"]}
    assert rows["L24-F2"]["left_out"] is None
    assert rows["L24-F2"]["checks"] == len(answer["checks"]) > 0
    assert rows["A25-Tab1"] == {
        "id": "A25-Tab1", "title": left["title"], "checks": 0, "hold": 0, "left_out": left["reason"]
    }  # fmt: skip
    assert not list(out.glob("A25*"))
    assert (out / "L24-F2.csv").exists()
    page = (out / "summary.md").read_text()
    assert f"| A25-Tab1 | {left['title']} |  | left out |" in page
    assert left["reason"] in page
    assert f"A25-Tab1 was left out: {left['reason']}" in command(*arguments)[1]


def test_all_with_the_data(two, folder, tmp_path):
    both = reproduce("all", trials=1, data=folder, out=tmp_path / "out")
    assert both.left_out == ()
    assert [row["id"] for row in both.table] == ["L24-F2", "A25-Tab1"]
    assert all(part.seconds > 0 for part in both.parts)
    assert both.files[-1] == str(tmp_path / "out" / "summary.md")


def test_nothing_to_do_without_the_data(two, monkeypatch):
    monkeypatch.delenv("MEMBERBOUND_DATA", raising=False)
    with pytest.raises(MissingDataError):
        reproduce("A25")


def test_a_wrong_folder_or_file_is_refused_before_any_work(two, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="MEMBERBOUND_DATA must be a folder"):
        reproduce("all", trials=1, out=tmp_path / "out")
    (folder / "mnist.npz").write_bytes(b"damaged")
    with pytest.raises(InputError, match="numpy can load"):
        reproduce("all", trials=1, out=tmp_path / "out", data=folder)
    assert not (tmp_path / "out").exists()
    # What needs no data does not look for it.
    assert reproduce("L24-F2", trials=1).id == "L24-F2"


# ---- MNIST itself ------------------------------------------------------------------------------


def test_mnist_itself():
    """The shape of the data set, and one cell of the table with few iterations."""
    digits = Digits.read(real_file("mnist.npz").parent)
    assert digits.train.shape == (60_000, 784)
    assert digits.test.shape == (10_000, 784)
    setting = Setting(sizes=(1000,), clusters=(20,), width=32, iterations=60)
    raw, clustered = tabulated(digits, setting, 1, 0).trials
    assert 0.6 < raw["accuracy"] < 0.95
    assert clustered["accuracy"] <= clustered["accuracy_ceiling"] < 0.8
    assert clustered["c_k_clusters_estimate"] == pytest.approx(4.3, rel=0.05)
    assert clustered["delta_clusters_certified"] < 0.07 < clustered["delta_pairs_worst_estimate"]
