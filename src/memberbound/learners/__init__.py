"""Learners by name, and tables encoded as examples for them."""
