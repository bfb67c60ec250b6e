"""DP-SGD: the Poisson-subsampled Gaussian mechanism, for one step or many."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

import numpy as np

from memberbound.curve import GaussianCurve, TradeoffCurve, polygon_from_lines
from memberbound.dp.loss_lattice import Composition, ForwardProfile, LossLattice
from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.files import read_document
from memberbound.games import Adjacency
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack

# ── One step of DP-SGD: the Poisson-sampled Gaussian, put on a lattice of privacy losses ──────────
#
# A record takes part with probability q and then moves the noisy sum by at most the clipping norm,
# which is 1 in units where the noise has standard deviation σ.  Three ordered pairs (P, Q):
#
# ==========  =========================================  ===========================================
# direction   P                                          Q
# ==========  =========================================  ===========================================
# remove      (1-q)N(0,σ²) + qN(1,σ²)                    N(0,σ²)
# add         N(0,σ²)                                    (1-q)N(0,σ²) + qN(1,σ²)
# replace     (1-q)N(0,σ²) + qN(1,σ²)                    (1-q)N(0,σ²) + qN(-1,σ²)
# ==========  =========================================  ===========================================
#
# The first two dominate every add/remove neighbour (Zhu, Dong and Wang 2022), the third every
# replace-one neighbour (``proofs/replace-one-sampled-gaussian.md``).
# *From the pair to the lattice.*  The line is cut into small cells.  The losses in a cell are moved
# to its two ends, and then to the two nearest lattice points, both times preserving the P- and the
# Q-mass: a mean-preserving spread of the likelihood ratio, which can only raise hockey-sticks
# (connect-the-dots, Doroshenko et al. 2022).  All integrands are positive, so every mass has small
# *relative* error; losses are rounded up and weights towards the larger loss.  The argument, with
# its constants, is ``proofs/loss-lattice.md``.

Direction = Literal["remove", "add", "replace"]

#: Half-width of the integrated range, in standard deviations; the rest (1e-38) is moved to +∞.
_REACH = 13.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
#: Largest change of the exponent inside a cell for which the nodes integrate to full precision.
_CELL_EXPONENT = 0.5
#: Relative error of the quadrature itself; ``proofs/loss-lattice.md`` bounds it by 1e-13.
_QUADRATURE = 1e-13
#: Mass at the far end to move to +∞, and at the near end to raise.
_NEGLIGIBLE = 1e-34
#: Maximum lattice size; losses beyond it are moved to +∞ (coarser lattices reach further).
_MAX_POINTS = 1 << 18
#: Exponents beyond this are handled without raising e to them.
_LARGE = 600.0


def _log_mixture(shift: FloatArray, q: float) -> FloatArray:
    """Return ln(1 - q + q·e^s) without overflow, or cancellation for small or large q."""
    if q == 1.0:
        return shift
    with np.errstate(under="ignore"):
        small = np.minimum(shift, _LARGE)
        # For q > ½ the difference 1 - q is exact, and log1p would lose its digits.
        near = np.log1p(q * np.expm1(small)) if q <= 0.5 else np.log(1 - q + q * np.exp(small))
        far = math.log(q) + shift + (1 - q) / q * np.exp(-np.maximum(shift, _LARGE))
    return np.where(shift < _LARGE, near, far)


def _shifts(x: FloatArray, sigma: float, direction: Direction) -> list[tuple[int, FloatArray]]:
    """Return signs and exponents s of the terms ±ln(1 - q + q·e^s) of the loss."""
    variance = sigma * sigma
    ahead, behind = (1, (x - 0.5) / variance), (-1, (-x - 0.5) / variance)
    return {"remove": [ahead], "add": [behind], "replace": [ahead, behind]}[direction]


def _loss(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Return the privacy loss ln(P/Q), increasing in x (for "add" the line is mirrored)."""
    terms = [sign * _log_mixture(s, q) for sign, s in _shifts(x, sigma, direction)]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def _blur(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Return a bound on the error of a computed loss, at x or at any x' that rounds to it.

    Each term has a relative error for q ≤ ½ and an absolute one for larger q.  To this adds the
    rounding of s, at most (|x| + 1)/σ² units, times the derivative q·e^s/(1 - q + q·e^s) of the
    term.
    """
    units = np.zeros_like(x)
    for _, shift in _shifts(x, sigma, direction):
        value = _log_mixture(shift, q)
        with np.errstate(under="ignore"):
            slope = np.exp(np.minimum(math.log(q) + shift - value, 0.0))
        units += np.abs(value) + slope * (np.abs(x) + 1) / (sigma * sigma)
        if 0.5 < q < 1.0:
            units += 1 - math.log1p(-q)
    return 16 * UNIT * units


def _density(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Return the density of P."""
    norm = 1 / (sigma * math.sqrt(2 * math.pi))
    with np.errstate(under="ignore"):
        base = np.exp(-0.5 * np.square(x / sigma))
        if direction == "add":
            return norm * base
        return norm * ((1 - q) * base + q * np.exp(-0.5 * np.square((x - 1) / sigma)))


def _density_error(sigma: float) -> float:
    """Return the relative error of a mass, from quadrature and rounding of exponent and node.

    The exponent is at most ½·39² (the other bump, 39 = 13 + 1/σ deviations away at most when the
    ranges overlap), each node is off by a unit of |x| ≤ 1 + 13σ where the density has logarithmic
    slope at most 39/σ.
    """
    return _QUADRATURE + UNIT * (4096 + 256 / sigma)


def _cells(
    sigma: float, q: float, step: float, direction: Direction
) -> tuple[FloatArray, FloatArray]:
    """Return the left and right ends of the cells with P's mass, in ascending order.

    Cells are short enough for the quadrature, and, where their mass matters, short enough in loss
    for the lattice.  Coarser cells are less tight but never unsound.
    """
    width = min(sigma / 8, sigma * sigma * _CELL_EXPONENT)
    reach = _REACH * sigma
    centres = [0.0] if direction == "add" else [0.0, 1.0]
    blocks: list[list[float]] = []
    for centre in centres:
        if blocks and centre - reach <= blocks[-1][1]:
            blocks[-1][1] = centre + reach
        else:
            blocks.append([centre - reach, centre + reach])
    edges = [np.linspace(a, b, max(2, math.ceil((b - a) / width) + 1)) for a, b in blocks]
    left, right = np.concatenate([e[:-1] for e in edges]), np.concatenate([e[1:] for e in edges])
    rise = _loss(right, sigma, q, direction) - _loss(left, sigma, q, direction)
    weight = (right - left) * np.maximum(
        _density(left, sigma, q, direction), _density(right, sigma, q, direction)
    )
    coarse = np.maximum(1.0, 0.01 / np.sqrt(np.maximum(weight, 1e-300)))
    parts = np.maximum(np.ceil(rise / (step * coarse)), 1.0).astype(np.int64)
    index = np.repeat(np.arange(parts.size), parts)
    within = np.arange(index.size) - np.repeat(np.cumsum(parts) - parts, parts)
    piece = (right - left)[index] / parts[index]
    start = left[index] + within * piece
    # Cells must tile exactly: each one ends where the next begins.
    last = within == parts[index] - 1
    end = np.where(last, right[index], left[index] + (within + 1) * piece)
    return start, end


def loss_spread(sigma: float, q: float, direction: Direction) -> float:
    """Return the root-mean-square privacy loss of one step (an estimate, to choose the lattice)."""
    left, right = _cells(sigma, q, 1.0, direction)
    middle = 0.5 * (left + right)
    weight = _density(middle, sigma, q, direction) * (right - left)
    return float(np.sqrt(weight @ np.square(_loss(middle, sigma, q, direction))))


def one_step(sigma: float, q: float, direction: Direction, step: float) -> LossLattice:
    """Return the privacy loss of one step on the lattice of spacing ``step``, dominating the pair.

    Guarantee: for every γ the hockey-stick of the lattice is at least that of (P, Q).
    """
    left, right = _cells(sigma, q, step, direction)
    half = 0.5 * (right - left)
    x = (0.5 * (left + right))[:, None] + half[:, None] * _NODES[None, :]
    inner = _loss(x, sigma, q, direction)
    low, high = _loss(left, sigma, q, direction), _loss(right, sigma, q, direction)
    # Across a cell, the error bound grows by at most e^½, like its slope.
    blur = 2 * np.maximum(_blur(left, sigma, q, direction), _blur(right, sigma, q, direction))
    mass = _density(x, sigma, q, direction) * (half[:, None] * _WEIGHTS[None, :])
    gap = high - low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(np.minimum(low[:, None] - inner, 0.0)) / np.expm1(-gap)[:, None]
        share = share + (4 * blur * (1 + 1 / gap))[:, None] + 16 * UNIT
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    upper = np.einsum("ij,ij->i", mass, share)
    lower = np.einsum("ij,ij->i", mass, 1.0 - share)
    whole = upper + lower
    # Negligible cells: move far ones to +∞, and raise near ones to the first that counts.
    keep = np.cumsum(whole[::-1])[::-1] > _NEGLIGIBLE
    first = int(np.searchsorted(np.cumsum(whole), _NEGLIGIBLE))
    floor = max(float(low[min(first, low.size - 1)]), -_MAX_POINTS / 2 * step)
    losses = np.concatenate([low[keep], high[keep]]) + np.tile(blur[keep], 2)
    outside = 2 * math.erfc(_REACH / math.sqrt(2)) + float(whole[~keep].sum())
    masses = np.concatenate([lower[keep], upper[keep]])
    return _on_lattice(np.maximum(losses, floor), masses, step, outside, _density_error(sigma))


def _on_lattice(
    losses: FloatArray, masses: FloatArray, step: float, outside: float, error: float
) -> LossLattice:
    """Spread atoms to the two nearest lattice points, rounding towards the larger loss."""
    index = np.floor(losses / step)  # never below the true floor, because rounding is monotone
    start = int(index.min())
    fits = index - start < _MAX_POINTS
    outside += float(masses[~fits].sum())
    index, losses, masses = index[fits], losses[fits], masses[fits]
    gap = np.clip(losses - index * step, 0.0, step)
    blur = 16 * UNIT * (1 + np.abs(losses) * (1 + 1 / step))
    share = np.clip(np.expm1(-gap) / math.expm1(-step) + blur, 0.0, 1.0)
    position = (index - start).astype(np.int64)
    size = int(position.max()) + 2
    mass = np.zeros(size)
    mass += np.bincount(position, weights=masses * (1 - share), minlength=size)
    mass += np.bincount(position + 1, weights=masses * share, minlength=size)
    busiest = 2 * int(np.bincount(position).max())
    return LossLattice(start, step, mass, outside * (1 + 1e-9), error + sum_slack(busiest))


# ── Trade-off curves of DP-SGD: T steps of the Poisson-sampled Gaussian mechanism ─────────────────
# Lattices of any spacing give valid support lines, so the spacing is refined until the bound stops
# improving, and all lines are kept.

#: First spacing of the lattice relative to the spread of one step's loss, and its refinement.
_FIRST_STEP = 0.2
_REFINE = 4.0
#: Spacing that is fine enough by itself if a record is expected in this many steps.
_KNOWN_STEP = 0.025
_MANY_HITS = 5.0
#: The error is quadratic in the spacing, so after a change below this about a fifteenth remains.
_CONVERGED = 6e-3
_ROUNDS = 4
#: Spacing if all losses round to zero, where any spacing works.
_LEAST_SPREAD = 1e-200
#: Below this noise the mechanism reveals every sampled record, to double precision and beyond.
_NO_NOISE = 2e-3
#: Numbers that decide whether the bound still improves.
_WATCHED_FPR = (0.1, 1e-2, 1e-3)


class _Steps:
    """Steps of one or several kinds, in any order."""

    parts: tuple[DpSgd, ...]

    @property
    def gaussian(self) -> bool:
        """Whether every step uses all records, so that the curve has a closed form."""
        return all(part.sample_rate == 1.0 for part in self.parts)

    def curve(self, adjacency: Adjacency = "add-remove") -> TradeoffCurve:
        """Return the curve of "record in" against "record out" (add/remove) or replaced.

        Guarantee: at or above the exact curve, rounding and Fourier error included.
        Theorem: dominating pairs compose (Zhu, Dong and Wang 2022); for replace-one the pair is
        proved in ``proofs/replace-one-sampled-gaussian.md``.
        Numerics: within about 0.1 % of the truth for usual parameters.
        Edge cases: q = 1 is exactly Gaussian DP with μ = √T/σ (2√T/σ for replace-one).
        """
        if self.gaussian:
            each = (math.sqrt(part.steps) / part.noise_multiplier for part in self.parts)
            mu = math.hypot(*each) * (1 + (4 + len(self.parts)) * UNIT)
            return GaussianCurve(mu if adjacency == "add-remove" else 2 * mu)
        if adjacency == "add-remove":
            ahead = self.profile("remove")
            behind = self.profile("add")
        else:
            ahead = behind = self.profile("replace")
        return polygon_from_lines(ahead.epsilon, ahead.delta, behind.epsilon, behind.delta)

    def symmetric_curve(self) -> TradeoffCurve:
        """Return a curve at or above "in against out" and "out against in" under add/remove.

        DP bounds both orders; see :meth:`TradeoffCurve.symmetrised`.
        """
        if self.gaussian:
            return self.curve("add-remove")
        lines = self.profile("remove").worse(self.profile("add"))
        return polygon_from_lines(lines.epsilon, lines.delta, lines.epsilon, lines.delta)

    def profile(self, direction: Direction) -> ForwardProfile:
        """Return support lines for one ordered pair of worlds."""
        kinds: Counter[tuple[float, float]] = Counter()
        for part in self.parts:
            kinds[part.noise_multiplier, part.sample_rate] += part.steps
        return _profile(tuple(sorted((*kind, steps) for kind, steps in kinds.items())), direction)


@dataclass(frozen=True)
class DpSgd(_Steps):
    """Parameters of DP-SGD: noise multiplier σ, Poisson sampling rate q, number of steps T.

    The sum of clipped gradients over a Poisson sample gets Gaussian noise of standard deviation
    σ times the clipping norm, T times; all T noisy sums are released.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        positive(
            "noise_multiplier",
            self.noise_multiplier,
            "Without noise there is no bound; use at least 0.01.",
        )
        fraction("sample_rate", self.sample_rate, open_left=True)
        object.__setattr__(self, "steps", whole_number("steps", self.steps))

    @property
    def parts(self) -> tuple[DpSgd, ...]:  # type: ignore[override]
        """This object, the only kind of step."""
        return (self,)

    @property
    def sampled_probability(self) -> float:
        """Upper bound on the probability 1 - (1-q)^T that a record is sampled at all."""
        return _sampled(((self.noise_multiplier, self.sample_rate, self.steps),))


@dataclass(frozen=True)
class DpSgdHistory(_Steps):
    """Steps with different noise or sampling rates, as in an accountant's history.

    Guarantee: the curve holds for the steps in any order, each chosen after seeing the earlier
    releases (``proofs/replace-one-sampled-gaussian.md``, §4).

    Examples:
        >>> long = DpSgdHistory((DpSgd(1.0, 0.01, 60), DpSgd(1.0, 0.01, 40)))
        >>> long.curve().advantage == DpSgd(1.0, 0.01, 100).curve().advantage
        True
    """

    parts: tuple[DpSgd, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("history must have at least one step, got none.")


def dp_sgd_from_history(history: object) -> DpSgd | DpSgdHistory:
    """Return the steps of an Opacus history of (noise multiplier, sample rate, steps).

    ``history`` is that list, a JSON file with it, an accountant, or a ``PrivacyEngine``.  Nothing
    else, such as an accountant's ε, is used.

    Examples:
        >>> dp_sgd_from_history([(1.0, 0.01, 60), (1.0, 0.01, 40)])
        DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    """
    listed = history
    if isinstance(history, (str, os.PathLike)):
        listed = read_document(history, "history", "JSON")
        listed = listed.get("history") if isinstance(listed, dict) else listed
    else:
        listed = getattr(getattr(listed, "accountant", listed), "history", listed)
    kinds: dict[tuple[float, float], int] = {}
    try:
        for noise, rate, steps in cast("Iterable[tuple[float, float, int]]", listed):
            part = DpSgd(noise, rate, steps)
            kind = (float(part.noise_multiplier), float(part.sample_rate))
            kinds[kind] = kinds.get(kind, 0) + part.steps
    except (TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            "history must be a list of [noise multiplier, sample rate, steps], an accountant or a "
            f"PrivacyEngine, got {type(history).__name__}: {problem}."
        ) from None
    parts = tuple(DpSgd(*kind, steps) for kind, steps in kinds.items())
    return parts[0] if len(parts) == 1 else DpSgdHistory(parts)


#: Kinds of steps: (σ, q, T) each.
_Kinds = tuple[tuple[float, float, int], ...]


def _sampled(kinds: _Kinds) -> float:
    if any(q == 1.0 for _, q, _ in kinds):
        return 1.0
    never = math.fsum(steps * math.log1p(-q) for _, q, steps in kinds)
    return min(1.0, -math.expm1(never) * (1 + 8 * UNIT))


def _certain_lines(kinds: _Kinds, direction: Direction) -> ForwardProfile:
    """Return lines that hold for any noise.

    With probability Π(1-q)^T the record is never sampled and the two worlds agree, so hockey-sticks
    never exceed one minus it; and N(0) is at most Π(1-q)^{-T} times the mixture.
    """
    sampled = _sampled(kinds)
    lines = ForwardProfile(np.array([0.0]), np.array([sampled]))
    if direction == "add" and all(q < 1.0 for _, q, _ in kinds):
        reach = -math.fsum(steps * math.log1p(-q) for _, q, steps in kinds) * (1 + 8 * UNIT)
        return lines.meet(ForwardProfile(np.array([reach]), np.array([0.0])))
    return lines


@lru_cache(maxsize=64)
def _profile(kinds: _Kinds, direction: Direction) -> ForwardProfile:
    lines = _certain_lines(kinds, direction)
    if any(sigma < _NO_NOISE for sigma, _, _ in kinds):
        return lines
    squares = (steps * loss_spread(sigma, q, direction) ** 2 for sigma, q, steps in kinds)
    count = sum(steps for _, _, steps in kinds)
    spread = max(math.sqrt(math.fsum(squares) / count), _LEAST_SPREAD)
    # With many sampled steps the total is nearly normal, and a spacing of f times one step's spread
    # adds at most f²/4 of its variance: no second lattice is needed to verify the spacing.
    nearly_normal = all(q == 1.0 or q * steps >= _MANY_HITS for _, q, steps in kinds)
    spacing = spread * (_KNOWN_STEP if nearly_normal else _FIRST_STEP)
    before: np.ndarray | None = None
    for _ in range(_ROUNDS):
        lattices = ((one_step(sigma, q, direction, spacing), steps) for sigma, q, steps in kinds)
        profile = Composition(tuple(lattices)).profile()
        if profile.advantage >= 1.0 and before is not None:
            break  # the window would not fit in memory; keep the results of the coarser lattices
        lines = lines.meet(profile)
        if nearly_normal:
            if profile.advantage < 1.0:
                break
            spacing *= 2.0  # the window may fit in memory
            continue
        now = np.array([profile.advantage, *(profile.tpr(a) - a for a in _WATCHED_FPR)])
        if before is not None and np.all(before - now <= _CONVERGED * np.abs(now)):
            break
        before, spacing = now, spacing / _REFINE
    # Hockey-sticks decrease in ε, so each line may use the smallest δ to its left.
    return ForwardProfile(lines.epsilon, np.minimum.accumulate(lines.delta))
