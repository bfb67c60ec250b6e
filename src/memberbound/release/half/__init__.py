"""Releases computed from a secret half of a public table: the papers' game (X1, X20, X21, I24)."""
