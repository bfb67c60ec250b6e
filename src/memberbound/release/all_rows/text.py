"""Language models fine-tuned on all documents, in the neighbour game (X31).

:func:`fit_text` trains adapters by DP-SGD on documents, or on persons with all of their documents.
The release is a folder in peft's format with a certificate and a page for people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.certificate import Certificate
from memberbound.learners.adapters import module_tensor_name, tensor_names
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.text_adapters import (
    AdaptedModel,
    check_model,
    language_losses,
    sample_texts,
)
from memberbound.release.all_rows.text_budget import TextBudget
from memberbound.release.all_rows.text_classes import TextClasses
from memberbound.release.all_rows.text_training import (
    Noise,
    Silence,
    TextRecords,
    TextTraining,
    TrainingState,
    encode_documents,
    train_adapters,
)
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise, check_eta_range
from memberbound.release.randomness import RandomSource, source_from_seed
from memberbound.release.release_file import Writer, tensor_writer
from memberbound.tables.texts import Documents
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

#: The kinds of release, as certificates state them.
LANGUAGE_MODEL, TEXT_CLASSIFIER = (
    "language model of all documents",
    "text classifier of all documents",
)
#: A trial holds out one record in this many.
_KEPT_BACK = 5
#: Texts to show the owner.
_EXAMPLES = 3
#: Tokens of a canary.
_CANARY_TOKENS = 24


def tokenize_records(
    tokenizer: PreTrainedTokenizerBase,
    documents: Documents,
    length: int,
    classes: TextClasses | None = None,
) -> TextRecords:
    """Return the token ids of secret documents, with classes also their labels."""
    closed, labels = classes is not None, None if classes is None else classes.codes(documents)
    coded = encode_documents(tokenizer, documents.texts, length, closed=closed)
    return TextRecords(coded, length, documents.starts, labels)


@dataclass(frozen=True, eq=False)
class Canaries:
    """Made-up documents, each inserted with probability ½; otherwise an empty one replaces it."""

    texts: tuple[str, ...]
    coins: NDArray[np.bool_]
    labels: tuple[str, ...] | None = None

    def insert(self, documents: Documents) -> Documents:
        """Return the documents with one record added for every canary."""
        last = len(documents)
        texts = [t if coin else "" for t, coin in zip(self.texts, self.coins, strict=True)]
        starts = documents.starts
        if starts is not None:
            starts = np.append(starts, last + np.arange(len(texts)))
        labels = documents.labels
        if labels is not None and self.labels is not None:
            pairs = zip(self.labels, self.coins, strict=True)
            labels = [*labels, *(label if coin else None for label, coin in pairs)]
        texts = [*documents.texts, *texts]
        return replace(documents, texts=texts, starts=starts, labels=labels)

    def records(
        self, tokenizer: PreTrainedTokenizerBase, length: int, classes: TextClasses | None
    ) -> TextRecords:
        """Return the token ids of all canaries, whatever their coins."""
        documents = Documents(self.texts, "canaries", labels=self.labels)
        return tokenize_records(tokenizer, documents, length, classes)


def draw_canaries(
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    source: RandomSource,
    classes: Sequence[str] = (),
) -> Canaries:
    """Draw canaries, texts of random tokens, their coins and, with classes, their labels."""
    words = source.words(count * (_CANARY_TOKENS + 2)).reshape(count, -1)
    ids = (words[:, 2:] % np.uint64(len(tokenizer))).astype(np.int64)
    texts = tuple(str(tokenizer.decode(row.tolist(), skip_special_tokens=True)) for row in ids)
    labels = None
    if classes:
        labels = tuple(classes[k] for k in (words[:, 1] % np.uint64(len(classes))).tolist())
    return Canaries(texts, (words[:, 0] & np.uint64(1)).astype(np.bool_), labels)


@dataclass(frozen=True, eq=False)
class PrivateText:
    """Released adapters of a language model, with their budget."""

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
    classes: TextClasses | None = None

    @property
    def kind(self) -> str:
        """The kind that its certificate states."""
        return LANGUAGE_MODEL if self.classes is None else TEXT_CLASSIFIER

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
        about: dict[str, object] = {}
        if self.classes is not None:
            about = self.classes.certificate_fields(self.training.length)
        return self.calibration_.certificate_fields(
            self.kind,
            **about,
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
        whole = None if self.classes is None else list(self.classes.modules)
        return {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM" if whole is None else "SEQ_CLS",
            "base_model_name_or_path": base,
            "r": self.training.rank,
            "lora_alpha": self.training.rank,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": self.transposed,
            "inference_mode": True,
            "target_modules": list(self.layers),
            **({} if whole is None else {"modules_to_save": whole}),
        }


def released_tensors(
    adapted: AdaptedModel, classes: TextClasses | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the matrices of all adapters under peft's names, and a classifier's head."""
    tensors = {} if classes is None else classes.tensors(adapted.model)
    for adapter in adapted.adapters:
        if classes is not None and adapter.name == classes.head:
            # The layer itself is 0, and stored with its adapter in it.
            for name, value in adapter.parameters().items():
                array = value.cpu().numpy()
                tensors[module_tensor_name(f"{adapter.name}.{name}")] = np.ascontiguousarray(array)
            continue
        down, up = tensor_names(adapter.name)
        tensors[down] = np.ascontiguousarray(adapter.down.cpu().numpy())
        tensors[up] = np.ascontiguousarray(adapter.up.cpu().numpy())
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
    classes: TextClasses | None = None
    #: The budget, if a share of it has named the classes.
    planned: TextBudget | None = None
    adapted: AdaptedModel = field(init=False)
    budget: TextBudget = field(init=False)

    def __post_init__(self) -> None:
        check_eta_range(self.eta)
        self.adapted = adapt_model(self.model, self.training, self.classes)
        weights, budget = self.adapted.size, self.planned
        if budget is None:
            public = () if self.classes is None else (self.classes.column,)
            budget = TextBudget.for_training(
                self.eta, self.training, weights, self.unit, bounds=public
            )
        budget = budget.describe_steps(self.training, len(self.records), weights)
        source = source_from_seed(self.seed)
        self.budget = replace(budget, source=source)

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
        adapted = self.adapted
        coded = canaries.records(tokenizer, self.training.length, self.classes)
        released = adapted.weights
        found = []
        with ONE_AT_A_TIME, no_warnings, adapted.attach():
            for weights in (np.zeros(adapted.size), released):
                adapted.weights = weights
                found.append(document_losses(adapted, coded))
        return np.nan_to_num(found[0] - found[1])

    def examples(self, tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
        """Return texts that a released language model writes: post-processing."""
        with ONE_AT_A_TIME, no_warnings, self.adapted.attach() as model:
            batch = sample_texts(model, _EXAMPLES, self.training.length)
        decoded = (tokenizer.decode(row.tolist(), skip_special_tokens=True) for row in batch.ids)
        return tuple(" ".join(str(text).split()) for text in decoded)

    def release(self, weights: FloatArray) -> PrivateText:
        """Return the release with these weights, which are computed from noisy sums."""
        self.adapted.weights = weights
        head = None if self.classes is None else self.classes.head
        adapters = [adapter for adapter in self.adapted.adapters if adapter.name != head]
        return PrivateText(
            released_tensors(self.adapted, self.classes),
            self.training,
            self.budget,
            self.scale,
            self.eta,
            len(self.records),
            len(self.records.documents),
            tuple(adapter.name for adapter in adapters),
            self.seed is None,
            any(hasattr(adapter.layer, "nf") for adapter in adapters),
            self.adapted.size,
            self.classes,
        )


def adapt_model(
    model: Module, training: TextTraining, classes: TextClasses | None = None
) -> AdaptedModel:
    """Put adapters on a model, and refuse one that does not treat every document by itself."""
    with ONE_AT_A_TIME, no_warnings:
        if classes is None:
            adapted = AdaptedModel(model, training.rank, language_losses)
        else:
            adapted = classes.adapt(model, training.rank)
        check_model(adapted, training.length)
    return adapted


def document_losses(adapted: AdaptedModel, records: TextRecords) -> FloatArray:
    """Return the loss of every document, NaN for one without two tokens or a listed label."""
    losses = np.full(len(records.documents), math.nan)
    plain = replace(records, starts=None)
    for indices, batch in plain.blocks(np.arange(len(losses)), adapted.vocabulary):
        scored = batch.mask[: len(indices)].sum(axis=1) > 1
        if batch.labels is not None:
            scored = batch.labels[: len(indices)] >= 0
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
    and one without.  Both clip, since the rates of the settings may be too large without.
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
            last = train_adapters(adapted, rest, run.training, noise, progress=stage(name))
            adapted.weights = last.mean
            found.append(mean_loss(adapted, held))
    return found[0], found[1], found[2]
