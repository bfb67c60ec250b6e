"""Noise independent of the table: the observable output, and the sums that noise has to hide."""

import numpy as np

from memberbound.release import budget as budgets


def replayed(monkeypatch, make):
    """Return what ``make()`` returns, and (sums, noise scale, sensitivity) of every release in it.

    The noise replaces the sums, the same for every table; some cells rise above it.  A release
    without noise from a part of a budget has sensitivity infinity.
    """
    sums, sensitivities, plain = [], {}, budgets.BudgetShare.sums

    def release(values, scale, source):
        exact = np.asarray(values, dtype=np.float64)
        sums.append((exact.copy(), scale))
        noise = source.normal(exact.size).reshape(exact.shape)
        # In a first look the cells 0, 35, 70, … count whole numbers of every fifth octave: these
        # must outweigh all texts, or nothing of a column is learnt.
        index = np.arange(exact.size)
        rising = 9.0 * (index % 5 == 0) + 200.0 * (index % 35 == 0)
        return scale * (np.where(index < 900, rising, 0.0).reshape(exact.shape) + noise)

    def paid(part, *, sensitivity, times=1):
        noise = plain(part, sensitivity=sensitivity, times=times)
        sensitivities[noise.scale] = max(sensitivity, sensitivities.get(noise.scale, 0.0))
        return noise

    with monkeypatch.context() as patch:
        patch.setattr(budgets, "noisy_release", release)
        patch.setattr(budgets.BudgetShare, "sums", paid)
        made = make()
    return made, [(exact, scale, sensitivities.get(scale, np.inf)) for exact, scale in sums]


def published_part(answer):
    """Return everything published, without the values for the owner of the rows only."""
    private = getattr(answer, "owner_only", ())
    shown = {key: value for key, value in answer.to_dict().items() if key not in private}
    if hasattr(answer, "table"):
        record = answer.spent.derivation(answer.records, answer.theorems)
        return repr((shown, record, answer.table.astype(str).to_dict()))
    model = getattr(answer, "released", None)
    told = model.certificate_fields() if hasattr(model, "certificate_fields") else None
    return repr((shown, told, model.to_dict() if hasattr(model, "to_dict") else None))


def spent(first, second):
    """Return Σ(distance/noise)² of two worlds.

    Infinity if the requests differ, or if a vector moves further than its part of the budget pays
    for: parts that pay enough do not hide one that pays too little.
    """
    if [(a.shape, scale) for a, scale, _ in first] != [(b.shape, scale) for b, scale, _ in second]:
        return np.inf
    total = 0.0
    for (a, scale, sensitivity), (b, _, _) in zip(first, second, strict=True):
        distance = float(np.linalg.norm(a - b))
        if distance > sensitivity * (1 + 1e-9):
            return np.inf
        total += (distance / scale) ** 2
    return total
