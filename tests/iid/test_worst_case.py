"""The exact worst case against enumeration in rationals and a naive second implementation."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.iid import worst_case
from memberbound.iid.worst_case import leak_of_law, leak_of_uniform
from oracle import iid
from oracle.claims import assert_holds
from oracle.readoffs import price

F = Fraction
TIGHT = F(1, 10**10)
PRIORS = ((0.5, 1.0), (0.25, 1.0), (0.75, 1.0), (0.4, 0.5), (0.6, 3.0), (0.9, 0.25))


def dyadic_laws(seed, count):
    """Laws with probabilities that are exact doubles and sum to exactly 1."""
    rng = Random(seed)
    for _ in range(count):
        parts = [rng.randint(0, 50) for _ in range(rng.randint(2, 6))]
        total = 256
        parts = [min(x, total // len(parts)) for x in parts]
        parts.append(total - sum(parts))
        yield [F(x, total) for x in parts], rng.randint(1, 30)


def agrees(formula):
    """Return whether a double is at or just above A25-T14 in rationals."""

    def check(p, n, nu, lam):
        truth = iid.worst_leak(p, n, price(nu, lam))
        return truth <= F(formula([float(x) for x in p], n, nu, lam)) <= truth * (1 + TIGHT)

    return check


def test_agrees_with_rationals_at_every_gamma_and_never_below():
    assert_holds(
        agrees(leak_of_law),
        [(p, n, nu, lam) for p, n in dyadic_laws(1, 12) for nu, lam in PRIORS],
        broken={
            "swapped": agrees(lambda p, n, nu, lam: leak_of_law(p, n, 1 - nu, lam)),
            "one record more": agrees(lambda p, n, nu, lam: leak_of_law(p, n + 1, nu, lam)),
            "always even odds": agrees(lambda p, n, nu, lam: leak_of_law(p, n)),
        },
    )


def test_known_values():
    # 1 - 1/K at n = 1; 0.368 = 1/e for cells that expect one record.
    for cells in (2, 10, 10**6, 10**18):
        assert leak_of_uniform(cells, 1) == pytest.approx(1 - 1 / cells, rel=1e-12)
    assert leak_of_uniform(10**6, 10**6) == pytest.approx(np.exp(-1), rel=1e-6)
    # γ = 1, n → ∞: √(2/π)/2·Σ√(p(1-p)/n)
    expected = np.sqrt(9) / np.sqrt(2 * np.pi * 1e12)
    assert leak_of_uniform(10, 10**12) == pytest.approx(expected, rel=1e-9)


def test_uniform_agrees_with_the_law_and_with_rationals():
    for cells, n in ((2, 9), (3, 10), (7, 100), (64, 20)):
        for nu, lam in PRIORS:
            truth = iid.worst_leak([F(1, cells)] * cells, n, price(nu, lam))
            value = F(leak_of_uniform(cells, n, nu, lam))
            assert truth <= value <= truth * (1 + TIGHT)
            listed = leak_of_law([1 / cells] * cells, n, nu, lam)
            assert listed == pytest.approx(float(value), rel=1e-10, abs=1e-15)


def test_chunks_do_not_matter(monkeypatch):
    p = np.random.default_rng(4).dirichlet(np.ones(1000))
    whole = [leak_of_law(p, 3000, nu) for nu in (0.5, 0.6)]
    monkeypatch.setattr(worst_case, "_CHUNK", 7)
    assert [leak_of_law(p, 3000, nu) for nu in (0.5, 0.6)] == pytest.approx(whole, rel=1e-14)


@given(
    st.lists(st.integers(1, 1000), min_size=2, max_size=8),
    st.integers(1, 200),
    st.lists(st.floats(0.05, 0.95), min_size=2, max_size=2),
)
def test_monotone_in_gamma_below_and_above_one_and_in_n(weights, n, nus):
    """A25-L27, L28: even odds are the worst; more records leak less about each."""
    p = np.array(weights) / np.sum(weights)
    low, high = sorted(nus)
    a, b = leak_of_law(p, n, low), leak_of_law(p, n, high)
    slack = 1 + 1e-9
    if high <= 0.5:
        assert a <= b * slack
    if low >= 0.5:
        assert b <= a * slack
    top = leak_of_law(p, n)
    assert max(a, b) <= top * slack
    assert leak_of_law(p, n + 1) <= top * slack
    assert 0 <= top <= 1


def test_missing_mass_is_added():
    p = [0.5, 0.5 - 5e-10]
    assert leak_of_law(p, 100) >= leak_of_law([0.5, 0.5], 100) + 4.9e-10
    # The law with the missing mass on a rare atom of its own.
    full = [0.5, 0.5 - 5e-10, 5e-10]
    assert leak_of_law(full, 100) <= leak_of_law(p, 100) * (1 + 1e-12)
    # The law scaled back from a sum above 1.
    above = np.array([0.5, 0.5 + 5e-10])
    assert leak_of_law(above / above.sum(), 100) <= leak_of_law(above, 100)


def test_edges():
    assert leak_of_law([1.0], 5) == 0
    assert leak_of_law([1.0, 0.0], 5, 0.7) == 0
    assert leak_of_uniform(1, 5) == 0
    assert leak_of_law([1.0, 1e-20], 5) >= 2e-20 * (1 - 1e-12)  # both atoms, although 1 - 1e-20 = 1
    assert leak_of_law([0.5, 0.5], 1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "arguments",
    [
        ([0.5, 0.4], 10),
        ([0.5, 0.6], 10),
        ([0.5, 0.5 + 2e-9], 10),
        ([-0.5, 1.5], 10),
        ([float("nan"), 1.0], 10),
        ([], 10),
        ([[0.5, 0.5]], 10),
        ([0.5, 0.5], 0),
        ([0.5, 0.5], 2.5),
        ([0.5, 0.5], 10, 0.0),
        ([0.5, 0.5], 10, 1.0),
        ([0.5, 0.5], 10, 0.5, -1.0),
        ([0.5, 0.5], 10, 0.5, 1.0, [1]),
        ([0.5, 0.5], 10, 0.5, 1.0, [1, 0.5]),
    ],
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(InputError):
        leak_of_law(*arguments)


def test_bad_uniform_input_is_refused():
    for cells in (0, 2.5, 10**19):
        with pytest.raises(InputError):
            leak_of_uniform(cells, 10)
    with pytest.raises(InputError, match="sum to 1"):
        leak_of_law([0.2, 0.2], 3)
