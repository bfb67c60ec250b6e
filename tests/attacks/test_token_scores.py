"""Scores of documents against a naive second implementation, and refusals."""

import math
import zlib

import numpy as np
import pandas
import pytest

from memberbound import InputError
from memberbound.attacks import texts as module
from memberbound.attacks.texts import score_tokens
from memberbound.tables.opening import open_table

WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)


def tokens_of(documents=30, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for document in range(documents):
        for position in range(int(rng.integers(1, 60))):
            rows.append(
                {
                    "record": f"d{document}",
                    "member": document % 2,
                    "position": position,
                    "logprob": -float(rng.exponential(2)),
                    "reference_logprob": -float(rng.exponential(2)),
                    "mean_logprob": -float(rng.exponential(3)),
                    "std_logprob": float(rng.uniform(0.1, 2)),
                    "rank": int(rng.integers(1, 5)),
                }
            )
    return pandas.DataFrame(rows)


def score(frame, texts=None):
    with open_table(frame) as table:
        return score_tokens(table, texts)


def lowest_fifth(values):
    kept = sorted(values)[: max(1, int(0.2 * len(values)))]
    return sum(kept) / len(kept)


def naive(rows, text):
    """One document's scores, token by token."""
    lp = rows["logprob"].tolist()
    gains = [a - b for a, b in zip(lp, rows["reference_logprob"], strict=True)]
    standard = [
        (a - m) / s for a, m, s in zip(lp, rows["mean_logprob"], rows["std_logprob"], strict=True)
    ]
    wrong = [g for g, rank in zip(gains, rows["rank"], strict=True) if rank > 1]
    up, down = sum(g for g in wrong if g > 0), -sum(g for g in wrong if g < 0)
    shares = []
    for size in [w for w in WINDOWS if w <= len(gains)] or [1]:
        sums = [math.fsum(gains[k : k + size]) for k in range(len(gains) - size + 1)]
        shares.append(sum(s > 0 for s in sums) / len(sums))
    return {
        "loss": sum(lp) / len(lp),
        "zlib": sum(lp) / len(zlib.compress(text.encode())),
        "min-k": lowest_fifth(lp),
        "min-k++": lowest_fifth(standard),
        "ratio": sum(gains) / len(gains),
        "error-zone": math.log(up + 1e-6) - math.log(down + 1e-6),
        "window": sum(shares) / len(shares),
    }


@pytest.mark.parametrize("block", [7, 100, 2**20])
def test_scores_equal_the_naive_ones_for_any_block_size(monkeypatch, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    frame = tokens_of()
    texts = {f"d{k}": f"text {k} " * (k + 1) for k in range(30)}
    shuffled = frame.sample(frac=1, random_state=1)
    result = score(shuffled, texts)
    assert sorted(result.records) == sorted(texts)
    for index, record in enumerate(result.records):
        rows = frame[frame["record"] == record]
        assert result.member[index] == bool(rows["member"].iloc[0])
        assert result.tokens[index] == len(rows)
        for name, value in naive(rows, texts[record]).items():
            assert result.scores[name][index] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert not result.missing


def test_missing_inputs_of_scores_are_reported():
    required = ["record", "member", "position", "logprob"]
    result = score(tokens_of()[required])
    assert set(result.scores) == {"loss", "min-k"}
    assert "reference_logprob" in result.missing["ratio"]
    assert "texts" in result.missing["zlib"]


def test_a_reference_for_some_documents_only_is_not_used():
    frame = tokens_of()
    frame.loc[frame["record"] == "d3", "reference_logprob"] = None
    result = score(frame)
    assert not {"ratio", "window", "error-zone"} & set(result.scores)
    assert "some tokens" in result.missing["ratio"]


def edit(frame, column, value, rows=slice(3, 4)):
    changed = frame.copy()
    changed[column] = changed[column].astype(object)
    changed.iloc[rows, changed.columns.get_loc(column)] = value
    return changed.astype({"record": str})


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (tokens_of().drop(columns="position"), "position"),
        (tokens_of().assign(member=1), "non-members"),
        (tokens_of().assign(position=0), "position"),
        (edit(tokens_of(), "logprob", "0.5").astype(str), "logprob"),
        (edit(tokens_of(), "logprob", "nan").astype(str), "finite"),
        (edit(tokens_of(), "member", "2").astype(str), "member"),
        (edit(tokens_of(), "member", "1").astype(str), "both"),
        (edit(tokens_of(), "std_logprob", "-1").astype(str), "std_logprob"),
    ],
)
def test_bad_tokens_are_refused_in_one_sentence(frame, word):
    with pytest.raises(InputError, match=word) as refusal:
        score(frame)
    assert "\n" not in str(refusal.value)
