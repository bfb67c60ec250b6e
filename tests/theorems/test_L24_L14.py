"""L24-L14: post-processing keeps (eps, delta)-PMP, deterministic or random maps, any k."""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_worlds
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_holds

F = Fraction
GAMMAS = [F(1), F(3, 2), F(4)]


def games():
    return mechanisms.processed_games(14, 14)


def deltas():
    """((delta before,), delta after) of every record, the latter by all events."""
    for kernel, size, k, channel in games():
        image = subset.post_process(kernel, size, k, channel)
        for x in range(size):
            before = subset.world_laws(kernel, size, k, x)
            p, q = subset.world_laws(image, size, k, x)
            for g in GAMMAS:
                sticks = (
                    finite.hockey_stick_by_events(p, q, g),
                    finite.hockey_stick_by_events(q, p, g),
                )
                yield (finite.delta(*before, g),), max(sticks)


def test_post_processing():
    # The printed proof passes through delta/2.
    assert_bound(lambda delta: delta, deltas(), broken={"halved": lambda delta: delta / 2})


# The package


def no_more(kernel, size, k, image, delta=0.02):
    """Return whether no least δ grows, in fractions, nor ε at ``delta`` or a curve, in doubles."""
    game = SubsetGame(size, k)
    before, after = finite_worlds(kernel.__getitem__, game), finite_worlds(image, game)
    first = finite_bounds(kernel.__getitem__, game, delta=delta).pmp_epsilon
    second = finite_bounds(image, game, delta=delta).pmp_epsilon
    curves = [(before.curve(x), after.curve(x)) for x in range(size)]
    return (
        all(after.delta(x, g) <= before.delta(x, g) for x in range(size) for g in GAMMAS)
        and bool((second <= first * (1 + 1e-9) + 1e-12).all())
        and all(one.dominates(other) for one, other in curves)
    )


def test_package_post_processing_never_helps():
    assert_holds(
        no_more,
        [
            (kernel, size, k, subset.post_process(kernel, size, k, channel).__getitem__)
            for kernel, size, k, channel in games()
        ],
        broken={"sees the data": lambda *game: no_more(*game[:3], lambda d: {min(d): F(1)})},
    )
