"""Public settings of a language model's training, by rules of public numbers (X31)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scipy import special

from memberbound.errors import InputError, whole_number
from memberbound.release.all_rows.text_training import TextTraining
from memberbound.release.noise import check_eta_range

if TYPE_CHECKING:
    from torch.nn import Module

#: Settings, chosen on public texts (docs/text-benchmark.md): steps, passes over the documents, rate
#: and tokens of a document.
_STEPS, _PASSES, _RATE, _LENGTH = 60, 3.0, 1.5, 128
#: The signal, which is the number of records times μ, that these belong to.  The rate grows with
#: the signal to this power up to a maximum; from this signal on the steps do, up to three times as
#: many.  Rank by the signal.
_SIGNAL, _RATE_POWER, _MOST_RATE, _STEPS_POWER, _MOST_STEPS = 1250.0, 0.8, 15.0, 1 / 3, 180
_MOST_RANK = 64
_RANKS = ((300.0, 8), (900.0, 16), (2500.0, 32), (math.inf, _MOST_RANK))
#: Maximum number of steps if each takes all documents.
_WHOLE_STEPS = 16
#: The signal from which fewer documents in a step cost less than the time that they save.
_AMPLE_SIGNAL = 5000.0
#: The product of the number of records and μ below which noise drowns any gradient.
_LEAST_SIGNAL = 60.0


def default_training(
    records: int,
    eta: float,
    *,
    length: int,
    most_rank: int | None = None,
    rank: int | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    rate: float | None = None,
) -> TextTraining:
    """Return settings by a public rule, given the number of records and η.

    Given ``rank``, ``steps``, ``sample_rate`` and ``rate`` are kept; ``most_rank`` is the size of
    the model's largest layer.

    Edge cases: refuse a corpus if noise would drown its gradients.
    """
    mu = 2 * float(special.ndtri(0.5 + check_eta_range(eta)))
    signal = records * mu
    if signal < _LEAST_SIGNAL:
        raise InputError(
            f"texts must have at least {math.ceil(_LEAST_SIGNAL / mu)} records (documents, or "
            f"persons with unit) for eta {eta!r}, got {records}: with fewer, noise drowns their "
            "content. Collect more, or allow a larger eta."
        )
    usual = min(_MOST_STEPS, round(_STEPS * max(1.0, signal / _SIGNAL) ** _STEPS_POWER))
    taken = whole_number("steps", usual if steps is None else steps, at_least=1)
    # A noise multiplier of about 1.2: below 1 sampling no longer makes up for smaller noise.
    least = 0.6 * mu / math.sqrt(taken) if signal < _AMPLE_SIGNAL else 0.0
    sample = min(1.0, max(_PASSES / taken, least)) if sample_rate is None else sample_rate
    if rate is None:
        rate = min(_MOST_RATE, _RATE * (signal / _SIGNAL) ** _RATE_POWER)
    if rank is None:
        rank = min(next(size for limit, size in _RANKS if signal < limit), most_rank or _MOST_RANK)
    elif most_rank is not None and rank > most_rank:
        raise InputError(f"rank must be at most {most_rank}, the size of a layer, got {rank}.")
    return TextTraining(taken, sample, rate, rank, length)


def whole_samples(training: TextTraining, *, given: float | None) -> TextTraining:
    """Return the settings with full-batch steps, so that a ledger can compose their curve."""
    if given is not None:
        raise InputError(f"sample_rate must be 1 with a ledger, got {given!r}.")
    steps = max(1, min(training.steps, _WHOLE_STEPS))
    return replace(training, sample_rate=1.0, steps=steps)


def check_length(model: Module, length: int | None, *, masked: bool = False) -> int:
    """Return how many tokens of a document are used: what the model takes, or fewer.

    With ``masked`` one token more is given to the model.
    """
    config = model.config
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    most = _LENGTH if limit is None else int(limit) - masked
    if length is None:
        return min(_LENGTH, most)
    wanted = whole_number("length", length, at_least=2)
    if limit is not None and wanted > most:
        raise InputError(f"length must be at most {most}, which is what lm takes, got {wanted}.")
    return wanted


def fingerprint(folder: Path) -> str:
    """Return a SHA-256 of the weights and the tokenizer of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            with path.open("rb") as file:
                found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()
