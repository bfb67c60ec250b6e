"""A25-P5: D_alpha is an f-divergence in [0, 1], and eq. 7 averages it over records.

Truth: the supremum over all 2^m events, on the joint law.
"""

from fractions import Fraction
from random import Random

from oracle import finite, iid, mechanisms

F = Fraction
GAMMAS = [F(1, 4), F(2, 3), F(1), F(5, 4), F(3)]


def plus(x):
    return max(F(0), x)


def theory_form(p_in, p_out, gamma):
    """max(1,g) [ (1/g) max(TPR - g FPR) + 1 - 1/g - (1 - 1/g)_+ ], from the ROC corners."""
    stick = max(y - gamma * x for x, y in finite.roc_vertices(p_in, p_out))
    return max(F(1), gamma) * (stick / gamma + 1 - 1 / gamma - plus(1 - 1 / gamma))


def worlds_exchanged(p_in, p_out, gamma):
    return theory_form(p_out, p_in, gamma)


def without_positive_part(p_in, p_out, gamma):
    stick = max(y - gamma * x for x, y in finite.roc_vertices(p_in, p_out))
    return max(F(1), gamma) * (stick / gamma + 1 - 1 / gamma)


def iid_games():
    rng = Random(505)
    for i in range(14):
        atoms, n = rng.choice([(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
        p = mechanisms.random_iid_law(rng, atoms)
        make = mechanisms.random_release if i % 2 else mechanisms.random_merge
        yield p, n, make(rng, n, atoms, 2)


def violations(divergence):
    """Games where the record average of ``divergence`` is not the supremum over all attacks."""
    bad = []
    for p, n, release in iid_games():
        pair = iid.joint_laws(p, n, release)
        for gamma in GAMMAS:
            mean = sum(
                pz * divergence(ins, out, gamma) for pz, ins, out in iid.conditionals(p, pair)
            )
            truth = iid.divergence(pair[1], pair[0], gamma, by_events=True)
            if mean != truth:
                bad.append((p, n, gamma, mean, truth))
    return bad


def test_eq7_equals_the_supremum_over_attacks():
    assert violations(theory_form) == []


def test_exchanged_worlds_are_caught():
    assert violations(worlds_exchanged)


def test_missing_positive_part_is_caught():
    assert violations(without_positive_part)


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
