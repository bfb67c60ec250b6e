"""Errata of the papers, each with a computation that anybody can run.

``ERRATA`` maps a result id to an :class:`Erratum`. Nothing is computed on import: the
counterexample is computed when ``demonstrate`` is called, and the numerical libraries are
imported there.

Example:
    >>> ERRATA["I24-T8"].demonstrate().violated
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import a23, a25, i24, l24
from .types import Counterexample, Erratum

__all__ = ["ERRATA", "Counterexample", "Erratum"]

_ENTRIES = (
    Erratum(
        id="A23-C4.1.1",
        printed="A learner that is a function of empirical means (assumptions of A23-T4.1) has "
        "MIS at least 1 − ε as soon as n ≥ √d/ε, whatever the distribution.",
        holds="n must solve c·n^(−1/2) + √d/(2n) ≤ ε, with c depending on the distribution; for "
        "normal records c = E‖v‖/2. The corollary is not in A24.",
        demonstrate=a23.corollary_4_1_1,
    ),
    Erratum(
        id="A25-L22",
        printed="For Bernoulli(p) records and the release of their maximum, Δ equals "
        "½·max(1, 1/γ) times a term o((1−p)^n).",
        holds="At γ = 1, Δ = 2p(1−p)^n for every n (A24-L5.6). For large n, Δ/(1−p)^n is p if "
        "γ < 1 and max(0, 1 − γ(1−p)) if γ > 1, so it vanishes only for γ ≥ 1/(1−p).",
        demonstrate=a25.lemma_22,
    ),
    Erratum(
        id="A25-L29",
        printed="The sum (1/2γ)ΣE|B_k/n − γp_k| differs from (1/γn)Σψ + ½|1−1/γ| by "
        "|1−1/γ| times a term o(e^−n).",
        holds="For γ > 1 the term is exactly Σp_k P(B_k > ⌊γnp_k⌋), for γ < 1 it is "
        "Σp_k P(B_k ≤ ⌊γnp_k⌋): at most Σp_k exp(−2n p_k²(1−γ)²), decaying with exponent "
        "min kl(γp_k, p_k) per record over atoms with γp_k < 1. At γ = 1 the prefactor is 0.",
        demonstrate=a25.lemma_29,
    ),
    Erratum(
        id="A25-R13",
        printed="Proof: √(1+2u) = 1 + u − ½(1+2ū)^(−3/2) for some ū in [0, u], and ū ≤ √d/c² "
        "turns (1+2ū)^(3/2) into (1+√d/c²)^(3/2), so n ≥ ε^(−2)c²(1+√d/c²)^(3/2) is enough.",
        holds="The Taylor term carries u² and the last step drops a factor 2. The final size is "
        "still enough for every ε ≤ 1, only larger than needed: the exact size is "
        "((c + √(c² + 2ε√d))/(2ε))².",
        demonstrate=a25.remark_13,
    ),
    Erratum(
        id="A25-Tab1",
        printed="A classifier trained on clustered images has Δ ≤ C_K(P)/(2√n) with C_K(P) "
        "counted over the K clusters.",
        holds="The records are (cluster, label) pairs, so C must be taken over pairs; the "
        "cluster count covers only learners that ignore labels.",
        demonstrate=a25.table_1,
    ),
    Erratum(
        id="I24-Alg1",
        printed="Taking σ from random halves of D_train is consistent: as the budget B grows the "
        "noise meets the theorem's moment condition.",
        holds="The moment is over subsets of half the size of the whole D. Halves of D_train are "
        "smaller sets of other records: their moment can be smaller by any factor and varies "
        "with the secret.",
        demonstrate=i24.sigma_from_train,
    ),
    Erratum(
        id="I24-C10",
        printed="Adding r·U, with U uniform on the unit sphere of the scaled norm and r from a "
        "Laplace law of scale (6.16/η)^(1+2/M), gives η-MIP (also the sampler of I24-Alg1).",
        holds="The proof needs density ∝ exp(−‖x‖/c), that is r from a Gamma law of shape d and "
        "scale c; a Laplace radius is right at d = 1 only.",
        demonstrate=i24.corollary_10,
    ),
    Erratum(
        id="I24-T8",
        printed="Against an η-MIP mechanism every attacker has TPR ≤ FPR + η.",
        holds="TPR ≤ FPR + 2η, and this is attained.",
        demonstrate=i24.theorem_8,
    ),
    Erratum(
        id="L24-C4",
        printed="At n = 1, (ε, δ)-DP is the same as (ε, 2δ)-PMP for every pair of records.",
        holds="At n = 1, (ε, δ)-DP is the same as (ε, δ)-PMP for every pair of records.",
        demonstrate=l24.corollary_4,
    ),
    Erratum(
        id="L24-L3",
        printed="P(A ∈ S | x ∈ D) = (2/N)ΣP(A(D) ∈ S) over the N training sets with x, so the "
        "conditional form with 2δ is the same as the averaged form with δ.",
        holds="P(A ∈ S | x ∈ D) = (1/N)ΣP(A(D) ∈ S), so both forms carry the same δ; for δ = 0 "
        "nothing changes.",
        demonstrate=l24.lemma_3,
    ),
    Erratum(
        id="L24-P9",
        printed="The exponential mechanism is ε̃-PMP if and only if ε̃ is at least the largest "
        "ln(in/out) over records and candidates.",
        holds="ε̃ must be at least the largest |ln(in/out)|: the definition bounds both ratios.",
        demonstrate=l24.proposition_9,
    ),
    Erratum(
        id="L24-text",
        printed="1/(1 + e^−123) ≈ 0.53.",
        holds="1/(1 + e^−0.123) ≈ 0.53.",
        demonstrate=l24.typo_123,
    ),
)

ERRATA: Mapping[str, Erratum] = MappingProxyType({entry.id: entry for entry in _ENTRIES})
"""Errata by result id."""
