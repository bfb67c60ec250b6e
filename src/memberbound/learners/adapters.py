"""Adapters of language models in peft's format: read them, and merge them into the base model.

An adapter folder holds ``adapter_config.json`` and ``adapter_model.safetensors`` with two matrices
per layer, A (rank, inputs) and B (outputs, rank); merging adds scale·B·A to the layer's matrix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, import_optional

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


def tensor_names(layer: str) -> tuple[str, str]:
    """Return the names of A and B of a layer.

    >>> tensor_names("h.0.mlp")
    ('base_model.model.h.0.mlp.lora_A.weight', 'base_model.model.h.0.mlp.lora_B.weight')
    """
    return f"{_PREFIX}{layer}.lora_A.weight", f"{_PREFIX}{layer}.lora_B.weight"


def module_tensor_name(parameter: str) -> str:
    """Return the name of a parameter of a module that is stored whole.

    >>> module_tensor_name("score.weight")
    'base_model.model.score.weight'
    """
    return f"{_PREFIX}{parameter}"


def is_adapter(folder: str | Path) -> bool:
    """Return whether a folder holds adapters instead of a model."""
    return (Path(folder) / CONFIG_FILE).is_file()


def read_adapter(folder: str | Path, name: str) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
    """Return the configuration and the tensors of an adapter folder."""
    path = Path(folder)
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise InputError(f"{name} must hold {WEIGHTS_FILE}, got {str(folder)!r} without it.")
    try:
        config = json.loads((path / CONFIG_FILE).read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{name} must hold a readable {CONFIG_FILE}.") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise InputError(f"{name} must hold low-rank adapters (peft_type LORA).")
    odd = next((k for k in ("use_dora", "use_rslora", "rank_pattern") if config.get(k)), None)
    if odd is not None:
        raise InputError(f"{name} must hold plain low-rank adapters, got {odd}.")
    tensors = import_optional("safetensors.torch", "for adapters", "text").load_file(str(weights))
    return config, tensors


def merge_adapter(model: Module, folder: str | Path, name: str) -> Module:
    """Merge the adapters of a folder into the matrices of their base model."""
    return merge_tensors(model, *read_adapter(folder, name), name)


def merge_tensors(
    model: Module, config: Mapping[str, Any], tensors: Mapping[str, Tensor], name: str
) -> Module:
    """Merge adapters into the matrices of their base model, and set modules stored whole."""
    torch = import_optional("torch", "for adapters", "text")
    scale = float(config["lora_alpha"]) / int(config["r"])
    layers, used = dict(model.named_modules()), 0
    with torch.no_grad():
        for layer_name, layer in layers.items():
            down, up = tensor_names(layer_name)
            if down not in tensors or up not in tensors:
                continue
            change = scale * (tensors[up].double() @ tensors[down].double())
            change = change.to(layer.weight.device)
            change = change.T if hasattr(layer, "nf") else change
            if change.shape != layer.weight.shape:
                raise InputError(
                    f"{name} must fit the base model, got another shape in {layer_name}."
                )
            layer.weight.copy_(layer.weight.double() + change)
            used += 2
        # Modules that were trained or made anew are stored whole.
        for parameter_name, parameter in model.named_parameters():
            stored = tensors.get(module_tensor_name(parameter_name))
            if stored is not None and stored.shape == parameter.shape:
                parameter.copy_(stored)
                used += 1
    if used != len(tensors):
        raise InputError(
            f"{name} must fit the base model, got {len(tensors) - used} tensors of layers that it "
            "does not have. Give the folder of the model that it was trained from."
        )
    return model
