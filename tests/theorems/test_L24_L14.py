"""L24-L14: post-processing keeps (eps, delta)-PMP, deterministic or random maps, any k."""

from fractions import Fraction
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_curves, finite_worlds
from oracle import finite, mechanisms, subset
from oracle.printed_examples import PostProcessed

F = Fraction
GAMMAS = [F(1), F(3, 2), F(4)]


def games():
    rng = Random(14)
    for i in range(14):
        size = rng.randint(2, 5)
        k = rng.randint(1, size - 1)
        count = rng.randint(2, 4)
        kernel = mechanisms.random_mechanism(rng, size, k, count)
        points = list(range(count))
        if i % 3 == 0:
            channel = finite.random_kernel(rng, points, ["a", "b", "c"])
        elif i % 3 == 1:
            channel = {a: {rng.choice("ab"): F(1)} for a in points}
        else:
            channel = {a: {("renamed", a): F(1)} for a in points}
        yield kernel, size, k, channel


def same(delta):
    return delta


def halved(delta):
    """The delta/2 that the printed proof passes through."""
    return delta / 2


def violations(bound):
    bad = []
    for kernel, size, k, channel in games():
        image = subset.post_process(kernel, size, k, channel)
        for x in range(size):
            before = subset.world_laws(kernel, size, k, x)
            after = subset.world_laws(image, size, k, x)
            for g in GAMMAS:
                excess = max(
                    finite.hockey_stick_by_events(*after, g),
                    finite.hockey_stick_by_events(*after[::-1], g),
                )
                if excess > bound(finite.delta(*before, g)):
                    bad.append((size, k, x, g))
    return bad


def test_post_processing():
    assert violations(same) == []


def test_half_of_delta_is_caught():
    assert violations(halved)


def test_renaming_keeps_it_and_forgetting_ends_it():
    kernel = mechanisms.random_mechanism(Random(15), 4, 2, 3)
    renamed = subset.post_process(kernel, 4, 2, {a: {-a: F(1)} for a in range(3)})
    silent = subset.post_process(kernel, 4, 2, {a: {0: F(1)} for a in range(3)})
    for g in GAMMAS:
        assert subset.pmp_delta(renamed, 4, 2, g) == subset.pmp_delta(kernel, 4, 2, g)
        assert subset.pmp_delta(silent, 4, 2, g) == 0


def test_pure_pmp_ratio_never_grows():
    rng = Random(16)
    for _ in range(6):
        kernel = mechanisms.random_mechanism(rng, 4, 2, 3, zeros=False)
        channel = finite.random_kernel(rng, [0, 1, 2], ["a", "b"], zeros=False)
        image = subset.post_process(kernel, 4, 2, channel)
        assert subset.pmp_ratio(image, 4, 2) <= subset.pmp_ratio(kernel, 4, 2)


# The package


def package_violations(process, delta=0.02):
    """Records whose least δ grows, in fractions, or whose ε at ``delta`` does, in doubles."""
    bad = []
    for kernel, size, k, channel in games():
        game = SubsetGame(size, k)
        image = process(kernel, channel)
        before, after = finite_worlds(kernel.__getitem__, game), finite_worlds(image, game)
        first = finite_bounds(kernel.__getitem__, game, delta=delta).pmp_epsilon
        second = finite_bounds(image, game, delta=delta).pmp_epsilon
        curves = finite_curves(kernel.__getitem__, game), finite_curves(image, game)
        for x in range(size):
            grew = any(after.delta(x, g) > before.delta(x, g) for g in GAMMAS)
            if (
                grew
                or second[x] > first[x] * (1 + 1e-9) + 1e-12
                or not curves[0][x].dominates(curves[1][x])
            ):
                bad.append((size, k, x))
    return bad


def processed(kernel, channel):
    return PostProcessed(kernel.__getitem__, channel.__getitem__)


def test_package_post_processing_never_helps():
    assert package_violations(processed) == []


def test_package_catches_a_map_that_sees_the_data():
    assert package_violations(lambda kernel, channel: lambda d: {min(d): F(1)})
