"""certify_counts: exact coverage on small laws, simulated coverage, tightness, refusals.

The truth is Δ_n = Σ_k p(1-p)·P(Bin(n-1,p) = ⌊np⌋) plus the mass of the diffuse part (all rows
distinct).  Every simulated check allows as many failures as a certificate of exactly the stated
confidence exceeds with probability 1e-6, so the false-alarm rate is below 1e-4 in all.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.iid import certificates
from memberbound.iid.certificates import (
    EXPONENTIAL,
    SPLIT,
    c_k_plug_in_estimate,
    certify_counts,
    delta_plug_in_estimate,
)
from memberbound.iid.count_functions import tabulated_count_functions, totals_upper
from memberbound.iid.profiles import CountProfile, JointProfile
from oracle.large_laws import worst_leak

FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Law:
    """Atoms, and the mass of a diffuse part that never repeats."""

    atoms: np.ndarray
    diffuse: float = 0.0

    def leak(self, n: int) -> float:
        return worst_leak(self.atoms, n) + self.diffuse

    def counts(self, rng: np.random.Generator, n: int) -> np.ndarray:
        drawn = rng.multinomial(n, np.append(self.atoms, self.diffuse))
        return np.concatenate([drawn[:-1], np.ones(drawn[-1], dtype=np.int64)])


def zipf(atoms: int) -> np.ndarray:
    weights = 1 / np.arange(1, atoms + 1)
    return weights / weights.sum()


def geometric(q: float, atoms: int) -> np.ndarray:
    weights = (1 - q) ** np.arange(atoms)
    return weights / weights.sum()


LAWS = {
    "coin": Law(np.array([0.5, 0.5])),
    "99:1": Law(np.array([0.99, 0.01])),
    "five": Law(np.array([0.4, 0.3, 0.2, 0.07, 0.03])),
    "uniform 40": Law(np.full(40, 1 / 40)),
    "uniform 800": Law(np.full(800, 1 / 800)),
    "zipf 400": Law(zipf(400)),
    "geometric": Law(geometric(0.01, 1500)),
    "mixed": Law(np.concatenate([[0.3, 0.2], np.full(50, 0.004)]), 0.3),
    "all distinct": Law(np.array([]), 1.0),
}


def plug_in(profile: CountProfile, n: int, beta: float) -> float:
    return delta_plug_in_estimate(profile, n)


def no_confidence_term(profile: CountProfile, n: int, beta: float) -> float:
    return totals_upper(tabulated_count_functions()[:1], profile, n)[0] / n


def certify(profile: CountProfile, n: int, beta: float) -> float:
    return certify_counts(profile, n, 1 - beta).delta_upper


def failures(  # noqa: PLR0917
    bound, law: Law, rows: int, n: int, beta: float, draws: int
) -> int:
    rng = np.random.default_rng(11)
    truth = law.leak(n) * (1 - 1e-12)
    profiles = (CountProfile.from_counts(law.counts(rng, rows)) for _ in range(draws))
    return sum(bound(profile, n, beta) < truth for profile in profiles)


def most_misses(draws: int, beta: float) -> int:
    return int(stats.binom.isf(FALSE_ALARM, draws, beta))


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("rows", [40, 400])
def test_exact_coverage_on_two_atoms(rows, beta):
    """No simulation: the failure probability is summed over every table, for 60 laws."""
    counts = np.arange(rows + 1)
    half = [
        certify_counts(CountProfile.from_counts([c, rows - c]), None, 1 - beta).delta_upper
        for c in range(rows // 2 + 1)
    ]
    bounds = np.array([half[min(c, rows - c)] for c in counts.tolist()])
    plug = np.array([plug_in(CountProfile.from_counts([c, rows - c]), rows, 0) for c in counts])
    missed = 0.0
    for p in np.concatenate([np.geomspace(0.1 / rows, 0.3, 40), np.linspace(0.3, 0.5, 20)]):
        mass = stats.binom.pmf(counts, rows, p)
        truth = Law(np.array([p, 1 - p])).leak(rows) * (1 - 1e-12)
        assert float(mass[bounds < truth].sum()) <= beta, p
        missed = max(missed, float(mass[plug < truth].sum()))
    assert missed > 0.5  # the same check catches the plug-in figure


@pytest.mark.parametrize("rows", [50, 1000])
@pytest.mark.parametrize("name", LAWS)
def test_coverage(name, rows):
    draws = 60
    for beta in (0.5, 0.05):
        result = failures(certify, LAWS[name], rows, rows, beta, draws)
        assert result <= most_misses(draws, beta)


@pytest.mark.parametrize("name", ["five", "uniform 800", "mixed"])
@pytest.mark.parametrize("n", [100, 600])
def test_coverage_of_fewer_training_rows(name, n):
    draws = 40
    for beta in (0.5, 0.05):
        assert failures(certify, LAWS[name], 1000, n, beta, draws) <= most_misses(draws, beta)


@pytest.mark.long
@pytest.mark.parametrize("rows", [50, 1000, 20_000, 50_000])
@pytest.mark.parametrize("name", LAWS)
def test_coverage_long(name, rows):
    draws = 600
    for beta in (0.5, 0.05):
        assert failures(certify, LAWS[name], rows, rows, beta, draws) <= most_misses(draws, beta)
    for n in (rows // 10, rows // 2):
        assert failures(certify, LAWS[name], rows, n, 0.05, 200) <= most_misses(200, 0.05)


def test_coverage_catches_a_missing_confidence_term():
    # Cells of 25.5 on average, where the tabulated function is within 0.1 % of the truth, beside
    # distinct rows, where it is exact and the number of rows fluctuates most.
    law = Law(np.full(200, 1 / 400), 0.5)
    result = failures(no_confidence_term, law, 10_200, 10_200, 0.05, draws=100)
    assert result > most_misses(100, 0.05)
    assert failures(certify, law, 10_200, 10_200, 0.05, draws=100) <= most_misses(100, 0.05)


def test_reference_coverage():
    law, draws, n, m = LAWS["uniform 40"], 40, 300, 4000
    rng = np.random.default_rng(3)
    truth = law.leak(n)
    missed = 0
    for _ in range(draws):
        joint = JointProfile.from_counts(
            rng.multinomial(n, law.atoms), rng.multinomial(m, law.atoms)
        )
        certificate = certify_counts(joint.training(), reference=joint)
        missed += certificate.delta_upper < truth
        assert certificate.n == n
        assert certificate.delta_upper < certify_counts(joint.training()).delta_upper
    assert missed <= most_misses(draws, 0.05)


def mean_ratio(law: Law, rows: int, draws: int = 5) -> float:
    rng = np.random.default_rng(2)
    bounds = [
        certify_counts(CountProfile.from_counts(law.counts(rng, rows))).delta_upper
        for _ in range(draws)
    ]
    return float(np.mean(bounds)) / law.leak(rows)


@pytest.mark.parametrize(
    ("law", "limit"),
    [
        (Law(np.full(400, 1 / 400)), 1.05),
        (Law(np.full(20, 1 / 20)), 1.05),
        (Law(np.array([0.5, 0.5])), 1.2),
        (Law(np.array([0.4, 0.3, 0.2, 0.07, 0.03])), 1.15),
        (Law(zipf(400)), 1.15),
        (Law(geometric(0.1, 200)), 1.2),
    ],
    ids=["uniform 400", "uniform 20", "coin", "five", "zipf 400", "geometric"],
)
def test_tight_on_twenty_thousand_rows(law, limit):
    assert 1 <= mean_ratio(law, 20_000) <= limit


def test_distinct_rows_are_vacuous_and_the_plug_in_warns():
    certificate = certify_counts(CountProfile.from_counts([1] * 1000))
    assert certificate.delta_upper == 1.0
    assert certificate.delta_plug_in.value == pytest.approx(0.368, abs=1e-3)
    assert any("unique" in w for w in certificate.warnings)
    assert any("far below" in w for w in certificate.warnings)


def test_the_best_candidate_is_reported_and_shares_add_up():
    certificate = certify_counts(CountProfile.from_counts([50] * 400), n=4000)
    assert certificate.delta_upper == min(certificate.candidates.values())
    assert certificate.candidates[certificate.method] == certificate.delta_upper
    assert {EXPONENTIAL, SPLIT} <= set(certificate.candidates)
    for shares in (certificates._SHARES_ALL_ROWS, certificates._SHARES_WITH_REST):
        assert sum(shares.values()) == pytest.approx(1)
        assert sum(shares.values()) <= 1 + 1e-12
    assert sum(certificates._WEIGHTS) == pytest.approx(1)


def test_the_split_wins_when_most_rows_are_reference():
    law = LAWS["uniform 800"]
    counts = law.counts(np.random.default_rng(1), 50_000)
    certificate = certify_counts(CountProfile.from_counts(counts), n=500)
    assert certificate.method == SPLIT
    assert certificate.delta_upper <= 1.05 * law.leak(500)


def test_plug_in_estimates():
    profile = CountProfile.from_counts([5, 3, 2])
    assert c_k_plug_in_estimate(profile) == pytest.approx(0.5 + 0.21**0.5 + 0.16**0.5)
    assert delta_plug_in_estimate(profile) == pytest.approx(Law(np.array([0.5, 0.3, 0.2])).leak(10))


def test_bad_input():
    profile = CountProfile.from_counts([5, 3])
    joint = JointProfile.from_counts([5, 3], [4, 4])
    with pytest.raises(InputError, match="at most the table's 8 rows"):
        certify_counts(profile, n=9)
    with pytest.raises(InputError, match="confidence"):
        certify_counts(profile, confidence=1.0)
    with pytest.raises(InputError, match="nu"):
        certify_counts(profile, nu=1.0)
    with pytest.raises(InputError, match="those of the profile"):
        certify_counts(CountProfile.from_counts([6, 2]), reference=joint)
    with pytest.raises(InputError, match="all 8 training rows"):
        certify_counts(profile, n=5, reference=joint)
