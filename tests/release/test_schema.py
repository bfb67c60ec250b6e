"""Our reader of JSON Schema agrees with ``jsonschema`` on certificates, broken ones included."""

import copy
import json
import random

import jsonschema
import pytest

from memberbound.release.schema import record_schema, violation
from oracle import releases

VALUES = [None, True, 0, -1, 0.5, 1.5, 1e300, "", "x", [], {}, [1], {"x": 1}, "0" * 64]


def paths(value, path=()):
    """Yield the paths of everything in a document."""
    yield path
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, key))


def damage(document, draws):
    """Return a document in which one value was dropped, replaced or added."""
    other = copy.deepcopy(document)
    path = draws.choice([p for p in paths(document) if p])
    parent = other
    for key in path[:-1]:
        parent = parent[key]
    what = draws.choice(["drop", "replace", "add"])
    if what == "drop":
        del parent[path[-1]]
    elif what == "replace":
        parent[path[-1]] = draws.choice(VALUES)
    elif isinstance(parent, dict):
        parent["another"] = draws.choice(VALUES)
    else:
        parent.append(draws.choice(VALUES))
    return other


@pytest.mark.parametrize("name", ["model", "numbers of persons"])
def test_broken_certificates_are_told_apart_as_by_jsonschema(name, tmp_path):
    file = releases.make(name, tmp_path)
    certificate = json.loads((tmp_path / f"{file.name}.certificate.json").read_text())
    assert violation(certificate, record_schema()) == ""
    reader = jsonschema.Draft202012Validator(record_schema())
    draws, refused = random.Random(0), 0
    for _ in range(600):
        other = damage(certificate, draws)
        assert bool(violation(other, record_schema())) == (not reader.is_valid(other)), other
        refused += not reader.is_valid(other)
    assert 200 < refused < 600
