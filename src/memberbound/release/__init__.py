"""Releases with certified noise: statistics, models and tables of secret rows.

``randomness`` supplies the bits and ``noise`` the distributions.  In the neighbour game
(``all_rows``) every noisy sum draws on a ``budget``; in the subset game (``half``) the noise is
calibrated to how far one record moves a release.
"""
