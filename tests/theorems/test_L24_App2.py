"""L24-App2: distributional DP lets everything out when the other records determine the last.

Distributional DP compares A(D) with a simulator that does not see record i.  On bits of even
parity the simulator rebuilds the bit, so A(D) = D passes with epsilon = delta = 0; the subset game
is not fooled.
"""

from collections import Counter
from fractions import Fraction
from itertools import product

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds
from oracle import mechanisms

F = Fraction


def parity_data(length):
    return [bits for bits in product((0, 1), repeat=length) if sum(bits) % 2 == 0]


def free_data(length):
    return list(product((0, 1), repeat=length))


def by_parity(rest, index):
    return (*rest[:index], sum(rest) % 2, *rest[index:])


def distributional_delta(data_sets, simulator):
    """Largest total variation between A(D) = D and the simulator, given any value of record i."""
    worst = F(0)
    for i in range(len(data_sets[0])):
        for value in {bits[i] for bits in data_sets}:
            arguments = [bits for bits in data_sets if bits[i] == value]
            real = Counter(arguments)
            simulated = Counter(simulator(bits[:i] + bits[i + 1 :], i) for bits in arguments)
            excess = sum(max(0, real[a] - simulated[a]) for a in real)
            worst = max(worst, F(excess, len(arguments)))
    return worst


def test_releasing_everything_passes_on_parity_data():
    for length in (2, 3, 4, 5):
        assert len(parity_data(length)) == 2 ** (length - 1)
        assert distributional_delta(parity_data(length), by_parity) == 0


def test_free_bits_are_caught():
    for length in (2, 3, 4):
        assert distributional_delta(free_data(length), by_parity) == F(1, 2)


def test_the_subset_game_is_not_fooled():
    for n in (1, 2, 3):
        bounds = finite_bounds(mechanisms.whole_set, SubsetGame(2 * n, n))
        assert bounds.eta_upper == 0.5
        assert bounds.pmp_epsilon_upper == float("inf")
