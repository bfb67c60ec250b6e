"""Threads at once: arrays on disk, settings of the process, and releases of different tables."""

import contextlib
import os
import subprocess
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info

import memberbound
from memberbound import scratch
from memberbound.attacks import attacks, synthetic_tables
from memberbound.files import write_text
from memberbound.scratch import large_array
from memberbound.threads import ONE_AT_A_TIME, no_warnings, one_thread

NUMBERS = np.dtype("f8")


def at_once(*calls):
    """Return what the calls return, each in a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


# ── Arrays that share a file ──────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def meeting(monkeypatch, threads):
    """Let threads that look for a place on disk meet, if they can, before any of them notes it."""
    kept = large_array((8,), NUMBERS, 0)  # the file that all of them find
    barrier = threading.Barrier(threads)

    def slow(pages):
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.5)
        return weakref.ref(pages)

    with monkeypatch.context() as patch:
        patch.setattr(scratch, "weakref", SimpleNamespace(ref=slow, finalize=weakref.finalize))
        yield
    del kept


def two_arrays(monkeypatch):
    with meeting(monkeypatch, 2):
        return at_once(*[lambda: large_array((8,), NUMBERS, 0)] * 2)


def test_no_two_threads_are_handed_the_same_array(monkeypatch):
    assert not np.shares_memory(*two_arrays(monkeypatch))
    # The broken twin.
    monkeypatch.setattr(scratch, "_sharing", contextlib.nullcontext())
    assert np.shares_memory(*two_arrays(monkeypatch))


def array_after_a_child_made_one(share):
    """Return this process's next array, filled, after a forked child has filled its own."""
    kept = large_array((8,), NUMBERS, 0)
    state = scratch._shared
    child = os.fork()
    if child == 0:
        if share:
            scratch._shared = state  # as if nothing were done in a child
        large_array((8,), NUMBERS, 0)[:] = 1.0
        os._exit(0)
    array = large_array((8,), NUMBERS, 0)
    os.waitpid(child, 0)
    del kept
    return array


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_forked_process_fills_its_own_files():
    assert not array_after_a_child_made_one(share=False).any()
    assert array_after_a_child_made_one(share=True).all()  # the broken twin


# ── Settings of the process ───────────────────────────────────────────────────────────────────────


def overlapping(first, second):
    """Enter one block, then another one, and leave them in the order of their beginning."""
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)


def test_warnings_are_shown_again_after_threads_that_ignored_them():
    before = list(warnings.filters)
    overlapping(no_warnings, no_warnings)
    assert warnings.filters == before
    with warnings.catch_warnings():  # the broken twin
        blocks = warnings.catch_warnings(), warnings.catch_warnings()
        blocks[0].__enter__()
        warnings.simplefilter("ignore")
        blocks[1].__enter__()
        blocks[0].__exit__()
        blocks[1].__exit__()
        assert warnings.filters != before


def test_libraries_have_their_threads_again_after_threads_that_held_them_to_one():
    def counts():
        return [library["num_threads"] for library in threadpool_info()]

    before = counts()
    overlapping(one_thread, one_thread)
    assert counts() == before
    with one_thread:
        assert set(counts()) <= {1}


LATE_IMPORT = """
import contextlib, sys
import memberbound.threads
if {broken}:
    memberbound.threads.load_openmp = lambda: None
from memberbound.learners.holdout import quiet_training
assert "sklearn.ensemble" not in sys.modules
with quiet_training():
    import sklearn.ensemble
    from threadpoolctl import threadpool_info
    print(max(found["num_threads"] for found in threadpool_info()))
"""


@pytest.mark.parametrize("broken", [False, True])
def test_a_library_that_training_imports_has_one_thread_too(broken):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    shown = subprocess.run(
        [sys.executable, "-c", LATE_IMPORT.format(broken=broken)],
        env=environment | {"OMP_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(shown.stdout) == (3 if broken else 1)


def test_writing_a_file_leaves_the_umask_alone(tmp_path, monkeypatch):
    """Between reading and resetting it, another thread's files would be open to all."""

    def refuse(_mask):
        raise AssertionError("the umask belongs to all threads")

    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", refuse)
            write_text("a", tmp_path / "a.txt")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_seeding_global_generators_waits_for_other_threads():
    with ONE_AT_A_TIME:
        (free,) = at_once(lambda: ONE_AT_A_TIME.acquire(blocking=False))
    assert not free


# ── Releases of different tables at once ──────────────────────────────────────────────────────────

PUBLIC = {"age": [0, 80], "dose": [0, 1], "old": [False, True]}
VERBS = {
    "protect": {"target": "old", "learner": "boosting", "trial": False},
    "summarize": {"statistic": "covariance", "columns": ["age", "dose"], "unit": "who"},
    "synthesize": {"target": "old"},
}


def table_file(folder, number, verb):
    rng = np.random.default_rng(number)
    age = rng.integers(0, 80, 300 + 50 * number)
    table = pd.DataFrame({"age": age, "dose": rng.random(len(age)), "old": age > 40})
    if verb == "summarize":
        table["who"] = rng.integers(0, 100, len(age))
    path = folder / f"{number}.csv"
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_threads_give_the_release_of_one_thread(tmp_path, verb, monkeypatch):
    """With arrays in files, which all threads share, and different tables."""
    paths = [table_file(tmp_path, number, verb) for number in range(3)]
    ending = {"protect": "json", "summarize": "safetensors", "synthesize": "csv"}[verb]
    bounds = {name: PUBLIC[name] for name in VERBS[verb].get("columns", PUBLIC)}

    def release(number, name):
        out = tmp_path / f"{name}-{number}.{ending}"
        answer = getattr(memberbound, verb)(
            paths[number],
            bounds=bounds,
            eta=0.2,
            memory="1KB",
            insecure_seed=number,
            out=out,
            **VERBS[verb],
        ).to_dict()
        answer.pop("out")
        return answer, out.read_bytes()

    alone = [release(number, "alone") for number in range(3)]
    with meeting(monkeypatch, 3):
        together = at_once(*[lambda k=k: release(k, "together") for k in range(3)])
    assert together == alone


def test_classifiers_of_attacks_are_trained_in_one_thread(monkeypatch):
    seen, fit = [], LogisticRegression.fit

    def watched(self, *rows):
        seen.append({library["num_threads"] for library in threadpool_info()})
        return fit(self, *rows)

    monkeypatch.setattr(LogisticRegression, "fit", watched)
    rng = np.random.default_rng(0)
    member = np.arange(60) % 2 == 0
    attacks._classify(rng.normal(size=(60, 2)), member, rng.normal(size=(5, 2)))
    signals = {name: rng.normal(size=60) for name in "ab"}
    synthetic_tables._combine(signals, member, np.arange(60) < 40)
    assert seen == [{1}, {1}]
