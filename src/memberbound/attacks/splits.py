"""Coins for splits of records: drawn from the seed and the records themselves."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

__all__ = ["content_generator"]


def content_generator(
    seed: int, *content: NDArray[np.generic], purpose: str = ""
) -> np.random.Generator:
    """Return a generator seeded by a SHA-256 of the seed, the purpose and the content.

    A seed alone splits every table at the same places.  In a file that is sorted, by a score or by
    anything that goes with it, the same places are the same *ranks* in every sample: one part then
    determines how many records of the other lie between any two of its own, and is no fresh sample
    for it.  With the records in the hash the places differ from table to table, whatever the order
    of the rows, and the same table and seed give the same places again.

    Guarantee: none of its own; the claims that rest on it take the hash for random
    (proofs/audit-intervals.md claim 4, proofs/given-models.md).

    Examples:
        >>> content_generator(0, np.arange(3)).random() == content_generator(0, np.ones(3)).random()
        False
    """
    digest = sha256(f"{seed}{purpose}".encode())
    for part in content:
        digest.update(part.size.to_bytes(8, "big"))
        digest.update(np.ascontiguousarray(part).data)
    return np.random.default_rng(int.from_bytes(digest.digest(), "big"))
