"""L24-L3 corrected: three ways to write PMP, and which delta goes with which.

With g = e^eps and N' = |X_in(x)|:
(3) is (2): P(A in S | x in D) is (1/N') sum over sets with x, with the same delta (printed: 2/N').
(1), on the posteriors, with delta implies (2) with the same delta (printed: 2 delta, true but
loose), because (1) is equivalent to pure PMP with e^eps' = (g + delta)/(1 - delta).
"""

from fractions import Fraction
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_worlds
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_exact

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


def conditional_probabilities():
    """((sum over sets with x, their number), P(event | x in D) by Bayes' rule)."""
    for kernel, size in games():
        table = subset.tabulate(kernel, size, size // 2)
        points = sorted({a for law in table.values() for a in law}, key=repr)
        for x in range(size):
            inside = [law for d, law in table.items() if x in d]
            for event in finite.events(points):
                total = sum(finite.mass(law, event) for law in inside)
                yield (total, len(inside)), total / len(table) / F(1, 2)  # P(x in D) = 1/2


def test_conditional_probability_is_the_plain_mean():
    assert_exact(
        lambda total, count: total / count,
        conditional_probabilities(),
        broken={"printed": lambda total, count: 2 * total / count},
    )


# --- (1) against (2): the posterior form ---------------------------------------------------------


def posterior_delta(p_in, p_out, g):
    """Least delta of (1) over all events of positive probability, both inequalities."""
    worst = F(0)
    for event in finite.events(finite.outcomes(p_in, p_out)):
        a, b = finite.mass(p_in, event), finite.mass(p_out, event)
        if a + b:
            worst = max(worst, (a - g * b) / (a + b), (b - g * a) / (a + b))
    return worst


def test_posterior_form_implies_pmp_with_the_same_delta():
    pairs = [
        subset.world_laws(kernel, size, size // 2, x)
        for kernel, size in games()
        for x in range(size)
    ]
    assert_bound(
        lambda delta: delta,
        (((posterior_delta(*pair, g),), finite.delta(*pair, g)) for pair in pairs for g in GAMMAS),
        broken={"less": lambda delta: F(19, 20) * delta},
    )


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
                    assert ratio <= g  # delta = 0: (1) and (2) agree


def test_the_code_takes_the_plain_mean():
    """``finite_worlds`` and ``Worlds.delta`` against Bayes' rule and both hockey-sticks."""
    for kernel, size in games():
        table = subset.tabulate(kernel, size, size // 2)
        worlds = finite_worlds(table.__getitem__, SubsetGame(size, size // 2))
        for x in range(size):
            p_in, p_out = subset.world_laws(kernel, size, size // 2, x)
            for index, a in enumerate(worlds.outcomes):
                joint = sum((law.get(a, F(0)) for d, law in table.items() if x in d), F(0))
                assert worlds.inside[x][index] == joint / len(table) / F(1, 2)
            for g in GAMMAS:
                assert worlds.delta(x, g) == finite.delta(p_in, p_out, g)
