"""The OpenAPI document: complete, and no request made from it brings the server down."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from memberbound.faces.web.limits import Limits
from web.conftest import open_client

schemathesis = pytest.importorskip("schemathesis")

#: No job starts: only acceptance and rejection of requests are tested here.
LIMITS = Limits(running=0, queued=50, question_seconds=1, upload_bytes=20_000, kept_files=3)


@pytest.fixture(scope="module")
def api():
    with open_client(LIMITS) as client:
        yield client


@pytest.fixture(scope="module")
def document(api):
    return api.get("/api/openapi.json").json()


def test_models_take_nothing_unknown(document):
    for name, schema in document["components"]["schemas"].items():
        if name.endswith(("Options", "Job")):
            assert schema["additionalProperties"] is False, name
            assert schema["description"]
    learner = json.dumps(document["components"]["schemas"]["AuditOptions"]["properties"]["learner"])
    assert "random-forest" in learner


@pytest.fixture(scope="module")
def schema(api):
    return schemathesis.openapi.from_dict(api.get("/api/openapi.json").json())


@pytest.mark.parametrize("negative", [False, True], ids=["valid", "invalid"])
@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=pytest.mark.long)])
def test_no_request_brings_the_server_down(api, schema, negative, examples):
    """Requests made from the document, valid ones and broken ones: every answer is an answer."""
    modes = schemathesis.GenerationMode
    mode = modes.NEGATIVE if negative else modes.POSITIVE
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        # An endpoint without arguments has no bad requests.
        if not negative or operation.body or operation.path_parameters:
            run(api, operation, mode, examples, seen)
    assert len(seen) == (11 if negative else 14)
    statuses = set().union(*seen.values())
    assert statuses <= {200, 202, 204, 303, 400, 403, 404, 405, 413, 422, 429}
    assert 422 in statuses
    assert negative or 200 in statuses


def run(api, operation, mode, examples, seen):
    strategy = operation.as_strategy(generation_mode=mode)

    @seed(20261116)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def check(case):
        request = case.as_transport_kwargs(base_url="http://127.0.0.1:8000")
        headers = {k: v for k, v in dict(request.get("headers") or {}).items() if k != "User-Agent"}
        answer = api.request(
            request["method"],
            request["url"],
            params=request.get("params"),
            content=body_of(request),
            headers=headers,
            follow_redirects=False,
        )
        seen.setdefault(operation.label, set()).add(answer.status_code)
        assert answer.status_code < 500, (request, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}, answer.text
        answer.read()

    check()


def body_of(request):
    if request.get("json") is not None:
        return json.dumps(request["json"]).encode()
    data = request.get("data")
    return data if isinstance(data, (bytes, str)) else None
