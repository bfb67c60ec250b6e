"""A25-P18: symmetric and redundancy invariant ⇔ a function of the empirical distribution."""

from fractions import Fraction
from itertools import product
from random import Random

from oracle.printed_examples import (
    is_function_of_frequencies,
    is_redundancy_invariant,
    is_symmetric,
)

ALPHABET, SIZE = "ab", 6
DATA = [d for k in range(1, SIZE + 1) for d in product(ALPHABET, repeat=k)]
#: Each data set in one order only: what is the same in all orders of these is so of all.
ORDERED = [d for d in DATA if list(d) == sorted(d)]
FREQUENCIES = sorted({Fraction(d.count("a"), len(d)) for d in DATA})


def both(learner):
    """Both properties on all data sets of at most SIZE records."""
    symmetric = is_symmetric(learner, ORDERED)
    repeated = all(
        is_redundancy_invariant(learner, [d], repeats=range(1, SIZE // len(d) + 1)) for d in DATA
    )
    return bool(symmetric) and repeated


def test_every_function_of_the_frequencies_has_both_properties():
    rng = Random(18)
    for _ in range(4):
        table = {f: rng.randint(0, 2) for f in FREQUENCIES}
        learner = {d: table[Fraction(d.count("a"), len(d))] for d in DATA}.__getitem__
        assert is_function_of_frequencies(learner, ALPHABET, SIZE)
        assert both(learner)


def test_one_changed_value_breaks_both_sides_together():
    """Every table that differs from a function of the frequencies at one data set."""
    base = {d: Fraction(d.count("a"), len(d)) > Fraction(1, 3) for d in DATA}
    broken = 0
    for changed in DATA[::4]:
        table = dict(base)
        table[changed] = not table[changed]
        function = bool(is_function_of_frequencies(table.__getitem__, ALPHABET, SIZE))
        assert function == both(table.__getitem__)
        broken += not function
    assert broken > 10


def test_either_property_alone_is_not_enough():
    size = len  # symmetric, not redundancy invariant
    assert is_symmetric(size, DATA)
    assert is_redundancy_invariant(size, DATA).second is not None
    first = lambda data: data[0]  # noqa: E731 - redundancy invariant, not symmetric
    assert is_redundancy_invariant(first, DATA)
    assert not is_symmetric(first, DATA)
    for learner in (size, first):
        assert not is_function_of_frequencies(learner, ALPHABET, SIZE)


def test_counterexamples_are_real():
    for learner in (lambda d: d[0], len, lambda d: d.count("a"), "".join):
        check = is_function_of_frequencies(learner, ALPHABET, 4)
        assert learner(check.first) != learner(check.second)
        share = [Fraction(d.count("a"), len(d)) for d in (check.first, check.second)]
        assert share[0] == share[1]
