"""Search over coarsenings: refine, column by column, what tells most for its price.

The search starts from the table with every column dropped, which is safe, and refines.  It looks
only at the fitting rows; nothing it finds is certified here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from memberbound.hardening.bench import Bench, Codes, Score, State, Vector

__all__ = ["Archive", "explore", "extend"]

#: A refinement must add this many nats to count as an improvement.
_STEP = 1e-4
#: Shuffled targets from which the cost of a prediction is read off.
_SHUFFLES = 4
#: Rounds without improvement before the search ends.
_PATIENCE = 2


@dataclass
class Archive:
    """Every coarsening that was looked at, with its estimates and the one it was refined from."""

    bench: Bench
    scores: dict[State, Score] = field(default_factory=dict)
    _from: dict[State, State] = field(default_factory=dict)
    _said: dict[State, Vector | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start = self.bench.start
        self.scores[start], _ = self.bench.score(start, self.bench.groups(start))

    def visit(self, child: State, parent: State, groups: Codes | None = None) -> Score:
        """Return the estimates of a state, computing them once, by way of ``parent``."""
        if child not in self.scores:
            made = self.bench.groups(child) if groups is None else groups
            score, _ = self.bench.score(child, made, self.prediction(parent))
            self.scores[child], self._from[child] = score, parent
        return self.scores[child]

    def prediction(self, state: State) -> Vector | None:
        """Return the row-by-row prediction of a visited state, made again along its way."""
        if state not in self._said:
            above = self._from.get(state)
            prior = None if above is None else self.prediction(above)
            self._said[state] = self.bench.score(state, self.bench.groups(state), prior)[1]
        return self._said[state]

    def forget(self, but: Iterable[State]) -> None:
        """Drop the predictions of all states but these: only the beam needs them."""
        kept = set(but)
        self._said = {state: said for state, said in self._said.items() if state in kept}

    def ranked(self, accept: Callable[[Score], bool]) -> list[State]:
        """Return the acceptable states, most informative first, ties by order."""
        good = [
            (-score.information, state) for state, score in self.scores.items() if accept(score)
        ]
        return [state for _, state in sorted(good)]

    def front(self) -> list[State]:
        """Return the states that no other one beats in both information and security."""
        best: list[State] = []
        order = sorted(self.scores.items(), key=lambda item: (item[1].leak, -item[1].information))
        for state, score in order:
            if not best or score.information > self.scores[best[-1]].information:
                best.append(state)
        return best

    def information(self, states: Iterable[State], seed: int = 0) -> dict[State, float]:
        """Return the information of some states in nats, without what guessing shares costs.

        That cost is what the same predictions lose for shuffled targets.
        """
        wanted = list(states)
        if self.bench.target is None:
            return {state: self.scores[state].information for state in wanted}
        rng = np.random.default_rng(seed)
        lost = np.zeros((_SHUFFLES, len(wanted)))
        for row in lost:
            twin = Archive(self.bench.shuffled(rng.permutation(self.bench.size)))
            twin._from = self._from
            for place, state in enumerate(wanted):
                said = twin.prediction(state)
                assert said is not None
                row[place] = twin.bench.information(said)
        costs = np.minimum(lost.mean(axis=0), 0.0)
        return {
            state: max(0.0, self.scores[state].information - float(cost))
            for state, cost in zip(wanted, costs, strict=True)
        }


def explore(archive: Archive, accept: Callable[[Score], bool], width: int = 4) -> None:
    """Beam search from the coarsest state through acceptable states.

    Half of the beam are the most informative states, half those that gain most information per
    leak, so that neither a cheap column nor a telling one is lost early.
    """
    beam = [archive.bench.start]
    best = archive.scores[beam[0]].information
    idle = 0
    while beam and idle < _PATIENCE:
        gains: dict[State, float] = {}
        for parent in beam:
            before = archive.scores[parent]
            for child, after in _children(archive, parent):
                if accept(after):
                    price = max(after.leak - before.leak, 1e-6)
                    gain = (after.information - before.information) / price
                    gains[child] = max(gain, gains.get(child, gain))
        telling = sorted(gains, key=lambda s: (-archive.scores[s].information, s))
        cheap = sorted(gains, key=lambda s: (-gains[s], s))
        half = max(1, width // 2)
        archive.forget(beam)
        beam = list(dict.fromkeys([*telling[:half], *cheap[: width - half]]))
        top = max((archive.scores[s].information for s in beam), default=best)
        idle = 0 if top > best + _STEP else idle + 1
        best = max(best, top)


def extend(archive: Archive, state: State) -> None:
    """Follow the best gain beyond the limit, to draw the rest of the frontier."""
    here = archive.scores[state]
    while here.leak < 1:
        options = []
        for child, after in _children(archive, state):
            if after.information > here.information + _STEP:
                price = max(after.leak - here.leak, 1e-6)
                options.append(((here.information - after.information) / price, child))
        if not options:
            return
        archive.forget([state])
        state = min(options)[1]
        here = archive.scores[state]


def _children(archive: Archive, parent: State) -> Iterator[tuple[State, Score]]:
    """Yield every state that refines one column or changes the pooling, with its score."""
    bench = archive.bench
    groups = bench.groups(parent)
    for index, ladder in enumerate(bench.ladders):
        for level in range(parent[index] + 1, len(ladder)):
            child = (*parent[:index], level, *parent[index + 1 :])
            known = child in archive.scores
            finer = None if known else bench.refined(groups, index, level)
            yield child, archive.visit(child, parent, finer)
    for pool in range(len(bench.pools)):
        if pool != parent[-1] and any(parent[:-1]):
            child = (*parent[:-1], pool)
            yield child, archive.visit(child, parent, groups)
