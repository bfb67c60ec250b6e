"""Settings and adapters of the tools in the benchmark of ``explain``; imported, not run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIGMA, RATE, STEPS = 1.0, 0.01, 1000
DELTA = 1e-5
FPRS = (1e-2, 1e-3)
NAMES = ("advantage", "ε(1e-5)", "TPR(1e-2)", "TPR(1e-3)")
TARGET_ADVANTAGE = 0.1
TARGET_TPR, TARGET_FPR = 0.05, 0.01
LITTLE_NOISE = 0.01
#: riskcal's lattice spacings, coarsest first; 1e-4 is its default.
GRIDS = (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)
DEFAULT_GRID = 1e-4


def ours() -> tuple[float, ...]:
    """All numbers of ``explain``, including η and MIS (which also need replace-one curves)."""
    import memberbound
    from memberbound.dp.dpsgd import _profile

    _profile.cache_clear()
    found = memberbound.explain(
        noise_multiplier=SIGMA, sample_rate=RATE, steps=STEPS, delta=DELTA, fpr=FPRS
    )
    found.to_dict()
    assert found.epsilon is not None
    return (found.advantage_upper, found.epsilon, *found.tpr_upper.values())


def ours_add_remove() -> tuple[float, ...]:
    """The four numbers alone, from the add/remove curve."""
    from memberbound.dp.dpsgd import DpSgd, _profile

    _profile.cache_clear()
    curve = DpSgd(SIGMA, RATE, STEPS).curve("add-remove").symmetrised()
    return (curve.advantage, curve.epsilon(DELTA), *(curve.tpr(a) for a in FPRS))


def with_riskcal(grid: float) -> tuple[float, ...]:
    """The four numbers from one distribution: the quickest way riskcal offers."""
    from riskcal import analysis
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    accountant.history.append((SIGMA, RATE, STEPS))
    pld = accountant.get_pld(grid_step=grid)
    beta = analysis.get_beta_from_pld(pld, alpha=np.array(sorted(FPRS)))
    tpr = dict(zip(sorted(FPRS), 1 - beta, strict=True))
    return (
        float(analysis.get_advantage_from_pld(pld)),
        float(pld.get_epsilon_for_delta(DELTA)),
        *(float(tpr[a]) for a in FPRS),
    )


def with_dp_accounting(grid: float) -> tuple[float, ...]:
    """dp-accounting as it is; a TPR is the smallest of its lines δ(ε) + e^ε·FPR."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    pld = from_gaussian_mechanism(
        SIGMA, sampling_prob=RATE, value_discretization_interval=grid
    ).self_compose(STEPS)
    eps = np.linspace(0.0, 4.0, 2001)
    delta = np.asarray(pld.get_delta_for_epsilon(eps))
    return (
        float(delta[0]),
        float(pld.get_epsilon_for_delta(DELTA)),
        *(float(np.min(delta + np.exp(eps) * a)) for a in FPRS),
    )


def ours_calibrated(kind: str) -> float:
    import memberbound
    from memberbound.dp.dpsgd import _profile

    _profile.cache_clear()
    goal: dict[str, float] = (
        {"target_advantage": TARGET_ADVANTAGE}
        if kind == "advantage"
        else {"target_tpr": TARGET_TPR, "fpr": TARGET_FPR}
    )
    found = memberbound.explain(sample_rate=RATE, steps=STEPS, **goal)
    return float(found.parameters.noise_multiplier)


def riskcal_calibrated(kind: str, grid: float) -> float:
    from riskcal.calibration import dpsgd

    if kind == "advantage":
        return float(
            dpsgd.find_noise_multiplier_for_advantage(TARGET_ADVANTAGE, RATE, STEPS, grid_step=grid)
        )
    return float(
        dpsgd.find_noise_multiplier_for_err_rates(
            alpha=TARGET_FPR, beta=1 - TARGET_TPR, sample_rate=RATE, num_steps=STEPS, grid_step=grid
        )
    )


def riskcal_little_noise() -> float:
    from riskcal.calibration import dpsgd

    return float(dpsgd.get_advantage_for_dpsgd(LITTLE_NOISE, RATE, STEPS))


#: Jobs that may take minutes, run in a process of their own.
WORKERS: dict[str, Callable[[float], float]] = {
    "advantage": lambda grid: riskcal_calibrated("advantage", grid),
    "tpr": lambda grid: riskcal_calibrated("tpr", grid),
    "little-noise": lambda _: riskcal_little_noise(),
}
