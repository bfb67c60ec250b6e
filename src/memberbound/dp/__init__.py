"""The neighbour game: DP guarantees as curves, and calibration to a target.

Submodules are imported on first use, so that ``import memberbound`` is fast.
"""

from memberbound.dp.dpsgd import DpSgd, DpSgdHistory, dp_sgd_from_history
from memberbound.dp.guarantees import (
    AdvantageTarget,
    DpGuarantee,
    EtaTarget,
    SecurityTarget,
    Target,
    TprTarget,
    calibrated_epsilon,
    calibrated_noise_multiplier,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gaussian_mechanism,
    guarantee_from_gdp,
    leak_from_pure_dp,
)

__all__ = [
    "AdvantageTarget",
    "DpGuarantee",
    "DpSgd",
    "DpSgdHistory",
    "EtaTarget",
    "SecurityTarget",
    "Target",
    "TprTarget",
    "calibrated_epsilon",
    "calibrated_noise_multiplier",
    "dp_sgd_from_history",
    "guarantee_from_dp_sgd",
    "guarantee_from_epsilon_delta",
    "guarantee_from_gaussian_mechanism",
    "guarantee_from_gdp",
    "leak_from_pure_dp",
]
