"""The subset game: leakage of a release about the records of a known population (L24, I24)."""
