"""A25-L26: over deterministic functions of the histogram, the largest leak is T14's.

Truth: all set partitions of the histograms are tried, so the maximum is really a maximum.
"""

from fractions import Fraction

from oracle import iid
from oracle.claims import assert_exact

F = Fraction
CASES = [
    ([F(1, 3), F(2, 3)], 1),
    ([F(1, 5), F(4, 5)], 3),
    ([F(1, 2), F(1, 2)], 4),
    ([F(1, 6), F(1, 3), F(1, 2)], 2),
]
GAMMAS = [F(1, 3), F(1), F(3, 2)]


def partitions(items):
    """All set partitions, as lists of blocks."""
    if not items:
        yield []
        return
    head, *tail = items
    for blocks in partitions(tail):
        yield [[head], *blocks]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], [head, *block], *blocks[i + 1 :]]


def releases(n, atoms):
    for blocks in partitions(list(iid.histograms(n, atoms))):
        yield {h: label for label, block in enumerate(blocks) for h in block}


def largest_leak_of_two_labels(p, n, gamma):
    """Wrong in general: the best release with a single bit."""
    return max(
        iid.leakage(iid.joint_laws(p, n, r), gamma)
        for r in releases(n, len(p))
        if len(set(r.values())) <= 2
    )


def test_maximum_over_all_deterministic_learners():
    truth = []
    for p, n in CASES:
        pairs = [iid.joint_laws(p, n, r) for r in releases(n, len(p))]
        truth += [((p, n, g), max(iid.leakage(pair, g) for pair in pairs)) for g in GAMMAS]
    assert_exact(iid.worst_leak, truth, broken={"a single bit": largest_leak_of_two_labels})


def test_injective_learners_reach_it():
    for p, n in CASES:
        pair = iid.joint_laws(p, n, iid.injective(n, len(p)))
        for gamma in GAMMAS:
            assert iid.leakage(pair, gamma) == iid.worst_leak(p, n, gamma)
