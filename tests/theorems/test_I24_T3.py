"""I24-T3: a function of the release that does not see the data never raises eta."""

from fractions import Fraction
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_curves, finite_worlds
from oracle import finite, mechanisms, subset
from oracle.printed_examples import PostProcessed

F = Fraction


def games():
    """(kernel, N, k, channel): random channels, random deterministic maps, one bijection."""
    rng = Random(33)
    for i in range(15):
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


def same(eta):
    return eta


def slightly_less(eta):
    return F(99, 100) * eta


def violations(bound, process=subset.post_process):
    bad = []
    for kernel, size, k, channel in games():
        for x in range(size):
            image = process(kernel, size, k, channel)
            before = subset.eta_of_record(kernel, size, k, x)
            after = subset.best_accuracy_by_rules(image, size, k, x) - max(
                F(k, size), 1 - F(k, size)
            )
            if after > bound(before):
                bad.append((size, k, x, before, after))
    return bad


def test_post_processing():
    assert violations(same) == []


def test_too_small_a_bound_is_caught():
    assert violations(slightly_less)


def test_a_map_that_sees_the_data_is_caught():
    def peeking(kernel, size, k, channel):
        image = subset.post_process(kernel, size, k, channel)
        return {d: {("with data", 0 in d): F(1)} for d in image}

    assert violations(same, peeking)


def test_renaming_keeps_eta_and_forgetting_ends_it():
    rng = Random(34)
    kernel = mechanisms.random_mechanism(rng, 4, 2, 3)
    renamed = subset.post_process(kernel, 4, 2, {a: {a + 10: F(1)} for a in range(3)})
    silent = subset.post_process(kernel, 4, 2, {a: {0: F(1)} for a in range(3)})
    assert subset.eta(renamed, 4, 2) == subset.eta(kernel, 4, 2) > 0
    assert subset.eta(silent, 4, 2) == 0


# The package


def package_violations(process):
    """Records whose η grows, in fractions; and whose curve does, in doubles."""
    bad = []
    for kernel, size, k, channel in games():
        game = SubsetGame(size, k)
        image = process(kernel, channel)
        before, after = finite_worlds(kernel.__getitem__, game), finite_worlds(image, game)
        curves = finite_curves(kernel.__getitem__, game), finite_curves(image, game)
        for x in range(size):
            grew = after.eta(x) > before.eta(x)
            if grew or not curves[0][x].dominates(curves[1][x]):
                bad.append((size, k, x))
    return bad


def processed(kernel, channel):
    return PostProcessed(kernel.__getitem__, channel.__getitem__)


def test_package_post_processing_never_helps():
    assert package_violations(processed) == []


def test_package_catches_a_map_that_sees_the_data():
    assert package_violations(lambda kernel, channel: lambda d: {min(d): F(1)})


def test_package_post_processing_is_the_oracles():
    for kernel, size, k, channel in games():
        image = subset.post_process(kernel, size, k, channel)
        bounds = finite_bounds(processed(kernel, channel), SubsetGame(size, k))
        for d in subset.subsets(size, k):
            assert processed(kernel, channel)(d) == image[d]
        for x in range(size):
            assert F(bounds.eta[x]) >= subset.eta_of_record(image, size, k, x)
