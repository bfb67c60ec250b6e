"""``explain`` over HTTP: the command line's numbers, and no question that hurts."""

import asyncio
import json
from xml.etree import ElementTree

import pytest

import memberbound
from memberbound.faces.web.processes import Calculations, Limits, Processes, RefusedError
from memberbound.quantities import marked, percent
from web.conftest import in_a_loop

QUESTIONS = [
    {"epsilon": 8, "delta": 1e-5},
    {"gdp": 1.5, "fpr": [0.2, 0.003], "prior": 0.1},
    {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 500, "nu": 0.3, "lam": 2.0},
    {"target_eta": 0.05, "delta": 1e-6},
    {"target_tpr": 0.05, "fpr": 0.01, "adjacency": "add-remove"},
]


@pytest.mark.parametrize("options", QUESTIONS, ids=str)
def test_explain_is_the_functions_dictionary(client, options):
    expected = memberbound.explain(**options).to_dict()
    assert client.post("/api/explain", json=options).json() == json.loads(json.dumps(expected))


@pytest.mark.parametrize("options", QUESTIONS, ids=str)
def test_the_chart_of_a_question_has_the_numbers_of_its_answer(client, options):
    linear, log = (
        client.post("/api/explain/chart", params={"scale": scale}, json=options).json()
        for scale in ("linear", "log")
    )
    assert linear["svg"] != log["svg"]
    assert {**linear, "svg": ""} == {**log, "svg": ""}
    assert ElementTree.fromstring(linear["svg"]).get("role") == "img"
    shown = {row[0]: row[1] for row in linear["rows"]}
    for fpr, tpr in memberbound.explain(**options).tpr_upper.items():
        if float(fpr) > 0:
            expected = str(marked(min(1.0, tpr), "certificate", "tpr"))
            assert shown[percent(float(fpr), "given")] == expected
            assert f"{expected} at {percent(float(fpr), 'given')} false alarms" in linear["alt"]


REFUSED = [
    ({}, "the guarantee must be given"),
    ({"epsilon": -1}, "epsilon must be at least 0"),
    ({"epsilon": 1, "gdp": 1}, "in one way"),
    ({"epsilon": "8"}, "epsilon"),
    ({"epsilon": True}, "epsilon"),
    ({"epsilon": 1, "nope": 2}, "nope"),
    ({"epsilon": 1, "fpr": [0.1] * 51}, "fpr"),
    ({"epsilon": 1, "adjacency": "x"}, "adjacency"),
    ({"noise_multiplier": 1, "sample_rate": 0.1, "steps": 10**13}, "steps"),
    ({"noise_multiplier": 1, "sample_rate": 0.1, "steps": 1.5}, "steps"),
    ({"target_advantage": 1e-9, "sample_rate": 0.3, "steps": 10**12}, "noise multiplier"),
]


def test_a_run_that_leaves_nothing_private_is_answered(client):
    """No lattice fits it: a bound that says nothing, not a server that is gone."""
    run = {"noise_multiplier": 0.1358, "sample_rate": 3.1895e-8, "steps": 91349085925}
    answer = client.post("/api/explain", json=run)
    assert answer.status_code == 200
    assert answer.json() == memberbound.explain(**run).to_dict()
    assert answer.json()["advantage_upper"] == 1
    chart = client.post("/api/explain/chart", json=run).json()
    assert {row[1] for row in chart["rows"]} == {"no guarantee"}


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[str(o)[:60] for o, _ in REFUSED])
@pytest.mark.parametrize("path", ["/api/explain", "/api/explain/chart"])
def test_what_cannot_be_explained_is_refused_with_a_sentence(client, path, options, words):
    answer = client.post(path, json=options)
    assert answer.status_code == 422
    assert set(answer.json()) == {"error"}
    assert words in answer.json()["error"]
    assert answer.json()["error"].endswith(".")


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 400, "1" + "0" * 5000]
)
@pytest.mark.parametrize("name", ["epsilon", "gdp", "uniform", "steps"])
def test_numbers_out_of_this_world_are_refused(client, name, number):
    path, content = "/api/explain", f'{{"{name}": {number}}}'
    if name == "uniform":
        path, content = "/api/jobs", f'{{"verb": "plan", "options": {content}}}'
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}


def test_extreme_numbers_are_answered(client):
    for options in (
        {"epsilon": 1e308},
        {"gdp": 1e308},
        {"gdp": 5e-324},
        {"epsilon": 0, "delta": 1},
    ):
        answer = client.post("/api/explain", json=options)
        assert answer.status_code == 200, (options, answer.text)
        assert 0 <= answer.json()["advantage_upper"] <= 1


def test_a_question_that_takes_too_long_is_refused_and_the_next_one_answered(client, restricted):
    slow = {"target_tpr": 0.2384, "fpr": 0.004512, "sample_rate": 4.9615e-6, "steps": 21649149}
    restricted(calculation_seconds=0.5)
    assert client.post("/api/explain", json={"epsilon": 1}).status_code == 200
    answer = client.post("/api/explain", json=slow)
    assert answer.status_code == 422
    assert "within 0.5 seconds" in answer.json()["error"]
    restricted()
    assert client.post("/api/explain", json={"epsilon": 1}).status_code == 200


def test_too_many_waiting_questions_are_refused():
    # The pool itself: one at work, one allowed in all.
    async def crowd():
        pool = Calculations(Limits(calculations=1, waiting=3), Processes(forks=False))
        asked = [pool.ask("explain", {"epsilon": float(e)}) for e in range(5)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        await pool.close()
        return found

    found = in_a_loop(crowd())
    refused = [r for r in found if isinstance(r, RefusedError)]
    assert [r.status for r in refused] == [429, 429]
    assert [r["epsilon"] for r in found if isinstance(r, dict)] == [0.0, 1.0, 2.0]


def test_nobody_computes_for_somebody_who_left():
    async def left():
        return True

    async def ask():
        pool = Calculations(Limits(), Processes())
        with pytest.raises(RefusedError, match="given up"):
            await pool.ask("explain", {"epsilon": 1.0}, left)
        await pool.close()

    in_a_loop(ask())


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 8, "delta": 1e-5, "baseline": [0.1]},
        {"epsilon": 60},
        {"target_eta": 0.05, "delta": 1e-5, "prior": 0.1},
        {"target_security": 0.8, "sample_rate": 0.01, "steps": 100, "delta": 1e-5},
        {"gdp": 1.5, "fpr": 0.02},
    ],
    ids=str,
)
def test_figures_are_on_the_safe_side(client, options):
    answer = memberbound.explain(**options)
    shown = client.post("/api/explain/figures", json=options).json()
    texts = {figure["name"]: figure["text"] for figure in shown["figures"]}
    assert texts["accuracy_upper"] == str(marked(answer.accuracy_upper, "certificate"))
    assert texts["eta_upper"] == str(marked(answer.eta_upper, "certificate", "eta", 6))
    security = marked(answer.security_lower, "certificate", "security", 6)
    assert texts["security_lower"] == str(security)
    first = shown["figures"][0]["name"]
    if "target_eta" in options:  # a larger ε would break the promise
        assert first == "epsilon"
        assert 0 <= answer.epsilon - float(texts["epsilon"].removeprefix("= ")) < 1e-6
    elif "target_security" in options:  # so would less noise
        assert first == "noise_multiplier"
        least = answer.to_dict()["noise_multiplier"]
        assert 0 <= float(texts[first].removeprefix("= ")) - least < 1e-5
    else:
        assert first == "accuracy_upper"
    rate = min(answer.tpr_upper, key=lambda rate: abs(float(rate) - 0.01))
    assert shown["rate"] == percent(float(rate), "given")
    assert shown["identified"] == str(marked(answer.tpr_upper[rate], "certificate"))


def test_equivalents_of_a_question(client):
    found = client.post("/api/explain/figures", json={"epsilon": 8, "fpr": [0.1, 0.01]}).json()
    assert found["command"] == "memberbound explain --epsilon 8.0 --fpr 0.1 --fpr 0.01 --json"
    assert "memberbound.explain(epsilon=8.0, fpr=[0.1, 0.01])" in found["python"]


def test_health(client):
    found = client.get("/api/health").json()
    assert found["version"] == memberbound.__version__
    assert found["limits"]["rows"] == 20_000
    assert {"explain", "certify", "study"} <= set(found["verbs"])
