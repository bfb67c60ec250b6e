"""Answers and certificates that promise more than was computed, which ``verify`` must reject."""

import copy
import json
import random

from memberbound.release.derivation import SEAL, seal


def paths(value, here=()):
    """Yield the path and value of every leaf of a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*here, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*here, index))
    else:
        yield here, value


def change(document, path, value):
    """Return a copy with another value at a path, sealed again if it has a seal."""
    other = copy.deepcopy(document)
    parent = other
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    if SEAL in other and path != (SEAL,):
        other[SEAL] = seal(other)
    return other


def stronger(path, value, draws):
    """Return a value that promises more, or None if the leaf promises nothing."""
    name = next((key for key in reversed(path) if isinstance(key, str)), "")
    factor = draws.choice([0.0, 0.5, 0.9, 0.999, 1 - 1e-6])
    if isinstance(value, float) and (name.endswith("upper") or path[-2:-1] == ("record_leak",)):
        return value * factor
    if isinstance(value, float) and name in ("security_lower", "confidence"):
        return value + (1 - value) * (1 - factor)
    if name in ("n_required", "exposed_rows") and value:
        return value - 1
    if name in ("sentence", "statement"):
        digits = [k for k, mark in enumerate(value) if mark.isdigit()]
        at = draws.choice(digits)
        return value[:at] + str((int(value[at]) + draws.randrange(1, 10)) % 10) + value[at + 1 :]
    if name in ("game", "protects", "quantity", "method"):
        return f"{value}~"
    return None


def mutate(document, count, seed=0, apart=()):
    """Yield (path, a document that must be rejected); leave out paths that contain ``apart``."""
    draws = random.Random(seed)
    leaves = [
        (path, value)
        for path, value in paths(document)
        if not set(apart) & set(path) and stronger(path, value, random.Random(0)) is not None
    ]
    assert leaves
    made = 0
    while made < count:
        path, value = draws.choice(leaves)
        if (new := stronger(path, value, draws)) != value:
            made += 1
            yield path, change(document, path, new)


def write(document, folder, name="answer.json"):
    """Write a document; return its path."""
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
