"""The subset game: what a release tells about the records of a known population (L24, I24)."""
