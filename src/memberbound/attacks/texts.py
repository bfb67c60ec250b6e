"""Documents and what a language model says about them: reading, blind test, scores (X28).

Published evaluations of language models often compare members from one time or source with
non-members of another, and measure that difference.  So a classifier that sees the texts but not
the model always runs beside the attacks.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.checks import LawTest, law_test
from memberbound.attacks.scores import membership
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.files import check_input
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.engine import identifier, streamed
from memberbound.tables.table import Table, opened_table

_LINES = (".jsonl", ".ndjson", ".txt")
#: Words and pairs of words that the blind classifier counts at most.
_FEATURES = 20_000


@dataclass(frozen=True)
class Documents:
    """Texts by the names of their records, and the other columns they came with."""

    texts: dict[str, str]
    columns: dict[str, tuple[object, ...]]

    def column(self, name: str) -> dict[str, object]:
        """Return the values of a column by the names of the records."""
        return dict(zip(self.texts, self.columns[name], strict=True))

    def coins(self) -> dict[str, bool]:
        """Return which canaries are members."""
        if "member" not in self.columns:
            raise InputError("canaries must have the column 'member', the coin of each: 1 or 0.")
        return dict(zip(self.texts, membership(self.columns["member"]).tolist(), strict=True))

    def named(self, name: str) -> Documents:
        """Return the documents by their column ``record``."""
        if "record" not in self.columns:
            raise InputError(f"{name} must have the column 'record', which names the document.")
        records = [str(record) for record in self.columns["record"]]
        if len(set(records)) < len(records):
            raise InputError(f"{name} must have one row per record, got a record twice.")
        return Documents(dict(zip(records, self.texts.values(), strict=True)), self.columns)

    def followed_by(self, other: Documents) -> Documents:
        """Return these and other documents, with the columns that both have."""
        texts = [*self.texts.values(), *other.texts.values()]
        shared = self.columns.keys() & other.columns.keys()
        return Documents(
            {str(place): text for place, text in enumerate(texts)},
            {name: self.columns[name] + other.columns[name] for name in sorted(shared)},
        )


def read_documents(source: object, column: str, name: str) -> Documents:
    """Read documents: JSON Lines, plain text (a document a line), or a table with a text column.

    Edge cases: a missing column, an empty document and a line that is no JSON object are refused.
    """
    suffix = Path(source).suffix.lower() if isinstance(source, (str, os.PathLike)) else ""
    if suffix in _LINES and isinstance(source, (str, os.PathLike)):
        rows = _lines(Path(source), column, name)
    else:
        with opened_table(source) as table:
            if column not in table.columns:
                raise InputError(
                    f"{name} must have the column {column!r}, got {', '.join(table.columns)}."
                )
            rows = table.frame.to_dict("records")
    texts = tuple(row.get(column) for row in rows)
    for place, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} must have a text in every row, got none in row {place + 1}.")
    if not texts:
        raise InputError(f"{name} must have documents, got none.")
    others = {key for row in rows for key in row if key != column}
    return Documents(
        {str(place): str(text) for place, text in enumerate(texts)},
        {str(key): tuple(row.get(key) for row in rows) for key in sorted(others, key=str)},
    )


def _lines(path: Path, column: str, name: str) -> list[dict[str, Any]]:
    check_input(path, name)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{name} must be UTF-8, got {path.name!r}.") from None
    if path.suffix.lower() == ".txt":
        return [{column: line} for line in lines if line.strip()]
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{name} must have a JSON object a line, got none in line {number}.")
        if column not in row:
            raise InputError(f"{name} must have the key {column!r}, got none in line {number}.")
        rows.append(row)
    return rows


def blind_test(
    texts: Sequence[str], member: BoolArray, *, confidence: float = 0.95, seed: int = 0
) -> LawTest:
    """Test whether members and non-members differ in words, lengths, digits or years.

    Guarantee: if the documents are exchangeable, P(p_value ≤ α) ≤ α.
    Theorem: proofs/given-models.md claim 3.

    Examples:
        >>> old = [f"in 20{k % 10 + 10} we saw {k} birds" for k in range(60)]
        >>> new = [f"in 202{k % 5} we saw {k} birds today" for k in range(60)]
        >>> blind_test(old + new, np.arange(120) < 60).differs
        True
    """
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    # No label is used: exchangeable documents stay exchangeable.
    words = TfidfVectorizer(ngram_range=(1, 2), max_features=_FEATURES, sublinear_tf=True)
    try:
        counted = words.fit_transform(texts)
    except ValueError:  # no words at all
        counted = csr_matrix((len(texts), 0))
    shape = np.array([_shape(text) for text in texts])
    spread = shape.std(axis=0)
    shape = (shape - shape.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    content = np.frombuffer(
        b"".join(sha256(text.encode("utf-8", "replace")).digest()[:8] for text in texts),
        dtype=np.uint64,
    )
    features = hstack([counted, csr_matrix(shape)]).tocsr()
    return law_test(
        features, member, _word_scores, content=content, confidence=confidence, seed=seed
    )


def _shape(text: str) -> tuple[float, ...]:
    digits = sum(character.isdigit() for character in text)
    upper = sum(character.isupper() for character in text)
    words = text.split()
    return (
        np.log1p(len(text)),
        np.log1p(len(words)),
        len(text) / max(1, len(words)),
        digits / len(text),
        upper / len(text),
    )


def _word_scores(rows: Any, member: BoolArray, others: Any, rng: np.random.Generator) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    del rng
    with one_thread():
        blind = LogisticRegression(max_iter=300, class_weight="balanced").fit(rows, member)
    return np.asarray(blind.decision_function(others), dtype=np.float64)


# ── Scores of documents from the log-probabilities of their tokens, for language models (X28) ─────
#
# A record is a document, however many tokens it has.  Every score is oriented: higher means
# "member".
#
# ===========  ====================================================================================
# score        what it is
# ===========  ====================================================================================
# loss         mean log-probability of the tokens
# zlib         log-probability of the document over the length of its compressed text (Carlini 2021)
# min-k        mean over the fifth of the tokens with the lowest log-probabilities (Shi 2024)
# min-k++      the same of log-probabilities standardised by the model's own mean and spread at each
#              position (Zhang 2025)
# ratio        mean log-probability minus that of a reference model, best the base model
# error-zone   gain over the reference against loss, at tokens that the model does not rank first
#              (Ilić 2026)
# window       share of windows of 2 to 40 tokens that gain over the reference (Chen 2026)
# ===========  ====================================================================================

REQUIRED = ("record", "member", "position", "logprob")
OPTIONAL = ("reference_logprob", "mean_logprob", "std_logprob", "rank")
#: What a score needs besides the required columns.
NEEDS: dict[str, tuple[str, ...]] = {
    "loss": (),
    "zlib": ("texts",),
    "min-k": (),
    "min-k++": ("mean_logprob", "std_logprob"),
    "ratio": ("reference_logprob",),
    "error-zone": ("reference_logprob", "rank"),
    "window": ("reference_logprob",),
}
#: The share of tokens of min-k and min-k++, as their papers have it.
_LOWEST = 0.2
#: Sizes of windows, about geometric.
_WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
#: Tokens of a block that is scored at a time.
_BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class TokenScores:
    """One line per document: its name, whether it is a member, its number of tokens, its scores."""

    records: NDArray[np.object_]
    member: BoolArray
    tokens: NDArray[np.int64]
    scores: dict[str, FloatArray]
    #: Why a score could not be computed, by its name.
    missing: dict[str, str]


@dataclass(frozen=True, eq=False)
class _Block:
    """Whole documents, their tokens in order; ``starts`` are the places of their first tokens."""

    records: NDArray[np.object_]
    member: BoolArray
    starts: NDArray[np.int64]
    columns: Mapping[str, FloatArray]

    @property
    def lengths(self) -> NDArray[np.int64]:
        ends = np.append(self.starts[1:], len(self.columns["logprob"]))
        return np.asarray(ends - self.starts, dtype=np.int64)

    def document_means(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(values, self.starts) / self.lengths)

    def lowest_means(self, values: FloatArray) -> FloatArray:
        """Return the mean of the lowest fifth of every document's values."""
        document = np.repeat(np.arange(len(self.starts)), self.lengths)
        order = np.lexsort((values, document))
        count = np.maximum(1, (_LOWEST * self.lengths).astype(np.int64))
        place = np.arange(len(values)) - np.repeat(self.starts, self.lengths)
        lowest = np.where(place < np.repeat(count, self.lengths), values[order], 0.0)
        return np.asarray(np.add.reduceat(lowest, self.starts) / count)

    def window_votes(self, gains: FloatArray) -> FloatArray:
        """Return the share of windows with a gain, a mean over the sizes that fit."""
        document = np.repeat(np.arange(len(self.starts)), self.lengths)
        total = np.concatenate([[0.0], np.cumsum(gains)])
        votes, sizes = np.zeros(len(self.starts)), np.zeros(len(self.starts))
        for size in (1, *_WINDOWS):
            fits = self.lengths >= size
            if size == 1:  # documents of one token have no window but this
                fits = self.lengths == 1
            if not fits.any():
                continue
            sums = total[size:] - total[:-size]
            inside = document[: len(sums)] == document[size - 1 :]
            owner = document[: len(sums)][inside]
            won = np.bincount(owner, weights=(sums[inside] > 0).astype(float), minlength=len(votes))
            votes[fits] += won[fits] / (self.lengths[fits] - size + 1)
            sizes += fits
        return votes / np.maximum(sizes, 1)

    def error_zone(self, gains: FloatArray) -> FloatArray:
        """Return the logarithm of gains over losses where the model is wrong about the token."""
        wrong = self.columns["rank"] > 1
        up = np.add.reduceat(np.where(wrong, np.maximum(gains, 0.0), 0.0), self.starts)
        down = np.add.reduceat(np.where(wrong, np.maximum(-gains, 0.0), 0.0), self.starts)
        room = 1e-6  # no wrong token: neither gain nor loss
        return np.asarray(np.log(up + room) - np.log(down + room))

    def scores(
        self, names: tuple[str, ...], compressed: Mapping[str, int]
    ) -> dict[str, FloatArray]:
        """Return the scores of the documents by name."""
        values = self.columns
        logprob = values["logprob"]
        gains = logprob - values["reference_logprob"] if "reference_logprob" in values else logprob
        makers: dict[str, Callable[[], FloatArray]] = {
            "loss": lambda: self.document_means(logprob),
            "zlib": lambda: (
                np.add.reduceat(logprob, self.starts)
                / np.array([compressed[record] for record in self.records])
            ),
            "min-k": lambda: self.lowest_means(logprob),
            "min-k++": lambda: self.lowest_means(
                (logprob - values["mean_logprob"]) / np.maximum(values["std_logprob"], 1e-12)
            ),
            "ratio": lambda: self.document_means(gains),
            "error-zone": lambda: self.error_zone(gains),
            "window": lambda: self.window_votes(gains),
        }
        return {name: np.asarray(makers[name]()) for name in names}


def score_tokens(table: Table, texts: Mapping[str, str] | None = None) -> TokenScores:
    """Score the documents of a token table, block by block.

    ``texts`` are the documents' texts by record.

    Edge cases: one sentence refuses a missing column, values that are no numbers, log-probabilities
    above 0, positions that repeat, a record that is member and non-member, one kind of records only
    and texts that do not match.  A score whose columns are absent, or empty for some tokens, is
    left out with the reason.

    Examples:
        >>> import pandas
        >>> from memberbound.tables.table import open_table
        >>> tokens = {"record": ["a", "a", "b"], "member": [1, 1, 0], "position": [0, 1, 0]}
        >>> frame = pandas.DataFrame(tokens | {"logprob": [-1.0, -3.0, -4.0]})
        >>> with open_table(frame) as table:
        ...     found = score_tokens(table)
        >>> found.scores["loss"].tolist(), found.scores["min-k"].tolist()
        ([-2.0, -4.0], [-3.0, -4.0])
        >>> found.missing["ratio"]
        'needs reference_logprob'
    """
    for column in REQUIRED:
        if column not in table.columns:
            raise InputError(
                f"{table.name} must have the columns {', '.join(REQUIRED)}, got no {column!r}."
            )
    present = [column for column in OPTIONAL if column in table.columns]
    empty = _columns_with_gaps(table, present)
    usable = [column for column in present if column not in empty]
    missing: dict[str, str] = {}
    for name, needs in NEEDS.items():
        absent = [n for n in needs if n not in usable and not (n == "texts" and texts is not None)]
        if absent:
            gaps = [n for n in absent if n in empty]
            missing[name] = (
                f"{gaps[0]} is missing for some tokens" if gaps else f"needs {' and '.join(absent)}"
            )
    names = tuple(name for name in NEEDS if name not in missing)
    compressed = _compressed_lengths(texts) if "zlib" in names and texts is not None else {}
    parts: list[tuple[_Block, dict[str, FloatArray]]] = []
    for block in _blocks(table, usable):
        if texts is not None:
            unknown = next((r for r in block.records if r not in texts), None)
            if unknown is not None:
                raise InputError(f"texts must hold every record, got none of {unknown!r}.")
        parts.append((block, block.scores(names, compressed)))
    if not parts:
        raise InputError(f"{table.name} must have rows, got none.")
    scores = {name: np.concatenate([s[name] for _, s in parts]) for name in names}
    member = np.concatenate([block.member for block, _ in parts])
    for kind, there in (("members", member.any()), ("non-members", not member.all())):
        if not there:
            raise InputError(f"{table.name} must have members and non-members, got no {kind}.")
    return TokenScores(
        np.concatenate([block.records for block, _ in parts]),
        member,
        np.concatenate([block.lengths for block, _ in parts]),
        scores,
        missing,
    )


def _columns_with_gaps(table: Table, columns: list[str]) -> set[str]:
    """Return the columns that are empty in some rows."""
    if not columns:
        return set()
    counts = ", ".join(
        f"count(*) FILTER (WHERE {identifier(c)} IS NULL OR CAST({identifier(c)} AS VARCHAR) = '')"
        for c in columns
    )
    query = f"SELECT {counts} FROM ({table.query})"
    (row,) = table.run(lambda: table.engine.sql(query).fetchall())
    return {column for column, count in zip(columns, row, strict=True) if count}


def _compressed_lengths(texts: Mapping[str, str]) -> dict[str, int]:
    return {record: len(zlib.compress(text.encode())) for record, text in texts.items()}


def _blocks(table: Table, optional: list[str]) -> Iterator[_Block]:
    """Yield whole documents in order of their records, checked."""
    numbers = ["position", "logprob", *optional]
    selected = ", ".join(
        [
            "CAST(record AS VARCHAR) AS record",
            "lower(trim(CAST(member AS VARCHAR))) AS member",
            *(f"TRY_CAST({identifier(name)} AS DOUBLE) AS {name}" for name in numbers),
        ]
    )
    query = f"SELECT {selected} FROM ({table.query}) ORDER BY record, position"
    stream = table.run(lambda: streamed(table.engine.connection, query, _BLOCK))
    rest: dict[str, NDArray[np.generic]] | None = None
    for batch in stream:
        values = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in ("record", "member", *numbers)
        }
        if rest is not None:
            values = {name: np.concatenate([rest[name], values[name]]) for name in values}
        records = values["record"]
        # The last document may go on in the next batch.
        changes = np.flatnonzero(records[1:] != records[:-1])
        cut = int(changes[-1]) + 1 if len(changes) else 0
        if cut:
            yield _checked_block({name: value[:cut] for name, value in values.items()}, table.name)
        rest = {name: value[cut:] for name, value in values.items()}
    if rest is not None and len(rest["record"]):
        yield _checked_block(rest, table.name)


def _checked_block(values: Mapping[str, NDArray[np.generic]], name: str) -> _Block:
    records = np.asarray(values["record"], dtype=object)
    if any(record is None for record in records):
        raise InputError(f"record must be given for every token of {name}, got an empty one.")
    columns = {
        column: np.asarray(value, dtype=np.float64)
        for column, value in values.items()
        if column not in ("record", "member")
    }
    for column, numbers in columns.items():
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            raise InputError(
                f"{column} must be finite numbers, got another value in record {records[bad[0]]!r}."
            )
    for column in ("logprob", "reference_logprob", "mean_logprob"):
        if column in columns and (columns[column] > 0).any():
            place = int(np.argmax(columns[column] > 0))
            raise InputError(
                f"{column} must be at most 0, got {float(columns[column][place])!r} in record "
                f"{records[place]!r}."
            )
    if "std_logprob" in columns and (columns["std_logprob"] < 0).any():
        raise InputError("std_logprob must be at least 0, got a negative value.")
    starts = np.concatenate([[0], np.flatnonzero(records[1:] != records[:-1]) + 1])
    position = columns.pop("position")
    same = (np.diff(position) == 0) & (records[1:] == records[:-1])
    if same.any():
        place = int(np.argmax(same))
        raise InputError(
            f"position must differ within a record, got {position[place]} twice in record "
            f"{records[place]!r}."
        )
    kinds, codes = np.unique(np.asarray(values["member"], dtype=str), return_inverse=True)
    member = membership(kinds.tolist())[codes]
    lengths = np.diff(np.append(starts, len(records)))
    shares = np.add.reduceat(member.astype(np.int64), starts)
    mixed = (shares != 0) & (shares != lengths)
    if mixed.any():
        record = records[starts[int(np.argmax(mixed))]]
        raise InputError(
            f"member must be the same for all tokens of a record, got both in {record!r}."
        )
    return _Block(records[starts], member[starts], starts.astype(np.int64), columns)
