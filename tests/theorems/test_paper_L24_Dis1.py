"""L24-Dis1: PMP does not compose.  No rule that looks at the two parameters alone can hold.

Witnesses, each with the rule "add epsilon (and delta)" that it breaks:

* two sums modulo 6 on {0, ..., 5}, each ln 2-PMP, jointly PMP for no finite epsilon (exact);
* the same, each answered truthfully with probability 1/2: all finite, 4.8 against 1.9 (exact);
* as a control, DP mechanisms, for which adding is right.
"""

from fractions import Fraction
from random import Random

import pytest

from oracle import finite, mechanisms, subset

F = Fraction
N, K = 6, 3


def relabel(labels):
    """The sum of the records' labels modulo 6."""
    return lambda d: {sum(labels[x] for x in d) % 6: F(1)}


def with_lies(release, truth):
    """Truthful with probability ``truth``, otherwise a uniform answer."""

    def answer(d):
        law = dict.fromkeys(range(6), (1 - truth) / 6)
        for a, mass in release(d).items():
            law[a] += truth * mass
        return law

    return answer


def jointly(first, second):
    """Both releases about one subset, with independent randomness."""

    def both(d):
        return {(a, b): p * q for a, p in first(d).items() for b, q in second(d).items()}

    return both


PLAIN = relabel(range(6))
SWAPPED = relabel((0, 1, 2, 3, 5, 4))


def ratio(mechanism):
    return subset.pmp_ratio(mechanism, N, K)


def breaks(rule, pairs):
    """Pairs with a joint ratio above the rule's combination of the two single ones."""
    result = []
    for index, (first, second) in enumerate(pairs):
        both = ratio(jointly(first, second))
        if both is None or both > rule(ratio(first), ratio(second)):
            result.append(index)
    return result


def add(a, b):
    return a * b  # epsilons add where ratios multiply


def test_two_harmless_sums_betray_a_record_together():
    assert ratio(PLAIN) == ratio(SWAPPED) == 2
    assert ratio(jointly(PLAIN, SWAPPED)) is None
    p_in, p_out = subset.world_laws(jointly(PLAIN, SWAPPED), N, K, 0)
    sure = [a for a in finite.outcomes(p_in, p_out) if not (p_in.get(a) and p_out.get(a))]
    assert sure
    assert breaks(add, [(PLAIN, SWAPPED)]) == [0]


@pytest.mark.parametrize(
    ("truth", "single", "both"),
    [(F(1, 4), F(7, 6), F(13, 7)), (F(1, 2), F(11, 8), F(53, 11))],
)
def test_sum_rule_fails_with_every_parameter_finite(truth, single, both):
    pair = with_lies(PLAIN, truth), with_lies(SWAPPED, truth)
    assert ratio(pair[0]) == ratio(pair[1]) == single
    assert ratio(jointly(*pair)) == both
    assert both > single**2
    assert breaks(add, [pair]) == [0]


def test_sum_rule_holds_for_dp():
    """Negative control: the same joint release and the same rule, with DP parameters."""
    rng = Random(31)
    pairs = []
    for _ in range(6):
        g, h = rng.choice([F(6, 5), F(2)]), rng.choice([F(3, 2), F(3)])
        pairs.append(
            (mechanisms.random_dp_kernel(rng, 4, 2, g), mechanisms.random_dp_kernel(rng, 4, 2, h))
        )
    for first, second in pairs:
        both = jointly(first.__getitem__, second.__getitem__)
        limit = subset.dp_ratio(first, 4, 2) * subset.dp_ratio(second, 4, 2)
        assert subset.dp_ratio(both, 4, 2) <= limit
        assert subset.pmp_ratio(both, 4, 2) <= limit  # DP composes, and DP gives PMP
