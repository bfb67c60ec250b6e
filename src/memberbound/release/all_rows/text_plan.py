"""Plan a language model's training from public numbers, and start it once its classes are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memberbound.release.all_rows.histograms import MOST_CLASSES
from memberbound.release.all_rows.network_modules import torch_module
from memberbound.release.all_rows.text import TextRun, adapt_model, tokenize_records
from memberbound.release.all_rows.text_adapters import largest_rank
from memberbound.release.all_rows.text_budget import TextBudget
from memberbound.release.all_rows.text_classes import (
    TextClasses,
    check_classes,
    learn_classes_once,
    load_base,
)
from memberbound.release.all_rows.text_settings import (
    check_length,
    default_training,
    fingerprint,
    whole_samples,
)
from memberbound.release.all_rows.text_training import TextTraining, TrainingState
from memberbound.release.randomness import source_from_seed
from memberbound.tables.texts import Documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase


def training_device() -> str:
    """Return the first GPU that computes in double precision as well, otherwise the CPU."""
    return "cuda" if torch_module().cuda.is_available() else "cpu"


class Store(Protocol):
    """The file with the classes and the last state of a run."""

    def classes(self) -> tuple[str, ...] | None:
        """Return the classes that were named before the run was stopped."""

    def keep_classes(self, names: tuple[str, ...]) -> None:
        """Store the classes."""

    def state(self, size: int) -> TrainingState:
        """Return the last state, for this number of weights."""


@dataclass
class TextBase:
    """A base model, loaded for language or for classes, and the lengths and settings it takes."""

    folder: Path
    text: str = "text"
    label: str | None = None
    classes: str | Sequence[object] | None = None
    names: tuple[str, ...] | None = field(init=False)
    model: Module = field(init=False)
    tokenizer: PreTrainedTokenizerBase = field(init=False)
    kinds: TextClasses | None = field(init=False)

    def __post_init__(self) -> None:
        self.names = check_classes(self.classes, self.label)
        self.load(self.names)

    def load(self, names: tuple[str, ...] | None) -> None:
        """Load the model, with a head of these classes."""
        model, self.tokenizer, self.kinds = load_base(self.folder, self.text, self.label, names)
        self.model = model.to(training_device())

    def fingerprint(self) -> str:
        """Return a SHA-256 of the folder's weights and tokenizer."""
        return fingerprint(self.folder)

    @property
    def open_classes(self) -> bool:
        """Whether noisy counts must name the classes."""
        return self.label is not None and self.names is None

    def training(
        self,
        records: int,
        eta: float,
        *,
        whole: bool = False,
        length: int | None = None,
        rank: int | None = None,
        steps: int | None = None,
        sample_rate: float | None = None,
        rate: float | None = None,
    ) -> TextTraining:
        """Return the settings; with ``whole`` every step takes all records, as a ledger needs."""
        masked = self.kinds is not None and self.kinds.both_ways
        settings = default_training(
            records,
            eta,
            length=check_length(self.model, length, masked=masked),
            most_rank=largest_rank(self.model),
            rank=rank,
            steps=steps,
            sample_rate=sample_rate,
            rate=rate,
        )
        if whole and settings.sample_rate < 1.0:
            return whole_samples(settings, given=sample_rate)
        return settings


@dataclass
class TextPlan:
    """A training run with a budget fixed by public numbers; :meth:`start` adds the noise."""

    base: TextBase
    documents: Documents
    training: TextTraining
    eta: float
    seed: int | None = None
    budget: TextBudget = field(init=False)
    _run: TextRun | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.base.open_classes:
            self.budget = self._open_budget()
        else:
            self._run = self._make_run(None)
            self.budget = self._run.budget

    def start(self, store: Store) -> tuple[TextRun, TrainingState]:
        """Name the classes unless they are known, and return the run and its last state."""
        if self._run is None:
            label, known = str(self.base.label), store.classes()
            names = learn_classes_once(self.documents, label, self.budget.shares[0], known)
            if known is None:
                store.keep_classes(names)
            self.base.load(names)
            self._run = self._make_run(self.budget)
        return self._run, store.state(self._run.adapted.size)

    def _make_run(self, planned: TextBudget | None) -> TextRun:
        base, documents = self.base, self.documents
        length, unit = self.training.length, documents.unit
        records = tokenize_records(base.tokenizer, documents, length, base.kinds)
        return TextRun(
            base.model, self.training, records, self.eta, unit, self.seed, base.kinds, planned
        )

    def _open_budget(self) -> TextBudget:
        """Return a budget with a share that pays for the names of classes."""
        adapted = adapt_model(self.base.model, self.training, self.base.kinds)
        head = adapted.adapters[-1].middle.numel()
        return TextBudget.for_training(
            self.eta,
            self.training,
            adapted.size + head * (MOST_CLASSES - 2),
            self.documents.unit,
            records_with_labels=self.documents.records,
            source=source_from_seed(None if self.seed is None else self.seed + 1),
        )
