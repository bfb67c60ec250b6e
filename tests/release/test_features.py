"""Public feature maps: refused unless they treat every row by itself, and stored as a name."""

import json
import math

import numpy as np
import pytest
from tests.oracle.replay import published_part, replayed, spent

from memberbound import InputError, predict, protect, verify
from memberbound.features import orientation_histograms, unit_vectors
from memberbound.release.all_rows.feature_maps import feature_map, try_map
from memberbound.release.saving import load
from memberbound.tables.records import read_records

HISTOGRAMS = "memberbound.features:orientation_histograms"
SIDE, ROWS = 8, 300
INPUTS = [f"x{k}" for k in range(SIDE * SIDE)]
TARGET = f"x{SIDE * SIDE}"
PUBLIC = {TARGET: {"categories": [0, 1]}}


def stripes(rows=ROWS, seed=0):
    """Images of stripes across (0) or upright (1), with the class in the last column."""
    draws = np.random.default_rng(seed)
    classes = draws.integers(0, 2, rows)
    wave = 100 * (1 + np.sin(np.arange(SIDE) + draws.uniform(0, 6, rows)[:, None]))
    images = np.where(classes[:, None, None] == 1, wave[:, None, :], wave[:, :, None])
    images = np.broadcast_to(images, (rows, SIDE, SIDE)) + draws.normal(0, 5, (rows, SIDE, SIDE))
    return np.column_stack([images.reshape(rows, -1), classes])


def halves(rows):
    return np.clip(rows[:, :3] / 400, -1, 1)


# ── Maps that are refused ─────────────────────────────────────────────────────────────────────────


def standardise(rows):
    return (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1) / 10


def sum_rows(rows):
    return np.tanh(np.cumsum(rows[:, :2], axis=0) / 1e4)


def shift_rows(rows):
    return np.tanh(np.roll(rows[:, :2], 1, axis=0))


def random(rows):
    return np.random.default_rng().random((len(rows), 2))


def number_rows(rows):
    return np.tanh(rows[:, :2] + np.arange(len(rows))[:, None] / 100)


class Remembers:
    """Subtracts the previous rows."""

    def __init__(self):
        self.last = 0.0

    def __call__(self, rows):
        found, self.last = np.tanh(rows[:, :2] - self.last), rows[-1, 0]
        return found


def rank(rows):
    return rows[:, :2].argsort(axis=0) / len(rows)


@pytest.mark.parametrize(
    "mixing", [standardise, sum_rows, shift_rows, random, number_rows, Remembers(), rank]
)
def test_maps_that_mix_or_remember_rows_are_refused(mixing):
    with pytest.raises(InputError, match="every row by itself"):
        try_map(mixing, 6)
    with pytest.raises(InputError, match="every row by itself"):
        protect(stripes(), target=TARGET, bounds=PUBLIC, features=mixing)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda rows: rows[:1], "as many rows"),
        (lambda rows: rows.sum(), "as many rows"),
        (lambda rows: rows[:, :0], "1 to 4096"),
        (lambda rows: rows / "x", "as many rows"),
        ("nowhere:at_all", "features 'nowhere:at_all' cannot be imported"),
        ("halves", "package.module:function"),
        ("math:pi", "must be a function"),
    ],
)
def test_anything_but_a_map_of_rows_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        feature_map(wrong, ["a", "b"])
    with pytest.raises(InputError, match="a column besides the target"):
        feature_map(halves, [])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bounds": PUBLIC | {"x1": [0, 1]}}, "bounds must be of the target only"),
        ({"out": "model.onnx"}, "onnx"),
        ({"scheduler": "tcp://nowhere:1"}, "scheduler"),
    ],
)
def test_what_does_not_go_with_features_is_refused(asked, words):
    with pytest.raises(InputError, match=words):
        protect(stripes(), **({"target": TARGET, "bounds": PUBLIC, "features": halves} | asked))


# ── The release ───────────────────────────────────────────────────────────────────────────────────


def test_a_saved_model_names_its_map_and_predicts_with_it(tmp_path):
    path = tmp_path / "model.json"
    answer = protect(
        stripes(),
        target=TARGET,
        bounds=PUBLIC,
        features=HISTOGRAMS,
        eta=0.2,
        insecure_seed=1,
        out=path,
        trial=False,
    )
    fresh = stripes(100, seed=1)
    answers = predict(path, fresh[:, :-1]).values
    assert (answers == fresh[:, -1].astype(int).astype(str)).mean() > 0.95
    assert answers.tolist() == answer.released.predict(fresh[:, :-1]).tolist()
    assert answer.released.columns == tuple(INPUTS)

    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["features"] == {"name": HISTOGRAMS, "inputs": INPUTS}
    certificate = json.loads((tmp_path / "model.json.certificate.json").read_text("utf-8"))
    assert any(HISTOGRAMS in fact for fact in certificate["derivation"]["public"])
    assert any(HISTOGRAMS in text for text in certificate["certificate"]["assumptions"])
    assert verify(path).holds


def test_code_of_others_runs_only_if_it_is_named_again(tmp_path, monkeypatch):
    (tmp_path / "own_maps.py").write_text(
        "def halves(rows):\n    return rows[:, :3] / 400\n\n\nthirds = halves\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path, asked = tmp_path / "model.json", {"target": TARGET, "bounds": PUBLIC, "eta": 0.2}
    protect(stripes(), features="own_maps:halves", out=path, insecure_seed=1, trial=False, **asked)
    with pytest.raises(InputError, match="--features own_maps:halves"):
        load(path)
    with pytest.raises(InputError, match="as in training"):
        load(path, features="own_maps:thirds")
    with pytest.raises(InputError, match="every row by itself"):
        load(path, features=standardise)
    rows = stripes(20, seed=1)[:, :-1]
    assert len(predict(path, rows, features="own_maps:halves").values) == 20

    protect(stripes(), out=path, force=True, insecure_seed=1, trial=False, **asked)
    with pytest.raises(InputError, match="trained without"):
        load(path, features="own_maps:halves")


def refuses_odd_rows(rows):
    if (rows[:, 0] == 12345.0).any():
        raise ValueError("an odd row")
    return halves(rows)


def test_a_row_on_which_the_map_fails_changes_no_other_row():
    table = stripes()
    taken = feature_map(refuses_odd_rows, INPUTS)
    records = feature_map(halves, INPUTS)
    odd = table.copy()
    odd[11, 0] = 12345.0
    plain = records.apply(read_records(table)).columns
    found = taken.apply(read_records(odd)).columns
    for name in plain:
        expected = plain[name].numbers.copy()
        if name.startswith("feature"):
            expected[11] = math.nan
        np.testing.assert_array_equal(found[name].numbers, expected)


def leaks_if_large(rows):
    """Mix rows, but only where a number is larger than any of the trial."""
    return halves(rows) * (0.1 if (rows[:, 0] > 1e8).any() else 1.0)


@pytest.mark.parametrize(
    ("learner", "features"),
    [
        ("logistic", HISTOGRAMS),
        ("logistic", refuses_odd_rows),
        ("boosting", refuses_odd_rows),
        ("boosting", leaks_if_large),
    ],
)
def test_replay_pays_for_one_record(monkeypatch, learner, features):
    table = stripes(200)
    far, odd = table.copy(), table.copy()
    far[11] = [*[math.nan] * 8, *[1e9] * 8, *[-1e9] * 47, math.inf, 1 - table[11, -1]]
    odd[11, 0] = 12345.0
    if features is leaks_if_large:
        odd[11, 0] = 1e9
    asked = {"target": TARGET, "bounds": PUBLIC, "features": features, "learner": learner}

    def made(rows):
        answer = protect(rows, eta=0.2, insecure_seed=1, trial=False, **asked)
        return published_part(answer), answer.released.budget.mu

    (seen, mu), first = replayed(monkeypatch, lambda: made(table))
    for neighbour in (far, odd):
        (other, _), second = replayed(monkeypatch, lambda rows=neighbour: made(rows))
        assert other == seen
        distance = spent(first, second)
        if features is leaks_if_large and neighbour is odd:
            assert distance > mu**2  # an assumption, because the trial cannot detect it
        elif features is not leaks_if_large:
            assert 0 < distance <= mu**2 * (1 + 1e-9)


# ── Orientation histograms ────────────────────────────────────────────────────────────────────────


def naive_histograms(image):
    """Return orientation histograms of one image, by loops over pixels."""
    side = len(image)
    cells = np.zeros((7, 7, 8))
    for y in range(side):
        for x in range(side):
            up, down = max(y - 1, 0), min(y + 1, side - 1)
            left, right = max(x - 1, 0), min(x + 1, side - 1)
            dy = (image[down, x] - image[up, x]) / (down - up)
            dx = (image[y, right] - image[y, left]) / (right - left)
            turn = math.atan2(dy, dx) * 8 / (2 * math.pi) % 8
            for cy in range(7):
                for cx in range(7):
                    far = [abs(p - ((c + 0.5) * side / 7 - 0.5)) for p, c in ((y, cy), (x, cx))]
                    near = math.prod(max(0.0, 1 - 7 * f / side) for f in far)
                    for step, part in ((0, 1 - turn % 1), (1, turn % 1)):
                        cells[cy, cx, (int(turn) + step) % 8] += near * part * math.hypot(dx, dy)
    energy = (cells**2).sum(axis=2)
    around = np.array(
        [
            [energy[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].sum() for x in range(7)]
            for y in range(7)
        ]
    )
    around += 0.1 * around.mean()
    return np.minimum(cells / np.sqrt(around)[..., None] / 0.35, 1.0)


def test_orientation_histograms_equal_loops_over_pixels():
    images = np.random.default_rng(0).integers(0, 256, (3, 9, 9)).astype(float)
    found = orientation_histograms(images.reshape(3, -1))
    expected = [naive_histograms(image).ravel() for image in images]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_orientation_histograms_of_odd_images():
    flat = orientation_histograms(np.array([[0.0] * 64, [255.0] * 64, [math.nan] * 64]))
    assert (flat == 0).all()
    with pytest.raises(InputError, match="square images"):
        orientation_histograms(np.zeros((2, 63)))


def test_unit_vectors_have_the_length_of_rows_of_halves():
    rows = np.random.default_rng(0).normal(size=(4, 16)) * [[1e-6], [1.0], [1e6], [0.0]]
    found = unit_vectors(rows)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [2.0, 2.0, 2.0, 0.0])
    np.testing.assert_allclose(
        found[:3] / 2.0, rows[:3] / np.linalg.norm(rows[:3], axis=1)[:, None]
    )
    assert try_map(unit_vectors, 16) == 16
