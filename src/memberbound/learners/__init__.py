"""Learners by name, and tables as examples that they can be fitted on."""
