"""The verb ``explain``: what a DP parameter means for somebody guessing membership."""

from __future__ import annotations

from typing import Annotated

from memberbound.declarations import Option, Rates
from memberbound.errors import fraction, one_of
from memberbound.explanation.answer import Explanation
from memberbound.explanation.question import Question, rates, target
from memberbound.games import ADJACENCIES, Adjacency, gamma_from_priors

__all__ = ["Explanation", "explain"]


def explain(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    gdp: float | None = None,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    steps: Annotated[int, Option("whole", least=1, most=10**12)] | None = None,
    nu: float = 0.5,
    lam: float = 1.0,
    prior: float = 0.5,
    fpr: Rates | None = None,
    adjacency: Adjacency | None = None,
    target_advantage: float | None = None,
    target_tpr: float | None = None,
    target_eta: float | None = None,
    target_security: float | None = None,
) -> Explanation:
    """Say what a DP guarantee means for membership, or find the parameter a promise allows.

    Give exactly one of: ``epsilon`` (with ``delta``), ``gdp``, or DP-SGD's ``noise_multiplier``,
    ``sample_rate`` and ``steps``.  For the inverse give one target instead: alone (or with
    ``delta``) it yields an ε, with ``sample_rate`` and ``steps`` a noise multiplier.

    Guarantee: every ``*_upper`` holds for every attack, every ``*_lower`` likewise.
    Theorem: A25-P5, A25-T6, I24-P2, I24-T4, X2, X11 (see ``memberbound theorems``).
    Assumes: the stated guarantee is true of what is released; (ε, δ) and GDP are read as
    replace-one and DP-SGD as add-remove unless ``adjacency`` says otherwise.
    Numerics: upper bounds are rounded up, lower bounds down.
    Edge cases: ε = 0 gives coin tossing, ε = 700 gives 1 without overflow.

    Args:
        epsilon: ε of (ε, δ)-DP.
        delta: δ; 0 if left out with epsilon, else 1e-5.
        gdp: μ of Gaussian DP.
        noise_multiplier: DP-SGD: noise over clipping norm.
        sample_rate: DP-SGD: Poisson sampling rate, batch over data size.
        steps: DP-SGD: number of steps.
        nu: MIS: probability of a fresh test point.
        lam: MIS: weight of a missed member.
        prior: share of candidates who were in, for the accuracy.
        fpr: false-positive rate for the TPR; may be repeated.
        adjacency: what “out” means; replace-one for ε and μ, add-remove for DP-SGD.
        target_advantage: inverse: largest TPR - FPR that you accept.
        target_tpr: inverse: largest TPR that you accept at the false-positive rate.
        target_eta: inverse: largest η; 0.05 is “right 55 % of the time”.
        target_security: inverse: smallest MIS.

    Command line:
        memberbound explain --epsilon 8 --delta 1e-5
        memberbound explain --gdp 1 --fpr 0.01 --fpr 0.001 --plot roc.png
        memberbound explain --noise-multiplier 1 --sample-rate 0.01 --steps 1000
        memberbound explain --target-advantage 0.1
        memberbound explain --target-tpr 0.05 --fpr 0.01 --sample-rate 0.01 --steps 1000

    Examples:
        >>> result = explain(epsilon=1.0)
        >>> round(result.advantage_upper, 6), round(result.tpr_upper["0.01"], 6)
        (0.462117, 0.027183)
    """
    question = Question(epsilon, delta, gdp, noise_multiplier, sample_rate, steps)
    asked = rates(fpr)
    wanted = target(
        advantage=target_advantage,
        tpr=target_tpr,
        eta=target_eta,
        security=target_security,
        fpr=asked,
        nu=nu,
        lam=lam,
    )
    gamma_from_priors(nu, lam)
    fraction("prior", prior)
    if adjacency is not None:
        one_of("adjacency", adjacency, ADJACENCIES)
    found = question.solved(wanted, adjacency) if wanted else question
    guarantee = found.guarantee(adjacency)
    eps, dlt, notes = found.quoted(guarantee)
    return Explanation(
        guarantee,
        eps,
        dlt,
        nu=float(nu),
        lam=float(lam),
        prior=float(prior),
        fpr=asked,
        parameters=found.parameters(),
        target=wanted.limit() if wanted else None,
        notes=notes,
    )
