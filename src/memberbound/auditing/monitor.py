"""Watch overfitting while a model trains, and stop when its security is gone (A25-T11, P10).

At every look the monitor bounds what the loss threshold reaches against the current model.  The
ceiling falls as training losses sink below what fresh records reach.  Stopping may depend on what
was seen: the error of all looks together is at most 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.auditing.overfitting import (
    OverfittingCeiling,
    overfitting_ceiling,
    stopping_loss,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame
from memberbound.numerics.rounding import FloatArray, shared_confidence

__all__ = ["OverfittingMonitor", "TorchWatch", "partial_fit_watched", "record_losses"]

#: Losses of one record, from labels and what the estimator says.
RecordLoss = Callable[[Any, Any, Any], ArrayLike]
_COLUMNS = (
    *("step", "train_loss_mean", "fresh_loss_mean", "threshold", "share_above", "fresh_share"),
    *("ceiling_estimate", "ceiling_lower", "ceiling_upper"),
)


def look_confidence(confidence: float, look: int) -> float:
    """Return the confidence of the ``look``-th look (from 1): its error is (1 - c)/(look·(look+1)).

    The errors of all looks, however many, add up to 1 - c.

    Examples:
        >>> look_confidence(0.95, 1), round(look_confidence(0.95, 9), 6)
        (0.975, 0.999444)
    """
    return shared_confidence(confidence, look * (look + 1))


@dataclass(eq=False)
class OverfittingMonitor:
    """The ceiling of security at every look at a training run, and a rule to stop it.

    Guarantee: with probability ``confidence`` every ceiling of the history holds for the model of
    its look (``OverfittingCeiling.model``), also that of a look at which training was stopped.
    Theorem: A25-T11 with proofs/overfitting-ceiling.md claim 3; A25-P10 for ``overfit_at``.
    Assumes: the fresh records are i.i.d. from the law of the training records and influence
    nothing but when training stops.
    Numerics: as :func:`~memberbound.auditing.overfitting_ceiling`.
    Edge cases: without ``security`` and ``overfit_at`` it only watches.  A high ceiling is no
    promise: another attack may do better than the loss threshold.

    Attributes:
        security: stop once the model's security is *proved* to be below this.
        overfit_at: (ε, α); stop once the mean training loss is at most ε·α, from where on the
            learner is (ε, 1-α)-overfitting whatever the fresh records say.
        nu: probability of a fresh record in the i.i.d. game.
        lam: weight of a missed member.
        confidence: of all looks together.

    Examples:
        >>> import numpy as np
        >>> monitor, fresh = OverfittingMonitor(security=0.5), np.linspace(0, 1, 2000)
        >>> for scale in (1.0, 0.5, 0.1):
        ...     _ = monitor.update(scale * np.linspace(0, 1, 500), fresh)
        ...     print(round(monitor.latest.model.upper, 2), monitor.should_stop)
        1.0 False
        0.54 False
        0.13 True
    """

    security: float | None = None
    overfit_at: tuple[float, float] | None = None
    nu: float = 0.5
    lam: float = 1.0
    confidence: float = 0.95
    _rows: list[tuple[float, ...]] = field(default_factory=list, repr=False)
    _latest: OverfittingCeiling | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        IidGame(self.nu, self.lam)
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        if self.security is not None:
            fraction("security", self.security)
        if self.overfit_at is not None:
            stopping_loss(*self.overfit_at)

    def update(
        self, train_losses: ArrayLike, fresh_losses: ArrayLike, step: float | None = None
    ) -> OverfittingCeiling:
        """Look at the current model: losses of all training and of the fresh records.

        ``step`` is what the history calls this look; by default looks are counted from 0.
        """
        train = np.asarray(train_losses, dtype=np.float64)
        fresh = np.asarray(fresh_losses, dtype=np.float64)
        if train.ndim != 1 or fresh.ndim != 1:
            raise InputError(
                "train_losses and fresh_losses must be one number per record, got shapes "
                f"{train.shape} and {fresh.shape}."
            )
        level = look_confidence(self.confidence, len(self._rows) + 1)
        found = overfitting_ceiling(train, fresh, self.nu, self.lam, level)
        bound = found.measured
        row = (
            float(len(self._rows) if step is None else step),
            *(float(train.mean()), float(fresh.mean())),
            *(found.threshold, found.share_above, found.fresh_share),
            *(bound.estimate, bound.lower, bound.upper),
        )
        self._rows.append(row)
        self._latest = found
        return found

    @property
    def latest(self) -> OverfittingCeiling:
        """The last look."""
        if self._latest is None:
            raise InputError("the monitor must have been updated at least once, got no looks.")
        return self._latest

    @property
    def history(self) -> dict[str, FloatArray]:
        """One array per quantity, one entry per look."""
        table = np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(_COLUMNS))
        return {name: table[:, place] for place, name in enumerate(_COLUMNS)}

    @property
    def proved_insecure(self) -> bool:
        """Whether the last model's security is below ``security``, at the confidence."""
        return bool(self.security is not None and self._rows and self._rows[-1][-1] < self.security)

    @property
    def forced_overfit(self) -> bool:
        """Whether the mean training loss has reached ε·α (A25-P10)."""
        return bool(
            self.overfit_at is not None
            and self._rows
            and self._rows[-1][1] <= stopping_loss(*self.overfit_at)
        )

    @property
    def should_stop(self) -> bool:
        """Whether one of the two rules asks to stop after the last look."""
        return self.proved_insecure or self.forced_overfit


# ---- scikit-learn ----------------------------------------------------------------------------


def record_losses(estimator: Any, X: Any, y: Any) -> FloatArray:
    """Return the loss of every record: -ln p(y|x), 0/1 without probabilities, or squared error.

    A label that the estimator has never seen has an infinite loss.
    """
    labels = np.asarray(y)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        residual = np.asarray(estimator.predict(X), dtype=np.float64) - labels
        return np.asarray(residual**2)
    if not hasattr(estimator, "predict_proba"):
        wrong = np.asarray(estimator.predict(X)) != labels
        return np.asarray(wrong, dtype=np.float64)
    known = np.asarray(classes)
    place = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    likely = np.asarray(estimator.predict_proba(X), dtype=np.float64)[np.arange(len(labels)), place]
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(known[place] == labels, -np.log(likely), np.inf))


def partial_fit_watched(
    estimator: Any,
    train: tuple[ArrayLike, ArrayLike],
    fresh: tuple[ArrayLike, ArrayLike],
    monitor: OverfittingMonitor,
    *,
    epochs: int,
    every: int = 1,
    batch: int | None = None,
    seed: int = 0,
    losses: RecordLoss = record_losses,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Train with ``partial_fit`` for at most ``epochs`` passes and stop when the monitor says so.

    Args:
        estimator: anything with scikit-learn's ``partial_fit``; it is trained in place.
        train: (X, y) of the training records, all of them members.
        fresh: (X, y) of records for nothing but the monitor.
        monitor: looked at after every ``every`` passes and after the last.
        epochs: passes over the training records.
        every: passes between two looks.
        batch: records per call of ``partial_fit``; by default all at once.
        seed: of the order in which batches are drawn.
        losses: loss of every record, from (estimator, X, y).
        progress: called with (done, total) passes.

    Returns the estimator.  It is that of the last look: to release an earlier one, keep copies.
    """
    if not hasattr(estimator, "partial_fit"):
        raise InputError(
            f"estimator must have partial_fit, got {type(estimator).__name__}. Call "
            "monitor.update with the losses of finished fits instead."
        )
    total, gap = whole_number("epochs", epochs), whole_number("every", every)
    data, labels = np.asarray(train[0]), np.asarray(train[1])
    size = len(data) if batch is None else whole_number("batch", batch)
    rng = np.random.default_rng(whole_number("seed", seed, at_least=0))
    # A classifier must hear of all classes at its first call; a regressor must not be told any.
    more = {"classes": np.unique(labels)} if _is_classifier(estimator) else {}
    for epoch in range(1, total + 1):
        order = rng.permutation(len(data))
        for start in range(0, len(data), size):
            rows = order[start : start + size]
            estimator.partial_fit(data[rows], labels[rows], **more)
            more = {}
        if epoch % gap == 0 or epoch == total:
            monitor.update(losses(estimator, data, labels), losses(estimator, *fresh), step=epoch)
        if progress is not None:
            progress(epoch, total)
        if monitor.should_stop:
            break
    return estimator


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(estimator))


# ---- PyTorch ---------------------------------------------------------------------------------


@dataclass(eq=False)
class TorchWatch:
    """A callback for PyTorch training loops: ``if watch(epoch): break``.

    Attributes:
        model: the module that is being trained.
        train: (inputs, labels) of all training records.
        fresh: (inputs, labels) of records for nothing but the monitor.
        loss: maps (outputs, labels) to one loss per record, e.g. ``MSELoss(reduction="none")``;
            further axes of the losses are averaged.
        monitor: what is updated.
        batch: records per forward pass.
    """

    model: Any
    train: tuple[Any, Any]
    fresh: tuple[Any, Any]
    loss: Callable[[Any, Any], Any]
    monitor: OverfittingMonitor
    batch: int = 4096

    def __call__(self, step: float | None = None) -> bool:
        """Look at the model (in evaluation mode, without gradients); return whether to stop."""
        training = self.model.training
        self.model.eval()
        try:
            self.monitor.update(self._losses(*self.train), self._losses(*self.fresh), step)
        finally:
            self.model.train(training)
        return self.monitor.should_stop

    def _losses(self, inputs: Any, labels: Any) -> FloatArray:
        try:
            import torch
        except ImportError:
            raise InputError(
                "model must be a PyTorch module, got no PyTorch. Install memberbound[torch]."
            ) from None
        parts = []
        with torch.no_grad():
            for start in range(0, len(labels), self.batch):
                rows = slice(start, start + self.batch)
                each = self.loss(self.model(inputs[rows]), labels[rows])
                if each.ndim == 0:
                    raise InputError(
                        "loss must give one loss per record, got a single number. Build it with "
                        'reduction="none".'
                    )
                flat = each.reshape(len(each), -1).mean(dim=1)
                parts.append(flat.double().cpu().numpy())
        return np.asarray(np.concatenate(parts))
