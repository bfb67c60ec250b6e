"""PyTorch networks, trained on all rows in the neighbour game.

:func:`fit_network` is DP-SGD on Opacus' low-level classes (extra ``torch``).  Sampling rate, number
of steps and divisor are public, clips and sums are in double precision, the noise is our own and on
a grid, and its size comes from our own accounting (proofs/networks.md).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.curve.families import SlackCurve
from memberbound.dp import DpSgd, DpSgdHistory, EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError, installed
from memberbound.learners.learner import takes_sizes
from memberbound.numerics.rounding import UNIT, FloatArray, down, sum_slack, up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.bounds import Range, forms_of, read_bounds
from memberbound.release.all_rows.clipping import path_sensitivity
from memberbound.release.all_rows.encoder import EncodedBlock, Encoder, TargetCode
from memberbound.release.all_rows.gradient import TrainingRows
from memberbound.release.all_rows.models import PrivateModel, model_fields
from memberbound.release.all_rows.probabilities import (
    PROBABILITY_SHARE,
    probability_line,
    probability_sums,
)
from memberbound.release.all_rows.training import prepare
from memberbound.release.budget import Budget, BudgetShare, NoisySums
from memberbound.release.noise import checked_eta
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.release_file import Writer, safetensors, tensor_writer
from memberbound.tables.columns import Values
from memberbound.tables.persons import Persons
from memberbound.tables.records import read_records
from memberbound.tables.shards import Shards
from memberbound.threads import ONE_AT_A_TIME, no_warnings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def _torch(name: str = "torch") -> ModuleType:
    return installed(name, "for networks", "torch")


#: Chosen once on Adult and MNIST: steps, expected rows of a sample, rate and clip.
_STEPS, _BATCH, _RATE, _CLIP = 80, 2048, 1.0, 1.0
#: Tables with fewer rows take shorter steps.
_MANY = 20_000
#: Rows whose gradients are computed at once; the last block of a sample is filled up with zeros,
#: so that every block has the same shape.
_BLOCK = 256
#: Format of a network, and the key of its description among the tensors' metadata.
NETWORK_ENDINGS = (".safetensors",)
_ABOUT = "memberbound"
#: Roundings of single precision in units of double ones; what squares lose by underflow.
_SINGLE, _UNDERFLOW = 2.0**29, 1e-15
#: Up to this many weights lengths are taken in single precision.
_MOST_SINGLE = 2**22
#: The probe of training: gradients agree to this share of their length (roundings of single
#: precision are a thousand times smaller); encoded rows are about so long, and seldom much longer.
_PROBE_TOLERANCE, _PROBE_SPAN, _PROBE_FAR = 1e-3, (-3.0, 3.0), 1e3
_ROW_BY_ROW = (
    "The network computes a record's gradient from that record, its weights and random "
    "numbers of its own alone, also in its rounding: nothing in it mixes the rows of a batch.",
    "Which rows a step takes, and random numbers of the network itself (dropout), stay secret.",
)


@dataclass(frozen=True)
class Training:
    """How to train: public numbers, chosen without the data.

    Every step takes each row with probability ``sample_rate``; ``rate`` multiplies the sum of
    clipped gradients over the *expected* number of rows; ``averaged`` is the share of the steps, at
    the end, whose weights are averaged.
    """

    steps: int
    sample_rate: float
    rate: float
    clip: float = 1.0
    momentum: float = 0.9
    averaged: float = 0.5

    @classmethod
    def default(cls, *, rows: int) -> Training:
        """Return the rule of docs/gradient.md: a function of the number of rows only."""
        # Noise in the averaged weights is proportional to rate/rows.
        return cls(_STEPS, min(1.0, _BATCH / rows), _RATE * min(1.0, rows / _MANY), _CLIP)


@dataclass
class NetworkBudget(Budget):
    """A budget whose last share is DP-SGD, which has no μ: its curve is composed with the others.

    Guarantee: all releases together are within ``slack`` of a pair below :meth:`curve`.
    Theorem: X12 and X22 (proofs/networks.md).
    """

    #: Which pair of normal laws the release stays below: none.
    normal_mu = None
    training: DpSgd = field(default_factory=lambda: DpSgd(1.0, 1.0, 1))

    @classmethod
    def trained(cls, eta: float, paid: Budget, sample_rate: float, steps: int) -> NetworkBudget:
        """Return the budget with the least noise that keeps η beside what was paid before."""
        beside = _as_step(paid.shares)
        goal = EtaTarget(down(checked_eta(eta) - paid.slack, 4))
        sigma = calibrated_noise_multiplier(goal, sample_rate, steps, "replace-one", beside=beside)
        made = DpSgd(up(sigma, 2), sample_rate, steps)
        budget = cls(paid.mu, paid.slack, list(paid.shares), 1.0, made, unit=paid.unit)
        assert budget.curve().eta <= eta
        return budget

    def fractions(self) -> dict[str, float]:
        """Return nothing: DP-SGD does not spend a fraction of μ²."""
        return {}

    def curve(self) -> SlackCurve:
        """Return the attacker's curve, replace-one."""
        every = DpSgdHistory((*_as_step(self._taken), self.training))
        return SlackCurve(every.curve("replace-one"), self.slack)

    def certificate(self, **how: bool) -> Certificate:
        """Return the certificate of η for every record of any table."""
        bound = super().certificate(**how)
        assumptions = (*bound.assumptions, *_ROW_BY_ROW)
        return replace(bound, theorems=("X12", *bound.theorems), assumptions=assumptions)


def _as_step(parts: Sequence[BudgetShare]) -> tuple[DpSgd, ...]:
    """Return Gaussian releases as one step that takes every record: the same pair."""
    if not parts:
        return ()
    mu = math.hypot(*(part.mu for part in parts))
    return (DpSgd(down(2.0 / up(mu, 16 + len(parts)), 4), 1.0, 1),)


def _module(factory: Callable[..., Module], inputs: int, outputs: int) -> Module:
    """Return a new module, whose weights do not depend on the data, after checking what it is."""
    torch = _torch()
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = factory(inputs, outputs) if takes_sizes(factory) else factory()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"learner must make a torch module, got {type(module).__name__}.")
    module.train()
    validator = _torch("opacus.validators").ModuleValidator
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


def _check_answers(module: Module, inputs: int, outputs: int) -> None:
    """Refuse a module of another shape, or whose answer to a row depends on the other rows."""
    torch = _torch()
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


def _row_gradient(wrapped: Any, rows: Tensor, goals: Tensor, place: int) -> Tensor:
    """Return the gradient of the row at ``place`` as a step would take it: |answer − goal|²/2."""
    torch = _torch()
    torch.manual_seed(0)
    wrapped.zero_grad()
    ((wrapped(rows) - goals).square().sum() / 2).backward()
    parts = [p.grad_sample for p in wrapped.parameters() if p.requires_grad]
    if any(part is None for part in parts):
        raise ValueError("some of its parameters are not used.")
    gradient: Tensor = torch.cat([part[place].reshape(-1) for part in parts]).clone()
    return gradient


def _gradient_pairs(wrapped: Any, inputs: int, outputs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield gradients of one row that are equal unless rows of a block are mixed, or remembered.

    The row stands alone, at several places of a block, beside other rows of several sizes, and
    again at the end. Dropout layers are off for that, because their coins go by place. Then they
    are on, with the same coins and at one place.
    """
    torch = _torch()
    dropouts = [m for m in wrapped.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd)]
    generator = torch.Generator().manual_seed(0)
    low, high = _PROBE_SPAN

    def drawn(count: int) -> Tensor:
        draws: Tensor = low + (high - low) * torch.rand(count, inputs, generator=generator)
        return draws

    row, goal = drawn(1), torch.randn(1, outputs, generator=generator)
    zeros, ends = torch.zeros(_BLOCK, inputs), torch.full((_BLOCK, inputs), high)
    companions = [zeros, drawn(_BLOCK), ends, drawn(_BLOCK), drawn(_BLOCK) * _PROBE_FAR, zeros]

    def gradient(others: Tensor, place: int) -> Tensor:
        rows, goals = others.clone(), torch.randn(_BLOCK, outputs, generator=generator)
        rows[place], goals[place] = row[0], goal[0]
        return _row_gradient(wrapped, rows, goals, place)

    for layer in dropouts:
        layer.eval()
    alone = _row_gradient(wrapped, row, goal, 0)
    for number, others in enumerate(companions):
        yield alone, gradient(others, (0, _BLOCK // 2, _BLOCK - 1)[number % 3])
    for layer in dropouts:
        layer.train()
    first = gradient(companions[0], 0)
    for others in companions[1:] if dropouts else ():
        yield first, gradient(others, 0)


def _probe_training(module: Module, inputs: int, outputs: int) -> None:
    """Refuse a module that mixes the rows of a block, or remembers rows, while it trains.

    Randomness other than that of dropout layers cannot be distinguished from mixing and is refused
    too. The rows of the probe are public: small entries, and some that are a thousand times larger.
    """
    torch = _torch()
    copied = copy.deepcopy(module).train()
    before = {name: t.clone() for name, t in copied.state_dict().items()}
    # Torch has one generator for all threads.
    with ONE_AT_A_TIME, no_warnings, torch.random.fork_rng(devices=[]):
        try:
            wrapped = _torch("opacus.grad_sample").GradSampleModule(copied, loss_reduction="sum")
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
                "of a row depends on the other rows, on the row's place or on random "
                "numbers of its own while it trains. Use GroupNorm or LayerNorm instead of means "
                "over the rows, and torch.nn.Dropout layers for randomness."
            )
    changed = [n for n, t in copied.state_dict().items() if not torch.equal(t, before[n])]
    if changed:
        raise InputError(
            "learner must be a network that remembers nothing of the rows it trains on, got one "
            f"that changes its buffer {changed[0]!r}."
        )


def _weights(module: Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def step_reach(clip: float, rows: int) -> float:
    """Return how far one record can move the computed sum of a sample, from above (claim 2)."""
    return up(path_sensitivity(clip, rows, _BLOCK) - clip, 4)


def _clipped_sums(learnt: Sequence[Any], kept: Tensor, clip: float) -> list[Tensor]:
    """Return Σ of the kept rows' clipped gradients of a block, by parameter, in double precision.

    Guarantee: no row adds more than ``clip`` in length; lengths are taken from above (claim 2).  A
    record whose gradient is not finite is left out.
    """
    torch = _torch()
    parts = [p.grad_sample.reshape(len(kept), -1) for p in learnt]
    terms = sum(g.shape[1] for g in parts)
    kind = torch.float32 if terms <= _MOST_SINGLE else torch.float64
    sizes = [torch.linalg.vector_norm(g, dim=1, dtype=kind) for g in parts]
    lengths = torch.linalg.vector_norm(torch.stack(sizes, dim=1), dim=1).double()
    # Roundings of single precision, and what underflows.
    lengths = lengths * (1 + 2 * sum_slack(terms + 64) * _SINGLE) + _UNDERFLOW
    usable = torch.isfinite(lengths) & kept
    factors = (clip * (1 - 16 * UNIT) / lengths).clamp(max=1.0)
    factors = torch.where(usable, factors, 0.0)
    exact = (torch.where(usable[:, None], g.double(), 0.0) for g in parts)
    return [(factors @ g).view_as(p) for p, g in zip(learnt, exact, strict=True)]


def _sample(
    rows: int, rate: float, source: RandomSource, persons: Persons | None = None
) -> NDArray[np.int64]:
    """Return a Poisson sample: each record with a probability of at most ``rate``, to 2^-64.

    Of a person one row is taken, by a coin of its own.
    """
    records = rows if persons is None else persons.count
    sample = np.arange(records)
    if rate < 1.0:
        sample = np.flatnonzero(source.words(records) < np.uint64(math.floor(rate * 2.0**64)))
    if persons is None:
        return sample
    coins = source.words(len(sample)) % persons.sizes[sample].astype(np.uint64)
    return np.asarray(persons.starts[sample] + coins.astype(np.int64))


def _tensor(rows: EncodedBlock | FloatArray, unit: float) -> Tensor:
    """Return rows as the network takes them: numbers of about unit size."""
    dense = rows.matrix().toarray() if isinstance(rows, EncodedBlock) else rows
    made: Tensor = _torch().from_numpy((dense * unit).astype(np.float32))
    return made


def train_network(
    module: Module,
    rows: TrainingRows,
    training: Training,
    *,
    classes: bool,
    scale: float,
    source: RandomSource,
    unit: float = 1.0,
) -> Any:
    """Train a copy of ``module`` by noisy steps and return another copy with the averaged weights.

    Guarantee: nothing of ``rows`` enters the result but through sums of gradients clipped at
    ``training.clip``, of Poisson samples, with noise N(0, scale²) on a grid.
    Theorem: proofs/networks.md, claims 1 to 3.
    Edge cases: records of weight 0 are left out without a trace.
    """
    torch = _torch()
    wrapped = _torch("opacus.grad_sample").GradSampleModule(
        copy.deepcopy(module).train(), loss_reduction="sum"
    )
    learnt = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learnt, lr=training.rate, momentum=training.momentum)
    count, persons = len(rows.codes), rows.persons
    weighted = np.ones(count, dtype=bool) if rows.weights is None else rows.weights > 0
    expected = training.sample_rate * (count if persons is None else persons.count)
    # The tensors of a step are parts of one vector, whose noise has this scale.
    noise = NoisySums(scale, training.steps * len(learnt), source)
    goals = np.where(weighted, rows.codes, 0)
    mean = [np.zeros(tuple(p.shape)) for p in learnt]
    first = training.steps - max(1, math.ceil(training.steps * training.averaged))
    # Torch has one generator for all threads.
    with ONE_AT_A_TIME, no_warnings, torch.random.fork_rng(devices=[]):
        # Coins of the network itself (dropout) go by place in a sample, so they are secret too.
        torch.manual_seed(int(source.words(1)[0] >> np.uint64(1)))
        for step in range(training.steps):
            sample = _sample(count, training.sample_rate, source, persons)
            sums = [torch.zeros(p.shape, dtype=torch.float64) for p in learnt]
            for start in range(0, len(sample), _BLOCK):
                places = sample[start : start + _BLOCK]
                missing = _BLOCK - len(places)
                taken = _tensor(rows.features[places], unit)
                taken = torch.cat([taken, torch.zeros(missing, taken.shape[1])])
                goal = torch.from_numpy(np.pad(goals[places], (0, missing)))
                wrapped.zero_grad()
                _loss(wrapped(taken), goal, classes).backward()
                kept = torch.from_numpy(np.pad(weighted[places], (0, missing)))
                parts = _clipped_sums(learnt, kept, training.clip)
                sums = [total + part for total, part in zip(sums, parts, strict=True)]
            # From here on nothing but the noisy sum is used: post-processing.
            for p, total in zip(learnt, sums, strict=True):
                slope = noise.measure(total.numpy()) / expected
                p.grad = torch.from_numpy(slope).to(p.dtype)
            optimizer.step()
            if step >= first:
                for at, p in enumerate(learnt):
                    mean[at] += (p.detach().double().numpy() - mean[at]) / (step - first + 1)
    released = copy.deepcopy(module)
    with torch.no_grad():
        targets = [p for p in released.parameters() if p.requires_grad]
        for p, value in zip(targets, mean, strict=True):
            p.copy_(torch.from_numpy(value).to(p.dtype))
    if not all(bool(torch.isfinite(p).all()) for p in targets):
        raise InputError("training must stay finite: take a smaller rate.")
    return released.requires_grad_(False).eval()


def _loss(answers: Tensor, goal: Tensor, classes: bool) -> Tensor:
    if classes:
        return _torch().nn.functional.cross_entropy(answers, goal.long(), reduction="sum")
    return (answers[:, 0] - goal.float()).square().sum() / 2


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained module, as released."""

    kind: ClassVar[str] = "network of all rows"
    method: ClassVar[str] = "gradient"

    module: Module
    loss: str
    training: Training
    scale: float
    unit: float
    #: Scores are slope·answer + offset.
    slope: float = 1.0
    offsets: FloatArray | float = 0.0
    #: Rows that are asked about together: within a block the last digit of an answer depends on the
    #: row's place (proofs/persons.md).
    at_once: int = 4 * _BLOCK

    @property
    def released_size(self) -> int:
        """Number of weights that were trained, at most."""
        return sum(p.numel() for p in self.module.parameters())

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; the tensors are stored apart."""
        line = {"slope": self.slope, "offsets": np.asarray(self.offsets).tolist()}
        return {"training": asdict(self.training), "scale": self.scale, **line}

    @staticmethod
    def encode(encoder: Encoder, columns: Mapping[str, Values]) -> EncodedBlock:
        """Return the features of raw columns."""
        return encoder.rows(columns)[:]

    def scores(self, block: EncodedBlock) -> FloatArray:
        """Return the scores of encoded records."""
        rows, parts = block.matrix(), []
        with _torch().no_grad():
            for start in range(0, rows.shape[0], self.at_once):
                part = rows[start : start + self.at_once].toarray()
                parts.append(self.module(_tensor(part, self.unit)).double().numpy())
        return self.slope * np.concatenate(parts) + self.offsets

    def rescale(self, slope: float, offsets: FloatArray) -> NetworkModel:
        """Return the model whose scores are slope·answer + offset."""
        return replace(self, slope=slope, offsets=offsets)


@dataclass(frozen=True, eq=False)
class PrivateNetwork(PrivateModel):
    """A released network with its encoder, target and budget: all that may be stored."""

    model: NetworkModel  # type: ignore[assignment]
    budget: NetworkBudget

    @property
    def _details(self) -> dict[str, object]:
        return super()._details | {
            "training": asdict(self.model.training),
            "noise_multiplier": self.budget.training.noise_multiplier,
        }

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The endings of the files that it can be written to."""
        return NETWORK_ENDINGS

    def file_writer(self, path: Path) -> Writer:  # noqa: ARG002
        """Return a function that writes the tensors, and the rest as their metadata."""
        return tensor_writer(self.tensors(), {_ABOUT: self.to_json()})

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Return the module's tensors by name."""
        state = self.model.module.state_dict()
        return {name: np.ascontiguousarray(t.detach().numpy()) for name, t in state.items()}

    def to_dict(self) -> dict[str, object]:
        """Return all that may be stored besides the tensors, ready for JSON."""
        multiplier = self.budget.training.noise_multiplier
        return super().to_dict() | {"noise_multiplier": multiplier}

    @classmethod
    def from_tensors(
        cls, fields: Mapping[str, Any], tensors: Mapping[str, Any], factory: Callable[..., Module]
    ) -> PrivateNetwork:
        """Return the network that :meth:`to_dict` and :meth:`tensors` described.

        ``factory`` makes the module: the file holds numbers, no code.
        """
        torch = _torch()

        def restore(encoder: Encoder, target: TargetCode) -> tuple[NetworkModel, NetworkBudget]:
            outputs = len(target.classes) or 1
            module = _module(factory, encoder.width, outputs)
            _check_answers(module, encoder.width, outputs)
            module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in tensors.items()})
            how = Training(**fields["training"])
            model = NetworkModel(
                module.requires_grad_(False).eval(),
                _loss_name(target),
                how,
                float(fields["scale"]),
                encoder.length,
                float(fields["slope"]),
                np.array(fields["offsets"], dtype=np.float64),
            )
            steps = DpSgd(float(fields["noise_multiplier"]), how.sample_rate, how.steps)
            return model, NetworkBudget.from_dict(fields, training=steps)

        return cls._restore(fields, restore)


def load_network(path: Path, factory: Callable[..., Module] | None) -> PrivateNetwork:
    """Read a saved network; ``factory`` makes its module, as it did for ``protect``."""
    if factory is None:
        raise InputError(
            "learner (in Python: factory) must be given to load a network, got none: the file "
            "holds its numbers, not its code. Give the one it was trained with."
        )
    tensors = safetensors().load(path.read_bytes())
    with safetensors("safetensors").safe_open(str(path), framework="numpy") as file:
        text = (file.metadata() or {}).get(_ABOUT, "null")
    return PrivateNetwork.from_tensors(model_fields(text, path), tensors, factory)


def _loss_name(target: TargetCode) -> str:
    return "softmax" if target.classes else "ridge"


@np.errstate(all="ignore")  # a warning would depend on a record
def fit_network(
    table: object,
    target: str,
    factory: Callable[..., Module],
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    training: Training | None = None,
    source: RandomSource = SECURE,
    name: str = "network",
) -> PrivateNetwork:
    """Train a network on all rows of a raw table such that η holds for every record.

    ``factory(inputs, outputs)`` makes a torch module that takes rows of ``inputs`` numbers of about
    unit size and gives a score per class, or one number where the bounds give the target a range.

    Guarantee: whoever knows all other rows and sees everything stored in the result gains at most
    ``eta`` over guessing which of two records was in the table: for every record of any table,
    replace-one, without any confidence level.
    Theorem: X12 and X22 (proofs/networks.md).
    Assumes: as :func:`memberbound.release.all_rows.training.fit_private`; and the network treats
    each row by itself (batch normalisation is refused).
    Edge cases: as there; a network that is not made for the width found is refused.
    """
    public = read_bounds(bounds)
    records = read_records(table, forms_of(public))
    how = Training.default(rows=len(records)) if training is None else training
    most = 0

    def draws(width: int, _columns: int, outputs: int) -> int:
        nonlocal most
        most = _weights(_module(factory, width, outputs)) * how.steps
        return most + probability_sums(outputs)

    classifier = not isinstance(public.get(target), Range)
    encoder, code, paid = prepare(
        records, target, public, eta=eta, classifier=classifier, source=source, draws=draws
    )
    outputs = len(code.classes) or 1
    module = _module(factory, encoder.width, outputs)
    if _weights(module) * how.steps > most:
        raise InputError(
            "learner must not make a larger network for fewer inputs or outputs, got one of "
            f"{_weights(module)} weights."
        )
    _check_answers(module, encoder.width, outputs)
    _probe_training(module, encoder.width, outputs)

    # A network draws rows from all of them.
    shards = list(records.shards)
    records = shards[0] if len(shards) == 1 else records.take(np.arange(len(records)))
    features = encoder.rows(records.columns, records.memory)
    codes, known = code.read(records.columns[target])
    counts = paid.take("calibrated probabilities", PROBABILITY_SHARE) if code.classes else None
    budget = NetworkBudget.trained(eta, paid, how.sample_rate, how.steps)
    scale = up(budget.training.noise_multiplier * step_reach(how.clip, len(records)), 2)
    weights = known.astype(np.float64)
    rows = TrainingRows(features, codes, weights, records.persons)
    trained = train_network(
        module,
        rows,
        how,
        classes=bool(code.classes),
        scale=scale,
        source=source,
        unit=encoder.length,
    )
    model = NetworkModel(trained, _loss_name(code), how, scale, encoder.length)
    if counts is not None:
        line = probability_line(
            model if records.persons is None else replace(model, at_once=1),
            Shards([rows]),
            counts,
            kind="network",
            records=len(records),
            outputs=outputs,
        )
        model = model.rescale(*line)
    return PrivateNetwork(
        encoder, code, model, budget, len(records), source.secure, checked_eta(eta), name
    )
