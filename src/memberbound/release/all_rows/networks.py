"""PyTorch networks, trained on all rows in the neighbour game.

:func:`fit_network` is DP-SGD on Opacus' low-level classes (extra ``torch``).  Sampling rate, number
of steps and divisor are public; clipping and sums use double precision; the noise is this package's
own, on a grid, with its own accounting (proofs/networks.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import plain
from memberbound.certificate import Certificate
from memberbound.curve.families import SlackCurve
from memberbound.dp import DpSgd, DpSgdHistory, EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.release.all_rows.bounds import Range, forms_of, read_bounds
from memberbound.release.all_rows.encoder import EncodedBlock, Encoder, TargetCode
from memberbound.release.all_rows.gradient import TrainingRows
from memberbound.release.all_rows.models import PrivateModel, model_fields
from memberbound.release.all_rows.network_modules import (
    BLOCK_ROWS,
    check_module,
    count_trained,
    count_weights,
    make_module,
    probe_training,
    torch_module,
)
from memberbound.release.all_rows.network_training import (
    Training,
    step_reach,
    to_tensor,
    train_network,
)
from memberbound.release.all_rows.probabilities import (
    PROBABILITY_SHARE,
    TYPICAL_SLOPES,
    probability_line,
    probability_sums,
)
from memberbound.release.all_rows.training import prepare
from memberbound.release.budget import Budget, BudgetShare, NoisySums
from memberbound.release.derivation import Derivation, SampledSteps
from memberbound.release.noise import check_eta_range
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.release_file import Writer, safetensors, tensor_writer
from memberbound.tables.records import read_records
from memberbound.tables.shards import Shards
from memberbound.tables.values import Values

if TYPE_CHECKING:
    from torch.nn import Module

#: File format of a network, and the key of its description in the tensors' metadata.
NETWORK_ENDINGS = (".safetensors",)
_ABOUT = "memberbound"
_ROW_BY_ROW = (
    "The network computes a record's gradient from that record, its weights and random "
    "numbers of its own alone, also in its rounding: nothing in it mixes the rows of a batch.",
    "The rows sampled in each step, and the network's own random numbers (dropout), stay secret.",
)


@dataclass
class NetworkBudget(Budget):
    """A budget that includes DP-SGD, which has no μ: it composes trade-off curves instead.

    Guarantee: all releases are jointly within ``slack`` of a pair below :meth:`curve`.
    Theorem: X12 and X22 (proofs/networks.md).
    """

    #: None, because no Gaussian trade-off function bounds the release.
    normal_mu = None
    training: DpSgd = field(default_factory=lambda: DpSgd(1.0, 1.0, 1))
    #: The noise of the steps, as it was drawn.
    drawn: SampledSteps | None = None

    @classmethod
    def calibrate(cls, eta: float, paid: Budget, sample_rate: float, steps: int) -> NetworkBudget:
        """Return the budget with the least noise for η, given the shares already spent."""
        beside = _as_step(paid.shares)
        goal = EtaTarget(down(check_eta_range(eta) - paid.slack, 4))
        sigma = calibrated_noise_multiplier(goal, sample_rate, steps, "replace-one", beside=beside)
        made = DpSgd(sigma, sample_rate, steps)
        budget = cls(
            paid.mu,
            paid.slack,
            list(paid.shares),
            1.0,
            made,
            unit=paid.unit,
            slacks=paid.slacks,
            bounds=paid.bounds,
        )
        assert budget.curve().eta <= eta
        return budget

    def scale_for(self, reach: float) -> float:
        """Return the noise per coordinate of a step with sensitivity ``reach``."""
        return up(self.training.noise_multiplier * reach, 2)

    def fractions(self) -> dict[str, float]:
        """Return an empty mapping: DP-SGD does not spend a fraction of μ²."""
        return {}

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields, to be stored beside a release."""
        return super().to_dict() | {"sampled": plain(self.drawn)}

    def derivation(self, records: int, theorems: tuple[str, ...]) -> Derivation:
        """Return the record from which a third party recomputes the certificate."""
        sampled = () if self.drawn is None else (self.drawn,)
        return replace(super().derivation(records, theorems), sampled=sampled)

    def curve(self) -> SlackCurve:
        """Return the trade-off curve of all releases under replace-one."""
        every = DpSgdHistory((*_as_step(self._taken), self.training))
        return SlackCurve(every.curve("replace-one"), self.slack)

    def certificate(self, *, secure: bool = True) -> Certificate:
        """Return the certificate of η for every record of any table."""
        bound = super().certificate(secure=secure)
        assumptions = (*bound.assumptions, *_ROW_BY_ROW)
        return replace(bound, theorems=("X12", *bound.theorems), assumptions=assumptions)


def _as_step(parts: Sequence[BudgetShare]) -> tuple[DpSgd, ...]:
    """Return Gaussian releases as an equivalent DP-SGD step with sampling rate 1."""
    if not parts:
        return ()
    mu = math.hypot(*(part.mu for part in parts))
    return (DpSgd(2.0 / up(mu, 16 + len(parts)), 1.0, 1),)


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A released module with its settings."""

    kind: ClassVar[str] = "network of all rows"
    method: ClassVar[str] = "gradient"

    module: Module
    loss: str
    training: Training
    scale: float
    unit: float
    #: Scores are slope·output + offset.
    slope: float = 1.0
    offsets: FloatArray | float = 0.0
    #: Number of rows evaluated together.  The last digit of an output depends on the row's index
    #: within a block (proofs/persons.md).
    at_once: int = 4 * BLOCK_ROWS

    @property
    def released_size(self) -> int:
        """Upper bound on the number of trained weights."""
        return sum(p.numel() for p in self.module.parameters())

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; the tensors are stored separately."""
        line = {"slope": self.slope, "offsets": np.asarray(self.offsets).tolist()}
        return {"training": asdict(self.training), "scale": self.scale, **line}

    @staticmethod
    def encode(encoder: Encoder, columns: Mapping[str, Values]) -> EncodedBlock:
        """Return the features of raw columns."""
        return encoder.rows(columns)[:]

    def scores(self, block: EncodedBlock) -> FloatArray:
        """Return the scores of encoded records."""
        rows, parts = block.matrix(), []
        with torch_module().no_grad():
            for start in range(0, rows.shape[0], self.at_once):
                part = rows[start : start + self.at_once].toarray()
                parts.append(self.module(to_tensor(part, self.unit)).double().numpy())
        return self.slope * np.concatenate(parts) + self.offsets

    def rescale(self, slope: float, offsets: FloatArray) -> NetworkModel:
        """Return the model with scores slope·output + offset."""
        return replace(self, slope=slope, offsets=offsets)


@dataclass(frozen=True, eq=False)
class PrivateNetwork(PrivateModel):
    """A released network with its encoder, target and budget."""

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
        """The supported file endings."""
        return NETWORK_ENDINGS

    def file_writer(self, path: Path) -> Writer:  # noqa: ARG002
        """Return a function that writes the tensors, with all other fields as metadata."""
        return tensor_writer(self.tensors(), {_ABOUT: self.to_json()})

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """Return the module's tensors by name."""
        state = self.model.module.state_dict()
        return {name: np.ascontiguousarray(t.detach().numpy()) for name, t in state.items()}

    def to_dict(self) -> dict[str, object]:
        """Return all fields except the tensors, JSON-ready."""
        multiplier = self.budget.training.noise_multiplier
        return super().to_dict() | {"noise_multiplier": multiplier}

    @classmethod
    def from_tensors(
        cls,
        fields: Mapping[str, Any],
        tensors: Mapping[str, object],
        factory: Callable[..., Module],
    ) -> PrivateNetwork:
        """Restore the network from :meth:`to_dict` and :meth:`tensors`.

        ``factory`` creates the module, because the file holds numbers but no code.
        """
        torch = torch_module()

        def restore(encoder: Encoder, target: TargetCode) -> tuple[NetworkModel, NetworkBudget]:
            outputs = len(target.classes) or 1
            module = make_module(factory, encoder.width, outputs)
            check_module(module, encoder.width, outputs)
            module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in tensors.items()})
            training = Training(**fields["training"])
            model = NetworkModel(
                module.requires_grad_(False).eval(),
                _loss_name(target),
                training,
                float(fields["scale"]),
                encoder.length,
                float(fields["slope"]),
                np.array(fields["offsets"], dtype=np.float64),
            )
            steps = DpSgd(float(fields["noise_multiplier"]), training.sample_rate, training.steps)
            drawn = SampledSteps(**fields["sampled"])
            return model, NetworkBudget.from_dict(fields, training=steps, drawn=drawn)

        return cls._restore(fields, restore)


def load_network(
    path: Path, factory: Callable[..., Module] | None, _features: object = None
) -> PrivateNetwork:
    """Read a saved network; ``factory`` creates its module, as for ``protect``."""
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

    ``factory(inputs, outputs)`` creates a torch module that takes rows of ``inputs`` numbers of
    about unit size and returns a score per class, or one number if the bounds give the target a
    range.

    Guarantee: an attacker who knows all other rows and sees everything stored in the result gains
    at most ``eta`` over guessing which of two records was in the table, under replace-one.  This
    holds with certainty for every record of any table.
    Theorem: X12 and X22 (proofs/networks.md).
    Assumes: as :func:`memberbound.release.all_rows.training.fit_private`; moreover, the network
    processes each row on its own (batch normalisation is rejected).
    Edge cases: as there; a network that does not accept the encoder's width is rejected.
    """
    public = read_bounds(bounds)
    records = read_records(table, forms_of(public))
    settings = Training.default(rows=len(records)) if training is None else training
    most = 0

    def draws(width: int, _columns: int, outputs: int) -> int:
        nonlocal most
        most = count_weights(make_module(factory, width, outputs)) * settings.steps
        return most + probability_sums(outputs)

    classifier = not isinstance(public.get(target), Range)
    encoder, code, paid = prepare(
        records, target, public, eta=eta, classifier=classifier, source=source, draws=draws
    )
    outputs = len(code.classes) or 1
    module = make_module(factory, encoder.width, outputs)
    if count_weights(module) * settings.steps > most:
        raise InputError(
            "learner must not make a larger network for fewer inputs or outputs, got one of "
            f"{count_weights(module)} weights."
        )
    check_module(module, encoder.width, outputs)
    probe_training(module, encoder.width, outputs)

    # Batches are sampled from all rows, so bring the shards together.
    shards = list(records.shards)
    records = shards[0] if len(shards) == 1 else records.take(np.arange(len(records)))
    features = encoder.rows(records.columns, records.memory)
    codes, known = code.read(records.columns[target])
    counts = paid.take("calibrated probabilities", PROBABILITY_SHARE) if code.classes else None
    budget = NetworkBudget.calibrate(eta, paid, settings.sample_rate, settings.steps)
    reach = step_reach(settings.clip, len(records))
    scale = budget.scale_for(reach)
    weights = known.astype(np.float64)
    rows = TrainingRows(features, codes, weights, records.persons)
    noise = NoisySums(scale, settings.steps * count_trained(module), source, reach)
    trained = train_network(
        module, rows, settings, classes=bool(code.classes), noise=noise, unit=encoder.length
    )
    budget.drawn = SampledSteps(
        "steps on samples of the records",
        "l2",
        reach,
        settings.sample_rate,
        settings.steps,
        noise.coordinates,
        scale,
        noise.grid_step,
        budget.training.noise_multiplier,
    )
    model = NetworkModel(trained, _loss_name(code), settings, scale, encoder.length)
    if counts is not None:
        line = probability_line(
            model if records.persons is None else replace(model, at_once=1),
            Shards([rows]),
            counts,
            slope=TYPICAL_SLOPES["network"],
            records=len(records),
            outputs=outputs,
        )
        model = model.rescale(*line)
    return PrivateNetwork(
        encoder, code, model, budget, len(records), source.secure, check_eta_range(eta), name
    )
