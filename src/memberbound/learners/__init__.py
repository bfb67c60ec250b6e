"""Learners by name, and tables as examples that they can be fitted on."""

from memberbound.learners.examples import (
    Examples,
    encoded_rows,
    examples_of,
    raw_rows,
    read_examples,
)
from memberbound.learners.naming import LEARNERS, learner_from_name, network_factory, takes_sizes

__all__ = [
    "LEARNERS",
    "Examples",
    "encoded_rows",
    "examples_of",
    "learner_from_name",
    "network_factory",
    "raw_rows",
    "read_examples",
    "takes_sizes",
]
