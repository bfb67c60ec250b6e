"""Language models in local folders, for the log-probabilities of documents' tokens.

Nothing is downloaded, executed or unpickled: weights are read from safetensors files, and a folder
that needs more is rejected.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.declarations import Progress
from memberbound.errors import InputError
from memberbound.threads import ONE_AT_A_TIME

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

#: A causal language model and its tokenizer.
LanguageModel = tuple["Module", "PreTrainedTokenizerBase"]
#: Tokens per batch.
_BATCH_TOKENS = 4096
#: Maximum context length; longer documents are split into pieces with separate contexts.
_LONGEST = 1024
#: Files of which a tokenizer has one, beside those of SentencePiece.
_TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "tekken.json")
_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")


def check_folder(folder: str | Path, name: str) -> Path:
    """Require a folder with a configuration and safetensors weights, without code."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(
            f"{name} must be a local folder with a language model, got {str(folder)!r}."
        )
    if not (path / "config.json").is_file():
        raise InputError(f"{name} must hold config.json, got {str(folder)!r} without it.")
    try:
        settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{name} must hold a readable config.json.") from None
    code = sorted(file.name for file in path.glob("*.py"))
    if code or (isinstance(settings, dict) and "auto_map" in settings):
        what = code[0] if code else "auto_map in config.json"
        raise InputError(f"{name} must not need its own code, got {what}.")
    if not list(path.glob("*.safetensors")):
        pickled = [file.name for file in path.iterdir() if file.suffix in _PICKLED]
        other = f", got {pickled[0]}, which can run code when it is loaded" if pickled else ""
        raise InputError(f"{name} must hold its weights as safetensors{other}.")
    if not any(file.name in _TOKENIZERS or file.suffix == ".model" for file in path.iterdir()):
        raise InputError(f"{name} must hold its tokenizer, got no {_TOKENIZERS[0]}.")
    return path


def load_language_model(folder: str | Path, name: str) -> LanguageModel:
    """Load a causal language model and its tokenizer."""
    model, tokenizer, _ = _load(folder, name, "AutoModelForCausalLM")
    return model, tokenizer


def load_text_classifier(
    folder: str | Path, name: str, classes: int
) -> tuple[Module, PreTrainedTokenizerBase, str, tuple[str, ...]]:
    """Load a model with a head for classes, with all scores 0.

    Returned are the model, its tokenizer, the name of the layer that gives the scores, and the
    modules that the folder does not hold: their weights are drawn from a seed.
    """
    kind, sizes = "AutoModelForSequenceClassification", {"num_labels": classes}
    model, tokenizer, info = _load(folder, name, kind, ignore_mismatched_sizes=True, **sizes)
    heads = [n for n, layer in model.named_modules() if _is_head(n, layer, classes)]
    if not heads:
        raise InputError(f"{name} must be a model that takes a linear head of classes, got none.")
    with contextlib.suppress(StopIteration):
        pad = next(n for n in (tokenizer.pad_token_id, tokenizer.eos_token_id) if n is not None)
        model.config.pad_token_id = int(pad)
    if model.config.pad_token_id is None:
        raise InputError(f"{name} must have a tokenizer with a padding or an end token, got none.")
    head = model.get_submodule(heads[-1])
    for parameter in head.parameters():
        parameter.data.zero_()
    missing = {*info["missing_keys"], *(key[0] for key in info["mismatched_keys"])}
    modules = {_top(model, key) for key in (*missing, f"{heads[-1]}.weight")}
    return model, tokenizer, heads[-1], tuple(sorted(modules))


def _is_head(name: str, layer: Module, classes: int) -> bool:
    numbered = any(part.isdigit() for part in name.split("."))
    return not numbered and getattr(layer, "out_features", None) == classes


def _top(model: Module, parameter: str) -> str:
    """Return the outermost module of a parameter, inside the model without its head if there."""
    parts = parameter.split(".")
    return ".".join(parts[: 1 + (parts[0] == model.base_model_prefix)])


def _load(
    folder: str | Path, name: str, kind: str, **more: object
) -> tuple[Module, PreTrainedTokenizerBase, dict[str, Any]]:
    """Load a model and its tokenizer; weights that the folder lacks are drawn from a seed."""
    path = check_folder(folder, name)
    try:
        import torch
        import transformers
        from safetensors import SafetensorError
        from transformers import AutoTokenizer, logging
    except ImportError:
        raise InputError(
            "a language model needs PyTorch and transformers: pip install 'memberbound[text]'."
        ) from None
    local = {"local_files_only": True, "trust_remote_code": False}
    bars, loud = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # scoring shows its own bar
    logging.set_verbosity_error()
    given = {"use_safetensors": True, "output_loading_info": True, **local, **more}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), **local)
        with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, info = getattr(transformers, kind).from_pretrained(str(path), **given)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} could not be loaded from {path.name!r}: {first}") from None
    finally:
        logging.set_verbosity(loud)
        if bars:
            logging.enable_progress_bar()
    return model.to(torch.float32).eval(), tokenizer, info


def token_table(
    lm: LanguageModel,
    base: LanguageModel | None,
    texts: Sequence[str],
    member: Sequence[bool],
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the token table of documents, batch by batch, in order of length.

    The record of a document is its index among the texts.  The first token of a piece has a
    log-probability only if the tokenizer has a start token.

    Edge cases: different tokenizers of model and base are rejected, because their tokens cannot be
    compared, and so is a document without any log-probability.
    """
    import pyarrow as pa
    import torch

    model, tokenizer = lm
    if base is not None and base[1].get_vocab() != tokenizer.get_vocab():
        raise InputError("base must have the tokenizer of the model, got another.")
    pieces = list(_pieces(tokenizer, texts, _context(model, base)))
    pieces.sort(key=lambda piece: len(piece[2]))
    total, done = sum(len(ids) for _, _, ids in pieces), 0
    with torch.inference_mode():
        for group in _groups(pieces):
            width = max(len(ids) for _, _, ids in group)
            ids = torch.zeros((len(group), width), dtype=torch.long)
            mask = torch.zeros((len(group), width), dtype=torch.long)
            for row, (_, _, tokens) in enumerate(group):
                ids[row, : len(tokens)] = torch.tensor(tokens)
                mask[row, : len(tokens)] = 1
            columns = _statistics(model, ids, mask)
            if base is not None:
                columns["reference_logprob"] = _statistics(base[0], ids, mask)["logprob"]
            lengths = np.array([len(tokens) - 1 for _, _, tokens in group])
            scored = np.arange(width - 1)[None, :] < lengths[:, None]
            record = np.repeat([document for document, _, _ in group], lengths)
            start = np.repeat([first for _, first, _ in group], lengths)
            arrays = {
                "record": record.astype(str),
                "member": np.array(member, dtype=bool)[record],
                "position": start + np.tile(np.arange(width - 1), (len(group), 1))[scored],
            }
            arrays |= {name: values[scored] for name, values in columns.items()}
            yield pa.RecordBatch.from_pydict({name: pa.array(v) for name, v in arrays.items()})
            done += int(lengths.sum()) + len(group)
            if progress is not None:
                progress(done, total)


def _context(model: Module, base: LanguageModel | None) -> int:
    limits = [_LONGEST]
    for each in (model, *(() if base is None else (base[0],))):
        limit = getattr(each.config, "max_position_embeddings", None) or getattr(
            each.config, "n_positions", None
        )
        limits += [int(limit)] if limit else []
    return min(limits)


def _pieces(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], context: int
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (document, position of the first scored token, tokens), cut to the context."""
    start = tokenizer.bos_token_id
    head = [] if start is None else [int(start)]
    for document, text in enumerate(texts):
        tokens = [int(t) for t in tokenizer(text, add_special_tokens=False)["input_ids"]]
        step = context - len(head)
        usable = False
        for first in range(0, len(tokens), step):
            piece = head + tokens[first : first + step]
            if len(piece) > 1:
                usable = True
                yield document, first + (0 if head else 1), piece
        if not usable:
            raise InputError(
                f"documents must have at least {2 - len(head)} tokens, got fewer in document "
                f"{document + 1}."
            )


def _groups(pieces: list[tuple[int, int, list[int]]]) -> Iterator[list[tuple[int, int, list[int]]]]:
    """Yield groups of pieces of similar length that fit into a batch after padding."""
    group: list[tuple[int, int, list[int]]] = []
    for piece in pieces:
        if group and len(piece[2]) * (len(group) + 1) > _BATCH_TOKENS:
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _statistics(model: Module, ids: Tensor, mask: Tensor) -> dict[str, NDArray[np.generic]]:
    """Return the model's statistics of every token but the first, as (row, token) arrays."""
    import torch

    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].double()
    logp = torch.log_softmax(logits, dim=-1)
    target = ids[:, 1:].unsqueeze(-1)
    own = logp.gather(-1, target)
    probability = logp.exp()
    mean = (probability * logp).sum(-1)
    square = (probability * logp.square()).sum(-1)
    columns = {
        "logprob": own.squeeze(-1).clamp(max=0.0),
        "mean_logprob": mean.clamp(max=0.0),
        "std_logprob": (square - mean.square()).clamp(min=0.0).sqrt(),
        "rank": (logp > own).sum(-1) + 1,
    }
    return {name: values.numpy() for name, values in columns.items()}
