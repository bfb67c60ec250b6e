"""I24-P2: the best attack guesses the likelier world; its accuracy is the mean larger posterior.

Truth: definition I24-D1 with every decision rule played against every subset, for any k.
"""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_worlds
from oracle import finite, mechanisms, subset
from oracle.claims import assert_exact

F = Fraction


def mean_larger_posterior(kernel, size, k, x):
    total = F(0)
    p_in, p_out = subset.world_laws(kernel, size, k, x)
    pi = F(k, size)
    for a in finite.outcomes(p_in, p_out):
        chance = pi * p_in.get(a, F(0)) + (1 - pi) * p_out.get(a, F(0))
        posterior = pi * p_in.get(a, F(0)) / chance
        total += chance * max(posterior, 1 - posterior)
    return total


def even_odds_assumed(kernel, size, k, x):
    """The k = N/2 expression used for every k."""
    return F(1, 2) + finite.total_variation(*subset.world_laws(kernel, size, k, x)) / 2


def games():
    yield from mechanisms.random_games(22, 12)
    yield mechanisms.sum_mod(4), 4, 2
    yield mechanisms.release_one_record(F(1, 3)), 4, 2


def test_accuracy_of_the_best_attack():
    assert_exact(
        mean_larger_posterior,
        (
            ((*game, x), subset.best_accuracy_by_rules(*game, x))
            for game in games()
            for x in range(game[1])
        ),
        broken={
            "even odds": even_odds_assumed,
            "mean posterior of in": lambda kernel, size, k, x: F(k, size),
        },
    )


def test_at_half_eta_is_half_the_total_variation():
    for kernel, size, k in games():
        if 2 * k == size:
            for x in range(size):
                tv = finite.total_variation(*subset.world_laws(kernel, size, k, x))
                assert subset.eta_of_record(kernel, size, k, x) == tv / 2


def as_mechanism(kernel):
    """A kernel of the oracle, a mapping or a function, as a mechanism of the package."""
    return kernel if callable(kernel) else kernel.__getitem__


def test_the_code_finds_the_best_attack():
    """``finite_bounds``, ``Worlds.success`` and the curve's accuracy, at the prior k/N."""

    def success(kernel, size, k, x):
        return finite_worlds(as_mechanism(kernel), SubsetGame(size, k)).success(x)

    truth = [
        ((*game, x), subset.best_accuracy_by_rules(*game, x))
        for game in games()
        for x in range(game[1])
    ]
    assert_exact(success, truth, broken={"even odds": even_odds_assumed})
    for (kernel, size, k, x), best in truth:
        bounds = finite_bounds(as_mechanism(kernel), SubsetGame(size, k))
        assert best <= F(bounds.success[x]) <= best + F(1, 10**12)
        curve = finite_worlds(as_mechanism(kernel), SubsetGame(size, k)).curve(x)
        assert best - F(1, 10**12) <= F(curve.accuracy(k / size)) <= best + F(1, 10**12)
