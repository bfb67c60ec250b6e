"""Text classifiers: labels, a head that is trained whole, and predictions (X31).

A document comes with its label, which is as secret as the document.  The set of classes is public,
or named from a noisy histogram that pays a share of μ².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.certificate import Certificate
from memberbound.errors import InputError, TooFewRowsError
from memberbound.games import NeighbourGame
from memberbound.learners.adapters import merge_adapter, module_tensor_name
from memberbound.learners.language_models import load_language_model, load_text_classifier
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.histograms import CLASS_SCALES, MOST_CLASSES, noisy_names
from memberbound.release.all_rows.network_modules import torch_module
from memberbound.release.all_rows.text_adapters import AdaptedModel, Batch, sample_texts
from memberbound.release.all_rows.text_training import TextRecords, encode_documents
from memberbound.release.budget import HISTOGRAM_MOVES, BudgetShare
from memberbound.release.saving import check_certificate
from memberbound.tables.columns import read_column, read_value
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records
from memberbound.tables.texts import Documents, read_secret_documents
from memberbound.tables.values import Values

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

#: Key of a certificate for the classification of documents.
ABOUT = "classifier"
#: Seed of the public labels and of the head that public directions are computed with.
_SEED, _PUBLIC_TEXTS, _PUBLIC_LENGTH = 32, 64, 48


# ── The set of classes ────────────────────────────────────────────────────────────────────────────


def check_classes(
    names: str | Sequence[object] | None, label: str | None
) -> tuple[str, ...] | None:
    """Return public classes, spelled as labels are read; None if noisy counts name them.

    Examples:
        >>> check_classes(["spam", 1], "kind")
        ('spam', '1')
    """
    if names is None:
        return None
    if label is None:
        raise InputError("classes must come with label, the column of the labels.")
    listed = names.split(",") if isinstance(names, str) else list(names)
    read = [read_value(str(name))[1] for name in listed]
    spelled = [name for name in read if name]
    if len(spelled) < 2 or len(set(spelled)) < len(listed):
        raise InputError(f"classes must be at least two different names, got {listed!r}.")
    return tuple(spelled)


def label_values(documents: Documents) -> Values:
    """Return the labels of documents, each read by itself."""
    assert documents.labels is not None
    return read_column(list(documents.labels))


def learn_classes_once(
    documents: Documents, label: str, share: BudgetShare, known: Sequence[str] | None
) -> tuple[str, ...]:
    """Name the classes that many records have, from a noisy histogram.

    A run that continues has ``known`` ones: the histogram was measured before it was stopped.

    Guarantee: a record moves the histogram by at most √2; a class of a single record is named with
    probability at most ``CLASS_SLACK``.
    """
    sums = share.sums(sensitivity=HISTOGRAM_MOVES)
    if known is not None:
        sums.coordinates = 2
        return tuple(known)
    rows, persons = len(documents), None
    if documents.starts is not None:
        persons = Persons(documents.starts, rows)
    records = Records({label: label_values(documents)}, rows, persons=persons)
    names = noisy_names(records, label, sums)
    if len(names) < 2:
        raise TooFewRowsError(
            f"label {label!r} must have at least two classes, each of more than about "
            f"{1 + CLASS_SCALES * sums.scale:.0f} records, got {len(names)}; at most "
            f"{MOST_CLASSES} are named. If the classes are public, give them with --classes."
        )
    return names


# ── A model with a head ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class TextClasses:
    """The classes of a text classifier, and what its model has beside a language model.

    ``head`` is the layer that gives the scores, ``modules`` those that are stored whole; ``texts``
    are public documents with public labels; a model that reads ``both_ways`` needs a mask.
    """

    column: str
    text: str
    names: tuple[str, ...]
    head: str
    modules: tuple[str, ...]
    texts: Batch
    both_ways: bool

    def losses(self, model: Module, batch: Batch) -> Tensor:
        """Return the log loss of every document's label, 0 for one without a listed label."""
        torch = torch_module()
        assert batch.labels is not None
        found = scores(model, batch, self.both_ways)
        labels = torch.from_numpy(batch.labels).to(found.device)
        goals = labels.clamp(min=0)
        losses = torch.nn.functional.cross_entropy(found, goals, reduction="none")
        return torch.where(labels >= 0, losses, torch.zeros_like(losses))

    def adapt(self, model: Module, rank: int) -> AdaptedModel:
        """Return the model with adapters and a head with all scores 0.

        Public directions are computed with a head from a seed, since one of zeros has no gradient.
        """
        torch = torch_module()
        head = model.get_submodule(self.head)
        generator = torch.Generator().manual_seed(_SEED)
        drawn = torch.randn(head.weight.shape, generator=generator).to(head.weight)
        head.weight.data = drawn
        with torch.no_grad():
            size = float(scores(model, self.texts, self.both_ways).double().std())
        head.weight.data = drawn / size if size > 0 else drawn
        try:
            return AdaptedModel(model, rank, self.losses, texts=self.texts, head=self.head)
        finally:
            head.weight.data = torch.zeros_like(drawn)

    def codes(self, documents: Documents) -> NDArray[np.int64]:
        """Return the class of every document, -1 for one without a listed label."""
        return label_values(documents).positions(self.names)

    def tensors(self, model: Module) -> dict[str, NDArray[np.float32]]:
        """Return the parameters of the modules that are stored whole, under peft's names."""
        stored = {}
        for name, parameter in model.named_parameters():
            if any(name.startswith(f"{module}.") for module in self.modules):
                array = parameter.detach().cpu().numpy()
                stored[module_tensor_name(name)] = np.ascontiguousarray(array)
        return stored

    def certificate_fields(self, length: int) -> dict[str, object]:
        """Return what is needed to classify documents."""
        about = {"text": self.text, "label": self.column, "length": length}
        return {ABOUT: about | {"classes": list(self.names)}}


def check_tokens(model: Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with more tokens than the model, before a document has one of them."""
    known = int(model.get_input_embeddings().num_embeddings)
    if len(tokenizer) > known:
        raise InputError(
            f"lm must know all tokens of its tokenizer, got {len(tokenizer)} tokens and a model of "
            f"{known}."
        )


def load_base(
    folder: str | Path, text: str, label: str | None = None, names: Sequence[str] | None = None
) -> tuple[Module, PreTrainedTokenizerBase, TextClasses | None]:
    """Load a base model; with ``label`` one that classifies, and make public texts for it.

    Classes that are not known yet are replaced by two.
    """
    if label is None:
        model, tokenizer = load_language_model(folder, "lm")
        check_tokens(model, tokenizer)
        check_causal(model)
        return model, tokenizer, None
    names = ("0", "1") if names is None else names
    model, tokenizer, head, modules = load_text_classifier(folder, "lm", len(names))
    check_tokens(model, tokenizer)
    texts = _public_texts(folder, model, tokenizer)
    generator = np.random.default_rng(_SEED)
    labels = generator.integers(0, len(names), len(texts.ids))
    texts = replace(texts, labels=labels)
    found = TextClasses(label, text, tuple(names), head, modules, texts, reads_both_ways(model))
    return model, tokenizer, found


def _public_texts(folder: str | Path, model: Module, tokenizer: PreTrainedTokenizerBase) -> Batch:
    """Return texts that the base model writes, or random tokens for one that reads both ways.

    Random texts have all lengths: of equally long ones, a model may make nearly the same.
    """
    if tokenizer.cls_token_id is None:
        return sample_texts(load_language_model(folder, "lm")[0])
    limit = getattr(model.config, "max_position_embeddings", None)
    width = min(_PUBLIC_LENGTH, int(limit or _PUBLIC_LENGTH + 1) - 1)
    generator = np.random.default_rng(_SEED)
    ids = generator.integers(0, int(model.config.vocab_size), (_PUBLIC_TEXTS, width))
    ids[:, 0] = tokenizer.cls_token_id
    lengths = np.linspace(2, width, _PUBLIC_TEXTS).astype(np.int64)
    if tokenizer.sep_token_id is not None:
        ids[np.arange(_PUBLIC_TEXTS), lengths - 1] = tokenizer.sep_token_id
    return Batch(ids, np.arange(width) < lengths[:, None])


def scores(model: Module, batch: Batch, both_ways: bool) -> Tensor:
    """Return the scores of every document's classes.

    Documents are padded at their end, where a causal model's earlier tokens do not look.  Others
    get a mask; one token more is masked in every document, since libraries compute without a mask,
    and round differently, if no document of a block is padded.
    """
    torch = torch_module()
    device = next(model.parameters()).device
    ids = np.where(batch.mask, batch.ids, model.config.pad_token_id)
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if both_ways:
        mask = np.pad(batch.mask.astype(np.int64), ((0, 0), (0, 1)))
        mask[:, 0] = 1
        padded = np.pad(ids, ((0, 0), (0, 1)), constant_values=model.config.pad_token_id)
        given = {"input_ids": padded, "attention_mask": mask}
    tensors = {name: torch.from_numpy(value).to(device) for name, value in given.items()}
    found: Tensor = model(**tensors).logits
    return found


def reads_both_ways(model: Module) -> bool:
    """Return whether a token is read in view of later ones."""
    torch = torch_module()
    with torch.no_grad():
        pair = torch.tensor([[1, 2, 3], [1, 2, 0]], device=next(model.parameters()).device)
        found = getattr(model, "base_model", model)(input_ids=pair)
    first = getattr(found, "last_hidden_state", None)
    first = (found.logits if first is None else first)[:, 0]
    return not torch.allclose(first[0], first[1], atol=1e-6)


def check_causal(model: Module) -> None:
    """Refuse a language model that sees the token that it predicts."""
    if reads_both_ways(model):
        raise InputError(
            "lm must predict a token from earlier ones alone, got a model that reads both ways. "
            "Such a model can classify documents: give label."
        )


# ── Predictions ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class TextClassifier:
    """A released text classifier on its base model."""

    model: Module
    tokenizer: PreTrainedTokenizerBase
    text: str
    length: int
    class_names: tuple[str, ...]
    certificate: Mapping[str, Any]
    both_ways: bool

    @property
    def certificate_(self) -> Certificate:
        """The certificate of η, as it is stored beside the adapters."""
        stated = self.certificate["certificate"]
        value, theorems = float(stated["upper"]), tuple(stated["theorems"])
        return Certificate(
            "eta", value, "upper", NeighbourGame(), theorems, tuple(stated["assumptions"])
        )

    def encode(
        self,
        table: object,
        database_table: str | None = None,
        *,
        encoding: str | None = None,
        strict: bool | None = None,
    ) -> tuple[TextRecords, tuple[str, ...]]:
        """Return the tokens of documents, and notices."""
        if database_table is not None or encoding is not None:
            raise InputError("table and encoding must not be given with documents.")
        documents = read_secret_documents(table, self.text)
        empty = sum(not text.strip() for text in documents.texts)
        notice = f"{empty} of {len(documents)} documents are empty or no texts"
        if strict and empty:
            raise InputError(f"{notice}. Without strict they are classified like the others.")
        notices = (notice,) if empty and strict is not None else ()
        return self.tokenize(documents.texts), notices

    def tokenize(self, texts: Sequence[object]) -> TextRecords:
        """Return the tokens of documents; a value that is not a text is an empty document."""
        known = [text if isinstance(text, str) else "" for text in texts]
        coded = encode_documents(self.tokenizer, known, self.length, closed=True)
        return TextRecords(coded, self.length)

    def probabilities(self, rows: TextRecords) -> FloatArray:
        """Return the probabilities of the classes of every document."""
        torch = torch_module()
        found = np.empty((len(rows), len(self.class_names)))
        with torch.no_grad():
            for indices, batch in rows.blocks(np.arange(len(rows)), 1):
                answers = torch.softmax(scores(self.model, batch, self.both_ways).double(), -1)
                found[indices] = answers.cpu().numpy()[: len(indices)]
        return found

    def predict_encoded(self, rows: TextRecords) -> NDArray[np.object_]:
        """Return the most probable class of every document."""
        names = np.array(self.class_names, dtype=object)
        return np.asarray(names[self.probabilities(rows).argmax(1)])

    def predict(self, table: object) -> NDArray[np.object_]:
        """Return the most probable class of every document of a table or a file."""
        rows, _ = self.encode(table)
        return self.predict_encoded(rows)


def load_released_classifier(
    path: Path, lm: Callable[..., object] | str | Path | None, _features: object = None
) -> TextClassifier:
    """Read the adapters of a text classifier and put them on its base model, the folder ``lm``."""
    if lm is None or callable(lm):
        raise InputError("lm must be given for a text classifier: the folder of its base model.")
    certificate = check_certificate(path)
    about: Mapping[str, Any] = certificate[ABOUT]  # type: ignore[assignment]
    names = tuple(map(str, about["classes"]))
    model, tokenizer, _, _ = load_text_classifier(lm, "lm", len(names))
    model = merge_adapter(model, path.parent, "model").requires_grad_(False).eval()
    length, text = int(about["length"]), str(about["text"])
    both_ways = reads_both_ways(model)
    return TextClassifier(model, tokenizer, text, length, names, certificate, both_ways)
