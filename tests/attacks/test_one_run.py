"""One-run auditing against exact channels: the worst, randomised response, the silent mechanism.

Simulation: 300 runs at confidence 0.95.  If a bound failed with exactly 5 %, more than 38 misses
would happen with probability below 1e-6 (binomial), the false-alarm rate per setting.
"""

import itertools
import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import memberbound
from commands import run_command
from memberbound.attacks import one_run
from memberbound.attacks.one_run import (
    Guesses,
    audit_one_run,
    guess_counts,
    guesses_from_scores,
    one_run_epsilon,
    one_run_mu,
    one_run_p_value,
)
from memberbound.attacks.scores import Scores
from memberbound.errors import InputError

RUNS, MISSES = 300, 38


def worst_mechanism(run, epsilon, delta):
    """Return the largest P(W ≥ v) over all (ε, δ)-DP mechanisms, by linear programming."""
    m, r, v = run
    coins = list(product((-1, 1), repeat=m))
    guesses = [t for t in product((-1, 0, 1), repeat=m) if sum(map(abs, t)) == r]
    pairs = [
        (a, b)
        for (a, s), (b, u) in itertools.permutations(enumerate(coins), 2)
        if sum(map(int.__ne__, s, u)) == 1
    ]
    # P(guess | coins) for all coins and guesses, then the excess of every pair and guess.
    rows, columns, eye = len(coins), len(guesses), np.eye(len(guesses))
    excess, budget = [], []
    for index, (a, b) in enumerate(pairs):
        one, other = (np.kron(np.eye(rows)[k], eye) for k in (a, b))
        own = np.kron(np.eye(len(pairs))[index], eye)
        excess.append(np.hstack([one - math.exp(epsilon) * other, -own]))
        budget.append(np.concatenate([np.zeros(rows * columns), own.sum(axis=0)]))
    limits = np.vstack([*excess, *budget])
    most = np.concatenate([np.zeros(len(pairs) * columns), np.full(len(pairs), delta)])
    laws = np.kron(np.eye(rows), np.ones(columns))
    laws = np.hstack([laws, np.zeros((rows, len(pairs) * columns))])
    right = [[sum(map(int.__eq__, s, t)) >= v for t in guesses] for s in coins]
    aim = np.concatenate([np.ravel(right) / -rows, np.zeros(len(pairs) * columns)])
    return -optimize.linprog(aim, limits, most, laws, np.ones(rows)).fun


def least_fpr(delta):
    def inverse(tpr, epsilon):
        flat = np.exp(-epsilon) * (tpr - delta)
        return np.maximum(np.maximum(flat, 1 - delta - np.exp(epsilon) * (1 - tpr)), 0.0)

    return inverse


@pytest.mark.parametrize(
    "run", [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2), (3, 3, 3), (3, 2, 2), (3, 1, 1)]
)
def test_the_worst_mechanism_is_covered_and_broken_bounds_are_not(run):
    guesses = Guesses(*run)
    for epsilon, delta in product((0.0, 0.3, 1.0, 2.5), (0.0, 0.05, 0.3)):
        truth = worst_mechanism(guesses, epsilon, delta)
        limit = one_run_p_value(guesses, epsilon=epsilon, delta=delta)
        assert truth <= limit + 1e-9
        # Claim 7 must not call a probability impossible that is reached.
        hypothesis = np.array([epsilon])
        assert truth == pytest.approx(1) or not one_run._impossible(
            guesses, truth * (1 - 1e-7), least_fpr(delta), hypothesis
        )
        # Tight; and caught are a δ that is forgotten, or not spent on every canary.
        assert limit <= (1.05 if epsilon >= 1 and delta < 0.1 else 1.4) * truth
        for broken in (0.0, delta / 9):
            assert delta == 0 or one_run_p_value(guesses, epsilon=epsilon, delta=broken) < truth
    # The best guess of a single coin, taken for independent: below what the class reaches.
    m, r, v = run
    truth = worst_mechanism(guesses, 1.0, 0.05)
    independent = stats.binom.sf(v - 1, r, (math.e + 0.05) / (1 + math.e))
    assert independent == pytest.approx(truth) if m == 1 else independent < truth - 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_pure_privacy_is_tight_for_randomised_response(epsilon):
    for r, v in ((10, 8), (100, 75), (1000, 960)):
        exact = stats.binom.sf(v - 1, r, special.expit(epsilon))
        limit = one_run_p_value(Guesses(2000, r, v), epsilon=epsilon)
        assert exact <= limit * (1 + 1e-12)
        assert limit == pytest.approx(exact, rel=1e-8)


def silent(chance, truth):
    """Trade-off points of: with ``chance`` randomised response of that truth, else nothing."""
    lie = 1 - truth
    return [(chance * lie, chance * truth), (1 - chance * truth, 1 - chance * lie)]


def test_the_silent_mechanism_passes_and_an_independent_analysis_would_be_caught():
    m, chance, truth, error = 400, 0.06, 0.69, 0.05
    # The least μ with a curve above the polygon's corners, and so above the polygon.
    mu = max(float(special.ndtri(t) - special.ndtri(f)) for f, t in silent(chance, truth))
    v = int(m * (truth - 0.025))
    tail = chance * stats.binom.sf(v - 1, m, truth)
    assert tail > error
    assert one_run_mu(Guesses(m, m, v)) <= mu
    # Taking the guesses for independent with accuracy Φ(μ/2) rejects this μ by far.
    assert stats.binom.sf(v - 1, m, special.ndtr(mu / 2)) < 1e-3
    assert one_run_mu(Guesses(m, m, v)) > 0.7 * mu  # and little more could have been claimed


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.0])
def test_coverage_for_gaussian_noise(mu):
    rng = np.random.default_rng(41)
    m, delta = 300, 1e-3
    # ε at δ of the Gaussian, from its hockey-stick.
    grid = np.linspace(0, 12, 24_001)
    stick = special.ndtr(mu / 2 - grid / max(mu, 1e-9)) - np.exp(grid) * special.ndtr(
        -mu / 2 - grid / max(mu, 1e-9)
    )
    epsilon = float(grid[stick <= delta][0]) if mu > 0 else 0.0
    outcomes_seen = []
    for _ in range(RUNS):
        member = rng.random(m) < 0.5
        scores = rng.normal(size=m) + mu * member
        outcomes_seen.append(guesses_from_scores(Scores.of(scores, member), 15, 15))
    bounds = {g: (one_run_mu(g), one_run_epsilon(g, delta=delta)) for g in set(outcomes_seen)}
    seen = np.array([bounds[g] for g in outcomes_seen])
    assert (seen[:, 0] > mu).sum() <= MISSES
    assert (seen[:, 1] > epsilon).sum() <= MISSES
    if mu == 2.0:
        assert np.median(seen[:, 0]) > 0.5  # and it is not vacuous


def test_taking_the_best_number_of_guesses_without_paying_is_caught():
    """Null scores at confidence 0.5: of 200 runs more than 128 have probability below 1e-4."""
    rng = np.random.default_rng(44)
    shared = alone = 0
    counts = guess_counts(400)
    for _ in range(200):
        member = rng.random(400) < 0.5
        scores = rng.normal(size=400)
        p_values = [
            one_run_p_value(
                guesses_from_scores(Scores.of(scores, member), (r + 1) // 2, r // 2),
                epsilon=0.0,
            )
            for r in counts
        ]
        alone += min(p_values) <= 0.5
        shared += min(p_values) <= 0.5 / len(counts)
    assert shared <= 128 < alone
    pair = Scores.of(scores + 2 * member, member)
    guesses = [guesses_from_scores(pair, (r + 1) // 2, r // 2) for r in counts]
    run = audit_one_run(pair, delta=1e-3, confidence=0.5)
    each = {"confidence": 1 - 0.5 / len(counts)}
    assert run.epsilon_lower == max(one_run_epsilon(g, delta=1e-3, **each) for g in guesses) > 0
    assert run.mu_lower == max(one_run_mu(g, **each) for g in guesses) > 0


def canaries(mu, rows=300):
    rng = np.random.default_rng(45)
    member = rng.random(rows) < 0.5
    return pd.DataFrame({"score": rng.normal(size=rows) + mu * member, "member": member * 1})


def test_the_command_holds_the_floor_against_the_claim(tmp_path):
    file = tmp_path / "canaries.csv"
    canaries(6.0).to_csv(file, index=False)
    fields = memberbound.audit(one_run=file).to_dict()
    floor = fields["one_run"]["epsilon_lower"]
    assert floor > 2
    assert fields["attacks"]["scores"]["auc"]["lower"] > 0.9
    assert fields["one_run"]["claimed_epsilon"] is None
    for claimed, code in ((floor / 2, 3), (floor * 2, 0)):
        line = ("audit", "--one-run", file, "--claimed-epsilon", claimed, "--json")
        assert run_command(*line)[0] == code
    assert "one_run" not in memberbound.audit(file).to_dict()


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda t: t.assign(member=1), {}, "no non-members"),
        (lambda t: t.assign(member=(t.index < 250) * 1), {}, "fair coins, got 250"),
        (lambda t: t.drop(columns="score"), {}, "score"),
        (lambda t: t, {"delta": 1.0}, "delta must be"),
        (lambda t: t, {"claimed_epsilon": -1.0}, "claimed_epsilon must be"),
        (lambda t: t, {"members": canaries(0.0)}, "Got members and one_run"),
        (lambda t: t, {"model": len}, "one_run must be left out"),
    ],
)
def test_unusable_runs_are_refused(change, options, words):
    with pytest.raises(InputError, match=words):
        memberbound.audit(one_run=change(canaries(1.0)), **options)


@pytest.mark.parametrize(
    ("m", "r", "v", "delta"),
    [
        (100, 100, 70, 0.0),
        (80, 20, 20, 1e-4),
        (60, 60, 60, 1e-5),
    ],
)
def test_returned_hypotheses_are_rejected_when_tested_again(m, r, v, delta):
    low = one_run_epsilon(Guesses(m, r, v), delta=delta)
    called = one_run._impossible(Guesses(m, r, v), 0.05, least_fpr(delta), np.array([low]))
    assert one_run_p_value(Guesses(m, r, v), epsilon=low, delta=delta) <= 0.05 or called[0]
    assert one_run_p_value(Guesses(m, r, v), epsilon=low + 0.05, delta=delta) > 0.05


def test_edges():
    assert one_run_p_value(Guesses(5, 5, 0), epsilon=1.0, delta=0.1) == 1.0
    assert one_run_epsilon(Guesses(100, 100, 50)) == 0.0
    assert one_run_mu(Guesses(100, 100, 0)) == 0.0
    assert one_run_epsilon(Guesses(100, 100, 0)) == 0.0
    assert one_run_epsilon(Guesses(50, 50, 50), delta=1.0) == 0.0


def test_ties_count_against_the_auditor():
    member = np.arange(40) % 2 == 1
    first = np.argsort(~member)  # members first: an order that would help
    for order in (np.arange(40), first):
        got = guesses_from_scores(Scores.of(np.zeros(40), member[order]), 20, 20)
        assert got == Guesses(40, 40, 0)
    assert guesses_from_scores(Scores.of(member * 1.0, member), 20, 0).correct == 20
    assert guesses_from_scores(Scores.of(member * 1.0, member), 25, 15).correct == 35


def exact_tail(r, v, epsilon):
    """P(Bin(r, e^ε/(1+e^ε)) ≥ v) to 40 digits."""
    with mpmath.workdps(40):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        terms = (mpmath.binomial(r, k) * odds**k for k in range(v, r + 1))
        return mpmath.fsum(terms) / (1 + odds) ** r


def test_p_values_are_at_least_the_exact_tails():
    """Rounding to nearest is below the exact tail in many of these cases, without a slack."""
    rng = np.random.default_rng(50)
    for r, share, epsilon in zip(
        rng.integers(5, 300, 60).tolist(),
        rng.uniform(0.5, 1.0, 60).tolist(),
        rng.uniform(0.0, 3.0, 60).tolist(),
        strict=True,
    ):
        v = math.ceil(share * r)
        exact = exact_tail(r, v, epsilon)
        limit = one_run_p_value(Guesses(400, r, v), epsilon=epsilon)
        assert exact <= limit
        assert limit <= min(1.0, float(exact) * (1 + 1e-8))


def claim_7_reaches(run, error, mu):
    """The bound on P(right guesses ≥ 0) of claim 7 for a μ-GDP mechanism, to 30 digits."""
    m, r, v = run
    with mpmath.workdps(30):
        tail = sums = mpmath.mpf(error)
        for k in range(v, 0, -1):
            tpr = min(((k - 1) * tail + sums) / m, mpmath.mpf(1))
            if tpr >= 1:
                return mpmath.inf
            quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * tpr - 1)
            tail = max(tail, (sums + m * mpmath.ncdf(quantile - mu)) / (r - k + 1))
            sums += tail
        return tail


@pytest.mark.parametrize(("run", "error"), [((12, 12, 11), 0.05), ((20, 8, 8), 0.01)])
def test_no_hypothesis_that_is_possible_is_rejected(run, error):
    """Around the last μ that claim 7 rejects exactly, nothing above it may be called impossible."""
    with mpmath.workdps(30):
        low, high = mpmath.mpf(0), mpmath.mpf(8)
        for _ in range(70):
            middle = (low + high) / 2
            low, high = (middle, high) if claim_7_reaches(run, error, middle) > 1 else (low, middle)
        last = float(low)

    def inverse(tpr, mu):
        return np.asarray(special.ndtr(special.ndtri(tpr) - mu))

    above = last * (1 + 2.0**-52 * np.arange(2, 400))  # possible: the recursion stays below 1
    assert all(claim_7_reaches(run, error, mpmath.mpf(mu)) <= 1 for mu in above[::100].tolist())
    assert not one_run._impossible(Guesses(*run), error, inverse, above).any()
    below = last * (1 - 1e-6)
    assert one_run._impossible(Guesses(*run), error, inverse, np.array([below])).all()
    assert one_run_mu(Guesses(*run), confidence=1 - error) <= last


def test_claim_7_reads_the_inverse_from_below():
    """An inverse that jumps at a share that only rounding reaches: nothing is rejected."""
    rng = np.random.default_rng(7)
    jumps = 0
    for v, more, error in zip(rng.integers(2, 30, 60).tolist(), rng.integers(0, 90, 60).tolist(),
                              rng.uniform(0.01, 0.1, 60).tolist(), strict=True):  # fmt: skip
        m = v + more
        rounded = ((v - 1) * error + error) / m
        if Fraction(rounded) <= v * Fraction(error) / m:
            continue
        jumps += 1
        run = (Guesses(m, v, v), error, lambda tpr, _, at=rounded: 10.0 * (tpr >= at))
        assert not one_run._impossible(*run, np.zeros(1))[0]
        run = (Guesses(m, v, v), error, lambda tpr, _, at=rounded: 10.0 * (tpr >= at * (1 - 1e-9)))
        assert one_run._impossible(*run, np.zeros(1))[0]
    assert jumps > 10


def last_tail(m, v, error, fpr):
    """The bound of claim 7 on P(right guesses ≥ 0), in rationals, for a constant inverse."""
    tail = sums = Fraction(error)
    for k in range(v, 0, -1):
        tail = max(tail, (sums + m * Fraction(fpr)) / (v - k + 1))
        sums += tail
    return tail


def test_claim_7_adds_up_from_below():
    """The largest inverse for which nothing is impossible, in rationals."""
    for v, error in zip(range(5, 45, 4), np.linspace(0.01, 0.06, 10).tolist(), strict=True):
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            if last_tail(2 * v, v, error, middle) <= 1:
                low = middle
            else:
                high = middle
        for fpr, rejected in ((low, False), (low * (1 + 1e-8), True)):
            run = (Guesses(2 * v, v, v), error, lambda tpr, _, c=fpr: np.full(tpr.shape, c))
            assert one_run._impossible(*run, np.zeros(1))[0] == rejected
