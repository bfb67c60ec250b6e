"""Language models fine-tuned on all documents, in the neighbour game (X31).

:func:`fit_text` trains adapters by DP-SGD on documents, or on persons with all of their documents.
The release is a folder in peft's format with a certificate and a page for people.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.certificate import Certificate
from memberbound.errors import InputError, whole_number
from memberbound.learners.adapters import tensor_names
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.text_adapters import AdaptedModel, check_model, language_losses
from memberbound.release.all_rows.text_budget import TextBudget
from memberbound.release.all_rows.text_training import (
    Noise,
    Silence,
    TextRecords,
    TextTraining,
    TrainingState,
    train_adapters,
)
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise, check_eta_range
from memberbound.release.randomness import RandomSource
from memberbound.release.release_file import Writer, tensor_writer
from memberbound.tables.texts import Documents
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

#: Characters of a document to read per token of the length; this depends on the document alone.
_CHARACTERS = 32
#: Settings chosen on public texts (docs/howto/fine-tune-a-language-model.md): steps, passes over
#: the documents, rate, tokens per document, and rank by the number of records times μ.
_STEPS, _PASSES, _RATE, _LENGTH = 60, 4.0, 1.5, 128
_RANKS = ((300.0, 8), (900.0, 16), (math.inf, 32))
#: Below this product of μ and the number of records, noise drowns any gradient.
_LEAST_SIGNAL = 60.0
#: A trial holds out one record in this many.
_KEPT_BACK = 5
#: Tokens of a canary.
_CANARY_TOKENS = 24
#: A clip above the norm of any gradient.
_NO_CLIP = 1e9


def default_training(
    records: int,
    eta: float,
    *,
    length: int,
    rank: int | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    rate: float | None = None,
) -> TextTraining:
    """Return default settings for this number of records and η, by a public rule.

    ``steps``, ``sample_rate`` and ``rate`` are kept if given.

    Edge cases: a corpus that is too small for the noise is rejected.
    """
    mu = 2 * float(special.ndtri(0.5 + check_eta_range(eta)))
    if records * mu < _LEAST_SIGNAL:
        raise InputError(
            f"texts must have at least {math.ceil(_LEAST_SIGNAL / mu)} records (documents, or "
            f"persons with unit) for eta {eta!r}, got {records}: with fewer, noise drowns their "
            "content. Collect more, or allow a larger eta."
        )
    taken = whole_number("steps", _STEPS if steps is None else steps, at_least=1)
    # Aim at a noise multiplier of about 1.2: below 1, sampling no longer compensates for less
    # noise.
    least = 0.6 * mu / math.sqrt(taken)
    sample = min(1.0, max(_PASSES / taken, least)) if sample_rate is None else sample_rate
    usual = next(size for limit, size in _RANKS if records * mu < limit)
    chosen = usual if rank is None else rank
    return TextTraining(taken, sample, _RATE if rate is None else rate, chosen, length)


def whole_samples(training: TextTraining, *, given: float | None) -> TextTraining:
    """Return the settings with full-batch steps, which a ledger can compose."""
    if given is not None:
        raise InputError(f"sample_rate must be 1 with a ledger, got {given!r}.")
    steps = max(1, min(training.steps, math.ceil(4 * _PASSES)))
    return replace(training, sample_rate=1.0, steps=steps)


def check_length(model: Module, length: int | None) -> int:
    """Return the number of tokens to use per document: ``length``, or the model's maximum."""
    config = model.config
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    most = _LENGTH if limit is None else int(limit)
    if length is None:
        return min(_LENGTH, most)
    wanted = whole_number("length", length, at_least=2)
    if limit is not None and wanted > most:
        raise InputError(f"length must be at most {most}, the maximum of lm, got {wanted}.")
    return wanted


def fingerprint(folder: Path) -> str:
    """Return a SHA-256 of the weights and the tokenizer in a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            with path.open("rb") as file:
                found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def tokenize_records(
    tokenizer: PreTrainedTokenizerBase, documents: Documents, length: int
) -> TextRecords:
    """Return the token ids of secret documents."""
    return TextRecords(
        encode_documents(tokenizer, documents.texts, length), length, documents.starts
    )


def encode_documents(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int
) -> list[NDArray[np.int64]]:
    """Return the token ids of documents, cut to ``length``: a function of each document alone."""
    start = tokenizer.bos_token_id
    head = [] if start is None else [int(start)]
    coded = []
    for text in texts:
        # JSON may hold half of a surrogate pair, which UTF-8 cannot encode.
        known = text[: _CHARACTERS * length].encode("utf-8", "replace").decode("utf-8")
        ids = tokenizer(known, add_special_tokens=False)["input_ids"]
        coded.append(np.array((head + [int(i) for i in ids])[:length], dtype=np.int64))
    return coded


@dataclass(frozen=True, eq=False)
class Canaries:
    """Made-up documents, each inserted with probability ½; otherwise an empty one replaces it."""

    texts: tuple[str, ...]
    coins: NDArray[np.bool_]

    def insert(self, documents: Documents) -> Documents:
        """Return the documents with one record added for every canary."""
        last = len(documents)
        texts = [t if coin else "" for t, coin in zip(self.texts, self.coins, strict=True)]
        starts = documents.starts
        if starts is not None:
            starts = np.append(starts, last + np.arange(len(texts)))
        return replace(documents, texts=[*documents.texts, *texts], starts=starts)


def draw_canaries(tokenizer: PreTrainedTokenizerBase, count: int, source: RandomSource) -> Canaries:
    """Draw canaries (texts of random tokens) and the coin flips that insert them."""
    words = source.words(count * (_CANARY_TOKENS + 1)).reshape(count, -1)
    ids = (words[:, 1:] % np.uint64(len(tokenizer))).astype(np.int64)
    texts = tuple(str(tokenizer.decode(row.tolist(), skip_special_tokens=True)) for row in ids)
    return Canaries(texts, (words[:, 0] & np.uint64(1)).astype(np.bool_))


@dataclass(frozen=True, eq=False)
class PrivateText:
    """Released adapters of a language model, with their budget."""

    kind: ClassVar[str] = "language model of all documents"

    tensors: dict[str, NDArray[np.float32]]
    training: TextTraining
    budget: TextBudget
    scale: float
    eta: float
    records: int
    documents: int
    layers: tuple[str, ...]
    secure: bool = True
    transposed: bool = False
    #: Trained weights.
    size: int = field(default=0)

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return (".safetensors",)

    @property
    def certificate_(self) -> Certificate:
        """The certificate of η for every document, or every person."""
        return self.budget.certificate(secure=self.secure)

    @property
    def calibration_(self) -> Calibration:
        """The noise of every step and the certificate of all of them together."""
        noise = GaussianNoise(self.scale, self.size)
        details: dict[str, object] = {
            "mu": self.budget.normal_mu,
            "documents": self.documents if self.budget.unit is None else None,
            "persons": None if self.budget.unit is None else self.records,
            "training": asdict(self.training),
            "layers": list(self.layers),
            "curve": self.budget.readings(),
        }
        return Calibration(noise, self.certificate_, self.eta, "gradient", 1, details)

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate."""
        return self.calibration_.certificate_fields(
            self.kind,
            secure_source=self.secure,
            unit=self.budget.unit,
            rows_trained=self.records,
            **self.budget.evidence(self.records, self.certificate_),
        )

    def file_writer(self, path: Path) -> Writer:  # noqa: ARG002
        """Return a function that writes the tensors."""
        return tensor_writer(self.tensors, {"format": "pt"})

    def adapter_config(self, base: str) -> dict[str, object]:
        """Return the peft configuration of the tensors."""
        return {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "r": self.training.rank,
            "lora_alpha": self.training.rank,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": self.transposed,
            "inference_mode": True,
            "target_modules": list(self.layers),
        }


def released_tensors(adapted: AdaptedModel) -> dict[str, NDArray[np.float32]]:
    """Return the matrices of all adapters under peft's names."""
    tensors = {}
    for adapter in adapted.adapters:
        down, up = tensor_names(adapter.name)
        tensors[down] = np.ascontiguousarray(adapter.down.numpy())
        tensors[up] = np.ascontiguousarray(adapter.up.numpy())
    return tensors


@dataclass
class TextRun:
    """A training run, from the base model and public settings to a release.

    The budget is fixed before any document is used; :meth:`train` can resume from a stored state.
    """

    model: Module
    training: TextTraining
    records: TextRecords
    eta: float
    unit: str | None = None
    seed: int | None = None
    adapted: AdaptedModel = field(init=False)
    budget: TextBudget = field(init=False)

    def __post_init__(self) -> None:
        check_eta_range(self.eta)
        with ONE_AT_A_TIME, no_warnings:
            self.adapted = AdaptedModel(self.model, self.training.rank, language_losses)
            check_model(self.adapted, self.training.length)
        weights = self.adapted.size
        budget = TextBudget.for_training(self.eta, self.training, weights, self.unit)
        self.budget = budget.describe_steps(self.training, len(self.records), weights)
        if self.seed is not None:
            self.budget = replace(self.budget, source=Noise(1.0, seed=self.seed).source_of(0))

    @property
    def scale(self) -> float:
        """Standard deviation of the noise per coordinate of a step's sum."""
        return self.budget.noise_scale(self.training, len(self.records))

    def train(
        self,
        *,
        state: TrainingState | None = None,
        keep: Callable[[TrainingState], None] = lambda _state: None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PrivateText:
        """Train and return the release.

        Guarantee: an attacker who knows all other records and sees the result gains at most
        ``eta`` over guessing which of two records was trained on, with certainty for every record,
        under replace-one.
        Theorem: X31 (proofs/networks.md).
        """
        noise = Noise(self.scale, seed=self.seed)
        with ONE_AT_A_TIME, no_warnings, self.adapted.attach():
            last = train_adapters(
                self.adapted,
                self.records,
                self.training,
                noise,
                state=state,
                keep=keep,
                progress=progress,
            )
        return self.release(last.mean)

    def canary_scores(self, tokenizer: PreTrainedTokenizerBase, canaries: Canaries) -> FloatArray:
        """Return the decrease of every canary's loss from the base model."""
        length, adapted = self.training.length, self.adapted
        coded = TextRecords(encode_documents(tokenizer, canaries.texts, length), length)
        released = adapted.weights
        found = []
        with ONE_AT_A_TIME, no_warnings, adapted.attach():
            for weights in (np.zeros(adapted.size), released):
                adapted.weights = weights
                found.append(document_losses(adapted, coded))
        return np.nan_to_num(found[0] - found[1])

    def release(self, weights: FloatArray) -> PrivateText:
        """Return the release with these weights, which are computed from noisy sums."""
        self.adapted.weights = weights
        return PrivateText(
            released_tensors(self.adapted),
            self.training,
            self.budget,
            self.scale,
            self.eta,
            len(self.records),
            len(self.records.documents),
            tuple(adapter.name for adapter in self.adapted.adapters),
            self.seed is None,
            any(hasattr(adapter.layer, "nf") for adapter in self.adapted.adapters),
            self.adapted.size,
        )


def document_losses(adapted: AdaptedModel, records: TextRecords) -> FloatArray:
    """Return the loss of every document, NaN for one without two tokens."""
    losses = np.full(len(records.documents), math.nan)
    plain = replace(records, starts=None)
    for indices, batch in plain.blocks(np.arange(len(losses)), adapted.vocabulary):
        scored = batch.mask[: len(indices)].sum(axis=1) > 1
        losses[indices[scored]] = adapted.losses(batch)[: len(indices)][scored]
    return losses


def mean_loss(adapted: AdaptedModel, records: TextRecords) -> float:
    """Return the mean loss of the documents, without those that have none."""
    losses = document_losses(adapted, records)
    known = losses[np.isfinite(losses)]
    return float(known.mean()) if len(known) else math.nan


# ── For the owner only: computed without a budget and never stored ────────────────────────────────


def trial_losses(
    run: TextRun, stage: Callable[[str], Callable[[int, int], None] | None]
) -> tuple[float, float, float]:
    """Return the mean held-out losses of base, private and usual adapters.

    Both adapters are trained on four fifths of the records with the same settings, one with noise
    and one without noise and clipping.
    """
    count = len(run.records)
    tested = np.random.default_rng(0).permutation(count)[: max(1, count // _KEPT_BACK)]
    held, rest = run.records.split(tested)
    adapted, found = run.adapted, []
    seed = None if run.seed is None else run.seed + 1
    noises = {"trial with noise": Noise(run.scale, seed=seed), "trial without noise": Silence()}
    with ONE_AT_A_TIME, no_warnings, adapted.attach():
        adapted.weights = np.zeros(adapted.size)
        found.append(mean_loss(adapted, held))
        for name, noise in noises.items():
            settings = run.training
            if isinstance(noise, Silence):
                settings = replace(settings, clip=_NO_CLIP)
            last = train_adapters(adapted, rest, settings, noise, progress=stage(name))
            adapted.weights = last.mean
            found.append(mean_loss(adapted, held))
    return found[0], found[1], found[2]
