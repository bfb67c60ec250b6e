"""Documents: reading them, and whether members and non-members differ already in their words.

Published evaluations of language models often compare members from one time or source with
non-members of another, and measure that difference.  So a classifier that sees the texts but not
the model always runs beside the attacks (X28).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.attacks.comparability import LawTest, law_test
from memberbound.attacks.model_scores import balancing_weights
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.files import check_input
from memberbound.numerics.rounding import FloatArray
from memberbound.numerics.threads import one_thread
from memberbound.tables.table import opened_table

__all__ = ["Documents", "blind_test", "read_documents"]

_LINES = (".jsonl", ".ndjson", ".txt")
#: Words and pairs of words that the blind classifier counts at most.
_FEATURES = 20_000


@dataclass(frozen=True)
class Documents:
    """Texts, and the other columns they came with."""

    texts: tuple[str, ...]
    columns: dict[str, tuple[object, ...]]


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
        tuple(str(text) for text in texts),
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
    weights = balancing_weights(member)
    with one_thread():
        blind = LogisticRegression(C=1.0, max_iter=300).fit(rows, member, sample_weight=weights)
    return np.asarray(blind.decision_function(others), dtype=np.float64)
