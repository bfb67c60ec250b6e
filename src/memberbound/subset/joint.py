"""Several releases about one subset: PMP does not compose, so treat them as one release.

Under DP the parameters of two releases add up because each bound holds whatever else is known.
PMP bounds an attacker to whom the subset is still uniform, and after the first release it is not
(L24-Dis1): the sum of three of the numbers 0…5 modulo 6, and the same sum with the labels 4 and 5
exchanged, are each ln 2-PMP and together PMP for no finite ε.  So there is no function here that
adds ε̃, only one that joins the *queries*: several Gaussian queries are one Gaussian query with
more coordinates, and the bound for that one holds for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, positive, whole_number
from memberbound.numerics.rounding import FloatArray, down, two_product, up

__all__ = ["GaussianQuery", "JointRelease", "joint_release", "repeated_noise"]

#: Rounding errors of the coordinates enter as coordinates of their own, 2^20 times enlarged …
_ENLARGED = 2.0**20
#: … and the noise is lowered by this share of itself.
_SHARE = 2.0**-40
#: Products whose rounding errors are doubles again.
_SMALL, _LARGE = 2.0**-900, 2.0**900


class GaussianQuery(NamedTuple):
    """The sum of ``vectors[x]`` over the subset, with noise N(0, σ²I), released so many times.

    A mean of k records with noise σ is the sum with noise kσ (``noise_on_sum``), divided by k.
    """

    vectors: ArrayLike
    sigma: float
    repetitions: int = 1


@dataclass(frozen=True, eq=False)
class JointRelease:
    """One query worth all of them: ``vectors`` for a neighbour profile, ``sigma`` to ask it about.

    ``sigma`` is the first query's (of all its repetitions), in whose unit the vectors are.
    """

    vectors: FloatArray
    sigma: float


def repeated_noise(sigma: float, repetitions: int) -> float:
    """Return σ/√T from below: T releases with independent noise σ are worth one with that noise.

    Theorem: their mean is a sufficient statistic (equivalently, T equal blocks have √T times the
    distance).

    Examples:
        >>> round(repeated_noise(6.0, 4), 12)
        3.0
    """
    scale, times = positive("sigma", sigma), whole_number("repetitions", repetitions)
    return scale if times == 1 else down(scale / math.sqrt(times), 4)


def joint_release(
    queries: Sequence[GaussianQuery | tuple[ArrayLike, float] | tuple[ArrayLike, float, int]],
) -> JointRelease:
    """Join several Gaussian queries on one subset of one population into a single query.

    Guarantee: whatever holds for noise N(0, σ²I) on the sum of the joined vectors holds for all
    the given releases together: no joined distance over σ is below the true √Σ(d_i/σ_i)².
    Theorem: independent Gaussian noise on (q_1, q_2, …) is Gaussian noise on the concatenation,
    once every block is divided by its σ (L24-L14 both ways).
    Assumes: the noises are independent, and all queries were chosen before the first release.
    Numerics: dividing rounds every coordinate, which would change small distances by an unknown
    amount.  So the rounding errors, which are doubles, follow as coordinates of their own: with
    hi + lo exact, ‖Δhi + Δlo‖² ≤ (1+t)(‖Δhi‖² + ‖Δlo‖²/t), here t = 2^-40.
    Edge cases: one query comes back as it is; equal σ need no division.

    Examples:
        >>> import numpy as np
        >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> joined = joint_release([(x, 2.0), (x * x, 4.0)])
        >>> joined.vectors.tolist(), joined.sigma
        ([[0.0, 0.0], [1.0, 0.5], [2.0, 2.0], [3.0, 4.5]], 2.0)
    """
    if len(queries) == 0:
        raise InputError("queries must be at least one pair (vectors, sigma), got none.")
    parsed = [GaussianQuery(*query) for query in queries]
    tables = [_table(query.vectors) for query in parsed]
    records = {len(table) for table in tables}
    if len(records) > 1:
        raise InputError(
            f"queries must be on the same records, got tables of {sorted(records)} rows. "
            "Row x of every table is the contribution of record x."
        )
    noises = [repeated_noise(query.sigma, query.repetitions) for query in parsed]
    blocks, errors = [], []
    for table, noise in zip(tables, noises, strict=True):
        block, error = _in_unit(table, noises[0], noise)
        blocks.append(block)
        if error.any():
            errors.append(_ENLARGED * error)
    # (1 + t)^-½ > 1 - t/2, and the factor below is smaller.
    sigma = down(noises[0] * (1 - _SHARE), 1) if errors else noises[0]
    return JointRelease(np.hstack(blocks + errors), sigma)


def _table(vectors: ArrayLike) -> FloatArray:
    try:
        table = np.array(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("vectors must be numbers, one row of equal length per record.") from None
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise InputError(
            f"vectors must be finite numbers, one row per record, got shape {table.shape}."
        )
    return table


def _in_unit(table: FloatArray, unit: float, noise: float) -> tuple[FloatArray, FloatArray]:
    """Rows times (at least) unit/noise, as an exact sum of two tables."""
    if noise == unit:
        return table, np.zeros_like(table)
    ratio = _quotient_up(unit, noise)
    # A column far from 0 is moved there, so that its rounding errors are those of differences.  No
    # distance changes: numbers within a factor of two are subtracted without error (Sterbenz).
    first = table[0]
    with np.errstate(over="ignore"):
        share = np.divide(table, first, out=np.zeros_like(table), where=first != 0)
    near = ((share >= 0.51) & (share <= 1.99)).all(axis=0)
    table = table - np.where(near, first, 0.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        high, low = two_product(np.float64(ratio), table)
        size = np.abs(np.concatenate([table[table != 0], high[table != 0]]))
    if not (_SMALL < ratio < _LARGE and np.all((size > _SMALL) & (size < _LARGE))):
        raise InputError(
            "vectors must lie between 1e-270 and 1e270, also over sigma. Change their unit."
        )
    return high, low


def _quotient_up(above: float, below: float) -> float:
    """Quotient from above; a power of two, and any other exact one, stays as it is."""
    ratio = above / below
    if not 0 < ratio < math.inf:
        raise InputError(f"sigma must not differ beyond all doubles, got {above!r}, {below!r}.")
    top, bottom = ratio.as_integer_ratio()
    up_top, up_bottom = above.as_integer_ratio()
    down_top, down_bottom = below.as_integer_ratio()
    exact = top * up_bottom * down_top == up_top * down_bottom * bottom
    return ratio if exact else up(ratio, 1)
