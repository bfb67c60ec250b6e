"""Low-rank adapters on a frozen language model, and per-document gradients (X31).

An adapter adds ``P·M·A·x`` to the output of a linear layer.  P and A are public and fixed; only the
small matrix M, which starts at zero, is trained, so noise is added to few numbers.  The head of a
classifier is trained whole: its P and A lose nothing but what all classes have in common.  Every
document of a batch has its own copy of M, so one backward pass returns the gradients of all
documents.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.network_modules import torch_module

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

#: Relative difference allowed between two computations of one gradient (single precision).
_TOLERANCE = 1e-3
#: Variance below which the inputs of a head are not scaled up, relative to their first direction
#: (their mean, nearly), and the rate of its steps, relative to the adapters.
_LEAST_VARIANCE, _HEAD_RATE = 1e-3, 6.0
#: Seed, number and length of the public texts.
_SEED, _PUBLIC_TEXTS, _PUBLIC_LENGTH = 31, 64, 48


@dataclass(eq=False)
class Adapter:
    """An adapter of one linear layer, which adds ``left·middle·down·x`` to the layer's output.

    ``down`` (rank, inputs) and ``left`` (outputs, rank) are public; ``middle`` is trained.  With
    ``shifted``, ``middle`` has one more column, for an input that is always 1.
    """

    name: str
    layer: Module
    down: Tensor
    left: Tensor
    middle: Tensor
    shifted: bool = False
    #: One copy of ``middle`` per document of a batch, while gradients are computed.
    copies: Tensor | None = None

    def add(self, _layer: Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Add the adapter's output to the layer's (a forward hook)."""
        inner = inputs[0] @ self.down.T
        if self.shifted:
            inner = torch_module().nn.functional.pad(inner, (0, 1), value=1.0)
        if self.copies is None:
            inner = inner @ self.middle.T
        elif inner.dim() == 2:  # one vector per document, as in a head of classes
            inner = (inner[:, None, :] @ self.copies.transpose(1, 2))[:, 0, :]
        else:
            inner = inner @ self.copies.transpose(1, 2)
        return output + inner @ self.left.T

    @property
    def up(self) -> Tensor:
        """The up-projection B of peft's format, which includes ``middle``."""
        return self.left @ self.middle

    def parameters(self) -> dict[str, Tensor]:
        """Return what a layer of its own would have: its weight and, if shifted, its bias."""
        inside = self.middle[:, :-1] if self.shifted else self.middle
        found = {"weight": self.left @ inside @ self.down}
        return found | ({"bias": self.left @ self.middle[:, -1]} if self.shifted else {})


@dataclass(frozen=True)
class Batch:
    """Documents padded to one length: token ids, and a mask of the real tokens."""

    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    #: Classes of the documents, for a classifier.
    labels: NDArray[np.int64] | None = None


#: Computes the loss of every document of a batch from the model's outputs.
Losses = Callable[[Any, Batch], Any]


class AdaptedModel:
    """A frozen model with adapters on its linear layers; ``weights`` is one vector of all B."""

    def __init__(
        self,
        model: Module,
        rank: int,
        losses: Losses,
        *,
        texts: Batch | None = None,
        head: str | None = None,
    ) -> None:
        """Adapt a model, and train its ``head`` whole; ``texts`` are public."""
        self.model = model.requires_grad_(False).eval()
        self._losses = losses
        self.head = head
        public = sample_texts(self.model) if texts is None else texts
        self.adapters = public_adapters(self.model, rank, losses, public, head)
        if not self.adapters:
            raise InputError("lm must use its linear layers, got no use of any.")

    @property
    def size(self) -> int:
        """The number of trained weights."""
        return sum(adapter.middle.numel() for adapter in self.adapters)

    @property
    def rates(self) -> FloatArray:
        """The rate of every trained weight, in that of the training: a head learns faster."""
        sizes = [adapter.middle.numel() for adapter in self.adapters]
        rates = [_HEAD_RATE if adapter.name == self.head else 1.0 for adapter in self.adapters]
        return np.repeat(rates, sizes)

    @property
    def device(self) -> Any:
        """The device of the model's weights."""
        return next(self.model.parameters()).device

    @property
    def vocabulary(self) -> int:
        """The number of the model's outputs per token."""
        return int(getattr(self.model.config, "vocab_size", 1))

    @property
    def weights(self) -> FloatArray:
        """The trained weights as one vector."""
        parts = [adapter.middle.double().cpu().numpy().ravel() for adapter in self.adapters]
        return np.concatenate(parts)

    @weights.setter
    def weights(self, vector: FloatArray) -> None:
        torch, start = torch_module(), 0
        for adapter in self.adapters:
            end = start + adapter.middle.numel()
            part = torch.from_numpy(np.ascontiguousarray(vector[start:end]))
            adapter.middle = part.view_as(adapter.middle).to(adapter.middle)
            start = end

    def random_weights(self, rng: np.random.Generator) -> FloatArray:
        """Return random weights with which every adapter adds about a fifth of its input's norm."""
        parts = []
        for adapter in self.adapters:
            rows, columns = adapter.middle.shape
            size = float(adapter.left.norm()) / math.sqrt(rows)
            spread = (0.2 / size if size > 0 else 0.2) / math.sqrt(columns)
            parts.append(spread * rng.normal(size=rows * columns))
        return np.concatenate(parts)

    @contextmanager
    def attach(self) -> Iterator[Module]:
        """Attach the adapters to the layers."""
        hooks = [each.layer.register_forward_hook(each.add) for each in self.adapters]
        try:
            yield self.model
        finally:
            for hook in hooks:
                hook.remove()

    def losses(self, batch: Batch) -> FloatArray:
        """Return the loss of every document."""
        with torch_module().no_grad():
            found = self._losses(self.model, batch)
        return np.asarray(found.double().cpu().numpy())

    def gradients(self, batch: Batch) -> list[Tensor]:
        """Return per-document gradients: a tensor (documents, weights) for each adapter."""
        torch, rows = torch_module(), len(batch.ids)
        copies = []
        for adapter in self.adapters:
            copy = adapter.middle.expand(rows, *adapter.middle.shape).clone().requires_grad_(True)
            adapter.copies = copy
            copies.append(copy)
        try:
            # The sum's gradient separates by document, because each one has its own copies.
            total = self._losses(self.model, batch).sum()
            found = torch.autograd.grad(total, copies, allow_unused=True)
        finally:
            for adapter in self.adapters:
                adapter.copies = None
        unused = [a.name for a, g in zip(self.adapters, found, strict=True) if g is None]
        if unused:
            raise InputError(f"lm must use every layer with an adapter, got {unused[0]} unused.")
        return [gradient.reshape(rows, -1) for gradient in found]


def _linear_layers(model: Module) -> list[tuple[str, Module]]:
    """Return the linear layers inside the blocks of a model, by name."""
    torch = torch_module()
    conv = torch_module("transformers.pytorch_utils").Conv1D
    found = []
    for name, layer in model.named_modules():
        parts = name.split(".")
        if isinstance(layer, (torch.nn.Linear, conv)) and any(part.isdigit() for part in parts):
            found.append((name, layer))
    return found


def largest_rank(model: Module) -> int | None:
    """Return the rank that a matrix of the largest linear layer can have, None without layers."""
    return max((min(_sizes(layer)) for _, layer in _linear_layers(model)), default=None)


def _sizes(layer: Module) -> tuple[int, int]:
    """Return the output and input sizes of a linear layer."""
    if hasattr(layer, "nf"):  # Conv1D of transformers keeps the transposed matrix
        inputs, outputs = layer.weight.shape
    else:
        outputs, inputs = layer.weight.shape
    return int(outputs), int(inputs)


# ── Public projections, from texts that the base model generates
# ───────────────────────────────────


def public_adapters(
    model: Module, rank: int, losses: Losses, texts: Batch, head: str | None = None
) -> list[Adapter]:
    """Return adapters with both projections computed from the base model and public texts alone.

    On these texts, A holds the principal directions of a layer's inputs, and the left factor those
    of the gradients of its outputs.  So a gradient of few numbers keeps most of its norm, and noise
    is added to few numbers only.  Layers are scaled so that their gradients have equal norms, and
    norm 1 together (root mean square over the texts).  The layer ``head`` keeps all directions, and
    has norm 1 by itself.

    Guarantee: a function of the model, of the texts and of public settings.
    """
    torch, layers = torch_module(), _linear_layers(model)
    if not layers:
        raise InputError("lm must be a model with linear layers in blocks, got one without.")
    if head is not None:
        layers = [*layers, (head, model.get_submodule(head))]
    inputs: dict[str, Tensor] = {}
    offsets: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def hook(_layer: Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            inputs[name] = given[0].detach().reshape(-1, given[0].shape[-1]).double()
            offsets[name] = torch.zeros_like(output, requires_grad=True)
            return output + offsets[name]

        return hook

    hooks = [layer.register_forward_hook(watch(name)) for name, layer in layers]
    try:
        total = losses(model, texts).sum()
    finally:
        for hook in hooks:
            hook.remove()
    used = [(name, layer) for name, layer in layers if name in offsets]
    found = torch.autograd.grad(total, [offsets[name] for name, _ in used], allow_unused=True)
    count = len(used) - (head is not None)
    adapters = []
    for (name, layer), slope in zip(used, found, strict=True):
        if slope is None:
            continue
        gradient = slope.double()
        flat = gradient.reshape(-1, gradient.shape[-1])
        whole = name == head
        # The losses of a classifier do not see what is added to the scores of all classes.
        outer_rank, inner_rank = rank, rank
        if whole:
            outer_rank, inner_rank = flat.shape[1] - 1, inputs[name].shape[1]
        down = _main_directions(inputs[name], inner_rank).T
        if whole:
            down = _whiten(down, inputs[name])
        left = _contrasts(flat) if whole else _main_directions(flat, outer_rank)
        inner = (inputs[name] @ down.T).reshape(len(texts.ids), -1, inner_rank)
        outer = (flat @ left).reshape(len(texts.ids), -1, outer_rank)
        each = outer.transpose(1, 2) @ inner
        size = float(each.square().sum((1, 2)).mean().sqrt())
        size *= 1.0 if whole else math.sqrt(count)
        left = left / size if size > 0 else left
        shifted = whole and getattr(layer, "bias", None) is not None
        middle = torch.zeros(outer_rank, inner_rank + shifted, device=down.device)
        adapters.append(Adapter(name, layer, down.float(), left.float(), middle, shifted))
    return adapters


def _whiten(directions: Tensor, rows: Tensor) -> Tensor:
    """Return directions scaled such that rows vary equally in each, but for the smallest.

    Otherwise what all documents have in common would use up the clip.
    """
    sizes = (rows @ directions.T).square().mean(0)
    scaled: Tensor = directions / sizes.clamp(min=_LEAST_VARIANCE * sizes.max()).sqrt()[:, None]
    return scaled


def _contrasts(scores: Tensor) -> Tensor:
    """Return an orthonormal basis of the vectors with entries that sum to zero, as columns."""
    torch = torch_module()
    classes = scores.shape[1]
    ones = torch.full((classes, 1), 1.0, dtype=torch.float64, device=scores.device)
    basis, _ = torch.linalg.qr(torch.cat([ones, torch.eye(classes, device=scores.device)], 1))
    return basis[:, 1:classes]


def _main_directions(rows: Tensor, count: int) -> Tensor:
    """Return the principal directions of rows as orthonormal columns, padded with zeros."""
    torch = torch_module()
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    taken = vectors.flip(1)[:, :count]
    return torch.nn.functional.pad(taken, (0, count - taken.shape[1]))


def sample_texts(model: Module, count: int = _PUBLIC_TEXTS, length: int = _PUBLIC_LENGTH) -> Batch:
    """Return texts that the model generates from a fixed seed."""
    torch = torch_module()
    limit = getattr(model.config, "max_position_embeddings", None)
    width = min(length, int(limit or length))
    generator = torch.Generator().manual_seed(_SEED)
    device = next(model.parameters()).device
    vocabulary = int(model.config.vocab_size)
    ids = torch.randint(vocabulary, (count, 1), generator=generator)
    start = model.config.bos_token_id
    if start is not None:
        ids = torch.full_like(ids, int(start))
    with torch.no_grad():
        for _ in range(width - 1):
            chances = torch.softmax(model(input_ids=ids.to(device)).logits[:, -1].double(), -1)
            ids = torch.cat([ids, torch.multinomial(chances.cpu(), 1, generator=generator)], 1)
    return Batch(ids.numpy(), np.ones(ids.shape, np.bool_))


def language_losses(model: Module, batch: Batch) -> Tensor:
    """Return the mean token loss of every document, 0 for a document without tokens.

    Padding is at the end, which a causal model's earlier tokens do not see.
    """
    torch = torch_module()
    device = next(model.parameters()).device
    ids, mask = (torch.from_numpy(part).to(device) for part in (batch.ids, batch.mask))
    logits = model(input_ids=ids).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    scored = mask[:, 1:]
    return torch.where(scored, losses, 0.0).sum(1) / scored.sum(1).clamp(min=1)


# ── Probes: a document's gradient must depend on that document alone
# ──────────────────────────────────


def check_model(adapted: AdaptedModel, length: int) -> None:
    """Reject a model that mixes the documents of a batch, or remembers documents.

    The probe's documents are public token ids from a fixed seed.  A document's gradient must be the
    same when it is alone, at other positions and among other documents, also with trained adapters.
    """
    torch = torch_module()
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    mixing = next((n for n, m in adapted.model.named_modules() if isinstance(m, batch_norm)), None)
    if mixing is not None:
        raise InputError(
            f"lm must treat every document by itself, got batch normalisation in {mixing!r}."
        )
    shared = _shared_weight(adapted)
    if shared is not None:
        raise InputError(
            f"lm must have a weight of its own in every layer of its blocks, got {shared!r}, which "
            "is used under another name too: merging adapters would change both."
        )
    rng = np.random.default_rng(_SEED)
    width = min(length, 8)
    tokens = rng.integers(0, adapted.vocabulary, (4, width))
    full = np.ones((4, width), dtype=np.bool_)
    part = full.copy()
    part[1:3, width // 2 :] = False
    before = {name: t.clone() for name, t in adapted.model.state_dict().items()}
    old = adapted.weights
    try:
        adapted.weights = adapted.random_weights(rng)
        with adapted.attach():
            # A document of the full length must do, whatever the secret ones have.
            whole = rng.integers(0, adapted.vocabulary, (1, length))
            adapted.losses(Batch(whole, np.ones((1, length), np.bool_), np.zeros(1, np.int64)))
            alone = _probe(adapted, tokens[:1], full[:1], 0)
            beside = [
                _probe(adapted, tokens, full, 0),
                _probe(adapted, np.roll(tokens, 2, axis=0), np.roll(part, 2, axis=0), 2),
                _probe(adapted, tokens[[0, 0, 0, 0]], full, 3),
                _probe(adapted, tokens[:1], full[:1], 0),
            ]
    except (RuntimeError, IndexError, ValueError, TypeError) as problem:
        raise InputError(f"lm must be a model that trains on any documents: {problem}") from None
    finally:
        adapted.weights = old
    allowed = _TOLERANCE * (float(np.linalg.norm(alone)) + _TOLERANCE)
    if not all(float(np.linalg.norm(other - alone)) <= allowed for other in beside):
        raise InputError(
            "lm must treat every document by itself, got a model whose gradient of a document "
            "depends on the other documents of a batch or on random numbers."
        )
    changed = [n for n, t in adapted.model.state_dict().items() if not torch.equal(t, before[n])]
    if changed:
        raise InputError(
            f"lm must remember nothing it is trained on, got a change of {changed[0]!r}."
        )


def _shared_weight(adapted: AdaptedModel) -> str | None:
    """Return the name of an adapted layer that shares its weight with another module."""
    counts = Counter(id(p) for _, p in adapted.model.named_parameters(remove_duplicate=False))
    named = ((each.name, id(each.layer.weight)) for each in adapted.adapters)
    return next((name for name, weight in named if counts[weight] > 1), None)


def _probe(
    adapted: AdaptedModel, ids: NDArray[np.int64], mask: NDArray[np.bool_], row: int
) -> FloatArray:
    """Return the gradient of one document of a batch."""
    labels = np.zeros(len(ids), dtype=np.int64)
    parts = adapted.gradients(Batch(ids, mask, labels))
    return np.concatenate([part[row].double().cpu().numpy() for part in parts])
