"""A25-P5: D_alpha is an f-divergence in [0, 1], and eq. 7 averages it over records.

Truth: the supremum over all 2^m events, on the joint law.
"""

from fractions import Fraction
from random import Random

from oracle import finite, iid, mechanisms
from oracle.claims import assert_exact

F = Fraction
GAMMAS = [F(1, 4), F(2, 3), F(1), F(5, 4), F(3)]


def theory_form(p_in, p_out, gamma, plus=None):
    """max(1,g) [ (1/g) max(TPR - g FPR) + 1 - 1/g - (1 - 1/g)_+ ], from the ROC corners."""
    stick = max(y - gamma * x for x, y in finite.roc_vertices(p_in, p_out))
    plus = max(F(0), 1 - 1 / gamma) if plus is None else plus
    return max(F(1), gamma) * (stick / gamma + 1 - 1 / gamma - plus)


def mean_over_records(form):
    return lambda p, pair, gamma: sum(
        pz * form(inside, outside, gamma) for pz, inside, outside in iid.conditionals(p, pair)
    )


def test_eq7_equals_the_supremum_over_attacks():
    truth = []
    for p, n, release in mechanisms.random_iid_games(505, 14):
        pair = iid.joint_laws(p, n, release)
        truth += [
            ((p, pair, gamma), iid.divergence(*pair[::-1], gamma, by_events=True))
            for gamma in GAMMAS
        ]
    assert_exact(
        mean_over_records(theory_form),
        truth,
        broken={
            "worlds exchanged": mean_over_records(lambda p, q, g: theory_form(q, p, g)),
            "without the positive part": mean_over_records(lambda p, q, g: theory_form(p, q, g, 0)),
        },
    )


def test_generator_gives_the_same_divergence():
    rng = Random(506)
    for _ in range(20):
        p, q = finite.random_pair(rng, rng.randint(2, 5), zeros=True)
        for gamma in GAMMAS:
            truth = iid.divergence(p, q, gamma, by_events=True)
            assert iid.divergence_by_generator(p, q, gamma) == truth == theory_form(q, p, gamma)


def test_range_is_zero_for_equal_laws_to_one_for_disjoint_ones():
    rng = Random(507)
    for gamma in GAMMAS:
        for _ in range(10):
            p, q = finite.random_pair(rng, 4, zeros=True)
            assert 0 <= iid.divergence(p, q, gamma) <= 1
            assert iid.divergence(p, p, gamma) == 0
        assert iid.divergence({"a": F(1)}, {"b": F(1)}, gamma) == 1


def test_post_processing_never_raises_it():
    rng = Random(508)
    for _ in range(15):
        p, q = finite.random_pair(rng, 4, zeros=True)
        channel = finite.random_kernel(rng, list(range(4)), ["x", "y", "z"])
        for gamma in GAMMAS:
            image = iid.divergence(finite.push(p, channel), finite.push(q, channel), gamma)
            assert image <= iid.divergence(p, q, gamma)
