"""L24-L3 corrected: three ways to write PMP, and which delta goes with which.

With g = e^eps and N' = |X_in(x)|:
(3) is (2): P(A in S | x in D) is (1/N') sum over sets with x, with the same delta (printed: 2/N').
(1), on the posteriors, with delta implies (2) with the same delta (printed: 2 delta, true but
loose), because (1) says no more and no less than pure PMP with e^eps' = (g + delta)/(1 - delta).
"""

from fractions import Fraction
from random import Random

from oracle import finite, mechanisms, subset

F = Fraction
GAMMAS = [F(1), F(5, 4), F(2), F(4)]


def games():
    rng = Random(3)
    for i in range(14):
        size = rng.choice([2, 4])
        yield (
            mechanisms.random_mechanism(rng, size, size // 2, rng.randint(2, 4), zeros=i % 2),
            size,
        )
    for truth in (F(3, 5), F(9, 10)):
        yield mechanisms.randomised_response(truth), 2


# --- (2) against (3): the normalisation ----------------------------------------------------------


def one_over_count(total, count):
    return total / count


def two_over_count(total, count):
    return 2 * total / count


def normalisation_violations(mean):
    """Events whose conditional probability (by Bayes' rule) is not the stated mean."""
    bad = []
    for kernel, size in games():
        table = subset.tabulate(kernel, size, size // 2)
        points = sorted({a for law in table.values() for a in law}, key=repr)
        for x in range(size):
            inside = [law for d, law in table.items() if x in d]
            for event in finite.events(points):
                joint = sum(finite.mass(law, event) for law in inside) / len(table)
                conditional = joint / F(1, 2)  # P(x in D) = 1/2
                if mean(sum(finite.mass(law, event) for law in inside), len(inside)) != conditional:
                    bad.append((size, x, event))
    return bad


def test_conditional_probability_is_the_plain_mean():
    assert normalisation_violations(one_over_count) == []


def test_printed_factor_two_is_caught():
    assert normalisation_violations(two_over_count)


# --- (1) against (2): the posterior form ---------------------------------------------------------


def posterior_delta(p_in, p_out, g):
    """Least delta of (1) over all events of positive probability, both inequalities."""
    worst = F(0)
    for event in finite.events(finite.outcomes(p_in, p_out)):
        a, b = finite.mass(p_in, event), finite.mass(p_out, event)
        if a + b:
            worst = max(worst, (a - g * b) / (a + b), (b - g * a) / (a + b))
    return worst


def same_delta(delta):
    return delta


def slightly_less(delta):
    return F(19, 20) * delta


def violations(factor):
    """Pairs where (1) with delta holds but (2) with factor(delta) does not."""
    bad = []
    for kernel, size in games():
        for x in range(size):
            pair = subset.world_laws(kernel, size, size // 2, x)
            for g in GAMMAS:
                if finite.delta(*pair, g) > factor(posterior_delta(*pair, g)):
                    bad.append((size, x, g))
    return bad


def test_posterior_form_implies_pmp_with_the_same_delta():
    assert violations(same_delta) == []


def test_less_than_the_same_delta_is_caught():
    assert violations(slightly_less)


def test_reached_by_randomised_response():
    for g, truth in ((F(1), F(3, 5)), (F(2), F(9, 10))):
        pair = subset.world_laws(mechanisms.randomised_response(truth), 2, 1, 0)
        assert finite.delta(*pair, g) == posterior_delta(*pair, g) > 0


def test_posterior_form_is_pure_pmp_with_another_epsilon():
    for kernel, size in games():
        for x in range(size):
            pair = subset.world_laws(kernel, size, size // 2, x)
            ratio = finite.max_ratio(*pair)
            for g in GAMMAS:
                delta = posterior_delta(*pair, g)
                if ratio is None:
                    assert delta == 1
                elif delta:
                    assert (g + delta) / (1 - delta) == ratio
                else:
                    assert ratio <= g  # delta = 0: (1) and (2) say the same


def test_no_converse():
    # a leak of mass 1/100 is (0, 1/100)-PMP while its posterior form needs delta = 1
    pair = mechanisms.extremal_pair(F(1), F(1, 100))
    assert finite.delta(*pair, F(1)) == F(1, 100)
    assert posterior_delta(*pair, F(1)) == 1
