"""Releases with as little noise as can be proved enough: of statistics, of models, of all rows.

``randomness`` supplies the bits and ``noise`` the laws; ``calibration`` finds the least noise
whose certificate passes.  In the subset game ``refitting`` and ``statistics`` say how
far a record moves a release; in the neighbour game ``budget`` pays for ``preprocessing`` and
``gradient``.
"""
