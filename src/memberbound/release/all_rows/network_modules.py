"""Create PyTorch modules, and check that they process every row of a batch on its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, import_optional
from memberbound.learners.learner import takes_sizes
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def torch_module(name: str = "torch") -> ModuleType:
    """Import PyTorch or one of its modules, or raise an error that explains how to install it."""
    return import_optional(name, "for networks", "torch")


#: Number of rows per gradient computation; the last block of a sample is padded with zeros, so that
#: all blocks have the same shape.
BLOCK_ROWS = 256
#: Probe of training: relative tolerance of gradients (rounding errors of single precision are a
#: thousand times smaller), typical range of encoded entries, and factor of rare larger ones.
_PROBE_TOLERANCE, _PROBE_SPAN, _PROBE_FAR = 1e-3, (-3.0, 3.0), 1e3


def make_module(factory: Callable[..., Module], inputs: int, outputs: int) -> Module:
    """Create a module with seeded weights, and check that it can be trained privately."""
    torch = torch_module()
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = factory(inputs, outputs) if takes_sizes(factory) else factory()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"learner must make a torch module, got {type(module).__name__}.")
    module.train()
    validator = torch_module("opacus.validators").ModuleValidator
    problems = validator.validate(module, strict=False)
    if problems:
        raise InputError(
            f"learner must be a network that treats every row by itself, got one that cannot be "
            f"trained privately: {problems[0]}. Use GroupNorm or LayerNorm instead of BatchNorm."
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError("learner must make a module with parameters to train, got none.")
    made: Module = module
    return made


def check_module(module: Module, inputs: int, outputs: int) -> None:
    """Reject a module of the wrong shape, or with outputs that depend on other rows."""
    torch = torch_module()
    rows = torch.linspace(-1, 1, 3 * inputs).reshape(3, inputs)
    try:
        with torch.no_grad():
            module.eval()
            answers, alone = module(rows), module(rows[:1])
    except RuntimeError as problem:
        raise InputError(f"learner must take rows of {inputs} numbers: {problem}.") from None
    finally:
        module.train()
    if not isinstance(answers, torch.Tensor):
        raise InputError(f"learner must give a tensor, got {type(answers).__name__}.")
    if tuple(answers.shape) != (3, outputs):
        raise InputError(
            f"learner must give {outputs} numbers for each row, got shape {tuple(answers.shape)!r}."
        )
    if not torch.allclose(answers[:1], alone, rtol=1e-3, atol=1e-4):
        raise InputError(
            "learner must be a network that treats every row by itself, got one whose answer to a "
            "row depends on the other rows."
        )


def _row_gradient(wrapped: Any, rows: Tensor, goals: Tensor, index: int) -> Tensor:
    """Return the gradient of |output − goal|²/2 for one row, as a training step computes it."""
    torch = torch_module()
    torch.manual_seed(0)
    wrapped.zero_grad()
    ((wrapped(rows) - goals).square().sum() / 2).backward()
    parts = [p.grad_sample for p in wrapped.parameters() if p.requires_grad]
    if any(part is None for part in parts):
        raise ValueError("some of its parameters are not used.")
    gradient: Tensor = torch.cat([part[index].reshape(-1) for part in parts]).clone()
    return gradient


def _gradient_pairs(wrapped: Any, inputs: int, outputs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of gradients of one row that agree unless the module mixes or remembers rows.

    The row is evaluated alone, at several positions of a block, next to other rows of several
    magnitudes, and once more at the end.  Dropout is off there, because its random numbers depend
    on the position; a second series has dropout on, with the same seed and one position.
    """
    torch = torch_module()
    dropouts = [m for m in wrapped.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd)]
    generator = torch.Generator().manual_seed(0)
    low, high = _PROBE_SPAN

    def draw(count: int) -> Tensor:
        draws: Tensor = low + (high - low) * torch.rand(count, inputs, generator=generator)
        return draws

    row, goal = draw(1), torch.randn(1, outputs, generator=generator)
    zeros, ends = torch.zeros(BLOCK_ROWS, inputs), torch.full((BLOCK_ROWS, inputs), high)
    companions = [
        zeros,
        draw(BLOCK_ROWS),
        ends,
        draw(BLOCK_ROWS),
        draw(BLOCK_ROWS) * _PROBE_FAR,
        zeros,
    ]

    def gradient(others: Tensor, index: int) -> Tensor:
        rows, goals = others.clone(), torch.randn(BLOCK_ROWS, outputs, generator=generator)
        rows[index], goals[index] = row[0], goal[0]
        return _row_gradient(wrapped, rows, goals, index)

    for layer in dropouts:
        layer.eval()
    alone = _row_gradient(wrapped, row, goal, 0)
    for number, others in enumerate(companions):
        yield alone, gradient(others, (0, BLOCK_ROWS // 2, BLOCK_ROWS - 1)[number % 3])
    for layer in dropouts:
        layer.train()
    first = gradient(companions[0], 0)
    for others in companions[1:] if dropouts else ():
        yield first, gradient(others, 0)


def probe_training(module: Module, inputs: int, outputs: int) -> None:
    """Reject a module that mixes the rows of a block, or remembers rows, during training.

    Randomness outside dropout layers cannot be distinguished from mixing and is rejected too.  The
    probe's rows are public, with small entries and some that are a thousand times larger.
    """
    torch = torch_module()
    copied = copy.deepcopy(module).train()
    before = {name: t.clone() for name, t in copied.state_dict().items()}
    # Torch has one generator for all threads.
    with ONE_AT_A_TIME, no_warnings, torch.random.fork_rng(devices=[]):
        try:
            wrapped = torch_module("opacus.grad_sample").GradSampleModule(
                copied, loss_reduction="sum"
            )
            pairs = list(_gradient_pairs(wrapped, inputs, outputs))
        except (RuntimeError, ValueError, IndexError) as problem:
            raise InputError(
                f"learner must be a network that trains on any number of rows: {problem}"
            ) from None
    for expected, measured in pairs:
        allowed = _PROBE_TOLERANCE * (float(expected.norm()) + _PROBE_TOLERANCE)
        if not float((measured - expected).norm()) <= allowed:
            raise InputError(
                "learner must be a network that treats every row by itself, got one whose gradient "
                "of a row depends on the other rows, on the row's position or on random "
                "numbers of its own while it trains. Use GroupNorm or LayerNorm instead of means "
                "over the rows, and torch.nn.Dropout layers for randomness."
            )
    changed = [n for n, t in copied.state_dict().items() if not torch.equal(t, before[n])]
    if changed:
        raise InputError(
            "learner must be a network that remembers nothing of the rows it trains on, got one "
            f"that changes its buffer {changed[0]!r}."
        )


def count_trained(module: Module) -> int:
    """Return the number of tensors that are trained."""
    return sum(p.requires_grad for p in module.parameters())


def count_weights(module: Module) -> int:
    """Return the number of trainable weights."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
