"""Errata of the papers, each with a computation that anybody can run.

``ERRATA`` maps a result id to an :class:`Erratum`. Nothing is computed on import: the
counterexample is computed when ``demonstrate`` is called, and the numerical libraries are
imported there.

Examples:
    >>> ERRATA["I24-T8"].demonstrate().violated
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from . import a23, a24, a25, a25_overfitting, a25_privacy, a25_table, i24, l24, x
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
        id="A24-C5.4.2",
        printed="For K finite and every n ≥ 2 the worst Δ is at least "
        "exp(−13/6)/√(2π)·(C − 1/√(2n))·n^(−1/2), with no condition on the atoms.",
        holds="The bound needs n·p_k ≥ 1 for every atom: the proof expands ln(1 − u) around 0, "
        "and u reaches 1 for rare atoms. Without the condition it can exceed 1.",
        demonstrate=a24.corollary_5_4_2,
    ),
    Erratum(
        id="A24-PB.1",
        printed="TV(N(0, I), N(β/√n, (1−1/n)I)) ≤ √d/(2n) + ‖β‖/(2√n) for every integer n.",
        holds="It holds for n ≥ 2, which the proof uses; at n = 1 the second law is a point and "
        "the distance is 1.",
        demonstrate=a24.proposition_b_1,
    ),
    Erratum(
        id="A24-T5.1",
        printed="For a function of empirical means Δ ≤ (C(d)(1 + m₃) + m₁/2)·n^(−1/2) + √d/(2n) "
        "with C(d) depending on the dimension d only.",
        holds="C depends on the law of L(z): on its absolutely continuous part, which may be as "
        "small as one likes. For each fixed law the rate n^(−1/2) stands; A25-T13 states it so, "
        "though its proof repeats C(d).",
        demonstrate=a24.theorem_5_1,
    ),
    Erratum(
        id="A24-eq15",
        printed="The best accuracy is ½ + ½∫|(1−ν)p − νq| with p the density of (θ, fresh "
        "record) and q that of (θ, member).",
        holds="½ + ½∫|νp − (1−ν)q|. At ν = ½ the two agree, and the theorem drawn from it stands.",
        demonstrate=a24.equation_15,
    ),
    Erratum(
        id="A25-E1",
        printed="If a class of networks holds arbitrarily close approximations of the regression "
        "function Ψ*, then learners that stop at training loss η exist for every η > 0 and have "
        "MIS → 0.",
        holds="The class must be able to fit the noisy labels. Being close to Ψ* leaves a training "
        "loss near the noise's variance.",
        demonstrate=a25_overfitting.example_1,
    ),
    Erratum(
        id="A25-E2",
        printed="Least squares with d > n and noise that has a density has training loss 0 and "
        "MIS = 0, whatever the law of x.",
        holds="So it is if the n inputs are almost surely linearly independent, for instance when "
        "x has a density. Otherwise the fit need not interpolate.",
        demonstrate=a25_overfitting.example_2,
    ),
    Erratum(
        id="A25-H.2",
        printed="At γ = 1 the supremum of Δ over (ε, δ)-DP learners is δ + (1−δ)tanh(ε/2), and "
        "tanh(ε/2) over ε-local-DP learners.",
        holds="These are upper bounds, attained in the neighbour game but not in the i.i.d. game, "
        "whose out-world averages over the in-worlds. For δ = 0 the supremum over laws and "
        "learners is tanh(ε/4) (X11).",
        demonstrate=a25_privacy.private_supremum,
    ),
    Erratum(
        id="A25-L21",
        printed="For n ≥ 5, what the atoms with p_k ≥ 1/n add to the worst Δ lies between "
        "c·n^(−1/2)·C + o(e^−n) and c'·n^(−1/2)·C over these atoms, c ≥ 0.29 and c' ≤ 0.44.",
        holds="An atom with p_k ≥ 1 − 1/n adds exactly p_k^n(1−p_k), which can be on either "
        "side; the constants need 1 ≤ ⌊n·p_k⌋ ≤ n − 2 (A25-L30). No remainder o(e^−n) is "
        "uniform in the law.",
        demonstrate=a25.lemma_21,
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
        id="A25-L24.width",
        printed="The further the largest probability δ is from 1/2, the thinner the range of C_K.",
        holds="So it is for δ ≥ 1/2, where the width √(1−δ)·(√(K−2+δ) − √δ) falls. Below 1/2 it "
        "goes up and down, with a peak at each δ = 1/m.",
        demonstrate=a25.lemma_24_comment,
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
        id="A25-L33",
        printed="A deterministic learner is not (ε, δ)-DP for any finite ε and any δ in (0, 1).",
        holds="So it is for a deterministic learner that is not constant on data sets of one "
        "size; a constant learner is (0, 0)-DP.",
        demonstrate=a25_privacy.lemma_33,
    ),
    Erratum(
        id="A25-R12",
        printed="Learners that are (ε, 1−α)-overfitting for every ε > 0 at one fixed α have MIS at "
        "most max(1, 1/γ)·α in the limit ε → 0.",
        holds="So it is under the condition that A25-eq13 lacks: the chance that a fresh record "
        "has loss at most ε must vanish uniformly over predictions.",
        demonstrate=a25_overfitting.remark_12,
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
        id="A25-R4",
        printed="For every learner and every data set, an attack that may depend on the data set "
        "has accuracy 1 (and true-positive rate 1).",
        holds='The true-positive rate is 1 (always say "in"). The best accuracy at λ = 1 is '
        "Σ_z max(ν·P(z), (1−ν)·P̂_n(z)), which is 1 only if a fresh record never coincides with "
        "a member.",
        demonstrate=a25_privacy.remark_4,
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
        id="A25-Tab1.text",
        printed="At n = 1000 discretising costs almost 2.5 % of accuracy at C_K = 4.30, and 2 % "
        "at 6.74 and at 9.20.",
        holds="By the table itself it costs 2.6, 2.1 and 0.3 points. None of these is what we "
        "measure (A25-Tab1): about 26, 15 and 12 points.",
        demonstrate=a25_table.text_of_table_1,
    ),
    Erratum(
        id="A25-eq13",
        printed="If the loss is a continuous function of y and the prediction, y has a density "
        "given x, and training stops at mean loss η, then MIS → 0 as η → 0.",
        holds="It needs P(loss ≤ r given x) → 0 as r → 0 uniformly over predictions, as for a "
        "power of |y − prediction| and a bounded density. Continuity alone lets a prediction make "
        "every loss small.",
        demonstrate=a25_overfitting.equation_13,
    ),
    Erratum(
        id="A25-eq53",
        printed="D̃_γ of (θ, z₀) against (θ, z₁) is E_z (1/γ)sup_S[γ·P(θ ∈ S | z₁ = z) − P(θ ∈ S)].",
        holds="It is E_z (1/γ)sup_S[γ·P(θ ∈ S) − P(θ ∈ S | z₁ = z)]. The final bound "
        "(e^ε − 1/γ)₊ + δ holds for it as well, because DP bounds both orders.",
        demonstrate=a25_privacy.equation_53,
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
        id="I24-L13",
        printed="E‖X − EX‖² ≤ σ^k gives P(‖X − EX‖ > tσ) ≤ t^(−k) (the exponent 2 as in the text "
        "at hand; the proof uses k).",
        holds="E‖X − EX‖^k ≤ σ^k gives P(‖X − EX‖ > tσ) ≤ t^(−k).",
        demonstrate=i24.lemma_13,
    ),
    Erratum(
        id="I24-P11",
        printed="Main text: the records 2^0, …, 2^(n−2) give 1/Σ a sensitivity of order 2^(n/3) "
        "(n − 1 records where n are needed).",
        holds="The appendix adds the record √p − Σ_{i ≤ n/2−2} 2^i with p = 1/C(n, n/2); without "
        "it the sensitivity is at most 1/(2^(n/2) − 1).",
        demonstrate=i24.proposition_11,
    ),
    Erratum(
        id="I24-T8",
        printed="Against an η-MIP mechanism every attacker has TPR ≤ FPR + η.",
        holds="TPR ≤ FPR + 2η, and this is attained.",
        demonstrate=i24.theorem_8,
    ),
    Erratum(
        id="I24-genk",
        printed="Every result proved at k = N/2 has an analogue for general k.",
        holds="I24-T8 has none of the form TPR ≤ FPR + c·η. With π the larger of k/N and "
        "1 − k/N, TPR − FPR ≤ (2π − 1 + η)/π, and this is attained at η = 0.",
        demonstrate=i24.general_k,
    ),
    Erratum(
        id="L24-App1",
        printed="Releasing a training example D₁ with probability nη, otherwise nothing, is "
        "η-MIP (how D₁ is chosen is not said).",
        holds="True if D₁ is drawn uniformly from the training set, and then the exact value is "
        "η/2. A fixed rule such as the smallest record gives nη/2, above η for n > 2.",
        demonstrate=l24.release_one_record,
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
        id="L24-fn2",
        printed="The 2n records of X can be taken as distinct without loss of generality: repeats "
        "are dropped and n becomes smaller.",
        holds="A repeated record trains with probability above ½, so dropping it changes the "
        "game (and may leave an odd number of records). That X is distinct is an assumption.",
        demonstrate=l24.footnote_2,
    ),
    Erratum(
        id="L24-text",
        printed="1/(1 + e^−123) ≈ 0.53.",
        holds="1/(1 + e^−0.123) ≈ 0.53.",
        demonstrate=l24.typo_123,
    ),
    Erratum(
        id="X7",
        printed="Our first form: a record of a cell that expects λ = n·p_k members leaks at most "
        "1/√(2πλ) through the histogram.",
        holds="At most e^(−λ)λ^⌊λ⌋/⌊λ⌋!, which decreases in λ and is at most 1/√(2πk) at an "
        "integer k; so 0.4/√k holds for cells that expect at least k members, k an integer.",
        demonstrate=x.square_root_form,
    ),
)

#: The same statement under another number: restated in an appendix, or in another version.
_RESTATED = {
    "A23-C5.1.2": "A24-C5.4.2",
    "A23-PA.1": "A24-PB.1",
    "A23-T4.1": "A24-T5.1",
    "A23-eq7": "A24-eq15",
    "A24-E4.3": "A25-E2",
    "A24-R5.1": "A25-R13",
    "A25-P25": "A24-PB.1",
    "L24-C16": "L24-C4",
    "L24-L15": "L24-L3",
    "L24-P19": "L24-P9",
}


def _by_id() -> dict[str, Erratum]:
    own = {entry.id: entry for entry in _ENTRIES}
    again = {key: replace(own[source], id=key) for key, source in _RESTATED.items()}
    both = own | again
    return {key: both[key] for key in sorted(both)}


ERRATA: Mapping[str, Erratum] = MappingProxyType(_by_id())
"""Errata by result id."""
