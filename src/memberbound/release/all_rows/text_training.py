"""Noisy steps on a language model's adapters: samples of records, clipped sums (X31).

The state after a step is computed from noisy sums only, so an interrupted run resumes from its last
stored state without a second charge (proofs/networks.md, claim 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.clipping import path_sensitivity
from memberbound.release.all_rows.network_modules import torch_module
from memberbound.release.all_rows.network_training import (
    clip_factors,
    sample_rows,
    sum_clipped,
)
from memberbound.release.all_rows.text_adapters import AdaptedModel, Batch
from memberbound.release.budget import noisy_release
from memberbound.release.randomness import SECURE, InsecureSource, RandomSource

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MOMENTUM = 0.9
#: Maximum number of logits of a block, and of documents.
_BLOCK_NUMBERS, _MOST_ROWS = 2**25, 64
#: Characters of a document to read per token of the length; this depends on the document alone.
_CHARACTERS = 32
#: Documents are padded to the length, or to it halved once or more, by a rule of the document
#: alone.
_HALVINGS = 2


@dataclass(frozen=True)
class TextTraining:
    """Training settings: public numbers, chosen without the documents.

    Every step samples each record with probability ``sample_rate``.  ``rate`` multiplies the
    mean clipped gradient; ``averaged`` is the final share of steps over which weights are averaged.
    """

    steps: int
    sample_rate: float
    rate: float
    rank: int
    length: int
    clip: float = 1.0
    averaged: float = 0.5

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, at_least=1)
        whole_number("rank", self.rank, at_least=1)
        whole_number("length", self.length, at_least=2)
        fraction("sample_rate", self.sample_rate, open_left=True)
        fraction("averaged", self.averaged)
        positive("rate", self.rate)
        positive("clip", self.clip)


@dataclass(frozen=True, eq=False)
class TextRecords:
    """Token ids of documents; with ``starts``, record k begins at document starts[k]."""

    documents: Sequence[NDArray[np.int64]]
    length: int
    starts: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.documents) if self.starts is None else len(self.starts)

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """The padded length of every document, which depends on its own length alone."""
        steps = [max(2, -(-self.length // 2**k)) for k in range(_HALVINGS, -1, -1)]
        sizes = np.array([len(ids) for ids in self.documents], dtype=np.int64)
        return np.array(steps)[np.searchsorted(steps, np.minimum(sizes, self.length))]

    def batch(self, indices: NDArray[np.int64], rows: int, width: int) -> Batch:
        """Return documents as a batch of fixed shape, filled up with empty documents."""
        ids, mask = np.zeros((rows, width), np.int64), np.zeros((rows, width), np.bool_)
        for row, index in enumerate(indices):
            tokens = self.documents[index][:width]
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, True
        labels = None
        if self.labels is not None:
            labels = np.full(rows, -1, dtype=np.int64)
            labels[: len(indices)] = self.labels[indices]
        return Batch(ids, mask, labels)

    def blocks(
        self, sample: NDArray[np.int64], vocabulary: int
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield the documents of sampled records in blocks of equal widths.

        With persons, all documents have one width, and those of a person stay in order.
        """
        if self.starts is None:
            widths = self.widths[sample]
            groups = [(int(w), sample[widths == w]) for w in np.unique(widths)]
        else:
            ends = np.append(self.starts[1:], len(self.documents))
            parts = [np.arange(self.starts[k], ends[k]) for k in sample]
            groups = [(self.length, np.concatenate(parts or [np.arange(0)]))]
        for width, documents in groups:
            rows = max(1, min(_MOST_ROWS, _BLOCK_NUMBERS // (width * vocabulary)))
            for first in range(0, len(documents), rows):
                part = documents[first : first + rows]
                yield part, self.batch(part, rows, width)

    def split(self, chosen: NDArray[np.int64]) -> tuple[TextRecords, TextRecords]:
        """Return the chosen records and the others."""
        inside = np.zeros(len(self), dtype=np.bool_)
        inside[chosen] = True
        return self._take(np.flatnonzero(inside)), self._take(np.flatnonzero(~inside))

    def _take(self, records: NDArray[np.int64]) -> TextRecords:
        starts, documents = None, records
        if self.starts is not None:
            sizes = np.diff(self.starts, append=len(self.documents))
            parts = [self.starts[k] + np.arange(sizes[k]) for k in records]
            documents = np.concatenate(parts or [np.arange(0)])
            starts = np.cumsum(sizes[records]) - sizes[records]
        labels = None if self.labels is None else self.labels[documents]
        return TextRecords([self.documents[k] for k in documents], self.length, starts, labels)


def encode_documents(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int, *, closed: bool = False
) -> list[NDArray[np.int64]]:
    """Return the token ids of documents, cut to ``length``: a function of each document alone.

    With ``closed`` the tokens that begin and end a text for its classification are around it, if
    the tokenizer has them.  A text that the tokenizer cannot read has no tokens of its own.
    """
    start, end = tokenizer.bos_token_id, None
    if closed and tokenizer.cls_token_id is not None:
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    head, tail = ([] if token is None else [int(token)] for token in (start, end))
    coded = []
    for text in texts:
        # JSON may hold half of a surrogate pair, which UTF-8 cannot encode.
        known = text[: _CHARACTERS * length].encode("utf-8", "replace").decode("utf-8")
        try:
            ids = [int(i) for i in tokenizer(known, add_special_tokens=False)["input_ids"]]
        except Exception:  # a refusal would tell something about the document
            ids = []
        inside = ids[: max(0, length - len(head) - len(tail))]
        coded.append(np.array((head + inside + tail)[:length], dtype=np.int64))
    return coded


def record_reach(clip: float, records: int) -> float:
    """Return an upper bound on the change of a computed batch sum by one record (claim 2).

    ``records`` is public.  If a record is a person, their gradients are added and then clipped.
    Blocks may hold a single record, and each width may have an incomplete block.
    """
    # Rounding raises twice the clip by 16 units in the last place; this subtraction uses one.
    return path_sensitivity(clip, records + _HALVINGS + 1, 1) - clip


def sum_clipped_gradients(
    adapted: AdaptedModel,
    records: TextRecords,
    sample: NDArray[np.int64],
    clip: float,
    advance: Callable[[int], None] = lambda _documents: None,
) -> FloatArray:
    """Sum the clipped gradients of sampled records, in double precision.

    Guarantee: no record adds more than ``clip`` in norm.  The gradient of a person is the mean over
    their documents, added one at a time in their own order, and clipped as a whole.
    Memory: one block, plus one gradient with persons, whatever the sample.
    """
    torch, device = torch_module(), adapted.device
    total = torch.zeros(adapted.size, dtype=torch.float64, device=device)
    owner = _owners(records)
    person, inside, count = -1, torch.zeros_like(total), 0

    def close() -> None:
        nonlocal total
        if count:
            kept = torch.ones(1, dtype=torch.bool, device=device)
            mean = (inside / count)[None, :]
            total += (clip_factors([mean], kept, clip)[:, None] * torch.nan_to_num(mean))[0]

    for indices, batch in records.blocks(sample, adapted.vocabulary):
        parts = adapted.gradients(batch)
        if owner is None:
            kept = torch.arange(len(batch.ids), device=device) < len(indices)
            total += torch.cat(sum_clipped(parts, kept, clip))
        else:
            gradients = torch.cat(parts, dim=1).double()
            for row, index in enumerate(indices):
                if owner[index] != person:
                    close()
                    person, inside, count = owner[index], torch.zeros_like(total), 0
                inside += gradients[row]
                count += 1
        advance(len(indices))
    close()
    return np.asarray(total.cpu().numpy())


def _owners(records: TextRecords) -> NDArray[np.int64] | None:
    if records.starts is None:
        return None
    ends = np.append(records.starts[1:], len(records.documents))
    return np.repeat(np.arange(len(records.starts)), ends - records.starts)


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The state of a run between steps; a function of noisy sums, so it may be stored and read."""

    step: int
    weights: FloatArray
    momentum: FloatArray
    mean: FloatArray

    @classmethod
    def start(cls, size: int) -> TrainingState:
        """Return the state before the first step."""
        return cls(0, *(np.zeros(size) for _ in range(3)))

    def next(
        self, noisy: FloatArray, training: TextTraining, rates: FloatArray | float = 1.0
    ) -> TrainingState:
        """Return the state after a noisy mean gradient: a step of descent with momentum.

        The public projections give all directions similar scales, so none needs its own rate.
        Dividing by noisy estimates (Adam) would amplify the noise in the other directions.
        """
        step = self.step + 1
        momentum = _MOMENTUM * self.momentum + (1 - _MOMENTUM) * noisy
        weights = self.weights - training.rate * rates * momentum / (1 - _MOMENTUM**step)
        kept = max(1, math.ceil(training.steps * training.averaged))
        taken = step - (training.steps - kept)
        mean = self.mean if taken < 1 else self.mean + (weights - self.mean) / taken
        return TrainingState(step, weights, momentum, mean)


@dataclass
class Noise:
    """Draws the noise of every step, with one scale and at most once per step."""

    scale: float
    source: RandomSource = SECURE
    #: Seeded sources of the steps, for tests: a resumed run draws the same numbers as a whole one.
    seed: int | None = None
    released: list[int] = field(default_factory=list)

    def source_of(self, step: int) -> RandomSource:
        """Return the random source of a step's sample and noise."""
        return self.source if self.seed is None else InsecureSource(self.seed * 2**24 + step)

    def measure(self, step: int, total: FloatArray, source: RandomSource) -> FloatArray:
        """Return a step's sum plus noise on the grid; raise if the step was measured before."""
        if step in self.released:
            raise RuntimeError(f"step {step} was measured before.")
        self.released.append(step)
        return noisy_release(total, self.scale, source)


class Silence(Noise):
    """Adds no noise, for comparisons that only the owner sees."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def measure(self, step: int, total: FloatArray, source: RandomSource) -> FloatArray:  # noqa: ARG002
        """Return the sum without noise."""
        return total


def train_adapters(
    adapted: AdaptedModel,
    records: TextRecords,
    training: TextTraining,
    noise: Noise,
    *,
    state: TrainingState | None = None,
    keep: Callable[[TrainingState], None] = lambda _state: None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingState:
    """Train adapters by noisy steps, starting from ``state``, and return the last state.

    ``keep`` is called with the state after every step.

    Guarantee: ``records`` enter a state only through sums, over Poisson samples, of gradients
    clipped at ``training.clip``, with noise N(0, scale²) on a grid.  There are ``training.steps``
    of these sums, however often the run is interrupted.
    Theorem: proofs/networks.md, claims 1 to 3 and 5.
    """
    current = TrainingState.start(adapted.size) if state is None else state
    expected = training.sample_rate * len(records)
    rates = adapted.rates
    whole = max(1, round(training.sample_rate * len(records.documents)))
    for step in range(current.step, training.steps):
        source = noise.source_of(step)
        adapted.weights = current.weights
        sample = sample_rows(len(records), training.sample_rate, source)
        done = 0

        def advance(documents: int, step: int = step) -> None:
            nonlocal done
            done = min(whole, done + documents)
            if progress is not None:
                progress(step * whole + done, training.steps * whole)

        total = sum_clipped_gradients(adapted, records, sample, training.clip, advance)
        # From here on nothing but the noisy sum is used: post-processing.
        noisy = noise.measure(step, total, source) / expected
        current = current.next(noisy, training, rates)
        if not np.isfinite(current.weights).all():
            raise InputError("training must stay finite: take a smaller rate.")
        keep(current)
    return current
