"""Reports from a file: checked, shown without network and without an origin, and forgotten."""

import re

import pytest

from report.sample import hostile, sample


def view(client, report):
    answer = client.post("/api/report", json=report)
    assert answer.status_code == 200, answer.text
    return client.get(f"/api/views/{answer.json()['view']}")


def test_a_report_is_shown_with_its_own_policy(client):
    answer = view(client, sample())
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = dict(p.split(" ", 1) for p in answer.headers["content-security-policy"].split("; "))
    assert policy["sandbox"] == "allow-scripts allow-downloads"
    assert policy["connect-src"] == policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    nonce = re.fullmatch(r"'nonce-([\w-]{16,})'", policy["script-src"])
    assert nonce
    run = [s for s in re.findall(r"<script\b[^>]*>", answer.text) if "application/json" not in s]
    assert run == [f'<script nonce="{nonce[1]}">']
    assert "x-frame-options" not in answer.headers
    assert "x-content-type-options" in answer.headers
    chart = client.post("/api/report", json=sample()).json()["chart"]
    worst = [row for row in sample()["sandwich"] if row["record"] == "worst"]
    assert [row[0] for row in chart["rows"]] == [row["label"] for row in worst]
    # Every view has a new token, which no report can know in advance.
    assert nonce[1] not in view(client, sample()).text


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, "report.json of a study"),
        ({"schema": "memberbound-report/99"}, "schema"),
        ({"schema": "memberbound-report/3"}, "report"),
        (sample() | {"verdict": 3}, "verdict"),
        (sample() | {"extra": 3}, "extra"),
    ],
    ids=["empty", "other format", "nothing else", "wrong type", "more than known"],
)
def test_other_files_than_reports_are_refused(client, report, words):
    answer = client.post("/api/report", json=report)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert client.post("/api/report", json=[]).status_code == 422


def test_the_oldest_views_are_forgotten_beyond_the_limit(client, restricted):
    restricted(kept_views=1)
    first, second = [client.post("/api/report", json=sample()).json()["view"] for _ in range(2)]
    assert client.get(f"/api/views/{first}").status_code == 404
    assert client.get(f"/api/views/{second}").status_code == 200


@pytest.mark.browser
def test_a_hostile_report_reaches_nothing(served, open_page):
    import httpx

    made = httpx.post(f"{served}/api/report", json=hostile(), timeout=60)
    assert made.status_code == 200, made.text
    page = open_page(f"{served}/")
    address = f"{served}/api/views/{made.json()['view']}"
    page.goto(address)
    page.wait_for_selector("h1")
    assert page.evaluate("window.stolen") is None
    assert page.evaluate("self.origin") == "null"
    reached = "fetch('/api/jobs').then(() => 'reached', () => 'refused')"
    assert page.evaluate(reached) == "refused"
    # The browser reports the refusal, as intended, and nothing else.
    assert all("Content Security Policy" in text or "CORS" in text for text in page.complaints)
    page.complaints.clear()
    # The same request from a page of ours is answered: the test above can fail.
    page.goto(f"{served}/")
    assert page.evaluate(reached) == "reached"
