"""Every erratum breaks the printed claim, and the corrected claim survives where it is not tested
under its own id.

Oracles here are written a second time from the definitions (enumeration of attacks,
full-dimensional simulation) and share no code with the demonstrations.
"""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from memberbound.answers import plain
from memberbound.papers.aubinais2025 import best_conditional_accuracy, required_sample_size
from memberbound.papers.iid_errata import channel_leak
from memberbound.papers.results import errata
from memberbound.papers.subset_errata import attack_on_norm_noise
from oracle import finite, iid, subset
from oracle.claims import assert_bound, assert_exact, assert_holds

F = Fraction
#: A restatement under another number has the erratum of its source.
RESTATED = {
    "A23-C5.1.2": "A24-C5.4.2", "A23-PA.1": "A24-PB.1", "A23-T4.1": "A24-T5.1",
    "A23-eq7": "A24-eq15", "A24-E4.3": "A25-E2", "A24-R5.1": "A25-R13", "A25-P25": "A24-PB.1",
    "A24-E5.2": "A25-E3", "A23-E4.2": "A25-E3", "A24-E5.3": "A25-E4", "A23-E4.3": "A25-E4",
    "L24-C16": "L24-C4", "L24-L15": "L24-L3", "L24-P19": "L24-P9",
}  # fmt: skip
#: Printed and true value by hand; ``None`` where a test below, or of its own id, has the oracle.
VALUES = {
    "A23-C4.1.1": (F(1, 50), None),
    "A24-C5.4.2": (None, F(999, 1000) ** 2),  # p(1−p)^n summed over the atoms
    "A24-E4.3.ridge": (0, F(1, 4)),  # labels 1 and 2, each halved
    "A24-PB.1": (F(1, 2), 1),
    "A24-T5.1": (None, None),
    "A24-eq15": (F(3, 4), F(7, 8)),
    # Two equal atoms, ten records, at γ = 1/9 (seen only if an atom never occurs) and at γ = 1.
    "A25-C15.proof": (F(1, 2) ** 10, iid.mean_deviation(10, F(1, 2))),
    "A25-E1": (1, None),
    "A25-E3": (3, 1),
    "A25-E4": (6, 3),
    "A25-E2": (0, None),
    "A25-H.2": (F(3, 5), F(1, 3)),
    "A25-H.2.limit": (1, 0),
    "A25-L21": (None, F(9, 10) ** 5 / 10),
    "A25-L22": (0, F(2, 3)),
    "A25-L24.width": (None, None),
    "A25-L29": (None, None),
    "A25-L33": (1, 0),
    "A25-P19.proof": (0, 1),
    "A25-R12": (0.01, 1),
    "A25-R13": (0.1, None),
    "A25-R4": (1, F(1, 2)),
    "A25-S2": (2, 1),
    "A25-Tab1": (1 / (2 * math.sqrt(6)), float(iid.leak_of_learner(tuple, [F(1, 8)] * 8, 6))),
    "A25-Tab1.text": (0.02, 0.003),
    "A25-eq13": (0, 1),
    "A25-eq53": (F(13, 20), F(1, 2)),
    "I24-Alg1": (0.75, None),
    "I24-C10": (0.75, None),
    "I24-L13": (F(10, 19) ** 4, 1),
    "I24-P11": (16, F(1, 63) - F(1, 62 + 2**10)),
    "I24-T8": (F(1, 4), F(1, 2)),
    "I24-genk": (0, F(2, 3)),
    "L24-App1": (F(1, 10), F(3, 20)),
    "L24-C4": (F(1, 10), F(1, 5)),
    "L24-L3": (F(1, 10), F(1, 5)),
    "L24-P9": (None, None),
    "L24-fn2": (F(1, 2), F(5, 6)),
    "L24-text": (0.53, 1.0),
}


def test_the_collection_is_complete():
    assert set(errata()) == {*VALUES, *RESTATED}
    for key, source in RESTATED.items():
        assert errata()[key] == errata()[source]


@pytest.mark.parametrize("key", VALUES)
def test_every_printed_claim_is_violated(key):
    example = errata()[key].demonstrate()
    assert example.violated is True
    assert example.printed_value != example.true_value
    assert errata()[key].printed != errata()[key].holds
    assert json.loads(json.dumps(plain(example), allow_nan=False))["violated"] is True
    for shown, by_hand in zip(
        (example.printed_value, example.true_value), VALUES[key], strict=True
    ):
        assert by_hand is None or float(shown) == pytest.approx(float(by_hand), rel=1e-9)


# ── I24 ───────────────────────────────────────────────────────────────────────────────────────────


def full_dimension_accuracy(d, eta, draws, seed):
    """The published sampler and the likelihood-ratio attacker with vectors of length d."""
    rng = np.random.default_rng(seed)
    sets = list(itertools.combinations(range(4), 2))
    member = np.array([1 in s for s in sets])  # another record than the source attacks
    outputs = np.array([[float(i % 6 == j) for i in range(d)] for j in range(6)])
    sigma = outputs.std(axis=0)
    c = (6.16 / eta) ** 2

    def norm(x):
        return np.sqrt((x**2 / sigma**2).mean(axis=-1))

    right = 0
    for _ in range(draws):
        secret = int(rng.integers(6))
        y = rng.normal(0, sigma / math.sqrt(2))  # GenNormal(0, σ, 2)
        release = outputs[secret] + rng.laplace(0, c) * y / norm(y)
        lengths = norm(release - outputs)
        log_density = -lengths / c - (d - 1) * np.log(lengths)
        weight = np.exp(log_density - log_density.max())
        right += (weight[member].sum() >= weight[~member].sum()) == member[secret]
    return right / draws


def test_I24_C10_simulation_agrees_with_full_dimension():
    d, eta, draws = 6 * 600, 0.49, 3000
    naive = full_dimension_accuracy(d, eta, draws, seed=5)
    reduced = attack_on_norm_noise("laplace", eta, 100_000, 6, d)
    # Five standard errors of the naive run: false alarm below 1e-6.
    assert abs(naive - reduced) < 5 * 0.5 / math.sqrt(draws)
    assert reduced > 0.6  # the comparison is made where the attack works


def test_I24_C10_leak_grows_with_dimension_and_the_gamma_radius_keeps_the_promise():
    accuracy = [
        attack_on_norm_noise("laplace", 0.25, 50_000, d, d)
        for d in (12, 99_996, 999_996, 3_999_996)
    ]
    assert accuracy == sorted(accuracy)
    assert accuracy[0] < 0.52
    assert accuracy[-1] > 0.93
    numbers = errata()["I24-C10"].demonstrate().numbers
    # The proved ceiling is respected by the simulated attack (Hoeffding, error 1e-6).
    slack = math.sqrt(math.log(1e6) / (2 * numbers["draws"]))
    upper = numbers["gamma_radius_accuracy_upper"]
    assert numbers["gamma_radius_accuracy_estimate"] - slack <= upper <= 0.75


def test_I24_Alg1_by_simulating_the_algorithm():
    result = errata()["I24-Alg1"].demonstrate()
    rng = np.random.default_rng(8)
    population, eta, trials, budget = (0.0, 1.0, 3.0, 7.0), 0.25, 4000, 50

    def learner(x):
        return float(np.var(x) + 1e-4 * np.mean(x))

    on_half = {x: learner([x]) for x in population}
    pairs = list(itertools.combinations(population, 2))
    clean = np.array([learner(p) for p in pairs])
    right = 0
    for _ in range(trials):
        train = pairs[rng.integers(6)]
        sigma = np.std([on_half[h] for h in rng.choice(train, size=budget)])
        release = learner(train) + rng.laplace(0, (6.16 / eta) ** 2 * sigma)
        guess = pairs[int(np.argmin(abs(clean - release)))]
        right += (3.0 in guess) == (3.0 in train)
    slack = math.sqrt(math.log(1e6) / (2 * trials))
    assert right / trials >= result.true_value - slack
    assert right / trials - slack > result.printed_value
    # Corrected: Laplace noise from the moment over all pairs keeps the promise.
    epsilon = np.ptp(clean) / ((6.16 / eta) ** 2 * clean.std())
    assert result.numbers["true_moment"] == pytest.approx(clean.std())
    assert 1 / (1 + math.exp(-epsilon)) <= result.printed_value


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_I24_L13_with_the_kth_moment(k):
    """P(|X−EX|^k > t^k σ^k) ≤ t^−k, all in k-th powers so that it stays exact."""
    rng = np.random.default_rng(k)
    truth = []
    for _ in range(40):
        values, weights = rng.integers(-9, 10, size=5), rng.integers(1, 6, size=5)
        law = [
            (F(int(v)), F(int(w), int(weights.sum()))) for v, w in zip(values, weights, strict=True)
        ]
        mean = sum(v * w for v, w in law)
        sigma_k = sum(abs(v - mean) ** k * w for v, w in law)
        for t_k in (F(1, 2), F(1), F(3), F(10)):
            tail = sum(w for v, w in law if abs(v - mean) ** k > t_k * sigma_k)
            truth.append(((t_k,), tail))
    assert_bound(lambda t_k: 1 / t_k, truth, broken={"a quarter": lambda t_k: 1 / (4 * t_k)})


def test_I24_genk_bound_with_the_prior():
    """TPR − FPR ≤ (2π − 1 + η)/π for every k, on random mechanisms and every attack."""
    rng = np.random.default_rng(21)
    truth = []
    for _ in range(60):
        size = int(rng.integers(2, 6))
        k = int(rng.integers(1, size))
        rows = rng.integers(0, 4, size=(math.comb(size, k), 3))
        rows += np.eye(3, dtype=int)[rng.integers(3)]
        kernel = {
            s: {o: F(int(w), int(row.sum())) for o, w in enumerate(row)}
            for s, row in zip(subset.subsets(size, k), rows, strict=True)
        }
        pi = max(F(k, size), 1 - F(k, size))
        eta = max(subset.best_accuracy_by_rules(kernel, size, k, x) for x in range(size)) - pi
        worlds = [subset.world_laws(kernel, size, k, x) for x in range(size)]
        truth.append(((pi, eta), max(finite.hockey_stick_by_events(*w, F(1)) for w in worlds)))
    assert_bound(
        lambda pi, eta: (2 * pi - 1 + eta) / pi,
        truth,
        broken={"the form of I24-T8": lambda pi, eta: 2 * eta},
    )


# ── L24 ───────────────────────────────────────────────────────────────────────────────────────────


def test_L24_P9_two_sided_value_meets_the_definition_and_is_least():
    result = errata()["L24-P9"].demonstrate()
    records, candidates = (0, 1, 2, 10), (0, 8, 9, 10)
    inside = {(x, w): 0.0 for x in records for w in candidates}
    outside = dict(inside)
    for pair in itertools.combinations(records, 2):
        # ε = 2, mean loss of two records, sensitivity 10: (max|w| + 10)/2.
        scores = {w: math.exp(-2 * sum(abs(w - x) for x in pair) / 2 / 20) for w in candidates}
        for x in records:
            side = inside if x in pair else outside
            for w in candidates:
                side[x, w] += scores[w] / sum(scores.values()) / 3

    def meets(epsilon):
        return all(
            inside[k] <= math.exp(epsilon) * outside[k] + 1e-12
            and outside[k] <= math.exp(epsilon) * inside[k] + 1e-12
            for k in inside
        )

    assert_holds(
        meets,
        [(result.true_value,)],
        broken={
            "a little less": lambda epsilon: meets(epsilon - 1e-6),
            "as printed": lambda _: meets(result.printed_value),
        },
    )


# ── A25 and its preprints ─────────────────────────────────────────────────────────────────────────


def random_laws(rng, count, outcomes):
    weights = rng.integers(0, 7, size=(count, outcomes)) + 1
    return [[F(int(w), int(row.sum())) for w in row] for row in weights]


def test_A24_eq15_is_optimal_with_the_corrected_densities():
    rng = np.random.default_rng(15)
    truth = []
    for _ in range(40):
        out, inside = random_laws(rng, 2, 4)
        nu = F(int(rng.integers(1, 10)), 10)
        best = max(
            sum((1 - nu) * b if s else nu * a for a, b, s in zip(out, inside, says, strict=True))
            for says in itertools.product((False, True), repeat=4)
        )
        truth.append(((out, inside, nu), best))

    def integral(out, inside, nu):
        return (1 + sum(abs(nu * a - (1 - nu) * b) for a, b in zip(out, inside, strict=True))) / 2

    printed = {"as printed": lambda out, inside, nu: integral(out, inside, 1 - nu)}
    assert_exact(integral, truth, broken=printed)


def test_A25_R4_formula_over_all_attacks():
    rng = np.random.default_rng(4)
    truth = []
    for _ in range(60):
        atoms, n = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        weights = rng.integers(0, 4, size=atoms) + np.eye(atoms, dtype=int)[0]
        law = [F(int(w), int(weights.sum())) for w in weights]
        data = tuple(int(z) for z in rng.integers(0, atoms, size=n))
        nu = F(int(rng.integers(1, 6)), 6)
        best = max(
            nu * sum(p for p, says in zip(law, says_in, strict=True) if not says)
            + (1 - nu) * F(sum(says_in[z] for z in data), n)
            for says_in in itertools.product((False, True), repeat=atoms)
        )
        truth.append(((law, data, nu), best))
    broken = {"always right": lambda *_: F(1)}
    assert_exact(best_conditional_accuracy, truth, broken)


def test_A25_eq53_bound_survives_both_orders():
    """The two orders differ, and neither exceeds e^ε − 1/γ; the leak by every event."""
    rng = np.random.default_rng(53)
    truth, differ = [], 0
    for _ in range(60):
        atoms, outputs = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        gamma = F(int(rng.integers(1, 9)), 4)
        channel = random_laws(rng, atoms, outputs)
        law = [F(1, atoms)] * atoms
        columns = list(zip(*channel, strict=True))
        e_epsilon = max(max(column) / min(column) for column in columns)
        out = [sum(column) / atoms for column in columns]
        orders = []
        for weights in ((gamma, F(-1)), (F(-1), gamma)):
            leak = sum(
                max(
                    sum((weights[0] * out[y] + weights[1] * row[y] for y in event), F(0))
                    for size in range(outputs + 1)
                    for event in itertools.combinations(range(outputs), size)
                )
                for row in channel
            )
            assert channel_leak(law, channel, weights) == leak / atoms
            orders.append(leak / atoms / gamma)
        truth.append(((e_epsilon, gamma), max(orders)))
        differ += orders[0] != orders[1]
    assert differ > 10
    assert_bound(
        lambda e_epsilon, gamma: max(F(0), e_epsilon - 1 / gamma),
        truth,
        broken={"a tenth": lambda e_epsilon, gamma: max(F(0), e_epsilon - 1 / gamma) / 10},
    )


def test_A25_L30_constants_hold_up_to_two_below_n():
    """0.29² ≤ (share)²·n/(p(1−p)) ≤ 0.44² for 1 ≤ np, ⌊np⌋ ≤ n − 2; exactly p^n(1−p) above."""
    outside = 0
    for n, numerator in itertools.product((5, 6, 10, 40), range(1, 200)):
        p = F(numerator, 200)
        share, unit = iid.mean_deviation(n, p) / 2, p * (1 - p) / n
        within = F(29, 100) ** 2 * unit <= share**2 <= F(44, 100) ** 2 * unit
        if math.floor(n * p) == n - 1:
            assert share == p**n * (1 - p)
            outside += not within
        else:
            assert within or n * p < 1
    assert outside > 5


def test_A25_L29_remainder_is_the_binomial_tail():
    result = errata()["A25-L29"].demonstrate()
    tail = sum(iid.binomial(100, F(1, 10))[21:])
    assert result.true_value == tail / 2
    # A remainder o(e^−n) would send this logarithm to −∞; it grows at 1 − exponent per record.
    logs = [result.numbers[f"log_of_remainder_times_e_to_n_at_{n}"] for n in (200, 400)]
    assert (logs[1] - logs[0]) / 200 == pytest.approx(
        1 - result.numbers["decay_exponent"], abs=0.01
    )


def test_A25_R13_quadratic_root_is_exact_and_printed_size_is_enough_up_to_1():
    rng = np.random.default_rng(11)
    for _ in range(2000):
        c, epsilon, d = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(0, 6)
        exact = required_sample_size(c, int(d), epsilon)
        assert c / math.sqrt(exact) + math.sqrt(int(d)) / (2 * exact) == pytest.approx(epsilon)
        assert (c / epsilon) ** 2 * (1 + math.sqrt(int(d)) / c**2) ** 1.5 >= exact * (1 - 1e-12)


def test_A25_R13_taylor_step():
    result = errata()["A25-R13"].demonstrate()
    u, fixed = result.printed_value, result.numbers["intermediate_point_with_the_square"]
    # On all of [0, u] the printed right-hand side stays away from √(1 + 2u) …
    printed = 1 + u - 0.5 * (1 + 2 * np.linspace(0, u, 1001)) ** -1.5
    assert np.abs(printed - math.sqrt(1 + 2 * u)).min() > 0.3
    # … with the square the intermediate point exists.
    assert 0 <= fixed <= u
    value = 1 + u - 0.5 * u**2 * (1 + 2 * fixed) ** -1.5
    assert value == pytest.approx(math.sqrt(1 + 2 * u), rel=1e-12)


def test_A23_C411_size_from_the_quadratic_is_enough():
    numbers = errata()["A23-C4.1.1"].demonstrate().numbers
    assert numbers["delta_upper_at_that_n"] <= 1 / 50
    assert numbers["n_from_the_quadratic"] > 50


def test_A25_S2_weighted_rates_are_the_chance_of_being_right():
    """ν·TNR + (1−ν)·TPR over all attacks of random pairs; the printed sum fails."""
    rng = np.random.default_rng(2)
    truth = []
    for _ in range(20):
        out, inside = random_laws(rng, 2, 3)
        nu = F(int(rng.integers(1, 10)), 10)
        for says in itertools.product((False, True), repeat=3):
            tnr = sum((a for a, s in zip(out, says, strict=True) if not s), F(0))
            tpr = sum((b for b, s in zip(inside, says, strict=True) if s), F(0))
            # The two worlds drawn with ν and 1−ν, the answer compared with the world.
            worlds = [(nu, out, False), (1 - nu, inside, True)]
            right = sum(
                (w * m for w, law, is_in in worlds for m, s in zip(law, says, strict=True)
                 if s == is_in),
                F(0),
            )  # fmt: skip
            truth.append(((nu, tnr, tpr), right))
    assert_exact(
        lambda nu, tnr, tpr: nu * tnr + (1 - nu) * tpr,
        truth,
        broken={"as printed": lambda nu, tnr, tpr: tnr + tpr},
    )


def test_A25_P19_proof_stands_for_trained_networks():
    """Without slope a piece has height 0 if weights and biases are combinations of inputs.

    A KKT point has w_j = Σ_i c_ij x_i and b_j = Σ_i c_ij; for independent x_i Σ_J v_jw_j = 0 makes
    Σ_J v_jc_ij = 0 for every i, hence Σ_J v_jb_j = 0, which is no label.
    """
    rng = np.random.default_rng(19)
    for _ in range(50):
        x, v = rng.normal(size=(4, 6)), rng.normal(size=5)
        c = rng.normal(size=(4, 5))
        assert np.linalg.matrix_rank(x) == 4
        # Coefficients that make the piece of all units flat solve xᵀ(c v) = 0: only c v = 0 does.
        slope = np.linalg.lstsq(x.T, np.zeros(6), rcond=None)[0]
        c += np.outer(slope - c @ v, v) / (v @ v)
        assert np.allclose((x.T @ c) @ v, 0)
        assert abs(c.sum(axis=0) @ v) < 1e-9
    # A network that is no such combination can be flat at a label: the printed step fails.
    assert errata()["A25-P19.proof"].demonstrate().true_value == 1.0


def test_A25_C15_gamma_is_one_at_the_corrected_nu():
    for lam in (F(1, 3), F(1), F(7, 2)):
        assert iid.gamma(lam / (1 + lam), lam) == 1
        assert (iid.gamma(1 / (1 + lam), lam) == 1) == (lam == 1)


def test_A24_E4_3_ridge_by_solving_the_normal_equations():
    x, y, penalty = np.eye(3)[:2], np.array([1.0, 2.0]), 0.5
    theta = np.linalg.solve(x.T @ x / 2 + penalty * np.eye(3), x.T @ y / 2)
    losses = (x @ theta - y) ** 2
    shown = errata()["A24-E4.3.ridge"].demonstrate()
    assert min(losses) == pytest.approx(float(shown.true_value))
    # The fit of minimal norm does interpolate.
    assert x @ np.linalg.lstsq(x, y, rcond=None)[0] == pytest.approx(y)


def test_A25_H2_limit_a_continuous_law_leaks_everything():
    """Releasing n draws from a continuous law: the record is among them or, surely, is not."""
    rng = np.random.default_rng(8)
    for n in (10, 1000):
        rows = rng.normal(size=n)
        assert not np.isin(rng.normal(size=2000), rows).any()
        assert np.isin(rows, rows).all()
    numbers = errata()["A25-H.2.limit"].demonstrate().numbers
    assert list(numbers.values()) == sorted(numbers.values(), reverse=True)
