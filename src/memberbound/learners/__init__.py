"""Learners by name, and tables as examples that they can be fitted on."""

from memberbound.learners.examples import (
    LEARNERS,
    Examples,
    encoded_rows,
    examples_of,
    learner_from_name,
    named_rows,
    network_factory,
    raw_records,
    read_examples,
    takes_sizes,
)

__all__ = [
    "LEARNERS",
    "Examples",
    "encoded_rows",
    "examples_of",
    "learner_from_name",
    "named_rows",
    "network_factory",
    "raw_records",
    "read_examples",
    "takes_sizes",
]
