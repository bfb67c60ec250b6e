"""Lower bounds on ε and μ from one training run with canaries inserted by fair coin flips.

After the run the auditor guesses r of the m coin flips, abstains on the others, and gets v right.
Flipping one coin changes the training set by one record, so privacy limits how many guesses can be
correct.  Two limits are used (proofs/audit-intervals.md): claim 6, after Steinke, Nasr and
Jagielski (NeurIPS 2023), and claim 7, after Mahloujifar, Melis and Chaudhuri (ICML 2025), which
applies to any trade-off curve.  Both bound the same probability, so the tighter one applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from memberbound.answers import Given, Lower, computed
from memberbound.attacks.scores import Scores
from memberbound.errors import InputError, fraction, nonnegative
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.quantities import confident, significant

#: Allowance for the relative errors of binomial tails and of a recursion step.
_SLACK = 1e-11
#: Hypotheses tested at once, and the number of refinements of the interval between two.
_WIDTH, _ROUNDS = 129, 4
#: Upper end of the search for ε and μ.
_LARGEST = 64.0
#: Above this many correct guesses use claim 6 alone, because claim 7 takes a step for each.
_MOST_STEPS = 20_000

#: Map from TPR to the least FPR allowed by each of an array of hypotheses.
_Inverse = Callable[[FloatArray, FloatArray], FloatArray]


# ── The audit of one run ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class OneRun:
    """Lower confidence bounds on a mechanism's ε and μ, from one training run.

    ``guessed`` and ``correct`` belong to the guess count with the highest lower bound on ε.
    """

    canaries: int
    members: int
    guessed: int
    correct: int
    epsilon_lower: Lower
    delta: Given
    mu_lower: Lower
    confidence: Lower
    claimed_epsilon: Given | None = None
    game: str = "neighbour"
    protects: str = "every record"
    adjacency: str = "add-remove"
    assumptions: tuple[str, ...] = (
        "Every canary was included in the training set by its own fair coin flip; 'member' records "
        "the outcomes. Including exactly half of the canaries is a different design.",
        "The model was trained once, and each score depends on the model and its canary alone.",
        "Each of the two lower bounds holds with the stated confidence on its own; mu_lower "
        "applies to mechanisms that are Gaussian differentially private.",
    )

    @computed
    def claim_exceeded(self) -> bool:
        """Whether the lower bound exceeds the claimed ε."""
        return self.claimed_epsilon is not None and self.epsilon_lower > self.claimed_epsilon

    @computed
    def sentence(self) -> str:
        """The proved lower bounds next to the claimed ε."""
        at = f"δ = {significant(self.delta, 'given')}, confidence {confident(self.confidence)}"
        text = (
            f"One run with {self.canaries} canaries shows ε ≥ "
            f"{significant(self.epsilon_lower, 'lower', 3)} ({at}) and "
            f"μ ≥ {significant(self.mu_lower, 'lower', 3)}: {self.correct} of {self.guessed} "
            "guesses are right."
        )
        if self.claimed_epsilon is None:
            return text
        claim = f"the claimed ε = {significant(self.claimed_epsilon, 'given')}"
        if self.claim_exceeded:
            return f"{text} That is above {claim}: the mechanism is not as private as claimed."
        return f"{text} That does not contradict {claim}, and does not prove it."


def check_claim(
    name: str, canaries: object, claimed_epsilon: float | None, delta: float | None
) -> None:
    """Reject a claimed ε without canaries to test it."""
    if canaries is None and (claimed_epsilon is not None or delta is not None):
        raise InputError(f"{name} must be given with claimed_epsilon and delta, got none.")


def audit_one_run(
    scores: Scores,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    claimed_epsilon: float | None = None,
) -> OneRun:
    """Return lower confidence bounds on ε and μ from one training run with canaries.

    The auditor guesses "in" for the highest scores and "out" for equally many of the lowest: on all
    canaries, on half of them, on a quarter, and so on.  Each guess count gets an equal share of the
    error, which covers selecting the best.

    Guarantee: P(epsilon_lower > ε) ≤ 1 - ``confidence`` for every (ε, ``delta``)-DP mechanism, and
    P(mu_lower > μ) likewise for every μ-GDP mechanism.
    Theorem: proofs/audit-intervals.md claims 6 and 7, the error shared among the guess counts.
    Assumes: :attr:`OneRun.assumptions`.
    Numerics: as :func:`one_run_epsilon`.
    Edge cases: δ defaults to 1e-5; a member count implausible under fair coins (p < 1e-6) is
    refused.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> member = rng.random(1000) < 0.5
        >>> run = audit_one_run(Scores.of(rng.normal(size=1000) + 4 * member, member))
        >>> run.epsilon_lower > 2, audit_one_run(Scores.of(member * 0, member)).epsilon_lower
        (True, 0.0)
    """
    slack = fraction("delta", 1e-5 if delta is None else delta, open_right=True)
    if claimed_epsilon is not None:
        nonnegative("claimed_epsilon", claimed_epsilon)
    inside, total = scores.members.size, scores.members.size + scores.non_members.size
    if stats.binomtest(inside, total).pvalue < 1e-6:
        raise InputError(
            f"member must record fair coins, got {inside} members among {total} canaries. "
            "Put each canary in with probability one half, independently of the others."
        )
    counts = guess_counts(total)
    each = shared_confidence(confidence, len(counts))
    guesses = [guesses_from_scores(scores, (r + 1) // 2, r // 2) for r in counts]
    epsilons = [one_run_epsilon(g, delta=slack, confidence=each) for g in guesses]
    best = int(np.argmax(epsilons))
    return OneRun(
        total,
        inside,
        guesses[best].guessed,
        guesses[best].correct,
        epsilons[best],
        slack,
        max(one_run_mu(g, confidence=each) for g in guesses),
        confidence,
        claimed_epsilon,
    )


def guess_counts(canaries: int) -> list[int]:
    """Return the guess counts to try: all canaries, half of them, down to about 24.

    Examples:
        >>> guess_counts(1000), guess_counts(30)
        ([1000, 500, 250, 125, 62, 31], [30])
    """
    counts = [canaries]
    while counts[-1] // 2 >= 24:
        counts.append(counts[-1] // 2)
    return counts


class Guesses(NamedTuple):
    """Outcome of one run: ``correct`` of ``guessed`` guesses, among ``canaries``."""

    canaries: int
    guessed: int
    correct: int


def guesses_from_scores(scores: Scores, guess_in: int, guess_out: int) -> Guesses:
    """Guess "in" for the ``guess_in`` highest scores and "out" for the ``guess_out`` lowest.

    Both counts must be fixed before seeing the labels.  Ties at the boundary count against the
    auditor, so the order of the rows cannot help.

    Examples:
        >>> guesses_from_scores(Scores.of(range(40), [0] * 20 + [1] * 20), 5, 5)
        Guesses(canaries=40, guessed=10, correct=10)
    """
    values = np.concatenate(scores)
    inside = np.arange(values.size) < scores.members.size
    # Ties put non-members first at the top and members first at the bottom.
    top = np.lexsort((inside, -values))[:guess_in]
    left = np.ones(values.size, dtype=bool)
    left[top] = False
    rest = np.flatnonzero(left)
    bottom = rest[np.lexsort((~inside[rest], values[rest]))[:guess_out]]
    correct = int(inside[top].sum()) + int((~inside[bottom]).sum())
    return Guesses(values.size, guess_in + guess_out, correct)


# ── The two limits, and the largest hypothesis that they reject ───────────────────────────────────


def one_run_p_value(run: Guesses, *, epsilon: float, delta: float = 0.0) -> float:
    """Return an upper bound on P(at least ``run.correct`` correct guesses) under (ε, δ)-DP.

    Guarantee: at least P(correct guesses ≥ ``run.correct``), for every (``epsilon``, ``delta``)-DP
    mechanism and every guessing strategy.
    Theorem: proofs/audit-intervals.md claim 6.
    Assumes: independent fair coins; the number of guesses fixed beforehand (with δ = 0 it may
    depend on the run).
    Numerics: tails raised by 1e-10 of their size.
    Edge cases: no correct guess gives 1.

    Examples:
        >>> one_run_p_value(Guesses(10, 10, 10), epsilon=0.0)
        0.000976562500...
    """
    canaries, guessed, correct = run
    budget = canaries * delta * float(special.expit(-epsilon))
    if correct == 0:
        return 1.0
    tail = float(special.bdtrc(correct - 1, guessed, float(special.expit(epsilon))))
    if budget > 0:
        # The binomial count v-k needs k exceptions: spend the δ budget where it is cheapest first.
        k = np.arange(1, correct + 1)
        masses = np.exp(_log_masses(guessed, correct - k, epsilon))
        spent = np.cumsum(k * masses)
        paid = int(np.searchsorted(spent, budget, "right"))
        tail += float(masses[:paid].sum())
        if paid < correct:
            tail += (budget - (float(spent[paid - 1]) if paid else 0.0)) / (paid + 1)
    # At least budget / (paid + 1), so rounding of the budget is a share of it, too.
    return min(1.0, tail * (1 + 10 * _SLACK))


def one_run_epsilon(run: Guesses, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Return a lower confidence bound on ε from one run.

    Guarantee: P(result > ε) ≤ 1 - ``confidence`` for every (ε, ``delta``)-DP mechanism; one-sided.
    Theorem: proofs/audit-intervals.md claims 6 and 7, whichever rejects more.
    Assumes: as :func:`one_run_p_value`.  A canary that is included or omitted gives add-remove
    adjacency; a canary that replaces another record gives replace-one.
    Numerics: the result itself was tested and rejected; it is within 1e-6 of the last rejected ε.
    Edge cases: 0 if even ε = 0 is not rejected.

    Examples:
        >>> round(one_run_epsilon(Guesses(1000, 1000, 700)), 3)
        0.732
    """
    error = 1 - confidence

    def improbable(hypotheses: FloatArray) -> FloatArray:
        values = [one_run_p_value(run, epsilon=e, delta=delta) for e in hypotheses]
        return np.array([value <= error for value in values])

    def least_fpr(tpr: FloatArray, hypothesis: FloatArray) -> FloatArray:
        return least_fpr_of_dp(tpr, hypothesis, delta)

    return max(
        _last_rejected(improbable),
        _last_rejected(lambda h: _impossible(run, error, least_fpr, h)) if delta else 0.0,
    )


def least_fpr_of_dp(tpr: FloatArray, epsilon: FloatArray, delta: float) -> FloatArray:
    """Return the least FPR of a test with this TPR under (ε, δ)-DP, from below up to 1e-12 of it.

    Examples:
        >>> least_fpr_of_dp(np.array([0.5, 1.0]), np.zeros(2), 0.25).tolist()
        [0.25, 0.75]
    """
    flat = np.exp(-epsilon) * (tpr - delta)
    steep = 1 - delta - np.exp(epsilon) * (1 - tpr) - 1e-14 * np.exp(epsilon)
    return np.asarray(np.maximum(np.maximum(flat, steep), 0.0))


def one_run_mu(run: Guesses, *, confidence: float = 0.95) -> float:
    """Return a lower confidence bound on μ of Gaussian differential privacy from one run.

    Guarantee: P(result > μ) ≤ 1 - ``confidence`` for every μ-GDP mechanism; one-sided.
    Theorem: proofs/audit-intervals.md claim 7 with the Gaussian trade-off curve.
    Assumes, Numerics, Edge cases: as :func:`one_run_epsilon`; the number of guesses is fixed
    beforehand, and an ε read from μ belongs to a mechanism known to be Gaussian.

    Examples:
        >>> round(one_run_mu(Guesses(1000, 1000, 691)), 3)  # what a Gaussian with μ = 1 shows
        0.339
    """

    def least_fpr(tpr: FloatArray, mu: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(special.ndtri(tpr) - mu))

    return _last_rejected(lambda h: _impossible(run, 1 - confidence, least_fpr, h))


def _impossible(
    run: Guesses, error: float, least_fpr: _Inverse, hypotheses: FloatArray
) -> FloatArray:
    """Return which hypotheses rule out P(correct guesses ≥ v) ≥ ``error`` (claim 7).

    If that probability were ``error``, the recursion would bound P(correct guesses ≥ k) from below
    for k = v-1, …, 0; a bound above 1 is the contradiction.
    """
    m, r, v = run
    if v > _MOST_STEPS:
        return np.zeros(hypotheses.shape, dtype=bool)
    tail = np.full(hypotheses.shape, error)
    sums = tail.copy()
    for k in range(v, 0, -1):
        # The inverse may be steep, so lower its argument.  The second slack covers its own
        # rounding.
        reached = np.minimum(((k - 1) * tail + sums) / m, 1.0) * (1 - _SLACK)
        step = (sums + m * least_fpr(reached, hypotheses)) / (r - k + 1)
        tail = np.maximum(tail, step * (1 - _SLACK))
        sums = sums + tail
        # Once above 1 it stays there; cap it so that later steps cannot overflow.
        tail, sums = np.minimum(tail, 2.0), np.minimum(sums, 2.0 * r)
        if not (tail <= 1.0).any():
            break
    return np.asarray(tail > 1.0)


def _last_rejected(rejected: Callable[[FloatArray], FloatArray]) -> float:
    """Return the largest hypothesis found to be rejected along with all those tested below it."""
    low, high = 0.0, _LARGEST
    if not rejected(np.zeros(1))[0]:
        return 0.0
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _WIDTH)
        passed = np.asarray(rejected(grid))
        passed[0] = True
        last = _WIDTH - 1 if passed.all() else int(np.argmin(passed)) - 1
        low, high = float(grid[last]), float(grid[min(last + 1, _WIDTH - 1)])
    return low


def _log_masses(r: int, k: ArrayLike, epsilon: float) -> FloatArray:
    """Return ln P(Bin(r, e^ε/(1+e^ε)) = k), from above."""
    size, count = float(r), np.asarray(k, dtype=np.float64)
    choices = special.gammaln(size + 1) - special.gammaln(count + 1)
    choices = choices - special.gammaln(size - count + 1)
    exact = (
        choices + count * special.log_expit(epsilon) + (size - count) * special.log_expit(-epsilon)
    )
    # Each term errs by a few ulps of its size; the largest is ln r!.
    return np.asarray(exact + 4e-15 * (float(special.gammaln(size + 1)) + size))
