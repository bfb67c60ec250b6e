"""Noise that forgets the table: what is seen then, and what the noise had to hide."""

import numpy as np

from memberbound.release import budget as budgets


def replayed(monkeypatch, make):
    """Return what ``make()`` returns, and the (sums, noise scale) of every release on the way.

    The noise replaces the sums, the same for every table; some cells rise above it.
    """
    sums = []

    def release(values, scale, source):
        exact = np.asarray(values, dtype=np.float64)
        sums.append((exact.copy(), scale))
        noise = source.normal(exact.size).reshape(exact.shape)
        return scale * (9.0 * (np.arange(exact.size) % 5 == 0).reshape(exact.shape) + noise)

    with monkeypatch.context() as patch:
        patch.setattr(budgets, "noisy_release", release)
        return make(), sums


def published(answer):
    """Return all that is said and released, but what is for the owner of the rows only."""
    private = getattr(answer, "owner_only", ())
    shown = {key: value for key, value in answer.to_dict().items() if key not in private}
    if hasattr(answer, "table"):
        return repr((shown, answer.table.astype(str).to_dict()))
    model = getattr(answer, "released", None)
    return repr((shown, model.to_dict() if hasattr(model, "to_dict") else None))


def spent(first, second):
    """Return Σ(distance/noise)² of two worlds, infinity where different things were asked for."""
    if [(a.shape, scale) for a, scale in first] != [(b.shape, scale) for b, scale in second]:
        return np.inf
    pairs = zip(first, second, strict=True)
    return sum(float(np.square((a - b) / scale).sum()) for (a, scale), (b, _) in pairs)
