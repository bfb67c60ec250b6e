"""A25-F1, F2 and Tab1: small settings, claims on tables made by hand, and MNIST if it is there."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from commands import run_command
from memberbound import certify, reproduce
from memberbound.errors import InputError
from memberbound.iid.worst_case import leak_of_law
from memberbound.papers import iid_figures, image_table
from memberbound.papers.iid_figures import (
    Network,
    draw_records,
    figure_1,
    figure_2,
    small_losses,
    training_checks,
    with_one,
)
from memberbound.papers.image_table import (
    ACCURACY,
    DIVERSITY,
    LEAK,
    RAW,
    Digits,
    Setting,
    best_accuracy,
    leaks,
    table_checks,
    tabulate,
    train_network,
)
from memberbound.papers.reproduction import MissingDataError, Sweep
from tables.real_data import real_file

# ── A25-F1 and F2 ─────────────────────────────────────────────────────────────────────────────────


def test_steps_of_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    x, y = draw_records(rng, 50)
    network = Network(rng, 10, 32, 0.1)
    network.block = 16
    first, second = torch.nn.Linear(10, 32), torch.nn.Linear(32, 1)
    with torch.no_grad():
        first.weight[:] = torch.tensor(network.inner[:-1].T.copy())
        first.bias[:] = torch.tensor(network.inner[-1])
        second.weight[:] = torch.tensor(network.outer[None, :-1])
        second.bias[:] = torch.tensor(network.outer[-1:])
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    theirs = torch.optim.Adam(model.parameters(), lr=0.1)
    x1, y1 = with_one(x), y.astype(np.float32)
    xt, yt = torch.tensor(x1[:, :-1]), torch.tensor(y1)
    for _ in range(10):
        loss = ((model(xt).squeeze(1) - yt) ** 2).mean()
        assert np.mean((network.outputs(x1) - y1) ** 2) == pytest.approx(loss.item(), rel=1e-3)
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        network.step(x1, y1)


def test_figure_1_in_a_small_setting():
    seen = []
    small = {"n": 40, "fresh": 400, "width": 256, "iterations": 100}
    findings = figure_1(2, 0, lambda *step: seen.append(step), **small)
    assert [row["iteration"] for row in findings.table] == [0, 25, 50, 75, 100]
    assert len(findings.trials) == 10
    assert seen == [(1, 2), (2, 2)]
    assert findings.table[-1]["train_0.01_mean"] > findings.table[-1]["fresh_0.01_mean"] + 0.3
    assert len(findings.draw().axes) == 2


def test_figure_2_in_a_small_setting(monkeypatch):
    monkeypatch.setattr(iid_figures, "DIMENSIONS", (5, 40, 80))
    findings = figure_2(2, 0, n=30, fresh=500)
    assert [check.holds for check in findings.checks] == [True] * 4
    narrow, *wide = findings.table
    assert narrow["linear_train_1e-06_mean"] < 0.5
    for row in wide:
        assert row["linear_train_1e-06_mean"] == 1.0
        assert row["linear_ceiling_estimate_mean"] < 0.02
    assert len(findings.draw().axes) == 2


def test_checks_on_runs_made_by_hand():
    """Three runs: settled at 20, thrown off at the end, never there."""
    share = np.array([[0, 0, 0], [1, 1, 0], [0.5, 1, 0], [1, 1, 0], [1, 0, 0]], dtype=float)
    quantities = {
        "train_1e-06": share,
        "fresh_1e-06": np.zeros((5, 3)),
        "train_loss": np.where(share == 1, 1e-9, 1.0),
        "ceiling_estimate": 1 - share,
    }
    sweep = Sweep("iteration", (0.0, 10.0, 20.0, 30.0, 40.0), quantities)
    measured = [check.measured for check in training_checks(sweep)]
    #: two of three ever; (1 + 0 + 0)/3 at the end; fresh 0; first at 10; (30 + 40 + 40)/3; 1/3
    assert measured == pytest.approx([2 / 3, 1 / 3, 0.0, 10.0, 110 / 3, 1 / 3])


def test_shares():
    shares = small_losses(np.array([0.0, 1e-7, 1e-5, 1.0]), np.array([1e-7, 0.5, 0.5, 0.5]))
    assert (shares["train_1e-06"], shares["fresh_1e-06"]) == (0.5, 0.25)
    assert shares["ceiling_estimate"] == pytest.approx(0.75)


# ── A25-Tab1: small images that look like nothing, in the file that MNIST comes in ────────────────

TRAIN, TEST, SIDE = 420, 200, 6
SMALL = Setting(sizes=(60, 200), clusters=(4, 12), set_aside=60, width=16, iterations=80, batch=25)
#: One cell with clusters beside the raw one.
QUICK = replace(SMALL, sizes=(60,), clusters=(4,), iterations=20)


def draw() -> dict[str, np.ndarray]:
    """Ten patterns with noise; every image is distinct."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (10, SIDE, SIDE))
    result = {}
    for part, count in (("train", TRAIN), ("test", TEST)):
        labels = rng.permutation(np.arange(count) % 10)
        noise = rng.integers(0, 56, (count, SIDE, SIDE))
        result[f"x_{part}"] = (patterns[labels] + noise).astype(np.uint8)
        result[f"y_{part}"] = labels.astype(np.uint8)
    return result


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "mnist.npz", **draw())
    return tmp_path / "data"


@pytest.fixture
def digits(folder):
    return Digits.read(folder)


def test_packed_file(digits):
    arrays = draw()
    expected = arrays["x_train"].reshape(TRAIN, -1) / 255
    np.testing.assert_allclose(digits.train, expected, rtol=1e-6)
    np.testing.assert_array_equal(digits.test_labels, arrays["y_test"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y_test": None}, "with the arrays"),
        ({"x_train": np.zeros((5, SIDE, SIDE))}, "x_train must be images"),
        ({"x_test": np.zeros((TEST, 3, 3), np.uint8)}, "one size"),
        ({"y_train": np.zeros(TRAIN - 1, np.uint8)}, "y_train must be one label"),
        ({"y_train": np.full(TRAIN, 10, np.uint8)}, "y_train must be one label"),
        ({"y_test": np.full(TEST, 0.5)}, "y_test must be one label"),
        ({"y_test": np.array([object()] * TEST)}, "file of numpy"),
    ],
)
def test_something_else_in_the_packed_file(changed, words, tmp_path):
    arrays = {k: v for k, v in (draw() | changed).items() if v is not None}
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(InputError, match=words) as refused:
        Digits.read(tmp_path)
    assert not isinstance(refused.value, MissingDataError)


def test_network_takes_the_stated_number_of_steps(digits):
    for count in (10, 70):  # less than a batch, and no multiple of it
        rng = np.random.default_rng(0)
        network = train_network(digits.train[:count], digits.train_labels[:count], SMALL, rng)
        assert network._optimizer.t == SMALL.iterations
        assert [w.shape[1] for w in network.coefs_] == [16, 16, 10]
        assert (network.activation, network.alpha, network.loss) == ("relu", 0.0, "log_loss")


def test_best_accuracy_is_the_best_over_all_classifiers():
    rng = np.random.default_rng(5)
    cells, labels = rng.integers(0, 3, 40), rng.integers(0, 10, 40)
    best = max(
        np.mean(np.array(answer)[cells] == labels)
        for answer in itertools.product(range(10), repeat=3)
    )
    assert best_accuracy(cells, labels) == pytest.approx(best)


def test_leaks_agree_with_the_public_functions():
    rng = np.random.default_rng(6)
    cells = rng.choice(7, 900, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])
    p = np.bincount(cells) / 900
    result = leaks(np.bincount(cells, minlength=9), 300, "pairs")
    certified = certify(pd.DataFrame({"cell": cells}), n=300).delta_upper
    assert result["delta_pairs_certified"] == certified
    assert result["delta_pairs_worst_estimate"] == pytest.approx(leak_of_law(p, 300))
    c_k = math.fsum(math.sqrt(q * (1 - q)) for q in p)
    assert result["c_k_pairs_estimate"] == pytest.approx(c_k)
    assert result["delta_pairs_formula_estimate"] == pytest.approx(c_k / (2 * math.sqrt(300)))


def test_atoms_and_training_images(digits, monkeypatch):
    """Counts and training sets behind every cell of the table, made once more by hand."""
    calls = {name: [] for name in ("leaks", "cluster_images", "train_network")}

    def spy(function, recorded):
        def call(*arguments):
            recorded.append((arguments, function(*arguments)))
            return recorded[-1][1]

        return call

    for name, recorded in calls.items():
        monkeypatch.setattr(image_table, name, spy(getattr(image_table, name), recorded))
    image_table.measure_setting(digits, SMALL, np.random.default_rng(0))

    aside = np.concatenate([own for (_, _, own, _), _ in calls["cluster_images"]])
    assert len(set(aside.tolist())) == len(aside) == 120
    rest = np.setdiff1d(np.arange(len(digits.train)), aside)
    counted = [arguments for arguments, _ in calls["leaks"]]
    raw, *columns = counted[:4], counted[4:8], counted[8:]
    # Raw images are all distinct.
    assert all(counts.max() == 1 and counts.sum() == len(rest) for counts, *_ in raw)
    for (_, (_, cells, _)), column in zip(calls["cluster_images"], columns, strict=True):
        pairs = pd.Series(list(zip(cells[rest], digits.train_labels[rest], strict=True)))
        for counts, _, reading in column:
            expected = pd.Series(cells[rest]) if reading == "clusters" else pairs
            assert sorted(counts[counts > 0]) == sorted(expected.value_counts())

    # Training images come from the rest only, and discretised ones are centres.
    trained = [images for (images, *_), _ in calls["train_network"]]
    assert [len(images) for images in trained] == [60, 200] * 3
    sources = [digits.train[rest]] + [centres for _, (centres, *_) in calls["cluster_images"]]
    for images, source in zip(trained, np.repeat(np.arange(3), 2), strict=True):
        assert {i.tobytes() for i in images} <= {i.tobytes() for i in sources[source]}


def test_small_table(digits):
    steps = []
    result = tabulate(digits, SMALL, 2, 0, lambda *step: steps.append(step))
    assert steps == [(1, 2), (2, 2)]
    assert [(r["records"], r["clusters"]) for r in result.table] == list(
        itertools.product(SMALL.sizes, SMALL.columns)
    )
    for row in result.trials:
        assert row["accuracy"] <= row["accuracy_ceiling"]
        for reading in ("clusters", "pairs"):
            worst = row[f"delta_{reading}_worst_estimate"]
            assert worst <= row[f"delta_{reading}_certified"]
            assert worst <= row[f"delta_{reading}_formula_estimate"]
        # Splitting atoms never lowers the worst case.
        assert row["delta_pairs_worst_estimate"] >= row["delta_clusters_worst_estimate"]
        if row["clusters"] == RAW:
            assert row["accuracy"] > 0.9
            assert row["delta_clusters_certified"] == row["delta_pairs_certified"] == 1.0
    means = pd.DataFrame(result.trials).groupby(["records", "clusters"])["accuracy"].mean()
    for row in result.table:
        assert row["accuracy_mean"] == pytest.approx(means[row["records"], row["clusters"]])
    assert result.checks == ()  # the paper prints nothing about these sizes
    assert len(result.draw().axes) == 2


def test_too_few_images(digits):
    with pytest.raises(InputError, match=r"must be at least 13000, got 420\."):
        tabulate(digits, Setting(), 1, 0)


# ── A25-Tab1: claims ──────────────────────────────────────────────────────────────────────────────


def as_printed():
    """A table in which everything is as printed, and the pairs leak no more than the clusters."""
    sweeps = {}
    columns = (RAW, 20, 50, 100)
    for n in (1000, 5000, 10_000):
        leak = [LEAK.get((n, k), 1.0) * 0.99 for k in columns]
        rows = {
            "accuracy": [ACCURACY[n, k] for k in columns],
            "accuracy_ceiling": [1.0] * 4,
            "c_k_clusters_estimate": [250.0, *DIVERSITY.values()],
            "delta_clusters_certified": leak,
            "delta_pairs_certified": leak,
            "delta_pairs_worst_estimate": leak,
        }
        quantities = {name: np.array(row)[:, None].repeat(2, axis=1) for name, row in rows.items()}
        sweeps[n] = Sweep("clusters", tuple(map(float, columns)), quantities)
    return sweeps


def failing(sweeps):
    return {check.claim: check.measured for check in table_checks(sweeps) if not check.holds}


def test_the_printed_table_fails_only_at_contradictions():
    bounds, loss = failing(as_printed()).items()
    # 0.02 is printed for 4.3/(2·100) = 0.0215, 0.03 for 6.74/(2·100) = 0.0337.
    assert bounds[0].startswith("the printed bounds are C_K/(2√n) of the printed C_K")
    assert bounds[1] == pytest.approx(0.0037)
    assert loss[0].startswith("n = 1000, K = 100: discretising costs 2 %")
    assert loss[1] == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("quantity", "n", "k", "value", "claim"),
    [
        ("c_k_clusters_estimate", 1000, 50, 7.2, "K = 50: C_K(P), counted over clusters"),
        ("delta_clusters_certified", 5000, 20, 0.031, "n = 5000, K = 20: Δ ≤ 0.03; certified"),
        ("delta_pairs_certified", 1000, 100, 0.16, "n = 1000, K = 100: Δ ≤ 0.15; certified"),
        ("accuracy", 10_000, 20, 0.9, "n = 10000, K = 20: accuracy on test images, discretised"),
        ("accuracy", 5000, RAW, 0.95, "n = 5000, raw images: accuracy on test images"),
        ("accuracy_ceiling", 1000, 100, 0.98, "K = 100: an accuracy of 0.986 is possible"),
        ("accuracy", 1000, 50, 0.93, "n = 1000, K = 50: discretising costs 2 %"),
        ("accuracy", 5000, 100, 0.96, "n = 5000: accuracy falls with fewer clusters"),
        ("delta_pairs_certified", 5000, 100, 0.02, "n = 5000: the bound on Δ, pairs as atoms"),
    ],
)  # fmt: skip
def test_a_wrong_number_makes_its_claim_fail(quantity, n, k, value, claim):
    sweeps = as_printed()
    sweeps[n].quantities[quantity][sweeps[n].values.index(k)] = value
    new = set(failing(sweeps)) - set(failing(as_printed()))
    assert any(text.startswith(claim) for text in new), new


def test_the_leak_of_pairs_is_held_against_every_printed_bound():
    sweeps = as_printed()
    for sweep in sweeps.values():
        sweep.quantities["delta_pairs_worst_estimate"][:] *= 1.5
    ratios = [m for t, m in failing(sweeps).items() if t.startswith("the printed bounds hold for")]
    assert ratios == pytest.approx([0.99 * 1.5])


# ── A25-Tab1 as a user meets it ───────────────────────────────────────────────────────────────────


@pytest.fixture
def two(monkeypatch, only, undrawn):
    """Two things to redo: one without data, one with."""
    only("L24-F2", "A25-Tab1")
    monkeypatch.setattr(image_table, "Setting", lambda: QUICK)
    monkeypatch.delenv("MEMBERBOUND_DATA", raising=False)


def test_command_with_the_data(two, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMBERBOUND_DATA", str(folder))
    out = tmp_path / "out"
    code, printed, errors = run_command(
        "reproduce", "a25-tab1", "--out", out, "--trials", 1, "--json"
    )
    assert code == 0, errors
    answer = json.loads(printed)
    assert (answer["id"], answer["game"], answer["trials"]) == ("A25-Tab1", "iid", 1)
    shown = pd.read_csv(out / "A25-Tab1.csv").to_dict("records")
    assert shown == answer["table"]
    assert len(shown) == 2
    # The named folder goes before the environment; among several nothing is left out.
    monkeypatch.setenv("MEMBERBOUND_DATA", str(tmp_path / "none"))
    both = reproduce("all", trials=1, data=folder, out=out)
    assert both.left_out == ()
    assert both.parts[1].table == answer["table"]
    assert both.files[-1] == str(out / "summary.md")


def test_alone_without_the_data_is_refused(two, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, errors = run_command("reproduce", "A25-Tab1")
    assert (code, printed) == (2, "")
    assert len(errors.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
    for arguments in ({"id": "A25-Tab1", "data": tmp_path}, {"id": "A25"}):
        with pytest.raises(MissingDataError, match=r"mnist\.npz"):
            reproduce(**arguments)


def test_all_without_the_data_leaves_it_out(two, tmp_path):
    out = tmp_path / "out"
    code, printed, errors = run_command("reproduce", "all", "--out", out, "--trials", 1, "--json")
    assert code == 0, errors
    answer = json.loads(printed)
    (left,) = answer["left_out"]
    assert left["id"] == "A25-Tab1"
    assert "mnist.npz" in left["reason"]
    rows = {row["id"]: row for row in answer["table"]}
    assert rows["L24-F2"]["left_out"] is None
    assert rows["L24-F2"]["checks"] == len(answer["checks"]) > 0
    assert rows["A25-Tab1"]["left_out"] == left["reason"]
    assert not list(out.glob("A25*"))
    assert (out / "L24-F2.csv").exists()
    assert left["reason"] in (out / "summary.md").read_text()


@pytest.mark.parametrize("content", [b"", b"damaged", b"PK\x03\x04 cut off"])
def test_a_wrong_folder_or_file_is_refused_before_any_work(two, content, folder, tmp_path):
    with pytest.raises(InputError, match="data must be a folder"):
        reproduce("all", trials=1, out=tmp_path / "out", data=tmp_path / "none")
    (folder / "mnist.npz").write_bytes(content)
    with pytest.raises(InputError, match="file of numpy"):
        reproduce("all", trials=1, out=tmp_path / "out", data=folder)
    assert not (tmp_path / "out").exists()


def test_mnist_itself():
    """The shape of the data set, and one cell of the table with few iterations."""
    digits = Digits.read(real_file("mnist.npz").parent)
    assert digits.train.shape == (60_000, 784)
    assert digits.test.shape == (10_000, 784)
    setting = Setting(sizes=(1000,), clusters=(20,), width=32, iterations=60)
    raw, clustered = tabulate(digits, setting, 1, 0).trials
    assert 0.6 < raw["accuracy"] < 0.95
    assert clustered["accuracy"] <= clustered["accuracy_ceiling"] < 0.8
    assert clustered["c_k_clusters_estimate"] == pytest.approx(4.3, rel=0.05)
    assert clustered["delta_clusters_certified"] < 0.07 < clustered["delta_pairs_worst_estimate"]
