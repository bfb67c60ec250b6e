"""I24-L12: for k >= N/2 the sets without x inject into neighbouring sets with x (Hall)."""

from itertools import combinations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from oracle import subset
from oracle.claims import assert_exact, assert_holds

SIZES = [(size, k) for size in range(2, 8) for k in range(1, size)]


def neighbours(size, k):
    """Sets without record 0 (rows) that differ by one record from sets with it (columns)."""
    listed = list(subset.subsets(size, k))
    with_x = [d for d in listed if 0 in d]
    return np.array([[len(d & e) == k - 1 for e in with_x] for d in listed if 0 not in d])


def test_every_set_has_the_stated_number_of_neighbours():
    for size, k in SIZES:
        near = neighbours(size, k)
        assert (near.sum(axis=0) == size - k).all()
        assert (near.sum(axis=1) == k).all()


def test_injection_exists_exactly_from_half_on():
    def injects(size, k):
        near = csr_array(neighbours(size, k).astype(int))
        return (maximum_bipartite_matching(near, perm_type="column") >= 0).all()

    assert_exact(
        lambda size, k: 2 * k >= size,
        (((size, k), injects(size, k)) for size, k in SIZES),
        broken={"without the condition": lambda size, k: True},
    )
    # A bijection at half, which the proof of I24-T4 needs.
    assert all(len(set(neighbours(size, size // 2).shape)) == 1 for size in (2, 4, 6))


def test_every_family_expands_by_k_over_n_minus_k():
    families = (
        (size, k, count, neighbours(size, k)[list(rows)].any(axis=0).sum())
        for size, k in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 3), (5, 4))
        for count in range(1, len(neighbours(size, k)) + 1)
        for rows in combinations(range(len(neighbours(size, k))), count)
    )
    assert_holds(
        lambda size, k, count, reached: reached * (size - k) >= k * count,
        families,
        broken={"larger": lambda size, k, count, reached: reached * (size - k) >= (k + 1) * count},
    )
