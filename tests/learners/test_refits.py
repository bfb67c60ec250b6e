"""The engine of fits: the same results on any worker, and after kills."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info

from commands import python
from faults.squares import Raises, Square, Stays
from memberbound.errors import InputError, MemberboundError
from memberbound.learners.refits import fingerprint, refits

PIECES = [3, 1, 4, 1, 5, 9]
SQUARES = {index: piece * piece for index, piece in enumerate(PIECES)}


def collect(work, workers=2, pieces=PIECES, batches=None):
    steps = []
    how = {"workers": workers, "batches": batches, "progress": lambda *step: steps.append(step)}
    pairs = list(refits(work, pieces, **how))
    assert steps == [(done, len(pieces)) for done in range(len(pieces) + 1)]
    return dict(pairs)


def test_every_piece_returns_once_for_any_number_of_workers(tmp_path):
    for workers in (1, 2, -1, None):
        for batches in (None, 1):
            assert collect(Square(tmp_path), workers, batches=batches) == SQUARES
    assert collect(Square(tmp_path), pieces=[]) == {}


@pytest.mark.parametrize("workers", [1, None])
def test_pieces_have_one_thread_each_in_this_process(workers):
    """Threads that wait for each other spin, which takes long on a busy machine."""
    found = refits(
        lambda _: {pool["num_threads"] for pool in threadpool_info()}, [1], workers=workers
    )
    assert list(found) == [(0, {1})]


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_killed_workers_are_replaced(tmp_path):
    (tmp_path / "some").mkdir()
    assert collect(Square(tmp_path / "some", {4, 9})) == SQUARES
    assert len(list((tmp_path / "some").iterdir())) == 2


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_workers_that_are_always_killed_end_the_work(tmp_path):
    (tmp_path / "all").mkdir()
    with pytest.raises(MemberboundError, match=r"killed 3 times .* of [1-6] fits"):
        collect(Square(tmp_path / "all", {9}, deaths=100))


def test_work_that_cannot_travel_is_done_here(tmp_path):
    with pytest.warns(UserWarning, match="continues alone"):
        assert collect(Stays(tmp_path)) == SQUARES


@pytest.mark.parametrize("workers", [1, 2])
def test_exceptions_of_workers_are_passed_on(tmp_path, workers):
    """Also an OSError, which is how a connection to a cluster breaks."""
    with pytest.raises(OSError, match=r"piece [13459]"):
        collect(Raises(tmp_path), workers)


# ── The key of a run ──────────────────────────────────────────────────────────────────────────────


def test_digests_of_arrays_depend_on_values_shape_type_and_position():
    base = np.arange(6.0).reshape(2, 3)
    others = [
        base.reshape(3, 2),
        base.T,
        base.astype(np.float32),
        base.view(np.int64),
        base[::-1],
        base.astype(object),
        base.tolist(),
    ]
    keys = [fingerprint(base, 1), fingerprint(1, base), *(fingerprint(o, 1) for o in others)]
    keys += [fingerprint(base[:1], base[1:]), fingerprint(base[:0], base)]
    assert len(set(keys)) == len(keys)
    assert fingerprint(base.copy(), 1) == keys[0]


def test_another_process_gives_the_same_name():
    code = (
        "from sklearn.ensemble import BaggingClassifier as B\n"
        "from sklearn.tree import DecisionTreeClassifier as T\n"
        "from memberbound.learners.refits import fingerprint\n"
        "print(fingerprint(B(T(max_depth=3)), ('a', 'b'), 7))"
    )
    here = fingerprint(BaggingClassifier(DecisionTreeClassifier(max_depth=3)), ("a", "b"), 7)
    assert python("-c", code, env={"PYTHONHASHSEED": "5"}).stdout.strip() == here


def test_objects_without_a_digest_are_refused():
    with pytest.raises(InputError, match="picklable"):
        fingerprint(DecisionTreeClassifier(max_depth=lambda: None))
