"""Certificates that claim more than the release proves, which a verifier must reject.

Each mutation makes a promise stronger, noise larger, a sensitivity or a slack smaller, drops a
part, or changes a hash or a sentence.  Unless it changes a hash, recompute the certificate's own
hash, as a forger would.
"""

import copy
import random

from memberbound.release.derivation import SEAL, seal

#: Numbers that are bounds from above, by path; the others are from below.
UPPER = [
    ("certificate", "upper"),
    ("curve", "eta_upper"),
    ("curve", "replace_one", "advantage_upper"),
    ("curve", "replace_one", "accuracy_upper"),
    ("curve", "replace_one", "epsilon_upper"),
    ("curve", "replace_one", "tpr_upper", "0.1"),
    ("curve", "replace_one", "tpr_upper", "0.01"),
    ("curve", "replace_one", "tpr_upper", "0.001"),
    ("groups", 0, "eta_upper"),
    ("groups", 1, "eta_upper"),
    ("groups", 2, "accuracy_upper"),
    ("groups", 0, "accuracy_upper"),
    ("curve", "mu_upper"),
]
#: … and those that only a normal pair has.
SUMMED_UP = [("curve", "mu_regret_upper"), ("mu",), ("derivation", "mu")]
HASHES = [("sha256",), (SEAL,)]
TEXTS = [
    ("statement",),
    ("groups", 0, "statement"),
    ("groups", 2, "statement"),
    ("certificate", "game"),
    ("certificate", "protects"),
    ("certificate", "quantity"),
    ("derivation", "adjacency"),
    ("derivation", "format"),
    ("derivation", "game"),
    ("record",),
]


def at(certificate, path):
    """Return the container of the last key of a path."""
    for key in path[:-1]:
        certificate = certificate[key]
    return certificate


def _shrink(certificate, path, draws):
    parent = at(certificate, path)
    value = parent[path[-1]]
    factor = draws.choice([0.0, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9])
    parent[path[-1]] = value * factor
    return factor


def _smaller_bound(certificate, draws):
    paths = UPPER if certificate["mu"] is None else UPPER + SUMMED_UP
    path = draws.choice(paths)
    _shrink(certificate, path, draws)
    return "/".join(map(str, path))


def _larger_lower_bound(certificate, draws):
    curve = certificate["curve"]
    curve["security_lower"] = 1 - (1 - curve["security_lower"]) * draws.choice([0.0, 0.5, 0.999])
    return "security_lower"


def _noisy(certificate):
    record = certificate["derivation"]
    return [part for part in record["measurements"] if part["vectors"]] + record["sampled"]


def _larger_scale(certificate, draws):
    part = draws.choice(_noisy(certificate))
    part["noise_scale"] *= draws.choice([1 + 1e-9, 1.001, 1.1, 2.0, 100.0])
    return f"scale of {part['name']}"


def _smaller_sensitivity(certificate, draws):
    part = draws.choice(_noisy(certificate))
    part["sensitivity"] *= draws.choice([1e-3, 0.5, 0.9, 1 - 1e-9])
    return f"sensitivity of {part['name']}"


def _fewer(certificate, draws):
    """Fewer vectors, steps or numbers than were paid for; a smaller sampling rate."""
    part = draws.choice(_noisy(certificate))
    key = draws.choice(["sample_rate", "steps"]) if "steps" in part else "vectors"
    if key == "sample_rate":
        part[key] *= 1.5 if part[key] < 0.6 else 0.5
        certificate["curve"]["eta_upper"] *= 0.7
        certificate["certificate"]["upper"] = certificate["curve"]["eta_upper"]
    elif key == "steps":
        part[key] *= 4
    else:
        part[key] += 1
    return f"{key} of {part['name']}"


def _smaller_share(certificate, draws):
    part = draws.choice(certificate["derivation"]["measurements"])
    part[draws.choice(["mu", "budget_share"])] *= draws.choice([0.5, 0.99, 1 - 1e-6])
    return f"share of {part['name']}"


def _smaller_slack(certificate, draws):
    record = certificate["derivation"]
    parent = draws.choice([record, *record["slacks"]])
    key = "slack" if parent is record else draws.choice(["each", "amount", "count"])
    parent[key] = type(parent[key])(parent[key] * draws.choice([0.0, 0.5, 0.001]))
    return f"{key} of the slack"


def _vanished_part(certificate, draws):
    record = certificate["derivation"]
    lists = [record["measurements"], record["slacks"], record["sampled"], certificate["groups"]]
    del (kept := draws.choice([each for each in lists if each]))[draws.randrange(len(kept))]
    return "a part vanished"


def _vanished_key(certificate, draws):
    keys = ["derivation", "curve", "groups", "statement", "certificate", "sha256", "unit"]
    del certificate[key := draws.choice(keys)]
    return f"{key} vanished"


def _changed_hash(certificate, draws):
    path = draws.choice(HASHES)
    text = at(certificate, path)[path[-1]]
    index = draws.randrange(64)
    other = draws.choice([digit for digit in "0123456789abcdef" if digit != text[index]])
    at(certificate, path)[path[-1]] = text[:index] + other + text[index + 1 :]
    return path[0]


def _changed_text(certificate, draws):
    path = draws.choice(TEXTS)
    text = at(certificate, path)[path[-1]]
    numbers = [k for k, mark in enumerate(text) if mark.isdigit()]
    if numbers and draws.random() < 0.7:
        index = draws.choice(numbers)
        other = draws.choice([digit for digit in "0123456789" if digit != text[index]])
    else:
        index, other = draws.randrange(len(text)), "~"
    at(certificate, path)[path[-1]] = text[:index] + other + text[index + 1 :]
    return "/".join(map(str, path))


def _changed_promise(certificate, draws):
    """Another game, confidence, theorem, norm, or public number than the arithmetic is about."""
    record, bound = certificate["derivation"], certificate["certificate"]
    what = draws.choice(["protects", "confidence", "theorems", "norm", "public", "order", "kind"])
    if what == "protects":
        bound["protects"] = "average record"
    elif what == "confidence":
        bound["confidence"] = draws.choice([0.95, 0.999, 2.0])
    elif what == "theorems":
        index = draws.randrange(len(bound["theorems"]))
        other = draws.choice(["X99", "X1", "A25-T14"])
        bound["theorems"][index] = record["theorems"][index] = other
    elif what == "norm":
        draws.choice(_noisy(certificate))["norm"] = "l1"
    elif what == "public":
        record["public"] = draws.choice([record["public"][1:], ["all rows but one"]])
    elif what == "order":
        certificate["groups"].reverse()
    else:
        bound["kind"] = "estimate"
    return what


def _swapped_unit(certificate, draws):
    parents = [certificate, certificate["derivation"]]
    draws.choice(parents)["unit"] = "person" if certificate["unit"] is None else None
    return "unit"


_MUTATIONS = [
    _smaller_bound,
    _smaller_bound,
    _larger_lower_bound,
    _larger_scale,
    _smaller_sensitivity,
    _fewer,
    _smaller_share,
    _smaller_slack,
    _vanished_part,
    _vanished_key,
    _changed_hash,
    _changed_text,
    _changed_text,
    _swapped_unit,
    _changed_promise,
]


def mutate(certificate, count, seed=0):
    """Yield this many pairs (what was changed, a certificate that must be rejected)."""
    draws = random.Random(seed)
    made = 0
    while made < count:
        other = copy.deepcopy(certificate)
        what = draws.choice(_MUTATIONS)(other, draws)
        if other == certificate:
            continue
        if what != SEAL and other.get(SEAL) == certificate[SEAL]:
            other[SEAL] = seal(other)
        made += 1
        yield what, other
