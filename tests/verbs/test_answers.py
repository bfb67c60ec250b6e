"""Every answer says what it is at a prompt, and gives its numbers as a table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.quantities import Readable, numbers_in
from memberbound.report.model import read
from memberbound.studies import Study

REPORT = Path(__file__).parents[1] / "report" / "sample.json"


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"score": rng.normal(size=60), "member": np.arange(60) % 2})
    return [
        memberbound.explain(epsilon=60),
        memberbound.certify(uniform=30, n=500),
        memberbound.plan(security=0.9, uniform=30),
        memberbound.population(rng.normal(size=(40, 1)), epsilon=4),
        memberbound.audit(scores),
        memberbound.bounds(pd.DataFrame({"age": [31.5, 47.25]})),
        memberbound.compare(REPORT, REPORT),
        Study(read(REPORT)),
    ]


def test_an_answer_reads_as_a_sentence_at_a_prompt(answers: list[Any]) -> None:
    for answer in answers:
        assert isinstance(answer, Readable)
        shown = repr(answer)
        assert shown.startswith(f"<{type(answer).__name__}: ")
        assert shown.count("\n") <= 3
        assert "object at 0x" not in shown


def test_the_table_holds_every_number_on_its_side(answers: list[Any]) -> None:
    for answer in answers:
        frame = answer.to_frame()
        assert list(frame.columns) == ["key", "value", "side", "text"]
        expected = list(numbers_in(answer.to_dict(), type(answer).SIDES))
        assert list(zip(frame["key"], frame["value"], strict=True)) == [
            (path, value) for path, value, _ in expected
        ]
        for row in frame.itertuples():
            if row.text == "nothing is proved":
                continue
            printed = Decimal(row.text.lstrip("≤≥≈ "))
            exact = Decimal(repr(row.value))
            if row.side == "upper":
                assert printed >= exact
            elif row.side == "lower":
                assert printed <= exact


def test_what_proves_nothing_is_not_printed_as_a_bound() -> None:
    frame = memberbound.certify(pd.DataFrame({"x": range(9)}), roles={"x": "category"}).to_frame()
    said = dict(zip(frame["key"], frame["text"], strict=True))
    assert said["delta_upper"] == said["security_lower"] == "nothing is proved"
    assert "≤ 1" not in set(frame["text"])
