"""Audits of language models: read documents, run the blind test, score tokens (X28).

Published evaluations of language models often compare members from one time or source with
non-members from another, and so measure that difference.  Therefore a classifier that sees the
texts but not the model is always run as well.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.checks import LawTest, law_test
from memberbound.attacks.scores import membership
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.files import check_input
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.engine import identifier
from memberbound.tables.opening import use_table
from memberbound.tables.table import Table
from memberbound.threads import one_thread

if TYPE_CHECKING:
    from pandas import DataFrame

_LINES = (".jsonl", ".ndjson", ".txt")
#: Maximum number of words and word pairs in the blind classifier.
_FEATURES = 20_000


def read_documents(source: object, column: str, name: str) -> DataFrame:
    """Read documents, one per row: JSON Lines, plain text (one per line), or a table.

    Edge cases: a missing column, an empty document and a line that is not a JSON object are
    refused.
    """
    import pandas as pd

    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() in _LINES:
        rows = _lines(Path(source), column, name)
        documents = pd.DataFrame(rows, columns=None if rows else [column], dtype=object)
    else:
        with use_table(source) as table:
            documents = table.frame.reset_index(drop=True)
    if column not in documents:
        names = ", ".join(map(str, documents.columns))
        raise InputError(f"{name} must have the column {column!r}, got {names}.")
    if documents.empty:
        raise InputError(f"{name} must have documents, got none.")
    for index, text in enumerate(documents[column]):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} must have a text in every row, got none in row {index + 1}.")
    return documents


def index_documents(documents: DataFrame, name: str) -> DataFrame:
    """Index documents by their column ``record``."""
    if "record" not in documents:
        raise InputError(f"{name} must have the column 'record', which names the document.")
    named = documents.set_axis(documents["record"].map(str))
    if not named.index.is_unique:
        raise InputError(f"{name} must have one row per record, got a record twice.")
    return named


def coins(documents: DataFrame) -> BoolArray:
    """Return the mask of member canaries."""
    if "member" not in documents:
        raise InputError("canaries must have the column 'member', the coin flip: 1 or 0.")
    return membership(documents["member"])


def _lines(path: Path, column: str, name: str) -> list[dict[str, object]]:
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
            raise InputError(f"{name} must have a JSON object per line, got none in line {number}.")
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

    # Fitted without labels, so exchangeable documents stay exchangeable.
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
    with one_thread:
        blind = LogisticRegression(max_iter=300, class_weight="balanced").fit(rows, member)
    return np.asarray(blind.decision_function(others), dtype=np.float64)


# ── Scores of documents from token log-probabilities (X28) ────────────────────────────────────────

_LABELS = ("record", "member")
REQUIRED = (*_LABELS, "position", "logprob")
OPTIONAL = ("reference_logprob", "mean_logprob", "std_logprob", "rank")
#: The attack that learns from all scores, and its minimum number of documents of each kind.
LEARNED, _FEWEST_LEARNED = "learned", 40
#: The share of tokens in min-k and min-k++, from their papers.
_LOWEST = 0.2
#: Window sizes, roughly geometric.
_WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
#: Tokens scored at a time.
_BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class _Block:
    """Whole documents with ordered tokens; ``starts`` holds the index of each first token."""

    records: NDArray[np.object_]
    member: BoolArray
    starts: NDArray[np.int64]
    columns: Mapping[str, FloatArray]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(np.append(self.starts, len(self.columns["logprob"])))

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """The document index of every token."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def gains(self) -> FloatArray:
        """The log-probability gain of every token over the reference model."""
        return self.columns["logprob"] - self.columns["reference_logprob"]

    def sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(values, self.starts))

    def lowest_means(self, values: FloatArray) -> FloatArray:
        """Return the mean of the lowest fifth of every document's values."""
        order = np.lexsort((values, self.documents))
        count = np.maximum(1, (_LOWEST * self.lengths).astype(np.int64))
        index = np.arange(len(values)) - self.starts[self.documents]
        return self.sums(np.where(index < count[self.documents], values[order], 0.0)) / count

    def standardise(self) -> FloatArray:
        """Standardise log-probabilities by the model's mean and spread at each position."""
        spread = np.maximum(self.columns["std_logprob"], 1e-12)
        return np.asarray((self.columns["logprob"] - self.columns["mean_logprob"]) / spread)

    def window_votes(self) -> FloatArray:
        """Return the share of windows with a gain, averaged over the sizes that fit."""
        total = np.concatenate([[0.0], np.cumsum(self.gains)])
        votes, sizes = np.zeros(len(self.starts)), np.zeros(len(self.starts))
        for size in (1, *_WINDOWS):
            # Size 1 serves documents of one token only.
            fits = self.lengths == 1 if size == 1 else self.lengths >= size
            if not fits.any():
                continue
            sums = total[size:] - total[:-size]
            inside = self.documents[: len(sums)] == self.documents[size - 1 :]
            owner = self.documents[: len(sums)][inside]
            won = np.bincount(owner, weights=(sums[inside] > 0).astype(float), minlength=len(votes))
            votes[fits] += won[fits] / (self.lengths[fits] - size + 1)
            sizes += fits
        return votes / np.maximum(sizes, 1)

    def spreads(self) -> FloatArray:
        """Return the spread of gains, the largest one, and the mean gain of the later half."""
        gains, index = self.gains, np.arange(len(self.documents)) - self.starts[self.documents]
        mean = self.sums(gains) / self.lengths
        square = self.sums(np.square(gains)) / self.lengths - np.square(mean)
        late = index >= self.lengths[self.documents] // 2
        later = self.sums(np.where(late, gains, 0.0)) / np.maximum(
            self.sums(late.astype(np.float64)), 1.0
        )
        largest = np.maximum.reduceat(gains, self.starts)
        return np.column_stack([np.sqrt(np.maximum(square, 0.0)), largest, later])

    def error_zone(self) -> FloatArray:
        """Return the log ratio of gains to losses at mispredicted tokens."""
        wrong = np.where(self.columns["rank"] > 1, self.gains, 0.0)
        room = 1e-6  # without a wrong token there is neither gain nor loss
        up, down = (self.sums(np.maximum(sign * wrong, 0.0)) + room for sign in (1, -1))
        return np.asarray(np.log(up) - np.log(down))


@dataclass(frozen=True)
class _TextAttack:
    """A document score, higher for members, with its optional input columns."""

    score: Callable[[_Block], FloatArray]
    needs: tuple[str, ...] = ()


#: Every attack by name.  A record is one document of any length.
TEXT_ATTACKS: dict[str, _TextAttack] = {
    # Mean log-probability of the tokens.
    "loss": _TextAttack(lambda block: block.sums(block.columns["logprob"]) / block.lengths),
    # Their sum over the length of the compressed text (Carlini 2021); score_tokens divides.
    "zlib": _TextAttack(lambda block: block.sums(block.columns["logprob"]), ("texts",)),
    # Mean over the fifth of the tokens with the lowest log-probabilities (Shi 2024).
    "min-k": _TextAttack(lambda block: block.lowest_means(block.columns["logprob"])),
    # The same for standardised log-probabilities (Zhang 2025).
    "min-k++": _TextAttack(
        lambda block: block.lowest_means(block.standardise()), ("mean_logprob", "std_logprob")
    ),
    # Mean gain over a reference model, preferably the base model.
    "ratio": _TextAttack(
        lambda block: block.sums(block.gains) / block.lengths, ("reference_logprob",)
    ),
    # Gains relative to losses at tokens that the model does not rank first (Ilić 2026).
    "error-zone": _TextAttack(_Block.error_zone, ("reference_logprob", "rank")),
    # Share of windows of 2 to 40 tokens with a gain (Chen 2026).
    "window": _TextAttack(_Block.window_votes, ("reference_logprob",)),
}


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Scores by document, with its name, membership and number of tokens."""

    records: NDArray[np.object_]
    member: BoolArray
    tokens: NDArray[np.int64]
    scores: dict[str, FloatArray]
    #: Reasons for omitted scores, by attack.
    missing: dict[str, str]
    #: Further statistics of each document for the attack that learns, if a reference is known.
    spreads: FloatArray | None = None

    @property
    def not_run(self) -> dict[str, str]:
        """Reasons why attacks cannot run, including the one that learns."""
        if self.spreads is None:
            return self.missing | {LEARNED: "needs reference_logprob"}
        if min(int(self.member.sum()), int((~self.member).sum())) < _FEWEST_LEARNED:
            few = f"needs {_FEWEST_LEARNED} members and as many non-members"
            return self.missing | {LEARNED: few}
        return self.missing


def learned_score(found: TokenScores, seed: int) -> tuple[FloatArray, BoolArray]:
    """Score documents by a logistic regression on all token statistics (similar to LT-MIA).

    Half of the members and half of the non-members are used for training; the mask marks the
    others, on which the attack is measured.

    Assumes: :attr:`TokenScores.spreads` are known.
    """
    from sklearn.linear_model import LogisticRegression

    assert found.spreads is not None
    rng = np.random.default_rng([seed, len(found.member)])
    known = np.zeros(len(found.member), dtype=np.bool_)
    for side in (found.member, ~found.member):
        indices = rng.permutation(np.flatnonzero(side))
        known[indices[: len(indices) // 2]] = True
    features = np.column_stack([*found.scores.values(), found.spreads])
    middle = np.median(features[known], axis=0)
    spread = np.median(np.abs(features[known] - middle), axis=0)
    scaled = np.clip((features - middle) / np.where(spread > 0, spread, 1.0), -10.0, 10.0)
    with one_thread:
        model = LogisticRegression(max_iter=1000, C=0.1, class_weight="balanced")
        model.fit(scaled[known], found.member[known])
    return np.asarray(model.decision_function(scaled), dtype=np.float64), ~known


def score_tokens(table: Table, texts: Mapping[str, str] | None = None) -> TokenScores:
    """Score the documents of a token table, block by block.

    ``texts`` maps each record to its text.

    Edge cases: missing columns, values that are not numbers, log-probabilities above 0, repeated
    positions, a record that is both member and non-member, records of one class only, and texts
    that do not match are rejected.  A score is omitted, with the reason, if its columns are absent
    or empty for some tokens.

    Examples:
        >>> import pandas
        >>> from memberbound.tables.opening import open_table
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
    gaps = _columns_with_gaps(table, present)
    usable = [column for column in present if column not in gaps]
    missing = _missing_inputs(usable, gaps, texts)
    attacks = {name: a for name, a in TEXT_ATTACKS.items() if name not in missing}
    parts = []
    for block in _blocks(table, usable):
        unknown = next((r for r in block.records if texts is not None and r not in texts), None)
        if unknown is not None:
            raise InputError(f"texts must hold every record, got none of {unknown!r}.")
        scored = [attack.score(block) for attack in attacks.values()]
        if "ratio" in attacks:
            scored.append(block.spreads())
        parts.append((block.records, block.member, block.lengths, *scored))
    if not parts:
        raise InputError(f"{table.name} must have rows, got none.")
    records, member, tokens, *scores = map(np.concatenate, zip(*parts, strict=True))
    for kind, there in (("members", member.any()), ("non-members", not member.all())):
        if not there:
            raise InputError(f"{table.name} must have members and non-members, got no {kind}.")
    spreads = scores.pop() if "ratio" in attacks else None
    by_name = dict(zip(attacks, scores, strict=True))
    if texts is not None:
        by_name["zlib"] /= [len(zlib.compress(texts[record].encode())) for record in records]
    return TokenScores(records, member, tokens, by_name, missing, spreads)


def _missing_inputs(
    usable: list[str], gaps: set[str], texts: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the attacks that cannot run, with reasons."""
    at_hand = {*usable, *(() if texts is None else ("texts",))}
    missing: dict[str, str] = {}
    for name, attack in TEXT_ATTACKS.items():
        absent = [need for need in attack.needs if need not in at_hand]
        empty = next((need for need in absent if need in gaps), None)
        if empty is not None:
            missing[name] = f"{empty} is missing for some tokens"
        elif absent:
            missing[name] = f"needs {' and '.join(absent)}"
    return missing


def _columns_with_gaps(table: Table, columns: list[str]) -> set[str]:
    """Return the columns with empty values in some rows."""
    if not columns:
        return set()
    counts = ", ".join(
        f"count(*) FILTER (WHERE {identifier(c)} IS NULL OR CAST({identifier(c)} AS VARCHAR) = '')"
        for c in columns
    )
    query = f"SELECT {counts} FROM ({table.query})"
    (row,) = table.run(lambda: table.engine.sql(query).fetchall())
    return {column for column, count in zip(columns, row, strict=True) if count}


def _blocks(table: Table, optional: list[str]) -> Iterator[_Block]:
    """Yield checked blocks of whole documents, ordered by record."""
    numbers = ["position", "logprob", *optional]
    selected = ", ".join(
        [
            "CAST(record AS VARCHAR) AS record",
            "lower(trim(CAST(member AS VARCHAR))) AS member",
            *(f"TRY_CAST({identifier(name)} AS DOUBLE) AS {name}" for name in numbers),
        ]
    )
    query = f"SELECT {selected} FROM ({table.query}) ORDER BY record, position"
    stream = table.run(lambda: table.engine.connection.sql(query).to_arrow_reader(_BLOCK))
    rest: dict[str, NDArray[np.generic]] | None = None
    for batch in stream:
        values = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in ("record", "member", *numbers)
        }
        if rest is not None:
            values = {name: np.concatenate([rest[name], values[name]]) for name in values}
        records = values["record"]
        # The last document may continue in the next batch.
        changes = np.flatnonzero(records[1:] != records[:-1])
        cut = int(changes[-1]) + 1 if len(changes) else 0
        if cut:
            yield _check_block({name: value[:cut] for name, value in values.items()}, table.name)
        rest = {name: value[cut:] for name, value in values.items()}
    if rest is not None and len(rest["record"]):
        yield _check_block(rest, table.name)


def _check_block(values: Mapping[str, NDArray[np.generic]], name: str) -> _Block:
    records = np.asarray(values["record"], dtype=object)
    if any(record is None for record in records):
        raise InputError(f"record must be given for every token of {name}, got an empty one.")
    columns = {c: np.asarray(v, dtype=np.float64) for c, v in values.items() if c not in _LABELS}
    kinds, codes = np.unique(np.asarray(values["member"], dtype=str), return_inverse=True)
    member = membership(kinds.tolist())[codes]

    def refuse(column: str, condition: str, wrong: BoolArray, seen: str = "") -> None:
        if wrong.any():
            index = int(np.argmax(wrong))
            seen = seen or repr(columns[column][index].item())
            where = f"in record {records[index]!r}"
            raise InputError(f"{column} must be {condition}, got {seen} {where}.")

    again = np.append(False, records[1:] == records[:-1])
    for column, numbers in columns.items():
        refuse(column, "a finite number", ~np.isfinite(numbers))
    for column in {"logprob", "reference_logprob", "mean_logprob"} & {*columns}:
        refuse(column, "at most 0", columns[column] > 0)
    if "std_logprob" in columns:
        refuse("std_logprob", "at least 0", columns["std_logprob"] < 0)
    repeated = np.append(False, np.diff(columns["position"]) == 0)
    refuse("position", "different for the tokens of a record", again & repeated)
    mixed = np.append(False, np.diff(member))
    refuse("member", "the same for all tokens of a record", again & mixed, "both")
    starts = np.flatnonzero(~again)
    return _Block(records[starts], member[starts], starts, columns)
