"""Damaged files, made deterministically: case ``i`` of a kind is the same everywhere, always.

Every kind starts from good files.  The first cases of a kind are special (bombs, huge headers,
endless nesting, wrong encodings); the others change the good bytes by rules that a seed draws:
flipped bits, cut ends, spans that are zeroed, repeated, deleted, inserted or set to 0xff.

Run as a program (``python -m faults.damaged KIND:FIRST:LAST …``) it reads the cases in this process
and prints a line before and after each, so that its parent can tell a hang from a crash.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import sqlite3
import sys
import tempfile
import traceback
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from memberbound.errors import MemberboundError
from memberbound.tables.counting import count_profile
from memberbound.tables.opening import open_table
from memberbound.tables.public_rows import read_population
from memberbound.tables.table import Table
from report import sample

ROWS = 40
LONGEST = 600


# ── good files ────────────────────────────────────────────────────────────────────────────────────


def columns() -> dict[str, list[object]]:
    """A small table with text, whole numbers, floats and missing values."""
    rng = np.random.default_rng(18)
    words = ["red", "green", "blue", 'sky, "light"', "größer", None]
    return {
        "colour": [words[i] for i in rng.integers(0, len(words), ROWS)],
        "age": [int(i) for i in rng.integers(18, 60, ROWS)],
        "size": [float(x) for x in rng.normal(size=ROWS).round(2)],
        "y": [int(i) for i in rng.integers(0, 2, ROWS)],
    }


def csv_bytes() -> bytes:
    """The table as CSV."""
    return pd.DataFrame(columns()).to_csv(index=False).encode()


def _stream(path: Path) -> None:
    table = pa.table(columns())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def _sqlite(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        pd.DataFrame(columns()).to_sql("people", connection, index=False)


def _duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.register("given", pa.table(columns()))
        connection.execute("CREATE TABLE people AS SELECT * FROM given")


def cached_fit():
    """The fit in the good cache file."""
    from memberbound.attacks.signals import Signals

    logit = np.random.default_rng(4).normal(size=(1, ROWS))
    return Signals(logit, logit > 0, "probabilities")


def fit_store(folder: Path):
    """The cache in a folder."""
    from memberbound.learners.refits import FitStore

    return FitStore(folder, type(cached_fit()))


@cache
def _released() -> tuple[bytes, dict[str, object]]:
    from memberbound import protect_half
    from memberbound.release.saving import certificate_path, save

    people = pd.DataFrame({"age": range(100), "old": [a > 49 for a in range(100)]})
    model = protect_half(people, target="old", eta=0.3, pairs=20, insecure_seed=1)
    model = model.released
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        save(model, path)
        said = json.loads(certificate_path(path).read_text())
        return path.read_bytes(), said


def _recipe() -> bytes:
    from memberbound.tables.recipe import Bins, Keep, Merge, Recipe

    rules = (("age", Bins((20.0, 40.0))), ("colour", Merge(("red",))), ("y", Keep()))
    return Recipe(rules).to_json().encode()


#: The file of a kind → a function that writes a good one, or its bytes.
GOOD: dict[str, tuple[str, Callable[[Path], object] | bytes]] = {
    "csv": ("people.csv", csv_bytes()),
    "csv.gz": ("people.csv.gz", gzip.compress(csv_bytes(), mtime=0)),
    "csv.zst": ("people.csv.zst", pa.Codec("zstd").compress(csv_bytes(), asbytes=True)),
    "parquet": (
        "people.parquet",
        lambda path: pq.write_table(pa.table(columns()), path, compression="zstd"),
    ),
    "feather": ("people.feather", lambda path: feather.write_feather(pa.table(columns()), path)),
    "arrow stream": ("people.arrows", _stream),
    "npy": ("people.npy", lambda path: np.save(path, np.arange(60.0).reshape(20, 3))),
    "sqlite": ("people.sqlite", _sqlite),
    "duckdb": ("people.duckdb", _duckdb),
    "npz": ("fit-000000.npz", lambda path: fit_store(path.parent).save(0, cached_fit())),
    "skops": ("model.skops", lambda path: path.write_bytes(_released()[0])),
    "bounds": (
        "bounds.yaml",
        b"age: [18, 60]\ncolour: [red, green, blue]\nsize: {low: -3, high: 3}\n",
    ),
    "hierarchy": ("groups.yaml", b"warm:\n  - red\ncold:\n  - green\n  - blue\n"),
    "config": (
        "study.yaml",
        b"target: y\nshadows: 16\neta: 0.1\nlearner: tree\nsource: people.csv\nquick: true\n",
    ),
    "history": ("history.json", b'{"history": [[1.1, 0.01, 100], [0.9, 0.02, 50]]}'),
    "recipe": ("recipe.json", lambda path: path.write_bytes(_recipe())),
    "report": ("report.json", lambda path: path.write_text(json.dumps(sample.sample()))),
}


# ── kinds of damage ───────────────────────────────────────────────────────────────────────────────


def _npy_header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()


def _zip(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def _laughs() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(lines).encode()


#: Texts for any reader of text.
TEXTS: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbfage,y\n1,2\n",
    "größe,y\n1,2\n".encode("latin-1"),
    b"age,y\n1,2\n\xff\xff,3\n",
    b'"age,y\n1,2\n',
    b"a,a\n1,2\n",
    b"a,b\n1\n1,2,3\n",
    b"a\x00b,c\n1,2\n",
    b"," * 500 + b"\n",
    b'"' + b"x" * 300_000 + b'",y\n1,2\n',
    b"a,b\n" + b"y" * 3_000_000 + b",1\n",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"- " * 2_000,
    b"a: &a [*a]\n",
    _laughs(),
    b"a: !!python/object/apply:os.system [ls]\n",
    b"a: 2020-13-45\n",
    b"a: " + b"9" * 6_000 + b"\n",
    b"[1, NaN, Infinity, -Infinity]",
    b'{"a": 1e999, "b": -0.0, "c": "\\ud800"}',
    b'{"sha256": []}',
    b"null",
    b"\t\ta: 1\n",
    b"a: [1, 2\nb: 3\n",
    b"? [1, 2]\n: 3\n",
    b"age: [60, 18]\n",
    b"age: .nan\n",
    b"age: {low: x, high: []}\n",
)

#: kind → its special cases, created on demand, because bombs take seconds.
SPECIAL: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "csv": lambda: TEXTS,
    "csv.gz": lambda: (
        b"\x1f\x8b",
        gzip.compress(b""),
        gzip.compress(b"a,b\n" + b"1,2\n" * 3_000_000),
        gzip.compress(b"x" * 60_000_000),
        gzip.compress(gzip.compress(b"a,b\n1,2\n")),
        gzip.compress(b"a,b\n1,2\n")[:-4] + b"\0\0\0\0",
        gzip.compress(b"a,b\n1,2\n") + b"trailing rubbish",
        *(gzip.compress(text, mtime=0) for text in TEXTS[:12]),
    ),
    "csv.zst": lambda: (b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"\xff" * 40),
    "parquet": lambda: (
        b"PAR1",
        b"PAR1PAR1",
        b"PAR1" + b"\xff" * 8 + b"PAR1",
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        b"PAR1" + b"\x15\x02\x19" * 100 + (300).to_bytes(4, "little") + b"PAR1",
    ),
    "feather": lambda: (b"ARROW1", b"ARROW1\0\0" + b"\xff" * 64 + b"ARROW1", b"FEA1" + b"\0" * 32),
    "arrow stream": lambda: (b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff" + b"\0" * 60),
    "npy": lambda: (
        _npy_header("(1000000000000,)"),
        _npy_header("(10, 1000000000000000000000)"),
        _npy_header("(-1, 3)"),
        _npy_header("()") + b"\0" * 8,
        _npy_header("(0, 3)"),
        _npy_header("(2,)", "|O") + pickle.dumps([1, 2]),
        _npy_header("(2,)", "<c16") + b"\0" * 32,
        _npy_header("(2,)", "<U1000000000") + b"\0" * 32,
        _npy_header("[2, 3]") + b"\0" * 48,
        b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 64,
        b"\x93NUMPY\x01\x00\x10\x00" + b"__import__('os')",
    ),
    "sqlite": lambda: (b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 100, b"\0" * 4096),
    "duckdb": lambda: (b"DUCK", b"\0" * 8 + b"DUCK" + b"\xff" * 5000, b""),
    "npz": lambda: (
        b"PK\x03\x04",
        b"PK\x05\x06" + b"\0" * 18,
        _zip("member.npy", b"\x93NUMPY"),
        _zip("logit.npy", _npy_header("(1000000000000,)")),
        _zip("member.npy", _npy_header("(40,)", "|b1") + b"\0" * 60_000_000),
    ),
    "skops": lambda: (
        b"PK\x05\x06" + b"\0" * 18,
        _zip("schema.json", b"{}"),
        _zip("schema.json", b"[" * 100_000),
        _zip("schema.json", b'{"__class__": "system", "__module__": "os"}'),
        _zip("schema.json", b" " * 20_000_000),
        pickle.dumps({"a": 1}),
    ),
    # YAML is read slowly; longer texts would test nothing else.
    **dict.fromkeys(
        ("bounds", "hierarchy", "config"), lambda: tuple(text[:20_000] for text in TEXTS)
    ),
    **dict.fromkeys(("history", "recipe", "report"), lambda: TEXTS),
}


def change(good: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with one kind of damage."""
    size = len(good)
    start = int(rng.integers(size))
    stop = min(size, start + int(rng.integers(1, 1 + max(1, min(size // 2, 4096)))))
    # Headers and footers decide more than the middle does: half of the damage goes there.
    if rng.random() < 0.5:
        near = min(size - 1, int(rng.integers(64)))
        start = near if rng.random() < 0.5 else size - 1 - near
        stop = min(size, start + int(rng.integers(1, 16)))
    span = good[start:stop]
    how = int(rng.integers(9))
    if how <= 2:
        flipped = bytearray(good)
        for index in [start, *rng.integers(0, size, how).tolist()]:
            flipped[index] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    if how == 3:
        return good[:start]
    middle = {
        4: bytes(len(span)),
        5: span + span,
        6: b"",
        7: rng.bytes(len(span)),
        8: b"\xff" * len(span),
    }[how]
    return good[:start] + middle + good[stop:]


@cache
def special(kind: str) -> tuple[bytes, ...]:
    """Return the first cases of a kind."""
    return SPECIAL[kind]() if kind in SPECIAL else ()


@cache
def _good(kind: str) -> bytes:
    name, made = GOOD[kind]
    if isinstance(made, bytes):
        return made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        made(path)
        return path.read_bytes()


def case(kind: str, index: int) -> bytes:
    """Return the bytes of case ``index`` of a kind."""
    if index < len(special(kind)):
        return special(kind)[index]
    return change(_good(kind), np.random.default_rng([index, zlib.crc32(kind.encode())]))


# ── readers ───────────────────────────────────────────────────────────────────────────────────────


def _table(path: Path, index: int) -> object:
    if index % 8 == 3:
        return read_population(path, target="y" if index % 16 == 3 else None)
    if index % 8 == 2 or path.suffix in (".duckdb", ".db"):
        return count_profile(path)
    # One engine for most: to open an engine takes longer than to read a small file.
    return count_profile(open_table(path, beside=_engine(index)))


@cache
def _shared() -> Table:
    return open_table(pa.table({"x": [1]}))


def _engine(index: int) -> Table:
    """The engine that cases share; a case that has ended it would have all others refused."""
    if index % 16 == 15:
        try:
            count_profile(_shared())
        except MemberboundError as error:
            raise AssertionError("a damaged file has ended the engine") from error
    return _shared()


def _fit(path: Path, index: int) -> object:
    signals = cached_fit()
    stored = fit_store(path.parent).load(range(3))
    assert set(stored) <= {0}
    found = stored.get(0)
    # An accepted file yields the stored value, not another one that can be parsed.
    if found is not None and not (
        np.array_equal(found.logit, signals.logit)
        and np.array_equal(found.correct, signals.correct)
    ):
        raise AssertionError("a damaged fit was taken for a good one")
    return found


def _model(path: Path, index: int) -> object:
    import hashlib

    from memberbound.release.saving import certificate_path, load

    said = dict(_released()[1])
    if index % 3:  # an attacker who changes a file can change its certificate
        said["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    certificate_path(path).write_text(json.dumps(said))
    return load(path)


def _recipe_of(path: Path) -> object:
    from memberbound.tables.recipe import Recipe

    return Recipe.from_json(path.read_text(encoding="utf-8", errors="replace"))


#: Kind of document → its reader.
_READERS = {
    "bounds": "memberbound.release.all_rows.bounds:read_bounds",
    "config": "memberbound.verbs.study.question:read_configuration",
    "hierarchy": "memberbound.tables.ladders:read_hierarchy",
    "history": "memberbound.dp:dp_sgd_from_history",
    "recipe": "faults.damaged:_recipe_of",
    "report": "memberbound.report.model:read",
}


def _read(kind: str, path: Path, index: int) -> object:
    if kind in _READERS:
        return resolve_name(_READERS[kind])(path)
    return {"npz": _fit, "skops": _model}.get(kind, _table)(path, index)


def outcome(kind: str, index: int, folder: Path) -> str | None:
    """Read one case; return None if it ends correctly, else the failure."""
    path = folder / GOOD[kind][0]
    path.write_bytes(case(kind, index))
    try:
        _read(kind, path, index)
    except MemberboundError as refusal:
        told = str(refusal)
        if not told.strip() or len(told) > LONGEST or "\n" in told or "Traceback" in told:
            return f"not one sentence: {told[:200]!r}"
    except Exception:
        return traceback.format_exc(limit=-6)
    return None


def main() -> None:
    """Read the cases that are named, a line before and after each."""
    import resource
    import warnings

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (6 * 2**30, 6 * 2**30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for wanted in sys.argv[1:]:
        kind, first, last = wanted.rsplit(":", 2)
        for index in range(int(first), int(last)):
            print(json.dumps(["begin", kind, index]), flush=True)
            with tempfile.TemporaryDirectory() as folder:
                found = outcome(kind, index, Path(folder))
            print(json.dumps(["end", kind, index, found]), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Threads of engines must not hold up the end.
    __import__("os")._exit(0)
