"""Pairing the sets without a record with neighbouring sets that hold it (I24-L12).

The paper proves by Hall's theorem that the pairing exists.  Here it is explicit: leave the record
out, read a set as a row of brackets, and replace the member behind the last closing bracket that
has no partner.  These are the steps of a symmetric chain decomposition of the subsets of N-1
records (Greene and Kleitman), so no two sets meet.
"""

from __future__ import annotations

from memberbound.errors import InputError
from memberbound.games import SubsetGame

__all__ = ["matched_neighbour"]


def matched_neighbour(members: frozenset[int], record: int, game: SubsetGame) -> frozenset[int]:
    """Return the set with ``record`` that is paired with a set without it.

    Guarantee: the two differ by one replacement, and different sets get different partners; at
    k = N/2 every set with the record is somebody's partner.
    Theorem: I24-L12.  Assumes k ≥ N/2: below that there are fewer sets with the record than
    without.
    Edge cases: k < N/2, a set of another size, or one that holds the record, are refused.

    Examples:
        >>> sorted(matched_neighbour(frozenset({1, 2}), 0, SubsetGame(4, 2)))
        [0, 1]
    """
    if 2 * game.size < game.population:
        raise InputError(
            f"size must be at least half of the population of {game.population}, "
            f"got {game.size!r}. Fewer sets hold the record than do not."
        )
    everyone = range(game.population)
    if record not in everyone:
        raise InputError(f"record must be in 0, …, {game.population - 1}, got {record!r}.")
    if len(members) != game.size or record in members or not members <= set(everyone):
        raise InputError(
            f"members must be {game.size} records other than {record}, got {sorted(members)!r}."
        )
    open_brackets = 0
    replaced = None
    for other in everyone:
        if other == record:
            continue
        if other not in members:
            open_brackets += 1
        elif open_brackets:
            open_brackets -= 1
        else:
            replaced = other  # a closing bracket without a partner; the last one counts
    # More members than others (k > N-1-k): at least one bracket has no partner.
    assert replaced is not None
    return members - {replaced} | {record}
