"""Every answer has a readable repr, and gives its numbers as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jsonschema
import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.answers import (
    INTERNAL,
    Answer,
    Given,
    Inline,
    Lower,
    OmitEmpty,
    Sided,
    Upper,
    sides_of_class,
)
from memberbound.games import ModelGame
from memberbound.quantities import numbers_in
from memberbound.report.model import read
from memberbound.verbs.study import Study

REPORT = Path(__file__).parents[1] / "report" / "sample.json"


def releases(rng: np.random.Generator) -> list[Any]:
    rows = pd.DataFrame({"x": rng.uniform(size=200), "y": np.arange(200) % 2})
    public = {"x": [0, 1], "y": {"categories": [0, 1]}}
    return [
        memberbound.protect(rows, target="y", bounds=public, baseline=[0.1], insecure_seed=1),
        memberbound.summarize(rows, statistic="mean", columns=["x"], bounds=public),
        memberbound.protect_half(rows[["x"]], statistic="mean", insecure_seed=1),
    ]


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
        memberbound.audit(one_run=scores, claimed_epsilon=1),
        memberbound.audit_learner(scores, target="member", learner="tree", shadows=8, workers=1),
        *releases(rng),
        memberbound.bounds(pd.DataFrame({"age": [31.5, 47.25]})),
        memberbound.compare(REPORT, REPORT),
        Study(read(REPORT)),
    ]


def test_an_answer_reads_as_a_sentence_at_a_prompt(answers: list[Any]) -> None:
    for answer in answers:
        assert isinstance(answer, Answer)
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
            if row.text == "no guarantee":
                continue
            printed = Decimal(row.text.lstrip("≤≥≈ "))
            exact = Decimal(repr(row.value))
            if row.side == "upper":
                assert printed >= exact
            elif row.side == "lower":
                assert printed <= exact


def test_vacuous_bounds_are_not_printed() -> None:
    frame = memberbound.certify(pd.DataFrame({"x": range(9)}), roles={"x": "category"}).to_frame()
    said = dict(zip(frame["key"], frame["text"], strict=True))
    assert said["delta_upper"] == said["security_lower"] == "no guarantee"
    assert "≤ 1" not in set(frame["text"])


def test_an_answer_fits_its_schema(answers: list[Any]) -> None:
    # A study's dictionary is its report, with its own schema.
    declared = [answer for answer in answers if type(answer).to_dict is Answer.to_dict]
    assert len(declared) >= 5
    for answer in declared:
        fields = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        jsonschema.validate(fields, type(answer).json_schema())
        missing = type(answer).json_schema()["required"][-1]
        broken = {key: value for key, value in fields.items() if key != missing}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, type(answer).json_schema())


def test_a_number_without_a_side_is_refused() -> None:
    @dataclass(frozen=True)
    class Undeclared:
        leak: float

    with pytest.raises(TypeError, match="leak is a number without a side"):
        sides_of_class(Undeclared)


def test_an_answer_is_consistent_with_its_fields() -> None:
    answer = Nested(Inner(math.inf, (1.5, 2)), {"a": Inner(0.5, ())}, np.array([1.0, math.nan]))
    assert answer.to_dict()["inner"] == {"bound_upper": None, "pairs": [1.5, 2]}
    assert answer.to_dict()["bound_lower"] == 0.25
    assert answer.to_dict()["array"] == [1.0, None]
    assert "empty" not in answer.to_dict()
    assert Nested.SIDES == {
        "inner": {"bound_upper": "upper", "pairs": "given"},
        "by_name": {"*": {"bound_upper": "upper", "pairs": "given"}},
        "array": "estimate",
        "empty": "given",
        "bound_lower": "lower",
    }


@dataclass(frozen=True)
class Inner:
    bound_upper: Upper
    pairs: tuple[Given | int, ...]
    secret: object = field(default=None, metadata=INTERNAL)


@dataclass(frozen=True)
class Inlined:
    bound_lower: Lower = 0.25


@dataclass(frozen=True, eq=False, repr=False)
class Nested(Answer):
    VERB: ClassVar = "nested"
    inner: Inner
    by_name: Mapping[str, Inner]
    array: Annotated[Any, Sided("estimate")]
    empty: OmitEmpty[Given | None] = None
    inlined: Inline[Inlined] = field(default_factory=Inlined)
    game: ModelGame = field(default_factory=ModelGame)
    theorems: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


TWELVE = np.arange(12.0)[:, None]


@pytest.mark.parametrize(
    ("answer", "key", "direction"),
    [
        (lambda: memberbound.certify(uniform=20, n=100), "delta_upper", "upper"),
        (lambda: memberbound.plan(uniform=20, security=0.9), "security", "lower"),
        (lambda: memberbound.explain(epsilon=1.0), "advantage_upper", "upper"),
        (
            lambda: memberbound.population(np.arange(12.0)[:, None], epsilon=1.0),
            "eta_upper",
            "upper",
        ),
    ],
    ids=["certify", "plan", "explain", "population"],
)
def test_a_certified_number_is_a_certificate(answer, key, direction):
    """The answer's number, game and theorems are those of its certificate."""
    made = answer()
    proved, printed = made.certificate, made.to_dict()
    assert isinstance(proved, memberbound.Certificate)
    assert (proved.value, proved.direction) == (printed[key], direction)
    assert (proved.game, list(proved.theorems)) == (made.game, printed["theorems"])
    assert list(proved.assumptions) == printed["assumptions"]
    assert proved.confidence == printed.get("confidence", 1.0)
