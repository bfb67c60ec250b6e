"""A model lacks a method when its check says so, and not when the check could not be made."""

import pytest
from sklearn.utils.metaestimators import available_if as known

from memberbound.learners.capabilities import available_if


def model(decorator, check):
    class Model:
        @decorator(check)
        def classes(self):
            """Say which."""
            return [0, 1]

    return Model()


def broken(self):
    raise MemoryError


@pytest.mark.parametrize("decorator", [available_if, known])
def test_as_scikit_learn_does(decorator):
    assert model(decorator, lambda self: True).classes() == [0, 1]
    assert not hasattr(model(decorator, lambda self: False), "classes")
    assert not hasattr(model(decorator, lambda self: self.missing), "classes")
    assert type(model(decorator, broken)).classes.__doc__ == "Say which."


def test_a_lack_of_memory_is_no_lack_of_the_method():
    with pytest.raises(MemoryError):
        hasattr(model(available_if, broken), "classes")
    assert not hasattr(model(known, broken), "classes")  # negative control
