"""Make and verify the tabulated concave count functions (X5, proofs/count-functions.md).

``python scripts/make_count_function.py`` solves one linear program per exponent s, writes
``src/memberbound/iid/poisson_table.csv`` and verifies it; ``--verify`` only verifies the file.

It verifies, for *every* λ > 0 (the three ranges are the three claims of the proof):

* λ ≤ 1: s + e^{-s h(1)} ≤ 1 (h(1) ≥ 1 when s = 0);
* 1 ≤ λ ≤ 2·c₀: values on a fine grid, and a bound on the second derivative between grid points;
* λ ≥ 2·c₀: the closed-form tail, one inequality at 2·c₀ that improves with λ.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np
from scipy import optimize, sparse, special

TABLE = Path(__file__).resolve().parents[1] / "src/memberbound/iid/poisson_table.csv"
EXPONENTS = (0.0, 0.8, 0.5, 0.25, 0.12, 0.06, 0.03)
LAST = 160  # c₀: the tail takes over above it
SHIFT = 0.5  # a in the tail κ√(c + a) + b
OFFSET = 0.0203  # b = OFFSET·s, a little above κ²/8 = 0.01989
SCALE = 10**9  # the table holds whole multiples of 1e-9, so that concavity is checked exactly
STEP = 0.005  # of the grid between 1 and 2·c₀
MARGIN = 2e-5  # built in by the program, used up by the gaps of the grid and by rounding
ROUNDING = 1e-10  # of the double-precision sums below, far above their true error of about 1e-13
KAPPA = 1 / math.sqrt(2 * math.pi)


def tail(count: np.ndarray, exponent: float) -> np.ndarray:
    """κ√(c + a) + b, the count function above c₀."""
    return KAPPA * np.sqrt(count + SHIFT) + OFFSET * exponent


def poisson_deviation(lam: np.ndarray) -> np.ndarray:
    """g(λ) = ½E|Poi(λ) - λ| = λ·P(Poi(λ) = ⌊λ⌋)."""
    floor = np.floor(lam)
    return np.exp((floor + 1) * np.log(lam) - lam - special.gammaln(floor + 1))


def poisson_matrix(lam: np.ndarray, size: int) -> np.ndarray:
    """P(Poi(λ) = c) for c = 0 … size."""
    count = np.arange(size + 1)
    return np.exp(count * np.log(lam)[:, None] - lam[:, None] - special.gammaln(count + 1))


def extended(values: np.ndarray, exponent: float, size: int) -> np.ndarray:
    """h(0) … h(size): the table, then the tail."""
    beyond = np.arange(len(values) + 1, size + 1)
    return np.concatenate([[0.0], values, tail(beyond, exponent)])


# ------------------------------------------------------------------------------------ making


def solve(exponent: float) -> np.ndarray:
    """Return whole multiples of 1e-9: a concave h with least mean ratio E h/g over log λ.

    The condition E e^{-sh} ≤ e^{-sg} is convex in h; each round replaces it by its tangents at the
    last solution (an outer approximation), which a handful of rounds makes exact.
    """
    size = 4 * LAST + 200
    lam = np.concatenate([np.arange(1.0, 60, 0.05), np.arange(60, 2 * LAST + 0.1, 0.25)])
    pmf = poisson_matrix(lam, size)
    g = poisson_deviation(lam)
    spread = np.exp(np.linspace(math.log(0.4), math.log(LAST), 60))
    weight = (poisson_matrix(spread, size) / poisson_deviation(spread)[:, None]).sum(axis=0)
    first = 1.0 if exponent == 0 else -math.log1p(-exponent) / exponent
    first = math.ceil(first * SCALE) / SCALE
    bounds = [(first, first)] + [(0, None)] * (LAST - 1)
    # Concavity: h(c-1) - 2h(c) + h(c+1) ≤ -1e-7, across the join with the fixed tail.
    second = np.zeros((LAST + 1, LAST + 3))
    for row in range(LAST + 1):
        second[row, row : row + 3] = (1, -2, 1)
    fixed = np.concatenate([np.zeros(LAST + 1), tail(np.arange(LAST + 1, LAST + 3), exponent)])
    concave_right = -1e-7 - second @ fixed
    concave_left = second[:, 1 : LAST + 1]
    current = tail(np.arange(1, LAST + 1), exponent) + 0.3
    for _ in range(1 if exponent == 0 else 12):
        whole = extended(current, exponent, size)
        if exponent == 0:
            left, right = pmf, g + MARGIN
        else:
            tilted = pmf * np.exp(-exponent * whole)
            target = np.exp(-exponent * g) * (1 - exponent * MARGIN)
            left = tilted
            right = (tilted.sum(axis=1) - target) / exponent + tilted @ whole
        right = right - left[:, LAST + 1 :] @ whole[LAST + 1 :]
        scale = 1 / np.maximum(left.sum(axis=1), 1e-9)
        found = optimize.linprog(
            weight[1 : LAST + 1],
            A_ub=sparse.csr_matrix(
                np.vstack([concave_left, -(left * scale[:, None])[:, 1 : LAST + 1]])
            ),
            b_ub=np.concatenate([concave_right, -right * scale]),
            bounds=bounds,
            method="highs",
        )
        if not found.success:
            raise RuntimeError(f"no count function at s = {exponent}: {found.message}")
        moved = float(np.max(np.abs(found.x - current)))
        current = found.x
        if moved < 1e-8:
            break
    # Rounding the increments keeps them non-increasing.
    return np.cumsum(np.round(np.diff(np.concatenate([[0.0], current])) * SCALE)).astype(np.int64)


# --------------------------------------------------------------------------------- verifying


def check_shape(whole: np.ndarray, exponent: float) -> None:
    """h(0) = 0, increments in [0, 1] (s = 0) or [0, ∞), non-increasing, join included."""
    increments = np.diff(np.concatenate([[0], whole]))
    if np.any(np.diff(increments) > 0) or np.any(increments < 0):
        raise ValueError("the table is not concave and non-decreasing.")
    if exponent == 0 and increments[0] > SCALE:
        raise ValueError("h must grow by at most 1 per row.")
    last = len(whole)
    onward = tail(np.array([last + 1, last + 2]), exponent)
    join = onward[0] - whole[-1] / SCALE
    if not increments[-1] / SCALE >= join + 1e-12 or not join >= onward[1] - onward[0] + 1e-12:
        raise ValueError("the table does not join its tail concavely.")


def check_start(first: float, exponent: float) -> float:
    """λ ≤ 1 (claim 4): the slack 1 - s - e^{-s h(1)}, or h(1) - 1 when s = 0."""
    return first - 1 if exponent == 0 else 1 - exponent - math.exp(-exponent * first)


def check_middle(tables: dict[float, np.ndarray], upto: int) -> dict[float, float]:
    """1 ≤ λ ≤ upto (claim 5): the least certified slack of each function, in units of h."""
    size = int(upto + 14 * math.sqrt(upto) + 60)
    # f = h, or f = (1 - e^{-sh})/s: the claim is E f ≥ g, or E f ≥ (1 - e^{-sg})/s.
    f = np.empty((size + 1, len(tables)))
    for j, (s, values) in enumerate(tables.items()):
        h = extended(values, s, size)
        f[:, j] = h if s == 0 else -np.expm1(-s * h) / s
    curvature = np.zeros_like(f)
    curvature[:-2] = np.abs(np.diff(f, 2, axis=0))
    worst = np.full(len(tables), math.inf)
    per_unit = round(1 / STEP)
    for m in range(1, upto):
        lam = m + np.arange(per_unit + 1) / per_unit
        # Counts outside the window have mass below 1e-20; leaving out f ≥ 0 there is safe.
        reach = int(10 * math.sqrt(m) + 40)
        window = np.arange(max(0, m - reach), min(size, m + 1 + reach) + 1)
        pmf = np.exp(
            window * np.log(lam)[:, None] - lam[:, None] - special.gammaln(window + 1)[None, :]
        )
        # g on [m, m+1] by one formula, so that its derivatives hold on the closed interval:
        # g' = (g/λ)(m+1-λ) ≥ 0 and g'' = (g/λ²)((m+1-λ)(m-λ) - λ), where |(m+1-λ)(m-λ)| ≤ ¼.
        g = np.exp((m + 1) * np.log(lam) - lam - math.lgamma(m + 1))
        slope = g[1:] / lam[:-1] * (m + 1 - lam[:-1])
        bend = g[1:] / lam[:-1] ** 2 * (0.25 + lam[1:])
        # (E f)'' = E Δ²f(X), and P_λ(c) ≤ P_low(c)·(1 + STEP/m)^c for λ in [low, low + STEP].
        grown = pmf[:-1] * np.exp(window * math.log1p(STEP / m))
        turned = grown @ curvature[window]
        means = pmf @ f[window]
        for j, s in enumerate(tables):
            target = g if s == 0 else -np.expm1(-s * g) / s
            slack = means[:, j] - target - ROUNDING
            gap = (turned[:, j] + bend + s * slope**2) * STEP**2 / 8
            certified = np.minimum(slack[:-1], slack[1:]) - gap
            worst[j] = min(worst[j], float(certified.min()))
    return dict(zip(tables, worst.tolist(), strict=True))


def check_tail(last: int, exponent: float) -> float:
    """λ ≥ 2c₀ (claim 6): the certified slack times r/κ at λ = 2c₀; it grows with λ."""
    lam = 2.0 * last
    r = math.sqrt(lam + SHIFT)
    theta = exponent * KAPPA
    # r√λ(e^{1/(24(λ-½))} - 1) ≤ its value at 2c₀.
    stirling = r * math.sqrt(lam) * math.expm1(1 / (24 * (lam - 0.5)))
    log_below = -lam + last + last * math.log(lam / last)  # ln P(X ≤ c₀), Chernoff
    slack = SHIFT / 2 - 1 / 8 - stirling
    if exponent == 0:
        slack -= 15 / (16 * r**2) + 5 / (16 * r**4)
        return slack - r * math.sqrt(last + SHIFT) * math.exp(log_below)
    fourth = (math.exp(2) - 3) / 16
    if not OFFSET * exponent - exponent * KAPPA**2 / 8 >= fourth * KAPPA * theta**3 / 16:
        raise ValueError("the tail's offset is too small for this exponent.")
    slack -= fourth * (15 / (16 * r**2) + 15 * theta / (16 * r) + 3 * theta**2 / 8)
    lost = math.exp(theta * r + 2 - 2 * math.sqrt(lam))
    lost += math.exp(theta * r + OFFSET * exponent**2 + log_below)
    return slack - r * lost / theta


def verify(tables: dict[float, np.ndarray]) -> dict[float, tuple[float, float, float]]:
    """Return the three certified slacks of every table; a negative one is an error."""
    for exponent, whole in tables.items():
        check_shape(whole, exponent)
    last = len(next(iter(tables.values())))
    middle = check_middle({s: whole / SCALE for s, whole in tables.items()}, 2 * last)
    slacks = {}
    for s, whole in tables.items():
        found = (check_start(whole[0] / SCALE, s), middle[s], check_tail(last, s))
        if min(found) < 0:
            raise ValueError(f"the count function at s = {s} fails: {found}.")
        slacks[s] = found
    return slacks


def read(path: Path = TABLE) -> dict[float, np.ndarray]:
    """Return the whole multiples of 1e-9 per exponent."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    exponents = [float(name.removeprefix("s=")) for name in rows[0][1:]]
    columns = np.array([[round(float(x) * SCALE) for x in row[1:]] for row in rows[1:]])
    return {s: columns[:, j].astype(np.int64) for j, s in enumerate(exponents)}


def write(tables: dict[float, np.ndarray], path: Path = TABLE) -> None:
    """Write one column per exponent."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("# Concave count functions h_s(c); made by scripts/make_count_function.py.\n")
        file.write(f"# Above the last row: sqrt((c + {SHIFT})/(2 pi)) + {OFFSET}*s.\n")
        file.write("c," + ",".join(f"s={s:g}" for s in tables) + "\n")
        for c, row in enumerate(zip(*tables.values(), strict=True), 1):
            file.write(f"{c}," + ",".join(f"{x / SCALE:.9f}" for x in row) + "\n")


def main() -> None:
    """Make (unless told only to verify) and verify."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verify", action="store_true", help="verify the file, do not rewrite it")
    if not parser.parse_args().verify:
        write({s: solve(s) for s in EXPONENTS})
    for exponent, slacks in verify(read()).items():
        print(f"s = {exponent:<5g} certified slacks: " + ", ".join(f"{x:.3g}" for x in slacks))


if __name__ == "__main__":
    main()
