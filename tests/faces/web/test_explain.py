"""``explain`` over HTTP: the command line's numbers, and no harmful question."""

import json
from xml.etree import ElementTree

import pytest

import memberbound
from memberbound.quantities import marked, percent

QUESTIONS = [
    {"epsilon": 8, "delta": 1e-5},
    {"gdp": 1.5, "fpr": [0.2, 0.003], "prior": 0.1},
    {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 500, "nu": 0.3, "lam": 2.0},
    {"target_tpr": 0.05, "fpr": 0.01, "adjacency": "add-remove"},
    # No lattice is large enough: a vacuous bound, not a crashed server.
    {"noise_multiplier": 0.1358, "sample_rate": 3.1895e-8, "steps": 91349085925},
    {"gdp": 5e-324},
]


@pytest.mark.parametrize("options", QUESTIONS, ids=str)
def test_explain_is_the_functions_dictionary(client, options):
    expected = memberbound.explain(**options)
    answer = json.loads(json.dumps(expected.to_dict()))
    assert client.post("/api/explain", json=options).json() == answer
    linear, log = (
        client.post("/api/explain/page", params={"scale": scale}, json=options).json()
        for scale in ("linear", "log")
    )
    assert linear["result"] == answer
    assert linear["command"].startswith("memberbound explain --")
    cells = [cell["text"] for block in linear["summary"] for row in block["rows"] for cell in row]
    assert cells
    assert all(text in expected.summary() for text in cells)
    chart = linear["charts"]["roc"]
    assert chart["svg"] != log["charts"]["roc"]["svg"]
    assert ElementTree.fromstring(chart["svg"]).get("role") == "img"
    shown = {row[0]: row[1] for row in chart["rows"]}
    for fpr, tpr in expected.tpr_upper.items():
        ceiling = str(marked(min(1.0, tpr), "certificate", "tpr"))
        assert shown[percent(float(fpr), "given")] == ceiling


REFUSED = [
    ({}, "the guarantee must be given"),
    ({"epsilon": -1}, "epsilon must be at least 0"),
    ({"epsilon": "8"}, "epsilon"),
    ({"epsilon": True}, "epsilon"),
    ({"epsilon": 1, "nope": 2}, "nope"),
    ({"epsilon": 1, "adjacency": "x"}, "adjacency"),
    ({"noise_multiplier": 1, "sample_rate": 0.1, "steps": 1.5}, "steps"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[str(o)[:60] for o, _ in REFUSED])
def test_bad_parameters_are_refused_with_one_sentence(client, options, words):
    answer = client.post("/api/explain", json=options)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "1" + "0" * 5000])
@pytest.mark.parametrize("name", ["epsilon", "steps"])
def test_numbers_out_of_this_world_are_refused(client, name, number):
    headers = {"content-type": "application/json"}
    answer = client.post("/api/explain", content=f'{{"{name}": {number}}}', headers=headers)
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}


def test_a_question_that_takes_too_long_is_refused_and_the_next_one_answered(client, restricted):
    slow = {"target_tpr": 0.2384, "fpr": 0.004512, "sample_rate": 4.9615e-6, "steps": 21649149}
    restricted(question_seconds=0.5)
    assert client.post("/api/explain", json={"epsilon": 1}).status_code == 200
    answer = client.post("/api/explain", json=slow)
    assert answer.status_code == 422
    assert "stopped after 0.5 seconds" in answer.json()["error"]
    restricted()
    assert client.post("/api/explain", json={"epsilon": 1}).status_code == 200
