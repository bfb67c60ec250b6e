"""Reading MNIST: both forms give the same images; anything else is refused with a sentence."""

import gzip

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.reproduction.experiment import MissingDataError
from memberbound.reproduction.mnist import Digits, data_folder
from reproduction.digit_files import SIDE, TEST, TRAIN, drawn, write_original, write_packed


def _same(a: Digits, b: Digits) -> bool:
    names = ("train", "train_labels", "test", "test_labels")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def test_packed_file(tmp_path):
    write_packed(tmp_path)
    digits, given = Digits.read(tmp_path), drawn()
    assert digits.train.shape == (TRAIN, SIDE * SIDE)
    assert digits.test.shape == (TEST, SIDE * SIDE)
    assert digits.train.dtype == np.float32
    np.testing.assert_allclose(
        digits.train.reshape(-1, SIDE, SIDE), given["x_train"] / 255, rtol=1e-6
    )
    np.testing.assert_array_equal(digits.test_labels, given["y_test"])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("below", [".", "MNIST/raw"])
def test_original_files_give_the_same(packed, below, tmp_path):
    write_packed(tmp_path)
    expected = Digits.read(tmp_path)
    other = tmp_path / "other"
    (other / below).mkdir(parents=True)
    write_original(other / below, packed=packed)
    assert _same(Digits.read(other), expected)


def test_missing(tmp_path):
    with pytest.raises(MissingDataError, match="MEMBERBOUND_DATA must name a folder"):
        Digits.read(None)
    with pytest.raises(MissingDataError, match=r"mnist\.npz"):
        Digits.read(tmp_path)
    for path in write_original(tmp_path, packed=True)[1:]:
        path.unlink()
    with pytest.raises(MissingDataError, match="without train-labels-idx1-ubyte"):
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: b"\x01" + c[1:], "IDX file"),
        (lambda c: c[:2] + b"\x0d" + c[3:], "IDX file"),
        (lambda c: c[:6], "IDX file"),
        (lambda c: b"", "IDX file"),
        (lambda c: c[:-1], "values, got"),
    ],
)
def test_damaged_original_file(change, words, tmp_path):
    path = write_original(tmp_path, packed=True)[0]
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    with pytest.raises(InputError, match=words):
        Digits.read(tmp_path)
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="IDX file"):
        Digits.read(tmp_path)


def test_folder(tmp_path, monkeypatch):
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
