"""I24-T3: a function of the release that does not see the data never raises eta."""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds
from oracle import mechanisms, subset
from oracle.claims import assert_bound

F = Fraction


def games():
    return mechanisms.processed_games(33, 15)


def etas(process=subset.post_process):
    """((eta before,), eta after) of every record, by all decision rules."""
    for kernel, size, k, channel in games():
        image = process(kernel, size, k, channel)
        base = max(F(k, size), 1 - F(k, size))
        for x in range(size):
            before = subset.eta_of_record(kernel, size, k, x)
            yield (before,), subset.best_accuracy_by_rules(image, size, k, x) - base


def test_post_processing():
    assert_bound(lambda eta: eta, etas(), broken={"less": lambda eta: F(99, 100) * eta})


def test_a_map_that_sees_the_data_is_caught():
    def peeking(kernel, size, k, channel):
        return {d: {("with data", 0 in d): F(1)} for d in kernel}

    assert any(after > before for (before,), after in etas(peeking))


def test_the_code_gives_the_function_no_more():
    """``finite_bounds`` of the release and of a function of it, for every record."""

    def gains(process):
        for kernel, size, k, channel in games():
            image = process(kernel, size, k, channel)
            listed = [
                finite_bounds(release if callable(release) else release.__getitem__, game)
                for game in [SubsetGame(size, k)]
                for release in (kernel, image)
            ]
            yield from zip(listed[0].eta, listed[1].eta, strict=True)

    def peeking(kernel, size, k, channel):
        return {d: {("with data", 0 in d): F(1)} for d in kernel}

    assert all(after <= before + 1e-12 for before, after in gains(subset.post_process))
    assert any(before > 0.01 for before, _ in gains(subset.post_process))
    assert any(after > before + 1e-3 for before, after in gains(peeking))
