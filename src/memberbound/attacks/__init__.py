"""Attacks: what they reach, with intervals that hold at any sample size.

The proofs are in proofs/audit-intervals.md and proofs/audit-subset-game.md.  An audit says what one
attack reached: it is never a guarantee against another.
"""
