"""Coarser tables: what is kept, what is certified, and the search between the two."""
