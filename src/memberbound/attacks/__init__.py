"""Membership inference attacks, measured with intervals valid at any sample size.

The proofs are in proofs/audit-intervals.md and proofs/audit-subset-game.md.  An audit measures
particular attacks; it never guarantees anything against others.
"""
