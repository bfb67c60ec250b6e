"""``compare``: numbers stay those of their study, and other differences are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

import memberbound
from memberbound.quantities import numbers_in
from report.sample import partial, sample


def later(**question: Any) -> dict[str, Any]:
    """The sample as it might look half a year after: a lower ceiling, another date."""
    report = sample()
    report["run"]["started"] = "2027-05-16T04:00:00+00:00"
    report["question"] |= question
    for row in report["sandwich"]:
        if row["subject"] == "noise-every":
            row["accuracy_upper"] = 0.52
    for remedy in report["remedies"]:
        if remedy["recommended"]:
            remedy["accuracy_upper"] = 0.52
    return report


def test_two_reports_side_by_side() -> None:
    found = memberbound.compare(sample(), later())
    said = found.to_dict()
    assert said["same_data"] is True
    assert said["settings"] == {}
    rows = {(row["subject"], row["record"]): row for row in said["rows"]}  # type: ignore[attr-defined]
    every = rows["noise-every", "worst"]
    assert every["before"]["upper"] == pytest.approx(0.55)
    assert every["after"]["upper"] == 0.52
    # Nothing that is not proved is printed as a bound.
    assert rows["model", "worst"]["after"]["upper"] is None
    assert "≤ 55 % → ≤ 52 %" in found.sentence
    assert "tables are different" not in found.sentence
    assert "no guarantee" in found.summary()
    assert all(len(line) <= 80 for line in found.summary().splitlines()[1:])
    undeclared = [
        p for p, _, side in numbers_in(json.loads(json.dumps(said)), found.SIDES) if not side
    ]
    assert undeclared == []


def test_other_differences_are_reported() -> None:
    other = later(eta=0.1, seed=3)
    other["data"]["sha256"] = "0" * 64
    said = memberbound.compare(sample(), other).sentence
    assert "The tables are different." in said
    assert "Changed options: eta, seed." in said


def test_history_is_in_the_order_of_time() -> None:
    found = memberbound.compare(later(), sample(), earlier=[partial()])
    dates = [study.started for study in found.history]
    assert dates == sorted(dates)
    assert len(dates) == 3
    assert len(found.rows) == len(memberbound.compare(sample(), later()).rows)


def test_a_subject_of_one_report_only_is_shown_beside_a_dash() -> None:
    found = memberbound.compare(partial(), sample())
    alone = [row for row in found.rows if row.before is None]
    assert alone
    assert any(" – " in line for line in found.summary().splitlines())
