"""Releases with certified noise: statistics, models and tables of secret rows.

``randomness`` supplies random bits and ``noise`` the distributions.  In the neighbour game
(``all_rows``) every noisy sum is charged to a ``budget``; in the subset game (``half``) noise is
calibrated to the change of a release when one record is replaced.
"""
