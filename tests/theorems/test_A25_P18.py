"""A25-P18: symmetric and redundancy invariant ⇔ a function of the empirical distribution."""

from fractions import Fraction
from itertools import permutations, product
from random import Random

ALPHABET, SIZE = "ab", 6
DATA = [d for k in range(1, SIZE + 1) for d in product(ALPHABET, repeat=k)]
#: Each data set in one order only: what is the same in all orders of these is so of all.
ORDERED = [d for d in DATA if list(d) == sorted(d)]
FREQUENCIES = sorted({Fraction(d.count("a"), len(d)) for d in DATA})


def is_symmetric(learner):
    return all(learner(other) == learner(d) for d in ORDERED for other in permutations(d))


def is_redundancy_invariant(learner):
    return all(learner(d * r) == learner(d) for d in DATA for r in range(1, SIZE // len(d) + 1))


def is_function_of_frequencies(learner):
    values = {}
    for d in DATA:
        values.setdefault(Fraction(d.count("a"), len(d)), set()).add(learner(d))
    return all(len(seen) == 1 for seen in values.values())


def both(learner):
    """Both properties on all data sets of at most SIZE records."""
    return is_symmetric(learner) and is_redundancy_invariant(learner)


def test_every_function_of_the_frequencies_has_both_properties():
    rng = Random(18)
    for _ in range(4):
        table = {f: rng.randint(0, 2) for f in FREQUENCIES}
        learner = {d: table[Fraction(d.count("a"), len(d))] for d in DATA}.__getitem__
        assert is_function_of_frequencies(learner)
        assert both(learner)


def test_one_changed_value_breaks_both_sides_together():
    """Every table that differs from a function of the frequencies at one data set."""
    base = {d: Fraction(d.count("a"), len(d)) > Fraction(1, 3) for d in DATA}
    broken = 0
    for changed in DATA[::4]:
        table = dict(base)
        table[changed] = not table[changed]
        function = is_function_of_frequencies(table.__getitem__)
        assert function == both(table.__getitem__)
        broken += not function
    assert broken > 10


def test_either_property_alone_is_not_enough():
    def first(data):
        return data[0]

    assert is_symmetric(len)
    assert not is_redundancy_invariant(len)
    assert is_redundancy_invariant(first)
    assert not is_symmetric(first)
    for learner in (len, first, "".join, lambda d: d.count("a")):
        assert not is_function_of_frequencies(learner)
