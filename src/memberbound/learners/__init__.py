"""Learners by name, and tables as examples that they can be fitted on."""

from memberbound.learners.examples import Examples, examples_of, read_examples
from memberbound.learners.naming import LEARNERS, learner_from_name
from memberbound.learners.new_rows import encoded_rows, raw_rows

__all__ = [
    "LEARNERS",
    "Examples",
    "encoded_rows",
    "examples_of",
    "learner_from_name",
    "raw_rows",
    "read_examples",
]
