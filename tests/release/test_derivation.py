"""The derivation record matches the drawn noise, and reveals nothing else about the table."""

import hashlib
import json
import math
from fractions import Fraction
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import pytest

from memberbound import GaussianCurve, summarize, synthesize
from memberbound.release import budget as budgets
from memberbound.release.all_rows.private_columns import FirstCells
from memberbound.release.budget import Budget, Slack
from memberbound.release.derivation import SEAL, canonical_json, seal
from memberbound.release.saving import load, save
from oracle import releases

SCHEMA = json.loads(
    resources.files("memberbound.release").joinpath("record.schema.json").read_text("utf-8")
)
QUICK = [name for name in releases.NAMES if name != "network"]


def certificate_of(file):
    return json.loads(file.with_name(f"{file.name}.certificate.json").read_text(encoding="utf-8"))


@pytest.fixture
def drawn(monkeypatch):
    """Return every vector that gets noise: (coordinates, scale, step of its grid)."""
    met, plain = [], budgets.snap_to_grid

    def note(values, noise, steps):
        met.append((np.size(values), float(steps)))
        return plain(values, noise, steps)

    monkeypatch.setattr(budgets, "snap_to_grid", note)
    scales, release = [], budgets.noisy_release

    def record_scale(values, scale, source):
        scales.append(scale)
        return release(values, scale, source)

    monkeypatch.setattr(budgets, "noisy_release", record_scale)
    return lambda: [(size, scale, step) for (size, step), scale in zip(met, scales, strict=True)]


@pytest.mark.parametrize("name", QUICK)
def test_the_record_is_what_was_drawn(name, tmp_path, drawn):
    record = certificate_of(releases.make(name, tmp_path))["derivation"]
    asked = drawn()
    recorded = [part for part in record["measurements"] if part["vectors"]]
    # Every vector has the scale and the grid of one measurement, and none draws more than it
    # records.
    for part in recorded:
        own = [(size, step) for size, scale, step in asked if scale == part["noise_scale"]]
        assert 1 <= len(own) <= part["vectors"]
        assert {step for _, step in own} == {part["grid_step"]}
        coordinates = sum(size for size, _ in own)
        # Named texts and classes: two counts, for any number of them in the table.
        named = coordinates != part["coordinates"]
        assert not named or (part["name"], coordinates > part["coordinates"]) in [
            ("classes of the target", False),
            ("histograms of values", True),
            ("histograms of values", False),
        ]
    assert {scale for _, scale, _ in asked} == {part["noise_scale"] for part in recorded}


@pytest.mark.parametrize("name", QUICK)
def test_the_record_adds_up_in_rationals(name, tmp_path):
    certificate = certificate_of(releases.make(name, tmp_path))
    record = certificate["derivation"]
    total = Fraction(0)
    for part in record["measurements"]:
        if part["vectors"]:
            shift = (
                part["vectors"]
                * (Fraction(part["sensitivity"]) / Fraction(part["noise_scale"])) ** 2
            )
            assert shift <= Fraction(part["mu"]) ** 2 <= shift * (1 + Fraction(1, 10**12))
            total += shift
        share = (Fraction(part["mu"]) / Fraction(record["mu"])) ** 2
        assert abs(Fraction(part["budget_share"]) / share - 1) < Fraction(1, 10**12)
    assert total <= Fraction(record["mu"]) ** 2
    for part in record["slacks"]:
        assert Fraction(part["amount"]) >= part["count"] * Fraction(part["each"])
    assert Fraction(record["slack"]) >= sum(Fraction(part["amount"]) for part in record["slacks"])
    counted = sum(part["coordinates"] for part in record["measurements"])
    assert counted <= record["slacks"][0]["count"]
    jsonschema.validate(certificate, SCHEMA)
    assert certificate[SEAL] == seal(certificate)


def test_the_record_of_a_network_is_what_was_drawn(tmp_path, drawn):
    pytest.importorskip("opacus")
    certificate = certificate_of(releases.make("network", tmp_path))
    jsonschema.validate(certificate, SCHEMA)
    (steps,) = certificate["derivation"]["sampled"]
    own = [(size, step) for size, scale, step in drawn() if scale == steps["noise_scale"]]
    assert sum(size for size, _ in own) == steps["coordinates"]
    assert {step for _, step in own} == {steps["grid_step"]}
    assert steps["steps"] == 80
    multiplied = Fraction(steps["noise_multiplier"]) * Fraction(steps["sensitivity"])
    assert multiplied <= Fraction(steps["noise_scale"]) <= multiplied * (1 + Fraction(1, 10**12))
    assert certificate["mu"] is None
    assert certificate["derivation"]["mu"] is None


@pytest.mark.parametrize("texts", [2, 3, 200])
def test_the_record_does_not_tell_how_many_texts_a_table_holds(texts):
    """Two counts differ between neighbours; the number of counts is secret."""
    notes = [f"text {k % texts}" for k in range(4000)]
    table = pd.DataFrame({"note": notes, "kind": ["a", "b"] * 2000})
    made = summarize(table, statistic="contingency", columns=["note", "kind"], eta=0.3,
                     insecure_seed=1)  # fmt: skip
    named = made.released.budget.shares[0].noise
    assert (named.coordinates, made.budget["histograms of values"] > 0) == (4, True)
    made = synthesize(table, eta=0.3, insecure_seed=1)
    looks = [share.noise.coordinates for share in made.model.budget.shares[:2]]
    # The cells of numbers and missing values by format, and two texts, of two columns.
    assert looks == [2 * (FirstCells(None, named=True).count + 2), 2 * 2]


def test_a_loaded_model_keeps_its_record(tmp_path):
    first = releases.make("model", tmp_path)
    save(load(first), tmp_path / "again.json")
    again = certificate_of(tmp_path / "again.json")
    assert again["derivation"] == certificate_of(first)["derivation"]
    assert again["groups"] == certificate_of(first)["groups"]


def test_canonical_json_is_the_same_for_the_same_content():
    first = {"b": [0.1, 1e-9, 4.0, 1e16], "a": {"z": None, "ä": True}, "𝔘": 1}
    second = dict(reversed(list(first.items())))
    text = '{"a":{"z":null,"\\u00e4":true},"b":[0.1,1e-09,4.0,1e+16],"\\ud835\\udd18":1}'
    assert canonical_json(first) == canonical_json(second) == text.encode()
    sealed = first | {SEAL: "x", "replaces": {}}
    assert seal(sealed) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("names", [0, 1, 40])
def test_slack_by_reason_adds_up(names):
    slack = Slack(10_000, names)
    assert Fraction(slack.total) >= sum(Fraction(part.amount) for part in slack.parts)
    assert Fraction(slack.total) >= 10_000 * (
        42 * Fraction(2) ** -46 + Fraction(2) ** -70
    ) + names * Fraction(1e-9)
    assert len(slack.parts) == 1 + (names > 0)


def test_groups_of_a_budget_are_those_of_the_normal_law():
    budget = Budget.for_eta(0.05, slack=Slack(10**6))
    for records in (1, 2, 5, 10):
        group = budget.group_curve(records)
        exact = GaussianCurve(records * budget.mu).eta
        assert exact < group.eta <= exact + 1.001 * records * budget.slack
    # A household of four, in the words of the theory.
    assert math.ceil(1e3 * budget.group_curve(4).accuracy()) == 693
