"""I24-T8 corrected: eta-MIP gives TPR <= FPR + 2 eta; the printed FPR + eta is false."""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_worlds
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound

F = Fraction
RATES = [F(0), F(1, 100), F(1, 4), F(1, 2), F(9, 10)]


def rates():
    games = [(kernel, size) for kernel, size, _ in mechanisms.random_games(88, 10, (2, 4))]
    games += [(mechanisms.randomised_response(t), 2) for t in (F(1, 2), F(3, 5), F(9, 10))]
    for kernel, size in games:
        eta = subset.eta(kernel, size, size // 2)
        for x in range(size):
            pair = subset.world_laws(kernel, size, size // 2, x)
            yield from (((fpr, eta), finite.tpr_at_fpr(*pair, fpr)) for fpr in RATES)


def test_corrected_bound():
    assert_bound(
        lambda fpr, eta: fpr + 2 * eta, rates(), broken={"printed": lambda fpr, eta: fpr + eta}
    )


def test_reached_by_randomised_response():
    for truth in (F(3, 5), F(9, 10)):
        rr = mechanisms.randomised_response(truth)
        fpr = 1 - truth
        pair = subset.world_laws(rr, 2, 1, 0)
        assert finite.tpr_at_fpr(*pair, fpr) == fpr + 2 * subset.eta(rr, 2, 1)


def test_the_curves_of_the_code_keep_it():
    """``tpr`` of every record's curve is at most FPR + 2 eta, with the eta of the code."""
    games = [(kernel, size) for kernel, size, _ in mechanisms.random_games(88, 10, (2, 4))]
    games += [(mechanisms.randomised_response(t), 2) for t in (F(3, 5), F(9, 10))]
    slack, printed = F(1, 10**12), 0
    for kernel, size in games:
        release = kernel if callable(kernel) else kernel.__getitem__
        worlds = finite_worlds(release, SubsetGame(size, size // 2))
        eta = max(worlds.eta(x) for x in range(size))
        for x in range(size):
            pair = subset.world_laws(kernel, size, size // 2, x)
            for fpr in (0.0, 0.25, 0.5, 0.875):
                tpr = F(worlds.curve(x).tpr(fpr))
                assert finite.tpr_at_fpr(*pair, F(fpr)) <= tpr <= F(fpr) + 2 * eta + slack
                printed += tpr > F(fpr) + eta + slack
    assert printed > 0
