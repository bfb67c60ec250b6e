"""The neighbour game: DP statements as curves, closed forms, and the way back from a target.

Submodules are imported when first used, so that ``import memberbound`` stays quick.
"""

from memberbound.dp.calibration import (
    AdvantageTarget,
    EtaTarget,
    SecurityTarget,
    Target,
    TprTarget,
    calibrated_epsilon,
    calibrated_gdp,
    calibrated_noise_multiplier,
)
from memberbound.dp.conversions import (
    accuracy_from_dp,
    advantage_from_dp,
    epsilon_from_advantage,
    eta_from_dp,
    eta_from_pmp,
    eta_from_pmp_printed,
    guarantee_from_rdp,
    guarantee_from_zcdp,
    leak_from_dp,
    leak_from_dp_printed,
    leak_from_information,
    leak_from_pure_dp,
    leak_from_total_variation,
    posterior_odds_from_dp,
    precision_from_dp,
    success_from_pmp,
    tpr_from_dp,
    tpr_from_eta,
)
from memberbound.dp.dpsgd import DpSgd, DpSgdHistory
from memberbound.dp.guarantees import (
    DpGuarantee,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gaussian_mechanism,
    guarantee_from_gdp,
    guarantee_from_laplace_mechanism,
)
from memberbound.dp.loss_lattice import guarantee_from_pld

__all__ = [
    "AdvantageTarget",
    "DpGuarantee",
    "DpSgd",
    "DpSgdHistory",
    "EtaTarget",
    "SecurityTarget",
    "Target",
    "TprTarget",
    "accuracy_from_dp",
    "advantage_from_dp",
    "calibrated_epsilon",
    "calibrated_gdp",
    "calibrated_noise_multiplier",
    "epsilon_from_advantage",
    "eta_from_dp",
    "eta_from_pmp",
    "eta_from_pmp_printed",
    "guarantee_from_dp_sgd",
    "guarantee_from_epsilon_delta",
    "guarantee_from_gaussian_mechanism",
    "guarantee_from_gdp",
    "guarantee_from_laplace_mechanism",
    "guarantee_from_pld",
    "guarantee_from_rdp",
    "guarantee_from_zcdp",
    "leak_from_dp",
    "leak_from_dp_printed",
    "leak_from_information",
    "leak_from_pure_dp",
    "leak_from_total_variation",
    "posterior_odds_from_dp",
    "precision_from_dp",
    "success_from_pmp",
    "tpr_from_dp",
    "tpr_from_eta",
]
