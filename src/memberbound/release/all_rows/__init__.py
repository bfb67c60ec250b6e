"""Releases of all rows of a secret table that hide every record: the neighbour game (X22)."""
