"""The report's format: accepted reports, and one broken report for each important rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from memberbound.errors import InputError
from memberbound.report import model
from report import sample as reports

_GONE = object()


def _put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Return how a value of a report is changed, or taken away."""
    *parents, last, value = path

    def change(report: dict[str, Any]) -> None:
        node: Any = report
        for part in parents:
            node = node[part]
        if value is _GONE:
            del node[last]
        else:
            node[last] = value

    return change


def _result(step: str, *path: Any) -> Callable[[dict[str, Any]], None]:
    steps = [record["id"] for record in reports.sample()["steps"]]
    return _put("steps", steps.index(step), "result", *path)


#: A change that breaks the report, and the word that the sentence must have: one for each rule.
BROKEN: tuple[tuple[Callable[[dict[str, Any]], None], str], ...] = (
    (_put("schema", "memberbound-report/1"), "schema 'memberbound-report/4'"),
    (_put("schema", _GONE), "got another JSON object"),
    (_put("verdict", _GONE), "'verdict'"),
    (_put("extra", 1), "without 'extra'"),
    (_put("command", "audit"), "report.command must be 'study'"),
    (_put("verdict", "sentence", ""), "report.verdict.sentence"),
    (_put("question", "eta", 0.5), "report.question.eta must be less than 0.5"),
    (_put("question", "eta", "0.05"), "report.question.eta must be a valid number"),
    (_put("question", "columns", "a"), "report.question.columns"),
    (_put("data", "rows", 5.5), "report.data.rows must be a valid integer"),
    (_put("data", "sha256", "abc"), "report.data.sha256"),
    (_put("remedies", 0, "loss_estimate", 10**400), "loss_estimate must be a finite number"),
    (_result("audit", "records", "x"), "audit.records must be an object"),
    (
        _result("audit", "records", "most_exposed", [1]),
        "most_exposed[0] must be an object",
    ),
    (_result("population", "success_blind", "x"), "population.success_blind must"),
    (_result("explain", "epsilon", True), "explain.epsilon must be a valid number"),
    # A kind is never mistaken for another.
    (_put("sandwich", 0, "accuracy_lower", 1.01), "accuracy_lower must be less"),
    (_put("sandwich", 2, "accuracy_upper", 0.4), "accuracy_upper must be greater"),
    (_put("sandwich", 0, "accuracy", 0.6), "without 'accuracy'"),
    (_put("sandwich", 0, "subject", "oracle"), "report.sandwich[0].subject"),
    (_put("roc", 0, "kind", "audit"), "report.roc[0].kind"),
    (_put("roc", 0, "tpr", [0.1, 0.2]), "report.roc[0].tpr must be as long as fpr"),
    (_put("exposure", "counts", [1, 2]), "exposure.edges"),
    (_put("exposure", "counts", 3, -1), "exposure.counts[3] must be greater"),
    (_put("steps", []), "report.steps must have at least 1"),
    (_put("steps", 0, "result", "theorems", _GONE), "'theorems'"),
    (_put("ledger", 0, "id", "no such id"), "report.ledger[0].id"),
    (_put("run", "started", "yesterday"), "report.run.started"),
    # Values that are not JSON.
    (_put("question", "eta", float("nan")), "plain JSON"),
    (_put("steps", 0, "result", "rows", {1, 2}), "plain JSON"),
    (_put("data", "name", "\ud800"), "surrogate"),
)


#: Rules that the schema cannot express: about two fields at once, about the verbs' own
#: dictionaries, and about values outside JSON.
BEYOND_SCHEMA = (
    "as long as",
    "edges must",
    "audit.",
    "explain.",
    "population.",
    "plain JSON",
    "surrogate",
    "finite",
)


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(model.document())
    return Draft202012Validator(model.document())


@pytest.mark.parametrize("build", reports.REPORTS)
def test_reports_are_accepted(build: Callable[[], dict[str, Any]], validator: Any) -> None:
    model.parse_report(build())
    assert validator.is_valid(build())


@pytest.mark.parametrize(("change", "named"), BROKEN, ids=[named for _, named in BROKEN])
def test_a_broken_report_is_refused_by_the_reader_and_by_the_schema(
    change: Callable[[dict[str, Any]], None], named: str, validator: Any
) -> None:
    report = reports.sample()
    change(report)
    with pytest.raises(InputError) as refused:
        model.parse_report(report)
    sentence = str(refused.value)
    assert named in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400
    if not any(words in sentence for words in BEYOND_SCHEMA):
        assert not validator.is_valid(report)


def test_endless_nesting_is_refused() -> None:
    report = reports.sample()
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    report["steps"][0]["result"]["deep"] = deep
    with pytest.raises(InputError, match="nested"):
        model.parse_report(report)
    # Unwound by hand: freeing it at once would nest as deeply.
    while deep:
        deep = deep.pop()


def test_reading_restores_the_written_report(tmp_path: Path) -> None:
    report = reports.hostile()
    path = tmp_path / "report.json"
    text = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")
    assert model.read(path).to_json() == text, "the order of the keys, too"
    assert model.read(path).to_dict() == report


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "must be JSON"),
        (b"{", "must be JSON"),
        (b"\xff\xfe\x00", "must be JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"schema": "memberbound-report/9"}', "must have schema 'memberbound-report/4'"),
        (b'{"schema": NaN}', "finite numbers, got NaN"),
        (b"[" * 200_000, "nested"),
    ],
)
def test_read_reports_the_defect(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=named) as refused:
        model.read(path)
    assert str(tmp_path) not in str(refused.value)


def test_whole_numbers_may_be_written_without_a_point() -> None:
    """As a browser writes them."""

    def rewrite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rewrite(item) for key, item in value.items()}
        if isinstance(value, list):
            return [rewrite(item) for item in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    assert model.parse_report(rewrite(reports.sample())) == model.parse_report(reports.sample())
