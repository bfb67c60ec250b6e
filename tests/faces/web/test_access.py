"""Access control: hosts, origins, tokens, bodies, and the headers of every response."""

import re
from pathlib import Path

import pytest

from memberbound.errors import InputError
from memberbound.faces.serving import Listening, is_loopback
from memberbound.faces.web.access import Policy
from web.conftest import SMALL, open_client

TOKEN = "correct-horse-battery-staple"
JSON = {"content-type": "application/json"}
OURS = "http://127.0.0.1:8000"
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
EMBEDDED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}

# ---- hosts and pages of others ------------------------------------------------------------

#: Hosts that are ours, and those that are not.
OWN = ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000")
FOREIGN = (
    *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("10.0.0.7", "127.0.0.1@evil.example", "", "[::1", "127.0.0.1:99999999", "127.0.0.1/x"),
    "127.0.0.1 evil.example",
)
#: Headers → the status of a question with them: whatever a foreign page starts is refused.
QUESTIONS = [
    *(({"host": host}, 200) for host in OWN),
    *(({"host": host}, 403) for host in FOREIGN),
    ({"origin": OURS, "sec-fetch-site": "same-origin"}, 200),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://127.0.0.1:9000"}, 403),
    ({"origin": "http://127.0.0.1:8000.evil.example"}, 403),
    ({"origin": "file://127.0.0.1:8000"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
    (LINK, 403),
]
#: A foreign page may link to ours, but read nothing.
PAGES = [
    *(("/", {"host": host}, 403) for host in FOREIGN),
    ("/static/index.html", {"host": "evil.example"}, 403),
    ("/api/health", {"host": "evil.example"}, 403),
    ("/api/jobs", EMBEDDED, 403),
    ("/static/index.html", EMBEDDED, 403),
    ("/api/jobs", LINK, 403),
    ("/", LINK, 200),
]


@pytest.mark.parametrize(("headers", "status"), QUESTIONS, ids=str)
def test_questions_of_foreign_hosts_and_pages_are_refused(client, headers, status):
    answer = client.post("/api/explain", json={"epsilon": 1}, headers=headers)
    assert answer.status_code == status
    assert status == 200 or set(answer.json()) == {"error"}


@pytest.mark.parametrize(("path", "headers", "status"), PAGES, ids=str)
def test_foreign_pages_read_nothing_but_may_link_here(client, path, headers, status):
    assert client.get(path, headers=headers).status_code == status


def test_without_the_host_check_a_foreign_host_would_be_answered(monkeypatch):
    monkeypatch.setattr(Policy, "accepts_host", lambda self, host: True)
    with open_client() as client:
        assert client.get("/api/health", headers={"host": "evil.example"}).status_code == 200


def test_a_server_on_all_interfaces_answers_to_addresses_and_its_names():
    policy = Listening("0.0.0.0", 0, TOKEN, ("Lab.example",)).policy()
    named = ("192.168.1.5:80", "[fe80::1]:80", "lab.example", "evil.example")
    assert [policy.accepts_host(host) for host in named] == [True, True, True, False]
    one = Listening("192.168.1.5", 0, TOKEN).policy()
    assert [one.accepts_host(host) for host in ("192.168.1.6", "192.168.1.5:1")] == [False, True]


def test_nothing_is_shared_across_origins(client):
    asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    preflight = client.options("/api/explain", headers=asked)
    assert preflight.status_code == 405
    for answer in (preflight, client.post("/api/explain", json={"epsilon": 1})):
        assert not [name for name in answer.headers if name.startswith("access-control")]


# ---- token --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded():
    with open_client(SMALL, Policy(token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/api/health"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"cookie": "memberbound_8000=x"}, 401),
        ({"cookie": f"memberbound_8000={TOKEN}"}, 401),
        ({"cookie": '\x01=";'}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer {TOKEN}"}, 200),
    ],
    ids=str,
)
def test_without_the_token_nothing_is_answered(guarded, path, headers, status):
    answer = guarded.get(path, headers=headers)
    assert answer.status_code == status
    assert TOKEN not in answer.text


def test_a_link_with_the_token_gives_a_cookie_that_does_not_hold_it():
    with open_client(SMALL, Policy(token=TOKEN)) as client:
        answer = client.get(f"/?a=1&token={TOKEN}&b=%2F", follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/?a=1&b=%2F"
        cookie = answer.headers["set-cookie"]
        assert set(cookie.split("; ")[1:]) == {"HttpOnly", "Path=/", "SameSite=lax"}
        assert TOKEN not in cookie
        assert client.get("/api/health").status_code == 200
        client.cookies.clear()
        assert client.get("/api/health").status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        assert client.post(f"/api/explain?token={TOKEN}", json={}).status_code == 401
        away = client.get(f"//evil.example/x?token={TOKEN}", follow_redirects=False)
        assert not away.headers.get("location", "/x").startswith(("//", "http"))
        client.cookies.clear()
        broken = client.get(f"/a%0d%0aSet-Cookie:b=1/é?token={TOKEN}", follow_redirects=False)
        assert broken.headers["location"] == "/a%0D%0ASet-Cookie%3Ab%3D1/%C3%A9"


def test_a_link_from_elsewhere_opens_with_the_cookie_but_reads_nothing():
    """Browsers send a Lax cookie along with such a link, which opens pages only."""
    with open_client(SMALL, Policy(token=TOKEN)) as client:
        client.get(f"/?token={TOKEN}", follow_redirects=False)
        assert client.get("/", headers=LINK).status_code == 200
        assert client.get("/api/jobs").status_code == 200
        assert client.get("/api/jobs", headers=LINK).status_code == 403
        assert client.post("/api/explain", json={}, headers=LINK).status_code == 403


def test_the_cookie_of_one_server_does_not_unlock_another():
    with open_client(SMALL, Policy(token=TOKEN)) as first:
        first.get(f"/?token={TOKEN}", follow_redirects=False)
        stolen = dict(first.cookies)
    with open_client(SMALL, Policy(token=TOKEN)) as second:
        second.cookies.update(stolen)
        assert second.get("/api/health").status_code == 401


# ---- where it listens ---------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "127.0.0.1.x"])
def test_another_host_without_a_token_is_refused(host):
    with pytest.raises(InputError, match="token"):
        Listening(host)


def test_addresses_of_this_machine():
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    with pytest.raises(InputError, match="at least 16"):
        Listening("0.0.0.0", 0, "short")
    with pytest.raises(InputError, match="port"):
        Listening(port=70000)
    assert Listening("::1", 1).address(99) == "http://[::1]:99/"
    assert (
        Listening("0.0.0.0", 1, "a b" * 6).address(9).startswith("http://127.0.0.1:9/?token=a%20")
    )


# ---- bodies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"\xff\xfe{}", 422),
        (b"[" * 100_000, 400),
        (b'{"adjacency": "\\ud800"}', 422),
        (b"[]", 422),
        (b" " * 200_001, 413),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bodies_that_are_no_question(client, body, status):
    for path in ("/api/explain", "/api/jobs"):
        answer = client.post(path, content=body, headers=JSON)
        assert answer.status_code == status, answer.text
        assert set(answer.json()) == {"error"}
    form = client.post("/api/explain", data={"epsilon": "1"})
    assert form.status_code in (400, 422)


def test_a_body_must_declare_its_size(client):
    endless = (b" " * 10_000 for _ in range(100))
    assert client.post("/api/explain", content=endless, headers=JSON).status_code == 413
    wrong = client.post("/api/explain", content=b"{}", headers=JSON | {"content-length": "-1"})
    assert wrong.status_code in (400, 413)


# ---- headers of answers -------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/static/app.css", "/api/health", "/nothing", "/api/jobs/x"])
def test_every_answer_is_locked_down(client, path):
    headers = client.get(path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe-inline" not in policy["script-src"] + policy["default-src"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    # A file of the pages may be cached in the browser but must be revalidated; an answer may not.
    page = path == "/" or path.startswith("/static/")
    assert headers["cache-control"] == ("private, no-cache" if page else "no-store")
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


# ---- files of the pages -------------------------------------------------------------------


def test_pages_come_from_a_fixed_list(client):
    assert client.get("/").headers["content-type"].startswith("text/html")
    script = client.get("/static/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert client.get("/static/plotly.min.js").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/../access.py",
        "/static/%2e%2e/access.py",
        "/static/..%2faccess.py",
        "/static//etc/passwd",
        "/static/%00",
        "/access.py",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/api/jobs/",
    ],
)
def test_other_host_names_are_rejected(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_wrong_methods(client):
    for method, path in (("GET", "/api/explain"), ("POST", "/"), ("PUT", "/api/files")):
        answer = client.request(method, path, headers=JSON)
        assert answer.status_code == 405
        assert set(answer.json()) == {"error"}


def test_an_internal_error_is_reported_without_details(client, monkeypatch, caplog):
    def broken(self):
        raise KeyError("Jane Doe")

    monkeypatch.setattr("memberbound.faces.web.jobs.Jobs.__iter__", broken)
    answer = client.get("/api/jobs")
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed at this request."}
    assert "content-security-policy" in answer.headers
    # Details are in a private file, which the log names and the response does not.
    kept = Path(re.search(r"see (\S+\.txt)", caplog.text)[1])
    assert "Jane Doe" in kept.read_text(encoding="utf-8")
    assert "Jane Doe" not in caplog.text
    kept.unlink()
